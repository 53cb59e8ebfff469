"""Texts of reports that were read by somebody: each file of ``texts/`` has a sentence of what it holds, and the text.

Run as a program, this writes the texts anew behind their sentences.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nfslat.answer.model import (
    CapInFlight,
    Charge,
    MeanAndP99,
    NextStep,
    Outcome,
    Parts,
    Report,
    SessionInFlight,
    StackRow,
    WhatIf,
)
from nfslat.report import markdown, text

TEXTS = Path(__file__).parent / "texts"
_BEFORE = Outcome(4, None, 990, 1400.0, MeanAndP99(19.9, 55.0), None, 0.0, 14.1, 0.99, None, "threads")
_AFTER = Outcome(64, None, 990, 5000.0, MeanAndP99(5.8, 9.0), None, 0.0, 0.0, 0.3, None, "load")
_MEANS = MeanAndP99(20.02, 55.9), MeanAndP99(5.834, 9.1), 31.0, 16.8, 14.13
_WHAT_IF = WhatIf("threads=64", "", *_MEANS, _BEFORE, _AFTER, -0.006, 990, 990, 3, "Storage stays as it was.")
_SESSION = "17fc006b" * 4
_SESSIONS = [
    SessionInFlight(_SESSION, False, 1, 477, 2, 2, 1, 2, 2, 0.99, 0.78, None, True),
    SessionInFlight(_SESSION, True, 1, 3, None, None, 0, 1, None, None, None, None, False),
]
_CAP = CapInFlight("10.0.0.2:733", 991, 128, 0.8, 9, 120.0, 30.0, 3, 1.5, True)
_STACK = [
    StackRow("all", "application", 0, 58.0, None, "--app-ms"),
    StackRow("all", "above the wire", 1, 38.0, 0.655, "application - client SRT"),
    StackRow("all", "client SRT", 1, 20.0, 0.345, "captures"),
    StackRow("all", "server", 2, 19.3, 0.333, "server SRT"),
]
_CHARGES = [
    ("before", "zero-window", 0.7, None),
    ("call_net", "rto", 1.5, 0.15),
    ("call_net", "loss", 0.001, 0.0001),
    ("call_net", "reordering", 0.002, 0.0002),
    ("call_net", "unexplained", 0.5, 0.05),
    ("call_send", "unexplained", 0.0, 0.0),
    ("server", "behind-loss", 2.5, 0.25),
    ("after", "behind-loss", 0.3, None),
]


def changed(report: Report, **fields: Any) -> Report:
    """The report with other fields; with two underscores between names, of what it holds."""
    for path, value in fields.items():
        first, _, rest = path.partition("__")
        if rest:
            held = getattr(report, first)
            inner = {**held, rest: value} if isinstance(held, dict) else changed(held, **{rest: value})
        report = dataclasses.replace(report, **{first: inner if rest else value})
    return report


def charges(rows: list[tuple[str, str, float, float | None]]) -> list[Charge]:
    """Of what is in no SRT, too."""
    return [Charge(part, cause, 10, 1000 * ms, ms, share, 10 * ms, share) for part, cause, ms, share in rows]


def _alone(report: Report, **fields: Any) -> Report:
    """One capture of it."""
    captures, raw = {"capture": report.captures["server"]}, {"capture": report.raw["server"]}
    nothing: dict[str, Any] = {"matched": None, "clock": None, "verdict": None, "selection__excluded": {}}
    return changed(report, captures=captures, raw=raw, **nothing, **fields)


def _shown(*sections: str, **fields: Any) -> Callable[[Report], str]:
    return lambda report: text.render(changed(report, **fields), sections=sections, full=not sections)


_CASES: dict[str, Callable[[Report], str]] = {
    "small": lambda of: text.render(of, full=True).partition("\nLegend\n")[0] + "\n",
    "screen": lambda of: text.render(
        changed(of, verdict__next=NextStep("iostat -x 1 30", "the server", "whether it is the disk", []))
    ),
    "histograms": _shown("histograms"),
    "ticket": markdown.render,
    "no-directions": _shown("parts", matched__total__parts_ms=Parts(0.0041, None, 19.30, 0.0955, None, 0.6204, 0.4)),
    "none-in-both": _shown(
        "answer", "matched", matched__ops=0, matched__by_op=[], matched__total=None, matched__slowest=None, verdict=None
    ),
    "stack": _shown("stack", stack=_STACK),
    "sessions": _shown("inflight", "legend", inflight__sessions=_SESSIONS, inflight__caps=[_CAP]),
    "what-if": _shown("whatif", "evidence", what_if=[_WHAT_IF], evidence=["a.trc: 3 lines were not read"]),
    "one-capture": lambda of: text.render(_alone(of, findings=[]), full=True),
    "one-capture-finding": lambda of: text.render(_alone(of)),
    "charges": _shown("parts", charges=charges(_CHARGES)),
}


def _parts(name: str) -> tuple[str, str]:
    sentence, _, expected = (TEXTS / f"{name}.txt").read_text().partition("\n\n")
    return sentence, expected


@pytest.mark.parametrize("name", _CASES)
def test_it_reads_as_it_was_reviewed(small: Callable[[], Report], name: str) -> None:
    """Word for word; the file says what it holds."""
    sentence, expected = _parts(name)
    assert sentence.endswith(".")
    assert _CASES[name](small()) == expected


def test_every_reviewed_text_is_of_a_case() -> None:
    """None is left over."""
    assert {path.stem for path in TEXTS.glob("*.txt")} == set(_CASES)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    import conftest

    for case, make in _CASES.items():
        file = TEXTS / f"{case}.txt"
        said = _parts(case)[0] if file.exists() else "What it holds."
        file.write_text(f"{said}\n\n{make(conftest._small())}")
