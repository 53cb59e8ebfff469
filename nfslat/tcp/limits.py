"""A conversation -> what kept the sender of each direction from sending more, in ns that sum to the conversation.

The time between two packets with payload belongs to what the second one waited for (`silences`): an ACK, a window, a
timer, its application; or to the pace at which sender and path take packets, where it did not wait. What comes before
the first one and after the last is the application's, but for the time until a lost SYN was sent again, and for what
the sender waited for to the last (`open_waits`).
"""

from __future__ import annotations

import numpy as np

from nfslat.model.causes import CAUSES, LIMITS, WORDS, Cause, Limit, code
from nfslat.model.record import Record
from nfslat.model.tables import I8, I64, endpoint
from nfslat.model.units import to_ms
from nfslat.tcp.open_waits import Hang, OpenWait, is_unanswered
from nfslat.tcp.packets import Talk
from nfslat.tcp.setup import resent_until_ns
from nfslat.tcp.silences import Silences
from nfslat.wire.stalls import silence_ns

_BINS = 200


# By the code of a stall.
_LIMIT_OF_CAUSE = np.array([LIMITS.index(WORDS[cause].as_limit) for cause in CAUSES], dtype=np.int8)
_PACE, _APPLICATION, _UNKNOWN, _DELAYED, _CONGESTION = (
    LIMITS.index(limit) for limit in (Cause.PACE, Cause.APPLICATION, Cause.UNKNOWN, Cause.DELAYED_ACK, Cause.CONGESTION)
)
_NOT_BUSY = (_APPLICATION, _UNKNOWN)
# A sender had data to send.
BUSY: tuple[Limit, ...] = tuple(limit for limit in LIMITS if limit not in (Cause.APPLICATION, Cause.UNKNOWN))
_LIMIT_OF_HANG = {Hang.WINDOW: LIMITS.index(Cause.RECEIVE_WINDOW), Hang.ACK: LIMITS.index(Cause.LOSS)}


class Limited(Record):
    """How long one thing limited the sender."""

    limit: Limit
    ms: float
    share: float  # of the conversation
    share_of_busy: float | None  # of the time in which it had data to send; None for the last two, and without any
    waits: int  # silences of it; of `pace` those of 0.1 ms or more
    longest_ms: float


class Limits(Record):
    """One direction: every one of `LIMITS` in their order; their ms sum to the conversation's."""

    direction: int
    sender: str  # its endpoint
    receiver: str
    total_ms: float
    busy_ms: float  # the sender had data to send: all but the last two
    limits: tuple[Limited, ...]
    most: Limit | None  # what limited it longest of that; None without data
    needless: int  # packets that were sent again although they had arrived
    bin_ms: float
    bins: tuple[tuple[float, ...], ...]  # ms of each limit, in their order, for each stretch of `bin_ms`


class Split(Record, eq=False):
    """The time of a direction cut into stretches without gaps: [edge i, edge i + 1) belongs to `limit` i."""

    edges_ns: I64  # from the first packet of the conversation to its last, one more than stretches
    limit: I8  # place in `LIMITS`
    waits: I64  # of each limit

    def sums_ns(self) -> I64:
        """ns of each limit; they sum to the time between the first edge and the last."""
        return _sums(self.limit, np.diff(self.edges_ns))


def is_one_sided(talk: Talk, waits: tuple[OpenWait, ...]) -> bool:
    """Does the capture show packets of one direction alone, though there were others? What a sender heard is not known
    then. `waits`: what was waited for to the last."""
    ways = talk.packets.direction
    return bool((ways == ways[0]).all()) and not is_unanswered(talk, waits)


def split(talk: Talk, silences: Silences, direction: int, waits: tuple[OpenWait, ...]) -> Split:
    """What limited the sender, packet by packet. A capture of one direction alone does not tell it."""
    times = talk.packets.t_ns
    begin, end = int(times.min()), int(times.max())
    if is_one_sided(talk, waits):
        return Split(np.array([begin, end]), np.array([_UNKNOWN], dtype=np.int8), np.zeros(len(LIMITS), dtype=np.int64))
    edges = np.concatenate(([begin], silences.data_ns, [end]))
    limit = np.full(len(edges) - 1, _PACE, dtype=np.int8)
    limit[[0, -1]] = _APPLICATION
    of_silence = _of_silences(silences)
    limit[silences.at] = of_silence
    # Of the wait for a delayed ACK what was held is the timer's; there and back is the path's, as for any other ACK.
    kept = np.flatnonzero((of_silence == _DELAYED) & (silences.held_ns < silence_ns(silences.pauses)))
    at = silences.at[kept]
    edges = np.insert(edges, at + 1, edges[at + 1] - silences.held_ns[kept])
    limit = np.insert(limit, at, _CONGESTION)
    # A lost SYN: the same wait as for any other packet that was lost.
    again = resent_until_ns(talk, direction)
    if again is not None and begin < again <= edges[1]:
        edges, limit = np.insert(edges, 1, again), np.insert(limit, 0, LIMITS.index(Cause.LOSS))
    counted = np.bincount(of_silence, minlength=len(LIMITS))
    for one in waits:
        if one.waiter == direction and one.hang in _LIMIT_OF_HANG:
            # Behind the last data; what was sent in it for want of an answer is a silence with that limit already.
            since = min(max(int(edges[-2]), int(times[one.since])), end)
            to = _LIMIT_OF_HANG[one.hang]
            edges, limit = np.insert(edges, len(edges) - 1, since), np.append(limit, np.int8(to))
            counted[to] += 1
    return Split(edges, limit, counted)


def _of_silences(silences: Silences) -> I8:
    """The limit behind each silence: its cause, and what is known of the sender beside it."""
    pauses, causes = silences.pauses, silences.causes
    limit = _LIMIT_OF_CAUSE[causes]
    # A sender that may have more, with data under way, and waits for nobody goes at the pace that it sets itself
    # (Linux fq, BBR), or its host and adapter, or, far from it, the path.
    limit[(causes == code(Cause.SENDER)) & (pauses.in_message != 0) & (pauses.under_way_end > 0)] = _PACE
    return limit


def limits(talk: Talk, parts: Split, direction: int) -> Limits:
    """What limited the sender of `direction`, in all and over time."""
    sums = parts.sums_ns()
    total = int(sums.sum())
    busy = total - int(sums[list(_NOT_BUSY)].sum())
    longest = np.zeros(len(LIMITS), dtype=np.int64)
    np.maximum.at(longest, parts.limit, np.diff(parts.edges_ns))
    rows = tuple(
        Limited(
            limit=limit,
            ms=to_ms(int(sums[at])),
            share=int(sums[at]) / total if total else 0.0,
            share_of_busy=int(sums[at]) / busy if busy and at not in _NOT_BUSY else None,
            waits=int(parts.waits[at]),
            longest_ms=to_ms(int(longest[at])),
        )
        for at, limit in enumerate(LIMITS)
    )
    with_data = [at for at in range(len(LIMITS)) if at not in _NOT_BUSY]
    most = LIMITS[max(with_data, key=lambda at: int(sums[at]))] if busy else None
    bin_ns, bins = _over_time(parts)
    ends = talk.conversation.ends
    return Limits(
        direction=direction,
        sender=endpoint(*ends.source(direction)),
        receiver=endpoint(*ends.destination(direction)),
        total_ms=to_ms(total),
        busy_ms=to_ms(busy),
        limits=rows,
        most=most,
        needless=int(parts.waits[LIMITS.index(Cause.SPURIOUS)]),
        bin_ms=to_ms(bin_ns),
        bins=tuple(tuple(to_ms(ns) for ns in row) for row in bins.tolist()),
    )


def _over_time(parts: Split) -> tuple[int, I64]:
    """Width of a bin in ns, and the ns of each limit in each."""
    begin, end = int(parts.edges_ns[0]), int(parts.edges_ns[-1])
    bin_ns = max(-(-(end - begin) // _BINS), 1)
    cuts = np.arange(begin, end + bin_ns, bin_ns)[1:-1]
    # Each cut parts the stretch that it falls into.
    owner = np.searchsorted(parts.edges_ns, cuts, side="right") - 1
    edges = np.insert(parts.edges_ns, owner + 1, cuts)
    limit = np.insert(parts.limit, owner + 1, parts.limit[owner])
    count = -(-(end - begin) // bin_ns)
    cells = (edges[:-1] - begin) // bin_ns * len(LIMITS) + limit
    # A last edge with nothing behind it may fall behind the last bin.
    out = np.zeros((max(count, 0) + 1) * len(LIMITS), dtype=np.int64)
    np.add.at(out, cells, np.diff(edges))
    return bin_ns, out.reshape(-1, len(LIMITS))[:-1]


def _sums(limit: I8, ns: I64) -> I64:
    out = np.zeros(len(LIMITS), dtype=np.int64)
    np.add.at(out, limit, ns)
    return out
