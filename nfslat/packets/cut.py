"""XIDs and a file -> a small capture, of which Wireshark shows the messages with these XIDs as it does of the file.

What it makes of a message depends on what was in front of it: where no segment begins with it, only the message before
tells where it does, and a reply is one only behind its call. So these are in it, too, each with all of its segments;
and calls that make a context of RPCSEC_GSS, and the packets with which the connections begin, from which their sequence
numbers count.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from nfslat.decode.capture import File, Source
from nfslat.kernels.compiled import native
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, U32
from nfslat.results import Side

_MOST_IN_A_SEGMENT = 64  # messages that are looked through for those that share a segment
_MOST_MESSAGES = 1000  # a busy connection is never quiet; what is then missing is looked for in the whole file
_MOST_CONTEXTS = 100  # calls of NULL, in which those of RPCSEC_GSS are made
_ANY = -1  # way


class _Messages(Record):
    """Calls and replies, by way and first frame."""

    way: I64  # connection times 2, plus direction
    first: I64
    last: I64
    call: I64  # row of that which a reply is of; NULL for all others
    wanted: I64  # rows

    @classmethod
    def of(cls, side: Side, xids: I64) -> _Messages:
        """Messages of the connections on which some have `xids`: these are wanted."""
        ops, loose, count = side.ops, side.decoded.loose, len(side.ops)
        conn = np.concatenate([ops.conn, ops.conn, loose.conn]).astype(np.int64)
        is_wanted = np.isin(np.concatenate([ops.xid, ops.xid, loose.xid]), xids)
        is_null = np.array([kind.op == 0 for kind in ops.kinds], dtype=np.bool_)
        contexts = np.flatnonzero(is_null[ops.kind])[:_MOST_CONTEXTS]
        is_wanted[[*contexts, *(contexts + count)]] = True
        call = np.concatenate(
            [np.full(count, NULL), np.arange(count), np.where(loose.is_reply == 1, loose.op, NULL)], dtype=np.int64
        )
        way = conn * 2 + np.concatenate([ops.direction, 1 - ops.direction, loose.direction])
        first = np.concatenate([ops.call_first_frame, ops.reply_first_frame, loose.first_frame]).astype(np.int64)
        last = np.concatenate([ops.call_last_frame, ops.reply_last_frame, loose.last_frame]).astype(np.int64)
        at = np.flatnonzero(np.isin(conn, np.unique(conn[is_wanted])))
        at = at[np.lexsort((first[at], way[at]))]
        row_of = np.full(len(conn) + 1, NULL, dtype=np.int64)  # behind the last stands that of NULL
        row_of[at] = np.arange(len(at))
        return cls(way[at], first[at], np.maximum(first, last)[at], row_of[call[at]], np.flatnonzero(is_wanted[at]))

    def needed(self) -> I64:
        """Rows of what is wanted, and of what tells where that begins and what it is."""
        key = self.way << 32 | self.first
        found, left = set(self.wanted.tolist()), self.wanted.tolist()
        while left and len(found) < _MOST_MESSAGES:
            row = left.pop()
            end = int(np.searchsorted(key, key[row], side="right"))
            near = np.arange(max(end - _MOST_IN_A_SEGMENT, 0), end)
            near = near[(self.way[near] == self.way[row]) & (self.last[near] >= self.first[row])]
            more = {*near.tolist(), int(self.call[row])} - found - {NULL}
            found |= more
            left += more
        return np.array(sorted(found), dtype=np.int64)


def cut(side: Side, file: File, xids: Iterable[int], numbers: Iterable[int], out: Path) -> U32 | None:
    """Write to `out` what shows the messages with `xids`, and the packets `numbers` of the file; returns the number in
    `file` of each packet there. None where it takes Wireshark to find packets in such a file."""
    if file.is_foreign or file.is_export or file.strange_link is not None or file.format == "erf":
        return None
    messages = _Messages.of(side, np.array(sorted(xids), dtype=np.int64))
    rows = messages.needed()
    ways, way = np.unique(messages.way[rows], return_inverse=True)
    spans = list(zip(messages.first[rows].tolist(), messages.last[rows].tolist(), way.tolist(), strict=True))
    spans += _sent_again(side, xids)
    places = [(*place, way) for *ends, way in spans for place in _in_file(side.source, file, *ends)]
    places = sorted([*places, *((number, number, _ANY) for number in numbers)])
    first, last, of_way = (np.array(column, dtype=np.int64) for column in zip(*places, strict=True))
    ends = [side.ops.connections[way >> 1] for way in ways.tolist()]
    named = [(*ends.source(way & 1), *ends.destination(way & 1)) for ends, way in zip(ends, ways.tolist(), strict=True)]
    columns = first.astype(np.uint32), last.astype(np.uint32), of_way.astype(np.int32)
    try:
        return native.cut(file.path, out, columns, named)
    except (OSError, ValueError):
        return None


def _sent_again(side: Side, xids: Iterable[int]) -> list[tuple[int, int, int]]:
    """Segments with bytes of these ops that TCP sent again."""
    resent = side.decoded.details.resent
    at = np.flatnonzero(np.isin(side.ops.xid[resent.op], list(xids)))
    return [(frame, frame, _ANY) for frame in resent.frame[at].tolist()]


def _in_file(source: Source, file: File, first: int, last: int) -> list[tuple[int, int]]:
    """Frames from `first` to `last`, as ranges of their numbers in a file of the source."""
    before = sum(one.packets for one in source.files[: source.files.index(file)])
    numbers = np.sort(source.numbered(np.arange(first, last + 1, dtype=np.int32)).astype(np.int64) - before)
    numbers = numbers[(numbers > 0) & (numbers <= file.packets)]
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return [(int(run[0]), int(run[-1])) for run in runs if len(run)]
