"""Means per layer, of all ops and of the slowest 1 %, and what the captures can bear -> the verdict in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nfslat.answer.model import Finding, Verdict
from nfslat.findings.words import ms, times

LAYERS = {"server": "the server", "network": "the network", "client": "the client, above the wire,"}
# Thresholds of the confidence word. A layer that adds less than half of the time cannot be called the cause of it.
_HIGH_MATCH, _LOW_MATCH = 0.95, 0.70
_HIGH_SHARE, _LOW_SHARE = 0.60, 0.45
_SOME_UNSEEN, _MUCH_UNSEEN = 0.02, 0.10
_FEW_OPS, _VERY_FEW_OPS = 100, 20
_CAUSE = 0.3  # of what its layer adds; a finding that explains less is not the cause
_BOUND = 0.5  # of what its layer adds: so much of it that is known at most makes all of it no more than likely
_SYMPTOM = {"congestion-window": 0.5, "unknown-window": 0.5}  # the same where something else mostly lies behind it


# What a cause's figure is called among the proofs.
_WAITS = {
    "net-loss": "wait for lost data",
    "net-reordering": "wait for overtaken packets",
    "delayed-ack": "wait for delayed ACKs",
    "zero-window": "wait for the receiver's window",
    "receive-window": "wait for room in the receiver's window",
    "congestion-window": "wait for ACKs",
    "unknown-window": "wait for ACKs, as a window was full",
    "head-of-line": "wait behind other replies",
    "bandwidth": "wait for the path's bandwidth",
    "host-pause": "while the host did not run",
}


@dataclass(frozen=True)
class Layers:
    """Mean ms that each layer adds to one population of ops; `client_ms` only where the application's is known."""

    server_ms: float
    network_ms: float
    client_ms: float | None = None
    ops: str = ""  # which ops the means are over, where it is not all of them
    # By layer, ms that are its own though they lie within the time of another; they sum to 0 (`facts.moved_ms`).
    moved_ms: Mapping[str, float] = field(default_factory=dict)
    # By layer, of `client_ms` what it kept above the wire, at most: that is its own.
    kept_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def total_ms(self) -> float:
        """Client SRT, or the application's time where it is known."""
        return self.server_ms + self.network_ms + (self.client_ms or 0.0)

    def ms(self, layer: str) -> float:
        """What `layer` adds; of a client that is not known, what is known of it."""
        own = {"server": self.server_ms, "network": self.network_ms, "client": self.client_ms or 0.0}[layer]
        kept = -sum(self.kept_ms.values()) if layer == "client" else self.kept_ms.get(layer, 0.0)
        return own + self.moved_ms.get(layer, 0.0) + kept

    def share(self, layer: str) -> float:
        """Share of `layer` in the total, 0 to 1 where no part is negative; 0 of a total of 0."""
        return self.ms(layer) / self.total_ms if self.total_ms else 0.0

    @property
    def largest(self) -> str:
        """The layer that adds most."""
        return max(LAYERS, key=self.share)


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


def verdict(mean: Layers, slowest: Layers | None, ground: Ground | None, findings: Sequence[Finding] = ()) -> Verdict:
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
    layer = mean.largest
    share = mean.share(layer)
    # What the application waited for its slowest requests is not known, only the mean is.
    # And a part of a whole that holds negative parts is no share.
    tail = None if mean.client_ms is not None or slowest is None or slowest.network_ms < 0 else slowest
    share_slowest = None if tail is None else tail.share(layer)
    confidence, reasons = _confidence(layer, share, tail, slowest, ground)
    of = (
        f"of the application's {mean.ops if mean.ops != 'all' else ''} time".replace("  ", " ")
        if mean.client_ms is not None
        else "of the response time on the client's wire"
    )
    of_layer = [
        one for one in findings if one.layer == layer and (one.share or 0.0) >= _SYMPTOM.get(one.code, _CAUSE) * share
    ]
    cause = max(of_layer, key=lambda one: one.share or 0.0, default=None)
    name = "the client" if layer == "client" and mean.client_ms is None else LAYERS[layer]
    text = f"{_capital(name)} adds {ms(mean.ms(layer))} of {ms(mean.total_ms)} ms {of} "
    text += f"({share * 100:.1f} %)"
    # A client that did not run, and of which no more is known, is its own reason.
    if cause is not None and not (cause.code == "host-pause" and layer == "client" and mean.client_ms is None):
        text += f", {_because(cause, above_wire=mean.client_ms is not None)}"
    if tail is None:
        text += "."
    elif tail.largest == layer:
        text += f", and {tail.share(layer) * 100:.1f} % in the slowest 1 %."
    else:
        other = tail.largest
        text += f"; in the slowest 1 % {LAYERS[other]} adds most: {tail.share(other) * 100:.1f} % "
        text += f"of {ms(tail.total_ms)} ms."
    text += _kept(mean, layer) or _moved(mean, layer, "The")
    if tail is not None and (tail.largest != layer or not mean.moved_ms.get(layer)):
        text += _moved(tail, tail.largest, "In the slowest the")
    if mean.client_ms is None:
        text += _beyond_the_wire(findings)
    if cause is not None and cause.confidence != "certain":
        reasons.append(f"the cause, {cause.code}, is {cause.confidence}")
        if cause.code in ("server-threads", "above-wire") and confidence == "high":
            confidence = "medium"  # who gets the ticket depends on it
    if mean.kept_ms.get(layer) and mean.kept_ms[layer] >= _BOUND * mean.ms(layer):
        reasons.append(f"up to {ms(mean.kept_ms[layer])} ms of it are known as no more than that")
        confidence = min(confidence, "medium", key=("low", "medium", "high").index)
    if layer == "client" and mean.client_ms is not None and ground is not None and ground.unseen_explain:
        reasons.append("what lies above the wire may be of ops that are not in the captures")
        confidence = min(confidence, "medium", key=("low", "medium", "high").index)
    proof = _proof(mean, cause)
    return Verdict(layer, cause.code if cause else None, share, share_slowest, confidence, text, proof, reasons)


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


def _because(cause: Finding, *, above_wire: bool) -> str:
    """What a verdict says of its cause: a few words, with the figure that matters."""
    e = cause.evidence
    threads = e.get("threads") or e.get("threads_estimate")
    if cause.code == "server-threads":
        low, high = e.get("threads_range") or (threads, threads)
        number = threads if "threads" in e or low == high else f"{low} to {high}"
        who = "a thread" if threads is None else "its only thread" if number == 1 else f"one of its {number} threads"
        or_storage = "" if cause.confidence == "certain" else ", or for storage that takes no more at once"
        room = (
            f", and up to {ms(e['counted_above_ms'])} ms for room in its TCP window" if "counted_above_ms" in e else ""
        )
        return f"{ms(e['queue_ms'])} ms of it the wait for {who}{or_storage}{room}"
    if cause.code == "server-storage":
        waits = e.get("queue_ms", e["in_thread_ms"])
        return f"{ms(min(waits, e.get('storage_ms', waits)))} ms of it for storage"
    if cause.code == "server-queue-unknown":
        return "by a queue of which nothing says what it is for"
    if cause.code == "reconnect" and e.get("counted_above_ms"):
        return f"up to {ms(e['excess_ms'] + e['counted_above_ms'])} ms of it while the client had no connection"
    if cause.code == "server-window":
        return f"up to {ms(e['counted_above_ms'])} ms of it for room in its TCP window"
    if cause.code == "reconnect":
        return f"{ms(e['excess_ms'])} ms of it by {times(e['ops'], 'op')} that waited for a new connection"
    if cause.code == "net-delay":
        return f"{ms(e['least_round_trip_ms'])} ms of it the round trip that every op pays"
    if cause.code == "net-loss":
        return f"{ms(e['wait_ms'])} ms of it until lost data were sent again"
    if cause.code == "net-reordering":
        return f"{ms(e['wait_ms'])} ms of it for packets that others had overtaken"
    if cause.code == "delayed-ack":
        return f"{ms(e['wait_ms'])} ms of it for ACKs that were kept back"
    if cause.code == "zero-window":
        return f"{ms(e['wait_ms'])} ms of it for a receiver that did not read"
    if cause.code == "receive-window":
        return f"{ms(e['wait_ms'])} ms of it for room in the receiver's TCP window"
    if cause.code == "unknown-window":
        return f"{ms(e['wait_ms'])} ms of it for ACKs, as a TCP window was full: whose is not known"
    if cause.code == "congestion-window":
        return f"{ms(e['wait_ms'])} ms of it for ACKs, as the congestion window was full"
    if cause.code == "head-of-line":
        return f"{ms(e['wait_ms'])} ms of it behind other replies on the same connection"
    if cause.code == "bandwidth":
        return f"{ms(e['wait_ms'])} ms of it because the path carries no more"
    if cause.code == "host-pause":
        above = e.get("counted_above_ms", e.get("above_wire_ms", 0.0)) if above_wire else 0.0
        return f"{'up to ' if above else ''}{ms(e['wait_ms'] + above)} ms of it while its host did not run"
    if cause.code in ("client-slots", "session-slots"):
        return f"for it has no more than {e['slots']} slot{'' if e['slots'] == 1 else 's'}"
    if cause.code == "net-asymmetry":
        return "in one direction more than in the other"
    if cause.code == "connection-cap":
        return "by a limit for each connection"
    if cause.code == "above-wire":
        return "and no limit of the client is seen to explain it"
    return f"by {cause.code}"


def _beyond_the_wire(findings: Sequence[Finding]) -> str:
    """A limit of the client is visible, or that it stood still, and the wait for it is not.

    To be said, for it may be more than all the rest.
    """
    cut = next((one for one in findings if one.code == "reconnect" and one.evidence.get("above_wire_ms")), None)
    if cut is not None:
        return (
            " Above the wire there may be more: the client had no connection for "
            f"{ms(cut.evidence['no_connection_ms'])} ms, and what its application waited then is not captured."
        )
    paused = next((one for one in findings if one.code == "host-pause" and one.share is None), None)
    if paused is not None:
        return (
            f" Above the wire there may be more: the client did not run for {ms(paused.evidence['total_ms'])} ms, "
            "and what its application waited then is not captured."
        )
    limit = next((one for one in findings if one.code in ("client-slots", "session-slots") and one.share is None), None)
    if limit is None:
        return ""
    return (
        f" Above the wire there may be more: the client is held at {limit.evidence['slots']} calls in flight, "
        "and those that wait are not captured."
    )


def _proof(mean: Layers, cause: Finding | None) -> list[str]:
    """The figures that prove it, the most telling three."""
    wire_ms = mean.server_ms + mean.network_ms
    figures = [] if mean.client_ms is None else [f"application {ms(mean.total_ms)} ms"]
    figures += [f"client SRT {ms(wire_ms)} ms", f"server SRT {ms(mean.server_ms)} ms"]
    if cause is not None and mean.client_ms is None:
        e = cause.evidence
        for name, words in (
            ("queue_ms", "wait for a thread" if cause.code == "server-threads" else "wait in its queue"),
            ("excess_ms", "waits for a new connection"),
            ("in_thread_ms", "in the server's threads"),
            ("wait_ms", _WAITS.get(cause.code, "wait")),
            ("least_round_trip_ms", "shortest round trip"),
        ):
            if name in e:
                return [*figures, f"{words} {ms(e[name])} ms"]
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
