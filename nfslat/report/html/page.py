"""Report -> one self-contained HTML page: templates filled from the model, the style, the charts and their script."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from nfslat.answer.model import Report
from nfslat.answer.words import ms, percent
from nfslat.errors import UsageError
from nfslat.findings.catalogue import HANGS
from nfslat.report import vega
from nfslat.report.blocks import Prose, RankedFinding
from nfslat.report.charts.all import charts
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.events import marks
from nfslat.report.charts.style import culprit_of, theme
from nfslat.report.html import tiles, view
from nfslat.report.markdown import for_ticket
from nfslat.report.sections.answer import SRT_MEANS, headline
from nfslat.report.sections.findings import findings_section
from nfslat.report.sections.handover import TITLE, handover
from nfslat.report.sections.inferred import inferred_words
from nfslat.report.sections.outcomes import is_quiet
from nfslat.report.sections.tables import is_in_ticks, op_label
from nfslat.report.text_layout import count, first_sentence, visible

if TYPE_CHECKING:
    from jinja2 import Environment

_OWN = "nfslat.report.html"
_NEEDED = "--html needs vl-convert-python and jinja2: pip install 'nfslat[html]'"
_FRACTION = r"\.\d+(?=Z|\+|$)"
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|us|s|min|ops?|ppm)\b|%)")
_SURROGATES = re.compile("[\ud800-\udfff]")


def render(report: Report) -> str:
    """The page, ending in a newline; it holds all that it needs and asks no network.

    Raises ``UsageError`` where the libraries of the extra ``html`` are not installed.
    """
    pictures = charts(report)
    two = "capture" not in report.captures
    found = list(findings_section(report.findings, report.inflight, report.captures))
    causes = [block for block in found if isinstance(block, RankedFinding)]
    first = _first(causes, report)
    intervals, intervals_left = view.interval_rows(report)
    return filled(
        "page",
        pictures,
        report=report,
        two=two,
        culprit=culprit_of(report),
        title=_title(report),
        when=_when(report),
        headline=_headline(report),
        inferred="" if report.inferred is None else inferred_words(report.inferred),
        contents=_contents(report, two),
        events=marks(report),
        blocks=view.sections(report),
        tiles=tiles.tiles(report),
        means=tiles.means(report),
        stacks=view.stacks(report),
        op_rows=view.op_rows(report),
        histograms=view.histograms(report),
        slow=view.slow_ops(report),
        several_files={side: len(capture.files) > 1 for side, capture in report.captures.items()},
        intervals=intervals,
        intervals_left=intervals_left,
        causes=[one for one in causes if one.number],
        first=first,
        rest=sum(bool(one.number) for one in causes) - (first is not None),
        nothing_to_mend=_nothing_to_mend(report),
        evidence=handover(report),
        evidence_title=TITLE,
        ticket=for_ticket(report).splitlines(),
        minor=[one for one in causes if not one.number],
        hang_codes=HANGS,
        not_found=[block.text for block in found if isinstance(block, Prose)],
        srt_means=_srt_means(report, two),
        no_pictures=_no_pictures(report),
    )


def filled(name: str, pictures: Sequence[Chart], *, package: str = _OWN, **names: Any) -> str:
    """A page from the template `name` of `package` and from `names`, with what draws `pictures`.

    Style and script are ours, and those that the package has besides.

    Raises ``UsageError`` where the libraries of the extra ``html`` are not installed.
    """
    environment, library = _environment(package), _library()
    script = _part(_OWN, "page.js").replace("/*CONFIG*/null", _script_json(theme()))
    css = _part(_OWN, "page.css")
    if package != _OWN:
        script, css = script + _part(package, f"{name}.js"), css + _part(package, f"{name}.css")
    page = environment.get_template(f"{name}.html").render(
        policy=_policy([script, *([library] if pictures else [])]),
        css=_raw(css),
        script=_raw(script),
        library=_raw(library),
        charts=pictures,
        **names,
    )
    # Nothing but a library's text could hold half of a character, which no file can.
    return _SURROGATES.sub("\ufffd", page).lstrip() + "\n"


@functools.cache
def _environment(package: str) -> Environment:
    try:
        # Escapes everything that it fills in; whoever has seen a Flask or an Ansible template can read ours.
        import jinja2  # noqa: PLC0415  (an extra)
    except ImportError as problem:
        raise UsageError(_NEEDED) from problem
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in dict.fromkeys((package, _OWN))]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "exact": json.dumps,  # a number as the JSON report has it
        "ms": ms,
        "fixed": lambda value: f"{value:,.3f}",
        "short": lambda value: f"{value:g}",
        "count": count,
        "percent": percent,
        "sentence": _sentence,
        "unbroken": _unbroken,
        "lines": _lines,
        "clock_time": _clock_time,
        "in_ticks": is_in_ticks,
        "op_label": lambda row: op_label(row.program, row.op),
        "pivot_rows": view.pivot_rows,
        "group_columns": view.columns_of,
        "unsized": view.unsized,
        "script_json": lambda value: _raw(_script_json(value)),
    }
    return environment


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    script = vega.library()
    # Neither may stand in a script element: the first ends it, the second may hide its end.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _part(package: str, name: str) -> str:
    """A file of a package; empty where it has none of that name."""
    file = resources.files(package).joinpath(name)
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _raw(text: str) -> Any:
    from markupsafe import Markup  # noqa: PLC0415  (comes with jinja2)

    return Markup(text)  # noqa: S704  (our own files, a library, and JSON without a "<")


def _shown(value: Any) -> Any:
    # Markup is a str, too; it is ours, and was made visible when it was filled in.
    return visible(value) if type(value) is str else value


def _script_json(value: Any) -> str:
    """JSON that can stand in a script element: ASCII, and nothing in it begins a tag, a comment or an entity."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(scripts: Sequence[str]) -> str:
    """Content-Security-Policy: no network at all, and no script but these."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _title(report: Report) -> str:
    names = [PurePath(capture.path).name or capture.path for capture in report.captures.values()]
    return f"NFS latency: {' and '.join(names)}"


def _first(causes: Sequence[RankedFinding], report: Report) -> RankedFinding | None:
    """What is to be mended first: the cause that the verdict names; nothing where it finds no fault. One capture has no
    verdict."""
    ranked = [one for one in causes if one.number]
    if report.verdict is None:
        return ranked[0] if ranked and "capture" in report.captures else None
    named = report.verdict.cause if report.verdict.outcome == "fault" else None
    return next((one for one in ranked if one.code == named), None)


def _nothing_to_mend(report: Report) -> str:
    if report.verdict is None:
        return "Capture on both hosts at the same time, so that the same operations are in both."
    if report.verdict.outcome == "no-fault":
        return "Nothing needs to be mended: nothing that was looked for explains the time."
    return "Nothing yet: it cannot be told what to mend before more is measured."


def _headline(report: Report) -> tuple[str, str]:
    return first_sentence(headline(report.verdict, report.matched))


def _when(report: Report) -> str:
    first = [capture.first for capture in report.captures.values() if capture.first]
    return (
        f"captured from {re.sub(_FRACTION, '', first[-1]).replace('T', ' ')}"
        if first
        else "when it was captured is not known"
    )


def _clock_time(at: str) -> str:
    """``2024-05-01T10:00:00.000123+00:00`` -> ``10:00:00.000123``."""
    time = at.partition("T")[2].partition("+")[0].removesuffix("Z")
    return re.sub(r"(\.\d{6})000$", r"\1", time) or at


def _srt_means(report: Report, two: bool) -> str:
    if not two and report.nfslat.srt == "nfslat":
        return "from the first byte of the call to the last byte of the reply"
    return SRT_MEANS.get(report.nfslat.srt, report.nfslat.srt)


def _no_pictures(report: Report) -> str:
    if report.matched is None or not report.matched.ops:
        return "No op is in both captures, so there is nothing to draw."
    return "This report was made without the figures that pictures are drawn from."


def _contents(report: Report, two: bool) -> list[tuple[str, str]]:
    quiet = report.outcomes is None or is_quiet(report.outcomes)
    errors = [] if quiet else [("outcomes", "NFS errors")]
    hangs = [("hangs", "What hangs")] if report.hangs or report.unanswered else []
    if not two:
        return [
            ("answer", "What it shows"), ("distributions", "Each operation"), ("over-time", "Over time"),
            *hangs, *errors, ("in-flight", "In flight"), ("audit", "Capture audit"), ("definitions", "Definitions"),
        ]  # fmt: skip
    return [
        ("answer", "Answer"), ("do", "What to do"), ("stack", "Latency stack"), ("distributions", "Each operation"),
        ("over-time", "Over time"), *errors, ("in-flight", "Threads and slots"), ("parts", "Part by part"),
        ("clock", "Clocks"), ("transport", "TCP and the path"), ("slowest", "Slowest ops"),
        *((f"by-{number}", f"By {pivot.by}") for number, pivot in enumerate(report.pivots, 1)),
        *([("intervals", "Intervals")] if report.intervals is not None else []),
        ("findings", "Causes"), ("what-if", "What if"), ("evidence", "Outside evidence"),
        ("audit", "Capture audit"), ("definitions", "Definitions"),
    ]  # fmt: skip


def _lines(how: Sequence[str]) -> Any:
    """What is to be copied as it is: the ends of its lines are the only thing in it that does not show."""
    from markupsafe import Markup, escape  # noqa: PLC0415  (comes with jinja2)

    return Markup("\n").join(escape(visible(line)) for line in how)


def _unbroken(text: str) -> Any:
    """A number and its unit stay on one line."""
    from markupsafe import Markup, escape  # noqa: PLC0415  (comes with jinja2)

    return Markup(_UNIT.sub("&nbsp;", str(escape(visible(text)))))  # noqa: S704  (escaped)


def _sentence(text: str) -> str:
    """A finding's text begins small and has no full stop."""
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
