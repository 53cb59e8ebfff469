"""Captures that are being made, or of any length -> stretches of time, each as soon as it is over, with what was judged
of it; and what is kept of the last ones: a report on them, and their packets."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from nfslat import __version__, pipeline
from nfslat.answer.model import Report, Tool
from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.decode.windows import Windows
from nfslat.errors import InputError
from nfslat.evidence.known import Known
from nfslat.flow.analysed import analysed
from nfslat.flow.pairs import Pair, pairs
from nfslat.flow.whole import SIDES
from nfslat.kernels.memory import give_back
from nfslat.live.held import Captures, report_on_packets
from nfslat.live.kept import Kept, Noted
from nfslat.live.rows import SCHEMA, SRT, Row, row_of
from nfslat.model.units import NS_PER_MS, NS_PER_S, iso
from nfslat.results import Analysis
from nfslat.select import Filters

_SOON_NS = NS_PER_S  # when both decoders are replaced: neither has read so far
LEAD_NS = 2 * NS_PER_S  # of packets, before a moment began
_MOST_EARLIER_NS = 60 * NS_PER_S  # they begin, for the sake of a slow operation
PACKETS_BEHIND_NS = 2 * NS_PER_S  # what was called in a stretch has its reply by then, or is slow
NOT_OF_PACKETS = (
    "this report is on figures that were kept of stretches of time: not all of their packets are held (--ring), and "
    "what nfslat says of those that are may differ"
)


@dataclass(frozen=True)
class Event:
    """What is or was there, from the first stretch that shows it to the last so far; client's clock."""

    what: str
    begin_ns: int
    end_ns: int

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return {"what": self.what, "begin": iso(self.begin_ns), "end": iso(self.end_ns)}

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.end_ns - self.begin_ns) / NS_PER_S


@dataclass(frozen=True)
class Stretch:
    """What ended in it. Without an op in both captures there is no analysis of it, and no report."""

    pair: Pair
    row: Row
    report: Report | None
    analysis: Analysis | None
    began: tuple[Event, ...] = ()  # causes
    ended: tuple[Event, ...] = ()
    is_new: bool = False  # its cause: a report of better days has it not
    of_packets: Report | None = None  # on its packets and those before it, where the row was held against these
    packets_ns: tuple[int, int] | None = None  # from when to when these were captured
    is_mixed: bool = False  # it names a cause for the first time while another one lasts, and may hold that one's end

    @property
    def answer(self) -> Report | None:
        """The report whose verdict the row has."""
        return self.report if self.of_packets is None else self.of_packets

    def as_json(self) -> str:
        """A line of JSON."""
        return json.dumps(
            {
                "schema": SCHEMA,
                **dataclasses.asdict(self.row),
                "is_new": self.is_new,
                "began": [one.as_dict() for one in self.began],
                "ended": [one.as_dict() for one in self.ended],
            },
            allow_nan=False,
        )


class Watched(Protocol):
    """What is read: `Watch`, `nfslat.live.one.WatchOne`."""

    def __iter__(self) -> Iterator[Stretch]:
        """Each stretch, until the captures end."""

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """From when to when there is something kept, on the client's clock."""

    def report(self) -> Report:
        """On what is kept: on its packets where these are held. Raises ``InputError`` where that is nothing."""

    def report_of_figures(self, begin_ns: int | None = None) -> Report:
        """On the figures that are kept of stretches that ended after `begin_ns`, without packets. Raises
        ``InputError`` where there are none."""

    def moment_spans_ns(self, begin_ns: int, end_ns: int, report: Report | None) -> list[tuple[int, int]]:
        """Times whose packets tell what was in this one, of which `report` is; the longest one first."""

    def write_packets(self, span_ns: tuple[int, int], folder: Path) -> Captures:
        """Write the packets of a time that are held, as captures in a folder."""

    def close(self) -> None:
        """No more is read."""


class Watch:
    """An iterator over stretches. It holds some of them in memory, never all; what it handed out is the caller's.

    Now and then all that is known of connections is begun anew, so that captures may last for days: calls that are in
    flight then are in no stretch.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        tools: Callable[[], Tools],
        width_ns: int,
        *,
        keep_ns: int,
        ring_bytes: int = 0,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        """Reading begins at once. `sources`: the server's capture, then the client's; `width_ns`: of a stretch.

        Stretches of `keep_ns` are kept, and `ring_bytes` of the newest packets. `idle` is called while nothing comes.
        """
        each = ring_bytes // len(sources)
        self._windows = {
            name: Windows(source, tools, width_ns, ring_bytes=each) for name, source in zip(SIDES, sources, strict=True)
        }
        self._kept = Kept(keep_ns)
        self._idle = idle
        self._later_ns = 0
        self._theta_ns: int | None = None  # of the last stretch of which it is known
        self._begin_ns: int | None = None  # of the first stretch
        self._is_renewing = False

    def __iter__(self) -> Iterator[Stretch]:
        """Raises ``InputError`` where one of them cannot be read, or the two have nothing in common."""
        yield from self._stretches()
        while not any(one.is_over for one in self._windows.values()):
            self._is_renewing = False
            self._kept.forget()
            yield from self._stretches()

    def _stretches(self) -> Iterator[Stretch]:
        """As long as numbers of connections mean the same."""
        sides = {name: Noted(one, name, self._idle) for name, one in self._windows.items()}
        gaps = {name: side.gaps for name, side in sides.items()}
        for pair in pairs(sides["server"], sides["client"], SRT):
            if pair.is_rest and not len(pair.client.ops):
                continue
            c = None if pair.found is None else analysed(pair.found, pair, gaps)
            self._later_ns = pair.later_ns
            self._kept.add(pair, c, sides)
            report = None if c is None else report_of(c)
            if report is not None and report.clock is not None and report.clock.theta_ms is not None:
                self._theta_ns = round(report.clock.theta_ms * NS_PER_MS)
            self._begin_ns = pair.begin_ns if self._begin_ns is None else self._begin_ns
            stretch = Stretch(pair, row_of(pair, report), report, c)
            del pair, c, report  # memory has room for one of them
            yield stretch
            del stretch
            give_back()  # what is kept lies between what is not
            if any(one.is_worn for one in self._windows.values()):
                self.renew()
        if self._windows["server"].renewals < self._windows["client"].renewals:
            for _ in sides["server"]:
                pass  # what is beyond the client's

    def renew(self) -> None:
        """All that is known of connections is begun anew, as soon as both captures can."""
        if self._is_renewing:
            return
        server_ns, client_ns = (self._windows[name].newest_ns for name in SIDES)
        if server_ns is None or client_ns is None:
            return
        at_ns = max(client_ns, server_ns + self._later_ns) + _SOON_NS
        self._windows["client"].renew(at_ns)
        self._windows["server"].renew(at_ns - self._later_ns)
        self._is_renewing = True

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """On the client's clock."""
        return self._kept.span_ns

    def report(self) -> Report:
        """On all that is kept: on its packets where these are held, else on figures of stretches, which is noted."""
        if (span_ns := self.span_ns) is None:
            raise InputError("nothing of that time is kept")
        of_packets = report_on_packets(partial(self.write_packets, (span_ns[0], span_ns[1] + PACKETS_BEHIND_NS)))
        return self.report_of_figures() if of_packets is None else of_packets

    def report_of_figures(self, begin_ns: int | None = None) -> Report:
        """On what is kept, or on what of it ended after `begin_ns`. Raises ``InputError`` where that is nothing."""
        report = self._kept.report(begin_ns)
        return dataclasses.replace(report, notes=[*report.notes, NOT_OF_PACKETS])

    def moment_spans_ns(self, begin_ns: int, end_ns: int, report: Report | None) -> list[tuple[int, int]]:
        """With some seconds before and behind it; and without these, of which a short moment is too small a part."""
        slowest_ns = slowest_op_ns(report)
        return [(begin_ns - LEAD_NS - slowest_ns, end_ns + PACKETS_BEHIND_NS), (begin_ns - slowest_ns, end_ns)]

    def write_packets(self, span_ns: tuple[int, int], folder: Path) -> Captures:
        """Two captures, the server's on the client's clock: with them `nfslat` can be run as on any other two."""
        later_ns, theta_ns = self._later_ns, self._theta_ns
        spans_ns = {"server": (span_ns[0] - later_ns, span_ns[1] - later_ns), "client": span_ns}
        paths = tuple(folder / f"{side}.pcapng" for side in SIDES)
        written = [
            self._windows[side].write_packets(path, spans_ns[side], -(theta_ns or 0) if side == "server" else 0, side)
            for side, path in zip(SIDES, paths, strict=True)
        ]
        words = f"{sum(side.packets for side in written):,} packets"
        if theta_ns is None:
            words += ", each capture on its own clock"
        firsts = [side.first_ns + more for side, more in zip(written, (later_ns, 0), strict=True) if side.packets]
        are_whole = len(firsts) == len(SIDES)
        if firsts and max(firsts) > max(span_ns[0], self._begin_ns or 0) + _SOON_NS * 3:
            are_whole = are_whole and all(self._holds_before(side, spans_ns[side][0]) for side in SIDES)
            if not are_whole:
                words += f", from {iso(max(firsts))[11:19]} UTC on: none that came earlier is held (--ring)"
        return Captures(paths, words, are_whole)

    def _holds_before(self, side: str, t_ns: int) -> bool:
        """Is any packet held that is older? Then none that is newer was dropped, and there was a pause."""
        return self._windows[side].write_packets(Path(os.devnull), (0, t_ns), 0, side).packets > 0

    def close(self) -> None:
        """No more is read."""
        for one in self._windows.values():
            one.close()


def report_of(c: Analysis) -> Report:
    """The report on one stretch."""
    return pipeline.report(c, Tool(__version__, c.engine, "nfslat live", c.srt), Filters(), Known())


def slowest_op_ns(report: Report | None) -> int:
    """What ended in a stretch was called before it, maybe long before: by how much packets have to begin earlier."""
    matched = None if report is None else report.matched
    total = None if matched is None else matched.total
    return 0 if total is None else min(round(total.client_ms.max * NS_PER_MS), _MOST_EARLIER_NS)
