"""A row of `Hangs` and the capture at the other end -> how many of its tries arrived there, and whether data were
acknowledged there.

Each try but the first has a row of `Pauses` in both captures; TCP sequence numbers say which bytes are the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from nfslat.model.decoded import Decoded
from nfslat.model.details import Awaits, Pauses, TcpEvent, Went
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Bool
from nfslat.wire.hanging import until
from nfslat.wire.transport import apart

_NEAR = 1 << 30  # bytes; sequence numbers this far apart were rewritten on the way


class Arrival(NamedTuple):
    """What of the tries of a row of `Hangs` the other capture shows."""

    tries: int  # while it ran
    arrived: int  # of them
    acked: bool  # it shows that the first byte was acknowledged which, to the one who waits, is not


class AtOneEnd:
    """One capture, or a part of it, what TCP did there by connection, and from when to when the capture ran."""

    def __init__(self, side: Decoded, ran_ns: tuple[int, int]) -> None:
        self.side, self.ran_ns = side, ran_ns
        self.is_whole = not (side.details.pauses_dropped or side.details.events_dropped)

    @cached_property
    def _of_pauses(self) -> I64:
        return np.argsort(self.side.details.pauses.conn, kind="stable")

    @cached_property
    def _of_events(self) -> I64:
        return np.argsort(self.side.details.events.conn, kind="stable")

    def times(self, row: int) -> I64:
        """When each try of a row of `Hangs` went by."""
        hangs = self.side.details.hangs
        pauses = self._pauses(int(hangs.conn[row]), int(hangs.reconnect[row]), int(hangs.direction[row]))
        since_ns, at = int(hangs.since_ns[row]), int(hangs.offset[row])
        is_ack = hangs.awaits[row] == Awaits.ACK
        again = _covers(pauses, at, Went.REPEATED) if is_ack else _probes(pauses)
        again &= (pauses.end_ns > since_ns) & (pauses.end_ns <= until(self.side, row, self.ran_ns[1]))
        return np.concatenate([np.full(int(is_ack), since_ns, dtype=np.int64), pauses.end_ns[again]])

    def row(self, conn: int, reconnect: int, direction: int) -> int | None:
        """Of `Tcp`; None where no byte of it is known."""
        tcp = self.side.details.tcp
        rows = np.flatnonzero((tcp.conn == conn) & (tcp.reconnect == reconnect) & (tcp.direction == direction))
        return int(rows[0]) if len(rows) and tcp.first_seq[rows[0]] != NULL else None

    def probes(self, row: int, since_ns: int) -> int:
        """How many packets of a row of `Tcp` went by for which a shut window had no room."""
        pauses = self._pauses(*self._key(row))
        return int(np.count_nonzero(_probes(pauses) & (pauses.end_ns >= since_ns)))

    def sights(self, row: int, at: int) -> int:
        """How often the byte at a position in a row of `Tcp` went by."""
        conn, reconnect, direction = self._key(row)
        pauses = self._pauses(conn, reconnect, direction)
        again, late = (int(np.count_nonzero(_covers(pauses, at, went))) for went in (Went.REPEATED, Went.LATE))
        if late:
            return again + 1
        events = self.side.details.events
        events = events.take(_rows(self._of_events, events.conn, conn))
        events = events.take((events.reconnect == reconnect) & (events.direction == direction))
        is_hole = (events.kind == TcpEvent.GAP) & (events.offset > at) & (events.offset - events.value <= at)
        is_missing = at >= self.side.details.tcp.seq_span[row] or bool(is_hole.any())
        return again + (not is_missing)

    def _key(self, row: int) -> tuple[int, int, int]:
        tcp = self.side.details.tcp
        return int(tcp.conn[row]), int(tcp.reconnect[row]), int(tcp.direction[row])

    def _pauses(self, conn: int, reconnect: int, direction: int) -> Pauses:
        pauses = self.side.details.pauses
        pauses = pauses.take(_rows(self._of_pauses, pauses.conn, conn))
        return pauses.take((pauses.reconnect == reconnect) & (pauses.direction == direction))


def arrival(own: AtOneEnd, row: int, other: AtOneEnd, way: tuple[int, int] | None, ahead_ns: int) -> Arrival | None:
    """`way` is connection and direction in the other capture; None: it shows both hosts, and nothing of the connection.
    Its clock is ahead of the own one by so much.

    None where it is not known: it did not run, numbers were rewritten, or more happened than is kept.
    """
    hangs = own.side.details.hangs
    times_ns = own.times(row) + ahead_ns
    tries = int(np.count_nonzero((times_ns >= other.ran_ns[0]) & (times_ns <= other.ran_ns[1])))
    if not (own.is_whole and other.is_whole and tries):
        return None
    if way is None:
        return Arrival(tries, 0, acked=False)
    mine = own.row(int(hangs.conn[row]), int(hangs.reconnect[row]), int(hangs.direction[row]))
    theirs = None if mine is None else _same(own.side, mine, other.side, way)
    if mine is None or theirs is None or hangs.offset[row] == NULL:
        return None
    tcp = other.side.details.tcp
    at = int(hangs.offset[row]) - int(apart(tcp.first_seq[[theirs]], own.side.details.tcp.first_seq[[mine]])[0])
    if at < 0:
        return None
    is_ack = hangs.awaits[row] == Awaits.ACK
    arrived = other.sights(theirs, at) if is_ack else other.probes(theirs, int(hangs.since_ns[row]) + ahead_ns)
    return Arrival(tries, min(arrived, tries), bool(tcp.acked_span[theirs] > at))


def _same(own: Decoded, mine: int, other: Decoded, way: tuple[int, int]) -> int | None:
    """Which row of the other's `Tcp` has the same bytes as the own one."""
    tcp, of_own = other.details.tcp, own.details.tcp
    rows = np.flatnonzero((tcp.conn == way[0]) & (tcp.direction == way[1]) & (tcp.first_seq != NULL))
    shift = apart(tcp.first_seq[rows], of_own.first_seq[[mine]])
    meets = (shift <= of_own.seq_span[mine]) & (shift + tcp.seq_span[rows] >= 0) & (np.abs(shift) < _NEAR)
    return int(rows[meets][0]) if np.count_nonzero(meets) == 1 else None


def _rows(order: I64, column: I32, value: int) -> I64:
    """Rows that have a value, of a column that `order` sorts."""
    begin, end = np.searchsorted(column, [value, value + 1], sorter=order)
    return order[begin:end]


def _probes(pauses: Pauses) -> Bool:
    again = np.isin(pauses.went, (Went.REPEATED, Went.LATE)) & (pauses.window_end == 0)
    return np.asarray((pauses.went == Went.PROBE) | again)


def _covers(pauses: Pauses, at: int, went: Went) -> Bool:
    is_there = (pauses.offset <= at) & (pauses.offset + pauses.size > at) & (pauses.offset != NULL)
    return np.asarray((pauses.went == went) & is_there)
