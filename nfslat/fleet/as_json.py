"""Fleet -> JSON: the contract ``nfslat.fleet/1`` as dictionaries, as text on a stream, and as a JSON Schema."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, TextIO, cast

from nfslat.answer.json import plain, text
from nfslat.fleet.model import Fleet


def to_dict(fleet: Fleet) -> dict[str, Any]:
    """The report as dictionaries, lists, strings and numbers; keys in the order in which the model declares them."""
    return cast(dict[str, Any], plain(fleet))


def write(fleet: Fleet, out: TextIO) -> None:
    """Write the report to `out`. Raises ``ValueError`` on NaN and infinity, which JSON does not have."""
    out.write(text(to_dict(fleet)) + "\n")


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every fleet's report satisfies."""
    found = resources.files("nfslat.fleet").joinpath("schema.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(found))
