"""A conversation -> for each direction the window that its receiver announced, and the bytes that were in flight.

Scale: RFC 7323 section 2; zero and shrinking windows: RFC 9293 sections 3.8.6 and 3.8.6.1.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from nfslat.kernels.order import ranked
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, endpoint
from nfslat.model.units import to_ms
from nfslat.tcp.packets import AckKind, Kind, Packets
from nfslat.tcp.shared import Shared
from nfslat.tcp.stream import Stream

_BINS = 200
_MOST_SHIFT = 14  # RFC 7323 section 2.3
_FRAMES = 8
_EPISODES = 1000  # that are listed


class ZeroWindow(Record):
    """A time for which the receiver took nothing."""

    frame: int  # that closed the window
    at_ms: float  # from the conversation's first packet
    ms: float  # until it opened, or until the conversation's end
    probes: int  # by which the sender asked for it meanwhile
    opened_by: str | None  # "window update", "ack", "data" or "another subflow" (MPTCP); None: it did not open
    opened_frame: int | None


class WindowThen(Record):
    """A stretch of time: the least that the receiver took, and the most that was in flight."""

    at_ms: float  # where it begins, from the conversation's first packet
    window_bytes: int | None  # None: the scale is not known
    in_flight_bytes: int


class Windows(Record):
    """What the receiver of one direction announced, and what its sender made of it.

    Without a scale the bytes of windows are those written in the packets, shifted by `scale_at_least`: it may be more.
    """

    direction: int  # of the data
    sender: str  # its endpoint
    receiver: str  # whose windows these are
    scale: int | None  # shift count of the windows that the receiver announces; None: no SYN in the capture
    factor: int | None  # 2 to the power of it
    scale_at_least: int  # what was in flight does not fit into the announced windows with less
    window_min_bytes: int | None  # but for SYNs; None: nothing was announced
    window_typical_bytes: int | None  # median over the packets that announce one
    window_max_bytes: int | None
    in_flight_p95_bytes: int | None  # over data packets; None: no data
    in_flight_max_bytes: int | None
    mss: int | None
    below_segment: int  # packets that announce an open window that takes less than one segment
    below_two_segments: int  # and those with less than two, these included
    full: int  # data packets that reached the end of the window, or to within less than a segment of it
    full_frames: tuple[int, ...]
    shrunk: int  # packets that took back some of what the receiver had offered
    shrunk_most_bytes: int
    shrunk_frames: tuple[int, ...]
    zero_windows: tuple[ZeroWindow, ...]
    zero_count: int  # of those, also where not all are listed
    zero_ms: float
    over_time: tuple[WindowThen, ...]
    counts_from: CountsFrom


class CountsFrom(StrEnum):
    """From what windows count."""

    ACK = "ack"
    DATA_ACK = "data-ack"  # MPTCP (RFC 8684 section 3.3.5)
    UNSEEN = "data-ack-unseen"  # not all of the connection is in the capture: whether a window was full is not known


def windows(shared: Shared, direction: int) -> Windows:
    """Windows and bytes in flight of what is sent in `direction`."""
    talk, one = shared.talk, shared.streams[direction]
    packets, data = talk.packets, one.rows
    begin = int(packets.t_ns.min())
    scale = talk.conversation.shift(1 - direction)
    least = scale if scale is not None else _least_shift(one) if talk.level is None else 0
    window = one.windows(least)
    in_flight = flight_bytes(one)
    segment = shared.segments[direction].bytes
    mss = segment or (int(packets.size[data].max()) if len(data) else NULL)
    usual = window[~one.is_syn] if one.is_syn.any() else window
    open_windows = usual[usual > 0]
    full = _full(one, one.edges(scale), mss) if scale is not None else data[:0]
    shrunk, by = _shrunk(one, window) if scale is not None else (data[:0], data[:0])
    zeros = _zeros(one, begin)
    ends = talk.conversation.ends
    return Windows(
        direction=direction,
        sender=endpoint(*ends.source(direction)),
        receiver=endpoint(*ends.destination(direction)),
        scale=scale,
        factor=None if scale is None else 1 << scale,
        scale_at_least=least,
        window_min_bytes=int(usual.min()) if len(usual) else None,
        window_typical_bytes=ranked(usual, 50) if len(usual) else None,
        window_max_bytes=int(usual.max()) if len(usual) else None,
        in_flight_p95_bytes=ranked(in_flight, 95) if len(data) else None,
        in_flight_max_bytes=int(in_flight.max()) if len(data) else None,
        mss=segment,
        below_segment=int(np.count_nonzero(open_windows < mss)) if scale is not None else 0,
        below_two_segments=int(np.count_nonzero(open_windows < 2 * mss)) if scale is not None else 0,
        full=len(full),
        full_frames=tuple(packets.frame[full[:_FRAMES]].tolist()),
        shrunk=len(shrunk),
        shrunk_most_bytes=int(by.max()) if len(by) else 0,
        shrunk_frames=tuple(packets.frame[shrunk[:_FRAMES]].tolist()),
        zero_windows=zeros[:_EPISODES],
        zero_count=len(zeros),
        zero_ms=sum((zero.ms for zero in zeros), 0.0),
        over_time=_over_time(one, None if scale is None else window, in_flight),
        counts_from=_counts_from(one),
    )


def _counts_from(one: Stream) -> CountsFrom:
    if one.talk.level is None:
        return CountsFrom.ACK
    return CountsFrom.DATA_ACK if (one.edges(None) != NULL).any() else CountsFrom.UNSEEN


def _edges(one: Stream, offered: I64) -> I64:
    """At each data packet, the highest position that the receiver had offered until then; NULL: it had said nothing."""
    reach = np.concatenate(([NULL], np.maximum.accumulate(offered)))
    return np.asarray(reach[one.heard])


def _least_shift(one: Stream) -> int:
    """The least shift with which no new data lie beyond what the receiver had offered; probes do by design."""
    kinds = one.packets.kind[one.rows]
    fresh = (kinds == Kind.NEW) | (kinds == Kind.AHEAD)
    ends = one.packets.seq[one.rows] + one.packets.size[one.rows]
    for shift in range(_MOST_SHIFT):
        edges = _edges(one, one.edges(shift))
        # A sender that probes a window with a byte is beyond it, by that byte.
        if not (fresh & (edges != NULL) & (ends > edges + 1)).any():
            return shift
    return _MOST_SHIFT


def flight_bytes(one: Stream) -> I64:
    """Bytes sent and not acknowledged right behind each data packet."""
    acked = np.concatenate(([0], np.maximum(one.covered, 0)))[one.heard]
    return np.asarray(np.maximum(one.high - acked, 0))


def _full(one: Stream, offered: I64, mss: int) -> I64:
    """Which data packets reached the end of the window, or left less than a segment of it and were the last in it."""
    edges, level = _edges(one, offered), one.talk.level
    size = one.packets.size[one.rows]
    ends = one.packets.seq[one.rows] + size
    if level is not None:
        # What other subflows sent counts, too; what is sent again takes no room.
        left = level.room(one.direction, one.rows)
        edges = np.where((left == NULL) | (ends < one.high), NULL, ends + left)
    room = edges - ends
    near = np.flatnonzero((room >= 0) & (room < mss) & (edges != NULL))
    # A sender may hold back what would fill the window with less than a segment; it did not where more came into it.
    last = np.append(edges, np.iinfo(np.int64).max)[near + 1] > edges[near]
    return one.rows[near[(room[near] < 1) | (last & (size[near] >= mss))]]


def _shrunk(one: Stream, window: I64) -> tuple[I64, I64]:
    """Packets that moved the right edge to the left, and by how many bytes; less than a unit of the scale rounds."""
    current = np.flatnonzero(one.is_current)  # older ones were overtaken
    edge = (one.counted + window)[current]
    back = edge[:-1] - edge[1:]
    hit = np.flatnonzero(back > 0)
    back, before, after = back[hit], current[hit], current[hit + 1]
    unit = [np.where(one.is_syn[at], 1, window[at] // np.maximum(one.window[at], 1)) for at in (before, after)]
    shrinks = ~one.is_syn[before] & (back >= np.maximum(np.maximum(*unit), 1))
    return one.said[after[shrinks]], back[shrinks]


def _zeros(one: Stream, begin: int) -> tuple[ZeroWindow, ...]:
    """Times without any window: runs of announcements of 0."""
    packets = one.packets
    if not one.is_shut.any():
        return ()
    keep = one.is_current & ~one.is_syn
    rows, closed = one.said[keep], one.is_shut[keep]
    starts = np.flatnonzero(closed & ~np.concatenate(([False], closed[:-1])))
    if not len(starts):
        return ()
    opens = np.append(np.flatnonzero(~closed), len(rows))
    ends = opens[np.searchsorted(opens, starts)]
    # Linux probes with segments that hold nothing, as of a keep-alive.
    probe = (packets.kind == Kind.ZERO_WINDOW_PROBE) | (packets.kind == Kind.KEEP_ALIVE)
    probes = np.flatnonzero(probe & (packets.direction == one.direction))
    out = []
    for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
        row = int(rows[first])
        opened = _Opening.of(one, row, int(rows[end]) if end < len(rows) else None)
        last = len(packets) - 1 if opened is None else int(np.searchsorted(packets.frame, opened.frame))
        until = int(packets.t_ns.max()) if opened is None else opened.t_ns
        out.append(
            ZeroWindow(
                frame=int(packets.frame[row]),
                at_ms=to_ms(int(packets.t_ns[row]) - begin),
                ms=to_ms(max(until - int(packets.t_ns[row]), 0)),
                probes=int(np.searchsorted(probes, last + 1) - np.searchsorted(probes, row)),
                opened_by=None if opened is None else opened.by,
                opened_frame=None if opened is None else opened.frame,
            )
        )
    return tuple(out)


class _Opening(NamedTuple):
    """What opens a window."""

    t_ns: int
    frame: int
    by: str

    @staticmethod
    def of(one: Stream, shut: int, opened: int | None) -> _Opening | None:
        """After row `shut`: row `opened`, or a packet of another subflow in front of it."""
        packets, level = one.packets, one.talk.level
        if level is not None:
            frames = level.opened_frame[one.direction]
            at = int(np.searchsorted(frames, packets.frame[shut], side="right"))
            if at < len(frames) and (opened is None or frames[at] < packets.frame[opened]):
                return _Opening(int(level.opened_ns[one.direction][at]), int(frames[at]), "another subflow")
        if opened is None:
            return None
        return _Opening(int(packets.t_ns[opened]), int(packets.frame[opened]), _opening(packets, opened))


def _opening(packets: Packets, row: int) -> str:
    if packets.size[row]:
        return "data"
    return "ack" if packets.ack_kind[row] == AckKind.ADVANCES else "window update"


def _over_time(one: Stream, window: I64 | None, in_flight: I64) -> tuple[WindowThen, ...]:
    """Stretches in which either was seen."""
    packets, data = one.packets, one.rows
    begin = int(packets.t_ns.min())
    total = int(packets.t_ns.max()) - begin
    bin_ns = max(-(-total // _BINS), 1)
    count = total // bin_ns + 1
    most = np.zeros(count, dtype=np.int64)
    np.maximum.at(most, (packets.t_ns[data] - begin) // bin_ns, in_flight)
    none = np.iinfo(np.int64).max
    least = np.full(count, none, dtype=np.int64)
    if window is not None:
        np.minimum.at(least, (packets.t_ns[one.said] - begin) // bin_ns, window)
    used = np.flatnonzero((most > 0) | (least < none))
    return tuple(
        WindowThen(to_ms(at * bin_ns), int(least[at]) if least[at] < none else None, int(most[at]))
        for at in used.tolist()
    )
