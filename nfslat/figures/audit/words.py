"""Counts, sizes and durations as the notes of the audit say them."""

from __future__ import annotations

from nfslat.answer.model import AuditNote
from nfslat.model.units import to_ms, to_s

MANY = 0.02  # a share above this changes the answer, so it is a warning
LEAN = "Missing calls are not a random sample; means and percentiles may be biased"


def note(code: str, count: int, text: str, *, warn: bool = False) -> AuditNote:
    """One note."""
    return AuditNote(code, "warning" if warn else "info", text, count)


def some(number: int, noun: str, plural: str = "") -> str:
    """``1 packet``, ``1,000 packets``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def be(number: int) -> str:
    """The verb that goes with `some`."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """The verb that goes with `some`."""
    return "has" if number == 1 else "have"


def share(part: int, whole: int) -> str:
    """``0.8 %``; what is not nothing is not shown as nothing."""
    percent = part * 100 / max(whole, 1)
    return "under 0.1 %" if 0 < percent < 0.05 else f"{percent:.1f} %"


def size(number: int) -> str:
    """Bytes: ``1,460 bytes``, ``14.5 kB``, ``10.7 MB``."""
    for unit, name in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if number >= max(unit, 10_000):
            return f"{number / unit:.1f} {name}"
    return some(number, "byte")


def span(ns: int) -> str:
    """A duration without its sign: ``37.000 s``, ``3.20 ms``, ``22 us``."""
    ns = abs(ns)
    if ns >= 1_000_000_000:
        return f"{to_s(ns):,.3f} s"
    return f"{to_ms(ns):.2f} ms" if ns >= 1_000_000 else f"{ns / 1e3:.3g} us"
