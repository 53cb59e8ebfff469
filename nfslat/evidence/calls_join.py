"""Calls of an application (strace) and the ops of its client's capture -> which ops each call waited for.

A call is joined with the ops of its file whose bytes it asked for and that ended while it lasted; one that has none and
was quick had its bytes in the page cache. strace stamps a call before the kernel takes it and after it returns, by the
clock that stamps packets, too, so that the ops lie in it. A file is the one that names say, or else the one whose ops
fit the calls. What two calls might have waited for, and what fits twice, is joined with neither.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nfslat.evidence.strace import SYNCS, Call
from nfslat.model.protocol import NULL32
from nfslat.model.tables import I64, Bool, Ops
from nfslat.select import op_labels

_SLACK_NS = 5_000  # both print microseconds
_VOTES, _SURE = 5, 0.9  # calls that tell a file without a name, and how many of them have to agree
_ASKED = 4000  # calls of a file that are asked for it
_ALIKE = 0.5  # of the calls that tell, so many have to agree with a name
_KINDS = {"READ": "READ", "READ_PLUS": "READ", "WRITE": "WRITE", "COMMIT": "COMMIT"}


@dataclass(frozen=True)
class Joined:
    """What each call waited for."""

    ops: tuple[tuple[int, ...], ...]  # rows of the client's ops, one tuple a call; empty: none
    cached: Bool  # calls that needed no op
    seen: Bool  # calls that lie in the captures' time
    doubtful: int  # of these, those that would fit ops which fit another call, too, or fit twice
    files: Mapping[str, int]  # path -> hash of the file handle


class _File:
    """Ops of a file, in the order of their offsets."""

    def __init__(self, ops: Ops, rows: I64) -> None:
        order = np.argsort(ops.offset[rows], kind="stable")
        self.rows = rows[order]
        self.offset = ops.offset[self.rows]
        self.end = self.offset + ops.size[self.rows].astype(np.int64)
        self.t0, self.t3 = ops.t0[self.rows], ops.t3[self.rows]
        self.largest = int((self.end - self.offset).max(initial=0))

    def within(self, call: Call, *, begun_in_it: bool) -> I64:
        """Ops with bytes of the call that ended while it lasted."""
        first, last = np.searchsorted(self.offset, [call.offset - self.largest, call.offset + call.length])
        at = slice(int(first), int(last))
        fits = self.end[at] > call.offset
        return self.rows[at][fits & self._in_time(at, call, begun_in_it=begun_in_it)]

    def ended_in(self, call: Call, *, begun_in_it: bool = False) -> I64:
        """Ops that ended while it lasted, whatever their bytes."""
        return self.rows[self._in_time(slice(None), call, begun_in_it=begun_in_it)]

    def _in_time(self, at: slice, call: Call, *, begun_in_it: bool) -> Bool:
        t0, t3 = self.t0[at], self.t3[at]
        begun = t0 >= call.begin_ns - _SLACK_NS if begun_in_it else t0 <= call.end_ns + call.late_ns
        return np.asarray(begun & (t3 > call.begin_ns) & (t3 <= call.end_ns + call.late_ns + _SLACK_NS))


def join(calls: Sequence[Call], ops: Ops, kept: Bool, names: Mapping[int, str]) -> Joined:
    """`kept` are the ops that count; `names` are paths of file handles, as far as they are known."""
    by_kind = _by_kind(ops, kept)
    files = _files(calls, ops, by_kind, names)
    of: dict[tuple[int, str], _File] = {}
    for kind, rows in by_kind.items():
        order = rows[np.argsort(ops.fh[rows], kind="stable")]
        handles, starts = np.unique(ops.fh[order], return_index=True)
        for handle, own in zip(handles.tolist(), np.split(order, starts[1:]), strict=True):
            of[handle, kind] = _File(ops, own)
    first, last = (int(ops.t0[kept].min()), int(ops.t3[kept].max())) if kept.any() else (0, -1)
    seen = np.array([first <= one.begin_ns and one.end_ns <= last for one in calls], dtype=np.bool_)
    # A call that began before the captures may have waited for an op in them, too.
    found = [
        _candidates(one, files.get(one.path), of, ops) if one.end_ns >= first and one.begin_ns <= last else _Fit()
        for one in calls
    ]
    claims = Counter(row for one in found for row in one.rows)
    doubtful = np.array([one.twice or any(claims[row] > 1 for row in one.rows) for one in found], dtype=np.bool_) & seen
    joined = tuple(one.rows if told else () for one, told in zip(found, (seen & ~doubtful).tolist(), strict=True))
    cached = _cached(calls, joined, seen & ~doubtful, files, ops)
    return Joined(joined, cached, seen, int(np.count_nonzero(doubtful)), files)


@dataclass(frozen=True)
class _Fit:
    """What a call may have waited for."""

    rows: tuple[int, ...] = ()
    twice: bool = False  # two of them have the same bytes


def _by_kind(ops: Ops, kept: Bool) -> dict[str, I64]:
    labels = np.array([_KINDS.get(label, "") for label in op_labels(ops.kinds)] or [""])
    of_op = labels[ops.kind]
    usable = kept & (ops.fh != NULL32) & (ops.t3 >= ops.t0)
    whole = usable & (ops.size != NULL32) & (ops.offset >= 0)
    rows = {kind: np.flatnonzero((usable if kind == "COMMIT" else whole) & (of_op == kind)) for kind in _KINDS.values()}
    return {kind: own for kind, own in rows.items() if len(own)}


def _candidates(call: Call, handle: int | None, of: Mapping[tuple[int, str], _File], ops: Ops) -> _Fit:
    if handle is None:
        return _Fit()
    if call.name in SYNCS:
        rows = [row for kind in ("WRITE", "COMMIT") if (file := of.get((handle, kind))) for row in file.ended_in(call)]
        return _Fit(tuple(map(int, rows)))
    file = of.get((handle, "READ" if call.name == "pread" else "WRITE"))
    found = file.within(call, begun_in_it=call.name == "pwrite") if file is not None else np.zeros(0, dtype=np.int64)
    rows = sorted(found.tolist(), key=lambda row: (int(ops.offset[row]), row))
    ends = [int(ops.offset[row]) + int(ops.size[row]) for row in rows]
    twice = any(int(ops.offset[later]) < end for end, later in zip(ends, rows[1:], strict=False))
    if call.name == "pwrite" and rows and (commits := of.get((handle, "COMMIT"))):
        # With O_SYNC a call waits for its COMMIT, too.
        sent = min(int(ops.t0[row]) for row in rows)
        rows += [row for row in commits.ended_in(call, begun_in_it=True).tolist() if ops.t0[row] >= sent]
    return _Fit(tuple(rows), twice)


def _cached(
    calls: Sequence[Call], joined: Sequence[Sequence[int]], told: Bool, files: Mapping[str, int], ops: Ops
) -> Bool:
    """Calls of files that are known, without an op, and quicker than most ops: what takes longer waits for one."""
    out = np.zeros(len(calls), dtype=np.bool_)
    took: dict[str, list[int]] = defaultdict(list)
    for one, rows in zip(calls, joined, strict=True):
        took[one.name] += [int(ops.t3[row] - ops.t0[row]) for row in rows]
    least = {name: float(np.quantile(each, 0.1)) for name, each in took.items() if each}
    usual = min(least.values(), default=0.0)
    for at, (one, rows) in enumerate(zip(calls, joined, strict=True)):
        quick = one.end_ns - one.begin_ns < least.get(one.name, usual)
        out[at] = told[at] and not rows and one.path in files and quick
    return out


def _files(calls: Sequence[Call], ops: Ops, by_kind: Mapping[str, I64], names: Mapping[int, str]) -> dict[str, int]:
    """Path -> file handle: the one with that name, unless the ops speak against it; else the one whose ops fit."""
    votes = _votes(calls, ops, by_kind)
    found: dict[str, int] = {}
    guessed: dict[str, int] = {}
    for path in dict.fromkeys(one.path for one in calls):
        counts = votes.get(path, Counter())
        total = sum(counts.values())
        named = _named(path, names)
        if named is not None and (total < _VOTES or counts[named] >= _ALIKE * total):
            found[path] = named
        elif named is None and total:
            handle, most = counts.most_common(1)[0]
            if most >= max(_VOTES, _SURE * total) and handle not in names:
                guessed[path] = handle
    taken = Counter([*found.values(), *guessed.values()])
    return found | {path: handle for path, handle in guessed.items() if taken[handle] == 1}


def _named(path: str, names: Mapping[int, str]) -> int | None:
    """The handle whose name shares most of its last components with the path, if there is one such."""
    wanted = path.removesuffix(" (deleted)").split("/")[::-1]
    shared: dict[int, int] = {}
    for handle, name in names.items():
        own = name.split("/")[::-1]
        alike = next(
            (at for at, (a, b) in enumerate(zip(wanted, own, strict=False)) if a != b), min(len(wanted), len(own))
        )
        if alike:
            shared[handle] = alike
    most = max(shared.values(), default=0)
    best = [handle for handle, alike in shared.items() if alike == most]
    return best[0] if len(best) == 1 else None


def votes(calls: Sequence[Call], ops: Ops, kept: Bool) -> dict[str, Counter[int]]:
    """By path, how many calls only an op of which file fits. `kept` are the ops that count."""
    return _votes(calls, ops, _by_kind(ops, kept))


def _votes(calls: Sequence[Call], ops: Ops, by_kind: Mapping[str, I64]) -> dict[str, Counter[int]]:
    """By path the files of which an op fits a call alone: same first byte, no more bytes, begun and ended in it."""
    at: dict[tuple[str, int], list[int]] = defaultdict(list)
    for kind in ("READ", "WRITE"):
        for row in by_kind.get(kind, np.zeros(0, dtype=np.int64)).tolist():
            at[kind, int(ops.offset[row])].append(row)
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    asked = Counter[str]()
    told: set[tuple[str, int]] = set()
    for call in calls:
        # One offset is one vote: all files have a first block.
        if call.name in SYNCS or (call.path, call.offset) in told or asked[call.path] >= _ASKED:
            continue
        asked[call.path] += 1
        kind = "READ" if call.name == "pread" else "WRITE"
        fits = {
            int(ops.fh[row])
            for row in at.get((kind, call.offset), ())
            if ops.size[row] <= call.length
            and call.begin_ns - _SLACK_NS <= ops.t0[row]
            and ops.t3[row] <= call.end_ns + call.late_ns + _SLACK_NS
        }
        if len(fits) == 1:
            told.add((call.path, call.offset))
            votes[call.path][fits.pop()] += 1
    return votes
