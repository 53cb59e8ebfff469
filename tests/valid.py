"""JSON that nfslat wrote -> whether its schema allows it; a schema is held against its own rules once."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema


@cache
def validator(document: Any) -> jsonschema.Draft202012Validator:
    """Of a document of the contract, as ``Report``."""
    schema = document.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
