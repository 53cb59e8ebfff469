"""Lines of a SQL*Net trace -> what SDU it states and where, what was sent and received, and how many turns that made.

Lines (TRACE_LEVEL_CLIENT or TRACE_LEVEL_SERVER of sqlnet.ora, from ADMIN on; Oracle Net Services Administrator's Guide,
"Evaluating Oracle Net Services Trace Files"), with or without (thread) and [time] in front:

    (5304) [12-FEB-2019 17:25:10:804] nsopen: lcl[0]=0xf4ffefff, gbl[0]=0xfabf, tdu=32767, sdu=8192
    nsconneg: vsn=312, lov=300, opt=0x0, sdu=2048, tdu=32767, ntc=0x7f08
    nspsend: plen=187, type=1
    nspsend: 187 bytes to transport
    nsprecv: 8 bytes from transport
    nsprecv: tlen=8, plen=8, type=11
    nsbasic_bsd: tot=0, plen=164.
    nttfprd: socket 836 had bytes read=183

A packet is told by several of these lines. Of each function the ones that tell of whole packets count: plen, else bytes
to or from transport; the fast path (nsbasic_brc) tells none of them, so there it is the reads from its socket.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from nfslat.errors import InputError

_LINE = re.compile(r"(?:^|[\])>\s])(ns[a-z0-9_]{2,24}|nt[a-z0-9_]{2,24}|ni[a-z0-9_]{2,24}): ?(.*)", re.IGNORECASE)
_BEGIN = 160  # characters in which thread, time and function stand
_STATED = re.compile(r"(?<![a-z0-9_])(sdu|tdu) ?= ?(0x[0-9a-f]{1,8}|\d{1,10})(?![0-9a-z])", re.IGNORECASE)
_PLEN = re.compile(r"(?:^|[\s,])plen=(\d{1,9})(?!\d)")
_TO = re.compile(r"(\d{1,9}) bytes to transport")
_FROM = re.compile(r"(\d{1,9}) bytes from transport")
_SOCKET = re.compile(r"had bytes (read|written)=(\d{1,9})(?!\d)")
_TIME = re.compile(r"\[(?:\d{1,9} )?(\d{1,2}-[A-Za-z]{3}-\d{4} \d\d:\d\d:\d\d):(\d{3})\d{0,3}\]")
_MOST_STATED = 64
_LARGEST = 1 << 30
_NEGOTIATED = "nsconneg"
_SENDS, _RECEIVES = ("nspsend", "nsbasic_bsd"), ("nsprecv", "nsbasic_brc")


@dataclass(frozen=True)
class Stated:
    """Sizes that a function states; bytes."""

    function: str  # nsopen: this side's own; nsconneg: what was negotiated; nsc2addr: from the address
    sdu_bytes: int | None
    tdu_bytes: int | None
    count: int


@dataclass(frozen=True)
class Moved:
    """Packets that were sent, or received; headers included."""

    count: int
    bytes: int
    largest_bytes: int | None
    sizes: tuple[tuple[int, int], ...]  # (bytes, packets), first the most frequent


@dataclass(frozen=True)
class SqlnetTrace:
    """A SQL*Net trace."""

    stated: tuple[Stated, ...]  # in the order in which they come first
    sdu_bytes: int | None  # in effect: the last that nsconneg states, else the smallest stated; None: none is
    sent: Moved
    received: Moved
    turns: int  # something received after something sent
    seconds: float | None  # between the first and the last time in it
    unreadable: int  # lines with a size that makes no sense


def parse(lines: Iterable[str]) -> SqlnetTrace:
    """Read a trace; raises ``InputError`` where it holds neither sizes nor an SDU."""
    reading = _Reading()
    for line in lines:
        reading.take(line)
    return reading.done()


def notes(trace: SqlnetTrace) -> tuple[str, ...]:
    """One sentence each, for the reader of a report."""
    found = []
    stated = {one.sdu_bytes: one.function for one in trace.stated if one.sdu_bytes is not None}
    if len(stated) > 1:
        sizes = ", ".join(f"{size} by {function}" for size, function in sorted(stated.items()))
        found.append(f"several SDU sizes are stated ({sizes}): {trace.sdu_bytes} bytes count")
    if trace.unreadable:
        found.append(f"{trace.unreadable} lines of the SQL*Net trace could not be read")
    if not trace.sent.count and not trace.received.count:
        found.append("no sizes of packets: trace at level SUPPORT (16)")
    return tuple(found)


class _Reading:
    """What the lines said so far."""

    def __init__(self) -> None:
        self._stated: dict[tuple[str, int | None, int | None], int] = {}
        self._negotiated: int | None = None
        self._kinds: dict[tuple[bool, str, str], int] = {}  # (sent, function, kind of line) -> its number
        self._numbers, self._sizes = array("H"), array("q")  # of what moved: kind, bytes
        self._inside = ""  # the function of the ns layer that reads or writes just now
        self._times: tuple[str, str] | None = None
        self._unreadable = 0

    def take(self, line: str) -> None:
        found = _LINE.search(line[:_BEGIN])
        if found is None:
            return
        function, text = found[1].lower(), line[found.start(2) : found.start(2) + 4096]
        if time := _TIME.search(line[: found.start(1)]):
            self._times = (self._times[0] if self._times else time[0], time[0])
        # The dump of a packet may show a size that is cut.
        if ("du" in text or "DU" in text) and not text.rstrip().endswith("|"):
            self._state(function, text)
        if function in _SENDS or function in _RECEIVES:
            if text.startswith("entry"):
                self._inside = function
            self._packet(function, text)
        elif socket := _SOCKET.search(text):
            sent = socket[1] == "written"
            self._move(
                sent, self._inside if self._inside in (_SENDS if sent else _RECEIVES) else "", "socket", socket[2]
            )

    def _state(self, function: str, text: str) -> None:
        sizes: dict[str, int] = {}
        for name, number in _STATED.findall(text):
            value = int(number, 0) if number.lower().startswith("0x") else int(number)
            if 0 < value < _LARGEST:
                sizes.setdefault(name.lower(), value)
            else:
                self._unreadable += 1
        if not sizes:
            return
        if function == _NEGOTIATED and "sdu" in sizes:
            self._negotiated = sizes["sdu"]
        key = (function, sizes.get("sdu"), sizes.get("tdu"))
        if key in self._stated or len(self._stated) < _MOST_STATED:
            self._stated[key] = self._stated.get(key, 0) + 1

    def _packet(self, function: str, text: str) -> None:
        sent = function in _SENDS
        if plen := _PLEN.search(text):
            self._move(sent, function, "plen", plen[1])
        elif moved := (_TO if sent else _FROM).match(text):
            self._move(sent, function, "transport", moved[1])

    def _move(self, sent: bool, function: str, kind: str, number: str) -> None:
        if not 0 < int(number) < _LARGEST:
            self._unreadable += 1
            return
        key = (sent, function, kind)
        self._numbers.append(self._kinds.setdefault(key, len(self._kinds)))
        self._sizes.append(int(number))

    def done(self) -> SqlnetTrace:
        if not self._stated and not self._sizes:
            raise InputError("is no SQL*Net trace, or one without sizes: trace at level ADMIN or SUPPORT")
        chosen = self._chosen()
        moved: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        turns, last = 0, None
        for number, size in zip(self._numbers, self._sizes, strict=True):
            sent = chosen.get(number)
            if sent is None:
                continue
            moved[sent][size] += 1
            turns += last is True and not sent
            last = sent
        smallest = min((sdu for _, sdu, _ in self._stated if sdu is not None), default=None)
        return SqlnetTrace(
            stated=tuple(Stated(*key, count) for key, count in self._stated.items()),
            sdu_bytes=smallest if self._negotiated is None else self._negotiated,
            sent=_moved(moved[True]),
            received=_moved(moved[False]),
            turns=turns,
            seconds=self._seconds(),
            unreadable=self._unreadable,
        )

    def _chosen(self) -> dict[int, bool]:
        """Numbers of the kinds of lines that count -> whether they tell of something sent: one kind a function."""
        best: dict[tuple[bool, str], tuple[int, int]] = {}
        for (sent, function, kind), number in self._kinds.items():
            rank = ("plen", "transport", "socket").index(kind)
            key = (sent, function)
            if key not in best or rank < best[key][0]:
                best[key] = (rank, number)
        found = {}
        for (sent, function), (_, number) in best.items():
            # Reads and writes of nobody's count only where no function tells anything.
            if function or not any(other and s == sent for s, other in best):
                found[number] = sent
        return found

    def _seconds(self) -> float | None:
        if self._times is None:
            return None
        first, last = (_moment(text) for text in self._times)
        return (last - first).total_seconds() if first and last and last >= first else None


def _moved(sizes: Counter[int]) -> Moved:
    return Moved(
        count=sizes.total(),
        bytes=sum(size * count for size, count in sizes.items()),
        largest_bytes=max(sizes, default=None),
        sizes=tuple(sorted(sizes.items(), key=lambda item: (-item[1], -item[0]))),
    )


_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()


def _moment(text: str) -> datetime | None:
    """Months are English in traces, whatever the locale is. No zone is told: the time is for differences."""
    found = _TIME.search(text)
    if found is None:
        return None
    day, month, rest = found[1].split("-", 2)
    try:
        clock = datetime.strptime(f"{day} {_MONTHS.index(month.upper()) + 1} {rest}", "%d %m %Y %H:%M:%S").replace(
            tzinfo=UTC
        )
    except ValueError:
        return None
    return clock.replace(microsecond=int(found[2]) * 1000)
