"""Figures of some layers, not of all -> a stack with its hole, what they prove, and the measurement that fills it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from nfslat.answer.model import NextStep, StackRow, Verdict
from nfslat.findings.catalogue import VAGUE, next_step
from nfslat.findings.catalogue import row as row_of
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.steps import THREADS
from nfslat.findings.words import ms
from nfslat.model.record import Record

# Where a latency can be measured, from the outside in: each holds those behind it.
POINTS = {
    "app_ms": "application",
    "client_ms": "client SRT",
    "server_ms": "server SRT",
    "thread_ms": "in a thread",
    "storage_ms": "storage",
}
_WHOLE = {"app_ms": "the application's", "client_ms": "the client SRT's"}
# What a point holds that the next one does not, and whose that is.
_OWN = (
    ("above the wire", "client"),
    ("network", "network"),
    ("waiting for a thread", "server"),
    ("server, outside storage", "server"),
    ("storage", "server"),
)
_ADDS = {"client": "The client, above the wire,", "network": "The network", "server": "The server"}
_IN = {"client": "the client above the wire", "network": "the network", "server": "the server"}
_INSIDE = {"server_ms": "server", "thread_ms": "server's thread", "storage_ms": "storage"}
_WIRE = "timeout 60 tcpdump -i any -s 0 -B 65536 -w {side}.pcap port 2049; nfslat {side}.pcap"
_TAKEN = ("app_ms", "thread_ms", "storage_ms")  # by nfslat capture, too
_MOST = 0.5  # of the whole: a layer that is known to have so much is the answer


class Part(Record):
    """What lies between a figure and the next one that is known."""

    label: str
    ms: float
    layers: frozenset[str]  # more than one: nothing tells which
    missing: tuple[str, ...]  # figures that would tell
    source: str


def parts(known: Mapping[str, float]) -> list[Part]:
    """They sum to the outermost figure. `known` has at least one."""
    names = list(POINTS)
    at = [number for number, name in enumerate(names) if name in known]
    found = []
    for first, last in itertools.pairwise([*at, len(names)]):
        own = _OWN[first:last]
        layers = frozenset(layer for _, layer in own)
        inner = known[names[last]] if last < len(names) else 0.0
        if len(layers) > 1:
            label = "not told: " + ", ".join(dict.fromkeys(layer for _, layer in own))
        else:
            label = own[-1][0] if last < len(names) else POINTS[names[first]]
        option = f"--{names[first].replace('_', '-')}"
        source = f"{POINTS[names[first]]} - {POINTS[names[last]]}" if last < len(names) else option
        missing = tuple(names[first + 1 : last])
        found.append(Part(label, known[names[first]] - inner, layers, missing, source))
    return found


def rows(known: Mapping[str, float], found: Sequence[Part]) -> list[StackRow]:
    """The outermost figure, and what it is made of, as far as that is known."""
    outer = next(name for name in POINTS if name in known)
    whole = known[outer]

    def row(label: str, depth: int, value: float, source: str) -> StackRow:
        return StackRow("all", label, depth, value, value / whole if whole > 0 else None, source)

    top = row(POINTS[outer], 0, whole, f"--{outer.replace('_', '-')}")
    return [
        top,
        *(row(part.label, 1, part.ms, part.source) for part in found if len(found) > 1 or len(part.layers) > 1),
    ]


def verdict(known: Mapping[str, float], found: Sequence[Part], findings: Sequence[Diagnosis]) -> Verdict:
    """What the figures prove, and the next measurement."""
    outer = next(name for name in POINTS if name in known)
    whole = known[outer]
    reasons = ["the figures are taken as they were given, and may speak of different requests"]

    def said(
        text: str,
        following: NextStep | None,
        layer: str | None = None,
        share: float | None = None,
        cause: str | None = None,
    ) -> Verdict:
        return Verdict(
            outcome="undecided" if cause is None else "fault",
            layer=None if cause is None else layer,
            cause=cause,
            also=[],
            share=None if cause is None else share,
            share_slowest=None,
            confidence="low" if layer is None else "medium",
            text=text if cause is not None else f"Cannot tell yet: {text}",
            next=following,
            largest_layer=layer,
            largest_share=share,
            largest_share_slowest=None,
            objectives=[],
            proof=[],
            reasons=reasons,
        )

    if outer not in ("app_ms", "client_ms"):
        first = f"{findings[0].headline}. " if findings else ""
        text = f"{first}The {_INSIDE[outer]} takes {ms(whole)} ms. What is above it was not measured."
        return said(text, _to_fill(known, ("client_ms",)))
    least = {layer: sum(part.ms for part in found if part.layers == {layer}) for layer in _ADDS}
    layer = max(least, key=lambda one: least[one])
    holes = [part for part in found if len(part.layers) > 1]
    if least[layer] > _MOST * whole:
        cause = next((one for one in findings if one.layer == layer), None)
        adds = _ADDS[layer] if cause else _ADDS[layer][0].lower() + _ADDS[layer][1:]
        more = "at least " if any(layer in part.layers for part in holes) else ""
        text = f"{adds} adds {more}{ms(least[layer])} of {_WHOLE[outer]} {ms(whole)} ms "
        text += f"({_share(least[layer], whole)})"
        if cause is not None:
            text = f"{cause.headline}. {text}"
        elif layer == "server" and known.get("storage_ms", 0.0) > _MOST * whole:
            text += f", {ms(known['storage_ms'])} ms of it in the storage"
        split = layer == "server" and "server_ms" in known and "thread_ms" not in known
        following = next_step(THREADS) if split else None
        code = None if cause is None or cause.code in VAGUE else cause.code
        if cause is not None and code is None:
            following = row_of(cause.code).next
        return said(f"{text}.", following, layer, least[layer] / whole, code)
    if not holes:
        return said(f"No layer has most of {_WHOLE[outer]} {ms(whole)} ms.", None)
    hole = max(holes, key=lambda part: part.ms)
    names = [_IN[one] for one in _IN if one in hole.layers]
    text = f"{ms(hole.ms)} of {_WHOLE[outer]} {ms(whole)} ms ({_share(hole.ms, whole)}) lie in "
    text += f"{', '.join(names[:-1])} or {names[-1]}; the figures given do not tell which."
    if "storage_ms" in known and known["storage_ms"] <= _MOST * hole.ms:
        text += f" It is not the storage, which takes {ms(known['storage_ms'])} ms "
        text += f"({_share(known['storage_ms'], whole)})."
    reasons.append(f"nothing was measured between {_ends(known, hole)}")
    return said(text, _to_fill(known, hole.missing))


def _share(some: float, whole: float) -> str:
    return f"{some / whole * 100:.1f} %" if whole > 0 else "all"


def _ends(known: Mapping[str, float], hole: Part) -> str:
    names = list(POINTS)
    outer = names[names.index(hole.missing[0]) - 1]
    inner = next((name for name in names[names.index(hole.missing[-1]) + 1 :] if name in known), None)
    return f"{POINTS[outer]} and {POINTS[inner]}" if inner else f"{POINTS[outer]} and storage"


def _to_fill(known: Mapping[str, float], missing: Sequence[str]) -> NextStep:
    """What tells the layers of a hole apart, between which the figures `missing` are."""
    if {"client_ms", "server_ms"} <= set(missing):
        figures = " ".join(f"--{name.replace('_', '-')} {known[name]:g}" for name in _TAKEN if name in known)
        return NextStep(
            f"nfslat capture --server SERVER --client CLIENT {figures}".rstrip(),
            "a host that reaches both by ssh, while it is slow",
            "which of them it is, and why; nfslat client.pcap alone tells the client from the rest (--client-ms)",
            [],
        )
    side = "client" if "client_ms" in missing else "server"
    return NextStep(
        _WIRE.format(side=side),
        f"the {side}, while it is slow",
        f"the mean {side} SRT (--{side}-ms): {'client or network' if side == 'client' else 'network or server'}",
        [],
    )
