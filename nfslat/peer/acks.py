"""The segments of two captures -> bare ACKs that are in both: instants of both clocks, where ops are few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.model.protocol import NULL32
from nfslat.model.segments import BACK, RST, SYN, Segments
from nfslat.model.tables import I64, Bool, Matched, Ops

Instants = tuple[I64, I64]  # on the server's clock and on the client's


def acks_of_both(
    server: Ops, client: Ops, matched: Matched, talks: tuple[Sequence[Segments], Sequence[Segments]]
) -> tuple[Instants, Instants]:
    """The client's ACKs of the connections of `matched`, and the server's, as each capture has them."""
    found: tuple[list[Instants], list[Instants]] = ([], [])
    seen = set()
    for s, c in zip(matched.server.tolist(), matched.client.tolist(), strict=True):
        there = [_place(talks[at], int(ops.call_first_frame[row])) for at, ops, row in ((0, server, s), (1, client, c))]
        (one, way_one), (other, way_other) = there
        if one is None or other is None or (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        for out, of_client in zip(found, (True, False), strict=True):
            out.append(_same(_bare(one, way_one, of_client=of_client), _bare(other, way_other, of_client=of_client)))
    return _joined(found[0]), _joined(found[1])


def _joined(parts: list[Instants]) -> Instants:
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *(one[0] for one in parts)]), np.concatenate([none, *(one[1] for one in parts)])


def _place(talks: Sequence[Segments], frame: int) -> tuple[Segments | None, int]:
    """The connection of a frame, and the direction in which that went."""
    for one in talks:
        row = int(np.searchsorted(one.frame, frame))
        if row < len(one) and one.frame[row] == frame:
            return one, int(one.marks[row] & BACK)
    return None, 0


def _bare(one: Segments, way: int, *, of_client: bool) -> Segments:
    """ACKs without data that one end sent, each the only one of its tick; calls go in the direction `way`."""
    wanted: Bool = ((one.marks & BACK) == way) == of_client
    wanted &= (one.size == 0) & (one.ack >= 0) & (one.ts_val != NULL32) & ((one.marks & (SYN | RST)) == 0)
    rows = np.flatnonzero(wanted)
    _, first, count = np.unique(one.ts_val[rows], return_index=True, return_counts=True)
    return one.take(rows[first[count == 1]])


def _same(one: Segments, other: Segments) -> Instants:
    """By their time stamps, and what they acknowledge, which the two captures may count from different bytes on."""
    _, a, b = np.intersect1d(one.ts_val, other.ts_val, return_indices=True)
    apart = one.ack[a] - other.ack[b]
    values, counts = np.unique(apart, return_counts=True)
    if not len(values):
        return apart, apart
    alike = apart == values[np.argmax(counts)]
    return one.t_ns[a[alike]], other.t_ns[b[alike]]
