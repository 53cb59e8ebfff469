"""Two runs -> the parts of the response time, row by row, with what TCP or a host that stood still made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.diff import judge
from nfslat.diff.runs import Ns, Ops
from nfslat.model.units import to_ms

_LAYERS = ("client", "network", "server")
# What TCP or a host that stood still made of the server's time is a row of its own where it is so much of it in either
# run; less is left where it lies, as a report's verdict does (`findings.facts`).
_MOVES = 0.01


class Kind(NamedTuple):
    """What a part of the response time is."""

    layer: str
    label: str
    words: str  # in a sentence
    of_that: str = ""  # where it lies, of one of the network's that a reader would look for elsewhere


# Layers are as in the verdict of a report: what is not the server's response time is the network's, and of that what
# TCP, or a host that stood still, made of it is theirs.
PARTS = {
    "call_send": Kind("network", "call: sending", "sending the call", "while calls were being sent"),
    "network": Kind("network", "network, both ways", "the network"),
    "call_net": Kind("network", "to the server", "the network, towards the server,"),
    "reply_net": Kind("network", "back", "the network, towards the client,"),
    "tcp_waits": Kind(
        "network",
        "server: TCP waits",
        "calls and replies that TCP held back at the server",
        "within the server's response time, where TCP held calls or replies back",
    ),
    "server_paused": Kind("server", "server was stalled", "a paused server"),
    "queue": Kind("server", "server: queue", "the wait for a server thread"),
    "in_thread": Kind("server", "server: in thread", "the server, in a thread,"),
    "server": Kind("server", "server", "the server"),
    "client_paused": Kind("client", "client was stalled", "a paused client"),
    "reply_send": Kind("network", "reply: sending", "sending the reply", "while replies were being sent"),
}


class Column(NamedTuple):
    """A part of the response time of each row of A and of B, ns; those of depth 0 sum to it."""

    name: str
    layer: str
    depth: int
    values: Sequence[Ns]
    error_ms: float = 0.0  # that the clocks leave open, which is no chance


def columns(a: Ops, b: Ops) -> list[Column]:
    """In the order of the way. Rows for what was moved, and for a queue, only where there is any in either run."""
    both = (a, b)

    def worth_it(name: str) -> list[Ns]:
        """What is to be moved: as long as both runs know it, and one has enough of it."""
        if all(name in one.moved for one in both) and any(
            _sum(one, one.moved[name]) >= _MOVES * _sum(one, one.parts["server"]) > 0 for one in both
        ):
            return [one.moved[name] for one in both]
        return [np.zeros(len(one.parts["server"]), dtype=np.int64) for one in both]

    doubt = judge.Doubt.of([(one.inferred, to_ms(one.inferred_error_ns)) for one in both])
    waits, calls, stood, replies = map(worth_it, ("tcp_waits", "call_paused", "server_paused", "reply_paused"))
    found: list[Column] = []

    def add(name: str, values: Sequence[Ns], depth: int = 0, error_ms: float = 0.0) -> None:
        layer = PARTS[name].layer
        found.append(Column(name, layer, depth, values, error_ms + doubt.on(layer)))

    def any_of(*some: Ns) -> bool:
        return any(one.any() for one in some)

    add("call_send", [one.parts["call_send"] for one in both])
    add("network", [one.parts["network"] - p - q for one, p, q in zip(both, calls, replies, strict=True)])
    for inner, paused in (("call_net", calls), ("reply_net", replies)):
        if all(inner in one.of_network for one in both):
            values = [one.of_network[inner] - p for one, p in zip(both, paused, strict=True)]
            add(inner, values, 1, to_ms(sum(one.one_way_error_ns for one in both)))
    if any_of(*waits):
        add("tcp_waits", waits)
    if any_of(*calls, *stood):
        add("server_paused", [p + q for p, q in zip(calls, stood, strict=True)])
    own = [one.parts["server"] - p - q for one, p, q in zip(both, waits, stood, strict=True)]
    # No more than what was not seen to be TCP's or a pause's, for the wait is inferred.
    waited = [one.waits_ns for one in both]
    queue = [np.clip(ns, 0, np.maximum(left, 0)) for ns, left in zip(waited, own, strict=True) if ns is not None]
    if len(queue) == len(both) and any_of(*queue):
        add("queue", queue)
        add("in_thread", [left - wait for left, wait in zip(own, queue, strict=True)])
    else:
        add("server", own)
    if any_of(*replies):
        add("client_paused", replies)
    add("reply_send", [one.parts["reply_send"] for one in both])
    return found


def layers(of: Sequence[Column]) -> list[Column]:
    """Each with all of its parts: what moves from one part of a layer to another is no change of it."""
    out = []
    for layer in _LAYERS:
        own = [one for one in of if one.layer == layer and not one.depth]
        if own:
            values = [np.sum(of_run, axis=0) for of_run in zip(*(one.values for one in own), strict=True)]
            out.append(Column(layer, layer, 0, values, max(one.error_ms for one in own)))
    return out


def _sum(one: Ops, values: Ns) -> float:
    return float(values.sum() if one.count is None else values @ one.count)
