"""The part of the report that groups matched ops by what the user asks for (--by), and by time (--interval).

Same conventions as `nfslat.answer.model`.
"""

from __future__ import annotations

from typing import Annotated

from nfslat.answer.contract import Count, Must, NotNegative
from nfslat.answer.figures import GroupFigures, Summary
from nfslat.model.record import Record


class PivotRow(GroupFigures):
    """Matched ops of one group."""

    key: str  # "READ 64K", "10.0.0.1", "/export/db/a.dbf", "fh 0x1a2b3c4d" (a file without a name), "not known" ...
    ops: Count  # matched ops
    bytes: Count | None  # bytes that READs asked for and WRITEs sent; None where the size of none of them was captured
    without_size: Count  # READs and WRITEs of which neither capture shows the size; bytes are without them
    mb_per_s: NotNegative | None  # 10^6 bytes, over the time of all matched ops (by second: over the row's seconds)
    client_ms: Summary | None  # None without ops: a second in which none was called
    server_ms: Summary | None  # SRT at the server; None without ops
    network_ms: Summary | None  # the difference of the two, op by op; None without ops


class Pivot(Record):
    """`rows` and `others` sum to the matched ops: `others` is all groups beyond the rows that are kept, together."""

    # what they are grouped by
    by: Annotated[str, Must(enum=["size", "client", "server", "connection", "file", "uid", "second", "slot"])]
    groups: Count  # groups before those with least time of the client were put together
    rows: list[PivotRow]  # most time of the client first; size and second in their own order
    # all groups without a row of their own, together: "12,345 others"; None where there are none
    others: PivotRow | None


class IntervalRow(GroupFigures):
    """Matched ops of one operation (or "all") whose calls were sent in one interval, in the manner of nfsiostat.

    Rates are over the whole interval, also over the last one, which ends behind the last call.
    """

    begin: str  # when the interval begins, on the client's clock
    begin_s: NotNegative  # the same in seconds since the first interval's begin
    op: str  # operation, or all
    ops: Count  # matched ops
    ops_per_s: NotNegative  # ops per second
    bytes: Count | None  # bytes that READs asked for and WRITEs sent; None where the size of none of them was captured
    without_size: Count  # READs and WRITEs of which neither capture shows the size; bytes are without them
    kb_per_s: NotNegative | None  # 1024 bytes, as nfsiostat has it, which counts headers too
    kb_per_op: NotNegative | None  # 1024 bytes per op, over all ops of the row; None without ops
    retrans: Count  # calls that the client sent again (RPC)
    client_ms: float | None  # mean SRT at the client; None without ops, here and below
    client_p99_ms: float | None  # its 99th percentile
    server_ms: float | None  # mean SRT at the server
    network_ms: float | None  # mean of the differences


class Intervals(Record):
    """From the first matched call to the last, empty ones too; the rows of each operation sum to its matched ops."""

    seconds: Annotated[float, Must(exclusiveMinimum=0)]  # length of an interval
    rows: list[IntervalRow]  # by time; in each interval "all", then the operations with ops in it, most frequent first
