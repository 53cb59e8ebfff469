"""Real captures of a lab whose causes are known: threads, work in a thread, and the cause that the verdict names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from captures import SHARED, Decoder, needs_captures, needs_native

from nfslat import pipeline
from nfslat.answer import model
from nfslat.answer.model import Finding
from nfslat.decompose import PART_NAMES
from nfslat.evidence.known import Known
from nfslat.findings.diagnosis import Diagnosis, Evidence
from nfslat.findings.rank import ranked
from nfslat.model.causes import LOSSES, Cause, code
from nfslat.results import Analysis
from nfslat.select import Filters
from nfslat.wire.charges.analysis import NET
from nfslat.wire.charges.places import PLACES, place

pytestmark = [needs_captures, needs_native]

TOOL = model.Tool("test", "native", "nfslat", "nfslat")
LAB = sorted(path.parent.name for path in SHARED.glob("lab/*/truth.json"))

# What is to be found out; where the truth says anything else of the threads, none must be.
THREADS = {"b4_v3_rpc_retransmit": 1, "b_v3_nfsd_threads2": 2, "f_v42_nfsd_threads2": 2}
_NOBODYS = "between-taps"  # guests of a busy machine are late with packets: that is said, and nobody is blamed
# Cause that is named from packets alone, and with the application's latency. Two or 16 calls in flight may be as many
# callers: alone the wire's own cause leads, or that question.
CAUSES: dict[str, tuple[str | None, str | None]] = {
    "b4_v3_rpc_retransmit": ("server-threads", "server-threads"),
    "b_v3_nfsd_threads2": ("server-threads", "server-threads"),
    "f_v42_nfsd_threads2": ("server-threads", "server-threads"),
    "c_v3_slots2": ("server-storage", "client-slots"),
    "m_v3_slots16": ("server-storage", "client-slots"),
    "c2_v3_slots2_fast": (None, "client-slots"),
    "f_v41_session_slots2": ("session-slots", "session-slots"),
    "e_v3_slow_storage": ("server-storage", "server-storage"),
    "d_v3_netdelay5": ("net-delay", "net-delay"),
    "d4_v3_loss2_full": ("net-loss", "net-loss"),
    "g_clock_drift5000ppm": ("net-delay", "net-delay"),
    "g_clock_offset7s": ("net-delay", "net-delay"),
    "n_v3_nfsd_restart": ("reconnect", "reconnect"),
    "j_v3_client_stall": ("host-pause", "host-pause"),
}


@dataclass(frozen=True)
class Pair:
    """Two captures of one scenario, decoded and correlated once."""

    name: str
    truth: dict[str, Any]
    correlation: Analysis

    @cached_property
    def app_ms(self) -> dict[str, float]:
        """What fio, the application, measured, by operation."""
        fio = self.truth["workload"].get("fio") or {}
        return {name.upper(): fio[name]["lat_mean_ms"] for name in ("read", "write") if fio.get(name)}

    @cached_property
    def report(self) -> model.Report:
        """From packets alone."""
        return pipeline.report(self.correlation, TOOL, Filters(), Known())

    @cached_property
    def report_with_application(self) -> model.Report:
        """With the application's latency."""
        return pipeline.report(self.correlation, TOOL, Filters(), Known(app_ms=self.app_ms))


# Each cause, and of what has none a few: nothing at all, loss, a clock that is set, and 1 MB a call.
_BY_DAY = {*CAUSES, "a_v3_baseline", "d3_v3_loss1", "g_clock_step3s", "i_v3_full_1M"} - {
    *("f_v42_nfsd_threads2", "m_v3_slots16", "g_clock_drift5000ppm")
}


@pytest.fixture(
    scope="module", params=[pytest.param(one, marks=() if one in _BY_DAY else pytest.mark.long) for one in LAB]
)
def pair(request: pytest.FixtureRequest, decoder: Decoder) -> Pair:
    """Each pair of the lab in turn: all tests of one pair run before the next is correlated."""
    folder = SHARED / "lab" / request.param
    return Pair(
        request.param, json.loads((folder / "truth.json").read_text()), pipeline.analyse(decoder.pair(request.param))
    )


def test_threads_of_the_lab(pair: Pair) -> None:
    """The number of threads is exactly right where the server has too few, and none is named where it has enough."""
    found = pair.correlation.inflight.load.threads
    assert found.estimate == THREADS.get(pair.name)
    assert found.limited == (pair.name in THREADS)
    server = pair.report.inflight.server if pair.report.inflight else None
    assert server is not None
    if pair.name in THREADS:
        assert server.threads_range == (THREADS[pair.name],) * 2
        assert server.threads_lower_bound == THREADS[pair.name]
    elif "nfsd_threads" in pair.truth["cause"]:
        assert server.threads_lower_bound <= pair.truth["cause"]["nfsd_threads"]


def test_reads_take_as_long_in_a_thread_as_on_the_disk(pair: Pair) -> None:
    """The wire shows hundreds of ms; less the wait for a thread it is the disk's time, to 6 %."""
    if pair.name not in THREADS:
        return  # no wait for a thread
    assert pair.report.matched is not None
    (read,) = [row for row in pair.report.matched.by_op if row.op == "READ"]
    assert read.queue_ms is not None
    disk_ms = pair.truth["server_storage"]["diskstats_delta_during_load"]["avg_read_ms"]
    assert read.server_ms.mean > 10 * disk_ms
    assert read.server_ms.mean - read.queue_ms == pytest.approx(disk_ms, rel=0.06)


def test_queue_and_work_are_the_servers_time(pair: Pair) -> None:
    """No op of the lab waits for a thread for less than nothing or longer than it is in the server."""
    load, ops = pair.correlation.inflight.load, pair.correlation.server.ops
    for queue_ns in (load.queue_ns, load.queue_with_least_ns, load.queue_with_most_ns):
        assert (queue_ns >= -1).all()  # -1: not known
        assert (queue_ns <= np.maximum(ops.t2 - ops.t1, 0)).all()
    assert (load.queue_ns > 0).any() == (pair.name in THREADS)


def test_the_cause_from_packets_alone(pair: Pair) -> None:
    """The cause that the verdict names is the one that was built in, and none where nothing was."""
    verdict = pair.report.verdict
    assert verdict is not None
    if pair.name in CAUSES:
        assert verdict.cause == CAUSES[pair.name][0]
        assert (verdict.outcome == "undecided") == (pair.name == "c2_v3_slots2_fast")
    else:
        assert verdict.cause in (None, _NOBODYS, *(["net-loss"] if "loss_pct" in pair.truth["cause"] else []))


def test_the_cause_with_the_applications_latency(pair: Pair) -> None:
    """With fio's own latency what lies above the wire is found too; where nothing was built in at most that it does."""
    verdict = pair.report_with_application.verdict
    assert verdict is not None
    if pair.name in CAUSES:
        assert verdict.cause == CAUSES[pair.name][1]
    else:
        assert verdict.cause in (None, "above-wire", _NOBODYS)


def test_no_limit_is_blamed_that_is_none(pair: Pair) -> None:
    """Threads, slots and sessions are findings that matter only where the lab had set them too low."""
    where = pair.truth["cause"]["where"]
    for report in (pair.report, pair.report_with_application):
        matter = {one.code for one in report.findings if (one.share or 0.0) >= 0.1}
        assert ("server-threads" in matter) == (where == "server-threads")
        if where != "client-slots":
            assert not matter & {"client-slots", "session-slots"}


def _diagnosis(one: Finding) -> Diagnosis:
    """With all that the order goes by."""
    slowest = one.evidence.get("share_slowest")
    return Diagnosis(one.code, one.layer, one.severity, one.share, slowest, one.confidence, one.text, Evidence(), None)


def test_findings_are_in_the_order_of_their_shares(pair: Pair) -> None:
    """What explains most comes first, among what matters and then among the rest; a share is never above the whole."""
    for report in (pair.report, pair.report_with_application):
        causes = [one for one in report.findings if one.layer != "capture"]
        made = [_diagnosis(one) for one in causes]
        assert made == ranked(reversed(made))
        assert all(one.share is None or 0 <= one.share <= 1 for one in causes)
        assert report.verdict is not None
        assert len(report.verdict.proof) >= 2


def test_each_part_is_what_it_is_charged_with_and_the_rest(pair: Pair) -> None:
    """Exactly, in ns, for every pair: the charges of a part and what no cause explains of it are the part."""
    charges = pair.correlation.charges
    assert charges is not None
    parts = dict(zip(PART_NAMES, pair.correlation.parts.all_ns(), strict=True))
    for part, ns in parts.items():
        assert sum(one.ns for (where, _), one in charges.sums().items() if where == part) == int(ns.sum())
    taken = np.zeros((len(PLACES), len(pair.correlation.matched)), dtype=np.int64)
    np.add.at(taken, (charges.rare.place, charges.rare.row), charges.rare.ns)
    for part in NET:
        taken[place(part)] += charges.distance_ns(part)
    for part, ns in parts.items():
        assert (taken[place(part)] <= np.maximum(ns, 0)).all()
    rows = pair.report.charges
    assert rows is not None
    mean_ms = pair.correlation.client_srt_ns.mean() / 1e6
    assert sum(one.mean_ms for one in rows if one.share is not None) == pytest.approx(mean_ms)


def test_stalls_are_charged_where_they_were_made(pair: Pair) -> None:
    """Loss where packets were dropped on the way and nowhere else; of other stalls nothing that matters: no path was
    full, no host stood still but the one that was stopped, and no finding says so."""
    charges = pair.correlation.charges
    assert charges is not None
    sums = charges.sums()
    lost_ns = sum(one.ns for (_, cause), one in sums.items() if cause in LOSSES)
    assert (lost_ns > 0) == ("loss_pct" in pair.truth["cause"])
    assert not charges.plateaus
    stall_s = pair.truth["cause"].get("stall_s")
    assert [one.side for one in charges.pauses] == (["client"] if stall_s else [])
    assert sum(one.end_ns - one.begin_ns for one in charges.pauses) / 1e9 == pytest.approx(stall_s or 0.0, rel=0.02)
    # A 1 MB message waits for ACKs on any network; what else was found of other ops is hardly a hundredth.
    if "1M" not in pair.name and "loss_pct" not in pair.truth["cause"]:
        stalls_ns = sum(
            one.ns
            for (part, cause), one in sums.items()
            if part in PART_NAMES and cause not in (None, Cause.DISTANCE, Cause.CONGESTION_WINDOW)
        )
        assert stalls_ns < 0.015 * pair.correlation.client_srt_ns.sum()
    codes = {one.code for one in pair.report.findings}
    others = {"delayed-ack", "zero-window", "head-of-line", "bandwidth", "net-reordering"}
    assert not codes & others
    assert ("host-pause" in codes) == bool(stall_s)
    assert ("net-loss" in codes) == ("loss_pct" in pair.truth["cause"])


def test_loss_is_charged_with_what_it_cost(pair: Pair) -> None:
    """What ops of which bytes were lost took on the network longer than the others, is what they are charged with."""
    charges = pair.correlation.charges
    if charges is None or "loss_pct" not in pair.truth["cause"]:
        return  # nothing was lost
    for part in NET:
        of_loss = (charges.rare.place == place(part)) & np.isin(charges.rare.cause, [code(one) for one in LOSSES])
        hit = np.unique(charges.rare.row[of_loss])
        others = np.delete(charges.net_ns[part], hit)
        excess_ns = charges.net_ns[part][hit].sum() - len(hit) * others.mean()
        assert charges.rare.ns[of_loss].sum() == pytest.approx(excess_ns, rel=0.35)
