"""The report as dataclasses: what the stages found goes in, every renderer gets this and nothing else.

Field names are the JSON contract ``nfslat.report/1`` (docs/method.md, ``report/schema.json``). Durations are float
milliseconds, counts integers, times ISO 8601 with zone; None is "not known".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nfslat.answer.figures import Summary as Summary
from nfslat.answer.pictures import Pictures as Pictures
from nfslat.answer.pivots import Intervals, Pivot
from nfslat.answer.pivots import PivotRow as PivotRow

SCHEMA = "nfslat.report/1"


@dataclass(frozen=True)
class Tool:
    version: str
    engine: str  # "tshark 4.0.17"
    command: str
    srt: str  # the SRT definition in force: nfslat, tshark or first


@dataclass(frozen=True)
class AuditNote:
    """Something about a capture that the reader must know before believing a figure."""

    code: str
    severity: str  # "info" or "warning"
    text: str
    count: int


@dataclass(frozen=True)
class CaptureFile:
    path: str
    packets: int
    first_frame: int  # frame number, in the whole capture, of this file's first packet


@dataclass(frozen=True)
class Capture:
    path: str
    files: list[CaptureFile]
    format: str
    snaplen: int | None
    packets: int
    wire_bytes: int | None  # of all packets, as long as they were on the wire; None: not known
    captured_bytes: int | None
    packet_kinds: dict[str, int]  # name -> packets; they sum to `packets`
    first: str | None
    last: str | None
    duration_s: float
    flows: int
    messages: dict[str, int]  # State name -> messages; they sum to all messages
    ops: int
    programs: dict[str, int]  # program name -> ops, NFS included; they sum to `ops`
    audit: list[AuditNote] = field(default_factory=list)


@dataclass(frozen=True)
class Bucket:
    le_us: int | None  # upper bound, microseconds, inclusive as the label reads; None: no bound; 0: negative times
    label: str
    count: int


@dataclass(frozen=True)
class RawRow:
    program: str
    op: str
    version: str
    count: int
    srt_ms: Summary
    histogram: list[Bucket]


@dataclass(frozen=True)
class Parts:
    """Means over matched ops, ms. call_net and reply_net are None where the clocks cannot tell them: where nothing is
    known of the clocks, or the figure is no larger than its error."""

    call_send: float
    call_net: float | None
    server: float
    reply_send: float
    reply_net: float | None
    net_both: float  # call_net + reply_net: needs no clock
    one_way_error: float | None  # how far call_net and reply_net may be off; None where nothing is known of the clocks
    call_retrans_wait: float | None = (
        None  # of call_net: until the last byte that arrived was sent again; None: not known
    )
    reply_retrans_wait: float | None = None


@dataclass(frozen=True)
class PartSummaries:
    """Of each part over all matched ops. call_net and reply_net are None where half of the ops are within the error."""

    call_send: Summary
    call_net: Summary | None
    server: Summary
    reply_send: Summary
    reply_net: Summary | None
    one_way_error: float | None  # ms, at the moment where least is known of the clocks


@dataclass(frozen=True)
class MatchedRow:
    program: str
    op: str
    version: str
    count: int
    client_ms: Summary
    server_ms: Summary
    network_ms: Summary
    negative_network: int  # ops whose server SRT exceeds their client SRT
    parts_ms: Parts
    queue_ms: float | None = None  # mean, of server_ms: the wait for a thread; None where the packets do not tell


@dataclass(frozen=True)
class MatchedOps:
    processed: dict[str, int]  # side -> ops compared (selected, paired)
    ops: int
    untimed: int  # matched too, but a clock was set while they were under way, so that they have no figures
    unmatched: dict[str, dict[str, int]]  # side -> Miss name -> ops
    by_op: list[MatchedRow]
    total: MatchedRow | None  # all ops together
    slowest: MatchedRow | None  # the slowest 1 % by client SRT (at least one op)
    parts: PartSummaries | None


@dataclass(frozen=True)
class ClockStep:
    """A clock was set. Moments are of the client's clock; of one that was set, before it was."""

    at: str  # not before
    within_ms: float  # and at most so much later
    ms: float  # by how much theta jumped
    bound_ms: tuple[float, float]
    clock: str | None  # "server" or "client": the one that was set; None where the packets do not tell
    set_by_ms: float | None  # by how much that one was set


@dataclass(frozen=True)
class Clock:
    """theta, the server's clock minus the client's. Values are None where no theta explains the ops."""

    fits: bool
    theta_ms: float | None  # at the moment `at`, in the middle of the longest time without a step
    bound_ms: tuple[float, float] | None
    at: str | None
    drift_ppm: float | None  # of theta against the client's clock; 0 where none can be seen
    drift_bound_ppm: tuple[float, float] | None
    steps: list[ClockStep]
    rate_changes: int  # moments at which a clock changed its rate
    messages: int  # calls and replies that this rests on
    contradicting: int  # of these, those that agree with no theta: wrong stamps, or wrong matches


@dataclass(frozen=True)
class TcpAmount:
    """TCP data of one kind, as one capture shows it."""

    packets: int  # as captured: offload shows many segments as one
    segments: int | None  # on the wire; None where no SYN showed the MSS
    bytes: int


@dataclass(frozen=True)
class Transport:
    """One direction of a TCP connection between the two capture points."""

    client: str  # address and port, as the client's capture shows them
    server: str
    way: str  # "call": to the server; "reply": to the client
    bytes: int  # of payload that both captures know of, each byte counted once
    sent_again: TcpAmount  # at the sender
    arrived_again: TcpAmount  # at the receiver: sent again for nothing
    arrived_late: TcpAmount  # at the receiver: filled holes that later data had left
    lost_bytes: int  # between the capture points
    lost_segments: int | None
    doubled: int  # packets that the network doubled: in the receiver's capture twice, and in the sender's once
    ops_hit: int  # matched ops with a call, or a reply, of which bytes were sent again
    caveats: list[str]  # why these may be wrong: sender-drops, receiver-drops, partial, other-numbers ...


@dataclass(frozen=True)
class Charge:
    """What of one part of the matched ops' time one cause made. The charges of a part, with what is "unexplained" of
    it, sum to the part."""

    part: str  # one of the five; "before" the call's first byte and "after" the reply's last one are in no SRT
    cause: str  # "rto", "delayed-ack", "bandwidth" ..., or "unexplained"
    ops: int  # that are charged with any of it
    total_ms: float
    mean_ms: float  # over all matched ops
    share: float | None  # of the mean client SRT; None for what is not in it
    slowest_ms: float  # mean over the slowest 1 %
    slowest_share: float | None  # of their client SRT


@dataclass(frozen=True)
class Level:
    """Time with so many ops in flight."""

    in_flight: int
    share: float  # of the time in which any are
    ops_per_s: float  # answered, of that time


@dataclass(frozen=True)
class ServerInFlight:
    """The threads of a server, as its capture shows them; of all NFS ops there, whatever was selected."""

    server: str  # address; the one with most ops
    servers: int  # addresses in the capture that answer NFS calls
    max: int
    mean: float  # over the time in which any are in flight
    levels: list[Level]
    knee: int | None  # the level from which on throughput hardly grows
    threads_lower_bound: int  # so many exist, whatever the server is like
    lower_bound_seen: int  # times
    threads_estimate: int | None  # None: nothing shows how many there are
    threads_range: tuple[int, int] | None  # what the packets allow
    limited: bool  # calls wait for a thread
    waiting_share: float  # of the calls
    queue_ms: float | None  # mean over matched ops; None where the packets do not tell
    queue_range_ms: tuple[float, float] | None  # with the most and with the fewest threads of the range
    service_ms: float | None  # in a thread; with queue_ms it is the mean server SRT
    witnesses: int  # calls of little work that waited as long as the others
    held: int  # ops left out, which a server may hold back without a thread
    unseen_first: int  # ops whose first transmission is not in the capture; their arrival is taken from their XID
    cannot: str | None  # why there is no estimate


@dataclass(frozen=True)
class ConnectionInFlight:
    """What a client keeps in flight on one connection."""

    client: str  # address and port
    ops: int
    max: int
    level: int | None  # hardly ever exceeded
    at_limit_share: float | None  # of the busy time, at that level
    reply_clocked_share: float | None  # of the calls that fill it, those that come right behind a reply
    turnaround_us: tuple[float, float] | None  # from those replies to those calls: median and third quartile
    held: str  # by: nothing, likely slots, workers, slots or workers, cannot tell


@dataclass(frozen=True)
class MountInFlight:
    """One client address and one server address and port."""

    client: str
    server: str
    ops: int
    max: int
    mean: float
    nconnect: int  # connections in use at the same time
    held: str  # what holds most of its ops, as above
    slots: int | None  # of all its connections, where slots are likely to hold it
    at_limit_share: float | None
    hint: str | None  # what is known for such a number of slots; no proof
    connections: list[ConnectionInFlight]


@dataclass(frozen=True)
class ClientInFlight:
    """Ops in flight at the client; the fields from `slots_estimate` on are of the mount with most ops."""

    max: int
    mean: float
    levels: list[Level]
    knee: int | None
    slots_estimate: int | None
    at_limit_share: float | None
    reply_clocked_share: float | None
    limited: bool  # likely by slots
    held: str
    mounts: list[MountInFlight]


@dataclass(frozen=True)
class SessionInFlight:
    """One channel of an NFSv4.1 session; exact, from SEQUENCE and CREATE_SESSION."""

    session: str  # hexadecimal
    callbacks: bool  # the backchannel
    connections: int
    ops: int
    slots_negotiated: int | None  # None: CREATE_SESSION is not in the capture
    target_slots: int | None  # that the server wants used, in the last reply that says so
    highest_slot_used: int  # from 0
    slots_used: int
    limit: int | None  # in effect
    at_limit_share: float | None  # of the busy time, with all of them in use
    reuse_share: float | None  # of the uses of a slot, those right behind the reply to its last one
    own_limit: int | None  # fewer slots to which the client keeps by itself
    limited: bool


@dataclass(frozen=True)
class CapInFlight:
    """A connection with many ops in flight whose window the server closed."""

    client: str
    ops: int
    level: int
    level_share: float
    zero_windows: int
    zero_window_ms: float
    median_ms: float
    others: int
    others_median_ms: float | None
    likely: bool


@dataclass(frozen=True)
class InFlight:
    """Ops whose call has been seen and whose reply has not."""

    server: ServerInFlight
    client: ClientInFlight
    sessions: list[SessionInFlight]
    caps: list[CapInFlight]
    hidden_share: dict[str, float]  # side -> share of the ops that its capture does not hold: levels are too low


@dataclass(frozen=True)
class MeanAndP99:
    """Of one population of durations, ms."""

    mean: float
    p99: float


@dataclass(frozen=True)
class Outcome:
    """One replay of the load."""

    threads: int | None  # None: no limit
    slots: int | None  # of each connection or session
    ops: int  # that the figures are over
    ops_per_s: float
    client_ms: MeanAndP99  # SRT at the client
    application_ms: MeanAndP99 | None  # and the wait for a slot; None: how many wait is not known
    slot_wait_ms: float
    thread_wait_ms: float
    threads_busy: float | None  # share of the threads' time
    slots_busy: float | None  # of the slots that are used most
    limit: str  # where an op waits most: "threads", "slots", or "load": hardly anywhere


@dataclass(frozen=True)
class WhatIf:
    """The load replayed with other numbers of threads or slots."""

    asked: str  # "threads=64"
    captured_ms: MeanAndP99  # SRT at the client, of the ops that `before` is over
    before: Outcome  # replayed with the numbers in effect
    after: Outcome
    error: float  # mean of `before` against the captured one, relative
    ops: int  # that were played, of ...
    ops_given: int
    warning: str  # what is taken for granted


@dataclass(frozen=True)
class StackRow:
    op: str  # "all", or the operation that --app-ms / --storage-ms named
    layer: str
    depth: int  # indentation: a row is part of the nearest row above with a smaller depth
    ms: float
    share: float | None  # of the application's (or the client's) time
    source: str


@dataclass(frozen=True)
class Finding:
    code: str
    layer: str
    severity: str
    share: float | None
    confidence: str
    text: str
    evidence: dict[str, Any]
    advice: dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    layer: str  # server, network, client or unknown
    cause: str | None  # code of the leading finding
    share: float | None  # of the mean
    share_slowest: float | None  # of the slowest 1 %
    confidence: str  # high, medium or low
    text: str  # one sentence that can be pasted into a ticket
    proof: list[str]  # the figures that it rests on
    reasons: list[str]  # why the confidence is what it is


@dataclass(frozen=True)
class Selection:
    """What the user asked for, and what that and the defaults left out."""

    filters: dict[str, str]
    excluded: dict[str, dict[str, int]]  # side -> reason -> ops


@dataclass(frozen=True)
class Report:
    schema: str
    nfslat: Tool
    captures: dict[str, Capture]  # "server" and "client"; for one capture "capture"
    raw: dict[str, list[RawRow]]
    selection: Selection
    notes: list[str]
    matched: MatchedOps | None = None
    clock: Clock | None = None
    audit: list[AuditNote] = field(default_factory=list)  # on the two captures together
    transport: list[Transport] | None = None  # None where an engine does not say what TCP did
    charges: list[Charge] | None = None  # likewise, and where nothing is known of the clocks
    inflight: InFlight | None = None
    what_if: list[WhatIf] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)  # what hosts, applications and tracers say besides
    stack: list[StackRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    verdict: Verdict | None = None
    pivots: list[Pivot] = field(default_factory=list)  # one for each --by
    intervals: Intervals | None = None  # where --interval asked for them
    pictures: Pictures | None = None  # None where nothing asked for them, or only one capture was given
