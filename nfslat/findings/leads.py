"""Findings, means per layer and what the captures can bear -> the outcome, and which finding leads it.

A finding leads where it explains enough of the mean or of the slowest 1 %, or is a limit seen at work whose cost lies
above the wire, where packets do not show it. A layer that is merely the largest is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from nfslat.answer.model import NextStep, Objective
from nfslat.answer.words import complete
from nfslat.findings import steps
from nfslat.findings.catalogue import CAUSE, HANGS, OPEN_MS, OPEN_SHARE, PUT_OFF, SYMPTOM, VAGUE, next_step, row
from nfslat.findings.client import Slots
from nfslat.findings.coarse import Ticks
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.facts import LONG_MS, Hog
from nfslat.findings.layers import Layers
from nfslat.findings.network import ASYMMETRY, BETWEEN
from nfslat.findings.server import THREADS, UNKNOWN, Reconnect, Unknown
from nfslat.findings.slow_ops import SLOW_OPS, LateUnseen
from nfslat.findings.steps import Step
from nfslat.findings.unseen import WithUnseen
from nfslat.findings.words import lowered, ms, percent, times
from nfslat.model.record import Record

COMPLETE, INCOMPLETE = 0.95, 0.80  # of the operations in both captures: enough; too few to say that nothing is wrong
FEW_OPS, VERY_FEW_OPS = 100, 20  # in both captures: confidence is medium, low at most
# Shares are of the mean response time where nothing else is said. They were chosen, and tried on the runs of
# docs/measured.md, "Verdicts": none of them is measured.
_BETWEEN_TRIES_SHARE = 0.5  # of the time of requests, between tries: that is the answer
_MOST_SHARE = 0.5  # of a limit that leads before slots; of what is vague together, or left in a layer, to leave it open
_TOGETHER_SHARE, _EACH_SHARE = 0.5, 0.1  # several causes, none of which leads by itself, explain all and each
_NAMED_SHARE = 0.05  # of what is only likely, to be named where nothing can be decided
_SLOWEST_SHARE = 0.5  # of the slowest 1 %, to lead by those
_SURER_FACTOR = 0.5  # of what is open, that a certain cause explains at least to lead beside it
_NEGATIVE_SHARE = 0.1  # of the ops, with a negative network part: stamps or matches are wrong
_LOSS_SHARE, _UNTOLD_LOSS_SHARE = 0.002, 0.01  # of the ops, in one capture: a slow reply may be lost; no "no fault"
_UNCLOCKED_SHARE = 0.25  # that a mean may be off by without the clock of the other host
_UNHEARD_SHARE = 0.2  # of the time in which a server's capture hears nothing of a client: no "no fault"


class Ground(NamedTuple):
    """What a verdict stands on."""

    ops: int  # matched ops, with figures
    complete: float  # of all operations of this time, those
    incomplete: str  # why the others are not, in words; "" where none are missing
    negative: int  # matched ops with a negative network part
    clock_fits: bool  # one constant offset explains all ops
    impossible: int = 0  # ops, matched or not, whose reply a capture dates long before their call
    # Of the time of all calls at most, that of those without a reply at the end, and that of ops that are not shown.
    unfinished: float = 0.0
    hidden: float = 0.0
    is_bounded: bool = False  # ops that are not shown take as long as those that are, within bounds
    inferred: str | None = None  # the side that was not captured: what is said of it rests on the packets of the other
    error_ms: float = 0.0  # how far its mean may be off
    is_clocked: bool = True  # its clock is in the packets
    late: Sequence[str] = ()  # sides whose captures stamp packets late
    all_late: bool = False  # all that came in, in one of them
    lacks_files: bool = False  # one is missing of a set
    lost_share: float = 0.0  # of the ops, those for which the capture of one host shows that packets were lost
    long_ms: float = LONG_MS  # in the server: findings begin there to look for a cause
    idle: float = 0.0  # of the time, how much of it no client has anything in flight
    # Of the time, in how much of it a client was not heard of before it opened a connection, at the server alone.
    unheard: float = 0.0
    pool: float = 0.0  # how likely calls wait for a pool of threads, where no limit is told
    unseen_explain: bool = False  # what is left above the wire might be of ops that are not in the captures
    hogs: Mapping[str, Hog] = MappingProxyType({})  # as in `Facts`
    ticks: Ticks | None = None  # stamps bear no more than means
    unseen: WithUnseen | None = None  # where the means of ops that are shown mislead; the verdict's are with the rest


class Lead(Record):
    """An outcome, and what it is about."""

    outcome: str
    cause: Diagnosis | None = None
    by: str = ""  # how the cause leads: "mean", "slowest", "limit" or "tries"
    also: list[Diagnosis] = []
    either: Diagnosis | None = None  # said behind the cause: slots, or callers, which packets do not tell apart
    why: str = ""  # it is undecided
    next: NextStep | None = None


def _open(why: str, step: Step | None, also: Sequence[Diagnosis] = ()) -> Lead:
    return Lead("undecided", also=list(also[:2]), why=why, next=None if step is None else next_step(step))


def lead(
    mean: Layers,
    ground: Ground | None,
    findings: Sequence[Diagnosis] = (),
    objectives: Sequence[Objective] = (),
) -> Lead:
    """`findings` in the order of `ranked`; without `ground` the means are figures that somebody gave."""
    found = _lead(mean, ground, findings, objectives)
    ticks, unseen = (None, None) if ground is None else (ground.ticks, ground.unseen)
    is_known = unseen is None or unseen.largest(mean) is not None
    is_met = found.outcome == "no-fault" and objectives and all(one.met for one in objectives)
    if ticks is None or found.outcome == "fault" or ticks.contradicts(mean) or not is_known or is_met:
        return found
    return _open(ticks.why(mean), steps.FINER, found.also)


def _lead(mean: Layers, ground: Ground | None, findings: Sequence[Diagnosis], objectives: Sequence[Objective]) -> Lead:
    if mean.network_ms < 0 or mean.server_ms < 0:
        return _open(_wrong_times(mean), steps.AGAIN)
    matter = [one for one in findings if one.severity == "warning"]
    put_off = [one for one in findings if one.code in PUT_OFF and one.share is not None]
    if sum(map(_share, put_off)) >= _BETWEEN_TRIES_SHARE:
        return _fault(max(put_off, key=_share), "tries", matter)
    limits = [one for one in matter if one.evidence.is_at_work(one.share, mean) or one.code in HANGS]
    causes = [one for one in matter if one.code not in VAGUE and _share(one) > 0]
    enough = [one for one in causes if _share(one) >= _least(one)]
    # More slots only lengthen the queue for the threads of a server.
    if limits and not any(one.code == THREADS and _share(one) >= _MOST_SHARE for one in enough):
        return _fault(next((one for one in limits if one.code in HANGS), limits[0]), "limit", matter)
    if objectives and all(one.met for one in objectives):
        return Lead("no-fault", also=enough[:2])
    if ground is not None and ground.unseen is not None and ground.unseen.largest(mean) is None:
        shown, enough = enough, [cause for cause in enough if cause.evidence.is_recorded]
        if not enough:
            why = "what the operations that are not shown waited for is not known, and they have much of the time"
            return _open(why, _to_see_all(ground), shown)
    vague = [one for one in matter if one.code in VAGUE]
    open_ones = [one for one in vague if _is_open(one, mean)]
    most_open = max(map(_share, vague), default=0.0)
    surer = {"certain": _SURER_FACTOR * most_open, "likely": most_open}
    best, by = next((one for one in enough if _share(one) >= surer[one.confidence]), None), "mean"
    tail = [one for one in causes if (one.slowest or 0.0) >= _SLOWEST_SHARE]
    if best is None and not open_ones:  # nothing that is open is worth a question beside what makes the slowest
        best = next((one for one in tail if one in enough), None)
        together = sum(_share(one) for one in vague if one.code != ASYMMETRY)
        if best is None and (enough or (together >= _MOST_SHARE and together * mean.total_ms >= OPEN_MS)):
            open_ones = vague
    if best is None and open_ones:
        return _undecided_by(max(open_ones, key=_share), matter)
    if best is None and tail:
        best, by = max(tail, key=lambda one: one.slowest or 0.0), "slowest"
    if best is not None:
        doubt = _doubt(best, None if by == "slowest" else best.share, mean, ground)
        return _open(doubt, steps.AGAIN, enough) if doubt else _fault(best, by, matter)
    some = [one for one in causes if _share(one) >= _EACH_SHARE and row(one.code).least != SYMPTOM]
    if len(some) > 1 and sum(map(_share, some)) >= _TOGETHER_SHARE:
        return _fault(some[0], "mean", matter)
    others = sorted((one for one in matter if one.share is None and one.code not in VAGUE), key=_may_be_none)
    if others and not _may_be_none(others[0]):
        return _fault(others[0], "limit", matter)
    if others:
        return Lead("undecided", also=others[:1], why=lowered(others[0].headline), next=row(others[0].code).next)
    if ground is None:
        return _open("figures alone do not say why it takes so long", steps.FROM_HOSTS)
    known = [one for one in findings if one.code not in VAGUE and _share(one)]
    known = [one for one in known if one.confidence == "certain" or _share(one) >= _NAMED_SHARE][:2]
    why, step = _too_little(mean, ground, findings, objectives)
    certain = [one for one in known if one.confidence == "certain"]
    return _open(why, step, known) if why else Lead("no-fault", also=certain)


def _share(one: Diagnosis) -> float:
    """What is known of its share of the mean."""
    return one.share or 0.0


def _doubt(one: Diagnosis, share: float | None, mean: Layers, ground: Ground | None) -> str:
    """Why a cause may be none: it rests on times that were inferred, and not well enough; `share` is that by which it
    leads."""
    if ground is None or ground.inferred is None or isinstance(one.evidence, Reconnect):
        return ""  # the waits for a connection are measured where the calls were sent again
    if share is not None and share * mean.total_ms - ground.error_ms < _least(one) * _SURER_FACTOR * mean.total_ms:
        return (
            f"the {ground.inferred}'s times are inferred from the packets of one capture, to within "
            f"{ms(ground.error_ms)} ms in the mean, which is too little to name a layer"
        )
    # Nothing shows those that were lost, but they are hardly more than the losses that the capture does show.
    may_be_lost = ground.lost_share * ground.ops >= _SURER_FACTOR * one.evidence.losses(ground.ops)
    if one.layer == ground.inferred == "server" and ground.lost_share > _LOSS_SHARE and may_be_lost:
        return (
            "packets are lost on the path, and a reply that was lost whole and retransmitted looks like a slow "
            "operation in a capture of the client alone"
        )
    return ""


def _least(cause: Diagnosis) -> float:
    """Share with which it leads: what ops that are not shown took is a bound, and more may lie behind it."""
    return CAUSE if isinstance(cause.evidence, LateUnseen) else row(cause.code).least


def _fault(cause: Diagnosis, by: str, matter: Sequence[Diagnosis]) -> Lead:
    also = _besides(cause, matter)
    # What it keeps from the wire may be more than all that the cause explains; one measurement tells.
    on_wire = cause.layer != "client"  # what keeps requests above the wire has that measure already
    either = next((slots for slots in also if _may_be_none(slots)), None) if on_wire else None
    if either is not None:
        also = [*[one for one in also if one is not either][:1], either]
    # What is certain, and has its share, needs no further measurement.
    is_settled = either is None and cause.confidence == "certain" and cause.share is not None
    return Lead("fault", cause, by, also[:2], either, next=None if is_settled else row((either or cause).code).next)


def _besides(cause: Diagnosis, matter: Sequence[Diagnosis]) -> list[Diagnosis]:
    """What else is worth a word."""
    others = [one for one in matter if one is not cause and one.code not in VAGUE]
    slow = [one for one in others if (one.slowest or 0.0) >= _SLOWEST_SHARE]
    return [one for one in others if one.share is None or one.share >= _least(one) or one in slow]


def _may_be_none(one: Diagnosis) -> bool:
    """A limit that as many callers would look like."""
    return isinstance(one.evidence, Slots) and not one.evidence.is_told


def _is_open(one: Diagnosis, mean: Layers) -> bool:
    """Is so much of the mean left without a reason that nobody can be told whose fault it is?"""
    share, long_ms = row(one.code).open_from
    return _share(one) >= share and _share(one) * mean.total_ms >= long_ms


def _undecided_by(one: Diagnosis, matter: Sequence[Diagnosis]) -> Lead:
    is_one_way = any(other.code == ASYMMETRY and _share(other) >= _SURER_FACTOR * _share(one) for other in matter)
    step = row(ASYMMETRY if one.code == BETWEEN and is_one_way else one.code).next
    if isinstance(one.evidence, Unknown) and one.evidence.late_ms:
        step = next_step(steps.SCHED)
    return Lead("undecided", one, "mean", _besides(one, matter)[:2], next=step)


def _to_see_all(ground: Ground) -> Step:
    """What shows the operations that are not in the captures."""
    return steps.ALL_FILES if ground.lacks_files else steps.WHOLE_PACKETS


def _too_little(
    mean: Layers, ground: Ground, findings: Sequence[Diagnosis], objectives: Sequence[Objective]
) -> tuple[str, Step | None]:
    """Why nobody can say that nothing is wrong, "" where one can; and what would tell."""
    if ground.ops < VERY_FEW_OPS:
        return f"only {ground.ops} operations are in both captures", steps.LONGER
    if ground.complete < INCOMPLETE and not ground.is_bounded:
        return f"only {complete(ground.complete, inferred=ground.inferred is not None)}", _to_see_all(ground)
    if ground.negative > _NEGATIVE_SHARE * ground.ops:
        return f"{ground.negative:,} operations take longer at the server than at the client", steps.AGAIN
    if not ground.clock_fits:
        return "no offset of the two clocks explains the operations: time stamps or matches are wrong", steps.AGAIN
    if ground.impossible:
        impossible = times(ground.impossible, "operation")
        return f"{impossible} would have had a reply long before the call: stamps are wrong", steps.AGAIN
    if ground.unfinished >= OPEN_SHARE:
        unfinished = percent(ground.unfinished)
        return f"calls without a reply have {unfinished} of the time when the capture ends", steps.LONGER
    if ground.unseen is not None:
        why = "operations that the captures do not show have much of the time, and what they waited for is not known"
        return why, _to_see_all(ground)
    # Between the capture points that has a finding of its own, but where the shortest way is not known, or loss or a
    # queue explains a part of it.
    for layer, where, code in (("server", "in the server", UNKNOWN), ("network", "between the hosts", BETWEEN)):
        known_of = [one for one in findings if one.layer == layer and one.code not in (BETWEEN, ASYMMETRY)]
        left_ms = mean.ms(layer) - sum(map(_share, known_of)) * mean.total_ms
        if left_ms >= ground.long_ms and left_ms >= _MOST_SHARE * mean.total_ms:
            why = f"{ms(left_ms)} ms pass {where}, and nothing that was looked for explains them"
            return why, next(iter(row(code).decided_by), None)
    if any(one.met is False for one in objectives):
        asked = row(SLOW_OPS if mean.largest == "server" else BETWEEN).decided_by
        return "it is slower than you want, and no finding explains that", next(iter(asked), None)
    most = _MOST_SHARE if ground.is_clocked else _UNCLOCKED_SHARE
    if ground.error_ms >= max(most * mean.total_ms, row(BETWEEN).open_from[1]):
        why = (
            f"the {ground.inferred}'s times are inferred from the packets of one capture, to within "
            f"{ms(ground.error_ms)} of {ms(mean.total_ms)} ms"
        )
        return why, steps.AGAIN
    if ground.lost_share > _UNTOLD_LOSS_SHARE:
        why = "packets are lost on the path, and what that costs is not seen in the capture of one host alone"
        return why, steps.AGAIN
    if ground.unheard >= _UNHEARD_SHARE:
        why = (
            "the client was not heard of before it opened new connections, and whether its SYNs were lost, or it had "
            "nothing to ask for, no packet at the server shows"
        )
        return why, steps.AGAIN
    return "", None


def _wrong_times(mean: Layers) -> str:
    if mean.network_ms < 0:
        return (
            f"the server's response time ({ms(mean.server_ms)} ms) exceeds the client's "
            f"({ms(mean.server_ms + mean.network_ms)} ms), so the captures are swapped or of different traffic"
        )
    return (
        f"the server's response time is {ms(mean.server_ms)} ms on average, so its time stamps are wrong: calls and "
        "replies may be stamped by two clocks"
    )
