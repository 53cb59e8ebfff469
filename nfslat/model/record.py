"""`Record`, what a report, its evidence and facts are made of: a frozen class with fields, of msgspec.

Dataclasses compile the methods of each class when it is imported, which took a third of the time of a small run. What
takes a dataclass (``dataclasses.replace``, ``fields``, ``asdict``) takes a record, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any, dataclass_transform

from msgspec import Struct, field


@cache
def _fields(of: type[Record]) -> dict[str, Any]:
    import dataclasses  # noqa: PLC0415

    made: Any = dataclasses.make_dataclass(of.__name__, of.__struct_fields__)
    return dict(made.__dataclass_fields__)


class _Fields:
    """``__dataclass_fields__``, made where something asks for them."""

    def __get__(self, _: Record | None, of: type[Record]) -> dict[str, Any]:
        return _fields(of)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(Struct, frozen=True):
    """Fields that stay as they are made; `cached_property` needs ``dict=True``."""

    __dataclass_fields__ = _Fields()
