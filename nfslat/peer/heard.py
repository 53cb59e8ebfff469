"""The packets of a TCP connection as one host saw them -> what the other host sent: arrivals, time stamps, ACKs.

`near` is the host of the capture, `far` the other one. Every segment of far carries far's clock (TSval, RFC 7323
section 3.2), in ticks, from the offset that far's kernel gave the connection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.decode.segments import AGAIN, RST, SYN, Segments
from nfslat.model.blocks import side_by_side
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import I32, I64, U32, Bool

_NS = 1_000_000_000
_WRAP = 1 << 32
# Ticks of clocks that send time stamps: Linux 1 ms (10 ms and 4 ms before 4.13), 1 us with `tcp_usec_ts`; BSDs 1 or 10
# ms, Windows 1 ms or 100 ms (RFC 7323 section 5.4: between 1 ms and 1 s).
TICKS_NS = np.array([1_000, 1_000_000, 2_000_000, 4_000_000, 10_000_000, 100_000_000, 500_000_000, _NS])
_NEAR_A_TICK = 0.08  # from it, as a part of it
_LEAST_SPAN = 25  # ticks that a clock must go on for its length to be told
_PIECES = 32  # of a connection, of which the usual rate counts: a clock may have been set in one of them


@dataclass(frozen=True)
class Heard:
    """Segments of far with time stamps, in the order in which far sent them (by TSval), without SYN and RST."""

    frame: I32  # in the order of arrival, with `place`
    place: I64  # of each `frame`: its row here
    t_ns: I64  # arrival
    ticks: I64  # TSval, unwrapped, from 0
    ack: I64  # highest byte of near that was acknowledged so far; 0 at first
    seq: I64
    size: I32
    twice: Bool  # says that what it acknowledges had come before (RFC 2883)

    def __len__(self) -> int:
        return len(self.t_ns)

    def rows_of(self, frame: I32 | I64) -> I64:
        """The row of each frame; NULL where it is none of these."""
        if not len(self.frame):
            return np.full(len(frame), NULL)
        at = np.minimum(np.searchsorted(self.frame, frame), len(self.frame) - 1)
        return np.where(self.frame[at] == frame, self.place[at], NULL)


@dataclass(frozen=True)
class Said:
    """Segments of near with payload, in capture order."""

    frame: I32
    t_ns: I64
    end: I64  # position behind their last byte
    again: Bool  # sent before

    def first_sent(self, position: I64) -> I64:
        """When the segment that ends at, or first behind, each position was sent first; NULL where none was seen."""
        order = np.argsort(self.end[~self.again], kind="stable")
        ends, times = self.end[~self.again][order], self.t_ns[~self.again][order]
        at = np.searchsorted(ends, position, side="left")
        out = np.full(len(position), NULL, dtype=np.int64)
        out[at < len(ends)] = times[at[at < len(ends)]]
        return out


@dataclass(frozen=True)
class Exchange:
    """A TCP connection: what far sent, and what near did. `tick_ns` is None where the stamps do not tell."""

    heard: Heard
    said: Said
    tick_ns: int | None
    opened_ns: int | None  # from the SYN to its answer (or from that to the ACK of it, at the host that answered)


def exchanges(packets: Segments, near: dict[int, int]) -> dict[int, Exchange]:
    """Each conversation of `near`, which has the direction in which the host of the capture sends."""
    count = int(packets.conversation.max(initial=-1)) + 1
    order, spans = side_by_side(len(packets), count, lambda at: packets.conversation[at])
    return {one: exchange(packets.take(order[spans[one]]), direction) for one, direction in near.items()}


def exchange(packets: Segments, near: int) -> Exchange:
    """`packets` of one conversation, in capture order."""
    of_far = packets.direction != near
    stamped = packets.ts_val != NULL32
    of_syn, of_rst = (packets.flags & SYN) != 0, (packets.flags & RST) != 0
    rows = np.flatnonzero(of_far & stamped & ~of_syn & ~of_rst)
    t_ns, ticks = packets.t_ns[rows], unwrapped(packets.ts_val[rows])
    order = np.argsort(ticks, kind="stable")
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.arange(len(rows))
    by_far = rows[order]
    heard = Heard(
        packets.frame[rows],
        place,
        t_ns[order],
        ticks[order],
        np.maximum.accumulate(np.maximum(packets.ack[by_far], 0)) if len(rows) else packets.ack[by_far],
        packets.seq[by_far],
        packets.size[by_far],
        packets.is_dsack[by_far] == 1,
    )
    sent = np.flatnonzero(~of_far & (packets.size > 0) & ~of_rst)
    again = np.isin(packets.kind[sent], AGAIN)
    said = Said(packets.frame[sent], packets.t_ns[sent], packets.seq[sent] + packets.size[sent], again)
    return Exchange(heard, said, tick_of(heard.t_ns, heard.ticks), _opened_ns(packets, of_far, of_syn))


def unwrapped(values: U32) -> I64:
    """TSvals, which count modulo 2^32, from the least of them on (RFC 7323 section 5.2)."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    steps = np.diff(values.astype(np.int64))
    steps = np.mod(steps + _WRAP // 2, _WRAP) - _WRAP // 2
    ticks = np.concatenate([[0], np.cumsum(steps)])
    return np.asarray(ticks - ticks.min(), dtype=np.int64)


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


def _opened_ns(packets: Segments, of_far: Bool, of_syn: Bool) -> int | None:
    ours = np.flatnonzero(of_syn & ~of_far)
    if len(ours) != 1:  # of SYNs that were sent again nobody knows which was answered
        return None
    answers = np.flatnonzero(of_far[ours[0] :] & (packets.ack[ours[0] :] >= 0)) + ours[0]
    return int(packets.t_ns[answers[0]] - packets.t_ns[ours[0]]) if len(answers) else None
