"""Figures of each window of the server's time -> rows of the report: windows, and the phases that they make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nfslat.fleet.compare.windows import Flying, Windows
from nfslat.fleet.model import Phase, ServerWindow
from nfslat.fleet.run.changes import runs
from nfslat.fleet.run.phases import ByTime
from nfslat.inflight.server import ServerLoad
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Ops
from nfslat.model.units import NS_PER_S, iso, to_ms

_SOME_WAIT = 0.05  # of the server's time in a window is a wait for a thread; less is no limit


@dataclass(frozen=True, eq=False)
class OfWindows:
    """Figures of each window."""

    ops: I64
    area_ns: npt.NDArray[np.float64]
    busy_ns: npt.NDArray[np.float64]
    most: I64
    server_ns: npt.NDArray[np.float64]  # summed
    waiting: I64  # ops of which it is known how long they waited
    queue_ns: npt.NDArray[np.float64]  # of those, summed
    served_ns: npt.NDArray[np.float64]  # of those, from call to reply, summed


def of_windows(ops: Ops, rows: slice | I64, load: ServerLoad, fly: Flying, windows: Windows) -> OfWindows:
    """Of the ops in `rows`, and of what was in flight."""
    t1, t2, queue = ops.t1[rows], ops.t2[rows], load.queue_ns[rows]
    at = windows.index(t1)
    known = queue != NULL

    def summed(values: I64, which: Bool | None = None) -> npt.NDArray[np.float64]:
        index, weights = (at, values) if which is None else (at[which], values[which])
        return np.bincount(index, weights, windows.count).astype(np.float64)

    took = t2 - t1
    return OfWindows(
        ops=np.bincount(at, minlength=windows.count),
        area_ns=fly.area_ns,
        busy_ns=fly.busy_ns,
        most=fly.most,
        server_ns=summed(took),
        waiting=np.bincount(at[known], minlength=windows.count),
        queue_ns=summed(queue, known),
        served_ns=summed(took, known),
    )


def _limited(of: OfWindows, load: ServerLoad) -> list[bool]:
    if not load.threads.limited:
        return [False] * len(of.ops)
    limited: list[bool] = ((of.served_ns > 0) & (of.queue_ns >= _SOME_WAIT * of.served_ns)).tolist()
    return limited


def window_rows(of: OfWindows, by_time: ByTime, load: ServerLoad, windows: Windows, end_ns: int) -> list[ServerWindow]:
    """A row each; the last one ends at `end_ns`."""
    edges = [*windows.edges_ns[:-1].tolist(), end_ns]
    out = []
    for at, limited in enumerate(_limited(of, load)):
        ops, waiting = int(of.ops[at]), int(of.waiting[at])
        limit: _Limit = _limit(by_time, at) if limited else (None, None, None)
        out.append(
            ServerWindow(
                begin=iso(edges[at]),
                end=iso(edges[at + 1]),
                ops=ops,
                ops_per_s=float(ops) * NS_PER_S / (edges[at + 1] - edges[at]),
                in_flight_mean=float(of.area_ns[at] / of.busy_ns[at]) if of.busy_ns[at] > 0 else 0.0,
                in_flight_max=int(of.most[at]),
                server_ms=mean_ms(of.server_ns[at], ops),
                threads_lower_bound=by_time.bounds[at],
                threads_estimate=limit[0],
                threads_range=_range(limit),
                limited=limited,
                queue_ms=None if load.threads.cannot else mean_ms(of.queue_ns[at], waiting),
            )
        )
    return out


_Limit = tuple[int | None, int | None, int | None]  # estimate, and what it may be at least and at most


def _range(limit: _Limit) -> tuple[int, int] | None:
    return None if limit[1] is None or limit[2] is None else (limit[1], limit[2])


def _limit(by_time: ByTime, at: int) -> _Limit:
    """Of a window by itself; where it was not looked at by itself, what is said of the time around it holds there."""
    alone = by_time.alone[at] or by_time.told_by[at]
    return alone.estimate, alone.low, alone.high


def phase_rows(of: OfWindows, by_time: ByTime, load: ServerLoad, windows: Windows, end_ns: int) -> list[Phase]:
    """Windows side by side that are alike."""
    edges = [*windows.edges_ns[:-1].tolist(), end_ns]
    out = []
    queue_ms = (to_ms(of.queue_ns / np.maximum(of.waiting, 1))).tolist()
    for at in by_time.changing:  # of a part of it, the waits of its longer neighbour
        queue_ms[at] = max(queue_ms[max(at - 1, 0) : at + 2])
    for begin, end, threads, cannot in runs(_limited(of, load), by_time.told_by, queue_ms):
        here = slice(begin, end)
        ops = int(of.ops[here].sum())
        limit: _Limit = (None, None, None) if threads is None else (threads.estimate, threads.low, threads.high)
        out.append(
            Phase(
                begin=iso(edges[begin]),
                end=iso(edges[end]),
                limited=threads is not None,
                threads=limit[0],
                threads_range=_range(limit),
                ops=ops,
                queue_ms=None if load.threads.cannot else mean_ms(of.queue_ns[here].sum(), int(of.waiting[here].sum())),
                server_ms=mean_ms(of.server_ns[here].sum(), ops),
                cannot=cannot or None,
            )
        )
    return out


def mean_ms(total_ns: float, count: int) -> float | None:
    """None of nothing."""
    return to_ms(float(total_ns) / count) if count else None
