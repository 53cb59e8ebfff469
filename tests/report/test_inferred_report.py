"""A report of one capture with the other host inferred: every writer has to do without the other host's capture."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import nfslat

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize("side", ["server", "client"])
def test_every_writer_takes_it(side: str) -> None:
    """Text, Markdown and page are written, and none of them says what only two captures could show."""
    report = nfslat.inspect(SAMPLES / "server-threads" / f"{side}.pcap.gz")
    assert report.figures.inferred is not None
    assert set(report.figures.captures) == {side}
    assert "Evidence for the other team" not in report.markdown()
    assert "server-threads" in report.text()
    if all(importlib.util.find_spec(name) for name in ("vl_convert", "jinja2")):
        assert 'id="handover"' not in report.html()
