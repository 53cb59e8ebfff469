"""The stamps of a capture against the clock of its own host's TCP: what is late, and what waited to be captured."""

from __future__ import annotations

import dataclasses
import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from captures import SHARED
from simulated_peer import MS, World, capture

import nfslat
from nfslat.decode.engine import choose
from nfslat.model.segments import BACK, Segments, Wanted
from nfslat.model.tables import I64, Ops
from nfslat.peer.own import OwnStamps, own_stamps
from nfslat.select import is_reverse

SAMPLES = Path(__file__).parents[2] / "samples"
Stamp = Callable[[I64], I64]


def told(ops: Ops, segments: list[Segments], near: str) -> OwnStamps:
    """Of a capture at `near` that tells."""
    found = own_stamps(ops, np.ones(len(ops), dtype=np.bool_), segments, near)
    assert found is not None
    return found


def in_bursts(t_ns: I64, *, every_ns: int, stall_ns: int) -> I64:
    """Stamps of a program that reads the packets, and does not run now and then: the rest wait for it."""
    since = (t_ns - t_ns[0] - every_ns // 2) % every_ns
    return np.where(since < stall_ns, t_ns - since + stall_ns, t_ns)


def of_own(one: Segments, near: str) -> np.ndarray:
    """Which segments the host of the capture sent; clients open connections, and send in direction 0."""
    return ((one.marks & BACK) > 0) == (near == "server")


@pytest.mark.parametrize("near", ["client", "server"])
@pytest.mark.parametrize(
    "world",
    [
        World(),
        World(connections=4, ops=100),
        World(queue_ns=20 * MS, back_queue_ns=5 * MS),
        World(work_ns=300 * MS, quick=0.1, ops=150),
        World(lost=frozenset(range(20, 400, 20)), tail_probe=frozenset(range(15, 400, 20))),
        World(step_ns=3_000 * MS),
        World(step_ns=-3_000 * MS),
    ],
)
def test_stamps_of_the_kernel_are_not_late(near: str, world: World) -> None:
    """Nor does anything wait before it is captured: whatever the path does, and though the clock was set."""
    ops, segments = capture(dataclasses.replace(world, near=near))
    found = told(ops, segments, near)
    assert found.tick_ns == MS
    assert not found.is_late
    assert not len(found.behind_ns)
    assert found.acknowledged > 50
    assert found.waited_ns.max() < MS
    assert -MS / 2 < found.held_ns < MS / 4


@pytest.mark.parametrize("near", ["client", "server"])
def test_a_clock_of_the_capture_s_own_may_run_at_another_rate(near: str) -> None:
    """As of an adapter, or behind a mirror port: 100 ppm are 200 ms within these captures."""
    ops, segments = capture(World(near=near, gap_ns=5_000 * MS))
    segments = [dataclasses.replace(one, t_ns=one.t_ns + (one.t_ns - one.t_ns[0]) // 10_000) for one in segments]
    found = told(ops, segments, near)
    assert np.ptp(segments[0].t_ns) > 1_000_000 * MS
    assert not found.is_late


@pytest.mark.parametrize("near", ["client", "server"])
def test_a_clock_of_another_machine_may_wander(near: str) -> None:
    """Kept right by NTP, as that behind a mirror port is: 5 ms to and fro within some minutes."""
    ops, segments = capture(World(near=near, gap_ns=1_500 * MS))
    made = []
    for one in segments:
        since = (one.t_ns - one.t_ns[0]) / (300_000 * MS)
        made.append(dataclasses.replace(one, t_ns=one.t_ns + (5 * MS * np.sin(2 * np.pi * since)).astype(np.int64)))
    assert np.ptp(segments[0].t_ns) > 400_000 * MS
    assert not told(ops, made, near).is_late


@pytest.mark.parametrize("near", ["client", "server"])
@pytest.mark.parametrize("stall_ms", [8, 30])
def test_stamps_in_bursts_are_late(near: str, stall_ms: int) -> None:
    """By up to what the capture did not run for, less a tick or two; and it is known where."""
    ops, segments = capture(World(near=near))
    late = {"every_ns": 200 * MS, "stall_ns": stall_ms * MS}
    made = [dataclasses.replace(one, t_ns=in_bursts(one.t_ns, **late)) for one in segments]
    found = told(ops, made, near)
    assert found.is_late
    assert not found.apart_ns
    assert (stall_ms - 4) * MS < found.behind_ns.max() <= stall_ms * MS
    assert (stall_ms - 4) * MS < found.waited_ns.max() <= stall_ms * MS
    was_late = np.sort(made[0].t_ns[made[0].t_ns > segments[0].t_ns])
    assert np.isin(found.late_at_ns, was_late).all()
    # Most ops that have a late stamp are in doubt, and hardly one that has none; what only came in late, and was
    # acknowledged later still, nobody knows.
    columns = {name: in_bursts(getattr(ops, name), **late) for name in ("t0", "t1", "t2", "t3")}
    there = dataclasses.replace(ops, **columns)
    wrong = np.any([getattr(there, name) > getattr(ops, name) + 2 * MS for name in columns], axis=0)
    in_doubt = found.in_doubt(there, np.arange(len(ops)))
    assert in_doubt[wrong].mean() > (0.8 if stall_ms == 30 else 0.4)
    assert in_doubt[~wrong].mean() < 0.2


@pytest.mark.parametrize("near", ["client", "server"])
def test_what_waits_before_its_capture_is_no_late_stamp(near: str) -> None:
    """A queueing discipline holds what the host sends, for 6 ms on the mean; what comes in is stamped in time."""
    rng = np.random.default_rng(3)
    world = World(near=near, work_ns=20 * MS)
    ops, (one,) = capture(world)
    own = of_own(one, near)
    waits = np.where(own, rng.exponential(6 * MS, len(one)), 0).astype(np.int64)
    found = told(ops, [dataclasses.replace(one, t_ns=one.t_ns + waits)], near)
    assert not found.is_late
    assert found.held_ns == pytest.approx(5 * MS, rel=0.2)  # the least wait is not known to be none
    assert found.messages == len(ops)


@pytest.mark.parametrize("near", ["client", "server"])
def test_pacing_puts_time_stamps_ahead(near: str) -> None:
    """What a capture at a bridge has before it is due, up to 2 ms: the rest looks late by that, and none of it is."""
    ops, (one,) = capture(World(near=near))
    paced = of_own(one, near) & (one.size > 0) & (np.arange(len(one)) % 3 > 0)
    stamps = np.where(paced, one.ts_val + np.uint32(2), one.ts_val).astype(np.uint32)
    assert told(ops, [dataclasses.replace(one, ts_val=stamps)], near).is_late
    whole = np.where(one.size > 0, one.size + 1448, 0).astype(np.int32)
    # Positions do not matter here.
    found = told(ops, [dataclasses.replace(one, ts_val=stamps, size=whole)], near)
    assert not found.is_late


@pytest.mark.parametrize("near", ["client", "server"])
@pytest.mark.parametrize("apart_ms", [4, 3_000])
def test_two_clocks_for_what_came_in_and_what_was_sent(near: str, apart_ms: int) -> None:
    """As of an adapter and the kernel: by how much is known to within a tick or two, where something is acknowledged
    at once."""
    ops, (one,) = capture(World(near=near))
    came = ~of_own(one, near)
    made = dataclasses.replace(one, t_ns=one.t_ns + came * apart_ms * MS)
    found = told(ops, [made], near)
    assert found.is_late
    assert (apart_ms - 2) * MS < found.apart_ns <= apart_ms * MS
    # The other way around nothing contradicts: a host may take as long to acknowledge anything.
    assert not told(ops, [dataclasses.replace(one, t_ns=one.t_ns - came * apart_ms * MS)], near).is_late


@pytest.mark.parametrize("near", ["client", "server"])
def test_ticks_that_are_too_long_tell_nothing(near: str) -> None:
    """30 ms are less than a tick of 100 ms: silence."""
    ops, (one,) = capture(World(near=near, gap_ns=50 * MS))
    one = dataclasses.replace(one, t_ns=in_bursts(one.t_ns, every_ns=200 * MS, stall_ns=30 * MS))
    own = of_own(one, near)
    assert told(ops, [one], near).is_late
    coarse = dataclasses.replace(one, ts_val=np.where(own, one.ts_val // 100, one.ts_val).astype(np.uint32))
    found = told(ops, [coarse], near)
    assert found.tick_ns == 100 * MS
    assert not found.is_late


@pytest.mark.parametrize("near", ["client", "server"])
def test_packets_that_a_capture_lost_are_not_late(near: str) -> None:
    """What is acknowledged and is not there came in before what is there."""
    ops, (one,) = capture(World(near=near))
    kept = np.random.default_rng(4).random(len(one)) < 0.8
    found = told(ops, [one.take(kept)], near)
    assert not found.is_late
    assert not len(found.behind_ns)


def test_without_stamps_nothing_is_said() -> None:
    """Nor of a capture whose segments nobody asked for."""
    ops, segments = capture(World(stamped=False))
    every = np.ones(len(ops), dtype=np.bool_)
    assert own_stamps(ops, every, segments, "client") is None
    assert own_stamps(ops, every, [], "client") is None


# --- Whole runs -------------------------------------------------------------------------------------------------------


def stamped_again(source: Path, target: Path, stamp: Stamp, only_from: bytes = b"") -> Path:
    """A capture of tcpdump with other times, in their order. `only_from`: only packets from that IPv4 address."""
    raw = gzip.decompress(source.read_bytes())
    packets, at = [], 24
    while at < len(raw):
        seconds, micros, size, length = struct.unpack_from("<IIII", raw, at)
        packets.append((seconds * 1_000_000_000 + micros * 1_000, size, length, raw[at + 16 : at + 16 + size]))
        at += 16 + size
    was = np.array([one[0] for one in packets])
    own = np.array([only_from in (b"", one[3][26:30]) for one in packets])
    times = np.where(own, stamp(was), was)
    out = [raw[:24]]
    for row in np.argsort(times, kind="stable").tolist():
        _, size, length, data = packets[row]
        seconds, nanos = divmod(int(times[row]), 1_000_000_000)
        out.append(struct.pack("<IIII", seconds, nanos // 1_000, size, length) + data)
    target.write_bytes(b"".join(out))
    return target


def stalls(t_ns: I64) -> I64:
    """Twice a second the capture does not run for 30 ms."""
    return in_bursts(t_ns, every_ns=500 * MS, stall_ns=30 * MS)


@pytest.mark.parametrize("side", ["client", "server"])
def test_the_capture_that_stamps_late_is_named(side: str, tmp_path: Path) -> None:
    """The other one is not; its clock is found as if nothing were wrong, and no direction of the path is blamed."""
    files = {one: SAMPLES / "server-threads" / f"{one}.pcap.gz" for one in ("server", "client")}
    healthy = nfslat.correlate(files["server"], files["client"]).figures
    files[side] = stamped_again(files[side], tmp_path / "late.pcap", stalls)
    report = nfslat.correlate(files["server"], files["client"]).figures
    (said,) = [one for one in report.audit or () if one.code == "capture-late-stamps"]
    assert said.severity == "warning"
    assert said.text.startswith(f"the {side}'s capture stamps packets late: ")
    assert said.text in report.notes
    assert "capture-late-stamps" in {one.code for one in report.findings}
    assert "net-asymmetry" not in {one.code for one in report.findings}
    assert report.clock is not None
    assert healthy.clock is not None
    assert report.clock.fits
    assert not report.clock.steps
    assert report.clock.theta_ms == pytest.approx(healthy.clock.theta_ms, abs=0.05)
    assert report.verdict is not None
    assert report.verdict.confidence != "high"
    assert f"the capture of the {side} stamps packets late" in report.verdict.reasons[-1]


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_capture_that_stamps_late_is_named_by_itself(side: str, tmp_path: Path) -> None:
    """One capture is enough for it; with right stamps nothing is said."""
    own = SAMPLES / "server-threads" / f"{side}.pcap.gz"
    assert "capture-late-stamps" not in {one.code for one in nfslat.inspect(own).figures.audit or ()}
    report = nfslat.inspect(stamped_again(own, tmp_path / "late.pcap", stalls)).figures
    (said,) = [one for one in report.audit or () if one.code == "capture-late-stamps"]
    assert said.text.startswith(f"the {side}'s capture stamps packets late: ")
    assert report.verdict is not None
    assert f"the capture of the {side} stamps packets late" in report.verdict.reasons


@pytest.mark.parametrize(("side", "other"), [("server", 2), ("client", 1)])
def test_two_clocks_in_a_file_that_was_sorted(side: str, other: int, tmp_path: Path) -> None:
    """Received packets 8 ms later than sent ones: said, by how much at least, and nothing is sure."""
    files = {one: SAMPLES / "server-threads" / f"{one}.pcap.gz" for one in ("server", "client")}
    sent = bytes([10, 77, 0, other])
    files[side] = stamped_again(files[side], tmp_path / "apart.pcap", lambda t_ns: t_ns + 8 * MS, sent)
    report = nfslat.correlate(files["server"], files["client"]).figures
    (said,) = [one for one in report.audit or () if one.code == "capture-late-stamps"]
    (apart_ms,) = re.findall(rf"in the {side}'s capture what came in is stamped ([\d.]+) ms later", said.text)
    assert 6 < float(apart_ms) <= 8
    assert report.verdict is not None
    assert report.verdict.confidence == "low"


@pytest.mark.skipif(not SHARED.exists(), reason="no captures at ../shared")
@pytest.mark.parametrize(("side", "host"), [("server", 1), ("client", 2)])
def test_a_queueing_discipline_is_not_the_server_s_threads(side: str, host: int, tmp_path: Path) -> None:
    """Half of what a host sends waits 18 of the path's 20 ms below its TCP, in front of its capture point."""
    rng = np.random.default_rng(5)
    files = {one: SHARED / "lab2" / "two_causes_threads_net" / f"{one}.pcap.gz" for one in ("server", "client")}
    sent = bytes([10, 77, 0, host])

    def waits(t_ns: I64) -> I64:
        return t_ns + rng.choice([0, 18 * MS], len(t_ns))

    files[side] = stamped_again(files[side], tmp_path / "held.pcap", waits, sent)
    report = nfslat.correlate(files["server"], files["client"]).figures
    assert not [one for one in report.audit or () if one.code == "capture-late-stamps"]
    (said,) = [one for one in report.notes if "on average" in one and "TSval" in one]
    assert said.startswith("of the server's " if side == "server" else "calls wait ")
    (wait_ms,) = re.findall(r"wait ([\d.]+) ms", said)
    assert 8 < float(wait_ms) < 10


@pytest.mark.skipif(not SHARED.exists(), reason="no captures at ../shared")
def test_no_real_capture_of_a_host_is_late(tmp_path: Path) -> None:
    """Of all captures of the lab at both hosts: no stamp that is late, and nothing that waits before it is captured."""
    engine = choose("native", lambda: pytest.fail("no tool"), tmp_path, rereads=False, segments=Wanted.SOME)
    count = 0
    for path in sorted(path for lab in ("lab", "lab2") for path in (SHARED / lab).glob("*/*.pcap.gz")):
        decoded = engine.decode(engine.open(str(path)), lambda _: None)[1]
        forward = ~decoded.ops.spread(is_reverse(decoded.ops))
        found = own_stamps(decoded.ops, forward, decoded.segments, path.name.partition(".")[0])
        assert found is not None, path
        assert not len(found.behind_ns), path
        assert abs(found.held_ns) < 0.5 * found.tick_ns, path
        assert np.mean(found.waited_ns > found.much_ns) < 0.02, path
        count += 1
    assert count > 80
