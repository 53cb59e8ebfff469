"""Report -> what explains the time: ranked findings with what to do about them, what-if replays, outside evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nfslat.answer.model import Capture, Completeness, Finding, InFlight, WhatIf
from nfslat.answer.words import ms as exact_ms
from nfslat.answer.words import percent
from nfslat.findings.catalogue import MANUAL, looked_for, looked_for_in_figures, row
from nfslat.report.blocks import Advice, Block, Cell, Item, Prose, RankedFinding, Table, Title
from nfslat.report.text_layout import count, count_of, plain, shorten

LAYERS = ("server", "network", "client")  # those of the rest are about the captures, and stand with them
_MUCH_UNSEEN = 0.1
_WAITS = {"threads": "a thread", "slots": "a slot", "load": "nothing much"}


def findings_section(
    findings: Sequence[Finding],
    inflight: InFlight | None,
    captures: Mapping[str, Capture] | None = None,
    completeness: Completeness | None = None,
) -> Iterator[Block]:
    """Each finding with its share and what to do; those that explain little in a line; or that there are none.

    `inflight` and `captures` are None where the findings rest on figures alone.
    """
    causes = [one for one in findings if one.layer in LAYERS]
    warnings = [one for one in causes if one.severity == "warning"]
    yield Title("What explains the time")
    for number, one in enumerate(warnings, 1):
        yield _finding(one, number)
    for line in not_found(findings, inflight, captures, completeness):
        yield Prose(line)
    for one in causes:
        if one.severity != "warning":
            yield _finding(one, 0)


def one_side_findings_section(findings: Sequence[Finding]) -> Iterator[Block]:
    """Of one capture by itself, whose findings are few: nothing where there are none."""
    if not findings:
        return
    yield Title("What stands out in this capture")
    for number, one in enumerate(findings, 1):
        yield _finding(one, number if one.severity == "warning" else 0)


def advice_of(one: Finding) -> Advice:
    """What to do about it."""
    said = {key: value for key, value in one.advice.items() if value}
    words = {key: str(said[key]) for key in ("knob", "suggested", "takes_effect", "verify", "risk") if key in said}
    how, sources = _listed(said.get("how")), _listed(said.get("sources"))
    return Advice(**words, now=str(said.get("value", "")), how=how, sources=sources)


def _finding(one: Finding, number: int) -> RankedFinding:
    words = one.code, one.layer, one.confidence, explains(one), one.text
    return RankedFinding(number, *words, advice_of(one), row(one.code).answers)


def _listed(said: Any) -> list[str]:
    return [said] if isinstance(said, str) else [str(line) for line in said] if isinstance(said, list | tuple) else []


def not_found(
    findings: Sequence[Finding],
    inflight: InFlight | None,
    captures: Mapping[str, Capture] | None = None,
    completeness: Completeness | None = None,
) -> list[str]:
    """What was looked for where nothing stands out, what the captures may hide, and where the manual says more;
    `inflight` and `captures` as above."""
    causes = [one for one in findings if one.layer in LAYERS]
    lines: list[str] = []
    if all(one.severity != "warning" for one in causes):
        # What is listed below was found.
        found = {one.code for one in causes}
        words = looked_for_in_figures() if inflight is None else looked_for(found)
        if any(one.unseen is not None and one.unseen.matters for one in (captures or {}).values()):
            lines.append(
                "Nothing stands out in the operations that the captures show; others, which they do not show, took "
                f"much of the time. Whole packets (--snaplen 0) show what those waited for. Looked for {words}."
            )
        else:
            lines.append(f"Nothing stands out. Looked for {words}.")
    if completeness is not None and completeness.share < 1 - _MUCH_UNSEEN:
        lines.append(
            f"{count(completeness.of - completeness.ops)} of {count(completeness.of)} operations are not in both "
            "captures: waits for threads and slots may be missed."
        )
    cannot = None if inflight is None else inflight.server.cannot
    if cannot and not any(one.code.startswith("server-") for one in causes):
        lines.append(f"Whether calls wait for a server thread cannot be told: {cannot}.")
    if causes:
        lines.append(f"{MANUAL} explains each finding and what would refute it.")
    return lines


def explains(one: Finding) -> str:
    """How much of the time a finding explains, in words."""
    slowest = one.evidence.get("share_slowest")
    # More than all is no share: the whole holds negative parts, and the verdict says that it cannot be.
    shares = ((one.share, "the mean"), (slowest, "the slowest 1 %"))
    known = [f"{percent(share)} of {of}" for share, of in shares if isinstance(share, int | float) and 0 <= share <= 1]
    return ", ".join(known) or "its share is not known"


def what_if_section(replays: Sequence[WhatIf]) -> Iterator[Block]:
    """What a replay with other numbers of threads or slots says, next to what was captured; means as the answer has
    them."""
    for one in replays:
        yield Title(f"What if {shorten(one.asked, 40)}" + (f": {one.of}" if one.of else ""))
        both = (one.before, one.after)
        figures: list[tuple[str, float | None, float | None]] = [
            ("application, mean ms", one.application_ms, one.expected_application_ms),
            ("client SRT, mean ms", one.client_ms.mean, one.expected_client_ms.mean),
            ("client SRT, p99 ms", one.client_ms.p99, one.expected_client_ms.p99),
            ("wait for a thread, mean ms", one.thread_wait_ms, one.after.thread_wait_ms),
        ]
        rows: list[list[Cell]] = [
            [name, *("" if value is None else exact_ms(value) if value else "0" for value in values)]
            for name, *values in figures
            if values != [None, None]
        ]
        rows += [
            ["ops/s, replayed", *(f"{out.ops_per_s:,.1f}" for out in both)],
            ["threads", *(_limit(out.threads, out.threads_busy) for out in both)],
        ]
        if any(out.slots is not None for out in both):
            rows += [
                [
                    "wait for a slot, replayed, mean ms",
                    *(exact_ms(out.slot_wait_ms) if out.slot_wait_ms else "0" for out in both),
                ],
                ["slots of each connection or session", *(_limit(out.slots, out.slots_busy) for out in both)],
            ]
        rows.append(["an op waits most for", *(_WAITS.get(out.limit, plain(out.limit)) for out in both)])
        yield Table("lrr", ("", "captured", shorten(one.asked, 22)), rows)
        played = "all" if one.ops == one.ops_given else f"{count(one.ops)} of"
        others = f" and {count_of(one.others, 'op')} of the server besides" if one.others else ""
        yield Prose(
            f"The replay of the captured load is {one.error * 100:+.1f} % off its mean. Played are {played} "
            f"{count_of(one.ops_given, 'matched op')}{others}. {one.warning}"
        )


def _limit(number: int | None, busy: float | None) -> str:
    if number is None:
        return "no limit"
    return count(number) + ("" if busy is None else f", {percent(busy)} busy")


def evidence_section(evidence: Sequence[str]) -> Iterator[Block]:
    """What hosts, applications and tracers say besides."""
    if evidence:
        yield Title("Evidence from outside the captures")
    for text in evidence:
        yield Item(text)
