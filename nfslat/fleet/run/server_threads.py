"""The server's shards, by name -> tasks that find what its threads did, stretch by stretch; or the same here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run import stretches
from nfslat.fleet.run.pool import Pool
from nfslat.fleet.run.shards import Decode, read_shard
from nfslat.fleet.run.store import Store
from nfslat.fleet.run.stretches import Cut
from nfslat.fleet.run.threads import Stretch, Wide, find_all, find_stretch, wide_of
from nfslat.inflight.all_clients import ServerWide
from nfslat.model.decoded import Decoded


@dataclass(frozen=True)
class _Plan:
    """What a task needs to know of its stretch."""

    facts: str
    groups: tuple[tuple[int, ...], ...]  # numbers of the shards of each piece
    windows: Windows
    servers: tuple[str, ...]  # addresses of the server
    first: bool
    last: bool


@dataclass(frozen=True)
class InStretches:
    """A decoded capture of the server, and the `windows` of its time."""

    pool: Pool
    store: Store
    decode: Decode
    windows: Windows
    servers: Sequence[str]
    priority: int

    def begin(self, done: Callable[[Wide], None], failed: Callable[[str], None]) -> list[Any]:
        """Submit all tasks. What comes back stands for a `Stretch` each, with the rows of all shards."""
        decode = self.decode
        some = stretches.stretches(self.windows, decode.ops)
        groups = stretches.groups(decode.shards)
        cuts = [
            self._depend(stretches.cut, self.store, [decode.shards[at].name for at in group], decode.facts, some)
            for group in groups
        ]
        counts = [self._depend(Cut.counts, one) for one in cuts]
        found = []
        for at, windows in enumerate(some):
            plan = _Plan(
                decode.facts,
                tuple(map(tuple, groups)),
                windows,
                tuple(self.servers),
                at == 0,
                at == len(some) - 1,
            )
            pieces = [self._depend(Cut.piece, one, at) for one in cuts]
            found.append(self._depend(_find, self.store, plan, *counts, *pieces))
        small = [self._depend(Stretch.small, one) for one in found]
        self.pool.submit(done, failed, _wide, self.windows, *small, priority=self.priority)
        return found

    def _depend(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.pool.depend(function, *arguments, priority=self.priority)


def for_client(
    store: Store, names: Sequence[str], facts: str, windows: Windows, servers: Sequence[str], rows: Sequence[int]
) -> ServerWide:
    """What concerns the client whose shards are `rows` of the names, found in this process."""
    with store.scratch() as scratch:
        parts, of_all = stretches.slimmed(store, names, facts, scratch)
    return find_all(parts, of_all, windows, frozenset(servers)).for_parts(rows)


def _find(store: Store, plan: _Plan, *given: Any) -> Stretch:
    """`given`: the counts of all cuts, then the piece that each has of this stretch."""
    half = len(given) // 2
    facts = _facts(store, plan.facts)
    hidden = stretches.hidden_of(given[:half], facts)
    piece = stretches.put_together(given[half:], facts, plan.groups)
    return find_stretch(piece, hidden, plan.windows, frozenset(plan.servers), first=plan.first, last=plan.last)


def _facts(store: Store, name: str) -> Decoded:
    with store.scratch() as scratch:
        return read_shard(store, name, scratch)[1]


def _wide(windows: Windows, *found: Stretch) -> Wide:
    return wide_of(found, windows)
