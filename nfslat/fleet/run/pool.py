"""Functions with their arguments in, what came of them out: what processes here and a Dask cluster have in common.

What is known of a task besides its result is which worker did it, and how much memory that took.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from nfslat import __version__
from nfslat.errors import NfslatError
from nfslat.fleet.model import Worker
from nfslat.fleet.run.store import FULL, Store

FAILURES = 1  # workers that a task may take with it
LOST_S = 60.0  # without any worker
POLL_S = 0.1
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2)
_ROOM = "; make room there, or name another folder (--out; TMPDIR without it), and run again"
_LATER = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


Heard = tuple[Callable[[Any], None], Callable[[str], None]]


class SchedulerGone(NfslatError):
    """Nothing more will come."""


@dataclass(frozen=True)
class Done:
    """What a task gave, and what it took."""

    value: Any
    worker: str
    host: str
    rss_bytes: int  # of the worker's process so far, at most


def done_here(value: Any, worker: str) -> Done:
    """`value` is what the process that this runs in, `worker`, gives."""
    return Done(value, worker, os.uname().nodename, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT)


def version() -> str:
    """Of what a worker decodes with."""
    from nfslat.decode import native  # noqa: PLC0415  (late: that there is none has to be said, too)

    return f"nfslat {__version__}, {native.NAME}"


class Pool(ABC):
    """Workers that take tasks; a second one is submitted while the first is done, also by who hears of its result."""

    def __init__(
        self,
        address: str,
        *,
        memory_bytes: int | None = None,
        lost_s: float | None = None,
        dashboard: str | None = None,
    ) -> None:
        """`memory_bytes`: bound of each worker, where it is known; `lost_s`: without any, until they are given up."""
        self.address, self.dashboard, self.memory_bytes = address, dashboard, memory_bytes
        self.lost_s = lost_s or LOST_S
        self.workers: dict[str, Worker] = {}
        self.again = 0  # tasks that were begun once more, because their worker was lost
        self.lost: list[str] = []

    def submit(
        self,
        done: Callable[[Any], None],
        failed: Callable[[str], None],
        function: Callable[..., Any],
        *arguments: Any,
        priority: int = 0,
    ) -> Any:
        """Let a worker call `function`. `done` gets its result, or `failed` why there is none; both may submit more.

        What `depend` gave, among `arguments`, stands for its result.
        """
        return self._begin((done, failed), function, arguments, priority)

    def depend(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        """The same for what only other tasks need: its result does not come here."""
        return self._begin(None, function, arguments, priority)

    @abstractmethod
    def _begin(
        self, heard: Heard | None, function: Callable[..., Any], arguments: tuple[Any, ...], priority: int
    ) -> Any:
        """The task; `heard` are told of its result, or why there is none."""

    @abstractmethod
    def finish(self) -> None:
        """Until nothing is left to do. Raises ``SchedulerGone`` where nothing more can come."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the workers; what is still to be done is not done."""

    def refuse_unshared(self, store: Store, files: Sequence[str]) -> None:  # noqa: B027  (here all is seen by all)
        """Raises ``InputError`` where a worker on another machine does not see the store, or one of the local files."""

    def each(
        self, function: Callable[[Any], Any], given: Sequence[Any], failed: Callable[[Any, str], Any]
    ) -> list[Any]:
        """`function` of each, in their order; where there is none, what `failed` makes of it and of the reason."""
        found = [None] * len(given)

        def kept(at: int) -> tuple[Callable[[Any], None], Callable[[str], None]]:
            def keep(value: Any) -> None:
                found[at] = value

            return keep, lambda why: keep(failed(given[at], why))

        for at, one in enumerate(given):
            self.submit(*kept(at), function, one)
        self.finish()
        return found

    def _note(self, result: Done) -> None:
        """Who did it."""
        known = self.workers.get(result.worker)
        tasks = 1 if known is None else known.tasks + 1
        peak = max(result.rss_bytes, (known.peak_rss_bytes or 0) if known else 0)
        self.workers[result.worker] = Worker(result.worker, result.host, peak, self.memory_bytes, tasks)

    def _died(self, workers: int) -> str:
        """Why there is no result of a task that so many workers died over."""
        bound = "" if self.memory_bytes is None else f" of {self.memory_bytes / 1e9:.1f} GB"
        return (
            f"{workers} workers died over it, likely at the bound{bound} on their memory; "
            "give each more (--worker-memory), or run fewer (--workers)"
        )


def why(problem: BaseException) -> str:
    """What a task ended with, in one line."""
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        more = _ROOM if problem.errno in FULL else ""
        return f"{where}{problem.strerror or problem}{more}"
    if isinstance(problem, ImportError):
        return f"a worker cannot import nfslat ({problem}); install the same on all of them"
    if isinstance(problem, NfslatError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}"


@contextlib.contextmanager
def undisturbed() -> Iterator[list[int]]:
    """Signals that would end the run wait until the block is done; it gets those that came. A second one does not wait.

    Where Python happens to be in a destructor or a callback, what a signal raises would be lost.
    """
    before: dict[int, Any] = {}
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def later(number: int, _: FrameType | None) -> None:
        if number in came:
            before[number](number, None)
        came.append(number)

    for number in _LATER:
        handler = signal.getsignal(number)
        if callable(handler):  # neither ignored nor the system's own
            before[number] = signal.signal(number, later)
    try:
        yield came
    finally:
        for at, handler in before.items():
            signal.signal(at, handler)
        if came:
            before[came[0]](came[0], None)
