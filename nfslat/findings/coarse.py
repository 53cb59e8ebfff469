"""Findings, and stamps that tick slowly -> those that rest on more than ticks; and what is known of the means then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nfslat.findings.client import AboveWire
from nfslat.findings.connecting import Connecting
from nfslat.findings.database import NoWait
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.failing import Failed
from nfslat.findings.hosts import HostPause
from nfslat.findings.layers import LAYERS, Layers
from nfslat.findings.network import Delay
from nfslat.findings.put_off import Lost, TriedAgain
from nfslat.findings.resent import SentAgain
from nfslat.findings.server import Queue, Reconnect, Storage
from nfslat.findings.slow_ops import Late
from nfslat.findings.words import ms, times

_LEAST_TICKS = 5  # ticks: what takes so long is known well enough
_MOST_SLOW = 0.1  # of the ops
_BEYOND_ERRORS = 1.5  # errors: what is further apart is so beyond doubt


class Ticks(NamedTuple):
    """Stamps that bear no more than means, ms."""

    tick_ms: float
    ops: int
    client_error_ms: float  # of the mean SRT at the client
    server_error_ms: float
    network_error_ms: float  # of the difference
    apart_error_ms: float  # of what the server adds less what the network does
    is_alone: bool  # one capture: what the network adds is no more than ACKs take, and may be less

    def of(self, layer: str) -> float:
        """The error of what a host's ops take, or of what the network adds."""
        return {"server": self.server_error_ms, "client": self.client_error_ms, "network": self.network_error_ms}[layer]

    def names_layer(self, mean: Layers) -> bool:
        """Is it beyond their error which layer adds most?"""
        more_ms = mean.server_ms - mean.network_ms
        return (more_ms if self.is_alone else abs(more_ms)) > _BEYOND_ERRORS * self.apart_error_ms

    def why(self, mean: Layers) -> str:
        """What such stamps tell, and that it is all that they tell."""
        if not self.tells_means(mean):
            return (
                f"the time stamps tick every {self.tick_ms:g} ms, and operations take less: of {times(self.ops, 'op')} "
                f"not even the means are known, the client's to within {ms(self.client_error_ms)} ms, the server's to "
                f"within {ms(self.server_error_ms)} ms"
            )
        largest = mean.by_srt.largest
        error_ms = max(self.of(largest), self.client_error_ms)
        if mean.network_ms < 0:
            where = (
                f"operations take {ms(mean.by_srt.total_ms)} ms at the client and {ms(mean.server_ms)} ms at the "
                f"server, each to within {ms(error_ms)} ms, so that what the network has of it is not known"
            )
        elif self.names_layer(mean):
            where = f"{mean.said(mean.by_srt.ms(largest), largest)} of {mean.said(mean.by_srt.total_ms)} ms pass in "
            where += f"{LAYERS[largest]}, to within {ms(error_ms)} ms"
        else:
            where = f"means are known to within {ms(self.network_error_ms)} ms"
        return (
            f"{where}, and time stamps that tick every {self.tick_ms:g} ms tell no more: not what single operations "
            "wait for, nor how long any of them takes"
        )

    def contradicts(self, mean: Layers) -> bool:
        """Is the network's time less than none, by more than its error?"""
        return mean.network_ms < -self.network_error_ms

    def tells_means(self, mean: Layers) -> bool:
        """Are the means of both hosts more than their errors?"""
        return max(self.client_error_ms, self.server_error_ms) < mean.server_ms + mean.network_ms


def bearable(findings: Iterable[Diagnosis], tick_ms: float) -> list[Diagnosis]:
    """Those that rest on counts, on means, on figures of hosts, or on times of many ticks."""
    return [finding for finding in findings if _is_bearable(finding.evidence, _LEAST_TICKS * tick_ms)]


def _is_bearable(evidence: object, enough_ms: float) -> bool:
    match evidence:
        case Lost() | Failed() | AboveWire() | NoWait():
            return True
        case TriedAgain():
            return evidence.longest_ms >= enough_ms
        case Queue() | Storage():
            return evidence.storage_ms is not None
        case Late():
            # Many may wait for a thread, and threads are not known.
            return evidence.slow_ms >= enough_ms and evidence.slow_ops <= _MOST_SLOW * evidence.of_ops
        case SentAgain():
            return evidence.after_ms >= enough_ms
        case Reconnect() | HostPause() | Connecting():
            return (evidence.longest_ms or 0.0) >= enough_ms
        case Delay():
            return evidence.least_round_trip_ms >= enough_ms
        case _:
            return False
