"""What is known from outside the captures, by the user or by evidence that hosts print: latencies and settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import field, structs

from nfslat.errors import UsageError
from nfslat.model.blocks import each_block
from nfslat.model.durations import parse_duration
from nfslat.model.protocol import DATA_OPS, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.thresholds import parse_ops
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.select import op_labels

if TYPE_CHECKING:
    from nfslat.evidence.records import Database, HostLoad, Snapshot

MOST_MS = 1e9  # eleven days; more is a slip
LEAST_IN_A_ROW = 1.5  # ops of a call
MOST_IN_A_ROW = 1.1  # of a call's ops in flight at once: a READ or two of a thousand may overlap
_FEW = 2  # names that are printed; more are "all"


class Traced(NamedTuple):
    """What tracepoints say of each matched op, ns; NULL where the trace does not have it."""

    slot_wait_ns: I64  # before it was sent
    execute_ns: I64  # in the client's kernel, all of it
    thread_ns: I64  # in a thread of the server


class Pieces(NamedTuple):
    """The ops that each call of a kind was made of, means."""

    op: str  # "READ", "WRITE"
    ops: float  # of a call
    at_once: float  # of its own in flight, over the time in which any is: 1 where each waits for the one before
    size: float  # bytes
    gap_ms: float  # from an answer to the next of its calls

    @property
    def is_in_a_row(self) -> bool:
        """Is each sent as the answer to the one before has come?"""
        return self.ops >= LEAST_IN_A_ROW and self.at_once <= MOST_IN_A_ROW


class CallMeans(Record):
    """What the application's calls of one kind waited for, means over those that were joined with ops; ms."""

    call: str  # "pread", "pwrite", "fsync", "fdatasync"
    source: str
    calls: int
    cached_calls: int  # of these, without an op
    total_ms: float  # the parts below add up to it
    cached_ms: float  # in calls without an op
    before_ms: float  # before the first op was sent
    network_ms: float
    server_ms: float
    after_ms: float  # between its ops, and behind the last
    pieces: Pieces | None = None  # None: each call has one op, or too few calls are joined


class Known(Record):
    """Mean latencies in ms by operation, or under "" for the data ops together; limits; and what the hosts say."""

    app_ms: dict[str, float] = field(default_factory=dict)
    storage_ms: dict[str, float] = field(default_factory=dict)
    thread_ms: dict[str, float] = field(default_factory=dict)  # in a server thread: DTrace, tracepoints
    slot_wait_ms: dict[str, float] = field(default_factory=dict)  # before an RPC is sent: mountstats, tracepoints
    threads: int | None = None  # of the server
    slots: int | None = None  # of the client, each connection
    woken_share: float | None = None  # of the server's queued sockets, those that found an idle thread (pool_stats)
    resent_share: float | None = None  # of the segments that hosts sent, those that they count as sent again
    traced: Traced | None = None
    database: Database | None = None
    calls: tuple[CallMeans, ...] = ()  # of the application, joined with ops
    request_ms: Mapping[str, float] = field(default_factory=dict)  # as given, where `app_ms` has parts of requests
    row: CallMeans | None = None  # a request that is as long as ops in a row, and joined with none
    is_in_turn: bool = False  # most ops go on where one ended, right behind its answer: they waited for no slot
    loads: Mapping[str, HostLoad] = field(default_factory=dict)  # by side
    server_host: Snapshot | None = None
    client_host: Snapshot | None = None
    sources: dict[str, str] = field(default_factory=dict)  # name of a field -> who says so, where not the option
    since_mount: frozenset[str] = frozenset()  # names of fields that a client counts since its mount

    @property
    def of_hosts(self) -> Known:
        """What a part of the ops has of it, too: means that somebody gave are of the whole."""
        return Known(server_host=self.server_host, client_host=self.client_host)

    def source(self, name: str, option: str) -> str:
        """Who gave the field `name`; `option` where it was the user."""
        return self.sources.get(name, option)

    def having(self, name: str, values: dict[str, float], source: str) -> Known:
        """With the field `name` filled from `source`, unless something is known already."""
        if getattr(self, name):
            return self
        changed: dict[str, Any] = {name: values, "sources": {**self.sources, name: source}}
        return structs.replace(self, **changed)

    def with_limit(self, name: str, value: int | None, source: str) -> Known:
        """The same for `threads` and `slots`."""
        if value is None or getattr(self, name) is not None:
            return self
        changed: dict[str, Any] = {name: value, "sources": {**self.sources, name: source}}
        return structs.replace(self, **changed)

    def population(self, c: Analysis) -> I64:
        """Rows of the matched ops that the application's figures speak of.

        An operation whose figure is below its own client SRT adds nothing above the wire and takes nothing away.
        """
        return data_rows(c) if "" in self.app_ms else c.rows_of(self._above(c))

    def title(self, c: Analysis) -> str:
        """Names of the operations in `population`: ``"READ and WRITE"``."""
        return title_of(data_ops(c) if "" in self.app_ms else set(self._above(c)))

    def above_wire_ms(self, c: Analysis) -> float | None:
        """Mean time between application and wire; None where no application latency is known, or it is no longer."""
        rows = self.population(c) if self.app_ms else np.zeros(0, dtype=np.int64)
        if not len(rows):
            return None
        app = self.app_ms.get("")
        if app is None:
            app = sum(self.app_ms[name] * c.ops_of[name] for name in self._above(c)) / len(rows)
        above = app - float(to_ms(c.client_srt_ns[rows].mean()))
        return above if above > 0 else None

    def mean_ms(self, name: str, c: Analysis, rows: I64 | slice) -> float | None:
        """The field `name` ("storage_ms" ...) as a mean over the data ops among the matched ops `rows`.

        None where it is not known for each of their operations.
        """
        values: dict[str, float] = getattr(self, name)
        if not values:
            return None
        if "" in values:
            return values[""]
        known = data_ops(c)
        used = {label: count for label, count in counts_of(c, rows).items() if count and label in known}
        if not used or not used.keys() <= values.keys():
            return None
        return sum(values[label] * count for label, count in used.items()) / sum(used.values())

    def _above(self, c: Analysis) -> list[str]:
        """Operations that take longer at the application than on the client's wire."""
        return [
            name
            for name, app_ms in self.app_ms.items()
            if name in c.ops_of and app_ms > to_ms(c.client_srt_ns[c.rows_of([name])].mean())
        ]


def parse_known(values: list[str], option: str) -> dict[str, float]:
    """``["58"]`` or ``["READ=58", "WRITE=70"]`` -> ms by operation ("" for a bare figure).

    Raises ``UsageError`` for anything else, and for a bare figure beside named ones.
    """
    out: dict[str, float] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        seconds = parse_duration(number, "ms")
        ms = -1.0 if seconds is None else float(seconds * 1000)
        if not 0 <= ms <= MOST_MS or bool(equals) != bool(name):
            raise UsageError(f"{option} {value}: give milliseconds (58, or 100us), or an operation with them (READ=58)")
        for known in parse_ops([name], option) or {""}:
            out[known] = ms
    if "" in out and len(out) > 1:
        raise UsageError(f"{option}: give one figure for all, or one for each operation, not both")
    return out


def title_of(operations: set[str]) -> str:
    """The names, or "all" where they are not few."""
    return " and ".join(sorted(operations)) if len(operations) <= _FEW else "all"


def data_ops(c: Analysis) -> set[str]:
    """READ, WRITE and READ_PLUS as far as there are matched ones, or all operations where there are none."""
    return c.ops_of.keys() & DATA_OPS or set(c.ops_of)


def data_rows(c: Analysis) -> I64:
    """Rows of the matched ops of `data_ops`."""
    return c.rows_of(data_ops(c))


def data_bytes(c: Analysis, rows: I64) -> float:
    """Mean of what READs ask for and WRITEs send, as far as it was captured."""
    wanted = np.array([label in DATA_OPS for label in op_labels(c.client.ops.kinds)], dtype=np.bool_)

    def count_and_sum(at: slice) -> tuple[int, int]:
        mine = rows[at]
        sizes = c.client.ops.size[c.matched.client[mine[wanted[c.kind[mine]]]]]
        sizes = sizes[sizes != NULL32]
        return len(sizes), int(sizes.sum())

    found = each_block(len(rows), count_and_sum)
    count = sum(one for one, _ in found)
    return sum(size for _, size in found) / count if count else 0.0


def rate_per_s(c: Analysis, names: Collection[str]) -> float:
    """Ops of the client whose operation has one of `names`, per second in which any op was in flight, else 0.

    All that the report is about, matched or not: what another capture missed was done all the same.
    """
    busy_ns = c.inflight.client.levels.busy_ns
    wanted = np.array([label in names for label in op_labels(c.client.ops.kinds)], dtype=np.bool_)
    ops = int(np.count_nonzero(wanted[c.client.ops.kind] & c.compared("client"))) if len(wanted) else 0
    return ops * 1e9 / busy_ns if busy_ns else 0.0


def counts_of(c: Analysis, rows: I64 | slice) -> dict[str, int]:
    """Ops of each operation among the matched ops `rows`."""
    labels = op_labels(c.client.ops.kinds)
    counts: dict[str, int] = dict.fromkeys(labels, 0)
    for label, count in zip(labels, np.bincount(c.kind[rows], minlength=len(labels)).tolist(), strict=True):
        counts[label] += count
    return counts
