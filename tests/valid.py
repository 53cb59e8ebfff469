"""JSON that nfslat wrote -> whether its schema allows it; that the schema is one is held by test_contract.py.

jsonschema takes longer for a report than nfslat for making it. What the schemas say is compiled to functions here, for
the few keywords that they have; jsonschema has the last word on what these refuse, and test_report_json.py holds that
they refuse what it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema

Check = Callable[[Any], bool]

_SAYS_NOTHING = {"$schema", "$id", "$defs", "title", "description", "format"}  # formats are not asserted by default


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Check] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


class Validator:
    """Of one schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.whole = jsonschema.Draft202012Validator(schema)
        self._defs, self._compiled = schema.get("$defs", {}), dict[str, Check]()
        self.allows = self._check(schema)

    def validate(self, document: Any) -> None:
        """Raises as jsonschema does."""
        if not self.allows(document):
            self.whole.validate(document)
            raise AssertionError("jsonschema allows it")

    def _check(self, schema: dict[str, Any]) -> Check:
        """Raises ``AttributeError`` on a keyword that is not known here."""
        made = [
            getattr(self, f"_of_{name.removeprefix('$')}")(value, schema)
            for name, value in schema.items()
            if name not in _SAYS_NOTHING
        ]
        return made[0] if len(made) == 1 else lambda value: all(check(value) for check in made)

    def _of_ref(self, name: str, _: dict[str, Any]) -> Check:
        name = name.removeprefix("#/$defs/")

        def check(value: Any) -> bool:  # a definition may name itself
            if name not in self._compiled:
                self._compiled[name] = self._check(self._defs[name])
            return self._compiled[name](value)

        return check

    def _of_type(self, names: str | list[str], _: dict[str, Any]) -> Check:
        checks = [_TYPES[name] for name in ([names] if isinstance(names, str) else names)]
        return checks[0] if len(checks) == 1 else lambda value: any(check(value) for check in checks)

    def _of_const(self, only: str, _: dict[str, Any]) -> Check:
        return self._of_enum([only], _)

    def _of_enum(self, values: list[str | None], _: dict[str, Any]) -> Check:
        allowed = set(values)
        assert all(isinstance(value, str | None) for value in values), "1 and true are equal in Python"
        return lambda value: isinstance(value, str | None) and value in allowed

    def _of_anyOf(self, schemas: list[dict[str, Any]], _: dict[str, Any]) -> Check:
        checks = [self._check(schema) for schema in schemas]
        return lambda value: any(check(value) for check in checks)

    def _of_minimum(self, least: float, _: dict[str, Any]) -> Check:
        return lambda value: not _is_number(value) or value >= least

    def _of_exclusiveMinimum(self, least: float, _: dict[str, Any]) -> Check:
        return lambda value: not _is_number(value) or value > least

    def _of_maximum(self, most: float, _: dict[str, Any]) -> Check:
        return lambda value: not _is_number(value) or value <= most

    def _of_items(self, schema: dict[str, Any], _: dict[str, Any]) -> Check:
        check = self._check(schema)
        return lambda value: not isinstance(value, list) or all(map(check, value))

    def _of_minItems(self, least: int, _: dict[str, Any]) -> Check:
        return lambda value: not isinstance(value, list) or len(value) >= least

    def _of_maxItems(self, most: int, _: dict[str, Any]) -> Check:
        return lambda value: not isinstance(value, list) or len(value) <= most

    def _of_properties(self, schemas: dict[str, dict[str, Any]], _: dict[str, Any]) -> Check:
        checks = {name: self._check(schema) for name, schema in schemas.items()}
        return lambda value: (
            not isinstance(value, dict) or all(checks[name](one) for name, one in value.items() if name in checks)
        )

    def _of_required(self, names: list[str], _: dict[str, Any]) -> Check:
        wanted = set(names)
        return lambda value: not isinstance(value, dict) or wanted <= value.keys()

    def _of_additionalProperties(self, schema: dict[str, Any] | bool, whole: dict[str, Any]) -> Check:
        known = set(whole.get("properties", ()))
        check = (lambda _: schema) if isinstance(schema, bool) else self._check(schema)
        return lambda value: (
            not isinstance(value, dict) or all(check(one) for name, one in value.items() if name not in known)
        )

    def _of_propertyNames(self, schema: dict[str, Any], _: dict[str, Any]) -> Check:
        check = self._check(schema)
        return lambda value: not isinstance(value, dict) or all(map(check, value))

    def _of_minProperties(self, least: int, _: dict[str, Any]) -> Check:
        return lambda value: not isinstance(value, dict) or len(value) >= least

    def _of_maxProperties(self, most: int, _: dict[str, Any]) -> Check:
        return lambda value: not isinstance(value, dict) or len(value) <= most


@cache
def validator(document: Any) -> Validator:
    """Of a document of the contract, as ``Report``."""
    return Validator(document.json_schema())
