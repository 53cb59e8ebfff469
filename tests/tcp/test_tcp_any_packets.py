"""All analyses of a conversation together: any packets have an answer, and the sections agree."""

from __future__ import annotations

import json

import numpy as np
import pytest
from captures import SHARED
from timeline import Timeline
from wire import EPOCH_NS

from nfslat.decode import native
from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.model.causes import LIMITS, Cause, code
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import Connection
from nfslat.tcp import model, report
from nfslat.tcp.charts.all import charts
from nfslat.tcp.mptcp import Signals, Subflow, token
from nfslat.tcp.packets import AckKind, Conversation, Kind, Packets, Trace, Way
from nfslat.tcp.reading import read_trace
from nfslat.tcp.sections.all import render
from nfslat.tcp.shared import Shared
from nfslat.tcp.turns import Shape, part_durations, take

_TOOL = model.Tool("0", "none", "nfslat transport")
_CORPUS = SHARED / "corpus"
_REAL = (
    "cisco-system-traffic-generator-trex-core__Oracle.pcap",
    "teto-pymptcpanalyzer__server_1_tcp_only.snap128.pcapng.gz",
    "teto-pymptcpanalyzer__client_1_tcp_only.snap128.pcapng.gz",
    "Zious11-wirerust__nfs_bad_stalls.cap",
)


def _mangled(seed: int) -> Trace:
    """Packets that no TCP would send: every column at random, times that run back, directions that may be empty."""
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([1, 2, 3, 10, 100, 400]))
    data = rng.random(rows) < rng.random()
    apart_ns = rng.choice([0, 1_000, 200_000, 1_000_000, 45_000_000, 210_000_000], rows)
    back = rng.random(rows) < rng.choice([0, 0, 0.1, 0.5])
    span = int(rng.choice([10, 3000, 100_000, 1 << 40]))
    columns = {
        "conversation": np.sort(rng.integers(0, 3, rows)) if seed % 2 else np.zeros(rows),
        "direction": rng.random(rows) < rng.choice([0, 0.5, 1]),
        "frame": np.arange(1, rows + 1),
        "t_ns": EPOCH_NS + np.cumsum(np.where(back, -apart_ns, apart_ns)),
        "seq": rng.integers(-10, span, rows) if seed % 3 else np.arange(rows) * 100,
        "size": np.where(data, rng.choice([1, 2, 100, 1460, 1448, 8156, 65_160], rows), 0),
        "ack": np.where(rng.random(rows) < 0.1, NULL, rng.integers(0, span, rows)),
        "window": rng.choice([0, 1, 500, 65_535], rows),
        "flags": rng.integers(0, 64, rows) if seed % 4 == 0 else rng.choice([16, 24], rows),
        "kind": np.where(data, rng.integers(1, len(Kind), rows), rng.choice([0, 0, Kind.KEEP_ALIVE], rows)),
        "ack_kind": rng.integers(0, len(AckKind), rows),
        "sacks": rng.integers(0, 3, rows),
        "is_dsack": rng.integers(0, 2, rows),
        "ip_id": rng.integers(0, 65_536, rows),
        "ts_val": np.full(rows, NULL32),
        "head": rng.integers(0, 1 << 63, rows, dtype=np.uint64),
        "head_size": np.where(data, 8, 0),
    }
    ways = [
        Way(
            first_seq=1,
            saw_syn=bool(rng.random() < 0.5),
            mss=(None, 0, 1, 536, 1460)[int(rng.integers(5))],
            window_scale=(None, 0, 7, 14)[int(rng.integers(4))],
            timestamps=bool(rng.random() < 0.5),
            head=rng.bytes(int(rng.integers(0, 64))),
            copies=0,
            lost_bytes=0,
        )
        for _ in (0, 1)
    ]
    ends = [Connection("tcp", "10.0.0.1", 40_000 + one, "10.0.0.2", 1521) for one in range(3)]
    subflows, signals = _multipath(seed, rows)
    places = np.argsort(columns["conversation"], kind="stable").astype(np.int32)
    packets = Packets.from_columns(columns).take(places)
    now = np.argsort(places)[signals.row].astype(np.int32)
    signals = signals.replaced({"row": now}).take(np.argsort(now))
    return Trace(
        source=Source("at random", ()),
        packets=packets,
        places=places,
        conversations=tuple(
            Conversation(one, 0, (ways[0], ways[1]), subflow)
            for one, subflow in zip(ends[: 3 if seed % 2 else 1], subflows, strict=False)
        ),
        total_packets=rows,
        other_packets=0,
        skipped_packets=0,
        copies=0,
        damaged=0,
        misdated=0,
        interface_drops=0,
        first_ns=int(packets.t_ns.min()),
        last_ns=int(packets.t_ns.max()),
        snaplen=None,
        signals=signals,
    )


def _multipath(seed: int, rows: int) -> tuple[list[Subflow | None], Signals]:
    """A connection with a subflow that joined it, and one that is not known; every other time there is none."""
    rng = np.random.default_rng(8684 + seed)
    key = int(rng.integers(1, 1 << 62))
    first, joined = Subflow(1, (None, key), None), Subflow(None, (None, None), (seed % 2, token(1, key)))
    at = np.flatnonzero(rng.random(rows) < 0.7)
    near = rng.integers((1 << 32) - 30_000, (1 << 32) + 30_000, (3, len(at))) % (1 << 32)
    signals = {
        "row": at, "has": rng.integers(1, 8, len(at)), "ack": near[0], "seq": near[1],
        "start": np.where(rng.random(len(at)) < 0.9, rng.integers(1, 10_000, len(at)), near[2]),
        "size": rng.choice([0, 1, 1460, 65_535], len(at)),
    }  # fmt: skip
    if seed % 4 < 2:
        return [None] * 3, Signals.with_nulls(0)
    return [first, joined, Subflow(None, (None, None), None)], Signals.from_columns(signals)


def _made(trace: Trace) -> model.Report:
    return report.make([trace], None, _TOOL, stream=None, top=3, trace=None, drawn=3)


@pytest.mark.parametrize("block", range(6))
def test_any_packets_have_an_answer_that_adds_up(block: int) -> None:
    """No exception, no NaN in the JSON, no line above 80 columns; limits, kinds and round trips sum to the whole."""
    for seed in range(block * 6, block * 6 + 6):
        trace = _mangled(seed)
        found = _made(trace)
        json.dumps(found.to_dict(), allow_nan=False)
        json.dumps([chart.spec for chart in charts(found)], allow_nan=False)
        assert max(map(len, render(found, width=80, color=False).splitlines())) <= 80, seed
        for detail in found.details:
            shared = Shared(trace.talk(detail.stream))
            packets = shared.talk.packets
            for way, (split, counts) in enumerate(zip(shared.splits, detail.counts, strict=True)):
                assert (np.diff(split.edges_ns) >= 0).all()
                assert int(split.sums_ns().sum()) == int(np.ptp(packets.t_ns))
                silences = shared.silences[way]
                assert ((silences.held_ns >= 0) & (silences.pauses.end_ns >= silences.pauses.begin_ns)).all()
                kinds = (counts.new, counts.ahead, counts.retransmissions, counts.out_of_order)
                rounds = detail.waits.rounds[way]
                count = 0 if rounds.trips is None else rounds.trips.count
                assert count + rounds.repaired + rounds.uncovered == sum(kinds)
            # Ten parts of its time hold all of it.
            assert detail.stretches is not None
            for way, own in zip(detail.stretches.ways, detail.waits.limits, strict=True):
                for limit in own.limits:
                    assert sum(way.waited_ms[limit.limit].total) == pytest.approx(limit.ms)
            taken = take(shared)
            parts = sum(int(one.sum()) for one in part_durations(taken).values())
            assert parts == (taken.end_ns - taken.begin_ns if len(taken.rows) else 0)


def _agree(shared: Shared, detail: model.Detail) -> int:
    """Do turns, round trips and limits tell the same of delayed ACKs? Returns how many there are."""
    taken = take(shared)
    total = 0
    for way, limits in enumerate(detail.waits.limits):
        row = limits.limits[LIMITS.index(Cause.DELAYED_ACK)]
        rounds = detail.waits.rounds[way]
        silences = shared.silences[way]
        delayed = silences.causes == code(Cause.DELAYED_ACK)
        inside = (taken.stops.cause == code(Cause.DELAYED_ACK)) & (taken.stops.in_response == (way != taken.asker))
        ns = silences.held_ns[delayed]
        # Each that is inside a turn is one of the sender's, and the others are outside of them.
        outside = sorted(ns.tolist())
        for one in taken.stops.held_ns[inside].tolist():
            outside.remove(one)
        assert (int(taken.stops.held_ns[inside].sum()) + sum(outside)) / 1e6 == pytest.approx(row.ms)
        assert int(delayed.sum()) == row.waits
        assert row.ms == pytest.approx(rounds.delayed_lost_ms)
        assert sum(cluster.waited_for for cluster in rounds.delayed) == row.waits
        runts = detail.sizes.ways[way].runts
        assert runts is None or runts.waited <= row.waits
        total += row.waits
    stalls = [one for one in detail.turns.stalls if one.cause is Cause.DELAYED_ACK]
    assert sum(one.total_ms for one in stalls) >= detail.turns.delayed_ack_ms
    if detail.walk is not None and detail.walk.chosen_by != "longest":
        assert (detail.walk.chosen_by == "delayed-ack") == bool(stalls)
    cost = [one for one in detail.costs if one.cause is Cause.DELAYED_ACK]
    assert sum(one.waits for one in cost) == total
    return total


def _nagle(*, idle: bool) -> Timeline:
    """Ten requests of two writes, of which the second one waits for the ACK of the first; or does not wait."""
    line = Timeline()
    line.handshake(0)
    for turn in range(10):
        at = 10 + 300 * turn
        line.send(at, ">", 100)
        if idle:
            line.send(at + 1, "<", 400)
            line.ack(at + 201, ">")
            continue
        line.ack(at + 201, "<")
        line.send(at + 201.1, ">", 50)
        line.send(at + 203, "<", 400)
    return line


@pytest.mark.parametrize(("idle", "waits"), [(False, 10), (True, 0)])
def test_delayed_acks_are_the_same_in_every_section(idle: bool, waits: int) -> None:
    """Ten that were waited for, in turns, round trips and limits alike; and ten that cost nothing, told apart."""
    trace = _nagle(idle=idle).trace()
    (detail,) = _made(trace).details
    assert _agree(Shared(trace.talk(0)), detail) == waits
    assert sum(one.delayed_count for one in detail.waits.rounds) == 10
    assert detail.turns.shape is Shape.TURNS


def _no_tools() -> Tools:
    raise AssertionError


@pytest.mark.skipif(not _CORPUS.exists(), reason="no captures at ../shared: 4 real traces left out")
@pytest.mark.parametrize("name", _REAL)
def test_delayed_acks_are_the_same_in_every_section_of_real_traces(name: str) -> None:
    """Whatever turns say of them, round trips and limits say, too."""
    source = native.open_source(str(_CORPUS / name), _no_tools, _CORPUS, rereads=False)
    trace = read_trace(source, _no_tools, lambda _: None)
    found = report.make([trace], None, _TOOL, stream=None, top=8, trace=None)
    for detail in found.details:
        _agree(Shared(trace.talk(detail.stream)), detail)
