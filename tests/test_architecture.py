"""Data flows one way: who may import whom."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nfslat"
_BASE = {"tables", "constants", "errors", "columns", "instants"}
# Package or module -> what of nfslat it may import besides the base and its own package: modules, or whole packages.
_ALLOWED: dict[str, set[str]] = {
    "tables": set(),
    "constants": set(),
    "errors": set(),
    "columns": set(),
    "instants": set(),
    "messages": set(),
    "details": set(),
    "decode": {"arrow", "messages", "pair", "details", "_native"},
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
    "resends": {"decode.decoded", "details", "decompose"},
    "decompose": set(),
    "stalls": {"details"},
    "scales": {"details"},
    "held": set(),
    "charges": {"decode.decoded", "decompose", "details", "held", "resends", "scales", "stalls"},
    "reconnects": {"details"},
    "above": {"charges.claims"},
    "directions": {"decode.decoded", "details", "select"},
    "transport": {"decode.decoded", "details", "select"},
    "inflight": {"details", "_native"},
    "tcp": {
        "decode.capture", "decode.engine", "decode.native", "decode.tools", "details", "scales", "stats", "stalls",
        "held", "clock", "theta", "evidence.sqlnet_trace", "evidence.read", "report.text_layout", "report.json",
        "workspace", "_native",
    },
    "diff": {
        "charges.causes",
        "arguments", "known", "op_columns", "pipeline", "report.json", "report.model", "report.text_layout", "results",
        "select", "summarize", "workspace",
    },
    "payload": set(),
    "payload_text": {"payload", "report.text_layout"},
    "payload_command": {"payload", "payload_text"},
    "xid_gaps": {"decode.decoded", "select"},
    "results": {
        "charges.analysis", "decode.capture", "decode.decoded", "match", "select", "clock", "decompose", "directions",
        "resends", "inflight.analysis", "inflight.wide", "xid_gaps",
    },
    "pipeline": {
        "decode", "directions", "match", "clock", "theta", "settle", "overlap", "select", "decompose", "results",
    },
    "names": {"clock", "details", "results", "select"},
    "evidence": set(),
    "tune": {"evidence", "report.text_layout"},
    "known": {"results", "select", "evidence.records"},
    "outside": {"decode.capture", "evidence", "known", "results", "inflight.little", "tune.form"},
    "audit": {"decode.decoded", "inflight.slots", "overlap", "results", "select", "report.model"},
    "findings": {"above", "charges.causes", "decompose", "evidence.records", "tune.advice", "report.model"},
    "stats": {"report.model"},
    "stack": {"known", "results", "summarize_inflight", "report.model"},
    "whatif": {"inflight", "results", "select", "report.model"},
    "summarize_tcp": {"connections", "results", "transport", "report.model"},
    "summarize_inflight": {"inflight", "results", "select", "report.model"},
    "summarize_matched": {"decompose", "results", "stats", "summarize_inflight", "report.model"},
    "summarize_charges": {"charges", "findings.facts", "results", "stalls", "stats", "report.model"},
    "summarize_above": {"above", "charges", "findings.facts", "reconnects", "results"},
    "summarize_findings": {
        "findings", "inflight.little", "known", "reconnects", "results", "summarize_above", "summarize_charges",
        "summarize_matched", "report.model",
    },
    "summarize": {
        "audit", "clock", "decompose", "findings", "known", "results", "select", "stack", "stats", "summarize_findings",
        "summarize_charges", "summarize_inflight", "summarize_matched", "summarize_tcp", "whatif", "report.model",
    },
    "arrow": set(),
    "op_columns": {"charges.causes", "decompose", "known", "results"},
    "op_table": {"arrow", "known", "op_columns", "results"},
    "summarize_pivots": {
        "op_columns", "results", "select", "stats", "summarize_inflight", "report.model", "report.pivots",
    },
    "summarize_intervals": {"results", "select", "summarize_pivots", "report.pivots"},
    "export": {"known", "op_columns", "op_table", "results"},
    "parquet": {"arrow", "known", "op_columns", "op_table", "results"},
    "missed": {"op_columns", "connections", "results"},
    "report": set(),  # renderers get the model and nothing else
    "numbers": {"evidence.records", "findings", "known", "stack", "tune.form", "report"},
    "pictures": {
        "charges.causes", "clock", "decompose", "details", "inflight.levels", "results", "show_filters",
        "show_timeline", "stats", "summarize_matched", "theta", "names.paths", "report.model", "report.pictures",
    },
    "summarize_pictures": {
        "names.paths", "pictures", "results", "summarize_matched", "report.model", "report.pictures",
    },
    "show": {
        "decode", "names.paths", "names.text", "results", "select", "stats", "report.text_layout", "show_dissect",
        "show_filters", "show_timeline",
    },
    "show_filters": {"show_timeline"},
    "show_dissect": {"decode", "show_filters"},
    "show_timeline": {"decode.capture", "results", "report.text_layout", "decompose", "details"},
    "perfetto": {"clock", "decompose", "op_columns", "report.model", "results", "select"},
    "extract": {
        "anonymous", "api", "arguments", "decode", "details", "output", "results", "select", "show", "show_timeline",
    },
    "workspace": {"decode"},
    "output": set(),
    "arguments": {"select"},
    "anonymous": {
        "details", "names.paths", "names.text", "report.model", "report.pictures", "results",
    },
    "anonymous_evidence": {"anonymous", "evidence.records", "known"},
    "api": {
        "anonymous", "anonymous_evidence", "export", "known", "missed", "names.files_csv", "names.paths", "names.text",
        "op_table", "outside", "parquet", "decode", "decompose", "extract.write",
        "perfetto", "pictures", "pipeline", "report", "results", "select", "show", "summarize", "summarize_intervals",
        "summarize_pictures", "summarize_pivots", "whatif", "workspace",
    },
    "fleet": {
        "_native", "api", "arguments", "decode", "details", "findings.client", "findings.words", "inflight", "known",
        "names", "outside", "output", "overlap", "pipeline", "report", "results", "select", "summarize_inflight",
        "summarize_matched", "summarize_pivots", "xid_gaps",
    },
    "field": set(),
    "capture_command": {"arguments", "field", "report_command"},
    "report_command": {"api", "arrow", "arguments", "known", "names.text", "outside", "output", "whatif"},
    "show_command": {"api", "arguments", "show"},
    "stack_command": {"arguments", "evidence.records", "evidence.snapshot", "numbers"},
    "help": {"arguments", "report_command"},
    "cli": {
        "arguments", "capture_command", "diff.command", "extract.command", "fleet.command", "help", "output",
        "payload_command", "report_command", "show_command", "stack_command", "tcp.command", "tune.command",
    },
}  # fmt: skip
# Where the figures of a text come from in a package of many analyses: dataclasses, nothing that reads or works out.
_TEXTS_OF_TCP = {
    "report.text_layout", "stalls", "tcp.bursts", "tcp.carried", "tcp.floors", "tcp.limits", "tcp.model", "tcp.rounds",
    "tcp.setup", "tcp.sizes", "tcp.sqlnet", "tcp.throughput", "tcp.turns", "tcp.waits", "tcp.walk", "tcp.windows",
}  # fmt: skip
_NAME = re.compile(r"nfslat\.([a-z_.]+)")


def _is_module(name: str) -> bool:
    return (PACKAGE / name.replace(".", "/")).with_suffix(".py").exists()


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        # One form only, so that nothing goes past this test.
        assert not (isinstance(node, ast.Import) and any(name.name.startswith("nfslat") for name in node.names))
        assert not (isinstance(node, ast.ImportFrom) and node.level)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "nfslat":
            rest = node.module.partition(".")[2]
            # What is imported from a package is a module of it.
            found |= {f"{rest}.{name.name}" if (PACKAGE / rest).is_dir() else rest for name in node.names}
        # So is what is imported by its name, when its turn comes.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := _NAME.fullmatch(node.value)):
            found |= {named[1]} if _is_module(named[1]) else set()
    return {name.strip(".") for name in found}


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE).with_suffix(""))
)
def test_a_module_imports_only_what_stands_in_front_of_it(path: Path) -> None:
    """No stage knows a later one, and no renderer knows a stage."""
    own = path.relative_to(PACKAGE).with_suffix("").parts
    if own[-1] == "__init__":
        assert _imports(path) == ({"api", "errors"} if len(own) == 1 else set())
        return
    if own[-1] == "__main__":
        assert _imports(path) == {"cli"}
        return
    allowed = _BASE | _ALLOWED[own[0]] | {own[0], "__version__"}
    for name in _imports(path):
        assert name in allowed or name.split(".")[0] in allowed, f"{'/'.join(own)} imports {name}"


def test_commands_that_are_modules_are_seen() -> None:
    """They are imported by name, and count like any other import."""
    assert {"tcp.command", "diff.command", "payload_command", "tune.command"} <= _imports(PACKAGE / "cli.py")


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("tcp/text*.py")), ids=lambda path: path.stem)
def test_texts_about_tcp_print_what_others_found(path: Path) -> None:
    """They import dataclasses and each other: nothing that reads packets, compares captures, or makes a report."""
    texts = {f"tcp.{one.stem}" for one in PACKAGE.glob("tcp/text*.py")}
    assert _imports(path) <= _TEXTS_OF_TCP | texts


def test_the_table_is_about_modules_that_there_are() -> None:
    """A row for a module that is gone would allow what nobody looks at."""
    named = set(_ALLOWED).union(_TEXTS_OF_TCP, *_ALLOWED.values()) - {"_native"}
    paths = [PACKAGE / name.replace(".", "/") for name in named]
    assert [path.name for path in paths if not path.is_dir() and not path.with_suffix(".py").exists()] == []
