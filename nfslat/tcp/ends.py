"""A conversation in two traces (`both`) -> what was lost on the way, how long that takes, whose time the turns are."""

from __future__ import annotations

import numpy as np

from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.tcp.both import Both, Pair
from nfslat.tcp.model import Ends, HeldOnTheWay, Passed
from nfslat.tcp.passage import Fate, Passage
from nfslat.tcp.progress import sender, spread
from nfslat.tcp.same import counts_from_syn, shift_of
from nfslat.tcp.sight import BothEnds, Sight
from nfslat.tcp.turns import Compared, Shape, Taken, compare, take
from nfslat.wire.batches import held


def ends(both: Both, sight: Sight, found: BothEnds, taken: Taken) -> Ends:
    """Of the conversation in `sight`, whose turns are `taken`."""
    there, back = (_passed(both, sight, passage, way) for way, passage in enumerate(found.passages))
    trips, torn = _trips(both, found.pair)
    return Ends(
        streams=found.pair.rows,
        passed=(there, back),
        round_trip_ms=spread(trips),
        least_round_trip_ms=to_ms(int(trips.min())) if len(trips) else None,
        torn_round_trips=torn,
        turns=_turns(both, sight, found, taken),
    )


def _trips(both: Both, pair: Pair) -> tuple[I64, int]:
    """Round trips, and how many were left out: a clock was set between the two packets, or one of them is odd."""
    if not len(pair.trips_ns):
        return pair.trips_ns, 0
    trips = pair.trips_ns if np.median(pair.trips_ns) >= 0 else -pair.trips_ns
    if both.theta is None:
        return trips, 0
    jumps = [abs(step.jump_ns) // 2 for step in both.theta.clock.steps]
    middle = int(np.median(trips))
    torn = trips < 0
    for jump in jumps:
        torn |= np.abs(trips - middle) > max(jump, 4 * middle)
    return trips[~torn], int(np.count_nonzero(torn))


def _passed(both: Both, sight: Sight, passage: Passage, way: int) -> Passed:
    sent, arrived, error_ns = _instants(both, passage, sight.trace)
    # What took less than no time by more than the error: a clock was set, and it is not known when exactly.
    sound = arrived - sent >= -(error_ns or 0)
    delays = (arrived - sent)[sound]
    begin = int(sight.talk.packets.t_ns.min())
    return Passed(
        sender=sender(sight.talk, way),
        receiver=sender(sight.talk, 1 - way),
        sender_capture=passage.sender,
        fates=(
            {fate.value: count for fate, count in passage.fates[0].items()},
            {fate.value: count for fate, count in passage.fates[1].items()},
        ),
        bytes=passage.bytes,
        lost_bytes=passage.lost_bytes,
        lost_share=passage.lost_bytes / passage.sent_bytes if passage.sent_bytes else None,
        lost_packets=passage.fates[passage.sender].get(Fate.LOST, 0),
        missed_bytes=passage.missed_bytes,
        surplus_bytes=passage.surplus_bytes,
        needless=len(passage.needless),
        reordered=passage.reordered,
        delay_ms=spread(delays),
        least_delay_ms=to_ms(int(delays.min())) if len(delays) else None,
        delay_error_ms=None if error_ns is None else to_ms(error_ns),
        impossible_delays=int(np.count_nonzero(~sound)),
        held=tuple(
            HeldOnTheWay(to_ms(one.begin_ns - begin), to_ms(one.release_ns - one.begin_ns), one.packets, one.peak_ms)
            for one in held(sent[sound], delays)
        ),
    )


def _instants(both: Both, passage: Passage, trace: int) -> tuple[I64, I64, int | None]:
    """When packets that are in both were sent and arrived, on the clock of `trace`, and how far that may be off.

    Nothing where the clocks are not known.
    """
    theta = both.theta
    if theta is None or not theta.clock.fits:
        return passage.sent_ns[:0], passage.arrived_ns[:0], None
    sent, arrived = passage.sent_ns, passage.arrived_ns
    sent, arrived = (sent, theta.on_first(arrived)) if passage.sender == 0 else (theta.on_first(sent), arrived)
    if trace == 1:
        # Both are on the first's clock; held packets are dated on that of the conversation that is shown.
        shift = int(both.traces[1].first_ns - theta.on_first(np.array([both.traces[1].first_ns]))[0])
        sent, arrived = sent + shift, arrived + shift
    return sent, arrived, theta.clock.worst_error_ns


def _turns(both: Both, sight: Sight, found: BothEnds, taken: Taken) -> Compared | None:
    if taken.shape is not Shape.TURNS:
        return None
    other = take(found.other)
    pair = found.pair
    if other.shape is not Shape.TURNS or (other.asker != taken.asker) != pair.is_turned:
        return None
    # Positions at the other end as those of `main`, of the requests and of the responses.
    shifts = [0, 0]
    if not counts_from_syn(both.traces, pair.rows):
        for number, way in enumerate((taken.asker, 1 - taken.asker)):
            there = 1 - way if pair.is_turned else way
            shifts[number] = (
                shift_of(both.traces, pair.rows, (way, there))
                if sight.trace == 0
                else -shift_of(both.traces, pair.rows, (there, way))
            )
    return compare(taken.rows, other.rows, (shifts[0], shifts[1]))
