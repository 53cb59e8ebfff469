"""Report -> Markdown for a ticket: the verdict, its proof, what to do, and the tables, as GitHub and GitLab read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from nfslat.answer import model
from nfslat.report.blocks import Advice, Block, Cell, Command, Item, Prose, RankedFinding, Table, Title, cell_text
from nfslat.report.sections.all import blocks
from nfslat.report.sections.inferred import inferred_words
from nfslat.report.tables import tabulate
from nfslat.report.text_layout import count_of, plain

_ESCAPED = re.compile(r"([\\`*_\[\]<>#|~])")
_NUMBER = re.compile(r"[-+\d.,]* ?%?|cannot tell")
_SHOWN = (
    *("notes", "findings", "handover", "hangs", "outcomes", "phases", "pairs", "brief by op", "brief parts"),
    *("brief stack", "brief pivots", "brief raw", "slowest", "brief captures"),
)


def render(report: model.Report) -> str:
    """The report as text; nothing in it is taken for markup that the report did not mean."""
    return "\n\n".join([*_answer(report), *paragraphs(blocks(report, *_SHOWN)), _made_by(report)]) + "\n"


def _answer(report: model.Report) -> list[str]:
    verdict, matched = report.verdict, report.matched
    if "capture" in report.captures:
        capture = report.captures["capture"]
        ops = sum(row.count for row in report.raw["capture"])
        return [
            "## NFS latency, one capture" if verdict is None else f"## {_text(verdict.text)}",
            f"{count_of(ops, 'op')} in {_code(capture.path)}. One capture alone does not tell client, network and "
            "server apart.",
        ]
    if verdict is None or matched is None or matched.total is None or matched.slowest is None:
        return ["## NFS latency", "**No op is in both captures: nothing can be said about where the time goes.**"]
    rows: list[list[Cell]] = [
        [name, float(row.client_ms.mean), float(row.network_ms.mean), float(row.server_ms.mean), row.count]
        for name, row in (("mean", matched.total), ("slowest 1 %", matched.slowest))
    ]
    return [
        f"## {_text(verdict.text)}",
        f"**Confidence: {verdict.confidence}**: {_text('; '.join(verdict.reasons) or 'no reason given')}.",
        *([] if verdict.next is None else [_next(verdict.next)]),
        _table(Table("ldddr", ["", "client SRT ms", "= network ms", "+ server ms", "ops"], rows)),
        *(["\n".join(f"- {_text(line)}" for line in verdict.proof)] if verdict.proof else []),
        *([_text(inferred_words(report.inferred))] if report.inferred is not None else []),
    ]


def _next(step: model.NextStep) -> str:
    """The measurement that would decide more."""
    return f"**Next**, {_text(step.where)}: {_code(step.command)} tells {_text(step.decides)}."


def for_ticket(report: model.Report) -> str:
    """The answer and the evidence for it alone, to be pasted; empty where there is none."""
    shown = paragraphs(blocks(report, "handover"))
    return "\n\n".join([*_answer(report)[:2], *shown, _made_by(report)]) + "\n" if shown else ""


def _made_by(report: model.Report) -> str:
    tool = report.nfslat
    return f"nfslat {tool.version}, engine {_text(tool.engine)}: {_code(tool.command)}"


def paragraphs(shown: Iterable[Block]) -> list[str]:
    """Blocks as paragraphs; entries of a list, and prose with nothing in between, make one."""
    found: list[str] = []
    for kind, group in groupby(shown, _kind):
        if kind == "entries":
            found.append("\n".join(map(_entry, group)))
        elif kind == "prose":
            found.append(" ".join(_text(block.text) for block in group if isinstance(block, Prose)))
        else:
            found += [paragraph for block in group for paragraph in _paragraphs(block)]
    return found


def _kind(block: Block) -> str:
    match block:
        case Item() | Command() | RankedFinding(number=0):
            return "entries"
        case Prose():
            return "prose"
    return "apart"


def _paragraphs(block: Block) -> Iterator[str]:
    match block:
        case Title(text):
            yield f"### {_text(text)}"
        case Table():
            yield _table(block)
        case RankedFinding(number, code, _, confidence, explains, text, advice, _):
            yield f"{number}. **{code}**, {confidence}: {_text(explains)}. {_text(text)}."
            yield from _advice(advice)


def _entry(block: Block) -> str:
    match block:
        case RankedFinding():
            return f"- {block.code}, {_text(block.explains)}: {_text(block.text)}."
        case Item(text, _, "accent"):
            return f"> **Note** {_text(text)}  "
        case Command(label, command, indent):
            named = f"{_text(label.strip())}: " if label.strip() else ""
            return f"{' ' * indent}- {named}{_code(command)}"
        case Item(text):
            return f"- {_text(text)}"
    return ""


def _advice(one: Advice) -> Iterator[str]:
    if one.knob and one.suggested:
        now = f" (now {one.now})" if one.now else ""
        yield f"Set {_code(one.knob)} to {_text(one.suggested)}{_text(now)}:"
        if one.how:
            yield "\n".join(["```sh", *(line.replace("```", "'''") for line in one.how), "```"])
    elif one.how or one.knob:
        yield f"Look at {_text('; '.join([*([one.knob] if one.knob else []), *one.how]))}."
    rest = (("takes effect", one.takes_effect), ("check", one.verify), ("risk", one.risk))
    if any(text for _, text in rest):
        yield "\n".join(f"- {name}: {_text(text)}" for name, text in rest if text)


def _table(one: Table) -> str:
    cells = [[_text("- " * getattr(cell, "depth", 0) + cell_text(cell)) for cell in row] for row in one.rows]
    columns = [[row[place] for row in cells] for place in range(len(one.headers))]
    align = ["right" if all(map(_NUMBER.fullmatch, column)) else "left" for column in columns]
    headers = [_text(header.replace("\n", " ")) for header in one.headers]
    return tabulate(cells, headers, tablefmt="pipe", disable_numparse=True, colalign=align)


def _text(text: str) -> str:
    """Text that means itself, in one line."""
    return _ESCAPED.sub(r"\\\1", "".join(ch if ch.isprintable() or ch == "\u00a0" else " " for ch in text))


def _code(text: object) -> str:
    """In the font of code; a fence that is longer than any in it."""
    shown = plain(str(text))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
