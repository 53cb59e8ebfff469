"""TCP segments and the record lengths found in them -> first-byte and last-byte frame of every RPC record.

The record mark gives a message's length and the TCP header the range of every segment, so the packet that completes a
message is known even where the payload was cut off by a short snaplen (docs/method.md; RFC 5531 section 11). One
`Direction` follows one direction of one connection in sequence space. It holds the segments since the last record
boundary and the records that are still incomplete, no more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from nfslat.decode.tshark.coverage import Coverage
from nfslat.model.protocol import NULL

_WRAP = 1 << 32
# A record is at most a few MB; a direction that has shown no record boundary for this many segments is not RPC.
_SEGMENTS_KEPT = 16_384
_INCOMPLETE_KEPT = 64  # records of one direction whose missing bytes are awaited
_RECENT_KEPT = 64  # packets between two copies of one packet


@dataclass(slots=True)
class Record:
    """One RPC record: where it begins, when it began and when the last of its bytes was seen."""

    start: int  # stream position of the record mark, unwrapped
    end: int
    first_frame: int
    first_ns: int
    last_frame: int
    last_ns: int
    missing: list[tuple[int, int]] = field(default_factory=list)  # byte ranges not seen yet
    given_up: bool = False  # some of them were not captured
    acked: int = NULL  # what its sender had acknowledged, and whether it left at once (`Messages`)
    at_once: bool = False

    @property
    def whole(self) -> bool:
        """Have all its bytes been seen?"""
        return not self.missing and not self.given_up


@dataclass(slots=True)
class Segment:
    """One TCP segment with data: its byte range in the stream."""

    start: int
    end: int
    frame: int
    t_ns: int
    acks: int = NULL  # the other direction's `acked`
    acked: int = NULL  # its own one before it, where it is in its turn


class Direction:
    """Sequence space of one direction; feed it every segment in capture order."""

    __slots__ = ("_acked", "_carried", "_high", "_incomplete", "_is_rpc", "_next", "_recent", "_segments", "coverage")

    def __init__(self) -> None:
        self.coverage = Coverage()
        self._high = -1  # highest stream position seen
        self._next: int | None = None  # where the next record begins, if it is known
        self._segments: deque[Segment] = deque(maxlen=_SEGMENTS_KEPT)
        self._acked = NULL  # below it the receiver has everything
        self._incomplete: list[Record] = []
        self._recent: dict[tuple[str, int, int, int], None] = {}
        self._is_rpc = False  # has shown a record
        self._carried = 0  # bytes of a record's earlier fragments, when its last one is still to come

    def is_copy(self, key: tuple[str, int, int, int]) -> bool:
        """Was this very packet captured just before? `key`: IP identification, TCP sequence, acknowledgement, length.

        A TCP retransmission carries a new IP identification (Linux counts it up for every packet sent).
        """
        if key in self._recent:
            return True
        self._recent[key] = None
        if len(self._recent) > _RECENT_KEPT:
            del self._recent[next(iter(self._recent))]
        return False

    def segment(
        self, frame: int, t_ns: int, seq: int, length: int, *, syn: bool, fin: bool = False, acks: int = NULL
    ) -> Segment:
        """Take one segment; returns its place in the stream."""
        if syn:
            seq = (seq + 1) % _WRAP
            self._segments.clear()
            self._give_up(self._incomplete)
            self._high, self._next, self._carried, self._acked = seq, seq, 0, NULL
            self.coverage.begin(seq)
        elif self._high < 0:
            self._high = seq
            self.coverage.begin(seq)
        start = self._position(seq)
        here = Segment(start, start + length, frame, t_ns, acks, self._acked if start == self._high else NULL)
        if length or fin:
            self.coverage.seen(start, here.end + fin)  # a FIN takes a sequence number
        if length:
            self._segments.append(here)
            if self._incomplete:
                for record in self._incomplete:
                    _fill(record, here)
                self._incomplete = [record for record in self._incomplete if record.missing]
            self._high = max(self._high, here.end)
        return here

    def acknowledged(self, ack: int) -> None:
        """The receiver has everything below `ack`: what is missing there was never captured, so stop waiting for it."""
        if self._high < 0:
            return
        position = self._position(ack)
        self._acked = max(self._acked, position)
        self.coverage.acknowledged(position)
        if self._incomplete:
            self._give_up([record for record in self._incomplete if record.end <= position])

    def records(
        self, here: Segment, fragments: list[tuple[int, bool]], *, reassembled: bool, from_frame: int
    ) -> list[Record] | None:
        """Place the records that end with one of the `fragments` that the dissector shows in `here`.

        `fragments` are (bytes, record mark included; is it the last of its record). `reassembled`: the dissector shows
        a fragment where it is complete, else where it begins, which is always at the beginning of a segment.
        `from_frame` is the first frame of a reassembled fragment, 0 where there is none. None where the bytes that the
        dissector put together cannot have been these: it lost the boundaries, and no time would be right.
        """
        lengths, carrying = [], self._carried > 0
        for length, is_last in fragments:
            self._carried += length
            if is_last:
                lengths.append(self._carried)
                self._carried = 0
        start: int | None = here.start
        if reassembled or carrying:
            first = lengths[0] if lengths else self._carried
            begun = None if carrying else self._segment_of(from_frame, here)
            start = self._place(here, begun, first, sum(lengths), carrying=carrying)
        if start is None:
            self._next, self._carried = None, 0
            return None
        found = []
        for length in lengths:
            record = Record(start, start + length, here.frame, here.t_ns, here.frame, here.t_ns)
            self._trace(record)
            if record.missing:
                self._incomplete.append(record)
                if len(self._incomplete) > _INCOMPLETE_KEPT:
                    self._give_up(self._incomplete[:1])
            found.append(record)
            start += length
        self._next, self._is_rpc = start, True
        while self._segments and self._segments[0].end <= start:
            self._segments.popleft()
        return found

    def _segment_of(self, frame: int, here: Segment) -> Segment | None:
        if frame in (0, here.frame):
            return here
        return next((segment for segment in self._segments if segment.frame == frame), None)

    def _place(self, here: Segment, begun: Segment | None, first: int, total: int, *, carrying: bool) -> int | None:
        """Where the records of `total` bytes begin, the first of them in segment `begun`."""
        expected = self._next
        in_reach = expected is not None and expected < here.end and expected + total <= self._high
        known = carrying or (begun is not None and expected is not None and begun.start <= expected < begun.end)
        if expected is not None and in_reach and known and here.start < expected + first:
            return expected
        if begun is None:
            return None
        # Boundaries are not known, or were lost: then the dissector starts at the beginning of a segment, and what it
        # puts together ends in this one (or behind it, where this one fills a gap).
        end = begun.start + total
        return begun.start if here.start < end <= max(here.end, self._high) or not total else None

    def hidden(self, here: Segment, *, is_new: bool) -> int:
        """1 where a record is known to begin inside `here` and the dissector has not shown it, else 0.

        For captures cut by a snaplen only: there a header that is not at the beginning of a segment cannot be seen.
        Behind such a record the boundaries are lost until the next header that is seen.
        """
        if not self._is_rpc or self._next is None or not is_new or not here.start <= self._next < here.end:
            return 0
        self._next = None
        return 1

    def _position(self, seq: int) -> int:
        """The stream position of a sequence number: the one that is nearest to what was seen last."""
        half = _WRAP >> 1
        return self._high + ((seq - self._high + half) % _WRAP) - half

    def _give_up(self, records: list[Record]) -> None:
        """Stop waiting for the missing bytes of `records`: their last frame is the last one that was seen."""
        for record in records:
            record.missing, record.given_up = [], True
        self._incomplete = [record for record in self._incomplete if record.missing]

    @property
    def acked(self) -> int:
        """Below this stream position the receiver has everything, NULL where it has said nothing."""
        return self._acked

    @property
    def high(self) -> int:
        """Highest stream position seen so far, -1 before the first segment."""
        return self._high

    def _trace(self, record: Record) -> None:
        """Find the record's first segment, and its last one if all its bytes have been seen."""
        record.missing = [(record.start, record.end)]
        seen_first = False
        for segment in self._segments:
            if not seen_first and segment.start <= record.start < segment.end:
                record.first_frame, record.first_ns, seen_first = segment.frame, segment.t_ns, True
                record.acked, record.at_once = segment.acks, segment.acked >= record.start
            _fill(record, segment)
            if not record.missing:
                break
        if record.last_frame < record.first_frame:
            record.last_frame, record.last_ns = record.first_frame, record.first_ns


def _fill(record: Record, segment: Segment) -> None:
    """Take `segment`'s bytes off what `record` misses; the segment that contributes last is the record's last."""
    if segment.end <= record.start or segment.start >= record.end:
        return
    left: list[tuple[int, int]] = []
    new = False
    for a, b in record.missing:
        if segment.end <= a or segment.start >= b:
            left.append((a, b))
            continue
        new = True
        if a < segment.start:
            left.append((a, segment.start))
        if segment.end < b:
            left.append((segment.end, b))
    if new:
        record.missing = left
        record.last_frame, record.last_ns = segment.frame, segment.t_ns
