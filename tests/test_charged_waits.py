"""Packet pairs with one thing wrong with TCP -> charges, finding and verdict, through the whole pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import wire
from scenario import Scenario

from nfslat.answer import model
from nfslat.decode.engine import choose
from nfslat.evidence.known import Known
from nfslat.model.causes import Cause
from nfslat.pipeline import analyse, correlate, report
from nfslat.results import Analysis
from nfslat.select import Filters

MS = 1_000_000
MSS = 1448
OPS = 25  # of each pair
TRIP = 0.2  # ms there and back
TOOL = model.Tool("test", "native", "nfslat", "nfslat")


@dataclass
class Found:
    """What came out of a pair."""

    c: Analysis
    report: model.Report

    @property
    def charges(self) -> dict[tuple[str, str], tuple[float, int]]:
        """Mean ms of the ops that are hit, and how many are; but for the distance."""
        assert self.c.charges is not None
        known = {key: one for key, one in self.c.charges.sums().items() if key[1] not in (None, Cause.DISTANCE)}
        return {(part, str(cause)): (one.ns / one.ops / MS, one.ops) for (part, cause), one in known.items()}

    def finding(self, code: str) -> model.Finding | None:
        """The one with this code."""
        return next((one for one in self.report.findings if one.code == code), None)


def _found(server: Path, client: Path, folder: Path, **known: Any) -> Found:
    def no_tools() -> Any:
        raise AssertionError("Wireshark's tools are not needed for this")

    engine = choose("native", no_tools, folder, rereads=False)
    c = analyse(correlate(
        engine.open(str(server)), engine.open(str(client)), engine, filters=Filters(), srt="nfslat", may_swap=True,
        progress=lambda _: None,
    ))  # fmt: skip
    return Found(c, report(c, TOOL, Filters(), Known(**known)))


def _of(tcp: wire.Tcp, folder: Path) -> Found:
    files = [
        wire.write_pcap(folder / f"{side}.pcap", tcp.seen_by(side, there_ms=TRIP / 2, back_ms=TRIP / 2), nano=True)
        for side in ("server", "client")
    ]
    return _found(files[0], files[1], folder)


def _connection() -> wire.Tcp:
    tcp = wire.Tcp()
    tcp.syn(0, scale=7)
    tcp.window = {">": 2048, "<": 2048}  # 256 KB
    return tcp


def _verdict(found: Found) -> tuple[str, str | None]:
    assert found.report.verdict is not None
    return found.report.verdict.layer, found.report.verdict.cause


@pytest.mark.parametrize(("timer", "named"), [(40.0, 40), (200.0, 200)])
@pytest.mark.parametrize("op", ["READ", "WRITE"])
def test_a_message_whose_end_waits_for_a_delayed_ack(op: str, timer: float, named: int, tmp_path: Path) -> None:
    """Nagle keeps the last, short segment until all in front of it is acknowledged; the receiver acknowledges four
    segments, and the fifth after its timer. So long the message is being sent."""
    tcp = _connection()
    message_way, other = ("<", ">") if op == "READ" else (">", "<")
    for i in range(OPS):
        t = 10 + i * (timer + 10)
        call = wire.read(i, 8192 * i) if op == "READ" else wire.write(i, 8192 * i)
        reply = wire.reply(i, wire.read3() if op == "READ" else wire.WRITE3)
        begin = t
        if op == "READ":
            tcp.send(t, ">", call)
            begin = t + 1.1  # 1 ms of work
        waits = begin + 0.05 + TRIP / 2 + timer  # the fifth has come, and so long its ACK is held
        times = [begin + 0.01 * k for k in range(5)] + [waits + TRIP / 2 + 0.03]
        sent = tcp.send(begin, message_way, call if op == "WRITE" else reply, cut=[MSS] * 5, at=times)
        tcp.packets = [one for one in tcp.packets if one is not sent[5]]
        tcp.ack(begin + TRIP / 2 + 0.04, other, sent[3])
        tcp.ack(waits, other, sent[4])
        tcp.packets.append(sent[5])
        if op == "WRITE":
            tcp.send(times[5] + 1.1, "<", reply)
    found = _of(tcp, tmp_path)
    part = "reply_send" if op == "READ" else "call_send"
    ((key, (ms, ops)),) = found.charges.items()
    assert (key, ops) == ((part, "delayed-ack"), OPS)
    assert ms == pytest.approx(timer + TRIP, abs=0.1)
    finding = found.finding("delayed-ack")
    assert finding is not None
    assert finding.evidence["timer_ms"] == named
    assert finding.evidence["delayed_by"] == ("client" if op == "READ" else "server")
    assert finding.confidence == "certain"
    assert _verdict(found) == ("network", "delayed-ack")


@pytest.mark.parametrize("op", ["READ", "WRITE"])
@pytest.mark.parametrize(("room", "probe"), [(0, False), (0, True), (512, False)])
def test_a_window_that_closes_in_the_middle_of_a_message(op: str, room: int, probe: bool, tmp_path: Path) -> None:
    """The receiver has no room for 300 ms, probed or not, or none for a segment: the message is being sent all the
    while, and the receiver is named."""
    tcp = _connection()
    message_way, other = ("<", ">") if op == "READ" else (">", "<")
    closed = 300.0
    for i in range(OPS):
        t = 10 + i * (closed + 20)
        call = wire.read(i, 65536 * i, 65536) if op == "READ" else wire.write(i, 65536 * i, 65536)
        reply = wire.reply(i, wire.read3(65536) if op == "READ" else wire.WRITE3)
        begin = t
        if op == "READ":
            tcp.send(t, ">", call)
            begin = t + 1.1
        shut = begin + 0.2 + TRIP / 2  # what was sent so far fills the buffer
        opens = shut + closed
        times = [begin + 0.01 * k for k in range(20)] + [opens + TRIP / 2 + 0.02 + 0.01 * k for k in range(26)]
        sent = tcp.send(begin, message_way, call if op == "WRITE" else reply, cut=[MSS] * 45, at=times)
        tcp.packets = [one for one in tcp.packets if not any(one is rest for rest in sent[20:])]
        tcp.window[other] = room >> 7
        tcp.ack(shut, other, sent[19])
        if probe:
            tcp.raw(shut + 200, message_way, sent[20].seq - 1, b"")
            tcp.ack(shut + 200 + TRIP / 2 + 0.01, other, sent[19])
        tcp.window[other] = 2048
        tcp.ack(opens, other, sent[19])
        tcp.packets += sent[20:]
        if op == "WRITE":
            tcp.send(times[-1] + 1.1, "<", reply)
    found = _of(tcp, tmp_path)
    part, who = ("reply_send", "client") if op == "READ" else ("call_send", "server")
    ((key, (ms, ops)),) = found.charges.items()
    assert (key, ops) == ((part, "receive-window" if room else "zero-window"), OPS)
    assert ms == pytest.approx(closed + TRIP, abs=0.3)
    name, other_name = ("receive-window", "zero-window") if room else ("zero-window", "receive-window")
    finding = found.finding(name)
    assert finding is not None
    assert found.finding(other_name) is None
    assert (finding.evidence["narrowed_by" if room else "closed_by"], finding.layer) == (
        who,
        "network" if room else who,
    )
    assert finding.evidence["wait_ms"] == pytest.approx(ms)
    assert ("no room for the next segment" if room else "is closed") in finding.text
    assert _verdict(found) == ("network" if room else who, name)


def test_a_small_reply_behind_a_large_one_on_the_wire(tmp_path: Path) -> None:
    """A GETATTR that comes 5 ms after a READ of 1 MB, whose reply takes 85 ms to be sent: its own stands behind that in
    the server's socket, and what looks like 80 ms in the server is the network's."""
    tcp = _connection()
    tcp.window = {">": 16384, "<": 16384}  # 2 MB
    pieces, pace = 128, 0.67
    for i in range(OPS):
        t = 10 + i * 120
        tcp.send(t, ">", wire.read(2 * i, i << 20, 1 << 20))
        tcp.send(t + 5, ">", wire.getattr3(2 * i + 1))
        begin = t + 1.1
        times = [begin + pace * k for k in range(pieces)]
        sent = tcp.send(begin, "<", wire.reply(2 * i, wire.read3(1 << 20)), cut=[8192] * (pieces - 1), at=times)
        for k in range(0, pieces, 2):
            tcp.ack(times[k] + TRIP / 2 + 0.01, ">", sent[k])
        tcp.send(times[-1] + 0.01, "<", wire.reply(2 * i + 1, wire.GETATTR3))
    found = _of(tcp, tmp_path)
    ((key, (ms, ops)),) = found.charges.items()
    assert (key, ops) == (("server", "head-of-line"), OPS)
    assert ms == pytest.approx(1.1 + pace * 127 - 5 - TRIP / 2, abs=0.1)
    finding = found.finding("head-of-line")
    assert finding is not None
    assert _verdict(found) == ("network", "head-of-line")
    mean = next(row for row in found.report.matched.by_op if row.op == "GETATTR") if found.report.matched else None
    assert mean is not None
    assert mean.server_ms.mean > 80
    assert finding.share == pytest.approx(ms / 2 / (found.c.client_srt_ns.mean() / MS), rel=0.01)


# --- Windows whose scale the captures do not show ---------------------------------------------------------------------

_FAR = 10.0  # ms there and back


def _flights(window: int, flight: int, *, syn: bool, folder: Path) -> Found:
    """WRITEs of 64 KB, of which `flight` bytes go at once, and the next when all of them are acknowledged; the server
    announces `window`, which stands in the header as it is, and is shifted by 7."""
    tcp = wire.Tcp()
    if syn:
        tcp.syn(0, scale=7)
    tcp.window = {">": 2048, "<": window}
    tcp.send(1, ">", wire.getattr3(900))
    tcp.send(1 + _FAR, "<", wire.reply(900, wire.GETATTR3))
    segments = [MSS] * (flight // MSS) + ([flight % MSS] if flight % MSS else [])
    for i in range(OPS):
        t = 30 + i * 120
        call = wire.write(i, 65536 * i, 65536)
        sizes, times, size, begin = [], [], len(wire.record(call)), t
        while sum(sizes) < size:
            for k, one in enumerate(segments):
                if one := min(one, size - sum(sizes)):
                    sizes.append(one)
                    times.append(begin + 0.01 * k)
            begin += _FAR + 0.1
        sent = tcp.send(t, ">", call, cut=sizes, at=times)
        for k in range(len(segments) - 1, len(sent), len(segments)):
            tcp.ack(times[k] + _FAR / 2 + 0.01, "<", sent[k])
        tcp.send(times[-1] + _FAR / 2 + 1, "<", wire.reply(i, wire.WRITE3))
    tcp.packets.sort(key=lambda one: one.sent_ns)
    files = [
        wire.write_pcap(folder / f"{side}.pcap", tcp.seen_by(side, there_ms=_FAR / 2, back_ms=_FAR / 2), nano=True)
        for side in ("server", "client")
    ]
    return _found(files[0], files[1], folder)


@pytest.mark.parametrize("syn", [True, False], ids=["handshake", "no handshake"])
@pytest.mark.parametrize(
    ("window", "flight", "cause"),
    [
        (90, 90 << 7, "receive-window"),
        # It would take another segment: with any scale with which it takes what is in flight.
        (100, 7 * MSS, "congestion-window"),
        (40_000, 7 * MSS, "congestion-window"),
    ],
    ids=["full to the byte", "room", "room with any scale"],
)
def test_whose_window_is_full_is_told_without_the_handshake(
    window: int, flight: int, cause: str, syn: bool, tmp_path: Path
) -> None:
    """Who stops where the window ends, to the byte, again and again, is held by it; who had room is not."""
    found = _flights(window, flight, syn=syn, folder=tmp_path)
    ((key, (ms, ops)),) = found.charges.items()
    assert (key, ops) == (("call_send", cause), OPS)
    assert ms == pytest.approx((-(-65536 // flight) - 1) * _FAR, abs=1)
    finding = found.finding(cause)
    assert finding is not None
    assert (finding.evidence.get("narrowed_by"), finding.evidence.get("sender")) == (
        ("server", None) if cause == "receive-window" else (None, "client")
    )
    assert _verdict(found) == ("network", cause)


@pytest.mark.parametrize("syn", [True, False], ids=["handshake", "no handshake"])
def test_a_window_whose_scale_nothing_tells(syn: bool, tmp_path: Path) -> None:
    """Room for less than a segment with the least scale, and for many with any other: without the handshake nothing
    is said of room, and neither window is blamed."""
    found = _flights(85, 7 * MSS, syn=syn, folder=tmp_path)
    ((key, (_, ops)),) = found.charges.items()
    assert (key, ops) == (("call_send", "receive-window" if syn else "unknown-window"), OPS)
    finding = found.finding("unknown-window")
    assert (finding is None) == syn
    if finding is not None:
        assert "the server's receive window or the client's congestion window" in finding.text
        assert "room" not in finding.text
        assert (finding.layer, finding.confidence) == ("network", "likely")


# --- Hosts that do not run --------------------------------------------------------------------------------------------


def _reads(first: int, begin: float, end: float, every: float = 4.0) -> list[str]:
    """READs one after the other, 1 ms in the server each."""
    lines, t, xid = [], begin, first
    while t < end:
        lines += [f"{t} > {t + 0.1} READ {xid} {8192 * xid} 8192", f"{t + 1.1} < {t + 1.2} reply {xid}",
                  f"{t + 1.25} > {t + 1.35} ack"]  # fmt: skip
        t, xid = round(t + every, 3), xid + 1
    return lines


def _played(lines: list[str], folder: Path, **known: Any) -> Found:
    server, client = Scenario({"purpose": "made", "timeline": "\n".join(lines), "expect": {}}).write(folder)
    return _found(server, client, folder, **known)


# The reply to the last READ is on the client's wire and not acknowledged; from 200 on.
_TAKEN = ["200 > 200.1 READ 900 0 8192", "201.1 < 201.2 reply 900"]
_REST = _reads(1000, 1402, 1800)


def test_a_client_that_stopped_with_no_op_under_way(tmp_path: Path) -> None:
    """The server sends again what the client had taken and not acknowledged, by its timers; all of that comes at once
    when the client runs again. No op on the wire is longer for it, so it costs no SRT, and the application's time."""
    again = [f"{at} < {1401 + 0.01 * k} retransmit 900" for k, at in enumerate((213, 433, 863))]
    lines = [*_reads(1, 1, 198), *_TAKEN, *again, "1401.2 > 1401.3 ack", *_REST]
    found = _played(lines, tmp_path)
    assert found.c.charges is not None
    (pause,) = found.c.charges.pauses
    assert pause.side == "client"
    assert (pause.end_ns - pause.begin_ns) / MS == pytest.approx(1401 - 201.2, abs=0.2)
    assert found.charges == {}
    finding = found.finding("host-pause")
    assert finding is not None
    assert (finding.layer, finding.share, finding.evidence["pauses"]) == ("client", None, 1)
    ops = len(found.c.matched)
    # One op at a time: one request waited for the whole of it, at most.
    assert finding.evidence["above_wire_ms"] == pytest.approx(1199.8 / ops, rel=0.01)
    assert found.report.verdict is not None
    assert found.report.verdict.text.startswith("The client was stalled for 1.2 s.")
    srt_ms = float(found.c.client_srt_ns.mean()) / MS
    told = _played(lines, tmp_path, app_ms={"": srt_ms + 1200 / ops + 1})
    assert _verdict(told) == ("client", "host-pause")
    known = told.finding("host-pause")
    assert known is not None
    assert known.share == pytest.approx(1199.8 / ops / (srt_ms + 1200 / ops + 1), rel=0.01)


def test_a_server_that_stopped_with_calls_in_hand(tmp_path: Path) -> None:
    """A call that it had taken and not acknowledged comes again and again, all at once at the end: the server's."""
    again = [f"{at} > {1401 + 0.01 * k} retransmit 900" for k, at in enumerate((213, 433, 863))]
    lines = [*_reads(1, 1, 198), _TAKEN[0], *again, "1401.5 < 1401.6 reply 900", *_REST]
    found = _played(lines, tmp_path)
    assert found.c.charges is not None
    (pause,) = found.c.charges.pauses
    assert pause.side == "server"
    ((key, (ms, ops)),) = found.charges.items()
    assert (key, ops) == (("server", "host-pause"), 1)
    assert ms == pytest.approx(1401 - 200.1, abs=0.2)
    finding = found.finding("host-pause")
    assert finding is not None
    assert finding.layer == "server"
    assert _verdict(found) == ("server", "host-pause")


@pytest.mark.parametrize("server_silent", [False, True])
def test_a_client_whose_capture_dropped_what_it_sent_did_run(server_silent: bool, tmp_path: Path) -> None:
    """Replies that come late and all at once, and nothing else for 1.2 s in the client's capture: but the server's
    shows calls of that client meanwhile, which its own capture has lost."""
    calls = [] if server_silent else [f"{at - 0.1} > {at} READ {at} 0 8192 drop=client" for at in (500, 600, 700)]
    replies = [] if server_silent else [f"{at + 1} < {at + 1.1} reply {at} drop=client" for at in (500, 600, 700)]
    late = ["200 > 200.1 READ 900 0 8192", "200.2 > 200.3 READ 901 0 8192", "203 < 1401 reply 900",
            "210 < 1401.01 reply 901"]  # fmt: skip
    found = _played([*_reads(1, 1, 198), *late, *calls, *replies, *_REST], tmp_path)
    assert found.c.charges is not None
    assert [one.side for one in found.c.charges.pauses] == (["client"] if server_silent else [])


def test_where_both_hosts_are_silent_neither_is_blamed(tmp_path: Path) -> None:
    """Calls that had stood in a queue for 150 ms come at once, and no host sent anything for 100 ms before that: the
    queue may be in the host that sends, and that may have stopped."""
    lines, t = [], 200.0
    for k in range(4):  # one every 26 ms leaves the queue
        lines.append(f"{t + k} > {t + 180 + 26 * k} READ {900 + k} 0 8192")
    lines += [f"{t + 130 + 10 * k} > {t + 360.1 + 0.1 * k} READ {910 + k} 0 8192" for k in range(3)]
    lines += [f"{t + 180.5 + 26 * k} < {t + 180.6 + 26 * k} reply {900 + k}" for k in range(4)]
    lines += [f"{t + 361 + 0.1 * k} < {t + 361.1 + 0.1 * k} reply {910 + k}" for k in range(3)]
    found = _played([*_reads(1, 1, 198), *lines, *_REST], tmp_path)
    assert found.c.charges is not None
    assert found.c.charges.pauses == ()


@pytest.mark.parametrize(
    "lines",
    [
        # Dropped on the way: the reply, and what is sent again but for the last, which comes as fast as any.
        ["200 > 200.1 READ 900 0 8192", "201.1 < - reply 900", "401 < - retransmit 900", "801 < - retransmit 900",
         "1401 < 1401.1 retransmit 900"],
        # The reply came, its ACKs are lost: what is sent again comes at once each time.
        [*_TAKEN, "201.3 > - ack", *(f"{at} < {at + 0.1} retransmit 900" for at in (213, 433, 863)),
         "863.2 > 863.3 ack"],
        # The way to the client holds everything for 1.2 s; the client runs, and sends another call in the meantime.
        [*_TAKEN, *(f"{at} < {1401 + 0.01 * k} retransmit 900" for k, at in enumerate((213, 433, 863))),
         "800 > 800.1 READ 901 8192 8192", "801 < 1401.5 reply 901"],
        # One retransmission alone that is late.
        [*_TAKEN, "213 < 1401 retransmit 900"],
    ],
    ids=["path drops", "acks lost", "one way held", "one late"],
)  # fmt: skip
def test_no_host_is_blamed_for_what_the_path_did(lines: list[str], tmp_path: Path) -> None:
    """Backoff of the retransmission timer, lost ACKs and one direction that is dead leave the hosts alone."""
    found = _played([*_reads(1, 1, 198), *lines, *_REST], tmp_path)
    assert found.c.charges is not None
    assert found.c.charges.pauses == ()
    assert found.finding("host-pause") is None


def test_a_message_that_takes_long_to_arrive_is_no_silence(tmp_path: Path) -> None:
    """Behind 1 MB that comes for 400 ms stand small replies, sent at different moments, which then come at once: the
    client took data all the while."""
    lines = _reads(1, 1, 100)
    for i in range(6):
        t = 110 + 500 * i
        xid = 500 + 10 * i
        times = ",".join(f"{t + 1 + 3.3 * k:.2f}" for k in range(120))
        lines += [
            f"{t} > {t + 0.1} READ {xid} 0 1048576",
            f"{','.join(f'{t + 0.5 + 0.01 * k:.2f}' for k in range(120))} < {times} reply {xid}",
        ]
        for k in range(1, 5):
            sent = t + 60 * k
            lines += [
                f"{sent} > {sent + 0.1} GETATTR {xid + k}",
                f"{sent + 1} < {t + 399 + 0.1 * k:.2f} reply {xid + k}",
            ]
    found = _played(lines, tmp_path)
    assert found.c.charges is not None
    assert found.c.charges.pauses == ()
