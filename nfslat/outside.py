"""Options and files of evidence -> what is known from outside the captures (`nfslat.known.Known`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nfslat.errors import InputError, UsageError
from nfslat.evidence import interval, nfsiostat, pools, read, snapshot
from nfslat.evidence.folded import Stacks
from nfslat.evidence.perf_sched import Sched
from nfslat.evidence.records import Interval, Latency, Snapshot
from nfslat.evidence.sunrpc_join import Joined, join
from nfslat.evidence.sunrpc_trace import SunrpcTrace
from nfslat.inflight.little import busy_throughput_per_s, little_ms
from nfslat.known import DATA_OPS, Known, Traced, data_ops, data_rows
from nfslat.results import Correlation
from nfslat.tune.form import setting

# Which field of `Known` a layer of evidence fills; what "client" says is the application's figure where no other is.
_FIELDS = {
    "application": "app_ms",
    "client": "app_ms",
    "slot wait": "slot_wait_ms",
    "server thread": "thread_ms",
    "storage": "storage_ms",
}
_LAST_LAYER = "client"
_MOST_TASKS, _MOST_GROUPS = 5, 5
_US_PER_MS, _NS_PER_US = 1e3, 1000


@dataclass(frozen=True)
class Outside:
    """What was read before the captures were; `known` puts it beside them."""

    given: Known
    sessions: int | None = None
    traces: tuple[tuple[str, SunrpcTrace], ...] = ()  # name of the file, and what is in it
    notes: tuple[str, ...] = ()

    def known(self, c: Correlation) -> tuple[Known, tuple[str, ...]]:
        """What is known of these captures, and what the reader has to know of it.

        Traces are joined by XID; sessions become the application's latency by Little's law, where it is not known.
        """
        known, notes = self.given, list(self.notes)
        for name, trace in self.traces:
            known, said = _traced(known, name, trace, c)
            notes += said
        throughput = busy_throughput_per_s(c.inflight.client.levels)
        rows, compared = len(data_rows(c)), int(np.count_nonzero(c.compared("client")))
        if self.sessions is not None and not known.app_ms and throughput and rows:
            per_s = throughput * rows / compared
            source = f"{self.sessions} sessions / {per_s:.4g} per s"
            known = known.having("app_ms", {"": little_ms(self.sessions, per_s)}, source)
        return known, tuple(notes)


@dataclass(frozen=True)
class Files:
    """Names of the files of evidence, as they were given."""

    evidence: Sequence[str] = ()
    server_snapshots: Sequence[str] = ()
    client_snapshots: Sequence[str] = ()


def gather(given: Known, sessions: int | None, files: Files) -> Outside:
    """Read all files; what the user gave as a figure counts before what a file says.

    Raises ``InputError`` for a file that cannot be read, ``UsageError`` for more than two snapshots of a host.
    """
    known = given
    notes: list[str] = []
    traces: list[tuple[str, SunrpcTrace]] = []
    latencies: list[Latency] = []
    for path in files.evidence:
        one = _evidence(path)
        latencies += one.latencies
        notes += one.notes
        traces += one.traces
    server, of_server = _host("--server-snapshot", files.server_snapshots)
    client, of_client = _host("--client-snapshot", files.client_snapshots)
    if server is not None:
        known = known.with_limit("threads", setting(server, "nfsd.threads"), server.name)
        known = dataclasses.replace(known, server_host=server)
    if of_server is not None:
        notes += of_server.notes
        known = dataclasses.replace(known, woken_share=pools.woken_share(of_server.pools))
    if client is not None:
        known = dataclasses.replace(known, client_host=client)
    if of_client is not None:
        notes += of_client.notes
        again = {name for mount in of_client.mounts for name, op in mount.ops.items() if op.transmissions > op.ops}
        # What a call waited before it was sent again counts as slot wait there; it is none.
        latencies += [
            one for one in of_client.latencies if not (one.layer == "slot wait" and (again and one.op in {"", *again}))
        ]
    return Outside(_with_latencies(known, latencies), sessions, tuple(traces), tuple(notes))


@dataclass(frozen=True)
class _Read:
    latencies: Sequence[Latency]
    notes: Sequence[str]
    traces: Sequence[tuple[str, SunrpcTrace]] = field(default_factory=tuple)


def _evidence(path: str) -> _Read:
    try:
        one = read.read(path)
    except InputError as problem:
        reports = _nfsiostat(path)
        if reports is None:
            raise problem from None
        return reports
    notes = [f"{one.name}: {note}" for note in one.notes]
    if one.sched is not None:
        notes += _of_sched(one.name, one.sched)
    if one.stacks is not None:
        notes += _of_stacks(one.name, one.stacks)
    traces = [] if one.trace is None else [(one.name, one.trace)]
    # The ops of a trace are joined with those of the captures; its means over all RPCs are then of no use.
    return _Read([] if traces else one.latencies, notes, traces)


def _nfsiostat(path: str) -> _Read | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            reports = nfsiostat.read(file.read(1 << 24), path)
    except (OSError, InputError, ValueError):
        return None
    return _Read(nfsiostat.latencies(reports), []) if reports else None


def _of_sched(name: str, sched: Sched) -> list[str]:
    tasks = sorted(sched.tasks, key=lambda task: -task.mean_delay_ms * task.switches)[:_MOST_TASKS]
    return [
        f"{name}: {task.name} waited {task.mean_delay_ms:.3g} ms for a CPU on average, at most {task.max_delay_ms:.3g}"
        for task in tasks
        if task.switches
    ]


def _of_stacks(name: str, stacks: Stacks) -> list[str]:
    groups = [f"{group} {stacks.share(group) * 100:.1f} %" for group in list(stacks.groups)[:_MOST_GROUPS]]
    return [f"{name}: of the samples of stacks {', '.join(groups)}"] if groups else []


def _host(option: str, paths: Sequence[str]) -> tuple[Snapshot | None, Interval | None]:
    if len(paths) > 2:
        raise UsageError(f"{option}: give one snapshot, or two of one host: before and after")
    if not paths:
        return None, None
    taken = [snapshot.read(path) for path in paths]
    return taken[-1], interval.difference(*taken) if len(taken) == 2 else None


def _with_latencies(known: Known, latencies: Iterable[Latency]) -> Known:
    """The first figure of each layer and operation counts; a field that has values already is left as it is."""
    found: dict[str, dict[str, Latency]] = {}
    listed = list(latencies)
    for one in sorted(listed, key=lambda one: one.layer == _LAST_LAYER):
        name = _FIELDS.get(one.layer)
        if name is None:
            continue
        so_far = found.setdefault(name, {})
        if one.layer == _LAST_LAYER and any(other.layer != _LAST_LAYER for other in so_far.values()):
            continue
        so_far.setdefault(one.op, one)
    for name, by_op in found.items():
        named = {op: one for op, one in by_op.items() if op in DATA_OPS} or by_op
        sources = dict.fromkeys(one.source for one in named.values())
        known = known.having(name, {op: one.mean_ms for op, one in named.items()}, ", ".join(sources))
    return known


def _traced(known: Known, name: str, trace: SunrpcTrace, c: Correlation) -> tuple[Known, list[str]]:
    """Slot waits and times in a thread, op by op."""
    client, server = c.client.ops, c.server.ops
    at_client = join(trace, client.xid, client.t0)
    at_server = join(trace, server.xid, server.t1, server=True)
    traced = Traced(
        slot_wait_ns=_ns(_slot_wait(at_client))[c.matched.client],
        execute_ns=_ns(at_client.execute_us)[c.matched.client],
        thread_ns=_ns(at_server.execute_us)[c.matched.server],
    )
    notes = []
    for side, joined in (("client", at_client), ("server", at_server)):
        rows = int(np.count_nonzero(joined.row >= 0))
        if rows or joined.ambiguous:
            notes.append(
                f"{name}: {rows:,} of {len(joined.row):,} ops of the {side}'s capture are in the trace"
                + (f", {joined.ambiguous:,} more cannot be told apart" if joined.ambiguous else "")
            )
    if not notes:
        notes.append(f"{name}: none of its RPCs is in the captures: it was taken at another time, or on another host")
    known = dataclasses.replace(known, traced=traced)
    for field_name, column in (
        ("app_ms", traced.execute_ns),
        ("slot_wait_ms", traced.slot_wait_ns),
        ("thread_ms", traced.thread_ns),
    ):
        by_op = {}
        for op in data_ops(c):
            values = column[c.rows_of([op])]
            values = values[values >= 0]
            if len(values):
                by_op[op] = float(values.mean()) / _US_PER_MS / _NS_PER_US
        if by_op:
            known = known.having(field_name, by_op, f"sunrpc trace {name}")
    return known, notes


def _slot_wait(joined: Joined) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.where(joined.slot_us >= 0, joined.slot_us, joined.backlog_us)


def _ns(us: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.where(us >= 0, us * _NS_PER_US, -1)
