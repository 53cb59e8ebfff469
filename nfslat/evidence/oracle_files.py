"""File waits of a 10046 trace, and which file is which -> calls as `calls_join` joins them with operations.

A wait for a file says file and block: block N of a data file begins at N blocks (block 0 is that of the system). How
large a block is, and which path a number stands for, the trace does not say. The size is that with which most waits
have an op of their bytes in their time; the path is in a list of data files (V$DATAFILE), or else the file is the one
whose ops fit.

``tim`` is when the wait had ended, in us: since 1970, by the clock that stamps packets, or by one that began elsewhere.
Then the shift is that with which most waits end just after an op of their bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from nfslat.evidence.calls import OfCalls, has_client, of_calls, votes
from nfslat.evidence.oracle_trace import Wait
from nfslat.evidence.strace import Call
from nfslat.model.protocol import NULL32
from nfslat.model.tables import I64, Bool, Ops
from nfslat.results import Analysis
from nfslat.select import is_reverse

BLOCKS = (8192, 16384, 4096, 32768, 2048)  # sizes that Oracle knows, the usual one first
_ALIKE_NS = 1_000_000  # so far the ends of waits may be from those of their ops, where clocks differ
_EDGE_NS = 100_000  # a reply wakes who waits for it in about that time
_LEAST, _SURE = 10, 0.4  # waits that tell the shift of a clock, and how many of them have to agree
_FEW = 16  # ops of the same bytes that a wait may have been for
_ASKED = 20_000  # waits that are asked for it


def of_waits(name: str, waits: Sequence[Wait], files: Mapping[int, str], c: Analysis) -> OfCalls:
    """The same of the file waits of a 10046 trace; `files` are paths of data files by their numbers."""
    ops = c.client.ops
    calls = calls_of(waits, ops, ~ops.spread(is_reverse(ops)), files) if has_client(c) else []
    if not calls:
        return OfCalls((), ["none of its waits goes with operations of the captures: no wait is joined with them"])
    return of_calls(name, calls, c, source="10046 trace")


def calls_of(waits: Sequence[Wait], ops: Ops, kept: Bool, paths: Mapping[int, str]) -> list[Call]:
    """The waits as calls, in their order, by the clock of the captures. `kept` are the ops that count."""
    shift_ns = _shift_ns(waits, ops, kept)
    if shift_ns is None:
        return []
    size = _sizes(waits, ops, kept, shift_ns)
    return [
        _call(one, size.get(one.file, BLOCKS[0]), paths.get(one.file, f"file# {one.file}"), shift_ns) for one in waits
    ]


def _call(one: Wait, size: int, path: str, shift_ns: int) -> Call:
    begin, end = (us * 1000 + shift_ns for us in (one.begin_us, one.end_us))
    name = "pwrite" if one.writes else "pread"
    return Call(name, path, one.block * size, one.blocks * size, begin, end, one.event)


def _sizes(waits: Sequence[Wait], ops: Ops, kept: Bool, shift_ns: int) -> dict[int, int]:
    """Of each file the size of a block with which most waits have an op; of those without any that of the others."""
    tried = [_call(one, size, f"{one.file}/{size}", shift_ns) for size in BLOCKS for one in waits]
    found = {path: max(counts.values(), default=0) for path, counts in votes(tried, ops, kept).items()}
    best: dict[int, int] = {}
    for file in dict.fromkeys(one.file for one in waits):
        told = {size: found.get(f"{file}/{size}", 0) for size in BLOCKS}
        size = max(BLOCKS, key=lambda one: told[one])
        if told[size]:
            best[file] = size
    usual = Counter(best.values()).most_common(1)
    return {one.file: best.get(one.file, usual[0][0] if usual else BLOCKS[0]) for one in waits}


def _shift_ns(waits: Sequence[Wait], ops: Ops, kept: Bool) -> int | None:
    """What to add to ``tim``; None where no clock is found in which waits and ops go together."""
    if not waits or not kept.any():
        return None
    first, last = int(ops.t0[kept].min()), int(ops.t3[kept].max())
    if any(one.end_us * 1000 >= first and one.begin_us * 1000 <= last for one in waits):
        return 0
    rows = np.flatnonzero(kept & (ops.offset >= 0) & (ops.size != NULL32))
    ended: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, offset, size in zip(rows.tolist(), ops.offset[rows].tolist(), ops.size[rows].tolist(), strict=True):
        ended[offset, size].append(int(ops.t3[row]))
    told = []
    for block in BLOCKS:
        asked = [(one.end_us * 1000, ended.get((one.block * block, one.blocks * block), ())) for one in waits[:_ASKED]]
        few = [(end, ops_ns) for end, ops_ns in asked if 0 < len(ops_ns) <= _FEW]
        told.append(_densest([op_ns - end for end, ops_ns in few for op_ns in ops_ns], len(few)))
    return max(told, key=lambda one: one[0])[1]


def _densest(apart: Sequence[int], waits: int) -> tuple[int, int | None]:
    """How many lie within `_ALIKE_NS` of each other, and where the last of them are dense, as no wait ends before its
    op; None where they are few of the waits, or as many lie elsewhere."""
    if not waits:
        return 0, None
    ordered = np.sort(np.array(apart, dtype=np.int64))
    counts, first, last = _window(ordered, _ALIKE_NS)
    most = last - first
    elsewhere = np.abs(ordered - ordered[last - 1]) > 2 * _ALIKE_NS
    other = int(counts[elsewhere].max(initial=0))
    inside = ordered[first:last]
    _, _, end = _window(inside, _EDGE_NS)
    return most, int(inside[end - 1]) if most >= max(_LEAST, _SURE * waits) and 2 * other <= most else None


def _window(ordered: I64, width: int) -> tuple[I64, int, int]:
    """How many lie within `width` behind each; begin and end of where that is most."""
    ends = np.searchsorted(ordered, ordered + width, side="right").astype(np.int64)
    counts = ends - np.arange(len(ordered))
    at = int(np.argmax(counts))
    return counts, at, int(ends[at])
