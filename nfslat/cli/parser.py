"""Words of a command line -> options, or a `UsageError` that names the wrong word and what was probably meant."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from nfslat.errors import UsageError

_CLOSE = 0.7
_NUMBER = re.compile(r"-\.?\d")
_ENOUGH_CAPTURES = 2
_MORE_CAPTURES = (
    "nfslat compares two, the server's and the client's. Files of one rotated set are one capture: quote the glob "
    "('server.pcap*') or join them with commas. Many clients: nfslat fleet"
)


class UnknownOption(UsageError):
    """No option of the command in question; `option` is what was said, `prog` the command."""

    def __init__(self, why: str, option: str, prog: str) -> None:
        super().__init__(why)
        self.option, self.prog = option, prog


class Parser(argparse.ArgumentParser):
    """One whose complaints are ``UsageError``."""

    def parse(self, arguments: Sequence[str], commands: Collection[str] = ()) -> argparse.Namespace:
        """The options; `commands` are words that may not stand where a capture does."""
        if not {"-h", "--help", "--help-all", "--version"} & set(arguments):
            self._refuse_unknown(arguments)
        # Options may stand between captures, too.
        found, surplus = self.parse_known_intermixed_args(arguments)
        files = [str(value) for value in (getattr(found, "server", None), getattr(found, "client", None)) if value]
        for word in (*files, *surplus):
            if word in commands and not os.path.exists(word):
                raise UsageError(f"{word} is a command, and commands stand first: nfslat {word} ...")
        if surplus:
            self._refuse_surplus(surplus)
        return found

    def options(self) -> Iterator[str]:
        """Names that help shows."""
        for action in self._actions:
            if action.help != argparse.SUPPRESS:
                yield from action.option_strings

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    # --- One line for what goes wrong ---

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        for word in given:
            if word == "--":
                return
            if len(word) < 2 or not word.startswith("-") or " " in word or _NUMBER.match(word):
                continue
            name = word.partition("=")[0]
            known = self._option_string_actions
            if name not in known and (name.startswith("--") or name[:2] not in known):
                hint = meant(name, self.options())
                raise UnknownOption(f"{self.prog} has no option {name}{hint} (see {self.prog} --help)", name, self.prog)

    def _refuse_surplus(self, surplus: Sequence[str]) -> NoReturn:
        places = [action.dest for action in self._actions if not action.option_strings]
        if "client" in places:
            count = _ENOUGH_CAPTURES + len(surplus)
            raise UsageError(f"{count} captures, {surplus[0]} is one too many: {_MORE_CAPTURES}")
        raise UsageError(f"{surplus[0]}: {self.prog} takes options only, no files (see {self.prog} --help)")

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as problem:
            if not action.option_strings:
                raise
            value = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
            value = value or "|".join(map(str, action.choices or ()))
            option = action.option_strings[-1]
            missing = "two values" if action.nargs == 2 else "a value"
            raise UsageError(f"{option} needs {missing}: {option} {value} (see {self.prog} --help)") from problem

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(map(str, action.choices or ()))
        wrong = [one for one in (value if isinstance(value, list) else [value]) if choices and one not in choices]
        if wrong:
            name = action.option_strings[-1] if action.option_strings else action.dest
            raise UsageError(f"{name} {wrong[0]}: not one of {', '.join(choices)}{meant(str(wrong[0]), choices)}")


def meant(word: str, known: Iterable[str]) -> str:
    """``; did you mean WORD?``, or nothing."""
    names = {name.lower(): name for name in known}
    import difflib  # noqa: PLC0415  (only slips need it)

    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=_CLOSE)
    return f"; did you mean {names[near[0]]}?" if near else ""
