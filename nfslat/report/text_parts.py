"""Report -> where the time goes, part by part, what TCP lost, and what is known of the clocks; a section a function."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.report.model import Clock, MatchedRow, Parts, PartSummaries, Summary, TcpAmount, Transport
from nfslat.report.text_layout import Cell, Page, adding_up, count, count_of, indented, ms, percent, shares_adding_up


def parts_section(page: Page, total: MatchedRow, slowest: MatchedRow | None) -> None:
    """Where the client's time goes: five parts, or four where the clocks do not tell the two directions apart."""
    page.title("Where the time goes, ms per matched op")
    both = [total.parts_ms] if slowest is None else [total.parts_ms, slowest.parts_ms]
    split = all(parts.call_net is not None and parts.reply_net is not None for parts in both)
    columns: list[list[str]] = []
    for parts in both:
        values = [value for _, value in _parts(parts, split)]
        shown, sum_shown = adding_up(values)
        columns += [[*shown, sum_shown], [*shares_adding_up(values), ""]]
    labels = [label for label, _ in _parts(both[0], split)]
    error = f"+/- {ms(max(parts.one_way_error or 0.0 for parts in both))}" if split else ""
    columns = [[*labels, "sum, first to last byte"], *columns]
    columns.append([error if "_net:" in label else "" for label in columns[0]])
    # What is part of a part, from below, so that the rows above keep their places.
    for name, label in (("reply_retrans_wait", "reply_net:"), ("call_retrans_wait", "call_net:")):
        waits = [getattr(parts, name) for parts in both]
        at = next((row for row, own in enumerate(labels) if own.startswith(label)), None)
        if at is not None and any(waits):
            cells = [
                cell
                for wait, column in zip(waits, columns[1::2], strict=False)
                for cell in (_like(column[at], wait), "")
            ]
            for column, cell in zip(columns, [indented("until it was sent again", 1), *cells, ""], strict=True):
                column.insert(at + 1, cell)
    headers = ["part", "mean", "share"] + (["slowest 1 %", "share"] if slowest is not None else []) + [""]
    page.table("l" + "dr" * len(both) + "l", headers, [list(row) for row in zip(*columns, strict=True)])
    page.prose(_direction(total.parts_ms))


def _like(shown: str, value: float | None) -> str:
    """`value` with as many decimals as a number next to it; nothing where it is not known."""
    return "" if value is None else f"{value:.{len(shown.partition('.')[2])}f}"


def _parts(parts: Parts, split: bool) -> list[tuple[str, float]]:
    network = [("net_both: call and reply on the network", parts.net_both)]
    if split and parts.call_net is not None and parts.reply_net is not None:
        network = [
            ("call_net: call on the way", parts.call_net),
            ("reply_net: reply on the way", parts.reply_net),
        ]
    return [
        ("call_send: client sends it", parts.call_send),
        *network[:1],
        ("server: call in to reply out", parts.server),
        ("reply_send: server sends it", parts.reply_send),
        *network[1:],
    ]


def _direction(parts: Parts) -> str:
    """Which way on the network takes longer, as far as the clocks tell."""
    error = parts.one_way_error
    if error is None:
        return "Which of the two ways on the network takes longer cannot be told: nothing is known of the clocks."
    if parts.call_net is None or parts.reply_net is None:
        return (
            "How the time on the network divides between call and reply cannot be told: the clocks are known to "
            f"+/- {ms(error)} ms only, which is more than one of the two."
        )
    more = parts.call_net - parts.reply_net
    if abs(more) <= 2 * error:
        return (
            "Which way on the network takes longer cannot be told: the two differ by less than their errors together."
        )
    longer, shorter = ("call", "reply") if more > 0 else ("reply", "call")
    return (
        f"On the network the {longer} takes longer than the {shorter}, by {ms(abs(more))} ms +/- {ms(2 * error)}. The "
        "sum of both is exact."
    )


def part_percentiles_section(page: Page, parts: PartSummaries) -> None:
    """The distribution of each part: what makes the slow ones slow is often not what makes the mean."""
    page.title("Percentiles of the parts, ms")
    one_way = parts.one_way_error
    rows: list[list[Cell]] = []
    for name in ("call_send", "call_net", "server", "reply_send", "reply_net"):
        summary: Summary | None = getattr(parts, name)
        error = f"+/- {ms(one_way)}" if name.endswith("_net") and one_way is not None and summary else ""
        if summary is None:
            rows.append([name, "", "", "", "", "cannot tell"])
        else:
            figures = (summary.p50, summary.p95, summary.p99, summary.max)
            rows.append([name, *(float(value) for value in figures), error])
    page.table("lddddl", ("part", "p50", "p95", "p99", "max", ""), rows)


_MOST_STEPS = 5
_FINE_MS = 0.01  # bounds that are nearer to each other need more than three decimals
# Caveats (transport.py) in words.
_CAVEATS = {
    "sender-drops": "the sender's capture lost packets, so more may have been sent again",
    "receiver-drops": "the receiver's capture lost packets, so less may have been lost on the way",
    "partial": "the captures show only some of the same bytes; these are counted",
    "other-numbers": "TCP numbers are rewritten on the way, so that all of both captures is counted",
    "events-dropped": "there were too many retransmissions to keep each",
    "copies-unknown": "over IPv6 a packet that was captured twice looks sent again",
}


def transport_section(page: Page, transport: Sequence[Transport]) -> None:
    """What TCP sent again, by direction, where it did: loss between two captures is counted, not guessed."""
    if not any(one.sent_again.packets or one.arrived_again.packets for one in transport):
        return
    page.title("TCP between the captures")
    ways = [[one for one in transport if one.way == way] for way in ("call", "reply")]

    def row(label: str, cells: list[int | str]) -> list[Cell]:
        return [label, *cells]

    def amounts(name: str) -> list[int | str]:
        return [_segments([getattr(one, name) for one in way]) for way in ways]

    lost = [sum(one.lost_bytes for one in way) for way in ways]
    sent = [sum(one.bytes + one.sent_again.bytes for one in way) for way in ways]
    segments = [[one.lost_segments for one in way] for way in ways]
    lost_segments: list[int | str] = [
        "no SYN seen" if None in each else sum(n for n in each if n is not None) for each in segments
    ]
    rows = [
        row("segments sent again", amounts("sent_again")),
        row("that had arrived before (sent for nothing)", amounts("arrived_again")),
        row("segments lost on the way", lost_segments),
        row("share of the bytes lost", [percent(a / b if b else None) for a, b in zip(lost, sent, strict=True)]),
        row("matched ops of which bytes were sent again", [sum(one.ops_hit for one in way) for way in ways]),
    ]
    page.table("lrr", ("", "calls", "replies"), rows)
    seen = {
        caveat for one in transport for caveat in one.caveats if one.sent_again.packets or one.arrived_again.packets
    }
    for caveat in sorted(seen):
        page.prose(f"- {_CAVEATS.get(caveat, caveat)}", hanging=2)


def _segments(amounts: Sequence[TcpAmount]) -> int | str:
    """Segments where they are known, else packets as they were captured."""
    segments = [one.segments for one in amounts]
    if None in segments:
        return f"{count(sum(one.packets for one in amounts))} packets"
    return sum(n for n in segments if n is not None)


def clock_section(page: Page, clock: Clock) -> None:
    """How far apart the two clocks are, how well that is known, and what happened to them."""
    page.title("Clock")
    if clock.theta_ms is None or clock.bound_ms is None or clock.drift_ppm is None or clock.drift_bound_ppm is None:
        page.prose(
            f"No offset of the two clocks explains the ops: {count(clock.contradicting)} of {count(clock.messages)} "
            "calls and replies agree with none that the others allow, or the clocks run apart by 1 % or more. Time "
            "stamps or matches are wrong. One-way figures cannot be had."
        )
        return
    low, high = clock.bound_ms
    digits = 3 if high - low >= _FINE_MS else 6
    word = "behind" if clock.theta_ms < 0 else "ahead of"
    when = f" at {clock.at}" if clock.drift_ppm or clock.steps or clock.rate_changes else ""
    page.prose(
        f"The server's clock is {abs(clock.theta_ms):,.{digits}f} ms {word} the client's{when} (theta between "
        f"{low:,.{digits}f} and {high:,.{digits}f} ms). Client SRT, server SRT and their difference need no clock; "
        "one-way figures carry its error."
    )
    least, most = clock.drift_bound_ppm
    if clock.drift_ppm:
        page.prose(
            f"The clocks drift: theta changes by {clock.drift_ppm:+,.1f} ppm, {clock.drift_ppm * 3.6:+,.1f} ms an hour "
            f"(between {least:+,.1f} and {most:+,.1f} ppm). The server's times are put on the client's clock."
        )
    else:
        page.prose(f"No drift is seen; the bounds leave room for {least:+,.1f} to {most:+,.1f} ppm.")
    for step in clock.steps[:_MOST_STEPS]:
        whose = f"The {step.clock}'s clock" if step.clock else "One of the clocks"
        by = step.ms if step.set_by_ms is None else step.set_by_ms
        way = "" if step.set_by_ms is None else " forward" if by > 0 else " back"
        error = max(abs(step.ms - bound) for bound in step.bound_ms)
        page.prose(
            f"- {whose} was set{way} by {abs(by):,.3f} ms (+/- {ms(error)}), at {step.at} or up to "
            f"{ms(step.within_ms)} ms later. Ops that were under way then are matched, but not timed.",
            hanging=2,
        )
    if len(clock.steps) > _MOST_STEPS:
        page.prose(
            f"- And {count(len(clock.steps) - _MOST_STEPS)} times more; the JSON report has them all.", hanging=2
        )
    if clock.rate_changes:
        page.prose(
            f"- The rate of a clock changed {count_of(clock.rate_changes, 'time')}, or it was set by less than a round "
            "trip; what is said above is about the longest time in between.",
            hanging=2,
        )
    if clock.contradicting:
        page.prose(
            f"- {count(clock.contradicting)} of {count(clock.messages)} calls and replies contradict the others (wrong "
            "stamps, or packets that a capture saw late); the clock does not rest on them.",
            hanging=2,
        )
