"""The segments of a TCP connection as one host saw them -> what the other host sent: arrivals, time stamps, ACKs.

`near` is the host of the capture, `far` the other one. Every segment of far carries far's clock (TSval, RFC 7323
section 3.2), in ticks, from the offset that far's kernel gave the connection.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from nfslat.kernels.heard import Heard, Said, heard, places
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.segments import BACK, RST, SYN, Segments
from nfslat.model.tables import I32, I64

_NS = 1_000_000_000
# Ticks of clocks that send time stamps: Linux 1 ms (10 ms and 4 ms before 4.13), 1 us with `tcp_usec_ts`; BSDs 1 or 10
# ms, Windows 1 ms or 100 ms (RFC 7323 section 5.4: between 1 ms and 1 s).
TICKS_NS = np.array([1_000, 1_000_000, 2_000_000, 4_000_000, 10_000_000, 100_000_000, 500_000_000, _NS])
_NEAR_A_TICK = 0.08  # from it, as a part of it
_LEAST_SPAN = 25  # ticks that a clock must go on for its length to be told
_STAMPED, _OUT_OF_ORDER = 0.5, 0.2  # of far's segments: more than, and at most
_STILL_NS = 2 * _NS  # twice the longest tick
_PIECES = 32  # of a connection, of which the usual rate counts: a clock may have been set in one of them


class Exchange(NamedTuple):
    """A TCP connection: what far sent, and what near did. `tick_ns` is None where the stamps do not tell."""

    frame: I32  # of all segments, in order, with `place`
    place: I32  # as `nfslat.kernels.heard.heard` has it
    heard: Heard
    said: Said
    is_stamped: bool  # else far's segments are in the order in which they arrived, with ticks that mean nothing
    tick_ns: int | None
    opened_ns: int | None  # from the SYN to its answer (or from that to the ACK of it, at the host that answered)
    opened_at_ns: int | None  # when that answer came

    def heard_in(self, frame: I32) -> I64:
        """The row in `heard` of each frame; NULL where it is none of these."""
        return np.maximum(self._place_of(frame), NULL)

    def said_in(self, frame: I32) -> I64:
        """The row in `said` of each frame; NULL where it is none of these."""
        return np.maximum(-2 - self._place_of(frame), NULL)

    def _place_of(self, frame: I32) -> I64:
        at = np.minimum(places(self.frame, frame), len(self.frame) - 1)
        return np.where(self.frame[at] == frame, self.place[at], NULL).astype(np.int64)


def exchange(rows: Segments, near: int) -> Exchange:
    """`near` is the direction in which the host of the capture sends."""
    is_stamped = _is_stamped(rows, near)
    if not is_stamped:
        rows = dataclasses.replace(rows, ts_val=np.zeros(len(rows), dtype=np.uint32))
    of_far, said, place = heard(rows, near)
    tick_ns = tick_of(of_far.t_ns, of_far.ticks) if is_stamped else None
    return Exchange(
        rows.frame, place, of_far, said, is_stamped, tick_ns, _opened_ns(rows, near), _opened_at_ns(rows, near)
    )


def _is_stamped(rows: Segments, near: int) -> bool:
    """Do the time stamps of far go on, as a clock does? Some boxes on the way strip them, or write over them."""
    of_far = np.flatnonzero(((rows.marks & BACK) != near) & ((rows.marks & (SYN | RST)) == 0))
    told = of_far[rows.ts_val[of_far] != NULL32]
    if len(told) <= _STAMPED * len(of_far):
        return False
    stamps = rows.ts_val[told]
    if stamps.min() == stamps.max():
        return bool(stamps[0] > 0 and np.ptp(rows.t_ns[told]) <= _STILL_NS)
    goes_back = np.count_nonzero(np.diff(stamps).view(np.int32) < 0)
    return bool(goes_back <= _OUT_OF_ORDER * len(stamps))


def tick_of(t_ns: I64, ticks: I64) -> int | None:
    """How long a tick is, ns: the known length by which a clock goes on in most pieces of the connection."""
    if len(ticks) < 2 or ticks[-1] - ticks[0] < _LEAST_SPAN:
        return None
    cuts = np.unique(np.searchsorted(ticks, np.linspace(ticks[0], ticks[-1], _PIECES + 1)))
    cuts = np.unique(np.concatenate([[0], np.minimum(cuts, len(ticks) - 1), [len(ticks) - 1]]))
    went, took = np.diff(ticks[cuts]), np.diff(t_ns[cuts])
    told = (went > 0) & (took > 0)
    if not told.any():
        return None
    rates, weights = took[told] / went[told], went[told]
    order = np.argsort(rates)
    rate = float(rates[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)])
    tick = int(TICKS_NS[np.argmin(np.abs(np.log(TICKS_NS / rate)))])
    return tick if abs(rate / tick - 1) < _NEAR_A_TICK else None


def _opened_ns(rows: Segments, near: int) -> int | None:
    sent, answered = _opening(rows, near)
    return None if answered is None else int(rows.t_ns[answered] - rows.t_ns[sent])


def _opened_at_ns(rows: Segments, near: int) -> int | None:
    _, answered = _opening(rows, near)
    return None if answered is None else int(rows.t_ns[answered])


def _opening(rows: Segments, near: int) -> tuple[int, int | None]:
    """Rows of the SYN of near and of its answer; None where there is none, or nobody knows to which it is."""
    ours = np.flatnonzero((rows.marks & (SYN | BACK)) == SYN | near)
    if len(ours) != 1:  # of SYNs that were sent again nobody knows which was answered
        return NULL, None
    answers = np.flatnonzero(((rows.marks[ours[0] :] & BACK) != near) & (rows.ack[ours[0] :] >= 0)) + ours[0]
    return int(ours[0]), int(answers[0]) if len(answers) else None
