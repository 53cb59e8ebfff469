"""The classes of a report -> plain dictionaries and lists -> JSON."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

from msgspec import Struct

# ensure_ascii stays on: a path whose bytes are not UTF-8 could not be written otherwise.
_ENCODE = json.JSONEncoder(allow_nan=False).encode
_QUOTED = json.encoder.encode_basestring_ascii
_AS_THEY_ARE = {str, int, float, bool, type(None)}


def text(value: Any, indent: str = "\n") -> str:
    """Plain `value` as JSON, indented; a list of numbers is one line, for some are long."""
    kind = type(value)
    # Most of a report are numbers and strings, for each of which the encoder would begin anew.
    if kind is int or (kind is float and math.isfinite(value)):
        return repr(value)
    if kind is str:
        return _QUOTED(value)
    if value is None:
        return "null"
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        items = [f"{_QUOTED(key)}: {text(item, deeper)}" for key, item in value.items()]
        return "{" + deeper + f",{deeper}".join(items) + indent + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list | str) for item in value):
        return "[" + deeper + f",{deeper}".join([text(item, deeper) for item in value]) + indent + "]"
    return _ENCODE(value)


def plain(value: Any) -> Any:
    """Dictionaries, lists, strings and numbers; keys in the order in which the fields are declared."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in names(type(value))}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


@cache
def names(of: type[Struct]) -> tuple[str, ...]:
    """Fields as they are declared, those of a base first."""
    bases = [vars(base).get("__annotations__", {}) for base in reversed(of.__mro__)]
    return tuple(name for base in bases for name in base if name in of.__struct_fields__)
