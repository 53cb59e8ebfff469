"""When stretches of time ended, and when they come -> how far nfslat is behind what happens."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator

from msgspec import structs

from nfslat.live.watch import Stretch
from nfslat.model.units import NS_PER_S


class Lag:
    """By how much later after their end stretches of one run come than the promptest of them, so that no clock need
    agree with ours, and captures of long ago that are read faster than they were made are not behind either."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s, self._end_ns, self._least_s = now_s, 0, float("inf")

    def of(self, end_ns: int) -> float:
        """How far a stretch is behind that comes now, in s."""
        late_s = self._now_s() - end_ns / NS_PER_S
        is_set_back = end_ns < self._end_ns  # the clock of the capture
        self._end_ns, self._least_s = end_ns, late_s if is_set_back else min(self._least_s, late_s)
        return late_s - self._least_s


def timed(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """The same, each with how far it is behind."""
    lag = Lag()
    for stretch in stretches:
        row = structs.replace(stretch.row, lag_s=round(lag.of(stretch.pair.end_ns), 3))
        yield dataclasses.replace(stretch, row=row)
        del stretch  # before the next one is made
