"""Means per layer, findings and what they stand on -> outcome, cause, sentences, next step, and how sure it is."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nfslat.answer.model import Objective
from nfslat.findings.catalogue import CODES, VAGUE, row
from nfslat.findings.client import AboveWire, Slots
from nfslat.findings.diagnosis import Diagnosis, Evidence, Gain
from nfslat.findings.hanging import Hanging
from nfslat.findings.hosts import HostPause
from nfslat.findings.layers import Layers
from nfslat.findings.network import Asymmetry, Between, Delay
from nfslat.findings.parts import Whole, lead_by_parts
from nfslat.findings.server import ConnectionCap, Queue, Reconnect, Storage, Unknown, Workers
from nfslat.findings.slow_ops import Late
from nfslat.findings.stretches import Stretch
from nfslat.findings.tcp import Waits
from nfslat.findings.verdict import Ground, verdict

SOUND = Ground(ops=1000, complete=1.0, incomplete="", negative=0, clock_fits=True)
MEAN, SLOWEST = Layers(server_ms=3.6, network_ms=0.4), Layers(server_ms=80, network_ms=20)
_ms = st.integers(0, 10**9).map(lambda us: us / 1000)


# Evidence of each kind with nothing in it, but for what a test says.
_EVIDENCE: dict[str, Evidence] = {
    "server-threads": Queue(queue_ms=0.0, in_thread_ms=0.0, server_ms=0.0),
    "server-storage": Storage(in_thread_ms=0.0, data_ops=0, data_ms=0.0),
    "server-slow-ops": Late(
        ops=("READ",), slow_ops=5, of_ops=100, slow_ms=200.0, others_ms=0.2, mean_ms=0.0, begin=None, end=None,
        stalls=0, stall_ms=None, every_s=None, alone=True, overtaken_share=0.0, light_quick=0, light_slow=0,
    ),
    "server-queue-unknown": Unknown(server_ms=0.0, in_thread_ms=0.0),
    "reconnect": Reconnect(
        ops=0, mean_ms=None, excess_ms=0.0, above_wire_ms=0.0, counted_above_ms=0.0, interruptions=None,
        no_connection_ms=None, longest_ms=None, at=None,
    ),
    "connection-cap": ConnectionCap(level=128, zero_windows=0, zero_window_ms=0.0),
    "net-delay": Delay(least_round_trip_ms=0.0, network_ms=0.0),
    "between-taps": Between(network_ms=9.0, explained_ms=1.0, unexplained_ms=8.0),
    "above-wire": AboveWire(
        above_wire_ms=50.0, paused_ms=0.0, no_connection_ms=0.0, connecting_ms=0.0, window_ms=0.0, behind_loss_ms=0.0,
        slot_wait_ms=None,
        unseen_share=0.0, unseen_ms=None,
    ),
    "net-asymmetry": Asymmetry(call_net_ms=0.0, reply_net_ms=0.0, error_ms=0.0),
    "host-pause": HostPause(
        wait_ms=0.0, slowest_wait_ms=0.0, above_wire_ms=0.0, counted_above_ms=0.0, pauses=1, total_ms=0.0,
        longest_ms=0.0, at="", frame=None, ops=0,
    ),
}  # fmt: skip
_SLOTS_OF = Slots(
    slots=0, slots_each=0, at_limit_share=None, reply_clocked_share=None, above_wire_ms=None, slot_wait_ms=None,
    sessions_needed=None,
)  # fmt: skip
_EVIDENCE |= dict.fromkeys(("client-slots", "session-slots"), _SLOTS_OF)


def _workers(**figures: Any) -> Workers:
    return Workers(**{"threads_range": None, "threads_lower_bound": 1, "most_in_flight": 1, "witnesses": 0} | figures)


def _finding(
    code: str,
    layer: str,
    share: float | None,
    confidence: str = "certain",
    *,
    slowest: float | None = None,
    **figures: Any,
) -> Diagnosis:
    if "threads_estimate" in figures:
        figures["workers"] = _workers(threads_estimate=figures.pop("threads_estimate"))
    evidence = _EVIDENCE.get(code, Waits(wait_ms=0.0, slowest_wait_ms=None))
    if code == "server-threads":
        figures["proven"] = confidence == "certain"
    evidence = dataclasses.replace(evidence, **figures)
    return Diagnosis(code, layer, "warning", share, slowest, confidence, code, evidence, None)


_THREADS = _finding("server-threads", "server", 0.8, queue_ms=3.2, in_thread_ms=0.4, threads_estimate=16)
_STORAGE = _finding("server-storage", "server", 0.9, "likely", in_thread_ms=3.5, light_ops=90, light_ms=0.1)
_SLOTS = _finding("client-slots", "client", None, "likely", slots=2, at_limit_share=0.89)
_DELAY = _finding("net-delay", "network", 0.8, least_round_trip_ms=8.5)
_FAR = Layers(1, 9)


# --- Three outcomes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [MEAN, Layers(0.2, 0.8), Layers(1.75, 0.56), Layers(1, 0.5, 0.5, "READ")])
def test_a_layer_that_is_merely_the_largest_is_no_fault(mean: Layers) -> None:
    """Without a finding nobody is to blame, however large the share of a layer is; which it is stands beside it."""
    found = verdict(mean, SLOWEST, SOUND)
    assert (found.outcome, found.layer, found.cause, found.share, found.next) == ("no-fault", None, None, None, None)
    assert (found.largest_layer, found.largest_share) == (mean.largest, mean.share(mean.largest))
    assert found.text.startswith("No fault found: nothing that was looked for explains the time.")
    assert found.confidence == "high"


def test_no_fault_says_what_a_mean_operation_consists_of() -> None:
    """Figures that add up to the last digit, those of the tables."""
    text = verdict(Layers(1.753, 0.561), SLOWEST, SOUND).text
    assert text.endswith("A mean operation takes 2.31 ms: 1.75 in the server, 0.56 in the network.")


def test_a_fault_says_what_how_much_and_how_sure() -> None:
    """The cause leads, then the part of the mean and of the slowest 1 % that it explains, then where the time goes."""
    threads = dataclasses.replace(_THREADS, slowest=0.7)
    found = verdict(Layers(3.6, 0.4), SLOWEST, SOUND, [threads])
    assert (found.outcome, found.layer, found.cause) == ("fault", "server", "server-threads")
    assert (found.share, found.share_slowest, found.confidence) == (0.8, 0.7, "high")
    assert found.text == (
        "Calls queue in the server for one of its 16 threads: 3.20 of 4.00 ms (80.0 %), and 70.0 % of the slowest 1 %. "
        "A mean operation takes 4.00 ms: 3.60 in the server, 0.40 in the network."
    )


def test_what_mending_gives_is_part_of_the_sentence() -> None:
    """A replay of the load says more than a share."""
    gain = Gain(3.0, "replay", "With 64 threads a replay of the load takes 1.00 instead of 4.00 ms on average")
    text = verdict(MEAN, SLOWEST, SOUND, [dataclasses.replace(_THREADS, gain=gain)]).text
    assert "(80.0 %). With 64 threads a replay of the load takes 1.00 instead of 4.00 ms on average. A mean" in text


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.2, "fault"), (0.19, "no-fault"), (None, "fault")], ids=["enough", "less", "not known"]
)
def test_a_fault_needs_a_finding_that_explains_enough(share: float | None, outcome: str) -> None:
    """A fifth of the mean, or a limit whose cost nobody knows."""
    assert verdict(MEAN, SLOWEST, SOUND, [_finding("connection-cap", "server", share)]).outcome == outcome


@pytest.mark.parametrize(("code", "least"), [("net-loss", 0.1), ("congestion-window", 0.5), ("bandwidth", 0.2)])
def test_how_much_is_enough_is_the_catalogues(code: str, least: float) -> None:
    """Loss is never as it should be; a full congestion window mostly has something else behind it."""
    for share, outcome in ((least, "fault"), (least - 0.01, "no-fault")):
        found = _finding(code, "network", share, wait_ms=1.0)
        assert verdict(Layers(2, 0.9), SLOWEST, SOUND, [found]).outcome == outcome


def test_what_the_slowest_wait_for_is_a_fault_of_theirs() -> None:
    """Little of the mean, and most of the slowest 1 %: the sentence says which."""
    loss = _finding("net-loss", "network", 0.06, wait_ms=0.2, slowest=0.56)
    found = verdict(Layers(2, 0.9), SLOWEST, SOUND, [loss])
    assert (found.outcome, found.cause, found.share_slowest) == ("fault", "net-loss", 0.56)
    assert ": 56.0 % of the time of the slowest 1 %. A mean operation takes 2.90 ms" in found.text
    known = verdict(Layers(2, 0.9, client_ms=0.9), SLOWEST, SOUND, [loss])
    assert (known.outcome, known.cause, known.share_slowest) == ("fault", "net-loss", 0.56)
    assert ": 56.0 % of the time of the slowest 1 % on the wire. A mean operation takes 3.80 ms" in known.text


def test_small_causes_that_make_half_of_the_mean_together_are_a_fault() -> None:
    """The largest leads, and the others are named where they matter by themselves."""
    some = [_finding("reconnect", "server", 0.19, excess_ms=1.0, ops=4), _finding("bandwidth", "network", 0.18)]
    some.append(_finding("delayed-ack", "network", 0.15))
    assert verdict(MEAN, SLOWEST, SOUND, some[:2]).outcome == "no-fault"
    assert verdict(MEAN, SLOWEST, SOUND, some).cause == "reconnect"


def test_where_nothing_is_in_flight_no_fault_says_so() -> None:
    """A client that is slow between its calls is not found on the wire: that it asks for nothing is told, where the
    application's time does not say more."""
    seldom = SOUND._replace(idle=0.78)
    said = "Nothing is in flight for 78.0 % of the time: what the client does then, no packet shows."
    assert said in verdict(MEAN, SLOWEST, seldom, []).text
    assert said not in verdict(MEAN, SLOWEST, SOUND, []).text
    assert said not in verdict(dataclasses.replace(MEAN, client_ms=1.0), SLOWEST, seldom, []).text
    assert said not in verdict(MEAN, SLOWEST, seldom, [_STORAGE]).text


def test_what_is_only_told_for_completeness_is_no_fault() -> None:
    """A finding of little weight never leads."""
    serial = dataclasses.replace(_SLOTS, severity="info")
    assert verdict(MEAN, SLOWEST, SOUND, [serial]).outcome == "no-fault"


# --- The true cause leads ---------------------------------------------------------------------------------------------


def test_slots_at_work_are_the_headline_though_their_cost_is_not_captured() -> None:
    """Beside what the wire shows, not behind it, and no surer than they are."""
    found = verdict(Layers(38.17, 0.56), SLOWEST, SOUND, [dataclasses.replace(_STORAGE, share=0.98), _SLOTS])
    assert (found.outcome, found.layer, found.cause, found.share) == ("fault", "client", "client-slots", None)
    assert (found.also, found.confidence, found.largest_layer) == (["server-storage"], "medium", "server")
    assert found.text == (
        "Requests queue in the client: all 2 RPC slots are in use 89.0 % of the time. How long they wait, packets "
        "cannot show. On the wire a mean operation takes 38.73 ms: 38.17 in the server, 0.56 in the network. Besides: "
        "operations take long in a thread of the server (file system, locks or disk), 98.0 % of the mean."
    )
    assert found.next is not None
    assert "/proc/self/mountstats" in found.next.command


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (
            _finding("host-pause", "client", None, "likely", longest_ms=1207.1, total_ms=1207.1),
            "The client was stalled for 1.2 s. What its application waited meanwhile, packets cannot show.",
        ),
        (
            _finding("reconnect", "server", None, "likely", above_wire_ms=9.0, no_connection_ms=3000.0),
            "The client lost its connection, and had none for 3.0 s. What requests waited",
        ),
        (
            _finding("session-slots", "client", None, "likely", slots=2, at_limit_share=0.99),
            "Requests queue in the client: all 2 slots of its NFSv4.1 session are in use 99.0 % of the time.",
        ),
    ],
)
def test_what_keeps_requests_above_the_wire_leads(finding: Diagnosis, words: str) -> None:
    """A pause, a lost connection, a session's slots: their cost has no share, and they are the headline."""
    found = verdict(MEAN, SLOWEST, SOUND, [_STORAGE, finding])
    assert (found.outcome, found.cause) == ("fault", finding.code)
    assert found.text.startswith(words)


def test_threads_of_the_server_lead_before_slots_that_they_fill() -> None:
    """More slots only lengthen the queue for the threads, so the slots come second."""
    found = verdict(MEAN, SLOWEST, SOUND, [_THREADS, _SLOTS])
    assert (found.cause, found.also) == ("server-threads", ["client-slots"])
    less = dataclasses.replace(_THREADS, share=0.4)
    assert verdict(MEAN, SLOWEST, SOUND, [less, _SLOTS]).cause == "client-slots"


def test_what_may_be_callers_and_not_slots_is_no_fault() -> None:
    """What the wire shows leads, and the sentence goes on with the question; where it shows nothing, it cannot be told
    yet, and no cause is named; the client's own counters decide."""
    either = _finding("client-slots", "client", None, "likely", slots=2, at_limit_share=0.89, is_told=False)
    found = verdict(Layers(38.17, 0.56), SLOWEST, SOUND, [dataclasses.replace(_STORAGE, share=0.98), either])
    assert (found.outcome, found.cause, found.also) == ("fault", "server-storage", ["client-slots"])
    assert found.text.startswith(
        "Operations take long in a thread of the server (file system, locks or disk): 37.96 of 38.73 ms (98.0 %), and "
        "never more than 2 calls are in flight: 2 slots, or 2 callers; mountstats tells. A mean operation"
    )
    assert "Besides" not in found.text
    assert found.next is not None
    assert "/proc/self/mountstats" in found.next.command
    alone = verdict(MEAN, SLOWEST, SOUND, [either])
    assert (alone.outcome, alone.layer, alone.cause, alone.confidence) == ("undecided", None, None, "low")
    assert alone.also == ["client-slots"]
    assert alone.text.startswith(
        "Cannot tell yet: never more than 2 calls are in flight: 2 slots, or 2 callers; mountstats tells. A mean"
    )
    assert "What is known" not in alone.text
    assert alone.next is not None
    assert "/proc/self/mountstats" in alone.next.command
    assert "client-slots" in alone.next.causes


def test_what_makes_the_slowest_leads_before_a_symptom_that_is_no_question_by_itself() -> None:
    """2 ms more one way than the other are no reason to leave it open who makes 97 % of the slowest operations."""
    tail = _finding("server-storage", "server", 0.25, "likely", slowest=0.97, in_thread_ms=4.0)
    asymmetry = _finding("net-asymmetry", "network", 0.26, "likely")
    found = verdict(Layers(4.12, 3.3), SLOWEST, SOUND, [asymmetry, tail])
    assert (found.outcome, found.cause) == ("fault", "server-storage")
    much = verdict(Layers(41.2, 33), SLOWEST, SOUND, [dataclasses.replace(asymmetry, share=0.4), tail])
    assert (much.outcome, much.cause) == ("undecided", "net-asymmetry")


def test_a_wait_for_a_thread_that_only_a_phase_tells_is_no_work_of_the_storage() -> None:
    """Over all of the time no number of threads fits, and what the server takes looks like work; in the phase that has
    nearly all of it calls are seen to wait for one of 4 threads. So they do, beside the application's time, too."""
    waits = dataclasses.replace(_THREADS, share=0.6)
    of_phase = verdict(Layers(129, 41), SLOWEST, SOUND, [waits])
    whole = [dataclasses.replace(_STORAGE, share=0.67), _finding("above-wire", "client", 0.1)]
    mean = Layers(120, 42, 18, "READ")
    of_whole = verdict(mean, None, SOUND, whole)
    assert of_whole.cause == "server-storage"
    row: Any = SimpleNamespace(time_share=0.96, ops=1000, client_ms=170.0)
    told = Stretch("from 14:15 UTC on", row, [waits], of_phase, MEAN, SLOWEST, SOUND)
    causes, found = lead_by_parts([told], Whole(whole, of_whole, mean, None)) or ([], of_whole)
    assert (found.outcome, found.layer, found.cause) == ("fault", "server", "server-threads")
    assert found.share == pytest.approx(0.6 * 0.96 * 0.9)
    assert [one.code for one in causes] == ["server-threads", "above-wire"]


def test_slots_that_are_seldom_all_in_use_do_not_lead() -> None:
    """A session whose slots are all in use now and then has a line, and does not lead."""
    seldom = _finding("session-slots", "client", None, "likely", slots=2, at_limit_share=0.2)
    seldom = dataclasses.replace(seldom, severity="info")
    assert verdict(MEAN, SLOWEST, SOUND, [_STORAGE, seldom]).cause == "server-storage"


def test_a_limit_that_all_clients_share_is_named_though_this_one_suffers_less_of_it() -> None:
    """Threads of the server behind a slower disk: both are in the sentence."""
    threads = dataclasses.replace(_THREADS, share=0.42)
    found = verdict(MEAN, SLOWEST, SOUND, [dataclasses.replace(_STORAGE, share=0.57), threads])
    assert (found.cause, found.also) == ("server-storage", ["server-threads"])
    assert "Besides: calls queue in the server for one of its 16 threads, 42.0 % of the mean." in found.text


def test_a_hanging_connection_is_a_fault() -> None:
    """What waits there is in no response time, so nothing else would say it."""
    hang = Hanging(
        connections=1, still=1, calls=3, side="client", waiter="c", other="s", since="", waits_ms=30_000.0, tries=9,
        last_try_ms=25_000.0, frame=1, heard=None,
    )  # fmt: skip
    shut = Diagnosis("window-stays-shut", "server", "warning", None, None, "certain", "", hang, None)
    found = verdict(MEAN, SLOWEST, SOUND, [shut])
    assert (found.outcome, found.layer) == ("fault", "server")
    assert found.text.startswith("The server does not read: its TCP window has been shut for 30.0 s.")


@pytest.mark.parametrize(
    ("finding", "mean", "said"),
    [
        (_finding("server-threads", "server", 0.8, "likely", threads_estimate=3), MEAN, "which works on 3 at a time"),
        (_STORAGE, MEAN, "Operations take long in a thread of the server (file system, locks or disk)"),
        (_finding("server-storage", "server", 0.8, storage_ms=3.0), MEAN, "The server's storage is slow"),
        (_finding("server-slow-ops", "server", 0.8), MEAN, "5 of 100 READs take 200.0 ms, the others 0.200 ms"),
        (_finding("reconnect", "server", 0.8, ops=4), MEAN, "lost its connection: 4 operations waited for a new one"),
        (_DELAY, _FAR, "The hosts are far apart: the shortest round trip is 8.50 ms"),
        (_finding("net-loss", "network", 0.8), _FAR, "Packets are lost between the hosts"),
        (_finding("net-reordering", "network", 0.8), _FAR, "Packets arrive out of order"),
        (_finding("delayed-ack", "network", 0.8), _FAR, "Senders wait for delayed ACKs"),
        (_finding("zero-window", "client", 0.8), _FAR, "The client does not read its socket"),
        (_finding("receive-window", "network", 0.8), _FAR, "TCP window is too small for the path"),
        (_finding("congestion-window", "network", 0.8), _FAR, "with a full congestion window"),
        (_finding("head-of-line", "network", 0.8), _FAR, "Replies wait behind others on their connection"),
        (_finding("bandwidth", "network", 0.8), _FAR, "The path is saturated"),
        (_finding("host-pause", "server", 0.8, pauses=3, longest_ms=800.0), MEAN, "stalled 3 times, for up to 800"),
        (
            _finding("client-slots", "client", 0.9, slots=16, at_limit_share=0.9),
            Layers(1, 0.5, 56.5),
            "all 16 RPC slots are in use 90.0 % of the time",
        ),
    ],
)
def test_the_sentence_says_why(finding: Diagnosis, mean: Layers, said: str) -> None:
    """The cause is named in a few words with its own figure, by its code, and so is whose it is."""
    found = verdict(mean, SLOWEST, SOUND, [finding])
    assert (found.outcome, found.layer, found.cause) == ("fault", finding.layer, finding.code)
    assert said in found.text.partition(". ")[0]
    assert found.text.endswith(".")


def test_what_is_known_at_most_is_said_so() -> None:
    """What kept requests above the wire has a bound, and no figure; it makes the whole sentence no more than likely."""
    pause = _finding("host-pause", "client", 0.5, "certain", longest_ms=1200.0, counted_above_ms=29.0)
    found = verdict(Layers(1, 0.5, 56.5, "READ"), SLOWEST, SOUND, [pause])
    assert ": up to 29.00 of 58.00 ms of the application's READ time (50.0 %)." in found.text
    assert found.confidence == "medium"


# --- Cannot tell yet --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finding", "mean", "decides"),
    [
        (_finding("between-taps", "network", 0.8, "likely"), _FAR, "perf sched"),
        (_finding("server-queue-unknown", "server", 0.8), Layers(8, 1), "pool_stats"),
        (_finding("above-wire", "client", 0.8), Layers(5, 5, 50), "mountstats"),
    ],
)
def test_time_that_nothing_explains_is_undecided(finding: Diagnosis, mean: Layers, decides: str) -> None:
    """Nobody is blamed, the one next measurement is named, and the layer that is the largest stands beside it."""
    found = verdict(mean, SLOWEST, SOUND, [finding])
    assert (found.outcome, found.layer, found.cause, found.confidence) == ("undecided", None, finding.code, "low")
    assert found.largest_layer == mean.largest
    assert found.text.startswith("Cannot tell yet: ")
    assert found.next is not None
    assert decides in found.next.command


def test_a_short_time_that_nothing_explains_is_no_reason_for_doubt() -> None:
    """Half a millisecond between the capture points is what machines have."""
    short = _finding("between-taps", "network", 0.6, "likely")
    assert verdict(Layers(0.3, 0.6), SLOWEST, SOUND, [short]).outcome == "no-fault"


def test_what_is_certain_leads_beside_what_is_open() -> None:
    """Unless the open part is more than twice as large; what is only likely has to be the larger one."""
    between = _finding("between-taps", "network", 0.5, "likely")
    for share, sure, outcome in (
        (0.25, "certain", "fault"),
        (0.24, "certain", "undecided"),
        (0.4, "likely", "undecided"),
    ):
        loss = _finding("net-loss", "network", share, sure)
        found = verdict(_FAR, SLOWEST, SOUND, [between, loss])
        assert found.outcome == outcome
        assert "net-loss" in (found.cause, *found.also)


def test_a_long_time_without_any_finding_is_undecided() -> None:
    """Nothing was found, and it is slow all the same: that is no "no fault"."""
    found = verdict(Layers(20, 1), SLOWEST, SOUND)
    assert (found.outcome, found.largest_layer) == ("undecided", "server")
    assert "20.00 ms pass in the server, and nothing that was looked for explains them" in found.text
    assert found.next is not None


def test_a_long_time_between_the_hosts_without_a_finding_is_undecided() -> None:
    """Where the shortest way is not known, or loss explains a part of it, what is left is no "no fault"."""
    loss = _finding("net-loss", "network", 0.09, "certain")
    found = verdict(Layers(1.0, 8.7), SLOWEST, SOUND, [loss])
    assert (found.outcome, found.largest_layer) == ("undecided", "network")
    assert "pass between the hosts, and nothing that was looked for explains them" in found.text
    assert verdict(Layers(1.0, 4.0), SLOWEST, SOUND).outcome == "no-fault"
    delay = _finding("net-delay", "network", 0.85, "certain")
    assert verdict(Layers(1.0, 8.7), SLOWEST, SOUND, [delay]).cause == "net-delay"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ops": 19}, "only 19 operations"),
        ({"complete": 0.79}, "only 79 % of the operations of this time are in both captures"),
        ({"negative": 101}, "101 operations take longer at the server than at the client"),
        ({"clock_fits": False}, "no offset of the two clocks explains the operations"),
        ({"impossible": 1}, "1 operation would have had a reply long before the call"),
        ({"unfinished": 0.3}, "calls without a reply have 30.0 % of the time when the capture ends"),
    ],
)
def test_captures_that_show_too_little_cannot_say_that_nothing_is_wrong(changes: dict[str, Any], why: str) -> None:
    """A wrong answer is worse than none; a fault that they do show stays one, with low confidence."""
    ground = SOUND._replace(**changes)
    found = verdict(MEAN, SLOWEST, ground)
    assert (found.outcome, found.confidence) == ("undecided", "low")
    assert why in found.text
    assert found.next is not None
    fault = verdict(MEAN, SLOWEST, ground, [_THREADS])
    weak = "low" if "complete" in changes or "ops" in changes or "negative" in changes else fault.confidence
    assert (fault.outcome, fault.confidence) == ("fault", weak)


@pytest.mark.parametrize(
    ("changes", "findings", "word"),
    [
        ({}, [], "high"),
        ({"hidden": 0.09, "unfinished": 0.09}, [], "high"),
        ({"hidden": 0.1}, [], "medium"),
        ({"unfinished": 0.1}, [], "medium"),
        ({}, [_finding("connection-cap", "server", 0.5)], "high"),
        ({}, [_finding("connection-cap", "server", 0.49)], "medium"),
        ({}, [_finding("connection-cap", "server", 0.3), _finding("net-delay", "network", 0.3)], "high"),
    ],
)
def test_high_is_of_time_that_is_explained(changes: dict[str, Any], findings: list[Diagnosis], word: str) -> None:
    """All operations are matched, and half of the time has no cause, or no capture shows it: that is not certain."""
    assert verdict(MEAN, SLOWEST, SOUND._replace(**changes), findings).confidence == word


@pytest.mark.parametrize("above", [None, 50.0])
def test_a_negative_network_names_no_layer(above: float | None) -> None:
    """Where the server takes longer than the client sees, there is no layer, no share, no cause and no confidence."""
    found = verdict(Layers(10, -4, above), SLOWEST, SOUND, [_THREADS])
    assert (found.outcome, found.layer, found.cause, found.share, found.confidence) == (
        "undecided", None, None, None, "low",
    )  # fmt: skip
    assert (found.largest_layer, found.largest_share, found.proof) == (None, None, [])
    assert "(10.00 ms)" in found.text
    assert "(6.00 ms)" in found.text


def test_a_negative_server_time_names_no_layer() -> None:
    """A server that answers before it was asked has wrong time stamps, whatever the network seems to take."""
    found = verdict(Layers(-0.3, 2.6), SLOWEST, SOUND)
    assert (found.outcome, found.largest_layer, found.confidence) == ("undecided", None, "low")


def test_where_nobody_may_log_in_the_evidence_goes_to_the_operator() -> None:
    """From a client's capture alone a measurement on the server may be out of reach, and one on the client is not."""
    slow = _finding("server-storage", "server", 0.9, "likely", in_thread_ms=3.0)
    slots = _finding("client-slots", "client", None, "likely")
    for finding, ground, is_said in (
        (slow, SOUND._replace(inferred="server"), True),
        (slow, SOUND, False),
        (slow, SOUND._replace(inferred="client"), False),
        (slots, SOUND._replace(inferred="server"), False),
    ):
        step = verdict(MEAN, SLOWEST, ground, [finding]).next
        assert step is not None
        assert step.where.endswith("send its operator the evidence of --markdown)") is is_said


def test_every_finding_that_leaves_a_verdict_open_has_a_next_measurement() -> None:
    """And what is only likely has one, too; each is a command that can be pasted, and says on which host."""
    for code in VAGUE:
        step = row(code).next
        assert step is not None
        assert step.command.strip()
        assert step.where
        assert set(step.causes) <= CODES


# --- What the user calls slow -----------------------------------------------------------------------------------------


def _objective(met: bool | None) -> Objective:
    return Objective("READ=5ms", "READ", "mean", "client", 5.0, 4.0 if met else 6.0, met)


def test_a_share_of_what_is_quick_enough_is_no_fault() -> None:
    """What is asked for is met, so that nobody is to blame for most of it; that is named all the same."""
    found = verdict(MEAN, SLOWEST, SOUND, [_THREADS], [_objective(met=True)])
    assert (found.outcome, found.also) == ("no-fault", ["server-threads"])
    assert found.text.startswith("No fault found: what was asked for is met (READ mean 4.00 ms, at most 5 wanted).")
    assert found.objectives == [_objective(met=True)]


def test_a_limit_above_the_wire_is_a_fault_however_quick_the_wire_is() -> None:
    """An objective speaks of response times; requests that queue in the client are in none."""
    assert verdict(MEAN, SLOWEST, SOUND, [_SLOTS], [_objective(met=True)]).cause == "client-slots"


def test_an_objective_that_is_not_met_is_said() -> None:
    """With a finding it is a fault, without one undecided, with the next measurement."""
    fault = verdict(MEAN, SLOWEST, SOUND, [_THREADS], [_objective(met=False)])
    assert fault.outcome == "fault"
    assert "Not met: READ mean 6.00 ms, at most 5 wanted." in fault.text
    other = verdict(MEAN, SLOWEST, SOUND, [], [_objective(met=False)])
    assert (other.outcome, other.next is not None) == ("undecided", True)


def test_an_objective_of_which_nothing_is_known_decides_nothing() -> None:
    """No such operation in the captures."""
    assert verdict(MEAN, SLOWEST, SOUND, [_THREADS], [_objective(met=None)]).outcome == "fault"


# --- Where the time goes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "layer", "share"),
    [(Layers(3, 1), "server", 0.75), (Layers(0.1, 0.3), "network", 0.75), (Layers(0.1, 0.2, 0.7), "client", 0.7)],
)
def test_the_layer_that_adds_most_is_named_beside_the_outcome(mean: Layers, layer: str, share: float) -> None:
    """With its part of the mean."""
    found = verdict(mean, SLOWEST, SOUND)
    assert (found.largest_layer, found.largest_share) == (layer, pytest.approx(share))


def test_an_applications_figure_is_part_of_the_sum() -> None:
    """With the application's mean the client is a layer, and of the slowest 1 % nothing is said."""
    found = verdict(Layers(1, 0.5, 0.5, "READ and WRITE"), Layers(1, 99), SOUND)
    assert found.largest_share_slowest is None
    assert found.text.endswith(
        "A mean READ or WRITE takes 2.00 ms: 0.50 above the wire in the client, 1.00 in the server, 0.50 in the "
        "network."
    )


def test_no_time_at_all_divides_by_nothing() -> None:
    """Equal timestamps everywhere: shares are 0."""
    assert verdict(Layers(0, 0), Layers(0, 0), SOUND).largest_share == 0.0


@pytest.mark.parametrize(
    ("mean", "finding", "proof"),
    [
        (Layers(48, 1), _finding("server-threads", "server", 0.8, queue_ms=47.0, in_thread_ms=1.0),
         ["client SRT 49.00 ms", "server SRT 48.00 ms", "wait for a thread 47.00 ms"]),
        (Layers(48, 1, 7), _THREADS, ["application 56.00 ms", "client SRT 49.00 ms", "server SRT 48.00 ms"]),
        (_FAR, _DELAY, ["client SRT 10.00 ms", "server SRT 1.00 ms", "shortest round trip 8.50 ms"]),
        (_FAR, _finding("net-loss", "network", 0.8, wait_ms=7.5),
         ["client SRT 10.00 ms", "server SRT 1.00 ms", "wait for lost data 7.50 ms"]),
    ],
)  # fmt: skip
def test_three_figures_prove_it(mean: Layers, finding: Diagnosis, proof: list[str]) -> None:
    """Those of the layers, and the one that the cause rests on."""
    assert verdict(mean, SLOWEST, SOUND, [finding]).proof == proof


@given(_ms, _ms, st.none() | _ms)
def test_shares_sum_to_one_and_the_largest_is_named(server: float, network: float, client: float | None) -> None:
    """For any parts that are not negative the three shares sum to 1, and no layer has a larger one than the named."""
    layers = Layers(server, network, client, "READ")
    assume(layers.total_ms > 0)
    shares = {layer: layers.share(layer) for layer in ("server", "network", "client")}
    assert sum(shares.values()) == pytest.approx(1.0)
    found = verdict(layers, layers, SOUND)
    assert found.largest_layer is not None
    assert found.largest_share == max(shares.values()) == shares[found.largest_layer]
    assert client is not None or found.largest_layer != "client"


# --- How sure ---------------------------------------------------------------------------------------------------------


def test_a_cause_that_is_only_likely_is_never_stated_with_high_confidence() -> None:
    """The word is of the whole sentence, and the ticket hangs on its first half."""
    assert verdict(MEAN, SLOWEST, SOUND, [_THREADS]).confidence == "high"
    found = verdict(MEAN, SLOWEST, SOUND, [_STORAGE])
    assert (found.confidence, found.reasons[-1]) == ("medium", "the cause, server-storage, is likely")


@pytest.mark.parametrize(("mean", "word"), [(Layers(60, 40), "medium"), (Layers(59, 41), "low")])
def test_figures_that_somebody_gave_are_never_sure(mean: Layers, word: str) -> None:
    """Without captures there is nothing on the slowest, and medium is the most."""
    found = verdict(mean, None, None, [_THREADS])
    assert (found.outcome, found.cause, found.confidence) == ("fault", "server-threads", word)
    assert "slowest" not in found.text
    assert "taken as they were given" in found.reasons[0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"complete": 0.95}, "high"), ({"complete": 0.949}, "medium"), ({"complete": 0.80}, "medium"),
        ({"complete": 0.799}, "low"),
        ({"ops": 100}, "high"), ({"ops": 99}, "medium"), ({"ops": 20}, "medium"), ({"ops": 19}, "low"),
        ({"negative": 10}, "high"), ({"negative": 11}, "medium"), ({"negative": 101}, "low"),
        ({"clock_fits": False}, "low"),
        ({"ops": 99, "negative": 2, "complete": 0.94}, "medium"),
    ],
)  # fmt: skip
def test_the_weakest_ground_decides_how_sure_it_is(changes: dict[str, Any], word: str) -> None:
    """Completeness, number of ops, negative network times, clocks: grounds do not add up, and each weak one is said."""
    found = verdict(MEAN, SLOWEST, SOUND._replace(**changes), [_THREADS])
    assert found.confidence == word
    assert (len(found.reasons) > 1 or SOUND.complete != changes.get("complete", 1.0)) == (
        word != "high" or "complete" in changes
    )


@pytest.mark.parametrize(
    ("complete", "said"), [(1.0, "all"), (0.99998, "99.99 %"), (0.934, "93 %"), (0.9512, "95.12 %")]
)
def test_completeness_is_never_rounded_up_to_all(complete: float, said: str) -> None:
    """One number, and why it is not all."""
    ground = SOUND._replace(complete=complete, incomplete="" if complete == 1 else "7 in neither")
    reason = verdict(MEAN, SLOWEST, ground).reasons[0]
    assert reason.startswith(f"{said} of the operations of this time are in both captures")
    assert reason.endswith("captures" if complete == 1 else ": 7 in neither")


@given(
    st.builds(Layers, _ms, _ms, st.none() | _ms),
    st.builds(Layers, _ms, _ms),
    # Hypothesis would make up what has a default, too.
    st.tuples(st.integers(1, 5000), st.floats(0, 1), st.just(""), st.integers(0, 500), st.booleans()).map(
        lambda told: Ground(*told)
    ),
    st.sampled_from([[], [_THREADS], [_STORAGE], [_SLOTS], [_DELAY, _STORAGE]]),
)
def test_less_to_stand_on_is_never_more_confidence(
    mean: Layers, slowest: Layers, ground: Ground, findings: list[Diagnosis]
) -> None:
    """Taking the best of every ground never lowers the word; and whom no finding names is never to blame."""
    words = ("low", "medium", "high")
    found, better = verdict(mean, slowest, ground, findings), verdict(mean, slowest, SOUND, findings)
    assert words.index(found.confidence) <= words.index(better.confidence)
    assert (found.layer is not None) == (found.outcome == "fault")
    assert found.outcome != "fault" or found.cause in [one.code for one in findings]
    assert found.outcome != "undecided" or (found.next is not None and found.confidence == "low")


def test_a_negative_network_among_the_slowest_is_no_share() -> None:
    """A server share above 100 % is not printed: it is said that the network time is negative there."""
    made = verdict(MEAN, Layers(12, -2), SOUND)
    assert made.largest_share_slowest is None
    assert made.confidence == "medium"
    assert any("negative" in reason for reason in made.reasons)


def test_an_undecided_answer_and_its_confidence_say_the_same_completeness() -> None:
    """One figure, rounded one way: 79.6 % is not 80 % in the sentence and 79 % below it."""
    found = verdict(MEAN, SLOWEST, SOUND._replace(complete=0.796, incomplete="7 in neither"))
    assert found.outcome == "undecided"
    assert "only 79 % of the operations of this time are in both captures." in found.text
    assert found.reasons[0] == "79 % of the operations of this time are in both captures: 7 in neither"
