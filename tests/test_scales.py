"""Windows that no handshake scales: what stops at their end, or has room whatever the scale, tells of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nfslat.model.details import Pauses, Went
from nfslat.model.protocol import NULL
from nfslat.wire.stalls import with_windows

_MSS = 1448


def _pauses(under_way: list[int], announced: list[int], *, direction: int = 0) -> Pauses:
    columns = {name: np.zeros(len(under_way), dtype=np.int64) for name in Pauses.columns()}
    unknown = dict.fromkeys(("window", "window_least", "window_end"), np.full(len(under_way), NULL))
    mine = {"under_way": under_way, "announced": announced, "size": np.full(len(under_way), _MSS)}
    way = {"direction": np.full(len(under_way), direction), "went": np.full(len(under_way), Went.NEW)}
    return Pauses.from_columns(columns | unknown | mine | way)


def _joined(*several: Pauses) -> Pauses:
    return Pauses.from_columns(
        {name: np.concatenate([getattr(one, name) for one in several]) for name in Pauses.columns()}
    )


def test_stops_to_the_byte_tell_the_scale() -> None:
    """Eight stops at the end of windows of different sizes; then all windows of that direction are known, and of no
    other."""
    announced = [724, 730, 741, 600, 724, 724, 800, 650, 724]
    exact = [one << 2 for one in announced[:8]] + [1000]
    found = with_windows(_joined(_pauses(exact, announced), _pauses(exact[:3], announced[:3], direction=1)))
    assert found.window.tolist() == [one << 2 for one in announced] + [NULL] * 3


def test_seven_stops_are_not_enough() -> None:
    """And one that is sent again is none."""
    stops = _pauses([724 << 2] * 8, [724] * 8)
    again = replace(stops, went=np.array([Went.NEW] * 7 + [Went.REPEATED], dtype=np.int8))
    assert with_windows(again).window.tolist() == [NULL] * 8
    assert with_windows(stops).window.tolist() == [724 << 2] * 8


def test_room_for_a_segment_with_the_least_scale_is_room() -> None:
    """What was in flight once needs a scale of 3 at least; with that there was room at the other stop."""
    found = with_windows(_pauses([8000, 5000], [1001, 1001]))
    assert found.window.tolist() == [NULL, 8008]


def test_a_known_window_stays_and_what_is_closed_is_known() -> None:
    """Nothing is told of what a handshake has told, and a closed window has no scale."""
    pauses = _pauses([3000, 3000], [500, 0])
    known = replace(pauses, window=np.array([64_000, 0]))
    assert with_windows(known) is known


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 0xFFFF)), min_size=1, max_size=99))
def test_windows_are_told_by_the_least_scale_that_fits(stops: list[tuple[int, int]]) -> None:
    """Of fewer than 100 stops none lies beyond the window but by a probe's byte, with any scale that there is; windows
    are told where eight stops end with them to the byte, or there was room for a segment."""
    under_way, announced = ([stop[at] for stop in stops] for at in (0, 1))
    fits = [all(sent <= (window << shift) + 1 for sent, window in stops) for shift in range(15)]
    least = fits.index(True) if True in fits else 14
    is_exact = fits[least] and sum(sent == window << least for sent, window in stops) >= 8
    expected = [window << least if is_exact or sent + _MSS <= window << least else NULL for sent, window in stops]
    assert with_windows(_pauses(under_way, announced)).window.tolist() == expected
