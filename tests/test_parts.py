"""What is said of phases and of pairs of hosts, and of all ops -> whose words lead, and shares of one base."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer.model import Objective, Verdict
from nfslat.findings.catalogue import row
from nfslat.findings.diagnosis import Diagnosis, diagnosis
from nfslat.findings.layers import Layers
from nfslat.findings.leads import Ground
from nfslat.findings.network import Delay
from nfslat.findings.parts import Whole, lead_by_parts
from nfslat.findings.rank import ranked
from nfslat.findings.server import Queue, Storage, Unknown
from nfslat.findings.verdict import verdict

SOUND = Ground(ops=1_000, complete=1.0, incomplete="", negative=0, clock_fits=True)
EVIDENCE = {
    "server-storage": Storage(in_thread_ms=0.0, data_ops=0, data_ms=0.0),
    "server-threads": Queue(queue_ms=0.0, in_thread_ms=0.0, server_ms=0.0),
    "net-delay": Delay(least_round_trip_ms=0.0, network_ms=0.0),
    "server-queue-unknown": Unknown(server_ms=0.0, in_thread_ms=0.0),
}


@dataclass
class Row:
    """Figures of a part."""

    ops: int
    client_ms: float
    time_share: float
    threads_estimate: int | None = None


@dataclass
class Part:
    """A phase or a pair of hosts."""

    words: str
    row: Row
    causes: list[Diagnosis]
    verdict: Verdict


def _finding(code: str, share: float, sure: str = "likely") -> Diagnosis:
    text = f"the text of {code}"
    return diagnosis(code, row(code).layer, text, share=share, confidence=sure, evidence=EVIDENCE[code])


def _parts(*of: tuple[int, float, list[Diagnosis]]) -> list[Part]:
    """From ops, their mean ms, and what was found of each."""
    all_ms = sum(ops * ms for ops, ms, _ in of)
    out = []
    for at, (ops, ms, findings) in enumerate(of):
        server = sum(cause.share or 0.0 for cause in findings if cause.layer == "server") * ms
        mean = Layers(min(server, 0.95 * ms), ms - min(server, 0.95 * ms))
        causes = ranked(findings, mean.total_ms)
        result = verdict(mean, None, SOUND, causes)
        out.append(Part(f"in part {at}", Row(ops, ms, ops * ms / all_ms), causes, result))
    return out


def _whole(outcome: str = "no-fault", causes: list[Diagnosis] | None = None, **more: Any) -> Whole:
    findings = causes or []
    mean = Layers(5.0, 5.0)
    result = dataclasses.replace(verdict(mean, None, SOUND, findings), outcome=outcome)
    own = dataclasses.replace(result, **more)
    return Whole(findings, own, mean, None, judge=lambda causes: verdict(mean, None, SOUND, causes))


def test_a_limit_of_a_part_of_the_time_has_its_share_of_all_of_it() -> None:
    """Of half of the time calls wait 60 % of theirs, and of the whole nothing was found."""
    parts = _parts((500, 1.0, []), (500, 1.0, [_finding("server-threads", 0.6)]))
    led = lead_by_parts(parts, _whole())
    assert led is not None
    causes, result = led
    assert (result.outcome, result.cause, result.share) == ("fault", "server-threads", pytest.approx(0.3))
    assert [(cause.code, cause.share) for cause in causes] == [("server-threads", pytest.approx(0.3))]
    assert result.text.startswith("In part 1 (50.0 % of the time): ")
    assert causes[0].gain is not None
    assert causes[0].gain.ms == pytest.approx(0.3)


def test_too_little_of_all_the_time_is_no_fault_of_all() -> None:
    """What would not lead as a share of one whole does not as a part's."""
    parts = _parts((900, 1.0, []), (100, 1.0, [_finding("server-threads", 0.9)]))
    assert lead_by_parts(parts, _whole()) is None


def test_no_fault_of_a_part_does_not_decide_what_is_open() -> None:
    """Of what cannot be told of all ops, a part without a fault tells its own; of nearly all it tells it."""
    unknown = [_finding("server-queue-unknown", 1.0, "certain")]
    half = _parts((600, 4.0, []), (160, 10.0, unknown))
    assert lead_by_parts(half, _whole("undecided")) is None
    led = lead_by_parts(_parts((600, 4.0, []), (350, 4.0, []), (20, 10.0, unknown)), _whole("undecided"))
    assert led is not None
    assert led[1].outcome == "no-fault"


@pytest.mark.parametrize(("ops", "outcome"), [(290, None), (310, "undecided")])
def test_all_is_well_only_where_no_part_is_open(ops: int, outcome: str | None) -> None:
    """Nothing was found of the whole, and what takes so long for a third of the time cannot be told."""
    unknown = [_finding("server-queue-unknown", 1.0, "certain")]
    led = lead_by_parts(_parts((5 * (1000 - ops) // 2, 4.0, []), (ops, 10.0, unknown)), _whole())
    assert (None if led is None else led[1].outcome) == outcome


def test_threads_that_are_few_for_a_part_of_the_time_are_named_beside_the_disk() -> None:
    """All wait for the disk, and in the middle three quarters of the time is a wait for a thread: of the whole that
    looks like the disk."""
    disk = [_finding("server-storage", 0.95)]
    split = [_finding("server-threads", 0.75, "certain"), _finding("server-storage", 0.2)]
    parts = _parts((600, 1.0, disk), (200, 3.0, split), (600, 1.0, disk))
    led = lead_by_parts(parts, _whole("fault", disk, largest_layer="server"))
    assert led is not None
    causes, result = led
    assert (result.cause, result.also) == ("server-storage", ["server-threads"])
    shares = {cause.code: cause.share for cause in causes}
    assert shares == {"server-storage": pytest.approx((0.95 * 2 + 0.2) / 3), "server-threads": pytest.approx(0.25)}
    assert (
        lead_by_parts(_parts((900, 1.0, disk), (30, 3.0, split)), _whole("fault", disk, largest_layer="server")) is None
    )


@pytest.mark.parametrize(("delay", "shown", "listed"), [
    (0.08, 1.0, False), (0.12, 1.0, True), (0.3, 1.0, True), (0.3, 0.8, True), (0.12, 0.8, False),
])  # fmt: skip
def test_a_path_that_is_longer_for_a_part_of_the_time_is_listed(delay: float, shown: float, listed: bool) -> None:
    """Of the whole the shortest round trip is short; calls wait for the same threads all the time. Where operations
    that are not shown have much of it, its share is at least that of those that are."""
    threads = [_finding("server-threads", 0.7, "certain")]
    parts = _parts((500, 1.0, threads), (500, 1.0, [*threads, _finding("net-delay", delay, "certain")]))
    led = lead_by_parts(parts, _whole("fault", threads, largest_layer="server")._replace(shown=shown))
    assert (led is not None) == listed
    if led is not None:
        path, share = next(cause for cause in led[0] if cause.code == "net-delay"), shown * delay / 2
        assert (path.share, path.severity) == (pytest.approx(share), "warning" if share >= 0.1 else "info")
        assert led[1].cause == "server-threads"


def test_what_explains_most_in_all_parts_leads() -> None:
    """Two parts of a third each wait for the disk, and one that takes a little more is far away: it is the disk."""
    disk = [_finding("server-storage", 0.9)]
    parts = _parts((300, 1.0, disk), (400, 1.0, [_finding("net-delay", 0.7)]), (300, 1.0, disk))
    led = lead_by_parts(parts, _whole(), of_hosts=True)
    assert led is not None
    assert (led[1].cause, led[1].share, led[1].also) == ("server-storage", pytest.approx(0.54), ["net-delay"])
    assert [cause.share for cause in led[0]] == [pytest.approx(0.54), pytest.approx(0.28)]


@pytest.mark.parametrize(("ops", "leads"), [(300, False), (1500, True)])
def test_what_cannot_be_told_of_all_is_said_of_two_hosts_only_where_they_have_most_of_the_time(
    ops: int, leads: bool
) -> None:
    """Of the calls of all hosts nobody knows why they take long, nor of those of any two."""
    unknown = [_finding("server-queue-unknown", 1.0, "certain")]
    parts = _parts((300, 5.0, unknown), (ops, 5.1, unknown), (310, 4.9, unknown), (290, 5.0, unknown))
    of_all = _whole("undecided", unknown)
    led = lead_by_parts(parts, of_all, of_hosts=True)
    assert (led is not None) == leads


def test_a_part_that_cannot_be_told_leaves_the_whole_open() -> None:
    """Most of the rest waits for its disk; but nobody knows why the slowest stretch is ten times as slow."""
    disk, unknown = [_finding("server-storage", 0.95)], [_finding("server-queue-unknown", 1.0, "certain")]
    parts = _parts((600, 50.0, disk), (150, 300.0, unknown), (400, 50.0, disk))
    assert parts[1].verdict.outcome == "undecided"
    assert lead_by_parts(parts, _whole("undecided")) is None


@pytest.mark.parametrize(("whole", "part", "leads"), [
    ("certain", "likely", False), ("certain", "certain", True), ("likely", "likely", True), ("likely", "certain", True),
])  # fmt: skip
def test_a_part_that_knows_less_than_the_whole_does_not_lead(whole: str, part: str, leads: bool) -> None:
    """What is affirmed of all is not denied by a part of it that is only likely."""
    parts = _parts((300, 1.0, []), (700, 1.0, [_finding("server-storage", 0.9, part)]))
    of_all = _whole("fault", [_finding("server-threads", 0.6, whole)])
    for of_hosts in (False, True):
        assert (lead_by_parts(parts, of_all, of_hosts=of_hosts) is not None) == leads


def test_what_is_met_or_of_the_whole_alone_stays() -> None:
    """Objectives that are met; ops that no part has; parts that are not nearly all."""
    parts = _parts((500, 1.0, []), (500, 1.0, [_finding("server-threads", 0.9)]))
    met = Objective("READ.p50=5", "READ", "p50", "client", 5.0, 1.0, True)
    assert lead_by_parts(parts, _whole()) is not None
    assert lead_by_parts(parts, _whole(objectives=[met])) is None
    assert lead_by_parts(parts, _whole()._replace(shown=0.7)) is None
    assert lead_by_parts(parts[1:], _whole()) is None
    assert lead_by_parts([], _whole()) is None


_FOUND = st.lists(st.sampled_from(sorted(EVIDENCE)), unique=True, max_size=4).flatmap(
    lambda codes: st.lists(st.floats(0, 1), min_size=len(codes), max_size=len(codes)).map(
        lambda some: [_finding(code, share / max(sum(some), 1.0)) for code, share in zip(codes, some, strict=True)]
    )
)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0.01, 1e4), _FOUND), min_size=1, max_size=6), st.booleans())
def test_shares_of_one_ranking_are_of_one_whole(of: list[tuple[int, float, list[Diagnosis]]], hosts: bool) -> None:
    """Where what explains a part's time is no more than all of it, so it is of all parts together; and each finding
    explains the sum of what it does in them."""
    parts = _parts(*of)
    led = lead_by_parts(parts, _whole(), of_hosts=hosts)
    if led is None:
        return
    causes, result = led
    assert sum(cause.share or 0.0 for cause in causes) <= 1 + 1e-9
    for cause in causes:
        every = sum((it.share or 0.0) * ops * ms for ops, ms, some in of for it in some if it.code == cause.code)
        assert cause.share == pytest.approx(every / sum(ops * ms for ops, ms, _ in of), abs=1e-9)
    own = next((cause for cause in causes if cause.code == result.cause), None)
    assert own is None or result.share == own.share
