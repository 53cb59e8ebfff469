"""One capture whose stamps tick slowly -> the other host's ops as far as means tell of them.

What TCP acknowledges by itself takes the path there and back, and no thread. In ticks no single time of that is known,
nor the shortest, but the mean is; and so is what is left of the ops' own mean.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from nfslat.clock.tick import Tick, mean_error_ns
from nfslat.model.segments import Segments
from nfslat.model.tables import I32, I64, Bool, Ops
from nfslat.peer.heard import exchange
from nfslat.peer.infer import Found, calls_of
from nfslat.peer.inferred import Inferred
from nfslat.peer.path import TIMER_NS, bare_acks
from nfslat.peer.vantage import Vantage

_LEAST_ACKS = 20  # bare ACKs
_NEARER = 3  # times as far is the other end, where the capture is at one of them
_FEW, _LEAST_SHARE, _MOST = 0.02, 0.1, 0.9  # of them
_FINER_STAMPS = "Capture with finer stamps (tcpdump -j, --time-stamp-precision), or on another host"


class _Way(NamedTuple):
    """What bare ACKs of a host take on average."""

    mean_ns: float
    error_ns: float

    @classmethod
    def of(cls, acks: list[tuple[I64, I64]], tick: Tick) -> _Way | None:
        """None where few tell, or those that waited for a timer cannot be told from those that took the path."""
        if not acks:
            return None
        came, took = (np.concatenate(column) for column in zip(*acks, strict=True))
        quick = took < TIMER_NS - tick.ns
        is_told = np.count_nonzero(quick) >= _LEAST_ACKS and np.mean(quick) >= _MOST
        if not is_told or not (quick.all() or _is_apart(took[quick], tick.ns)):
            return None
        return cls(float(took[quick].mean()), mean_error_ns(tick, took[quick], came[quick]))


def _is_apart(quick: I64, tick_ns: int) -> bool:
    """Do times end before those of timers begin? A path that always takes the same makes two numbers of ticks, one
    behind the other."""
    count = np.bincount(quick // tick_ns)
    most = int((TIMER_NS - tick_ns) // tick_ns)  # that are less than any timer
    if count[most:].sum() <= _FEW * len(quick):
        return True
    return bool(
        most > 0 and count[most - 1] >= _LEAST_SHARE * len(quick) and count[: most - 1].sum() <= _FEW * len(quick)
    )


def infer_means(ops: Ops, asked: Bool, talks: list[Segments], side: str | None, frames: I32, tick: Tick) -> Found | str:
    """As `nfslat.peer.infer.infer`, for ops that take few ticks: instants are such that means are right, and those of
    single ops mean nothing. `talks` is empty then."""
    tcp = np.array([ends.transport == "tcp" for ends in ops.connections], dtype=np.bool_)
    rows = np.flatnonzero(asked)
    rows = rows[tcp[ops.conn[rows]]]
    acks: dict[str, list[tuple[I64, I64]]] = {"server": [], "client": []}
    for talk, direction in calls_of(ops, rows, talks):
        # What is sent in the direction of calls the server acknowledges.
        for host, sent in (("server", direction), ("client", 1 - direction)):
            acks[host].append(bare_acks(exchange(talk, sent)))
    talks.clear()
    ways = {host: _Way.of(some, tick) for host, some in acks.items()}
    to_server, to_client = ways["server"], ways["client"]
    why = f"its time stamps tick every {tick.ns / 1e6:g} ms, which is too coarse for the times of single packets, and"
    near, near_ns = side, 0.0
    if near is None:
        if to_server is None or to_client is None:
            return (
                f"{why} too few acknowledgements by TCP alone show at which of the hosts it was taken. {_FINER_STAMPS}"
            )
        near = "client" if to_client.mean_ns <= to_server.mean_ns else "server"
        at_once, path = sorted((to_server, to_client))
        near_ns = at_once.error_ns
        if at_once.mean_ns > max(near_ns, path.mean_ns / _NEARER):
            return f"{why} neither host acknowledges at once, so that it was taken between them. {_FINER_STAMPS}"
    way = to_server if near == "client" else to_client
    if way is None:
        return f"{why} too few acknowledgements by TCP alone show what the path takes on average. {_FINER_STAMPS}"
    client_ns, server_ns = (0.0 if way_to is None else way_to.mean_ns for way_to in (to_client, to_server))
    known = np.zeros(len(ops), dtype=np.bool_)
    known[rows] = True
    half = round(way.mean_ns / 2)
    by = half if near == "client" else -half
    there = dataclasses.replace(ops, t0=ops.t0 + by, t1=ops.t1 + by, t2=ops.t2 - by, t3=ops.t3 - by)
    srt_ns = there.t2 - there.t1 if near == "client" else there.t3 - there.t0
    return Found(
        there,
        known,
        Inferred(
            "server" if near == "client" else "client",
            Vantage(near, client_ns, server_ns, np.nan, np.nan),
            srt_ns - tick.ns,
            srt_ns + tick.ns,
            np.full(len(ops), round(math.hypot(way.error_ns, near_ns)), dtype=np.int64),
            None,
            0,
            2 * half,
            np.zeros(len(ops), dtype=np.bool_),
        ),
        frames,
        np.full(len(frames), math.nan),
    )
