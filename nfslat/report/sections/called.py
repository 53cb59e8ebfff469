"""Who calls whom, and who waits for an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nfslat.report.blocks import Block, Prose, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.sections.tables import op_label
from nfslat.report.text_layout import count, plain

if TYPE_CHECKING:
    from nfslat.answer.callers import Called

_SHOWN, _SAID = 20, 3  # rows of the table, and sentences
_COLUMNS = (
    Column("call", lambda row: op_label(row.program, row.op)),
    Column("from", "caller"),
    Column("to", lambda row: f"{row.called} {row.transport}"),
    *(*columns("count", "answered replies"), *columns("ms", "mean_ms mean")),
    *(*columns("count", "unanswered none", "again"), *columns("ms", "waits_ms waits")),
)


def called_section(side: str, rows: Sequence[Called]) -> Iterator[Block]:
    """Calls of each procedure from host to host: first those that wait for their reply."""
    where = "" if side == "capture" else f" in the {side}'s capture"
    yield Title(f"Who calls whom{where}: calls with a reply, without one, retransmitted; ms")
    if not rows:
        yield Prose("No calls.")
        return
    yield table(rows[:_SHOWN], _COLUMNS)
    if len(rows) > _SHOWN:
        yield Prose(f"and {count(len(rows) - _SHOWN)} more (--json)")
    for row in [row for row in rows if row.unanswered][:_SAID]:
        yield Prose(_waits(row), hanging=2)


def _waits(row: Called) -> str:
    """A sentence."""
    calls = "has had" if row.unanswered == 1 else f"({count(row.unanswered)} calls) have had"
    for_s = f"{(row.waits_ms or 0.0) / 1000:,.1f} s" + ("" if row.unanswered == 1 else " at most")
    again = f", retransmitted {'once' if row.again == 1 else f'{count(row.again)} times'}" if row.again else ""
    return (
        f"{plain(row.caller)} waits for {plain(row.called)}: {op_label(row.program, row.op)} {calls} no reply for "
        f"{for_s} when the capture ends{again}"
    )
