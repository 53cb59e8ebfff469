"""An `Analysis` -> how many of the operations of its time are in both captures, and why the others are not.

The one figure on completeness: headline, confidence, tables and JSON have it from here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nfslat.answer.model import Completeness
from nfslat.figures.audit.missing import strangers
from nfslat.model.tables import Miss, hosts
from nfslat.results import Analysis
from nfslat.tally.captures import ShownTally

NOT_AT = {"server": "not in the server's capture", "client": "not in the client's capture"}
_MOST_AGAIN = 0.99  # of the ops
NEITHER, UNTIMED = "whole in neither capture", "in flight when a clock was set"


def completeness_of(c: Analysis) -> Completeness:
    """Of the operations that both captures could show: those outside their common time, and of hosts that only one of
    them knows, are left out."""
    sides = {"server": c.server, "client": c.client}
    return completeness(
        len(c.matched),
        c.untimed,
        {name: _alone(c, name) for name in sides},
        {name: ShownTally.of(side, c.missing_calls[name]) for name, side in sides.items()},
        {name: None if (known := c.unseen[name]) is None else known.ops for name in sides},
    )


def completeness(
    ops: int,
    untimed: int,
    alone: Mapping[str, int],
    shown: Mapping[str, ShownTally],
    counted: Mapping[str, int | None],
) -> Completeness:
    """`ops` have figures; by side, `alone` are those that the other capture should have and has not, and `counted`
    those that a capture knows of and does not show, where it counts them."""
    lost = {}
    for name, opposite in (("server", "client"), ("client", "server")):
        own, known = shown[name], counted[name]
        hidden = own.lost_share(hosts(shown[opposite].connections))
        if name == "client":  # at its tap an answer that came again was not lost on the way
            hidden = max(hidden, min(own.again / max(int(own.ops.sum()), 1), _MOST_AGAIN))
        # Filters leave out of what is hidden as much as of what is shown.
        lost[name] = round((ops + untimed + alone[name]) * hidden / (1 - hidden)) if known is None else known
    found: dict[str, int] = {}
    for name, opposite in (("server", "client"), ("client", "server")):
        missing = {
            NOT_AT[opposite]: alone[name],
            NOT_AT[name]: alone[opposite],
            NEITHER: max(lost[name] - alone[opposite], 0),
        }
        if sum(missing.values()) >= sum(found.values()):
            found = missing
    found = {why: count for why, count in (found | {UNTIMED: untimed}).items() if count}
    of = ops + sum(found.values())
    return Completeness(share=ops / of if of else 0.0, ops=ops, of=of, missing=found)


def _alone(c: Analysis, name: str) -> int:
    """Ops of a side without a partner, that the other capture should have."""
    fates, compared = c.missed(name), c.compared(name)
    missed = compared & (fates != Miss.MATCHED) & (fates != Miss.OUTSIDE_OVERLAP)
    return int(np.count_nonzero(missed)) - strangers(c, name)
