"""Report -> PNG pictures of its charts, for tickets and mails."""

from __future__ import annotations

import struct
import textwrap
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfslat.answer.model import Report, Verdict
from nfslat.errors import UsageError
from nfslat.report.charts.all import charts
from nfslat.report.charts.chart import VEGA_LITE, Chart, Spec
from nfslat.report.charts.style import culprit_of, on_paper, theme

WIDTH_PX, SCALE = 1000, 2
_COLUMNS, _TITLE_COLUMNS = 150, 95  # of a caption and of the verdict, in WIDTH_PX
_AXIS_PX = 70  # of latencies
_HEADER_BYTES = 33  # of a PNG file: signature and IHDR
_MADE_BY = b"tEXtSoftware\0nfslat"  # by which `nfslat.export.output` knows its own files


def write_png(report: Report, directory: Path) -> list[Path]:
    """One PNG a chart, ``<id>.png``, and ``verdict.png``, one for a mail; white. The directory is made.

    Raises ``UsageError`` without vl-convert-python.
    """
    found = charts(report)
    culprit = culprit_of(report)
    pictures = {chart.id: png(titled(chart), culprit) for chart in found}
    if report.verdict is not None and found:
        pictures["verdict"] = png(summary(report.verdict, found), culprit)
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, picture in pictures.items():
        path = directory / f"{name}.png"
        path.write_bytes(picture)
        paths.append(path)
    return paths


def png(spec: Spec, culprit: str | None = None) -> bytes:
    """A specification without a theme -> PNG on white paper, the layer `culprit` in the colour that says so."""
    try:
        import vl_convert  # noqa: PLC0415 (optional)
    except ImportError:
        raise UsageError("pictures need vl-convert-python: pip install 'nfslat[html]'") from None
    made: bytes = vl_convert.vegalite_to_png(
        on_paper(spec, culprit), vl_version=VEGA_LITE, scale=SCALE, config=on_paper(theme())
    )
    chunk = struct.pack(">I", len(_MADE_BY) - 4) + _MADE_BY + struct.pack(">I", zlib.crc32(_MADE_BY))
    return made[:_HEADER_BYTES] + chunk + made[_HEADER_BYTES:]


def summary(verdict: Verdict, found: Sequence[Chart]) -> Spec:
    """The verdict with what shows it: the latency stack, and latency over time."""
    shown = [chart for chart in found if chart.id in ("waterfall", "heat")]
    rows = []
    for chart in shown:
        row = {key: value for key, value in titled(chart).items() if key not in ("$schema", "autosize", "padding")}
        # Views below each other have the widths of their plots, without axes.
        rows.append({**row, "width": WIDTH_PX - _AXIS_PX, "title": {**row["title"], "frame": "group"}})
    reasons = f"Confidence: {verdict.confidence}. {'; '.join(verdict.reasons)}"
    return {
        "$schema": shown[0].spec["$schema"],
        "title": {
            "text": textwrap.wrap(verdict.text, _TITLE_COLUMNS),
            "subtitle": textwrap.wrap(reasons, _COLUMNS),
            "fontSize": 19,
            "offset": 20,
        },
        "padding": 12,
        "vconcat": rows,
        "spacing": 30,
    }


def titled(chart: Chart) -> dict[str, Any]:
    """The chart's specification with a fixed width, its title and its caption."""
    title = {"text": chart.title, "subtitle": textwrap.wrap(chart.caption, _COLUMNS), "offset": 14}
    return {**chart.spec, "width": WIDTH_PX, "title": title}
