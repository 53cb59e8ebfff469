"""The contract of every JSON report: its schema is made from dataclasses and comments, and what is written is read."""

from __future__ import annotations

import dataclasses
import enum
import importlib.util
import io
import json
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer import model, schema
from nfslat.answer.contract import BothSides, Count, Document, Layer, Must, Share
from nfslat.errors import InputError
from nfslat.model.record import Record
from nfslat.model.tables import Miss, State

ROOT = Path(__file__).parents[1]
ROOMS = ["answer", "tcp", "diff", "diff/tcp", "fleet", "packets", "series"]


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(Record):
    """A part; ``parts`` may be None."""

    name: str
    size: Count  # bytes
    at: tuple[float, float] | None  # None where it is nowhere


class Small(Document):
    """Everything that a field can be."""

    made_by: ClassVar[str] = "small --json"

    schema: Annotated[str, Must(const="small/1")]
    text: str
    flag: bool
    number: float | None
    share: Share
    colour: Colour | None
    # which of the three it is, said above the field as it is so long, and
    # beside it
    layer: Layer | None  # True or None
    by_side: BothSides[Count]
    parts: list[Part]
    names: tuple[str, ...]
    cells: list[tuple[int, int]]
    free: dict[str, Any]
    part: Part | None = None
    many: list[Part] = []


_INTEGER = st.integers(-(2**60), 2**60)
_NUMBER = st.floats(-1e18, 1e18) | _INTEGER
_PART = st.builds(Part, st.text(max_size=5), st.integers(0, 9), st.none() | st.tuples(_NUMBER, _NUMBER))
_SMALL = st.builds(
    Small,
    schema=st.just("small/1"),
    text=st.text(max_size=5),
    flag=st.booleans(),
    number=st.none() | _NUMBER,
    share=st.floats(0, 1),
    colour=st.none() | st.sampled_from(Colour),
    layer=st.none() | st.sampled_from(["server", "network", "client"]),
    by_side=st.fixed_dictionaries({"server": st.integers(0, 9), "client": st.integers(0, 9)}),
    parts=st.lists(_PART, max_size=2),
    names=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    cells=st.lists(st.tuples(_INTEGER, _INTEGER), max_size=2),
    free=st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3) | st.lists(_INTEGER), max_size=2),
    part=st.none() | _PART,
    many=st.lists(_PART, max_size=1),
)
_WHOLE = Small("small/1", "", True, 1.5, 0.5, Colour.RED, "server", {"server": 1, "client": 2}, [Part("a", 1, (1, 2))],
               ("x",), [(1, 2)], {"any": [1]}, Part("b", 2, None))  # fmt: skip


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """scripts/generate as a module."""
    for needed in ("shtab", "argparse_manpage"):
        pytest.importorskip(needed)
    loader = SourceFileLoader("generate", str(ROOT / "scripts" / "generate"))
    spec = importlib.util.spec_from_loader("generate", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("room", ROOMS)
def test_the_schema_is_one(generator: ModuleType, room: str) -> None:
    """Each schema.json is a JSON Schema, and names the fields of its report; test_help.py holds what it says."""
    document = generator.DOCUMENTS[room]
    jsonschema.Draft202012Validator.check_schema(document.json_schema())
    assert list(document.json_schema()["properties"]) == [field.name for field in dataclasses.fields(document)]


def test_every_report_has_its_schema(generator: ModuleType) -> None:
    """Those that are generated are all that there are."""
    found = (path.parent.relative_to(ROOT / "nfslat").as_posix() for path in ROOT.glob("nfslat/**/schema.json"))
    assert sorted(generator.DOCUMENTS) == sorted(found)


def test_the_words_of_the_schema_are_those_of_the_tables() -> None:
    """States of messages and reasons for a miss stand as words in the model, to load quickly."""
    assert [state.name for state in State] == model.STATES
    assert [miss.name for miss in Miss if miss is not Miss.MATCHED] == model.MISSES


def test_a_schema_says_what_types_and_comments_say() -> None:
    """Types, limits and what a comment above or beside a field means, in the words of JSON; every field is required."""
    found = schema.schema(Small)
    fields = found["properties"]
    part = {"$ref": "#/$defs/Part"}
    assert (found["title"], found["$id"], found["description"]) == (
        "small/1",
        "urn:small:1",
        "Everything that a field can be.",
    )
    assert found["required"] == list(fields) == [field.name for field in dataclasses.fields(Small)]
    assert found["additionalProperties"] is False
    assert fields["schema"] == {"const": "small/1"}
    assert fields["number"] == {"type": ["number", "null"]}
    assert fields["share"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert fields["colour"] == {"enum": ["red", "blue", None]}
    assert fields["layer"] == {
        "enum": ["server", "network", "client", None],
        "description": "which of the three it is, said above the field as it is so long, and beside it true or null",
    }
    assert fields["parts"] == fields["many"] == {"type": "array", "items": part}
    assert fields["part"] == {"anyOf": [part, {"type": "null"}]}
    assert fields["cells"]["items"] == {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    assert fields["free"] == {"type": "object"}
    assert found["$defs"]["Part"]["description"] == "A part; `parts` may be null."
    assert found["$defs"]["Part"]["properties"]["size"] == {"type": "integer", "minimum": 0, "description": "bytes"}


@given(_SMALL)
def test_what_is_written_is_read(small: Small) -> None:
    """The same values, and the same text when written again; the schema accepts it."""
    out = io.StringIO()
    small.write_json(out)
    again = io.StringIO()
    found = Small.from_json(out.getvalue())
    assert found == small
    found.write_json(again)
    assert again.getvalue() == out.getvalue()
    jsonschema.Draft202012Validator(schema.schema(Small)).validate(json.loads(out.getvalue()))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["text"], 1, "text: 1 is not text"),
        (["flag"], 1, "flag: 1 is not true or false"),
        (["number"], True, "number: true is not a number"),
        (["share"], 1.5, "share: 1.5 (maximum: 1)"),
        (["colour"], "green", 'colour: "green" is none of red, blue'),
        (["by_side"], {"server": 1}, 'by_side: {"server": 1} (required: ["server", "client"])'),
        (["by_side", "client"], -1, "by_side.client: -1 (minimum: 0)"),
        (["parts"], None, "parts: null is not a list"),
        (["parts", 0], [], "parts[0]: [] is not an object"),
        (["parts", 0, "size"], 1.5, "parts[0].size: 1.5 is not an integer"),
        (["parts", 0, "at"], [1, 2, 3], "parts[0].at: [1, 2, 3] is not a list of 2"),
        (["parts", 0, "at"], [1, "2"], 'parts[0].at: "2" is not a number'),
        (["names"], "ab", 'names: "ab" is not a list'),
        (["free"], [], "free: [] is not an object"),
    ],
)
def test_what_is_wrong_is_named(path: list[Any], value: Any, said: str) -> None:
    """One line: the file, where in it, and what is there; the schema refuses the same."""
    document = json.loads(json.dumps(_WHOLE.to_dict()))
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(InputError) as problem:
        Small.from_json(json.dumps(document), "a.json")
    assert str(problem.value) == f"a.json: not a whole report of small/1: {said}"
    assert not jsonschema.Draft202012Validator(schema.schema(Small)).is_valid(document)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.json: not JSON (Expecting value: line 1 column 1 (char 0))"),
        ("[]", "a.json: its schema is 'None', not 'small/1'; make it with small --json"),
        ('{"schema": "small/2"}', "a.json: its schema is 'small/2', not 'small/1'; make it with small --json"),
        ('{"schema": "small/1"}', "a.json: not a whole report of small/1: text: missing"),
        ('{"schema": NaN}', "a.json: no report (NaN is no number of JSON)"),
        ('{"schema": 1e999}', "a.json: no report (1e999 is out of range)"),
    ],
)
def test_what_is_no_report(text: str, said: str) -> None:
    """Something else, another version's, and numbers that no report has."""
    with pytest.raises(InputError) as problem:
        Small.from_json(text, "a.json")
    assert str(problem.value) == said


def test_other_versions_of_a_contract_are_read() -> None:
    """Keys that a later version added are left out; those that it gave a default may be absent."""
    document = _WHOLE.to_dict()
    later = {**document, "added": 1, "parts": [{**document["parts"][0], "added": 2}]}
    assert Small.from_json(json.dumps(later)) == _WHOLE
    earlier = {key: value for key, value in document.items() if key not in ("part", "many")}
    assert Small.from_json(json.dumps(earlier)) == dataclasses.replace(_WHOLE, part=None, many=[])
