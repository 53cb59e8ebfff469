"""``--missed``: one row an op without a match, with the reason and what the other capture shows of it."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import wire
from captures import SHARED, needs_captures
from wire import Packet, Tcp, getattr3, read, reply, write_pcap

from nfslat.cli import main as cli
from nfslat.export.missed import COLUMNS

Row = dict[str, str]


def scenario() -> tuple[Tcp, dict[str, Packet]]:
    """Six READs, one every 10 ms, each answered 5 ms later: XID and frame numbers count up from 1."""
    tcp, packets = Tcp(), {}
    for i in range(1, 7):
        (packets[f"call {i}"],) = tcp.send(10 * i, ">", read(i, offset=8192 * i, count=512))
        (packets[f"reply {i}"],) = tcp.send(10 * i + 5, "<", reply(i, wire.read3(512)))
    return tcp, packets


def captures(folder: Path, tcp: Tcp, server: list[Packet], client: list[Packet]) -> list[str]:
    """The two files, each without some packets."""
    return [
        str(write_pcap(folder / "server.pcap", tcp.seen_by("server", theta_ms=5000, without=server))),
        str(write_pcap(folder / "client.pcap", tcp.seen_by("client", without=client))),
    ]


def missed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Row]:
    assert cli.main([*arguments, "-q", "--missed", "-"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == ",".join(COLUMNS)
    return list(csv.DictReader(io.StringIO(out)))


@pytest.mark.usefixtures("engine")
def test_each_row_says_why_and_where_to_look(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The server's capture lost the reply of the second op, the call of the third and all of the fourth; the client's
    the reply of the fifth."""
    tcp, packets = scenario()
    lost = [packets[name] for name in ("reply 2", "call 3", "call 4", "reply 4")]
    rows = missed(capsys, *captures(tmp_path, tcp, lost, [packets["reply 5"]]))
    assert [(row["side"], row["reason"], row["xid"], row["other_side"]) for row in rows] == [
        ("server", "NOT_CAPTURED_AT_CLIENT", "0x00000005", "call in frame 9"),
        ("client", "NOT_CAPTURED_AT_SERVER", "0x00000002", "call in frame 3"),
        ("client", "NOT_CAPTURED_AT_SERVER", "0x00000003", "reply in frame 4"),
        ("client", "NOT_CAPTURED_AT_SERVER", "0x00000004", "nothing"),
    ]


@pytest.mark.usefixtures("engine")
def test_a_row_names_the_op_in_full(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Operation, ends, arguments, the four instants on the clock of its own capture, and the four frames."""
    tcp, packets = scenario()
    (row,) = missed(capsys, *captures(tmp_path, tcp, [packets["call 4"], packets["reply 4"]], []))
    assert row == {
        "side": "client",
        "reason": "NOT_CAPTURED_AT_SERVER",
        "program": "NFS",
        "version": "3",
        "op": "READ",
        "xid": "0x00000004",
        "client": "10.0.0.1",
        "client_port": "700",
        "server": "10.0.0.2",
        "server_port": "2049",
        "offset_bytes": "32768",
        "size_bytes": "512",
        "fh_crc32": row["fh_crc32"],
        **{f"t{i}_ns": str(wire.EPOCH_NS + 40 * wire.MS) for i in (0, 1)},
        **{f"t{i}_ns": str(wire.EPOCH_NS + 45 * wire.MS + 100_000) for i in (2, 3)},
        "call_first_frame": "7",
        "call_last_frame": "7",
        "reply_first_frame": "8",
        "reply_last_frame": "8",
        "transmissions": "1",
        "other_side": "nothing",
    }
    assert row["fh_crc32"].startswith("0x")


@pytest.mark.usefixtures("engine")
def test_what_cannot_be_the_same_op_is_named_at_both_sides(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One XID is of a READ at one side and of a GETATTR at the other: each row points at the other one's frames."""
    tcp, packets = scenario()
    (asked,) = tcp.send(100, ">", read(9, offset=8192, count=512))
    (answered,) = tcp.send(105, "<", reply(9, wire.read3(512)))
    (asked_too,) = tcp.send(200, ">", getattr3(9))
    (answered_too,) = tcp.send(205, "<", reply(9, wire.GETATTR3))
    rows = missed(capsys, *captures(tmp_path, tcp, [asked_too, answered_too], [asked, answered, packets["reply 6"]]))
    found = [(row["side"], row["op"], row["xid"], row["other_side"]) for row in rows]
    assert ("server", "READ", "0x00000009", "call in frame 12 and reply in frame 13") in found
    assert ("client", "GETATTR", "0x00000009", "call in frame 13 and reply in frame 14") in found


@pytest.mark.usefixtures("engine")
def test_frames_count_through_rotated_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The client's capture is in two files: the frame of an op in the second one counts the first file's, too."""
    tcp, packets = scenario()
    server, _ = captures(tmp_path, tcp, [packets["call 6"], packets["reply 6"]], [])
    seen = tcp.seen_by("client")
    write_pcap(tmp_path / "c1.pcap", seen[:5])
    write_pcap(tmp_path / "c2.pcap", seen[5:])
    (row,) = missed(capsys, server, str(tmp_path / "c[12].pcap"))
    assert (row["call_first_frame"], row["reply_last_frame"]) == ("11", "12")
    assert row["reason"] == "OUTSIDE_OVERLAP"


@pytest.mark.usefixtures("engine")
def test_only_the_header_where_nothing_is_missed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All ops are matched: the columns are named all the same."""
    tcp, _ = scenario()
    assert missed(capsys, *captures(tmp_path, tcp, [], [])) == []


@pytest.mark.usefixtures("engine")
def test_only_ops_that_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With --op GETATTR no READ is missed, and the rows are as many as the report counts."""
    tcp, packets = scenario()
    for i in range(2):
        tcp.send(300 + 10 * i, ">", getattr3(50 + i))
        packets[f"answer {i}"] = tcp.send(305 + 10 * i, "<", reply(50 + i, wire.GETATTR3))[0]
    files = captures(tmp_path, tcp, [packets["reply 2"], packets["answer 0"]], [])
    for arguments, xids in (([], ["0x00000002", "0x00000032"]), (["--op", "GETATTR"], ["0x00000032"])):
        rows = missed(capsys, *files, *arguments)
        assert [row["xid"] for row in rows] == xids
        assert cli.main([*files, *arguments, "-q", "--json", "-"]) == 0
        counted = json.loads(capsys.readouterr().out)["matched"]["unmatched"]
        assert Counter(row["reason"] for row in rows) == counted["client"]
        assert counted["server"] == {}


def test_many_messages_of_the_other_side_are_not_all_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A client that uses one XID again and again without an answer: three calls are named, the rest is counted."""
    tcp, _ = scenario()
    calls = [tcp.send(100 + 5000 * i, ">", read(9, offset=8192 * i, count=512))[0] for i in range(6)]
    replies = [tcp.send(101, "<", reply(9, wire.read3(512)))[0]]
    rows = missed(capsys, *captures(tmp_path, tcp, calls[1:], replies))
    (row,) = (row for row in rows if row["xid"] == "0x00000009" and row["reason"] != "NO_REPLY")
    assert row["other_side"].endswith("; and 3 more")
    assert row["other_side"].count("call in frame") == 3
    assert all("," not in cell for cell in row.values())


@pytest.mark.usefixtures("engine")
def test_a_file_of_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """To a file: the report still goes to standard output, and the file may be written again."""
    tcp, packets = scenario()
    files = captures(tmp_path, tcp, [packets["reply 2"]], [])
    for _ in range(2):
        assert cli.main([*files, "-q", "--missed", str(tmp_path / "missed.csv")]) == 0
        assert "operations are in both captures" in " ".join(capsys.readouterr().out.split())
        assert len((tmp_path / "missed.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize("option", ["--json", "--csv"])
def test_two_outputs_in_one_place_are_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    """The same file, or standard output twice: a usage error that names both options."""
    for target in ("-", "out.csv"):
        assert cli.main(["server.pcap", "client.pcap", option, target, "--missed", target]) == 2
        assert f"{option} and --missed cannot both go to {target}" in capsys.readouterr().err


def test_one_capture_has_nothing_to_miss(capsys: pytest.CaptureFixture[str]) -> None:
    """With a single capture the option is a usage error."""
    assert cli.main(["server.pcap", "--missed", "-"]) == 2
    assert "needs both captures" in capsys.readouterr().err


@needs_captures
@pytest.mark.parametrize("name", ["j_v3_capture_drops", "j_v3_partial_overlap"])
def test_rows_of_a_real_pair_add_up(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Rows by side and reason are what the report counts; where something is shown of an op, it is its own frame."""
    files = [str(SHARED / "lab" / name / f"{side}.pcap.gz") for side in ("server", "client")]
    rows = missed(capsys, *files)
    assert cli.main([*files, "-q", "--json", "-"]) == 0
    matched = json.loads(capsys.readouterr().out)["matched"]
    for side in ("server", "client"):
        of_side = Counter(row["reason"] for row in rows if row["side"] == side)
        assert of_side == matched["unmatched"][side]
        assert sum(of_side.values()) + matched["ops"] == matched["processed"][side]
    times = np.array([int(row["t0_ns"]) for row in rows])
    assert (np.diff(times) >= 0).all(), "in order of the call"
