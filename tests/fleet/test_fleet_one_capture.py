"""`nfslat fleet` where one side of some clients, or of all, was not captured: what it infers, and how sure it is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleet_made.captures import make
from fleet_made.fleets import FAR, small_plan
from in_process import run_here
from made_summaries import WINDOWS, made, plain

import nfslat
from nfslat import pipeline
from nfslat.answer.model import Inferred
from nfslat.fleet.compare.compare import Compared, compare
from nfslat.fleet.compare.summary import INFERRED, ClientSummary
from nfslat.results import Correlation, Side
from nfslat.select import Filters, client_ends

_HALF = 6  # clients of the made fleet, every other one


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """12 clients whose packets have TCP time stamps: 2 behind a slow path; 4 threads are too few from half time on."""
    folder = tmp_path_factory.mktemp("stamped")
    return folder, make(small_plan(1), folder, stamped=True)


@pytest.fixture(scope="module")
def runs(fleet: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The reports on all captures, on the server's alone, on the clients' alone, and with half of the clients'."""
    folder, out = fleet[0], tmp_path_factory.mktemp("runs")
    server, clients = folder / "server", sorted((folder / "clients").iterdir())
    given: dict[str, Sequence[Path]] = {
        "all": [server, *clients],
        "server": [server],
        "clients": clients,
        "half": [server, *clients[::2]],
    }
    found = {}
    for name, captures in given.items():
        ran = run_here(out / name, [*captures, "--out", out / name / "kept", "-q"])
        assert ran.status == 0, ran.err
        found[name] = {**ran.report, "kept": out / name / "kept"}
    return found


def _by_name(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in report["clients"]}


@pytest.mark.parametrize(("name", "source"), [("server", "server"), ("clients", "client")])
def test_every_client_has_a_row_from_one_capture(runs: dict[str, dict[str, Any]], name: str, source: str) -> None:
    """What was captured is as with both (but for the drift of its clock); what was not is inferred, and says so; of
    nearly all it is off by no more than is stated, and of none by twice as much."""
    measured, report = _by_name(runs["all"]), runs[name]
    there = {"server": "server_ms", "client": "client_ms"}[source]
    assert len(report["clients"]) == len(measured)
    off = []
    for one in report["clients"]:
        true = measured[one["name"]]
        assert (one["state"], one["source"], one["ops"]) == ("inferred", source, true["ops"])
        assert one["inferred"]["side"] != source
        assert one[there]["mean"] == pytest.approx(true[there]["mean"], rel=1e-4)
        off.append(abs(one["network_ms"]["mean"] - true["network_ms"]["mean"]) / one["inferred"]["mean_error_ms"])
    assert sorted(off)[-2] <= 1
    assert max(off) <= 2


@pytest.mark.parametrize("name", ["all", "server", "clients", "half"])
def test_the_numbers_add_up(runs: dict[str, dict[str, Any]], name: str) -> None:
    """Each op of a client is measured, inferred or neither; the totals are those of the clients."""
    report = runs[name]
    ops = dict.fromkeys(("compared", "inferred"), 0)
    for one in report["clients"]:
        ops[one["state"]] += one["ops"]
    captures = report["captures"]
    assert (captures["matched_ops"], captures["inferred_ops"]) == (ops["compared"], ops["inferred"])
    assert (report["total"]["count"], report["total"]["inferred"]) == (sum(ops.values()), ops["inferred"])
    assert sum(one["inferred"] for one in report["by_op"]) == ops["inferred"]
    assert max(captures["server_ops"], captures["client_ops"]) == sum(ops.values())


@pytest.mark.parametrize("name", ["server", "clients", "half"])
def test_the_slow_path_is_found_and_no_more_than_with_all_captures(
    fleet: tuple[Path, dict[str, Any]], runs: dict[str, dict[str, Any]], name: str
) -> None:
    """Nobody stands out for how the times were found; what is inferred is of medium confidence at most, and so is the
    answer."""
    far = {one["address"] for one in fleet[1]["clients"] if one["group"] == FAR}
    out = {which: {one["name"] for one in runs[which]["clients"] if one["outlier"]} for which in ("all", name)}
    assert far <= out[name] <= out["all"]
    of_far = [one for one in runs[name]["patterns"] if one["layer"] == "network" and set(one["clients"]) <= far]
    assert {client for one in of_far for client in one["clients"]} == far
    for one in of_far:
        inferred = [client for client in one["clients"] if _by_name(runs[name])[client]["state"] == "inferred"]
        assert one["inferred"] == len(inferred)
        assert one["confidence"] != "high"
    verdict = runs[name]["verdict"]
    assert (verdict["outcome"], verdict["layer"]) == ("fault", runs["all"]["verdict"]["layer"])
    # Without the server's capture threads are not known, and nothing else is named in their place.
    assert verdict["cause"] == (None if name == "clients" else runs["all"]["verdict"]["cause"])
    assert verdict["confidence"] != "high"
    assert any("inferred" in reason for reason in verdict["reasons"])


def test_the_servers_capture_alone_tells_of_its_threads_as_with_all(runs: dict[str, dict[str, Any]]) -> None:
    """They are its own; nothing is said of them where it was not captured."""
    for name in ("server", "half"):
        assert runs[name]["server"]["inflight"] == runs["all"]["server"]["inflight"]
        assert runs[name]["server"]["phases"] == runs["all"]["server"]["phases"]
    assert runs["clients"]["server"] is None
    assert all(one["queue_ms"] is None for one in runs["clients"]["clients"])
    assert "server-threads" not in {one["cause"] for one in runs["clients"]["patterns"]}


def test_captured_clients_are_compared_as_ever_beside_others(runs: dict[str, dict[str, Any]]) -> None:
    """What is known of them does not depend on who else was captured."""
    both = [one for one in runs["half"]["clients"] if one["state"] == "compared"]
    assert len(both) == _HALF
    for one in both:
        true = _by_name(runs["all"])[one["name"]]
        for key in ("ops", "client_ms", "server_ms", "network_ms", "clock", "queue_ms", "verdict"):
            assert one[key] == true[key]


def test_one_client_is_shown_as_of_one_capture(
    fleet: tuple[Path, dict[str, Any]], runs: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """--show gives the report that the fleet kept, with the times that nfslat CAPTURE infers of that client alone."""
    name = runs["server"]["clients"][0]["name"]
    shown = run_here(tmp_path, ["--out", runs["server"]["kept"], "--show", name]).report
    kept = json.loads((runs["server"]["kept"] / "clients" / f"{name}.json").read_text())
    alone = nfslat.inspect(fleet[0] / "server" / "server.pcap", client_addr=[name]).summary
    assert alone.inferred is not None
    assert shown["inferred"] == kept["inferred"] == _by_name(runs["server"])[name]["inferred"]
    assert shown["matched"]["total"] == kept["matched"]["total"]
    assert shown["inferred"]["mean_error_ms"] == pytest.approx(alone.inferred.mean_error_ms, rel=0.1)
    assert alone.matched is not None
    assert shown["matched"]["total"]["client_ms"]["mean"] == pytest.approx(alone.matched.total.client_ms.mean, rel=0.05)


def test_without_time_stamps_acknowledgements_tell(tmp_path: Path) -> None:
    """Of the server's capture alone: each client's times are inferred all the same, with an error, and no surer."""
    plan = dataclasses.replace(small_plan(2), seconds=2.0, busier_at_s=1.0)
    make(plan, tmp_path / "made")
    alone = run_here(tmp_path / "s", [tmp_path / "made" / "server"])
    rows = alone.report["clients"]
    assert {one["state"] for one in rows} <= {"inferred", "server only"}
    inferred = [one for one in rows if one["state"] == "inferred"]
    assert inferred
    assert all(one["inferred"]["mean_error_ms"] > 0 for one in inferred)
    assert alone.report["verdict"]["confidence"] != "high"


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Callable[[Collection[str]], None]:
    """Takes the addresses of clients of which nothing can be inferred."""
    infer_other = pipeline.infer_other

    def make_blind(addresses: Collection[str]) -> None:
        def instead(side: Side, *, filters: Filters, srt: str) -> Correlation | str:
            known = {address for address, _ in client_ends(side.ops)}
            if known & set(addresses):
                side.decoded.segments.clear()
                return "its packets tell nothing"
            return infer_other(side, filters=filters, srt=srt)

        monkeypatch.setattr(pipeline, "infer_other", instead)

    return make_blind


def test_where_nothing_is_inferred_the_reason_is_said(
    fleet: tuple[Path, dict[str, Any]], tmp_path: Path, blind: Callable[[Collection[str]], None]
) -> None:
    """Of the server's capture its own figures stay; of clients' captures alone there is nothing to compare."""
    blind([one.address for one in small_plan(1).clients])
    alone = run_here(tmp_path / "s", [fleet[0] / "server"])
    assert {one["state"] for one in alone.report["clients"]} == {"server only"}
    assert all("its packets tell nothing" in one["why_not_inferred"] for one in alone.report["clients"])
    assert alone.report["verdict"]["confidence"] != "high"
    refused = run_here(tmp_path / "c", [fleet[0] / "clients"])
    assert (refused.status, refused.report) == (3, {})
    assert "its packets tell nothing" in refused.err


def test_a_client_of_which_nothing_is_inferred_is_named(
    fleet: tuple[Path, dict[str, Any]], tmp_path: Path, blind: Callable[[Collection[str]], None]
) -> None:
    """Among clients' captures one that tells nothing: its state and the reason; the others are compared."""
    plan = small_plan(1)
    bare = plan.clients[4].address
    blind([bare])
    ran = run_here(tmp_path / "run", sorted((fleet[0] / "clients").iterdir())[:5])
    states = {one["name"]: one["state"] for one in ran.report["clients"]}
    assert states == {one.address: "inferred" for one in plan.clients[:4]} | {bare: "client only"}
    assert "its packets tell nothing" in _by_name(ran.report)[bare]["why_not_inferred"]
    assert ran.status == 4


def test_a_manifest_names_a_client_without_a_capture(fleet: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Its row has its name, both of its addresses, and its groups."""
    one, other = (client["address"] for client in fleet[1]["clients"][:2])
    toml = tmp_path / "FLEET.toml"
    toml.write_text(f'[clients.db01]\naddresses = ["{one}", "{other}"]\ngroups = {{ rack = "r7" }}\n')
    report = run_here(tmp_path / "run", [fleet[0] / "server", "--manifest", toml]).report
    db01 = _by_name(report)["db01"]
    assert (db01["state"], db01["addresses"], db01["groups"]["rack"]) == ("inferred", [one, other], "r7")
    assert db01["ops"] == sum(client["ops"] for client in fleet[1]["clients"][:2])
    assert not {one, other} & _by_name(report).keys()


# --- Comparison of made summaries ---


def _inferred(one: ClientSummary, error_ms: float) -> ClientSummary:
    found = Inferred("client", "server", one.ops, 0, error_ms, error_ms, 1.0, 0.2)
    return dataclasses.replace(one, state=INFERRED, inferred=found)


def _compared(slow_ms: float, error_ms: float, inferred: Sequence[int], slow: Sequence[int]) -> Compared:
    rng = np.random.default_rng(7)
    clients = [
        made(dataclasses.replace(one, network_ms=slow_ms) if at in slow else one, rng)
        for at, one in enumerate(plain(20))
    ]
    return compare(
        [_inferred(one, error_ms) if at in inferred else one for at, one in enumerate(clients)], None, WINDOWS
    )


def test_a_difference_within_what_is_stated_sets_nobody_apart() -> None:
    """Half of the clients are inferred, 0.6 ms too long, to +/- 0.8 ms: alike. Measured, the same is a difference."""
    half = range(0, 20, 2)
    assert not any(one.outlier for one in _compared(1.0, 0.8, half, half).clients)
    assert not _compared(1.0, 0.8, half, half).patterns
    few = [3, 7]
    assert {one.name for one in _compared(1.0, 0.8, [], few).clients if one.outlier} == {"c003", "c007"}
    assert not any(one.outlier for one in _compared(1.0, 0.8, few, few).clients)


def test_a_difference_beyond_what_is_stated_sets_apart_with_medium_confidence() -> None:
    """3 ms more, to +/- 0.8 ms, is found; where it is measured with high confidence."""
    few = [3, 7]
    for inferred, confidence in (([], "high"), (few, "medium"), (range(20), "medium")):
        found = _compared(3.4, 0.8, inferred, few)
        out = [one for one in found.clients if one.outlier]
        assert {one.name for one in out} == {"c003", "c007"}
        assert {one.set_apart.confidence for one in out if one.set_apart} == {confidence}
        assert {one.confidence for one in found.patterns} == {confidence}
        assert all(("inferred" in one.why) == (len(inferred) > 0) for one in out)
        assert (found.verdict.confidence == "high") == (len(inferred) == 0)


def test_the_servers_time_is_as_sure_as_ever_where_the_client_is_inferred() -> None:
    """A slow disk at one client: the server's capture measures that, whatever is inferred of the network."""
    rng = np.random.default_rng(8)
    clients = [made(dataclasses.replace(one, disk=4.0) if at == 3 else one, rng) for at, one in enumerate(plain(20))]
    found = compare([_inferred(one, 5.0) for one in clients], None, WINDOWS)
    assert {one.name for one in found.clients if one.outlier} == {"c003"}
    (pattern,) = found.patterns
    assert (pattern.layer, pattern.confidence, pattern.inferred) == ("server", "high", 0)
    assert found.verdict.confidence == "medium"
