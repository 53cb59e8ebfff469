"""Dataclasses -> plain dictionaries and lists -> JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any


def text(value: Any, indent: str = "\n") -> str:
    """Plain `value` as JSON, indented; a list of numbers is one line, for some are long."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        items = [f"{json.dumps(key)}: {text(item, deeper)}" for key, item in value.items()]
        return "{" + deeper + f",{deeper}".join(items) + indent + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list | str) for item in value):
        return "[" + deeper + f",{deeper}".join(text(item, deeper) for item in value) + indent + "]"
    # ensure_ascii stays on: a path whose bytes are not UTF-8 could not be written otherwise.
    return json.dumps(value, allow_nan=False)


def plain(value: Any) -> Any:
    """Dictionaries, lists, strings and numbers; keys in the order in which the fields are declared."""
    # dataclasses.asdict keeps tuples, which a JSON Schema does not accept as arrays.
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
