"""What ``strace -f -ttt -T -yy`` prints -> calls that read, write and sync files: file, offset, length, begin, end.

strace(1): -ttt is seconds since 1970 when the call begins, -T its duration in angle brackets, -yy (or -y) the path
behind a descriptor. A call that another task interrupts is printed in two lines, ``<unfinished ...>`` and ``<...
resumed>``. Read are pread64, pwrite64, preadv, pwritev (and their second versions), fsync and fdatasync; read and write
have no offset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nfslat.errors import InputError
from nfslat.evidence.kinds import STRACE
from nfslat.evidence.records import Evidence

_LONGEST, _MOST = 1 << 16, 2_000_000
_LATEST_NS = 10_000_000  # strace prints arguments in less, on a busy host, too
_LINE = re.compile(STRACE, re.ASCII)
_CALL = re.compile(r"(pread64|pwrite64|preadv2?|pwritev2?|fsync|fdatasync)\(", re.ASCII)
_RESUMED = re.compile(r"<\.\.\. (\w{1,20}) resumed>(?:, )?", re.ASCII)
_FILE = re.compile(r"\d{1,9}<([^<>]{1,4096})>")
_END = re.compile(r"\) {1,20}= (-?\d{1,18})(?: \w{1,20} \([^()]{0,200}\))? <(\d{1,9})\.(\d{6})>\s*$", re.ASCII)
_AT = re.compile(r", (\d{1,18}), (\d{1,18})$", re.ASCII)  # length or count of vectors, offset
_AT_2 = re.compile(r", (\d{1,18}), (\d{1,18}), \w[\w|]{0,100}$", re.ASCII)
_UNFINISHED = "<unfinished ...>"
SYNCS = ("fsync", "fdatasync")


@dataclass(frozen=True)
class Call:
    """A call of the application that succeeded."""

    name: str  # "pread", "pwrite", "fsync", "fdatasync"
    path: str
    offset: int  # 0 for those that sync
    length: int  # bytes that it moved
    begin_ns: int  # since 1970, by the client's clock
    end_ns: int
    event: str = ""  # what its reader calls it, where that is not `name`: a wait of Oracle
    # It may have begun and ended later by so much: strace prints the arguments before it begins to count -T.
    late_ns: int = field(default=0, compare=False)

    @property
    def kind(self) -> str:
        """By what it is counted."""
        return self.event or self.name


def read(lines: Iterable[str], _: str) -> Evidence:
    """Calls, which are joined with operations; raises ``InputError`` where none has file, offset and duration."""
    calls: list[Call] = []
    counts = Counter[str]()
    begun: dict[str, tuple[int, str]] = {}  # by task: when, and what was printed of the call
    waits = False  # for the next line, whatever it is: it was printed after the last call returned
    for line in lines:
        found = _LINE.match(line[:_LONGEST])
        if found is None:
            continue
        task = found[1] or found[2] or ""
        at_ns = int(found[3]) * 10**9 + int(found[4]) * 1000
        text = line[found.end() : _LONGEST].rstrip()
        if waits:
            calls[-1], waits = _returned_by(calls[-1], at_ns), False
        stamp_ns = at_ns
        if resumed := _RESUMED.match(text):
            at_ns, head = begun.pop(task, (0, ""))
            if not at_ns:
                continue
            rest = text[resumed.end() :]
            text = head + (rest if rest.startswith(")") else f", {rest}")  # a write's arguments are all in the first
        elif text.endswith(_UNFINISHED):
            begun[task] = at_ns, text.removesuffix(_UNFINISHED).rstrip().rstrip(",")
            continue
        name = _CALL.match(text)
        if name is None:
            counts["others"] += text.startswith(("read(", "write(", "readv(", "writev("))
            continue
        call = _call(name, text, at_ns, counts)
        if call is not None and len(calls) < _MOST:
            calls.append(_returned_by(call, stamp_ns) if resumed else call)
            waits = not resumed
    counts["unreadable"] += sum(_CALL.match(text) is not None for _, text in begun.values())
    if not calls:
        raise InputError(
            "no call with file, offset and duration can be read: run strace -f -ttt -T -yy -e trace=pread64,pwrite64,"
            "preadv,pwritev,fsync,fdatasync -o FILE -p PID"
        )
    notes = (
        (counts["failed"], "{:,} calls failed and are left out"),
        (counts["others"], "{:,} calls of read and write have no offset, so they are not joined"),
        (counts["unreadable"], "calls that could not be read: {:,}"),
    )
    return Evidence((), tuple(words.format(count) for count, words in notes if count), tuple(calls))


def _returned_by(call: Call, stamp_ns: int) -> Call:
    return replace(call, late_ns=min(max(stamp_ns - call.end_ns, 0), _LATEST_NS))


def _call(name: re.Match[str], text: str, begin_ns: int, counts: Counter[str]) -> Call | None:
    end, file = _END.search(text[-400:]), _FILE.match(text, name.end())
    if end is None or file is None:
        counts["unreadable"] += 1
        return None
    moved = int(end[1])
    end_ns = begin_ns + int(end[2]) * 10**9 + int(end[3]) * 1000
    if name[1] in SYNCS:
        counts["failed"] += moved < 0
        return Call(name[1], file[1], 0, 0, begin_ns, end_ns) if moved == 0 else None
    arguments = text[: len(text) - len(end[0])]
    at = (_AT_2 if name[1].endswith("2") else _AT).search(arguments[-200:])
    if at is None:
        counts["unreadable"] += 1
        return None
    if moved <= 0:
        counts["failed"] += moved < 0
        return None  # nothing was moved: the end of the file
    return Call("pread" if name[1].startswith("pread") else "pwrite", file[1], int(at[2]), moved, begin_ns, end_ns)
