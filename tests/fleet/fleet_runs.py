"""Arguments in, `nfslat fleet` as a process of its own out, to be disturbed; and what it left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MARK = "NFSLAT_TEST_RUN"  # in the environment of all processes of a run
_LONGEST_S = 300.0  # it is stuck then, however slow the machine is
_GONE_S = 5.0


@dataclass(frozen=True)
class Ran:
    """What a run came to."""

    status: int
    out: str
    err: str
    report: dict[str, Any]  # empty where there is none

    @property
    def said(self) -> str:
        """Standard error, without the address of the dashboard."""
        return "\n".join(line for line in self.err.splitlines() if "dashboard" not in line)

    def problems(self) -> str:
        """All that it could not do, one in a line."""
        return "\n".join(f"{one['what']}: {one['why']}" for one in self.report.get("problems", ()))


@dataclass
class FleetRun:
    """`nfslat fleet` under way."""

    folder: Path  # its scratch, and its report
    process: subprocess.Popen[str]
    mark: str
    asked: list[str] = field(default_factory=list)

    def children(self) -> list[int]:
        """Processes of the run, but for the first one."""
        return [pid for pid in marked(self.mark) if pid != self.process.pid]

    def until(self, condition: Callable[[], Any], limit_s: float = _LONGEST_S) -> Any:
        """What `condition` gives when it is true; the run must not end before."""
        end = time.monotonic() + limit_s
        while not (found := condition()):
            assert self.process.poll() is None, f"the run ended early: {self.process.communicate()}"
            assert time.monotonic() < end, "it never came to that"
            time.sleep(0.02)
        return found

    def end(self, limit_s: float = _LONGEST_S) -> Ran:
        """Wait for it; nothing of it may be left, neither a process nor a file in its scratch folder."""
        try:
            out, err = self.process.communicate(timeout=limit_s)
        finally:
            left = _gone(self.mark)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert not left, f"processes are left: {left}"
        assert "Traceback" not in err, err
        scratch = self.folder / "scratch"
        assert [str(one.relative_to(scratch)) for one in scratch.rglob("*")] == []
        path = self.folder / "report.json"
        report = json.loads(path.read_text()) if path.exists() and path.stat().st_size else {}
        return Ran(self.process.returncode, out, err, report)


def begin(
    folder: Path,
    arguments: Sequence[str | Path],
    *,
    before: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    workers: int | None = 2,
    command: Sequence[str] = ("-m", "nfslat"),
) -> FleetRun:
    """Start it, as the leader of a group of its own. `before` is what starts it, as ``ip netns exec``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scratch").mkdir(exist_ok=True)
    (folder / "report.json").unlink(missing_ok=True)
    mark = uuid.uuid4().hex
    own = {"TMPDIR": str(folder / "scratch"), _MARK: mark, "PYTHONWARNINGS": "default"}
    count = [] if workers is None else ["--workers", str(workers)]
    asked = [str(one) for one in (*arguments, *count, "--json", folder / "report.json")]
    process = subprocess.Popen(
        [*before, sys.executable, *command, "fleet", *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **own, **(env or {})},
        start_new_session=True,
    )
    return FleetRun(folder, process, mark, asked)


def captures(fleet: Path) -> list[Path]:
    """The arguments for a made fleet."""
    return [fleet / "server", fleet / "clients"]


def figures(report: Mapping[str, Any]) -> dict[str, Any]:
    """All of a report that does not depend on how it came about."""
    text = json.loads(json.dumps(report))
    for name in ("run", "nfslat", "notes", "problems"):
        text.pop(name)
    for one in text["clients"]:
        one["command"] = ""
    return dict(text)


def clients_of(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Clients by name, without the command that was used."""
    return {one["name"]: one for one in figures(report)["clients"]}


def marked(mark: str) -> list[int]:
    """Processes with `mark` in their environment; no zombies, which have none."""
    wanted = f"{_MARK}={mark}".encode()
    return sorted(pid for pid, environment in _environments() if wanted in environment)


def workers_of(run: FleetRun) -> list[int]:
    """Those of its processes that take tasks."""
    return run.children()


def _environments() -> Iterator[tuple[int, bytes]]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            yield int(name), _read(f"/proc/{name}/environ")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _gone(mark: str) -> list[int]:
    end = time.monotonic() + _GONE_S
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


_MEASURED = "state ops missed client_ms server_ms network_ms queue_ms lost_segments sent_again_share slots_held".split()


def measured_of(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each client what its own packets say, whatever the others are like."""
    return {one["name"]: {key: one[key] for key in _MEASURED} for one in report["clients"]}
