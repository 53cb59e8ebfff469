"""A `Correlation` -> one CSV row an op without a partner: why it has none, and what the other capture shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from nfslat.decode.capture import Source
from nfslat.figures.op_columns import ARGUMENTS, ENDS, FRAMES, INSTANTS
from nfslat.match.connections import Links
from nfslat.model.protocol import NULL, NULL32, op_name, program_name, version_name
from nfslat.model.tables import I8, I32, I64, Miss, Ops, State
from nfslat.results import Correlation, Side

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

    Messages that are part of no op, because their call or their reply is not in the capture, have no row of their own:
    `other_side` names those of the other capture that a row's op may be about.
    """
    out.write(",".join(COLUMNS) + "\n")
    for name, one, other, fate in (
        ("server", c.server, c.client, c.missed("client")),
        ("client", c.client, c.server, c.missed("server")),
    ):
        reasons = c.missed(name)
        rows = np.flatnonzero(c.compared(name) & (reasons != Miss.MATCHED))
        if len(rows):
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
                out.write("".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True)))


def _of_side(links: Links, side: str, *, other: bool = False) -> I32:
    return links.server if (side == "server") != other else links.client


def _columns(ops: Ops, source: Source) -> list[list[Any]]:
    asked, ways = _named_kinds(ops), _named_ways(ops)
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


def _named_kinds(ops: Ops) -> list[str]:
    """Cells for program, version and operation of each kind of the table."""
    return [
        f"{program_name(kind.program)},{version_name(*kind[:3])},{op_name(kind.program, kind.version, kind.op)}"
        for kind in ops.kinds
    ]


def _named_ways(ops: Ops) -> list[str]:
    """Cells for address and port of caller and called, of each connection (row times 2) and direction (plus 0 or 1)."""
    return [
        ",".join(map(str, (*ends.source(way), *ends.destination(way)))) for ends in ops.connections for way in (0, 1)
    ]


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
