"""Report -> text for a terminal: what fits a screen, all of it, or the sections that are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.answer.model import Report
from nfslat.errors import UsageError, nearest
from nfslat.report.sections.all import blocks
from nfslat.report.text_writer import write

_ASKED_FOR = ("what if", "called", "pivots", "intervals")  # nothing, unless an option asked for it
_BRIEF = ("answer", "next", "causes", "brief pairs", "first stack", "ops", *_ASKED_FOR, "trust", "more")
_BRIEF_OF_ONE = ("answer", "causes", "hangs", *_ASKED_FOR, "brief in flight", "first raw", "trust", "more")
_FULL = (
    *("answer", "next", "warnings", "findings", "hangs", "phases", "pairs", "stack", "what if", "evidence", "outcomes"),
    *("in flight", "called", "raw"),
    *("matched", "misses", "parts", "charges", "percentiles", "pivots", "intervals", "transport", "clock"),
    *("excluded", "captures", "messages", "programs", "legend", "made by"),
)
# What --sections takes, in the order of the full report.
NAMES: dict[str, tuple[str, ...]] = {
    "answer": ("answer", "next"),
    "findings": ("findings",),
    "audit": ("warnings", "misses", "excluded", "captures", "messages", "programs"),
    "phases": ("phases",),
    "pairs": ("pairs",),
    "stack": ("stack",),
    "whatif": ("what if",),
    "evidence": ("evidence",),
    "outcomes": ("outcomes",),
    "inflight": ("in flight",),
    "called": ("called",),
    "raw": ("raw",),
    "histograms": ("histograms",),
    "matched": ("matched", "misses"),
    "parts": ("parts", "charges", "percentiles"),
    "pivots": ("pivots", "intervals"),
    "transport": ("hangs", "transport"),
    "clock": ("clock",),
    "legend": ("legend", "made by"),
}


def parse_sections(text: str) -> tuple[str, ...]:
    """``clock,parts``. Raises ``UsageError``, which lists the names, for one that there is not."""
    asked = tuple(dict.fromkeys(one.strip().lower() for one in text.split(",") if one.strip()))
    for one in asked or ("",):
        if one not in NAMES:
            near = nearest(one, NAMES)
            hint = f"did you mean {near}? " if near else ""
            raise UsageError(f"--sections {one}: no such section; {hint}They are {', '.join(NAMES)}")
    return asked


def render(
    report: Report,
    *,
    full: bool = False,
    sections: Sequence[str] = (),
    width: int = 80,
    color: bool = False,
) -> str:
    """The report as text of at most `width` columns (80 if it is less); its colour codes add nothing to it.

    What fits a screen, unless all of it is asked for (`full`), or some `sections` (keys of `NAMES`).
    """
    if sections:
        names: Sequence[str] = [name for one in sections for name in NAMES[one]]
    elif full:
        names = _FULL
    else:
        names = _BRIEF_OF_ONE if "capture" in report.captures else _BRIEF
    return write(blocks(report, *names), width=width, color=color)
