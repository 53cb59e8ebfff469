"""What adds up of the operations, and what is said of them -> the report on two captures.

One block is all of two captures that are judged at once; where they are judged in stretches, each is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from nfslat.answer import model
from nfslat.figures.captures import capture_of, raw_rows, selection_of
from nfslat.figures.notes import notes_of
from nfslat.findings.capture import capture_findings
from nfslat.findings.clock import clock_findings
from nfslat.findings.diagnosis import Diagnosis
from nfslat.model.record import Record
from nfslat.results import Analysis, Correlation
from nfslat.select import Filters
from nfslat.tally.captures import CaptureTally
from nfslat.tally.charges import SLOWEST_SHARE, ChargeTally
from nfslat.tally.clock import ClockTally
from nfslat.tally.hangs import HangTally
from nfslat.tally.outcomes import OutcomeTally
from nfslat.tally.transport import TransportTally
from nfslat.tally.unanswered import UnansweredTally
from nfslat.tally.unseen import UnseenTally


class Sums(Record, eq=False):
    """What the captures tell of their operations, but for response times; None: not known, or not asked for."""

    clock: ClockTally | None
    transport: TransportTally | None
    hangs: HangTally
    unanswered: UnansweredTally
    charges: ChargeTally | None
    outcomes: OutcomeTally | None
    unseen: Mapping[str, UnseenTally]

    @classmethod
    def of(cls, c: Analysis, filters: Filters, *, brief: bool = False) -> Self:
        """All of two captures, or what is inferred of one; `brief`: without what nothing is judged by."""
        charges = None if brief else ChargeTally.of(c, max(1, int(len(c.matched) * SLOWEST_SHARE)))
        outcomes = None if brief else OutcomeTally.of(c.measured, c.client, c.tried_again, c.recoveries)
        return cls._of(c, filters, charges, outcomes, c, None)

    @classmethod
    def of_block(cls, c: Analysis, filters: Filters, before: Self | None, hung: Correlation) -> Self:
        """A block behind those `before`: statuses are told elsewhere, of all ops, and connections hang in `hung`."""
        known = None if before is None else before.charges
        charges = ChargeTally.of(c, longer_than_ns=-1 if known is None else known.longer_than_ns)
        if not len(c.matched):  # filters left none
            charges = ChargeTally.empty()
        waited = UnansweredTally.empty() if before is None else before.unanswered
        return cls._of(c, filters, charges, OutcomeTally.of({}, c.client, c.tried_again, c.recoveries), hung, waited)

    @classmethod
    def _of(
        cls,
        c: Analysis,
        filters: Filters,
        charges: ChargeTally | None,
        outcomes: OutcomeTally | None,
        hung: Correlation,
        waited: UnansweredTally | None,
    ) -> Self:
        captured = c.measured
        one = next(iter(captured.values())) if c.inferred is not None else None
        return cls(
            clock=None if one else ClockTally.of(c.clock),
            transport=None if one else TransportTally.of(c),
            hangs=HangTally.of(one or hung, filters),
            unanswered=UnansweredTally.of(one or hung, filters, waited),
            charges=charges,
            outcomes=outcomes,
            unseen={name: UnseenTally.of(c, name) for name in captured},
        )

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        return type(self)(
            clock=None if self.clock is None or later.clock is None else self.clock + later.clock,
            transport=None if self.transport is None or later.transport is None else self.transport + later.transport,
            hangs=self.hangs + later.hangs,
            unanswered=self.unanswered + later.unanswered,
            charges=None if self.charges is None or later.charges is None else self.charges + later.charges,
            outcomes=None if self.outcomes is None or later.outcomes is None else self.outcomes + later.outcomes,
            unseen={name: tally + later.unseen[name] for name, tally in self.unseen.items()},
        )


class Said(NamedTuple):
    """What is said of the operations."""

    causes: Sequence[Diagnosis]  # by what mending each would give
    hanging: Sequence[Diagnosis]  # connections that hang
    verdict: model.Verdict | None
    audit: list[model.AuditNote]  # on both captures together
    notes: Sequence[Sequence[str]]
    stack: list[model.StackRow]
    phases: list[model.Phase]
    pairs: list[model.HostPair]


def report_of(
    tool: model.Tool,
    filters: Filters,
    captures: Mapping[str, CaptureTally],
    sums: Sums,
    matched: model.MatchedOps,
    inflight: model.InFlight | None,
    said: Said,
) -> model.Report:
    """The report, without what only all operations at once tell."""
    shown = {name: capture_of(tally, sums.unseen[name].rows()) for name, tally in captures.items()}
    clock = None if sums.clock is None else sums.clock.rows()
    of_clock = [] if clock is None else clock_findings(clock)
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures=shown,
        raw={name: raw_rows(tally) for name, tally in captures.items() if tally.selected.raw is not None},
        selection=selection_of(captures, filters),
        notes=notes_of(said.audit, of_clock, *said.notes),
        matched=matched,
        clock=clock,
        audit=said.audit,
        transport=None if sums.transport is None else sums.transport.rows(),
        hangs=sums.hangs.rows(),
        unanswered=sums.unanswered.rows(),
        charges=[] if sums.charges is None else sums.charges.rows(),
        inflight=inflight,
        outcomes=None if sums.outcomes is None else sums.outcomes.rows(),
        stack=said.stack,
        findings=[
            *(one.as_finding() for one in (*said.causes, *said.hanging)),
            *capture_findings(shown, said.audit),
            *of_clock,
        ],
        verdict=said.verdict,
        phases=said.phases,
        pairs=said.pairs,
    )
