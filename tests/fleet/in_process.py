"""`nfslat fleet` in the process of the tests: its workers are threads.

To start processes, and to import everything in each of them, takes longer than most runs. What processes are there for,
bounds on memory and a death of their own, is tested with processes (test_fleet_failures.py).
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

from fleet_runs import Ran

from nfslat.cli import main as cli
from nfslat.fleet.run import executor


@contextlib.contextmanager
def workers_here(started: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Processes of this machine are threads; `started` is called when there is the first one."""

    def forked(count: int, memory_bytes: int, folder: Path) -> tuple[Executor, list[Any]]:
        started()
        return ThreadPoolExecutor(count), []

    with mock.patch.object(executor, "forked", forked):
        yield


def run_here(
    folder: Path, arguments: Sequence[str | Path], *, started: Callable[[], object] = lambda: None, workers: int = 2
) -> Ran:
    """What `fleet_runs.begin(...).end()` gives, without a process."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.json"
    path.unlink(missing_ok=True)
    asked: list[Any] = ["fleet", *arguments, "--workers", workers, "--json", path]
    with (
        workers_here(started),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        status = cli.main([str(one) for one in asked])
    report = json.loads(path.read_text()) if path.exists() and path.stat().st_size else {}
    return Ran(status, out.getvalue(), err.getvalue(), report)
