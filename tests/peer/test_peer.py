"""One capture, of simulated hosts: what is said of the other host holds, whatever clocks, path and ACKs are like."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from simulated_peer import MS, World, by_connection, capture, joined

from nfslat.model.segments import RST, SYN
from nfslat.peer import heard
from nfslat.peer.heard import TICKS_NS, tick_of
from nfslat.peer.infer import Found, infer
from nfslat.tcp import packets

US = 1_000


def found_of(world: World) -> Found:
    """What is inferred of the other host."""
    ops, segments = capture(world)
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments)
    assert isinstance(found, Found), found
    return found


def holds(world: World, *, all_but: float = 0.01) -> Found:
    """Bounds hold the truth, but for so many ops; and the mean is as good as it says. Returns what was inferred."""
    found = found_of(world)
    other = "server" if world.near == "client" else "client"
    assert found.inferred.side == other
    assert found.inferred.vantage.place == world.near
    assert found.known.mean() >= 1 - all_but
    rows = np.flatnonzero(found.known)
    truth = world.truth[other][rows]
    said = (found.ops.t2 - found.ops.t1 if other == "server" else found.ops.t3 - found.ops.t0)[rows]
    inside = (truth >= found.inferred.low_ns[rows]) & (truth <= found.inferred.high_ns[rows])
    assert inside.mean() >= 1 - all_but
    assert abs(said.mean() - truth.mean()) <= found.inferred.mean_error_ns(rows)
    assert (said >= 0).all()
    return found


@pytest.mark.parametrize("near", ["client", "server"])
@pytest.mark.parametrize(
    ("tick_ns", "drift_ppm"), list(itertools.product((US, MS, 4 * MS, 10 * MS), (0.0, 40.0, -500.0)))
)
def test_bounds_hold_by_any_clock(near: str, tick_ns: int, drift_ppm: float) -> None:
    """Ticks of 1 us to 10 ms, drift of up to 500 ppm: bounds and means hold at either end, and the tick is found."""
    found = holds(World(tick_ns=tick_ns, drift_ppm=drift_ppm, near=near, gap_ns=20 * MS))
    assert found.inferred.tick_ns == tick_ns


@pytest.mark.parametrize("seed", range(5))
def test_the_error_of_an_op_is_less_than_a_tick(seed: int) -> None:
    """With a quiet path and a tick of 1 ms the median error of an op is below half of it."""
    world = World(seed=seed, queue_ns=10 * US, back_queue_ns=10 * US)
    found = holds(world)
    assert np.median(np.abs(found.ops.t2 - found.ops.t1 - world.truth["server"])) < MS / 2


def test_connections_have_offsets_of_their_own() -> None:
    """Eight connections, each with stamps from a random number on, which wrap around: all are of one clock."""
    holds(World(connections=8, ops=100, drift_ppm=100.0))


@pytest.mark.parametrize("delay_ms", [40, 200])
def test_delayed_acks_are_not_the_networks(delay_ms: int) -> None:
    """A server that takes long, and acknowledges calls by a timer: what the ACK waits is the server's time."""
    world = World(work_ns=300 * MS, quick=0.1, delay_ns=delay_ms * MS, ops=150)
    found = holds(world)
    error = (found.ops.t2 - found.ops.t1).mean() - world.truth["server"].mean()
    assert abs(error) < MS


def test_a_timer_may_be_all_that_is_seen_of_the_round_trip() -> None:
    """Where every call is acknowledged by a timer of 40 ms, that may be the path as well: the bounds leave it open."""
    world = World(work_ns=600 * MS, quick=0.0, ops=100, seed=3)
    found = found_of(world)
    truth = world.truth["server"]
    assert np.mean((truth >= found.inferred.low_ns) & (truth <= found.inferred.high_ns)) >= 0.99
    said = (found.ops.t2 - found.ops.t1).mean()
    assert abs(said - truth.mean()) <= found.inferred.mean_error_ns(np.arange(len(truth)))


@pytest.mark.parametrize("near", ["client", "server"])
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_handshake_that_waited_is_no_shortest_round_trip(
    near: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a far path with queues, and no ACK but the handshake's: by how much that waited is left open."""
    monkeypatch.setattr(heard, "_opened_ns", lambda rows, near: 22 * MS)  # 6 ms more than the path takes
    far = World(out_ns=8 * MS, back_ns=8 * MS, queue_ns=3 * MS, back_queue_ns=3 * MS)
    holds(dataclasses.replace(far, work_ns=40 * MS, quick=0.0, delay_ns=4_000 * MS, near=near, seed=seed))


def test_a_queue_on_the_way_back_is_not_the_servers() -> None:
    """Replies that wait 20 ms on the path are not charged to a server that takes 1 ms."""
    world = World(work_ns=MS, back_queue_ns=20 * MS)
    found = holds(world)
    assert (found.ops.t2 - found.ops.t1).mean() < 2 * MS
    assert world.truth["client"].mean() > 15 * MS


@pytest.mark.parametrize("step_s", [3, -3])
def test_the_clock_of_the_capture_is_set(step_s: int) -> None:
    """Ops before and behind the step are right; what was under way is not known."""
    holds(World(step_ns=step_s * 1_000 * MS), all_but=0.02)


def test_a_call_that_was_lost_is_not_the_servers() -> None:
    """200 ms until a call was sent again are the network's."""
    world = World(lost=frozenset(range(20, 400, 20)), quick=1.0)
    found = holds(world)
    lost = [20, 40, 60]
    assert (found.ops.t2 - found.ops.t1)[lost].max() < 100 * MS


def test_what_was_sent_again_for_nothing_is_the_servers() -> None:
    """A tail loss probe brings about an ACK that says so (D-SACK): the call had come the first time."""
    probed = frozenset(range(20, 400, 20))
    world = World(tail_probe=probed, quick=0.0)
    found = holds(world)
    assert (found.ops.t2 - found.ops.t1)[sorted(probed)].min() > 80 * MS


def test_a_clock_that_is_known_less_well_than_ops_take_infers_nothing() -> None:
    """Ops of 0.1 ms beside a tick of 100 ms: no mean, rather than one of that width."""
    ops, segments = capture(World(tick_ns=100 * MS, work_ns=100 * US, gap_ns=20 * MS))
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments)
    assert isinstance(found, str)
    assert "ms only, and operations take" in found


def test_bounds_that_contradict_each_other_infer_nothing() -> None:
    """Stamps of a tenth of the segments that are of another clock, as a box in between would write them."""
    ops, segments = capture(World())
    odd = segments[0].ts_val.copy()
    odd[::10] += 5_000
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), [dataclasses.replace(segments[0], ts_val=odd)])
    assert isinstance(found, str) or np.mean(found.inferred.low_ns > found.inferred.high_ns) <= 0.05


def test_an_op_whose_connection_was_lost_has_wide_bounds() -> None:
    """Sent again on another connection, a call may have come the first time, or not: nobody saw that, and the response
    time at the client is measured all the same."""
    ops, segments = capture(World(connections=2))
    again = ops.transmissions.copy()
    again[5:9] = 2
    rows, half = joined(segments)
    moved = np.isin(rows.frame, ops.reply_first_frame[5:9])
    half[moved] = 1 - half[moved]
    ops_again = dataclasses.replace(ops, transmissions=again)
    found = infer(ops_again, np.ones(len(ops), dtype=np.bool_), by_connection(rows, half))
    assert isinstance(found, Found)
    assert found.known.all()
    low_ns, high_ns = found.inferred.low_ns[5:9], found.inferred.high_ns[5:9]
    assert (low_ns == 0).all()
    assert (high_ns >= ops.t2[5:9] - ops.t1[5:9] - found.inferred.round_trip_ns - 1_000_000).all()


def test_a_capture_on_the_way_is_told_from_one_at_a_host() -> None:
    """Where neither host answers the capture at once, nothing is inferred."""
    ops, segments = capture(World(tap_ns=60 * US))
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments)
    assert isinstance(found, str)
    assert "between" in found


@pytest.mark.parametrize("tick_ns", TICKS_NS[:6].tolist())
def test_ticks_are_told_by_their_rate(tick_ns: int) -> None:
    """From stamps alone, also where the clock of the capture was set in between; not from a handful of ticks."""
    ticks = np.arange(0, 2_000, 3)
    times = ticks * tick_ns + np.random.default_rng(2).integers(0, tick_ns, len(ticks))
    assert tick_of(times, ticks) == tick_ns
    assert tick_of(times + np.where(ticks > 900, 5_000 * tick_ns, 0), ticks) == tick_ns
    assert tick_of(times[:5], ticks[:5]) is None
    assert tick_of((times * 1.5).astype(np.int64), ticks) is None


def test_numbers_are_those_of_the_decoder() -> None:
    """Flags of segments are those that packets have elsewhere."""
    assert (SYN, RST) == (packets.SYN, packets.RST)


def test_a_coarse_clock_contradicts_the_stamps() -> None:
    """A capture that stamps to 10 ms holds nothing that stamps of 1 ms could be held against: that is said, or the
    bounds hold all the same."""
    world = World(work_ns=MS, back_queue_ns=0)
    ops, segments = capture(world)
    segments = [dataclasses.replace(one, t_ns=one.t_ns // (10 * MS) * (10 * MS)) for one in segments]
    columns = {name: getattr(ops, name) for name in ops.columns()}
    columns |= {name: getattr(ops, name) // (10 * MS) * (10 * MS) for name in ("t0", "t1", "t2", "t3")}
    ops = type(ops)(**columns, kinds=ops.kinds, connections=ops.connections)
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments, side="client")
    assert isinstance(found, str)
    assert "contradict" in found
