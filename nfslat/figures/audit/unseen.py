"""Ops that a capture knows of and does not show -> the note that says what they do to its means."""

from __future__ import annotations

from nfslat.answer.model import AuditNote, Unseen
from nfslat.figures.audit.words import note, some
from nfslat.findings.unseen import between, percent_between

_MISSING = (
    "files-missing",
    "capture-drops",
    "capture-truncated",
    "capture-missing-calls",
    "capture-unanswered",
    "capture-orphans",
)


def with_unseen(notes: list[AuditNote], found: Unseen | None) -> list[AuditNote]:
    """`notes` with that one, where the means of the others are far from those of all: a warning, unless one of `notes`
    tells already that ops are missing."""
    if found is None or not found.matters:
        return notes
    text = (
        f"{some(found.ops, 'op')} ({found.share * 100:.1f} %) are known only by their call, their reply or a gap in "
        f"the XIDs, and took {percent_between(found.share_of_time)} of the time: the mean response time with them is "
        f"{between(found.mean_ms)} ms, without them {between((found.seen_mean_ms, found.seen_mean_ms))}. Other figures "
        "are without them. Whole packets (--snaplen 0) show them; docs/capture.md says at what cost"
    )
    is_told = any(one.code in _MISSING and one.severity == "warning" for one in notes)
    said = note("capture-unseen", found.ops, text, warn=not is_told)
    return sorted([said, *notes], key=lambda one: one.severity != "warning")
