"""Starts and ends of one side's ops -> how many were in flight in each bin of time."""

from __future__ import annotations

import numpy as np

from nfslat.answer import model
from nfslat.answer.pictures import Flying
from nfslat.figures.pictures.bins import Bins
from nfslat.kernels.levels import in_order
from nfslat.model.tables import I64

_NEARLY_ALL = 0.95  # of the ops that are drawn, those that a limit must be about


def flying(starts: I64, ends: I64, bins: Bins, limit: tuple[int, str] | None) -> Flying:
    """Mean and most in flight, an op being so from its start up to its end (`nfslat.inflight.levels`).

    `limit` is a number, and what it counts.
    """
    if not len(starts):
        return Flying([0.0] * bins.count, [0] * bins.count, *(limit or (None, None)))
    events = in_order(starts, ends)
    edges = bins.edges_ns - int(starts.min())
    begun, ended = (np.searchsorted(column, edges, side="left").tolist() for column in events)
    mean, most = [], []
    for at, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        new, gone = events.starts[begun[at] : begun[at + 1]], events.ends[ended[at] : ended[at + 1]]
        level = begun[at] - ended[at]
        # As floats, whose sums are exact unless wrong stamps make bins of years, where integers would overflow.
        area_ns = level * (end - begin) + float((end - new).sum(dtype=np.float64))
        area_ns -= float((end - gone).sum(dtype=np.float64))
        mean.append(max(area_ns / (end - begin), 0.0))
        # At one time ends come before starts: what there is behind the last start of a moment lasts for some time.
        levels = np.arange(level + 1, level + 1 + len(new)) - np.searchsorted(gone, new, side="right")
        # What ends as the bin begins is not in flight in it.
        at_once = level - int(np.searchsorted(gone, begin, side="right"))
        most.append(max(int(levels.max(initial=0)), at_once))
    return Flying(mean, most, *(limit or (None, None)))


def with_waiting(starts: I64, ends: I64, waiting: tuple[I64, I64] | None) -> tuple[I64, I64]:
    """The same, and calls without a reply, which are in flight until the capture ends."""
    return (starts, ends) if waiting is None else (np.append(starts, waiting[0]), np.append(ends, waiting[1]))


def limit_of_server(found: model.ServerInFlight) -> tuple[int, str] | None:
    """Threads; None where several servers answer in the capture, or nothing tells how many threads there are."""
    return (found.threads_estimate, "threads") if found.threads_estimate and found.servers == 1 else None


def limit_of_client(found: model.InFlight) -> tuple[int, str] | None:
    """Slots that nearly all ops share: of the session, exactly; else of all connections of a mount, likely ones."""
    ops = sum(mount.ops for mount in found.client.mounts)
    for session in found.sessions:
        if not session.callbacks and session.ops >= _NEARLY_ALL * ops and session.limit is not None:
            return session.own_limit or session.limit, "session slots"
    for mount in found.client.mounts[:1]:
        if mount.slots is not None and mount.ops >= _NEARLY_ALL * ops:
            return mount.slots, "slots"
    return None
