"""`nfslat capture` with real sshd, tcpdump and TCP between two namespaces: what comes home, and each way to fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from two_hosts import Hosts, add_admin, needs_hosts, nothing_stays, script, two_hosts

import nfslat
from nfslat.cli import main as cli
from nfslat.errors import InputError, UsageError
from nfslat.field import both, plan
from nfslat.field.hosts import Voice

pytestmark = needs_hosts
_MASK_TCPDUMP = f"mount --bind /dev/null {shutil.which('tcpdump') or '/usr/bin/tcpdump'}"


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def problem(self) -> str:
        """The line that says why: the last one."""
        return self.err.splitlines()[-1]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """The two, with NFS of both families of addresses between them."""
    with two_hosts("10.77.7.1", "fd77::1") as made:
        yield made


def _start(hosts: Hosts, *words: str, cwd: Path, ssh: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nfslat", "capture", "--ssh", ssh or hosts.ssh, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(cwd)},
        start_new_session=True,
    )


def _ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err)


def _capture(hosts: Hosts, cwd: Path, server: str, client: str, *words: str, ssh: str = "") -> Ended:
    return _ended(_start(hosts, f"--server={server}", f"--client={client}", *words, cwd=cwd, ssh=ssh))


def _wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


# --- What is started, all at the same time: a capture waits for most of its time ------------------------

Jobs = dict[str, Future[Ended]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each job has a folder."""
    return tmp_path_factory.mktemp("home")


_BY_NIGHT = ("server alone", "interrupted", "hangs", "empty")


@pytest.fixture(scope="module")
def jobs(hosts: Hosts, home: Path, pytestconfig: pytest.Config) -> Iterator[Jobs]:
    """The captures that get as far as capturing, on hosts and logins of their own where these are odd."""
    add_admin(hosts)
    full = f"mount --bind {_new(hosts.folder / 'var')} /var/tmp; mount -t tmpfs -o size=8k none {hosts.temporary}"
    hosts.sshd("restricted", "server", login=shutil.which("rbash") or "/bin/sh", mounts=full)
    hosts.sshd("frail", "client")
    hosts.sshd("frozen", "server")
    for alias in ("admin", "restricted", "frail", "frozen"):
        hosts.reachable(alias)

    def twice(process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGINT)
        _wait_for_line(process, "stopping both")
        os.killpg(process.pid, signal.SIGINT)

    acts: dict[str, Callable[[Path], Ended]] = {
        "whole": lambda cwd: _capture(hosts, cwd, "server", "admin", "--seconds", "2", "--json", "-"),
        "client alone": lambda cwd: _ended(_start(hosts, "--client=client", "--seconds=2", "--json", "-", cwd=cwd)),
        "server alone": lambda cwd: _ended(
            _start(hosts, "--server=server", "--seconds=2", "--json", "-", "--client-addr=10.77.7.2", cwd=cwd)
        ),
        "stopped": lambda cwd: _stopped(hosts, cwd),
        "asked": lambda cwd: _asked(hosts, cwd),
        "interrupted": lambda cwd: _given_up(hosts, cwd, "server", "client", twice),
        "lost": lambda cwd: _given_up(
            *(hosts, cwd, "server", "frail"), lambda _: hosts.kill_sessions("frail", signal.SIGKILL)
        ),
        "hangs": lambda cwd: _given_up(
            *(hosts, cwd, "frozen", "client"), lambda _: hosts.kill_sessions("frozen", signal.SIGSTOP)
        ),
        # It captures what there is, of another host; the tar of the other side is kept, as its own is.
        "empty": lambda cwd: _capture(
            *(hosts, cwd, "server", "client", "--seconds", "1", "--out", "kept", "--server-addr", "10.77.7.9")
        ),
    }
    names = [name for name in acts if pytestconfig.option.long or name not in _BY_NIGHT]
    with ThreadPoolExecutor(len(names)) as pool:
        yield {name: pool.submit(acts[name], _new(home / name)) for name in names}


def _stopped(hosts: Hosts, cwd: Path) -> Ended:
    words = ("--server", "restricted", "--client", "client", "--seconds", "300", "--discard", "--json", "-")
    process = _start(hosts, *words, cwd=cwd)
    _wait_for_line(process, "both capture now")
    time.sleep(1.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to ssh as well
    return _ended(process)


def _asked(hosts: Hosts, cwd: Path) -> Ended:
    """At a terminal, where somebody says no."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nfslat", "capture", "--ssh", hosts.ssh, "--server", "server", "--client", "client"],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
    )
    os.close(theirs)
    said = ""
    while "start? [y/N]" not in said:
        said += os.read(ours, 4096).decode()
    os.write(ours, b"n\n")
    out, _ = process.communicate(timeout=60)
    said += os.read(ours, 4096).decode()
    os.close(ours)
    return Ended(process.returncode, out.decode(), said)


def _given_up(hosts: Hosts, cwd: Path, server: str, client: str, end: Callable[[subprocess.Popen[str]], None]) -> Ended:
    """A capture that `end` ends, once it runs on both hosts; ssh is quick to find that a host hangs."""
    ssh = f"{hosts.ssh} -o ServerAliveInterval=1 -o ServerAliveCountMax=4"
    process = _start(hosts, "--server", server, "--client", client, "--seconds", "300", cwd=cwd, ssh=ssh)
    _wait_for_line(process, "both capture now")
    end(process)
    return _ended(process)


# --- What has to come of it -----------------------------------------------------------------------------


def test_a_failure_is_an_error_that_says_what_to_do(hosts: Hosts, jobs: Jobs, tmp_path: Path) -> None:
    """It names the host; here without the command, which makes one line of it as of all errors."""
    assert jobs
    folder = hosts.folder
    no_sudo = "for sudo in /usr/bin/sudo /usr/local/bin/sudo; do [ ! -e $sudo ] || mount --bind /dev/null $sudo; done"
    asks = _new(folder / "asks")
    script(asks / "sudo", 'echo "sudo: a password is required" >&2; exit 1')
    endless = script(folder / "endless", "exec yes nfslat")
    hosts.sshd("bare", "client", mounts=_MASK_TCPDUMP)
    hosts.sshd("plain", "client", user="plain", mounts=no_sudo)
    hosts.sshd("asking", "client", user="asking", mounts=f"mount --bind {asks} /usr/local/bin")
    hosts.sshd("nologin", "server", login="/usr/sbin/nologin")
    hosts.sshd("small", "server", mounts="mount -t tmpfs -o size=1m none /mnt")
    hosts.sshd("full", "server", mounts="mount -t tmpfs -o size=8k none /mnt")
    hosts.sshd("painter", "client", login=str(script(folder / "painter", "printf '\\033[2J\\033]0;x\\007gone\\n'")))
    hosts.sshd("endless", "client", login=str(endless))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "stranger")], check=True)
    for alias in ("bare", "plain", "asking", "small", "full"):
        hosts.reachable(alias)
    stranger = (folder / "stranger.pub").read_text().split()[1]
    hosts.alias("changed", "client", f"UserKnownHostsFile {folder}/wrong_hosts")
    (folder / "wrong_hosts").write_text(f"[{hosts.address('client')}]:{hosts.port('client')} ssh-ed25519 {stranger}\n")
    hosts.alias("unknown-key", "client", f"UserKnownHostsFile {folder}/no_hosts\n  StrictHostKeyChecking yes")
    hosts.alias("locked", "client", "User stranger")
    hosts.alias("closed", "client", "Port 1")
    cases: list[tuple[str, str, dict[str, Any], type, str]] = [
        (
            "server",
            "nosuchhost.invalid",
            {},
            InputError,
            "nosuchhost.invalid (client) is not known by that name; check",
        ),
        ("server", "closed", {}, InputError, "closed (client) refuses the connection; does sshd run there"),
        ("server", "changed", {}, InputError, "changed (client) shows another host key than before; find out why"),
        ("server", "unknown-key", {}, InputError, "unknown-key (client) has a host key that is not known here; log in"),
        ("server", "locked", {}, InputError, "locked (client) takes none of the keys; try: ssh locked true"),
        ("nologin", "client", {}, InputError, "nologin (server) gives no shell to this user; log in as another one"),
        ("server", "painter", {}, InputError, "painter (client) gives no shell; try: ssh painter true"),
        ("server", "endless", {}, InputError, "endless (client) gives no shell; try: ssh endless true"),
        ("server", "bare", {}, InputError, "bare (client): there is no tcpdump; install tcpdump there"),
        (
            "server",
            "plain",
            {},
            InputError,
            "plain (client): capturing needs root, and there is no sudo; log in as root",
        ),
        (
            "server",
            "asking",
            {},
            InputError,
            "asking (client): capturing needs root, and sudo asks for a password there",
        ),
        (
            "small",
            "client",
            {"folder": "/mnt"},
            InputError,
            " that are free in /mnt, and 512 are to be left: give --dir",
        ),
        ("full", "client", {"folder": "/mnt"}, InputError, "full (server): cannot write in /mnt, the disk may be full"),
        ("server", "client", {"folder": "/nowhere"}, InputError, "cannot make a folder in /nowhere; give another one"),
        ("server", "server", {}, UsageError, "--server server and --client server are the same machine"),
        ("client", "server", {}, UsageError, "it is the other way round: give --server server --client client"),
        ("server", "client", {"port": 2050}, InputError, "no NFS connection between server and client (port 2050"),
        ("nologin", "closed", {}, InputError, ""),
    ]
    with ThreadPoolExecutor(6) as pool:
        refused = pool.map(lambda at: _refused(hosts, _new(tmp_path / str(at)), *cases[at][:3]), range(len(cases)))
    for (server, client, more, kind, words), problem in zip(cases, refused, strict=True):
        assert (server, client, more, type(problem)) == (server, client, more, kind), problem
        assert words in str(problem)
        assert str(problem).isprintable()
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def _refused(hosts: Hosts, into: Path, server: str, client: str, more: dict[str, Any]) -> Exception | None:
    """How a capture ends that cannot begin."""
    wanted = plan.Wanted({"server": server, "client": client}, ssh=hosts.ssh, **more)
    try:
        both.capture(wanted, into, Voice(lambda _: None, lambda _: None, lambda: True, terminal=False))
    except (InputError, UsageError) as problem:
        return problem
    return None


def test_what_makes_no_sense_is_refused_before_any_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line; and no name of a host becomes an option of ssh."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "client.tar").write_text("old")
    for words, status, problem in (
        (["--out", "/proc/none"], 3, "--out /proc/none: No such file or directory; give a folder that can be"),
        (["--out", "file"], 3, "--out file: File exists; give a folder that can be written to"),
        (["--out", "before"], 2, "--out before: holds captures already; give another folder"),
        (["--ssh", "no-such-program"], 2, "--ssh 'no-such-program' cannot be started"),
        (["--ssh", "'"], 2, '--ssh "\'": No closing quotation'),
        (["--client=-oProxyCommand=touch run"], 2, "'-oProxyCommand=touch run' is no host"),
        (["--client=a\nb"], 2, "'a\\nb' is no host"),
        (["--client-addr", "db1"], 2, "--client-addr db1: give an address, not a name"),
    ):
        assert cli.main(["capture", "--server=s.invalid", "--client=c.invalid", "--ssh=false", *words]) == status
        said = capsys.readouterr()
        assert said.err.startswith("nfslat: ")
        assert problem in said.err
        assert (said.out, said.err.count("\n")) == ("", 1)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["before", "client.tar", "file"]
    assert (tmp_path / "before" / "client.tar").read_text() == "old"


def test_it_captures_on_both_hosts_and_prints_the_report(jobs: Jobs, home: Path) -> None:
    """With keys of the user's, a noisy login shell and sudo on one host: tars, and the report that they give again."""
    ended = jobs["whole"].result()
    assert ended.status == 0, ended.err
    report = json.loads(ended.out)
    assert report["matched"]["ops"] > 20
    assert "found 2 connections to port 2049: client 10.77.7.2, fd77::2, server 10.77.7.1, fd77::1" in ended.err
    assert "they started " in ended.err
    assert "NFS packets/s" in ended.err
    (folder,) = (home / "whole").glob("nfslat-server-admin-*Z")
    assert sorted(path.name for path in folder.iterdir()) == ["client.tar", "server.tar"]
    again = nfslat.correlate(folder / "server.tar", folder / "client.tar").figures.to_dict()
    assert again["matched"] == report["matched"]


@pytest.mark.parametrize(
    ("side", "other", "said"),
    [
        (
            "client",
            "server",
            "client (client): it has 2 servers, all captured (--server-addr takes one): 10.77.7.1, fd77::1",
        ),
        pytest.param("server", "client", "it captures now, for 2 s. Ctrl-C ends it early", marks=pytest.mark.long),
    ],
)
def test_one_host_is_enough(jobs: Jobs, home: Path, side: str, other: str, said: str) -> None:
    """Of one host alone a tar comes home, and what is not captured is inferred, or the report says why not."""
    ended = jobs[f"{side} alone"].result()
    assert ended.status == 0, ended.err
    assert said in ended.err
    (folder,) = (home / f"{side} alone").glob(f"nfslat-{side}-*Z")
    assert [path.name for path in folder.iterdir()] == [f"{side}.tar"]
    report = json.loads(ended.out)
    assert (report["inferred"] or {}).get("side", other) == other
    assert report["inferred"] or "one capture" in json.dumps(report["verdict"]) + json.dumps(report["notes"])
    assert list(report["captures"]) == [side]


def test_a_host_without_nfs_says_what_to_do(hosts: Hosts, tmp_path: Path) -> None:
    """A client that has no server, and a server that has no client, is told from what it prints of itself."""
    for side, words in (
        ("client", "client (client): it has no connection to port 2050, and no mount says where its server is"),
        ("server", "server (server): no client is connected to its port 2050: is it mounted, and used now?"),
    ):
        wanted = plan.Wanted({side: side}, ssh=hosts.ssh, port=2050)
        with pytest.raises(InputError, match=re.escape(words)):
            both.capture(wanted, tmp_path, Voice(lambda _: None, lambda _: None, lambda: True, terminal=False))


def test_ctrl_c_brings_home_what_there_is(hosts: Hosts, jobs: Jobs, home: Path) -> None:
    """The first Ctrl-C while it captures ends it early on both hosts, and the report is of what came until then. On a
    host whose /tmp is full the files are in /var/tmp meanwhile."""
    ended = jobs["stopped"].result()
    assert ended.status == 0, ended.err
    assert "stopping both" in ended.err
    assert json.loads(ended.out)["matched"]["ops"] > 20
    assert list((home / "stopped").iterdir()) == []
    assert list((hosts.folder / "var").iterdir()) == []


def test_at_a_terminal_it_says_what_it_costs_and_asks(jobs: Jobs, home: Path) -> None:
    """Whoever says no has captured nothing, and no folder was made."""
    ended = jobs["asked"].result()
    assert (ended.status, ended.out) == (3, "")
    assert ended.err.count("NFS packets/s") == 2
    assert "nfslat: nothing was captured" in ended.err
    assert list((home / "asked").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "status", "problem"),
    [
        ("lost", 3, "nfslat: frail (client): the connection was lost"),
        pytest.param("hangs", 3, "nfslat: frozen (server): the connection was lost", marks=pytest.mark.long),
        pytest.param("interrupted", 130, "nfslat: interrupted", marks=pytest.mark.long),
    ],
)
def test_a_capture_that_cannot_go_on_ends_on_both_hosts(
    hosts: Hosts, jobs: Jobs, home: Path, name: str, status: int, problem: str
) -> None:
    """The sshd of one login killed; one that stands still, until ssh's keepalives find out; Ctrl-C twice: each ends at
    once, in a line that names the host, and there is no file at home."""
    ended = jobs[name].result()
    if name == "hangs":
        hosts.kill_sessions("frozen", signal.SIGCONT)
    assert ended.status == status
    assert ended.problem.startswith(problem)
    assert [path for path in (home / name).rglob("*") if not path.is_dir()] == []


@pytest.mark.long
def test_captures_without_packets_are_kept_and_said(jobs: Jobs, home: Path) -> None:
    """The tars say more."""
    ended = jobs["empty"].result()
    assert (ended.status, ended.out) == (3, "")
    assert "kept/client.tar: the capture holds no packets; check the interface" in ended.problem
    assert sorted(path.name for path in (home / "empty" / "kept").iterdir()) == ["client.tar", "server.tar"]


def test_nothing_stays_on_the_hosts(hosts: Hosts, jobs: Jobs) -> None:
    """Of all of the above, however it ended: no file, and no process."""
    for job in jobs.values():
        job.result()
    hosts.kill_sessions("frozen", signal.SIGCONT)
    nothing_stays(hosts)


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
