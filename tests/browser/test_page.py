"""The HTML page in a real browser: it draws, asks no network, opens, copies, prints, and fits a narrow screen."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import TEXTS_CUT, chromium, needs_browser
from captures import SAMPLES, SHARED

if importlib.util.find_spec("playwright") is None:  # which takes a while to import
    pytest.skip("playwright is not installed", allow_module_level=True)
pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")
pytest.importorskip("jinja2", reason="jinja2 (the extra html) is not installed")

import nfslat

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = needs_browser
_LAB = ("g_clock_step3s", "h_v42_metadata")
_PAIRS = {
    **{path.parent.name: path.parent for path in SAMPLES},
    **{name: SHARED / "lab" / name for name in _LAB if (SHARED / "lab" / name).is_dir()},
}
_SAMPLE = "packet-loss"
_BY_DAY = ("packet-loss",)  # with lost segments in its pictures

# Headings by level; numbers of a table's rows; cells of a picture's data.
_LEVELS = "() => [...document.querySelectorAll('main :is(h1,h2,h3,h4,h5,h6)')].map((one) => Number(one.tagName[1]))"
_ROWS = "(rows) => rows.map((row) => [...row.querySelectorAll('td.n data')].map((one) => Number(one.value)))"
_CELLS = """() => {
  const found = [];
  const walk = (node) => {
    if (!node || typeof node !== 'object') return;
    if (node.data && Array.isArray(node.data.values[0])) found.push(node.data.values);
    Object.values(node).forEach(walk);
  };
  walk(JSON.parse(document.getElementById('spec-heat').textContent));
  return found;
}"""


# What of tables and tiles is not wholly on the screen, or in its table's box; heads of cards are out of sight.
_NUMBERS_CUT = """() => [...document.querySelectorAll('main :is(td, th[scope=row], .tile dd, data)')].filter((cell) => {
  const own = cell.getBoundingClientRect(), box = cell.closest('.box');
  const right = Math.min(document.documentElement.clientWidth, box ? box.getBoundingClientRect().right : Infinity);
  return own.width && own.right > right + 1;
}).map((cell) => cell.textContent)"""


@dataclass
class Made:
    """A page, and the JSON report of the same run."""

    url: str
    figures: dict[str, Any]


@dataclass
class Heard:
    """What a page says on the console, and what it asks the network for."""

    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """The page of a sample or of a pair of the lab; each is made once."""
    folder = tmp_path_factory.mktemp("pages")
    pages: dict[str, Made] = {}

    def of(name: str) -> Made:
        if name not in pages:
            captures = [str(next(_PAIRS[name].glob(f"{side}.*"))) for side in ("server", "client")]
            report = nfslat.correlate(*captures)
            path = folder / f"{name}.html"
            path.write_text(report.html(), encoding="utf-8")
            pages[name] = Made(path.as_uri(), report.figures.to_dict())
        return pages[name]

    return of


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    one = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    yield one
    one.close()


def _open(context: BrowserContext, made: Made) -> tuple[Page, Heard]:
    page, heard = context.new_page(), Heard()
    page.on("console", lambda message: heard.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda problem: heard.said.append(str(problem)))
    page.on("request", lambda request: heard.asked.append(request.url))
    page.goto(made.url)
    page.wait_for_selector("html[data-charts=drawn]")
    return page, heard


@pytest.fixture(scope="module")
def opened(browser: Browser, made: Callable[[str], Made]) -> Iterator[tuple[Page, Heard]]:
    """The page of one sample with its pictures, for all tests that may share it; see `shown`."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield _open(context, made(_SAMPLE))
    context.close()


@pytest.fixture
def shown(opened: tuple[Page, Heard]) -> tuple[Page, Heard]:
    """That page as it was in the beginning, whatever the test before did."""
    page, heard = opened
    page.emulate_media(media="screen", color_scheme="light")
    page.evaluate("() => { delete document.documentElement.dataset.theme; }")
    for button in page.locator("button.open[aria-expanded=true]").all():
        button.click()
    return page, heard


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _BY_DAY else pytest.mark.long) for name in sorted(_PAIRS)]
)
def test_a_page_draws_and_says_what_the_json_says(
    name: str, context: BrowserContext, made: Callable[[str], Made]
) -> None:
    """No word on the console, no request but for the file itself, every picture drawn, and the figures of the JSON; on
    a narrow screen nothing is cut off, and nothing but tables in their boxes scrolls sideways."""
    one = made(name)
    page, heard = _open(context, one)
    assert heard.asked == [one.url]
    for fold in page.locator("details:has(.plot) > summary").all():
        fold.click()
    plots = page.locator(".plot").count()
    assert plots >= 5
    page.locator(".plot svg").nth(plots - 1).wait_for()
    assert heard.said == []
    matched, pictures = one.figures["matched"], one.figures["pictures"]
    sides = ("client_ms", "server_ms", "network_ms")
    for key in sides:
        assert page.locator(f"[data-figure={key}]").get_attribute("value") == json.dumps(matched["total"][key]["mean"])
    assert one.figures["verdict"]["text"] in page.locator(".verdict").inner_text().replace("\n", " ").replace(
        "\xa0", " "
    )
    slow = page.locator("#slowest tr.head").evaluate_all(_ROWS)
    assert slow == [[op[key] for key in sides] for op in pictures["slowest"]]
    rows = page.locator("table.ops tbody tr").evaluate_all(_ROWS)
    columns = ("mean", "p50", "p95", "p99", "max")
    by_op = [[op[key][column] for column in columns] for op in matched["by_op"] for key in sides]
    assert rows[: len(by_op)] == by_op
    heat = pictures["over_time"]["heat"]
    assert page.evaluate(_CELLS) == [heat[side] for side in ("client", "network", "server")]
    levels = page.evaluate(_LEVELS)
    assert all(below <= above + 1 for above, below in zip([0, *levels], levels, strict=False))
    assert page.locator("th:not([scope])").count() == 0
    page.locator("#slowest button.open").first.click()
    boxes = "() => [...document.querySelectorAll('.box')]"
    assert page.evaluate(f"{boxes}.every((box) => box.tabIndex === 0 && box.getAttribute('aria-label'))")
    for width in (768, 320):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("(width) => document.documentElement.scrollWidth <= width", arg=width)
    page.wait_for_function(f"() => !({TEXTS_CUT})().length")
    assert heard.said == []


def test_a_slow_op_opens_to_its_packets_by_click_and_key(
    shown: tuple[Page, Heard], made: Callable[[str], Made]
) -> None:
    """A click shows the frames of both files, Enter hides them; the button says which it is, and Tab goes on inside,
    where one sees where one is."""
    page, _ = shown
    button = page.locator("#slowest button.open").first
    row = page.locator("#slow-1")
    assert not row.is_visible()
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    text = row.inner_text()
    for event in made(_SAMPLE).figures["pictures"]["slowest"][0]["timeline"]:
        assert f"{event['what']}, frame {event['frame']}" in text
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.tagName") == "PRE"
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "false"
    assert not row.is_visible()


def test_a_filter_is_copied(shown: tuple[Page, Heard], made: Callable[[str], Made]) -> None:
    """What the button copies is the filter, and it says that it did."""
    page, _ = shown
    page.locator("#slowest button.open").first.click()
    page.locator("#slow-1 button.copy").first.click()
    page.wait_for_selector("#slow-1 button.copy:text('Copied')")
    wanted = next(iter(made(_SAMPLE).figures["pictures"]["slowest"][0]["wireshark"].values()))
    assert page.evaluate("() => navigator.clipboard.readText()") == wanted


def test_evidence_is_copied_from_a_file_page(
    shown: tuple[Page, Heard], made: Callable[[str], Made], context: BrowserContext
) -> None:
    """With the clipboard of the browser, and without it: the answer and three operations as Markdown."""
    page, _ = shown
    page.locator("#handover > button.copy").click()
    page.wait_for_selector("#handover > button.copy:text('Copied')")
    text = page.evaluate("() => navigator.clipboard.readText()")
    figures = made(_SAMPLE).figures
    assert text.startswith("## ")
    assert text.count("XID 0x") == min(3, len(figures["pictures"]["slowest"]))
    assert text.count("display filter") >= 6
    page.wait_for_selector("#handover > button.copy:text('Copy as Markdown')")
    without = context.new_page()
    without.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    without.goto(made(_SAMPLE).url)
    without.locator("#handover > button.copy").click()
    without.wait_for_selector("#handover > button.copy:text('Copied')")


@pytest.mark.parametrize("width", [390, 768])
def test_on_a_narrow_screen_no_number_is_cut(width: int, context: BrowserContext, made: Callable[[str], Made]) -> None:
    """Of any table, with all that is folded open; the page does not scroll sideways, and its first screen holds the
    answer and what to do."""
    page, heard = _open(context, made(_SAMPLE))
    page.set_viewport_size({"width": width, "height": 844})
    for place in (".verdict", "#do h2"):
        box = page.locator(place).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 844
    for fold in page.locator("details:not([open]) > summary").all():
        if fold.is_visible():
            fold.click()
    page.locator("#slowest button.open").first.click()
    page.wait_for_function("(width) => document.documentElement.scrollWidth <= width", arg=width)
    if width == 390:
        assert page.evaluate(_NUMBERS_CUT) == []
        page.wait_for_function(f"() => !({TEXTS_CUT})().length")
    assert heard.said == []


def test_the_culprit_stands_out_in_light_dark_and_print(shown: tuple[Page, Heard]) -> None:
    """The layer that the verdict blames has the colour of the culprit, whatever the paper; the others have not."""
    page, _ = shown
    colour = "(name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()"
    blamed = page.evaluate("() => document.documentElement.dataset.culprit")
    assert blamed == "network"  # packets are lost
    for media, scheme in (("screen", "light"), ("screen", "dark"), ("print", "light")):
        page.emulate_media(media=media, color_scheme=scheme)  # type: ignore[arg-type]
        assert page.evaluate(colour, blamed) == page.evaluate(colour, "culprit")
        assert page.evaluate(colour, "server") != page.evaluate(colour, "culprit")


def test_colours_change_and_paper_is_white(shown: tuple[Page, Heard]) -> None:
    """The button and the system's setting both do; charts change with the text; a print is light, without buttons."""
    page, heard = shown

    def paper() -> str:
        return str(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))

    def fills() -> set[str]:
        """Of texts and of the cells of the heat map."""
        marks = "document.querySelectorAll('#chart-heat svg :is(text, path)')"
        return set(page.evaluate(f"() => [...{marks}].map((one) => getComputedStyle(one).fill)"))

    light, drawn = paper(), fills()
    page.locator("#theme").click()
    assert paper() != light
    assert fills() & drawn <= {"none", "rgba(0, 0, 0, 0)"}  # of lines, which have no inside
    assert page.locator("#theme").inner_text() == "Light colours"
    page.emulate_media(media="print")
    assert paper() == light
    assert not page.locator("nav").is_visible()
    assert not page.locator("#theme").is_visible()
    assert page.locator("#slow-1").is_visible()
    assert not page.locator("#slow-9").is_visible()
    page.emulate_media(media="screen", color_scheme="dark")
    page.locator("#theme").click()
    assert paper() == light
    assert heard.said == []


def test_the_first_tab_leads_past_the_contents(context: BrowserContext, made: Callable[[str], Made]) -> None:
    """Who goes by the keyboard need not go through all links."""
    page = context.new_page()
    page.goto(made(_SAMPLE).url)
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "answer"


def test_the_figures_of_a_picture_are_a_table(shown: tuple[Page, Heard], made: Callable[[str], Made]) -> None:
    """Who does not see a picture hears what it shows, and can read what it is drawn from, with its units."""
    page, _ = shown
    page.locator("#chart-heat details.figures summary").click()
    table = page.locator("#chart-heat details.figures table").filter(has_text="Cells: Client SRT")
    table.wait_for()
    assert table.locator("caption").inner_text() == "Cells: Client SRT"
    heads = ["sent from, s", "sent until, s", "latency more than, ms", "latency at most, ms", "ops (count)"]
    assert table.locator("thead th").all_inner_texts() == heads
    cells = made(_SAMPLE).figures["pictures"]["over_time"]["heat"]["client"]
    assert table.locator("tbody td:last-child").all_inner_texts() == [str(n) for *_, n in cells]
    plots = page.locator(".plot")
    assert all((plot.get_attribute("aria-label") or "") != "" for plot in plots.all())
    assert {plot.get_attribute("role") for plot in plots.all()} == {"img"}


def test_without_a_script_all_is_there(browser: Browser, made: Callable[[str], Made]) -> None:
    """A mail program that runs no script shows the verdict, the tables and the packets."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(made(_SAMPLE).url)
    assert page.locator(".verdict").is_visible()
    assert page.locator("#slow-1").is_visible()
    assert not page.locator("#theme").is_visible()
    context.close()


def test_it_is_read_before_it_is_drawn(shown: tuple[Page, Heard], made: Callable[[str], Made]) -> None:
    """The library is not run until the page has been painted, and the page is small enough for a mail."""
    page, _ = shown
    painted, run = (
        page.evaluate(f"() => performance.getEntriesByName('{name}')[0].startTime")
        for name in ("first-contentful-paint", "nfslat-library")
    )
    assert painted <= run
    assert Path(made(_SAMPLE).url.removeprefix("file://")).stat().st_size < 3_000_000
