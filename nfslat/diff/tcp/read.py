"""Names of captures and of reports of `nfslat transport` -> the conversation of each run that has most packets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from pathlib import Path

import numpy as np
from msgspec import structs

from nfslat.decode.workspace import open_workspace
from nfslat.diff.read import beginning, document
from nfslat.errors import InputError
from nfslat.model.causes import LIMITS
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.units import NS_PER_S
from nfslat.select import Moment
from nfslat.tcp import both, model, report
from nfslat.tcp.packets import Packets, Trace
from nfslat.tcp.reading import read_trace
from nfslat.tcp.shared import Shared
from nfslat.tcp.stretches import PARTS, Stretches


class Run(Record):
    """A conversation and where it comes from."""

    name: str
    kind: str  # capture, report
    detail: model.Detail
    others: int
    captures: int


def is_report(name: str) -> bool:
    """Does a file hold a report of `nfslat transport`? Of a pipe what is read here would be missing later."""
    try:
        start = beginning(Path(name)) if Path(name).is_file() else b""
    except OSError:
        return False
    return start.startswith(b"{") and b'"nfslat.transport/' in start


def from_report(name: str) -> Run:
    """Raises ``InputError`` for what is no such report, and for one of an earlier version."""
    found = document(model.Report, name)
    if not found.details:
        raise InputError(f"{name}: a report without conversations")
    return _run(name, "report", found)


def from_captures(captures: Sequence[str], *, ports: Set[int], quiet: bool) -> Run:
    """One capture, or one from each end. Raises ``InputError`` and ``UsageError`` as `read_trace` does."""
    traces = _read(captures, ports, quiet=quiet)
    return _made(" ".join(captures), traces)


def halves(capture: str, at: Moment | None, *, ports: Set[int], quiet: bool) -> tuple[Run, Run]:
    """One capture before and after a moment; None: the middle of the conversation with most packets."""
    (trace,) = _read([capture], ports, quiet=quiet)
    of = trace.packets.conversation
    row = int(np.argmax(np.bincount(of)))
    t_ns = trace.packets.t_ns[of == row]
    cut = int(t_ns.min() + t_ns.max()) // 2 if at is None else at.on_clock(trace.first_ns)
    if not t_ns.min() < cut <= t_ns.max():
        raise InputError(
            f"{capture}: the split lies {(cut - trace.first_ns) / NS_PER_S:.3f} s after the first packet, not within "
            f"conversation {row}"
        )
    # What all of it shows holds for its parts, too: how far the ends are, and what the handshake agreed on.
    conversations = list(trace.conversations)
    floors = Shared(trace.talk(row)).floors
    conversations[row] = structs.replace(conversations[row], floors_ns=(floors.to_b_ns, floors.to_a_ns))
    whole = structs.replace(trace, conversations=tuple(conversations))
    others = int(np.count_nonzero(np.bincount(of))) - 1
    a, b = (
        structs.replace(_made(f"{capture}, {half}", [_part(whole, row, cut, after=half == "after")]), others=others)
        for half in ("before", "after")
    )
    return a, b


def _read(captures: Sequence[str], ports: Set[int], *, quiet: bool) -> list[Trace]:
    with open_workspace(list(captures), engine=None, quiet=quiet) as work:
        traces = [read_trace(source, work.engine.tools, work.progress, ports=ports) for source in work.sources]
        work.close_progress()
    return traces


def _made(name: str, traces: list[Trace]) -> Run:
    found = both.correlate(traces[0], traces[1]) if len(traces) == 2 else None
    packets = np.bincount(traces[0].packets.conversation, minlength=len(traces[0].conversations))
    if found is not None and found.pairs:
        alone = np.ones(len(packets), dtype=np.bool_)
        alone[[pair.rows[0] for pair in found.pairs]] = False
        packets[alone] = 0
    tool = model.Tool("", "", "nfslat diff")
    made = report.make(traces, found, tool, stream=int(np.argmax(packets)), top=1, trace=None)
    others = int(np.count_nonzero(np.bincount(traces[0].packets.conversation))) - 1
    return structs.replace(_run(name, "capture", made), others=others)


def _part(trace: Trace, row: int, cut_ns: int, *, after: bool) -> Trace:
    """The packets of a conversation before, or from, a moment, as if no others had been captured."""
    packets, signals = trace.packets, trace.signals
    rows = np.flatnonzero((packets.conversation == row) & ((packets.t_ns >= cut_ns) == after))
    signals = signals.take(np.flatnonzero(np.isin(signals.row, rows)))
    return structs.replace(
        trace,
        packets=_counted_anew(packets.take(rows)),
        places=np.arange(len(rows), dtype=np.int32),
        signals=dataclasses.replace(signals, row=np.searchsorted(rows, signals.row).astype(np.int32)),
        first_ns=cut_ns if after else trace.first_ns,
        last_ns=trace.last_ns if after else cut_ns,
    )


def _counted_anew(packets: Packets) -> Packets:
    """Positions from what is seen first of each direction, a byte of it or its ACK: what was acknowledged before is in
    no capture that begins here."""
    base = np.zeros(2, dtype=np.int64)
    for way in (0, 1):
        mine = np.flatnonzero(packets.direction == way)[:1]
        acks = np.flatnonzero((packets.direction != way) & (packets.ack != NULL))[:1]
        firsts = [
            (int(at[0]), int(values[at[0]])) for at, values in ((mine, packets.seq), (acks, packets.ack)) if len(at)
        ]
        base[way] = min(firsts)[1] if firsts else 0
    ack = np.where(packets.ack == NULL, NULL, packets.ack - base[1 - packets.direction])
    return dataclasses.replace(packets, seq=packets.seq - base[packets.direction], ack=ack)


def _run(name: str, kind: str, found: model.Report) -> Run:
    detail = max(found.details, key=lambda one: sum(way.packets for way in one.counts))
    if detail.stretches is None:
        raise InputError(f"{name}: made by an earlier nfslat, which is not enough for a comparison; make it again")
    if not _is_whole(detail.stretches):
        raise InputError(f"{name}: not a whole report of {model.SCHEMA}: stretches: not all in {PARTS} parts")
    return Run(name, kind, detail, len(found.conversations) - 1, len(found.captures))


def _is_whole(of: Stretches) -> bool:
    """Whoever made a report by hand may have left something out."""
    found = [] if of.turns_ms is None else [of.turns_ms]
    for way in of.ways:
        found += [way.round_trips_ms, way.in_flight_bytes, way.packet_bytes, way.again, way.bits, way.busy_bits]
        found += way.waited_ms.values()
    limits = all(set(way.waited_ms) == set(LIMITS) for way in of.ways)
    return limits and all(len(one.total) == len(one.per) == PARTS for one in found)
