"""The HTML page in a real browser: it draws, asks no network, opens, copies, prints, and fits a narrow screen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import arguments, find_browser, needs_browser
from captures import SAMPLES, SHARED, needs_native

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")
pytest.importorskip("jinja2", reason="jinja2 (the extra html) is not installed")

import nfslat
from nfslat.report.json import to_dict

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [needs_browser, needs_native]
_LAB = ("d3_v3_loss1", "g_clock_step3s", "h_v42_metadata")
_PAIRS = {
    **{path.parent.name: path.parent for path in SAMPLES},
    **{name: SHARED / "lab" / name for name in _LAB if (SHARED / "lab" / name).is_dir()},
}
_SAMPLE = "packet-loss"


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
            pages[name] = Made(path.as_uri(), to_dict(report.figures))
        return pages[name]

    return of


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=find_browser(), args=arguments())
        yield chromium
        chromium.close()


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


@pytest.mark.parametrize("name", sorted(_PAIRS))
def test_a_page_draws_and_says_what_the_json_says(
    name: str, context: BrowserContext, made: Callable[[str], Made]
) -> None:
    """No word on the console, no request but for the file itself, every picture drawn, and the figures of the JSON."""
    one = made(name)
    page, heard = _open(context, one)
    assert heard.said == []
    assert heard.asked == [one.url]
    for fold in page.locator("details:has(.plot) > summary").all():
        fold.click()
    plots = page.locator(".plot").count()
    assert plots >= 5
    page.locator(".plot svg").nth(plots - 1).wait_for()
    assert heard.said == []
    total = one.figures["matched"]["total"]
    for key in ("client_ms", "network_ms", "server_ms"):
        assert page.locator(f"[data-figure={key}]").get_attribute("value") == json.dumps(total[key]["mean"])
    slow = [item.get_attribute("value") for item in page.locator("[data-figure=slow_client_ms]").all()]
    assert slow == [json.dumps(op["client_ms"]) for op in one.figures["pictures"]["slowest"]]
    assert one.figures["verdict"]["text"] in page.locator(".verdict").inner_text().replace("\n", " ")


def test_a_slow_op_opens_to_its_packets(context: BrowserContext, made: Callable[[str], Made]) -> None:
    """A click shows the frames of both files, a second one hides them; the button says which it is."""
    one = made(_SAMPLE)
    page, _ = _open(context, one)
    button = page.locator("#slowest button.open").first
    row = page.locator("#slow-1")
    assert not row.is_visible()
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    shown = row.inner_text()
    for event in one.figures["pictures"]["slowest"][0]["timeline"]:
        assert f"{event['what']}, frame {event['frame']}" in shown
    button.click()
    assert button.get_attribute("aria-expanded") == "false"
    assert not row.is_visible()


def test_a_filter_is_copied(context: BrowserContext, made: Callable[[str], Made]) -> None:
    """What the button copies is the filter, and it says that it did."""
    one = made(_SAMPLE)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, _ = _open(context, one)
    page.locator("#slowest button.open").first.click()
    button = page.locator("#slow-1 button.copy").first
    button.click()
    page.wait_for_selector("#slow-1 button.copy:text('Copied')")
    wanted = next(iter(one.figures["pictures"]["slowest"][0]["wireshark"].values()))
    assert page.evaluate("() => navigator.clipboard.readText()") == wanted


def test_colours_change_and_paper_is_white(context: BrowserContext, made: Callable[[str], Made]) -> None:
    """The button and the system's setting both do; charts change with the text; a print is light, without buttons."""
    page, heard = _open(context, made(_SAMPLE))

    def paper() -> str:
        return str(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))

    def tick() -> str:
        return str(page.evaluate("() => getComputedStyle(document.querySelector('.plot svg text')).fill"))

    light, ink = paper(), tick()
    page.locator("#theme").click()
    assert paper() != light
    assert tick() != ink
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


@pytest.mark.parametrize("width", [360, 390, 768])
def test_a_narrow_page_does_not_scroll_sideways(
    width: int, context: BrowserContext, made: Callable[[str], Made]
) -> None:
    """Tables scroll in boxes of their own, which the keyboard reaches."""
    page, _ = _open(context, made(_SAMPLE))
    page.set_viewport_size({"width": width, "height": 800})
    page.locator("#slowest button.open").first.click()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    boxes = "[...document.querySelectorAll('.box')]"
    assert page.evaluate(f"() => {boxes}.every((box) => box.tabIndex === 0 && box.getAttribute('aria-label'))")


def test_the_keyboard_is_enough(context: BrowserContext, made: Callable[[str], Made]) -> None:
    """The first Tab offers a way past the contents, and Enter opens an op; where one is can be seen."""
    page, _ = _open(context, made(_SAMPLE))
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "answer"
    page.locator("#slowest button.open").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#slow-1").is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.tagName") == "PRE"
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_the_figures_of_a_picture_are_a_table(context: BrowserContext, made: Callable[[str], Made]) -> None:
    """Who does not see a picture hears what it shows, and can read what it is drawn from."""
    page, _ = _open(context, made(_SAMPLE))
    page.locator("#chart-knee details.figures summary").click()
    rows = page.locator("#chart-knee details.figures tbody tr")
    rows.nth(1).wait_for()
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


def test_it_is_read_before_it_is_drawn(context: BrowserContext, made: Callable[[str], Made]) -> None:
    """The library is not run until the page has been painted, and the page is small enough for a mail."""
    page, _ = _open(context, made(_SAMPLE))
    painted, run = (
        page.evaluate(f"() => performance.getEntriesByName('{name}')[0].startTime")
        for name in ("first-contentful-paint", "nfslat-library")
    )
    assert painted < run
    assert Path(made(_SAMPLE).url.removeprefix("file://")).stat().st_size < 3_000_000
