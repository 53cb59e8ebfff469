"""An address of a Dask scheduler that others have started -> tasks in, their results and failures out."""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask
from distributed import CancelledError, Client, Future, get_worker, wait
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from nfslat.errors import InputError
from nfslat.fleet.run.peers import CLOSE_S, CONNECT_S, Trust, refuse_unshared, remote
from nfslat.fleet.run.pool import (
    FAILURES,
    POLL_S,
    Done,
    Heard,
    Pool,
    SchedulerGone,
    done_here,
    undisturbed,
    version,
    why,
)
from nfslat.fleet.run.store import Store

_FETCH_S = 5.0  # a result, from its worker
_UNDER_WAY = ("pending", "lost")  # lost: with the worker that had done it; it is done once more


def measured(expected: str, function: Callable[..., Any], *arguments: Any) -> Done:
    """`function`'s result; this runs on the worker, which may have come when the others had been asked already."""
    if expected != version():
        raise InputError(f"worker {get_worker().address} has {version()}, others have {expected}; install the same")
    given = [one.value if isinstance(one, Done) else one for one in arguments]
    return done_here(function(*given), get_worker().address)


class Cluster(Pool):
    """A scheduler that is there."""

    def __init__(
        self, client: Client, address: str, *, lost_s: float | None = None, dashboard: str | None = None
    ) -> None:
        """`client` is connected to it."""
        super().__init__(address, lost_s=lost_s, dashboard=dashboard)
        self.client = client
        self._keys: set[Any] = set()
        self._suspects: dict[Any, tuple[Future, Heard] | None] = {}
        self._handlers: dict[Future, Heard] = {}

    def _begin(
        self, heard: Heard | None, function: Callable[..., Any], arguments: tuple[Any, ...], priority: int
    ) -> Future:
        """See ``Pool``; a result that nobody hears of stays with the workers."""
        try:
            future = self.client.submit(measured, version(), function, *arguments, priority=priority, pure=False)
        except Exception:
            if self.client.status != "running":
                raise self._gone() from None
            raise
        self._keys.add(future.key)
        if heard is not None:
            self._handlers[future] = heard
        return future

    def finish(self) -> None:
        """See ``Pool``."""
        seen = time.monotonic()
        with undisturbed() as signals:
            while (self._handlers or self._one_suspect()) and not signals:
                with contextlib.suppress(TimeoutError, CancelledError), self.client.as_current():
                    wait(list(self._handlers), timeout=POLL_S, return_when="FIRST_COMPLETED")
                if self.client.status != "running":
                    raise self._gone()
                settled = [self._settle(one) for one in list(self._handlers) if one.status not in _UNDER_WAY]
                if any(settled) or self._is_at_work():
                    seen = time.monotonic()
                elif time.monotonic() - seen > self.lost_s:
                    raise SchedulerGone(
                        f"--scheduler {self.address}: no worker that takes tasks for {self.lost_s:.0f} seconds; "
                        "start some, and run again with the same --out to go on"
                    )

    def _one_suspect(self) -> bool:
        """Begin one of those that workers died over once more, by itself: what is not to blame is done then."""
        for key, suspect in self._suspects.items():
            if suspect is not None:
                future, heard = suspect
                self._suspects[key] = None
                self.client.retry([future])
                self._handlers[future] = heard
                return True
        return False

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
        heard = self._handlers.pop(future)
        if isinstance(problem, KilledWorker) and future.key not in self._suspects:
            self._suspects[future.key] = future, heard
            return True
        done, failed = heard
        if result is None:
            killed = isinstance(problem, KilledWorker)
            failed(self._died(problem.allowed_failures + 1) if killed else why(problem))
            return True
        self._note(result)
        done(result.value)
        return True

    def refuse_unshared(self, store: Store, files: Sequence[str]) -> None:
        """See ``Pool``."""
        refuse_unshared(self.client, self.address, store, files)

    def close(self) -> None:
        """See ``Pool``."""
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
    address: str,
    trust: Trust = Trust(),  # noqa: B008  (frozen)
    *,
    lost_s: float | None = None,
    dashboard: bool = False,
) -> Iterator[Cluster]:
    """A scheduler, and its workers; without any for `lost_s` it is given up. `dashboard`: its address is asked for.

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
        found = Cluster(
            client, address, lost_s=lost_s, dashboard=(client.dashboard_link or None) if dashboard else None
        )
        try:
            client.subscribe_topic("all", found.event)
            yield found
        finally:
            with undisturbed():
                found.close()
