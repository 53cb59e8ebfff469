"""One side -> calls that were taken for others, sent again, and may be ops of their own."""

from __future__ import annotations

import numpy as np

from nfslat.answer.model import AuditNote
from nfslat.figures.audit.words import MANY, be, note, share, some
from nfslat.model.protocol import NULL
from nfslat.model.tables import State
from nfslat.results import Side

_SOON_NS = 1_000_000_000  # later only what was lost comes again, as pairing sees it


def again_notes(side: Side) -> list[AuditNote]:
    """Calls that came again after their answer: over UDP, or with its connection, that may have been lost."""
    after, kept = _after_answer(side)
    text = (
        f"{some(after, 'call')} ({share(after, len(side.ops))} of the ops) came again soon after the answer, with "
        f"the same XID and the same request as far as it is shown, and {be(after)} taken for retransmitted. Where a "
        "client uses its XIDs again as soon, they are ops of their own, and not counted. tcpdump -s 0 shows what "
        "each asks for"
    )
    return [note("capture-xids-again", after, text, warn=kept > MANY * len(side.ops))]


def share_again(side: Side) -> float:
    """Such calls, of all ops. At the client's tap an answer that it shows was not lost on the way."""
    return _after_answer(side)[0] / max(len(side.ops), 1)


def _after_answer(side: Side) -> tuple[int, int]:
    """All, and those that came on the TCP connection of their answer, which loses nothing."""
    d, ops = side.decoded, side.ops
    calls = d.loose.take((d.loose.state == State.RETRANSMITTED) & (d.loose.is_reply == 0) & (d.loose.op != NULL))
    since_ns = calls.first_ns - ops.t3[calls.op]
    after = calls.take((since_ns > 0) & (since_ns < _SOON_NS))
    made_anew = d.details.tcp.conn[d.details.tcp.reconnect > 0]
    over_tcp = np.array([ends.transport == "tcp" for ends in ops.connections], dtype=np.bool_)
    kept = over_tcp[after.conn] & (after.conn == ops.conn[after.op]) & ~np.isin(after.conn, made_anew)
    return len(after), int(np.count_nonzero(kept))
