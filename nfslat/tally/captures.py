"""One capture: its packets and messages, response times by operation, and what it does not show: `CaptureTally`.

Blocks of a capture, in their order, add up to it. Columns by connection are by the decoder's numbers, which stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import structs

from nfslat.answer.model import Bucket
from nfslat.clock.tick import is_coarse, mean_error_ns
from nfslat.decode.capture import Source
from nfslat.decode.file_gaps import FileGap, file_gaps
from nfslat.decode.in_line import counts_of
from nfslat.decode.merge_tables import dropped
from nfslat.decompose import srt_ns
from nfslat.inflight.levels import hidden_share
from nfslat.kernels.exact import longer
from nfslat.model.decoded import Decoded
from nfslat.model.details import no_details
from nfslat.model.protocol import NFS, NULL, program_name
from nfslat.model.record import Record
from nfslat.model.tables import I8, I64, Bool, Connection, Loose, Ops, State, hosts
from nfslat.results import Side
from nfslat.select import excluded, op_labels
from nfslat.tally.columns import OpColumns
from nfslat.tally.durations import SERVER
from nfslat.tally.keys import Key, by_operation
from nfslat.tally.ops import TIMES, OpSums
from nfslat.tally.stats import added, histogram

_SOON_NS = 1_000_000_000  # later only what was lost comes again, as pairing sees it
Span = tuple[int, int]


class ShownTally(Record, eq=False):
    """Ops that a capture shows, messages without their other half, and calls that it lacks, by connection.

    Messages of its first and last moments, whose other half came before or after the capture, are not counted.
    """

    connections: tuple[Connection, ...]
    ops: I64
    no_reply: I64
    no_call: I64
    missing: I64
    hidden: int  # headers that were not captured
    again: int  # calls that came again soon after their answer
    again_on_tcp: int  # on the TCP connection of the answer, which loses nothing
    ran_ns: Span | None  # first reply and last call of its ops; None: it has none

    @classmethod
    def of(cls, side: Side, missing: I64, before_ns: Span | None = None) -> Self:
        """`missing` are the `missing_calls` of the side; `before_ns` is the `ran_ns` of the blocks before."""
        ops, loose = side.ops, side.decoded.loose
        ran_ns = before_ns
        if len(ops):
            first_ns, last_ns = int(ops.t3.min()), int(ops.t0.max())
            ran_ns = (first_ns, last_ns) if before_ns is None else (before_ns[0], max(before_ns[1], last_ns))
        begin_ns, end_ns = ran_ns or (0, -1)
        count = len(ops.connections)
        no_reply = loose.conn[(loose.state == State.NO_REPLY) & (loose.first_ns <= end_ns)]
        no_call = loose.conn[(loose.state == State.NO_CALL) & (loose.first_ns >= begin_ns)]
        return cls(
            ops.connections,
            np.bincount(ops.classes.conn, ops.classes.count, count).astype(np.int64),
            np.bincount(no_reply, minlength=count),
            np.bincount(no_call, minlength=count),
            missing,
            side.decoded.hidden,
            *_again(side),
            ran_ns,
        )

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        ran_ns = self.ran_ns or later.ran_ns
        if self.ran_ns and later.ran_ns:
            ran_ns = min(self.ran_ns[0], later.ran_ns[0]), max(self.ran_ns[1], later.ran_ns[1])
        by_connection = ("ops", "no_reply", "no_call", "missing")
        columns = {name: longer(getattr(self, name), getattr(later, name)) for name in by_connection}
        return self.plus(later, connections=max(self.connections, later.connections, key=len), ran_ns=ran_ns, **columns)

    def lost_share(self, known: AbstractSet[str]) -> float:
        """Of the ops that it should show, the share whose call, reply or both it does not have.

        Connections of hosts that are not `known` are left out, unless nothing is left (NAT).
        """
        shared = np.array([hosts([ends]) <= known for ends in self.connections], dtype=np.bool_)
        if not shared.any():
            shared = ~shared
        ops, no_reply, no_call, missing = (
            int(column[shared[: len(column)]].sum()) for column in (self.ops, self.no_reply, self.no_call, self.missing)
        )
        if not ops:
            return 0.0
        states = {State.NO_REPLY: no_reply, State.NO_CALL: no_call, State.PAIRED: 2 * ops}
        return hidden_share(states | {State.HEADER_NOT_CAPTURED: self.hidden}, missing)


class OddOps(Record):
    """What only ops, and messages of none, tell of how a capture was made."""

    took_ns: int = 0  # from their first byte to their last, summed
    without_offset: int = 0  # READs and WRITEs
    paired_xids: int = 0  # calls without a reply, of whose XID there is a reply without a call
    early: int = 0  # such replies that are older than the call
    early_ns: int = 0  # by how much: their median
    sealed: int = 0  # of NFS, accepted, and without a status: their results cannot be read

    @classmethod
    def of(cls, side: Side) -> Self:
        """One capture, or a block of it."""
        ops = side.ops
        has_offset = np.array([label in ("READ", "WRITE") for label in op_labels(ops.kinds)], dtype=np.bool_)
        without = int(np.count_nonzero(has_offset[ops.kind] & (ops.offset == NULL))) if len(ops) else 0
        took_ns = int((ops.t3 - ops.t0).sum()) if len(ops) else 0
        has_status = np.array([kind.program == NFS and kind.op != 0 for kind in ops.kinds], dtype=np.bool_)
        sealed = (
            int(np.count_nonzero((ops.accept == 0) & (ops.status == NULL) & has_status[ops.kind])) if len(ops) else 0
        )
        return cls(took_ns, without, *_early(side.decoded), sealed)

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        early_ns = max((self, later), key=lambda some: some.early).early_ns
        return self.plus(later, early_ns=early_ns)


def _early(d: Decoded) -> tuple[int, int, int]:
    """Replies without a call, and calls without a reply, that have one XID: how many, how many of them the wrong way
    round, and by how much."""
    calls, replies = (d.loose.take(d.loose.state == state) for state in (State.NO_REPLY, State.NO_CALL))
    if not len(calls) or not len(replies):
        return 0, 0, 0
    keys_c, keys_r = (loose.conn.astype(np.int64) << 33 | (loose.xid.astype(np.int64)) for loose in (calls, replies))
    keys_c, keys_r = keys_c * 2 + calls.direction, keys_r * 2 + (1 - replies.direction)
    _, at_c, at_r = np.intersect1d(keys_c, keys_r, return_indices=True)
    late_ns = calls.first_ns[at_c] - replies.first_ns[at_r]
    early_ns = late_ns[late_ns > 0]
    return len(late_ns), len(early_ns), int(np.median(early_ns)) if len(early_ns) else 0


def _again(side: Side) -> tuple[int, int]:
    d, ops = side.decoded, side.ops
    calls = d.loose.take((d.loose.state == State.RETRANSMITTED) & (d.loose.is_reply == 0) & (d.loose.op != NULL))
    since_ns = calls.first_ns - ops.t3[calls.op]
    after = calls.take((since_ns > 0) & (since_ns < _SOON_NS))
    made_anew = d.details.tcp.conn[d.details.tcp.reconnect > 0]
    over_tcp = np.array([ends.transport == "tcp" for ends in ops.connections], dtype=np.bool_)
    kept = over_tcp[after.conn] & (after.conn == ops.conn[after.op]) & ~np.isin(after.conn, made_anew)
    return len(after), int(np.count_nonzero(kept))


class Ticking(NamedTuple):
    """Ops whose stamps are by a clock that goes in steps of `ns` (0: by none), and how far their mean may be off."""

    ns: int = 0
    ops: int = 0
    error_ns: float = 0.0
    is_coarse: bool = False  # too coarse for more than means

    @classmethod
    def of(cls, side: Side) -> Self:
        """One capture, or a block of it."""
        tick, took_ns = side.tick, side.ops.t3 - side.ops.t0
        if not tick.ns or not len(took_ns):
            return cls()
        matters = is_coarse(tick, float(took_ns.mean()), alone=False)
        return cls(tick.ns, round(tick.share * len(took_ns)), mean_error_ns(tick, took_ns, side.ops.t0), matters)

    def joined(self, later: Self) -> Self:
        """This one, and a later block's: the coarser of both."""
        coarser = max(self, later, key=lambda ticking: ticking.ns)
        return coarser._replace(
            ops=self.ops + later.ops,
            error_ns=max(self.error_ns, later.error_ns),
            is_coarse=self.is_coarse or later.is_coarse,
        )


class SelectedTally(Record, eq=False):
    """Ops that filters select: `raw` and `histograms` are of their response times, by operation. And those that filters
    leave out, by reason."""

    raw: OpSums | None  # None: not asked for
    histograms: Mapping[Key, list[Bucket]]
    excluded: Mapping[str, int]

    @classmethod
    def of(cls, ops: Ops, reasons: I8, role: str, definition: str | None) -> Self:
        """Ops of one capture, with `select`'s reasons; `definition`: of response times, where these are asked for."""
        raw, histograms = (None, {}) if definition is None else _raw(ops, reasons == 0, role, definition)
        return cls(raw, histograms, excluded(reasons))

    def __add__(self, later: Self) -> Self:
        """These, and others."""
        histograms = {
            key: added([self.histograms.get(key, []), later.histograms.get(key, [])])
            for key in dict.fromkeys((*self.histograms, *later.histograms))
        }
        raw = None if self.raw is None or later.raw is None else self.raw + later.raw
        return type(self)(raw, histograms, Counter(self.excluded) + Counter(later.excluded))

    def as_sketches(self) -> Self:
        """The same in little memory (`OpSums.as_sketches`)."""
        return structs.replace(self, raw=None if self.raw is None else self.raw.as_sketches())


class CaptureTally(Record, eq=False):
    """One capture by itself."""

    source: Source
    facts: Decoded  # what is known of its packets; its messages are counted by state, and in no table
    shown: ShownTally
    odd: OddOps
    ticking: Ticking
    between: Sequence[FileGap]  # where a file of the set is missing
    programs: Counter[str]
    selected: SelectedTally

    @classmethod
    def of(cls, side: Side, missing: I64, role: str, definition: str | None, before_ns: Span | None = None) -> Self:
        """One capture, or a block of it; `definition`: of response times, where these are asked for; `before_ns`: as of
        `ShownTally.of`."""
        ops = side.ops
        programs: Counter[str] = Counter()
        for kind, count in zip(ops.classes.kind, ops.classes.count.tolist(), strict=True):
            programs[program_name(ops.kinds[kind].program)] += count  # callback programs share a name
        shown, selected = ShownTally.of(side, missing, before_ns), SelectedTally.of(ops, side.reasons, role, definition)
        odd, ticking = OddOps.of(side), Ticking.of(side)
        between = file_gaps(side.source, side.decoded)
        return cls(side.source, _facts(side.decoded), shown, odd, ticking, between, programs, selected)

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        details = structs.replace(
            later.facts.details,
            **{name: getattr(self.facts.details, name) + getattr(later.facts.details, name) for name in dropped()},
        )
        facts = structs.replace(later.facts, **counts_of([self.facts, later.facts]), details=details)
        return self.plus(
            later,
            source=later.source,
            facts=facts,
            ticking=self.ticking.joined(later.ticking),
            between=[*self.between, *later.between],
        )

    def as_sketches(self) -> Self:
        """The same in little memory (`OpSums.as_sketches`)."""
        return structs.replace(self, selected=self.selected.as_sketches())

    @property
    def ops(self) -> int:
        """All that it shows."""
        return int(self.shown.ops.sum())


def _raw(ops: Ops, kept: Bool, role: str, definition: str) -> tuple[OpSums, dict[Key, list[Bucket]]]:
    rows = None if kept.all() else np.flatnonzero(kept)
    count = len(ops) if rows is None else len(rows)

    def took_ns(at: Any) -> I64:
        return srt_ns(ops, definition, role, at if rows is None else rows[at])

    groups = by_operation(ops.kinds, ops.kind if rows is None else ops.kind[rows])
    raw = OpSums.of(OpColumns(count, server_ns=took_ns), groups, (TIMES,), (SERVER,))
    histograms = {}
    for at, key in enumerate(groups.labels):
        exact_ns = None if raw.durations is None else raw.durations.exact_ns(SERVER, at)
        histograms[key] = [] if exact_ns is None else histogram(exact_ns)
    return raw, histograms


def _facts(d: Decoded) -> Decoded:
    details: Any = {name: getattr(d.details, name) for name in dropped()}
    beside = {State.HEADER_NOT_CAPTURED: d.hidden, State.MALFORMED: d.malformed}
    return structs.replace(
        d,
        ops=Ops.empty(),
        loose=Loose.empty(),
        details=structs.replace(no_details(), tcp=d.details.tcp, **details),
        repeats={state: count - beside.get(state, 0) for state, count in d.states.items()},
        segments=[],
    )
