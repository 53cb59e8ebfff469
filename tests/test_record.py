"""Records: what a dataclass does, without what dataclasses cost when they are imported."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from nfslat.model.record import Record, declared


class Base(Record, kw_only=True):
    of_all: ClassVar[int] = 1
    wait_ms: float | None = None


class Row(Base):
    name: str
    ops: int
    notes: list[str] = []


_ROW = Row("READ", 2, wait_ms=0.5)


def test_what_takes_a_dataclass_takes_a_record() -> None:
    """`replace`, `asdict` and `fields` of the standard library, with the fields of a base first, as JSON has them."""
    assert dataclasses.is_dataclass(_ROW)
    assert dataclasses.replace(_ROW, ops=3) == Row("READ", 3, wait_ms=0.5)
    assert dataclasses.asdict(_ROW) == {"wait_ms": 0.5, "name": "READ", "ops": 2, "notes": []}
    assert [field.name for field in dataclasses.fields(Row)] == list(declared(Row)) == list(dataclasses.asdict(_ROW))


def test_a_record_stays_as_it_is() -> None:
    """No field can be set, and a list that is a default is each record's own."""
    with pytest.raises(AttributeError):
        _ROW.ops = 3  # type: ignore[misc]
    assert _ROW.notes is not Row("WRITE", 1).notes


def test_records_are_made_of_others() -> None:
    """`like` takes what has the same name and fails where nothing has; `plus` adds field by field, and None to None."""

    class Other(Record):
        ops: int

    assert Row.like(_ROW, name="WRITE") == Row("WRITE", 2, wait_ms=0.5)
    with pytest.raises(AttributeError, match="wait_ms"):
        Row.like(Other(1))
    assert _ROW.plus(Row("READ", 3, wait_ms=1.0), name="READ") == Row("READ", 5, wait_ms=1.5)
    assert _ROW.plus(Row("READ", 3), name="READ").wait_ms is None
