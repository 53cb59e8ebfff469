"""Lines of trace-cmd report, perf script or tracing/trace -> one row an RPC: what its kernel waited for, by XID.

Read are rpc_stats_latency (the client, when an RPC ends), svc_stats_latency (the server, when a thread has the answer
and hands it to the socket), xprt_reserve (the client, when an RPC gets its slot) and svc_xprt_dequeue (the server, when
a thread takes a connection that has a call; the XID is not known yet, but the thread's next answer is to that call):

    kworker/u24:2-1254  [001]   771.026677: rpc_stats_latency:    task:418@5 xid=0x260eab5d nfsv3 LOOKUP backlog=15
        rtt=32 execute=58
    nfsd-2117  [002] .....   771.026625: svc_xprt_dequeue: server=10.0.0.1:2049 client=10.0.0.2:766
        flags=BUSY|DATA|TEMP wakeup-us=6
    nfsd-2117  [002] .....   771.026650: svc_stats_latency: xid=0x260eab5d server=10.0.0.1:2049 client=10.0.0.2:766
        proc=LOOKUP execute-us=20

Each is one line. Formats: Linux include/trace/events/sunrpc.h of several versions (fields have been added and have
changed places, so they are found by name); meaning: rpc_count_iostats_metrics in net/sunrpc/stats.c, svc_send and
svc_recv in net/sunrpc/svc_xprt.c. xid is printed after be32_to_cpu: it is the number that `Ops.xid` has.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

import numpy as np

from nfslat.errors import InputError
from nfslat.evidence.records import Evidence, Latency
from nfslat.model.blocks import rank
from nfslat.model.tables import I8, I32, I64, U32, Table

CLIENT, SERVER = 0, 1  # values of ``SunrpcTrace.side``

# "771.026677: sunrpc:"; whole numbers are another trace clock (a counter, the processor's ticks).
_EVENT = re.compile(
    r"(?<![\w.])([0-3]?\d{1,9})(?:\.(\d{1,9}))?: {1,4}(?:sunrpc:)?"
    r"(rpc_stats_latency|svc_stats_latency|xprt_reserve|svc_xprt_dequeue): "
)
_XID = re.compile(r"\bxid=0x([0-9a-fA-F]{1,8})\b")
# What stands behind the last number has to be seen, or the end of the file may have cut it.
_CLIENT = re.compile(r"(\w{1,32})v(\d{1,3}) (\w{1,40}) backlog=(\d{1,13}) rtt=(\d{1,13}) execute=(\d{1,13})(?=\s)")
_SERVER = re.compile(r"\bexecute-us=(\d{1,13})(?=\s)")
_WAKEUP = re.compile(r"\bwakeup-us=(\d{1,13})(?=\s)")
_THREAD = re.compile(r"[- ](\d{1,10}) {1,12}(?:\([ \d-]{1,12}\) {1,4})?\[\d{1,5}\]")
_PROC = re.compile(r"\bproc=(\w{1,40})")
_LONGEST = 2048  # characters of a line
_SOON_NS = 50_000  # the event is printed that much later than its times were taken, at most
_MOST_NAMES = 4096
_MOST_OPEN = 1 << 20  # RPCs with a slot and without an end yet; threads


class SunrpcTrace(Table):
    """One row an RPC, in the order of the trace. Times in whole microseconds, as the kernel prints them.

    `t_ns` is on the trace's clock (by default since boot), -1 where that clock does not count seconds: at the client
    the end of the RPC, at the server the moment before the answer is handed to the socket.
    """

    side: I8  # CLIENT or SERVER
    t_ns: I64
    xid: U32
    # Client: from its start until it was sent last, waits for slots, session slots and the connection included; server:
    # -1. An RPC that never was sent has 0.
    backlog_us: I64
    slot_us: I64  # client, of that: until it got its slot. -1 without xprt_reserve
    rtt_us: I64  # client: from the last sending to the answer; server: -1
    execute_us: I64  # client: from start to end; server: from when a thread has read the call
    # Server: when the thread took the call, to read it. -1 without svc_xprt_dequeue.
    taken_ns: I64
    # Server: from when a thread was woken for the call until it took it. -1 where the thread had not slept: the kernel
    # then prints the time since it last was woken.
    wakeup_us: I64
    name: I32  # row of `names`
    names: tuple[str, ...] = ()  # "READ"; other programs than NFS with theirs: "nfs4_cb CB_RECALL". "" is not told
    unreadable: int = 0  # lines of these events that are cut or make no sense

    @property
    def begin_ns(self) -> I64:
        """Client: when the RPC was sent last; server: when a thread had it. Trace clock, -1 where that is unknown."""
        sent = np.where(self.side == CLIENT, self.backlog_us, 0)
        return np.where(self.t_ns < 0, -1, np.maximum(self.t_ns + (sent - self.execute_us) * 1000, 0))


class _Thread:
    """What a thread of the server did last."""

    def __init__(self) -> None:
        self._taken = (-1, -1)
        self._last_ns = -1

    def take(self, t_ns: int, wakeup_us: int) -> None:
        """A connection that has a call, or a piece of a call: then the thread comes back for the rest."""
        slept = 0 <= self._last_ns < t_ns - wakeup_us * 1000
        self._taken = (t_ns, wakeup_us if slept else -1)
        self._last_ns = t_ns

    def answer(self, t_ns: int) -> tuple[int, int]:
        """The time of the `take` that this is the answer to, and its wakeup."""
        taken, self._taken, self._last_ns = self._taken, (-1, -1), t_ns
        return taken


def read(lines: Iterable[str], name: str) -> Evidence:
    """A row an RPC, and means by operation; raises ``InputError`` where it has neither of the events with latencies."""
    trace = parse(lines)
    return Evidence(_latencies(trace, name), _notes(trace), trace)


def parse(lines: Iterable[str]) -> SunrpcTrace:
    """The RPCs; raises ``InputError`` likewise."""
    rows = array("q")
    names: dict[str, int] = {}
    slots: dict[int, int] = {}
    threads: dict[str, _Thread] = {}
    unreadable = 0
    for whole in lines:
        line = whole[:_LONGEST]
        event = _EVENT.search(line) if "xid=" in whole or "svc_xprt_dequeue: " in whole else None
        if event is None:
            continue
        t_ns = -1 if event[2] is None else int(event[1]) * 10**9 + int(event[2].ljust(9, "0"))
        what, at, thread = event[3], event.end(), None
        if what.startswith("svc") and (of := _THREAD.search(line, 0, event.start(3))):
            thread = threads.get(of[1]) or (threads.setdefault(of[1], _Thread()) if len(threads) < _MOST_OPEN else None)
        if what == "svc_xprt_dequeue":
            if thread and (wakeup := _WAKEUP.search(line, at)):
                thread.take(t_ns, int(wakeup[1]))
            continue
        xid = _XID.search(line, at)
        number = int(xid[1], 16) if xid else -1
        if what == "xprt_reserve":
            if xid and len(slots) < _MOST_OPEN:
                slots[number] = t_ns
            continue
        is_client = what == "rpc_stats_latency"
        figures = (_CLIENT if is_client else _SERVER).search(line, xid.end()) if xid else None
        name, backlog_us, rtt_us, slot_us, taken_ns, wakeup_us = "", -1, -1, -1, -1, -1
        if figures and is_client:
            name = figures[3] if figures[1] == "nfs" else f"{figures[1]} {figures[3]}"
            backlog_us, rtt_us = int(figures[4]), int(figures[5])
        elif figures and (proc := _PROC.search(line, at)):  # older kernels do not print it
            name = proc[1]
        if figures is None or (name not in names and len(names) == _MOST_NAMES):
            unreadable += 1
            continue
        execute_us = int(figures[figures.re.groups])
        if is_client and (reserved := slots.pop(number, -1)) >= 0:
            since = t_ns - execute_us * 1000
            # A slot of long before the start is that of an older RPC with this XID.
            slot_us = max(reserved - since, 0) // 1000 if since - _SOON_NS <= reserved <= t_ns else -1
        if thread:
            taken_ns, wakeup_us = thread.answer(t_ns)
        side, row = SERVER - is_client, names.setdefault(name, len(names))
        rows.extend((side, t_ns, number, backlog_us, slot_us, rtt_us, execute_us, taken_ns, wakeup_us, row))
    if not rows:
        raise InputError("a kernel trace without rpc_stats_latency and svc_stats_latency: switch these events on")
    columns = np.frombuffer(rows, np.int64).reshape(-1, len(SunrpcTrace.columns())).T
    return SunrpcTrace.from_columns(
        dict(zip(SunrpcTrace.columns(), columns, strict=True)), names=tuple(names), unreadable=unreadable
    )


def _latencies(trace: SunrpcTrace, name: str) -> tuple[Latency, ...]:
    """Means by operation, those with most RPCs first; RPCs of other programs than NFS are left out."""
    latencies = []
    for side, layers in (
        (CLIENT, (("client", trace.execute_us), ("slot wait", trace.backlog_us), ("client wire", trace.rtt_us))),
        (SERVER, (("server thread", trace.execute_us),)),
    ):
        counts = np.bincount(trace.name[trace.side == side], minlength=len(trace.names))
        for number in np.argsort(-counts, kind="stable").tolist():
            op = trace.names[number]
            if not counts[number] or not op or " " in op:
                continue
            for layer, column in layers:
                took_us = np.sort(column[(trace.side == side) & (trace.name == number)])
                p99_ms = int(took_us[rank(len(took_us), 99)]) / 1e3
                mean_ms, most_ms, source = float(took_us.mean()) / 1e3, int(took_us[-1]) / 1e3, f"sunrpc trace {name}"
                latencies.append(Latency(layer, op, mean_ms, len(took_us), source, p99_ms, most_ms))
    return tuple(latencies)


def _notes(trace: SunrpcTrace) -> tuple[str, ...]:
    """What a reader of the figures has to know."""
    told = (
        (trace.t_ns < 0).any(),
        (trace.side == SERVER).any() and "COMPOUND" in trace.names,
        trace.unreadable,
    )
    words = (
        "the trace clock does not count seconds: XIDs that occur twice are not joined",
        "a server names NFSv4 calls COMPOUND; joined by XID they get their operation",
        f"lines of RPCs that could not be read: {trace.unreadable}",
    )
    return tuple(sentence for sentence, holds in zip(words, told, strict=True) if holds)
