"""Matched ops -> the frames of each capture in which their calls and replies may be, every transmission of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.model.details import Again
from nfslat.model.record import Record
from nfslat.model.tables import I64, State
from nfslat.results import Correlation, Side

SIDES = ("client", "server")
# The first byte of a message can be the last to come, when its segment was lost: then others stand in front of it.
_LOOK_BACK = 512  # frames


class Message(Record):
    """One transmission of a call or reply at one side; frames count through the side's set of files.

    `frames` are those that may hold it, from the first to the last; `first` holds its first byte.
    """

    row: int  # of the matched ops
    xid: int
    side: str
    is_reply: bool
    is_again: bool  # sent again as a whole, by RPC or by TCP
    first: int
    frames: tuple[int, int]


def messages_of(found: Correlation, rows: Sequence[int], side: str) -> list[Message]:
    """Calls and replies of the matched ops in `rows` at one side, and what was sent again of them; in capture order."""
    matched = found.matched.take(np.array(rows, dtype=np.int64))
    one: Side = getattr(found, side)
    of_side: I64 = getattr(matched, side).astype(np.int64)
    ops, loose = one.ops, one.decoded.loose
    late = _late(one, of_side)
    out = []
    for row, at in zip(rows, of_side.tolist(), strict=True):
        for is_reply, name in ((False, "call"), (True, "reply")):
            first, last = (int(getattr(ops, f"{name}_{end}_frame")[at]) for end in ("first", "last"))
            begin = max(first - _LOOK_BACK, 1) if (first, at) in late else first
            span = (min(begin, last), max(first, last))
            out.append(Message(row, int(ops.xid[at]), side, is_reply, False, first, span))
    row_of = dict(zip(of_side.tolist(), rows, strict=True))
    again = np.flatnonzero(np.isin(loose.op, of_side) & (loose.state == State.RETRANSMITTED))
    for at in again.tolist():
        first, last = int(loose.first_frame[at]), int(loose.last_frame[at])
        whose = row_of[int(loose.op[at])]
        out.append(Message(whose, int(loose.xid[at]), side, bool(loose.is_reply[at]), True, first, (first, last)))
    return sorted(out, key=lambda message: (message.first, message.row, message.is_reply))


def segments_again(found: Correlation, rows: Sequence[int], side: str) -> dict[int, list[tuple[int, bool]]]:
    """Frames of segments with bytes of these ops that TCP sent again -> (row, is it of the reply) of each."""
    one: Side = getattr(found, side)
    of_side = getattr(found.matched, side)[np.array(rows, dtype=np.int64)]
    row_of = dict(zip(of_side.tolist(), rows, strict=True))
    resent = one.decoded.details.resent
    out: dict[int, list[tuple[int, bool]]] = {}
    for at in np.flatnonzero(np.isin(resent.op, of_side)).tolist():
        out.setdefault(int(resent.frame[at]), []).append((row_of[int(resent.op[at])], bool(resent.is_reply[at])))
    return out


def _late(side: Side, rows: I64) -> set[tuple[int, int]]:
    """(frame, op) of segments that came behind what follows them."""
    resent = side.decoded.details.resent
    at = np.flatnonzero(np.isin(resent.op, rows) & (resent.kind == Again.LATE))
    return set(zip(resent.frame[at].tolist(), resent.op[at].tolist(), strict=True))
