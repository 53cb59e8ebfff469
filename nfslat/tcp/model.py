"""The report ``nfslat.transport/1`` as dataclasses: what the analyses found in, text and JSON come from this alone.

Field names are the JSON contract (docs/transport.md). Durations are float ms, counts integers, times ISO 8601 with
zone; None is "not known".
"""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, TextIO

from nfslat.answer.contract import Document, Must
from nfslat.model.causes import Limit
from nfslat.model.record import Record
from nfslat.tcp.counts import Counts
from nfslat.tcp.graphs import Pictures
from nfslat.tcp.hangs import Hanging
from nfslat.tcp.progress import Spread
from nfslat.tcp.sizes import Sizes
from nfslat.tcp.sqlnet.conversation import Compared as TraceCompared
from nfslat.tcp.sqlnet.conversation import Sqlnet
from nfslat.tcp.stretches import Stretches
from nfslat.tcp.throughput import Throughput
from nfslat.tcp.turns import Compared as TurnsCompared
from nfslat.tcp.turns import Turns
from nfslat.tcp.waits import Waits
from nfslat.tcp.walk import Walk

SCHEMA = "nfslat.transport/1"


class Tool(Record):
    """What made the report."""

    version: str
    engine: str
    command: str


class Capture(Record):
    """One capture; its packets are those of TCP that were asked for, the four others, and nothing else."""

    path: str
    first: str
    last: str
    duration_s: float
    snaplen: int | None
    packets: int
    tcp_packets: int
    copies: int  # captured twice
    damaged_packets: int  # of TCP, with a number far from all others and a wrong checksum
    skipped_packets: int  # of TCP, and not asked for
    other_packets: int  # not TCP
    interface_drops: int
    damage: str
    conversations: int


class Cost(Record):
    """What one cause took from both senders together, as they waited for it."""

    cause: Limit
    ms: float
    share: float  # of the conversation's time
    waits: int


class Line(Record):
    """A conversation in the list."""

    stream: int
    a: str  # the endpoint that sent first
    b: str
    begin: str
    duration_s: float
    packets: int
    bytes: tuple[int, int]  # payload from a, from b
    retransmissions: int
    cost_ms: float | None  # None: too many conversations, this one is small
    most: Limit | None  # what took most of it
    is_mptcp: bool  # a subflow of MPTCP, of one of `multipath`, or of a connection that is not known


class Multipath(Record):
    """A connection of MPTCP (RFC 8684) whose MP_CAPABLE is in the capture."""

    version: int
    streams: tuple[int, ...]  # its subflows: the one with the MP_CAPABLE, then those that joined
    tokens: tuple[str | None, str | None]  # of a and of b of the first; None: its key is not in the capture


class HeldOnTheWay(Record):
    """Packets that were held on their way and let go together."""

    at_ms: float  # when the first was sent, from the conversation's first packet
    ms: float  # until they were let go
    packets: int
    peak_ms: float


class Passed(Record):
    """One direction of a conversation, at both ends."""

    sender: str
    receiver: str
    sender_capture: int  # 0 or 1: which of `captures` was taken nearer to the sender
    fates: tuple[dict[str, int], dict[str, int]]  # what became of its packets, in either capture; they sum to these
    bytes: int  # of payload that the sender's capture shows, each byte once
    lost_bytes: int  # sent, and not in the receiver's capture as often
    lost_share: float | None  # of the bytes sent, those that were sent again included
    lost_packets: int  # of the sender's capture, with a lost byte
    missed_bytes: int  # acknowledged, and not in the receiver's capture: that one dropped them
    surplus_bytes: int  # more often in the receiver's capture than in the sender's
    needless: int  # packets sent again although all of their bytes had arrived
    reordered: int  # packets that left in order and came behind later ones
    delay_ms: Spread | None  # one way, of packets that are in both; None: the clocks are not known
    least_delay_ms: float | None
    delay_error_ms: float | None  # either way; the sum of both directions has none
    impossible_delays: int  # packets left out of the delays: below 0 by more than the error, as a clock was set
    held: tuple[HeldOnTheWay, ...]


class Ends(Record):
    """A conversation at both ends."""

    streams: tuple[int, int]  # its number in either capture
    passed: tuple[Passed, Passed]  # from a, from b
    round_trip_ms: Spread | None  # a packet there and the next one back: no clock is needed
    least_round_trip_ms: float | None
    torn_round_trips: int  # left out: a clock was set between the two packets
    turns: TurnsCompared | None


class Detail(Record):
    """One conversation in full. With two captures each direction's figures are from its sender's capture, turns, sizes
    and throughput from that at the asker's end."""

    stream: int  # in the first capture
    capture: int  # 0 or 1: the one at the asker's end, or the only one
    a: str
    b: str
    begin: str
    duration_s: float
    counts: tuple[Counts, Counts]  # from a, from b
    costs: tuple[Cost, ...]  # the largest first; none that is 0
    turns: Turns
    walk: Walk | None
    waits: Waits
    throughput: Throughput
    sizes: Sizes
    sqlnet: Sqlnet | None
    sqlnet_trace: TraceCompared | None
    ends: Ends | None  # with a second capture that shows it
    stretches: Stretches | None  # for nfslat diff; None: a report of an earlier version
    pictures: Pictures | None  # what graphs are drawn from; None: they were not asked for


class Theta(Record):
    """The second capture's clock minus the first's."""

    fits: bool
    theta_ms: float | None
    bound_ms: tuple[float, float] | None
    drift_ppm: float | None
    steps: int


class Report(Document):
    """What nfslat transport --json writes. Durations are milliseconds where a name does not say else, times ISO 8601
    with zone, frames numbers in the capture from 1 on, shares parts of 1; None is not known."""

    made_by: ClassVar[str] = "nfslat transport CAPTURE --json"

    schema: Annotated[str, Must(const=SCHEMA)]
    nfslat: Tool
    captures: tuple[Capture, ...]
    clock: Theta | None
    conversations: tuple[Line, ...]  # all that the capture holds
    details: tuple[Detail, ...]  # those that were looked at closely
    multipath: tuple[Multipath, ...]  # of the first capture
    hangs: tuple[Hanging, ...]  # of all conversations; the longest first, and resets last
    notes: tuple[str, ...]

    def write_json(self, out: TextIO) -> None:
        """Each number of a list in a line of its own, as ever."""
        json.dump(self.to_dict(), out, indent=2, allow_nan=False)
        out.write("\n")
