"""Summaries of clients -> who suffers, and what they have in common: made fleets whose truth is known."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_summaries import (
    BEGIN_NS,
    GETATTR,
    MS,
    READ,
    WINDOWS,
    WRITE,
    Made,
    address_of,
    finding,
    made,
    plain,
    summary_of,
)
from verdicts import blames

from nfslat.answer.model import NextStep, ServerInFlight
from nfslat.findings.catalogue import row
from nfslat.fleet.compare.attributes import Top
from nfslat.fleet.compare.cells import OpClass
from nfslat.fleet.compare.compare import Compared, compare
from nfslat.fleet.compare.groups import fisher
from nfslat.fleet.compare.summary import ClientSummary, counted
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.model import Pattern, Phase, Server
from nfslat.model.units import iso
from nfslat.tally.sketch import RELATIVE_ERROR

SUBNET = 7
FAR_MS = 16.4
HALF_NS = BEGIN_NS + WINDOWS.step_ns * WINDOWS.count // 2
END_NS = BEGIN_NS + WINDOWS.step_ns * WINDOWS.count
AT_ONCE = Windows(BEGIN_NS, END_NS - BEGIN_NS, 1)
SLOTS = {
    "findings": (finding("client-slots", "client", None, "likely"),),
    "slots": 2,
    "slots_held": "likely slots",
    "in_flight_max": 2,
}
LOSS = {
    "findings": (finding("net-delay", "network", 0.6), finding("net-loss", "network", 0.04)),
    "sent_again_share": 0.005,
    "lost_segments": 12,
}
QUIET: dict[str, Any] = {"sent_again_share": 0.0, "lost_segments": 0}


def summaries(fleet: Sequence[Made], seed: int = 1) -> list[ClientSummary]:
    rng = np.random.default_rng(seed)
    return [made(one, rng) for one in fleet]


def server(*phases: Phase, threads: int = 8) -> Server:
    inflight = ServerInFlight(
        "10.0.0.1", 1, 90, 20.0, [], None, threads, 100, threads, (threads, threads), True, 0.5, 10.0, (10.0, 10.0),
        5.0, 10, 0, 0, None, None,
    )  # fmt: skip
    return Server("nfs1", ["10.0.0.1"], 100, [], 120_000, inflight, [], list(phases))


def phases(threads: int = 8) -> tuple[Phase, Phase]:
    """Enough threads in the first half, too few in the second."""
    return (
        Phase(iso(BEGIN_NS), iso(HALF_NS), False, None, None, 60_000, 0.1, 4.0),
        Phase(iso(HALF_NS), iso(END_NS), True, threads, (threads, threads), 60_000, 21.3, 25.0),
    )


def brief(pattern: Pattern) -> tuple[str, str, str | None, str | None, str | None]:
    """What a pattern says, without figures."""
    return pattern.scope, pattern.layer, pattern.cause, pattern.dimension, pattern.value


def issue_fleet() -> list[Made]:
    """100 clients: 7 behind a slow path, in one subnet; one with two slots; threads for half of the time only."""
    fleet = []
    for one in plain(93, queue_ms=(0.1, 21.3), others=QUIET):
        fleet.append(replace(one, others={**QUIET, **SLOTS}) if one.name == "c031" else one)
    for at in range(93, 100):
        address = address_of(at - 93, SUBNET)
        fleet.append(Made(f"c{at:03d}", address, network_ms=FAR_MS, queue_ms=(0.1, 21.3), others=LOSS))
    return fleet


@pytest.fixture(scope="module")
def story() -> Compared:
    return compare(summaries(issue_fleet()), server(*phases()), WINDOWS)


# --- The story of 100 clients -----------------------------------------------------------------------------------------


def test_the_story_is_told_and_nothing_else(story: Compared) -> None:
    """All wait for a thread from half time on, seven in one subnet are far away, one has two slots."""
    assert [brief(one) for one in story.patterns] == [
        ("all", "server", "server-threads", None, None),
        ("group", "network", "net-delay", "subnet", "10.9.7.0/24"),
        ("one", "client", "client-slots", None, None),
    ]
    assert [len(one.clients) for one in story.patterns] == [100, 7, 1]
    assert story.patterns[1].clients == [f"c{at:03d}" for at in range(93, 100)]
    assert story.patterns[2].clients == ["c031"]
    assert {one.confidence for one in story.patterns[:2]} == {"high"}
    assert {one.name for one in story.clients if one.outlier} == {"c031", *story.patterns[1].clients}


def test_the_wait_of_all_is_told_with_its_time_and_size(story: Compared) -> None:
    """From half time on, 21.3 ms where there were 0.1."""
    threads = story.patterns[0]
    assert (threads.begin, threads.end) == (iso(HALF_NS), None)
    assert threads.effect_ms == pytest.approx(21.2, rel=0.02)
    when = iso(HALF_NS)[11:19]
    assert threads.text.startswith(f"From {when} UTC on calls of all 100 clients wait 21.")
    assert threads.text.endswith(" % of their time) for one of the server's 8 threads; before, 0.0999 ms.")


def test_the_slow_path_is_told_with_its_loss(story: Compared) -> None:
    """16 ms longer, and half a percent sent again, of which the others have nothing."""
    group = story.patterns[1]
    assert group.effect_ms == pytest.approx(FAR_MS - 0.4, rel=0.02)
    assert group.p_value is not None
    assert group.p_value < 1e-6
    assert group.text.startswith("The 7 clients in 10.9.7.0/24 take ")
    assert "0.5 % of their TCP bytes are retransmitted (of the others' 0.0 %)" in group.text
    assert (group.evidence["lost_segments"], group.of) == (7 * 12, 7)


def test_few_slots_are_told_though_no_packet_shows_their_cost(story: Compared) -> None:
    """Their client has no excess, and still stands out, behind those that have."""
    assert (
        story.patterns[2].text
        == "c031 keeps 2 calls in flight and hardly ever more: it has no more slots, or no more callers."
    )
    assert [one.name for one in story.clients].index("c031") == 7


def test_the_answer_names_the_largest_first(story: Compared) -> None:
    """Three sentences, of all, the group and the single one."""
    assert (story.verdict.layer, story.verdict.cause, story.verdict.confidence) == ("server", "server-threads", "high")
    assert (story.verdict.outcome, story.verdict.largest_layer) == ("fault", "server")
    assert story.verdict.text == " ".join(one.text for one in story.patterns)


def test_excess_and_parts(story: Compared) -> None:
    """Parts sum to the total; a far client's is on the network, and as large as what its ops pay."""
    for one in story.clients:
        assert one.excess is not None
        assert one.excess.network_s + one.excess.server_s + one.excess.queue_s == one.excess.total_s
    far = next(one for one in story.clients if one.name == "c093")
    assert far.excess is not None
    assert far.excess.network_s == pytest.approx(1200 * (FAR_MS - 0.4) / 1e3, rel=0.03)


def test_what_a_stretch_takes_more_is_split_by_layer(story: Compared) -> None:
    """The two parts sum to it. While calls wait for threads the server has most of it, at clients whose path is as that
    of others, and before that nothing does."""
    of_all = [one for client in story.clients for one in client.windows if one.excess_ms is not None]
    assert of_all
    for one in of_all:
        assert one.network_excess_ms is not None
        assert one.server_excess_ms is not None
        assert one.network_excess_ms + one.server_excess_ms == pytest.approx(one.excess_ms)
    for client in story.clients:
        if client.outlier:
            continue
        late = client.windows[len(client.windows) * 3 // 4]
        assert late.server_excess_ms is not None
        assert late.server_excess_ms > 5 * abs(late.network_excess_ms or 0.0)


def test_windows_and_totals_sum_to_the_ops(story: Compared) -> None:
    """Ops by stretch of time, by operation and in all; means weighted by ops are those of the client."""
    assert story.total is not None
    assert story.total.count == sum(one.count for one in story.by_op) == 120_000
    assert [one.op for one in story.by_op] == ["READ", "WRITE", "GETATTR"]
    for one in story.clients:
        assert one.client_ms is not None
        assert sum(window.ops for window in one.windows) == one.ops == 1200
        mean = sum(window.ops * (window.client_ms or 0.0) for window in one.windows) / one.ops
        assert mean == pytest.approx(one.client_ms.mean)


def test_merged_percentiles_are_within_their_error() -> None:
    """Those over clients come from sketches, means and maxima do not."""
    rng = np.random.default_rng(5)
    each = [(rng.lognormal(15, 1, 3000) + 1).astype(np.int64) for _ in range(4)]
    at_ns, of_op = np.full(3000, BEGIN_NS), np.zeros(3000, dtype=np.int64)
    fleet = [
        summary_of(Made(f"c{at}", address_of(at), classes=(READ,)), at_ns, of_op, ns, ns // 2, None, WINDOWS)
        for at, ns in enumerate(each)
    ]
    total, together = compare(fleet, None, WINDOWS).total, np.sort(np.concatenate(each))
    assert total is not None
    assert (total.count, total.client_ms.max) == (12_000, together[-1] / MS)
    assert total.client_ms.mean == pytest.approx(float(together.mean()) / MS, rel=1e-9)
    assert total.client_ms.p99 == pytest.approx(together[11_879] / MS, rel=RELATIVE_ERROR)


@settings(max_examples=2, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_summaries_does_not_matter(chance: random.Random) -> None:
    """Tasks end in any order."""
    mixed = summaries(issue_fleet())
    first = compare(mixed, server(*phases()), WINDOWS)
    chance.shuffle(mixed)
    assert compare(mixed, server(*phases()), WINDOWS) == first


# --- Other stories ----------------------------------------------------------------------------------------------------


def test_slow_clients_all_over_the_place_are_one_pattern_without_a_name() -> None:
    """Nothing that is known of them tells them from the others."""
    far = {"c003", "c017", "c040", "c058", "c066", "c071", "c088"}
    fleet = [replace(one, network_ms=FAR_MS) if one.name in far else one for one in plain(100)]
    (found,) = compare(summaries(fleet), None, WINDOWS).patterns
    assert (found.scope, found.layer, found.dimension, set(found.clients)) == ("group", "network", None, far)
    assert "nothing that is known of them tells them from the others" in found.text


def test_two_groups_at_once() -> None:
    """A far subnet, and clients of a rack whose work is slow in the server."""
    fleet = plain(80)
    fleet += [Made(f"far{at}", address_of(at, 200), network_ms=9.0) for at in range(6)]
    fleet += [Made(f"rack{at}", address_of(12 * at), disk=3.0, groups={"rack": "B"}) for at in range(6)]
    found = compare(summaries(fleet), None, WINDOWS).patterns
    assert {brief(one) for one in found} == {
        ("group", "network", None, "subnet", "10.9.200.0/24"),
        ("group", "server", None, "rack", "B"),
    }
    assert [one.clients for one in found if one.value == "B"] == [[f"rack{at}" for at in range(6)]]


def test_the_nfs_version_as_what_slow_clients_have_in_common() -> None:
    """Half of the clients use another version, and these are slow, in all subnets: the version is named."""
    fleet = [replace(one, groups={"nfs": "4.0"}, network_ms=3.0) if at % 2 else one for at, one in enumerate(plain(60))]
    (found,) = compare(summaries(fleet), None, WINDOWS).patterns
    assert (found.dimension, found.value, len(found.clients)) == ("nfs", "4.0", 30)
    assert found.text.startswith("The 30 clients that use NFS 4.0 take ")
    assert found.effect_ms == pytest.approx(2.6, rel=0.05)


def test_one_of_a_group_that_is_well_is_told() -> None:
    """And one outside of it that is not."""
    fleet = plain(60) + [Made(f"far{at}", address_of(at, 200), network_ms=9.0) for at in range(6)]
    fleet += [Made("well", address_of(7, 200)), replace(plain(1)[0], name="other", network_ms=9.0)]
    found = {one.scope: one for one in compare(summaries(fleet), None, WINDOWS).patterns}
    assert found["one"].clients == ["other"]
    assert found["group"].text.startswith("6 of the 7 clients in 10.9.200.0/24 ")
    assert "1 other client of the group does not; so does 1 client outside of it" in found["group"].text


def test_an_exact_group_that_chance_may_make_is_named_with_a_doubt() -> None:
    """Two of twelve, and both in one subnet."""
    fleet = [replace(one, address=address_of(at % 6, at // 6)) for at, one in enumerate(plain(10))]
    fleet += [Made(f"far{at}", address_of(at, 200), network_ms=9.0) for at in range(2)]
    (found,) = compare(summaries(fleet), None, WINDOWS).patterns
    assert (found.dimension, found.clients, found.confidence) == ("subnet", ["far0", "far1"], "medium")
    assert found.p_value is not None
    assert found.p_value > 0.01
    assert "chance would make such a group with a probability of" in found.text


def test_a_client_that_works_while_the_server_is_slow_does_not_stand_out() -> None:
    """It has an excess, for its ops met the server's worst half, as all others' did then."""
    fleet = [replace(one, queue_ms=(0.1, 21.3)) for one in plain(40)]
    fleet[7] = replace(fleet[7], active=(0.5, 1.0))
    found = compare(summaries(fleet), None, WINDOWS)
    assert not any(one.outlier for one in found.clients)
    assert found.clients[0].name == "c007"


def test_sizes_are_compared_with_their_like() -> None:
    """Clients that read 1 MiB take longer than those that read 8 KiB, and are no worse for that."""
    large = OpClass("NFS", "READ", "3", 20)
    fleet = plain(40)
    fleet += [replace(one, name=f"big{one.name}", classes=(large, WRITE, GETATTR), disk=1.5) for one in plain(20)]
    slow = [replace(one, disk=1.0) for one in fleet]
    slow[45] = replace(slow[45], network_ms=5.0)
    found = compare(summaries(slow), None, WINDOWS)
    assert [one.name for one in found.clients if one.outlier] == [slow[45].name]


def test_trouble_for_a_while_is_told_with_its_time() -> None:
    """Slow for the middle half of the time."""
    fleet = plain(40)
    fleet[7] = replace(fleet[7], network_ms=12.0, slow=(0.25, 0.75))
    (found,) = compare(summaries(fleet), None, WINDOWS).patterns
    assert (found.scope, found.clients, found.confidence) == ("one", ["c007"], "medium")
    begin, end = (iso(BEGIN_NS + second * 10**9) for second in (15, 45))
    assert found.begin is not None
    assert found.end is not None
    assert abs(int(found.begin[17:19]) - int(begin[17:19])) <= 3
    assert abs(int(found.end[17:19]) - int(end[17:19])) <= 3


def test_a_slow_path_for_everybody() -> None:
    """Each client works in three; one of them takes longer, at all clients."""
    rng = np.random.default_rng(3)

    def tops() -> tuple[Top, ...]:
        means = {"/srv/a": 4.0, "/srv/b": 4.0, "/srv/slow": 11.0}
        return tuple(Top(name, "READ", 200, int(rng.gamma(200, mean) * MS)) for name, mean in means.items())

    fleet = [replace(one, tops=tops()) for one in summaries(plain(30))]
    (found,) = compare(fleet, None, WINDOWS).patterns
    assert brief(found) == ("all", "server", None, "path", "/srv/slow")
    assert found.effect_ms == pytest.approx(7.0, rel=0.05)


def test_what_most_clients_reports_find_is_common_to_all() -> None:
    """Once, with how much it explains; what the server's phases say already is not said again."""
    storage = (finding("server-storage", "server", 0.8), finding("server-threads", "server", 0.4))
    own = blames("server", "server-storage", 0.8, 0.8, "high", "The server.", [], [])
    fleet = plain(20, others={"findings": storage, "verdict": own}, queue_ms=(0.1, 21.3))
    found = compare(summaries(fleet), server(*phases()), WINDOWS).patterns
    assert [(one.scope, one.cause) for one in found] == [("all", "server-storage"), ("all", "server-threads")]
    assert "All 20 clients have one finding in common, server-storage, which explains 80.0 %" in found[0].text


def test_a_limit_all_the_time_needs_no_moment() -> None:
    """Neither begin nor end, nor what was before."""
    whole = Phase(iso(BEGIN_NS), iso(END_NS), True, 1, (1, 1), 24_000, 21.0, 25.0)
    (found,) = compare(summaries(plain(20, queue_ms=(21.0, 21.0))), server(whole), WINDOWS).patterns
    assert (found.begin, found.end) == (None, None)
    assert found.text.startswith("Calls of all 20 clients wait 2")
    assert found.text.endswith(" for the server's only thread.")


def test_a_limit_that_hardly_costs_anything_at_first_is_what_was_before() -> None:
    """Both halves are limited by threads; only in the second one calls wait."""
    first, second = phases()
    (found,) = compare(
        summaries(plain(20, queue_ms=(0.3, 21.3))), server(replace(first, limited=True, threads=8), second), WINDOWS
    ).patterns
    assert (found.begin, found.end) == (iso(HALF_NS), None)
    assert found.text.startswith(f"From {iso(HALF_NS)[11:19]} UTC on calls of all 20 clients wait 2")
    assert re.search(r"; before, 0\.(29|30|31)\d ms\.$", found.text)


def test_a_limit_for_a_while_has_an_end() -> None:
    """In the first half only; afterwards counts as otherwise."""
    first, second = phases()
    early = replace(second, begin=first.begin, end=first.end)
    late = replace(first, begin=second.begin, end=second.end)
    (found,) = compare(summaries(plain(20, queue_ms=(21.3, 0.1))), server(early, late), WINDOWS).patterns
    assert (found.begin, found.end) == (None, iso(HALF_NS))
    assert "; otherwise, 0." in found.text


def test_a_wait_is_told_of_those_that_wait() -> None:
    """Clients that do not wait make neither the mean nor the share smaller."""
    fleet = [replace(one, queue_ms=(21.0, 21.0) if at < 2 else (0.0, 0.0)) for at, one in enumerate(plain(10))]
    whole = Phase(iso(BEGIN_NS), iso(END_NS), True, 8, (8, 8), 12_000, 4.2, 8.0)
    found = next(one for one in compare(summaries(fleet), server(whole), WINDOWS).patterns if one.scope == "group")
    assert (found.cause, found.clients, found.of) == ("server-threads", ["c000", "c001"], 10)
    assert found.text.startswith("Calls of 2 of 10 clients wait 2")
    assert found.effect_ms == pytest.approx(21.0, rel=0.1)
    assert found.excess_s == pytest.approx(2 * 1200 * 21e-3, rel=0.1)


def test_a_wait_of_all_says_of_how_many_it_is_not_known() -> None:
    """Clients whose waits the packets do not tell, and those of which nothing is known, are none of all."""
    fleet = [replace(one, queue_ms=(21.0, 21.0), knows_queue=at >= 4) for at, one in enumerate(plain(20))]
    whole = Phase(iso(BEGIN_NS), iso(END_NS), True, 8, (8, 8), 24_000, 21.0, 25.0)
    few, many = (
        next(one for one in compare(summaries(fleet), server(whole), WINDOWS, untold=untold).patterns if one.cause)
        for untold in (0, 3)
    )
    assert few.text.startswith("Calls of all 16 clients of which something is told, of 20, wait 2")
    assert many.text.startswith("Calls of all 16 clients of which something is told, of 23, wait 2")
    assert (few.confidence, many.confidence) == ("high", "medium")


def test_a_short_wait_that_is_much_of_a_clients_time_counts() -> None:
    """Who asks little waits less than who fills the queue, and suffers all the same; the text says how they differ."""
    fleet = [replace(one, queue_ms=(3.0, 3.0) if at < 2 else (60.0, 60.0)) for at, one in enumerate(plain(10))]
    whole = Phase(iso(BEGIN_NS), iso(END_NS), True, 8, (8, 8), 12_000, 48.0, 52.0)
    found = next(one for one in compare(summaries(fleet), server(whole), WINDOWS).patterns if one.scope == "all")
    assert len(found.clients) == 10
    assert re.search(r"wait [45]\d\.\d+ ms on average, [23]\.\d+ to 6\d\.\d+ by client \(", found.text)


def test_clients_without_a_capture_are_compared_in_the_server() -> None:
    """Their network is not known; that their work is slow there is."""
    fleet = [replace(one, server_only=at % 3 == 0) for at, one in enumerate(plain(30))]
    fleet[3] = replace(fleet[3], disk=4.0)
    found = compare(summaries(fleet), None, WINDOWS)
    (pattern,) = found.patterns
    assert (pattern.clients, pattern.layer) == (["c003"], "server")
    one = next(one for one in found.clients if one.name == "c003")
    assert (one.state, one.client_ms, one.network_ms) == ("server only", None, None)
    assert one.excess is not None
    assert one.excess.network_s == 0.0
    assert found.total is not None
    assert found.total.count == 20 * 1200


def test_waits_that_are_not_known_of_all_make_nobody_stand_out() -> None:
    """Where the packets of some clients do not tell their wait, it is compared within the server's time."""
    fleet = [replace(one, queue_ms=(9.0, 21.3), knows_queue=at % 3 != 0) for at, one in enumerate(plain(30))]
    found = compare(summaries(fleet), None, WINDOWS)
    assert not any(one.outlier for one in found.clients)
    blind = next(one for one in found.clients if one.name == "c003")
    assert blind.queue_ms is None
    assert blind.excess is not None
    assert blind.excess.queue_s == 0.0
    assert abs(blind.excess.mean_ms) < 2.0
    few = [replace(one, knows_queue=at % 3 == 0) for at, one in enumerate(fleet)]
    assert not any(one.outlier for one in compare(summaries(few), None, WINDOWS).clients)


def test_without_stretches_of_time_medians_tell() -> None:
    """A short capture is one window: that most ops of a client are slow is seen all the same, with less certainty."""
    short = Windows(BEGIN_NS, 10**10, 1)
    fleet = plain(20, ops=150, noise="lognormal")
    fleet[4] = replace(fleet[4], network_ms=FAR_MS)
    rng = np.random.default_rng(8)
    (found,) = compare([made(one, rng, short) for one in fleet], None, short).patterns
    assert (found.clients, found.layer, found.confidence) == (["c004"], "network", "medium")


def test_an_application_that_waits_above_the_wire_stands_out() -> None:
    """Its figure was given for all, and only one of them is far above what the wire shows."""
    fleet = [replace(one, others={"application_ms": 6.0}) for one in plain(12)]
    fleet[5] = replace(fleet[5], others={"application_ms": 58.0, "findings": (finding("above-wire", "client", 0.9),)})
    (found,) = compare(summaries(fleet), None, WINDOWS).patterns
    assert (brief(found)[:3], found.clients) == (("one", "client", "above-wire"), ["c005"])
    assert found.effect_ms is not None
    assert found.excess_s == pytest.approx(1200 * found.effect_ms / 1e3)


def test_slots_that_all_clients_have_are_nobodys_peculiarity() -> None:
    """Where as many have the finding, it is common; and who has as many slots as others use does not stand out."""
    common = compare(summaries(plain(20, others=SLOTS)), None, WINDOWS).patterns
    assert not [one for one in common if one.scope != "all"]
    fleet = plain(20)
    fleet[4] = replace(fleet[4], others={**SLOTS, "slots": 16, "in_flight_max": 16})
    assert not compare(summaries(fleet), None, WINDOWS).patterns


# --- Few clients, and none that stand out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "spread"),
    [
        ("exponential", 0.15),
        pytest.param("lognormal", 0.0, marks=pytest.mark.long),
        pytest.param("pareto", 0.15, marks=pytest.mark.long),
    ],
)
def test_equal_clients_do_not_stand_out(noise: str, spread: float) -> None:
    """Several fleets, one of them large: none, whatever the noise, and where clients differ a little by nature."""
    for seed in range(6):
        found = compare(summaries(plain(40, ops=300, noise=noise, spread=spread), seed), None, WINDOWS)
        assert not found.patterns
        assert not any(one.outlier for one in found.clients)
        assert found.verdict.text.startswith("No fault found: none of the 40 clients takes much longer than the others")
        assert (found.verdict.outcome, found.verdict.layer, found.verdict.confidence) == ("no-fault", None, "high")
        assert (found.verdict.cause, found.verdict.next) == (None, None)
    assert not compare(summaries(plain(300, ops=100, noise=noise, spread=spread)), None, WINDOWS).patterns


@pytest.mark.parametrize("clients", [2, 3, 5, 12])
def test_few_equal_clients_do_not_stand_out(clients: int) -> None:
    """Of few clients chance makes one the slowest, too."""
    for seed in range(8):
        assert not compare(summaries(plain(clients, ops=500, noise="lognormal"), seed), None, WINDOWS).patterns


def test_a_slow_one_of_three_is_found() -> None:
    """With three there is a usual one."""
    fleet = plain(3)
    fleet[1] = replace(fleet[1], network_ms=FAR_MS)
    found = compare(summaries(fleet), None, WINDOWS)
    assert [brief(one)[:2] for one in found.patterns] == [("one", "network")]
    assert found.verdict.confidence == "medium"


def test_the_slower_one_of_two_is_told_without_certainty() -> None:
    """Its excess is its distance from the other one."""
    fleet = plain(2)
    fleet[1] = replace(fleet[1], network_ms=FAR_MS)
    found = compare(summaries(fleet), None, WINDOWS)
    (pattern,) = found.patterns
    assert (pattern.scope, pattern.clients, pattern.confidence) == ("one", ["c001"], "medium")
    assert found.clients[0].excess is not None
    assert found.clients[0].excess.network_s == pytest.approx(1200 * 16 / 1e3, rel=0.05)


def rarely_slow(name: str, address: str, rng: np.random.Generator, factor: float) -> ClientSummary:
    """Ops on one of its files, 4 % of all, take `factor` times as long in the server."""
    ops = 600
    at_ns = BEGIN_NS + np.sort(rng.integers(0, END_NS - BEGIN_NS, ops))
    server_ns = (rng.exponential(2.0, ops) * MS).astype(np.int64)
    server_ns[::25] = (server_ns[::25] * factor).astype(np.int64)
    one = Made(name, address, classes=(READ,))
    no_wait = np.zeros(ops, dtype=np.int64)
    return summary_of(one, at_ns, np.zeros(ops, dtype=np.int64), server_ns + MS, server_ns, no_wait, AT_ONCE)


def test_a_mean_that_few_ops_make_long_is_not_denied() -> None:
    """A slow file in a short capture: whether it lasts cannot be seen; but it is not said that all are alike."""
    rng = np.random.default_rng(4)
    fleet = [rarely_slow(f"c{at}", f"10.9.1.{at + 1}", rng, 150.0 if at == 3 else 1.0) for at in range(5)]
    found = compare(fleet, None, AT_ONCE)
    assert not found.patterns
    assert (found.verdict.outcome, found.verdict.layer, found.verdict.cause) == ("undecided", None, None)
    assert (found.verdict.largest_layer, found.verdict.confidence) == ("server", "low")
    assert found.verdict.next is not None
    assert found.verdict.next.command.endswith("--show c3")
    assert re.match(
        r"Cannot tell yet whether it lasts: Ops of c3 take [\d.]+ ms on average, [\d.]+ ms more than at the typical "
        r"client, most of that in the server; "
        r"half of them take at most [\d.]+ ms, 1 % more than [\d.]+ ms\.$",
        found.verdict.text,
    )


def test_of_two_clients_each_ones_own_report_tells() -> None:
    """Which of two is usual nobody knows; a cause that one's own report proves is said, once."""
    own = blames("network", "net-delay", 0.9, 0.9, "high", "The network.", [], [])
    fleet = plain(2, ops=30)
    fleet[1] = replace(
        fleet[1], network_ms=20.0, others={"findings": (finding("net-delay", "network", 0.9),), "verdict": own}
    )
    calm = blames("server", None, 0.9, 0.9, "high", "The server.", [], [])
    fleet[0] = replace(fleet[0], others={"verdict": calm})
    found = compare(summaries(fleet), None, WINDOWS)
    (pattern,) = found.patterns
    assert (pattern.scope, pattern.layer, pattern.cause, pattern.clients) == ("one", "network", "net-delay", ["c001"])
    assert pattern.text == "c001: net-delay, 90.0 % of its time (its own report): net-delay explains this much."
    one = next(one for one in found.clients if one.name == "c001")
    assert one.client_ms is not None
    assert pattern.effect_ms == pytest.approx(0.9 * one.client_ms.mean)
    assert found.verdict.text == pattern.text


def test_shares_are_of_the_applications_time_where_it_is_known() -> None:
    """And what the reports of few clients have in common is not said of all that the server saw."""
    own = blames("client", "above-wire", 0.5, None, "high", "The client.", [], [])
    others = {"findings": (finding("above-wire", "client", 0.5),), "verdict": own, "application_ms": 40.0}
    fleet = [
        replace(one, others=others) if at < 2 else replace(one, server_only=True) for at, one in enumerate(plain(9))
    ]
    (found,) = [one for one in compare(summaries(fleet), None, WINDOWS).patterns if one.scope == "all"]
    assert found.text.startswith("Both clients with a capture of their own have one finding in common, above-wire")
    assert found.effect_ms == pytest.approx(20.0)
    assert found.excess_s == pytest.approx(2 * 1200 * 20e-3)


def test_captures_of_a_part_of_the_time_are_a_reason() -> None:
    """How much of a client's ops in the server's capture its own one has; the confidence is less for it."""
    fleet = plain(6)
    fleet[2] = replace(fleet[2], others={"outside": 3600})
    fleet[3] = replace(fleet[3], others={"outside": 40})
    found = compare(summaries(fleet), None, WINDOWS).verdict
    assert (
        "the capture of 1 client covers a part of the time only (of the ops in the server's: c002 25.0 %)"
        in found.reasons
    )
    assert found.confidence == "medium"


def test_the_only_client_has_its_own_verdict() -> None:
    """There is nothing to compare it with, and no excess."""
    own = blames("network", "net-delay", 0.8, 0.8, "high", "The network adds 80 %.", [], ["reason"])
    found = compare(summaries(plain(1, others={"verdict": own})), None, WINDOWS)
    assert (found.verdict.outcome, found.verdict.layer, found.verdict.cause) == ("fault", "network", "net-delay")
    assert found.verdict.text == "Of the only client: The network adds 80 %."
    assert found.clients[0].excess is None
    assert not found.patterns


def test_faults_of_clients_own_reports_are_no_no_fault() -> None:
    """Clients that do not differ, some of which have a fault by themselves; and where most of their own
    reports are undecided, nobody says that all is well."""
    bad = blames("server", "server-storage", 0.8, 0.8, "high", "Storage holds requests up.")
    calm = blames("server", None, 0.9, 0.9, "high", "No fault found.")
    fleet = [replace(one, others={"verdict": bad if at < 2 else calm}) for at, one in enumerate(plain(12))]
    found = compare(summaries(fleet), None, WINDOWS).verdict
    assert (found.outcome, found.layer, found.cause) == ("fault", "server", "server-storage")
    assert found.confidence == "medium"
    said = "Storage holds requests up. So says the own report of c000, and so say those of 1 more, of 12 clients."
    assert found.text.startswith(said)
    step = NextStep("perf sched record", "both hosts", "which", [])
    open_one = dataclasses.replace(calm, outcome="undecided", next=step)
    found = compare(summaries(plain(12, others={"verdict": open_one})), None, WINDOWS).verdict
    assert (found.outcome, found.layer, found.next, found.confidence) == ("undecided", None, step, "low")
    assert found.text.startswith("Cannot tell yet: none of the 12 clients takes much longer than the others")


def test_what_is_said_of_all_needs_most_of_them() -> None:
    """A finding that all clients share which could be compared: of 12 of 14 it is said with the number of the others;
    of 12 of 20 it is no fault. Nor does anybody say then that there is none, and one of many speaks for itself."""
    own = blames("network", "net-delay", 0.8, 0.8, "high", "The network adds 80 %.")
    findings = (dataclasses.replace(finding("net-delay", "network", 0.8), confidence="certain"),)
    alike = summaries(plain(12, others={"findings": findings, "verdict": own}))
    few, many = (compare(alike, None, WINDOWS, untold=untold) for untold in (2, 8))
    assert few.verdict.text.startswith("All 12 clients of which something is told, of 14, have one finding in common")
    assert (few.verdict.outcome, few.verdict.confidence) == ("fault", "medium")
    assert (many.verdict.outcome, many.verdict.confidence) == ("undecided", "low")
    assert "nothing is known of 8 of 20 clients" in many.verdict.reasons
    calm = summaries(plain(12, others={"verdict": dataclasses.replace(own, outcome="no-fault")}))
    outcomes = [compare(calm, None, WINDOWS, untold=untold).verdict.outcome for untold in (0, 2, 8)]
    assert outcomes == ["no-fault", "no-fault", "undecided"]
    single = compare(calm[:1], None, WINDOWS, untold=3).verdict
    assert (single.outcome, single.confidence) == ("undecided", "low")
    assert single.text.startswith("Of c000, the only one of 4 clients of which something is known: ")
    assert compare(alike[:1], None, WINDOWS, untold=3).verdict.outcome == "fault"


def test_what_nothing_explains_is_left_open_with_the_next_step() -> None:
    """A finding that all clients share, and that says whose the time is and not why, is no fault."""
    own = blames("network", "between-taps", 0.9, 0.9, "high", "Between the taps.")
    others = {"findings": (finding("between-taps", "network", 0.9),), "verdict": own}
    found = compare(summaries(plain(12, others=others)), None, WINDOWS).verdict
    assert (found.outcome, found.layer, found.cause) == ("undecided", None, "between-taps")
    assert (found.largest_layer, found.confidence) == ("network", "low")
    assert found.next == row("between-taps").next
    assert found.text.startswith("Cannot tell yet why: ")


def test_no_clients_at_all() -> None:
    """Nothing is compared, and nothing breaks; nor does a client without ops."""
    assert compare([], None, WINDOWS).clients == []
    empty = replace(summaries(plain(1))[0], **counted(summaries([replace(plain(1)[0], ops=0)])[0].cells))
    assert compare([empty], None, WINDOWS).clients[0].ops == 0


@pytest.mark.long
def test_of_a_thousand_equal_clients_none_stands_out() -> None:
    """However many there are to be the slowest by chance."""
    found = compare(summaries(plain(1000, ops=200)), None, WINDOWS)
    assert not found.patterns
    assert sum(one.ops for one in found.clients) == 200_000


def test_fishers_test() -> None:
    """Against figures that are known: a lady and eight cups of tea, and all of a few."""
    assert fisher(4, 4, 4, 8) == pytest.approx(1 / 70)
    assert fisher(3, 4, 4, 8) == pytest.approx(17 / 70)
    assert fisher(0, 4, 4, 8) == 1.0
