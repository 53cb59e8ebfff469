"""Warnings of the audit and of the clock, and what else must be said -> the notes above the report."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from nfslat.answer.model import AuditNote, Finding


def notes_of(audit: Sequence[AuditNote], of_clock: Sequence[Finding], *said: Sequence[str]) -> list[str]:
    """The warnings, in that order, and then all that was said."""
    found: list[AuditNote | Finding] = [*audit, *of_clock]
    warnings = (one.text for one in found if one.severity == "warning")
    return [*warnings, *chain.from_iterable(said)]
