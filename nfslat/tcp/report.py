"""One trace, or two of one path -> the report (`model`): a line for each conversation, and the costliest in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import structs

from nfslat.clock.tick import tick_of_stamps
from nfslat.evidence.sqlnet_trace import SqlnetTrace
from nfslat.model.causes import LIMITS, Cause, Limit
from nfslat.model.tables import I64, endpoint
from nfslat.model.units import iso, to_ms, to_s
from nfslat.tcp import model
from nfslat.tcp.both import Both
from nfslat.tcp.counts import counts
from nfslat.tcp.ends import ends
from nfslat.tcp.floors import Place
from nfslat.tcp.hangs import hangs
from nfslat.tcp.mptcp import token
from nfslat.tcp.packets import Kind, Trace
from nfslat.tcp.pictures import pictures
from nfslat.tcp.progress import sender
from nfslat.tcp.shared import Shared
from nfslat.tcp.sight import Sight, alone, paired
from nfslat.tcp.sizes import sizes
from nfslat.tcp.sqlnet import conversation as sqlnet
from nfslat.tcp.stretches import stretches
from nfslat.tcp.throughput import throughput
from nfslat.tcp.turns import take, turns
from nfslat.tcp.waits import Waits, waits
from nfslat.tcp.walk import walk

T = TypeVar("T")
# What TCP itself made a sender wait for; the rest is the application's, or the path's pace.
_COSTS: tuple[Limit, ...] = (
    Cause.DELAYED_ACK, Cause.LOSS, Cause.SPURIOUS, Cause.RECEIVE_WINDOW, Cause.CONGESTION, Cause.UNKNOWN_WINDOW
)  # fmt: skip
_OFF_BY = 2  # ticks, a wait between two stamps and less than one
_SOME_PACKETS = 32_768  # that tell how slowly stamps tick
_CLOSELY = 64  # conversations with the most packets: of these it is worked out what TCP cost


class _Known(NamedTuple):
    """A conversation that was looked at closely."""

    rank: tuple[bool, float, int, int]  # the least one comes first
    row: int
    sight: Sight
    costs: tuple[model.Cost, ...]


def make(
    traces: Sequence[Trace],
    both: Both | None,
    tool: model.Tool,
    *,
    stream: int | None,
    top: int,
    trace: SqlnetTrace | None,
    drawn: int = 0,
    in_parts: bool = True,
) -> model.Report:
    """The report on the first of `traces`, with the second one of `both` where there are two.

    In full are the `top` conversations that TCP cost most, or that have most packets; or `stream` alone. `trace` is
    what SQL*Net itself said. `drawn`: of so many, what graphs are drawn from; `in_parts`: for comparisons alone.
    """
    first, tick_ns = traces[0], max(map(_tick_ns, traces))
    pairs = {} if both is None else {pair.rows[0]: pair for pair in both.pairs}
    packets = np.diff(first.begins)
    rows = np.flatnonzero(packets) if stream is None else np.array([stream])
    # Those that both captures show first: they are what two captures are for.
    order = sorted(rows.tolist(), key=lambda row: (row not in pairs, -packets[row], row))
    costs: dict[int, tuple[model.Cost, ...]] = {}
    best: list[_Known] = []
    for row in order[:_CLOSELY]:
        sight = paired(both, pairs[row]) if both is not None and row in pairs else alone(first, row)
        costs[row] = _costs(sight, tick_ns)
        rank = (row not in pairs, -sum(cost.ms for cost in costs[row]), -int(packets[row]), row)
        # What the others shared goes at once: together it is as large as the trace, or larger.
        best = sorted([*best, _Known(rank, row, sight, costs[row])], key=lambda one: one.rank)[:top]
    costliest = [known.row for known in best]
    details: list[model.Detail] = []
    for _, row, sight, costs_of in best:
        shared, talk = sight.main, sight.talk
        taken, found = take(shared), sqlnet.find(talk)
        details.append(
            model.Detail(
                stream=row,
                capture=sight.trace,
                a=sender(talk, 0),
                b=sender(talk, 1),
                begin=iso(int(talk.packets.t_ns.min())),
                duration_s=to_s(int(talk.packets.t_ns.max() - talk.packets.t_ns.min())),
                tick_ms=to_ms(tick_ns) if tick_ns else None,
                counts=_of_both(sight, lambda end, way: counts(end.talk, way)),
                costs=costs_of,
                turns=turns(talk, taken),
                walk=walk(talk, taken),
                waits=_waits(sight),
                throughput=throughput(shared),
                sizes=sizes(shared),
                sqlnet=found,
                sqlnet_trace=sqlnet.compare(talk, found, trace) if found is not None and trace is not None else None,
                ends=ends(both, sight, sight.ends, taken) if both is not None and sight.ends is not None else None,
                stretches=stretches(sight, taken) if in_parts else None,
                pictures=pictures(sight, taken) if len(details) < drawn else None,
            )
        )
    hanging = hangs(traces, both)
    notes = _notes(traces, both, len(rows), len(costs))
    if hanging.left_out:
        notes.append(
            f"conversations that may hang and were not examined because there are too many: {hanging.left_out:,}"
        )
    if trace is not None:
        notes += trace.notes
        if all(detail.sqlnet_trace is None for detail in details):
            others = [row for row in order[:_CLOSELY] if row not in costliest]
            notes.insert(0, _not_compared(first, others if stream is None else None))
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures=tuple(map(_capture, traces)),
        clock=None if both is None else _theta(both),
        conversations=tuple(_lines(first, rows, costs)),
        details=tuple(details),
        multipath=_multipath(first),
        hangs=hanging.all,
        notes=tuple(notes),
    )


def _of_both(sight: Sight, work: Callable[[Shared, int], T]) -> tuple[T, T]:
    """What `work` makes of either direction at its sender's end."""
    there, back = (work(end, way) for end, way in sight.at_sender)
    return there, back


def _waits(sight: Sight) -> Waits:
    """Each direction's from its sender's capture, under the names of the one that is shown."""
    own = waits(sight.main)
    if sight.ends is None:
        return own
    there, back = _of_both(sight, lambda end, way: (own if end is sight.main else waits(end), way))
    picked = [
        [structs.replace(getattr(found, kind)[way], direction=at) for at, (found, way) in enumerate((there, back))]
        for kind in ("rounds", "windows", "limits")
    ]
    rounds, windows, limits = ((one[0], one[1]) for one in picked)
    return structs.replace(own, place=Place.BOTH_ENDS, rounds=rounds, windows=windows, limits=limits)


def _costs(sight: Sight, tick_ns: int) -> tuple[model.Cost, ...]:
    """The largest first; none of waits that are no longer than stamps may be off."""
    there, back = _of_both(sight, lambda end, way: end.splits[way])
    sums, waited = there.sums_ns() + back.sums_ns(), there.waits + back.waits
    total = int(np.ptp(sight.talk.packets.t_ns))
    found = []
    for limit in _COSTS:
        at = LIMITS.index(limit)
        ns = int(sums[at])
        if ns > _OFF_BY * tick_ns * int(waited[at]):
            found.append(model.Cost(limit, to_ms(ns), ns / total if total else 0.0, int(waited[at])))
    return tuple(sorted(found, key=lambda cost: -cost.ms))


def _lines(trace: Trace, rows: I64, known: dict[int, tuple[model.Cost, ...]]) -> list[model.Line]:
    """Counted for all at once: there may be very many."""
    p = trace.packets
    packets = np.diff(trace.begins)
    # Each begins where the one before it that has packets ends.
    begins = trace.begins[rows]
    size, back, again = (
        np.add.reduceat(of, begins, dtype=np.int64)
        for of in (p.size, np.where(p.direction == 1, p.size, 0), p.kind == Kind.RETRANSMISSION)
    )
    first, last = (of.reduceat(p.t_ns, begins) for of in (np.minimum, np.maximum))
    lines = []
    for at, row in enumerate(rows.tolist()):
        ends_of = trace.conversations[row].ends
        costs = known.get(row)
        lines.append(
            model.Line(
                stream=row,
                a=endpoint(*ends_of.source(0)),
                b=endpoint(*ends_of.source(1)),
                begin=iso(int(first[at])),
                duration_s=to_s(int(last[at] - first[at])),
                packets=int(packets[row]),
                bytes=(int(size[at] - back[at]), int(back[at])),
                retransmissions=int(again[at]),
                cost_ms=None if costs is None else sum(cost.ms for cost in costs),
                most=costs[0].cause if costs else None,
                is_mptcp=trace.conversations[row].mptcp is not None,
            )
        )
    return lines


def _multipath(trace: Trace) -> tuple[model.Multipath, ...]:
    out = []
    for members in trace.mptcp:
        first = trace.conversations[members[0].row].mptcp
        if first is not None and first.version is not None:
            of_a, of_b = (None if key is None else f"{token(first.version, key):08x}" for key in first.keys)
            out.append(model.Multipath(first.version, tuple(one.row for one in members), (of_a, of_b)))
    return tuple(out)


def _capture(trace: Trace) -> model.Capture:
    return model.Capture(
        path=trace.source.name,
        first=iso(trace.first_ns),
        last=iso(trace.last_ns),
        duration_s=to_s(trace.last_ns - trace.first_ns),
        snaplen=trace.snaplen,
        packets=trace.total_packets,
        tcp_packets=len(trace.packets),
        copies=trace.copies,
        damaged_packets=trace.damaged,
        skipped_packets=trace.skipped_packets,
        other_packets=trace.other_packets,
        interface_drops=trace.interface_drops,
        damage=trace.damage,
        conversations=len(trace.conversations),
    )


def _theta(both: Both) -> model.Theta | None:
    if both.theta is None:
        return None
    clock = both.theta.clock
    if not clock.fits:
        return model.Theta(fits=False, theta_ms=None, bound_ms=None, drift_ppm=None, steps=0)
    low, high = clock.main.bounds_at(clock.main.t_ns)
    return model.Theta(
        fits=True,
        theta_ms=to_ms(clock.main.theta_ns),
        bound_ms=(to_ms(low), to_ms(high)),
        drift_ppm=clock.main.slope * 1e6,
        steps=len(clock.steps),
    )


def _notes(traces: Sequence[Trace], both: Both | None, found: int, closely: int) -> list[str]:
    """What the reader must know before believing a figure."""
    notes = [traces[0].source.made_from] if traces[0].source.made_from else []
    for trace in traces:
        name = trace.source.name
        if tick_ns := _tick_ns(trace):
            notes.append(
                f"{name}: its time stamps tick every {to_ms(tick_ns):g} ms: times of single packets, round trips, "
                "delays and percentiles are ticks, and one below none is no clock that was set; only sums and means of "
                "many hold"
            )
        if trace.damage:
            notes.append(f"{name}: {trace.damage}; what follows there is not in the figures")
        if trace.interface_drops:
            notes.append(f"{name}: the capturing host reports that it lost {trace.interface_drops:,} packets")
        missed = _uncaptured(trace)
        if missed:
            notes.append(f"{name}: {missed} acknowledged and not in it: the capture lost packets")
        if trace.copies:
            notes.append(f"{name}: {_copies(trace)}")
        if trace.damaged:
            notes.append(
                f"{name}: {trace.damaged:,} packets with sequence numbers far from all others and bad checksums are "
                "left out: they were damaged in transit"
            )
        if trace.misdated:
            notes.append(f"{name}: {trace.misdated:,} packets of an interface with impossible times are left out")
        late = sum(file.late for file in trace.source.files)
        if late:
            notes.append(
                f"{name}: {late:,} packets stood behind later ones in the file, by up to "
                f"{to_ms(max(file.latest_ns for file in trace.source.files)):.2f} ms, and were put in order"
            )
        back = int(np.count_nonzero(np.diff(trace.times_ns()) < 0))
        if back:
            notes.append(f"{name}: time runs backwards at {back:,} of its packets: short times there may be wrong")
    if found > closely:
        notes.append(f"the cost of TCP is worked out for the {closely} conversations with most packets, of {found:,}")
    if both is not None:
        alone = [len(trace.conversations) - len(both.pairs) for trace in traces]
        if any(alone):
            notes.append(
                f"conversations in both captures: {len(both.pairs):,}; only in the first: {alone[0]:,}; only in the "
                f"second: {alone[1]:,}"
            )
        if both.theta is not None and not both.theta.clock.fits:
            notes.append("no difference of the two clocks explains the packets: one-way delays are left out")
    return notes


def _not_compared(trace: Trace, others: Sequence[int] | None) -> str:
    """Why a SQL*Net trace stands beside no conversation; `others` are not shown in full (None: were not read)."""
    text = "the SQL*Net trace is not used: no conversation that is shown in full has TNS packets (SQL*Net)"
    if others is None:
        return f"{text}; without --stream others are looked at, too"
    row = next((row for row in others if sqlnet.find(alone(trace, row).talk) is not None), None)
    if row is not None:
        return f"{text}, but conversation {row} has: --stream {row}"
    return f"{text}, nor has any other that was looked at: it is of other connections, or they are encrypted"


def _tick_ns(trace: Trace) -> int:
    some_ns = trace.times_ns(_SOME_PACKETS)
    return tick_of_stamps(some_ns, len(some_ns))


def _uncaptured(trace: Trace) -> str:
    """Bytes that the capture lost; not those of a direction that it does not show at all."""
    p = trace.packets
    shown = np.zeros((len(trace.conversations), 2), dtype=np.bool_)
    shown[p.conversation, p.direction] = True
    missed = sum(
        way.lost_bytes
        for one, seen in zip(trace.conversations, shown.tolist(), strict=True)
        for way, is_seen in zip(one.ways, seen, strict=True)
        if is_seen
    )
    return "" if not missed else "1 byte was" if missed == 1 else f"{missed:,} bytes were"


def _copies(trace: Trace) -> str:
    """Packets that are there twice, by their IP identification: D-SACKs tell whether their receiver had them twice."""
    told = int(np.count_nonzero(trace.packets.is_dsack))
    text = f"{trace.copies:,} packets are in it twice and count once"
    if told * 2 < trace.copies:
        return f"{text}: the capture has them twice"
    return f"{text}: duplicated in transit, because their receivers report it for {told:,} (D-SACK)"
