"""Who else on this machine gets at a run of `nfslat fleet`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

import psutil
import pytest
from captures import needs_native
from in_process import run_here

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.fleet.run import local
from nfslat.fleet.run.kept import keep
from nfslat.fleet.run.store import Store

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
PAIR = [SAMPLE / f"{side}.pcap.gz" for side in ("server", "client")]

pytestmark = needs_native


def test_nothing_listens(tmp_path: Path) -> None:
    """A run here has no port that another user, or another host, could come to: its processes have pipes alone."""
    found: list[object] = []

    def look() -> None:
        for one in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found.extend(one.net_connections("inet"))
                found.extend(place for place in one.net_connections("unix") if place.laddr)
                seen.add(one.pid)

    seen: set[int] = set()
    before = psutil.Process().net_connections("all")
    with local.processes(2, None, tmp_path) as pool:
        for _ in pool.as_done([pool.submit(time.sleep, 0.01) for _ in range(4)]):
            look()
        after = psutil.Process().net_connections("all")
    assert len(seen) >= 2
    assert found == []
    assert [one for one in after if one not in before and (one.laddr or one.raddr)] == []


def test_what_tasks_keep_for_each_other_is_for_its_owner(tmp_path: Path) -> None:
    """It is unpickled: nobody else may write it, nor read it."""
    before = os.umask(0)
    try:
        keep(bytes(100), Store(str(tmp_path / "out"), near=str(tmp_path / "near")))
    finally:
        os.umask(before)
    folder, work, path = sorted(tmp_path.rglob("*"))
    assert [oct(one.stat().st_mode & 0o777) for one in (folder, work, path)] == ["0o700", "0o700", "0o600"]


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
