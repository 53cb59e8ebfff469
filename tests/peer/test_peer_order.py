"""One capture: in which order the other host had and sent what, and what that says of its slots and threads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from simulated_peer import MS, World, capture, closed_loop

from nfslat.inflight.slots import Held, client_slots, held_at
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Loose, Ops, State
from nfslat.peer.infer import Found, infer
from nfslat.peer.inferred import Stamps
from nfslat.peer.instants import Between, in_sequence

US = 1_000
AT_SERVER = World(near="server", ops=1_500, queue_ns=150 * US, back_queue_ns=150 * US)


def found_of(ops_and_segments: tuple[Ops, object]) -> Found:
    """What is inferred of all ops."""
    ops, segments = ops_and_segments
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments, AT_SERVER.near)  # type: ignore[arg-type]
    assert isinstance(found, Found), found
    return found


def held_by(found: Found, *, stamped: bool = True) -> Held:
    """What is found to hold the client."""
    rows = np.flatnonzero(found.known)
    return client_slots(found.ops, rows, 0.0, found.inferred.stamps if stamped else None)[0].held


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slots", [2, 8])
def test_slots_show_at_the_server(slots: int, seed: int) -> None:
    """A client that sends the next call 50 us after a reply keeps exactly so many in flight, in its server's capture
    alone, though the path moves packets by three times as much."""
    found = found_of(closed_loop(dataclasses.replace(AT_SERVER, seed=seed), slots, 50 * US))
    one = client_slots(found.ops, np.flatnonzero(found.known), 0.0, found.inferred.stamps)[0].connections[0]
    assert (one.held, one.level) == (Held.LIKELY, slots)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workers", [2, 8])
def test_workers_are_no_slots_at_the_server(workers: int, seed: int) -> None:
    """Workers that take 400 us between a reply and the next call keep as many in flight, and are none."""
    found = found_of(closed_loop(dataclasses.replace(AT_SERVER, seed=seed), workers, 400 * US))
    assert held_by(found) is not Held.LIKELY


def test_no_more_are_in_flight_than_there_are_slots() -> None:
    """What the client acknowledges says how many replies it had when it sent a call: levels are exact."""
    found = found_of(closed_loop(AT_SERVER, 4, 50 * US))
    rows = np.flatnonzero(found.known)
    starts, ends = np.sort(found.ops.t0[rows]), np.sort(found.ops.t3[rows])
    level = np.arange(1, len(rows) + 1) - np.searchsorted(ends, starts, side="right")
    assert level.max() <= 4


def _full(turn_ns: int) -> tuple[I64, I64]:
    """Two calls in flight all the time, each sent so long after a reply; in order."""
    ends = np.arange(1, 401) * MS
    return np.concatenate([[0, 1], ends[:-2] + turn_ns]), ends


@pytest.mark.parametrize(("late_ns", "held"), [(60 * US, Held.LIKELY), (500 * US, Held.EITHER)])
def test_the_clients_own_clock_has_the_last_word(late_ns: int, held: Held) -> None:
    """By inferred instants calls follow at once; by ticks of 1 ms of the client's clock, 0.06 or 0.5 ms later."""
    starts, ends = _full(20 * US)
    phase = np.random.default_rng(1).integers(0, MS, len(ends))
    had = (ends + phase) // MS * MS
    called = np.full(len(starts), NULL)
    called[2:] = (ends[:-2] + phase[:-2] + late_ns) // MS * MS
    assert held_at(starts, ends, 0.0, 0, stamps=Stamps(called, had, MS)).held is held


def test_without_acks_of_their_own_nothing_is_said_of_slots() -> None:
    """A reply that only the next call acknowledges may have come long before it."""
    starts, ends = _full(20 * US)
    unknown = Stamps(np.zeros(len(starts), dtype=np.int64), np.full(len(ends), NULL), MS)
    assert held_at(starts, ends, 0.0, 0).held is Held.LIKELY
    assert held_at(starts, ends, 0.0, 0, stamps=unknown).held is Held.EITHER


def test_what_happened_in_one_tick_keeps_its_order() -> None:
    """Times since 1970 have no finer steps than 256 ns in float64: one after the other must be apart all the same."""
    epoch = 1.7e18
    at = np.full(4, epoch)
    low, high = at - MS, at + MS
    had = Between(low, at, high, np.array([2, 2, 6, 6]))
    sent = Between(low, at, high, np.array([5, 5, 9, 9]))
    frames = np.array([1, 2, 3, 4], dtype=np.int32)
    one, other = in_sequence([had, sent], [frames, frames])
    got = np.concatenate([one.at[:2], other.at[:2], one.at[2:], other.at[2:]])
    assert (np.diff(got) > 0).all()
    assert got[-1] - got[0] < 10 * US


def test_a_clock_that_is_set_back_moves_nothing_behind_it() -> None:
    """What comes behind a step of three seconds is not put in front of it."""
    at = np.array([1.7e18, 1.7e18 - 3_000 * MS])
    place = np.array([1, 3])
    (found,) = in_sequence([Between(at, at, at, place)], [np.array([1, 2], dtype=np.int32)])
    assert (found.at == at).all()


def test_messages_without_an_op_are_where_the_others_are() -> None:
    """A reply whose call the capture does not show left the server when its time stamp says, as those of ops did: else
    it would be answered behind replies that followed it."""
    world = World(back_queue_ns=3 * MS)
    ops, segments = capture(world)
    asked = np.concatenate([ops.reply_first_frame, ops.reply_last_frame])
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments, frames=asked)
    assert isinstance(found, Found)
    rows = np.flatnonzero(found.known)[5:50]
    columns = dict.fromkeys(Loose.columns(), np.zeros(len(rows), dtype=np.int64))
    columns |= {
        "is_reply": np.ones(len(rows)),
        "state": np.full(len(rows), State.NO_CALL),
        "op": np.full(len(rows), NULL),
        "first_frame": ops.reply_first_frame[rows],
        "last_frame": ops.reply_last_frame[rows],
        "first_ns": ops.t2[rows],
        "last_ns": ops.t3[rows],
    }
    moved = found.there(Loose.from_columns(columns, kinds=ops.kinds, connections=ops.connections))
    assert np.abs(moved.first_ns - found.ops.t2[rows]).max() < MS
    assert (moved.first_ns < ops.t2[rows]).all()


@pytest.mark.parametrize("held_ms", [0, 3])
def test_calls_that_nothing_acknowledges_may_have_been_on_their_way(held_ms: int) -> None:
    """Where only replies acknowledge calls, nobody knows whether the server took long or the path to it: the mean is
    said to be off by as much as that."""
    world = World(quick=0.0, work_ns=MS, queue_ns=held_ms * MS + 50 * US, ops=300)
    ops, segments = capture(world)
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments, "client")
    assert isinstance(found, Found)
    rows = np.flatnonzero(found.known)
    error = abs((found.ops.t2 - found.ops.t1)[rows].mean() - world.truth["server"][rows].mean())
    assert error <= found.inferred.mean_error_ns(rows)
    assert found.inferred.mean_error_ns(rows) > MS / 2
