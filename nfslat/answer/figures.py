"""Figures that many parts of the report have. Same conventions as `nfslat.answer.model`."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ["call_send", "call_net", "server", "reply_send", "reply_net"]
NETWORK = "network"  # both ways together, where the clocks do not tell them apart
# What a piece of an op is besides what is charged to a cause.
NO_CONNECTION, QUEUE, IN_THREAD, UNEXPLAINED = "no connection", "queue", "in thread", "unexplained"


@dataclass(frozen=True)
class Summary:
    """Of one population of durations, ms. Differences can be negative."""

    mean: float  # mean, ms
    p50: float  # median, ms
    p95: float  # 95th percentile, ms
    p99: float  # 99th percentile, ms
    max: float  # longest, ms
