"""The part of the report that pictures are drawn from: aggregates of the matched ops, small whatever the captures are.

Same conventions as `nfslat.answer.model`. Figures stand on the client's clock. Lists of one value a bin have `bins`
values; null is "nothing there" or "not known".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Classes:
    """Classes of latency, equally wide on a log scale: class i holds what is at most ``le_ms[i]`` and more than the one
    before. They lie between 1 us and 100 s; those beyond the ones in use are left out. The first one also holds what is
    smaller, zero and negative figures included; the last one what is larger."""

    per_decade: int
    le_ms: list[float]


@dataclass(frozen=True)
class Distribution:
    """Ops of one kind by latency: counts, one a class from `first` on to the last one with any of the three measures.

    Each list sums to `ops`.
    """

    program: str
    op: str
    version: str
    ops: int
    first: int
    client: list[int]
    server: list[int]
    network: list[int]


@dataclass(frozen=True)
class Heat:
    """Ops by time of their call and by latency: [bin, class, ops], only cells with any; they sum to the matched ops."""

    client: list[tuple[int, int, int]]
    server: list[tuple[int, int, int]]
    network: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Flying:
    """In flight on one side; of all NFS ops there, as in ``inflight``."""

    mean: list[float]  # over each bin
    max: list[int]
    limit: int | None  # threads of the server, or slots of all connections of the client's mount; None: none is known
    limit_of: str | None  # "threads", "slots", "session slots"


@dataclass(frozen=True)
class Way:
    """Data of one direction between the hosts, of all connections with matched ops, by time."""

    mb_per_s: list[float | None]  # 10^6 bytes of payload, as the sender's capture shows them; None: not counted
    sent_again: list[int]  # packets with bytes that were sent before, at the sender
    lost_ms: list[float]  # time of ops that losses made (charges), by the bin of their call


@dataclass(frozen=True)
class OverTime:
    """Time in `bins` (120 at most) equal bins of a round width, from the first call of a matched op to the last reply.
    An op counts where its call's first byte was sent."""

    begin: str
    bin_ms: float
    bins: int
    ops: list[int]
    client_ms: list[float | None]  # means
    server_ms: list[float | None]
    network_ms: list[float | None]
    client_p99_ms: list[float | None]
    heat: Heat
    server: Flying
    client: Flying
    call: Way | None  # None: not known (tshark decoded)
    reply: Way | None


@dataclass(frozen=True)
class EnvelopePoint:
    """What the ops of a bin say of theta: at least `least_ms` (their replies), and at most `most_ms` (their calls).

    None where the bin has no op. Where clocks drift, both are moved along the estimate to the point's time. The bin in
    which a clock was set can have two points.
    """

    at_s: float  # since OverTime.begin; the middle of the bin
    least_ms: float | None
    most_ms: float | None
    theta_ms: float | None  # the estimate then; None where no theta fits
    bound_ms: tuple[float, float] | None


@dataclass(frozen=True)
class Event:
    """A moment of an op's packet timeline."""

    at_ms: float  # since the call's first byte left the client; the server's moments put on the client's clock
    side: str  # client or server: whose capture shows it
    what: str  # as `nfslat show` has it: "call, first byte", "reply, whole" ..., and "call, bytes sent again"
    frame: int  # as Wireshark counts in `file`
    file: str  # of the capture, as it was given


@dataclass(frozen=True)
class SlowOp:
    """One of the ops with the longest client SRT."""

    program: str
    op: str
    version: str
    xid: str  # 0x%08x
    client: str  # address and port
    server: str
    uid: int | None
    path: str | None
    offset: int | None
    bytes: int | None
    at: str  # ISO 8601, call's first byte at the client
    at_s: float  # since OverTime.begin
    client_ms: float
    server_ms: float
    network_ms: float
    parts_ms: dict[str, float | None]  # the five; None where no theta is known
    queue_ms: float | None
    charges_ms: dict[str, float]  # cause (as in `Report.charges`) -> ms of the client SRT, those that are not 0
    transmissions: int
    timeline: list[Event]  # by time
    wireshark: dict[
        str, str
    ]  # side -> display filter for that side's capture; "side, file" where several files hold it


@dataclass(frozen=True)
class Pictures:
    classes: Classes
    distributions: list[Distribution]  # all ops together first (op "all"), then by number of ops
    over_time: OverTime
    envelope: list[EnvelopePoint]
    slowest: list[SlowOp]  # slowest first; 20, or `--slowest`
