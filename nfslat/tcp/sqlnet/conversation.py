"""A conversation -> what SQL*Net agreed on in it, how full its SDUs are, when it connected and when it worked."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nfslat.evidence.sqlnet_trace import SqlnetTrace
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.model.units import to_ms
from nfslat.tcp.packets import SYN, Talk
from nfslat.tcp.sqlnet.tns import (
    HEADER,
    LONG_LENGTHS,
    Accept,
    Connect,
    Headers,
    Type,
    accepted,
    connects,
    has_new_data,
    headers,
    is_tns,
    turned_away,
)

# What Oracle advises to leave free in an SDU (Net Services Administrator's Guide, Configuring Session Data Unit); a
# packet that leaves no more is full. 8156 bytes are seen where 8192 were agreed on.
NEARLY = 70


_MOST_SIZES = 8
# What a client sends until it is logged on (packet-tns.c): the negotiation of services, of protocol and data types,
# both in one with the first call of the logon (23ai), and the calls OSESSKEY and OAUTH themselves.
_NEGOTIATION = (b"\xde\xad\xbe\xef", b"\x01", b"\x02", b"\x22")
_LOGON = (b"\x03\x76", b"\x03\x73")
_FUNCTION_AT = HEADER + 2  # behind the data flags


class Size(Record):
    """A length of data packets, header included."""

    bytes: int
    count: int


class Sent(Record):
    """TNS packets of one side: those that begin a TCP packet, the others cannot be seen. Bytes without repetitions."""

    packets: int
    types: dict[str, int]  # name of `Type` -> packets; they sum to `packets`
    data_bytes: int  # of data packets, headers included
    largest_bytes: int | None  # of a data packet; None: there is none
    full: int | None  # data packets that leave at most `NEARLY` bytes of the SDU free; None: no SDU known
    sizes: tuple[Size, ...]  # the most frequent ones of data packets, first the most frequent
    seen_bytes: int  # of the stream, in packets whose header was seen
    unseen_bytes: int  # of the stream, the others; they sum to all of it


class Turns(Record):
    """Requests and answers by changes of direction; times sum exactly to the whole of it."""

    count: int
    waited_ms: float  # from the first byte of a request to the last one of its answer
    between_ms: float  # the client had its answer and sent no request


class Phases(Record):
    """Connect time and query time: those that are known sum to the time from the SYN (without: from the accept packet,
    without that: from the first data) to the last data."""

    connect_ms: float | None  # from the SYN to the accept packet; None: one of them was not captured
    logon_ms: float | None  # from there to the answer to the last logon call; None: not told apart, in the query time
    query_ms: float
    turns: Turns  # of the query time


class Sqlnet(Record):
    """A SQL*Net connection."""

    client: str | None  # address:port; None: neither a handshake nor a connect packet tells
    connects: int  # connect packets: more than one after a resend
    connect: Connect | None  # the last one; None: not captured
    accept: Accept | None
    refused: int | None  # ORA or TNS number; 0: refused without one
    redirected_to: str | None  # host:port
    sdu_bytes: int | None  # in effect; None: neither connect nor accept packet
    sdu_limited_by: str | None  # "client", "server"; None: not known
    sdu_at_least: int | None  # by the largest data packet, where no SDU is known
    long_lengths: bool  # 4 bytes
    from_client: Sent
    from_server: Sent
    phases: Phases


class Matched(Record):
    """TNS packets by their lengths, one by one."""

    both: int
    only_trace: int
    only_packets: int


class Compared(Record):
    """A SQL*Net trace beside the packets."""

    side: str | None  # whose trace it is: "client", "server"; None: the lengths fit both alike
    trace_sdu_bytes: int | None
    packets_sdu_bytes: int | None
    sent: Matched  # by the side of the trace
    received: Matched


def find(talk: Talk) -> Sqlnet | None:
    """What is known of SQL*Net in a conversation; None where it is something else, or encrypted below TNS."""
    asking = [connects(talk, direction) for direction in (0, 1)]
    accepts = [accepted(talk, direction) for direction in (0, 1)]
    asked = asking[0] or asking[1]
    accept = accepts[0] or accepts[1]
    found = [headers(talk.packets, direction, accept) for direction in (0, 1)]
    if not (asked or accept) and not is_tns(found):
        return None
    client = _client(talk, asking, accepts)
    connect = asked[-1] if asked else None
    sdu, by = _agreed(connect, accept)
    sent = [_sent(one, sdu) for one in found]
    seen = [one.largest_bytes for one in sent if one.largest_bytes is not None]
    at = client or 0
    refused, redirected = turned_away(talk, 1 - at)
    return Sqlnet(
        client=None if client is None else _name(talk, client),
        connects=len(asked),
        connect=connect,
        accept=accept,
        refused=refused,
        redirected_to=redirected,
        sdu_bytes=sdu,
        sdu_limited_by=by,
        sdu_at_least=max(seen) if sdu is None and seen else None,
        long_lengths=bool(accept and accept.version >= LONG_LENGTHS),
        from_client=sent[at],
        from_server=sent[1 - at],
        phases=_phases(talk, at, found),
    )


def compare(talk: Talk, found: Sqlnet, trace: SqlnetTrace) -> Compared:
    """Hold a trace of one of the two hosts against the packets: lengths tell whose it is."""
    accept = accepted(talk, 0) or accepted(talk, 1)
    client = 0 if found.client is None or found.client == _name(talk, 0) else 1
    by_client, by_server = (_lengths(headers(talk.packets, at, accept)) for at in (client, 1 - client))
    sent, received = trace.sent, trace.received
    as_client = (sent & by_client).total() + (received & by_server).total()
    as_server = (sent & by_server).total() + (received & by_client).total()
    side = None if as_client == as_server else "client" if as_client > as_server else "server"
    mine, others = (by_server, by_client) if side == "server" else (by_client, by_server)
    return Compared(
        side=side,
        trace_sdu_bytes=trace.sdu_bytes,
        packets_sdu_bytes=found.sdu_bytes,
        sent=_matched(sent, mine),
        received=_matched(received, others),
    )


def _lengths(found: Headers) -> Counter[int]:
    lengths, counts = np.unique(found.length, return_counts=True)
    return Counter(dict(zip(lengths.tolist(), counts.tolist(), strict=True)))


def _matched(trace: Counter[int], packets: Counter[int]) -> Matched:
    return Matched((trace & packets).total(), (trace - packets).total(), (packets - trace).total())


def _name(talk: Talk, direction: int) -> str:
    host, port = talk.conversation.ends.source(direction)
    return f"{host}:{port}"


def _agreed(connect: Connect | None, accept: Accept | None) -> tuple[int | None, str | None]:
    """The smaller side wins; an SDU can fill no more than a TDU."""
    if accept is None:
        return None, None
    granted = min(accept.sdu_bytes, accept.tdu_bytes or accept.sdu_bytes)
    if connect is None:
        return granted, None
    return min(granted, connect.sdu_bytes), "server" if granted < connect.sdu_bytes else "client"


def _client(talk: Talk, asking: list[list[Connect]], accepts: list[Accept | None]) -> int | None:
    for direction in (0, 1):
        if asking[direction] or accepts[1 - direction]:
            return direction
    return 0 if talk.conversation.ways[0].saw_syn else None


def _sent(found: Headers, sdu: int | None) -> Sent:
    lengths = found.length[found.type == Type.DATA]
    values, counts = np.unique(lengths, return_counts=True)
    often = np.lexsort((-values, -counts))[:_MOST_SIZES]
    names = {int(kind): kind.name.lower() for kind in Type}
    kinds, each = np.unique(found.type, return_counts=True)
    pairs = zip(kinds.tolist(), each.tolist(), strict=True)
    return Sent(
        packets=len(found.at),
        types={names.get(kind, f"type_{kind}"): count for kind, count in pairs},
        data_bytes=int(lengths.sum()),
        largest_bytes=int(lengths.max()) if len(lengths) else None,
        full=None if sdu is None else int(np.count_nonzero(lengths >= sdu - NEARLY)),
        sizes=tuple(Size(int(values[i]), int(counts[i])) for i in often),
        seen_bytes=found.seen_bytes,
        unseen_bytes=found.stream_bytes - found.seen_bytes,
    )


# Time


def _phases(talk: Talk, client: int, found: list[Headers]) -> Phases:
    packets = talk.packets
    data = np.flatnonzero(has_new_data(packets))
    syn = np.flatnonzero((packets.flags & SYN) != 0)
    if not len(data):
        return Phases(None, None, 0.0, Turns(0, 0.0, 0.0))
    t_ns, from_client = packets.t_ns[data], packets.direction[data] == client
    begin, connected, last = int(t_ns[0]), None, int(t_ns[-1])
    accept = found[1 - client].rows[found[1 - client].type == Type.ACCEPT]
    if len(accept):
        if len(syn):
            connected = int(packets.t_ns[accept[0]]) - int(packets.t_ns[syn[0]])
        begin = int(packets.t_ns[accept[0]])
    behind = data > accept[0] if len(accept) else np.ones(len(data), bool)
    logged_on = _logged_on(talk, client, found) if len(accept) else None
    logon = None
    if logged_on is not None:
        # The answer to the last call of the logon is what the server sends until the client asks for something else.
        asks = np.flatnonzero(from_client & (data > logged_on))
        answers = np.flatnonzero(~from_client & (data > logged_on))
        answers = answers[answers < asks[0]] if len(asks) else answers
        if len(answers):
            logon = int(t_ns[answers[-1]]) - begin
            begin += logon
            behind = data > data[answers[-1]]
    return Phases(
        connect_ms=None if connected is None else to_ms(connected),
        logon_ms=None if logon is None else to_ms(logon),
        query_ms=to_ms(last - begin),
        turns=_turns(t_ns[behind], from_client[behind], begin, last),
    )


def _turns(t_ns: I64, from_client: Bool, begin: int, last: int) -> Turns:
    """A request is what the client sends from the last answer on; an answer what the server sends until the next."""
    changes = np.flatnonzero(from_client[1:] != from_client[:-1]) + 1
    starts = np.concatenate([np.zeros(min(len(t_ns), 1), np.int64), changes])
    asks = starts[from_client[starts]] if len(starts) else starts
    answers = starts[~from_client[starts]] if len(starts) else starts
    answers = answers[answers > asks[0]] if len(asks) else answers[:0]
    count = min(len(asks), len(answers))
    ends = np.append(asks[1:], len(t_ns)) - 1  # rows that end an answer, or a request that nobody answers any more
    waited = int((t_ns[ends[:count]] - t_ns[asks[:count]]).sum())
    return Turns(count, to_ms(waited), to_ms(last - begin - waited))


def _logged_on(talk: Talk, client: int, found: list[Headers]) -> int | None:
    """Row of the packet with the last call of the logon; None: the captured begin of the stream does not show it."""
    head = talk.conversation.ways[client].head
    mine, last = found[client], None
    for at, kind, row in zip(mine.at.tolist(), mine.type.tolist(), mine.rows.tolist(), strict=True):
        function = head[at + _FUNCTION_AT : at + _FUNCTION_AT + 4]
        if kind != Type.DATA or function.startswith(_NEGOTIATION):
            continue
        if len(function) < 2:
            return None  # behind what was captured
        if not function.startswith(_LOGON):
            break
        last = row
    return last
