"""Operations, grouped and summed: `OpSums`, whose parts add up to the whole; and `OpFigures`, the figures of a group.

Sums are exact integers; percentiles are those of `nfslat.tally.durations`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nfslat.answer.figures import Summary, figures_of
from nfslat.answer.model import MatchedRow, Parts
from nfslat.clock.one_way import ErrorSums
from nfslat.decompose import PART_NAMES
from nfslat.kernels.exact import Sums, added, by_blocks, exact_sums, spread
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.units import to_ms
from nfslat.tally.columns import NOT_TOLD, OpColumns
from nfslat.tally.durations import CLIENT, MOST_EXACT, NETWORK, SERVER, Durations
from nfslat.tally.keys import ALL, ALL_TOGETHER, Grouping

_LEAST_TOLD = 0.95  # of the ops: a mean wait for a thread over fewer is none over all
Values = npt.NDArray[Any] | bool | None  # of each op; True: 1 of each, None: 0 of each
# What is summed: response times, waits for a thread, parts, the time in them until what arrived was sent, how far
# one-way times may be off, bytes and calls that were sent again.
TIMES, WAITS, PARTS, RESENT, ERRORS, MOVED = "times", "waits", "parts", "resent", "errors", "moved"
EVERYTHING = (TIMES, WAITS, PARTS, RESENT, ERRORS)  # that a row of the report has
RESENT_NAMES = ("call_retrans_wait", "reply_retrans_wait")  # fields of `Parts`


def _times(of: OpColumns, at: slice) -> Sequence[Values]:
    server = of.server_ns(at)
    if of.client_ns is None:
        return None, server, None
    client = of.client_ns(at)
    return client, server, client < server


def _waits(of: OpColumns, at: slice) -> Sequence[Values]:
    if of.wait_ns is None:
        return None, None, None
    wait = of.wait_ns(at)
    known = wait >= 0
    return wait != NOT_TOLD, known, np.where(known, wait, 0)


def _parts(of: OpColumns, at: slice) -> Sequence[Values]:
    return (None,) * len(PART_NAMES) if of.parts_ns is None else of.parts_ns(at)


def _resent(of: OpColumns, at: slice) -> Sequence[Values]:
    return (None, None, None) if of.resent_ns is None else (*of.resent_ns(at), True)


def _moved(of: OpColumns, at: slice) -> Sequence[Values]:
    if of.sizes is None or of.again is None:
        return None, None, None
    sizes = of.sizes(at)
    return np.maximum(sizes, 0), sizes == NULL, of.again(at)


_MEASURES: dict[str, tuple[tuple[str, ...], Callable[[OpColumns, slice], Sequence[Values]]]] = {
    TIMES: (("client_ns", "server_ns", "negative"), _times),
    WAITS: (("told", "waits", "wait_ns"), _waits),
    PARTS: (PART_NAMES, _parts),
    RESENT: ((*RESENT_NAMES, "resent_known"), _resent),
    MOVED: (("bytes", "without_size", "again"), _moved),
}


class OpSums(Record, eq=False):
    """Of ops in groups, which `labels` says what they are. `sums` has a row for each measure, with one of each group.

    Groups of two that are joined are those of the same label.
    """

    labels: tuple[Any, ...]
    sums: Mapping[str, Sums]
    durations: Durations | None = None
    errors: ErrorSums | None = None

    @classmethod
    def of(
        cls,
        columns: OpColumns,
        key: Grouping[Hashable] = ALL_TOGETHER,
        what: Collection[str] = (TIMES, WAITS),
        percentiles: Collection[str] = (),
    ) -> Self:
        """Sums of `what`, and `percentiles` of which sides' response times are to be told."""
        count = len(key.labels)
        sums = _sums(columns, key, what)
        durations = None
        if percentiles:
            order, spans = (None, [slice(0, columns.rows)]) if key.of_op is None else key.ordered(columns.rows)
            sides = {CLIENT: columns.client_ns, SERVER: columns.server_ns}
            asked = {side: sides[side] for side in percentiles if side in sides}
            durations = Durations.of({side: one for side, one in asked.items() if one}, columns.rows, order, spans)
        errors = None
        if ERRORS in what:
            clock, client, rows = columns.clock, columns.client, columns.client_rows
            errors = ErrorSums.none(count)
            if clock is not None and client is not None and rows is not None:
                errors = ErrorSums.of(clock, client, columns.rows, rows, key.of_op, count)
        return cls(tuple(key.labels), sums, durations, errors)

    @classmethod
    def empty(cls) -> Self:
        """Of no ops: what joins nothing to others."""
        return cls((), {})

    def __add__(self, other: Self) -> Self:
        """Both. Raises ``ValueError`` where not the same was summed of them."""
        if not other.labels or not self.labels:
            return self if self.labels else other
        if self.sums.keys() != other.sums.keys():
            raise ValueError(f"sums of {sorted(self.sums)} and of {sorted(other.sums)} do not add up")
        labels = {label: at for at, label in enumerate(dict.fromkeys((*self.labels, *other.labels)))}
        one, two = (part.placed(labels) for part in (self, other))
        return type(self)(
            one.labels,
            {name: added(one.sums[name], two.sums[name]) for name in one.sums},
            None if one.durations is None or two.durations is None else one.durations + two.durations,
            None if one.errors is None or two.errors is None else one.errors + two.errors,
        )

    def by(self, label_of: Callable[[Any], Hashable]) -> Self:
        """The same by coarser groups: those of which `label_of` their labels is the same."""
        labels: dict[Hashable, int] = {}
        for label in self.labels:
            labels.setdefault(label_of(label), len(labels))
        return self.placed(labels, label_of)

    def placed(self, labels: Mapping[Hashable, int], label_of: Callable[[Any], Hashable] = lambda label: label) -> Self:
        """The same by the groups that `labels` numbers from 0 on; one of which no group's label is has no ops."""
        count = len(labels)
        at = np.array([labels[label_of(label)] for label in self.labels], dtype=np.int64)
        if count == len(self.labels) and (at == np.arange(count)).all():
            return type(self)(tuple(labels), self.sums, self.durations, self.errors)
        return type(self)(
            tuple(labels),
            {name: spread(sums, at, count) for name, sums in self.sums.items()},
            None if self.durations is None else self.durations.placed(at, count),
            None if self.errors is None else self.errors.placed(at, count),
        )

    def total(self) -> Self:
        """All ops in one group."""
        return self.by(lambda _: ALL)

    def as_sketches(self) -> Self:
        """The same in little memory (`Durations.as_sketches`)."""
        durations = None if self.durations is None else self.durations.as_sketches()
        return type(self)(self.labels, self.sums, durations, self.errors)

    def bounded(self) -> Self:
        """The same, as sketches where more than `MOST_EXACT` durations are exact."""
        return self if self.durations is None or self.durations.exact <= MOST_EXACT else self.as_sketches()

    def rows(self) -> list[OpFigures]:
        """Figures of each group, in the order of `labels`."""
        sums: dict[str, list[int]] = {name: column.tolist() for name, column in self.sums.items()}
        errors: list[int | None] = [None] * len(self.labels)
        if self.errors is not None:
            known = zip(self.errors.ns(), self.errors.known.tolist(), sums["ops"], strict=True)
            errors = [ns if ops == count else None for ns, ops, count in known]
        return [OpFigures(label, sums, at, self.durations, errors[at]) for at, label in enumerate(self.labels)]


def _sums(columns: OpColumns, key: Grouping[Hashable], what: Collection[str]) -> dict[str, Sums]:
    count, groups = len(key.labels), key.of_op
    asked = [_MEASURES[one] for one in _MEASURES if one in what]

    def of_block(at: slice) -> list[Sums]:
        group = None if groups is None else groups[at].astype(np.int64)
        ops = np.array([at.stop - at.start]) if group is None else np.bincount(group, minlength=count)
        nothing = np.zeros(count, dtype=np.int64)

        def summed(values: Values) -> Sums:
            if isinstance(values, np.ndarray):
                return exact_sums(group, values, count)
            return ops if values else nothing

        return [ops, *(summed(values) for _, make in asked for values in make(columns, at))]

    names = ["ops", *(name for some, _ in asked for name in some)]
    sums = by_blocks(columns.rows, of_block) or [np.zeros(count, dtype=np.int64)] * len(names)
    return dict(zip(names, sums, strict=True))


class OpFigures(Record, eq=False):
    """Figures of a group, ms; None: not known. Sums of what was not asked for are no figures.

    Each field of `GroupFigures` is a property.
    """

    label: Any
    _sums: Mapping[str, Sequence[int]]  # by group
    _group: int
    _durations: Durations | None
    _error_ns: int | None  # how far a mean one-way time may be off

    def sum(self, measure: str) -> int:
        """One of the measures that were asked for, ns or a count."""
        return self._sums[measure][self._group]

    @property
    def sums(self) -> dict[str, int]:
        """By name, all of them."""
        return {name: self.sum(name) for name in self._sums}

    @property
    def count(self) -> int:
        """Ops."""
        return self.sum("ops")

    def mean_ms(self, measure: str) -> float | None:
        """Of "client", "server" or "network"; None without ops."""
        return to_ms(self._sum_ns(measure) / self.count) if self.count else None

    def _sum_ns(self, side: str) -> int:
        return self.sum("client_ns") - self.sum("server_ns") if side == NETWORK else self.sum(f"{side}_ns")

    def summary(self, side: str) -> Summary | None:
        """Of the response times "client", "server", "network"; None without ops, and of a side that is not known."""
        if not self.count or self._durations is None or side not in self._durations.sides:
            return None
        return self._durations.summary(side, self._group, self._sum_ns(side) / self.count)

    def percentile_ns(self, side: str, percent: int) -> int | None:
        """The same for a single percentile."""
        if not self.count or self._durations is None or side not in self._durations.sides:
            return None
        return self._durations.percentile(side, self._group, percent)

    @property
    def queue_ms(self) -> float | None:
        """Mean wait for a thread, over the ops that have one; None where too few loads of the server tell."""
        told, waits = self.sum("told"), self.sum("waits")
        return to_ms(self.sum("wait_ns") / waits) if waits and told >= _LEAST_TOLD * self.count else None

    @property
    def bytes(self) -> int | None:
        """That READs asked for and WRITEs sent; None where the size of none of them was captured."""
        return self.sum("bytes") if self.sum("bytes") or not self.sum("without_size") else None

    @property
    def one_way_error_ms(self) -> float | None:
        """How far a mean one-way time may be off; None where the clocks are not known."""
        return None if self._error_ns is None else to_ms(self._error_ns)

    @property
    def parts(self) -> Parts:
        """Mean parts, with the time in them until what arrived was sent."""
        return self.parts_with(self.one_way_error_ms)

    def parts_with(self, error_ms: float | None) -> Parts:
        """The same, where `error_ms` is how far one-way times may be off."""
        means = {name: to_ms(self.sum(name) / self.count) for name in (*PART_NAMES, *RESENT_NAMES)}
        resent = {name: means[name] for name in RESENT_NAMES} if self.sum("resent_known") == self.count else {}
        return Parts(
            call_send=means["call_send"],
            call_net=known_one_way(means["call_net"], error_ms),
            server=means["server"],
            reply_send=means["reply_send"],
            reply_net=known_one_way(means["reply_net"], error_ms),
            net_both=means["call_net"] + means["reply_net"],
            one_way_error=error_ms,
            **resent,
        )

    def matched_row(self, names: tuple[str, str, str], parts: Parts | None = None) -> MatchedRow:
        """As the report has it. Raises ``ValueError`` without ops."""
        client, server, network = (self.summary(side) for side in (CLIENT, SERVER, NETWORK))
        if client is None or server is None or network is None:
            raise ValueError("no ops, or percentiles were not asked for")
        return MatchedRow(
            *names,
            count=self.count,
            client_ms=client,
            server_ms=server,
            network_ms=network,
            negative_network=self.sum("negative"),
            parts_ms=self.parts if parts is None else parts,
            **figures_of(self),
        )


def known_one_way(figure: float, error: float | None) -> float | None:
    """A one-way figure, where the clocks are known well enough to tell it."""
    return None if error is None or abs(figure) <= error else figure
