"""For all tests: how many examples are tried, from which seed, which tests wait for the night, and the two engines."""

from __future__ import annotations

import gc
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from captures import SAMPLES, Decoder, id_of
from hypothesis import settings
from kept_answers import Oracle, name_in

from nfslat.decode import tools as wireshark
from nfslat.decode.capture import Source
from nfslat.decode.engine import ENGINES
from nfslat.decode.tools import Tools, find_tools
from nfslat.model.decoded import Decoded

# No clock: a test that fails on a slow machine only is worth nothing. The seed that is printed repeats a run.
settings.register_profile("day", max_examples=20, deadline=None, database=None, print_blob=False)
settings.register_profile("long", settings.get_profile("day"), max_examples=1000)
settings.load_profile("day")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nfslat")
    group.addoption("--long", action="store_true", help="tests marked long, too, and a thousand examples of a property")
    group.addoption("--oracle", action="store_true", help="ask tshark anew, and keep what it says in tests/oracle/")
    group.addoption("--seed", type=int, help="repeat the run that printed this seed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before hypothesis reads its own options. The processes of pytest-xdist are given those of the first."""
    config.addinivalue_line("markers", "long: takes long, and something shorter holds much of it; scripts/test --long")
    config.addinivalue_line(
        "markers", "oracle: a capture is held against what tshark says of it; scripts/test --oracle"
    )
    option = config.option
    if option.long:
        option.hypothesis_profile = "long"
    if option.seed is None:
        option.seed = _seed_of_commit()
    option.hypothesis_seed = str(option.seed)


def _seed_of_commit() -> int:
    """Each commit has its own: the same examples wherever it is tested, others after the next. Else any."""
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        said = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    except OSError:
        said = ""
    return int(said[:8], 16) if said else random.SystemRandom().randrange(1 << 32)


def pytest_report_header(config: pytest.Config) -> str:
    return f"--seed {config.option.seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What waits for the night is left out by day; ``--oracle`` runs what asks tshark and no more."""
    for item in items:
        if "engine" in getattr(item, "fixturenames", ()):
            item.add_marker("oracle")
    config.stash[_THERE] = {item.nodeid for item in items}
    left_out = [
        item
        for item in items
        if (item.get_closest_marker("long") and not config.option.long)
        or (config.option.oracle and not item.get_closest_marker("oracle"))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]


def pytest_collection_finish() -> None:
    """What collecting leaves stays: to look through all of it for garbage again and again takes a tenth of the time."""
    gc.collect()
    gc.freeze()


_THERE = pytest.StashKey[set[str]]()


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """tshark, capinfos and mergecap as nfslat finds them."""
    return find_tools(tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="session", autouse=True)
def _kept_between_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What nfslat keeps for the next run lies where tests do, not with what the developer's own has kept."""
    with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(tmp_path_factory.getbasetemp().parent / "cache")):
        yield


@pytest.fixture(scope="session", autouse=True)
def _wireshark_is_asked_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Its version and its protocols do not change meanwhile; a tshark that a test made is asked each time."""
    ask, folder = wireshark._run, tmp_path_factory.getbasetemp()
    told: dict[tuple[str, ...], str] = {}

    def run(command: list[str], environment: dict[str, str]) -> str:
        if Path(command[0]).is_relative_to(folder):
            return ask(command, environment)
        if tuple(command) not in told:
            told[tuple(command)] = ask(command, environment)
        return told[tuple(command)]

    with mock.patch.object(wireshark, "_run", run):
        yield


@pytest.fixture(scope="session")
def oracle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """What tshark said of captures; asked anew, it is written down when all tests have run."""
    found: list[Tools] = []

    def tools() -> Tools:
        if not found:
            found.append(find_tools(tmp_path_factory.mktemp("tools")))
        return found[0]

    made = Oracle(tools, tmp_path_factory.mktemp("oracle"), anew=request.config.option.oracle)
    yield made
    if made.anew:
        there = request.config.stash[_THERE]
        for group in made.groups.values():
            group.write(lambda name: name.startswith("samples/") or name.partition(" ")[0] in there)


@pytest.fixture(scope="session")
def decoder(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Decodes real captures, each of them once for all tests."""
    ours = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each of its processes a folder in the one of the run.
    run = ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours
    (run / "decoded").mkdir(exist_ok=True)
    return Decoder(oracle, run / "decoded", tmp_path_factory.mktemp("scratch"))


def _engines() -> list[Any]:
    """By day the native engine alone."""
    return [pytest.param(name, marks=() if name == "native" else pytest.mark.long) for name in ENGINES]


@pytest.fixture(params=_engines())
def engine(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, oracle: Oracle, tmp_path_factory: Any
) -> str:
    """Runs a test with the native engine, and holds each capture that it decodes against what tshark says of it.

    By night the test is run with tshark a second time, as if nfslat took it by itself. Wireshark's tools are those of
    all tests, for asking them what they are takes as long as reading a small capture. A process that a test starts
    knows nothing of this: give it ``--engine`` with the name.
    """
    name: str = request.param
    monkeypatch.setattr("nfslat.decode.workspace.find_tools", lambda scratch: oracle.tools())
    if name == "tshark":
        monkeypatch.setattr("nfslat.decode.engine.DEFAULT", name)
        return name
    from nfslat.decode.blocks import Blocks

    whole, folder = Blocks.whole, tmp_path_factory.getbasetemp()
    group = Path(request.node.nodeid.partition("::")[0]).stem
    times: dict[str, int] = {}

    def held(blocks: Blocks) -> tuple[Source, Decoded]:
        source, decoded = whole(blocks)
        paths = [file.path for file in source.files]
        if len(paths) == 1 and paths[0].resolve() in SAMPLES:
            oracle.hold("samples", f"samples/{id_of(paths[0].resolve())}", source, decoded, once=True)
        elif all(path.is_file() and path.is_relative_to(folder) for path in paths):  # made by this test
            capture = name_in(source, folder)
            times[capture] = times.get(capture, 0) + 1
            oracle.hold(group, f"{request.node.nodeid} {capture} {times[capture]}", source, decoded)
        return source, decoded

    monkeypatch.setattr(Blocks, "whole", held)
    return name
