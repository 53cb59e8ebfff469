"""A `Document` and the comments beside its fields -> the text of its JSON Schema, draft 2020-12 (scripts/generate)."""

from __future__ import annotations

import ast
import enum
import inspect
import io
import json
import re
import textwrap
import tokenize
import types
import typing
from collections import Counter
from typing import Any

from msgspec import Struct

from nfslat.answer.contract import Document
from nfslat.answer.json import names as names_of
from nfslat.answer.read import field_types

_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_PYTHON = {"None": "null", "True": "true", "False": "false", "``": "`"}
_WIDTH = 120


def text(document: type[Document]) -> str:
    """Of ``schema.json``, which lies beside the module of the document."""
    return _text(schema(document), "", 0) + "\n"


def schema(document: type[Document]) -> dict[str, Any]:
    """Made from the source of the classes, so that it needs that at hand."""
    classes = _classes(document, [])
    often = Counter(cls.__name__ for cls in classes)
    names = {
        cls: cls.__name__ if often[cls.__name__] == 1 else f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"
        for cls in classes
    }
    whole = _object(document, names)
    contract = whole["properties"]["schema"]["const"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{contract.replace('.', ':').replace('/', ':')}",
        "title": contract,
        **whole,
        "$defs": {names[cls]: _object(cls, names) for cls in classes if cls is not document},
    }


def _classes(hint: Any, found: list[type[Struct]]) -> list[type[Struct]]:
    """Classes of the report that a type names, and all that their fields name."""
    for inner in typing.get_args(hint):
        _classes(inner, found)
    if isinstance(hint, type) and issubclass(hint, Struct) and hint not in found:
        found.append(hint)
        for of_field in field_types(hint).values():
            _classes(of_field, found)
    return found


def _object(cls: type[Struct], names: dict[type, str]) -> dict[str, Any]:
    hints = field_types(cls)
    meaning, said = _comments(cls)
    fields = list(names_of(cls))
    return {
        "type": "object",
        "description": meaning,
        "properties": {
            name: {**_value(hints[name], names), **({"description": said[name]} if name in said else {})}
            for name in fields
        },
        "required": fields,
        "additionalProperties": False,
    }


def _value(hint: Any, names: dict[type, str]) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        musts = {key: value for must in hint.__metadata__ for key, value in must.keywords.items()}
        if "some_of" in musts:
            return {"type": "object", "properties": _object(musts["some_of"], names)["properties"]}
        return musts if musts.keys() & {"const", "enum"} else {**_value(inner[0], names), **musts}
    if origin in (types.UnionType, typing.Union):
        return _or_null(*(_value(one, names) for one in inner if one is not type(None)))
    if origin is list or (origin is tuple and inner[-1] is Ellipsis):
        return {"type": "array", "items": _value(inner[0], names)}
    if origin is tuple:
        (items,) = {json.dumps(_value(one, names)) for one in inner}  # of several kinds: that would be a class
        return {"type": "array", "items": json.loads(items), "minItems": len(inner), "maxItems": len(inner)}
    if origin is dict:
        values = {} if inner[1] is Any else {"additionalProperties": _value(inner[1], names)}
        return {"type": "object", **values}
    if hint in names:
        return {"$ref": f"#/$defs/{names[hint]}"}
    if hint in _KINDS:
        return {"type": _KINDS[hint]}
    members = inner if origin is typing.Literal else typing.cast(type[enum.Enum], hint)
    return {"enum": [member.value for member in members]}


def _or_null(value: dict[str, Any]) -> dict[str, Any]:
    if "enum" in value:
        return {**value, "enum": [*value["enum"], None]}
    if isinstance(value.get("type"), str):
        return {**value, "type": [value["type"], "null"]}
    return {"anyOf": [value, {"type": "null"}]}


def _comments(cls: type) -> tuple[str, dict[str, str]]:
    """The docstring; and field to the comment above it and beside it."""
    source = textwrap.dedent(inspect.getsource(cls))
    comments = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    lines, found = source.splitlines(), {}
    body = typing.cast(ast.ClassDef, ast.parse(source).body[0])
    for field in body.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            first, last = field.lineno, field.end_lineno or field.lineno
            while lines[first - 2].lstrip().startswith("#"):
                first -= 1
            words = [comments[line] for line in range(first, last + 1) if line in comments]
            if words:
                found[field.target.id] = _words(" ".join(words))
    return _words(ast.get_docstring(body) or ""), found


def _words(said: str) -> str:
    """A comment in the words of JSON."""
    said = " ".join(said.split())
    return re.sub(r"\b(None|True|False)\b|``", lambda found: _PYTHON[found[0]], said)


def _text(value: Any, indent: str, taken: int) -> str:
    """JSON in which what fits into a line is one; `taken` is the width of what stands before it."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or len(indent) + taken + len(line) < _WIDTH:
        return line
    deeper = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + _text(item, deeper, 1) for item in value) + f"\n{indent}]"
    items = [f"{deeper}{json.dumps(key)}: {_text(item, deeper, len(key) + 5)}" for key, item in value.items()]
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"
