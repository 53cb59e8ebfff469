"""Captures that are being made, or of any length -> stretches of time, each as soon as it is over, with what was judged
of it; and the packets that are held of the last ones."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from msgspec import structs

from nfslat import __version__, pipeline
from nfslat.answer.model import Report, Tool
from nfslat.decode.capture import Source
from nfslat.decode.native import open_source
from nfslat.decode.protocols import refuse_unreadable
from nfslat.decode.tools import Tools
from nfslat.decode.twice import is_suspected, refuse_merged
from nfslat.decode.windows import Window, Windows
from nfslat.errors import InputError
from nfslat.evidence.known import Known
from nfslat.findings.connecting import CODE as CONNECTING
from nfslat.flow.gaps import Gapped
from nfslat.flow.pairs import Pair, pairs
from nfslat.kernels.memory import give_back
from nfslat.live.held import Captures
from nfslat.live.rows import SCHEMA, SRT, Row, row_of
from nfslat.model.units import NS_PER_MS, NS_PER_S, iso
from nfslat.results import Analysis
from nfslat.select import Filters

LEAD_NS = 2 * NS_PER_S  # packets before a moment began
PACKETS_BEHIND_NS = 2 * NS_PER_S  # what was called in a stretch has its reply by then, or is slow
_MOST_LOOKS = 8  # of two captures in one file the second copies come as late as one clock is ahead
_RENEWAL_NS = NS_PER_S  # after which both decoders are replaced: neither has read so far
_MOST_EARLIER_NS = 60 * NS_PER_S  # packets begin, for the sake of a slow operation


@dataclass(frozen=True)
class Event:
    """What is or was there, from the first stretch that shows it to the last so far; client's clock."""

    what: str
    begin_ns: int
    end_ns: int

    def as_dict(self) -> dict[str, str]:
        """The event for JSON."""
        return {"what": self.what, "begin": iso(self.begin_ns), "end": iso(self.end_ns)}

    @property
    def seconds(self) -> float:
        """How long it lasted, in seconds."""
        return (self.end_ns - self.begin_ns) / NS_PER_S


class OnPackets(NamedTuple):
    """The report on the packets of a time; `from_ns` is when the first one of these is, where earlier ones are no
    longer held."""

    report: Report
    span_ns: tuple[int, int]
    from_ns: int | None


@dataclass(frozen=True)
class Stretch:
    """What ended in a stretch of time. Without an op in both captures there is no analysis of it, and no report."""

    pair: Pair
    row: Row
    report: Report | None
    began: tuple[Event, ...] = ()  # causes
    ended: tuple[Event, ...] = ()
    is_new: bool = False  # its cause: a report of better days has it not
    on_packets: OnPackets | None = None  # where the row was held against these
    is_mixed: bool = False  # it names a cause for the first time while another one lasts, and may hold that one's end

    @classmethod
    def of(cls, pair: Pair) -> Self:
        """A window as it is by itself."""
        report = None if pair.analysis is None else report_of(pair.analysis)
        return cls(pair, row_of(pair, report), report)

    @property
    def answer(self) -> Report | None:
        """The report whose verdict the row has."""
        return self.report if self.on_packets is None else self.on_packets.report

    def as_json(self) -> str:
        """It as a line of JSON."""
        return json.dumps(
            {
                "schema": SCHEMA,
                **dataclasses.asdict(self.row),
                "is_new": self.is_new,
                "began": [event.as_dict() for event in self.began],
                "ended": [event.as_dict() for event in self.ended],
            },
            allow_nan=False,
        )


class _HoldingWindows(Windows):
    """Windows of a capture whose newest packets are held."""

    first_ns: int | None = None  # of the first packet of all
    idle: Callable[[], None]  # is called while nothing comes
    tools: Callable[[], Tools]
    _has_rpc = False
    _looks = 0  # so often it was looked at whether it holds the captures of two hosts

    def is_ready(self) -> bool:
        self.idle()
        return super().is_ready()

    def __next__(self) -> Window:
        window = super().__next__()
        self.first_ns = window.decoded.first_ns if self.first_ns is None else self.first_ns
        self._has_rpc |= bool(window.decoded.calls.any())
        if window.is_last and not self._has_rpc:
            refuse_unreadable(self.source)
        if self._looks < _MOST_LOOKS and is_suspected(window.decoded):
            self._looks += 1
            self._refuse_merged(window)
        return window

    def _refuse_merged(self, window: Window) -> None:
        """Raise ``InputError`` where the packets that are held are of two hosts."""
        with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
            path = Path(folder, "capture.pcapng")
            if self.write_packets(path, (self.first_ns or 0, window.end_ns), 0, "capture").packets:
                source = open_source(str(path), self.tools, Path(folder), rereads=False)
                refuse_merged(structs.replace(source, name=self.source.name), [window.decoded])


class Watched(ABC):
    """What is read: an iterator over stretches, which holds some of them in memory, never all, and the newest packets.
    What it handed out is the caller's."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        tools: Callable[[], Tools],
        width_ns: int,
        *,
        keep_ns: int,
        ring_bytes: int,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        """Reading begins at once. `width_ns`: of a stretch; `keep_ns`: so far a report goes back at most; `ring_bytes`:
        of packets that are held. `idle` is called while nothing comes."""
        each = ring_bytes // len(sources)
        self._windows = {
            side: _HoldingWindows(source, tools, width_ns, ring_bytes=each) for side, source in sources.items()
        }
        for windows in self._windows.values():
            windows.idle, windows.tools = idle, tools
        self._width_ns, self._keep_ns = width_ns, keep_ns
        self._later_ns = 0  # about so much later the client's clock is than the server's
        self._theta_ns: int | None = None  # as a stretch told it last
        self._is_renewing = False
        self.span_ns: tuple[int, int] | None = None  # what a report is on, client's clock; None: nothing has ended

    def __iter__(self) -> Iterator[Stretch]:
        """Each stretch, until the captures end. Raises ``InputError`` where they cannot be read, or have nothing in
        common.

        Now and then all that is known of connections is begun anew, so that captures may last for days: calls that are
        in flight then are in no stretch.
        """
        while not any(windows.is_over for windows in self._windows.values()):
            self._is_renewing = False
            for stretch in self._until_renewal():
                begin_ns, end_ns = stretch.pair.begin_ns, stretch.pair.end_ns
                first_ns = begin_ns if self.span_ns is None else min(self.span_ns[0], begin_ns)
                self.span_ns = max(first_ns, end_ns - self._keep_ns), end_ns
                yield stretch
                del stretch  # memory has room for one of them
                give_back()
                if any(windows.is_worn for windows in self._windows.values()):
                    self.renew()

    @abstractmethod
    def _until_renewal(self) -> Iterator[Stretch]:
        """Each stretch, as long as numbers of connections mean the same."""

    def renew(self) -> None:
        """Begin anew all that is known of connections, as soon as all captures can."""
        sides = [(windows, self._clock_of(side)[0]) for side, windows in self._windows.items()]
        newest_ns = [ns + later_ns for windows, later_ns in sides if (ns := windows.newest_ns) is not None]
        if self._is_renewing or len(newest_ns) < len(sides):
            return
        for windows, later_ns in reversed(sides):
            windows.renew(max(newest_ns) + _RENEWAL_NS - later_ns)
        self._is_renewing = True

    @abstractmethod
    def moment_spans_ns(self, begin_ns: int, end_ns: int, report: Report | None) -> list[tuple[int, int]]:
        """Times whose packets tell what was in this one, of which `report` is; the longest one first."""

    def report(self) -> Report:
        """The report on the last stretches, with pictures. Raises ``NfslatError`` where there is none."""
        if self.span_ns is None:
            raise InputError("no stretch of time has ended")
        return self.on_packets(self.moment_spans_ns(*self.span_ns, None)[0], pictures=True).report

    def on_packets(self, span_ns: tuple[int, int], *, pictures: bool = False) -> OnPackets:
        """The report on the packets of a time that are held. Raises ``NfslatError`` where there is none."""
        with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
            captures = self.write_packets(span_ns, Path(folder))
            return OnPackets(captures.report(pictures=pictures), span_ns, captures.from_ns)

    def write_packets(self, span_ns: tuple[int, int], folder: Path) -> Captures:
        """Write the packets of a time that are held as captures in a folder, with which `nfslat` can be run as on any
        others; the server's are on the client's clock."""
        packets, missing_to_ns = {}, []
        for side, windows in self._windows.items():
            path, (later_ns, theta_ns) = folder / f"{side}.pcapng", self._clock_of(side)
            begin_ns = span_ns[0] - later_ns
            written = windows.write_packets(path, (begin_ns, span_ns[1] - later_ns), -theta_ns, side)
            packets[path] = written.packets
            is_first = windows.first_ns is None or written.first_ns <= windows.first_ns
            # Where an older one is held, none that is newer was dropped.
            if not is_first and not windows.write_packets(Path(os.devnull), (0, begin_ns), 0, side).packets:
                missing_to_ns.append(written.first_ns + later_ns)
        is_on_one_clock = len(packets) == 1 or self._theta_ns is not None
        return Captures(packets, max(missing_to_ns, default=None), is_on_one_clock)

    def _clock_of(self, side: str) -> tuple[int, int]:
        """By how much the client's clock is later than that of a capture, about and as told."""
        return (self._later_ns, self._theta_ns or 0) if side == "server" else (0, 0)

    def close(self) -> None:
        """No more is read."""
        for windows in self._windows.values():
            windows.close()


class Watch(Watched):
    """Two captures, "server" and "client"."""

    def _until_renewal(self) -> Iterator[Stretch]:
        server, client = (Gapped(self._windows[name]) for name in ("server", "client"))
        for pair in pairs(server, client, SRT):
            if pair.is_rest and not len(pair.client.ops):
                continue
            self._later_ns = pair.later_ns
            stretch = Stretch.of(pair)
            clock = None if stretch.report is None else stretch.report.clock
            if clock is not None and clock.theta_ms is not None:
                self._theta_ns = round(clock.theta_ms * NS_PER_MS)
            del pair
            yield stretch
            del stretch
        if self._windows["server"].renewals < self._windows["client"].renewals:
            for _ in server:
                pass  # what is beyond the client's

    def moment_spans_ns(self, begin_ns: int, end_ns: int, report: Report | None) -> list[tuple[int, int]]:
        """With some seconds before and behind it; and without these, of which a short moment is too small a part."""
        slowest_ns = slowest_op_ns(report)
        return [(begin_ns - LEAD_NS - slowest_ns, end_ns + PACKETS_BEHIND_NS), (begin_ns - slowest_ns, end_ns)]


def report_of(c: Analysis) -> Report:
    """The report on one stretch."""
    return pipeline.report(c, Tool(__version__, c.engine, "nfslat live", c.srt), Filters(), Known())


def slowest_op_ns(report: Report | None) -> int:
    """What ended in a stretch was called before it, maybe long before, as connections are tried in vain since long:
    by how much packets have to begin earlier."""
    if report is None:
        return 0
    total = None if report.matched is None else report.matched.total
    tried_ms = [finding.evidence["longest_ms"] for finding in report.findings if finding.code == CONNECTING]
    longest_ms: float = max([0.0 if total is None else total.client_ms.max, *tried_ms])
    return min(round(longest_ms * NS_PER_MS), _MOST_EARLIER_NS)
