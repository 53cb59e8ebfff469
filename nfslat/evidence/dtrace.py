"""What DTrace scripts print -> latencies by operation, from averages and from quantize or lquantize histograms.

Two forms are read (Oracle Solaris DTrace Guide: nfsv3rwtime.d, nfsv4rwtime.d, "Aggregations"). A histogram and its key:

    NFSv3 read/write distributions (us):
      read
               value  ------------- Distribution ------------- count
                  32 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           120
                  64 |@@@@@@@@@@                               40
                 128 |                                         0

and averages, a line an operation: ``op-read-done  1043 us``, or without units under a heading that has one, as in
``OP  AVG(us)  COUNT``. A name is an operation's, a probe's (op-read-done) or a function's (rfs3_read), or R or W.
DTrace itself prints no units: the script's text has to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from nfslat.errors import InputError
from nfslat.evidence.kinds import HEADING_UNIT, UNIT_WORDS
from nfslat.evidence.records import Evidence, Latency, together
from nfslat.model.record import Record

_MS = {"n": 1e-6, "u": 1e-3, "µ": 1e-3, "μ": 1e-3, "m": 1.0, "s": 1e3}
_HEADING_UNIT = re.compile(HEADING_UNIT)
_NOT_A_MEAN = re.compile(r"\btotal\b|\bsum\b|\bcount\b.{0,40}\bby\b|time\(us\)", re.IGNORECASE)
_MEAN = re.compile(r"avg|average|mean|lat", re.IGNORECASE)
_OPS = (
    "null getattr setattr lookup access readlink read write create mkdir symlink mknod remove rmdir rename link "
    "readdir readdirplus fsstat fsinfo pathconf commit open close lock compound"
).split()
_OP = re.compile(rf"(?<![a-z/])({'|'.join(sorted(_OPS, key=len, reverse=True))})(?![a-z/])", re.IGNORECASE)
_STORAGE = re.compile(r"\b(?:io|disk|zio|sd|ssd|spa|bdev)\b", re.IGNORECASE)
_VALUE = re.compile(r"\s*(<|>=)?\s*(-?\d{1,18}) \|[@ ]{0,60}\s*(-?\d{1,18})\s*$")
_NUMBER = re.compile(rf"(\d{{1,18}}(?:[.,]\d{{1,9}})?)({UNIT_WORDS})?$", re.IGNORECASE)
_DISTRIBUTION = "- Distribution -"
_LONGEST, _MOST = 1024, 4096


class _Figure(Record):
    """An average or a histogram that a script printed."""

    key: str  # as printed
    op: str  # "READ"
    storage: bool  # of disks, by the name; else of the NFS server
    mean_ms: float
    count: int | None
    p99_ms: float | None = None  # bound of a bucket
    between_ms: tuple[float, float] | None = None  # a histogram holds the mean to be between these


def read(lines: Iterable[str], name: str) -> Evidence:
    """One latency an operation and layer, in the order of the text; several figures of the same are averaged.

    Raises ``InputError`` without figures, and where no text says their unit.
    """
    figures = list(_figures(lines))
    if not figures:
        raise InputError("no averages and no histograms of NFS operations can be read")
    notes = [
        f"{figure.key}: a histogram tells the mean only to be between {figure.between_ms[0]:.3g} and "
        f"{figure.between_ms[1]:.3g} ms"
        for figure in figures
        if figure.between_ms
    ][:8]
    if any(not figure.storage for figure in figures):
        notes.append("DTrace's NFS probes start when a thread picks the call up: the wait for a thread is not in them")
    latencies = []
    for storage, op in dict.fromkeys((figure.storage, figure.op) for figure in figures):
        own = [figure for figure in figures if (figure.storage, figure.op) == (storage, op)]
        mean_ms, count = together([(figure.mean_ms, figure.count) for figure in own])
        source, p99_ms = f"DTrace {name}, {len(own)} figures", None
        if len(own) == 1:
            source, p99_ms = f"DTrace {name}", own[0].p99_ms
        latencies.append(Latency("storage" if storage else "server thread", op, mean_ms, count, source, p99_ms))
    return Evidence(tuple(latencies), tuple(notes))


def _figures(lines: Iterable[str]) -> Iterator[_Figure]:
    unit_ms: float | None = None
    read_so_far = 0
    heading, key, means = "", "", True
    buckets: list[tuple[int, int]] | None = None
    for whole in lines:
        line = whole[:_LONGEST].rstrip()
        if buckets is not None:
            if bucket := _VALUE.match(line):
                buckets.append((int(bucket[2]) if bucket[1] != "<" else 0, int(bucket[3])))
                continue
            yield from _histogram(heading, key, buckets, unit_ms)
            buckets = None
        if _DISTRIBUTION in line:
            buckets = []
            continue
        if not line.strip() or read_so_far > _MOST:
            continue
        if figure := _average(heading, line, unit_ms) if means else None:
            read_so_far += 1
            yield figure
            continue
        key = line.strip()
        if unit := _HEADING_UNIT.search(line):
            unit_ms = _MS[next(word for word in unit.groups() if word)[0].lower()]
            heading, means = line, not _NOT_A_MEAN.search(line)
    if buckets is not None:
        yield from _histogram(heading, key, buckets, unit_ms)


def _op(label: str) -> str | None:
    """The operation in a label; None where there is none, or a path."""
    if "/" in label or len(label) > 80:
        return None
    words = label.split()
    if words and words[0].upper() in ("R", "W"):
        # Behind it some scripts name a layer; file systems lie between the two that are known here.
        rest = " ".join(words[1:])
        known = not rest or _STORAGE.search(rest) or rest.lower().startswith("nfs")
        return {"R": "READ", "W": "WRITE"}[words[0].upper()] if known else None
    found = _OP.search(label.replace("_", " "))
    return found[1].upper() if found else None


def _average(heading: str, line: str, unit_ms: float | None) -> _Figure | None:
    """The average on a line; None where there is none, ``InputError`` where nothing says its unit."""
    words = line.replace("|", " ").replace(":", " ").replace("=", " ").split()
    first = next((at for at, word in enumerate(words) if _NUMBER.match(word)), None)
    if first is None or first == 0 or first > 6 or len(words) > 12:
        return None
    label, numbers = " ".join(words[:first]), words[first:]
    op = _op(label)
    if op is None:
        return None
    if len(numbers) > 1 and re.fullmatch(UNIT_WORDS, numbers[1], re.IGNORECASE):
        numbers = [numbers[0] + numbers[1], *numbers[2:]]
    heads = [word for word in heading.replace("|", " ").split() if not re.fullmatch(rf"\(?({UNIT_WORDS})\)?", word)]
    # Where headings and cells go together, the mean and the count are where the headings say.
    shift = len(heads) - len(numbers)
    columns = heads[shift:] if 0 <= shift <= first else []
    at = next((place for place, head in enumerate(columns) if _MEAN.search(head)), 0)
    counted = next((place for place, head in enumerate(columns) if head.lower() in ("count", "ops", "n")), None)
    told = _NUMBER.match(numbers[at])
    if told is None:
        return None
    if told[2]:
        unit_ms = _MS[told[2][0].lower()]
    if unit_ms is None:
        raise InputError(f'"{line.strip()[:60]}": no unit is told: add a line before it, such as OP AVG(us)')
    count = numbers[counted] if counted is not None else ""
    return _Figure(
        key=label,
        op=op,
        storage=_STORAGE.search(f"{label} {heading}".replace("_", " ")) is not None and "nfs" not in label.lower(),
        mean_ms=float(told[1].replace(",", ".")) * unit_ms,
        count=int(count) if count.isascii() and count.isdigit() and len(count) < 16 else None,
    )


def _histogram(heading: str, key: str, buckets: list[tuple[int, int]], unit_ms: float | None) -> list[_Figure]:
    op = _op(key)
    total = sum(count for _, count in buckets if count > 0)
    if op is None or not total:
        return []
    if unit_ms is None:
        raise InputError(f'"{key[:60]}": the histogram has no unit: add a line before it, such as distributions (us):')
    low = high = passed = 0.0
    p99 = None
    begins = [max(value, 0) for value, _ in buckets]
    # A bucket ends where the next begins, the last of quantize at twice its value.
    ends = [max(pair) for pair in zip(begins, [*begins[1:], 2 * max(begins[-1], 1)], strict=True)]
    for value, end, count in zip(begins, ends, [max(count, 0) for _, count in buckets], strict=True):
        low += value * count
        high += end * count
        passed += count
        if p99 is None and passed >= math.ceil(0.99 * total):
            p99 = end * unit_ms
    between = (low / total * unit_ms, high / total * unit_ms)
    return [
        _Figure(
            key=key,
            op=op,
            storage=_STORAGE.search(f"{key} {heading}".replace("_", " ")) is not None and "nfs" not in heading.lower(),
            mean_ms=sum(between) / 2,
            count=total,
            p99_ms=p99,
            between_ms=between,
        )
    ]
