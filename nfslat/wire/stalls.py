"""Silences of a TCP sender (`details.Pauses`) -> what each of them waited for, one cause a row.

The timers and where they come from: RFC 6298 and Linux `TCP_RTO_MIN` (retransmission timeout), RFC 8985 section 7
(tail-loss probe), RFC 5681 section 3.2 and RFC 6675 (fast retransmit and recovery), RFC 9293 section 3.8.6 (windows),
RFC 1122 section 4.2.3.2 and RFC 5681 section 4.2 (delayed ACK), and the kernels' own figures for it.

A capture shows these things where it was taken, which is said by two round trips: `rtt_min_ns`, from the capture to
the receiver and back (data of the direction to the ACK that covers them), and `sender_rtt_ns`, from the capture to the
sender and back (the same of the other direction). One of them is about 0 where the capture was taken at an end. At
the receiver's an ACK passes first, and the data that it released come a round trip later.

What cannot be told there: whether it was the receiver's window or the congestion window that an ACK opened (the
sender had more under way than the receiver sees), unless the window is too small for a segment. Nor can it be told at
the sender's end where the window is not known, for want of the handshake that says its scale (see
`nfslat.wire.window_scales`).
"""

from __future__ import annotations

import numpy as np

from nfslat.model.causes import Cause, code
from nfslat.model.details import Ended, Pauses, Went
from nfslat.model.protocol import NULL
from nfslat.model.tables import I8, I64, Bool
from nfslat.model.units import NS_PER_MS

RTO_MIN_NS = 200 * NS_PER_MS  # Linux and FreeBSD; Solaris has 400, RFC 6298 a second: there all the more
DELAYED_ACK_NS = (30 * NS_PER_MS, 550 * NS_PER_MS)  # 40 ms, a tick early, to 500 (RFC 1122), a tick late
# An answer to what was heard comes within so much: a wake-up of a busy or virtual host.
_AT_ONCE_NS = 2 * NS_PER_MS
_AT_ONCE_LEAST, _AT_ONCE_MOST = 20, 8  # parts of the silence: a 20th where that is more, an 8th where that is less
_TICK_NS = 10 * NS_PER_MS  # of the slowest kernel clock: timers go off so much early or late
_PROBE_SLACK_NS = 25 * NS_PER_MS  # two ticks of the slowest clock, which Linux adds to a probe's timer, and a wake-up
_DUP_ACKS = 3  # RFC 5681
_RECOVERY_NS = 5 * NS_PER_MS  # from one repeat to the next, where round trips are shorter: a busy host's jitter

# Timers of delayed ACKs: (name in ms, from, to), of the time that the ACK was held. They count in ticks of up to 10 ms,
# of which the first is under way when they are set.
_TIMERS_MS = ((40, 30, 49), (50, 49, 60), (100, 90, 115), (200, 190, 230), (500, 475, 575))


def timer_ms(held_ns: int) -> int | None:
    """The delayed-ACK timer that goes with an ACK held so long: 40 (Linux), 50 or 100 (Solaris), 200 (Windows, BSD),
    500 (the most that RFC 1122 allows); None: no such timer."""
    return next((name for name, least, most in _TIMERS_MS if least * NS_PER_MS <= held_ns < most * NS_PER_MS), None)


def awaited(pauses: Pauses) -> I8:
    """What each sender waits for that an ACK lets go on, and that does not lack room in a window that is known."""
    known = pauses.window != NULL
    return np.where(known, code(Cause.CONGESTION_WINDOW), code(Cause.UNKNOWN_WINDOW)).astype(np.int8)


def silence_ns(pauses: Pauses) -> I64:
    """How long each pause lasted; 0 where nothing was sent before it."""
    return np.where(pauses.begin_ns == NULL, 0, pauses.end_ns - pauses.begin_ns)


def classify(
    pauses: Pauses,
    *,
    rtt_min_ns: int | I64,
    mss: int | I64,
    sender_rtt_ns: int | I64 = NULL,
    jitter_ns: int | I64 = 0,
) -> I8:
    """The cause of each pause, as `causes.code`. Round trips as above, in ns, and the MSS in bytes: one for
    all rows or one a row, NULL where it is not known. `jitter_ns`: how much later than the shortest way to the sender
    and back takes an answer may come, where `pauses` were put into the sender's view by that way."""
    rows = _Rows(pauses, rtt_min_ns, mss, sender_rtt_ns, jitter_ns)
    again = np.isin(pauses.went, (Went.REPEATED, Went.LATE))
    causes = np.where(again, rows.of_repeats(), rows.of_new())
    probe = np.where(pauses.window_end == 0, code(Cause.ZERO_WINDOW), code(Cause.SENDER))
    probe = np.where(pauses.window_end == NULL, code(Cause.UNKNOWN), probe)
    return np.where(pauses.went == Went.PROBE, probe, causes).astype(np.int8)


class _Rows:
    """Pauses with what several rules ask of them; masks and int64 columns as long as they are."""

    def __init__(
        self, pauses: Pauses, rtt_min_ns: int | I64, mss: int | I64, sender_rtt_ns: int | I64, jitter_ns: int | I64
    ) -> None:
        rows = len(pauses)
        self.pauses = pauses
        self.rtt: I64 = np.broadcast_to(np.asarray(rtt_min_ns, dtype=np.int64), rows)
        self.mss: I64 = np.broadcast_to(np.asarray(mss, dtype=np.int64), rows)
        self.far: I64 = np.broadcast_to(np.asarray(sender_rtt_ns, dtype=np.int64), rows)
        far = self.far
        self.begins = pauses.begin_ns != NULL
        self.silence = silence_ns(pauses)
        self.hears = pauses.heard_ns != NULL
        # From the last data to what was heard last, and from there to what it went on with.
        self.until_heard = np.where(self.hears & self.begins, pauses.heard_ns - pauses.begin_ns, 0)
        self.since_heard = np.where(self.hears, pauses.end_ns - pauses.heard_ns, self.silence)
        slack = np.maximum(np.minimum(_AT_ONCE_NS, self.silence // _AT_ONCE_MOST), self.silence // _AT_ONCE_LEAST)
        # Without a figure of the way to the sender a fourth of the wait passes for it.
        reaction = np.where(far == NULL, self.until_heard // 4, far + far // 4) + slack + jitter_ns
        self.at_once = self.hears & (self.since_heard <= reaction)
        # Data that come sooner after an ACK than the way to the sender and back is long were not released by it.
        self.too_soon = self.hears & (far != NULL) & (self.since_heard < far - far // 4) & (far > _AT_ONCE_NS)
        self.acked = self.hears & (pauses.under_way_end < pauses.under_way)
        # The other side's data end its turn, but for the middle of a message.
        self.in_turn = (pauses.ended != Ended.DATA) | (pauses.in_message == 1)
        self.round_trips = np.maximum(self.rtt, 0) + np.maximum(far, 0)  # end to end

    def of_new(self) -> I64:
        """Causes where new data were sent."""
        pauses = self.pauses
        segment = np.where(self.mss == NULL, pauses.size, np.minimum(pauses.size, self.mss))
        released = np.isin(pauses.ended, (Ended.ACK, Ended.WINDOW, Ended.DATA)) & self.at_once & ~self.too_soon
        closed = pauses.window_least == 0
        full = (pauses.window != NULL) & (pauses.under_way + segment > pauses.window)
        # A window that could not take the segment even with all acknowledged, at whichever side it is looked at.
        full |= (pauses.window_least != NULL) & (pauses.window_least < segment)
        # Nothing else opens when only the window moves.
        full |= (pauses.window == NULL) & (pauses.ended == Ended.WINDOW)
        late = self.until_heard - np.maximum(self.rtt, 0)
        timer = (self.until_heard >= DELAYED_ACK_NS[0]) & (late <= DELAYED_ACK_NS[1])
        # The timer's ACK covers all that has come: where more stays under way it is the path that is slow.
        timer &= (late >= np.maximum(self.rtt, DELAYED_ACK_NS[0] // 2)) & (pauses.under_way_end == 0)
        return np.select(
            [
                released & closed,
                released & full,
                released & self.acked & self.in_turn & timer,
                released & self.acked & self.in_turn,
                self._probes_with_new(),
                # Limited transmit (RFC 3042), and what recovery lets through.
                (pauses.ended == Ended.DUPLICATE) & self.at_once & ~self.too_soon,
                ~self.too_soon,
            ],
            [
                code(Cause.ZERO_WINDOW),
                code(Cause.RECEIVE_WINDOW),
                code(Cause.DELAYED_ACK),
                awaited(pauses),
                code(Cause.TAIL_LOSS_PROBE),
                code(Cause.CONGESTION_WINDOW),
                code(Cause.SENDER),
            ],
            code(Cause.UNKNOWN),
        )

    def _probes_with_new(self) -> Bool:
        """A tail-loss probe may be a new segment, if there is one: in the middle of a message there is."""
        pauses = self.pauses
        least = 2 * self.rtt - self.rtt // 8
        return np.asarray(
            (pauses.ended == Ended.NOTHING)
            & (pauses.in_message == 1)
            & (self.rtt != NULL)
            & (self.mss != NULL)
            & (pauses.size <= self.mss)
            & (pauses.under_way_end > pauses.size_before)
            & (self.silence >= np.maximum(least, _AT_ONCE_NS))
            & (self.silence <= 2 * least + _PROBE_SLACK_NS)
        )

    def of_repeats(self) -> I64:
        """Causes where bytes were sent again, or came late."""
        pauses = self.pauses
        late = pauses.went == Went.LATE
        since_sent = np.where(pauses.sent_ns == NULL, self.silence, pauses.end_ns - pauses.sent_ns)
        told = pauses.duplicate_acks > 0
        # A timer ended it: nothing was heard, or it was heard long ago; and a round trip is over.
        quiet = self.round_trips + self.round_trips // 2
        waited = np.where(self.hears, self.since_heard, self.silence) > np.maximum(quiet, _AT_ONCE_NS)
        waited &= ~self.at_once
        # All was acknowledged, and it sent again: that ACK was lost behind the capture, and a timer went off.
        waited |= (pauses.under_way_end == 0) & ~told & ~late
        is_rto = waited & (since_sent >= RTO_MIN_NS - _TICK_NS)
        # Only a probe sends the end of what is under way again and leaves what is in front of it.
        at_end = (pauses.is_tail == 1) & ~told
        probes = waited & at_end & (~is_rto | (pauses.size < pauses.under_way_end))
        follows = self._in_recovery() & ~waited
        overtaken = late & self._too_soon_to_be_sent_again() & ~follows
        return np.select(
            [
                self.at_once & (pauses.window_least == 0) & (pauses.window_end > 0) & ~told,
                probes,
                is_rto,
                overtaken,
                follows,
                told | self.acked,
                waited & (pauses.is_tail == 0),
            ],
            [
                code(Cause.ZERO_WINDOW),
                code(Cause.TAIL_LOSS_PROBE),
                code(Cause.RTO),
                code(Cause.OVERTAKEN),
                code(Cause.RECOVERY),
                code(Cause.FAST_RETRANSMIT),
                code(Cause.RTO),
            ],
            code(Cause.UNKNOWN),
        )

    def _too_soon_to_be_sent_again(self) -> Bool:
        """Can the sender not have known of the hole? At its end no duplicate ACK tells; at the other the way does."""
        pauses = self.pauses
        near_receiver = (self.far != NULL) & (self.far >= self.rtt)
        untold = (pauses.duplicate_acks == 0) & (self.silence < np.maximum(self.round_trips // 2, _AT_ONCE_NS))
        on_its_way = (pauses.duplicate_acks < _DUP_ACKS) & (self.silence < self.far - self.far // 4)
        return np.asarray(np.where(near_receiver, on_its_way, untold))

    def _in_recovery(self) -> Bool:
        """Does each repeat belong to the recovery that one before it, of its direction, began?

        The same duplicate ACKs and more may have told of both; or it follows soon: an ACK for the first, which shows
        the next hole, takes a round trip.
        """
        pauses = self.pauses
        repeats = np.flatnonzero(np.isin(pauses.went, (Went.REPEATED, Went.LATE)))
        out = np.zeros(len(pauses), dtype=np.bool_)
        ways = pauses.direction[repeats], pauses.reconnect[repeats], pauses.conn[repeats]
        order = repeats[np.lexsort((repeats, *ways))]
        one, then = order[:-1], order[1:]
        same_way = (
            (pauses.conn[one] == pauses.conn[then])
            & (pauses.reconnect[one] == pauses.reconnect[then])
            & (pauses.direction[one] == pauses.direction[then])
        )
        since = pauses.end_ns[then] - pauses.end_ns[one]
        told = (pauses.duplicate_acks[one] > 0) & (pauses.duplicate_acks[then] >= pauses.duplicate_acks[one])
        told &= (since < RTO_MIN_NS) & (pauses.offset[then] > pauses.offset[one])
        out[then] = same_way & (told | (since < np.maximum(2 * self.round_trips[then], _RECOVERY_NS)))
        return out
