"""Report -> its phases: when response times changed for good, and what is said of each stretch of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat.answer.model import Phase
from nfslat.answer.words import adding_up, percent
from nfslat.report.blocks import Block, Prose, Table, Title
from nfslat.report.text_layout import count

_SECONDS = slice(11, 21)  # of ISO 8601: to the tenth


def phases_section(phases: Sequence[Phase]) -> Iterator[Block]:
    """A row each; nothing where there is only one."""
    if not phases:
        return
    yield Title("Phases: when response times changed to another level")
    rows = []
    for one in phases:
        (network, server), client = adding_up([one.network_ms, one.server_ms])
        when = one.begin[_SECONDS], one.end[_SECONDS]
        rows.append([*when, count(one.ops), percent(one.time_share), client, server, network, _said(one)])
    yield Table("llrrdddl", ["from", "to", "ops", "time", "client", "server", "network", "mostly"], rows)
    yield Prose(
        "Means in ms, leaving out a twentieth of a phase where it borders on another; time is the share of all "
        "response times. --start and --end show one phase by itself."
    )


def _said(one: Phase) -> str:
    said = one.cause or one.layer or one.largest_layer or one.outcome
    return said if one.threads_estimate is None else f"{said}; {count(one.threads_estimate)} at once"
