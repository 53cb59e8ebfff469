"""`nfslat.model.dataclass` makes what `dataclasses` makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from nfslat.model.dataclass import dataclass

Make = Callable[..., Any]


def _classes(make: Make) -> list[tuple[type, tuple[Any, ...], dict[str, Any]]]:
    """Classes of all forms that nfslat has, with arguments for an instance of each."""

    @make(frozen=True)
    class Plain:
        a: int
        b: str = "b"
        shared: ClassVar[int] = 3

    @make(frozen=True)
    class Derived(Plain):
        c: list[int] = field(default_factory=lambda: [7])

    @make(frozen=True, kw_only=True)
    class Named:
        a: int
        b: int = 2

    @make(frozen=True)
    class Mixed:
        a: int = field(default=1, kw_only=True)
        b: int
        c: int = field(default=5, repr=False, compare=False)

    @make(frozen=True, eq=False)
    class ByIdentity:
        a: int

    @make(frozen=True, eq=False, repr=False)
    class Quiet:
        a: int

    @make
    class Open:
        a: int
        b: dict[str, int] = field(default_factory=dict)

    @make(slots=True)
    class Slotted:
        a: int

    @make(frozen=True)
    class Checked:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("below 0")

    @make(frozen=True)
    class Worded:  # noqa: PLW1641
        a: int

        def __repr__(self) -> str:
            return "in its own words"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, int)

    @make(frozen=True)
    class Empty:
        pass

    return [
        (Plain, (1,), {}),
        (Derived, (1, "x"), {}),
        (Named, (), {"a": 4}),
        (Mixed, (2,), {}),
        (ByIdentity, (1,), {}),
        (Quiet, (1,), {}),
        (Open, (1,), {}),
        (Slotted, (1,), {}),
        (Checked, (1,), {}),
        (Worded, (1,), {}),
        (Empty, (), {}),
    ]


PAIRS = list(zip(_classes(dataclass), _classes(dataclasses.dataclass), strict=True))


def _told(work: Callable[[], object]) -> object:
    try:
        return work()
    except (TypeError, ValueError, AttributeError) as problem:
        return type(problem)


def _answers(kind: Any, args: tuple[Any, ...], named: dict[str, Any]) -> list[object]:
    one, other = kind(*args, **named), kind(*args, **named)
    fields = dataclasses.fields(kind)
    has_words = kind.__repr__ is not object.__repr__  # which tells an address
    return [
        [(each.name, each.kw_only, each.compare, getattr(one, each.name)) for each in fields],
        kind.__match_args__,
        repr(one) if has_words and kind.__name__ != "Quiet" else "",
        one == other,
        one == 3,
        _told(lambda: hash(one) == hash(other)),
        _told(lambda: kind(*args, **named, nothing=1)),
        _told(lambda: kind(*args, 1, 2, 3, 4, 5, **named)),
        _told(lambda: kind.__init__(one)) if args or named else None,
        dataclasses.asdict(one),
        copy.copy(one).__class__ is kind,
        _told(lambda: dataclasses.replace(one, **{each.name: -5 for each in fields}) == one),
        [_told(lambda name=name: setattr(one, name, 1)) for name in ("a", "unknown")],  # type: ignore[misc]
        [_told(lambda name=name: delattr(one, name)) for name in ("a", "unknown")],  # type: ignore[misc]
    ]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[pair[0][0].__name__ for pair in PAIRS])
def test_a_class_behaves_as_one_of_dataclasses(ours: Any, theirs: Any) -> None:
    """Instances, wrong arguments, what they equal, hash, show, copy and refuse are the same."""
    assert _answers(*ours) == _answers(*theirs)


def test_factories_make_a_value_for_each_instance() -> None:
    (kind, _, _) = next(row for row in _classes(dataclass) if row[0].__name__ == "Open")
    assert kind(1).b is not kind(1).b


@dataclass(frozen=True)
class Kept:
    a: int
    b: tuple[int, ...] = ()


def test_instances_go_through_pickle() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))  # noqa: S301
