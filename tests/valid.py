"""JSON that nfslat wrote -> whether its schema allows it; that the schema is one is held by test_contract.py."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema


@cache
def validator(document: Any) -> jsonschema.Draft202012Validator:
    """Of a document of the contract, as ``Report``."""
    return jsonschema.Draft202012Validator(document.json_schema())
