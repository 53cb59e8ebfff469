"""What is kept of all windows -> the report, as of two captures that are read at once.

Percentiles of more than `nfslat.tally.durations.MOST_EXACT` operations are to within
`nfslat.tally.sketch.RELATIVE_ERROR`; those of the slowest 1 %, and all counts, sums and means, are exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nfslat.answer import model
from nfslat.answer.words import missing_ops
from nfslat.errors import InputError
from nfslat.evidence.known import Known
from nfslat.figures.audit.pair import common, left_out, overlap_note
from nfslat.figures.completeness import completeness
from nfslat.figures.host_pairs import PairTold
from nfslat.figures.matched import part_summaries
from nfslat.figures.notes import notes_of
from nfslat.figures.objectives import Slo
from nfslat.figures.phases import Span, Told
from nfslat.figures.stack import Layer, layers
from nfslat.findings.capture import capture_findings
from nfslat.findings.clock import clock_findings
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.layers import Layers
from nfslat.findings.parts import Whole as OfAll
from nfslat.findings.parts import lead_by_parts
from nfslat.findings.words import times
from nfslat.flow.judged import Judgement
from nfslat.flow.judged import told as judged
from nfslat.flow.whole import SIDES, Whole
from nfslat.model.tables import I64, Miss
from nfslat.model.units import iso, to_ms, to_s
from nfslat.select import refuse_nothing_left
from nfslat.tally.durations import CLIENT, MOST_EXACT, SERVER
from nfslat.tally.keys import names_of
from nfslat.tally.ops import OpFigures
from nfslat.tally.sketch import RELATIVE_ERROR
from nfslat.tally.slowest import CLIENT as SLOW_CLIENT
from nfslat.tally.slowest import STRETCH

_MOST_PHASES = 50  # that are listed


def report_of(whole: Whole, tool: model.Tool, slo: Sequence[Slo] = ()) -> model.Report:
    """Raises ``InputError`` where no op is in both captures."""
    filters = whole.sides["client"].filters
    if not whole.matched and filters.text and not any(side.ops for side in whole.sides.values()):
        refuse_nothing_left(filters, np.ones(1, dtype=np.int8))
    if not whole.matched:
        raise InputError("no operation is in both captures; were both taken at the same time, of the same traffic?")
    (total,) = whole.by_op.total().rows()
    columns = whole.slowest.columns()
    matched = _matched(whole, total)
    inflight = whole.flying.report(total.queue_ms, total.mean_ms(SERVER) or 0.0)
    captures = {name: side.capture(whole.unseen[name].rows(), whole.audits[name]) for name, side in whole.sides.items()}
    clock = whole.clocks.rows()
    of_clock, (audit, left) = clock_findings(clock), _overlap(whole)
    audit = [*audit, *whole.audit]
    objectives = [_objective(whole, total, one) for one in slo]
    of_hosts, told_of_pairs = whole.hosts.told()
    causes, verdict, phases = _judged(whole, matched, columns, objectives, told_of_pairs)
    stacked = _stack(matched.total, inflight)
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures=captures,
        raw={name: side.rows() for name, side in whole.sides.items()},
        selection=model.Selection(
            whole.sides["client"].filters.text, {name: side.left_out() for name, side in whole.sides.items()}
        ),
        notes=notes_of(audit, of_clock, whole.remarks, left, [_how(whole)]),
        matched=matched,
        clock=clock,
        audit=audit,
        transport=whole.transport.rows(),
        hangs=whole.hangs.rows(),
        charges=whole.charges.rows(),
        inflight=inflight,
        outcomes=sum((side.outcomes for side in whole.sides.values()), whole.outcomes).rows(),
        stack=stacked,
        findings=[
            *(one.as_finding() for one in causes),
            *capture_findings(captures, audit),
            *of_clock,
        ],
        verdict=verdict,
        phases=phases,
        pairs=of_hosts,
    )


def _overlap(whole: Whole) -> tuple[list[model.AuditNote], list[str]]:
    """What is to be said of the time that both captures ran; nothing where a clock was set, or is not known."""
    theta_ns = whole.clocks.theta_ns
    outside = {name: (whole.unmatched[name][Miss.OUTSIDE_OVERLAP.name], whole.sides[name].ops) for name in SIDES}
    if theta_ns is None:
        return [], []
    (server, client) = ((*ran, max(ran[1] - ran[0], 1)) for ran in (whole.sides[name].ran_ns for name in SIDES))
    both = common(server, client, theta_ns)
    note = overlap_note(both, *outside["client"])
    return [note] if note.count else [], left_out(both, outside)


def _how(whole: Whole) -> str:
    took_s = to_s(whole.runs[-1].end_ns - whole.runs[0].begin_ns) / max(whole.windows, 1)
    return (
        f"the captures were read in {times(whole.windows, 'window')} of {took_s:,.1f} s on average: counts and means "
        f"are of all operations, percentiles of more than {MOST_EXACT:,} to within {RELATIVE_ERROR * 100:.1f} %, and "
        "threads, slots and causes were judged window by window"
    )


def _matched(whole: Whole, total: OpFigures) -> model.MatchedOps:
    rows = sorted(whole.by_op.rows(), key=lambda row: (-row.count, row.label))
    lost = {name: side.lost(whole.conns[name]) for name, side in whole.sides.items()}
    return model.MatchedOps(
        processed={name: side.ops + whole.agreed[name] for name, side in whole.sides.items()},
        ops=whole.matched,
        untimed=whole.untimed,
        unmatched={name: {why: ops for why, ops in whole.unmatched[name].items() if ops} for name in SIDES},
        by_op=[row.matched_row(names_of(row.label)) for row in rows],
        total=total.matched_row(("", "all", "")),
        slowest=_slowest(whole, total),
        parts=_parts(whole, total),
        completeness=completeness(whole.matched, whole.untimed, whole.alone, lost),
    )


def _slowest(whole: Whole, total: OpFigures) -> model.MatchedRow:
    row = whole.slowest.row(total.one_way_error_ms)
    times = whole.slowest.ops / row.count  # of which those that are kept are a sample
    return dataclasses.replace(row, count=whole.slowest.ops, negative_network=round(row.negative_network * times))


def _parts(whole: Whole, total: OpFigures) -> model.PartSummaries | None:
    times = whole.parts
    error = None if total.one_way_error_ms is None else to_ms(whole.clocks.worst_error_ns)
    if times is None:
        return None
    return part_summaries(lambda name: times.summary(name, 0, total.sum(name) / total.count), error)


def _slow_shares(columns: I64) -> dict[int, float]:
    """Shares of the stretches in the time of the slowest ops."""
    stretches, at = np.unique(columns[STRETCH], return_inverse=True)
    sums = np.bincount(at, columns[SLOW_CLIENT].astype(np.float64))
    return dict(zip(stretches.tolist(), (sums / sums.sum()).tolist(), strict=True))


def _stack(row: model.MatchedRow | None, inflight: model.InFlight | None) -> list[model.StackRow]:
    server = None if inflight is None else inflight.server
    if row is None or server is None or not server.limited:
        return []
    layer = Layer(
        title="all",
        client=row.client_ms.mean,
        server=row.server_ms.mean,
        queue=row.queue_ms,
        threads=server.threads_estimate,
    )
    return layers(layer, Known())[0]


def _objective(whole: Whole, total: OpFigures, asked: Slo) -> model.Objective:
    by_name = {row.label: row for row in whole.by_op.by(lambda key: names_of(key)[1]).rows()}
    row = total if asked.op == "all" else by_name.get(asked.op)
    measured = None if row is None else float(getattr(row.summary(CLIENT), asked.figure))
    met = None if measured is None else measured <= asked.limit_ms
    return model.Objective(asked.text, asked.op, asked.figure, "client", asked.limit_ms, measured, met)


# --- What is said of it -----------------------------------------------------------------------------------------------


def _judged(
    whole: Whole,
    matched: model.MatchedOps,
    columns: I64,
    objectives: Sequence[model.Objective],
    pairs: Sequence[PairTold],
) -> tuple[list[Diagnosis], model.Verdict | None, list[model.Phase]]:
    """Causes, the verdict and the phases: by the parts that say something else."""
    every = Judgement.merge(whole.runs)
    ground = every.ground._replace(
        complete=matched.completeness.share,
        incomplete=missing_ops(matched.completeness.missing),
    )
    every = dataclasses.replace(every, ground=ground)
    mean, slowest = _means(every, matched)
    in_stretch = _slow_shares(columns)
    causes, verdict = judged(every, mean, slowest, in_stretch, objectives)
    said = OfAll(causes, verdict, mean, every.threads, is_reckoned=every.rests_on.unseen is not None)
    if (of_pairs := lead_by_parts(pairs, said, of_hosts=True)) is not None:
        return *of_pairs, []
    if len(whole.runs) < 2:
        return causes, verdict, []
    phases = []
    for number, run in enumerate(whole.runs):
        # How many of the slowest ops of a phase are in which stretch is not kept.
        of_run = judged(run, run.mean, None, dict.fromkeys(run.stretches, 1 / len(run.stretches)))
        span = Span(None if number == 0 else run.begin_ns, None if number == len(whole.runs) - 1 else run.end_ns, 0)
        phases.append(Told(span, _phase(run, every, of_run[1]), *of_run))
    causes, verdict = lead_by_parts(phases, said) or (causes, verdict)
    return causes, verdict, [one.row for one in phases]


def _means(of: Judgement, matched: model.MatchedOps) -> tuple[Layers, Layers | None]:
    """With the figures that the tables have."""
    total, slow = matched.total, matched.slowest
    mean = of.mean
    if total is None or slow is None:
        return mean, None
    if of.rests_on.unseen is None:
        mean = dataclasses.replace(
            mean, server_ms=total.server_ms.mean, network_ms=total.network_ms.mean, queue_ms=total.queue_ms
        )
    return mean, Layers(slow.server_ms.mean, slow.network_ms.mean)


def _phase(run: Judgement, every: Judgement, verdict: model.Verdict) -> model.Phase:
    wire = run.mean.server_ms + run.mean.network_ms
    return model.Phase(
        begin=iso(run.begin_ns),
        end=iso(run.end_ns),
        ops=run.ops,
        time_share=run.client_ns / max(every.client_ns, 1),
        client_ms=wire,
        server_ms=run.mean.server_ms,
        network_ms=run.mean.network_ms,
        layer=verdict.layer,
        cause=verdict.cause,
        threads_estimate=run.threads,
        text=verdict.text,
        outcome=verdict.outcome,
        largest_layer=verdict.largest_layer,
    )
