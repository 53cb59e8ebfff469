"""Number of processes, and memory of each -> a Dask cluster of this run's own, on this machine, that ends with it.

A terminal sends Ctrl-C to all processes at once. The workers do not hear it: nfslat does, and tells them to stop.
Dask runs what it is sent, so that a port without authentication would let every user of the machine run what they like
as whoever runs this: its processes speak TLS with a certificate of this run's own, which exists in their memory only.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any

import dask
from distributed import LocalCluster
from distributed.comm import CommClosedError
from distributed.deploy.spec import close_clusters
from distributed.security import Security
from distributed.utils import LoopRunner

from nfslat.errors import InputError, UsageError

_WORKER_BYTES = 320_000_000  # with all that it imports, and a small capture
_SHARE = 0.9  # of this machine's memory
_SETTINGS = {
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
    # A worker has one task: of those that it takes with it when it dies only one can be to blame.
    "distributed.scheduler.worker-saturation": 1.0,
    # One task at a time: to wait for more room would be to wait for ever. The nanny ends what takes too much.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
}
# Dask listens for browsers in any case; they find nothing there.
_NOTHING_TO_SEE: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
# Those that a terminal sends to all processes in front of it.
_OF_TERMINALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_LATER = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


def _close_quietly() -> None:
    """What Dask does at exit with clusters that were not closed, as after a signal, without a traceback."""
    with contextlib.suppress(Exception):
        close_clusters()


atexit.unregister(close_clusters)
atexit.register(_close_quietly)


@contextlib.contextmanager
def local_cluster(
    workers: int | None, memory: str | None, scratch: Path, *, dashboard: bool = False
) -> Iterator[tuple[LocalCluster, int]]:
    """(the cluster, bytes that each worker may use). What workers leave in `scratch` when they are killed goes with it.

    Raises ``UsageError`` for a bound that is no size or too small, ``InputError`` where no process can be started.
    """
    count, bound = _sizes(workers, memory)
    environment = dict(os.environ)  # Dask leaves in it what its workers are started with
    own = scratch / "scratch"
    stack = contextlib.ExitStack()
    try:
        own.mkdir(parents=True, exist_ok=True)
        settings = {**_SETTINGS, **({} if dashboard else _NOTHING_TO_SEE), "temporary-directory": str(scratch)}
        with dask.config.set(settings), undisturbed():
            loop = stack.enter_context(_deaf_loop())
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                memory_limit=bound,
                protocol="tls://",
                security=Security.temporary(),
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": dashboard},
                local_directory=str(scratch),
                silence_logs=logging.CRITICAL,
                loop=loop,
                env={"TMPDIR": str(own)},
                preload="nfslat.fleet.run.quiet_worker",
            )
    except (OSError, RuntimeError, TimeoutError) as problem:
        stack.close()
        why = (problem.strerror if isinstance(problem, OSError) else None) or str(problem).partition("\n")[0]
        raise InputError(
            f"workers cannot be started ({why}); is there room for them? TMPDIR names another folder", about=scratch
        ) from problem
    try:
        yield cluster, bound
    finally:
        with undisturbed():
            # OpenSSL may tell of a connection that is gone on another one (Python 3.13): the workers end all the same.
            with contextlib.suppress(CommClosedError):
                cluster.close()
            stack.close()
            os.environ.clear()
            os.environ.update(environment)


def _sizes(workers: int | None, memory: str | None) -> tuple[int, int]:
    """Processes, and the bound of each."""
    from dask.utils import parse_bytes  # noqa: PLC0415
    from distributed.system import MEMORY_LIMIT  # noqa: PLC0415

    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    room = int(MEMORY_LIMIT * _SHARE)
    try:
        bound = None if memory is None else int(parse_bytes(memory))
    except ValueError as problem:
        raise UsageError(f"--worker-memory {memory}: give a size, for example 4GB") from problem
    if bound is not None and bound < _WORKER_BYTES:
        raise UsageError(
            f"--worker-memory {memory}: a worker takes {_WORKER_BYTES // 1_000_000} MB before it reads much; give more"
        )
    count = workers or max(min(cpus, room // (bound or _WORKER_BYTES)), 1)
    return count, bound or max(room // count, _WORKER_BYTES)


@contextlib.contextmanager
def _deaf_loop() -> Iterator[Any]:
    """A loop in a thread that leaves the terminal's signals to others; processes that it starts inherit that."""
    resource_tracker.ensure_running()  # where the thread did that, its signals would be let in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
    try:
        runner = LoopRunner()
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


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
