"""What the text report promises: the answer first, 80 columns, sums that add up, colour that changes nothing."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from verdicts import blames

from nfslat.answer.model import (
    AuditNote,
    Charge,
    Level,
    Report,
    StackRow,
)
from nfslat.answer.words import adding_up, ms, shares_adding_up
from nfslat.api import Options, run
from nfslat.errors import UsageError
from nfslat.report import text as report_text
from nfslat.report.blocks import Cell
from nfslat.report.text_layout import plain, shorten
from nfslat.report.text_writer import table

_COLOR = re.compile(r"\x1b\[[\d;]+m")
_thorough = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])

render = functools.partial(report_text.render, full=True)  # all sections; what fits a screen has tests of its own


@given(data=st.data())
@_thorough
def test_no_line_is_wider_than_80_columns(reports: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """Whatever the names, paths and numbers are, a report renders, and nothing wraps on an 80-column terminal."""
    text = render(data.draw(reports)) + report_text.render(data.draw(reports), sections=["histograms"])
    too_wide = [line for line in text.splitlines() if len(line) > 80]
    assert not too_wide
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


@given(data=st.data(), width=st.integers(20, 200))
@_thorough
def test_colour_changes_no_character(reports: st.SearchStrategy[Report], data: st.DataObject, width: int) -> None:
    """With its colour codes taken out, the coloured report is the plain report, at any width."""
    report = data.draw(reports)
    assert _COLOR.sub("", render(report, width=width, color=True)) == render(report, width=width)


def test_colour_is_there_when_asked_for(small: Callable[[], Report]) -> None:
    """The headline is bold on a terminal."""
    assert render(small(), color=True).startswith("\x1b[1mOf 20.0 ms")


@given(data=st.data())
@_thorough
def test_the_answer_stands_in_the_first_five_lines(compared: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """Verdict and both equations come before line six, for verdicts of up to 200 characters, then how sure it is."""
    report = data.draw(compared)
    verdict = blames("server", None, 0.9, 0.9, "high", "word " * 39 + "last.", [], ["reason " * 50])
    *first, then = render(dataclasses.replace(report, verdict=verdict)).splitlines()[:6]
    assert then.startswith(("Confidence is high", "With the "))
    assert "= network" in first[-2]
    assert first[-1].startswith("slowest 1 % ")


@given(data=st.data())
@_thorough
def test_the_printed_equation_adds_up(compared: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """client SRT = network + server, to the last printed digit, for the mean and for the slowest 1 %."""
    report = data.draw(compared)
    equations = re.findall(r" ([-\d.]+) += network +([-\d.]+) +\+ server +([-\d.]+) ", render(report))
    assert len(equations) == 2
    for client, network, server in equations:
        assert Decimal(client) == Decimal(network) + Decimal(server)


_parts = st.lists(st.floats(-1e7, 1e7, allow_nan=False), min_size=1, max_size=6)


@given(_parts)
@example([0.05, 0.05, 0.05])
@example([1e-9])
@example([1e7, -1e7, 1e-5])
def test_parts_add_up_to_the_printed_total(parts: list[float]) -> None:
    """The total and each part is rounded, but for the largest part, which takes what rounding leaves."""
    shown, total = adding_up(parts)
    assert sum(map(Decimal, shown)) == Decimal(total)
    unit = 10.0 ** -len(total.partition(".")[2])
    assert abs(float(total) - math.fsum(parts)) <= unit / 2 + 1e-8
    off = sorted(abs(float(s) - part) for s, part in zip(shown, parts, strict=True))
    assert all(one <= unit / 2 + 1e-8 for one in off[:-1])
    assert off[-1] <= (len(parts) + 1) * unit / 2 + 1e-8


@given(_parts)
def test_shares_add_up_to_100_percent(parts: list[float]) -> None:
    """Printed shares sum to 100.0 %, or are dashes where the total is too small to divide by."""
    shown = shares_adding_up(parts)
    assert set(shown) == {"-"} or sum(Decimal(s.removesuffix(" %")) for s in shown) == Decimal(100)


@pytest.mark.parametrize(
    ("value_ms", "shown"),
    [
        (0.0, "0"),
        (0.0123, "0.0123"),
        (0.5, "0.500"),
        (1.234, "1.23"),
        (12.34, "12.34"),
        (203.14, "203.1"),
        (12345.6, "12345.6"),
        (-1.234, "-1.23"),
        (-0.00001, "0.0000"),
    ],
)
def test_durations_keep_three_digits(value_ms: float, shown: str) -> None:
    """Small durations keep three significant digits, large ones do not drown in decimals, nothing is minus zero."""
    assert ms(value_ms) == shown


def test_decimal_points_stand_below_each_other() -> None:
    """In a column of durations of different size every decimal point is at the same place."""
    lines = table("ld", ("op", "mean"), [["READ", 0.0123], ["WRITE", 203.1], ["LINK", 1.23]], 80)[2:]
    assert len({line.index(".") for line in lines}) == 1


def test_a_narrow_table_loses_decimals_before_names() -> None:
    """Where a table is too wide, decimals of the widest columns go first and operation names stay whole."""
    rows: list[list[Cell]] = [
        ["BIND_CONN_TO_SESSION", "4.1", 1_000_000, 0.0123, 99999.9, 0.0123, 99999.9, 1.0],
        ["READ", "4.1", 5, 12345.6, 0.0123, 12345.6, 0.0123, 1.0],
    ]
    lines = table("lrrddddd", ("op", "vers", "count", "mean", "p50", "p95", "p99", "max"), rows, 80)
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("BIND_CONN_TO_SESSION ")


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    """Escape codes in a path are shown as escapes, and so are wide characters; line ends are blanks."""
    assert plain("a\x1b[31m\nb\u8cc7") == r"a\x1b[31m b\u8cc7"


@given(st.text(max_size=200), st.integers(10, 80))
def test_a_shortened_path_keeps_both_ends(text: str, width: int) -> None:
    """A long path is cut in the middle, never beyond the width."""
    short = shorten(text, width)
    assert len(short) <= width
    assert short[:3] == plain(text)[:3]
    assert short[-1:] == plain(text)[-1:]


def test_operations_keep_their_names_at_80_columns(small: Callable[[], Report]) -> None:
    """With figures as in real captures, the longest NFSv4 names stand whole in every table, callbacks too."""
    report = small()
    assert report.matched is not None
    names = [("NFS", "SETCLIENTID_CONFIRM"), ("NFS", "BIND_CONN_TO_SESSION"), ("NFS_CB", "CB_RECALLABLE_OBJ_AVAIL")]
    rows = [
        dataclasses.replace(report.matched.by_op[0], program=program, op=op, version="4.1", count=123_456)
        for program, op in [*names, ("NLM", "GRANTED_RES")]
    ]
    raw = [dataclasses.replace(report.raw["client"][0], program=row.program, op=row.op, count=123_456) for row in rows]
    text = render(
        dataclasses.replace(report, matched=dataclasses.replace(report.matched, by_op=rows), raw={"client": raw})
    )
    for label in (*(op for _, op in names), "NLM GRANTED_RES"):
        assert text.count(f"\n{label} ") == 4


def test_commands_can_be_pasted(small: Callable[[], Report]) -> None:
    """A line broken for 80 columns is the same for the shell: backslashes in commands, # in remarks, whole quotes."""
    report = small()
    command, quoted = "echo " + "word " * 20 + ">>/etc/file", f"echo '{'a b ' * 20}' >>/etc/file"
    remark = "# " + "say more " * 12
    how = {"knob": "a.b", "suggested": "1", "how": [command, remark, quoted]}
    text = render(dataclasses.replace(report, findings=[dataclasses.replace(report.findings[0], advice=how)]))
    lines = text[text.index("   how     ") + 11 : text.index("\ndocs/findings.md")]
    shell = [" ".join(line.split()) for line in lines.replace("\\\n", "").splitlines()]
    assert [line for line in shell if not line.startswith("#")] == [command, " ".join(quoted.split())]
    assert " ".join(line[2:] for line in shell if line.startswith("#")).split() == remark[2:].split()


def test_where_nothing_is_found_it_is_said_what_was_looked_for(small: Callable[[], Report]) -> None:
    """No finding is an answer, too; and what the packets could not tell is named."""
    report = small()
    assert report.inflight is not None
    server = dataclasses.replace(report.inflight.server, cannot="too few calls")
    inflight = dataclasses.replace(report.inflight, server=server)
    text = " ".join(render(dataclasses.replace(report, findings=[], inflight=inflight)).split())
    assert "What explains the time Nothing stands out. Looked for waiting for a server thread" in text
    assert "Whether calls wait for a server thread cannot be told: too few calls." in text


def test_what_was_found_is_not_among_what_was_looked_for(small: Callable[[], Report]) -> None:
    """A finding that matters little stands below: it was looked for, and found."""
    report = small()
    loss = dataclasses.replace(report.findings[0], layer="network", code="net-loss", severity="info")
    text = " ".join(render(dataclasses.replace(report, findings=[loss])).split())
    assert "distance, packets that are too large for the path, reordering, jitter, one slow direction" in text
    assert "- net-loss," in text


def test_findings_on_the_captures_stand_with_the_warnings(small: Callable[[], Report]) -> None:
    """What is wrong with a capture explains no time."""
    report = small()
    other = dataclasses.replace(report.findings[0], layer="capture", code="capture-drops")
    text = render(dataclasses.replace(report, findings=[other]))
    assert "capture-drops" not in text
    assert "Nothing stands out" in text


@pytest.mark.parametrize("top", [1, 2, 8, 9, 31, 511])
def test_levels_fit_into_eight_rows_and_lose_nothing(small: Callable[[], Report], top: int) -> None:
    """However many levels there are, the shares of the rows add up to all of the time, and the top stands alone."""
    report = small()
    assert report.inflight is not None
    levels = [Level(n, 1 / top, 100.0) for n in range(1, top + 1)]
    server = dataclasses.replace(report.inflight.server, levels=levels)
    client = dataclasses.replace(report.inflight.client, levels=levels, knee=None)
    text = render(
        dataclasses.replace(report, inflight=dataclasses.replace(report.inflight, server=server, client=client))
    )
    rows = text.partition("ops/s at")[2].partition("\n\n")[0].splitlines()[3:]
    assert len(rows) == min(top, 8)
    assert sum(float(row.split("%")[0].split()[-1]) for row in rows) == pytest.approx(100, abs=0.5)
    assert rows[-1].startswith(f"{top} ")
    assert rows[-1].split("%")[0].split()[-1] == f"{100 / top:.1f}"


def test_warnings_stand_before_the_tables_and_notes_with_their_capture(small: Callable[[], Report]) -> None:
    """A warning of the audit limits the answer, so it comes right after it; a remark stands with its capture."""
    report = small()
    notes = [AuditNote("capture-drops", "warning", "9 packets lost", 9), AuditNote("reordered", "info", "2 late", 2)]
    server = dataclasses.replace(report.captures["server"], audit=notes)
    captures = {**report.captures, "server": server}
    text = render(dataclasses.replace(report, captures=captures, notes=["files were swapped"]))
    at = [text.index(part) for part in ("server's capture: 9 packets lost (capture-drops)", "- files were swapped")]
    assert max(at) < text.index("Raw data: SRT") < text.index("\nCaptures\n") < text.index("2 late (reordered)")


def _charge(part: str, cause: str, mean_ms: float, share: float | None, ops: int = 10) -> Charge:
    return Charge(part, cause, ops, 1000 * mean_ms, mean_ms, share, 10 * mean_ms, share)


def test_where_only_the_distance_is_charged_nothing_is_printed(small: Callable[[], Report]) -> None:
    """A healthy pair has a round trip, and no section on TCP; nor has one of which nothing is known, or where
    no stall makes 1 % of the time."""
    healthy = [_charge("call_net", "distance", 1.0, 0.5), _charge("server", "unexplained", 1.0, 0.5)]
    small_stalls = [_charge("before", "zero-window", 0.001, None), _charge("call_send", "sender", 0.01, 0.005)]
    for charges in (None, [], healthy, [*healthy, *small_stalls]):
        assert "What TCP did" not in render(dataclasses.replace(small(), charges=charges))


# --- What fits a screen -----------------------------------------------------------------------------------------------


@given(data=st.data())
@_thorough
def test_the_default_report_fits_a_screen(compared: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """Whatever the report holds: 80 columns, and no more lines than three causes, six operations and three notes take;
    commands alone, which cannot be broken, may be wider."""
    report = dataclasses.replace(data.draw(compared), what_if=[], pivots=[], intervals=None, called={})
    lines = report_text.render(report).splitlines()
    assert len(lines) <= _SCREEN


SAMPLES = Path(__file__).parents[2] / "samples"
_SCREEN = 110  # for texts of any length; real ones take 40: `scripts/lab judge --headlines`


def test_sections_are_printed_by_name(small: Callable[[], Report]) -> None:
    """Those that are asked for, in that order, and no others."""
    text = report_text.render(small(), sections=("clock", "matched"))
    assert text.startswith("Clock")
    assert text.index("Matched data") > 0
    assert "Causes" not in text
    every = report_text.render(small(), sections=tuple(report_text.NAMES))
    for title in ("What explains the time", "Raw data", "Legend", "In flight"):
        assert title in every


def test_a_section_that_there_is_not_is_refused_with_the_names() -> None:
    """And with what may have been meant."""
    assert report_text.parse_sections("clock, Parts") == ("clock", "parts")
    with pytest.raises(UsageError, match="did you mean clock") as refused:
        report_text.parse_sections("clocks")
    assert all(name in str(refused.value) for name in report_text.NAMES)
    with pytest.raises(UsageError):
        report_text.parse_sections(",")


def test_layers_have_colours_of_their_own_on_a_terminal_only(small: Callable[[], Report]) -> None:
    """Rows of the stack and titles of causes; without colour the text is the same."""
    layers = (("client SRT", 0), ("network", 1), ("server", 1))
    rows = [StackRow("READ", name, depth, 1.0, 0.5, "-") for name, depth in layers]
    report = dataclasses.replace(small(), stack=rows)
    coloured = report_text.render(report, color=True)
    assert re.search(r"\x1b\[1;35m  network .*\x1b\[0m", coloured)
    assert re.search(r"\x1b\[1;34m1\. server-threads", coloured)
    assert _COLOR.sub("", coloured) == report_text.render(report)


def test_what_is_said_is_never_cut(small: Callable[[], Report]) -> None:
    """The default report has the first sentence of a note or a cause, wrapped and whole, however long it is."""
    words = " ".join(f"word{number}" for number in range(60))
    report = small()
    cause = dataclasses.replace(next(one for one in report.findings if one.layer == "server"), text=f"{words}; more")
    shown = dataclasses.replace(report, notes=[f"{words}. And more"], findings=[cause], verdict=None, evidence=[words])
    text = " ".join(report_text.render(shown).split())
    assert text.count(words) == 3
    assert "And more" not in text


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in SAMPLES.glob("*/server.pcap.gz")))
def test_real_reports_fit_a_screen_and_cut_nothing(folder: str) -> None:
    """Of two captures, and of either alone: some forty lines, 63 at most; no line ends in the middle of a sentence."""
    both = [str(SAMPLES / folder / f"{side}.pcap.gz") for side in ("server", "client")]
    for names in (both, both[:1], both[1:]):
        lines = report_text.render(run(names, Options()).figures).splitlines()
        assert len(lines) <= 63
        assert [line for line in lines if line.rstrip(".") + "..." == line] == []
