"""Ops of one side -> for each mount and connection: was the client held by a number of slots, and how many?

A client with N slots on a connection sends the next waiting call in its kernel as soon as a reply frees a slot. So N
are in flight for most of the busy time, hardly ever more, and what follows a reply is a call, within microseconds. N
workers that each wait for their answer keep N in flight too, but there the answer goes up to the application and the
next call comes down from it, which takes longer. In the lab (docs/measured.md, "Client slots") 0.90 or more of the
calls that fill the top after a reply come within 150 us of it where slots hold the client, 0.66 or fewer where workers
do. On a faster host workers may be as fast as that, and no time tells the two apart. Files may: where each has a caller
of its own, its next call goes out behind those of all callers in line for a slot, and at once where there is no such
line. And what was exceeded is no number of slots. On a slower host slots may be as slow as workers are on a fast one,
so these are told only by what takes far longer; and not where files take turns. Slots they are where files do, and
where a client's flusher sends WRITE after WRITE of a file: nobody waits for these one by one, so no callers hold them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from enum import Enum
from typing import NamedTuple

import numpy as np

from nfslat.inflight.levels import Levels, levels, levels_of, unseen
from nfslat.kernels.heard import places
from nfslat.kernels.levels import in_order, turnarounds_ns
from nfslat.kernels.order import argsort, side_by_side
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import I32, I64, U32, UNSTABLE_WRITE, Ops
from nfslat.peer.inferred import Stamps

KNOWN = {
    2: "the least that a Linux client keeps (sunrpc.tcp_slot_table_entries)",
    16: "the table of old Linux clients, and the default of sunrpc.udp_slot_table_entries",
    64: "the default of nfs.max_session_slots of Linux",
    128: "the limit of old Linux clients, and of a connection to ONTAP or Azure NetApp Files",
    180: "the session of ONTAP and Azure NetApp Files",
}
_FEWEST = 100  # ops of a connection, and a half of it of calls that fill the top; fewer tell nothing
_FLAT = 0.5  # of the busy time at the top
_AT_ONCE_NS = 150_000  # from a reply to the call that follows it, where only the kernel is in between
_CLOCKED = 0.8  # of the calls that fill the top
# So many times as long the mean may be, two standard errors included, where longer ones count as a millisecond: four
# fifths come at once, and the others take a few times as long. In the lab slots have 50 to 130 us, workers 230 to 950.
_MEAN, _LONG_NS, _SURE = 4 / 3, 1_000_000, 2
_SLOWER = 2  # times as long slots of a slow client may take; where half of the calls take longer it is an application
_TURNS = 0.4  # of the calls go out when the same number of others did: files chosen at random come to 0.2
_FLUSHED = 0.9  # of the ops, UNSTABLE WRITEs that go on where one before ended; of their time, the most to be sent in
_FLUSH_CLOCKED = 0.5  # of the calls that fill the top: between a reply and a flusher's next call lies no caller
_ALONE = 0.95  # of the calls for a file that had one before, those that come behind its reply
_ENOUGH = 50_000  # ops tell how files take turns
_APART = 4  # replies must be so many times further apart than the time in which a call follows one
_HIDDEN = 0.25  # of the ops: with more in flight and not seen no level says anything
_USED = 0.1  # of the ops of a mount's busiest connection: those with less (mounting, reconnecting) do not count


class Held(Enum):
    """What keeps the number in flight at its top."""

    NOTHING = "nothing"  # it moves up and down
    SLOTS = "slots"  # so, and as no number of callers would: callers stand in line for them, or a flusher does
    LIKELY = "likely slots"  # flat, and calls follow replies as fast as a kernel does it: slots, or very quick workers
    WORKERS = "workers"  # flat, but what follows a reply takes as long as an application, or is for the same file
    EITHER = "slots or workers"  # flat, and replies come too close together, or the client is too slow, to tell
    UNKNOWN = "cannot tell"  # too few ops, or too many of them not captured


_LIMITS = (Held.SLOTS, Held.LIKELY)


class Slots(NamedTuple):
    """One connection (or the one session of several) as its client sends."""

    conn: int  # row of ``Ops.connections``; NULL for a session
    ops: int
    levels: Levels
    level: int | None  # the top N: hardly ever exceeded; None where no op took time
    # Of the busy time, at N; less as many as may be in flight unseen, where ops were not captured, and as many as a
    # kernel may be about to fill, where replies come close together.
    at_top_share: float | None
    # Of the calls that fill the top (N - 1 others in flight) and have a reply right before them, how many came within
    # `at_once_us` of it; None: there are too few.
    clocked_share: float | None
    at_once_us: float  # 150, or a quarter of the mean time between replies where that is less
    turnaround_us: tuple[float, float] | None  # median and third quartile, from those replies to those calls
    held: Held
    # So many files or directories take turns, and after a reply others go first: as callers do that wait for a slot,
    # or workers that visit one after the other. None: they do not, or no files are known.
    taking_turns: int | None = None

    @property
    def limited(self) -> bool:
        """Is the number of slots likely to be what holds the client?"""
        return self.held in _LIMITS

    @property
    def hint(self) -> str | None:
        """What is known for this number of slots; no proof."""
        return KNOWN.get(self.level) if self.level is not None else None


class MountSlots(NamedTuple):
    """All connections of one client address to one server address and port."""

    client: str
    server: tuple[str, int]
    ops: int
    nconnect: int  # connections in use at the same time; 1 where one followed the other
    levels: Levels  # over those of `connections` together
    connections: tuple[Slots, ...]  # by ops, most first; only those with at least 10 % of the busiest one's

    @property
    def held(self) -> Held:
        """What holds most of its ops."""
        by: defaultdict[Held, int] = defaultdict(int)
        for one in self.connections:
            by[one.held] += one.ops
        return max(by, key=lambda held: by[held], default=Held.UNKNOWN)

    @property
    def slots(self) -> int | None:
        """Slots of all its connections together, where slots are likely to hold it."""
        return sum(one.level or 0 for one in self.connections if one.limited) if self.held in _LIMITS else None

    @property
    def taking_turns(self) -> int | None:
        """So many files or directories take turns on one of its connections."""
        return max((one.taking_turns for one in self.connections if one.taking_turns is not None), default=None)

    @property
    def at_top_share(self) -> float | None:
        """Of the busy time, at the top; the mean over its connections, weighted with their ops."""
        told = [(one.at_top_share, one.ops) for one in self.connections if one.at_top_share is not None]
        return sum(share * ops for share, ops in told) / sum(ops for _, ops in told) if told else None


def client_slots(
    ops: Ops, rows: I32 | I64, hidden: float, stamps: Stamps | None = None, together: Levels | None = None
) -> tuple[MountSlots, ...]:
    """Mounts of the ops in `rows` of a client's capture (no callbacks), by their ops, most first.

    `hidden` is the share of the ops that were not captured (`levels.hidden_share`), `stamps` are those of all ops,
    `together` are the levels of those in `rows`, where they are known.
    NFSv4.1 shares the slots of a session among connections: `nfslat.inflight.sessions` tells those exactly, where the
    engine shows them.
    """
    if not len(rows):
        return ()
    ways = 2 * len(ops.connections)
    order, spans = side_by_side(len(rows), ways, lambda at: 2 * ops.conn[rows[at]] + ops.direction[rows[at]])
    mounts: defaultdict[tuple[str, tuple[str, int]], list[tuple[int, I32 | I64]]] = defaultdict(list)
    for way, span in enumerate(spans):
        if span.stop > span.start:
            ends = ops.connections[way >> 1]
            mounts[ends.source(way & 1)[0], ends.destination(way & 1)].append(
                (way >> 1, rows[order[span]].astype(np.int64))
            )
    known = together if len(mounts) == 1 else None
    found = [_mount(ops, *ends, parts, hidden, stamps, known) for ends, parts in mounts.items()]
    return tuple(sorted(found, key=lambda mount: -mount.ops))


def _mount(
    ops: Ops,
    client: str,
    server: tuple[str, int],
    parts: list[tuple[int, I32 | I64]],
    hidden: float,
    stamps: Stamps | None,
    together: Levels | None,
) -> MountSlots:
    count = sum(len(rows) for _, rows in parts)
    most = max(len(rows) for _, rows in parts)
    parts = sorted((part for part in parts if len(part[1]) >= _USED * most), key=lambda part: -len(part[1]))
    found, used = [], []
    for conn, rows in parts:
        starts, ends = ops.t0[rows], ops.t3[rows]
        own = None if stamps is None else stamps.take(rows)
        found.append(held_at(starts, ends, hidden, conn, ops.fh[rows], own, is_flushed=is_flushed(ops, rows)))
        used.append((int(starts.min()), int(ends.max())))
    if len(parts) == 1:
        return MountSlots(client, server, count, 1, found[0].levels, tuple(found))
    nconnect = levels(*(np.array(column, dtype=np.int64) for column in zip(*used, strict=True))).max
    if together is None or sum(len(rows) for _, rows in parts) < count:
        rows = np.concatenate([rows for _, rows in parts])
        together = levels(ops.t0[rows], ops.t3[rows])
    return MountSlots(client, server, count, max(nconnect, 1), together, tuple(found))


def held_at(
    starts: I64,
    ends: I64,
    hidden: float,
    conn: int,
    files: U32 | None = None,
    stamps: Stamps | None = None,
    *,
    is_flushed: bool = False,
) -> Slots:
    """What holds the ops of one connection or session, in flight from `starts` to `ends` (ns, in any order).

    `files` are what they work on (``Ops.fh``), where that is to be looked at. `stamps` are those of the
    client's own clock where its instants were inferred: how soon a call follows a reply is less than what they are
    known to. `is_flushed`: see there.
    """
    events = in_order(starts, ends)
    found = levels_of(events)
    top, count = found.top, len(starts)
    between_ns = found.busy_ns / count if count else 0.0
    at_once_ns = min(float(_AT_ONCE_NS), between_ns / _APART)
    if top is None:
        return Slots(conn, count, found, None, None, None, at_once_ns / 1e3, None, Held.UNKNOWN)
    hides = unseen(top, hidden)
    waits_ns = turnarounds_ns(events, max(top - hides, 1), top)
    clocked_share = turnaround_us = None
    turns, own_files = (None, False) if files is None else _order_of_files(starts, ends, files, top)
    empty, is_slow = 0.0, False
    if len(waits_ns) >= _FEWEST // 2:
        clocked_share = float(np.count_nonzero(waits_ns <= at_once_ns)) / len(waits_ns)
        middle, high = np.percentile(waits_ns, (50, 75)).tolist()
        turnaround_us = middle / 1e3, high / 1e3
        is_slow = middle > _SLOWER * _AT_ONCE_NS
        empty = min(middle, _AT_ONCE_NS) / between_ns
    # Places that are empty at once because a call is on its way into each: the mean and two standard deviations.
    handed_over = math.floor(empty + 2 * math.sqrt(empty))
    at_top_share = found.share(max(top - hides - handed_over, 1), top) or 0.0
    if count < _FEWEST or hidden >= _HIDDEN or hides > top / 2:
        held = Held.UNKNOWN
    elif top == 1 or at_top_share < _FLAT:
        held = Held.NOTHING
    elif clocked_share is None:
        held = Held.UNKNOWN
    elif turns is None and not is_flushed and (own_files or (is_slow and stamps is None)):
        held = Held.WORKERS
    elif found.max <= top and (
        clocked_share >= (_FLUSH_CLOCKED if is_flushed else _CLOCKED)
        if stamps is None
        else _at_once_by(stamps, starts, ends, max(top - hides, 1), at_once_ns)
    ):
        held = Held.LIKELY if turns is None and not is_flushed else Held.SLOTS
    else:
        held = Held.WORKERS if is_slow and turns is None else Held.EITHER
    return Slots(conn, count, found, top, at_top_share, clocked_share, at_once_ns / 1e3, turnaround_us, held, turns)


def is_flushed(ops: Ops, rows: I32 | I64) -> bool:
    """Are the ops in `rows` those of a flusher: UNSTABLE WRITEs, each of which goes on where the one of its file before
    ended, and leaves at once? What waits for room in the path or in a window is no flusher that waits for a slot."""
    writes = rows[(ops.flags[rows] & UNSTABLE_WRITE) != 0]
    if len(writes) < max(_FLUSHED * len(rows), _FEWEST):
        return False
    by_file = writes[np.argsort(ops.fh[writes], kind="stable")]
    before, after = by_file[:-1], by_file[1:]
    goes_on = (ops.fh[after] == ops.fh[before]) & (ops.offset[after] == ops.offset[before] + ops.size[before])
    sent_ns, whole_ns = (int((until[writes] - ops.t0[writes]).sum()) for until in (ops.t1, ops.t3))
    return bool(np.count_nonzero(goes_on) >= _FLUSHED * len(writes)) and sent_ns <= (1 - _FLUSHED) * whole_ns


def _at_once_by(stamps: Stamps, starts: I64, ends: I64, top: int, at_once_ns: float) -> bool:
    """Does the client's own clock say that calls follow at once on the replies that make room at the top?

    Between two of its ticks, wherever they fall, so many of the intervals lie as they are parts of a tick, on average:
    the mean is known better than to a tick, whatever the path does to packets.
    """
    by_start, by_end = np.argsort(starts, kind="stable"), np.argsort(ends, kind="stable")
    before = np.searchsorted(ends[by_end], starts[by_start], side="right")  # replies, of each call
    level = np.arange(1, len(before) + 1) - before
    first = 1 + np.flatnonzero((np.diff(before) > 0) & (level[:-1] >= top))
    had, called = stamps.had_ns[by_end][before[first] - 1], stamps.called_ns[by_start][first]
    told = (had != NULL) & (called != NULL)
    count = np.count_nonzero(told)
    if not count:
        return False
    most_ns = max(stamps.tick_ns, _LONG_NS)
    share = float(np.clip((called - had)[told], 0, most_ns).mean()) / most_ns
    error = _SURE * math.sqrt(max(share * (1 - share), 1 / count) / count)
    return (share + error) * most_ns <= _MEAN * at_once_ns


def _order_of_files(starts: I64, ends: I64, files: U32, top: int) -> tuple[int | None, bool]:
    """How many files take turns, each waiting for the others after its reply, None where they do not; and whether each
    goes on at once, and is asked for by one caller at a time.

    Callers in line for a slot go out in the order in which they came, so between a reply and the next call of its
    caller there is nearly always the same number of others. A worker that goes on with its own file lets nobody go
    first, and workers that choose among files at random leave no such number.
    """
    starts, ends, files = starts[:_ENOUGH], ends[:_ENOUGH], files[:_ENOUGH]
    if (starts[1:] < starts[:-1]).any():
        by_start = np.argsort(starts, kind="stable")
        starts, ends, files = starts[by_start], ends[by_start], files[by_start]
    by_file = argsort(files.astype(np.int64))
    before, after = by_file[:-1], by_file[1:]
    same = (files[before] == files[after]) & (files[after] != NULL32)
    again = same & (starts[after] >= ends[before])
    before, after = before[again], after[again]
    if len(after) < max(_FEWEST // 2, _USED * len(starts)):
        return None, False
    others = places(starts, starts)[after] - places(starts, ends)[before]
    middle = float(np.median(others))
    near = np.abs(others - middle) <= max(middle / 8, 1)
    if middle < 1:
        return None, bool(len(after) >= _ALONE * np.count_nonzero(same))
    if middle < max(top / 2, 1) or np.count_nonzero(near) < _TURNS * len(others):
        return None, False
    return round(middle) + top, False
