"""Made summaries of clients, with durations drawn at random: what is to be found in them is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nfslat.answer.figures import Summary
from nfslat.fleet.compare.attributes import subnet_of
from nfslat.fleet.compare.cells import OpClass, cells_of, columns_of
from nfslat.fleet.compare.summary import BOTH, SERVER_ONLY, ClientSummary, counted
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.model import Brief
from nfslat.model.tables import I64
from nfslat.tally.keys import Grouping
from nfslat.tally.ops import OpSums
from nfslat.tally.sketch import Sketch

MS = 1_000_000
BEGIN_NS = 1_700_000_000_000_000_000
WINDOWS = Windows(BEGIN_NS, 1_000_000_000, 60)
READ, WRITE, GETATTR = OpClass("NFS", "READ", "3", 13), OpClass("NFS", "WRITE", "3", 13), OpClass("NFS", "GETATTR", "3")
CLASSES = (READ, WRITE, GETATTR)
MIX = (0.5, 0.3, 0.2)
DISK_MS = (4.0, 6.0, 0.05)


@dataclass(frozen=True)
class Made:
    """One client; times in ms."""

    name: str
    address: str
    ops: int = 1200
    network_ms: float = 0.4
    disk: float = 1.0  # times what the disk takes
    queue_ms: tuple[float, float] = (0.05, 0.05)  # in the first half, and in the second
    noise: str = "exponential"
    spread: float = 0.0  # of what makes the client itself differ, log-normal
    groups: Mapping[str, str] = field(default_factory=dict)
    classes: Sequence[OpClass] = CLASSES
    knows_queue: bool = True
    server_only: bool = False
    active: tuple[float, float] = (0.0, 1.0)  # part of the time in which it works
    slow: tuple[float, float] = (0.0, 1.0)  # part of the time in which its network takes that long
    others: Mapping[str, Any] = field(default_factory=dict)  # fields of the summary


def made(one: Made, rng: np.random.Generator, windows: Windows = WINDOWS) -> ClientSummary:
    """The summary of a client."""
    span_ns = windows.step_ns * windows.count
    part = np.sort(rng.uniform(*one.active, one.ops))
    at_ns = windows.begin_ns + (part * span_ns).astype(np.int64)
    of_op = rng.choice(len(one.classes), one.ops, p=MIX[: len(one.classes)] / np.sum(MIX[: len(one.classes)]))
    own = np.exp(rng.normal(0, one.spread)) if one.spread else 1.0
    disk = np.array(DISK_MS)[of_op] * one.disk * own * _noise(rng, one.noise, one.ops)
    queue = np.where(part < 0.5, *one.queue_ms) * rng.exponential(1, one.ops)
    is_slow = (part >= one.slow[0]) & (part < one.slow[1])
    network = np.where(is_slow, one.network_ms, 0.4) * own * rng.gamma(20, 1 / 20, one.ops)
    queue_ns, server_ns = (queue * MS).astype(np.int64), ((disk + queue) * MS).astype(np.int64)
    client_ns = server_ns + (network * MS).astype(np.int64)
    return summary_of(one, at_ns, of_op, client_ns, server_ns, queue_ns if one.knows_queue else None, windows)


def summary_of(
    one: Made, at_ns: I64, of_op: I64, client_ns: I64, server_ns: I64, queue_ns: I64 | None, windows: Windows
) -> ClientSummary:
    """The summary of ops with these times."""
    seen = None if one.server_only else client_ns
    used = np.unique(of_op)
    key = Grouping(np.searchsorted(used, of_op), [one.classes[at][:3] for at in used.tolist()])
    sides = ("server",) if seen is None else ("client", "server")
    by_op = OpSums.of(columns_of(seen, server_ns, queue_ns), key, percentiles=sides).as_sketches()
    cells = cells_of(tuple(one.classes), of_op, windows.index(at_ns), windows.count, seen, server_ns, queue_ns)
    return ClientSummary(
        name=one.name,
        addresses=[one.address],
        state=SERVER_ONLY if seen is None else BOTH,
        source="server" if seen is None else "both",
        groups={"subnet": subnet_of(one.address), "nfs": "3", "connections": "1", **one.groups},
        by_op=by_op,
        **counted(cells),
        client_ms=None if seen is None else _summary(seen),
        server_ms=_summary(server_ns),
        network_ms=None if seen is None else _summary(seen - server_ns),
        **{"in_flight_max": 16, "slots_held": "workers", **one.others},
    )


def _summary(ns: I64) -> Summary | None:
    return Sketch.of(ns).summary() if len(ns) else None


def _noise(rng: np.random.Generator, name: str, ops: int) -> np.typing.NDArray[np.float64]:
    """With a mean of about 1."""
    if name == "lognormal":
        return rng.lognormal(-1.125, 1.5, ops)
    if name == "pareto":  # of infinite variance
        return rng.pareto(1.5, ops) / 2
    return rng.exponential(1, ops)


def address_of(at: int, subnet: int | None = None) -> str:
    """Addresses by the dozen in each /24."""
    return f"10.9.{at // 12 + 10 if subnet is None else subnet}.{at % 12 + 10}"


def plain(count: int, **others: Any) -> list[Made]:
    """So many clients that are alike."""
    return [Made(f"c{at:03d}", address_of(at), **others) for at in range(count)]


def finding(code: str, layer: str, share: float | None, confidence: str = "certain") -> Brief:
    """Of a client's own report."""
    return Brief(code, layer, share, confidence, f"{code} explains this much")
