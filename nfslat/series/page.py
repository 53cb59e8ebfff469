"""A `Series` -> one self-contained HTML page in the style of the report's, and PNG pictures."""

from __future__ import annotations

from pathlib import Path

from nfslat.report.html.blocks import shown
from nfslat.report.html.page import filled
from nfslat.report.png import pngs, titled
from nfslat.series.charts import charts
from nfslat.series.model import Series
from nfslat.series.sections import growth_section, runs_section, steps_section
from nfslat.series.words import PARTS

_PACKAGE = "nfslat.series"


def render(found: Series) -> str:
    """The page, ending in a newline; it asks no network.

    Raises ``UsageError`` where the libraries of the extra ``html`` are not installed.
    """
    sections = {"runs": runs_section, "growth": growth_section, "steps": steps_section}
    blocks = {name: shown(make(found)) for name, make in sections.items()}
    names = {"runs": "The runs", "growth": "What grows", "steps": "Run by run"}
    return filled(
        "series.html",
        charts(found),
        package=_PACKAGE,
        series=found,
        title=f"NFS latency by load: {len(found.points)} runs",
        layer=culprit(found) or "unknown",
        blocks=blocks,
        contents=[
            ("answer", "Answer"),
            ("picture", "Picture"),
            *((name, names[name]) for name, of in blocks.items() if of),
            *([("notes", "What to know")] if found.notes else []),
        ],
        names=names,
        tool={"version": found.nfslat, "engine": found.engine, "command": found.command},
    )


def write_png(found: Series, directory: Path) -> None:
    """One PNG a chart."""
    pictures = charts(found)
    for chart, picture in zip(pictures, pngs([titled(one) for one in pictures], culprit(found)), strict=True):
        (directory / f"{chart.id}.png").write_bytes(picture)


def culprit(found: Series) -> str | None:
    """The layer that makes the growth."""
    verdict = found.verdict
    grows = verdict.outcome in ("from-load", "throughout", "cannot-tell")
    return PARTS[verdict.part].layer if grows and verdict.part is not None else None
