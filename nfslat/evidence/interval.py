"""Two snapshots of a host -> what it did in between."""

from __future__ import annotations

from datetime import UTC, datetime

from nfslat.errors import InputError
from nfslat.evidence import kernel_counters, mountstats, nfsd, pools
from nfslat.evidence.records import Disk, HostLoad, Interval, Latency, Mount, NfsdStats, Pool, Snapshot
from nfslat.evidence.when import Span


def difference(before: Snapshot, after: Snapshot) -> Interval:
    """What happened between `before` and `after`; what cannot be compared is left out, and a note says so.

    An operation of a mount that was sent again too often (`mountstats.queue_tells`) has no "slot wait" among the
    latencies: the kernel counts the wait for the first answer there. `mounts` keep the counters as they are.

    Raises ``InputError`` where the two are of different hosts or boots, in the wrong order, or have nothing in common.
    """
    seconds = _seconds(before, after)
    mounts, notes = mountstats.difference(before.mounts, after.mounts)
    server: NfsdStats | None = None
    kept: tuple[Pool, ...] = ()
    if before.nfsd and after.nfsd:
        server, said = nfsd.difference(before.nfsd, after.nfsd)
        notes += said
    if before.pools and after.pools:
        kept, said = pools.difference(before.pools, after.pools)
        notes += said
    pairs = ((one.mounts, one.nfsd, one.pools, one.kernel) for one in (before, after))
    if not any(old and new for old, new in zip(*pairs, strict=True)):
        raise InputError(f"{before.name} and {after.name} have no counters in common: take both the same way")
    latencies: list[Latency] = []
    resent: list[str] = []
    for mount in mounts:
        found, said = without_resent(mount, f"mountstats {mount.path}")
        latencies += found
        resent += said
    if mounts and not latencies:
        notes.append("no NFS operation was done in between on any mount")
    return Interval(
        seconds,
        tuple(latencies),
        mounts,
        server,
        kept,
        *_of_kernel(before, after, seconds),
        notes=(*notes, *resent),
    )


def _of_kernel(
    before: Snapshot, after: Snapshot, seconds: float | None
) -> tuple[Span | None, HostLoad | None, float | None, tuple[Disk, ...]]:
    """When it was, how busy the host was, what it sent again, and its disks; nothing where the time is not known."""
    first, last = _instant(before.taken), _instant(after.taken)
    if not seconds or first is None or last is None or first >= last:
        return None, None, None, ()
    grown = kernel_counters.growth(before.kernel, after.kernel)
    begin, end = (one.astimezone(UTC).replace(tzinfo=None) for one in (first, last))
    span = Span(begin, end, zone_min=0)
    load = kernel_counters.load_of(grown, seconds, after.cpus, f"{before.name} and {after.name}")
    return span, load, kernel_counters.resent_share(grown), kernel_counters.disks_of(grown)


def without_resent(mount: Mount, source: str) -> tuple[list[Latency], list[str]]:
    """The latencies of a mount without the slot waits that resends make too long, and a note where calls were resent.

    Reads and writes together have no slot wait where either has none.
    """
    again = sum(max(stats.transmissions - stats.ops, 0) for stats in mount.ops.values())
    found = mountstats.latencies(mount, source)
    if not again:
        return found, []
    left_out = [
        op
        for op, stats in mount.ops.items()
        if stats.ops > 0 and not mountstats.queue_tells(stats.ops, stats.transmissions)
    ]
    of_both = {""} if mountstats.DATA.intersection(left_out) else set()
    kept = [each for each in found if each.layer != "slot wait" or each.op not in of_both.union(left_out)]
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
