"""What was inferred of the host that was not captured, and how far that can be off."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nfslat.model.tables import I32, I64, Bool
from nfslat.peer.vantage import Vantage

_OF_A_TICK = 5  # in the mean over many segments, wherever in their ticks they left
_MOST = 0.5
_SPREADS = 2  # standard deviations


class Stamps(NamedTuple):
    """By a client's own clock, which goes in ticks from somewhere, ns: when it sent the call of each op, and when it
    acknowledged the reply by itself, and not with its next call; NULL where that is not known."""

    called_ns: I64
    had_ns: I64
    tick_ns: int

    def take(self, rows: I32 | I64) -> Stamps:
        """Those of some ops."""
        return Stamps(self.called_ns[rows], self.had_ns[rows], self.tick_ns)


class Inferred(NamedTuple):
    """`side` is the host that was not captured, "server" or "client". Columns have a row for each op of the capture.

    Of the server the time from having a call to sending the reply is inferred (server SRT); of the client that from
    sending a call to having its reply (client SRT). `low_ns` and `high_ns` are what it lies between: TCP's rules and
    causality, to within what is known of the other clock.
    """

    side: str
    vantage: Vantage
    low_ns: I64
    high_ns: I64
    doubt_ns: I64  # by so much the estimate is later, or longer, than the least that is possible
    stamps: Stamps | None  # of the client
    tick_ns: int  # of the other host's clock, the longest of its connections; 0 where no packet holds it
    round_trip_ns: int  # the shortest of the way from host to host
    clocked: Bool  # its packets hold the other host's clock; else acknowledgements and replies alone say when

    def take(self, rows: I32 | I64) -> Inferred:
        """That of some ops of the capture."""
        return self._replace(
            low_ns=self.low_ns[rows],
            high_ns=self.high_ns[rows],
            doubt_ns=self.doubt_ns[rows],
            clocked=self.clocked[rows],
            stamps=None if self.stamps is None else self.stamps.take(rows),
        )

    @property
    def near(self) -> str:
        """The host that was captured, or is taken for it: "client" or "server"."""
        return "client" if self.side == "server" else "server"

    @property
    def taken_at(self) -> str:
        """Where the capture was taken: "client", "server" or "loopback"."""
        return "loopback" if self.vantage.place == "loopback" else "client" if self.side == "server" else "server"

    def is_clocked(self, rows: I32 | I64) -> bool:
        """Do the packets of most of these ops hold the other host's clock?"""
        return not len(rows) or bool(np.mean(self.clocked[rows]) > _MOST)

    def op_error_ns(self, rows: I32 | I64) -> int:
        """Half of what the bounds of an op leave free, the median of these."""
        return int(np.median(self.high_ns[rows] - self.low_ns[rows])) // 2 if len(rows) else 0

    def mean_error_ns(self, rows: I32 | I64) -> int:
        """How far the mean over these ops may be off: of parts of a tick, and of what is free in each op, most cancels;
        what far does later than it could adds up."""
        if not len(rows):
            return 0
        free = (self.high_ns[rows] - self.low_ns[rows]).astype(np.float64) / 2
        by_chance = _SPREADS * float(np.sqrt((free**2).sum())) / len(rows)
        return int(self.doubt_ns[rows].mean()) + self.tick_ns // _OF_A_TICK + int(by_chance)
