"""A server's capture, decoded by pairs of hosts -> its threads over all clients, by time, and for each client."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nfslat.answer.model import ServerInFlight
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.inflight import server_in_flight
from nfslat.fleet.compare.windows import Flying, Windows, flying
from nfslat.fleet.model import Phase, ServerWindow
from nfslat.fleet.run.changes import runs
from nfslat.fleet.run.joined import joined, of_server
from nfslat.fleet.run.phases import ByTime
from nfslat.fleet.run.slices import find_load
from nfslat.inflight.all_clients import Seen, ServerWide, seen_of, taken
from nfslat.inflight.levels import hidden_share
from nfslat.inflight.server import ServerLoad
from nfslat.kernels.levels import in_order
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Bool, Ops
from nfslat.model.units import NS_PER_S, iso, to_ms
from nfslat.select import is_reverse

_SOME_WAIT = 0.05  # of the server's time in a window is a wait for a thread; less is no limit


@dataclass(frozen=True, eq=False)
class Wide:
    """What the server's threads did for all clients; the columns of `load` have a row for each op of all parts, in the
    order of their calls' first frames, `rows` says which of them are a part's."""

    seen: Seen
    load: ServerLoad
    rows: tuple[I32, ...]
    inflight: ServerInFlight
    windows: list[ServerWindow]
    phases: list[Phase]

    def for_parts(self, indices: Sequence[int]) -> ServerWide:
        """What of it concerns the ops of some parts, joined in the order of their calls' first frames."""
        rows = [self.rows[at] for at in indices]
        joined = rows[0] if len(rows) == 1 else np.sort(np.concatenate([*rows, np.zeros(0, dtype=np.int32)]))
        return ServerWide(self.seen, taken(self.load, joined))


def find_wide(
    parts: Sequence[Decoded], facts: Decoded, windows: Windows, servers: Collection[str] = frozenset()
) -> Wide:
    """`parts` are a server's capture by pairs of hosts, each on one clock, `facts` what is known of it beside them.

    `servers` are addresses of the server, whose threads serve what comes to any of them; without them the one that
    answers most calls is looked at, as in a capture that nobody took apart.
    """
    whole, rows = joined(parts, facts)
    ops = whole.ops
    reverse = is_reverse(ops)
    if servers:
        ops, reverse = of_server(ops, reverse, frozenset(servers))
    compared: Bool = ~ops.spread(reverse)
    missing = int(missing_calls(whole).sum()) if ops.connections else 0
    states = whole.states
    hidden = hidden_share(states, missing), hidden_share(states)
    rows_in = slice(None) if compared.all() else np.flatnonzero(compared)
    # numpy and the compiled loops let go of Python's lock while they work.
    with ThreadPoolExecutor(1) as pool:
        flight = pool.submit(_flight, ops.t1[rows_in], ops.t2[rows_in], hidden[0], windows)
        load, by_time = find_load(replace(whole, ops=ops), reverse, hidden, windows)
        found, flown = flight.result()
    of_windows = _of_windows(ops, rows_in, load, flown, windows)
    end_ns = max(whole.last_ns, int(windows.edges_ns[-2]) + 1)
    server_ms = _mean_ms(float(of_windows.server_ns.sum()), int(of_windows.ops.sum())) or 0.0
    return Wide(
        seen=found,
        load=load,
        rows=rows,
        inflight=server_in_flight(found, load, np.flatnonzero(compared), server_ms),
        windows=_windows(of_windows, by_time, load, windows, end_ns),
        phases=_phases(of_windows, by_time, load, windows, end_ns),
    )


def _flight(starts: I64, ends: I64, hidden: float, windows: Windows) -> tuple[Seen, Flying]:
    begin_ns = int(starts.min(initial=np.iinfo(np.int64).max))
    events = in_order(starts, ends)
    shifted = replace(windows, begin_ns=windows.begin_ns - begin_ns)
    return seen_of(events, hidden), flying(*events, shifted)


@dataclass(frozen=True, eq=False)
class _OfWindows:
    """Figures of each window."""

    ops: I64
    area_ns: npt.NDArray[np.float64]
    busy_ns: npt.NDArray[np.float64]
    most: I64
    server_ns: npt.NDArray[np.float64]  # summed
    waiting: I64  # ops of which it is known how long they waited
    queue_ns: npt.NDArray[np.float64]  # of those, summed
    served_ns: npt.NDArray[np.float64]  # of those, from call to reply, summed


def _of_windows(ops: Ops, rows: slice | I64, load: ServerLoad, fly: Flying, windows: Windows) -> _OfWindows:
    t1, t2, queue = ops.t1[rows], ops.t2[rows], load.queue_ns[rows]
    at = windows.index(t1)
    known = queue != NULL

    def summed(values: I64, which: Bool | None = None) -> npt.NDArray[np.float64]:
        index, weights = (at, values) if which is None else (at[which], values[which])
        return np.bincount(index, weights, windows.count).astype(np.float64)

    took = t2 - t1
    return _OfWindows(
        ops=np.bincount(at, minlength=windows.count),
        area_ns=fly.area_ns,
        busy_ns=fly.busy_ns,
        most=fly.most,
        server_ns=summed(took),
        waiting=np.bincount(at[known], minlength=windows.count),
        queue_ns=summed(queue, known),
        served_ns=summed(took, known),
    )


def _limited(of: _OfWindows, load: ServerLoad) -> list[bool]:
    if not load.threads.limited:
        return [False] * len(of.ops)
    limited: list[bool] = ((of.served_ns > 0) & (of.queue_ns >= _SOME_WAIT * of.served_ns)).tolist()
    return limited


def _windows(of: _OfWindows, by_time: ByTime, load: ServerLoad, windows: Windows, end_ns: int) -> list[ServerWindow]:
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
                server_ms=_mean_ms(of.server_ns[at], ops),
                threads_lower_bound=by_time.bounds[at],
                threads_estimate=limit[0],
                threads_range=_range(limit),
                limited=limited,
                queue_ms=None if load.threads.cannot else _mean_ms(of.queue_ns[at], waiting),
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


def _phases(of: _OfWindows, by_time: ByTime, load: ServerLoad, windows: Windows, end_ns: int) -> list[Phase]:
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
                queue_ms=None
                if load.threads.cannot
                else _mean_ms(of.queue_ns[here].sum(), int(of.waiting[here].sum())),
                server_ms=_mean_ms(of.server_ns[here].sum(), ops),
                cannot=cannot or None,
            )
        )
    return out


def _mean_ms(total_ns: float, count: int) -> float | None:
    return to_ms(float(total_ns) / count) if count else None
