"""Real captures of other workloads than the lab's, on which nfslat was wrong once: what it says of them now."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from captures import SHARED

from nfslat import api
from nfslat.answer.model import Report, Verdict

LAB2 = SHARED / "lab2"
pytestmark = pytest.mark.skipif(not LAB2.exists(), reason="no captures at ../shared/lab2")


@functools.cache
def _report(pair: str) -> Report:
    server, client = (LAB2 / pair / f"{side}.pcap.gz" for side in ("server", "client"))
    return api.correlate(server, client).summary


def _verdict(pair: str) -> Verdict:
    found = _report(pair).verdict
    assert found is not None
    return found


def test_a_starved_client_is_not_the_network() -> None:
    """Six busy processes on the client, a healthy bridge: path or kernels, and what decides between them."""
    found = _verdict("client_cpu_untar")
    assert (found.outcome, found.layer, found.cause) == ("undecided", None, "between-taps")
    assert "the path, or a host that handles packets late" in found.text
    assert found.next is not None
    assert "perf sched" in found.next.command


@pytest.mark.parametrize("pair", ["any_vlan_net", "two_causes_threads_net", "slots2_meta_net"])
def test_distance_stays_the_networks(pair: str) -> None:
    """A delay that netem made is the network's, as sure as before."""
    found = _verdict(pair)
    assert (found.layer, found.cause, found.confidence) == ("network", "net-delay", "high")
    assert found.text.startswith("The hosts are far apart")


def test_slots_of_a_slow_client_are_mentioned() -> None:
    """Two slots, 16 callers of metadata: not called workers, and the note says what decides and that 16 take turns."""
    report = _report("slots2_meta_net")
    assert report.inflight is not None
    assert report.inflight.client.held == "slots or workers"
    (note,) = [one for one in report.notes if "2 calls are in flight most of the time" in one]
    assert "either that many slots" in note
    assert "About 16 files or directories take turns" in note


LAB3 = SHARED / "lab3"
needs_lab3 = pytest.mark.skipif(not LAB3.exists(), reason="no captures at ../shared/lab3")


@needs_lab3
def test_slots_of_a_session_are_a_limit_though_a_busy_client_fills_them_late() -> None:
    """Four slots, as each reply says, for 16 callers: all in use for 41 % of the time, longer than any fewer."""
    pair = [str(LAB3 / "sslots4_lan" / f"{side}.pcap.gz") for side in ("server", "client")]
    for captures in (pair, pair[:1], pair[1:]):
        found = api.run(captures, api.Options()).summary.verdict
        assert found is not None
        assert (found.outcome, found.layer, found.cause, found.confidence) == (
            "fault", "client", "session-slots", "medium",
        )  # fmt: skip


@needs_lab3
def test_the_servers_own_counters_prove_threads_that_no_mark_of_the_packets_does(tmp_path: Path) -> None:
    """One thread for seven databases: of its queued sockets 19 % found it idle, and all calls but one wait for it."""
    folder = LAB3 / "t1_v41_sqlite"
    truth = json.loads((folder / "truth.json").read_text())
    snapshots = []
    for when in ("before", "after"):
        path = tmp_path / f"{when}.txt"
        parts = {"host": "system: Linux", "/proc/fs/nfsd/pool_stats": truth[when]["pool_stats"]}
        parts["values"] = "/proc/fs/nfsd/threads: 1"
        sections = "".join(f"#### nfslat: {title}\n{text.strip()}\n" for title, text in parts.items())
        path.write_text(f"# nfslat snapshot 1\n{sections}#### nfslat: end\n")
        snapshots.append(str(path))
    server, client = (folder / f"{side}.pcap.gz" for side in ("server", "client"))
    found = api.correlate(server, client, server_snapshot=snapshots).summary.verdict
    assert found is not None
    assert (found.outcome, found.cause, found.confidence) == ("fault", "server-threads", "high")
    assert found.text.startswith("Calls queue in the server for its only thread: 9")
    assert found.next is None
