"""Summaries -> paths on which everybody's ops take longer in the server than on others: `Pattern`s.

Where each client works in one place only, the place is an attribute of the client, and `groups` finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from nfslat.findings.words import ms, percent, times
from nfslat.fleet.compare.distinct import MOST
from nfslat.fleet.compare.groups import fisher
from nfslat.fleet.compare.steady import dense, limit
from nfslat.fleet.compare.summary import ClientSummary
from nfslat.fleet.model import Pattern
from nfslat.model.units import NS_PER_MS, to_ms, to_s

_ENOUGH = 20  # ops of a client in a place
_CELLS = 3  # clients that use it
_HALF, _SURE = 0.5, 0.01
_LEAST_MS, _LEAST_SHARE = 0.1, 0.10
_FLOOR_NS = 50_000


@dataclass(frozen=True)
class _Cell:
    """Data ops of a client in a place."""

    client: str
    place: str
    ops: int
    took_ns: float  # server SRT, mean
    usual_ns: float
    unsure_ns: float  # so much of the difference may be an error of what was inferred


def slow_paths(clients: Sequence[ClientSummary], total_ns: int) -> list[Pattern]:
    """In no order; none where no client works on two places."""
    cells = _cells(clients)
    places = sorted({one.place for one in cells})
    if len(cells) == len({one.client for one in cells}) or len(places) < 2:
        return []
    off = np.array([np.log((one.took_ns + _FLOOR_NS) / (one.usual_ns + _FLOOR_NS)) for one in cells])
    center, scale = dense(off)
    matters = [
        one.took_ns - one.usual_ns >= max(_LEAST_MS * NS_PER_MS, _LEAST_SHARE * one.usual_ns) + one.unsure_ns
        for one in cells
    ]
    slow = (off > center + limit(len(cells)) * scale) & np.array(matters)
    found = []
    for place in places:
        inside = np.array([one.place == place for one in cells])
        members, bad = int(inside.sum()), int((inside & slow).sum())
        if members < _CELLS or bad < _HALF * members or members == len(cells):
            continue
        p_value = min(fisher(bad, members, int(slow.sum()), len(cells)) * len(places), 1.0)
        if p_value < _SURE:
            found.append(_pattern(place, [one for one in cells if one.place == place], clients, total_ns, p_value))
    return found


def _cells(clients: Sequence[ClientSummary]) -> list[_Cell]:
    means: dict[str, list[float]] = {}
    for client in clients:
        for one in client.tops:
            if one.ops >= _ENOUGH:
                means.setdefault(one.op, []).append(one.server_ns / one.ops)
    usual = {op: median(each) for op, each in means.items()}
    sums: dict[tuple[str, str], list[float]] = {}
    for client in clients:
        for one in client.tops:
            if one.ops >= _ENOUGH:
                cell = sums.setdefault((client.name, one.place), [0, 0.0, 0.0])
                for at, more in enumerate((one.ops, one.server_ns, one.ops * usual[one.op])):
                    cell[at] += more
    errors = {one.name: one.error_ms("server") * NS_PER_MS for one in clients}
    typical_ns = median(errors.values()) if errors else 0.0
    return [
        _Cell(*key, int(ops), took / ops, would / ops, errors[key[0]] + typical_ns)
        for key, (ops, took, would) in sorted(sums.items())
    ]


def _pattern(
    place: str, cells: Sequence[_Cell], clients: Sequence[ClientSummary], total_ns: int, p_value: float
) -> Pattern:
    effect = median(to_ms(one.took_ns - one.usual_ns) for one in cells)
    own, usual = (to_ms(median(getattr(one, name) for one in cells)) for name in ("took_ns", "usual_ns"))
    excess_ns = sum((one.took_ns - one.usual_ns) * one.ops for one in cells)
    return Pattern(
        scope="all" if len(cells) >= MOST * len(clients) else "group",
        layer="server",
        cause=None,
        dimension="path",
        value=place,
        clients=[one.client for one in cells],
        of=len(cells),
        effect_ms=effect,
        excess_s=to_s(excess_ns),
        share=excess_ns / total_ns if total_ns else None,
        confidence="high" if len(cells) > _CELLS and not any(one.unsure_ns for one in cells) else "medium",
        p_value=p_value,
        text=(
            f"READs and WRITEs on {place} take {ms(effect)} ms longer in the server than on other paths "
            f"({ms(own)}, where {ms(usual)} ms are usual), for {times(len(cells), 'client')} that "
            f"{'uses' if len(cells) == 1 else 'use'} it."
        ),
        inferred=sum(one.error_ms("server") > 0 for one in clients if one.name in {cell.client for cell in cells}),
        evidence={"ops_looked_at": sum(one.ops for one in cells), "chance": percent(p_value)},
    )
