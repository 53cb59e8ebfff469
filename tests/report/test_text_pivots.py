"""Tables of --by and --interval: what is in them, what they leave out, and that they fit."""

from __future__ import annotations

from dataclasses import replace

from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfslat.answer.figures import Summary
from nfslat.answer.pivots import IntervalRow, Intervals, Pivot, PivotRow
from nfslat.report.sections.pivots import MOST_SHOWN, intervals_section, legend, pivot_section
from nfslat.report.text_writer import write


def _row(key: str, ops: int = 10, *, client: float = 5.0, server: float = 4.0, size: int = 8192) -> PivotRow:
    at_client, at_server, between = (
        Summary(mean, mean / 2, mean * 2, mean * 3, mean * 4) for mean in (client, server, client - server)
    )
    return PivotRow(key, ops, ops * size, 0, ops * size / 1e6, at_client, at_server, between, queue_ms=1.25)


def _pivot(rows: int, by: str = "file", others: PivotRow | None = None, hidden: int = 0) -> Pivot:
    return Pivot(by, rows + hidden, [_row(f"/export/f{at:03}") for at in range(rows)], others)


def _text(pivot: Pivot) -> str:
    return write(pivot_section(pivot))


def _interval(at: int, op: str = "all", *, ops: int = 50) -> IntervalRow:
    times = (1.5, 9.0, 1.0, 0.5) if ops else (None,) * 4
    rates = (float(ops), ops * 8192, 0, ops * 8.0, 8.0 if ops else None)
    begin, queue_ms = f"2024-05-01T10:00:{at:02}.500000000Z", 0.25 if ops else None
    return IntervalRow(begin, float(at), op, ops, *rates, 2, *times, queue_ms=queue_ms)


def _text_of(*rows: IntervalRow) -> str:
    return write(intervals_section(Intervals(1.0, list(rows))))


def _cells(text: str, label: str) -> list[list[str]]:
    """The cells of each line whose first one is `label`."""
    return [line.split() for line in text.splitlines() if line.startswith(f"{label} ")]


def test_each_group_has_its_means_and_its_percentiles() -> None:
    """One line a group in each of two tables, in the order of the report; client is server plus network."""
    means, percentiles = _cells(_text(_pivot(3)), "/export/f001")
    assert means == ["/export/f001", "10", "0.0819", "5.00", "4.00", "1.00", "1.25"]
    assert percentiles == ["/export/f001", "2.50", "15.00", "2.00", "12.00", "0.500", "3.00"]


def test_what_is_hidden_is_counted_and_still_adds_up() -> None:
    """Beyond the first rows one line has the ops, the throughput and the weighted means of all the others."""
    others = _row("70 others", 90, client=20.0, server=10.0)
    text = _text(_pivot(MOST_SHOWN + 1, others=others, hidden=70))
    (more,) = _cells(text, "and 71 more ")  # not the sentence below
    assert more[3:] == ["100", "0.819", "18.50", "9.40", "9.10", "-"]
    assert "and 71 more (all of them with --json)" in text
    assert len(_cells(text, "/export/f019")) == 2
    assert "/export/f020" not in text


def test_nothing_is_hidden_of_few_groups() -> None:
    """No line of others, and no word of --json, where all groups are shown."""
    assert "more" not in _text(_pivot(MOST_SHOWN))


def test_a_second_is_shown_by_its_time_and_may_be_empty() -> None:
    """The date stands in the title; a second without ops has its line, without figures."""
    rows = [_row(f"2024-05-01T10:00:0{at}.123456789Z") for at in range(2)]
    rows[1] = replace(rows[1], ops=0, bytes=0, mb_per_s=0.0, client_ms=None, server_ms=None, network_ms=None)
    text = _text(Pivot("second", 2, rows, None))
    assert "by second from 2024-05-01 10:00:00.123 UTC" in text
    assert _cells(text, "10:00:01.123")[0] == ["10:00:01.123", "0", "0", "-", "-", "-", "1.25"]


def test_the_rate_of_hidden_seconds_is_over_those_seconds() -> None:
    """Each second has a time of its own, so that their rates cannot be added."""
    rows = [_row("2024-05-01T10:00:00.0Z", size=1_000_000) for _ in range(MOST_SHOWN + 4)]
    (more,) = _cells(_text(Pivot("second", len(rows), rows, None)), "and 4 more ")
    assert more[3:5] == ["40", "10.00"]


def test_sizes_that_nobody_captured_are_named() -> None:
    """A dash for the throughput, and the number of ops that it is without."""
    row = replace(_row("10.0.0.1"), bytes=None, mb_per_s=None, without_size=7)
    text = _text(Pivot("client", 1, [row], None))
    assert _cells(text, "10.0.0.1")[0][2] == "-"
    assert "without those of 7 ops, READs and WRITEs whose size neither capture" in text


def test_a_queue_that_is_not_known_has_no_column() -> None:
    """Packets may not tell of threads; then there is nothing to show."""
    pivot = Pivot("uid", 1, [replace(_row("1000"), queue_ms=None)], None)
    assert "queue" in _text(_pivot(1))
    assert "queue" not in _text(pivot)


def test_intervals_have_a_table_for_all_ops_and_one_each_for_reads_and_writes() -> None:
    """As nfsiostat shows them; other operations are only counted, and each table ends where it gets long."""
    rows = [_interval(at, op) for at in range(25) for op in ("all", "READ", "GETATTR")]
    text = _text_of(*rows)
    titles = [line for line in text.splitlines() if "every 1 s" in line]
    assert [title.split(",")[0] for title in titles] == ["all ops", "READ"]
    assert "from 2024-05-01 10:00:00.500 UTC" in titles[0]
    assert _cells(text, "19")[0] == ["19", "50.00", "400.0", "8.00", "2", "1.50", "9.00", "1.00", "0.500", "0.250"]
    assert _cells(text, "20") == []
    assert text.count("and 5 more (all of them with --json)") == 2
    assert "1 other operation: with --json" in text


def test_an_empty_interval_has_its_line() -> None:
    """A pause is seen: no ops, no times."""
    assert _cells(_text_of(_interval(0), _interval(1, ops=0), _interval(2)), "1")[0][1:4] == ["0", "0", "-"]


def test_no_matched_op_is_said() -> None:
    """Neither section fails where there is nothing to show."""
    assert "None." in _text(Pivot("file", 0, [], None))
    assert "None" in _text_of()


def test_the_legend_is_about_what_is_shown() -> None:
    """A paragraph for each kind of table, and none where there is no such table."""
    pivot, intervals = _pivot(1), Intervals(1.0, [_interval(0)])
    assert legend([], None) == []
    assert len(legend([pivot], None)) == len(legend([], intervals)) == 1
    assert len(legend([pivot, pivot], intervals)) == 2


@given(data=st.data(), width=st.sampled_from([80, 100, 132]))
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_everything_fits(
    pivots: st.SearchStrategy[Pivot], intervals: st.SearchStrategy[Intervals], data: st.DataObject, width: int
) -> None:
    """Whatever the groups are named and however large the figures are: no line is wider than the page, or steers it."""
    blocks = [*pivot_section(data.draw(pivots)), *intervals_section(data.draw(intervals))]
    for line in write(blocks, width=width).splitlines():
        assert len(line) <= width, line
        assert line.isprintable()
