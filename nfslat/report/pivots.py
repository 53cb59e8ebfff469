"""The part of the report that groups matched ops by what the user asks for (--by), and by time (--interval).

Same conventions as `nfslat.report.model`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nfslat.report.figures import Summary


@dataclass(frozen=True)
class PivotRow:
    """Matched ops of one group."""

    key: str  # "64K", "10.0.0.1", "/export/db/a.dbf", "0x1a2b3c4d" (a file without a name), "not known" ...
    ops: int
    bytes: int | None  # that READs and WRITEs moved; None: not captured
    mb_per_s: float | None  # 10^6 bytes, over the time of all matched ops (by second: over that second)
    client_ms: Summary
    server_ms: Summary
    network_ms: Summary
    queue_ms: float | None


@dataclass(frozen=True)
class Pivot:
    """Rows sum to the matched ops: what is beyond the rows that are kept is in the last one, `others`."""

    by: str
    groups: int  # before small ones were put together
    rows: list[PivotRow]  # most time of the client first; "second" and "size" in their own order
    others: PivotRow | None


@dataclass(frozen=True)
class IntervalRow:
    """Matched ops of one operation (or "all") whose calls were sent in one interval, in the manner of nfsiostat."""

    begin: str
    begin_s: float  # since the first interval's begin
    op: str
    ops: int
    ops_per_s: float
    kb_per_s: float | None  # 1024 bytes, as nfsiostat has it
    kb_per_op: float | None
    retrans: int  # RPC-level
    client_ms: float | None  # means; None without ops
    client_p99_ms: float | None
    server_ms: float | None
    network_ms: float | None
    queue_ms: float | None


@dataclass(frozen=True)
class Intervals:
    seconds: float
    rows: list[IntervalRow]  # by time; in each interval "all" first
