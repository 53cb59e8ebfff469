"""The page of TCP conversations in a real browser: it draws, says nothing, fits, and a point leads to its frame."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import TEXTS_CUT, chromium, needs_browser
from drawn import capture, report_of, wan

if importlib.util.find_spec("playwright") is None:  # which takes a while to import
    pytest.skip("playwright is not installed", allow_module_level=True)
pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")
pytest.importorskip("jinja2", reason="jinja2 (the extra html) is not installed")

from nfslat.cli import main as cli
from nfslat.tcp.page import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of one capture, and of one from each end."""
    folder = tmp_path_factory.mktemp("transport")
    line = wan(80, again=3)
    one = folder / "one.html"
    one.write_text(render(report_of(line.trace())), encoding="utf-8")
    near = capture(folder, line, "near.pcap")
    far = line.write(folder / "far.pcap", there_ms=3.9, back_ms=-3.9, clock_ms=700)
    two = folder / "two.html"
    assert cli.main(["transport", str(near), str(far), "--html", str(two), "-q"]) == 0
    return {"one": one.as_uri(), "two": two.as_uri()}


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_it_draws_and_fits(browser: Browser, pages: dict[str, str], name: str, width: int, scheme: str) -> None:
    """All pictures, no message on the console, no request but for the page, no text that is cut, nothing that is wider
    than the screen."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda problem: said.append(str(problem)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(pages[name])
    page.wait_for_selector("html[data-charts=drawn]")
    assert said == []
    assert asked == [pages[name]]
    assert page.locator(".plot svg").count() == page.locator(".plot").count() > 5
    assert page.evaluate(TEXTS_CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_a_point_leads_to_its_frame(browser: Browser, pages: dict[str, str]) -> None:
    """A click on a delayed ACK shows the filter for its data and the ACK, to be copied."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(pages["one"])
    page.wait_for_selector("html[data-charts=drawn]")
    late = report_of(wan(80, again=3).trace()).details[0].pictures
    assert late is not None
    marks = page.locator("#chart-trips-0 .mark-symbol path[fill='var(--culprit)']")
    assert marks.count() > 1  # one of them is the legend's
    marks.nth(1).click(force=True)
    told = page.locator("#chart-trips-0 .picked code").inner_text()
    frames = [(one.data_frame, one.frame) for one in late.whole.ways[0].late]
    assert told in [f"frame.number in {{{a}, {b}}}" for a, b in frames]
    assert page.locator("#chart-trips-0 .picked button").get_attribute("data-copy") == told
    context.close()


def test_on_paper_all_pictures_are_there(browser: Browser, pages: dict[str, str], tmp_path: Path) -> None:
    """What is only for the screen is not: buttons, contents."""
    context = browser.new_context(viewport={"width": 800, "height": 900})
    page = context.new_page()
    page.goto(pages["one"])
    page.wait_for_selector("html[data-charts=drawn]")
    page.emulate_media(media="print")
    assert page.locator(".plot svg:visible").count() == page.locator(".plot").count()
    assert page.locator("nav:visible, button.copy:visible, .picked:visible").count() == 0
    context.close()
