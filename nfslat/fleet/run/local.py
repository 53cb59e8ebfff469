"""Pool -> processes of this run's own, each with a bound on its memory; they end with the run.

They are forked, so that none imports again what is imported here, and have no port and no name: tasks and results pass
through pipes that nobody else has an end of. Where one dies Python ends them all; then there are new ones.

A terminal sends Ctrl-C to all processes at once. The workers do not hear it: nfslat does, and ends them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from nfslat.errors import InputError, UsageError
from nfslat.fleet.run.pool import POLL_S, Done, Pool, SchedulerGone, TaskFailed, done_here, undisturbed, why
from nfslat.kernels.memory import container_memory

_WORKER_BYTES = 320_000_000  # with all that it imports, and a small capture
_SHARE = 0.9  # of this machine's memory
_BEGIN_S = 60.0
_STARTS = 3  # of processes, in a row, that end before they take a task
_END_S = 3.0  # to take away what they were writing
_OF_TERMINALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)  # a terminal sends them to all processes in front of it


class Processes(Pool):
    """At most `count` of them, each of at most `memory_bytes`; their temporary files are in `folder`."""

    def __init__(self, count: int, memory_bytes: int, folder: Path) -> None:
        """None is started before there is something to do."""
        super().__init__("local", memory_bytes=memory_bytes)
        self._count, self._folder, self._bound = count, folder, memory_bytes
        self._executor: Executor | None = None
        self._processes: list[BaseProcess] = []
        self._is_broken = False

    def executor(self) -> Executor:
        """See ``Pool``."""
        if self._is_broken:
            self._bury()
        starts = 0
        while self._executor is None:
            try:
                self._executor, self._processes, first = begin(self._count, self._bound, self._folder)
                first.result(timeout=_BEGIN_S)
            except TimeoutError:
                self._is_broken = True
                raise self._gone(f"no process began within {_BEGIN_S:.0f} seconds") from None
            except OSError as problem:  # so many there cannot be
                if self._count == 1:
                    raise self._gone(f"no process can be started ({problem.strerror or problem})") from None
                self._count //= 2
            except BrokenExecutor:
                self._bury()
                starts += 1
                if starts == _STARTS:
                    raise self._gone(f"{_STARTS} times processes ended before they took a task") from None
        return self._executor

    def broken(self) -> None:
        """See ``Pool``."""
        self._is_broken = True

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """See ``Pool``."""
        return _done, function, arguments

    def room(self) -> int:
        """See ``Pool``."""
        return self._count

    def _bury(self) -> None:
        """Python has ended those that were left, too; they are not lost by themselves."""
        self._end(_END_S)
        killed = [one for one in self._processes if one.exitcode not in (0, -signal.SIGTERM)]
        self.lost += [f"process {one.pid}" for one in killed or self._processes[:1]]
        self._executor, self._processes, self._is_broken = None, [], False

    def _end(self, within_s: float) -> None:
        end = time.monotonic() + within_s
        left = [one.sentinel for one in self._processes]
        while left and time.monotonic() < end:
            ended = connection.wait(left, POLL_S)
            left = [one for one in left if one not in ended]
        for one in self._processes:
            if one.sentinel in left:
                one.kill()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _gone(self, why_not: str) -> SchedulerGone:
        return SchedulerGone(f"this machine: {why_not}; run again with the same --out to go on")

    def close(self) -> None:
        """See ``Pool``."""
        if self._begun or self._is_broken:
            for one in self._processes:
                one.terminate()
            self._end(_END_S)
        elif self._executor is not None:
            self._executor.shutdown()
        self._executor, self._processes = None, []


def begin(count: int, memory_bytes: int, folder: Path) -> tuple[Executor, list[BaseProcess], Future[Any]]:
    """What takes tasks, its processes, and a first result to wait for. `folder` is for what they leave behind when they
    are killed. Raises ``OSError`` where there can be no more of them.
    """
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    before = set(multiprocessing.active_children())

    def begun() -> list[BaseProcess]:
        return [one for one in multiprocessing.active_children() if one not in before]

    masked = signal.pthread_sigmask(signal.SIG_BLOCK, (*_OF_TERMINALS, signal.SIGTERM))  # a process inherits them
    try:
        executor = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(str(folder), memory_bytes))
        with warnings.catch_warnings():  # that there are threads: of numpy's, which knows of forks
            warnings.simplefilter("ignore", DeprecationWarning)
            first = executor.submit(abs, 0)
    except OSError:
        for one in begun():
            one.kill()
            one.join()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    return executor, begun(), first


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
    while parent is not None and not connection.wait([parent.sentinel], POLL_S):
        taken = psutil.Process().memory_info()
        if taken.rss - getattr(taken, "shared", 0) > memory_bytes:  # what it maps of files is everybody's
            os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _done(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Done:
    try:
        return done_here(function(*arguments), f"process {os.getpid()}")
    except SystemExit:  # of SIGTERM, to which the executor would not listen; what it was writing is gone
        os._exit(0)
    except Exception as problem:
        raise TaskFailed(why(problem)) from None  # its own class may ask for what no pipe brings along


@contextlib.contextmanager
def processes(workers: int | None, memory: str | None, scratch: Path) -> Iterator[Processes]:
    """As many as there are processors, or `workers`; `scratch` goes with them.

    Raises ``UsageError`` for a bound that is no size or too small, ``InputError`` where nothing can be written.
    """
    count, bound = _sizes(workers, memory)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(
            f"cannot be made ({problem.strerror}); TMPDIR names another folder", about=scratch
        ) from problem
    found = Processes(count, bound, scratch)
    try:
        yield found
    finally:
        with undisturbed():
            found.close()


def _sizes(workers: int | None, memory: str | None) -> tuple[int, int]:
    """Processes, and the bound of each."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    room = int(_memory_bytes() * _SHARE)
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


def _memory_bytes() -> int:
    """Of this machine, or of the container that this runs in."""
    return int(min(psutil.virtual_memory().total, container_memory()))
