"""What was in flight + the matched ops -> the report's figures of threads, slots and sessions."""

from __future__ import annotations

import numpy as np

from nfslat.answer import model
from nfslat.inflight.all_clients import Seen
from nfslat.inflight.analysis import InFlight
from nfslat.inflight.server import ServerLoad
from nfslat.inflight.sessions import Session
from nfslat.inflight.slots import Held, MountSlots, Slots
from nfslat.model.tables import I32, I64, Ops, endpoint
from nfslat.model.units import to_ms
from nfslat.results import Analysis, Side
from nfslat.select import client_ends
from nfslat.tally.columns import OpColumns
from nfslat.tally.inflight import levels_rows
from nfslat.tally.ops import WAITS, OpSums


def inflight_of(c: Analysis, *, brief: bool = False) -> model.InFlight:
    """Levels and limits of both sides; means are over the matched ops. `brief`: levels are not listed one by one."""
    matched = len(c.matched)
    server_ms = float(to_ms(c.server_srt_ns.mean())) if matched else 0.0
    return _inflight(c.inflight, c.server.ops, c.client.ops, c.matched.server, server_ms, brief=brief)


def inflight_of_one(side: Side, found: InFlight) -> model.InFlight:
    """What one capture shows by itself. Which side it is is not known: what is said of the server holds if it was taken
    there, and so for the client. `found` takes it for both."""
    rows = np.flatnonzero(side.forward)
    server_ms = float(to_ms((side.ops.t2[rows] - side.ops.t1[rows]).mean())) if len(rows) else 0.0
    return _inflight(found, side.ops, side.ops, rows, server_ms)


def _inflight(
    found: InFlight, server: Ops, client: Ops, rows: I32 | I64, server_ms: float, *, brief: bool = False
) -> model.InFlight:
    at_server, at_client = client_ends(server), client_ends(client)
    return model.InFlight(
        server=server_in_flight(found.server, found.load, rows, server_ms, brief=brief),
        client=_client(found, at_client, brief=brief),
        sessions=[_session(one) for one in found.sessions],
        caps=[
            model.CapInFlight.like(
                cap,
                client=endpoint(*at_server[cap.conn]),
                zero_window_ms=to_ms(cap.zero_window_ns),
                median_ms=to_ms(cap.median_ns),
                others_median_ms=None if cap.others_median_ns is None else to_ms(cap.others_median_ns),
            )
            for cap in found.caps
        ],
        hidden_share={"server": found.server.hidden, "client": found.client.hidden},
    )


def queue_ms(c: Analysis, rows: slice | I32 | I64) -> float | None:
    """Mean wait for a thread of the matched ops `rows`; None where the packets do not tell."""
    return mean_queue_ms(c.inflight.load, c.inflight.load.queue_ns, c.matched.server[rows])


def mean_queue_ms(load: ServerLoad, queue_ns: I64, rows: slice | I32 | I64) -> float | None:
    """Mean of one of the columns of `load`, over the ops in `rows` that have it."""
    waits = queue_ns[rows]
    columns = OpColumns(len(waits), server_ns=waits.__getitem__, wait_ns=waits.__getitem__ if load.tells else None)
    (row,) = OpSums.of(columns, what=(WAITS,)).rows()
    return row.queue_ms


def server_in_flight(
    seen: Seen, load: ServerLoad, rows: I32 | I64, server_ms: float, *, brief: bool = False
) -> model.ServerInFlight:
    """Figures of the server; means are over the ops in `rows`, whose mean server SRT is `server_ms`."""
    threads = load.threads
    queue = mean_queue_ms(load, load.queue_ns, rows)
    least, most = (
        queue if column is load.queue_ns else mean_queue_ms(load, column, rows)  # without a limit all are one column
        for column in (load.queue_with_least_ns, load.queue_with_most_ns)
    )
    return model.ServerInFlight(
        server=load.jobs.server,
        servers=load.jobs.servers,
        max=seen.levels.max,
        mean=seen.levels.mean or 0.0,
        levels=[] if brief else levels_rows(seen.levels),
        knee=seen.knee,
        threads_lower_bound=threads.bound.threads,
        lower_bound_seen=threads.bound.times,
        threads_estimate=threads.estimate,
        threads_range=None if threads.low is None or threads.high is None else (threads.low, threads.high),
        limited=threads.limited,
        waiting_share=threads.waiting_share,
        queue_ms=queue,
        queue_range_ms=None if least is None or most is None else (most, least),
        service_ms=None if queue is None else server_ms - queue,
        witnesses=load.witnesses,
        held=load.jobs.held,
        unseen_first=load.jobs.unseen_first,
        cannot=threads.cannot or None,
        instead=threads.instead or None,
        limit_probability=None if threads.fits_best is None else round(threads.probability, 2),
    )


def _client(found: InFlight, ends: list[tuple[str, int]], *, brief: bool) -> model.ClientInFlight:
    seen = found.client
    first = found.mounts[0] if found.mounts else None
    clocked = (
        [(one.clocked_share, one.ops) for one in first.connections if one.clocked_share is not None] if first else []
    )
    return model.ClientInFlight(
        max=seen.levels.max,
        mean=seen.levels.mean or 0.0,
        levels=[] if brief else levels_rows(seen.levels),
        knee=seen.knee,
        slots_estimate=first.slots if first else None,
        at_limit_share=first.at_top_share if first else None,
        reply_clocked_share=sum(s * n for s, n in clocked) / sum(n for _, n in clocked) if clocked else None,
        limited=first is not None and first.slots is not None,
        held=(first.held if first else Held.UNKNOWN).value,
        callers_in_line=first.taking_turns if first else None,
        mounts=[_mount(ends, mount) for mount in found.mounts],
    )


def _mount(ends: list[tuple[str, int]], mount: MountSlots) -> model.MountInFlight:
    hints = {one.hint for one in mount.connections if one.limited}
    return model.MountInFlight.like(
        mount,
        server=endpoint(*mount.server),
        max=mount.levels.max,
        mean=mount.levels.mean or 0.0,
        held=mount.held.value,
        at_limit_share=mount.at_top_share,
        hint=hints.pop() if len(hints) == 1 else None,
        connections=[_connection(ends[one.conn], one) for one in mount.connections],
    )


def _connection(client: tuple[str, int], one: Slots) -> model.ConnectionInFlight:
    return model.ConnectionInFlight.like(
        one,
        client=endpoint(*client),
        max=one.levels.max,
        at_limit_share=one.at_top_share,
        reply_clocked_share=one.clocked_share,
        held=one.held.value,
    )


def _session(one: Session) -> model.SessionInFlight:
    return model.SessionInFlight.like(
        one,
        session=one.session.hex(),
        connections=len(one.connections),
        slots_negotiated=one.negotiated,
        target_slots=None if one.target is None else one.target[2],
        highest_slot_used=one.highest_slot,
    )
