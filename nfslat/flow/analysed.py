"""A pair of windows that has ops in both captures -> its `Analysis`, with what the windows before tell of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from nfslat.analyse import analyse
from nfslat.flow.gaps import Gaps
from nfslat.flow.pairs import Pair
from nfslat.model.tables import State
from nfslat.results import Analysis, Correlation, Side


def analysed(found: Correlation, pair: Pair, gaps: Mapping[str, Gaps]) -> Analysis:
    """`found` is that of `pair`; `gaps` are those of each side, and are told."""
    server = _begun(_without_late(found.server, pair.begin_ns - pair.later_ns), pair.begin_ns - pair.later_ns)
    client = _begun(_without_late(found.client, pair.begin_ns), pair.begin_ns)
    sides = {"server": server, "client": client}
    missing = {name: gaps[name].told(len(side.ops.connections)) for name, side in sides.items()}
    of_window = dataclasses.replace(found, server=server, client=client)
    c = analyse(of_window, missing=missing, of_a_stretch=True)
    # A window from which filters leave nothing out is no whole: nobody knows how much is hidden of what they leave.
    return dataclasses.replace(c, unseen=dict.fromkeys(c.unseen)) if pair.filters.leaves_out else c


def _begun(side: Side, begin_ns: int) -> Side:
    """As a capture that begins with the window: what was over before it is none of its."""
    decoded = side.decoded
    return dataclasses.replace(side, decoded=dataclasses.replace(decoded, first_ns=max(decoded.first_ns, begin_ns)))


def _without_late(side: Side, begin_ns: int) -> Side:
    """Without calls that were sent before the window and given up in it: in their own they were missing."""
    decoded = side.decoded
    is_late = (decoded.loose.state == State.NO_REPLY) & (decoded.loose.first_ns < begin_ns)
    if not is_late.any():
        return side
    loose, asked = decoded.loose.take(~is_late), decoded.details.unanswered
    details = dataclasses.replace(decoded.details, unanswered=asked.take(np.isin(asked.frame, loose.first_frame)))
    return dataclasses.replace(side, decoded=dataclasses.replace(decoded, loose=loose, details=details))
