"""The table of options (``options.txt``) -> parsers of all commands, and the types of their values.

Words with semicolons between them say how a value is read: a type of `READERS`, a range (``1..64``) or ``one of A B``;
``default X``; ``list``: several with commas between them, the option once or more; ``repeats``: one value each time;
``as NAME``: what the library calls it; ``off``: it is on without the option; ``needed``; ``instead``: one of these has
to be given, and no more; and of what has no dashes ``?``, ``*`` or ``+``: how many stand there.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from nfslat.cli.outputs import OUTPUTS
from nfslat.cli.parser import Parser
from nfslat.evidence.kinds import KINDS
from nfslat.model.units import parse_duration
from nfslat.sizes import payload

if TYPE_CHECKING:
    from nfslat.select import Filters

TABLE = os.path.join(os.path.dirname(__file__), "options.txt")
OUTPUT = "output"
_MOST_BYTES = 1 << 40

Read = Callable[[str], Any]


def number(least: int = 1, most: int = 1 << 20) -> Read:
    """A whole number."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text[:40]!r}: give a whole number from {least} to {most:,}")
        return int(text)

    return read


def duration(unit: str, least_s: float, most_s: float) -> Read:
    """A length of time in `unit`, "ms" or "s", which a bare number is in."""
    what = "seconds, for example 1 or 0.1" if unit == "s" else "milliseconds, for example 58 or 0.1"

    def read(text: str) -> float:
        seconds = parse_duration(text, unit)
        if seconds is None or not least_s <= seconds <= most_s:
            raise argparse.ArgumentTypeError(f"{text[:40]!r}: give {what}, or a time with its unit (50ms, 2s, 1m)")
        return float(seconds * 1000 if unit == "ms" else seconds)

    return read


def xid(text: str) -> int:
    """An XID, as nfslat or other tools print it."""
    try:
        value = int(text, 0)
    except ValueError:
        value = int(text, 16) if re.fullmatch("[0-9a-fA-F]{1,8}", text) else -1  # as other tools print it
    if not 0 <= value < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is no XID: give 0x and up to eight hexadecimal digits, or a number")
    return value


def size(text: str) -> int:
    """Bytes: ``256M``."""
    found = re.fullmatch(r"(\d{1,12})([KMG])", text, re.ASCII)
    if found is None or int(found[1]) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a size, for example 256M or 2G")
    return int(found[1]) << {"K": 10, "M": 20, "G": 30}[found[2]]


def headers(text: str) -> dict[str, int]:
    """``tcp=52,rpc=140``: bytes in front of payload."""
    sizes = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in payload.HEADERS:
            raise argparse.ArgumentTypeError(f"{part!r}: give {', '.join(payload.HEADERS)} and bytes: tcp=52,rpc=140")
        sizes[name] = number(0, _MOST_BYTES)(value)
    return sizes


def sections(text: str) -> tuple[str, ...]:
    """Names of sections of the report."""
    from nfslat.report.text import parse_sections  # noqa: PLC0415  (late: --help does not wait for the report)

    return parse_sections(text)


READERS: dict[str, Read] = {
    "count": number(),  # of operations, threads, slots, sessions
    "port": number(1, 65535),
    "bytes": number(1, _MOST_BYTES),
    "seconds": duration("s", 1e-3, 1e6),
    "ms": duration("ms", 0.0, 1e6),
    "xid": xid,
    "size": size,
    "headers": headers,
    "sections": sections,
}


class Option(NamedTuple):
    """A row of the table."""

    commands: tuple[str, ...]
    group: str  # title in help; "": among the others
    names: tuple[str, ...]  # of what has no dashes what help calls it
    values: tuple[str, ...]  # what help calls what stands behind it
    how: dict[str, str]  # the words on its value, and what stands behind each
    help: str

    @property
    def name(self) -> str:
        """Of its value, for the library, too."""
        return self.how.get("as", self.names[-1].strip("-").replace("-", "_").lower())

    def add_to(self, group: argparse._ActionsContainer) -> None:
        """As an argument of a parser."""
        how = self.how
        words: dict[str, Any] = {"help": self.help.replace("%", "%%")}
        if not self.names[-1].startswith("-"):
            count = next((word for word in how if word in ("?", "*", "+")), None)
            group.add_argument(self.name, metavar=self.names[-1], nargs=count, **words)
            return
        words["dest"] = self.name
        choices = how["one of"].split() if "one of" in how else None
        if not self.values and choices is None:
            group.add_argument(*self.names, action="store_false" if "off" in how else "store_true", **words)
            return
        read = next((_reader(word) for word in how if word in READERS or ".." in word), str)
        if "list" in how or "repeats" in how:
            words |= {"action": "extend" if "list" in how else "append", "default": []}
            read = _several(read) if "list" in how else read
        elif "default" in how:
            words["default"] = read(how["default"])
        if len(self.values) > 1:
            words["nargs"] = len(self.values)
        if "needed" in how:
            words["required"] = True
        group.add_argument(*self.names, metavar=" ".join(self.values) or None, type=read, choices=choices, **words)


def _reader(word: str) -> Read:
    least, _, most = word.partition("..")
    return number(int(least), int(most)) if most else READERS[word]


def _several(read: Read) -> Read:
    """Values with commas between them; the name of a file may have some."""

    def all_of(text: str) -> list[Any]:
        return [read(part) for part in ([text] if read is str and os.path.exists(text) else text.split(","))]

    return all_of


@cache
def options() -> tuple[Option, ...]:
    """All rows, and one for each output."""
    evidence = ", ".join(kind.words for kind in KINDS)
    return (*_rows(evidence), *(_row(one.commands, OUTPUT, one.option, one.words) for one in OUTPUTS))


def _rows(evidence: str) -> Iterator[Option]:
    # As a part of the package, which may be in an archive.
    lines = __spec__.loader.get_data(TABLE).decode().splitlines()  # type: ignore[union-attr]
    commands = group = ""
    for line, text in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("["):
            commands, _, group = line[1:].partition("]")
        elif line and line[0] not in " #":
            yield _row(commands, group.strip(), line, text.strip().replace("{evidence}", evidence))


def _row(commands: str, group: str, usage: str, text: str) -> Option:
    words, _, how = usage.partition("  ")
    dashed = words.startswith("-")
    names = tuple(word for word in words.split() if word.startswith("-") or not dashed)
    values = tuple(word for word in words.split() if not word.startswith("-")) if dashed else ()
    ways = dict(_way(word.strip()) for word in how.split(";") if how)
    return Option(tuple(commands.split()), group, names, values, ways, text)


def _way(word: str) -> tuple[str, str]:
    for name in ("one of", "default", "as"):
        if word.startswith(f"{name} "):
            return name, word.removeprefix(name).strip()
    return word, ""


def command_parser(command: str, description: str, examples: str, **more: Any) -> Parser:
    """The parser of ``nfslat COMMAND``; of the report's own, "nfslat"."""
    parser = Parser(
        prog="nfslat" if command == "nfslat" else f"nfslat {command}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **more,
    )
    add_options(parser, command)
    return parser


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    """All that the command takes."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    either: argparse._ActionsContainer | None = None
    for option in options():
        if command not in option.commands:
            continue
        group = groups.get(option.group)
        if group is None:
            group = groups[option.group] = parser.add_argument_group(option.group)
        if "instead" in option.how:
            group = either = either or parser.add_mutually_exclusive_group(required=True)
        option.add_to(group)


def filters_of(options: argparse.Namespace) -> Filters:
    """What to look at. Raises ``UsageError`` for values that make no sense."""
    from nfslat import select  # noqa: PLC0415  (late: --help does not wait for numpy)

    return select.make_filters(**{name: getattr(options, name) for name in select.FILTERS})
