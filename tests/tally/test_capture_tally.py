"""Blocks of a capture, joined: what the capture is, however it was cut."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat import pipeline
from nfslat.decode.windows import Windows
from nfslat.decode.workspace import open_workspace
from nfslat.decode.xid_gaps import missing_calls
from nfslat.figures.captures import capture_of, raw_rows
from nfslat.results import Side
from nfslat.select import Filters, select
from nfslat.tally.captures import CaptureTally, ShownTally

SAMPLES = Path(__file__).parents[2] / "samples"
_NONE = np.zeros(0, dtype=np.int64)


@cache
def _sides(sample: str) -> tuple[Side, tuple[Side, ...]]:
    """The client's capture, and its windows of a quarter of a second."""
    with open_workspace([str(SAMPLES / sample / "client.pcap.gz")], engine="native", quiet=True) as work:
        (source,) = work.sources
        whole = pipeline.inspect(source, work.engine, filters=Filters(), progress=lambda _: None)
        windows = Windows(source, work.engine.tools, 250_000_000)
        parts = [pipeline.side_of(whole.source, window.decoded) for window in windows]
    return whole, tuple(
        dataclasses.replace(part, reasons=select(part.ops, Filters(), part.ops.t0, part.decoded.first_ns))
        for part in parts
    )


def _joined(parts: tuple[Side, ...]) -> CaptureTally:
    whole: CaptureTally | None = None
    for part in parts:
        before_ns = None if whole is None else whole.shown.ran_ns
        tally = CaptureTally.of(part, _NONE, "client", "nfslat", before_ns)
        whole = tally if whole is None else whole + tally
    assert whole is not None
    return whole


@pytest.mark.parametrize("sample", ["packet-loss", "server-threads", "session-slots"])
def test_blocks_add_up_to_the_capture(sample: str) -> None:
    """Packets, messages, programs, response times and notes are those of the capture as a whole."""
    side, parts = _sides(sample)
    whole, blocks = CaptureTally.of(side, missing_calls(side.decoded) * 0, "client", "nfslat"), _joined(parts)
    assert len(parts) > 4
    assert capture_of(blocks, None) == capture_of(whole, None)
    assert raw_rows(blocks) == raw_rows(whole)
    assert blocks.shown.lost_share({"10.0.0.1", "10.0.0.2"}) == whole.shown.lost_share({"10.0.0.1", "10.0.0.2"})


@given(st.data())
def test_blocks_are_joined_in_any_grouping(data: st.DataObject) -> None:
    """(a + b) + c is a + (b + c)."""
    _, parts = _sides("packet-loss")
    first, second = sorted(data.draw(st.lists(st.integers(1, len(parts) - 1), min_size=2, max_size=2, unique=True)))
    a = _joined(parts[:first])
    tallies = []
    before = a
    for some in (parts[first:second], parts[second:]):
        joined: CaptureTally | None = None
        for part in some:
            tally = CaptureTally.of(part, _NONE, "client", "nfslat", before.shown.ran_ns)
            joined, before = (tally if joined is None else joined + tally), tally
        assert joined is not None
        tallies.append(joined)
    b, c = tallies
    assert capture_of((a + b) + c, None) == capture_of(a + (b + c), None)
    assert raw_rows((a + b) + c) == raw_rows(a + (b + c))


counts = st.lists(st.integers(0, 50), min_size=1, max_size=4).map(lambda some: np.array(some, dtype=np.int64))


@given(counts, counts, counts)
def test_a_capture_that_shows_all_has_lost_nothing(ops: np.ndarray, no_reply: np.ndarray, missing: np.ndarray) -> None:  # type: ignore[type-arg]
    """A call without a reply, and one that is missing, is a share of what should be there, and never all of it."""
    zero = np.zeros(1, dtype=np.int64)
    tally = ShownTally((), ops, no_reply, zero, missing, 0, 0, 0, None)
    assert 0.0 <= tally.lost_share(set()) < 1.0
    assert ShownTally((), ops, zero, zero, zero, 0, 0, 0, None).lost_share(set()) == 0.0
