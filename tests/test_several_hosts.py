"""Captures of several servers and clients: each pair of hosts is told by itself, and together they are the whole."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from queues import MS, simulate
from several_hosts import Talk, at_clients, at_servers
from windowed import windowed

from nfslat import api
from nfslat.answer import model
from nfslat.errors import InputError
from nfslat.figures.host_pairs import MOST, looked_at
from nfslat.host_pairs import apart
from nfslat.report import markdown, text
from nfslat.report.html import page

CLIENT, OTHER = "10.1.0.9", "10.1.0.8"
FEW_THREADS, HEALTHY, FEW_SLOTS = (f"10.1.0.{number}" for number in (1, 2, 3))


@pytest.fixture(scope="module")
def captures(talks: list[Talk], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Those of the servers, merged, and that of the client."""
    folder = tmp_path_factory.mktemp("several")
    return at_servers(folder / "s.pcap", *talks), at_clients(folder / "c.pcap", *talks)


@pytest.fixture(scope="module")
def merged(captures: tuple[Path, Path]) -> model.Report:
    """The report on them."""
    return api.correlate(*captures).summary


@pytest.fixture(scope="module")
def talks() -> list[Talk]:
    """One client of three servers: the first has two threads; the second is well, and further away; to the third the
    client has two slots. The servers' clocks are seconds apart."""
    loads = (
        simulate(threads=2, workers=16, connections=2, count=4_000, seed=1),
        simulate(threads=64, workers=4, rate_per_s=300, network_ns=2 * MS, count=3_000, seed=2),
        simulate(threads=64, workers=8, slots=2, count=3_500, seed=3),
    )
    ahead_s = 3.0, 9.0, 20.0
    return [
        Talk(CLIENT, server, load, ahead)
        for server, load, ahead in zip((FEW_THREADS, HEALTHY, FEW_SLOTS), loads, ahead_s, strict=True)
    ]


@pytest.fixture(scope="module")
def alike(talks: list[Talk], tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Talk], Path, Path]:
    """The same on one clock: captures of a tap, and of the client."""
    folder, one_clock = tmp_path_factory.mktemp("alike"), [dataclasses.replace(one, server_s=3.0) for one in talks]
    return one_clock, at_servers(folder / "s.pcap", *one_clock), at_clients(folder / "c.pcap", *one_clock)


@pytest.fixture(scope="module")
def tapped(alike: tuple[list[Talk], Path, Path]) -> model.Report:
    """The report on them."""
    return api.correlate(*alike[1:]).summary


def _by_server(report: model.Report) -> dict[str, model.HostPair]:
    return {one.server: one for one in report.pairs}


def _sums(report: model.Report) -> None:
    """Rows of pairs are those of all matched ops."""
    total = report.matched.total if report.matched is not None else None
    assert total is not None
    assert sum(one.ops for one in report.pairs) == total.count
    assert sum(one.time_share for one in report.pairs) == pytest.approx(1)
    for part in ("client_ms", "server_ms", "network_ms"):
        whole = sum(one.ops * getattr(one, part) for one in report.pairs)
        assert whole == pytest.approx(total.count * getattr(total, part).mean)


def _hold(report: model.Report, talks: list[Talk]) -> None:
    """Each pair has its own clock, threads, slots and times; the verdict names the one that is at fault."""
    _sums(report)
    found = _by_server(report)
    for talk in talks:
        one = found[talk.server]
        assert one.client_ms == pytest.approx(talk.traffic.client_ns.mean() / MS, rel=1e-3)
        assert one.server_ms == pytest.approx(talk.traffic.server_ns.mean() / MS, rel=1e-3)
        assert one.theta_bound_ms is not None
        assert one.theta_bound_ms[0] <= (talk.server_s - talk.client_s) * 1e3 <= one.theta_bound_ms[1]
    assert {server: one.threads_estimate for server, one in found.items()} == {
        FEW_THREADS: 2,
        HEALTHY: None,
        FEW_SLOTS: None,
    }
    assert found[FEW_SLOTS].slots == 2
    assert found[FEW_THREADS].cause == "server-threads"
    assert report.verdict is not None
    assert report.verdict.cause == "server-threads"
    assert report.verdict.text.startswith(f"Between {CLIENT} and {FEW_THREADS} (")
    assert report.clock is not None
    assert report.clock.fits


def test_a_client_of_three_servers(alike: tuple[list[Talk], Path, Path], tapped: model.Report) -> None:
    """One capture between the client and three servers, on one clock."""
    _hold(tapped, alike[0])
    assert not any("clocks of several hosts" in note for note in tapped.notes)


def test_servers_on_clocks_of_their_own(talks: list[Talk], merged: model.Report) -> None:
    """It is said that clocks were moved, and by how much."""
    _hold(merged, talks)
    (note,) = (note for note in merged.notes if "clocks of several hosts" in note)
    assert f"{HEALTHY} +6.000 s" in note
    assert f"{FEW_SLOTS} +17.000 s" in note


@pytest.mark.parametrize("seconds", [4.0, 1.2])
def test_windows(alike: tuple[list[Talk], Path, Path], tapped: model.Report, seconds: float) -> None:
    """In windows pairs are those of the whole."""
    found = windowed(*alike[1:], seconds, least_ops=1_000)
    _hold(found, alike[0])
    for one, other in zip(tapped.pairs, found.pairs, strict=True):
        assert (other.client, other.server, other.ops) == (one.client, one.server, one.ops)
        for figure in ("time_share", "client_ms", "server_ms", "network_ms"):
            assert getattr(other, figure) == pytest.approx(getattr(one, figure))
        assert (other.threads_estimate, other.cause) == (one.threads_estimate, one.cause)


def test_windows_refuse_clocks_of_several_hosts(captures: tuple[Path, Path]) -> None:
    """They are matched by when they were, which is not known then: it is said, and nothing is made of it."""
    with pytest.raises(InputError, match="clocks of several hosts"):
        windowed(*captures, 100.0)


def test_a_file_a_server(talks: list[Talk], captures: tuple[Path, Path], merged: model.Report, tmp_path: Path) -> None:
    """Captures of three servers are one list of files; client first they are taken in the right order: the same."""
    servers = ",".join(str(at_servers(tmp_path / f"{one.server}.pcap", one)) for one in talks)
    assert api.correlate(captures[1], servers).summary.pairs == merged.pairs


def test_a_replay_is_of_one_server(captures: tuple[Path, Path]) -> None:
    """Threads of one server serve no calls of another: --what-if asks for one of them, of which it has an answer."""
    asked = api.correlate(*captures, what_if=["threads=32"]).summary
    assert asked.what_if == []
    assert any("several servers" in note for note in asked.notes)
    one = api.correlate(*captures, what_if=["threads=32"], server_addr=[FEW_THREADS]).summary
    assert one.pairs == []
    assert [row.asked for row in one.what_if] == ["threads=32"]
    assert one.inflight is not None
    assert one.inflight.server.threads_estimate == 2


def test_the_pages_have_the_table(merged: model.Report) -> None:
    """Text, in brief and in full, Markdown and page: a row a pair."""
    texts = [text.render(merged), text.render(merged, full=True), markdown.render(merged), page.render(merged)]
    for made in texts:
        assert "Pair by pair" in made
        assert all(one.server in made for one in merged.pairs)


def test_clients_on_clocks_of_their_own(tmp_path: Path) -> None:
    """Captures of two clients of a server with two threads: both wait for its threads, and each has a clock."""
    load = simulate(threads=2, workers=16, connections=2, seed=5)
    talks = [
        Talk(client, FEW_THREADS, load.take(load.conn == conn), client_s=ahead)
        for conn, (client, ahead) in enumerate(((CLIENT, 0.0), (OTHER, 5.0)))
    ]
    clients = ",".join(str(at_clients(tmp_path / f"{one.client}.pcap", one)) for one in talks)
    report = api.correlate(at_servers(tmp_path / "s.pcap", *talks), clients).summary
    _sums(report)
    assert {one.client: one.threads_estimate for one in report.pairs} == {CLIENT: 2, OTHER: 2}
    assert {one.cause for one in report.pairs} == {"server-threads"}
    for one in report.pairs:
        assert one.theta_bound_ms is not None
        ahead_ms = {CLIENT: 0, OTHER: -5_000}[one.client]
        assert one.theta_bound_ms[0] <= ahead_ms <= one.theta_bound_ms[1]


def test_clocks_further_apart_than_captures_are_long(tmp_path: Path) -> None:
    """Packets of one client are all before those of the other then, and no clock was set in between: no operation is
    left out."""
    talks = [
        Talk(client, server, simulate(threads=64, workers=2, count=700, seed=seed), client_s=client_s)
        for seed, (client, server, client_s) in enumerate(((CLIENT, HEALTHY, 0.0), (OTHER, HEALTHY, -77.5)))
    ]
    report = api.correlate(at_servers(tmp_path / "s.pcap", *talks), at_clients(tmp_path / "c.pcap", *talks)).summary
    assert [one.ops for one in report.pairs] == [700] * 2
    assert report.clock is not None
    assert report.clock.fits
    assert not report.clock.steps
    assert any("clocks of several hosts" in note for note in report.notes)


def test_other_servers_of_the_client_say_nothing_of_this_one(talks: list[Talk], tmp_path: Path) -> None:
    """The capture of one server, and that of a client which has others, too: its slots are those of the connections to
    this one, and nothing is told of pairs."""
    client = at_clients(tmp_path / "c.pcap", *talks)
    report = api.correlate(at_servers(tmp_path / "s.pcap", talks[2]), client).summary
    assert report.pairs == []
    assert report.inflight is not None
    assert report.inflight.client.slots_estimate == 2
    assert [one.server for one in report.inflight.client.mounts] == [f"{FEW_SLOTS}:2049"]
    assert report.inflight.client.max == 2


def test_a_host_that_is_client_and_server(tmp_path: Path) -> None:
    """The server under test gets its data from another one, whose ops are more: its own threads are told, not that
    one's."""
    front = Talk(CLIENT, HEALTHY, simulate(threads=2, workers=16, connections=2, seed=1))
    back = Talk(HEALTHY, FEW_SLOTS, simulate(threads=64, workers=4, count=9_000, seed=2))
    proxy = at_servers(tmp_path / "s.pcap", front, back)
    report = api.correlate(proxy, at_clients(tmp_path / "c.pcap", front)).summary
    assert report.pairs == []
    assert report.inflight is not None
    assert (report.inflight.server.server, report.inflight.server.threads_estimate) == (HEALTHY, 2)
    assert report.verdict is not None
    assert report.verdict.cause == "server-threads"


def test_healthy_servers_have_no_fault(tmp_path: Path) -> None:
    """Two servers of one client, both well, one near and one far: no pair has a fault, and neither has the whole."""
    talks = [
        Talk(CLIENT, server, simulate(threads=64, workers=4, rate_per_s=300, network_ns=ns, count=3_000, seed=seed))
        for seed, (server, ns) in enumerate(((HEALTHY, MS // 10), (FEW_SLOTS, MS // 4)))
    ]
    report = api.correlate(at_servers(tmp_path / "s.pcap", *talks), at_clients(tmp_path / "c.pcap", *talks)).summary
    _sums(report)
    assert [one.outcome for one in report.pairs] == ["no-fault"] * 2
    assert report.verdict is not None
    assert report.verdict.outcome == "no-fault"


def test_distances_are_those_of_each_server(tmp_path: Path) -> None:
    """A server that is far away beside one that is near: its distance is no queue on the way, in nothing that is said
    of all operations either."""
    far_ns, near_ns = 5 * MS, MS // 20
    talks = [
        Talk(CLIENT, server, simulate(threads=64, workers=4, network_ns=ns, count=2_500, seed=seed))
        for seed, (server, ns) in enumerate(((FEW_THREADS, near_ns), (HEALTHY, far_ns)), 1)
    ]
    server, client = at_servers(tmp_path / "s.pcap", *talks), at_clients(tmp_path / "c.pcap", *talks)
    far = {"server_addr": [HEALTHY]}
    for report, way_ns in (
        (api.correlate(server, client).summary, (far_ns + near_ns) / 2),
        (api.correlate(server, client, **far).summary, far_ns),
        (api.inspect(client).summary, (far_ns + near_ns) / 2),
        (api.inspect(client, **far).summary, far_ns),
    ):
        assert report.charges is not None
        charged = {(row.part, row.cause): row.mean_ms for row in report.charges if row.mean_ms > 0.1}
        assert set(charged) == {("call_net", "distance"), ("reply_net", "distance"), ("server", "unexplained")}
        for part in ("call_net", "reply_net"):
            assert charged[part, "distance"] == pytest.approx(way_ns / MS, rel=0.01)
        assert not {"bandwidth", "net-asymmetry"} & {one.code for one in report.findings}


def test_waits_for_threads_are_those_of_each_server(talks: list[Talk], tapped: model.Report) -> None:
    """What ops of one server wait is no wait of those of another: in the stack nothing is less than nothing."""
    waits = sum(one.traffic.queue_ns.sum() for one in talks) / sum(len(one.traffic.conn) for one in talks) / MS
    (row,) = (row for row in tapped.stack if row.layer == "waiting for a thread")
    assert row.ms == pytest.approx(waits, rel=0.02)
    assert all(row.ms >= 0 for row in tapped.stack)


def test_clocks_by_pairs() -> None:
    """Clocks of servers and clients from what each pair tells of two of them; a pair that hangs together with no other
    tells nothing."""
    theta = {("s1", "c1"): 100, ("s2", "c1"): 300, ("s2", "c2"): 250, ("s3", "c3"): 7}
    assert apart(theta) == ({"s1": 0, "s2": 200}, {"c1": 0, "c2": 50})
    assert apart({}) == ({}, {})


def test_one_capture_of_several_servers(alike: tuple[list[Talk], Path, Path]) -> None:
    """Where nothing is inferred of the servers: levels are of the one with most ops, and what ops wait is of all, so
    that the time in a thread is."""
    talks, server, _ = alike
    report = api.inspect(server).summary
    assert report.inflight is not None
    found = report.inflight.server
    every = [one.traffic for one in talks]
    ops = sum(len(one.conn) for one in every)
    assert (found.server, found.servers, found.threads_estimate) == (FEW_THREADS, 3, 2)
    assert found.max == 16
    assert found.queue_ms == pytest.approx(sum(one.queue_ns.sum() for one in every) / ops / MS, rel=0.02)
    assert found.service_ms == pytest.approx(sum(one.service_ns.sum() for one in every) / ops / MS, rel=0.02)


def test_a_pair_is_told_as_its_captures_alone(
    alike: tuple[list[Talk], Path, Path], tapped: model.Report, tmp_path: Path
) -> None:
    """What passes between two hosts is told as from captures of these two, which hold nothing else."""
    for talk in alike[0]:
        server, client = at_servers(tmp_path / "s.pcap", talk), at_clients(tmp_path / "c.pcap", talk)
        alone, pair = api.correlate(server, client).summary, _by_server(tapped)[talk.server]
        assert alone.matched is not None
        assert alone.matched.total is not None
        assert alone.inflight is not None
        assert alone.verdict is not None
        assert pair.ops == alone.matched.total.count
        for part in ("client_ms", "server_ms", "network_ms"):
            assert getattr(pair, part) == pytest.approx(getattr(alone.matched.total, part).mean, abs=1e-6)
        limited = alone.inflight.server.limited
        assert pair.threads_estimate == (alone.inflight.server.threads_estimate if limited else None)
        assert (pair.outcome, pair.layer, pair.cause) == (
            alone.verdict.outcome,
            alone.verdict.layer,
            alone.verdict.cause,
        )


def _rows(*ops_and_ms: tuple[int, float]) -> list[model.HostPair]:
    of_all = sum(ops * ms for ops, ms in ops_and_ms)
    unsaid = dict.fromkeys(one.name for one in dataclasses.fields(model.HostPair))
    figures = [{"ops": ops, "client_ms": ms, "time_share": ops * ms / of_all} for ops, ms in ops_and_ms]
    return [model.HostPair(**{**unsaid, **some}) for some in figures]  # type: ignore[arg-type]


def test_which_of_many_pairs_are_looked_at_by_themselves() -> None:
    """Those with most time, where they have nearly all of it; else those that have much, or are slow: none can lead."""
    assert looked_at(_rows(*[(1000, 1.0)] * 20)) == list(range(20))
    assert looked_at(_rows(*[(1000, 1.0)] * 100)) == []
    assert looked_at(_rows(*[(1000, 1.0)] * 98, (1000, 2.5), (200, 25.0))) == [99, 98]
    assert looked_at(_rows(*[(9000, 1.0)] * MOST, *[(1, 1.0)] * 68)) == list(range(MOST))
    assert looked_at(_rows((99, 1.0), (100, 1.0))) == [1]
