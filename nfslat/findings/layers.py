"""Mean times of one population of ops -> what each layer adds to them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nfslat.answer.words import SAME_MS, of_mean, with_places
from nfslat.model.record import Record

# Of the latency stack; where two are equal the first is meant.
_ROWS = {
    "server": ("waiting for a thread", "in a thread", "server"),
    "network": ("network",),
    "client": ("above the wire",),
}
LAYERS = {"server": "the server", "network": "the network", "client": "the client, above the wire,"}


class Layers(Record):
    """Mean ms that each layer adds to one population of ops; `client_ms` only where the application's is known."""

    server_ms: float
    network_ms: float
    client_ms: float | None = None
    ops: str = ""  # which ops the means are over, where it is not all of them
    # By layer, ms that are its own though they lie within the time of another; they sum to 0 (`facts.moved_ms`).
    moved_ms: Mapping[str, float] = {}
    # By layer, of `client_ms` what it kept above the wire, at most: that is its own.
    kept_ms: Mapping[str, float] = {}
    # By layer, of `client_ms` what passes between tries that were answered with its errors: that is its own, too.
    put_off_ms: Mapping[str, float] = {}
    queue_ms: float | None = None  # of the server's, the wait for a thread

    @property
    def total_ms(self) -> float:
        """Client SRT, or the application's time where it is known."""
        return self.server_ms + self.network_ms + (self.client_ms or 0.0)

    def ms(self, layer: str) -> float:
        """What `layer` adds; of a client that is not known, what is known of it."""
        own = {"server": self.server_ms, "network": self.network_ms, "client": self.client_ms or 0.0}[layer]
        if layer == "client":
            kept = -sum(self.kept_ms.values()) - sum(self.put_off_ms.values())
        else:
            kept = self.kept_ms.get(layer, 0.0) + self.put_off_ms.get(layer, 0.0)
        return own + self.moved_ms.get(layer, 0.0) + kept

    def share(self, layer: str) -> float:
        """Share of `layer` in the total, 0 to 1 where no part is negative; 0 of a total of 0."""
        return self.ms(layer) / self.total_ms if self.total_ms else 0.0

    @property
    def printed(self) -> dict[str, tuple[float, str]]:
        """What they are, and how that is printed, by the names of the latency stack."""
        total_ms = None if self.client_ms is None else self.total_ms
        return of_mean(total_ms, self.network_ms, self.server_ms, self.queue_ms)

    def said(self, value_ms: float, layer: str = "") -> str:
        """A part of the total, or of `layer`, with the digits that tables have for it, or with as many."""
        known = self.printed
        rows = _ROWS.get(layer, known)
        same = (known[row][1] for row in rows if row in known and abs(known[row][0] - value_ms) < SAME_MS)
        return next(same, None) or with_places(value_ms, known["client SRT"][0])

    @property
    def by_srt(self) -> Layers:
        """The same by the response times alone, as tables have them: nothing moved from one layer to another."""
        return replace(self, moved_ms={}, kept_ms={}, put_off_ms={})

    @property
    def largest(self) -> str:
        """The layer that adds most."""
        return max(LAYERS, key=self.share)
