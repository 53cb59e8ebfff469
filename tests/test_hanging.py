"""Connections that hang when captures end: named in the NFS report, with what is known of why; look-alikes are not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wire
from hanging_nfs import ACK, AT, BACKOFF, END, RST, SYN, others, sent_again, served, shut
from wire import write_pcap

from nfslat.cli import main as cli
from nfslat.decode.directions import on_one_clock
from nfslat.decode.engine import choose
from nfslat.decode.merge import merge
from nfslat.decode.tools import find_tools
from nfslat.findings.hanging import SHUT, UNACKNOWLEDGED
from nfslat.model.decoded import Decoded, Directions
from nfslat.results import Side
from nfslat.select import Filters
from nfslat.tally.hangs import HangTally


def _report(path: Path, *captures: Path, options: Iterable[str] = ()) -> dict[str, Any]:
    out = path / "report.json"
    assert cli.main([*map(str, captures), "-q", "--json", str(out), *options]) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def _pair(
    path: Path,
    *flows: wire.Tcp,
    not_server: Iterable[wire.Packet] = (),
    not_client: Iterable[wire.Packet] = (),
    **clock: float,
) -> list[Path]:
    """Captures at both ends, of which each lacks some packets; the clocks are 3 s apart."""
    seen = {"server": not_server, "client": not_client}
    return [
        write_pcap(
            path / f"{side}.pcap", *(flow.seen_by(side, without=without, theta_ms=3000, **clock) for flow in flows)
        )
        for side, without in seen.items()
    ]


def _one(path: Path, *flows: wire.Tcp, side: str = "client", options: Iterable[str] = ()) -> dict[str, Any]:
    return _report(path, write_pcap(path / "one.pcap", *(flow.seen_by(side) for flow in flows)), options=options)


def _codes(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = [one for one in report["findings"] if one["code"] in (SHUT, UNACKNOWLEDGED)]
    return [(one["code"], one["layer"], one["confidence"]) for one in found]


def test_data_that_never_arrive_are_lost_on_the_path(tmp_path: Path) -> None:
    """A call goes out seven times, and the server's capture, which runs meanwhile, shows none of them."""
    tcp, tries = sent_again()
    report = _report(tmp_path, *_pair(tmp_path, tcp, others(), not_server=tries))
    (hang,) = report["hangs"]
    assert (hang["capture"], hang["awaits"], hang["side"], hang["cut"]) == ("client", "ack", "client", "nothing")
    assert (hang["waiter"], hang["other"]) == ("10.0.0.1:700", "10.0.0.2:2049")
    assert (hang["tries"], hang["compared"], hang["arrived"], hang["acked"]) == (7, 7, 0, False)
    assert (hang["calls"], hang["bytes"]) == (1, len(tries[0].data))
    assert hang["last_try_ms"] == pytest.approx(12_600)
    assert hang["ms"] == pytest.approx(19_000, abs=200)
    assert _codes(report) == [("never-acknowledged", "network", "certain")]


def test_data_that_arrive_and_are_not_acknowledged_are_the_hosts(tmp_path: Path) -> None:
    """All seven are in the server's capture, and no ACK is."""
    tcp, _ = sent_again()
    report = _report(tmp_path, *_pair(tmp_path, tcp, others()))
    (hang,) = report["hangs"]
    assert (hang["tries"], hang["compared"], hang["arrived"], hang["acked"]) == (7, 7, 7, False)
    assert _codes(report) == [("never-acknowledged", "server", "likely")]


def test_some_that_arrive_are_counted(tmp_path: Path) -> None:
    """The first and the last but one come through."""
    tcp, tries = sent_again()
    lost = [one for number, one in enumerate(tries) if number not in (0, 5)]
    (hang,) = _report(tmp_path, *_pair(tmp_path, tcp, others(), not_server=lost))["hangs"]
    assert (hang["compared"], hang["arrived"]) == (7, 2)


def test_a_first_try_that_is_lost_in_front_of_others_that_arrive_does_not_count(tmp_path: Path) -> None:
    """Behind the lost segment come two more, so that the server's capture has a hole where it was."""
    tcp = served()
    tries = tcp.send(AT, ">", wire.read(99))
    tcp.send(AT + 1, ">", wire.read(100))
    tcp.send(AT + 2, ">", wire.read(101))
    tries += [tcp.again(AT + ms, tries[0]) for ms in BACKOFF]
    (hang,) = _report(tmp_path, *_pair(tmp_path, tcp, others(), not_server=tries))["hangs"]
    assert (hang["tries"], hang["compared"], hang["arrived"], hang["calls"]) == (7, 7, 0, 3)


def test_acks_that_are_lost_on_the_way_back_are_the_paths(tmp_path: Path) -> None:
    """The server acknowledges each, as its own capture shows; the client's has none of that."""
    tcp, _ = sent_again()
    acks = [tcp.ack(AT + ms + 0.5, "<") for ms in (0, *BACKOFF)]
    report = _report(tmp_path, *_pair(tmp_path, tcp, others(), not_client=acks))
    (hang,) = report["hangs"]
    assert (hang["arrived"], hang["acked"]) == (7, True)
    assert _codes(report) == [("never-acknowledged", "network", "certain")]


def test_a_server_waits_for_its_client_alike(tmp_path: Path) -> None:
    """A reply is sent again, and the client is gone: taken from the server's capture, and by its clock."""
    tcp, tries = sent_again(way="<")
    report = _report(tmp_path, *_pair(tmp_path, tcp, others(), not_client=tries))
    (hang,) = report["hangs"]
    assert (hang["capture"], hang["side"], hang["waiter"]) == ("server", "server", "10.0.0.2:2049")
    assert (hang["tries"], hang["compared"], hang["arrived"], hang["calls"]) == (7, 7, 0, 0)


def test_tries_while_the_other_capture_did_not_run_are_not_compared(tmp_path: Path) -> None:
    """It ends behind the third of seven."""
    tcp, tries = sent_again()
    server, client = _pair(tmp_path, tcp, others(), not_server=tries)
    kept = [one for flow in (tcp, others()) for one in flow.seen_by("server", theta_ms=3000, without=tries)]
    until_ns = wire.EPOCH_NS + round((3000 + AT + 1000) * 1e6)
    write_pcap(server, [one for one in kept if one.t_ns < until_ns])
    (hang,) = _report(tmp_path, server, client)["hangs"]
    assert (hang["tries"], hang["compared"], hang["arrived"]) == (7, 3, 0)


def test_a_connection_that_the_other_capture_never_saw(tmp_path: Path) -> None:
    """All of it, its handshake too, is in the client's capture alone; the hosts are in both."""
    tcp, _ = sent_again()
    (hang,) = _report(tmp_path, *_pair(tmp_path, tcp, others(), not_server=tcp.packets))["hangs"]
    assert (hang["compared"], hang["arrived"], hang["acked"]) == (7, 0, False)


def test_one_capture_does_not_tell_the_path_from_the_host(tmp_path: Path) -> None:
    tcp, _ = sent_again()
    report = _one(tmp_path, tcp, others())
    (hang,) = report["hangs"]
    assert (hang["capture"], hang["compared"], hang["arrived"], hang["acked"]) == ("capture", None, None, None)
    assert _codes(report) == [("never-acknowledged", "network", "likely")]


def test_a_window_that_stays_shut_is_its_hosts(tmp_path: Path) -> None:
    """The server's window was shut for 19 s and six probes, each of which it answered."""
    report = _report(tmp_path, *_pair(tmp_path, shut(), others()))
    (hang,) = report["hangs"]
    assert (hang["awaits"], hang["side"], hang["tries"], hang["bytes"]) == ("window", "client", 6, 0)
    assert (hang["compared"], hang["arrived"], hang["calls"]) == (6, 6, 1)
    assert hang["last_try_ms"] == pytest.approx(12_600, abs=1)
    assert _codes(report) == [("window-stays-shut", "server", "certain")]


def test_probes_that_nothing_answers_leave_it_likely(tmp_path: Path) -> None:
    report = _one(tmp_path, shut(answered=False), others())
    assert _codes(report) == [("window-stays-shut", "server", "likely")]


def test_a_window_of_which_single_bytes_are_taken_stays_shut(tmp_path: Path) -> None:
    """Each probe brings a byte that is acknowledged, and the window is 0 still."""
    tcp = served()
    tcp.send(AT - 1, ">", wire.write(99, count=512))
    tcp.window["<"] = 0
    tcp.ack(AT, "<")
    for ms in BACKOFF:
        tcp.raw(AT + ms, ">", tcp.next[">"], b"\0")
        tcp.next[">"] += 1
        tcp.ack(AT + ms + 0.3, "<")
    (hang,) = _one(tmp_path, tcp, others())["hangs"]
    assert (hang["awaits"], hang["tries"]) == ("window", 6)
    assert hang["ms"] == pytest.approx(19_000, abs=200)


@pytest.mark.parametrize(
    ("cut", "flags", "way"), [("own-reset", RST, ">"), ("reset", RST, "<"), ("next-connection", SYN, ">")]
)
def test_what_ends_a_connection_ends_its_wait(cut: str, flags: int, way: str, tmp_path: Path) -> None:
    """A RST of either end, or the SYN of the next one between these ports; what others send behind changes nothing."""
    tcp, _ = sent_again()
    tcp.raw(
        15_000, way, tcp.next[way] + (100_000 if flags == SYN else 0), b"", ack=0 if flags == SYN else None, flags=flags
    )
    if flags == RST:
        tcp.raw(15_001, way, tcp.next[way], b"", flags=RST)
    if cut == "reset":
        tcp.again(16_000, tcp.packets[-3])
    (hang,) = _one(tmp_path, tcp, others())["hangs"]
    assert (hang["cut"], hang["tries"]) == (cut, 7)
    assert hang["ms"] == pytest.approx(14_000, abs=0.2)


def test_a_connection_that_goes_on_behind_a_reset_is_not_over(tmp_path: Path) -> None:
    """A RST that is not of the connection: its sender says more, and acknowledges all."""
    tcp, _ = sent_again()
    tcp.raw(15_000, "<", tcp.next["<"], b"", flags=RST)
    tcp.send(15_500, "<", wire.reply(99, wire.read3(64)))
    tcp.ack(15_501, ">")
    assert _one(tmp_path, tcp, others())["hangs"] == []


def _opens_again() -> wire.Tcp:
    tcp = shut()
    tcp.window["<"] = 0xFFFF
    tcp.ack(15_000, "<")
    return tcp


def _keep_alives() -> wire.Tcp:
    tcp = served()
    for number in range(5):
        tcp.raw(AT + 3000 * number, ">", tcp.next[">"] - 1, b"", flags=ACK)
        tcp.ack(AT + 3000 * number + 0.3, "<")
    return tcp


def _in_the_middle() -> wire.Tcp:
    """Of a WRITE that was sent again once, a moment before the end."""
    tcp = served()
    sent = tcp.send(END - 500, ">", wire.write(99), cut=(1448,) * 5)
    tcp.ack(END - 400, "<", sent[2])
    tcp.again(END - 200, sent[3])
    return tcp


def _answered_unseen() -> wire.Tcp:
    """Twice, and then the sender is content: the capture lost the ACK."""
    return sent_again((200,))[0]


def _acknowledged() -> wire.Tcp:
    tcp, _ = sent_again()
    tcp.ack(AT + 12_700, "<")
    return tcp


def _one_direction() -> wire.Tcp:
    """A mirror of one direction shows no ACK of anything, and the sender goes on."""
    tcp = served()
    sent = tcp.send(AT, ">", wire.read(99))
    for ms in BACKOFF[:2]:
        tcp.again(AT + ms, *sent)
    for number in range(20):
        tcp.send(AT + 1000 + 100 * number, ">", wire.read(200 + number))
    tcp.packets = [one for one in tcp.packets if one.way == ">"]
    return tcp


@pytest.mark.parametrize(
    "flow",
    [
        pytest.param(_opens_again, id="a window that opened again"),
        pytest.param(lambda: shut(probes=()), id="a shut window that nobody asks about"),
        pytest.param(served, id="an idle connection"),
        pytest.param(_keep_alives, id="keep-alives of an idle connection"),
        pytest.param(_in_the_middle, id="a transfer in whose middle the capture ends"),
        pytest.param(_answered_unseen, id="a retransmission whose ACK the capture lost"),
        pytest.param(_acknowledged, id="data that were acknowledged at last"),
    ],
)
def test_what_only_looks_so_hangs_nothing(flow: Any, tmp_path: Path) -> None:
    report = _one(tmp_path, flow(), others())
    assert (report["hangs"], _codes(report)) == ([], [])


def test_a_mirror_of_one_direction_hangs_nothing(tmp_path: Path) -> None:
    answered = others()
    report = _one(tmp_path, _one_direction(), answered)
    assert report["hangs"] == []


@pytest.mark.parametrize(
    "flow",
    [
        shut,
        lambda: shut(answered=False),
        lambda: sent_again()[0],
        lambda: sent_again(way="<")[0],
        lambda: sent_again((200,))[0],
        lambda: sent_again((200, 600))[0],
        _opens_again,
        _keep_alives,
        _in_the_middle,
        _acknowledged,
        _one_direction,
    ],
)
def test_transport_says_the_same_of_the_same_connection(flow: Any, tmp_path: Path) -> None:
    """What waits for a window or an ACK, since when, how long and how often."""
    names = {"shut-window": "window", "no-ack": "ack"}
    path = write_pcap(tmp_path / "one.pcap", flow().seen_by("client"), others().seen_by("client"))
    ours = _report(tmp_path, path)["hangs"]
    out = tmp_path / "transport.json"
    assert cli.main(["transport", str(path), "-q", "--json", str(out)]) == 0
    theirs = [one for one in json.loads(out.read_text())["hangs"] if one["hang"] in names]
    said = ("waiter", "other", "since", "tries", "bytes")
    assert [[one[name] for name in said] for one in ours] == [[one[name] for name in said] for one in theirs]
    assert [one["awaits"] for one in ours] == [names[one["hang"]] for one in theirs]
    for name in ("ms", "last_try_ms"):
        assert [one[name] for one in ours] == pytest.approx([one[name] for one in theirs])


def test_many_connections_are_one_finding_and_ten_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve connections of a mount, of which calls and time are summed up."""
    flows = [sent_again(port=800 + number)[0] for number in range(12)]
    report = _one(tmp_path, *flows, others())
    (found,) = [one for one in report["findings"] if one["code"] == "never-acknowledged"]
    assert (found["evidence"]["connections"], found["evidence"]["calls"], len(report["hangs"])) == (12, 12, 12)
    capsys.readouterr()
    assert cli.main([str(tmp_path / "one.pcap"), "--full"]) == 0
    text = capsys.readouterr().out
    assert text.count("waits for an ACK from") == 10
    assert "12 connections are like that" in " ".join(text.split())


def test_filters_by_time_and_address_leave_out_what_is_not_asked_for(tmp_path: Path) -> None:
    tcp, _ = sent_again((200, 600))
    tcp.raw(3000, ">", tcp.next[">"], b"", flags=RST)
    for options, is_there in (
        (("--start", "5"), False),
        (("--start", "2"), True),
        (("--end", "0.5"), False),
        (("--client-addr", "10.0.0.1"), True),
        (("--port", "2049"), True),
    ):
        report = _one(tmp_path, tcp, others(), options=options)
        assert bool(report["hangs"]) == is_there, options


def test_tshark_does_not_say(tmp_path: Path) -> None:
    """The engine does not tell what TCP did, so that it is not known."""
    tcp, _ = sent_again()
    assert _one(tmp_path, tcp, others(), options=("--engine", "tshark"))["hangs"] is None


def _decoded(path: Path) -> Decoded:
    from nfslat.decode import blocks, native

    source = native.open_source(str(path), find_tools, path.parent, rereads=False)
    return blocks.decode(source, find_tools, lambda _: None)[1]


@pytest.mark.parametrize(("way", "cut"), [(">", "<"), (">", ">"), ("<", "<"), ("window", "<")])
def test_two_clocks_in_one_file_are_put_on_one(way: str, cut: str, tmp_path: Path) -> None:
    """What the server sends has the stamps of a clock that is 300 ms ahead; each instant is of who made it."""
    tcp = shut() if way == "window" else sent_again(way=way)[0]
    tcp.raw(15_000, cut, tcp.next[cut], b"", flags=RST)
    flows = tcp, others()
    ways = [packet.way for one in flows for packet in one.packets]
    seen = [packet for one in flows for packet in one.seen_by("client")]
    in_order = sorted(zip(seen, ways, strict=True), key=lambda pair: pair[0].t_ns)
    ahead_ns = 300_000_000
    decoded = []
    for delta_ns in (0, ahead_ns):
        frames = [dataclasses.replace(one, t_ns=one.t_ns + delta_ns * (way == "<")) for one, way in in_order]
        decoded.append(_decoded(write_pcap(tmp_path / "clocks.pcap", frames, as_given=True)))
    found = Directions(delta_ns=ahead_ns, lo_ns=ahead_ns, hi_ns=ahead_ns, ppm=0.0, at_ns=0, backward=9)
    made, amended = decoded[0].details.hangs, on_one_clock(decoded[1], found).details.hangs
    assert len(made) == 1
    for name in made.columns():
        assert getattr(amended, name).tolist() == getattr(made, name).tolist(), name


def test_a_part_of_a_capture_says_what_the_whole_does(tmp_path: Path) -> None:
    """Decoded apart by hosts, whose last packets come before the capture's: three tries and then silence are no hang
    there either, and seven are one for as long. Put together again the table is what it was."""
    flows = (sent_again((200, 600), host="10.0.0.3")[0], sent_again(host="10.0.0.4")[0], others())
    path = write_pcap(tmp_path / "all.pcap", *(flow.seen_by("client") for flow in flows))
    source = choose("native", find_tools, tmp_path, rereads=False).open(str(path))
    from nfslat.decode.apart import decode_apart

    parts = decode_apart(source, find_tools, lambda _: None)
    whole = _decoded(path)
    wanted = HangTally.of(Side(parts.source, whole, np.zeros(len(whole.ops), dtype=np.int8)), Filters()).rows() or []
    assert [one.waiter for one in wanted] == ["10.0.0.4:700"]
    found = []
    for _, part in parts.hosts:
        side = Side(parts.source, part, np.zeros(len(part.ops), dtype=np.int8))
        found += HangTally.of(side, Filters()).rows() or []
    assert found == wanted
    merged = merge([part for _, part in parts.hosts], parts.facts).details.hangs
    assert len(merged) == 2
    for name in merged.columns():
        assert getattr(merged, name).tolist() == getattr(whole.details.hangs, name).tolist(), name
