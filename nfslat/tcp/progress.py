"""A direction's packets -> which of them brought new bytes, when these were acknowledged, who sent in turn.

What sizes, throughput and turns have in common. Rows are those of `Talk.packets`.
"""

from __future__ import annotations

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.record import Record
from nfslat.model.tables import I8, I32, I64, endpoint
from nfslat.tally.stats import summary_of
from nfslat.tcp.packets import PSH, Kind, Talk
from nfslat.tcp.stream import Stream

# Payload of a full segment on usual and on jumbo Ethernet frames, over IPv4 and IPv6, without and with timestamps (12
# bytes, RFC 7323 appendix A): what to try where no SYN shows the MSS.
_USUAL_SEGMENTS = (8960, 8948, 8940, 8928, 1460, 1448, 1440, 1428)
_TIMESTAMPS_BYTES = 12
_SHORTEST_SEGMENT = 500
_CUT = 10  # segments with more behind them: fewer tell no size
_DENSE = 1 << 20  # sizes up to so many bytes are counted in a table with a cell for each
_LONGEST_SEGMENT = 9176  # in the largest frames that switches commonly pass (9216 bytes): more is several segments


class Spread(Record):
    """Of one population of durations, ms; percentiles are nearest-rank."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


def spread(durations_ns: I64) -> Spread | None:
    """None of no durations."""
    if not len(durations_ns):
        return None
    found = summary_of(durations_ns)
    return Spread(len(durations_ns), found.mean, found.p50, found.p95, found.p99, found.max)


class Progress(Record, eq=False):
    """The packets of one direction that brought new bytes, in capture order; columns of one length."""

    rows: I64
    t_ns: I64
    low: I64  # position behind the highest byte seen before
    high: I64  # the same with this packet; one that fills a hole leaves it as it is
    acked_row: I64  # the first packet that acknowledges all up to `high`; NULL: none does
    acked_ns: I64


def data_rows(one: Stream) -> I64:
    """The packets that bring some of the stream."""
    kinds = one.packets.kind[one.rows]
    is_data = (kinds != Kind.KEEP_ALIVE) & (kinds != Kind.ZERO_WINDOW_PROBE)
    return one.rows if is_data.all() else one.rows[is_data]


def progress(one: Stream) -> Progress:
    """What one side sent that was not seen before, and when the other side acknowledged it."""
    return Progress(*native.progress(one))


class SegmentSize(Record):
    """Most payload that a segment of one direction carries, timestamps taken off."""

    bytes: int | None  # None: not known
    source: str  # "syn", "sizes" (no SYN was captured: what the packets look like), or ""


def segment_size(one: Stream) -> SegmentSize:
    """The smaller MSS of both SYNs (a sender heeds the other's, and its own MTU), what the path takes where that is
    less, or what the packets' sizes tell."""
    ways = one.talk.conversation.ways
    known = [way.mss for way in ways if way.mss is not None]
    if known and ways[1 - one.direction].mss is not None:
        less = _TIMESTAMPS_BYTES if ways[0].timestamps and ways[1].timestamps else 0
        agreed = max(min(known) - less, 1)
        return _on_the_path(one, agreed) or SegmentSize(agreed, "syn")
    packets = one.packets
    values, counts = counted(packets.size[data_rows(one)])
    large = values >= _USUAL_SEGMENTS[-1]
    for usual in _USUAL_SEGMENTS:
        # Full segments, and what offload makes of them.
        full = large & (values % usual == 0)
        if large.any() and counts[full].sum() * 2 > counts[large].sum():
            return SegmentSize(usual, "sizes")
    # A size of its own that nothing exceeds, and that comes often, is one (tunnels, PPPoE).
    most, often = (int(values[-1]), int(counts[-1])) if len(values) else (0, 0)
    if _SHORTEST_SEGMENT < most <= _LONGEST_SEGMENT and often >= max(10, counts.sum() / 10):
        return SegmentSize(most, "sizes")
    return SegmentSize(None, "")


def _on_the_path(one: Stream, agreed: int) -> SegmentSize | None:
    """A smaller segment than the SYNs agreed on, where the path takes no such (RFC 1191): none is full, and those that
    were sent with more behind them (no PSH) have one size."""
    packets, rows = one.packets, data_rows(one)
    size = packets.size[rows]
    cut = size[packets.flags[rows] & PSH == 0]
    if len(cut) < _CUT or (size % agreed == 0).any():
        return None
    most = int(cut.max())
    is_one_size = _SHORTEST_SEGMENT < most < agreed and np.count_nonzero(cut == most) * 2 > len(cut)
    return SegmentSize(most, "sizes") if is_one_size else None


def counted(numbers: I32 | I64) -> tuple[I64, I64]:
    """Which sizes there are, growing, and how often each comes."""
    most = int(numbers.max(initial=0))
    if most > max(_DENSE, len(numbers)):
        values, counts = np.unique(numbers, return_counts=True)
        return values.astype(np.int64), counts
    counts = np.bincount(numbers)
    values = np.flatnonzero(counts)
    return values, counts[values]


class Runs(Record, eq=False):
    """Stretches in which only one direction sent new bytes, in capture order; directions alternate.

    `rows` are all packets with new bytes of both directions; run i has those from `begin[i]` to `end[i]` - 1 of them.
    """

    rows: I64
    begin: I64
    end: I64
    direction: I8


def runs(talk: Talk, ways: tuple[Progress, Progress]) -> Runs:
    """Changes of direction part them; what is sent again does not."""
    rows = np.sort(np.concatenate([ways[0].rows, ways[1].rows]), kind="stable")  # merges what is in order already
    way = talk.packets.direction[rows]
    begin = np.flatnonzero(np.concatenate([np.ones(min(len(way), 1), np.bool_), way[1:] != way[:-1]]))
    return Runs(rows, begin, np.append(begin[1:], len(rows))[: len(begin)], way[begin])


def sender(talk: Talk, direction: int) -> str:
    """Who sends in `direction`: ``10.0.0.1:40000``."""
    return endpoint(*talk.conversation.ends.source(direction))
