"""Fleet -> the server in the text report: in a sentence, its phases, and a strip with a character a stretch of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from nfslat.answer.words import ms, percent
from nfslat.findings.facts import HOG
from nfslat.fleet.model import Fleet, Server
from nfslat.fleet.sections.words import mean_over, moment, phase_line, server_line
from nfslat.report.blocks import Block, Fitted, Item, Lines, Prose, Title
from nfslat.report.text_layout import count

_LABEL, _LARGEST = 10, 16  # columns at the left and at the right of a strip
_MOST_PHASES = 12
_LEAST_WINDOWS = 3  # of fewer the phases say all


def server_section(fleet: Fleet) -> Iterator[Block]:
    """The server, as its capture shows it; or that there is none."""
    server = fleet.server
    yield Title("The server, over all its clients")
    if server is None:
        yield Prose("There is no capture of the server: nothing is known of its threads and of its other clients.")
        return
    yield Prose(server_line(server), hanging=2)
    if server.inflight.cannot:
        yield Prose(f"Threads: {server.inflight.cannot}.", indent=2, hanging=2)
    day = fleet.captures.begin
    for phase in server.phases[:_MOST_PHASES]:
        yield Item(f"{phase_line(phase, day)}")
    if len(server.phases) > _MOST_PHASES:
        yield Item(f"and {count(len(server.phases) - _MOST_PHASES)} more phases, which the JSON report has")
    if len(server.windows) >= _LEAST_WINDOWS:
        yield Fitted(lambda width: [Lines(_strips(server, width, day))])
        yield Prose(
            "Each digit is tenths of the largest (9: nine tenths or more), a dot is 0, a blank not known.", style="dim"
        )
    yield from _hog(fleet)
    yield from _unseen(server)


def _hog(fleet: Fleet) -> Iterator[Block]:
    """Which client's calls have most of the time in the server, where that is half of it or more."""
    spent = {one.name: one.ops * one.server_ms.mean for one in fleet.clients if one.server_ms is not None}
    most = max(spent, key=lambda name: spent[name], default="")
    if len(spent) > 1 and spent[most] >= HOG * sum(spent.values()) > 0:
        yield Prose(f"{most} has {percent(spent[most] / sum(spent.values()))} of the time there.", hanging=2)


def _unseen(server: Server) -> Iterator[Block]:
    names = server.clients_not_captured
    if names:
        more = f" and {count(len(names) - 6)} more" if len(names) > 6 else ""
        yield Prose(f"Not captured, but in the server's capture: {', '.join(names[:6])}{more}.", hanging=2)


def _strips(server: Server, width: int, day: str | None) -> list[str]:
    """A line a figure: its name, a character a stretch, the largest value."""
    windows = server.windows
    wide = min(len(windows), width - _LABEL - _LARGEST)
    edges = [len(windows) * i // wide for i in range(wide + 1)]
    parts = [windows[start:end] for start, end in pairwise(edges)]
    rows: list[tuple[str, list[float | None], Callable[[float], str]]] = [
        ("ops/s", [mean_over(part, "ops_per_s", by_ops=False) for part in parts], lambda x: f"{x:,.0f}"),
        ("in flight", [mean_over(part, "in_flight_mean", by_ops=False) for part in parts], lambda x: ms(x, 1)),
        ("server ms", [mean_over(part, "server_ms") for part in parts], ms),
        ("queue ms", [mean_over(part, "queue_ms") for part in parts], ms),
    ]
    lines = []
    for name, values, shown in rows:
        known = [value for value in values if value is not None]
        if known:
            top = max(known)
            bar = "".join(_digit(value, top) for value in values)
            lines.append(f"{name:<{_LABEL}}{bar}  largest {shown(top)}")
    if any(window.limited for window in windows):
        bar = "".join("#" if any(window.limited for window in part) else "." for part in parts)
        lines.append(f"{'limited':<{_LABEL}}{bar}  # by threads")
    begin, end = moment(windows[0].begin, day), moment(windows[-1].end, day)
    gap = len(parts) - len(begin) - len(end)
    times = f"{begin}{' ' * gap}{end}" if gap > 0 else f"{begin} to {end}"
    return [line[:width].rstrip() for line in [*lines, f"{'':<{_LABEL}}{times}"]]


def _digit(value: float | None, top: float) -> str:
    if value is None:
        return " "
    return "." if value <= 0 or top <= 0 else str(min(9, int(10 * value / top)))
