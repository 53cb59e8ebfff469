"""A path that several share: its rate, who has most of it; and hosts that have most of a server's time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import wire
from queues import simulate
from several_hosts import Talk, at_clients, at_servers

from nfslat import api
from nfslat.decode.engine import choose
from nfslat.model.details import Stream
from nfslat.model.segments import AGAIN, BACK, TWICE, Segments
from nfslat.model.tables import I64, Bool
from nfslat.peer.decoded import came_twice
from nfslat.pipeline import inspect
from nfslat.select import Filters
from nfslat.wire.charges import rate
from nfslat.wire.charges.shared import Carried

MS = 1_000_000
STRETCH = 10 * MS


class _Queue(NamedTuple):
    """What went through one queue in front of a line: a row a message, by when it was sent."""

    stream: I64  # 0: the pair's own
    sent_ns: I64
    bytes: I64
    came_ns: I64

    def sent(self) -> Carried:
        """As the sender's capture has it."""
        return Carried(self.stream, self.sent_ns, self.bytes, 1, ("", "10.0.0.3"))

    def came(self) -> Carried:
        """As the receiver's capture has it."""
        begin_ns = self.came_ns // STRETCH * STRETCH
        order = np.argsort(begin_ns, kind="stable")
        return Carried(self.stream, begin_ns, self.bytes, STRETCH, ("", "10.0.0.3")).take(order)

    def trips(self) -> rate._Trips:
        own = np.flatnonzero(self.stream == 0)
        return rate._Trips(np.arange(len(own)), self.sent_ns[own], self.came_ns[own])

    def line(self, late: Bool | None = None) -> float | None:
        """Mbit/s of what left the sender; None where it shows no rate."""
        trips = self.trips()
        rows = np.flatnonzero(trips.came_ns - trips.sent_ns > MS if late is None else late)
        queues = rate._Queues(trips.sent_ns[:1], trips.came_ns[-1:])
        found = rate._line(self.sent(), trips, rows, queues)
        return None if found is None else found[0] * 8e3


def _through(stream: I64, sent_ns: I64, size: I64, mbit: float) -> _Queue:
    """First in, first out."""
    came, free = [], 0
    for sent, one in zip(sent_ns.tolist(), size.tolist(), strict=True):
        free = max(free, sent) + round(one * 8e3 / mbit)
        came.append(free)
    return _Queue(stream, sent_ns, size, np.array(came, dtype=np.int64))


def _two(seed: int, *, own_ms: float = 30, every_ms: float = 36, count: int = 400, large: int = 131_072) -> list[I64]:
    """Small messages at random and large ones of another host, in their order."""
    rng = np.random.default_rng(seed)
    own = np.cumsum(rng.exponential(own_ms * MS, count)).astype(np.int64)
    other = np.arange(0, own[-1], round(every_ms * MS)) + rng.integers(
        0, 15 * MS, len(np.arange(0, own[-1], round(every_ms * MS)))
    )
    sent = np.concatenate([own, other])
    stream = np.repeat(np.array([0, 1]), [len(own), len(other)])
    size = np.where(stream == 0, 8324, large)
    order = np.argsort(sent, kind="stable")
    return [stream[order], sent[order], size[order]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("mbit", "every_ms", "own_ms"), [(30, 36, 30), (30, 38, 15), (4, 280, 90)])
def test_a_link_that_another_receiver_fills(mbit: float, every_ms: float, own_ms: float, seed: int) -> None:
    """What the sender had sent up to each message has come out when that comes: the line's rate, and who fills it."""
    queue = _through(*_two(seed, every_ms=every_ms, own_ms=own_ms), mbit=mbit)
    found = queue.line()
    assert found == pytest.approx(mbit, rel=0.05)
    queues = rate._Queues(queue.sent_ns[:1], queue.came_ns[-1:])
    (sharer,) = rate._sharers(queue.trips().out(queue.sent()), queues)
    assert sharer.name == "10.0.0.3"
    assert sharer.share == pytest.approx(queue.bytes[queue.stream == 1].sum() / queue.bytes.sum(), abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_busy_link_whose_messages_are_late_by_themselves(seed: int) -> None:
    """Delay that each message has for itself, a longer path, or a client that is slow to send, show no rate, however
    much another host sends meanwhile."""
    stream, sent, size = _two(seed)
    rng = np.random.default_rng(100 + seed)
    jitter = _Queue(stream, sent, size, sent + rng.integers(2 * MS, 30 * MS, len(sent)))
    assert jitter.line() is None
    assert _Queue(stream, sent, size, sent + 20 * MS).line() is None
    slow = _two(seed, own_ms=100, count=150)
    assert _through(*slow, mbit=1000).line(late=np.ones(150, dtype=np.bool_)) is None


def test_both_directions_delayed_and_nothing_else_sent() -> None:
    """Of one stream alone nothing is shared."""
    rng = np.random.default_rng(1)
    sent = np.cumsum(rng.integers(MS, 20 * MS, 300)).astype(np.int64)
    alone = _Queue(np.zeros(300, dtype=np.int64), sent, np.full(300, 8324), sent + 15 * MS)
    assert alone.line() is None


@pytest.mark.parametrize("seed", range(4))
def test_streams_that_leave_each_other_room(seed: int) -> None:
    """A sum that varies by less than its parts is of one link; streams that know nothing of each other are of none,
    even where their sum is steady enough."""
    rng, count = np.random.default_rng(seed), 1000
    queues = rate._Queues(np.zeros(1, dtype=np.int64), np.full(1, count * STRETCH))
    own = rng.integers(0, 20, count)
    for other, is_full in ((25 - own + rng.integers(-1, 2, count), True), (rng.integers(6, 8, count) * 10, False)):
        begin = np.tile(np.arange(count) * STRETCH, 2)
        both = Carried(
            np.repeat(np.array([0, 1]), count), begin, np.concatenate([own, other]) * 1448, STRETCH, ("", "x")
        )
        both = both.take(np.argsort(begin, kind="stable"))
        assert (rate._plateau(both, queues, 1448.0) is not None) == is_full


def test_more_room_whenever_nothing_is_late() -> None:
    """A stream that others do not yield to: the path is full where messages are late, and only there."""
    rng, count = np.random.default_rng(1), 1000
    half = count // 2 * STRETCH
    late = rate._Queues(np.zeros(1, dtype=np.int64), np.array([half]))
    begin = np.arange(count) * STRETCH
    for before, after, is_full in ((25, 8, True), (25, 25, False)):
        sent = np.where(begin < half, before, after) + rng.integers(-1, 2, count)
        one = Carried(np.ones(count, dtype=np.int64), begin, sent * 1448, STRETCH, ("", "x"))
        assert (rate._plateau(one, late, 1448.0) is not None) == is_full


# --- Whole captures ---------------------------------------------------------------------------------------------------


def _no_tools() -> Any:
    raise AssertionError("Wireshark's tools are not needed for this")


def test_streams_without_rpc_are_counted(tmp_path: Path) -> None:
    """By who sends to whom and by stretch of time, beside the operations; a connection with RPC is none of them."""
    nfs, other = wire.Tcp(), wire.Tcp(client=("10.0.0.1", 4000), server=("10.0.0.2", 5001))
    for t_ms, way, message in ((1, ">", wire.getattr3(1)), (2, "<", wire.reply(1))):
        nfs.raw(t_ms, way, nfs.next[way], wire.record(message), ack=nfs.next["<" if way == ">" else ">"])
        nfs.next[way] += len(wire.record(message))
    for at in range(4):
        other.raw(5 + 10 * at, "<", other.next["<"], b"x" * 1000, ack=other.next[">"])
        other.next["<"] += 1000
    flows = [one.seen_by("client", back_ms=0) for one in (nfs, other)]
    capture = wire.write_pcap(tmp_path / "client.pcap", *flows)
    engine = choose("native", _no_tools, tmp_path, rereads=False)
    side = inspect(engine.open(str(capture)), engine, filters=Filters(), progress=lambda _: None)
    others = side.decoded.details.others
    assert others.streams == (Stream("10.0.0.2", 5001, "10.0.0.1", 4000),)
    assert others.bytes.tolist() == [1000] * 4
    assert (np.diff(others.begin_ns) == STRETCH).all()


@pytest.mark.parametrize(("workers", "share"), [(40, True), (4, False)])
def test_the_client_that_has_most_of_the_time_in_the_server(workers: int, share: bool, tmp_path: Path) -> None:
    """Beside one that waits little: it is named with its share; a client that has its part of it is not."""
    hog = simulate(threads=2, workers=workers, count=2_000, seed=1)
    own = simulate(threads=2, workers=16, connections=2, count=4_000, seed=2)
    talks = [Talk("10.1.0.8", "10.1.0.1", hog), Talk("10.1.0.9", "10.1.0.1", own)]
    server, client = at_servers(tmp_path / "s.pcap", *talks), at_clients(tmp_path / "c.pcap", talks[1])
    verdict = api.correlate(server, client).summary.verdict
    assert verdict is not None
    assert verdict.layer in ("server", None)
    assert ("10.1.0.8 has" in verdict.text and "% of the time there." in verdict.text) == share


# --- What was sent again and had arrived ------------------------------------------------------------------------------


def _talk(*rows: tuple[float, int, int, int, int]) -> Segments:
    """Rows of ms, marks, position, size, and what it acknowledges; frames count up from 1."""
    t_ns, marks, seq, size, ack = (np.array(column) for column in zip(*rows, strict=True))
    return Segments(
        frame=np.arange(1, len(rows) + 1, dtype=np.int32), t_ns=(t_ns * MS).astype(np.int64), seq=seq.astype(np.int64),
        size=size.astype(np.int32), ack=ack.astype(np.int64), ts_val=np.zeros(len(rows), dtype=np.uint32),
        marks=marks.astype(np.uint8),
    )  # fmt: skip


_OTHER = ((-9.0, 0, 0, 1000, 0), (-8.0, BACK, 0, 0, 1000))
_SENT, _LATER = (0.0, 0, 0, 1000, 0), (1200.0, BACK, 0, 0, 1000)


@pytest.mark.parametrize(
    ("rows", "frames"),
    [
        # The host did not take packets for 1.2 s: the first one's ACK comes, and then that the others came twice.
        ([_SENT, (220, AGAIN, 0, 1000, 0), (600, AGAIN, 0, 1000, 0), _LATER, (1200, BACK | TWICE, 0, 0, 1000),
          (1200, BACK | TWICE, 0, 0, 1000)], [2, 3]),
        # Sent again twice, and one of three was lost.
        ([_SENT, (220, AGAIN, 0, 1000, 0), (600, AGAIN, 0, 1000, 0), _LATER, (1200, BACK | TWICE, 0, 0, 1000)], []),
        # The first ACK that covers it is of the second: that of the first one was lost.
        ([_SENT, (220, AGAIN, 0, 1000, 0), (221, BACK | TWICE, 0, 0, 1000)], []),
        # No plain ACK, and the word of both comes long after each of them was sent: all was taken at once.
        ([*_OTHER, (0, 0, 1000, 1000, 0), (220, AGAIN, 1000, 1000, 0), (600, AGAIN, 1000, 1000, 0),
          (1200, BACK | TWICE, 0, 0, 2000), (1200, BACK | TWICE, 0, 0, 2000)], [4, 5]),
        # The same of one of three, and of a path on which any ACK takes as long.
        ([*_OTHER, (0, 0, 1000, 1000, 0), (220, AGAIN, 1000, 1000, 0), (600, AGAIN, 1000, 1000, 0),
          (1200, BACK | TWICE, 0, 0, 2000)], []),
        ([(-900, 0, 0, 1000, 0), (-600, BACK, 0, 0, 1000), (0, 0, 1000, 1000, 0), (600, AGAIN, 1000, 1000, 0),
          (900, BACK | TWICE, 0, 0, 2000)], []),
        # The receiver was heard long before, and did not say so of this.
        ([_SENT, (1, BACK, 0, 0, 1000), (220, AGAIN, 0, 1000, 0), (230, BACK, 0, 0, 1000),
          (900, BACK | TWICE, 0, 0, 1000)], []),
        # Lost, and sent again.
        ([_SENT, (220, AGAIN, 0, 1000, 0), (221, BACK, 0, 0, 1000)], []),
        # Of the other direction.
        ([(0, BACK, 0, 1000, 0), (220, BACK | AGAIN, 0, 1000, 0), (230, 0, 0, 0, 1000), (230, TWICE, 0, 0, 1000)], [2]),
    ],
    ids=["a host that was late", "one of three lost", "an ACK lost", "taken at once", "one of three taken", "long",
         "of another", "lost", "the other way"],
)  # fmt: skip
def test_bytes_that_came_twice(rows: list[tuple[float, int, int, int, int]], frames: list[int]) -> None:
    """A D-SACK proves that the first one had come, and was not lost; what else it may be of proves nothing."""
    assert came_twice([_talk(*rows)]).tolist() == frames
