"""What fio prints (JSON or normal) -> mean latency of reads and writes, as the application waits for them.

fio 3: "clat_ns", "lat_ns" in nanoseconds; fio 2: "clat", "lat" in microseconds; lat is from when fio makes the request,
clat from when the kernel has it (fio, "Interpreting the output"). Several jobs are added up by their requests.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from nfslat.errors import InputError
from nfslat.evidence.kinds import FIO_LAT
from nfslat.evidence.records import Evidence, Latency, together
from nfslat.model.record import Record

_MS = {"nsec": 1e-6, "usec": 1e-3, "msec": 1.0, "sec": 1e3}
_KIND = re.compile(r"\s{1,8}(read|write|trim)\s{0,4}: (?:IOPS=|io=)")
_LAT = re.compile(FIO_LAT)
_P99 = re.compile(r"99\.00th=\[\s{0,12}(\d{1,15})\]")
_PERCENTILES = re.compile(r"\s{1,8}clat percentiles \((nsec|usec|msec|sec)\)")
_IOS = re.compile(r"\bissued (?:rwts|rwt|r/w/d|r/w)?[^=]{0,12}total=(?:r=)?(\d{1,15})[,/](?:w=)?(\d{1,15})")
_MOST_BYTES = 256 << 20
_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6}


class _Requests(Record):
    """Reads or writes of one job, or of a group of jobs."""

    op: str  # "READ" or "WRITE"
    count: int | None
    mean_ms: float
    max_ms: float | None
    p99_ms: float | None


def read(lines: Iterable[str], name: str) -> Evidence:
    """Reads, then writes, over all jobs; raises ``InputError`` where fio printed neither."""
    every = list(_requests(lines))
    if not every:
        raise InputError("fio printed no latencies of reads or writes: give the whole output, JSON or normal")
    latencies, most = [], 0
    for op in ("READ", "WRITE"):
        jobs = [job for job in every if job.op == op]
        most = max(most, len(jobs))
        if jobs:
            mean_ms, total = together([(job.mean_ms, job.count) for job in jobs])
            p99_ms = jobs[0].p99_ms if len(jobs) == 1 else None
            max_ms = max((job.max_ms for job in jobs if job.max_ms is not None), default=None)
            latencies.append(Latency("application", op, mean_ms, total, f"fio {name}", p99_ms, max_ms))
    notes = (f"{most} jobs: percentiles cannot be added up (--group_reporting)",) if most > 1 else ()
    return Evidence(tuple(latencies), notes)


def _requests(lines: Iterable[str]) -> Iterator[_Requests]:
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
            kind = started[1]
            if kind in job:
                yield from _of_job(job)
                job = {}
            job[kind] = {}
        elif lat := _LAT.match(line) if kind else None:
            # lat stands behind clat and is what counts.
            mean, longest, scale = _float(lat[5]), _float(lat[3]), _MS[lat[2]]
            if mean is not None and longest is not None:
                job[kind] |= {"mean": mean * scale, "max": longest * _THOUSANDS[lat[4]] * scale}
        elif percentiles := _PERCENTILES.match(line):
            unit_ms = _MS[percentiles[1]]
        elif (p99 := _P99.search(line)) and kind:
            job[kind]["p99"] = int(p99[1]) * unit_ms
        elif issued := _IOS.search(line):
            for op, count in zip(("read", "write"), issued.groups(), strict=True):
                job.setdefault(op, {})["count"] = int(count)
            yield from _of_job(job)
            job, kind = {}, ""
    yield from _of_job(job)
    if text:
        yield from _of_json("".join(text))


def _of_job(job: dict[str, dict[str, float]]) -> Iterator[_Requests]:
    for kind, figures in job.items():
        if kind != "trim" and "mean" in figures:
            count = int(figures["count"]) if "count" in figures else None
            yield _Requests(kind.upper(), count, figures["mean"], figures["max"], figures.get("p99"))


def _float(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) and 0 <= value < 1e18 else None


def _of_json(text: str) -> Iterator[_Requests]:
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        raise InputError("fio's JSON is cut off or no JSON: run fio again with --output-format=json") from None
    jobs = _part(document, "jobs")
    for job in jobs if isinstance(jobs, list) else []:
        for op in ("read", "write"):
            figures = _part(job, op)
            count = _float(_part(figures, "total_ios"))
            means = ((key, unit, _float(_part(figures, key, "mean"))) for key, unit in
                     (("lat_ns", 1e-6), ("lat", 1e-3), ("clat_ns", 1e-6), ("clat", 1e-3)))  # fmt: skip
            p99s = ((unit, _float(_part(figures, key, "percentile", "99.000000"))) for key, unit in
                    (("clat_ns", 1e-6), ("clat", 1e-3), ("lat_ns", 1e-6)))  # fmt: skip
            for key, unit, mean in means:
                if mean and count != 0:
                    longest = _float(_part(figures, key, "max"))
                    yield _Requests(
                        op.upper(),
                        None if count is None else int(count),
                        mean * unit,
                        None if longest is None else longest * unit,
                        next((p99 * unit for unit, p99 in p99s if p99 is not None), None),
                    )
                    break


def _part(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
