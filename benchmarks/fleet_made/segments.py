"""What happened to each call -> the TCP segments of it all: sequence numbers, acknowledgements, what came by when.

A receiver acknowledges at once what is as large as two segments, and what came out of order; the rest after 40 ms, if
it has not sent anything itself before that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleet_made.packets import ACK, MSS, SYN, SYN_ACK, Shape, shape_of
from fleet_made.plan import MS, US
from fleet_made.story import I64, Story

_DELAYED_NS = 40 * MS
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Segments:
    """Columns, a row a segment; times in ns since the start on the true clock, -1: never came by."""

    conn: I64
    way: I64  # 0: to the server
    shape: I64
    op: I64  # -1: none
    sent: I64
    seen: I64
    seq: I64
    ack: I64
    ident: I64

    def take(self, which: npt.NDArray[np.bool_] | I64) -> Segments:
        """Those rows."""
        return Segments(**{name: column[which] for name, column in vars(self).items()})


def segments(story: Story, shapes: list[Shape]) -> Segments:
    """All of them, connection after connection."""
    rng = np.random.default_rng(story.plan.seed)
    parts = [_connection(story, shapes, conn, rng) for conn in range(len(story.conn_client)) if story.order[0][conn]]
    names = Segments.__dataclass_fields__
    return Segments(**{name: np.concatenate([part[name] for part in parts]) for name in names})


def _connection(story: Story, shapes: list[Shape], conn: int, rng: np.random.Generator) -> dict[str, I64]:
    client = story.plan.clients[int(story.conn_client[conn])]
    delay_ns = int(client.delay_ms * MS)
    start = rng.integers(1 << 31, size=2).astype(np.int64)  # of the streams
    data = [_data(story, shapes, conn, way) for way in (0, 1)]
    # What has been sent, and what has been taken at the other end, by time: (times, bytes so far).
    sent, taken = [], []
    for way in (0, 1):
        ops, ends = data[way]["first_op"], data[way]["first_end"]
        sent.append((story.sent[way][ops], np.concatenate(([0], ends))))
        taken.append((story.delivered[way][ops], np.concatenate(([0], ends))))
    out = []
    for way in (0, 1):
        mine = data[way]
        acks = _acks(data[1 - way], story.sent[way][mine["first_op"]], taken[1 - way], rng)
        # An acknowledgement does not overtake the data that left before it.
        by_sent = np.argsort(mine["sent"], kind="stable")
        latest = np.concatenate(([0], np.maximum.accumulate(mine["seen"][by_sent])))
        acks_seen = np.maximum(acks + delay_ns, latest[np.searchsorted(mine["sent"][by_sent], acks, side="right")])
        rows = np.full(len(acks), -1)
        part = {
            "op": np.concatenate((mine["op"], rows)),
            "shape": np.concatenate((mine["shape"], rows * 0 + ACK)),
            "sent": np.concatenate((mine["sent"], acks)),
            "seen": np.concatenate((mine["seen"], acks_seen)),
            "seq": np.concatenate((mine["begin"], _so_far(sent[way], acks))),
        }
        part["ack"] = _so_far(taken[1 - way], part["sent"])
        part = {name: column[np.argsort(part["sent"], kind="stable")] for name, column in part.items()}
        out.append(_with_handshake(part, way, int(story.sent[0][data[0]["first_op"][0]]), delay_ns))
        part = out[-1]
        part |= {"way": np.full(len(part["op"]), way), "conn": np.full(len(part["op"]), conn)}
        part["seq"] = (start[way] + 1 + part["seq"]) & _MASK
        part["ack"] = np.where(part["shape"] == SYN, 0, (start[1 - way] + 1 + part["ack"]) & _MASK)
        payload = np.array([shape.payload_bytes for shape in shapes])[part["shape"]]
        steps = np.maximum(-(-payload // MSS), 1)  # the card cuts a large one up, and counts
        part["ident"] = (rng.integers(1 << 16) + np.cumsum(steps) - steps) & 0xFFFF
    return {name: np.concatenate([part[name] for part in out]) for name in out[0]}


def _data(story: Story, shapes: list[Shape], conn: int, way: int) -> dict[str, I64]:
    """Segments with data, those sent again too; "first_": once each, as they stand in the stream."""
    ops = np.array(story.order[way][conn], dtype=np.int64)
    shape = np.asarray(shape_of(story.kind[ops], way))
    sizes = np.array([one.payload_bytes for one in shapes])[shape]
    ends = np.cumsum(sizes)
    again = story.again[(story.again[:, 1] == way) & np.isin(story.again[:, 0], ops)]
    places = np.empty(int(ops.max()) + 1, dtype=np.int64)
    places[ops] = np.arange(len(ops))
    rows = np.concatenate((np.arange(len(ops)), places[again[:, 0]]))
    seen = np.concatenate((story.direct[way][ops], again[:, 3]))
    is_again = np.arange(len(rows)) >= len(ops)
    return {
        "first_op": ops,
        "first_end": ends,
        "op": ops[rows],
        "shape": shape[rows],
        "sent": np.concatenate((story.sent[way][ops], again[:, 2])),
        "seen": seen,
        "begin": (ends - sizes)[rows],
        "at_once": (sizes[rows] > 2 * MSS) | is_again,
        "early": seen != story.delivered[way][ops[rows]],  # something in front of it was missing
    }


def _acks(came: dict[str, I64], own: I64, taken: tuple[I64, I64], rng: np.random.Generator) -> I64:
    """When a host sends acknowledgements alone, sorted: `came` is what it gets, `own` when it sends data itself."""
    is_here = came["seen"] >= 0
    at_once, early = came["at_once"].astype(bool) & is_here, came["early"].astype(bool) & is_here
    later = rng.integers(3 * US, 15 * US, len(is_here))
    repeated = np.sort((came["seen"] + later)[early])  # what came before its turn is answered in any case
    quick = _news(np.sort((came["seen"] + later)[at_once & ~early]), np.concatenate((own, repeated)), taken)
    slow = np.sort(came["seen"][is_here & ~at_once])
    # One that waits is not needed where anything was sent since.
    anything = np.sort(np.concatenate((own, repeated, quick)))
    following = np.append(anything, np.iinfo(np.int64).max)[np.searchsorted(anything, slow)]
    slow = _news(slow[following > slow + _DELAYED_NS] + _DELAYED_NS, anything, taken)
    return np.sort(np.concatenate((repeated, quick, slow)))


def _news(acks: I64, others: I64, taken: tuple[I64, I64]) -> I64:
    """Those of `acks`, which are sorted, that say more than the packet that the host sent before."""
    times = np.concatenate((acks, others))
    order = np.argsort(times, kind="stable")
    said = _so_far(taken, times[order])
    news = np.empty(len(times), dtype=bool)
    news[order] = np.concatenate(([True], said[1:] > said[:-1]))
    return acks[news[: len(acks)]]


def _so_far(steps: tuple[I64, I64], at: I64) -> I64:
    """Bytes that were sent, or taken, until then."""
    times, total = steps
    return total[np.searchsorted(times, at, side="right")]


def _with_handshake(part: dict[str, I64], way: int, first_ns: int, delay_ns: int) -> dict[str, I64]:
    """Three packets, the last of which leaves 50 us before the first call."""
    last_ns = first_ns - 50 * US
    syn_ns = last_ns - 2 * delay_ns - 30 * US
    if way == 0:
        shape, sent, seq, ack = [SYN, ACK], [syn_ns, last_ns], [-1, 0], [0, 0]
    else:
        shape, sent, seq, ack = [SYN_ACK], [syn_ns + delay_ns + 10 * US], [-1], [0]
    head = {"op": [-1] * len(shape), "shape": shape, "sent": sent, "seen": [t + delay_ns for t in sent]}
    head |= {"seq": seq, "ack": ack}
    return {name: np.concatenate((np.array(head[name], dtype=np.int64), column)) for name, column in part.items()}
