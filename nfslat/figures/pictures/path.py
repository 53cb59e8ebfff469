"""What the sender's capture shows of a direction, and the ops' charges -> data, repetitions and losses by time."""

from __future__ import annotations

import numpy as np

from nfslat.answer.pictures import Way
from nfslat.figures.pictures.bins import Bins
from nfslat.figures.pictures.clocks import on_client
from nfslat.model.blocks import tally
from nfslat.model.causes import LOSSES, Cause, code
from nfslat.model.details import TcpEvent
from nfslat.model.tables import I32, I64, Bool, Ops
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.wire.charges.places import BEFORE, place

_MB_PER_S = 1e3  # in a byte per ns


def ways(c: Analysis, bins: Bins) -> tuple[Way | None, Way | None]:
    """Of the calls, and of the replies, on connections with matched ops; None where nothing counted what TCP did."""
    if not (len(c.server.decoded.details.tcp) and len(c.client.decoded.details.tcp)):
        return None, None
    call, reply = (_way(c, bins, is_reply=is_reply) for is_reply in (False, True))
    return call, reply


def _way(c: Analysis, bins: Bins, *, is_reply: bool) -> Way:
    sender, rows = (c.server, c.matched.server) if is_reply else (c.client, c.matched.client)
    used = _used(sender.ops, rows, is_reply=is_reply)
    details = sender.decoded.details

    def placed(ns: I64) -> I64:
        return on_client(c, ns) if is_reply else ns

    loads = details.loads
    loads = loads.take(used[loads.conn, loads.direction])
    mb_per_s: list[float | None] = [None] * bins.count
    if not details.loads_dropped:
        begin, end = placed(loads.begin_ns), placed(loads.begin_ns + loads.stretch_ns)
        mb_per_s = [one * _MB_PER_S / bins.width_ns for one in spread(begin, end, loads.bytes, bins).tolist()]
    events = details.events
    again = (events.kind == TcpEvent.RETRANSMISSION) & used[events.conn, events.direction]
    at = bins.of(placed(events.t_ns[again]))
    inside = at[(at >= 0) & (at < bins.count)]
    return Way(mb_per_s, np.bincount(inside, minlength=bins.count).tolist(), _lost_ms(c, bins, is_reply=is_reply))


def _used(ops: Ops, rows: I32, *, is_reply: bool) -> Bool:
    """Row a connection, column a direction: did calls (or replies) of matched ops go that way?"""
    cells = 2 * len(ops.connections)
    calls = tally(len(rows), cells, lambda at: ops.conn[rows[at]].astype(np.int64) * 2 + ops.direction[rows[at]])
    used = calls.reshape(-1, 2) > 0
    return np.asarray(used[:, ::-1] if is_reply else used)


def spread(begin_ns: I64, end_ns: I64, amount: I64, bins: Bins) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Amounts of stretches of time, each evenly over what of it lies within the bins; what lies outside is left out."""
    first, last = bins.begin_ns, bins.begin_ns + bins.count * bins.width_ns
    inside = (end_ns > first) & (begin_ns < last)
    begin, end, left = np.maximum(begin_ns[inside], first), np.minimum(end_ns[inside], last), amount[inside]
    share = left / (end - begin)
    out = np.zeros(bins.count)
    while len(begin):
        at = bins.of(begin)
        until = np.minimum(end, bins.begin_ns + (at + 1) * bins.width_ns)
        out += np.bincount(at, share * (until - begin), bins.count)
        more = end > until
        begin, end, share = until[more], end[more], share[more]
    return out


def _lost_ms(c: Analysis, bins: Bins, *, is_reply: bool) -> list[float]:
    """Of the client SRT of the ops of each bin, what losses in this direction made."""
    charges = c.charges
    if charges is None:
        return [0.0] * bins.count
    rare = charges.rare
    rare = rare.only(np.isin(rare.cause, [code(one) for one in LOSSES]) & (rare.place < place(BEFORE)))
    # Within the server's part a call was kept back for bytes in front of it, or the reply waited behind others.
    of_call = (rare.place < place("server")) | (
        (rare.place == place("server")) & (rare.cause == code(Cause.BEHIND_LOSS))
    )
    rare = rare.only(~of_call if is_reply else of_call)
    at = bins.of(c.client.ops.t0[c.matched.client[rare.row]])
    return [to_ms(ns) for ns in np.bincount(at, rare.ns, bins.count).tolist()]
