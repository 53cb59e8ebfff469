"""For all tests: examples are the same on every run, Wireshark's tools are looked for once, and engines are chosen."""

from __future__ import annotations

import os

import pytest
from captures import Decoder, needs_native
from hypothesis import settings

from nfslat.decode.engine import ENGINES
from nfslat.decode.tools import Tools, find_tools

# The same examples every time, and no clock: a test that fails on a slow machine only is worth nothing.
settings.register_profile("nfslat", derandomize=True, deadline=None, database=None)
settings.load_profile("nfslat")


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """tshark, capinfos and mergecap as nfslat finds them."""
    return find_tools(tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="session")
def decoder(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Decodes real captures, each of them once for all tests."""
    ours = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each of its processes a folder in the one of the run.
    run = ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours
    (run / "decoded").mkdir(exist_ok=True)
    return Decoder(tools, run / "decoded", tmp_path_factory.mktemp("scratch"))


@pytest.fixture(params=[pytest.param(name, marks=needs_native if name == "native" else ()) for name in ENGINES])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, decoder: Decoder) -> str:
    """Runs a test once with each engine as the one that nfslat takes by itself.

    tshark is what it takes where the native decoder was not compiled. Wireshark's tools are those of all tests, for
    asking them what they are takes as long as reading a small capture; and what tshark made of a sample once is not
    asked for again. A process that a test starts knows nothing of this: give it ``--engine`` with the name.
    """
    name: str = request.param
    monkeypatch.setattr("nfslat.decode.workspace.find_tools", lambda scratch: decoder.tools)
    if name == "tshark":
        monkeypatch.setattr("nfslat.decode.engine.is_built", lambda: False)
        monkeypatch.setattr("nfslat.decode.tshark.engine.decode", decoder.by_tshark)
    return name
