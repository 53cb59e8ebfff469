"""One trace, or two of one path -> what its conversations still waited for to the last (`open_waits`), all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.model.record import Record
from nfslat.model.tables import Bool
from nfslat.model.units import iso, to_ms
from nfslat.tcp.both import Both
from nfslat.tcp.open_waits import Hang, OpenWait, open_waits
from nfslat.tcp.packets import FIN, RST, SYN, Kind, Talk, Trace
from nfslat.tcp.progress import sender

_MOST = 10_000  # conversations that are looked at one by one, and hangs that are listed
_ASKED_AGAIN = (Kind.RETRANSMISSION, Kind.KEEP_ALIVE, Kind.ZERO_WINDOW_PROBE)


class Hanging(Record):
    """What one end of a conversation waited for when the capture ended, or when what `ended_by` names came."""

    capture: int  # 0 or 1: which shows it; with two captures the one at the end of who waits
    stream: int  # the conversation's number in that capture
    waiter: str  # who waits, or was reset
    other: str
    hang: Hang
    frame: int  # that shut the window, or was sent first, or was the RST
    since: str  # its time
    ms: float  # from then until the capture's end, or until what ended it
    tries: int  # its SYNs, transmissions, probes or keep-alives; of a reset the RSTs
    last_try_ms: float  # from `since` to the last of them
    answers: int  # packets of the other end meanwhile; of a shut window they say that it still is
    bytes: int  # of the waiter that are not acknowledged
    ended_by: str | None  # "waiter's reset", "other's reset" or "next connection"; None: it lasted until the end
    ended_frame: int | None  # of a RST
    tries_arrived: int | None  # of `tries` those in the other capture; None: no second one, or not known


class Hangs(Record):
    """Of all conversations."""

    all: tuple[Hanging, ...]  # the longest first, and resets last
    left_out: int  # conversations that may hang, and that were too many to look at


def hangs(traces: Sequence[Trace], both: Both | None) -> Hangs:
    """Of a conversation that both captures show each end's are taken from its own capture."""
    found: list[Hanging] = []
    left_out = 0
    for side, trace in enumerate(traces):
        rows = np.flatnonzero(_may_hang(trace))
        left_out += max(len(rows) - _MOST, 0)
        pairs = {} if both is None else {pair.rows[side]: pair for pair in both.pairs}
        hosts = _hosts(traces[1 - side]) if both is not None else frozenset()
        for row in rows[:_MOST].tolist():
            talk = trace.talk(row)
            for one in open_waits(talk):
                arrived = None
                if row in pairs:
                    way = 1 - one.waiter if side and pairs[row].is_turned else one.waiter
                    if (pairs[row].sender + way) % 2 != side:
                        continue
                    arrived = int(np.isin(one.tries, pairs[row].same[way][side]).sum())
                elif hosts and {talk.conversation.ends.source(at)[0] for at in (0, 1)} <= hosts:
                    arrived = 0  # the other capture shows both hosts under these addresses, and nothing of this
                if one.hang is Hang.RESET:
                    arrived = None
                found.append(_hanging(trace, side, row, talk, one, arrived))
    found.sort(key=lambda one: (one.hang in (Hang.RESET, Hang.REFUSED), one.ended_by is not None, -one.ms))
    return Hangs(tuple(found[:_MOST]), left_out + max(len(found) - _MOST, 0))


def _may_hang(trace: Trace) -> Bool:
    """Which conversations asked for anything again, were reset, or never got beyond their SYNs."""
    p = trace.packets
    count = len(trace.conversations)
    is_odd = np.isin(p.kind, _ASKED_AGAIN) | (p.flags & RST != 0)
    odd = np.bincount(p.conversation[is_odd], minlength=count) > 0
    is_syn = p.flags & SYN != 0
    place = p.conversation.astype(np.int64) * 2 + p.direction
    syns = np.bincount(place[is_syn], minlength=2 * count)
    others = np.bincount(place[~is_syn], minlength=2 * count)
    opening = ((syns > 0) & (others == 0)).reshape(-1, 2).any(axis=1)
    # A FIN that was sent again has no payload.
    fins = np.bincount(place[p.flags & FIN != 0], minlength=2 * count).reshape(-1, 2).max(axis=1, initial=0)
    return np.asarray(odd | opening | (fins > 1))


def _hosts(trace: Trace) -> frozenset[str]:
    return frozenset(one.ends.source(at)[0] for one in trace.conversations for at in (0, 1))


def _hanging(trace: Trace, side: int, row: int, talk: Talk, one: OpenWait, arrived: int | None) -> Hanging:
    p = talk.packets
    since = int(p.t_ns[one.since])
    reset = None if one.hang is Hang.RESET else one.reset
    until, ended_by = talk.until_ns, "next connection" if trace.is_followed(row) else None
    if reset is not None:
        until = int(p.t_ns[reset])
        ended_by = "waiter's reset" if p.direction[reset] == one.waiter else "other's reset"
    return Hanging(
        capture=side,
        stream=row,
        waiter=sender(talk, one.waiter),
        other=sender(talk, 1 - one.waiter),
        hang=one.hang,
        frame=int(p.frame[one.since]),
        since=iso(since),
        ms=to_ms(max(until - since, 0)),
        tries=len(one.tries),
        last_try_ms=to_ms(max(int(p.t_ns[one.tries[-1]]) - since, 0)),
        answers=one.answers,
        bytes=one.bytes,
        ended_by=ended_by,
        ended_frame=None if reset is None else int(p.frame[reset]),
        tries_arrived=arrived,
    )
