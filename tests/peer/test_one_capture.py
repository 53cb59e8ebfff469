"""One capture through the whole of nfslat: real pairs, each half alone, against what both say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from halves import beside

import nfslat
from nfslat.findings.diagnosis import Diagnosis, Evidence
from nfslat.findings.inferred import no_surer
from nfslat.findings.layers import Layers
from nfslat.findings.leads import Ground, lead
from nfslat.findings.server import Storage
from nfslat.findings.slow_ops import Late
from nfslat.findings.verdict import verdict

SAMPLES = Path(__file__).parents[2] / "samples"
PAIRS = ["server-threads", "slow-network", "packet-loss", "client-slots"]
_STAMPED_NS = 100_000  # what two captures may differ by, each stamping a little off the wire


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[nfslat.Report, dict[str, nfslat.Report]]:
    """Both captures, and each of them alone."""
    files = {side: SAMPLES / request.param / f"{side}.pcap.gz" for side in ("server", "client")}
    return nfslat.correlate(files["server"], files["client"]), {one: nfslat.inspect(files[one]) for one in files}


@pytest.mark.parametrize("side", ["client", "server"])
def test_each_half_holds_the_truth(pair: tuple[nfslat.Report, dict[str, nfslat.Report]], side: str) -> None:
    """Where it was taken is found; bounds hold what the other capture shows in nearly all ops, and the mean is as good
    as it says."""
    both, alone = pair
    truth, one = both.correlation, alone[side].correlation
    assert one.inferred is not None
    assert one.inferred.taken_at == side
    known, rows, true_ns, found_ns = beside(truth, one, side)
    assert known > 0.99
    held = (true_ns >= one.inferred.low_ns[rows] - _STAMPED_NS) & (true_ns <= one.inferred.high_ns[rows] + _STAMPED_NS)
    assert held.mean() > 0.97
    assert abs(found_ns.mean() - true_ns.mean()) <= one.inferred.mean_error_ns(rows)


@pytest.mark.parametrize("side", ["client", "server"])
def test_what_is_said_of_it_is_not_too_sure(pair: tuple[nfslat.Report, dict[str, nfslat.Report]], side: str) -> None:
    """Parts add up as of two captures; no verdict is of high confidence, and the text says that it is one capture."""
    report = pair[1][side]
    figures = report.figures
    c = report.correlation
    assert (sum(c.parts.all_ns()) == (c.client.ops.t3 - c.client.ops.t0)[c.matched.client]).all()
    assert figures.verdict is not None
    assert figures.verdict.confidence != "high"
    assert f"From the {side}'s capture alone" in " ".join(report.text().split())
    assert f"From the {side}'s capture alone" in " ".join(report.markdown().split())
    assert all(
        one.confidence == "likely" for one in figures.findings if one.layer == "network" and one.share is not None
    )


@pytest.mark.parametrize("name", PAIRS[:2])
def test_the_client_s_half_names_the_cause(name: str) -> None:
    """Too few threads, and a long path, are found in the client's capture alone."""
    files = [SAMPLES / name / f"{side}.pcap.gz" for side in ("server", "client")]
    both, one = nfslat.correlate(*files).verdict, nfslat.inspect(files[1]).verdict
    assert both is not None
    assert one is not None
    assert (one.outcome, one.layer, one.cause) == (both.outcome, both.layer, both.cause)


def _finding(code: str, layer: str, share: float) -> Diagnosis:
    return Diagnosis(
        code=code,
        layer=layer,
        severity="warning",
        share=share,
        slowest=None,
        confidence="certain",
        text="",
        evidence=Evidence(),
        advice=None,
    )


def test_findings_of_the_other_host_are_likely() -> None:
    """What is measured stays certain."""
    found = [_finding("server-storage", "server", 0.9), _finding("client-slots", "client", 0.1)]
    assert [one.confidence for one in no_surer(found, "client")] == ["likely", "certain"]
    assert [one.confidence for one in no_surer(found, "server")] == ["certain", "likely"]


_GROUND = Ground(ops=5000, complete=1.0, incomplete="", negative=0, clock_fits=True, inferred="server", error_ms=0.1)


@pytest.mark.parametrize(("error_ms", "outcome"), [(0.1, "fault"), (9.0, "undecided")])
def test_what_is_not_known_well_enough_is_left_open(error_ms: float, outcome: str) -> None:
    """A server is not blamed where its mean may be off by as much, and not acquitted where it may be off by half of all
    the time."""
    ground = _GROUND._replace(error_ms=error_ms)
    assert lead(Layers(9.0, 1.0), ground, [_finding("server-storage", "server", 0.9)]).outcome == outcome
    assert lead(Layers(1.0, 4.0), ground).outcome == ("no-fault" if outcome == "fault" else "undecided")


@pytest.mark.parametrize(("error_ms", "outcome"), [(1.0, "no-fault"), (1.5, "undecided")])
def test_without_a_clock_a_host_is_acquitted_of_less(error_ms: float, outcome: str) -> None:
    """A quarter of the time may be missed, not half of it; and what else may be is said, with low confidence."""
    ground = _GROUND._replace(error_ms=error_ms)
    mean = Layers(1.0, 4.0)
    assert lead(mean, ground).outcome == "no-fault"
    assert lead(mean, ground._replace(is_clocked=False)).outcome == outcome
    said = verdict(mean, mean, ground._replace(is_clocked=False))
    assert said.confidence == "low"
    assert verdict(mean, mean, ground).confidence == "medium"
    missed = "without the server's clock pauses of a host and a client's slots may be missed"
    assert (missed in said.reasons) == (outcome == "no-fault")


@pytest.mark.parametrize(("slow_ops", "outcome"), [(400, "fault"), (30, "undecided")])
def test_slow_ops_may_be_losses_where_they_are_as_few(slow_ops: int, outcome: str) -> None:
    """Of 5,000 ops 25 show a loss. Replies that were lost whole show none, but are not sixteen times as many."""
    evidence = Late(
        ops=("READ",),
        slow_ops=slow_ops,
        of_ops=5000,
        slow_ms=200.0,
        others_ms=0.5,
        mean_ms=4.0,
        begin=None,
        end=None,
        stalls=0,
        stall_ms=None,
        every_s=None,
        alone=True,
        overtaken_share=0.9,
        light_quick=9,
        light_slow=0,
    )
    found = dataclasses.replace(_finding("server-storage", "server", 0.9), evidence=evidence)
    ground = _GROUND._replace(lost_share=0.005)
    assert lead(Layers(9.0, 1.0), ground, [found]).outcome == outcome


@pytest.mark.parametrize(("lost", "outcome"), [(0.005, "fault"), (0.05, "undecided")])
def test_storage_may_be_losses_where_their_timers_add_up(lost: float, outcome: str) -> None:
    """200 ms and more for one op of twenty are as much as 9 ms of each; for one of 200 they are not."""
    found = _finding("server-storage", "server", 0.9)
    found = dataclasses.replace(found, evidence=Storage(in_thread_ms=9.0, data_ops=5000, data_ms=9.0))
    ground = _GROUND._replace(lost_share=lost)
    assert lead(Layers(9.0, 1.0), ground, [found]).outcome == outcome
