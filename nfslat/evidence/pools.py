"""Text of /proc/fs/nfsd/pool_stats -> the thread pools of a Linux NFS server, and how often an idle thread was there.

Source: Linux net/sunrpc/svc_xprt.c as of 6.1 and 6.12, Documentation/filesystems/nfs/knfsd-stats.rst;
docs/evidence.md has what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from nfslat.errors import InputError
from nfslat.evidence.counters import counters, grown
from nfslat.evidence.records import Pool

_COLUMNS = ("pool", "packets-arrived", "sockets-enqueued", "threads-woken", "threads-timedout")


def read(text: str, name: str) -> tuple[Pool, ...]:
    """One row a pool. Raises ``InputError`` where the heading or a row is not as a kernel prints it.

    Columns go by their heading: old kernels have another column.
    """
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    heading = lines[0][1][1:] if lines and lines[0][1][0] == "#" else []
    if not set(_COLUMNS) <= set(heading):
        raise InputError(f"{name}: no heading '# {' '.join(_COLUMNS)}': is this pool_stats?")
    places = [heading.index(column) for column in _COLUMNS]
    pools = []
    for number, words in lines[1:]:
        values = counters(words, len(heading), f"{name}, line {number}")
        pools.append(Pool(*(values[place] for place in places)))
    return tuple(pools)


def difference(before: Sequence[Pool], after: Sequence[Pool]) -> tuple[tuple[Pool, ...], list[str]]:
    """Growth of the counters of each pool; nothing where nfsd was restarted in between, and the second part says so."""
    if [pool.pool for pool in before] != [pool.pool for pool in after]:
        return (), ["the thread pools of nfsd are others than before: pool_stats is left out"]
    deltas = []
    for old, new in zip(before, after, strict=True):
        growth = grown(astuple(old)[1:], astuple(new)[1:])
        if growth is None:
            return (), ["pool_stats began anew in between (nfsd was restarted): it is left out"]
        deltas.append(Pool(new.pool, *growth))
    return tuple(deltas), []


def woken_share(pools: Sequence[Pool]) -> float | None:
    """Share (0 to 1) of the queued requests for which an idle thread was woken; None where nothing was queued.

    Near 1: a thread was idle each time. Near 0: all threads were busy, so that requests waited.
    """
    enqueued = sum(pool.sockets_enqueued for pool in pools)
    return sum(pool.threads_woken for pool in pools) / enqueued if enqueued > 0 else None
