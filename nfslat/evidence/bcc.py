"""What nfsslower, fsslower and biolatency of bcc print -> notes; their figures have neither a date nor a host.

nfsslower (bcc tools/nfsslower.py) and fsslower (libbpf-tools/fsslower.c) print calls of the NFS client that took longer
than a threshold, 10 ms unless told: LAT(ms), OFF_KB, BYTES; T is Read, Write, Open, Getattr, Commit, Fsync. fsslower
traces other file systems, too, and their calls are not the NFS client's. biolatency (tools/biolatency.py) prints
histograms of powers of two of the time from issue to completion of block I/O, with -Q from when it is queued; usecs, or
msecs with -m.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nfslat.errors import InputError
from nfslat.evidence.records import Evidence

_SLOWER = re.compile(r"Tracing ([A-Za-z]{2,5}\d?) operations(?: (?:that are )?slower than (\d{1,9}) ms)?")
_BLOCK = "Tracing block device I/O"
_COLUMNS = re.compile(r"TIME\s{1,20}COMM\s{1,20}PID\s{1,10}T\s{1,10}BYTES\s{1,10}OFF_KB\s{1,10}LAT\(ms\)")
_CALL = re.compile(
    r"\d\d:\d\d:\d\d\s{1,20}.{1,20}?\s{1,20}\d{1,10}\s{1,10}([RWOGSCF])\s{1,10}(?:\d{1,12}|LL_MAX)\s{1,12}-?\d{1,12}\s{1,12}([\d.]{1,15})\s"
)
_UNIT = re.compile(r"\s{0,20}([num]?secs)\s{1,40}: count\s{1,20}distribution")
_BUCKET = re.compile(r"\s{0,20}(\d{1,18}) -> (\d{1,18})\s{0,40}: (\d{1,18})\s")
_KEY = re.compile(r"(?:disk|flags) = '?([\w /-]{1,64}?)'?\s*$")
_MS = {"nsecs": 1e-6, "usecs": 1e-3, "msecs": 1.0, "secs": 1e3}
_TIMES_APART = 1.5  # times the slowest operation of the captures; a call so long is none of these
_OPS = {"R": "READ", "W": "WRITE", "O": "OPEN", "G": "GETATTR", "S": "STATFS", "C": "COMMIT", "F": "fsync"}


@dataclass(frozen=True)
class Traced:
    """Calls of the NFS client by operation, or block I/O by disk or kind."""

    slower_than_ms: int | None  # of calls; None: all of them, or it is not told
    file_system: str  # that was traced; "": not told
    calls: Mapping[str, list[float]]
    blocks: Mapping[str, tuple[int, float, float]]  # requests, and their mean between, ms
    unreadable: int

    @property
    def is_of_nfs(self) -> bool:
        """Are the calls the NFS client's?"""
        return self.file_system in ("", "nfs")


def belongs(line: str) -> bool:
    """Whether only these two print such a line."""
    text = line[:400]
    return bool(_SLOWER.match(text) or _COLUMNS.match(text)) or text.startswith(_BLOCK)


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """Notes, and no latencies; raises ``InputError`` where the file holds nothing."""
    found = parse(lines)
    return Evidence((), notes(found), found)


def parse(lines: Iterable[str]) -> Traced:
    """Read either; raises ``InputError`` where there is neither a call nor a histogram."""
    slower: int | None = None
    traced = ""
    calls: dict[str, list[float]] = {}
    sums: dict[str, tuple[int, float, float]] = {}
    unit, key, unreadable, in_calls = 0.0, "", 0, False
    for line in lines:
        text = line[:400]
        if found := _SLOWER.match(text):
            traced, slower = found[1].lower(), int(found[2]) if found[2] else slower
        elif _COLUMNS.match(text):
            in_calls = True
        elif found := _UNIT.match(text):
            unit = _MS[found[1]]
        elif found := _KEY.match(text):
            key = found[1]
        elif unit and (found := _BUCKET.match(text)):
            low, high, count = (int(found[at]) for at in (1, 2, 3))
            requests, least, most = sums.get(key, (0, 0.0, 0.0))
            sums[key] = requests + count, least + low * unit * count, most + (high + 1) * unit * count
        elif found := _CALL.match(text):
            if re.fullmatch(r"\d{1,12}\.\d{1,3}", found[2]):
                calls.setdefault(_OPS[found[1]], []).append(float(found[2]))
            else:
                unreadable += 1
        elif in_calls and text.strip():
            unreadable += 1
    blocks = {name: (count, low / count, high / count) for name, (count, low, high) in sums.items() if count}
    if not calls and not blocks:
        raise InputError("no call of nfsslower and no histogram of biolatency can be read: give all that it printed")
    return Traced(slower, traced, calls, blocks, unreadable)


def notes(traced: Traced) -> tuple[str, ...]:
    """What was slow, the slowest first, and how slow the block I/O was; that it is for the reader to say of which host
    and time."""
    said = []
    for op, each in sorted(traced.calls.items(), key=lambda row: -max(row[1])):
        slow = f" slower than {traced.slower_than_ms} ms" if traced.slower_than_ms else ""
        s = "" if len(each) == 1 else "s"
        said.append(
            f"{len(each):,} {op}{s}{slow}, {_ms(sum(each) / len(each))} ms on average, at most {_ms(max(each))} ms"
        )
    if traced.calls and not traced.is_of_nfs:
        said.append(f"these are calls of {traced.file_system}, not of the NFS client; of use if the exports are on it")
    elif traced.calls and traced.slower_than_ms:
        said.append("quicker calls are not printed, so no mean of the application is known (nfsslower 0 prints all)")
    for name, (count, low, high) in traced.blocks.items():
        of = f" of {name}" if name else ""
        said.append(
            f"{count:,} block I/Os{of} took between {low:.3g} and {high:.3g} ms on average; if that is the server's "
            "storage while the captures ran, give it with --storage-ms"
        )
    if traced.unreadable:
        said.append(f"lines that could not be read: {traced.unreadable}")
    return tuple(said)


def beside(traced: Traced, slowest_ms: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """What the calls are beside the slowest operations of the captures, by operation; and why they are of no use."""
    if not traced.calls or not traced.is_of_nfs:
        return [], []
    asked = {op: max(each) for op, each in traced.calls.items() if op in slowest_ms}
    if not asked:
        ops = ", ".join(op for op in traced.calls)
        return [], [f"its calls ({ops}) are of no operation of these captures: it is of another time, mount or host"]
    notes_of = []
    for op, most in sorted(asked.items(), key=lambda row: -row[1]):
        least = f"the slowest {op} in the captures takes {_ms(slowest_ms[op])} ms"
        if most > _TIMES_APART * slowest_ms[op]:
            notes_of.append(f"{least}: a call of {_ms(most)} ms was made at another time, or waited above the wire")
        else:
            notes_of.append(f"{least}, so that calls of {_ms(most)} ms may be these")
    return notes_of, []


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
