"""Fleet -> pictures over time: the wait in the server above a heat map of the clients, on one time axis."""

from __future__ import annotations

import json
import math
from typing import Any

from nfslat.answer.words import ms
from nfslat.fleet.charts_clients import bars_chart, rows_axis, scatter_chart
from nfslat.fleet.charts_time import Times, as_it_is, by_name, parts, server_lanes, time_axis, times_of
from nfslat.fleet.model import Client, Fleet
from nfslat.fleet.sections.words import compared, mean_over
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.legend import Entry, box, legend
from nfslat.report.charts.style import STRONG, lane, lanes, tips, words
from nfslat.report.text_layout import count, visible

_MOST = 100  # clients in the heat map
_HEAD_PX, _KEY_PX = 24, 40
_PALEST = 0.12
_HUES = {"network": "network", "server": "in the server"}


def charts(fleet: Fleet) -> list[Chart]:
    """Of what the report knows; a picture that would show nothing is not there."""
    return [chart for make in (heat_chart, bars_chart, scatter_chart) for chart in make(fleet)]


def heat_chart(fleet: Fleet) -> list[Chart]:
    """Clients by time: by how much, and where, their ops take longer than those of the typical client."""
    ranked = [(rank, one) for rank, one in enumerate(compared(fleet.clients), 1) if one.windows][:_MOST]
    bins = max((len(one.windows) for _, one in ranked), default=0)
    times = times_of(fleet, bins)
    cells, top = _cells(ranked, times)
    if not cells:
        return []
    length = fleet.window_s * times.per
    x = time_axis(times)
    row_px = 16 if len(ranked) <= 40 else 10
    labels = rows_axis(ranked, 11 if row_px > 12 else 9)
    left = 4 - int(labels["minExtent"])
    found, px = server_lanes(fleet, times, x, left)
    # From the top down: the first is the one that suffers most.
    drawn = lane(px + _HEAD_PX + _KEY_PX, row_px * len(ranked), "clients", [len(ranked), 0], labels)
    drawn.y["axis"]["title"] = None
    drawn.marks += [
        words("Clients, those that suffer most first", {"value": left}, {"value": px + 14}, style="heading"),
        *legend(_key(top), px + _HEAD_PX),
        {
            "description": "Clients by time",
            "data": {"values": cells},
            # Names and times are looked up where they are drawn, for there are thousands of cells.
            "transform": [
                {"calculate": f"{json.dumps(value)}[datum.{key}]", "as": name}
                for key, name, value in (
                    ("row", "client", [visible(one.name) for _, one in ranked]),
                    ("bin", "from", [begin for begin, _ in times.spans]),
                    ("bin", "to", [end for _, end in times.spans]),
                    ("bin", "at", [times.said(begin) for begin, _ in times.spans]),
                )
            ]
            + [
                {"calculate": "datum.row + 1", "as": "rank"},
                {"calculate": f"datum.more == 'none' ? 0.5 : {_PALEST} + {1 - _PALEST} * datum.s", "as": "strength"},
            ],
            "mark": {"type": "rect", "aria": False},
            "encoding": {
                "x": {**x, "field": "from"},
                "x2": {"field": "to"},
                "y": drawn.at("row"),
                "y2": {"field": "rank"},
                "fill": by_name("more", {name: STRONG[name] for name in _HUES} | {"none": "var(--grid)"}),
                "fillOpacity": as_it_is("strength"),
                "tooltip": tips(
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
            },
        },
    ]
    found.append(drawn)
    more = len(compared(fleet.clients)) - len(ranked)
    worst = max(ranked, key=lambda one: one[1].excess.total_s if one[1].excess else 0.0)[1]
    alt = (
        f"{count(len(ranked))} clients by time in {count(len(times.spans))} stretches of {length:.4g} s: by how much "
        f"their ops take longer than those of the typical client; the strongest colour is {ms(top)} ms or more. The "
        f"worst over all is {visible(worst.name)}."
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
    height = drawn.bottom
    return [Chart("heat", "Clients by time", caption, alt, lanes(found, height, alt), height + 60, "heat")]


def _key(top_ms: float) -> list[Entry]:
    """What strengths and colours stand for."""
    steps = (1 / 4, 2 / 4, 3 / 4, 1.0)
    strengths = [_PALEST + (1 - _PALEST) * math.sqrt(step) for step in steps]
    shown = ", ".join(ms(top_ms * step, 1) for step in steps)
    return [box(f"{said}: {shown} ms more", STRONG[name], *strengths) for name, said in _HUES.items()]


# ---- cells ----


def _cells(ranked: list[tuple[int, Client]], times: Times) -> tuple[list[dict[str, Any]], float]:
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
        for at, part in enumerate(parts(client.windows, times)):
            ops, srt = sum(one.ops for one in part), mean_over(part, "client_ms")
            if not ops or srt is None or at >= len(times.spans):
                continue
            excess, net, inside = (mean_over(part, f"{name}_ms") for name in ("excess", "network", "server"))
            strength = math.sqrt(min(excess / top, 1.0)) if excess is not None and excess > 0 else 0.0
            beyond = [mean_over(part, f"{name}_excess_ms") or 0.0 for name in _HUES]
            more = max(zip(beyond, _HUES, strict=True))[1]
            figures = {"excess": excess, "srt": srt, "net": net, "server": inside, "queue": mean_over(part, "queue_ms")}
            cells.append(
                {"row": row, "bin": at, "ops": ops, "more": more if strength else "none", "s": round(strength, 2)}
                | {name: None if value is None else float(f"{value:.4g}") for name, value in figures.items()}
            )
    return cells, top
