"""The passes over packets that are compiled, against what a few lines of Python say of each byte and each packet."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from timeline import Timeline

from nfslat.kernels.compiled import native
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.tcp.floors import samples
from nfslat.tcp.packets import ACK, Kind, Packets, Talk
from nfslat.tcp.progress import progress
from nfslat.tcp.stream import stream

_MOST = 40  # packets of an example
_SPAN = 60  # bytes that they are of
_ALWAYS = (0, 1 << 62)

_Sent = list[tuple[int, int, int]]  # position, size, and a number of each packet of one direction


def _packets(rows: int, **columns: Any) -> Packets:
    zeros = {name: np.zeros(rows, dtype=np.int64) for name in Packets.columns()}
    return Packets.from_columns({**zeros, "head": np.zeros(rows, np.uint64), "ack": np.full(rows, NULL), **columns})


def _sent(sent: _Sent, **columns: Any) -> Packets:
    seq, size, number = ([packet[at] for packet in sent] for at in (0, 1, 2))
    kind = [Kind.NEW if size else Kind.NONE for size in size]
    return _packets(len(sent), **{"seq": seq, "size": size, "ip_id": number, "kind": kind, **columns})


packets_sent = st.lists(st.tuples(st.integers(0, _SPAN), st.integers(0, 20), st.integers(0, 2)), max_size=_MOST)


@given(packets_sent, packets_sent, st.booleans())
def test_of_packets_alike_the_last_ones_are_the_same(first: _Sent, second: _Sent, from_syn: bool) -> None:
    """Those with one key are taken for each other from the last one on; without the number that their sender gives
    them where fewer than half have the same."""

    def pairs(known_by: int) -> list[tuple[int, int]]:
        rows: tuple[dict[Any, list[int]], dict[Any, list[int]]] = defaultdict(list), defaultdict(list)
        for side, sent in enumerate((first, second)):
            for row, packet in enumerate(sent):
                rows[side][packet[:known_by]].append(row)
        found = [zip(reversed(mine), reversed(rows[1][key]), strict=False) for key, mine in rows[0].items()]
        return sorted(pair for some in found for pair in some)

    by_number, without = pairs(3), pairs(2)
    is_enough = 2 * len(by_number) >= min(len(first), len(second)) or len(without) <= len(by_number)
    found = native.same_packets((_sent(first), _sent(second)), (0, 0), ((7, 9), (7, 9)), from_syn)
    assert list(zip(*(rows.tolist() for rows in found), strict=True)) == (by_number if is_enough else without)


@given(packets_sent, packets_sent, st.integers(0, _SPAN + 20), st.integers(-9, 9), st.integers(0, 1))
def test_bytes_that_do_not_come_as_often_as_they_were_sent_are_lost(
    sent: _Sent, arrived: _Sent, acked: int, shift: int, sender: int
) -> None:
    """Of each byte the copies at both ends are counted: one that was acknowledged came once at the least, and what is
    not at the receiver though it was acknowledged was not captured there."""
    copies = [Counter(at for seq, size, _ in some for at in range(seq, seq + size)) for some in (sent, arrived)]
    every = set(copies[0]) | set(copies[1])
    surplus = {at: max(copies[1][at] - copies[0][at], 0) for at in every}
    # Bytes are missed with all that lie between the same two edges, or not at all.
    edges = sorted({edge for some in (sent, arrived) for seq, size, _ in some if size for edge in (seq, seq + size)})
    acked = max((edge for edge in edges if edge <= acked), default=acked)
    missed = {at for at in copies[0] if not copies[1][at] and at < acked}
    lost = {at: max(copies[0][at] - copies[1][at], 0) - (at in missed) for at in every}
    # Those of the second capture are moved to where the first one has them.
    sides = (sent, arrived) if sender == 0 else (arrived, sent)
    ends = [_sent(sides[0]), _sent([(seq - shift, size, number) for seq, size, number in sides[1]])]
    back = _packets(1, direction=[1], ack=[acked - (shift if sender == 0 else 0)])
    ends[1 - sender] = _joined(ends[1 - sender], back)
    nothing = np.zeros(0, dtype=np.int64)
    fates, sums, needless = native.passage(
        (ends[0], ends[1]), (0, 0), (nothing, nothing), (_ALWAYS, _ALWAYS), shift, sender, 0
    )
    assert sums[:5] == [
        len(copies[0]), copies[0].total(), sum(lost.values()), len(missed), sum(surplus.values())
    ]  # fmt: skip
    assert [sum(some) for some in fates] == [len(some) for some in sides]
    of_sender = Counter(
        2 if not size
        else 3 if missed & set(range(seq, seq + size))
        else 4 if any(lost[at] for at in range(seq, seq + size))
        else 5
        for seq, size, _ in sent
    )  # fmt: skip
    assert fates[sender] == [of_sender[fate] for fate in range(6)]
    assert not len(needless)


def _joined(one: Packets, other: Packets) -> Packets:
    columns = {name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in Packets.columns()}
    return Packets.from_columns(columns)


@st.composite
def conversations(draw: st.DrawFn) -> Talk:
    """Direction 0 sends new bytes, leaves holes, fills them and repeats itself; direction 1 acknowledges anything."""
    columns: dict[str, list[int]] = {name: [] for name in ("direction", "seq", "size", "kind", "ack", "t_ns")}
    high, seen, t_ns = 0, set[int](), 0
    for way, ahead, size, ns in draw(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(-30, 9), st.integers(1, 20), st.integers(0, 9)), max_size=_MOST
        )
    ):
        t_ns += ns
        seq = high + (ahead if ahead > 5 or ahead < -10 else 0)
        body = set(range(seq, seq + size))
        kind = Kind.NEW if seq == high else Kind.AHEAD if seq > high else Kind.RETRANSMISSION
        if kind is Kind.RETRANSMISSION and not body & seen and seq + size <= high:
            kind = Kind.OUT_OF_ORDER
        is_data = way < 2
        row = {"direction": 1 - is_data, "seq": seq if is_data else 0, "size": size if is_data else 0,
               "kind": kind if is_data else Kind.NONE, "ack": NULL if is_data else max(high + ahead, 0),
               "t_ns": t_ns}  # fmt: skip
        for name, value in row.items():
            columns[name].append(value)
        if is_data:
            high, seen = max(high, seq + size), seen | body
    line = Timeline()
    line.handshake(0)
    talk = line.trace().talk(0)
    rows = len(columns["seq"])
    return Talk(talk.conversation, _packets(rows, flags=np.full(rows, ACK), **columns), 1 << 40)


@given(conversations())
def test_streams_and_progress_are_what_counting_gives(talk: Talk) -> None:
    """The highest byte sent and acknowledged by then, the first ACK that covers a packet, and which packets took the
    stream further or filled a hole in it."""
    one, p = stream(talk, 0), talk.packets
    data = [row for row in range(len(p)) if p.direction[row] == 0 and p.size[row]]
    acks = [row for row in range(len(p)) if p.direction[row] == 1]
    ends = {row: int(p.seq[row] + p.size[row]) for row in data}
    assert (one.rows.tolist(), one.said.tolist()) == (data, acks)
    assert one.high.tolist() == [max(ends[other] for other in data if other <= row) for row in data]
    assert one.heard.tolist() == [sum(ack < row for ack in acks) for row in data]
    assert one.covered.tolist() == [int(p.ack[: ack + 1][p.direction[: ack + 1] == 1].max()) for ack in acks]
    assert one.acked.tolist() == [_first(p, acks, ends[row]) for row in data]
    new = progress(one)
    grows = [at for at, row in enumerate(data) if at == 0 or one.high[at] > one.high[at - 1]]
    fills = [at for at, row in enumerate(data) if p.kind[row] == Kind.OUT_OF_ORDER]
    assert set(new.rows.tolist()) >= {data[at] for at in (*grows, *fills)}
    first = [_first(p, acks, int(high)) for high in new.high]
    assert new.acked_row.tolist() == [acks[at] if at < len(acks) else NULL for at in first]


def _first(p: Packets, acks: list[int], end: int) -> int:
    """Which of `acks` is the first to cover a byte's end; behind them all where none does."""
    return next((at for at, ack in enumerate(acks) if p.ack[ack] >= end), len(acks))


@given(conversations())
def test_no_round_trip_is_one_of_bytes_that_were_repaired(talk: Talk) -> None:
    """Each packet with new bytes is a sample, or repaired (a byte of it was sent twice, or its ACK covers first what
    was sent again), or nothing acknowledges it."""
    one, p = stream(talk, 0), talk.packets
    acks = one.said.tolist()
    spans = {row: range(int(p.seq[row]), int(p.seq[row] + p.size[row])) for row in one.rows.tolist()}
    of = {kind: [row for row in spans if p.kind[row] == kind] for kind in Kind}
    again = of[Kind.RETRANSMISSION] + of[Kind.OUT_OF_ORDER]
    twice = {at for row in of[Kind.RETRANSMISSION] for at in spans[row]}
    tainted = set()
    for row in again:
        first, last = (_first(p, acks, at) for at in (spans[row].start + 1, spans[row].stop))
        if last < len(acks) and acks[last] > row:
            tainted |= set(range(first, last + 1))
    expected, repaired, uncovered = [], len(again), 0
    for row in sorted(of[Kind.NEW] + of[Kind.AHEAD]):
        at = _first(p, acks, spans[row].stop)
        if at == len(acks) or acks[at] < row:
            uncovered += 1
        elif at in tainted or twice & set(spans[row]):
            repaired += 1
        else:
            expected.append((row, acks[at], int(p.t_ns[acks[at]] - p.t_ns[row])))
    found = samples(one)
    columns: tuple[I64, I64, I64] = (found.sent, found.covered, found.rtt_ns)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert (found.repaired, found.uncovered) == (repaired, uncovered)


@given(st.lists(st.integers(0, 600_000_000), max_size=20))
def test_acks_near_each_other_are_of_one_timer(held_ns: list[int]) -> None:
    """What is longer than the next shorter one by more than a fifth begins another timer, that of its median."""
    names, members = native.timers_ms(np.array(held_ns, dtype=np.int64))
    clusters: list[list[int]] = []
    for held in sorted(held_ns):
        if not clusters or held - clusters[-1][-1] > clusters[-1][-1] // 5:
            clusters.append([])
        clusters[-1].append(held)
    of = {held: cluster for cluster in clusters for held in cluster}
    timer = {held: native.timer_ms(of[held][(len(of[held]) - 1) // 2]) for held in of}
    assert names.tolist() == [NULL if timer[held] is None else timer[held] for held in held_ns]
    assert members.tolist() == [len(of[held]) for held in held_ns]
