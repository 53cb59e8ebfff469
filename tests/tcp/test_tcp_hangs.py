"""What an end waits for to the last: named where it asks again, and nothing said of what only looks alike."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from odd_talks import BACKOFF, sent_again, shut, talk
from timeline import MS, Timeline
from wire import write_pcap

from nfslat.cli import main as cli
from nfslat.model.causes import Cause
from nfslat.tcp.both import correlate
from nfslat.tcp.hangs import Hanging, hangs
from nfslat.tcp.open_waits import Hang
from nfslat.tcp.packets import ACK, RST, SYN, Trace
from nfslat.tcp.shared import Shared
from nfslat.tcp.waits import Waits, waits


def _until(trace: Trace, ms: float) -> Trace:
    """The capture goes on so long, by packets of others."""
    return dataclasses.replace(trace, last_ns=trace.first_ns + round(ms * MS))


def _found(line: Timeline, until_ms: float | None = None) -> tuple[Hanging, ...]:
    trace = line.trace()
    return hangs([trace if until_ms is None else _until(trace, until_ms)], None).all


def _waits(line: Timeline) -> Waits:
    return waits(Shared(line.trace().talk(0)))


def _cost(found: Waits, cause: Cause) -> float:
    return next(one.ms for one in found.limits[0].limits if one.limit is cause)


def test_a_window_that_is_still_shut_at_the_end_is_named_and_costs_its_time() -> None:
    """12.6 s and six probes, all answered: the sender waited, and no other data ended that."""
    (one,) = _found(shut())
    assert (one.hang, one.waiter, one.other) == (Hang.WINDOW, "10.0.0.1:40000", "10.0.0.2:1521")
    assert (one.frame, one.tries, one.answers, one.bytes, one.ended_by) == (8, 6, 6, 0, None)
    assert (one.ms, one.last_try_ms) == (pytest.approx(12_600.2), pytest.approx(12_600))
    assert _cost(_waits(shut()), Cause.RECEIVE_WINDOW) == pytest.approx(12_600.2)


def test_a_window_that_opens_again_hangs_nothing() -> None:
    """By an update, with the data that waited, or without."""
    line = shut()
    line.ack(15_000, "<", window=0xFFFF)
    assert _found(line) == ()
    line.send(15_001, ">", 1460)
    line.ack(15_002, "<")
    assert _found(line, 60_000) == ()


def test_a_shut_window_that_nobody_asks_about_hangs_nothing() -> None:
    """A sender with nothing to send waits for no window, and its time is its application's."""
    assert _found(shut(probes=()), 60_000) == ()
    assert _cost(_waits(shut(probes=())), Cause.RECEIVE_WINDOW) == 0


def test_a_sender_that_is_reset_out_of_a_shut_window_waited_until_then() -> None:
    """Who closes with bytes unread sends a RST (RFC 2525 section 2.17)."""
    line = shut()
    line.rst(20_000, "<")
    (one,) = _found(line, 60_000)
    assert (one.hang, one.ended_by, one.ended_frame) == (Hang.WINDOW, "other's reset", len(line.lines))
    assert one.ms == pytest.approx(20_000 - 101)


def test_transmissions_that_nobody_acknowledges_are_named() -> None:
    """Seven of them, the last one 12.6 s behind the first; the capture runs for 20 s."""
    (one,) = _found(sent_again(), 20_000)
    assert (one.hang, one.frame, one.tries, one.answers, one.bytes) == (Hang.ACK, 7, 7, 0, 300)
    assert (one.ms, one.last_try_ms) == (pytest.approx(19_900), pytest.approx(12_600))


def test_a_dead_peer_is_no_mirror_of_one_direction() -> None:
    """The capture begins when the other end is dead: it shows one direction, of which each byte is sent again."""
    line = Timeline()
    for at in (0.0, *BACKOFF):
        line.send(at, ">", 300, seq=0, ack=0)
    (one,) = _found(line)
    assert (one.hang, one.tries, one.bytes) == (Hang.ACK, 7, 300)
    found = _waits(line)
    assert found.one_sided is None
    assert _cost(found, Cause.LOSS) == pytest.approx(12_600)


def test_a_mirror_of_one_direction_hangs_nothing() -> None:
    """It goes on behind what it sent again, or acknowledges what is not shown."""
    line = Timeline()
    for at in (0.0, 200, 600):
        line.send(at, ">", 300, seq=0, ack=0)
    for number in range(20):
        line.send(1000 + 10 * number, ">", 300, ack=0)
    assert _found(line, 60_000) == ()
    assert _waits(line).one_sided == "10.0.0.1:40000"


def test_a_mirror_whose_sender_was_acknowledged_unseen_stays_one() -> None:
    """What is sent again at the end lies behind bytes that must have been acknowledged."""
    line = Timeline()
    for number in range(20):
        line.send(10 * number, ">", 300, ack=100 * number)
    for at in BACKOFF:
        line.send(200 + at, ">", 300, seq=5700, ack=1900)
    assert _waits(line).one_sided == "10.0.0.1:40000"


def test_a_capture_that_ends_in_mid_transfer_hangs_nothing() -> None:
    """Data are under way, or were sent again once, a moment before the end."""
    line = talk()
    for number in range(8):
        line.send(100 + number, ">", 1460)
    assert _found(line) == ()
    line.send(310, ">", 1460, seq=100)
    assert _found(line) == ()


def test_what_is_asked_no_more_was_answered_unseen() -> None:
    """Sent again once, then nothing for a minute: the capture does not show the ACK, for who waits asks on."""
    assert _found(sent_again((200,)), 60_000) == ()
    (one,) = _found(sent_again((200,)), 1500)
    assert (one.hang, one.tries) == (Hang.ACK, 2)


def test_an_idle_connection_hangs_nothing() -> None:
    """Not with keep-alives that are answered either."""
    line = talk()
    assert _found(line, 3_600_000) == ()
    for at in (60_000, 120_000, 180_000):
        line.add(at, ">", line.next[">"] - 1, 0, line.next["<"], ACK)
        line.ack(at + 1, "<")
    assert _found(line, 240_000) == ()


def test_keep_alives_without_answer_are_named() -> None:
    """The first is answered, the next three are not; then the client gives up."""
    line = talk()
    for number, at in enumerate((60_000, 120_000, 180_000, 240_000)):
        line.add(at, ">", line.next[">"] - 1, 0, line.next["<"], ACK)
        if not number:
            line.ack(at + 1, "<")
    (one,) = _found(line, 300_000)
    assert (one.hang, one.tries, one.answers, one.bytes) == (Hang.KEEP_ALIVE, 3, 0, 0)
    assert (one.ms, one.last_try_ms) == (pytest.approx(180_000), pytest.approx(120_000))
    line.rst(300_000, ">")
    (one,) = _found(line, 400_000)
    assert (one.hang, one.ended_by, one.ms) == (Hang.KEEP_ALIVE, "waiter's reset", pytest.approx(180_000))


def test_a_syn_without_answer_is_named() -> None:
    """Four of them: they are all that there is of the connection, and its time is lost to loss."""
    line = Timeline()
    for at in (0, 1000, 3000, 7000):
        line.add(at, ">", -1, 0, None, SYN)
    (one,) = _found(line, 9000)
    assert (one.hang, one.tries, one.ms, one.last_try_ms) == (Hang.SYN, 4, 9000, 7000)
    found = _waits(line)
    assert (found.one_sided, _cost(found, Cause.LOSS)) == (None, 7000)


def test_a_syn_at_the_end_or_in_a_mirror_hangs_nothing() -> None:
    """The capture ends before an answer is late; or shows the client alone, which goes on."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    assert _found(line, 500) == ()
    line.add(0.2, ">", 0, 0, 0, ACK)
    assert _found(line, 60_000) == ()


def test_a_syn_that_is_refused_is_named() -> None:
    """Nobody listens: a RST is the answer."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    line.add(0.3, "<", 0, 0, 0, RST | ACK)
    (one,) = _found(line, 5000)
    assert (one.hang, one.waiter, one.ms, one.ended_frame) == (Hang.REFUSED, "10.0.0.1:40000", pytest.approx(0.3), 2)


def test_a_half_open_connection_is_named() -> None:
    """The SYN-ACK is sent again and again: the client's ACK does not come."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    for at in (0.1, 1000, 3000):
        line.add(at, "<", -1, 0, 0, SYN | ACK)
    (one,) = _found(line, 4000)
    assert (one.hang, one.waiter, one.tries, one.ms) == (Hang.HALF_OPEN, "10.0.0.2:1521", 3, pytest.approx(3999.9))
    line.add(3001, ">", 0, 0, 0, ACK)
    assert _found(line, 4000) == ()


def test_a_reset_instead_of_an_answer_is_named() -> None:
    """The server does not know the connection any more; 300 bytes are not acknowledged."""
    line = talk()
    line.send(5000, ">", 300)
    line.rst(5000.5, "<")
    (one,) = _found(line, 8000)
    assert (one.hang, one.waiter, one.bytes, one.frame) == (Hang.RESET, "10.0.0.1:40000", 300, 8)
    assert one.ms == pytest.approx(2999.5)


def test_a_reset_that_only_closes_is_not() -> None:
    """Behind the answer to all that was asked, or behind a FIN."""
    line = talk()
    line.rst(5000, ">")
    assert _found(line, 8000) == ()
    line = talk()
    line.send(30, ">", 300)
    line.fin(31, ">")
    line.rst(31.5, "<")
    assert _found(line, 8000) == ()


def test_a_reset_does_not_end_what_goes_on() -> None:
    """A RST that somebody else sent in the server's name: the server answers on."""
    line = talk()
    line.send(100, ">", 300)
    line.rst(100.1, "<")
    line.send(101, "<", 300)
    assert _found(line, 8000) == ()


def test_a_fin_that_nobody_acknowledges_is_waited_for() -> None:
    """It has no payload, and is sent again as data are."""
    line = talk()
    for at in (0.0, *BACKOFF):
        line.fin(100 + at, ">")
    (one,) = _found(line)
    assert (one.hang, one.tries, one.bytes) == (Hang.ACK, 7, 0)


def test_both_ends_may_wait() -> None:
    """The path broke with data under way both ways: as a capture on its middle shows it."""
    line = sent_again()
    line.send(101, "<", 50, ack=100)
    for at in BACKOFF:
        line.send(101 + at, "<", 50, seq=400, ack=100)
    assert sorted(one.waiter for one in _found(line)) == ["10.0.0.1:40000", "10.0.0.2:1521"]


def _far(trace: Trace) -> Trace:
    """The server's capture: 10 ms later on the way there, its clock 5 s ahead."""
    p = trace.packets
    t_ns = p.t_ns + 5000 * MS + (1 - 2 * p.direction.astype("int64")) * 10 * MS
    return dataclasses.replace(
        trace, packets=dataclasses.replace(p, t_ns=t_ns), first_ns=int(t_ns[0]), last_ns=int(t_ns[-1])
    )


def _turns(line: Timeline) -> Timeline:
    line.handshake(0, rtt_ms=20)
    for turn in range(5):
        line.send(30 + 50 * turn, ">", 100)
        line.send(52 + 50 * turn, "<", 1000)
    return line


@pytest.mark.parametrize("arrive", [0, 7])
def test_two_captures_say_whether_what_is_not_acknowledged_arrived(arrive: int) -> None:
    """The network lost each transmission, or all of them came and the server said nothing: told from the sender's."""
    line = _turns(Timeline())
    line.send(300, ">", 300)
    for at in BACKOFF:
        line.send(300 + at, ">", 300, seq=500)
    lost = line.lines[-7:] if not arrive else []
    near, far = line.trace(), _far(line.trace(without=lost))
    for traces in ((near, far), (far, near)):
        (one,) = hangs(traces, correlate(*traces)).all
        assert (one.hang, one.tries, one.tries_arrived) == (Hang.ACK, 7, arrive)
        assert one.capture == traces.index(near)


def test_the_command_names_what_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the first lines for the conversation in full, in a section for the others; and all in the JSON."""
    other = Timeline(client=("10.0.0.1", 40_001))
    for at in (0, 1000, 3000, 7000):
        other.add(at, ">", -1, 0, None, SYN)
    frames = sorted([*shut().seen(), *other.seen()], key=lambda one: one.t_ns)
    path = write_pcap(tmp_path / "two.pcap", frames, nano=True)
    assert cli.main(["transport", str(path)]) == 0
    text = capsys.readouterr().out
    head = " ".join(" ".join(text.split("Other conversations")[0].split()).split()[:60])
    assert "10.0.0.1:40000 waits for 10.0.0.2:1521 to open its window" in head
    assert "for 12.60 s at the capture's end. 6 probes" in head
    assert "no answer to SYN 1." in text
    assert "TCP made neither sender wait" not in text
    assert cli.main(["transport", str(path), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["hang"] for one in found["hangs"]] == ["no-answer-to-syn", "shut-window"]
