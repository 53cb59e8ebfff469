"""How often answers are right: the tables of `scripts/lab judge --calibration`, and what a kernel says of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import SHARED, needs_captures
from hypothesis import given
from hypothesis import strategies as st
from laboratory import calibration, judge, judged

_HEAD = "# pool packets-arrived sockets-enqueued threads-woken threads-timedout\n"


def _truth(where: str, pools: list[tuple[int, int]], threads: tuple[int, int] = (16, 16)) -> dict[str, Any]:
    """Pools that have counted so many connections and wakings; nothing before."""

    def pool_stats(counts: list[tuple[int, int]]) -> str:
        return _HEAD + "".join(f"{number} 0 {one[0]} {one[1]} 0\n" for number, one in enumerate(counts))

    before, after = (f"rc 0 0 0\nth {one} 0 0.000\n" for one in threads)
    return {
        "cause": {"where": where},
        "before": {"pool_stats": pool_stats([(0, 0)] * len(pools)), "server_rpc_nfsd": before},
        "after": {"pool_stats": pool_stats(pools), "server_rpc_nfsd": after},
    }


def _answer(state: str, confidence: str, cause: str = "", sure: str = "", threads: int | None = None) -> judged.Answer:
    findings = [("server-threads", 0.5, sure)] if sure else []
    return judged.Answer(
        "packets", state, layer="server", cause=cause, confidence=confidence, threads=threads, findings=findings
    )


@pytest.mark.parametrize(
    ("pools", "state", "waited"),
    [
        ([(1440, 1400)], calibration.NO_LIMIT, 40 / 1440),
        ([(700, 650), (700, 650)], calibration.BETWEEN, 100 / 1400),
        ([(1000, 20)], calibration.LIMITED, 0.98),
        ([(20, 20)], calibration.NOT_KNOWN, None),
        ([(1000, 1100)], calibration.NOT_KNOWN, None),
    ],
)
def test_the_kernel_says_whether_a_thread_was_idle(
    pools: list[tuple[int, int]], state: str, waited: float | None
) -> None:
    """pool_stats of all pools together; few connections with a call, or counts that cannot be, say nothing."""
    found = calibration.threads_of(_truth("none", pools, (32, 2)))
    assert (found.state, found.counts) == (state, (32, 2))
    assert found.waited == (None if waited is None else pytest.approx(waited))


def test_a_run_without_the_kernels_counters_says_nothing() -> None:
    """Of a run that was not made here nothing is known of the threads."""
    assert calibration.threads_of({}) == calibration.Threads((), None)


_CONFIDENCES, _STATES = st.sampled_from(["high", "medium", "low"]), st.sampled_from(["right", "wrong", "not judged"])
_ANSWERS = st.builds(
    _answer, _STATES, _CONFIDENCES, st.sampled_from(["", "net-delay", "server-threads"]),
    st.sampled_from(["", "certain", "likely"]), st.sampled_from([None, 2, 16]),
)  # fmt: skip


def _table(text: str, first: str) -> dict[str, list[str]]:
    """The rows of the table whose head begins so, by their first cells."""
    lines = next(one for one in text.split("\n\n") if one.startswith(f"| {first}")).splitlines()
    return {cells[0]: cells[1:] for cells in ([one.strip() for one in line.strip("| ").split("|")] for line in lines)}


@given(st.lists(st.tuples(st.lists(_ANSWERS, max_size=2), st.sampled_from(["none", "network"])), max_size=9))
def test_each_answer_is_in_one_cell_of_each_table(runs: list[tuple[list[judged.Answer], str]]) -> None:
    """Answers that were judged are counted once by confidence and once by cause, those that name a layer by threads."""
    pairs = [judged.Judged("x", "", "", answers, []) for answers, _ in runs]
    text = calibration.markdown(pairs, [_truth(where, [(100, 100)]) for _, where in runs])
    every = [one for answers, _ in runs for one in answers]
    known = [one for one in every if one.state != "not judged"]
    rows = _table(text, "confidence")
    assert int(rows["all"][0]) == len(known) == sum(int(rows[name][0]) for name in ("high", "medium", "low"))
    assert int(rows["all"][1]) == sum(one.state == "right" for one in known)
    causes = _table(text, "injected")
    assert sum(int(one or 0) for where in ("none", "network") for one in causes.get(where, [])) == len(known)
    threads = _table(text, "calls waited")
    assert sum(map(int, threads[calibration.NO_LIMIT])) == len(every)


@given(count=st.integers(1, 500), data=st.data())
def test_what_chance_allows_holds_the_share(count: int, data: st.DataObject) -> None:
    """The range is within 0 and 1, holds the share that was counted, and shrinks where more was counted."""
    right = data.draw(st.integers(0, count))
    low, high = calibration.wilson(right, count)
    assert 0 <= low <= right / count + 1e-12
    assert right / count - 1e-12 <= high <= 1
    more = calibration.wilson(4 * right, 4 * count)
    assert more[1] - more[0] < high - low


@needs_captures
@pytest.mark.skipif(not (SHARED / "lab2").exists(), reason="no captures at ../shared/lab2")
@pytest.mark.parametrize(
    "names",
    [("disk_stalls", "half_threads", "two_causes_threads_net"), pytest.param(("",), marks=pytest.mark.long)],
    ids=["three", "all"],
)
def test_no_thread_limit_is_made_up(names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """On the twelve real workloads that went wrong, three of them by day: no limit of threads where the calls found one
    idle, no wrong number as certain, and an exit status that counts what is wrong."""
    data = Path(__file__).parent / "data" / "lab2.toml"
    judge.main([*(str(SHARED / "lab2" / name) for name in names), "--expect", str(data), "--calibration"])
    threads = _table(capsys.readouterr().out, "calls waited")
    head = ["certain, the number", "certain, another", "likely, the number", "likely, another", "nothing"]
    assert threads["calls waited for a thread"] == head
    assert threads[calibration.NO_LIMIT][:4] == ["0"] * 4
    assert threads[calibration.LIMITED][1] == "0"
