"""Ops of two captures, and what each of them hides -> the one figure on completeness, with reasons that add up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer.words import complete, missing_ops
from nfslat.figures.completeness import completeness

_some = st.integers(0, 500)


def _found(
    matched: int, alone: dict[str, int], hidden: dict[str, float], counted: dict[str, int | None], *, untimed: int = 0
) -> Any:
    """Completeness of two captures, of which so much is known."""
    shown: Any = {
        name: SimpleNamespace(connections=(), ops=np.zeros(1), again=0, lost_share=lambda _, share=share: share)
        for name, share in hidden.items()
    }
    return completeness(matched, untimed, alone, shown, counted)


NONE: dict[str, int | None] = {"server": None, "client": None}


def test_what_both_captures_have_is_all() -> None:
    """Nothing is missing, and no reason is given."""
    found = _found(100, {"server": 0, "client": 0}, {"server": 0.0, "client": 0.0}, NONE)
    assert (found.share, found.ops, found.of, found.missing) == (1.0, 100, 100, {})


def test_an_op_of_one_capture_is_missing_in_the_other() -> None:
    """By name: what the server's capture has by itself is not in the client's, and the reverse."""
    found = _found(90, {"server": 4, "client": 6}, {"server": 0.0, "client": 0.0}, NONE)
    assert found.missing == {"not in the client's capture": 4, "not in the server's capture": 6}
    assert (found.of, found.share) == (100, 0.9)


def test_what_neither_shows_counts_too() -> None:
    """A capture that hides a fifth of its ops makes 100 known ones 125; ops that it counts itself count as they are."""
    found = _found(100, {"server": 0, "client": 0}, {"server": 0.2, "client": 0.0}, NONE)
    assert (found.of, found.missing) == (125, {"whole in neither capture": 25})
    found = _found(100, {"server": 0, "client": 0}, {"server": 0.0, "client": 0.9}, NONE | {"client": 60})
    assert (found.of, found.missing) == (160, {"whole in neither capture": 60})


def test_ops_in_flight_when_a_clock_was_set_are_matched_and_have_no_figures() -> None:
    """They are a reason of their own."""
    found = _found(98, {"server": 0, "client": 0}, {"server": 0.0, "client": 0.0}, NONE, untimed=2)
    assert found.missing == {"in flight when a clock was set": 2}
    assert found.share == 0.98


def test_without_ops_nothing_is_complete() -> None:
    """And nothing is divided by nothing."""
    assert _found(0, {"server": 0, "client": 0}, {"server": 0.0, "client": 0.0}, NONE).share == 0.0


@given(_some, _some, _some, st.floats(0, 0.95), st.floats(0, 0.95), st.none() | _some, _some)
def test_the_reasons_add_up(
    matched: int, server: int, client: int, low: float, high: float, counted: int | None, untimed: int
) -> None:
    """Ops with figures and all that are missing are all; what is missing is never less than one capture shows."""
    found = _found(
        matched, {"server": server, "client": client}, {"server": low, "client": high},
        {"server": counted, "client": None}, untimed=untimed,
    )  # fmt: skip
    assert found.ops == matched
    assert found.of == matched + sum(found.missing.values())
    assert all(found.missing.values())
    assert sum(found.missing.values()) >= max(server, client) + untimed


@given(st.floats(0, 1))
def test_no_share_is_rounded_up(share: float) -> None:
    """Less than all is never called all, nor a higher figure than it is."""
    said = complete(share)
    assert (said == "all of the operations of this time are in both captures") == (share == 1)
    if share < 1:
        assert float(said.split(" %")[0]) <= share * 100 + 1e-6


def test_why_the_rest_is_missing_is_said_in_words() -> None:
    """Each reason with its number; of one capture it is about times that are inferred."""
    why = missing_ops({"not in the client's capture": 1058, "whole in neither capture": 0})
    assert why == "1,058 not in the client's capture"
    said = complete(0.9512, inferred=True, missing=why)
    assert said == "95.12 % of the operations of this time have inferred times: 1,058 not in the client's capture"
