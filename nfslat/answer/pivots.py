"""The part of the report that groups matched ops by what the user asks for (--by), and by time (--interval).

Same conventions as `nfslat.answer.model`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nfslat.answer.figures import Summary


@dataclass(frozen=True)
class PivotRow:
    """Matched ops of one group."""

    key: str  # "READ 64K", "10.0.0.1", "/export/db/a.dbf", "fh 0x1a2b3c4d" (a file without a name), "not known" ...
    ops: int
    bytes: int | None  # that READs asked for and WRITEs sent; None: of none of them captured
    without_size: int  # READs and WRITEs of which neither capture shows the size: `bytes` is without them
    mb_per_s: float | None  # 10^6 bytes, over the time of all matched ops (by second: over the row's seconds)
    client_ms: Summary | None  # None without ops: a second in which none was called
    server_ms: Summary | None
    network_ms: Summary | None
    queue_ms: float | None  # mean wait for a server thread; None where the packets do not tell


@dataclass(frozen=True)
class Pivot:
    """`rows` and `others` sum to the matched ops: `others` is all groups beyond the rows that are kept, together."""

    by: str
    groups: int  # before those with least time of the client were put together
    rows: list[PivotRow]  # most time of the client first; "second" and "size" in their own order
    others: PivotRow | None  # its key says how many they are: "12,345 others"


@dataclass(frozen=True)
class IntervalRow:
    """Matched ops of one operation (or "all") whose calls were sent in one interval, in the manner of nfsiostat.

    Rates are over the whole interval, also over the last one, which ends behind the last call.
    """

    begin: str  # on the client's clock
    begin_s: float  # since the first interval's begin
    op: str
    ops: int
    ops_per_s: float
    bytes: int | None  # that READs asked for and WRITEs sent; None: of none of them captured
    without_size: int  # READs and WRITEs of which neither capture shows the size: `bytes` is without them
    kb_per_s: float | None  # 1024 bytes, as nfsiostat has it, which counts headers too
    kb_per_op: float | None  # over all ops of the row
    retrans: int  # calls that the client sent again (RPC)
    client_ms: float | None  # means; None without ops
    client_p99_ms: float | None
    server_ms: float | None
    network_ms: float | None
    queue_ms: float | None


@dataclass(frozen=True)
class Intervals:
    """From the first matched call to the last, empty ones too; the rows of each operation sum to its matched ops."""

    seconds: float
    rows: list[IntervalRow]  # by time; in each interval "all", then the operations with ops in it, most frequent first
