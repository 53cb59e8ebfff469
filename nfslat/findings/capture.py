"""The audit of the captures -> findings: what makes them a poor witness, the gravest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nfslat.answer.model import AuditNote, Capture, Finding
from nfslat.findings.diagnosis import Diagnosis, Evidence

# What a wrong clock touches is wrong, what is missing is not there, and the rest is noise; codes that are not here are
# in between.
_GRAVEST = (
    "no-overlap",
    "capture-two-clocks",
    "two-clocks-suspected",
    "capture-late-stamps",
    "capture-coarse-stamps",
    "capture-clock-step",
    "files-missing",
    "capture-drops",
)
_LEAST = ("observer-effect", "capture-duplicates", "capture-reordered")


class Audited(Evidence, frozen=True, kw_only=True):
    """Of all findings on the captures themselves."""

    capture: str  # server, client or both
    count: int
    share: float | None = None
    of: str | None = None  # what


def _messages(capture: Capture) -> int:
    return sum(capture.messages.values())


# What the count of a code is a share of.
_OF: dict[str, tuple[str, Callable[[Capture], int]]] = {
    "capture-coarse-stamps": ("operations", lambda c: c.ops),
    "capture-truncated": ("messages", _messages),
    "capture-unanswered": ("messages", _messages),
    "capture-orphans": ("messages", _messages),
    "malformed-rpc": ("messages", _messages),
    "capture-missing-calls": ("calls shown and missing", lambda c: c.ops + c.messages.get("NO_REPLY", 0)),
    "capture-duplicates": ("packets", lambda c: c.packets),
    "capture-reordered": ("packets", lambda c: c.packets),
    "capture-untimed": ("packets", lambda c: c.packets),
    "capture-misdated": ("packets", lambda c: c.packets),
    "capture-damaged": ("packets", lambda c: c.packets),
    "capture-untracked": ("packets", lambda c: c.packets),
}


def capture_findings(captures: Mapping[str, Capture], pair: Sequence[AuditNote] = ()) -> list[Finding]:
    """One finding for each warning of the audit of `captures` (side -> capture), and of the two together (`pair`)."""
    found = [
        _finding(note, side, *_share(note, capture)) for side, capture in captures.items() for note in capture.audit
    ]
    found += [_finding(note, "both") for note in pair]
    return sorted((finding for finding in found if finding.severity == "warning"), key=_gravity)


def _gravity(finding: Finding) -> int:
    if finding.code in _GRAVEST:
        return _GRAVEST.index(finding.code)
    return len(_GRAVEST) + 1 + _LEAST.index(finding.code) if finding.code in _LEAST else len(_GRAVEST)


def _share(note: AuditNote, capture: Capture) -> tuple[float | None, str | None]:
    if note.code not in _OF:
        return None, None
    what, of = _OF[note.code]
    whole = of(capture) + (note.count if note.code == "capture-missing-calls" else 0)
    return note.count / max(whole, 1), what


def _finding(note: AuditNote, where: str, share: float | None = None, of: str | None = None) -> Finding:
    return Diagnosis(
        code=note.code,
        layer="capture",
        severity=note.severity,
        share=None,
        slowest=None,
        confidence="likely" if note.code == "two-clocks-suspected" else "certain",
        text=note.text,
        evidence=Audited(capture=where, count=note.count, share=share, of=of),
        advice=None,
    ).as_finding()
