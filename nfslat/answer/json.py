"""Report -> JSON: the contract ``nfslat.report/1`` as plain dictionaries, as text, and as a JSON Schema."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from importlib import resources
from typing import Any, TextIO, cast

from nfslat.answer.model import Report


def to_dict(report: Report) -> dict[str, Any]:
    """The report as dictionaries, lists, strings and numbers; keys in the order in which the model declares them."""
    return cast(dict[str, Any], plain(report))


def dump(report: Report, stream: TextIO) -> None:
    """Write the report to `stream`. Raises ``ValueError`` on NaN and infinity, which JSON does not have."""
    stream.write(text(to_dict(report)) + "\n")


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


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every report satisfies."""
    text = resources.files("nfslat.answer").joinpath("schema.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))


def plain(value: Any) -> Any:
    # dataclasses.asdict keeps tuples, which a JSON Schema does not accept as arrays.
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
