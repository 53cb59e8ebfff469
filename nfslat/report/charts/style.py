"""Colours, the theme, and axes that all charts have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nfslat.answer.model import Report
from nfslat.report.charts.chart import Spec
from nfslat.report.text_layout import count

# Colours are the variables of page.css, which has a set for light, dark and print; `on_paper` fills them in for
# pictures. Layers are calm and look the same in all charts; whichever the verdict blames is given the colour of the
# culprit by the page (`data-culprit`) and by `on_paper`, so that no chart need ask. The colour-blind tell all of them
# apart, 3:1 or more against the paper; a dash, a place or a label goes with each besides.
COLOUR = {side: f"var(--{side})" for side in ("client", "network", "server")}
WHOLE = "var(--whole)"  # of the client SRT, which is nobody's alone
HUES = {"whole": WHOLE, **COLOUR}
# Of heat maps, in which the palest cell still has 3:1 against the paper.
STRONG = {side: f"var(--{side}-strong)" for side in HUES}
INK, PAPER, CULPRIT = "var(--ink)", "var(--paper)", "var(--culprit)"
ON_COLOUR = {side: f"var(--on-{side})" for side in COLOUR}  # for text on a solid COLOUR
SIDES = {"domain": list(HUES), "range": list(HUES.values())}  # the scale of a field that is one of these
DASH = {"client": [1, 0], "network": [6, 3], "server": [2, 2]}

_ON_PAPER = {
    "var(--paper)": "#ffffff",
    "var(--ink)": "#1b1f24",
    "var(--dim)": "#57606a",
    "var(--grid)": "#dde2e8",
    "var(--whole)": "#2b3138",
    "var(--client)": "#5f8cc0",
    "var(--network)": "#928d72",
    "var(--server)": "#586878",
    "var(--culprit)": "#e8590c",
    "var(--whole-strong)": "#49525b",
    "var(--client-strong)": "#2f5688",
    "var(--network-strong)": "#5a5640",
    "var(--server-strong)": "#34424f",
    "var(--culprit-strong)": "#a83400",
    "var(--on-client)": "#14171b",
    "var(--on-network)": "#14171b",
    "var(--on-server)": "#ffffff",
    "var(--on-culprit)": "#14171b",
    # A font that vl-convert brings along: the same picture on every machine.
    "var(--font)": "Liberation Sans",
}
FONT_PX = 12


def culprit_of(report: Report) -> str | None:
    """The layer that the verdict blames; None where it blames none."""
    verdict = report.verdict
    return verdict.layer if verdict is not None and verdict.outcome == "fault" else None


def on_paper(spec: Any, culprit: str | None = None) -> Any:
    """A specification, or the theme, with the colours of page.css on white paper in place of its variables."""
    if isinstance(spec, dict):
        return {key: value if key == "values" else on_paper(value, culprit) for key, value in spec.items()}
    if isinstance(spec, list):
        return [on_paper(value, culprit) for value in spec]
    if not isinstance(spec, str):
        return spec
    blamed = (
        {f"var(--{kind})": f"var(--{kind.replace(culprit, 'culprit')})" for kind in _blamed(culprit)} if culprit else {}
    )
    return _ON_PAPER.get(blamed.get(spec, spec), spec)


def _blamed(side: str) -> tuple[str, ...]:
    return side, f"{side}-strong", f"on-{side}"


def theme() -> Spec:
    """Vega-Lite configuration of all charts. Vega's SVG passes CSS variables on as they are."""
    ink, dim, grid = INK, "var(--dim)", "var(--grid)"
    return {
        "background": PAPER,
        "font": "var(--font)",
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "gridColor": grid,
            "domainColor": dim,
            "tickColor": dim,
            "labelFontSize": 11,
            "titleFontSize": FONT_PX,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelOverlap": "greedy",
        },
        "legend": {
            "labelColor": ink,
            "titleColor": ink,
            "titleFontWeight": "normal",
            "labelFontSize": 11,
            "titleFontSize": FONT_PX,
        },
        "title": {"color": ink, "subtitleColor": dim, "anchor": "start", "fontSize": 16, "subtitleFontSize": FONT_PX},
        "text": {"color": ink, "fontSize": FONT_PX},
        "rule": {"color": ink},
        "style": {
            "heading": {"color": ink, "fontWeight": "bold", "fontSize": FONT_PX},
            "dim": {"color": dim},
            "edge": {"color": dim},
            "grid": {"color": grid},
            "inked": {"color": ink},
            "halo": {"color": PAPER},
        },
    }


# ---- numbers ----

# Of linear axes. With fewer digits named, Vega makes 1e+2 of 100 where ticks are few.
PLAIN = ",.9~r"

# Milliseconds as people say them; an axis over decades needs every unit. datum.value is a tick of the axis.
_SPOKEN = (
    "datum.value >= 1e3 ? format(datum.value / 1e3, ',.6~r') + ' s'"
    " : datum.value >= 1 ? format(datum.value, '.6~r') + ' ms'"
    " : datum.value >= 1e-3 ? format(datum.value * 1e3, '.6~r') + ' us'"
    " : format(datum.value * 1e6, '.6~r') + ' ns'"
)


def log_ticks(low: float, high: float, **more: Any) -> Spec:
    """The labels of an axis of latency from `low` to `high` ms: a label a decade, or more where there are few."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(exponents) > 4 else (1, 2, 5)
    # 10.0**-3 * 5 is not 0.005; what is read from the text is.
    values = [float(f"{step * 10.0**exponent:.6g}") for exponent in exponents for step in steps]
    return {"values": [value for value in values if low <= value <= high], "labelExpr": _SPOKEN, **more}


def counted(number: int, nouns: str) -> str:
    """``4 threads``, ``1 session slot``."""
    return f"{count(number)} {nouns.removesuffix('s') if number == 1 else nouns}"


def spread(values: Iterable[float | None], *also: float) -> tuple[float, float]:
    """The least and the largest of `values` and `also`, never the same; (0, 1) where there is none."""
    known = [value for value in (*values, *also) if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    return (low, high) if high > low else (low, low + (abs(low) or 1.0))


def margin(domain: tuple[float, float], below: float, above: float) -> list[float]:
    """`domain`, wider by shares of its width."""
    low, high = domain
    return [low - (high - low) * below, high + (high - low) * above]
