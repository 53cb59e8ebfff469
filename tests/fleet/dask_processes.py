"""Names of hosts in, each a network namespace on one bridge out; and Dask's processes in them. For root, on Linux."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SECONDS = 20.0


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def why_not() -> str:
    """Why there can be no namespaces here; "" where there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    name = f"nfslat-{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as problem:
        return f"network namespaces cannot be made here ({problem})"
    _ip("netns", "del", name)
    return ""


@dataclass
class Hosts:
    """Each has an address, and sees nothing but the others; there is no way out."""

    mark: str  # of the names of namespaces
    addresses: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def on(self, host: str) -> list[str]:
        """What starts a command on `host`."""
        return ["ip", "netns", "exec", f"{self.mark}-{host}"]

    def start(
        self,
        host: str,
        command: Sequence[str],
        scratch: Path,
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """A process there, which leads a group of its own."""
        log = scratch / f"{host}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*self.on(host), *before, *command],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(scratch), **(env or {})},
            )
        self.started.append(process)
        return process

    def scheduler(self, host: str, scratch: Path, port: int = 8786) -> subprocess.Popen[bytes]:
        """Dask's scheduler on `host`, when it answers."""
        process = self.start(
            host,
            [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", self.addresses[host],
             "--port", str(port), "--no-dashboard", "--no-show"],
            scratch,
        )  # fmt: skip
        self._until(scratch / f"{host}.log", b"Scheduler at:", process)
        return process

    def worker(
        self,
        host: str,
        scheduler: str,
        scratch: Path,
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        wait: bool = True,
    ) -> subprocess.Popen[bytes]:
        """A worker of Dask's on `host` with a nanny."""
        process = self.start(
            host,
            [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://{self.addresses[scheduler]}:8786",
             "--host", self.addresses[host], "--nthreads", "1", "--no-dashboard", "--memory-limit", "2GB",
             "--local-directory", str(scratch), "--death-timeout", "30"],
            scratch,
            env,
            before,
        )  # fmt: skip
        if wait:
            self.registered(host, scratch, process)
        return process

    def registered(self, host: str, scratch: Path, process: subprocess.Popen[bytes]) -> None:
        """Wait until the worker on `host` takes tasks."""
        self._until(scratch / f"{host}.log", b"Registered to:", process)

    @staticmethod
    def _until(log: Path, text: bytes, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _SECONDS
        while text not in log.read_bytes():
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < end, log.read_text(errors="replace")
            time.sleep(0.02)


def kill(process: subprocess.Popen[bytes]) -> None:
    """A process and all that it started, at once, as when a machine loses its power."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def hosts(names: Sequence[str]) -> Iterator[Hosts]:
    """They, and all processes that were started on them, are gone in the end."""
    number = os.getpid()
    mark = f"nfslat-{number}"
    # Names of interfaces have 15 letters; the addresses are seen by nobody else.
    bridge = f"nb{number}"
    found = Hosts(mark, {name: f"10.213.77.{at}" for at, name in enumerate(names, 1)})
    try:
        _ip("netns", "add", f"{mark}-net")
        _ip("-n", f"{mark}-net", "link", "add", bridge, "type", "bridge")
        _ip("-n", f"{mark}-net", "link", "set", bridge, "up")
        for at, name in enumerate(names):
            space = f"{mark}-{name}"
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{at}", "netns", f"{mark}-net")
            _ip("-n", f"{mark}-net", "link", "set", f"p{at}", "master", bridge, "up")
            _ip("-n", space, "addr", "add", f"{found.addresses[name]}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
        yield found
    finally:
        for process in found.started:
            kill(process)
        for name in (*names, "net"):
            subprocess.run(["ip", "netns", "del", f"{mark}-{name}"], check=False, capture_output=True)
