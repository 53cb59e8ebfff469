"""Means of the ops that the captures show, and bounds with those that they only know of -> what that does to layers."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from nfslat.answer.figures import matters
from nfslat.findings.layers import LAYERS, Layers
from nfslat.findings.words import ms, percent

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
        """The most that the wire may have taken, so that no share of it is too large, and of what the application waits
        the rest."""
        seen, wire_ms = self.seen, self.wire_ms[1]
        above = None if seen.client_ms is None else max(seen.total_ms - wire_ms, 0.0)
        if above is not None:
            wire_ms = min(wire_ms, seen.total_ms)
        server_ms = min(self.server_ms[1], wire_ms)
        return structs.replace(seen, server_ms=server_ms, network_ms=wire_ms - server_ms, client_ms=above)

    def _ranges(self, mean: Layers) -> dict[str, Bounds]:
        """What each layer adds to `mean`, which is of `layers`; what was moved from one to another included."""
        wire, server = self.wire_ms, self.server_ms
        seen_ms = (1 - self.share) * self.seen.network_ms
        ranges = {"server": server, "network": (max(wire[0] - server[1], seen_ms, 0.0), wire[1] - server[0])}
        total_ms, own = self.seen.total_ms, mean.by_srt
        is_known = mean.client_ms is not None
        ranges["client"] = (max(total_ms - wire[1], 0.0), max(total_ms - wire[0], 0.0)) if is_known else (0.0, 0.0)
        moved_ms = {layer: mean.ms(layer) - own.ms(layer) for layer in LAYERS}
        return {layer: (low + moved_ms[layer], high + moved_ms[layer]) for layer, (low, high) in ranges.items()}

    def largest(self, mean: Layers) -> str | None:
        """The layer that adds most, by enough, wherever the truth lies between the bounds; None: it cannot be told."""
        ranges = self._ranges(mean)
        first = max(ranges, key=lambda layer: ranges[layer][0])
        low_ms = ranges.pop(first)[0]
        return first if all(low_ms - high_ms >= _APART * mean.total_ms for _, high_ms in ranges.values()) else None

    def least_share(self, layer: str, mean: Layers) -> float:
        """The least share of the mean that the layer adds."""
        return max(self._ranges(mean.by_srt)[layer][0], 0.0) / mean.total_ms

    @property
    def of_each_ms(self) -> Bounds:
        """Mean time in the server of the ops that are not shown."""
        seen_ms = (1 - self.share) * self.seen.server_ms
        low_ms, high_ms = (max(bound_ms - seen_ms, 0.0) / self.share for bound_ms in self.server_ms)
        return low_ms, high_ms

    def explained(self, share: float, mean: Layers, by: str) -> str:
        """How much of the mean a cause explains that has at least this `share` of it, `by` what "all" ops have alike,
        what is of the "unseen" ones alone, or of the "seen", and of no one knows how much of the others."""
        least = f"at least {mean.said(share * mean.total_ms)} of "
        if mean.client_ms is not None:
            return f"{least}{mean.said(mean.total_ms)} ms ({percent(share)})"
        unseen = self.share_of_time[1]
        most = {"all": share * mean.total_ms / self.wire_ms[0], "unseen": unseen, "seen": share + unseen}[by]
        return f"{least}{between(self.wire_ms)} ms ({percent_between((share, min(max(most, share), 1.0)))})"

    def where_it_goes(self, mean: Layers) -> str:
        """What each layer adds to the mean, between bounds."""
        ranges = self._ranges(mean.by_srt)
        above = "" if mean.client_ms is None else f"{between(ranges['client'])} above the wire in the client, "
        total = between(self.wire_ms) if mean.client_ms is None else mean.said(mean.total_ms)
        server, network = (between(ranges[layer]) for layer in ("server", "network"))
        return f"A mean operation takes {total} ms: {above}{server} in the server, {network} in the network."

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
        total = between(self.wire_ms) if mean.client_ms is None else ms(mean.total_ms)
        return f"Which layer adds most cannot be told: of {total} ms {', '.join(said)} ms."
