#!/usr/bin/env python3
"""Counts words in `nfslat/` that say nothing of what they stand for, and fails where there are more than before.

usage: words.py [--names] [--lower]
    --names   lists them, a line each
    --lower   sets the ceilings below to today's counts, where these are lower
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SHORT = "docstrings of four words or fewer"
SUBJECTLESS = "docstrings without a subject"
PARTICIPLE = "classes named by a participle"
NOUNLESS = "constants without a noun"
BINDING = "bindings of one, found, told, said, given"
CEILINGS = {
    SHORT: 255,
    SUBJECTLESS: 394,
    PARTICIPLE: 56,
    NOUNLESS: 362,
    BINDING: 2318,
}
SUBJECTLESS_START = re.compile(r"(Of|Those|That|All)\b")
PARTICIPLES = frozenset(
    """
    asked begun counted cut done drawn found gapped given gone heard held joined judged kept known left listed made met
    moved named noted paired put ran read said seen sent set shown stated taken told traced tried wanted warned watched
    """.split()
)
NOUNLESS_WORDS = frozenset(
    """
    a ahead alike all alone also any apart as at behind beside best better between both bulk by clear clearly close
    closely dense early enough ever every far few fewer fewest first full half large largest last late later latest
    least light little long longer longest many more most mostly much near nearer nearly never none not of often on
    once only open other others over quick quiet rare rarely same seldom several short shortest slow slower slowest so
    small smaller smallest some soon soonest sparse sure surely to together too twice very weak well wide wider widest
    within worst
    """.split()
)
UNITS = frozenset("gib hz kib mb mib ms ns ppm px s us".split())


class Word(NamedTuple):
    """A badly chosen word: which kind of `CEILINGS`, in which line, and what stands there."""

    kind: str
    line: int
    text: str


def words_in(source: str) -> Iterator[Word]:
    """The words in the text of a module that its readers learn nothing from."""
    tree = ast.parse(source)
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and target.id.isupper():
                parts = set(target.id.strip("_").lower().split("_"))
                if parts - UNITS and not parts - UNITS - NOUNLESS_WORDS - PARTICIPLES:
                    yield Word(NOUNLESS, target.lineno, target.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if docstring and len(docstring.split()) <= 4:
                yield Word(SHORT, node.lineno, docstring)
            if SUBJECTLESS_START.match(docstring):
                yield Word(SUBJECTLESS, node.lineno, docstring.split("\n")[0])
        if isinstance(node, ast.ClassDef):
            if node.name.strip("_").lower() in PARTICIPLES:
                yield Word(PARTICIPLE, node.lineno, node.name)
        elif (name := _bound_name(node)).strip("_") in ("one", "found", "told", "said", "given"):
            yield Word(BINDING, getattr(node, "lineno", 1), name)


def _bound_name(node: ast.AST) -> str:
    """The name that a node binds as a variable, field, parameter or function; empty where it binds none."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""


def places(package: Path = ROOT / "nfslat") -> dict[str, list[str]]:
    """File, line and text of the words of each kind in a package."""
    lists: dict[str, list[str]] = {kind: [] for kind in CEILINGS}
    for path in sorted(package.rglob("*.py")):
        for word in words_in(path.read_text(encoding="utf-8")):
            lists[word.kind].append(f"{path.relative_to(package.parent)}:{word.line}: {word.text}")
    return lists


def main(arguments: list[str]) -> int:
    """Exit status: 1 where there are more words of a kind than its ceiling allows."""
    if set(arguments) - {"--names", "--lower"}:
        sys.exit(__doc__)
    lists = places()
    for kind, ceiling in CEILINGS.items():
        count = len(lists[kind])
        note = ": too many" if count > ceiling else f": --lower sets the ceiling to {count}" if count < ceiling else ""
        listing = lists[kind] if "--names" in arguments else []
        sys.stdout.write("\n".join([*listing, f"{count} {kind}, at most {ceiling}{note}\n"]))
    if "--lower" in arguments:
        text = Path(__file__).read_text(encoding="utf-8")
        for name, (kind, ceiling) in zip(re.findall(r"\n    ([A-Z]+): \d", text), CEILINGS.items(), strict=True):
            text = re.sub(rf"(    {name}: )\d+,", rf"\g<1>{min(len(lists[kind]), ceiling)},", text)
        Path(__file__).write_text(text, encoding="utf-8")
    return int(any(len(lists[kind]) > ceiling for kind, ceiling in CEILINGS.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
