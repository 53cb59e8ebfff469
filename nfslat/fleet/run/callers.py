"""Shards of a server's capture in, who calls this server out, and which of the shards are a client's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nfslat.fleet.run.shards import Shard


@dataclass(frozen=True)
class Callers:
    """`names` are addresses that call the server, in order; `rows` which shards show something of an address."""

    names: tuple[str, ...]
    _rows: dict[str, list[int]]

    def rows(self, addresses: Collection[str]) -> list[int]:
        """Shards that show something of a client with these addresses, in their order."""
        return sorted({row for address in addresses for row in self._rows.get(address, ())})


def callers_of(shards: Sequence[Shard], servers: Collection[str]) -> Callers:
    """`servers` are addresses of the server."""
    rows: dict[str, list[int]] = {}
    names = set()
    for row, shard in enumerate(shards):
        own = _own(shard, frozenset(servers))
        names |= own
        # Of an address of the server all shards show something: only where it calls is it a client.
        for address in own | (set(shard.hosts) - set(servers)):
            rows.setdefault(address, []).append(row)
    return Callers(tuple(sorted(names)), rows)


def _own(shard: Shard, servers: frozenset[str]) -> set[str]:
    """Its callers, but for a server that calls another one: it is no client of itself."""
    hosts = set(shard.hosts)
    return {one for one in shard.callers if one not in servers or servers & (hosts - {one} or {one})}
