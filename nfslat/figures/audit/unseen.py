"""Ops that a capture knows of and does not show -> the note that says what they do to its means."""

from __future__ import annotations

from nfslat.answer.model import AuditNote, Unseen
from nfslat.figures.audit.words import note, some
from nfslat.findings.unseen import between, percent_between

_SOME = 0.01  # of the ops: fewer are worth a word only where they took long


def unseen_notes(found: Unseen | None) -> list[AuditNote]:
    """A warning where the means of the others are far from those of all."""
    if found is None or (not found.matters and found.share < _SOME):
        return []
    text = (
        f"{some(found.ops, 'op')} ({found.share * 100:.1f} %) are known only by their call, their reply or a gap in "
        f"the XIDs, and took {percent_between(found.share_of_time)} of the time: the mean response time with them is "
        f"{between(found.mean_ms)} ms, without them {between((found.seen_mean_ms, found.seen_mean_ms))}"
    )
    if found.matters:
        text += (
            ". Other figures are without them. Whole packets (--snaplen 0) show them; docs/capture.md says at what cost"
        )
    return [note("capture-unseen", found.ops, text, warn=found.matters)]
