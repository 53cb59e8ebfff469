"""The TCP segments of a capture: read where its engine gave none, a sample of them, and the table that is stored."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.model.segments import Segments, Talks, Wanted

MOST_SAMPLED = 1 << 18  # segments of a sample
STRETCH_FRAMES = 1 << 12  # of which all or none are in it: what a segment answers is near it


def read_segments(source: Source, tools: Callable[[], Tools], progress: Callable[[int], None]) -> list[Segments]:
    """The segments of each connection with RPC; raises ``InputError`` where they cannot be read again."""
    from nfslat.decode import blocks  # noqa: PLC0415  (late: the usual run has them)

    return blocks.decode(source, tools, progress, segments=Wanted.ALL)[1].segments


def sampled(talks: Sequence[Segments]) -> list[Segments]:
    """The sample that decoding for `Wanted.SOME` keeps of these segments: every other stretch goes until few enough
    are left.

    The decoder counts segments of connections without RPC, too, until it knows them: a capture with many of them has a
    sparser sample there.
    """
    stretches = [talk.frame // STRETCH_FRAMES for talk in talks]
    left_out = 0  # stretches whose number has one of these bits
    while sum(np.count_nonzero(stretch & left_out == 0) for stretch in stretches) > MOST_SAMPLED:
        left_out = left_out << 1 | 1
    if not left_out:
        return list(talks)
    kept = [talk.take(stretch & left_out == 0) for talk, stretch in zip(talks, stretches, strict=True)]
    return sorted((talk for talk in kept if len(talk)), key=lambda talk: int(talk.frame[0]))


def joined(talks: Sequence[Segments]) -> Talks:
    """One table of the segments of each connection."""
    columns = {
        name: np.concatenate([np.zeros(0, dtype), *(getattr(talk, name) for talk in talks)])
        for name, dtype in Segments.dtypes().items()
    }
    return Talks(Segments(**columns), tuple(map(len, talks)))


def apart(talks: Talks) -> list[Segments]:
    """The segments of each connection again. Raises ``ValueError`` where frames are not in their order."""
    ends = list(itertools.accumulate(talks.rows, initial=0))
    if ends[-1] != len(talks.segments) or min(talks.rows, default=1) < 1:
        raise ValueError("connections have another number of segments")
    parts = [talks.segments.take(slice(begin, end)) for begin, end in itertools.pairwise(ends)]
    if any(part.frame[0] < 1 or (np.diff(part.frame) <= 0).any() for part in parts):
        raise ValueError("segments are not in the order of their frames")
    return parts
