"""Fleet -> text for a terminal: the answer, what is common to whom, a hundred clients on one screen, the server."""

from __future__ import annotations

from nfslat.fleet.model import Fleet, Pattern
from nfslat.fleet.text_clients import clients_section
from nfslat.fleet.text_patterns import SCOPES, how_much, how_sure, no_pattern, sentence, who
from nfslat.fleet.text_server import server_section
from nfslat.fleet.text_words import compared, definitions, facts_line, few_digits, problem_line, run_lines, span
from nfslat.report.sections.tables import op_label
from nfslat.report.text_layout import Cell, Page, count, shorten

_MOST_PATTERNS = 8  # of a scope
_MOST_NAMES = 8
_MOST_PROBLEMS = 20
_MOST_OPS = 12
_MANY = 100_000_000  # ops; more have few digits, or the table is too wide


def render(fleet: Fleet, *, width: int = 80, color: bool = False, all_clients: bool = False) -> str:
    """The report as text of at most `width` columns (80 if it is less); `all_clients`: none is only counted."""
    page = Page(width, color)
    page.prose(fleet.verdict.text, style="bold")
    reasons = "; ".join(fleet.verdict.reasons) or "no reason given"
    page.prose(f"Confidence is {fleet.verdict.confidence}: {reasons}.", hanging=2)
    page.prose(facts_line(fleet), hanging=2)
    patterns_section(page, fleet, all_clients=all_clients)
    clients_section(page, fleet, all_clients=all_clients)
    server_section(page, fleet)
    ops_section(page, fleet)
    problems_section(page, fleet)
    page.title("How this was made")
    for line in run_lines(fleet.run):
        page.prose(line, hanging=2)
    drill_down_section(page, fleet)
    page.title("Every number explained")
    for word, meaning in definitions(fleet):
        page.prose(f"{word}: {meaning}", hanging=2, style="dim")
    page.gap()
    page.prose(
        f"nfslat {fleet.nfslat.version}, engine {fleet.nfslat.engine}: {fleet.nfslat.command}", hanging=2, style="dim"
    )
    return page.text()


def patterns_section(page: Page, fleet: Fleet, *, all_clients: bool = False) -> None:
    """What adds time, and to whom: to all, to groups, to single ones; when, how much, how sure."""
    page.title("What is common, and to whom")
    if not fleet.patterns:
        page.prose(no_pattern(fleet))
    day = fleet.captures.begin
    for scope in dict.fromkeys([*SCOPES, *(one.scope for one in fleet.patterns)]):
        found = [one for one in fleet.patterns if one.scope == scope]
        shown = found if all_clients else found[:_MOST_PATTERNS]
        for one in shown:
            _pattern(page, one, day, all_clients=all_clients)
        if len(found) > len(shown):
            rest = len(found) - len(shown)
            page.prose(f"- {SCOPES.get(scope, scope).lower()}: {count(rest)} more (--all-clients)", hanging=2)


def _pattern(page: Page, one: Pattern, day: str | None, *, all_clients: bool) -> None:
    facts = [span(one.begin, one.end, day), how_much(one), f"confidence {how_sure(one)}"]
    page.prose(
        f"- {who(one)}: {one.layer}, {one.cause or 'cause not known'}; {', '.join(fact for fact in facts if fact)}",
        hanging=2,
        style="bold",
    )
    page.prose(sentence(one), indent=2)
    if one.scope != "all" and len(one.clients) > 1:
        names = one.clients if all_clients else one.clients[:_MOST_NAMES]
        more = f" and {count(len(one.clients) - len(names))} more" if len(one.clients) > len(names) else ""
        page.prose(f"Clients: {', '.join(shorten(name, 40) for name in names)}{more}.", indent=2, hanging=2)


def ops_section(page: Page, fleet: Fleet) -> None:
    """Means and percentiles of each operation, over all clients."""
    shown = fleet.by_op[:_MOST_OPS]
    rows = [*shown, *([fleet.total] if fleet.total is not None else [])]
    if not rows:
        return
    page.title("Matched ops of all clients, ms")
    cells: list[list[Cell]] = [
        [
            "all ops" if one is fleet.total else shorten(op_label(one.program, one.op), 24),
            "" if one is fleet.total else shorten(one.version, 7),
            one.count if one.count < _MANY else few_digits(one.count),
            one.client_ms.mean,
            one.network_ms.mean,
            one.server_ms.mean,
            one.queue_ms if one.queue_ms is not None else "-",
            one.client_ms.p99,
            one.server_ms.p99,
        ]
        for one in rows
    ]
    headers = (
        "op",
        "vers",
        "count",
        "client\nmean",
        "network\nmean",
        "server\nmean",
        "of it\nqueue",
        "client\np99",
        "server\np99",
    )
    page.table("llrdddddd", headers, cells)
    if len(fleet.by_op) > len(shown):
        page.prose(f"and {count(len(fleet.by_op) - len(shown))} more operations, which the JSON report has.")


def problems_section(page: Page, fleet: Fleet) -> None:
    """What could not be done, what was left out, and what the reader must know."""
    if fleet.problems or fleet.notes:
        page.title("What could not be done, and what to know")
    ordered = sorted(fleet.problems, key=lambda one: not one.fatal)
    for one in ordered[:_MOST_PROBLEMS]:
        page.prose(f"- {problem_line(one)}", hanging=2, style="accent" if one.fatal else "")
    if len(ordered) > _MOST_PROBLEMS:
        page.prose(f"- and {count(len(ordered) - _MOST_PROBLEMS)} more, which the JSON report has", hanging=2)
    for note in fleet.notes:
        page.prose(f"- {note}", hanging=2)


def drill_down_section(page: Page, fleet: Fleet) -> None:
    """The command that shows the first client again, by itself."""
    first = next((one for one in compared(fleet.clients) if one.command), None)
    if first is None:
        return
    page.title("To look into one client")
    page.prose(f"The two-sided report of {shorten(first.name, 40)}; those of the others likewise:")
    page.command("", first.command, indent=2)
