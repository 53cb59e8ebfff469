"""`nfslat live` with real sshd, tcpdump and TCP between two namespaces, and what can go wrong while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from two_hosts import Hosts, add_admin, needs_hosts, nothing_stays, script, two_hosts, wait_until

from nfslat.cli import main as cli
from nfslat.field.link import SCRIPTS, _script

pytestmark = needs_hosts
_WITHIN_S = 45.0
_PIPE_BYTES = 1 << 16  # of Linux
# It takes a whole processor, and says of 9 packets that 7 were dropped.
_HUNGRY = """case "$*" in *"-w -"*) ;; *) exec {real} "$@" ;; esac
{real} "$@" &
trap 'echo "9 packets received by filter" >&2; echo "7 packets dropped by kernel" >&2' USR1
trap "kill $!; exit" INT TERM EXIT
while :; do :; done"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """The two, with NFS between them."""
    with two_hosts("10.77.7.1") as made:
        yield made


class Run:
    """`nfslat live` on two hosts: its rows, and what it says."""

    def __init__(self, hosts: Hosts, cwd: Path, *words: str) -> None:
        ssh = f"{hosts.ssh} -o ServerAliveInterval=1 -o ServerAliveCountMax=4"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nfslat", "live", "--ssh", ssh, *words, "--interval=1", "--json=-"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(cwd)},
            start_new_session=True,
        )
        self.said = ""
        self.rows: list[dict[str, Any]] = []
        self._came: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._readers = [threading.Thread(target=read) for read in (self._read_rows, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_rows(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self.rows.append(json.loads(line))
                self._came.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self.said += line
                self._came.put(None)

    def wait_for(self, holds: Callable[[], object], within_s: float = _WITHIN_S) -> None:
        """Until it is true."""
        end = time.monotonic() + within_s
        while not holds():
            left_s = end - time.monotonic()
            assert left_s > 0, f"it did not happen\n{self.said}\n{self.rows[-5:]}"
            try:
                self._came.get(timeout=min(left_s, 1))
            except queue.Empty:
                assert self.process.poll() is None, self.said

    def healthy(self) -> None:
        """The last row has operations of both captures, and no gap."""
        self.wait_for(lambda: self.rows and self.rows[-1]["matched"] > 20 and self.rows[-1]["gap"] is None)

    def misses(self, side: str) -> None:
        """The last row is of a time without packets of a side."""
        self.wait_for(lambda: self.rows[-1]["gap"] == side)

    def ended(self, number: int) -> int:
        """The status, after a signal."""
        os.killpg(self.process.pid, number)
        return self.over()

    def over(self) -> int:
        """The status, when all that it printed was read."""
        status = self.process.wait(30)
        for reader in self._readers:
            reader.join(10)
        return status


@pytest.fixture
def start(hosts: Hosts, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Runs that are over after the test, with nothing left on the hosts."""
    runs: list[Run] = []

    def started(*words: str) -> Run:
        runs.append(Run(hosts, tmp_path, *words))
        return runs[-1]

    yield started
    for run in runs:
        if run.process.poll() is None:
            run.ended(signal.SIGKILL)
        run.over()
    nothing_stays(hosts)


def _kill(hosts: Hosts, words: str) -> None:
    """What runs on a host with that in its command line."""
    found = [line.split()[0] for line in hosts.processes() if words in line]
    assert found
    for pid in found:
        with contextlib.suppress(ProcessLookupError):  # it ended with another one
            os.kill(int(pid), signal.SIGKILL)


def test_a_connection_that_is_lost_comes_again(hosts: Hosts, start: Callable[..., Run]) -> None:
    """With sudo and a noisy shell on one host: rows as of captures. Where the connection is lost that is said, no cause
    is made of the time without packets, rows go on meanwhile, and Ctrl-C leaves nothing on the hosts."""
    add_admin(hosts)
    hosts.sshd("frail", "server")
    hosts.reachable("admin")
    hosts.reachable("frail")
    run = start("--server=frail", "--client=admin")
    run.healthy()
    assert "found a connection to port 2049: client 10.77.7.2, server 10.77.7.1" in run.said
    assert "frail (server) and admin (client): packets come" in run.said
    hosts.kill_sessions("frail", signal.SIGKILL)
    run.wait_for(lambda: "nfslat: frail (server): no packets (" in run.said)
    run.wait_for(lambda: "nfslat: frail (server): packets come again" in run.said)
    run.misses("server")
    run.healthy()
    missing = [row for row in run.rows if row["gap"] == "server"]
    assert missing
    assert {(row["outcome"], row["cause"]) for row in missing} == {("undecided", None)}
    begins = [row["begin"] for row in run.rows]
    assert begins == sorted(begins)
    run.wait_for(lambda: run.rows[-1]["dropped"] is not None)
    assert run.rows[-1]["capture_cpu_percent"] in range(50)
    assert run.ended(signal.SIGINT) == 130
    nothing_stays(hosts)


def test_what_is_sent_to_a_host_fits_into_a_pipe() -> None:
    """So that a host that does not read it cannot hold nfslat up."""
    assert sum(len(_script(name)) for name in (*SCRIPTS, "agent.sh")) < _PIPE_BYTES - 4096


@pytest.mark.long
@pytest.mark.parametrize("killed", ["tcpdump -i", "capture.sh", "sh -s"])
def test_what_is_killed_on_a_host_begins_again(hosts: Hosts, start: Callable[..., Run], killed: str) -> None:
    """tcpdump, the script that looks after it, the shell that was logged in: nothing of the old capture stays, and
    packets come again."""
    run = start("--server=server", "--client=client")
    run.healthy()
    _kill(hosts, killed)
    run.wait_for(lambda: run.said.count("packets come again") == 2)
    run.wait_for(lambda: run.rows[-1]["gap"])
    run.healthy()
    assert sum("tcpdump -i" in line for line in hosts.processes()) == 2
    assert run.ended(signal.SIGINT) == 130


@pytest.mark.long
def test_a_host_that_hangs(hosts: Hosts, start: Callable[..., Run]) -> None:
    """Its sshd stands still: ssh's keepalives find out; the other capture goes on, and it comes again."""
    hosts.sshd("frozen", "client")
    hosts.reachable("frozen")
    run = start("--server=server", "--client=frozen")
    run.healthy()
    hosts.kill_sessions("frozen", signal.SIGSTOP)
    run.wait_for(lambda: "frozen (client): no packets (" in run.said)
    run.wait_for(lambda: "frozen (client): packets come again" in run.said)
    run.misses("client")
    run.healthy()
    hosts.kill_sessions("frozen", signal.SIGCONT)
    assert {row["gap"] for row in run.rows} == {None, "client"}
    assert run.ended(signal.SIGTERM) in (128 + signal.SIGTERM, -signal.SIGTERM)


@pytest.mark.long
def test_a_network_that_is_gone(hosts: Hosts, start: Callable[..., Run]) -> None:
    """Without the network of ssh the host ends its capture by itself within a minute or so, as nobody says that he
    reads; it is asked again and again, and when the network is back packets come."""
    run = start("--server=server", "--client=client")
    run.healthy()
    name = hosts.names["client"]
    subprocess.run(["ip", "-n", name, "link", "set", "mgmt0", "down"], check=True)
    try:
        run.wait_for(lambda: run.said.count("client (client): no packets (") >= 2, 60)
        end = "tcpdump -i nfs0"
        wait_until(lambda: sum(end in line for line in hosts.processes()) == 1, 100.0)
        begin = len(run.rows)
        run.wait_for(lambda: len(run.rows) > begin + 3)
        assert {row["gap"] for row in run.rows[begin:]} == {"client"}
    finally:
        subprocess.run(["ip", "-n", name, "link", "set", "mgmt0", "up"], check=True)
    run.wait_for(lambda: "client (client): packets come again" in run.said, 100)
    run.healthy()
    assert run.ended(signal.SIGINT) == 130


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_nothing_stays_however_it_ends(hosts: Hosts, start: Callable[..., Run], number: int) -> None:
    """On the hosts, nor in the temporary folder where it ends in order."""
    run = start("--server=server", "--client=client")
    run.healthy()
    os.kill(run.process.pid, number)
    run.over()
    nothing_stays(hosts)


@pytest.mark.long
def test_a_capture_that_takes_too_much(hosts: Hosts, start: Callable[..., Run]) -> None:
    """Above --max-cpu fewer bytes of a packet are captured, and where these are the fewest it ends, and says so;
    packets that the kernel dropped stand in the rows."""
    real = shutil.which("tcpdump")
    hungry = script(hosts.folder / "hungry", _HUNGRY.format(real=hosts.folder / "real-tcpdump"))
    shutil.copy(real or "", hosts.folder / "real-tcpdump")
    hosts.sshd("hungry", "server", mounts=f"mount --bind {hungry} {real}")
    hosts.reachable("hungry")
    run = start("--server=hungry", "--client=client", "--max-cpu=5")
    run.wait_for(lambda: " are allowed, with 256 bytes" in run.said, 120)
    assert run.over() == 3
    assert "hungry (server): 512 bytes of a packet from now on instead of whole packets" in run.said
    assert "hungry (server): 256 bytes of a packet from now on instead of 512 bytes of a packet" in run.said
    assert " % of a processor, and 5 are allowed, with 256 bytes of a packet" in run.said.splitlines()[-1]
    assert {row["dropped"] for row in run.rows} >= {None, 7}


@pytest.mark.long
def test_a_host_that_reboots(hosts: Hosts, start: Callable[..., Run]) -> None:
    """It is gone without a word, with all that ran there and was in its memory; sshd comes back later. That is said,
    and packets come again, of the connections that the client has then."""
    hosts.sshd("phoenix", "client")
    hosts.reachable("phoenix")
    run = start("--server=server", "--client=phoenix")
    run.healthy()
    name = hosts.names["client"]
    subprocess.run(["ip", "-n", name, "link", "set", "mgmt0", "down"], check=True)
    hosts.kill_all("client")
    for left in hosts.memory.iterdir():
        shutil.rmtree(left, ignore_errors=True)
    run.wait_for(lambda: run.said.count("phoenix (client): no packets (") >= 2)
    subprocess.run(["ip", "-n", name, "link", "set", "mgmt0", "up"], check=True)
    run.wait_for(lambda: "refuses the connection" in run.said)
    for alias in ("client", "phoenix"):
        hosts.again(alias, "client")
    hosts.nfs("client", "call", "10.77.7.1")
    run.wait_for(lambda: "phoenix (client): packets come again" in run.said, 100)
    run.healthy()
    assert {row["gap"] for row in run.rows} == {None, "client"}
    assert run.ended(signal.SIGINT) == 130


@pytest.mark.long
def test_a_host_key_that_changes(hosts: Hosts, start: Callable[..., Run]) -> None:
    """Another host may answer in its place: it is not captured, that is said, and when the key is right again, or was
    accepted, packets come."""
    hosts.sshd("renewed", "server")
    hosts.reachable("renewed")
    run = start("--server=renewed", "--client=client")
    run.healthy()
    known = hosts.folder / "known_hosts"
    right = known.read_text()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(hosts.folder / "other_key")], check=True)
    kind, other, *_ = (hosts.folder / "other_key.pub").read_text().split()
    port = f"]:{hosts.port('renewed')} "
    known.write_text(
        "".join(
            f"{line.partition(' ')[0]} {kind} {other}\n" if port in line else line
            for line in right.splitlines(keepends=True)
        )
    )
    try:
        hosts.kill_sessions("renewed", signal.SIGKILL)
        run.wait_for(lambda: "renewed (server) shows another host key than before; find out why" in run.said)
        run.misses("server")
    finally:
        known.write_text(right)
    run.wait_for(lambda: "renewed (server): packets come again" in run.said)
    run.healthy()
    assert run.ended(signal.SIGINT) == 130


@pytest.mark.long
def test_a_disk_that_is_full_there(hosts: Hosts, start: Callable[..., Run]) -> None:
    """Packets come all the same, as nothing is written there. After the connection was lost there is no room for the
    scripts, which is said, and it begins again when there is."""
    small = hosts.folder / "small"
    small.mkdir()
    places = ("/dev/shm", str(hosts.temporary), "/var/tmp")  # noqa: S108 - of the host
    mounts = f"mount -t tmpfs -o size=256k,mode=1777 none {small}\n"
    hosts.sshd("narrow", "server", mounts=mounts + "\n".join(f"mount --bind {small} {place}" for place in places))
    hosts.reachable("narrow")
    run = start("--server=narrow", "--client=client")
    run.healthy()
    # What is freed is taken at once.
    fill = f"cd {small}; >go; while [ -f go ]; do cat /dev/zero >>fill; sleep 0.1; done 2>/dev/null; rm fill"
    ssh = ["ssh", "-F", str(hosts.config), "narrow"]
    with subprocess.Popen([*ssh, fill]):
        rows = len(run.rows)
        run.wait_for(lambda: len(run.rows) > rows + 12)  # a beat lies in between
        assert {row["gap"] for row in run.rows} == {None}
        _kill(hosts, "capture.sh")
        run.wait_for(lambda: "narrow (server): no packets (cannot write in " in run.said)
        run.misses("server")
        subprocess.run([*ssh, f"rm {small}/go"], check=True)
    run.wait_for(lambda: "narrow (server): packets come again" in run.said)
    run.healthy()
    assert run.ended(signal.SIGINT) == 130


@pytest.mark.long
def test_an_interface_that_goes(hosts: Hosts, start: Callable[..., Run]) -> None:
    """tcpdump ends with it; when it is there again, so are packets."""
    run = start("--server=server", "--client=client")
    run.healthy()
    name = hosts.names["client"]
    other = f"{name}x"[-15:]
    subprocess.run(["ip", "-n", name, "link", "set", "nfs0", "netns", "1", "name", other], check=True)
    try:
        run.wait_for(lambda: run.said.count("client (client): no packets (") >= 2)
    finally:
        for words in (
            ["ip", "link", "set", other, "netns", name, "name", "nfs0"],
            ["ip", "-n", name, "addr", "add", "10.77.7.2/24", "dev", "nfs0"],
            ["ip", "-n", name, "addr", "add", "fd77::2/64", "dev", "nfs0", "nodad"],
            ["ip", "-n", name, "link", "set", "nfs0", "up"],
        ):
            subprocess.run(words, check=True)
    run.wait_for(lambda: "client (client): packets come again" in run.said)
    run.healthy()
    assert run.ended(signal.SIGINT) == 130


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tc") is None, reason="tc is not installed")
def test_a_link_that_becomes_slow(hosts: Hosts, start: Callable[..., Run]) -> None:
    """Slower than packets come: rows say how far they are behind, and what the kernel dropped meanwhile; no cause is
    made of it, and when the link is well again, so are the rows."""
    run = start("--server=server", "--client=client")
    run.healthy()
    tc = ["tc", "-n", hosts.names["client"], "qdisc"]
    # Some 340 kB/s of packets come.
    subprocess.run([*tc, "add", "dev", "mgmt0", *"root tbf rate 800kbit burst 16k latency 500ms".split()], check=True)
    try:
        run.wait_for(lambda: run.rows[-1]["lag_s"] > 6, 90)
    finally:
        subprocess.run([*tc, "del", "dev", "mgmt0", "root"], check=True)
    rows = len(run.rows)
    run.wait_for(lambda: len(run.rows) > rows + 5 and run.rows[-1]["lag_s"] < 4, 90)
    run.healthy()
    assert {row["cause"] for row in run.rows if row["confidence"] != "low"} == {None}
    assert run.ended(signal.SIGINT) == 130


@pytest.mark.long
def test_several_clients(hosts: Hosts, start: Callable[..., Run]) -> None:
    """Each has rows of its own with the same server, which is captured once; where one is lost the other goes on."""
    hosts.third()
    hosts.reachable("third")
    hosts.nfs("third", "call", "10.77.7.1")
    run = start("--server=server", "--client=client,third")
    wholes: list[dict[str, Any]] = []

    def seen(*clients: str) -> bool:
        wholes[:] = [row for row in run.rows if row["schema"] == "nfslat.live.all/1"]
        last = {row["client"]: row for row in run.rows if "client" in row}
        return bool(wholes) and all(one in last and last[one]["matched"] > 20 for one in clients)

    run.wait_for(lambda: seen("client", "third"))
    assert "server (server), client (client) and third (client): packets come" in run.said
    assert sum("tcpdump -i" in line for line in hosts.processes()) == 3
    run.wait_for(lambda: seen() and wholes[-1]["clients"] == ["client", "third"])
    hosts.kill_sessions("third", signal.SIGKILL)
    run.wait_for(lambda: "third (client): no packets (" in run.said)
    run.wait_for(lambda: "third (client): packets come again" in run.said)
    run.wait_for(lambda: any(row.get("gap") for row in run.rows))
    run.wait_for(lambda: seen("client", "third"))
    assert {row["client"] for row in run.rows if row.get("gap")} == {"third"}
    assert run.ended(signal.SIGINT) == 130


def test_what_cannot_begin_is_refused(hosts: Hosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for `nfslat capture`, in a line, before anything is captured."""
    hosts.sshd("bare", "client", mounts=f"mount --bind /dev/null {shutil.which('tcpdump')}")
    hosts.reachable("bare")
    for words, status, problem in (
        (["--server=server", "--client=bare"], 3, "bare (client): there is no tcpdump; install tcpdump there"),
        (["--server=server", "--client=server"], 2, "--server server and --client server are the same machine"),
        (["--server=server", "--client=client", "--port=2050"], 3, "there is no NFS connection between server and"),
        (["--server=server", "--client=nosuchhost.invalid"], 3, "nosuchhost.invalid (client) is not known by that"),
        (["--server=server", "--client=client", "--server-interface=no0"], 1, "there is no interface no0"),
    ):
        assert cli.main(["live", "--ssh", hosts.ssh, *words]) in (status, 3)
        assert problem in capsys.readouterr().err.splitlines()[-1]
    nothing_stays(hosts)
