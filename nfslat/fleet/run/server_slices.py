"""A server's capture that is too large for one task -> tasks that split it, and decode it in slices."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

from nfslat.fleet.run import sliced
from nfslat.fleet.run.points import Point
from nfslat.fleet.run.pool import Pool, TaskFailed
from nfslat.fleet.run.shards import Decode
from nfslat.fleet.run.store import Store

T = TypeVar("T")


def decode_in_slices(
    pool: Pool,
    store: Store,
    server: Point,
    problem: Callable[[str, str, str], object],
    step: Callable[[str], None],
    captured: Collection[str] | None,
    priority: int,
) -> Decode:
    """What `nfslat.fleet.run.shards.decode_point` gives. Raises ``TaskFailed`` where there is nothing.

    `problem` is told what is missing, why, and what the report lacks for it.
    """

    def submit(function: Callable[..., T], *given: Any) -> Future[T]:
        return pool.submit(function, *given, priority=priority)

    parts, count = sliced.groups(server.files), sliced.slices(server.files)
    since_ns = pool.result(submit(sliced.begins_ns, server.files))
    try:
        kept = pool.result(submit(sliced.kept, store, server.name, parts, count, since_ns, captured))
    except TaskFailed:
        kept = None
    if kept is not None:
        return kept
    splits = []
    splitting = [submit(sliced.split_some, store, server.name, files, count, since_ns) for files in parts]
    for number, one in enumerate(splitting, 1):
        try:
            splits.append(pool.result(one))
            step(f"split part {number} of {len(parts)} of the server's capture")
        except TaskFailed as lost:
            problem(f"part {number} of the server's capture", str(lost), "the time in it is missing")
    if not splits:
        raise TaskFailed("none of its files can be read")
    places = []
    for place in [submit(sliced.decode_place, store, splits, at, captured) for at in range(count)]:
        places.append(pool.result(place))
        step(f"decoded slice {len(places)} of {count} of the server's capture")
    return pool.result(submit(sliced.gather, store, splits, places))
