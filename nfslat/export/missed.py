"""A `Correlation` -> one CSV row an op without a partner, and a call without a reply: why, and what the other capture
shows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from nfslat.decode.capture import Source
from nfslat.figures.op_columns import ARGUMENTS, ENDS, FRAMES, INSTANTS
from nfslat.match.connections import Links
from nfslat.model.protocol import NULL, NULL32, op_name, program_name, version_name
from nfslat.model.tables import I8, I32, I64, Connection, Kind, Loose, Miss, Ops, State
from nfslat.results import Correlation, Side
from nfslat.select import is_without_filters
from nfslat.tally.unanswered import waiting_of

_BLOCK = 1 << 14  # rows
_MOST_SHOWN = 3  # messages of the other capture in a cell

COLUMNS = (
    "side",
    "reason",
    "program",
    "version",
    "op",
    "xid",
    *ENDS,
    *ARGUMENTS,
    *(f"{name}_ns" for name in INSTANTS),
    *FRAMES,
    "transmissions",
    "other_side",
)


def write_missed(c: Correlation, out: TextIO) -> None:
    """The server's ops, then the client's, each in order of the call. Times are ns since 1970 on the clock of the op's
    own capture; null is an empty cell.

    A call that still waited when its capture ended has the reason NO_REPLY, and empty cells where an op has its reply.
    Other messages that are part of no op have no row of their own: `other_side` names those of the other capture that a
    row may be about.
    """
    out.write(",".join(COLUMNS) + "\n")
    for name, one, other, fate in (
        ("server", c.server, c.client, c.missed("client")),
        ("client", c.client, c.server, c.missed("server")),
    ):
        reasons = c.missed(name)
        rows = np.flatnonzero(c.compared(name) & (reasons != Miss.MATCHED))
        open_calls = _open_calls(one)
        if len(rows) or len(open_calls):
            own_link, link = _of_side(c.matching.links, name), _of_side(c.matching.links, name, other=True)
            shown = _Shown(other, fate, link)
            for begin in range(0, len(rows), _BLOCK):
                at = rows[begin : begin + _BLOCK]
                ops = one.ops.take(at)
                columns = [
                    [name] * len(at),
                    [Miss(value).name for value in reasons[at].tolist()],
                    *_columns(ops, one.source),
                ]
                columns.append(shown.of(own_link[ops.conn], ops.xid))
                _write_rows(out, columns)
            for begin in range(0, len(open_calls), _BLOCK):
                calls = one.decoded.loose.take(open_calls[begin : begin + _BLOCK])
                columns = [[name] * len(calls), [State.NO_REPLY.name] * len(calls), *_columns_of_calls(one, calls)]
                columns.append(shown.of(own_link[calls.conn], calls.xid))
                _write_rows(out, columns)


def _write_rows(out: TextIO, columns: Sequence[Sequence[Any]]) -> None:
    out.write("".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True)))


def _open_calls(side: Side) -> I64:
    """Calls that still waited for their replies when the capture ended; none where filters are, which are of ops."""
    return waiting_of(side).row if is_without_filters(side.reasons) else np.zeros(0, dtype=np.int64)


def _columns_of_calls(side: Side, calls: Loose) -> list[list[Any]]:
    loose, empty = side.decoded.loose, [""] * len(calls)
    again = loose.take((loose.state == State.RETRANSMITTED) & (loose.is_reply == 0) & (loose.op == NULL))
    sends = Counter(zip(again.conn.tolist(), again.xid.tolist(), strict=True))
    asked, ways = _named_kinds(calls.kinds), _named_ways(calls.connections)
    return [
        [asked[kind] for kind in calls.kind.tolist()],
        [f"0x{xid:08x}" for xid in calls.xid.tolist()],
        [ways[way] for way in (calls.conn * 2 + calls.direction).tolist()],
        *(empty for _ in ARGUMENTS),
        calls.first_ns.tolist(),
        calls.last_ns.tolist(),
        empty,
        empty,
        calls.first_frame.tolist(),
        calls.last_frame.tolist(),
        empty,
        empty,
        [1 + sends[key] for key in zip(calls.conn.tolist(), calls.xid.tolist(), strict=True)],
    ]


def _of_side(links: Links, side: str, *, other: bool = False) -> I32:
    return links.server if (side == "server") != other else links.client


def _columns(ops: Ops, source: Source) -> list[list[Any]]:
    asked, ways = _named_kinds(ops.kinds), _named_ways(ops.connections)
    return [
        [asked[kind] for kind in ops.kind.tolist()],
        [f"0x{xid:08x}" for xid in ops.xid.tolist()],
        [ways[way] for way in (ops.conn * 2 + ops.direction).tolist()],
        _cells(ops.offset, NULL, str),
        _cells(ops.size, NULL32, str),
        _cells(ops.fh, NULL32, "0x{:08x}".format),
        *(getattr(ops, name).tolist() for name in INSTANTS),
        *(source.numbered(getattr(ops, name)).tolist() for name in FRAMES),
        ops.transmissions.tolist(),
    ]


def _named_kinds(kinds: Sequence[Kind]) -> list[str]:
    """Cells for program, version and operation of each kind of the table."""
    return [
        f"{program_name(kind.program)},{version_name(*kind[:3])},{op_name(kind.program, kind.version, kind.op)}"
        for kind in kinds
    ]


def _named_ways(connections: Sequence[Connection]) -> list[str]:
    """Cells for address and port of caller and called, of each connection (row times 2) and direction (plus 0 or 1)."""
    return [",".join(map(str, (*ends.source(way), *ends.destination(way)))) for ends in connections for way in (0, 1)]


def _cells(values: npt.NDArray[Any], null: int, form: Callable[[int], str]) -> list[str]:
    return ["" if value == null else form(value) for value in values.tolist()]


class _Shown:
    """What one capture shows of XIDs: messages without call or reply, and ops without a partner."""

    def __init__(self, side: Side, fate: I8, link: I32) -> None:
        loose, ops = side.decoded.loose, side.ops
        odd = np.flatnonzero((loose.state == State.NO_REPLY) | (loose.state == State.NO_CALL))
        alone = np.flatnonzero(fate != Miss.MATCHED)
        key = _keys(
            np.concatenate([link[loose.conn[odd]], link[ops.conn[alone]]]),
            np.concatenate([loose.xid[odd], ops.xid[alone]]),
        )
        call = np.where(loose.is_reply[odd] == 0, loose.first_frame[odd], NULL)
        reply = np.where(loose.is_reply[odd] == 0, NULL, loose.first_frame[odd])
        calls = np.concatenate([call, ops.call_first_frame[alone]])
        replies = np.concatenate([reply, ops.reply_first_frame[alone]])
        order = np.lexsort((np.maximum(calls, replies), key))
        order = order[key[order] >= 0]
        self._key = key[order]
        self._call, self._reply = (side.source.numbered(frames[order]) for frames in (calls, replies))

    def of(self, link: I32, xid: npt.NDArray[np.uint32]) -> list[str]:
        """A cell for each XID of a link."""
        key = _keys(link, xid)
        begin = np.searchsorted(self._key, key)
        end = np.where(key < 0, begin, np.searchsorted(self._key, key, side="right"))
        return [self._cell(*ends) for ends in zip(begin.tolist(), end.tolist(), strict=True)]

    def _cell(self, begin: int, end: int) -> str:
        if begin == end:
            return "nothing"
        found = []
        for at in range(begin, min(end, begin + _MOST_SHOWN)):
            frames = (("call", self._call[at]), ("reply", self._reply[at]))
            found.append(" and ".join(f"{what} in frame {frame}" for what, frame in frames if frame != NULL))
        more = end - begin - _MOST_SHOWN
        return "; ".join([*found, f"and {more} more"] if more > 0 else found)


def _keys(link: I32, xid: npt.NDArray[np.uint32]) -> I64:
    """One number for link and XID, NULL where there is no link."""
    return np.where(link == NULL, NULL, link.astype(np.int64) << 32 | xid)
