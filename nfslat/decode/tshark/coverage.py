"""Byte ranges seen and acknowledged in one TCP direction -> the ranges that passed the tap and were never captured.

What the receiver has acknowledged has arrived; if the capture does not hold it, the capture lost it (Paxson, "Automated
packet trace analysis of TCP implementations", 1997, calls these measurement drops). Positions are unwrapped.
"""

from __future__ import annotations

_AHEAD_KEPT = 256
_HOLES_KEPT = 256  # a late packet fills a hole soon or never


class Coverage:
    """Feed it segments and acknowledgements in capture order; in-order traffic costs two comparisons a packet."""

    __slots__ = ("_ahead", "_bytes", "_count", "_edge", "_holes")

    def __init__(self) -> None:
        self._edge = -1  # everything below has been seen, or counted as a hole
        self._ahead: list[tuple[int, int]] = []  # seen ranges beyond the edge, sorted, apart
        self._holes: list[tuple[int, int]] = []
        self._count = self._bytes = 0  # holes that are not expected to be filled any more

    def begin(self, position: int) -> None:
        """A connection begins (or the capture begins in the middle of one): nothing below `position` is expected."""
        self._settle(0)
        self._edge, self._ahead = position, []

    def seen(self, start: int, end: int) -> None:
        """A segment of bytes [start, end) is in the capture."""
        if self._holes and start < self._edge:
            self._holes = [piece for hole in self._holes for piece in _without(hole, start, end)]
        if end <= self._edge:
            return
        if start > self._edge:
            self._ahead = _merged([*self._ahead, (start, end)])
            if len(self._ahead) > _AHEAD_KEPT:  # nobody acknowledges: a one-way capture, in which nothing can be missed
                self._edge = self._ahead.pop(0)[1]
            return
        self._edge = end
        self._absorb()

    def acknowledged(self, position: int) -> None:
        """The receiver has every byte below `position`."""
        if position <= self._edge:
            return
        at = self._edge
        for start, end in self._ahead:
            if start >= position:
                break
            self._lose(at, start)
            at = end
        if at < position:
            self._lose(at, position)
        self._edge = max(at, position)
        self._absorb()
        self._settle(_HOLES_KEPT)

    def lost(self) -> tuple[int, int]:
        """Holes, and the bytes in them."""
        return self._count + len(self._holes), self._bytes + sum(end - start for start, end in self._holes)

    def _lose(self, start: int, end: int) -> None:
        if self._holes and self._holes[-1][1] == start:  # one hole, acknowledged bit by bit
            start = self._holes.pop()[0]
        self._holes.append((start, end))

    def _absorb(self) -> None:
        while self._ahead and self._ahead[0][0] <= self._edge:
            self._edge = max(self._edge, self._ahead.pop(0)[1])

    def _settle(self, keep: int) -> None:
        old = self._holes[: len(self._holes) - keep] if len(self._holes) > keep else []
        self._count += len(old)
        self._bytes += sum(end - start for start, end in old)
        self._holes = self._holes[len(old) :]


def _without(hole: tuple[int, int], start: int, end: int) -> list[tuple[int, int]]:
    pieces = ((hole[0], min(hole[1], start)), (max(hole[0], end), hole[1]))
    return [piece for piece in pieces if piece[0] < piece[1]]


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out
