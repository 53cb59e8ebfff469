"""Fleet -> pictures over time: the wait in the server above a heat map of the clients, on one time axis."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nfslat.answer.words import ms
from nfslat.fleet.charts_clients import bars_chart, rows_axis, scatter_chart
from nfslat.fleet.model import Client, Fleet
from nfslat.fleet.sections.words import compared, moment, threads
from nfslat.report.charts.board import Board
from nfslat.report.charts.chart import Chart, Spec
from nfslat.report.charts.legend import Entry, box, legend
from nfslat.report.charts.marks import as_it_is, by_name, linear, note, px
from nfslat.report.charts.style import COLOUR, PLAIN, STRONG
from nfslat.report.text_layout import count, visible

_MOST = 100  # clients in the heat map
_HEAD_PX, _KEY_PX = 24, 40
_PALEST = 0.12
_HUES = {"network": "network", "server": "in the server"}
_LANE_PX = 64
_FAR = 3  # a number of threads so many times above what is in flight would flatten the lane
_MOST_TICKS = 8
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


def charts(fleet: Fleet) -> list[Chart]:
    """Of what the report knows; a picture that would show nothing is not there."""
    return [chart for make in (heat_chart, bars_chart, scatter_chart) for chart in make(fleet)]


def heat_chart(fleet: Fleet) -> list[Chart]:
    """Clients by time: by how much, and where, their ops take longer than those of the typical client."""
    ranked = [(rank, one) for rank, one in enumerate(compared(fleet.clients), 1) if one.windows][:_MOST]
    times = times_of(fleet)
    cells, strongest = _cells(ranked)
    if not cells:
        return []
    length = fleet.window_s
    row_px = 16 if len(ranked) <= 40 else 10
    labels = rows_axis(ranked, 11 if row_px > 12 else 9)
    left = 4 - int(labels["minExtent"])  # from the axis, where headings begin
    board = Board(_time_axis(times), gap=16)
    _server_lanes(board, fleet, times, left)
    top = board.top
    title = "Clients, those that suffer most first"
    # From the top down: the first is the one that suffers most.
    domain, high_px = [len(ranked), 0], row_px * len(ranked)
    drawn = board.lane(title, "clients", domain, high_px, labels, room=_HEAD_PX + _KEY_PX, left=left)
    drawn.y["axis"]["title"] = None
    drawn.marks += legend(_key(strongest), top + _HEAD_PX)
    # Names and times are looked up where they are drawn, for there are thousands of cells.
    known = (
        ("row", "client", [visible(one.name) for _, one in ranked]),
        ("bin", "from", [begin for begin, _ in times.spans]),
        ("bin", "to", [end for _, end in times.spans]),
        ("bin", "at", [times.said(begin) for begin, _ in times.spans]),
    )
    drawn.draw(
        "rect",
        cells,
        name="Clients by time",
        calculate={name: f"{json.dumps(value)}[datum.{key}]" for key, name, value in known}
        | {"rank": "datum.row + 1"}
        | {"strength": f"datum.more == 'none' ? 0.5 : {_PALEST} + {1 - _PALEST} * datum.s"},
        x="from",
        x2="to",
        y="row",
        y2="rank",
        fill=by_name("more", {name: STRONG[name] for name in _HUES} | {"none": "var(--grid)"}),
        fillOpacity=as_it_is("strength"),
        aria=False,
        tip=(
            ("client", "client"),
            ("row", "row from the top, from 0", ","),
            ("at", "time"),
            ("bin", "stretch of time, from 0", ","),
            ("ops", "ops (count)", ","),
            ("excess", "more than the typical client, ms", ",.4~r"),
            ("srt", "client SRT, mean, ms", ",.4~r"),
            ("net", "network, mean, ms", ",.4~r"),
            ("server", "server SRT, mean, ms", ",.4~r"),
            ("queue", "of it the wait for a thread, ms", ",.4~r"),
        ),
    )
    more = len(compared(fleet.clients)) - len(ranked)
    worst = max(ranked, key=lambda one: one[1].excess.total_s if one[1].excess else 0.0)[1]
    alt = (
        f"{count(len(ranked))} clients by time in {count(len(times.spans))} stretches of {length:.4g} s: by how much "
        "their ops take longer than those of the typical client; the strongest colour is "
        f"{ms(strongest)} ms or more. The worst over all is {visible(worst.name)}."
    )
    caption = (
        f"A cell is a client in {length:.4g} s: the stronger, the longer its ops take than what such ops take at the "
        "typical client in calm times. The last colour is that much or more, grey is no longer than that, and "
        "empty is no op. The colour is where the larger part of it arises: on the network or in the server. A column "
        "that is strong from top to bottom is common to all, a strong line is one client. Above it what calls wait for "
        "a thread of the server, and how many are in flight there, at the same times."
    )
    if more > 0:
        caption += f" {count(more)} more clients that suffer less are in the table."
    return [board.chart("heat", "Clients by time", caption, alt, "heat")]


def _key(top_ms: float) -> list[Entry]:
    """What strengths and colours stand for."""
    steps = (1 / 4, 2 / 4, 3 / 4, 1.0)
    strengths = [_PALEST + (1 - _PALEST) * math.sqrt(step) for step in steps]
    shown = ", ".join(ms(top_ms * step, 1) for step in steps)
    return [box(f"{said}: {shown} ms more", STRONG[name], *strengths) for name, said in _HUES.items()]


# ---- cells ----


def _cells(ranked: list[tuple[int, Client]]) -> tuple[list[dict[str, Any]], float]:
    """The cells of the map, and the excess (ms) from which on they are as strong as they get."""
    found = sorted(
        one.excess_ms
        for _, client in ranked
        for one in client.windows
        if one.excess_ms is not None and one.excess_ms > 0
    )
    # Not the largest: one stretch with a few slow ops would make all others pale.
    top = found[int(0.98 * (len(found) - 1))] if found else 1.0
    cells: list[dict[str, Any]] = []
    for row, (_, client) in enumerate(ranked):
        for at, one in enumerate(client.windows):
            if not one.ops or one.client_ms is None:
                continue
            excess = one.excess_ms
            strength = math.sqrt(min(excess / top, 1.0)) if excess is not None and excess > 0 else 0.0
            beyond = [getattr(one, f"{name}_excess_ms") or 0.0 for name in _HUES]
            more = max(zip(beyond, _HUES, strict=True))[1]
            figures = {
                "excess": excess,
                "srt": one.client_ms,
                "net": one.network_ms,
                "server": one.server_ms,
                "queue": one.queue_ms,
            }
            cells.append(
                {"row": row, "bin": at, "ops": one.ops, "more": more if strength else "none", "s": round(strength, 2)}
                | {name: None if value is None else float(f"{value:.4g}") for name, value in figures.items()}
            )
    return cells, top


# ---- time ----


@dataclass(frozen=True)
class Times:
    """The windows in seconds from the begin of the first one, and that begin where it is known."""

    begin: datetime | None
    spans: list[tuple[float, float]]

    @property
    def end(self) -> float:
        """Of the last window."""
        return max((stop for _, stop in self.spans), default=1.0)

    def said(self, seconds: float) -> str:
        """Time of day, so many seconds after the begin."""
        if self.begin is None:
            return f"{seconds:g} s"
        return moment((self.begin + timedelta(seconds=seconds)).isoformat(), self.begin.isoformat())


def times_of(fleet: Fleet) -> Times:
    """The windows of the server, or where it has none of the clients; the last one may be longer."""
    windows = [] if fleet.server is None else fleet.server.windows
    number = max([len(windows), *(len(one.windows) for one in fleet.clients)])
    length = fleet.window_s or 1.0
    spans = [(at * length, (at + 1) * length) for at in range(number)]
    begin = _instant(windows[0].begin if windows else fleet.captures.begin)
    end = _instant(windows[-1].end) if len(windows) == number > 0 else None
    if begin is not None and end is not None and (last := (end - begin).total_seconds()) > spans[-1][0]:
        spans[-1] = spans[-1][0], last
    return Times(begin, spans)


def _instant(at: str | None) -> datetime | None:
    """A moment with its zone; None for what is none."""
    try:
        found = None if at is None else datetime.fromisoformat(at)
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found


def _time_axis(times: Times) -> Spec:
    """The x channel: seconds since the begin, labelled with the time of day at whole steps of the clock."""
    end, begin = times.end, times.begin
    into_day = 0.0
    if begin is not None:
        into_day = (begin - begin.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    step = next((float(one) for one in _STEPS_S if end / one <= _MOST_TICKS), end / _MOST_TICKS)
    ticks = [one * step - into_day for one in range(int(into_day // step), int((into_day + end) // step) + 1)]
    ticks = [one for one in ticks if 0 <= one <= end]
    said = [times.said(tick) for tick in ticks]
    if begin is not None and all(one.endswith(":00") for one in said):
        said = [one.removesuffix(":00") for one in said]
    labels = json.dumps(said)
    title = "time" if begin is None else f"time, server's clock, {begin.date().isoformat()}"
    axis = {
        "title": title,
        "values": ticks,
        # Of the tick next to it: a number that comes back from Vega need not be the same to the last bit.
        "labelExpr": f"{labels}[round((datum.value - {ticks[0] if ticks else 0.0!r}) / {step!r})]",
        "grid": False,
        "labelSeparation": 16,
        "titleLimit": 500,
    }
    return {**linear("time", 0.0, end), "axis": axis}


def _server_lanes(board: Board, fleet: Fleet, times: Times, left: int) -> None:
    """What calls wait for a thread and how many ops are in flight, by window."""
    server = fleet.server
    if server is None or not server.windows:
        return
    for name, title, axis in (
        ("queue_ms", "Server: mean wait for a thread, ms", "ms"),
        ("in_flight_mean", "Server: mean of ops in flight", "ops"),
    ):
        values: list[dict[str, Any]] = [
            {"from": begin, "to": end, "at": times.said(begin), name: float(f"{value:.5g}"), "base": 0, "ops": one.ops}
            for (begin, end), one in zip(times.spans, server.windows, strict=False)
            if (value := getattr(one, name)) is not None
        ]
        if not values:
            continue
        most = max(one[name] for one in values)
        limit = server.inflight.threads_estimate if name == "in_flight_mean" else None
        shown = limit is not None and limit <= _FAR * most
        top = max([most, *([limit] if shown and limit is not None else [])])
        text = title if limit is None else f"Server: ops in flight; line: {threads(limit, None)}"
        ticks = {"format": PLAIN, "tickCount": 3}
        drawn = board.lane(text, axis, [0, top * 1.05 or 1.0], _LANE_PX, ticks, room=_HEAD_PX, left=left)
        tip = ("at", "from"), (name, title, ",.4~r"), ("ops", "calls (count)", ",")
        look = {"fill": COLOUR["server"], "aria": False}
        drawn.draw("rect", values, name=title, x="from", x2="to", y=name, y2="base", tip=tip, **look)
        if shown and limit is not None:
            drawn.level(limit, style="inked", strokeWidth=1.5, strokeDash=[8, 4])
        elif limit is not None:
            drawn.marks.append(note("above this axis", px(4), px(drawn.top + 10)))
