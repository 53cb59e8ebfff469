"""Pairs of windows, one after the other -> what adds up of them, in memory that does not grow with the ops; the report.

Percentiles of more than `nfslat.tally.durations.MOST_EXACT` operations are to within
`nfslat.tally.sketch.RELATIVE_ERROR`; those of the slowest 1 %, and all counts, sums and means, are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import structs

from nfslat.analyse import with_threads
from nfslat.answer import model
from nfslat.answer.words import missing_ops
from nfslat.errors import InputError
from nfslat.evidence.known import Known
from nfslat.figures.audit.pair import above_the_wire, common, left_out, overlap_note, pair_notes
from nfslat.figures.completeness import completeness
from nfslat.figures.findings import findings_of_hangs, judge
from nfslat.figures.host_pairs import plain_rows, told_row
from nfslat.figures.inflight import inflight_of
from nfslat.figures.intervals import intervals_from, sums_by_time
from nfslat.figures.matched import begins_ns, matched_of, matched_ops, part_summaries, part_times, sums_by_operation
from nfslat.figures.objectives import objectives_of
from nfslat.figures.parts import pairs_of, phases_of
from nfslat.figures.phases import Span, phase_row
from nfslat.figures.pivots import PivotSums
from nfslat.figures.report import Said, Sums, report_of
from nfslat.figures.stack import Layer, Stack, layers
from nfslat.figures.unseen import reckoned
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.layers import Layers
from nfslat.findings.parts import Whole as OfAll
from nfslat.findings.parts import lead_by_parts
from nfslat.findings.stretches import (
    Stretch,
    causes_of,
    ground_of,
    in_pairs,
    in_runs,
    joined,
    mean_of,
    rows_joined,
    with_verdict,
)
from nfslat.findings.verdict import verdict
from nfslat.findings.words import times
from nfslat.flow.alone import Fates, Lone
from nfslat.flow.beside import Asked, Beside
from nfslat.flow.pairs import Pair
from nfslat.flow.paths import PathsSoFar
from nfslat.host_pairs import host_pairs
from nfslat.model.tables import Miss
from nfslat.model.units import to_ms, to_s
from nfslat.results import Analysis
from nfslat.select import refuse_nothing_left
from nfslat.tally.captures import CaptureTally
from nfslat.tally.durations import CLIENT, MOST_EXACT, SERVER, Durations
from nfslat.tally.inflight import InFlightTally
from nfslat.tally.leading import Rows, added_rows, rows_by
from nfslat.tally.ops import OpFigures, OpSums
from nfslat.tally.outcomes import OutcomeTally
from nfslat.tally.sketch import RELATIVE_ERROR
from nfslat.tally.slowest import Slowest

SIDES = ("server", "client")
_OF_A_PAIR = ("captures-overlap", "no-overlap")  # notes on the time that two captures have in common
_MOST_STRETCHES, _MOST_OF_PAIR = 512, 64


class Whole:
    """All windows so far."""

    def __init__(self, asked: Asked) -> None:
        """None; ops are told by intervals of time and in groups, if that is asked for."""
        self._asked = asked
        self.filters = asked.filters
        self.beside = Beside(asked)
        self._pivots: dict[str, PivotSums] = {}
        self._paths = PathsSoFar(asked.encoding)
        self._by_time = OpSums.empty()
        self._first_ns: int | None = None
        self.fates = Fates(asked.filters)
        self.stretches: list[Stretch[model.Phase]] = []
        self._windows = 0  # with matched ops
        self._sums: Sums | None = None
        self._by_op = OpSums.empty()
        self._parts: Durations | None = None
        self._slowest = Slowest.empty()
        self._inflight = InFlightTally.empty()
        self._audit: Rows[model.AuditNote] = {}
        self._remarks: tuple[float, list[str]] = (0.0, [])  # of the window that has most of the time
        self._pairs: dict[tuple[str, str], model.HostPair] = {}
        self._of_pairs: dict[tuple[str, str], list[Stretch[model.HostPair]]] = {}

    def add(self, pair: Pair) -> None:
        """One more window."""
        self.fates.add({"server": pair.lone})
        c = pair.analysis
        if c is None or pair.found is None:
            ran_ns = pair.server_ran_ns or (0, np.iinfo(np.int64).max)
            self.fates.add({"client": Lone.of(pair.client.ops, ran_ns, pair.filters)})
            return
        self.fates.add_compared(c)
        known = self.beside.known_of(c)
        c = with_threads(c, known.threads)
        # In `pair.found`: a call that hangs was sent in an earlier window.
        self.filters = pair.filters
        sums = Sums.of_block(c, self.filters, self._sums, pair.found)
        self._sums = sums if self._sums is None else self._sums + sums
        if not len(c.matched):
            return
        by_op, took_ns = sums_by_operation(c), float(c.client_srt_ns.sum())
        parts = part_times(c).as_sketches()  # of all ops together: of so many no percentile would be exact
        self._judge(c, known, matched_ops(c, brief=True, sums=by_op), sums, (pair.begin_ns, pair.end_ns))
        self._by_op += by_op
        self._parts = parts if self._parts is None else self._parts + parts
        self._slowest = self._slowest.with_ops(c)
        self._first_ns = int(begins_ns(c).min()) if self._first_ns is None else self._first_ns
        if self._asked.interval_s is not None:
            self._by_time = (self._by_time + sums_by_time(c, self._asked.interval_s, self._first_ns)).bounded()
        for by in self._asked.by:
            groups = PivotSums.of(c, by, self._paths.of(c) if by == "file" else None, self._first_ns)
            self._pivots[by] = self._pivots[by] + groups if by in self._pivots else groups
        notes = (note for note in pair_notes(c) if note.code not in _OF_A_PAIR)
        self._audit = added_rows(self._audit, rows_by(notes, "count", "code"))
        if took_ns > self._remarks[0]:
            self._remarks = took_ns, [] if known.app_ms else above_the_wire(c)
        self._windows += 1

    def _judge(
        self, c: Analysis, known: Known, matched: model.MatchedOps, sums: Sums, when_ns: tuple[int, int]
    ) -> None:
        """What is said of a window, or, where response times change in it, of its parts."""
        inflight = inflight_of(c, brief=True)
        self._inflight += InFlightTally.of(c, inflight)
        transport = None if sums.transport is None else sums.transport.rows()
        judged = judge(c, known, matched, inflight, transport)
        if judged is None:
            return
        self.beside.add(c, known, judged, inflight, when_ns)
        hosts = known.of_hosts
        judged = judged if known == hosts else judge(c, hosts, matched, inflight, transport) or judged
        rows, pairs = pairs_of(c, hosts, transport)
        if not rows:
            (pair,) = host_pairs(c.server.ops, c.client.ops, c.matched).pairs
            plain = plain_rows(c, [pair], np.zeros(len(c.matched), dtype=np.int64))
            rows = [told_row(plain[0], pair, c, inflight, judged.verdict)]
            pairs = [judged.part(rows[0], pair.words)]
        for row in rows:
            ends = row.client, row.server
            self._pairs[ends] = rows_joined([self._pairs[ends], row]) if ends in self._pairs else row
        for part in pairs:
            kept = self._of_pairs.setdefault((part.row.client, part.row.server), [])
            kept.append(structs.replace(part, begin_ns=when_ns[0], end_ns=when_ns[1]))
            kept[:] = in_pairs(kept) if len(kept) > _MOST_OF_PAIR else kept
        for phase in phases_of(c, hosts) or [
            judged.part(phase_row(c, c, Span(None, None, 0), judged.verdict, inflight), "")
        ]:
            begin_ns, end_ns = phase.begin_ns or when_ns[0], phase.end_ns or when_ns[1]
            self.stretches.append(structs.replace(phase, begin_ns=begin_ns, end_ns=end_ns))
        if len(self.stretches) > _MOST_STRETCHES:
            self.stretches = in_pairs(self.stretches)

    def report(self, captures: Mapping[str, CaptureTally], statuses: OutcomeTally, outside: int) -> model.Report:
        """Of all windows; `statuses` are of all ops, and `outside` are those that the server's capture has beyond the
        client's. Raises ``InputError`` where no op is in both captures."""
        sums = self._sums
        if sums is None or not self.stretches:
            if self.filters.text and not any(
                tally.selected.raw.labels for tally in captures.values() if tally.selected.raw is not None
            ):
                refuse_nothing_left(self.filters, np.ones(1, dtype=np.int8))
            raise InputError("no operation is in both captures; were both taken at the same time, of the same traffic?")
        self.fates.end(outside, {name: tally.shown.connections for name, tally in captures.items()})
        sums = structs.replace(sums, outcomes=None if sums.outcomes is None else sums.outcomes + statuses)
        (total,) = self._by_op.total().rows()
        matched = self._matched(captures, sums, total)
        inflight = self._inflight.rows(total.queue_ms, total.mean_ms(SERVER) or 0.0)
        hidden = max(tally.share for tally in sums.unseen.values())
        waits = sums.unanswered.rows()
        objectives = objectives_of(
            self._by_op, self.beside.known, self._asked.slo, hidden_share=hidden, unanswered=waits or ()
        )
        hanging = findings_of_hangs(sums.hangs.rows(), waits, total.count, total.mean_ms(CLIENT) or 0.0)
        causes, said, phases, pairs = self._said(sums, matched, inflight, hanging, objectives)
        overlap, uncommon = self._overlap(captures, sums, matched)
        audit = [*overlap, *(structs.replace(one.row, count=int(one.total)) for one in self._audit.values())]
        audit.sort(key=lambda note: note.severity != "warning")
        width_s = self._asked.interval_s
        by_time = width_s and intervals_from(self._by_time, width_s, self._first_ns or 0)
        stack = self.beside.stack() or _stack(matched.total, inflight)
        beside_notes = [] if inflight is None else self.beside.notes(inflight.server)
        made = report_of(
            self._asked.tool,
            self.filters,
            captures,
            sums,
            matched,
            inflight,
            Said(
                causes=causes,
                hanging=hanging,
                verdict=said,
                audit=audit,
                notes=(beside_notes, self._remarks[1], stack.notes, uncommon, [self._how()]),
                stack=stack.rows,
                phases=phases,
                pairs=pairs,
            ),
        )
        return structs.replace(
            made,
            intervals=by_time or None,
            pivots=[self._pivots[by].pivot() for by in self._asked.by],
            what_if=self.beside.what_if(matched.total),
            evidence=list(self.beside.evidence),
        )

    def _matched(self, captures: Mapping[str, CaptureTally], sums: Sums, total: OpFigures) -> model.MatchedOps:
        shown = {name: tally.shown for name, tally in captures.items()}
        # A window knows of few calls by gaps, and the gaps of a whole capture say nothing of messages that are hidden.
        known: tuple[dict[str, int | None], ...] = (
            {name: tally.ops for name, tally in sums.unseen.items()},
            dict.fromkeys(SIDES),
        )
        fates = self.fates
        shares = [completeness(total.count, fates.untimed, fates.alone, shown, counted) for counted in known]
        share = min(shares, key=lambda found: found.share)
        tail = self._slowest.row(total.one_way_error_ms)
        of_sample = self._slowest.ops / tail.count  # which those that are kept are
        tail = structs.replace(tail, count=self._slowest.ops, negative_network=round(tail.negative_network * of_sample))
        found = matched_of(self._by_op, fates.untimed, fates.unmatched, share, tail)
        if (parts := self._parts) is None or sums.clock is None:
            return found
        error_ms = None if total.one_way_error_ms is None else to_ms(sums.clock.worst_error_ns)
        summaries = part_summaries(lambda name: parts.summary(name, 0, total.sum(name) / total.count), error_ms)
        return structs.replace(found, parts=summaries)

    def _said(
        self,
        sums: Sums,
        matched: model.MatchedOps,
        inflight: model.InFlight | None,
        hanging: Sequence[Diagnosis],
        objectives: Sequence[model.Objective],
    ) -> tuple[list[Diagnosis], model.Verdict | None, list[model.Phase], list[model.HostPair]]:
        """Causes, the verdict, and rows of phases and pairs of hosts."""
        total, slow, complete = matched.total, matched.slowest, matched.completeness
        if total is None or slow is None or inflight is None:
            return [], None, [], []
        of_all = self.beside.stretches or self.stretches
        mean = mean_of(of_all)
        if mean.client_ms is None:  # else the application's figures are of some of the operations
            mean = structs.replace(mean, server_ms=total.server_ms.mean, network_ms=total.network_ms.mean)
        if not self.beside.known.thread_ms:
            mean = structs.replace(mean, queue_ms=total.queue_ms)
        unseen = None
        if any(tally.ops for tally in sums.unseen.values()):
            unseen = reckoned(sums.unseen, mean, matched.ops)
            unseen = unseen if unseen.matters else None
        if unseen is not None:
            mean = unseen.layers()
        ground = ground_of(of_all)._replace(
            ops=matched.ops,
            complete=complete.share,
            incomplete=missing_ops(complete.missing),
            negative=total.negative_network,
            unseen=unseen,
        )
        causes = causes_of(of_all, mean)
        tail = Layers(slow.server_ms.mean, slow.network_ms.mean)
        said = verdict(mean, tail, ground, [*causes, *hanging], objectives)
        threads = inflight.server.threads_estimate
        whole = OfAll(causes, said, mean, threads, shown=1.0 if unseen is None else 1.0 - unseen.share_of_time[1])
        rows, pairs = self._rows_of_pairs()
        of_pairs = lead_by_parts(pairs, whole, of_hosts=True)
        if of_pairs is not None:
            return *of_pairs, [], rows
        runs = in_runs(self.stretches)
        if len(runs) < 2:
            return causes, said, [], rows
        phases = _as_phases(runs)
        causes, said = lead_by_parts(phases, whole) or (causes, said)
        return causes, said, [phase.row for phase in phases], rows

    def _rows_of_pairs(self) -> tuple[list[model.HostPair], list[Stretch[model.HostPair]]]:
        """A row for each pair of hosts, and what is said of those that have enough ops; nothing where there is one."""
        if len(self._pairs) < 2:
            return [], []
        whole_ms = max(sum(row.ops * row.client_ms for row in self._pairs.values()), 1e-9)
        rows, told = [], []
        for ends, plain in self._pairs.items():
            row = structs.replace(plain, time_share=plain.ops * plain.client_ms / whole_ms)
            if ends in self._of_pairs:
                of_pair = joined(self._of_pairs[ends])
                row = with_verdict(row, of_pair.verdict)
                told.append(structs.replace(of_pair, row=row))
            rows.append(row)
        return sorted(rows, key=lambda row: -row.time_share), told

    def _overlap(
        self, captures: Mapping[str, CaptureTally], sums: Sums, matched: model.MatchedOps
    ) -> tuple[list[model.AuditNote], list[str]]:
        """What is to be said of the time that both captures ran; nothing where a clock was set, or is not known."""
        theta_ns = None if sums.clock is None else sums.clock.theta_ns
        if theta_ns is None:
            return [], []
        unmatched = self.fates.unmatched
        outside = {name: (unmatched[name][Miss.OUTSIDE_OVERLAP.name], matched.processed[name]) for name in SIDES}
        (server, client) = (
            (facts.first_ns, facts.last_ns, max(facts.last_ns - facts.first_ns, 1))
            for facts in (captures[name].facts for name in SIDES)
        )
        both = common(server, client, theta_ns)
        note = overlap_note(both, *outside["client"])
        return [note] if note.count else [], left_out(both, outside)

    def _how(self) -> str:
        took_s = to_s(self.stretches[-1].end_ns - self.stretches[0].begin_ns) / max(self._windows, 1)
        return (
            f"the captures were read in {times(self._windows, 'window')} of {took_s:,.1f} s on average: counts and "
            f"means are of all operations, percentiles of more than {MOST_EXACT:,} to within "
            f"{RELATIVE_ERROR * 100:.1f} %, and threads, slots and causes were judged window by window"
        )


def _as_phases(runs: Sequence[Stretch[model.Phase]]) -> list[Stretch[model.Phase]]:
    """With their share of all the time, and when they were."""
    whole_ms = max(sum(run.row.ops * run.row.client_ms for run in runs), 1e-9)
    phases = []
    for at, run in enumerate(runs):
        span = Span(run.begin_ns if at else None, run.end_ns if at < len(runs) - 1 else None, 0)
        row = structs.replace(run.row, time_share=run.row.ops * run.row.client_ms / whole_ms)
        phases.append(structs.replace(run, row=row, words=span.words))
    return phases


def _stack(total: model.MatchedRow | None, inflight: model.InFlight | None) -> Stack:
    if total is None or inflight is None or not inflight.server.limited:
        return Stack([], [])
    threads, client_ms, server_ms = inflight.server.threads_estimate, total.client_ms.mean, total.server_ms.mean
    return Stack(*layers(Layer("all", client_ms, server_ms, queue=total.queue_ms, threads=threads), Known()))
