"""A server's shards -> what says something of its threads, cut into stretches of time, each of which is looked at by
itself: no task needs all calls of a long capture.

Some shards are cut by one task; a stretch is put together of what all of them have in it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nfslat.decode.xid_gaps import missing_calls
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run.joined import joined, slim
from nfslat.fleet.run.kept import Kept, keep
from nfslat.fleet.run.shards import Shard, read_facts, read_shard
from nfslat.fleet.run.store import Store
from nfslat.inflight.levels import hidden_share
from nfslat.model.decoded import Decoded
from nfslat.model.details import no_details
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Bool, State
from nfslat.pipeline import side_of

_LEAST_OPS, _MOST_OPS = 1_000_000, 20_000_000  # of a stretch, where calls come evenly
_STRETCHES = 32  # more only where they would be larger than that
_CUT_OPS = 4_000_000  # of the shards that one task cuts


@dataclass(frozen=True, eq=False)
class Piece:
    """What some shards have in a stretch of time."""

    calls: Decoded  # that came in it, in the order of their first frames
    rows: tuple[I32, ...]  # which of their ops are a shard's
    before: Decoded  # ops whose calls came before it, and that were answered in it or later


@dataclass(frozen=True, eq=False)
class Cut:
    """Some shards: a piece of each stretch, and what is counted of all of them."""

    pieces: tuple[Piece, ...]
    states: Counter[State]
    missing: int  # calls that gaps in the XIDs show

    def counts(self) -> Cut:
        """The same without its pieces."""
        return dataclasses.replace(self, pieces=())


def stretches(windows: Windows, ops: int, most_ops: int | None = None) -> list[Windows]:
    """As many windows together as have some million of the `ops`, on average."""
    most_ops = most_ops or min(max(ops // _STRETCHES, _LEAST_OPS), _MOST_OPS)
    count = min(max(-(-ops // most_ops), 1), windows.count)
    edges = [windows.count * at // count for at in range(count + 1)]
    return [
        Windows(windows.begin_ns + begin * windows.step_ns, windows.step_ns, end - begin)
        for begin, end in itertools.pairwise(edges)
    ]


def groups(shards: Sequence[Shard]) -> list[list[int]]:
    """Numbers of the shards that one task cuts. Those of one caller, which may number all its calls in one row, are
    together."""
    order = sorted(range(len(shards)), key=lambda at: (shards[at].callers, at))
    out: list[list[int]] = []
    held = 0
    for at in order:
        if not out or (held + shards[at].ops > _CUT_OPS and shards[at].callers != shards[out[-1][-1]].callers):
            out.append([])
            held = 0
        out[-1].append(at)
        held += shards[at].ops
    return out


def cut(store: Store, names: Sequence[str], facts: str, some: Sequence[Windows]) -> tuple[Cut, list[Kept]]:
    """Shards of a server's capture, by their names: what is counted of them, and where their pieces are kept."""
    with store.scratch() as scratch:
        parts, of_all = slimmed(store, names, facts, scratch)
    found = cut_parts(parts, of_all, some)
    return found.counts(), [keep(one, store) for one in found.pieces]


def slimmed(store: Store, names: Sequence[str], facts: str, scratch: Path) -> tuple[list[Decoded], Decoded]:
    """What shards say of threads, each on one clock, and what is known of the whole capture."""
    source, of_all = read_facts(store, facts)
    return [slim(side_of(source, read_shard(store, name, scratch)[1]).decoded) for name in names], of_all


def cut_parts(parts: Sequence[Decoded], facts: Decoded, some: Sequence[Windows]) -> Cut:
    """The same of what they hold."""
    nothing = dataclasses.replace(facts, repeats={}, hidden=0, malformed=0)
    whole, rows = joined(parts, nothing)
    states: Counter[State] = Counter()
    for part in parts:
        states.update(part.states)
    missing = int(missing_calls(whole).sum()) if whole.ops.connections else 0
    return Cut(tuple(_pieces(whole, rows, some)), states, missing)


def _pieces(whole: Decoded, rows: Sequence[I32], some: Sequence[Windows]) -> list[Piece]:
    ops, edges = whole.ops, [one.begin_ns for one in some]
    inner = np.searchsorted(np.maximum.accumulate(ops.t1), edges[1:], side="left").tolist()
    begins = [0, *inner, len(ops)]
    out = []
    for at, (begin, end) in enumerate(itertools.pairwise(begins)):
        last = at + 1 == len(some)
        earlier = np.flatnonzero(ops.t2[:begin] > edges[at])
        out.append(
            Piece(
                calls=_of_rows(whole, slice(begin, end), edges[at] if at else None, None if last else edges[at + 1]),
                rows=tuple(_within(one, begin, end) for one in rows),
                before=dataclasses.replace(
                    whole, ops=ops.take(earlier), loose=whole.loose.take(slice(0, 0)), details=no_details()
                ),
            )
        )
    return out


def _within(rows: I32, begin: int, end: int) -> I32:
    first, last = np.searchsorted(rows, (begin, end)).tolist()  # they ascend
    return rows[first:last] - np.int32(begin)


def _of_rows(whole: Decoded, here: slice, begin_ns: int | None, end_ns: int | None) -> Decoded:
    """Some ops in a row, and what belongs to them or to their time."""
    loose, blocked = whole.loose, whole.details.blocked
    in_time: Bool = np.ones(len(loose), dtype=np.bool_)
    if begin_ns is not None:
        in_time &= loose.first_ns >= begin_ns
    if end_ns is not None:
        in_time &= loose.first_ns < end_ns
    some = loose.take(np.where(loose.op == NULL, in_time, (loose.op >= here.start) & (loose.op < here.stop)))
    kept = blocked.take((blocked.op >= here.start) & (blocked.op < here.stop))
    some = dataclasses.replace(some, op=_moved(some.op, here.start))
    details = dataclasses.replace(whole.details, blocked=dataclasses.replace(kept, op=kept.op - np.int32(here.start)))
    return dataclasses.replace(whole, ops=whole.ops.take(here), loose=some, details=details)


def _moved(op: I32, by: int) -> I32:
    return np.where(op == NULL, op, op - np.int32(by)).astype(np.int32)


def hidden_of(cuts: Sequence[Cut], facts: Decoded) -> tuple[float, float]:
    """The share of the ops that is not in the capture, and of it that of ops with one half."""
    states = Counter(facts.states)
    for one in cuts:
        states.update(one.states)
    return hidden_share(states, sum(one.missing for one in cuts)), hidden_share(states)


def put_together(pieces: Sequence[Piece], facts: Decoded, places: Sequence[Sequence[int]]) -> Piece:
    """One stretch, of all shards; `places` are the numbers of those of each piece."""
    if len(pieces) == 1 and list(places[0]) == sorted(places[0]):
        return pieces[0]
    nothing = dataclasses.replace(facts, repeats={}, hidden=0, malformed=0)
    calls, at = joined([one.calls for one in pieces], nothing)
    before, _ = joined([one.before for one in pieces], nothing)
    rows: dict[int, I32] = {
        number: np.sort(of_piece[mine])
        for piece, of_piece, numbers in zip(pieces, at, places, strict=True)
        for number, mine in zip(numbers, piece.rows, strict=True)
    }
    return Piece(calls, tuple(rows[number] for number in sorted(rows)), before)


def begins_and_ends(
    piece: Piece, calls: Bool, before: Bool, windows: Windows, *, first: bool, last: bool
) -> tuple[I64, I64, int]:
    """Times in flight within the stretch, of the ops that the masks have: what goes on beyond it is cut off there; and
    how many those are."""
    edges = windows.edges_ns
    starts = np.concatenate([piece.calls.ops.t1[calls], piece.before.ops.t1[before]])
    ends = np.concatenate([piece.calls.ops.t2[calls], piece.before.ops.t2[before]])
    if not first:
        starts = np.maximum(starts, edges[0])
    if last:
        return starts, ends, 0
    return starts, np.minimum(ends, np.maximum(edges[-1], starts)), int((ends > edges[-1]).sum())
