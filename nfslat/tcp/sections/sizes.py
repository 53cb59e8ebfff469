"""Sizes and throughput -> sections of the report: how large, how fast, and whether the network can be what limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from nfslat.answer.words import ms, percent
from nfslat.report.blocks import Block, Gap, Prose, Title
from nfslat.report.columns import columns, table
from nfslat.report.text_layout import count, count_of, rate
from nfslat.tcp.bursts import Spill
from nfslat.tcp.carried import Carried
from nfslat.tcp.sizes import Correlation, Runts, Sizes, WaySizes
from nfslat.tcp.throughput import Throughput, WayThroughput

_IDLE = 0.5  # of what the path carried: with more in use the network is not ruled out
_LITTLE = 0.1  # of the time: a sender that waits less for the path is not held up by its bandwidth
_MANY_RUNTS = 0.05  # of the segments
_CLEAR = 0.5  # a correlation that is weaker explains less than a fourth


def sizes_section(found: Sizes) -> Iterator[Block]:
    """Sizes of packets and of what the application wrote, with what small pieces cost."""
    ways = [way for way in found.ways if way.data_packets]
    if not ways:
        return
    yield Title("Sizes of segments, and of what the application writes")
    for way in ways:
        yield from _way(way)


def _way(way: WaySizes) -> Iterator[Block]:
    yield Prose(f"{way.sender} to {way.receiver}: {_amount(way)}")
    rows = [("packet", mode) for mode in way.modes]
    # Where each write is one packet, one table says all.
    if [mode.bytes for mode in way.modes] != [mode.bytes for mode in way.burst_modes]:
        rows += [("write", mode) for mode in way.burst_modes]
    if rows:
        yield table(rows, _MODES)
    for spill in way.spills:
        yield Prose(_spill(spill), style="bold")
    if not way.spills:
        for near in (near for near in way.near if near.headers_bytes):
            yield Prose(
                f"{count(near.bytes)} bytes are a buffer of {count(near.buffer_bytes)} less "
                f"{count(near.headers_bytes)} of headers: on SQL*Net, an SDU of {count(near.buffer_bytes)}."
            )
    if way.runts is not None and (way.runts.share >= _MANY_RUNTS or way.runts.waited):
        yield Prose(_runts(way.runts))
    if way.correlation is not None and way.correlation.is_sure and abs(way.correlation.rho) >= _CLEAR:
        yield Prose(_correlation(way.correlation))
    yield Gap()


def _amount(way: WaySizes) -> str:
    text = f"{count(way.bytes)} bytes in {count_of(way.data_packets, 'packet')}."
    if way.mss is None:
        text += " The size of a full segment is not known: no SYN was captured, and the sizes do not reveal it."
    else:
        source = "by the SYN" if way.mss_source == "syn" else "by the sizes, because no SYN was captured"
        text += f" A full segment has {count(way.mss)} bytes ({source})."
    if way.super_packets:
        text += (
            f" Larger ones (offload): {count_of(way.super_packets, 'packet')}, in place of "
            f"{count(way.super_segments or 0)} segments."
        )
    if way.left_out:
        text += f" Left out: {count_of(way.left_out, 'keep-alive or probe')}."
    return text


_MODES = (
    *(*columns("text", "0 "), *columns("count", "1.bytes bytes", "1.count count")),
    *columns("share", "1.share share", "1.bytes_share of all bytes"),
)


def _spill(spill: Spill) -> str:
    text = f"Units of {count(spill.unit_bytes)} bytes are sent in two, {count(spill.count)} times: "
    text += f"{count(spill.piece_bytes)}, then {count(spill.rest_bytes)}."
    if spill.limit_bytes is not None:
        over = spill.unit_bytes - spill.limit_bytes
        text += f" They are {count_of(over, 'byte')} larger than {count(spill.limit_bytes)}."
    if spill.waited_for_ack:
        text += (
            f" {count_of(spill.waited_for_ack, 'remainder')} waited for an ACK; together {ms(spill.waited_ms)} ms "
            "passed between the two."
        )
    return text + f" Use at most {count(spill.use_at_most_bytes)} bytes, headers included: that fits in one packet."


def _runts(runts: Runts) -> str:
    text = (
        f"Runts: {count_of(runts.count, 'segment')} ({percent(runts.share)}) not full, with more behind "
        f"{'them' if runts.count != 1 else 'it'} in the same turn, {count(runts.queued)} within 1 ms."
    )
    if runts.spare_segments > 0:
        text += f" Full segments would have been {count(runts.spare_segments)} fewer."
    if runts.waited:
        text += f" Small ones that waited for a delayed ACK: {count(runts.waited)}, {ms(runts.waited_ms)} ms in all."
    return text


def _correlation(found: Correlation) -> str:
    more = "more" if found.rho > 0 else "less"
    return (
        f"Intervals with larger packets carry {more} (rank correlation {found.rho:.2f} over {count(found.points)} "
        f"intervals of {ms(found.interval_ms)} ms)."
    )


def throughput_section(found: Throughput) -> Iterator[Block]:
    """Rates, and what the path has shown that it can carry; the answer first."""
    ways = [way for way in found.ways if way.bytes]
    if not ways:
        return
    yield Title("Throughput, Mbit/s of payload")
    if all(_path(way) is None for way in ways):
        yield Prose("The path's capacity was not seen: no 64 KB arrived without a pause.", style="bold")
    else:
        for way in ways:
            yield Prose(_answer(way), style="bold")
    yield table(ways, _RATES)
    yield Prose(
        "run: over the whole conversation; sending: without pauses; 1 s, 100 ms, 10 ms: the most in any such time.",
        style="dim",
    )


_RATES = (
    *(*columns("text", "sender from"), *columns("count", "new_bytes bytes")),
    *columns("rate", "run_mbit_s run", "sending_mbit_s sending", "peak_1s_mbit_s 1 s", "peak_100ms_mbit_s 100 ms"),
    *columns("rate", "peak_10ms_mbit_s 10 ms"),
)


def _path(way: WayThroughput) -> Carried | None:
    """What it carried over the longest time that tells; a plateau is not one, and says so itself."""
    return None if way.used_share is None else way.sustained or way.carried


def _answer(way: WayThroughput) -> str:
    who = f"{way.sender} to {way.receiver}: "
    if way.policer is not None:
        return (
            f"{who}a policer of about {rate(way.policer.mbit_s)} Mbit/s? {percent(way.policer.lost_share)} of the "
            f"bytes were lost, and {percent(way.policer.share)} of the intervals of {ms(way.policer.interval_ms)} ms "
            "carried within a tenth of that rate, while the sender always had more to send."
        )
    if way.is_flat and way.plateau is not None:
        return (
            f"{who}bandwidth-limited at {rate(way.plateau.mbit_s)} Mbit/s: {percent(way.plateau.share)} of the busy "
            f"intervals of {ms(way.plateau.interval_ms)} ms have that rate (a link, a shaper, a policer, or a sender "
            "that paces itself)."
        )
    path = _path(way)
    if path is None or way.used_share is None:
        return f"{who}the path's capacity was not seen: no 64 KB arrived without a pause."
    text = f"{percent(way.used_share)} of the {_carried(path)}"
    if way.is_short and way.path_wait_share >= _LITTLE:
        return (
            f"{who}{text} were used: for so short a time a shaper or policer passes the full line rate. The sender "
            f"waited for the path {percent(way.path_wait_share)} of the time; its bandwidth is not ruled out."
        )
    if way.used_share < _IDLE:
        return f"{who}the network is used at {text}: bandwidth is not the limit."
    return f"{who}{text} were used. It was not seen to carry more, so bandwidth is not ruled out."


def _carried(path: Carried) -> str:
    at = datetime.fromtimestamp(path.begin_ns // 1_000_000_000, UTC).strftime("%H:%M:%S UTC")
    return (
        f"{rate(path.mbit_s)} Mbit/s that it carried for {ms(path.ms)} ms at {at} (frames {path.frame} to "
        f"{path.last_frame})"
    )
