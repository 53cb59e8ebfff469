"""Findings in any order -> the same, the one that explains most of the latency first."""

from __future__ import annotations

from collections.abc import Iterable

from nfslat.findings.diagnosis import Diagnosis

# A limit that packets show and whose cost they cannot: behind what explains half of the time, before the rest.
_UNKNOWN_SHARE = 0.5


def ranked(findings: Iterable[Diagnosis]) -> list[Diagnosis]:
    """By the share of the mean, or half of that of the slowest 1 % where that is more; what hardly matters last."""
    return sorted(findings, key=lambda one: (one.severity != "warning", -_weight(one), one.code, one.text))


def _weight(found: Diagnosis) -> float:
    if found.share is None:
        return _UNKNOWN_SHARE
    return max(found.share, (found.slowest or 0.0) / 2)
