"""A report of better days -> what is new since then."""

from __future__ import annotations

import dataclasses

from nfslat.answer.model import Finding, Report
from nfslat.diff import read, reports
from nfslat.diff.answer import answer
from nfslat.diff.runs import Run
from nfslat.errors import UsageError
from nfslat.select import Filters


class Baseline:
    """What `--baseline` names: a report, as `--json` writes it."""

    def __init__(self, name: str) -> None:
        """Raises ``InputError`` where it cannot be read, ``UsageError`` where it is no report."""
        run = read.from_file(name, Filters(), engine="native", quiet=True)
        if run.report is None:
            raise UsageError(f"--baseline {name}: give a report, as nfslat ... --json writes it")
        self._run, self._report = run, run.report

    def new_in(self, report: Report) -> list[Finding]:
        """Causes that the baseline has not."""
        new = {one.code for one in reports.findings(self._report, report) if one.change == "new"}
        return [one for one in report.findings if one.code in new and one.severity == "warning"]

    def is_new(self, cause: str | None) -> bool:
        """Has the baseline nothing of it?"""
        return cause is not None and all(one.code != cause for one in self._report.findings)

    def told(self, report: Report) -> Report:
        """With a note on what changed since."""
        return dataclasses.replace(report, notes=[*report.notes, f"since {self._run.name}: {self.said(report)}"])

    def said(self, report: Report) -> str:
        """What `nfslat diff` says of the two, and what is new."""
        found = answer(self._run, Run("now", "report", report, None))
        new = [one.code for one in self.new_in(report)]
        return found.verdict.text + (f" New: {', '.join(new)}." if new else "")
