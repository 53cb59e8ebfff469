"""Real captures: every field of every TCP packet is tshark's, and what both say of it differs by stated rules only.

Wireshark's rules are those of `tcp_analyze_sequence_number` in packet-tcp.c (4.0). Ours say what was seen of the bytes;
Wireshark guesses why. docs/transport.md has the table.
"""

from __future__ import annotations

import bz2
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest
from captures import SHARED, id_of
from odd_talks import lost, sent_again, shut, with_fin
from timeline import Timeline
from wire import write_pcap

from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.model.protocol import NULL, NULL32
from nfslat.tcp.packets import FIN, RST, SYN, AckKind, Kind, Trace
from nfslat.tcp.reading import read_trace

_NO_TCP = ("nfs3-01", "nfsv2", "reply-first", "README", "SHA256SUMS")
CORPUS = [path for path in sorted(SHARED.glob("corpus/*")) if not any(part in path.name for part in _NO_TCP)]
LAB = [
    path
    for name in (
        "d4_v3_loss2_full/server",
        "d4_v3_loss2_full/client",
        "k_v3_dup/server",
        "i_v3_any_sll2/server",
    )
    if (path := SHARED / "lab" / f"{name}.pcap.gz").exists()
]
pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
_NONE = pytest.param(
    None, marks=pytest.mark.skip(reason="no captures at ../shared: corpus and lab left out"), id="none"
)

ANALYSES = (
    "retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order", "duplicate_ack", "zero_window",
    "window_update", "keep_alive", "keep_alive_ack", "lost_segment", "ack_lost_segment", "zero_window_probe",
    "zero_window_probe_ack",
)  # fmt: skip
_NUMBERS = (
    "frame.number", "tcp.stream", "tcp.srcport", "tcp.seq_raw", "tcp.len", "tcp.ack_raw", "tcp.window_size_value",
    "tcp.flags", "tcp.options.timestamp.tsval", "tcp.options.sack.count", "ip.id",
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """A packet in tshark's words."""

    frame: int
    stream: int
    port: int
    seq: int
    size: int
    ack: int
    window: int
    flags: int
    ts_val: int
    sacks: int
    ip_id: int
    told: frozenset[str]


_COLUMNS = [one.name for one in fields(Shown) if one.name != "told"]


def shown(path: Path, scratch: Path) -> Iterator[Shown]:
    """The TCP packets of a capture; the innermost, where one is in another."""
    if path.suffix == ".bz2":  # tshark 4.0 does not read it
        plain = scratch / path.stem
        plain.write_bytes(bz2.decompress(path.read_bytes()))
        path = plain
    names = [*_NUMBERS, *(f"tcp.analysis.{name}" for name in ANALYSES)]
    command = ["tshark", "-n", "-r", str(path), "-Y", "tcp", "-T", "fields", "-E", "separator=|", "-E", "occurrence=l"]
    done = subprocess.run(
        command + [word for name in names for word in ("-e", name)], capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        values = line.split("|")
        numbers = [int(value, 0) if value else -1 for value in values[: len(_NUMBERS)]]
        told = {name for name, value in zip(ANALYSES, values[len(_NUMBERS) :], strict=True) if value}
        yield Shown(**dict(zip(_COLUMNS, numbers, strict=True)), told=frozenset(told))


@dataclass(frozen=True)
class Case:
    path: Path
    trace: Trace
    shown: tuple[Shown, ...]


def _read(path: Path, tools: Tools, scratch: Path) -> Case:
    source = choose("native", lambda: tools, scratch, rereads=False).open(str(path))
    trace = read_trace(source, lambda: tools, lambda _: None)
    return Case(path, trace, tuple(shown(path, scratch)))


# By day two small ones, and the capture with everything that is made below.
_EACH = [
    pytest.param(path, id=id_of(path), marks=pytest.mark.long if number > 1 else ())
    for number, path in enumerate(CORPUS + LAB)
]


@pytest.fixture(scope="module", params=_EACH or [_NONE])
def case(request: pytest.FixtureRequest, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Each capture in turn, read by both: all tests of one run before the next is read."""
    return _read(request.param, tools, tmp_path_factory.mktemp("tshark"))


def test_every_field_of_every_packet_is_tsharks(case: Case) -> None:
    """Conversation, numbers as they were on the wire, window, flags, options; what has no row was captured twice."""
    _compare(case)


def _compare(case: Case) -> None:
    packets, ways = case.trace.packets, [one.ways for one in case.trace.conversations]
    theirs = {one.frame: one for one in case.shown}
    assert case.trace.total_packets - case.trace.other_packets == len(theirs)
    assert case.trace.copies == len(theirs) - len(packets)
    assert set(packets.frame.tolist()) <= set(theirs)
    for row, frame in enumerate(packets.frame.tolist()):
        one, direction = theirs[frame], int(packets.direction[row])
        own, other = ways[packets.conversation[row]][direction], ways[packets.conversation[row]][1 - direction]
        ack, has_ts = int(packets.ack[row]), one.ts_val != -1
        found = (
            int(packets.conversation[row]),
            (own.first_seq + int(packets.seq[row])) % 2**32,
            int(packets.size[row]),
            (other.first_seq + ack) % 2**32 if ack != NULL else None,
            int(packets.window[row]),
            int(packets.flags[row]),
            int(packets.ts_val[row]),
            int(packets.sacks[row]),
            int(packets.ip_id[row]),
        )
        want = (
            one.stream,
            one.seq,
            one.size,
            one.ack if one.flags & 0x10 else None,
            one.window,
            one.flags & 0xFF,
            one.ts_val if has_ts else NULL32,
            max(one.sacks, 0),
            one.ip_id,
        )
        assert found == want, frame


@dataclass
class Direction:
    """What tshark's own numbers say was seen before: plain intervals, by the raw sequence numbers."""

    seen: list[tuple[int, int]] = field(default_factory=list)
    first: int | None = None
    next: int = 0  # the highest number of any packet, one behind it for a SYN or FIN
    acked: int | None = None  # by the other side
    duplicates: int = 0  # ACKs that ask for that byte
    window: int | None = None
    last: Shown | None = None

    def at(self, number: int) -> int:
        if self.first is None:
            self.first = number
        return self.next + (number - self.first - self.next + 2**31) % 2**32 - 2**31

    def is_seen(self, begin: int, end: int) -> bool:
        """Every byte in front of the highest one."""
        at = begin
        for start, until in self.seen:
            if start <= at < until:
                at = until
        return at >= min(end, self.high)

    @property
    def high(self) -> int:
        return self.seen[-1][1] if self.seen else 0

    def take(self, begin: int, end: int) -> None:
        joined = [(begin, end), *(piece for piece in self.seen if begin <= piece[1] and piece[0] <= end)]
        apart = [piece for piece in self.seen if piece not in joined]
        self.seen = sorted([*apart, (min(a for a, _ in joined), max(b for _, b in joined))])


def judge(case: Case) -> Iterator[tuple[str, int]]:
    """For each statement of either about a packet: the rule by which the other says the same, or not; and the frame."""
    rows = {frame: row for row, frame in enumerate(case.trace.packets.frame.tolist())}
    ways: dict[tuple[int, int], Direction] = {}
    ports: dict[int, list[int]] = {}
    for one in case.shown:
        both = ports.setdefault(one.stream, [one.port])
        if one.port not in both:
            both.append(one.port)
        way = both.index(one.port)
        own = ways.setdefault((one.stream, way), Direction())
        other = ways.setdefault((one.stream, 1 - way), Direction())
        if one.frame not in rows:
            yield from ((f"{name}: captured twice", one.frame) for name in one.told)
            continue
        packets, row = case.trace.packets, rows[one.frame]
        kind, ack_kind = Kind(packets.kind[row]), AckKind(packets.ack_kind[row])
        begin = own.at(one.seq) + bool(one.flags & SYN)
        ack = other.at(one.ack) if one.flags & 0x10 else None
        for rule in _rules(one, kind, ack_kind, own, other, begin, ack):
            yield rule, one.frame
        end = begin + one.size
        if one.size and kind is not Kind.ZERO_WINDOW_PROBE:
            own.take(begin, end)
        own.next = max(own.next, end + bool(one.flags & FIN))
        if ack is not None and not one.flags & RST:
            is_more = other.acked is None or ack > other.acked
            other.duplicates = 0 if is_more else other.duplicates + (ack_kind is AckKind.DUPLICATE)
            other.acked = ack if other.acked is None else max(ack, other.acked)
        own.last = one


def _rules(
    one: Shown, kind: Kind, ack_kind: AckKind, own: Direction, other: Direction, begin: int, ack: int | None
) -> Iterator[str]:
    told = one.told
    again, end = told & {"retransmission", "out_of_order"}, begin + one.size
    name = "retransmission" if "retransmission" in told else "out_of_order"
    if again and not one.size:
        yield f"{name}: SYN or FIN without payload" if one.flags & (SYN | FIN) and kind is Kind.NONE else "?"
    elif again:
        is_seen = begin < own.high and own.is_seen(begin, end)  # behind a FIN there may be a hole that it tells of
        is_asked_for = kind is Kind.RETRANSMISSION and own.duplicates >= 3 and begin == own.acked
        want = Kind.RETRANSMISSION if is_seen or is_asked_for else Kind.OUT_OF_ORDER
        what = "these bytes were seen before" if is_seen else "these bytes were not seen before"
        what += ", and three duplicate ACKs asked for them" if is_asked_for and not is_seen else ""
        yield f"{name}: {what}" if kind is want else "?"
    elif kind in (Kind.RETRANSMISSION, Kind.OUT_OF_ORDER):
        is_single = one.size == 1 and "keep_alive" in told and (own.acked is None or own.acked <= begin)
        yield "keep_alive: the byte is not acknowledged" if is_single and kind is Kind.RETRANSMISSION else "?"
    if "keep_alive" in told and kind is not Kind.RETRANSMISSION:
        yield "keep_alive: same" if kind is Kind.KEEP_ALIVE else "?"
    elif kind is Kind.KEEP_ALIVE and "keep_alive" not in told:
        yield "?"

    if "lost_segment" in told:
        is_empty = not one.size and kind is Kind.NONE
        yield "lost_segment: same" if kind is Kind.AHEAD else "lost_segment: no payload" if is_empty else "?"
    elif kind is Kind.AHEAD:
        yield "AHEAD: a packet without payload had shown the hole" if own.next >= begin > own.high else "?"

    is_alone = not one.size and not one.flags & (SYN | FIN | RST)
    if "duplicate_ack" in told and ack_kind is not AckKind.DUPLICATE:
        yield "duplicate_ack: nothing is in flight" if ack is not None and ack >= other.high else "?"
    elif ack_kind is AckKind.DUPLICATE:
        is_ahead = begin != own.next
        yield (
            "duplicate_ack: same" if "duplicate_ack" in told else "DUPLICATE: not its next number" if is_ahead else "?"
        )
    if "window_update" in told and ack_kind is not AckKind.WINDOW_UPDATE:
        yield "window_update: the window before was in a SYN" if own.last and own.last.flags & SYN else "?"
    elif ack_kind is AckKind.WINDOW_UPDATE:
        is_closing = one.window == 0
        yield "window_update: same" if "window_update" in told else "WINDOW_UPDATE: it closes" if is_closing else "?"
    if "keep_alive_ack" in told and ack_kind is not AckKind.KEEP_ALIVE:
        is_none = bool(other.last and "keep_alive" in other.last.told and other.last.size == 1)
        yield "keep_alive_ack: answers what is none" if is_none else "?"
    elif ack_kind is AckKind.KEEP_ALIVE:
        probe = "zero_window_probe_ack"
        is_shut = one.window == 0 and "keep_alive" in (other.last.told if other.last else ())
        same = probe if probe in told else "keep_alive_ack" if "keep_alive_ack" in told else ""
        yield f"{same}: same" if same else "KEEP_ALIVE: of a closed window" if is_shut else "?"
    if "zero_window_probe" in told or kind is Kind.ZERO_WINDOW_PROBE:
        is_same = "zero_window_probe" in told and kind is Kind.ZERO_WINDOW_PROBE
        yield "zero_window_probe: same" if is_same else "?"
    is_closed = one.window == 0 and not one.flags & (SYN | FIN | RST) and kind is not Kind.ZERO_WINDOW_PROBE
    yield from ["zero_window: same"] if is_closed and "zero_window" in told else []
    yield from ["?"] if is_closed != ("zero_window" in told) or (is_alone and "fast_retransmission" in told) else []


# What a rule is about, of each analysis; the rest of them says why Wireshark calls something a retransmission.
_RULED = set(ANALYSES) - {"fast_retransmission", "spurious_retransmission", "ack_lost_segment"}


def _hold(case: Case) -> Counter[str]:
    rules = list(judge(case))
    assert [frame for rule, frame in rules if rule == "?"] == []
    ruled = Counter(rule.split(":")[0] for rule, _ in rules)
    told = Counter(name for one in case.shown for name in one.told)
    assert {name: ruled[name] for name in _RULED} == {name: told[name] for name in _RULED}
    return Counter(rule for rule, _ in rules)


def test_what_tshark_says_otherwise_is_explained(case: Case) -> None:
    """Each thing that either says of a packet the other one says, too, or one of the rules says why not."""
    _hold(case)


def test_the_rules_hold_on_a_capture_with_everything(tmp_path: Path, tools: Tools) -> None:
    """What real captures are poor in: closed windows and their probes, keep-alives, SYNs and FINs that come again."""
    line = Timeline()
    line.add(-1000, ">", -1, 0, None, SYN)
    line.handshake(0)
    line.ack(1, "<", ack=0, window=400)
    first = line.send(2, ">", 1000)
    line.again(2.1, first)
    line.send(3, ">", 1000, seq=2000)
    for ms in (4, 5, 6):
        line.ack(ms, "<", ack=1000)
    line.send(7, ">", 1000, seq=1000)
    line.send(8, ">", 1000, seq=0)
    line.ack(9, "<")
    line.ack(10, "<", window=0)
    for ms in (300, 700):
        line.send(ms, ">", 1, seq=3000)
        line.ack(ms + 1, "<", ack=3000)
    line.ack(900, "<", ack=3000, window=500)
    line.send(901, ">", 10, seq=3000)
    line.ack(902, "<", ack=3010)
    line.ack(903, "<", ack=3010)
    for ms, size in ((8000, 0), (16_000, 1)):
        line.send(ms, ">", size, seq=3009)
        line.ack(ms + 1, "<", ack=3010)
    line.ack(20_000, ">")
    line.send(20_001, ">", 1)
    line.send(20_300, ">", 1, seq=3010)
    line.fin(20_301, ">")
    line.fin(20_900, ">")
    again = Timeline(isn=(2**31, 70_000))
    again.handshake(60_000)
    case = _read(write_pcap(tmp_path / "made.pcap", line.seen(), again.seen(), nano=True), tools, tmp_path)
    _compare(case)
    assert _hold(case) == {
        "WINDOW_UPDATE: it closes": 1,
        "duplicate_ack: nothing is in flight": 2,
        "duplicate_ack: same": 2,
        "keep_alive: same": 2,
        "keep_alive: the byte is not acknowledged": 1,
        "keep_alive_ack: same": 2,
        "lost_segment: same": 1,
        "retransmission: SYN or FIN without payload": 2,
        "retransmission: captured twice": 1,
        "retransmission: these bytes were not seen before": 1,
        "retransmission: these bytes were seen before": 1,
        "window_update: same": 1,
        "window_update: the window before was in a SYN": 1,
        "zero_window: same": 3,
        "zero_window_probe: same": 2,
        "zero_window_probe_ack: same": 2,
    }


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        (shut(), {"keep_alive: same": 6, "zero_window: same": 7, "KEEP_ALIVE: of a closed window": 6}),
        (sent_again(), {"retransmission: these bytes were seen before": 6}),
        (lost(3), {"retransmission: these bytes were not seen before, and three duplicate ACKs asked for them": 1}),
        pytest.param(lost(2), {"retransmission: these bytes were not seen before": 1}, marks=pytest.mark.long),
        (with_fin(data_ms=21), {"retransmission: these bytes were not seen before": 1}),
    ],
    ids=["shut window", "dead peer", "fast retransmission", "two duplicates", "overtaking FIN"],
)
def test_what_hangs_or_is_odd_is_explained(line: Timeline, rules: dict[str, int], tmp_path: Path, tools: Tools) -> None:
    """The same rules on captures of hangs, and on those that are odd."""
    case = _read(line.write(tmp_path / "odd.pcap"), tools, tmp_path)
    _compare(case)
    found = _hold(case)
    assert {rule: found[rule] for rule in rules} == rules


def test_bytes_are_missing_where_tshark_sees_acks_of_lost_segments(case: Case) -> None:
    """Of a direction of which anything was captured; tshark says nothing of others."""
    trace = case.trace
    rows = {frame: row for row, frame in enumerate(trace.packets.frame.tolist())}
    told = Counter(
        (int(trace.packets.conversation[row]), 1 - int(trace.packets.direction[row]))
        for one in case.shown
        if "ack_lost_segment" in one.told and (row := rows.get(one.frame)) is not None
    )
    shown_ways = set(zip(trace.packets.conversation.tolist(), trace.packets.direction.tolist(), strict=True))
    missing = {
        (number, way)
        for number, one in enumerate(trace.conversations)
        for way in (0, 1)
        if one.ways[way].lost_bytes and (number, way) in shown_ways
    }
    assert set(told) == missing
