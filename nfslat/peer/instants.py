"""An exchange and far's clock -> when far had what near sent, and when it sent what near received; with bounds.

All instants are on near's clock and moved by the shortest way from far to near: an instant of far is that at which a
packet that left then arrives if nothing holds it. So a message of near is with far not before it was sent plus the
least round trip, and the time between two instants of far is right as it is.

What far acknowledges it has (RFC 9293 section 3.10.7.4), and what it sends acknowledges all that it has by then. An ACK
of two full segments goes out at once (RFC 1122 section 4.2.3.2, RFC 5681 section 4.2; Linux: net/ipv4/tcp_input.c,
__tcp_ack_snd_check); of less it may wait for a timer or go with data, up to 500 ms by the RFCs and 40 to 200 ms in
practice, so that such an ACK says by when, not when.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nfslat.kernels.heard import Heard, Said, places
from nfslat.kernels.order import argsort
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import F64, I32, I64, Bool
from nfslat.peer.clock import Departures, first_sent
from nfslat.peer.heard import Exchange
from nfslat.peer.path import NEAR, TIMER_NS, RoundTrip, Waits

_MSS = 1448  # of Ethernet with time stamps; a super packet holds many segments
_FULL = 2  # segments that are acknowledged at once
# Of calls whose replies alone acknowledge them: how many tell, of all; soon after the handshake, and how many of these;
# how much longer than the handshake they take, and how much they vary where no line of a fixed rate makes them slow.
_ENOUGH_ALONE, _NEARLY_ALL, _FIRST, _SOON_NS = 50, 0.95, 5, 1_000_000_000
_TIMES_SLOWER, _VARIES, _MOST_TICKS = 10, 0.1, 2
_SYN_BYTES, _HEADERS = 74, 66  # on Ethernet with time stamps
_STEP_NS = 512.0  # of times since 1970 float64 has no finer ones than 256
_SET_BACK_NS = 10_000_000  # no packets are out of order by that much in a capture


class Between(NamedTuple):
    """Instants of far, float64 ns: about `at`, not before `low` and not behind `high`; NaN where nothing is known.

    `place` numbers them in the order in which they were, by the segments of far: what it had and what it sent.
    """

    low: F64
    at: F64
    high: F64
    place: I64

    @classmethod
    def unknown(cls, count: int) -> Between:
        """So many of which nothing is known."""
        low, at, high = (np.full(count, np.nan) for _ in range(3))
        return cls(low, at, high, np.zeros(count, dtype=np.int64))

    def part(self, rows: slice | Bool) -> Between:
        return Between(self.low[rows], self.at[rows], self.high[rows], self.place[rows])

    def not_before(self, ns: F64) -> Between:
        """None of them earlier than this."""
        return Between(np.maximum(self.low, ns), np.maximum(self.at, ns), np.maximum(self.high, ns), self.place)

    def moved(self, ns: float) -> Between:
        """Later by so much."""
        return Between(self.low + ns, self.at + ns, self.high + ns, self.place)


def in_sequence(parts: Sequence[Between], frames: Sequence[I32]) -> list[Between]:
    """What one host did one after the other did not happen at once: each later than the one before, if by next to
    nothing; unless the clock of the capture was set back in between. Of one place, in the order of their `frames`."""
    at = np.concatenate([one.at for one in parts])
    # One sort of plain numbers takes half of the time of one by two columns.
    order = argsort(np.concatenate([one.place for one in parts]) << 32 | np.concatenate(frames))
    times = at[order]
    if not (known := np.isfinite(times)).all():
        order, times = order[known], times[known]
    cuts = (np.flatnonzero(np.diff(times) < -_SET_BACK_NS) + 1).tolist()
    for begin, end in pairwise([0, *cuts, len(times)]):
        part, step = times[begin:end], np.arange(end - begin) * _STEP_NS
        part -= step
        np.maximum.accumulate(part, out=part)
        part += step
    at[order] = times
    ends = np.cumsum([len(one.at) for one in parts])[:-1]
    return [
        Between(one.low, found, np.fmax(found, one.high), one.place)
        for one, found in zip(parts, np.split(at, ends), strict=True)
    ]


class _Alone(NamedTuple):
    """Messages of near: the earliest that far can have had them, when what acknowledges them left, and their bytes;
    `by_reply`: that came with data, or after a timer's time."""

    low: F64
    left: F64
    size: I64
    by_reply: Bool


class Peer(Record, dict=True):
    """What one connection tells of far."""

    exchange: Exchange
    departures: Departures | None
    trip: RoundTrip
    waits: Waits | None  # what messages wait on the path, where no clock says it
    queued: Between  # for each segment of far: when it left
    is_alone: bool = False  # near sends calls, far the replies, and neither has another conversation in the capture

    @classmethod
    def of(
        cls,
        exchange: Exchange,
        departures: Departures | None,
        trip: RoundTrip,
        waits: Waits | None,
        *,
        is_alone: bool = False,
    ) -> Peer:
        """With the departures of each segment, as they are most likely."""
        left = _left(exchange, departures, waits).not_before(_could_be_sent(exchange, trip.ns))
        return cls(exchange, departures, trip, waits, left, is_alone)

    @property
    def round_trip_ns(self) -> float:
        """The least of it that was seen."""
        return self.trip.ns

    def sent(self, frame: I32) -> Between:
        """When far sent what near received in these frames: of what came late because it was lost before, the first
        time, which was before anything was sent that lies behind it in the stream."""
        heard, rows = self.exchange.heard, self.exchange.heard_in(frame)
        known = rows != NULL
        row = rows if known.all() else rows[known]
        ends, behind = self._in_stream
        row = np.minimum(row, behind[places(ends, heard.seq[row] + heard.size[row])])
        found = Between(self.queued.low[row], self.queued.at[row], self.queued.high[row], 2 * row + 1)
        if len(row) == len(frame):
            return found
        out = Between.unknown(len(frame))
        out.low[known], out.at[known], out.high[known], out.place[known] = found.low, found.at, found.high, found.place
        return out

    @cached_property
    def _in_stream(self) -> tuple[I64, I64]:
        """Ends of far's messages in the order of the stream, and the first row that lies there, or behind."""
        heard = self.exchange.heard
        carries = np.flatnonzero(heard.size > 0)
        seq = heard.seq[carries]
        order = carries if (np.diff(seq) >= 0).all() else carries[np.lexsort((carries, seq))]
        # Rows are in the order in which far sent them.
        behind = np.append(np.minimum.accumulate(order[::-1])[::-1], len(heard))
        return np.maximum.accumulate(heard.seq[order] + heard.size[order]), behind

    def left(self, frame: I32) -> F64:
        """When far sent these frames; NaN where that is not known."""
        row = self.exchange.heard_in(frame)
        return np.append(self.queued.at, np.nan)[row]  # NULL is the last one

    def stamp_of_call(self, frame: I32) -> I64:
        """Of each frame of far its time stamp, ns of far's clock; NULL where there is none."""
        heard, rows = self.exchange.heard, self.exchange.heard_in(frame)
        return np.where(rows == NULL, NULL, self._stamps_ns(heard, np.maximum(rows, 0)))

    def stamp_of_ack(self, frame: I32) -> I64:
        """The same of the first ACK of what near sent in each frame; NULL where far sent it along with data."""
        heard, said = self.exchange.heard, self.exchange.said
        if not len(said.end) or not len(heard):
            return np.full(len(frame), NULL)
        place = self.exchange.said_in(frame)
        first = places(heard.ack, said.end[place])
        row = np.minimum(first, len(heard) - 1)
        told = (place != NULL) & (first < len(heard)) & (heard.size[row] == 0)
        return np.where(told, self._stamps_ns(heard, row), NULL)

    def _stamps_ns(self, heard: Heard, rows: I64) -> I64:
        if not len(heard) or self.departures is None:
            return np.full(len(rows), NULL)
        return heard.ticks[rows] * self.departures.tick_ns

    def received(self, frame: I32, sent_ns: I64) -> tuple[Between, F64]:
        """When far had what near sent in these frames, at `sent_ns`; and by how much that may be misdated: all that is
        possible, where far acknowledges too little by itself to say how long messages are on their way."""
        heard, said, queued = self.exchange.heard, self.exchange.said, self.queued
        if not len(said.end) or not len(heard):
            return Between.unknown(len(frame)), np.full(len(frame), np.nan)
        place = self.exchange.said_in(frame)
        known = place != NULL
        end = np.where(known, said.end[place], 0)
        first = places(heard.ack, end)
        told = known & (first < len(heard))
        row, before = np.minimum(first, len(heard) - 1), np.maximum(first - 1, 0)
        high = np.where(told, queued.high[row], np.nan)
        # What went out once more, and can have brought about the ACK, did, unless far says that it had it already.
        again = _sent_again_ns(said, end, high - self.round_trip_ns) + self.round_trip_ns
        again[heard.twice[row]] = np.nan
        low = np.where(known, np.fmax(sent_ns + self.round_trip_ns, again), np.nan)
        low = np.where(first > 0, np.fmax(low, queued.low[before]), low)
        high = np.fmax(high, low)
        left = np.clip(queued.at[row], low, high)
        bare = (heard.size == 0)[row]
        news = heard.ack[row] - np.where(row > 0, heard.ack[row - 1], 0)
        prompt = told & bare & (news >= _FULL * _MSS)
        prompt[prompt] = ~_by_timer(low[prompt], left[prompt] - low[prompt])
        any_time = self.waits is not None and not self.waits.are_timers
        quick = told & ~prompt & bare & ((left - low < TIMER_NS) | any_time)
        at = low + self._usual_delay(low, np.where(quick, (left - low) / 2, np.nan))
        at = np.where(quick, (low + left) / 2, np.where(prompt, left, np.fmin(at, high)))
        # Far sent what acknowledges it behind it, and all that does not before it.
        at = np.where(told, np.fmin(at, left), low)
        at = np.where(first > 0, np.fmin(np.fmax(at, queued.at[before]), high), at)
        if self.departures is not None:
            is_usual_known = np.count_nonzero(quick) >= NEAR
            if not is_usual_known and self.is_alone:
                alone = _Alone(low, left, news, told & ~quick & ~prompt)
                high = np.fmin(high, np.fmax(at, low + self._way_ns(alone, sent_ns, before)))
            return Between(low, at, high, 2 * first), np.where(quick | prompt | is_usual_known, at, high) - low
        again_ns = np.where(np.isfinite(again), low - sent_ns - self.round_trip_ns, 0.0)
        return self._by_acks_alone(Between(low, at, high, 2 * first), quick, prompt, again_ns)

    def _by_acks_alone(self, had: Between, quick: Bool, prompt: Bool, again_ns: F64) -> tuple[Between, F64]:
        """`received` where no clock says what ACKs and replies waited on the path, out of what bare ACKs did there and
        back; and with doubt of what near sent again, so much later: the first one may have come. The round trip may be
        far's own time where no bare ACK shows it."""
        delay, high = had.at - had.low, had.high
        doubt = np.where(prompt, delay / 2, delay)
        if self.waits is None:
            doubt = np.where(quick | prompt, doubt, high - had.low)
        else:
            doubt = np.where(quick | prompt, doubt + self.waits.mean_ns / 2, np.fmax(delay, self.waits.mean_ns))
            usual = np.fmax(had.low + self.waits.most_ns / 2, had.at)
            high = np.where(quick | prompt, high, np.fmin(high, usual))
        doubt += np.maximum(again_ns, 0) + (0.0 if self.trip.is_bare else self.trip.ns)
        return had._replace(high=high), doubt

    def _way_ns(self, calls: _Alone, sent_ns: I64, before: I64) -> F64:
        """How long calls whose replies alone acknowledge them can have been on their way, beyond the shortest; infinite
        where nothing bounds that.

        The handshake shows the path when the first calls go out. Where these take as long as the others do, what is
        slow was there when the path was seen to be quick, and no queue of other traffic. Nor is it one of their own,
        where each is sent with nothing else under way, nor a line that is slow: that would take an equal time for equal
        calls, no more for one than the quickest of them takes, and for a SYN its part of that.
        """
        unbounded = np.full(len(calls.low), np.inf)
        heard, sent, opened = self.exchange.heard, self.exchange.said, self.exchange.opened_ns
        if opened is None or self.exchange.opened_at_ns is None or self.departures is None or sent.again.any():
            return unbounded
        begun = first_sent(sent, np.where(before >= 0, heard.ack[before], 0) + 1)
        free = np.where(before >= 0, heard.t_ns[before], NULL)
        mine = np.flatnonzero(calls.by_reply & (calls.left > calls.low) & ((begun >= free) | (heard.ack[before] == 0)))
        queued = heard.t_ns - self.departures.earliest > _MOST_TICKS * self.departures.tick_ns
        if len(mine) < max(_ENOUGH_ALONE, _NEARLY_ALL * len(calls.low)) or np.mean(queued) > 1 - _NEARLY_ALL:
            return unbounded
        took = (calls.left - calls.low)[mine]
        first = mine[np.argsort(sent_ns[mine], kind="stable")[:_FIRST]]
        is_soon = bool((sent_ns[first] - self.exchange.opened_at_ns <= _SOON_NS).all())
        slow = float(np.median((calls.left - calls.low)[first]))
        low, middle, high = np.quantile(took, (0.1, 0.5, 0.9))
        if not is_soon or slow < took.mean() / 2 or middle < _TIMES_SLOWER * opened or high - low < _VARIES * middle:
            return unbounded
        size = calls.size[mine]
        by_size = np.argsort(size, kind="stable")
        quickest = np.minimum.accumulate(took[by_size][::-1])[::-1]  # of calls as large or larger
        of_size = quickest[np.searchsorted(size[by_size], size)]
        unbounded[mine] = np.fmin(of_size, (size + _HEADERS) * (opened / _SYN_BYTES))
        return unbounded

    @staticmethod
    def _usual_delay(at: F64, delay: F64) -> F64:
        """For each message what others near it were later than they could have been, where far told (`delay`)."""
        order = np.argsort(at, kind="stable")
        told = order[np.isfinite(delay[order])]
        if len(told) < NEAR:
            return np.zeros(len(at))
        near = np.median(np.lib.stride_tricks.sliding_window_view(delay[told], NEAR), axis=1)
        place = np.searchsorted(at[told], at) - NEAR // 2
        return np.asarray(near[np.clip(place, 0, len(near) - 1)])


def _by_timer(at: F64, late_ns: F64) -> Bool:
    """Which ACKs a timer let go, though they are of much: a receiver whose window would shrink, for nobody reads what
    came, sends none at once (Linux, as above). A queue that is as long delays all that are near."""
    order = np.argsort(at, kind="stable")
    beyond = late_ns[order] >= TIMER_NS
    if len(beyond) < NEAR:
        return np.zeros(len(at), dtype=np.bool_)
    near = np.convolve(beyond, np.ones(NEAR), mode="same") > NEAR / 2
    out = np.zeros(len(at), dtype=np.bool_)
    out[order] = beyond & ~near
    return out


def _left(exchange: Exchange, departures: Departures | None, waits: Waits | None) -> Between:
    """Within a tick: so far into it that segments are, on the average, in the middle of theirs, as they are. Without
    a clock when they arrived, or before that by what messages wait on the path."""
    arrived = exchange.heard.t_ns.astype(np.float64)
    place = 2 * np.arange(len(arrived)) + 1
    if departures is None:
        return Between(arrived - (np.inf if waits is None else waits.most_ns), arrived, arrived, place)
    low, tick = departures.earliest, departures.tick_ns
    waited = arrived - low
    surely, room = np.maximum(waited - tick, 0), np.minimum(waited, tick)
    short = np.minimum(waited, 3 * tick)
    known = np.isfinite(waited)
    share = 0.0
    if known.any() and np.mean(room[known]) > 0:
        inside = float(np.mean(short[known] - np.minimum(surely, 2 * tick)[known])) - tick / 2
        share = inside / float(np.mean(room[known]))
    at = arrived - surely - min(max(share, 0.0), 1.0) * room
    return Between(low, at, np.minimum(arrived, low + tick), place)


def _could_be_sent(exchange: Exchange, round_trip_ns: float) -> F64:
    """When each segment of far can have left at the earliest: when it had what it acknowledges."""
    heard = exchange.heard
    sent = first_sent(exchange.said, heard.ack)
    known = (heard.ack > 0) & (sent != NULL) & np.isfinite(round_trip_ns)
    return np.where(known, np.minimum(sent + np.nan_to_num(round_trip_ns), heard.t_ns), -np.inf)


def _sent_again_ns(said: Said, end: I64, until_ns: F64) -> F64:
    """When what ends at `end` was sent last, if that was more than once and not behind `until_ns`; NaN else."""
    out = np.full(len(end), np.nan)
    again = np.flatnonzero(said.again)
    if not len(again):
        return out
    order = again[np.lexsort((said.t_ns[again], said.end[again]))]
    ends, times = said.end[order], said.t_ns[order]
    for at in np.flatnonzero(np.isin(end, ends)):
        one = times[np.searchsorted(ends, end[at]) : np.searchsorted(ends, end[at], side="right")]
        one = one[one <= until_ns[at]]
        out[at] = one.max() if len(one) else np.nan
    return out
