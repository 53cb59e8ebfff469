"""What is said of parts of the ops, and of all of them -> causes and verdict of all, and which part's words lead.

A part is a phase, or what passes between a pair of hosts. What a finding explains is summed over the parts that have
it and divided by the time of all ops, so that all shares of a ranking are of one whole. A part's own words lead where
its evidence is at least the whole's: what is affirmed beats what is bounded, and that what is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import structs

from nfslat.answer.model import HostPair, Phase, Verdict
from nfslat.findings.catalogue import CAUSE, PUT_OFF, VAGUE, row
from nfslat.findings.diagnosis import Diagnosis, Gain
from nfslat.findings.facts import MATTERS
from nfslat.findings.layers import Layers
from nfslat.findings.network import BETWEEN, DELAY
from nfslat.findings.rank import ranked
from nfslat.findings.server import THREADS, UNKNOWN
from nfslat.findings.slow_ops import SLOW_OPS, STORAGE
from nfslat.findings.stretches import Stretch
from nfslat.findings.verdict import where_it_goes
from nfslat.findings.words import lowered, percent

SHARE_OF_NEARLY_ALL = 0.9  # of the time: what is said of the parts is said of all
_LEADING_SHARE = 0.5  # of the time: what is said of parts that have as much is said first
_NAMES = 1 / 3  # where of the whole only that some ops are slow is known, and the part knows why
_OPEN_SHARE = 0.3  # of the time: so much of it that cannot be told leaves the whole open ...
_OUTWEIGHING_FACTOR = 2.0  # ... unless what is told explains so many times as much
_DELAY_SHARE = 0.05  # of the time: a path that is longer for a part of it is listed
_SAME_TIME = (SLOW_OPS, BETWEEN, UNKNOWN)  # they only know that the layer is slow


Part = Stretch[Phase] | Stretch[HostPair]


class Whole(NamedTuple):
    """What the findings say of all ops together."""

    causes: list[Diagnosis]
    verdict: Verdict
    mean: Layers  # with what the application measured, where that is known
    threads: int | None  # for which its calls wait
    shown: float = 1.0  # where ops that are not shown have much of its time, at least the share of those that are
    judge: Callable[[Sequence[Diagnosis]], Verdict] | None = None  # the verdict that other causes would make


def lead_by_parts(
    parts: Sequence[Part], whole: Whole, *, of_hosts: bool = False
) -> tuple[list[Diagnosis], Verdict] | None:
    """Causes, ranked, and verdict of all ops where one of `parts` leads; None: what is said of the whole stays.

    `of_hosts`: they are of pairs of hosts, a whole of which is only their mixture.
    """
    if whole.verdict.cause in PUT_OFF or sum(part.row.time_share for part in parts) < SHARE_OF_NEARLY_ALL:
        return None  # what passes between tries is in no part's response times
    if whole.mean.client_ms is not None:
        return None if of_hosts else _beside_the_application(parts, whole) or _with_those_of_parts(parts, whole)
    if whole.verdict.objectives and whole.verdict.outcome == "no-fault":
        return None  # what is met is met, whatever a part of the time took
    if whole.shown < 1.0:  # the others are of no part
        return None if of_hosts else _with_those_of_parts(parts, whole)
    first, explained = _that_explains_most(parts)
    if whole.verdict.outcome == "no-fault" and not explained:
        first = max(parts, key=lambda part: (part.verdict.outcome == "undecided", part.row.time_share))
    leads = _pair_leads(first, whole) if of_hosts else _leads(parts, first, explained, whole)
    if not leads:
        return None if of_hosts else _with_those_of_parts(parts, whole)
    who, verdict = first.words, first.verdict
    text = f"{_capital(who)} ({percent(first.row.time_share)} of the time): {lowered(verdict.text)}"
    causes = _summed(parts, first)
    own = next((cause for cause in causes if cause.code == verdict.cause), None)
    verdict = structs.replace(
        verdict,
        text=text,
        share=verdict.share if own is None else own.share,
        share_slowest=None,
        objectives=whole.verdict.objectives,
    )
    others, verdict = _others(parts, first, verdict, "all response times")
    open_share = _time_share(parts, "undecided")
    if verdict.outcome == "fault" and verdict.confidence == "high" and open_share >= _OPEN_SHARE:
        reason = f"of {percent(open_share)} of the time nobody can be told whose it is"
        verdict = structs.replace(verdict, confidence="medium", reasons=[*verdict.reasons, reason])
    return ranked([*causes, *others], _mean_ms(parts)), verdict


# --- Which part leads -------------------------------------------------------------------------------------------------


def _that_explains_most(parts: Sequence[Part]) -> tuple[Part, float]:
    """The part with most of the cause that explains most of all response times, and how much that is; where none
    matters, the part with most of the time, and 0."""
    explained: dict[tuple[str | None, str | None], float] = {}
    for part in parts:
        about = part.verdict.cause, part.verdict.layer
        explained[about] = explained.get(about, 0.0) + _explains(part)
    about = max(explained, key=lambda key: explained[key])
    if explained[about] < MATTERS:
        return max(parts, key=lambda part: part.row.time_share), 0.0
    same = [part for part in parts if (part.verdict.cause, part.verdict.layer) == about]
    return max(same, key=lambda part: (_explains(part), part.row.time_share)), explained[about]


def _explains(part: Part) -> float:
    """Of all response times, what its leading cause does; of a limit whose share is not known, all of the part's."""
    if part.verdict.outcome != "fault":
        return 0.0
    share = part.verdict.share if part.verdict.share is not None else 1.0
    return max(min(share, 1.0), 0.0) * part.row.time_share


def _leads(parts: Sequence[Part], first: Part, explained: float, whole: Whole) -> bool:
    """Are a phase's words those of the whole?"""
    outcome, of_whole = first.verdict.outcome, whole.verdict.outcome
    if _said(first) == (whole.verdict.largest_layer, whole.verdict.cause, whole.threads):
        return any(_splits(part, whole) for part in parts)
    if not _is_surer(first, whole):
        return False
    time_share = sum(part.row.time_share for part in parts if _said(part) == _said(first))
    if outcome == "no-fault":
        return of_whole != outcome and _time_share(parts, outcome) >= SHARE_OF_NEARLY_ALL
    names = whole.verdict.cause is not None and _names(first.verdict, whole.verdict)
    if of_whole == "no-fault" and outcome == "undecided":
        return _time_share(parts, outcome) >= _OPEN_SHARE
    has_most = time_share >= (_NAMES if names else _LEADING_SHARE)
    if outcome != "fault" or of_whole == "fault":
        return has_most
    open_share = _time_share(parts, "undecided")
    if of_whole == "undecided" and open_share >= _OPEN_SHARE:
        return explained >= open_share * (1.0 if _is_certain(first.causes, first.verdict) else _OUTWEIGHING_FACTOR)
    return has_most or (first.verdict.share is not None and explained >= row(first.verdict.cause or "").least)


def _pair_leads(first: Part, whole: Whole) -> bool:
    """Are the words of two hosts those of the whole? Not where they have little of the time, and of all no less is
    known."""
    both = first.verdict, whole.verdict
    is_open = all(verdict.outcome == "undecided" for verdict in both) and both[0].cause == both[1].cause
    return _is_surer(first, whole) and not (is_open and first.row.time_share < _LEADING_SHARE)


def _splits(part: Part, whole: Whole) -> bool:
    """Do calls of a part wait for a thread, in a time that the whole takes for work in one?"""
    is_split = part.verdict.cause == THREADS and whole.verdict.cause == STORAGE
    return is_split and _explains(part) >= MATTERS and _is_surer(part, whole)


def _time_share(parts: Sequence[Part], outcome: str) -> float:
    """Of all the time, that of parts with this outcome."""
    return sum(part.row.time_share for part in parts if part.verdict.outcome == outcome)


def _is_surer(part: Part, whole: Whole) -> bool:
    """Is its evidence at least the whole's?"""
    if whole.verdict.outcome != "fault":
        return True
    if part.verdict.outcome != "fault":
        return False  # the rest has a fault
    return _is_certain(part.causes, part.verdict) or not _is_certain(whole.causes, whole.verdict)


def _is_certain(causes: Sequence[Diagnosis], verdict: Verdict) -> bool:
    return any(cause.code == verdict.cause and cause.confidence == "certain" for cause in causes)


def _said(part: Part) -> tuple[str | None, str | None, int | None]:
    """Layer, cause, and how many threads its calls wait for."""
    return part.verdict.largest_layer, part.verdict.cause, part.row.threads_estimate


def _names(part: Verdict, whole: Verdict) -> bool:
    """Does the part have a cause, and the whole only a layer, the same?"""
    vague = (None, *_SAME_TIME)
    is_same = part.largest_layer == whole.largest_layer and part.outcome == "fault"
    return is_same and whole.cause in vague and part.cause not in vague


# --- One base ---------------------------------------------------------------------------------------------------------


def _mean_ms(parts: Sequence[Part]) -> float:
    return sum(part.row.ops * part.row.client_ms for part in parts) / max(sum(part.row.ops for part in parts), 1)


def _explained(parts: Sequence[Part], cause: Diagnosis) -> float:
    """What a finding explains in all parts, as a share of the time of all."""
    return sum(
        (own.share or 0.0) * part.row.time_share
        for part in parts
        for own in part.causes
        if (own.code, own.layer) == (cause.code, cause.layer)
    )


def _summed(parts: Sequence[Part], first: Part) -> list[Diagnosis]:
    """The findings of `first`, each with what it explains in all parts."""
    of_all = first.row.ops / max(sum(part.row.ops for part in parts), 1)
    return [_of_all(parts, first, cause, of_all) for cause in first.causes]


def _of_all(parts: Sequence[Part], first: Part, cause: Diagnosis, of_all: float) -> Diagnosis:
    """A finding of `first`, which has `of_all` of the ops. What it is at most, its share says."""
    share = None if cause.share is None else _explained(parts, cause)
    gain = cause.gain
    return structs.replace(
        cause,
        severity="info" if share is not None and share < MATTERS else cause.severity,
        share=share,
        slowest=None,
        text=f"{first.words} {lowered(cause.text)}",
        evidence=cause.evidence.of_part,
        gain=None if gain is None or gain.by == "bound" else gain._replace(ms=gain.ms * of_all),
    )


def _others(
    parts: Sequence[Part], first: Part, verdict: Verdict, of: str, wire: float = 1.0
) -> tuple[list[Diagnosis], Verdict]:
    """Causes of other parts than the one that leads, where that has them not and they matter to the whole; and
    `verdict` with them. `wire` is how much of the whole is on it."""
    more: dict[str, Diagnosis] = {}
    codes = {cause.code for cause in first.causes}
    for part in sorted(parts, key=lambda some: -some.row.time_share):
        cause = next((own for own in part.causes if own.code == part.verdict.cause), None)
        if part is first or part.verdict.outcome != "fault" or cause is None or cause.code in {*codes, *more}:
            continue
        share = wire * _explained(parts, cause)
        if share >= MATTERS:
            when = part.words
            more[cause.code] = structs.replace(
                cause,
                share=share,
                slowest=None,
                text=f"{when} {cause.text}",
                evidence=cause.evidence.of_part,
                gain=Gain(share * _mean_ms(parts) / wire, "bound"),
            )
            also = f"{_capital(when)}: {lowered(cause.headline)}, {percent(share)} of {of}."
            verdict = structs.replace(verdict, text=f"{verdict.text} {also}", also=[*verdict.also, cause.code])
    return list(more.values()), verdict


def _with_those_of_parts(parts: Sequence[Part], whole: Whole) -> tuple[list[Diagnosis], Verdict] | None:
    """What is said of the whole, with what it blurs: a path that is longer in one of the parts."""
    if whole.judge is None or any(cause.code == DELAY for cause in whole.causes):
        return None
    having = [(part, cause) for part in parts for cause in part.causes if cause.code == DELAY]
    mean = whole.mean
    on_wire = (mean.server_ms + mean.network_ms) / max(mean.total_ms, 1e-9)
    share = whole.shown * on_wire * sum((cause.share or 0.0) * part.row.time_share for part, cause in having)
    if share < _DELAY_SHARE:
        return None
    part, cause = max(having, key=lambda both: both[0].row.time_share)
    delay = structs.replace(
        cause,
        severity="warning" if share >= MATTERS else "info",
        share=share,
        slowest=None,
        text=f"{part.words} {lowered(cause.text)}",
        evidence=cause.evidence.of_part,
        gain=Gain(share * mean.total_ms, "bound"),
    )
    causes = ranked([*whole.causes, delay], mean.total_ms)
    return causes, whole.judge(causes)


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


# --- Beside what the application measured -----------------------------------------------------------------------------


def _beside_the_application(phases: Sequence[Part], whole: Whole) -> tuple[list[Diagnosis], Verdict] | None:
    """The whole's mean holds what the application measured, which no phase has: where it only knows that the layer is
    slow, and the phase that makes most of the time knows why, that cause is the whole's."""
    causes, verdict, mean = whole.causes, whole.verdict, whole.mean
    most = max(phases, key=lambda phase: phase.row.time_share)
    if most.row.time_share < _NAMES or most.verdict.outcome != "fault":
        return None
    # A limit above the wire leads a phase without a share; beside the application's time it needs one.
    able = [own for own in most.causes if own.share is not None and own.share >= CAUSE and own.code not in VAGUE]
    cause = next((own for own in able if own.code == most.verdict.cause), next(iter(able), None))
    if cause is None or cause.share is None or verdict.cause == cause.code:
        return None
    when = most.words
    wire = (mean.server_ms + mean.network_ms) / mean.total_ms
    share = cause.share * most.row.time_share * wire
    # Of the whole a wait for a thread was not told from the work in one, and of the phase it is.
    is_split = cause.code == THREADS and verdict.cause == STORAGE
    leads = _names(most.verdict, verdict) or is_split or share > (verdict.share or 0.0)
    if not leads and not (verdict.outcome == "undecided" and share >= CAUSE):
        also = f"{verdict.text} {_capital(when)}: {lowered(cause.headline)}, {percent(share)} of the mean."
        return causes, structs.replace(verdict, text=also, also=[*verdict.also, cause.code])
    own = structs.replace(cause, share=share, text=f"{when} {cause.text}", gain=None)
    same_time = (*_SAME_TIME, STORAGE) if is_split else _SAME_TIME
    others = [other for other in causes if other.code not in same_time or other.layer != verdict.largest_layer]
    sure = "low" if most.verdict.confidence == "low" else "medium"
    of_all = f"{mean.said(mean.total_ms)} ms of the application's time"
    much = f"{mean.said(share * mean.total_ms)} of {of_all} ({percent(share)})"
    text = f"{_capital(when)}: {lowered(cause.headline)}: {much}. {where_it_goes(mean)}"
    reasons = [*verdict.reasons, "the application's mean is of all of the time, and the cause of a part of it"]
    named = structs.replace(
        most.verdict,
        layer=cause.layer,
        cause=cause.code,
        also=[],
        share=share,
        share_slowest=None,
        confidence=sure,
        text=text,
        reasons=reasons,
        largest_layer=verdict.largest_layer,
        largest_share=verdict.largest_share,
        largest_share_slowest=None,
        objectives=verdict.objectives,
        proof=verdict.proof,
    )
    more, named = _others(phases, most, named, "the application's time", wire)
    return ranked([own, *others, *more], mean.total_ms), named
