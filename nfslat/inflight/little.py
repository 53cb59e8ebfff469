"""Concurrent requests and a throughput -> the latency that the application must see (Little's law)."""

from __future__ import annotations

from nfslat.inflight.levels import Levels


def busy_throughput_per_s(levels: Levels) -> float | None:
    """Ops per second of the time in which any was in flight; None where none took time.

    Idle time is left out: with requests waiting all the time there is none, and a capture that begins before the load
    must not make the load look slow.
    """
    return levels.ops * 1e9 / levels.busy_ns if levels.busy_ns else None


def little_ms(sessions: int, throughput_per_s: float) -> float:
    """Mean latency in ms of `sessions` requests that are always outstanding, of which so many are answered a second.

    J. D. C. Little, A Proof for the Queuing Formula L = lambda W, Operations Research 9 (1961). Each session must
    have a request outstanding all the time, and a request must be one RPC: sessions that think, and requests that are
    split, make the figure wrong. Raises ``ValueError`` unless both numbers are positive.
    """
    if sessions <= 0 or not throughput_per_s > 0:
        raise ValueError("sessions and throughput must be positive")
    return sessions / throughput_per_s * 1e3


def above_wire_ms(application_ms: float, client_srt_ms: float) -> float | None:
    """What the application waits beyond the wire; None where its figure is the lower one, which says nothing."""
    return application_ms - client_srt_ms if application_ms >= client_srt_ms else None
