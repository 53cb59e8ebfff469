"""The windows of one capture -> the same, joined until they hold enough ops; and what the whole capture is.

Everything that a window is read with is counted here, before any of it is matched: so that what the report says of a
capture is of all its packets and ops, exactly.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from nfslat import pipeline
from nfslat.answer import model
from nfslat.answer.outcomes import StatusRow
from nfslat.decode import merge
from nfslat.decode.in_line import counts_of, in_line
from nfslat.decode.windows import Window, Windows
from nfslat.figures.captures import capture_of, durations_by_kind
from nfslat.figures.matched import Key, names_of
from nfslat.figures.outcomes import status_rows
from nfslat.figures.sketch import Sketch
from nfslat.figures.stats import added, histogram
from nfslat.model.decoded import Decoded
from nfslat.model.details import Tcp, no_details
from nfslat.model.protocol import program_name
from nfslat.model.tables import Connection, State
from nfslat.results import Side
from nfslat.select import Filters, excluded, select
from nfslat.windows.fold import fold
from nfslat.windows.gaps import Gapped, Gaps, longer
from nfslat.wire.unseen import Unseen

_ENOUGH = 1000  # ops that tell of the clocks of a capture
_SOON, _ALL = 1000, 50_000  # calls in which gaps are looked for: to judge a window by, and to count them


@dataclasses.dataclass
class _Kind:
    """Ops of one kind."""

    count: int = 0
    srt: Sketch = dataclasses.field(default_factory=lambda: Sketch.of(np.zeros(0, dtype=np.int64)))
    buckets: list[model.Bucket] = dataclasses.field(default_factory=list)


class Counted(Gapped):
    """An iterator over the windows of one capture, which counts what is in them."""

    def __init__(self, windows: Windows, role: str, srt: str, *, least_ops: int = 0, least_ns: int = 0) -> None:
        """`role`: server or client; windows are joined until they hold `least_ops`, and `least_ns`."""
        super().__init__(windows, least_calls=_SOON)
        self._gaps = Gaps(_ALL)
        self.ops = 0  # that an NFS client called, selected ones
        self._role, self._srt = role, srt
        self._least_ops, self._least_ns = least_ops, least_ns
        self._parts: list[Window] = []
        self._facts: Decoded | None = None  # of all packets, without ops
        self._statuses: list[StatusRow] = []
        self._states: Counter[State] = Counter()
        self._programs: Counter[str] = Counter()
        self._excluded: Counter[str] = Counter()
        self._flows: set[int] = set()
        self._kinds: dict[Key, _Kind] = {}
        self._tcp: Tcp = no_details().tcp
        self.connections: tuple[Connection, ...] = ()  # all that were seen
        self._has_one_clock = False
        self._halves = {one: np.zeros(0, dtype=np.int64) for one in (State.NO_REPLY, State.NO_CALL)}  # by connection
        self._hears_unread = False  # does it show packets in which more messages must be?
        self._ran_ns: tuple[int, int] | None = None  # first reply and last call of any op

    def is_ready(self) -> bool:
        """Does the next one come, or the end, within some ms?"""
        while self._windows.is_ready():
            if not self._take() or self._is_enough():
                return True
        return False

    def __next__(self) -> Window:
        """Waits for it."""
        while not self._is_enough() and self._take():
            pass
        if not self._parts:
            raise StopIteration
        parts, self._parts = self._parts, []
        joined = in_line([one.decoded for one in parts])
        return Window(min(one.begin_ns for one in parts), parts[-1].end_ns, joined)

    def drain(self) -> int:
        """Read what is left; the ops in it that an NFS client called."""
        before = self.ops
        while self._take():
            self._parts.clear()
        return self.ops - before

    def _is_enough(self) -> bool:
        if not self._parts:
            return False
        took_ns = self._parts[-1].end_ns - min(one.begin_ns for one in self._parts)
        return took_ns >= self._least_ns and sum(len(one.decoded.ops) for one in self._parts) >= self._least_ops

    def _take(self) -> bool:
        try:
            window = super().__next__()
        except StopIteration:
            self._gaps.end()
            return False
        self._gaps.add(window.decoded, window.begin_ns)
        self._count(window.decoded)
        self._parts.append(window)
        return True

    def _count(self, decoded: Decoded) -> None:
        side = self._side(decoded)
        ops = side.ops
        self.ops += int(np.count_nonzero(side.forward))
        self._states.update(decoded.states)
        for kind, count in zip(ops.classes.kind, ops.classes.count.tolist(), strict=True):
            self._programs[program_name(ops.kinds[kind].program)] += count
        self._flows.update(np.unique(ops.classes.conn).tolist())
        self._excluded.update(excluded(side.reasons))
        for key, durations in durations_by_kind(side, self._srt, self._role):
            found = self._kinds.setdefault(key, _Kind())
            found.count += len(durations)
            found.buckets = added([found.buckets, histogram(durations)])
            found.srt = Sketch.merge([found.srt, Sketch.of(durations)])
        self._statuses = fold([*self._statuses, *status_rows(side)])
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

    def lost(self, conns: Collection[int]) -> int:
        """Ops of these connections that the capture knows of and does not show: as of `hidden_share`."""
        rows = np.array(sorted(conns), dtype=np.int64)
        unanswered, orphans, gaps = (
            int(one[rows[rows < len(one)]].sum())
            for one in (self._halves[State.NO_REPLY], self._halves[State.NO_CALL], self._gaps.found)
        )
        headers = 0 if self._hears_unread or self._facts is None else self._facts.hidden
        halves = unanswered + orphans
        return max(halves, (halves + headers) // 2, gaps + unanswered)

    def _side(self, decoded: Decoded) -> Side:
        if self._has_one_clock and len(decoded.ops):
            side = Side(self.source, decoded, np.zeros(0, dtype=np.int8))
        else:
            side = pipeline.side_of(self.source, decoded)
            # Whoever stamps what was sent and what was received by two clocks does so from the first packet on.
            self._has_one_clock = len(decoded.ops) >= _ENOUGH and side.directions is None
        return dataclasses.replace(side, reasons=select(side.ops, Filters(), side.ops.t0, decoded.first_ns))

    def _with_facts(self, decoded: Decoded) -> Decoded:
        """What is known of the packets so far."""
        of_messages = {name: getattr(decoded, name) for name in merge.OF_MESSAGES}
        plain = dataclasses.replace(merge.without_messages(decoded), **of_messages)
        if self._facts is None:
            return plain
        return dataclasses.replace(plain, **counts_of([self._facts, plain]))

    # --- All of it ----------------------------------------------------------------------------------------------------

    def capture(self, unseen: Unseen | None, audit: Sequence[model.AuditNote]) -> model.Capture:
        """As the report has it, with notes that only the windows can make."""
        if self._facts is None:
            raise ValueError("no window was read")
        details = dataclasses.replace(no_details(), tcp=self._tcp)
        beside = {State.HEADER_NOT_CAPTURED: self._facts.hidden, State.MALFORMED: self._facts.malformed}
        repeats = {state: count - beside.get(state, 0) for state, count in self._states.items()}
        facts = dataclasses.replace(self._facts, repeats=repeats, details=details, **self._windows.facts)
        missing = np.maximum(self._gaps.found, 0)
        not_shown = unseen if unseen is not None and unseen.ops else None
        found = capture_of(Side(self.source, facts, np.zeros(0, dtype=np.int8)), missing, not_shown)
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

    def statuses(self) -> list[StatusRow]:
        """What was answered, in the order of a whole capture: what went well first, the most frequent first."""
        return sorted(self._statuses, key=lambda one: (one.status != 0, -one.count))

    def left_out(self) -> dict[str, int]:
        """Ops that are not looked at, by reason."""
        return dict(self._excluded)
