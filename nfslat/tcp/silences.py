"""One side's packets -> every silence of that sender, as it saw it, and what each of them waited for.

The same columns as the decoder's `Pauses`, with no lower bound but `LEAST_NS`; so one classifier serves both. A capture
at the receiver's end, or on the way, is put into the sender's view first: what came from the receiver is taken for as
much later as the way to the sender and back takes at the least. Where its time goes back it stands still here.

This is the one place that says what a sender waited for: turns, round trips and limits all count from it.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.causes import CAUSES, LOSS_STALLS, Cause, code
from nfslat.model.details import Ended, Pauses, Went
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import I8, I32, I64, Bool
from nfslat.tcp.delayed import by_timer
from nfslat.tcp.floors import Floors
from nfslat.tcp.packets import PSH, AckKind, Kind, Packets
from nfslat.tcp.stream import Stream
from nfslat.wire.stalls import DELAYED_ACK_NS, RTO_MIN_NS, awaited, classify, silence_ns
from nfslat.wire.window_scales import with_windows

LEAST_NS = 100_000  # a shorter one is the pace of a sender that has not stopped: no host answers an ACK much faster
_FAR_NS = 100_000  # to the sender and back: below this the capture is at its end
_JITTER = 4  # the way to the sender and back may take longer than the shortest one by this part of it
_WENT = np.full(len(Kind), Went.NEW, dtype=np.int8)
_WENT[Kind.RETRANSMISSION] = Went.REPEATED
_WENT[Kind.OUT_OF_ORDER] = Went.LATE
_WENT[[Kind.KEEP_ALIVE, Kind.ZERO_WINDOW_PROBE]] = Went.PROBE
_ENDED = np.full(len(AckKind), Ended.NOTHING, dtype=np.int8)
_ENDED[AckKind.ADVANCES] = Ended.ACK
_ENDED[AckKind.DUPLICATE] = Ended.DUPLICATE
_ENDED[AckKind.WINDOW_UPDATE] = Ended.WINDOW
_NONE = np.iinfo(np.int64).max
_FOR_ACK = (code(Cause.CONGESTION_WINDOW), code(Cause.UNKNOWN_WINDOW))


class Silences(Record, eq=False):
    """Silences of one direction, in order; rows are those of `Talk.packets`, NULL where there is none."""

    pauses: Pauses
    heard: I64  # row of the last packet of the other side in between
    causes: I8  # `causes.code`
    held_ns: I64  # for how long the receiver kept the ACK to itself, of a delayed one; else 0
    data: I64  # rows of all packets with payload, in order of sending, those that end no silence included
    data_ns: I64  # when they were sent, never going back
    at: I64  # places in `data` of the packets that end a silence; the one before each began it


class _View(Record, eq=False):
    """What the sender had heard when: columns of `Stream.rows` (by `heard`) and of `Stream.said`."""

    stream: Stream
    data_ns: I64
    said_ns: I64
    heard: I64  # how many of `Stream.said` it had heard when it sent each of `Stream.rows`


def silences(one: Stream, floors: Floors, mss: int | None, needless: I64) -> Silences:
    """All silences of `LEAST_NS` or more of one sender, and those that did not end with new data. `mss`: a full
    segment's bytes, None where that is not known; `needless`: rows of what was sent again though it had arrived."""
    packets = one.packets
    far_ns = floors.shift_ns(one.direction)
    view = _as_sent(one, far_ns)
    kinds = packets.kind[one.rows]
    silent = np.diff(view.data_ns, prepend=view.data_ns[:1]) >= LEAST_NS
    silent |= _WENT[kinds] != Went.NEW
    silent[:1] = False
    at = np.flatnonzero(silent)
    limit = NULL if mss is None else mss
    pauses, heard = _columns(view, at, limit)
    pauses = with_windows(pauses)
    causes = classify(
        pauses, rtt_min_ns=floors.whole_ns, mss=limit, sender_rtt_ns=0, jitter_ns=_jitter_ns(pauses, far_ns)
    )
    causes[_had_room(pauses, causes)] = code(Cause.SENDER)
    causes[_had_no_window(pauses, causes, limit)] = code(Cause.RECEIVE_WINDOW)
    if far_ns > _FAR_NS or (floors.far_ns(one.direction) == NULL and floors.near_ns(one.direction) <= _FAR_NS):
        ended = _flight_ended(pauses, causes)
        causes[ended] = awaited(pauses)[ended]
    # What is missing in front of a packet was sent meanwhile: that the sender was silent is not known, unless it had
    # more to send, and its timer has not gone off.
    ahead = kinds[at] == Kind.AHEAD
    on = ahead & (pauses.in_message != 0) & (silence_ns(pauses) < RTO_MIN_NS)
    causes[ahead] = code(Cause.UNKNOWN)
    causes[on] = code(Cause.OVERTAKEN)
    causes[(pauses.went == Went.LATE) & _was_sent_earlier(one)[at]] = code(Cause.OVERTAKEN)
    causes[np.isin(one.rows[at], needless)] = code(Cause.SPURIOUS)
    delayed = np.flatnonzero(causes == code(Cause.DELAYED_ACK))
    away = far_ns + max(floors.near_ns(one.direction), 0)
    held = np.clip(pauses.heard_ns[delayed] - pauses.begin_ns[delayed] - away, 0, silence_ns(pauses)[delayed])
    is_timed = by_timer(held)
    causes[delayed[~is_timed]] = awaited(pauses)[delayed[~is_timed]]
    kept = np.zeros(len(at), dtype=np.int64)
    kept[delayed[is_timed]] = held[is_timed]
    return Silences(pauses, heard, causes, kept, one.rows, view.data_ns, at)


def _as_sent(one: Stream, far_ns: int) -> _View:
    """The sender's view: what it heard came `far_ns` later than it passed the capture."""
    t_ns = one.packets.t_ns
    data_ns, said_ns = np.maximum.accumulate(t_ns[one.rows]), np.maximum.accumulate(t_ns[one.said])
    if far_ns <= _FAR_NS:
        return _View(one, data_ns, said_ns, one.heard)
    said_ns = said_ns + far_ns
    return _View(one, data_ns, said_ns, np.searchsorted(said_ns, data_ns, side="right"))


def _columns(view: _View, at: I64, mss: int) -> tuple[Pauses, I64]:
    """`Pauses` for the silences in front of the packets `at`, and the row of what was heard last in each."""
    one, packets = view.stream, view.stream.packets
    now, before = one.rows[at], one.rows[at - 1]
    begin_ns, end_ns = view.data_ns[at - 1], view.data_ns[at]
    # Places in `said`: the last one heard when the silence began, and when it ended; -1 is nothing at all.
    first, last = view.heard[at - 1] - 1, view.heard[at] - 1
    hears = last > first
    # Nothing is sent in between.
    high = one.high[at - 1]
    covered = np.append(np.maximum(one.covered, 0), 0)
    acked, acked_end = _acked(covered, first, high), _acked(covered, last, high)
    edge = _edge(one)
    window, window_end = _room(edge, first, acked), _room(edge, last, acked_end)
    if one.talk.level is not None:
        # Other subflows take of the window, too, until the next one is heard.
        left = one.talk.level.room(one.direction, before, np.where(hears, np.append(one.said, NULL)[last], before))
        window = np.where(left == NULL, window, high - acked + left)
    duplicate = _is_duplicate(packets, one.said)
    ended = np.where(packets.size[one.said] > 0, np.int8(Ended.DATA), _ENDED[packets.ack_kind[one.said]])
    ended[duplicate & (packets.size[one.said] == 0)] = Ended.DUPLICATE
    ended = np.append(ended, np.int8(Ended.NOTHING))
    size = packets.size[now]
    repeats = _WENT[packets.kind[now]] == Went.REPEATED
    pauses = Pauses(
        conn=np.zeros(len(at), dtype=np.int32),
        reconnect=np.zeros(len(at), dtype=np.int32),
        direction=np.full(len(at), one.direction, dtype=np.int8),
        frame=packets.frame[now],
        begin_ns=begin_ns,
        end_ns=end_ns,
        heard_ns=np.where(hears, np.append(view.said_ns, NULL)[last], NULL),
        ended=np.where(hears, ended[last], np.int8(Ended.NOTHING)),
        went=_WENT[packets.kind[now]],
        in_message=_in_write(one, mss)[at - 1],
        offset=packets.seq[now],
        size=size,
        size_before=packets.size[before],
        under_way=high - acked,
        under_way_end=high - acked_end,
        announced=_announced(one, first),
        window=window,
        window_least=_least_room(covered, edge, first, last, high, window),
        window_end=window_end,
        duplicate_acks=_duplicates(packets, one.said, duplicate)[last],
        is_tail=(repeats & (packets.seq[now] + size >= high)).astype(np.int8),
        sent_ns=_sent_before(view, at),
    )
    return pauses, np.where(hears, np.append(one.said, NULL)[last], NULL)


def _announced(one: Stream, last: I64) -> I64:
    """The window in the header of what was heard last; NULL: nothing, or a SYN, or one that counts elsewhere."""
    window = np.append(np.where(one.is_syn | (one.talk.level is not None), NULL, one.window), NULL)
    return np.asarray(window[last], dtype=np.int64)


def _acked(covered: I64, last: I64, high: I64) -> I64:
    """Behind the highest byte that the sender knew of as acknowledged; none beyond what it is known to have sent."""
    return np.asarray(np.minimum(covered[last], high))


def _edge(one: Stream) -> I64:
    """With each of `said`, where its window ends; NULL where nobody knows. A last row stands for nothing at all."""
    shift = one.talk.conversation.shift(1 - one.direction)
    edge = one.edges(shift)
    # A closed window is closed whatever the scale.
    is_closed = one.is_shut & one.is_current & ~one.is_syn
    edge = np.where(edge != NULL, edge, np.where(is_closed, one.covered, _NONE))
    return np.append(edge, _NONE)


def _room(edge: I64, last: I64, acked: I64) -> I64:
    """What the receiver takes from the highest acknowledged byte on; NULL where nobody knows."""
    reach = edge[last]
    return np.where(reach == _NONE, NULL, np.maximum(reach - acked, 0))


def _least_room(covered: I64, edge: I64, first: I64, last: I64, high: I64, window: I64) -> I64:
    """The least room from the last one heard in front of each silence up to the last one in it."""
    none = np.where(window == NULL, _NONE, window)
    some = np.flatnonzero(last > first)
    if not len(some):
        return window
    # What was heard while nothing was sent: with the same bytes under way all along.
    many = last[some] - first[some]
    owner = np.repeat(some, many)
    ends = np.cumsum(many)
    heard = np.arange(int(ends[-1])) + np.repeat(first[some] + 1 - (ends - many), many)
    room = _room(edge, heard, _acked(covered, heard, high[owner]))
    room[room == NULL] = _NONE
    none[some] = np.minimum(none[some], np.minimum.reduceat(room, ends - many))
    return np.where(none == _NONE, NULL, none)


def _in_write(one: Stream, mss: int) -> I8:
    """At each packet, had the sender more to send? 1: yes; 0: no; NULL: it does not show.

    It sets PSH where a write ends, or its buffer is empty (RFC 9293 section 3.9.1). But Linux sets it on each packet of
    several segments (tcp_output.c, __tcp_transmit_skb), and where a write ends with more behind it: on full segments it
    says nothing. What is not full, and pushed, was all there was. What is sent again may be cut elsewhere.
    """
    packets, rows = one.packets, one.rows
    size = packets.size[rows]
    shows = np.where(packets.flags[rows] & PSH == 0, np.int8(1), np.int8(0))
    if mss != NULL:
        shows[(shows == 0) & (size % mss == 0)] = NULL
    highest = (packets.seq[rows] + size == one.high) & (packets.kind[rows] != Kind.RETRANSMISSION)
    if highest.all():
        return shows
    last = np.maximum.accumulate(np.where(highest, np.arange(len(rows)), NULL))
    return np.where(last == NULL, np.int8(NULL), shows[last])


def _is_duplicate(packets: Packets, said: I64) -> Bool:
    """ACKs that tell of a hole: duplicates, and those with SACK blocks whatever their window (RFC 6675 section 2)."""
    kinds = packets.ack_kind[said]
    sacked = packets.sacks[said] > packets.is_dsack[said]
    return np.asarray((kinds == AckKind.DUPLICATE) | ((kinds == AckKind.WINDOW_UPDATE) & sacked))


def _duplicates(packets: Packets, said: I64, duplicate: Bool) -> I32:
    """With each of `said`, the duplicate ACKs since one covered more; a last row stands for nothing at all."""
    if not duplicate.any():
        return np.zeros(len(said) + 1, dtype=np.int32)
    total = np.cumsum(duplicate)
    covered = packets.ack_kind[said] == AckKind.ADVANCES
    return np.append(total - np.maximum.accumulate(np.where(covered, total, 0)), 0).astype(np.int32)


def _sent_before(view: _View, at: I64) -> I64:
    """When the first byte of each repeat was sent last; NULL for what is new, or late."""
    packets, data = view.stream.packets, view.stream.rows
    out = np.full(len(at), NULL, dtype=np.int64)
    kinds = packets.kind[data]
    repeats = np.flatnonzero(kinds[at] == Kind.RETRANSMISSION)
    if not len(repeats):
        return out
    fresh = np.flatnonzero((kinds == Kind.NEW) | (kinds == Kind.AHEAD))
    seq = packets.seq[data[at[repeats]]]
    first = np.searchsorted(packets.seq[data[fresh]] + packets.size[data[fresh]], seq, side="right")
    known = first < len(fresh)
    out[repeats[known]] = view.data_ns[fresh[first[known]]]
    # What was repeated before counts from then.
    order = np.lexsort((repeats, seq))
    same = np.flatnonzero(np.diff(seq[order]) == 0)
    out[repeats[order[same + 1]]] = view.data_ns[at[repeats[order[same]]]]
    return out


def _was_sent_earlier(one: Stream) -> Bool:
    """Which packets have an older timestamp than one in front of them? What is sent again has a new one (RFC 7323)."""
    stamp = one.packets.ts_val[one.rows]
    if not len(stamp) or (stamp == NULL32).any():
        return np.zeros(len(stamp), dtype=np.bool_)
    since = (stamp - stamp[0]).astype(np.int32)  # wraps as it does
    return np.asarray(since < np.maximum.accumulate(since))


def _had_room(pauses: Pauses, causes: I8) -> Bool:
    """Which silences that an ACK ended were no wait for the congestion window?

    It had room for as much as was under way since the last loss. Who has less under way, had sent all that there was,
    and goes on when an ACK comes was held by something else: its application had written nothing.
    """
    if not len(pauses):
        return np.zeros(0, dtype=np.bool_)
    less = _most_before(pauses.under_way, causes) > pauses.under_way
    return np.asarray(np.isin(causes, _FOR_ACK) & (pauses.in_message == 0) & less)


def _had_no_window(pauses: Pauses, causes: I8, mss: int) -> Bool:
    """Which silences of a sender that had more to send, and waited for nothing else, began with a full window?"""
    segment = pauses.size if mss == NULL else np.minimum(pauses.size, mss)
    is_full = (pauses.window != NULL) & (pauses.under_way + segment > pauses.window)
    return np.asarray((causes == code(Cause.SENDER)) & (pauses.in_message != 0) & is_full)


def _jitter_ns(pauses: Pauses, far_ns: int) -> I64:
    """How much longer than the shortest one the way to the sender and back may be, seen from the far end.

    Where a sender with nothing more to send goes on some time after an ACK, that is chance as a rule; not where the ACK
    was held back: few senders wait so long, and again and again just for that.
    """
    held = (pauses.heard_ns != NULL) & (pauses.heard_ns - pauses.begin_ns >= DELAYED_ACK_NS[0] + far_ns)
    return np.where((pauses.in_message != 0) | held, far_ns // _JITTER, 0)


def _flight_ended(pauses: Pauses, causes: I8) -> Bool:
    """Far from the sender: which silences behind a full segment are those between a flight and the next one?

    All was acknowledged, by the shortest way; with what queues there, the ACK that lets the sender go on takes longer.
    It has not sent all that there was; and what is longer than a retransmission timeout is no round trip.
    """
    return np.asarray(
        (causes == code(Cause.SENDER))
        & (pauses.in_message != 0)
        & (pauses.ended == Ended.ACK)
        & (pauses.under_way_end == 0)
        & (silence_ns(pauses) < RTO_MIN_NS)
    )


def _most_before(under_way: I64, causes: I8) -> I64:
    """The most that was under way in front of each silence, from the last loss on."""
    lost = np.zeros(len(CAUSES), dtype=np.bool_)
    lost[[code(cause) for cause in (*LOSS_STALLS, Cause.SPURIOUS)]] = True
    era = np.cumsum(lost[causes])
    # A running maximum that begins anew with each era: eras are lifted above all before them.
    lift = int(under_way.max(initial=0)) + 1
    most = np.maximum.accumulate(under_way + era * lift) - era * lift
    return np.concatenate(([0], np.where(np.diff(era) > 0, 0, most[:-1])))
