"""What the JSON report promises: it is the model, and the published schema describes exactly that model."""

from __future__ import annotations

import dataclasses
import io
import json
import types
import typing
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfslat.answer import figures, model, pictures, pivots
from nfslat.answer.json import dump, schema, to_dict
from nfslat.model.tables import Miss, State

_MODEL = [
    c
    for module in (figures, pictures, pivots, model)
    for c in vars(module).values()
    if dataclasses.is_dataclass(c) and isinstance(c, type) and c.__module__ == module.__name__
]


def _definition(cls: type) -> dict[str, Any]:
    whole = schema()
    return whole if cls is model.Report else typing.cast(dict[str, Any], whole["$defs"][cls.__name__])


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
    if "anyOf" in prop and "type" not in prop:
        return set().union(*map(_schema_types, prop["anyOf"]))
    if "$ref" in prop:
        return {prop["$ref"]}
    if "const" in prop or "enum" in prop:
        return {"string"}
    return {prop["type"]} if isinstance(prop["type"], str) else set(prop["type"])


def test_the_schema_is_a_schema() -> None:
    """The published file is valid JSON Schema, draft 2020-12."""
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("cls", _MODEL, ids=lambda cls: cls.__name__)
def test_the_schema_has_the_fields_of_the_model(cls: type) -> None:
    """Each dataclass of the model has a definition with exactly its fields, in their order, typed and required."""
    definition = _definition(cls)
    hints = typing.get_type_hints(cls)
    assert list(definition["properties"]) == [field.name for field in dataclasses.fields(cls)]
    assert definition["required"] == list(definition["properties"])
    assert definition["additionalProperties"] is False
    for name, prop in definition["properties"].items():
        assert _schema_types(prop) == _json_types(hints[name]), name


def test_the_schema_defines_nothing_else() -> None:
    """A definition that the model no longer has would be a promise that nobody keeps."""
    assert set(schema()["$defs"]) == {cls.__name__ for cls in _MODEL} - {"Report"}


def test_the_schema_lists_every_state_and_every_miss() -> None:
    """The names of states and of reasons for a miss are those of the tables."""
    states = _definition(model.Capture)["properties"]["messages"]["propertyNames"]["enum"]
    misses = _definition(model.MatchedOps)["properties"]["unmatched"]["properties"]["client"]["propertyNames"]["enum"]
    assert states == [state.name for state in State]
    assert misses == [miss.name for miss in Miss if miss is not Miss.MATCHED]


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_report_is_valid_and_survives_the_round_trip(
    pictured: st.SearchStrategy[model.Report], data: st.DataObject
) -> None:
    """Whatever is in a report, its JSON validates against the schema and reads back as the same values."""
    report = data.draw(pictured)
    stream = io.StringIO()
    dump(report, stream)
    read = json.loads(stream.getvalue())
    jsonschema.Draft202012Validator(schema()).validate(read)
    assert read == to_dict(report)
    assert list(read) == [field.name for field in dataclasses.fields(model.Report)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(extra=1),
        lambda d: d.pop("notes"),
        lambda d: d["captures"].pop("client"),
        lambda d: d["captures"]["server"]["messages"].update(LOST=1),
        lambda d: d["verdict"].update(layer="disk"),
        lambda d: d["clock"]["bound_ms"].append(1.0),
    ],
    ids=["unknown key", "missing key", "one side missing", "unknown state", "unknown layer", "three bounds"],
)
def test_the_schema_refuses_what_the_model_has_not(
    small: Callable[[], model.Report], spoil: Callable[[dict[str, Any]], object]
) -> None:
    """A report with one thing wrong does not validate."""
    document = to_dict(small())
    jsonschema.Draft202012Validator(schema()).validate(document)
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate(document)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_number_is_an_error(small: Callable[[], model.Report], value: float) -> None:
    """NaN and infinity are not JSON, and are never written."""
    report = small()
    assert report.clock is not None
    report = dataclasses.replace(report, clock=dataclasses.replace(report.clock, theta_ms=value))
    with pytest.raises(ValueError, match="JSON compliant"):
        dump(report, io.StringIO())
