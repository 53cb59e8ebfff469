"""A `Correlation` or a `Side` -> the report model: populations, shares, what was left out, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from nfslat import audit
from nfslat.constants import op_name, program_name, version_name
from nfslat.decompose import PART_NAMES, srt_ns
from nfslat.findings.capture import capture_findings
from nfslat.findings.verdict import Ground, Layers, verdict
from nfslat.report import model
from nfslat.results import Correlation, Side
from nfslat.select import Filters, excluded
from nfslat.stack import Known, stack
from nfslat.stats import histogram, slowest, summary
from nfslat.tables import I64, Miss, Ops, State

_NS_PER_MS = 1e6
Key = tuple[int, int, int, int]  # program, version, minor version, operation


def report_two(c: Correlation, tool: model.Tool, filters: Filters, known: Known) -> model.Report:
    """The report on two captures."""
    sides = {"server": c.server, "client": c.client}
    captures = {name: _capture(side) for name, side in sides.items()}
    matched = _matched(c)
    rows = stack(known, c)
    verdict_ = _verdict(c, known) if len(c.matched) else None
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures=captures,
        raw={name: _raw(side, tool.srt, name) for name, side in sides.items()},
        selection=_selection(sides, filters),
        notes=[*audit.notes(c, application_known=bool(known.app_ms)), *rows.notes],
        matched=matched,
        clock=model.Clock(
            theta_ms=c.theta.mid_ns / _NS_PER_MS if c.theta.fits else None,
            bound_ms=(c.theta.lo_ns / _NS_PER_MS, c.theta.hi_ns / _NS_PER_MS),
            fits=c.theta.fits,
        ),
        stack=rows.rows,
        findings=capture_findings({name: capture.audit for name, capture in captures.items()}, clock_fits=c.theta.fits),
        verdict=verdict_,
    )


def report_one(side: Side, tool: model.Tool, filters: Filters) -> model.Report:
    """The report on one capture: figures of the side where it was taken, and no comparison.

    Where it was taken cannot be known, so the SRT is the span that both kinds of side can give (definition "client").
    """
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures={"capture": _capture(side)},
        raw={"capture": _raw(side, tool.srt, "client")},
        selection=_selection({"capture": side}, filters),
        notes=[],
    )


def _groups(ops: Ops, rows: I64) -> Iterator[tuple[Key, I64]]:
    """(program, version, minor, op) and its positions in `rows`; most frequent first, then by key."""
    if not len(rows):
        return
    keys = np.stack([column[rows].astype(np.int64) for column in (ops.program, ops.version, ops.minor, ops.op)], axis=1)
    unique, inverse, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    for at in np.lexsort((*reversed(unique.T), -counts)):
        program, version, minor, op = unique[at].tolist()
        yield (program, version, minor, op), np.flatnonzero(inverse == at)


def _names(key: Key) -> tuple[str, str, str]:
    program, version, minor, op = key
    return program_name(program), op_name(program, version, op), version_name(program, version, minor)


def _raw(side: Side, definition: str, role: str) -> list[model.RawRow]:
    rows = np.flatnonzero(side.kept)
    durations = srt_ns(side.ops, definition, role)[rows]
    return [
        model.RawRow(*_names(key), len(at), summary(durations[at]), histogram(durations[at]))
        for key, at in _groups(side.ops, rows)
    ]


def _matched(c: Correlation) -> model.MatchedOps:
    client, server = c.client_srt_ns, c.server_srt_ns
    everything = np.arange(len(client))
    by_op = [_row(c, _names(key), at, client, server) for key, at in _groups(c.client.ops, c.matched.client)]
    fates = {name: c.missed(name) for name in ("server", "client")}
    compared = {name: c.compared(name) for name in fates}
    return model.MatchedOps(
        processed={name: int(mask.sum()) for name, mask in compared.items()},
        ops=len(client),
        unmatched={
            name: {
                miss.name: count
                for miss in Miss
                if miss is not Miss.MATCHED and (count := int((fates[name][compared[name]] == miss).sum()))
            }
            for name in fates
        },
        by_op=by_op,
        total=_row(c, ("", "all", ""), everything, client, server) if len(client) else None,
        slowest=_row(c, ("", "slowest 1 %", ""), slowest(client), client, server) if len(client) else None,
    )


def _row(c: Correlation, names: tuple[str, str, str], at: I64, client: I64, server: I64) -> model.MatchedRow:
    network = client[at] - server[at]
    parts = {name: float(getattr(c.parts, name)[at].mean() / _NS_PER_MS) for name in PART_NAMES}
    return model.MatchedRow(
        *names,
        count=len(at),
        client_ms=summary(client[at]),
        server_ms=summary(server[at]),
        network_ms=summary(network),
        negative_network=int((network < 0).sum()),
        parts_ms=model.Parts(
            call_send=parts["call_send"],
            call_net=parts["call_net"] if c.theta.fits else None,
            server=parts["server"],
            reply_send=parts["reply_send"],
            reply_net=parts["reply_net"] if c.theta.fits else None,
            net_both=parts["call_net"] + parts["reply_net"],
        ),
    )


def _verdict(c: Correlation, known: Known) -> model.Verdict:
    missed = max(
        int((c.compared(name) & ~np.isin(c.missed(name), (Miss.MATCHED, Miss.OUTSIDE_OVERLAP))).sum())
        - c.strangers(name)
        for name in ("server", "client")
    )
    client, server = c.client_srt_ns / _NS_PER_MS, c.server_srt_ns / _NS_PER_MS
    tail = slowest(c.client_srt_ns)
    mean = Layers(float(server.mean()), float((client - server).mean()))
    worst = Layers(float(server[tail].mean()), float((client - server)[tail].mean()))
    above = known.above_wire_ms(c)
    if above is not None:
        # Known only as a mean over the ops that it was given for, so those are the population here.
        rows = known.population(c)
        mean = Layers(float(server[rows].mean()), float((client - server)[rows].mean()), above, known.title(c))
    ground = Ground(
        ops=len(client),
        missed=missed,
        negative=int((client < server).sum()),
        unseen_share=max(audit.unseen_share(c.server, c.client), audit.unseen_share(c.client, c.server)),
        clock_fits=c.theta.fits,
    )
    return verdict(mean, worst, ground)


def _capture(side: Side) -> model.Capture:
    d, ops = side.decoded, side.ops
    states = Counter({State(value).name: count for value, count in enumerate(np.bincount(side.paired.states)) if count})
    states += Counter({"HEADER_NOT_CAPTURED": d.hidden, "MALFORMED": d.malformed})
    first_frame, files = 1, []
    for file in side.source.files:
        files.append(model.CaptureFile(file.name, file.packets, first_frame))
        first_frame += file.packets
    numbers, counts = np.unique(ops.program, return_counts=True)
    programs: Counter[str] = Counter()
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        programs[program_name(number)] += count  # callback programs share a name
    return model.Capture(
        path=side.source.name,
        files=files,
        format=side.source.files[0].format,
        snaplen=side.source.snaplen,
        packets=sum(d.packet_kinds.values()),
        packet_kinds={name: count for name, count in d.packet_kinds.items() if count},
        first=_iso(d.first_ns),
        last=_iso(d.last_ns),
        duration_s=(d.last_ns - d.first_ns) / 1e9,
        flows=len(np.unique(ops.conn)),
        messages={state.name: int(states[state.name]) for state in State if states[state.name]},
        ops=len(ops),
        programs=dict(programs.most_common()),
        audit=audit.capture_notes(side),
    )


def _selection(sides: dict[str, Side], filters: Filters) -> model.Selection:
    return model.Selection(dict(filters.text), {name: excluded(side.reasons) for name, side in sides.items()})


def _iso(ns: int) -> str:
    """ISO 8601 with nanoseconds, UTC."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
