"""Means per layer, of all ops and of the slowest 1 %, findings and what the captures can bear -> the verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import structs

from nfslat.answer.model import NextStep, Objective, Verdict
from nfslat.answer.words import complete
from nfslat.findings.catalogue import PUT_OFF, VAGUE, next_step, row
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.layers import LAYERS, Layers
from nfslat.findings.leads import COMPLETE, FEW_OPS, INCOMPLETE, VERY_FEW_OPS, Ground, Lead, lead
from nfslat.findings.network import Delay
from nfslat.findings.server import UNKNOWN
from nfslat.findings.slow_ops import LateUnseen
from nfslat.findings.unseen import WithUnseen, between
from nfslat.findings.words import lowered, ms, percent, span

__all__ = ["Ground", "unasked", "verdict", "verdict_of_hang"]

_GRADES = ("low", "medium", "high")
_SOME_NEGATIVE, _MANY_NEGATIVE = 0.01, 0.1  # of the ops
_BOUND = 0.5  # of what the cause explains: so much of it that is known at most makes it no more than likely
_NEARLY = 0.99  # no more is said of a time in which there are calls
_IDLE = 0.5  # of the time: an application that is slow all the same is so by something else
_EXPLAINED_SHARE = 0.5  # of the mean: certain is what explains no less
_UNKNOWN_SHARE = 0.1  # of the time: what hidden and unfinished calls may have of it beside a "no fault" that is certain
_LEAST_POOL = 0.5  # probability that calls wait for a pool of threads, from which "no fault" is not certain
_SURE = 0.60  # of figures that somebody gave, the share of the largest layer


def verdict(
    mean: Layers,
    slowest: Layers | None,
    ground: Ground | None,
    findings: Sequence[Diagnosis] = (),
    objectives: Sequence[Objective] = (),
) -> Verdict:
    """The outcome, the finding that leads it, where the time goes, and how sure that is; see `Layers` for populations.

    Without `slowest` and `ground` the means are figures that somebody gave.
    """
    found = lead(mean, ground, findings, objectives)
    is_sound = mean.network_ms >= 0 and mean.server_ms >= 0
    unseen = None if ground is None else ground.unseen
    # What the application waited for its slowest requests is not known, only the mean is.
    # And a part of a whole that holds negative parts is no share.
    is_known = mean.client_ms is None and unseen is None and slowest is not None and slowest.network_ms >= 0
    tail = slowest if is_known else None
    ticks = None if ground is None else ground.ticks
    names_layer = is_sound and (ticks is None or ticks.names_layer(mean))
    largest = (mean.by_srt.largest if unseen is None else unseen.largest(mean)) if names_layer else None
    if largest is None:
        largest_share = None
    else:
        largest_share = mean.by_srt.share(largest) if unseen is None else unseen.least_share(largest, mean)
    cause = found.cause
    confidence, reasons = _confidence(found, mean, slowest, ground, findings)
    return Verdict(
        outcome=found.outcome,
        layer=cause.layer if cause is not None and found.outcome == "fault" else None,
        cause=None if cause is None else cause.code,
        also=[one.code for one in found.also],
        share=None if cause is None else cause.share,
        share_slowest=None if cause is None else cause.slowest,
        confidence=confidence,
        text=_text(found, mean, ground, findings, objectives),
        next=_next(found, ground),
        largest_layer=largest,
        largest_share=largest_share,
        largest_share_slowest=None if largest is None or tail is None else tail.by_srt.share(largest),
        objectives=list(objectives),
        proof=_proof(mean, cause, findings, unseen) if is_sound else [],
        reasons=reasons,
    )


def unasked(verdict: Verdict, measured: Collection[str]) -> Verdict:
    """The same verdict, whose next measurement is none of those whose commands are in `measured`: what is known is not
    asked for."""
    if verdict.next is None or verdict.next.command not in measured:
        return verdict
    steps = row(verdict.cause or UNKNOWN).decided_by
    left = next((next_step(step) for step in steps if step.command not in measured), None)
    return structs.replace(verdict, next=left)


def verdict_of_hang(hangs: Sequence[Diagnosis]) -> Verdict | None:
    """The verdict where nothing else is known: calls that nobody answers; None where nothing that matters hangs."""
    worst = next((hang for hang in hangs if hang.severity == "warning"), None)
    if worst is None:
        return None
    is_certain = worst.confidence == "certain"
    also = [hang for hang in hangs if hang is not worst and hang.severity == "warning"]
    return Verdict(
        outcome="fault",
        layer=worst.layer,
        cause=worst.code,
        also=[hang.code for hang in also],
        share=None,
        share_slowest=None,
        confidence="high" if is_certain else "medium",
        text=" ".join([f"{worst.headline}.", *(f"Besides: {lowered(hang.headline)}." for hang in also)]),
        next=row(worst.code).next,
        largest_layer=None,
        largest_share=None,
        largest_share_slowest=None,
        objectives=[],
        proof=[],
        reasons=["what waits is in the capture" if is_certain else f"the cause, {worst.code}, is likely"],
    )


def _next(found: Lead, ground: Ground | None) -> NextStep | None:
    """Whoever has the capture of a client alone may have no login on a filer, or on a service of a cloud."""
    step = found.next
    if step is None or ground is None or ground.inferred != "server" or not step.where.startswith("the server"):
        return step
    where = f"{step.where} (without a login there, send its operator the evidence of --markdown)"
    return structs.replace(step, where=where)


# --- The sentences ----------------------------------------------------------------------------------------------------


def _text(
    found: Lead,
    mean: Layers,
    ground: Ground | None,
    findings: Sequence[Diagnosis],
    objectives: Sequence[Objective],
) -> str:
    unseen = None if ground is None else ground.unseen
    said: list[str] = []
    if found.outcome == "fault" and found.cause is not None:
        said += _of_cause(found, found.cause, mean, findings, unseen)
    elif found.outcome == "no-fault":
        met = ", ".join(_objective(one) for one in objectives if one.met)
        judged = f"what was asked for is met ({met})" if met else "nothing that was looked for explains the time"
        said.append(f"No fault found: {judged}.")
    else:
        said.append(f"Cannot tell yet: {found.why or lowered(found.cause.headline if found.cause else '')}.")
    said += _hog(found, ground)
    said += [] if unseen is None else [unseen.with_them().strip()]
    ticks = None if ground is None else ground.ticks
    if mean.network_ms >= 0 and mean.server_ms >= 0 and (ticks is None or ticks.tells_means(mean)):
        if unseen is None:
            said.append(where_it_goes(mean, found.by))
        else:
            said.append(unseen.cannot_tell(mean) if unseen.largest(mean) is None else unseen.where_it_goes(mean))
    if found.outcome == "no-fault" and mean.client_ms is None and ground is not None and ground.idle >= _IDLE:
        idle = percent(min(ground.idle, _NEARLY))
        said.append(f"Nothing is in flight for {idle} of the time: what the client does then, no packet shows.")
    missed = ", ".join(_objective(one) for one in objectives if one.met is False)
    said += [f"Not met: {missed}."] if missed else []
    at_least = "" if unseen is None else "at least "
    said += [_also(found, at_least)] if [one for one in found.also if not _is_said(one, found)] else []
    if found.by != "tries":
        said += _between_tries(findings, found)
    return " ".join(one for one in said if one)


def _hog(found: Lead, ground: Ground | None) -> list[str]:
    """Who else has most of what the cause is a queue for."""
    known = row(found.cause.code).shared if found.cause is not None else ""
    hog = None if ground is None or found.cause is None else ground.hogs.get(found.cause.layer)
    return [f"{hog.name} has {percent(hog.share)} of {known}."] if hog is not None and known else []


def _on_wire(mean: Layers) -> str:
    """What is known of the slowest; of an application no more than its mean is."""
    return "" if mean.client_ms is None else " on the wire"


def _of_cause(
    found: Lead, cause: Diagnosis, mean: Layers, findings: Sequence[Diagnosis], unseen: WithUnseen | None
) -> list[str]:
    """The cause first, then how much of the time it explains, and what packets leave open beside it."""
    by, either = found.by, "" if found.either is None else f", and {lowered(found.either.headline)}"
    if by == "limit":
        known = f" It explains {percent(cause.share)} of the mean on the wire." if cause.share else ""
        return [f"{cause.headline}{either}.", row(cause.code).uncounted + known]
    if by == "tries":
        share = sum(one.share or 0.0 for one in findings if one.code in PUT_OFF)
        of = "all the time of requests" if mean.client_ms is None else "the application's time"
        put_off = f"{percent(share)} of {of} passes between tries, and no response time shows it"
        return [f"{cause.headline}. {put_off}{either}."]
    if by == "slowest":
        of_slowest = f"{percent(cause.slowest or 0.0)} of the time of the slowest 1 %{_on_wire(mean)}"
        return [f"{cause.headline}: {of_slowest}{either}."]
    of_mean = f"{_up_to(cause, mean)}{_of(cause, mean)} ({percent(cause.share or 0.0)})"
    if unseen is not None:
        of_mean = unseen.explained(cause.share or 0.0, mean, _whose(cause))
    of_slowest = "" if cause.slowest is None else f", and {percent(min(cause.slowest, 1.0))} of the slowest 1 %"
    of_slowest += "" if cause.slowest is None else _on_wire(mean)
    gain = f" {cause.gain.words}." if cause.gain is not None and cause.gain.words else ""
    return [f"{cause.headline}: {of_mean}{of_slowest}{either}.{gain}"]


def _whose(cause: Diagnosis) -> str:
    """Which ops have the time that a cause explains."""
    if isinstance(cause.evidence, Delay):
        return "all"
    return "unseen" if isinstance(cause.evidence, LateUnseen) else "seen"


def _of(cause: Diagnosis, mean: Layers) -> str:
    whose = "" if mean.client_ms is None else f" of the application's {_ops(mean)}time"
    return f"{mean.said((cause.share or 0.0) * mean.total_ms, cause.layer)} of {mean.said(mean.total_ms)} ms{whose}"


def _up_to(cause: Diagnosis, mean: Layers) -> str:
    """What kept requests above the wire is known at most."""
    counted = getattr(cause.evidence, "counted_above_ms", 0.0) or 0.0
    return "up to " if counted or (mean.client_ms is not None and cause.layer in mean.kept_ms) else ""


_WHERE = {
    "above the wire": "above the wire in the client", "server": "in the server", "network": "in the network",
}  # fmt: skip


def where_it_goes(mean: Layers, by: str = "mean") -> str:
    """What each layer adds to the mean, as the tables have it: the printed numbers add up."""
    printed = {name: shown for name, (_, shown) in mean.printed.items()}
    total = printed["client SRT" if mean.client_ms is None else "application"]
    listed = [f"{printed[name]} {where}" for name, where in _WHERE.items() if name in printed]
    on_wire = "On the wire a" if by in ("limit", "tries") and mean.client_ms is None else "A"
    return f"{on_wire} mean {_ops(mean).replace(' and ', ' or ') or 'operation '}takes {total} ms: {', '.join(listed)}."


def _ops(mean: Layers) -> str:
    """``READ and WRITE ``."""
    return "" if mean.ops in ("", "all") else f"{mean.ops} "


def _is_said(one: Diagnosis, found: Lead) -> bool:
    """Is it in the sentence already?"""
    return one is found.either or lowered(one.headline) == found.why


def _also(found: Lead, at_least: str) -> str:
    """What else was found, and matters."""
    said = [
        f"{lowered(one.headline)}{'' if one.share is None else f', {at_least}{percent(one.share)} of the mean'}"
        for one in found.also
        if not _is_said(one, found)
    ]
    first = "Besides" if found.outcome == "fault" else "What is known"
    return f"{first}: {'; '.join(said)}."


def _between_tries(findings: Sequence[Diagnosis], found: Lead) -> list[str]:
    """Requests that were tried again, where they are not most of the time, and the application's is not known."""
    tried = [one for one in findings if one.code in PUT_OFF and one.share is not None]
    most = max(tried, key=lambda one: one.share or 0.0, default=None)
    if most is None or most is found.cause or most in found.also:
        return []
    return [f"Besides: {lowered(most.headline)}."]


def _objective(one: Objective) -> str:
    if one.measured_ms is None:
        return f"{one.asked}: no such operation"
    whose = " of the application" if one.of == "application" else ""
    return f"{one.op} {one.figure}{whose} {ms(one.measured_ms)} ms, at most {one.limit_ms:g} wanted"


def _proof(
    mean: Layers, cause: Diagnosis | None, findings: Sequence[Diagnosis], unseen: WithUnseen | None
) -> list[str]:
    """The figures that prove it, the most telling three."""
    wire_ms = mean.server_ms + mean.network_ms
    figures = [] if mean.client_ms is None else [f"application {mean.said(mean.total_ms)} ms"]
    if unseen is None:
        figures += [f"client SRT {mean.said(wire_ms)} ms", f"server SRT {mean.said(mean.server_ms)} ms"]
    else:
        figures += [f"client SRT {between(unseen.wire_ms)} ms", f"server SRT {between(unseen.server_ms)} ms"]
    if cause is not None and cause.code in PUT_OFF:
        total = sum(getattr(one.evidence, "total_between_ms", 0.0) for one in findings)
        return [f"between tries {span(total)} in all", *figures]
    if cause is not None and mean.client_ms is None:
        for name, words in row(cause.code).proof:
            value = getattr(cause.evidence, name, None)
            if value:  # nothing of it proves nothing
                return [*figures, f"{words} {mean.said(value)} ms"]
    return figures


# --- How sure ---------------------------------------------------------------------------------------------------------


def _confidence(
    found: Lead, mean: Layers, slowest: Layers | None, ground: Ground | None, findings: Sequence[Diagnosis]
) -> tuple[str, list[str]]:
    """The text's: the weakest of all grounds decides; each that is not strong is named."""
    grounds = list(_of_figures(mean) if ground is None else _of_captures(slowest, ground))
    if found.outcome == "undecided":
        return "low", [*(why for _, why in grounds), "what decides it has not been measured"]
    grounds += _of_lead(found, mean, ground, findings)
    return _GRADES[min(grade for grade, _ in grounds)], [why for _, why in grounds]


_Grounds = Iterator[tuple[int, str]]  # the best grade that each leaves, and what it is


def _of_lead(found: Lead, mean: Layers, ground: Ground | None, findings: Sequence[Diagnosis]) -> _Grounds:
    if found.outcome == "no-fault" and ground is not None and not ground.is_clocked:
        yield 0, f"without the {ground.inferred}'s clock pauses of a host and a client's slots may be missed"
    cause = found.cause
    if cause is not None and cause.confidence != "certain":
        yield 1, f"the cause, {cause.code}, is {cause.confidence}"
    counted = getattr(cause.evidence, "counted_above_ms", 0.0) if cause is not None else 0.0
    if cause is not None and counted and counted >= _BOUND * (cause.share or 0.0) * mean.total_ms:
        yield 1, f"up to {ms(counted)} ms of it are known as no more than that"
    if cause is not None and cause.layer == "client" and ground is not None and ground.unseen_explain:
        yield 1, "what lies above the wire may be of operations that are not in the captures"
    explained = sum(known.share or 0.0 for known in findings if known.code not in VAGUE)
    if found.outcome == "fault" and found.by == "mean" and ground is not None and explained < _EXPLAINED_SHARE:
        yield 1, f"{percent(1 - explained)} of the mean has no cause that was found"
    if found.outcome == "no-fault" and ground is not None and (reason := _unexplained(ground, findings)):
        yield 1, reason
    if ground is not None and ground.unseen is not None:
        yield 1, "operations that are not shown have much of the time; what they waited for is not known"


def _unexplained(ground: Ground, findings: Sequence[Diagnosis]) -> str:
    """Why "no fault" is not certain: time that nothing explains, or that no capture shows."""
    if (share := sum(vague.share or 0.0 for vague in findings if vague.code in VAGUE)) >= _EXPLAINED_SHARE:
        return f"nothing explains {percent(min(share, 1.0))} of the mean"
    if (share := max(ground.hidden, ground.unfinished)) >= _UNKNOWN_SHARE:
        what = "operations that are not shown" if share == ground.hidden else "calls without a reply"
        return f"{what} have up to {percent(share)} of the time"
    if ground.pool >= _LEAST_POOL:
        return "calls wait in the server as if for a few threads, which the packets neither show nor rule out"
    return ""


def _of_figures(mean: Layers) -> _Grounds:
    share = mean.share(mean.largest)
    yield 1, "the figures are taken as they were given, and may speak of different requests"
    if share < _SURE:
        yield 0, f"no layer stands out: {LAYERS[mean.largest]} adds {percent(share)}"


def _of_captures(slowest: Layers | None, ground: Ground) -> _Grounds:
    how_many = complete(ground.complete, inferred=ground.inferred is not None, missing=ground.incomplete)
    if ground.inferred is not None:
        yield (
            1,
            (
                f"there is one capture, and the {ground.inferred}'s times are inferred from its packets: their mean to "
                f"within {ms(ground.error_ms)} ms"
            ),
        )
    if ground.inferred is None or ground.complete < COMPLETE:
        yield 2 if ground.complete >= COMPLETE else 1 if ground.complete >= INCOMPLETE else 0, how_many
    if ground.ops < FEW_OPS:
        yield 0 if ground.ops < VERY_FEW_OPS else 1, f"only {ground.ops} operations"
    if slowest is not None and slowest.network_ms < 0:
        yield 1, "the network time of the slowest 1 % is negative on average"
    if ground.negative > _SOME_NEGATIVE * ground.ops:
        is_many = ground.negative > _MANY_NEGATIVE * ground.ops
        yield (
            0 if is_many else 1,
            (f"{ground.negative} operations have a negative network part: timestamps or matches are off"),
        )
    if ground.late:
        late = " and that of the ".join(ground.late)
        yield 0 if ground.all_late else 1, f"the capture of the {late} stamps packets late"
    if ground.ticks is not None:
        yield 1, f"time stamps tick every {ground.ticks.tick_ms:g} ms"
    if not ground.clock_fits:
        yield 0, "no offset of the two clocks explains the operations: time stamps or matches are wrong"
