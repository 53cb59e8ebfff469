"""A decoded capture, and what was inferred of the other host -> what a capture there would have been decoded to, as far
as that is known; and its ops matched with those of the first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import structs

from nfslat.kernels.join import Several
from nfslat.match.connections import Links
from nfslat.match.match import Matching
from nfslat.model.decoded import Decoded
from nfslat.model.details import Blocked, Details, Hangs, Pauses, TcpEvent, TcpEvents, Unread
from nfslat.model.protocol import NULL
from nfslat.model.segments import AGAIN, BACK, TWICE, Segments
from nfslat.model.tables import I32, I64, Loose, Matched, Miss, Ops, State, Table, Unmatched
from nfslat.peer.infer import Found

TableT = TypeVar("TableT", bound=Table)

_NO_FRAMES = np.zeros(0, dtype=np.int32)
_SOON_NS = 500_000_000  # a round trip, the longest, in which the receiver is heard and does not know of it yet
_LATE_NS = 100_000_000  # that a host which runs does not wait with a D-SACK, which no timer delays (RFC 2883) ...
_LATE_FACTOR = 3  # ... nor for so many times as long as nine of ten segments wait for their ACK
_USUAL = 0.9  # of the segments


def dated_frames(near: Decoded) -> I32:
    """Frames whose departures `decoded_of` asks for."""
    loose, details = near.loose, near.details
    return np.concatenate([loose.first_frame, loose.last_frame, details.resent.frame, details.events.frame])


def came_twice(talks: Sequence[Segments]) -> I32:
    """Frames of segments that were sent again and of which their receiver says that it had them already (D-SACK, RFC
    2883): of each such ACK the last one that it covers, and since which the receiver has not been heard for long.

    Bytes that were sent again more often than they came twice were lost once. Where no ACK without that word covers
    them, the first one's ACK was lost, unless the word comes so late that what was sent again waited, too: then all was
    taken at once."""
    frames = [_NO_FRAMES]
    for talk in talks:
        tells = np.flatnonzero(talk.marks & TWICE)
        again = np.flatnonzero((talk.marks & AGAIN != 0) & (talk.size > 1)) if len(tells) else tells
        if not len(again):
            continue
        back, end = talk.marks & BACK, talk.seq[again] + talk.size[again]
        heard_ns = np.full(len(again), np.iinfo(np.int64).max)
        acked = np.full(len(talk), NULL)  # by plain ACKs of the same end in front of each segment
        late_ns = np.zeros(len(again), dtype=np.int64)
        for way in (0, BACK):
            of_other = np.flatnonzero(back != way)
            mine = back[again] == way
            plain = np.where(talk.marks[of_other] & TWICE, NULL, talk.ack[of_other])
            acked[of_other[1:]] = np.maximum.accumulate(plain)[:-1]
            at = np.searchsorted(of_other, again[mine])
            heard_ns[mine] = np.append(talk.t_ns[of_other], heard_ns.max(initial=0))[at]
            late_ns[mine] = _late_ns(talk, of_other, talk.seq[again[mine]])
        of_none = np.ones(len(again), dtype=np.bool_)
        for row in tells.tolist():  # as rare as what is sent again
            is_known = (end <= acked[row]) | ((end <= talk.ack[row]) & (talk.t_ns[row] - talk.t_ns[again] > late_ns))
            can = of_none & (back[again] != back[row]) & is_known & (again < row)
            which = np.flatnonzero(can & (talk.t_ns[row] - heard_ns <= _SOON_NS))
            of_none[which[-1:]] = False
        _, bytes_of = np.unique(np.stack([back[again], talk.seq[again]]), axis=1, return_inverse=True)
        was_lost = np.isin(bytes_of, bytes_of[of_none])
        frames.append(talk.frame[again[~was_lost]])
    return np.unique(np.concatenate(frames))


def _late_ns(talk: Segments, acks: I64, again: I64) -> int:
    """From when on a D-SACK among `acks` is late, by the time that segments wait for their ACK, but for those `again`,
    of which it is not known which copy an ACK is of (Karn and Partridge 1987); where there are no others, never."""
    data = np.flatnonzero((talk.size > 1) & ~np.isin(talk.seq, again))
    data = data[~np.isin(data, acks)]
    by = np.searchsorted(np.maximum.accumulate(talk.ack[acks]), talk.seq[data] + talk.size[data])
    data, by = data[by < len(acks)], by[by < len(acks)]
    if not len(data):
        return int(np.iinfo(np.int64).max)
    return max(_LATE_NS, int(_LATE_FACTOR * np.quantile(talk.t_ns[acks[by]] - talk.t_ns[data], _USUAL)))


def decoded_of(near: Decoded, found: Found, twice: I64, again: I32 = _NO_FRAMES) -> Decoded:
    """Rows are those of `near`. What only a capture there could show (pauses of its TCP, packets that were lost on the
    way) is not in it. The reply of ops in `twice` was sent a second time; `again`: frames of what came there twice."""
    ops = dataclasses.replace(found.ops, transmissions=np.ones(len(found.ops), dtype=np.int16))
    loose = found.there(near.loose.take(near.loose.op == NULL))
    if len(twice):
        loose = _joined(loose, _replies(near.ops, twice, found.inferred.round_trip_ns // 2))
    return structs.replace(
        near,
        ops=ops,
        loose=loose,
        repeats={},
        hidden=0,
        malformed=0,
        interface_drops=0,
        lost_ranges=0,
        lost_bytes=0,
        directions=None,
        details=_details(near.details, found, again),
    )


def _replies(ops: Ops, rows: I64, half_ns: int) -> Loose:
    """The replies of these ops as messages of their own, as they were sent by the shortest way."""
    return Loose(
        conn=ops.conn[rows],
        direction=ops.direction[rows] ^ 1,
        is_reply=np.ones(len(rows), dtype=np.int8),
        xid=ops.xid[rows],
        kind=np.full(len(rows), NULL, dtype=np.int16),
        state=np.full(len(rows), State.RETRANSMITTED, dtype=np.int8),
        op=rows.astype(np.int32),
        first_frame=ops.reply_first_frame[rows],
        last_frame=ops.reply_last_frame[rows],
        first_ns=ops.t2[rows] - half_ns,
        last_ns=ops.t3[rows] - half_ns,
        kinds=ops.kinds,
        connections=ops.connections,
    )


def _joined(one: TableT, other: TableT) -> TableT:
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in one.columns()
    }
    return dataclasses.replace(one, **columns)


def matched_one_to_one(ops: Ops, found: Found, ran: tuple[int, int]) -> Matching:
    """Each op whose instants were inferred with itself."""
    rows = np.flatnonzero(found.known).astype(np.int32)
    fates = np.where(found.known, Miss.MATCHED, Miss.CONNECTION_UNMATCHED).astype(np.int8)
    links = np.arange(len(ops.connections), dtype=np.int32)
    none = np.zeros(0, dtype=np.int64)
    return Matching(
        Matched(rows, rows.copy()),
        Unmatched(fates, fates.copy()),
        Links(links, links.copy()),
        Several(none, none, none, none),
        none,
        (ran, ran),
    )


def _details(near: Details, found: Found, again: I32) -> Details:
    """What came late, or twice, the other host had sent once more; its clock says when. What it has had twice, it says
    by D-SACK."""
    of_far = near.resent.is_reply == (1 if found.inferred.side == "server" else 0)
    resent = near.resent.take(of_far)
    sent_ns = found.left_ns(resent.frame)
    resent = dataclasses.replace(resent, t_ns=sent_ns, kind=np.zeros(len(resent), dtype=np.int8)).take(sent_ns != NULL)
    resent = _joined(resent, near.resent.take(~of_far & np.isin(near.resent.frame, again)))
    resent = resent.take(np.lexsort((resent.frame, resent.op)))
    # Round trips are those of the capture's own place.
    tcp = dataclasses.replace(near.tcp, rtt_count=np.zeros(len(near.tcp), dtype=np.int64))
    return structs.replace(
        near,
        tcp=tcp,
        resent=resent,
        events=_sent_again(near.events, found, again),
        pauses=Pauses.empty(),
        blocked=Blocked.empty(),
        unread=Unread.empty(),
        hangs=Hangs.empty(),
    )


def _sent_again(events: TcpEvents, found: Found, again: I32) -> TcpEvents:
    """Segments of the other host that came although they had come before, as it sent them; those that came to it."""
    events = events.take(events.kind == TcpEvent.RETRANSMISSION)
    sent_ns = found.left_ns(events.frame)
    came = (sent_ns == NULL) & np.isin(events.frame, again)
    at_ns = np.where(came, events.t_ns + found.inferred.round_trip_ns // 2, sent_ns)
    return dataclasses.replace(events, t_ns=at_ns).take(came | (sent_ns != NULL))
