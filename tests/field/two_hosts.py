"""Two network namespaces as hosts: sshd in each, on a network of its own, and NFS between them on another one.

Nothing of the system's sshd is touched: keys, accounts and settings are files in a temporary folder, and what a host
has or lacks is mounted in the mount namespace of its sshd alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
_USER = "nfslat-test"
_PROGRAMS = ("sshd", "ssh", "ssh-keygen", "tcpdump", "ip", "ss", "unshare", "mount", "sysctl")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing() -> str:
    """Why there can be no such hosts here; empty where there can."""
    if os.geteuid() != 0:
        return "hosts in network namespaces need root"
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    probe = subprocess.run(["unshare", "-mn", "true"], capture_output=True, check=False)
    return "" if probe.returncode == 0 else "no namespaces can be made here"


needs_hosts = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PATH": _PATH})


class Hosts:
    """`server` and `client`, and others that `sshd` adds, by the names in the configuration of `ssh`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        number = os.getpid()
        self.names = {side: f"nfslat{side[0]}{number}" for side in ("server", "client")}
        self._net = f"10.{200 + number % 50}.{number // 50 % 250}"
        self._places: dict[str, tuple[str, int]] = {}  # of each sshd: its host, and its port
        self._commands: dict[str, str] = {}  # that start each of them
        self._processes: list[subprocess.Popen[bytes]] = []
        self.config = folder / "ssh_config"
        self.config.write_text("")
        self.temporary, self.memory = folder / "tmp", folder / "shm"  # of the hosts
        for where in (self.temporary, self.memory):
            where.mkdir()
            where.chmod(0o1777)

    @property
    def ssh(self) -> str:
        """For --ssh."""
        return f"ssh -F {self.config}"

    def up(self) -> None:
        for key in ("host", "user"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / f"{key}_key"))
        server, client = self.names.values()
        for name in (server, client):
            _run("ip", "netns", "add", name)
        _run("ip", "link", "add", "nfs0", "netns", server, "type", "veth", "peer", "name", "nfs0", "netns", client)
        for number, (side, name) in enumerate(self.names.items(), 1):
            outer = f"{name}m"[-15:]
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "mgmt0", "netns", name)
            _run("ip", "addr", "add", f"{self._net}.{number * 16 + 1}/28", "dev", outer)
            _run("ip", "link", "set", outer, "up")
            _run("ip", "-n", name, "addr", "add", self.address(side) + "/28", "dev", "mgmt0")
            _run("ip", "-n", name, "addr", "add", f"10.77.7.{number}/24", "dev", "nfs0")
            _run("ip", "-n", name, "addr", "add", f"fd77::{number}/64", "dev", "nfs0", "nodad")
            for device in ("lo", "mgmt0", "nfs0"):
                _run("ip", "-n", name, "link", "set", device, "up")

    def third(self) -> str:
        """One more client, with an sshd of that name: the server's end of NFS becomes a bridge to both."""
        server, name = self.names["server"], f"nfslatt{os.getpid()}"
        self.names["third"] = name
        _run("ip", "netns", "add", name)
        outer, number = f"{name}m"[-15:], len(self.names)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "mgmt0", "netns", name)
        _run("ip", "addr", "add", f"{self._net}.{number * 16 + 1}/28", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        _run("ip", "-n", name, "addr", "add", self.address("third") + "/28", "dev", "mgmt0")
        _run("ip", "link", "add", "port2", "netns", server, "type", "veth", "peer", "name", "nfs0", "netns", name)
        _run("ip", "-n", name, "addr", "add", f"10.77.7.{number}/24", "dev", "nfs0")
        _run("ip", "-n", server, "link", "add", "bridge0", "type", "bridge")
        _run("ip", "-n", server, "addr", "del", "10.77.7.1/24", "dev", "nfs0")
        for device in ("nfs0", "port2"):
            _run("ip", "-n", server, "link", "set", device, "master", "bridge0", "up")
        _run("ip", "-n", server, "addr", "add", "10.77.7.1/24", "dev", "bridge0")
        _run("ip", "-n", server, "link", "set", "bridge0", "up")
        for device in ("lo", "mgmt0", "nfs0"):
            _run("ip", "-n", name, "link", "set", device, "up")
        return self.sshd("third", "third")

    def address(self, side: str) -> str:
        """Of the network that ssh goes by, on which there is no NFS."""
        return f"{self._net}.{list(self.names).index(side) * 16 + 18}"

    def spawn(self, side: str, *words: str) -> subprocess.Popen[bytes]:
        """A process on a host."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.names[side], *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": _PATH, "PYTHONPATH": str(TESTS)},
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def traffic(self, *addresses: str) -> None:
        """NFS of the client with these addresses of the server, until all ends."""
        for address in addresses:
            self.nfs("server", "serve", address)
            self.nfs("client", "call", address)

    def nfs(self, side: str, what: str, address: str) -> None:
        """One end of it."""
        self.spawn(side, sys.executable, str(Path(__file__).with_name("nfs_traffic.py")), what, address)

    def sshd(self, alias: str, side: str, *, user: str = "root", mounts: str = "", login: str = "/bin/sh") -> str:
        """One more sshd on a host: `mounts` is shell that changes what its sessions see. Returns `alias`."""
        port = 2200 + len(self._places)
        self._places[alias] = (self.address(side), port)
        config = self.folder / f"sshd-{alias}"
        account = self.folder / f"account-{alias}"
        account.mkdir()
        home = account / "home"
        home.mkdir()
        for name, mine in (
            ("passwd", f"{_USER}:x:54321:54321::{home}:{login}\n"),
            ("shadow", f"{_USER}:*:19000:0:99999:7:::\n"),
            ("group", f"{_USER}:x:54321:\n"),
        ):
            text = Path("/etc", name).read_text()
            if name == "passwd" and user == "root":
                text = "".join(
                    f"root:x:0:0:root:{home}:{login}\n" if line.startswith("root:") else line
                    for line in text.splitlines(keepends=True)
                )
            (account / name).write_text(text + mine)
        os.chown(home, 54321 if user != "root" else 0, 54321 if user != "root" else 0)
        config.write_text(
            f"Port {port}\nHostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/user_key.pub\n"
            "UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\nPrintMotd no\n"
            f"SetEnv TMPDIR={self.temporary}\nMaxStartups 100\nPerSourcePenalties no\n"
            # The default, against quantum computers, takes each login most of its time.
            "KexAlgorithms curve25519-sha256\n"
        )
        version = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=True).stderr
        if int(version.partition("OpenSSH_")[2].partition(".")[0]) < 10:
            config.write_text(config.read_text().replace("PerSourcePenalties no\n", ""))
        overlay = "".join(f"mount --bind {account}/{name} /etc/{name}\n" for name in ("passwd", "shadow", "group"))
        overlay += f"mount --bind {self.memory} /dev/shm\n"
        sshd = shutil.which("sshd", path=_PATH)
        Path("/run/sshd").mkdir(exist_ok=True)
        script = f"mount --make-rprivate /\n{overlay}{mounts}\nexec {sshd} -D -e -f {config} 2>{account}/log"
        self._commands[alias] = script
        self.again(alias, side)
        with self.config.open("a") as out:
            out.write(
                f"Host {alias}\n  HostName {self.address(side)}\n  Port {port}\n"
                f"  User {user if user == 'root' else _USER}\n"
                f"  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n  IdentityAgent none\n"
                f"  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile none\n"
                "  StrictHostKeyChecking yes\n"
            )
        kind, key, *_ = (self.folder / "host_key.pub").read_text().split()
        with (self.folder / "known_hosts").open("a") as out:
            out.write(f"[{self.address(side)}]:{port} {kind} {key}\n")
        return alias

    def again(self, alias: str, side: str) -> None:
        """Start an sshd that was killed."""
        self.spawn(side, "unshare", "-m", "sh", "-ec", self._commands[alias])

    def kill_all(self, side: str) -> None:
        """All that runs on a host."""
        pids = subprocess.run(["ip", "netns", "pids", self.names[side]], capture_output=True, text=True, check=True)
        for pid in pids.stdout.split():  # nobody but us put a process there
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)

    def port(self, alias: str) -> int:
        """Of an sshd."""
        return self._places[alias][1]

    def reachable(self, alias: str) -> None:
        """Wait for an sshd."""
        wait_until(lambda: _listens(self, alias))

    def alias(self, name: str, side: str, options: str) -> None:
        """Another name of the usual sshd of a host, with options of ssh's configuration that count before others."""
        text = self.config.read_text()
        usual = text.partition(f"Host {side}\n")[2].partition("Host ")[0]
        new = self.config.with_name("ssh_config.new")
        new.write_text(f"Host {name}\n  {options}\n{usual}{text}")
        new.rename(self.config)  # at once: an ssh may be reading it

    def kill_sessions(self, alias: str, number: int) -> None:
        """A signal to the processes that an sshd has started for its connections."""
        listening = f"sshd-{alias}"
        parents = {
            line.split()[0]
            for line in self.processes()
            if line.endswith(f"{listening} [listener]") or f"-f {self.folder}/{listening}" in line
        }
        for line in self.processes():
            pid = line.split()[0]
            with contextlib.suppress(OSError):
                fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
                if fields[1] in parents and pid not in parents:
                    os.kill(int(pid), number)

    def processes(self) -> set[str]:
        """Command lines of everything that runs on either host."""
        found = set()
        for name in self.names.values():
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout
            for pid in pids.split():
                with contextlib.suppress(OSError):
                    line = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.add(f"{pid} {line.strip()}")
        return found

    def down(self) -> None:
        for side in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):  # it was not made
                self.kill_all(side)
        for process in self._processes:
            process.kill()
            process.wait()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@contextlib.contextmanager
def two_hosts(*addresses: str) -> Iterator[Hosts]:
    """Up, with sshd as `server` and `client`, and with NFS of these addresses of the server."""
    # Accounts without rights have to get to their keys, which pytest's own folders do not allow.
    with tempfile.TemporaryDirectory(prefix="nfslat-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        hosts = Hosts(folder)
        try:
            hosts.up()
            for side in hosts.names:
                hosts.sshd(side, side)
            wait_until(lambda: all(_listens(hosts, alias) for alias in hosts.names))
            hosts.traffic(*addresses)
            yield hosts
        finally:
            hosts.down()


def _listens(hosts: Hosts, alias: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(hosts._places[alias], timeout=1):
        return True
    return False


def wait_until(holds: object, within_s: float = 10.0) -> None:
    """Until `holds()` is true; fails the test where it does not become so."""
    assert callable(holds)
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def left_on(hosts: Hosts) -> list[str]:
    """What a capture could have left: folders, and processes that are neither sshd, NFS, nor of the test."""
    folders = [str(path) for where in (hosts.temporary, hosts.memory) for path in where.iterdir()]
    ours = ("sshd", "nfs_traffic")
    return folders + [line for line in hosts.processes() if not any(word in line for word in ours)]


def nothing_stays(hosts: Hosts, within_s: float = 15.0) -> None:
    """Nothing of a capture does."""
    end = time.monotonic() + within_s
    while (left := left_on(hosts)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left, left


def add_admin(hosts: Hosts) -> None:
    """A login without rights, with a noisy shell and a sudo."""
    bin_folder = hosts.folder / "with-sudo"
    bin_folder.mkdir()
    shutil.copy(shutil.which("setpriv") or "/nowhere", bin_folder / "as-root")
    (bin_folder / "as-root").chmod(0o4755)
    script(
        bin_folder / "sudo",
        '[ "$1" = -n ] && shift\nexec /usr/local/bin/as-root --reuid 0 --regid 0 --clear-groups "$@"',
    )
    noise = script(
        hosts.folder / "noisy", 'echo Welcome\necho "Last login: today" >&2\nprintf "no line feed "\nexec /bin/sh "$@"'
    )
    hosts.sshd("admin", "client", user="admin", login=str(noise), mounts=f"mount --bind {bin_folder} /usr/local/bin")


def script(path: Path, text: str) -> Path:
    """A program."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path
