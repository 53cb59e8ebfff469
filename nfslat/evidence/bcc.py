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

from nfslat.errors import InputError
from nfslat.evidence.kinds import SLOWER, SLOWER_COLUMNS
from nfslat.evidence.records import Evidence

_SLOWER, _COLUMNS = re.compile(SLOWER), re.compile(SLOWER_COLUMNS)
_CALL = re.compile(
    r"\d\d:\d\d:\d\d\s{1,20}.{1,20}?\s{1,20}\d{1,10}\s{1,10}([RWOGSCF])\s{1,10}(?:\d{1,12}|LL_MAX)\s{1,12}-?\d{1,12}"
    r"\s{1,12}(\d{1,12}\.\d{1,3})\s"
)
_UNIT = re.compile(r"\s{0,20}([num]?secs)\s{1,40}: count\s{1,20}distribution")
_BUCKET = re.compile(r"\s{0,20}(\d{1,18}) -> (\d{1,18})\s{0,40}: (\d{1,18})\s")
_KEY = re.compile(r"(?:disk|flags) = '?([\w /-]{1,64}?)'?\s*$")
_MS = {"nsecs": 1e-6, "usecs": 1e-3, "msecs": 1.0, "secs": 1e3}
_TIMES_APART = 1.5  # times the slowest operation of the captures; a call so long is none of these
_OPS = {"R": "READ", "W": "WRITE", "O": "OPEN", "G": "GETATTR", "S": "STATFS", "C": "COMMIT", "F": "fsync"}


def read(lines: Iterable[str], _: str) -> Evidence:
    """What was slow, the slowest first, and how slow the block I/O was; of which host and time, the reader has to say.

    Raises ``InputError`` where there is neither a call nor a histogram.
    """
    slower_ms, file_system = 0, ""
    calls: dict[str, list[float]] = {}
    blocks: dict[str, tuple[int, float, float]] = {}  # requests, and the sum of their times between, ms
    unit, key, unreadable, in_calls = 0.0, "", 0, False
    for line in lines:
        text = line[:400]
        if slower := _SLOWER.match(text):
            file_system, slower_ms = slower[1].lower(), int(slower[2] or slower_ms)
        elif _COLUMNS.match(text):
            in_calls = True
        elif heading := _UNIT.match(text):
            unit = _MS[heading[1]]
        elif of_key := _KEY.match(text):
            key = of_key[1]
        elif unit and (bucket := _BUCKET.match(text)):
            low, high, count = (int(figure) for figure in bucket.groups())
            requests, least, most = blocks.get(key, (0, 0.0, 0.0))
            blocks[key] = requests + count, least + low * unit * count, most + (high + 1) * unit * count
        elif call := _CALL.match(text):
            calls.setdefault(_OPS[call[1]], []).append(float(call[2]))
        elif in_calls and text.strip():
            unreadable += 1
    blocks = {name: sums for name, sums in blocks.items() if sums[0]}
    if not calls and not blocks:
        raise InputError("no call of nfsslower and no histogram of biolatency can be read: give all that it printed")
    notes = []
    for op, each in sorted(calls.items(), key=lambda row: -max(row[1])):
        named = f"{op}{'' if len(each) == 1 else 's'}{f' slower than {slower_ms} ms' if slower_ms else ''}"
        notes.append(f"{len(each):,} {named}, {_ms(sum(each) / len(each))} ms on average, at most {_ms(max(each))} ms")
    is_of_nfs = file_system in ("", "nfs")
    if calls and not is_of_nfs:
        notes.append(f"these are calls of {file_system}, not of the NFS client; of use if the exports are on it")
    elif calls and slower_ms:
        notes.append("quicker calls are not printed, so no mean of the application is known (nfsslower 0 prints all)")
    for name, (count, least, most) in blocks.items():
        notes.append(
            f"{count:,} block I/Os{f' of {name}' if name else ''} took between {least / count:.3g} and "
            f"{most / count:.3g} ms on average; if that is the server's storage while the captures ran, give it with "
            "--storage-ms"
        )
    if unreadable:
        notes.append(f"lines that could not be read: {unreadable}")
    return Evidence((), tuple(notes), calls if is_of_nfs else {})


def beside(slow: Mapping[str, list[float]], slowest_ms: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Slow calls (ms, by operation) beside the slowest operations of the captures; and why they are of no use."""
    asked = {op: max(each) for op, each in slow.items() if op in slowest_ms}
    if slow and not asked:
        ops = ", ".join(slow)
        return [], [f"its calls ({ops}) are of no operation of these captures: it is of another time, mount or host"]
    notes = []
    for op, most in sorted(asked.items(), key=lambda row: -row[1]):
        least = f"the slowest {op} in the captures takes {_ms(slowest_ms[op])} ms"
        if most > _TIMES_APART * slowest_ms[op]:
            notes.append(f"{least}: a call of {_ms(most)} ms was made at another time, or waited above the wire")
        else:
            notes.append(f"{least}, so that calls of {_ms(most)} ms may be these")
    return notes, []


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
