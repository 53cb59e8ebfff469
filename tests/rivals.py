"""A server as a network of queues -> NFS traffic whose threads, processors, disks, locks and journals are known.

`queues` has the threads of knfsd to the last detail; here is what may stand behind them, and what looks like too few
of them from the wire. A call takes a thread for all of its way, and visits stations one after the other:

    slow = simulate({"READ": [("cpu", 0.2), ("disk", 10)]}, {"cpu": shared(1), "disk": line(4)}, threads=64, workers=32)

Times are ms, as means of what `law` draws. Results are `queues.Traffic`; everything is drawn from one seed.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from queues import MS, US, Traffic

Push = Callable[[int, int, object], None]


@dataclass
class Shared:
    """So many processors, of which all calls have equal parts (processor sharing); no limit where there are infinitely
    many."""

    processors: float
    now_ns: int = 0
    done: float = 0.0  # ns of work that each call got that was here from the beginning
    inside: list[tuple[float, int]] = field(default_factory=list)
    turn: int = 0

    def _on(self, now: int) -> None:
        if self.inside:
            self.done += (now - self.now_ns) * min(1.0, self.processors / len(self.inside))
        self.now_ns = now

    def enter(self, now: int, op: int, work_ns: float) -> int | None:
        """When the next call leaves."""
        self._on(now)
        heapq.heappush(self.inside, (self.done + work_ns, op))
        return self._next()

    def leave(self, now: int) -> tuple[list[int], int | None]:
        """Those that are through, and when the next one leaves."""
        self._on(now)
        out = []
        while self.inside and self.inside[0][0] <= self.done + 1.0:
            out.append(heapq.heappop(self.inside)[1])
        return out, self._next()

    def _next(self) -> int | None:
        if not self.inside:
            return None
        rate = min(1.0, self.processors / len(self.inside))
        return self.now_ns + max(math.ceil((self.inside[0][0] - self.done) / rate), 0)


@dataclass
class Line:
    """Takes so many at once, the others stand in line: a disk, or a lock."""

    places: int
    waiting: deque[tuple[int, float]] = field(default_factory=deque)
    busy: list[tuple[int, int]] = field(default_factory=list)

    def enter(self, now: int, op: int, work_ns: float) -> int | None:
        """As above."""
        self.waiting.append((op, work_ns))
        return self._next(now)

    def leave(self, now: int) -> tuple[list[int], int | None]:
        """As above."""
        out = []
        while self.busy and self.busy[0][0] <= now:
            out.append(heapq.heappop(self.busy)[1])
        return out, self._next(now)

    def _next(self, now: int) -> int | None:
        while self.waiting and len(self.busy) < self.places:
            op, work_ns = self.waiting.popleft()
            heapq.heappush(self.busy, (now + int(work_ns), op))
        return self.busy[0][0] if self.busy else None


@dataclass
class Commits:
    """A journal: what comes while it writes goes into the next write, and all of a write is done at once."""

    running: list[int] = field(default_factory=list)
    gathered: list[tuple[int, float]] = field(default_factory=list)
    until_ns: int = 0

    def enter(self, now: int, op: int, work_ns: float) -> int | None:
        """As above."""
        self.gathered.append((op, work_ns))
        return self._next(now)

    def leave(self, now: int) -> tuple[list[int], int | None]:
        """As above."""
        out = self.running if now >= self.until_ns else []
        if out:
            self.running = []
        return out, self._next(now)

    def _next(self, now: int) -> int | None:
        if not self.running and self.gathered:
            self.running = [op for op, _ in self.gathered]
            self.until_ns = now + int(max(work_ns for _, work_ns in self.gathered))
            self.gathered = []
        return self.until_ns if self.running else None


Station = Shared | Line | Commits


def shared(processors: float) -> Callable[[], Station]:
    """A `Shared`; each simulation has its own."""
    return lambda: Shared(processors)


def line(places: int) -> Callable[[], Station]:
    """A `Line`."""
    return lambda: Line(places)


def commits() -> Callable[[], Station]:
    """A `Commits`."""
    return Commits


_ISSUE, _ARRIVE, _LEAVE, _THAW = range(4)


def simulate(
    ways: Mapping[str, Sequence[tuple[str, float]]],  # operation -> stations with the mean work in ms
    stations: Mapping[str, Callable[[], Station]],
    *,
    threads: int,
    workers: int,
    shares: Mapping[str, float] | None = None,  # of the operations; equal
    count: int = 4_000,
    think_ms: float = 0.02,
    together: bool = False,  # all workers ask at one moment, wait for all answers, think
    law: str = "exponential",  # of the work; or "lognormal" with `sigma`, "constant" with `cv`
    sigma: float = 1.0,
    cv: float = 0.05,
    tick_ms: float = 0.0,  # what a station finishes is noticed by a timer that ticks so often: threads in lockstep
    ticking: str = "",  # that station alone has the timer; all
    stall_every_ms: float = 0.0,  # no station finishes anything for `stall_ms`
    stall_ms: float = 0.0,
    rare: Mapping[str, tuple[float, float]] | None = None,  # station -> (share of its calls, ms on top)
    connections: int = 1,
    hog: float = 0.0,  # share of the workers that the first connection has beside its own
    turns: bool = False,  # connections take turns, as in knfsd; else the oldest call of all is the next
    slower: float = 1.0,  # times what the stations take in the second half of the ops
    network_ms: float = 0.05,
    seed: int = 1,
) -> Traffic:
    """Play `count` ops until all are answered."""
    rng = np.random.default_rng(seed)
    names = list(ways)
    weights = np.array([(shares or {}).get(name, 1.0) for name in names])
    kinds = rng.choice(names, count, p=weights / weights.sum())
    made = {name: one() for name, one in stations.items()}
    steps: list[list[tuple[str, float]]] = []
    for at, kind in enumerate(kinds.tolist()):
        steps.append([])
        for name, mean_ms in ways[kind]:
            work = mean_ms * _draw(rng, law, sigma, cv) * (slower if name != "cpu" and 2 * at >= count else 1.0)
            if rare and name in rare and rng.random() < rare[name][0]:
                work += rare[name][1]
            steps[-1].append((name, max(work * MS, 1_000)))
    thinks = (rng.exponential(think_ms, count) * MS).astype(np.int64).tolist()
    out_ns = (network_ms * MS + rng.exponential(5 * US, (2, count))).astype(np.int64).tolist()
    conn, sent, arrival, start, reply, received, owner = ([0] * count for _ in range(7))
    at_station = [0] * count
    pending: deque[deque[int]] = deque()  # a line for each connection that has calls, or one for all
    line_of: dict[int, deque[int]] = {}
    last_arrival, last_received = [0] * connections, [0] * connections
    free, asked, out = threads, 0, 0
    heap: list[tuple[int, int, int, object]] = []
    serial = 0

    def push(at: int, what: int, of: object) -> None:
        nonlocal serial
        serial += 1
        heapq.heappush(heap, (at, what, serial, of))

    def noticed(at: int, name: str) -> int:
        """When what ends at `at` in a station is told."""
        if tick_ms and ticking in ("", name):
            at = math.ceil(at / (tick_ms * MS)) * int(tick_ms * MS)
        if stall_every_ms:
            phase = at % int(stall_every_ms * MS)
            if phase < stall_ms * MS and at > stall_every_ms * MS:
                at += int(stall_ms * MS) - phase
        return at

    def go_on(now: int, op: int) -> None:
        nonlocal free, out
        if at_station[op] < len(steps[op]):
            name, work_ns = steps[op][at_station[op]]
            at_station[op] += 1
            at = made[name].enter(now, op, work_ns)
            if at is not None:
                push(noticed(at, name), _LEAVE, name)
            return
        reply[op] = now
        free += 1
        way = conn[op]
        received[op] = last_received[way] = max(last_received[way], now + out_ns[1][op])
        out -= 1
        if not together:
            push(received[op] + thinks[op], _ISSUE, owner[op])
        elif out == 0:
            for worker in range(workers):
                push(received[op] + thinks[op], _ISSUE, worker)

    for worker in range(workers):
        push(1 if together else int(rng.integers(1, int(think_ms * MS) + 2 * MS)), _ISSUE, worker)
    while heap:
        now, what, _, of = heapq.heappop(heap)
        if what == _ISSUE:
            if asked == count:
                continue
            op, asked = asked, asked + 1
            owner[op] = int(str(of))
            way = conn[op] = 0 if owner[op] < hog * workers else owner[op] % connections
            sent[op] = now
            out += 1
            arrival[op] = last_arrival[way] = max(last_arrival[way], now + out_ns[0][op])
            push(arrival[op], _ARRIVE, op)
        elif what == _ARRIVE:
            calls = line_of.setdefault(conn[int(str(of))] if turns else 0, deque())
            if not calls:
                pending.append(calls)
            calls.append(int(str(of)))
        else:
            name = str(of)
            through, following = made[name].leave(now)
            # Whoever came in the meantime has announced when the next one leaves.
            if through and following is not None:
                push(max(noticed(following, name), now), _LEAVE, name)
            for op in through:
                go_on(now, op)
        while free and pending:
            calls = pending.popleft()
            op = calls.popleft()
            if calls and turns:
                pending.append(calls)
            elif calls:
                pending.appendleft(calls)
            free -= 1
            start[op] = now
            go_on(now, op)
    columns = [np.array(column, dtype=np.int64) for column in (conn, sent, arrival, start, reply, received)]
    conn_, sent_, arrival_, start_, reply_, received_ = columns
    traffic = Traffic(
        conn_, kinds, sent_, sent_, arrival_, arrival_, start_, reply_, received_, service_ns=reply_ - start_
    )
    return traffic.take(np.argsort(traffic.sent_ns, kind="stable"))


def _draw(rng: np.random.Generator, law: str, sigma: float, cv: float) -> float:
    if law == "exponential":
        return float(rng.exponential())
    if law == "lognormal":
        return float(rng.lognormal(-sigma * sigma / 2, sigma))
    return max(float(rng.normal(1, cv)), 0.01)
