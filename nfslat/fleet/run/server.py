"""The server's capture, decoded once -> what is said of the server, and for each client its part of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nfslat import pipeline
from nfslat.decode.merge import merge
from nfslat.errors import InputError
from nfslat.fleet import model
from nfslat.fleet.compare.windows import Windows, plan
from nfslat.fleet.run.capture import CaptureFacts, decode_by_hosts
from nfslat.fleet.run.client import Half
from nfslat.fleet.run.points import Point
from nfslat.fleet.run.threads import ServerThreads, find_server_threads
from nfslat.inflight.all_clients import ServerWide, taken
from nfslat.model.decoded import Decoded
from nfslat.model.details import Met, no_details
from nfslat.model.tables import I64
from nfslat.select import nfs_ways


@dataclass(frozen=True)
class ServerBrief:
    """What the comparison of all clients needs to know of the server's capture."""

    facts: CaptureFacts
    callers: tuple[str, ...]  # addresses that call the server
    windows: Windows
    figures: model.Server


class Callers(NamedTuple):
    """`names` are addresses that call the server, in order; `of_host` which pairs of hosts show something of each."""

    names: tuple[str, ...]
    of_host: dict[str, list[int]]

    def rows(self, addresses: Collection[str]) -> list[int]:
        """Numbers of the pairs that show something of a client with these addresses, in their order."""
        return sorted({row for address in addresses for row in self.of_host.get(address, ())})


class ServerCapture:
    """The server's capture by pairs of hosts; what it did for all clients is worked out when it is first asked for."""

    def __init__(self, point: Point, without: Collection[str] = ()) -> None:
        """Decode it. `without`: addresses of hosts whose TCP segments are not kept. Raises ``InputError`` where none of
        its files can be read, or no NFS operation is in them."""
        self._point = point
        self._apart, self.facts = decode_by_hosts(point.name, point.files, without)
        if not self._apart.hosts:
            raise InputError("no NFS operation is in its capture", about=point.name)
        pairs = [(hosts, {client for client, _ in nfs_ways(part.ops).values()}) for hosts, part in self._apart.hosts]
        self.callers: Callers = callers_of(pairs, frozenset(point.addresses))
        self.windows = plan(self.facts.first_ns, self.facts.last_ns, self.facts.ops)

    @property
    def is_of_one_client(self) -> bool:
        """Does nobody else call the server?"""
        return len(self.callers.names) == 1

    def brief(self, captured: Collection[str]) -> ServerBrief:
        """`captured`: addresses of the clients with a capture of their own."""
        threads = self._threads
        figures = model.Server(
            name=self._point.name,
            addresses=list(self._point.addresses),
            clients=len(self.callers.names),
            clients_not_captured=[name for name in self.callers.names if name not in captured],
            ops=sum(one.ops for one in threads.windows),
            inflight=threads.inflight,
            windows=threads.windows,
            phases=threads.phases,
        )
        return ServerBrief(self.facts, self.callers.names, self.windows, figures)

    def half(self, addresses: Collection[str]) -> tuple[Half, ServerWide | None] | None:
        """What it shows of a client with these addresses, and what the server did for all, for the ops in it. None:
        nothing is shown. A capture with one client is compared as a whole, as `nfslat SERVER CLIENT` does."""
        every = range(len(self._apart.hosts))
        numbers: Sequence[int] = every if self.is_of_one_client else self.callers.rows(addresses)
        if not numbers:
            return None
        parts = tuple(self._apart.hosts[at][1] for at in numbers)
        half = Half(self._apart.source, self._apart.facts, parts)
        if self.is_of_one_client:
            return half, None
        wide = self._threads.wide
        return half, ServerWide(wide.seen, taken(wide.load, self.rows_of(numbers)))

    def rows_of(self, numbers: Sequence[int]) -> I64:
        """Which of all ops are those of some pairs of hosts, ascending."""
        return np.sort(np.concatenate([self._rows[at] for at in numbers]))

    @cached_property
    def _threads(self) -> ServerThreads:
        slim = [_of_threads(decoded) for _, decoded in self._apart.hosts]
        whole = pipeline.side_of(self._apart.source, merge(slim, self._apart.facts)).decoded
        return find_server_threads(whole, self.windows, self._point.addresses)

    @cached_property
    def _rows(self) -> list[I64]:
        """Where the ops of each pair of hosts are among all, which are in the order of their calls' first frames."""
        frames = [decoded.ops.call_first_frame for _, decoded in self._apart.hosts]
        place = np.empty(sum(map(len, frames)), dtype=np.int64)
        place[np.argsort(np.concatenate(frames), kind="stable")] = np.arange(len(place))
        return np.split(place, np.cumsum([len(one) for one in frames])[:-1])


def _of_threads(part: Decoded) -> Decoded:
    """Without details that say nothing of threads."""
    full = part.details
    of_ops = np.isin(full.turns.of, (Met.CONNECTION, Met.KIND))
    details = dataclasses.replace(
        no_details(),
        blocked=full.blocked,
        blocked_dropped=full.blocked_dropped,
        turns=full.turns.take(of_ops),
    )
    return dataclasses.replace(part, details=details)


def callers_of(pairs: Sequence[tuple[Collection[str], set[str]]], servers: frozenset[str]) -> Callers:
    """`pairs`: one or two hosts that have something to say to each other, and those of them that call NFS. `servers`
    are addresses of the server: one that calls another server is no client of itself."""
    rows: dict[str, list[int]] = {}
    names = set()
    for row, (hosts, callers) in enumerate(pairs):
        own = {one for one in callers if one not in servers or servers & ({*hosts} - {one} or {one})}
        names |= own
        # Of an address of the server all pairs show something: only where it calls is it a client.
        for address in own | ({*hosts} - servers):
            rows.setdefault(address, []).append(row)
    return Callers(tuple(sorted(names)), rows)
