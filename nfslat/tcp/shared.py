"""A conversation -> what its analyses have in common, each thing worked out once, when it is first asked for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.tables import I64
from nfslat.tcp.floors import Floors, Samples, floors, samples
from nfslat.tcp.limits import Split, split
from nfslat.tcp.open_waits import OpenWait, open_waits
from nfslat.tcp.packets import Talk
from nfslat.tcp.progress import Progress, Runs, SegmentSize, progress, runs, segment_size
from nfslat.tcp.silences import Silences, silences
from nfslat.tcp.stream import Stream, stream


class Shared:
    """Pairs are of both directions, in their order. It holds some 100 bytes a packet once all was asked for."""

    def __init__(self, talk: Talk, needless: I64 | None = None) -> None:
        """`needless`: rows of `talk.packets` that another capture shows to have been sent again for nothing."""
        self.talk = talk
        self._known = np.zeros(0, dtype=np.int64) if needless is None else needless

    @cached_property
    def streams(self) -> tuple[Stream, Stream]:
        """The packets with payload, and the acknowledgements."""
        return stream(self.talk, 0), stream(self.talk, 1)

    @cached_property
    def progress(self) -> tuple[Progress, Progress]:
        """The packets that brought new bytes."""
        return progress(self.streams[0]), progress(self.streams[1])

    @cached_property
    def runs(self) -> Runs:
        """Who sent in turn."""
        return runs(self.talk, self.progress)

    @cached_property
    def segments(self) -> tuple[SegmentSize, SegmentSize]:
        """The sizes of full segments."""
        return segment_size(self.streams[0]), segment_size(self.streams[1])

    @cached_property
    def samples(self) -> tuple[Samples, Samples]:
        """Round trips."""
        return samples(self.streams[0]), samples(self.streams[1])

    @cached_property
    def floors(self) -> Floors:
        """The shortest round trips."""
        known = self.talk.conversation.floors_ns
        return floors(self.talk, *self.samples) if known is None else Floors(*known)

    @cached_property
    def needless(self) -> tuple[I64, I64]:
        """Packets that were sent again although they had arrived."""
        ways = self.talk.packets.direction
        there, back = (
            np.union1d(self._needless(one), self._known[ways[self._known] == one.direction]) for one in self.streams
        )
        return there, back

    def _needless(self, one: Stream) -> I64:
        return native.needless(one, self.floors.near_ns(one.direction), self.floors.far_ns(one.direction))

    @cached_property
    def silences(self) -> tuple[Silences, Silences]:
        """All silences of both senders, and what each of them waited for: the one answer to that."""
        there, back = (
            silences(one, self.floors, segment.bytes, again)
            for one, segment, again in zip(self.streams, self.segments, self.needless, strict=True)
        )
        return there, back

    @cached_property
    def splits(self) -> tuple[Split, Split]:
        """The time of either sender, by what limited it."""
        there, back = (split(self.talk, self.silences[way], way, self.open_waits) for way in (0, 1))
        return there, back

    @cached_property
    def open_waits(self) -> tuple[OpenWait, ...]:
        """What was waited for to the last."""
        return open_waits(self.talk)
