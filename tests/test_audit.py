"""Whole runs on captures with one thing wrong: the audit names it, counts it, and names nothing else."""

from __future__ import annotations

import dataclasses
import gzip
import ipaddress
import json
import re
import struct
import subprocess
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import wire
from captures import WITH_NFS, Decoder, id_of, most_by_night

from nfslat.cli import main as cli
from nfslat.decode.engine import choose
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.audit.capture import capture_notes
from nfslat.figures.audit.pair import pair_notes
from nfslat.pipeline import analyse, correlate
from nfslat.select import Filters
from nfslat.tally.captures import CaptureTally

pytestmark = pytest.mark.usefixtures("engine")

SAMPLES = Path(__file__).parents[1] / "samples"
SERVER = SAMPLES / "server-threads" / "server.pcap.gz"
CLIENT = SAMPLES / "server-threads" / "client.pcap.gz"
OPS = 100
ON_THE_CLOCKS = {"clock-step", "clock-drift", "clock-unknown"}
FACTS = {"capture-snaplen", "capture-offload", "capture-no-handshake"}  # how a capture was taken; tests of their own


# --- Runs and their reports -------------------------------------------------------------------------------------------


def _report(capsys: pytest.CaptureFixture[str], server: object, client: object, *options: str) -> dict[str, Any]:
    """The JSON report; its findings on the captures are the warnings of the audit, one for one, whatever they are.

    Those on the two together stand in the notes, too; those on the clocks are tested elsewhere (test_clock.py), and so
    are those on what explains the time, which come first (test_findings.py).
    """
    assert cli.main([str(server), str(client), *options, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    report: dict[str, Any] = json.loads(out)
    warnings = [
        (side, note["code"], note["text"], note["count"])
        for side, capture in report["captures"].items()
        for note in capture["audit"]
        if note["severity"] == "warning"
    ]
    layers = [finding["layer"] for finding in report["findings"]]
    assert "capture" not in layers[: len(layers) - layers.count("capture")]
    found = [finding for finding in _on_captures(report) if finding["code"] not in ON_THE_CLOCKS]
    assert all(f["severity"] == "warning" for f in found)
    rows = [(f["evidence"]["capture"], f["code"], f["text"], f["evidence"]["count"]) for f in found]
    assert sorted(row for row in rows if row[0] != "both") == sorted(warnings)
    assert all(text in report["notes"] for side, _, text, _ in rows if side == "both")
    assert all(0 < f["evidence"].get("share", 1) <= 1 for f in found)
    return report


def _on_captures(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["layer"] == "capture"]


_OF_SAMPLES: dict[tuple[str, str], dict[str, Any]] = {}


@pytest.fixture
def of_sample(capsys: pytest.CaptureFixture[str], engine: str) -> Callable[[str], dict[str, Any]]:
    """The report on a sample as it is: several tests look at one, or change its captures."""

    def made(name: str) -> dict[str, Any]:
        if (engine, name) not in _OF_SAMPLES:
            pair = (SAMPLES / name / f"{side}.pcap.gz" for side in ("server", "client"))
            _OF_SAMPLES[engine, name] = _report(capsys, *pair)
        return _OF_SAMPLES[engine, name]

    return made


@pytest.fixture
def untouched(of_sample: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """That on the sample that several tests change."""
    return of_sample(SERVER.parent.name)


def _also(engine: str, **notes: tuple[str, int]) -> dict[str, tuple[str, int]]:
    """Notes that only the native engine gives."""
    return {f"capture-{name}": note for name, note in notes.items()} if engine == "native" else {}


def _audit(report: dict[str, Any], side: str) -> dict[str, tuple[str, int]]:
    """Code -> (severity, count), without what is nothing to worry about; each code occurs once and counts something."""
    notes = report["captures"][side]["audit"]
    assert len({note["code"] for note in notes}) == len(notes)
    assert all(note["count"] > 0 for note in notes)
    assert [note["severity"] for note in notes] == sorted((note["severity"] for note in notes), reverse=True)
    return {note["code"]: (note["severity"], note["count"]) for note in notes if note["code"] not in FACTS}


def _text(report: dict[str, Any], side: str, code: str) -> str:
    """What the note with that code says; nothing where there is none."""
    return next((note["text"] for note in report["captures"][side]["audit"] if note["code"] == code), "")


# --- Made captures ----------------------------------------------------------------------------------------------------


def _random_xid(number: int) -> int:
    """XIDs that follow no order (a Weyl sequence through a multiplication)."""
    return (number * 0x9E3779B1 ^ number * number * 0x85EBCA6B) & 0xFFFFFFFF


def _linux_xid(number: int) -> int:
    """XIDs as a little-endian Linux client counts them: up by one in its own byte order."""
    return int.from_bytes((0xC1D1_90F0 + number).to_bytes(4, "little"), "big")


@dataclasses.dataclass
class Traffic:
    """`OPS` READs of 512 bytes on one connection, one every 5 ms, each 2 ms long at the server."""

    xids: list[int] = dataclasses.field(default_factory=lambda: [_random_xid(number) for number in range(1, OPS + 1)])
    unanswered: Iterable[int] = ()

    def __post_init__(self) -> None:
        self.tcp = wire.Tcp()
        self.calls, self.replies = [], []
        for number, xid in enumerate(self.xids):
            self.calls += self.tcp.send(5 * number, ">", wire.read(xid, 512 * number, 512))
            if number not in self.unanswered:
                self.replies += self.tcp.send(5 * number + 2.1, "<", wire.reply(xid, wire.read3(512)))
        self.tcp.ack(5 * len(self.xids) + 10, ">")


def _written(folder: Path, server: list[wire.Seen], client: list[wire.Seen], **options: Any) -> tuple[Path, Path]:
    files = folder / "server.pcap", folder / "client.pcap"
    return wire.write_pcap(files[0], server, **options), wire.write_pcap(files[1], client, **options)


def _captured(folder: Path, tcp: wire.Tcp, **options: Any) -> tuple[Path, Path]:
    return _written(folder, tcp.seen_by("server", theta_ms=70), tcp.seen_by("client"), **options)


def _editcap(*arguments: object) -> None:
    subprocess.run(["editcap", *map(str, arguments)], check=True, capture_output=True)


def _mergecap(*arguments: object) -> None:
    subprocess.run(["mergecap", "-F", "pcap", *map(str, arguments)], check=True, capture_output=True)


def _read(path: Path) -> list[wire.Seen]:
    """The packets of a little-endian microsecond pcap file (all samples), as far as they were captured."""
    data, at, out = path.read_bytes(), 24, []
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    assert data[:4] == struct.pack("<I", 0xA1B2C3D4)
    while at < len(data):
        seconds, us, length, whole = struct.unpack_from("<IIII", data, at)
        # The samples that are read here need not keep their cut: what was cut off is filled with zeros.
        frame = data[at + 16 : at + 16 + length] + bytes(whole - length)
        out.append(wire.Seen(seconds * 1_000_000_000 + us * 1000, frame))
        at += 16 + length
    return out


def _dense() -> wire.Tcp:
    """READs of which two are under way at a time, so that calls and replies of different ops are 0.1 ms apart."""
    tcp, ops = wire.Tcp(), 3 * OPS
    times = sorted([(2 * n, ">", n) for n in range(ops)] + [(2 * n + 2.1, "<", n) for n in range(ops)])
    for t_ms, way, n in times:
        xid = _random_xid(n + 1)
        tcp.send(t_ms, way, wire.read(xid, 512 * n, 512) if way == ">" else wire.reply(xid, wire.read3(512)))
    return tcp


def _received_later(packets: list[wire.Seen], ns: int) -> list[wire.Seen]:
    """What the server sends is stamped by another clock."""
    server = ipaddress.ip_address("10.0.0.2").packed
    return [
        dataclasses.replace(packet, t_ns=packet.t_ns + (ns if packet.frame[26:30] == server else 0))
        for packet in packets
    ]


def _later(packets: list[wire.Seen], ns: int) -> list[wire.Seen]:
    return [dataclasses.replace(packet, t_ns=packet.t_ns + ns) for packet in packets]


# --- Nothing wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.parent.name for path in SAMPLES.glob("*/server.pcap.gz")))
def test_the_samples_give_no_warning(of_sample: Callable[[str], dict[str, Any]], name: str) -> None:
    """Real captures that lost nothing are not suspected of anything; slow-network ends with calls under way."""
    report = of_sample(name)
    # The first 6,000 packets: the calls of the last 60 or so are answered behind the end of the file.
    want = {"server": 6, "client": 7} if name == "slow-network" else {}
    for side in ("server", "client"):
        assert _audit(report, side) == ({"capture-unanswered": ("info", want[side])} if want else {})
    assert _on_captures(report) == []
    assert report["clock"]["fits"]


def test_made_traffic_gives_no_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What the other tests change has nothing wrong before the change, and its verdict is sure."""
    report = _report(capsys, *_captured(tmp_path, Traffic().tcp))
    assert (_audit(report, "server"), _audit(report, "client")) == ({}, {})
    assert (report["matched"]["ops"], report["verdict"]["confidence"]) == (OPS, "high")
    assert len(report["notes"]) == 1  # that the application is not in the captures


# --- What the capture lost --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["server", "client"])
def test_packets_that_one_capture_dropped(capsys: pytest.CaptureFixture[str], tmp_path: Path, side: str) -> None:
    """Packets taken out of the middle of one capture are missed there, and not in the other one; whatever else that
    brings about is no warning of its own."""
    files = {"server": SERVER, "client": CLIENT}
    _editcap(files[side], tmp_path / "dropped.pcap", "1000-1040")
    report = _report(capsys, *(files | {side: tmp_path / "dropped.pcap"}).values())
    other = "client" if side == "server" else "server"
    severity, ranges = _audit(report, side)["capture-drops"]
    assert severity == "warning"
    assert ranges >= 1
    assert [code for code, (severity, _) in _audit(report, side).items() if severity == "warning"] == ["capture-drops"]
    assert _audit(report, other) == {}


@pytest.mark.parametrize("snaplen", [262_144, 300])
def test_what_was_dropped_is_counted_in_ranges_and_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, snaplen: int
) -> None:
    """Two replies that are missing are two ranges, with the bytes that they had, on cut packets too; the native engine
    knows that a header begins each of them."""
    made = Traffic()
    lost = [made.replies[20], made.replies[60]]
    server, client = made.tcp.seen_by("server"), made.tcp.seen_by("client", without=lost)
    report = _report(capsys, *_written(tmp_path, server, client, snaplen=snaplen))
    found = _audit(report, "client")
    assert found == {"capture-drops": ("warning", 2), "capture-unanswered": ("info", 2)} | _also(
        engine, truncated=("info", 2)
    )
    text = _text(report, "client", "capture-drops")
    assert f"2 ranges of TCP data ({sum(len(segment.data) for segment in lost):,} bytes)" in text
    assert "2 calls have no reply. Missing calls are not a random sample" in text
    assert _audit(report, "server") == {}
    assert report["matched"]["unmatched"] == {"server": {"NOT_CAPTURED_AT_CLIENT": 2}, "client": {}}


def test_what_the_network_lost_is_no_drop(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A call that TCP had to send again, of which the server's capture saw the second copy only, was not dropped."""
    made = Traffic()
    tcp = wire.Tcp()
    tcp.packets, tcp.next = list(made.tcp.packets), dict(made.tcp.next)
    lost = tcp.send(600, ">", wire.read(0xAAAA1, 0, 512))
    again = tcp.again(800, *lost)
    tcp.send(802, "<", wire.reply(0xAAAA1, wire.read3(512)))
    files = _written(tmp_path, tcp.seen_by("server", without=lost), tcp.seen_by("client"))
    report = _report(capsys, *files)
    assert again.seq == lost[0].seq
    assert (_audit(report, "server"), _audit(report, "client")) == ({}, {})
    assert report["matched"]["ops"] == OPS + 1


@pytest.mark.parametrize(("count", "severity"), [(3, "info"), (5, "warning")])
def test_calls_without_a_reply(capsys: pytest.CaptureFixture[str], tmp_path: Path, count: int, severity: str) -> None:
    """Calls that nobody answered are counted on both sides, and are a warning above 2 % of the messages."""
    made = Traffic(unanswered=range(50, 50 + count))  # 3 of 197 messages are 1.5 %, 5 of 195 are 2.6 %
    report = _report(capsys, *_captured(tmp_path, made.tcp))
    assert _audit(report, "server") == _audit(report, "client") == {"capture-unanswered": (severity, count)}
    assert report["matched"]["ops"] == OPS - count


@pytest.mark.parametrize(("count", "severity"), [(2, "info"), (6, "warning")])
def test_replies_without_a_call(capsys: pytest.CaptureFixture[str], tmp_path: Path, count: int, severity: str) -> None:
    """A capture that begins between calls and replies has orphans, a warning above 2 % of the messages."""
    tcp = wire.Tcp()
    early = [segment for n in range(count) for segment in tcp.send(n, ">", wire.read(0xE000 + n * n, n, 512))]
    for n in range(count):
        tcp.send(20 + n, "<", wire.reply(0xE000 + n * n, wire.read3(512)))
    for n in range(OPS):
        xid = _random_xid(n + 1)
        tcp.send(50 + 5 * n, ">", wire.read(xid, 512 * n, 512))
        tcp.send(52.1 + 5 * n, "<", wire.reply(xid, wire.read3(512)))
    files = _written(tmp_path, tcp.seen_by("server"), tcp.seen_by("client", without=early))
    report = _report(capsys, *files)
    assert _audit(report, "client") == {"capture-orphans": (severity, count)}
    assert _audit(report, "server") == {}
    assert report["matched"]["unmatched"] == {"server": {"OUTSIDE_OVERLAP": count}, "client": {}}


def test_headers_behind_the_snaplen(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str) -> None:
    """A call behind the snaplen is counted, and so is its reply: by the native engine as a reply without its call, by
    tshark, which does not show it without the call, as a header not captured. One warning says it all."""
    tcp = wire.Tcp()
    for n in range(20):
        first, second = _random_xid(2 * n + 1), _random_xid(2 * n + 2)
        tcp.send(10 * n, ">", wire.write(first, 8192 * n), wire.read(second, 8192 * n))
        tcp.send(10 * n + 3, "<", wire.reply(first, wire.WRITE3))
        tcp.send(10 * n + 4, "<", wire.reply(second, wire.read3(512)))
    whole = _report(capsys, *_captured(tmp_path, tcp))
    assert (_audit(whole, "server"), whole["matched"]["ops"]) == ({}, 40)
    cut = _report(capsys, *_captured(tmp_path, tcp, snaplen=400))
    for side in ("server", "client"):
        messages = cut["captures"][side]["messages"]
        assert _audit(cut, side)["capture-truncated"] == ("warning", messages["HEADER_NOT_CAPTURED"])
        assert messages["HEADER_NOT_CAPTURED"] + messages.get("NO_CALL", 0) == 40
        assert messages.get("NO_CALL", 0) == (20 if engine == "native" else 0)
        assert len([1 for severity, _ in _audit(cut, side).values() if severity == "warning"]) == 1
        text = _text(cut, side, "capture-truncated")
        assert "beyond the snaplen of 400" in text
        assert ("20 replies have no call" in text) == (engine == "native")
    assert cut["matched"]["ops"] == 20
    assert cut["verdict"]["confidence"] == "low"


# --- Calls that are missing by the XIDs -------------------------------------------------------------------------------


def test_calls_missing_by_the_gaps_in_the_xids(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str) -> None:
    """Ops that the server's capture lost leave gaps in the XIDs of a Linux client; the client's capture has none. The
    drops are what is wrong, so they say what was lost with them."""
    made = Traffic(xids=[_linux_xid(number) for number in range(250, 250 + OPS)])  # the low byte wraps on the way
    lost = [made.calls[n] for n in (10, 11, 40, 70, 71, 72)] + [made.replies[n] for n in (10, 11, 40, 70, 71, 72)]
    files = _written(tmp_path, made.tcp.seen_by("server", without=lost), made.tcp.seen_by("client"))
    report = _report(capsys, *files)
    found = _audit(report, "server")
    assert found["capture-missing-calls"] == ("info", 6)
    unseen = {"capture-unseen"} if engine == "native" else set()  # they may have taken long
    assert set(found) == {"capture-missing-calls", "capture-drops", *unseen, *_also(engine, truncated=("info", 6))}
    assert "about 6 calls are not shown" in _text(report, "server", "capture-drops")
    assert _audit(report, "client") == {}


@pytest.mark.parametrize(("lost", "severity"), [(2, "info"), (3, "warning"), (12, "warning")])
def test_missing_calls_are_a_warning_above_two_percent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lost: int, severity: str
) -> None:
    """XIDs of calls that no packet shows are counted, more than 2 % of all calls are a warning, and they are what the
    captures lack of the operations of their time."""
    numbers = [number for number in range(OPS) if number % 8 != 4 or number >= 8 * lost]
    report = _report(capsys, *_captured(tmp_path, Traffic(xids=[_linux_xid(number) for number in numbers]).tcp))
    assert _audit(report, "server") == _audit(report, "client") == {"capture-missing-calls": (severity, lost)}
    complete = report["matched"]["completeness"]
    assert (complete["ops"], complete["of"]) == (OPS - lost, OPS)
    assert complete["missing"] == {"whole in neither capture": lost}
    assert complete["share"] == pytest.approx(1 - lost / OPS)
    assert report["verdict"]["reasons"][0].startswith(f"{OPS - lost} % of the operations of this time are in both")
    assert report["verdict"]["confidence"] == "medium"  # fewer than 100 ops


@pytest.mark.parametrize("xid", [_linux_xid, lambda n: 0xC1D1_90F0 + n], ids=["little", "big"])
def test_xids_without_gaps_miss_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, xid: Callable[[int], int]
) -> None:
    """A complete sequence in either byte order tells of no missing call (random XIDs: the made traffic above)."""
    report = _report(capsys, *_captured(tmp_path, Traffic(xids=[xid(number) for number in range(1, OPS + 1)]).tcp))
    assert (_audit(report, "server"), _audit(report, "client")) == ({}, {})


@pytest.mark.parametrize("lost", [0, 6])
def test_xids_that_are_counted_over_several_connections(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lost: int
) -> None:
    """What one connection of a client leaves out and another one has is not missing; what none has counts once."""
    numbers = [number for number in range(OPS) if number % 8 != 4 or number >= 8 * lost]
    flows = wire.Tcp(), wire.Tcp(client=("10.0.0.1", 701))
    for number in numbers:
        tcp, xid = flows[number // 2 % 2], _linux_xid(number)
        tcp.send(5 * number, ">", wire.read(xid, 512 * number, 512))
        tcp.send(5 * number + 2.1, "<", wire.reply(xid, wire.read3(512)))
    seen = [
        sorted((one for tcp in flows for one in tcp.seen_by(side)), key=lambda one: one.t_ns)
        for side in ("server", "client")
    ]
    report = _report(capsys, *_written(tmp_path, *seen))
    for side in ("server", "client"):
        counted = {code: count for code, (_, count) in _audit(report, side).items()}
        assert counted == ({"capture-missing-calls": lost} if lost else {})


# --- Packets that are there twice, or in the wrong place --------------------------------------------------------------


def test_packets_that_were_captured_twice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, untouched: dict[str, Any]
) -> None:
    """A capture merged with itself gives the same figures; each packet with an IP identification is told a copy, by the
    native engine from the first message of its connection on."""
    _mergecap("-w", tmp_path / "twice.pcap", CLIENT, CLIENT)
    report = _report(capsys, SERVER, tmp_path / "twice.pcap")
    identified = sum(packet.frame[18:20] != b"\x00\x00" for packet in _read(CLIENT) if packet.frame[12:14] == b"\x08\0")
    # The native engine begins to compare packets once a connection has shown RPC: not with SYN, ACK and first call.
    unknown = range(1 if engine == "tshark" else 1 + 3 * report["captures"]["client"]["flows"])
    assert list(_audit(report, "client")) == ["capture-duplicates"]
    assert identified - _audit(report, "client")["capture-duplicates"][1] in unknown
    assert "twice: tcpdump -i any, a bridge or a bond" in _text(report, "client", "capture-duplicates")
    assert _audit(report, "server") == {}
    assert report["captures"]["client"]["packets"] == 2 * untouched["captures"]["client"]["packets"]
    assert (report["matched"], report["verdict"]) == (untouched["matched"], untouched["verdict"])


def test_a_few_packets_that_came_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Copies that the network made are counted, and the note says that it may have been the network."""
    made = Traffic()
    for n in (30, 50, 70):
        made.tcp.copy(5 * n + 0.05, made.calls[n])
    report = _report(capsys, *_captured(tmp_path, made.tcp))
    for side in ("server", "client"):
        assert _audit(report, side) == {"capture-duplicates": ("info", 3)}
        assert "3 packets (1.5 %) are in the file twice: duplicated in transit" in _text(
            report, side, "capture-duplicates"
        )


@pytest.mark.parametrize(("swaps", "late_us", "severity"), [(3, 5000, "info"), (4, 5000, "warning"), (4, 50, "info")])
def test_packets_that_stand_in_the_wrong_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, swaps: int, late_us: int, severity: str
) -> None:
    """Packets that came late to the file are counted, with the most by which they did. They are a warning where they
    are more than one in a thousand, by more than a hundredth of what an op takes (here 400 ms)."""
    packets = _read(CLIENT)
    for at in range(500, 500 + 100 * swaps, 100):
        packets[at] = dataclasses.replace(packets[at], t_ns=packets[at - 1].t_ns - late_us * 1000)
    report = _report(capsys, SERVER, wire.write_pcap(tmp_path / "late.pcap", packets, as_given=True))
    assert _audit(report, "client") == {"capture-reordered": (severity, swaps)}
    said = "5.00 ms" if late_us == 5000 else "50 us"
    assert f"than the one before, by up to {said}" in _text(report, "client", "capture-reordered")
    assert report["matched"]["ops"] == 671


def test_files_of_a_set_that_overlap(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str) -> None:
    """Two files of which the second begins before the first ends are no rotation; three that follow each other are. The
    native engine reads both at once, so that what is in both is there twice, and counts once."""
    for name, packets in (("a", "1-2000"), ("b", "1901-3439"), ("c", "2001-3000"), ("d", "3001-3439")):
        _editcap("-r", CLIENT, tmp_path / f"{name}.pcap", packets)
    overlapping = _report(capsys, SERVER, f"{tmp_path}/a.pcap,{tmp_path}/b.pcap")
    severity = "info" if engine == "native" else "warning"
    assert _audit(overlapping, "client")["files-overlap"] == (severity, 1)
    assert "files-overlap" not in _audit(overlapping, "server")
    rotated = _report(capsys, SERVER, f"{tmp_path}/a.pcap,{tmp_path}/c.pcap,{tmp_path}/d.pcap")
    assert _audit(rotated, "client") == {}


# --- Messages that cannot be read -------------------------------------------------------------------------------------


def test_connections_that_are_encrypted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Beside NFS in the clear, a connection that asks for TLS is named; what can be seen is compared."""
    clear = Traffic().tcp
    tls = wire.Tcp(client=("10.0.0.1", 701))
    tls.send(1, ">", wire.call(0x715, wire.NFS, 4, 0, cred=struct.pack(">II", 7, 0)))
    tls.send(3, "<", wire.Framed(wire.record(struct.pack(">IIIII", 0x715, 1, 0, 0, 8) + b"STARTTLS" + bytes(4))))
    for n in range(10):
        tls.send(5 + n, ">", wire.Framed(b"\x17\x03\x03\x00\x40" + bytes(range(64))))
    server = [*clear.seen_by("server"), *tls.seen_by("server")]
    report = _report(capsys, *_written(tmp_path, server, [*clear.seen_by("client"), *tls.seen_by("client")]))
    assert _audit(report, "server")["rpc-with-tls"] == _audit(report, "client")["rpc-with-tls"] == ("warning", 1)
    assert report["matched"]["ops"] >= OPS


# --- The comparison as a whole ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.parent.name for path in SAMPLES.glob("*/server.pcap.gz")))
def test_that_the_wait_for_a_slot_is_not_captured_is_said_once(
    capsys: pytest.CaptureFixture[str], of_sample: Callable[[str], dict[str, Any]], name: str
) -> None:
    """By the finding where slots are seen to be the limit, else by a remark; not at all where it is known."""
    pair = SAMPLES / name / "server.pcap.gz", SAMPLES / name / "client.pcap.gz"
    known = _report(capsys, *pair, "--app-ms", "5000")
    for report, times in ((of_sample(name), 1), (known, 0)):
        texts = [*report["notes"], *(finding["text"] for finding in report["findings"])]
        assert len([text for text in texts if "--app-ms" in text]) == times
        slots = {"client-slots", "session-slots"} & {finding["code"] for finding in report["findings"]}
        assert any("--app-ms" in note for note in report["notes"]) == (not slots and times == 1)


def test_other_clients_of_the_server_are_named_and_do_not_count(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, untouched: dict[str, Any]
) -> None:
    """A second client in the server's capture is in the notes; the confidence, the figures and the findings
    on the captures are those without."""
    packets = _read(SERVER)
    others = _read(SAMPLES / "client-slots" / "server.pcap.gz")
    others = _later(others, packets[0].t_ns - others[0].t_ns)
    before, after = (ipaddress.ip_address(text).packed for text in ("10.77.0.2", "10.77.0.99"))
    others = [
        wire.Seen(packet.t_ns, packet.frame[:26] + packet.frame[26:34].replace(before, after) + packet.frame[34:])
        for packet in others
        if packet.t_ns < packets[-1].t_ns
    ]
    path = wire.write_pcap(tmp_path / "server.pcap", packets, others, snaplen=512)
    report = _report(capsys, path, CLIENT)
    foreign = report["matched"]["processed"]["server"] - untouched["matched"]["processed"]["server"]
    assert foreign > 200
    said = f"{foreign} ops in the server's capture belong to hosts that are not in the other one"
    (noted,) = [one for one in report["notes"] if one.startswith(said)]
    assert re.search(rf": 10\.77\.0\.99 \({foreign:,} ops, \d+\.\d %\)$", noted)
    assert report["matched"]["unmatched"]["server"] == {"CONNECTION_UNMATCHED": foreign}
    # They do count where threads are: all clients share those, and two captures in one file are no one server's load.
    assert [row | {"queue_ms": 0} for row in report["matched"]["by_op"]] == [
        row | {"queue_ms": 0} for row in untouched["matched"]["by_op"]
    ]
    assert report["matched"]["completeness"] == untouched["matched"]["completeness"]
    for name in ("largest_layer", "largest_share", "largest_share_slowest"):
        assert report["verdict"][name] == untouched["verdict"][name]
    assert _on_captures(report) == []


def test_callbacks_are_in_the_raw_data_only(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Calls from the server to the client are shown with all programs, and compared never."""
    made = Traffic()
    for n in range(7):
        made.tcp.send(700 + 5 * n, "<", wire.cb_compound(0xCB00 + n, wire.CB_SEQUENCE, wire.CB_RECALL))
        results = wire.v4_results(wire.CB_SEQUENCE_OK, wire.CB_RECALL_OK)
        made.tcp.send(701 + 5 * n, ">", wire.reply(0xCB00 + n, results))
    files = _captured(tmp_path, made.tcp)
    report = _report(capsys, *files, "--all-programs")
    assert "7 calls from the server to the client (callbacks) are in the raw data only" in report["notes"]
    for side in ("server", "client"):
        assert [row["count"] for row in report["raw"][side] if row["op"] == "CB_RECALL"] == [7]
        assert report["matched"]["processed"][side] == report["matched"]["ops"] == OPS
    default = _report(capsys, *files)
    assert default["selection"]["excluded"]["server"] == {"other RPC programs than NFS": 7}
    assert not any("callbacks" in note for note in default["notes"])
    assert default["matched"] == report["matched"]


@pytest.mark.parametrize("theta_ms", [0, 3_600_000])
def test_captures_that_overlap_only_in_part(capsys: pytest.CaptureFixture[str], tmp_path: Path, theta_ms: int) -> None:
    """Ops from before the other capture began are counted in a note, with the time in common on one clock, and do not
    lower the confidence."""
    made = Traffic(xids=[_random_xid(number) for number in range(1, 161)])
    early = [*made.calls[:40], *made.replies[:40]]
    late = [*made.calls[145:], *made.replies[145:]]
    server = made.tcp.seen_by("server", theta_ms=theta_ms, without=[*late, made.tcp.packets[-1]])
    report = _report(capsys, *_written(tmp_path, server, made.tcp.seen_by("client", without=early)))
    for side, count in (("server", 40), ("client", 15)):
        assert report["matched"]["unmatched"][side] == {"OUTSIDE_OVERLAP": count}
    # From the 41st call (200 ms) to the 145th reply (722 ms).
    said = (
        "the captures overlap only in part, for 0.5 s: 40 of the 145 ops of the server's capture and 15 of the 120 ops "
        "of the client's capture happened while the other was not running, and are left out"
    )
    assert said in report["notes"]
    assert (report["matched"]["ops"], report["verdict"]["confidence"], _on_captures(report)) == (105, "high", [])


@pytest.mark.parametrize("theta_ms", [0, -3_600_000])
def test_captures_that_hardly_overlap(capsys: pytest.CaptureFixture[str], tmp_path: Path, theta_ms: int) -> None:
    """Where neither capture shows half of what it shows together with the other, the little that both show is no fair
    sample, and a finding says how little it is."""
    made = Traffic(xids=[_random_xid(number) for number in range(1, 161)])
    early = [*made.calls[:70], *made.replies[:70]]
    late = [*made.calls[100:], *made.replies[100:]]
    server = made.tcp.seen_by("server", theta_ms=theta_ms, without=[*late, made.tcp.packets[-1]])
    report = _report(capsys, *_written(tmp_path, server, made.tcp.seen_by("client", without=early)))
    (finding,) = _on_captures(report)
    assert (finding["code"], finding["evidence"]) == ("no-overlap", {"capture": "both", "count": 30})
    # 147 of 497 ms, and of 460 ms.
    assert "0.1 s in common, 30 % of the server's and 32 % of the client's" in finding["text"]


def test_captures_that_overlap_say_so(decoder: Decoder, engine: str, tmp_path: Path) -> None:
    """Two captures of the same time have all of it in common, also where a clock was set by an hour in between."""
    server, client = _captured(tmp_path, Traffic().tcp)
    packets = _read(server)
    wire.write_pcap(server, packets[:100], _later(packets[100:], 3600 * 10**9), as_given=True)
    chosen = choose(engine, lambda: decoder.tools, tmp_path, rereads=False)
    found = correlate(
        *(chosen.open(str(path)) for path in (server, client)),
        chosen,
        filters=Filters(),
        srt="nfslat",
        may_swap=True,
        progress=lambda _: None,
    )
    (note,) = pair_notes(analyse(found))
    assert (note.code, note.severity, note.count) == ("captures-overlap", "info", OPS)
    assert "in common, 100 % of the server's and 100 % of the client's" in note.text


# --- Findings ---------------------------------------------------------------------------------------------------------


def test_findings_come_by_their_gravity_and_with_their_share(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Lost packets at the client come before packets out of order at the server, which are so many of all packets."""
    _editcap(CLIENT, tmp_path / "dropped.pcap", "1000-1040")
    packets = _read(SERVER)
    for at in range(500, 3300, 100):
        packets[at] = dataclasses.replace(packets[at], t_ns=packets[at - 1].t_ns - 5_000_000)
    late = wire.write_pcap(tmp_path / "late.pcap", packets, as_given=True)
    report = _report(capsys, late, tmp_path / "dropped.pcap")
    drops, reordered = [finding for finding in _on_captures(report) if finding["code"] not in ON_THE_CLOCKS]
    assert (drops["code"], drops["evidence"]["capture"]) == ("capture-drops", "client")
    assert (reordered["code"], reordered["evidence"]) == (
        "capture-reordered",
        {"capture": "server", "count": 28, "share": 28 / len(packets), "of": "packets"},
    )


# --- Clocks -----------------------------------------------------------------------------------------------------------


def test_a_clock_that_was_set_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Half of one file 5 s earlier than the rest: that is no packet out of order, somebody set the clock."""
    server, client = _captured(tmp_path, Traffic().tcp)
    packets = _read(client)
    wire.write_pcap(client, packets[:100], _later(packets[100:], -5 * 10**9), as_given=True)
    report = _report(capsys, server, client)
    assert _audit(report, "client") == {"capture-clock-step": ("warning", 1)}
    assert "time goes back by 4.99" in _text(report, "client", "capture-clock-step")
    assert _audit(report, "server") == {}


def test_a_clock_that_was_set_forward_is_not_seen_in_one_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Half of one file 5 s later than the rest looks like a pause there; only the other file tells that it was none."""
    server, client = _captured(tmp_path, Traffic().tcp)
    packets = _read(client)
    wire.write_pcap(client, packets[:100], _later(packets[100:], 5 * 10**9), as_given=True)
    report = _report(capsys, server, client)
    assert (_audit(report, "server"), _audit(report, "client")) == ({}, {})
    assert {finding["code"] for finding in _on_captures(report)} == {"clock-step"}


@pytest.mark.parametrize("ms", [37_000, -37_000])
def test_two_clocks_in_one_file_are_named_with_their_difference(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ms: int
) -> None:
    """A capture whose directions were put on one clock says how far they were apart, how sure that is, and what to do;
    its packets that go back in time are no matter of their own then, and the answer is that of one clock."""
    server, client = _captured(tmp_path, _dense())
    want = _report(capsys, server, client)
    packets = _received_later(_read(client), ms * 10**6)
    wire.write_pcap(client, packets, as_given=True)
    report = _report(capsys, server, client)
    assert _audit(want, "client") == {}
    backward = sum(b.t_ns < a.t_ns for a, b in pairwise(packets))
    assert _audit(report, "client") == {"capture-two-clocks": ("warning", backward)}
    text = _text(report, "client", "capture-two-clocks")
    assert re.search(r"stamped by two clocks, 3[67]\.\d{3} s apart", text)
    assert "right to within 1.00 ms" in text  # the shortest time from a reply to a call is 1.9 ms, from a call 0.1 ms
    assert "tcpdump -j host" in text
    for name in ("client_ms", "server_ms"):
        one, other = (which["matched"]["total"][name]["mean"] for which in (report, want))
        assert one == pytest.approx(other, abs=1.001)
    assert report["matched"]["ops"] == want["matched"]["ops"]


@pytest.mark.parametrize("swap", [True, False])
@pytest.mark.parametrize("ms", [5, 37_000])
def test_two_clocks_in_a_sorted_file_are_suspected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ms: int, swap: bool
) -> None:
    """The server's replies are stamped late and the file was sorted, so that it takes longer than the client sees. Read
    in the order given that is said; where the files were exchanged for it, if no network takes so long."""
    made = _dense()
    server, client = _captured(tmp_path, made)
    wire.write_pcap(server, _received_later(_read(server), ms * 10**6))
    report = _report(capsys, server, client, *([] if swap else ["--no-swap"]))
    codes = [finding["code"] for finding in _on_captures(report) if finding["code"] not in ON_THE_CLOCKS]
    assert codes == ([] if swap and ms == 5 else ["two-clocks-suspected"])
    assert any("exchanged" in note or "client first" in note for note in report["notes"]) == swap


def test_replies_stamped_before_their_calls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In a sorted file of two clocks, of which that of the replies is behind, they stand in front of their calls. A few
    ops are still paired: those that took longer than the clocks are apart."""
    tcp = wire.Tcp()
    for n in range(OPS):
        xid = _random_xid(n + 1)
        tcp.send(50 * n, ">", wire.read(xid, 512 * n, 512))
        tcp.send(50 * n + (40 if n % 10 == 0 else 2), "<", wire.reply(xid, wire.read3(512)))
    path = wire.write_pcap(tmp_path / "sorted.pcap", _received_later(tcp.seen_by("client"), -20 * 10**6))
    assert cli.main([str(path), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = _audit(report, "capture")
    assert found["capture-two-clocks"] == ("warning", 90)
    assert "90 replies are stamped before their calls, by 17.90 ms" in _text(report, "capture", "capture-two-clocks")


# --- How it was taken -------------------------------------------------------------------------------------------------


def test_the_bytes_behind_the_snaplen_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A cut capture says what of the bytes it holds, and that no figure needs the others; a whole one says nothing."""
    tcp = Traffic().tcp
    packets = tcp.seen_by("client")
    for snaplen in (200, 262_144):
        report = _report(capsys, *_captured(tmp_path, tcp, snaplen=snaplen))
        notes = {note["code"]: note for note in report["captures"]["client"]["audit"]}
        cut = sum(max(len(packet.frame) - snaplen, 0) for packet in packets)
        assert notes.get("capture-snaplen", {"count": 0})["count"] == cut
        assert ("no figure needs the rest" in _text(report, "client", "capture-snaplen")) == bool(cut)


def test_arguments_behind_the_snaplen_are_missed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Where the snaplen leaves the header of a call and not its arguments, nothing but its XID tells it from others."""
    report = _report(capsys, *_captured(tmp_path, Traffic().tcp, snaplen=140))
    text = _text(report, "server", "capture-snaplen")
    assert text.endswith(f"{OPS} READs and WRITEs without an offset are matched by XID alone")
    assert (report["matched"]["ops"], report["verdict"]["confidence"]) == (OPS, "high")


@pytest.mark.parametrize(
    ("size", "count", "said"),
    [(1448, 0, ""), (31_500, 50, "one stamp for up to 31.5 kB"), (40_000, 50, "network parts")],
)
def test_packets_that_the_adapter_split_or_merged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, size: int, count: int, said: str
) -> None:
    """Packets that no wire takes are counted; where they are long the note says what that does to first and last byte.
    tshark's engine knows nothing of it."""
    tcp = wire.Tcp()
    for n in range(50):
        message = wire.record(wire.reply(_random_xid(n + 1), wire.read3(39_952)))
        assert len(message) == 40_000
        tcp.send(5 * n, ">", wire.read(_random_xid(n + 1), 39_952 * n, 39_952))
        tcp.send(5 * n + 2, "<", wire.Framed(message), cut=[size] * ((len(message) - 1) // size))
    report = _report(capsys, *_captured(tmp_path, tcp))
    for side in ("server", "client"):
        notes = [note for note in report["captures"][side]["audit"] if note["code"] == "capture-offload"]
        assert [note["count"] for note in notes] == [count] * (count > 0 and engine == "native")
        assert all(said in note["text"] for note in notes)


@pytest.mark.parametrize("handshake", ["none", "both", "client"])
def test_connections_that_began_before_the_capture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, handshake: str
) -> None:
    """Without the SYN of both ends the scale of the windows is not known: of how many connections is said. tshark's
    engine does not look for it."""
    tcp = wire.Tcp()
    if handshake != "none":
        tcp.syn(-1)
    without = [packet for packet in tcp.packets[1:2] if handshake == "client"]
    for n in range(50):
        tcp.send(5 * n, ">", wire.read(n + 1, 512 * n, 512))
        tcp.send(5 * n + 2, "<", wire.reply(n + 1, wire.read3(512)))
    files = _written(tmp_path, tcp.seen_by("server"), tcp.seen_by("client", without=without))
    report = _report(capsys, *files)
    said = {side: _text(report, side, "capture-no-handshake") for side in ("server", "client")}
    assert bool(said["server"]) == (handshake == "none" and engine == "native")
    assert bool(said["client"]) == (handshake != "both" and engine == "native")
    assert not said["client"] or said["client"].startswith("1 of 1 TCP connection began before the capture")


@pytest.mark.parametrize(("limit", "is_told"), [(201, True), (202, False)])
def test_a_rate_at_which_capturing_itself_takes_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, is_told: bool
) -> None:
    """From a number of packets a second on (200,000, here less) the observer is named, with what it takes of a CPU."""
    monkeypatch.setattr("nfslat.figures.audit.capture._RATE", limit)
    report = _report(capsys, *_captured(tmp_path, Traffic().tcp))
    assert _audit(report, "server") == ({"observer-effect": ("warning", 201)} if is_told else {})
    assert ("up to 201 packets in a second" in _text(report, "server", "observer-effect")) == is_told
    assert [finding["code"] for finding in _on_captures(report)] == ["observer-effect"] * (2 if is_told else 0)


# --- Every capture that there is --------------------------------------------------------------------------------------

# The lab's captures in which the snaplen hides more than a fiftieth of the calls, and the one that lost packets.
_WARNED = {
    "b4_v3_rpc_retransmit": "capture-missing-calls",
    "d3_v3_loss1": "capture-missing-calls",
    "f_v41_baseline": "capture-missing-calls",
    "i_v3_buffered_readahead": "capture-missing-calls",
    "j_v3_client_stall": "capture-missing-calls",
    "m_v3_slots16": "capture-truncated",
    "j_v3_capture_drops/server": "capture-drops",
}


@pytest.mark.parametrize("path", most_by_night(WITH_NFS))
def test_notes_on_real_captures(path: Path, decoder: Decoder, engine: str) -> None:
    """Each note counts something, is one sentence or a few, has its severity, and comes once, the warnings first. Only
    those captures of the lab that miss much have a warning, and each only one."""
    side = decoder.side(engine, path)
    notes = capture_notes(CaptureTally.of(side, missing_calls(side.decoded), "client", None))
    assert len({note.code for note in notes}) == len(notes)
    for note in notes:
        assert note.count > 0
        assert note.severity in ("info", "warning")
        assert note.text == " ".join(note.text.split())
        assert not note.text.endswith(".")
        assert len(note.text) < (420 if note.severity == "warning" else 300)
    warned = [note.code for note in notes if note.severity == "warning"]
    assert [note.severity for note in notes][: len(warned)] == ["warning"] * len(warned)
    if path.parent.parent.name == "lab" and engine == "native":
        want = {code for name, code in _WARNED.items() if id_of(path).startswith(name)}
        assert set(warned) == want
        assert len(warned) == len(want)


@pytest.mark.parametrize("by", [0x1F0000, pytest.param(-0x1F0000, marks=pytest.mark.long)])
def test_a_spoilt_sequence_number_is_a_packet_of_its_own_kind(by: int, tmp_path: Path) -> None:
    """Its receiver takes nothing of it, so that it is no hole; it is counted and told of, and kinds sum to packets."""
    tcp = wire.Tcp()
    tcp.syn(0)
    for number in range(80):
        tcp.send(10 + number, ">", wire.read(number, count=64))
        tcp.send(10.5 + number, "<", wire.reply(number, wire.read3(64)))
    spoilt = tcp.send(100.2, ">", wire.read(80, count=64))[0]
    tcp.again(100.4, spoilt)
    tcp.send(100.6, "<", wire.reply(80, wire.read3(64)))
    frames = [wire.Seen(one.t_ns, wire.summed(one.frame)) for one in tcp.seen_by("client", back_ms=0)]
    at = tcp.packets.index(spoilt)
    frames[at] = wire.Seen(frames[at].t_ns, wire.moved(frames[at].frame, by))
    out = tmp_path / "report.json"
    path = wire.write_pcap(tmp_path / "damaged.pcap", frames)
    assert cli.main([str(path), "-q", "--json", str(out), "--engine", "native"]) == 0
    capture = json.loads(out.read_text())["captures"]["capture"]
    assert capture["packet_kinds"]["tcp damaged"] == 1
    assert sum(capture["packet_kinds"].values()) == capture["packets"] == len(frames)
    assert capture["ops"] == 81
    codes = [note["code"] for note in capture["audit"]]
    assert "capture-drops" not in codes
    told = capture["audit"][codes.index("capture-damaged")]
    assert (told["count"], told["severity"]) == (1, "info")
