"""Data flows one way: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nfslat"
_BASE = {"tables", "constants", "errors", "columns"}
# Package or module -> what of nfslat it may import besides the base and its own package.
_ALLOWED: dict[str, set[str]] = {
    "tables": set(),
    "constants": set(),
    "errors": set(),
    "columns": set(),
    "messages": set(),
    "details": set(),
    "decode": {"messages", "pair", "details", "_native"},
    "pair": {"messages"},
    "kernels": {"_native"},
    "overlap": {"results"},  # for its types only
    "candidates": {"kernels"},
    "shared_ops": {"candidates", "kernels"},
    "sequences": {"details"},
    "connections": {"shared_ops", "sequences", "details"},
    "match": {"candidates", "connections", "details", "overlap", "kernels"},
    "settle": {"candidates", "kernels", "match", "shared_ops"},
    "select": set(),
    "envelope": set(),
    "runs": {"envelope"},
    "clock": {"envelope"},
    "breaks": {"clock", "envelope", "runs"},
    "theta": {"breaks", "clock", "envelope", "runs"},
    "resends": {"decode", "details", "decompose"},
    "decompose": set(),
    "stats": {"report.model"},
    "results": {"decode", "match", "select", "clock", "decompose", "directions", "resends", "inflight"},
    "pipeline": {
        "decode", "directions", "match", "clock", "theta", "settle", "overlap", "select", "decompose", "results",
    },
    "findings": {"report.model"},
    "stack": {"results", "select", "report.model"},
    "directions": {"decode", "details", "select"},
    "audit": {"decode", "directions", "inflight", "overlap", "results", "select", "report.model"},
    "inflight": {"details"},
    "evidence": set(),
    "tune": {"evidence"},
    "transport": {"decode", "details", "select"},
    "summarize_tcp": {"connections", "results", "transport", "report.model", "report"},
    "summarize_inflight": {"inflight", "results", "report.model", "report"},
    "summarize": {
        "audit", "clock", "stack", "stats", "findings", "results", "select", "decompose", "summarize_tcp", "summarize_inflight",
        "report.model", "report",
    },
    "export": {"decompose", "results"},
    "missed": {"export", "connections", "results"},
    "report": set(),  # renderers get the model and nothing else
    "show": {"decode", "results", "select", "report", "decompose", "show_dissect", "show_timeline"},
    "show_dissect": {"decode"},
    "show_timeline": {"decode", "results", "select", "report", "decompose", "details", "overlap"},
    "workspace": {"decode"},
    "output": set(),
    "cli": {"output", "pipeline", "export", "missed", "report", "stack", "summarize", "select", "workspace", "show", "tune"},
}  # fmt: skip


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        # One form only, so that nothing goes past this test.
        assert not (isinstance(node, ast.Import) and any(name.name.startswith("nfslat") for name in node.names))
        assert not (isinstance(node, ast.ImportFrom) and node.level)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "nfslat":
            rest = node.module.partition(".")[2]
            found |= {f"{rest}.{name.name}" if rest in ("", "report") else rest for name in node.names}
    return {name.strip(".") for name in found}


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE).with_suffix(""))
)
def test_a_module_imports_only_what_stands_in_front_of_it(path: Path) -> None:
    """No stage knows a later one, and no renderer knows a stage."""
    own = path.relative_to(PACKAGE).with_suffix("").parts
    if own[-1] == "__init__":
        assert _imports(path) == set()
        return
    if own[-1] == "__main__":
        assert _imports(path) == {"cli"}
        return
    allowed = _BASE | _ALLOWED[own[0]] | {own[0], "__version__"}
    for name in _imports(path):
        assert name in allowed or name.split(".")[0] in allowed, f"{'/'.join(own)} imports {name}"
