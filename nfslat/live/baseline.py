"""A report of better days -> what is new since then."""

from __future__ import annotations

from msgspec import structs

from nfslat.answer.model import Report
from nfslat.diff import read, reports
from nfslat.diff.answer import answer
from nfslat.diff.runs import Run
from nfslat.select import Filters


class Baseline:
    """What `--baseline` names: a report, as `--json` writes it."""

    def __init__(self, name: str) -> None:
        """Raises ``InputError`` where it cannot be read."""
        self._run = read.from_file(name, Filters(), engine="native", quiet=True)
        self._report = self._run.report

    def new_in(self, report: Report) -> list[str]:
        """Causes that the baseline has not."""
        new = {finding.code for finding in reports.findings(self._report, report) if finding.change == "new"}
        return [finding.code for finding in report.findings if finding.code in new and finding.severity == "warning"]

    def is_new(self, cause: str | None) -> bool:
        """Has the baseline nothing of it?"""
        return cause is not None and all(finding.code != cause for finding in self._report.findings)

    def noted(self, report: Report) -> Report:
        """The same with a note: what `nfslat diff` says of the two, and what is new."""
        changes = answer(self._run, Run("now", "report", report, None)).verdict.text
        new = self.new_in(report)
        note = f"since {self._run.name}: {changes}" + (f" New: {', '.join(new)}." if new else "")
        return structs.replace(report, notes=[*report.notes, note])
