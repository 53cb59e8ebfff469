"""What `nfslat series` says of runs by load: from where latency grows away from the storage, and why; or nothing."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answered
from hypothesis import given
from hypothesis import strategies as st
from queue_captures import write_captures
from queues import MS, US, simulate
from runs_by_hand import reported, run, single, wandering
from valid import validator

from nfslat.cli import main as cli
from nfslat.diff.runs import Run
from nfslat.errors import UsageError
from nfslat.series import build, model, page, sections
from nfslat.series.fit import Data, chi2_p, shapes
from nfslat.series.inputs import Asked, Listed, of_arguments, of_file
from nfslat.series.points import measured

USERS = (1, 8, 16, 32, 64)


def _answer(
    runs: Sequence[tuple[float | None, Run]],
    app_ms: Sequence[float] | None = None,
    storage_ms: Sequence[float] | None = None,
) -> model.Series:
    """Of runs by hand; their JSON is valid and is read back as it was, and the text fits a terminal."""
    asked = [
        Asked(
            (f"r{place}",),
            f"r{place}",
            load,
            None if app_ms is None else app_ms[place],
            None if storage_ms is None else storage_ms[place],
        )
        for place, (load, _) in enumerate(runs)
    ]
    found = build.series(
        Listed(tuple(asked), "users"), [measured(one, of) for of, (_, one) in zip(asked, runs, strict=True)], "nfslat"
    )
    out = io.StringIO()
    found.write_json(out)
    validator(model.Series).validate(json.loads(out.getvalue()))
    assert model.Series.from_json(out.getvalue()) == found
    for width in (80, 120):
        assert max(map(len, sections.render(found, width=width).splitlines())) <= width
    assert sections.markdown(found).startswith("## ")
    return found


def _ops(
    thread_ms: float,
    *,
    wait_ms: float = 0.0,
    network_ms: float = 0.5,
    seed: int = 1,
    ops: int = 1500,
    gap_ms: float = 1.0,
) -> Run:
    """A run whose calls wait so long for a thread; every part varies as in a queue."""
    rng = np.random.default_rng(seed)
    factors = [wandering(rng, ops)[0] for _ in range(3)]
    level = [factor / factor.mean() * ms for factor, ms in zip(factors, (thread_ms, wait_ms, network_ms), strict=True)]
    # The mean of a run is off by some per cent, as that of any run is.
    off = 1 + 0.02 * rng.standard_normal(3)
    thread, wait, network = (ms * by for ms, by in zip(level, off, strict=True))
    return run(single(thread + wait, network, queue_ms=wait, gap_ms=gap_ms))


def _closed(users: float, threads: int, work_ms: float, seed: int) -> Run:
    """Users without a pause, a server of so many threads: who comes beyond them waits for the others."""
    return _ops(work_ms, wait_ms=max(users / threads - 1, 0.0) * work_ms, seed=seed)


@pytest.mark.parametrize("threads", [4, 16, 24])
def test_the_load_above_which_threads_are_short(threads: int) -> None:
    """The bend of a closed queue is at its number of threads, whether a run was made there or not."""
    found = _answer([(float(n), _closed(n, threads, 20.0, n)) for n in (1, 2, 4, 8, 16, 32, 48, 64)])
    verdict = found.verdict
    assert verdict.outcome == "from-load"
    assert verdict.part == "queue"
    assert verdict.from_load == pytest.approx(threads, rel=0.15)
    assert verdict.from_low is not None
    assert verdict.from_high is not None
    assert verdict.from_low <= threads * 1.05
    assert verdict.from_high >= threads * 0.95
    assert verdict.per_load_ms == pytest.approx(20 / threads, rel=0.15)
    assert "The wait for a server thread makes" in verdict.text


def test_the_application_grows_above_the_wire() -> None:
    """What the application waits beyond the client's SRT grows with the users, and the packets' time does not."""
    runs = [(float(n), _ops(20.0, seed=n)) for n in USERS]
    waits = [max(n / 16 - 1, 0.0) * 20 for n in USERS]
    found = _answer(runs, app_ms=[21 + wait for wait in waits])
    assert (found.verdict.outcome, found.verdict.part) == ("from-load", "above")
    assert found.verdict.from_load == pytest.approx(16, rel=0.2)
    assert found.top == "application"
    assert "time above the client's wire" in found.verdict.text.lower()


def test_the_network_grows() -> None:
    """A path that fills: the growth is the network's, and no thread is blamed."""
    runs = [(float(n), _ops(20.0, network_ms=0.5 + max(n - 8, 0) * 0.8, seed=n)) for n in USERS]
    verdict = _answer(runs).verdict
    assert (verdict.outcome, verdict.part, verdict.limit) == ("from-load", "network", None)
    assert verdict.from_load == pytest.approx(8, rel=0.25)


def test_a_line_has_no_bend() -> None:
    """What grows with each user from the first on is said to, and no load is made up."""
    runs = [(float(n), _ops(20.0, network_ms=1 + 0.8 * n, seed=n)) for n in USERS]
    verdict = _answer(runs).verdict
    assert (verdict.outcome, verdict.from_load, verdict.part) == ("throughout", None, "network")
    assert verdict.per_load_ms == pytest.approx(0.8, rel=0.1)
    assert "from the first load on" in verdict.text


def test_the_storage_itself_grows() -> None:
    """Where the time in a thread grows with the load, so does the application's, and no disparity does."""
    verdict = _answer([(float(n), _ops(5.0 + n, seed=n)) for n in USERS]).verdict
    assert (verdict.outcome, verdict.from_load) == ("storage", None)
    assert verdict.text.startswith("It is the time in a server thread that grows")


@pytest.mark.parametrize("seed", range(6))
def test_noise_is_no_growth(seed: int) -> None:
    """Runs that differ by chance alone: nothing grows, and no part is blamed."""
    runs = [(float(n), _ops(20.0, wait_ms=1.0, network_ms=1.0, seed=100 * seed + n)) for n in USERS]
    verdict = _answer(runs).verdict
    assert verdict.outcome in ("none", "cannot-tell")
    assert verdict.part is None


def test_few_short_runs_cannot_tell() -> None:
    """Where growth may be as large as the latency, the answer is that it cannot be told, and what to measure."""
    verdict = _answer([(float(n), _ops(20.0, wait_ms=30.0, seed=n, ops=60)) for n in (1, 8, 16)]).verdict
    assert verdict.outcome == "cannot-tell"
    assert verdict.next is not None
    assert "longer runs" in verdict.next


@pytest.mark.parametrize("place", [2, 4])
def test_a_run_that_is_badly_known_is_no_proof_of_none(place: int) -> None:
    """A run far above the others whose mean is hardly known: nobody says that nothing grows."""
    runs = [(float(n), _ops(20.0, seed=n)) for n in USERS]
    rng = np.random.default_rng(3)
    # Most of its ops wait as long as any, and some stretches far longer.
    network = np.repeat([0.5] * 7 + [600.0, 0.5, 900.0], 150) * (1 + 0.1 * rng.random(1500))
    runs[place] = (float(USERS[place]), run(single(np.full(1500, 20.0), network, queue_ms=np.zeros(1500))))
    found = _answer(runs)
    assert found.points[place].disparity_error_ms is not None
    assert found.points[place].disparity_error_ms > found.points[place].disparity_ms / 3
    assert found.verdict.outcome == "cannot-tell"


def test_two_runs_bracket_it() -> None:
    """Two runs show that it grows and not from where; the next run is one between them."""
    verdict = _answer([(8.0, _closed(8, 16, 20.0, 1)), (64.0, _closed(64, 16, 20.0, 2))]).verdict
    assert (verdict.outcome, verdict.from_low, verdict.from_high) == ("cannot-tell", 8.0, 64.0)
    assert verdict.next == "a run with 23 users"


def test_one_odd_run_is_no_growth() -> None:
    """A run in the middle that stands out is named, and is to be repeated."""
    runs = [(float(n), _ops(20.0, network_ms=15.0 if n == 16 else 1.0, seed=n)) for n in USERS]
    verdict = _answer(runs).verdict
    assert verdict.outcome == "cannot-tell"
    assert "16 users stands out" in verdict.text


def test_runs_at_one_load_tell_what_chance_is() -> None:
    """Repeated runs that differ as much as the loads do: the growth is not certain."""
    runs = [(float(n), _ops(20.0, network_ms=level, seed=place)) for place, (n, level) in enumerate(
        ((1, 1.0), (1, 6.0), (8, 2.0), (8, 7.0), (16, 5.0), (16, 4.0), (32, 7.0), (32, 2.5))
    )]  # fmt: skip
    assert _answer(runs).verdict.outcome in ("none", "cannot-tell")


def test_reports_alone() -> None:
    """Reports hold no errors: how the runs scatter about a bend stands for them; three runs show no scatter."""

    def run_of(users: int) -> tuple[float, Run]:
        wait = max(users - 16, 0) * 1.25 * (1.01 if users == 48 else 1.0)
        whole, at_server = (reported(ms, network_ms=0.5 + wait) for ms in (20.5 + wait, 20.0))
        assert whole.matched is not None
        assert at_server.matched is not None
        row = replace(whole.matched.by_op[0], server_ms=at_server.matched.by_op[0].server_ms)
        report = replace(whole, matched=replace(whole.matched, by_op=[row]))
        return float(users), Run(str(users), "report", report, None)

    verdict = _answer([run_of(n) for n in (1, 4, 8, 16, 32, 48, 64)]).verdict
    assert (verdict.outcome, verdict.part) == ("from-load", "network")
    assert verdict.from_load == pytest.approx(16, rel=0.1)
    few = _answer([run_of(n) for n in (1, 16, 64)]).verdict
    assert few.outcome == "cannot-tell"
    assert few.next is not None
    assert "single ops" in few.next


def test_runs_without_loads_are_compared_one_by_one() -> None:
    """Days: which is slower than the one before, and no word of growth."""
    runs = [(None, _ops(ms, seed=place, gap_ms=500.0)) for place, ms in enumerate((20.0, 20.0, 60.0))]
    found = _answer(runs)
    assert found.verdict.outcome == "no-loads"
    assert [one.change for one in found.steps] == ["none", "slower"]
    assert found.verdict.text.startswith("r2 is slower than r1.")
    assert not found.fits


def test_the_storages_latency_counts_before_that_of_a_thread() -> None:
    """With the storage's own figure, what the server adds beyond it (locks, file system) is a part that can grow."""
    runs = [(float(n), _ops(10 + max(n - 8, 0) * 2.0, seed=n)) for n in USERS]
    found = _answer(runs, storage_ms=[9.0] * len(USERS))
    assert found.bottom == "storage"
    assert (found.verdict.outcome, found.verdict.part) == ("from-load", "beyond")
    assert found.verdict.from_load == pytest.approx(8, rel=0.3)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """Folders of simulated captures: a server of 16 threads, 20 ms an op, so many users."""
    root = tmp_path_factory.mktemp("users")

    def folder(count: int) -> str:
        made = root / str(count)
        if not made.exists():
            made.mkdir()
            of = {"READ": 20 * MS, "WRITE": 20 * MS, "GETATTR": 50 * US}
            write_captures(
                simulate(
                    threads=16, workers=count, count=min(3000, 600 + 200 * count), mean_ns=of, connections=2, seed=count
                ),
                made,
            )
        return str(made)

    return folder


def _run(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    status, text, found = answered("series", [*arguments, "-q"])
    assert status == 0
    return text, found


def test_eight_users_against_thirty_two(users: Callable[[int], str]) -> None:
    """Two captured runs, 16 threads: the packets give the number of threads, and that gives the load."""
    text, found = _run([f"{n}={users(n)}" for n in (8, 32)] + ["--unit", "users"])
    verdict = found["verdict"]
    assert (verdict["outcome"], verdict["part"], verdict["limit"]) == ("from-load", "queue", 16)
    assert verdict["cause"] == "server-threads"
    assert verdict["from_load"] == pytest.approx(16, abs=1)
    assert text.startswith("Above about 16 users")
    assert "one of the server's 16 threads" in " ".join(text.split())


def test_reports_with_a_limit_need_no_errors(users: Callable[[int], str], tmp_path: Path) -> None:
    """Three reports as JSON: no shape can be told, but the threads that the last one proves give the load."""
    named = []
    for count in (4, 8, 32):
        server, client = (str(Path(users(count)) / f"{side}.pcap") for side in ("server", "client"))
        assert cli.main([server, client, "--json", str(tmp_path / f"{count}.json")]) == 0
        named.append(f"{count}={tmp_path / f'{count}.json'}")
    text, found = _run([*named, "--unit", "users"])
    verdict = found["verdict"]
    assert (verdict["outcome"], verdict["part"], verdict["limit"]) == ("from-load", "queue", 16)
    assert verdict["confidence"] != "high"
    assert verdict["from_load"] == pytest.approx(16, abs=1)
    assert "captures or --csv files" in verdict["next"]
    assert "hold no single ops" in text


def test_a_series_of_captures(users: Callable[[int], str], tmp_path: Path) -> None:
    """Bend, threads and users in flight agree; a CSV lists the runs; page and pictures are written."""
    rows = "\n".join(f"{n},{users(n)},{n}" for n in (32, 1, 16, 64, 8))
    (tmp_path / "users.csv").write_text(f"users,run,name\n{rows}\n")
    page_file = tmp_path / "s.html"
    text, found = _run(
        ["--runs", str(tmp_path / "users.csv"), "--html", str(page_file), "--png", str(tmp_path / "png")]
    )
    verdict = found["verdict"]
    assert [one["load"] for one in found["points"]] == [1, 8, 16, 32, 64]
    assert (verdict["outcome"], verdict["part"], verdict["confidence"]) == ("from-load", "queue", "high")
    assert verdict["from_load"] == pytest.approx(16, abs=1.5)
    assert verdict["limit_load"] == pytest.approx(16, abs=1.5)
    assert "users" in text
    assert "grows away from" in page_file.read_text()
    assert (tmp_path / "png" / "series.png").stat().st_size > 10_000


def test_slots_need_the_applications_latency(tmp_path: Path) -> None:
    """A client's slots hold its calls: no packet shows the wait, so the answer asks for it; with it, it is named."""
    named, waits = [], {}
    for count in (2, 4, 16, 48):
        folder = tmp_path / str(count)
        folder.mkdir()
        traffic = simulate(
            threads=64, workers=count, slots=4, count=2500, mix={"READ": 1.0}, mean_ns={"READ": 5 * MS}, seed=count
        )
        write_captures(traffic, folder)
        named.append((count, folder))
        waits[count] = float(traffic.application_ns.mean()) / 1e6
    _, found = _run([f"{count}={folder}" for count, folder in named])
    assert found["verdict"]["outcome"] != "from-load"
    listed = "".join(f'[[run]]\nload = {count}\nrun = "{folder}"\napp_ms = {waits[count]}\n' for count, folder in named)
    (tmp_path / "runs.toml").write_text(f'unit = "users"\n{listed}')
    _, found = _run(["--runs", str(tmp_path / "runs.toml")])
    verdict = found["verdict"]
    assert (verdict["outcome"], verdict["part"], verdict["limit"]) == ("from-load", "above", 4)
    assert verdict["from_load"] == pytest.approx(4, rel=0.25)


def test_pages_show_strange_names_as_text() -> None:
    """A name of a run is text wherever it stands."""
    asked = [Asked(("x",), name, load) for name, load in (("<b>1</b>", 1.0), ("\x1b[31m", 2.0))]
    found = build.series(
        Listed(tuple(asked), "<i>users</i>" + "x" * 50), [measured(_ops(5.0), one) for one in asked], "nfslat"
    )
    text = page.render(found)
    assert "<b>1</b>" not in text
    assert "<i>users</i>" not in text
    assert "\x1b" not in sections.render(found)
    assert max(map(len, sections.render(found).splitlines())) <= 80


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "lists no runs"),
        ("load,run\n", "two runs or more"),
        ("load,run\n1,a\nx,b\n", "give a number"),
        ("load,run\n1,a\n,b\n", "has no load"),
        ("load,ruin\n1,a\n2,b\n", "did you mean run?"),
        ("load,run,run\n1,a,b\n", "twice"),
        ("load,run\n1,a,b\n2,c\n", "3 cells"),
        ("load,run\n1,\n2,c\n", "give a report"),
        ("load,run\nnan,a\n2,c\n", "give a number"),
        ("load,run,app_ms\n1,a,-4\n2,c,1\n", "give a number"),
    ],
)
def test_a_list_that_is_wrong_is_refused_in_a_line(tmp_path: Path, text: str, why: str) -> None:
    """With the place, and what to give."""
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"^[^\n]*(runs\.csv|two runs or more|has no load)") as problem:
        of_file(str(path), None)
    assert why in str(problem.value)
    assert "\n" not in str(problem.value)


@given(text=st.text(max_size=300), suffix=st.sampled_from([".csv", ".toml"]))
def test_no_list_is_too_strange(tmp_path_factory: pytest.TempPathFactory, text: str, suffix: str) -> None:
    """Whatever a list holds: runs, or one line."""
    path = tmp_path_factory.getbasetemp() / f"strange{suffix}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(UsageError):
        assert len(of_file(str(path), None).runs) >= 2


def test_loads_on_the_command_line(tmp_path: Path) -> None:
    """LOAD=RUN is one, unless a file has that name; runs are put in order."""
    (tmp_path / "4=x").touch()
    found = of_arguments(["16=b/", "8=a.json"], "users")
    assert [(one.load, one.files, one.name) for one in found.runs] == [
        (8.0, ("a.json",), "a.json"),
        (16.0, ("b/",), "b"),
    ]
    assert of_arguments([str(tmp_path / "4=x"), "y"], "users").runs[0].load is None
    with pytest.raises(UsageError, match="has no load"):
        of_arguments(["8=a", "b"], "users")


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(-1e6, 1e9), st.none() | st.floats(0, 1e6)), min_size=3, max_size=12)
)
def test_any_figures_have_shapes(points: list[tuple[float, float, float | None]]) -> None:
    """Fits end, and their chi square shrinks with each parameter."""
    found = shapes(Data.of(sorted(points, key=lambda one: one[0])))
    if found is None:
        return
    squares = [one.chi2 for one in (found.level, found.line, found.bend)]
    if None not in squares:
        level, line, bend = (one or 0.0 for one in squares)
        assert bend <= line * (1 + 1e-6) + 1e-6
        assert line <= level * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize(("chi2", "degrees"), [(3.841, 1), (5.991, 2), (7.815, 3), (9.488, 4), (11.070, 5)])
def test_chi_square(chi2: float, degrees: int) -> None:
    """The 95th percentiles of the tables."""
    assert chi2_p(chi2, degrees) == pytest.approx(0.05, abs=1e-4)


def _thinking(users: int, threads: int, work_ms: float, think_ms: float) -> float:
    """The mean wait for a thread, exactly: users who think at random times, threads that work so (birth and death)."""
    chances = [1.0]
    for here in range(users):
        up, down = (users - here) / think_ms, min(here + 1, threads) / work_ms
        chances.append(chances[-1] * up / down)
    busy = sum(min(here, threads) * chance for here, chance in enumerate(chances)) / sum(chances)
    return users * work_ms / busy - think_ms - work_ms


@pytest.mark.parametrize(
    ("threads", "work_ms", "think_ms"), [(8, 18.0, 20.0), (16, 20.0, 20.0), (4, 20.0, 20.0), (4, 5.0, 30.0)]
)
@pytest.mark.parametrize("loads", [(1, 4, 8, 16, 32, 64), (4, 8, 32, 64)])
def test_users_who_think_have_a_soft_bend(
    threads: int, work_ms: float, think_ms: float, loads: tuple[int, ...]
) -> None:
    """The interval holds where the asymptotes meet, whatever the bend between them looks like."""
    waits = [_thinking(users, threads, work_ms, think_ms) for users in loads]
    found = shapes(Data.of([(float(n), wait + 0.5, 0.2 + 0.03 * wait) for n, wait in zip(loads, waits, strict=True)]))
    assert found is not None
    assert found.bends
    low, high = found.bend_between
    assert low <= threads * (work_ms + think_ms) / work_ms <= high
    assert low <= (found.best.from_load or 0.0) <= high
