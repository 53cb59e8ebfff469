"""A load, slots, a network and server threads in numbers -> NFS traffic whose queues are known exactly.

The server is made like knfsd: connections stand in one line; a thread that is free takes the connection at its head,
takes the first call of its stream, and puts the connection back at the tail, though no more have come: it leaves the
line when its turn comes and there is still nothing. Other servers take calls in another `order`.
The client has so many slots for each connection; a call that finds none waits above the wire, first come, first served.
Everything is drawn from one seed:

    traffic = simulate(threads=4, workers=32)
    server, client = ops(traffic, "server"), ops(traffic, "client")
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nfslat.model.details import Blocked
from nfslat.model.protocol import NFS, NULL
from nfslat.model.tables import I64, WHOLE, Bool, Connection, Kind, Matched, Ops

US, MS, S = 1_000, 1_000_000, 1_000_000_000
EPOCH_NS = 1_700_000_000 * S

GETATTR = "GETATTR"
KINDS = {GETATTR: 1, "READ": 6, "WRITE": 7}  # NFSv3 procedures
MIX = {"READ": 0.7, "WRITE": 0.2, GETATTR: 0.1}  # shares of the ops
MEAN_NS = {"READ": 2 * MS, "WRITE": 2 * MS, GETATTR: 50 * US}

_ISSUE, _ARRIVE, _DONE, _RECEIVE = range(4)


@dataclass(frozen=True)
class Traffic:
    """What happened to each op, in the order in which the calls left the client; ns since the start, one true clock."""

    conn: I64
    kind: npt.NDArray[np.str_]
    issued_ns: I64  # the application asked
    sent_ns: I64  # the call left the client
    seen_ns: I64  # all of the call is at the server's host
    arrival_ns: I64  # and so is all in front of it, so that the server can read it
    start_ns: I64  # a thread took it
    reply_ns: I64  # the reply leaves the server
    received_ns: I64  # and is at the client
    service_ns: I64  # reply_ns - start_ns: time in a thread, waits for the disk included

    @property
    def queue_ns(self) -> I64:
        """Wait for a thread."""
        return self.start_ns - self.arrival_ns

    @property
    def client_ns(self) -> I64:
        """SRT at the client."""
        return self.received_ns - self.sent_ns

    @property
    def server_ns(self) -> I64:
        """SRT at the server."""
        return self.reply_ns - self.arrival_ns

    @property
    def application_ns(self) -> I64:
        """What the application waits: SRT at the client and the wait for a slot."""
        return self.received_ns - self.issued_ns

    def take(self, which: I64 | Bool | slice) -> Traffic:
        """Those ops alone."""
        return Traffic(**{name: column[which] for name, column in vars(self).items()})


def simulate(
    *,
    threads: int,
    count: int = 5_000,  # ops, hidden ones included
    workers: int = 16,  # synchronous ones: each asks, waits for the answer, thinks, asks again
    think_ns: int = 20 * US,  # mean, exponential
    rate_per_s: float | None = None,  # instead of workers: calls at random (Poisson), whatever the answers
    connections: int = 1,
    per_call: bool = False,  # a worker uses its connections in turn (nconnect); else it has one (several clients)
    slots: int | None = None,  # for each connection
    law: str = "exponential",  # of the service time; "lognormal" with `sigma`, "constant" with `cv`
    sigma: float = 1.0,
    cv: float = 0.02,
    mix: Mapping[str, float] = MIX,
    mean_ns: Mapping[str, int] = MEAN_NS,
    network_ns: int = 50 * US,  # each way, at least
    jitter_ns: int = 10 * US,  # mean of what comes on top, exponential
    loss: float = 0.0,  # of the calls; they come late, and TCP keeps back those behind them, overtaken ones, too
    again_ns: int = 3 * MS,  # by so much
    disks: int | None = None,  # that many READs and WRITEs are served at once, the others wait in their threads
    hidden_workers: int = 0,  # of another client, whose ops take threads and are not in the result
    hidden_connections: int = 1,
    order: str = "turns",  # "leaving": a connection without calls leaves the line at once; "oldest": of all the first
    one_at_a_time: str
    | None = None,  # operation that takes a lock: it holds its thread, and waits for the others of it
    seed: int = 1,
) -> Traffic:
    """Play `count` ops until all are answered."""
    rng = np.random.default_rng(seed)
    names = np.array(list(mix))
    kinds = rng.choice(names, count, p=np.array(list(mix.values())) / sum(mix.values()))
    mean = np.array([mean_ns[name] for name in names], dtype=np.float64)[
        np.argmax(kinds[:, None] == names[None, :], axis=1)
    ]
    service = np.maximum(mean * _draw(rng, law, count, sigma, cv), 1_000).astype(np.int64).tolist()
    on_disk = ((kinds != GETATTR) & (disks is not None)).tolist()
    out_ns, back_ns = (network_ns + rng.exponential(jitter_ns, (2, count)).astype(np.int64)).tolist()
    if loss:
        out_ns = (np.array(out_ns) + again_ns * (np.random.default_rng(seed + 1).random(count) < loss)).tolist()
    thinks_ns = rng.exponential(think_ns, count).astype(np.int64).tolist()
    apart_ns = rng.exponential(S / rate_per_s if rate_per_s else 0, count).astype(np.int64).tolist()

    locks = (kinds == one_at_a_time).tolist()
    lock_queue: deque[int] = deque()
    locked = False

    ways = connections + (hidden_connections if hidden_workers else 0)
    conn, issued, sent, seen, arrival, start, reply, received, worker_of = ([0] * count for _ in range(9))
    free_slots = [slots if slots is not None else count] * connections + [count] * (ways - connections)
    backlog: list[deque[int]] = [deque() for _ in range(ways)]
    pending: list[deque[int]] = [deque() for _ in range(ways)]
    ready: deque[int] = deque()
    last_arrival, last_received = [0] * ways, [0] * ways
    turn = 0
    free_threads, free_disks = threads, disks or 0
    disk_queue: deque[int] = deque()
    asked = 0

    # What happens next: (when, op * 4 + what); of an _ISSUE the worker stands in the place of the op.
    first = rng.integers(1, think_ns + 2 * MS, workers + hidden_workers).tolist()
    heap = [(t, worker * 4 + _ISSUE) for worker, t in enumerate(first) if not rate_per_s or worker >= workers]
    if rate_per_s:
        heap.append((1, _ISSUE))
    heapq.heapify(heap)
    push, pop = heapq.heappush, heapq.heappop
    while heap:
        now, code = pop(heap)
        op, what = code >> 2, code & 3
        sends = -1
        if what == _ISSUE:
            if asked == count:
                continue
            worker, op = op, asked
            asked += 1
            issued[op], worker_of[op] = now, worker
            if worker >= workers:
                way = connections + worker % hidden_connections
            elif per_call or rate_per_s:
                way, turn = turn, (turn + 1) % connections
            else:
                way = worker % connections
            conn[op] = way
            if rate_per_s and worker < workers:
                push(heap, (now + apart_ns[op], _ISSUE))
            if free_slots[way]:
                free_slots[way] -= 1
                sends = op
            else:
                backlog[way].append(op)
        elif what == _RECEIVE:
            received[op] = now
            way, worker = conn[op], worker_of[op]
            if not rate_per_s or worker >= workers:
                push(heap, (now + thinks_ns[op], worker * 4 + _ISSUE))
            if backlog[way]:
                sends = backlog[way].popleft()
            else:
                free_slots[way] += 1
        else:
            if what == _ARRIVE:
                way = conn[op]
                pending[way].append(op)
                if order == "oldest":
                    ready.append(way)  # one entry a call, in the order in which they came
                elif way not in ready:
                    ready.append(way)
            else:
                reply[op] = now
                free_threads += 1
                way = conn[op]
                at = last_received[way] = max(last_received[way], now + back_ns[op])  # a stream keeps its order
                push(heap, (at, op * 4 + _RECEIVE))
                if on_disk[op]:
                    if disk_queue:
                        following = disk_queue.popleft()
                        push(heap, (now + service[following], following * 4 + _DONE))
                    else:
                        free_disks += 1
                if locks[op]:
                    locked = bool(lock_queue)
                    if lock_queue:
                        following = lock_queue.popleft()
                        push(heap, (now + service[following], following * 4 + _DONE))
            while free_threads and ready:
                way = ready.popleft()
                if not pending[way]:
                    continue
                free_threads -= 1
                op = pending[way].popleft()
                if order == "turns" or (order == "leaving" and pending[way]):
                    ready.append(way)
                start[op] = now
                if locks[op] and locked:
                    lock_queue.append(op)
                elif locks[op]:
                    locked = True
                    push(heap, (now + service[op], op * 4 + _DONE))
                elif not on_disk[op]:
                    push(heap, (now + service[op], op * 4 + _DONE))
                elif free_disks:
                    free_disks -= 1
                    push(heap, (now + service[op], op * 4 + _DONE))
                else:
                    disk_queue.append(op)
        if sends >= 0:
            sent[sends] = now
            way = conn[sends]
            at = arrival[sends] = last_arrival[way] = max(last_arrival[way], now + out_ns[sends])
            seen[sends] = now + out_ns[sends] if loss else at
            push(heap, (at, sends * 4 + _ARRIVE))

    times = [np.array(column, dtype=np.int64) for column in (issued, sent, seen, arrival, start, reply, received)]
    traffic = Traffic(np.array(conn, dtype=np.int64), kinds, *times, service_ns=times[5] - times[4])
    shown = np.flatnonzero(traffic.conn < connections)
    return traffic.take(shown[np.argsort(traffic.sent_ns[shown], kind="stable")])


def one_after_another(*runs: Traffic) -> Traffic:
    """Each begins when the one before it has ended."""
    out = runs[0]
    for run in runs[1:]:
        later_ns = int(out.received_ns.max())
        out = Traffic(
            **{
                name: np.concatenate(
                    (getattr(out, name), column + (later_ns if name.endswith("_ns") and name != "service_ns" else 0))
                    if column.dtype == np.int64
                    else (getattr(out, name), column)
                )
                for name, column in vars(run).items()
            }
        )
    return out


def ops(traffic: Traffic, side: str) -> Ops:
    """The table of one side ("server" or "client"): one packet a message, stamps in whole microseconds."""
    call, reply = (traffic.seen_ns, traffic.reply_ns) if side == "server" else (traffic.sent_ns, traffic.received_ns)
    rows = len(call)
    frames = np.empty(2 * rows, dtype=np.int64)
    frames[np.argsort(np.concatenate((call, reply)), kind="stable")] = np.arange(1, 2 * rows + 1)
    call, reply = (EPOCH_NS + column // US * US for column in (call, reply))
    names = sorted(KINDS)
    columns: dict[str, I64] = {name: np.zeros(rows, dtype=np.int64) for name in Ops.columns()}
    columns |= {"t0": call, "t1": call, "t2": reply, "t3": reply, "conn": traffic.conn, "xid": np.arange(rows)}
    columns |= {"kind": np.searchsorted(names, traffic.kind), "offset": 8192 * np.arange(rows)}
    columns |= {"size": np.where(traffic.kind == GETATTR, 0, 8192)}
    columns |= {"call_first_frame": frames[:rows], "call_last_frame": frames[:rows]}
    columns |= {"reply_first_frame": frames[rows:], "reply_last_frame": frames[rows:]}
    columns |= {"transmissions": np.ones(rows, dtype=np.int64), "flags": np.full(rows, WHOLE)}
    kinds = tuple(Kind(NFS, 3, NULL, KINDS[name]) for name in names)
    ways = int(traffic.conn.max(initial=0)) + 1
    connections = tuple(Connection("tcp", "10.0.0.1", 700 + way, "10.0.0.2", 2049) for way in range(ways))
    table = Ops.from_columns(columns, kinds=kinds, connections=connections)
    return table.take(np.argsort(frames[:rows], kind="stable"))


def blocked(traffic: Traffic) -> Blocked:
    """Calls that were at the server before all in front of them, by rows of the table of `ops`; whole microseconds."""
    until = EPOCH_NS + traffic.arrival_ns // US * US
    xid = ops(traffic, "server").xid
    rows = np.flatnonzero((traffic.arrival_ns > traffic.seen_ns)[xid])
    return Blocked.from_columns({"op": rows, "is_reply": np.zeros(len(rows)), "until_ns": until[xid[rows]]})


def matched(traffic: Traffic) -> Matched:
    """Which rows of the two tables that `ops` makes belong together."""
    server, client = (np.argsort(ops(traffic, side).xid, kind="stable") for side in ("server", "client"))
    order = np.argsort(client, kind="stable")
    return Matched(server[order].astype(np.int32), client[order].astype(np.int32))


def _draw(rng: np.random.Generator, law: str, count: int, sigma: float, cv: float) -> npt.NDArray[np.float64]:
    """Service times with the mean 1."""
    if law == "exponential":
        return rng.exponential(1, count)
    if law == "lognormal":
        return rng.lognormal(-sigma * sigma / 2, sigma, count)
    if law == "constant":
        return rng.normal(1, cv, count)
    raise ValueError(f"no such law: {law}")
