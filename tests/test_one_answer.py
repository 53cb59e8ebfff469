"""The answer does not depend on how the data was cut: whole, in blocks, live, in a fleet, stored, from pipes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from one_answer import MODES, PAIRS, Compared, Mode, NotAskedError, compare, differing, leaves

# Loss, few slots, a dozen operations, few threads for half of the time, a restart; and a healthy pair of which a part
# looks ill.
BY_DAY = (
    "samples/packet-loss samples/session-slots lab/i_v41_callback_recall lab2/cached_client lab2/half_threads "
    "lab2/v4_grace_restart"
).split()


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
            marks = [] if name in BY_DAY else [pytest.mark.long]
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
    """Each leaf of the report is the same, but for those that say where operations came from."""
    try:
        made = compared(mode, name)
    except NotAskedError as problem:
        pytest.skip(str(problem))
    assert [line for section in sorted(made.sections) for line in made.examples(section, 5)] == []


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
