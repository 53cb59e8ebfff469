"""Pieces of a slow op's time -> the words for them, the largest first, summing to the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfslat.answer.figures import IN_THREAD, NO_CONNECTION, QUEUE, UNEXPLAINED
from nfslat.model.causes import Cause, in_words

if TYPE_CHECKING:
    from nfslat.answer.pictures import Piece, SlowOp

PARTS_IN_WORDS = {
    "call_send": "client sends the call",
    "call_net": "call in transit",
    "server": "in the server",
    "reply_send": "server sends the reply",
    "reply_net": "reply in transit",
    "network": "on the network",
}
_OWN = {
    NO_CONNECTION: "no connection: retransmitted on the next",
    QUEUE: "wait for a server thread",
    IN_THREAD: "in a server thread",
}
_OF_CALL = (Cause.BEHIND_LOSS.value, Cause.REORDERING.value)  # within the server's part they hold the call back
_WORTH_A_NAME = 0.005  # of the whole


def in_order(op: SlowOp) -> list[tuple[str, float]]:
    """Words and ms; what is too small to be named is one sum at the end."""
    whole = math.fsum(abs(one.ms) for one in op.pieces)
    named = [one for one in op.pieces if abs(one.ms) >= _WORTH_A_NAME * whole]
    found = [(_words(one), one.ms) for one in named]
    rest = [one.ms for one in op.pieces if one not in named]
    return [*found, ("the rest", math.fsum(rest))] if rest else found


def largest(op: SlowOp) -> str:
    """What most of its time went to."""
    return _words(op.pieces[0]) if op.pieces else ""


def layer_of(pieces: Sequence[Piece]) -> str:
    """Whose time the largest of them is: server or network."""
    if not pieces:
        return ""
    return "server" if pieces[0].part == "server" and pieces[0].cause in (*_OWN, UNEXPLAINED) else "network"


def _words(one: Piece) -> str:
    if one.cause in _OWN:
        return _OWN[one.cause]
    if one.cause == UNEXPLAINED:
        return PARTS_IN_WORDS[one.part]
    of_call = one.part.startswith("call") or (one.part == "server" and one.cause in _OF_CALL)
    return f"{in_words(one.cause)} ({'call' if of_call else 'reply'})"
