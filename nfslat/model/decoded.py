"""What an engine makes of one capture: the tables, and a count of everything that is in none of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
from msgspec import field

from nfslat.model.details import Details, no_details
from nfslat.model.record import Record
from nfslat.model.segments import Segments
from nfslat.model.tables import I64, Loose, Ops, State


class Reassembly(Enum):
    """How tshark puts the segments of a TCP stream together."""

    OFF = "off"  # each segment by itself
    IN_ORDER = "in order"  # a lost segment ends what was being put together
    ANY_ORDER = "any order"  # waits for a lost segment; for good, if it is not in the capture


class Directions(Record):
    """Two clocks in one capture: that of the replies' direction minus that of the calls' (callbacks: exchanged).

    `delta_ns` is the middle of its bounds `lo_ns` and `hi_ns`, at the instant `at_ns` on the replies' clock; it grows
    by `ppm` millionths of the time. `backward` neighbours of those looked at stand in the file against their stamps.
    """

    delta_ns: int
    lo_ns: int
    hi_ns: int
    ppm: float
    at_ns: int
    backward: int

    @property
    def error_ns(self) -> int:
        """A response time is right to within this after `nfslat.decode.directions.on_one_clock`."""
        return (self.hi_ns - self.lo_ns + 1) // 2

    def at(self, t_ns: I64) -> I64:
        """delta at instants on the replies' clock, int ns."""
        if not self.ppm:
            return np.full(len(t_ns), self.delta_ns, dtype=np.int64)
        grown: I64 = np.rint((t_ns - self.at_ns) * (self.ppm * 1e-6)).astype(np.int64)
        return grown + self.delta_ns


class Facts(Record, kw_only=True):
    """What is known of a capture besides its messages. The packet kinds sum to its packets."""

    packet_kinds: dict[str, int]
    hidden: int  # messages known to begin where their header was not captured
    malformed: int
    duplicate_packets: int
    lost_ranges: int  # ranges of TCP data that were acknowledged and never captured
    lost_bytes: int
    backward_times: int
    tls_connections: int
    first_ns: int
    last_ns: int
    cut_short: bool
    # None: not known.
    wire_bytes: int | None = None  # of all packets as they were on the wire, or in the file if that is more
    captured_bytes: int | None = None  # of all packets as they are in the file
    busiest_second_packets: int | None = None  # most packets in one second; seconds count from the first packet's time
    largest_backward_ns: int | None = None  # the most by which a packet is earlier than the one before it; 0 if none is


class Decoded(Facts, kw_only=True):
    """One capture: both engines make the same of it."""

    ops: Ops
    loose: Loose
    engine: str  # "tshark 4.0.17", "native 0.1.0"
    repeats: Mapping[State, int] = field(default_factory=dict)  # messages without a row in `loose`
    interface_drops: int = 0  # packets that the capturing host says it lost (pcapng statistics)
    untimed_packets: int = 0  # packets to which their container gives no time
    misdated_packets: int = 0  # left out: of interfaces whose times cannot be, beside others whose can
    details: Details = field(default_factory=no_details)
    reassembly: Reassembly | None = None  # what tshark was asked to do, where it was the engine
    directions: Directions | None = None  # two clocks in the file; all instants have been put on one
    # Of each TCP connection, where they were asked for; taken out by what reads them, for they are large. Of what is
    # stored, `nfslat.decode.stored` keeps a sample by itself.
    segments: list[Segments] = field(default_factory=list)
    OF_THIS_RUN = ("segments",)

    @property
    def states(self) -> dict[State, int]:
        """Messages by state; they sum to `messages`."""
        loose = np.bincount(self.loose.state, minlength=len(State))
        counts = {state: int(loose[state]) + self.repeats.get(state, 0) for state in State}
        counts[State.PAIRED] += 2 * len(self.ops)
        counts[State.HEADER_NOT_CAPTURED] += self.hidden
        counts[State.MALFORMED] += self.malformed
        return counts

    @property
    def messages(self) -> int:
        """RPC messages in the capture, those included that could not be read."""
        return sum(self.states.values())

    @property
    def calls(self) -> I64:
        """Calls of each kind (row of ``ops.kinds``), answered or not, without `repeats`."""
        kinds = len(self.ops.kinds)
        loose = np.bincount(self.loose.kind[self.loose.is_reply == 0], minlength=kinds)
        answered = np.bincount(self.ops.classes.kind, weights=self.ops.classes.count, minlength=kinds)
        return np.asarray(loose + answered, dtype=np.int64)
