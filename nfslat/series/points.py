"""A run -> its point in the series: means of each part, how well the disparity is known, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nfslat.answer.model import Report
from nfslat.diff.coarse import load_of
from nfslat.diff.runs import Figures, Run, Single
from nfslat.diff.statistics import CONFIDENCE, DRIFT, SLICES, Sample, student_quantile
from nfslat.model.protocol import DATA_OPS, NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.series.inputs import Asked
from nfslat.series.model import Point

_NORMAL = 1.96  # standard errors that hold 95 % of a normal distribution


class Measured(Record):
    """Means of a run, ms. `error_ms` is of what lies between the client's wire and a thread of the server."""

    run: Run
    asked: Asked
    ops: int
    client_ms: float
    server_ms: float
    queue_ms: float | None
    application_ms: float | None
    storage_ms: float | None
    error_ms: float | None  # None: the run has no single ops, or too few
    client_error_ms: float | None

    @property
    def in_thread_ms(self) -> float:
        """Of the server; all of its time where the wait for a thread is not known."""
        return self.server_ms - (self.queue_ms or 0.0)

    def part_ms(self, name: str, bottom: str) -> float:
        """Of `model.PARTS`; they sum to the time from the application to the storage, and "in_thread" to the rest."""
        match name:
            case "above":
                return 0.0 if self.application_ms is None else self.application_ms - self.client_ms
            case "network":
                return self.client_ms - self.server_ms
            case "queue":
                return self.queue_ms or 0.0
            case "beyond":
                return self.in_thread_ms - (self.storage_ms or 0.0) if bottom == "storage" else 0.0
        return (self.storage_ms or 0.0) if bottom == "storage" else self.in_thread_ms


def measured(run: Run, asked: Asked) -> Measured:
    """Of READ and WRITE where the run has some, as an application's latency is; else of all ops."""
    report = run.report
    application = asked.app_ms if asked.app_ms is not None else _of_stack(report, "application")
    storage = asked.storage_ms if asked.storage_ms is not None else _of_stack(report, "storage")
    if run.single is not None:
        return _of_ops(run, asked, run.single, application, storage)
    rows = [one for one in run.figures if one.op.split(" ")[0] in DATA_OPS] or run.figures
    queued = [_queue(one) for one in rows]
    known = _idle(report) if None in queued else True
    return Measured(
        run,
        asked,
        sum(one.count for one in rows),
        _mean(rows, [one.client.mean for one in rows]),
        _mean(rows, [one.server.mean for one in rows]),
        _mean(rows, [one or 0.0 for one in queued]) if known else None,
        application,
        storage,
        None,
        None,
    )


def point(one: Measured, top: str, bottom: str) -> Point:
    """As it is shown; `top` and `bottom` are where the disparity begins and ends."""
    rate, level = load_of(one.run)
    report = one.run.report
    server = None if report is None or report.inflight is None else report.inflight.server
    return Point(
        name=one.asked.name,
        kind=one.run.kind,
        load=one.asked.load,
        ops=one.ops,
        ops_per_s=rate,
        in_flight=level,
        application_ms=one.application_ms,
        client_ms=one.client_ms,
        network_ms=one.client_ms - one.server_ms,
        server_ms=one.server_ms,
        queue_ms=one.queue_ms,
        storage_ms=one.storage_ms,
        disparity_ms=disparity(one, top, bottom),
        disparity_error_ms=error(one, top, bottom),
        threads=server.threads_estimate if server is not None and server.limited else None,
        slots=_slots(report),
        cause=None if report is None or report.verdict is None else report.verdict.cause,
    )


def disparity(one: Measured, top: str, bottom: str) -> float:
    """From the application, or the client's wire, down to the storage, or to a thread."""
    parts = ["network", "queue", *(["above"] if top == "application" else []), *(["beyond"] * (bottom == "storage"))]
    return math.fsum(one.part_ms(part, bottom) for part in parts)


def error(one: Measured, top: str, bottom: str) -> float | None:
    """Standard error of the disparity. Nobody says how well the application's mean is known: no better, in proportion,
    than that of the client."""
    if one.error_ms is None or one.client_error_ms is None:
        return None
    above = one.part_ms("above", bottom) if top == "application" else 0.0
    of_ops = one.client_error_ms if bottom == "storage" else one.error_ms
    return math.hypot(of_ops, above / one.client_ms * one.client_error_ms if one.client_ms else 0.0)


def _of_ops(run: Run, asked: Asked, single: Single, application: float | None, storage: float | None) -> Measured:
    of_op = np.array([name in DATA_OPS for name in single.ops], dtype=np.bool_)
    rows = of_op[single.op] if of_op[single.op].any() else np.ones(len(single), dtype=np.bool_)
    server = single.parts["server"]
    queue = _waited(single, rows)
    gap = single.client_ns - server + (0 if queue is None else queue)
    samples = [single.sample(values, rows) for values in (gap, single.client_ns)]
    # What is inferred of a host is off by so much in each op alike.
    errors = [math.hypot(_error(one), single.inferred_error_ns / 1e6) for one in samples if one.enough]
    ms = [float(values[rows].mean()) / 1e6 for values in (single.client_ns, server)]
    return Measured(
        run,
        asked,
        int(np.count_nonzero(rows)),
        ms[0],
        ms[1],
        None if queue is None else float(queue[rows].mean()) / 1e6,
        application,
        storage,
        *(errors if len(errors) == 2 else (None, None)),
    )


def _waited(single: Single, rows: Bool) -> I64 | None:
    """Of each op its wait for a thread, where it is known of nearly all."""
    if single.queue_ns is None:
        return None
    unknown = single.queue_ns == NULL
    if 20 * int(np.count_nonzero(unknown & rows)) > int(np.count_nonzero(rows)):
        return None
    return np.where(unknown, 0, single.queue_ns)


def _error(one: Sample) -> float:
    """Of stretches of the run; and no less than it drifts. Wider by what few stretches leave open."""
    early, late = one.halves
    drift = abs(late.mean - early.mean) * DRIFT / 4 if len(early) and len(late) else 0.0
    return max(one.error, drift) * student_quantile(CONFIDENCE, SLICES - 1) / _NORMAL


def _queue(one: Figures) -> float | None:
    return one.parts.get("queue")


def _idle(report: Report | None) -> bool:
    """Does the report say that no call waits for a thread?"""
    server = None if report is None or report.inflight is None else report.inflight.server
    return server is not None and server.cannot is None and not server.limited


def _mean(rows: Sequence[Figures], values: Sequence[float]) -> float:
    whole = sum(one.count for one in rows)
    return math.fsum(one.count * value for one, value in zip(rows, values, strict=True)) / whole


def _of_stack(report: Report | None, layer: str) -> float | None:
    """A layer of the stack that a report was given; of several operations the mean."""
    found = [row for row in report.stack if row.layer == layer] if report is not None else []
    if len(found) == 1:
        return found[0].ms
    counts = {row.op: row.count for row in report.matched.by_op} if report is not None and report.matched else {}
    weights = [counts.get(row.op, 0) for row in found]
    if not sum(weights):
        return None
    return math.fsum(weight * row.ms for weight, row in zip(weights, found, strict=True)) / sum(weights)


def _slots(report: Report | None) -> int | None:
    """Of the client, where its calls wait for one: those of its connections, or of a session."""
    if report is None or report.inflight is None:
        return None
    session = next((one.limit for one in report.inflight.sessions if one.limited and not one.callbacks), None)
    client = report.inflight.client
    return session or (client.slots_estimate if client.limited else None)
