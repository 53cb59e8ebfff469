"""Whole runs on captures with one thing wrong: the audit names it, counts it, and names nothing else."""

from __future__ import annotations

import dataclasses
import gzip
import ipaddress
import json
import struct
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import wire

from nfslat import cli

pytestmark = pytest.mark.usefixtures("engine")

SAMPLES = Path(__file__).parents[1] / "samples"
SERVER = SAMPLES / "server-threads" / "server.pcap.gz"
CLIENT = SAMPLES / "server-threads" / "client.pcap.gz"
OPS = 100


# --- Runs and their reports -------------------------------------------------------------------------------------------


def _report(capsys: pytest.CaptureFixture[str], server: object, client: object, *options: str) -> dict[str, Any]:
    """The JSON report; its findings on the captures are the warnings of the audit, one for one, whatever they are."""
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
    found = [finding for finding in report["findings"] if finding["code"] != "clock-drift"]
    assert warnings == [(f["evidence"]["capture"], f["code"], f["text"], f["evidence"]["count"]) for f in found]
    assert all(f["layer"] == "capture" and f["severity"] == "warning" for f in report["findings"])
    assert len(report["findings"]) - len(found) == (not report["clock"]["fits"])
    return report


@pytest.fixture
def untouched(capsys: pytest.CaptureFixture[str], engine: str) -> dict[str, Any]:
    """The report on the sample that several tests change."""
    assert cli.main([str(SERVER), str(CLIENT), "--engine", engine, "--json", "-"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def _also(engine: str, **notes: tuple[str, int]) -> dict[str, tuple[str, int]]:
    """Notes that only the native engine gives."""
    return {f"capture-{name}": note for name, note in notes.items()} if engine == "native" else {}


def _audit(report: dict[str, Any], side: str) -> dict[str, tuple[str, int]]:
    """Code -> (severity, count); each code occurs once."""
    notes = report["captures"][side]["audit"]
    assert len({note["code"] for note in notes}) == len(notes)
    return {note["code"]: (note["severity"], note["count"]) for note in notes}


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
    data, at, out = gzip.decompress(path.read_bytes()), 24, []
    assert data[:4] == struct.pack("<I", 0xA1B2C3D4)
    while at < len(data):
        seconds, us, length, whole = struct.unpack_from("<IIII", data, at)
        # The samples that are read here need not keep their cut: what was cut off is filled with zeros.
        frame = data[at + 16 : at + 16 + length] + bytes(whole - length)
        out.append(wire.Seen(seconds * 1_000_000_000 + us * 1000, frame))
        at += 16 + length
    return out


def _write_in_order_given(path: Path, packets: list[wire.Seen]) -> Path:
    """`wire.write_pcap` sorts by time; this does not."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)]
    for packet in packets:
        seconds, ns = divmod(packet.t_ns, 1_000_000_000)
        out += [struct.pack("<IIII", seconds, ns // 1000, len(packet.frame), len(packet.frame)), packet.frame]
    path.write_bytes(b"".join(out))
    return path


def _later(packets: list[wire.Seen], ns: int) -> list[wire.Seen]:
    return [dataclasses.replace(packet, t_ns=packet.t_ns + ns) for packet in packets]


# --- Nothing wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.parent.name for path in SAMPLES.glob("*/server.pcap.gz")))
def test_the_samples_give_no_warning(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Real captures that lost nothing are not suspected of anything; slow-network ends with calls under way."""
    report = _report(capsys, SAMPLES / name / "server.pcap.gz", SAMPLES / name / "client.pcap.gz")
    # The first 6,000 packets: the calls of the last 60 or so are answered behind the end of the file.
    want = {"server": 6, "client": 7} if name == "slow-network" else {}
    for side in ("server", "client"):
        assert _audit(report, side) == ({"capture-unanswered": ("info", want[side])} if want else {})
    assert report["findings"] == []
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
    """Packets taken out of the middle of one capture are missed there, and not in the other one."""
    files = {"server": SERVER, "client": CLIENT}
    _editcap(files[side], tmp_path / "dropped.pcap", "1000-1040")
    report = _report(capsys, *(files | {side: tmp_path / "dropped.pcap"}).values())
    other = "client" if side == "server" else "server"
    severity, ranges = _audit(report, side)["capture-drops"]
    assert severity == "warning"
    assert ranges >= 1
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
    notes = {note["code"]: note for note in report["captures"]["client"]["audit"]}
    assert set(notes) == {"capture-drops", "capture-unanswered", *_also(engine, truncated=("info", 2))}
    assert (notes["capture-drops"]["severity"], notes["capture-drops"]["count"]) == ("warning", 2)
    assert f"({sum(len(segment.data) for segment in lost)} bytes)" in notes["capture-drops"]["text"]
    assert notes["capture-unanswered"]["count"] == 2
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
    tshark, which does not show it without the call, as a header not captured."""
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
    assert cut["matched"]["ops"] == 20
    assert cut["verdict"]["confidence"] == "low"


# --- Calls that are missing by the XIDs -------------------------------------------------------------------------------


def test_calls_missing_by_the_gaps_in_the_xids(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str) -> None:
    """Ops that the server's capture lost leave gaps in the XIDs of a Linux client; the client's capture has none."""
    made = Traffic(xids=[_linux_xid(number) for number in range(250, 250 + OPS)])  # the low byte wraps on the way
    lost = [made.calls[n] for n in (10, 11, 40, 70, 71, 72)] + [made.replies[n] for n in (10, 11, 40, 70, 71, 72)]
    files = _written(tmp_path, made.tcp.seen_by("server", without=lost), made.tcp.seen_by("client"))
    report = _report(capsys, *files)
    found = _audit(report, "server")
    assert found["capture-missing-calls"] == ("warning", 6)
    assert set(found) == {"capture-missing-calls", "capture-drops", *_also(engine, truncated=("warning", 6))}
    assert _audit(report, "client") == {}


@pytest.mark.parametrize(("lost", "severity"), [(2, "info"), (3, "warning"), (12, "warning")])
def test_missing_calls_are_a_warning_above_two_percent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lost: int, severity: str
) -> None:
    """XIDs of calls that no packet shows are counted, and more than 2 % of all calls lowers the confidence."""
    numbers = [number for number in range(OPS) if number % 8 != 4 or number >= 8 * lost]
    report = _report(capsys, *_captured(tmp_path, Traffic(xids=[_linux_xid(number) for number in numbers]).tcp))
    assert _audit(report, "server") == _audit(report, "client") == {"capture-missing-calls": (severity, lost)}
    reasons = [reason for reason in report["verdict"]["reasons"] if "not captured" in reason]
    assert len(reasons) == (severity == "warning")
    assert report["verdict"]["confidence"] == ("low" if lost > 10 else "medium")  # fewer than 100 ops


@pytest.mark.parametrize("xid", [_linux_xid, lambda n: 0xC1D1_90F0 + n], ids=["little", "big"])
def test_xids_without_gaps_miss_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, xid: Callable[[int], int]
) -> None:
    """A complete sequence in either byte order tells of no missing call (random XIDs: the made traffic above)."""
    report = _report(capsys, *_captured(tmp_path, Traffic(xids=[xid(number) for number in range(1, OPS + 1)]).tcp))
    assert (_audit(report, "server"), _audit(report, "client")) == ({}, {})


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
    assert _audit(report, "server") == {}
    assert report["captures"]["client"]["packets"] == 2 * untouched["captures"]["client"]["packets"]
    assert (report["matched"], report["verdict"]) == (untouched["matched"], untouched["verdict"])


@pytest.mark.parametrize(("swaps", "severity"), [(3, "info"), (4, "warning")])
def test_packets_that_stand_in_the_wrong_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, swaps: int, severity: str
) -> None:
    """Neighbours that changed places are counted one each, and are a warning above one packet in a thousand."""
    packets = _read(CLIENT)
    for at in range(500, 500 + 100 * swaps, 100):
        at = next(n for n in range(at, at + 50) if packets[n].t_ns < packets[n + 1].t_ns)  # noqa: PLW2901
        packets[at : at + 2] = packets[at + 1], packets[at]
    report = _report(capsys, SERVER, _write_in_order_given(tmp_path / "swapped.pcap", packets))
    assert _audit(report, "client") == {"capture-reordered": (severity, swaps)}
    assert report["matched"]["ops"] == 671


def test_files_of_a_set_that_overlap(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Two files of which the second begins before the first ends are no rotation; three that follow each other are."""
    for name, packets in (("a", "1-2000"), ("b", "1901-3439"), ("c", "2001-3000"), ("d", "3001-3439")):
        _editcap("-r", CLIENT, tmp_path / f"{name}.pcap", packets)
    overlapping = _report(capsys, SERVER, f"{tmp_path}/a.pcap,{tmp_path}/b.pcap")
    assert _audit(overlapping, "client")["files-overlap"] == ("warning", 1)
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


def test_other_clients_of_the_server_are_named_and_do_not_count(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, untouched: dict[str, Any]
) -> None:
    """A second client in the server's capture is in the notes; confidence, figures and findings are those without."""
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
    assert said in report["notes"]
    assert report["matched"]["unmatched"]["server"] == {"CONNECTION_UNMATCHED": foreign}
    assert report["matched"]["by_op"] == untouched["matched"]["by_op"]
    assert (report["verdict"], report["findings"]) == (untouched["verdict"], [])


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
    """Ops from before the other capture began are counted in a note, and do not lower the confidence."""
    made = Traffic(xids=[_random_xid(number) for number in range(1, 161)])
    early = [*made.calls[:40], *made.replies[:40]]
    late = [*made.calls[145:], *made.replies[145:]]
    server = made.tcp.seen_by("server", theta_ms=theta_ms, without=[*late, made.tcp.packets[-1]])
    report = _report(capsys, *_written(tmp_path, server, made.tcp.seen_by("client", without=early)))
    for side, count, processed in (("server", 40, 145), ("client", 15, 120)):
        assert report["matched"]["unmatched"][side] == {"OUTSIDE_OVERLAP": count}
        said = f"the captures overlap only in part: {count} of the {processed} ops of the {side}'s capture"
        assert any(note.startswith(said) for note in report["notes"])
    assert (report["matched"]["ops"], report["verdict"]["confidence"], report["findings"]) == (105, "high", [])


def test_a_clock_that_was_set_during_the_capture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Half of one capture shifted by 5 s: the clock is found wanting, the sums stay, no direction is given."""
    server, client = _captured(tmp_path, Traffic().tcp)
    first, second, stepped = (tmp_path / f"{name}.pcap" for name in ("first", "second", "stepped"))
    _editcap("-r", server, first, "1-100")
    _editcap("-t", "5", server, second, "1-100")
    _mergecap("-a", "-w", stepped, first, second)
    report, want = _report(capsys, stepped, client), _report(capsys, server, client)
    assert (report["clock"]["fits"], report["clock"]["theta_ms"]) == (False, None)
    lower, upper = report["clock"]["bound_ms"]
    assert lower - upper == pytest.approx(5000, abs=1)
    assert [(finding["code"], finding["severity"]) for finding in report["findings"]] == [("clock-drift", "warning")]
    assert any(note.startswith("no constant clock offset fits all ops") for note in report["notes"])
    for row in (report["matched"]["total"], *report["matched"]["by_op"]):
        assert row["parts_ms"]["call_net"] is row["parts_ms"]["reply_net"] is None
    # The step lies between two ops, so no figure of one clock is wrong.
    for name in ("client_ms", "server_ms", "network_ms"):
        assert report["matched"]["total"][name] == want["matched"]["total"][name]
    both = [one["matched"]["total"]["parts_ms"]["net_both"] for one in (report, want)]
    assert both[0] == pytest.approx(both[1])
    assert report["verdict"]["text"] == want["verdict"]["text"]
    assert (report["verdict"]["confidence"], want["verdict"]["confidence"]) == ("medium", "high")
    assert cli.main([str(stepped), str(client)]) == 0
    text = capsys.readouterr().out
    assert "net_both: on the network, both ways" in text
    assert "call_net: " not in text
    assert "reply_net: " not in text
    assert "No constant offset fits" in text
