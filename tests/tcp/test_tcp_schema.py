"""The published schema of `nfslat transport --json` describes exactly the dataclasses that the JSON is made of."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from importlib import resources
from typing import Any

import jsonschema
import pytest

from nfslat.tcp import model

_SCHEMA: dict[str, Any] = json.loads(resources.files("nfslat.tcp").joinpath("schema.json").read_text(encoding="utf-8"))
_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _name(cls: type) -> str:
    """Of a definition: module and class, for some classes of different modules have the same name."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


def _classes(annotation: Any, found: list[type]) -> list[type]:
    """The dataclasses that an annotation names, and all that their fields name."""
    for inner in typing.get_args(annotation):
        _classes(inner, found)
    if dataclasses.is_dataclass(annotation) and annotation not in found:
        found.append(typing.cast(type, annotation))
        for hint in typing.get_type_hints(annotation).values():
            _classes(hint, found)
    return found


def _value(annotation: Any) -> dict[str, Any]:
    """The schema of a field's value, but for descriptions."""
    inner = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        options = [_value(one) for one in inner]
        if all(list(one) == ["type"] for one in options):
            return {"type": [one["type"] for one in options]}
        return {"anyOf": options}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _value(inner[0])}
    if origin is tuple:
        assert len(set(inner)) == 1, "fields of several kinds belong into a dataclass"
        return {"type": "array", "items": _value(inner[0]), "minItems": len(inner), "maxItems": len(inner)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _value(inner[1])}
    if dataclasses.is_dataclass(annotation):
        return {"$ref": f"#/$defs/{_name(typing.cast(type, annotation))}"}
    if origin is typing.Literal:
        return {"enum": [one.value for one in inner]}
    if issubclass(annotation, enum.Enum):
        return {"enum": [one.value for one in annotation]}
    return {"type": _PLAIN[annotation]}


def _object(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    return {
        "type": "object",
        "properties": {name: _value(hints[name]) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _without_words(part: Any) -> Any:
    """Descriptions left out; a field of that name is no description."""
    if isinstance(part, list):
        return [_without_words(one) for one in part]
    if isinstance(part, dict):
        return {
            key: _without_words(one) for key, one in part.items() if not (key == "description" and isinstance(one, str))
        }
    return part


def test_the_schema_is_a_schema() -> None:
    """Valid JSON Schema, draft 2020-12, of the version that the report names."""
    assert _SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert _SCHEMA["title"] == model.SCHEMA
    jsonschema.Draft202012Validator.check_schema(_SCHEMA)


@pytest.mark.parametrize("cls", _classes(model.Report, []), ids=_name)
def test_the_schema_has_the_fields_of_the_dataclasses(cls: type) -> None:
    """Each dataclass of the report has a definition with exactly its fields, in their order, typed and required."""
    found = _without_words(_SCHEMA if cls is model.Report else _SCHEMA["$defs"].get(_name(cls)))
    want = _object(cls)
    if cls is model.Report:
        found = {key: found[key] for key in want}
        want["properties"]["schema"] = {"const": model.SCHEMA}
    assert found == want
    assert list(found["properties"]) == want["required"]


def test_the_schema_defines_nothing_else() -> None:
    """A definition that no dataclass has would be a promise that nobody keeps."""
    assert set(_SCHEMA["$defs"]) == {_name(cls) for cls in _classes(model.Report, [])} - {_name(model.Report)}
