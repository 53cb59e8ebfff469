"""An `Analysis` -> matched ops by time and operation, in the manner of nfsiostat (``--interval``): `Intervals`."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nfslat.answer.pivots import IntervalRow, Intervals
from nfslat.errors import UsageError
from nfslat.figures.matched import begins_ns
from nfslat.figures.pivots import known_bytes, sizes_of
from nfslat.model.blocks import filled, rank
from nfslat.model.protocol import NFS, NULL, program_name
from nfslat.model.tables import I16, I64
from nfslat.model.units import NS_PER_S, iso, to_ms, to_s
from nfslat.results import Analysis
from nfslat.select import op_labels

MOST_ROWS = 100_000
_KIB = 1024
_LONGEST_NS = 1 << 62  # 146 years


def intervals_of(c: Analysis, seconds: float) -> Intervals:
    """The matched ops in intervals of `seconds` from the first matched call on, by when their calls were sent.

    All intervals up to the last call have a row "all", and one for each operation with ops in it. The ops of the rows
    sum to those of the report's `by_op`, and means weighted by them to its means. Raises ``UsageError`` where `seconds`
    is no length of time, or would make more than ``MOST_ROWS`` rows.
    """
    width_ns = _width_ns(seconds)
    if not len(c.matched):
        return Intervals(seconds, [])
    begins = begins_ns(c)
    first_ns = int(begins.min())
    names, of_op = _operations(c)
    intervals = (int(begins.max()) - first_ns) // width_ns + 1
    if intervals > MOST_ROWS:
        raise _too_many(seconds, intervals, int(begins.max()) - first_ns, len(names))
    interval = (begins - first_ns) // width_ns
    columns = _Columns.of(c)
    by_op = columns.cells(interval * len(names) + of_op)
    rows = intervals + len(by_op)
    if rows > MOST_ROWS:
        raise _too_many(seconds, rows, int(begins.max()) - first_ns, len(names))
    of_all = {cell.key: cell for cell in columns.cells(interval)}
    made: list[IntervalRow] = []
    at = 0
    for number in range(intervals):
        begin_ns = number * width_ns
        when = iso(first_ns + begin_ns), to_s(begin_ns)
        made.append(of_all.get(number, _EMPTY).row(*when, "all", seconds))
        while at < len(by_op) and by_op[at].key // len(names) == number:
            made.append(by_op[at].row(*when, names[by_op[at].key % len(names)], seconds))
            at += 1
    return Intervals(seconds, made)


def _width_ns(seconds: float) -> int:
    width_ns = round(min(seconds * NS_PER_S, _LONGEST_NS)) if math.isfinite(seconds) else 0
    if width_ns < 1:
        raise UsageError(f"--interval {seconds:g}: give a number of seconds above 0, 1 or 0.1 for example")
    return width_ns


def _too_many(seconds: float, rows: int, span_ns: int, operations: int) -> UsageError:
    """The suggestion holds whatever operations there are in each interval."""
    fewest_ns = span_ns // (MOST_ROWS // (operations + 1) - 1) + 1
    steps = (step * 10**power for power in itertools.count() for step in (1, 2, 5))
    longer_ns = next(step for step in steps if step >= fewest_ns)
    return UsageError(
        f"--interval {seconds:g}: this makes {rows:,} rows or more, and {MOST_ROWS:,} are the most; "
        f"take --interval {to_s(longer_ns):g}, or a part of the time with --start and --end"
    )


def _operations(c: Analysis) -> tuple[list[str], I16]:
    """Names of the operations, the most frequent first, and which of them each matched op is."""
    kinds = c.client.ops.kinds
    labels = [
        label if kind.program == NFS else f"{program_name(kind.program).removeprefix('program ')} {label}"
        for kind, label in zip(kinds, op_labels(kinds), strict=True)
    ]
    counts: dict[str, int] = {}
    for label, count in zip(labels, np.bincount(c.kind, minlength=len(kinds)).tolist(), strict=True):
        counts[label] = counts.get(label, 0) + count
    names = sorted((name for name, count in counts.items() if count), key=lambda name: (-counts[name], name))
    of_kind = np.array([names.index(label) if counts[label] else NULL for label in labels], dtype=np.int16)
    return names, of_kind[c.kind]


@dataclass(frozen=True)
class _Cell:
    """Ops of one interval, or of one operation in it; sums in ns."""

    key: int
    ops: int
    bytes: int
    without_size: int
    retrans: int
    client_ns: int
    client_p99_ns: int
    server_ns: int
    queue_ns: int
    queues: int  # ops whose wait for a thread is known

    def row(self, begin: str, begin_s: float, op: str, seconds: float) -> IntervalRow:
        """As the report has it."""
        moved = known_bytes(self.bytes, self.without_size)
        kb = None if moved is None else moved / _KIB

        def mean_ms(sum_ns: int, of: int) -> float | None:
            return to_ms(sum_ns / of) if of else None

        return IntervalRow(
            begin=begin,
            begin_s=begin_s,
            op=op,
            ops=self.ops,
            ops_per_s=self.ops / seconds,
            bytes=moved,
            without_size=self.without_size,
            kb_per_s=None if kb is None else kb / seconds,
            kb_per_op=None if kb is None or not self.ops else kb / self.ops,
            retrans=self.retrans,
            client_ms=mean_ms(self.client_ns, self.ops),
            client_p99_ms=mean_ms(self.client_p99_ns, 1 if self.ops else 0),
            server_ms=mean_ms(self.server_ns, self.ops),
            network_ms=mean_ms(self.client_ns - self.server_ns, self.ops),
            queue_ms=mean_ms(self.queue_ns, self.queues),
        )


_EMPTY = _Cell(NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class _Columns:
    """Of each matched op."""

    client_ns: I64
    server_ns: I64
    sizes: I64
    again: I64  # how often the call was sent again
    queue_ns: I64 | None

    @classmethod
    def of(cls, c: Analysis) -> Self:
        """All of them."""
        load = c.inflight.load
        return cls(
            c.client_srt_ns,
            c.server_srt_ns,
            sizes_of(c),
            filled(
                len(c.matched),
                np.int64,
                lambda at: np.maximum(c.client.ops.transmissions[c.matched.client[at]].astype(np.int64) - 1, 0),
            ),
            None if load.threads.cannot else load.queue_ns[c.matched.server],
        )

    def cells(self, keys: I64) -> list[_Cell]:
        """One for each different key of the ops, by key."""
        order = np.lexsort((self.client_ns, keys))
        keys = keys[order]
        begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        ops = np.diff(np.append(begins, len(keys)))

        def sums(values: npt.NDArray[Any]) -> I64:
            return np.add.reduceat(values[order], begins, dtype=np.int64)

        unknown = self.sizes == NULL
        queue = np.full(len(order), NULL, dtype=np.int64) if self.queue_ns is None else self.queue_ns
        waits = queue != NULL
        columns = (
            keys[begins],
            ops,
            sums(np.where(unknown, 0, self.sizes)),
            sums(unknown),
            sums(self.again),
            sums(self.client_ns),
            # The ops of a cell stand in order of their time.
            self.client_ns[order[begins + rank(ops, 99)]],
            sums(self.server_ns),
            sums(np.where(waits, queue, 0)),
            sums(waits),
        )
        return [_Cell(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
