"""Two tables of single ops -> the kinds of work in them: the same operation, of the same size class."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from nfslat.diff.runs import Single
from nfslat.model.protocol import DATA_OPS
from nfslat.model.record import Record
from nfslat.model.tables import I64

_UNSIZED = -1


class Kinds(Record, eq=False):
    """Kinds of both runs, and the kind of each op: rows of `names`, which are (operation, log2 of the class or -1)."""

    names: list[tuple[str, int]]
    a: I64
    b: I64

    def rows(self, side: str, kind: int) -> I64:
        """Rows of the ops of a kind; `side` is "a" or "b"."""
        return np.flatnonzero(getattr(self, side) == kind)

    @property
    def labels(self) -> list[str]:
        """``READ 8 KB``."""
        return [" ".join(filter(None, (op, size_label(bits)))) for op, bits in self.names]

    @property
    def counts(self) -> tuple[list[int], list[int]]:
        """Ops of each kind, in A and in B."""
        most = len(self.names)
        return np.bincount(self.a, minlength=most).tolist(), np.bincount(self.b, minlength=most).tolist()


def kinds(a: Single, b: Single) -> Kinds:
    """Most frequent first. Sizes of an operation are compared where both runs show those of most of its ops."""
    sized = {op for op in DATA_OPS if all(_shows_sizes(one, op) for one in (a, b))}
    of_a, of_b = _names(a, sized), _names(b, sized)
    names = dict.fromkeys((*of_a[0], *of_b[0]), 0)
    for known, rows in (of_a, of_b):
        for name, count in zip(known, np.bincount(rows, minlength=len(known)).tolist(), strict=True):
            names[name] += count
    ordered = sorted(names, key=lambda name: (-names[name], name))
    place = {name: number for number, name in enumerate(ordered)}
    of = [np.array([place[name] for name in known], dtype=np.int64)[rows] for known, rows in (of_a, of_b)]
    return Kinds(ordered, of[0], of[1])


def _shows_sizes(one: Single, op: str) -> bool:
    if op not in one.ops:
        return True
    sizes = one.size_bytes[one.op == one.ops.index(op)]
    return 2 * int(np.count_nonzero(sizes >= 0)) >= len(sizes)


def _names(one: Single, sized: set[str]) -> tuple[list[tuple[str, int]], I64]:
    """Kinds of one run, and which each op has."""
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


def decompose(
    counts_a: Sequence[int], sums_a: Sequence[int | Fraction], counts_b: Sequence[int], sums_b: Sequence[int | Fraction]
) -> tuple[Fraction, Fraction]:
    """Difference of the means of all ops, B less A, as (within kinds, by other shares of the kinds); exact.

    Of a kind in both runs the change of its mean counts with the mean of its two shares, and the change of its share
    with the mean of its two means (Kitagawa, JASA 50, 1955); a kind in one run only is all share. Raises
    ``ZeroDivisionError`` for a run without ops.
    """
    all_a, all_b = sum(counts_a), sum(counts_b)
    within = mix = Fraction(0)
    for n, s, m, t in zip(counts_a, sums_a, counts_b, sums_b, strict=True):
        share_a, share_b = Fraction(n, all_a), Fraction(m, all_b)
        if n and m:
            mean_a, mean_b = Fraction(s, n), Fraction(t, m)
            within += (mean_b - mean_a) * (share_a + share_b) / 2
            mix += (share_b - share_a) * (mean_a + mean_b) / 2
        else:
            mix += Fraction(t, all_b) - Fraction(s, all_a)
    return within, mix
