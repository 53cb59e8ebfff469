"""What TCP made of the server's response time is no queue of the server's, no service, and no finding on either."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_findings import DELAY, QUEUE, UNKNOWN, codes, row, server, stalls

from nfslat.findings.facts import Facts, moved_ms
from nfslat.findings.layers import Layers
from nfslat.findings.network import network_findings
from nfslat.findings.server import server_findings


def beside(facts: Facts, in_server_ms: float) -> Facts:
    """The same, where replies may have stood in the server's socket for so much of its response time, in the slowest
    ops ten times as long."""
    found = stalls("head-of-line", {"server": in_server_ms})
    layers = [
        None if one is None else Layers(one.server_ms, one.network_ms, moved_ms=moved_ms(of, one.server_ms, 1.0))
        for one, of in ((facts.mean, found.mean_ms), (facts.slowest, found.slowest_ms))
    ]
    assert layers[0] is not None
    return replace(facts, stalls=found, mean=layers[0], slowest=layers[1])


def test_a_wait_that_is_all_of_tcp_is_no_wait_for_a_thread() -> None:
    """48 ms of 48 are the socket's: nothing is said of threads, neither of the mean nor of the slowest ops."""
    assert "server-threads" in codes(server_findings(QUEUE))
    assert codes(server_findings(beside(QUEUE, 48.0))) == []


def test_what_is_left_is_split_and_not_the_whole() -> None:
    """12 of 48 ms are the socket's: the finding speaks of 36, and its share is no more than those."""
    few = replace(QUEUE, slowest=None, queue_ms=35.0)
    (found,) = server_findings(beside(few, 12.0))
    assert found.text.startswith("calls wait 35.00 of the server's 48.00 ms for a limit of 16 at once")
    assert found.share == pytest.approx(35 / 49)


@pytest.mark.parametrize(("in_socket_ms", "found"), [(0.0, True), (9.0, True), (15.0, False)])
def test_little_that_is_left_of_the_server_is_no_finding(in_socket_ms: float, found: bool) -> None:
    """Where nearly all of a server's time is TCP's, the rest is no more than how far off that may be."""
    made = replace(UNKNOWN, slowest=None)
    assert ("server-queue-unknown" in codes(server_findings(beside(made, in_socket_ms)))) == found


def test_beside_a_known_queue_only_the_work_is_in_doubt() -> None:
    """The number of threads is known, so that nobody asks whether calls wait for one."""
    both = (row("READ", 900, 60, 30.0), row("GETATTR", 100, 55, 30.0))
    made = Facts(Layers(60, 1), queue_ms=30.0, by_op=both, server=server(queue_ms=30.0))
    texts = {one.code: one.text for one in server_findings(made)}
    assert set(texts) == {"server-threads", "server-queue-unknown"}
    assert texts["server-queue-unknown"].startswith("calls take 30.00 ms once a thread has them, and whether they wait")


def test_a_full_path_leaves_its_distance_in_doubt() -> None:
    """Beside bandwidth the shortest round trip may hold a queue, so that the delay is likely and no more."""
    (plain,) = network_findings(DELAY)
    full = network_findings(replace(DELAY, stalls=stalls("bandwidth", {"reply_net": 4.0})))[0]
    assert (plain.confidence, full.confidence) == ("certain", "likely")
    assert "the queue of the path, which is full" in full.text
    assert "full" not in plain.text
