"""The charts: drawn from what the report says, taken by Vega-Lite without a word, and all with units."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import operator
import re
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfslat.answer.model import ClockStep, Level, MatchedRow, Phase, Report, StackRow, Summary
from nfslat.answer.pictures import (
    Alone,
    Classes,
    Distribution,
    EnvelopePoint,
    Event,
    Flying,
    Heat,
    OverTime,
    Pictures,
    Way,
)
from nfslat.report.charts.all import charts
from nfslat.report.charts.chart import VEGA_LITE, Chart
from nfslat.report.charts.distributions import MOST_OPS, edges
from nfslat.report.charts.events import marks
from nfslat.report.charts.heat import _PALEST
from nfslat.report.charts.style import COLOUR, HUES, culprit_of, log_ticks, on_paper, theme

vl_convert = pytest.importorskip("vl_convert", reason="the charts need vl-convert-python")

_UNIT = re.compile(
    r"(, (s|ms|ops|ops/s|MB/s|packets)\b)|, %$|\((count|ops|mean.*)\)|% of the ops|^(ms|MB/s|packets)\b|ops in flight"
    r"|^(time, log scale|layer|share|source|part|side|time of|capture of|share of the time|stretch between steps)$"
    r"|^event, what$"
)


def _pictures() -> Pictures:
    """Four bins, three classes, one of them of figures below zero; a step of the clock in the middle."""
    classes = Classes(1, [0.1, 1.0, 10.0])
    cells = [(0, 1, 300), (0, 2, 90), (2, 2, 597), (3, 0, 3)]
    network = [(0, 0, 390), (2, 1, 597), (3, 0, 3)]
    of_all = [3, 300, 687]
    return Pictures(
        classes=classes,
        distributions=[
            Distribution("", "all", "", 990, 0, of_all, of_all, [393, 597, 0]),
            Distribution("NFS", "READ", "3", 980, 0, [0, 300, 680], [0, 300, 680], [383, 597, 0]),
            Distribution("NFS", "READ", "4.1", 10, 0, [3, 0, 7], [3, 0, 7], [10, 0, 0]),
        ],
        over_time=OverTime(
            begin="2024-05-01T10:00:00.5Z",
            bin_ms=500.0,
            bins=4,
            ops=[390, 0, 597, 3],
            client_ms=[0.72, None, 8.25, 0.05],
            server_ms=[0.7, None, 8.0, 0.045],
            network_ms=[0.02, None, 0.25, -0.005],
            client_p99_ms=[4.0, None, 9.5, 0.06],
            heat=Heat(cells, cells, network),
            server=Flying([3.5, 0.0, 7.25, 0.01], [6, 0, 9, 1], 4, "threads"),
            client=Flying([3.75, 0.0, 7.5, 0.02], [6, 0, 9, 1], 4096, "session slots"),
            call=Way([1.5, 0.0, 2.25, None], [0, 0, 3, 0], [0.0, 0.0, 205.5, 0.0]),
            reply=Way([10.5, 0.0, 22.5, 0.125], [0, 0, 0, 0], [0.0, 0.0, 0.0, 0.0]),
            events=[Event("pause", "client", "2024-05-01T10:00:01Z", 0.5, 400.0, None)],
        ),
        envelope=[
            EnvelopePoint(0.25, 6999.0, 7001.0, 7000.0, (6999.5, 7000.5)),
            EnvelopePoint(0.75, None, None, 7000.0, (6999.5, 7000.5)),
            EnvelopePoint(1.25, 3999.0, None, 4000.0, (3999.75, 4000.25)),
        ],
        slowest=[],
    )


@pytest.fixture
def sample(small: Callable[[], Report]) -> Report:
    return dataclasses.replace(small(), pictures=_pictures())


def _by_id(report: Report) -> dict[str, Chart]:
    return {chart.id: chart for chart in charts(report)}


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for key, value in node.items():
            if key != "values":
                yield from _nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value)


def _rows(chart: Chart, *fields: str) -> list[dict[str, Any]]:
    """All rows of the chart's data that have these fields, each table once."""
    tables = {id(node["data"]): node["data"]["values"] for node in _nodes(chart.spec) if "data" in node}
    return [row for rows in tables.values() for row in rows if isinstance(row, dict) and set(fields) <= set(row)]


def _compiles(chart: Chart, capfd: pytest.CaptureFixture[str]) -> str:
    """The chart as SVG; nothing may be said about it."""
    spec = on_paper({**chart.spec, "width": 600})
    drawn: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, config=on_paper(theme()), show_warnings=True)
    assert capfd.readouterr() == ("", "")
    return drawn


def _titles(chart: Chart) -> Iterator[str | list[str]]:
    """Of axes, of channels that take a field, and of tooltips."""
    for node in _nodes(chart.spec):
        for name, channel in node.get("encoding", {}).items():
            for one in channel if isinstance(channel, list) else [channel]:
                if one.get("axis"):
                    yield one["axis"]["title"]
                if name == "tooltip":
                    yield one["title"]


# ---- every chart ----


def test_every_chart_is_there_and_compiles_without_a_word(sample: Report, capfd: pytest.CaptureFixture[str]) -> None:
    """All parts of a full report are drawn, and Vega-Lite has nothing to warn of."""
    found = charts(sample)
    assert [chart.id for chart in found] == [
        "waterfall",
        "distribution-all",
        "distribution-READ",
        "distribution-READ-v4.1",
        "heat",
        "knee",
        "parts",
        "clock",
        "transport",
    ]
    for chart in found:
        drawn = _compiles(chart, capfd)
        # A value that no scale has a place for shows as NaN.
        assert not re.search("NaN|undefined|Infinity", drawn), chart.id


def test_a_wrong_chart_would_be_noticed(sample: Report, capfd: pytest.CaptureFixture[str]) -> None:
    """What the test above relies on: warnings reach standard error."""
    chart = charts(sample)[0]
    wrong = {**chart.spec, "width": 600, "layer": [{"mark": "bar", "encoding": {"z": {"field": "ms"}}}]}
    vl_convert.vegalite_to_svg(wrong, vl_version=VEGA_LITE, show_warnings=True)
    assert "WARN" in capfd.readouterr().err


def test_every_axis_and_tooltip_says_its_unit(sample: Report) -> None:
    """No axis without a title, no figure without a unit."""
    for chart in charts(sample):
        titles = list(_titles(chart))
        assert titles, chart.id
        for title in titles:
            text = title if isinstance(title, str) else title[0]
            assert _UNIT.search(text), (chart.id, text)


def test_no_channel_is_named_by_its_field(sample: Report) -> None:
    """Vega-Lite takes the name of a field where no title is given; readers of the page would see it."""
    for chart in charts(sample):
        for node in _nodes(chart.spec):
            for name, channel in node.get("encoding", {}).items():
                if isinstance(channel, dict) and "field" in channel and name not in ("x2", "y2"):
                    assert "title" in channel, (chart.id, name, channel)


def test_the_specification_is_plain_json_without_colours_of_a_theme(sample: Report) -> None:
    """It can stand in a page, and the theme decides on ink and paper."""
    for chart in charts(sample):
        assert "config" not in chart.spec
        assert chart.spec["width"] == "container"
        text = json.dumps(chart.spec, allow_nan=False)
        assert not re.findall(r"#[0-9a-fA-F]{6}", text)
        assert re.fullmatch(r"[A-Za-z0-9._-]+", chart.id)
        assert chart.alt
        assert chart.caption
        assert chart.title
        assert chart.height_px > 0


def test_pictures_have_the_colours_of_the_light_page(sample: Report) -> None:
    """Every variable has a colour on paper, the one that the style sheet has; text of the report is left as it is."""
    css = resources.files("nfslat.report.html").joinpath("page.css").read_text(encoding="utf-8")
    light, dark, *_ = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root[^{]*\{[^}]*\}", css)
    )
    used = set(re.findall(r'"(var\([^"]*)"', json.dumps([theme(), *(chart.spec for chart in charts(sample))])))
    assert used >= set(COLOUR.values())
    for variable in used - {"var(--font)"}:
        assert on_paper(variable) == light[variable[6:-1]]
    assert set(dark) == set(light)
    assert on_paper({"data": {"values": [{"label": "var(--ink)"}]}}) == {"data": {"values": [{"label": "var(--ink)"}]}}


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_the_paper(number: int) -> None:
    """As WCAG asks: 3:1 for what is drawn, the palest cell of a heat map too, and 4.5:1 for text, also on a colour."""
    css = resources.files("nfslat.report.html").joinpath("page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root[^{]*\{[^}]*\}", css)
    of = {
        name: tuple(bytes.fromhex(value))
        for block in (blocks[0], blocks[number])
        for name, value in re.findall(r"--([a-z-]+): #([0-9a-f]{6})", block)
    }
    for name in ("ink", "dim", "link", "warn"):
        assert _contrast(of[name], of["paper"]) >= 4.5
        assert _contrast(of[name], of["panel"]) >= 4.5
        assert _contrast(of[name], of["warn-paper"]) >= 4.5
    for side in (*HUES, "culprit"):
        assert _contrast(of[side], of["paper"]) >= 3
        assert _contrast(_over(of[f"{side}-strong"], of["paper"], _PALEST), of["paper"]) >= 3
    for side in (*COLOUR, "culprit"):
        # Pale bars are drawn with a quarter and up to two fifths of the colour, and text lies on them.
        assert _contrast(of["ink"], _over(of[side], of["paper"], 0.4)) >= 4.5
        assert _contrast(of[f"on-{side}"], _over(of[side], of["paper"], 0.9)) >= 4.5
        assert _contrast(of[f"on-{side}"], of[side]) >= 4.5


# What the colour-blind see of linear sRGB: Machado, Oliveira, Fernandes 2009, severity 1.0.
_EYES = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


@pytest.mark.parametrize("eyes", _EYES)
@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_the_colour_blind_tell_layers_and_the_culprit_apart(number: int, eyes: str) -> None:
    """Any two of the colours that stand beside each other are 20 or more apart in CIELAB, where 2.3 can just be
    seen; the culprit is what differs most from each layer, and layers are fixed in every chart."""
    css = resources.files("nfslat.report.html").joinpath("page.css").read_text(encoding="utf-8")
    block = re.findall(r":root[^{]*\{[^}]*\}", css)[number]
    known = dict(re.findall(r"--([a-z-]+): #([0-9a-f]{6})", block))
    lab = {name: _lab(tuple(bytes.fromhex(known[name])), _EYES[eyes]) for name in (*HUES, "culprit")}
    for one, two in itertools.combinations(lab, 2):
        assert math.dist(lab[one], lab[two]) >= 20, (one, two)


def _lab(colour: tuple[int, ...], eyes: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """CIELAB, white D65, of a colour of sRGB as some eyes see it."""
    of_light = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)]
    red, green, blue = (min(max(sum(map(operator.mul, row, of_light)), 0.0), 1.0) for row in eyes)
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.072175 * blue
    z = (0.0193339 * red + 0.119192 * green + 0.9503041 * blue) / 1.08883
    a, b, c = (math.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * b - 16, 500 * (a - b), 200 * (b - c)


def test_the_culprit_has_its_colour_in_pictures_too(sample: Report) -> None:
    """What the page does by its style sheet, `on_paper` does by name: that layer, its strong shade and text on it."""
    spec = {"fill": "var(--server)", "stroke": "var(--network)", "deep": [{"fill": "var(--server-strong)"}]}
    blamed = on_paper(spec, "server")
    assert blamed["stroke"] == on_paper("var(--network)")
    assert (blamed["fill"], blamed["deep"][0]["fill"]) == (
        on_paper("var(--culprit)"),
        on_paper("var(--culprit-strong)"),
    )
    assert culprit_of(sample) == "server"
    assert sample.verdict is not None
    open_yet = dataclasses.replace(sample.verdict, outcome="undecided")
    assert culprit_of(dataclasses.replace(sample, verdict=open_yet)) is None
    assert "server, where the fault is" in json.dumps(_by_id(sample)["waterfall"].spec)


def test_every_chart_has_a_legend(sample: Report) -> None:
    """What each colour and kind of line stands for is said in the picture: a piece of it, with words beside it."""
    for chart in charts(sample):
        pieces = [one for one in _nodes(chart.spec) if one.get("encoding", {}).get("x2", {}).get("value") is not None]
        assert pieces or chart.id == "clock", chart.id
    assert "triangles down: at most this, say calls" in json.dumps(_by_id(sample)["clock"].spec)


def test_events_are_marked_on_every_axis_of_time(sample: Report) -> None:
    """Pauses, steps of a clock, and phases have a letter, words, and a line through all lanes; what the verdict names
    has the colour of the culprit."""
    assert sample.clock is not None
    assert sample.verdict is not None
    step = ClockStep("2024-05-01T10:00:01.500000000Z", 1.0, -3000.0, (-3001.0, -2999.0), "server", None)
    phase = Phase(
        "2024-05-01T10:00:01Z",
        "2024-05-01T10:00:02Z",
        9,
        0.5,
        7.0,
        6.0,
        1.0,
        "server",
        None,
        None,
        "-",
        "fault",
        "server",
    )
    report = dataclasses.replace(
        sample,
        clock=dataclasses.replace(sample.clock, steps=[step]),
        phases=[phase, phase],
        verdict=dataclasses.replace(sample.verdict, cause="host-pause"),
    )
    found = [(one.letter, one.kind, one.begin_s, one.end_s, one.is_cause) for one in marks(report)]
    assert found == [
        ("A", "pause", 0.5, 0.9, True),
        ("B", "phase", 0.5, None, False),
        ("C", "clock-step", 1.0, None, False),
    ]
    for name in ("heat", "clock", "transport"):
        text = json.dumps(_by_id(report)[name].spec)
        assert "client's host paused, 400.0 ms" in text, name
        assert "clock set: theta -3,000.000 ms" in text
        assert "phase 2: mean 7.00 ms" in text
        lines = [node for node in _nodes(_by_id(report)[name].spec) if node.get("mark", {}).get("strokeDash") == [3, 3]]
        assert len(lines) == {"heat": 4, "clock": 2, "transport": 3}[name]  # one a lane
        rows = [(row["letter"], row["begin"], row["is_cause"]) for row in _rows(_by_id(report)[name], "is_cause")]
        assert rows == [("A", 0.5, True), ("B", 0.5, False), ("C", 1.0, False)]


def test_of_many_events_the_longest_are_marked(sample: Report) -> None:
    """Eight have letters; the chart says that there are more, and letters that are near do not lie on each other."""
    assert sample.pictures is not None
    many = [Event("loss", "client", "2024-05-01T10:00:01Z", i / 100, 1.0 + i, 5.0) for i in range(12)]
    over = dataclasses.replace(sample.pictures.over_time, events=many)
    report = dataclasses.replace(sample, pictures=dataclasses.replace(sample.pictures, over_time=over))
    assert [one.letter for one in marks(report)] == [*[""] * 4, *"ABCDEFGH"]
    assert "and 4 more, in the table" in json.dumps(_by_id(report)["heat"].spec)


def test_one_capture_has_its_latency_over_time(sample: Report, capfd: pytest.CaptureFixture[str]) -> None:
    """One lane of latency, its ops in flight and its events: no client, network or server is made up."""
    assert sample.pictures is not None
    over, classes = sample.pictures.over_time, sample.pictures.classes
    alone = Alone(
        classes, over.begin, over.bin_ms, over.bins, over.ops, over.client_ms, over.client_p99_ms, over.heat.client,
        over.server, over.events, [],
    )  # fmt: skip
    report = dataclasses.replace(
        sample, captures={"capture": sample.captures["server"]}, matched=None, pictures=None, clock=None, alone=alone
    )
    chart = _by_id(report)["heat"]
    _compiles(chart, capfd)
    assert [row["capture_ms"] for row in _rows(chart, "capture_ms")] == over.client_ms
    assert [row["capture_max"] for row in _rows(chart, "capture_max")] == over.server.max
    text = json.dumps(chart.spec)
    assert "SRT at this capture" in text
    assert "Network" not in text
    assert "host paused" in text


def _over(colour: tuple[float, ...], paper: tuple[float, ...], opacity: float) -> tuple[float, ...]:
    return tuple(opacity * one + (1 - opacity) * two for one, two in zip(colour, paper, strict=True))


def _contrast(one: tuple[float, ...], two: tuple[float, ...]) -> float:
    """WCAG 2's contrast ratio of two colours of sRGB."""

    def luminance(colour: tuple[float, ...]) -> float:
        red, green, blue = (
            v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_the_same_report_gives_the_same_charts(sample: Report) -> None:
    """Nothing in them depends on when or how often they are made."""
    assert charts(sample) == charts(sample)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_odd_reports_are_drawn_too(
    data: st.DataObject, compared: st.SearchStrategy[Report], capfd: pytest.CaptureFixture[str]
) -> None:
    """Huge, tiny, negative and missing figures, names of any characters: every chart still compiles."""
    for chart in charts(data.draw(compared)):
        json.dumps(chart.spec, allow_nan=False)
        vl_convert.vegalite_to_vega(
            {**chart.spec, "width": 600}, vl_version=VEGA_LITE, config=theme(), show_warnings=True
        )
        assert capfd.readouterr() == ("", ""), chart.id


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_report_has_charts_with_ids_of_their_own(data: st.DataObject, pictured: st.SearchStrategy[Report]) -> None:
    """Whatever is missing, no chart fails, and none has the name of another."""
    found = charts(data.draw(pictured))
    assert len({chart.id for chart in found}) == len(found)
    for chart in found:
        assert any(node.get("data", {}).get("values") for node in _nodes(chart.spec))


def test_a_report_without_figures_has_no_charts(small: Callable[[], Report]) -> None:
    """A chart with nothing to show is not there; the page says why."""
    empty = dataclasses.replace(small(), matched=None, inflight=None, pictures=None)
    assert charts(empty) == []


# ---- the figures in them ----


def test_waterfall_of_captures_alone_ends_with_the_server(sample: Report) -> None:
    """Client SRT, then network and server side by side, the wait for a thread and the rest inside the server."""
    rows = _rows(_by_id(sample)["waterfall"], "layer")
    total = sample.matched.total if sample.matched else None
    assert total is not None
    server = total.server_ms.mean
    assert [(row["layer"], row["ms"]) for row in rows] == [
        ("client SRT", total.client_ms.mean),
        ("network", total.network_ms.mean),
        ("server", server),
        ("waiting for a thread", 14.2),
        ("in a thread", server - 14.2),
    ]
    network, in_server = rows[1], rows[2]
    assert (network["start"], in_server["start"]) == (0.0, network["end"])
    assert rows[3]["start"] == in_server["start"]
    assert rows[4]["start"] == rows[3]["end"]
    assert rows[4]["end"] == pytest.approx(in_server["end"]) == pytest.approx(rows[0]["end"])


def test_waterfall_goes_from_the_application_to_the_storage(sample: Report) -> None:
    """Bars of what is known from outside float where they belong, in the hue of the layer that they are part of."""
    layers = [
        ("application", 0, 58.0, "whole"),
        ("above the wire", 1, 56.5, "client"),
        ("waiting for a slot", 2, 50.0, "client"),
        ("network", 1, 0.5, "network"),
        ("server", 1, 1.0, "server"),
        ("server, outside storage", 2, 0.9, "server"),
        ("storage", 2, 0.1, "server"),
    ]
    stack = [StackRow("READ", name, depth, ms, ms / 58, "told") for name, depth, ms, _ in layers]
    rows = _rows(_by_id(dataclasses.replace(sample, stack=stack))["waterfall"], "layer")
    assert [(row["layer"], row["ms"], row["side"]) for row in rows] == [(n, ms, side) for n, _, ms, side in layers]
    assert [row["start"] for row in rows] == pytest.approx([0, 0, 0, 56.5, 57.0, 57.0, 57.9])
    assert [row["whole"] for row in rows] == [True, True, False, False, True, False, False]


def test_a_negative_network_goes_back(sample: Report) -> None:
    """A server that seems slower than its client is drawn as it is, and the axis has room for it."""
    layers = (("client SRT", 0, 5.0), ("network", 1, -2.0), ("server", 1, 7.0))
    stack = [StackRow("all", name, depth, ms, None, "") for name, depth, ms in layers]
    chart = _by_id(dataclasses.replace(sample, stack=stack))["waterfall"]
    rows = _rows(chart, "layer")
    assert [(row["start"], row["end"]) for row in rows] == [(0.0, 5.0), (0.0, -2.0), (-2.0, 5.0)]
    domain = next(node["scale"]["domain"] for node in _nodes(chart.spec) if node.get("field") == "start")
    assert domain[0] <= -2.0 < 5.0 <= domain[1]


def test_an_operation_each_has_a_waterfall(sample: Report) -> None:
    """Where application latencies of reads and of writes are known, both are drawn."""
    stack = [StackRow(op, "client SRT", 0, 2.0, 1.0, "") for op in ("READ", "WRITE")]
    found = _by_id(dataclasses.replace(sample, stack=stack))
    assert "READ" in found["waterfall"].title
    assert "WRITE" in found["waterfall-2"].title


def test_distributions_count_every_op_where_it_belongs(sample: Report) -> None:
    """Counts are those of the report, between the bounds of their classes."""
    chart = _by_id(sample)["distribution-READ"]
    rows = _rows(chart, "ops", "side")
    assert [(row["side"], row["from"], row["to"], row["ops"]) for row in rows] == [
        ("client", 0.1, 1.0, 300),
        ("client", 1.0, 10.0, 680),
        ("network", pytest.approx(0.01), 0.1, 383),
        ("network", 0.1, 1.0, 597),
        ("server", 0.1, 1.0, 300),
        ("server", 1.0, 10.0, 680),
    ]
    for side in COLOUR:
        assert sum(row["percent"] for row in rows if row["side"] == side) == pytest.approx(100)


def test_percentiles_are_those_of_the_table(sample: Report) -> None:
    """The labels are the figures of the matched rows, and stand where these are."""
    chart = _by_id(sample)["distribution-READ"]
    texts = {node["mark"]["text"]: node for node in _nodes(chart.spec) if "text" in node.get("mark", {})}
    assert {"p50 0.700 ms", "p95 0.800 ms", "p99 1.10 ms"} <= set(texts)  # network
    assert texts["p99 1.10 ms"]["encoding"]["x"]["datum"] == 1.1
    assert "p99 55.90 ms (right of the axis)" in texts


def test_percentiles_below_zero_stand_at_the_edge(sample: Report) -> None:
    """A log axis has no place for them; the label says so."""
    assert sample.matched is not None
    row: MatchedRow = dataclasses.replace(sample.matched.by_op[0], network_ms=Summary(-0.1, -0.2, 0.8, 1.1, 2.2))
    chart = _by_id(dataclasses.replace(sample, matched=dataclasses.replace(sample.matched, by_op=[row])))
    assert "p50 -0.200 ms (left of the axis)" in json.dumps(chart["distribution-READ"].spec)


def test_few_operations_are_drawn_of_many(sample: Report) -> None:
    """The most frequent have charts, the one of all ops comes first, and rare ones have none."""
    assert sample.pictures is not None
    first = sample.pictures.distributions[0]
    many = [Distribution("NFS", f"OP{i}", "3", 100 - i, 0, [100 - i], [100 - i], [100 - i]) for i in range(20)]
    rare = Distribution("NFS", "RARE", "3", 2, 0, [2], [2], [2])

    def ids(found: list[Distribution]) -> list[str]:
        pictures = dataclasses.replace(_pictures(), distributions=found)
        made = charts(dataclasses.replace(sample, pictures=pictures))
        return [chart.id for chart in made if chart.section == "distributions"]

    assert ids([first, *many]) == ["distribution-all", *(f"distribution-OP{i}" for i in range(MOST_OPS))]
    assert ids([first, *many[:2], rare]) == ["distribution-all", "distribution-OP0", "distribution-OP1"]
    assert ids([first, rare]) == ["distribution-RARE"]


def test_heat_holds_every_op(sample: Report) -> None:
    """Cells are the report's rows, and are drawn between the bounds of their bin and class."""
    assert sample.pictures is not None
    chart = _by_id(sample)["heat"]
    heat = sample.pictures.over_time.heat
    cells = [node["data"]["values"] for node in _nodes(chart.spec) if "transform" in node and "data" in node]
    assert cells == [[list(row) for row in rows] for rows in (heat.client, heat.network, heat.server)]
    vega = vl_convert.vegalite_to_vega({**chart.spec, "width": 600}, vl_version=VEGA_LITE)
    assert vega["data"]
    drawn = next(node for node in _nodes(chart.spec) if "transform" in node)
    expressions = {one["as"]: one["calculate"] for one in drawn["transform"]}
    bounds = edges(sample.pictures.classes)
    assert expressions["from"] == "datum[0] * 0.5"
    assert expressions["above"] == f"{bounds}[datum[1]]"
    assert bounds == pytest.approx([0.01, 0.1, 1, 10])
    assert chart.spec["usermeta"] == {"cells": {"bin_s": 0.5, "bounds_ms": bounds}}


def test_heat_shows_what_is_in_flight_and_its_limit(sample: Report) -> None:
    """Means and peaks of both sides; a limit near them as a line, one far above them in words."""
    chart = _by_id(sample)["heat"]
    rows = _rows(chart, "server_mean")
    assert [(row["from"], row["server_mean"], row["server_max"]) for row in rows] == [
        (0.0, 3.5, 6),
        (0.5, 0.0, 0),
        (1.0, 7.25, 9),
        (1.5, 0.01, 1),
    ]
    assert [row["client_mean"] for row in _rows(chart, "client_mean")] == [3.75, 0.0, 7.5, 0.02]
    assert [row["limit"] for row in _rows(chart, "limit")] == [4]
    text = json.dumps(chart.spec)
    assert "server: limit 4 threads, long dashes" in text
    shades = [node for node in _nodes(chart.spec) if node.get("mark", {}).get("fillOpacity") == 0.25]
    assert [node["encoding"]["y"]["field"] for node in shades] == ["client_mean"]  # the shade ends where its line is
    assert "client: limit 4,096 session slots, above this axis" in text


def test_heat_draws_no_mean_that_a_log_axis_cannot_show(sample: Report) -> None:
    """A negative mean, or none, is a gap in the line."""
    rows = _rows(_by_id(sample)["heat"], "network_ms")
    assert [row["network_ms"] for row in rows] == [0.02, None, 0.25, None]


def test_knee_shows_levels_limit_and_knee(sample: Report) -> None:
    """Levels of both sides as the report has them, the threads and the knee as lines."""
    chart = _by_id(sample)["knee"]
    assert sample.inflight is not None
    rows = _rows(chart, "in_flight")
    for side, levels in (("server", sample.inflight.server.levels), ("client", sample.inflight.client.levels)):
        shown = [Level(row["in_flight"], row["share"], row["ops_per_s"]) for row in rows if row["side"] == side]
        assert shown == levels
    text = json.dumps(chart.spec)
    assert "server: limit 4 threads" in text
    assert "client: knee at 16" in text


def test_where_one_level_is_all_there_is_no_knee(sample: Report) -> None:
    """Throughput at a single level cannot be compared with any other."""
    assert sample.inflight is not None
    server = dataclasses.replace(sample.inflight.server, levels=[Level(1, 1.0, 900.0)])
    client = dataclasses.replace(sample.inflight.client, levels=[Level(1, 1.0, 800.0)])
    inflight = dataclasses.replace(sample.inflight, server=server, client=client)
    assert "knee" not in _by_id(dataclasses.replace(sample, inflight=inflight))


def test_no_wait_for_a_thread_is_no_bar(sample: Report) -> None:
    """Where no call waits, nothing says how many threads there are: the server's time stays whole."""
    matched = sample.matched
    assert matched is not None
    assert matched.total is not None
    assert matched.slowest is not None
    quiet = dataclasses.replace(
        matched,
        total=dataclasses.replace(matched.total, queue_ms=0.0),
        slowest=dataclasses.replace(matched.slowest, queue_ms=0.0),
    )
    found = _by_id(dataclasses.replace(sample, matched=quiet))
    assert [row["layer"] for row in _rows(found["waterfall"], "layer")] == ["client SRT", "network", "server"]
    assert "queue" not in {row["part"] for row in _rows(found["parts"], "part")}


def test_knee_of_one_capture_names_no_side(sample: Report) -> None:
    """Where it was taken is not known."""
    one = dataclasses.replace(sample, captures={"capture": sample.captures["server"]}, matched=None, pictures=None)
    (chart,) = charts(one)
    assert chart.id == "knee"
    assert {row["side"] for row in _rows(chart, "side")} == {"capture"}


def test_parts_sum_to_the_bars(sample: Report) -> None:
    """Five parts in their order, the wait within the server, end to end."""
    assert sample.matched is not None
    assert sample.matched.total is not None
    rows = _rows(_by_id(sample)["parts"], "part")
    mean = rows[: len(rows) // 2]
    parts = sample.matched.total.parts_ms
    assert [(row["part"], row["ms"]) for row in mean] == [
        ("call_send", parts.call_send),
        ("call_net", parts.call_net),
        ("queue", 14.2),
        ("thread", parts.server - 14.2),
        ("reply_send", parts.reply_send),
        ("reply_net", parts.reply_net),
    ]
    assert all(one["end"] == two["start"] for one, two in itertools.pairwise(mean))
    assert mean[-1]["end"] == pytest.approx(math.fsum(row["ms"] for row in mean))


def test_parts_that_the_clocks_cannot_tell_apart_are_one(sample: Report) -> None:
    """Both ways on the network are one part then, in both bars."""
    assert sample.matched is not None
    assert sample.matched.slowest is not None
    parts = dataclasses.replace(sample.matched.slowest.parts_ms, call_net=None, reply_net=None)
    slowest = dataclasses.replace(sample.matched.slowest, parts_ms=parts, queue_ms=None)
    chart = _by_id(dataclasses.replace(sample, matched=dataclasses.replace(sample.matched, slowest=slowest)))["parts"]
    assert [row["part"] for row in _rows(chart, "part")] == ["call_send", "net_both", "server", "reply_send"] * 2
    assert "cannot be told" in chart.caption


def test_clock_shows_bounds_as_they_are(sample: Report) -> None:
    """The report's values are in the data, next to their distance from the estimate; steps part the lines."""
    chart = _by_id(sample)["clock"]
    assert [(r["at"], r["least_ms"], r["least_ms_apart"]) for r in _rows(chart, "least_ms")] == [
        (0.25, 6999.0, -1.0),
        (1.25, 3999.0, -1.0),
    ]
    assert [(r["most_ms"], r["most_ms_apart"]) for r in _rows(chart, "most_ms")] == [(7001.0, 1.0)]
    assert [(r["low"], r["high"]) for r in _rows(chart, "low")] == [(-0.5, 0.5), (-0.5, 0.5), (-0.25, 0.25)]


def test_a_step_of_a_clock_is_marked_and_parts_the_line(sample: Report) -> None:
    """theta does not slide from one value to the other."""
    assert sample.clock is not None
    step = ClockStep("2024-05-01T10:00:01.500000000Z", 1.0, -3000.0, (-3001.0, -2999.0), None, None)
    clock = dataclasses.replace(sample.clock, steps=[step])
    chart = _by_id(dataclasses.replace(sample, clock=clock))["clock"]
    assert "theta -3,000.000 ms" in json.dumps(chart.spec)
    assert {row["theta"]: row["stretch"] for row in _rows(chart, "theta", "stretch")} == {7000.0: 0, 4000.0: 1}


def test_transport_leaves_out_what_did_not_happen(sample: Report) -> None:
    """Values are the report's; lanes of zeros are not drawn, and the caption says so."""
    chart = _by_id(sample)["transport"]
    assert [row["mb_per_s_call"] for row in _rows(chart, "mb_per_s_call")] == [1.5, 2.25]
    assert next((r["mb_per_s_reply"], r["end"]) for r in _rows(chart, "mb_per_s_reply")) == (10.5, -10.5)
    assert [(r["from"], r["to"], r["sent_again_call"]) for r in _rows(chart, "sent_again_call")] == [(1.0, 1.5, 3)]
    assert [row["lost_ms_call"] for row in _rows(chart, "lost_ms_call")] == [205.5]
    assert sample.pictures is not None
    nothing = Way([1.0, 1.0, 1.0, 1.0], [0] * 4, [0.0] * 4)
    over = dataclasses.replace(sample.pictures.over_time, call=nothing, reply=None)
    pictures = dataclasses.replace(sample.pictures, over_time=over)
    quiet = _by_id(dataclasses.replace(sample, pictures=pictures))["transport"]
    assert "No bytes were retransmitted" in quiet.caption
    assert not _rows(quiet, "sent_again_call")


@settings(max_examples=examples(100), deadline=None)
@given(st.floats(-9, 7), st.floats(0.05, 14))
def test_a_log_axis_has_ticks_within_its_domain(exponent: float, decades: float) -> None:
    """Round values, and never so many that they cover each other."""
    low = 10**exponent
    high = low * 10**decades
    values = log_ticks(low, high)["values"]
    assert all(low <= value <= high for value in values)
    assert len(values) <= 16
    assert all(float(f"{value:.1g}") == value for value in values)
    assert decades < 1.1 or values
