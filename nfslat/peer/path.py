"""The segments of a connection -> what the path takes: its shortest round trip, and what messages wait beyond that.

Segments of far that acknowledge near's by themselves (bare ACKs) measure it: no thread of far's has a part in them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nfslat.kernels.heard import places
from nfslat.model.tables import F64, I64, Bool
from nfslat.peer.heard import Exchange

# No timer of delayed ACKs is shorter than that of Linux, 40 ms (TCP_DELACK_MIN): a bare ACK that left sooner left when
# its message came in, or when it was read.
TIMER_NS = 38_000_000
# Of delayed ACKs, with what the path takes and the kernel's ticks add: Linux, Solaris, Windows and BSD, RFC 1122.
_TIMERS_NS = (
    (TIMER_NS, 52_000_000),
    (90_000_000, 115_000_000),
    (190_000_000, 230_000_000),
    (475_000_000, 575_000_000),
)
NEAR = 9  # messages: what is usual is the median of so many
# What bounds are wider by: a host's own time, and of n segments none need have left within the first 3/n of a tick; of
# the shortest round trip what a host may have kept, and a part.
_NOTHING_NS, _OF_TICKS = 20_000, 3
_KEPT_NS, _OF_A_TRIP = 200_000, 32
_BESIDE = 1.25  # times the shortest round trip: a bare ACK that took no more shows it, too
_NEARLY_ALL = 0.98  # of the bare ACKs
_SPREADS, _ENOUGH = 2, 20  # standard errors, and bare ACKs


class RoundTrip(NamedTuple):
    """The least time from a segment of near to what answered it; NaN where there is none. `is_bare`: that was by TCP
    alone, and no timer's time; else it may hold what a server's threads took, too."""

    ns: float
    is_bare: bool


def least_round_trip(exchange: Exchange) -> RoundTrip:
    """By segments that were sent once, and by the SYN."""
    heard, opened = exchange.heard, exchange.opened_ns
    row, took = _answered(exchange)
    least = float(took.min()) if len(took) else np.nan
    bare = took[heard.size[row] == 0]
    alone = float(bare.min()) if len(bare) else np.nan
    if opened is not None:
        return RoundTrip(float(np.fmin(least, opened)), is_bare=True)
    others = took[heard.size[row] > 0]
    # No timer goes off when a reply would come at the soonest.
    is_path = alone < TIMER_NS or (len(others) > 0 and abs(float(others.min()) - alone) <= alone / _OF_A_TRIP)
    return RoundTrip(least, is_bare=bool(is_path and alone <= _BESIDE * least + _NOTHING_NS))


def slack_ns(segments: int, tick_ns: int, trip: RoundTrip) -> tuple[float, float]:
    """By so much instants may be earlier than `Departures.earliest`, and the round trip shorter. No segment need have
    left at the very begin of a tick, nor have met no queue at all; and what far answered soonest it may have kept for a
    while, be it for the shortest of its timers."""
    early = _NOTHING_NS + _OF_TICKS * tick_ns / max(segments, 1)
    if not trip.is_bare:
        return early, trip.ns
    return early, min(trip.ns, _KEPT_NS) + trip.ns / _OF_A_TRIP


class Waits(NamedTuple):
    """What bare ACKs that no timer kept took beyond the shortest round trip, there and back."""

    most_ns: float  # nearly all of them no more
    mean_ns: float  # on average; at most, of few
    are_timers: bool = True  # ACKs that took longer than the shortest timer waited for one, and not on the path

    @classmethod
    def of(cls, late_ns: I64 | F64, *, are_timers: bool = True) -> Waits:
        mean_ns = late_ns.mean() + _SPREADS * late_ns.std() / math.sqrt(len(late_ns))
        return cls(float(np.quantile(late_ns, _NEARLY_ALL, method="higher")), float(mean_ns), are_timers)


def waits(exchange: Exchange, round_trip_ns: float) -> Waits | None:
    """None where too few tell."""
    row, took = _answered(exchange)
    # What an ACK of several messages took is the time of the last one.
    last = np.flatnonzero(np.diff(row, append=len(exchange.heard)) > 0)
    bare = exchange.heard.size[row[last]] == 0
    late = took[last[bare]] - round_trip_ns
    late = late[~exchange.heard.twice[row[last[bare]]]]
    are_timers = _are_timers(late)
    if are_timers:
        late = late[~_by_timer(late)]
    if len(late) < _ENOUGH:
        return None
    return Waits.of(late, are_timers=are_timers)


def bare_acks(exchange: Exchange) -> tuple[I64, I64]:
    """When segments of far that acknowledge near's by themselves came, and what they took, be it no tick; timers' times
    are among them."""
    row, took = _answered(exchange, least_ns=0)
    last = np.flatnonzero(np.diff(row, append=len(exchange.heard)) > 0)
    of_last = row[last]
    bare = last[(exchange.heard.size[of_last] == 0) & ~exchange.heard.twice[of_last]]
    return exchange.heard.t_ns[row[bare]], took[bare]


def _by_timer(late_ns: I64 | F64) -> Bool:
    return np.asarray(np.any([(late_ns >= least) & (late_ns < most) for least, most in _TIMERS_NS], axis=0))


def _are_timers(late_ns: I64 | F64) -> bool:
    """A queue has no gap in front of a timer's time, and no heap of ACKs behind it."""
    least, most = _TIMERS_NS[0]
    behind = np.count_nonzero((late_ns >= least) & (late_ns < most))
    before = np.count_nonzero((late_ns >= 2 * least - most) & (late_ns < least))
    return bool(behind >= 2 * before)


def _answered(exchange: Exchange, least_ns: int = 1) -> tuple[I64, I64]:
    """Of what near sent once: the row of the segment that acknowledged it, and how long it took to come."""
    heard, said = exchange.heard, exchange.said
    if not len(heard):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    once = ~said.again
    row = places(heard.ack, said.end[once])
    told = row < len(heard)
    row, took = row[told], heard.t_ns[row[told]] - said.t_ns[once][told]
    return row[took >= least_ns], took[took >= least_ns]
