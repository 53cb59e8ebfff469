"""Functions with their arguments in, futures of what they give out: an executor whose workers may die.

As many tasks are with the executor as its workers can do, the urgent ones first. What is known of a task besides its
result is which worker did it, and how much memory that took.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import resource
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from nfslat import __version__
from nfslat.errors import NfslatError
from nfslat.fleet.model import Worker
from nfslat.fleet.run.store import FULL, Store

T = TypeVar("T")
FAILURES = 1  # workers that a task may take with it
POLL_S = 0.1
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2)
_ROOM = "; make room there, or name another folder (--out; TMPDIR without it), and run again"
_LATER = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class SchedulerGone(NfslatError):
    """Nothing more will come."""


class TaskFailed(NfslatError):
    """There is no result of a task; why, in one line."""


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


@dataclass(eq=False)
class Task:
    """What is to be done."""

    future: Future[Any]
    call: tuple[Any, ...]
    priority: int
    is_suspect: bool = False  # a worker died when it had it


class Pool(ABC):
    """Workers that take tasks. A task that a worker dies with is done once more when no other is in progress: what is
    not to blame for it is done then."""

    died: type[BaseException] | tuple[type[BaseException], ...] = BrokenExecutor

    def __init__(self, address: str, *, memory_bytes: int | None = None, dashboard: str | None = None) -> None:
        """`memory_bytes`: bound of each worker, where it is known."""
        self.address, self.dashboard, self.memory_bytes = address, dashboard, memory_bytes
        self.workers: dict[str, Worker] = {}
        self.again = 0  # tasks that were begun once more, because their worker was lost
        self.lost: list[str] = []
        self._ready: list[tuple[int, int, Task]] = []
        self._numbers = itertools.count()
        self._begun: dict[Future[Done], Task] = {}
        self._suspects: list[Task] = []

    @abstractmethod
    def executor(self) -> Executor:
        """What takes tasks now. Raises ``SchedulerGone`` where there is none."""

    @abstractmethod
    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the executor is to call, with its arguments, for a `Done`."""

    @abstractmethod
    def room(self) -> int:
        """How many tasks the executor may have at once."""

    def look(self, *, is_at_work: bool) -> None:  # noqa: B027  (here all is seen)
        """After each step; raises ``SchedulerGone`` where nothing more can come. `is_at_work`: something was done."""

    def broken(self) -> None:  # noqa: B027  (a cluster goes on)
        """The executor takes no more tasks; when those that it has are done with, there has to be another one."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the workers; what is still to be done is not done."""

    def refuse_unshared(self, store: Store, files: Sequence[str]) -> None:  # noqa: B027  (here all is seen by all)
        """Raises ``InputError`` where a worker on another machine does not see the store, or one of the local files."""

    def submit(self, function: Callable[..., T], *arguments: Any, priority: int = 0) -> Future[T]:
        """What `function` gives, or ``TaskFailed``, when `finish` or one like it has waited for it."""
        future: Future[T] = Future()
        task = Task(future, self.call(function, arguments), priority)
        self._queue(task)
        return future

    def finish(self, futures: Iterable[Future[T]]) -> None:
        """Until these are done. Raises ``SchedulerGone`` where nothing more can come."""
        for _ in self.as_done(futures):
            pass

    def as_done(self, futures: Iterable[Future[T]]) -> Iterator[Future[T]]:
        """Each when it is done."""
        left = list(futures)
        while left:
            done = {one for one in left if one.done()}
            yield from (one for one in left if one in done)
            left = [one for one in left if one not in done]
            if left and not done:
                with undisturbed():
                    self._step()

    def result(self, future: Future[T]) -> T:
        """What it gives, when it is done. Raises ``TaskFailed``, and as `finish` does."""
        self.finish([future])
        return future.result()

    def each(
        self, function: Callable[[Any], Any], given: Sequence[Any], failed: Callable[[Any, str], Any]
    ) -> list[Any]:
        """`function` of each, in their order; where there is none, what `failed` makes of it and of the reason."""
        futures = [self.submit(function, one) for one in given]
        self.finish(futures)
        problems = [one.exception() for one in futures]
        return [
            future.result() if why_not is None else failed(one, str(why_not))
            for one, future, why_not in zip(given, futures, problems, strict=True)
        ]

    def _queue(self, task: Task) -> None:
        heapq.heappush(self._ready, (-task.priority, next(self._numbers), task))

    def _step(self) -> None:
        """Hand out what there is room for, and take what has come in the meantime."""
        if self._suspects:
            if not self._begun:
                self.begin(self._suspects.pop())
        else:
            while self._ready and len(self._begun) < self.room() and self.begin(heapq.heappop(self._ready)[-1]):
                pass
        done = wait(self._begun, timeout=POLL_S, return_when=FIRST_COMPLETED).done
        for one in done:
            self._settle(self._begun.pop(one), one)
        self.look(is_at_work=bool(done))

    def begin(self, task: Task) -> bool:
        """Let the executor do it; False where that takes no more."""
        try:
            self._begun[self.executor().submit(*task.call)] = task
        except BrokenExecutor:  # a worker has just died, of this task not yet
            self.broken()
            (self._suspects.append if task.is_suspect else self._queue)(task)
            return False
        return True

    def _settle(self, task: Task, done: Future[Done]) -> None:
        if done.cancelled():  # with the connection to who did it, which `look` tells
            self._queue(task)
            return
        problem = done.exception()
        if problem is None:
            found = done.result()
            self._note(found)
            task.future.set_result(found.value)
        elif not isinstance(problem, self.died):
            task.future.set_exception(TaskFailed(why(problem)))
        elif task.is_suspect:
            workers = 1 + getattr(problem, "allowed_failures", FAILURES)
            task.future.set_exception(TaskFailed(self._died(workers)))
        else:
            task.is_suspect = True
            self._suspects.append(task)
            if isinstance(problem, BrokenExecutor):
                self.broken()
                self.again += 1

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
