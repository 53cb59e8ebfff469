"""Windows of one capture -> what the whole capture is: all that is counted of its packets and ops, and adds up.

Everything that a window is read with is counted here, before any of it is matched: so that what the report says of a
capture is of all its packets and ops, exactly.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np

from nfslat import pipeline
from nfslat.answer import model
from nfslat.decode import merge
from nfslat.decode.capture import Source
from nfslat.decode.in_line import counts_of
from nfslat.figures.captures import capture_of, durations_by_kind
from nfslat.flow.gaps import longer
from nfslat.model.decoded import Decoded
from nfslat.model.details import Tcp, no_details
from nfslat.model.protocol import program_name
from nfslat.model.tables import I8, I64, Connection, State
from nfslat.results import Side
from nfslat.select import Filters, excluded, select
from nfslat.tally.keys import Key, names_of
from nfslat.tally.outcomes import OutcomeTally
from nfslat.tally.sketch import Sketch
from nfslat.tally.stats import added, histogram

_ENOUGH = 1000  # ops that tell of the clocks of a capture


@dataclasses.dataclass(frozen=True)
class _Kind:
    """Ops of one kind."""

    count: int = 0
    srt: Sketch = dataclasses.field(default_factory=lambda: Sketch.of(np.zeros(0, dtype=np.int64)))
    buckets: list[model.Bucket] = dataclasses.field(default_factory=list)

    def joined(self, other: _Kind) -> _Kind:
        return _Kind(
            self.count + other.count, Sketch.merge([self.srt, other.srt]), added([self.buckets, other.buckets])
        )


class Counts:
    """Of some windows of one capture. Numbers of connections are those of the decoder that read them."""

    def __init__(self, role: str, srt: str, filters: Filters | None = None) -> None:
        """Of none. `role`: server or client; `filters` are not of time."""
        self.filters = filters or Filters()
        self._asked_for = 0  # ops that an NFS client called, selected or not
        self.ops = 0  # that an NFS client called, selected ones
        self.connections: tuple[Connection, ...] = ()  # all that were seen
        self.missing: I64 = np.zeros(0, dtype=np.int64)  # calls that the capture does not show, by connection
        self.source: Source | None = None  # as it was known last
        self.files: Mapping[str, Any] = {}  # facts that its files tell, when all was read
        self._role, self._srt = role, srt
        self._facts: Decoded | None = None  # of all packets, without ops
        self.outcomes = OutcomeTally.empty()
        self._states: Counter[State] = Counter()
        self._programs: Counter[str] = Counter()
        self._excluded: Counter[str] = Counter()
        self._flows: set[int] = set()
        self._kinds: dict[Key, _Kind] = {}
        self._tcp: Tcp = no_details().tcp
        self._has_one_clock = False
        self._halves = {one: np.zeros(0, dtype=np.int64) for one in (State.NO_REPLY, State.NO_CALL)}  # by connection
        self._hears_unread = False  # does it show packets in which more messages must be?
        self._ran_ns: tuple[int, int] | None = None  # first reply and last call of any op

    def add(self, decoded: Decoded, source: Source) -> None:
        """One more window."""
        self.source = source
        side = self._side(decoded, source)
        ops = side.ops
        self.ops += int(np.count_nonzero(side.forward))
        plain = side if self.filters == Filters() else dataclasses.replace(side, reasons=self._reasons(side, Filters()))
        self._asked_for += int(np.count_nonzero(plain.forward))
        self._states.update(decoded.states)
        for kind, count in zip(ops.classes.kind, ops.classes.count.tolist(), strict=True):
            self._programs[program_name(ops.kinds[kind].program)] += count
        self._flows.update(np.unique(ops.classes.conn).tolist())
        self._excluded.update(excluded(side.reasons))
        for key, durations in durations_by_kind(side, self._srt, self._role):
            more = _Kind(len(durations), Sketch.of(durations), histogram(durations))
            self._kinds[key] = self._kinds.get(key, _Kind()).joined(more)
        self.outcomes += OutcomeTally.of({self._role: side}, side)
        self._hears_unread |= len(decoded.details.unread) > 0
        self._count_halves(decoded)
        self._facts = self._with_facts(decoded)
        self._tcp = decoded.details.tcp
        self.connections = ops.connections

    def _count_halves(self, decoded: Decoded) -> None:
        """Messages without their other half, but for those whose other half came before or after the capture."""
        ops, loose = decoded.ops, decoded.loose
        if len(ops):
            first_ns, last_ns = int(ops.t3.min()), int(ops.t0.max())
            self._ran_ns = (
                (first_ns, last_ns) if self._ran_ns is None else (self._ran_ns[0], max(last_ns, self._ran_ns[1]))
            )
        if self._ran_ns is None:
            return
        begin_ns, end_ns = self._ran_ns
        for state, is_one in (
            (State.NO_REPLY, loose.first_ns <= end_ns),
            (State.NO_CALL, loose.first_ns >= begin_ns),
        ):
            conns = loose.conn[(loose.state == state) & is_one]
            self._halves[state] = longer(self._halves[state], np.bincount(conns))

    def fresh(self) -> Self:
        """Of no window, and of the same capture: what is known of its clocks and connections stays."""
        new = type(self)(self._role, self._srt, self.filters)
        new.source, new.files, new.connections, new._tcp = self.source, self.files, self.connections, self._tcp
        new._has_one_clock, new._ran_ns = self._has_one_clock, self._ran_ns
        return new

    @classmethod
    def merge(cls, some: Sequence[Self]) -> Self:
        """Of all of their windows, in their order. Raises ``IndexError`` where there are none."""
        whole = some[-1].fresh()
        for one in some:
            whole.ops += one.ops
            whole._asked_for += one._asked_for
            whole.missing = longer(whole.missing, one.missing)
            whole.outcomes += one.outcomes
            whole._states += one._states
            whole._programs += one._programs
            whole._excluded += one._excluded
            whole._flows |= one._flows
            whole._hears_unread |= one._hears_unread
            for key, kind in one._kinds.items():
                whole._kinds[key] = whole._kinds.get(key, _Kind()).joined(kind)
            for state, halves in one._halves.items():
                whole._halves[state] = longer(whole._halves[state], halves)
        known = [one._facts for one in some if one._facts is not None]
        if known:
            whole._facts = dataclasses.replace(known[-1], **counts_of(known))
        return whole

    def forget_connections(self) -> None:
        """What a later window knows as well, and better."""
        self.connections, self._tcp = (), no_details().tcp

    def lost(self, conns: Collection[int]) -> int:
        """Ops of these connections that the capture knows of and does not show: as of `hidden_share`."""
        rows = np.array(sorted(conns), dtype=np.int64)
        unanswered, orphans, gaps = (
            int(one[rows[rows < len(one)]].sum())
            for one in (self._halves[State.NO_REPLY], self._halves[State.NO_CALL], self.missing)
        )
        headers = 0 if self._hears_unread or self._facts is None else self._facts.hidden
        halves = unanswered + orphans
        lost = max(halves, (halves + headers) // 2, gaps + unanswered)
        # Filters leave out of what is hidden as much as of what is shown.
        return lost if self.ops == self._asked_for else round(lost * self.ops / self._asked_for)

    def _side(self, decoded: Decoded, source: Source) -> Side:
        if self._has_one_clock and len(decoded.ops):
            side = Side(source, decoded, np.zeros(0, dtype=np.int8))
        else:
            side = pipeline.side_of(source, decoded)
            # Whoever stamps what was sent and what was received by two clocks does so from the first packet on.
            self._has_one_clock = len(decoded.ops) >= _ENOUGH and side.directions is None
        return dataclasses.replace(side, reasons=self._reasons(side, self.filters))

    def _reasons(self, side: Side, filters: Filters) -> I8:
        return select(side.ops, filters, side.ops.t0, side.decoded.first_ns)

    def _with_facts(self, decoded: Decoded) -> Decoded:
        """What is known of the packets so far."""
        of_messages = {name: getattr(decoded, name) for name in merge.OF_MESSAGES}
        plain = dataclasses.replace(merge.without_messages(decoded), **of_messages)
        if self._facts is None:
            return plain
        return dataclasses.replace(plain, **counts_of([self._facts, plain]))

    @property
    def ran_ns(self) -> tuple[int, int]:
        """First and last packet. Raises ``ValueError`` where no window was read."""
        if self._facts is None:
            raise ValueError("no window was read")
        return self.files.get("first_ns", self._facts.first_ns), self.files.get("last_ns", self._facts.last_ns)

    # --- All of it ----------------------------------------------------------------------------------------------------

    def capture(self, hidden: model.Unseen | None, audit: Sequence[model.AuditNote]) -> model.Capture:
        """As the report has it, with notes that only the windows can make."""
        if self._facts is None or self.source is None:
            raise ValueError("no window was read")
        details = dataclasses.replace(no_details(), tcp=self._tcp)
        beside = {State.HEADER_NOT_CAPTURED: self._facts.hidden, State.MALFORMED: self._facts.malformed}
        repeats = {state: count - beside.get(state, 0) for state, count in self._states.items()}
        facts = dataclasses.replace(self._facts, repeats=repeats, details=details, **self.files)
        missing = np.maximum(self.missing, 0)
        found = capture_of(Side(self.source, facts, np.zeros(0, dtype=np.int8)), missing, hidden)
        notes = sorted([*found.audit, *audit], key=lambda one: one.severity != "warning")
        programs = dict(self._programs.most_common())
        ops, flows = sum(programs.values()), len(self._flows)
        return dataclasses.replace(found, flows=flows, ops=ops, programs=programs, audit=notes)

    def rows(self) -> list[model.RawRow]:
        """Response times by operation, the most frequent first."""
        rows = []
        for key in sorted(self._kinds, key=lambda one: (-self._kinds[one].count, one)):
            one = self._kinds[key]
            rows.append(model.RawRow(*names_of(key), one.count, histogram=one.buckets, srt_ms=one.srt.summary()))
        return rows

    def left_out(self) -> dict[str, int]:
        """Ops that are not looked at, by reason."""
        return dict(self._excluded)
