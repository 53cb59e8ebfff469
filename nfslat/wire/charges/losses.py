"""Waits to be sent again, and messages that TCP kept back for a hole in front of them -> claims."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nfslat.model.causes import CHARGES, LOSSES, Cause, code
from nfslat.model.decoded import Decoded
from nfslat.model.details import Again, TcpEvent
from nfslat.model.tables import I8, I64, Bool
from nfslat.wire.charges.claims import Claims, Pair
from nfslat.wire.charges.places import AFTER, place
from nfslat.wire.charges.silences import Silences, arrived_again, segments_of
from nfslat.wire.resends import Waits

_LOSS_CODES = [code(one) for one in CHARGES if one in LOSSES]


def waits_claims(pair: Pair, waits: tuple[Waits, Waits], client: Silences, server: Silences) -> Claims:
    """Within call_net and reply_net, from the last byte to the moment at which what arrived was sent, by what told the
    sender of the loss."""
    claims = []
    for part, of_way, sender in (("call_net", waits[0], client), ("reply_net", waits[1], server)):
        if not len(of_way.row):
            continue
        s, c = pair.matched.rows(of_way.row)
        is_call = part == "call_net"
        ops, rows = (pair.client, c) if is_call else (pair.server, s)
        way = ops.conn[rows].astype(np.int64) * 2 + (ops.direction[rows] if is_call else 1 - ops.direction[rows])
        begin = pair.client.t1[c] if is_call else pair.on_client_ns(of_way.row, pair.server.t3[s])[0]
        cause = np.where(of_way.by_rpc, code(Cause.RPC_RETRANSMIT), _told_by(sender, way, of_way.again_ns))
        claims.append(Claims.of(of_way.row, place(part), cause.astype(np.int8), begin, begin + of_way.ns))
    return Claims.joined(claims)


def _told_by(sender: Silences, way: I64, again_ns: I64) -> I8:
    """What a segment that was sent again at `again_ns` had waited for."""
    of_loss = sender.only(np.isin(sender.cause, _LOSS_CODES))
    order = np.lexsort((of_loss.pauses.end_ns, of_loss.way))
    keys = np.stack([of_loss.way[order], of_loss.pauses.end_ns[order]], axis=1)
    known = {(one, end): row for row, (one, end) in enumerate(keys.tolist())}
    # Rare: one look-up for each message that waited for a loss.
    at = np.array([known.get(key, -1) for key in zip(way.tolist(), again_ns.tolist(), strict=True)], dtype=np.int64)
    causes = np.append(of_loss.cause[order], np.int8(code(Cause.LOSS)))
    return np.asarray(causes[at], dtype=np.int8)


def blocked_claims(pair: Pair, server: Decoded, client: Decoded) -> Claims:
    """Calls in the server's part, replies behind the client's last byte, until the hole in front of them was filled."""
    claims = []
    for is_reply, receiver, sender, name in ((0, server, client, "server"), (1, client, server, "client")):
        blocked = receiver.details.blocked
        of_way = blocked.take(blocked.is_reply == is_reply)
        if not len(of_way):
            continue
        row = pair.places_of(name)[of_way.op]
        of_way, row = of_way.take(row >= 0), row[row >= 0]
        until, ops = of_way.until_ns, receiver.ops
        way = ops.conn[of_way.op].astype(np.int64) * 2 + (ops.direction[of_way.op] ^ is_reply)
        cause = np.where(_only_overtaken(receiver, sender, way, until), code(Cause.REORDERING), code(Cause.BEHIND_LOSS))
        if is_reply:
            begin, part = ops.t3[of_way.op], place(AFTER)
        else:
            begin, until = pair.on_client_ns(row, ops.t1[of_way.op], until)
            part = place("server")
        claims.append(Claims.of(row, part, cause.astype(np.int8), begin, until))
    return Claims.joined(claims)


def _only_overtaken(receiver: Decoded, sender: Decoded, way: I64, until_ns: I64) -> Bool:
    """Was the hole that was filled at `until_ns` filled by bytes of which nothing was lost?

    The sender's capture shows them once; or what was sent again came as well, whichever copy was the first. By the
    sequence numbers, which both captures share; where they are rewritten, or events are missing, it was lost.
    """
    if receiver.details.events_dropped or sender.details.events_dropped:
        return np.zeros(len(way), dtype=np.bool_)
    filled_way, filled_ns, filled, _ = segments_of(receiver, TcpEvent.OUT_OF_ORDER)
    # Sent again is what the sender's capture shows twice; late there, it was lost in front of the capture.
    sent = Counter([*arrived_again(sender).tolist(), *segments_of(sender, TcpEvent.OUT_OF_ORDER).number.tolist()])
    lost = sent - Counter(arrived_again(receiver).tolist())
    fillers: dict[tuple[int, int], list[int]] = {}
    for one, t_ns, seq in zip(filled_way.tolist(), filled_ns.tolist(), filled.tolist(), strict=True):
        fillers.setdefault((one, t_ns), []).append(seq)
    out = []
    for key in zip(way.tolist(), until_ns.tolist(), strict=True):
        numbers = fillers.get(key)
        out.append(numbers is not None and not any(number in lost for number in numbers))
    return np.array(out, dtype=np.bool_)


def overtaken_claims(
    pair: Pair, server: Decoded, client: Decoded, waits: tuple[Waits, Waits], half_trips_ns: I64
) -> Claims:
    """Messages that were complete only when bytes of them came that others had overtaken: what they were late by."""
    claims = []
    for is_reply, receiver, sender, part in ((0, server, client, "call_net"), (1, client, server, "reply_net")):
        names = ("client", "server") if is_reply else ("server", "client")
        late = _touched(pair, names[0], receiver, is_reply, (Again.LATE,))
        again = (
            _touched(pair, names[0], receiver, is_reply, (Again.REPEATED,)),
            _touched(pair, names[1], sender, is_reply, tuple(Again)),
            waits[is_reply].row[~waits[is_reply].by_rpc],
        )
        row = np.setdiff1d(late, np.concatenate(again))
        if len(row):
            edges = pair.edges_ns(row)
            begin, end = (edges[4], edges[5]) if is_reply else (edges[1], edges[2])
            claims.append(Claims.of(row, place(part), code(Cause.REORDERING), begin + half_trips_ns[row], end))
    return Claims.joined(claims)


def _touched(pair: Pair, name: str, side: Decoded, is_reply: int, kinds: tuple[Again, ...]) -> I64:
    """Matched ops of which `side`, named `name`, shows bytes again, or late."""
    resent = side.details.resent
    if not len(resent):
        return np.zeros(0, dtype=np.int64)
    ops = resent.op[(resent.is_reply == is_reply) & np.isin(resent.kind, kinds)]
    row = pair.places_of(name)[ops] if len(ops) else np.zeros(0, dtype=np.int64)
    return np.unique(row[row >= 0])
