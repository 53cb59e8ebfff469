"""One capture by itself -> its report: figures of the side where it was taken, and no comparison."""

from __future__ import annotations

import numpy as np

from nfslat.analyse import at_first, put_off
from nfslat.answer import model
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.called import called_of
from nfslat.figures.captures import capture_of, raw_rows, selection_of
from nfslat.figures.findings import findings_of_hangs, findings_of_one
from nfslat.figures.inflight import inflight_of_one
from nfslat.findings.verdict import verdict_of_hang
from nfslat.host_pairs import host_pairs
from nfslat.inflight.analysis import in_flight
from nfslat.model.tables import I64, Matched
from nfslat.model.units import to_ms
from nfslat.results import Side, one_side
from nfslat.select import Filters, is_without_filters
from nfslat.tally.captures import CaptureTally
from nfslat.tally.hangs import HangTally
from nfslat.tally.outcomes import OutcomeTally
from nfslat.tally.unanswered import UnansweredTally, in_flight_at_end
from nfslat.tally.unseen import UnseenTally
from nfslat.wire.unseen import Unseen, unseen


def report_one_side(side: Side, tool: model.Tool, filters: Filters, why_alone: str = "") -> model.Report:
    """The report on one capture: figures of the side where it was taken, and no comparison. `why_alone`: why nothing is
    inferred of the other side.

    Where it was taken cannot be known, so the SRT is the span that both kinds of side can give (definition "client").
    """
    missing, hangs = missing_calls(side.decoded), HangTally.of(side, filters).rows()
    unanswered = UnansweredTally.of(side, filters).rows()
    forward = side.forward
    srt_ns = (side.ops.t3 - side.ops.t0)[forward]
    answered_ms = float(to_ms(srt_ns.mean())) if len(srt_ns) else 0.0
    hanging = findings_of_hangs(hangs, unanswered, len(srt_ns), answered_ms)
    at_server = at_client = one_side(side, missing)._replace(waiting=in_flight_at_end(side))
    if len(rows := np.flatnonzero(side.forward).astype(np.int32)):
        servers = host_pairs(side.ops, side.ops, Matched(rows, rows)).servers
        at_server = at_first(at_server, [(one,) for one in servers])
    tried, recovered = put_off(side, side.forward)
    tally = CaptureTally.of(side, missing, "client", tool.srt)
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures={"capture": capture_of(tally, UnseenTally(_unseen_of_one(side, missing)).rows())},
        raw={"capture": raw_rows(tally)},
        selection=selection_of({"capture": tally}, filters),
        notes=[
            *([side.source.made_from] if side.source.made_from else []),
            *([f"nothing is inferred of the other host: {why_alone}"] if why_alone else []),
        ],
        hangs=hangs,
        unanswered=unanswered,
        inflight=inflight_of_one(side, in_flight(at_server, at_client)),
        called=called_of({"capture": side}, filters),
        outcomes=OutcomeTally.of({"capture": side}, side, tried, recovered).rows(),
        findings=[one.as_finding() for one in (*hanging, *findings_of_one(side, tried, recovered))],
        verdict=verdict_of_hang(hanging),
    )


def _unseen_of_one(side: Side, missing: I64) -> Unseen | None:
    if not len(side.decoded.details.unread) or not is_without_filters(side.reasons):
        return None
    return unseen(side.decoded, side.forward, missing, at_server=False)
