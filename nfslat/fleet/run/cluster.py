"""The address of a Dask scheduler that others have started -> its workers.

Whoever can speak to a scheduler of Dask's runs code on it, on its workers, and on its clients: what they send is
unpickled. What security it has is Dask's own (``distributed.comm.tls`` in its configuration); retries are Dask's, too.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from distributed import Client, get_worker
from distributed.comm import parse_address
from distributed.comm.addressing import parse_host_port
from distributed.security import Security

from nfslat.errors import InputError, UsageError
from nfslat.fleet.run.executor import Done, Workers, WorkersGone, done_by, version

_CONNECT_S = 10  # to answer
_START_S = 30  # for a first worker to come
_CLOSE_S = 5
_RETRIES = 2  # of a task whose worker fails it
_LOST_S = 60.0  # without any worker
_ASK_S = 1.0  # how many there are
_AT_ONCE = 2  # tasks a thread of a worker: the next one is there when one is done
_PORT = 8786
_COUNT_BYTES, _MOST_FRAMES = 8, 100
_ENCRYPTED = ("tls://", "wss://")


class Cluster(Workers):
    """The workers of a scheduler."""

    def __init__(self, client: Client, address: str, dashboard: str | None) -> None:
        super().__init__(address, dashboard=dashboard)
        self._client = client
        self._executor = client.get_executor(pure=False, retries=_RETRIES)
        self._asked_s, self._threads = -math.inf, 0
        self._seen_s = time.monotonic()  # a worker, last

    def begin(self, function: Callable[[Any], Any], argument: Any) -> Future[Done]:
        """See ``Workers``."""
        self.check()
        future: Future[Done] = self._executor.submit(_done_there, function, argument)
        return future

    def room(self) -> int:
        """See ``Workers``."""
        return max(_AT_ONCE * self._threads, 1)

    def check(self) -> None:
        """See ``Workers``."""
        now_s = time.monotonic()
        if now_s - self._asked_s > _ASK_S:
            with contextlib.suppress(OSError, CancelledError):  # of a connection that has just ended
                self._threads = sum(map(int, self._client.nthreads().values()))
            self._asked_s = now_s
        if self._threads:
            self._seen_s = now_s
        elif now_s - self._seen_s > _LOST_S:
            raise WorkersGone(
                f"--scheduler {self.address}: no worker for {_LOST_S:.0f} seconds; "
                "start some, and run again with the same --out to go on"
            )
        if self._client.status != "running":
            raise WorkersGone(
                f"--scheduler {self.address}: the scheduler is gone; "
                "start it, and run again with the same --out to go on"
            )

    def refuse_others(self, files: Sequence[str]) -> None:
        """Raises ``UsageError`` where a worker has another nfslat, ``InputError`` where it does not see one of `files`,
        or there is none."""
        # What is in one folder is seen, or not, together.
        some = list({os.path.dirname(path): path for path in reversed(files)}.values())[::-1]
        with contextlib.suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=_START_S)
        answers = self._asked(version)
        if not answers:
            raise InputError(f"--scheduler {self.address}: it has no workers; start some: dask worker {self.address}")
        for whose, theirs in answers.items():
            if isinstance(theirs, Exception):
                raise UsageError(f"{whose} has no nfslat that works ({_first_line(theirs)}); install {version()} there")
            if theirs != version():
                raise UsageError(f"{whose} has {theirs}, this is {version()}; install the same")
        for whose, missing in self._asked(_missing, some).items():
            if missing:
                why = _first_line(missing) if isinstance(missing, Exception) else missing
                raise InputError(
                    f"{whose}: {why}; all workers need to see the captures under the same names as this machine "
                    "(a shared mount, or URLs)"
                )

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What `function` gives on each worker, or the exception it ends with."""
        answers = self._client.run(function, *arguments, on_error="return")
        return {f"--scheduler {self.address}: worker {worker}": one for worker, one in sorted(answers.items())}


@contextlib.contextmanager
def connect(address: str, security: Security, *, dashboard: bool = False) -> Iterator[Cluster]:
    """A scheduler, and its workers. `dashboard`: its address is asked for. Raises ``InputError`` where none answers,
    ``UsageError`` where it is without TLS and `security` requires that."""
    if security.require_encryption and not address.startswith(_ENCRYPTED):
        raise UsageError(
            f"--scheduler {address}: without TLS whoever reaches that port runs code here and there; use tls://, "
            "or say --insecure where nobody else can reach it"
        )
    if address.startswith(_ENCRYPTED) and not security.tls_ca_file:
        raise UsageError(
            f"--scheduler {address}: give --tls-ca-file, --tls-cert and --tls-key, or name them in Dask's "
            "configuration (distributed.comm.tls)"
        )
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        # What goes wrong is ours to say, in one line.
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")  # of large arguments: no news for who reads captures
        try:
            _refuse_strangers(address)
            client = Client(address, timeout=_CONNECT_S, set_as_default=False, security=security)
        except (OSError, ValueError, ImportError, TypeError) as problem:
            raise InputError(
                f"--scheduler {address}: no scheduler answers ({_first_line(problem)}); is it running?"
            ) from None
        try:
            yield Cluster(client, address, (client.dashboard_link or None) if dashboard else None)
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=_CLOSE_S)


def security_of(ca_file: str | None, cert: str | None, key: str | None, *, insecure: bool) -> Security:
    """Dask's options by the same names; what is not named comes from its configuration."""
    named = {"tls_ca_file": ca_file, "tls_client_cert": cert, "tls_client_key": key or cert}
    return Security(require_encryption=not insecure, **{name: at for name, at in named.items() if at is not None})


def _refuse_strangers(address: str) -> None:
    """Raises ``OSError`` where what listens there does not begin as Dask does: its client would wait for long."""
    scheme, place = parse_address(address)
    if scheme != "tcp":
        return
    with socket.create_connection(parse_host_port(place, _PORT), timeout=_CONNECT_S) as stream:
        begin = b""
        with contextlib.suppress(TimeoutError):
            while len(begin) < _COUNT_BYTES and (some := stream.recv(_COUNT_BYTES - len(begin))):
                begin += some
    # Both ends begin with the number of frames of what they say of themselves.
    if len(begin) < _COUNT_BYTES or int.from_bytes(begin, "little") > _MOST_FRAMES:
        raise OSError("what listens there is no scheduler of Dask's")


def _done_there(function: Callable[[Any], Any], argument: Any) -> Done:
    return done_by(get_worker().address, function, argument)


def _missing(files: Sequence[str]) -> str:
    """What a worker lacks; it runs there."""
    missing = next((path for path in files if not os.access(path, os.R_OK)), None)
    return "" if missing is None else f"{os.uname().nodename} cannot read {missing}"


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
