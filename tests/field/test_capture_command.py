"""`nfslat capture` with real sshd, tcpdump and TCP between two namespaces: what comes home, and each way to fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from two_hosts import Hosts, needs_hosts, two_hosts

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
    # Accounts without rights have to get to their keys, which pytest's own folders do not allow.
    with tempfile.TemporaryDirectory(prefix="nfslat-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with two_hosts(folder) as made:
            made.traffic("10.77.7.1", "fd77::1")
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


def _left_on(hosts: Hosts) -> list[str]:
    """What a capture could have left: folders, and processes that are neither sshd, NFS, nor of the test."""
    folders = list(map(str, hosts.temporary.iterdir()))
    ours = ("sshd", "nfs_traffic")
    return folders + [line for line in hosts.processes() if not any(word in line for word in ours)]


def _nothing_stays(hosts: Hosts) -> None:
    end = time.monotonic() + 15
    while (left := _left_on(hosts)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []


def _wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


def test_it_captures_on_both_hosts_and_prints_the_report(hosts: Hosts, tmp_path: Path) -> None:
    """With keys of the user's, a noisy login shell and sudo on one host, a full /tmp on the other: tars, the report,
    nothing left behind."""
    bin_folder = hosts.folder / "with-sudo"
    bin_folder.mkdir()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("no setpriv, which stands in for sudo")
    shutil.copy(setpriv, bin_folder / "as-root")
    (bin_folder / "as-root").chmod(0o4755)
    _script(
        bin_folder / "sudo",
        '[ "$1" = -n ] && shift\nexec /usr/local/bin/as-root --reuid 0 --regid 0 --clear-groups "$@"',
    )
    noise = _script(
        hosts.folder / "noisy", 'echo Welcome\necho "Last login: today" >&2\nprintf "no line feed "\nexec /bin/sh "$@"'
    )
    hosts.sshd("admin", "client", user="admin", login=str(noise), mounts=f"mount --bind {bin_folder} /usr/local/bin")
    elsewhere = hosts.folder / "elsewhere"
    elsewhere.mkdir()
    hosts.sshd(
        *("crammed", "server"),
        mounts=f"mount --bind {elsewhere} /var/tmp; mount -t tmpfs -o size=8k none {hosts.temporary}",
    )
    hosts.reachable("admin")
    hosts.reachable("crammed")
    ended = _capture(hosts, tmp_path, "crammed", "admin", "--seconds", "2", "--json", "-")
    assert ended.status == 0, ended.err
    report = json.loads(ended.out)
    assert report["matched"]["ops"] > 50
    assert "found 2 connections to port 2049: client 10.77.7.2, fd77::2, server 10.77.7.1, fd77::1" in ended.err
    assert "they started 0." in ended.err
    assert "NFS packets/s" in ended.err
    (folder,) = tmp_path.glob("nfslat-crammed-admin-*Z")
    assert sorted(path.name for path in folder.iterdir()) == ["client.tar", "server.tar"]
    _nothing_stays(hosts)
    assert list(elsewhere.iterdir()) == []
    again = subprocess.run(
        [sys.executable, "-m", "nfslat", str(folder / "server.tar"), str(folder / "client.tar"), "--json", "-"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert json.loads(again.stdout)["matched"] == report["matched"]


def test_ctrl_c_brings_home_what_there_is(hosts: Hosts, tmp_path: Path) -> None:
    """The first Ctrl-C while it captures ends it early on both hosts, and the report is of what came until then."""
    hosts.sshd("restricted", "server", login=shutil.which("rbash") or "/bin/sh")
    hosts.reachable("restricted")
    words = ("--server", "restricted", "--client", "client", "--seconds", "300", "--discard", "--json", "-")
    process = _start(hosts, *words, cwd=tmp_path)
    _wait_for_line(process, "both capture now")
    time.sleep(1.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to ssh as well
    ended = _ended(process)
    assert ended.status == 0, ended.err
    assert "stopping both" in ended.err
    assert json.loads(ended.out)["matched"]["ops"] > 20
    assert list(tmp_path.iterdir()) == []
    _nothing_stays(hosts)


def test_at_a_terminal_it_says_what_it_costs_and_asks(hosts: Hosts, tmp_path: Path) -> None:
    """Whoever says no has captured nothing, and no folder was made."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nfslat", "capture", "--ssh", hosts.ssh, "--server", "server", "--client", "client"],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
    )
    os.close(theirs)
    said = ""
    while "start? [y/N]" not in said:
        said += os.read(ours, 4096).decode()
    os.write(ours, b"n\n")
    out, _ = process.communicate(timeout=30)
    said += os.read(ours, 4096).decode()
    os.close(ours)
    assert (process.returncode, out) == (3, b"")
    assert said.count("NFS packets/s") == 2
    assert "nfslat: nothing was captured" in said
    assert list(tmp_path.iterdir()) == []
    _nothing_stays(hosts)


def _given_up(hosts: Hosts, cwd: Path, server: str, client: str, end: Callable[[subprocess.Popen[str]], None]) -> Ended:
    """A capture that `end` ends, once it runs on both hosts; ssh is quick to find that a host hangs."""
    cwd.mkdir()
    ssh = f"{hosts.ssh} -o ServerAliveInterval=1 -o ServerAliveCountMax=2"
    process = _start(hosts, "--server", server, "--client", client, "--seconds", "300", cwd=cwd, ssh=ssh)
    _wait_for_line(process, "both capture now")
    end(process)
    return _ended(process)


def test_a_capture_that_cannot_go_on_ends_on_both_hosts(hosts: Hosts, tmp_path: Path) -> None:
    """Ctrl-C twice; the sshd of one login killed; one that stands still, until ssh's keepalives find out: each ends at
    once, in a line that names the host, and no host keeps a process or a file, nor is there one at home."""

    def twice(process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGINT)
        _wait_for_line(process, "stopping both")
        os.killpg(process.pid, signal.SIGINT)

    for alias, side in (("frail", "client"), ("frozen", "server")):
        hosts.sshd(alias, side)
        hosts.reachable(alias)
    with ThreadPoolExecutor(3) as pool:
        interrupted = pool.submit(_given_up, hosts, tmp_path / "interrupted", "server", "client", twice)
        lost = pool.submit(
            *(_given_up, hosts, tmp_path / "lost", "server", "frail"),
            lambda _: hosts.kill_sessions("frail", signal.SIGKILL),
        )
        hangs = pool.submit(
            *(_given_up, hosts, tmp_path / "hangs", "frozen", "client"),
            lambda _: hosts.kill_sessions("frozen", signal.SIGSTOP),
        )
        assert (interrupted.result().status, interrupted.result().problem) == (130, "nfslat: interrupted")
        assert lost.result().status == 3
        assert lost.result().problem.startswith("nfslat: frail (client): the connection was lost")
        assert hangs.result().status == 3
        assert hangs.result().problem.startswith("nfslat: frozen (server): the connection was lost")
    hosts.kill_sessions("frozen", signal.SIGCONT)
    _nothing_stays(hosts)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_failure_is_one_line_that_says_what_to_do(hosts: Hosts, tmp_path: Path) -> None:
    """It names the host, the status is right, nothing goes to standard output, and nothing stays on the hosts."""
    folder = hosts.folder
    no_sudo = "for sudo in /usr/bin/sudo /usr/local/bin/sudo; do [ ! -e $sudo ] || mount --bind /dev/null $sudo; done"
    asks = folder / "asks"
    asks.mkdir()
    _script(asks / "sudo", 'echo "sudo: a password is required" >&2; exit 1')
    hosts.sshd("bare", "client", mounts=_MASK_TCPDUMP)
    hosts.sshd("plain", "client", user="plain", mounts=no_sudo)
    hosts.sshd("asking", "client", user="asking", mounts=f"mount --bind {asks} /usr/local/bin")
    hosts.sshd("nologin", "server", login="/usr/sbin/nologin")
    hosts.sshd("small", "server", mounts="mount -t tmpfs -o size=1m none /mnt")
    hosts.sshd("full", "server", mounts="mount -t tmpfs -o size=8k none /mnt")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "stranger")], check=True)
    for alias in ("bare", "plain", "asking", "small", "full"):
        hosts.reachable(alias)
    stranger = (folder / "stranger.pub").read_text().split()[1]
    hosts.alias("changed", "client", f"UserKnownHostsFile {folder}/wrong_hosts")
    (folder / "wrong_hosts").write_text(f"[{hosts.address('client')}]:{hosts.port('client')} ssh-ed25519 {stranger}\n")
    hosts.alias("unknown-key", "client", f"UserKnownHostsFile {folder}/no_hosts\n  StrictHostKeyChecking yes")
    hosts.alias("locked", "client", "User stranger")
    hosts.alias("closed", "client", "Port 1")
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("server", "nosuchhost.invalid"), 3, "nosuchhost.invalid (client) is not known by that name; check the name"),
        (("server", "closed"), 3, "closed (client) refuses the connection; does sshd run there"),
        (("server", "changed"), 3, "changed (client) shows another host key than before; find out why"),
        (("server", "unknown-key"), 3, "unknown-key (client) has a host key that is not known here; log in with ssh"),
        (("server", "locked"), 3, "locked (client) takes none of the keys; try: ssh locked true"),
        (("nologin", "client"), 3, "nologin (server) gives no shell to this user; log in as another one"),
        (("server", "bare"), 3, "bare (client): there is no tcpdump; install tcpdump there"),
        (("server", "plain"), 3, "plain (client): capturing needs root, and there is no sudo; log in as root (root@"),
        (("server", "asking"), 3, "asking (client): capturing needs root, and sudo asks for a password there; log in"),
        (("small", "client", "--dir", "/mnt"), 3, " of the 0 MB that are free in /mnt, and 512 are to be left: give"),
        (("full", "client", "--dir", "/mnt"), 3, "full (server): cannot write in /mnt, the disk may be full; give"),
        (("server", "client", "--dir", "/nowhere"), 3, "cannot make a folder in /nowhere; give another one with --dir"),
        (("server", "server"), 2, "--server server and --client server are the same machine"),
        (("client", "server"), 2, "it is the other way round: give --server server --client client"),
        (("server", "client", "--port", "2050"), 3, "there is no NFS connection between server and client (port 2050"),
        (("nologin", "closed"), 3, "nfslat: "),
        (("server", "client", "--out", "/proc/none"), 3, "--out /proc/none: No such file or directory; give a folder"),
        (("server", "client", "--ssh", "no-such-program"), 2, "--ssh 'no-such-program' cannot be started"),
        (("server", "-oProxyCommand=true"), 2, "'-oProxyCommand=true' is no host"),
        # It captures what there is, of another host; the tar of the other side is kept, as its own is.
        (
            ("server", "client", "--seconds", "1", "--out", "kept", "--server-address", "10.77.7.9"),
            *(3, "kept/client.tar: the capture holds no packets; check the interface"),
        ),
    ]
    with ThreadPoolExecutor(5) as pool:
        jobs = [pool.submit(_capture, hosts, _new(tmp_path / str(n)), *words) for n, (words, _, _) in enumerate(cases)]
    for (words, status, problem), job in zip(cases, jobs, strict=True):
        ended = job.result()
        assert (words, ended.status, ended.out) == (words, status, "")
        assert problem in ended.problem
        assert "Traceback" not in ended.err
    kept = [path for path in tmp_path.rglob("*") if not path.is_dir()]
    assert sorted(path.name for path in kept) == ["client.tar", "server.tar"]
    _nothing_stays(hosts)


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path
