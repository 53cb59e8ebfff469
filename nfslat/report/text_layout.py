"""Numbers and words -> text that fits a width; knows nothing of NFS or of the report."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence

_DASH = "-"


def plain(text: str) -> str:
    """`text` with only characters that take one column: a path or a comment must not steer the terminal.

    Others stand as Python escapes them, so that two names that differ never look alike.
    """
    return "".join(ch if _takes_one_column(ch) else " " if ch.isspace() else escaped(ch) for ch in text)


def visible(text: str) -> str:
    """`text` with what cannot be seen, or turns the writing round, as its number: a name must not pass for another."""
    return "".join(ch if ch.isprintable() else escaped(ch) for ch in text)


def escaped(ch: str) -> str:
    """A character as Python writes it: ``\\x1b``, ``\\u202e``."""
    return ch.encode("unicode_escape").decode("ascii")


def _takes_one_column(ch: str) -> bool:
    return ch.isprintable() and unicodedata.east_asian_width(ch) not in "WF" and not unicodedata.combining(ch)


def shorten(text: str, width: int) -> str:
    """`text` cut in the middle to `width` columns: the ends of a path say most."""
    text = plain(text)
    if len(text) <= width:
        return text
    head = (width - 3) // 2
    return f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"


def shorten_left(text: str, width: int) -> str:
    """`text` cut at its left to `width` columns: the end of a path says which file, which line."""
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def wrap(text: str, width: int, indent: int = 0, hanging: int = 0) -> list[str]:
    """`text` as lines of at most `width` columns; a hyphen is no place to break, for it may be part of a path."""
    lines = textwrap.wrap(
        plain(text).replace(" %", "\0%"),  # a number and its unit stay on one line
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ").rstrip() for line in lines]


def command_lines(label: str, command: str, width: int, indent: int = 0) -> list[str]:
    """A command that can be pasted: broken at blanks, with a backslash at the end of a line; in one piece with quotes.

    A word, or a command with quotes, that is wider than `width` stays so: cut, it would be another command.
    """
    head, text = " " * indent + label, plain(command)
    room = width - len(head)
    pieces = [text]
    if len(text) > room and not set("'\"`\\") & set(text):
        pieces = textwrap.wrap(text, room - 4, break_long_words=False, break_on_hyphens=False) or [""]
    heads = [head, *[" " * (len(head) + 2)] * (len(pieces) - 1)]
    ends = [*[" \\"] * (len(pieces) - 1), ""]
    return [f"{start}{piece}{end}".rstrip() for start, piece, end in zip(heads, pieces, ends, strict=True)]


def decimals_for(value_ms: float) -> int:
    """Decimals that show three significant digits, at most four (a tenth of a microsecond) and one from 10 to 9999."""
    size = abs(value_ms)
    return next((d for limit, d in ((0.1, 4), (1, 3), (10, 2), (10_000, 1)) if size < limit), 0)


def ms(value_ms: float, max_decimals: int = 4) -> str:
    """A duration: ``0.0123``, ``1.23``, ``12.3``, ``203.1``."""
    shown = f"{value_ms:.{min(decimals_for(value_ms), max_decimals)}f}" if value_ms else "0"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def duration(total_ms: float) -> str:
    """In the unit that suits: ``12.3 ms``, ``4.56 s``, ``25.0 min``, ``4.0 h``."""
    if total_ms < 1000:
        return f"{ms(total_ms)} ms"
    if total_ms < 600_000:
        return f"{ms(total_ms / 1000)} s"
    if total_ms < 7_200_000:
        return f"{total_ms / 60_000:.1f} min"
    return f"{total_ms / 3_600_000:,.1f} h"


def count(number: int) -> str:
    """A count with thousands separators."""
    return f"{number:,}"


def count_of(number: int, noun: str) -> str:
    """``1 flow``, ``1,000 flows``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def percent(share: float | None) -> str:
    """A share with one decimal; a dash where a share says nothing (unknown, or of a total that is about nothing)."""
    if share is None or not abs(share) < 10:
        return _DASH
    shown = f"{share * 100:.1f} %"
    return "0.0 %" if shown == "-0.0 %" else shown


def adding_up(parts: Sequence[float], max_decimals: int = 4) -> tuple[list[str], str]:
    """Parts and their total as printed numbers that add up to the printed digit, by the largest remainder.

    The smallest part is shown to three digits where that leaves the largest number with no more than five.
    """
    # Negative parts can make the total small beside its parts: the largest number shown sets the digits.
    largest = max(abs(number) for number in (*parts, math.fsum(parts)))
    few = decimals_for(largest)
    wanted = max((decimals_for(part) for part in parts if part), default=0)
    five_digits = 4 - math.floor(math.log10(largest)) if largest else 4
    decimals = max(few, min(wanted, five_digits))
    decimals = min(decimals, max_decimals)
    units = _largest_remainder([part * 10**decimals for part in parts])
    return [_fixed(unit, decimals) for unit in units], _fixed(sum(units), decimals)


def adding_up_below_each_other(rows: Sequence[Sequence[float]]) -> list[tuple[list[str], str]]:
    """`adding_up` for every row, with so few decimals that no column of them is wider than nine characters."""
    shown = [adding_up(parts) for parts in rows]
    for decimals in (3, 2, 1, 0):
        columns = zip(*([*parts, total] for parts, total in shown), strict=True)
        if all(columns_needed(column) <= 9 for column in columns):
            break
        shown = [adding_up(parts, decimals) for parts in rows]
    return shown


def shares_adding_up(parts: Sequence[float]) -> list[str]:
    """Each part's share of the total, as percentages that add up to 100.0; dashes where the total is about nothing."""
    total = math.fsum(parts)
    if not total or any(not abs(part / total) < 10 for part in parts):
        return [_DASH] * len(parts)
    return [f"{_fixed(unit, 1)} %" for unit in _largest_remainder([part / total * 1000 for part in parts])]


def _largest_remainder(values: Sequence[float]) -> list[int]:
    """Integers next to `values` whose sum is that of `values`, rounded."""
    floors = [math.floor(value) for value in values]
    missing = round(math.fsum(values)) - sum(floors)
    by_remainder = sorted(range(len(values)), key=lambda i: floors[i] - values[i])
    for i in by_remainder[:missing]:
        floors[i] += 1
    return floors


def _fixed(units: int, decimals: int) -> str:
    sign, digits = "-" if units < 0 else "", str(abs(units)).rjust(decimals + 1, "0")
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}" if decimals else sign + digits


def columns_needed(numbers: Sequence[str]) -> int:
    """Width of a column of `numbers` with their decimal points below each other."""
    split = [number.partition(".") for number in numbers]
    before = max((len(whole) for whole, _, _ in split), default=0)
    return before + max((len(point + decimals) for _, point, decimals in split), default=0)
