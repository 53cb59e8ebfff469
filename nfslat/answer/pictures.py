"""The part of the report that pictures are drawn from: aggregates of the matched ops, small whatever the captures are.

Same conventions as `nfslat.answer.model`. Figures stand on the client's clock. Lists of one value a bin have `bins`
values; null is "nothing there" or "not known".
"""

from __future__ import annotations

from typing import Annotated

from nfslat.answer.contract import Count, Must, NotNegative, Positive, Time
from nfslat.answer.figures import IN_THREAD, NETWORK, NO_CONNECTION, PARTS, QUEUE, UNEXPLAINED
from nfslat.model.causes import CHARGES
from nfslat.model.record import Record


class Classes(Record):
    """Classes of latency, equally wide on a log scale: class i holds what is at most ``le_ms[i]`` and more than the one
    before. They lie between 1 us and 100 s; those beyond the ones in use are left out. The first one also holds what is
    smaller, zero and negative figures included; the last one what is larger."""

    per_decade: Count  # classes between one power of ten and the next
    # what each holds at most; the first one also holds what is smaller, negative figures included, the last one what is
    # larger
    le_ms: list[float]


class Distribution(Record):
    """Ops of one kind by latency: counts, one a class from `first` on to the last one with any of the three measures.

    Each list sums to `ops`.
    """

    program: str  # as in by_op; empty for all ops together
    op: str  # as in by_op; all: all ops together
    version: str  # as in by_op; empty for all ops together
    ops: Count  # matched ops; each of the three lists sums to it
    first: Count  # class of the first count of each list
    client: list[Count]  # by client SRT
    server: list[Count]  # by server SRT
    network: list[Count]  # by their difference


class Heat(Record):
    """Ops by time of their call and by latency: [bin, class, ops], only cells with any; they sum to the matched ops."""

    client: list[tuple[Count, Count, Count]]  # by client SRT
    server: list[tuple[Count, Count, Count]]  # by server SRT
    network: list[tuple[Count, Count, Count]]  # by their difference


class Flying(Record):
    """In flight on one side; of all NFS ops there, as in ``inflight``."""

    mean: list[float]  # over each bin
    max: list[Count]  # most at once in each bin
    limit: Count | None  # threads of the server, or slots of all connections of the client's mount; None: none is known
    limit_of: str | None  # what it counts: threads, slots, session slots


class Way(Record):
    """Data of one direction between the hosts, of all connections with matched ops, by time."""

    # 10^6 bytes of payload per second, as the sender's capture shows them; None: not counted
    mb_per_s: list[float | None]
    sent_again: list[Count]  # packets with bytes that were sent before, at the sender
    lost_ms: list[float]  # of the client SRT of the ops whose call is in the bin, what losses made


class Event(Record):
    """Something that happened, for axes of time to mark. Steps of a clock, phases, hangs and recoveries have places of
    their own in the report."""

    # pause: a host did not run; no-connection: the client had none to the server; loss: a burst of lost data
    what: Annotated[str, Must(enum=["pause", "no-connection", "loss"])]
    side: Annotated[str, Must(enum=["client", "server"])] | None  # whose host, or who sent what was lost; None: neither
    at: Time  # when it began
    at_s: float  # since the axis begins; negative: before
    ms: NotNegative  # for how long
    cost_ms: NotNegative | None  # of the client SRT of all ops, what a loss made; None of others


class OverTime(Record):
    """Time in `bins` (120 at most) equal bins of a round width, from the first call of a matched op to the last reply.
    An op counts where its call's first byte was sent."""

    begin: str  # the first call of a matched op
    bin_ms: float  # width of a bin: 1, 2 or 5 times a power of ten
    bins: Positive  # how many; the last one holds the last reply of a matched op
    ops: list[Count]  # matched ops
    client_ms: list[float | None]  # mean client SRT; None without ops
    server_ms: list[float | None]  # mean server SRT
    network_ms: list[float | None]  # mean of their difference
    client_p99_ms: list[float | None]  # 99th percentile of the client SRT, nearest rank
    heat: Heat
    server: Flying
    client: Flying
    call: Way | None  # to the server; None: not known (tshark decoded)
    reply: Way | None  # to the client; None: not known
    events: list[Event]  # in order of time


class EnvelopePoint(Record):
    """What the ops of a bin say of theta: at least `least_ms` (their replies), and at most `most_ms` (their calls).

    None where the bin has no op. Where clocks drift, both are moved along the estimate to the point's time. The bin in
    which a clock was set can have two points.
    """

    at_s: float  # since OverTime.begin; the middle of the bin
    least_ms: float | None  # replies say that it is at least this; None without ops
    most_ms: float | None  # calls say that it is at most this; None without ops
    theta_ms: float | None  # the estimate then; None where no theta explains the ops
    bound_ms: tuple[float, float] | None  # between what it lies then


class Moment(Record):
    """A moment of an op's packet timeline."""

    at_ms: float  # since the call's first byte left the client; the server's moments are put on the client's clock
    side: Annotated[str, Must(enum=["client", "server"])]  # whose capture shows it
    what: str  # as `nfslat show` has it: "call, first byte", "reply, whole" ..., and "call, bytes sent again"
    frame: Positive  # as Wireshark counts in the file
    file: str  # of the capture, as it was given


class Piece(Record):
    """A piece of an op's client SRT: what one cause made of one part, or what is left of the part."""

    part: Annotated[str, Must(enum=[*PARTS, NETWORK])]  # network: both ways, where the clocks do not tell them apart
    # as in `charges`; no connection: the call came anew on the next; queue: the wait for a server thread; in thread:
    # the work in one, with file system and storage; unexplained: the rest of the part
    cause: Annotated[str, Must(enum=[*CHARGES, NO_CONNECTION, QUEUE, IN_THREAD, UNEXPLAINED])]
    ms: float  # negative where the part is


class SlowOp(Record):
    """One of the ops with the longest client SRT."""

    program: str  # RPC program
    op: str  # operation
    version: str  # program version
    xid: str  # 0x and eight hexadecimal digits
    client: str  # address and port, as the client's capture shows them
    server: str  # address and port, as the client's capture shows them
    uid: Count | None  # of the AUTH_SYS credential; None: not known
    path: str | None  # of the file; None: not known
    offset: int | None  # in the file, bytes; None: none, or not captured
    bytes: Count | None  # asked for, or written; None: none, or not captured
    at: str  # ISO 8601, call's first byte at the client
    at_s: float  # since OverTime.begin
    client_ms: float  # client SRT
    server_ms: float  # server SRT
    network_ms: float  # their difference
    # the five parts; None where no theta is known
    parts_ms: Annotated[dict[str, float | None], Must(propertyNames={"enum": PARTS})]
    queue_ms: float | None  # of server_ms, the wait for a thread; None where the packets do not tell
    charges_ms: dict[str, float]  # cause (as in `charges`) -> ms of the client SRT, those that are not 0
    # where its time went, the largest first; they sum to the time from the call's first byte to the reply's last, which
    # is client_ms unless --srt says otherwise
    pieces: list[Piece]
    transmissions: Count  # how often the client sent the call, RPC-level
    timeline: list[Moment]  # its packets on both sides, by time
    # side -> display filter for that side's capture; "side, file" where several files hold it
    wireshark: dict[str, str]


class SlowCall(Record):
    """One of the ops with the longest SRT of one capture by itself."""

    program: str  # RPC program
    op: str  # operation
    version: str  # program version
    xid: str  # 0x and eight hexadecimal digits
    client: str  # address and port
    server: str  # address and port
    at: str  # ISO 8601, call's first byte
    srt_ms: float  # SRT
    # name of the capture -> display filter; "capture, file" where several files hold it
    wireshark: dict[str, str]


class Pictures(Record):
    """What pictures are drawn from: aggregates of the matched ops, on the client's clock."""

    classes: Classes
    distributions: list[Distribution]  # all ops together first (op "all"), then by number of ops
    over_time: OverTime
    envelope: list[EnvelopePoint]  # by time
    slowest: list[SlowOp]  # slowest first; 20, or `--slowest`


class Alone(Record):
    """What pictures of one capture are drawn from: its selected ops over time, on its own clock, in bins as those of
    OverTime."""

    classes: Classes
    begin: str  # the first call
    bin_ms: float  # width of a bin: 1, 2 or 5 times a power of ten
    bins: Positive  # how many; the last one holds the last reply
    ops: list[Count]
    srt_ms: list[float | None]  # mean SRT; None without ops
    p99_ms: list[float | None]  # 99th percentile of the SRT, nearest rank
    heat: list[tuple[Count, Count, Count]]  # by SRT, as in Heat
    flying: Flying  # in flight, of all NFS ops of the capture
    events: list[Event]  # in order of time
    slowest: list[SlowCall]  # slowest first; a few
