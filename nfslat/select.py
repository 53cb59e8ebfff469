"""Ops of one side or both + filters -> which ops are shown, and a named reason for every other one."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from nfslat.errors import InputError, UsageError
from nfslat.match import overlap
from nfslat.model.blocks import tally
from nfslat.model.protocol import NFS, is_callback_program, op_name
from nfslat.model.record import Record
from nfslat.model.tables import I8, I16, I64, Bool, Classes, Kind, Matched, Ops
from nfslat.model.thresholds import parse_ops
from nfslat.model.units import NS_PER_S, parse_duration

REASONS = (
    "selected",
    "other RPC programs than NFS",
    "not --op",
    "not --client-addr",
    "not --server-addr",
    "not --port",
    "before --start",
    "at or after --end",
)
OF_TIME = REASONS[-2:]
# Parameters of `make_filters`, which are options, too.
FILTERS = ("op", "client_addr", "server_addr", "port", "start", "end", "all_programs")
_ABSOLUTE_S = 100_000_000  # a number of seconds this large (1973) is a date, not a distance from the first packet


class Moment(NamedTuple):
    """A point in time: distance from the client capture's first packet, or int ns since 1970."""

    ns: int
    absolute: bool
    text: str

    def on_clock(self, first_ns: int) -> int:
        """The same moment as int ns since 1970, in a capture that begins at `first_ns`."""
        return self.ns if self.absolute else first_ns + self.ns


class Filters(Record):
    """What the user asked to see; empty means all. Times are those of the call's first byte on the client's clock."""

    ops: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()
    start: Moment | None = None
    end: Moment | None = None
    all_programs: bool = False
    text: dict[str, str] = {}  # option -> value as given, for the report

    def since(self, first_ns: int) -> Filters:
        """The same where the client's capture begins at `first_ns`."""
        start, end = (
            None if moment is None else Moment(moment.on_clock(first_ns), True, moment.text)
            for moment in (self.start, self.end)
        )
        return replace(self, start=start, end=end)

    @property
    def leaves_out(self) -> bool:
        """May they leave out ops of NFS?"""
        return self.by_time or bool(self.ops or self.clients or self.servers or self.ports)

    @property
    def by_time(self) -> bool:
        """Do they need the time of each op?"""
        return self.start is not None or self.end is not None


def parse_moment(text: str) -> Moment:
    """``12.5``, ``90s``, ``2m`` (after the first packet), seconds since 1970, or ISO 8601 (UTC where no zone is given).

    Raises ``UsageError`` for anything else.
    """
    since = parse_duration(text.removeprefix("+"), "s")
    if since is not None:
        absolute = since >= _ABSOLUTE_S and text[-1].isdecimal()
        return Moment(int(since * NS_PER_S), absolute, text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError as problem:
        raise UsageError(
            f"time {text!r} is not understood; give seconds after the first packet (12.5, 2m) or 2026-01-31T12:00:05Z"
        ) from problem
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return Moment((delta.days * 86_400 + delta.seconds) * NS_PER_S + delta.microseconds * 1000, True, text)


def parse_addresses(values: list[str], option: str) -> frozenset[str]:
    """Addresses as Wireshark prints them. Raises ``UsageError`` for what is no IP address."""
    out = set()
    for value in values:
        try:
            out.add(str(ipaddress.ip_address(value)))
        except ValueError as problem:
            raise UsageError(f"{option} {value}: not an IP address; names are not resolved") from problem
    return frozenset(out)


def op_labels(kinds: Sequence[Kind]) -> list[str]:
    """Name of the operation of each kind, as printed."""
    return [op_name(kind.program, kind.version, kind.op) for kind in kinds]


def count_ops(kinds: Sequence[Kind], kind: I16) -> dict[str, int]:
    """How many ops there are of each operation, by its name; `kind` is the row of `kinds` of each op."""
    counts: Counter[str] = Counter()
    labels = op_labels(kinds)
    for label, count in zip(labels, tally(len(kind), len(labels), lambda at: kind[at]).tolist(), strict=True):
        counts[label] += count
    return dict(+counts)


# Of a table of ops, for as long as it is there: many stages ask, and there may be thousands of connections.
_REVERSE: WeakKeyDictionary[Classes, Bool] = WeakKeyDictionary()


def is_reverse(ops: Ops) -> Bool:
    """Calls from an NFS server to an NFS client: callbacks, and lock or status calls in that direction; one a class.

    ``ops.spread`` makes it one an op.
    """
    c = ops.classes
    if (known := _REVERSE.get(c)) is not None:
        return known
    ways = [
        (ops.kinds[kind].program, ops.connections[conn].source(way)[0], ops.connections[conn].destination(way)[0])
        for conn, way, kind in zip(c.conn, c.direction, c.kind, strict=True)
    ]
    servers = {called for program, _, called in ways if program == NFS}
    servers -= {caller for program, caller, _ in ways if program == NFS}
    reverse = [is_callback_program(program) or (program != NFS and caller in servers) for program, caller, _ in ways]
    _REVERSE[c] = found = np.array(reverse, dtype=np.bool_)
    found.setflags(write=False)
    return found


def is_without_filters(reasons: I8) -> bool:
    """Are all ops there but those of other programs, which none asked for?"""
    return bool((reasons <= REASONS.index("other RPC programs than NFS")).all())


def select(ops: Ops, filters: Filters, time_ns: I64, first_ns: int) -> I8:
    """Row of ``REASONS`` for each op: 0 for the ops to show, else the first filter that it fails (int8).

    `time_ns` is each op's time on the client's clock (looked at only where the filters have a time), `first_ns` the
    first packet of the client's capture on it.
    """
    by_class = ops.classes
    why = np.zeros(len(by_class), dtype=np.int8)

    def drop(reasons: I8, reason: str, mask: npt.ArrayLike) -> None:
        reasons[(reasons == 0) & np.asarray(mask, dtype=np.bool_)] = REASONS.index(reason)

    if not filters.all_programs:
        drop(why, "other RPC programs than NFS", [ops.kinds[kind].program != NFS for kind in by_class.kind])
    if filters.ops:
        labels = op_labels(ops.kinds)
        drop(why, "not --op", [labels[kind] not in filters.ops for kind in by_class.kind])
    for option, wanted, column in (
        ("--client-addr", filters.clients, 0),
        ("--server-addr", filters.servers, 1),
        ("--port", filters.ports, 2),
    ):
        if wanted:
            drop(why, f"not {option}", [ends[column] not in wanted for ends in _ends(ops)])
    reasons = ops.spread(why)
    if filters.start is not None:
        drop(reasons, "before --start", time_ns < filters.start.on_clock(first_ns))
    if filters.end is not None:
        drop(reasons, "at or after --end", time_ns >= filters.end.on_clock(first_ns))
    return reasons


def select_both(server: Ops, client: Ops, matched: Matched, filters: Filters, first_ns: int) -> tuple[I8, I8]:
    """`select` for both sides (the server's first), so that the two rows of a matched op share one fate.

    `first_ns` is the first packet of the client's capture.
    """
    times = _on_client_clock(server, client, matched) if filters.by_time else server.t0
    of_client = select(client, filters, client.t0, first_ns)
    of_server = select(server, filters, times, first_ns)
    if of_client.any() or of_server.any():
        # A name or address may be visible (or rewritten) on one side only: what one side selects, both show.
        agreed = np.where(of_server[matched.server] == 0, 0, of_client[matched.client]).astype(np.int8)
        of_client[matched.client] = of_server[matched.server] = agreed
    return of_server, of_client


def in_time(server: Ops, client: Ops, matched: Matched, begin_ns: int | None, end_ns: int | None) -> tuple[I8, I8]:
    """`select_both` by time alone, ns on the client's clock; None: no such edge."""
    edges = [None if ns is None else Moment(ns, True, "") for ns in (begin_ns, end_ns)]
    return select_both(server, client, matched, Filters(start=edges[0], end=edges[1], all_programs=True), 0)


def _on_client_clock(server: Ops, client: Ops, matched: Matched) -> I64:
    """Time of each of the server's ops on the client's clock: its partner's, or by the nearest op that has one."""
    order = np.argsort(matched.server, kind="stable")
    near = overlap.nearest(server, np.arange(len(server)), matched.server[order])
    out = server.t0 - overlap.offsets(server, client, matched)[order[near]]
    out[matched.server] = client.t0[matched.client]
    return out


def forward(server: Ops, client: Ops, matched: Matched) -> Matched:
    """Matched ops without the calls that go from the NFS server to the client: there the roles are exchanged."""
    of_server, of_client = is_reverse(server), is_reverse(client)
    if not (of_server.any() or of_client.any()):
        return matched
    reverse = server.spread(of_server)[matched.server] | client.spread(of_client)[matched.client]
    return only(matched, ~reverse)


def only(matched: Matched, mask: Bool) -> Matched:
    """Matched ops that `mask` has."""
    return matched if mask.all() else matched.take(mask)


def refuse_nothing_left(filters: Filters, *reasons: I8) -> None:
    """Raise ``InputError`` where the filters leave no op of any side (`select`)."""
    # One that only adds leaves nothing out: none is there where no call has its reply.
    leaves_out = filters.text.keys() - {"--all-programs"}
    if leaves_out and all(of_side.all() for of_side in reasons):
        given = ", ".join(f"{option} {value}" for option, value in filters.text.items())
        raise InputError(f"no op is left by the filters ({given}); run without them to see what there is")


def excluded(reasons: I8) -> dict[str, int]:
    """Ops left out, by reason; with the ones kept they sum to all ops."""
    counts = {name: int(np.count_nonzero(reasons == at)) for at, name in enumerate(REASONS) if at}
    return {name: count for name, count in counts.items() if count}


def _ends(ops: Ops) -> list[tuple[str, str, int]]:
    """(client address, server address, server port) of each class; for callbacks the NFS client is the one called."""
    out = []
    for conn, way, reverse in zip(ops.classes.conn, ops.classes.direction, is_reverse(ops), strict=True):
        caller, called = ops.connections[conn].source(way), ops.connections[conn].destination(way)
        out.append((called[0], caller[0], called[1]) if reverse else (caller[0], called[0], called[1]))
    return out


def client_ends(ops: Ops) -> list[tuple[str, int]]:
    """(address, port) of the NFS client's end of each connection: the one that calls, of callbacks the one called."""
    out = [ends.source(0) for ends in ops.connections]
    for conn, way, reverse in zip(ops.classes.conn, ops.classes.direction, is_reverse(ops), strict=True):
        ends = ops.connections[conn]
        out[conn] = ends.destination(way) if reverse else ends.source(way)
    return out


def make_filters(
    op: Iterable[str] = (),
    client_addr: Iterable[str] = (),
    server_addr: Iterable[str] = (),
    port: Iterable[int] = (),
    start: str | float | None = None,
    end: str | float | None = None,
    *,
    all_programs: bool = False,
) -> Filters:
    """What to look at, as the options of the command line say it: operations by name, addresses, ports that are called,
    and moments as `parse_moment` reads them (numbers are seconds after the client capture's first packet).

    Raises ``UsageError`` for values that make no sense.
    """
    given: dict[str, Any] = {
        "--op": [op] if isinstance(op, str) else list(op),
        "--client-addr": [client_addr] if isinstance(client_addr, str) else list(client_addr),
        "--server-addr": [server_addr] if isinstance(server_addr, str) else list(server_addr),
        "--port": list(port),
        "--start": None if start is None else str(start),
        "--end": None if end is None else str(end),
        "--all-programs": all_programs,
    }
    first, last = (None if text is None else parse_moment(text) for text in (given["--start"], given["--end"]))
    if first is not None and last is not None and first.absolute == last.absolute and first.ns >= last.ns:
        raise UsageError(f"--start {start} is not before --end {end}")
    return Filters(
        ops=parse_ops((name for value in given["--op"] for name in value.split(",")), "--op"),
        clients=parse_addresses(given["--client-addr"], "--client-addr"),
        servers=parse_addresses(given["--server-addr"], "--server-addr"),
        ports=frozenset(given["--port"]),
        start=first,
        end=last,
        all_programs=all_programs,
        text={
            option: ", ".join(map(str, value)) if isinstance(value, list) else "yes" if value is True else str(value)
            for option, value in given.items()
            if value
        },
    )
