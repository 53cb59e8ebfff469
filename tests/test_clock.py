"""Matched ops of two clocks -> what is known of theta: bounds, drift, steps, wrong stamps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from captures import SHARED, Decoder, needs_captures
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import CONNECTIONS

from nfslat.clock.clock import Clock
from nfslat.clock.envelope import Contradiction, Lines, Points, fit
from nfslat.clock.theta import find_clock
from nfslat.match.match import match
from nfslat.model.protocol import NFS, NULL
from nfslat.model.tables import I64, WHOLE, Kind, Matched, Ops
from nfslat.select import is_reverse

US, MS, S = 1_000, 1_000_000, 1_000_000_000
EPOCH_NS = 1_700_000_000 * S


@dataclass(frozen=True)
class Twin:
    """`count` ops, one every `every_ns`, between two hosts whose clocks are known. Times are ns."""

    count: int = 400
    every_ns: int = 2 * MS
    out_ns: int = 200 * US  # shortest way to the server, and back
    back_ns: int = 200 * US
    jitter_ns: int = 300 * US  # mean of what is added to each way, exponentially
    service_ns: int = 500 * US
    offset_ns: int = 0  # server's clock minus the client's
    drift_ppm: float = 0.0  # of the client's clock against true time
    steps: list[tuple[int, int, str]] = field(default_factory=list)  # (true ns since the start, by ns, which clock)
    wrong: dict[int, int] = field(default_factory=dict)  # op -> ns by which its call's stamps at the server are off
    seed: int = 1

    def made(self) -> tuple[Ops, Ops, Matched]:
        """Both sides, and which ops belong together; the client's rows are in the order of its calls."""
        rng = np.random.default_rng(self.seed)

        def wait(least: int) -> I64:
            return least + rng.exponential(self.jitter_ns, self.count).astype(np.int64)

        c0 = np.arange(self.count) * self.every_ns
        s0 = c0 + wait(self.out_ns)
        s3 = s0 + rng.exponential(self.service_ns, self.count).astype(np.int64)
        c3 = s3 + wait(self.back_ns)
        sides = []
        for times, side in (((s0, s3), "server"), ((c0, c3), "client")):
            events = np.concatenate(times)
            frames = np.empty(len(events), dtype=np.int64)
            frames[np.argsort(events, kind="stable")] = np.arange(1, len(events) + 1)
            call, reply = np.split(self.clock(events, side), 2)
            if side == "server" and self.wrong:
                call[list(self.wrong)] += list(self.wrong.values())
            call_frame, reply_frame = np.split(frames, 2)
            order = np.argsort(call_frame, kind="stable")
            sides.append((table(*(column[order] for column in (call, reply, call_frame, reply_frame))), order))
        (server, of_server), (client, of_client) = sides
        place = np.empty(self.count, dtype=np.int32)
        place[of_server] = np.arange(self.count)
        return server, client, Matched(place[of_client], np.arange(self.count, dtype=np.int32))

    def clock(self, true_ns: I64, side: str) -> I64:
        """What a clock shows at true times since the start."""
        drift = np.rint(true_ns * self.drift_ppm / 1e6).astype(np.int64) if side == "client" else 0
        shown = EPOCH_NS + true_ns + drift + (self.offset_ns if side == "server" else 0)
        for at_ns, by_ns, whose in self.steps:
            shown = np.where((true_ns >= at_ns) & (whose == side), shown + by_ns, shown)
        return np.asarray(shown, dtype=np.int64)

    def theta_at(self, true_ns: int) -> int:
        """The truth."""
        server, client = (int(self.clock(np.array([true_ns]), side)[0]) for side in ("server", "client"))
        return server - client


def table(call: I64, reply: I64, call_frame: I64, reply_frame: I64) -> Ops:
    """Ops of one packet each way."""
    rows = len(call)
    columns: dict[str, I64] = {name: np.zeros(rows, dtype=np.int64) for name in Ops.columns()}
    columns |= {"t0": call, "t1": call, "t2": reply, "t3": reply, "xid": np.arange(rows)}
    columns |= {"call_first_frame": call_frame, "call_last_frame": call_frame}
    columns |= {"reply_first_frame": reply_frame, "reply_last_frame": reply_frame}
    columns |= {"transmissions": np.ones(rows, dtype=np.int64), "flags": np.full(rows, WHOLE)}
    return Ops.from_columns(columns, kinds=(Kind(NFS, 3, NULL, 6),), connections=CONNECTIONS)


def found(twin: Twin) -> Clock:
    return find_clock(*twin.made())


def holds(clock: Clock, twin: Twin, true_ns: int) -> bool:
    """Is the true theta within the bounds at a true time since the start?"""
    t_ns = int(twin.clock(np.array([true_ns]), "client")[0])
    near = min(clock.segments, key=lambda one: max(one.begin_ns - t_ns, t_ns - one.end_ns, 0))
    low, high = near.bounds_at(t_ns)
    return low <= twin.theta_at(true_ns) <= high


# --- Lines between points ---------------------------------------------------------------------------------------------


def test_a_line_between_points_is_found_with_all_others_that_fit() -> None:
    """Above: (0, 3), (10, 3); below: (0, 1), (10, 1). Level lines run from y = 1 to 3; the one in the middle is best.
    The steepest line goes through (0, 1) and (10, 3), so at 5 all lines lie between 1 and 3: slopes beyond 1 % are left
    out."""
    lines = fit(points((0, 3), (1000, 3)), points((0, 1), (1000, 1)))
    assert isinstance(lines, Lines)
    assert lines.best_b == 0
    assert lines.a_range(0) == (1, 3)
    assert lines.steepness == pytest.approx((-0.002, 0.002))
    low, high = lines.at(np.array([0.0, 500.0, 2000.0]))
    assert low.tolist() == pytest.approx([1, 1, -1])
    assert high.tolist() == pytest.approx([3, 3, 5])


def test_points_that_no_line_keeps_to_contradict_each_other() -> None:
    """Above: y = 1 at 0 and 1 at 10; below: 2 at 5. Every line misses by at least half of the distance, 0.5."""
    result = fit(points((0, 1), (10, 1)), points((5, 2)))
    assert isinstance(result, Contradiction)
    assert result.by == 0.5


def points(*xy: tuple[float, float]) -> Points:
    x, y = (np.array(column, dtype=np.float64) for column in zip(*xy, strict=True))
    return Points(x, y)


coordinates = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 50)), min_size=1, max_size=12)


@given(coordinates, coordinates, st.integers(-40, 40), st.integers(-60, 60))
def test_a_line_is_among_those_found_exactly_if_it_keeps_to_all_points(
    over: list[tuple[int, int]], under: list[tuple[int, int]], b_per_5000: int, a: int
) -> None:
    """Any line, tried point by point, against the polygon: integers, so that nothing is rounded."""
    over, under = sorted(over), sorted(under)
    result = fit(points(*over), points(*under))
    b = b_per_5000 / 5000
    keeps = all(a * 5000 + b_per_5000 * x <= y * 5000 for x, y in over)
    keeps &= all(a * 5000 + b_per_5000 * x >= y * 5000 for x, y in under)
    if isinstance(result, Contradiction):
        assert not keeps
        return
    least, most = result.steepness
    if not least - 1e-9 <= b <= most + 1e-9:
        assert not keeps
        return
    low, high = result.a_range(b)
    assert keeps == (low <= a <= high) or min(abs(a - low), abs(a - high)) < 1e-6


# --- theta ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset_ns", [0, 3 * US, -7 * S, 20 * 365 * 86_400 * S])
def test_a_constant_offset_is_bounded_by_the_fastest_call_and_reply(offset_ns: int) -> None:
    """From nothing to twenty years: one segment, no drift, no step, the truth inside bounds of about the round trip."""
    clock = found(Twin(offset_ns=offset_ns))
    (only,) = clock.segments
    assert (clock.drifts, clock.steps, clock.contradicting, clock.rate_changes) == (False, (), 0, 0)
    low, high = only.bounds_at(only.t_ns)
    assert low <= offset_ns <= high
    assert 400 * US <= high - low <= 500 * US
    assert abs(only.theta_ns - offset_ns) <= (high - low) / 2


@pytest.mark.parametrize("drift_ppm", [-5000, -300, -40, 40, 300, 5000])
def test_a_drift_is_found(drift_ppm: float) -> None:
    """A client's clock that runs fast makes theta fall; the estimate is off by at most 5 % or 5 ppm, and the bounds
    hold theta at every moment."""
    twin = Twin(count=4000, drift_ppm=drift_ppm, offset_ns=250 * MS)
    clock = found(twin)
    (only,) = clock.segments
    truth_ppm = -drift_ppm / (1 + drift_ppm / 1e6)
    assert only.slope * 1e6 == pytest.approx(truth_ppm, rel=0.05, abs=5)
    least, most = only.lines.steepness
    assert least * 1e6 <= truth_ppm <= most * 1e6
    assert all(holds(clock, twin, at * S) for at in (0, 4, 8))


def test_no_drift_is_made_up() -> None:
    """Ten captures without drift: the bounds hold 0, and at most a trifle is taken for a drift."""
    for seed in range(10):
        clock = found(Twin(seed=seed))
        least, most = clock.main.lines.steepness
        assert least <= 0 <= most
        assert abs(clock.main.slope) < 100e-6


@pytest.mark.parametrize("whose", ["server", "client"])
@pytest.mark.parametrize("by_ns", [3 * S, -3 * S, 40 * MS, -40 * MS, 365 * 86_400 * S])
def test_a_clock_that_was_set_is_found_and_dated(by_ns: int, whose: str) -> None:
    """Whose clock it was, by how much and when; ops under way at that moment are named, and few others."""
    twin = Twin(steps=[(400 * MS, by_ns, whose)])
    clock = found(twin)
    (step,) = clock.steps
    jump_ns = by_ns if whose == "server" else -by_ns
    assert step.jump_bounds_ns[0] <= jump_ns <= step.jump_bounds_ns[1]
    assert (step.clock, step.set_by_ns) == (whose, pytest.approx(by_ns, abs=MS))
    assert len(clock.segments) == 2
    assert clock.contradicting == 0
    start_ns = int(twin.clock(np.array([0]), "client")[0])
    assert step.after_ns <= start_ns + 400 * MS <= step.after_ns + step.within_ns + 2 * MS
    client = twin.made()[1]
    torn = under_way(twin, client, 400 * MS)
    assert set(torn) <= set(clock.under_way.tolist())
    assert len(clock.under_way) <= len(torn) + 6
    assert holds(clock, twin, 200 * MS)
    assert holds(clock, twin, 600 * MS)


def under_way(twin: Twin, client: Ops, true_ns: int) -> list[int]:
    """Rows of the client's ops that began before a true time and ended behind it."""
    calm = Twin(**{**vars(twin), "steps": []}).made()[1]
    begin, end = (times - calm.t0[0] for times in (calm.t0, calm.t3))
    assert len(client) == len(calm)
    return np.flatnonzero((begin < true_ns) & (end > true_ns)).tolist()


def test_a_clock_that_is_set_there_and_back_is_dated_each_time() -> None:
    """Five times three seconds forward and back: an op that one step tore says nothing of the others."""
    steps = [((2 * n + 1) * S, 3 * S if n % 2 == 0 else -3 * S, "client") for n in range(5)]
    clock = found(Twin(count=5500, steps=steps))
    assert [round((step.set_by_ns or 0) / S) for step in clock.steps] == [3, -3, 3, -3, 3]
    assert all(step.within_ns < 20 * MS for step in clock.steps)
    assert len(clock.under_way) < 5 * 8


@pytest.mark.parametrize(("every_ns", "by_ns"), [(S // 10, 5 * MS), (S, 200 * MS), (10 * S, S)])
def test_a_step_in_sparse_traffic_is_not_taken_for_a_change_of_rate(every_ns: int, by_ns: int) -> None:
    """An op now and then: a steep line could lead over the step, but both sides explain all that it does."""
    for seed in range(8):
        twin = Twin(count=400, every_ns=every_ns, seed=seed, steps=[(200 * every_ns, by_ns, "server")])
        clock = found(twin)
        assert [round(step.jump_ns / MS) for step in clock.steps] == [by_ns // MS]
        assert clock.steps[0].clock in ("server", None)
        assert not clock.rate_changes


def test_stamps_without_sense_do_not_take_long() -> None:
    """Hundreds of breaks are no clock that is set: the search ends there, and nothing is claimed."""
    server, client, matched = Twin(count=20_000, jitter_ns=0).made()
    noise = np.random.default_rng(1).integers(-S, S, len(server))
    clock = find_clock(
        table(server.t0 + noise, server.t2 + noise, server.call_first_frame, server.reply_first_frame), client, matched
    )
    assert not clock.fits


def test_an_op_that_was_sent_again_is_not_timed_over_a_step() -> None:
    """Ops that theta does not rest on are left out like all others, where they were under way when a clock was set."""
    twin = Twin(steps=[(400 * MS, 3 * S, "client")], service_ns=20 * MS)
    server, client, matched = twin.made()
    torn = under_way(twin, client, 400 * MS)
    assert torn
    columns = {name: getattr(client, name).copy() for name in Ops.columns()}
    columns["transmissions"][torn[0]] = 2
    again = Ops.from_columns(columns, kinds=client.kinds, connections=client.connections)
    assert torn[0] in find_clock(server, again, matched).under_way


def test_several_steps_of_both_clocks_are_told_apart() -> None:
    """Forward, back, and the other clock, a second apart; with a drift of 100 ppm on top."""
    steps = [(S, 2 * S, "client"), (2 * S, -5 * S, "client"), (3 * S, 700 * MS, "server")]
    twin = Twin(count=2000, drift_ppm=100, steps=steps)
    clock = found(twin)
    assert [(step.clock, round((step.set_by_ns or 0) / (100 * MS))) for step in clock.steps] == [
        ("client", 20),
        ("client", -50),
        ("server", 7),
    ]
    assert all(segment.slope * 1e6 == pytest.approx(-100, abs=5) for segment in clock.segments)
    assert clock.contradicting == 0


@pytest.mark.parametrize("at_op", [4, 7, 40, 196])
def test_a_step_near_either_end_is_found(at_op: int) -> None:
    """With four ops in front of it, or behind it, of 200."""
    clock = found(Twin(count=200, steps=[(at_op * 2 * MS - MS // 2, 5 * S, "client")]))
    assert [step.clock for step in clock.steps] == ["client"]


@given(
    st.dictionaries(st.integers(5, 390), st.sampled_from([-30, -6, 2, 30, 900]), min_size=1, max_size=5),
    st.integers(0, 5),
)
def test_a_few_wrong_stamps_neither_bend_theta_nor_make_a_step(wrong_ms: dict[int, int], seed: int) -> None:
    """Calls that the server's capture stamps milliseconds or seconds too early or too late: too late does no harm, too
    early is left out and counted."""
    twin = Twin(wrong={op: ms * MS for op, ms in wrong_ms.items()}, seed=seed)
    clock = found(twin)
    assert not clock.steps
    assert not clock.rate_changes
    assert len(clock.segments) == 1
    assert all(holds(clock, twin, at * MS) for at in (100, 400, 700))
    too_early = sum(ms < 0 for ms in wrong_ms.values())
    assert too_early <= clock.contradicting <= 2 * len(wrong_ms)


def test_a_clock_whose_rate_changes_has_a_segment_for_each_rate() -> None:
    """NTP slews by 500 ppm for two seconds, then stops: no step, but no single line either."""
    server, client, matched = Twin(count=2000, jitter_ns=50 * US).made()
    since = client.t0[:] - EPOCH_NS

    def slewed(times: I64) -> I64:
        return times + (np.minimum(times - EPOCH_NS, 2 * S) * 500e-6).astype(np.int64)

    assert since.max() > 3.9 * S
    bent = table(slewed(client.t0), slewed(client.t2), client.call_first_frame, client.reply_first_frame)
    clock = find_clock(server, bent, matched)
    assert (len(clock.segments), clock.steps, clock.rate_changes) == (2, (), 1)
    slopes = [segment.slope * 1e6 for segment in clock.segments]
    assert slopes == [pytest.approx(-500, rel=0.05), pytest.approx(0, abs=25)]
    assert clock.segments[0].end_ns - EPOCH_NS == pytest.approx(2 * S, rel=0.05)


def test_time_stamps_that_make_no_sense_give_no_theta() -> None:
    """Server times drawn at random within ten seconds: nothing fits, and nothing is claimed."""
    server, client, matched = Twin().made()
    rng = np.random.default_rng(3)
    noise = rng.integers(-5 * S, 5 * S, len(server))
    mad = table(server.t0 + noise, server.t2 + noise, server.call_first_frame, server.reply_first_frame)
    clock = find_clock(mad, client, matched)
    assert not clock.fits
    assert clock.contradicting > 0.05 * clock.messages


def test_many_ops_are_looked_at_like_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where breaks are looked for in a sample, the bounds still rest on all ops: they are the same."""
    twin = Twin(count=3000, drift_ppm=20, steps=[(3 * S, S, "client")])
    whole = found(twin)
    monkeypatch.setattr("nfslat.clock.theta._SAMPLE", 500)
    sampled = found(twin)
    assert len(sampled.segments) == len(whole.segments) == 2
    for one, other in zip(sampled.segments, whole.segments, strict=True):
        bounds = [
            [
                segment.y0_ns + float(bound[0])
                for bound in segment.lines.at((one.begin_ns + one.end_ns) // 2 - segment.x0_ns)
            ]
            for segment in (one, other)
        ]
        assert bounds[0] == pytest.approx(bounds[1], abs=2 * US)


def test_no_matched_op_gives_no_theta() -> None:
    """Nothing is known, and the caller has to ask before."""
    server, client, matched = Twin(count=4).made()
    with pytest.raises(ValueError, match="no matched op"):
        find_clock(server, client, matched.take(slice(0, 0)))


@given(st.integers(-(10**17), 10**17), st.floats(-0.005, 0.005), st.integers(0, 100))
def test_instants_of_the_server_fall_in_place_on_the_clients_clock(offset_ns: int, drift: float, seed: int) -> None:
    """Putting an instant on the client's clock undoes theta to the nanosecond, in order, whatever offset and drift."""
    clock = found(Twin(count=40, offset_ns=offset_ns, drift_ppm=drift * 1e6, seed=seed))
    segment = clock.main
    shown = np.arange(segment.begin_ns, segment.end_ns, 1_234_567)
    at_server = np.array([t_ns + segment.theta_at(t_ns) for t_ns in shown.tolist()])
    back = segment.on_client(at_server)
    assert np.abs(back - shown).max() <= 1
    assert (np.diff(back) > 0).all()


# --- Real captures ----------------------------------------------------------------------------------------------------

TRUTHS = sorted(path for path in SHARED.glob("lab/*/truth.json") if "clock_before" in path.read_text())


@needs_captures
@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.parent.name)
def test_the_clock_is_what_was_measured_from_outside(path: Path, decoder: Decoder) -> None:
    """Offset before and after within the bounds, or outside by no more than the measurement's own uncertainty; drift
    within 5 % or 5 ppm or, for a drift too small to be measured, that uncertainty; steps where there were any."""
    truth = json.loads(path.read_text())
    sides = [decoder.side("native", next(path.parent.glob(f"{name}.*"))) for name in ("server", "client")]
    ranges = [(side.decoded.first_ns, side.decoded.last_ns) for side in sides]
    server, client = sides[0].ops, sides[1].ops
    matched = match(server, client, *ranges).matched
    matched = matched.take(~client.spread(is_reverse(client))[matched.client])
    clock = find_clock(server, client, matched)
    measured = [truth[when] for when in ("clock_before", "clock_after")]
    thetas_ns = [-one["client_minus_server_s"] * S for one in measured]
    doubts_ns = [one["uncertainty_s"] * S for one in measured]
    at_ns = [(one["client_minus_host"]["host_time_s"] + one["client_minus_host"]["offset_s"]) * S for one in measured]
    jump_ns = sum(step.jump_ns for step in clock.steps)
    assert clock.contradicting == 0
    assert [round(step.jump_ns / S) for step in clock.steps] == [-n for n in [truth["cause"].get("clock_step_s")] if n]
    for segment, t_ns, theta_ns, doubt_ns in zip(
        (clock.segments[0], clock.segments[-1]), at_ns, thetas_ns, doubts_ns, strict=True
    ):
        low, high = segment.bounds_at(t_ns)
        assert low - doubt_ns <= theta_ns <= high + doubt_ns
    drift_ppm = (thetas_ns[1] - thetas_ns[0] - jump_ns) / (at_ns[1] - at_ns[0] + jump_ns) * 1e6
    doubt_ppm = sum(doubts_ns) / (at_ns[1] - at_ns[0]) * 1e6
    assert clock.main.slope * 1e6 == pytest.approx(drift_ppm, rel=0.05, abs=5 + doubt_ppm)
