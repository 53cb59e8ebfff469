"""Reports on both captures, and on one of them -> what was inferred of each op beside what the other capture shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.tables import I64
from nfslat.results import Analysis


class Beside(NamedTuple):
    """Of the ops that both captures have: the share with inferred times; of these their rows at the capture that was
    kept, and their SRT at the other host, ns, as its capture shows it and as it was inferred."""

    known: float
    rows: I64
    true_ns: I64
    found_ns: I64


def beside(truth: Analysis, one: Analysis, side: str) -> Beside:
    """`side` is where the capture that was kept was taken."""
    mine = (truth.matched.client if side == "client" else truth.matched.server).astype(np.int64)
    place = np.full(len(getattr(one, side).ops), -1)
    place[one.matched.client] = np.arange(len(one.matched))
    known = place[mine] >= 0
    true_ns = (truth.server_srt_ns if side == "client" else truth.client_srt_ns)[known]
    found_ns = (one.server_srt_ns if side == "client" else one.client_srt_ns)[place[mine][known]]
    return Beside(float(known.mean()), mine[known], true_ns, found_ns)
