"""The segments of a connection -> what far sent, by its own clock, and what near sent; and values -> their places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.record import Record
from nfslat.model.segments import Segments
from nfslat.model.tables import I32, I64, Bool


class Heard(Record):
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
    columns = (rows.t_ns, rows.seq, rows.size, rows.ack, rows.ts_val, rows.marks)
    (t_ns, ticks, ack, seq, size, twice), said, place = native.heard(columns, near)
    sent_ns, end, again = said
    of_heard = Heard(t_ns, ticks, ack, seq, size, twice.view(np.bool_))
    return of_heard, Said(sent_ns, end, again.view(np.bool_)), place


def places(ascending: I32 | I64, wanted: I32 | I64) -> I64:
    """In front of which row of `ascending` each of `wanted` would stand, which is quick where these go up, too."""
    return np.asarray(native.places(ascending, wanted))
