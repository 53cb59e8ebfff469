"""Records of tables -> their columns and a JSON value of all else, and back, by their annotations alone.

A field that is added to one of them is kept without a word here; one whose type is new fails in the tests.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nfslat.model.record import kept_fields

Column = npt.NDArray[Any] | list[bytes]
Columns = dict[str, Column]  # of one length
Tables = dict[str, Columns]  # by the names of the fields that lead to them: "details.tcp"
_ITEMS = ""  # the one column of a list of bytes
_PLAIN = (int, str, bool, float)


def pack(hint: Any, value: Any, name: str, tables: Tables) -> Any:
    """What JSON can hold of `value`, whose type is `hint`; columns go to `tables`. ``TypeError``: not known how."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        hints = _hints(hint)
        columns: Columns = {field: getattr(value, field) for field, of in hints.items() if _is_column(of)}
        if columns:
            tables[name] = columns
        rest = {field: of for field, of in hints.items() if field not in columns}
        return {field: pack(of, getattr(value, field), _under(name, field), tables) for field, of in rest.items()}
    if hint in _PLAIN:
        return hint(value)
    if hint is bytes:
        return value.hex()
    if hint is Path:
        return str(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value).name
    if isinstance(hint, type) and hasattr(hint, "_fields"):  # NamedTuple
        return [pack(of, one, name, tables) for of, one in zip(_hints(hint).values(), value, strict=True)]
    if hint == tuple[bytes, ...]:  # may be very many: file names, handles
        tables[name] = {_ITEMS: list(value)}
        return None
    if origin is tuple and inner[1:] == (...,):
        return [pack(inner[0], one, name, tables) for one in value]
    if origin in (dict, Mapping):
        return [[pack(inner[0], key, name, tables), pack(inner[1], one, name, tables)] for key, one in value.items()]
    if origin in (types.UnionType, typing.Union) and (of := _other_than_none(inner)) is not None:
        return None if value is None else pack(of, value, name, tables)
    raise TypeError(f"{name}: no way to keep {hint}")


def unpack(hint: Any, packed: Any, name: str, table: Callable[[str, dict[str, Any]], Columns]) -> Any:
    """What `pack` packed. `table` gives the columns of a name; it is told their dtypes, None for bytes.

    Raises ``TypeError``, ``ValueError``, ``KeyError`` or ``AttributeError`` where it is something else.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        hints = _hints(hint)
        dtypes = {field: np.dtype(typing.get_args(of)[1].__args__[0]) for field, of in hints.items() if _is_column(of)}
        values: dict[str, Any] = dict(table(name, dtypes)) if dtypes else {}
        for field in hints.keys() - dtypes.keys():
            values[field] = unpack(hints[field], packed[field], _under(name, field), table)
        return hint(**values)
    if hint in _PLAIN:
        if type(packed) is not hint:
            raise TypeError(f"{name}: {packed!r} is no {hint.__name__}")
        return packed
    if hint is bytes:
        return bytes.fromhex(packed)
    if hint is Path:
        return Path(packed)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint[packed]
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return hint(*(unpack(of, one, name, table) for of, one in zip(_hints(hint).values(), packed, strict=True)))
    if hint == tuple[bytes, ...]:
        return tuple(table(name, {_ITEMS: None})[_ITEMS])
    if origin is tuple and inner[1:] == (...,):
        return tuple(unpack(inner[0], one, name, table) for one in packed)
    if origin in (dict, Mapping):
        return {unpack(inner[0], key, name, table): unpack(inner[1], one, name, table) for key, one in packed}
    if origin in (types.UnionType, typing.Union) and (of := _other_than_none(inner)) is not None:
        return None if packed is None else unpack(of, packed, name, table)
    raise TypeError(f"{name}: no way to keep {hint}")


@cache
def _hints(of: type) -> dict[str, Any]:
    """Types of the fields that are kept; what else a class annotates (class variables, properties) is no field."""
    hints = typing.get_type_hints(of)
    names = getattr(of, "_fields", None) or kept_fields(of)
    return {name: _plain(hints[name]) for name in names}


def _plain(hint: Any) -> Any:
    """What an alias stands for: NDArray is one of "type" since numpy 2.5, and was one by assignment before."""
    of = getattr(typing.get_origin(hint), "__value__", None)
    return hint if of is None else of[typing.get_args(hint)]


def _is_column(hint: Any) -> bool:
    return typing.get_origin(hint) is np.ndarray


def _other_than_none(inner: tuple[Any, ...]) -> Any:
    others = [one for one in inner if one is not type(None)]
    return others[0] if len(others) == 1 and len(inner) == 2 else None


def _under(name: str, field: str) -> str:
    return f"{name}.{field}" if name else field
