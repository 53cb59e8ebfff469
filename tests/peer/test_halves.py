"""Real pairs of which one half alone once said something else than both: what it says now."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from captures import SHARED

import nfslat
from nfslat.answer.model import Verdict

pytestmark = pytest.mark.skipif(not (SHARED / "lab2").exists(), reason="no captures at ../shared/lab2")


@functools.cache
def alone(pair: str, side: str) -> nfslat.Report:
    """The report on one of its captures."""
    return nfslat.inspect(SHARED / pair / f"{side}.pcap.gz")


def verdict(report: nfslat.Report) -> Verdict:
    """There is one."""
    assert report.verdict is not None
    return report.verdict


@pytest.mark.parametrize(
    ("pair", "side", "cause"),
    [
        ("lab2/slots2_meta_net", "server", "client-slots"),
        ("lab/f_v42_nfsd_threads2", "client", "server-threads"),
        ("lab/j_v3_client_stall", "client", "host-pause"),
        ("lab2/disk_stalls_full", "client", "server-slow-ops"),
        ("lab2/tail_disk", "client", "server-storage"),
    ],
)
def test_a_half_names_what_was_done(pair: str, side: str, cause: str) -> None:
    """Limits and slow operations of the host that was not captured, and a pause of the one that was; never as certain
    as of two captures."""
    found = verdict(alone(pair, side))
    assert (found.outcome, found.cause) == ("fault", cause)
    assert found.confidence != "high"


@pytest.mark.parametrize(
    ("pair", "slots"), [("lab/c2_v3_slots2_fast", 2), ("lab/c_v3_slots2", 2), ("lab/m_v3_slots16", 16)]
)
def test_the_servers_half_says_of_slots_what_both_say(pair: str, slots: int) -> None:
    """How many calls the client keeps in flight, and that it sends the next one at once; whether that is a limit is no
    clearer, and no less clear, than with its own capture."""
    both = nfslat.correlate(*(SHARED / pair / f"{side}.pcap.gz" for side in ("server", "client")))
    one = alone(pair, "server")
    found = [next(f for f in each.figures.findings if f.code == "client-slots").evidence for each in (both, one)]
    assert [each["slots"] for each in found] == [slots, slots]
    of_two, of_one = verdict(both), verdict(one)
    assert (of_one.outcome, of_one.layer, of_one.cause) == (of_two.outcome, of_two.layer, of_two.cause)


@pytest.mark.parametrize(
    ("pair", "outcome"),
    [("lab/c2_v3_slots2_fast", "undecided"), ("lab/c_v3_slots2", "fault"), ("lab/m_v3_slots16", "fault")],
)
def test_the_server_s_half_sees_slots_or_callers(pair: str, outcome: str) -> None:
    """That the client keeps so many calls in flight and no more comes first, as with two captures; its own counters
    tell slots from callers."""
    found = verdict(alone(pair, "server"))
    assert found.outcome == outcome
    assert "client-slots" in (found.cause, *found.also)
    assert "in flight" in found.text.partition(":")[0] + found.text.partition(":")[2].partition(":")[0]
    assert found.next is not None
    assert "/proc/self/mountstats" in found.next.command


@pytest.mark.parametrize(
    ("pair", "side"),
    [
        ("lab/a_v3_baseline", "client"),
        ("lab/a_v3_baseline", "server"),
        ("lab/f_v3_nconnect4", "client"),
        ("lab/e_v3_slow_storage", "server"),
        ("lab2/two_causes_threads_net", "server"),
        ("lab2/late_nano128", "server"),
    ],
)
def test_workers_and_healthy_hosts_have_no_slots(pair: str, side: str) -> None:
    """Workers keep as many in flight, and a healthy load now and then."""
    report = alone(pair, side)
    assert all(one.code not in ("client-slots", "session-slots") for one in report.figures.findings)


@pytest.mark.parametrize("pair", ["lab2/tail_disk", "lab2/disk_stalls"])
def test_what_is_not_shown_is_where_the_rest_is(pair: str) -> None:
    """Slow ops that the snaplen hides spent their time in the server, by both captures as by the client's alone."""
    both = nfslat.correlate(*(SHARED / pair / f"{side}.pcap.gz" for side in ("server", "client"))).correlation
    of_two, of_one = both.unseen["server"], alone(pair, "client").correlation.unseen["server"]
    assert of_two is not None
    assert of_one is not None
    assert np.allclose(of_one.mean_ns, of_two.mean_ns, rtol=0.05)


def test_slow_operations_are_told_from_quick_ones_no_finer_than_they_are_known() -> None:
    """In the client's capture a quick operation takes nothing or half a tick: not two kinds of operations."""
    of_one = next(one for one in alone("lab2/tail_disk", "client").figures.findings if one.code == "server-storage")
    assert 80 < of_one.evidence["slow_ops"] < 120
