"""Two readings of a host's counters -> what it did in between: growth, mean latencies, how busy it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from nfslat.errors import InputError
from nfslat.evidence.counters import DISK_FIELDS, TICKS
from nfslat.evidence.records import Disk, HostLoad, Interval, Latency, Mount, NfsdStats, OpStats, Pool, Snapshot, Xprt
from nfslat.evidence.when import Span

T = TypeVar("T", OpStats, Xprt, Pool)

_DATA = frozenset(("READ", "READ_PLUS", "WRITE"))
_FEW = 10  # requests that no mean stands on
_FEW_SEGMENTS = 1000  # of which not one is lost of a path that loses two in a thousand, one time of seven
_NOT_COUNTED = ("pool", "source_port", "max_slots", "idle_s")  # those of the later reading: they do not add up


def difference(before: Snapshot, after: Snapshot) -> Interval:
    """What happened between `before` and `after`; what cannot be compared is left out, and a note says so.

    An operation of a mount that was sent again too often (`queue_tells`) has no "slot wait" among the latencies: the
    kernel counts the wait for the first answer there. `mounts` keep the counters as they are.

    Raises ``InputError`` where the two are of different hosts or boots, in the wrong order, or have nothing in common.
    """
    seconds = _seconds(before, after)
    mounts, notes = mounts_between(before.mounts, after.mounts)
    pools: tuple[Pool, ...] = ()
    if before.nfsd and after.nfsd:
        notes += _nfsd_between(before.nfsd, after.nfsd)
    if before.pools and after.pools:
        pools, remarks = pools_between(before.pools, after.pools)
        notes += remarks
    if not any(getattr(before, name) and getattr(after, name) for name in ("mounts", "nfsd", "pools", "kernel")):
        raise InputError(f"{before.name} and {after.name} have no counters in common: take both the same way")
    latencies: list[Latency] = []
    resent: list[str] = []
    for mount in mounts:
        own, remarks = without_resent(mount, f"mountstats {mount.path}")
        latencies += own
        resent += remarks
    if mounts and not latencies:
        notes.append("no NFS operation was done in between on any mount")
    between = Interval(seconds, tuple(latencies), mounts, pools, notes=(*notes, *resent))
    first, last = _instant(before.taken), _instant(after.taken)
    if not seconds or first is None or last is None or first >= last:
        return between
    grown = {key: after.kernel[key] - old for key, old in before.kernel.items() if after.kernel.get(key, -1) >= old}
    begin, end = (each.astimezone(UTC).replace(tzinfo=None) for each in (first, last))
    return replace(
        between,
        span=Span(begin, end, zone_min=0),
        load=_load(grown, seconds, after.cpus, f"{before.name} and {after.name}"),
        resent_share=_resent_share(grown),
        disks=_disks(grown),
    )


def _grown(before: T, after: T) -> T | None:
    """`after`, its counters as their growth; None where one went back, which means that they began anew in between."""
    pairs = {
        field.name: (getattr(before, field.name), getattr(after, field.name))
        for field in fields(after)
        if field.name not in _NOT_COUNTED
    }
    growth: dict[str, Any] = {
        key: new - old for key, (old, new) in pairs.items() if isinstance(old, int) and isinstance(new, int)
    }
    return None if any(each < 0 for each in growth.values()) else replace(after, **growth)


def mounts_between(before: Sequence[Mount], after: Sequence[Mount]) -> tuple[tuple[Mount, ...], list[str]]:
    """What each mount did between two readings: a mount whose counters are the growth, whose age is the interval.

    Mounts that went or began anew are left out; of one that came all is growth. The second part says so.
    """
    old, new = _by_place(before), _by_place(after)
    notes = [f"{old[key].path} ({old[key].device}) is no longer mounted" for key in old if key not in new]
    grew: list[Mount] = []
    for key, mount in new.items():
        place = f"{mount.path} ({mount.device})"
        if key not in old:
            notes.append(f"{place} was mounted in between: its figures are those since then")
            grew.append(mount)
            continue
        delta, remarks = _mount_between(old[key], mount)
        notes += [f"{place} {each}" for each in remarks]
        grew += [] if delta is None else [delta]
    return tuple(grew), notes


def _by_place(mounts: Iterable[Mount]) -> dict[tuple[str, str, int], Mount]:
    """A place can be mounted over; the copies keep their order."""
    seen: Counter[tuple[str, str]] = Counter()
    places = {}
    for mount in mounts:
        place = mount.device, mount.path
        places[*place, seen[place]] = mount
        seen[place] += 1
    return places


def _mount_between(before: Mount, after: Mount) -> tuple[Mount | None, list[str]]:
    age = None if before.age_s is None or after.age_s is None else after.age_s - before.age_s
    ops = {op: _grown(before.ops[op], stats) if op in before.ops else stats for op, stats in after.ops.items()}
    whole = {op: stats for op, stats in ops.items() if stats is not None}
    if (age is not None and age < 0) or len(whole) < len(ops):
        return None, ["was mounted again in between: what it did before is lost, and it is left out"]
    notes = [] if before.options == after.options else ["was remounted with other options in between"]
    # The port is no proof that connections are the same: a reconnect may change it.
    xprts = [_grown(old, new) for old, new in zip(before.xprts, after.xprts, strict=False)]
    kept = tuple(xprt for xprt in xprts if xprt is not None)
    if [each.transport for each in before.xprts] != [each.transport for each in after.xprts] or len(kept) < len(xprts):
        kept = ()
        notes.append("has other connections than before: their counters are left out")
    return replace(after, age_s=age, ops=whole, xprts=kept), notes


def _nfsd_between(before: NfsdStats, after: NfsdStats) -> list[str]:
    """What is to be said of the counters of /proc/net/rpc/nfsd."""
    # Most of them have 32 bits, so that a busy server is through in days.
    if any(after.counters.get(key, 0) < before.counters.get(key, 0) for key in {**before.counters, **after.counters}):
        return ["/proc/net/rpc/nfsd: counters went back (a restart, or they ran over): it is left out"]
    if before.threads != after.threads:
        return [f"nfsd had {before.threads} threads before and has {after.threads} now"]
    return []


def pools_between(before: Sequence[Pool], after: Sequence[Pool]) -> tuple[tuple[Pool, ...], list[str]]:
    """Growth of the counters of each pool; nothing where nfsd was restarted in between, and the second part says so."""
    if [pool.pool for pool in before] != [pool.pool for pool in after]:
        return (), ["the thread pools of nfsd are others than before: pool_stats is left out"]
    deltas = tuple(grew for old, new in zip(before, after, strict=True) if (grew := _grown(old, new)) is not None)
    if len(deltas) < len(after):
        return (), ["pool_stats began anew in between (nfsd was restarted): it is left out"]
    return deltas, []


def woken_share(pools: Sequence[Pool]) -> float | None:
    """Share (0 to 1) of the queued requests for which an idle thread was woken; None where nothing was queued.

    Near 1: a thread was idle each time. Near 0: all threads were busy, so that requests waited.
    """
    enqueued = sum(pool.sockets_enqueued for pool in pools)
    return sum(pool.threads_woken for pool in pools) / enqueued if enqueued > 0 else None


def queue_tells(ops: int, transmissions: int) -> bool:
    """Whether so few calls were sent again that the queue time is that before the first sending: at most 1 %.

    The kernel counts up to the last sending, so one call that was sent again after 60 s weighs like thousands.
    """
    return 100 * (transmissions - ops) <= ops


def latencies(mount: Mount, source: str) -> list[Latency]:
    """Means of each operation that was done, then (op "") of reads and writes together, in three layers.

    "client" is from the start of the RPC task to its end, "slot wait" from there to the last transmission, "client
    wire" from there to the reply. An operation that was never done has no latency.
    """
    rows = {op: [stats] for op, stats in mount.ops.items() if stats.ops > 0}
    if data := [stats for op, (stats,) in rows.items() if op in _DATA]:
        rows[""] = data
    return [
        Latency(layer, op, sum(getattr(each, column) for each in own) / count, count, source, server=mount.server)
        for op, own in rows.items()
        for count in [sum(each.ops for each in own)]
        for layer, column in (("client", "execute_ms"), ("slot wait", "queue_ms"), ("client wire", "rtt_ms"))
    ]


def without_resent(mount: Mount, source: str) -> tuple[list[Latency], list[str]]:
    """The latencies of a mount without the slot waits that resends make too long, and a note where calls were resent.

    Reads and writes together have no slot wait where either has none.
    """
    every = latencies(mount, source)
    again = sum(max(stats.transmissions - stats.ops, 0) for stats in mount.ops.values())
    if not again:
        return every, []
    left_out = [
        op for op, stats in mount.ops.items() if stats.ops > 0 and not queue_tells(stats.ops, stats.transmissions)
    ]
    of_both = {""} if _DATA.intersection(left_out) else set()
    kept = [each for each in every if each.layer != "slot wait" or each.op not in of_both.union(left_out)]
    note = f"{mount.path}: {again:,} calls were retransmitted; what they waited before counts as slot wait"
    if left_out:
        note += f", so the slot wait of {', '.join(left_out)} is left out"
    return kept, [note]


def _seconds(before: Snapshot, after: Snapshot) -> float | None:
    """Seconds between the two, None where they do not tell; ``InputError`` where they cannot be compared."""
    pair = f"{before.name} and {after.name}"
    if before.hostname and after.hostname and before.hostname != after.hostname:
        raise InputError(f"{pair} are of different hosts ({before.hostname}, {after.hostname}): give two of one host")
    if before.boot and after.boot and before.boot != after.boot:
        raise InputError(f"{pair} are of different boots, so the counters began anew in between: take them again")
    ages = {(mount.device, mount.path): mount.age_s for mount in before.mounts}
    aged = [
        mount.age_s - old
        for mount in after.mounts
        if mount.age_s is not None and (old := ages.get((mount.device, mount.path))) is not None
    ]
    age = max(aged, default=None)
    first, last = _instant(before.taken), _instant(after.taken)
    seconds = (last - first).total_seconds() if first and last else None
    wrong = f"{pair} are in the wrong order: give the earlier one first"
    if seconds is None and age is not None and age < 0:
        raise InputError(f"{wrong} (or every mount was remounted in between)")
    # The clock of a host may be set back between the two; how long a mount has been there goes on.
    if seconds is not None and seconds < 0:
        if age is None or age < 0:
            raise InputError(wrong)
        seconds = None
    return float(age) if seconds is None and age is not None else seconds


def _instant(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _resent_share(grown: Mapping[str, int]) -> float | None:
    """The share of what a host sent that it had sent before, which OutSegs leaves out; None of few segments."""
    sent, again = grown.get("tcp.OutSegs", 0), grown.get("tcp.RetransSegs")
    return None if again is None or sent < _FEW_SEGMENTS else again / (sent + again)


def _load(grown: Mapping[str, int], seconds: float, cpus: int | None, source: str) -> HostLoad | None:
    """The load over so many seconds; None where nothing tells of it."""
    ticks = {name: grown[f"cpu.{name}"] for name in TICKS if f"cpu.{name}" in grown}
    total = sum(ticks.values()) if len(ticks) == len(TICKS) else 0
    shares = {
        name: min(grown[key] / 1e6 / seconds, 1.0)
        for name, key in (("cpu_pressure", "psi.cpu"), ("memory_pressure", "psi.memory"))
        if key in grown
    }
    if "vm.pgmajfault" in grown:
        shares["major_faults_s"] = grown["vm.pgmajfault"] / seconds
    if total:
        shares |= {"idle": (ticks["idle"] + ticks["iowait"]) / total, "steal": ticks["steal"] / total}
    return HostLoad(source, cpus, **shares) if shares else None


def _disks(grown: Mapping[str, int]) -> tuple[Disk, ...]:
    """Those that had requests meanwhile, with most of them first."""
    names = dict.fromkeys(name.split(".", 1)[1].rpartition(".")[0] for name in grown if name.startswith("disk."))
    busy = []
    for name in names:
        own = [grown.get(f"disk.{name}.{at}", -1) for at in range(DISK_FIELDS)]
        reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, *_ = own
        # One that went backwards: another device has the name.
        if min(reads, sectors_read, read_ms, writes, sectors_written, write_ms) >= 0 and reads + writes:
            of_read, of_write = (
                ms / count if count >= _FEW else None for ms, count in ((read_ms, reads), (write_ms, writes))
            )
            busy.append(Disk(name, reads, writes, sectors_read / 2, sectors_written / 2, of_read, of_write, None))
    return tuple(sorted(busy, key=lambda disk: -(disk.reads + disk.writes)))
