"""Report -> Markdown for a ticket: the verdict, its proof, what to do, and the tables, as GitHub and GitLab read it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabulate import tabulate

from nfslat.answer import model
from nfslat.report.blocks import Cell
from nfslat.report.sections.findings import LAYERS, explains, not_found
from nfslat.report.sections.tables import op_label
from nfslat.report.text_layout import count, count_of, ms, percent, plain

_ESCAPED = re.compile(r"([\\`*_\[\]<>#|~])")
_NUMBER = re.compile(r"[-+\d.,]* ?%?|cannot tell")
_PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")
_MOST_ROWS = 20


def render(report: model.Report) -> str:
    """The report as text; nothing in it is taken for markup that the report did not mean."""
    blocks = [*_answer(report), *_notes(report)]
    if report.matched is not None and report.matched.total is not None:
        blocks += [*_findings(report), *_by_op(report.matched), *_parts(report.matched)]
    blocks += [*_stack(report.stack), *_pivots(report), *_raw(report), *_slowest(report.pictures), *_captures(report)]
    tool = report.nfslat
    blocks.append(f"nfslat {tool.version}, engine {_text(tool.engine)}: {_code(tool.command)}")
    return "\n\n".join(blocks) + "\n"


def _answer(report: model.Report) -> list[str]:
    verdict, matched = report.verdict, report.matched
    if "capture" in report.captures:
        capture = report.captures["capture"]
        ops = sum(row.count for row in report.raw["capture"])
        return [
            "## NFS latency, one capture",
            f"{count_of(ops, 'op')} in {_code(capture.path)}. One capture alone does not tell client, network and "
            "server apart.",
        ]
    if verdict is None or matched is None or matched.total is None or matched.slowest is None:
        return ["## NFS latency", "**No op is in both captures: nothing can be said about where the time goes.**"]
    rows = [
        [name, ms(row.client_ms.mean), ms(row.network_ms.mean), ms(row.server_ms.mean), count(row.count)]
        for name, row in (("mean", matched.total), ("slowest 1 %", matched.slowest))
    ]
    return [
        f"## {_text(verdict.text)}",
        f"**Confidence: {verdict.confidence}**: {_text('; '.join(verdict.reasons) or 'no reason given')}.",
        _table(["", "client SRT ms", "= network ms", "+ server ms", "ops"], rows),
        *(["\n".join(f"- {_text(line)}" for line in verdict.proof)] if verdict.proof else []),
    ]


def _notes(report: model.Report) -> list[str]:
    return ["\n".join(f"> **Note** {_text(note)}  " for note in report.notes)] if report.notes else []


def _findings(report: model.Report) -> list[str]:
    blocks = ["### What explains the time"]
    causes = [one for one in report.findings if one.layer in LAYERS]
    for number, one in enumerate((one for one in causes if one.severity == "warning"), 1):
        blocks.append(f"{number}. **{one.code}**, {one.confidence}: {_text(explains(one))}. {_text(one.text)}.")
        blocks += _advice(one)
    if left := not_found(report.findings, report.inflight):
        blocks.append(" ".join(map(_text, left)))
    if rest := [one for one in causes if one.severity != "warning"]:
        blocks.append("\n".join(f"- {one.code}, {_text(explains(one))}: {_text(one.text)}." for one in rest))
    return blocks


def _advice(one: model.Finding) -> list[str]:
    said = {key: value for key, value in one.advice.items() if value}
    how = said.get("how", [])
    lines = [how] if isinstance(how, str) else [str(line) for line in how]
    blocks = []
    if "knob" in said and "suggested" in said:
        now = f" (now {said['value']})" if "value" in said else ""
        blocks.append(f"Set {_code(said['knob'])} to {_text(str(said['suggested']))}{_text(now)}:")
        if lines:
            blocks.append("\n".join(["```sh", *(line.replace("```", "'''") for line in lines), "```"]))
    elif lines or "knob" in said:
        blocks.append(f"Look at {_text('; '.join([*map(str, [said['knob']] if 'knob' in said else []), *lines]))}.")
    rest = [f"- {name}: {_text(str(said[key]))}" for key, name in _REST if key in said]
    return [*blocks, *(["\n".join(rest)] if rest else [])]


_REST = (("takes_effect", "takes effect"), ("verify", "check"), ("risk", "risk"))


def _by_op(matched: model.MatchedOps) -> list[str]:
    rows = [
        [
            op_label(row.program, row.op),
            count(row.count),
            *(ms(value) for value in (row.client_ms.mean, row.client_ms.p99, row.network_ms.mean, row.server_ms.mean)),
            "" if row.queue_ms is None else ms(row.queue_ms),
        ]
        for row in matched.by_op[:_MOST_ROWS]
    ]
    headers = ["op", "count", "client ms", "client p99 ms", "network ms", "server ms", "of it queue ms"]
    more = len(matched.by_op) - len(rows)
    return [
        "### By operation",
        _table(headers, rows) + (f"\n\nand {count_of(more, 'operation')} more." if more > 0 else ""),
    ]


def _parts(matched: model.MatchedOps) -> list[str]:
    of = [(name, row.parts_ms) for name, row in (("mean", matched.total), ("slowest 1 %", matched.slowest)) if row]
    rows = [[name.replace("_", " "), *(_ms(getattr(parts, name)) for _, parts in of)] for name in _PARTS]
    rows.append(["network both ways", *(ms(parts.net_both) for _, parts in of)])
    return ["### Parts of the client SRT", _table(["part", *(f"{name}, ms" for name, _ in of)], rows)]


def _stack(rows: Sequence[model.StackRow]) -> list[str]:
    if not rows:
        return []
    cells = [[f"{'- ' * row.depth}{row.layer}", row.op, ms(row.ms), percent(row.share), row.source] for row in rows]
    return ["### From application to storage", _table(["layer", "op", "ms", "share", "source"], cells)]


def _pivots(report: model.Report) -> list[str]:
    blocks = []
    for pivot in report.pivots:
        rows = [
            [
                row.key,
                count(row.ops),
                "" if row.mb_per_s is None else f"{row.mb_per_s:.3g}",
                *("" if of is None else ms(getattr(of, name)) for of, name in _pivot_figures(row)),
            ]
            for row in pivot.rows[:_MOST_ROWS]
        ]
        more = pivot.groups - len(rows)
        headers = [pivot.by, "ops", "MB/s", "client ms", "client p99 ms", "network ms", "server ms"]
        table = _table(headers, rows) + (f"\n\nand {count(more)} more." if more > 0 else "")
        blocks += [f"### By {pivot.by}", table]
    return blocks


def _pivot_figures(row: model.PivotRow) -> list[tuple[model.Summary | None, str]]:
    return [(row.client_ms, "mean"), (row.client_ms, "p99"), (row.network_ms, "mean"), (row.server_ms, "mean")]


def _raw(report: model.Report) -> list[str]:
    rows = [
        [op_label(row.program, row.op), count(row.count), *(ms(v) for v in _figures(row.srt_ms))]
        for row in report.raw.get("capture", [])[:_MOST_ROWS]
    ]
    if not rows:
        return []
    return ["### Response times", _table(["op", "count", "mean ms", "p50", "p95", "p99", "max"], rows)]


def _figures(one: model.Summary) -> tuple[float, ...]:
    return one.mean, one.p50, one.p95, one.p99, one.max


def _slowest(pictures: model.Pictures | None) -> list[str]:
    if pictures is None:
        return []
    rows = [
        [one.op, one.xid, one.at, ms(one.client_ms), ms(one.network_ms), ms(one.server_ms), one.path or ""]
        for one in pictures.slowest[:5]
    ]
    headers = ["op", "XID", "called", "client ms", "network ms", "server ms", "file"]
    return ["### Slowest ops", _table(headers, rows)] if rows else []


def _captures(report: model.Report) -> list[str]:
    rows = [
        [
            side,
            one.path,
            count(one.packets),
            count(one.ops),
            f"{one.duration_s:.3f}",
            one.first or "",
            one.snaplen or "",
        ]
        for side, one in report.captures.items()
    ]
    notes = [f"- {side}: {_text(note.text)}" for side, one in report.captures.items() for note in one.audit]
    headers = ["capture", "file", "packets", "ops", "s", "first packet", "snaplen"]
    return ["### Captures", _table(headers, rows), *(["\n".join(notes)] if notes else [])]


def _table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    cells = [["" if cell is None else _text(str(cell)) for cell in row] for row in rows]
    columns = [[row[place] for row in cells] for place in range(len(headers))]
    align = ["right" if all(map(_NUMBER.fullmatch, column)) else "left" for column in columns]
    return tabulate(cells, headers, tablefmt="pipe", disable_numparse=True, colalign=align)


def _ms(value: float | None) -> str:
    return "cannot tell" if value is None else ms(value)


def _text(text: str) -> str:
    """Text that means itself, in one line."""
    return _ESCAPED.sub(r"\\\1", "".join(ch if ch.isprintable() or ch == "\u00a0" else " " for ch in text))


def _code(text: object) -> str:
    """In the font of code; a fence that is longer than any in it."""
    shown = plain(str(text))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
