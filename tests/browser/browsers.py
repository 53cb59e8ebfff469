"""A Chromium for the tests that look at pages, where there is one and playwright is installed."""

from __future__ import annotations

import os
import shutil

import pytest

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """Path of a Chromium in PATH; Debian has one without windows in the package chromium-headless-shell."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def arguments() -> list[str]:
    """Its sandbox needs a user that is not root."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


needs_browser = pytest.mark.skipif(find_browser() is None, reason=f"no browser: none of {', '.join(_NAMES)} in PATH")
