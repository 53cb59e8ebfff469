"""The segments of a connection -> what far sent, by its own clock, and what near sent; and values -> their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nfslat.kernels import compiled
from nfslat.model.protocol import NULL32
from nfslat.model.segments import AGAIN, BACK, RST, SYN, TWICE, Segments
from nfslat.model.tables import I32, I64, U32, Bool

_WRAP = 1 << 32


@dataclass(frozen=True)
class Heard:
    """Segments of far with time stamps, in the order in which far sent them (by TSval), without SYN and RST."""

    t_ns: I64  # arrival
    ticks: I64  # TSval, unwrapped, from 0
    ack: I64  # highest byte of near that was acknowledged so far; 0 at first
    seq: I64
    size: I32
    twice: Bool  # says that what it acknowledges had come before (RFC 2883)

    def __len__(self) -> int:
        return len(self.t_ns)


class Said(NamedTuple):
    """Segments of near with payload, in capture order."""

    t_ns: I64
    end: I64  # position behind their last byte
    again: Bool  # sent before


def heard(rows: Segments, near: int) -> tuple[Heard, Said, I32]:
    """`near` is the direction in which the host of the capture sends. Also of each segment: its row in `Heard`, or
    -2 less its row in `Said`, or -1."""
    if compiled.native is None:
        return heard_by_numpy(rows, near)
    columns = (rows.t_ns, rows.seq, rows.size, rows.ack, rows.ts_val, rows.marks)
    (t_ns, ticks, ack, seq, size, twice), said, place = compiled.native.heard(columns, near)
    sent_ns, end, again = said
    of_heard = Heard(t_ns, ticks, ack, seq, size, twice.view(np.bool_))
    return of_heard, Said(sent_ns, end, again.view(np.bool_)), place


def heard_by_numpy(rows: Segments, near: int) -> tuple[Heard, Said, I32]:
    """`heard` without the compiled kernel."""
    of_far = (rows.marks & BACK) != near
    wanted = np.flatnonzero(of_far & (rows.ts_val != NULL32) & ((rows.marks & (SYN | RST)) == 0))
    ticks = unwrapped(rows.ts_val[wanted])
    order = np.argsort(ticks, kind="stable")
    by_far = wanted[order]
    acks = np.maximum(rows.ack[by_far], 0)
    of_heard = Heard(
        rows.t_ns[by_far],
        ticks[order],
        np.maximum.accumulate(acks) if len(acks) else acks,
        rows.seq[by_far],
        rows.size[by_far],
        (rows.marks[by_far] & TWICE) > 0,
    )
    sent = np.flatnonzero(~of_far & (rows.size > 0) & ((rows.marks & RST) == 0))
    said = Said(rows.t_ns[sent], rows.seq[sent] + rows.size[sent], (rows.marks[sent] & AGAIN) > 0)
    place = np.full(len(rows), -1, dtype=np.int32)
    place[by_far] = np.arange(len(by_far))
    place[sent] = -2 - np.arange(len(sent))
    return of_heard, said, place


def unwrapped(values: U32) -> I64:
    """TSvals, which count modulo 2^32, from the least of them on (RFC 7323 section 5.2)."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    steps = np.diff(values.astype(np.int64))
    steps = np.mod(steps + _WRAP // 2, _WRAP) - _WRAP // 2
    ticks = np.concatenate([[0], np.cumsum(steps)])
    return np.asarray(ticks - ticks.min(), dtype=np.int64)


def places(ascending: I32 | I64, wanted: I32 | I64) -> I64:
    """In front of which row of `ascending` each of `wanted` would stand, which is quick where these go up, too."""
    if compiled.native is None:
        return np.searchsorted(ascending, wanted).astype(np.int64)
    return np.asarray(compiled.native.places(ascending, wanted))
