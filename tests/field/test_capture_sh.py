"""scripts/capture.sh, with the real tcpdump between two network namespaces that speak NFS, and all that can fail."""

from __future__ import annotations

import io
import ipaddress
import json
import os
import pwd
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nfs_traffic
import pytest
import wire

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "capture.sh"
TRAFFIC = Path(nfs_traffic.__file__)
A, B = "10.207.0.1", "10.207.0.2"  # client and server
NAMES = {"facts.txt", "before.txt", "after.txt", "clock.txt", "counters.txt", "tcpdump.txt"}

USER = next((one.pw_name for one in pwd.getpwall() if one.pw_name in ("tcpdump", "_tcpdump", "pcap")), "root")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: no network namespaces, no capture")
needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("ip", "tcpdump", "unshare", "mount", "setpriv"))),
    reason="ip, tcpdump, unshare, mount and setpriv are not all installed",
)
pytestmark = [needs_root, needs_tools]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Hosts:
    """Two namespaces, joined by a cable, with NFS on it."""

    client: str
    server: str


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """The namespaces; some 80 READs a second, of which the server takes 2 ms each, run between them."""
    name = f"nfslat{os.getpid()}"
    both = Hosts(f"{name}a", f"{name}b")
    running: list[subprocess.Popen[bytes]] = []
    try:
        for space in (both.client, both.server):
            subprocess.run(["ip", "netns", "add", space], check=True, capture_output=True)
        _ip("-n", both.client, "link", "add", "eth7", "type", "veth", "peer", "name", "eth7", "netns", both.server)
        for space, last in ((both.client, 1), (both.server, 2)):
            for line in (
                "link set lo up",
                "link set eth7 up",
                f"addr add 10.207.0.{last}/24 dev eth7",
                f"addr add fd00:207::{last}/64 dev eth7 nodad",
            ):
                _ip("-n", space, *line.split())
        for address in (B, "fd00:207::2"):
            running.append(_program(both.server, "serve", address))
            running.append(_program(both.client, "call", address))
        _wait_for_traffic(both.client)
        yield both
    finally:
        for process in running:
            process.kill()
            process.communicate()
        for space in (both.client, both.server):
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)


def _program(space: str, what: str, address: str) -> subprocess.Popen[bytes]:
    command = ["ip", "netns", "exec", space, sys.executable, str(TRAFFIC), what, address]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait_for_traffic(space: str) -> None:
    command = ["ip", "netns", "exec", space, "ss", "-tn", "state", "established"]
    for _ in range(200):
        if subprocess.run(command, check=True, capture_output=True, text=True).stdout.count(":2049") == 2:
            return
        time.sleep(0.05)
    pytest.fail("the hosts do not talk")


@dataclass
class Run:
    """One run of the script, in a namespace, with a folder for its files that has to be empty in the end."""

    process: subprocess.Popen[bytes]
    folder: Path
    out: Path

    @classmethod
    def start(
        cls,
        space: str,
        tmp_path: Path,
        *arguments: str,
        name: str = "run",
        interpreter: str = "sh",
        prepare: str = ":",
        path: Path | None = None,
        program: tuple[str, ...] = (),
        peer: str = B,
    ) -> Run:
        """`prepare` are sh commands before it, in a mount namespace of their own; `path` comes first in PATH."""
        folder = tmp_path / f"{name}.d"
        folder.mkdir()
        out = tmp_path / f"{name}.tar"
        words = [
            *program,
            *interpreter.split(),
            str(SCRIPT),
            "--peer",
            peer,
            "--dir",
            str(folder),
            "--out",
            str(out),
            *arguments,
        ]
        words = ["unshare", "-m", "sh", "-c", f'{prepare}; exec "$@"', "sh", *words]
        if space:
            words = ["ip", "netns", "exec", space, *words]
        environment = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
        pipe = subprocess.PIPE
        return cls(subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, stderr=pipe), folder, out)

    def wait_for_capture(self) -> None:
        """Until tcpdump listens."""
        for _ in range(200):
            if any("listening" in path.read_text() for path in self.folder.glob("*/tcpdump.txt")):
                return
            time.sleep(0.05)
        pytest.fail("it never began")

    def end(self, status: int, *said: str) -> str:
        """What it said, after it ended with this status, said these words, and left nothing behind."""
        out, errors = self.process.communicate(timeout=60)
        text = errors.decode()
        assert self.process.returncode == status, text
        assert [word for word in said if word not in text] == [], text
        if status not in (0, 3):
            assert not self.out.exists()
        self.left_nothing()
        return text or out.decode()

    def left_nothing(self) -> None:
        assert list(self.folder.iterdir()) == []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                place = os.readlink(entry.with_name("cwd"))
            except OSError:  # it has just ended
                continue
            assert f"{self.folder}/" not in f"{command} {place}"

    @property
    def tar(self) -> dict[str, bytes]:
        return _unpacked(self.out.read_bytes())

    @property
    def facts(self) -> dict[str, str]:
        return _facts(self.tar["facts.txt"])


def _unpacked(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {member.name: tar.extractfile(member) for member in tar.getmembers()}
    return {name: file.read() for name, file in found.items() if file is not None}


def _facts(data: bytes) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in data.decode().splitlines())


def _frames(pcap: bytes) -> list[bytes]:
    """The captured bytes of each packet of a nanosecond pcap of this machine's byte order."""
    assert struct.unpack_from("=I", pcap) == (0xA1B23C4D,)
    out, at = [], 24
    while at < len(pcap):
        (length,) = struct.unpack_from("=I", pcap, at + 8)
        out.append(pcap[at + 16 : at + 16 + length])
        at += 16 + length
    return out


def _hidden(*names: str) -> str:
    """sh commands that make these programs vanish in a mount namespace."""
    places = " ".join(f"/{folder}/{name}" for folder in ("usr/bin", "usr/sbin", "bin", "sbin") for name in names)
    return f'for f in {places}; do [ ! -e "$f" ] || mount --bind /dev/null "$f"; done'


# Counters of one connection that grow evenly, as ss prints them.
_SS = """#!/bin/sh
case $* in *-tin*) ;; *) exit ;; esac
awk '{
    print "0 0 10.207.0.1:800 10.207.0.2:2049"
    printf "\\t cubic segs_in:%.0f segs_out:0 bytes_sent:%.0f\\n", $1 * PPS, $1 * BPS
}' /proc/uptime
"""
# A capture tool that writes a file, and prints its counts when it is interrupted. A script could not: what a shell
# starts in the background ignores SIGINT, and another shell must leave it at that.
_TOOL = f"""#!{sys.executable}
import signal, sys, time

def end(*_):
    print("SEEN packets received by filter\\n0 packets dropped by kernel", file=sys.stderr)
    sys.exit()

signal.signal(signal.SIGINT, end)
if "--help" not in sys.argv and sys.argv[-2] != "-d":
    print("tool: listening on it", file=sys.stderr, flush=True)
    open(next(word for at, word in zip(sys.argv, sys.argv[1:]) if at in ("-w", "-o")), "a").write(repr(sys.argv))
    time.sleep(60)
"""
# What whoever had taken a tcpdump over would leave for root to find.
_PLANTS = """
    import os
    for name in ("capture.pcap --to-command=id", "capture.pcap7\\n", "other"):
        open(name, "w").close()
    os.symlink("/etc/passwd", "capture.pcap8")
    os.mkfifo("capture.pcap9")
    time.sleep(60)
"""


def _fake(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)


# What TCP counts in a second, what tcpdump sees of it, and the exit status and words that come of that. 10 Gbit/s of
# large READs are segments by the hundred thousand, but few packets for tcpdump to take.
_LOADS = {
    "large": (850_000, 1_200_000_000, 30_000, 0, " NFS packets/s, "),
    "many": (
        190_000,
        190_000_000,
        190_000,
        0,
        " bytes of a packet instead of whole packets, or it would be more than 50",
    ),
    "small": (900_000, 90_000_000, 900_000, 4, "capturing would slow it down"),
}
_SIGNALS = {"INT": 3, "HUP": 129, "KILL": -signal.SIGKILL, "TERM": 3, "EOF": 129}
_BY_NIGHT = ("bash", "several", "busybox", "TERM", "EOF")  # as others, in another shell or by another name
_BARE = ("ip", "ss", "mktemp", "netstat", "getent", "timeout", "ethtool")


@pytest.fixture(scope="module")
def runs(
    hosts: Hosts, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[dict[str, Run]]:
    """Captures of a second, and some of a minute that are to be ended: all at the same time, for they mostly wait."""
    place = tmp_path_factory.mktemp("runs")
    started: dict[str, Run] = {}

    def start(name: str, space: str, *arguments: str, seconds: int = 1, **more: Any) -> None:
        if pytestconfig.option.long or name not in _BY_NIGHT:
            started[name] = Run.start(space, place, "--seconds", str(seconds), *arguments, name=name, **more)

    # Both are to be under way together, however slow the machine, before it has the others to run.
    for name, space, more in (("server", hosts.server, ()), ("client", hosts.client, ("--side", "client"))):
        start(name, space, *more, seconds=6, peer=A if name == "server" else B)
    for run in started.values():
        run.wait_for_capture()
    start("all peers", hosts.server, "--all-peers", peer=A)
    start("ring", hosts.server, "--max-mb", "20", "--out", "-", "--yes", peer="any")
    start("bare", hosts.client, prepare=_hidden(*_BARE))
    start("bash", hosts.client, interpreter="bash --posix", peer="fd00:207::2")
    start("self", hosts.server, peer=B)
    start("several", hosts.server, peer=f"{A},127.0.0.1")
    if shutil.which("busybox"):
        start("busybox", hosts.client, interpreter="busybox sh")
    tools = place / "sudo-tools"
    _fake(tools, "id", "#!/bin/sh\necho 1000\n")
    _fake(tools, "sudo", '#!/bin/sh\nshift\nPATH=/usr/sbin:/usr/bin:/sbin:/bin exec "$@"\n')
    start("it's one", hosts.client, "--sudo", path=tools)
    users = place / "passwd"
    users.write_text("root:x:0:0::/root:/bin/sh\n")
    start("no user", hosts.client, prepare=f"mount --bind {users} /etc/passwd")
    _fake(place / "planting-tools", "tcpdump", _TOOL.replace("SEEN", "9").replace("    time.sleep(60)", _PLANTS))
    start("planting", hosts.client, path=place / "planting-tools")
    for name, (pps, bps, seen, _, _) in _LOADS.items():
        tools = place / f"{name}-tools"
        _fake(tools, "ss", _SS.replace("PPS", str(pps)).replace("BPS", str(bps)))
        _fake(tools, "tcpdump", _TOOL.replace("SEEN", str(seen)))
        start(name, hosts.client, "--keep-free-mb", "1", path=tools)
    tools = place / "solaris-tools"
    _fake(tools, "uname", "#!/bin/sh\ncase $1 in -s) echo SunOS ;; -n) echo sol ;; *) echo 5.11 ;; esac\n")
    _fake(tools, "route", "#!/bin/sh\nprintf '   route to: %s\\n  interface: net0\\n' \"$4\"\n")
    _fake(tools, "snoop", _TOOL)
    start("solaris", hosts.client, "--max-mb", "1", path=tools, prepare=_hidden("tcpdump"), peer=f"{A},{B}")
    for name in _SIGNALS:
        start(name, hosts.client, *(["--watch-stdin"] * (name == "EOF")), seconds=50)
    mounted = "mount -t tmpfs -o size={size} none {folder}"
    start("full", hosts.client, prepare=mounted.format(size="2m", folder=place / "full.d"))
    folder = place / "filling.d"
    fill = (
        f"{{ while ! grep -q listening {folder}/*/tcpdump.txt; do sleep 0.2; done; "
        f"head -c 24000000 /dev/zero >{folder}/zero; }} >/dev/null 2>&1 & true"
    )
    prepare = f"{mounted.format(size='32m', folder=folder)}; {fill}"
    start("filling", hosts.client, "--keep-free-mb", "10", seconds=40, prepare=prepare)
    yield started
    for run in started.values():
        if run.process.poll() is None:  # not all tests ran
            run.process.terminate()
        with run.process:
            pass


def test_a_pair(runs: dict[str, Run], tmp_path: Path) -> None:
    """Both hosts captured at once: two tars, which hold what they are said to, and nfslat reads the pair."""
    server, client = runs["server"], runs["client"]
    server.end(0, "eth7 of", "NFS packets/s", "done: ")
    client.end(0)
    for side, run, peer in (("server", server, A), ("client", client, B)):
        tar, facts = run.tar, run.facts
        assert set(tar) == NAMES | {"capture.pcap"}
        frames = _frames(tar["capture.pcap"])
        assert (facts["format"], facts["side"], facts["interface"]) == ("nfslat-capture 1", side, "eth7")
        assert (facts["addresses"], facts["snaplen"], facts["end_reason"]) == (peer, "0", "time")
        assert facts["packets_captured"] == str(len(frames))
        assert facts["packets_dropped_kernel"] == "0"
        assert 50 < int(facts["connections_packets_per_s"]) == int(facts["packets_per_s"])
        assert "interface_rx_dropped" in facts
        assert {"softnet_dropped", "load_before", "cpu_idle_percent"} <= set(facts)
        assert facts["started"] < facts["ended"]
        assert len(facts["started"]) == len("2000-01-01T00:00:00.000000000Z")
        assert tar["before.txt"].startswith(b"# nfslat snapshot 1")
        assert b"nfslat: end" in tar["after.txt"]
        assert tar["clock.txt"].count(b"date: ") == 2
        assert b"listening on eth7" in tar["tcpdump.txt"]
        assert all(b"\x08\x01" not in frame[12:14] for frame in frames)  # nothing but IP
        (tmp_path / f"{side}.pcap").write_bytes(tar["capture.pcap"])
    report = tmp_path / "report.json"
    files = [str(tmp_path / f"{side}.pcap") for side in ("server", "client")]
    command = [sys.executable, "-m", "nfslat", *files, "--json", str(report)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(report.read_text())
    assert verdict["verdict"]["largest_layer"] == "server"


def test_all_peers(runs: dict[str, Run]) -> None:
    """The interface is that towards the peer; the packets, and their measured rate, are everybody's there."""
    run = runs["all peers"]
    run.end(0)
    facts = run.facts
    assert (facts["interface"], facts["peers"], facts.get("addresses")) == ("eth7", A, None)
    # The client's other address is another host to the script.
    assert {frame[12:14] for frame in _frames(run.tar["capture.pcap"])} == {b"\x08\x00", b"\x86\xdd"}


def test_signals(runs: dict[str, Run]) -> None:
    """Ctrl-C and kill give the tar with what there is; a caller that has gone gets none; SIGKILL leaves nothing."""
    ended = {name: runs[name] for name in _SIGNALS if name in runs}
    for run in ended.values():
        run.wait_for_capture()
    for name, run in ended.items():
        assert run.process.poll() is None
        if name == "EOF":
            assert run.process.stdin is not None
            run.process.stdin.close()
            run.process.stdin = None
        else:
            run.process.send_signal(getattr(signal, f"SIG{name}"))
    for name in {"INT", "TERM"} & ended.keys():
        runs[name].end(3, "ended early")
        assert runs[name].facts["end_reason"] == "interrupted"
        assert runs[name].facts["packets_captured"] == str(len(_frames(runs[name].tar["capture.pcap"])))
    for name in {"HUP", "EOF"} & ended.keys():
        runs[name].end(_SIGNALS[name])
    runs["KILL"].process.wait()
    for _ in range(100):
        if not list(runs["KILL"].folder.iterdir()):
            break
        time.sleep(0.1)
    runs["KILL"].end(_SIGNALS["KILL"])


def test_disk(runs: dict[str, Run]) -> None:
    """It refuses a disk that is full, and stops in front of the limit where something fills the disk meanwhile."""
    full, filling = runs["full"], runs["filling"]
    full.end(4, "MB free", "--keep-free-mb")
    filling.end(3, "before the disk of")
    assert filling.facts["end_reason"] == "disk"


def test_ring_and_stream(runs: dict[str, Run]) -> None:
    """With --max-mb it is a ring of files; "--out -" is the same tar on standard output, and nothing else is on it."""
    run = runs["ring"]
    out, errors = run.process.communicate(timeout=60)
    assert run.process.returncode == 0, errors.decode()
    assert not run.out.exists()
    run.left_nothing()
    tar = _unpacked(out)
    facts = _facts(tar["facts.txt"])
    assert set(tar) == NAMES | {"capture.pcap0"}
    assert facts["files"] == "capture.pcap0"
    assert f" -Z {USER} " in facts["command"]
    assert " -C 2 -W 10 " in facts["command"]
    assert facts["peers"] == "any"
    assert int(facts["packets_captured"]) == len(_frames(tar["capture.pcap0"]))


def test_filter(hosts: Hosts, tmp_path: Path) -> None:
    """Fragments of large datagrams and tagged frames are kept; what is not NFS, or of other hosts, is not."""
    # At the sender, where a tag is a part of the frame; at a receiver the kernel takes it off before the filter runs.
    run = Run.start(hosts.client, tmp_path, "--seconds", "1", peer=f"{B},10.208.0.1,fd00:208::1")
    frames: list[wire.Seen] = []
    nowhere = "10.208.0.2"  # so that nobody answers
    for host, there, port, vlan in (
        ("10.208.0.1", nowhere, 2049, None),
        ("10.208.0.1", nowhere, 2049, 5),
        ("fd00:208::1", "fd00:208::2", 2049, None),
        ("10.208.0.1", nowhere, 111, 5),
        ("10.208.0.3", nowhere, 2049, None),
    ):
        datagrams = wire.Udp(client=(host, 700), server=(there, port), vlan=vlan)
        datagrams.send(0, ">", wire.write(7, 0, 4000), mtu=1500 if port == 2049 else 9000)
        stream = wire.Tcp(client=(host, 800), server=(there, port), vlan=vlan)
        stream.send(0, ">", wire.getattr3(8))
        frames += datagrams.seen_by("client") + stream.seen_by("client")
    program = (
        "import socket, sys\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind(('eth7', 0))\n"
        "for line in sys.stdin: s.send(bytes.fromhex(line))"
    )
    lines = "".join(f"{one.frame.hex()}\n" for one in frames if len(one.frame) <= 1518)
    run.wait_for_capture()
    command = ["ip", "netns", "exec", hosts.client, sys.executable, "-c", program]
    subprocess.run(command, input=lines.encode(), check=True)
    run.end(0)
    kinds: dict[bytes, list[int]] = {}
    for frame in _frames(run.tar["capture.pcap"]):
        tag = 4 * (frame[12:14] == b"\x81\x00")
        address = frame[26 + tag : 28 + tag]
        protocol = frame[20] if frame[12:14] == b"\x86\xdd" else frame[23 + tag]
        if (ipaddress.ip_address(A).packed) not in frame[26:34]:
            kinds.setdefault(frame[12:14] + address, []).append(protocol)
    udp, tcp, fragment = 17, 6, 44
    sent = bytes([10, 208])
    # 4,000 bytes are three fragments.
    assert kinds.pop(b"\x08\x00" + sent) == [udp, udp, udp, tcp]
    assert kinds.pop(b"\x81\x00" + sent) == [udp, udp, udp, tcp]
    assert list(kinds.values()) == [[fragment, fragment, fragment, tcp]]


def test_odd_systems(runs: dict[str, Run]) -> None:
    """Without ip, ss and mktemp, with IPv6, with other shells, and as the peer of itself it still works."""
    said = {
        "bare": "eth7 of",
        "bash": "eth7 of",
        "self": "capturing on lo",
        "several": "behind several interfaces: eth7 lo",
        "busybox": "eth7 of",
    }
    odd = {name: runs[name] for name in said if name in runs}
    for name, run in odd.items():
        run.end(0, said[name])
    bare, own = (odd[name].facts for name in ("bare", "self"))
    assert (bare["interface"], bare["measured_from"]) == ("eth7", "interface")
    assert (own["interface"], own["packets_captured"]) == ("lo", "0")
    if "several" in odd:
        several = odd["several"].facts
        assert several["interface"] == "any"
        assert int(several["packets_captured"]) > 20
    for name in odd.keys() - {"self", "several"}:
        assert len(_frames(odd[name].tar["capture.pcap"])) > 20


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--interface", "eth9"], 1, "there is no interface eth9 on"),
        (["--peer", "nowhere.invalid"], 1, "does not know the host nowhere.invalid"),
        (["--peer", "203.0.113.9"], 0, "no route to 203.0.113.9"),
        (["--peer", "$(reboot)"], 2, "odd characters"),
        (["--seconds", "soon"], 2, "takes a whole number"),
        (["--seconds"], 2, "needs a value"),
        (["--seconds", "08"], 2, "takes a whole number"),
        (["--side", "left"], 2, "server or client"),
        (["--port", "nfs"], 2, "takes ports"),
        (["--snaplen", "60"], 2, "shows no RPC"),
        (["--dir", "/nowhere"], 1, "cannot write in the folder"),
        (["--out", "/nowhere/x.tar"], 1, "cannot write in /nowhere"),
        (["--rubbish"], 2, "--help"),
    ],
)
def test_wrong_arguments(hosts: Hosts, tmp_path: Path, arguments: list[str], status: int, said: str) -> None:
    """What cannot be meant is one line, and nothing is captured."""
    peer = "203.0.113.9" if "203.0.113.9" in arguments else B
    run = Run.start(hosts.client, tmp_path, "--seconds", "1", *arguments, peer=peer)
    text = run.end(1 if peer != B else status, said)
    assert text.splitlines()[-1].startswith("nfslat: ")


def test_no_tcpdump(hosts: Hosts, tmp_path: Path) -> None:
    """Without tcpdump it names the package."""
    Run.start(hosts.client, tmp_path, prepare=_hidden("tcpdump", "snoop")).end(6, "apt-get install tcpdump")


def test_an_existing_file_is_kept(hosts: Hosts, tmp_path: Path) -> None:
    """The tar of an earlier incident is not overwritten."""
    (tmp_path / "run.tar").write_text("old")
    process = Run.start(hosts.client, tmp_path).process
    assert b"is there already" in process.communicate()[1]
    assert process.returncode == 1
    assert (tmp_path / "run.tar").read_text() == "old"


def test_a_link_is_not_followed(hosts: Hosts, tmp_path: Path) -> None:
    """Root does not write where somebody's link leads, be it to nothing, or to a file that --force would overwrite."""
    victim = tmp_path / "victim"
    for name, text in (("run", None), ("forced", "precious")):
        if text is not None:
            victim.write_text(text)
        (tmp_path / f"{name}.tar").symlink_to(victim)
        process = Run.start(hosts.client, tmp_path, *(["--force"] if text else []), name=name).process
        assert b"is a link; name the file itself" in process.communicate()[1]
        assert process.returncode == 1
        assert (victim.read_text() if victim.exists() else None) == text


def test_a_name_that_is_taken_meanwhile(hosts: Hosts, tmp_path: Path) -> None:
    """What appears under the tar's name while packets are captured is not written to, and replaced only by --force."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name, arguments in (("run", []), ("forced", ["--force"])):
        run = Run.start(hosts.client, tmp_path, "--seconds", "2", *arguments, name=name)
        run.wait_for_capture()
        run.out.symlink_to(victim)
        text = run.process.communicate(timeout=60)[1].decode()
        assert run.process.returncode == 0, text
        kept = Path(text.rpartition("done: ")[2].strip())
        assert (kept == run.out, run.out.is_symlink()) == (bool(arguments), not arguments)
        with tarfile.open(kept) as tar:
            assert "capture.pcap" in tar.getnames()
        assert victim.read_text() == "precious"
        assert not list(tmp_path.glob(".nfslat*"))


def test_without_root(hosts: Hosts) -> None:
    """Others are told what they need, by sudo or by a capability; --measure needs nothing."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o777)
        for script in ("capture.sh", "snapshot.sh"):
            shutil.copy(SCRIPT.with_name(script), place / script)
        _fake(place / "no", "sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n")

        def run(*arguments: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
            others = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            command = ["ip", "netns", "exec", hosts.client, *others, "sh", str(place / "capture.sh"), "--peer", B]
            command += ["--dir", str(place), "--out", str(place / "x.tar"), *arguments]
            return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False, cwd="/")

        kept = {"capture.sh", "snapshot.sh", "no"}
        refused = run()
        assert refused.returncode == 5
        assert "needs root (--sudo), or: setcap cap_net_raw" in refused.stderr
        password = run("--sudo", path=f"{place / 'no'}:/usr/bin:/bin")
        assert password.returncode == 5
        assert "a password is required" in password.stderr
        assert len(refused.stderr.splitlines()) == len(password.stderr.splitlines()) == 1
        measured = run("--measure", "1")
        facts = _facts(measured.stdout.encode())
        assert (measured.returncode, facts["side"], facts["measured_from"]) == (0, "client", "connections")
        assert facts["tool"] == "tcpdump"
        assert int(facts["disk_free_mb"]) > 0
        assert int(facts["packets_per_s"]) > 50
        assert {path.name for path in place.iterdir()} == kept


def test_sudo(runs: dict[str, Run]) -> None:
    """--sudo starts the whole again as root, whatever the names of files are."""
    run = runs["it's one"]
    run.end(0, "done: ")
    assert f"-Z {USER}" in run.facts["command"]


@pytest.mark.skipif(USER == "root", reason="tcpdump has no user of its own here")
def test_tcpdump_gives_up_root(hosts: Hosts, tmp_path: Path) -> None:
    """While it captures it has neither root's ids nor a capability, in a folder below one that is root's alone; the
    files are root's again when they are in the tar."""
    tmp_path.chmod(0o700)
    run = Run.start(hosts.client, tmp_path, "--seconds", "40", "--max-mb", "2")
    run.wait_for_capture()
    found = [entry.parent for entry in Path("/proc").glob("[0-9]*/cwd") if _leads(entry, run.folder)]
    for _ in range(100):
        found = [entry.parent for entry in Path("/proc").glob("[0-9]*/cwd") if _leads(entry, run.folder)]
        if found and all("\nCapEff:\t0000000000000000\n" in (one / "status").read_text() for one in found):
            break
        time.sleep(0.05)
    (process,) = found
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    uid = pwd.getpwnam(USER).pw_uid
    assert (status["Name"], status["Uid"].split(), int(status["CapEff"], 16)) == ("tcpdump", [str(uid)] * 4, 0)
    run.process.send_signal(signal.SIGINT)
    run.end(3, "ended early")
    with tarfile.open(run.out) as tar:
        assert {member.uid for member in tar.getmembers()} == {0}
        assert "capture.pcap0" in tar.getnames()


def _leads(link: Path, folder: Path) -> bool:
    try:
        return os.readlink(link).startswith(f"{folder}/")
    except OSError:  # it has just ended
        return False


def test_without_a_user_tcpdump_stays_root(runs: dict[str, Run]) -> None:
    """Where no package made one; nobody's files would be in many hands."""
    run = runs["no user"]
    run.end(0)
    assert "-Z root" in run.facts["command"]
    assert int(run.facts["packets_captured"]) > 20


def test_what_else_lies_in_the_folder_of_packets_is_left(runs: dict[str, Run]) -> None:
    """Neither options for tar in the names of files, nor links or pipes, get into root's hands."""
    run = runs["planting"]
    run.end(0)
    assert set(run.tar) == NAMES | {"capture.pcap"}
    assert run.facts["files"] == "capture.pcap"


def test_cost(runs: dict[str, Run]) -> None:
    """Before it would slow the host down the snaplen is lowered, or it refuses; few large packets are no problem."""
    for name, (*_, seen, status, said) in _LOADS.items():
        runs[name].end(status, said)
        if status == 0:
            assert 0.3 * seen < int(runs[name].facts["trial_packets_per_s"]) < 1.1 * seen
    # The more of the trial's second a busy machine takes for itself, the fewer packets there seem to be.
    pps = min(int(runs["many"].facts[f"{what}packets_per_s"]) for what in ("", "trial_"))
    fitting = next(size for size in ("512", "256") if pps * (int(size) + 16) // 1024 <= 50 * 1024)
    assert [runs[name].facts["snaplen"] for name in ("large", "many")] == ["512", fitting]


def test_solaris(runs: dict[str, Run]) -> None:
    """Where there is snoop and no tcpdump, snoop captures; that its options are these is from its manual page only."""
    run = runs["solaris"]
    run.end(0, "net0 of sol")
    command = run.facts["command"]
    assert command.startswith("snoop -q -P -d net0 -s 512 -c 1957 -o ")
    assert command.endswith(f"/capture.pcap ( host {A} or host {B} ) and port 2049")
    assert (run.facts["system"], run.facts["files"]) == ("SunOS", "capture.pcap")
