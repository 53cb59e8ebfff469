"""Whose the time is: what TCP made of the server's time is the network's, and what moves within it is no change."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_by_hand import MS, reported, run, single, wandering

from nfslat.answer.model import Charge
from nfslat.diff import compare, judge, verdict
from nfslat.diff.answer import answer
from nfslat.diff.parts import columns
from nfslat.diff.runs import Run, Single, comparable
from nfslat.diff.statistics import F64

_OPS = 3000


def _lossy(rng: np.random.Generator, share: float) -> Single:
    """Of the ops every so many wait 40 ms at the server, in a socket behind a hole, and 10 on the way."""
    lost = rng.random(_OPS) < share
    behind, on_way = np.where(lost, 40.0, 0.0), np.where(lost, 10.0, 0.0)
    return single(
        wandering(rng, _OPS, 0.3)[0] + behind,
        0.5 + on_way,
        causes_ms={"lost": behind + on_way, "distance": np.full(_OPS, 0.4)},
        moved_ms={
            "tcp_waits": behind,
            "call_paused": 0 * behind,
            "server_paused": 0 * behind,
            "reply_paused": 0 * behind,
        },
    )


def test_what_tcp_kept_back_at_the_server_is_the_networks() -> None:
    """Ops that wait behind a hole look like the server's; the network is named, the cause, and how much lies where."""
    rng = np.random.default_rng(1)
    found = answer(run(_lossy(rng, 0.0)), run(_lossy(rng, 0.3)), [])
    assert (found.verdict.change, found.verdict.layer, found.verdict.cause) == ("slower", "network", "net-loss")
    assert "of that within the server's response time, where TCP held" in found.verdict.text
    assert "(the wait for lost data: 0 -> " in found.verdict.text
    layers = {one.name: one.change for one in found.layers}
    assert layers["network"].difference == pytest.approx(0.3 * 50, abs=1)
    assert layers["server"].difference == pytest.approx(0, abs=0.2)
    assert found.mix.same_mix is not None
    assert sum(one.difference for one in layers.values()) == pytest.approx(found.mix.same_mix.difference)


def test_what_one_run_does_not_know_is_moved_in_neither() -> None:
    """Captures beside those of another engine: the server's time is compared as both have it."""
    one = _lossy(np.random.default_rng(2), 0.3)
    other = dataclasses.replace(one, causes={}, moved={})
    assert [column.name for column in columns(one, other)] == ["call_send", "network", "server", "reply_send"]
    found = compare.compare(one, other)
    assert not any(part.change.difference for part in found.parts)


_TIMES = st.lists(st.tuples(*[st.integers(0, 10**6)] * 7), min_size=1, max_size=30)


@given(_TIMES, _TIMES)
def test_parts_sum_to_the_response_time(of_a: list[tuple[int, ...]], of_b: list[tuple[int, ...]]) -> None:
    """Op by op and exactly, whatever was moved from where to where."""

    def made(rows: list[tuple[int, ...]]) -> Single:
        server, network, waits, stood, calls, replies, queue = np.array(rows, dtype=np.float64).T / MS
        return single(
            server + waits + stood,
            network + calls + replies,
            queue_ms=queue,
            moved_ms={"tcp_waits": waits, "server_paused": stood, "call_paused": calls, "reply_paused": replies},
        )

    a, b = made(of_a), made(of_b)
    outer = [one for one in columns(a, b) if not one.depth]
    assert (sum(one.values[0] for one in outer) == a.client_ns).all()
    assert (sum(one.values[1] for one in outer) == b.client_ns).all()


def test_a_host_that_stood_still_has_what_lay_on_the_way_to_it() -> None:
    """Calls on the way to a server that does not run are the server's, and replies to such a client the client's."""
    rng = np.random.default_rng(3)
    nothing, pause = np.zeros(_OPS), np.where(rng.random(_OPS) < 0.3, 30.0, 0.0)
    for paused, layer in (("call_paused", "server"), ("reply_paused", "client")):
        a, b = (
            single(
                wandering(rng, _OPS, 0.3)[0],
                0.5 + wait,
                moved_ms={
                    "tcp_waits": nothing,
                    "server_paused": nothing,
                    "call_paused": nothing,
                    "reply_paused": nothing,
                }
                | {paused: wait},
            )
            for wait in (nothing, pause)
        )
        found = verdict.verdict(compare.compare(a, b), [], "slices")
        assert (found.change, found.layer) == ("slower", layer)
        assert f"A paused {layer} adds" in found.text


def _full_path(rng: np.random.Generator, distance_ms: float) -> Single:
    """20 ms of network, of which the run's one minimum takes time from bandwidth, and bandwidth from it."""
    network: F64 = 20 * wandering(rng, _OPS, 0.3)[0] ** 0.1
    distance = np.full(_OPS, distance_ms)
    return single(np.full(_OPS, 1.0), network, causes_ms={"distance": distance, "bandwidth": network - distance - 1})


def test_what_moves_between_causes_is_no_change() -> None:
    """On a full path the shortest round trip is luck: 2 ms more of it, and less of bandwidth, are no slower network."""
    rng = np.random.default_rng(4)
    found = compare.compare(_full_path(rng, 1.0), _full_path(rng, 3.0))
    causes = {one.name: one.change for one in found.causes}
    assert causes["bandwidth"].certain
    assert causes["distance"].difference == pytest.approx(2.0)
    assert causes["distance"].p is None
    assert verdict.verdict(found, [], "slices").change == "none"


def test_a_layer_speaks_where_the_whole_varies_too_much() -> None:
    """1 ms more on a steady network is said although the server's 20 ms vary by more, and its cause with it."""
    rng = np.random.default_rng(5)
    a, b = (
        single(
            20 * wandering(rng, _OPS, 0.9)[0] ** 2,
            0.5 + 0.05 * rng.random(_OPS) + more,
            causes_ms={"held": np.full(_OPS, more) * rng.uniform(0.8, 1.0, _OPS), "distance": np.full(_OPS, 0.4)},
        )
        for more in (0.0, 1.5)
    )
    found = verdict.verdict(compare.compare(a, b), [], "slices")
    assert (found.change, found.layer, found.cause) == ("slower", "network", "host-pause")
    assert found.text.startswith("B is slower in part: packets held in transit")


@pytest.mark.parametrize(
    ("queue_ms", "said"), [(None, "The server adds"), (0.0, "The server adds"), (0.5, "in a thread,")]
)
def test_in_a_thread_is_said_where_the_queue_is_known(queue_ms: float | None, said: str) -> None:
    """No wait for a thread was found, or none can be: then it is the server, without saying where in it."""
    rng = np.random.default_rng(6)
    queue = None if queue_ms is None else np.full(_OPS, queue_ms)
    a, b = (single(level * wandering(rng, _OPS, 0.3)[0], queue_ms=queue) for level in (2.0, 4.0))
    assert said in verdict.verdict(compare.compare(a, b), [], "slices").text


def test_what_alone_looks_like_a_change_is_not_denied() -> None:
    """A rise beyond the figure's own interval, and no more than drift: it may be slower, and why that is not known."""
    decaying = 20.0 * np.exp(-np.linspace(0, 3, 4000)) * wandering(np.random.default_rng(8), 4000, 0.3)[0] + 1.0
    found = compare.compare(single(decaying[2000:]), single(decaying[:2000]))
    assert judge.held_back(found.mix.same_mix) == "drift"
    said = verdict.verdict(found, [], "slices")
    assert said.change == "unknown"
    assert said.text.startswith("B may be slower: at the same mix of ops ")
    assert "is within normal variation" in said.text


def test_a_wait_that_the_other_run_has_nothing_of_is_certain() -> None:
    """No queue in A, and one that grows all the time in B: no drift makes that of nothing, and the table says what the
    headline does."""
    rng = np.random.default_rng(6)
    noise = 0.1 * wandering(rng, _OPS, 0.3)[0]
    a = single(2.0 + noise, queue_ms=np.zeros(_OPS))
    queue = np.linspace(100.0, 400.0, _OPS) * (1 + noise)
    found = compare.compare(a, single(queue + 2.0, queue_ms=queue))
    part = next(one for one in found.parts if one.name == "queue")
    assert (part.change.steady, judge.said_of(part.change)) == (True, "certain")
    said = verdict.verdict(found, [], "slices").text
    assert "The wait for a server thread adds" in said
    assert "alone" not in said


def test_the_headline_doubts_what_the_table_doubts() -> None:
    """The whole is slower for certain, and most of it a wait that varies more within A than from A to B: the headline
    says of it what the table does."""
    rng = np.random.default_rng(6)
    noise = 1 + 0.02 * wandering(rng, _OPS, 0.3)[0]
    b = single(60.0 * noise, queue_ms=41.0 * noise, gap_ms=100.0)
    for queue, worth in ((np.geomspace(0.001, 5.0, _OPS), "normal variation"), (1.0 * noise, "certain")):
        found = compare.compare(single(20.0 * noise, queue_ms=queue, gap_ms=100.0), b)
        part = next(one for one in found.parts if one.name == "queue")
        assert judge.said_of(part.change) == worth
        said = verdict.verdict(found, [], "slices")
        assert said.change == "slower"
        assert "The wait for a server thread adds" in said.text
        assert ("which alone is within normal variation" in said.text) == (worth != "certain")


def test_what_may_be_chance_is_held_back_as_such() -> None:
    """A steady figure, relevant, whose own interval leaves 0 out, and whose p after all comparisons is too large."""
    change = judge.Change(1.0, 1.2, 0.2, 0.05, 0.35, 0.04, True, False, True)
    assert judge.held_back(change) == "chance"
    assert judge.held_back(dataclasses.replace(change, low=-0.05)) is None
    assert judge.held_back(dataclasses.replace(change, certain=True)) is None
    assert judge.held_back(dataclasses.replace(change, relevant=False)) is None


def test_reports_move_what_their_charges_say() -> None:
    """Between two reports the layers are those of their verdicts, and the parts sum to what they did."""

    charges = [
        Charge("server", "behind-loss", 1, 2500.0, 2.5, None, 0.0, None),
        Charge("server", "sender", 1, 1000.0, 1.0, None, 0.0, None),
        Charge("call_net", "host-pause", 1, 500.0, 0.5, None, 0.0, None),
        Charge("call_net", "rto", 1, 250.0, 0.25, None, 0.0, None),
    ]
    a, b = (
        Run("x", "report", reported(server_ms + 1, network_ms=1.0, tail=[1.0] * 4, count=1000, charges=of), None)
        for server_ms, of in ((2.0, []), (5.0, charges))
    )
    found = compare.compare(*comparable(a, b))
    parts = {one.name: one.change.b for one in found.parts}
    assert parts == {
        "call_send": 0,
        "network": 0.5,
        "tcp_waits": 2.5,
        "server_paused": 0.5,
        "server": 2.5,
        "reply_send": 0,
    }
    assert {one.name: one.change.difference for one in found.layers} == {"network": 2.0, "server": 1.0}
    said = verdict.verdict(found, [], "summaries")
    assert (said.change, said.layer) == ("slower", "network")
    assert "The network adds 2.00 ms at the same mix of ops, 2.50 ms of that within the server's" in said.text
