"""Each side -> what is in its capture, the response times of its ops by themselves, and what the filters leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from nfslat.answer import model
from nfslat.decompose import srt_ns
from nfslat.figures.audit.capture import capture_notes
from nfslat.figures.audit.unseen import with_unseen
from nfslat.model.blocks import filled
from nfslat.model.protocol import program_name
from nfslat.model.tables import I64
from nfslat.model.units import iso, to_s
from nfslat.results import Side
from nfslat.select import Filters, excluded
from nfslat.tally.keys import Key, by_operation, names_of
from nfslat.tally.stats import histogram, summary_of


def capture_of(side: Side, gaps: I64, hidden: model.Unseen | None) -> model.Capture:
    """What is in one capture, and the notes on it. `gaps` are its `missing_calls`."""
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
        audit=with_unseen(capture_notes(side, gaps), hidden),
        unseen=hidden,
    )


def raw_rows(side: Side, definition: str, role: str) -> list[model.RawRow]:
    """Response times of the selected ops of one capture, matched or not, by operation."""
    return [
        model.RawRow(*names_of(key), len(durations), histogram=histogram(durations), srt_ms=summary_of(durations))
        for key, durations in durations_by_kind(side, definition, role)
    ]


def durations_by_kind(side: Side, definition: str, role: str) -> Iterator[tuple[Key, I64]]:
    """The same, ns, in any order; the most frequent operation first."""
    ops, kept = side.ops, side.kept
    if not len(ops):
        return
    rows = None if kept.all() else np.flatnonzero(kept)
    groups = by_operation(ops.kinds, ops.kind if rows is None else ops.kind[rows])
    order, spans = groups.ordered(len(ops) if rows is None else len(rows))
    order = order if rows is None else rows[order].astype(np.int32)
    durations = filled(len(order), np.int64, lambda at: srt_ns(ops, definition, role, order[at].astype(np.int64)))
    for key, span in zip(groups.labels, spans, strict=True):
        yield key, durations[span]


def selection_of(sides: Mapping[str, Side], filters: Filters) -> model.Selection:
    """The filters, and how many ops of each capture they leave out, by reason."""
    return model.Selection(dict(filters.text), {name: excluded(side.reasons) for name, side in sides.items()})
