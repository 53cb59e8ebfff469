"""Which group each op is in, and what each group is: `Grouping`, the key of a tally."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from nfslat.kernels.order import side_by_side
from nfslat.model.blocks import tally
from nfslat.model.protocol import NULL, op_name, program_name, version_name
from nfslat.model.record import Record
from nfslat.model.tables import I16, I32, Kind

Key = tuple[int, int, int, int]  # program, version, minor version, operation
Label_co = TypeVar("Label_co", bound=Hashable, covariant=True)
ALL = ""  # the label of a group of all ops


class Grouping(Record, Generic[Label_co], eq=False):
    """`of_op` is the group of each op, a number below that of `labels`; None: there is one group."""

    of_op: npt.NDArray[np.integer[Any]] | None
    labels: Sequence[Label_co]

    def ordered(self, rows: int) -> tuple[I32, list[slice]]:
        """An order of the ops that puts those of each group side by side, and where each group stands in it."""
        groups = self.of_op
        if groups is None:
            return np.arange(rows, dtype=np.int32), [slice(0, rows)]
        return side_by_side(rows, len(self.labels), lambda at: groups[at])


ALL_TOGETHER = Grouping(None, (ALL,))


def by_operation(kinds: Sequence[Kind], kind: I16) -> Grouping[Key]:
    """Groups of ops whose kinds are `kind`, by what is printed of these: a `Key`, the most frequent first."""
    keys, of_kind = keys_of(kinds, kind)
    return Grouping(of_kind.take(kind), keys)  # sooner than by an index of 16 bits


def keys_of(kinds: Sequence[Kind], kind: I16) -> tuple[list[Key], I16]:
    """What is printed of ops whose kinds are `kind`, the most frequent first, then by key; and which each kind has."""
    counts: Counter[Key] = Counter()
    for one, count in zip(kinds, tally(len(kind), len(kinds), lambda at: kind[at]).tolist(), strict=True):
        counts[one[:4]] += count
    keys = sorted((key for key, count in counts.items() if count), key=lambda key: (-counts[key], key))
    return keys, np.array([keys.index(one[:4]) if counts[one[:4]] else NULL for one in kinds], dtype=np.int16)


def names_of(key: Key) -> tuple[str, str, str]:
    """Program, operation and version, as they are printed."""
    program, version, minor, op = key
    return program_name(program), op_name(program, version, op), version_name(program, version, minor)
