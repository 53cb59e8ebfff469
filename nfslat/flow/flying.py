"""What was in flight in each window -> the same of all of them: levels are added up, limits are those of most of it.

How many threads and slots there are is told by single windows; phases of the report say when it changed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from nfslat.answer import model
from nfslat.figures.inflight import inflight_of, levels_rows
from nfslat.flow.fold import fold
from nfslat.flow.gaps import longer
from nfslat.inflight.levels import Levels
from nfslat.model.tables import I64
from nfslat.results import Analysis

_SIDES = ("server", "client")
_ADDED = ("held", "unseen_first")  # of the server, what is counted


@dataclass
class Mean:
    """A mean by weight, of what is known."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float | None, weight: float) -> None:
        """One more value; None: not known."""
        if value is not None:
            self.total, self.weight = self.total + value * weight, self.weight + weight

    def join(self, other: Self) -> None:
        """More values."""
        self.total, self.weight = self.total + other.total, self.weight + other.weight

    @property
    def value(self) -> float | None:
        """None where nothing is known."""
        return self.total / self.weight if self.weight else None


@dataclass
class _Side:
    """Of one side's levels."""

    time_ns: I64 = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    ended: I64 = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    hidden: Mean = field(default_factory=Mean)  # share of the ops that are not in the capture

    def add(self, levels: Levels, hidden: float) -> None:
        """Those of one more window."""
        self.time_ns, self.ended = longer(self.time_ns, levels.time_ns), longer(self.ended, levels.ended)
        self.hidden.add(hidden, levels.ops)

    def join(self, other: Self) -> None:
        """Those of more windows."""
        self.time_ns, self.ended = longer(self.time_ns, other.time_ns), longer(self.ended, other.ended)
        self.hidden.join(other.hidden)

    @property
    def levels(self) -> Levels:
        """All of them."""
        return Levels(self.time_ns, self.ended)


class Flying:
    """Of all windows so far."""

    def __init__(self) -> None:
        """Of none."""
        self._sides = {name: _Side() for name in _SIDES}
        self._sessions: list[model.SessionInFlight] = []
        self._caps: list[model.CapInFlight] = []
        self._mounts: list[model.MountInFlight] = []
        # By what is said of threads: the window with most of the time, that time, and of all such windows.
        self._threads: dict[str, tuple[model.ServerInFlight, float, float]] = {}
        self._client: tuple[model.ClientInFlight, float] | None = None
        self._counts = dict.fromkeys(_ADDED, 0)
        self._queue_range = Mean(), Mean()
        self._waiting = Mean()

    def add(self, c: Analysis) -> model.InFlight:
        """One more window; what is in flight in it by itself."""
        found, flown, one = inflight_of(c), c.inflight, Flying()
        took_ns, ops = float(c.client_srt_ns.sum()), len(c.matched)
        for name, seen in (("server", flown.server), ("client", flown.client)):
            one._sides[name].add(seen.levels, seen.hidden)
        one._sessions, one._caps, one._mounts = found.sessions, found.caps, found.client.mounts
        server = dataclasses.replace(found.server, levels=[])
        one._threads[_said(server)] = server, took_ns, took_ns
        one._client = dataclasses.replace(found.client, levels=[], mounts=[]), took_ns
        one._counts = {name: getattr(server, name) for name in _ADDED}
        for mean, end in zip(one._queue_range, server.queue_range_ms or (None, None), strict=True):
            mean.add(end, ops)
        one._waiting.add(server.waiting_share, ops)
        self.join(one)
        return found

    def join(self, other: Self) -> None:
        """More windows."""
        for name, side in other._sides.items():
            self._sides[name].join(side)
        self._sessions = fold([*self._sessions, *other._sessions])
        self._caps = fold([*self._caps, *other._caps])
        self._mounts = fold([*self._mounts, *other._mounts])
        for said, (server, most_ns, all_ns) in other._threads.items():
            before = self._threads.get(said)
            most = (server, most_ns) if before is None or most_ns > before[1] else before[:2]
            self._threads[said] = (*most, all_ns + (before[2] if before else 0.0))
        if other._client is not None and (self._client is None or other._client[1] > self._client[1]):
            self._client = other._client
        for name, count in other._counts.items():
            self._counts[name] += count
        for mean, more in zip((*self._queue_range, self._waiting), (*other._queue_range, other._waiting), strict=True):
            mean.join(more)

    def report(self, queue_ms: float | None, server_ms: float) -> model.InFlight | None:
        """Of all ops; `server_ms` is their mean at the server, `queue_ms` their mean wait for a thread. None where
        there are none."""
        if self._client is None:
            return None
        at_server, at_client = (self._sides[name].levels for name in _SIDES)
        least, most = (one.value for one in self._queue_range)
        counts: dict[str, Any] = dict(self._counts)
        return model.InFlight(
            server=dataclasses.replace(
                self._leading,
                max=at_server.max,
                mean=at_server.mean or 0.0,
                levels=levels_rows(at_server),
                waiting_share=self._waiting.value or 0.0,
                queue_ms=queue_ms,
                queue_range_ms=None if queue_ms is None or least is None or most is None else (least, most),
                service_ms=None if queue_ms is None else server_ms - queue_ms,
                **counts,
            ),
            client=dataclasses.replace(
                self._client[0],
                max=at_client.max,
                mean=at_client.mean or 0.0,
                levels=levels_rows(at_client),
                mounts=sorted(self._mounts, key=lambda one: -one.ops),
            ),
            sessions=self._sessions,
            caps=self._caps,
            hidden_share={name: self._sides[name].hidden.value or 0.0 for name in _SIDES},
        )

    @property
    def _leading(self) -> model.ServerInFlight:
        """The window that is most like what is said of most of the time, where anything is."""
        told = {said: one for said, one in self._threads.items() if said != "cannot"} or self._threads
        return max(told.values(), key=lambda one: one[2])[0]


def _said(server: model.ServerInFlight) -> str:
    """Of its threads."""
    return "limited" if server.limited else "free" if server.cannot is None else "cannot"
