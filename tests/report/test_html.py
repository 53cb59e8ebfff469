"""What the HTML page promises without a browser: figures as in the JSON, nothing let in from outside, no dead link."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path, PurePath

import pytest
from examples import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from verdicts import blames

import nfslat
from nfslat.answer.figures import Summary
from nfslat.answer.model import Completeness, MatchedOps, NextStep, Report, StackRow
from nfslat.answer.pictures import Moment, Pictures, Piece, SlowOp
from nfslat.answer.pivots import IntervalRow, Intervals, Pivot, PivotRow
from nfslat.errors import UsageError
from nfslat.findings.catalogue import row

pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")
pytest.importorskip("jinja2", reason="jinja2 (the extra html) is not installed")

from nfslat.report import markdown
from nfslat.report.html import page, tiles, view
from nfslat.report.html.page import render, visible

# No shrinking: a report is large, and a smaller one says no more about a template.
_thorough = settings(
    max_examples=examples(12), phases=[Phase.generate], deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
_VOID = {"meta", "br", "link", "img", "input", "hr"}
_EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202egnp.exe\udc80\x1b[31m\u2028"


class Read(HTMLParser):
    """A page taken apart: elements with their attributes, texts by element, and whether each was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type") or "", ""))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            kind, before = self.scripts[-1]
            self.scripts[-1] = kind, before + data
        else:
            self.texts.append(data)

    def figures(self) -> dict[str, str]:
        """Value of each <data> that has a name."""
        return {
            str(own["data-figure"]): str(own["value"])
            for tag, own in self.elements
            if tag == "data" and "data-figure" in own and not str(own["data-figure"]).startswith("slow_")
        }

    def all(self, name: str) -> list[str]:
        return [str(own[name]) for _, own in self.elements if name in own]


@given(data=st.data())
@_thorough
def test_any_report_makes_a_page_that_is_whole(pictured: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """Whatever the report holds: tags close, ids are there once, and what a link or a button names is there."""
    found = Read(render(data.draw(pictured)))
    assert found.wrong == []
    assert found.open == []
    ids = Counter(found.all("id"))
    assert [name for name, times in ids.items() if times > 1] == []
    named = [link.removeprefix("#") for link in found.all("href")] + found.all("aria-controls")
    assert [name for name in named if name not in ids] == []
    assert {f"spec-{name}" for name in found.all("data-chart")} <= set(ids)


@given(data=st.data())
@_thorough
def test_figures_are_those_of_the_json(compared: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """What the page says in numbers can be read back, and is what the JSON report says, to the last digit."""
    report = data.draw(compared)
    found = Read(render(report)).figures()
    matched = report.matched
    assert matched is not None
    assert matched.total is not None
    for key in ("client", "network", "server"):
        assert found[f"{key}_ms"] == json.dumps(getattr(matched.total, f"{key}_ms").mean)
    assert found["matched_ops"] == str(matched.total.count)


def test_the_same_report_makes_the_same_page(small: Callable[[], Report]) -> None:
    """No time, no random name; and nfslat knows the page for its own by its beginning."""
    text = render(small())
    assert text == render(small())
    assert text.startswith("<!doctype html>\n<!-- nfslat")
    assert text.endswith("</html>\n")


def test_nothing_from_outside_is_run_or_fetched(small: Callable[[], Report]) -> None:
    """The page names no address, and its policy lets run nothing but the scripts that are in it, by their hashes."""
    found = Read(render(small()))
    assert not {tag for tag, _ in found.elements} & {"img", "iframe", "object", "embed", "base"}
    assert not any("src" in own or str(own.get("href", "#"))[:1] != "#" for _, own in found.elements)
    assert not any(name.startswith("on") for _, own in found.elements for name in own)
    policy = next(text for text in found.all("content") if "default-src" in text)
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for kind, text in found.scripts
        if kind != "application/json"
    }
    assert re.findall(r"'sha256-[^']+'", policy) != []
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


def _evil(small: Report) -> Report:
    """A report with names, texts and notes that somebody else wrote."""
    server = dataclasses.replace(small.captures["server"], path=_EVIL)
    note = small.captures["client"].audit
    client = dataclasses.replace(small.captures["client"], path=f"/x/{_EVIL}", audit=note)
    finding = dataclasses.replace(
        small.findings[0], text=_EVIL, advice={"knob": _EVIL, "suggested": _EVIL, "how": [_EVIL]}
    )
    pivot = Pivot("file", 1, [PivotRow(_EVIL, 1, None, 0, None, *[Summary(1, 1, 1, 1, 1)] * 3)], None)
    return dataclasses.replace(
        small,
        nfslat=dataclasses.replace(small.nfslat, command=f"nfslat {_EVIL}"),
        captures={"server": server, "client": client},
        notes=[_EVIL],
        evidence=[_EVIL],
        findings=[finding, dataclasses.replace(small.findings[1], severity="info", text=_EVIL)],
        stack=[StackRow("all", _EVIL, 0, 1.0, 1.0, _EVIL)],
        pivots=[pivot],
    )


def test_names_of_others_stay_text(small: Callable[[], Report]) -> None:
    """A file name with tags, quotes, controls or reversed writing adds no element, and all of it can be seen."""
    text = render(_evil(small()))
    found = Read(text)
    assert found.wrong == []
    assert "alert(1)" not in "".join(script for kind, script in found.scripts if kind != "application/json")
    assert "img" not in {tag for tag, _ in found.elements}
    shown = "".join(found.texts)
    assert "</script><script>alert(1)</script>" in shown
    assert "\\u202egnp.exe\\udc80\\x1b[31m\\u2028" in shown
    assert not set(text) & {"\u202e", "\u2028", "\x1b", "\udc80"}
    text.encode("utf-8")


@given(text=st.text())
def test_what_cannot_be_seen_is_made_visible(text: str) -> None:
    """Every character of the result can be printed, and what could be seen is as it was."""
    shown = visible(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


@given(value=st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_data_for_scripts_end_no_element(value: object) -> None:
    """JSON in the page reads back as it was, and holds nothing that HTML, or old JavaScript, takes for its own."""
    text = page._script_json(value)
    assert not set(text) & set("<>&\u2028\u2029")
    assert text.isascii()
    assert json.loads(text) == value


def test_the_sections_stand_in_the_order_of_the_question(small: Callable[[], Report]) -> None:
    """From the verdict to the definitions; what there is nothing to show for says why."""
    text = render(small())
    ids = [str(own["id"]) for tag, own in Read(text).elements if tag == "section"]
    wanted = "answer stack distributions over-time in-flight parts clock transport slowest findings what-if evidence"
    assert ids == [*wanted.split(), "audit", "definitions"]
    assert "No other number of threads or slots was tried" in text
    assert "This report was made without the figures that pictures are drawn from" in text
    assert "nfsd.threads" in text


def test_each_finding_says_what_would_refute_it(small: Callable[[], Report]) -> None:
    """Where it stands, folded: the page may be all that its reader has."""
    report = small()
    text = render(report)
    causes = [one.code for one in report.findings if one.layer != "capture" and one.severity == "warning"]
    assert causes
    for code in causes:
        shown = html.unescape(text.split(f"What {code} means, and what would refute it")[1].split("</details>")[0])
        assert all(answer in shown for _, answer in row(code).answers)


def test_a_verdict_on_the_application_shows_its_numbers(small: Callable[[], Report]) -> None:
    """Where the application's time is known, and the verdict is about it, the numbers below it are of that time."""
    total = 40.0
    layers = [("application", 0, 40.0), ("above the wire", 1, 20.0), ("network", 1, 1.0), ("server", 1, 19.0)]
    rows = [StackRow("READ", name, depth, ms, ms / total, "-") for name, depth, ms in layers]
    verdict = blames("client", "above-wire", 0.5, None, "high", "The client adds 20 of 40 ms.")
    found = Read(render(dataclasses.replace(small(), stack=rows, verdict=verdict))).figures()
    assert [found[f"stack_{key}_ms"] for key in ("application", "above", "network", "server")] == [
        json.dumps(ms) for _, _, ms in layers
    ]
    assert found["client_ms"] == json.dumps(20.02)
    other = dataclasses.replace(verdict, largest_share=0.9)
    assert "stack_above_ms" not in Read(render(dataclasses.replace(small(), stack=rows, verdict=other))).figures()


def _slow(small: Report, pictures: Pictures) -> Report:
    events = [Moment(0.0, "client", "call, whole", 17, "c.pcap"), Moment(1.5, "server", "reply, whole", 42, "s.pcap")]
    parts = {"call_send": 0.0, "call_net": None, "server": 70.0, "reply_send": 5.0, "reply_net": None}
    pieces = [
        Piece("server", "queue", 60.0), Piece("call_net", "rto", 24.0), Piece("server", "in thread", 10.0),
        Piece("reply_send", "unexplained", 5.6), Piece("call_net", "distance", 0.4),
    ]  # fmt: skip
    one = SlowOp(
        "NFS", "READ", "3", "0x0badcafe", "10.0.0.2:733", "10.0.0.1:2049", 1000, "/a/b", 8192, 4096,
        "2024-05-01T10:00:00.000123000Z", 0.0, 100.0, 70.0, 30.0, parts, 60.0, {"rto": 24.0}, pieces, 2, events,
        {"client": "frame.number in {17}", "server": "frame.number in {42}"},
    )  # fmt: skip
    return dataclasses.replace(small, pictures=dataclasses.replace(pictures, slowest=[one]))


@given(data=st.data())
@settings(max_examples=1, phases=[Phase.generate], deadline=None)
def test_a_slow_op_comes_with_its_packets(
    small: Callable[[], Report], pictures: st.SearchStrategy[Pictures], data: st.DataObject
) -> None:
    """Frames of both files, filters to copy, its parts as far as the clocks tell, and where its time went: the largest
    piece first, all of them summing to the whole, the small ones together."""
    text = render(_slow(small(), data.draw(pictures)))
    found = Read(text)
    assert {"frame.number in {17}", "frame.number in {42}"} <= set(found.all("data-copy"))
    rows = re.findall(
        r'<th scope="row">([^<]*)</th><td class="n"><data value="([^"]*)">',
        text.split('"pieces"')[1].split("</table>")[0],
    )
    assert [words for words, _ in rows] == [
        "wait for a server thread",
        "lost: retransmission timeout (call)",
        "in a server thread",
        "server sends the reply",
        "the rest",
    ]
    assert [float(ms) for _, ms in rows] == [60.0, 24.0, 10.0, 5.6, 0.4]
    assert '<td data-label="most of it">wait for a server thread</td>' in text
    assert "10:00:00.000123" in found.texts
    assert [own["aria-expanded"] for _, own in found.elements if "aria-controls" in own] == ["false"]
    bars = [own["style"] for tag, own in found.elements if tag == "i" and "style" in own and "p-" in str(own["class"])]
    assert bars == ["width:0.0%", "width:60.0%", "width:10.0%", "width:5.0%", "width:25.0%"]


def test_what_to_do_and_the_evidence_stand_under_the_answer(small: Callable[[], Report]) -> None:
    """In this order, in front of all figures: the answer, what to do about its cause, and what another team can check:
    hosts, mount, time and zone, snaplen, completeness, operations with their filters, what would refute the answer."""
    report = small()
    assert report.pictures is None
    verdict = report.verdict
    assert verdict is not None
    assert verdict.cause is not None
    text = html.unescape(render(report))
    places = [text.index(mark) for mark in ('class="verdict"', 'id="do"', 'id="handover"', '<section id="stack"')]
    assert places == sorted(places)
    do = text.split('id="do"')[1].split('class="evidence"')[0]
    assert f"<code>{verdict.cause}</code>" in do
    box = text.split('id="handover"')[1].split("</aside>")[0]
    for wanted in (
        "snaplen",
        " UTC",
        "Mount",
        "99.8 % of the operations of this time are in both captures: 2 not in the client's capture (990 of 992)",
        row(verdict.cause).refuted,
    ):
        assert wanted in box, wanted


@given(data=st.data())
@settings(max_examples=1, phases=[Phase.generate], deadline=None)
def test_the_evidence_is_copied_as_markdown(
    small: Callable[[], Report], pictures: st.SearchStrategy[Pictures], data: st.DataObject
) -> None:
    """The button has the text that the Markdown report has as a section, with the answer in front; an operation has
    its XID and both filters; and names with tags in them stay text."""
    report = _slow(small(), data.draw(pictures))
    copied = next(one for one in Read(render(report)).all("data-copy") if "Evidence for the other team" in one)
    assert report.verdict is not None
    assert copied.startswith("## ")
    assert "XID 0x0badcafe" in copied
    assert "- display filter, client's capture: `frame.number in {17}`" in copied
    section = "### Evidence for the other team" + copied.split("### Evidence for the other team")[1]
    assert section.rpartition("\n\n")[0] in markdown.render(report)
    evil = render(_evil(report))
    assert any("<script>" in one for one in Read(evil).all("data-copy"))


@pytest.mark.parametrize(("outcome", "layer"), [("fault", "server"), ("no-fault", None), ("undecided", None)])
def test_only_a_fault_has_a_culprit(outcome: str, layer: str | None, small: Callable[[], Report]) -> None:
    """The page gives the colour of the culprit to the layer that is blamed, and to none where none is; without a fault
    there is no advice to follow, and where something is left to measure it says what."""
    verdict = small().verdict
    assert verdict is not None
    step = NextStep("iostat -x 1", "on the server", "whether the disk is slow", [])
    given = dataclasses.replace(verdict, outcome=outcome, layer=layer, next=step)
    text = render(dataclasses.replace(small(), verdict=given))
    assert ('<html lang="en" data-culprit="server">' in text) == (outcome == "fault")
    do = text.split('id="do"')[1].split('class="evidence"')[0]
    assert ("nfsd.threads" in do) == (outcome == "fault")
    assert ("Nothing needs to be mended" in do) == (outcome == "no-fault")
    assert "iostat -x 1" in do


def test_every_cell_of_a_wide_table_says_what_it_is(small: Callable[[], Report]) -> None:
    """On a narrow screen rows of wide tables stand without a head; then each number has its name beside it."""
    text = render(small())
    tables = re.findall(r'<table class="[^"]*cards[^"]*">.*?</table>', text, re.DOTALL)
    assert len(tables) >= 4
    for table in tables:
        numbers = re.findall(r'<td class="n"[^>]*>', table)
        assert all("data-label=" in one for one in numbers), table[:200]


def test_a_page_of_one_capture_compares_nothing(small: Callable[[], Report]) -> None:
    """It has the figures of that capture, its histograms and its audit, and says what it cannot say."""
    two = small()
    one = dataclasses.replace(
        two, captures={"capture": two.captures["client"]}, raw={"capture": two.raw["client"]}, matched=None,
        clock=None, verdict=None, findings=[],
    )  # fmt: skip
    text = render(one)
    ids = [str(own["id"]) for tag, own in Read(text).elements if tag == "section"]
    assert ids == ["answer", "distributions", "over-time", "in-flight", "audit", "definitions"]
    assert "capture on both hosts" in text.split("What to do</h2>")[1].split("</div>")[0]
    assert "not where the time goes" in text
    assert f'<data value="{two.raw["client"][0].srt_ms.p99}">55.900</data>' in text
    assert ">33 ms<" in text
    levels = [int(tag[1]) for tag, _ in Read(text).elements if re.fullmatch("h[1-6]", tag)]
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))


def test_bounds_of_a_histogram_are_said_in_full() -> None:
    """The text report has room for four characters only."""
    said = [view._spoken(label) for label in ("<=0", "16u", ".1m", "33m", "4s", "more")]
    assert said == ["0 or less", "16 us", "0.1 ms", "33 ms", "4 s", "more"]


def test_a_page_without_a_matched_op_says_so(small: Callable[[], Report]) -> None:
    """No number is made up where the captures have nothing in common."""
    nothing = MatchedOps(
        {"server": 1, "client": 1},
        0,
        0,
        {"server": {}, "client": {}},
        [],
        None,
        None,
        None,
        Completeness(0.0, 0, 1, {}),
    )
    text = render(dataclasses.replace(small(), matched=nothing, verdict=None, clock=None, charges=None))
    assert "No op is in both captures: nothing can be said" in text
    assert "client_ms" not in Read(text).figures()


def test_groups_and_intervals_have_tables_of_their_own(small: Callable[[], Report]) -> None:
    """One for each --by, all rows; of very many intervals those of all operations, and it says so."""
    s = Summary(1.0, 1.0, 2.0, 3.0, 4.0)
    pivot = Pivot(
        "size",
        3,
        [PivotRow("4K", 7, 28672, 3, 1.5, s, s, s)],
        PivotRow("others", 2, None, 0, None, s, s, s, queue_ms=0.5),
    )
    rows = [
        IntervalRow("2024-05-01T10:00:00Z", float(at), op, 1, 1.0, None, 0, None, None, 0, 1.0, 1.0, 1.0, 0.0)
        for at in range(1000)
        for op in ("all", "READ")
    ]
    text = render(dataclasses.replace(small(), pivots=[pivot], intervals=Intervals(1.0, rows)))
    assert "<h2>By size</h2>" in text
    assert "<bdi>others</bdi>" in text
    assert "neither capture shows the size" in text
    assert "Of 2,000 rows those of all operations together are shown" in text
    assert text.count('<th scope="row" class="time">') == 1000


@pytest.mark.parametrize("module", ["vl_convert", "jinja2"])
def test_without_its_libraries_it_says_what_to_install(
    module: str, small: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that the user can act on, no traceback."""
    for made in (page._environment, page._library):
        made.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=r"pip install 'nfslat\[html\]'"):
        render(small())
    for made in (page._environment, page._library):
        made.cache_clear()


def test_the_title_names_the_files(small: Callable[[], Report]) -> None:
    """Of a page among others it can be told what it is about."""
    names = [PurePath(capture.path).name for capture in small().captures.values()]
    assert f"<title>NFS latency: {names[0]} and {names[1]}</title>" in render(small())


def test_a_number_and_its_unit_stay_on_one_line(small: Callable[[], Report]) -> None:
    """In the answer and in the evidence: no line begins with a unit. What is copied has plain blanks."""
    text = render(small())
    answer = text.split('class="verdict"')[1].split("</p>")[0]
    assert re.search(r"\d (%|ms)", answer) is None
    assert "&nbsp;ms" in answer
    assert all("\xa0" not in one for one in Read(text).all("data-copy"))


def test_the_tiles_are_of_what_the_answer_is_about() -> None:
    """Where the application gave its times by operation, and the client is to blame, the tiles are of these operations
    together: what lies above the wire is among them, and they add up."""
    folder = Path(__file__).parents[2] / "samples" / "client-slots"
    pair = (folder / "server.pcap.gz", folder / "client.pcap.gz")
    report = nfslat.correlate(*pair, app_ms={"READ": 431.3, "WRITE": 495.3}).figures
    assert report.verdict is not None
    whole, *parts = tiles.tiles(report)
    assert whole.title == "Application: READ and WRITE"
    assert whole.ms == pytest.approx(sum(one.ms for one in parts))
    assert parts[0].share == pytest.approx(report.verdict.largest_share)
