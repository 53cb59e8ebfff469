"""An address, or none -> a connection to Dask's scheduler; tasks in, their results and failures out.

Without an address the cluster is one of this run's own, on this machine: processes with a bound on their memory, which
end with the run. What is known of a task besides its result is which worker did it, and how much memory that took.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
from distributed import CancelledError, Client, Future, get_worker, wait
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from nfslat.errors import InputError, NfslatError
from nfslat.fleet.model import Worker
from nfslat.fleet.run.local import local_cluster, undisturbed
from nfslat.fleet.run.peers import CLOSE_S, CONNECT_S, Trust, refuse_unshared, remote, version
from nfslat.fleet.run.store import FULL, Store

_LOST_S = 60  # without any worker
_POLL_S = 0.25
_FETCH_S = 5.0  # a result, from its worker
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2)
_ROOM = "; make room there, or name another folder (--out; TMPDIR without it), and run again"
_UNDER_WAY = ("pending", "lost")  # lost: with the worker that had done it; it is done once more
_FAILURES = 1  # workers that a task may take with it


@dataclass(frozen=True)
class Done:
    """What a task gave, and what it took."""

    value: Any
    worker: str
    host: str
    rss_bytes: int  # of the worker's process so far, at most


class SchedulerGone(NfslatError):
    """Nothing more will come."""


def measured(expected: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Done:
    """`function`'s result; this runs on the worker, which may have come when the others had been asked already."""
    if expected != version():
        raise InputError(f"worker {get_worker().address} has {version()}, others have {expected}; install the same")
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
    _keys: set[Any] = field(default_factory=set)
    _suspects: dict[Any, tuple[Future, Callable[[Any], None], Callable[[str], None]] | None] = field(
        default_factory=dict
    )
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
        future = self.depend(function, *arguments, priority=priority)
        self._handlers[future] = (done, failed)
        return future

    def depend(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Future:
        """The same for what only other tasks need: its result stays with the workers."""
        try:
            future = self.client.submit(measured, version(), function, *arguments, priority=priority, pure=False)
        except Exception:
            if self.client.status != "running":
                raise self._gone() from None
            raise
        self._keys.add(future.key)
        return future

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

    def finish(self) -> None:
        """Until nothing is left to do. Raises ``SchedulerGone`` where nothing more can come."""
        seen = time.monotonic()
        with undisturbed() as signals:
            while (self._handlers or self._one_suspect()) and not signals:
                with contextlib.suppress(TimeoutError, CancelledError), self.client.as_current():
                    wait(list(self._handlers), timeout=_POLL_S, return_when="FIRST_COMPLETED")
                if self.client.status != "running":
                    raise self._gone()
                settled = [self._settle(one) for one in list(self._handlers) if one.status not in _UNDER_WAY]
                if any(settled) or self._is_at_work():
                    seen = time.monotonic()
                elif time.monotonic() - seen > self.lost_s:
                    raise SchedulerGone(
                        f"{self._who}: no worker that takes tasks for {self.lost_s:.0f} seconds; start some, and run "
                        "again with the same --out to go on"
                    )

    def _one_suspect(self) -> bool:
        """Begin one of those that workers died over once more, by itself: what is not to blame is done then."""
        for key, suspect in self._suspects.items():
            if suspect is not None:
                future, done, failed = suspect
                self._suspects[key] = None
                self.client.retry([future])
                self._handlers[future] = (done, failed)
                return True
        return False

    @property
    def _who(self) -> str:
        return "this machine" if self.address == "local" else f"--scheduler {self.address}"

    def _gone(self) -> SchedulerGone:
        return SchedulerGone(
            f"{self._who}: the scheduler is gone; start it, and run again with the same --out to go on"
        )

    def _is_at_work(self) -> bool:
        """Is there a worker that takes tasks? Those whose memory is full wait, and may do so for ever."""
        try:
            if len(self.client.ncores()) == 0:
                return False
            known = self.client.scheduler_info(n_workers=-1)["workers"].values()
        except (OSError, KeyError, CancelledError):  # of a connection that has just ended
            return False
        return not known or any(one.get("status") != "paused" for one in known)

    def _settle(self, future: Future) -> bool:
        """Hand over what came of it; False where its worker is lost, so that it has to be done once more."""
        if future.cancelled():
            raise self._gone()
        try:
            problem = future.exception(timeout=_FETCH_S)
            result: Done | None = future.result(timeout=_FETCH_S) if problem is None else None
        except TimeoutError:
            return False
        except (CancelledError, CommClosedError):
            raise self._gone() from None
        done, failed = self._handlers.pop(future)
        if isinstance(problem, KilledWorker) and future.key not in self._suspects:
            self._suspects[future.key] = (future, done, failed)
            return True
        if result is None:
            failed(self._why(problem))
            return True
        known = self.workers.get(result.worker)
        tasks = 1 if known is None else known.tasks + 1
        peak = max(result.rss_bytes, (known.peak_rss_bytes or 0) if known else 0)
        self.workers[result.worker] = Worker(result.worker, result.host, peak, self.memory_bytes, tasks)
        done(result.value)
        return True

    def _why(self, problem: BaseException) -> str:
        if isinstance(problem, KilledWorker):
            bound = "" if self.memory_bytes is None else f" of {self.memory_bytes / 1e9:.1f} GB"
            return (
                f"{problem.allowed_failures + 1} workers died over it, likely at the bound{bound} on their memory; "
                "give each more (--worker-memory), or run fewer (--workers)"
            )
        if isinstance(problem, OSError):
            where = f"{problem.filename}: " if problem.filename else ""
            more = _ROOM if problem.errno in FULL else ""
            return f"{where}{problem.strerror or problem}{more}"
        if isinstance(problem, ImportError):
            return f"a worker cannot import nfslat ({problem}); install the same on all of them"
        if isinstance(problem, NfslatError):
            return str(problem)
        return f"{type(problem).__name__}: {problem}"

    def refuse_unshared(self, store: Store, files: Sequence[str]) -> None:
        """Raises ``InputError`` where a worker on another machine does not see the store, or one of the local files."""
        if self.address != "local":
            refuse_unshared(self.client, self.address, store, files)

    def close(self) -> None:
        """Let go of it; what is still to be done there is not done."""
        with contextlib.suppress(Exception):
            if self.client.status == "running":
                self.client.unsubscribe_topic("all")
                self.client.cancel(list(self._handlers))
        with contextlib.suppress(Exception):
            self.client.close(timeout=CLOSE_S)

    def event(self, event: tuple[float, Any]) -> None:
        """Dask says that something happened to a worker."""
        _, said = event
        if isinstance(said, dict) and said.get("action") == "remove-worker" and not said.get("expected"):
            # A scheduler may have others' tasks, too.
            self.again += len(self._keys.intersection(said.get("processing-tasks", ())))
            self.lost.append(str(said.get("worker")))


@contextlib.contextmanager
def connect(
    address: str | None,
    trust: Trust = Trust(),  # noqa: B008  (frozen)
    *,
    workers: int | None,
    memory: str | None,
    scratch: Path,
    lost_s: float | None = None,
    dashboard: bool = False,
) -> Iterator[Cluster]:
    """A scheduler, and its workers; without any for `lost_s` it is given up. `dashboard`: its address is
    asked for, and a cluster of our own has one.

    Raises ``InputError`` where none answers, ``UsageError`` where one does not fit.
    """
    settings = {
        "distributed.scheduler.allowed-failures": _FAILURES,
        "distributed.comm.timeouts.connect": f"{CONNECT_S}s",
    }
    with dask.config.set(settings), contextlib.ExitStack() as stack, warnings.catch_warnings():
        # What goes wrong is ours to say, in one line.
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        # For good: what was cut off when the scheduler went is told of whenever Python comes to clear it away.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
        warnings.simplefilter("ignore")  # of a port that is taken, of large arguments: no news for who reads captures
        bound = None
        if address is None:
            cluster, bound = stack.enter_context(local_cluster(workers, memory, scratch, dashboard=dashboard))
            client = Client(cluster, set_as_default=False)
        else:
            client = remote(address, trust)
        found = Cluster(
            client,
            address or "local",
            (client.dashboard_link or None) if dashboard else None,
            bound,
            lost_s=lost_s or _LOST_S,
        )
        try:
            client.subscribe_topic("all", found.event)
            yield found
        finally:
            with undisturbed():
                found.close()
