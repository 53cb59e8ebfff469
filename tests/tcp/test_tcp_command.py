"""`nfslat transport` from the command line: what it prints, its JSON, its exit statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from captures import SHARED, SHARED_CAPTURES, id_of, needs_captures
from timeline import Timeline
from valid import validator
from wire import write_pcap

from nfslat.cli import main as cli
from nfslat.tcp.model import Report

_SCHEMA = validator(Report)
_TETO = "teto-pymptcpanalyzer__{}_1_tcp_only.snap128.pcapng.gz"


def _transport(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.main(["transport", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def _as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    return _valid(_transport(capsys, *arguments, "--json", "-"))


def _valid(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    _SCHEMA.validate(found)
    assert Report.from_json(text).to_dict() == found
    return found


def _delayed(port: int = 40_000) -> Timeline:
    """Ten requests in two writes: the second one waits for the ACK of the first, which comes 200 ms late."""
    line = Timeline(client=("10.0.0.1", port))
    line.handshake(0)
    for turn in range(10):
        line.send(10 + 300 * turn, ">", 100)
        line.ack(211 + 300 * turn, "<")
        line.send(211.1 + 300 * turn, ">", 50)
        line.send(213 + 300 * turn, "<", 400)
    return line


def test_the_answer_names_delayed_acks_and_what_they_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten waits of 201.1 ms are two seconds, and the first lines say so."""
    path = _delayed().write(tmp_path / "delayed.pcap")
    text = _transport(capsys, path)
    assert "10 turns" in text.splitlines()[0]
    assert any("delayed ACKs 2.01 s" in line for line in text.splitlines()[:5])
    (one,) = _as_json(capsys, path)["details"]
    assert one["costs"][0]["cause"] == "delayed-ack"
    assert one["costs"][0]["ms"] == pytest.approx(2008)
    assert one["costs"][0]["waits"] == 10


def test_lines_fit_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """80 columns, one capture or two."""
    line = _delayed()
    near, far = line.write(tmp_path / "near.pcap"), line.write(tmp_path / "far.pcap", there_ms=0.4, back_ms=-0.4)
    for captures in ((near,), (near, far)):
        assert max(map(len, _transport(capsys, *captures).splitlines())) <= 80


def test_packets_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each packet of a capture is counted once: TCP, twice captured, not asked for, or not TCP."""
    line = _delayed()
    line.again(5000, line.lines[5])
    found = _as_json(capsys, line.write(tmp_path / "one.pcap"), "--port", 1521)
    (capture,) = found["captures"]
    told = ("tcp_packets", "copies", "damaged_packets", "skipped_packets", "other_packets")
    assert capture["packets"] == sum(capture[name] for name in told)
    (one,) = found["details"]
    assert sum(way["packets"] for way in one["counts"]) == capture["tcp_packets"]
    for way in one["counts"]:
        kinds = ("new", "ahead", "retransmissions", "out_of_order", "keep_alives", "zero_window_probes")
        assert way["data_packets"] == sum(way[name] for name in kinds)


def test_a_stream_and_a_port_choose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--stream looks at one conversation, --port at those of a port; the list numbers them."""
    path = write_pcap(tmp_path / "two.pcap", _delayed().seen(), _delayed(40_001).seen(), nano=True)
    found = _as_json(capsys, path)
    assert [line["stream"] for line in found["conversations"]] == [0, 1]
    chosen = _as_json(capsys, path, "--stream", 1)
    assert [detail["a"] for detail in chosen["details"]] == ["10.0.0.1:40001"]
    chosen = _as_json(capsys, path, "--port", 40_000)
    assert [detail["a"] for detail in chosen["details"]] == ["10.0.0.1:40000"]


def test_two_captures_say_what_was_lost_and_how_long_the_way_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A segment that never arrives is lost, the round trip is exact; the order of the files does not matter."""
    line = _delayed()
    lost = line.send(4000, ">", 300)
    line.send(4210, ">", 300, seq=lost.seq)
    line.ack(4211, "<")
    near = line.write(tmp_path / "near.pcap")
    far = line.write(tmp_path / "far.pcap", there_ms=0.04, back_ms=-0.05, clock_ms=7000, without=[lost])
    for captures in ((near, far), (far, near)):
        found = _as_json(capsys, *captures)
        (one,) = found["details"]
        there = one["ends"]["passed"][0]
        assert there["lost_bytes"] == 300
        assert one["ends"]["least_round_trip_ms"] == pytest.approx(0.09)
        assert there["sender_capture"] == captures.index(near)
        low, high = found["clock"]["bound_ms"]
        assert low <= (7000 if captures[0] == near else -7000) <= high


def test_the_order_of_two_captures_does_not_change_what_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Turns are the asker's, and each sender's waits are seen at its own end: the response that was lost, too."""
    line = _delayed()
    line.send(4000, ">", 300)
    lost = line.send(4002, "<", 400)
    line.send(4250, "<", 400, seq=lost.seq)
    line.ack(4251, ">")
    near = line.write(tmp_path / "near.pcap", without=[lost])
    far = line.write(tmp_path / "far.pcap", there_ms=0.04, back_ms=-0.05)
    one, other = (_as_json(capsys, *order)["details"][0] for order in ((near, far), (far, near)))
    assert [cost["cause"] for cost in one["costs"]][:2] == ["delayed-ack", "loss"]
    assert (one["capture"], other["capture"]) == (0, 1)
    assert one["ends"]["passed"][1]["lost_packets"] == 1
    for name in ("a", "b", "counts", "costs", "turns", "waits", "throughput", "sizes"):
        assert one[name] == other[name], name


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["missing.pcap"], 3, "missing.pcap"),
        (["a.pcap", "b.pcap", "c.pcap"], 2, "give one, or one from each end"),
        (["a.pcap", "--port", "0"], 2, "from 1 to 65,535"),
        (["a.pcap", "--stream", "-1"], 2, "give a whole number from 0"),
        (["a.pcap", "--top", "0"], 2, "from 1 to"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and the exit status of the README."""
    assert cli.main(["transport", *arguments]) == status
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_conversation_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number beyond the list, a port that nobody uses."""
    path = _delayed().write(tmp_path / "one.pcap")
    for option in (["--stream", "7"], ["--port", "99"]):
        assert cli.main(["transport", str(path), *option]) == 3
        assert capsys.readouterr().err.count("\n") == 1


@needs_captures
def test_the_two_sided_capture_of_the_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    """2764 packets in both, 17 and 11 in one, at least 50.01 ms either way."""
    captures = [SHARED / "corpus" / _TETO.format(side) for side in ("client", "server")]
    found = _as_json(capsys, *captures, "--top", 64)
    fates: dict[tuple[int, str], int] = {}
    delays = []
    for one in found["details"]:
        for way in one["ends"]["passed"]:
            delays.append(way["least_delay_ms"])
            for side in (0, 1):
                for name, count in way["fates"][side].items():
                    fates[side, name] = fates.get((side, name), 0) + count
    assert fates == {
        (0, "in both"): 2764,
        (0, "lost"): 17,
        (1, "in both"): 2764,
        (1, "ACK not there"): 11,
    }
    assert min(delays) == pytest.approx(50.01, abs=0.005)


@needs_captures
def test_the_four_late_acks_of_the_oracle_capture(capsys: pytest.CaptureFixture[str]) -> None:
    """Frames 65, 276, 279 and 286, at 200.0 ms; SDU 2048."""
    (path,) = SHARED.glob("corpus/*Oracle.pcap")
    (one,) = _as_json(capsys, path)["details"]
    (late,) = [cluster for way in one["waits"]["rounds"] for cluster in way["delayed"]]
    assert (late["timer_ms"], late["count"], late["frames"]) == (200, 4, [65, 276, 279, 286])
    assert late["median_ms"] == pytest.approx(200.0, abs=0.05)
    assert one["sqlnet"]["sdu_bytes"] == 2048


@needs_captures
@pytest.mark.parametrize("path", [path for path in SHARED_CAPTURES if path.parent.name == "corpus"], ids=id_of)
def test_every_capture_of_the_corpus_gets_an_answer(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is in it: a report whose packets add up, or one line and status 3."""
    status = cli.main(["transport", str(path), "--json", "-"])
    out = capsys.readouterr()
    if status:
        assert (status, out.err.count("\n")) == (3, 1)
        return
    (capture,) = _valid(out.out)["captures"]
    told = ("tcp_packets", "copies", "damaged_packets", "skipped_packets", "other_packets")
    assert capture["packets"] == sum(capture[name] for name in told)
