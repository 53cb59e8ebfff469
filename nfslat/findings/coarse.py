"""Findings, and stamps that tick slowly -> those that rest on more than ticks; and what is said of the means then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nfslat.findings.client import AboveWire
from nfslat.findings.database import NoWait
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.hosts import HostPause
from nfslat.findings.layers import Layers
from nfslat.findings.network import Delay
from nfslat.findings.put_off import Lost, TriedAgain
from nfslat.findings.server import Queue, Reconnect, Storage
from nfslat.findings.slow_ops import Late
from nfslat.findings.words import ms, times

_ENOUGH = 5  # ticks: what takes so long is known well enough
_FAR = 2  # errors


class Ticks(NamedTuple):
    """Stamps that bear no more than means, ms."""

    tick_ms: float
    ops: int
    client_error_ms: float  # of the mean SRT at the client
    server_error_ms: float
    network_error_ms: float  # of the difference

    def names_layer(self, mean: Layers) -> bool:
        """Is it beyond their error which layer adds most?"""
        return abs(mean.server_ms - mean.network_ms) > _FAR * self.network_error_ms + self.server_error_ms

    @property
    def why(self) -> str:
        """Why nothing can be told."""
        return (
            f"the time stamps tick every {self.tick_ms:g} ms, which is too coarse for single operations: what they "
            "wait for, percentiles and what is in flight are not known, only means"
        )

    def of_means(self, mean: Layers) -> str:
        """How well the means are known, behind what they are."""
        srt_ms = mean.server_ms + mean.network_ms
        count = times(self.ops, "operation")
        error = (
            f"the client's to within {ms(self.client_error_ms)} ms, the server's {ms(self.server_error_ms)}, the "
            f"network's {ms(self.network_error_ms)}"
        )
        if max(self.client_error_ms, self.server_error_ms) >= max(srt_ms, mean.server_ms):
            return f"Of {count} not even the means are known: {error}."
        layer = "" if self.names_layer(mean) else "; whether it is the server or the network they do not tell"
        return f"By stamps that tick every {self.tick_ms:g} ms, means of {count} are known so well: {error}{layer}."


def bearable(found: Iterable[Diagnosis], tick_ms: float) -> list[Diagnosis]:
    """Those that rest on counts, on means, on figures of hosts, or on times of many ticks."""
    return [one for one in found if _is_bearable(one.evidence, _ENOUGH * tick_ms)]


def _is_bearable(evidence: object, enough_ms: float) -> bool:
    match evidence:
        case TriedAgain() | Lost() | AboveWire() | NoWait():
            return True
        case Queue() | Storage():
            return evidence.storage_ms is not None
        case Late():
            return evidence.slow_ms >= enough_ms
        case Reconnect() | HostPause():
            return (evidence.longest_ms or 0.0) >= enough_ms
        case Delay():
            return evidence.least_round_trip_ms >= enough_ms
        case _:
            return False
