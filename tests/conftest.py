"""For all tests: examples are the same on every run, and Wireshark's tools are looked for once."""

from __future__ import annotations

import pytest
from hypothesis import settings

from nfslat.decode.tools import Tools, find_tools

# The same examples every time, and no clock: a test that fails on a slow machine only is worth nothing.
settings.register_profile("nfslat", derandomize=True, deadline=None, database=None)
settings.load_profile("nfslat")


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """tshark, capinfos and mergecap as nfslat finds them."""
    return find_tools(tmp_path_factory.mktemp("tools"))
