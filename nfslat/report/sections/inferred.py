"""What was inferred of the host that was not captured -> how far it can be trusted, in words."""

from __future__ import annotations

from nfslat.answer.model import Inferred
from nfslat.answer.words import ms, percent

_OTHERWISE = {"server": "client", "client": "server"}


def whose(found: Inferred) -> str:
    """Whose capture it is."""
    return f"the {_OTHERWISE[found.side]}'s"


def inferred_words(found: Inferred) -> str:
    """For the first screen."""
    return (
        f"From {whose(found)} capture alone: when the {found.side} had calls and replies is inferred from "
        f"{basis(found)}; means to +/- {ms(found.mean_error_ms)} ms, and an op lies within bounds of +/- "
        f"{ms(found.op_error_ms)} ms (median)."
    )


def basis(found: Inferred) -> str:
    """What it rests on."""
    acks = f"acknowledgements, replies and other operations alone, as no clock of the {found.side}'s is in the packets"
    if not found.unstamped:
        return "TCP time stamps"
    if found.unstamped == found.ops:
        return acks
    return f"TCP time stamps, and for {percent(found.unstamped / found.ops)} of the operations from {acks} of these"
