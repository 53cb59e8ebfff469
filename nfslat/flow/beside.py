"""Blocks of matched ops, one after the other, and what is known from outside -> what these say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nfslat.answer import model
from nfslat.evidence.known import Known
from nfslat.evidence.outside import Outside
from nfslat.figures.findings import Judged, contradictions
from nfslat.figures.phases import Span, phase_row
from nfslat.figures.stack import Stack, StackTally
from nfslat.figures.whatif import Asked as WhatIf
from nfslat.figures.whatif import in_effect, joined, what_if, with_figures
from nfslat.findings.stretches import Stretch, in_pairs
from nfslat.model.protocol import DATA_OPS
from nfslat.model.thresholds import Threshold
from nfslat.results import Analysis
from nfslat.select import Filters

_MOST_STRETCHES = 512


@dataclass(frozen=True)
class Asked:
    """`each` stretch is handed on as it is analysed, and so many of the `slowest` ops are told one by one."""

    tool: model.Tool
    may_swap: bool
    stretch_ops: int | None = None
    slo: Sequence[Threshold] = ()
    progress: Callable[[int], None] = lambda _: None
    each: Callable[[Analysis], None] = lambda _: None
    slowest: int = 20
    filters: Filters = field(default_factory=Filters)
    interval_s: float | None = None
    by: Sequence[str] = ()
    outside: Outside = field(default_factory=lambda: Outside(Known()))
    sessions: int | None = None
    what_if: Sequence[WhatIf] = ()
    encoding: str | None = None  # of names


class Beside:
    """The blocks so far. `known` and `evidence` are those of the block that has most of the time."""

    def __init__(self, asked: Asked) -> None:
        """Start before the first block."""
        self.known = asked.outside.given
        self.evidence: tuple[str, ...] = ()
        self.stretches: list[Stretch[model.Phase]] = []  # a block each, where anything is known
        self._notes: tuple[str, ...] = ()
        self._asked = asked
        self._has_outside = asked.outside != Outside(Known())
        self._stack = StackTally()
        self._replays: dict[str, list[model.WhatIf]] = {}
        self._unanswered: list[str] = []
        self._most_ms = 0.0
        self._has_data = False  # READs or WRITEs

    def known_of(self, c: Analysis) -> Known:
        """What is known of the next block."""
        if not self._has_outside:
            return self._asked.outside.given
        known, self._notes = self._asked.outside.known(c)
        self._has_data = self._has_data or any(op in c.ops_of for op in DATA_OPS)
        return known

    def add(self, c: Analysis, known: Known, judged: Judged, inflight: model.InFlight, ns: tuple[int, int]) -> None:
        """The next block, from when to when."""
        time_ms = len(c.matched) * judged.mean.total_ms
        # Figures of reads and writes say nothing of a block without any, where there are some.
        is_of_others = "" in known.app_ms and self._has_data and not any(op in c.ops_of for op in DATA_OPS)
        if self._has_outside and not is_of_others:
            self._stack += StackTally.of(known, c)
            row = phase_row(c, c, Span(None, None, 0), judged.verdict, inflight)
            self.stretches.append(judged.part(row, "", ns=ns))
            if len(self.stretches) > _MOST_STRETCHES:
                self.stretches = in_pairs(self.stretches)
            if time_ms > self._most_ms:
                self._most_ms, self.known, self.evidence = time_ms, known, self._notes
        if self._asked.what_if:
            now = in_effect(c, known, judged.facts, judged.causes, sessions=self._asked.sessions)
            replays, unanswered = what_if(c, self._asked.what_if, now)
            for replay in replays:
                self._replays.setdefault(replay.asked, []).append(replay)
            self._unanswered = self._unanswered or unanswered

    def stack(self) -> Stack | None:
        """None where nothing is known."""
        return self._stack.rows(self.known) if self._has_outside else None

    def what_if(self, total: model.MatchedRow | None) -> list[model.WhatIf]:
        """Replays of all blocks that have an answer; `total` is of all matched ops."""
        replays = [joined(some) for some in self._replays.values()]
        return [replay if replay.of or total is None else with_figures(replay, total) for replay in replays]

    def notes(self, server: model.ServerInFlight) -> list[str]:
        """What is to be said of it all; `server` is of all blocks."""
        return [*([] if self._replays else self._unanswered), *contradictions(self.known, server)]
