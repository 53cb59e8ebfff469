"""Figures that many parts of the report have. Same conventions as `nfslat.answer.model`."""

from __future__ import annotations

from dataclasses import dataclass

_NEARLY = 0.95

PARTS = ["call_send", "call_net", "server", "reply_send", "reply_net"]


@dataclass(frozen=True)
class Summary:
    """Of one population of durations, ms. Differences can be negative."""

    mean: float  # mean, ms
    p50: float  # median, ms
    p95: float  # 95th percentile, ms
    p99: float  # 99th percentile, ms
    max: float  # longest, ms


def share_of(complete: float) -> str:
    """``all``, ``99.98 %``, ``83 %``: never rounded up to all of it."""
    if complete >= 1:
        return "all"
    return f"{complete * 100:.0f} %" if complete < _NEARLY else f"{int(complete * 1e4) / 100:g} %"
