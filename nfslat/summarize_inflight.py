"""What was in flight + the matched ops -> the report's figures of threads, slots and sessions."""

from __future__ import annotations

from nfslat.inflight.analysis import Seen
from nfslat.inflight.levels import Levels
from nfslat.inflight.sessions import Session
from nfslat.inflight.slots import Held, MountSlots, Slots
from nfslat.report import model
from nfslat.results import Correlation
from nfslat.select import client_ends
from nfslat.tables import I32, I64, endpoint

_NS_PER_MS = 1e6
_MOST_LEVELS = 512  # that are listed one by one


def inflight(c: Correlation) -> model.InFlight:
    """Levels and limits of both sides."""
    found, at_server = c.inflight, client_ends(c.server.ops)
    return model.InFlight(
        server=_server(c),
        client=_client(c, found.mounts),
        sessions=[_session(one) for one in found.sessions],
        caps=[
            model.CapInFlight(
                client=endpoint(*at_server[cap.conn]),
                ops=cap.ops,
                level=cap.level,
                level_share=cap.level_share,
                zero_windows=cap.zero_windows,
                zero_window_ms=cap.zero_window_ns / _NS_PER_MS,
                median_ms=cap.median_ns / _NS_PER_MS,
                others=cap.others,
                others_median_ms=None if cap.others_median_ns is None else cap.others_median_ns / _NS_PER_MS,
                likely=cap.likely,
            )
            for cap in found.caps
        ],
        hidden_share={"server": found.server.hidden, "client": found.client.hidden},
    )


def queue_ms(c: Correlation, rows: slice | I32 | I64 | None = None, *, threads: str = "best") -> float | None:
    """Mean wait for a thread of the matched ops `rows`; None where the packets do not tell.

    `threads`: with "best" estimate, or the "least" or "most" that the packets allow.
    """
    load = c.inflight.load
    if load.threads.cannot or not len(c.matched):
        return None
    column = {"best": load.queue_ns, "least": load.queue_with_least_ns, "most": load.queue_with_most_ns}[threads]
    matched = c.matched.server if rows is None else c.matched.server[rows]
    return float(column[matched].mean() / _NS_PER_MS)


def _server(c: Correlation) -> model.ServerInFlight:
    load, threads = c.inflight.load, c.inflight.load.threads
    queue, least, most = (queue_ms(c, threads=which) for which in ("best", "least", "most"))
    return model.ServerInFlight(
        server=load.jobs.server,
        servers=load.jobs.servers,
        max=c.inflight.server.levels.max,
        mean=c.inflight.server.levels.mean or 0.0,
        levels=_levels(c.inflight.server.levels),
        knee=c.inflight.server.knee,
        threads_lower_bound=threads.bound.threads,
        lower_bound_seen=threads.bound.times,
        threads_estimate=threads.estimate,
        threads_range=None if threads.low is None or threads.high is None else (threads.low, threads.high),
        limited=threads.limited,
        waiting_share=threads.waiting_share,
        queue_ms=queue,
        queue_range_ms=None if least is None or most is None else (most, least),
        service_ms=None if queue is None else float(c.server_srt_ns.mean() / _NS_PER_MS) - queue,
        witnesses=load.witnesses,
        held=load.jobs.held,
        unseen_first=load.jobs.unseen_first,
        cannot=threads.cannot or None,
    )


def _client(c: Correlation, mounts: tuple[MountSlots, ...]) -> model.ClientInFlight:
    seen: Seen = c.inflight.client
    first = mounts[0] if mounts else None
    clocked = (
        [(one.clocked_share, one.ops) for one in first.connections if one.clocked_share is not None] if first else []
    )
    return model.ClientInFlight(
        max=seen.levels.max,
        mean=seen.levels.mean or 0.0,
        levels=_levels(seen.levels),
        knee=seen.knee,
        slots_estimate=first.slots if first else None,
        at_limit_share=first.at_top_share if first else None,
        reply_clocked_share=sum(s * n for s, n in clocked) / sum(n for _, n in clocked) if clocked else None,
        limited=first is not None and first.held is Held.SLOTS,
        held=(first.held if first else Held.UNKNOWN).value,
        mounts=[_mount(c, mount) for mount in mounts],
    )


def _mount(c: Correlation, mount: MountSlots) -> model.MountInFlight:
    hints = {one.hint for one in mount.connections if one.limited}
    return model.MountInFlight(
        client=mount.client,
        server=endpoint(*mount.server),
        ops=mount.ops,
        max=mount.levels.max,
        mean=mount.levels.mean or 0.0,
        nconnect=mount.nconnect,
        held=mount.held.value,
        slots=mount.slots,
        at_limit_share=mount.at_top_share,
        hint=hints.pop() if len(hints) == 1 else None,
        connections=[_connection(client_ends(c.client.ops)[one.conn], one) for one in mount.connections],
    )


def _connection(client: tuple[str, int], one: Slots) -> model.ConnectionInFlight:
    return model.ConnectionInFlight(
        client=endpoint(*client),
        ops=one.ops,
        max=one.levels.max,
        level=one.level,
        at_limit_share=one.at_top_share,
        reply_clocked_share=one.clocked_share,
        turnaround_us=one.turnaround_us,
        held=one.held.value,
    )


def _session(one: Session) -> model.SessionInFlight:
    return model.SessionInFlight(
        session=one.session.hex(),
        callbacks=one.callbacks,
        connections=len(one.connections),
        ops=one.ops,
        slots_negotiated=one.negotiated,
        target_slots=None if one.target is None else one.target[2],
        highest_slot_used=one.highest_slot,
        slots_used=one.slots_used,
        limit=one.limit,
        at_limit_share=one.at_limit_share,
        reuse_share=one.reuse_share,
        own_limit=one.own_limit,
        limited=one.limited,
    )


def _levels(levels: Levels) -> list[model.Level]:
    busy_ns = levels.busy_ns
    return [
        model.Level(level, int(levels.time_ns[level]) / busy_ns, levels.throughput_per_s(level) or 0.0)
        for level in range(1, min(len(levels.time_ns), _MOST_LEVELS))
        if levels.time_ns[level]
    ]
