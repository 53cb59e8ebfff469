"""An `Analysis` -> the figures of the matched ops: by operation, of all, and of the slowest 1 %."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from msgspec import structs

from nfslat.answer import model
from nfslat.decompose import PART_NAMES
from nfslat.figures.above import sent_anew
from nfslat.figures.completeness import completeness_of
from nfslat.model.blocks import filled
from nfslat.model.causes import FROM_OUTSIDE, Cause, code
from nfslat.model.tables import I64, UNSTABLE_WRITE, Bool, Miss
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.tally.columns import OpColumns
from nfslat.tally.durations import SIDES, Durations
from nfslat.tally.keys import ALL_TOGETHER, by_operation, names_of
from nfslat.tally.ops import EVERYTHING, OpSums, known_one_way
from nfslat.tally.stats import slowest, summary_of
from nfslat.wire.charges.places import place


def matched_ops(c: Analysis, *, brief: bool = False, sums: OpSums | None = None) -> model.MatchedOps:
    """Figures of an analysis; `brief`: without the percentiles of the parts, which nothing is judged by; `sums`: its
    `sums_by_operation`, where these are known."""
    unmatched = {
        name: Counter(
            {miss.name: int(np.count_nonzero(compared & (fates == miss))) for miss in Miss if miss is not Miss.MATCHED}
        )
        for name, compared, fates in ((name, c.compared(name), c.missed(name)) for name in ("server", "client"))
    }
    completeness = completeness_of(c)
    if not len(c.matched):
        return matched_of(OpSums.empty(), c.untimed, unmatched, completeness)
    sums = sums_by_operation(c) if sums is None else sums
    tail = None if c.coarse_ns else row_of(c, ("", "slowest 1 %", ""), slowest(c.client_srt_ns))
    found = matched_of(sums, c.untimed, unmatched, completeness, tail)
    if c.coarse_ns:
        return structs.replace(found, tick_ms=to_ms(c.coarse_ns))
    if brief or found.total is None:
        return found
    return structs.replace(found, parts=_part_summaries(c, found.total.server_ms))


def matched_of(
    sums: OpSums,
    untimed: int,
    unmatched: Mapping[str, Counter[str]],
    completeness: model.Completeness,
    tail: model.MatchedRow | None = None,
) -> model.MatchedOps:
    """`sums` are by operation; `unmatched` are those of each side without a partner, by `Miss`, and `tail` are the
    slowest 1 %."""
    (total,) = sums.total().rows() or (None,)
    ops = 0 if total is None else total.count
    rows = sorted(sums.rows(), key=lambda row: (-row.count, row.label))
    return model.MatchedOps(
        processed={name: ops + untimed + sum(counts.values()) for name, counts in unmatched.items()},
        ops=ops,
        untimed=untimed,
        unmatched={name: {why: count for why, count in counts.items() if count} for name, counts in unmatched.items()},
        completeness=completeness,
        by_op=[row.matched_row(names_of(row.label)) for row in rows],
        total=None if total is None else total.matched_row(("", "all", "")),
        slowest=tail,
        parts=None,
    )


def sums_by_operation(c: Analysis) -> OpSums:
    """Of the matched ops, all that the rows of the report need."""
    return OpSums.of(OpColumns.of(c), by_operation(c.client.ops.kinds, c.kind), EVERYTHING, SIDES)


def part_times(c: Analysis) -> Durations:
    """The parts of all matched ops."""
    columns = {name: partial(c.parts.ns, name) for name in PART_NAMES}
    return Durations.of(columns, len(c.matched), None, [slice(0, len(c.matched))])


def row_of(c: Analysis, names: tuple[str, str, str], rows: I64) -> model.MatchedRow:
    """The figures of the matched ops `rows`, under names that are given."""
    (row,) = OpSums.of(OpColumns.of(c, rows), ALL_TOGETHER, EVERYTHING, SIDES).rows()
    return row.matched_row(names)


def unstable_writes(c: Analysis) -> Bool:
    """Which of the matched ops are WRITEs that the server may answer before the data are on stable storage."""
    return np.asarray((c.client.ops.flags[c.matched.client] & UNSTABLE_WRITE) != 0)


def in_thread_ns(c: Analysis) -> I64:
    """Of each matched op its time in the server without the wait for a thread, and without what TCP, a pause of the
    host or a new connection made of it. Times that were inferred are all alike below what they are known to."""
    load, own = c.inflight.load, c.server_srt_ns.copy()
    if load.threads.limited:
        own -= np.maximum(load.queue_ns[c.matched.server], 0)
    if c.charges is not None:
        rare = c.charges.rare
        taken = (rare.place == place("server")) & np.isin(rare.cause, [*map(code, FROM_OUTSIDE | {Cause.HOST_PAUSE})])
        np.subtract.at(own, rare.row[taken], rare.ns[taken])
    own[sent_anew(c)] = 0
    return np.maximum(own, 0 if c.inferred is None else c.inferred.op_error_ns(c.matched.client), out=own)


def _part_summaries(c: Analysis, server_ms: model.Summary) -> model.PartSummaries:
    error = to_ms(c.clock.worst_error_ns) if c.clock.fits else None

    def of(name: str) -> model.Summary:
        if name == "server" and c.srt == "nfslat":
            return server_ms
        network = {} if c.charges is None else c.charges.net_ns
        return summary_of(network[name] if name in network else c.parts.whole_ns(name))

    return part_summaries(of, error)


def part_summaries(of: Callable[[str], model.Summary], error: float | None) -> model.PartSummaries:
    """`of` makes that of each of ``PART_NAMES``; `error` is how far one-way times may be off, ms (None: not known)."""
    parts = {name: of(name) for name in PART_NAMES}
    for name in ("call_net", "reply_net"):
        if known_one_way(parts[name].p50, error) is None:
            del parts[name]
    return model.PartSummaries(
        call_send=parts["call_send"],
        call_net=parts.get("call_net"),
        server=parts["server"],
        reply_send=parts["reply_send"],
        reply_net=parts.get("reply_net"),
        one_way_error=error,
    )


def begins_ns(c: Analysis) -> I64:
    """When the call of each matched op was sent, on the client's clock."""
    return filled(len(c.matched), np.int64, lambda at: c.client.ops.t0[c.matched.client[at]])
