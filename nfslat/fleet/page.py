"""Fleet -> one self-contained HTML page, in the style of the two-sided report's; it asks no network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import quote

from nfslat.answer.words import adding_up
from nfslat.findings.catalogue import CODES, row
from nfslat.fleet.charts import charts
from nfslat.fleet.model import Client, Fleet, OpRow, Pattern
from nfslat.fleet.sections import words
from nfslat.report.html.page import filled
from nfslat.report.html.tiles import Tile
from nfslat.report.text_layout import first_sentence

_PACKAGE = "nfslat.fleet"
_DETAILED = 300  # clients; of more a row has no packet of details, or the page would be too large for a mail
_LAYERS = ("server", "network", "client")


@dataclass(frozen=True)
class Row:
    """A client in the table."""

    rank: int | None  # None: it was not compared
    client: Client
    layer: str
    cause: str
    link: str | None  # to its report, where it lies beside the page
    detailed: bool


def render(fleet: Fleet, *, folder: str | None = None) -> str:
    """The page, ending in a newline. Where `folder` is given, in which it is to stand, it has links to the clients' own
    reports in the run's folder.

    Raises ``UsageError`` where the libraries of the extra ``html`` are not installed.
    """
    pictures = charts(fleet)
    rows = _rows(fleet, folder)
    day = fleet.captures.begin
    return filled(
        "fleet",
        pictures,
        package=_PACKAGE,
        fleet=fleet,
        title=_title(fleet),
        contents=_contents(fleet, {one.section for one in pictures}),
        verdict=first_sentence(fleet.verdict.text),
        layer=fleet.verdict.layer if fleet.verdict.layer in _LAYERS else "unknown",
        layers=_LAYERS,
        do=_do(fleet),
        facts=words.facts_line(fleet),
        inferred_line=words.inferred_line(fleet),
        tiles=_tiles(fleet.total),
        patterns=_by_scope(fleet),
        span=lambda one: words.span(one.begin, one.end, day),
        say=words,
        no_card=words.no_pattern(fleet),
        rows=rows,
        some_detailed=any(row.detailed for row in rows),
        out=sum(row.client.outlier for row in rows if row.rank is not None),
        compared=len(words.compared(fleet.clients)),
        server_line="" if fleet.server is None else words.server_line(fleet.server),
        phases=[] if fleet.server is None else [words.phase_line(one, day) for one in fleet.server.phases],
        windows=[] if fleet.server is None else fleet.server.windows,
        op_rows=[*fleet.by_op, *([fleet.total] if fleet.total is not None and len(fleet.by_op) != 1 else [])],
        problems=sorted(fleet.problems, key=lambda one: not one.fatal),
        run=words.run_lines(fleet.run),
        definitions=words.definitions(fleet),
    )  # fmt: skip


def _title(fleet: Fleet) -> str:
    name = "the server" if fleet.server is None else fleet.server.name
    return f"NFS latency of {len(fleet.clients):,} client{'' if len(fleet.clients) == 1 else 's'} of {name}"


def _contents(fleet: Fleet, drawn: set[str]) -> list[tuple[str, str]]:
    return [
        ("answer", "Answer"), ("common", "What is common"),
        *([("over-time", "Clients by time")] if "heat" in drawn else []),
        *([("side-by-side", "Side by side")] if "clients" in drawn else []), ("clients", "All clients"),
        ("server", "The server"), *([("ops", "Operations")] if fleet.by_op or fleet.total else []),
        ("problems", "What is missing"), ("run", "How this was made"), ("definitions", "Definitions"),
    ]  # fmt: skip


def _tiles(total: OpRow | None) -> list[Tile]:
    """The mean client SRT and what it is the sum of."""
    if total is None:
        return []
    whole, server = total.client_ms.mean, total.server_ms.mean
    parts = [("network", "network", "Network", total.network_ms.mean, "client SRT minus server SRT, op by op")]
    if total.queue_ms is None:
        parts.append(("server", "server", "Server SRT", server, "at the server's wire"))
    else:
        wait = "of the server SRT, until a thread takes the call"
        parts.append(("thread", "server", "In the server", server - total.queue_ms, "server SRT without the wait"))
        parts.append(("queue", "server", "Wait for a thread", total.queue_ms, wait))
    shown, added = adding_up([value for _, _, _, value, _ in parts])
    means = "mean over all ops of all clients, at the clients' wire"
    return [
        Tile("client", "whole", "Client SRT", whole, added, None, None, "", None, means),
        *(
            Tile(key, layer, title, value, text, value / whole if whole > 0 else None, None, "", None, said)
            for (key, layer, title, value, said), text in zip(parts, shown, strict=True)
        ),
    ]


def _do(fleet: Fleet) -> tuple[str, str]:
    """The cause, and what mends it; two empty texts where none is known."""
    verdict = fleet.verdict
    known = verdict.outcome == "fault" and verdict.cause in CODES
    return (verdict.cause, row(verdict.cause).do) if known and verdict.cause else ("", "")


def _by_scope(fleet: Fleet) -> list[Pattern]:
    """What is common to all first, then groups, then single ones."""
    order = [*words.SCOPES, *(one.scope for one in fleet.patterns)]
    return sorted(fleet.patterns, key=lambda one: order.index(one.scope))


def _rows(fleet: Fleet, folder: str | None) -> list[Row]:
    """All clients: those that were compared in their order, then the others."""
    ranked = [(rank, one) for rank, one in enumerate(words.compared(fleet.clients), 1)]
    known = {id(one) for _, one in ranked}
    everybody: list[tuple[int | None, Client]] = [
        *ranked,
        *((None, one) for one in fleet.clients if id(one) not in known),
    ]
    return [
        Row(
            rank,
            one,
            words.layer_of(one) if words.layer_of(one) in _LAYERS else "unknown",
            words.cause_of(one) if rank is not None else words.STATES.get(one.state, one.state),
            _link(one.report, fleet.run.out, folder),
            len(everybody) <= _DETAILED or one.outlier,
        )
        for rank, one in everybody
    ]


def _link(report: str | None, out: str | None, folder: str | None) -> str | None:
    """A relative address; None for what cannot be reached by one. Nothing in it is a scheme: its colons are numbers."""
    if not report or out is None or folder is None or any("://" in one for one in (report, out, folder)):
        return None
    try:
        path = os.path.relpath(os.path.join(out, report), folder or ".")
        return f"./{quote(path.encode('utf-8', 'surrogateescape'))}"
    except ValueError:  # a zero, half of a character: no file has such a name
        return None
