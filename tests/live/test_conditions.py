"""`--when`: what can be said, what a stretch of time has to show, and what is said of what cannot be understood."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_captures import pairs_of

from nfslat.errors import UsageError
from nfslat.flow.analysed import analysed
from nfslat.flow.gaps import Gaps
from nfslat.live.conditions import Clause, Figure, Verdict, parse_condition
from nfslat.live.rows import row_of
from nfslat.live.watch import Stretch, report_of
from nfslat.model.thresholds import Threshold

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"


@pytest.mark.parametrize(
    ("text", "clauses", "for_s"),
    [
        ("fault", (Verdict("fault"),), 0.0),
        ("fault=server-threads for 2m", (Verdict("fault", "server-threads"),), 120.0),
        ("READ.p99>20ms for 30s", (Figure(Threshold("READ.p99>20ms", "READ", figure="p99", limit=20.0)),), 30.0),
        (" read.p99 > 20 ", (Figure(Threshold("read.p99 > 20", "READ", figure="p99", limit=20.0)),), 0.0),
        (
            "network>500us and ops/s<10",
            (
                Figure(Threshold("network>500us", side="network", limit=0.5)),
                Figure(Threshold("ops/s<10", figure="ops/s", is_above=False, limit=10.0)),
            ),
            0.0,
        ),
        ("all.server.p99>1.5s", (Figure(Threshold("all.server.p99>1.5s", "all", "server", "p99", True, 1500.0)),), 0.0),
        ("undecided for 1h", (Verdict("undecided"),), 3600.0),
    ],
)
def test_what_can_be_said(text: str, clauses: tuple[Clause, ...], for_s: float) -> None:
    """Figures of one operation or of all, of the stretch, and what was judged of it."""
    found = parse_condition(text)
    assert (found.clauses, found.for_s) == (clauses, for_s)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a figure or an operation is expected (READ.p99>20ms for 30s, fault)"),
        ("READ.p99>20%", "a share of what? write a limit, 20ms for example"),
        ("READ.mea>20ms", "no figure mea; mean?"),
        ("REED.p99>20ms", "no operation REED; READ?"),
        ("READ.lost>1", "lost is of all operations: write lost"),
        ("lost>1ms", "lost has no unit"),
        ("fault=server-thread", "no cause server-thread; server-threads?"),
        ("READ.p99 20ms", "> or < is expected after READ.p99 (READ.p99>20ms for 30s, fault)"),
        ("fault for 30", "for how long? write 30s, 30m or 30h"),
        ("fault or lost>1", '"and", "for" or the end is expected after fault (READ.p99>20ms for 30s, fault)'),
        ("fault; rm", "what is ;?"),
    ],
)
def test_what_cannot(text: str, said: str) -> None:
    """What was expected, and where, in one line."""
    with pytest.raises(UsageError) as problem:
        parse_condition(text)
    assert str(problem.value) == f"--when {text}: {said}"


@given(st.text(alphabet="READp9><=.0 mfandorsult/-", max_size=30))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    """In no other way."""
    with contextlib.suppress(UsageError):
        assert parse_condition(text).clauses


@cache
def _sample() -> Stretch:
    (pair,) = pairs_of(SAMPLE / "server.pcap.gz", SAMPLE / "client.pcap.gz", 3600.0)
    assert pair.found is not None
    c = analysed(pair.found, pair, {"server": Gaps(), "client": Gaps()})
    report = report_of(c)
    return Stretch(pair, row_of(pair, report), report, c)


def test_what_a_stretch_shows() -> None:
    """Each figure that can be named is that of the report on it: just above it holds, just below it does not."""
    one = _sample()
    assert one.report is not None
    assert one.report.matched is not None
    read = next(row for row in one.report.matched.by_op if row.op == "READ")
    figures = {
        "READ.p99": read.client_ms.p99,
        "READ.network": read.network_ms.mean,
        "all.server": one.row.server_ms,
        "mean": one.row.client_ms,
        "wait": one.row.queue_ms,
    }
    for name, value in figures.items():
        assert value is not None
        for text, holds in ((f"{name}>{value * 0.99:f}ms", True), (f"{name}>{value * 1.01:f}ms", False)):
            assert parse_condition(text).holds(one.row, one.report) is holds
            assert parse_condition(text.replace(">", "<")).holds(one.row, one.report) is not holds
    assert parse_condition("fault=server-threads and ops/s>0.1").holds(one.row, one.report)
    assert not parse_condition("fault=net-loss").holds(one.row, one.report)
    assert not parse_condition("COMMIT.mean>0us").holds(one.row, one.report)
