"""Host pauses, lost connections and losses over time -> what axes of time mark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nfslat.answer.pictures import Event, Way
from nfslat.figures.pictures.bins import Bins
from nfslat.model.units import iso, to_ms, to_s
from nfslat.results import Analysis, Side
from nfslat.wire.reconnects import without_connection

_GAP = 1  # bins without a loss within a burst
_OF_ALL_LOST = 0.1  # of the time that losses cost: a burst costs as much
_OF_THE_TIME = 0.5  # losses that go on for longer are no burst


def events_of(c: Analysis, bins: Bins, ways: Mapping[str, Way | None]) -> list[Event]:
    """`ways` are those of who sends; in order of time."""
    pauses = () if c.charges is None else c.charges.pauses
    found = [_event("pause", one.side, one.begin_ns, one.end_ns, bins) for one in pauses]
    found += connections_lost(c.client, bins)
    found += [one for sender, way in ways.items() if way is not None for one in bursts(sender, way.lost_ms, bins)]
    return sorted(found, key=lambda one: one.at_s)


def connections_lost(side: Side, bins: Bins) -> list[Event]:
    """One for each time in which the client had no connection."""
    return [_event("no-connection", None, begin, end, bins) for begin, end in times_unconnected(side)]


def times_unconnected(side: Side) -> list[tuple[int, int]]:
    """Times in which the client had no connection, as the client's capture shows them; one where they overlap."""
    ops, tcp = side.ops, side.decoded.details.tcp
    _, since, until = without_connection(ops, side.decoded.loose, tcp, side.forward)
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(zip(since.tolist(), until.tolist(), strict=True)):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def bursts(sender: str, lost_ms: list[float], bins: Bins) -> Iterator[Event]:
    """Runs of bins in which losses cost ops time, those that stand out."""
    hit = np.flatnonzero(np.array(lost_ms) > 0).tolist()
    runs: list[list[int]] = []
    for at in hit:
        if runs and at - runs[-1][-1] <= 1 + _GAP:
            runs[-1].append(at)
        else:
            runs.append([at])
    whole = sum(lost_ms)
    for run in runs:
        cost, first, last = sum(lost_ms[at] for at in run), run[0], run[-1]
        if cost >= _OF_ALL_LOST * whole and last - first + 1 <= max(_OF_THE_TIME * bins.count, 1):
            begin_ns, end_ns = (bins.begin_ns + at * bins.width_ns for at in (first, last + 1))
            yield _event("loss", sender, begin_ns, end_ns, bins, cost)


def _event(what: str, side: str | None, begin_ns: int, end_ns: int, bins: Bins, cost_ms: float | None = None) -> Event:
    return Event(what, side, iso(begin_ns), to_s(begin_ns - bins.begin_ns), to_ms(max(end_ns - begin_ns, 0)), cost_ms)
