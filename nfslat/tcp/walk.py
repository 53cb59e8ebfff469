"""A conversation's turns -> the frame-by-frame walk of a typical slow one, and what can be done about it.

The slow ones are those with a delayed ACK inside, or else the slowest tenth; typical is the one with their median.
Where a few turns take most of the time the longest one is walked through.
"""

from __future__ import annotations

import numpy as np

from nfslat.model.causes import LOSS_STALLS, Cause, code
from nfslat.model.record import Record
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_MS, to_ms
from nfslat.tcp.packets import AckKind, Kind, Packets, Talk
from nfslat.tcp.turns import Shape, Taken

_SLOW = 0.1
_FEW, _MOST = 0.01, 0.5  # of the turns (one at the least), of the time in them
_MOST_ROWS = 24  # more neighbours are folded together
_SHORT_NS = 10 * NS_PER_MS  # a silence that has a row of its own
_NFS_PORT = 2049
_ORACLE_PORTS = (1521, 1522, 1523, 1524, 1525, 1526)
# Above it a delayed ACK is not likely Linux's usual one (40 ms), below it cannot be that of Windows (200 ms).
_WINDOWS_NS = 120 * NS_PER_MS


class Step(Record):
    """One packet, neighbours folded into one, or a silence."""

    frame: int | None  # the first one; None: a silence
    last_frame: int | None
    at_ms: float  # from the turn's begin
    direction: int | None  # None: a silence
    what: str
    packets: int
    bytes: int
    silence_ms: float  # 0 where it is none


class Note(Record):
    """What can be done, what it costs, and where that is written."""

    text: str
    command: str
    risk: str
    source: str


class Walk(Record):
    """One turn; its steps' packets are all between its first and its last one, both directions."""

    turn: int  # from 1
    of: int  # turns
    slow_turns: int  # that it is typical for
    chosen_by: str  # "longest" (few of them take most of the time), "delayed-ack" or "slowest"
    share: float | None  # of the time in turns that this one takes
    took_ms: float
    without_ms: float  # less the time for which ACKs were held back, and for which it waited until it was sent again
    steps: tuple[Step, ...]
    notes: tuple[Note, ...]


def walk(talk: Talk, taken: Taken) -> Walk | None:
    """The walk; None where there are no turns."""
    rows, stops = taken.rows, taken.stops
    if taken.shape is not Shape.TURNS or not len(rows):
        return None
    took, total = rows.took_ns, int(rows.took_ns.sum())
    delayed = np.unique(stops.turn[stops.cause == code(Cause.DELAYED_ACK)]).astype(np.int64)
    most, few = (max(1, int(len(rows) * share)) for share in (_FEW, _SLOW))
    longest = np.argpartition(took, len(rows) - most)[-most:]
    if len(rows) > 1 and int(took[longest].sum()) > _MOST * total:
        slow, chosen_by = longest, "longest"
    elif len(delayed):
        slow, chosen_by = delayed, Cause.DELAYED_ACK.value
    else:
        slow, chosen_by = np.argpartition(took, len(rows) - few)[-few:], "slowest"
    # The middle one itself, nearest rank, the earliest of equals.
    order = slow[np.argsort(took[slow], kind="stable")]
    turn = int(order[-1] if chosen_by == "longest" else order[(len(order) - 1) // 2])
    here = np.flatnonzero(stops.turn == turn)
    resent = np.isin(stops.cause[here], [code(cause) for cause in LOSS_STALLS])
    lost = int(stops.held_ns[here].sum()) + int(stops.ns[here][resent].sum())
    return Walk(
        turn=turn + 1,
        of=len(rows),
        slow_turns=len(slow),
        chosen_by=chosen_by,
        share=int(took[turn]) / total if total > 0 else None,
        took_ms=to_ms(int(rows.took_ns[turn])),
        without_ms=to_ms(int(rows.took_ns[turn]) - lost),
        steps=_steps(talk.packets, taken, turn),
        notes=notes(talk, taken),
    )


def _steps(packets: Packets, taken: Taken, turn: int) -> tuple[Step, ...]:
    first, last = int(taken.rows.request_row[turn]), int(taken.rows.response_last_row[turn])
    part = packets.take(slice(first, last + 1))
    begin = int(part.t_ns[0])
    for fold_acks in (False, True):
        groups = _groups(part, fold_acks=fold_acks)
        if len(groups) <= _MOST_ROWS:
            break
    if len(groups) > _MOST_ROWS:
        # Even so too many: the middle of them is one row.
        half = _MOST_ROWS // 2
        groups = [*groups[:half], (groups[half][0], groups[-half][0]), *groups[-half:]]
    asker = taken.asker
    answered = False
    steps: list[Step] = []
    for number, (low, high) in enumerate(groups):
        silence = int(part.t_ns[low] - part.t_ns[low - 1]) if low else 0
        if silence >= _SHORT_NS:
            at_ms = to_ms(int(part.t_ns[low - 1] - begin))
            steps.append(Step(None, None, at_ms, None, f"{to_ms(silence):.1f} ms of silence", 0, 0, to_ms(silence)))
        group = part.take(slice(low, high))
        direction = int(group.direction[np.flatnonzero(group.size)[0]] if group.size.any() else group.direction[0])
        total = int(group.size.sum())
        steps.append(
            Step(
                frame=int(group.frame[0]),
                last_frame=int(group.frame[-1]),
                at_ms=to_ms(int(group.t_ns[0] - begin)),
                direction=direction,
                what=_what(group, direction, asker, answered=answered, is_end=number == len(groups) - 1),
                packets=len(group),
                bytes=total,
                silence_ms=0.0,
            )
        )
        answered |= bool(np.any((group.direction != asker) & (group.size > 0)))
    return tuple(steps)


def _groups(part: Packets, *, fold_acks: bool) -> list[tuple[int, int]]:
    """Neighbours: one direction, with or without payload alike, no silence between. `fold_acks`: ACKs go with data."""
    has_data = part.size > 0
    again = has_data & (part.kind == Kind.RETRANSMISSION)
    way = part.direction.astype(np.int64)
    if fold_acks:
        # An ACK belongs to the data in front of it.
        at = np.maximum.accumulate(np.where(has_data, np.arange(len(part)), 0))
        way = way[at]
        key = way * 2 + again[at]
    else:
        key = way * 4 + has_data * 2 + again
    breaks = (key[1:] != key[:-1]) | (np.diff(part.t_ns) >= _SHORT_NS)
    begins = np.concatenate([[0], np.flatnonzero(breaks) + 1]).tolist()
    return list(zip(begins, [*begins[1:], len(part)], strict=True))


def _what(group: Packets, direction: int, asker: int, *, answered: bool, is_end: bool) -> str:
    data = group.size > 0
    if not data.any():
        update = np.all(group.ack_kind == AckKind.WINDOW_UPDATE)
        name = "window update" if update else "duplicate ACK" if np.all(group.ack_kind == AckKind.DUPLICATE) else "ACK"
        return name if len(group) == 1 else f"{len(group):,} {name}s"
    count, total = int(np.count_nonzero(data)), int(group.size.sum())
    amount = f"{total:,} byte{'' if total == 1 else 's'}" + (f" in {count:,} packets" if count > 1 else "")
    acks = len(group) - count
    with_acks = f", {acks:,} ACK{'s' if acks > 1 else ''}" if acks else ""
    other = int(group.size[group.direction != direction].sum())
    beside = f", {other:,} the other way" if other else ""
    if np.all((group.kind == Kind.RETRANSMISSION)[data]):
        return f"retransmitted: {amount}{with_acks}"
    if direction == asker:
        return f"request, {amount}{with_acks}{beside}"
    name = "first of the response" if not is_end and not answered else "response" if not answered else "more of it"
    if answered and is_end:
        name = "the rest"
    return f"{name}, {amount}{with_acks}{beside}"


def notes(talk: Talk, taken: Taken) -> tuple[Note, ...]:
    """What helps against delayed ACKs that held up requests or responses; nothing where none did."""
    stops = taken.stops
    delayed = stops.cause == code(Cause.DELAYED_ACK)
    if not delayed.any():
        return ()
    held: I64 = stops.held_ns[delayed]
    ends = talk.conversation.ends
    ways = set((taken.asker ^ (stops.in_response[delayed] == 1)).astype(int).tolist())
    holders = " and ".join(sorted(ends.destination(way)[0] for way in ways))
    senders = " and ".join(sorted(ends.source(way)[0] for way in ways))
    target = sorted(ends.source(way)[0] for way in ways)[0]
    prefix = f"{target}/{128 if ':' in target else 32}"
    found = []
    ports = (ends.port_a, ends.port_b)
    if _NFS_PORT in ports:
        found.append(
            Note(
                "The Linux NFS client and server set TCP_NODELAY: between two of them Nagle's algorithm is not what "
                "holds the sender.",
                "",
                "",
                "Linux net/sunrpc/xprtsock.c, net/sunrpc/svcsock.c",
            )
        )
    else:
        oracle = any(port in _ORACLE_PORTS for port in ports)
        found.append(
            Note(
                f"A sender that waits for the ACK of what it has sent holds back a small segment (Nagle's algorithm). "
                f"With TCP_NODELAY the program on {senders} does not wait; best is to write a message at once."
                + (" Oracle Net sets it unless sqlnet.ora says tcp.nodelay=no: look there." if oracle else ""),
                "",
                "more and smaller packets where a program writes in small pieces",
                "RFC 9293 section 3.7.4"
                + ("; Oracle Net Services Reference, sqlnet.ora: TCP.NODELAY" if oracle else ""),
            )
        )
    found.append(
        Note(
            f"If {holders} runs Linux, it acknowledges at once on a route with quickack.",
            f"ip route change {prefix} via GATEWAY dev DEVICE quickack 1",
            f"more ACK packets, up to one a segment, for all connections from {target}; `change` wants the route as "
            "`ip route get` shows it, and replaces it",
            "ip-route(8); Linux commits bcefe17cffd0, 2251ae46af72",
        )
    )
    if int(np.median(held)) >= _WINDOWS_NS:
        found.append(
            Note(
                f"If {holders} runs Windows, TcpAckFrequency = 1 (DWORD) acknowledges every segment at once. It is set "
                "for the interface, below Tcpip\\Parameters\\Interfaces, and takes a reboot.",
                "",
                "twice the ACK packets, and more work for the processor, for all traffic of the interface",
                "Microsoft KB 328890",
            )
        )
    return tuple(found)
