"""Data flows one way: a room imports only rooms above it (docs/architecture.md)."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

from rooms import MODULES, PACKAGE, ROOMS, imports

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def test_a_room_imports_only_rooms_above_it() -> None:
    """No stage knows a later one, and what prints knows the answer alone."""
    inside = [name for name in MODULES if name not in ("__init__", "__main__")]
    assert {name.split(".")[0] for name in inside} == set(ROOMS)
    rank = {room: number for number, room in enumerate(ROOMS)}
    seen = {(name, other) for name in inside for other in imports(name)}
    assert [f"{a} -> {b}" for a, b in sorted(seen) if rank[a.split(".")[0]] < rank[b.split(".")[0]]] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Late imports count, too."""
    graphlib.TopologicalSorter({name: imports(name) for name in MODULES if name != "__init__"}).prepare()


def test_the_document_has_the_rooms_in_order() -> None:
    """docs/architecture.md has a section for each room, in the order in which they may import each other."""
    assert [name.rstrip("/") for name in re.findall(r"^### `(.+)`$", ARCHITECTURE, re.MULTILINE)] == ROOMS


def test_nothing_is_decided_by_the_english_of_an_exception() -> None:
    """Its type and its fields say what it is; its text is for people."""
    found = []
    for name, path in MODULES.items():
        text = path.read_text()
        # To parse all modules takes as long as a hundred tests.
        for handler in ast.walk(ast.parse(text)) if "str(" in text else ():
            if not (isinstance(handler, ast.ExceptHandler) and handler.name):
                continue
            wanted = f"str({handler.name})"
            for node in ast.walk(handler):
                asked = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
                if isinstance(node, ast.Attribute) and node.attr in (
                    "startswith",
                    "endswith",
                    "replace",
                    "removeprefix",
                ):
                    asked.append(node.value)
                found += [f"{name}:{node.lineno}" for one in asked if ast.unparse(one) == wanted]
    assert found == []


def test_modules_that_the_document_names_are_there() -> None:
    """Files in docs/architecture.md are given from the package, or from the root."""
    named = set(re.findall(r"`([\w/]+\.(?:py|md))`", ARCHITECTURE))
    assert {
        name for name in named if "/" in name and not ((PACKAGE / name).exists() or (ROOT / name).exists())
    } == set()


def test_what_prints_reads_the_answer_alone() -> None:
    """report/ knows the answer, the words of the model and of both catalogues, and no table, stage or evidence."""
    catalogues = {"findings.catalogue", "findings.witness"}
    allowed = {"answer", "report", "errors", "confined", "model.causes", "model.record", "model.units", *catalogues}
    read = {other for name in MODULES if name.split(".")[0] == "report" for other in imports(name)}
    modules = {other for other in read if MODULES[other].name != "__init__.py"}
    assert {other for other in modules if not {other, other.split(".")[0]} & allowed} == set()


def test_the_packages_that_the_project_was_asked_for_are_used() -> None:
    """nfslat is built on numpy, pyshark and tabulate by its users' wish: whatever is rewritten, these stay."""
    text = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert [
        name for name in ("numpy", "pyshark", "tabulate") if not re.search(rf"(?:import|from) {name}\b", text)
    ] == []
