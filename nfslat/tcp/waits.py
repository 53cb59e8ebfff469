"""A conversation -> its round trips, its windows, and what limited its senders, in both directions."""

from __future__ import annotations

from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.units import to_ms
from nfslat.tcp.floors import Place
from nfslat.tcp.limits import Limits, is_one_sided, limits
from nfslat.tcp.progress import sender
from nfslat.tcp.rounds import Rounds, rounds
from nfslat.tcp.setup import Setup, setup
from nfslat.tcp.shared import Shared
from nfslat.tcp.windows import Windows, windows


class Waits(Record):
    """Of both directions, in their order."""

    place: Place  # where the capture was taken
    to_a_ms: float | None  # shortest round trip from there to endpoint a; None: not known
    to_b_ms: float | None
    one_sided: str | None  # the endpoint whose packets alone were captured: limits are not known then
    setup: Setup | None  # None: no SYN was captured
    rounds: tuple[Rounds, Rounds]
    windows: tuple[Windows, Windows]
    limits: tuple[Limits, Limits]


def waits(shared: Shared) -> Waits:
    """All of it. The conversation has a packet at the least."""
    floor = shared.floors
    return Waits(
        place=floor.place,
        to_a_ms=None if floor.to_a_ns == NULL else to_ms(floor.to_a_ns),
        to_b_ms=None if floor.to_b_ns == NULL else to_ms(floor.to_b_ns),
        one_sided=_only(shared),
        setup=setup(shared.talk),
        rounds=(rounds(shared, 0), rounds(shared, 1)),
        windows=(windows(shared, 0), windows(shared, 1)),
        limits=(limits(shared.talk, shared.splits[0], 0), limits(shared.talk, shared.splits[1], 1)),
    )


def _only(shared: Shared) -> str | None:
    """Of a conversation that moved any bytes; a lone SYN leaves no question open."""
    talk = shared.talk
    is_used = talk.packets.size.any() or any(way.lost_bytes > 1 for way in talk.conversation.ways)
    return sender(talk, int(talk.packets.direction[0])) if is_used and is_one_sided(talk, shared.open_waits) else None
