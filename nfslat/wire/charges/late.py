"""Late messages of a direction -> whether a queue in front of a line explains by how much, or a path that is longer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nfslat.model.tables import I64

# Choices, but where a line says else: each says what it parts from what.
_JITTER = 0.25  # of the delay: what the queue does not explain of it; beyond, most of the delay is something else's
_ALIKE = 0.1  # of the delay: what differs by less keeps one length ...
_BETTER = 0.25  # ... if that explains it so much better than a queue does
_FEW = 20  # messages: of less nothing is known


class Late(NamedTuple):
    """Of one direction."""

    sent_ns: I64  # receiver's clock
    arrived_ns: I64
    payload: I64  # bytes, about
    half_trip_ns: int

    def is_constant(self, rate: float) -> bool:
        """Are they all about as late, while a queue in front of a line with `rate` would differ by much more? Then the
        path is longer than it was thought to be."""
        late_ns = self.arrived_ns - self.sent_ns - self.half_trip_ns
        # What is ahead is known to a message: of one that is partly there, all is counted.
        queue_ns = _middle(self._beside_ns(rate)) - float(self.payload.max()) / rate
        return len(late_ns) >= _FEW and _middle(late_ns) <= min(_ALIKE * float(np.median(late_ns)), _BETTER * queue_ns)

    def jitter_ns(self, rate: float) -> float:
        """What the line behind the queue adds, now and then more and now and then less: how far messages are off what
        those in front of them take at `rate`; 0 where that explains too little of their delay to say so."""
        late_ns = self.arrived_ns - self.sent_ns - self.half_trip_ns
        off_ns = _middle(self._beside_ns(rate))
        return off_ns if off_ns <= _JITTER * float(np.median(late_ns)) else 0.0

    def _beside_ns(self, rate: float) -> npt.NDArray[np.float64]:
        """What each was late, beside what the messages in front of it take at `rate`."""
        order = np.argsort(self.sent_ns, kind="stable")
        sent, size = self.sent_ns[order], self.payload[order]
        by_arrival = np.argsort(self.arrived_ns, kind="stable")
        gone = np.concatenate([[0], np.cumsum(self.payload[by_arrival])])
        ahead = np.cumsum(size) - gone[np.searchsorted(self.arrived_ns[by_arrival], sent, "right")]
        return np.asarray(self.arrived_ns[order] - sent - self.half_trip_ns - ahead / rate)


def _middle(values: I64 | npt.NDArray[np.float64]) -> float:
    """How far the middle 80 % are apart."""
    low, high = np.quantile(values, [0.1, 0.9])
    return float(high - low)
