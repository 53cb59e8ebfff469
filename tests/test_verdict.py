"""Means per layer and what they stand on -> the layer that is named, its cause, the sentence, and how sure it is."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nfslat.findings.client import Slots
from nfslat.findings.diagnosis import Diagnosis, Evidence
from nfslat.findings.hosts import HostPause
from nfslat.findings.layers import Layers
from nfslat.findings.network import Asymmetry, Delay
from nfslat.findings.server import ConnectionCap, Queue, Reconnect, Storage, Unknown, Workers
from nfslat.findings.slow_ops import Late
from nfslat.findings.tcp import Waits
from nfslat.findings.verdict import Ground, verdict

SOUND = Ground(ops=1000, untimed=0, missed=0, negative=0, clock_fits=True, unseen_share=0.0)
MEAN, SLOWEST = Layers(server_ms=9, network_ms=1), Layers(server_ms=80, network_ms=20)
_ms = st.integers(0, 10**9).map(lambda us: us / 1000)


def _confidence(mean: Layers = MEAN, slowest: Layers = SLOWEST, **changes: object) -> str:
    return verdict(mean, slowest, dataclasses.replace(SOUND, **changes)).confidence  # type: ignore[arg-type]


# --- The layer and its shares -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "layer", "share"),
    [
        (Layers(9, 1), "server", 0.9),
        (Layers(1, 3), "network", 0.75),
        (Layers(1, 2, 7), "client", 0.7),
        (Layers(6, 2, 2), "server", 0.6),
        (Layers(2, 7, 1), "network", 0.7),
    ],
)
def test_the_layer_that_adds_most_is_named(mean: Layers, layer: str, share: float) -> None:
    """The verdict names the layer with the largest part of the mean, and that part as its share."""
    found = verdict(mean, SLOWEST, SOUND)
    assert (found.layer, found.share, found.cause) == (layer, share, None)


def test_the_sentence_holds_the_figures() -> None:
    """The text of a verdict says how much of how much the layer adds, and the same for the slowest 1 %."""
    found = verdict(Layers(291.24, 0.5576), Layers(499.5, 0.5), SOUND)
    assert found.text == (
        "The server adds 291.2 of 291.8 ms of the response time on the client's wire (99.8 %), "
        "and 99.9 % in the slowest 1 %."
    )
    assert found.share_slowest == pytest.approx(0.999)
    assert (found.confidence, found.reasons) == ("high", ["100.0 % of the 1,000 ops seen in the overlap are matched"])


def test_another_layer_in_the_slowest_ops_is_named_with_its_own_figures() -> None:
    """Where the slowest 1 % are made elsewhere the text names both layers, and the share stays the first one's."""
    found = verdict(Layers(1.68, 0.85), Layers(5.82, 7.21), SOUND)
    assert found.text == (
        "The server adds 1.68 of 2.53 ms of the response time on the client's wire (66.4 %); "
        "in the slowest 1 % the network adds most: 55.3 % of 13.03 ms."
    )
    assert found.share_slowest == pytest.approx(5.82 / 13.03)
    assert found.reasons[-1] == "mean and slowest 1 % point to different layers"


@pytest.mark.parametrize(
    ("ms", "said"), [(0.0123, "0.012"), (0.5, "0.500"), (2, "2.00"), (12.345, "12.35"), (1e6, "1")]
)
def test_times_are_written_with_three_digits_and_no_exponent(ms: float, said: str) -> None:
    """A time of any size is readable: no exponent, and at least three digits from 0.1 ms on."""
    text = verdict(Layers(ms, 0), Layers(ms, 0), SOUND).text
    assert text.startswith(f"The server adds {said}")
    assert "e+" not in text


def test_an_applications_figure_lets_the_client_lead() -> None:
    """With the application's mean the client can be the layer, and of the slowest 1 % nothing is said."""
    found = verdict(Layers(30, 5, 65, "READ and WRITE"), Layers(1, 99), SOUND)
    assert (found.layer, found.share, found.share_slowest, found.confidence) == ("client", 0.65, None, "high")
    assert found.text == (
        "The client, above the wire, adds 65.00 of 100.0 ms of the application's READ and WRITE time (65.0 %)."
    )
    assert not any("slowest" in reason for reason in found.reasons)


def test_an_application_that_adds_little_leaves_the_lead_to_the_wire() -> None:
    """The application's figure changes what the shares are of, not who leads."""
    found = verdict(Layers(90, 5, 5, "READ"), Layers(1, 99), SOUND)
    assert (found.layer, found.share, found.share_slowest) == ("server", 0.9, None)
    assert "90.00 of 100.0 ms of the application's READ time (90.0 %)." in found.text
    assert "slowest" not in found.text


@pytest.mark.parametrize("above", [None, 50.0])
def test_a_negative_network_names_no_layer(above: float | None) -> None:
    """Where the server takes longer than the client sees, there is no layer, no share, and no confidence."""
    found = verdict(Layers(10, -4, above), SLOWEST, SOUND)
    assert (found.layer, found.share, found.share_slowest, found.confidence) == ("unknown", None, None, "low")
    assert "(10.00 ms)" in found.text
    assert "(6.00 ms)" in found.text
    assert found.reasons == ["the mean network time is negative"]


def test_no_time_at_all_divides_by_nothing() -> None:
    """Equal timestamps everywhere: shares are 0, and so is the confidence."""
    found = verdict(Layers(0, 0), Layers(0, 0), SOUND)
    assert (found.share, found.share_slowest, found.confidence) == (0.0, 0.0, "low")


# --- The cause --------------------------------------------------------------------------------------------------------


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


def _finding(code: str, layer: str, share: float | None, confidence: str = "certain", **figures: Any) -> Diagnosis:
    if "threads_estimate" in figures:
        figures["workers"] = _workers(threads_estimate=figures.pop("threads_estimate"))
    evidence = _EVIDENCE.get(code, Waits(wait_ms=0.0, slowest_wait_ms=None))
    if code == "server-threads":
        figures["proven"] = confidence == "certain"
    evidence = dataclasses.replace(evidence, **figures)
    return Diagnosis(code, layer, "warning", share, None, confidence, code, evidence, None)


_THREADS = _finding("server-threads", "server", 0.8, queue_ms=47.0, in_thread_ms=1.0, threads_estimate=16)
_QUEUE_OF_STORAGE = dataclasses.replace(
    _finding("server-threads", "server", 0.8, queue_ms=7.0, in_thread_ms=1.0), code="server-storage"
)
_SLOTS = _finding("client-slots", "client", 0.9, slots=16)


@pytest.mark.parametrize(
    ("finding", "mean", "said"),
    [
        (_THREADS, MEAN, "47.00 ms of it the wait for one of its 16 threads"),
        (_finding("server-threads", "server", 0.8, queue_ms=5.0, threads_estimate=1), MEAN, "for its only thread"),
        (_finding("server-threads", "server", 0.8, queue_ms=5.0, threads=8, threads_estimate=7), MEAN, "its 8 threads"),
        (_finding("server-threads", "server", 0.8, queue_ms=5.0), MEAN, "5.00 ms of it the wait for a thread"),
        (_finding("server-storage", "server", 0.8, in_thread_ms=8.0), MEAN, "8.00 ms of it for storage"),
        (
            dataclasses.replace(
                _finding("server-threads", "server", 0.8, queue_ms=7.0, in_thread_ms=1.0), code="server-storage"
            ),
            MEAN,
            "7.00 ms of it for storage",
        ),
        (_finding("server-queue-unknown", "server", 0.8, in_thread_ms=8.0), MEAN, "nothing says what it is for"),
        (
            _finding("server-slow-ops", "server", 0.8, mean_ms=8.0),
            MEAN,
            "by 5 of 100 READs, which take 200.0 ms",
        ),
        (_finding("reconnect", "server", 0.8, excess_ms=6.0, ops=4), MEAN, "6.00 ms of it by 4 ops that waited for a"),
        (
            _finding("net-delay", "network", 0.8, least_round_trip_ms=8.5),
            Layers(1, 9),
            "the shortest round trip between the hosts is 8.50 ms",
        ),
        (_finding("net-loss", "network", 0.8, wait_ms=7.5), Layers(1, 9), "7.50 ms of it until lost data were sent"),
        (_finding("net-asymmetry", "network", 0.8), Layers(1, 9), "in one direction more than in"),
        (
            _finding("net-reordering", "network", 0.8, wait_ms=7.5),
            Layers(1, 9),
            "7.50 ms of it for packets that others",
        ),
        (_finding("delayed-ack", "network", 0.8, wait_ms=7.5), Layers(1, 9), "7.50 ms of it for ACKs that were kept"),
        (_finding("zero-window", "network", 0.8, wait_ms=7.5), Layers(1, 9), "7.50 ms of it for a receiver that did"),
        (_finding("receive-window", "network", 0.8, wait_ms=7.5), Layers(1, 9), "7.50 ms of it for room in the receiv"),
        (_finding("congestion-window", "network", 0.8, wait_ms=7.5), Layers(1, 9), "7.50 ms of it for ACKs, as the co"),
        (_finding("head-of-line", "network", 0.8, wait_ms=7.5), Layers(1, 9), "7.50 ms of it behind other replies on"),
        (_finding("bandwidth", "network", 0.8, wait_ms=7.5), Layers(1, 9), "7.50 ms of it because the path carries no"),
        (_finding("host-pause", "server", 0.8, wait_ms=7.5), MEAN, "7.50 ms of it while its host did not run"),
        (
            _finding("host-pause", "client", 0.8, wait_ms=0.0, counted_above_ms=56.0),
            Layers(1, 0.5, 56.5),
            "up to 56.00 ms of it while its host did not run",
        ),
        (_SLOTS, Layers(1, 0.5, 56.5), "for it has no more than 16 slots"),
        (_finding("session-slots", "client", 0.9, slots=2), Layers(1, 0.5, 56.5), "for it has no more than 2 slots"),
    ],
)
def test_the_sentence_says_why(finding: Diagnosis, mean: Layers, said: str) -> None:
    """The cause is named in a few words with its own figure, and by its code."""
    found = verdict(mean, SLOWEST, SOUND, [finding])
    assert (found.layer, found.cause) == (finding.layer, finding.code)
    assert said in found.text
    assert found.text.endswith(".")


def test_the_whole_sentence_with_its_cause() -> None:
    """It can be pasted into a ticket."""
    assert verdict(Layers(48, 1), Layers(90, 1), SOUND, [_THREADS]).text == (
        "The server adds 48.00 of 49.00 ms of the response time on the client's wire (98.0 %), "
        "47.00 ms of it the wait for one of its 16 threads, and 98.9 % in the slowest 1 %."
    )


def test_the_cause_is_the_first_that_explains_enough_of_its_layer() -> None:
    """Findings on other layers, of unknown share, or of less than 30 % of what the layer adds are not the cause."""
    assert verdict(MEAN, SLOWEST, SOUND, [_finding("net-loss", "network", 0.1, wait_ms=1.0)]).cause is None
    assert verdict(MEAN, SLOWEST, SOUND, [_finding("connection-cap", "server", None)]).cause is None
    small, large = (_finding("reconnect", "server", share, excess_ms=3.0, ops=4) for share in (0.26, 0.28))
    assert verdict(MEAN, SLOWEST, SOUND, [small]).cause is None
    assert verdict(MEAN, SLOWEST, SOUND, [large]).cause == "reconnect"
    assert verdict(MEAN, SLOWEST, SOUND, [small, _SLOTS, _THREADS, large]).cause == "server-threads"


def test_no_cause_where_no_layer_is_named() -> None:
    """Wrong time stamps prove nothing."""
    found = verdict(Layers(10, -4), SLOWEST, SOUND, [_THREADS])
    assert (found.cause, found.proof) == (None, [])


@pytest.mark.parametrize(
    ("mean", "finding", "proof"),
    [
        (Layers(48, 1), _THREADS, ["client SRT 49.00 ms", "server SRT 48.00 ms", "wait for a thread 47.00 ms"]),
        (Layers(48, 1, 7), _THREADS, ["application 56.00 ms", "client SRT 49.00 ms", "server SRT 48.00 ms"]),
        (
            Layers(20, 1),
            _finding("server-storage", "server", 0.9, in_thread_ms=20.0),
            ["client SRT 21.00 ms", "server SRT 20.00 ms", "in the server's threads 20.00 ms"],
        ),
        (
            Layers(1, 9),
            _finding("net-delay", "network", 0.8, least_round_trip_ms=8.5),
            ["client SRT 10.00 ms", "server SRT 1.00 ms", "shortest round trip 8.50 ms"],
        ),
        (
            Layers(1, 9),
            _finding("net-loss", "network", 0.8, wait_ms=7.5),
            ["client SRT 10.00 ms", "server SRT 1.00 ms", "wait for lost data 7.50 ms"],
        ),
        (Layers(1, 0.5, 56.5), _SLOTS, ["application 58.00 ms", "client SRT 1.50 ms", "server SRT 1.00 ms"]),
    ],
)
def test_three_figures_prove_it(mean: Layers, finding: Diagnosis, proof: list[str]) -> None:
    """Those of the layers, and the one that the cause rests on."""
    assert verdict(mean, SLOWEST, SOUND, [finding]).proof == proof


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("net-reordering", "wait for overtaken packets"),
        ("delayed-ack", "wait for delayed ACKs"),
        ("zero-window", "wait for the receiver's window"),
        ("receive-window", "wait for room in the receiver's window"),
        ("congestion-window", "wait for ACKs"),
        ("head-of-line", "wait behind other replies"),
        ("bandwidth", "wait for the path's bandwidth"),
    ],
)
def test_waits_for_tcp_are_proofs(code: str, words: str) -> None:
    """Each by its name."""
    found = verdict(Layers(1, 9), SLOWEST, SOUND, [_finding(code, "network", 0.8, wait_ms=7.5)])
    assert found.proof == ["client SRT 10.00 ms", "server SRT 1.00 ms", f"{words} 7.50 ms"]


@pytest.mark.parametrize(
    ("mean", "said"),
    [
        (Layers(5, 1, moved_ms={"server": -1, "network": 1, "client": 0}),
         "The server adds 4.00 of 6.00 ms of the response time on the client's wire (66.7 %), and 80.0 % in the "
         "slowest 1 %. The 4.00 ms are its response time of 5.00 ms, less 1.00 ms in which "
         "TCP kept calls or replies back."),
        (Layers(5, 1, moved_ms={"server": -4, "network": 4, "client": 0}),
         " The 5.00 ms are 1.00 ms between the hosts and 4.00 ms in which TCP kept calls or replies back at the "
         "server."),
        (Layers(2, 4, moved_ms={"server": 3, "network": -3, "client": 0}),
         " The 5.00 ms are its response time of 2.00 ms and 3.00 ms in which it did not run while calls were on "
         "the way to it."),
        (Layers(1, 5, moved_ms={"server": 0, "network": -4, "client": 4}),
         " The 4.00 ms are 4.00 ms in which it did not run while replies were on the way to it."),
        (Layers(1, 5, 6, moved_ms={"server": 0, "network": -4, "client": 4}),
         " The 10.00 ms are 6.00 ms above the wire and 4.00 ms in which it did not run while replies were on the way"),
        (Layers(1, 9, moved_ms={"server": 0, "network": -2, "client": 2}),
         " The 7.00 ms are 9.00 ms between the hosts, less 2.00 ms in which a host did not run."),
    ],
)  # fmt: skip
def test_what_was_moved_between_layers_is_said(mean: Layers, said: str) -> None:
    """The headline's figure comes from those of the two SRTs, which stand below it, by a sum that the reader can do."""
    assert said in verdict(mean, SLOWEST, SOUND).text


def test_the_slowest_ops_are_counted_alike() -> None:
    """Where their shares differ from those of the SRTs it is said, and how, where another layer leads there."""
    mean = Layers(9, 1, moved_ms={"server": -1, "network": 1, "client": 0})
    same = verdict(mean, Layers(90, 10, moved_ms={"server": -20, "network": 20, "client": 0}), SOUND)
    assert same.text.endswith(
        " (80.0 %), and 70.0 % in the slowest 1 %. The 8.00 ms are its response time of 9.00 ms, less 1.00 ms in which "
        "TCP kept calls or replies back."
    )
    other = verdict(mean, Layers(60, 40, moved_ms={"server": -30, "network": 30, "client": 0}), SOUND)
    assert other.text.endswith(
        "; in the slowest 1 % the network adds most: 70.0 % of 100.0 ms. The 8.00 ms are its response time of 9.00 ms, "
        "less 1.00 ms in which TCP kept calls or replies back. In the slowest the 70.00 ms are 40.00 ms "
        "between the hosts and 30.00 ms in which TCP kept calls or replies back at the server."
    )


def test_a_client_that_did_not_run_is_said_where_its_cost_is_not_known() -> None:
    """What its application waited is above the wire."""
    pause = _finding("host-pause", "client", None, "likely", total_ms=1200.0, wait_ms=0.0)
    text = verdict(MEAN, SLOWEST, SOUND, [pause]).text
    assert text.endswith(
        " Above the wire there may be more: the client did not run for 1200.0 ms, and what its application waited then "
        "is not captured."
    )


def test_without_a_cause_the_layers_are_the_proof() -> None:
    """Two figures, or three with the application's."""
    assert verdict(Layers(48, 1), SLOWEST, SOUND).proof == ["client SRT 49.00 ms", "server SRT 48.00 ms"]


def test_a_limit_of_the_client_is_said_where_its_cost_is_not_known() -> None:
    """Waits for a slot are not on the wire: the verdict on the wire stands, and says that there may be more."""
    limit = _finding("client-slots", "client", None, "likely", slots=16)
    found = verdict(MEAN, SLOWEST, SOUND, [_THREADS, limit])
    assert found.cause == "server-threads"
    assert found.text.endswith(
        " Above the wire there may be more: the client is held at 16 calls in flight, "
        "and those that wait are not captured."
    )
    assert "may be more" not in verdict(Layers(1, 0.5, 56.5), SLOWEST, SOUND, [_SLOTS]).text


def test_a_cause_that_is_only_likely_is_a_reason() -> None:
    """It is said, and the word is weaker, too: it is of the whole sentence, and the ticket hangs on its second half."""
    likely = _finding("server-threads", "server", 0.8, "likely", queue_ms=47.0, in_thread_ms=1.0, threads_estimate=16)
    found = verdict(MEAN, SLOWEST, SOUND, [likely])
    assert found.reasons[-1] == "the cause, server-threads, is likely"
    assert (found.confidence, verdict(MEAN, SLOWEST, SOUND, [_THREADS]).confidence) == ("medium", "high")
    assert "a limit of 16 at once: its threads, or storage or processors that take no more at once" in found.text
    storage = _finding("server-storage", "server", 0.8, in_thread_ms=8.0, confidence="likely")
    assert verdict(MEAN, SLOWEST, SOUND, [storage]).confidence == "medium"
    assert not any("cause" in reason for reason in verdict(MEAN, SLOWEST, SOUND, [_THREADS]).reasons)


@pytest.mark.parametrize(("mean", "word"), [(Layers(60, 40), "medium"), (Layers(59, 41), "low")])
def test_figures_that_somebody_gave_are_never_sure(mean: Layers, word: str) -> None:
    """Without captures there is nothing on the slowest, and medium is the most."""
    found = verdict(mean, None, None, [_THREADS])
    assert (found.layer, found.cause, found.confidence, found.share_slowest) == ("server", "server-threads", word, None)
    assert "slowest" not in found.text
    assert "taken as they were given" in found.reasons[0]


# --- Confidence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "missed", "word"),
    [(1000, 0, "high"), (950, 50, "high"), (949, 51, "medium"), (700, 300, "medium"), (699, 301, "low")],
)
def test_confidence_by_the_share_of_matched_ops(ops: int, missed: int, word: str) -> None:
    """Below 95 % matched the word is medium, below 70 % it is low; exactly there it is not."""
    assert _confidence(ops=ops, missed=missed) == word


@pytest.mark.parametrize(("ops", "word"), [(100, "high"), (99, "medium"), (20, "medium"), (19, "low"), (1, "low")])
def test_confidence_by_the_number_of_ops(ops: int, word: str) -> None:
    """Below 100 matched ops the word is medium, below 20 it is low, and few ops are named as the reason."""
    found = verdict(MEAN, SLOWEST, dataclasses.replace(SOUND, ops=ops))
    assert found.confidence == word
    assert (f"only {ops} matched ops" in found.reasons) == (ops < 100)


@pytest.mark.parametrize(
    ("mean", "word"),
    [
        (Layers(600, 400), "high"),
        (Layers(599, 401), "medium"),
        (Layers(450, 300, 250), "medium"),
        (Layers(449, 300, 251), "low"),
    ],
)
def test_confidence_by_the_share_of_the_leading_layer(mean: Layers, word: str) -> None:
    """A layer that adds less than 60 % is named with medium confidence, one below 45 % with low."""
    found = verdict(mean, SLOWEST, SOUND)
    assert (found.layer, found.confidence) == ("server", word)
    assert any("no layer stands out" in reason for reason in found.reasons) == (word != "high")


@pytest.mark.parametrize(
    ("negative", "word"), [(0, "high"), (10, "high"), (11, "medium"), (100, "medium"), (101, "low")]
)
def test_confidence_by_negative_network_times(negative: int, word: str) -> None:
    """Above 1 % of ops with a negative network part the word is medium, above 10 % low."""
    found = verdict(MEAN, SLOWEST, dataclasses.replace(SOUND, negative=negative))
    assert found.confidence == word
    assert any(f"{negative} ops have a negative network part" in reason for reason in found.reasons) == (word != "high")


@pytest.mark.parametrize(
    ("unseen", "word"), [(0.0, "high"), (0.02, "high"), (0.0201, "medium"), (0.1, "medium"), (0.1001, "low")]
)
def test_confidence_by_what_the_captures_do_not_show(unseen: float, word: str) -> None:
    """Above 2 % of messages not captured or without a partner the word is medium, above 10 % low."""
    found = verdict(MEAN, SLOWEST, dataclasses.replace(SOUND, unseen_share=unseen))
    assert found.confidence == word
    assert any("are not captured" in reason for reason in found.reasons) == (word != "high")


def test_confidence_by_the_clock() -> None:
    """Time stamps that no two clocks explain make it low, and are named."""
    found = verdict(MEAN, SLOWEST, dataclasses.replace(SOUND, clock_fits=False))
    assert found.confidence == "low"
    assert any("clock" in reason for reason in found.reasons)


@pytest.mark.parametrize(("untimed", "word"), [(50, "high"), (60, "medium"), (500, "low")])
def test_confidence_by_the_ops_that_have_no_figures(untimed: int, word: str) -> None:
    """Of 1,000 timed ops and some that were under way when a clock was set: as if those were not matched."""
    found = verdict(MEAN, SLOWEST, dataclasses.replace(SOUND, untimed=untimed))
    assert found.confidence == word
    assert "matched and timed" in found.reasons[0]


def test_a_negative_server_time_names_no_layer() -> None:
    """A server that answers before it was asked has wrong time stamps, whatever the network seems to take."""
    found = verdict(Layers(-0.3, 2.6), SLOWEST, SOUND)
    assert (found.layer, found.confidence, found.share) == ("unknown", "low", None)


def test_confidence_by_mean_and_slowest() -> None:
    """Mean and slowest 1 % that name different layers make it medium, however clear each is."""
    assert _confidence(slowest=Layers(1, 99)) == "medium"


def test_the_weakest_ground_decides() -> None:
    """Grounds do not add up: three medium ones are medium, one low one is low, and each that is weak is named."""
    three = {"ops": 99, "negative": 2, "unseen_share": 0.05}
    assert _confidence(**three) == "medium"
    found = verdict(MEAN, SLOWEST, dataclasses.replace(SOUND, **three, clock_fits=False))  # type: ignore[arg-type]
    assert found.confidence == "low"
    assert len(found.reasons) == 5


# --- For any figures --------------------------------------------------------------------------------------------------


@given(_ms, _ms, st.none() | _ms)
def test_shares_sum_to_one_and_the_largest_is_named(server: float, network: float, client: float | None) -> None:
    """For any parts that are not negative the three shares sum to 1, and no layer has a larger one than the named."""
    layers = Layers(server, network, client, "READ")
    assume(layers.total_ms > 0)
    shares = {layer: layers.share(layer) for layer in ("server", "network", "client")}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(0 <= share <= 1 for share in shares.values())
    found = verdict(layers, layers, SOUND)
    assert found.share == max(shares.values()) == shares[found.layer]
    assert client is not None or found.layer != "client"


@given(
    st.builds(Layers, _ms, _ms, st.none() | _ms),
    st.builds(Layers, _ms, _ms),
    st.builds(
        Ground,
        st.integers(1, 5000),
        st.integers(0, 100),
        st.integers(0, 5000),
        st.integers(0, 500),
        st.booleans(),
        st.floats(0, 1),
    ),
)
def test_less_to_stand_on_is_never_more_confidence(mean: Layers, slowest: Layers, ground: Ground) -> None:
    """Taking the best of every ground never lowers the word, and high confidence has nothing to excuse."""
    words = ("low", "medium", "high")
    found = verdict(mean, slowest, ground)
    better = verdict(mean, slowest, SOUND)
    assert words.index(found.confidence) <= words.index(better.confidence)
    assert (found.confidence == "high") == (
        len(found.reasons) == 1 and ground.ops / (ground.ops + ground.untimed + ground.missed) >= 0.95
    )


def test_a_negative_network_among_the_slowest_is_no_share() -> None:
    """A server share above 100 % is not printed: it is said that the network time is negative there."""
    made = verdict(Layers(9, 1), Layers(12, -2), Ground(1000, 0, 0, 5, True, 0.0))
    assert made.share_slowest is None
    assert "slowest" not in made.text
    assert made.confidence == "medium"
    assert any("negative" in reason for reason in made.reasons)
