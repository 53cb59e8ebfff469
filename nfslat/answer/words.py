"""Figures that sentences, tables and pictures share -> words: one figure has the same digits wherever it stands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nfslat.answer.model import StackRow

_NEARLY_ALL = 0.95  # from here on two decimals tell how much is missing
_DASH = "-"
OF_ONE = 3  # decimals of a single operation: its packets tell microseconds
SAME_MS = 1e-6  # sums of the same floats in another order differ by less


def decimals(value_ms: float) -> int:
    """Three significant digits or more: 0.1 us for less than 0.1 ms, 0.1 ms for 100 ms and more."""
    return next((d for limit, d in ((0.1, 4), (1, 3), (100, 2)) if abs(value_ms) < limit), 1)


def ms(value_ms: float, at_most: int = 4) -> str:
    """A duration by itself, with `at_most` so many decimals: ``0.0123``, ``1.23``, ``12.34``, ``203.1``."""
    if not value_ms:
        return "0"
    places = min(decimals(value_ms), at_most)
    return _fixed(_units(value_ms, places), places)


def some_of(names: Sequence[str], most: int = 3) -> str:
    """Names in a line, of many the first ones: ``a, b, c and 1,200 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def with_places(value_ms: float, whole_ms: float) -> str:
    """A duration with as many decimals as the whole that it is part of."""
    places = decimals(whole_ms)
    return _fixed(_units(value_ms, places), places)


def adding_up(
    parts: Sequence[float], at_most: int = 4, of: Sequence[str] = (), places: int | None = None
) -> tuple[list[str], str]:
    """Parts and their sum, all with the decimals of the sum, so that they add up to the last digit.

    The largest part is what the others leave of the sum, where a unit more or less is hardly seen. `of` names the layer
    that each is part of: those of a layer add up to what the layer is where it stands as one part. `places` is how many
    decimals there are, whatever the sum is.
    """
    whole = math.fsum(parts)
    places = min(decimals(whole), at_most) if places is None else places
    total = _units(whole, places)
    return [_fixed(one, places) for one in _within(parts, of, total, places)], _fixed(total, places)


def shares_adding_up(parts: Sequence[float], of: Sequence[str] = ()) -> list[str]:
    """Each part's share of the sum, as percentages that add up to 100.0; dashes where the sum is about nothing."""
    total = math.fsum(parts)
    if not total or any(not abs(part / total) < 10 for part in parts):
        return [_DASH] * len(parts)
    return [f"{_fixed(one, 1)} %" for one in _within([part / total * 100 for part in parts], of, 1000, 1)]


def capital(text: str) -> str:
    """As it begins a sentence."""
    return text[:1].upper() + text[1:]


def percent(share: float | None) -> str:
    """``89.0 %``, ``0.06 %``; a dash where a share says nothing (unknown, or of a total that is about nothing)."""
    if share is None or not abs(share) < 10:
        return _DASH
    places = 2 if 0 < abs(share) < 0.001 else 1
    return f"{_fixed(_units(share * 100, places), places)} %"


def of_mean(
    application: float | None, network: float, server: float, queue: float | None = None
) -> dict[str, tuple[float, str]]:
    """A mean and what it is the sum of, by the names of the latency stack: each as it is, and as it is printed.

    All have the decimals of the client SRT, which tables without an application know, too.
    """
    client = network + server
    places = decimals(client)
    units = {"client SRT": (client, _units(client, places))}
    if application is not None:
        total = _units(application, places)
        units["application"] = application, total
        units["above the wire"] = application - client, total - units["client SRT"][1]
    shared = _shared([network, server], units["client SRT"][1], places)
    units["network"], units["server"] = (network, shared[0]), (server, shared[1])
    if queue is not None:
        waiting, inside = _shared([queue, server - queue], shared[1], places)
        units["waiting for a thread"], units["in a thread"] = (queue, waiting), (server - queue, inside)
    return {name: (value, _fixed(one, places)) for name, (value, one) in units.items()}


def stacked(rows: Sequence[StackRow]) -> list[str]:
    """The ms of one block of the latency stack, as `of_mean` prints them; rows add up to the row that holds them."""
    by_name = {row.layer: row.ms for row in rows if row.depth < 2}
    known: dict[str, tuple[float, str]] = {}
    if "network" in by_name and "server" in by_name:
        known = of_mean(by_name.get("application"), by_name["network"], by_name["server"])
    places = decimals(known["client SRT"][0] if known else rows[0].ms)
    shown: list[int] = [_units(row.ms, places) for row in rows]
    for at, row in enumerate(rows):
        if row.depth < 2 and row.layer in known:
            shown[at] = int(known[row.layer][1].replace(".", ""))
        inside = list(_inside(rows, at))
        values = [rows[one].ms for one in inside]
        if row.depth > 0 and inside and abs(math.fsum(values) - row.ms) < SAME_MS:
            for one, units in zip(inside, _shared(values, shown[at], places), strict=True):
                shown[one] = units
    return [_fixed(one, places) for one in shown]


def _inside(rows: Sequence[StackRow], at: int) -> Iterator[int]:
    """Rows one step inside that at `at`."""
    for one in range(at + 1, len(rows)):
        if rows[one].depth <= rows[at].depth:
            return
        if rows[one].depth == rows[at].depth + 1:
            yield one


def _units(value: float, places: int) -> int:
    """`value` in units of the last of so many decimals. Sums of the same floats in another order are the same."""
    return int(f"{round(value, 9):.{places}f}".replace(".", ""))


def _fixed(units: int, places: int) -> str:
    sign, digits = "-" if units < 0 else "", str(abs(units)).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def _shared(parts: Sequence[float], total: int, places: int) -> list[int]:
    """`parts` in units that sum to `total`: rounded, but for the largest."""
    units = [_units(part, places) for part in parts]
    largest = max(range(len(parts)), key=lambda at: abs(parts[at]))
    units[largest] += total - sum(units)
    return units


def complete(share: float, *, inferred: bool = False, missing: str = "") -> str:
    """How many of the operations of the time have figures: ``all of the operations of this time are in both captures``.

    ``99.98 %``, ``83 %``: never rounded up. `missing` is why not the others, as of `missing_ops`.
    """
    digits = 2 if share >= _NEARLY_ALL else 0
    floored = math.floor(share * 100 * 10**digits + 1e-6) / 10**digits
    some = "all" if share >= 1 else f"{min(floored, 99.99):g} %"
    have = "have inferred times" if inferred else "are in both captures"
    return f"{some} of the operations of this time {have}{f': {missing}' if missing else ''}"


def missing_ops(missing: Mapping[str, int]) -> str:
    """``12 not in the server's capture, 1,058 whole in neither capture``; "" where nothing is missing."""
    return ", ".join(f"{ops:,} {why}" for why, ops in missing.items() if ops)


def _within(parts: Sequence[float], of: Sequence[str], total: int, places: int) -> list[int]:
    """The same, layer by layer."""
    layers: dict[object, list[int]] = {}
    for at in range(len(parts)):
        layers.setdefault(of[at] if of else at, []).append(at)
    sums = [math.fsum(parts[at] for at in inside) for inside in layers.values()]
    units = [0] * len(parts)
    for inside, sum_units in zip(layers.values(), _shared(sums, total, places), strict=True):
        for at, one in zip(inside, _shared([parts[at] for at in inside], sum_units, places), strict=True):
            units[at] = one
    return units
