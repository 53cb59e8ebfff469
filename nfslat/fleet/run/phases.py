"""What a server's threads had to do, by windows -> their number in each, and phases with one number or with no limit.

One number for the whole time is wrong where somebody changed it meanwhile, and is not found where it is a limit for a
short time only. Where the times in the server change for good, both sides are looked at as captures by themselves.
Within them windows are looked at on a sample, as many together as have enough calls; where they agree with what the
whole time says, that stays as it is. Where not, the calls of the windows that agree are looked at together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nfslat.fleet.run.changes import is_more, is_same, stable
from nfslat.inflight.changes import changes
from nfslat.inflight.jobs import Jobs
from nfslat.inflight.server import threads_of
from nfslat.inflight.threads import FEWEST, Bound, Threads, lower_bound
from nfslat.kernels.dispatch import in_flight
from nfslat.model.blocks import largest
from nfslat.model.tables import I64

_SOME_DEEP = 0.005  # of the calls come while more are in flight than are known to be in threads; else nothing waits
_CALLS = 48_000  # that are looked at in all windows together
_PIECE, _LONGEST = 2_000, 20_000  # calls in a row that are looked at of windows, at least and at most
_TIMES_DEEP = 30  # times as many as are in flight: whose turn it is in a queue that was there before is not known
_TIMES_STREAMS = 100  # times as many as connections, which have turns
_ALIKE = 1.4  # times as many threads, of neighbours
_SOME_OF_IT = 0.1  # of the calls of a window in which the time changes
_WIDE = 2.0  # a range of more says nothing
_SAME_WORK = 1.15  # times as long in a thread, at the median of a window
_FEW = 200  # calls in a window; fewer say nothing of their work
_FORCED = 3.0  # times as many calls without a thread as in the whole time
_NO_MATTER = 0.01  # of the calls: without a thread
_ENOUGH = 1_000  # calls; a limit for a time that fewer show is chance
_SOME_WAIT = 0.05  # of the server's time; less is no limit
_LONG_WAIT = 0.2  # of the server's time, where fewer threads than before are the reason


@dataclass(frozen=True)
class ByTime:
    """The threads of all calls, put together from what explains each of them best; and by windows."""

    threads: Threads  # with its rows
    bounds: tuple[int, ...]  # of each window: at least so many threads
    alone: tuple[Threads | None, ...]  # what a sample of each window says by itself, without rows; None: too few wait
    told_by: tuple[Threads, ...]  # of each window, without rows: what its calls' waits are by
    changing: tuple[int, ...] = ()  # windows in which the times in the server change for good


def find_by_time(jobs: Jobs, whole: Threads, bounds: I64) -> ByTime:
    """`whole` is what `threads_of` makes of all of `jobs`, `bounds` where in them each window begins, and their end.

    Where the windows agree with `whole`, it is what comes back.
    """
    cuts = _cuts(jobs) if len(bounds) > 2 else []
    if not cuts:
        return _of_stretch(jobs, whole, bounds)
    rows = [slice(begin, end) for begin, end in pairwise([0, *cuts, len(jobs.op)])]
    alone = [threads_of(jobs.part(at)) for at in rows]
    if all(_agrees(jobs, whole, at, one) for at, one in zip(rows, alone, strict=True)):
        return _of_stretch(jobs, whole, bounds)
    edges = [np.clip(bounds, at.start, at.stop) - at.start for at in rows]
    found = [_of_stretch(jobs.part(at), one, edge) for at, one, edge in zip(rows, alone, edges, strict=True)]
    # A window in which the time changes is told by what has most of its calls; by a limit, where it has some.
    calls = np.array([np.diff(edge) for edge in edges])
    limited = np.array([one.threads.limited for one in found])[:, None]
    some = calls >= _SOME_OF_IT * calls.sum(axis=0)
    main = np.argmax(np.where(limited & some, calls + calls.sum(axis=0), calls), axis=0).tolist()
    return ByTime(
        _one_after_another(jobs, whole, [one.threads for one in found]),
        tuple(max(one.bounds[at] for one in found) for at in range(len(main))),
        tuple(found[of].alone[at] for at, of in enumerate(main)),
        tuple(found[of].told_by[at] for at, of in enumerate(main)),
        tuple(np.flatnonzero((calls > 0).sum(axis=0) > 1).tolist()),
    )


def _cuts(jobs: Jobs) -> list[int]:
    """Where the times in the server change for good, by those of the operation that takes most of them."""
    server_ns = jobs.work.reply_ns - jobs.work.arrival_ns
    main = np.flatnonzero(jobs.kind == largest(jobs.kind, lambda at: server_ns[at]))
    return [int(main[cut]) for cut in changes([server_ns[main]])] if len(main) else []


def _agrees(jobs: Jobs, whole: Threads, rows: slice, alone: Threads) -> bool:
    """Does what is said of the whole hold here, too? Where nothing waits, hardly anything may wait by it."""
    if alone.cannot or alone.instead or not whole.limited:
        return not alone.limited and whole.limited == alone.limited
    if alone.limited:
        return is_same(alone.estimate, whole.estimate)
    waited_ns = (whole.start_ns - jobs.work.arrival_ns)[rows]
    server_ns = (jobs.work.reply_ns - jobs.work.arrival_ns)[rows]
    return bool(waited_ns.mean() < _SOME_WAIT * server_ns.mean())


def _one_after_another(jobs: Jobs, whole: Threads, parts: list[Threads]) -> Threads:
    """What stretches that follow each other say of the whole time, each of its own calls."""
    columns = [
        np.concatenate([getattr(one, name) for one in parts]) for name in ("start_ns", "low_start_ns", "high_start_ns")
    ]
    begins = np.cumsum([0, *(len(one.start_ns) for one in parts)]).tolist()
    waited_ns = columns[0] - jobs.work.arrival_ns
    used = [
        (one, float(waited_ns[begin:end].sum()))
        for one, (begin, end) in zip(parts, pairwise(begins), strict=True)
        if one.limited
    ]
    if used:
        return _together(jobs, whole, used, columns)
    said = next((one for one in parts if one.cannot or one.instead), parts[0])
    return whole.untold(said.cannot)._replace(
        instead=said.instead,
        start_ns=columns[0],
        low_start_ns=columns[1],
        high_start_ns=columns[2],
    )


def _of_stretch(jobs: Jobs, whole: Threads, bounds: I64) -> ByTime:
    """The same without a change that the times in the server show."""
    spans = [slice(begin, end) for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    least = [_bound(jobs, span).threads for span in spans]
    short = whole.without_rows
    told_by = [short] * len(spans)
    if len(spans) == 1 or (whole.limited and _explains(jobs, whole, spans)):
        return ByTime(whole, tuple(least), (None,) * len(spans), tuple(told_by))
    alone = _alone(jobs, in_flight(jobs.work), spans, least)
    others = []
    agreed = not whole.limited
    for windows, threads in stable(alone, least):
        if whole.limited and is_same(threads, whole.estimate):
            agreed = True
            continue
        rows = np.concatenate([np.arange(spans[at].start, spans[at].stop) for at in windows])
        found = threads_of(jobs.part(rows))
        if not found.limited or is_same(found.estimate, whole.estimate) or _overlap(found, whole):
            agreed |= whole.limited and found.limited
            continue
        if not _is_founded(jobs, whole, rows, found, len(windows)):
            continue
        others.append((rows, found))
        for at in windows:
            told_by[at] = found.without_rows
    if not others:
        return ByTime(whole, tuple(least), tuple(alone), tuple(told_by))
    columns = [column.copy() for column in (whole.start_ns, whole.low_start_ns, whole.high_start_ns)]
    keeps = whole.limited and agreed
    if not keeps:
        # What it says is a mixture, and nothing else says that anything waits there.
        for column in columns:
            column[:] = jobs.work.arrival_ns
        told_by = [short.untold("") if one is short else one for one in told_by]
    for rows, found in others:
        for column, of_phase in zip(columns, (found.start_ns, found.low_start_ns, found.high_start_ns), strict=True):
            column[rows] = of_phase
    waited_ns = columns[0] - jobs.work.arrival_ns
    used = [(found, float(waited_ns[rows].sum())) for rows, found in others]
    if keeps:
        used.append((whole, float(waited_ns.sum()) - sum(one for _, one in used)))
    return ByTime(_together(jobs, whole, used, columns), tuple(least), tuple(alone), tuple(told_by))


def _overlap(one: Threads, other: Threads) -> bool:
    """May both be one number? What may be any number agrees with none."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return other.high <= _WIDE * other.low and max(one.low, other.low) <= min(one.high, other.high)


def _bound(jobs: Jobs, span: slice) -> Bound:
    rows = span if jobs.plain[span].all() else span.start + np.flatnonzero(jobs.plain[span])
    return lower_bound(jobs.work.part(rows))


def _is_founded(jobs: Jobs, whole: Threads, rows: I64, found: Threads, windows: int) -> bool:
    """Is it enough to say that there was another limit for a time? Fewer threads than have been seen at another time
    were changed meanwhile, and that needs more."""
    if found.calls < _ENOUGH:
        return False
    if found.estimate is None or not is_more(whole.bound.threads, found.estimate):
        return True
    waited_ns = int((found.start_ns - jobs.work.arrival_ns[rows]).sum())
    server_ns = int((jobs.work.reply_ns - jobs.work.arrival_ns)[rows].sum())
    return windows >= 2 and waited_ns >= _LONG_WAIT * server_ns


def _explains(jobs: Jobs, whole: Threads, spans: list[slice]) -> bool:
    """Is the work the same in all windows? With a number of threads that is wrong in one of them, waits look like work
    there, or calls are answered that have none."""
    service_ns = jobs.work.reply_ns - whole.start_ns
    server_ns = jobs.work.reply_ns - jobs.work.arrival_ns
    main = jobs.kind == np.argmax(np.bincount(jobs.kind, server_ns))
    forced = (service_ns == 0) & (server_ns > 0)
    typical_ns = float(np.median(service_ns[main & ~forced])) if (main & ~forced).any() else 0.0
    for span in spans:
        if span.stop - span.start < _FEW:
            continue
        if forced[span].mean() > max(_FORCED * whole.forced_share, _NO_MATTER):
            return False
        of_window = service_ns[span][main[span] & ~forced[span]]
        if len(of_window) >= _FEW and not is_same(float(np.median(of_window)), typical_ns, _SAME_WORK):
            return False
    return True


def _alone(jobs: Jobs, depth: I64, spans: list[slice], least: list[int]) -> list[Threads | None]:
    """Each window by a sample; windows side by side share one where they are many, unless something changes there."""
    wanted = [
        at
        for at, (span, bound) in enumerate(zip(spans, least, strict=True))
        if span.stop - span.start >= FEWEST and (depth[span] > bound).mean() >= _SOME_DEEP
    ]
    found: list[Threads | None] = [None] * len(spans)
    if not wanted:
        return found
    streams = len(np.unique(jobs.work.stream))
    deepest = max(int(depth[spans[at]].max()) for at in wanted)
    piece = min(max(_PIECE, _TIMES_DEEP * deepest, _TIMES_STREAMS * streams), _LONGEST)
    groups = _groups(wanted, spans, piece, -(-len(wanted) * piece // _CALLS))
    results = [_of_sample(jobs, depth, _side_by_side(spans, group), piece) for group in groups]
    for at, group in enumerate(groups):
        near = [results[other] for other in (at - 1, at + 1) if 0 <= other < len(groups)]
        alike = all(is_same(one.estimate, results[at].estimate, _ALIKE) for one in near)
        for window in group:
            by_itself = len(group) > 1 and not alike and spans[window].stop - spans[window].start >= piece
            found[window] = _of_sample(jobs, depth, [spans[window]], piece) if by_itself else results[at]
    return found


def _groups(wanted: list[int], spans: list[slice], calls: int, least: int) -> list[list[int]]:
    """Windows in their order, as many together as have so many calls, and `least` of them."""
    out: list[list[int]] = []
    held = 0
    for at in wanted:
        if not out or (held >= calls and len(out[-1]) >= least):
            out.append([])
            held = 0
        out[-1].append(at)
        held += spans[at].stop - spans[at].start
    if len(out) > 1 and held < calls:
        out[-2] += out.pop()
    return out


def _side_by_side(spans: list[slice], windows: list[int]) -> list[slice]:
    """Their calls, those of neighbours as one stretch."""
    out: list[slice] = []
    for at in windows:
        if out and out[-1].stop == spans[at].start:
            out[-1] = slice(out[-1].start, spans[at].stop)
        else:
            out.append(spans[at])
    return out


def _of_sample(jobs: Jobs, depth: I64, spans: list[slice], calls: int) -> Threads:
    """By so many calls in a row, there where most is in flight."""
    best = None
    for span in spans:
        edges = np.append(np.arange(span.start, max(span.stop - calls // 2, span.start + 1), calls), span.stop)
        means = np.add.reduceat(depth[span], edges[:-1] - span.start) / np.diff(edges)
        at = int(np.argmax(means))
        if best is None or means[at] > best[0]:
            best = float(means[at]), slice(int(edges[at]), int(edges[at + 1]))
    if best is None:
        raise ValueError("no windows")
    return threads_of(jobs.part(best[1])).without_rows


def _together(jobs: Jobs, whole: Threads, used: list[tuple[Threads, float]], columns: list[I64]) -> Threads:
    """What several analyses, each of its own calls, say of the whole time: the one by which those wait most. Its range
    is its own, for another number at another time is no doubt about this one. `used` has with each how long its calls
    wait, ns."""
    main = max(used, key=lambda one: one[1])[0]
    waits_for = columns[0] > jobs.work.arrival_ns
    return whole._replace(
        estimate=main.estimate,
        low=main.low,
        high=main.high,
        bound=whole.bound if whole.bound.threads <= (main.low or 0) else main.bound,
        limited=True,
        forced_share=main.forced_share,
        waiting_share=float(waits_for.mean()),
        start_ns=columns[0],
        low_start_ns=columns[1],
        high_start_ns=columns[2],
        cannot="",
        instead="",
    )
