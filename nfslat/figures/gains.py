"""Findings and the load of an `Analysis` -> the same, with what a replay says that mending them would give."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from nfslat.answer.advice import Advice
from nfslat.errors import NfslatError
from nfslat.figures.whatif import Asked, InEffect, replayed, shows_most
from nfslat.findings.catalogue import SLOTS
from nfslat.findings.client import SESSION_SLOTS, Slots
from nfslat.findings.diagnosis import Diagnosis, Gain
from nfslat.findings.facts import Facts
from nfslat.findings.server import THREADS, Queue
from nfslat.findings.tune import advice
from nfslat.findings.words import ms, times
from nfslat.results import Analysis

_FEW, _WRONG = 100, 0.10  # ops, and how far off the replay of what was captured may be


def with_gains(c: Analysis, f: Facts, now: InEffect, findings: Sequence[Diagnosis]) -> list[Diagnosis]:
    """`findings` whose limit can be replayed with another number, and tell what that gives, say so."""
    # A replay says nothing of time that is not known well enough.
    if c.inflight.load.threads.cannot or f.is_reckoned:
        return list(findings)
    return [_with_gain(c, f, now, one) if one.severity == "warning" else one for one in findings]


def _with_gain(c: Analysis, f: Facts, now: InEffect, one: Diagnosis) -> Diagnosis:
    e = one.evidence
    workers = e.workers if isinstance(e, Queue) and not f.queue_is_measured else None
    if one.code == THREADS and workers is not None and shows_most(c):
        enough = _number(advice.threads(f.server_host, now.threads, workers.most_in_flight))
        return _replayed(c, now, one, Asked(times(enough, "thread"), threads=enough or None))
    if one.code in SLOTS and isinstance(e, Slots) and isinstance(one.advice, Advice) and f.sessions_needed:
        slots = _number(one.advice)
        label = f"{times(slots, 'slot')}{'' if one.code == SESSION_SLOTS else ' on each connection'}"
        return _replayed(c, now, one, Asked(label, slots=slots or None))
    return one


def _number(found: Advice) -> int:
    return int(found.suggested) if found.suggested.isdecimal() else 0


def _replayed(c: Analysis, now: InEffect, one: Diagnosis, asked: Asked) -> Diagnosis:
    """Without what a replay cannot tell, or does not know well enough: nothing is said then."""
    if not (asked.threads and now.threads) and not (asked.slots and now.slots):
        return one
    try:
        found = replayed(c, now, asked)
    except NfslatError:
        return one
    if min(found.before.ops, found.after.ops) < _FEW or abs(found.error) > _WRONG:
        return one
    total_ms, expected_ms = found.client_ms.mean, found.expected_client_ms.mean
    if found.application_ms is not None and found.expected_application_ms is not None:
        total_ms, expected_ms = found.application_ms, found.expected_application_ms
    if expected_ms >= total_ms:
        return one
    words = f"With {asked.text} a replay of the load takes {ms(expected_ms)} instead of {ms(total_ms)} ms on average"
    return structs.replace(one, gain=Gain(total_ms - expected_ms, "replay", words))
