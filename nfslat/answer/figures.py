"""Figures that many parts of the report have. Same conventions as `nfslat.answer.model`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Of one population of durations, ms."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float
