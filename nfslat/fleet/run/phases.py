"""What a server's threads had to do, by windows -> their number in each, and phases with one number or with no limit.

One number for the whole time is wrong where somebody changed it meanwhile, and is not found where it is a limit for a
short time only. So windows are looked at by themselves, on a sample; where they agree with what the whole time says,
that stays as it is. Where they do not, the calls of the windows that agree with each other are looked at together.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from nfslat.fleet.run.changes import is_more, is_same, stable
from nfslat.inflight.jobs import Jobs
from nfslat.inflight.server import threads_of
from nfslat.inflight.threads import FEWEST, Bound, Threads, lower_bound
from nfslat.kernels.dispatch import in_flight
from nfslat.model.tables import I64

_SOME_DEEP = 0.005  # of the calls come while more are in flight than are known to be in threads; else nothing waits
_CALLS = 24_000  # that are looked at in all windows together
_PIECE, _LONGEST = 2_000, 10_000  # calls in a row that are looked at of a window, at least and at most
_TIMES_DEEP = 8  # times as many as are in flight, so that those that come in the middle do not matter
_ALIKE = 1.4  # times as many threads, of neighbours
_SAME_WORK = 1.15  # times as long in a thread, at the median of a window
_FEW = 200  # calls in a window; fewer say nothing of their work
_FORCED = 3.0  # times as many calls without a thread as in the whole time
_NO_MATTER = 0.01  # of the calls: without a thread
_ENOUGH = 1_000  # calls; a limit for a time that fewer show is chance
_LONG_WAIT = 0.2  # of the server's time, where fewer threads than before are the reason


@dataclass(frozen=True)
class ByTime:
    """The threads of all calls, put together from what explains each of them best; and by windows."""

    threads: Threads  # with its rows
    bounds: tuple[int, ...]  # of each window: at least so many threads
    alone: tuple[Threads | None, ...]  # what a sample of each window says by itself, without rows; None: too few wait
    told_by: tuple[Threads, ...]  # of each window, without rows: what its calls' waits are by


def find_by_time(jobs: Jobs, whole: Threads, bounds: I64) -> ByTime:
    """`whole` is what `threads_of` makes of all of `jobs`, `bounds` where in them each window begins, and their end.

    Where the windows agree with `whole`, it is what comes back.
    """
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
        if not found.limited or is_same(found.estimate, whole.estimate):
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
    piece = min(max(_PIECE, _TIMES_DEEP * int(max(depth[spans[at]].max() for at in wanted))), _LONGEST)
    size = -(-len(wanted) * piece // _CALLS)
    groups = [wanted[at : at + size] for at in range(0, len(wanted), size)]
    results = [_of_sample(jobs, depth, [spans[at] for at in group], piece) for group in groups]
    for at, group in enumerate(groups):
        near = [results[other] for other in (at - 1, at + 1) if 0 <= other < len(groups)]
        alike = all(is_same(one.estimate, results[at].estimate, _ALIKE) for one in near)
        for window in group:
            by_itself = len(group) > 1 and not alike
            found[window] = _of_sample(jobs, depth, [spans[window]], piece) if by_itself else results[at]
    return found


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
    """What several analyses, each of its own calls, say of the whole time: the one by which those wait most, with the
    range of all. `used` has with each how long its calls wait, ns."""
    main = max(used, key=lambda one: one[1])[0]
    low = min(one.low for one, _ in used if one.low is not None)
    high = None if any(one.high is None for one, _ in used) else max(one.high or 0 for one, _ in used)
    waits_for = columns[0] > jobs.work.arrival_ns
    return dataclasses.replace(
        whole,
        estimate=main.estimate,
        low=low,
        high=high,
        bound=whole.bound if whole.bound.threads <= low else main.bound,
        limited=True,
        forced_share=main.forced_share,
        waiting_share=float(waits_for.mean()),
        start_ns=columns[0],
        low_start_ns=columns[1],
        high_start_ns=columns[2],
        cannot="",
    )
