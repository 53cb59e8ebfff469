"""Numbers -> their rows in ascending order."""

from __future__ import annotations

import numpy as np

from nfslat.kernels import compiled
from nfslat.model.tables import I64


def argsort(values: I64) -> I64:
    """`np.argsort`, stable, and several times as fast where `values` are in no order, and within 2^32 of each other."""
    if compiled.native is None:
        return np.argsort(values, kind="stable")
    return np.asarray(compiled.native.order(np.ascontiguousarray(values)))
