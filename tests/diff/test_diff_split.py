"""One pair cut in two where something begins in mid-capture, beside it, and where nothing does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import SHARED
from queue_captures import write_captures
from queues import GETATTR, MS, Traffic, one_after_another, simulate

from nfslat.diff import model
from nfslat.diff.answer import answer
from nfslat.diff.runs import Run
from nfslat.diff.split import split
from nfslat.model.units import NS_PER_S, utc
from nfslat.select import Filters, Moment

HALF = SHARED / "lab2" / "half_threads"
_USUAL: dict[str, Any] = {
    "threads": 32, "workers": 16, "count": 2_400, "law": "exponential", "think_ns": 4 * MS,
    "mean_ns": {"READ": 10 * MS, "WRITE": 10 * MS, GETATTR: 50_000},
}  # fmt: skip
_CACHED: dict[str, Any] = {"think_ns": 20 * MS, "mean_ns": {"READ": 60_000, "WRITE": 60_000, GETATTR: 50_000}}
_CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "server-threads": ({}, {"threads": 2}),
    "server-storage": (_CACHED, {}),
    "net-delay": ({}, {"network_ns": 16 * MS}),
}
_BESIDE = (("server-threads", -1.0), ("net-delay", 1.0))


def _split(folder: Path, after_ns: int) -> tuple[model.Diff, Run, Run]:
    """So long after the first packet."""
    server, client = (str(next(folder.glob(f"{side}.pcap*"))) for side in ("server", "client"))
    a, b = split([server, client], Filters(), Moment(after_ns, False, "here"), engine=None, quiet=True, name="pair")
    return answer(a, b, []), a, b


def _captured(traffic: Traffic, folder: Path) -> Path:
    write_captures(traffic, folder)
    return folder


def _causes(run: Run) -> set[str]:
    return set() if run.report is None else {one.code for one in run.report.findings}


@pytest.mark.parametrize(
    ("cause", "off_s"),
    [
        # By day each cause where it begins, and one beside it on either side.
        pytest.param(cause, off_s, marks=() if not off_s or (cause, off_s) in _BESIDE else pytest.mark.long)
        for cause in _CHANGES
        for off_s in (0.0, -1.0, 1.0)
    ],
)
def test_each_half_has_its_own_cause_and_a_split_beside_the_change_is_told(
    cause: str, off_s: float, tmp_path: Path
) -> None:
    """What begins in mid-capture is the second half's alone; one second off, the change is dated, and nobody is told
    that it is the load or drift."""
    before, after = _CHANGES[cause]
    first = simulate(**_USUAL | before)
    both = one_after_another(first, simulate(**_USUAL | after, seed=2))
    change_ns = int(both.sent_ns[len(first.conn) :].min() - both.sent_ns.min())
    found, a, b = _split(_captured(both, tmp_path), change_ns + int(off_s * NS_PER_S))
    assert found.verdict.change in (("slower",) if not off_s else ("slower", "unknown"))
    assert cause in _causes(b)
    said = " ".join([found.verdict.text, *found.events])
    if off_s:
        (shift,) = (*a.shifts, *b.shifts)
        assert abs(shift.off_ns + off_s * NS_PER_S) < 0.25 * NS_PER_S
        assert f"In {'B' if off_s < 0 else 'A'} response times change at {utc(shift.at_ns, 3)}" in said
        assert "compares there" in said
    else:
        assert cause not in _causes(a)
        assert found.verdict.cause == cause
        assert "response times change at" not in said


@pytest.mark.parametrize("share", [0.5, *(pytest.param(share, marks=pytest.mark.long) for share in (0.3, 0.7))])
def test_a_pair_in_which_nothing_changes_has_no_evidence_of_a_change(share: float, tmp_path: Path) -> None:
    """Wherever it is split, and though calls wait for threads all the time: at most chance is named."""
    busy = _USUAL | {"threads": 2, "count": 4_800}
    traffic = simulate(**busy)
    whole_ns = int(traffic.sent_ns.max() - traffic.sent_ns.min())
    found, a, b = _split(_captured(traffic, tmp_path), int(share * whole_ns))
    assert found.verdict.change == "none" or "is within normal variation" in found.verdict.text
    assert share != 0.5 or found.verdict.text.startswith("No evidence of a change")
    assert not (*a.shifts, *b.shifts, *found.events)


@pytest.mark.skipif(not HALF.is_dir(), reason="no ../shared/lab2")
@pytest.mark.parametrize("off_s", [0, -1, 1])
def test_threads_that_a_real_server_lost_are_the_second_halfs(off_s: int) -> None:
    """It went from 32 to 2 in the sixth second: a split there says so, and beside it when it was. A first half with a
    second of it, which has half of its time, has the cause from then on."""
    found, a, _ = _split(HALF, int((6.289 + off_s) * NS_PER_S))
    assert ("server-threads" in _causes(a)) == (off_s > 0)
    if off_s > 0:
        assert a.report.verdict is not None
        assert a.report.verdict.text.startswith("From 2026-11-22 14:04:18.473 UTC on (49.8 % of the time): ")
    assert found.verdict.layer == ("server" if found.verdict.change == "slower" else None)
    assert found.verdict.change == ("slower" if off_s < 1 else "unknown")
    told = " ".join([found.verdict.text, *found.events])
    assert ("change at 2026-11-22 14:04:18.4" in told) == bool(off_s)
    if not off_s:
        assert found.verdict.cause == "server-threads"
