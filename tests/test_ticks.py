"""Clocks that tick slowly: their tick is found, by which means are judged, and nothing that rests on less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coarse_stamps import read, ticking
from hypothesis import given
from hypothesis import strategies as st
from wire import Seen, Tcp, read3, reply, write_pcap
from wire import read as read_call

from nfslat import api
from nfslat.answer import model
from nfslat.cli.main import main as cli
from nfslat.clock.tick import Tick, mean_error_ns, tick_of_stamps
from nfslat.figures.objectives import parse_slo
from nfslat.model.tables import I64

MS = 1_000_000
EPOCH_NS = 1_700_000_000 * 1000 * MS
TICKS_MS = [1, 4, 10, 15.625, 1000]
SAMPLES = Path(__file__).parents[1] / "samples"


# --- The tick of stamps -----------------------------------------------------------------------------------------------


def _instants(seed: int, count: int, apart_ns: float) -> I64:
    """Of packets that come by chance."""
    random = np.random.default_rng(seed)
    return EPOCH_NS + np.cumsum(random.exponential(apart_ns, count)).astype(np.int64)


@given(
    st.integers(0, 1 << 32),
    st.sampled_from([1, 2, 4, 10, 15.625, 20, 54.925, 100, 1000]),
    st.floats(0, 1),
    st.integers(400, 4000),
)
def test_the_tick_of_any_slow_clock_is_found_whatever_its_phase(
    seed: int, tick_ms: float, phase: float, count: int
) -> None:
    """Stamps of a clock that goes in steps are some phase and a multiple of the step, which is what is found."""
    tick = round(tick_ms * MS)
    stamps = (_instants(seed, count, tick / 3)) // tick * tick + int(phase * tick)
    assert tick_of_stamps(stamps, count) == tick


@given(st.integers(0, 1 << 32), st.sampled_from([1, 8, 1000]), st.integers(10, 4000), st.sampled_from([2e4, 1e6, 1e9]))
def test_stamps_of_microseconds_nanoseconds_and_of_a_card_with_8_ns_have_no_tick(
    seed: int, unit: int, count: int, apart_ns: float
) -> None:
    """What every capture has is no tick that matters, however few or far apart its packets are."""
    assert tick_of_stamps(_instants(seed, count, apart_ns) // unit * unit, count) == 0


@given(st.integers(0, 1 << 32), st.sampled_from([1, 10, 15.625, 100]))
def test_a_tick_is_found_although_a_few_stamps_are_none(seed: int, tick_ms: float) -> None:
    """One of a thousand may be of something else."""
    tick = round(tick_ms * MS)
    stamps = _instants(seed, 3000, tick / 2) // tick * tick
    stamps[[500, 1700]] += 7_000
    assert tick_of_stamps(stamps, 3000) == tick


@given(st.integers(0, 1 << 32), st.sampled_from([3_333_333.3, 4_000_000.0, 16_666_666.7]), st.floats(-1e-4, 1e-4))
def test_a_tick_that_is_no_whole_number_or_is_slewed_is_found(seed: int, tick_ns: float, slewed: float) -> None:
    """NTP makes the ticks of a kernel longer or shorter by some millionths, and files round them to microseconds."""
    ticks = (_instants(seed, 3000, tick_ns / 2) - EPOCH_NS) // tick_ns
    stamps = EPOCH_NS + (ticks * tick_ns * (1 + slewed)).astype(np.int64) // 1000 * 1000
    assert tick_of_stamps(stamps, 3000) == pytest.approx(tick_ns, rel=3e-4)


@given(st.integers(0, 1 << 32), st.integers(100, 2000))
def test_a_load_by_a_timer_of_10_ms_has_no_tick_where_its_stamps_are_fine(seed: int, count: int) -> None:
    """Calls every 10 ms, a few microseconds late each, with answers that take what they take."""
    random = np.random.default_rng(seed)
    calls = EPOCH_NS + np.arange(count) * 10 * MS + random.integers(0, 30, count) * 1000
    replies = calls + random.gamma(4, 100, count).astype(np.int64) * 1000
    assert tick_of_stamps(np.concatenate([calls, replies]), 2 * count) == 0
    assert tick_of_stamps(calls, count) == 0


def test_what_happens_at_the_same_few_intervals_is_no_tick() -> None:
    """A load that somebody made up: all intervals are 3 and 7 ms to the nanosecond."""
    stamps = EPOCH_NS + np.cumsum(np.tile([3 * MS, 7 * MS], 500))
    assert tick_of_stamps(stamps, len(stamps)) == 0


def test_five_packets_have_no_tick() -> None:
    """Although all of them are at whole seconds."""
    assert tick_of_stamps(EPOCH_NS + np.arange(5) * 1000 * MS, 5) == 0


@given(st.integers(0, 1 << 32), st.integers(200, 3000), st.floats(0.05, 40), st.floats(0.5, 50))
def test_means_in_ticks_are_off_by_no_more_than_is_said(seed: int, count: int, mean_ms: float, think_ms: float) -> None:
    """Serial calls that take what they take, stamped in ticks of 10 ms. What is said is two standard errors and a part
    for loads in step; four out of five times as much there never is."""
    random, tick = np.random.default_rng(seed), 10 * MS
    took = random.exponential(mean_ms * MS, count).astype(np.int64)
    begins = EPOCH_NS + np.cumsum(random.exponential(think_ms * MS, count).astype(np.int64) + np.append(0, took[:-1]))
    first, last = begins // tick * tick, (begins + took) // tick * tick
    error = mean_error_ns(Tick(tick, 1.0), last - first, first)
    assert abs((last - first).mean() - took.mean()) <= 2.5 * error
    assert error <= tick


def test_of_a_load_in_step_with_the_clock_nothing_is_known_to_less_than_a_tick() -> None:
    """Calls at each tick that take 3 ms: by their stamps they take none."""
    begins = EPOCH_NS + np.arange(1000) * 10 * MS
    assert mean_error_ns(Tick(10 * MS, 1.0), np.zeros(1000, dtype=np.int64), begins) == 10 * MS


# --- Answers ----------------------------------------------------------------------------------------------------------


def _exchange(ops: int = 1500, *, server_ms: float = 3.0, trip_ms: float = 0.2) -> Tcp:
    """READs one after the other, which the server's TCP acknowledges at once, as the client's does their replies."""
    random, tcp, now = np.random.default_rng(38), Tcp(), 5.0
    for xid in range(1, ops + 1):
        tcp.send(now, ">", read_call(xid, 8192 * xid))
        tcp.ack(now + trip_ms / 2 + 0.01, "<")
        now += trip_ms / 2 + random.exponential(server_ms)
        tcp.send(now, "<", reply(xid, read3()), cut=[1448] * 5, at=[now] * 6)
        tcp.ack(now + trip_ms / 2 + 0.01, ">")
        now += trip_ms / 2 + random.exponential(5.0)
    return tcp


def _files(folder: Path, tcp: Tcp, server_ms: float, client_ms: float, trip_ms: float = 0.2) -> list[Path]:
    """The captures of both hosts by clocks with such ticks; 0: microseconds."""
    paths = []
    for side, tick_ms, theta_ms in (("server", server_ms, 1234.567), ("client", client_ms, 0.0)):
        seen: list[Seen] = tcp.seen_by(side, there_ms=trip_ms / 2, back_ms=trip_ms / 2, theta_ms=theta_ms)
        path = write_pcap(folder / f"{side}.pcap", seen)
        if tick_ms:
            path.write_bytes(ticking(path.read_bytes(), round(tick_ms * MS), 300_000))
        paths.append(path)
    return paths


def _judged(*paths: Path, **options: object) -> model.Report:
    return api.run([str(path) for path in paths], api.Options(**options)).summary  # type: ignore[arg-type]


def _notes(report: model.Report) -> dict[str, str]:
    return {
        side: note.text
        for side, capture in report.captures.items()
        for note in capture.audit
        if note.code == "capture-coarse-stamps"
    }


@pytest.mark.parametrize(("server_ms", "client_ms"), [(10, 10), (15.625, 15.625), (10, 0), (0, 10), (1, 10), (4, 4)])
def test_of_ticks_means_are_said_and_nothing_else(tmp_path: Path, server_ms: float, client_ms: float) -> None:
    """3.2 ms, of which 3 in the server: the layer by means, no cause, no percentile, and both captures have their
    note."""
    report = _judged(*_files(tmp_path, _exchange(), server_ms, client_ms))
    verdict, matched = report.verdict, report.matched
    assert verdict is not None
    assert matched is not None
    assert matched.total is not None
    assert (verdict.outcome, verdict.cause, verdict.largest_layer) == ("undecided", None, "server")
    tick_ms = max(server_ms, client_ms)
    assert f"time stamps that tick every {tick_ms:g} ms" in verdict.text
    assert matched.total.client_ms.mean == pytest.approx(3.2, abs=1.2)
    assert (matched.tick_ms, matched.slowest, matched.parts) == (tick_ms, None, None)
    assert {side: float(text.split(" every ")[1].split(" ms")[0]) for side, text in _notes(report).items()} == {
        side: tick for side, tick in (("server", server_ms), ("client", client_ms)) if tick
    }
    assert not [one for one in report.findings if one.severity == "warning" and one.code != "capture-coarse-stamps"]


@pytest.mark.parametrize(("tick_ms", "percentiles"), [(10, False), (0, True)])
@pytest.mark.parametrize("sides", [2, 1])
def test_the_page_has_no_percentile_of_ticks(sides: int, tick_ms: float, percentiles: bool, tmp_path: Path) -> None:
    """Of each operation, each group and each capture; of fine stamps it has them as ever."""
    captures = [str(path) for path in _files(tmp_path, _exchange(), tick_ms, tick_ms)][-sides:]
    shown = api.run(captures, api.Options(by=["file"])).html()
    assert ((">p99 ms</th>" in shown) or (">p99</th>" in shown)) == percentiles


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("tick_ms", [10, 15.625])
def test_of_one_capture_in_ticks_means_say_the_layer(tmp_path: Path, side: str, tick_ms: float) -> None:
    """What TCP acknowledges by itself tells on average what the path takes."""
    files = dict(zip(("server", "client"), _files(tmp_path, _exchange(), tick_ms, tick_ms), strict=True))
    report = _judged(files[side])
    assert report.verdict is not None
    assert (report.verdict.outcome, report.verdict.cause) == ("undecided", None)
    assert report.verdict.largest_layer == "server"
    assert report.inferred is not None
    assert report.matched is not None
    assert report.matched.total is not None
    error_ms = report.inferred.mean_error_ms
    assert report.matched.total.client_ms.mean == pytest.approx(3.2, abs=error_ms)
    assert report.matched.total.server_ms.mean == pytest.approx(3.0, abs=error_ms)


def test_of_stamps_in_seconds_not_even_the_mean_of_quick_calls_is_known(tmp_path: Path) -> None:
    """Nor which layer has it; of one capture nothing is inferred at all."""
    files = _files(tmp_path, _exchange(), 1000, 1000)
    report = _judged(*files)
    assert report.verdict is not None
    assert (report.verdict.outcome, report.verdict.largest_layer) == ("undecided", None)
    assert "not even the means are known" in report.verdict.text
    alone = _judged(files[1])
    assert alone.verdict is None or alone.verdict.largest_layer is None


def test_which_capture_is_the_clients_means_tell(tmp_path: Path) -> None:
    """Single calls of 10 ms in ticks of 4 take as long at either host, and less than none in between; the sums do
    not."""
    tcp = _exchange(server_ms=2.0, trip_ms=30.0)
    server, client = _files(tmp_path, tcp, 4, 4, trip_ms=30.0)
    assert _judged(client, server).matched == _judged(server, client).matched


def test_what_is_asked_for_is_met_only_beyond_the_error_of_ticks(tmp_path: Path) -> None:
    """A percentile is known to within a tick, a mean better."""
    files = _files(tmp_path, _exchange(), 10, 10)
    asked = [parse_slo(one) for one in ("READ=5ms", "READ=3.3ms", "READ=1ms", "READ.p99=15ms", "READ.p99=100ms")]
    report = _judged(*files, slo=tuple(asked))
    assert report.verdict is not None
    assert [one.met for one in report.verdict.objectives] == [True, None, False, None, True]


def test_fine_stamps_are_judged_as_ever(tmp_path: Path) -> None:
    """The same exchange in microseconds has no note, and percentiles."""
    report = _judged(*_files(tmp_path, _exchange(), 0, 0))
    assert _notes(report) == {}
    assert report.matched is not None
    assert report.matched.tick_ms is None
    assert report.matched.slowest is not None


@pytest.mark.parametrize("tick_ms", TICKS_MS)
@pytest.mark.parametrize("sample", ["server-threads", "client-slots", "packet-loss", "session-slots", "slow-network"])
def test_a_cause_that_is_named_in_ticks_is_the_one_that_finer_stamps_show(
    tmp_path: Path, sample: str, tick_ms: float
) -> None:
    """Or it cannot be told; a layer is the largest only where it is by finer stamps; nothing is without fault."""
    fine = {side: SAMPLES / sample / f"{side}.pcap.gz" for side in ("server", "client")}
    coarse = {side: tmp_path / f"{side}.pcap" for side in fine}
    for side, path in coarse.items():
        path.write_bytes(ticking(read(fine[side]), round(tick_ms * MS)))
    true = _judged(*fine.values()).verdict
    assert true is not None
    for pair in (
        (coarse["server"], coarse["client"]),
        (fine["server"], coarse["client"]),
        (coarse["server"], fine["client"]),
    ):
        said = _judged(*pair).verdict
        assert said is not None
        assert said.outcome in ("undecided", true.outcome)
        assert said.outcome != "fault" or said.cause in (true.cause, *true.also)
        assert said.largest_layer in (None, true.largest_layer)


def test_a_load_on_a_grid_of_time_is_no_tick(tmp_path: Path) -> None:
    """Calls and replies at whole milliseconds, as one that somebody made up has them: no two of them at once."""
    flow = Tcp(client=("10.0.0.1", 700))
    draw = np.random.default_rng(5)
    at = 0
    for xid in range(1, 301):
        took = int(draw.integers(2, 9))
        flow.send(at, ">", read_call(xid, count=64))
        flow.send(at + took, "<", reply(xid, read3(64)))
        at += took + int(draw.integers(1, 6))
    captures = [write_pcap(tmp_path / f"{side}.pcap", flow.seen_by(side)) for side in ("server", "client")]
    matched = api.run([str(path) for path in captures], api.Options()).summary.matched
    assert matched is not None
    assert matched.tick_ms is None


# --- nfslat transport -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tick_ms", "is_coarse"), [(0.0, False), (10.0, True)])
def test_conversations_have_no_round_trips_and_percentiles_in_ticks(
    tick_ms: float, is_coarse: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Means of turns stay; where the capture was taken, a typical turn, and waits that are no longer than a tick go."""
    capture = read(SAMPLES / "server-threads" / "client.pcap.gz")
    path = tmp_path / "client.pcap"
    path.write_bytes(ticking(capture, round(tick_ms * MS)) if tick_ms else capture)
    assert cli(["transport", str(path)]) == 0
    out = capsys.readouterr().out
    assert ("Stamps that tick every 10 ms do not tell them" in out) == is_coarse
    assert ("appears to be taken" in out) != is_coarse
