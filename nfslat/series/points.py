"""A run -> its point in the series: means of each part, how well the disparity is known, and what limits it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nfslat.answer.model import Report
from nfslat.diff.runs import Ns, Ops, Run, Single
from nfslat.diff.statistics import CONFIDENCE, DRIFT, SLICES, Means, student_quantile
from nfslat.model.protocol import DATA_OPS, NULL
from nfslat.model.record import Record
from nfslat.model.tables import Bool
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.series.inputs import Asked
from nfslat.series.model import Point

_NORMAL = 1.96  # standard errors that hold 95 % of a normal distribution
_MOST_UNKNOWN = 0.05  # of the ops: where the wait for a thread is known of fewer, it is not known


class Measured(Record):
    """A run and its point, whose disparity waits for `placed`."""

    run: Run
    point: Point
    gap_error_ms: float | None  # standard error of the time between the client's wire and a thread; None: not known
    client_error_ms: float | None

    @property
    def load(self) -> float:
        """0 where none was given."""
        return self.point.load or 0.0


def parts_of(point: Point, top: str, bottom: str) -> dict[str, float]:
    """What a mean consists of, from the application, or the client's wire, to the storage, a thread, or the server."""
    application = point.application_ms if top == "application" else None
    queue = (point.queue_ms or 0.0) if bottom != "server" else 0.0
    in_thread = point.server_ms - queue
    stored = point.storage_ms if bottom == "storage" else None
    return {
        **({} if application is None else {"above": application - point.client_ms}),
        "network": point.network_ms,
        **({} if bottom == "server" else {"queue": queue}),
        **({} if stored is None else {"beyond": in_thread - stored}),
        "in_thread": in_thread if stored is None else stored,
    }


def measured(run: Run, asked: Asked) -> Measured:
    """Of READ and WRITE where the run has some, as an application's latency is; else of all ops."""
    report = run.report
    ops: Ops = run.summaries if run.single is None else run.single
    is_data = np.array([name.split(" ")[0] in DATA_OPS for name in ops.ops], dtype=np.bool_)[ops.op]
    wanted = is_data if is_data.any() else ~is_data
    kind = np.where(wanted, 0, 1)
    client, server = (ops.means_ms(side, kind, 2).take([0]) for side in ("client", "server"))
    waits = _waits_ns(ops, wanted, report)
    gap = ops.parts["call_send"] + ops.parts["network"] + ops.parts["reply_send"] + (0 if waits is None else waits)
    errors = [
        _error_ms(of, ops.inferred_error_ns) for of in (ops.means(gap, kind, 2).in_units(NS_PER_MS).take([0]), client)
    ]
    limits = report.inflight.server if report.inflight is not None else None
    return Measured(
        run,
        Point(
            name=asked.name,
            kind=run.kind,
            load=asked.load,
            ops=int(np.count_nonzero(wanted) if ops.count is None else ops.count[wanted].sum()),
            ops_per_s=run.ops_per_s,
            in_flight=run.in_flight,
            application_ms=asked.app_ms if asked.app_ms is not None else _of_stack(report, "application"),
            client_ms=float(client.mean[0]),
            network_ms=float(client.mean[0] - server.mean[0]),
            server_ms=float(server.mean[0]),
            queue_ms=None if waits is None else float(ops.means(waits, kind, 2).in_units(NS_PER_MS).mean[0]),
            storage_ms=asked.storage_ms if asked.storage_ms is not None else _of_stack(report, "storage"),
            disparity_ms=0.0,
            disparity_error_ms=None,
            threads=limits.threads_estimate if limits is not None and limits.limited else None,
            slots=_slots(report),
            cause=None if report.verdict is None else report.verdict.cause,
        ),
        *(errors if None not in errors else (None, None)),
    )


def placed(one: Measured, top: str, bottom: str) -> Measured:
    """With the disparity between them. Nobody says how well the application's mean is known: no better, in proportion,
    than that of the client."""
    of = parts_of(one.point, top, bottom)
    disparity = math.fsum(ms for name, ms in of.items() if name != "in_thread")
    error = None
    if one.gap_error_ms is not None and one.client_error_ms is not None:
        of_ops = one.client_error_ms if bottom == "storage" else one.gap_error_ms
        above = of.get("above", 0.0) / one.point.client_ms if one.point.client_ms else 0.0
        error = math.hypot(of_ops, above * one.client_error_ms)
    return replace(one, point=replace(one.point, disparity_ms=disparity, disparity_error_ms=error))


def _waits_ns(ops: Ops, wanted: Bool, report: Report) -> Ns | None:
    """For a thread, of each row; None where it is known of too few, and the report does not say that no call waits."""
    if ops.queue_ns is None:
        return None
    unknown = ops.queue_ns == NULL
    share = np.count_nonzero(unknown & wanted) / np.count_nonzero(wanted)
    server = None if report.inflight is None else report.inflight.server
    idle = server is not None and server.cannot is None and not server.limited
    if share > _MOST_UNKNOWN if isinstance(ops, Single) else share and not idle:
        return None
    return np.where(unknown, 0, ops.queue_ns)


def _error_ms(of: Means, inferred_ns: float) -> float | None:
    """Of stretches of the run; no less than it drifts, and than what is inferred of a host is off in each op alike.
    Wider by what few stretches leave open."""
    if of.over is None or not of.enough:
        return None
    early, late = of.halves[0].tolist()
    error = max(math.sqrt(of.variance(np.ones(1))), abs(late - early) * DRIFT / 4)
    return math.hypot(error * student_quantile(CONFIDENCE, SLICES - 1) / _NORMAL, to_ms(inferred_ns))


def _of_stack(report: Report, layer: str) -> float | None:
    """A layer of the stack that a report was given; of several operations the mean."""
    found = [row for row in report.stack if row.layer == layer]
    if len(found) == 1:
        return found[0].ms
    counts = {row.op: row.count for row in report.matched.by_op} if report.matched else {}
    weights = [counts.get(row.op, 0) for row in found]
    if not sum(weights):
        return None
    return math.fsum(weight * row.ms for weight, row in zip(weights, found, strict=True)) / sum(weights)


def _slots(report: Report) -> int | None:
    """Of the client, where its calls wait for one: those of its connections, or of a session."""
    if report.inflight is None:
        return None
    session = next((one.limit for one in report.inflight.sessions if one.limited and not one.callbacks), None)
    client = report.inflight.client
    return session or (client.slots_estimate if client.limited else None)
