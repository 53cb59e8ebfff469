"""Findings and a replay of the load -> what mending them would give, and when nothing is said of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import nfslat
from nfslat.answer.model import MeanAndP99, Outcome, WhatIf
from nfslat.errors import InputError
from nfslat.figures import gains
from nfslat.figures.whatif import Asked, InEffect
from nfslat.model.record import Record

SAMPLES = Path(__file__).parents[1] / "samples"
NOW: Any = InEffect(rows=None, of="", application_ms=None, threads=2, slots=None, sessions=None)  # type: ignore[arg-type]


def _outcome(ops: int) -> Outcome:
    return Outcome(2, None, ops, 1.0, MeanAndP99(1.0, 1.0), None, 0.0, 0.0, None, None, "threads")


REPLAYED = WhatIf(
    asked="64 threads", of="", client_ms=MeanAndP99(20.0, 90.0), expected_client_ms=MeanAndP99(5.0, 9.0),
    application_ms=None, expected_application_ms=None, thread_wait_ms=15.0, before=_outcome(500), after=_outcome(500),
    error=0.01, ops=500, ops_given=500, others=0, warning="",
)  # fmt: skip


class Found(Record):
    """As much of a finding as a gain is put into."""

    gain: Any = None


def _gain(monkeypatch: pytest.MonkeyPatch, found: WhatIf | Exception, asked: Asked, now: Any = NOW) -> Any:
    def play(*_: object) -> WhatIf:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(gains, "replayed", play)
    return gains._replayed(None, now, Found(), asked).gain  # type: ignore[arg-type]


def test_the_gain_is_what_the_replay_takes_from_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the client SRT; of the application's time where that is known."""
    asked = Asked("64 threads", threads=64)
    gain = _gain(monkeypatch, REPLAYED, asked)
    assert (gain.ms, gain.by) == (15.0, "replay")
    assert gain.words == "With 64 threads a replay of the load takes 5.00 instead of 20.00 ms on average"
    known = dataclasses.replace(REPLAYED, application_ms=30.0, expected_application_ms=12.0)
    gain = _gain(monkeypatch, known, asked)
    assert gain.ms == 18.0
    assert "takes 12.00 instead of 30.00 ms" in gain.words


@pytest.mark.parametrize(
    "found",
    [
        dataclasses.replace(REPLAYED, error=0.11),
        dataclasses.replace(REPLAYED, error=-0.11),
        dataclasses.replace(REPLAYED, before=_outcome(99)),
        dataclasses.replace(REPLAYED, after=_outcome(99)),
        dataclasses.replace(REPLAYED, expected_client_ms=MeanAndP99(20.0, 9.0)),
        InputError("there is no op to replay"),
    ],
    ids=["too slow", "too quick", "few before", "few after", "no gain", "no answer"],
)
def test_what_a_replay_does_not_know_well_is_not_promised(
    found: WhatIf | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay that is more than 10 % off what was captured, or over fewer than 100 ops, or with no gain."""
    assert _gain(monkeypatch, found, Asked("64 threads", threads=64)) is None


def test_a_limit_that_is_not_known_is_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the number that there is, nor the number that there should be."""
    for asked, now in (
        (Asked("0 threads"), NOW),
        (Asked("64 threads", threads=64), NOW._replace(threads=None)),
        (Asked("64 slots", slots=64), NOW),
    ):
        assert _gain(monkeypatch, REPLAYED, asked, now) is None


def test_a_finding_has_its_gain_and_others_have_a_bound() -> None:
    """Of a real pair: the limit that can be replayed has a replay's gain, the mean less what is left."""
    pair = [SAMPLES / "server-threads" / f"{side}.pcap.gz" for side in ("server", "client")]
    report = nfslat.correlate(*pair).figures
    assert report.verdict is not None
    assert report.matched is not None
    assert report.matched.total is not None
    assert "With 64 threads a replay of the load takes 32." in report.verdict.text
    assert f"instead of {report.matched.total.client_ms.mean:.1f} ms on average" in report.verdict.text
