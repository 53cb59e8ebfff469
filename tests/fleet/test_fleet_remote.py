"""`nfslat fleet` with Dask's processes on hosts of their own, some of which die: for root on Linux, else skipped."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import dask_processes
import pytest
from dask_processes import Hosts, kill
from distributed import LocalCluster
from distributed.security import Security
from fleet_made.fleets import small
from fleet_runs import FleetRun, Ran, begin, captures, figures
from in_process import run_here

import nfslat
from nfslat.cli import main as cli
from nfslat.errors import InputError, UsageError
from nfslat.fleet.run.cluster import connect, security_of

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
# As the command, which gives up after less time without workers.
_IMPATIENT = (
    "-c",
    "import sys; from nfslat.fleet.run import cluster; cluster._LOST_S = 2; "
    "from nfslat.cli.main import main; sys.exit(main())",
)


@pytest.fixture(scope="module")
def network() -> Iterator[Hosts]:
    """One for the scheduler, three for workers, and one for nfslat."""
    if why := dask_processes.why_not():
        pytest.skip(why)
    with dask_processes.hosts(["head", "one", "two", "three", "user"]) as made:
        yield made


@pytest.fixture
def hosts(network: Hosts) -> Iterator[Hosts]:
    """They, without any process of another test."""
    yield network
    for process in network.started:
        kill(process)
    network.started.clear()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of twelve clients, one damaged in the middle and one cut short, and the server's in three files."""
    folder = tmp_path_factory.mktemp("fleet")
    small(folder, files=3)
    for number, name in ((1, "client.pcap1"), (4, "client.pcap")):
        path = folder / "clients" / f"c{number:03}" / name
        content = path.read_bytes()
        half = len(content) // 2
        path.write_bytes(content[:half] + (b"\xff" * 4000 + content[half + 4000 :] if number == 1 else b""))
    return folder


@pytest.fixture(scope="module")
def undisturbed(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What a run on this machine says of them."""
    folder = tmp_path_factory.mktemp("undisturbed")
    ran = run_here(folder, [*captures(fleet), "--out", folder / "out"])
    assert ran.status == 4
    damaged = {"/".join(Path(one["what"]).parts[-2:]) for one in ran.report["problems"]}
    assert damaged == {"c001/client.pcap1", "c004/client.pcap"}
    return ran


def _begin(hosts: Hosts, fleet: Path, folder: Path, command: tuple[str, ...] = ("-m", "nfslat")) -> FleetRun:
    asked: list[str | Path] = [
        *captures(fleet),
        "--scheduler",
        f"tcp://{hosts.addresses['head']}:8786",
        "--insecure",
        "--out",
        folder / "out",
    ]
    return begin(folder, asked, before=hosts.on("user"), workers=None, command=command)


def _kept(run: FleetRun, count: int) -> None:
    run.until(lambda: len(list((run.folder / "out").glob("finished/*"))) >= count)


@pytest.mark.long
def test_hosts_that_die(hosts: Hosts, fleet: Path, undisturbed: Ran, tmp_path: Path) -> None:
    """A worker dies, the scheduler, all workers: the next run goes on, to the report of one that nothing disturbed."""
    dask = tmp_path / "dask"
    dask.mkdir()
    head = hosts.scheduler("head", dask)
    workers = {name: hosts.worker(name, "head", dask, wait=False) for name in ("one", "two", "three")}
    for name, process in workers.items():
        hosts.registered(name, dask, process)

    run = _begin(hosts, fleet, tmp_path / "first")
    _kept(run, 2)
    kill(workers["one"])
    ran = run.end()
    assert ran.status == 4  # for the files
    assert figures(ran.report) == figures(undisturbed.report)
    assert ran.problems().count("is damaged, or was not copied to its end") == 2

    run = _begin(hosts, fleet, tmp_path / "second")
    _kept(run, 3)
    kill(head)
    ran = run.end()
    assert ran.status in (3, 4)
    assert "the scheduler is gone; start it, and run again with the same --out to go on" in ran.said + ran.problems()
    for name in ("two", "three"):
        kill(workers[name])
        (dask / f"{name}.log").unlink()

    (dask / "head.log").unlink()
    hosts.scheduler("head", dask)
    worker = hosts.worker("two", "head", dask)
    again = _begin(hosts, fleet, tmp_path / "second").end()
    assert again.status == 4
    assert again.report["run"]["tasks"]["cached"] >= 3
    assert figures(again.report) == figures(undisturbed.report)

    run = _begin(hosts, fleet, tmp_path / "third", _IMPATIENT)
    _kept(run, 1)
    kill(worker)
    ran = run.end()
    assert ran.status in (3, 4)
    assert "no worker for 2 seconds" in ran.said + ran.problems()


def _another_nfslat(folder: Path) -> dict[str, str]:
    """The environment of a worker that has one."""
    other = folder / "other" / "nfslat"
    shutil.copytree(Path(nfslat.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "__init__.py").write_text((other / "__init__.py").read_text().replace(nfslat.__version__, "0.0.9"))
    return {"PYTHONPATH": str(other.parent), "PYTHONSAFEPATH": "1"}


@contextlib.contextmanager
def _stranger(folder: Path, hidden: Path) -> Iterator[str]:
    """The address of a scheduler in this process, whose worker has another nfslat, and does not see `hidden`."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard", "--nthreads", "1"]
    command += ["--death-timeout", "60", "--local-directory", str(folder)]
    hide = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs nfslat-test {hidden} && exec "$@"', "sh"]
    with (
        LocalCluster(
            n_workers=0,
            processes=False,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [*hide, *command, cluster.scheduler_address],
            env=os.environ | _another_nfslat(folder),
            stdout=log,
            stderr=log,
        ) as worker,
    ):
        try:
            yield cluster.scheduler_address
        finally:
            worker.kill()


def test_a_worker_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Another nfslat, or another view of the disks: refused at once, with the worker and what it lacks."""
    if why := dask_processes.why_not():
        pytest.skip(why)
    captures = tmp_path / "captures"
    shutil.copytree(SAMPLE, captures)
    with _stranger(tmp_path, captures) as address:
        command = ["fleet", *(str(captures / f"{side}.pcap.gz") for side in ("server", "client"))]
        command += ["--scheduler", address, "--insecure", "--out", str(tmp_path / "out")]
        assert cli.main(command) == 2
        said = capsys.readouterr().err
        assert "worker tcp://127.0.0.1:" in said
        assert f"has nfslat 0.0.9, native 0.1.0, this is nfslat {nfslat.__version__}" in said

        monkeypatch.setattr("nfslat.fleet.run.cluster.version", lambda: "the same")
        assert cli.main(command) == 3
        said = capsys.readouterr().err
        assert f"{os.uname().nodename} cannot read {captures}/server.pcap.gz; all workers need to see" in said


@pytest.mark.long
def test_workers_that_do_not_fit(hosts: Hosts, fleet: Path, tmp_path: Path) -> None:
    """Another nfslat, none, or another view of the disks: refused at once, with the worker and what it lacks."""
    hosts.scheduler("head", tmp_path)
    worker = hosts.worker("one", "head", tmp_path, env=_another_nfslat(tmp_path))
    ran = _begin(hosts, fleet, tmp_path / "run").end()
    kill(worker)
    assert ran.status == 2
    assert f"worker tcp://{hosts.addresses['one']}:" in ran.said
    assert f"has nfslat 0.0.9, native 0.1.0, this is nfslat {nfslat.__version__}" in ran.said

    hidden = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs nfslat-test {fleet} && exec "$@"', "sh"]
    worker = hosts.worker("two", "head", tmp_path, before=hidden)
    ran = _begin(hosts, fleet, tmp_path / "run").end()
    assert ran.status == 3
    assert f"{os.uname().nodename} cannot read {fleet}/server/server.pcap; all workers need to see" in ran.said


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.6\r\n", b""])
def test_what_listens_is_no_scheduler(said: bytes) -> None:
    """Another service on that port is told from a scheduler, whose client would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            stream, _ = server.accept()
            stream.sendall(said)
            stream.close()

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=f"--scheduler {address}: no scheduler answers .*no scheduler of Dask's"),
            connect(address, security_of(None, None, None, insecure=True)),
        ):
            pass
        thread.join()


@pytest.mark.parametrize(
    "address", ["http://head:8786", "", "tcp://", "inproc://1", "tls://head:8786", "tcp://head:8786", "ws://head:8786"]
)
def test_addresses_that_are_none(address: str) -> None:
    """What is no address of a scheduler, needs certificates that there are not, or has no TLS, is a mistake."""
    with (
        pytest.raises(UsageError, match=f"--scheduler {address}: "),
        connect(address, security_of(None, None, None, insecure=False)),
    ):
        pass


def test_a_scheduler_with_tls(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of --tls-* let nfslat in, and those that another authority has signed do not. Where the scheduler's
    dashboard is, is said where that is asked for, and there alone."""
    monkeypatch.setattr("distributed.Client.dashboard_link", "http://head:8787/status")
    ours, others = Security.temporary(), Security.temporary()
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tls://",
        security=ours,
        host="127.0.0.1",
        dashboard_address=None,
        local_directory=str(tmp_path),
        silence_logs=logging.CRITICAL,
    ) as cluster:

        def status(whose: Security, name: str, *more: str) -> int:
            (tmp_path / name).mkdir(exist_ok=True)
            files = {one: tmp_path / name / one for one in ("tls_ca_file", "tls_client_cert", "tls_client_key")}
            for one, path in files.items():
                path.write_text(getattr(whose, one))
            authority, cert, key = files.values()
            command = ["fleet", *(str(SAMPLE / f"{side}.pcap.gz") for side in ("server", "client")), "-q"]
            command += ["--scheduler", cluster.scheduler_address, "--out", str(tmp_path / name / "out")]
            command += ["--tls-ca-file", str(authority), "--tls-cert", str(cert), "--tls-key", str(key)]
            return cli.main([*command, *more])

        assert status(ours, "ours") == 0
        out, err = capsys.readouterr()
        assert "nfslat fleet" in out
        assert "8787" not in out + err
        assert max(len(line) for line in out.splitlines() if line.strip() and set(line) <= set("- ")) <= 80
        assert status(ours, "ours", "--dashboard") == 0
        out, err = capsys.readouterr()
        assert "http://head:8787/status" in out
        assert "http://head:8787/status" in err
        assert status(others, "others") == 3
        assert f"--scheduler {cluster.scheduler_address}: no scheduler answers" in capsys.readouterr().err
