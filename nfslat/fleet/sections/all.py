"""Fleet -> text for a terminal: the answer, what is common to whom, a hundred clients on one screen, the server."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import some_of
from nfslat.fleet.model import Fleet, Pattern
from nfslat.fleet.sections import words
from nfslat.fleet.sections.clients import clients_section
from nfslat.fleet.sections.server import server_section
from nfslat.report.blocks import Block, Command, Item, Prose, Title
from nfslat.report.columns import Column, columns, group_columns, table
from nfslat.report.markdown import paragraphs
from nfslat.report.sections.all import made_by
from nfslat.report.sections.overview import next_blocks
from nfslat.report.sections.tables import op_label
from nfslat.report.text_layout import count, first_sentence, shorten
from nfslat.report.text_writer import write

_MOST_PATTERNS = 8  # of a scope
_MOST_NAMES = 8
_MOST_PROBLEMS = 20
_MOST_OPS = 12
_MANY = 100_000_000  # ops; more have few digits, or the table is too wide


def render(fleet: Fleet, *, width: int = 80, color: bool = False, all_clients: bool = False) -> str:
    """The report as text of at most `width` columns (80 if it is less); `all_clients`: none is only counted."""
    return write(_blocks(fleet, all_clients=all_clients), width=width, color=color)


def _blocks(fleet: Fleet, *, all_clients: bool) -> Iterator[Block]:
    yield Prose(fleet.verdict.text, style="bold")
    yield from _rest(fleet, all_clients=all_clients)


def markdown(fleet: Fleet) -> str:
    """The report as Markdown, for a ticket: the answer is its title."""
    first, rest = first_sentence(fleet.verdict.text)
    blocks = [Title(first), *([Prose(rest)] if rest else []), *_rest(fleet, all_clients=False)]
    return "\n\n".join(paragraphs(blocks)).replace("### ", "## ", 1) + "\n"


def _rest(fleet: Fleet, *, all_clients: bool) -> Iterator[Block]:
    reasons = "; ".join(fleet.verdict.reasons) or "no reason given"
    yield Prose(f"Confidence is {fleet.verdict.confidence}: {reasons}.", hanging=2)
    yield from next_blocks(fleet.verdict.next)
    yield Prose(words.facts_line(fleet), hanging=2)
    if line := words.inferred_line(fleet):
        yield Prose(line, hanging=2)
    yield from patterns_section(fleet, all_clients=all_clients)
    yield from clients_section(fleet, all_clients=all_clients)
    yield from server_section(fleet)
    yield from ops_section(fleet)
    yield from problems_section(fleet)
    yield Title("How this was made")
    for line in words.run_lines(fleet.run):
        yield Prose(line, hanging=2)
    yield from drill_down_section(fleet)
    yield Title("Every number explained")
    for word, meaning in words.definitions(fleet):
        yield Prose(f"{word}: {meaning}", hanging=2, style="dim")
    yield from made_by(fleet.nfslat)


def patterns_section(fleet: Fleet, *, all_clients: bool = False) -> Iterator[Block]:
    """What adds time, and to whom: to all, to groups, to single ones; when, how much, how sure."""
    yield Title("What is common, and to whom")
    if not fleet.patterns:
        yield Prose(words.no_pattern(fleet))
    day = fleet.captures.begin
    for scope in dict.fromkeys([*words.SCOPES, *(one.scope for one in fleet.patterns)]):
        found = [one for one in fleet.patterns if one.scope == scope]
        shown = found if all_clients else found[:_MOST_PATTERNS]
        for one in shown:
            yield from _pattern(one, day, all_clients=all_clients)
        if len(found) > len(shown):
            rest = len(found) - len(shown)
            yield Item(f"{words.SCOPES.get(scope, scope).lower()}: {count(rest)} more (--all-clients)")


def _pattern(one: Pattern, day: str | None, *, all_clients: bool) -> Iterator[Block]:
    facts = [words.span(one.begin, one.end, day), words.how_much(one), f"confidence {words.how_sure(one)}"]
    yield Item(
        f"{words.who(one)}: {one.layer}, {one.cause or 'cause not known'}; {', '.join(fact for fact in facts if fact)}",
        style="bold",
    )
    yield Prose(words.sentence(one), indent=2)
    if one.scope != "all" and len(one.clients) > 1:
        names = some_of([shorten(name, 40) for name in one.clients], len(one.clients) if all_clients else _MOST_NAMES)
        yield Prose(f"Clients: {names}.", indent=2, hanging=2)


def ops_section(fleet: Fleet) -> Iterator[Block]:
    """Means and percentiles of each operation, over all clients."""
    shown = fleet.by_op[:_MOST_OPS]
    rows = [*shown, *([fleet.total] if fleet.total is not None else [])]
    if not rows:
        return
    half = fleet.captures.inferred_ops
    yield Title(
        f"Ops of all clients, ms; of {count(half)} one side is inferred" if half else "Matched ops of all clients, ms"
    )
    names = (
        Column("op", lambda one: "all ops" if one is fleet.total else shorten(op_label(one.program, one.op), 24)),
        Column("vers", lambda one: "" if one is fleet.total else shorten(one.version, 7)),
    )
    yield table(rows, [*names, *_OPS, *group_columns(rows, between="\n")])
    if len(fleet.by_op) > len(shown):
        yield Prose(f"and {count(len(fleet.by_op) - len(shown))} more operations, which the JSON report has.")


_OPS = (
    Column("count", lambda one: one.count if one.count < _MANY else words.few_digits(one.count), "count"),
    *columns("ms", *(f"{side}_ms.mean {side}\nmean" for side in ("client", "network", "server"))),
    *columns("ms", *(f"{side}_ms.p99 {side}\np99" for side in ("client", "server"))),
)


def problems_section(fleet: Fleet) -> Iterator[Block]:
    """What could not be done, what was left out, and what the reader must know."""
    if fleet.problems or fleet.notes:
        yield Title("What could not be done, and what to know")
    ordered = sorted(fleet.problems, key=lambda one: not one.fatal)
    for one in ordered[:_MOST_PROBLEMS]:
        yield Item(f"{words.problem_line(one)}", style="accent" if one.fatal else "")
    if len(ordered) > _MOST_PROBLEMS:
        yield Item(f"and {count(len(ordered) - _MOST_PROBLEMS)} more, which the JSON report has")
    for note in fleet.notes:
        yield Item(note)


def drill_down_section(fleet: Fleet) -> Iterator[Block]:
    """The command that shows the first client again, by itself."""
    first = next((one for one in words.compared(fleet.clients) if one.command), None)
    if first is None:
        return
    yield Title("To look into one client")
    kind = "two-sided report" if first.inferred is None else "report"
    yield Prose(f"The {kind} of {shorten(first.name, 40)}; those of the others likewise:")
    yield Command("", first.command, indent=2)
