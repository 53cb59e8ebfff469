"""A Chromium for the tests that look at pages, where there is one and playwright is installed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Texts of pictures that stick out of them.
TEXTS_CUT = """() => [...document.querySelectorAll('.plot svg')].flatMap((svg) => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter((text) => {
    const own = text.getBoundingClientRect();
    return own.width && (own.right > box.right + 1 || own.left < box.left - 1);
  }).map((text) => text.textContent);
})"""
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """Path of a Chromium in PATH; Debian has one without windows in the package chromium-headless-shell."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """One that runs. Its sandbox needs a user that is not root."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = play.chromium.launch(executable_path=find_browser(), args=arguments)
        yield opened
        opened.close()


needs_browser = pytest.mark.skipif(find_browser() is None, reason=f"no browser: none of {', '.join(_NAMES)} in PATH")
