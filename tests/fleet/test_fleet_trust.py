"""Who else on this machine gets at a run of `nfslat fleet`."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import time
from pathlib import Path

import psutil
import pytest
from in_process import run_here

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.fleet.run import executor
from nfslat.fleet.run.finished import RunFolder

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
PAIR = [SAMPLE / f"{side}.pcap.gz" for side in ("server", "client")]


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
    with executor.processes(2, None, tmp_path) as pool:
        for _ in pool.each(time.sleep, [0.01] * 4):
            look()
        after = psutil.Process().net_connections("all")
    assert len(seen) >= 2
    assert found == []
    assert [one for one in after if one not in before and (one.laddr or one.raddr)] == []


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
    "way", ["../../junk.json", "/etc/passwd", "clients/../../../x", "clients//x", "link/junk", "."]
)
def test_a_name_that_leads_out_of_the_folder(kept: Path, tmp_path: Path, way: str) -> None:
    """Whoever gave us a run's folder may have changed its files: nothing outside is read or written."""
    out = tmp_path / "a" / "out"
    shutil.copytree(kept, out)
    (tmp_path / "junk").write_text("precious")
    (out / "link").symlink_to(tmp_path)
    folder = RunFolder(str(out))
    assert folder.read(way) is None
    with pytest.raises(InputError, match="leads out of it"):
        folder.write(way, b"1")
    reports = json.loads((out / "run.json").read_text())
    (client,) = reports["reports"]
    reports["reports"][client] = way
    (out / "run.json").write_text(json.dumps(reports))
    assert cli.main(["fleet", "--out", str(out), "--show", client]) == 3
    assert (tmp_path / "junk").read_text() == "precious"


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.path,)

    def __init__(self, path: str) -> None:
        self.path = path


def test_what_is_kept_runs_nothing(kept: Path, tmp_path: Path) -> None:
    """What stands in the place of a finished client is not run, whatever it is; it is done again then."""
    out = tmp_path / "out"
    shutil.copytree(kept, out)
    for path in (out / "finished").iterdir():
        path.write_bytes(pickle.dumps(_Evil(str(tmp_path / "evil"))))
    ran = run_here(tmp_path, [*PAIR, "--out", out])
    assert (ran.status, ran.report["run"]["tasks"]["cached"]) == (0, 0)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("damage", [b"", b"x", None])
def test_what_is_damaged_is_done_again(kept: Path, tmp_path: Path, damage: bytes | None) -> None:
    """A finished client that was cut short, or whose report is not the one that was made with it, is done anew."""
    out = tmp_path / "out"
    shutil.copytree(kept, out)
    for path in out.glob("finished/*") if damage is not None else out.glob("clients/*"):
        path.write_bytes(path.read_bytes()[:-9] + (damage or b""))
    ran = run_here(tmp_path, [*PAIR, "--out", out])
    assert (ran.status, ran.report["run"]["tasks"]["cached"]) == (0, 0 if damage is not None else 1)
