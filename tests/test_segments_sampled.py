"""The sample of TCP segments that is made of all of them, beside the one that the decoder keeps of a large capture."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_op_table import ROOT, no_tools

from nfslat.decode import segments as sample
from nfslat.decode.engine import choose
from nfslat.decode.segments import MOST_SAMPLED, apart, joined, sampled
from nfslat.model.segments import Segments, Wanted

_KEPT = 160  # bytes of a packet: the headers


def _talk(frames: list[int]) -> Segments:
    return Segments.from_columns(
        {name: frames if name == "frame" else [0] * len(frames) for name in Segments.columns()}
    )


def _frames(talks: list[Segments]) -> list[list[int]]:
    return [talk.frame.tolist() for talk in talks]


_TALKS = st.lists(st.integers(0, 4), min_size=1, max_size=300).map(
    lambda owners: [
        frames for owner in range(5) if (frames := [at for at, whose in enumerate(owners, 1) if whose == owner])
    ]
)


@settings(max_examples=examples(100))
@given(frames=_TALKS, most=st.integers(1, 200), stretch=st.integers(0, 4).map(lambda bits: 1 << bits))
def test_a_sample_is_of_whole_stretches(frames: list[list[int]], most: int, stretch: int) -> None:
    """It has no more than the most, and more than that with every other stretch between; a stretch is in it with all
    segments or none; connections stand in the order of their first one."""
    assume(sum(frame < stretch for part in frames for frame in part) <= most)  # the first stretch always stays
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "MOST_SAMPLED", most)
        patch.setattr(sample, "STRETCH_FRAMES", stretch)
        kept = _frames(sampled([_talk(part) for part in frames]))
    numbers = {frame for part in kept for frame in part}
    every = {frame for part in frames for frame in part}
    assert len(numbers) <= most
    in_sample = {frame // stretch for frame in numbers}
    assert numbers == {frame for frame in every if frame // stretch in in_sample}
    step = next(
        step
        for step in (1 << bits for bits in range(12))
        if sum(frame // stretch % step == 0 for frame in every) <= most
    )
    assert numbers == {frame for frame in every if frame // stretch % step == 0}
    if step > 1:
        assert kept == sorted(kept)


@settings(max_examples=examples(50))
@given(frames=_TALKS)
def test_connections_in_one_table_come_apart_again(frames: list[list[int]]) -> None:
    """Each has its segments; of none there is an empty table."""
    assert _frames(apart(joined([_talk(part) for part in frames]))) == frames
    assert apart(joined([])) == []


@pytest.mark.parametrize("times", [1, 70, 130])
def test_a_sample_is_the_one_that_the_decoder_keeps(times: int, tmp_path: Path) -> None:
    """Of a capture with few segments all of them, of one with more the same, to the row."""
    path = tmp_path / "many.pcap"
    path.write_bytes(_repeated(ROOT / "samples" / "packet-loss" / "client.pcap.gz", times))
    every, some = (_decoded(path, wanted) for wanted in (Wanted.ALL, Wanted.SOME))
    made = sampled(every)
    assert (sum(map(len, every)) > MOST_SAMPLED) == (times > 1)
    assert len(made) == len(some)
    for ours, theirs in zip(made, some, strict=True):
        for name in Segments.columns():
            assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


def _decoded(path: Path, wanted: Wanted) -> list[Segments]:
    engine = choose("native", no_tools, path.parent, rereads=False, segments=wanted)
    return engine.decode(engine.open(str(path)), lambda _: None)[1].segments


def _repeated(capture: Path, times: int) -> bytes:
    """The packets of a capture again and again, an hour apart."""
    with gzip.open(capture) as stream:
        data = stream.read()
    packets, at = [], 24
    while at < len(data):
        seconds, fraction, size, length = struct.unpack_from("<4I", data, at)
        kept = min(size, _KEPT)
        packets.append((seconds, struct.pack("<3I", fraction, kept, length) + data[at + 16 : at + 16 + kept]))
        at += 16 + size
    again = (struct.pack("<I", seconds + 3600 * turn) + rest for turn in range(times) for seconds, rest in packets)
    return data[:24] + b"".join(again)
