"""Dataclasses made quickly: the methods of a class are those of all others, and its `__init__` is compiled when the
first instance is made. A report takes 300 classes; `dataclasses` compiles six methods of each, in a quarter of the CPU
of a small run.

Otherwise as `dataclasses.dataclass`, whose fields, ``replace``, ``asdict`` and pattern matching they have. `inspect`
tells their signature once there is an instance.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        make = dataclasses.dataclass(**options) if options.get("slots") else functools.partial(_made, **options)
        return make if cls is None else make(cls)


def _made(
    cls: type,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002  (their name for it)
    kw_only: bool = False,
) -> type:
    own, said = cls.__dict__, cls.__doc__
    cls.__doc__ = said or cls.__name__  # else `dataclasses` writes the signature there, in more time than all the rest
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    cls.__doc__ = said
    methods: dict[str, Any] = {"__init__": _first_init(cls)}
    if repr:
        methods["__repr__"] = _repr
    if eq:
        names = [field.name for field in dataclasses.fields(cls) if field.compare]
        methods["__dataclass_compared__"] = staticmethod(attrgetter(*names) if names else _nothing)
        methods["__eq__"] = _eq
        methods["__hash__"] = _hash if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_del}
    for name, method in methods.items():
        # A class with an `__eq__` of its own has None for `__hash__`, which it did not write.
        if name not in own or (name == "__hash__" and own[name] is None):
            setattr(cls, name, method)
    return cls


def _first_init(cls: type) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init = _init(cls)
        cls.__init__ = init  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _init(cls: type) -> Callable[..., None]:
    """What `dataclasses` makes, for fields with defaults and factories."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    parameters, body = ["self"], []
    fields = dataclasses.fields(cls)
    for field in sorted(fields, key=lambda field: bool(field.kw_only)):
        name, default, value = field.name, "", field.name
        if field.kw_only and "*" not in parameters:
            parameters.append("*")
        if field.default is not dataclasses.MISSING:
            known[f"_default_{name}"], default = field.default, f" = _default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"], default = field.default_factory, " = _missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
        parameters.append(f"{name}{default}")
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    source = "\n".join([f"def __init__({', '.join(parameters)}):", *body, " pass"])
    exec(source, known)  # noqa: S102  (as `dataclasses` does it, of the names of fields)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _nothing(_: object) -> tuple[()]:
    return ()


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    return (
        self.__dataclass_compared__(self) == self.__dataclass_compared__(other)
        if other.__class__ is self.__class__
        else NotImplemented
    )


def _hash(self: Any) -> int:
    return hash(self.__dataclass_compared__(self))


def _refuse_set(self: Any, name: str, value: object) -> None:
    if _is_fixed(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_del(self: Any, name: str) -> None:
    if _is_fixed(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_fixed(self: Any, name: str) -> bool:
    """All attributes of the class itself; of a class derived from it the fields."""
    cls = type(self)
    return "__dataclass_fields__" in cls.__dict__ or name in cls.__dataclass_fields__
