"""A scenario file -> what is built in, mounted, loaded, captured and expected. README.md describes every key."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "scenarios"
GUESTS = ("server", "client", "client2")


class ScenarioError(Exception):
    """A scenario file that says what is not understood: file, place and what would be."""


@dataclass(frozen=True)
class Step:
    """What happens to a guest while the load runs: a cause that begins, ends, or grows."""

    at_s: float  # after the load has begun
    on: str  # server, client or client2
    script: str  # of sh; longer than a moment, it goes on beside the load


@dataclass(frozen=True)
class Cause:
    """What is injected. ``where`` is the answer that a person who knows it would give."""

    where: str = "none"
    nfsd_threads: int = 16
    dm_delay_ms: float | dict[str, float] = 0.0  # {read, write}
    dm_delay_far_ms: float | None = None  # of the second half of the disk, if that is another
    disk_table: str = ""  # a command of sh that prints the disk's table for dmsetup, of $all sectors of $disk, instead
    # The file system's disk takes so many requests at once, and the rest wait in its queue: a loop device on the one
    # above. 1, or 4 and more (BLKDEV_MIN_RQ).
    disk_takes: int | None = None
    slots: int | None = None  # sunrpc.tcp_slot_table_entries and tcp_max_slot_table_entries
    max_session_slots: int | None = None
    # Each way, as {client_to_server, server_to_client}: netem on the network card of the side that sends.
    delay_ms: dict[str, float] = field(default_factory=dict)
    jitter_ms: dict[str, float] = field(default_factory=dict)
    loss_pct: dict[str, float] = field(default_factory=dict)
    dup_pct: dict[str, float] = field(default_factory=dict)
    reorder_pct: dict[str, float] = field(default_factory=dict)
    rate_mbit: dict[str, float] = field(default_factory=dict)
    server_cpu_hogs: int = 0  # busy processes beside nfsd
    client_cpu_hogs: int = 0
    # In the middle of the load.
    stall_s: float = 0.0  # the client guest is stopped
    server_stall_s: float = 0.0
    link_down_s: float = 0.0  # nothing passes, either way
    mtu_hole_s: float = 0.0  # of the server's packets to clients those above 1,400 bytes vanish, and smaller ones pass
    disk_hang_s: float = 0.0  # the server's disk answers nothing
    nfsd_restart_s: float = 0.0  # nfsd is down
    clock_step_s: float = 0.0  # of the client
    clock_offset_s: float = 0.0  # of the client, from the start
    clock_drift_ppm: float = 0.0
    capture_drops: bool = False
    stutter_ms: float = 0.0  # the server guest is stopped so long, five times a second, all the time
    client_rmem_bytes: int | None = None  # the largest receive buffer of TCP
    server_rmem_bytes: int | None = None
    mtu: int | None = None  # of both hosts
    timeline: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Mount:
    """How the clients mount the export."""

    vers: str = "3"
    sec: str = ""  # krb5, krb5i or krb5p, with a KDC on the server; "" is sys
    options: str = ""
    ipv6: bool = False


@dataclass(frozen=True)
class Load:
    """What a client does in the mounted folder: fio, with the parameters given, workload.py, or a script of sh."""

    app: str = ""  # what workload.py is to do, and its options: "oltp workers=20 think_ms=10"
    jobs: int = 8
    iops: int | None = None  # of each job, reads and writes each; None: as fast as it goes
    mix_pct: int = 70  # of the requests that are reads
    block: str = "8k"
    pattern: str = "randrw"
    seconds: float = 6.0
    options: str = ""
    script: str = ""
    server_script: str = ""  # on the server, in the exported folder, at the same time
    prepare: str = ""  # the same, before the server's caches are dropped


@dataclass(frozen=True)
class Capture:
    """How tcpdump is called on each host."""

    snaplen: int = 512
    interface: str = "br0"
    buffer_kb: int = 16384
    client_buffer_kb: int | None = None  # another one for the client
    options: str = ""
    from_mount: bool = False  # before the mount instead of after it
    first_client_only: bool = False  # the server's capture, of two clients
    server_packets: int | None = None  # the server's capture ends after so many


@dataclass(frozen=True)
class Injected:
    """A cause that begins and ends while `nfslat live` watches (``scripts/lab live``)."""

    name: str
    right: tuple[str, ...]  # the findings that a person who knows it would name
    begin: dict[str, str]  # a script of sh by guest; all at once
    end: dict[str, str]
    for_s: float | None = None  # how long it lasts; None: as long as the command says


@dataclass(frozen=True)
class Scenario:
    """One file of scenarios/."""

    name: str
    text: str
    description: str
    cause: Cause = Cause()
    mount: Mount = Mount()
    load: Load = Load()
    load2: Load | None = None  # of a second client
    capture: Capture = Capture()
    expect: dict[str, Any] = field(default_factory=dict)
    inject: tuple[Injected, ...] = ()
    short: bool = False  # belongs to the set that the tests run by night


_TABLES = {"cause": Cause, "mount": Mount, "load": Load, "load2": Load, "capture": Capture}


def read(file: Path) -> Scenario:
    """Reads one file; ``ScenarioError`` says what is wrong in it."""
    place = file.name
    try:
        text = file.read_text()
        found = tomllib.loads(text)
        for name, table in _TABLES.items():
            place = f"{file.name}, [{name}]"
            if name in found:
                steps = found[name].pop("timeline", None)
                found[name] = table(**found[name], **({"timeline": _steps(steps)} if steps else {}))
        place = f"{file.name}, [[inject]]"
        found["inject"] = tuple(_injected(one) for one in found.get("inject", ()))
        place = file.name
        return Scenario(name=file.stem, text=text, **found)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, TypeError, AttributeError, KeyError) as error:
        raise ScenarioError(f"{place}: {error}") from error


def _steps(found: list[dict[str, Any]]) -> tuple[Step, ...]:
    steps = tuple(Step(**one) for one in found)
    for one in steps:
        if one.on not in GUESTS:
            raise TypeError(f"timeline: {one.on!r} is none of {', '.join(GUESTS)}")
    return steps


def _injected(found: dict[str, Any]) -> Injected:
    one = Injected(**found | {"right": tuple(found["right"])})
    for name in (*one.begin, *one.end):
        if name not in GUESTS:
            raise TypeError(f"{one.name}: {name!r} is none of {', '.join(GUESTS)}")
    return one


def every() -> list[Scenario]:
    """All scenarios of the folder, by name."""
    return [read(one) for one in sorted(FOLDER.glob("*.toml"))]


def path(name: str) -> Path:
    """The file of a scenario that is named by its file, or by its name in the folder."""
    return Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
