"""Single ops of two runs -> what parts of the response time, layers and causes made of some kinds, at one mix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.diff import judge
from nfslat.diff.kinds import Kinds
from nfslat.diff.model import Change, Part
from nfslat.diff.runs import LAYERS, Single, layer_of, moved_in
from nfslat.diff.statistics import Sample, mean_difference
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.model.units import to_ms

# What TCP or a host that stood still made of the server's time is a row of its own where it is so much of it in either
# run; less is left where it lies, as a report's verdict does (`findings.facts`).
MOVES = 0.01


class Column(NamedTuple):
    """A part of each op's response time, of all ops of A and of B, ns; those of depth 0 sum to it, op by op."""

    name: str
    layer: str
    depth: int
    a: I64
    b: I64
    error_ms: float = 0.0  # that the clocks leave open, which is no chance


def columns(a: Single, b: Single) -> list[Column]:
    """In the order of the way. Rows for what was moved, and for a queue, only where there is any in either run."""
    both = (a, b)
    moved = [moved_in(one, exact=bool(a.moved and b.moved)) for one in both]

    def worth_it(name: str) -> list[I64]:
        """What of each op is to be moved: as long as both runs know it, and one has enough of it."""
        known = all(name in of for of in moved)
        if known and any(
            of[name].sum() >= MOVES * one.parts["server"].sum() > 0 for of, one in zip(moved, both, strict=True)
        ):
            return [of[name] for of in moved]
        return [np.zeros(len(one), dtype=np.int64) for one in both]

    doubt = judge.Doubt.of([(one.inferred, one.inferred_error_ns / 1e6) for one in both])
    waits, calls, stood, replies = map(worth_it, ("tcp_waits", "call_paused", "server_paused", "reply_paused"))
    found: list[Column] = []

    def add(name: str, values: Sequence[I64], depth: int = 0, error_ms: float = 0.0) -> None:
        layer = layer_of(name)
        found.append(Column(name, layer, depth, values[0], values[1], error_ms + doubt.on(layer)))

    add("call_send", [one.parts["call_send"] for one in both])
    add("network", [one.parts["network"] - p - q for one, p, q in zip(both, calls, replies, strict=True)])
    for inner, paused in (("call_net", calls), ("reply_net", replies)):
        if all(inner in one.of_network for one in both):
            values = [one.of_network[inner] - p for one, p in zip(both, paused, strict=True)]
            add(inner, values, 1, to_ms(sum(one.one_way_error_ns for one in both)))
    if any(one.any() for one in waits):
        add("tcp_waits", waits)
    if any(one.any() for one in (*calls, *stood)):
        add("server_paused", [p + q for p, q in zip(calls, stood, strict=True)])
    own = [one.parts["server"] - p - q for one, p, q in zip(both, waits, stood, strict=True)]
    queue = [_queue_ns(one, left) for one, left in zip(both, own, strict=True)]
    if queue[0] is not None and queue[1] is not None and any(one is not None and one.any() for one in queue):
        add("queue", [queue[0], queue[1]])
        add("in_thread", [own[0] - queue[0], own[1] - queue[1]])
    else:
        add("server", own)
    if any(one.any() for one in replies):
        add("client_paused", replies)
    add("reply_send", [one.parts["reply_send"] for one in both])
    return found


def _queue_ns(one: Single, own: I64) -> I64 | None:
    """The wait for a thread: no more than what was not seen to be TCP's or a pause's, for the wait is inferred."""
    return (
        None
        if one.queue_ns is None
        else np.clip(np.where(one.queue_ns == NULL, 0, one.queue_ns), 0, np.maximum(own, 0))
    )


def of_means(a: Sequence[Sample], b: Sequence[Sample], weights: Sequence[float], *, is_ms: bool = True) -> Change:
    """Of weighted sums of means; without an interval where one kind alone has too few ops."""
    known = all(one.enough for one in (a[0], b[0])) if len(a) == 1 else True
    values = [math.fsum(w * one.mean for w, one in zip(weights, side, strict=True)) for side in (a, b)]
    return judge.change(values[0], values[1], mean_difference(a, b, weights) if known else None, is_ms=is_ms)


class AtMix:
    """Two runs, the kinds to be looked at and the weight of each: what columns of their ops came to, B beside A."""

    def __init__(self, a: Single, b: Single, found: Kinds, both: Sequence[int], weights: Sequence[float]) -> None:
        self.a, self.b, self.weights = a, b, weights
        self._rows = [[found.rows(side, kind) for kind in both] for side in ("a", "b")]

    def change(self, of_a: I64, of_b: I64) -> Change:
        """Of one column."""
        samples = [
            [one.sample(column, rows) for rows in of_kinds]
            for one, column, of_kinds in zip((self.a, self.b), (of_a, of_b), self._rows, strict=True)
        ]
        return of_means(samples[0], samples[1], self.weights)

    def parts(self, of: Sequence[Column]) -> list[Part]:
        """Rows of depth 0 sum to the response time; intervals hold what clocks leave open, and what is inferred."""
        out = []
        for one in of:
            moved = judge.widened(self.change(one.a, one.b), one.error_ms)
            out.append(Part(one.name, one.layer, one.depth, moved))
        return out

    def layers(self, of: Sequence[Column]) -> list[Part]:
        """Each with all of its parts: what moves from one part of a layer to another is no change of it."""
        out = []
        for layer in LAYERS:
            own = [one for one in of if one.layer == layer and not one.depth]
            if own:
                sums = (sum((one.a for one in own[1:]), own[0].a), sum((one.b for one in own[1:]), own[0].b))
                error_ms = max(one.error_ms for one in own)
                out.append(Part(layer, layer, 0, judge.widened(self.change(*sums), error_ms)))
        return out

    def causes(self) -> list[Part]:
        """Those of which either run has any."""
        out = []
        for name in self.a.causes:
            if name in self.b.causes and (self.a.causes[name].any() or self.b.causes[name].any()):
                moved = self.change(self.a.causes[name], self.b.causes[name])
                if name == "distance":
                    # One minimum of the whole run, which hardly varies from stretch to stretch, and on a full path says
                    # when it was not full: a difference of two of them has no interval.
                    moved = judge.change(moved.a, moved.b, None)
                out.append(Part(name, "network", 0, moved))
        return out
