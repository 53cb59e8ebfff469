"""Blocks -> text for a terminal of some width; the only place that knows about tables of characters and colour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from nfslat.answer.words import ms
from nfslat.report.blocks import (
    Advice,
    Block,
    Cell,
    Command,
    Fitted,
    Gap,
    Histogram,
    Item,
    Label,
    Lines,
    Prose,
    RankedFinding,
    Table,
    Title,
    cell_text,
)
from nfslat.report.tables import SEPARATING_LINE, DataRow, Line, TableFormat, tabulate
from nfslat.report.text_layout import columns_needed, command_lines, count, plain, shorten, shorten_left, wrap

MIN_WIDTH = 80  # narrower terminals get 80 columns: the tables hold seven numbers a row
PROSE_WIDTH = 100  # longer lines of prose are hard to read, however wide the terminal
# Layers are bold, and each has a colour, which light and dark terminals show.
_LAYER_STYLES = {"client": "1;36", "network": "1;35", "server": "1;34"}
_STYLES = {"": "", "bold": "1", "dim": "2", "accent": "33"} | _LAYER_STYLES
_LABEL = 8  # columns of "check   "
_WRAPPED_AT_LEAST, _CUT_AT_LEAST = 16, 8


def write(blocks: Iterable[Block], *, width: int = 80, color: bool = False) -> str:
    """The blocks as lines of at most `width` columns (80 if it is less), each with its line feed; colours add none."""
    width, lines = max(width, MIN_WIDTH), list[str]()
    for block in _expanded(blocks, width):
        if isinstance(block, Title | Gap) and lines and lines[-1]:
            lines.append("")
        if isinstance(block, Table) and block.styles and color:
            lines += _coloured(block, _lines(block, width))
            continue
        code = "1" if isinstance(block, Title) else _STYLES[getattr(block, "style", "")]
        lines += [f"\x1b[{code}m{line}\x1b[0m" if color and code and line else line for line in _lines(block, width)]
    return "".join(line + "\n" for line in lines)


def _coloured(of: Table, lines: Sequence[str]) -> list[str]:
    """Rows in their styles. A row that needed several lines leaves all plain: none shall have another's colour."""
    above = len(lines) - len(of.rows)
    if above not in (0, len(of.headers) and 2):
        return list(lines)
    codes = [*[""] * above, *(_STYLES[one] for one in of.styles)]
    return [f"\x1b[{code}m{line}\x1b[0m" if code else line for code, line in zip(codes, lines, strict=True)]


def _expanded(blocks: Iterable[Block], width: int) -> Iterator[Block]:
    """The same without what is put together of other blocks."""
    for block in blocks:
        if isinstance(block, Fitted):
            yield from _expanded(block.blocks(width), width)
        elif isinstance(block, RankedFinding):
            yield from _finding(block)
        else:
            yield block


def _lines(block: Block, width: int) -> list[str]:
    prose_width = min(width, PROSE_WIDTH)
    match block:
        case Title(text):
            return wrap(text, prose_width)
        case Prose(text, indent, hanging):
            return wrap(text, prose_width, indent, hanging)
        case Item(text, indent):
            return wrap(f"- {text}", prose_width, indent, 2)
        case Command(label, command, indent) if command.startswith("#"):
            # A remark that goes on in the next line is a remark there, too: somebody will paste both.
            room = prose_width - indent - len(label) - 2
            labels = [label, *[" " * len(label)] * len(command)]
            pieces = zip(labels, wrap(command.lstrip("# "), room), strict=False)
            return [line for head, piece in pieces for line in command_lines(head, f"# {piece}", width, indent)]
        case Command(label, command, indent):
            return command_lines(label, command, width, indent)
        case Table():
            return _table(block, width)
        case Histogram():
            return _histogram(block, width)
        case Lines(lines):
            return list(lines)
    return []


def _finding(one: RankedFinding) -> Iterator[Block]:
    if not one.number:
        yield Item(f"{one.code}, {one.confidence}, {one.explains}: {one.text}.")
        return
    yield Prose(f"{one.number}. {one.code}, {one.confidence}: {one.explains}", hanging=3, style="bold")
    yield Prose(f"{one.text}.", indent=3)
    advice = one.advice
    yield from setting(advice)
    if advice.knob and advice.suggested:
        yield from commands(advice.how)
    else:
        for place, line in enumerate(advice.how):
            yield labelled("" if place else "how", line)
    for label, text in (("acts", advice.takes_effect), ("check", advice.verify), ("risk", advice.risk)):
        if text:
            yield labelled(label, text)


def setting(advice: Advice) -> Iterator[Block]:
    """What is to be set, or looked at."""
    if advice.knob and advice.suggested:
        yield labelled("set", f"{advice.knob} to {advice.suggested}{f' (now {advice.now})' if advice.now else ''}")
    elif advice.knob:
        yield labelled("look at", advice.knob)


def labelled(label: str, text: str) -> Prose:
    """What there is to say of an advice, behind a word for what it is."""
    return Prose(f"{label:<{_LABEL}}{text}", indent=3, hanging=_LABEL)


def commands(how: Sequence[str]) -> Iterator[Command]:
    """How to make a setting: commands to paste, and remarks."""
    for place, line in enumerate(how):
        yield Command(f"{'' if place else 'how':<{_LABEL}}", line, indent=3)


# ---- tables ----


def table(align: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[str]:
    """A table of at most `width` columns, ruled below its headers if it has any; floats are durations, ints counts.

    `align` as of `Table`. Where the table is too wide, the last decimals of the widest columns go first, then the
    middle of the words.
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
_RULED = TableFormat(
    lineabove=None,
    linebelowheader=Line("", "-", "  ", ""),
    linebetweenrows=None,
    linebelow=None,
    headerrow=DataRow("", "  ", ""),
    datarow=DataRow("", "  ", ""),
    padding=0,
    with_header_hide=None,
)
_BLANK = "\ue000"  # tabulate strips blanks, so those at the ends of a cell are this; `plain` keeps it out of any text
_DECIMALS = re.compile(r"[-+]?[\d,]+[.e]([\d+-]*)")


def _lay_out(
    align: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    name_width: int,
    number_width: int,
) -> list[str]:
    columns = [_column([row[i] for row in rows], number_width, letter) for i, letter in enumerate(align)]
    columns[0] = [_shorten_label(label, name_width) for label in columns[0]]
    lines = [line for row in zip(*columns, strict=True) for line in _split(row)]
    # tabulate makes columns two blanks wider than a header needs; as rows, headers take no more than they have.
    text = tabulate(
        [*_split(headers), SEPARATING_LINE, *lines] if headers else lines,
        tablefmt=_RULED,
        disable_numparse=True,
        colalign=["left" if letter == "l" or not rows else "right" for letter in align],
    )
    return [line.replace(_BLANK, " ").rstrip() for line in text.splitlines()]


def _split(cells: Sequence[str]) -> list[list[str]]:
    """A row as lines."""
    return [list(line) for line in zip_longest(*(cell.split("\n") for cell in cells), fillvalue="")]


def _shorten_label(label: str, width: int) -> str:
    words = label.lstrip(_BLANK)
    steps = len(label) - len(words)
    return label[:steps] + shorten(words, max(width - steps, 7))


def _column(cells: Sequence[Cell], number_width: int, letter: str) -> list[str]:
    durations = [cell for cell in cells if isinstance(cell, float)]
    decimals = next((d for d in (4, 3, 2, 1, 0) if columns_needed([ms(x, d) for x in durations]) <= number_width), None)
    shown = [_show(cell, decimals) for cell in cells]
    if letter != "d":
        return shown
    after = [len(found[1]) if (found := _DECIMALS.fullmatch(cell)) else -1 for cell in shown]
    most = max(after, default=0)
    return [cell + _BLANK * (most - own) for cell, own in zip(shown, after, strict=True)]


def _show(cell: Cell, max_decimals: int | None) -> str:
    match cell:
        case Label(text, depth):
            return _BLANK * (2 * depth) + text
        case float():
            return f"{cell:.0e}" if max_decimals is None else ms(cell, max_decimals)
    return cell_text(cell)


def _table(one: Table, width: int) -> list[str]:
    rows = one.rows
    if one.last:
        bare = table(one.align[:-1], one.headers[:-1], [row[:-1] for row in rows], width)
        room = width - max(map(len, bare)) - 2
        rows = [[*row[:-1], _fitted(str(row[-1]), room, one.last)] for row in rows]
    if one.narrower is not None:
        lines = _lay_out(one.align, one.headers, rows, *_TIGHTER[0])
        return lines if max(map(len, lines)) <= width else _table(one.narrower, width)
    return table(one.align, one.headers, rows, width)


def _fitted(text: str, room: int, how: str) -> str:
    if how == "cut":
        return shorten_left(text, max(room, _CUT_AT_LEAST))
    return "\n".join(wrap(text, max(room, _WRAPPED_AT_LEAST)))


def _histogram(one: Histogram, width: int) -> list[str]:
    biggest = {side: max(counts.get(side, 0) for _, counts in one.rows) for side in one.sides}
    title = shorten(one.title, 26)
    taken = max(len(title), 8) + 2 + sum(max(len(count(n)), 8) + 4 for n in biggest.values())
    bar = max((width - taken) // len(one.sides), 4)
    rows: list[list[Cell]] = []
    for label, counts in one.rows:
        row: list[Cell] = [plain(label).rjust(6).replace(" ", _BLANK)]
        for side in one.sides:
            n = counts.get(side, 0)
            # A bucket with one op in it must not look empty.
            row += [n, "#" * max(bar * n // biggest[side], 1) if n else ""]
        rows.append(row)
    headers = [title, *(header for side in one.sides for header in ("ops" if side == "capture" else side, ""))]
    return table("l" + "rl" * len(one.sides), headers, rows, width)
