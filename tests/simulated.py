"""A small simulator: workers that read over one connection, and a path with a rate, delay, jitter and loss -> captures.

Closed loop: each of `workers` sends its next READ when its last reply has come (and `think_ms` went by). The server
takes `service_ms` for each on average (exponential), any number at once. Its replies go through one socket, in order,
in segments of `segment` bytes, with no more than `cwnd` bytes not acknowledged; so a reply may wait there. The path to
the client is a queue in front of a line with `mbit` Mbit/s, then `delay_ms` each way, and up to `jitter_ms` more, in
order. Lost segments are sent again when three later ones were acknowledged, else after 200 ms. Times in ms.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from scenario import Scenario


@dataclass
class Simulated:
    """One run; `lines` is the timeline of a scenario (tests/scenario.py)."""

    workers: int = 8
    ops: int = 600
    size: int = 8192
    segment: int = 8320
    service_ms: float = 1.0
    think_ms: float = 0.0
    mbit: float | None = None
    delay_ms: float = 0.1
    jitter_ms: float = 0.0
    loss: float = 0.0
    cwnd: int = 1 << 24
    stop: tuple[float, float] | None = None  # a host does not run: from when on, how long
    stopped: str = "client"
    far: tuple[float, float, float] = (0.0, 0.0, 0.0)  # from when to when the path is longer, and its delay then
    narrow: tuple[float, float, float] = (0.0, 0.0, 0.0)  # from when to when it has a rate, and that, Mbit/s
    seed: int = 1
    lines: list[str] = field(default_factory=list)
    lost: int = 0
    in_socket_ms: float = 0.0  # summed: from a reply that is ready to its first byte on the wire

    def run(self) -> Simulated:
        """Play it."""
        rng = random.Random(self.seed)
        tie = itertools.count()
        events: list[tuple[float, int, str, tuple[float, ...]]] = []

        def at(t: float, what: str, *arguments: float) -> None:
            heapq.heappush(events, (t, next(tie), what, arguments))

        socket: deque[tuple[int, int, int, float]] = deque()  # xid, piece, pieces, ready
        under_way: dict[tuple[int, int], float] = {}
        line_free = last_call = last_reply = 0.0
        xids = itertools.count(1)
        pieces = -(-(self.size + 132) // self.segment)
        missing: dict[tuple[int, int], int] = {}  # lost pieces, and later ones that were acknowledged
        order: list[tuple[int, int]] = []  # as first sent
        places: dict[tuple[int, int], int] = {}  # in it
        came: set[tuple[int, int]] = set()
        delivered = 0
        sent_times: dict[int, list[float]] = {}
        arrived_times: dict[int, list[float | None]] = {}

        def delay(t: float) -> float:
            return self.far[2] if self.far[0] <= t < self.far[1] else self.delay_ms

        def rate(t: float) -> float | None:
            return self.narrow[2] if self.narrow[0] <= t < self.narrow[1] else self.mbit

        def awake(t: float, side: str = "client") -> float:
            """When a host takes what comes at t."""
            stops = self.stop is not None and side == self.stopped and self.stop[0] <= t < sum(self.stop)
            return sum(self.stop or ()) if stops else t

        def carry(t: float) -> float:
            nonlocal line_free, last_reply
            mbit = rate(t)
            line_free = max(line_free, t) + (self.segment * 8 / mbit / 1000 if mbit else 0.0)
            last_reply = max(last_reply, line_free + delay(t) + rng.uniform(0, self.jitter_ms))
            return awake(last_reply)

        def pump(t: float) -> None:
            while socket and (len(under_way) + 1) * self.segment <= self.cwnd:
                xid, piece, _, ready = socket.popleft()
                if piece == 0:
                    self.in_socket_ms += t - ready
                under_way[xid, piece] = t
                places[xid, piece] = len(order)
                order.append((xid, piece))
                arrived = carry(t)
                sent_times.setdefault(xid, []).append(t)
                if rng.random() < self.loss:
                    self.lost += 1
                    missing[xid, piece] = 0
                    arrived_times.setdefault(xid, []).append(None)
                    at(t + 200, "timeout", xid, piece)
                else:
                    arrived_times.setdefault(xid, []).append(arrived)
                    at(arrived, "arrived", xid, piece)

        for worker in range(self.workers):
            at(rng.uniform(0, 1), "call", worker)
        made = 0
        while events:
            t, _, what, arguments = heapq.heappop(events)
            if what in ("ready", "acked", "timeout") and awake(t, "server") > t:
                at(awake(t, "server"), what, *arguments)
                continue
            if what == "call":
                if awake(t) > t:
                    at(awake(t), "call", *arguments)
                elif made < self.ops:
                    made += 1
                    xid = next(xids)
                    last_call = max(last_call, t + delay(t) + rng.uniform(0, self.jitter_ms))
                    last_call = awake(last_call, "server")
                    self.lines.append(f"{t:.6f} > {last_call:.6f} READ {xid} {8192 * xid} {self.size}")
                    at(last_call + rng.expovariate(1 / self.service_ms), "ready", xid)
            elif what == "ready":
                socket += [(int(arguments[0]), piece, pieces, t) for piece in range(pieces)]
                pump(t)
            elif what == "arrived":
                key = (int(arguments[0]), int(arguments[1]))
                came.add(key)
                ack = t + 0.01
                at(ack + delay(ack), "acked", *key)
                self.lines.append(f"{ack:.6f} > {ack + delay(ack):.6f} ack")
                # In order, message by message.
                while delivered < len(order) and order[delivered] in came:
                    xid, piece = order[delivered]
                    delivered += 1
                    if piece == pieces - 1:
                        at(t + 0.05 + rng.expovariate(1 / self.think_ms) if self.think_ms else t + 0.05, "call", 0)
            elif what == "acked":
                key = (int(arguments[0]), int(arguments[1]))
                under_way.pop(key, None)
                for hole in list(missing):
                    if places[key] > places[hole]:
                        missing[hole] += 1
                        if missing[hole] == 3:
                            self._again(t, hole, pieces, carry, at, missing)
                pump(t)
            elif what == "timeout" and (int(arguments[0]), int(arguments[1])) in missing:
                self._again(t, (int(arguments[0]), int(arguments[1])), pieces, carry, at, missing)
        for xid, times in sent_times.items():
            way = arrived_times[xid]
            first = ",".join(f"{t:.6f}" for t in times)
            second = ",".join("-" if t is None else f"{t:.6f}" for t in way)
            self.lines.append(f"{first} < {second} reply {xid}")
        return self

    def _again(
        self,
        t: float,
        key: tuple[int, int],
        pieces: int,
        carry: Callable[[float], float],
        at: Callable[..., None],
        missing: dict[tuple[int, int], int],
    ) -> None:
        """A piece of a reply is sent again."""
        missing.pop(key)
        arrived = carry(t)
        self.lines.append(f"{t:.6f} < {arrived:.6f} retransmit {key[0]} {key[1] + 1}/{pieces}")
        at(arrived, "arrived", *key)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The server's capture and the client's."""
        timeline = "\n".join(self.lines)
        folder.mkdir(exist_ok=True)
        return Scenario({"purpose": "simulated", "timeline": timeline, "expect": {}}).write(folder)
