"""A conversation in two traces (`both`) -> what was lost on the way, how long that takes, whose time the turns are."""

from __future__ import annotations

import numpy as np

from nfslat.held import held
from nfslat.tables import I64
from nfslat.tcp.both import Both, Pair, Passage
from nfslat.tcp.model import Ends, HeldOnTheWay, Passed
from nfslat.tcp.packets import Talk
from nfslat.tcp.progress import sender, spread
from nfslat.tcp.same import counts_from_syn, shift_of
from nfslat.tcp.shared import Shared
from nfslat.tcp.turns import Compared, Shape, Taken, compare, take

_MS = 1e6


def ends(both: Both, pair: Pair, talk: Talk, taken: Taken) -> Ends:
    """Of the first trace's conversation `talk`, whose turns are `taken`."""
    there, back = (_passed(both, passage, talk, way) for way, passage in enumerate(pair.passages))
    trips = np.abs(pair.trips_ns)
    return Ends(
        stream=pair.rows[1],
        passed=(there, back),
        round_trip_ms=spread(trips),
        least_round_trip_ms=int(trips.min()) / _MS if len(trips) else None,
        turns=_turns(both, pair, taken),
    )


def _passed(both: Both, passage: Passage, talk: Talk, way: int) -> Passed:
    sent, arrived, error_ns = _instants(both, passage)
    delays = arrived - sent
    begin = int(talk.packets.t_ns.min())
    return Passed(
        sender=sender(talk, way),
        receiver=sender(talk, 1 - way),
        sender_capture=passage.sender,
        fates=(
            {fate.value: count for fate, count in passage.fates[0].items()},
            {fate.value: count for fate, count in passage.fates[1].items()},
        ),
        bytes=passage.bytes,
        lost_bytes=passage.lost_bytes,
        lost_share=passage.lost_bytes / passage.sent_bytes if passage.sent_bytes else None,
        missed_bytes=passage.missed_bytes,
        surplus_bytes=passage.surplus_bytes,
        delay_ms=spread(delays),
        least_delay_ms=int(delays.min()) / _MS if len(delays) else None,
        delay_error_ms=None if error_ns is None else error_ns / _MS,
        held=tuple(
            HeldOnTheWay((one.begin_ns - begin) / _MS, (one.release_ns - one.begin_ns) / _MS, one.packets, one.peak_ms)
            for one in held(sent, delays)
        ),
    )


def _instants(both: Both, passage: Passage) -> tuple[I64, I64, int | None]:
    """When packets that are in both were sent and arrived, on the first trace's clock, and how far that may be off.

    Nothing where the clocks are not known.
    """
    theta = both.theta
    if theta is None or not theta.clock.fits:
        return passage.sent_ns[:0], passage.arrived_ns[:0], None
    sent, arrived = passage.sent_ns, passage.arrived_ns
    sent, arrived = (sent, theta.on_first(arrived)) if passage.sender == 0 else (theta.on_first(sent), arrived)
    return sent, arrived, theta.clock.worst_error_ns


def _turns(both: Both, pair: Pair, taken: Taken) -> Compared | None:
    if taken.shape is not Shape.TURNS:
        return None
    other = take(Shared(both.traces[1].talk(pair.rows[1])))
    if other.shape is not Shape.TURNS or (other.asker != taken.asker) != pair.is_turned:
        return None
    # Positions of the second trace as those of the first, of the requests and of the responses.
    shifts = [0, 0]
    if not counts_from_syn(both.traces, pair.rows):
        ways = [(way, 1 - way if pair.is_turned else way) for way in (taken.asker, 1 - taken.asker)]
        shifts = [shift_of(both.traces, pair.rows, way) for way in ways]
    asks = pair.passages[taken.asker].sender
    if asks == 0:
        return compare(taken.rows, other.rows, (shifts[0], shifts[1]))
    return compare(other.rows, taken.rows, (-shifts[0], -shifts[1]))
