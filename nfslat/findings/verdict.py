"""Means per layer, of all ops and of the slowest 1 %, and what the captures can bear -> the verdict in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nfslat.answer.model import Verdict
from nfslat.findings.catalogue import ROWS, row
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.layers import LAYERS, Layers
from nfslat.findings.network import BETWEEN
from nfslat.findings.put_off import PUT_OFF_CODES
from nfslat.findings.unseen import WithUnseen
from nfslat.findings.words import filled, ms, percent, span

# Thresholds of the confidence word. A layer that adds less than half of the time cannot be called the cause of it.
_HIGH_MATCH, _LOW_MATCH = 0.95, 0.70
_HIGH_SHARE, _LOW_SHARE = 0.60, 0.45
_SOME_UNSEEN, _MUCH_UNSEEN = 0.02, 0.10
_FEW_OPS, _VERY_FEW_OPS = 100, 20
_MOST = 0.5  # of all the time of requests: so much of it between tries is the answer
_BETWEEN = "what is between the two capture points (path or the hosts' own kernels)"
_BOUND = 0.5  # of what its layer adds: so much of it that is known at most makes all of it no more than likely


@dataclass(frozen=True)
class Ground:
    """What the verdict stands on."""

    ops: int  # matched ops
    untimed: int  # matched too, but without figures, for a clock was set while they were under way
    missed: int  # ops inside the overlap without a partner, the worse side
    negative: int  # matched ops with a negative network part
    clock_fits: bool  # one constant offset explains all ops
    unseen_share: float  # of RPC messages or calls that the captures should show and do not, the worse side
    unseen_explain: bool = False  # what is left above the wire might be of ops that are not in the captures
    unseen: WithUnseen | None = (
        None  # where the means of the ops that are shown mislead; the verdict's are with the rest
    )


def verdict(mean: Layers, slowest: Layers | None, ground: Ground | None, findings: Sequence[Diagnosis] = ()) -> Verdict:
    """Name the layer that adds most, say how much, why, and how sure that is; see `Layers` for the populations.

    The cause is the one of `findings` about that layer that explains most of the mean, if it explains enough of it.
    Without `slowest` and `ground` the means are figures that somebody gave.
    """
    if mean.network_ms < 0:
        text = (
            f"No layer can be named: the server's response time ({ms(mean.server_ms)} ms) exceeds the client's "
            f"({ms(mean.server_ms + mean.network_ms)} ms), so the captures are swapped or of different traffic."
        )
        return Verdict("unknown", None, None, None, "low", text, [], ["the mean network time is negative"])
    if mean.server_ms < 0:
        text = (
            f"No layer can be named: the server's response time is {ms(mean.server_ms)} ms on average, so its time "
            "stamps are wrong: calls and replies may be stamped by two clocks."
        )
        return Verdict("unknown", None, None, None, "low", text, [], ["the mean server time is negative"])
    put_off = [one for one in findings if one.code in PUT_OFF_CODES and one.share is not None]
    if sum(one.share or 0.0 for one in put_off) >= _MOST:
        return _put_off(mean, put_off, ground)
    unseen = None if ground is None else ground.unseen
    if unseen is not None and not unseen.is_sure(mean):
        reasons = ["what the operations that are not shown took can change the layer; capture whole packets"]
        text = unseen.first_words() + unseen.cannot_tell(mean)
        return Verdict("unknown", None, None, None, "low", text, _proof(mean, None), reasons)
    layer = mean.largest
    share = mean.share(layer)
    # What the application waited for its slowest requests is not known, only the mean is.
    # And a part of a whole that holds negative parts is no share.
    is_known = mean.client_ms is None and unseen is None
    tail = slowest if is_known and slowest is not None and slowest.network_ms >= 0 else None
    share_slowest = None if tail is None else tail.share(layer)
    confidence, reasons = _confidence(layer, share, tail, slowest, ground)
    of = (
        f"of the application's {mean.ops if mean.ops != 'all' else ''} time".replace("  ", " ")
        if mean.client_ms is not None
        else "of the response time on the client's wire"
    )
    # What passes between tries is in no response time, and has a sentence of its own.
    of_layer = [
        one
        for one in findings
        if one.layer == layer and one.code not in PUT_OFF_CODES and (one.share or 0.0) >= row(one.code).least * share
    ]
    cause = max(of_layer, key=lambda one: one.share or 0.0, default=None)
    name = "the client" if layer == "client" and mean.client_ms is None else LAYERS[layer]
    if layer == "network" and any(one.code == BETWEEN for one in findings):
        name = _BETWEEN
        reasons.append("what is between the two capture points may be the path's or the hosts' own kernels'")
        confidence = "low"
    text = "" if unseen is None else unseen.first_words()
    about = "" if unseen is None or unseen.is_one_figure else "about "
    text += f"{_capital(name)} adds {about}{ms(mean.ms(layer))} of {ms(mean.total_ms)} ms {of} "
    text += f"({share * 100:.1f} %)"
    # A client that did not run, and of which no more is known, is its own reason.
    if cause is not None and not (row(cause.code).unsaid_of == layer and mean.client_ms is None):
        text += f", {cause.because()}"
    if tail is None:
        text += "."
    elif tail.largest == layer:
        text += f", and {tail.share(layer) * 100:.1f} % in the slowest 1 %."
    else:
        other = tail.largest
        text += f"; in the slowest 1 % {LAYERS[other]} adds most: {tail.share(other) * 100:.1f} % "
        text += f"of {ms(tail.total_ms)} ms."
    text += _kept(mean, layer) or _moved(mean, layer, "The")
    text += _of_tries(mean, layer)
    if tail is not None and (tail.largest != layer or not mean.moved_ms.get(layer)):
        text += _moved(tail, tail.largest, "In the slowest the")
    if mean.client_ms is None:
        text += _beyond_the_wire(findings) + _between_tries(put_off)
    if cause is not None and cause.confidence != "certain":
        reasons.append(f"the cause, {cause.code}, is {cause.confidence}")
        # Of the whole sentence; who gets the ticket depends on its second half.
        confidence = min(confidence, "medium", key=("low", "medium", "high").index)
    if mean.kept_ms.get(layer) and mean.kept_ms[layer] >= _BOUND * mean.ms(layer):
        reasons.append(f"up to {ms(mean.kept_ms[layer])} ms of it are known as no more than that")
        confidence = min(confidence, "medium", key=("low", "medium", "high").index)
    if layer == "client" and mean.client_ms is not None and ground is not None and ground.unseen_explain:
        reasons.append("what lies above the wire may be of ops that are not in the captures")
        confidence = min(confidence, "medium", key=("low", "medium", "high").index)
    if unseen is not None:
        reasons.append(
            "operations that are not shown have much of the time; their sums are known, not what they waited for"
        )
        confidence = "low" if confidence == "low" else "medium"
    proof = _proof(mean, cause)
    return Verdict(layer, cause.code if cause else None, share, share_slowest, confidence, text, proof, reasons)


def _put_off(mean: Layers, findings: Sequence[Diagnosis], ground: Ground | None) -> Verdict:
    """Most of the time lies between tries of requests that were answered with errors: the layers of the wire, and what
    a client has above it, are the rest."""
    cause = max(findings, key=lambda one: one.share or 0.0)
    share = sum(one.share or 0.0 for one in findings)
    waits_ms = sum(getattr(one.evidence, "between_ms", 0.0) for one in findings)
    wire_ms = mean.server_ms + mean.network_ms
    if mean.client_ms is None:
        of = f"{percent(share)} of all the time of requests"
    else:
        ops = "" if mean.ops in ("", "all") else f"{mean.ops} "
        of = f"{ms(waits_ms)} of {ms(mean.total_ms)} ms of the application's {ops}time ({percent(share)})"
    who = "The server's NFS errors" if cause.layer == "server" else "NFS errors"
    text = (
        f"{who} make requests wait above the wire, {cause.because()}. So {of} "
        f"{'passes' if mean.client_ms is None else 'pass'} between tries; on the wire a call takes {ms(wire_ms)} ms."
    )
    confidence, reasons = _confidence(cause.layer, share, None, None, ground)
    if cause.confidence != "certain":
        reasons.append(f"the cause, {cause.code}, is {cause.confidence}")
        confidence = min(confidence, "medium", key=("low", "medium", "high").index)
    total = sum(getattr(one.evidence, "total_between_ms", 0.0) for one in findings)
    proof = [f"between tries {span(total)} in all", *_proof(mean, None)]
    return Verdict(cause.layer, cause.code, share, None, confidence, text, proof, reasons)


def _between_tries(findings: Sequence[Diagnosis]) -> str:
    """A sentence on requests that were tried again, where they are not most of the time, and the application's is not
    known."""
    if not findings:
        return ""
    most = max(findings, key=lambda one: one.share or 0.0)
    return f" Above the wire there is more: {filled('{each}, {answered}', most.evidence)}."


def _of_tries(of: Layers, layer: str) -> str:
    """A sentence: what of an application's time passes between tries, which is whose answers put them off."""
    if layer != "client":
        some = of.put_off_ms.get(layer, 0.0)
        return f" {ms(some)} ms of them pass between tries of requests that got NFS errors." if some else ""
    some = sum(of.put_off_ms.values())
    return f" {ms(some)} ms more pass between tries of requests that got NFS errors of the server." if some else ""


def _kept(of: Layers, layer: str) -> str:
    """A sentence: how what a layer adds comes from more than its part of the response time, where it kept requests
    above the wire; what the client adds then is less."""
    if not of.kept_ms.get(layer) and not (of.kept_ms and layer == "client"):
        return ""
    moved = of.moved_ms.get(layer, 0.0)
    tcp = f", {'plus' if moved > 0 else 'less'} {ms(abs(moved))} ms that pauses and TCP make" if moved else ""
    if layer != "client":
        own = f"its response time of {ms(of.server_ms)} ms" if layer == "server" else f"{ms(of.network_ms)} ms on it"
        return (
            f" The {ms(of.ms(layer))} ms are {own}{tcp}, and up to "
            f"{ms(of.kept_ms[layer])} ms for which requests could not leave the client because of it."
        )
    return (
        f" The {ms(of.ms(layer))} ms are {ms(of.client_ms or 0.0)} ms above the wire{tcp}, less up to "
        f"{ms(sum(of.kept_ms.values()))} ms for which requests could not leave it because of the "
        f"{' and the '.join(of.kept_ms)}."
    )


def _moved(of: Layers, layer: str, the: str) -> str:
    """A sentence, which `the` begins: how what `layer` adds comes from the two SRTs' figures, where some was moved."""
    moved = of.moved_ms.get(layer, 0.0)
    if not moved:
        return ""
    the_sum = f" {the} {ms(of.ms(layer))} ms are"
    if layer == "server":
        own = f"{the_sum} its response time of {ms(of.server_ms)} ms"
        if moved < 0:
            return f"{own}, less {ms(-moved)} ms in which TCP kept calls or replies back."
        return f"{own} and {ms(moved)} ms in which it did not run while calls were on the way to it."
    if layer == "network":
        own = f"{the_sum} {ms(of.network_ms)} ms between the hosts"
        if moved > 0:
            return f"{own} and {ms(moved)} ms in which TCP kept calls or replies back at the server."
        return f"{own}, less {ms(-moved)} ms in which a host did not run."
    own = "" if of.client_ms is None else f" {ms(of.client_ms)} ms above the wire and"
    return f"{the_sum}{own} {ms(moved)} ms in which it did not run while replies were on the way to it."


def _beyond_the_wire(findings: Sequence[Diagnosis]) -> str:
    """A limit of the client is visible, or that it stood still, and the wait for it is not.

    To be said, for it may be more than all the rest.
    """
    for known in ROWS:
        for one in findings if known.beyond else ():
            if one.code == known.code and (one.share is None or one.evidence.may_be_more):
                return f" Above the wire there may be more: {filled(known.beyond, one.evidence)}"
    return ""


def _proof(mean: Layers, cause: Diagnosis | None) -> list[str]:
    """The figures that prove it, the most telling three."""
    wire_ms = mean.server_ms + mean.network_ms
    figures = [] if mean.client_ms is None else [f"application {ms(mean.total_ms)} ms"]
    figures += [f"client SRT {ms(wire_ms)} ms", f"server SRT {ms(mean.server_ms)} ms"]
    if cause is not None and mean.client_ms is None:
        for name, words in row(cause.code).proof:
            value = getattr(cause.evidence, name, None)
            if value is not None:
                return [*figures, f"{words} {ms(value)} ms"]
    return figures


def _confidence(
    layer: str, share: float, tail: Layers | None, slowest: Layers | None, ground: Ground | None
) -> tuple[str, list[str]]:
    """The weakest of all grounds decides; each that is not strong is named."""
    if ground is None:
        reasons = ["the figures are taken as they were given, and may speak of different requests"]
        if share < _HIGH_SHARE:
            reasons.append(f"no layer stands out: the largest adds {share * 100:.1f} %")
        return ("medium" if share >= _HIGH_SHARE else "low"), reasons
    reasons = []
    worst = 2
    seen = ground.ops + ground.untimed + ground.missed
    matched_share = ground.ops / seen if ground.ops else 0.0
    timed = " and timed" if ground.untimed else ""
    reasons.append(f"{matched_share * 100:.1f} % of the {seen:,} ops seen in the overlap are matched{timed}")
    worst = min(worst, _grade(matched_share, _LOW_MATCH, _HIGH_MATCH))
    if ground.ops < _FEW_OPS:
        reasons.append(f"only {ground.ops} matched ops")
        worst = min(worst, 0 if ground.ops < _VERY_FEW_OPS else 1)
    if share < _HIGH_SHARE:
        reasons.append(f"no layer stands out: the largest adds {share * 100:.1f} %")
        worst = min(worst, _grade(share, _LOW_SHARE, _HIGH_SHARE))
    if tail is not None and tail.largest != layer:
        reasons.append("mean and slowest 1 % point to different layers")
        worst = min(worst, 1)
    if slowest is not None and slowest.network_ms < 0:
        reasons.append("the network time of the slowest 1 % is negative on average")
        worst = min(worst, 1)
    if ground.negative > 0.01 * ground.ops:
        reasons.append(f"{ground.negative} ops have a negative network part: timestamps or matches are off")
        worst = min(worst, 0 if ground.negative > 0.1 * ground.ops else 1)
    if not ground.clock_fits:
        reasons.append("no offset of the two clocks explains the ops: time stamps or matches are wrong")
        worst = 0
    if ground.unseen_share > _SOME_UNSEEN:
        reasons.append(
            f"{ground.unseen_share * 100:.0f} % of the RPC messages are not captured, or without their partner"
        )
        worst = min(worst, 0 if ground.unseen_share > _MUCH_UNSEEN else 1)
    return ("low", "medium", "high")[worst], reasons


def _grade(value: float, low: float, high: float) -> int:
    return 2 if value >= high else 1 if value >= low else 0


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
