"""A `Correlation` or a `Side` -> the report model: populations, shares, what was left out, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from nfslat.answer import model
from nfslat.clock.clock import Clock
from nfslat.decompose import srt_ns
from nfslat.evidence.known import Known
from nfslat.figures.audit import missing
from nfslat.figures.audit.capture import capture_notes
from nfslat.figures.audit.pair import pair_notes, remarks
from nfslat.figures.charges import charge_rows
from nfslat.figures.findings import contradictions, findings_and_verdict
from nfslat.figures.inflight import inflight, inflight_of_one
from nfslat.figures.matched import Groups, matched_ops, names_of
from nfslat.figures.stack import stack
from nfslat.figures.stats import histogram, summary_of
from nfslat.figures.transport import transport_rows
from nfslat.figures.whatif import Asked, what_if
from nfslat.findings.capture import capture_findings
from nfslat.findings.client import Slots
from nfslat.findings.clock import clock_findings
from nfslat.model.blocks import filled
from nfslat.model.protocol import program_name
from nfslat.model.tables import I64
from nfslat.model.units import iso, to_ms, to_s
from nfslat.results import Correlation, Side
from nfslat.select import Filters, excluded

_PPM = 1e6


def report_two(
    c: Correlation,
    tool: model.Tool,
    filters: Filters,
    known: Known,
    asked: Sequence[Asked] = (),
    evidence: Sequence[str] = (),
    sessions: int | None = None,
) -> model.Report:
    """The report on two captures; `evidence` is what there is to say of evidence from outside.

    Raises what `what_if` does.
    """
    sides = {"server": c.server, "client": c.client}
    threads_and_slots = inflight(c)  # takes all processors, and most of what follows needs it
    # numpy lets go of Python's lock while it works.
    with ThreadPoolExecutor(len(sides)) as pool:
        raw = {name: pool.submit(_raw, side, tool.srt, name) for name, side in sides.items()}
        later = pool.submit(matched_ops, c)
        said = remarks(c, application_known=bool(known.app_ms))
        captures = {name: _capture(side, side.missing_calls) for name, side in sides.items()}
        matched = later.result()
        pair = pair_notes(c)
        rows = stack(known, c)
        clock = _clock(c.clock)
        of_clock = clock_findings(clock)
        unseen_share = max(
            missing.unseen_share(c.server, c.client, c.server.missing_calls),
            missing.unseen_share(c.client, c.server, c.client.missing_calls),
        )
        transport = transport_rows(c)
        causes, verdict, facts = findings_and_verdict(c, known, matched, threads_and_slots, unseen_share, transport)
        threads = known.threads or threads_and_slots.server.threads_estimate
        slots = next((one.evidence.slots_each for one in causes if isinstance(one.evidence, Slots)), None)
        if sessions is None and facts is not None:
            sessions = facts.sessions_needed
        replays = what_if(c, asked, threads=threads, slots=slots, sessions=sessions)
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
                *contradictions(known, threads_and_slots.server),
            ],
            matched=matched,
            clock=clock,
            audit=pair,
            transport=transport,
            charges=charge_rows(c),
            inflight=threads_and_slots,
            what_if=replays,
            evidence=list(evidence),
            stack=rows.rows,
            findings=[*(one.as_finding() for one in causes), *capture_findings(captures, pair), *of_clock],
            verdict=verdict,
        )


def report_one(side: Side, tool: model.Tool, filters: Filters) -> model.Report:
    """The report on one capture: figures of the side where it was taken, and no comparison.

    Where it was taken cannot be known, so the SRT is the span that both kinds of side can give (definition "client").
    """
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures={"capture": _capture(side, side.missing_calls)},
        raw={"capture": _raw(side, tool.srt, "client")},
        selection=_selection({"capture": side}, filters),
        notes=[],
        inflight=inflight_of_one(side),
    )


def _raw(side: Side, definition: str, role: str) -> list[model.RawRow]:
    ops, kept = side.ops, side.kept
    rows = None if kept.all() else np.flatnonzero(kept)
    groups = Groups.of(ops.kinds, ops.kind if rows is None else ops.kind[rows])
    order = groups.order if rows is None else rows[groups.order].astype(np.int32)
    durations = filled(len(order), np.int64, lambda at: srt_ns(ops, definition, role, order[at].astype(np.int64)))
    return [
        model.RawRow(
            *names_of(key), span.stop - span.start, histogram=histogram(d := durations[span]), srt_ms=summary_of(d)
        )
        for key, span in zip(groups.keys, groups.spans, strict=True)
    ]


def _clock(clock: Clock) -> model.Clock:
    steps = [
        model.ClockStep(
            at=iso(step.after_ns),
            within_ms=to_ms(step.within_ns),
            ms=to_ms(step.jump_ns),
            bound_ms=(to_ms(step.jump_bounds_ns[0]), to_ms(step.jump_bounds_ns[1])),
            clock=step.clock,
            set_by_ms=None if step.set_by_ns is None else to_ms(step.set_by_ns),
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
        theta_ms=to_ms(main.theta_ns),
        bound_ms=(to_ms(low_ns), to_ms(high_ns)),
        at=iso(main.t_ns),
        drift_ppm=main.slope * _PPM,
        drift_bound_ppm=(least * _PPM, most * _PPM),
        steps=steps,
        rate_changes=counts[0],
        messages=counts[1],
        contradicting=counts[2],
    )


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
        first=iso(d.first_ns),
        last=iso(d.last_ns),
        duration_s=to_s(d.last_ns - d.first_ns),
        flows=len(np.unique(ops.classes.conn)),
        messages={state.name: count for state, count in d.states.items() if count},
        ops=len(ops),
        programs=dict(programs.most_common()),
        audit=capture_notes(side, gaps),
    )


def _selection(sides: dict[str, Side], filters: Filters) -> model.Selection:
    return model.Selection(dict(filters.text), {name: excluded(side.reasons) for name, side in sides.items()})
