"""Numbers, words and rows -> lines of text that fit a width; knows nothing of NFS or of the report."""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence

from tabulate import tabulate

MIN_WIDTH = 80  # narrower terminals get 80 columns: the tables hold seven numbers a row
PROSE_WIDTH = 100  # longer lines of prose are hard to read, however wide the terminal

Cell = str | int | float | None

# tabulate strips blanks, so an indented label carries this in their place; `plain` keeps it out of anyone's text.
_INDENT = "\ue000"
_DASH = "-"


class Page:
    """Lines of text under construction; the only place that knows about colour."""

    def __init__(self, width: int, color: bool) -> None:
        self.width = max(width, MIN_WIDTH)
        self.prose_width = min(self.width, PROSE_WIDTH)
        self._color = color
        self._lines: list[str] = []

    def text(self) -> str:
        """Everything so far, with a newline at the end of each line."""
        return "".join(line + "\n" for line in self._lines)

    def gap(self) -> None:
        """An empty line, unless there is one."""
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def title(self, text: str) -> None:
        """The heading of a section."""
        self.gap()
        self._add(wrap(text, self.prose_width), "1")

    def lines(self, lines: Sequence[str]) -> None:
        """Lines that were laid out before."""
        self._add(lines, "")

    def prose(self, text: str, *, indent: int = 0, hanging: int = 0, style: str = "") -> None:
        """A paragraph; `hanging` indents its second and later lines further. Style: "", "bold", "dim" or "accent"."""
        code = {"": "", "bold": "1", "dim": "2", "accent": "33"}[style]
        self._add(wrap(text, self.prose_width, indent, hanging), code)

    def command(self, label: str, command: str, *, indent: int = 0) -> None:
        """`label` and a line for the shell, see `command_lines`."""
        self._add(command_lines(label, command, self.width, indent), "")

    def table(self, align: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """A table, see `table`."""
        self._add(table(align, headers, rows, self.width), "")

    def _add(self, lines: Sequence[str], code: str) -> None:
        self._lines += [f"\x1b[{code}m{line}\x1b[0m" if self._color and code and line else line for line in lines]


def plain(text: str) -> str:
    """`text` with only characters that take one column: a path or a comment must not steer the terminal.

    Others stand as Python escapes them, so that two names that differ never look alike.
    """
    return "".join(ch if _takes_one_column(ch) else " " if ch.isspace() else escaped(ch) for ch in text)


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


def indented(text: str, depth: int) -> str:
    """A table's label, `depth` steps to the right."""
    return _INDENT * (2 * depth) + plain(text)


def decimals_for(value_ms: float) -> int:
    """Decimals that show three significant digits, at most four (a tenth of a microsecond) and one from 10 to 9999."""
    size = abs(value_ms)
    return next((d for limit, d in ((0.1, 4), (1, 3), (10, 2), (10_000, 1)) if size < limit), 0)


def ms(value_ms: float, max_decimals: int = 4) -> str:
    """A duration: ``0.0123``, ``1.23``, ``12.3``, ``203.1``."""
    shown = f"{value_ms:.{min(decimals_for(value_ms), max_decimals)}f}" if value_ms else "0"
    return shown.removeprefix("-") if float(shown) == 0 else shown


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
        if all(_columns_needed(column) <= 9 for column in columns):
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


def table(align: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[str]:
    """A table of at most `width` columns, ruled below its headers if it has any; floats are durations, ints counts.

    `align` has a letter a column: l left, r right, d decimal points below each other; the first column is words. Where
    the table is too wide, the last decimals of the widest columns go first, then the middle of the words.
    """
    lines: list[str] = []
    for name_width, number_width in _TIGHTER:
        lines = _lay_out(align, headers, rows, name_width, number_width)
        if max(map(len, lines)) <= width:
            break
    return lines


# (columns of a name, columns of a duration), from roomy to tight; operation names have up to 23 columns.
_TIGHTER = [(80, 11), (80, 9), (80, 8), (80, 7), (40, 7), (32, 7), (23, 7)]
_TIGHTER += [(name_width, 6) for name_width in (23, 20, 18, 16, 14, 12, 10)]
_ALIGN = {"l": "left", "r": "right", "d": "decimal"}


def _lay_out(
    align: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    name_width: int,
    number_width: int,
) -> list[str]:
    columns = [_column([row[i] for row in rows], number_width) for i in range(len(align))]
    columns[0] = [_shorten_label(label, name_width) for label in columns[0]]
    text = tabulate(
        [list(row) for row in zip(*columns, strict=True)],
        headers=list(headers),
        tablefmt="simple" if headers else "plain",
        disable_numparse=True,
        colalign=[_ALIGN[letter] for letter in align] if rows else None,
    )
    lines = text.splitlines()
    return [line.replace(_INDENT, " ").rstrip() for line in (_without_padding(lines) if headers else lines)]


def _without_padding(lines: list[str]) -> list[str]:
    """Take out the two blanks by which tabulate makes every column wider than its header: seven columns need them."""
    rule_at = next(i for i, line in enumerate(lines) if not line.strip("- "))
    others = [line for i, line in enumerate(lines) if i != rule_at]
    drop: set[int] = set()
    for column in re.finditer("-+", lines[rule_at]):
        used = [i for i in range(*column.span()) if any(line[i : i + 1].strip() for line in others)]
        if used:
            drop.update(set(range(*column.span())) - set(range(used[0], used[-1] + 1)))
    return ["".join(ch for i, ch in enumerate(line) if i not in drop) for line in lines]


def _shorten_label(label: str, width: int) -> str:
    words = label.lstrip(_INDENT)
    steps = len(label) - len(words)
    return label[:steps] + shorten(words, max(width - steps, 7))


def _column(cells: Sequence[Cell], number_width: int) -> list[str]:
    durations = [cell for cell in cells if isinstance(cell, float)]
    decimals = next(
        (d for d in (4, 3, 2, 1, 0) if _columns_needed([ms(x, d) for x in durations]) <= number_width), None
    )
    return [_show(cell, decimals) for cell in cells]


def _columns_needed(numbers: Sequence[str]) -> int:
    """Width of a column of `numbers` with their decimal points below each other."""
    split = [number.partition(".") for number in numbers]
    before = max((len(whole) for whole, _, _ in split), default=0)
    return before + max((len(point + decimals) for _, point, decimals in split), default=0)


def _show(cell: Cell, max_decimals: int | None) -> str:
    if isinstance(cell, float):
        return f"{cell:.0e}" if max_decimals is None else ms(cell, max_decimals)
    return count(cell) if isinstance(cell, int) else cell or ""
