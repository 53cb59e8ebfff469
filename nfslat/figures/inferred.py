"""What was inferred of the host without a capture -> its figures in the report."""

from __future__ import annotations

import numpy as np

from nfslat.answer import model
from nfslat.figures.ticks import ticks_of
from nfslat.model.units import to_ms
from nfslat.results import Analysis


def inferred_of(c: Analysis) -> model.Inferred | None:
    """None where both hosts were captured."""
    found = c.inferred
    if found is None:
        return None
    rows, ticks = c.matched.client, ticks_of(c)
    return model.Inferred(
        side=found.side,
        taken_at=found.taken_at,
        ops=len(rows),
        unstamped=int(np.count_nonzero(~found.clocked[rows])),
        mean_error_ms=to_ms(found.mean_error_ns(rows)) if ticks is None else ticks.of(found.side),
        op_error_ms=to_ms(found.op_error_ns(rows)),
        tick_ms=to_ms(found.tick_ns),
        round_trip_ms=to_ms(found.round_trip_ns),
    )
