"""Clients that stand out, and what is known of all -> groups with something in common, and single ones: `Pattern`s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from nfslat.findings.words import ms, percent, times
from nfslat.fleet.compare.distinct import CLIENT, KINDS, WHERE, Odd
from nfslat.fleet.compare.excess import LAYERS
from nfslat.fleet.compare.groups import Group, candidates, groups_of, together
from nfslat.fleet.compare.summary import ClientSummary
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.model import Excess, Pattern
from nfslat.model.units import iso

_NAMED = 4  # clients that a sentence names; of more it gives the number
_GROUP_OF = 2
_WORTH_SAYING, _TIMES_OTHERS = 0.001, 3  # share of bytes that are sent again
_GRADES = ("low", "medium", "high")
# How clients with a value are called.
_WHO = {
    "subnet": "in {}",
    "nfs": "that use NFS {}",
    "path": "that work on {}",
    "server address": "that call {}",
    "connections": "with {} connections each",
}


@dataclass(frozen=True)
class Fleetwide:
    """What patterns are made from."""

    clients: Sequence[ClientSummary]
    excess: Sequence[Excess | None]  # of each client
    total_ns: int  # time of all ops of all clients
    windows: Windows


def peculiar(odd: Sequence[Odd], fleet: Fleetwide) -> list[Pattern]:
    """Groups and single clients, in no order. A client is in one pattern for each way in which it stands out."""
    attributes = {one.name: one.groups for one in fleet.clients}
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in odd)]
    tests = len(candidates(attributes)) * len(kinds)
    found: list[Pattern] = []
    for kind in kinds:
        own = {one.name: one for one in odd if one.kind == kind}
        groups = groups_of(set(own), attributes, tests)
        inside = {name for group in groups for name in group.outliers}
        rest = {name: one for name, one in own.items() if name not in inside}
        found += [_group([own[name] for name in group.outliers], fleet, group, len(rest)) for group in groups]
        effects = {name: one.ms if kind != CLIENT and one.ms is not None else 1.0 for name, one in rest.items()}
        for alike in together(effects, {name: one.cause for name, one in rest.items()}):
            members = [rest[name] for name in alike]
            many = len(members) >= _GROUP_OF and len(fleet.clients) > _GROUP_OF
            found += [_group(members, fleet, None, 0)] if many else [_single(one, fleet) for one in members]
    return found


def _group(members: Sequence[Odd], fleet: Fleetwide, group: Group | None, outside: int) -> Pattern:
    effects = [one.ms for one in members if one.ms is not None]
    effect = median(effects) if effects else None
    cause = _most_common([one.cause for one in members])
    text = (
        _who(members, group) + _what(members, effect, cause) + _when_text(members, fleet) + _sent_again(members, fleet)
    )
    if group is None:
        text += "; nothing that is known of them tells them from the others"
    else:
        calm = len(group.members) - len(group.outliers)
        if calm:
            text += f"; {times(calm, 'other client')} of the group {'does' if calm == 1 else 'do'} not"
        if outside:
            text += f"; so {'does' if outside == 1 else 'do'} {times(outside, 'client')} outside of it"
    count = _inferred(members, fleet)
    if count:
        error_ms = max(fleet.clients[one.client].error_ms(one.kind) for one in members)
        text += f"; inferred for {'all' if count == len(members) else count} of them"
        text += f", to +/- {ms(error_ms)} ms" if error_ms else ""
    if group is not None and not group.sure:
        text += f" (chance would make such a group with a probability of {percent(group.p_value)})"
    sure = _GRADES[round(median(_GRADES.index(one.confidence) for one in members))]
    if group is not None and not group.sure:
        sure = min(sure, "medium", key=_GRADES.index)
    return _pattern(members, fleet, group, cause, effect, sure, f"{text[0].upper()}{text[1:]}")


def _single(one: Odd, fleet: Fleetwide) -> Pattern:
    text = f"{one.name} {one.why}" if one.kind == CLIENT and one.cause else f"{one.name}: {one.why}"
    text += _when_text([one], fleet)
    return _pattern([one], fleet, None, one.cause, one.ms, one.confidence, text)


def _pattern(
    members: Sequence[Odd], fleet: Fleetwide, group: Group | None, cause: str | None, effect: float | None,
    confidence: str, text: str,
) -> Pattern:  # fmt: skip
    excess_s = _excess_s(members, fleet)
    begin, end = _when(members, fleet)
    return Pattern(
        scope="group" if len(members) > 1 else "one",
        layer=members[0].layer,
        cause=cause,
        dimension=group.dimension if group else None,
        value=group.value if group else None,
        clients=sorted(one.name for one in members),
        of=len(group.members if group else members),
        begin=begin,
        end=end,
        effect_ms=effect,
        excess_s=excess_s,
        share=excess_s * 1e9 / fleet.total_ns if excess_s is not None and fleet.total_ns else None,
        confidence=confidence,
        p_value=group.p_value if group else None,
        text=f"{text}.",
        evidence=_evidence(members, fleet),
        inferred=_inferred(members, fleet),
    )


def _excess_s(members: Sequence[Odd], fleet: Fleetwide) -> float | None:
    """In the layer; of what lies above the wire, where it is known."""
    kind = members[0].kind
    if kind == CLIENT:
        known = [(one.ms, fleet.clients[one.client].ops) for one in members if one.ms is not None]
        return sum(each * ops for each, ops in known) / 1e3 if known else None
    own = [fleet.excess[one.client] for one in members]
    return float(sum(getattr(one, f"{kind}_s") for one in own if one is not None))


def _inferred(members: Sequence[Odd], fleet: Fleetwide) -> int:
    """Of so many what sets them apart is inferred."""
    found = [(one.kind, fleet.clients[one.client]) for one in members]
    return sum(
        client.error_ms(kind) > 0 or (kind == CLIENT and client.inferred is not None and client.inferred.side == CLIENT)
        for kind, client in found
    )


def _who(members: Sequence[Odd], group: Group | None) -> str:
    if group is None:
        names = [one.name for one in members]
        shown = ", ".join(names[:_NAMED]) + (" ..." if len(names) > _NAMED else "")
        return f"{times(len(members), 'client')} ({shown}) "
    whose = _WHO.get(group.dimension, f"with {group.dimension} {{}}").format(group.value)
    some, of = len(group.outliers), len(group.members)
    number = f"the {of} clients" if some == of else f"{some} of the {of} clients"
    return f"{number} {whose} "


def _what(members: Sequence[Odd], effect: float | None, cause: str | None) -> str:
    kind = members[0].kind
    if kind == CLIENT:
        above = f", {ms(effect)} ms" if effect is not None else ", which packets do not show"
        few = any(one.cause is not None and one.cause.endswith("slots") for one in members)
        return f"keep to few slots: their requests wait above the wire{above}" if few else f"wait above the wire{above}"
    own, typical = (median(getattr(one, name) or 0.0 for one in members) for name in ("own_ms", "typical_ms"))
    why = f"; {cause}" if cause is not None else ""
    return f"take {ms(effect or 0.0)} ms longer {WHERE[kind]} ({ms(own)}, where {ms(typical)} ms are usual{why})"


def _sent_again(members: Sequence[Odd], fleet: Fleetwide) -> str:
    if members[0].kind != LAYERS[0]:
        return ""
    inside = {one.client for one in members}
    shares = [[], []]  # type: list[list[float]]
    for at, client in enumerate(fleet.clients):
        if client.sent_again_share is not None:
            shares[at in inside].append(client.sent_again_share)
    others, own = (median(one) if one else 0.0 for one in shares)
    if own < max(_WORTH_SAYING, _TIMES_OTHERS * others):
        return ""
    return f", and {percent(own)} of their TCP bytes are retransmitted (of the others' {percent(others)})"


def _when(members: Sequence[Odd], fleet: Fleetwide) -> tuple[str | None, str | None]:
    """Where most of them stand out for a part of the time only."""
    spans = [one.windows for one in members if one.windows is not None]
    if 2 * len(spans) <= len(members):
        return None, None
    begin, step = fleet.windows.begin_ns, fleet.windows.step_ns
    first, last = (int(median(span[at] for span in spans)) for at in (0, 1))
    return iso(begin + first * step), iso(begin + (last + 1) * step)


def _when_text(members: Sequence[Odd], fleet: Fleetwide) -> str:
    begin, end = _when(members, fleet)
    return f" from {begin[11:19]} to {end[11:19]} UTC" if begin is not None and end is not None else ""


def _evidence(members: Sequence[Odd], fleet: Fleetwide) -> dict[str, Any]:
    clients = [fleet.clients[one.client] for one in members]
    again = [one.sent_again_share for one in clients if one.sent_again_share is not None]
    lost = [one.lost_segments for one in clients if one.lost_segments is not None]
    found: Mapping[str, Any] = {
        "own_ms": _median([one.own_ms for one in members]),
        "typical_ms": _median([one.typical_ms for one in members]),
        "sent_again_share": median(again) if again else None,
        "lost_segments": sum(lost) if lost else None,
        "slots": _median([None if one.slots is None else float(one.slots) for one in clients])
        if members[0].kind == CLIENT
        else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _median(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return median(known) if known else None


def _most_common(causes: Sequence[str | None]) -> str | None:
    counts = Counter(one for one in causes if one is not None)
    return max(sorted(counts), key=lambda one: counts[one], default=None)
