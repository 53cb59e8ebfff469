"""What the fleet's page promises: the figures of the JSON, nothing let in from outside, pictures that draw."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from examples import examples
from fleet_by_hand import EVIL, few, fleets, hostile, mixed, story, without_server
from hypothesis import HealthCheck, Phase, given, settings

from nfslat.errors import UsageError
from nfslat.fleet.model import ClientWindow, Fleet

pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")
pytest.importorskip("jinja2", reason="jinja2 (the extra html) is not installed")

from nfslat.fleet.charts import charts
from nfslat.fleet.page import render
from nfslat.report.html import page as report_page

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from browsers import chromium, needs_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_MAKERS: dict[str, Callable[[], Fleet]] = {
    "one": few,
    "seven": lambda: story(7),
    "hundred": story,
    "mixed": mixed,
    "all failed": without_server,
    "hostile": hostile,
}
_VOID = {"meta", "br", "link", "img", "input", "hr"}
_needs_playwright = pytest.mark.skipif(
    importlib.util.find_spec("playwright") is None, reason="playwright is not installed"
)


class _Read(HTMLParser):
    """A page taken apart: elements with their attributes, scripts, texts, and tags that were not closed."""

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

    def all(self, name: str) -> list[str]:
        """Values of an attribute."""
        return [str(own[name]) for _, own in self.elements if name in own]


@pytest.fixture(autouse=True)
def _without_the_library(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """It is the same in every page, and takes its time; a browser needs it."""
    if "browser" not in request.fixturenames:
        monkeypatch.setattr("nfslat.report.html.page._library", lambda *_: "")


@pytest.mark.parametrize("name", _MAKERS)
def test_a_page_is_whole(name: str) -> None:
    """Every tag is closed, no id is there twice, every link within the page has its target."""
    found = _Read(render(_MAKERS[name]()))
    assert found.wrong == []
    assert found.open == []
    ids = found.all("id")
    assert len(ids) == len(set(ids))
    assert {one[1:] for one in found.all("href") if one.startswith("#")} <= set(ids)
    assert set(found.all("aria-controls")) <= set(ids)


def test_the_figures_are_those_of_the_json() -> None:
    """Tiles and the table hold the very numbers; each client is in the table once, in its order."""
    fleet = story(100)
    text = render(fleet)
    found = _Read(text)
    tiles = {str(own["data-figure"]): str(own["value"]) for tag, own in found.elements if "data-figure" in own}
    assert fleet.total is not None
    assert fleet.total.queue_ms is not None
    assert tiles["client_ms"] == json.dumps(fleet.total.client_ms.mean)
    assert tiles["network_ms"] == json.dumps(fleet.total.network_ms.mean)
    assert tiles["queue_ms"] == json.dumps(fleet.total.queue_ms)
    assert tiles["thread_ms"] == json.dumps(fleet.total.server_ms.mean - fleet.total.queue_ms)
    whole, *parts = (float(one) for one in re.findall(r'data-figure="\w+_ms">([\d.]+)<', text))
    assert round(sum(parts), 4) == whole
    rows = re.findall(r'<tbody class="client.*?</tbody>', text, re.DOTALL)
    assert [re.findall(r"<bdi>(.*?)</bdi>", row)[0] for row in rows] == [one.name for one in fleet.clients]
    for row, one in zip(rows, fleet.clients, strict=True):
        assert one.client_ms is not None
        assert one.excess is not None
        values = re.findall(r'<data value="(.*?)"', row)
        assert one.network_ms is not None
        assert values[1:4] == [json.dumps(x) for x in (one.ops, one.client_ms.mean, one.network_ms.mean)]
        assert json.dumps(one.excess.total_s) in values
        assert html.escape(one.command) in row
    assert fleet.verdict.text in " ".join("".join(found.texts).split())


def test_what_is_inferred_has_a_column_and_a_line() -> None:
    """With the error of each client's means, where any client's are inferred; and the reason where nothing is."""
    fleet = mixed()
    page = html.unescape(render(fleet))
    assert 'id="inferred"' in page
    cells = re.findall(r'data-label="inferred ±ms">(?:<data value="([^"]+)|–)', page)
    assert len(cells) == len(fleet.clients)
    assert sorted(float(one) for one in cells if one) == [0.21, 0.3, 1.4]
    assert "its packets have no TCP time stamps" in page
    measured = render(story(7))
    assert "inferred ±ms" not in measured
    assert 'id="inferred"' not in measured


@pytest.mark.parametrize("name", _MAKERS)
def test_nothing_from_outside_is_run_or_fetched(name: str) -> None:
    """The page fetches from no address, and its policy lets run nothing but the scripts that are in it."""
    found = _Read(render(_MAKERS[name](), folder="pages"))
    assert not {tag for tag, _ in found.elements} & {"img", "iframe", "object", "embed", "base", "link"}
    assert not any(key == "src" or key.startswith("on") for _, own in found.elements for key in own)
    assert all(one.startswith(("#", "./")) for one in found.all("href"))
    policy = next(text for text in found.all("content") if "default-src" in text)
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for kind, text in found.scripts
        if kind != "application/json"
    }
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy


def test_names_of_others_stay_text_on_the_page() -> None:
    """A name with tags, quotes, controls or reversed writing adds no element, and all of it can be seen."""
    text = render(hostile())
    found = _Read(text)
    assert "alert(1)" not in "".join(script for kind, script in found.scripts if kind != "application/json")
    assert "img" not in {tag for tag, _ in found.elements}
    assert "\\u202egnp.exe\\udc80\\x1b[31m\\u2028" in "".join(found.texts)
    assert not set(text) & {"\u202e", "\u2028", "\x1b", "\udc80"}
    assert "49" not in re.findall(r"\{\{.*?\}\}", text)
    for kind, script in found.scripts:
        if kind == "application/json":
            json.loads(script)
            assert not set("<>&") & set(script)
    assert EVIL not in text


@given(fleet=fleets())
@settings(max_examples=examples(25), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_any_fleet_is_a_page(fleet: Fleet) -> None:
    """Whatever a fleet holds, the page is whole and can be written as UTF-8, and its pictures are JSON."""
    text = render(fleet)
    text.encode("utf-8")
    found = _Read(text)
    assert found.wrong == []
    for kind, script in found.scripts:
        if kind == "application/json":
            json.loads(script)


def test_a_report_is_linked_to_from_where_the_page_stands() -> None:
    """By a relative address from the page's folder; none to what has a scheme."""
    fleet = story(2)

    def links(report: str, folder: str | None, out: str | None = "run") -> list[str]:
        clients = [dataclasses.replace(one, report=report) for one in fleet.clients[:1]]
        run = dataclasses.replace(fleet.run, out=out)
        found = _Read(render(dataclasses.replace(fleet, clients=clients, run=run), folder=folder))
        return [one for one in found.all("href") if not one.startswith("#")]

    assert links("clients/a b.json", "run") == ["./clients/a%20b.json"]
    assert links("clients/a.json", "") == links("clients/a.json", ".") == ["./run/clients/a.json"]
    assert links("clients/a.json", "/srv/pages", "/srv/run") == ["./../run/clients/a.json"]
    assert links("javascript:alert(1)", "run") == ["./javascript%3Aalert%281%29"]
    assert links("clients/a.json", None) == []
    assert links("clients/a.json", "run", None) == []
    assert links("clients/a.json", "run", "s3://bucket/run") == []
    assert links("https://example.org/a.json", "run") == []


def test_a_thousand_clients_stay_legible() -> None:
    """The heat map has the hundred that suffer most and says so; the table has all, details of those that stand out."""
    fleet = story(1000)
    heat = next(one for one in charts(fleet) if one.id == "heat")
    assert {cell["row"] for cell in _cells(heat.spec)} == set(range(100))
    assert "900 more clients that suffer less are in the table" in heat.caption
    text = render(fleet)
    assert text.count('<tbody class="client') == 1000
    assert text.count('<tr class="detail"') == sum(one.outlier for one in fleet.clients) == 8


def _cells(spec: Any) -> list[dict[str, Any]]:
    """Those of the heat map."""
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("description") == "Clients by time" and "data" in node:
                found.extend(node["data"]["values"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(spec)
    return found


def test_a_cell_is_a_client_in_a_stretch_of_time() -> None:
    """Each window with ops has one, with its figures and its layer; one without ops has none."""
    fleet = story(30)
    cells = {(cell["row"], cell["bin"]): cell for cell in _cells(charts(fleet)[0].spec)}
    for row, client in enumerate(fleet.clients):
        for at, window in enumerate(client.windows):
            cell = cells.pop((row, at), None)
            assert (cell is None) == (window.ops == 0)
            if cell is not None and window.excess_ms is not None:
                assert cell["ops"] == window.ops
                assert cell["excess"] == pytest.approx(window.excess_ms, rel=1e-3)
                assert (cell["more"] == "none") == (window.excess_ms <= 0)
                if cell["more"] != "none":
                    assert cell["more"] == ("network" if client.groups["subnet"] == "10.9.3.0/24" else "server")
    assert cells == {}


def test_a_cell_has_the_colour_of_its_own_excess() -> None:
    """A stretch in which the server takes 5 ms more than in calm times is the server's, though it is below
    the typical client's mean, in which the wait of half of the time is."""
    fleet = story(30)
    typical = sorted(one.server_ms.mean for one in fleet.clients if one.server_ms is not None)[15]
    first = fleet.clients[0]
    for network, server, more in ((0.6, 5.0, "server"), (5.0, 0.6, "network")):
        window = ClientWindow(100, 10.0, typical - 1.0, 11.0 - typical, 5.0, 5.6, network, server)
        client = dataclasses.replace(first, windows=[window, *first.windows[1:]])
        changed = dataclasses.replace(fleet, clients=[client, *fleet.clients[1:]])
        cells = {(cell["row"], cell["bin"]): cell for cell in _cells(charts(changed)[0].spec)}
        assert cells[0, 0]["more"] == more


def test_without_its_libraries_the_fleets_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that the user can act on, no traceback."""
    report_page._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"pip install 'nfslat\[html\]'"):
        render(few())
    report_page._environment.cache_clear()


# ---- in a browser ----


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


def _open(browser: Browser, path: Path) -> tuple[Page, list[str], list[str]]:
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda problem: said.append(str(problem)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-charts=drawn]")
    return page, said, asked


@needs_browser
@_needs_playwright
@pytest.mark.parametrize("name", ["hundred", "all failed", "hostile"])
def test_the_fleets_page_draws(name: str, browser: Browser, tmp_path: Path) -> None:
    """No word on the console, no request but for the file, every picture drawn with its labels inside, and on a narrow
    screen nothing but tables in their boxes scrolls sideways; on paper columns keep their headings."""
    path = tmp_path / "fleet.html"
    path.write_text(render(_MAKERS[name]()), encoding="utf-8")
    page, said, asked = _open(browser, path)
    assert said == []
    assert asked == [path.as_uri()]
    assert page.locator(".plot svg").count() == page.locator(".plot").count() == len(charts(_MAKERS[name]()))
    for width in (768, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("(width) => document.documentElement.scrollWidth <= width", arg=width)
    assert page.locator("th:not([scope])").count() == 0
    page.set_viewport_size({"width": 1000, "height": 800})
    page.emulate_media(media="print")
    headings = page.locator("thead th:visible")
    assert [one for one in headings.all_inner_texts() if not one.strip()] == []
    page.emulate_media(media="screen")
    assert said == []
    page.context.close()


@needs_browser
@_needs_playwright
def test_the_table_is_sorted_filtered_and_opened(browser: Browser, tmp_path: Path) -> None:
    """A heading sorts by the exact figure, again the other way round, what is not known last; a name is found by a part
    of it; a row opens to the client's command."""
    fleet = mixed()
    path = tmp_path / "fleet.html"
    path.write_text(render(fleet), encoding="utf-8")
    page, said, _ = _open(browser, path)
    names = "() => [...document.querySelectorAll('tbody.client:not([hidden]) th bdi')].map((one) => one.textContent)"
    known = [one for one in fleet.clients if one.network_ms is not None]
    by_network = [one.name for one in sorted(known, key=lambda one: one.network_ms.mean if one.network_ms else 0.0)]
    page.get_by_role("button", name="network ms").click()
    assert page.evaluate(names)[: len(known)] == by_network[::-1]
    page.get_by_role("button", name="network ms").click()
    assert page.evaluate(names)[: len(known)] == by_network
    assert len(page.evaluate(names)) == len(fleet.clients)
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.locator("#filter").fill("10.9.3.")
    assert set(page.evaluate(names)) == {one.name for one in fleet.clients if one.name.startswith("10.9.3.")}
    assert page.locator("#left").inner_text() == "7 of 100"
    page.locator("tbody.client:not([hidden]) button.open").first.click()
    shown = page.locator("tr.detail:not([hidden])")
    assert shown.count() == 1
    assert "nfslat --only-client 10.9.3." in shown.inner_text()
    assert said == []
    page.context.close()


def test_no_number_is_cut_on_a_narrow_screen() -> None:
    """There rows of tables are cards, and each number has its name beside it; the culprit has its colour."""
    text = render(story(12))
    tables = re.findall(r'<table class="[^"]*cards[^"]*">.*?</table>', text, re.DOTALL)
    assert len(tables) == 4
    for table in tables:
        assert all("data-label=" in one for one in re.findall(r'<td class="n"[^>]*>', table)), table[:200]
    assert '<html lang="en" data-culprit="server">' in text
    assert "What to do" in text.split('id="do"')[1]
    assert "cat /proc/fs/nfsd/pool_stats" in text.split('id="do"')[1].split('class="tiles"')[0]
