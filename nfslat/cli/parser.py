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
_CAPTURE = re.compile(r"\.(pcap|pcapng|cap|dmp|snoop|erf|parquet|tar)\d*(\.(gz|zst|lz4|bz2|xz))?$", re.IGNORECASE)
_HEAD_BYTES = 512
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


class Several(argparse.Action):
    """An option that is repeated for more values. What was its only form, all values behind one name, is read as well,
    up to the first that is a capture."""

    def __call__(self, _: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        if is_capture(values):
            raise UsageError(f"{option} {values}: a capture, or packed; give what scripts/snapshot.sh printed")
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), values])


class Parser(argparse.ArgumentParser):
    """One whose complaints are ``UsageError``."""

    def parse(self, arguments: Sequence[str], commands: Collection[str] = ()) -> argparse.Namespace:
        """The options; `commands` are words that may not stand where a capture does."""
        given = list(self._one_by_one(arguments))
        if not {"-h", "--help", "--help-all", "--version"} & set(given):
            self._refuse_unknown(given)
        # Options may stand between captures, too.
        found, surplus = self.parse_known_intermixed_args(given)
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
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            name = action.option_strings[-1] if action.option_strings else action.dest
            raise UsageError(f"{name} {value}: not one of {', '.join(choices)}{meant(str(value), choices)}")

    # --- Options of several values ---

    def _one_by_one(self, arguments: Sequence[str]) -> Iterator[str]:
        """``--name A B`` as ``--name=A --name=B``; values end at the next option or capture."""
        several = {name for action in self._actions if isinstance(action, Several) for name in action.option_strings}
        name, has_value = "", False
        rest = iter(arguments)
        for word in rest:
            is_option = len(word) > 1 and word.startswith("-")
            if name and not is_option and not (has_value and is_capture(word)):
                yield f"{name}={word}"
                has_value = True
                continue
            if name and not has_value:
                yield name  # without a value, which is told when it is read
            name, has_value = (word, False) if word in several else ("", False)
            if word == "--":
                yield word
                yield from rest
            elif not name:
                yield word
        if name and not has_value:
            yield name


def meant(word: str, known: Iterable[str]) -> str:
    """``; did you mean WORD?``, or nothing."""
    names = {name.lower(): name for name in known}
    import difflib  # noqa: PLC0415  (only slips need it)

    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=_CLOSE)
    return f"; did you mean {names[near[0]]}?" if near else ""


def is_capture(word: str) -> bool:
    """Is it a capture, rather than a text? By what is in the file, else by its name."""
    if word == "-":
        return True
    try:
        with open(word, "rb") if os.path.isfile(word) else open(os.devnull, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        head = b""
    if head:
        return b"\0" in head or not head.isascii()
    return any(_CAPTURE.search(part.rstrip("*?")) for part in word.split(","))
