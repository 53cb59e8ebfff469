"""Pool -> processes of this run's own, each with a bound on its memory; they end with the run.

They have no port and no name: tasks and results pass through pipes that nobody else has an end of. Python's pool of
processes would break as a whole where one of them dies, and not say over which task.

A terminal sends Ctrl-C to all processes at once. The workers do not hear it: nfslat does, and ends them.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import Any, Protocol

import psutil

from nfslat.errors import InputError, UsageError
from nfslat.fleet.run.kept import Kept, keep
from nfslat.fleet.run.pool import FAILURES, POLL_S, Done, Heard, Pool, SchedulerGone, done_here, undisturbed, why
from nfslat.kernels.memory import container_memory

_WORKER_BYTES = 320_000_000  # with all that it imports, and a small capture
_SHARE = 0.9  # of this machine's memory
_STARTS = 3  # processes in a row that die before they take a task
_END_S = 3.0  # to take away what they were writing
_OF_TERMINALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)  # a terminal sends them to all processes in front of it
_NOT_YET = object()

Pipe = connection.Connection


class _Process(Protocol):
    """What is needed of a process."""

    @property
    def pid(self) -> int | None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...


@dataclass(eq=False)
class _Task:
    """`heard` is None where only other tasks need what it gives."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    priority: int
    heard: Heard | None
    value: Any = _NOT_YET
    why: str = ""  # there is no value
    needed_by: list[_Task] = field(default_factory=list)
    waits_for: int = 0
    deaths: int = 0


@dataclass(eq=False)
class _Worker:
    process: _Process
    pipe: Pipe
    task: _Task | None = None
    is_ready: bool = False

    @property
    def name(self) -> str:
        return f"process {self.process.pid}"


class Processes(Pool):
    """At most `count` of them, each of at most `memory_bytes`; what tasks keep for each other is in `folder`."""

    def __init__(self, count: int, memory_bytes: int, folder: Path, *, lost_s: float | None = None) -> None:
        """None is started before there is something to do."""
        super().__init__("local", memory_bytes=memory_bytes, lost_s=lost_s)
        self._count, self._folder = count, folder
        self._workers: list[_Worker] = []
        self._ready: list[tuple[int, int, _Task]] = []
        self._numbers = itertools.count()
        self._died_young = 0

    def _begin(
        self, heard: Heard | None, function: Callable[..., Any], arguments: tuple[Any, ...], priority: int
    ) -> _Task:
        """See ``Pool``."""
        task = _Task(function, arguments, priority, heard)
        for one in task.arguments:
            if isinstance(one, _Task):
                task.why = task.why or one.why
                if one.value is _NOT_YET and not one.why:
                    one.needed_by.append(task)
                    task.waits_for += 1
        if not task.waits_for:
            self._queue(task)
        return task

    def _queue(self, task: _Task) -> None:
        """Do it when a worker is free, or say at once why not: what it needs is not there."""
        if task.why:
            self._settle(task)
            return
        heapq.heappush(self._ready, (-task.priority, next(self._numbers), task))

    def finish(self) -> None:
        """See ``Pool``."""
        seen = time.monotonic()
        with undisturbed() as signals:
            while (self._ready or any(one.task for one in self._workers)) and not signals:
                self._hand_out()
                said = connection.wait([one.pipe for one in self._workers], timeout=POLL_S)
                for worker in [one for one in self._workers if one.pipe in said]:
                    self._hear(worker)
                self._hold_to_bound()
                if any(one.is_ready for one in self._workers):
                    seen = time.monotonic()
                elif time.monotonic() - seen > self.lost_s:
                    raise self._gone(f"no process began within {self.lost_s:.0f} seconds")

    def _hand_out(self) -> None:
        at_work = sum(one.task is not None for one in self._workers)
        while len(self._workers) < min(self._count, at_work + len(self._ready)):
            self._start()
        for worker in [one for one in self._workers if one.is_ready and one.task is None][: len(self._ready)]:
            _, _, worker.task = heapq.heappop(self._ready)
            values = [one.value if isinstance(one, _Task) else one for one in worker.task.arguments]
            kept_in = None if worker.task.heard else str(self._folder)
            try:
                worker.pipe.send((worker.task.function, values, kept_in))
            except OSError:  # it has just died over nothing, which is heard in a moment
                task, worker.task = worker.task, None
                self._queue(task)

    def _start(self) -> None:
        try:
            self._workers.append(_Worker(*begin(self._folder)))
        except OSError as problem:
            if not self._workers:
                raise self._gone(f"no process can be started ({problem.strerror or problem})") from None
            self._count = len(self._workers)

    def _hear(self, worker: _Worker) -> None:
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        except Exception as problem:  # what its class makes of what was sent
            said = problem
        task, worker.task = worker.task, None
        if task is None:  # it has begun
            worker.is_ready, self._died_young = True, 0
            return
        if isinstance(said, Done):
            self._note(said)
            task.value = said.value
        else:
            task.why = why(said)
        self._settle(task)

    def _bury(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        self.lost.append(worker.name)
        if not worker.is_ready:
            self._died_young += 1
            if self._died_young >= _STARTS:
                raise self._gone(f"{_STARTS} processes ended before they took a task")
        task = worker.task
        if task is None:
            return
        task.deaths += 1
        if task.deaths <= FAILURES:
            self.again += 1
            self._queue(task)
        else:
            task.why = self._died(task.deaths)
            self._settle(task)

    def _settle(self, task: _Task) -> None:
        """Hand over what came of it."""
        for one in task.needed_by:
            one.waits_for -= 1
            one.why = one.why or task.why
            if not one.waits_for:
                self._queue(one)
        if task.heard is None:
            return
        done, failed = task.heard
        if task.why:
            failed(task.why)
        else:
            done(task.value)

    def _hold_to_bound(self) -> None:
        """End those that take more memory than they may."""
        for worker in self._workers:
            if self.memory_bytes is not None and _own_bytes(worker.process.pid) > self.memory_bytes:
                worker.process.kill()

    def _gone(self, why_not: str) -> SchedulerGone:
        return SchedulerGone(f"this machine: {why_not}; run again with the same --out to go on")

    def close(self) -> None:
        """See ``Pool``."""
        for worker in self._workers:
            worker.pipe.close()
            if worker.task is None:
                worker.process.kill()
            else:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_END_S)
            worker.process.kill()
            worker.process.join()
        self._workers.clear()


def _own_bytes(pid: int | None) -> int:
    """Memory that this process alone takes: what it maps of files is everybody's."""
    try:
        taken = psutil.Process(pid).memory_info()
    except psutil.Error:  # it has just ended
        return 0
    return int(taken.rss) - int(getattr(taken, "shared", 0))


def begin(folder: Path) -> tuple[_Process, Pipe]:
    """A process that takes tasks, and our end of its pipe. `folder` is for what it leaves behind when it is killed.

    Raises ``OSError`` where there can be no more of them.
    """
    context = multiprocessing.get_context("spawn")
    resource_tracker.ensure_running()  # where it is started below, it lets the signals in again
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, str(folder)), daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)  # a process inherits them
    try:
        process.start()
    except OSError:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return process, ours


def _work(pipe: Pipe, folder: str) -> None:
    """What such a process does."""
    # Its end is told by nfslat: what Python or a library says on the way is no news, and would stand in the report.
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what it is writing goes with it
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    threading.Thread(target=_end_with_parent, daemon=True).start()
    serve(pipe)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def serve(pipe: Pipe) -> None:
    """Do the tasks that come, until nobody is there who would send more."""
    name = f"process {os.getpid()}"
    with contextlib.suppress(EOFError, OSError):
        pipe.send(None)  # it has begun
        while True:
            done = _done(name, *pipe.recv())
            try:
                pipe.send(done)
            except (EOFError, OSError):
                raise
            except Exception as problem:  # it cannot be pickled; nothing of it was sent
                pipe.send(_that_travels(problem))


def _done(name: str, function: Callable[..., Any], arguments: Sequence[Any], kept_in: str | None) -> Done | Exception:
    try:
        value = function(*(one.value() if isinstance(one, Kept) else one for one in arguments))
        return done_here(keep(value, Path(kept_in)) if kept_in else value, name)
    except Exception as problem:
        return _that_travels(problem)


def _that_travels(problem: Exception) -> Exception:
    """`problem` as the other end of a pipe can read it."""
    try:
        pickle.loads(pickle.dumps(problem))  # noqa: S301  (what we have just made)
    except Exception:  # its class may ask for what it does not keep
        return RuntimeError(why(problem))
    return problem


@contextlib.contextmanager
def processes(
    workers: int | None, memory: str | None, scratch: Path, *, lost_s: float | None = None
) -> Iterator[Processes]:
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
    found = Processes(count, bound, scratch, lost_s=lost_s)
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
