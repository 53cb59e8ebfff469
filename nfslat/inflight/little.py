"""Concurrent requests and a throughput -> the latency that the application must see (Little's law)."""

from __future__ import annotations


def little_ms(sessions: int, throughput_per_s: float) -> float:
    """Mean latency in ms of `sessions` requests that are always outstanding, of which so many are answered a second.

    J. D. C. Little, A Proof for the Queuing Formula L = lambda W, Operations Research 9 (1961). Each session must
    have a request outstanding all the time, and a request must be one RPC: sessions that think, and requests that are
    split, make the figure wrong. Raises ``ValueError`` unless both numbers are positive.
    """
    if sessions <= 0 or not throughput_per_s > 0:
        raise ValueError("sessions and throughput must be positive")
    return sessions / throughput_per_s * 1e3
