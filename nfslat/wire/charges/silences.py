"""One side's pauses, as they were classified -> causes as ops are charged with them, and which way each was sent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.causes import CAUSES, LOSSES, WORDS, Cause, code
from nfslat.model.decoded import Decoded
from nfslat.model.details import Ended, Pauses, Tcp, TcpEvent, TcpEvents, Went
from nfslat.model.protocol import NULL
from nfslat.model.tables import I8, I64, Bool
from nfslat.wire.stalls import classify, with_windows

_NUMBERS = 1 << 32
_FAR_NS = 1 << 62
NOTHING = -1  # costs nobody anything, or the capture does not show what it was
# By the code of a stall.
_CHARGED = [NOTHING if (charge := WORDS[cause].charge) is None else code(charge) for cause in CAUSES]


class Silences(NamedTuple):
    """Pauses of one side with their causes; columns as long as `pauses`."""

    pauses: Pauses
    way: I64  # connection times 2, plus direction
    cause: I8  # `causes.code`, or `NOTHING`

    def only(self, mask: Bool) -> Silences:
        """Those that `mask` chooses."""
        return Silences(self.pauses.take(mask), self.way[mask], self.cause[mask])


def silences(side: Decoded, receiver: Decoded) -> Silences:
    """All pauses of the senders of a side; `receiver` is the other one.

    What was sent again although it had arrived was no loss: its sender waited for an ACK, which came late.
    """
    pauses, tcp = with_windows(side.details.pauses), side.details.tcp
    way = pauses.conn.astype(np.int64) * 2 + pauses.direction
    if not len(pauses):
        return Silences(pauses, way, np.zeros(0, dtype=np.int8))
    own, other = _rows_of(pauses, tcp)
    found = classify(
        pauses,
        rtt_min_ns=_known(tcp.rtt_min_ns, own),
        mss=_known(tcp.mss, other),
        sender_rtt_ns=_to_sender_ns(pauses, way, _known(tcp.rtt_min_ns, other)),
    )
    cause = _by_what_began_it(way, pauses.reconnect.astype(np.int64), np.array(_CHARGED, dtype=np.int8)[found], found)
    twice = arrived_again(receiver)
    lost = (pauses.went != Went.NEW) & ~np.isin(_keys_and_numbers(side, pauses)[1], twice)
    told = np.isin(cause, [code(one) for one in LOSSES])
    cause[told & ~lost] = code(Cause.CONGESTION_WINDOW)
    return Silences(pauses, way, cause)


def _to_sender_ns(pauses: Pauses, way: I64, rtt_ns: I64) -> I64:
    """For each pause the round trip from the capture to its sender: `rtt_ns`, or less.

    Data of the other side may never be acknowledged before the sender has something to say; then that is no round trip.
    But nobody goes on with a message sooner than an ACK gets there: the lower quartile of these times, to be sure that
    it did not go on by chance.
    """
    answers = np.isin(pauses.ended, (Ended.ACK, Ended.WINDOW)) & (pauses.went == Went.NEW) & (pauses.in_message == 1)
    ways, group = np.unique(way, return_inverse=True)
    rows = np.flatnonzero(answers)
    rows = rows[np.argsort(group[rows], kind="stable")]
    soonest = np.full(len(ways), _FAR_NS)
    begins = np.flatnonzero(np.diff(group[rows], prepend=-1))
    for of_way in np.split(rows, begins[1:]):
        if len(of_way):
            waits = pauses.end_ns[of_way] - pauses.heard_ns[of_way]
            soonest[group[of_way[0]]] = np.quantile(waits, 0.25, method="lower")
    return np.where(rtt_ns == NULL, NULL, np.minimum(rtt_ns, soonest[group]))


def held_acks_ns(of: Silences) -> I64:
    """How long the ACK was held in each pause that one ended; with the way there and back in it."""
    late = of.pauses.take(of.cause == code(Cause.DELAYED_ACK))
    return np.asarray(late.heard_ns - late.begin_ns, dtype=np.int64)


def arrived_again(side: Decoded) -> I64:
    """TCP sequence numbers at which segments began whose bytes this side had seen before."""
    return segments_of(side, TcpEvent.RETRANSMISSION).number


class CameAgain(NamedTuple):
    """Segments that were sent again although they had arrived, and arrived again."""

    sent_ns: I64  # sender's clock
    came_ns: I64  # receiver's clock
    frame: I64  # of the receiver's capture


def came_again(sender: Decoded, sender_ways: I64, receiver: Decoded, receiver_ways: I64) -> CameAgain:
    """Those of which every one that was sent came: of others nothing says which it was. By the TCP sequence numbers."""
    found = []
    for side, ways in ((sender, sender_ways), (receiver, receiver_ways)):
        again = segments_of(side, TcpEvent.RETRANSMISSION)
        rows = np.flatnonzero(np.isin(again.way, ways))
        order = rows[np.lexsort((again.t_ns[rows], again.number[rows]))]
        found.append((again.number[order], again.t_ns[order], again.frame[order]))
    (sent, sent_ns, _), (came, came_ns, frame) = found
    both = np.intersect1d(sent, came)
    both = both[(both >= 0) & (_counts(both, sent) == _counts(both, came))]
    there = np.isin(came, both)
    return CameAgain(sent_ns[np.isin(sent, both)], came_ns[there], frame[there])


def _counts(asked: I64, values: I64) -> I64:
    """How often each is among `values`, which are in order."""
    return np.searchsorted(values, asked, "right") - np.searchsorted(values, asked, "left")


class SegmentsOf(NamedTuple):
    """Segments that a side shows as one kind of event."""

    way: I64  # connection times 2, plus direction
    t_ns: I64
    number: I64  # first TCP sequence number; -1 where that is not known
    bytes: I64
    frame: I64


def segments_of(side: Decoded, kind: TcpEvent) -> SegmentsOf:
    """The rows of `kind`, in capture order."""
    events = side.details.events
    some = events.take(events.kind == kind)
    way = some.conn.astype(np.int64) * 2 + some.direction
    return SegmentsOf(way, some.t_ns, _keys_and_numbers(side, some)[1], some.value, some.frame.astype(np.int64))


def _keys_and_numbers(side: Decoded, table: Pauses | TcpEvents) -> tuple[I64, I64]:
    """For each row what says which row of `Tcp` it belongs to, and the TCP sequence number at its offset; -1 where that
    is not known."""
    tcp = side.details.tcp
    first = dict(zip(_keys(tcp).tolist(), tcp.first_seq.tolist(), strict=True))
    keys = _keys(table)
    number = np.array([first.get(key, NULL) for key in keys.tolist()], dtype=np.int64)
    known = (number != NULL) & (table.offset != NULL)
    return keys, np.where(known, (number + table.offset) % _NUMBERS, -1)


def _keys(table: Pauses | Tcp | TcpEvents) -> I64:
    return table.conn.astype(np.int64) << 33 | table.reconnect.astype(np.int64) << 1 | table.direction


def _by_what_began_it(way: I64, reconnect: I64, cause: I8, found: I8) -> I8:
    """What is sent again in a recovery goes by what began that: the loss in front of it, of the same direction."""
    follows = found == code(Cause.RECOVERY)
    losses = [code(one) for one in (Cause.RTO, Cause.TAIL_LOSS_PROBE, Cause.FAST_RETRANSMIT)]
    if not follows.any():
        return cause
    order = np.lexsort((np.arange(len(way)), reconnect, way))
    new = np.ones(len(way), dtype=np.bool_)
    new[1:] = (way[order][1:] != way[order][:-1]) | (reconnect[order][1:] != reconnect[order][:-1])
    begins = np.isin(found[order], losses)
    at = np.arange(len(way))
    last = np.maximum.accumulate(np.where(begins, at, -1))
    since = np.maximum.accumulate(np.where(new, at, 0))
    out = cause.copy()
    told = follows[order] & (last >= since)
    out[order[told]] = cause[order[last[told]]]
    return out


def _rows_of(pauses: Pauses, tcp: Tcp) -> tuple[I64, I64]:
    """For each pause the row of `Tcp` of its direction, and of the other one; NULL where there is none."""

    order = np.argsort(_keys(tcp), kind="stable")
    known = _keys(tcp)[order]
    out = []
    for asked in (_keys(pauses), _keys(pauses) ^ 1):
        at = np.minimum(np.searchsorted(known, asked), max(len(known) - 1, 0))
        out.append(np.where(known[at] == asked, order[at], NULL) if len(known) else np.full(len(asked), NULL))
    return out[0], out[1]


def _known(column: I64, rows: I64) -> I64:
    return np.where(rows == NULL, NULL, column[np.maximum(rows, 0)]) if len(column) else np.full(len(rows), NULL)
