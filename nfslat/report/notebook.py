"""A report -> the few lines of HTML that a notebook shows of it, and its findings as rows; all of it is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from nfslat.answer.model import Finding, RawRow, Report
from nfslat.answer.words import ms, percent
from nfslat.findings.catalogue import ROWS
from nfslat.findings.witness import WARNED
from nfslat.report.text_layout import visible

_OPS = 8  # operations in the table
_FINDINGS = 5
_TITLES = {one.code: one.title for one in (*ROWS, *WARNED)}


def finding_rows(findings: Sequence[Finding]) -> list[dict[str, object]]:
    """A row a finding, of plain values; the keys of all are the same."""
    return [
        {
            "code": one.code,
            "title": _TITLES[one.code],
            "layer": one.layer,
            "severity": one.severity,
            "confidence": one.confidence,
            "share": one.share,
            "gain_ms": one.gain_ms,
            "text": one.text,
            "set": one.advice.get("knob"),
            "now": one.advice.get("value"),
            "to": one.advice.get("suggested"),
            "verify": one.advice.get("verify"),
        }
        for one in findings
    ]


def html(report: Report) -> str:
    """Verdict, operations and findings; no styles, scripts or links."""
    return "\n".join(_pieces(report))


def _pieces(report: Report) -> Iterator[str]:
    said = report.verdict
    if said is not None:
        yield f"<p><b>{_text(said.text)}</b> Confidence: {_text(said.confidence)}.</p>"
        if said.next is not None:
            yield f"<p>Next: <code>{_text(said.next.command)}</code> ({_text(said.next.where)})</p>"
    rows = {side: {(one.op, one.version): one for one in found} for side, found in report.raw.items()}
    if rows:
        sides = list(rows)
        keys = sorted(
            dict.fromkeys(key for found in rows.values() for key in found), key=lambda key: -_most(rows, key)
        )[:_OPS]
        heads = "".join(f"<th>{_text(side)} ops</th><th>mean ms</th><th>p99 ms</th>" for side in sides)
        yield f"<table><thead><tr><th>operation</th>{heads}</tr></thead><tbody>"
        for key in keys:
            cells = []
            for side in sides:
                one = rows[side].get(key)
                values = ("", "", "") if one is None else (f"{one.count:,}", ms(one.srt_ms.mean), ms(one.srt_ms.p99))
                cells += [f"<td>{value}</td>" for value in values]
            yield f"<tr><td>{_text(key[0])}</td>{''.join(cells)}</tr>"
        yield "</tbody></table>"
    if report.findings:
        yield "<ul>"
        for finding in report.findings[:_FINDINGS]:
            share = "" if finding.share is None else f", {percent(finding.share)}"
            name = f"<code>{_text(finding.code)}</code> ({_text(finding.confidence)}{share})"
            yield f"<li>{name}: {_text(finding.text)}</li>"
        yield "</ul>"


def _most(rows: dict[str, dict[tuple[str, str], RawRow]], key: tuple[str, str]) -> int:
    return max(found[key].count for found in rows.values() if key in found)


def _text(text: str) -> str:
    return escape(visible(text))
