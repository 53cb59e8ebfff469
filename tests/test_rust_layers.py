"""The Rust crate's modules import one way, in the order in which native/README.md lists them."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[1] / "native"
SOURCES = NATIVE / "src"
_TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\(\w+\))?\s+)?mod\s+(\w+);")
_TEST_BLOCK = re.compile(r"#\[cfg\(test\)\][^;{]*\{")
_PATH = re.compile(r"(?<![\w:])(crate|super(?:::super)*)::(\w+|\{[^;]*;)")
_INNER = re.compile(r"::\{[^{}]*\}")


def _without_tests(text: str) -> str:
    """Rust source without comments and without what is compiled for tests only."""
    text = _TEST_MODULE.sub("", re.sub(r"//.*", "", text))
    while found := _TEST_BLOCK.search(text):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[: found.start()] + text[end:]
    return text


def _imports(text: str, level: int) -> set[str]:
    """Top-level modules that code names by `crate::`, or by `super::` from a file so many levels below the root."""
    found: set[str] = set()
    for root, names in _PATH.findall(text):
        if root == "crate" or root.count("super") == level:
            while names != (names := _INNER.sub("", names)):
                pass
            found |= {name.split(":")[0].strip(" \n{};") for name in names.split(",")}
    return found


def _graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """What each top-level module imports of the others; a file below a module's folder is part of the module."""
    tests = {
        str(Path(name).with_suffix("") / module) if Path(name).stem != "lib" else module
        for name, text in sources.items()
        for module in _TEST_MODULE.findall(text)
    }
    modules = {Path(name).parts[0].removesuffix(".rs") for name in sources} - {"lib"} - tests
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for name, text in sources.items():
        path = Path(name).with_suffix("")
        if path.parts[0] in modules and str(path) not in tests:
            graph[path.parts[0]] |= _imports(_without_tests(text), len(path.parts)) & modules - {path.parts[0]}
    return graph


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of a circle, in their order; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as problem:
        return list(problem.args[1])
    return []


def _crate() -> dict[str, set[str]]:
    return _graph({str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.rs")})


def test_no_circle_between_modules() -> None:
    """No module of the crate imports one that imports it, over however many others; tests do not count."""
    assert _circle(_crate()) == []


def test_modules_stand_in_the_order_of_the_readme() -> None:
    """native/README.md lists every module once, and a module imports only those above it."""
    drawing = (NATIVE / "README.md").read_text().split("```text\n")[1].split("```")[0]
    order = re.findall(r"^(\w+)  ", drawing, re.MULTILINE)
    graph = _crate()
    assert sorted(order) == sorted(graph)
    assert [(one, other) for one in order for other in graph[one] if order.index(one) <= order.index(other)] == []


@pytest.mark.parametrize(
    ("one", "other", "is_circle"),
    [
        ("use crate::b::Thing;", "use crate::a::{self, Other};", True),
        ("use crate::{b::{Thing, c}, c};", "fn f() -> crate::a::Other {}", True),
        ("use super::b;", "use super::{c, a};", True),
        ("use crate::b::Thing;", "// use crate::a;\nuse crate::c::a;", False),
        ("use crate::b::Thing;", "#[cfg(test)]\nmod tests { use crate::a; fn f() {} }", False),
        ("use crate::b::Thing;", "#[cfg(test)]\nmod tests;", False),
    ],
)
def test_circles_are_found(one: str, other: str, *, is_circle: bool) -> None:
    """However two modules name each other; not in a comment, nor in code for tests."""
    sources = {"lib.rs": "", "a.rs": one, "b.rs": other, "b/tests.rs": "use crate::a;", "c.rs": ""}
    if "mod tests;" not in other:
        del sources["b/tests.rs"]
    assert bool(_circle(_graph(sources))) == is_circle


def test_the_oldest_compiler_that_is_promised_takes_it() -> None:
    """No let chains, which came with Rust 1.88: Debian's compilers are older, and newer ones do not say so."""
    chain = re.compile(r"&&\s*let\b|\b(?:if|while)\s+let\b[^{;]*\n\s*&&")
    assert chain.search("if let Some(one) = this\n    && that\n{")
    assert chain.search("if this && let Some(one) = that {")
    assert [path.name for path in SOURCES.rglob("*.rs") if chain.search(_without_tests(path.read_text()))] == []


def test_files_below_a_module_are_part_of_it() -> None:
    """What a file in a module's folder imports the module imports; `super` there is the module itself."""
    sources = {
        "a.rs": "mod part;",
        "a/part.rs": "use super::b;\nuse super::super::c;",
        "b.rs": "",
        "c.rs": "use crate::a;",
    }
    assert _graph(sources) == {"a": {"c"}, "b": set(), "c": {"a"}}
