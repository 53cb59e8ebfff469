"""What senders asked for again and again (`Hangs`) -> what of it hangs, and the calls behind it.

The rules are those of `nfslat.tcp.open_waits`, which has each packet. Only who asks again is taken to wait: an idle
connection asks for nothing, nor does a transfer in whose middle the capture ends.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.decoded import Decoded
from nfslat.model.details import Awaits, Cut, Hangs
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, State
from nfslat.model.units import NS_PER_S
from nfslat.wire.stalls import RTO_MIN_NS
from nfslat.wire.transport import ways

OFTEN = 3  # transmissions
_ONCE_NS = NS_PER_S  # what was asked once more is waited for if nothing came for so long (RFC 6298 section 2.1)
_ASKS_ON_NS, _BACKOFF = 3 * NS_PER_S, 4  # who waits asks again, each time after twice as long (RFC 6298 section 5.5)
_FEW = 5  # transmissions; who stops after fewer had its answer, which the capture does not show


def is_long(since_ns: int, until_ns: int, *, is_often: bool) -> bool:
    """Was so often asked that nobody had to wait for long, or less often, and then nothing came for long?"""
    return until_ns - since_ns >= (RTO_MIN_NS if is_often else _ONCE_NS)


def is_shut_for_long(since_ns: int, until_ns: int) -> bool:
    """Is a window that was probed shut for longer than it takes to open it?"""
    return until_ns - since_ns >= RTO_MIN_NS


def asks_on(before_ns: int, last_ns: int, tries: int, until_ns: int) -> bool:
    """May one who had no answer to the last of `tries` transmissions not have asked again yet, or have given up?"""
    return tries >= _FEW or until_ns - last_ns <= max(_ASKS_ON_NS, _BACKOFF * (last_ns - before_ns))


def hanging(side: Decoded, end_ns: int) -> list[int]:
    """Rows of `Hangs` of a capture that hang: of a direction the shut window, where it is both. `end_ns` is when the
    capture ended, which `side` may be a part of."""
    hangs = side.details.hangs
    found: dict[tuple[int, int, int], int] = {}
    for row in range(len(hangs)):
        way = int(hangs.conn[row]), int(hangs.reconnect[row]), int(hangs.direction[row])
        if way not in found and _hangs(hangs, row, until(side, row, end_ns)):
            found[way] = row
    return list(found.values())


def until(side: Decoded, row: int, end_ns: int) -> int:
    """When the wait of a row of `Hangs` ended, or the capture."""
    ended_ns = int(side.details.hangs.until_ns[row])
    return end_ns if ended_ns == NULL else ended_ns


def _hangs(of: Hangs, row: int, until_ns: int) -> bool:
    since_ns, tries = int(of.since_ns[row]), int(of.tries[row])
    if of.awaits[row] == Awaits.WINDOW:
        return is_shut_for_long(since_ns, until_ns)
    if not is_long(since_ns, until_ns, is_often=tries >= OFTEN):
        return False
    was_reset = of.cut[row] in (Cut.OWN_RESET, Cut.RESET)
    if not was_reset and not asks_on(int(of.before_ns[row]), int(of.last_ns[row]), tries, until_ns):
        return False
    # Who goes on hears answers that the capture does not show.
    return not (of.went_on[row] and of.heard_ns[row] == NULL)


def to_server(side: Decoded) -> I64:
    """For each connection the direction that leads to the NFS server, those included on which nothing was answered."""
    out, loose = ways(side.ops), side.loose
    is_bare = np.ones(len(out), dtype=np.bool_)
    is_bare[side.ops.classes.conn] = False
    calls = np.flatnonzero((loose.is_reply == 0) & is_bare[loose.conn])[::-1]
    out[loose.conn[calls]] = loose.direction[calls]
    return out


def unanswered(side: Decoded, row: int, until_ns: int) -> int:
    """Calls without a reply on the connection of a row of `Hangs`, from when it began until the wait ended."""
    loose, hangs, tcp = side.loose, side.details.hangs, side.details.tcp
    began = tcp.first_ns[(tcp.conn == hangs.conn[row]) & (tcp.reconnect == hangs.reconnect[row])]
    open_calls = (loose.conn == hangs.conn[row]) & (loose.state == State.NO_REPLY) & (loose.is_reply == 0)
    open_calls &= (loose.first_ns >= began.min(initial=until_ns)) & (loose.first_ns <= until_ns)
    return int(np.count_nonzero(open_calls))
