"""Means of the ops that the captures show, and bounds with those that they only know of -> what that does to layers."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from nfslat.answer.figures import matters
from nfslat.findings.layers import LAYERS, Layers
from nfslat.findings.words import ms

_APART = 0.08  # of the whole, by which a layer must lead to be named
_ONE_FIGURE = 0.02  # bounds so near each other are one figure

Bounds = tuple[float, float]


def between(bounds_ms: Bounds) -> str:
    """``8.34``, ``1.84 to 6.40``."""
    low, high = bounds_ms
    return ms((low + high) / 2) if high - low <= _ONE_FIGURE * high else f"{ms(low)} to {ms(high)}"


def percent_between(shares: Bounds) -> str:
    """``40 %``, ``20 to 60 %``."""
    low, high = (f"{one * 100:.0f}" for one in shares)
    return f"{high} %" if low == high else f"{low} to {high} %"


class WithUnseen(NamedTuple):
    """Means over one population of ops, ms, with those that the captures only know of; each at least and at most."""

    ops: int  # those
    share: float  # of all ops
    share_of_time: Bounds
    seen: Layers  # means over the ops that the captures show
    wire_ms: Bounds  # client SRT
    server_ms: Bounds

    @property
    def matters(self) -> bool:
        """Do the means of the ops that are shown mislead?"""
        return matters(self.seen.server_ms + self.seen.network_ms, self.wire_ms, self.share_of_time)

    def layers(self) -> Layers:
        """The middle of the bounds, and of what the application waits the rest."""
        seen = self.seen
        wire_ms, server_ms = (sum(one) / 2 for one in (self.wire_ms, self.server_ms))
        above = None if seen.client_ms is None else max(seen.total_ms - wire_ms, 0.0)
        if above is not None:
            wire_ms = min(wire_ms, seen.total_ms)
        server_ms = min(server_ms, wire_ms)
        return dataclasses.replace(seen, server_ms=server_ms, network_ms=wire_ms - server_ms, client_ms=above)

    def _ranges(self, mean: Layers) -> dict[str, Bounds]:
        """What each layer adds to `mean`, which is of `layers`; what was moved from one to another included."""
        out = {}
        half_wire, half_server = ((high - low) / 2 for low, high in (self.wire_ms, self.server_ms))
        half = {"server": half_server, "network": half_wire + half_server, "client": half_wire}
        for layer in LAYERS:
            known = layer != "client" or mean.client_ms is not None
            out[layer] = mean.ms(layer) - half[layer] * known, mean.ms(layer) + half[layer] * known
        return out

    def is_sure(self, mean: Layers) -> bool:
        """Does the layer that adds most do so wherever the truth lies between the bounds, and by enough?"""
        ranges = self._ranges(mean)
        largest = ranges.pop(mean.largest)
        return all(largest[0] - other[1] >= _APART * mean.total_ms for other in ranges.values())

    def with_them(self) -> str:
        """What a verdict has to say, for it is of other ops than those that the captures show."""
        seen_ms = self.seen.server_ms + self.seen.network_ms
        return (
            f"The captures do not show {self.ops:,} operations, which took "
            f"{percent_between(self.share_of_time)} of the time: with them the response time on the client's wire is "
            f"{between(self.wire_ms)} ms, not {ms(seen_ms)}. "
        )

    def cannot_tell(self, mean: Layers) -> str:
        """In place of a layer: what each of them adds."""
        names = {"server": "the server", "network": "the network", "client": "the client, above the wire,"}
        said = [
            f"{names[layer]} {between((max(low, 0.0), high))}"
            for layer, (low, high) in self._ranges(mean).items()
            if layer != "client" or mean.client_ms is not None
        ]
        return f"Which layer adds most cannot be told: of {ms(mean.total_ms)} ms {', '.join(said)} ms."
