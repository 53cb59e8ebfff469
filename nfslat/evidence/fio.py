"""What fio prints (JSON or normal) -> mean latency of reads and writes, as the application waits for them.

fio 3: "clat_ns", "lat_ns" in nanoseconds; fio 2: "clat", "lat" in microseconds; lat is from when fio makes the request,
clat from when the kernel has it (fio, "Interpreting the output"). Several jobs are added up by their requests.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nfslat.errors import InputError
from nfslat.evidence.records import Evidence, Latency

_MS = {"nsec": 1e-6, "usec": 1e-3, "msec": 1.0, "sec": 1e3}
_KIND = re.compile(r"\s{1,8}(read|write|trim)\s{0,4}: (?:IOPS=|io=)")
_LAT = re.compile(
    r"\s{1,8}(clat|lat) \((nsec|usec|msec|sec)\)\s?: min=\s?[\d.]{1,20}[kM]?, max=\s?([\d.]{1,20})([kM]?), "
    r"avg=\s?([\d.]{1,20})(?=,)"
)
_P99 = re.compile(r"99\.00th=\[\s{0,12}(\d{1,15})\]")
_PERCENTILES = re.compile(r"\s{1,8}clat percentiles \((nsec|usec|msec|sec)\)")
_IOS = re.compile(r"\bissued (?:rwts|rwt|r/w/d|r/w)?[^=]{0,12}total=(?:r=)?(\d{1,15})[,/](?:w=)?(\d{1,15})")
_MOST_BYTES = 256 << 20
_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6}


@dataclass(frozen=True)
class Requests:
    """Reads or writes of one job, or of a group of jobs."""

    op: str  # "READ" or "WRITE"
    count: int | None
    mean_ms: float
    max_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Fio:
    """Jobs in the order of the text."""

    requests: tuple[Requests, ...]


def belongs(line: str) -> bool:
    """Whether only fio prints such a line."""
    return '"fio version"' in line or re.match(r"fio-\d", line) is not None or _LAT.match(line) is not None


def evidence(lines: Iterable[str], name: str) -> Evidence:
    """What the file `name` says; raises ``InputError`` where it holds nothing."""
    printed = parse(lines)
    return Evidence(latencies(printed, name), notes(printed), printed)


def parse(lines: Iterable[str]) -> Fio:
    """Read what fio printed; raises ``InputError`` where it holds no reads and no writes."""
    found: list[Requests] = []
    text: list[str] = []
    size = 0
    job: dict[str, dict[str, float]] = {}
    kind = ""
    unit_ms = 0.0
    for line in lines:
        if text or line.startswith("{"):
            size += len(line)
            if size > _MOST_BYTES:
                raise InputError("this JSON is too long for fio's: run fio without logs in it")
            text.append(line)
        elif started := _KIND.match(line):
            if started[1] in job:
                found += _requests(job)
                job = {}
            kind = started[1]
            job[kind] = {}
        elif told := _LAT.match(line) if kind else None:
            # lat stands behind clat and is what counts.
            mean, most = _float(told[5]), _float(told[3])
            if mean is not None and most is not None:
                scale = _MS[told[2]]
                job[kind] |= {"mean": mean * scale, "max": most * _THOUSANDS[told[4]] * scale}
        elif percentiles := _PERCENTILES.match(line):
            unit_ms = _MS[percentiles[1]]
        elif (p99 := _P99.search(line)) and kind:
            job[kind]["p99"] = int(p99[1]) * unit_ms
        elif issued := _IOS.search(line):
            job.setdefault("read", {})["count"] = int(issued[1])
            job.setdefault("write", {})["count"] = int(issued[2])
            found += _requests(job)
            job, kind = {}, ""
    found += _requests(job) + (_jobs("".join(text)) if text else [])
    if not found:
        raise InputError("fio printed no latencies of reads or writes: give the whole output, JSON or normal")
    return Fio(tuple(found))


def latencies(printed: Fio, name: str) -> tuple[Latency, ...]:
    """Reads, then writes, over all jobs."""
    made = []
    for op in ("READ", "WRITE"):
        jobs = [job for job in printed.requests if job.op == op]
        known = [job.count for job in jobs if job.count is not None]
        total = sum(known) if known and len(known) == len(jobs) else None
        if not jobs:
            continue
        weights = [job.count or 0 for job in jobs] if total else [1] * len(jobs)
        longest = [job.max_ms for job in jobs if job.max_ms is not None]
        made.append(
            Latency(
                layer="application",
                op=op,
                mean_ms=sum(job.mean_ms * weight for job, weight in zip(jobs, weights, strict=True)) / sum(weights),
                count=total,
                source=f"fio {name}",
                p99_ms=jobs[0].p99_ms if len(jobs) == 1 else None,
                max_ms=max(longest) if longest else None,
            )
        )
    return tuple(made)


def notes(printed: Fio) -> tuple[str, ...]:
    """What a reader of the figures has to know."""
    jobs = max(sum(job.op == op for job in printed.requests) for op in ("READ", "WRITE"))
    return (f"{jobs} jobs: percentiles cannot be added up (--group_reporting)",) if jobs > 1 else ()


def _float(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) and 0 <= value < 1e18 else None


def _requests(job: dict[str, dict[str, float]]) -> list[Requests]:
    return [
        Requests(
            kind.upper(), int(told["count"]) if "count" in told else None, told["mean"], told["max"], told.get("p99")
        )
        for kind, told in job.items()
        if kind != "trim" and "mean" in told
    ]


def _jobs(text: str) -> list[Requests]:
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        raise InputError("fio's JSON is cut off or no JSON: run fio again with --output-format=json") from None
    jobs = document.get("jobs") if isinstance(document, dict) else None
    found = []
    for job in jobs if isinstance(jobs, list) else []:
        for kind in ("read", "write"):
            told = job.get(kind) if isinstance(job, dict) else None
            made = _from_json(kind.upper(), told) if isinstance(told, dict) else None
            if made:
                found.append(made)
    return found


def _from_json(op: str, told: dict[str, Any]) -> Requests | None:
    count = _float(told.get("total_ios"))
    for name, unit_ms in (("lat_ns", 1e-6), ("lat", 1e-3), ("clat_ns", 1e-6), ("clat", 1e-3)):
        lat = told.get(name)
        if not isinstance(lat, dict) or count == 0:
            continue
        if mean := _float(lat.get("mean")):
            longest = _float(lat.get("max"))
            return Requests(
                op=op,
                count=None if count is None else int(count),
                mean_ms=mean * unit_ms,
                max_ms=None if longest is None else longest * unit_ms,
                p99_ms=_p99(told),
            )
    return None


def _p99(told: dict[str, Any]) -> float | None:
    for name, unit_ms in (("clat_ns", 1e-6), ("clat", 1e-3), ("lat_ns", 1e-6)):
        part = told.get(name)
        percentiles = part.get("percentile") if isinstance(part, dict) else None
        value = _float(percentiles.get("99.000000")) if isinstance(percentiles, dict) else None
        if value is not None:
            return value * unit_ms
    return None
