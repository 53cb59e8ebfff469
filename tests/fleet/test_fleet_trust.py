"""Who else on this machine gets at a run of `nfslat fleet`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from captures import needs_native
from distributed import Client, LocalCluster
from distributed.security import Security
from in_process import run_here

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.fleet.run.local import local_cluster
from nfslat.fleet.run.store import Store

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
PAIR = [SAMPLE / f"{side}.pcap.gz" for side in ("server", "client")]

pytestmark = needs_native
# Without TLS any user of the machine could have Dask run this.
_ATTACK = """
import pathlib, sys
from distributed import Client
from distributed.security import Security
trust = Security.temporary() if sys.argv[1].startswith("tls") else None
client = Client(sys.argv[1], security=trust, timeout=2)
for run in (client.run_on_scheduler, client.run):
    run(lambda: pathlib.Path(sys.argv[2]).write_text("owned"))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One of a run's own, of two processes."""
    with local_cluster(2, "1GB", tmp_path_factory.mktemp("dask")) as (made, _):
        end = time.monotonic() + 60
        while len(made.scheduler.workers) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        yield made


def _listening() -> set[tuple[str, int]]:
    """Where this process and those that it has started take connections."""
    here = psutil.Process()
    found = set()
    for process in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            found |= {one.laddr for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    return {(one.ip, one.port) for one in found}


def test_only_this_machine_gets_at_it(cluster: LocalCluster) -> None:
    """Nothing listens where another host could come."""
    assert cluster.scheduler_address.startswith("tls://127.0.0.1:")
    found = _listening()
    assert len(found) > 2
    assert {host for host, _ in found} == {"127.0.0.1"}


def test_what_listens_for_browsers_has_nothing(cluster: LocalCluster) -> None:
    """No port shows names of files or of hosts, or takes orders, over HTTP."""
    answers = set()
    for host, port in sorted(_listening()):
        for path in (
            "status",
            "info/main/workers.html",
            "metrics",
            "json/counts.json",
            "api/v1/retire_workers",
            "health",
        ):
            try:
                urllib.request.urlopen(f"http://{host}:{port}/{path}", timeout=5).close()
                answers.add(200)
            except urllib.error.HTTPError as refused:
                answers.add(refused.code)
            except OSError:  # TLS does not speak HTTP
                pass
    assert answers == {404}


def test_no_other_user_runs_code(cluster: LocalCluster, tmp_path: Path) -> None:
    """Another user who knows its ports, with no certificate or one of their own, has nothing run by it."""
    tmp_path.chmod(0o777)
    owned = tmp_path / "owned"
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    environment = {**os.environ, "HOME": "/", "DASK_CONFIG": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    able = [*other, sys.executable, "-c", "import distributed"]
    if subprocess.run(able, env=environment, capture_output=True, check=False, cwd="/").returncode:
        pytest.skip("another user cannot read this Python's packages (the checkout of one whose home is private)")
    worker, *_ = cluster.workers.values()
    known = [cluster.scheduler_address, worker.worker_address, worker.address]
    targets = [*known, *(one.replace("tls://", "tcp://") for one in known)]

    def attack(target: str) -> str:
        command = [*other, sys.executable, "-c", _ATTACK, target, str(owned)]
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, cwd="/", timeout=100
        )
        return f"{ended.returncode} {ended.stderr.splitlines()[-1]}"

    with ThreadPoolExecutor() as pool:
        said = list(pool.map(attack, targets))
    assert [one for one in said if not one.startswith(("1 distributed.comm.core.", "1 OSError: "))] == []
    assert not owned.exists()


def test_who_has_the_certificate_is_let_in(cluster: LocalCluster) -> None:
    """The look-alike: the same question of a client that has it is answered."""
    with Client(cluster.scheduler_address, security=cluster.security, timeout=10, set_as_default=False) as client:
        assert client.run_on_scheduler(os.getpid) == os.getpid()
    with pytest.raises(OSError, match=r"."):
        Client(cluster.scheduler_address, security=Security.temporary(), timeout=2, set_as_default=False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, made under the umask that lets everybody read everything."""
    folder = tmp_path_factory.mktemp("kept")
    before = os.umask(0)
    try:
        assert run_here(folder, [*PAIR, "--out", folder / "a" / "out"]).status == 0
    finally:
        os.umask(before)
    return folder / "a" / "out"


def test_what_is_kept_is_for_its_owner(kept: Path) -> None:
    """Decoded captures and reports name hosts and files: nobody else reads them, nor lists the folders made here."""
    modes = {oct(path.stat().st_mode & 0o777) for path in kept.rglob("*") if path.is_file()}
    folders = {oct(path.stat().st_mode & 0o777) for path in (kept.parent, kept, *kept.rglob("*")) if path.is_dir()}
    assert (modes, folders) == ({"0o600"}, {"0o700"})


@pytest.mark.parametrize(
    "way", ["../../junk.parquet", "/etc/passwd", "shards/../../../x", "shards//x", "link/junk", "."]
)
def test_a_name_that_leads_out_of_the_folder(kept: Path, tmp_path: Path, way: str) -> None:
    """Whoever gave us a run's folder may have changed its files: nothing outside is read, written, or taken away."""
    out = tmp_path / "a" / "out"
    shutil.copytree(kept, out)
    precious = tmp_path / "index.json"
    precious.write_text("precious")
    (tmp_path / "junk").write_text("precious")
    (out / "link").symlink_to(tmp_path)
    store = Store(str(out))
    with pytest.raises(InputError, match="leads out of it"):
        store.read_json(way)
    with pytest.raises(InputError, match="leads out of it"):
        store.write_json(way, 1)
    store.remove([way, "../../index.json", "link/index.json"])

    run = json.loads((out / "run.json").read_text())
    (client,) = run["requests"]
    run["requests"][client]["server"]["shards"] = [way]
    (out / "run.json").write_text(json.dumps(run))
    shown = cli.main(["fleet", "--out", str(out), "--show", client])
    assert shown == 3
    assert (precious.read_text(), (tmp_path / "junk").read_text()) == ("precious", "precious")
