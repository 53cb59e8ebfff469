"""Ops of a side + filters -> which ops are shown, and a named reason for every other one."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from nfslat.constants import NFS, TRANSIENT_FIRST, TRANSIENT_LAST, op_name, op_names
from nfslat.errors import UsageError
from nfslat.tables import I8, I64, Bool, Ops

REASONS = (
    "selected",
    "other RPC programs than NFS",
    "not --op",
    "not --client",
    "not --server-addr",
    "not --port",
    "before --start",
    "at or after --end",
)
_NS = 1_000_000_000
_ABSOLUTE_S = 100_000_000  # a number of seconds this large (1973) is a date, not a distance from the first packet


@dataclass(frozen=True)
class Moment:
    """A point in time: distance from the client capture's first packet, or int ns since 1970."""

    ns: int
    absolute: bool
    text: str

    def on_clock(self, first_ns: int) -> int:
        """The same moment as int ns since 1970, in a capture that begins at `first_ns`."""
        return self.ns if self.absolute else first_ns + self.ns


@dataclass(frozen=True)
class Filters:
    """What the user asked to see; empty means all. Times are those of the call's first byte on the client's clock."""

    ops: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()
    start: Moment | None = None
    end: Moment | None = None
    all_programs: bool = False
    text: dict[str, str] = field(default_factory=dict)  # option -> value as given, for the report


def parse_moment(text: str) -> Moment:
    """``12.5``, ``90s``, ``2m`` (after the first packet), seconds since 1970, or ISO 8601 (UTC where no zone is given).

    Raises ``UsageError`` for anything else.
    """
    number = re.fullmatch(r"\+?(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    if number:
        whole, _, fraction = number[1].partition(".")
        ns = int(whole) * _NS + int((fraction + "000000000")[:9])
        if number[2] is None and int(whole) >= _ABSOLUTE_S:
            return Moment(ns, True, text)
        factor = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[number[2]]
        return Moment(ns if factor == 1.0 else round(ns * factor), False, text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError as problem:
        raise UsageError(
            f"time {text!r} is not understood; give seconds after the first packet (12.5, 2m) or 2026-01-31T12:00:05Z"
        ) from problem
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return Moment((delta.days * 86_400 + delta.seconds) * _NS + delta.microseconds * 1000, True, text)


def parse_addresses(values: list[str], option: str) -> frozenset[str]:
    """Addresses as Wireshark prints them. Raises ``UsageError`` for what is no IP address."""
    out = set()
    for value in values:
        try:
            out.add(str(ipaddress.ip_address(value)))
        except ValueError as problem:
            raise UsageError(f"{option} {value}: not an IP address; names are not resolved") from problem
    return frozenset(out)


def parse_ops(names: Iterable[str], option: str) -> frozenset[str]:
    """Names of operations, upper case. Raises ``UsageError`` for a name that no operation has."""
    out = frozenset(name.strip().upper() for name in names if name.strip())
    for name in sorted(out - op_names()):
        near = difflib.get_close_matches(name, op_names(), n=1)
        hint = f"did you mean {near[0]}?" if near else "operations are named as nfsstat does, READ for example"
        raise UsageError(f"{option} {name}: no such operation; {hint}")
    return out


def op_labels(ops: Ops) -> list[str]:
    """Name of each op, as printed."""
    keys = np.stack([ops.program, ops.version.astype(np.int64), ops.op.astype(np.int64)], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    names = [op_name(*map(int, key)) for key in unique]
    return [names[i] for i in inverse.reshape(-1)]


def is_reverse(ops: Ops) -> Bool:
    """Calls from an NFS server to an NFS client: callbacks, and lock or status calls in that direction."""
    callback = (ops.program >= TRANSIENT_FIRST) & (ops.program <= TRANSIENT_LAST)
    if not len(ops):
        return np.asarray(callback)
    nfs = ops.program == NFS
    sources = [(ends.source(0)[0], ends.source(1)[0]) for ends in ops.connections]
    ways = np.unique(ops.conn[nfs] * 2 + ops.direction[nfs]).tolist()
    clients = {sources[way // 2][way % 2] for way in ways}
    servers = {sources[way // 2][1 - way % 2] for way in ways}
    from_server = np.array([[source in servers - clients for source in both] for both in sources], dtype=np.bool_)
    return np.asarray(callback | (from_server[ops.conn, ops.direction] & ~nfs))


def select(ops: Ops, filters: Filters, time_ns: I64, first_ns: int) -> I8:
    """Row of ``REASONS`` for each op: 0 for the ops to show, else the first filter that it fails (int8).

    `time_ns` is each op's time on the client's clock, `first_ns` the first packet of the client's capture on it.
    """
    reasons = np.zeros(len(ops), dtype=np.int8)

    def drop(reason: str, mask: npt.NDArray[np.bool_]) -> None:
        reasons[(reasons == 0) & mask] = REASONS.index(reason)

    if not filters.all_programs:
        drop("other RPC programs than NFS", ops.program != NFS)
    if filters.ops:
        drop("not --op", np.array([label not in filters.ops for label in op_labels(ops)], dtype=bool))
    ends = _ends(ops)
    for option, wanted, column in (
        ("--client", filters.clients, 0),
        ("--server-addr", filters.servers, 1),
        ("--port", filters.ports, 2),
    ):
        if wanted:
            drop(f"not {option}", np.array([end[column] not in wanted for end in ends], dtype=bool))
    if filters.start is not None:
        drop("before --start", np.asarray(time_ns < filters.start.on_clock(first_ns)))
    if filters.end is not None:
        drop("at or after --end", np.asarray(time_ns >= filters.end.on_clock(first_ns)))
    return reasons


def excluded(reasons: I8) -> dict[str, int]:
    """Ops left out, by reason; with the ones kept they sum to all ops."""
    counts = np.bincount(reasons, minlength=len(REASONS))
    return {name: int(count) for name, count in zip(REASONS[1:], counts[1:], strict=True) if count}


def _ends(ops: Ops) -> list[tuple[str, str, int]]:
    """(client address, server address, server port) of each op; for callbacks the NFS client is the one called."""
    made: dict[tuple[int, int, bool], tuple[str, str, int]] = {}
    for conn, ends in enumerate(ops.connections):
        for direction in (0, 1):
            caller, called = ends.source(direction), ends.destination(direction)
            made[conn, direction, False] = caller[0], called[0], called[1]
            made[conn, direction, True] = called[0], caller[0], called[1]
    keys = zip(ops.conn.tolist(), ops.direction.tolist(), is_reverse(ops).tolist(), strict=True)
    return [made[key] for key in keys]
