"""Report -> PNG pictures of its charts, for tickets and mails."""

from __future__ import annotations

import struct
import textwrap
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfslat.answer.model import Report, Verdict
from nfslat.report import vega
from nfslat.report.charts.all import charts
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.style import culprit_of, on_paper, theme

WIDTH_PX, SCALE = 1000, 2
_COLUMNS, _TITLE_COLUMNS = 150, 95  # of a caption and of the verdict, in WIDTH_PX
_AXIS_PX = 70  # of latencies
_HEADER_BYTES = 33  # of a PNG file: signature and IHDR
_MADE_BY = b"tEXtSoftware\0nfslat"  # by which `nfslat.export.output` knows its own files


def write_png(report: Report, directory: Path) -> list[Path]:
    """One PNG a chart, ``<id>.png``, and ``verdict.png``, one for a mail; white. The directory is made.

    Raises ``UsageError`` without vl-convert-python, ``PictureError`` where it fails.
    """
    found = charts(report)
    specs = {chart.id: titled(chart) for chart in found}
    if report.verdict is not None and found:
        specs["verdict"] = summary(report.verdict, found)
    return _write(specs, directory, culprit_of(report))


def write_charts(found: Sequence[Chart], directory: Path, culprit: str | None = None) -> list[Path]:
    """One PNG a chart of any report. Raises as `write_png`."""
    return _write({chart.id: titled(chart) for chart in found}, directory, culprit)


def _write(specs: dict[str, Spec], directory: Path, culprit: str | None = None) -> list[Path]:
    pictures = dict(zip(specs, pngs(list(specs.values()), culprit), strict=True))
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, picture in pictures.items():
        path = directory / f"{name}.png"
        path.write_bytes(picture)
        paths.append(path)
    return paths


def pngs(specs: Sequence[Spec], culprit: str | None = None) -> list[bytes]:
    """Specifications without a theme -> PNG on white paper, the layer `culprit` in the colour that says so."""
    chunk = struct.pack(">I", len(_MADE_BY) - 4) + _MADE_BY + struct.pack(">I", zlib.crc32(_MADE_BY))
    made = vega.pngs([on_paper(spec, culprit) for spec in specs], on_paper(theme()), SCALE)
    return [one[:_HEADER_BYTES] + chunk + one[_HEADER_BYTES:] for one in made]


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
