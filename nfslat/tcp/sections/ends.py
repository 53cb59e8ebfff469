"""A conversation at both ends -> a section: what was lost on the way, and how long the way takes."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import ms, percent
from nfslat.report.blocks import Block, Prose, Table, Title
from nfslat.report.columns import columns, table
from nfslat.report.text_layout import count, count_of
from nfslat.tcp.model import Ends, Passed

_HELD = 3  # episodes that are shown


def ends_section(found: Ends) -> Iterator[Block]:
    """Loss by direction, one-way delays with their error, packets held on the way."""
    yield Title("Between the two captures")
    for way in found.passed:
        yield Prose(_lost(way), hanging=2, style="bold" if way.lost_bytes else "")
        for one in way.held[:_HELD]:
            yield Prose(
                f"Held in transit: from {ms(one.at_ms)} ms on {count_of(one.packets, 'packet')} for up to "
                f"{ms(one.peak_ms)} ms, and released together.",
                indent=2,
            )
        if len(way.held) > _HELD:
            yield Prose(f"And {count_of(len(way.held) - _HELD, 'time')} more.", indent=2)
        if way.impossible_delays:
            yield Prose(
                f"A clock was set: {count_of(way.impossible_delays, 'packet')} would have taken negative time and "
                "are left out of the delays.",
                indent=2,
            )
    rows = []
    if found.round_trip_ms is not None:
        rows.append(("there and back", found.least_round_trip_ms, found.round_trip_ms, "exact"))
    for way in found.passed:
        if way.delay_ms is not None:
            error = "" if way.delay_error_ms is None else f"+/- {ms(way.delay_error_ms)}"
            rows.append((f"from {way.sender}", way.least_delay_ms, way.delay_ms, error))
    if rows:
        yield table(rows, _TRIPS)
    fates = list(dict.fromkeys(name for way in found.passed for side in way.fates for name in side))
    heads = ["packets", *(f"{way} at {end}" for way in ("->", "<-") for end in ("sender", "receiver"))]
    sides = [way.fates[side] for way in found.passed for side in (way.sender_capture, 1 - way.sender_capture)]
    yield Table("lrrrr", heads, [[name, *(of.get(name, 0) for of in sides)] for name in fates])
    yield Prose(
        f"-> from {found.passed[0].sender}, <- from {found.passed[1].sender}. in other packets: cut up or joined by "
        "offload. lost: some bytes arrived fewer times than they were sent. not captured: some are missing there "
        "although acknowledged.",
        style="dim",
    )


_TRIPS = (
    *(*columns("text", "0 in transit, ms"), *columns("count", "2.count packets"), *columns("ms", "1 min")),
    *columns("ms", "2.p50_ms p50", "2.p95_ms p95", "2.p99_ms p99", "2.max_ms max"),
    *columns("text", "3 "),
)


def _lost(way: Passed) -> str:
    text = f"{way.sender} to {way.receiver}: "
    if not way.bytes:
        return text + "no payload."
    text += f"{count_of(way.lost_bytes, 'byte')} in {count_of(way.lost_packets, 'packet')} lost in transit "
    text += f"({percent(way.lost_share)} of the bytes sent)"
    if way.needless:
        text += f"; {count_of(way.needless, 'packet')} retransmitted spuriously: all of it had arrived"
    if way.reordered:
        text += f"; {count_of(way.reordered, 'packet')} arrived after later ones (reordered)"
    if way.missed_bytes:
        text += f"; {count(way.missed_bytes)} arrived, and the receiver's capture missed them"
    if way.surplus_bytes:
        text += f"; {count(way.surplus_bytes)} are not in the sender's capture, or were duplicated in transit"
    return text + "."
