"""Subflows of MPTCP connections (RFC 8684; version 0: RFC 6824) and their DSS options -> which subflows are of one
connection, and how much of that its receiver took at each packet.

A window counts from the connection's DATA_ACK, and is one for all subflows; a subflow's own acknowledgements say
nothing of it. Positions are bytes of the connection, from any one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I8, I32, I64, U8, U32, Bool, Table

# Bits of `Signals.has`.
DATA_ACK, MAPPING, FIRST = 1, 2, 4
_FROM = 1 << 40  # so that positions in front of what was seen first are not negative


@dataclass(frozen=True, eq=False, repr=False)
class Signals(Table):
    """One row a packet with a DSS option, in capture order; numbers are the low 32 bits."""

    row: I32  # of `Packets`
    has: U8
    ack: U32  # the DATA_ACK
    seq: U32  # of the first byte that is mapped; with FIRST it is the connection's first
    start: U32  # where that is in the subflow: 1 is its first byte
    size: I32  # bytes that are mapped


class Subflow(NamedTuple):
    """What the handshake says of the connection that a conversation is a subflow of."""

    version: int | None  # of MP_CAPABLE; None: a MP_JOIN, or not captured
    keys: tuple[int | None, int | None]  # of the senders of both directions
    joins: tuple[int, int] | None  # of a MP_JOIN: direction of its SYN, token of who it was sent to


class Member(NamedTuple):
    """A subflow of a connection."""

    row: int  # of the conversations
    is_turned: bool  # its direction 0 is direction 1 of the connection's first subflow


def token(version: int, key: int) -> int:
    """What a MP_JOIN names the connection by (section 3.2)."""
    return int.from_bytes(_digest(version, key)[:4])


def first_byte(version: int, key: int) -> int:
    """The low 32 bits of the number of the first byte that the owner of `key` sends."""
    return (int.from_bytes(_digest(version, key)[-4:]) + 1) % (1 << 32)


def _digest(version: int, key: int) -> bytes:
    new = hashlib.sha256 if version else hashlib.sha1
    return new(key.to_bytes(8), usedforsecurity=False).digest()


def connections(subflows: Sequence[Subflow | None]) -> list[list[Member]]:
    """The connections whose MP_CAPABLE was captured, each with its subflows, that one first."""
    found: dict[int, list[Member]] = {}
    owners: dict[int, list[tuple[int, int]]] = {}
    for row, one in enumerate(subflows):
        if one is not None and one.version is not None and any(key is not None for key in one.keys):
            found[row] = [Member(row, is_turned=False)]
            for way, key in enumerate(one.keys):
                if key is not None:
                    owners.setdefault(token(one.version, key), []).append((row, way))
    for row, one in enumerate(subflows):
        if one is not None and one.joins is not None and row not in found:
            direction, wanted = one.joins
            if len(known := owners.get(wanted, [])) == 1:
                first, way = known[0]
                found[first].append(Member(row, is_turned=(way == 0) == (direction == 0)))
    return list(found.values())


class Flow(NamedTuple):
    """The packets of one subflow, with what their options say; directions are those of one of them all."""

    direction: I8
    t_ns: I64
    frame: I32
    seq: I64
    size: I32
    window: I64  # bytes; NULL: the scale is not known
    saw_syn: tuple[bool, bool]
    signals: Signals  # rows are those of these packets
    first: tuple[int | None, int | None]  # `first_byte` of either direction


class Level(Record, eq=False):
    """One subflow in its connection; columns are of its packets, or pairs by direction of data."""

    acked: I64  # position that the DATA_ACK covers; NULL: it has none
    is_current: Bool  # no DATA_ACK in front of it, of any subflow, covers more
    is_shut: Bool  # of those that are current: it announces no window, and nothing is left of what was offered before
    edge: tuple[I64, I64]  # behind the last byte that the receiver lets through by then; NULL: not known
    sent: tuple[I64, I64]  # behind the highest byte that was sent by then, by any subflow
    opened_ns: tuple[I64, I64]  # packets of other subflows that announce an open window
    opened_frame: tuple[I64, I64]

    def room(self, direction: int, rows: I64 | slice, until: I64 | slice | None = None) -> I64:
        """Bytes that the receiver takes, as was said by packets `rows`, beyond what was sent by packets `until`, or by
        the same; NULL: not known."""
        edge, sent = self.edge[direction][rows], self.sent[direction][rows if until is None else until]
        return np.where(edge == NULL, NULL, np.maximum(edge - sent, 0))


def level(flows: Sequence[Flow], own: int) -> Level:
    """What is known of flow `own` among all `flows` of the connection. The room is known where all that was
    acknowledged was seen to be sent: else a subflow is not in the capture."""
    packets = flows[own]
    rows = len(packets.t_ns)
    acked = np.full(rows, NULL, dtype=np.int64)
    edges, highest = np.full((2, rows), NULL, dtype=np.int64), np.full((2, rows), NULL, dtype=np.int64)
    is_current, is_shut = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    opened = []
    for way in (0, 1):
        said, sent = _said(flows, 1 - way), _sent(flows, way)
        position = _unwrapped(np.concatenate([said.number, sent.number]), np.concatenate([said.frame, sent.frame]))
        ack, begin = np.split(position, [len(said.number)])
        current = ack >= np.maximum.accumulate(ack) if len(ack) else np.zeros(0, dtype=np.bool_)
        mine = said.flow == own
        acked[said.at[mine]], is_current[said.at[mine]] = ack[mine], current[mine]
        # What was offered stays offered (section 3.3.5), whichever subflow brings less of a window next.
        offered = np.maximum.accumulate(np.where(said.amount == NULL, NULL, ack + said.amount))
        is_shut[said.at[mine]] = (current & (said.amount == 0) & (offered <= ack))[mine]
        elsewhere = ~mine & current & (offered > ack)
        opened.append((said.t_ns[elsewhere], said.frame[elsewhere]))
        if len(ack) and _is_whole(flows, sent, begin, way, ack):
            offered[np.logical_or.accumulate(said.amount == NULL)] = NULL
            last = np.searchsorted(said.frame, packets.frame, side="right") - 1
            edges[way, last >= 0] = offered[last[last >= 0]]
            high = np.append(np.maximum.accumulate(begin + sent.amount), ack[0])
            highest[way] = high[np.searchsorted(sent.frame, packets.frame, side="right") - 1]
    (of_there, frame_of_there), (of_back, frame_of_back) = opened
    return Level(
        acked=acked,
        is_current=is_current,
        is_shut=is_shut,
        edge=(edges[0], edges[1]),
        sent=(highest[0], highest[1]),
        opened_ns=(of_there, of_back),
        opened_frame=(frame_of_there, frame_of_back),
    )


class _Numbers(NamedTuple):
    """Packets of all subflows with a number of the connection, in the order of their frames."""

    flow: I64
    at: I64  # row of the flow
    t_ns: I64
    frame: I64
    number: I64
    amount: I64  # bytes behind the number: of payload, or of the window


def _ordered(parts: list[_Numbers]) -> _Numbers:
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[3], kind="stable")
    return _Numbers(*(column[order] for column in columns))


def _said(flows: Sequence[Flow], way: int) -> _Numbers:
    """DATA_ACKs that are sent in a direction, with the windows beside them."""
    parts = []
    for number, flow in enumerate(flows):
        rows = np.flatnonzero((flow.signals.has & DATA_ACK > 0) & (flow.direction[flow.signals.row] == way))
        at = flow.signals.row[rows].astype(np.int64)
        frame, ack = (column.astype(np.int64) for column in (flow.frame[at], flow.signals.ack[rows]))
        parts.append(_Numbers(np.full(len(at), number), at, flow.t_ns[at], frame, ack, flow.window[at]))
    return _ordered(parts)


def _sent(flows: Sequence[Flow], way: int) -> _Numbers:
    """Packets with payload of a direction that a mapping says the number of."""
    parts = []
    for number, flow in enumerate(flows):
        at, begin = _mapped(flow, way)
        frame, size = flow.frame[at].astype(np.int64), flow.size[at].astype(np.int64)
        parts.append(_Numbers(np.full(len(at), number), at, flow.t_ns[at], frame, begin, size))
    return _ordered(parts)


def _mapped(flow: Flow, way: int) -> tuple[I64, I64]:
    """Rows with payload, and the numbers of their first bytes: a mapping may be of several packets."""
    signals, rows = flow.signals, flow.signals.row
    has = (signals.has & MAPPING > 0) & (flow.direction[rows] == way) & (flow.size[rows] > 0) & (signals.size > 0)
    is_first = signals.has & FIRST > 0
    first = flow.first[way]
    said = np.flatnonzero(has & ~is_first if first is None else has)
    data = np.flatnonzero((flow.direction == way) & (flow.size > 0))
    if not len(said):
        return data[:0], data[:0]
    seq = np.where(is_first[said], first or 0, signals.seq[said].astype(np.int64))
    # Where the mapping begins: at the packet, or in front of it. Without the SYN the first byte's place is not known.
    at, start = flow.seq[rows[said]], signals.start[said].astype(np.int64) - 1
    ahead = (at - start).astype(np.int32)
    if not flow.saw_syn[way]:
        ahead -= ahead.min()
    begin = at - np.maximum(ahead, 0)
    order = np.argsort(begin, kind="stable")
    begin, seq, size = begin[order], seq[order], signals.size[said][order]
    place = np.searchsorted(begin, flow.seq[data], side="right") - 1
    beyond = flow.seq[data] - begin[place]
    known = (place >= 0) & (beyond + flow.size[data] <= size[place])
    return data[known], (seq[place] + beyond)[known] % (1 << 32)


def _unwrapped(numbers: I64, frames: I64) -> I64:
    """Positions: no two that follow each other are further apart than 2^31."""
    order = np.argsort(frames, kind="stable")
    steps = np.diff(numbers[order]).astype(np.uint32).astype(np.int32).astype(np.int64)
    out = np.empty(len(numbers), dtype=np.int64)
    out[order] = _FROM + np.cumsum(np.concatenate([[0], steps]))[: len(numbers)]
    return out


def _is_whole(flows: Sequence[Flow], sent: _Numbers, begin: I64, way: int, ack: I64) -> bool:
    """Was all that was acknowledged seen, from the first number on, and is all payload mapped?"""
    data = sum(int(np.count_nonzero((flow.direction == way) & (flow.size > 0))) for flow in flows)
    if data != len(begin):
        return False
    order = np.argsort(begin, kind="stable")
    ends = np.maximum.accumulate((begin + sent.amount)[order])
    # A DATA_FIN has a number, too.
    has_all = ack.max() <= ends[-1] + 1 if data else ack.max() <= ack.min() + 1
    return bool((begin[order][1:] <= ends[:-1]).all() and has_all)
