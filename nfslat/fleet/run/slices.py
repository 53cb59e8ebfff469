"""A server's whole capture -> the waits of all its calls for a thread; of a very long one, stretch by stretch.

What is worked out of a call takes more than a hundred bytes, so no more calls than fit are looked at at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run.joined import of_server
from nfslat.fleet.run.phases import ByTime, find_by_time
from nfslat.inflight.jobs import find_jobs
from nfslat.inflight.server import ServerLoad, load_of, threads_of, told
from nfslat.inflight.threads import Bound, Threads
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NFS, NFSACL, NULL
from nfslat.model.tables import I64, Bool, Ops

MOST_OPS = 20_000_000  # that are looked at at once


def find_load(
    whole: Decoded, reverse: Bool, hidden: tuple[float, float], windows: Windows, most_ops: int = MOST_OPS
) -> tuple[ServerLoad, ByTime]:
    """`reverse` and `hidden` are those of `nfslat.inflight.server.server_load`, of the whole; `ByTime` has no rows."""
    if len(whole.ops) <= most_ops or windows.count == 1:
        return _load(whole, reverse, hidden, windows)
    calls = _calls(whole.ops, reverse)
    server = max(calls, key=lambda address: calls[address], default="")
    ops, reverse = of_server(whole.ops, reverse, frozenset((server,)))
    whole = dataclasses.replace(whole, ops=ops)
    found = [
        _load(part, _of_classes(ops, reverse, part.ops), hidden, some)
        for part, some in _slices(whole, windows, most_ops)
    ]
    return _one_after_another([load for load, _ in found], len(calls)), _joined([by_time for _, by_time in found])


def _load(whole: Decoded, reverse: Bool, hidden: tuple[float, float], windows: Windows) -> tuple[ServerLoad, ByTime]:
    ops = whole.ops
    jobs = find_jobs(ops, whole.loose, reverse, whole.details.blocked)
    threads = threads_of(jobs)
    judged = told(threads, jobs, hidden, whole.details)
    count = windows.count
    if judged is threads:
        by_time = find_by_time(jobs, threads, windows.bounds(jobs.work.arrival_ns))
    else:
        by_time = ByTime(judged, (judged.bound.threads,) * count, (None,) * count, (judged.without_rows,) * count)
    load = load_of(ops, jobs, by_time.threads)
    return load, dataclasses.replace(by_time, threads=load.threads)


def _calls(ops: Ops, reverse: Bool) -> dict[str, int]:
    """NFS calls to each address."""
    calls: dict[str, int] = {}
    classes = ops.classes
    for conn, way, kind, count, back in zip(
        classes.conn, classes.direction, classes.kind, classes.count.tolist(), reverse, strict=True
    ):
        if ops.kinds[kind].program in (NFS, NFSACL) and not back:
            address = ops.connections[conn].destination(way)[0]
            calls[address] = calls.get(address, 0) + count
    return calls


def _slices(whole: Decoded, windows: Windows, most_ops: int) -> Iterator[tuple[Decoded, Windows]]:
    """As many windows at once as have no more ops; one that has more is looked at as it is."""
    rows = windows.bounds(np.maximum.accumulate(whole.ops.t1)).tolist()
    edges = windows.edges_ns.tolist()
    loose = whole.loose
    blocked = whole.details.blocked
    begin = 0
    while begin < windows.count:
        end = begin + 1
        while end < windows.count and rows[end + 1] - rows[begin] <= most_ops:
            end += 1
        here = slice(rows[begin], rows[end])
        in_time = np.ones(len(loose), dtype=np.bool_)
        if begin:
            in_time &= loose.first_ns >= edges[begin]
        if end < windows.count:
            in_time &= loose.first_ns < edges[end]
        some = loose.take(np.where(loose.op == NULL, in_time, (loose.op >= here.start) & (loose.op < here.stop)))
        kept = blocked.take((blocked.op >= here.start) & (blocked.op < here.stop))
        yield (
            dataclasses.replace(
                whole,
                ops=whole.ops.take(here),
                loose=dataclasses.replace(
                    some, op=np.where(some.op == NULL, some.op, some.op - np.int32(here.start)).astype(np.int32)
                ),
                details=dataclasses.replace(
                    whole.details,
                    blocked=dataclasses.replace(kept, op=kept.op - np.int32(here.start)),
                ),
            ),
            Windows(edges[begin], windows.step_ns, end - begin),
        )
        begin = end


def _of_classes(ops: Ops, reverse: Bool, part: Ops) -> Bool:
    """`reverse` of the classes of some of the ops."""

    def keys(table: Ops) -> I64:
        c = table.classes
        return (2 * c.conn + c.direction) * len(ops.kinds) + c.kind

    return reverse[np.searchsorted(keys(ops), keys(part))]


def _one_after_another(loads: list[ServerLoad], servers: int) -> ServerLoad:
    first = loads[0]
    if any(not load.threads.cannot for load in loads):
        loads = [_not_known(load) if load.threads.cannot else load for load in loads]
    queue = np.concatenate([load.queue_ns for load in loads])
    least = most = queue
    if any(load.threads.limited for load in loads):
        least = np.concatenate([load.queue_with_least_ns for load in loads])
        most = np.concatenate([load.queue_with_most_ns for load in loads])
    jobs = dataclasses.replace(
        first.jobs,
        servers=servers,
        held=sum(load.jobs.held for load in loads),
        unseen=sum(load.jobs.unseen for load in loads),
        unseen_first=sum(load.jobs.unseen_first for load in loads),
    )
    return ServerLoad(jobs, _threads(loads), queue, least, most, sum(load.witnesses for load in loads))


def _not_known(load: ServerLoad) -> ServerLoad:
    """The same, with no wait known of a stretch of which nothing is known, where it is of others."""
    nothing = np.full(len(load.queue_ns), NULL)
    return dataclasses.replace(load, queue_ns=nothing, queue_with_least_ns=nothing, queue_with_most_ns=nothing)


def _threads(loads: list[ServerLoad]) -> Threads:
    """What stretches say of the whole time: the one in which calls waited most, with the range of all."""
    every = [load.threads for load in loads]
    calls = sum(one.calls for one in every)
    top = max(one.bound.threads for one in every)
    bound = Bound(top, sum(one.bound.times for one in every if one.bound.threads == top))
    most = max(one.most_in_flight for one in every)
    limited = [load for load in loads if load.threads.limited]
    if not limited:
        said = [one.cannot for one in every]
        cannot = said[0] if all(said) else ""
        return dataclasses.replace(every[0], calls=calls, bound=bound, most_in_flight=most).untold(cannot)
    main = max(limited, key=lambda load: int(load.queue_ns[load.queue_ns != NULL].sum())).threads
    lows, highs = ([getattr(load.threads, name) for load in limited] for name in ("low", "high"))
    low = min(one for one in lows if one is not None)
    return dataclasses.replace(
        main,
        calls=calls,
        bound=bound if bound.threads <= low else main.bound,
        most_in_flight=most,
        low=low,
        high=None if None in highs else max(highs),
        waiting_share=sum(one.waiting_share * one.calls for one in every) / max(calls, 1),
    )


def _joined(parts: Sequence[ByTime]) -> ByTime:
    begins = np.cumsum([0, *(len(part.bounds) for part in parts)]).tolist()
    return ByTime(
        parts[0].threads,
        tuple(one for part in parts for one in part.bounds),
        tuple(one for part in parts for one in part.alone),
        tuple(one for part in parts for one in part.told_by),
        tuple(at + base for part, base in zip(parts, begins, strict=False) for at in part.changing),
    )
