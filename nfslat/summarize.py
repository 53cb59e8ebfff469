"""A `Correlation` or a `Side` -> the report model: populations, shares, what was left out, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nfslat.audit import missing
from nfslat.audit.capture import capture_notes
from nfslat.audit.pair import pair_notes, remarks
from nfslat.clock import Clock
from nfslat.columns import each_block, filled, side_by_side, tally
from nfslat.constants import NULL, op_name, program_name, version_name
from nfslat.decompose import PART_NAMES, srt_ns
from nfslat.findings.capture import capture_findings
from nfslat.findings.clock import clock_findings
from nfslat.findings.verdict import Ground, Layers, verdict
from nfslat.report import model
from nfslat.results import Correlation, Side
from nfslat.select import Filters, excluded
from nfslat.stack import Known, stack
from nfslat.stats import histogram, slowest, summary, summary_of
from nfslat.summarize_tcp import transport_rows
from nfslat.tables import I16, I32, I64, Kind, Miss

_NS_PER_MS, _PPM = 1e6, 1e6
Key = tuple[int, int, int, int]  # program, version, minor version, operation


def report_two(c: Correlation, tool: model.Tool, filters: Filters, known: Known) -> model.Report:
    """The report on two captures."""
    sides = {"server": c.server, "client": c.client}
    # numpy lets go of Python's lock while it works.
    with ThreadPoolExecutor(len(sides)) as pool:
        later = pool.submit(_matched, c)
        raw = {name: pool.submit(_raw, side, tool.srt, name) for name, side in sides.items()}
        gaps = {name: pool.submit(missing.missing_calls, side.decoded) for name, side in sides.items()}
        said = remarks(c, application_known=bool(known.app_ms))
        captures = {name: _capture(side, gaps[name].result()) for name, side in sides.items()}
        matched = later.result()
        pair = pair_notes(c)
        rows = stack(known, c)
        clock = _clock(c.clock)
        of_clock = clock_findings(clock)
        unseen_share = max(
            missing.unseen_share(c.server, c.client, gaps["server"].result()),
            missing.unseen_share(c.client, c.server, gaps["client"].result()),
        )
        return model.Report(
            schema=model.SCHEMA,
            nfslat=tool,
            captures=captures,
            raw={name: made.result() for name, made in raw.items()},
            selection=_selection(sides, filters),
            notes=[
                *(one.text for one in pair if one.severity == "warning"),
                *(one.text for one in of_clock if one.severity == "warning"),
                *said,
                *rows.notes,
            ],
            matched=matched,
            clock=clock,
            audit=pair,
            transport=transport_rows(c),
            stack=rows.rows,
            findings=[*capture_findings(captures, pair), *of_clock],
            verdict=_verdict(c, known, matched, unseen_share),
        )


def report_one(side: Side, tool: model.Tool, filters: Filters) -> model.Report:
    """The report on one capture: figures of the side where it was taken, and no comparison.

    Where it was taken cannot be known, so the SRT is the span that both kinds of side can give (definition "client").
    """
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures={"capture": _capture(side, missing.missing_calls(side.decoded))},
        raw={"capture": _raw(side, tool.srt, "client")},
        selection=_selection({"capture": side}, filters),
        notes=[],
    )


@dataclass(frozen=True)
class _Groups:
    """Rows by what is printed of their kind: the most frequent first, then by key."""

    keys: list[Key]
    of_kind: I16  # group of each kind
    order: I32  # of the rows, so that those of a group stand side by side
    spans: list[slice]  # where

    @classmethod
    def of(cls, kinds: Sequence[Kind], kind: I16) -> Self:
        """Groups of the rows whose kinds are `kind`."""
        counts: Counter[Key] = Counter()
        for one, count in zip(kinds, tally(len(kind), len(kinds), lambda at: kind[at]).tolist(), strict=True):
            counts[one[:4]] += count
        keys = sorted((key for key, count in counts.items() if count), key=lambda key: (-counts[key], key))
        of_kind = np.array([keys.index(one[:4]) if counts[one[:4]] else NULL for one in kinds], dtype=np.int16)
        return cls(keys, of_kind, *side_by_side(len(kind), len(keys), lambda at: of_kind[kind[at]]))


def _names(key: Key) -> tuple[str, str, str]:
    program, version, minor, op = key
    return program_name(program), op_name(program, version, op), version_name(program, version, minor)


def _raw(side: Side, definition: str, role: str) -> list[model.RawRow]:
    ops, kept = side.ops, side.kept
    rows = None if kept.all() else np.flatnonzero(kept)
    groups = _Groups.of(ops.kinds, ops.kind if rows is None else ops.kind[rows])
    order = groups.order if rows is None else rows[groups.order].astype(np.int32)
    durations = filled(len(order), np.int64, lambda at: srt_ns(ops, definition, role, order[at].astype(np.int64)))
    return [
        model.RawRow(
            *_names(key), span.stop - span.start, histogram=histogram(d := durations[span]), srt_ms=summary_of(d)
        )
        for key, span in zip(groups.keys, groups.spans, strict=True)
    ]


def _matched(c: Correlation) -> model.MatchedOps:
    fates = {name: c.missed(name) for name in ("server", "client")}
    compared = {name: c.compared(name) for name in fates}
    by_op, total, tail, parts = _figures(c) if len(c.matched) else ([], None, None, None)
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
        by_op=by_op,
        total=total,
        slowest=tail,
        parts=parts,
    )


def _clock(clock: Clock) -> model.Clock:
    steps = [
        model.ClockStep(
            at=_iso(step.after_ns),
            within_ms=step.within_ns / _NS_PER_MS,
            ms=step.jump_ns / _NS_PER_MS,
            bound_ms=(step.jump_bounds_ns[0] / _NS_PER_MS, step.jump_bounds_ns[1] / _NS_PER_MS),
            clock=step.clock,
            set_by_ms=None if step.set_by_ns is None else step.set_by_ns / _NS_PER_MS,
        )
        for step in clock.steps
    ]
    counts = clock.rate_changes, clock.messages, clock.contradicting
    if not clock.fits:
        return model.Clock(False, None, None, None, None, None, steps, *counts)
    main = clock.main
    low_ns, high_ns = main.bounds_at(main.t_ns)
    least, most = main.lines.steepness
    return model.Clock(
        fits=True,
        theta_ms=main.theta_ns / _NS_PER_MS,
        bound_ms=(low_ns / _NS_PER_MS, high_ns / _NS_PER_MS),
        at=_iso(main.t_ns),
        drift_ppm=main.slope * _PPM,
        drift_bound_ppm=(least * _PPM, most * _PPM),
        steps=steps,
        rate_changes=counts[0],
        messages=counts[1],
        contradicting=counts[2],
    )


def _figures(
    c: Correlation,
) -> tuple[list[model.MatchedRow], model.MatchedRow, model.MatchedRow, model.PartSummaries]:
    """Of each operation, of all ops, and of the slowest 1 %."""
    client, server = c.client_srt_ns, c.server_srt_ns
    groups = _Groups.of(c.client.ops.kinds, c.kind)

    def summaries(of_rows: Callable[[I64], I64]) -> list[tuple[model.Summary, int]]:
        """Of each operation, then of all ops: the figures, and how many are negative."""
        durations = filled(len(client), np.int64, lambda at: of_rows(groups.order[at].astype(np.int64)))
        spans = [*groups.spans, slice(None)]
        return [(summary_of(durations[span]), int(np.count_nonzero(durations[span] < 0))) for span in spans]

    def part_sums(at: slice) -> list[npt.NDArray[Any]]:
        group = groups.of_kind[c.kind[at]].astype(np.int64)
        return [np.bincount(group, weights=part, minlength=len(groups.keys)) for part in c.parts.all_ns(at)]

    columns = (
        summaries(lambda rows: client[rows]),
        summaries(lambda rows: server[rows]),
        summaries(lambda rows: client[rows] - server[rows]),
    )
    sums = np.sum(each_block(len(client), part_sums), axis=0)
    spans: list[slice | I32] = [*(groups.order[span] for span in groups.spans), slice(None)]
    rows = [
        _row(c, names, of_client[0], of_server[0], of_network, parts, span)
        for names, of_client, of_server, of_network, parts, span in zip(
            [*map(_names, groups.keys), ("", "all", "")], *columns, [*sums.T, sums.sum(axis=1)], spans, strict=True
        )
    ]
    at = slowest(client)
    network = client[at] - server[at]
    tail = _row(
        c,
        ("", "slowest 1 %", ""),
        summary(client[at]),
        summary(server[at]),
        (summary(network), int(np.count_nonzero(network < 0))),
        np.array([part.sum() for part in c.parts.all_ns(at)]),
        at,
    )
    return rows[:-1], rows[-1], tail, _part_summaries(c, rows[-1].server_ms)


def _row(
    c: Correlation,
    names: tuple[str, str, str],
    client: model.Summary,
    server: model.Summary,
    network: tuple[model.Summary, int],
    part_sums_ns: npt.NDArray[np.float64],
    rows: slice | I32 | I64,
) -> model.MatchedRow:
    """The row of the matched ops `rows`."""
    matched = c.matched.client[rows]
    parts = {name: float(ns / len(matched) / _NS_PER_MS) for name, ns in zip(PART_NAMES, part_sums_ns, strict=True)}
    error = c.clock.error_ns(c.client.ops, matched) / _NS_PER_MS if c.clock.fits else None
    return model.MatchedRow(
        *names,
        count=len(matched),
        client_ms=client,
        server_ms=server,
        network_ms=network[0],
        negative_network=network[1],
        parts_ms=model.Parts(
            call_send=parts["call_send"],
            call_net=_told(parts["call_net"], error),
            server=parts["server"],
            reply_send=parts["reply_send"],
            reply_net=_told(parts["reply_net"], error),
            net_both=parts["call_net"] + parts["reply_net"],
            one_way_error=error,
            **_waits(c, rows),
        ),
    )


def _waits(c: Correlation, rows: slice | I32 | I64) -> dict[str, float | None]:
    waits = c.retrans_waits_ns
    if waits is None or not c.clock.fits:
        return {}
    asked = np.arange(len(c.matched))[rows] if any(len(one.row) for one in waits) else np.zeros(1, dtype=np.int64)
    names = ("call_retrans_wait", "reply_retrans_wait")
    return {
        name: float(one.ns[np.isin(one.row, asked)].sum() / len(asked) / _NS_PER_MS)
        for name, one in zip(names, waits, strict=True)
    }


def _told(figure: float, error: float | None) -> float | None:
    """A one-way figure, where the clocks are known well enough to tell it."""
    return None if error is None or abs(figure) <= error else figure


def _part_summaries(c: Correlation, server_ms: model.Summary) -> model.PartSummaries:
    error = c.clock.worst_error_ns / _NS_PER_MS if c.clock.fits else None

    def of(name: str) -> model.Summary:
        return summary_of(filled(len(c.matched), np.int64, lambda at: c.parts.ns(name, at)))

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


def _verdict(c: Correlation, known: Known, matched: model.MatchedOps, unseen_share: float) -> model.Verdict | None:
    if matched.total is None or matched.slowest is None:
        return None
    missed = max(
        sum(count for miss, count in matched.unmatched[name].items() if miss != Miss.OUTSIDE_OVERLAP.name)
        - c.strangers(name)
        for name in ("server", "client")
    )
    mean, worst = (Layers(row.server_ms.mean, row.network_ms.mean) for row in (matched.total, matched.slowest))
    above = known.above_wire_ms(c)
    if above is not None:
        # Known only as a mean over the ops that it was given for, so those are the population here.
        rows = known.population(c)
        server = float(c.server_srt_ns[rows].mean() / _NS_PER_MS)
        mean = Layers(server, float(c.client_srt_ns[rows].mean() / _NS_PER_MS) - server, above, known.title(c))
    ground = Ground(
        ops=matched.ops,
        untimed=matched.untimed,
        missed=missed,
        negative=matched.total.negative_network,
        unseen_share=unseen_share,
        clock_fits=c.clock.fits,
    )
    return verdict(mean, worst, ground)


def _capture(side: Side, gaps: I64) -> model.Capture:
    d, ops = side.decoded, side.ops
    first_frame, files = 1, []
    for file in side.source.files:
        files.append(model.CaptureFile(file.name, file.packets, first_frame))
        first_frame += file.packets
    programs: Counter[str] = Counter()
    for kind, count in zip(ops.classes.kind, ops.classes.count.tolist(), strict=True):
        programs[program_name(ops.kinds[kind].program)] += count  # callback programs share a name
    return model.Capture(
        path=side.source.name,
        files=files,
        format=side.source.files[0].format,
        snaplen=side.source.snaplen,
        packets=sum(d.packet_kinds.values()),
        wire_bytes=d.wire_bytes,
        captured_bytes=d.captured_bytes,
        packet_kinds={name: count for name, count in d.packet_kinds.items() if count},
        first=_iso(d.first_ns),
        last=_iso(d.last_ns),
        duration_s=(d.last_ns - d.first_ns) / 1e9,
        flows=len(np.unique(ops.classes.conn)),
        messages={state.name: count for state, count in d.states.items() if count},
        ops=len(ops),
        programs=dict(programs.most_common()),
        audit=capture_notes(side, gaps),
    )


def _selection(sides: dict[str, Side], filters: Filters) -> model.Selection:
    return model.Selection(dict(filters.text), {name: excluded(side.reasons) for name, side in sides.items()})


def _iso(ns: int) -> str:
    """ISO 8601 with nanoseconds, UTC."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
