"""One direction of a conversation -> the stretches of it that show what the path carries, at least.

A stretch counts that came without a silence of half a round trip, of full segments for the most part, or in one turn.
Its time is the longer one of two: between its packets, and between the ACKs that cover its ends. Packets are spaced by
the path where they arrive, but not where they leave (a sender stamps what it hands to the card, 64 KB at once); ACKs
are spaced by the path wherever they are seen, but may be bunched up on their way back. Where the one is too short the
other one is not, so neither vantage point makes the path look faster than it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.tcp.packets import Talk
from nfslat.tcp.progress import Progress

_LEAST_BYTES, _LEAST_SEGMENTS = 65_536, 10  # of a stretch that shows what the path carries
_LEAST_PACKETS, _LEAST_ACKS = 10, 4  # so that no single stamp makes it
_SUSTAINED_NS = 100 * NS_PER_MS
_SATURATED, _MOSTLY = 0.9, 0.8  # of the bytes in full segments: the sender's application did not hold it up
_AS_GOOD = 0.9  # of the best rate: the longest stretch that has it is told


class Carried(Record):
    """The best stretch: what the path carries at least."""

    mbit_s: float  # 1,000,000 bits of payload per second
    bytes: int
    ms: float
    begin_ms: float  # from the begin of the conversation
    begin_ns: int  # since 1970, by the capture's clock
    frame: int
    last_frame: int


def carried(
    talk: Talk, new: Progress, other: Progress, silence: int, mss: int | None
) -> tuple[Carried | None, Carried | None]:
    """The best stretch of some 64 KB or more, and the best one of 100 ms or more; `silence` (ns) ends a stretch."""
    curve = _curve(new, other, silence, mss)
    wanted = _least_bytes(talk, curve, mss)
    holds = np.searchsorted(curve.high, curve.high + wanted)
    best, sustained = _burst(curve, wanted, holds), _sustained(curve, holds)
    shown, steady = _told(talk, curve, best), _told(talk, curve, sustained)
    if shown is not None and steady is not None and shown.ms >= steady.ms and shown.mbit_s > steady.mbit_s:
        steady = shown
    return shown, steady


class _Stretch(NamedTuple):
    """Packets of a curve."""

    rate: float  # bytes per ns
    first: int
    last: int


class _Curve(Record, eq=False):
    """How far a stream had come when, both growing: by its packets, and by the ACKs that cover them."""

    rows: I64
    high: I64
    sent_ns: I64
    acked_ns: I64
    full: I64  # bytes in full segments so far
    turn: I64  # packets with data of the other side in front of it
    calm: I64  # silences in front of it
    acks: I64  # ACKs that cover something new, in front of it


def _curve(new: Progress, other: Progress, silence: int, mss: int | None) -> _Curve:
    """Of the packets that took the stream further and whose ACK is in the capture."""
    use = (new.high > new.low) & (new.acked_row > new.rows)
    rows, sent = new.rows[use], np.maximum.accumulate(new.t_ns[use])
    gained = (new.high - new.low)[use]
    return _Curve(
        rows=rows,
        high=new.high[use],
        sent_ns=sent,
        acked_ns=np.maximum.accumulate(new.acked_ns[use]),
        full=np.cumsum(np.where(gained >= (mss or _LEAST_BYTES), gained, 0)),
        turn=np.searchsorted(other.rows, rows),
        calm=np.cumsum(np.diff(sent, prepend=sent[:1]) > silence),
        acks=np.cumsum(np.diff(new.acked_row[use], prepend=new.acked_row[use][:1]) != 0),
    )


def _least_bytes(talk: Talk, curve: _Curve, mss: int | None) -> int:
    """What a stretch has to hold."""
    usual = int(np.percentile(talk.packets.size[curve.rows], 90, method="lower")) if len(curve.rows) else 0
    return max(_LEAST_BYTES, _LEAST_SEGMENTS * (mss or 0), _LEAST_PACKETS * usual)


def _burst(curve: _Curve, wanted: int, holds: npt.NDArray[np.intp]) -> _Stretch | None:
    """The fastest stretch of `wanted` bytes or more, and as long as it goes on at nearly that rate.

    `holds`: with which packet a stretch that begins at each has that many.
    """
    best = found = _fastest(curve, _kept(curve, holds, _MOSTLY))
    while found is not None and best is not None and found.rate >= _AS_GOOD * best.rate:
        wanted *= 2
        longer = _fastest(curve, _kept(curve, np.searchsorted(curve.high, curve.high + wanted), _MOSTLY))
        found, best = longer, best if longer is None or longer.rate < _AS_GOOD * best.rate else longer
    return best


def _sustained(curve: _Curve, holds: npt.NDArray[np.intp]) -> _Stretch | None:
    """The fastest stretch of at least `_SUSTAINED_NS`, up to `holds`, in which the sender always had more to send.

    That is what a shaper shows that lets some 100 KB pass at full speed. Always more: full segments, or no turns.
    """
    last = np.maximum(holds, np.searchsorted(curve.sent_ns, curve.sent_ns + _SUSTAINED_NS))
    return _fastest(curve, _kept(curve, last, _SATURATED))


def _kept(curve: _Curve, last: npt.NDArray[np.intp], share: float) -> npt.NDArray[np.intp]:
    """`last`, behind the end where the stretch up to it is of small turns: those show the time of turns, no path."""
    end = np.minimum(last, len(last) - 1)
    is_full = curve.full[end] - curve.full >= share * (curve.high[end] - curve.high)
    return np.where(is_full | (curve.turn[end] == curve.turn), last, len(last))


def _told(talk: Talk, curve: _Curve, stretch: _Stretch | None) -> Carried | None:
    if stretch is None:
        return None
    packets, first, last = talk.packets, stretch.first, stretch.last
    size = int(curve.high[last] - curve.high[first])
    took = max(int(curve.sent_ns[last] - curve.sent_ns[first]), int(curve.acked_ns[last] - curve.acked_ns[first]))
    return Carried(
        mbit_s=size * 8e3 / took,
        bytes=size,
        ms=to_ms(took),
        begin_ms=to_ms(int(curve.sent_ns[first] - packets.t_ns.min())),
        begin_ns=int(curve.sent_ns[first]),
        frame=int(packets.frame[curve.rows[first]]),
        last_frame=int(packets.frame[curve.rows[last]]),
    )


def _fastest(curve: _Curve, last: npt.NDArray[np.intp]) -> _Stretch | None:
    """The fastest stretch from a packet to its `last` one without a silence."""
    first = np.flatnonzero(last < len(curve.high))
    last = last[first]
    fits = (curve.calm[first] == curve.calm[last]) & (curve.acks[last] - curve.acks[first] >= _LEAST_ACKS)
    fits &= last - first >= _LEAST_PACKETS
    took = np.maximum(curve.sent_ns[last] - curve.sent_ns[first], curve.acked_ns[last] - curve.acked_ns[first])
    fits &= took > 0
    if not fits.any():
        return None
    rate = np.where(fits, (curve.high[last] - curve.high[first]) / np.maximum(took, 1), 0.0)
    at = int(rate.argmax())
    return _Stretch(float(rate[at]), int(first[at]), int(last[at]))
