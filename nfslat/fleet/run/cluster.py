"""An address of a Dask scheduler that others have started -> tasks in, their results and failures out."""

from __future__ import annotations

import contextlib
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

import dask
from distributed import CancelledError, Client, get_worker
from distributed.scheduler import KilledWorker

from nfslat.errors import InputError
from nfslat.fleet.run.peers import CLOSE_S, CONNECT_S, Trust, refuse_unshared, remote
from nfslat.fleet.run.pool import FAILURES, Done, Pool, SchedulerGone, Task, done_here, undisturbed, version
from nfslat.fleet.run.store import Store

_LOST_S = 60.0  # without any worker
_ASK_S = 1.0  # how many workers there are
_AT_ONCE = 2  # tasks a thread of a worker: the next one is there when one is done


def measured(expected: str, function: Callable[..., Any], *arguments: Any) -> Done:
    """`function`'s result; this runs on the worker, which may have come when the others had been asked already."""
    if expected != version():
        raise InputError(f"worker {get_worker().address} has {version()}, others have {expected}; install the same")
    return done_here(function(*arguments), get_worker().address)


class Cluster(Pool):
    """A scheduler that is there."""

    died = KilledWorker

    def __init__(self, client: Client, address: str, *, dashboard: str | None = None) -> None:
        """`client` is connected to it."""
        super().__init__(address, dashboard=dashboard)
        self.client = client
        self._executor: Executor = client.get_executor(pure=False)
        self._seen_s = time.monotonic()
        self._asked_s, self._threads = -math.inf, 0

    def executor(self) -> Executor:
        """See ``Pool``."""
        return self._executor

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """See ``Pool``."""
        return (measured, version(), function, *arguments)

    def room(self) -> int:
        """See ``Pool``."""
        if time.monotonic() - self._asked_s > _ASK_S:
            with contextlib.suppress(OSError, CancelledError):  # of a connection that has just ended
                self._asked_s, self._threads = time.monotonic(), sum(self.client.ncores().values())
        return max(_AT_ONCE * self._threads, 1)

    def begin(self, task: Task) -> bool:
        """See ``Pool``."""
        try:
            return super().begin(task)
        except Exception:
            if self.client.status != "running":
                raise self._gone() from None
            raise

    def look(self, *, is_at_work: bool) -> None:
        """See ``Pool``."""
        if self.client.status != "running":
            raise self._gone()
        if is_at_work or self._is_at_work():
            self._seen_s = time.monotonic()
        elif time.monotonic() - self._seen_s > _LOST_S:
            raise SchedulerGone(
                f"--scheduler {self.address}: no worker that takes tasks for {_LOST_S:.0f} seconds; "
                "start some, and run again with the same --out to go on"
            )

    def _gone(self) -> SchedulerGone:
        return SchedulerGone(
            f"--scheduler {self.address}: the scheduler is gone; start it, and run again with the same --out to go on"
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

    def refuse_unshared(self, store: Store, files: Sequence[str]) -> None:
        """See ``Pool``."""
        refuse_unshared(self.client, self.address, store, files)

    def close(self) -> None:
        """See ``Pool``."""
        with contextlib.suppress(Exception):
            if self.client.status == "running":
                self.client.unsubscribe_topic("all")
                self._executor.shutdown(wait=False)
        with contextlib.suppress(Exception):
            self.client.close(timeout=CLOSE_S)

    def event(self, event: tuple[float, Any]) -> None:
        """Dask says that something happened to a worker."""
        _, said = event
        if isinstance(said, dict) and said.get("action") == "remove-worker" and not said.get("expected"):
            # A scheduler may have others' tasks, too.
            self.again += len(set(self.client.futures).intersection(said.get("processing-tasks", ())))
            self.lost.append(str(said.get("worker")))


@contextlib.contextmanager
def connect(
    address: str,
    trust: Trust = Trust(),  # noqa: B008  (frozen)
    *,
    dashboard: bool = False,
) -> Iterator[Cluster]:
    """A scheduler, and its workers. `dashboard`: its address is asked for.

    Raises ``InputError`` where none answers, ``UsageError`` where one does not fit.
    """
    settings = {
        "distributed.scheduler.allowed-failures": FAILURES,
        "distributed.comm.timeouts.connect": f"{CONNECT_S}s",
    }
    with dask.config.set(settings), contextlib.ExitStack() as stack, warnings.catch_warnings():
        # What goes wrong is ours to say, in one line.
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        # For good: what was cut off when the scheduler went is told of whenever Python comes to clear it away.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
        warnings.simplefilter("ignore")  # of large arguments: no news for who reads captures
        client = remote(address, trust)
        found = Cluster(client, address, dashboard=(client.dashboard_link or None) if dashboard else None)
        try:
            client.subscribe_topic("all", found.event)
            yield found
        finally:
            with undisturbed():
                found.close()
