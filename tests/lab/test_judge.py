"""`scripts/lab judge`: what is right, wrong, off or not judged, on real captures whose truth is bent by the tests."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from captures import SHARED, needs_captures
from hypothesis import given
from hypothesis import strategies as st

import nfslat

_ROOT = Path(__file__).parents[2]
if str(_ROOT / "scripts") not in sys.path:
    sys.path.insert(0, str(_ROOT / "scripts"))
judge = importlib.import_module("laboratory.judge")
judged = importlib.import_module("laboratory.judged")
expected = importlib.import_module("laboratory.expected")
measured = importlib.import_module("laboratory.measured")
judged_text = importlib.import_module("laboratory.judged_text")

_LAB = SHARED / "lab"
Make = Callable[..., Path]


def _printed(capsys: pytest.CaptureFixture[str]) -> str:
    """Standard output, its lines joined: where they are broken says nothing."""
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A results folder with one run of the lab, its truth changed by `change`."""

    def made(source: str, name: str, change: Callable[[dict[str, Any]], object] = lambda truth: None) -> Path:
        folder = tmp_path / "results" / name
        shutil.copytree(_LAB / source, folder)
        truth = json.loads((folder / "truth.json").read_text())
        change(truth)
        (folder / "truth.json").write_text(json.dumps(truth))
        return tmp_path / "results"

    return made


_THREADS = {"layer": "server", "cause": ["server-threads"], "findings": ["server-threads"], "threads": 2}


# --- Runs -------------------------------------------------------------------------------------------------------------


@needs_captures
def test_what_is_right(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """Both answers as expected, each figure as measured: status 0, on lines of 100 columns."""
    results = make("b_v3_nfsd_threads2", "threads", lambda truth: truth.update(expect=_THREADS))
    assert judge.main([str(results)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    assert "1 pairs: 1 right, 0 wrong, 0 not judged" in out
    assert "2 answers: 2 right, 0 wrong, 0 not judged" in out
    assert ", 0 off," in out
    assert "READ in a thread 20.1 of 20.1 ms" in out
    assert "Wrong" not in out


@needs_captures
def test_what_is_wrong_says_why(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """Another cause, another number and a finding that is not there are three lines, and what was said is one."""
    wanted = {**_THREADS, "cause": "net-delay", "threads": 3, "findings": "net-loss", "absent": ["server-threads"]}
    results = make("b_v3_nfsd_threads2", "threads", lambda truth: truth.update(expect=wanted))
    assert judge.main([str(results)]) == 1
    (one,) = [judge.judge(pair) for pair in judge.find_pairs([results])]
    assert one.state == "wrong"
    assert one.answers[0].why == [
        "expected cause net-delay, got server-threads",
        "expected net-loss among the findings that matter",
        "expected no server-threads that matters",
        "expected 3 threads, got 2",
    ]
    below = _printed(capsys).partition("Wrong, or off")[2]
    assert "threads: packets: expected cause net-delay, got server-threads" in below
    assert "findings: server-threads 89 %, server-storage 11 %" in below


@needs_captures
def test_packets_alone_may_be_expected_to_say_less(make: Make) -> None:
    """What [expect.packets] names is instead of what [expect] names, and the rest of [expect] holds for both."""
    wanted = {"layer": "client", "cause": "client-slots", "slots": 2, "absent": "server-threads"}
    alone = {"layer": "server", "cause": "server-storage"}
    results = make("c_v3_slots2", "slots", lambda truth: truth.update(expect={**wanted, "packets": alone}))
    (one,) = [judge.judge(pair) for pair in judge.find_pairs([results])]
    assert [answer.state for answer in one.answers] == ["right", "right"]
    assert [answer.cause for answer in one.answers] == ["server-storage", "client-slots"]
    assert None not in [answer.share for answer in one.answers]
    both = expected.expected({"expect": {**wanted, "packets": alone}})
    assert (both.packets.slots, both.packets.absent) == (None, ("server-threads",))


@needs_captures
def test_a_figure_that_is_off_is_no_wrong_answer(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel's round trip is doubled in the truth: the answers stay right, the figures are off, the status is 1;
    where the scenario says that they are not measured nothing is."""

    def bent(truth: dict[str, Any]) -> None:
        for one in truth["mountstats_ops_delta"].values():
            one["avg_rtt_ms"] *= 2
        truth["clock_after"]["client_minus_server_s"] += 1

    results = make("b_v3_nfsd_threads2", "threads", bent)
    assert judge.main([str(results)]) == 1
    out = _printed(capsys)
    assert "right, 3 off" in out
    assert "OFF client SRT 318.0 of 636.2 ms" in out
    assert "OFF theta after 2.74 of -997.3 ms" in out
    (one,) = [judge.judge(pair) for pair in judge.find_pairs([results])]
    assert {number.name for number in one.off} == {"client SRT", "theta after", "drift"}
    names = sorted(number.name for number in one.off)
    excused = make(
        "b_v3_nfsd_threads2",
        "excused",
        lambda truth: (bent(truth), truth.update(expect=_THREADS | {"unmeasured": names})),
    )
    assert judge.main([str(excused), "--only", "excused"]) == 0


def _disk(truth: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = truth["server_storage"]["diskstats_delta_during_load"]
    return found


def _quick_kernel(truth: dict[str, Any]) -> None:
    """As if the kernel had counted a tenth less since the mount; ops in front of the load are not told any more."""
    truth.pop("after")
    for one in truth["mountstats_ops_delta"].values():
        one["avg_exe_ms"] -= 0.1 * one["avg_rtt_ms"]
        one["avg_rtt_ms"] *= 0.9


@needs_captures
@pytest.mark.parametrize(
    ("source", "change", "off"),
    [
        ("d_v3_netdelay5", lambda t: t["cause"]["delay_ms"].update(client_to_server=9), "network, median"),
        ("b_v3_nfsd_threads2", lambda t: t["tcp_retrans_segs"].update(client=18), "calls retransmitted"),
        ("d_v3_netdelay5", _quick_kernel, "client SRT, all ops"),
        ("c_v3_slots2", lambda t: _disk(t).update(avg_read_ms=12), "READ in a thread"),
        ("c_v3_slots2", lambda t: t["mountstats_ops_delta"]["READ"].update(ops=600), "READ and WRITE"),
        ("c_v3_slots2", lambda t: t["mountstats_ops_delta"]["READ"].update(avg_queue_ms=600), "above the wire"),
        ("g_clock_step3s", lambda t: t["cause"].pop("clock_step_s"), "clock steps"),
        ("b_v3_nfsd_threads2", lambda t: t["cause"].update(server_stall_s=1.5), "server was stalled"),
        ("e_v3_slow_storage", lambda t: t["environment"].update(nfsd_threads=8), "threads proven"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_each_figure_can_be_off(make: Make, source: str, change: Callable[[dict[str, Any]], object], off: str) -> None:
    """No figure is right whatever the truth is: a truth that is bent by little more than is allowed shows it."""
    (bent,) = (judge.judge(pair) for pair in judge.find_pairs([make(source, "bent", change)]))
    assert off in {number.name for number in bent.off}
    assert off not in _off_as_it_was(source)


@cache
def _off_as_it_was(source: str) -> set[str]:
    (real,) = (judge.judge(pair) for pair in judge.find_pairs([_LAB / source]))
    return {number.name for number in real.off}


_UNKNOWN = {
    "b4_v3_rpc_retransmit": "RPC sent calls again",
    "n_v3_nfsd_restart": "RPC sent calls again",
    "g_clock_step3s": "a clock was set",
    "j_v3_client_stall": "the client was stopped",
    "cached_client": "the client's processor was busy",
    "client_cpu_untar": "the client's processor was busy",
    "late_nano128": "not the same ops",
}


@needs_captures
@pytest.mark.parametrize(
    "names", [("a_v3_baseline", "d3_v3_loss1", "g_clock_step3s"), pytest.param((), marks=pytest.mark.long)]
)
def test_means_with_ops_that_are_not_shown_hold_what_the_kernel_counts(names: tuple[str, ...]) -> None:
    """On all runs of both labs, three of them by day: the bounds of the mean over all operations hold the kernel's mean
    of the same ones; where they are not the same times, or ops, the reason is said."""
    unknown = {}
    for pair in judge.find_pairs([_LAB / name for name in names] or [_LAB, SHARED / "lab2"]):
        report = nfslat.correlate(pair.server, pair.client)
        (found,) = [one for one in measured.numbers(report, pair.truth, None) if one.name == "client SRT, all ops"]
        assert found.state != measured.OFF, (pair.name, found)
        if found.state == measured.UNKNOWN:
            unknown[pair.name] = found.why.partition(":")[0]
    assert unknown == {name: why for name, why in _UNKNOWN.items() if not names or name in names}


@needs_captures
def test_all_is_counted(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Right, wrong and not judged sum to two answers a pair, whatever a folder lacks; nothing ends in a traceback."""
    make("h_v3_metadata", "no_application")
    make("a_v3_baseline", "unknown_cause", lambda truth: truth["cause"].update(where="elsewhere"))
    results = make("a_v3_baseline", "mistyped", lambda truth: truth.update(expect={"absent": "server-thread"}))
    for name, text in (
        ("no_captures", '{"cause": {"where": "none"}}'),
        ("no_truth", "{"),
        ("odd_truth", '{"cause": 3}'),
        ("no_table", "[]"),
    ):
        (results / name).mkdir()
        (results / name / "truth.json").write_text(text)
    make("a_v3_baseline", "broken_capture")
    (results / "broken_capture" / "client.pcap.gz").write_bytes(b"not a capture at all")
    assert judge.main([str(results), "--json", str(tmp_path / "out.json")]) == 1
    out = _printed(capsys)
    made = json.loads((tmp_path / "out.json").read_text())
    states = {one["name"]: one["state"] for one in made["scenarios"]}
    assert states == {
        "broken_capture": "wrong",
        "mistyped": "wrong",
        "no_application": "right",
        "no_captures": "not judged",
        "no_table": "wrong",
        "no_truth": "wrong",
        "odd_truth": "wrong",
        "unknown_cause": "not judged",
    }
    account = made["account"]
    assert account["answers"] == {"right": 1, "wrong": 10, "not judged": 5}
    assert sum(account["not_judged"].values()) == 5
    assert sum(account["numbers"].values()) == sum(len(one["numbers"]) for one in made["scenarios"])
    assert "16 answers: 1 right, 10 wrong, 5 not judged" in out
    assert "expect.absent: nfslat never says 'server-thread'" in out


@needs_captures
def test_a_second_client_is_a_pair_of_its_own(make: Make) -> None:
    """client2 is judged by the table of its name, with its own load; without a table it is not judged."""

    def second(truth: dict[str, Any]) -> None:
        truth["expect"] = {**_THREADS, "client2": {**_THREADS, "cause": "server-storage"}}
        truth["workload2"] = truth["workload"]

    results = make("b_v3_nfsd_threads2", "two", second)
    for number in (2, 3):
        shutil.copy(results / "two" / "client.pcap.gz", results / "two" / f"client{number}.pcap.gz")
    found = {one.name: one for one in map(judge.judge, judge.find_pairs([results]))}
    assert {name: one.state for name, one in found.items()} == {
        "two": "right",
        "two/client2": "wrong",
        "two/client3": "not judged",
    }
    assert found["two/client2"].answers[1].why == ["expected cause server-storage, got server-threads"]
    assert "mountstats" in next(number.why for number in found["two/client2"].numbers if number.name == "client SRT")


@needs_captures
@pytest.mark.parametrize("name", ["a_v3_baseline", "c2_v3_slots2_fast", "g_clock_step3s", "n_v3_nfsd_restart"])
def test_runs_without_a_table_are_judged_by_their_cause(name: str) -> None:
    """The first lab's runs have no [expect]: what is right follows from what was injected, and nfslat is."""
    one = judge.judge(*judge.find_pairs([_LAB / name]))
    assert [answer.state for answer in one.answers] == ["right", "right"]
    assert not one.off


@needs_captures
@pytest.mark.parametrize("name", sorted(path.parent.name for path in _LAB.glob("*/truth.json")))
def test_each_cause_of_the_first_lab_has_an_expectation(name: str) -> None:
    """Nothing that was injected there is unknown; each expectation has its reason, and is the same when bent into a
    table."""
    both = expected.expected(json.loads((_LAB / name / "truth.json").read_text()))
    for one in (both.packets, both.application):
        assert one.why
        table = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(one).items()
            if value is not None
        }
        assert expected.expected({"expect": table}).application == one


@pytest.mark.parametrize("cause", [{"where": "network", "rate_mbit": {}}, {"where": "client"}, {"where": "x"}, {}])
def test_a_cause_of_which_nothing_is_known_is_not_judged(cause: dict[str, Any]) -> None:
    """Without a table nothing is guessed, and the reason is said."""
    both = expected.expected({"cause": cause, "expect": {}})
    assert (both.packets, both.application) == (None, None)
    assert "nothing is known of" in both.why_not


# --- The command ------------------------------------------------------------------------------------------------------


@needs_captures
def test_json_and_markdown(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """The same counts in both; to standard output one of them at a time."""
    results = make("b_v3_nfsd_threads2", "threads", lambda truth: truth.update(expect=_THREADS))
    assert judge.main([str(results), "--json", "-"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["schema"] == "nfslat.judged/1"
    (one,) = made["scenarios"]
    assert [answer["threads"] for answer in one["answers"]] == [2, 2]
    assert judge.main([str(results), "--markdown"]) == 0
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {8}
    assert "| threads | server-threads nfsd_threads=2 dm_delay_ms=10 |" in rows[2]
    assert judge.main([str(results), "--markdown", "--json", "-"]) == 2


def test_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is not there, is empty, or of which --only leaves nothing: status 3 and one line."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "truth.json").write_text("{}")
    for arguments in ([str(tmp_path / "none")], [str(tmp_path / "one" / "deeper")], [str(tmp_path), "--only", "two*"]):
        assert judge.main(arguments) == 3
        assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "empty").mkdir()
    assert judge.main([str(tmp_path / "empty")]) == 3


# --- Tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"layers": "server"}, "'layers' is none of"),
        ({"layer": "disk"}, "nfslat never says 'disk'"),
        ({"cause": 3}, "a string or a list of strings"),
        ({"threads": "2"}, "a whole number"),
        ({"slots": True}, "a whole number"),
        ({"layer": "server", "packet": {}}, "the tables below expect are"),
        ({"packets": 3}, "a table is wanted"),
        ("server", "a table is wanted"),
        ({"packets": {}}, "it says nothing"),
    ],
)
def test_a_table_that_is_mistyped_is_refused(table: object, says: str) -> None:
    """A wrong key, word or code would else be right for ever."""
    with pytest.raises(expected.BadExpectation, match=says):
        expected.expected({"expect": table})


@given(st.lists(st.lists(st.sampled_from(["right", "wrong", "not judged"]), min_size=2, max_size=2)))
def test_counts_sum_for_any_answers(states: list[list[str]]) -> None:
    """Answers, reasons and pairs are all counted once."""
    every = [
        judged.Judged(str(n), "", "", [judged.Answer("packets", state, why=[f"why {n % 3}"]) for state in of_pair], [])
        for n, of_pair in enumerate(states)
    ]
    account = judged.account(every)
    assert sum(account.answers.values()) == 2 * len(every)
    assert sum(account.not_judged.values()) == account.answers["not judged"]
    assert sum(account.scenarios.values()) == len(every)
    assert account.status == any("wrong" in of_pair for of_pair in states)


@pytest.mark.parametrize(
    ("found", "low", "high", "state"),
    [(2, 1, 3, "ok"), (4, 1, 3, "off"), (0, None, 3, "ok"), (4, None, 3, "off"), (None, 1, 3, "off")],
)
def test_the_state_of_a_figure(found: float | None, low: float | None, high: float, state: str) -> None:
    """Within its bounds or not; what should have been found and was not is off."""
    assert measured.Number("one", found, 2, low, high, "ms", "").state == state


# --- Three outcomes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "cause", "decides", "wanted", "is_right"),
    [
        ("fault", "server-threads", [], ("server-threads",), True),
        ("fault", "server-storage", [], ("server-threads",), False),
        ("fault", "server-storage", [], ("",), False),
        ("no-fault", "", [], ("",), True),
        ("no-fault", "", [], ("server-threads",), False),
        ("undecided", "", ["server-threads"], ("server-threads",), True),
        ("undecided", "", ["net-loss"], ("server-threads",), False),
        ("undecided", "between-taps", [], ("", "between-taps"), True),
        ("undecided", "", ["net-loss"], ("",), False),
    ],
)
def test_what_is_right_follows_the_outcome(
    outcome: str, cause: str, decides: list[str], wanted: tuple[str, ...], is_right: bool
) -> None:
    """A cause is to be named, or decided by the next measurement; where there is none only "no fault" is right."""
    answer = judged.Answer(expected.PACKETS, "", outcome=outcome, layer="server", cause=cause, decides=decides)
    assert (judge.mistakes(answer, expected.Expected(cause=wanted)) == []) == is_right


def test_a_server_without_a_processor_of_the_machine_may_be_said_to_be_slow() -> None:
    """Nothing was injected, and the guest's kernel waited for as much as a fifth of what requests took: they did take
    long in it."""
    truth = {"cause": {"where": "none"}, "mountstats_ops_delta": {"WRITE": {"ops": 500, "avg_rtt_ms": 10.0}}}
    for waited_s, named in ((0.9, False), (1.1, True)):
        right = expected.expected(truth | {"processors": {"server": {"ran_s": 2.0, "waited_s": waited_s}}}).packets
        assert right is not None
        assert right.cause is not None
        assert ("server-storage" in right.cause) == named
        assert ("server-storage" in right.absent) != named


def test_captures_that_are_not_whole_may_leave_it_open() -> None:
    """Nobody can say of them that nothing is wrong."""
    answer = judged.Answer(expected.PACKETS, "", outcome="undecided", layer="unknown", cause="", decides=[])
    listed = [("capture-drops", None, "certain")]
    answer = dataclasses.replace(answer, findings=listed)
    assert judge.mistakes(answer, expected.Expected(cause=("",), listed=("capture-drops",))) == []


def test_headlines_are_a_table_with_lengths() -> None:
    """A row an answer, and below it the median and the longest report."""
    answers = [
        judged.Answer(
            expected.PACKETS, "right", outcome="fault", confidence="high", headline="Threads | slots.", lines=lines
        )
        for lines in (30, 40, 50)
    ]
    text = judged_text.headlines([judged.Judged("one", "server-threads", "", answers, [])])
    assert text.count("| one | server-threads | packets | fault | high | Threads / slots. |") == 3
    assert "| fault | 3 | 0 | 0 |" in text
    assert "median 40, most 50" in text
