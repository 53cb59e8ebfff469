"""A server whose host has to wait for a processor -> NFS traffic of a healthy load, or of a slow disk, on it.

The host is a virtual machine with one processor. When it has nothing to do it sleeps; what wakes it, a packet or a disk
that is done, finds it running only after a wait, which is drawn. So packets are stamped late, several at once, and what
goes on step by step waits at each of them. While it runs it works on one step after the other.

    traffic = simulate(waits_ms=lognormal(0.1, 2.0), steps={"READ": [0.3], "WRITE": [0.3] * 4, "GETATTR": []})

Times are ms. Results are `queues.Traffic`; everything is drawn from one seed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from queues import MS, Traffic

Draw = Callable[[np.random.Generator], float]

_ASK, _COME, _DISK, _RUN = range(4)
_SPEED_MS = 0.02  # of a step on the processor
_PATH_MS = 0.05


def never(_: np.random.Generator) -> float:
    """The host has a processor of its own."""
    return 0.0


def lognormal(median_ms: float, sigma: float) -> Draw:
    """As guests of the laboratory waited on a busy machine: mostly hardly, and now and then for 10 ms."""
    return lambda rng: float(rng.lognormal(np.log(median_ms), sigma))


def no_more_than(most_ms: float, draw: Draw) -> Draw:
    """So that there is no pause that others see."""
    return lambda rng: min(draw(rng), most_ms)


def slices(share: float, most_ms: float) -> Draw:
    """The rest of another one's time slice, or nothing."""
    return lambda rng: float(rng.uniform(0, most_ms)) if rng.random() < share else 0.01


def simulate(
    *,
    waits_ms: Draw,
    steps: Mapping[str, Sequence[float | Draw]],  # of the disk, for each operation
    mix: Mapping[str, float],
    seconds: float = 10.0,
    workers: int = 20,
    think_ms: float = 40.0,
    seed: int = 1,
) -> Traffic:
    """Each worker asks, waits for the answer and thinks."""
    rng = np.random.default_rng(seed)
    names, shares = list(mix), np.cumsum(list(mix.values()))
    kind: list[str] = []
    sent, came, replied, received, started, step = ([] for _ in range(6))
    events: list[tuple[float, int, int]] = [(rng.uniform(0, think_ms), _ASK, 0) for _ in range(workers)]
    heapq.heapify(events)
    ready: deque[int] = deque()  # ops that the processor is to work on
    card: list[int] = []  # calls that have come, and that the host has not seen
    is_awake = False

    def wake(now: float) -> None:
        nonlocal is_awake
        if not is_awake:
            is_awake = True
            heapq.heappush(events, (now + waits_ms(rng), _RUN, 0))

    while events:
        now, what, op = heapq.heappop(events)
        if what == _ASK:
            if now < seconds * 1000:
                op = len(kind)
                kind.append(names[int(np.searchsorted(shares, rng.random() * shares[-1]))])
                for column in (sent, came, started, replied, received):
                    column.append(now)
                step.append(0)
                heapq.heappush(events, (now + _PATH_MS + rng.exponential(0.01), _COME, op))
        elif what == _COME:
            card.append(op)
            wake(now)
        elif what == _DISK:
            ready.append(op)
            wake(now)
        else:
            for op in card:
                came[op] = now
                ready.append(op)
            card.clear()
            if not ready:
                is_awake = False
                continue
            op, now = ready.popleft(), now + _SPEED_MS
            at, of_disk = step[op], steps[kind[op]]
            started[op] = started[op] if at else now - _SPEED_MS
            step[op] += 1
            if at < len(of_disk):
                takes = of_disk[at]
                heapq.heappush(events, (now + (takes(rng) if callable(takes) else takes), _DISK, op))
            else:
                replied[op], received[op] = now, now + _PATH_MS + rng.exponential(0.01)
                heapq.heappush(events, (received[op] + rng.exponential(think_ms), _ASK, 0))
            heapq.heappush(events, (now, _RUN, 0))
    order = np.argsort(sent, kind="stable")
    columns = {"sent": sent, "came": came, "started": started, "replied": replied, "received": received}
    times = {name: (np.array(column)[order] * MS).astype(np.int64) for name, column in columns.items()}
    return Traffic(
        np.zeros(len(kind), dtype=np.int64),
        np.array(kind)[order],
        issued_ns=times["sent"],
        sent_ns=times["sent"],
        seen_ns=times["came"],
        arrival_ns=times["came"],
        start_ns=times["started"],
        reply_ns=times["replied"],
        received_ns=times["received"],
        service_ns=times["replied"] - times["started"],
    )
