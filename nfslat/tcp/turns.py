"""A conversation -> its turns: who asks, each request with its response, what they cost, and where they stood still.

A turn is what one side sends until the other one sends (the request), and what that one sends until the first one
sends again (the response); no protocol is known but TCP. Five instants part it: first and last byte of the request,
first and last byte of the response, first byte of the next request. What is sent again belongs to its message as long
as the other side had not acknowledged it. All times are those of the one capture, so the wait holds the network and
the server where the capture was taken at the client; `compare` parts the two.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from nfslat.model.causes import STALLS, Cause, Stall, code
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.tcp.floors import Floors
from nfslat.tcp.packets import Talk
from nfslat.tcp.progress import Spread, sender, spread
from nfslat.tcp.shared import Shared
from nfslat.tcp.turn_rows import TurnRows, turn_rows
from nfslat.tcp.turn_shape import crossings, rpc_answers, who_asks
from nfslat.tcp.turn_stops import Stops, find_stops

# Changes of direction at which the sender had not got all of what the other one had sent. Where they take turns there
# are none, but for a protocol's rare interruptions.
_PIPELINED = 0.05  # more than one, in any case
_BACK_NS = NS_PER_MS  # by less packets change places where a host captures with several queues
_FAR_NS = 100_000  # to the asker and back: below this the capture is at its end


class Shape(StrEnum):
    """How the two sides talk."""

    TURNS = "turns"
    PIPELINED = "pipelined"  # requests are sent before earlier ones are answered: turns mean nothing
    ONE_WAY = "one-way"  # one side only sends, or nobody ever answers
    SILENT = "silent"  # no payload
    NO_TIME = "no-time"  # the capture's time runs back: nothing can be said of durations


class Taken(Record, eq=False):
    """All that is known of a conversation's turns."""

    asker: int  # the direction of the requests
    asker_by: str  # "syn", "port" or "first"
    shape: Shape
    changes: int  # of direction
    crossings: int  # changes at which the sender had not got all that the other side had sent
    answers: int  # responses that begin with an RPC reply (RFC 5531) and follow a call
    other_answers: int  # of these, to another call than the one in front
    rows: TurnRows
    stops: Stops
    floors: Floors
    back_ns: int  # by how much time runs back at the most
    begin_ns: int  # of the conversation
    end_ns: int


class TurnPart(Record):
    """One part of all turns; the parts' totals sum to the conversation."""

    part: str  # "request", "wait", "response", "think", "before", "after"
    total_ms: float
    share: float | None  # of the conversation
    each: Spread | None


class TurnStall(Record):
    """Silences of one cause within requests, or within responses."""

    where: str  # "request", "response"
    cause: Stall
    count: int
    turns: int
    total_ms: float
    mean_ms: float
    share: float | None  # of the time in turns


class Turns(Record):
    """The figures of `Taken`; what is not known, or means nothing, is None."""

    shape: Shape
    asker: str  # endpoint
    asker_by: str
    answerer: str
    changes: int
    crossing_share: float | None
    other_answer_share: float | None
    count: int
    whole: Spread | None  # first byte of the request to last byte of the response
    whole_total_ms: float
    whole_share: float | None  # of the conversation
    parts: tuple[TurnPart, ...]
    request_bytes: float | None  # mean per turn
    response_bytes: float | None
    slowest_1_share: float | None  # of the time in turns
    slowest_10_share: float | None
    stalls: tuple[TurnStall, ...]
    delayed_ack_turns: int
    delayed_ack_ms: float  # for which the ACKs were held that requests and responses stood still for
    without_delayed_ack_ms: float  # the time in turns less that
    round_trip_ms: float | None  # the least one
    round_trips_alone_ms: float | None  # what so many turns take if each is one least round trip
    asker_round_trip_ms: float | None  # to the asker and back, where the capture is far from it: part of "think"
    time_back_ms: float  # by how much the capture's time runs back at the most
    conversation_ms: float


def take(shared: Shared) -> Taken:
    """Find the turns. Where the shape is not `Shape.TURNS` there are no rows."""
    talk, ways, stretches = shared.talk, shared.progress, shared.runs
    packets = talk.packets
    t_ns = np.maximum.accumulate(packets.t_ns)
    back_ns = int((t_ns - packets.t_ns).max(initial=0))
    asker, asker_by = who_asks(shared)
    crossed, changes = crossings(packets, stretches, ways)
    answers, other_answers = rpc_answers(packets, stretches, asker)
    shape = Shape.TURNS
    if not len(stretches.begin):
        shape = Shape.SILENT
    elif crossed > max(_PIPELINED * changes, 1) or other_answers > max(_PIPELINED * answers, 1):
        shape = Shape.PIPELINED
    if shape is Shape.TURNS and back_ns > _BACK_NS:
        shape = Shape.NO_TIME
    rows = TurnRows.empty()
    if shape is Shape.TURNS:
        rows = turn_rows(shared.streams, stretches, ways, asker, t_ns)
        shape = shape if len(rows) else Shape.ONE_WAY
    return Taken(
        asker,
        asker_by,
        shape,
        changes,
        crossed,
        answers,
        other_answers,
        rows,
        find_stops(rows, shared.silences, asker),
        shared.floors,
        back_ns,
        int(t_ns[0]) if len(packets) else 0,
        int(t_ns[-1]) if len(packets) else 0,
    )


def turns(talk: Talk, taken: Taken) -> Turns:
    """The figures; the parts' totals sum to the conversation, first to last packet."""
    rows, stops = taken.rows, taken.stops
    whole = rows.took_ns
    total = int(whole.sum())
    conversation = taken.end_ns - taken.begin_ns
    delayed = stops.cause == code(Cause.DELAYED_ACK)
    # Where no ACK came by itself the least round trip has waits in it, and is longer than the turns.
    whole_ns = taken.floors.whole_ns if 0 <= taken.floors.whole_ns * len(rows) <= total else None
    count = len(rows)
    far = taken.floors.shift_ns(taken.asker)
    return Turns(
        shape=taken.shape,
        asker=sender(talk, taken.asker),
        asker_by=taken.asker_by,
        answerer=sender(talk, 1 - taken.asker),
        changes=taken.changes,
        crossing_share=taken.crossings / taken.changes if taken.changes else None,
        other_answer_share=taken.other_answers / taken.answers if taken.answers else None,
        count=count,
        whole=spread(whole),
        whole_total_ms=to_ms(total),
        whole_share=total / conversation if count and conversation > 0 else None,
        parts=_parts(taken, conversation),
        request_bytes=float((rows.request_end - rows.request_begin).mean()) if count else None,
        response_bytes=float((rows.response_end - rows.response_begin).mean()) if count else None,
        slowest_1_share=_slowest_share(whole, 0.01),
        slowest_10_share=_slowest_share(whole, 0.1),
        stalls=_stalls(stops, total),
        delayed_ack_turns=len(np.unique(stops.turn[delayed])),
        delayed_ack_ms=to_ms(int(stops.held_ns.sum())),
        without_delayed_ack_ms=to_ms(total - int(stops.held_ns.sum())),
        round_trip_ms=None if whole_ns is None else to_ms(whole_ns),
        round_trips_alone_ms=None if whole_ns is None or not count else to_ms(whole_ns * count),
        asker_round_trip_ms=to_ms(far) if far > _FAR_NS else None,
        time_back_ms=to_ms(taken.back_ns),
        conversation_ms=to_ms(conversation),
    )


def part_durations(taken: Taken) -> dict[str, I64]:
    """ns of each part, whose sums are the conversation's: one value a turn, but for what is before and after them."""
    rows = taken.rows
    if not len(rows):
        return {}
    has_next = rows.next_ns != NULL
    after = taken.end_ns - int(rows.response_last_ns[-1] if rows.next_ns[-1] == NULL else rows.next_ns[-1])
    return {
        "before": np.array([int(rows.request_ns[0]) - taken.begin_ns]),
        "request": rows.request_last_ns - rows.request_ns,
        "wait": rows.response_ns - rows.request_last_ns,
        "response": rows.response_last_ns - rows.response_ns,
        "think": (rows.next_ns - rows.response_last_ns)[has_next],
        "after": np.array([after]),
    }


def _parts(taken: Taken, conversation: int) -> tuple[TurnPart, ...]:
    return tuple(
        TurnPart(
            part=name,
            total_ms=to_ms(int(each.sum())),
            share=int(each.sum()) / conversation if conversation > 0 else None,
            each=None if name in ("before", "after") else spread(each),
        )
        for name, each in part_durations(taken).items()
    )


def _slowest_share(durations_ns: I64, share: float) -> float | None:
    """Of the time that the slowest `share` of the turns takes (at least one); None where that is no part of them."""
    few = int(len(durations_ns) * share)
    total = int(durations_ns.sum())
    if few < 1 or total <= 0:
        return None
    return float(np.partition(durations_ns, len(durations_ns) - few)[-few:].sum() / total)


def _stalls(stops: Stops, total: int) -> tuple[TurnStall, ...]:
    out = []
    for in_response, where in ((0, "request"), (1, "response")):
        for cause in STALLS:
            of = (stops.in_response == in_response) & (stops.cause == code(cause))
            count = int(np.count_nonzero(of))
            if count:
                ns = int(stops.ns[of].sum())
                share = ns / total if total > 0 else None
                turns_ = len(np.unique(stops.turn[of]))
                out.append(TurnStall(where, cause, count, turns_, to_ms(ns), to_ms(ns) / count, share))
    return tuple(sorted(out, key=lambda one: -one.total_ms))


class Compared(Record):
    """The turns that both captures show whole: four parts, whose means sum to the client's turn. No clock is needed."""

    matched: int
    client_only: int
    server_only: int
    client: Spread  # first byte of the request to the response's last new byte, at the client
    server: Spread  # last byte of the request to first byte of the response, at the server
    request_ms: float  # mean: the client sends it, at the client
    wait_ms: float  # mean: the server's own
    response_ms: float  # mean: the server sends it, at the server
    network_ms: float  # mean: the rest, with what was lost and sent again
    network_least_ms: float
    network: Spread
    wait_share: float | None  # of the client's turn
    network_share: float | None


def compare(client: TurnRows, server: TurnRows, shift: tuple[int, int] = (0, 0)) -> Compared | None:
    """How much of each turn is the server, and how much the network; None where no turn is in both.

    Turns are the same whose requests have the same first and last position; `shift` is added to the server's positions
    of requests and of responses (0 where both captures saw the SYN).
    """
    # Positions only grow, so each begins one turn only.
    _, at_client, at_server = np.intersect1d(
        client.request_begin, server.request_begin + shift[0], assume_unique=True, return_indices=True
    )
    c, s = client.take(at_client), server.take(at_server)
    same = (c.request_end == s.request_end + shift[0]) & (c.response_end == s.response_end + shift[1])
    c, s = c.take(same), s.take(same)
    # What is sent again is sent for the network's sake, and its time is the network's.
    whole = c.response_whole_ns - c.request_ns
    request = c.request_whole_ns - c.request_ns
    wait = s.response_ns - s.request_whole_ns
    response = s.response_whole_ns - s.response_ns
    network = whole - request - wait - response
    total = int(whole.sum())
    client_whole, server_own, between = spread(whole), spread(wait), spread(network)
    if client_whole is None or server_own is None or between is None:
        return None
    return Compared(
        matched=len(c),
        client_only=len(client) - len(c),
        server_only=len(server) - len(c),
        client=client_whole,
        server=server_own,
        request_ms=to_ms(float(request.mean())),
        wait_ms=server_own.mean_ms,
        response_ms=to_ms(float(response.mean())),
        network_ms=between.mean_ms,
        network_least_ms=to_ms(int(network.min())),
        network=between,
        wait_share=int(wait.sum()) / total if total > 0 else None,
        network_share=int(network.sum()) / total if total > 0 else None,
    )
