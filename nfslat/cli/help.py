"""The options of `nfslat` -> its parser, the help that fits on a screen, and shell completion."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from nfslat import __version__
from nfslat.cli import report as report_command
from nfslat.cli.options import command_parser
from nfslat.cli.parser import Parser

SHELLS = {"bash": "nfslat.bash", "zsh": "_nfslat", "fish": "nfslat.fish"}  # file in nfslat/cli/shell
_WIDTH = 80
_TITLES = {
    "output": "write",
    "tables of matched ops": "group",
    "what to look at (all keep their meaning in every table and file)": "look at",
    "figures": "figures",
    "evidence from outside the captures (docs/evidence.md)": "evidence",
    "options": "read",
}


def report_parser(commands: Iterable[str]) -> Parser:
    """Of `nfslat` itself; the names of its `commands` stand in its help."""
    examples = f"{report_command.EXAMPLES}\n\n{report_command.STATUS}"
    usage = "nfslat [options] SERVER [CLIENT]\n       nfslat COMMAND ..."
    parser = command_parser("nfslat", report_command.DESCRIPTION, examples, usage=usage, add_help=False)
    parser.add_argument("-h", "--help", action=_Screen, commands=tuple(commands), help="help on one screen")
    parser.add_argument("--help-all", action="help", help="help with every option in a sentence, and exit")
    parser.add_argument(
        "--completion", choices=SHELLS, action=_Completion, help="print the completion script for a shell, and exit"
    )
    parser.add_argument("--version", action="version", version=f"nfslat {__version__}")
    return parser


class _Screen(argparse.Action):
    """Prints all options without their sentences, and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, commands: Sequence[str], help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, help=help)
        self._commands = commands

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        lines = [f"usage: {parser.usage}", "", report_command.DESCRIPTION, "", report_command.EXAMPLES, ""]
        for group in parser._action_groups:
            names = [
                _name(action)
                for action in group._group_actions
                if action.option_strings and action.help != argparse.SUPPRESS
            ]
            if names:
                lines += _wrapped(_TITLES.get(group.title or "", group.title or ""), names)
        lines += _wrapped("commands", [f"{name}" for name in self._commands])
        lines += ["", "in a sentence each: nfslat --help-all, nfslat COMMAND --help", report_command.STATUS]
        sys.stdout.write("\n".join(lines) + "\n")
        parser.exit()


class _Completion(argparse.Action):
    """Prints a file that is part of the package, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, __: Any = None) -> None:
        text = resources.files("nfslat.cli").joinpath("shell", SHELLS[shell]).read_text(encoding="utf-8")
        sys.stdout.write(text)
        parser.exit()


def _name(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if isinstance(value, tuple):
        value = " ".join(value)
    option = action.option_strings[-1]
    return f"{option}\u00a0{value}" if value and action.nargs != 0 else option


def _wrapped(title: str, words: Sequence[str]) -> list[str]:
    lines = textwrap.wrap(
        "  ".join(words), _WIDTH, initial_indent=f"{title:<10}", subsequent_indent=" " * 10, break_on_hyphens=False
    )
    return [line.replace("\u00a0", " ") for line in lines]
