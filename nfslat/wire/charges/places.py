"""Names of the places in which an op's time lies; no input, no output."""

from __future__ import annotations

from nfslat.decompose import PART_NAMES

# Beside the five parts there is time of which the client's SRT holds nothing: the application's alone.
BEFORE, AFTER = "before", "after"  # in front of the call's first byte, and behind the reply's last one, at the client
PLACES = (*PART_NAMES, BEFORE, AFTER)


def place(name: str) -> int:
    """What stands for a part, `BEFORE` or `AFTER` in columns."""
    return PLACES.index(name)
