"""Calls of one capture that have no reply -> those that still waited for it when the capture ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.decoded import Decoded
from nfslat.model.details import Tcp, TcpEvent
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, State

LEAST_WAIT_NS = 1_000_000_000
_LEAST_SENDS_BY_UDP = 2  # else a reply that the capture lacks looks like none


class WaitingCalls(NamedTuple):
    """A row a call, in the order in which they were sent; `until_ns` is when the capture ended."""

    row: I64  # of `Decoded.loose`
    since_ns: I64
    last_sent_ns: I64  # by RPC
    sends: I64
    acked: Bool  # by the TCP of the server
    holed: Bool  # later data of the server came, and what is in front of them never did
    until_ns: int

    @property
    def age_ns(self) -> I64:
        """What each waited at the least."""
        return self.until_ns - self.since_ns

    def take(self, mask: Bool) -> WaitingCalls:
        """The calls that `mask` says."""
        row, since_ns, last_sent_ns, sends, acked, holed, until_ns = self
        numbers = row[mask], since_ns[mask], last_sent_ns[mask], sends[mask]
        return WaitingCalls(*numbers, acked[mask], holed[mask], until_ns)


def unread_until_ns(decoded: Decoded) -> I64:
    """By connection (times 2) and direction, when the last message came that cannot be read or is a reply to no call:
    `NULL` where there is none."""
    unread, loose = decoded.details.unread, decoded.loose
    newest_ns = np.full(2 * len(decoded.ops.connections), NULL)
    alone = loose.state == State.NO_CALL
    np.maximum.at(newest_ns, unread.conn.astype(np.int64) * 2 + unread.direction, unread.end_ns)
    np.maximum.at(newest_ns, loose.conn[alone].astype(np.int64) * 2 + loose.direction[alone], loose.first_ns[alone])
    return newest_ns


def waiting_calls(
    decoded: Decoded, until_ns: int, least_ns: int = LEAST_WAIT_NS, before_ns: I64 | None = None
) -> WaitingCalls:
    """Calls that were sent `least_ns` or longer before the capture ended, in either direction. `before_ns` is
    `unread_until_ns` of the blocks before, if there are any.

    A call whose reply the capture may just lack is left out: behind a hole that the client filled, a message that
    cannot be read, or a reply to no call; on a connection of which one direction alone was captured; by UDP, where it
    was not sent again, or a part of the reply came. So is a call that its client gave up: one that was not sent again
    on the connection that came next.
    """
    loose = decoded.loose
    is_open = (loose.state == State.NO_REPLY) & (loose.is_reply == 0) & (loose.first_ns <= until_ns - least_ns)
    rows = np.flatnonzero(is_open)
    sends, last_ns = _sent_again(decoded, rows)
    keep, acked, holed = np.zeros((3, len(rows)), dtype=np.bool_)
    for way in np.unique(loose.conn[rows].astype(np.int64) * 2 + loose.direction[rows]).tolist():
        conn, direction = way >> 1, way & 1
        at = np.flatnonzero((loose.conn[rows] == conn) & (loose.direction[rows] == direction))
        if loose.connections[conn].transport != "tcp":
            keep[at] = (sends[at] >= _LEAST_SENDS_BY_UDP) & ~_has_pieces(decoded, conn, 1 - direction, rows[at])
            continue
        began_ns, is_acked = _last_life(decoded.details.tcp, conn, direction)
        unread = decoded.details.unread
        of_replies = (unread.conn == conn) & (unread.direction == 1 - direction)
        never_came = _behind_a_hole(decoded, conn, 1 - direction, np.flatnonzero(of_replies))
        of_replies[never_came] = False
        without_call = (loose.state == State.NO_CALL) & (loose.conn == conn) & (loose.direction == 1 - direction)
        unread_ns = max(
            int(unread.end_ns[of_replies].max(initial=NULL)),
            int(loose.first_ns[without_call].max(initial=NULL)),
            NULL if before_ns is None or conn * 2 + 1 >= len(before_ns) else int(before_ns[conn * 2 + 1 - direction]),
        )
        keep[at] = (last_ns[at] >= began_ns) & (loose.first_ns[rows[at]] > unread_ns) if began_ns is not None else False
        acked[at], holed[at] = is_acked, len(never_came) > 0
    every = WaitingCalls(rows, loose.first_ns[rows], last_ns, sends, acked, holed, until_ns)
    return every.take(keep)


def _behind_a_hole(decoded: Decoded, conn: int, direction: int, rows: I64) -> I64:
    """The last stretch of the rows of `Details.unread` of one direction, where its receiver acknowledged nothing of it
    to the end: it has these bytes no more than the capture."""
    tcp, unread = decoded.details.tcp, decoded.details.unread
    of_it = np.flatnonzero((tcp.conn == conn) & (tcp.direction == direction))
    if not len(rows) or not len(of_it):
        return rows[:0]
    last = of_it[tcp.reconnect[of_it].argmax()]
    stretch = rows[np.flatnonzero(unread.begins[rows] == 1)[-1] :]
    is_last = int(unread.begin_ns[stretch[0]]) >= int(tcp.first_ns[last])
    missing = int(tcp.seq_span[last] - tcp.acked_span[last])
    return (
        stretch if is_last and tcp.acked_span[last] >= 0 and missing >= int(unread.bytes[stretch].sum()) else rows[:0]
    )


def _has_pieces(decoded: Decoded, conn: int, replies: int, rows: I64) -> Bool:
    """Mask of the calls of whose replies by UDP the capture shows a part: `replies` is their direction."""
    events = decoded.details.events
    pieces = (events.kind == TcpEvent.INCOMPLETE) & (events.conn == conn) & (events.direction == replies)
    return np.asarray(np.isin(decoded.loose.xid[rows], events.offset[pieces]))


def _sent_again(decoded: Decoded, rows: I64) -> tuple[I64, I64]:
    """How often each of the calls was sent, and when for the last time; also on a connection that came later."""
    loose = decoded.loose
    sends, last_ns = np.ones(len(rows), dtype=np.int64), loose.first_ns[rows].copy()
    again = (loose.state == State.RETRANSMITTED) & (loose.is_reply == 0) & (loose.op == NULL)

    def callers(of: I64) -> list[tuple[str, int]]:
        ways = zip(loose.conn[of].tolist(), loose.direction[of].tolist(), loose.xid[of].tolist(), strict=True)
        return [(loose.connections[conn].source(direction)[0], xid) for conn, direction, xid in ways]

    number = {caller: at for at, caller in enumerate(callers(rows))}
    of_them = np.flatnonzero(again & np.isin(loose.xid, loose.xid[rows]))
    for row, caller in zip(of_them.tolist(), callers(of_them), strict=True):
        if (at := number.get(caller)) is not None:
            sends[at] += 1
            last_ns[at] = max(last_ns[at], loose.first_ns[row])
    return sends, last_ns


def _last_life(tcp: Tcp, conn: int, direction: int) -> tuple[int | None, bool]:
    """When the last connection between these ends began, and whether all that was sent in `direction` on it was
    acknowledged; None where a reply on it may be none that the capture shows."""
    lives = tcp.reconnect[(tcp.conn == conn) & (tcp.data_packets > 0)]
    if not len(lives):
        return None, False
    of_it = (tcp.conn == conn) & (tcp.reconnect == lives.max())
    calls, replies = (np.flatnonzero(of_it & (tcp.direction == way)) for way in (direction, 1 - direction))
    if not len(calls) or not len(replies) or not tcp.packets[replies[0]]:
        return None, False
    if tcp.acked_span[replies[0]] > max(int(tcp.seq_span[replies[0]]), 0):
        return None, False
    is_acked = bool(tcp.acked_span[calls[0]] >= tcp.seq_span[calls[0]] >= 0)
    return int(tcp.first_ns[of_it].min()), is_acked
