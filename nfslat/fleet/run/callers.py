"""Pairs of hosts of a server's capture -> who calls this server, and which of the pairs are a client's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Conversation(NamedTuple):
    """Hosts that have something to say to each other, one or two, and those of them that call NFS; callbacks do not
    count."""

    hosts: tuple[str, ...]
    callers: tuple[str, ...]


@dataclass(frozen=True)
class Callers:
    """`names` are addresses that call the server, in order; `rows` which pairs show something of an address."""

    names: tuple[str, ...]
    _rows: dict[str, list[int]]

    def rows(self, addresses: Collection[str]) -> list[int]:
        """Numbers of the pairs that show something of a client with these addresses, in their order."""
        return sorted({row for address in addresses for row in self._rows.get(address, ())})


def callers_of(pairs: Sequence[Conversation], servers: Collection[str]) -> Callers:
    """`servers` are addresses of the server."""
    rows: dict[str, list[int]] = {}
    names = set()
    for row, pair in enumerate(pairs):
        own = _own(pair, frozenset(servers))
        names |= own
        # Of an address of the server all pairs show something: only where it calls is it a client.
        for address in own | (set(pair.hosts) - set(servers)):
            rows.setdefault(address, []).append(row)
    return Callers(tuple(sorted(names)), rows)


def _own(pair: Conversation, servers: frozenset[str]) -> set[str]:
    """Its callers, but for a server that calls another one: it is no client of itself."""
    hosts = set(pair.hosts)
    return {one for one in pair.callers if one not in servers or servers & (hosts - {one} or {one})}
