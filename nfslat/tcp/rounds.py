"""A conversation -> the round trips of each direction, ACKs that a timer delayed, and packets held and let go together.

A delayed ACK costs time only where the sender waited for it (`silences` says where). One that nobody waited for is
counted beside them, and an answer that takes its time and carries the ACK is none.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, endpoint
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.tally.stats import summary_of
from nfslat.tcp.floors import Samples
from nfslat.tcp.packets import Talk
from nfslat.tcp.shared import Shared
from nfslat.wire.batches import Held, held
from nfslat.wire.stalls import DELAYED_ACK_NS, timers_ms

_BINS = 200
_ARRIVALS = 3
_EPISODES = 200
_FRAMES = 8  # shown of each cluster


class Trips(Record):
    """Round trips in ms; percentiles are nearest-rank."""

    count: int
    min_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    mean_ms: float


class TripsThen(Record):
    """Those of a stretch of time, by when the data were sent."""

    at_ms: float  # where it begins, from the conversation's first packet
    count: int
    min_ms: float
    p50_ms: float
    max_ms: float


class DelayedAcks(Record):
    """ACKs without data that came about one timer late."""

    timer_ms: int | None  # 40, 50, 100, 200, 500; None: late, and near none of these
    count: int
    waited_for: int  # those that the sender stood still for
    lost_ms: float  # of that time what the ACK was held for; the way there and back is no delay
    share: float  # of the conversation
    median_ms: float  # from the first data that the ACK covers to the ACK
    frames: tuple[int, ...]  # of the first ACKs
    waited_frames: tuple[int, ...]  # of the first that were waited for


class HeldBack(Record):
    """Packets, or their ACKs, that were held and let go together."""

    at_ms: float  # when the first was sent, from the conversation's first packet
    ms: float  # until they were let go
    packets: int
    peak_ms: float
    slope: float  # ms of round trip a ms of sending
    straight: float  # share of the variance that the line explains
    frame: int  # of the first data packet


class Rounds(Record):
    """One direction: data sent in it, and the ACKs for them."""

    direction: int
    sender: str  # its endpoint
    receiver: str
    total_ms: float  # the conversation
    trips: Trips | None  # None: no sample
    repaired: int  # data packets without a sample: sent again, or covered together with such
    uncovered: int  # data packets whose ACK is not in the capture
    over_time: tuple[TripsThen, ...]
    delayed: tuple[DelayedAcks, ...]  # by timer, the unnamed ones last
    delayed_count: int
    delayed_lost_ms: float
    delayed_share: float
    held: tuple[HeldBack, ...]  # the highest 200, in order of time
    held_count: int  # of all
    held_ms: float


class LateAcks(Record, eq=False):
    """Late ACKs: rows of `Talk.packets`, what each was held for, and what that cost the sender."""

    acks: I64
    since_ns: I64  # from the first data that it covers
    held_ns: I64  # the same less the round trip
    lost_ns: I64  # held, while the sender stood still for it


def rounds(shared: Shared, direction: int) -> Rounds:
    """The round trips of what is sent in `direction`."""
    talk, samples = shared.talk, shared.samples[direction]
    packets = talk.packets
    begin = int(packets.t_ns.min())
    total_ns = int(packets.t_ns.max()) - begin
    late = late_acks(shared, direction)
    delayed = _clusters(talk, late, total_ns)
    lost_ns = int(late.lost_ns.sum())
    sent_ns = np.maximum.accumulate(packets.t_ns[samples.sent])
    held_back = _held(talk, samples, sent_ns, begin)
    ends = talk.conversation.ends
    return Rounds(
        direction=direction,
        sender=endpoint(*ends.source(direction)),
        receiver=endpoint(*ends.destination(direction)),
        total_ms=to_ms(total_ns),
        trips=_trips(samples.rtt_ns),
        repaired=samples.repaired,
        uncovered=samples.uncovered,
        over_time=_over_time(sent_ns - begin, samples.rtt_ns, total_ns),
        delayed=delayed,
        delayed_count=len(late.acks),
        delayed_lost_ms=to_ms(lost_ns),
        delayed_share=lost_ns / total_ns if total_ns else 0.0,
        held=tuple(sorted(sorted(held_back, key=lambda one: -one.peak_ms)[:_EPISODES], key=lambda one: one.at_ms)),
        held_count=len(held_back),
        held_ms=sum((one.ms for one in held_back), 0.0),
    )


def _trips(rtt_ns: I64) -> Trips | None:
    if not len(rtt_ns):
        return None
    found = summary_of(rtt_ns)
    return Trips(
        count=len(rtt_ns),
        min_ms=to_ms(int(rtt_ns.min())),
        p50_ms=found.p50,
        p95_ms=found.p95,
        p99_ms=found.p99,
        max_ms=found.max,
        mean_ms=found.mean,
    )


def _over_time(sent_ns: I64, rtt_ns: I64, total_ns: int) -> tuple[TripsThen, ...]:
    """`sent_ns` only grow."""
    if not len(rtt_ns):
        return ()
    bin_ns = max(-(-total_ns // _BINS), 1)
    edges = np.searchsorted(sent_ns, np.arange(0, total_ns + bin_ns, bin_ns)).tolist()
    return tuple(
        TripsThen(
            to_ms(at * bin_ns),
            b - a,
            to_ms(int(rtt_ns[a:b].min())),
            to_ms(_median(rtt_ns[a:b])),
            to_ms(int(rtt_ns[a:b].max())),
        )
        for at, (a, b) in enumerate(pairwise([*edges, len(sent_ns)]))
        if b > a
    )


def _median(numbers: I64) -> int:
    """Nearest-rank."""
    middle = (len(numbers) - 1) // 2
    return int(np.partition(numbers, middle)[middle])


def late_acks(shared: Shared, direction: int) -> LateAcks:
    """ACKs that a timer sent, and those that the sender stood still for."""
    one, samples, silences = shared.streams[direction], shared.samples[direction], shared.silences[direction]
    return LateAcks(*native.late_acks(one, samples, silences, shared.floors.near_ns(direction)))


def _clusters(talk: Talk, late: LateAcks, total_ns: int) -> tuple[DelayedAcks, ...]:
    timers = timers_ms(late.held_ns)[0]
    frames = talk.packets.frame[late.acks]
    out = []
    for timer in sorted(set(timers.tolist()), key=lambda timer: (timer == NULL, timer)):
        of = timers == timer
        waited = of & (late.lost_ns > 0)
        lost = int(late.lost_ns[of].sum())
        out.append(
            DelayedAcks(
                timer_ms=None if timer == NULL else timer,
                count=int(of.sum()),
                waited_for=int(waited.sum()),
                lost_ms=to_ms(lost),
                share=lost / total_ns if total_ns else 0.0,
                median_ms=to_ms(_median(late.since_ns[of])),
                frames=tuple(frames[of][:_FRAMES].tolist()),
                waited_frames=tuple(frames[waited][:_FRAMES].tolist()),
            )
        )
    return tuple(out)


def _held(talk: Talk, samples: Samples, sent_ns: I64, begin: int) -> tuple[HeldBack, ...]:
    found = [one for one in held(sent_ns, samples.rtt_ns) if _is_held(one)]
    if not found:
        return ()
    rows = samples.sent[np.searchsorted(sent_ns, [one.begin_ns for one in found])]
    return tuple(
        HeldBack(
            at_ms=to_ms(one.begin_ns - begin),
            ms=to_ms(one.release_ns - one.begin_ns),
            packets=one.packets,
            peak_ms=one.peak_ms,
            slope=one.slope,
            straight=one.straight,
            frame=frame,
        )
        for one, frame in zip(found, talk.packets.frame[rows].tolist(), strict=True)
    )


def _is_held(one: Held) -> bool:
    """Several ACKs let go together? A single one for all that was sent meanwhile is what a delayed ACK looks like, and
    what rides on an answer; none of these makes a receiver acknowledge piece by piece what it has had for long."""
    return one.arrivals >= _ARRIVALS or one.peak_ms * NS_PER_MS > DELAYED_ACK_NS[1]
