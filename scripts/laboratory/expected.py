"""truth.json of a run -> what nfslat must say of it, from packets alone and with the application's latency known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from nfslat.findings.catalogue import CODES, ROWS

PACKETS, APPLICATION = "packets", "application"  # what is known: the captures alone, or the application's mean too
_MOSTLY = 0.5
_STARVED = 0.2  # of what requests took
_LONG_IN_THREAD = ("server-storage", "server-slow-ops", "server-queue-unknown")
SLOW_DISK_MS = 5.0  # a disk that takes longer is the slow one of a scenario: healthy ones of the lab take 0 to 1.2 ms

# Not among the causes that must not be blamed where they were not made is what a healthy run of the lab has, too:
# above-wire and between-taps (guests have one processor each), congestion-window (1 MB in one message), server-slow-ops
# (the disk of a busy machine stalls by itself), and what captures lack.
_NATURAL = frozenset(
    (
        "above-wire",
        "between-taps",
        "congestion-window",
        "unknown-window",
        "net-asymmetry",
        "server-queue-unknown",
        "server-slow-ops",
        "server-window",
    )
)
_LIMITS = ("server-threads", "client-slots", "session-slots", "connection-cap")
_OF_PATH = ("net-delay", "net-loss", "net-reordering", "bandwidth", "zero-window", "receive-window", "delayed-ack")
_COSTLY = tuple(one.code for one in ROWS if one.code not in _NATURAL)
# What nfslat may say at all: a name that is mistyped would be absent for ever. The audit's codes begin as below.
_AUDIT = ("capture", "clock-", "no-overlap", "observer-effect")
_WORDS = {
    "layer": frozenset(("server", "network", "client", "unknown")),
    "confidence": frozenset(("high", "medium", "low")),
}


class BadExpectation(ValueError):
    """An [expect] table that says nothing, or nothing that is known."""


@dataclass(frozen=True)
class Expected:
    """None and () are "whatever"; a cause of "" is "no cause is named"."""

    layer: tuple[str, ...] | None = None  # any of these is right
    cause: tuple[str, ...] | None = None
    confidence: tuple[str, ...] | None = None
    findings: tuple[str, ...] = ()  # listed with a share of 0.1 or more, or with one that cannot be known
    listed: tuple[str, ...] = ()  # listed with any share
    absent: tuple[str, ...] = ()  # must not be listed so, but may be where it is likely only, and its share not known
    threads: int | None = None  # of the server: found exactly, of all of the time or of a phase
    slots: int | None = None  # of each connection, or of the session: found exactly
    unmeasured: tuple[str, ...] = ()  # figures by their names that this run does not measure
    why: str = ""  # where it was derived


@dataclass(frozen=True)
class Both:
    """What is right from packets alone and with the application's latency; None: nothing says what is."""

    packets: Expected | None
    application: Expected | None
    why_not: str = ""

    def of(self, known: str) -> Expected | None:
        """By what is known."""
        return self.packets if known == PACKETS else self.application


def expected(truth: Mapping[str, Any], client: str = "") -> Both:
    """By the scenario's own table (`expect`), else by the cause that was injected; `client` names one but the first.

    Raises `BadExpectation`.
    """
    table = truth.get("expect")
    if client:
        table = table.get(client) if isinstance(table, Mapping) else None
        if table is None:
            return Both(None, None, f"expect has no table {client}")
        return _told(table)
    both = _derived(truth) if table in (None, {}) else _told(table)
    return _with_slots(_with_what_is_above(_with_starved(both, truth), truth), truth)


def _with_starved(both: Both, truth: Mapping[str, Any]) -> Both:
    """Where the server's guest waited for a processor of the machine, its threads did take long: to say so is right
    wherever it is right to say that nothing is wrong."""
    if not is_server_starved(truth):
        return both

    def also(one: Expected | None) -> Expected | None:
        if one is None or one.cause is None or "" not in one.cause:
            return one
        absent = tuple(code for code in one.absent if code not in _LONG_IN_THREAD)
        layer = (*one.layer, "server") if one.layer is not None else None
        return replace(one, layer=layer, cause=tuple(dict.fromkeys((*one.cause, *_LONG_IN_THREAD))), absent=absent)

    return Both(also(both.packets), also(both.application), both.why_not)


def _with_what_is_above(both: Both, truth: Mapping[str, Any]) -> Both:
    """Where the kernels say that the client took most of the application's time, that answer is right, too: guests have
    one processor, and threads of the load wait for it."""
    mine = both.application
    if mine is None or mine.cause is None or _above_share(truth) < _MOSTLY:
        return both
    return replace(
        both,
        application=replace(
            mine,
            layer=(*mine.layer, "client") if mine.layer is not None else None,
            cause=tuple(dict.fromkeys((*mine.cause, "above-wire"))),
        ),
    )


def _with_slots(both: Both, truth: Mapping[str, Any]) -> Both:
    """Where slots were injected, packets that show all of them in use are right to name them, though not what it costs;
    tables that were written beforehand name what takes most on the wire."""
    packets, cause = both.packets, truth.get("cause") or {}
    if packets is None or packets.cause is None or not {"slots", "max_session_slots"} & cause.keys():
        return both
    code = "session-slots" if "max_session_slots" in cause else "client-slots"
    if code in packets.absent:
        return both
    layer = packets.layer and (*packets.layer, "client")
    return replace(both, packets=replace(packets, layer=layer, cause=(*packets.cause, code)))


def _above_share(truth: Mapping[str, Any]) -> float:
    """Of the application's time, how much the client's kernel says is before its calls and behind their replies."""
    app, ops = (truth.get("workload") or {}).get("app_ms") or {}, truth.get("mountstats_ops_delta") or {}
    both = [(float(app[op]), ops[op]) for op in app if op in ops]
    whole = sum(each_ms * one["ops"] for each_ms, one in both)
    return 1 - sum(one["avg_rtt_ms"] * one["ops"] for _, one in both) / whole if whole else 0.0


def _told(table: Any) -> Both:
    if not isinstance(table, Mapping):
        raise BadExpectation("expect: a table is wanted")
    tables = {key for key, value in table.items() if isinstance(value, Mapping)}
    for key in sorted(tables):
        if key != PACKETS and not re.fullmatch(r"client\d+", key):
            raise BadExpectation(f"expect.{key}: the tables below expect are packets, client2 ...")
    own = {key: value for key, value in table.items() if key not in tables and key != PACKETS}
    over = table.get(PACKETS, {})
    if not isinstance(over, Mapping):
        raise BadExpectation("expect.packets: a table is wanted")
    if not own and not over:
        raise BadExpectation("expect: it says nothing")
    application = _parsed("expect", own) if own else None
    # Slots look like workers: from packets alone their number is asked for only where the scenario says so.
    shared = {key: value for key, value in own.items() if key != "slots"}
    return Both(_parsed("expect.packets", {**shared, **over}), application)


def _parsed(name: str, table: Mapping[str, Any]) -> Expected:
    known = {field.name for field in fields(Expected)}
    made: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise BadExpectation(f"{name}: {key!r} is none of {', '.join(sorted(known))}")
        if key in ("threads", "slots"):
            if isinstance(value, bool) or not isinstance(value, int):
                raise BadExpectation(f"{name}.{key}: a whole number is wanted, not {value!r}")
            made[key] = value
        elif key == "why":
            made[key] = str(value)
        else:
            made[key] = _strings(f"{name}.{key}", value)
            _check(f"{name}.{key}", key, made[key])
    return Expected(**made)


def _check(name: str, key: str, values: Sequence[str]) -> None:
    for one in values:
        if key in _WORDS:
            known = one in _WORDS[key]
        elif key == "unmeasured":
            known = True
        else:
            known = one in CODES or one.startswith(_AUDIT) or (key == "cause" and not one)
        if not known:
            raise BadExpectation(f"{name}: nfslat never says {one!r}")


def _strings(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise BadExpectation(f"{name}: a string or a list of strings is wanted, not {value!r}")


# --- Runs without such a table: what follows from the cause -----------------------------------------------------------


def _derived(truth: Mapping[str, Any]) -> Both:
    cause = truth.get("cause") or {}
    make = _BY_PLACE.get(cause.get("where"))
    if make is None:
        return Both(None, None, f"no table expect, and nothing is known of the cause {cause.get('where')!r}")
    made = make(truth, cause)
    if made is None:
        return Both(None, None, f"no table expect, and nothing is known of {cause['where']} with {_settings(cause)}")
    packets, application = made
    # A capture that is not whole, or whose clock was set, must say so, whatever the cause is.
    audit = tuple(
        code
        for key, code in (
            ("capture_drops", "capture-drops"),
            ("clock_step_s", "clock-step"),
            ("clock_drift_ppm", "clock-drift"),
        )
        if cause.get(key)
    )
    unsure = ("low", "medium") if cause.get("capture_drops") else None
    packets, application = (
        replace(one, listed=(*one.listed, *audit), confidence=unsure) for one in (packets, application)
    )
    return Both(packets, application)


def _settings(cause: Mapping[str, Any]) -> str:
    return ", ".join(sorted(key for key in cause if key != "where")) or "no figures"


def _none(truth: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[Expected, Expected]:
    # A guest has one processor, and what it does between the capture and the wire is between the taps, and said to be
    # the path or the hosts' own kernels.
    quiet = ("", "between-taps")
    packets = Expected(cause=quiet, absent=_COSTLY, why="nothing was injected: no cause may be named")
    if is_disk_slow(truth):
        own = (*quiet, "server-storage", "server-slow-ops")
        absent = tuple(one for one in _COSTLY if one not in own)
        packets = Expected(cause=own, absent=absent, why="nothing was injected, but the disk was slow by itself")
    # Above the wire the guests' own processor takes its part, which is no mistake to name.
    return packets, replace(packets, cause=(*(packets.cause or ()), "above-wire"))


def _threads(truth: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[Expected, Expected]:
    both = Expected(
        ("server",),
        ("server-threads",),
        findings=("server-threads",),
        threads=cause.get("nfsd_threads"),
        why="the wait for a thread is many times the disk's time; packets show it without help",
    )
    return both, both


def _slots(truth: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[Expected, Expected]:
    session = "max_session_slots" in cause
    code = "session-slots" if session else "client-slots"
    slots = cause["max_session_slots" if session else "slots"] if session or "slots" in cause else None
    application = Expected(
        ("client",), (code,), findings=(code,), absent=("server-threads",), slots=slots,
        why="what waits for a slot is above the wire",
    )  # fmt: skip
    packets = replace(
        application, layer=None, cause=(code, ""), why="packets show that all slots are in use, not what that costs"
    )
    if is_disk_slow(truth):
        storage = "packets show that all slots are in use, not what that costs; on the wire the slow disk takes most"
        packets = replace(packets, layer=("client", "server"), cause=(code, "server-storage"), why=storage)
    return packets, application


def _network(truth: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[Expected, Expected] | None:
    if cause.get("delay_ms"):
        both = Expected(
            ("network",), ("net-delay",), findings=("net-delay",), absent=(*_LIMITS, "server-storage", "net-loss"),
            why="every op pays the delay both ways",
        )  # fmt: skip
        return both, both
    if cause.get("loss_pct"):
        packets = Expected(
            cause=("", "net-loss"), listed=("net-loss",), absent=(*_LIMITS, "server-storage", "net-delay"),
            why="1 or 2 % of loss hits few ops: it must be told, but that it leads is not known from outside",
        )  # fmt: skip
        return packets, replace(packets, cause=("", "net-loss", "above-wire"))
    if not cause.get("dup_pct"):
        return None
    packets, application = _none(truth, cause)
    why = "packets that the network doubles cost nothing: no cause may be named"
    return replace(packets, why=why), replace(application, why=why)


def _storage(truth: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[Expected, Expected]:
    both = Expected(
        ("server",), ("server-storage",), findings=("server-storage",), absent=(*_LIMITS, *_OF_PATH),
        why="the disk is slow, and there are threads enough",
    )  # fmt: skip
    return both, both


def _restart(truth: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[Expected, Expected]:
    both = Expected(
        ("server",), ("reconnect",), findings=("reconnect",), absent=_LIMITS,
        why="few ops waited for the new connection, and they make most of the mean",
    )  # fmt: skip
    return both, both


def _client(truth: Mapping[str, Any], cause: Mapping[str, Any]) -> tuple[Expected, Expected] | None:
    if not cause.get("stall_s"):
        return None
    application = Expected(
        ("client",), ("host-pause",), findings=("host-pause",), absent=(*_LIMITS, "server-storage", "net-loss"),
        why="the application was stalled with its host",
    )  # fmt: skip
    why = "that the client was stalled can be seen; what its application lost by it is above the wire"
    return replace(application, layer=None, cause=("", "host-pause"), why=why), application


def is_disk_slow(truth: Mapping[str, Any]) -> bool:
    """By what the server's disk took during the load, reading or writing: for each of its requests, or for each
    operation where that is many of them, one after the other (READs of 1 MB)."""
    disk = (truth.get("server_storage") or {}).get("diskstats_delta_during_load") or {}
    ops = truth.get("mountstats_ops_delta") or {}
    counts = {"read": ("READ",), "write": ("WRITE", "COMMIT")}
    for kind, names in counts.items():
        count = sum(int((ops.get(name) or {}).get("ops") or 0) for name in names)
        each_ms = (disk.get(f"{kind}_ms") or 0.0) / count if count else 0.0
        if max(disk.get(f"avg_{kind}_ms") or 0.0, each_ms) >= SLOW_DISK_MS:
            return True
    return False


def is_server_starved(truth: Mapping[str, Any]) -> bool:
    """Did the server's guest wait for a processor of a busy machine, for as much as a fifth of what requests took?"""
    waited_s = ((truth.get("processors") or {}).get("server") or {}).get("waited_s") or 0.0
    ops = (truth.get("mountstats_ops_delta") or {}).values()
    took_s = sum(float(one["ops"]) * float(one["avg_rtt_ms"]) for one in ops) / 1e3
    return bool(took_s) and waited_s >= _STARVED * took_s


_BY_PLACE: dict[object, Callable[..., tuple[Expected, Expected] | None]] = {
    "none": _none,
    "server-threads": _threads,
    "client-slots": _slots,
    "network": _network,
    "server-storage": _storage,
    "server-restart": _restart,
    "client": _client,
}
