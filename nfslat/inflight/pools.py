"""Addresses of servers in one capture -> those behind which one pool of threads works.

A host with two addresses has one pool: calls to either wait for what calls to the other one take. Clocks that agree say
that addresses may be one host, and not that they are: a tap stamps the packets of several servers by one clock, and
servers may keep time well. So the calls decide. Work in a thread is most regular with the right pools (`threads`):
where calls to several addresses in one line are clearly more regular than in a line for each, with as many threads as
fit best there, the line is one, if a search over it finds threads, too. Else each address is a host.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from nfslat.inflight.analysis import OneSide
from nfslat.inflight.entropy import is_worse
from nfslat.inflight.jobs import Host, Jobs, find_jobs
from nfslat.inflight.server import threads_of
from nfslat.inflight.threads import FEWEST, regularity
from nfslat.model.tables import F64

_MOST_ADDRESSES = 4  # of which pools are sought
_CLEARLY = 0.1  # nats a call; less may be how density is estimated of more calls


def pools_of(side: OneSide, addresses: Sequence[str]) -> list[Host]:
    """The hosts behind `addresses`, of which each may be one with any other, in their order."""
    if not 1 < len(addresses) <= _MOST_ADDRESSES:
        return [(address,) for address in addresses]
    apart = {address: _jobs(side, (address,)) for address in addresses}
    threads = {address: threads_of(jobs) for address, jobs in apart.items() if len(jobs.op) >= FEWEST}
    known = [address for address in addresses if address in threads]
    if not any(one.limited or one.instead for one in threads.values()):
        return [(address,) for address in addresses]  # nothing waits
    lines = {address: regularity(apart[address].work, apart[address].kind) for address in known}
    for count in range(len(known), 1, -1):
        for pool in itertools.combinations(known, count):
            if _is_one(_jobs(side, pool), [(len(apart[one].op), lines[one]) for one in pool]):
                rest = [(address,) for address in addresses if address not in pool]
                return sorted([pool, *rest], key=lambda host: addresses.index(host[0]))
    return [(address,) for address in addresses]


def _is_one(jobs: Jobs, apart: Sequence[tuple[int, F64]]) -> bool:
    """Is one line of all of them clearly more regular than a line for each? `apart` has calls and nats of those."""
    counts, nats = zip(*apart, strict=True)
    worse = np.average(nats, axis=0, weights=counts) - regularity(jobs.work, jobs.kind)
    return bool(worse.mean() > _CLEARLY) and is_worse(worse) and threads_of(jobs).limited


def _jobs(side: OneSide, host: Host) -> Jobs:
    return find_jobs(side.ops, side.loose, side.reverse, side.details.blocked, host).within(side.span_ns)
