"""An address, or none -> a connection to Dask's scheduler; tasks in, their results and failures out.

Without an address the cluster is one of this run's own, on this machine: processes with a bound on their memory, which
end with the run. What is known of a task besides its result is which worker did it, and how much memory that took.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
from distributed import CancelledError, Client, Future, get_worker, wait
from distributed.scheduler import KilledWorker

from nfslat import __version__
from nfslat.errors import InputError, NfslatError, UsageError
from nfslat.fleet.local import local_cluster, undisturbed
from nfslat.fleet.model import Worker

_CONNECT_S = 10  # to answer
_LOST_S = 60  # without any worker
_POLL_S = 1.0
_CLOSE_S = 5
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2)
_FAILURES = 2  # workers that a task may take with it


@dataclass(frozen=True)
class Done:
    """What a task gave, and what it took."""

    value: Any
    worker: str
    host: str
    rss_bytes: int  # of the worker's process so far, at most


class SchedulerGone(NfslatError):
    """Nothing more will come."""

    exit_status = 4


def measured(function: Callable[..., Any], *arguments: Any, **named: Any) -> Done:
    """`function`'s result; this runs on the worker."""
    given = [one.value if isinstance(one, Done) else one for one in arguments]
    value = function(*given, **named)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
    return Done(value, get_worker().address, os.uname().nodename, rss)


@dataclass
class Cluster:
    """A scheduler that is there."""

    client: Client
    address: str  # "local", or as it was given
    dashboard: str | None
    memory_bytes: int | None  # bound of each worker; None: not known
    workers: dict[str, Worker] = field(default_factory=dict)
    lost_s: float = _LOST_S  # without any worker, until it is given up
    again: int = 0  # tasks that were begun once more, because their worker was lost
    lost: list[str] = field(default_factory=list)
    _handlers: dict[Future, tuple[Callable[[Any], None], Callable[[str], None]]] = field(default_factory=dict)

    def submit(
        self,
        done: Callable[[Any], None],
        failed: Callable[[str], None],
        function: Callable[..., Any],
        *arguments: Any,
        priority: int = 0,
    ) -> Future:
        """Let a worker call `function`. `done` gets its result, or `failed` why there is none; both may submit more.

        A future among `arguments` stands for its result.
        """
        future = self.client.submit(measured, function, *arguments, priority=priority, pure=False)
        self._handlers[future] = (done, failed)
        return future

    def depend(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Future:
        """The same for what only other tasks need: its result stays with the workers."""
        return self.client.submit(measured, function, *arguments, priority=priority, pure=False)

    def finish(self) -> None:
        """Until nothing is left to do. Raises ``SchedulerGone`` where nothing more can come."""
        seen = time.monotonic()
        while self._handlers:
            with contextlib.suppress(TimeoutError, CancelledError), self.client.as_current():
                wait(list(self._handlers), timeout=_POLL_S, return_when="FIRST_COMPLETED")
            if self.client.status != "running":
                raise SchedulerGone(f"{self.address}: the scheduler is gone")
            for future in [one for one in self._handlers if one.status != "pending"]:
                self._settle(future)
            if self.client.ncores():
                seen = time.monotonic()
            elif time.monotonic() - seen > self.lost_s:
                raise SchedulerGone(f"{self.address}: no worker for {self.lost_s:.0f} seconds")

    def _settle(self, future: Future) -> None:
        done, failed = self._handlers.pop(future)
        if future.cancelled() or future.status == "lost":
            raise SchedulerGone(f"{self.address}: the scheduler is gone")
        problem = future.exception()
        if problem is not None:
            failed(self._why(problem))
            return
        result: Done = future.result()
        known = self.workers.get(result.worker)
        tasks = 1 if known is None else known.tasks + 1
        peak = max(result.rss_bytes, (known.peak_rss_bytes or 0) if known else 0)
        self.workers[result.worker] = Worker(result.worker, result.host, peak, self.memory_bytes, tasks)
        done(result.value)

    def _why(self, problem: BaseException) -> str:
        if isinstance(problem, KilledWorker):
            bound = "" if self.memory_bytes is None else f" of {self.memory_bytes / 1e9:.1f} GB"
            return (
                f"{problem.allowed_failures + 1} workers died over it, likely at the bound{bound} on their memory; "
                "give each more (--worker-memory), or run fewer (--workers)"
            )
        if isinstance(problem, OSError):
            where = f"{problem.filename}: " if problem.filename else ""
            more = "; make room, then run again with the same --out" if problem.errno == errno.ENOSPC else ""
            return f"{where}{problem.strerror or problem}{more}"
        if isinstance(problem, NfslatError):
            return str(problem)
        return f"{type(problem).__name__}: {problem}"

    def close(self) -> None:
        """Let go of it; what is still to be done there is not done."""
        with contextlib.suppress(Exception):
            if self.client.status == "running":
                self.client.unsubscribe_topic("all")
                self.client.cancel(list(self._handlers))
        with contextlib.suppress(Exception):
            self.client.close(timeout=_CLOSE_S)

    def event(self, event: tuple[float, Any]) -> None:
        """Dask says that something happened to a worker."""
        _, said = event
        if isinstance(said, dict) and said.get("action") == "remove-worker" and not said.get("expected"):
            self.again += len(said.get("processing-tasks", ()))
            self.lost.append(str(said.get("worker")))


@contextlib.contextmanager
def connect(
    address: str | None, *, workers: int | None, memory: str | None, scratch: Path, lost_s: float = _LOST_S
) -> Iterator[Cluster]:
    """A scheduler, and its workers; without any for `lost_s` it is given up. Raises ``InputError`` where none answers, ``UsageError`` where one does not fit."""
    settings = {
        "distributed.scheduler.allowed-failures": _FAILURES,
        "distributed.comm.timeouts.connect": f"{_CONNECT_S}s",
    }
    with dask.config.set(settings), contextlib.ExitStack() as stack, warnings.catch_warnings():
        # What goes wrong is ours to say, in one line.
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")  # of a port that is taken, of large arguments: no news for who reads captures
        bound = None
        if address is None:
            cluster, bound = stack.enter_context(local_cluster(workers, memory, scratch))
            client = Client(cluster, set_as_default=False)
        else:
            client = _remote(address)
        found = Cluster(client, address or "local", client.dashboard_link or None, bound, lost_s)
        try:
            client.subscribe_topic("all", found.event)
            yield found
        finally:
            with undisturbed():
                found.close()


def _remote(address: str) -> Client:
    try:
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as problem:
        raise InputError(
            f"--scheduler {address}: no scheduler answers ({_first_line(problem)}); is it running?"
        ) from None
    versions = client.run(_version)
    if not versions:
        raise InputError(f"--scheduler {address}: it has no workers; start some with: dask worker {address}")
    wrong = {worker: version for worker, version in versions.items() if version != _version()}
    if wrong:
        worker, version = next(iter(wrong.items()))
        raise UsageError(
            f"--scheduler {address}: worker {worker} has {version}, this is {_version()}; install the same"
        )
    return client


def _version() -> str:
    """Of what a worker would decode with."""
    from nfslat.decode import native  # noqa: PLC0415

    return f"nfslat {__version__}, {native.NAME}"


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
