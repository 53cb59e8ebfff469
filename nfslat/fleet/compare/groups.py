"""Clients that stand out, and what is known of all -> which of them have something in common: `Group`.

For each attribute value that some but not all clients have: would chance put so many of those that stand out among its
clients (Fisher's exact test, one-sided)? The probability is multiplied by the number of values that were looked at. The
value that explains best is taken, then those that stand out without it are looked at again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import comb

_LEAST = 2  # clients
_SURE = 0.01
_ALIKE = 4.0  # effects of clients that stand out alike differ by no more than this factor
_HALF = 0.5  # of the clients with the value at least stand out


@dataclass(frozen=True)
class Group:
    """Clients with an attribute in common; `outliers` of `members` stand out."""

    dimension: str
    value: str
    members: tuple[str, ...]
    outliers: tuple[str, ...]
    p_value: float  # corrected for the number of groups that were looked at

    @property
    def sure(self) -> bool:
        """Chance does not make such a group."""
        return self.p_value < _SURE


def fisher(inside: int, members: int, outliers: int, clients: int) -> float:
    """That of `outliers` drawn from `clients` at random `inside` or more are among the `members`."""
    most = min(members, outliers)
    ways = sum(comb(members, k) * comb(clients - members, outliers - k) for k in range(inside, most + 1))
    return ways / comb(clients, outliers)


def groups_of(outliers: Collection[str], attributes: Mapping[str, Mapping[str, str]], tests: int) -> list[Group]:
    """What explains `outliers`, the best first; `attributes` are of each client that was compared.

    `tests` is the number of values that are looked at, for all kinds of outliers together. A group of exactly those
    that stand out is given even where chance may make it; it is not `sure` then.
    """
    left = set(outliers)
    found: list[Group] = []
    values = candidates(attributes)
    while len(left) >= _LEAST:
        rated = [_rated(*value, left, len(attributes), tests) for value in values]
        able = [one for one in rated if one is not None]
        if not able:
            break
        best = min(able, key=lambda one: (one.p_value, -len(one.outliers), len(one.members), one.dimension, one.value))
        found.append(best)
        left -= set(best.outliers)
    return found


def candidates(attributes: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str, frozenset[str]]]:
    """(dimension, value, clients) of each value that some clients have, two or more, but not all; each set once."""
    members: dict[tuple[str, str], set[str]] = {}
    for client, own in attributes.items():
        for dimension, value in own.items():
            members.setdefault((dimension, value), set()).add(client)
    found: dict[frozenset[str], tuple[str, str]] = {}
    for key in sorted(members, key=_order):
        clients = frozenset(members[key])
        if _LEAST <= len(clients) < len(attributes):
            found.setdefault(clients, key)
    return [(*key, clients) for clients, key in found.items()]


# Of several names for one set of clients the one that says most of why; a manifest's own says more than all of them.
_WEAK = ("path", "subnet", "nfs", "connections", "server address")


def _order(key: tuple[str, str]) -> tuple[int, str, str]:
    dimension, value = key
    return (_WEAK.index(dimension) + 1 if dimension in _WEAK else 0, dimension, value)


def _rated(
    dimension: str, value: str, members: frozenset[str], outliers: set[str], clients: int, tests: int
) -> Group | None:
    inside = members & outliers
    if len(inside) < _LEAST or len(inside) < _HALF * len(members):
        return None
    p_value = min(fisher(len(inside), len(members), len(outliers), clients) * max(tests, 1), 1.0)
    if p_value >= _SURE and members != outliers:
        return None
    return Group(dimension, value, tuple(sorted(members)), tuple(sorted(inside)), p_value)


def together(effects: Mapping[str, float], causes: Mapping[str, str | None]) -> list[Sequence[str]]:
    """Clients that stand out alike: in one layer, for one cause, within a factor of four; singles by themselves."""
    out: list[Sequence[str]] = []
    left = sorted(effects, key=lambda name: (-effects[name], name))
    while left:
        first = left[0]
        alike = [one for one in left if causes[one] == causes[first] and effects[one] * _ALIKE >= effects[first]]
        out.append(sorted(alike))
        left = [one for one in left if one not in alike]
    return out
