"""One capture without the other host's clock in it: bounds by acknowledgements, replies and other ops hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from simulated_peer import MS, World, capture
from udp_captures import Load, captures

import nfslat
from nfslat.model.protocol import NULL32
from nfslat.model.segments import BACK, Segments
from nfslat.model.tables import I64, U32
from nfslat.peer.datagrams import quickest_kind
from nfslat.peer.heard import exchange
from nfslat.peer.infer import Found, infer
from nfslat.peer.path import Waits, least_round_trip, waits

_MOST = 0.9  # of the ops: bounds that rest on what is usual hold for 95 %, more or less


def found_of(world: World) -> Found:
    ops, segments = capture(world)
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments)
    assert isinstance(found, Found), found
    return found


def holds(world: World) -> Found:
    """Bounds hold the truth in most ops, and the mean is as good as it says. Returns what was inferred."""
    found = found_of(world)
    other = "server" if world.near == "client" else "client"
    assert found.inferred.side == other
    assert not found.inferred.clocked.any()
    rows = np.flatnonzero(found.known)
    assert len(rows) > 0.97 * len(found.known)
    truth = world.truth[other][rows]
    said = (found.ops.t2 - found.ops.t1 if other == "server" else found.ops.t3 - found.ops.t0)[rows]
    inside = (truth >= found.inferred.low_ns[rows]) & (truth <= found.inferred.high_ns[rows])
    assert inside.mean() >= _MOST
    assert abs(said.mean() - truth.mean()) <= found.inferred.mean_error_ns(rows)
    return found


@pytest.mark.parametrize("near", ["client", "server"])
@pytest.mark.parametrize(
    "world",
    [
        World(),
        World(queue_ns=10_000, back_queue_ns=10_000),
        World(quick=1.0, seed=7),
        World(work_ns=50 * MS, quick=0.2),
        World(out_ns=10 * MS, back_ns=30 * MS),
        World(gap_ns=3_000 * MS),
        World(connections=8, ops=100),
        World(lost=frozenset(range(20, 400, 20)), quick=1.0),
        World(tail_probe=frozenset(range(20, 400, 20)), quick=0.3),
    ],
    ids=["usual", "quiet", "quick", "slow", "far", "rare", "connections", "lost", "probes"],
)
def test_bounds_hold_without_a_clock(world: World, near: str) -> None:
    """Distance, loss, delayed ACKs, several connections: at either end, for ops and for the mean."""
    holds(dataclasses.replace(world, near=near, stamped=False))


def test_bounds_hold_on_any_path() -> None:
    """Distances, queues, server times, timers, loss and ACKs drawn at random: where anything is inferred, bounds hold
    95 % of the ops and more, all in all, nowhere much less, and the mean is within its error but for chance (1 of 60).
    """
    rng = np.random.default_rng(7)
    held, wrong = [], 0
    for _ in range(60):
        world = _any_world(rng)
        ops, segments = capture(world)
        found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments)
        if isinstance(found, str):
            continue
        rows = np.flatnonzero(found.known)
        truth = world.truth[found.inferred.side][rows]
        at_server = found.inferred.side == "server"
        said = (found.ops.t2 - found.ops.t1 if at_server else found.ops.t3 - found.ops.t0)[rows]
        held.append(np.mean((truth >= found.inferred.low_ns[rows]) & (truth <= found.inferred.high_ns[rows])))
        wrong += abs(said.mean() - truth.mean()) > found.inferred.mean_error_ns(rows)
    assert len(held) > 40
    assert np.mean(held) >= 0.95
    assert np.quantile(held, 0.05) >= 0.9
    assert wrong <= 1


def _any_world(rng: np.random.Generator) -> World:
    """Times from 0.03 ms to 100, by their logarithms."""
    out, back, out_queue, back_queue, work, gap = (
        int(10 ** rng.uniform(*span)) for span in [(4.5, 7.5)] * 2 + [(4, 7)] * 2 + [(5, 8)] * 2
    )
    return World(
        *(int(rng.integers(1 << 30)), MS, 0.0, out, back, out_queue, back_queue, work),
        quick=float(rng.choice([0.0, 0.05, 0.3, 0.7, 1.0])),
        delay_ns=int(rng.choice([40, 100, 200])) * MS,
        stamped=False,
        connections=int(rng.integers(1, 4)),
        ops=int(rng.integers(100, 400)),
        gap_ns=gap,
        lost=frozenset(range(20, 400, 50)) if rng.random() < 0.2 else frozenset(),
        near=str(rng.choice(["client", "server"])),
    )


@pytest.mark.parametrize("seed", range(3))
def test_bare_acks_tell_nearly_as_much_as_a_clock(seed: int) -> None:
    """Where half of the calls are acknowledged at once, the mean is known to within a tenth of a millisecond."""
    found = holds(World(seed=seed, stamped=False))
    assert found.inferred.mean_error_ns(np.flatnonzero(found.known)) < 0.2 * MS


@pytest.mark.parametrize("queue", ["queue_ns", "back_queue_ns"])
@pytest.mark.parametrize("quick", [0.0, 0.5])
def test_a_path_that_may_take_it_all_leaves_it_open(queue: str, quick: float) -> None:
    """Messages wait for 20 ms on the path and for 1 ms in the server: no estimate that excludes the path."""
    world = World(work_ns=MS, quick=quick, stamped=False, **{queue: 20 * MS})
    found = holds(world)
    assert found.inferred.mean_error_ns(np.flatnonzero(found.known)) > world.truth["client"].mean() / 2


def _waits(world: World) -> Waits:
    _, (segments,) = capture(world)
    one = exchange(segments, 0 if world.near == "client" else BACK)
    found = waits(one, least_round_trip(one).ns)
    assert found is not None
    return found


def test_a_timer_is_told_from_a_queue() -> None:
    """ACKs that come 40 ms late in a heap waited for a timer, which is not the path's; those of a queue are spread."""
    timer = _waits(World(work_ns=300 * MS, quick=0.3, ops=200))
    assert timer.are_timers
    assert timer.mean_ns < MS
    queue = _waits(World(work_ns=MS, back_queue_ns=60 * MS))
    assert not queue.are_timers
    assert queue.mean_ns > 30 * MS


def _stripped(stamps: U32) -> U32:
    return np.full_like(stamps, NULL32)


def _still(stamps: U32) -> U32:
    return np.zeros_like(stamps)


def _random(stamps: U32) -> U32:
    return np.random.default_rng(5).integers(0, 1 << 32, len(stamps), dtype=np.uint32)


@pytest.mark.parametrize("box", [_stripped, _still, _random])
def test_a_box_may_remove_stamps_or_write_over_them(box: Callable[[U32], U32]) -> None:
    """All that it can leave says the same: what is known without them."""
    world = World()
    ops, segments = capture(world)
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), [_boxed(one, box) for one in segments])
    plain = found_of(World(stamped=False))
    assert isinstance(found, Found)
    assert not found.inferred.clocked.any()
    assert (found.ops.t1 == plain.ops.t1).all()
    assert (found.inferred.low_ns == plain.inferred.low_ns).all()
    assert (found.inferred.high_ns == plain.inferred.high_ns).all()


def _boxed(one: Segments, box: Callable[[U32], U32]) -> Segments:
    return dataclasses.replace(one, ts_val=box(one.ts_val))


@pytest.mark.parametrize("near", ["client", "server"])
def test_each_connection_has_its_own_basis(near: str) -> None:
    """Stamps are gone from one of two connections: its ops say so, and the others are as good as with stamps."""
    world = World(connections=2, near=near)
    ops, segments = capture(world)
    segments[1] = _boxed(segments[1], _stripped)
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments)
    assert isinstance(found, Found)
    assert (found.inferred.clocked == (ops.conn == 0)).all()
    truth = world.truth["server" if near == "client" else "client"]
    inside = (truth >= found.inferred.low_ns) & (truth <= found.inferred.high_ns)
    assert inside[ops.conn == 0].mean() >= 0.99
    assert inside[ops.conn == 1].mean() >= _MOST
    assert found.inferred.is_clocked(np.flatnonzero(ops.conn == 0))
    assert not found.inferred.is_clocked(np.flatnonzero(ops.conn == 1))


@pytest.mark.parametrize("near", ["client", "server"])
def test_udp_beside_tcp(near: str) -> None:
    """Each by its own: with TCP's stamps as good as ever; UDP between nothing and what the client saw, and at the
    server not at all."""
    world = World(connections=2, near=near)
    ops, segments = capture(world)
    over_udp = dataclasses.replace(ops.connections[1], transport="udp")
    ops = dataclasses.replace(ops, connections=(ops.connections[0], over_udp))
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments[:1])
    assert isinstance(found, Found)
    tcp, udp = ops.conn == 0, ops.conn == 1
    assert (found.inferred.clocked == tcp).all()
    truth = world.truth["server" if near == "client" else "client"]
    inside = (truth >= found.inferred.low_ns) & (truth <= found.inferred.high_ns)
    assert found.known[tcp].all()
    assert inside[tcp].mean() >= 0.99
    if near == "server":
        assert not found.known[udp].any()
        return
    assert found.known[udp].all()
    assert inside[udp].all()
    assert abs((found.ops.t2 - found.ops.t1 - truth)[udp].mean()) <= found.inferred.mean_error_ns(np.flatnonzero(udp))


def test_a_host_that_answers_by_a_timer_only_is_not_taken_for_the_other() -> None:
    """A server that acknowledges nothing before its reply, 300 ms later, does not make its capture the client's."""
    ops, segments = capture(World(near="server", work_ns=300 * MS, quick=0.0, stamped=False, ops=150))
    found = infer(ops, np.ones(len(ops), dtype=np.bool_), segments)
    assert isinstance(found, str)
    assert "between" in found


# --- UDP --------------------------------------------------------------------------------------------------------------


def _alone(load: Load, folder: Path) -> tuple[nfslat.Report, float, float]:
    """What the client's capture says; and mean server and client SRT by both, ms."""
    server, client = captures(load, folder)
    both = nfslat.correlate(server, client).correlation
    return nfslat.inspect(client), float(both.server_srt_ns.mean()) / MS, float(both.client_srt_ns.mean()) / MS


@pytest.mark.parametrize(
    "load",
    [Load(), Load(getattr_ms=5.0), Load(getattrs=0.0), Load(read_ms=0.3, queue_ms=10.0), Load(read_ms=20, queue_ms=2)],
    ids=["slow reads", "all slow", "one kind", "slow path", "both"],
)
def test_over_udp_the_truth_lies_within_what_is_said(load: Load, tmp_path: Path) -> None:
    """Of ops as of the mean, wherever the time goes."""
    report, server_ms, _ = _alone(load, tmp_path)
    c, figures = report.correlation, report.figures
    assert c.inferred is not None
    assert figures.inferred is not None
    assert figures.matched is not None
    assert figures.matched.total is not None
    assert figures.inferred.unstamped == figures.inferred.ops == load.ops
    found_ms = float(c.server_srt_ns.mean()) / MS
    assert abs(found_ms - server_ms) <= figures.inferred.mean_error_ms
    true_ns = nfslat.correlate(tmp_path / "server.pcap", tmp_path / "client.pcap").correlation.server_srt_ns
    rows = c.matched.client
    inside = (true_ns >= c.inferred.low_ns[rows] - 1_000) & (true_ns <= c.inferred.high_ns[rows] + 1_000)
    assert inside.mean() >= 0.95


def test_quick_ops_beside_slow_ones_clear_the_path(tmp_path: Path) -> None:
    """The path does not look at what an operation does: that reads take 5 ms beside GETATTRs of 0.3 is the server's."""
    report, *_ = _alone(Load(), tmp_path)
    assert report.verdict is not None
    assert (report.verdict.outcome, report.verdict.layer) == ("fault", "server")
    assert report.verdict.confidence != "high"
    text = " ".join(report.text().split())
    assert "from acknowledgements, replies and other operations alone, as no clock of the server's is in" in text
    assert "this is taken for the capture of a client" in text


def test_ops_tell_of_a_queue_only_where_it_is() -> None:
    """Eight writes at once make a queue of their own, in which no GETATTR stands that is called between two bursts:
    then no kind is quicker on the path than they are."""
    bursts = np.arange(60)[:, None] * 100 * MS
    writes = (bursts + np.arange(8)).ravel(), (bursts + np.arange(1, 9) * 5 * MS).ravel()
    others = (bursts + 60 * MS + np.arange(2) * 2 * MS).ravel(), (bursts + 60 * MS + np.arange(2) * 2 * MS + MS).ravel()
    took_ns = (writes[1] - writes[0]).mean()
    assert _quickest(writes, others).mean_ns == pytest.approx(took_ns, rel=0.1)
    beside = others[0] - 59 * MS, others[1] - 59 * MS
    assert _quickest(writes, beside).mean_ns == pytest.approx(MS)


def _quickest(*ops: tuple[I64, I64]) -> Waits:
    """Of ops that begin and end then, each of a kind."""
    kind = np.repeat(np.arange(len(ops), dtype=np.int16), [len(begin) for begin, _ in ops])
    begin, end = (np.concatenate([one[at] for one in ops]) for at in (0, 1))
    order = np.argsort(begin, kind="stable")
    found = quickest_kind(kind[order], begin[order], end[order], 0.0)
    assert found is not None
    return found


@pytest.mark.parametrize("load", [Load(getattr_ms=5.0), Load(getattrs=0.0), Load(read_ms=0.3, queue_ms=10.0)])
def test_over_udp_what_is_slow_throughout_is_left_open(load: Load, tmp_path: Path) -> None:
    """Neither the server nor the path is named where either may take it all."""
    report, *_ = _alone(load, tmp_path)
    assert report.verdict is not None
    assert report.verdict.outcome == "undecided"
    assert report.verdict.next is not None


def test_a_servers_capture_over_udp_says_nothing_of_its_clients(tmp_path: Path) -> None:
    """No packet says when a client had a reply."""
    server, _ = captures(Load(clients=3, ops=100), tmp_path)
    report = nfslat.inspect(server)
    assert report.summary.inferred is None
    (note,) = [one for one in report.summary.notes if one.startswith("nothing is inferred")]
    assert "captured at the server, where no packet says when a client had a reply" in note
