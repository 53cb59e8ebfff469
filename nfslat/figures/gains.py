"""Findings and the load of an `Analysis` -> the same, with what a replay says that mending them would give."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from nfslat.answer.tune import Advice
from nfslat.errors import NfslatError
from nfslat.figures.whatif import load_of
from nfslat.findings.client import SESSION_SLOTS, SLOT_CODES, Slots
from nfslat.findings.diagnosis import Diagnosis, Gain
from nfslat.findings.facts import Facts
from nfslat.findings.server import THREADS, Queue
from nfslat.findings.tune import advice
from nfslat.findings.words import ms, times
from nfslat.inflight import replay
from nfslat.model.units import to_ms
from nfslat.results import Analysis

_MOST_OPS = 20_000  # of them are played: a quarter of a second
_FEW, _WRONG = 100, 0.10  # ops, and how far off the replay of what was captured may be


def with_gains(c: Analysis, f: Facts, findings: Sequence[Diagnosis]) -> list[Diagnosis]:
    """`findings` whose limit can be replayed with another number, and tell what that gives, say so."""
    return [_with_gain(c, f, one) if one.severity == "warning" else one for one in findings]


def _with_gain(c: Analysis, f: Facts, one: Diagnosis) -> Diagnosis:
    e = one.evidence
    if one.code == THREADS and isinstance(e, Queue) and e.workers is not None and not f.queue_is_measured:
        now, needed = e.threads or e.workers.threads_estimate, e.workers.most_in_flight
        enough = _number(advice.threads(f.server_host, now, needed))
        return _replayed(c, f, one, times(enough, "thread"), threads_now=now, threads=enough)
    if one.code in SLOT_CODES and isinstance(e, Slots) and isinstance(one.advice, Advice) and f.sessions_needed:
        slots = _number(one.advice)
        label = f"{times(slots, 'slot')}{'' if one.code == SESSION_SLOTS else ' on each connection'}"
        return _replayed(c, f, one, label, slots_now=e.slots_each, slots=slots, sessions=f.sessions_needed)
    return one


def _number(found: Advice) -> int:
    return int(found.suggested) if found.suggested.isdecimal() else 0


def _replayed(
    c: Analysis,
    f: Facts,
    one: Diagnosis,
    label: str,
    *,
    threads_now: int | None = None,
    slots_now: int | None = None,
    threads: int | None = None,
    slots: int | None = None,
    sessions: int | None = None,
) -> Diagnosis:
    """Without what a replay cannot tell, or does not know well enough: nothing is said then."""
    if c.inflight.load.threads.cannot or f.is_reckoned or not (threads or slots) or not (threads_now or slots_now):
        return one
    try:
        found = replay.what_if(
            load_of(c),
            threads_now=threads_now,
            slots_now=slots_now,
            threads=threads,
            slots=slots,
            sessions=sessions,
            most=_MOST_OPS,
        )
    except NfslatError:
        return one
    if min(found.before.ops, found.after.ops) < _FEW or abs(found.error) > _WRONG:
        return one
    before, after = (
        to_ms((each.application if sessions and each.application else each.client).mean_ns)
        for each in (found.before, found.after)
    )
    if after >= before:
        return one
    # Of the mean that the report has, the part that the replay takes away.
    total_ms, on_wire_ms = f.mean.total_ms, f.mean.server_ms + f.mean.network_ms
    gain_ms = (total_ms if sessions else on_wire_ms) * (1 - after / before)
    words = f"With {label} a replay of the load takes {ms(total_ms - gain_ms)} instead of {ms(total_ms)} ms on average"
    return dataclasses.replace(one, gain=Gain(gain_ms, "replay", words))
