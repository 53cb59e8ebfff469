"""Latencies that the user knows + a comparison -> the latency stack, whose rows sum, and what is said with it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import GETATTR, MS, READ, WRITE, Op, decoded, op, ops

from nfslat.answer.model import StackRow
from nfslat.clock.theta import find_clock
from nfslat.decode.capture import Source
from nfslat.errors import UsageError
from nfslat.evidence.known import Known, parse_known
from nfslat.figures.stack import stack
from nfslat.match.match import match
from nfslat.pipeline import analyse
from nfslat.results import Analysis, Correlation, Side

ALWAYS = (-(1 << 62), 1 << 62)


def _side(*rows: Op) -> Side:
    made = ops(*rows)
    return Side(Source("made", ()), decoded(made), np.zeros(len(made), dtype=np.int8))


def _compared(*each: tuple[int, float, float]) -> Analysis:
    """Ops of (operation, client SRT, server SRT), ms, one a second."""
    client = _side(*(op(1000 * n, 1000 * n + srt, n, op=what) for n, (what, srt, _) in enumerate(each)))
    server = _side(*(op(1000 * n + 0.5, 1000 * n + 0.5 + srt, n, op=what) for n, (what, _, srt) in enumerate(each)))
    matching = match(server.ops, client.ops, ALWAYS, ALWAYS)
    clock = find_clock(server.ops, client.ops, matching.matched)
    return analyse(Correlation(server, client, matching, matching.matched, clock, "nfslat"))


# READ 10 ms and 20 ms, of which 8 and 16 at the server; WRITE 40 and 30; GETATTR 2 and 1.
MIXED = _compared((READ, 10, 8), (READ, 20, 16), (WRITE, 40, 30), (GETATTR, 2, 1))
CLIENT_ALONE = [("client SRT", 0), ("network", 1), ("server", 1)]
APPLICATION = [("application", 0), ("above the wire", 1), ("network", 1), ("server", 1)]
STORAGE = [("server, outside storage", 2), ("storage", 2)]


def _layers(rows: list[StackRow], operation: str) -> list[tuple[str, int]]:
    return [(row.layer, row.depth) for row in rows if row.op == operation]


def _ms(rows: list[StackRow], operation: str) -> dict[str, float]:
    return {row.layer: pytest.approx(row.ms) for row in rows if row.op == operation}


def _sums(rows: list[StackRow]) -> Iterator[tuple[float, float]]:
    """(a row, the sum of the rows one level below it), for each row that has some."""
    for at, row in enumerate(rows):
        end = next((n for n in range(at + 1, len(rows)) if rows[n].depth <= row.depth), len(rows))
        below = [other.ms for other in rows[at + 1 : end] if other.depth == row.depth + 1]
        if below:
            yield row.ms, sum(below)


# --- What the user may give -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ([], {}),
        (["58"], {"": 58.0}),
        (["0"], {"": 0.0}),
        (["0.25"], {"": 0.25}),
        (["5e1"], {"": 50.0}),
        (["READ=58"], {"READ": 58.0}),
        (["read=58", " Write =70.5"], {"READ": 58.0, "WRITE": 70.5}),
        (["58", "60"], {"": 60.0}),
        (["READ=1", "READ=2"], {"READ": 2.0}),
    ],
)
def test_known_latencies_are_read(values: list[str], known: dict[str, float]) -> None:
    """A bare figure or one for each operation, in any case; the last one counts."""
    assert parse_known(values, "--app-ms") == known


@pytest.mark.parametrize(
    "value",
    [
        "",
        "READ",
        "READ=",
        "=5",
        "-1",
        "READ=-1",
        "nan",
        "inf",
        "READ=inf",
        "5min",
        "5,5",
        "READ:5",
        "READ=5=6",
        "RAED=5",
    ],
)
def test_what_is_no_latency_is_refused_with_its_option(value: str) -> None:
    """Negative, infinite and missing figures, other units and operations that do not exist are usage errors."""
    with pytest.raises(UsageError, match="--storage-ms"):
        parse_known([value], "--storage-ms")


def test_an_operation_that_does_not_exist_is_answered_with_the_nearest() -> None:
    """A misspelt operation gets the name that was meant."""
    with pytest.raises(UsageError, match="did you mean READ"):
        parse_known(["RAED=5"], "--app-ms")


@pytest.mark.parametrize("values", [["5", "READ=6"], ["READ=6", "5"]])
def test_one_figure_for_all_and_one_for_some_contradict_each_other(values: list[str]) -> None:
    """A bare figure beside a named one is refused, whichever stands first."""
    with pytest.raises(UsageError, match="not both"):
        parse_known(values, "--app-ms")


# --- Rows -------------------------------------------------------------------------------------------------------------


def test_nothing_known_gives_no_stack() -> None:
    """Without figures there are no rows, and nothing to say."""
    made = stack(Known(), MIXED)
    assert (made.rows, made.notes) == ([], [])


def test_a_bare_figure_speaks_of_reads_and_writes() -> None:
    """An application knows READ and WRITE: the means are over these, and GETATTR does not count."""
    made = stack(Known(app_ms={"": 100.0}), MIXED)
    assert [(row.layer, row.depth) for row in made.rows] == APPLICATION
    assert {row.op for row in made.rows} == {"READ and WRITE"}
    client, server = 70 / 3, 54 / 3
    assert _ms(made.rows, "READ and WRITE") == {
        "application": 100.0,
        "above the wire": 100 - client,
        "network": client - server,
        "server": server,
    }
    assert [row.share for row in made.rows] == pytest.approx([1, (100 - client) / 100, (client - server) / 100, 0.18])
    assert made.notes == []


def test_a_bare_figure_speaks_of_all_where_nothing_is_read_or_written() -> None:
    """Without READ and WRITE the figure is held against what there is."""
    made = stack(Known(app_ms={"": 5.0}), _compared((GETATTR, 2, 1), (GETATTR, 4, 2)))
    assert _ms(made.rows, "GETATTR") == {"application": 5.0, "above the wire": 2.0, "network": 1.5, "server": 1.5}


def test_a_figure_per_operation_gives_a_block_for_each() -> None:
    """Each operation has its own means, and its shares are of its own figure."""
    made = stack(Known(app_ms={"WRITE": 80.0, "READ": 30.0}), MIXED)
    assert list(dict.fromkeys(row.op for row in made.rows)) == ["READ", "WRITE"]
    assert _ms(made.rows, "READ") == {"application": 30.0, "above the wire": 15.0, "network": 3.0, "server": 12.0}
    assert _ms(made.rows, "WRITE") == {"application": 80.0, "above the wire": 40.0, "network": 10.0, "server": 30.0}
    assert [row.share for row in made.rows if row.op == "WRITE"] == [1.0, 0.5, 0.125, 0.375]


@pytest.mark.parametrize(
    ("app_ms", "storage_ms", "blocks"),
    [
        ({}, {"": 5.0}, {"READ and WRITE": CLIENT_ALONE + STORAGE}),
        ({}, {"READ": 5.0}, {"READ": CLIENT_ALONE + STORAGE}),
        ({}, {"READ": 5.0, "WRITE": 6.0}, {"READ": CLIENT_ALONE + STORAGE, "WRITE": CLIENT_ALONE + STORAGE}),
        ({"": 100.0}, {"": 5.0}, {"READ and WRITE": APPLICATION + STORAGE}),
        ({"": 100.0}, {"READ": 5.0}, {"READ and WRITE": APPLICATION, "READ": APPLICATION + STORAGE}),
        ({"READ": 100.0}, {"": 5.0}, {"READ": APPLICATION + STORAGE}),
        ({"READ": 100.0}, {"READ": 5.0}, {"READ": APPLICATION + STORAGE}),
        ({"READ": 100.0}, {"WRITE": 5.0}, {"READ": APPLICATION, "WRITE": CLIENT_ALONE + STORAGE}),
        (
            {"READ": 100.0, "WRITE": 100.0},
            {"": 5.0},
            {"READ": APPLICATION + STORAGE, "WRITE": APPLICATION + STORAGE},
        ),
    ],
)
def test_application_and_storage_in_every_combination(
    app_ms: dict[str, float], storage_ms: dict[str, float], blocks: dict[str, list[tuple[str, int]]]
) -> None:
    """A bare figure counts for each operation named otherwise; a layer stands only where its figure is known."""
    made = stack(Known(app_ms, storage_ms), MIXED)
    assert {name: _layers(made.rows, name) for name in dict.fromkeys(row.op for row in made.rows)} == blocks
    assert made.notes == []
    for name in blocks:
        for whole, below in _sums([row for row in made.rows if row.op == name]):
            assert below == pytest.approx(whole)


def test_sources_say_where_a_figure_comes_from() -> None:
    """What the user gave is told from what was measured, and differences name their terms."""
    made = stack(Known({"READ": 100.0}, {"READ": 5.0}), MIXED)
    assert {row.layer: row.source for row in made.rows} == {
        "application": "--app-ms",
        "above the wire": "application - client SRT",
        "network": "client SRT - server SRT",
        "server": "server capture",
        "server, outside storage": "server SRT - storage",
        "storage": "--storage-ms",
    }


# --- Figures that do not fit ------------------------------------------------------------------------------------------


def test_an_operation_that_was_not_matched_is_said() -> None:
    """A figure for an operation that is not in the captures gives a note, and the other operations their rows."""
    made = stack(Known({"COMMIT": 5.0, "READ": 30.0}), MIXED)
    assert {row.op for row in made.rows} == {"READ"}
    assert made.notes == ["--app-ms/--storage-ms COMMIT: no matched COMMIT op to compare it with"]


def test_an_application_below_the_wire_is_left_out() -> None:
    """An application that waits for less than the client's SRT stands in a note; the rows are those of the wire."""
    made = stack(Known({"READ": 14.0}), MIXED)
    assert _layers(made.rows, "READ") == CLIENT_ALONE
    assert _ms(made.rows, "READ")["client SRT"] == 15.0
    (note,) = made.notes
    assert note.startswith("READ: the application's 14 ms is below the client SRT of 15 ms")


def test_a_storage_above_the_server_is_left_out() -> None:
    """A storage that takes longer than the server stands in a note; the server's row is not divided."""
    made = stack(Known({}, {"READ": 12.5}), MIXED)
    assert _layers(made.rows, "READ") == CLIENT_ALONE
    (note,) = made.notes
    assert note.startswith("READ: the storage's 12.5 ms is above the server SRT of 12 ms")


def test_figures_equal_to_what_was_measured_fit() -> None:
    """Exactly the client's SRT and exactly the server's: nothing above the wire, nothing outside the storage."""
    made = stack(Known({"READ": 15.0}, {"READ": 12.0}), MIXED)
    assert _layers(made.rows, "READ") == APPLICATION + STORAGE
    assert _ms(made.rows, "READ")["above the wire"] == _ms(made.rows, "READ")["server, outside storage"] == 0.0
    assert made.notes == []


# --- What the verdict takes from it -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("app_ms", "rows", "title", "above"),
    [
        ({}, [], "", None),
        ({"": 30.0}, [0, 1, 2], "READ and WRITE", 30 - 70 / 3),
        ({"READ": 30.0}, [0, 1], "READ", 15.0),
        ({"READ": 30.0, "WRITE": 50.0}, [0, 1, 2], "READ and WRITE", 110 / 3 - 70 / 3),
        ({"READ": 15.0}, [], "", None),
        ({"READ": 30.0, "WRITE": 1.0}, [0, 1], "READ", 15.0),
        ({"COMMIT": 1.0}, [], "", None),
    ],
)
def test_time_above_the_wire(app_ms: dict[str, float], rows: list[int], title: str, above: float | None) -> None:
    """What the application waits beyond the client's SRT, over the ops that its figures speak of; else not known."""
    known = Known(app_ms)
    assert known.above_wire_ms(MIXED) == (None if above is None else pytest.approx(above))
    assert known.population(MIXED).tolist() == rows
    if rows:
        assert known.title(MIXED) == title


# --- For any figures --------------------------------------------------------------------------------------------------

_figure = st.integers(0, 100_000).map(lambda us: us / 100)
_given = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"": _figure}),
    st.dictionaries(st.sampled_from(["READ", "WRITE", "GETATTR", "COMMIT"]), _figure, min_size=1),
)
_op = st.tuples(st.sampled_from([READ, WRITE, GETATTR]), st.integers(1, 900), st.integers(0, 900)).map(
    lambda one: (one[0], max(one[1], one[2]), min(one[1], one[2]))
)


@given(st.lists(_op, min_size=1, max_size=8), _given, _given)
def test_rows_below_a_row_sum_to_it(
    each: list[tuple[int, float, float]], app_ms: dict[str, float], storage_ms: dict[str, float]
) -> None:
    """For any ops and figures no row is negative, the rows below a row sum to it, and shares are of the top row."""
    c = _compared(*each)
    made = stack(Known(app_ms, storage_ms), c)
    for name in {row.op for row in made.rows}:
        block = [row for row in made.rows if row.op == name]
        assert [row.depth for row in block].count(0) == 1
        for whole, below in _sums(block):
            assert below == pytest.approx(whole, abs=1e-9)
        top = block[0]
        for row in block:
            assert row.ms >= 0
            assert row.share == pytest.approx(row.ms / top.ms)
    assert np.all(c.client_srt_ns >= MS)
