"""What hosts, applications and tracers print, and what is read of it: each source has a file in cases/ of inputs, each
with a sentence of what it holds and, behind it, what is expected, a line a fact.

``python tests/evidence/test_inputs.py`` writes what is read now behind each input: look at the difference.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from nfslat.errors import InputError
from nfslat.evidence import snapshot
from nfslat.evidence.read import read

CASES, DATA = (Path(__file__).parent / name for name in ("cases", "data"))
_BEGIN, _EXPECTED = "=== ", "--- expected ---\n"


class Case(NamedTuple):
    """An input, and what is read of it."""

    sentence: str
    text: str
    expected: str


def cases_of(path: Path) -> list[Case]:
    """The cases of a file."""
    found = []
    for part in path.read_text().split(f"\n{_BEGIN}"):
        sentence, _, rest = part.removeprefix(_BEGIN).partition("\n")
        text, _, expected = rest.partition(_EXPECTED)
        found.append(Case(sentence, text, expected.strip("\n")))
    return found


def _input_of(text: str) -> str:
    """An input that other tests take, too, is a file of its own in data/."""
    return (DATA / text.strip().removeprefix("file: ")).read_text() if text.startswith("file: ") else text


def _plain(value: Any) -> Any:
    """For JSON: what a record holds, is not empty and no flag that is not set."""
    if dataclasses.is_dataclass(value):
        defaults = {name: each.default for name, each in inspect.signature(type(value)).parameters.items()}
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {
            name: _plain(each)
            for name, each in fields.items()
            if not _is_empty(each) and not (each is defaults.get(name) is False)
        }
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return float(f"{value:.12g}") if isinstance(value, float) else str(value) if not isinstance(value, int) else value


def _is_empty(value: Any) -> bool:
    return value is None or (not isinstance(value, np.ndarray | bool | int | float) and not value)


def _lines(name: str, value: Any) -> Iterator[str]:
    """A fact a line: of what has several parts, each part."""
    plain = _plain(value)
    if isinstance(plain, list) and any(isinstance(each, dict) for each in plain):
        yield from (f"{name}: {json.dumps(each, ensure_ascii=False)}" for each in plain)
    elif isinstance(plain, dict) and not dataclasses.is_dataclass(value):
        yield from (f"{name} {key}: {json.dumps(each, ensure_ascii=False)}" for key, each in plain.items())
    elif isinstance(plain, dict):
        for field in plain:
            yield from _lines(f"{name} {field}", getattr(value, field))
    else:
        yield f"{name}: {plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)}"


def read_of(kind: str, text: str) -> str:
    """What is read of a text, as cases have it."""
    text = _input_of(text)
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "file").write_text(text)
        try:
            found: Any = snapshot.read(str(path)) if kind == "host_texts" else read(str(path))
        except InputError as error:
            return f"refused: {str(error).removeprefix(f'{path}: ').replace(str(path), 'file')}"
        facts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found) if field.name != "name"}
        lines = (line for name, value in facts.items() if not _is_empty(value) for line in _lines(name, value))
        return "\n".join(lines).replace(str(path), "file")


_ALL = [(path.stem, case) for path in sorted(CASES.glob("*.txt")) for case in cases_of(path)]


@pytest.mark.parametrize(("kind", "case"), _ALL, ids=[f"{kind}: {case.sentence}" for kind, case in _ALL])
def test_an_input_is_read_as_expected(kind: str, case: Case) -> None:
    """Latencies, notes, when and where it was measured, and what is joined with operations."""
    assert read_of(kind, case.text) == case.expected


def _rewrite() -> None:
    for path in sorted(CASES.glob("*.txt")):
        parts = [f"{_BEGIN}{each.sentence}\n{each.text}{_EXPECTED}{read_of(path.stem, each.text)}\n"
                 for each in cases_of(path)]  # fmt: skip
        path.write_text("\n".join(parts))


if __name__ == "__main__":
    _rewrite()
