"""An `Analysis` -> how many of the operations of its time are in both captures, and why the others are not.

The one figure on completeness: headline, confidence, tables and JSON have it from here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nfslat.answer.model import Completeness
from nfslat.figures.audit.again import share_again
from nfslat.figures.audit.missing import strangers
from nfslat.inflight.levels import hidden_share
from nfslat.model.tables import I64, Miss, State, hosts
from nfslat.results import Analysis, Side

NOT_AT = {"server": "not in the server's capture", "client": "not in the client's capture"}
NEITHER, UNTIMED = "whole in neither capture", "in flight when a clock was set"


def completeness_of(c: Analysis) -> Completeness:
    """Of the operations that both captures could show: those outside their common time, and of hosts that only one of
    them knows, are left out."""
    both = len(c.matched) + c.untimed
    alone = {name: _alone(c, name) for name in NOT_AT}
    lost = {}
    for name, side, other in (("server", c.server, c.client), ("client", c.client, c.server)):
        hidden, counted = _hidden(side, other, c.missing_calls[name]), c.unseen[name]
        if name == "client":
            hidden = max(hidden, min(share_again(side), 0.99))
        # Filters leave out of what is hidden as much as of what is shown.
        lost[name] = round((both + alone[name]) * hidden / (1 - hidden)) if counted is None else counted.ops
    return completeness(len(c.matched), c.untimed, alone, lost)


def completeness(ops: int, untimed: int, alone: Mapping[str, int], lost: Mapping[str, int]) -> Completeness:
    """`ops` have figures; by side, `alone` are those that the other capture should have and has not, `lost` those that
    a capture knows of and does not show."""
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


def _hidden(side: Side, other: Side, gaps: I64) -> float:
    """Of the ops that a capture should show, the share whose call, reply or both it does not have.

    Connections of hosts that the `other` capture does not know are left out, unless nothing is left (NAT), and so are
    messages of the first and the last moments, whose other half came before or after the capture.
    """
    d = side.decoded
    known = hosts(other.ops.connections)
    shared = np.array([hosts([ends]) <= known for ends in side.ops.connections], dtype=np.bool_)
    if not shared.any():
        shared = ~shared
    loose = d.loose.take(shared[d.loose.conn])
    answered = side.ops.classes
    ops = int(answered.count[shared[answered.conn]].sum())
    if not ops:
        return 0.0
    begin, end = int(side.ops.t3.min()), int(side.ops.t0.max())
    halves = {
        State.NO_REPLY: int(np.count_nonzero((loose.state == State.NO_REPLY) & (loose.first_ns <= end))),
        State.NO_CALL: int(np.count_nonzero((loose.state == State.NO_CALL) & (loose.first_ns >= begin))),
    }
    states = {**halves, State.PAIRED: 2 * ops, State.HEADER_NOT_CAPTURED: d.hidden}
    return hidden_share(states, int(gaps[shared].sum()))
