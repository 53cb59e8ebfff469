"""Figures that many parts of the report have. Same conventions as `nfslat.answer.model`."""

from __future__ import annotations

from typing import Any, NamedTuple

from nfslat.model.record import Record

PARTS = ["call_send", "call_net", "server", "reply_send", "reply_net"]
NETWORK = "network"  # both ways together, where the clocks do not tell them apart
# What a piece of an op is besides what is charged to a cause.
NO_CONNECTION, QUEUE, IN_THREAD, UNEXPLAINED = "no connection", "queue", "in thread", "unexplained"
# From where on ops that are not shown matter: by that share a mean shifts; they have that share of the time.
UNSEEN_SHIFT, UNSEEN_TIME_SHARE = 0.10, 1 / 3


class Summary(Record):
    """Of one population of durations, ms. Differences can be negative."""

    mean: float  # mean, ms
    p50: float  # median, ms
    p95: float  # 95th percentile, ms
    p99: float  # 99th percentile, ms
    max: float  # longest, ms


class GroupFigures(Record, kw_only=True):
    """What is told of every group of ops, whatever they are grouped by; `GROUP_FIGURES` has the words for each."""

    queue_ms: float | None = None  # mean wait for a server thread, of server_ms; None where the packets do not tell


class GroupFigure(NamedTuple):
    """A figure of `GroupFigures`: how the reports and the metrics name it."""

    name: str  # its field
    head: str  # of its column
    unit: str  # "ms", or "" for a number
    says: str
    stands_apart: bool = False  # tables of operations and of live have a place for it already


GROUP_FIGURES = (
    GroupFigure("queue_ms", "queue", "ms", "Mean wait for a thread of the server, of the server's time.", True),
)


def figures_of(group: object) -> dict[str, Any]:
    """The fields of `GroupFigures`, of anything that has properties of these names."""
    return {figure.name: getattr(group, figure.name) for figure in GROUP_FIGURES}


def matters(seen_ms: float, bounds_ms: tuple[float, float], share_of_time: tuple[float, float]) -> bool:
    """Do ops that are not shown make a mean of those that are shown one that misleads?"""
    return (
        share_of_time[1] > UNSEEN_TIME_SHARE
        or max(abs(bound_ms - seen_ms) for bound_ms in bounds_ms) > UNSEEN_SHIFT * seen_ms
    )
