"""Report -> text for a terminal: the answer first, then what limits it, then the tables that prove it."""

from __future__ import annotations

from nfslat.report.sections.answer import render

__all__ = ["render"]
