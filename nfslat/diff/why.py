"""Parts, causes and findings of two runs -> what makes most of a change and what made that, with words for both."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nfslat.answer.words import ms
from nfslat.diff import judge
from nfslat.diff.compare import Compared
from nfslat.diff.model import FindingChange, Part
from nfslat.diff.parts import PARTS
from nfslat.findings.catalogue import explaining

WHAT = {
    "network": "the network",
    "server": "the server",
    "client": "the client",
    **{name: one.words for name, one in PARTS.items()},
    "lost": "the wait for lost data",
    "overtaken": "the wait for out-of-order data",
    "held": "packets held in transit, or by a host that paused,",
    "window": "the wait for room in the receiver's TCP window",
    "delayed_ack": "the wait for delayed ACKs",
    "bandwidth": "the wait for a saturated path",
    "congestion_window": "the wait for ACKs",
    "sender": "senders that were silent in mid-message",
    "head_of_line": "the wait behind other replies",
    "distance": "the distance",
}


def leading(parts: Sequence[Part], slower: bool) -> tuple[Part | None, Part | None]:
    """What makes most of the change: the network as a whole, or a part of another layer; and what of the network lies
    where one would not look for it, if that is most of one of its parts' changes."""
    sign = 1 if slower else -1
    by_layer: dict[str, list[Part]] = {}
    for part in parts:
        if part.depth == 0:
            by_layer.setdefault(part.layer, []).append(part)
    if not by_layer:
        return None, None

    def growth(of: Sequence[Part]) -> float:
        return sign * math.fsum(one.change.difference for one in of)

    layer = max(by_layer, key=lambda name: growth(by_layer[name]))
    if growth(by_layer[layer]) <= 0:
        return None, None
    most = max(by_layer[layer], key=lambda one: growth([one]))
    if layer != "network":
        return most, None
    sums = [math.fsum(getattr(one.change, side) for one in by_layer[layer]) for side in ("a", "b")]
    inner = max(
        (one for one in by_layer[layer] if PARTS[one.name].of_that), key=lambda one: growth([one]), default=None
    )
    known = inner if inner is not None and inner.change.relevant and growth([inner]) > 0 else None
    return Part("network", "network", 0, judge.change(sums[0], sums[1], None)), known


def cause(part: Part, compared: Compared, found: Sequence[FindingChange], slower: bool) -> tuple[str, str | None]:
    """In words, and its code: the finding of that part, else of its layer, that grew (or shrank) most.

    Where there is none, as between CSV files, it is what TCP and the path made of at least half of the network's.
    """
    sign = 1 if slower else -1

    def growth(one: FindingChange) -> float:
        return 0.0 if one.ms_a is None or one.ms_b is None else sign * (one.ms_b - one.ms_a)

    of_part = [one for one in found if one.code in explaining(part.name) and growth(one) > 0]
    of_layer = [one for one in found if one.layer == part.layer and growth(one) > 0]
    most = max(of_part or of_layer, key=growth, default=None)
    if most is not None:
        return f" ({_moved(most)})", most.code
    if part.layer != "network" or explaining(part.name):
        return "", next(iter(explaining(part.name)), None) if part.layer == "network" else None
    charge = max(compared.causes, key=lambda one: sign * one.change.difference, default=None)
    if charge is None or 2 * sign * charge.change.difference < sign * part.change.difference:
        return "", None
    words = WHAT[charge.name].rstrip(",")
    return f" ({words}: {ms(charge.change.a)} -> {ms(charge.change.b)} ms)", next(iter(explaining(charge.name)), None)


def _moved(one: FindingChange) -> str:
    if one.change != "both":
        return f"{one.code} is {one.change}"
    if one.ms_a is None or one.ms_b is None:
        return one.code
    return f"{one.code}: {ms(one.ms_a)} -> {ms(one.ms_b)} ms"
