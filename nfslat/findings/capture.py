"""The audit of each capture and the clock -> findings on the captures themselves, the gravest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nfslat.report.model import AuditNote, Finding


def capture_findings(audit: Mapping[str, Sequence[AuditNote]], *, clock_fits: bool) -> list[Finding]:
    """One finding for each warning of the audit (`audit`: side -> notes), and one where no constant offset fits."""
    found = [
        Finding(
            code=note.code,
            layer="capture",
            severity=note.severity,
            share=None,
            confidence="certain",
            text=note.text,
            evidence={"capture": side, "count": note.count},
            advice={},
        )
        for side, notes in audit.items()
        for note in notes
        if note.severity == "warning"
    ]
    if not clock_fits:
        text = "no constant offset between the two clocks fits all ops: one drifts, or was set during the capture"
        found.append(Finding("clock-drift", "capture", "warning", None, "likely", text, {}, {}))
    return found
