"""An `Analysis` -> the figures of the matched ops: by operation, of all, and of the slowest 1 %."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nfslat.answer import model
from nfslat.decompose import PART_NAMES
from nfslat.figures.completeness import completeness_of
from nfslat.figures.inflight import queue_ms
from nfslat.kernels.order import side_by_side
from nfslat.model.blocks import each_block, filled, tally
from nfslat.model.causes import FROM_OUTSIDE, Cause, code
from nfslat.model.protocol import NULL, op_name, program_name, version_name
from nfslat.model.tables import I16, I32, I64, UNSTABLE_WRITE, Bool, Kind, Miss
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.tally.stats import slowest, summary_of
from nfslat.wire.charges.places import place
from nfslat.wire.reconnects import sent_on_a_new_connection

RETRANS_WAITS = ("call_retrans_wait", "reply_retrans_wait")  # fields of `model.Parts`
Key = tuple[int, int, int, int]  # program, version, minor version, operation


class Groups(NamedTuple):
    """Rows by what is printed of their kind: the most frequent first, then by key."""

    keys: list[Key]
    of_kind: I16  # group of each kind
    order: I32  # of the rows, so that those of a group stand side by side
    spans: list[slice]  # where

    @classmethod
    def of(cls, kinds: Sequence[Kind], kind: I16) -> Self:
        """Groups of the rows whose kinds are `kind`."""
        keys, of_kind = keys_of(kinds, kind)
        group = of_kind.take(kind)  # sooner than by an index of 16 bits
        return cls(keys, of_kind, *side_by_side(len(kind), len(keys), lambda at: group[at]))


def keys_of(kinds: Sequence[Kind], kind: I16) -> tuple[list[Key], I16]:
    """What is printed of the rows whose kinds are `kind`, as in `Groups`; and the group of each kind."""
    counts: Counter[Key] = Counter()
    for one, count in zip(kinds, tally(len(kind), len(kinds), lambda at: kind[at]).tolist(), strict=True):
        counts[one[:4]] += count
    keys = sorted((key for key, count in counts.items() if count), key=lambda key: (-counts[key], key))
    return keys, np.array([keys.index(one[:4]) if counts[one[:4]] else NULL for one in kinds], dtype=np.int16)


def names_of(key: Key) -> tuple[str, str, str]:
    """Program, operation and version, as they are printed."""
    program, version, minor, op = key
    return program_name(program), op_name(program, version, op), version_name(program, version, minor)


def matched_ops(c: Analysis, *, brief: bool = False) -> model.MatchedOps:
    """All of it; `brief`: without the percentiles of the parts, which nothing is judged by."""
    fates = {name: c.missed(name) for name in ("server", "client")}
    compared = {name: c.compared(name) for name in fates}
    by_op, total, tail = _figures(c) if len(c.matched) else ([], None, None)
    return model.MatchedOps(
        processed={name: int(np.count_nonzero(mask)) for name, mask in compared.items()},
        ops=len(c.matched),
        untimed=c.untimed,
        unmatched={
            name: {
                miss.name: count
                for miss in Miss
                if miss is not Miss.MATCHED and (count := int(np.count_nonzero(compared[name] & (fates[name] == miss))))
            }
            for name in fates
        },
        completeness=completeness_of(c),
        by_op=by_op,
        total=total,
        slowest=tail,
        parts=None if brief or total is None else _part_summaries(c, total.server_ms),
    )


def _figures(c: Analysis) -> tuple[list[model.MatchedRow], model.MatchedRow, model.MatchedRow]:
    """Of each operation, of all ops, and of the slowest 1 %."""
    client, server = c.client_srt_ns, c.server_srt_ns
    groups = Groups.of(c.client.ops.kinds, c.kind)

    def grouped(durations: I64) -> I64:
        return filled(len(client), np.int64, lambda at: durations[groups.order[at].astype(np.int64)])

    def summaries(durations: I64) -> list[tuple[model.Summary, int]]:
        """Of each operation, then of all ops: the figures, and how many are negative."""
        spans = [*groups.spans, slice(None)]
        return [(summary_of(durations[span]), int(np.count_nonzero(durations[span] < 0))) for span in spans]

    def part_sums(at: slice) -> list[npt.NDArray[Any]]:
        group = groups.of_kind[c.kind[at]].astype(np.int64)
        return [np.bincount(group, weights=part, minlength=len(groups.keys)) for part in c.parts.all_ns(at)]

    at_client, at_server = grouped(client), grouped(server)
    of_both = summaries(at_client), summaries(at_server)
    on_network = np.subtract(at_client, at_server, out=at_client)  # nothing else needs that any more
    columns = *of_both, summaries(on_network)
    del at_client, at_server, on_network
    sums = np.sum(each_block(len(client), part_sums), axis=0)
    spans: list[slice | I32] = [*(groups.order[span] for span in groups.spans), slice(None)]
    rows = [
        _row(c, names, of_client[0], of_server[0], of_network, parts, span)
        for names, of_client, of_server, of_network, parts, span in zip(
            [*map(names_of, groups.keys), ("", "all", "")], *columns, [*sums.T, sums.sum(axis=1)], spans, strict=True
        )
    ]
    tail = row_of(c, ("", "slowest 1 %", ""), slowest(client))
    return rows[:-1], rows[-1], tail


def _row(
    c: Analysis,
    names: tuple[str, str, str],
    client: model.Summary,
    server: model.Summary,
    network: tuple[model.Summary, int],
    part_sums_ns: npt.NDArray[np.float64],
    rows: slice | I32 | I64,
) -> model.MatchedRow:
    """The row of the matched ops `rows`."""
    matched = c.matched.client[rows]
    error = to_ms(c.clock.error_ns(c.client.ops, matched)) if c.clock.fits else None
    return model.MatchedRow(
        *names,
        count=len(matched),
        client_ms=client,
        server_ms=server,
        network_ms=network[0],
        negative_network=network[1],
        parts_ms=parts_of(part_sums_ns / len(matched), error, _waits(c, rows)),
        queue_ms=queue_ms(c, rows),
    )


def parts_of(means_ns: Iterable[float], error: float | None, waits: Mapping[str, float | None]) -> model.Parts:
    """Of means in the order of `PART_NAMES`; `error` is that of one-way times, ms, None where nothing is known of the
    clocks; `waits` are fields of the parts."""
    parts = {name: float(to_ms(ns)) for name, ns in zip(PART_NAMES, means_ns, strict=True)}
    return model.Parts(
        call_send=parts["call_send"],
        call_net=told(parts["call_net"], error),
        server=parts["server"],
        reply_send=parts["reply_send"],
        reply_net=told(parts["reply_net"], error),
        net_both=parts["call_net"] + parts["reply_net"],
        one_way_error=error,
        **waits,
    )


def row_of(c: Analysis, names: tuple[str, str, str], rows: I64) -> model.MatchedRow:
    """The figures of the matched ops `rows`, under names that are given."""
    client, server = c.client_srt_ns[rows], c.server_srt_ns[rows]
    network = client - server
    parts = np.array([part.sum() for part in c.parts.all_ns(rows)])
    negative = int(np.count_nonzero(network < 0))
    return _row(c, names, summary_of(client), summary_of(server), (summary_of(network), negative), parts, rows)


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
    decoded = c.client.decoded
    if (anew := sent_on_a_new_connection(c.client.ops, decoded.loose, decoded.details)).any():
        own[anew[c.matched.client]] = 0
    return np.maximum(own, 0 if c.inferred is None else c.inferred.op_error_ns(c.matched.client), out=own)


def _waits(c: Analysis, rows: slice | I32 | I64) -> dict[str, float | None]:
    waits = c.retrans_waits_ns
    if waits is None or not c.clock.fits:
        return {}
    asked = np.arange(len(c.matched))[rows] if any(len(one.row) for one in waits) else np.zeros(1, dtype=np.int64)
    return {
        name: float(to_ms(one.ns[np.isin(one.row, asked)].sum() / len(asked))) if len(one.row) else 0.0
        for name, one in zip(RETRANS_WAITS, waits, strict=True)
    }


def told(figure: float, error: float | None) -> float | None:
    """A one-way figure, where the clocks are known well enough to tell it."""
    return None if error is None or abs(figure) <= error else figure


def _part_summaries(c: Analysis, server_ms: model.Summary) -> model.PartSummaries:
    error = to_ms(c.clock.worst_error_ns) if c.clock.fits else None

    def of(name: str) -> model.Summary:
        known = {} if c.charges is None else c.charges.net_ns
        return summary_of(known[name] if name in known else c.parts.whole_ns(name))

    one_way = {name: of(name) for name in ("call_net", "reply_net")}
    told = {name: found if error is not None and abs(found.p50) > error else None for name, found in one_way.items()}
    return model.PartSummaries(
        call_send=of("call_send"),
        call_net=told["call_net"],
        server=server_ms if c.srt == "nfslat" else of("server"),
        reply_send=of("reply_send"),
        reply_net=told["reply_net"],
        one_way_error=error,
    )


def begins_ns(c: Analysis) -> I64:
    """When the call of each matched op was sent, on the client's clock."""
    return filled(len(c.matched), np.int64, lambda at: c.client.ops.t0[c.matched.client[at]])
