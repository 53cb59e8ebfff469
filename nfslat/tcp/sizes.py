"""A conversation -> sizes of its packets by direction, what the application wrote at a time, and what small ones cost.

A write shows as a burst: what comes in stream order until a segment that is not full, a silence, or the other side's
turn; a push (PSH) tells only where it is not known what is full, for Linux sets it on what offload will cut up.
Offload puts many segments into one packet (TSO at the sender, GRO at the receiver); such super packets are counted as
the segments that they stand for.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.causes import Cause, code
from nfslat.model.record import Record
from nfslat.model.tables import F64, I64
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.tcp.bursts import Spill, find_bursts, spills
from nfslat.tcp.packets import Kind
from nfslat.tcp.progress import counted, data_rows, sender
from nfslat.tcp.shared import Shared

_MOST_MODES, _LEAST_SHARE = 8, 0.02  # of packets or of bytes: a size below both is no mode
# Oracle Net Services Administrator's Guide, "Configuring Session Data Unit": an SDU holds 70 bytes more than the data.
_BUFFER_HEADERS = 70
_BUFFERS = tuple(1 << power for power in range(9, 22))  # 512 bytes to 2 MB, what an SDU may be
_LEAST_BUFFER = 2048  # below, too many sizes are near a power of two by chance
_POINTS = 20  # with fewer a correlation says nothing
_INTERVAL_PACKETS = 5
_SURE = 3.0  # standard errors


class Mode(Record):
    """A size that comes often."""

    bytes: int
    count: int  # packets, or bursts
    share: float  # of them
    bytes_share: float  # of all bytes


class SizeBucket(Record):
    """Packets with payload above the bound before, up to this one."""

    le_bytes: int
    packets: int
    bytes: int


class Near(Record):
    """A mode that is a buffer of a usual size less headers."""

    bytes: int
    buffer_bytes: int  # a power of two
    headers_bytes: int  # between the two
    of: str  # "packets", "bursts"


class Runts(Record):
    """Segments that are not full, and not the last of what their sender sent before the other side's turn."""

    count: int
    share: float  # of the segments
    bytes: int
    queued: int  # of them, with more behind them within 1 ms: it was there already
    spare_segments: int  # that full segments would have saved
    waited: int  # small segments that waited for a delayed ACK
    waited_ms: float  # for which it was held


class Correlation(Record):
    """Spearman's rank correlation of mean payload and bytes over equal intervals with five packets or more."""

    rho: float
    points: int
    interval_ms: float
    is_sure: bool  # three standard errors from 0


class WaySizes(Record):
    """One direction."""

    sender: str
    receiver: str
    data_packets: int
    bytes: int  # payload, what was sent again included
    left_out: int  # keep-alives and probes of a closed window
    mss: int | None  # payload of a full segment
    mss_source: str  # "syn", "sizes", ""
    super_packets: int | None  # None: the MSS is not known
    super_segments: int | None  # that they stand for
    segments: int | None  # in all
    distribution: tuple[SizeBucket, ...]  # sums to the packets and the bytes
    modes: tuple[Mode, ...]  # of packets
    bursts: int
    burst_modes: tuple[Mode, ...]
    near: tuple[Near, ...]
    spills: tuple[Spill, ...]
    runts: Runts | None  # None: the MSS is not known
    correlation: Correlation | None  # None: too few intervals, or all packets of one size


class Sizes(Record):
    """Both directions."""

    ways: tuple[WaySizes, WaySizes]


def sizes(shared: Shared) -> Sizes:
    """All figures of both directions."""
    return Sizes((_way(shared, 0), _way(shared, 1)))


def _way(shared: Shared, direction: int) -> WaySizes:
    talk, new, stretches = shared.talk, shared.progress[direction], shared.runs
    packets, rows, full = talk.packets, shared.streams[direction].rows, shared.segments[direction]
    data = data_rows(shared.streams[direction])
    payload = packets.size[data].astype(np.int64)
    total = int(payload.sum())
    segments = super_packets = super_segments = None
    if full.bytes is not None:
        each = -(-payload // full.bytes)
        large = payload > full.bytes
        segments, super_packets = int(each.sum()), int(np.count_nonzero(large))
        super_segments = int(each[large].sum())
    bursts = find_bursts(packets, new, stretches, full.bytes)
    modes, burst_modes = _modes(payload), _modes(bursts.bytes[bursts.is_whole])
    return WaySizes(
        sender=sender(talk, direction),
        receiver=sender(talk, 1 - direction),
        data_packets=len(data),
        bytes=total,
        left_out=len(rows) - len(data),
        mss=full.bytes,
        mss_source=full.source,
        super_packets=super_packets,
        super_segments=super_segments,
        segments=segments,
        distribution=_distribution(payload),
        modes=modes,
        bursts=len(bursts.bytes),
        burst_modes=burst_modes,
        near=_near(modes, burst_modes, full.bytes),
        spills=spills(packets, bursts, direction, full.bytes),
        runts=None if full.bytes is None or segments is None else _runts(shared, direction, full.bytes, segments),
        correlation=_correlation(packets.t_ns[data], payload),
    )


def _distribution(payload: I64) -> tuple[SizeBucket, ...]:
    """Powers of two, from the first to the last that holds a packet."""
    if not len(payload):
        return ()
    power = np.ceil(np.log2(payload)).astype(np.int64)
    packets = np.bincount(power)
    total = np.bincount(power, weights=payload)
    return tuple(
        SizeBucket(1 << at, int(packets[at]), int(total[at])) for at in range(int(power.min()), int(power.max()) + 1)
    )


def _modes(numbers: I64) -> tuple[Mode, ...]:
    """Sizes with a share of the packets, or of the bytes, that is worth telling; most bytes first."""
    values, counts = counted(numbers)
    total = int(numbers.sum())
    if not total:
        return ()
    share, of_bytes = counts / len(numbers), values * counts / total
    largest = np.maximum(share, of_bytes)
    at = np.flatnonzero((largest >= _LEAST_SHARE) & (counts > 1))
    at = at[np.argsort(-largest[at], kind="stable")][:_MOST_MODES]
    at = at[np.argsort(-of_bytes[at], kind="stable")]
    return tuple(Mode(int(values[i]), int(counts[i]), float(share[i]), float(of_bytes[i])) for i in at)


def _near(modes: tuple[Mode, ...], bursts: tuple[Mode, ...], mss: int | None) -> tuple[Near, ...]:
    """Modes that are a little below a usual buffer: units that fill it but for their headers."""
    found = []
    for of, some in (("bursts", bursts), ("packets", modes)):
        for mode in some:
            for buffer in _BUFFERS:
                is_segments = mss is not None and mode.bytes % mss == 0
                if buffer >= _LEAST_BUFFER and 0 <= buffer - mode.bytes <= _BUFFER_HEADERS and not is_segments:
                    found.append(Near(mode.bytes, buffer, buffer - mode.bytes, of))
    sizes_seen = {one.bytes for one in found if one.of == "bursts"}
    return tuple(one for one in found if one.of == "bursts" or one.bytes not in sizes_seen)


def _runts(shared: Shared, direction: int, mss: int, segments: int) -> Runts:
    packets, stretches, silences = shared.talk.packets, shared.runs, shared.silences[direction]
    new = shared.progress[direction]
    rows = new.rows
    size = packets.size[rows].astype(np.int64)
    run = np.searchsorted(stretches.begin, np.searchsorted(stretches.rows, rows), side="right") - 1
    is_runt = np.zeros(len(rows), dtype=np.bool_)
    is_runt[:-1] = (size[:-1] % mss != 0) & (run[1:] == run[:-1]) & (packets.kind[rows[:-1]] == Kind.NEW)
    at = np.flatnonzero(is_runt)
    gap = new.t_ns[at + 1] - new.t_ns[at]
    delayed = np.flatnonzero(silences.causes == code(Cause.DELAYED_ACK))
    delayed = delayed[silences.pauses.size[delayed] % mss != 0]
    rest = int((size[at] % mss).sum())
    return Runts(
        count=len(at),
        share=len(at) / segments if segments else 0.0,
        bytes=rest,
        queued=int(np.count_nonzero(gap <= NS_PER_MS)),
        spare_segments=len(at) - -(-rest // mss),
        waited=len(delayed),
        waited_ms=to_ms(int(silences.held_ns[delayed].sum())),
    )


def _correlation(t_ns: I64, payload: I64) -> Correlation | None:
    """Over at most some hundred intervals of the run, those without data left out; 10 ms at least."""
    if len(payload) < _POINTS or payload.min() == payload.max():
        return None
    interval = max(10 * NS_PER_MS, -(-(int(t_ns.max() - t_ns.min()) + 1) // 200))
    slot = (t_ns - t_ns.min()) // interval
    packets = np.bincount(slot)
    total = np.bincount(slot, weights=payload)
    # The first and the last interval are not full; of one packet the size and the bytes are the same number.
    used = np.flatnonzero(packets[1:-1] >= _INTERVAL_PACKETS) + 1
    if len(used) < _POINTS:
        return None
    mean, total = np.asarray(total[used] / packets[used], dtype=np.float64), total[used]
    x, y = _ranks(mean), _ranks(np.asarray(total, dtype=np.float64))
    if x.std() == 0 or y.std() == 0:
        return None
    rho = float(np.corrcoef(x, y)[0, 1])
    # Standard error of Spearman's rho where there is no relation: 1 / sqrt(n - 1) (Kendall, Rank Correlation Methods).
    return Correlation(rho, len(used), to_ms(interval), abs(rho) * (len(used) - 1) ** 0.5 > _SURE)


def _ranks(values: F64) -> F64:
    """Ranks from 0; equal values share their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts + 1) / 2)[np.ravel(which)])
