"""A conversation -> what its graphs are drawn from: points of each direction, thinned, and what is to be marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.model.causes import LIMITS, Cause
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool
from nfslat.model.units import NS_PER_MS, NS_PER_S, iso, to_ms
from nfslat.tcp.graphs import Graphs, LateAck, Pictures, Repeat, Spike, Waited, WayGraphs
from nfslat.tcp.packets import Kind
from nfslat.tcp.progress import sender
from nfslat.tcp.rounds import late_acks
from nfslat.tcp.shared import Shared
from nfslat.tcp.sight import Sight
from nfslat.tcp.thinned import STRETCHES, Points, Thinned, thin
from nfslat.tcp.turns import Shape, Taken
from nfslat.tcp.windows import flight_bytes
from nfslat.wire.stalls import timers_ms

_MOST = 300  # of each kind that is marked: the longest, or evenly chosen ones
_SPIKE, _LEAST_SPIKE_NS = 3, NS_PER_MS  # medians, and above the median: what is called a spike
_NOT_WAITED = {LIMITS.index(limit) for limit in (Cause.PACE, Cause.APPLICATION, Cause.UNKNOWN)}
_CLOSE_NS = NS_PER_MS  # a stall that is shorter needs no picture of its own
_LEAST_PART_NS = 10 * NS_PER_MS
_FEW = 60  # packets: of a conversation with fewer the whole is near enough


def pictures(sight: Sight, taken: Taken) -> Pictures:
    """What can be drawn of a conversation."""
    spans = [_span_ns(sight, shared) for shared, _ in (*sight.at_sender, (sight.main, 0))]
    since, until = min(begin for begin, _ in spans), max(end for _, end in spans)
    whole = _graphs(sight, taken, since, until)
    around = _longest(whole.ways) if len(sight.talk.packets) > _FEW else None
    close = None
    if around is not None and 3 * (around[1] - around[0]) < until - since:
        close = _graphs(sight, taken, *_around(around, since, until))
    return Pictures(whole, close)


def _span_ns(sight: Sight, shared: Shared) -> tuple[int, int]:
    """From when to when one end's capture has packets of it, from the first packet on that the asker's has."""
    t_ns, zero_ns = shared.talk.packets.t_ns, _zero_ns(sight, shared)
    return int(t_ns.min()) - zero_ns, int(t_ns.max()) - zero_ns


def _zero_ns(sight: Sight, shared: Shared) -> int:
    """When, on the clock of one end's capture, the first packet was at the asker's end, that its capture has: packets
    that are in both say by how much the clocks differ, and those of the other direction leave the way out of it."""
    zero_ns = int(sight.talk.packets.t_ns.min())
    if shared is sight.main or sight.ends is None:
        return zero_ns
    later = [
        float(np.median(one.arrived_ns - one.sent_ns)) * (1 if one.sender == sight.trace else -1)
        for one in sight.ends.passages
        if len(one.sent_ns)
    ]
    return zero_ns + round(sum(later) / len(later)) if later else int(shared.talk.packets.t_ns.min())


def _longest(ways: Sequence[WayGraphs]) -> tuple[int, int] | None:
    """From when to when, in ns, what is marked and lasts longest: a wait, else an ACK that nobody waited for."""
    waits = [(one.ms, one.at_ms) for way in ways for one in way.waited]
    late = [(one.ms, one.at_ms) for way in ways for one in way.late]
    late += [(one.ms, one.at_ms) for way in ways for one in way.spikes]
    for found in (waits, late):
        ms, at_ms = max(found, default=(0.0, 0.0))
        if ms * NS_PER_MS >= _CLOSE_NS:
            return round(at_ms * NS_PER_MS), round((at_ms + ms) * NS_PER_MS)
    return None


def _around(of: tuple[int, int], since: int, until: int) -> tuple[int, int]:
    """With as much again in front of it, and behind."""
    long = of[1] - of[0]
    return max(of[0] - long, since), min(of[1] + long, until)


def _graphs(sight: Sight, taken: Taken, since: int, until: int) -> Graphs:
    """`since` and `until`: ns from the first packet that the asker's capture has."""
    (there, way), (back, other) = sight.at_sender
    of = [sight.trace if end is sight.main else 1 - sight.trace for end in (there, back)]
    packets = sight.talk.packets
    begin = int(packets.t_ns.min())
    rows = taken.rows
    turns = Points(rows.request_ns, rows.took_ns, rows.took_ns, packets.frame[rows.request_row])
    return Graphs(
        begin=iso(begin),
        from_ms=to_ms(since),
        to_ms=to_ms(until),
        part_ms=to_ms(_part(since, until)),
        ways=(
            _Way(there, way, of[0], _zero_ns(sight, there), since, until).graphs(),
            _Way(back, other, of[1], _zero_ns(sight, back), since, until).graphs(),
        ),
        turns_ms=(
            thin(turns, begin, begin + since, begin + until, NS_PER_MS)
            if taken.shape is Shape.TURNS and len(rows)
            else None
        ),
    )


def _part(since: int, until: int) -> int:
    """Of rates: shorter ones would show single packets."""
    long = until - since + 1
    return max(-(-long // STRETCHES), min(_LEAST_PART_NS, long // 20), 1)


class _Way:
    """One direction in a time."""

    def __init__(self, shared: Shared, direction: int, capture: int, zero_ns: int, since: int, until: int) -> None:
        self.shared, self.direction, self.capture = shared, direction, capture
        self.packets, self.one = shared.talk.packets, shared.streams[direction]
        self.zero = zero_ns
        self.begin, self.end = self.zero + since, self.zero + until

    def graphs(self) -> WayGraphs:
        one, packets = self.one, self.packets
        talk = self.shared.talk
        scale = talk.conversation.shift(1 - self.direction)
        samples = self.shared.samples[self.direction]
        late, late_count = self._late()
        spikes, spike_count = self._spikes(samples.sent, samples.covered, samples.rtt_ns)
        again, again_count = self._again()
        waited, waited_count = self._waited()
        windows, edges = one.windows(scale or 0), one.edges(scale)
        known = ~one.is_syn & (edges != NULL)
        said = one.said
        flight = flight_bytes(one)
        return WayGraphs(
            sender=sender(talk, self.direction),
            receiver=sender(talk, 1 - self.direction),
            capture=self.capture,
            trips_ms=self._thin(samples.sent, samples.rtt_ns, unit=NS_PER_MS),
            typical_ms=to_ms(int(np.median(samples.rtt_ns))) if len(samples.rtt_ns) else None,
            late=late,
            late_count=late_count,
            spikes=spikes,
            spike_count=spike_count,
            sent=self._thin(one.rows, packets.seq[one.rows], packets.seq[one.rows] + packets.size[one.rows]),
            acked=self._thin(said, np.maximum(one.covered, 0)),
            allowed=None if scale is None or talk.level is not None else self._thin(said[known], edges[known]),
            again=again,
            again_count=again_count,
            in_flight=self._thin(one.rows, flight),
            window=self._thin(said[~one.is_syn], windows[~one.is_syn]) if len(said) else None,
            scale=scale,
            mbit_s=self._rate(),
            waited=waited,
            waited_count=waited_count,
        )

    def _thin(self, rows: I64, low: I64, high: I64 | None = None, unit: float = 1.0) -> Thinned:
        points = Points(self.packets.t_ns[rows], low, low if high is None else high, self.packets.frame[rows])
        return thin(points, self.zero, self.begin, self.end, unit)

    def _inside(self, rows: I64) -> Bool:
        t_ns = self.packets.t_ns[rows]
        return np.asarray((t_ns >= self.begin) & (t_ns <= self.end))

    def _late(self) -> tuple[tuple[LateAck, ...], int]:
        """With the round trips of the first and the last data that each covers."""
        found, samples = late_acks(self.shared, self.direction), self.shared.samples[self.direction]
        timers = timers_ms(found.held_ns)[0]
        whole = self._inside(found.acks) & (self.packets.t_ns[found.acks] - found.since_ns >= self.begin)
        keep = np.flatnonzero(whole)
        first = np.searchsorted(samples.covered, found.acks[keep])
        last = np.searchsorted(samples.covered, found.acks[keep], side="right") - 1
        frame, t_ns = self.packets.frame, self.packets.t_ns
        out = []
        for at in _largest(found.since_ns[keep]):
            row, ack = int(keep[at]), int(found.acks[keep[at]])
            a, b = int(first[at]), int(last[at])
            since = int(t_ns[ack] - found.since_ns[row])
            # What was repaired has no round trip of its own.
            ends = (int(samples.sent[a]), int(samples.sent[b])) if a <= b else None
            out.append(
                LateAck(
                    at_ms=to_ms(since - self.zero),
                    ms=to_ms(int(found.since_ns[row])),
                    last_at_ms=to_ms((since if ends is None else int(t_ns[ends[1]])) - self.zero),
                    last_ms=to_ms(int(found.since_ns[row] if ends is None else samples.rtt_ns[b])),
                    packets=max(b - a + 1, 1),
                    frame=int(frame[ack]),
                    data_frame=int(frame[ack if ends is None else ends[0]]),
                    timer_ms=None if timers[row] == NULL else int(timers[row]),
                    is_waited_for=bool(found.lost_ns[row] > 0),
                )
            )
        return tuple(out), len(keep)

    def _spikes(self, sent: I64, covered: I64, rtt_ns: I64) -> tuple[tuple[Spike, ...], int]:
        """High round trips, but for those that end at a delayed ACK, or at data: that is the application's time."""
        if not len(rtt_ns):
            return (), 0
        median = int(np.median(rtt_ns))
        high = rtt_ns >= max(_SPIKE * median, median + _LEAST_SPIKE_NS)
        high &= self._inside(sent) & (self.packets.size[covered] == 0)
        high &= ~np.isin(covered, late_acks(self.shared, self.direction).acks)
        rows = np.flatnonzero(high)
        t_ns, frame = self.packets.t_ns, self.packets.frame
        return tuple(
            Spike(
                at_ms=to_ms(int(t_ns[sent[row]]) - self.zero),
                ms=to_ms(int(rtt_ns[row])),
                frame=int(frame[sent[row]]),
                ack_frame=int(frame[covered[row]]),
            )
            for row in rows[_largest(rtt_ns[rows])].tolist()
        ), len(rows)

    def _again(self) -> tuple[tuple[Repeat, ...], int]:
        packets, rows = self.packets, self.one.rows
        kinds = packets.kind[rows]
        rows = rows[((kinds == Kind.RETRANSMISSION) | (kinds == Kind.OUT_OF_ORDER)) & self._inside(rows)]
        spurious = set(self.shared.needless[self.direction].tolist())
        shown = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST)).astype(np.int64))]
        return tuple(
            Repeat(
                at_ms=to_ms(int(packets.t_ns[row]) - self.zero),
                byte=int(packets.seq[row]),
                frame=int(packets.frame[row]),
                kind="spurious" if row in spurious else _KIND[int(packets.kind[row])],
            )
            for row in shown.tolist()
        ), len(rows)

    def _waited(self) -> tuple[tuple[Waited, ...], int]:
        split, silences = self.shared.splits[self.direction], self.shared.silences[self.direction]
        begins, ends = split.edges_ns[:-1], split.edges_ns[1:]
        waits = ~np.isin(split.limit, list(_NOT_WAITED)) & (ends > self.begin) & (begins < self.end) & (ends > begins)
        rows = np.flatnonzero(waits)
        frames = self.packets.frame[silences.data]
        out = []
        for row in np.sort(rows[_largest((ends - begins)[rows])]).tolist():
            at = int(np.searchsorted(silences.data_ns, ends[row]))
            before = int(np.searchsorted(silences.data_ns, begins[row], side="right")) - 1
            out.append(
                Waited(
                    at_ms=to_ms(int(begins[row]) - self.zero),
                    ms=to_ms(int(ends[row] - begins[row])),
                    cause=LIMITS[split.limit[row]],
                    frame=int(frames[at]) if at < len(frames) else None,
                    before_frame=int(frames[before]) if 0 <= before < len(frames) else None,
                )
            )
        return tuple(out), len(rows)

    def _rate(self) -> tuple[float, ...]:
        """Mbit/s of payload by equal parts of the time."""
        rows, width = self.one.rows, _part(self.begin, self.end)
        rows = rows[self._inside(rows)]
        parts = (self.packets.t_ns[rows] - self.begin) // width
        count = (self.end - self.begin) // width + 1
        sums = np.bincount(parts, weights=self.packets.size[rows], minlength=count)
        return tuple((sums * 8 / (width / NS_PER_S) / 1e6).tolist())


_KIND = {int(Kind.RETRANSMISSION): "retransmission", int(Kind.OUT_OF_ORDER): "out-of-order"}


def _largest(values: I64) -> I64:
    """Places of the largest, in their order."""
    if len(values) <= _MOST:
        return np.arange(len(values))
    return np.sort(np.argpartition(values, len(values) - _MOST)[-_MOST:])
