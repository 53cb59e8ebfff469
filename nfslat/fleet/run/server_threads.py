"""The server's shards, by name -> tasks that find what its threads did, stretch by stretch; or the same here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run import stretches
from nfslat.fleet.run.kept import Kept, keep
from nfslat.fleet.run.pool import Pool
from nfslat.fleet.run.shards import Decode, read_facts
from nfslat.fleet.run.store import Store
from nfslat.fleet.run.stretches import Cut
from nfslat.fleet.run.threads import Stretch, Wide, find_all, find_stretch, server_wide, wide_of
from nfslat.inflight.all_clients import ServerWide
from nfslat.model.tables import I32, I64


@dataclass(frozen=True)
class _Plan:
    """What a task needs to know of its stretch."""

    facts: str
    groups: tuple[tuple[int, ...], ...]  # numbers of the shards of each piece
    windows: Windows
    servers: tuple[str, ...]  # addresses of the server
    first: bool
    last: bool


@dataclass(frozen=True, eq=False)
class Waits:
    """A stretch without its columns, which are in a file: of each shard its rows, and then each column."""

    stretch: Stretch
    name: str
    begins: I64  # of each shard's rows, and where the last ones end
    columns: int  # where nothing limits the threads the others are the first one

    def of_client(self, store: Store, shards: Sequence[int]) -> Stretch:
        """With the columns of the ops of some shards, in the order of their calls' first frames."""
        of_shards = [self._read(store, at) for at in shards]
        order = np.argsort(np.concatenate([rows for rows, _ in of_shards]))
        found = np.concatenate([columns for _, columns in of_shards], axis=1)[:, order]
        queue, least, most = found if self.columns > 1 else (found[0],) * 3
        load = self.stretch.load._replace(queue_ns=queue, queue_with_least_ns=least, queue_with_most_ns=most)
        return replace(self.stretch, load=load)

    def _read(self, store: Store, shard: int) -> tuple[I32, I64]:
        """Of one, in one piece: a request takes long where the store is far away."""
        begin, end = self.begins[shard : shard + 2].tolist()
        size, count = 4 + 8 * self.columns, end - begin
        content = store.own.read(self.name, size * begin, size * end)
        columns = np.frombuffer(content, np.int64, self.columns * count, offset=4 * count)
        return np.frombuffer(content, np.int32, count), columns.reshape(self.columns, count)


@dataclass(frozen=True)
class Shares:
    """What the server's threads did, for each client its part."""

    kept: Kept  # a list of `Waits`

    def of_client(self, store: Store, shards: Sequence[int]) -> ServerWide:
        """For the ops of some shards."""
        return server_wide([one.of_client(store, shards) for one in _waits(self.kept)])


@lru_cache(maxsize=1)  # the same for all clients
def _waits(kept: Kept) -> list[Waits]:
    found: list[Waits] = kept.value()
    return found


def find_threads(
    pool: Pool, store: Store, decode: Decode, windows: Windows, servers: Sequence[str], priority: int
) -> tuple[Wide, Shares]:
    """Of a decoded capture of the server, and the `windows` of its time. Raises ``TaskFailed``."""
    some = stretches.stretches(windows, decode.ops)
    groups = stretches.groups(decode.shards)
    cutting = [
        pool.submit(
            stretches.cut, store, [decode.shards[at].name for at in group], decode.facts, some, priority=priority
        )
        for group in groups
    ]
    cuts = [pool.result(one) for one in cutting]
    counts = [counted for counted, _ in cuts]
    finding = []
    for at, of in enumerate(some):
        plan = _Plan(decode.facts, tuple(map(tuple, groups)), of, tuple(servers), at == 0, at == len(some) - 1)
        pieces = [kept[at] for _, kept in cuts]
        finding.append(pool.submit(_find, store, plan, counts, pieces, priority=priority))
    found: list[Waits] = [pool.result(one) for one in finding]
    return wide_of([one.stretch for one in found], windows), Shares(keep(found, store))


def for_client(
    store: Store, names: Sequence[str], facts: str, windows: Windows, servers: Sequence[str], rows: Sequence[int]
) -> ServerWide:
    """What concerns the client whose shards are `rows` of the names, found in this process."""
    with store.scratch() as scratch:
        parts, of_all = stretches.slimmed(store, names, facts, scratch)
    return find_all(parts, of_all, windows, frozenset(servers)).for_parts(rows)


def _find(store: Store, plan: _Plan, counts: Sequence[Cut], pieces: Sequence[Kept]) -> Waits:
    """`counts` of all cuts, and the piece that each has of this stretch."""
    facts = read_facts(store, plan.facts)[1]
    hidden = stretches.hidden_of(counts, facts)
    piece = stretches.put_together([one.value() for one in pieces], facts, plan.groups)
    ends = {"first": plan.first, "last": plan.last}
    return keep_waits(find_stretch(piece, hidden, plan.windows, frozenset(plan.servers), **ends), store)


def keep_waits(found: Stretch, store: Store) -> Waits:
    """Write the columns of a stretch to what is the run's own in `store`."""
    load = found.load
    columns = [load.queue_ns, load.queue_with_least_ns, load.queue_with_most_ns]
    if all(one is load.queue_ns for one in columns):
        columns = columns[:1]
    name = store.new()
    with store.own.writing(name) as out:
        for rows in found.rows:
            for column in (rows, *(one[rows] for one in columns)):
                out.write(np.ascontiguousarray(column).data)
    begins = np.cumsum([0, *map(len, found.rows)])
    return Waits(found.small(), name, begins, len(columns))
