"""Calls of an application, and the ops of its client's capture -> what each kind of call waited for.

A call is joined with the ops of its file whose bytes it asked for and that ended while it lasted; one that has none and
was quick had its bytes in the page cache. strace stamps a call before the kernel takes it and after it returns, by the
clock that stamps packets, too, so that the ops lie in it. A file is the one that names say, or else the one whose ops
fit the calls. What two calls might have waited for, and what fits twice, is joined with neither.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import field

from nfslat.evidence.known import CallMeans, Pieces
from nfslat.evidence.strace import SYNCS, Call
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import F64, I64, Bool, Ops
from nfslat.model.units import to_ms
from nfslat.names.paths import paths_of_side
from nfslat.results import Analysis
from nfslat.select import is_reverse, op_labels

_NEARLY_ALL = 0.8  # of the ops of the captures
_NOT = -1.0  # the server's capture does not have the op
_SLACK_NS = 5_000  # both print microseconds
_VOTES, _SURE = 5, 0.9  # calls that tell a file without a name, and how many of them have to agree
_ASKED = 4000  # calls of a file that are asked for it
_ALIKE = 0.5  # of the calls that tell, so many have to agree with a name
_KINDS = {"READ": "READ", "READ_PLUS": "READ", "WRITE": "WRITE", "COMMIT": "COMMIT"}


class OfCalls(Record):
    """What a log says of the operations of the captures."""

    means: tuple[CallMeans, ...]
    notes: list[str]  # how much of the log that is of; why there are no means
    # Of operations nearly all of which are the only one of a call: the mean of these calls.
    app_ms: Mapping[str, float] = field(default_factory=dict)


def of_calls(name: str, calls: Sequence[Call], c: Analysis, *, source: str = "strace") -> OfCalls:
    """Means of each kind of call, and the application's time where the calls are those of the operations."""
    if not has_client(c):
        why = "calls of the client are joined with its own capture, and there is none: they are not used"
        return OfCalls((), [why])
    ops = c.client.ops
    # All of them, selected or not: a call whose op is not selected had its bytes from the server, too.
    joined = join(calls, ops, ~ops.spread(is_reverse(ops)), _names(c))
    server_ns = np.full(len(ops), _NOT)
    server_ns[c.matched.client] = c.server_srt_ns
    parts = np.array([_parts(*one, c, server_ns) for one in zip(calls, joined.ops, strict=True)])
    used = joined.cached | (parts[:, 0] >= 0)
    total = np.array([one.end_ns - one.begin_ns for one in calls], dtype=np.int64)
    if not joined.seen.any():
        return OfCalls((), ["none of its calls was made while the captures ran; it is left out"])
    found = []
    kinds, names = (np.array([getattr(one, key) for one in calls]) for key in ("kind", "name"))
    for kind in dict.fromkeys(kinds.tolist()):
        rows = used & (kinds == kind)
        if not rows.any():
            continue
        mine = np.where(joined.cached[rows, None], 0.0, parts[rows])
        before, network, server, after = (float(to_ms(mine[:, at].mean())) for at in range(4))
        cached = float(to_ms(np.where(joined.cached[rows], total[rows], 0).mean()))
        found.append(
            CallMeans(
                call=kind,
                source=f"{source} {name}",
                calls=int(np.count_nonzero(rows)),
                cached_calls=int(np.count_nonzero(rows & joined.cached)),
                total_ms=float(to_ms(total[rows].mean())),
                cached_ms=cached,
                before_ms=before,
                network_ms=network,
                server_ms=server,
                after_ms=after,
                pieces=_pieces(calls, joined, np.flatnonzero(rows & ~joined.cached), np.flatnonzero(kinds == kind), c),
            )
        )
    app_ms = {}
    for op, kind in (("READ", "pread"), ("WRITE", "pwrite")):
        alone = (names == kind) & np.array([len(rows) == 1 for rows in joined.ops]) & (parts[:, 0] >= 0)
        if op in c.ops_of and np.count_nonzero(alone) >= _NEARLY_ALL * c.ops_of[op]:
            app_ms[op] = float(to_ms(total[alone].mean()))
    return OfCalls(tuple(found), [_said(joined, used, total)], app_ms)


_OPS = {"pread": "READ", "pwrite": "WRITE"}


def _pieces(calls: Sequence[Call], joined: Joined, mine: I64, kind: I64, c: Analysis) -> Pieces | None:
    """What the calls `mine`, which have ops, are made of; None where they are few of all the calls of the `kind`."""
    op = _OPS.get(calls[int(kind[0])].name)
    seen = int(np.count_nonzero(joined.seen[kind]))
    if op is None or not len(mine) or len(mine) < _FEW * seen:
        return None
    ops = c.client.ops
    asked_ns, busy_ns, gaps_ns, count, size = 0, 0, 0, 0, 0
    for of_call in (joined.ops[row] for row in mine.tolist()):
        spans = [(int(ops.t0[row]), int(ops.t3[row])) for row in of_call]
        busy = _covered_ns(spans)
        busy_ns += busy
        gaps_ns += max(end for _, end in spans) - min(begin for begin, _ in spans) - busy
        asked_ns += sum(end - begin for begin, end in spans)
        count += len(of_call)
        size += sum(int(ops.size[row]) for row in of_call if ops.size[row] != NULL32)
    gaps = max(count - len(mine), 1)
    return Pieces(op, count / len(mine), asked_ns / max(busy_ns, 1), size / count, float(to_ms(gaps_ns / gaps)))


def _covered_ns(spans: Sequence[tuple[int, int]]) -> int:
    """The time in which there is any of them."""
    covered, until = 0, min(begin for begin, _ in spans)
    for begin, end in sorted(spans):
        covered += max(end - max(begin, until), 0)
        until = max(until, end)
    return covered


def has_client(c: Analysis) -> bool:
    """Is there a capture of the client?"""
    return c.inferred is None or c.inferred.side != "client"


def _said(joined: Joined, used: Bool, took: I64) -> str:
    seen, calls = joined.seen, int(np.count_nonzero(joined.seen))
    mine = seen & used
    text = (
        f"{int(np.count_nonzero(mine)):,} of {calls:,} calls while the captures ran "
        f"({np.count_nonzero(mine) / calls:.1%}) are joined with what they waited for, "
        f"{took[mine].sum() / max(took[seen].sum(), 1):.1%} of their time"
    )
    if joined.doubtful:
        text += f"; {joined.doubtful:,} might have waited for what others did, and are left out"
    if np.count_nonzero(mine) < _FEW * calls:
        text += "; are they of files of these captures, and was the client's capture taken on its own host?"
    return text


_FEW = 0.5


def _names(c: Analysis) -> dict[int, str]:
    """Paths of file handles, as far as the client's capture tells them."""
    ops = c.client.ops
    paths = paths_of_side(c.client)
    rows = np.flatnonzero((paths.of_op != NULL) & (ops.offset >= 0))
    handles, first = np.unique(ops.fh[rows], return_index=True)
    return {
        handle: paths.texts[int(paths.of_op[rows[at]])]
        for handle, at in zip(handles.tolist(), first.tolist(), strict=True)
    }


def _parts(call: Call, rows: Sequence[int], c: Analysis, server_ns: F64) -> tuple[float, float, float, float]:
    """Before its first op, in the network, in the server, and behind and between its ops, ns; -1 where not known.

    Of ops in flight at once each has its part of the time in which there was any.
    """
    if not rows or any(server_ns[row] < 0 for row in rows):
        return _NOT, _NOT, _NOT, _NOT
    ops = c.client.ops
    late = min(max(max(int(ops.t3[row]) for row in rows) - call.end_ns, 0), call.late_ns)
    began, ended = call.begin_ns + late, call.end_ns + late
    spans = [(max(int(ops.t0[row]), began), min(int(ops.t3[row]), ended)) for row in rows]
    on_wire = _covered_ns(spans)
    asked = sum(int(ops.t3[row] - ops.t0[row]) for row in rows)
    share = min(sum(float(server_ns[row]) for row in rows) / asked, 1.0) if asked else 0.0
    before = min(begin for begin, _ in spans) - began
    server = on_wire * share
    return before, on_wire - server, server, call.end_ns - call.begin_ns - before - on_wire


class Joined(Record):
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
        _candidates(one, files.get(one.path), of, ops) if one.end_ns >= first and one.begin_ns <= last else ((), False)
        for one in calls
    ]
    claims = Counter(row for rows, _ in found for row in rows)
    doubtful = np.array([twice or any(claims[row] > 1 for row in rows) for rows, twice in found], dtype=np.bool_) & seen
    joined = tuple(rows if sure else () for (rows, _), sure in zip(found, (seen & ~doubtful).tolist(), strict=True))
    cached = _cached(calls, joined, seen & ~doubtful, files, ops)
    return Joined(joined, cached, seen, int(np.count_nonzero(doubtful)), files)


_Fit = tuple[tuple[int, ...], bool]  # ops that a call may have waited for; whether two of them have the same bytes


def _by_kind(ops: Ops, kept: Bool) -> dict[str, I64]:
    labels = np.array([_KINDS.get(label, "") for label in op_labels(ops.kinds)] or [""])
    of_op = labels[ops.kind]
    usable = kept & (ops.fh != NULL32) & (ops.t3 >= ops.t0)
    whole = usable & (ops.size != NULL32) & (ops.offset >= 0)
    rows = {kind: np.flatnonzero((usable if kind == "COMMIT" else whole) & (of_op == kind)) for kind in _KINDS.values()}
    return {kind: own for kind, own in rows.items() if len(own)}


def _candidates(call: Call, handle: int | None, of: Mapping[tuple[int, str], _File], ops: Ops) -> _Fit:
    if handle is None:
        return (), False
    if call.name in SYNCS:
        rows = [row for kind in ("WRITE", "COMMIT") if (file := of.get((handle, kind))) for row in file.ended_in(call)]
        return tuple(map(int, rows)), False
    file = of.get((handle, "READ" if call.name == "pread" else "WRITE"))
    found = file.within(call, begun_in_it=call.name == "pwrite") if file is not None else np.zeros(0, dtype=np.int64)
    rows = sorted(found.tolist(), key=lambda row: (int(ops.offset[row]), row))
    ends = [int(ops.offset[row]) + int(ops.size[row]) for row in rows]
    twice = any(int(ops.offset[later]) < end for end, later in zip(ends, rows[1:], strict=False))
    if call.name == "pwrite" and rows and (commits := of.get((handle, "COMMIT"))):
        # With O_SYNC a call waits for its COMMIT, too.
        sent = min(int(ops.t0[row]) for row in rows)
        rows += [row for row in commits.ended_in(call, begun_in_it=True).tolist() if ops.t0[row] >= sent]
    return tuple(rows), twice


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
