"""Report -> text for a terminal: the answer first, then what limits it, then the tables that prove it."""

from __future__ import annotations

from nfslat.answer.model import Report
from nfslat.report.sections.all import blocks
from nfslat.report.text_writer import write

_SHOWN = (
    *("answer", "warnings", "findings", "hangs", "phases", "stack", "what if", "evidence", "outcomes", "in flight"),
    *("called", "raw", "histograms"),
    *("matched", "misses", "parts", "charges", "percentiles", "pivots", "intervals", "transport", "clock"),
    *("excluded", "captures", "messages", "programs", "legend", "made by"),
)


def render(report: Report, *, hist: bool = False, width: int = 80, color: bool = False) -> str:
    """The report as text of at most `width` columns (80 if it is less); its colour codes add nothing to it."""
    names = [name for name in _SHOWN if hist or name != "histograms"]
    return write(blocks(report, *names), width=width, color=color)
