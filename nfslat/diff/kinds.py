"""Ops of two runs -> the kinds of work in them: the same operation, of the same size class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.diff.runs import Ops
from nfslat.model.protocol import DATA_OPS
from nfslat.model.record import Record
from nfslat.model.tables import F64, I64

_UNSIZED = -1


class Kinds(Record, eq=False):
    """Kinds of both runs, most frequent first: (operation, log2 of the class or -1)."""

    names: list[tuple[str, int]]
    of: tuple[I64, I64]  # the kind of each row of A and of B
    counts: tuple[I64, I64]  # ops of each kind

    @property
    def labels(self) -> list[str]:
        """``READ 8 KB``."""
        return [" ".join(filter(None, (op, size_label(bits)))) for op, bits in self.names]

    @property
    def both(self) -> list[int]:
        """Kinds of which both runs have ops."""
        return np.flatnonzero(np.minimum(*self.counts)).tolist()

    @property
    def shares(self) -> tuple[F64, F64]:
        """Of the ops of each run."""
        a, b = (counts / counts.sum() for counts in self.counts)
        return a, b

    def weights(self, kinds: Sequence[int]) -> F64:
        """Mean share of some kinds; they sum to 1."""
        a, b = self.shares
        shares = (a + b)[list(kinds)]
        return np.asarray(shares / shares.sum())


def kinds(a: Ops, b: Ops) -> Kinds:
    """Sizes of an operation are compared where both runs show those of most of its ops."""
    sized = {op for op in DATA_OPS if all(_shows_sizes(one, op) for one in (a, b))}
    named = [_names(one, sized) for one in (a, b)]
    known = sorted({*named[0][0], *named[1][0]})
    of, counts = [], []
    for (names, rows), one in zip(named, (a, b), strict=True):
        of.append(np.array([known.index(name) for name in names], dtype=np.int64)[rows])
        counts.append(np.bincount(of[-1], one.count, len(known)).astype(np.int64))
    order = np.argsort(-sum(counts), kind="stable")
    place = np.argsort(order)
    return Kinds([known[kind] for kind in order], (place[of[0]], place[of[1]]), (counts[0][order], counts[1][order]))


def _shows_sizes(one: Ops, op: str) -> bool:
    if op not in one.ops:
        return True
    sizes = one.size_bytes[one.op == one.ops.index(op)]
    return 2 * int(np.count_nonzero(sizes >= 0)) >= len(sizes)


def _names(one: Ops, sized: set[str]) -> tuple[list[tuple[str, int]], I64]:
    """Kinds of one run, and which each row has."""
    has_size = np.array([name in sized for name in one.ops], dtype=np.bool_)
    # The exponent of a float is the number of bits of the integer in it: 8192 - 1 has 13, so the class ends at 2^13.
    bits = np.frexp(np.maximum(one.size_bytes - 1, 0).astype(np.float64))[1]
    size = np.where(has_size[one.op] & (one.size_bytes >= 0), bits, _UNSIZED)
    keys, rows = np.unique(one.op * 128 + size + 1, return_inverse=True)
    return [(one.ops[key // 128], key % 128 - 1) for key in keys.tolist()], rows.astype(np.int64)


def size_label(bits: int) -> str | None:
    """``8 KB`` for 13."""
    if bits == _UNSIZED:
        return None
    for power, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if bits >= power:
            return f"{1 << (bits - power)} {unit}"
    return f"{1 << bits} B"
