"""One direction of a conversation -> the application's writes as bursts, and units that are sent in two."""

from __future__ import annotations

import numpy as np

from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.tcp.packets import PSH, AckKind, Packets
from nfslat.tcp.progress import Progress, Runs

SILENCE_NS = 30 * NS_PER_MS  # ends a burst: a remainder that waits for a delayed ACK is sent by itself
_LIMITS = tuple(1 << power for power in range(14, 23))  # from a TLS record (RFC 8446: 16 KB) to socket buffers
_SPILLS = 3  # as few may be chance
_SMALL = 8  # a remainder is so much smaller than the piece in front of it, or more


class Spill(Record):
    """Units that are sent in two: a large piece and a small remainder."""

    unit_bytes: int
    piece_bytes: int
    rest_bytes: int
    count: int
    limit_bytes: int | None  # the power of two that lies between piece and unit; None: none does
    use_at_most_bytes: int  # what is known to go out in one piece
    waited_ms: float  # between the two, in all
    waited_for_ack: int  # units whose remainder came behind an ACK of the piece


class Bursts(Record, eq=False):
    """In stream order; columns of one length."""

    bytes: I64
    first_row: I64
    last_row: I64
    is_whole: Bool  # no hole in it, or at its ends
    is_last: Bool  # the other side's turn comes next


def find_bursts(packets: Packets, new: Progress, stretches: Runs, mss: int | None) -> Bursts:
    rows = new.rows[np.argsort(packets.seq[new.rows], kind="stable")]
    seq, size = packets.seq[rows], packets.size[rows].astype(np.int64)
    ends = np.maximum.accumulate(seq + size)
    # What overlaps counts once.
    fresh = np.diff(ends, prepend=seq[:1])
    hole = np.zeros(len(rows), dtype=np.bool_)
    hole[1:] = seq[1:] > ends[:-1]
    fresh[hole] = size[hole]
    # The highest byte of each run is where the other side's turn begins.
    run = np.searchsorted(stretches.begin, np.searchsorted(stretches.rows, rows), side="right") - 1
    is_turn = np.ones(len(rows), dtype=np.bool_)
    is_turn[:-1] = run[1:] != run[:-1]
    # Linux pushes each packet of several segments (tcp_output.c, __tcp_transmit_skb), so a full one that is pushed ends
    # nothing; where it is not known what is full, a push is all that there is.
    closes = is_turn | (packets.flags[rows] & PSH != 0 if mss is None else size % mss != 0)
    closes[:-1] |= hole[1:]
    closes[:-1] |= packets.t_ns[rows[1:]] - packets.t_ns[rows[:-1]] > SILENCE_NS
    last = np.flatnonzero(closes)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    total = np.add.reduceat(fresh, first) if len(last) else fresh
    begins_whole = ~hole[first]
    ends_whole = np.append(~hole, True)[last + 1]
    return Bursts(total, rows[first], rows[last], begins_whole & ends_whole, is_turn[last])


def spills(packets: Packets, bursts: Bursts, direction: int, mss: int | None) -> tuple[Spill, ...]:
    """Pairs of a large piece and a small rest that come again and again."""
    at = np.flatnonzero(bursts.is_whole[:-1] & bursts.is_whole[1:] & ~bursts.is_last[:-1])
    large, small = bursts.bytes[at], bursts.bytes[at + 1]
    at = at[small * _SMALL <= large]
    pairs, which, counts = np.unique(
        np.column_stack([bursts.bytes[at], bursts.bytes[at + 1]]), axis=0, return_inverse=True, return_counts=True
    )
    out = []
    for number in np.flatnonzero(counts >= _SPILLS):
        piece, rest = (int(value) for value in pairs[number])
        # The piece hardly ever comes without the rest, else the rest is a message of its own.
        if counts[number] * 2 < np.count_nonzero(bursts.bytes == piece):
            continue
        here = at[np.ravel(which) == number]
        begin, end = bursts.last_row[here], bursts.first_row[here + 1]
        limit = next((power for power in _LIMITS if piece <= power < piece + rest), None)
        waited = packets.t_ns[end] - packets.t_ns[begin]
        acked = acked_between(packets, direction, begin, end)
        # TCP itself cuts a unit into full segments and a rest; that is no harm as long as the rest follows at once.
        is_cut = limit is not None and not (mss is not None and piece % mss == 0)
        if not is_cut and np.count_nonzero(acked & (waited > SILENCE_NS)) * 2 < len(here):
            continue
        out.append(
            Spill(
                piece + rest,
                piece,
                rest,
                len(here),
                limit,
                piece,
                to_ms(int(waited.sum())),
                int(np.count_nonzero(acked)),
            )
        )
    return tuple(sorted(out, key=lambda one: -one.count * one.unit_bytes))


def acked_between(packets: Packets, direction: int, begin: I64, end: I64) -> Bool:
    """Where an ACK without data that covers more came between two packets of `direction`."""
    acks = np.flatnonzero(
        (packets.direction != direction) & (packets.size == 0) & (packets.ack_kind == AckKind.ADVANCES)
    )
    return np.asarray(np.searchsorted(acks, end) > np.searchsorted(acks, begin), dtype=np.bool_)
