"""MPTCP: windows count from the connection's DATA_ACK, and subflows of one connection are shown as that."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest
from captures import Decoder
from multipath import KEYS, Multipath
from timeline import Timeline

from nfslat.cli import main as cli
from nfslat.decode.engine import choose
from nfslat.model.causes import LIMITS, Cause
from nfslat.model.protocol import NULL
from nfslat.tcp.mptcp import first_byte, token
from nfslat.tcp.open_waits import Hang, open_waits
from nfslat.tcp.packets import ACK, Trace
from nfslat.tcp.reading import read_trace
from nfslat.tcp.shared import Shared
from nfslat.tcp.windows import CountsFrom, Windows, windows

ONE = 1460  # a segment


def _two(**others: Any) -> Multipath:
    """Two subflows with their handshakes, 10 ms apart."""
    made = Multipath(**others)
    made.open(0)
    made.open(10)
    return made


def _read(path: Path, *, stream: int | None = None) -> Trace:
    def no_tools() -> NoReturn:
        raise AssertionError("Wireshark's tools are not needed for this")

    source = choose("native", no_tools, path.parent, rereads=False).open(str(path))
    return read_trace(source, no_tools, lambda _: None, stream=stream)


def _windows(made: Multipath, folder: Path, flow: int = 0, **which: Any) -> Windows:
    return windows(Shared(_read(made.write(folder / "made.pcap", **which)).talk(flow)), 0)


def _overtaken() -> Multipath:
    """What the second subflow was to bring comes last: until then the receiver keeps what the first one brought, and
    its window counts from the first byte that is missing. Its application reads nothing."""
    made = _two()
    made.send(1, 20, ">", ONE)
    for number in range(10):
        made.send(0, 21 + number, ">", ONE)
        made.ack(0, 21.2 + number, "<", 0, window=60_000)
    made.ack(1, 50, "<", 11 * ONE, window=60_000 - 11 * ONE)
    made.ack(0, 50.1, "<", 11 * ONE, window=60_000 - 11 * ONE)
    return made


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("version", [0, 1])
def test_a_window_that_counts_from_the_data_ack_is_not_taken_back(tmp_path: Path, version: int, is_short: bool) -> None:
    """The DATA_ACK goes on by what the other subflow brought: the subflow's own acknowledgement does not show that."""
    made = _overtaken()
    made.version, made.is_short = version, is_short
    found = _windows(made, tmp_path)
    assert (found.shrunk, found.counts_from) == (0, CountsFrom.DATA_ACK)
    # The same packets without the options are TCP, and that receiver did take back what it had offered.
    plain = Timeline(client=("10.0.0.1", 40_000), scale=0)
    plain.handshake(0)
    for number in range(10):
        plain.send(21 + number, ">", ONE)
        plain.ack(21.2 + number, "<", window=60_000)
    plain.ack(50.1, "<", window=60_000 - 11 * ONE)
    found = windows(Shared(_read(plain.write(tmp_path / "plain.pcap")).talk(0)), 0)
    assert (found.shrunk, found.shrunk_most_bytes, found.counts_from) == (1, 11 * ONE, CountsFrom.ACK)


def test_a_connection_s_window_may_be_taken_back_all_the_same(tmp_path: Path) -> None:
    """The right edge goes back by 2,540 bytes, counted from the DATA_ACK."""
    made = _two()
    for number, window in enumerate((9_000, 5_000)):
        made.send(0, 20 + 10 * number, ">", ONE)
        made.ack(0, 21 + 10 * number, "<", ONE * (number + 1), window=window)
    found = _windows(made, tmp_path)
    assert (found.shrunk, found.shrunk_most_bytes) == (1, 4_000 - ONE)


def _rounds(window: int) -> Multipath:
    """Each subflow sends four segments, and waits 50 ms for the ACKs: eight of them fill the window, or not."""
    made = _two()
    for number in range(10):
        at = 100 * number + 100
        for flow in (0, 1):
            for segment in range(4):
                made.send(flow, at + flow + segment / 100, ">", ONE)
        for flow in (0, 1):
            made.ack(flow, at + 50 + flow / 10, "<", made.sent[">"], window=window)
        # They go on at once.
        for segment in range(8):
            made.send(segment % 2, at + 50.2 + segment / 100, ">", ONE)
        for flow in (0, 1):
            made.ack(flow, at + 99.5 + flow / 10, "<", made.sent[">"], window=window)
    return made


def _waits_for(made: Multipath, folder: Path, flow: int) -> dict[Cause, int]:
    shared = Shared(_read(made.write(folder / "made.pcap")).talk(flow))
    waits = shared.splits[0].waits
    return {limit: int(waits[at]) for at, limit in enumerate(LIMITS) if waits[at]}


def test_all_subflows_fill_one_window(tmp_path: Path) -> None:
    """No subflow alone has as much under way as the window takes: together they have, and wait for it."""
    made = _rounds(8 * ONE)
    found = [_windows(made, tmp_path, flow) for flow in (0, 1)]
    assert sum(one.full for one in found) >= 18
    for flow in (0, 1):
        assert _waits_for(made, tmp_path, flow).get(Cause.RECEIVE_WINDOW, 0) >= 9
    wide = _rounds(40 * ONE)
    assert [_windows(wide, tmp_path, flow).full for flow in (0, 1)] == [0, 0]
    assert all(Cause.RECEIVE_WINDOW not in _waits_for(wide, tmp_path, flow) for flow in (0, 1))


def test_what_another_subflow_carries_is_not_known_where_it_was_not_captured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one path alone nobody can say whether the window was full; that is said, and nothing else."""
    made = _rounds(8 * ONE)
    assert "cannot be told" not in _text(capsys, made.write(tmp_path / "whole.pcap"))
    assert "whether it was full cannot be told" in _text(capsys, made.write(tmp_path / "made.pcap", only=(0,)))
    for found in (_windows(made, tmp_path, only=(0,)), _windows(made, tmp_path, only=(1,))):
        assert (found.full, found.shrunk, found.counts_from) == (0, 0, CountsFrom.UNSEEN)
    trace = _read(tmp_path / "made.pcap")
    assert Cause.RECEIVE_WINDOW not in [
        limit for at, limit in enumerate(LIMITS) if Shared(trace.talk(0)).splits[0].waits[at]
    ]


def _shut(*, opens: bool) -> Multipath:
    """The window shuts; the sender probes on the first subflow, until it opens on the second one, or for ever."""
    made = _two()
    made.send(0, 20, ">", ONE)
    made.ack(0, 21, "<", ONE, window=0)
    line = made.flows[0]
    for ms in (221, 621, 1421):
        line.add(ms, ">", line.next[">"] - 1, 0, 0, ACK)
        made.ack(0, ms + 0.2, "<", ONE)
    if opens:
        made.ack(1, 1800, "<", ONE, window=30_000)
    made.send(1, 3000, "<", 100)
    return made


def test_a_shut_window_is_opened_by_any_subflow(tmp_path: Path) -> None:
    """It lasts until then, and is no hang; where nothing opens it, it is both."""
    trace = _read(_shut(opens=True).write(tmp_path / "opens.pcap"))
    (zero,) = windows(Shared(trace.talk(0)), 0).zero_windows
    assert (zero.opened_by, zero.probes) == ("another subflow", 3)
    assert zero.ms == pytest.approx(1779)
    assert open_waits(trace.talk(0)) == ()
    trace = _read(_shut(opens=False).write(tmp_path / "shut.pcap"))
    (zero,) = windows(Shared(trace.talk(0)), 0).zero_windows
    assert zero.opened_by is None
    assert [one.hang for one in open_waits(trace.talk(0))] == [Hang.WINDOW]


def test_what_another_subflow_offered_stays_offered(tmp_path: Path) -> None:
    """No window on one subflow is no shut window where the other one's offer reaches further: that holds for both."""
    made = _two()
    made.send(0, 20, ">", ONE)
    made.ack(1, 21, "<", ONE, window=20_000)
    made.ack(0, 22, "<", ONE, window=0)
    trace = _read(made.write(tmp_path / "made.pcap"))
    assert windows(Shared(trace.talk(0)), 0).zero_windows == ()
    level = trace.talk(0).level
    assert level is not None
    assert level.room(0, slice(None)).tolist()[-1] == 20_000


@pytest.mark.parametrize("is_short", [False, True])
def test_the_room_is_what_plain_steps_make_of_the_packets(tmp_path: Path, is_short: bool) -> None:
    """Random packets on three subflows, one joined by the server, mappings of two packets: with every ACK, what lies
    between the last byte that was sent and the furthest one that a DATA_ACK and its window let through."""
    rng = random.Random(8684)
    made = Multipath(is_short=is_short, mapping=2 * ONE, joins_back=frozenset({2}))
    for at in (0, 10, 20):
        made.open(at)
    rooms: list[tuple[int, int]] = []  # subflow, room
    acked = offered = 0
    for step in range(400):
        ms, flow = 100 + step, rng.randrange(3)
        if rng.random() < 0.6:
            for half in (0, 0.5):
                made.send(flow, ms + half, ">", ONE)
        else:
            acked = rng.randint(acked, made.sent[">"])
            window = rng.choice([0, 20_000, 65_535])
            made.ack(flow, ms, "<", acked, window=window)
            offered = max(offered, acked + window)
            rooms.append((flow, max(offered - made.sent[">"], 0)))
    made.ack(0, 1000, "<", made.sent[">"], window=500)
    trace = _read(made.write(tmp_path / "made.pcap"))
    for flow in range(3):
        talk = trace.talk(flow)
        assert talk.level is not None
        told = talk.level.room(int(flow == 2), slice(None))[
            (talk.level.acked != NULL) & (talk.packets.t_ns < trace.last_ns)
        ]
        assert told.tolist() == [room for number, room in rooms if number == flow]
        way = int(flow == 2)  # of the data
        assert windows(Shared(talk), way).counts_from is CountsFrom.DATA_ACK


def test_the_first_data_may_have_the_keys_instead_of_a_number(tmp_path: Path) -> None:
    """They begin the connection: their number comes from the key."""
    made = _two()
    made.send(0, 20, ">", ONE, first=True)
    made.send(0, 21, ">", ONE)
    made.ack(0, 22, "<", 2 * ONE, window=10_000)
    talk = _read(made.write(tmp_path / "made.pcap")).talk(0)
    assert talk.level is not None
    assert talk.level.room(0, slice(None)).tolist()[-1] == 10_000


# --- Subflows of one connection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("joins_back", [frozenset[int](), frozenset({1})], ids=["client", "server"])
@pytest.mark.parametrize("version", [0, 1])
def test_subflows_of_a_connection_are_told_by_its_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int, joins_back: frozenset[int]
) -> None:
    """Whoever joins; beside them conversations that are not of it."""
    made = _two(version=version, joins_back=joins_back)
    for flow in (0, 1):
        made.send(flow, 30 + flow, ">", ONE)
        made.ack(flow, 32 + flow, "<", ONE * (1 + flow), window=9_000)
    plain = Timeline(client=("10.0.9.1", 50_000))
    plain.handshake(40)
    made.flows.append(plain)
    path = made.write(tmp_path / "made.pcap")
    found = _as_json(capsys, path)
    tokens = [f"{token(version, key):08x}" for key in KEYS]
    assert found["multipath"] == [{"version": version, "streams": [0, 1], "tokens": tokens}]
    assert [line["is_mptcp"] for line in found["conversations"]] == [True, True, False]
    assert "MPTCP: conversations 0 and 1 are the subflows of one connection" in _text(capsys, path)
    # One of them alone is still of it.
    assert _as_json(capsys, path, "--stream", "1")["multipath"] == found["multipath"]


def test_without_the_first_subflow_nothing_is_known_of_the_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two that joined the same one are not put together: that they are MPTCP is all that is said."""
    made = _two()
    made.open(20)
    for flow in (0, 1, 2):
        made.send(flow, 30 + flow, ">", ONE)
    path = made.write(tmp_path / "made.pcap", only=(1, 2))
    found = _as_json(capsys, path)
    assert (found["multipath"], [line["is_mptcp"] for line in found["conversations"]]) == ([], [True, True])
    assert "MPTCP: conversations 0 and 1; its connection is not known" in _text(capsys, path)


def test_a_server_without_mptcp_makes_it_tcp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The client asks for it; where the SYN-ACK does not, what follows is plain TCP."""
    made = Multipath()
    made.open(0)
    line = made.flows[0]
    line.lines[1:] = [Timeline().add(one.t_ns / 1e6, one.way, one.seq, 0, one.ack, one.flags) for one in line.lines[1:]]
    found = _as_json(capsys, made.write(tmp_path / "made.pcap"))
    assert (found["multipath"], [line["is_mptcp"] for line in found["conversations"]]) == ([], [False])


@pytest.mark.parametrize("version", [0, 1])
def test_tshark_sees_the_same(decoder: Decoder, tmp_path: Path, version: int) -> None:
    """The token that a join names, which subflows are of one connection, and every number in the options."""
    made = _two(version=version, is_short=version == 0)
    for number in range(3):
        made.send(number % 2, 30 + number, ">", ONE)
        made.ack(number % 2, 40 + number, "<", ONE * (1 + number))
    path = made.write(tmp_path / "made.pcap")
    own = ("recvtok", "rawdataack", "rawdataseqno", "subflowseqno", "datalvllen")
    fields = ["tcp.stream", "mptcp.stream", *(f"tcp.options.mptcp.{one}" for one in own)]
    fields += ["mptcp.expected_token", "mptcp.expected_idsn"]
    command = [decoder.tools.tshark, "-n", "-r", str(path), "-T", "fields", *(f"-e{field}" for field in fields)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=decoder.tools.environment)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    trace = _read(path)
    # In front of the first key it does not know.
    assert {(row[0], row[1]) for row in rows if row[1]} == {("0", "0"), ("1", "0")}
    assert [[one.row for one in members] for members in trace.mptcp] == [[0, 1]]
    assert {int(row[2]) for row in rows if row[2]} == {token(version, KEYS[1])}
    expected = {(int(row[7]), (int(row[8]) + 1) % (1 << 32)) for row in rows if row[7]}
    assert expected == {(token(version, key), first_byte(version, key)) for key in KEYS}
    low = [[int(cell) % (1 << 32) if cell else None for cell in row[3:7]] for row in rows]
    signals = trace.signals
    ours: list[list[int | None]] = [[None] * 4 for _ in rows]
    for at, row in enumerate((trace.packets.frame[signals.row] - 1).tolist()):
        if signals.has[at] & 1:
            ours[row][0] = int(signals.ack[at])
        if signals.has[at] & 2:
            ours[row][1:] = int(signals.seq[at]), int(signals.start[at]), int(signals.size[at])
    assert ours == low
    assert len(signals) == 6


def _text(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.main(["transport", *map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def _as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert cli.main(["transport", *map(str, arguments), "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
