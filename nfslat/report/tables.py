"""tabulate, without wcwidth where that is installed: it takes longer to import than all else of a report.

`text_layout.plain` leaves nothing that takes two columns, and wcwidth may know another version of Unicode.
"""

from __future__ import annotations

import sys

_widths = sys.modules.get("wcwidth")
sys.modules["wcwidth"] = None  # type: ignore[assignment]  # so that it cannot be imported

import tabulate as _tabulate  # noqa: E402
from tabulate import SEPARATING_LINE, DataRow, Line, TableFormat, tabulate  # noqa: E402

if _widths is None:
    del sys.modules["wcwidth"]
else:
    sys.modules["wcwidth"] = _widths
_tabulate.WIDE_CHARS_MODE = False  # tabulate may have been imported before

__all__ = ["SEPARATING_LINE", "DataRow", "Line", "TableFormat", "tabulate"]
