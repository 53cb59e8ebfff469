"""Findings that rest on times which were inferred -> the same, no surer than that."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from nfslat.findings.catalogue import HANGS
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.failing import CODE as FAIL
from nfslat.findings.put_off import PUT_OFF_CODES
from nfslat.findings.resent import CODE as RESENT

# What the packets of either host show by themselves: errors in replies, connections that hang,
# calls that come again.
_SEEN = frozenset((*PUT_OFF_CODES, *HANGS, RESENT, FAIL))


def no_surer(findings: Sequence[Diagnosis], taken_at: str) -> list[Diagnosis]:
    """What is found of the host where the capture was taken is measured; all else is likely at most."""
    return [
        one if one.layer == taken_at or one.code in _SEEN else structs.replace(one, confidence="likely")
        for one in findings
    ]
