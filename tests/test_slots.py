"""Client slots and limits of a connection: found where they hold the client or the server, and nowhere else."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from captures import SHARED, Decoder, needs_captures, needs_native
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import CONNECTIONS, WRITE, op, ops

from nfslat.inflight.cap import ConnectionCap, connection_caps
from nfslat.inflight.levels import hidden_share
from nfslat.inflight.slots import Held, MountSlots, Slots, client_slots, held_at
from nfslat.model.details import TcpEvent, TcpEvents
from nfslat.model.protocol import NFS, is_callback_program
from nfslat.model.tables import UNSTABLE_WRITE, Connection, Ops

US, MS = 1_000, 1_000_000


@dataclass(frozen=True)
class Load:
    """Workers that ask, wait, think and ask again, through slots; times in ns, means where they are random."""

    workers: int
    slots: int = 10_000
    service: int = 10 * MS
    think: int = 300 * US  # of a worker, between its answer and its next request
    handover: int = 40 * US  # of the kernel, between a reply and the next call that waited for its slot
    count: int = 2_000
    seed: int = 1

    def run(self) -> tuple[Any, Any]:
        """Starts and ends on the wire."""
        return self.with_workers()[:2]

    def with_workers(self) -> tuple[Any, Any, Any]:
        """The same, and which worker asked."""
        draw = random.Random(self.seed)
        asks = [(round(draw.uniform(0, self.think)), worker) for worker in range(self.workers)]
        heapq.heapify(asks)
        free = [-self.handover] * min(self.slots, self.workers)
        starts, ends, workers = [], [], []
        for _ in range(self.count):
            asked, worker = heapq.heappop(asks)
            freed = heapq.heappop(free)
            # A call that finds a slot leaves at once; one that waits for it, a handover after the reply.
            start = asked if freed <= asked else freed + round(self.handover * draw.uniform(0.5, 1.5))
            end = start + round(self.service * draw.uniform(0.3, 1.7))
            starts.append(start)
            ends.append(end)
            workers.append(worker)
            heapq.heappush(free, end)
            heapq.heappush(asks, (end + round(self.think * draw.uniform(0.6, 1.8)), worker))
        return np.array(starts), np.array(ends), np.array(workers, dtype=np.uint32)


def _held(load: Load, hidden: float = 0.0) -> Slots:
    return held_at(*load.run(), hidden, 0)


@pytest.mark.parametrize("slots", [2, 16, 64])
@pytest.mark.parametrize("times", [2, 4])
def test_slots_with_more_workers_than_slots_are_found(slots: int, times: int) -> None:
    """The number of slots is the top, and calls follow replies as a kernel sends them: likely slots."""
    found = _held(Load(workers=times * slots, slots=slots, service=30 * MS))
    assert (found.held, found.level) == (Held.LIKELY, slots)
    assert found.limited
    assert found.held is not Held.WORKERS
    assert found.at_top_share is not None
    assert found.at_top_share > 0.5
    assert found.hint is not None


@pytest.mark.parametrize("workers", [2, 8, 16, 64])
def test_synchronous_workers_are_no_slots(workers: int) -> None:
    """Workers that all wait for the server keep the level flat, but their next call takes as long as they do."""
    found = _held(Load(workers=workers, service=50 * MS))
    assert (found.held, found.level) == (Held.WORKERS, workers)
    assert found.held is Held.WORKERS
    assert not found.limited


@pytest.mark.parametrize("slots", [2, 16])
def test_slots_of_a_slow_client_are_not_called_workers(slots: int) -> None:
    """A kernel that takes 220 us to fill a free slot is as slow as workers of a fast client: it cannot be told."""
    found = _held(Load(workers=4 * slots, slots=slots, handover=220 * US, service=30 * MS))
    assert (found.held, found.level) == (Held.EITHER, slots)
    assert not found.limited


@pytest.mark.parametrize(("workers", "slots"), [(16, 2), (6, 4), (64, 16)])
def test_files_that_take_turns_show_callers_in_line(workers: int, slots: int) -> None:
    """However slow the client: where a reply's own file goes on only after the others, it may be slots."""
    starts, ends, files = Load(workers=workers, slots=slots, handover=500 * US, service=30 * MS).with_workers()
    found = held_at(starts, ends, 0.0, 0, files)
    assert (found.held, found.level) == (Held.EITHER, slots)
    assert found.taking_turns == pytest.approx(workers, abs=2)


@pytest.mark.parametrize("workers", [2, 16])
def test_workers_that_go_on_with_their_own_file_are_workers(workers: int) -> None:
    """Nobody stands in line, so the file whose reply came is the one that is asked for next; nor do files take turns
    where workers choose among them at random, or where no file is known."""
    starts, ends, files = Load(workers=workers, service=50 * MS).with_workers()
    chosen = np.random.default_rng(1).integers(0, 8 * workers, len(files)).astype(np.uint32)
    for one in (files, np.zeros_like(files), chosen, np.full_like(files, 0xFFFFFFFF)):
        found = held_at(starts, ends, 0.0, 0, one)
        assert (found.held, found.taking_turns) == (Held.WORKERS, None)


@pytest.mark.parametrize("callers", [2, 16])
def test_callers_as_quick_as_a_kernel_are_told_by_their_files(callers: int) -> None:
    """A worker whose next call leaves 40 us after its reply is no slot, where each has a file of its own and goes on
    with that; where all share one file nothing tells it from a slot, and no caller is seen to stand in line."""
    quick = Load(workers=callers, think=40 * US, service=30 * MS)
    starts, ends, files = quick.with_workers()
    assert held_at(starts, ends, 0.0, 0, files).held is Held.WORKERS
    shared = held_at(starts, ends, 0.0, 0, np.zeros_like(files))
    assert (shared.held, shared.taking_turns) == (Held.LIKELY, None)


def test_callers_in_line_for_slots_are_seen_to_take_turns() -> None:
    """Of 12 callers with a file each 4 are in flight: a file goes on only behind the others that wait."""
    starts, ends, files = Load(workers=12, slots=4, service=30 * MS).with_workers()
    found = held_at(starts, ends, 0.0, 0, files)
    assert (found.held, found.level) == (Held.SLOTS, 4)
    assert found.taking_turns == pytest.approx(12, abs=2)


def _flushed(flags: int = UNSTABLE_WRITE, gap: int = 32_768, sent: float = 0.01, pause: float = 0.04) -> Slots:
    """400 WRITEs of 32 KB, 4 in flight: each `gap` bytes behind the one before, sent in so many ms, and that long after
    a reply."""
    begins = [2.0 * n + pause for n in range(400)]
    rows = [op(begin, 2.0 * (n + 4), n, op=WRITE, offset=n * gap, size=32_768) for n, begin in enumerate(begins)]
    made = ops(*[row.but(at_ms=(row.at_ms[0], row.at_ms[0] + sent, *row.at_ms[2:])) for row in rows])
    made = made.replaced({"flags": np.full(len(made), flags, dtype=np.uint8)})
    (mount,) = client_slots(made, np.arange(len(made)), 0.0)
    return mount.connections[0]


@pytest.mark.parametrize("pause", [0.04, 0.14])
def test_a_flusher_that_keeps_a_number_in_flight_waits_for_slots(pause: float) -> None:
    """The kernel writes a file back, WRITE after WRITE, and no caller waits for any: four in flight are four slots."""
    found = _flushed(pause=pause)
    assert (found.held, found.level, found.limited) == (Held.SLOTS, 4, True)


@pytest.mark.parametrize(
    "changes", [{"flags": 0}, {"gap": 0}, {"gap": 65_536}, {"sent": 1.5}, {"flags": 0, "gap": 0}, {"pause": 0.3}]
)
def test_writes_of_callers_or_behind_a_window_are_no_flusher(changes: dict[str, Any]) -> None:
    """WRITEs that must be on stable storage, go to the same place or leave some out have callers that wait for each;
    what takes long to be sent waits for room in the path; and what comes late waits for something else."""
    assert _flushed(**changes).held is not Held.SLOTS


def test_what_was_exceeded_is_no_number_of_slots() -> None:
    """A call that goes out beside four others, once, says that there are more than four slots."""
    starts, ends = Load(workers=16, slots=4, service=30 * MS).run()
    assert held_at(starts, ends, 0.0, 0).held is Held.LIKELY
    full = np.flatnonzero(starts < ends[len(ends) // 2])[-1]
    more = held_at(np.append(starts, starts[full] + US), np.append(ends, starts[full] + MS), 0.0, 0)
    assert (more.levels.max, more.level, more.held) == (5, 4, Held.EITHER)


def test_workers_that_think_leave_no_flat_top() -> None:
    """Where the level moves up and down nothing holds the client."""
    assert _held(Load(workers=8, think=20 * MS)).held is Held.NOTHING


def test_one_op_at_a_time_is_an_application() -> None:
    """tar and ls wait for each answer before they ask again, however fast: no slot limit."""
    assert _held(Load(workers=1, think=20 * US)).held is Held.NOTHING


def test_replies_that_come_too_close_together_do_not_tell() -> None:
    """64 quick workers on a quick server: a call follows some reply within microseconds by chance alone."""
    found = _held(Load(workers=64, service=4 * MS, think=60 * US))
    assert found.held is Held.EITHER
    assert found.at_once_us < 30
    assert not found.limited


def _without(load: Load, share: float) -> tuple[Any, Any]:
    """The load, with this share of its ops not captured."""
    starts, ends = load.run()
    seen = np.random.default_rng(3).random(len(starts)) >= share
    return starts[seen], ends[seen]


def test_slots_are_found_though_a_tenth_of_the_ops_was_not_captured() -> None:
    """Hidden ops make the level too low now and then; the top is still theirs."""
    found = held_at(*_without(Load(workers=64, slots=16, count=4_000), 0.1), 0.1, 0)
    assert (found.held, found.level) == (Held.LIKELY, 16)


def test_with_much_hidden_it_cannot_be_told() -> None:
    """With 40 % of the ops hidden, or so many that half the level may be, nothing is claimed."""
    assert held_at(*_without(Load(workers=64, slots=16), 0.4), 0.4, 0).held is Held.UNKNOWN
    assert held_at(*_without(Load(workers=8, slots=2), 0.2), 0.2, 0).held is Held.UNKNOWN


def test_a_handful_of_ops_tells_nothing() -> None:
    """Under 100 ops, or none, it cannot be told, and what is not known is None."""
    assert _held(Load(workers=8, slots=2, count=60)).held is Held.UNKNOWN
    none = held_at(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0.0, 0)
    assert (none.held, none.level, none.at_top_share, none.clocked_share) == (Held.UNKNOWN, None, None, None)
    assert none.hint is None


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(-5, 10**8)), max_size=300),
    st.floats(0, 1),
)
def test_any_ops_give_shares_between_nothing_and_all(made: list[tuple[int, int]], hidden: float) -> None:
    """Whatever the times are, even backwards, shares stay between 0 and 1 and the level under the maximum."""
    starts = np.array([a for a, _ in made], dtype=np.int64)
    found = held_at(starts, starts + np.array([b for _, b in made], dtype=np.int64), hidden, 0)
    for share in (found.at_top_share, found.clocked_share):
        assert share is None or 0 <= share <= 1
    assert found.level is None or 1 <= found.level <= found.levels.max
    assert found.ops == found.levels.ops == len(made)


def _table(*loads: tuple[int, Any, Any], connections: tuple[Connection, ...] = CONNECTIONS) -> Ops:
    """Ops of (connection, starts, ends)."""
    rows = [(conn, start, end) for conn, starts, ends in loads for start, end in zip(starts, ends, strict=True)]
    made = (op(start / MS, end / MS, xid, conn=conn) for xid, (conn, start, end) in enumerate(rows, 1))
    return ops(*made, connections=connections)


def _mounts(made: Ops) -> tuple[MountSlots, ...]:
    return client_slots(made, np.arange(len(made)), 0.0)


def test_each_connection_of_a_mount_has_slots_of_its_own() -> None:
    """Two connections with two slots each at the same time: nconnect 2, four slots together, not a top of four."""
    loads = [(conn, *Load(workers=8, slots=2, seed=conn + 1).run()) for conn in (0, 1)]
    (mount,) = _mounts(_table(*loads))
    assert (mount.nconnect, mount.held, mount.slots, mount.levels.max) == (2, Held.LIKELY, 4, 4)
    assert (mount.client, mount.server) == ("10.0.0.1", ("10.0.0.2", 2049))
    assert [one.conn for one in mount.connections] == [0, 1]
    assert mount.at_top_share is not None
    assert mount.at_top_share > 0.9


@pytest.mark.parametrize("nconnect", [11, 16])
def test_as_many_connections_as_a_mount_can_have(nconnect: int) -> None:
    """With nconnect=16 no connection has a tenth of the ops, and all of them count."""
    ends = tuple(Connection("tcp", "10.0.0.1", 700 + n, "10.0.0.2", 2049) for n in range(nconnect))
    loads = [(conn, *Load(workers=4, slots=2, count=150, seed=conn + 1).run()) for conn in range(nconnect)]
    (mount,) = _mounts(_table(*loads, connections=ends))
    assert (mount.nconnect, len(mount.connections)) == (nconnect, nconnect)


def test_a_connection_that_takes_over_is_no_second_one() -> None:
    """After a reconnect from another port one connection is in use, not two."""
    starts, ends = Load(workers=8, slots=2, count=500).run()
    (mount,) = _mounts(_table((0, starts, ends), (1, starts + ends.max() + MS, ends + ends.max() + MS)))
    assert (mount.nconnect, len(mount.connections)) == (1, 2)


def test_other_servers_and_connections_with_few_ops_are_kept_apart() -> None:
    """Each client and server is a mount of its own; a connection that carried the mounting only is not judged."""
    others = (*CONNECTIONS, Connection("tcp", "10.0.0.1", 800, "10.0.0.9", 2049))
    few = Load(workers=1, count=20).run()
    made = _table((0, *Load(workers=8, slots=2, count=500).run()), (1, *few), (4, *few), connections=others)
    first, second = _mounts(made)
    assert [one.conn for one in first.connections] == [0]
    assert (first.ops, second.ops, second.server) == (520, 20, ("10.0.0.9", 2049))
    assert (second.held, second.slots) == (Held.UNKNOWN, None)


def test_no_rows_no_mounts() -> None:
    """Nothing selected is no error."""
    assert client_slots(ops(), np.empty(0, dtype=np.int64), 0.0) == ()


# What holds the client in each capture of the lab: a session of 30 slots holds 32 jobs in the one with two threads.
_LIMITED = {
    "c_v3_slots2": 2,
    "c2_v3_slots2_fast": 2,
    "m_v3_slots16": 16,
    "f_v41_session_slots2": 2,
    "f_v42_nfsd_threads2": 30,
}
_CLIENTS = sorted(SHARED.glob("lab/*/client.pcap*.gz"))


@needs_captures
@needs_native
@pytest.mark.parametrize("path", _CLIENTS, ids=lambda path: path.parent.name)
def test_slots_of_the_lab(decoder: Decoder, path: Any) -> None:
    """On real captures slots are found with their number where they hold the client, and nowhere else."""
    side = decoder.side("native", path)
    callback = np.array([is_callback_program(kind.program) or kind.program != NFS for kind in side.ops.kinds])
    rows = np.flatnonzero(~callback[side.ops.kind])
    mounts = client_slots(side.ops, rows, hidden_share(side.decoded.states))
    assert mounts[0].slots == _LIMITED.get(path.parent.name)
    assert not any(one.limited for mount in mounts[1:] for one in mount.connections)


def _events(*rows: tuple[int, int, int]) -> TcpEvents:
    """Windows of (connection, direction, ns) that were closed."""
    return TcpEvents.from_columns(
        {
            "kind": [TcpEvent.ZERO_WINDOW] * len(rows),
            "conn": [conn for conn, _, _ in rows],
            "reconnect": [0] * len(rows),
            "direction": [way for _, way, _ in rows],
            "frame": [1] * len(rows),
            "t_ns": [0] * len(rows),
            "offset": [-1] * len(rows),
            "value": [ns for _, _, ns in rows],
        }
    )


def _caps(*loads: tuple[int, Load], closed: tuple[tuple[int, int, int], ...]) -> tuple[ConnectionCap, ...]:
    made = _table(*((conn, *load.run()) for conn, load in loads))
    return connection_caps(made, np.arange(len(made)), _events(*closed))


_FULL = (0, Load(workers=200, slots=128, service=40 * MS))
_FAST = (1, Load(workers=4, service=1 * MS))


def test_a_full_connection_with_a_closed_window_beside_fast_ones() -> None:
    """128 in flight on one connection, its window closed twice, 40 ms there and 1 ms on the other: likely a limit."""
    (cap,) = _caps(_FULL, _FAST, closed=((0, 0, 5 * MS), (0, 0, 3 * MS), (1, 1, MS)))
    assert (cap.conn, cap.level, cap.zero_windows, cap.zero_window_ns, cap.others) == (0, 128, 2, 8 * MS, 1)
    assert cap.likely


def test_without_other_connections_a_closed_window_is_told_but_not_explained() -> None:
    """A slow server closes windows too: without a fast connection beside it nothing is likely."""
    (cap,) = _caps(_FULL, closed=((0, 0, MS),))
    assert (cap.others_median_ns, cap.likely) == (None, False)


def test_no_limit_where_the_window_stays_open_or_few_are_in_flight() -> None:
    """Replies that a client does not take close the other direction; 4 in flight are no limit of a connection."""
    assert _caps(_FULL, _FAST, closed=()) == ()
    assert _caps(_FULL, _FAST, closed=((0, 1, MS),)) == ()
    assert _caps(_FULL, _FAST, closed=((1, 0, MS),)) == ()
