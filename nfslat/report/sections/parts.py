"""Report -> where the time goes, part by part, and what is known of the clocks; a section a function."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.model import Clock, MatchedRow, Parts, PartSummaries
from nfslat.answer.words import adding_up, ms, shares_adding_up
from nfslat.report.blocks import Block, Cell, Item, Prose, Table, Title, indented
from nfslat.report.columns import columns, table
from nfslat.report.text_layout import count, count_of


def parts_section(total: MatchedRow, slowest: MatchedRow | None) -> Iterator[Block]:
    """Where the client's time goes: five parts, or four where the clocks do not tell the two directions apart."""
    yield Title("Where the time goes, ms per matched op")
    both = [total.parts_ms] if slowest is None else [total.parts_ms, slowest.parts_ms]
    split = all(parts.call_net is not None and parts.reply_net is not None for parts in both)
    columns: list[list[str]] = []
    for parts in both:
        values = [value for _, value in _parts(parts, split)]
        of = ["server" if label.startswith("server") else "network" for label, _ in _parts(parts, split)]
        shown, sum_shown = adding_up(values, of=of)
        columns += [[*shown, sum_shown], [*shares_adding_up(values, of), ""]]
    labels = [*(label for label, _ in _parts(both[0], split)), "sum, first to last byte"]
    error = f"+/- {ms(max(parts.one_way_error or 0.0 for parts in both))}" if split else ""
    rows: list[list[Cell]] = []
    for at, label in enumerate(labels):
        rows.append([label, *(column[at] for column in columns), error if "_net:" in label else ""])
        within = _WITHIN.get(label.partition(":")[0])
        waits = [getattr(parts, within) for parts in both] if within else []
        if any(waits):
            again = [(_like(column[at], wait), "") for wait, column in zip(waits, columns[::2], strict=True)]
            rows.append([indented("until it was retransmitted", 1), *(cell for pair in again for cell in pair), ""])
    headers = ["part", "mean", "share"] + (["slowest 1 %", "share"] if slowest is not None else []) + [""]
    yield Table("l" + "dr" * len(both) + "l", headers, rows)
    yield Prose(_direction(total.parts_ms))


# What is part of a part.
_WITHIN = {"call_net": "call_retrans_wait", "reply_net": "reply_retrans_wait"}


def _like(shown: str, value: float | None) -> str:
    """`value` with as many decimals as a number next to it; nothing where it is not known."""
    return "" if value is None else f"{value:.{len(shown.partition('.')[2])}f}"


def _parts(parts: Parts, split: bool) -> list[tuple[str, float]]:
    network = [("net_both: call and reply on the network", parts.net_both)]
    if split and parts.call_net is not None and parts.reply_net is not None:
        network = [
            ("call_net: call in transit", parts.call_net),
            ("reply_net: reply in transit", parts.reply_net),
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
        return "Which direction takes longer cannot be told: nothing is known of the clocks."
    if parts.call_net is None or parts.reply_net is None:
        return (
            "How the network time divides between call and reply cannot be told: the clocks are known to +/- "
            f"{ms(error)} ms only, which is more than either of the two."
        )
    more = parts.call_net - parts.reply_net
    if abs(more) <= 2 * error:
        return "Which direction takes longer cannot be told: the two differ by less than their combined error."
    longer, shorter = ("call", "reply") if more > 0 else ("reply", "call")
    return (
        f"On the network the {longer} takes longer than the {shorter}, by {ms(abs(more))} ms +/- {ms(2 * error)}. The "
        "sum of both is exact."
    )


def part_percentiles_section(parts: PartSummaries) -> Iterator[Block]:
    """The distribution of each part: what makes the slow ones slow is often not what makes the mean."""
    yield Title("Percentiles of the parts, ms")
    one_way = None if parts.one_way_error is None else f"+/- {ms(parts.one_way_error)}"
    known = [(name, getattr(parts, name)) for name in _PARTS]
    errors = ["cannot tell" if of is None else one_way if name.endswith("_net") else None for name, of in known]
    rows = [(name, of, error or "") for (name, of), error in zip(known, errors, strict=True)]
    yield table(rows, _PERCENTILES)


_PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")
_PERCENTILES = (
    *columns("text", "0 part"),
    *columns("ms", "1.p50 p50", "1.p95 p95", "1.p99 p99", "1.max max", none=""),
    *columns("text", "2 "),
)


_MOST_STEPS = 5
_FINE_MS = 0.01  # bounds that are nearer to each other need more than three decimals


def clock_section(clock: Clock) -> Iterator[Block]:
    """How far apart the two clocks are, how well that is known, and what happened to them."""
    yield Title("Clock")
    if clock.theta_ms is None or clock.bound_ms is None or clock.drift_ppm is None or clock.drift_bound_ppm is None:
        yield Prose(
            f"No offset of the two clocks explains the ops: {count(clock.contradicting)} of {count(clock.messages)} "
            "calls and replies contradict every offset that the others allow, or the clocks drift apart by 1 % or "
            "more. Time stamps or matches are wrong. One-way figures are not available."
        )
        return
    low, high = clock.bound_ms
    digits = 3 if high - low >= _FINE_MS else 6
    word = "behind" if clock.theta_ms < 0 else "ahead of"
    when = f" at {clock.at}" if clock.drift_ppm or clock.steps or clock.rate_changes else ""
    yield Prose(
        f"The server's clock is {abs(clock.theta_ms):,.{digits}f} ms {word} the client's{when} (theta between "
        f"{low:,.{digits}f} and {high:,.{digits}f} ms). Client SRT, server SRT and their difference need no clock; "
        "one-way figures carry the clock error."
    )
    least, most = clock.drift_bound_ppm
    if clock.drifts:
        yield Prose(
            f"The clocks drift: theta changes by {clock.drift_ppm:+,.1f} ppm, {clock.drift_ppm * 3.6:+,.1f} ms an "
            f"hour (between {least:+,.1f} and {most:+,.1f} ppm). The server's times are converted to the client's "
            "clock."
        )
    else:
        yield Prose(f"No drift is seen; the bounds allow {least:+,.1f} to {most:+,.1f} ppm.")
    for step in clock.steps[:_MOST_STEPS]:
        whose = f"The {step.clock}'s clock" if step.clock else "One of the clocks"
        by = step.ms if step.set_by_ms is None else step.set_by_ms
        way = "" if step.set_by_ms is None else " forward" if by > 0 else " back"
        error = max(abs(step.ms - bound) for bound in step.bound_ms)
        yield Item(
            f"{whose} was set{way} by {abs(by):,.3f} ms (+/- {ms(error)}), at {step.at} or up to "
            f"{ms(step.within_ms)} ms later. Operations in flight at that moment are matched, but not timed.",
        )
    if len(clock.steps) > _MOST_STEPS:
        yield Item(f"And {count(len(clock.steps) - _MOST_STEPS)} times more; the JSON report has them all.")
    if clock.rate_changes:
        yield Item(
            f"A clock's rate changed {count_of(clock.rate_changes, 'time')}, or it was set by less than a round "
            "trip; what is said above is about the longest time in between.",
        )
    if clock.contradicting:
        yield Item(
            f"{count(clock.contradicting)} of {count(clock.messages)} calls and replies contradict the others (wrong "
            "stamps, or packets that a capture stamped late); the clock estimate does not use them.",
        )
