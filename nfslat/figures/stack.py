"""An `Analysis` + latencies that are known from outside -> the latency stack (docs/method.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from msgspec import structs

from nfslat.answer.model import StackRow
from nfslat.evidence.known import CallMeans, Known, data_ops, data_rows, title_of
from nfslat.figures.inflight import queue_ms
from nfslat.figures.outcomes import put_off_of
from nfslat.figures.unseen import with_unseen
from nfslat.findings.layers import Layers
from nfslat.model.protocol import DATA_OPS
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis

_SAME = 1.05
_SOME = 0.05  # of the application's time, as for findings


class Stack(NamedTuple):
    """Rows to print, and what must be said with them."""

    rows: list[StackRow]
    notes: list[str]


class Layer(NamedTuple):
    """The figures of one block, ms; None: not known. `queue` is part of `server`, `slot_wait` and `between_tries` of
    what the application's time is more than the client's."""

    title: str
    client: float
    server: float
    app: float | None = None
    slot_wait: float | None = None
    between_tries: float = 0.0
    queue: float | None = None
    queue_source: str = ""  # who measured the time in a thread; "": it is inferred from packets
    storage: float | None = None
    threads: int | None = None

    def joined(self, later: Layer, share: float) -> Layer:
        """This one, and that of later ops, which are such a share of both."""

        def mean(one: float | None, other: float | None) -> float | None:
            if one is None or other is None:
                return other if one is None else one
            return one + (other - one) * share

        means = ("client", "server", "app", "slot_wait", "between_tries", "queue", "storage")
        changed: dict[str, Any] = {name: mean(getattr(self, name), getattr(later, name)) for name in means}
        return self._replace(
            **changed,
            title=max(self.title, later.title, key=len),  # "READ and WRITE" beside "READ"
            queue_source=self.queue_source or later.queue_source,
            threads=self.threads if later.threads is None else later.threads,
        )


def stack(known: Known, c: Analysis) -> Stack:
    """One block of rows for each operation that a figure is known for; one for all where threads keep calls waiting."""
    return StackTally.of(known, c).rows(known)


class StackTally(Record):
    """Blocks of the stack, each with how many ops its means are over; and what must be said with them."""

    blocks: Mapping[str, tuple[int, Layer]] = {}  # by the operation that figures are of
    without_ops: tuple[str, ...] = ()  # operations that a figure is known for
    calls: Mapping[str, CallMeans] = {}
    notes: tuple[str, ...] = ()
    inferred: str | None = None  # a side that was not captured

    @classmethod
    def of(cls, known: Known, c: Analysis) -> Self:
        """One block for each operation that a figure is known for; one for all where threads keep calls waiting."""
        blocks: dict[str, tuple[int, Layer]] = {}
        notes: list[str] = []
        without_ops: list[str] = []
        names = _blocks(known)
        if "" in names and any(data_ops(c) <= {name} for name in names if name):
            names.remove("")  # there is one data operation only, and it has a block of its own
        if not names and c.inflight.load.threads.limited and len(c.matched):
            names = ["all"]
        for name in names:
            at = data_rows(c) if name == "" else c.rows_of(set(c.ops_of) if name == "all" else [name])
            if not len(at):
                without_ops.append(name)
                continue
            layer, with_unseen = _with_unseen(_layer(name, known, c, at), c, at)
            blocks[name] = len(at), layer
            notes += with_unseen
        calls = {call.call: call for call in known.calls}
        side = None if c.inferred is None else c.inferred.side
        return cls(blocks, tuple(without_ops), calls, tuple(notes), side)

    def __add__(self, later: Self) -> Self:
        """This one, and that of later ops."""
        blocks = dict(self.blocks)
        for name, (ops, layer) in later.blocks.items():
            before, own = blocks.get(name, (0, layer))
            blocks[name] = before + ops, own.joined(layer, ops / (before + ops))
        calls = dict(self.calls)
        for name, call in later.calls.items():
            calls[name] = call if name not in calls else max(calls[name], call, key=lambda some: some.calls)
        without_ops, notes = (tuple(dict.fromkeys((*a, *b))) for a, b in
                              ((self.without_ops, later.without_ops), (self.notes, later.notes)))  # fmt: skip
        return type(self)(blocks, without_ops, calls, notes, later.inferred)

    def _none(self) -> list[str]:
        return [name for name in self.without_ops if name not in self.blocks]

    def rows(self, known: Known) -> Stack:
        """What is printed; `known` says where figures come from."""
        rows: list[StackRow] = []
        notes = [
            *(f"--app-ms/--storage-ms {name}: no matched {name} op to compare it with" for name in self._none()),
            *self.notes,
        ]
        for _, layer in self.blocks.values():
            block, remarks = layers(layer, known)
            rows += block if self.inferred is None else [_as_inferred(row, self.inferred) for row in block]
            notes += remarks
        for call in self.calls.values():
            rows += _of_call(call)
        return Stack(rows, notes)


def _of_call(one: CallMeans) -> list[StackRow]:
    """What the application's calls waited for: of each call, and not a difference of means."""
    cached = f"{one.cached_calls:,} of {one.calls:,} calls, without an op"
    above = one.cached_ms + one.before_ms + one.after_ms
    parts = (
        ("call", 0, one.total_ms, f"{one.source}: {one.calls:,} calls"),
        ("above the wire", 1, above, "call - its ops"),
        ("page cache", 2, one.cached_ms, cached),
        ("until its first op is sent", 2, one.before_ms, "call by call"),
        ("between and behind its ops", 2, one.after_ms, "call by call"),
        ("network", 1, one.network_ms, "its ops, call by call"),
        ("server", 1, one.server_ms, "its ops, call by call"),
    )
    whole = one.total_ms
    return [
        StackRow(one.call, layer, depth, ms, ms / whole if whole > 0 else None, source)
        for layer, depth, ms, source in parts
    ]


def _as_inferred(row: StackRow, side: str) -> StackRow:
    return structs.replace(row, source="inferred") if row.source == f"{side} capture" else row


def _blocks(known: Known) -> list[str]:
    """The operations that figures are known for; a bare figure counts for each of them, or stands alone."""
    by_op = (known.app_ms, known.storage_ms, known.thread_ms)
    named = sorted(set().union(*by_op) - {""})
    return ["", *named] if any("" in one for one in by_op[::2]) or ("" in known.storage_ms and not named) else named


def _layer(name: str, known: Known, c: Analysis, at: I64) -> Layer:
    # A bare figure of storage or of threads is one of reads and writes: a disk does not know a GETATTR.
    def of(values: dict[str, float], *, data_only: bool) -> float | None:
        bare = values.get("") if not data_only or name in ("", *DATA_OPS) else None
        return values.get(name, bare)

    server = float(to_ms(c.server_srt_ns[at].mean()))
    thread = of(known.thread_ms, data_only=True)
    queue = queue_ms(c, at) if thread is None else server - thread
    threads = c.inflight.load.threads
    return Layer(
        title=title_of(data_ops(c)) if name == "" else name,
        client=float(to_ms(c.client_srt_ns[at].mean())),
        server=server,
        app=of(known.app_ms, data_only=False),
        slot_wait=of(known.slot_wait_ms, data_only=False),
        between_tries=_between_tries(c, at),
        queue=queue if thread is not None or threads.limited else None,
        queue_source="" if thread is None else known.source("thread_ms", "--thread-ms"),
        storage=of(known.storage_ms, data_only=True),
        threads=threads.estimate if known.threads is None else known.threads,
    )


def _between_tries(c: Analysis, at: I64) -> float:
    """Of what an application asked for with the matched ops in `at`, mean ms."""
    put_off = put_off_of(c.client.ops, c.tried_again, c.matched.client[at], c.server.ops, as_asked=True)
    return sum(one.between_ms for one in put_off.values())


def _with_unseen(one: Layer, c: Analysis, at: I64) -> tuple[Layer, list[str]]:
    """The same with the ops that the captures do not show, where these matter; and that it is so."""
    above = None if one.app is None else max(one.app - one.client, 0.0)
    found = with_unseen(c, Layers(one.server, one.client - one.server, above), at)
    if found is None or not found.matters:
        return one, []
    mean = found.layers()
    client = mean.server_ms + mean.network_ms
    # What those waited for is not known.
    queue = one.queue if one.queue_source else None
    said = (
        f"{one.title}: the latency stack is with the {found.ops:,} ops that the captures do not show, "
        "at the most that they may have taken; other tables are without them"
    )
    return one._replace(client=client, server=mean.server_ms, queue=queue), [said]


def layers(one: Layer, known: Known) -> tuple[list[StackRow], list[str]]:
    """The rows of a block, and what must be said where a figure does not fit into the one that should hold it."""
    title, client, server = one.title, one.client, one.server
    rows: list[StackRow] = []
    notes: list[str] = []
    whole = client

    def add(layer: str, depth: int, ms: float, source: str) -> None:
        rows.append(StackRow(title, layer, depth, ms, ms / whole if whole > 0 else None, source))

    if one.app is not None and one.app >= client:
        whole = one.app
        add("application", 0, one.app, known.source("app_ms", "--app-ms"))
        add("above the wire", 1, one.app - client, "application - client SRT")
        if one.slot_wait is not None and one.slot_wait <= _SAME * (one.app - client):
            # Two clocks, two means: a little more than the whole is the whole.
            add("waiting for a slot", 2, min(one.slot_wait, one.app - client), known.source("slot_wait_ms", "client"))
        if one.between_tries >= _SOME * one.app:
            between = min(one.between_tries, one.app - client)
            add("between tries that got NFS errors", 2, between, "client capture")
    else:
        if one.app is not None:
            notes.append(
                f"{title}: the application's {one.app:g} ms is below the client SRT of {client:.3g} ms: clocks or "
                "populations differ; nothing can be placed above the wire"
            )
        add("client SRT", 0, client, "client capture")
    add("network", 1, client - server, "client SRT - server SRT")
    add("server", 1, server, "server capture")
    inside, depth = server, 2
    if one.queue is not None and one.queue < 0:
        notes.append(
            f"{title}: the time in a server thread ({server - one.queue:g} ms) is above the server SRT of "
            f"{server:.3g} ms: it describes other requests"
        )
    elif one.queue is not None:
        inside, depth = server - one.queue, 3
        measured = one.queue_source
        threads = "" if one.threads is None else f", T = {one.threads}"
        add(
            "waiting for a thread",
            2,
            one.queue,
            f"server SRT - {measured}" if measured else f"in-flight analysis{threads}",
        )
        add("in a thread", 2, inside, measured or "in-flight analysis")
    if one.storage is not None:
        if one.storage > server:
            notes.append(
                f"{title}: the storage's {one.storage:g} ms is above the server SRT of {server:.3g} ms: it describes "
                "other requests (write-back, cache misses only)"
            )
        elif one.storage > inside:
            notes.append(
                f"{title}: the storage's {one.storage:g} ms is more than the {inside:.3g} ms in a thread: it contains "
                "a wait that looks like one for threads, or speaks of other requests"
            )
        else:
            add(
                "server, outside storage",
                depth,
                inside - one.storage,
                "in a thread - storage" if depth > 2 else "server SRT - storage",
            )
            add("storage", depth, one.storage, known.source("storage_ms", "--storage-ms"))
    return rows, notes
