"""A `Series` -> blocks: the answer, a picture of bars, the runs, what grows, and how well the shapes fit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nfslat.answer.words import ms
from nfslat.report.blocks import Block, Fitted, Gap, Item, Lines, Prose, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.markdown import paragraphs
from nfslat.report.text_layout import count_of, plain, shorten
from nfslat.report.text_writer import write
from nfslat.series.model import Fit, Point, Series
from nfslat.series.points import parts_of
from nfslat.series.words import amount, parts_down_to

_LEAST_P = 1e-6  # that is printed
_NAMES, _UNIT = 12, 10  # columns of a name, and of a unit
_SHAPES = {
    "level": "level",
    "line": "grows from the first load on",
    "bend": "level, then grows",
    "soft": "the same with a soft bend",
}


def render(found: Series, *, width: int = 80, color: bool = False) -> str:
    """All of it, as text of at most `width` columns."""
    return write(blocks(found), width=width, color=color)


def markdown(found: Series) -> str:
    """The same for a ticket: the answer is its title."""
    shown = [Title(found.verdict.text), *list(blocks(found))[1:]]
    return "\n\n".join([*paragraphs(shown), f"nfslat {found.nfslat}"]).replace("### ", "## ", 1) + "\n"


def blocks(found: Series) -> Iterator[Block]:
    """In the order of the text."""
    yield Prose(found.verdict.text, style="bold")
    yield Prose(f"Confidence is {found.verdict.confidence}.")
    if found.verdict.next is not None:
        yield Prose(f"Measure next: {found.verdict.next}.")
    yield Fitted(lambda width: _bars(found, width))
    yield from runs_section(found)
    yield from growth_section(found)
    yield from steps_section(found)
    if found.notes:
        yield Gap()
    for note in found.notes:
        yield Item(note)


def label(found: Series, point: Point) -> str:
    """A run, by its load where it has one."""
    return amount(point.load) if point.load is not None else shorten(plain(point.name), _NAMES)


def _bars(found: Series, width: int) -> Iterator[Block]:
    """A bar for each run, as long as its latency, of the letters of its parts."""
    rows = [(label(found, point), parts_of(point, found.top, found.bottom)) for point in found.points]
    most = max((math.fsum(max(value, 0.0) for value in of.values()) for _, of in rows), default=0.0)
    unit = shorten(plain(found.unit), _UNIT)
    left = max([len(unit), *(len(name) for name, _ in rows)])
    room = max(min(width, 100) - left - 12, 20)
    yield Title("Where a mean operation spends its time")
    named = parts_down_to(found.bottom)
    yield Prose(", ".join(f"{named[name].mark} {named[name].words}" for name in (rows[0][1] if rows else {})))
    lines = [f"{unit:>{left}}  {'ms':>8}"]
    for name, of in rows:
        whole, drawn, at = math.fsum(of.values()), "", 0.0
        for part, value in of.items():
            at += max(value, 0.0)
            drawn += named[part].mark * (round(at / most * room if most > 0 else 0) - len(drawn))
        lines.append(f"{name:>{left}}  {ms(whole):>8}  {drawn}".rstrip())
    yield Lines(lines)


def runs_section(found: Series) -> Iterator[Block]:
    """A row for each run."""
    yield Title("The runs, means in ms")
    first = "app" if found.top == "application" else "client\nSRT"
    parts = [parts_of(point, found.top, found.bottom) for point in found.points]
    named = parts_down_to(found.bottom)
    own = (
        Column(shorten(plain(found.unit), _UNIT), lambda row: label(found, row[0])),
        Column("ops/s", lambda row: _amount(row[0].ops_per_s, 0), "right", goes=1),
        Column("in\nflight", lambda row: _amount(row[0].in_flight, 1), "right"),
        Column(first, lambda row: math.fsum(row[1].values()), "ms"),
        *columns("ms", *(f"1.{name} {named[name].head}" for name in parts[0])),
    )
    yield table(zip(found.points, parts, strict=True), [*own, *_DISPARITY])
    limits = [
        f"{label(found, one)}: {count_of(one.threads, 'thread')}" for one in found.points if one.threads is not None
    ]
    if found.verdict.part == "above":
        limits += [
            f"{label(found, one)}: {count_of(one.slots, 'slot')}" for one in found.points if one.slots is not None
        ]
    if limits:
        yield Prose(f"Limits that calls wait for: {'; '.join(limits)}.", hanging=2)


def growth_section(found: Series) -> Iterator[Block]:
    """What each part adds, and which shape goes with it."""
    named = parts_down_to(found.bottom)
    if found.growth:
        yield Title("What grows, ms")
        part = Column("", lambda one: named[one.part].words)
        yield table(found.growth, [part, *_GROWTH])
    if found.fits:
        yield Title("Which shape the disparity has")
        yield table(found.fits, _FITS)


def _amount(value: float | None, places: int) -> str | None:
    return None if value is None else f"{value:,.{places}f}"


def _chance(one: Fit) -> str:
    if one.p is None or not one.degrees:
        return "-"
    return f"{one.p:.2g}" if one.p >= _LEAST_P else f"< {_LEAST_P:g}"


_DISPARITY = (
    *columns("ms", "0.disparity_ms disparity"),
    Column("+/-", lambda row: None if (error := row[0].disparity_error_ms) is None else 1.96 * error, "ms"),
)
_GROWTH = (
    *columns("ms", "before_ms before", "after_ms highest load", none=""),
    *columns("share", "share of the growth", none=""),
)
_FITS = (
    Column("shape", lambda one: _SHAPES[one.shape]),
    Column("chi square", lambda one: _amount(one.chi2, 1), "right"),
    *(*columns("count", "degrees"), Column("p", _chance, "right")),
    Column("from", lambda one: None if one.from_load is None else amount(one.from_load), "right", none=""),
    Column("ms each", lambda one: None if one.per_load_ms is None else f"{one.per_load_ms:.4g}", "right", none=""),
)


def steps_section(found: Series) -> Iterator[Block]:
    """Runs without loads: each against the one before."""
    if found.steps:
        yield Title("Each run against the one before (B against A)")
    for one in found.steps:
        yield Prose(f"{shorten(plain(one.b), 40)} against {shorten(plain(one.a), 40)}: {one.text}", hanging=2)
