"""How far `nfslat live` is behind what happens, and that it says so."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from live_captures import pairs_of

from nfslat.cli.main import main
from nfslat.live.lag import Lag
from nfslat.live.rows import row_of
from nfslat.live.text import Lines
from nfslat.live.watch import Stretch
from nfslat.model.units import NS_PER_S

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
SERVER, CLIENT = (SAMPLE / f"{side}.pcap.gz" for side in ("server", "client"))
_AT_S = 1_700_000_000  # of the capture's clock, which is not ours


def _lags(*moments: tuple[float, float]) -> list[float]:
    """Of stretches that ended so long after the beginning, and came then."""
    times = iter(came for _, came in moments)
    lag = Lag(lambda: next(times))
    return [round(lag.of(round((_AT_S + end) * NS_PER_S)), 6) for end, _ in moments]


def test_the_promptest_is_not_behind() -> None:
    """What comes later after its end than that one did is behind by as much, whatever the clocks say."""
    assert _lags((10, 13), (20, 23), (30, 35.5), (40, 58), (50, 52.5), (60, 63)) == [0, 0, 2.5, 15, 0, 0.5]


def test_captures_of_long_ago_are_not_behind() -> None:
    """They are read faster than they were made."""
    assert _lags((10, 1), (20, 2), (30, 3)) == [0, 0, 0]


def test_a_clock_that_is_set_is_no_lag() -> None:
    """Set on, and set back: what comes next is the promptest."""
    assert _lags((10, 13), (3620, 23), (3630, 34), (40, 44), (50, 55)) == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(("lag_s", "is_said"), [(None, False), (1.9, False), (4.9, False), (7.2, True)])
def test_it_is_said_when_the_next_stretch_is_over(lag_s: float | None, *, is_said: bool) -> None:
    """And not for a host without traffic, which is waited for."""
    pair = pairs_of(SERVER, CLIENT, 2.0)[1]
    stretch = Stretch(pair, dataclasses.replace(row_of(pair, None), lag_s=lag_s), None)
    said = [line for line in Lines(80).of(stretch) if "behind" in line]
    assert said == (["    7 s behind: packets come late, or are more than nfslat can judge in time"] if is_said else [])


def test_files_are_not_behind(tmp_path: Path) -> None:
    """The rows of files say so."""
    out = tmp_path / "rows.jsonl"
    assert main(["live", str(SERVER), str(CLIENT), "--interval", "2", "--json", str(out)]) == 0
    lags = [json.loads(line)["lag_s"] for line in out.read_text().splitlines()]
    assert len(lags) > 4
    assert max(lags) < 1
