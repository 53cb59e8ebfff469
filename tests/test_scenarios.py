"""Synthetic twins: whole runs on the pairs of captures that tests/scenarios describes, and what they have to say.

Each file is a timeline that a person can check with a pencil (tests/scenario.py explains the format). What is expected:

    matched                         ops
    missed.server, missed.client    reason -> ops; none where it is not given
    states.server, states.client    state -> messages that are not PAIRED; none where it is not given. The native
    audit.server, audit.client      engine's, as are the codes of the audit: tshark shows less (docs/engines.md)
    ops                             lines "XID: call_send + call_net + server + reply_send + reply_net = client SRT" in
                                    ms; "every:" for all that have no line of their own, "?" for what cannot be known,
                                    "XID: not timed" for a matched op that has no times. Several lines with one XID are
                                    several ops, in the order of the client's calls
    tolerance_ms                    of the above, where a clock runs fast or slow; else a nanosecond or so
    parts_ms                        means over all ops, by their names in the report; native engine
    layer                           of the verdict that adds most
    clock                           fits; bound_ms, drift_ppm (and how far its bounds may be off), steps
    direction                       "call", "reply" or "cannot tell": which one-way part is the larger one on average
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import wire
from captures import SHARED, needs_captures
from scenario import FILES, Scenario
from valid import validator

from nfslat.answer.model import Report
from nfslat.cli import main as cli

PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")
_EXPECTED = set("matched missed states audit ops tolerance_ms parts_ms layer clock direction".split())
_ALWAYS = {"capture-no-handshake"}  # timelines begin in the middle of a connection
_ROUNDED_MS = 2e-6  # each time is a whole number of nanoseconds, and so is half a bound
_STEP_MS = 1  # half the round trip of those scenarios
_DRIFT_ROOM = 0.02  # of the width of a bound
_EPOCH = datetime.fromtimestamp(wire.EPOCH_NS // 1_000_000_000, UTC)
SIDES = ("server", "client")


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    made = Scenario.load(request.param)
    assert set(made.expect) <= _EXPECTED
    return made


def test_scenario(scenario: Scenario, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A made pair of captures gives the figures that its timeline gives on paper, and says where TCP ends."""
    if engine not in scenario.engines:
        pytest.skip(f"{engine} does not see enough of it (the file says why)")
    server, client = scenario.write(tmp_path)
    report = _report(capsys, server, client, "--csv", tmp_path / "ops.csv")
    with (tmp_path / "ops.csv").open() as file:
        ops = list(csv.DictReader(file))
    counts, wanted = _counts(report), _expected_counts(scenario.expect)
    for name in counts if engine == "native" else ("matched", "missed"):
        assert counts[name] == wanted[name], name
    _check_ops(scenario.expect, ops)
    _check_clock(scenario.expect, report)
    for name, mean_ms in scenario.expect.get("parts_ms", {}).items() if engine == "native" else ():
        assert report["matched"]["total"]["parts_ms"][name] == pytest.approx(mean_ms, abs=0.001), name
    if "direction" in scenario.expect:
        assert _direction(report) == scenario.expect["direction"]
    if "layer" in scenario.expect:
        assert report["verdict"]["largest_layer"] == scenario.expect["layer"]
    if engine == "native":
        # Other sequence numbers in each capture are a proxy's or a load balancer's; where a NAT rewrites addresses and
        # ports alone, or the captures hold little in common, nothing of that is said.
        said = [one for one in report["notes"] if "TCP ends" in one]
        assert len(said) == any("isn_shift" in scenario.settings.get(side, {}) for side in SIDES), said


_LAB = SHARED / "lab"


@needs_captures
@pytest.mark.parametrize(
    ("name", "added_ms"), [("d_v3_netdelay5", 5), ("g_clock_offset7s", 3), ("g_clock_drift5000ppm", 3)]
)
def test_delays_of_the_lab(name: str, added_ms: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Real captures with so much delay added in either direction: the network part has both, theta and drift are those
    that were measured from outside, and of the directions it is said that nobody can tell."""
    report = _report(capsys, _LAB / name / "server.pcap.gz", _LAB / name / "client.pcap.gz")
    # The two guests and their bridge take a millisecond or two of their own.
    assert 2 * added_ms <= report["matched"]["total"]["network_ms"]["p50"] <= 2 * added_ms + 2
    truth = json.loads((_LAB / name / "truth.json").read_text())
    before, after = truth["clock_before"], truth["clock_after"]
    of_s = [one["server_minus_host"]["host_time_s"] for one in (before, after)]
    theta_ms = [-1000 * one["client_minus_server_s"] for one in (before, after)]
    low, high = report["clock"]["bound_ms"]
    assert low <= max(theta_ms)
    assert high >= min(theta_ms)
    low, high = report["clock"]["drift_bound_ppm"]
    assert low <= (theta_ms[1] - theta_ms[0]) * 1000 / (of_s[1] - of_s[0]) <= high
    assert _direction(report) == "cannot tell"


@needs_captures
def test_the_step_of_the_lab(capsys: pytest.CaptureFixture[str]) -> None:
    """A real clock that was set while 8 jobs read and wrote: by how much, and which one, is found to within 0.3 ms."""
    report = _report(capsys, *(_LAB / "g_clock_step3s" / f"{side}.pcap.gz" for side in SIDES))
    truth = json.loads((_LAB / "g_clock_step3s" / "truth.json").read_text())
    (step,) = report["clock"]["steps"]
    wanted_s = truth["clock_after"]["client_minus_server_s"] - truth["clock_before"]["client_minus_server_s"]
    assert step["clock"] == "client"
    assert step["set_by_ms"] == pytest.approx(1000 * wanted_s, abs=0.3)


def _report(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert cli.main([*map(str, arguments), "--json", "-"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    validator(Report).validate(report)
    return report


def _counts(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "matched": report["matched"]["ops"] + report["matched"]["untimed"],
        "missed": {side: report["matched"]["unmatched"][side] for side in SIDES},
        "states": {
            side: {state: count for state, count in report["captures"][side]["messages"].items() if state != "PAIRED"}
            for side in SIDES
        },
        "audit": {
            side: sorted({note["code"] for note in report["captures"][side]["audit"]} - _ALWAYS) for side in SIDES
        },
    }


def _expected_counts(expect: dict[str, Any]) -> dict[str, Any]:
    return {
        "matched": expect["matched"],
        "missed": {side: expect.get("missed", {}).get(side, {}) for side in SIDES},
        "states": {side: expect.get("states", {}).get(side, {}) for side in SIDES},
        "audit": {side: sorted(expect.get("audit", {}).get(side, [])) for side in SIDES},
    }


# --- Times ------------------------------------------------------------------------------------------------------------


def _check_ops(expect: dict[str, Any], rows: list[dict[str, str]]) -> None:
    """Each op against its line."""
    tolerance_ms = expect.get("tolerance_ms", _ROUNDED_MS)
    wanted: dict[str, list[str]] = defaultdict(list)
    for line in expect.get("ops", "").strip().splitlines():
        xid, _, figures = line.partition("#")[0].partition(":")
        if figures:
            wanted[xid.strip()].append(" ".join(figures.split()))
    every = wanted.pop("every", [])
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        found[str(int(row["xid"], 16))].append(_line(row))
    untimed = sum(lines.count("not timed") for lines in wanted.values())
    assert len(rows) == expect["matched"] - untimed
    wanted = ({xid: every * len(lines) for xid, lines in found.items()} if every else {}) | wanted
    for xid, all_lines in wanted.items():
        lines = [line for line in all_lines if line != "not timed"]  # they have no row
        same = len(found[xid]) == len(lines) and all(map(_agree, found[xid], lines, [tolerance_ms] * len(lines)))
        assert same or found[xid] == lines, f"op {xid}"


def _line(row: dict[str, str]) -> str:
    """One op as a scenario writes it."""
    parts = [f"{int(row[f'{part}_ns']) / 1e6:.6f}" if row[f"{part}_ns"] else "?" for part in PARTS]
    return f"{' + '.join(parts)} = {int(row['client_srt_ns']) / 1e6:.6f}"


def _agree(one: str, other: str, tolerance_ms: float) -> bool:
    """Are they the same words, and the same figures but for the tolerance?"""
    pairs = zip(one.replace("=", "+").split("+"), other.replace("=", "+").split("+"), strict=True)
    return all(
        a.strip() == b.strip() or ("?" not in a + b and abs(float(a) - float(b)) <= tolerance_ms) for a, b in pairs
    )


# --- The clock --------------------------------------------------------------------------------------------------------


def _check_clock(expect: dict[str, Any], report: dict[str, Any]) -> None:
    """The one place that knows how the report tells of the clocks."""
    clock, want = report["clock"], expect.get("clock", {})
    assert clock["fits"] == want.get("fits", True)
    if "theta_ms" in want:
        assert clock["theta_ms"] == pytest.approx(want["theta_ms"], abs=_ROUNDED_MS, rel=1e-15)  # a float has 53 bits
    if "bound_ms" in want:
        # Wider by what the clocks may drift within so short a time, and no narrower.
        (low, high), (lowest, highest) = want["bound_ms"], clock["bound_ms"]
        room = (high - low) * _DRIFT_ROOM
        assert low - room <= lowest <= low + _ROUNDED_MS
        assert high - _ROUNDED_MS <= highest <= high + room
    if not clock["fits"]:
        return
    low, high = clock["drift_bound_ppm"]
    drift, within = want.get("drift_ppm", 0), want.get("drift_within_ppm", 0)
    assert low <= drift <= high
    assert low <= clock["drift_ppm"] <= high
    if drift:
        assert high - low <= 2 * within
        assert clock["drift_ppm"] == pytest.approx(drift, abs=within)
    else:
        assert clock["drift_ppm"] == 0
    steps = want.get("steps", [])
    assert [step["clock"] for step in clock["steps"]] == [step["clock"] for step in steps]
    for found, made in zip(clock["steps"], steps, strict=True):
        assert found["set_by_ms"] == pytest.approx(made["set_by_ms"], abs=_STEP_MS)
        sign = 1 if made["clock"] == "server" else -1
        assert found["bound_ms"][0] <= sign * made["set_by_ms"] <= found["bound_ms"][1]
        at_ms = (datetime.fromisoformat(found["at"]) - _EPOCH) / timedelta(milliseconds=1)
        assert at_ms == pytest.approx(made["after_ms"], abs=0.001)  # microseconds are what datetime holds
        assert found["within_ms"] == pytest.approx(made["within_ms"], rel=0.01)


def _direction(report: dict[str, Any]) -> str:
    """Which way takes longer on average, as far as the error of theta, which is taken from one and given to the other,
    allows to say. A part that is not given is within its error."""
    parts = report["matched"]["total"]["parts_ms"]
    longer_ms = (parts["call_net"] or 0) - (parts["reply_net"] or 0)
    if abs(longer_ms) <= 2 * parts["one_way_error"]:
        return "cannot tell"
    return "call" if longer_ms > 0 else "reply"
