"""Sides -> what the reader must know before believing a figure: notes on each capture, and on the comparison."""

from __future__ import annotations

from nfslat.decode.reader import Decoded
from nfslat.report.model import AuditNote
from nfslat.results import Correlation, Side
from nfslat.select import is_reverse
from nfslat.tables import Miss, State

_MANY = 0.02  # a share above this changes the answer, so it is a warning


def hidden_share(decoded: Decoded) -> float:
    """Share of the RPC messages whose header was not captured."""
    total = len(decoded.messages) + decoded.hidden + decoded.malformed
    return decoded.hidden / total if total else 0.0


def capture_notes(side: Side) -> list[AuditNote]:
    """What is wrong, or merely remarkable, with one capture; most serious first."""
    d = side.decoded
    total = len(d.messages) + d.hidden + d.malformed
    notes = []

    def add(code: str, count: int, text: str, *, warn: bool) -> None:
        if count:
            notes.append(AuditNote(code, "warning" if warn else "info", text, count))

    add(
        "capture-cut-short",
        int(d.cut_short),
        "the file ends in the middle of a packet; what precedes was read",
        warn=True,
    )
    add(
        "capture-truncated",
        d.hidden,
        f"{d.hidden} RPC headers ({hidden_share(d) * 100:.1f} %) were not captured: they lie behind the snaplen or "
        "inside a segment; their ops are missing here. A larger tcpdump -s, or -s 0, shows them",
        warn=hidden_share(d) > _MANY,
    )
    add(
        "capture-drops",
        d.lost_ranges,
        f"{d.lost_ranges} ranges of TCP data ({d.lost_bytes} bytes) were acknowledged but never captured: the capture "
        "host dropped packets, and ops are missing. A larger buffer (tcpdump -B) or a smaller -s helps",
        warn=True,
    )
    unanswered = int((side.paired.states == State.NO_REPLY).sum())
    orphans = int((side.paired.states == State.NO_CALL).sum())
    add(
        "capture-unanswered",
        unanswered,
        f"{unanswered} calls have no reply in the capture",
        warn=total > 0 and unanswered / total > _MANY,
    )
    add("capture-orphans", orphans, f"{orphans} replies have no call in the capture", warn=orphans > _MANY * total)
    add("malformed-rpc", d.malformed, f"{d.malformed} RPC messages do not make sense", warn=d.malformed > _MANY * total)
    packets = sum(d.packet_kinds.values())
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
    if not application_known:
        out.append(
            "what happens above the client's wire (waiting for a slot, the application) is not in the captures: "
            "give the application's own mean with --app-ms to include it"
        )
    if c.swapped:
        out.append(
            f"the files were given in the wrong order: {c.server.source.name} is the server's capture, "
            f"{c.client.source.name} the client's; read that way (--no-swap insists on the order given)"
        )
    outside = {
        name: int((c.compared(name) & (fate == Miss.OUTSIDE_OVERLAP)).sum())
        for name, fate in (("server", c.matching.unmatched.server), ("client", c.matching.unmatched.client))
    }
    for name, count in outside.items():
        if count:
            processed = int(c.compared(name).sum())
            out.append(
                f"the captures overlap only in part: {count} of the {processed} ops of the {name}'s capture "
                "happened while the other was not running, and are left out"
            )
    if not c.theta.fits:
        out.append(
            "no constant clock offset fits all ops: a clock drifts or was set during the capture; "
            "network time is not split by direction (its sum needs no clock and stands)"
        )
    reverse = max(int((side.kept & is_reverse(side.ops)).sum()) for side in (c.server, c.client))
    if reverse:
        out.append(f"{reverse} calls from the server to the client (callbacks) are in the raw data only")
    retransmitted = int((c.client.ops.transmissions[c.matched.client] > 1).sum())
    if retransmitted:
        out.append(
            f"{retransmitted} ops were sent again by RPC (timeo ran out, or a new connection); "
            "their client SRT counts from the first transmission"
        )
    return out
