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

from dataclasses import dataclass

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.tables import F64, I32, I64, Bool
from nfslat.peer.clock import Departures
from nfslat.peer.heard import Exchange, Said

_MSS = 1448  # of Ethernet with time stamps; a super packet holds many segments
_FULL = 2  # segments that are acknowledged at once
# No timer of delayed ACKs is shorter than that of Linux, 40 ms (TCP_DELACK_MIN): a bare ACK that left sooner left when
# its message came in, or when it was read.
_TIMER_NS = 38_000_000
_NEAR = 9  # messages: what is usual is the median of so many
_SET_BACK_NS = 10_000_000  # no packets are out of order by that much in a capture
# What bounds are wider by: a host's own time, and of n segments none need have left within the first 3/n of a tick; of
# the shortest round trip what a host may have kept, and a part.
_NOTHING_NS, _OF_TICKS = 20_000, 3
_KEPT_NS, _OF_A_TRIP = 200_000, 32
_BESIDE = 1.25  # times the shortest round trip: a bare ACK that took no more shows it, too


@dataclass(frozen=True)
class Between:
    """Instants, float64 ns: about `at`, not before `low` and not behind `high`; NaN where nothing is known."""

    low: F64
    at: F64
    high: F64

    def in_order(self, frame: I32, near_ns: I64) -> Between:
        """What TCP delivered or sent one after the other did not happen at once: each in the order of its frames later
        than the one before, if by a nanosecond; unless the clock of the capture was set back in between."""
        at = self.at.copy()
        order = np.argsort(frame, kind="stable")
        order = order[np.isfinite(at[order])]
        for part in np.split(order, np.flatnonzero(np.diff(near_ns[order]) < -_SET_BACK_NS) + 1):
            step = np.arange(len(part), dtype=np.float64)
            at[part] = np.maximum.accumulate(at[part] - step) + step
        return Between(self.low, at, np.fmax(self.high, at))

    def moved(self, ns: float) -> Between:
        """Later by so much."""
        return Between(self.low + ns, self.at + ns, self.high + ns)


@dataclass(frozen=True)
class Peer:
    """What one connection tells of far. `round_trip_ns` is the least of it that was seen."""

    exchange: Exchange
    departures: Departures | None
    round_trip_ns: float
    slack_ns: tuple[float, float]  # by so much instants may be earlier than `earliest`, and the round trip shorter
    queued: Between  # for each segment of far: when it left

    @classmethod
    def of(cls, exchange: Exchange, departures: Departures | None, round_trip_ns: float) -> Peer:
        """With the departures of each segment, as they are most likely."""
        return cls(
            exchange,
            departures,
            round_trip_ns,
            _slack(exchange, departures, round_trip_ns),
            _left(exchange, departures),
        )

    def sent(self, frame: I32) -> Between:
        """When far sent what near received in these frames: of what came late because it was lost before, the first
        time, which was before anything was sent that lies behind it in the stream."""
        heard, rows = self.exchange.heard, self.exchange.heard.rows_of(frame)
        known = rows != NULL
        out = [np.full(len(frame), np.nan) for _ in range(3)]
        carries = np.flatnonzero(heard.size > 0)
        order = carries[np.lexsort((carries, heard.seq[carries]))]
        ends = (heard.seq + heard.size)[order]
        row = rows[known]
        if len(order):
            # Rows are in the order in which far sent them.
            behind = np.append(np.minimum.accumulate(order[::-1])[::-1], len(heard))
            row = np.minimum(row, behind[np.searchsorted(ends, (heard.seq + heard.size)[row])])
        for column, values in zip(out, (self.queued.low, self.queued.at, self.queued.high), strict=True):
            column[known] = values[row]
        return Between(*out)

    def left(self, frame: I32) -> F64:
        """When far sent exactly these frames."""
        rows = self.exchange.heard.rows_of(frame)
        return np.where(rows == NULL, np.nan, self.queued.at[np.maximum(rows, 0)])

    def received(self, frame: I32, sent_ns: I64) -> Between:
        """When far had what near sent in these frames, at `sent_ns`."""
        heard, said, queued = self.exchange.heard, self.exchange.said, self.queued
        place = np.minimum(np.searchsorted(said.frame, frame), max(len(said.frame) - 1, 0))
        none = np.full(len(frame), np.nan)
        if not len(said.frame) or not len(heard):
            return Between(none, none, none)
        known = said.frame[place] == frame
        end = np.where(known, said.end[place], 0)
        first = np.searchsorted(heard.ack, end, side="left")
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
        bare, news = heard.size == 0, np.diff(heard.ack, prepend=0)
        prompt = told & (bare & (news >= _FULL * _MSS))[row]
        prompt[prompt] = ~_by_timer(low[prompt], left[prompt] - low[prompt])
        quick = told & ~prompt & bare[row] & (left - low < _TIMER_NS)
        at = low + self._usual_delay(low, np.where(quick, (left - low) / 2, np.nan))
        at = np.where(quick, (low + left) / 2, np.where(prompt, left, np.fmin(at, high)))
        return Between(low, np.where(told, at, low), high)

    @staticmethod
    def _usual_delay(at: F64, delay: F64) -> F64:
        """For each message what others near it were later than they could have been, where far told (`delay`)."""
        order = np.argsort(at, kind="stable")
        told = order[np.isfinite(delay[order])]
        if len(told) < _NEAR:
            return np.zeros(len(at))
        near = np.median(np.lib.stride_tricks.sliding_window_view(delay[told], _NEAR), axis=1)
        place = np.searchsorted(at[told], at) - _NEAR // 2
        return np.asarray(near[np.clip(place, 0, len(near) - 1)])


def _slack(exchange: Exchange, departures: Departures | None, round_trip_ns: float) -> tuple[float, float]:
    """No segment need have left at the very begin of a tick, nor have met no queue at all; and what far answered
    soonest it may have kept for a while, be it for the shortest of its timers."""
    tick_ns = 0 if departures is None else departures.tick_ns
    early = _NOTHING_NS + _OF_TICKS * tick_ns / max(len(exchange.heard), 1)
    if not least_round_trip(exchange).is_bare:
        return early, round_trip_ns
    return early, min(round_trip_ns, _KEPT_NS) + round_trip_ns / _OF_A_TRIP


def _by_timer(at: F64, late_ns: F64) -> Bool:
    """Which ACKs a timer let go, though they are of much: a receiver whose window would shrink, for nobody reads what
    came, sends none at once (Linux, as above). A queue that is as long delays all that are near."""
    order = np.argsort(at, kind="stable")
    beyond = late_ns[order] >= _TIMER_NS
    if len(beyond) < _NEAR:
        return np.zeros(len(at), dtype=np.bool_)
    near = np.convolve(beyond, np.ones(_NEAR), mode="same") > _NEAR / 2
    out = np.zeros(len(at), dtype=np.bool_)
    out[order] = beyond & ~near
    return out


@dataclass(frozen=True)
class RoundTrip:
    """The least time from a segment of near to what answered it; NaN where there is none. `is_bare`: that was by TCP
    alone, and no timer's time; else it may hold what a server's threads took, too."""

    ns: float
    is_bare: bool


def least_round_trip(exchange: Exchange) -> RoundTrip:
    """By segments that were sent once, and by the SYN."""
    heard, said, opened = exchange.heard, exchange.said, exchange.opened_ns
    once = ~said.again
    row = np.searchsorted(heard.ack, said.end[once], side="left")
    told = row < len(heard)
    row, took = row[told], heard.t_ns[row[told]] - said.t_ns[once][told] if len(heard) else row[told]
    row, took = row[took > 0], took[took > 0]
    least = float(took.min()) if len(took) else np.nan
    bare = took[heard.size[row] == 0]
    alone = float(bare.min()) if len(bare) else np.nan
    if opened is not None:
        return RoundTrip(float(np.fmin(least, opened)), is_bare=True)
    others = took[heard.size[row] > 0]
    # No timer goes off when a reply would come at the soonest.
    is_path = alone < _TIMER_NS or (len(others) > 0 and abs(float(others.min()) - alone) <= alone / _OF_A_TRIP)
    return RoundTrip(least, is_bare=bool(is_path and alone <= _BESIDE * least + _NOTHING_NS))


def _left(exchange: Exchange, departures: Departures | None) -> Between:
    """Within a tick: so far into it that segments are, on the average, in the middle of theirs, as they are."""
    arrived = exchange.heard.t_ns.astype(np.float64)
    if departures is None:
        return Between(np.full(len(arrived), -np.inf), arrived, arrived)
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
    return Between(low, at, np.minimum(arrived, low + tick))


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
