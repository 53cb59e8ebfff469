"""Samples of a host's tools, and when the captures ran -> its load, and the latency of its storage, at that time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from nfslat.evidence.host_statistics import HostStatistics, Sample
from nfslat.evidence.records import Disk, HostLoad, Latency
from nfslat.evidence.when import seconds_of
from nfslat.model.record import Record

_COVERED = 0.5  # of the captures' time
_FEW = 10  # requests that no mean stands on
_ONLY = 0.01  # of the requests: so few of the other kind do not matter to a mean over both
_REACHES = 0.8  # of the ops of NFS, and of their data: so much of it the disk has to do for its mean to be theirs
_MORE = {"READ": 1.5, "WRITE": 3.0}  # times their data: read ahead, journals; a disk with more works for others
_DISK = re.compile(r"(?:sd|vd|xvd|hd)[a-z]+\d*$|nvme\d|mmcblk\d|c\d+t|a?da\d|ssd\d")  # others are made of these
_NO_DISK = re.compile(r"(?:loop|ram|zram|sr|fd)\d")
_PARTITION = re.compile(r"((?:sd|vd|xvd|hd)[a-z]+)\d+$|(nvme\d+n\d+|mmcblk\d+)p\d+$")
_KIB = {"rkB/s": ("r", 1.0), "wkB/s": ("w", 1.0), "rMB/s": ("r", 1024.0), "wMB/s": ("w", 1024.0), "rsec/s": ("r", 0.5),
        "wsec/s": ("w", 0.5), "kr/s": ("r", 1.0), "kw/s": ("w", 1.0)}  # fmt: skip


class Asked(NamedTuple):
    """What NFS asked for that has to reach a disk."""

    ops: float
    kib: float


class Meanwhile(Record):
    """What a host's tools say of the time of the captures."""

    load: HostLoad | None
    disks: tuple[Disk, ...]  # those with most requests first
    covered: float = 0.0  # of the captures' time, by the samples of the disks
    why: str = ""  # nothing can be said


def meanwhile(
    stats: HostStatistics, captured_ns: tuple[int, int], zone_min: int | None, cpus: int | None, source: str
) -> Meanwhile:
    """Of the samples those that lie in the captures; `zone_min` is the host's, where samples do not tell."""
    inside: list[Sample] = []
    covered: dict[str, dict[float, float]] = defaultdict(dict)  # by tool and instant, seconds within the captures
    undated, unzoned = 0, 0
    first, last = captured_ns[0] / 1e9, captured_ns[1] / 1e9
    for one in stats.samples:
        zone = one.zone_min if one.zone_min is not None else zone_min
        if one.at is None or one.step_s is None:
            undated += 1
        elif zone is None:
            unzoned += 1
        else:
            end = seconds_of(one.at) - 60 * zone
            within = min(end, last) - max(end - one.step_s, first)
            # Stamps are whole seconds. What is longer than the captures is of other time for the most part.
            if within > 0 and within + 1 >= one.step_s * _COVERED and one.step_s <= last - first:
                inside.append(one)
                covered[one.tool][end] = within
    enough = {tool for tool, by in covered.items() if sum(by.values()) >= _COVERED * (last - first)}
    kept = [one for one in inside if one.tool in enough]
    if not kept:
        if undated == len(stats.samples):
            why = "its samples have no date that is certain: run it with S_TIME_FORMAT=ISO, iostat and vmstat with -t"
        elif unzoned:
            why = "the zone of its clock is not known: give a snapshot of that host, too"
        else:
            why = "its samples are not of the captures' time, or of less than half of it"
        return Meanwhile(None, (), why=why)
    share = sum(covered["iostat"].values()) / (last - first) if "iostat" in enough and last > first else 0.0
    load = _load(kept, stats.cpus or cpus, source) if enough != {"iostat"} else None
    return Meanwhile(load, _disks([one for one in kept if one.tool == "iostat"]), share)


def _load(samples: Sequence[Sample], cpus: int | None, source: str) -> HostLoad:
    vm = [one for one in samples if one.tool == "vmstat"]
    every = [one for one in samples if one.tool == "mpstat" and one.name == "all"]
    singles = [one for one in samples if one.tool == "mpstat" and one.name != "all"]
    busy: dict[str, list[Sample]] = defaultdict(list)
    for one in singles:
        busy[one.name].append(one)
    by_cpu = {name: 1 - (_mean(own, "%idle") or 0.0) / 100 for name, own in busy.items()}
    busiest = max(by_cpu, key=lambda name: by_cpu[name], default=None)
    faults: dict[object, float] = defaultdict(float)
    for one in samples:
        if one.tool == "pidstat" and "majflt/s" in one.values:
            faults[one.at] += one.values["majflt/s"]
    swapped = [one.values["si"] + one.values["so"] for one in vm]
    return HostLoad(
        source=source,
        cpus=cpus,
        runnable=_mean(vm, "r"),
        idle=_share(_mean(every, "%idle"), _mean(vm, "id")),
        steal=_share(_mean(every, "%steal"), _mean(vm, "st")),
        busiest_cpu=None if busiest is None else by_cpu[busiest],
        soft_there=None if busiest is None else _share(_mean(busy[busiest], "%soft")),
        swapped_kib_s=fmean(swapped) if swapped else None,
        major_faults_s=fmean(faults.values()) if faults else None,
    )


def _mean(samples: Iterable[Sample], column: str) -> float | None:
    values = [one.values[column] for one in samples if column in one.values]
    return fmean(values) if values else None


def _share(*percent: float | None) -> float | None:
    return next((one / 100 for one in percent if one is not None), None)


def _disks(samples: Sequence[Sample]) -> tuple[Disk, ...]:
    by_name: dict[str, list[Sample]] = defaultdict(list)
    for one in samples:
        by_name[one.name].append(one)
    found = whole(_disk(name, own) for name, own in by_name.items())
    return tuple(sorted(found, key=lambda disk: -(disk.reads + disk.writes)))


def whole(disks: Iterable[Disk]) -> list[Disk]:
    """Without what is in memory, and without partitions of a disk that is there."""
    every = {disk.name: disk for disk in disks if not _NO_DISK.match(disk.name)}
    parts = {name: part[1] or part[2] for name in every if (part := _PARTITION.match(name))}
    return [disk for name, disk in every.items() if parts.get(name) not in every]


def _disk(name: str, samples: Sequence[Sample]) -> Disk:
    """Means weighted by requests: an interval with one slow request is not one with a thousand."""
    counts, kib = dict.fromkeys("rw", 0.0), dict.fromkeys("rw", 0.0)
    sums = dict.fromkeys(("r", "w", "both"), 0.0)
    told: set[str] = set()
    for one in samples:
        values, step = one.values, one.step_s or 1.0
        for kind in "rw":
            count = values.get(f"{kind}/s", 0.0) * step
            counts[kind] += count
            if f"{kind}_await" in values:
                told.add(kind)
                sums[kind] += count * values[f"{kind}_await"]
        for column, (kind, unit) in _KIB.items():
            kib[kind] += values.get(column, 0.0) * unit * step
        both = values.get("await")
        if "asvc_t" in values:  # Solaris: in the queue of the host, and in the device
            both = values.get("wsvc_t", 0.0) + values["asvc_t"]
        if both is not None:
            told.add("both")
            sums["both"] += both * step * (values.get("r/s", 0.0) + values.get("w/s", 0.0))

    def mean(kind: str, count: float) -> float | None:
        return sums[kind] / count if kind in told and count >= _FEW else None

    reads, writes = counts["r"], counts["w"]
    return Disk(
        name, reads, writes, kib["r"], kib["w"], mean("r", reads), mean("w", writes), mean("both", reads + writes)
    )


def latencies(found: Meanwhile, asked: Mapping[str, Asked], source: str) -> tuple[list[Latency], list[str]]:
    """Times of the disk that did what NFS asked for, as those of READs and of WRITEs; why where there is none.

    A disk that did less left the rest to memory, one that did more works for others, and of two that did as much one
    does not know which it is: no mean of these is that of an op.
    """
    kept: list[Latency] = []
    notes: list[str] = []
    for op, want in asked.items():
        fits = [disk for disk in found.disks if _did(disk, op, want, found.covered)]
        above = [disk for disk in fits if not _DISK.match(disk.name)]
        chosen = fits[0] if len(fits) == 1 else above[0] if len(above) == 1 else None
        if chosen is not None and (mean_ms := _mean_ms(chosen, op)) is not None:
            count = chosen.reads if op == "READ" else chosen.writes
            kept.append(Latency("storage", op, mean_ms, round(count), f"{source}, {chosen.name}"))
        elif found.disks:
            why = "several devices" if len(fits) > 1 else "no device"
            notes.append(
                f"{source}: {why} did what the {want.ops * found.covered:,.0f} {op}s asked for ({said(found.disks)}): "
                f"give the storage's own figure (--storage-ms {op}=MS)"
            )
    return kept, notes


def _did(disk: Disk, op: str, want: Asked, covered: float) -> bool:
    count, kib = (disk.reads, disk.read_kib) if op == "READ" else (disk.writes, disk.written_kib)
    ops, data = want.ops * covered, want.kib * covered
    return ops >= _FEW and count >= _REACHES * ops and _REACHES * data <= kib <= _MORE[op] * data


def _mean_ms(disk: Disk, op: str) -> float | None:
    own, other = (disk.reads, disk.writes) if op == "READ" else (disk.writes, disk.reads)
    told = disk.read_ms if op == "READ" else disk.write_ms
    return told if told is not None else disk.both_ms if other <= _ONLY * (own + other) else None


def said(disks: Sequence[Disk]) -> str:
    """``sda r_await 0.5 ms; sdb r_await 12 ms, w_await 3 ms``."""
    parts = []
    for disk in disks[:4]:
        named = (("r_await", disk.read_ms), ("w_await", disk.write_ms), ("await", disk.both_ms))
        figures = [f"{name} {value:.3g} ms" for name, value in named if value is not None]
        parts += [f"{disk.name} {', '.join(figures) or 'hardly used'}"]
    return "; ".join(parts)
