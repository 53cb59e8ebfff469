"""What conversations waited for to the last -> lines of the answer, and a section for those that are not in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nfslat.report.blocks import Block, Item, Prose, Title
from nfslat.report.text_layout import count, count_of, duration
from nfslat.tcp.hangs import Hanging
from nfslat.tcp.model import Detail, Report
from nfslat.tcp.open_waits import Hang
from nfslat.tcp.sections.rounds import times

_SHOWN = 10  # of those that are not in full
_TRIES = {
    Hang.WINDOW: "probe",
    Hang.ACK: "transmission",
    Hang.SYN: "SYN",
    Hang.HALF_OPEN: "SYN-ACK",
    Hang.KEEP_ALIVE: "keep-alive",
    Hang.RESET: "RST",
    Hang.REFUSED: "SYN",
}
_WHAT = {
    Hang.WINDOW: "{waiter} waits for {other} to open its window",
    Hang.ACK: "{waiter} waits for an ACK from {other}",
    Hang.SYN: "{waiter} waits for an answer to its SYN from {other}",
    Hang.HALF_OPEN: "{waiter} waits for the ACK of its SYN-ACK from {other}: the connection is half open",
    Hang.KEEP_ALIVE: "{waiter} waits for an answer to its keep-alives from {other}",
}
_NAMES = {
    Hang.WINDOW: "shut window",
    Hang.ACK: "no ACK",
    Hang.SYN: "no answer to SYN",
    Hang.HALF_OPEN: "half open",
    Hang.KEEP_ALIVE: "no answer to keep-alives",
    Hang.RESET: "reset",
    Hang.REFUSED: "refused",
}
_ENDED = {
    "waiter's reset": "until it gave up with a RST (frame {frame})",
    "other's reset": "until a RST came (frame {frame})",
    "next connection": "until its next connection",
}


def of_detail(one: Detail, report: Report) -> list[Hanging]:
    """Those of a conversation in full; with two captures it may have another number in the second one."""
    streams = (one.stream, None) if one.ends is None else one.ends.streams
    return [hanging for hanging in report.hangs if streams[hanging.capture] == hanging.stream]


def hang_line(one: Hanging) -> Block:
    """Who waits for what, since when, how long, and how often it asked."""
    return Prose(_sentence(one), hanging=2, style="bold")


def hangs_section(report: Report) -> Iterator[Block]:
    """Those of conversations that are not in full."""
    shown = {id(one) for detail in report.details for one in of_detail(detail, report)}
    others = [one for one in report.hangs if id(one) not in shown]
    if not others:
        return
    kinds = Counter(one.hang for one in others)
    yield Title(f"Other conversations that hang, or were reset: {count(len(others))}")
    yield Prose(f"{'; '.join(f'{_NAMES[hang]} {count(number)}' for hang, number in kinds.most_common())}.")
    for one in others[:_SHOWN]:
        yield Item(f"{_place(one)}: {_sentence(one)}")
    if len(others) > _SHOWN:
        yield Prose(f"The {_SHOWN} longest; --json has all {count(len(others))}.")


def _place(one: Hanging) -> str:
    return f"no {one.stream}" + (" of the second capture" if one.capture else "")


def _sentence(one: Hanging) -> str:
    if one.hang in (Hang.RESET, Hang.REFUSED):
        return _cut(one)
    text = _WHAT[one.hang].format(waiter=one.waiter, other=one.other)
    until = " at the capture's end"
    if one.ended_by is not None:
        until = f", {_ENDED[one.ended_by].format(frame=one.ended_frame)}"
    return f"{text}, since {one.since} (frame {one.frame}): for {duration(one.ms)}{until}. {_tries(one)}"


def _tries(one: Hanging) -> str:
    """How often it asked, and what came of it."""
    parts = [f"{count_of(one.tries, _TRIES[one.hang])}, the last one after {duration(one.last_try_ms)}"]
    if one.tries_arrived is not None:
        parts.append(f"{count(one.tries_arrived)} of them in the other capture")
    if one.hang is Hang.WINDOW:
        parts.append(f"answered {times(one.answers)}, the window still closed" if one.answers else "no answer")
    elif one.answers:
        parts.append(f"{count_of(one.answers, 'packet')} came meanwhile")
    if one.bytes:
        parts.append(f"{count_of(one.bytes, 'byte')} not acknowledged")
    return f"{'; '.join(parts)}."


def _cut(one: Hanging) -> str:
    if one.hang is Hang.REFUSED:
        return (
            f"{one.other} refused the connection of {one.waiter}: a RST (frame {one.ended_frame}) {duration(one.ms)} "
            f"after its SYN (frame {one.frame})."
        )
    bytes_ = f"; {count_of(one.bytes, 'byte')} of {one.waiter} not acknowledged" if one.bytes else ""
    return (
        f"{one.other} reset the connection instead of answering {one.waiter}: frame {one.frame}, at {one.since}, "
        f"{duration(one.ms)} before the capture's end{bytes_}."
    )
