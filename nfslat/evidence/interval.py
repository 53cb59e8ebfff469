"""Two snapshots of a host -> what it did in between; one -> what it did since its counters began."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from nfslat.errors import InputError
from nfslat.evidence import mountstats, nfsd, pools
from nfslat.evidence.records import Interval, Latency, Mount, NfsdStats, Pool, Snapshot


def difference(before: Snapshot, after: Snapshot) -> Interval:
    """What happened between `before` and `after`; what cannot be compared is left out, and a note says so.

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
    counted = (before.mounts and after.mounts) or (before.nfsd and after.nfsd) or (before.pools and after.pools)
    if not counted:
        raise InputError(f"{before.name} and {after.name} have no counters in common: take both the same way")
    latencies = _latencies(mounts)
    if mounts and not latencies:
        notes.append("no NFS operation was done in between on any mount")
    notes += _sent_again(mounts)
    return Interval(seconds, latencies, mounts, server, kept, tuple(notes))


def since_start(snapshot: Snapshot) -> Interval:
    """All that the counters of one snapshot hold. A note says how far back they go: it is rarely the time looked at."""
    notes = [
        f"{mount.path}: one reading, so the means are those since it was mounted{_ago(mount.age_s)}"
        for mount in snapshot.mounts
        if any(stats.ops for stats in mount.ops.values())
    ]
    if snapshot.nfsd or snapshot.pools:
        notes.append("one reading of the server's counters, so they are those since nfsd was started")
    notes += _sent_again(snapshot.mounts)
    latencies = _latencies(snapshot.mounts)
    return Interval(None, latencies, snapshot.mounts, snapshot.nfsd, snapshot.pools, tuple(notes))


def _sent_again(mounts: Iterable[Mount]) -> list[str]:
    """A note for each mount with retransmissions: the kernel takes the time before the last sending for slot wait."""
    notes = []
    for mount in mounts:
        again = sum(stats.transmissions - stats.ops for stats in mount.ops.values())
        if again > 0:
            notes.append(f"{mount.path}: {again:,} calls were sent again; what they waited before counts as slot wait")
    return notes


def _ago(age_s: int | None) -> str:
    return "" if age_s is None else f", {age_s:,} s ago"


def _latencies(mounts: Iterable[Mount]) -> tuple[Latency, ...]:
    return tuple(each for mount in mounts for each in mountstats.latencies(mount, f"mountstats {mount.path}"))


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
        raise InputError(f"{wrong} (or every mount was made anew in between)")
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
