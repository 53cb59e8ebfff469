"""What the fleet's JSON promises: it is the model, and the published schema describes exactly that model."""

from __future__ import annotations

import dataclasses
import io
import json
import types
import typing
from collections.abc import Callable
from typing import Any

import fleet_by_hand
import jsonschema
import pytest
from examples import examples
from fleet_by_hand import few, fleets, mixed, story, without_server
from hypothesis import HealthCheck, Phase, given, settings

from nfslat.answer import json as report_json
from nfslat.answer.figures import Summary
from nfslat.answer.model import Clock, ClockStep, Level, ServerInFlight, Tool, Verdict
from nfslat.fleet import model
from nfslat.fleet.as_json import schema, to_dict, write

_OWN = [
    c
    for c in vars(model).values()
    if dataclasses.is_dataclass(c) and isinstance(c, type) and c.__module__ == model.__name__
]
_TAKEN = [Tool, Summary, Level, ServerInFlight, ClockStep, Clock, Verdict]  # from the two-sided report


def _definition(cls: type) -> dict[str, Any]:
    whole = schema()
    return whole if cls is model.Fleet else typing.cast(dict[str, Any], whole["$defs"][cls.__name__])


def _json_types(annotation: Any) -> set[str]:
    """The JSON types that a field of this annotation can have; a dataclass is ``$ref`` and its name."""
    if isinstance(annotation, types.UnionType):
        return set().union(*map(_json_types, typing.get_args(annotation)))
    origin = typing.get_origin(annotation) or annotation
    if dataclasses.is_dataclass(origin):
        return {f"#/$defs/{origin.__name__}"}  # type: ignore[union-attr]
    names = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
    return {{**names, tuple: "array", type(None): "null"}[origin]}


def _schema_types(prop: dict[str, Any]) -> set[str]:
    """The JSON types that a property allows, in the same words."""
    if "anyOf" in prop:
        return set().union(*map(_schema_types, prop["anyOf"]))
    if "$ref" in prop:
        return {prop["$ref"]}
    if "const" in prop or "enum" in prop:
        return {"string"}
    return {prop["type"]} if isinstance(prop["type"], str) else set(prop["type"])


def test_the_fleets_schema_is_a_schema() -> None:
    """The published file is valid JSON Schema, draft 2020-12, and names the contract of the model."""
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["properties"]["schema"]["const"] == model.SCHEMA


@pytest.mark.parametrize("cls", [*_OWN, *_TAKEN], ids=lambda cls: cls.__name__)
def test_the_fleets_schema_has_the_fields_of_the_model(cls: type) -> None:
    """Each dataclass has a definition with exactly its fields, in their order, typed, described and required."""
    definition = _definition(cls)
    hints = typing.get_type_hints(cls)
    assert list(definition["properties"]) == [field.name for field in dataclasses.fields(cls)]
    assert definition["required"] == list(definition["properties"])
    assert definition["additionalProperties"] is False
    assert definition["description"]
    for name, prop in definition["properties"].items():
        assert _schema_types(prop) == _json_types(hints[name]), name


@pytest.mark.parametrize("cls", _TAKEN, ids=lambda cls: cls.__name__)
def test_what_both_contracts_have_is_the_same(cls: type) -> None:
    """Whoever reads a clock or a verdict of the two-sided report can read the fleet's."""
    assert _definition(cls) == report_json.schema()["$defs"][cls.__name__]


def test_the_fleets_schema_defines_nothing_else() -> None:
    """A definition that the model no longer has would be a promise that nobody keeps."""
    assert set(schema()["$defs"]) == {cls.__name__ for cls in [*_OWN, *_TAKEN]} - {"Fleet"}


@pytest.mark.parametrize("make", [story, few, mixed, without_server], ids=lambda make: make.__name__)
def test_a_fleet_by_hand_is_valid(make: Callable[[], model.Fleet]) -> None:
    """The fleets of the renderers' tests are such as the contract allows, and read back as they were written."""
    stream = io.StringIO()
    write(make(), stream)
    read = json.loads(stream.getvalue())
    jsonschema.Draft202012Validator(schema()).validate(read)
    assert read == to_dict(make())
    assert list(read) == [field.name for field in dataclasses.fields(model.Fleet)]


@given(fleet=fleets())
@settings(max_examples=examples(25), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_any_fleet_is_valid_and_survives_the_round_trip(fleet: model.Fleet) -> None:
    """Whatever is in a fleet, its JSON validates against the schema and reads back as the same values."""
    stream = io.StringIO()
    write(fleet, stream)
    stream.getvalue().encode("ascii")
    read = json.loads(stream.getvalue())
    jsonschema.Draft202012Validator(schema()).validate(read)
    assert read == to_dict(fleet)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(extra=1),
        lambda d: d.pop("problems"),
        lambda d: d["clients"][0].update(state="lost"),
        lambda d: d["verdict"].update(layer="disk"),
        lambda d: d["run"]["tasks"].update(late=1),
        lambda d: d["server"]["windows"][-1]["threads_range"].append(9),
        lambda d: d["patterns"][0].update(p_value=1.5),
    ],
    ids=["unknown key", "missing key", "unknown state", "unknown layer", "unknown task", "three bounds", "chance"],
)
def test_the_fleets_schema_refuses_what_the_model_has_not(spoil: Callable[[dict[str, Any]], object]) -> None:
    """A report with one thing wrong does not validate."""
    document = to_dict(fleet_by_hand.story(2))
    jsonschema.Draft202012Validator(schema()).validate(document)
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate(document)


def test_no_number_that_json_has_not_is_written() -> None:
    """NaN would be read by some programs and not by others."""
    fleet = dataclasses.replace(story(2), window_s=float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        write(fleet, io.StringIO())
