"""The one vocabulary of causes: what may stand in which table, and that each has words there."""

from __future__ import annotations

import pytest

from nfslat.model.causes import (
    CAUSES,
    CHARGES,
    FROM_OUTSIDE,
    LIMITS,
    LOSS_STALLS,
    LOSSES,
    STALLS,
    WORDS,
    Cause,
    code,
    columns,
    in_words,
)


def test_each_cause_stands_in_some_table_and_in_none_twice() -> None:
    """No name without a use, no table with a row twice."""
    for table in (CHARGES, STALLS, LIMITS):
        assert len(set(table)) == len(table)
    assert {*CHARGES, *STALLS, *LIMITS} == set(CAUSES) == set(WORDS)


def test_of_two_charges_the_first_in_the_enum_has_the_time() -> None:
    """Charges are listed in the order of their codes, which decides where two meet."""
    assert [code(cause) for cause in CHARGES] == sorted(code(cause) for cause in CHARGES)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_has_words_wherever_it_stands(cause: Cause) -> None:
    """And only there: a stall says as what it is charged, a charge in which column it is summed."""
    words = WORDS[cause]
    assert bool(words.op) is bool(words.column) is (cause in CHARGES)
    assert bool(words.sender) is (cause in STALLS)
    assert bool(words.limit) is (cause in LIMITS)
    assert words.charge is None or (cause in STALLS and words.charge in CHARGES)
    assert words.as_limit in LIMITS
    assert in_words(cause.value) == (words.op or cause.value)


def test_columns_part_the_charges() -> None:
    """Each charge is in exactly one column, so that they sum to what is explained; losses are one column."""
    found = columns()
    assert sorted(cause for of in found.values() for cause in of) == sorted(CHARGES)
    assert found["lost"] == LOSSES <= FROM_OUTSIDE
    assert all(WORDS[stall].charge in LOSSES for stall in LOSS_STALLS)


def test_what_is_no_cause_is_left_as_it_is() -> None:
    """A report has ``unexplained``, and may come from a later version."""
    assert in_words("unexplained") == "unexplained"
