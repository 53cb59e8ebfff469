"""An `Analysis` -> Chrome trace JSON (ui.perfetto.dev, trace_processor): client, network and server, a span an op.

Format: "Trace Event Format" (Google), events X, C and M, flows by bind_id; docs/outputs.md says what stands in it.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np
from msgspec import structs

from nfslat import __version__
from nfslat.answer import model
from nfslat.clock.clock import ServerTimes
from nfslat.decompose import PART_NAMES
from nfslat.figures.op_columns import CHARGED, COLUMNS, INSTANTS, Block, Cells, Labels, Paths, Values
from nfslat.kernels.compiled import native
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool, endpoint
from nfslat.model.units import iso
from nfslat.results import Analysis
from nfslat.select import op_labels

OURS = b'{"otherData":{"nfslat":'  # how such a file begins
_BLOCK = 1 << 14  # rows
_PIDS = {"client": 1, "network": 2, "server": 3}
_LANES = 10_000_000  # threads of a process have numbers of their own, for some readers take them for the system's
_MOST_POINTS = 1 << 17  # of a counter; beyond it, it shows the most of each of so many stretches
_STRETCHES = 1 << 16

# Args of an op's span at the client: columns of the table of matched ops (`op_columns`); some only where they are not
# 0, or not 1, as most are.
_TOLD = (
    *("offset_bytes", "size_bytes", "path", "client_srt_ns", "server_srt_ns", "network_ns"),
    *(f"{part}_ns" for part in PART_NAMES),
    "queue_ns",
)
_MOSTLY_0 = ("path_partial", *(f"{cause}_ns" for cause in CHARGED), "status")
_MOSTLY_1 = ("client_transmissions", "server_transmissions")
_MADE = {column.name: column.make for column in COLUMNS}
_OUT, _THROUGH, _IN = ',"flow_out":true', ',"flow_in":true,"flow_out":true', ',"flow_in":true'


@contextlib.contextmanager
def gzipped(out: TextIO) -> Iterator[TextIO]:
    """A stream whose text goes to `out` (a text stream over a binary one) compressed, the same for the same text."""
    out.flush()
    packed = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=out.buffer, mtime=0)
    with packed, io.TextIOWrapper(packed, encoding="ascii", newline="") as text:
        yield text


def write_perfetto(c: Analysis, out: TextIO, *, paths: Paths | None = None, report: model.Report | None = None) -> None:
    """All matched ops. Times are microseconds with ns as decimals, on the client's clock, from the first call on.

    A part that is negative cannot be drawn: it is left out and counted in ``otherData``; the args of the op's span at
    the client hold it. Where no theta fits there is nothing but the client's process. Text is ASCII.
    """
    lanes, names, begin_ns, end_ns = _lanes_of(c)
    head = {
        "nfslat": {"format": "nfslat.perfetto/1", "version": __version__, "engine": c.engine},
        "server": c.server.source.name,
        "client": c.client.source.name,
        "clock": "client",
        "begin": iso(begin_ns),
        "begin_ns": begin_ns,
        "ops": len(c.matched),
        **_notes(c),
    }
    if report is not None and report.verdict is not None:
        head["verdict"] = report.verdict.text
    # This key comes first, so that nfslat knows a file of its own by its first bytes.
    out.write(f'{{"otherData":{json.dumps(head, separators=(",", ":"))},"displayTimeUnit":"ns","traceEvents":[\n')
    out.write(",\n".join(_metadata(c, names)))
    for side in ("client", "server") if c.clock.fits else ("client",):
        for line in _counter(c, side, begin_ns, end_ns):
            out.write(line)
    spans = _Spans(c, lanes, begin_ns, paths)
    for at in range(0, len(c.matched), _BLOCK):
        out.write(spans.block(slice(at, min(at + _BLOCK, len(c.matched)))))
    out.write("\n]}\n")


def _notes(c: Analysis) -> dict[str, Any]:
    if not c.clock.fits:
        return {
            "notes": [
                "No offset of the two clocks explains the ops: only the client's spans are drawn; server_srt_ns and "
                "network_ns in their args need no clock."
            ]
        }
    undrawn = dict.fromkeys(("call", "server", "reply"), 0)
    for at in range(0, len(c.matched), _BLOCK):
        send, call, server, back, reply = c.parts.all_ns(slice(at, at + _BLOCK))
        for name, ns in zip(undrawn, (send + call, server, back + reply), strict=True):
            undrawn[name] += int(np.count_nonzero(ns < 0))
    if not any(undrawn.values()):
        return {}
    counts = ", ".join(f"{count} of {name}" for name, count in undrawn.items() if count)
    return {"notes": [f"Spans of negative length are left out ({counts}); the args of the client's spans hold them."]}


# --- Lanes ------------------------------------------------------------------------------------------------------------


def _lanes_of(c: Analysis) -> tuple[I32, list[str], int, int]:
    """Lane of each matched op, the name of each lane, and the first and the last instant of any span.

    An op keeps one lane in all three processes: there it is alone for as long as it takes at either side.
    """
    ops, rows = c.client.ops, c.matched.client
    begins, ends = ops.t0[rows], ops.t3[rows]
    if c.clock.fits:
        for at in range(0, len(rows), _BLOCK):
            here = slice(at, at + _BLOCK)
            server, client = c.matched.rows(here)
            call, reply = c.clock.on_client(client, c.server.ops.t1[server], c.server.ops.t2[server])
            np.minimum(begins[here], np.minimum(call, reply), out=begins[here])
            np.maximum(ends[here], np.maximum(call, reply), out=ends[here])
    np.maximum(ends, begins, out=ends)
    lanes, used = allocate(ops.conn[rows], begins, ends, len(ops.connections))
    first = np.concatenate([[0], np.cumsum(used)[:-1]]).astype(np.int32)
    lanes += first[ops.conn[rows]]
    # The way of an op is that of its connection: of the matched ops none is a callback.
    ways = dict(zip(ops.conn[rows].tolist(), ops.direction[rows].tolist(), strict=True))
    names = [
        f"{endpoint(*ops.connections[conn].source(ways[conn]))} to "
        f"{endpoint(*ops.connections[conn].destination(ways[conn]))}, {number + 1}"
        for conn, count in enumerate(used)
        for number in range(count)
    ]
    if not len(rows):
        return lanes, names, c.client.decoded.first_ns, c.client.decoded.first_ns
    return lanes, names, int(begins.min()), int(ends.max())


def allocate(conn: I32, begin_ns: I64, end_ns: I64, connections: int) -> tuple[I32, list[int]]:
    """Of each interval the lowest lane of its connection that is free when it begins, and how many each connection has.

    The greedy choice in order of beginnings needs as many lanes as there are intervals at once, and no more
    (interval partitioning). Raises nothing; one that ends where another begins leaves it its lane.
    """
    busy: list[list[tuple[int, int]]] = [[] for _ in range(connections)]
    free: list[list[int]] = [[] for _ in range(connections)]
    used = [0] * connections
    order = np.argsort(begin_ns, kind="stable")
    lanes = np.empty(len(order), dtype=np.int32)
    push, pop = heapq.heappush, heapq.heappop
    for at in range(0, len(order), _BLOCK):
        here = order[at : at + _BLOCK]
        found = []
        for way, begin, end in zip(conn[here].tolist(), begin_ns[here].tolist(), end_ns[here].tolist(), strict=True):
            taken, idle = busy[way], free[way]
            while taken and taken[0][0] <= begin:
                push(idle, pop(taken)[1])
            if idle:
                lane = pop(idle)
            else:
                lane = used[way]
                used[way] += 1
            push(taken, (end, lane))
            found.append(lane)
        lanes[here] = found
    return lanes, used


def _metadata(c: Analysis, lanes: Sequence[str]) -> Iterator[str]:
    for side, pid in _PIDS.items():
        if pid != _PIDS["client"] and not c.clock.fits:
            continue
        yield json.dumps({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": side}})
        yield json.dumps({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}})
        for lane, name in enumerate(lanes):
            tid = pid * _LANES + lane
            yield json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}})
            order = {"sort_index": lane}
            yield json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": order})


# --- Counters ---------------------------------------------------------------------------------------------------------


def _counter(c: Analysis, side: str, begin_ns: int, end_ns: int) -> Iterator[str]:
    """Ops in flight at a side as the report counts them, matched or not, while there are spans."""
    of_side = c.client if side == "client" else c.server
    ops, rows = of_side.ops, np.flatnonzero(of_side.flying)
    if side == "client":
        starts, ends = ops.t0[rows], ops.t3[rows]
    else:
        times = ServerTimes(c.clock, c.matched, len(c.server.ops), len(c.client.ops))
        starts, ends = (times.on_client_ns(rows, t_ns[rows]) for t_ns in (ops.t1, ops.t2))
    at_ns, level, stretch_ns = levels(starts, ends, begin_ns, end_ns)
    most = f", most in each {stretch_ns // 1000}.{stretch_ns % 1000:03d} us" if stretch_ns else ""
    form = native.Lines(
        [
            ("", f',\n{{"ph":"C","pid":{_PIDS[side]},"ts":', "micros", None),
            ("", f',"name":"in flight{most}","args":{{"ops":', "decimal", None),
            ("", "}}", "nothing", None),
        ]
    )
    for at in range(0, len(at_ns), _BLOCK):
        here = slice(at, at + _BLOCK)
        numbers = (at_ns[here] - begin_ns, None), (level[here].astype(np.int64), None)
        yield form.of([*numbers, (None, None)], len(level[here]))


def levels(starts: I64, ends: I64, begin_ns: int, end_ns: int) -> tuple[I64, I64, int]:
    """(instants, intervals that hold from each on, 0) from `begin_ns` to `end_ns`; of intervals [start, end).

    Where there are very many: (begins of equal stretches, the most at once in each, how long they are in ns).
    """
    starts, ends = np.sort(starts), np.sort(np.maximum(starts, ends))
    at_ns = np.sort(np.concatenate([starts, ends, [begin_ns]]), kind="stable")
    at_ns = at_ns[np.flatnonzero(np.diff(at_ns, prepend=at_ns[0] - 1))]  # np.unique takes ten times as long
    at_ns = at_ns[np.searchsorted(at_ns, begin_ns) : np.searchsorted(at_ns, end_ns, side="right")]
    level = np.searchsorted(starts, at_ns, side="right") - np.searchsorted(ends, at_ns, side="right")
    stretch_ns = 0
    if len(at_ns) > _MOST_POINTS:
        stretch_ns = -(-(end_ns - begin_ns + 1) // _STRETCHES)
        edges = np.arange(begin_ns, end_ns + 1, stretch_ns, dtype=np.int64)
        first = np.searchsorted(at_ns, edges)
        # What was in flight before a stretch is still at its beginning, unless an event falls on that instant.
        carried = level[np.searchsorted(at_ns, edges, side="right") - 1]
        has_any = np.flatnonzero(np.diff(np.append(first, len(at_ns))))
        most = carried.copy()
        most[has_any] = np.maximum(carried[has_any], np.maximum.reduceat(level, first[has_any]))
        at_ns, level = edges, most
    changed = np.flatnonzero(np.diff(level, prepend=-1))
    return at_ns[changed], level[changed], stretch_ns


# --- Spans ------------------------------------------------------------------------------------------------------------


class _Piece(Record, eq=False):
    """What stands in each row that is not null: a text, and behind it a number, or the text that it is the row of."""

    before: str
    form: str = "nothing"  # as `native.Lines` calls it
    values: Values | None = None
    null: Bool | None = None
    texts: Callable[[], list[str]] | None = None

    def hidden(self, null: Bool) -> _Piece:
        """The same, where `null` is not either."""
        return structs.replace(self, null=null if self.null is None else self.null | null)


class _Spans:
    """Makes the spans of the matched ops, a block of rows at a time."""

    def __init__(self, c: Analysis, lanes: I32, begin_ns: int, paths: Paths | None) -> None:
        self._c, self._lanes, self._begin_ns, self._paths = c, lanes, begin_ns, paths
        self._labels = Labels(c, paths)
        self._form: native.Lines | None = None  # with texts, which may be very many
        load = c.inflight.load
        self._queue_ns = None if load.threads.cannot else load.queue_ns
        if self._queue_ns is not None and c.clock.fits:
            # The wait for a thread begins when the server can read the call, which TCP may have kept back.
            self._since_ns = c.server.ops.t1.copy()
            of_op = load.jobs.op != NULL
            rows = load.jobs.op[of_op]
            self._since_ns[rows] = np.maximum(self._since_ns[rows], load.jobs.work.arrival_ns[of_op])

    def block(self, at: slice) -> str:
        """Spans of each op: the client's and its reply, then the way there, the server's, and the way back."""
        pieces = list(self._pieces(at))
        if self._form is None:
            texts = (None if one.texts is None else one.texts() for one in pieces)
            self._form = native.Lines(
                [("", one.before, one.form, some) for one, some in zip(pieces, texts, strict=True)]
            )
        numbers = (None if one.values is None else one.values.astype(np.int64, copy=False) for one in pieces)
        return self._form.of([(some, one.null) for one, some in zip(pieces, numbers, strict=True)], at.stop - at.start)

    def _pieces(self, at: slice) -> Iterator[_Piece]:
        c = self._c
        server, client = c.matched.rows(at)
        kinds = c.client.ops.kind[client]
        name = _Piece(',"name":', "text", kinds, texts=lambda: [*map(json.dumps, op_labels(c.client.ops.kinds))])
        reply = _Piece(',"name":"reply"')
        c0, c1, c2, c3 = (getattr(c.client.ops, name)[client] for name in INSTANTS)
        args = list(self._args(at))
        arriving = (c2 >= c0) & (c3 >= c2)
        if not c.clock.fits:
            yield from self._span(at, 1, c0, c3, [name, *args])
            yield from self._span(at, 1, c2, c3, [reply], arriving)
            return
        s1, s2, s3, since, start = c.clock.on_client(client, *self._server_instants(server))
        # No arrow goes back in time.
        has_none = ~(arriving & (c0 <= s1) & (s1 <= s2) & (s2 <= c2))
        row = _Piece(',"bind_id":"0x', "hex", np.arange(at.start + 1, at.stop + 1), has_none)
        out, through, into = ([row, _Piece(f'"{way}', null=has_none)] for way in (_OUT, _THROUGH, _IN))
        queued = (since >= s1) & (start > since) & (s2 >= start)
        call = _Piece(',"name":"call"')
        yield from self._span(at, 1, c0, c3, [name, *out, *args], c3 >= c0)
        yield from self._span(at, 1, c2, c3, [reply, *into], arriving)
        yield from self._span(at, 2, c0, s1, [call, *through], s1 >= c0)
        yield from self._span(at, 2, c0, c1, [_Piece(',"name":"call_send"')], (c1 > c0) & (s1 >= c1))
        yield from self._span(at, 3, s1, s2, [name, *through], s2 >= s1)
        yield from self._span(at, 3, since, start, [_Piece(',"name":"queue"')], queued)
        yield from self._span(at, 3, start, s2, [_Piece(',"name":"in thread"')], queued & (s2 > start))
        yield from self._span(at, 2, s2, c3, [reply, *through], c3 >= s2)
        yield from self._span(at, 2, s2, s3, [_Piece(',"name":"reply_send"')], (s3 > s2) & (c3 >= s3))

    def _server_instants(self, rows: I64) -> list[I64]:
        """t1, t2, t3, and from when to when the call waited for a thread; both t1 where that is not known."""
        ops = self._c.server.ops
        instants = [ops.t1[rows], ops.t2[rows], ops.t3[rows]]
        if self._queue_ns is None:
            return [*instants, instants[0], instants[0]]
        since = self._since_ns[rows]
        return [*instants, since, since + np.maximum(self._queue_ns[rows], 0)]

    def _span(
        self, at: slice, pid: int, begin: I64, end: I64, more: Sequence[_Piece], drawn: Bool | None = None
    ) -> Iterator[_Piece]:
        """Events from `begin` to `end`, one a row; nothing of those that are not `drawn`."""
        tids = self._lanes[at] + np.int64(pid * _LANES)
        pieces = (
            _Piece(f',\n{{"ph":"X","pid":{pid},"tid":', "decimal", tids),
            _Piece(',"ts":', "micros", begin - self._begin_ns),
            _Piece(',"dur":', "micros", end - begin),
            *more,
            _Piece("}"),
        )
        yield from pieces if drawn is None else (one.hidden(~drawn) for one in pieces)

    def _args(self, at: slice) -> Iterator[_Piece]:
        """What is known of each op, as the args of its span at the client; what is not known is left out."""
        block = Block(self._c, self._labels, self._paths, None, at)
        yield _Piece(',"args":{"xid":"0x', "hex8", _MADE["xid"](block).values)
        yield _Piece('"')
        for name in (*_TOLD, *_MOSTLY_0, *_MOSTLY_1):
            usual = 0 if name in _MOSTLY_0 else 1 if name in _MOSTLY_1 else None
            yield _of_cells(f',"{name}":', _MADE[name](block), usual)
        for side in ("client", "server"):
            for message in ("call", "reply"):
                first, last = (block.frames(side, f"{message}_{end}_frame") for end in ("first", "last"))
                yield _Piece(f',"{side}_{message}_frames":"', "decimal", first)
                yield _Piece("-", "decimal", last, first == last)
                yield _Piece('"')
        yield _Piece("}")


def _of_cells(before: str, cells: Cells, usual: int | None) -> _Piece:
    """The cells of a column; nothing stands where they are null or `usual`."""
    labels, values, null = cells.labels, cells.values, cells.null
    if usual is not None:
        is_usual = values == usual if labels is None else np.array([one == usual for one in labels] or [True])[values]
        null = is_usual if null is None else null | is_usual
    if labels is None:
        return _Piece(before, "decimal", values, null)
    return _Piece(before, "text", values, null, lambda: [*map(json.dumps, labels)])
