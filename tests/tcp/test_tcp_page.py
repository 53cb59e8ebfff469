"""`nfslat transport --html`, `--png`, `--markdown`: the graphs, the words around them, and hostile names."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from drawn import capture, report_of, wan
from timeline import Timeline

from nfslat.cli import main as cli
from nfslat.report.charts.chart import Chart
from nfslat.tcp import report
from nfslat.tcp.charts.all import charts
from nfslat.tcp.charts.axes import board_of
from nfslat.tcp.charts.sizes import explained
from nfslat.tcp.charts.trips import trips_lane
from nfslat.tcp.model import Detail, Report
from nfslat.tcp.sections.all import markdown

pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")
pytest.importorskip("jinja2", reason="jinja2 (the extra html) is not installed")

from nfslat.tcp.page import render, write_png


def _texts(spec: Any) -> list[str]:
    """All words of a chart's marks."""
    if isinstance(spec, dict):
        own = [spec["text"]] if isinstance(spec.get("text"), str) else []
        return own + [text for value in spec.values() for text in _texts(value)]
    return [text for value in spec for text in _texts(value)] if isinstance(spec, list) else []


def _frames(spec: Any) -> set[int]:
    """All frames that the data of a chart name."""
    if isinstance(spec, dict):
        own = {spec["frame"]} if isinstance(spec.get("frame"), int) else set()
        return own.union(*(_frames(value) for value in spec.values()))
    return set().union(*(_frames(value) for value in spec)) if isinstance(spec, list) else set()


def _of(found: list[Chart]) -> dict[str, Chart]:
    return {chart.section: chart for chart in found}


def _shut() -> Timeline:
    """A window of 64 KB that shrinks, closes for a second, and opens."""
    line = Timeline(scale=0)
    line.handshake(0, rtt_ms=1)
    for number in range(30):
        line.send(10 + 2 * number, ">", 1460)
        line.ack(11 + 2 * number, "<", window=max(30_000 - 1500 * number, 0))
    line.ack(1200, "<", window=30_000)
    line.send(1201, ">", 1460)
    line.ack(1202, "<")
    return line


def test_every_graph_has_axes_with_units_a_legend_and_frames() -> None:
    """Round trips, waits, bytes, windows, rates, sizes: what each axis measures is said, and points name frames."""
    found = _of(charts(report_of(wan(again=3).trace())))
    assert set(found) == {"waits", "trips", "close", "sequence", "flight", "rate", "sizes"}
    for name, axis in {
        "trips": "round trip, ms",
        "sequence": "bytes",
        "flight": "bytes",
        "rate": "Mbit/s",
        "sizes": "payload of a packet, bytes",
    }.items():
        assert f'"{axis}"' in json.dumps(found[name].spec)
    for name in ("waits", "trips", "close", "sequence", "flight", "rate"):
        assert re.search("time since the conversation's first packet, m?s", json.dumps(found[name].spec))
    packets = set(range(1, len(wan(again=3).lines) + 1))
    for name in ("waits", "trips", "close", "sequence", "flight"):
        assert _frames(found[name].spec)
        assert _frames(found[name].spec) <= packets
        assert "frame.number" in json.dumps(found[name].spec)
    assert "delayed ACK, waited for (40 ms)" in _texts(found["trips"].spec)
    assert "retransmitted" in _texts(found["sequence"].spec)
    assert "window scale 7 (factor 128)" in " ".join(_texts(found["flight"].spec))


@pytest.mark.parametrize("typical_ms", [0.01, 1000.0])
def test_the_median_of_the_whole_is_on_the_axis_of_a_part(typical_ms: float) -> None:
    """From near, all round trips may be longer than it, or shorter: its line is in the graph, not beside it."""
    (one,) = report_of(wan().trace()).details
    assert one.pictures is not None
    graphs = one.pictures.whole
    board = board_of(graphs)
    trips_lane(board, dataclasses.replace(graphs.ways[0], typical_ms=typical_ms), ())
    low, high = board.lanes[0].y["scale"]["domain"]
    assert low <= typical_ms <= high


def test_a_window_that_closes_is_marked_and_an_unknown_scale_is_said() -> None:
    """Without a handshake figures of windows are not bytes: they are not drawn for such."""
    found = _of(charts(report_of(_shut().trace())))
    assert "window closed" in _texts(found["flight"].spec)
    assert "receive window" in " ".join(_texts(found["waits"].spec))
    line = wan()
    line.lines = line.lines[3:]
    found = _of(charts(report_of(line.trace())))
    assert any("window scale not known" in text for text in _texts(found["flight"].spec))


def test_sizes_are_explained() -> None:
    """A full segment, and what is left of an SDU of 8,192 bytes behind five of these."""
    line = Timeline(mss=1460)
    line.handshake(0)
    at = 10.0
    for _ in range(30):
        at = line.burst(at, ">", 8156) + 1
        line.ack(at, "<")
        at += 1
    (one,) = report_of(line.trace()).details
    way = one.sizes.ways[0]
    assert explained(one, way, 1460) == "a full segment"
    assert {mode.bytes for mode in way.modes} == {1460, 8156 - 5 * 1460}
    assert explained(one, way, 77) == ""
    assert "1,460 is a full segment" in _of(charts(report_of(line.trace())))["sizes"].caption


def test_the_page_holds_its_graphs_and_asks_no_network(tmp_path: Path) -> None:
    """One file, each picture with its specification, words for those who do not see it, and a table of waits with
    filters."""
    page = render(report_of(wan(again=3).trace()))
    assert page.startswith("<!doctype html>\n<!-- nfslat ")
    assert "default-src &#39;none&#39;" in page
    for chart in charts(report_of(wan(again=3).trace())):
        assert f'id="spec-{chart.id}"' in page
        assert chart.alt[:40] in page
    assert re.search(r"frame\.number in \{\d+\.\.\d+\} &amp;&amp; tcp\.port == 40000", page)
    assert "What was waited for longest" in page


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (7, 9, "frame.number in {7..9} && tcp.port == 40000"),
        (9, 7, "frame.number in {7..9} && tcp.port == 40000"),
        (7, None, "frame.number >= 7 && tcp.port == 40000"),
        (None, 7, "frame.number <= 7 && tcp.port == 40000"),
        (None, None, "tcp.port == 40000"),
    ],
)
def test_each_wait_has_a_filter(before: int | None, after: int | None, told: str) -> None:
    """Where times run backwards, too, and where no data of its sender were captured."""
    made = report_of(wan().trace())
    (one,) = made.details
    assert one.pictures is not None
    first, other = one.pictures.whole.ways
    wait = dataclasses.replace(first.waited[0], ms=1e6, before_frame=before, frame=after)
    whole = dataclasses.replace(one.pictures.whole, ways=(dataclasses.replace(first, waited=(wait,)), other))
    one = dataclasses.replace(one, pictures=dataclasses.replace(one.pictures, whole=whole))
    page = render(dataclasses.replace(made, details=(one,)))
    assert f"<code>{html.escape(told)}</code>" in page


def _with(one: Detail, name: str) -> Detail:
    """The conversation of somebody whose name is not kind."""
    pictures = one.pictures
    assert pictures is not None
    ways = tuple(dataclasses.replace(way, sender=name) for way in pictures.whole.ways)
    whole = dataclasses.replace(pictures.whole, ways=(ways[0], ways[1]))
    return dataclasses.replace(one, a=name, pictures=dataclasses.replace(pictures, whole=whole))


def test_hostile_names_stay_text() -> None:
    """Of a file, or in a report that was made by hand: no tag, no end of a script, no text that turns round."""
    hostile = "</script><img src=x onerror=alert(1)>\u202e&{{7*7}}"
    made = report_of(wan().trace())
    (found,) = made.captures
    made = dataclasses.replace(
        made,
        captures=(dataclasses.replace(found, path=hostile),),
        details=(_with(made.details[0], hostile),),
        notes=(hostile,),
    )
    page = render(made)
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "&lt;img src=x" in page
    assert page.count("</script>") == render(report_of(wan().trace())).count("</script>")
    assert "<img" not in markdown(made).replace("\\<img", "")


def test_pictures_for_tickets(tmp_path: Path) -> None:
    """A PNG file a graph, named after it."""
    made = report_of(wan(20).trace())
    paths = write_png(made, tmp_path / "pictures")
    assert [path.stem for path in paths] == [chart.id for chart in charts(made)]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in paths)


def test_the_command_writes_all_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Page, pictures, JSON and Markdown of one run; JSON alone does without what the graphs are drawn from."""
    path, page, told = capture(tmp_path, wan(12)), tmp_path / "t.html", tmp_path / "t.json"
    words = ["transport", str(path), "--html", str(page), "--png", str(tmp_path / "png"), "--json", str(told)]
    assert cli.main([*words, "--markdown"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("## TCP conversations\n\n")
    assert "### Round trips" in out
    assert "| data from, ms" in out
    assert f"wrote {page}" in err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "png" / "trips-0.png").exists()
    assert Report.from_json(told.read_text(encoding="utf-8")).details[0].pictures is not None
    assert cli.main(["transport", str(path), "--json", str(told), "-q"]) == 0
    assert Report.from_json(told.read_text(encoding="utf-8")).details[0].pictures is None


def test_what_only_a_comparison_needs_is_made_for_json_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures in ten parts of the time: text, Markdown and the page do not show them, and do not wait for them."""
    path, page, told = str(capture(tmp_path, wan(12))), str(tmp_path / "t.html"), tmp_path / "t.json"
    assert cli.main(["transport", path, "--json", str(told), "-q"]) == 0
    assert Report.from_json(told.read_text(encoding="utf-8")).details[0].stretches is not None
    with_them = capsys.readouterr().out
    monkeypatch.setattr(report, "stretches", None)
    assert cli.main(["transport", path, "-q", "--html", page]) == 0
    assert capsys.readouterr().out == with_them


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--html", "x.html", "--json", "x.html"], "--html and --json cannot both go to x.html"),
        (["--html", "-", "--json", "-"], "cannot both go to -"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is_read(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, status 2."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["transport", str(capture(tmp_path, wan(3))), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_no_payload_is_nothing_to_draw() -> None:
    """The page says so."""
    line = Timeline()
    line.handshake(0)
    made = report_of(line.trace())
    assert charts(made) == []
    assert "There is nothing to draw: no payload." in render(made)
