"""An `Analysis` -> matched ops by time and operation, in the manner of nfsiostat (``--interval``): `Intervals`."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np

from nfslat.answer.figures import figures_of
from nfslat.answer.pivots import IntervalRow, Intervals
from nfslat.errors import UsageError
from nfslat.figures.matched import begins_ns
from nfslat.model.blocks import distinct
from nfslat.model.protocol import NFS, NULL, program_name
from nfslat.model.tables import I16, I64
from nfslat.model.units import NS_PER_S, iso, to_ms, to_s
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.tally.columns import OpColumns
from nfslat.tally.durations import CLIENT, NETWORK, SERVER
from nfslat.tally.keys import Grouping
from nfslat.tally.ops import MOVED, TIMES, WAITS, OpFigures, OpSums

MOST_ROWS = 100_000
_KIB = 1024
_LONGEST_NS = 1 << 62  # 146 years


def intervals_of(c: Analysis, seconds: float) -> Intervals:
    """The matched ops in intervals of `seconds` from the first matched call on, by when their calls were sent.

    All intervals up to the last call have a row "all", and one for each operation with ops in it. The ops of the rows
    sum to those of the report's `by_op`, and means weighted by them to its means. Raises ``UsageError`` where `seconds`
    is no length of time, or would make more than ``MOST_ROWS`` rows.
    """
    first_ns = int(begins_ns(c).min()) if len(c.matched) else 0
    return intervals_from(sums_by_time(c, seconds, first_ns), seconds, first_ns)


def sums_by_time(c: Analysis, seconds: float, first_ns: int) -> OpSums:
    """By the number of the interval from `first_ns` on, and by operation. Raises as `intervals_of` does."""
    width_ns = _width_ns(seconds)
    if not len(c.matched):
        return OpSums.empty()
    interval = np.maximum(begins_ns(c) - first_ns, 0) // width_ns
    names, of_op = _operations(c)
    intervals = int(interval.max()) + 1
    _refuse_too_many(intervals, seconds, intervals, len(names))
    number: I64 = np.asarray(interval * len(names) + of_op, dtype=np.int64)
    cells = distinct(number, intervals * len(names))
    place = np.zeros(intervals * len(names), dtype=np.int32)
    place[cells] = np.arange(len(cells), dtype=np.int32)
    labels = [(cell // len(names), names[cell % len(names)]) for cell in cells.tolist()]
    return OpSums.of(OpColumns.of(c), Grouping(place[number], labels), (TIMES, WAITS, MOVED), (CLIENT,))


def intervals_from(sums: OpSums, seconds: float, first_ns: int) -> Intervals:
    """The rows of `sums_by_time`. Raises as `intervals_of` does."""
    width_ns = _width_ns(seconds)
    ops_of: dict[int, list[OpFigures]] = {}
    ops_by: Counter[str] = Counter()
    for row in sums.rows():
        ops_of.setdefault(row.label[0], []).append(row)
        ops_by[row.label[1]] += row.count
    intervals = max(ops_of, default=-1) + 1
    _refuse_too_many(intervals + len(sums.labels), seconds, intervals, len(ops_by))
    of_all = {row.label: row for row in sums.by(lambda label: label[0]).rows()}
    made: list[IntervalRow] = []
    for at in range(intervals):
        when = iso(first_ns + at * width_ns), to_s(at * width_ns)
        made.append(_row(of_all.get(at), *when, "all", seconds))
        in_order = sorted(ops_of.get(at, ()), key=lambda row: (-ops_by[row.label[1]], row.label[1]))
        made += [_row(row, *when, row.label[1], seconds) for row in in_order]
    return Intervals(seconds, made)


def _row(row: OpFigures | None, begin: str, begin_s: float, op: str, seconds: float) -> IntervalRow:
    """None: the interval has no ops."""
    ops = 0 if row is None else row.count
    moved = 0 if row is None else row.bytes
    kb = None if moved is None else moved / _KIB
    p99_ns = None if row is None else row.percentile_ns(CLIENT, 99)
    return IntervalRow(
        begin=begin,
        begin_s=begin_s,
        op=op,
        ops=ops,
        ops_per_s=ops / seconds,
        bytes=moved,
        without_size=0 if row is None else row.sum("without_size"),
        kb_per_s=None if kb is None else kb / seconds,
        kb_per_op=None if kb is None or not ops else kb / ops,
        retrans=0 if row is None else row.sum("again"),
        client_ms=None if row is None else row.mean_ms(CLIENT),
        client_p99_ms=None if p99_ns is None else to_ms(p99_ns),
        server_ms=None if row is None else row.mean_ms(SERVER),
        network_ms=None if row is None else row.mean_ms(NETWORK),
        **({} if row is None else figures_of(row)),
    )


def _width_ns(seconds: float) -> int:
    width_ns = round(min(seconds * NS_PER_S, _LONGEST_NS)) if math.isfinite(seconds) else 0
    if width_ns < 1:
        raise UsageError(f"--interval {seconds:g}: give a number of seconds above 0, 1 or 0.1 for example")
    return width_ns


def _refuse_too_many(rows: int, seconds: float, intervals: int, operations: int) -> None:
    """The suggestion holds whatever operations there are in each interval."""
    if rows <= MOST_ROWS:
        return
    fewest_ns = (intervals - 1) * _width_ns(seconds) // (MOST_ROWS // (operations + 1) - 1) + 1
    steps = (step * 10**power for power in itertools.count() for step in (1, 2, 5))
    longer_ns = next(step for step in steps if step >= fewest_ns)
    raise UsageError(
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
