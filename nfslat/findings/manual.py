"""The catalogue, and the fields of what each finding rests on -> its manual, docs/findings.md."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from typing import get_args, get_type_hints

from nfslat import findings
from nfslat.findings import tcp
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
_CERTAIN = "Certain, where else it is likely"
_HEAD = """# Findings: what each means

Written by `scripts/generate` from nfslat/findings; edit it there. [method.md](method.md#findings-and-verdict) says how
shares and the verdict come about, [how_sure.md](how_sure.md) what certain and likely mean. A figure of the
evidence with a `?` is in the JSON where it is known.
"""
_CAPTURES = """
# Notes on the captures and their clocks

What makes the captures a poor witness, the gravest first. One that is a warning is among the findings.
"""


def manual() -> str:
    """Markdown, an anchor a finding."""
    places: dict[str, str] = {}
    pages = "".join(_page(one, places) for one in ROWS)
    return _HEAD + "".join(map(_listed, _LAYERS)) + pages + _CAPTURES + "".join(map(_warned, WARNED))


def _listed(layer: str) -> str:
    """The findings of a layer, by their titles."""
    rows = [f"- [`{one.code}`](#{one.code}): {one.title}\n" for one in ROWS if one.layer == layer]
    return f"\nOf {_LAYERS[layer]}:\n\n{''.join(rows)}"


def evidence_of(one: Row) -> list[type[Evidence]]:
    """Kinds of evidence that a finding may rest on: those whose docstring names it; all waits for TCP share one."""
    modules = [
        import_module(f"{findings.__name__}.{module.name}") for module in pkgutil.iter_modules(findings.__path__)
    ]
    kinds = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Evidence) and kind.__module__ == module.__name__
    ]
    own = [kind for kind in kinds if re.search(rf"\b{one.code}\b(?!-)", inspect.getdoc(kind) or "")]
    is_wait = bool(one.causes) and all(kind.__module__ == tcp.__name__ for kind in own)
    return [tcp.Waits, *own] if is_wait else own


def _page(one: Row, places: dict[str, str]) -> str:
    """The section on a finding; `places` has the finding that explains a figure of evidence, which grows."""
    certain = dict(one.answers)[_CERTAIN]
    answers = [(title, text) for title, text in one.answers if title != _CERTAIN or certain != "Never."]
    body = "".join(f"**{'Certain' if title == _CERTAIN else title}.** {text}\n\n" for title, text in answers)
    least = f"It is about {_LAYERS[one.layer]}, and can lead a verdict from {one.least * 100:.0f} % of the mean on"
    sure = ", but is never certain" if certain == "Never." else ""
    knob = f" Its advice is about {one.knob}." if one.knob else ""
    figures = dict.fromkeys(line for kind in evidence_of(one) for line in _figures(kind))
    listed = "".join(f"{line}\n" for line in figures if places.setdefault(line, one.code) == one.code)
    for place in dict.fromkeys(places[line] for line in figures if places[line] != one.code):
        names = ", ".join(line[2:].partition(":")[0] for line in figures if places[line] == place)
        listed += f"- as of [{place}](#{place}): {names}\n"
    head = f"\n## {one.code}\n\n{one.title}. {least}{sure}.{knob}\n\n"
    return f"{head}{body}Evidence in the JSON:\n\n{listed}"


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
        mark = "?" if name in kind.where_known() else ""
        lines.append(f"- `{name}`{mark}{f': {said[name]}' if said.get(name) else ''}")
    return lines


def _comments(kind: type) -> dict[str, str]:
    if not issubclass(kind, Evidence) or kind is Evidence:
        return {}
    return {name: words or "" for name, words in _FIELD.findall(inspect.getsource(kind))}
