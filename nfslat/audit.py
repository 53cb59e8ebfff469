"""Sides -> what the reader must know before believing a figure: notes on each capture, and on the comparison."""

from __future__ import annotations

import numpy as np

from nfslat.columns import side_by_side
from nfslat.constants import NFS
from nfslat.decode.decoded import Decoded
from nfslat.inflight import flat_top
from nfslat.report.model import AuditNote
from nfslat.results import Correlation, Side
from nfslat.select import is_reverse
from nfslat.tables import I64, U32, Miss, State, hosts

_FLAT, _ENOUGH_OPS = 0.5, 100  # a top held for this share of the busy time, by this many ops, looks like a limit
_COUNTS_UP, _LARGEST_GAP = 0.3, 1000  # XIDs of a connection that count up, with gaps
_SPARSE = 8  # where XIDs are less dense than one in so many numbers, they are sorted
_MANY = 0.02  # a share above this changes the answer, so it is a warning


def hidden_share(decoded: Decoded) -> float:
    """Share of the RPC messages whose header was not captured."""
    return decoded.hidden / max(decoded.messages, 1)


def missing_calls(decoded: Decoded) -> I64:
    """Calls of each connection that the capture does not show, counted by the gaps in the client's XIDs; 0 where they
    do not count up.

    Most clients count their XIDs up by one a call on each connection (Linux net/sunrpc/xprt.c: xprt_alloc_xid), in the
    byte order of the machine. A lower bound: what is missing at the beginning and at the end leaves no gap.
    """
    ops, loose = decoded.ops, decoded.loose
    calls = loose.take(loose.is_reply == 0)  # of all programs: NFSACL shares NFS's connections and XIDs
    nfs = np.array([kind.program == NFS for kind in ops.kinds], dtype=np.bool_)
    with_nfs = {*ops.classes.conn[nfs[ops.classes.kind]].tolist(), *calls.conn[nfs[calls.kind]].tolist()}
    missing = np.zeros(len(ops.connections), dtype=np.int64)
    conn, xids = ops.conn, ops.xid
    if len(calls):
        conn, xids = np.concatenate([conn, calls.conn]), np.concatenate([xids, calls.xid])
    if len(missing) == 1:
        missing[:] = _gaps(xids) if with_nfs else 0
        return missing
    order, places = side_by_side(len(conn), len(missing), lambda at: conn[at])
    for row in with_nfs:
        missing[row] = _gaps(xids[order[places[row]]])
    return missing


def _gaps(xids: U32) -> int:
    # In the order in which they count up they are near each other.
    orders = sorted((xids, xids.byteswap()), key=lambda xids: int(xids.max() - xids.min()))
    counted = _steps(orders[0])
    if np.count_nonzero(counted == 1) * 2 < len(counted):
        counted = max(counted, _steps(orders[1]), key=lambda steps: np.count_nonzero(steps == 1))
    if np.count_nonzero(counted == 1) < _COUNTS_UP * len(counted):
        return 0
    return int((counted[counted <= _LARGEST_GAP] - 1).sum())


def _steps(xids: U32) -> I64:
    """From each of the XIDs, each taken once, to the next larger one."""
    lowest = xids.min()
    span = int(xids.max() - lowest) + 1
    if span > _SPARSE * len(xids):
        steps = np.asarray(np.diff(np.sort(xids).astype(np.int64)), dtype=np.int64)
        return steps[steps > 0]
    present = np.zeros(span, dtype=np.bool_)
    present[xids - lowest] = True
    return np.asarray(np.diff(np.flatnonzero(present)), dtype=np.int64)


def unseen_share(side: Side, other: Side, gaps: I64) -> float:
    """Share of the RPC messages, or of the calls, that a capture should show and does not: without a partner, or not
    captured. What is missing is rarely like the rest (it was sent when much was going on), so figures lean.

    Traffic of hosts that the `other` capture does not know is left out, unless nothing is left (NAT). `gaps` are the
    `missing_calls` of the side.
    """
    d, answered = side.decoded, side.ops.classes
    known = hosts(other.ops.connections)
    shared = np.array([hosts([ends]) <= known for ends in side.ops.connections], dtype=np.bool_)
    if not shared.any():
        shared = ~shared
    loose = d.loose.take(shared[d.loose.conn])
    ops = int(answered.count[shared[answered.conn]].sum())
    alone = int(np.isin(loose.state, (State.NO_REPLY, State.NO_CALL)).sum()) + d.hidden
    messages = 2 * ops + len(loose) + sum(d.repeats.values()) + d.hidden + d.malformed
    missing = int(gaps[shared].sum())
    calls = ops + int((loose.is_reply == 0).sum()) + missing
    return max(alone / max(messages, 1), missing / max(calls, 1))


def _damage(side: Side) -> str:
    """What the decoder says of the damage, in brackets; nothing where it does not say."""
    said = [file.damage for file in side.source.files if file.damage]
    return f" ({said[0]})" if said else ""


def capture_notes(side: Side, gaps: I64) -> list[AuditNote]:
    """What is wrong, or merely remarkable, with one capture; most serious first. `gaps` are its `missing_calls`."""
    d = side.decoded
    states = d.states
    total = d.messages
    notes = []

    def add(code: str, count: int, text: str, *, warn: bool) -> None:
        if count:
            notes.append(AuditNote(code, "warning" if warn else "info", text, count))

    add(
        "capture-cut-short",
        int(d.cut_short),
        f"the file ends in the middle of a packet, or is damaged{_damage(side)}; what precedes was read",
        warn=True,
    )
    add(
        "capture-truncated",
        d.hidden,
        f"at least {d.hidden} RPC headers ({hidden_share(d) * 100:.1f} %) were not captured: they lie behind the "
        "snaplen, inside a segment, or in a lost packet; their ops are missing here. A larger tcpdump -s, or -s 0, "
        "shows those behind the snaplen",
        warn=hidden_share(d) > _MANY,
    )
    missing = int(gaps.sum())
    calls = len(side.ops) + int((d.loose.is_reply == 0).sum()) + missing
    add(
        "capture-missing-calls",
        missing,
        f"about {missing} calls ({missing * 100 / max(calls, 1):.1f} %) are not shown, by the gaps in the client's "
        "XIDs; what is missing is rarely like the rest, so means and percentiles lean",
        warn=missing > _MANY * calls,
    )
    add(
        "capture-drops",
        d.lost_ranges,
        f"{d.lost_ranges} ranges of TCP data ({d.lost_bytes} bytes) were acknowledged but never captured: the capture "
        "host dropped packets, and ops are missing. A larger buffer (tcpdump -B) or a smaller -s helps",
        warn=True,
    )
    add(
        "capture-interface-drops",
        d.interface_drops,
        f"the capturing host itself counted {d.interface_drops} packets that it did not capture; ops are missing. A "
        "larger buffer (tcpdump -B) or a smaller -s helps",
        warn=True,
    )
    unanswered, orphans = states[State.NO_REPLY], states[State.NO_CALL]
    add(
        "capture-unanswered",
        unanswered,
        f"{unanswered} calls have no reply in the capture",
        warn=total > 0 and unanswered / total > _MANY,
    )
    add("capture-orphans", orphans, f"{orphans} replies have no call in the capture", warn=orphans > _MANY * total)
    add("malformed-rpc", d.malformed, f"{d.malformed} RPC messages do not make sense", warn=d.malformed > _MANY * total)
    packets = sum(d.packet_kinds.values())
    untracked = d.packet_kinds.get("untracked", 0)
    add(
        "capture-untracked",
        untracked,
        f"{untracked} packets belong to more connections than are followed at once; capture 'port 2049' only",
        warn=True,
    )
    add(
        "capture-duplicates",
        d.duplicate_packets,
        f"{d.duplicate_packets} packets ({d.duplicate_packets * 100 / max(packets, 1):.0f} %) were captured twice "
        "(-i any, a bond, a span port, or duplicated on the way); each is counted once",
        warn=False,
    )
    add(
        "capture-reordered",
        d.backward_times,
        f"{d.backward_times} packets carry an earlier time than the packet before them",
        warn=d.backward_times > 0.001 * packets,
    )
    add(
        "rpc-with-tls",
        d.tls_connections,
        f"{d.tls_connections} connections are encrypted (RPC-with-TLS); their operations cannot be seen",
        warn=True,
    )
    add(
        "capture-untimed",
        d.untimed_packets,
        f"{d.untimed_packets} packets have no time in the capture file and were given that of the packet before them; "
        "latencies that begin or end with one are wrong",
        warn=True,
    )
    overlapping = sum(b.first_ns < a.last_ns for a, b in zip(side.source.files, side.source.files[1:], strict=False))
    add(
        "files-overlap",
        overlapping,
        "files of the set overlap in time: they are no rotation of one capture, and were read one after the other",
        warn=True,
    )
    return sorted(notes, key=lambda note: note.severity != "warning")


def notes(c: Correlation, *, application_known: bool) -> list[str]:
    """What must be said about the comparison as a whole."""
    out = []
    if c.swapped:
        out.append(
            f"the files were given in the wrong order: {c.server.source.name} is the server's capture, "
            f"{c.client.source.name} the client's; read that way (--no-swap insists on the order given)"
        )
    if not application_known:
        out.append(
            "what happens above the client's wire (waiting for a slot, the application) is not in the captures: "
            "give the application's own mean with --app-ms to include it"
        )
        top = flat_top(c.client.ops, c.matched.client)
        if top is not None and top.level > 1 and top.share >= _FLAT and top.ops >= _ENOUGH_OPS:
            out.append(
                f"in flight at the client, on its busiest connection: {top.level} for {top.share * 100:.0f} % of the "
                f"busy time, and hardly ever more. {top.level} slots or {top.level} workers are its limit, and with "
                "slots calls wait above the wire: --app-ms tells which"
            )
    for name, count in (("server", c.strangers("server")), ("client", c.strangers("client"))):
        if count:
            out.append(f"{count} ops in the {name}'s capture belong to hosts that are not in the other one")
    for name in ("server", "client"):
        compared = c.compared(name)
        count = int(np.count_nonzero(compared & (c.missed(name) == Miss.OUTSIDE_OVERLAP)))
        if count:
            out.append(
                f"the captures overlap only in part: {count} of the {np.count_nonzero(compared)} ops of the {name}'s "
                "capture happened while the other was not running, and are left out"
            )
    if not c.theta.fits:
        out.append(
            "no constant clock offset fits all ops: a clock drifts or was set during the capture; "
            "network time is not split by direction (its sum needs no clock). An op that was under way when a clock "
            "was set has a wrong SRT, and may stand among the slowest"
        )
    reverse = max(
        int(np.count_nonzero(side.kept & side.ops.spread(is_reverse(side.ops)))) for side in (c.server, c.client)
    )
    if reverse:
        out.append(f"{reverse} calls from the server to the client (callbacks) are in the raw data only")
    retransmitted = int(np.count_nonzero(c.client.ops.transmissions[c.matched.client] > 1))
    if retransmitted:
        out.append(
            f"{retransmitted} ops were sent again by RPC (timeo ran out, or a new connection); "
            "their client SRT counts from the first transmission"
        )
    return out
