"""A kernel and a place in the lab's network -> a User-Mode-Linux guest that runs commands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_PORT = 900  # agent.py
_BOOT_S = 120.0
_PROBES = 30


class LabError(Exception):
    """What went wrong in the lab, in one line."""


@dataclass(frozen=True)
class Kernel:
    """A User-Mode-Linux kernel, and the library that it has to be started with on this processor, if any."""

    path: Path
    preload: Path | None


@dataclass(frozen=True)
class Output:
    """What a command in a guest printed. ``status`` is None if it took too long and was killed."""

    status: int | None
    out: str
    err: str


@dataclass(frozen=True)
class Clock:
    """A guest's clock less the host's, in s, and how wrong that can be: half the quickest round trip."""

    offset_s: float
    uncertainty_s: float
    host_time_s: float


class Guest:
    """One guest: ``number`` is in its addresses (10.77.0.N, fd77::N) and its taps (net1, ctl1)."""

    def __init__(self, name: str, number: int, kernel: Kernel, folder: Path, *, disk: Path | None = None) -> None:
        """Starts the guest; ``wait`` for it before anything else. ``folder`` is its /lab, with its console's text."""
        self.name, self.number, self.folder = name, number, folder
        self.address, self.address6 = f"10.77.0.{number}", f"fd77::{number}"
        folder.mkdir(parents=True, exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": "/dev/shm"}  # noqa: S108 - a tmpfs
        if kernel.preload:
            environment["LD_PRELOAD"] = str(kernel.preload)
        self._console = folder / "console.txt"
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(
                [str(kernel.path), *self._arguments(disk)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def _arguments(self, disk: Path | None) -> list[str]:
        number = self.number
        card = "vec{0}:transport=tap,ifname={1}{2},mac=02:00:0a:{3}:00:{2:02x},depth=64,gro=1"
        return [
            "mem=640M",
            f"umid={self.name}-{os.getpid()}",
            f"uml_dir={self.folder}/",
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={HERE}/guest-init"),
            *("con=null", "con0=null,fd:1", "ssl=null", "panic=1", "quiet"),
            card.format(0, "net", number, "4d"),
            card.format(1, "ctl", number, "4e"),
            # A copy-on-write file, so that the image stays as it was made.
            *([f"ubd0={self.folder}/disk.cow,{disk}"] if disk else []),
            *(f"LAB_ID={number}", f"LAB_NAME={self.name}", f"LAB_SHARE={self.folder}", f"LAB_AGENT={HERE}/agent.py"),
        ]

    def wait(self) -> None:
        """Until the guest's agent answers."""
        end = time.monotonic() + _BOOT_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with self._connected(1):
                    return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise LabError(f"the guest {self.name} did not start: see {self._console}")

    @contextmanager
    def _connected(self, limit_s: float) -> Iterator[Callable[..., dict[str, Any]]]:
        """A connection of its own to the agent, so that several threads may ask; what asks over it."""
        with socket.create_connection((f"10.78.{self.number}.2", _PORT), limit_s) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            lines = connection.makefile("rwb")

            def ask(**request: Any) -> dict[str, Any]:
                lines.write(json.dumps(request).encode() + b"\n")
                lines.flush()
                answer: dict[str, Any] = json.loads(lines.readline() or b'{"error": "the guest is gone"}')
                if "error" in answer:
                    raise LabError(f"guest {self.name}: {answer['error']}; see {self._console}")
                return answer

            yield ask

    def _ask(self, limit_s: float, **request: Any) -> dict[str, Any]:
        try:
            # Beyond the agent's own limit, for a guest that hangs or is gone.
            with self._connected(limit_s + 30) as ask:
                return ask(**request)
        except OSError as error:
            raise LabError(f"guest {self.name}: {error}; see {self._console}") from error

    def run(self, script: str, *, timeout_s: float = 60, check: bool = True) -> Output:
        """Runs a script of sh, up to its first command that fails, and waits for it.

        One that fails is a ``LabError``, unless ``check`` is False.
        """
        output = Output(**self._ask(timeout_s, do="run", script=f"set -e\n{script}", timeout_s=timeout_s))
        if check and output.status != 0:
            said = " ".join((output.err.strip() or output.out.strip()).splitlines()[-2:])
            how = "took too long" if output.status is None else f"ended with status {output.status}"
            raise LabError(f"guest {self.name}: {script.strip()!r} {how}: {said}")
        return output

    def start(self, script: str) -> int:
        """Starts a script of sh, to be ended by ``finish``; its number."""
        return int(self._ask(10, do="start", script=script)["pid"])

    def finish(self, number: int, *, ended_by: signal.Signals | None = None, timeout_s: float = 60) -> Output:
        """Waits for what was started, after a signal to it if one is given."""
        return Output(**self._ask(timeout_s, do="finish", pid=number, signal=ended_by, timeout_s=timeout_s))

    def read(self, path: str) -> str:
        """The text of a file; "" where there is none."""
        return self.run(f"cat {path} 2>/dev/null || :").out

    def clock(self) -> Clock:
        """What the guest's clock says against the host's: the quickest of some questions, as NTP does it."""
        best: tuple[int, int, int] | None = None
        with self._connected(30) as ask:
            for _ in range(_PROBES):
                before = time.time_ns()
                there = int(ask(do="clock")["ns"])
                after = time.time_ns()
                if best is None or after - before < best[0]:
                    best = (after - before, there - (before + after) // 2, before)
        assert best is not None  # noqa: S101 - for the type checker
        return Clock(best[1] / 1e9, best[0] / 2e9, best[2] / 1e9)

    def processor_ns(self) -> tuple[int, int]:
        """For how long the guest's kernel ran on a processor of this machine, and waited for one, since it started."""
        ran, waited, *_ = Path(f"/proc/{self._process.pid}/schedstat").read_text().split()
        return int(ran), int(waited)

    def pause(self, seconds: float) -> None:
        """Stops the whole guest for a while: a host that is suspended, or whose hypervisor runs something else."""
        # The guest's kernel alone: it runs its processes by ptrace, and would take a signal to them for one of its own.
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the guest at once; nothing in it is worth an orderly end."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
