"""The JSON of a `contract.Document` -> its object, or one line that says which value is missing or wrong."""

from __future__ import annotations

import enum
import functools
import json
import types
import typing
from collections.abc import Callable
from typing import Any, NoReturn

from msgspec import NODEFAULT, Struct

from nfslat.errors import InputError

_Read = Callable[[Any], Any]
D = typing.TypeVar("D")
_LARGEST = 1 << 63  # no count, and no duration in ms, is larger; squares and products stay numbers, then
_LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "const": lambda value, limit: value == limit,
    "required": lambda value, keys: all(key in value for key in keys),
}
_SCALARS: dict[Any, tuple[str, tuple[type, ...]]] = {
    str: ("text", (str,)),
    bool: ("true or false", (bool,)),
    int: ("an integer", (int,)),
    float: ("a number", (int, float)),  # a whole number stays one, so that it is written as it was read
    type(None): ("null", (type(None),)),
}


def field_types(cls: type) -> dict[str, Any]:
    """The hint of each field of a class, with what stands in `Annotated`."""
    return typing.get_type_hints(cls, include_extras=True)


class _WrongError(Exception):
    """What is wrong, and where: keys and numbers from the outermost inwards."""

    def __init__(self, what: str, *path: str) -> None:
        super().__init__(what)
        self.what = what
        self.path = path

    def below(self, step: str) -> _WrongError:
        return _WrongError(self.what, step, *self.path)

    def __str__(self) -> str:
        where = "".join(self.path).removeprefix(".")
        return f"{where}: {self.what}" if where else self.what


def from_json(cls: type[D], text: str, name: str, made_by: str) -> D:
    """Raises ``InputError``: it begins with `name`, and names the command `made_by` where this is another report."""
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_float, parse_int=_int)
    except (ValueError, RecursionError) as problem:
        foreign = isinstance(problem, json.JSONDecodeError | RecursionError)
        raise InputError(f"{name}: {'not JSON' if foreign else 'no report'} ({problem})") from problem
    hints = field_types(cls)
    (wanted,) = (must.keywords["const"] for must in hints["schema"].__metadata__)
    found = value.get("schema") if isinstance(value, dict) else None
    if found != wanted:
        raise InputError(f"{name}: its schema is {str(found)[:60]!r}, not {wanted!r}; make it with {made_by}")
    try:
        return typing.cast(D, _reader(typing.cast(Any, cls))(value))
    except _WrongError as problem:
        raise InputError(f"{name}: not a whole report of {wanted}: {problem}") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _float(text: str) -> float:
    number = float(text)
    if abs(number) > _LARGEST:
        raise ValueError(f"{text[:20]} is out of range")
    return number


def _int(text: str) -> int:
    _float(text)
    return int(text)


@functools.cache
def _reader(hint: Any) -> _Read:
    """What reads a value of this type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _limited(_reader(inner[0]), hint.__metadata__)
    if origin in (types.UnionType, typing.Union):
        (other,) = (_reader(one) for one in inner if one is not type(None))
        return lambda value: None if value is None else other(value)
    if origin is list:
        return functools.partial(_items, _reader(inner[0]))
    if origin is tuple and inner[-1] is Ellipsis:
        items = _reader(list[inner[0]])  # type: ignore[valid-type]
        return lambda value: tuple(items(value))
    if origin is tuple:
        return _fixed(tuple(map(_reader, inner)))
    if origin is dict:
        return functools.partial(_mapping, _reader(inner[1]))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _object(hint)
    if hint is Any:
        return lambda value: value
    if origin is typing.Literal:
        return _word(inner)
    return _word(tuple(hint)) if issubclass(hint, enum.Enum) else _scalar(hint)


def _scalar(kind: Any) -> _Read:
    name, kinds = _SCALARS[kind]

    def read(value: Any) -> Any:
        if isinstance(value, kinds) and (kind is bool or not isinstance(value, bool)):
            return value
        raise _WrongError(f"{json.dumps(value)[:40]} is not {name}")

    return read


def _word(members: tuple[enum.Enum, ...]) -> _Read:
    """All members of an enumeration, or those that a ``Literal`` names."""
    by_value = {member.value: member for member in members}

    def read(value: Any) -> enum.Enum:
        if isinstance(value, str) and value in by_value:
            return by_value[value]
        raise _WrongError(f"{json.dumps(value)[:40]} is none of {', '.join(by_value)}")

    return read


def _limited(inner: _Read, musts: tuple[Any, ...]) -> _Read:
    """Limits only: words may be added to those of an `enum`."""
    limits = [(key, limit) for must in musts for key, limit in must.keywords.items() if key in _LIMITS]

    def read(value: Any) -> Any:
        found = inner(value)
        for key, limit in limits:
            if not _LIMITS[key](found, limit):
                raise _WrongError(f"{json.dumps(value)[:40]} ({key}: {json.dumps(limit)})")
        return found

    return read if limits else inner


def _items(each: _Read, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _WrongError(f"{json.dumps(value)[:40]} is not a list")
    found = []
    for item in value:
        try:
            found.append(each(item))
        except _WrongError as problem:
            raise problem.below(f"[{len(found)}]") from None
    return found


def _fixed(each: tuple[_Read, ...]) -> _Read:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(each):
            raise _WrongError(f"{json.dumps(value)[:40]} is not a list of {len(each)}")
        return tuple(one(item) for one, item in zip(each, value, strict=True))

    return read


def _mapping(each: _Read, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError(f"{json.dumps(value)[:40]} is not an object")
    found = {}
    for key, item in value.items():
        try:
            found[key] = each(item)
        except _WrongError as problem:
            raise problem.below(f".{key}") from None
    return found


def _object(cls: type[Struct]) -> _Read:
    hints = field_types(cls)
    names = cls.__struct_fields__
    defaults = [NODEFAULT] * (len(names) - len(cls.__struct_defaults__)) + list(cls.__struct_defaults__)
    fields = [(name, _reader(hints[name]), value is NODEFAULT) for name, value in zip(names, defaults, strict=True)]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _WrongError(f"{json.dumps(value)[:40]} is not an object")
        found = {}
        for name, each, needed in fields:
            if name in value:
                try:
                    found[name] = each(value[name])
                except _WrongError as problem:
                    raise problem.below(f".{name}") from None
            elif needed:
                raise _WrongError("missing", f".{name}")
        return cls(**found)

    return read
