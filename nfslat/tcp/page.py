"""The report on TCP conversations -> one self-contained HTML page with graphs, and pictures of these for tickets."""

from __future__ import annotations

from pathlib import Path, PurePath

from nfslat.model.causes import WORDS
from nfslat.model.record import Record
from nfslat.report.blocks import Prose
from nfslat.report.charts.chart import Chart
from nfslat.report.html.blocks import Shown, shown
from nfslat.report.html.page import filled
from nfslat.report.png import write_charts
from nfslat.report.text_layout import count, first_sentence
from nfslat.tcp.charts.all import charts, charts_of
from nfslat.tcp.graphs import Waited, WayGraphs
from nfslat.tcp.model import Detail, Report
from nfslat.tcp.sections.all import answer_blocks, captures_blocks, detail_blocks, list_blocks, notes_blocks
from nfslat.tcp.sections.hangs import hangs_section, of_detail

_PACKAGE = "nfslat.tcp"
_WAITS = 12
_CARDS = (  # of a conversation: what its charts show, by the names of their sections
    ("time", "Where the time goes", ("waits", "turns")),
    ("trips", "Round trips", ("trips", "close")),
    ("data", "Data, windows and rate", ("sequence", "flight", "rate")),
    ("sizes", "Segment sizes", ("sizes",)),
)


class Row(Record):
    """A wait in the table; `capture` is empty where there is one alone."""

    at_ms: float
    ms: float
    sender: str
    what: str
    capture: str
    frames: str
    filter: str


class Card(Record):
    """A conversation on the page."""

    id: str
    title: str
    answer: list[str]
    parts: list[tuple[str, str, list[Chart]]]
    waits: list[Row]
    waits_left: int
    waits_in: str  # whose frames are in the table
    blocks: list[Shown]
    no_graphs: str


def render(report: Report) -> str:
    """The page, ending in a newline. Raises ``UsageError`` where the libraries of the extra ``html`` are not there."""
    cards = [_card(one, report) for one in report.details]
    return filled(
        "transport",
        charts(report),
        package=_PACKAGE,
        report=report,
        title=_title(report),
        contents=[
            ("answer", "Answer"),
            *((f"{card.id}-{part}", name) for card in cards[:1] for part, name, found in card.parts if found),
            *((card.id, card.title) for card in cards[1:]),
            *([("conversations", "All conversations")] if len(report.conversations) > 1 else []),
            ("captures", "Captures"),
        ],
        headline=first_sentence(cards[0].answer[0] if cards else "No conversation."),
        cards=cards,
        notes=shown([*notes_blocks(report), *hangs_section(report)]),
        conversations=shown(list_blocks(report)),
        captures=shown(captures_blocks(report)),
    )


def write_png(report: Report, directory: Path) -> list[Path]:
    """One PNG a graph. Raises as `nfslat.report.png.write_png`."""
    return write_charts(charts(report), directory)


def _title(report: Report) -> str:
    names = [PurePath(capture.path).name or capture.path for capture in report.captures]
    return f"TCP: {' and '.join(names)}"


def _card(one: Detail, report: Report) -> Card:
    found = charts_of(one)
    answer = [block.text for block in answer_blocks(one, of_detail(one, report)) if isinstance(block, Prose)]
    waits, left = _waits(one, report)
    return Card(
        id=f"conversation-{one.stream}",
        title=f"Conversation {count(one.stream)}: {one.a} to {one.b}",
        answer=answer,
        parts=[(part, name, [chart for chart in found if chart.section in of]) for part, name, of in _CARDS],
        waits=waits,
        waits_left=left,
        waits_in="" if len(report.captures) > 1 else PurePath(report.captures[0].path).name,
        blocks=shown(detail_blocks(one)),
        no_graphs="" if found else _no_graphs(one),
    )


def _no_graphs(one: Detail) -> str:
    if one.pictures is None:
        return "No graphs are drawn of this conversation: only of the first ones, and not of an older report."
    return "There is nothing to draw: no payload."


def _waits(one: Detail, report: Report) -> tuple[list[Row], int]:
    """The longest, and how many more there are."""
    if one.pictures is None:
        return [], 0
    ways = one.pictures.whole.ways
    found = sorted(((wait, way) for way in ways for wait in way.waited), key=lambda pair: -pair[0].ms)
    rows = [_row(wait, way, one, report) for wait, way in found[:_WAITS]]
    return rows, sum(way.waited_count for way in ways) - len(rows)


def _row(wait: Waited, way: WayGraphs, one: Detail, report: Report) -> Row:
    # In order: where times run backwards, as in captures of several queues, what came first has the later number.
    frames = sorted(frame for frame in (wait.before_frame, wait.frame) if frame is not None)
    limits = []
    if len(frames) > 1:
        limits.append(f"frame.number in {{{frames[0]}..{frames[1]}}}")
    elif frames:  # none of a sender whose data no capture shows
        limits.append(f"frame.number {'>=' if wait.frame is None else '<='} {frames[0]}")
    # Whoever asks has a port of its own; the other one's is that of all its conversations.
    port = (one.turns.asker or one.a).rpartition(":")[2]
    if port.isdecimal():
        limits.append(f"tcp.port == {port}")
    return Row(
        at_ms=wait.at_ms,
        ms=wait.ms,
        sender=way.sender,
        what=WORDS[wait.cause].limit,
        capture=PurePath(report.captures[way.capture].path).name if len(report.captures) > 1 else "",
        frames=" to ".join(count(frame) for frame in frames),
        filter=" && ".join(limits),
    )
