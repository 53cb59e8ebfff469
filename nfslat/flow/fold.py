"""Rows of reports on several windows, in their order -> rows of the report on all of them: what is counted is added.

A row of `RULES` says of each field of a class how that is done; a field that no rule knows is refused, so that none is
lost.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nfslat.answer import model

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How the fields of a class are folded."""

    key: tuple[str, ...]  # rows in which these are equal become one
    weight: str  # the field that says how much a row counts, beside others with its key
    add: tuple[str, ...] = ()
    most: tuple[str, ...] = ()
    mean: tuple[str, ...] = ()  # by weight, of the rows that know it
    rows: tuple[str, ...] = ()  # lists of rows that have a rule of their own
    kept: tuple[str, ...] = ()  # of the row that counts most


RULES: dict[type, Rule] = {
    model.AuditNote: Rule(key=("code",), weight="count", add=("count",), most=("severity",), kept=("text",)),
    model.SessionInFlight: Rule(
        key=("session", "callbacks"),
        weight="ops",
        add=("ops",),
        most=("connections", "highest_slot_used", "slots_used"),
        mean=("at_limit_share", "reuse_share"),
        kept=("slots_negotiated", "target_slots", "limit", "own_limit", "limited"),
    ),
    model.CapInFlight: Rule(
        key=("client",),
        weight="zero_window_ms",
        add=("ops", "zero_windows", "zero_window_ms"),
        most=("others",),
        kept=("level", "level_share", "median_ms", "others_median_ms", "likely"),
    ),
    model.ConnectionInFlight: Rule(
        key=("client",),
        weight="ops",
        add=("ops",),
        most=("max",),
        mean=("reply_clocked_share",),
        kept=("level", "at_limit_share", "turnaround_us", "held"),
    ),
    model.MountInFlight: Rule(
        key=("client", "server"),
        weight="ops",
        add=("ops",),
        most=("max", "nconnect"),
        mean=("mean",),
        rows=("connections",),
        kept=("held", "slots", "at_limit_share", "hint"),
    ),
}


def fold(rows: Iterable[T]) -> list[T]:
    """One row for each key, in the order in which the keys come. Raises ``KeyError`` for a class without a rule."""
    groups: dict[tuple[Any, ...], list[T]] = {}
    for row in rows:
        rule = RULES[type(row)]
        groups.setdefault(tuple(getattr(row, name) for name in rule.key), []).append(row)
    return [folded(group) for group in groups.values()]


def folded(rows: Sequence[T]) -> T:
    """Rows with one key as one."""
    of: Any = type(rows[0])
    check(of)
    rule = RULES[of]
    if len(rows) == 1:
        return rows[0]
    weights = [getattr(row, rule.weight) or 0 for row in rows]
    heaviest = rows[max(range(len(rows)), key=weights.__getitem__)]

    def values(name: str) -> list[Any]:
        return [getattr(row, name) for row in rows]

    found: dict[str, Any] = {name: _added(values(name)) for name in rule.add}
    found |= {name: _most(values(name)) for name in rule.most}
    found |= {name: weighted(values(name), weights) for name in rule.mean}
    found |= {name: fold(one for some in values(name) for one in some) for name in rule.rows}
    return dataclasses.replace(heaviest, **found)  # type: ignore[type-var]  # all with a rule are dataclasses


def weighted(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """The mean of those that are known."""
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    whole = sum(weight for _, weight in known)
    if not known:
        return None
    return sum(value * weight for value, weight in known) / whole if whole else known[0][0]


def _most(values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _added(values: list[Any]) -> Any:
    """The sum, which is not known where one of them is not."""
    return None if None in values else sum(values)


@functools.cache
def check(of: Hashable) -> None:
    """Raise ``TypeError`` where a class has a field of which its rule does not say what becomes of it."""
    if not isinstance(of, type):
        raise TypeError(f"{of!r} is no class")
    rule = RULES[of]
    said = [*rule.key, *rule.add, *rule.most, *rule.mean, *rule.rows, *rule.kept]
    fields = sorted(field.name for field in dataclasses.fields(of))
    if sorted(said) != fields or rule.weight not in fields:
        raise TypeError(f"{of.__name__}: the rule has {sorted(said)}, the fields are {fields}")
