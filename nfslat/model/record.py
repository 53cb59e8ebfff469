"""`Record`, what a report, its evidence and facts are made of: a frozen class with fields, of msgspec.

Dataclasses compile the methods of each class when it is imported, which took a third of the time of a small run. What
takes a dataclass (``dataclasses.replace``, ``fields``, ``asdict``) takes a record, too.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Self, dataclass_transform

from msgspec import Struct, field

_DECLARED: dict[type, dict[str, str]] = {}


def declared(of: type) -> dict[str, str]:
    """Fields with their types as they are written, those of a base first."""
    if of not in _DECLARED:
        hints = [hint for base in reversed(of.__mro__) for hint in inspect.get_annotations(base).items()]
        _DECLARED[of] = {name: str(hint) for name, hint in hints if not str(hint).startswith("ClassVar")}
    return _DECLARED[of]


def kept_fields(of: type) -> list[str]:
    """Fields of a record or a table that are stored, and merged with those of other parts of a capture: all but those
    that its ``OF_THIS_RUN`` names."""
    return [name for name in declared(of) if name not in getattr(of, "OF_THIS_RUN", ())]


@cache
def _fields(of: type) -> dict[str, Any]:
    import dataclasses  # noqa: PLC0415

    made: Any = dataclasses.make_dataclass(of.__name__, declared(of).items())
    return dict(made.__dataclass_fields__)


class Fields:
    """``__dataclass_fields__`` of a class that is none, made where something asks for them."""

    def __get__(self, _: object, of: type) -> dict[str, Any]:
        return _fields(of)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(Struct, frozen=True):
    """Fields that stay as they are made; `cached_property` needs ``dict=True``."""

    __dataclass_fields__ = Fields()

    @classmethod
    def like(cls, source: Any, **others: Any) -> Self:
        """What `source` has under the same names, and `others`."""
        return cls(**{name: getattr(source, name) for name in declared(cls) if name not in others}, **others)

    def plus(self, later: Self, **others: Any) -> Self:
        """Each field added to that of `later`, None where either is, but for `others`."""
        sums = {}
        for name in declared(type(self)).keys() - others.keys():
            before, now = getattr(self, name), getattr(later, name)
            sums[name] = None if before is None or now is None else before + now
        return type(self)(**sums, **others)
