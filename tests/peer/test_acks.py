"""Bare ACKs that are in both captures narrow what few ops say of the two clocks, and never exclude the truth."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest

from nfslat.clock.clock import Clock
from nfslat.clock.more import narrowed
from nfslat.clock.theta import find_clock
from nfslat.decode.engine import choose
from nfslat.model.segments import Segments, Wanted
from nfslat.model.tables import Matched
from nfslat.peer.acks import acks_of_both
from nfslat.pipeline import compare, side_of
from nfslat.results import Correlation
from nfslat.select import Filters

SAMPLES = Path(__file__).parents[2] / "samples"
PAIRS = sorted(path.parent.name for path in SAMPLES.glob("*/server.pcap.gz"))
US = 1_000


@functools.cache
def pair(name: str) -> tuple[Correlation, tuple[list[Segments], list[Segments]]]:
    """Both captures, compared by all ops, and their segments."""
    engine = choose("native", lambda: pytest.fail("no tool"), Path(), rereads=False, segments=Wanted.SOME)
    sides, talks = [], []
    for one in ("server", "client"):
        source, decoded = engine.decode(engine.open(str(SAMPLES / name / f"{one}.pcap.gz")), lambda _: None)
        sides.append(side_of(source, decoded))
        talks.append(decoded.segments.copy())
    return compare(*sides, filters=Filters(), srt="nfslat", may_swap=False), (talks[0], talks[1])


def by_few(name: str, rows: Matched) -> tuple[Clock, Clock]:
    """The clocks by some ops, and by their ACKs, too."""
    c, talks = pair(name)
    clock = find_clock(c.server.ops, c.client.ops, rows)
    return clock, narrowed(clock, *acks_of_both(c.server.ops, c.client.ops, rows, talks))


def width(clock: Clock) -> int:
    """Of the bounds, in the middle."""
    low, high = clock.main.bounds_at(clock.main.t_ns)
    return high - low


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("count", [3, 20])
def test_the_truth_stays_inside(name: str, count: int) -> None:
    """Bounds by some ops and their ACKs hold what all ops say, are no wider, and narrower somewhere."""
    whole, _ = pair(name)
    ratios = []
    for begin in range(0, len(whole.matched) - count, max(len(whole.matched) // 40, 1)):
        was, now = by_few(name, whole.matched.take(slice(begin, begin + count)))
        if not was.fits:
            continue
        at = now.main.t_ns
        low, high = now.main.bounds_at(at)
        least, most = whole.clock.main.bounds_at(at)
        assert low <= most
        assert high >= least
        assert low <= whole.clock.main.theta_at(at) <= high
        assert width(now) <= width(was) + 2 * abs(now.main.theta_ns - was.main.theta_ns)
        ratios.append(width(now) / max(width(was), 1))
    # Of a path that is 10 ms long hardly any of its length.
    assert min(ratios) < (0.98 if name == "slow-network" else 0.8)
    assert np.mean(ratios) < 1


def test_few_ops_of_a_whole_run_have_their_acks() -> None:
    """As many as the report takes ACKs for, and not one more: those of a capture that has so few."""
    whole, _ = pair("server-threads")
    found = []
    for count in (256, 257):
        first = whole.matched.take(slice(0, count))
        by_ops, by_acks = by_few("server-threads", first)
        assert by_ops.main.lines is not by_acks.main.lines
        engine = choose("native", lambda: pytest.fail("no tool"), Path(), rereads=False, segments=Wanted.SOME)
        sides = []
        for one, rows in (("server", first.server), ("client", first.client)):
            path = SAMPLES / "server-threads" / f"{one}.pcap.gz"
            source, decoded = engine.decode(engine.open(str(path)), lambda _: None)
            kept = np.zeros(len(decoded.ops), dtype=np.bool_)
            kept[rows] = True
            few = dataclasses.replace(decoded, ops=decoded.ops.take(np.flatnonzero(kept)))
            sides.append(side_of(source, few))
        clock = compare(*sides, filters=Filters(), srt="nfslat", may_swap=False).clock
        found.append(clock.main.bounds_at(clock.main.t_ns) == by_acks.main.bounds_at(by_acks.main.t_ns))
    assert found == [True, False]


def test_what_contradicts_the_ops_is_left_aside() -> None:
    """Of another clock altogether: the ops are believed."""
    whole, _ = pair("slow-network")
    clock = find_clock(whole.server.ops, whole.client.ops, whole.matched.take(slice(0, 20)))
    at = np.linspace(clock.main.begin_ns, clock.main.end_ns, 50).astype(np.int64)
    there = at + clock.main.theta_ns - 50_000 * US  # bounds theta from above
    none = np.zeros(0, dtype=np.int64)
    assert narrowed(clock, (there, at), (none, none)) is clock
    # One of them is a wrong stamp.
    good = at + clock.main.bounds_at(clock.main.t_ns)[1] - 10 * US
    good[7] -= 50_000 * US
    now = narrowed(clock, (good, at), (none, none))
    assert width(now) < width(clock)
    assert now.main.bounds_at(now.main.t_ns)[0] == pytest.approx(clock.main.bounds_at(clock.main.t_ns)[0], abs=US)


def test_nothing_more_is_known_without_acks() -> None:
    """Nor where a clock was set."""
    whole, _ = pair("slow-network")
    none = np.zeros(0, dtype=np.int64)
    assert narrowed(whole.clock, (none, none), (none, none)) is whole.clock
    two = dataclasses.replace(whole.clock, segments=whole.clock.segments * 2)
    assert narrowed(two, (none, none), (none, none)) is two


def test_instants_that_lie_apart_say_nothing_of_the_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds from above and from below at no common time, as of a capture with hours between its packets."""
    monkeypatch.setattr("nfslat.clock.more._NEAR_NS", -1)
    was, now = by_few("server-threads", pair("server-threads")[0].matched.take(slice(0, 20)))
    assert now.main.lines is not was.main.lines
    assert now.main.floor_ns == was.main.floor_ns
