"""Address of a scheduler that others have started -> a connection to it, if its workers can do what is asked.

They need the same nfslat, and to see captures and --out under the names that these have here. Whoever can speak to a
scheduler of Dask's runs code on it, on its workers, and on its clients: what they send is unpickled.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client
from distributed.comm import CommClosedError, parse_address
from distributed.comm.addressing import parse_host_port
from distributed.security import Security

from nfslat.errors import InputError, NfslatError, UsageError
from nfslat.fleet.run.pool import version
from nfslat.fleet.run.store import Store

CONNECT_S = 10  # to answer
CLOSE_S = 5
_PORT = 8786
_ENCRYPTED = ("tls", "wss")
_SCHEMES = ("tcp", "ws", "ucx", *_ENCRYPTED)
_COUNT_BYTES, _MOST_FRAMES = 8, 100


@dataclass(frozen=True)
class Trust:
    """How a scheduler and its clients know each other (files as Dask's --tls-ca-file, --tls-cert and --tls-key)."""

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False  # connections without TLS, too

    def security(self) -> Security:
        """What is not given comes from Dask's configuration (distributed.comm.tls)."""
        given = {"tls_ca_file": self.ca_file, "tls_client_cert": self.cert, "tls_client_key": self.key or self.cert}
        return Security(require_encryption=not self.insecure, **{k: v for k, v in given.items() if v is not None})


def remote(address: str, trust: Trust) -> Client:
    """A connection. Raises ``InputError`` where no scheduler with workers is, ``UsageError`` where they do not fit."""
    try:
        _refuse_strangers(address, trust)
        client = Client(address, timeout=CONNECT_S, set_as_default=False, security=trust.security())
    except (OSError, ValueError, ImportError) as problem:
        raise InputError(
            f"--scheduler {address}: no scheduler answers ({_first_line(problem)}); is it running?"
        ) from None
    try:
        _refuse_others(client, address)
    except BaseException:
        with contextlib.suppress(Exception):
            client.close(timeout=CLOSE_S)
        raise
    return client


def _refuse_strangers(address: str, trust: Trust) -> None:
    """Raises ``OSError`` where what listens there does not begin as Dask does: its client would wait for ever."""
    scheme, place = parse_address(address)
    if scheme not in _SCHEMES or not place:
        raise UsageError(f"--scheduler {address}: give it as Dask's scheduler says it, for example tls://head:{_PORT}")
    if scheme not in _ENCRYPTED and not trust.insecure:
        raise UsageError(
            f"--scheduler {address}: without TLS whoever reaches that port runs code here and there; use tls://, "
            "or say --insecure where nobody else can reach it"
        )
    configured = dask.config.get("distributed.comm.tls.ca-file", None)
    if scheme in _ENCRYPTED and not (trust.ca_file or configured):
        raise UsageError(
            f"--scheduler {address}: give --tls-ca-file, --tls-cert and --tls-key, or name them in Dask's "
            "configuration (distributed.comm.tls)"
        )
    if scheme != "tcp":
        return
    with socket.create_connection(parse_host_port(place, _PORT), timeout=CONNECT_S) as stream:
        said = b""
        with contextlib.suppress(TimeoutError):
            while len(said) < _COUNT_BYTES and (some := stream.recv(_COUNT_BYTES - len(said))):
                said += some
    # Both ends begin with the number of frames of what they say of themselves.
    if len(said) < _COUNT_BYTES or int.from_bytes(said, "little") > _MOST_FRAMES:
        raise OSError("what listens there is no scheduler of Dask's")


def _refuse_others(client: Client, address: str) -> None:
    """Raises where there is no worker, or one that has another nfslat than this one."""
    with contextlib.suppress(TimeoutError):
        client.wait_for_workers(1, timeout=CONNECT_S)
    answers = _asked(client, version)
    if not answers:
        raise InputError(f"--scheduler {address}: it has no workers; start some with: dask worker {address}")
    for worker, answer in answers.items():
        if isinstance(answer, Exception):
            raise UsageError(
                f"--scheduler {address}: worker {worker} has no nfslat that works ({_first_line(answer)}); install "
                f"{version()} there, the same for all"
            )
        if answer != version():
            raise UsageError(
                f"--scheduler {address}: worker {worker} has {answer}, this is {version()}; install the same"
            )


def refuse_unshared(client: Client, address: str, store: Store, files: Sequence[str]) -> None:
    """Raises ``InputError`` where a worker does not see one of `files`, or not the store, or may not write there."""
    # What is in one folder is seen, or not, together.
    told = list({os.path.dirname(one): one for one in reversed(files)}.values())[::-1]
    name = f"seen-{uuid.uuid4().hex}"
    try:
        store.write_json(name, address)
        for worker, answer in _asked(client, _unseen, store, name, told).items():
            if answer is not None:
                why = _first_line(answer) if isinstance(answer, Exception) else answer
                raise InputError(
                    f"--scheduler {address}: worker {worker}: {why}; all workers need to see the captures and --out "
                    "under the same names as this machine (a shared mount, or URLs)"
                )
    finally:
        store.remove([name])


def _unseen(store: Store, name: str, files: Sequence[str]) -> str | None:
    """What this worker lacks; it runs there."""
    host = os.uname().nodename
    missing = next((one for one in files if not os.access(one, os.R_OK)), None)
    if missing is not None:
        return f"{host} cannot read {missing}"
    if store.read_json(name) is None:
        return f"{host} does not see {store.url} (or another folder of that name)"
    try:
        store.check()
    except NfslatError as problem:
        return f"{host} cannot write there: {problem}"
    return None


def _asked(client: Client, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """What `function` gives on each worker, or the exception it ends with; without those that are lost meanwhile."""
    try:
        answers = client.run(function, *arguments, on_error="return")
    except OSError:
        return {}
    return {worker: one for worker, one in sorted(answers.items()) if not isinstance(one, CommClosedError)}


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
