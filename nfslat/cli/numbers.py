"""Latencies that were measured layer by layer, without captures -> the stack, findings and verdict, as text or JSON."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import TextIO

from msgspec import structs

from nfslat.answer.model import Finding, StackRow, Verdict
from nfslat.cli import partial
from nfslat.errors import UsageError
from nfslat.evidence.known import Known
from nfslat.evidence.records import Snapshot
from nfslat.figures.stack import Layer, layers
from nfslat.findings.client import client_findings
from nfslat.findings.facts import Facts
from nfslat.findings.layers import Layers
from nfslat.findings.rank import ranked
from nfslat.findings.server import server_findings
from nfslat.findings.verdict import verdict
from nfslat.model.record import Record
from nfslat.report.blocks import Block, Command, Gap, Item, Prose
from nfslat.report.sections.findings import findings_section
from nfslat.report.sections.tables import stack_section
from nfslat.report.text_writer import write

_SCHEMA = "nfslat.stack/2"


class Numbers(Record):
    """Means in ms, over the same requests; None: not measured."""

    client_ms: float | None = None
    server_ms: float | None = None
    app_ms: float | None = None
    thread_ms: float | None = None
    storage_ms: float | None = None
    threads: int | None = None
    slots: int | None = None
    version: str = "3"
    server_host: Snapshot | None = None
    client_host: Snapshot | None = None


class Answer(Record):
    """Without what only captures tell."""

    verdict: Verdict
    stack: list[StackRow]
    notes: list[str]
    findings: list[Finding]


def answer(n: Numbers) -> Answer:
    """Of one figure or more. Raises ``UsageError`` where a layer takes longer than what contains it."""
    known = {name: value for name in partial.POINTS if (value := getattr(n, name)) is not None}
    wires = {"client_ms", "server_ms"} <= known.keys()
    for outer, inner in itertools.combinations(known, 2):
        # Beside both wires an application that is quicker than its wire is of other requests, which is said.
        if known[inner] > known[outer] and not (wires and outer == "app_ms"):
            names = [name.replace("_", "-") for name in (inner, outer)]
            raise UsageError(
                f"--{names[0]} {known[inner]:g} is more than --{names[1]} {known[outer]:g}, which contains it; "
                "give means of the same requests"
            )
    if n.client_ms is not None and n.server_ms is not None:
        return _answer_of_both_wires(n, n.client_ms, n.server_ms)
    return _answer_of_some(n, known)


def _answer_of_some(n: Numbers, known: dict[str, float]) -> Answer:
    whole, findings = next(iter(known.values())), []
    least = n.server_ms if n.server_ms is not None else n.thread_ms if n.thread_ms is not None else n.storage_ms
    if least is not None and (n.thread_ms is not None or n.storage_ms is not None):
        findings += server_findings(_facts(n, Layers(least, whole - least)))  # the server takes no less
    if n.app_ms is not None and n.client_ms is not None:
        findings += client_findings(_facts(n, Layers(n.client_ms, 0.0, n.app_ms - n.client_ms)))
    findings = ranked(findings, whole)
    parts = partial.parts(known)
    said = partial.verdict(known, parts, findings)
    return Answer(said, partial.rows(known, parts), [], [one.as_finding() for one in findings])


def _facts(n: Numbers, mean: Layers) -> Facts:
    threads = n.threads
    if threads is None and n.server_host is not None:
        threads = n.server_host.threads
    return Facts(
        mean=mean,
        queue_ms=None if n.thread_ms is None or n.server_ms is None else n.server_ms - n.thread_ms,
        queue_is_measured=n.thread_ms is not None,
        storage_ms=n.storage_ms,
        threads=threads,
        slots=n.slots,
        version=n.version,
        server_host=n.server_host,
        client_host=n.client_host,
    )


def _answer_of_both_wires(n: Numbers, client_ms: float, server_ms: float) -> Answer:
    above = None if n.app_ms is None or n.app_ms <= client_ms else n.app_ms - client_ms
    mean = Layers(server_ms, client_ms - server_ms, above)
    facts = _facts(n, mean)
    found = ranked([*server_findings(facts), *client_findings(facts)], mean.total_ms)
    layer = Layer(
        title="all",
        client=client_ms,
        server=server_ms,
        app=n.app_ms,
        queue=facts.queue_ms,
        queue_source="--thread-ms",
        storage=n.storage_ms,
        threads=facts.threads,
    )
    rows, notes = layers(layer, Known())
    rows = [structs.replace(row, source=_OPTIONS.get(row.source, row.source)) for row in rows]
    return Answer(verdict(mean, None, None, found), rows, notes, [one.as_finding() for one in found])


_OPTIONS = {"client capture": "--client-ms", "server capture": "--server-ms"}


def render(found: Answer, *, width: int, color: bool) -> str:
    """The answer for a terminal."""
    return write(_blocks(found), width=width, color=color)


def _blocks(found: Answer) -> Iterator[Block]:
    yield Prose(f"{found.verdict.text} Confidence: {found.verdict.confidence}.", style="bold")
    yield Prose(f"Confidence is {found.verdict.confidence}: {'; '.join(found.verdict.reasons)}.", hanging=2)
    yield from stack_section(found.stack)
    for note in found.notes:
        yield Item(note)
    if (step := found.verdict.next) is not None:
        yield Gap()
        yield Command("Next    ", step.command)
        yield Prose(f"{step.where}: {step.decides}", indent=8)
    of_all_layers = {"network", "server"} <= {row.layer for row in found.stack}
    if found.findings or of_all_layers:  # else little was looked for
        yield from findings_section(found.findings, None)


def dump(found: Answer, out: TextIO) -> None:
    """The answer as JSON; its parts are those of the report (``nfslat.report/2``)."""
    json.dump({"schema": _SCHEMA, **dataclasses.asdict(found)}, out, indent=2, allow_nan=False)
    out.write("\n")
