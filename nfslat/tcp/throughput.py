"""A conversation -> bytes and rates by direction, and what the path has shown that it can carry.

A rate that stays the same for most of the busy time, with full segments and no silences, is that of a link, a
shaper or a policer: a sender that waits for its application or for a window shows silences or small segments. (One
that paces full segments evenly looks the same.)
"""

from __future__ import annotations

import numpy as np

from nfslat.model.causes import LIMITS, LOSS_STALLS, Cause, code
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.tcp.carried import Carried, carried
from nfslat.tcp.packets import Talk
from nfslat.tcp.progress import Progress, data_rows, sender
from nfslat.tcp.shared import Shared

_BUSY_NS = 10 * NS_PER_MS
_SHORTEST_SILENCE_NS = 2 * NS_PER_MS
_FLAT = 0.05  # the rates of a plateau differ by no more, either way
_MUCH = 0.5  # of the busy time
_FULL = 0.8  # of the plateau's bytes are in full segments
_LEAST_SLOTS, _SLOT_PACKETS = 10, 40
_LONGEST_SLOT_NS = 1000 * NS_PER_MS
# A bucket of a shaper or policer holds some tens of ms of its rate, and lets 64 KB pass at the speed of the line.
_SHORT_NS, _ROUND_TRIPS = 30 * NS_PER_MS, 4
_MUCH_LOST, _HARDLY = 0.01, 0.1  # of the bytes; of the time, in which its sender had nothing to send
_POLICED_NS, _NEAR = 100 * NS_PER_MS, 0.1
_PATH = [
    LIMITS.index(limit) for limit in (Cause.CONGESTION, Cause.UNKNOWN_WINDOW, Cause.LOSS, Cause.SPURIOUS, Cause.PACE)
]
_IDLE = [LIMITS.index(limit) for limit in (Cause.APPLICATION, Cause.UNKNOWN)]
_UNEVEN = 4  # mean spacings, or times that the packet takes at that rate: a longer gap is a silence


class Plateau(Record):
    """A rate that hardly changes."""

    mbit_s: float
    share: float  # of the busy intervals that have it
    interval_ms: float
    intervals: int  # busy ones


class Policed(Record):
    """What a policer looks like: it drops what is above a rate, and the sender, who had more to send, keeps to that."""

    mbit_s: float  # the median of the intervals
    share: float  # of the intervals that are within a tenth of it
    interval_ms: float
    lost_share: float  # of the bytes sent


class WayThroughput(Record):
    """One direction; rates in Mbit/s of payload, None where the run is shorter than the window, or nothing is known."""

    sender: str
    receiver: str
    bytes: int  # payload that went by
    new_bytes: int  # each byte of the stream once
    sending_ms: (
        float  # without silences above 10 ms or half a round trip; each stretch between two counts 10 ms at least
    )
    run_mbit_s: float | None  # new bytes over the conversation
    sending_mbit_s: float | None  # new bytes over the time of sending
    peak_10ms_mbit_s: float | None  # of payload that went by
    peak_100ms_mbit_s: float | None
    peak_1s_mbit_s: float | None
    carried: Carried | None  # the best stretch of some 64 KB or more; None: there is none without silences
    sustained: Carried | None  # the best stretch of 100 ms or more
    used_share: float | None  # the rate over the conversation, of the plateau, or what was sustained, or carried
    sending_used_share: float | None  # the rate over the time of sending, likewise; None where `is_short`
    is_short: (
        bool  # that was carried for so short a time that a shaper or policer lets it pass at the speed of the line
    )
    path_wait_share: (
        float  # of the conversation: the sender waited for ACKs or repeats, or went at the pace of the path
    )
    is_flat: bool | None  # None: too little to tell
    plateau: Plateau | None  # where it is flat
    policer: Policed | None  # bytes are lost, and what arrives has a rate that stays


class Throughput(Record):
    """Both directions."""

    conversation_ms: float
    ways: tuple[WayThroughput, WayThroughput]


def throughput(shared: Shared) -> Throughput:
    """All figures of both directions."""
    packets = shared.talk.packets
    silence = max(shared.floors.whole_ns // 2, _SHORTEST_SILENCE_NS)
    begin, end = (int(packets.t_ns.min()), int(packets.t_ns.max())) if len(packets) else (0, 0)
    return Throughput(to_ms(end - begin), (_way(shared, 0, silence, begin, end), _way(shared, 1, silence, begin, end)))


def _way(shared: Shared, direction: int, silence: int, begin: int, end: int) -> WayThroughput:
    talk, packets, new = shared.talk, shared.talk.packets, shared.progress[direction]
    rows = data_rows(shared.streams[direction])
    if (np.diff(packets.t_ns[rows]) < 0).any():
        rows = rows[np.argsort(packets.t_ns[rows], kind="stable")]
    t_ns, payload = packets.t_ns[rows], packets.size[rows].astype(np.int64)
    fresh = _new_bytes(packets.seq[rows], payload)
    sending = min(_busy_ns(t_ns, silence), end - begin)
    mss = shared.segments[direction].bytes
    burst, sustained = carried(talk, new, shared.progress[1 - direction], silence, mss)
    is_flat, plateau = _plateau(talk, new, mss)
    path = plateau or sustained or burst
    run_rate, sending_rate = _rate(fresh, end - begin), _rate(fresh, sending)
    sums = shared.splits[direction].sums_ns()
    is_short = (
        path is not None
        and path is burst
        and path.ms * NS_PER_MS < max(_SHORT_NS, _ROUND_TRIPS * shared.floors.whole_ns)
    )
    return WayThroughput(
        sender=sender(talk, direction),
        receiver=sender(talk, 1 - direction),
        bytes=int(payload.sum()),
        new_bytes=fresh,
        sending_ms=to_ms(sending),
        run_mbit_s=run_rate,
        sending_mbit_s=sending_rate,
        peak_10ms_mbit_s=_peak(t_ns, payload, 10 * NS_PER_MS, end - begin),
        peak_100ms_mbit_s=_peak(t_ns, payload, 100 * NS_PER_MS, end - begin),
        peak_1s_mbit_s=_peak(t_ns, payload, 1000 * NS_PER_MS, end - begin),
        carried=burst,
        sustained=sustained,
        used_share=None if path is None or run_rate is None else run_rate / path.mbit_s,
        sending_used_share=None if path is None or sending_rate is None or is_short else sending_rate / path.mbit_s,
        is_short=is_short,
        path_wait_share=int(sums[_PATH].sum()) / (end - begin) if end > begin else 0.0,
        is_flat=is_flat,
        plateau=plateau,
        policer=_policer(shared, direction, sums),
    )


def _policer(shared: Shared, direction: int, sums: I64) -> Policed | None:
    """Where its sender always had more to send, much was lost, and what arrived came at a rate that stays."""
    new, silences = shared.progress[direction], shared.silences[direction]
    is_loss = np.isin(silences.causes, [code(cause) for cause in LOSS_STALLS])
    sent = int(shared.talk.packets.size[shared.streams[direction].rows].sum())
    lost = int(silences.pauses.size[is_loss].sum()) / max(sent, 1)
    idle = int(sums[_IDLE].sum())
    if lost < _MUCH_LOST or idle > _HARDLY * int(sums.sum()):
        return None
    use = new.acked_row > new.rows
    t_ns = np.maximum.accumulate(new.acked_ns[use])
    if not len(t_ns):
        return None
    interval = max(_POLICED_NS, int(t_ns[-1] - t_ns[0]) // 50)
    rates = np.bincount((t_ns - t_ns[0]) // interval, weights=(new.high - new.low)[use])[1:-1] * 8e3 / interval
    if len(rates) < _LEAST_SLOTS:
        return None
    middle = float(np.median(rates))
    share = float((np.abs(rates - middle) <= _NEAR * middle).mean())
    return Policed(middle, share, to_ms(interval), lost) if share >= _MUCH and middle > 0 else None


def _busy_ns(t_ns: I64, silence: int) -> int:
    """Time in stretches of packets that follow each other without a silence."""
    if not len(t_ns):
        return 0
    ends = np.flatnonzero(np.append(np.diff(t_ns) > max(silence, _BUSY_NS), True))
    begins = np.concatenate([[0], ends[:-1] + 1])
    return int(np.maximum(t_ns[ends] - t_ns[begins], _BUSY_NS).sum())


def _rate(size: int, ns: int) -> float | None:
    """Mbit/s; None without time or bytes."""
    return size * 8e3 / ns if ns > 0 and size > 0 else None


def _new_bytes(seq: I64, payload: I64) -> int:
    """Bytes of the stream that went by, each once."""
    if not len(seq):
        return 0
    order = np.argsort(seq, kind="stable")
    begins, ends = seq[order], (seq + payload)[order]
    reached = np.maximum.accumulate(ends)
    before = np.concatenate([begins[:1], reached[:-1]])
    return int(np.maximum(ends - np.maximum(begins, before), 0).sum())


def _peak(t_ns: I64, payload: I64, window: int, run: int) -> float | None:
    """The highest rate over any `window` ns; None where the conversation is shorter."""
    if run < window or not len(t_ns):
        return None
    total = np.concatenate([[0], np.cumsum(payload)])
    last = np.searchsorted(t_ns, t_ns + window)
    return int((total[last] - total[:-1]).max()) * 8e3 / window


def _plateau(talk: Talk, new: Progress, full: int | None) -> tuple[bool | None, Plateau | None]:
    """Is there one, by the packets or by the ACKs: spaced evenly by the path are the ones or the others."""
    use = new.high > new.low
    rows = new.rows[use]
    if len(rows) < _LEAST_SLOTS * _SLOT_PACKETS / 4:
        return None, None
    size = (new.high - new.low)[use]
    if full is None or size[size >= full].sum() < _FULL * size.sum():
        return False, None
    found = [_level(new.t_ns[use], size)]
    acked = use & (new.acked_row > new.rows)
    if acked.any():
        ack_rows = new.acked_row[acked]
        at = np.flatnonzero(np.diff(ack_rows, prepend=NULL))
        ack_rows = ack_rows[at]
        covered = np.add.reduceat((new.high - new.low)[acked], at)
        found.append(_level(talk.packets.t_ns[ack_rows], covered))
    known = [one for one in found if one is not None]
    levels = [one for one in known if one.share >= _MUCH]
    if not known:
        return None, None
    return (True, max(levels, key=lambda one: one.share)) if levels else (False, None)


def _level(t_ns: I64, size: I64) -> Plateau | None:
    """The rate that most busy intervals have, with their share; a share of 0 where silences interrupt them."""
    t_ns = np.maximum.accumulate(t_ns)
    gaps = np.diff(t_ns)
    if not len(gaps) or t_ns[-1] == t_ns[0]:
        return None
    # Busy: without the long silences between one transfer and the next.
    near = gaps < _BUSY_NS * 10
    busy = int(gaps[near].sum())
    spacing = busy / max(int(np.count_nonzero(near)), 1)
    interval = int(min(max(spacing * _SLOT_PACKETS, _BUSY_NS), _LONGEST_SLOT_NS))
    slot = (t_ns - t_ns[0]) // interval
    first = np.flatnonzero(np.diff(slot, prepend=-1))
    used, total = slot[first], np.add.reduceat(size, first)
    # Intervals next to an idle one are not full.
    inner = np.isin(used - 1, used) & np.isin(used + 1, used)
    if np.count_nonzero(inner) < _LEAST_SLOTS:
        return None
    rates = total[inner] * 8e3 / interval
    middle = float(np.median(rates[rates >= np.percentile(rates, 50)]))
    flat = np.abs(rates - middle) <= _FLAT * middle
    share = float(int(np.count_nonzero(flat)) / len(rates))
    mbit = float(rates[flat].mean()) if flat.any() else middle
    # Weighted by bytes, packets of a full link follow each other at its rate, whatever their size.
    wanted = size[1:] * 8e3 / mbit
    late = near & (gaps > _UNEVEN * np.maximum(wanted, spacing))
    even = int(gaps[late].sum()) <= _FLAT * max(busy, 1)
    return Plateau(mbit, share if even else 0.0, to_ms(interval), len(rates))
