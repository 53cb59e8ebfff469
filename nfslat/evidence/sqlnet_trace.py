"""A SQL*Net trace -> what SDU it states and where, and the sizes of what was sent and received.

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
from collections import Counter
from collections.abc import Iterable

from nfslat.errors import InputError
from nfslat.model.record import Record

_LINE = re.compile(r"(?:^|[\])>\s])(ns[a-z0-9_]{2,24}|nt[a-z0-9_]{2,24}|ni[a-z0-9_]{2,24}): ?(.*)", re.IGNORECASE)
_BEGIN = 160  # characters in which thread, time and function stand
_STATED = re.compile(r"(?<![a-z0-9_])(sdu|tdu) ?= ?(0x[0-9a-f]{1,8}|\d{1,10})(?![0-9a-z])", re.IGNORECASE)
# How a line of a function that sends or receives tells a size, the kind that counts first.
_PACKET = (("plen", re.compile(r"(?:^|.*?[\s,])plen=(\d{1,9})(?!\d)")),
           ("transport", re.compile(r"(\d{1,9}) bytes (?:to|from) transport")))  # fmt: skip
_SOCKET = re.compile(r"had bytes (read|written)=(\d{1,9})(?!\d)")
_RANKS = ("plen", "transport", "socket")
_MOST_STATED = 64
_LARGEST = 1 << 30
_NEGOTIATED = "nsconneg"
_SENDS, _RECEIVES = ("nspsend", "nsbasic_bsd"), ("nsprecv", "nsbasic_brc")


class SqlnetTrace(Record):
    """A SQL*Net trace."""

    sdu_bytes: int | None  # in effect: the last that nsconneg states, else the smallest stated; None: none is
    sent: Counter[int]  # packets by their size, headers included
    received: Counter[int]
    notes: tuple[str, ...]  # a sentence each, for the reader of a report


def parse(lines: Iterable[str]) -> SqlnetTrace:
    """Read a trace; raises ``InputError`` where it holds neither sizes nor an SDU."""
    stated: dict[tuple[str, int | None, int | None], None] = {}  # (function, SDU, TDU)
    negotiated: int | None = None
    sizes: dict[tuple[bool, str], dict[str, Counter[int]]] = {}  # by (sent, function), then kind of line
    inside = ""  # the function of the ns layer that reads or writes just now
    unreadable = 0
    for line in lines:
        match = _LINE.search(line[:_BEGIN])
        if match is None:
            continue
        function, text = match[1].lower(), line[match.start(2) : match.start(2) + 4096]
        # The dump of a packet may show a size that is cut.
        if ("du" in text or "DU" in text) and not text.rstrip().endswith("|"):
            of_line: dict[str, int] = {}
            for name, number in _STATED.findall(text):
                value = int(number, 0) if number.lower().startswith("0x") else int(number)
                unreadable += not 0 < value < _LARGEST
                if 0 < value < _LARGEST:
                    of_line.setdefault(name.lower(), value)
            if function == _NEGOTIATED:
                negotiated = of_line.get("sdu", negotiated)
            if of_line and len(stated) < _MOST_STATED:
                stated[function, of_line.get("sdu"), of_line.get("tdu")] = None
        kind, number, sent = "", "", function in _SENDS
        if sent or function in _RECEIVES:
            inside = function if text.startswith("entry") else inside
            kind, number = next(((kind, size[1]) for kind, mark in _PACKET if (size := mark.match(text))), ("", ""))
        elif socket := _SOCKET.search(text):
            kind, number, sent = "socket", socket[2], socket[1] == "written"
            function = inside if inside in (_SENDS if sent else _RECEIVES) else ""
        if kind and 0 < int(number) < _LARGEST:
            sizes.setdefault((sent, function), {}).setdefault(kind, Counter())[int(number)] += 1
        else:
            unreadable += bool(kind)
    if not stated and not sizes:
        raise InputError("is no SQL*Net trace, or one without sizes: trace at level ADMIN or SUPPORT")
    smallest = min((sdu for _, sdu, _ in stated if sdu is not None), default=None)
    sdu_bytes = smallest if negotiated is None else negotiated
    moved = {True: Counter[int](), False: Counter[int]()}
    for (sent, function), kinds in sizes.items():
        # Reads and writes of nobody's count only where no function tells anything.
        if function or not any(other and to == sent for to, other in sizes):
            moved[sent] += kinds[min(kinds, key=_RANKS.index)]
    notes = []
    by_size = {sdu: function for function, sdu, _ in stated if sdu is not None}
    if len(by_size) > 1:
        every = ", ".join(f"{size} by {function}" for size, function in sorted(by_size.items()))
        notes.append(f"several SDU sizes are stated ({every}): {sdu_bytes} bytes count")
    if unreadable:
        notes.append(f"{unreadable} lines of the SQL*Net trace could not be read")
    if not sizes:
        notes.append("no sizes of packets: trace at level SUPPORT (16)")
    return SqlnetTrace(sdu_bytes, moved[True], moved[False], tuple(notes))
