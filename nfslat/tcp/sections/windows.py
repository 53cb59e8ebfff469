"""Windows, bytes in flight and what limited the senders -> a section of the report."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import adding_up, ms, percent
from nfslat.model.causes import LIMITS, WORDS, Cause
from nfslat.report.blocks import Block, Cell, Gap, Prose, Table, Title
from nfslat.report.text_layout import count, count_of
from nfslat.tcp.limits import Limits
from nfslat.tcp.sections.rounds import times
from nfslat.tcp.waits import Waits
from nfslat.tcp.windows import CountsFrom, Windows, ZeroWindow

_NOTHING = "{}: else the application had nothing to send, or it was the other side's turn."
_SHOWN = 5  # zero windows
_LITTLE = 0.01  # of the run: a sender with less to send is limited by nothing that matters


def windows_section(found: Waits) -> Iterator[Block]:
    """What kept each sender from sending more."""
    used = [
        (limits, windows)
        for limits, windows in zip(found.limits, found.windows, strict=True)
        if windows.in_flight_max_bytes is not None or found.one_sided is not None
    ]
    if not used:
        return
    yield Title("What limited the sender")
    if found.one_sided is not None:
        yield Prose(
            f"The capture shows packets of {found.one_sided} alone (a mirror of one direction, or an asymmetric "
            "route): what limited a sender cannot be told from it.",
            style="bold",
        )
        return
    ways = [limits for limits, _ in used]
    if not any(_has_data(limits) for limits in ways):
        yield Prose(_NOTHING.format(" and ".join(_busy(limits) for limits in ways)), hanging=2, style="bold")
    for limits, windows in used:
        if any(_has_data(limits) for limits in ways):
            yield Prose(_answer(limits), hanging=2, style="bold")
        if limits.needless:
            yield Prose(_needless(limits), hanging=2)
        if windows.zero_count:
            yield Prose(_zero_answer(windows), hanging=2)
    yield Gap()
    if any(_has_data(limits) for limits in ways):
        yield Table("l" + "rr" * len(ways), ["limited by", *_headers(ways)], _rows(ways))
        arrows = ", ".join(f"{'->' if limits.direction == 0 else '<-'} from {limits.sender}" for limits in ways)
        yield Prose(f"{arrows}; of busy: of the time in which that sender had data to send.", style="dim")
        yield Gap()
    for _, windows in used:
        for line in _about(windows):
            yield Prose(line, hanging=2)


def _has_data(limits: Limits) -> bool:
    return limits.most is not None and limits.busy_ms >= _LITTLE * limits.total_ms


def _busy(limits: Limits) -> str:
    return f"{limits.sender} had data to send {percent(_part(limits.busy_ms, limits.total_ms))} of the time"


def _answer(limits: Limits) -> str:
    if limits.most is None or not _has_data(limits):
        return _NOTHING.format(_busy(limits))
    most = next(one for one in limits.limits if one.limit is limits.most)
    busy = _part(limits.busy_ms, limits.total_ms)
    return (
        f"{limits.sender}: {WORDS[limits.most].limited} for {percent(most.share_of_busy)} of the time it had data "
        f"to send, which is {percent(busy)} of the run."
    )


def _needless(limits: Limits) -> str:
    one = next(one for one in limits.limits if one.limit is Cause.SPURIOUS)
    return (
        f"{limits.sender} sent {count_of(limits.needless, 'packet')} again that had arrived, {ms(one.ms)} ms in all: "
        "no loss (its timer was early, or packets were reordered; shown by D-SACK, or by ACKs already in transit)."
    )


def _part(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _headers(used: list[Limits]) -> list[str]:
    return [head for limits in used for head in (f"{'->' if limits.direction == 0 else '<-'} ms", "of busy")]


def _rows(used: list[Limits]) -> list[list[Cell]]:
    shown = [adding_up([one.ms for one in limits.limits]) for limits in used]
    rows: list[list[Cell]] = []
    for at, limit in enumerate(LIMITS):
        if any(limits.limits[at].ms for limits in used):
            cells: list[Cell] = [WORDS[limit].limit]
            for limits, (parts, _) in zip(used, shown, strict=True):
                cells += [parts[at], percent(limits.limits[at].share_of_busy)]
            rows.append(cells)
    total: list[Cell] = ["the conversation"]
    for _, whole in shown:
        total += [whole, ""]
    return [*rows, total]


def _zero_answer(windows: Windows) -> str:
    shown = ", ".join(_zero(zero) for zero in windows.zero_windows[:_SHOWN])
    more = f", and {count(windows.zero_count - _SHOWN)} more" if windows.zero_count > _SHOWN else ""
    return (
        f"{windows.receiver} closed its window {times(windows.zero_count)}, {ms(windows.zero_ms)} ms in all: its "
        f"application did not read. {shown[0].upper()}{shown[1:]}{more}."
    )


def _zero(zero: ZeroWindow) -> str:
    probes = f", {count_of(zero.probes, 'probe')}" if zero.probes else ""
    opened = "did not open" if zero.opened_by is None else f"opened by {zero.opened_by}, frame {zero.opened_frame}"
    return f"frame {zero.frame} for {ms(zero.ms)} ms ({opened}{probes})"


def _about(windows: Windows) -> list[str]:
    """Scale, sizes, and what is odd about the windows of one receiver."""
    least, typical, most = windows.window_min_bytes, windows.window_typical_bytes, windows.window_max_bytes
    lines = []
    if least is not None and typical is not None and most is not None:
        sizes = f"{count(least)} to {count(most)} bytes, as a rule {count(typical)}"
        if least == most:
            sizes = f"always {count(most)} bytes"
        word = "" if windows.scale is not None else " or more"
        lines.append(f"Window of {windows.receiver}: {sizes}{word}; {_scale(windows)}.")
    lines.append(
        f"In flight from {windows.sender}: up to {count_of(windows.in_flight_max_bytes or 0, 'byte')}, at most "
        f"{count(windows.in_flight_p95_bytes or 0)} behind 95 % of the packets."
    )
    if windows.below_two_segments:
        lines.append(
            f"Small windows: {count(windows.below_two_segments)} open ones below two segments, "
            f"{count(windows.below_segment)} of them below one, into which a sender avoiding silly windows sends "
            "nothing."
        )
    if windows.full:
        frames = ", ".join(str(frame) for frame in windows.full_frames)
        lines.append(f"The window was full behind {count_of(windows.full, 'packet')} (frames {frames}).")
    if windows.counts_from is not CountsFrom.ACK:
        unseen = (
            " Not all the data that these acknowledge are in the capture: whether it was full cannot be told from it."
        )
        lines.append(
            f"{windows.receiver} has one window for all subflows of the MPTCP connection; it counts from DATA_ACKs "
            f"(RFC 8684).{unseen if windows.counts_from is CountsFrom.UNSEEN else ''}"
        )
    if windows.shrunk:
        frames = ", ".join(str(frame) for frame in windows.shrunk_frames)
        lines.append(
            f"{windows.receiver} shrank the window it had offered {times(windows.shrunk)}, up to "
            f"{count(windows.shrunk_most_bytes)} bytes (frames {frames}). It should not (RFC 9293 section 3.8.6)."
        )
    return lines


def _scale(windows: Windows) -> str:
    if windows.scale is not None:
        return f"window scale {windows.scale} (factor {windows.factor}), as the handshake agreed"
    return (
        f"window scale not known, because the handshake is not in the capture: at least {windows.scale_at_least} "
        f"(factor {1 << windows.scale_at_least}), or what was in flight would not fit"
    )
