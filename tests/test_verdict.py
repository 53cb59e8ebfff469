"""Means per layer and what they stand on -> the layer that is named, the sentence, and how sure it is."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nfslat.findings.verdict import Ground, Layers, verdict

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
    assert (found.confidence, found.reasons) == ("high", ["100.0 % of the 1000 ops seen in the overlap are matched"])


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
