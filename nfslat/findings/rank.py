"""Findings in any order -> the same, the one whose mending gives most first."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nfslat.findings.diagnosis import Diagnosis, Gain

# A limit that packets show and whose cost they cannot: behind what explains half of the time, before the rest.
_UNKNOWN_SHARE = 0.5


def ranked(findings: Iterable[Diagnosis], total_ms: float = 0.0) -> list[Diagnosis]:
    """By what mending each would take from the mean of `total_ms`: as a replay says, else what it explains, at most; or
    half of what it explains of the slowest 1 %, where that is more. What hardly matters comes last."""
    every = [_bounded(one, total_ms) for one in findings]
    return sorted(every, key=lambda one: (one.severity != "warning", -_weight(one, total_ms), one.code, one.text))


def _bounded(found: Diagnosis, total_ms: float) -> Diagnosis:
    if found.gain is not None or found.share is None or not 0 < found.share <= 1 or total_ms <= 0:
        return found
    return replace(found, gain=Gain(found.share * total_ms, "bound"))


def _weight(found: Diagnosis, total_ms: float) -> float:
    if found.share is None:
        return _UNKNOWN_SHARE
    of_mean = found.share
    if found.gain is not None and found.gain.by == "replay" and total_ms > 0:
        of_mean = max(found.gain.ms / total_ms, 0.0)
    return max(of_mean, (found.slowest or 0.0) / 2)
