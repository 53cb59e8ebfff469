"""A call that has the XID of another one, or a packet that has its bytes: is it that one, sent or captured again?

The native engine decides in `native/src/ops/again.rs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nfslat.decode.tshark.messages import Messages
from nfslat.model.protocol import NULL
from nfslat.model.tables import State

# A call that comes again after its answer has left was sent before the answer arrived, so within a round trip and
# some queueing; later than this, the XID is in use for another op.
LATE_RETRANSMISSION_NS = 1_000_000_000
# Unless the answer was lost: over UDP (timeo 1.1 s, doubled, a minute at most), or with the connection that carried it
# (reconnect). Then the call comes again much later, and is known by asking for exactly the same.
LOST_ANSWER_NS = 180_000_000_000
# What comes sooner was not sent again: timeo counts tenths of a second, and Linux's timers for UDP take as long
# (RPC_RTO_MIN). The other half is room for what the way does to the distance of two packets.
LEAST_TIMER_NS = 50_000_000
# XIDs of a connection that were surely in use again soon, from which on any may be.
ENOUGH_REUSED = 8
# Two copies of one packet without an IP identification (IPv6) are told from a TCP retransmission by their distance:
# the shortest retransmission timer in use is 200 ms (Linux TCP_RTO_MIN), a fast retransmission needs a round trip.
COPY_NS = 1_000_000


@dataclass(slots=True)
class Op:
    """A call and what belongs to it: rows of the messages; NULL where there is none."""

    call: int
    reply: int = NULL
    last_call: int = NULL
    transmissions: int = 1
    again: list[int] = field(default_factory=list)  # its other messages, copies among them


class Reused:
    """Connections whose XIDs come again soon all the time, and from which frame on that is known."""

    def __init__(self) -> None:
        self._frames: dict[int, list[int]] = {}  # of calls that surely used an XID again, by connection
        self._from: dict[int, int] = {}

    def add(self, conn: int, frame: int) -> None:
        """A call surely used an XID again soon."""
        self._frames.setdefault(conn, []).append(frame)

    def close(self) -> bool:
        """All calls were seen: is there such a connection?"""
        enough = {conn: sorted(frames) for conn, frames in self._frames.items() if len(frames) >= ENOUGH_REUSED}
        self._from = {conn: frames[ENOUGH_REUSED - 1] for conn, frames in enough.items()}
        return bool(self._from)

    def before(self, conn: int, frame: int) -> bool:
        """Is it known in front of `frame`?"""
        known = self._from.get(conn)
        return known is not None and known < frame


def earlier_copy(m: Messages, earlier: list[int], row: int) -> tuple[int, State | None]:
    """Which of the `earlier` rows `row` is the very packet of, or the very bytes of; (-1, None) where of none."""
    for other in earlier:
        same_ip = m.ip_id[row] == m.ip_id[other]
        apart_ns = abs(int(m.t_ns[row] - m.t_ns[other]))
        if m.seq[row] != NULL:
            if m.seq[row] != m.seq[other]:
                continue
            same_packet = same_ip and (m.ip_id[row] > 0 or apart_ns < COPY_NS)
            return other, State.DUPLICATE_FRAME if same_packet else State.RETRANSMITTED
        if same_ip and apart_ns < (LATE_RETRANSMISSION_NS if m.ip_id[row] > 0 else COPY_NS):
            return other, State.DUPLICATE_FRAME
    return NULL, None


def same_request(m: Messages, a: int, b: int) -> bool:
    """Do two calls ask for the same thing, as far as both captures show it?"""
    if m.program[a] != m.program[b] or m.version[a] != m.version[b]:
        return False
    if 1 in (m.op[a], m.op[b]) and m.version[a] == 4:
        return True  # a COMPOUND whose operations are encrypted or cut off
    return all(NULL in (column[a], column[b]) or column[a] == column[b] for column in (m.op, m.offset, m.size, m.fh))


def may_be_sent_again(m: Messages, op: Op, row: int, reused: Reused) -> bool:
    """Can the call `row` be that of `op`, which asks for the same, sent again?"""
    if op.reply == NULL:
        return True
    if _is_used_again(m, op, row, reused):
        return False
    since_ns = int(m.first_ns[row] - m.last_ns[op.reply])
    answer_may_be_lost = m.seq[row] == NULL or m.stream[row] != m.stream[op.reply]
    return since_ns < (LOST_ANSWER_NS if answer_may_be_lost and m.fh[row] != NULL else LATE_RETRANSMISSION_NS)


def _is_used_again(m: Messages, op: Op, row: int, reused: Reused) -> bool:
    """Is a call with the XID of an answered op, which asks for the same as far as can be seen, surely another one?

    What RPC sends again was sent before the answer arrived, by a timer that takes its time. So a call is another one
    where it comes sooner, and over TCP acknowledges the answer, too. It may acknowledge the answer, after a
    timer's time, without having seen it, where it waited in the socket or was lost in front of the tap.
    """
    since_ns = int(m.first_ns[row] - m.first_ns[op.call])
    is_soon = op.transmissions == 1 and since_ns < LEAST_TIMER_NS
    if m.seq[row] == NULL:
        return is_soon and m.connections[m.conn[row]].transport == "udp"
    may_be_any = bool(m.at_once[row]) or reused.before(int(m.conn[row]), int(m.first_frame[row]))
    return is_acknowledged(m, op, row) and (is_soon or may_be_any)


def is_acknowledged(m: Messages, op: Op, row: int) -> bool:
    """Had the sender of call `row` acknowledged, not long after it came, the answer to `op` on this TCP connection?"""
    if op.reply == NULL or m.stream[row] != m.stream[op.reply] or NULL in (m.acked[row], m.end[op.reply]):
        return False
    is_soon = m.first_ns[row] - m.last_ns[op.reply] < LATE_RETRANSMISSION_NS
    return bool(is_soon and m.acked[row] >= m.end[op.reply])
