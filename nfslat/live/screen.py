"""Stretches, as they end -> a screen in a terminal: layers over time, operations in flight, findings that began and
ended, the slowest operations; keys to pause, and to write a report of the last minutes."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Footer, Static

from nfslat.answer.words import ms
from nfslat.errors import NfslatError
from nfslat.live.rows import Row
from nfslat.live.text import HEADINGS, Run, answer_of, behind_of, cells_of, clock
from nfslat.live.watch import Stretch
from nfslat.model.units import NS_PER_MS, iso
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.tally.stats import longest

_MOST_STRETCHES = 1000  # on the screen
_SLOWEST_OPS = 20  # of all stretches
_SLOWEST_OF_STRETCH = 3
_EIGHTHS = " ▁▂▃▄▅▆▇█"
# From the bottom of a column up: layer, colour, and how a row tells it.
_LAYERS: tuple[tuple[str, str, Callable[[Row], float | None]], ...] = (
    ("network", "dodger_blue2", lambda row: row.network_ms),
    ("wait for a thread", "orange3", lambda row: row.queue_ms),
    ("in a thread", "green4", lambda row: None if row.server_ms is None else row.server_ms - (row.queue_ms or 0.0)),
)
_COLORS = {"fault": "bold red", "no-fault": "green", "undecided": "yellow"}
_AXIS = 10  # characters on the left of a column


@dataclass(frozen=True)
class Slow:
    """An operation that was among the slowest."""

    client_ms: float
    server_ms: float
    op: str
    at: str  # ISO 8601, client's clock

    @property
    def text(self) -> str:
        """The operation in a line."""
        network_ms = self.client_ms - self.server_ms
        return f"{clock(self.at)} {self.op}: {ms(self.client_ms, 3)} ms, net {ms(network_ms, 3)}"


def slowest_of(c: Analysis) -> list[Slow]:
    """The slowest operations of a stretch, the slowest first."""
    labels = op_labels(c.client.ops.kinds)
    return [
        Slow(
            float(c.client_srt_ns[row]) / NS_PER_MS,
            float(c.server_srt_ns[row]) / NS_PER_MS,
            labels[c.kind[row]],
            iso(int(c.client.ops.t0[c.matched.client[row]])),
        )
        for row in longest(c.client_srt_ns, _SLOWEST_OF_STRETCH).tolist()
    ]


class Layers(Widget):
    """A column a stretch: its mean response time at the client, and what it consists of."""

    def __init__(self, rows: deque[Row]) -> None:
        super().__init__()
        self._rows = rows

    def render(self) -> Text:
        """As many columns as there is room for, the last one on the right."""
        width, height = self.size.width, max(self.size.height - 1, 1)
        rows = list(self._rows)[-max(width - _AXIS, 1) :]
        most_ms = max((row.client_ms or 0.0 for row in rows), default=0.0)
        text = Text(f"{ms(most_ms, 3):>6} ms ", no_wrap=True)
        for name, color, _ in _LAYERS:
            text.append("█ ", color)
            text.append(f"{name}  ")
        columns = [_column(row, most_ms, height) for row in rows]
        for line in reversed(range(height)):
            text.append(f"\n{'0' if line == 0 else '':>{_AXIS - 2}} │", "dim")
            for column in columns:
                text.append(*column[line])
        return text


def _column(row: Row, most_ms: float, height: int) -> list[tuple[str, str]]:
    """Cells from the bottom up: a character and its colour. Of two layers in a cell the lower one is the figure."""
    if row.gap is not None:
        return [("×", "yellow")] + [(" ", "")] * (height - 1)
    layers = [(ms_of(row), color) for _, color, ms_of in _LAYERS]
    if row.network_ms is None:  # nothing is known but the sum
        layers = [(row.client_ms, "grey50")]
    edges, sum_ms = [], 0.0
    for layer_ms, color in layers:
        sum_ms += max(layer_ms or 0.0, 0.0)
        edges.append((round(sum_ms / most_ms * height * 8) if most_ms else 0, color))
    cells = []
    for line in range(height):
        level, color = next(((end - line * 8, color) for end, color in edges if end > line * 8), (0, ""))
        above = next((other for end, other in edges if end > line * 8 + level), "") if level < 8 else ""
        cells.append((_EIGHTHS[min(level, 8)], f"{color} on {above}" if above else color))
    return cells


class Screen(App[None]):
    """Shows what an iterator brings, which a thread of its own asks for."""

    CSS = """
    #title, #flight { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #title { background: $panel; }
    #answer { height: 2; padding: 0 1; }
    Layers { height: 1fr; min-height: 5; }
    #rows { height: 1fr; text-wrap: nowrap; }
    #began, #slowest {
        width: 1fr; height: 1fr; text-wrap: nowrap; text-overflow: ellipsis;
        border-top: solid $panel; border-title-color: $text-muted;
    }
    #lower { height: 5; }
    .-wide #lower { height: 14; }
    """
    TITLE = "nfslat live"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p,space", "pause", "pause"),
        Binding("w", "write", "write a report"),
        Binding("q,ctrl+c", "quit", "end"),
    ]

    def __init__(self, stretches: Iterator[Stretch], name: str, write: Callable[[], str]) -> None:
        """`name`: of what is looked at. `write` asks for a report on the last minutes, and says where it will be."""
        super().__init__()
        self._stretches, self._name, self._write = stretches, name, write
        self.rows: deque[Row] = deque(maxlen=_MOST_STRETCHES)
        self.slowest: list[Slow] = []
        self.runs: deque[Run] = deque(maxlen=_MOST_STRETCHES)
        self.is_paused = False
        self.failed: Exception | None = None  # with which the iterator ended
        self._asking: threading.Thread | None = None

    def compose(self) -> ComposeResult:
        """Its parts from the top."""
        yield Static(id="title")
        yield Static(id="answer", markup=False)
        yield Layers(self.rows)
        yield Static(id="flight")
        yield Static(id="rows")
        with Horizontal(id="lower"):
            yield Static(id="began", markup=False)
            yield Static(id="slowest", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to ask for stretches."""
        self.query_one("#began").border_title = "began and ended"
        self.query_one("#slowest").border_title = "slowest operations"
        self._draw()
        # None of textual's, which are waited for at the end: this one waits for packets.
        self._asking = threading.Thread(target=self._ask, daemon=True, name="stretches")
        self._asking.start()

    def join(self, most_s: float) -> None:
        """Wait until the iterator is left alone. A thread that is in it while Python ends may take all down."""
        if self._asking is not None:
            self._asking.join(most_s)

    def _ask(self) -> None:
        try:
            for stretch in self._stretches:
                slow = [] if stretch.analysis is None else slowest_of(stretch.analysis)
                row = stretch.row
                del stretch  # before the next one is made
                self._call(self.add, row, slow)
        except NfslatError as problem:
            self.failed = problem
        self._call(self._over)

    def _call(self, what: Callable[..., object], *arguments: object) -> None:
        """From another thread, unless the screen was left."""
        with contextlib.suppress(RuntimeError):
            self.call_from_thread(what, *arguments)

    def add(self, row: Row, slow: list[Slow]) -> None:
        """One more stretch; paused, it is seen later."""
        self.rows.append(row)
        self.slowest = sorted([*self.slowest, *slow], key=lambda slow: -slow.client_ms)[:_SLOWEST_OPS]
        answer = answer_of(row)
        if self.runs and self.runs[-1].answer == answer:
            self.runs[-1].end = row.end
        else:
            self.runs.append(Run(answer, row.begin, row.end))
        if not self.is_paused:
            self._draw()

    def tell(self, text: str) -> None:
        """What else there is to say, from any thread."""
        self._call(self.notify, text)

    def _draw(self) -> None:
        row = self.rows[-1] if self.rows else None
        title = Text(f" {self._name}  ")
        if row is not None:
            title.append(f"{clock(row.end)} UTC  ")
            title.append(answer_of(row), _COLORS[row.outcome])
            title.append(f"  {behind_of(row)}", "bold yellow")
        title.append("  paused" if self.is_paused else "", "reverse")
        self.query_one("#title", Static).update(title)
        self.query_one(Layers).refresh()
        self.query_one("#flight", Static).update(self._flight(row))
        self.query_one("#answer", Static).update("" if row is None else row.text)
        self.query_one("#rows", Static).update(self._lines())
        began = [f"{run.span} {run.answer}" for run in reversed(self.runs)]
        self.query_one("#began", Static).update("\n".join(began))
        self.query_one("#slowest", Static).update("\n".join(slow.text for slow in self.slowest))

    def _lines(self) -> Text:
        """As nfslat live prints them, the last one first."""
        text = Text(no_wrap=True).append("\n".join(HEADINGS), "dim")
        for row in reversed(list(self.rows)[-self.size.height :]):
            *cells, answer = cells_of(row)
            text.append("\n" + " ".join(cells) + " ")
            text.append(answer, _COLORS[row.outcome])
        return text

    def _flight(self, row: Row | None) -> Text:
        """Operations in flight at the server, over time."""
        width = max(self.size.width - _AXIS - len(" 1,000.0 (most 1,000.0)"), 1)
        levels = [row.in_flight or 0.0 for row in list(self.rows)[-width:]]
        most = max(levels, default=0.0)
        text = Text(f"{'in flight':>{_AXIS - 1}} ")
        text.append("".join(_EIGHTHS[round(level / most * 8) if most else 0] for level in levels), "cyan")
        now = None if row is None else row.in_flight
        text.append("" if now is None else f" {now:,.1f} (most {most:,.1f})")
        return text

    def _over(self) -> None:
        if self.failed is not None:
            self.exit()
        else:
            self.notify("the captures have ended")

    def action_pause(self) -> None:
        """What is shown stands still, or goes on; what comes is kept."""
        self.is_paused = not self.is_paused
        self._draw()

    def action_write(self) -> None:
        """A report on the last minutes."""
        self.notify(self._write())
