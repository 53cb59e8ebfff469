"""Data flows one way: a room imports only rooms above it (docs/architecture.md)."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "nfslat"
# From the top: what stands in a line may import what stands above it, and its own room.
ROOMS = """
    errors model kernels clock match select decompose decode wire inflight results answer names evidence findings
    figures pipeline report export packets tcp diff api fleet field sizes cli
""".split()
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def _imports(name: str) -> set[str]:
    """Modules that `name` imports, at once or late, or names in a string as cli.main does its commands."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        # One form only, so that nothing goes past this test.
        assert not (isinstance(node, ast.Import) and any(alias.name.startswith("nfslat") for alias in node.names))
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "nfslat"):
            assert not node.level
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("nfslat."):
            found.add(node.value)
    return {module for module in (text.removeprefix("nfslat.") for text in found) if module in MODULES} - {name}


def test_a_room_imports_only_rooms_above_it() -> None:
    """No stage knows a later one, and what prints knows the answer alone."""
    inside = [name for name in MODULES if name not in ("__init__", "__main__")]
    assert {name.split(".")[0] for name in inside} == set(ROOMS)
    rank = {room: number for number, room in enumerate(ROOMS)}
    seen = {(name, other) for name in inside for other in _imports(name)}
    assert [f"{a} -> {b}" for a, b in sorted(seen) if rank[a.split(".")[0]] < rank[b.split(".")[0]]] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Late imports count, too."""
    graphlib.TopologicalSorter({name: _imports(name) for name in MODULES if name != "__init__"}).prepare()


def test_nothing_is_decided_by_the_english_of_an_exception() -> None:
    """Its type and its fields say what it is; its text is for people."""
    found = []
    for name, path in MODULES.items():
        for handler in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(handler, ast.ExceptHandler) and handler.name):
                continue
            text = f"str({handler.name})"
            for node in ast.walk(handler):
                asked = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
                if isinstance(node, ast.Attribute) and node.attr in (
                    "startswith",
                    "endswith",
                    "replace",
                    "removeprefix",
                ):
                    asked.append(node.value)
                found += [f"{name}:{node.lineno}" for one in asked if ast.unparse(one) == text]
    assert found == []
