"""Report -> its phases, when response times changed for good, and its pairs of hosts; and what is said of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat.answer.model import HostPair, Phase
from nfslat.answer.words import adding_up
from nfslat.report.blocks import Block, Prose, Table, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.text_layout import count, count_of

_SECONDS = slice(11, 21)  # of ISO 8601: to the tenth
_MOST = 10  # pairs that a screen has


def phases_section(phases: Sequence[Phase]) -> Iterator[Block]:
    """A row each; nothing where there is only one."""
    if not phases:
        return
    yield Title("Phases: when response times changed to another level")
    yield _judged([(one, one.begin[_SECONDS], one.end[_SECONDS]) for one in phases])
    yield Prose(
        "Means in ms, leaving out a twentieth of a phase where it borders on another; time is the share of all "
        "response times. --start and --end show one phase by itself."
    )


def pairs_section(pairs: Sequence[HostPair], *, brief: bool = False) -> Iterator[Block]:
    """A row each; nothing where there is only one."""
    if not pairs:
        return
    yield Title("Pair by pair: who calls whom")
    shown = pairs[: _MOST if brief else None]
    yield _judged([(one, one.client, one.server) for one in shown])
    if len(pairs) > len(shown):
        yield Prose(f"{count_of(len(pairs) - len(shown), 'pair')} more: --sections pairs", style="dim")
    if not brief:
        yield Prose(
            "Means in ms; time is the share of all response times. Each pair is judged by itself, with a clock of its "
            "own, the threads of its server (whoever takes them) and the slots of its connections. --client-addr and "
            "--server-addr show one by itself."
        )


def _judged(rows: Sequence[tuple[Phase | HostPair, str, str]]) -> Table:
    """What was judged by itself, from where to where; the means add up."""
    sums = [adding_up([one.network_ms, one.server_ms]) for one, _, _ in rows]
    return table(((*row, *parts, client) for row, (parts, client) in zip(rows, sums, strict=True)), _JUDGED)


_JUDGED = (
    *(*columns("text", "1 from", "2 to"), *columns("count", "0.ops ops"), *columns("share", "0.time_share time")),
    *columns("ms", "5 client", "4 server", "3 network"),
    Column("mostly", lambda row: _mostly(row[0])),
)


def _mostly(one: Phase | HostPair) -> str:
    open_ = "too few ops" if isinstance(one, Phase) else "not judged alone"
    said = one.cause or one.layer or one.largest_layer or one.outcome or open_
    return said if one.threads_estimate is None else f"{said}; {count(one.threads_estimate)} at once"
