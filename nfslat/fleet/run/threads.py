"""The server's whole side -> its threads over all clients: what is known of it by time, and each call's wait."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from nfslat.answer.model import ServerInFlight
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.inflight import server_in_flight
from nfslat.fleet.compare.windows import Windows, flying
from nfslat.fleet.model import Phase, ServerWindow
from nfslat.fleet.run.by_window import mean_ms, of_windows, phase_rows, window_rows
from nfslat.fleet.run.phases import ByTime, find_by_time
from nfslat.inflight.all_clients import ServerWide, seen_of
from nfslat.inflight.jobs import find_jobs
from nfslat.inflight.levels import hidden_share
from nfslat.inflight.server import ServerLoad, load_of, threads_of, told
from nfslat.kernels.levels import in_order
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Bool, Connection, Ops
from nfslat.select import is_reverse

_SPREAD_PORTS = 1 << 16  # addresses of one server are told apart by ports that there are not


@dataclass(frozen=True, eq=False)
class ServerThreads:
    """What is said of the server; the columns of `wide` have a row for each op of its capture."""

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
    load, by_time = _load(replace(whole, ops=ops), reverse, hidden, windows)
    rows_in = slice(None) if compared.all() else np.flatnonzero(compared)
    shifted = replace(windows, begin_ns=windows.begin_ns - begin_ns)
    figures = of_windows(ops, rows_in, load, flying(*events, shifted), windows)
    server_ms = mean_ms(float(figures.server_ns.sum()), int(figures.ops.sum())) or 0.0
    end_ns = max(whole.last_ns, int(windows.edges_ns[-2]) + 1)
    by_window = figures, by_time, load, windows, end_ns
    return ServerThreads(
        wide=ServerWide(seen, load),
        inflight=server_in_flight(seen, load, np.flatnonzero(compared), server_ms),
        windows=window_rows(*by_window),
        phases=phase_rows(*by_window),
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


def _load(whole: Decoded, reverse: Bool, hidden: tuple[float, float], windows: Windows) -> tuple[ServerLoad, ByTime]:
    ops = whole.ops
    jobs = find_jobs(ops, whole.loose, reverse, whole.details.blocked)
    threads = threads_of(jobs)
    judged = told(threads, jobs, hidden, whole.details)
    count = windows.count
    if judged is threads:
        by_time = find_by_time(jobs, threads, windows.bounds(jobs.work.arrival_ns))
    else:
        by_time = ByTime(judged, (judged.bound.threads,) * count, (None,) * count, (judged.without_rows,) * count)
    load = load_of(ops, jobs, by_time.threads)
    return load, replace(by_time, threads=load.threads)
