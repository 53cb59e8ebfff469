"""The lab with Kerberos: what it asks of the machine, and what it does in the guests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from laboratory import client, host, kerberos, scenario, server
from laboratory.__main__ import main as lab
from laboratory.guest import Guest, LabError

SCRIPTS = Path(__file__).parents[2] / "scripts"
SECURED = [one for one in scenario.every() if one.mount.sec]


class Recorded:
    """A guest that writes down what it is asked to run, and has the files that this would make."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.address, self.address6 = name, folder / name, "10.77.0.9", "fd77::9"
        self.folder.mkdir()
        self.scripts: list[str] = []

    def run(self, script: str, **_: Any) -> None:
        """Nothing runs."""
        self.scripts.append(script)
        for word in script.split():
            if word.startswith("/lab/") and word.endswith(".keytab"):
                (self.folder / Path(word).name).write_text("keys")

    @property
    def said(self) -> str:
        """All scripts."""
        return "\n".join(self.scripts)


def recorded(tmp_path: Path, *names: str) -> list[Guest]:
    """Guests that only write down."""
    return [cast(Guest, Recorded(name, tmp_path)) for name in names]


@pytest.fixture
def without_kerberos(tmp_path: Path) -> str:
    """A PATH where the programs of Kerberos are missing, and only those."""
    for name in host.PROGRAMS:
        if name not in kerberos.PROGRAMS:
            (tmp_path / name).touch(mode=0o755)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), False),
        (("run", "-h"), False),
        (("run", "baseline", "--results", "here"), False),
        (("run", "baseline", "krb5_baseline"), True),
        (("run", "--all"), True),
    ],
)
def test_only_scenarios_with_kerberos_need_its_packages(
    without_kerberos: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    *,
    wanted: bool,
) -> None:
    """Nobody installs a KDC to see a slow disk."""
    monkeypatch.setenv("PATH", without_kerberos)
    monkeypatch.setattr(sys, "argv", ["lab", "packages", *words])
    assert lab() == 0
    assert ("krb5-kdc" in capsys.readouterr().out.split()) is wanted


def test_the_packages_are_told_to_a_shell(without_kerberos: str) -> None:
    """As a process of its own, as scripts/lab starts it, it prints them in one line."""
    environment = os.environ | {"PATH": without_kerberos, "PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-m", "laboratory", "packages", "run", "krb5_baseline"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "krb5-kdc" in done.stdout.split()
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_a_machine_without_a_kdc_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that names the packages, before anything is done in a guest."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (nfsd,) = recorded(tmp_path, "server")
    with pytest.raises(LabError, match=r"krb5-admin-server, krb5-kdc"):
        kerberos.start(nfsd, [])
    assert not cast(Recorded, nfsd).scripts


def test_each_guest_gets_its_own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's keys stay there, each client gets its own, and each has the daemon of its side."""
    monkeypatch.setattr(host, "packages", lambda _: [])
    nfsd, *clients = recorded(tmp_path, "server", "client", "client2")
    kerberos.start(nfsd, clients)
    assert "addprinc -randkey nfs/server.lab" in cast(Recorded, nfsd).said
    assert "rpc.svcgssd" in cast(Recorded, nfsd).said
    for guest in clients:
        assert f"addprinc -randkey host/{guest.name}.lab" in cast(Recorded, nfsd).said
        assert "rpc.gssd" in cast(Recorded, guest).said
        assert (guest.folder / "krb5.keytab").exists()
        assert not (nfsd.folder / f"{guest.name}.keytab").exists()


@pytest.mark.parametrize("one", SECURED, ids=lambda one: one.name)
def test_both_ends_insist_on_the_protection(one: scenario.Scenario, tmp_path: Path) -> None:
    """The export allows nothing else and the mount asks for it, so that no run can fall back to sec=sys."""
    (nfsd,) = recorded(tmp_path, "server")
    server.start(nfsd, one)
    assert f",sec={one.mount.sec},{kerberos.EXPORT_OPTIONS} " in cast(Recorded, nfsd).said
    assert f",sec={one.mount.sec} " in client.mount_command(nfsd, one).replace("-o ", ",")


def test_without_kerberos_nothing_speaks_of_it(tmp_path: Path) -> None:
    """A plain scenario exports and mounts as before."""
    (nfsd,) = recorded(tmp_path, "server")
    plain = scenario.read(scenario.path("baseline"))
    server.start(nfsd, plain)
    assert "sec=" not in cast(Recorded, nfsd).said + client.mount_command(nfsd, plain)
