"""`nfslat fleet` in the process of the tests: Dask's scheduler and workers, as ever, but as threads of this process.

To start processes, and to import everything in each of them, takes longer than most runs. What processes are there for,
bounds on memory and a death of their own, is tested with processes (test_fleet_failures.py).
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from distributed import LocalCluster
from fleet_runs import Ran

from nfslat.cli import main as cli


@contextlib.contextmanager
def workers_here(started: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Clusters of this machine are threads; `started` is called when their workers are there."""

    @contextlib.contextmanager
    def threads(
        workers: int | None, memory: str | None, scratch: Path, *, dashboard: bool = False
    ) -> Iterator[tuple[LocalCluster, None]]:
        with LocalCluster(
            n_workers=workers or 1,
            threads_per_worker=1,
            processes=False,
            memory_limit=0,
            dashboard_address=None,
            local_directory=str(scratch),
            silence_logs=logging.CRITICAL,
        ) as cluster:
            started()
            yield cluster, None

    with mock.patch("nfslat.fleet.run.cluster.local_cluster", threads):
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
