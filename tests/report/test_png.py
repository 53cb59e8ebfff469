"""Pictures for tickets and mails: PNG files of the charts."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from nfslat.answer.model import Report
from nfslat.report import png
from nfslat.report.charts.all import charts
from nfslat.report.charts.style import culprit_of

pytest.importorskip("vl_convert", reason="PNG files need vl-convert-python")

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _size_and_colours(data: bytes) -> tuple[int, int, int]:
    """Width, height, and how many different bytes the pixels have: one on a blank sheet, nearly."""
    assert data.startswith(_SIGNATURE)
    width, height = struct.unpack(">II", data[16:24])
    at, pixels = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            pixels += data[at + 8 : at + 8 + length]
        at += 12 + length
    return width, height, len(set(zlib.decompress(pixels)))


def test_each_chart_is_a_picture_and_the_verdict_one_for_a_mail(small: Callable[[], Report], tmp_path: Path) -> None:
    """Files are named by the chart, as wide as they should be, and not blank. A picture can be compared with one made
    again; without its title it is another, for a font is there whatever the machine has."""
    report = small()
    found = png.write_png(report, tmp_path / "new" / "pictures")
    assert [path.name for path in found] == [*(f"{chart.id}.png" for chart in charts(report)), "verdict.png"]
    for path in found:
        width, height, colours = _size_and_colours(path.read_bytes())
        assert abs(width - png.WIDTH_PX * png.SCALE) <= 120
        assert height > 300
        assert colours > 20
    chart = charts(small())[0]
    specs = [png.titled(chart), png.titled(dataclasses.replace(chart, title="X"))]
    again, other = png.pngs(specs, culprit_of(small()))
    assert again == found[0].read_bytes() != other


def test_no_verdict_no_picture_of_it(
    small: Callable[[], Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One capture has none."""
    monkeypatch.setattr(png, "pngs", lambda specs, _: [_SIGNATURE] * len(specs))
    found = png.write_png(dataclasses.replace(small(), verdict=None), tmp_path)
    assert [path.stem for path in found] == [chart.id for chart in charts(small())]
