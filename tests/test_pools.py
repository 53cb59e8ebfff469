"""Addresses of servers: behind which one pool of threads works, and behind which not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from queues import simulate
from several_hosts import Talk, at_clients, at_servers

from nfslat import api
from nfslat.answer import model

CLIENT, FIRST, SECOND = "10.1.0.9", "10.1.0.1", "10.1.0.2"


def _report(folder: Path, *talks: Talk, files: bool = False) -> model.Report:
    """On one capture of the servers, or, with `files`, on one of each."""
    ways = [talks] if not files else [(talk,) for talk in talks]
    servers = ",".join(str(at_servers(folder / f"s{at}.pcap", *some)) for at, some in enumerate(ways))
    return api.correlate(servers, at_clients(folder / "c.pcap", *talks)).summary


def _one_host(threads: int, workers: int) -> list[Talk]:
    """A client that has a connection to each of two addresses of a host."""
    load = simulate(threads=threads, workers=workers, connections=2, count=3_000, seed=threads)
    return [Talk(CLIENT, address, load.take(load.conn == conn), 3.0) for conn, address in enumerate((FIRST, SECOND))]


@pytest.mark.parametrize(("threads", "workers"), [(2, 16), (6, 32)])
def test_addresses_of_one_host_are_one_pool(threads: int, workers: int, tmp_path: Path) -> None:
    """Calls to either wait for what calls to the other one take: of both it is said how many threads they share, and
    waits are those of the host."""
    talks = _one_host(threads, workers)
    report = _report(tmp_path, *talks)
    assert {one.server: one.threads_estimate for one in report.pairs} == {FIRST: threads, SECOND: threads}
    assert {one.cause for one in report.pairs} == {"server-threads"}
    assert report.verdict is not None
    assert report.verdict.cause == "server-threads"
    assert report.inflight is not None
    found = report.inflight.server
    assert (found.threads_estimate, found.servers) == (threads, 1)
    assert found.max == workers
    waits = sum(one.traffic.queue_ns.sum() for one in talks) / sum(len(one.traffic.conn) for one in talks)
    assert found.queue_ms == pytest.approx(waits / 1e6, rel=0.03)


@pytest.mark.parametrize(("threads", "others"), [((6, 6), (16, 16)), ((2, 2), (8, 8)), ((2, 6), (16, 16))])
def test_servers_on_one_clock_are_two(threads: tuple[int, int], others: tuple[int, int], tmp_path: Path) -> None:
    """A tap stamps the packets of two servers by one clock: each has its own threads, as many as the other or not."""
    loads = [
        simulate(threads=few, workers=many, count=1_500, seed=few + 50 * at)
        for at, (few, many) in enumerate(zip(threads, others, strict=True))
    ]
    talks = [Talk(CLIENT, server, load, 3.0) for server, load in zip((FIRST, SECOND), loads, strict=True)]
    report = _report(tmp_path, *talks)
    assert {one.server: one.threads_estimate for one in report.pairs} == dict(
        zip((FIRST, SECOND), threads, strict=True)
    )
    assert report.inflight is not None
    assert report.inflight.server.servers == 2


def test_captures_of_two_hosts_are_no_pool(tmp_path: Path) -> None:
    """Files that were made at the same time are of two hosts: nothing is said of one line, whatever their calls do."""
    report = _report(tmp_path, *_one_host(6, 32), files=True)
    assert report.inflight is not None
    assert report.inflight.server.servers == 2


def test_clocks_that_part_are_two_hosts(tmp_path: Path) -> None:
    """Where clocks had to be moved, addresses are of several hosts."""
    first, second = _one_host(6, 32)
    report = _report(tmp_path, first, dataclasses.replace(second, server_s=9.0))
    assert report.inflight is not None
    assert report.inflight.server.servers == 2
