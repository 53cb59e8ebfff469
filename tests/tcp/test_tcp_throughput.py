"""Rates, what the path has shown that it can carry, and whether bandwidth limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import pytest
from captures import SHARED, needs_captures
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline import MS, Timeline
from wire import EPOCH_NS

from nfslat.decode import native
from nfslat.report.text_writer import write
from nfslat.tcp.packets import ACK, PSH, AckKind, Kind, Packets, Talk
from nfslat.tcp.reading import read_trace
from nfslat.tcp.sections.sizes import throughput_section
from nfslat.tcp.shared import Shared
from nfslat.tcp.throughput import Throughput, throughput

_MSS = 1460


def _page(found: Throughput) -> str:
    text = write(throughput_section(found))
    assert all(len(one) <= 80 for one in text.splitlines())
    return " ".join(text.split())


def _transfer(
    sent_us: Sequence[float], acked_us: Sequence[float], *, size: int = _MSS, after_ms: float = 0, rtt_ms: float = 1
) -> Talk:
    """`size` bytes from the client at each of `sent_us`, each acknowledged at `acked_us`; then silence."""
    line = Timeline()
    line.handshake(0, rtt_ms=rtt_ms)
    if after_ms:
        line.send(after_ms, "<", 1, ack=len(sent_us) * size)
    empty = line.trace().talk(0)
    count = len(sent_us)
    t_ns = EPOCH_NS + 10 * MS + (np.concatenate([sent_us, acked_us]) * 1000).astype(np.int64)
    order = np.argsort(t_ns, kind="stable")
    is_data = np.arange(2 * count) < count
    number = np.arange(2 * count) % count
    columns = {name: np.zeros(2 * count, dtype=np.int64) for name in Packets.columns()}
    columns |= {
        "direction": np.where(is_data, 0, 1),
        "t_ns": t_ns,
        "seq": np.where(is_data, number * size, 0),
        "size": np.where(is_data, size, 0),
        "ack": np.where(is_data, 0, (number + 1) * size),
        "flags": np.where(is_data, ACK | PSH, ACK),
        "kind": np.where(is_data, Kind.NEW, Kind.NONE),
        "ack_kind": np.where(is_data, AckKind.NONE, AckKind.ADVANCES),
    }
    columns = {name: column[order] for name, column in columns.items()}
    head, tail = empty.packets.take(slice(0, 3)), empty.packets.take(slice(3, None))
    columns = {
        name: np.concatenate([getattr(head, name).astype(np.int64), column, getattr(tail, name).astype(np.int64)])
        for name, column in columns.items()
    }
    columns["frame"] = np.arange(1, len(columns["t_ns"]) + 1)
    columns["ts_val"] = np.zeros_like(columns["frame"])
    return dataclasses.replace(empty, packets=Packets.from_columns(columns))


def _even(count: int, apart_us: float, *, delay_us: float = 100, size: int = _MSS, after_ms: float = 0) -> Talk:
    times = np.arange(count) * apart_us
    return _transfer(times.tolist(), (times + delay_us).tolist(), size=size, after_ms=after_ms)


def test_rates_are_bytes_over_time() -> None:
    """1460 bytes each 100 us are 116.8 Mbit/s, whichever window one looks through; the run counts idle time."""
    found = throughput(Shared(_even(11_000, 100, after_ms=2200))).ways[0]
    assert found.bytes == found.new_bytes == 11_000 * 1460
    assert found.peak_1s_mbit_s == pytest.approx(116.8)
    assert found.peak_10ms_mbit_s == pytest.approx(116.8)
    assert found.sending_ms == pytest.approx(1099.9)
    assert found.sending_mbit_s == pytest.approx(116.8, rel=1e-3)
    assert found.run_mbit_s == pytest.approx(116.8 / 2, rel=1e-3)


def test_the_network_is_ruled_out_with_a_number() -> None:
    """A burst shows what the path carries; over the conversation hardly anything of it is used."""
    found = throughput(Shared(_even(1200, 12.43, after_ms=4000)))
    way = found.ways[0]
    assert way.carried is not None
    assert way.carried.mbit_s == pytest.approx(1460 * 8 / 12.43, rel=1e-3)
    assert way.carried.begin_ms == pytest.approx(10, abs=1)
    assert way.used_share == pytest.approx(1200 * 1460 * 8e3 / 4000e6 / way.carried.mbit_s, rel=1e-3)
    text = _page(found)
    assert "the network is used at 0.4 % of the 940 Mbit/s that it carried for" in text
    assert "bandwidth is not the limit." in text


def test_what_a_sender_hands_to_its_card_is_not_what_the_path_carries() -> None:
    """At the sender the packets stand together (offload), and the ACKs tell the rate; the slower of both counts."""
    burst = [5000.0 * (at // 40) + at % 40 for at in range(400)]  # 40 packets in 40 us, each 5 ms
    acked = [5000 + 125 * at for at in range(400)]
    way = throughput(Shared(_transfer(burst, acked, rtt_ms=12))).ways[0]
    assert way.carried is not None
    assert way.carried.mbit_s == pytest.approx(1460 * 8 / 125, rel=0.02)


def test_acks_that_come_back_bunched_up_do_not_make_the_path_faster() -> None:
    """At the receiver's end of a slow way back the packets' own spacing counts."""
    sent = [125.0 * at for at in range(400)]
    acked = [5000.0 * (at // 40 + 1) + at % 40 + 100 for at in range(400)]
    way = throughput(Shared(_transfer(sent, acked))).ways[0]
    assert way.carried is not None
    assert way.carried.mbit_s <= 1460 * 8 / 125 * 1.02


def test_where_no_64_kb_came_without_a_silence_nothing_is_said() -> None:
    """Small turns show nothing of the path; None, and a sentence."""
    line = Timeline()
    line.handshake(0)
    for turn in range(100):
        line.send(10 + 10 * turn, ">", 100)
        line.send(12 + 10 * turn, "<", 8000)
    found = throughput(Shared(line.trace().talk(0)))
    assert [way.carried for way in found.ways] == [None, None]
    assert [way.used_share for way in found.ways] == [None, None]
    assert "The path's capacity was not seen" in _page(found)


@pytest.mark.parametrize("wait_ms", [0.3, 200])
def test_small_turns_show_nothing_of_the_path_however_many(wait_ms: float) -> None:
    """One small packet a round trip is the pace of the turns: it must not be taken for what the path carries."""
    line = Timeline()
    for turn in range(1000):
        line.send(turn * (wait_ms + 0.1), ">", 100, ack=300 * turn)
        line.send(turn * (wait_ms + 0.1) + wait_ms, "<", 300, ack=100 * (turn + 1))
    found = throughput(Shared(line.trace().talk(0)))
    assert [(way.carried, way.sustained, way.used_share, way.is_flat or None) for way in found.ways] == [
        (None,) * 4
    ] * 2


def test_a_shaped_link_has_a_flat_top() -> None:
    """A first burst at full speed, then one rate and full segments all the time: limited by bandwidth."""
    fast = np.arange(100) * 12.0
    slow = fast[-1] + 233.6 * np.arange(1, 10_000)
    times = np.concatenate([fast, slow])
    found = throughput(Shared(_transfer(times.tolist(), (times + 500).tolist())))
    way = found.ways[0]
    assert way.is_flat
    assert way.plateau is not None
    assert way.plateau.mbit_s == pytest.approx(50, rel=0.01)
    assert way.used_share == pytest.approx(1, rel=0.02)  # not of what the bucket let pass at first
    assert "bandwidth-limited at 50 Mbit/s" in _page(found)


def test_a_window_that_is_sent_once_a_round_trip_is_no_flat_top() -> None:
    """64 KB each 50 ms is a constant rate, but the silences say that it is not the link's."""
    sent = [50_000 * (at // 45) + 12 * (at % 45) for at in range(45 * 100)]
    way = throughput(Shared(_transfer(sent, [at + 50_000 - 100 for at in sent]))).ways[0]
    assert way.is_flat is False
    assert way.plateau is None


def test_small_writes_at_an_even_pace_are_no_flat_top() -> None:
    """What the application writes in small segments is its own rate."""
    assert throughput(Shared(_even(5000, 1000, size=300))).ways[0].is_flat is False


def test_too_little_to_tell_is_none() -> None:
    """A handful of packets is no plateau, and a silent conversation has no rates."""
    assert throughput(Shared(_even(20, 100))).ways[0].is_flat is None
    line = Timeline()
    line.handshake(0)
    found = throughput(Shared(line.trace().talk(0)))
    assert (found.ways[0].run_mbit_s, found.ways[0].is_flat, found.ways[0].sending_ms) == (None, None, 0)
    assert _page(found) == ""


@needs_captures
@pytest.mark.parametrize("side", ["client", "server"])
def test_a_real_slow_path_is_seen_alike_from_either_end(side: str) -> None:
    """Two seconds at 1.9 Mbit/s through emulated 50 ms each way, whichever end captured it, and most of it in use."""

    def no_tools() -> NoReturn:
        raise AssertionError("the native decoder reads this by itself")

    path = SHARED / "corpus" / f"teto-pymptcpanalyzer__{side}_1_tcp_only.snap128.pcapng.gz"
    source = native.open_source(str(path), no_tools, path.parent, rereads=False)
    way = throughput(Shared(read_trace(source, no_tools, lambda _: None).talk(1))).ways[0]
    assert way.sustained is not None
    assert way.sustained.mbit_s == pytest.approx(1.95, abs=0.05)
    assert way.sustained.ms > 1000
    assert way.used_share is not None
    assert way.used_share > 0.7


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("><"), st.integers(0, 70_000), st.sampled_from([0.0, 0.01, 1.0, 50.0]), st.booleans()
        ),
        min_size=1,
        max_size=60,
    )
)
def test_new_bytes_are_those_of_the_stream_whatever_is_sent_twice(
    events: list[tuple[str, int, float, bool]],
) -> None:
    """Each byte counts once; nothing divides by zero."""
    line = Timeline()
    line.handshake(0)
    at = 10.0
    seen: dict[str, set[int]] = {">": set(), "<": set()}
    for way, hundreds, pause, again in events:
        at += pause
        size = hundreds // 100
        if not size:
            line.ack(at, way)
            continue
        sent = line.send(at, way, size, seq=max(0, line.next[way] - 50) if again else None)
        seen[way] |= set(range(sent.seq, sent.seq + size)) if size > 1 else set()
    found = throughput(Shared(line.trace().talk(0)))
    for number, one in enumerate(found.ways):
        assert 0 <= one.new_bytes - len(seen["><"[number]]) <= sum(size // 100 == 1 for _, size, _, _ in events)
        assert one.new_bytes <= one.bytes
    _page(found)
