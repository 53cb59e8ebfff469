"""What a made fleet is: its server, its clients, their networks and clocks, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

US, MS, S = 1_000, 1_000_000, 1_000_000_000
EPOCH_NS = 1_700_000_000 * S  # the instant 0 of every fleet, on the true clock

READ, WRITE, GETATTR, LOOKUP = range(4)
NAMES = ("READ", "WRITE", "GETATTR", "LOOKUP")
FOLDER = "project-data"  # what all clients have mounted holds this folder; names have twelve letters, all of them
SHARED = ("shared01.dat", "shared02.dat")  # files in it that all clients use
OWN = 3  # and so many that are one client's alone


@dataclass(frozen=True)
class Clock:
    """What a host's clock shows at a true instant."""

    offset_ms: float = 0.0
    drift_ppm: float = 0.0


@dataclass(frozen=True)
class ClientPlan:
    """One client."""

    name: str  # at most twelve letters; goes into its credentials
    address: str
    group: str = "plain"  # in words, for the truth
    workers: int = 4  # synchronous ones: each asks, waits for the answer, thinks, asks again
    think_ms: float = 100.0  # mean, exponential
    slots: int = 64  # of each connection; a call that finds none waits above the wire, first come, first served
    nconnect: int = 1  # connections, which calls take in turn
    delay_ms: float = 0.1  # each way
    jitter_ms: float = 0.02  # mean of what comes on top, exponential; packets stay in order
    loss: float = 0.0  # of messages, either way
    start_ms: float = 50.0
    clock: Clock = Clock()


@dataclass(frozen=True)
class ServerPlan:
    """The server, which is made like knfsd."""

    address: str = "10.9.0.10"
    threads: int = 8
    disk_ms: float = 2.0  # READ and WRITE: mean, exponential
    quick_ms: float = 0.02  # the others
    slow_file: str | None = None  # ops on the file of this name take ...
    slow_factor: float = 1.0  # ... so many times as long
    clock: Clock = Clock()


def _mix() -> Mapping[int, float]:
    return {READ: 0.6, WRITE: 0.2, GETATTR: 0.18, LOOKUP: 0.02}


@dataclass(frozen=True)
class Plan:
    """The fleet, for a time."""

    clients: tuple[ClientPlan, ...]
    server: ServerPlan = ServerPlan()
    seconds: float = 10.0
    busier_at_s: float = 5.0  # from then on workers think less
    load_factor: float = 1.0  # by this
    mix: Mapping[int, float] = field(default_factory=_mix)  # shares of the ops
    seed: int = 1
