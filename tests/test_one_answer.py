"""The answer does not depend on how the data was cut: whole, in blocks, live, in a fleet, stored, from pipes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from captures import needs_native
from one_answer import MODES, PAIRS, Compared, Mode, NotAskedError, compare, differing, leaves

pytestmark = needs_native

# Loss, few slots, a dozen operations, few threads for half of the time, a restart; and a healthy pair of which a part
# looks ill.
BY_DAY = (
    "samples/packet-loss samples/session-slots lab/i_v41_callback_recall lab2/cached_client lab2/half_threads "
    "lab2/v4_grace_restart"
).split()


@dataclass(frozen=True)
class Differences:
    """In what a mode is known to differ from the whole; an entry goes with its last case."""

    why: str
    answers: str = ""  # pairs with another outcome, layer, cause or confidence
    figures: str = ""  # sections of the report in which pairs of `BY_DAY` differ
    figures_of_others: str = ""  # sections in which only others do


_SEGMENTS = "segments of TCP are not kept for a fleet, and tell of clocks, and of the time to the capture"

KNOWN = {
    "fleet": Differences(f"{_SEGMENTS}; it has no pictures", figures="charges clock findings matched pictures"),
}
_NONE = Differences("")


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Compared]:
    """Reads a pair in a mode and holds it against the whole, once in all processes of pytest-xdist."""
    ours = tmp_path_factory.getbasetemp()
    folder = (ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours) / "one_answer"
    folder.mkdir(exist_ok=True)

    def kept(mode: str, name: str) -> Compared:
        path = folder / f"{mode}-{name.replace('/', '-')}"
        if not path.exists():
            part = tmp_path_factory.mktemp("part") / path.name
            part.write_bytes(pickle.dumps(compare(mode, PAIRS[name])))
            part.rename(path)  # at once: another process may be looking
        made: Compared = pickle.loads(path.read_bytes())  # noqa: S301  (written above, by this run)
        return made

    return kept


def _cases(*, of_answers: bool) -> list[Any]:
    """Pair by pair, so that each is read whole once."""
    cases = []
    for name in PAIRS:
        for mode in MODES:
            if MODES[mode].only_answer and not of_answers:
                continue
            known = KNOWN.get(mode, _NONE)
            marks = [] if name in BY_DAY else [pytest.mark.long]
            if of_answers and name in known.answers.split():
                marks.append(pytest.mark.xfail(raises=AssertionError, strict=True, reason=known.why))
            cases.append(pytest.param(mode, name, id=f"{mode}-{name}", marks=marks))
    return cases


@pytest.mark.parametrize(("mode", "name"), _cases(of_answers=True))
def test_the_answer_is_that_of_the_whole(mode: str, name: str, compared: Callable[[str, str], Compared]) -> None:
    """Outcome, layer, cause and confidence are the same to the letter."""
    try:
        made = compared(mode, name)
    except NotAskedError as problem:
        pytest.skip(str(problem))
    assert made.answer == made.whole


@pytest.mark.parametrize(("mode", "name"), _cases(of_answers=False))
def test_figures_are_those_of_the_whole(mode: str, name: str, compared: Callable[[str, str], Compared]) -> None:
    """Each leaf of the report is the same, but for those that say where operations came from, and sections in KNOWN."""
    try:
        made = compared(mode, name)
    except NotAskedError as problem:
        pytest.skip(str(problem))
    known = KNOWN.get(mode, _NONE)
    listed = {*known.figures.split(), *(() if name in BY_DAY else known.figures_of_others.split())}
    assert [line for section in sorted(set(made.sections) - listed) for line in made.examples(section, 5)] == []


@pytest.mark.skipif(not PAIRS.keys() >= {*BY_DAY}, reason="no captures at ../shared")
@pytest.mark.parametrize("night", [False, pytest.param(True, marks=pytest.mark.long)], ids=["day", "night"])
@pytest.mark.parametrize("mode", KNOWN)
def test_no_section_is_listed_without_a_case(mode: str, night: bool, compared: Callable[[str, str], Compared]) -> None:
    """A section in which no pair differs any more goes from KNOWN."""
    names, known = list(PAIRS) if night else BY_DAY, KNOWN[mode]
    differ: set[str] = set()
    for name in names:
        try:
            differ |= compared(mode, name).sections.keys()
        except NotAskedError:
            continue
    assert {*known.figures.split(), *(known.figures_of_others.split() if night else ())} <= differ


def test_each_entry_is_of_a_pair_and_a_mode() -> None:
    """A slip in KNOWN is none that stays."""
    assert KNOWN.keys() <= MODES.keys()
    if PAIRS.keys() >= {*BY_DAY}:
        assert {name for known in KNOWN.values() for name in known.answers.split()} <= PAIRS.keys()


def test_leaves_are_all_values() -> None:
    """By path, what is empty too."""
    assert dict(leaves({"a": [1, {"b": None}], "c": [], "d": {}})) == {"a.0": 1, "a.1.b": None, "c": [], "d": {}}


_STORED = Mode(lambda _: {}, apart=("captures.*.path",))


@pytest.mark.parametrize(
    ("a", "b", "mode", "paths"),
    [
        ({"x": 0.1 + 0.2}, {"x": 0.3}, _STORED, []),
        ({"x": 1.0}, {"x": 1.00000001}, _STORED, ["x"]),
        ({"x": 1e15}, {"x": 1e15 + 1}, _STORED, []),
        ({"x": 10**15}, {"x": 10**15 + 1}, _STORED, ["x"]),
        ({"x": 0}, {"x": None}, _STORED, ["x"]),
        ({"x": 0}, {"x": False}, _STORED, ["x"]),
        ({"x": []}, {"x": ["a"]}, _STORED, ["x", "x.0"]),
        ({"x": ["a"], "y": 1}, {"y": 1}, _STORED, ["x.0"]),
        ({"nfslat": {"command": "a"}}, {"nfslat": {"command": "b"}}, _STORED, []),
        ({"captures": {"client": {"path": "a"}}}, {"captures": {"client": {"path": "b"}}}, _STORED, []),
        ({"captures": {"a": {"paths": 1}}}, {"captures": {"a": {"paths": 2}}}, _STORED, ["captures.a.paths"]),
    ],
)  # fmt: skip
def test_what_differs(a: dict[str, Any], b: dict[str, Any], mode: Mode, paths: list[str]) -> None:
    """Floats differ beyond the order of their sum, all else in any way."""
    assert list(differing(a, b, mode)) == paths
