"""What ended a silence: each timer and window by its own signature, at either end of the path."""

from __future__ import annotations

import numpy as np
import pytest
from captures import SHARED, Decoder
from timeline import Timeline
from wire import EPOCH_NS

from nfslat.decode import native
from nfslat.model.causes import CAUSES, LOSS_STALLS, Cause, code
from nfslat.model.details import Ended, Pauses, Went
from nfslat.model.protocol import NULL
from nfslat.model.tables import I8
from nfslat.tcp.packets import ACK, SYN
from nfslat.tcp.reading import read_trace
from nfslat.tcp.shared import Shared
from nfslat.tcp.silences import Silences
from nfslat.wire.stalls import classify, silence_ns, timer_ms

MS = 1_000_000
needs_lab = pytest.mark.skipif(
    not (SHARED / "lab").exists(), reason="no captures at ../shared: 4 tests on the lab's stalls left out"
)


def _still(line: Timeline) -> Silences:
    talk = line.trace().talk(0)
    return Shared(talk).silences[0]


def _causes(line: Timeline, *, least_ms: float = 0) -> list[str]:
    """Of the client's silences of so many ms that begin behind `_warm`."""
    found = _still(line)
    wanted = silence_ns(found.pauses) >= least_ms * MS
    wanted &= found.pauses.begin_ns >= EPOCH_NS + 80 * MS
    return [CAUSES[cause] for cause in found.causes[wanted].tolist()]


def _warm(line: Timeline, *, rtt_ms: float = 1) -> float:
    """A handshake at the client's end, and a request that shows the path's round trip; ends at 80 ms."""
    line.add(0, ">", -1, 0, None, SYN)
    line.add(rtt_ms, "<", -1, 0, 0, SYN | ACK)
    line.add(rtt_ms + 0.01, ">", 0, 0, 0, ACK)
    line.send(40, ">", 100)
    line.ack(40 + rtt_ms, "<")
    return 80


def test_write_write_read_with_nagle_and_a_delayed_ack() -> None:
    """The second small write waits for the ACK of the first, which the receiver holds for 200 ms."""
    line = Timeline()
    at = _warm(line)
    line.send(at, ">", 100)
    line.ack(at + 200.5, "<")
    line.send(at + 200.6, ">", 50)
    line.send(at + 202, "<", 500)
    assert _causes(line, least_ms=100) == [Cause.DELAYED_ACK]


@pytest.mark.parametrize(
    ("held_ms", "timer"), [(36, 40), (40, 40), (41, 40), (50, 50), (100, 100), (200, 200), (500, 500)]
)
def test_a_delayed_ack_timer_is_named_by_its_tolerance(held_ms: int, timer: int) -> None:
    """Kernels count in ticks, so that timers go off a little early or late."""
    assert timer_ms(held_ms * MS) == timer


@pytest.mark.parametrize("held_ms", [0, 20, 75, 150, 300, 700])
def test_what_is_near_no_timer_is_not_named(held_ms: int) -> None:
    """An ACK may be late for other reasons."""
    assert timer_ms(held_ms * MS) is None


def test_an_application_that_writes_later_was_not_held_by_the_ack() -> None:
    """The ACK came 200 ms late, but the sender went on only 150 ms after it: nobody waited."""
    line = Timeline()
    at = _warm(line)
    line.send(at, ">", 100)
    line.ack(at + 200, "<")
    line.send(at + 350, ">", 50)
    assert _causes(line, least_ms=100) == [Cause.SENDER]


def test_an_answer_that_takes_long_is_no_delayed_ack() -> None:
    """An ACK that rides on an answer after 45 ms is the server's think time, and the other side's turn."""
    line = Timeline()
    at = _warm(line)
    line.send(at, ">", 100)
    line.send(at + 45, "<", 500)
    line.send(at + 45.1, ">", 100)
    assert _causes(line, least_ms=40) == [Cause.SENDER]


def test_the_timeout_doubles() -> None:
    """Three timeouts of 200, 400 and 800 ms, one row each, whichever segment is lost."""
    line = Timeline()
    at = _warm(line)
    line.burst(at, ">", 3 * 1460)
    for when in (200, 600, 1400):
        line.send(at + when + 0.02, ">", 1460, seq=100)
    line.ack(at + 1401, "<")
    found = _still(line)
    rto = found.causes == code(Cause.RTO)
    assert np.round(silence_ns(found.pauses)[rto] / MS, 1).tolist() == [200, 400, 800]


def test_a_probe_sends_the_last_bytes_again() -> None:
    """After two round trips without an ACK the last segment is sent again (RFC 8985), long before a timeout."""
    line = Timeline()
    at = _warm(line, rtt_ms=10)
    line.burst(at, ">", 3 * 1460)
    line.send(at + 24, ">", 1460, seq=100 + 2 * 1460)
    line.ack(at + 34, "<")
    assert _causes(line, least_ms=20) == [Cause.TAIL_LOSS_PROBE]


def test_a_timeout_behind_a_probe_is_a_timeout() -> None:
    """The probe did not help: the oldest bytes follow, 200 ms later."""
    line = Timeline()
    at = _warm(line, rtt_ms=10)
    line.burst(at, ">", 3 * 1460)
    line.send(at + 24, ">", 1460, seq=100 + 2 * 1460)
    line.send(at + 234, ">", 1460, seq=100)
    assert _causes(line, least_ms=20) == [Cause.TAIL_LOSS_PROBE, Cause.RTO]


def test_three_duplicate_acks_make_a_fast_retransmit_and_the_rest_is_recovery() -> None:
    """Two holes: the first repeat is fast retransmit, the second belongs to the same recovery."""
    line = Timeline()
    at = _warm(line, rtt_ms=10)
    line.burst(at, ">", 6 * 1460)
    for number in range(3):
        line.ack(at + 10 + number * 0.1, "<", ack=100)
    line.send(at + 10.25, ">", 1460, seq=100)
    line.ack(at + 20.3, "<", ack=100 + 2 * 1460)
    line.send(at + 20.4, ">", 1460, seq=100 + 2 * 1460)
    line.ack(at + 30.5, "<")
    assert _causes(line, least_ms=5)[-2:] == [Cause.FAST_RETRANSMIT, Cause.RECOVERY]


def test_a_closed_window_with_probes() -> None:
    """Every silence until the window opens is the closed window's, the probes' as well."""
    line = Timeline(scale=0)
    line.windows["<"] = 2920
    at = _warm(line)
    line.burst(at, ">", 2920)
    line.ack(at + 1, "<", window=0)
    for when in (200, 600):
        line.send(at + when, ">", 1)
        line.next[">"] -= 1
        line.ack(at + when + 1, "<", ack=3020)
    line.ack(at + 900, "<", ack=3020, window=2920)
    line.send(at + 900.2, ">", 1460)
    assert _causes(line, least_ms=100) == [Cause.ZERO_WINDOW] * 3


def test_a_closed_window_is_closed_though_its_scale_is_not_known() -> None:
    """No handshake: 0 is 0 with any scale."""
    line = Timeline()
    line.send(100, ">", 1000)
    line.ack(101, "<")
    line.send(110, ">", 1000)
    line.ack(111, "<", window=0)
    line.ack(300, "<", window=5000)
    line.send(300.1, ">", 1000)
    assert _causes(line, least_ms=100) == [Cause.ZERO_WINDOW]


def test_what_was_acknowledged_and_is_sent_again_was_sent_by_a_timer() -> None:
    """The ACK passed the capture and was lost behind it."""
    line = Timeline()
    at = _warm(line, rtt_ms=60)
    line.send(at, ">", 100)
    line.ack(at + 160, "<")
    line.send(at + 235, ">", 100, seq=100)
    assert _causes(line, least_ms=100) == [Cause.RTO]


def test_a_full_window_is_the_receivers() -> None:
    """The sender has sent all that the window takes, and goes on when an ACK lets it."""
    line = Timeline(scale=0)
    line.windows["<"] = 4 * 1460
    at = _warm(line, rtt_ms=30)
    line.burst(at, ">", 4 * 1460)
    line.ack(at + 31, "<")
    line.burst(at + 31.2, ">", 4 * 1460)
    assert _causes(line, least_ms=20)[-1] == Cause.RECEIVE_WINDOW


def test_an_ack_with_room_in_the_window_opens_the_congestion_window() -> None:
    """Ten segments, a round trip, ten more, and the receiver would have taken thousands."""
    line = Timeline()
    at = _warm(line, rtt_ms=30)
    line.burst(at, ">", 10 * 1460)
    line.ack(at + 30.1, "<", ack=100 + 2 * 1460)
    line.burst(at + 30.2, ">", 10 * 1460)
    assert _causes(line, least_ms=20)[-1] == Cause.CONGESTION_WINDOW


def test_at_the_receivers_end_a_delayed_ack_is_told_by_the_way_back() -> None:
    """There the ACK leaves 40 ms after the data, and what it released comes a round trip later."""
    line = Timeline()
    line.add(0, ">", -1, 0, None, SYN)
    line.add(0.01, "<", -1, 0, 0, SYN | ACK)
    line.add(30, ">", 0, 0, 0, ACK)
    line.send(35, ">", 100)
    line.ack(35.02, "<")
    line.send(100, ">", 100)
    line.ack(140, "<")
    line.send(170.1, ">", 100)
    assert _causes(line, least_ms=50) == [Cause.DELAYED_ACK]


def _pause(**fields: int) -> Pauses:
    """One row: 45 ms of silence that an ACK ended."""
    row = {
        "conn": 0, "reconnect": 0, "direction": 0, "frame": 9, "begin_ns": 0, "end_ns": 45 * MS, "heard_ns": 44 * MS,
        "ended": Ended.ACK, "went": Went.NEW, "in_message": 1, "offset": 1000, "size": 1000, "size_before": 1000,
        "under_way": 1000, "under_way_end": 0, "announced": 60_000, "window": 60_000, "window_least": 60_000,
        "window_end": 60_000, "duplicate_acks": 0, "is_tail": 0, "sent_ns": NULL,
    }  # fmt: skip
    return Pauses.from_columns({name: [value] for name, value in (row | fields).items()})


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, Cause.DELAYED_ACK),
        ({"heard_ns": MS}, Cause.SENDER),
        ({"heard_ns": NULL, "ended": Ended.NOTHING}, Cause.SENDER),
        ({"begin_ns": NULL}, Cause.SENDER),
        ({"window_least": 0, "ended": Ended.WINDOW}, Cause.ZERO_WINDOW),
        ({"window": 1500}, Cause.RECEIVE_WINDOW),
        ({"went": Went.PROBE, "window_end": 0}, Cause.ZERO_WINDOW),
        ({"went": Went.PROBE}, Cause.SENDER),
        ({"went": Went.PROBE, "window_end": NULL}, Cause.UNKNOWN),
        ({"went": Went.LATE, "begin_ns": 45 * MS - 1000, "heard_ns": NULL, "ended": Ended.NOTHING}, Cause.OVERTAKEN),
    ],
)
def test_a_row_of_the_decoders_table_has_one_cause(fields: dict[str, int], cause: Cause) -> None:
    """The classifier needs nothing but the columns, a round trip and the MSS."""
    causes = classify(_pause(**fields), rtt_min_ns=MS, mss=1460)
    assert causes.dtype == np.int8
    assert CAUSES[causes[0]] == cause


def test_near_the_receiver_data_that_were_under_way_before_the_ack_are_not_released_by_it() -> None:
    """What comes 1 ms after an ACK, with 20 ms to the sender and back, was sent without it."""
    causes = classify(_pause(), rtt_min_ns=0, mss=1460, sender_rtt_ns=20 * MS)
    assert CAUSES[causes[0]] == Cause.UNKNOWN


def test_round_trips_may_be_given_row_by_row() -> None:
    """A table of many connections is classified at once."""
    one = _pause()
    two = Pauses.from_columns({name: np.tile(getattr(one, name), 2) for name in Pauses.columns()})
    causes = classify(two, rtt_min_ns=np.array([MS, 44 * MS]), mss=np.array([1460, NULL]))
    assert [CAUSES[cause] for cause in causes.tolist()] == [Cause.DELAYED_ACK, Cause.CONGESTION_WINDOW]


def test_no_rows_no_causes() -> None:
    """An engine that knows no TCP leaves the table empty."""
    assert not len(classify(_pause().take(slice(0, 0)), rtt_min_ns=NULL, mss=NULL))
    assert Cause.RTO in LOSS_STALLS


def _real(decoder: Decoder, scenario: str, side: str) -> list[tuple[Shared, int, Pauses]]:
    """Each direction of each conversation, with the pauses that the decoder of NFS found in it."""
    path = SHARED / "lab" / scenario / f"{side}.pcap.gz"
    source = native.open_source(str(path), lambda: decoder.tools, decoder.scratch, rereads=False)
    trace = read_trace(source, lambda: decoder.tools, lambda _: None)
    pauses = decoder.side("native", path).decoded.details.pauses
    at = np.searchsorted(trace.packets.frame, pauses.frame)
    assert trace.packets.frame[at].tolist() == pauses.frame.tolist()
    of = trace.packets.conversation[at] * 2 + trace.packets.direction[at]
    talks = [Shared(trace.talk(number)) for number in range(len(trace.conversations))]
    return [(talks[one // 2], one % 2, pauses.take(of == one)) for one in range(2 * len(talks))]


def _named(shared: Shared, way: int, pauses: Pauses) -> I8:
    """Causes of the decoder's rows, by what the packets show of path and segments."""
    floor, mss = shared.floors, shared.segments[way].bytes
    return classify(
        pauses, rtt_min_ns=floor.near_ns(way), mss=NULL if mss is None else mss, sender_rtt_ns=floor.far_ns(way)
    )


@needs_lab
def test_a_host_that_stood_still_is_asked_by_a_probe_and_two_timeouts(decoder: Decoder) -> None:
    """The guest was stopped for 1.2 s: the server probes after 12 ms, then times out after 220 and 430 ms."""
    found = [
        CAUSES[cause]
        for shared, way, pauses in _real(decoder, "j_v3_client_stall", "server")
        for cause in _named(shared, way, pauses)[pauses.went != Went.NEW].tolist()
    ]
    assert found == [Cause.TAIL_LOSS_PROBE, Cause.RTO, Cause.RTO]


@needs_lab
@pytest.mark.parametrize("side", ["client", "server"])
def test_the_decoders_pauses_and_the_silences_of_the_packets_have_the_same_causes(decoder: Decoder, side: str) -> None:
    """The decoder keeps a few of what the packets show, and one classifier names both: nearly all alike at either end,
    where one sees the sender's view put together and the other does not. RPC tells more often than PSH that a sender
    had more to send; so of the pauses that new data ended, those count of which both know it."""
    same, rows = 0, 0
    for shared, way, pauses in _real(decoder, "d3_v3_loss1", side):
        causes, still = _named(shared, way, pauses), shared.silences[way]
        at = {frame: row for row, frame in enumerate(still.pauses.frame.tolist())}
        there = np.array([at[frame] for frame in pauses.frame.tolist()], dtype=np.int64)
        alike = (pauses.went != Went.NEW) | (pauses.in_message == still.pauses.in_message[there])
        same += int(np.count_nonzero((causes == still.causes[there])[alike]))
        rows += int(np.count_nonzero(alike))
    assert rows > 100
    assert same / rows > 0.95


@needs_lab
def test_a_healthy_path_has_no_losses_and_no_waits_for_windows(decoder: Decoder) -> None:
    """Nothing is found where nothing was done."""
    wrong = [code(cause) for cause in (*LOSS_STALLS, Cause.ZERO_WINDOW, Cause.DELAYED_ACK)]
    assert not any(
        np.isin(shared.silences[way].causes, wrong).any()
        for shared, way, _ in _real(decoder, "a_v3_baseline", "client")
    )
