"""Tables of parts of one capture in, its tables out: rows in the order of the capture, with the numbers that they get.

Which column of which table is the row of what stands here; a table or a column that is not known here is refused, so
that none is lost.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nfslat.model.decoded import Decoded
from nfslat.model.details import (
    Blocked,
    Callers,
    Details,
    Failures,
    Files,
    Hangs,
    Loads,
    Met,
    Names,
    Others,
    Pauses,
    Replies,
    Resent,
    Slots,
    Tcp,
    TcpEvents,
    Turns,
    Unanswered,
    Unread,
)
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.record import Record, declared
from nfslat.model.tables import I64, Loose, Ops, Table

TableT = TypeVar("TableT", bound=Table)

# Columns that are rows of something, by table, and of what.
LEADS: dict[type[Table], dict[str, str]] = {
    Ops: {"conn": "conn", "kind": "kind"},
    Loose: {"conn": "conn", "kind": "kind", "op": "op"},
    Slots: {"op": "op", "session": "session"},
    Names: {"op": "op", "name": "name"},
    Failures: {"op": "op"},
    Resent: {"op": "op"},
    Blocked: {"op": "op"},
    Files: {
        "op": "op",
        "directory": "handle",
        "handle": "handle",
        "to_directory": "handle",
        "name": "name",
        "to_name": "name",
    },
    Tcp: {"conn": "conn"},
    TcpEvents: {"conn": "conn"},
    Pauses: {"conn": "conn"},
    Loads: {"conn": "conn"},
    Unread: {"conn": "conn"},
    Hangs: {"conn": "conn"},
    Replies: {"kind": "kind"},
    Unanswered: {"conn": "conn"},
}
# Columns as wide as row numbers that are none.
_NO_ROWS = {
    "call_first_frame", "call_last_frame", "reply_first_frame", "reply_last_frame", "first_frame", "last_frame",
    "frame", "transmissions", "status", "reconnect", "size", "size_before", "duplicate_acks", "tries",
}  # fmt: skip
# How rows are sorted that are so in each part already; rows of which all these are equal are of one part.
_SORTED: dict[type[Table], tuple[str, ...]] = {
    Ops: ("call_first_frame",),
    Loose: ("first_frame",),
    Slots: ("op",),
    Names: ("op",),
    Failures: ("op",),
    Resent: ("op",),
    Blocked: ("op",),
    Tcp: ("conn", "reconnect", "direction"),
    TcpEvents: ("frame",),
    Pauses: ("frame",),
    Loads: ("begin_ns", "conn", "direction"),
    Unread: ("conn", "direction"),
    Hangs: ("conn", "reconnect", "direction", "awaits"),
    Replies: ("kind",),
    Unanswered: ("frame",),
}
# The decoder's own bounds: rows of these have 16 bits.
_KINDS_WITH_LISTS = 4096
_MOST_KINDS = (1 << 15) - 2
_MOST_SESSIONS = (1 << 15) - 1


def merged(parts: Sequence[Decoded], every: Sequence[Decoded]) -> dict[str, Any]:
    """The fields of `Decoded` that are tables, of all `parts`; rows that were not kept are counted of `every`.

    Raises ``ValueError`` where the parts were not decoded apart, ``TypeError`` where a field is not known here.
    """
    check()
    return Merger(parts, _met(parts)).tables(every)


# --- What is numbered in the order in which it was met ----------------------------------------------------------------


class Listed(Record):
    """Items of all parts in the order in which they were met, and for each part which of them its own items are."""

    items: tuple[Any, ...]
    new_row: list[I64]
    turn: I64
    service: I64


def _listed(
    of: Met, items: Sequence[Sequence[Any]], turns: Sequence[Turns], *, once: bool = True, most: int = 1 << 31
) -> Listed:
    """Of items that are the same only one is kept, if `once`; of one beyond `most` no row is left."""
    met = [part.take(part.of == of) for part in turns]
    if any(len(table) != len(own) for table, own in zip(met, items, strict=True)):
        raise ValueError("parts of a capture were decoded apart; these were not (their items have no turns)")
    turn = np.concatenate([table.turn for table in met])
    service = np.concatenate([table.service for table in met])
    flat = list(itertools.chain.from_iterable(items))
    new_row = np.full(len(flat), NULL, dtype=np.int64)
    known: dict[Hashable, int] = {}
    kept: list[int] = []
    out: list[Any] = []
    for row in np.argsort(turn, kind="stable").tolist():
        item = flat[row]
        if of is Met.KIND and len(out) >= _KINDS_WITH_LISTS and (item, int(service[row])) not in known:
            item = item._replace(ops=())
        name = (item, int(service[row])) if once else row
        number = known.get(name)
        if number is None and len(out) < most:
            number = known[name] = len(out)
            out.append(item)
            kept.append(row)
        # Kinds beyond what a number can say are those of a capture that was made to have so many.
        new_row[row] = number if number is not None else 0 if of is Met.KIND else NULL
    ends = np.cumsum([len(own) for own in items])
    at = np.array(kept, dtype=np.int64)
    return Listed(tuple(out), np.split(new_row, ends[:-1]), turn[at], service[at])


def items_of(parts: Sequence[Decoded]) -> dict[Met, list[Sequence[Any]]]:
    """The lists of each part."""
    details = [part.details for part in parts]
    return {
        Met.CONNECTION: [part.ops.connections for part in parts],
        Met.KIND: [part.ops.kinds for part in parts],
        Met.SESSION: [part.slots.sessions for part in details],
        Met.NAME: [part.names.names for part in details],
        Met.HANDLE: [part.files.handles for part in details],
        Met.CREATED: [part.sessions for part in details],
    }


def _met(parts: Sequence[Decoded]) -> dict[Met, Listed]:
    """Of parts that were decoded apart."""
    turns = [part.details.turns for part in parts]
    how: dict[Met, dict[str, Any]] = {
        Met.CONNECTION: {"once": False},
        Met.KIND: {"most": _MOST_KINDS},
        Met.SESSION: {"most": _MOST_SESSIONS},
        Met.CREATED: {"once": False},
    }
    return {of: _listed(of, items, turns, **how.get(of, {})) for of, items in items_of(parts).items()}


# --- Tables -----------------------------------------------------------------------------------------------------------


class Merger:
    """Puts the tables of parts together."""

    def __init__(self, parts: Sequence[Decoded], lists: Mapping[Met, Listed]) -> None:
        self.parts, self.lists = parts, lists
        self.new_row = {
            "conn": self.lists[Met.CONNECTION].new_row,
            "kind": self.lists[Met.KIND].new_row,
            "session": self.lists[Met.SESSION].new_row,
            "name": self.lists[Met.NAME].new_row,
            "handle": self.lists[Met.HANDLE].new_row,
        }

    def tables(self, every: Sequence[Decoded]) -> dict[str, Any]:
        """The fields of `Decoded` that are tables; counts are those of `every`, parts or not."""
        connections, kinds, sessions, names, handles, created = (self.lists[of].items for of in Met)
        first = [part.ops.call_first_frame for part in self.parts]
        order = call_order(np.concatenate(first), np.concatenate([part.ops.xid for part in self.parts]))
        new_row = np.empty(len(order), dtype=np.int64)
        new_row[order] = np.arange(len(order))
        self.new_row["op"] = np.split(new_row, np.cumsum([len(part) for part in first])[:-1])
        ops = self._joined(Ops, lambda part: part.ops, order, kinds=kinds, connections=connections)
        loose = self._joined(Loose, lambda part: part.loose, kinds=kinds, connections=connections)
        found: dict[str, Any] = {
            "slots": self._joined(Slots, lambda part: part.details.slots, sessions=sessions),
            "names": self._joined(Names, lambda part: part.details.names, names=names),
            "failures": self._joined(Failures, lambda part: part.details.failures),
            "tcp": self._joined(Tcp, lambda part: part.details.tcp),
            "events": self._joined(TcpEvents, lambda part: part.details.events),
            "resent": self._joined(Resent, lambda part: part.details.resent),
            "pauses": self._joined(Pauses, lambda part: part.details.pauses),
            "blocked": self._joined(Blocked, lambda part: part.details.blocked),
            "loads": self._loads(),
            "others": others_of(part.details.others for part in every),
            "unread": self._joined(Unread, lambda part: part.details.unread),
            "hangs": self._joined(Hangs, lambda part: part.details.hangs),
            "replies": self._replies(),
            "unanswered": self._joined(Unanswered, lambda part: part.details.unanswered),
            "callers": self._callers(order),
            "files": self._files(ops, names=names, handles=handles),
            "sessions": created,
            "turns": self._turns() if any(len(part.details.turns) for part in self.parts) else Turns.empty(),
        }
        found |= {name: sum(getattr(part.details, name) for part in every) for name in dropped()}
        if unknown := declared(Details).keys() - found.keys():
            raise TypeError(f"Details: no way to merge {sorted(unknown)}")
        return {"ops": ops, "loose": loose, "details": Details(**found)}

    def _columns(self, table: type[Table], get: Callable[[Decoded], Table]) -> dict[str, npt.NDArray[Any]]:
        """Columns of all parts one behind the other, with the new row numbers."""
        out = {}
        for name in table.columns():
            columns = [getattr(get(part), name) for part in self.parts]
            if lead := LEADS.get(table, {}).get(name):
                columns = [led(column, rows) for column, rows in zip(columns, self.new_row[lead], strict=True)]
            out[name] = np.concatenate(columns)
        return out

    def _joined(
        self, table: type[TableT], get: Callable[[Decoded], TableT], order: I64 | None = None, **others: Any
    ) -> TableT:
        columns = self._columns(table, get)
        if order is None:
            order = _order([columns[name] for name in _SORTED[table]])
        return _made(table, columns, order, others)

    def _callers(self, order: I64) -> Callers:
        """A row an op, or none at all."""
        parts = [(part.details.callers.uid, len(part.ops)) for part in self.parts]
        if not any(len(uid) for uid, _ in parts):
            return Callers.empty()
        every = [uid if len(uid) else np.full(rows, NULL32, dtype=np.uint32) for uid, rows in parts]
        return Callers(np.concatenate(every)[order])

    def _files(self, ops: Ops, **others: Any) -> Files:
        """In the order of the replies; those of one instant in that of their frames."""
        columns = self._columns(Files, lambda part: part.details.files)
        order = _order([columns["t_ns"], ops.reply_first_frame[columns["op"]]])
        return _made(Files, columns, order, others)

    def _loads(self) -> Loads:
        """In the longest stretches of any part."""
        stretches = [part.details.loads.stretch_ns for part in self.parts]
        loads = self._joined(Loads, lambda part: part.details.loads, stretch_ns=max(stretches))
        if min(stretches) == max(stretches):
            return loads
        begin_ns = loads.begin_ns - loads.begin_ns % loads.stretch_ns
        order, begins = _runs([begin_ns, loads.conn, loads.direction])
        rows = dataclasses.replace(loads, begin_ns=begin_ns).take(order[begins])
        return dataclasses.replace(
            rows, bytes=np.add.reduceat(loads.bytes[order], begins) if len(begins) else rows.bytes
        )

    def _replies(self) -> Replies:
        """One row a kind, of whichever parts."""
        replies = self._joined(Replies, lambda part: part.details.replies)
        first = np.flatnonzero(np.diff(replies.kind, prepend=np.int16(NULL)))
        if len(first) == len(replies):
            return replies
        return Replies(
            kind=replies.kind[first],
            count=np.add.reduceat(replies.count, first),
            short=np.add.reduceat(replies.short, first),
            least=np.minimum.reduceat(replies.least, first),
            most=np.maximum.reduceat(replies.most, first),
        )

    def _turns(self) -> Turns:
        lists = [self.lists[of] for of in Met]
        return Turns(
            of=np.concatenate([np.full(len(one.items), of, dtype=np.int8) for of, one in zip(Met, lists, strict=True)]),
            turn=np.concatenate([one.turn for one in lists]),
            service=np.concatenate([one.service for one in lists]),
        )


def others_of(several: Iterable[Others]) -> Others:
    """All of them; streams by who sends to whom, in that order, in the longest stretches of any."""
    parts = list(several)
    streams = sorted({stream for part in parts for stream in part.streams})
    number = {stream: at for at, stream in enumerate(streams)}
    rows = [np.array([number[stream] for stream in part.streams], dtype=np.int32) for part in parts]
    stretch_ns = max(part.stretch_ns for part in parts)
    begin_ns = np.concatenate([part.begin_ns - part.begin_ns % stretch_ns for part in parts])
    stream = np.concatenate([row[part.stream] for row, part in zip(rows, parts, strict=True)])
    order, begins = _runs([begin_ns, stream])
    sent = np.concatenate([part.bytes for part in parts])[order]
    return Others(
        stream=stream[order[begins]],
        begin_ns=begin_ns[order[begins]],
        bytes=np.add.reduceat(sent, begins) if len(begins) else sent,
        streams=tuple(streams),
        stretch_ns=stretch_ns,
    )


def _made(
    table: type[TableT], columns: Mapping[str, npt.NDArray[Any]], order: I64, others: Mapping[str, Any]
) -> TableT:
    """The table with its rows in an order, and all its other fields."""
    is_in_order = bool((order[1:] > order[:-1]).all())
    fields: dict[str, Any] = {name: column if is_in_order else column[order] for name, column in columns.items()}
    if unknown := declared(table).keys() ^ {*fields, *others}:
        raise TypeError(f"{table.__name__}: no way to merge {sorted(unknown)}")
    return table(**fields, **others)


def call_order(first_frame: npt.NDArray[Any], xid: npt.NDArray[Any]) -> I64:
    """Rows of ops in the order of their calls. Calls of one frame are in that of their XIDs, which clients count up:
    parts of a capture may have them in that in which they ended. Some clients put the count on the wire in the byte
    order of their processor."""
    order = np.argsort(first_frame, kind="stable")
    frames = first_frame[order]
    tied = np.flatnonzero(frames[1:] == frames[:-1])
    if not len(tied):
        return order
    counts = min((xid, xid.byteswap()), key=lambda count: _step_between(count[order]))
    rows = np.unique(np.concatenate([tied, tied + 1]))
    order[rows] = order[rows][np.lexsort((counts[order[rows]], frames[rows]))]
    return order


def _step_between(count: npt.NDArray[Any]) -> float:
    """The median distance of neighbours."""
    return float(np.median(np.abs(np.diff(count.astype(np.int64)))))


def _order(keys: Sequence[npt.NDArray[Any]]) -> I64:
    """Rows by the first of `keys`, then by the next; else as they are."""
    return np.lexsort(list(reversed(keys))).astype(np.int64)


def _runs(keys: Sequence[npt.NDArray[Any]]) -> tuple[I64, I64]:
    """Rows in the order of `keys`, and which of them are the first with theirs."""
    order = _order(keys)
    ordered = np.stack([key[order] for key in keys])
    return order, np.flatnonzero(np.any(np.diff(ordered, axis=1, prepend=NULL), axis=0))


def led(column: npt.NDArray[Any], new_row: I64) -> npt.NDArray[Any]:
    """Row numbers of a part as those of all; null stays null. Where `new_row` is empty they are the same."""
    if not len(new_row):
        return column
    out: I64 = new_row[column]
    out[column == NULL] = NULL
    narrowed: npt.NDArray[Any] = out.astype(column.dtype)
    return narrowed


# --- Nothing is forgotten ---------------------------------------------------------------------------------------------


def dropped() -> list[str]:
    """Fields of `Details` that count rows which were not kept."""
    return [name for name, of in declared(Details).items() if of == "int"]


@functools.cache
def check() -> None:
    """Raise ``TypeError`` where a column may be a row number that nobody brings over."""
    for table, leads in LEADS.items():
        rows = {name for name, of in declared(table).items() if of in ("I32", "I16")}
        if not rows - _NO_ROWS <= leads.keys() <= set(table.columns()):
            raise TypeError(f"{table.__name__}: are these rows? {sorted((rows - _NO_ROWS) ^ leads.keys())}")
