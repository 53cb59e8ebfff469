"""What graphs of a conversation are drawn from, as dataclasses; `pictures` makes them.

Each direction is shown as its sender's capture has it, like the figures. Frames are those of that capture.
"""

from __future__ import annotations

from nfslat.model.causes import Limit
from nfslat.model.record import Record
from nfslat.tcp.thinned import Thinned


class LateAck(Record):
    """A delayed ACK: all the data that it covers wait for it, the later they were sent the shorter."""

    at_ms: float  # when the first of these data were sent
    ms: float  # their round trip
    last_at_ms: float  # when the last of them were sent
    last_ms: float
    packets: int
    frame: int  # of the ACK
    data_frame: int  # of the first data
    timer_ms: int | None
    is_waited_for: bool


class Spike(Record):
    """A round trip of three medians or more that ends at an ACK without data, and that no timer made."""

    at_ms: float
    ms: float
    frame: int
    ack_frame: int


class Repeat(Record):
    """A packet that brings what was sent before, or that was overtaken."""

    at_ms: float
    byte: int  # where it begins
    frame: int
    kind: str  # "retransmission", "spurious", "out-of-order"


class Waited(Record):
    """A time in which a sender had data to send and waited."""

    at_ms: float
    ms: float
    cause: Limit
    frame: int | None  # of the data that ended it; None: none did
    before_frame: int | None  # of the data before it


class WayGraphs(Record):
    """One direction. Of each list of marks at most 300, the longest."""

    sender: str
    receiver: str
    capture: int  # 0 or 1: whose frames these are
    trips_ms: Thinned  # by when the data were sent; frames of the data
    typical_ms: float | None  # median of the round trips
    late: tuple[LateAck, ...]
    late_count: int
    spikes: tuple[Spike, ...]
    spike_count: int
    sent: Thinned  # bytes from the first byte of the direction, of each data packet from its first to its last
    acked: Thinned  # bytes; frames of the ACKs
    allowed: Thinned | None  # bytes up to which the receiver's window goes; None: its scale is not known
    again: tuple[Repeat, ...]
    again_count: int
    in_flight: Thinned  # bytes behind each data packet
    window: Thinned | None  # bytes; as written in the packets, where the scale is not known
    scale: int | None
    mbit_s: tuple[float, ...]  # of payload, in each of the equal parts of the time
    waited: tuple[Waited, ...]
    waited_count: int


class Graphs(Record):
    """A time of a conversation."""

    begin: str  # of the conversation
    from_ms: float  # since then
    to_ms: float
    part_ms: float  # of rates
    ways: tuple[WayGraphs, WayGraphs]
    turns_ms: Thinned | None  # by when the request began; frames of its first packet. None: no turns


class Pictures(Record):
    """The whole conversation, and what it waited for longest from near."""

    whole: Graphs
    close: Graphs | None
