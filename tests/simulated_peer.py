"""A client and a server with clocks, path and TCP of their own -> the segments that one of them captures, and truth."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from nfslat.model.protocol import NULL, NULL32
from nfslat.model.segments import AGAIN, BACK, TWICE, Segments
from nfslat.model.tables import WHOLE, Connection, Kind, Ops

MS = 1_000_000
_RETRANSMISSION = 3
_START = 1_700_000_000_000_000_000
_CALL, _REPLY = 120, 200
_KERNEL_NS = 100_000  # what takes no longer always takes as long


@dataclass
class World:
    """What may be wrong with clocks, path and hosts. Times are ns, of a clock that nobody has."""

    seed: int = 1
    tick_ns: int = MS  # of the other host's time stamps
    drift_ppm: float = 0.0  # the other host's clock runs faster by that much
    out_ns: int = 100_000  # least time on the way to the other host, and back
    back_ns: int = 100_000
    queue_ns: int = 50_000  # mean of what packets wait on the way out
    back_queue_ns: int = 50_000
    work_ns: int = 2 * MS  # mean of what the server takes
    quick: float = 0.5  # share of calls that are acknowledged at once; others wait for `delay_ns`, or the reply
    delay_ns: int = 40 * MS
    step_ns: int = 0  # by how much the clock of the capture is set, half way
    stamped: bool = True
    connections: int = 1
    ops: int = 400
    gap_ns: int = 5 * MS  # mean between the calls of a connection
    lost: frozenset[int] = frozenset()  # calls whose first transmission is lost
    tail_probe: frozenset[int] = frozenset()  # calls that are sent again although they arrived, and so acknowledged
    tap_ns: int = 0  # how far from that host the capture is
    near: str = "client"  # where the capture is taken
    truth: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class _Packet:
    t: int  # at the capture
    far: bool
    conn: int
    seq: int
    size: int
    ack: int
    kind: int = 1
    stamp: int | None = None
    twice: int = 0
    op: int = -1
    part: str = ""


def capture(world: World) -> tuple[Ops, list[Segments]]:
    """Ops as the capture shows them, and the segments of each connection; `world.truth` has of each op what the other
    host's capture would show: server SRT, or client SRT, ns."""
    rng = np.random.default_rng(world.seed)
    packets: list[_Packet] = []
    spans: list[tuple[int, int]] = []
    for conn in range(world.connections):
        packets += _connection(world, rng, conn, spans)
    return _captured(world, packets, spans)


def closed_loop(world: World, in_flight: int, turn_ns: int) -> tuple[Ops, Segments]:
    """The same of one connection with so many calls in flight: each reply is acknowledged by itself, as it comes, and
    the next call leaves `turn_ns` later (a mean, where that is more than a kernel takes)."""
    rng = np.random.default_rng(world.seed)
    late = {"out": 0, "back": 0}
    packets: list[_Packet] = []
    events: list[tuple[int, int, str]] = [(_START + 10_000 * op, op, "call") for op in range(in_flight)]
    heapq.heapify(events)
    offset, called, answered, acknowledged, count = int(rng.integers(1 << 31)), 0, 0, 0, in_flight
    began: dict[int, int] = {}
    came: dict[int, int] = {}
    served: dict[int, int] = {}
    ended: dict[int, int] = {}

    def cross(way: str, at: int) -> int:
        least, queue = (world.out_ns, world.queue_ns) if way == "out" else (world.back_ns, world.back_queue_ns)
        late[way] = max(late[way] + 1, at + least + int(rng.exponential(queue)))
        return late[way]

    while events:
        at, op, what = heapq.heappop(events)
        if what == "call":
            began[op] = at
            came[op] = cross("out", at)
            stamp = (at - _START) // world.tick_ns + offset
            packets.append(_Packet(came[op], True, 0, called, _CALL, acknowledged, stamp=stamp, op=op, part="call"))
            called += _CALL
            heapq.heappush(events, (came[op] + int(rng.exponential(world.work_ns)) + 20_000, op, "answer"))
        elif what == "answer":
            packets.append(_Packet(at, False, 0, answered, _REPLY, called, stamp=at // MS, op=op, part="reply"))
            answered += _REPLY
            served[op] = at - came[op]
            heapq.heappush(events, (cross("back", at), op, "reply"))
        else:
            acknowledged += _REPLY
            left = at + 10_000
            stamp = (left - _START) // world.tick_ns + offset
            packets.append(_Packet(cross("out", left), True, 0, called, 0, acknowledged, kind=0, stamp=stamp))
            ended[op] = at
            if count < world.ops:
                turn = turn_ns if turn_ns < _KERNEL_NS else int(rng.exponential(turn_ns))
                heapq.heappush(events, (left + turn, count, "call"))
                count += 1
    return _captured(world, packets, [(ended[op] - began[op], served[op]) for op in range(count)])


def _captured(world: World, packets: list[_Packet], spans: list[tuple[int, int]]) -> tuple[Ops, Segments]:
    packets.sort(key=lambda one: one.t)
    middle = packets[len(packets) // 2].t
    times = np.array([one.t + (world.step_ns if one.t >= middle else 0) for one in packets], dtype=np.int64)
    rows = Segments.from_columns(
        {
            "frame": np.arange(1, len(packets) + 1),
            "t_ns": times,
            "seq": [one.seq for one in packets],
            "size": [one.size for one in packets],
            "ack": [one.ack for one in packets],
            "ts_val": [one.stamp % (1 << 32) if one.stamp is not None and world.stamped else NULL32 for one in packets],
            "marks": [_marks(world, one) for one in packets],
        }
    )
    return _ops(world, packets, times, spans), by_connection(rows, np.array([one.conn for one in packets]))


def _marks(world: World, one: _Packet) -> int:
    by_server = one.far == (world.near == "client")
    return BACK * by_server | AGAIN * (one.kind == _RETRANSMISSION) | TWICE * one.twice


def by_connection(rows: Segments, conn: np.ndarray) -> list[Segments]:
    """Those of each connection, whose number stands beside each row."""
    return [rows.take(conn == one) for one in np.unique(conn)]


def joined(talks: list[Segments]) -> tuple[Segments, np.ndarray]:
    """All rows in capture order, and the connection of each."""
    columns = {name: np.concatenate([getattr(one, name) for one in talks]) for name in Segments.columns()}
    order = np.argsort(columns["frame"])
    conn = np.repeat(np.arange(len(talks)), [len(one) for one in talks])
    return Segments(**columns).take(order), conn[order]


def _connection(world: World, rng: np.random.Generator, conn: int, spans: list[tuple[int, int]]) -> list[_Packet]:
    """Calls that follow each other, each when the one before was answered."""
    offset = int(rng.integers(1 << 31, 1 << 32))  # so that the stamps wrap around
    late = {"out": 0, "back": 0}
    made: list[_Packet] = []

    def cross(way: str, at: int) -> int:
        least = world.out_ns if way == "out" else world.back_ns
        late[way] = max(
            late[way] + 1, at + least + int(rng.exponential(world.queue_ns if way == "out" else world.back_queue_ns))
        )
        return late[way]

    def stamp(at: int) -> int:
        return int((at - _START) * (1 + world.drift_ppm * 1e-6)) // world.tick_ns + offset

    def put(sent: int, arrived: int, *, by_client: bool, **others: int | str) -> None:
        far = by_client != (world.near == "client")
        made.append(
            _Packet(
                arrived - world.tap_ns if far else sent + world.tap_ns,
                far,
                conn,
                stamp=stamp(sent) if far else sent // MS,
                **others,  # type: ignore[arg-type]
            )
        )

    at, called, answered = _START + int(rng.integers(0, 10 * MS)), 0, 0
    for number in range(world.ops):
        op = len(spans)
        c1 = at
        s1 = cross("out", c1)
        if number in world.lost:
            put(c1, c1 + 1, by_client=True, seq=called, size=_CALL, ack=answered, op=op, part="call")
            again = c1 + 200 * MS
            s1 = cross("out", again)
            if world.near == "client":
                put(again, s1, by_client=True, seq=called, size=_CALL, ack=answered, kind=3)
        else:
            put(c1, s1, by_client=True, seq=called, size=_CALL, ack=answered, op=op, part="call")
        called += _CALL
        work = int(rng.exponential(world.work_ns)) + 20_000
        if number in world.tail_probe:
            work = 100 * MS
            again = c1 + 30 * MS
            came = cross("out", again)
            put(again, came, by_client=True, seq=called - _CALL, size=_CALL, ack=answered, kind=3)
            put(came, cross("back", came), by_client=False, seq=answered, size=0, ack=called, kind=0, twice=1)
        elif rng.random() < world.quick:
            put(s1 + 5_000, cross("back", s1 + 5_000), by_client=False, seq=answered, size=0, ack=called, kind=0)
        elif work > world.delay_ns:
            held = s1 + world.delay_ns
            put(held, cross("back", held), by_client=False, seq=answered, size=0, ack=called, kind=0)
        s2 = s1 + work
        c3 = cross("back", s2)
        put(s2, c3, by_client=False, seq=answered, size=_REPLY, ack=called, op=op, part="reply")
        answered += _REPLY
        if rng.random() < world.quick:
            put(c3 + 5_000, cross("out", c3 + 5_000), by_client=True, seq=called, size=0, ack=answered, kind=0)
        spans.append((c3 - c1, s2 - s1))
        at = c3 + 10_000 + int(rng.exponential(world.gap_ns))
    return made


def _ops(world: World, packets: list[_Packet], times: np.ndarray, spans: list[tuple[int, int]]) -> Ops:
    found: dict[tuple[int, str], int] = {
        (one.op, one.part): row for row, one in enumerate(packets) if one.part and one.kind == 1
    }
    order = sorted(range(len(spans)), key=lambda op: found[op, "call"])
    calls, replies = (np.array([found[op, part] for op in order]) for part in ("call", "reply"))
    world.truth["client"] = np.array([spans[op][0] for op in order])
    world.truth["server"] = np.array([spans[op][1] for op in order])
    ends = tuple(Connection("tcp", "10.0.0.2", 700 + conn, "10.0.0.1", 2049) for conn in range(world.connections))
    columns = {name: np.full(len(order), NULL) for name in Ops.columns()}
    columns |= {
        "conn": np.array([packets[row].conn for row in calls]),
        "direction": np.zeros(len(order)),
        "xid": np.arange(len(order)),
        "kind": np.zeros(len(order)),
        "offset": np.zeros(len(order)),
        "size": np.zeros(len(order)),
        "fh": np.zeros(len(order)),
        **dict.fromkeys(("t0", "t1"), times[calls]),
        **dict.fromkeys(("t2", "t3"), times[replies]),
        **{f"call_{name}_frame": calls + 1 for name in ("first", "last")},
        **{f"reply_{name}_frame": replies + 1 for name in ("first", "last")},
        "transmissions": np.ones(len(order)),
        "flags": np.full(len(order), WHOLE),
    }
    return Ops.from_columns(columns, kinds=(Kind(100003, 3, 0, 6),), connections=ends)
