"""A function and its arguments -> what it gives for each: by processes of this machine, or by the workers of a Dask
scheduler. As many tasks are under way as there is room for; arguments are made when their turn comes.

Processes here are forked before there is much in memory; they have no port and no name. Where one dies Python ends them
all: what was under way is done again, one task at a time, and what a second process dies over is told.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from nfslat import __version__
from nfslat.decode import native
from nfslat.errors import InputError, NfslatError, UsageError
from nfslat.fleet.model import Worker
from nfslat.kernels.memory import container_memory

_POLL_S = 0.1
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2)
_WORKER_BYTES = 320_000_000  # with all that it imports, and a small capture
_SHARE = 0.9  # of this machine's memory
_END_S = 3.0  # for processes to take away what they were writing
_OF_TERMINALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)  # a terminal sends them to all processes in front of it


class WorkersGone(NfslatError):
    """Nothing more will come."""


@dataclass(frozen=True)
class Done:
    """What a task gave, or why it gave nothing; and who did it."""

    value: Any
    why_not: str
    worker: str = ""
    host: str = ""
    rss_bytes: int = 0  # of the worker's process so far, at most


def version() -> str:
    """The version of what a worker decodes with."""
    return f"nfslat {__version__}, {native.NAME}"


def done_by(worker: str, function: Callable[[Any], Any], argument: Any) -> Done:
    """`function`'s result; this runs on the worker. An exception may hold what no pipe brings along."""
    value, why_not = None, ""
    try:
        value = function(argument)
    except Exception as problem:  # a task's own; the other tasks go on
        why_not = in_words(problem)
    rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
    return Done(value, why_not, worker, os.uname().nodename, rss_bytes)


def in_words(problem: BaseException) -> str:
    """What a task ended with, in one line."""
    if isinstance(problem, OSError):
        return (f"{problem.filename}: " if problem.filename else "") + (problem.strerror or str(problem))
    return str(problem) if isinstance(problem, NfslatError) else f"{type(problem).__name__}: {problem}"


class Workers(ABC):
    """Who does the tasks; `address` is of a scheduler, `memory_bytes` the bound of each worker."""

    def __init__(self, address: str, memory_bytes: int | None = None, dashboard: str | None = None) -> None:
        self.address, self.memory_bytes, self.dashboard = address, memory_bytes, dashboard
        self.known: dict[str, Worker] = {}
        self.lost: list[str] = []
        self.again = 0  # tasks that were begun once more, because their worker was lost

    @abstractmethod
    def begin(self, function: Callable[[Any], Any], argument: Any) -> Future[Done]:
        """Hand out a task. Raises ``BrokenExecutor`` where a worker has just died."""

    @abstractmethod
    def room(self) -> int:
        """So many tasks may be under way."""

    @abstractmethod
    def check(self) -> None:
        """Raises ``WorkersGone`` where nothing more will come."""

    def bury(self) -> None:  # noqa: B027  (Dask sees to it by itself)
        """Workers have died: the next task gets new ones."""

    def each(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[tuple[int, Done]]:
        """The number of each argument with what `function` gives for it, as they are done. Raises ``WorkersGone``."""
        left = enumerate(arguments)
        suspects: deque[tuple[int, Any]] = deque()  # a worker died when it was under way
        running: dict[Future[Done], tuple[int, Any, bool]] = {}
        more = True
        while more or running or suspects:
            while more and not suspects and len(running) < self.room():
                if (following := next(left, None)) is None:
                    more = False
                elif not self._begin(function, *following, running):
                    suspects.append(following)
            if suspects and not running:
                self.again += 1
                self._begin(function, *suspects.popleft(), running, is_suspect=True)
            done = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED).done
            for future in done:
                number, argument, is_suspect = running.pop(future)
                problem = None if future.cancelled() else future.exception()
                if not future.cancelled() and problem is None:
                    result = future.result()
                    self._note(result)
                    yield number, result
                elif isinstance(problem, BrokenExecutor) and not is_suspect:
                    suspects.append((number, argument))
                elif problem is not None:
                    yield number, Done(None, self._died(problem))
                else:
                    self.check()
                    yield number, Done(None, "it was cancelled")
            if any(isinstance(one.exception(), BrokenExecutor) for one in done if not one.cancelled()):
                self.bury()
            self.check()

    def _begin(
        self, function: Callable[[Any], Any], number: int, argument: Any,
        running: dict[Future[Done], tuple[int, Any, bool]], *, is_suspect: bool = False,
    ) -> bool:  # fmt: skip
        try:
            running[self.begin(function, argument)] = number, argument, is_suspect
        except BrokenExecutor:
            self.bury()
            return False
        return True

    def _note(self, done: Done) -> None:
        known = self.known.get(done.worker)
        peak = max(done.rss_bytes, (known.peak_rss_bytes or 0) if known else 0)
        tasks = 1 if known is None else known.tasks + 1
        self.known[done.worker] = Worker(done.worker, done.host, peak, self.memory_bytes, tasks)

    def _died(self, problem: BaseException) -> str:
        if not isinstance(problem, BrokenExecutor):
            return in_words(problem)
        bound = "" if self.memory_bytes is None else f" of {self.memory_bytes / 1e9:.1f} GB"
        return (
            f"2 workers died over it, likely at the bound{bound} on their memory; "
            "give each more (--worker-memory), or run fewer (--workers)"
        )


class Processes(Workers):
    """At most `count` of them here, each of at most `memory_bytes`; their temporary files are in `folder`."""

    def __init__(self, count: int, memory_bytes: int, folder: Path) -> None:
        super().__init__("local", memory_bytes)
        self._count, self._folder = count, folder
        self._executor: Executor | None = None
        self._processes: list[BaseProcess] = []

    def start(self) -> None:
        """Fork now, while little is in memory. Raises ``WorkersGone`` where no process can be started."""
        while self._executor is None:
            try:
                self._executor, self._processes = forked(self._count, self.memory_bytes or 0, self._folder)
            except OSError as problem:  # so many there cannot be
                if self._count == 1:
                    why = problem.strerror or problem
                    raise WorkersGone(f"this machine: no process can be started ({why})") from None
                self._count //= 2

    def begin(self, function: Callable[[Any], Any], argument: Any) -> Future[Done]:
        """See ``Workers``."""
        self.start()
        assert self._executor is not None  # noqa: S101  (for mypy: `start` raises otherwise)
        return self._executor.submit(_done_here, function, argument)

    def room(self) -> int:
        """See ``Workers``."""
        return self._count + 1  # the next one is there when one is done

    def check(self) -> None:
        """See ``Workers``: there are always new ones."""

    def bury(self) -> None:
        """See ``Workers``. Python has ended those that were left, too; they are not lost by themselves."""
        processes = self._processes
        self.close(at_once=True)
        killed = [one for one in processes if one.exitcode not in (0, -signal.SIGTERM)]
        self.lost += [f"process {one.pid}" for one in killed or processes[:1]]

    def close(self, *, at_once: bool) -> None:
        """End them; those that are at work, too, where that is to be `at_once`."""
        if at_once:
            for one in self._processes:
                one.terminate()
            end = time.monotonic() + _END_S
            for one in self._processes:
                one.join(max(end - time.monotonic(), 0))
                if one.exitcode is None:
                    one.kill()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        self._executor, self._processes = None, []


def forked(count: int, memory_bytes: int, folder: Path) -> tuple[Executor, list[BaseProcess]]:
    """What takes tasks, and its processes. Raises ``OSError`` where there can be no more of them."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    before = set(multiprocessing.active_children())
    # A terminal sends Ctrl-C to all processes at once: workers do not hear it, nfslat does, and ends them.
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, (*_OF_TERMINALS, signal.SIGTERM))  # a process inherits them
    executor = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(str(folder), memory_bytes))
    try:
        with warnings.catch_warnings():  # that there are threads: of numpy's, which knows of forks
            warnings.simplefilter("ignore", DeprecationWarning)
            executor.submit(abs, 0)
    finally:
        begun = [one for one in multiprocessing.active_children() if one not in before]
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    return executor, begun


def _begin(folder: str, memory_bytes: int) -> None:
    """What such a process does first."""
    # Its end is told by nfslat: what Python or a library says on the way is no news, and would stand in the report.
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what it is writing goes with it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    threading.Thread(target=_watch, args=(memory_bytes,), daemon=True).start()


def _watch(memory_bytes: int) -> None:
    """End this process with the one that began it, or when it takes more memory than it may."""
    parent = multiprocessing.parent_process()
    while parent is not None and not connection.wait([parent.sentinel], _POLL_S):
        memory = psutil.Process().memory_info()
        if memory.rss - getattr(memory, "shared", 0) > memory_bytes:  # what it maps of files is everybody's
            os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _done_here(function: Callable[[Any], Any], argument: Any) -> Done:
    try:
        return done_by(f"process {os.getpid()}", function, argument)
    except SystemExit:  # of SIGTERM, to which the executor would not listen; what it was writing is gone
        os._exit(0)


@contextlib.contextmanager
def processes(workers: int | None, memory: str | None, scratch: Path) -> Iterator[Processes]:
    """As many as there are processors, or `workers`; `scratch` goes with them.

    Raises ``UsageError`` for a bound that is no size or too small, ``InputError`` where nothing can be written.
    """
    count, bound = _sizes(workers, memory)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        why = f"cannot be made ({problem.strerror}); TMPDIR names another folder"
        raise InputError(why, about=scratch) from problem
    made = Processes(count, bound, scratch)
    is_done = False
    try:
        made.start()
        yield made
        is_done = True
    finally:
        made.close(at_once=not is_done)


def _sizes(workers: int | None, memory: str | None) -> tuple[int, int]:
    """Processes, and the bound of each."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    room = int(min(psutil.virtual_memory().total, container_memory()) * _SHARE)
    bound = None if memory is None else _parsed(memory)
    if bound is not None and bound < _WORKER_BYTES:
        raise UsageError(
            f"--worker-memory {memory}: a worker takes {_WORKER_BYTES // 1_000_000} MB before it reads much; give more"
        )
    count = workers or max(min(cpus, room // (bound or _WORKER_BYTES)), 1)
    return count, bound or max(room // count, _WORKER_BYTES)


def _parsed(memory: str) -> int:
    from dask.utils import parse_bytes  # noqa: PLC0415  (late: few give it)

    try:
        return int(parse_bytes(memory))
    except ValueError as problem:
        raise UsageError(f"--worker-memory {memory}: give a size, for example 4GB") from problem
