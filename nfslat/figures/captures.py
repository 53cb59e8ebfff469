"""What was counted of each capture -> what is in it, response times by themselves, and what the filters leave out."""

from __future__ import annotations

from collections.abc import Mapping

from nfslat.answer import model
from nfslat.figures.audit.capture import capture_notes
from nfslat.figures.audit.unseen import with_unseen
from nfslat.model.units import iso, to_s
from nfslat.select import Filters
from nfslat.tally.captures import CaptureTally
from nfslat.tally.durations import SERVER
from nfslat.tally.keys import names_of


def capture_of(tally: CaptureTally, hidden: model.Unseen | None) -> model.Capture:
    """What is in one capture, and the notes on it; `hidden`: ops that it knows of and does not show."""
    facts = tally.facts
    first_frame, files = 1, []
    for file in tally.source.files:
        files.append(model.CaptureFile(file.name, file.packets, first_frame))
        first_frame += file.packets
    return model.Capture(
        path=tally.source.name,
        files=files,
        format=tally.source.files[0].format,
        snaplen=tally.source.snaplen,
        packets=sum(facts.packet_kinds.values()),
        wire_bytes=facts.wire_bytes,
        captured_bytes=facts.captured_bytes,
        packet_kinds={name: count for name, count in facts.packet_kinds.items() if count},
        first=iso(facts.first_ns),
        last=iso(facts.last_ns),
        duration_s=to_s(facts.last_ns - facts.first_ns),
        flows=int((tally.shown.ops > 0).sum()),
        messages={state.name: count for state, count in facts.states.items() if count},
        ops=tally.ops,
        programs=dict(tally.programs.most_common()),
        audit=with_unseen(capture_notes(tally), hidden),
        unseen=hidden,
    )


def raw_rows(tally: CaptureTally) -> list[model.RawRow]:
    """Response times of the selected ops of one capture, matched or not, by operation, the most frequent first."""
    rows, raw = [], tally.selected.raw
    for row in sorted([] if raw is None else raw.rows(), key=lambda row: (-row.count, row.label)):
        summary = row.summary(SERVER)
        if summary is not None:
            histogram = tally.selected.histograms[row.label]
            rows.append(model.RawRow(*names_of(row.label), row.count, histogram=histogram, srt_ms=summary))
    return rows


def selection_of(tallies: Mapping[str, CaptureTally], filters: Filters) -> model.Selection:
    """The filters, and how many ops of each capture they leave out, by reason."""
    return model.Selection(dict(filters.text), {name: dict(tally.selected.excluded) for name, tally in tallies.items()})
