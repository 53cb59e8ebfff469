"""Findings that rest on times which were inferred -> the same, no surer than that."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from nfslat.findings.catalogue import SHOW_THEMSELVES
from nfslat.findings.diagnosis import Diagnosis


def no_surer(findings: Sequence[Diagnosis], taken_at: str) -> list[Diagnosis]:
    """What is found of the host where the capture was taken is measured; all else is likely at most."""
    return [
        one if one.layer == taken_at or one.code in SHOW_THEMSELVES else structs.replace(one, confidence="likely")
        for one in findings
    ]
