"""Latencies that were measured layer by layer, without captures -> the stack, findings and verdict, as text or JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from nfslat.answer.model import Finding, StackRow, Verdict
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
from nfslat.report.blocks import Block, Item, Prose
from nfslat.report.sections.findings import findings_section
from nfslat.report.sections.tables import stack_section
from nfslat.report.text_writer import write

_SCHEMA = "nfslat.stack/2"


@dataclass(frozen=True)
class Numbers:
    """Means in ms, over the same requests; None: not measured."""

    client_ms: float
    server_ms: float
    app_ms: float | None = None
    thread_ms: float | None = None
    storage_ms: float | None = None
    threads: int | None = None
    slots: int | None = None
    version: str = "3"
    server_host: Snapshot | None = None
    client_host: Snapshot | None = None


@dataclass(frozen=True)
class Answer:
    """Without what only captures tell."""

    verdict: Verdict
    stack: list[StackRow]
    notes: list[str]
    findings: list[Finding]


def answer(n: Numbers) -> Answer:
    """Raises ``UsageError`` where a layer takes longer than what contains it."""
    for inner, outer in _CONTAINED:
        a, b = getattr(n, inner), getattr(n, outer)
        if a is not None and b is not None and a > b:
            names = (name.replace("_", "-") for name in (inner, outer))
            raise UsageError(f"--{next(names)} {a:g} is more than --{next(names)} {b:g}, which contains it")
    threads = n.threads
    if threads is None and n.server_host is not None:
        threads = n.server_host.threads
    above = None if n.app_ms is None or n.app_ms <= n.client_ms else n.app_ms - n.client_ms
    mean = Layers(n.server_ms, n.client_ms - n.server_ms, above)
    facts = Facts(
        mean=mean,
        queue_ms=None if n.thread_ms is None else n.server_ms - n.thread_ms,
        queue_is_measured=n.thread_ms is not None,
        storage_ms=n.storage_ms,
        threads=threads,
        slots=n.slots,
        version=n.version,
        server_host=n.server_host,
        client_host=n.client_host,
    )
    found = ranked([*server_findings(facts), *client_findings(facts)], mean.total_ms)
    layer = Layer(
        title="all",
        client=n.client_ms,
        server=n.server_ms,
        app=n.app_ms,
        queue=None if n.thread_ms is None else n.server_ms - n.thread_ms,
        queue_source="--thread-ms",
        storage=n.storage_ms,
        threads=threads,
    )
    rows, notes = layers(layer, Known())
    rows = [dataclasses.replace(row, source=_OPTIONS.get(row.source, row.source)) for row in rows]
    return Answer(verdict(mean, None, None, found), rows, notes, [one.as_finding() for one in found])


_CONTAINED = (
    *(("server_ms", "client_ms"), ("thread_ms", "server_ms")),
    *(("storage_ms", "thread_ms"), ("storage_ms", "server_ms")),
)
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
    yield from findings_section(found.findings, None)


def dump(found: Answer, out: TextIO) -> None:
    """The answer as JSON; its parts are those of the report (``nfslat.report/2``)."""
    json.dump({"schema": _SCHEMA, **dataclasses.asdict(found)}, out, indent=2, allow_nan=False)
    out.write("\n")
