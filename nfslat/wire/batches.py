"""When packets were sent and how long they took -> where they were held back and then released together.

Whatever stops for a while (a host that does not run, an adapter, a hypervisor, a firewall that looks something up)
takes all packets that come meanwhile and lets them go at once. The first one waited for the whole of it, each later one
as much less as it was sent later. So delays jump, and then fall by one second a second of sending: a saw's tooth. A
queue that fills climbs slowly instead, and one that drains on a slow line falls less steeply.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.model.tables import I64, Bool
from nfslat.model.units import NS_PER_MS, to_ms

# Above the floor: interrupt coalescing, GRO and a scheduler's tick hold packets, too, but less.
_LEAST_NS = 5 * NS_PER_MS
# Choices, but for the slope: each says what it parts from what.
_TYPICAL = 5  # times the typical delay above the floor: random delay (exponential) is above that once in 30 packets
_LEAST_PACKETS = 3  # two make a straight line of anything
# What was sent one ms later waited one ms less: -1 where all are let go at once. Where a line lets them go it is less
# steep by the load's share of that line: up to a fifth. Steeper than -1 is no hold; a tenth is for stamps.
_STEEP, _STEEPEST = -0.8, -1.1
_STRAIGHT = 0.9  # of the variance; less, and something else moved the delays as well
_CLIMB = 0.1  # of the fall: what came before the peak took so long at most; a queue takes its time to fill
_END = 20  # a 20th of the peak, in front of its end: what was sent then waited hardly longer than any other packet
_FALL = 0.25  # of the peak: less of the fall was seen, and any late packets look alike


class Held(NamedTuple):
    """Packets that were held and released together; instants as those that came in."""

    begin_ns: int  # when the first of them was sent
    release_ns: int  # when they were let go, less what packets take anyway
    packets: int
    arrivals: int  # different instants at which they came; 1: one packet, or one ACK, stands for all
    peak_ms: float  # delay of the first one, above the floor
    slope: float  # ms of delay a ms of sending; -1 where all were let go at once
    straight: float  # share of the delays' variance that the line explains


def held(sent_ns: I64, delay_ns: I64) -> tuple[Held, ...]:
    """Episodes in the order of sending. `delay_ns` may be round trips or one-way delays; a constant that is wrong in
    all of them (two clocks) does not matter, but a drift does."""
    if len(sent_ns) < _LEAST_PACKETS:
        return ()
    order = np.argsort(sent_ns, kind="stable")
    sent, delay = sent_ns[order].astype(np.int64), delay_ns[order].astype(np.int64)
    above = delay - int(delay.min())
    least = max(_LEAST_NS, _TYPICAL * int(np.median(above)))
    high = above > least // 4
    begins, ends = _teeth(high, above, least)
    tall = np.maximum.reduceat(above, begins) >= least if len(begins) else np.zeros(0, dtype=np.bool_)
    tall &= ends - begins >= _LEAST_PACKETS
    found = (_tooth(sent[a:b], above[a:b]) for a, b in zip(begins[tall], ends[tall], strict=True))
    return tuple(one for one in found if one is not None)


def _teeth(high: Bool, above: I64, least: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where runs of `high` delays begin and end; one in which the delay jumps by half of `least` is parted there."""
    starts = high.copy()
    starts[1:] &= ~high[:-1] | (np.diff(above) > least // 2)
    begins = np.flatnonzero(starts)
    low = np.append(np.flatnonzero(~high), len(high))
    # A run ends where the next one begins, or at the first delay behind it that is not high.
    ends = np.minimum(np.append(begins[1:], len(high)), low[np.searchsorted(low, begins)])
    return begins, ends


def _tooth(sent: I64, above: I64) -> Held | None:
    """The run as a tooth, if it is one."""
    peak_at = int(np.argmax(above))
    peak = int(above[peak_at])
    # What is sent when the first one is let go was not held with it.
    after = int(np.searchsorted(sent, sent[peak_at] + peak - peak // _END))
    kept = slice(peak_at, after)
    x, y = (sent[kept] - sent[peak_at]).astype(np.float64), above[kept].astype(np.float64)
    if len(x) < _LEAST_PACKETS or x[-1] < _FALL * peak or sent[peak_at] - sent[0] > _CLIMB * x[-1]:
        return None
    dx, dy = x - x.mean(), y - y.mean()
    spread = float(dx @ dx)
    slope = float(dx @ dy) / spread
    total = float(dy @ dy)
    straight = slope * slope * spread / total if total else 0.0
    if not (_STEEPEST <= slope <= _STEEP and straight >= _STRAIGHT):
        return None
    arrivals = sent[kept] + above[kept]
    return Held(
        begin_ns=int(sent[peak_at]),
        release_ns=int(sent[peak_at]) + peak,
        packets=len(x),
        arrivals=len(np.unique(arrivals)),
        peak_ms=to_ms(peak),
        slope=slope,
        straight=min(straight, 1.0),
    )
