"""Numbers and words -> text that fits a width; knows nothing of NFS or of the report."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence

from nfslat.answer.words import adding_up, ms


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


def first_sentence(text: str) -> tuple[str, str]:
    """The first, and the rest."""
    first, *rest = re.split(r"(?<=\.) (?=[A-Z0-9])", text, maxsplit=1)
    return first, "".join(rest)


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


def large(number: int) -> str:
    """A number that a packet may put at four thousand million."""
    return count(number) if number < 100_000 else f"{number:.0e}"


def rate(mbit_s: float | None) -> str:
    """Three digits, or whole ones; a dash where it is not known."""
    if mbit_s is None:
        return "-"
    return count(round(mbit_s)) if mbit_s >= 100 else f"{mbit_s:.3g}"


def count_of(number: int, noun: str) -> str:
    """``1 flow``, ``1,000 flows``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def adding_up_below_each_other(rows: Sequence[Sequence[float]]) -> list[tuple[list[str], str]]:
    """`adding_up` for every row, with so few decimals that no column of them is wider than nine characters."""
    shown = [adding_up(parts) for parts in rows]
    for decimals in (3, 2, 1, 0):
        columns = zip(*([*parts, total] for parts, total in shown), strict=True)
        if all(columns_needed(column) <= 9 for column in columns):
            break
        shown = [adding_up(parts, decimals) for parts in rows]
    return shown


def columns_needed(numbers: Sequence[str]) -> int:
    """Width of a column of `numbers` with their decimal points below each other."""
    split = [number.partition(".") for number in numbers]
    before = max((len(whole) for whole, _, _ in split), default=0)
    return before + max((len(point + decimals) for _, point, decimals in split), default=0)
