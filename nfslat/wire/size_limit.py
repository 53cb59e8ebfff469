"""The segments of one connection in two captures, or in its sender's -> a size above which none arrives, while smaller
ones do.

A path that drops what is larger than its MTU without a word of it (RFC 2923 section 2.1) loses a large segment as often
as it is sent, and nothing that is smaller. Loss by chance, or by a full queue, lets large ones pass in between, and its
sender need not send the same bytes again and again.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from nfslat.model.protocol import NULL, NULL32
from nfslat.model.segments import AGAIN, BACK, RST, SYN, Segments
from nfslat.model.tables import I32, I64, Bool, Matched, Ops

_LARGE, _JUMBO = 500, 8960  # bytes of payload: what says how large a segment is, and the most that one has
_FEWEST_LOST, _FEWEST_PASSED, _FEWEST_TURNS = 5, 3, 3  # segments; and times that some are lost, others passing between
_TRIES = 3  # of the same bytes, all lost
_MOST_ELSE = 0.1  # of all sent: where more are not in the other capture, that lacks them or has them in other pieces
_CHANCE = 0.001  # of that order at most, were any of them as likely to be lost, over all stretches that are looked at
_IP_TCP, _STAMPS = 40, 12  # bytes of headers: IPv4 and TCP; its timestamps option


class SizeLimit(NamedTuple):
    """One direction of a connection in which large segments vanish for some time."""

    way: str  # "call" or "reply"
    lost: int  # transmissions that never arrived
    lost_bytes: int  # of payload
    passed: int  # smaller ones that were sent between the first of those and the last
    lost_from: int  # bytes of IPv4 packets: all as large were lost
    passed_to: int  # all up to that arrived
    lasts_ns: int
    chance: float  # at most: that loss which does not care for size makes this


def size_limits(
    server: Ops, client: Ops, matched: Matched, talks: tuple[Sequence[Segments], Sequence[Segments]]
) -> tuple[SizeLimit, ...]:
    """`talks`: of the server's capture, and of the client's. `matched`: ops that clients called."""
    again = max((np.count_nonzero(talk.marks & AGAIN) for side in talks for talk in side), default=0)
    if again < _TRIES - 1 or not len(matched) or not all(talks):
        return ()
    of_server = _talk_of(talks[0], server.call_first_frame[matched.server])
    of_client = _talk_of(talks[1], client.call_first_frame[matched.client])
    pairs = np.unique(np.stack((of_server, of_client), axis=1), axis=0)
    limits = []
    for s, c in pairs[(pairs >= 0).all(axis=1)].tolist():
        rows = (of_server == s) & (of_client == c)
        there, here = talks[0][s], talks[1][c]
        calls = _offset(
            there, server.call_first_frame[matched.server[rows]], here, client.call_first_frame[matched.client[rows]]
        )
        replies = _offset(
            there, server.reply_first_frame[matched.server[rows]], here, client.reply_first_frame[matched.client[rows]]
        )
        if calls is None or replies is None or calls.marks_there == replies.marks_there:
            continue
        limits += [
            _of_way("reply", _sent(there, replies.marks_there, replies.bytes, calls.bytes),
                    partial(_arrived, here, replies.marks_here)),
            _of_way("call", _sent(here, calls.marks_here, -calls.bytes, -replies.bytes),
                    partial(_arrived, there, calls.marks_there)),
        ]  # fmt: skip
    return tuple(limit for limit in limits if limit is not None)


def size_limits_of_one(ops: Ops, near: str, talks: Sequence[Segments], twice: I32) -> tuple[SizeLimit, ...]:
    """The same by the capture of the sender alone, the `near` host: what it sends again was lost but for the last time,
    if that is acknowledged. `twice`: frames of what was sent again and had arrived."""
    way, frames = ("reply", ops.reply_first_frame) if near == "server" else ("call", ops.call_first_frame)
    limits = []
    for talk in talks:
        again = talk.seq[talk.marks & AGAIN != 0]
        if np.unique(again, return_counts=True)[1].max(initial=0) < _TRIES - 1:
            continue  # as nearly always: what follows looks at all segments
        mine = talk.frame[np.isin(talk.frame, frames)]
        if not len(mine):
            continue
        back = int(talk.marks[np.searchsorted(talk.frame, mine[0])] & BACK)
        limits.append(_of_way(way, _sent(talk, back, 0, 0), partial(_fates, talk, back, twice)))
    return tuple(limit for limit in limits if limit is not None)


def _fates(talk: Segments, back: int, twice: I32, sent: _SentSizes) -> I64:
    """Whether each row of `sent` came (1) or not (0), as far as what its host then did and heard tells; else NULL.

    An ACK came if it is the first of some data, and these are not sent again."""
    position, size, acked = sent.keys[:, 0], sent.keys[:, 1], sent.keys[:, 2]
    others = talk.take(np.flatnonzero(talk.marks & BACK != back))
    heard = int(others.ack.max(initial=NULL))
    _, number, times = np.unique(position, return_inverse=True, return_counts=True)
    last = np.zeros(len(times), dtype=np.int64)
    np.maximum.at(last, number, np.arange(len(position)))
    fates = np.where(np.arange(len(position)) < last[number], 0, np.where(position + size <= heard, 1, NULL))
    fates[np.isin(position, talk.seq[np.isin(talk.frame, twice)])] = 1
    repeats = others.take(np.flatnonzero((others.marks & AGAIN != 0) & (others.size > 1)))
    by_seq = np.argsort(repeats.seq, kind="stable")
    again_ns = np.append(NULL, np.maximum.accumulate(repeats.t_ns[by_seq]))
    was_lost = again_ns[np.searchsorted(repeats.seq[by_seq], acked)] > sent.t_ns
    is_first = acked > np.append(NULL, np.maximum.accumulate(acked)[:-1])
    return np.where(size > 0, fates, np.where(is_first, np.where(was_lost, 0, 1), NULL))


def _arrived(there: Segments, back: int, sent: _SentSizes) -> I64:
    """The same by the other capture, `there`."""
    return _came(sent.keys, _sent(there, back, 0, 0).keys).astype(np.int64)


class _Offset(NamedTuple):
    """By how many bytes the client's capture has a direction later than the server's, and its mark in each."""

    bytes: int
    marks_there: int
    marks_here: int


class _SentSizes(NamedTuple):
    """The segments of one direction, in order of capture, in pieces as large as they are in transit."""

    t_ns: I64
    keys: I64  # a row each: position, bytes, what it acknowledges, TSval
    headers: int  # bytes of IPv4 and TCP


def _talk_of(talks: Sequence[Segments], frames: I32) -> I64:
    """In which of the talks the segment of each frame is; -1: none."""
    of_frame = np.full(max(int(frames.max()), *(int(talk.frame[-1]) for talk in talks)) + 1, -1, dtype=np.int64)
    for number, talk in enumerate(talks):
        of_frame[talk.frame] = number
    return np.where(frames >= 0, of_frame[frames], -1)


def _offset(there: Segments, frames_there: I32, here: Segments, frames_here: I32) -> _Offset | None:
    """As most messages have it: a few begin in one segment there and in two here."""
    at_there, at_here = (
        np.minimum(np.searchsorted(talk.frame, frames), len(talk) - 1)
        for talk, frames in ((there, frames_there), (here, frames_here))
    )
    known = (there.frame[at_there] == frames_there) & (here.frame[at_here] == frames_here)
    if not known.any():
        return None
    at_there, at_here = at_there[known], at_here[known]
    offsets, counts = np.unique(here.seq[at_here] - there.seq[at_there], return_counts=True)
    return _Offset(
        int(offsets[counts.argmax()]), int(there.marks[at_there[0]] & BACK), int(here.marks[at_here[0]] & BACK)
    )


def _sent(talk: Segments, back: int, more: int, more_acked: int) -> _SentSizes:
    own = talk.take(np.flatnonzero((talk.marks & (BACK | SYN | RST)) == back))
    size = own.size.astype(np.int64)
    usual = size[(size > _LARGE) & (size <= _JUMBO)]
    unit = int(np.bincount(usual).argmax()) if len(usual) else _JUMBO
    # Offload shows several segments as one.
    pieces = np.where(size > unit, -(-size // unit), 1)
    row = np.repeat(np.arange(len(own)), pieces)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    in_transit = np.where(pieces[row] > 1, np.minimum(unit, size[row] - nth * unit), size[row])
    acked = np.where(own.ack == NULL, NULL, own.ack + more_acked)
    keys = np.stack((own.seq[row] + more + nth * unit, in_transit, acked[row], own.ts_val[row].astype(np.int64)), 1)
    is_stamped = bool(len(own)) and bool((own.ts_val != NULL32).all())
    return _SentSizes(own.t_ns[row], keys, _IP_TCP + _STAMPS * is_stamped)


def _of_way(way: str, sent: _SentSizes, fates_of: Callable[[_SentSizes], I64]) -> SizeLimit | None:
    """The stretch with most losses that size alone explains."""
    positions = sent.keys[sent.keys[:, 1] > 0, 0]
    if np.unique(positions, return_counts=True)[1].max(initial=0) < _TRIES:
        return None  # as nearly always: what follows sorts all segments
    fates = fates_of(sent)
    known, told = np.flatnonzero(fates == 1), np.flatnonzero(fates != NULL)
    if len(known) < _FEWEST_PASSED:
        return None
    # What either capture has more than the other is not lost.
    both = told[(told >= known[0]) & (told <= known[-1])]
    came, position, size, t_ns = fates[both] == 1, sent.keys[both, 0], sent.keys[both, 1], sent.t_ns[both]
    spans = list(_stretches(came, size))
    best = None
    for begin, end in spans:
        lost = ~came[begin:end]
        count, passed = int(lost.sum()), int(came[begin:end].sum())
        if count < _FEWEST_LOST or passed < _FEWEST_PASSED or (best is not None and count <= best.lost):
            continue
        turns = 1 + int(np.count_nonzero(lost[1:] & ~lost[:-1]))
        tries = int(np.unique(position[begin:end][lost], return_counts=True)[1].max())
        chance = len(spans) / math.comb(count + passed, passed)
        if turns < _FEWEST_TURNS or tries < _TRIES or chance > _CHANCE:
            continue
        sizes = size[begin:end]
        best = SizeLimit(
            way,
            count,
            int(sizes[lost].sum()),
            passed,
            int(sizes[lost].min()) + sent.headers,
            int(sizes[~lost].max()) + sent.headers,
            int(t_ns[end - 1] - t_ns[begin]),
            chance,
        )
    if best is None or np.count_nonzero(~came) - best.lost > _MOST_ELSE * len(came):
        return None
    return best


def _came(sent: I64, arrived: I64) -> Bool:
    """Which of the rows of `sent` are in `arrived`; of several that are alike the last ones, as many as came."""
    _, number = np.unique(np.concatenate((sent, arrived)), axis=0, return_inverse=True)
    number = number.reshape(-1)
    of_sent, of_arrived = (
        number[: len(sent)],
        np.bincount(number[len(sent) :], minlength=int(number.max(initial=0)) + 1),
    )
    order = np.argsort(of_sent, kind="stable")
    last = np.searchsorted(of_sent[order], of_sent[order], side="right")
    came = np.zeros(len(sent), dtype=np.bool_)
    came[order] = last - np.arange(len(sent)) <= of_arrived[of_sent[order]]
    return came


def _stretches(came: Bool, size: I64) -> Iterator[tuple[int, int]]:
    """From a loss to the last one behind it up to which all that are lost are larger than all that came."""
    lost = np.flatnonzero(~came).tolist()
    at = 0
    while at < len(lost):
        begin = end = lost[at]
        least, most = int(size[begin]), -1
        for row in range(begin, len(came)):
            if came[row]:
                most = max(most, int(size[row]))
            else:
                least = min(least, int(size[row]))
            if least <= most:
                break
            if not came[row]:
                end = row
        yield begin, end + 1
        at = bisect.bisect_right(lost, end)
