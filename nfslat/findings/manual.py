"""The catalogue, and the fields of what each finding rests on -> its manual, docs/findings.md."""

from __future__ import annotations

import inspect
import re
from typing import get_args, get_type_hints

from nfslat.findings import (
    client,
    connecting,
    database,
    failing,
    hanging,
    hosts,
    network,
    put_off,
    resent,
    server,
    slow_ops,
    tcp,
)
from nfslat.findings.catalogue import ROWS, Row
from nfslat.findings.diagnosis import Evidence
from nfslat.findings.witness import WARNED, Warned

_LAYERS = {
    "server": "the server",
    "network": "the network",
    "client": "the client",
    "either": "the server or the client",
}
_FIELD = re.compile(r"^    (\w+): [^#\n]*?(?:  # (.*))?$", re.MULTILINE)
_HEAD = """# Findings: what each means

Written by `scripts/generate` from nfslat/findings; edit it there. docs/method.md says how shares,
confidence and the verdict come about.

| finding | layer | |
|---|---|---|
"""
_CAPTURES = """
# Notes on the captures and their clocks

What makes the captures a poor witness, the gravest first. One that is a warning is among the findings.
"""


def manual() -> str:
    """Markdown, an anchor a finding."""
    table = "".join(f"| [`{one.code}`](#{one.code}) | {one.layer} | {one.title} |\n" for one in ROWS)
    return _HEAD + table + "".join(map(_page, ROWS)) + _CAPTURES + "".join(map(_warned, WARNED))


def evidence_of(one: Row) -> list[type[Evidence]]:
    """Kinds of evidence that a finding may rest on: those whose docstring names it; all waits for TCP share one."""
    kinds = [
        kind
        for module in (
            server,
            slow_ops,
            network,
            tcp,
            connecting,
            hosts,
            hanging,
            client,
            resent,
            database,
            put_off,
            failing,
        )
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Evidence) and kind.__module__ == module.__name__
    ]
    own = [kind for kind in kinds if re.search(rf"\b{one.code}\b(?!-)", inspect.getdoc(kind) or "")]
    is_wait = bool(one.causes) and all(kind.__module__ == tcp.__name__ for kind in own)
    return [tcp.Waits, *own] if is_wait else own


def _page(one: Row) -> str:
    body = "".join(f"**{title}.** {text}\n\n" for title, text in one.answers)
    knob = f"Its advice is about {one.knob}." if one.knob else "It has no advice of its own."
    least = f"It can be the cause in a verdict from {one.least * 100:.0f} % of the mean on."
    figures = [line for kind in evidence_of(one) for line in _figures(kind)]
    listed = "\n".join(dict.fromkeys(figures))
    head = f"\n## {one.code}\n\n{one.title}: {_LAYERS[one.layer]}.\n\n"
    return f"{head}{body}{knob} {least}\n\nEvidence in the JSON:\n\n{listed}\n"


def _warned(one: Warned) -> str:
    return f"\n## {one.code}\n\n{one.title}.\n\n**What it costs.** {one.costs}\n\n**What to do.** {one.do}\n"


def _figures(kind: type[Evidence]) -> list[str]:
    said = {name: words for base in reversed(kind.__mro__) for name, words in _comments(base).items()}
    lines = []
    hints = get_type_hints(kind)
    for name in kind.__struct_fields__:
        if inlined := [hint for hint in get_args(hints[name]) if isinstance(hint, type) and issubclass(hint, Evidence)]:
            lines += [line for inner in inlined if inner is not Evidence for line in _figures(inner)]
            continue
        more = " (where it is known)" if name in kind.where_known() else ""
        lines.append(f"- `{name}`{f': {said[name]}' if said.get(name) else ''}{more}")
    return lines


def _comments(kind: type) -> dict[str, str]:
    if not issubclass(kind, Evidence) or kind is Evidence:
        return {}
    return {name: words or "" for name, words in _FIELD.findall(inspect.getsource(kind))}
