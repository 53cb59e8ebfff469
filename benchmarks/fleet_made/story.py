"""The plan of a fleet -> what happened to each of its calls, played event by event.

Connections stand in one line, as in knfsd: a thread that is free takes the connection at its head, takes the first
call of its stream, and puts the connection back at the tail, though no more have come; it leaves the line when its turn
comes and there is still nothing. A message is one packet. One that is lost is sent again by TCP: a round trip after
three later ones came through, else after 200 ms and a round trip, twice that the next time; those behind it wait for it
at the receiver.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleet_made.plan import FOLDER, LOOKUP, MS, OWN, READ, SHARED, US, WRITE, Plan, S

I64 = npt.NDArray[np.int64]

_ISSUE, _SETTLE, _DONE, _AGAIN, _CALL, _REPLY, _LEAVE = range(7)
_CODES = 8
_RTO_NS = 200 * MS
_GAP_NS = 1 * US  # between packets of a connection that come by, at least
_AT_ONCE_NS = 4 * US  # from a reply that frees a slot to the call that takes it
_LOOK_NS = 30 * US  # between the LOOKUPs with which a client begins
_DUPLICATES = 3  # so many later messages that came through prove a loss


@dataclass(frozen=True)
class File:
    """Something that has a handle; its number is the inode's."""

    name: str
    parent: int  # -1: what is mounted


@dataclass(frozen=True)
class Story:
    """Columns, a row an op; ns since the start on the true clock. Of pairs the first is the call's."""

    plan: Plan
    files: tuple[File, ...]  # by number, from 1 on
    conn_client: I64  # client of each connection
    conn: I64
    kind: I64
    file: I64  # of a LOOKUP what is found
    block: I64  # of 8 KiB
    issued: I64  # the application asked
    sent: tuple[I64, I64]  # for the first time
    direct: tuple[I64, I64]  # the first one comes by at the receiver's host; -1 where it was lost
    seen: tuple[I64, I64]  # the first one that comes by at all does
    delivered: tuple[I64, I64]  # it and all in front of it are there
    start: I64  # a thread takes it
    order: tuple[list[list[int]], list[list[int]]]  # by connection: ops as their messages stand in the stream
    again: I64  # rows of op, way, sent, seen (-1: lost, too)

    @property
    def client(self) -> I64:
        """Client of each op."""
        return self.conn_client[self.conn]


def play(plan: Plan) -> Story:
    """Play until nobody asks any more and all is answered."""
    return _Play(plan).run()


class _Play:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)  # noqa: S311 - a load, no secret
        self.files = [File("", -1), File(FOLDER, -1), *(File(name, 1) for name in SHARED)]
        self.of_client: list[list[int]] = []
        for number, _ in enumerate(plan.clients):
            own = range(len(self.files), len(self.files) + OWN)
            self.files += [File(f"c{number:03}-f{part + 1:02}.dat", 1) for part in range(OWN)]
            self.of_client.append([1, 2, 3, *own])
        self.heap: list[tuple[int, int]] = []
        self.conn_client = [number for number, one in enumerate(plan.clients) for _ in range(one.nconnect)]
        ways = len(self.conn_client)
        self.first_conn = [0, *itertools.accumulate(one.nconnect for one in plan.clients)]
        self.turn = [0] * len(plan.clients)
        self.looked_up = [0] * len(plan.clients)
        self.free_slots = [plan.clients[number].slots for number in self.conn_client]
        self.backlog: list[deque[int]] = [deque() for _ in range(ways)]
        self.order: tuple[list[list[int]], list[list[int]]] = ([[] for _ in range(ways)], [[] for _ in range(ways)])
        # By connection and way (2 * connection + way).
        self.last_seen = [0] * 2 * ways
        self.behind: list[deque[int]] = [deque() for _ in range(2 * ways)]  # a lost one, and what came after it
        self.holes: list[dict[int, list[int]]] = [{} for _ in range(2 * ways)]  # op: came after it, tries, next try
        # By op.
        self.columns: dict[str, list[int]] = {name: [] for name in "conn kind file block worker issued start".split()}
        self.sent: tuple[list[int], list[int]] = ([], [])
        self.direct: tuple[list[int], list[int]] = ([], [])
        self.seen: tuple[list[int], list[int]] = ([], [])
        self.delivered: tuple[list[int], list[int]] = ([], [])
        self.again: list[tuple[int, int, int, int]] = []
        # The server.
        self.free_threads = plan.server.threads
        self.pending: list[deque[int]] = [deque() for _ in range(ways)]
        self.line: deque[int] = deque()
        self.in_line = [False] * ways
        # Cumulative, for one draw an op.
        self.kinds = list(plan.mix)
        self.shares = list(itertools.accumulate(plan.mix.values()))

    def run(self) -> Story:
        workers = [number for number, one in enumerate(self.plan.clients) for _ in range(one.workers)]
        self.worker_client = workers
        self.first_worker = [0, *itertools.accumulate(one.workers for one in self.plan.clients)]
        heap, pop = self.heap, heapq.heappop
        heap += [(int(one.start_ms * MS), self.first_worker[n] * _CODES) for n, one in enumerate(self.plan.clients)]
        heapq.heapify(heap)
        steps = (self._issue, self._settle, self._done, self._send_again, self._arrive, self._receive, self._leave)
        while heap:
            now, code = pop(heap)
            steps[code % _CODES](now, code // _CODES)
        columns = {name: np.array(self.columns[name], dtype=np.int64) for name in self.columns if name != "worker"}
        return Story(
            plan=self.plan,
            files=tuple(self.files),
            conn_client=np.array(self.conn_client, dtype=np.int64),
            order=self.order,
            sent=_pair(self.sent),
            direct=_pair(self.direct),
            seen=_pair(self.seen),
            delivered=_pair(self.delivered),
            again=np.array(self.again, dtype=np.int64).reshape(-1, 4),
            **columns,
        )

    def _issue(self, now: int, worker: int) -> None:
        plan = self.plan
        if now >= plan.seconds * S:
            return
        number = self.worker_client[worker]
        client, files = plan.clients[number], self.of_client[number]
        column = self.columns
        op = len(column["conn"])
        if self.looked_up[number] < len(files):  # the first things a client does: it finds its files
            kind, file = LOOKUP, files[self.looked_up[number]]
            self.looked_up[number] += 1
        else:
            draw = self.random.random() * self.shares[-1]
            kind = self.kinds[next(n for n, share in enumerate(self.shares) if draw < share)]
            file = files[1 + int(self.random.random() * (len(files) - 1))]
        conn = self.first_conn[number] + self.turn[number]
        self.turn[number] = (self.turn[number] + 1) % client.nconnect
        column["conn"].append(conn)
        column["kind"].append(kind)
        column["file"].append(file)
        column["block"].append(int(self.random.random() * 65_536))
        column["worker"].append(worker)
        column["issued"].append(now)
        column["start"].append(0)
        for pair in (self.sent, self.direct, self.seen, self.delivered):
            for way in pair:
                way.append(-1)
        if self.free_slots[conn]:
            self.free_slots[conn] -= 1
            self._send(now, op, 0)
        else:
            self.backlog[conn].append(op)

    def _leave(self, now: int, op: int) -> None:
        self._send(now, op, 0)

    def _exponential(self, mean: float) -> int:
        return int(-mean * math.log(1.0 - self.random.random())) if mean else 0

    def _send(self, now: int, op: int, way: int) -> None:
        conn = self.columns["conn"][op]
        stream = 2 * conn + way
        client = self.plan.clients[self.conn_client[conn]]
        self.sent[way][op] = now
        self.order[way][conn].append(op)
        if client.loss and self.random.random() < client.loss:
            self.holes[stream][op] = [0, 1, now + _RTO_NS + int(2 * client.delay_ms * MS)]
            self.behind[stream].append(op)
            heapq.heappush(self.heap, (self.holes[stream][op][2], (2 * op + way) * _CODES + _AGAIN))
            return
        seen = self._carry(now, stream)
        self.direct[way][op] = self.seen[way][op] = seen
        if not self.behind[stream]:
            heapq.heappush(self.heap, (seen, op * _CODES + _CALL + way))
            return
        self.behind[stream].append(op)
        for lost, hole in self.holes[stream].items():
            hole[0] += 1
            if hole[0] == _DUPLICATES and hole[1] == 1:
                hole[2] = seen + int(client.delay_ms * MS)
                heapq.heappush(self.heap, (hole[2], (2 * lost + way) * _CODES + _AGAIN))
        heapq.heappush(self.heap, (seen, stream * _CODES + _SETTLE))

    def _carry(self, now: int, stream: int) -> int:
        """When a packet that leaves now comes by at the other end, behind those that left before it."""
        client = self.plan.clients[self.conn_client[stream >> 1]]
        seen = now + int(client.delay_ms * MS) + self._exponential(client.jitter_ms * MS)
        seen = self.last_seen[stream] = max(self.last_seen[stream] + _GAP_NS, seen)
        return seen

    def _send_again(self, now: int, which: int) -> None:
        op, way = which >> 1, which & 1
        conn = self.columns["conn"][op]
        stream = 2 * conn + way
        hole = self.holes[stream].get(op)
        if hole is None or hole[2] != now:
            return
        client = self.plan.clients[self.conn_client[conn]]
        if self.random.random() < client.loss:
            hole[2] = now + (_RTO_NS << hole[1]) + int(2 * client.delay_ms * MS)
            hole[1] += 1
            self.again.append((op, way, now, -1))
            heapq.heappush(self.heap, (hole[2], which * _CODES + _AGAIN))
            return
        del self.holes[stream][op]
        self.seen[way][op] = self._carry(now, stream)
        self.again.append((op, way, now, self.seen[way][op]))
        heapq.heappush(self.heap, (self.seen[way][op], stream * _CODES + _SETTLE))

    def _settle(self, now: int, stream: int) -> None:
        """Something came after a loss: what has nothing missing in front of it is taken."""
        behind, way = self.behind[stream], stream & 1
        while behind and 0 <= self.seen[way][behind[0]] <= now:
            op = behind.popleft()
            (self._receive if way else self._arrive)(now, op)

    def _arrive(self, now: int, op: int) -> None:
        self.delivered[0][op] = now
        conn = self.columns["conn"][op]
        self.pending[conn].append(op)
        if not self.in_line[conn]:
            self.in_line[conn] = True
            self.line.append(conn)
        self._take(now)

    def _done(self, now: int, op: int) -> None:
        self.free_threads += 1
        self._send(now, op, 1)
        self._take(now)

    def _take(self, now: int) -> None:
        server = self.plan.server
        while self.free_threads and self.line:
            conn = self.line.popleft()
            if not self.pending[conn]:
                self.in_line[conn] = False
                continue
            op = self.pending[conn].popleft()
            self.line.append(conn)
            self.free_threads -= 1
            self.columns["start"][op] = now
            disk = self.columns["kind"][op] in (READ, WRITE)
            service = max(self._exponential(server.disk_ms * MS), 30_000) if disk else int(server.quick_ms * MS)
            if self.files[self.columns["file"][op]].name == server.slow_file:
                service = int(service * server.slow_factor)
            heapq.heappush(self.heap, (now + service, op * _CODES + _DONE))

    def _receive(self, now: int, op: int) -> None:
        self.delivered[1][op] = now
        conn, worker = self.columns["conn"][op], self.columns["worker"][op]
        number = self.conn_client[conn]
        client = self.plan.clients[number]
        if self.backlog[conn]:
            heapq.heappush(self.heap, (now + _AT_ONCE_NS, self.backlog[conn].popleft() * _CODES + _LEAVE))
        else:
            self.free_slots[conn] += 1
        think = client.think_ms * MS / (self.plan.load_factor if now >= self.plan.busier_at_s * S else 1)
        found = self.looked_up[number]
        if found < len(self.of_client[number]):
            heapq.heappush(self.heap, (now + _LOOK_NS, worker * _CODES + _ISSUE))
            return
        if found == len(self.of_client[number]) and worker == self.first_worker[number]:
            self.looked_up[number] += 1  # all is found: now the other workers begin
            for other in range(worker + 1, worker + client.workers):
                heapq.heappush(self.heap, (now + self._exponential(think), other * _CODES + _ISSUE))
        heapq.heappush(self.heap, (now + self._exponential(think), worker * _CODES + _ISSUE))


def _pair(ways: tuple[list[int], list[int]]) -> tuple[I64, I64]:
    return np.array(ways[0], dtype=np.int64), np.array(ways[1], dtype=np.int64)
