"""Findings in any order -> the same, the one that explains most of the latency first."""

from __future__ import annotations

from collections.abc import Iterable

from nfslat.answer.model import Finding

# A limit that packets show and whose cost they cannot: behind what explains half of the time, before the rest.
_UNKNOWN_SHARE = 0.5


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """By the share of the mean, or half of that of the slowest 1 % where that is more; what hardly matters last."""
    return sorted(findings, key=lambda one: (one.severity != "warning", -_weight(one), one.code, one.text))


def _weight(finding: Finding) -> float:
    if finding.share is None:
        return _UNKNOWN_SHARE
    return max(finding.share, (finding.evidence.get("share_slowest") or 0.0) / 2)
