"""The server's whole side -> its threads over all clients: by time, and how long each call waited for one.

One number of threads for the whole time is wrong where somebody changed it meanwhile, and is not found where it is a
limit for a part of the time. So what `nfslat.inflight.segments` tells apart is looked at as a capture by itself; where
that says the same as the whole time does, this stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nfslat.answer.model import ServerInFlight
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.inflight import server_in_flight
from nfslat.fleet.compare.cells import columns_of
from nfslat.fleet.compare.windows import Windows, flying
from nfslat.fleet.model import Phase, ServerWindow
from nfslat.inflight.all_clients import ServerWide, seen_of
from nfslat.inflight.jobs import Jobs, find_jobs
from nfslat.inflight.levels import Levels, hidden_share
from nfslat.inflight.segments import Calls, segments
from nfslat.inflight.server import led_by_whole, load_of, threads_of, told
from nfslat.inflight.threads import Threads, lower_bound
from nfslat.kernels.levels import in_order
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Bool, Connection, Ops
from nfslat.model.units import NS_PER_S, iso
from nfslat.select import is_reverse
from nfslat.tally.keys import Grouping
from nfslat.tally.ops import OpFigures, OpSums

_SPREAD_PORTS = 1 << 16  # addresses of one server are told apart by ports that there are not
_WAIT_SHARE = 0.05  # of the server's time; less is no limit
_SAME_FACTOR = 1.2  # times as many threads are as many, as far as can be told


@dataclass(frozen=True, eq=False)
class ServerThreads:
    """What is known of the server; the columns of `wide` have a row for each op of its capture."""

    wide: ServerWide
    inflight: ServerInFlight
    windows: list[ServerWindow]
    phases: list[Phase]


def find_server_threads(whole: Decoded, windows: Windows, servers: Collection[str] = frozenset()) -> ServerThreads:
    """`whole` is on one clock. `servers` are addresses of the server, whose threads serve what comes to any of them;
    without them the one that answers most calls is looked at."""
    ops, reverse = whole.ops, is_reverse(whole.ops)
    if servers:
        ops, reverse = as_one_server(ops, reverse, frozenset(servers))
    compared: Bool = ~ops.spread(reverse)
    missing = int(missing_calls(whole).sum()) if ops.connections else 0
    hidden = hidden_share(whole.states, missing), hidden_share(whole.states)
    events = in_order(ops.t1[compared], ops.t2[compared])
    begin_ns = int(ops.t1[compared].min(initial=np.iinfo(np.int64).max))
    seen = seen_of(events, hidden[0])
    jobs = find_jobs(ops, whole.loose, reverse, whole.details.blocked)
    of_all = threads_of(jobs)
    judged = told(of_all, jobs, hidden, whole.details)
    stretches = [_Stretch(slice(0, len(jobs.op)), judged)]
    if judged is of_all and windows.count > 1:
        stretches = _stretches(jobs, of_all)
    load = load_of(ops, jobs, _of_all_time(jobs, judged, stretches))
    rows = slice(None) if compared.all() else np.flatnonzero(compared)
    columns = columns_of(None, ops.t2[rows] - ops.t1[rows], load.queue_ns[rows] if load.tells else None)
    begins_ns = [int(jobs.work.arrival_ns[at.start]) for at, _ in stretches[1:]]
    number = np.searchsorted(begins_ns, ops.t1[rows], side="right")
    window = windows.index(ops.t1[rows])
    by_window = OpSums.of(columns, Grouping(window, range(windows.count)))
    of_stretches = OpSums.of(columns, Grouping(number, range(len(stretches))))
    mean_ms = of_stretches.total().rows()[0].mean_ms("server")
    in_flight = flying(events, replace(windows, begin_ns=windows.begin_ns - begin_ns))
    end_ns = max(whole.last_ns, int(windows.edges_ns[-2]) + 1)
    return ServerThreads(
        wide=ServerWide(seen, load),
        inflight=server_in_flight(seen, load, np.flatnonzero(compared), mean_ms or 0.0),
        windows=_window_rows(by_window, windows, end_ns, in_flight, jobs, stretches),
        phases=_phase_rows(of_stretches, [windows.begin_ns, *begins_ns, end_ns], stretches),
    )


def as_one_server(ops: Ops, reverse: Bool, servers: frozenset[str]) -> tuple[Ops, Bool]:
    """The same with all addresses of the server as one, and what is called elsewhere masked like a callback."""
    number = {address: at for at, address in enumerate(sorted(servers))}
    first = min(servers)

    def named(address: str, port: int) -> tuple[str, int]:
        return (first, port + _SPREAD_PORTS * number[address]) if address in number else (address, port)

    ends = [(*named(c.addr_a, c.port_a), *named(c.addr_b, c.port_b)) for c in ops.connections]
    connections = tuple(Connection(c.transport, *names) for c, names in zip(ops.connections, ends, strict=True))
    ops = replace(ops, connections=connections)
    c = ops.classes
    elsewhere = [connections[conn].destination(way)[0] != first for conn, way in zip(c.conn, c.direction, strict=True)]
    return ops, reverse | np.array(elsewhere, dtype=np.bool_)


# --- Stretches of time in which the server is in one state ------------------------------------------------------------


class _Stretch(NamedTuple):
    """`threads` say what its calls wait for; they may be of the whole time."""

    rows: slice
    threads: Threads


def _stretches(jobs: Jobs, whole: Threads) -> list[_Stretch]:
    """`whole` is what `threads_of` makes of all of `jobs`."""
    work = jobs.work
    server_ns = work.server_ns
    borders = segments(Calls(work.arrival_ns, jobs.kind, server_ns, np.zeros_like(server_ns)))
    cuts = [0, *np.searchsorted(work.arrival_ns, borders).tolist(), len(jobs.op)]
    rows = [slice(begin, end) for begin, end in pairwise(cuts)]
    if len(rows) < 2:
        return [_Stretch(rows[0], whole)]
    alone = [threads_of(jobs.part(at)) for at in rows]
    if all(_agrees(jobs, whole, at, own) for at, own in zip(rows, alone, strict=True)):
        return [_Stretch(at, whole) for at in rows]
    by_whole = led_by_whole(whole, alone)
    return [
        _Stretch(at, whole if number in by_whole else own)
        for number, (at, own) in enumerate(zip(rows, alone, strict=True))
    ]


def _agrees(jobs: Jobs, whole: Threads, rows: slice, own: Threads) -> bool:
    """Does what is said of the whole time hold here, too? Where nothing waits, hardly anything may wait by it."""
    if own.cannot or own.instead or not whole.limited:
        return not own.limited and whole.limited == own.limited
    if own.limited:
        return _is_same(own.estimate, whole.estimate)
    waited_ns = (whole.start_ns - jobs.work.arrival_ns)[rows]
    server_ns = jobs.work.server_ns[rows]
    return bool(waited_ns.mean() < _WAIT_SHARE * server_ns.mean())


def _is_same(threads: int | None, other: int | None) -> bool:
    if threads is None or other is None:
        return threads is other
    return max(threads, other) <= max(_SAME_FACTOR * min(threads, other), min(threads, other) + 1)


def _of_all_time(jobs: Jobs, whole: Threads, stretches: list[_Stretch]) -> Threads:
    """What is said of each call's wait, and of all of them that by which calls wait most. Its range is its own, for
    another number at another time is no doubt about this one."""
    if all(threads is whole for _, threads in stretches):
        return whole
    start_ns, low_start_ns, high_start_ns = (
        np.concatenate([getattr(own, name)[rows] if own is whole else getattr(own, name) for rows, own in stretches])
        for name in ("start_ns", "low_start_ns", "high_start_ns")
    )
    of_each = whole._replace(start_ns=start_ns, low_start_ns=low_start_ns, high_start_ns=high_start_ns)
    waited_ns = start_ns - jobs.work.arrival_ns
    limits = [(int(waited_ns[rows].sum()), threads) for rows, threads in stretches if threads.limited]
    if not limits:
        untold = next((own for _, own in stretches if own.cannot or own.instead), stretches[0].threads)
        return of_each.untold(untold.cannot)._replace(instead=untold.instead)
    _, main = max(limits, key=lambda limit: limit[0])
    return of_each._replace(
        estimate=main.estimate,
        low=main.low,
        high=main.high,
        bound=whole.bound if whole.bound.threads <= (main.low or 0) else main.bound,
        limited=True,
        forced_share=main.forced_share,
        waiting_share=float((waited_ns > 0).mean()),
        cannot="",
        instead="",
    )


# --- Rows of the report -----------------------------------------------------------------------------------------------


def _window_rows(
    sums: OpSums, windows: Windows, end_ns: int, in_flight: list[Levels], jobs: Jobs, stretches: list[_Stretch]
) -> list[ServerWindow]:
    """A row each, with the limit of the stretch that most of its calls are in; the last one ends at `end_ns`."""
    edges_ns = [*windows.edges_ns[:-1].tolist(), end_ns]
    bounds = windows.bounds(jobs.work.arrival_ns)
    calls = np.array([np.diff(np.clip(bounds, rows.start, rows.stop)) for rows, _ in stretches])
    out = []
    for at, (own, main) in enumerate(zip(sums.rows(), np.argmax(calls, axis=0).tolist(), strict=True)):
        limit = _limit(stretches[main].threads, own)
        out.append(
            ServerWindow(
                begin=iso(edges_ns[at]),
                end=iso(edges_ns[at + 1]),
                ops=own.count,
                ops_per_s=float(own.count) * NS_PER_S / (edges_ns[at + 1] - edges_ns[at]),
                in_flight_mean=in_flight[at].mean or 0.0,
                in_flight_max=in_flight[at].max,
                server_ms=own.mean_ms("server"),
                threads_lower_bound=_seen_at_once(jobs, slice(*bounds[at : at + 2].tolist())),
                threads_estimate=None if limit is None else limit.estimate,
                threads_range=_range(limit),
                limited=limit is not None,
                queue_ms=own.queue_ms,
            )
        )
    return out


def _phase_rows(sums: OpSums, edges_ns: list[int], stretches: list[_Stretch]) -> list[Phase]:
    """A row for each stretch; `sums` are by number of it."""
    out = []
    for own, (_, threads), (begin_ns, end_ns) in zip(sums.rows(), stretches, pairwise(edges_ns), strict=True):
        limit = _limit(threads, own)
        out.append(
            Phase(
                begin=iso(begin_ns),
                end=iso(end_ns),
                limited=limit is not None,
                threads=None if limit is None else limit.estimate,
                threads_range=_range(limit),
                ops=own.count,
                queue_ms=own.queue_ms,
                server_ms=own.mean_ms("server"),
                cannot=threads.cannot or None,
            )
        )
    return out


def _limit(threads: Threads, own: OpFigures) -> Threads | None:
    """`threads`, where ops with these figures wait for them."""
    wait_ms, server_ms = own.queue_ms, own.mean_ms("server")
    if not threads.limited or not wait_ms or server_ms is None or wait_ms < _WAIT_SHARE * server_ms:
        return None
    return threads


def _range(limit: Threads | None) -> tuple[int, int] | None:
    return None if limit is None or limit.low is None or limit.high is None else (limit.low, limit.high)


def _seen_at_once(jobs: Jobs, rows: slice) -> int:
    """Calls that were in threads at once, at least."""
    plain = rows if jobs.plain[rows].all() else rows.start + np.flatnonzero(jobs.plain[rows])
    return lower_bound(jobs.work.part(plain)).threads
