"""What a comparison with the kernel found: the differences of an RPC's times, and what became of the ops. As JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nfslat.model.blocks import rank
from nfslat.model.tables import I64

_NEAR_NS, _CLOSE_NS = 100_000, 1_000_000


@dataclass(frozen=True)
class Row:
    """The difference of two times of the same RPCs, the capture's less the kernel's, in whole ns."""

    name: str
    count: int
    found_ns: int  # sum over the RPCs of nfslat's time
    true_ns: int  # of the kernel's; the difference of the two is the sum of the differences
    min_ns: int
    p1_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    mean_ns: float
    within_100us: float  # share of the RPCs whose difference is no larger, 0 to 1
    within_1ms: float


@dataclass(frozen=True, eq=False)
class Difference:
    """Two times of each of some RPCs, ns: nfslat's and the kernel's. There is at least one."""

    name: str
    found_ns: I64
    true_ns: I64

    @property
    def row(self) -> Row:
        """Its distribution; percentiles are nearest-rank."""
        ordered = np.sort(self.found_ns - self.true_ns)
        size = np.abs(ordered)
        return Row(
            name=self.name,
            count=len(ordered),
            found_ns=int(self.found_ns.sum()),
            true_ns=int(self.true_ns.sum()),
            min_ns=int(ordered[0]),
            p1_ns=int(ordered[rank(len(ordered), 1)]),
            p50_ns=int(ordered[rank(len(ordered), 50)]),
            p99_ns=int(ordered[rank(len(ordered), 99)]),
            max_ns=int(ordered[-1]),
            mean_ns=float(ordered.mean()),
            within_100us=float(np.count_nonzero(size <= _NEAR_NS) / len(ordered)),
            within_1ms=float(np.count_nonzero(size <= _CLOSE_NS) / len(ordered)),
        )


@dataclass(frozen=True)
class Coverage:
    """What became of a side's ops: `joined` and what follows it add up to `ops`."""

    side: str  # "server" or "client"
    ops: int
    joined: int
    sent_again: int  # the kernel's times are those of the last sending, or of one of two answers
    not_whole: int  # bytes of them are not in the capture, so that their instants are not exact
    outside: int  # before the first or after the last RPC of the trace
    ambiguous: int  # their XID is in the trace, more than once or at another time, so that it need not be theirs
    missing: int  # no RPC of the trace has their XID
    traced: int  # RPCs of the trace on this side, those of other programs than NFS among them
    unreadable: int  # of their lines


@dataclass(frozen=True)
class Comparison:
    """What `examine` found in a folder."""

    name: str
    differences: tuple[Difference, ...]
    coverage: tuple[Coverage, ...]
    notes: tuple[str, ...]  # one sentence each: what could not be compared, and why

    @property
    def rows(self) -> list[Row]:
        """The distributions."""
        return [one.row for one in self.differences]


def pooled(found: Sequence[Comparison]) -> list[Row]:
    """The distributions over all RPCs of several folders."""
    by_name: dict[str, list[Difference]] = {}
    for one in found:
        for difference in one.differences:
            by_name.setdefault(difference.name, []).append(difference)
    return [
        Difference(name, np.concatenate([d.found_ns for d in of]), np.concatenate([d.true_ns for d in of])).row
        for name, of in by_name.items()
    ]


def as_json(found: Sequence[Comparison]) -> dict[str, Any]:
    """All of it, times in ns."""
    scenarios = [
        {
            "name": one.name,
            "rows": [asdict(row) for row in one.rows],
            "coverage": [asdict(side) for side in one.coverage],
            "notes": one.notes,
        }
        for one in found
    ]
    return {"schema": "nfslat.compared/1", "scenarios": scenarios, "all": [asdict(row) for row in pooled(found)]}
