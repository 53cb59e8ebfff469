"""Outcomes -> what the server answered: statuses, requests that were tried again, and state that was made anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat.answer.outcomes import Outcomes, Recovery, StatusRow, TriedAgain
from nfslat.answer.words import ms
from nfslat.report.blocks import Block, Item, Prose, Table, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.sections.tables import op_label
from nfslat.report.text_layout import count_of, plain

_QUIET = ("done", "everyday", "unknown")
_IN_WORDS = {
    "everyday": "everyday",
    "grace": "retry later: grace period",
    "delay": "come again later",
    "locked": "locked by another",
    "state": "state not known",
    "lost": "gone for good",
    "other": "",
}
_MOST_RECOVERIES = 10


def outcomes_section(outcomes: Outcomes) -> Iterator[Block]:
    """Nothing where all statuses are everyday ones."""
    if is_quiet(outcomes):
        return
    yield Title("NFS errors: ops by status")
    yield _statuses(outcomes)
    if outcomes.tried_again:
        yield Title("Requests that were put off and tried again, s from the first try to the last answer")
        yield from _tried_again(outcomes.tried_again)
    if outcomes.recoveries:
        yield Title("State that the client re-established")
        yield from _recoveries(outcomes.recoveries)


def is_quiet(outcomes: Outcomes) -> bool:
    """Are all statuses such as applications meet every day?"""
    return all(row.means in _QUIET for rows in outcomes.statuses.values() for row in rows)


def _statuses(outcomes: Outcomes) -> Table:
    """All but what went well; the same row for each side."""
    counts: dict[tuple[str, str, str, str, str], dict[str, int]] = {}
    for side, rows in outcomes.statuses.items():
        for row in rows:
            if row.status:
                counts.setdefault(_key(row), {})[side] = row.count
    ordered = sorted(counts.items(), key=lambda one: (one[0][4] == "everyday", -max(one[1].values()), one[0]))
    counted = [f"1.{side} {'count' if side == 'capture' else side}" for side in outcomes.statuses]
    return table(ordered, [*_STATUSES, *columns("count", *counted, none="0")])


_STATUSES = (
    *columns("text", "0.0 op"),
    Column("vers", "0.1", "right", goes=1),
    *columns("text", "0.2 status", "0.3 failed in"),
    Column("says", "0.4", goes=1),
)


def _key(row: StatusRow) -> tuple[str, str, str, str, str]:
    name = plain(row.name or "")
    failed = "" if row.failed_op in (None, row.op) else str(row.failed_op)
    return op_label(row.program, row.op), plain(row.version), name, failed, _IN_WORDS.get(row.means, plain(row.means))


def _tried_again(rows: Sequence[TriedAgain]) -> Iterator[Block]:
    yield table(rows, _TRIED_AGAIN)
    if any(row.open for row in rows):
        yield Prose("Those that are still open were put off to the end of the capture: at least that long.")


_TRIED_AGAIN = (
    *(*columns("text", "op"), *columns("right", "version vers")),
    Column("put off with", lambda row: " ".join(row.statuses), goes=1),
    *columns("count", "requests", "tries", "succeeded succeeded\nin the end", "open still\nopen"),
    *columns("seconds", "mean_ms mean", "max_ms max", "between_ms between"),
)


def _recoveries(rows: Sequence[Recovery]) -> Iterator[Block]:
    for row in rows[:_MOST_RECOVERIES]:
        calls = ", ".join(f"{plain(name)}{'' if count == 1 else f' x {count}'}" for name, count in row.calls.items())
        waited = f"; {count_of(row.waited, 'request')} waited for it" if row.waited else ""
        yield Item(f"{row.at}, for {ms(row.ms)} ms: {calls}{waited}")
    if len(rows) > _MOST_RECOVERIES:
        yield Prose(f"and {count_of(len(rows) - _MOST_RECOVERIES, 'time')} more, which the JSON report has.")
