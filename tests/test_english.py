"""What is printed has none of the words that banned_words.md lists; docs/glossary.md has those that it uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BANNED_WORDS = ROOT / "tests" / "banned_words.md"
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"])
MODULES = sorted(ROOT.glob("nfslat/**/*.py"))


def _banned() -> list[str]:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", BANNED_WORDS.read_text(), re.MULTILINE)
    return [row for row in rows if row not in ("not", "---")]


def _texts(module: Path) -> Iterator[str]:
    """Strings of a module that may be printed: none of its docstrings, placeholders as ``{}``."""
    source = module.read_text()
    if not _MAYBE.search(source.lower()):
        return  # to parse all modules takes as long as a hundred tests
    hidden: set[int] = set()
    for node in ast.walk(ast.parse(source)):  # what holds a text comes before it
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
            hidden.add(id(node.body[0].value))  # type: ignore[attr-defined]
        if isinstance(node, ast.JoinedStr):
            hidden |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.value


def _found(text: str) -> list[str]:
    return _ANY.findall(" ".join(text.split()).lower())


BANNED = _banned()
_ANY = re.compile(rf"\b(?:{'|'.join(map(re.escape, BANNED))})\b")
# The same in source code, where a text may go on in the next literal.
_MAYBE = re.compile("|".join(r"(?:\W|\\n|[rbf](?=[\"']))+".join(words.split()) for words in BANNED))


def test_the_table_bans_words() -> None:
    """The table is read: an empty one would ban nothing."""
    assert len(BANNED) >= 15
    assert _found("Packets that are\nunder way.") == ["under way"]
    assert _MAYBE.search('"packets under"\n    f" way"')


def test_no_text_has_a_banned_word() -> None:
    """Nothing that a module may print has words that the table bans."""
    found = ((module, words, text) for module in MODULES for text in _texts(module) for words in _found(text))
    assert list(found) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_page_has_a_banned_word(page: Path) -> None:
    """Nor has a page of the manual."""
    assert _found(page.read_text()) == []
