"""The report as records: what the stages found goes in, every renderer gets this and nothing else.

Field names are the JSON contract ``nfslat.report/2`` (docs/method.md, ``answer/schema.json``). Durations are float
milliseconds, counts integers, times ISO 8601 with zone; None is "not known".
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from nfslat.answer.advice import Advice
from nfslat.answer.callers import Called
from nfslat.answer.contract import (
    BothSides,
    BothSidesOrCapture,
    Count,
    Document,
    HowProven,
    HowSure,
    Layer,
    LayerOrCapture,
    Must,
    NotNegative,
    Positive,
    Severity,
    Share,
    Side,
    Sides,
    Time,
    VerdictOutcome,
)
from nfslat.answer.figures import PARTS, GroupFigures
from nfslat.answer.figures import Summary as Summary
from nfslat.answer.inflight import CapInFlight as CapInFlight
from nfslat.answer.inflight import ClientInFlight as ClientInFlight
from nfslat.answer.inflight import ConnectionInFlight as ConnectionInFlight
from nfslat.answer.inflight import InFlight as InFlight
from nfslat.answer.inflight import Level as Level
from nfslat.answer.inflight import MountInFlight as MountInFlight
from nfslat.answer.inflight import ServerInFlight as ServerInFlight
from nfslat.answer.inflight import SessionInFlight as SessionInFlight
from nfslat.answer.outcomes import Outcomes as Outcomes
from nfslat.answer.pictures import Alone, Pictures, SlowOp
from nfslat.answer.pivots import Intervals, Pivot
from nfslat.model.causes import CHARGES
from nfslat.model.record import Record

SCHEMA = "nfslat.report/2"
# The names of `nfslat.model.tables.State` and `Miss`; a test holds them to those, which would load numpy here.
STATES = "PAIRED NO_REPLY NO_CALL RETRANSMITTED DUPLICATE_FRAME HEADER_NOT_CAPTURED MALFORMED".split()
MISSES = "OUTSIDE_OVERLAP NOT_CAPTURED_AT_SERVER NOT_CAPTURED_AT_CLIENT CONNECTION_UNMATCHED AMBIGUOUS".split()
CAUSES = [*CHARGES, "unexplained"]


class Tool(Record):
    """What made the report."""

    version: str  # version of nfslat
    engine: str  # what decoded the captures, with its version: "tshark 4.0.17"
    command: str  # the command line
    srt: Annotated[str, Must(enum=["nfslat", "tshark"])]  # the SRT definition in force (--srt)


class AuditNote(Record):
    """Something about a capture that the reader must know before believing a figure."""

    code: str  # name of the note
    severity: Severity  # warning: it can change the answer
    text: str  # the note in words
    count: Count  # how many packets, messages or ops it is about


class CaptureFile(Record):
    """One file of a capture."""

    path: str  # path of the file
    packets: Count  # packets in it
    first_frame: Positive  # frame number, in the whole capture, of its first packet


class Unseen(Record):
    """Ops that a capture knows of and does not show: by one half of them, or by a gap in the client's XIDs."""

    ops: Count  # those
    without_reply: Count  # of them, those of which it shows the call
    without_call: Count  # those of which it shows the reply
    without_both: Count  # those of which it shows neither
    share: Share  # of all ops of its connections
    share_of_time: tuple[Share, Share]  # of the time of all ops what they took, at least and at most
    seen_mean_ms: float  # mean SRT of the ops that it shows, ms
    mean_ms: tuple[float, float]  # mean SRT of all ops, at least and at most, ms
    matters: bool  # is that far from the mean of those that it shows, or did the others take much of the time?


class Capture(Record):
    """One capture: a file, or an ordered set of rotated files, taken at one point."""

    path: str  # what the user named it
    files: list[CaptureFile]  # its files, in order of time
    format: str  # file format
    snaplen: Count | None  # bytes kept of each packet; None where every packet is whole
    packets: Count  # all packets
    wire_bytes: Count | None  # all packets, as long as they were on the wire, bytes; None where it is not known
    captured_bytes: Count | None  # what of them is in the file, bytes
    packet_kinds: dict[str, Count]  # name -> packets; they sum to `packets`
    first: Time | None  # time of the first packet, ISO 8601 with zone
    last: Time | None  # time of the last packet, ISO 8601 with zone
    duration_s: float  # last packet minus first packet, seconds
    flows: Count  # connections that carried ops
    # RPC messages by the state in which they end; they sum to all messages. A state without messages may be left out
    messages: Annotated[dict[str, Count], Must(propertyNames={"enum": STATES})]
    ops: Count  # calls paired with their replies
    programs: dict[str, Count]  # ops by RPC program; they sum to ops
    audit: list[AuditNote] = []  # notes on the capture
    unseen: Unseen | None = None  # None where it shows all ops that it knows of, or filters leave some out


class Bucket(Record):
    """One bucket of a latency histogram."""

    le_us: Count | None  # upper bound, microseconds, inclusive as the label reads; None: no bound; 0: negative times
    label: str  # upper bound as it is printed: .1m, 1m, .1s, 1s
    count: Count  # ops in the bucket


class RawRow(Record):
    """All ops of one kind in one capture, matched or not."""

    program: str  # RPC program: NFS, MOUNT, NLM ...
    op: str  # operation, upper case as nfsstat prints it; a COMPOUND has the name of its main operation
    version: str  # program version, with the NFSv4 minor version: 3, 4.1
    count: Count  # ops
    srt_ms: Summary
    histogram: list[Bucket]  # latency histogram, in order of time


class Parts(Record):
    """Means over matched ops, ms. call_net and reply_net are None where the clocks cannot tell them: where nothing is
    known of the clocks, or the figure is no larger than its error."""

    call_send: float  # first to last byte of the call at the client, ms
    call_net: float | None  # last byte of the call, from the client to the server, ms
    server: float  # last byte of the call to first byte of the reply at the server, ms
    reply_send: float  # first to last byte of the reply at the server, ms
    reply_net: float | None  # last byte of the reply, from the server to the client, ms
    net_both: float  # call_net + reply_net, ms; needs no clock
    # how far call_net and reply_net may be off, ms; None where nothing is known of the clocks
    one_way_error: NotNegative | None
    # of call_net, ms: from the call's last byte until what arrived last was sent again, by TCP or RPC; None where it is
    # not known
    call_retrans_wait: float | None = None
    # of reply_net, ms: from the reply's last byte until what arrived last was sent again; None where it is not known
    reply_retrans_wait: float | None = None


class PartSummaries(Record):
    """Of each part over all matched ops. call_net and reply_net are None where half of the ops are within the error."""

    call_send: Summary
    call_net: Summary | None
    server: Summary
    reply_send: Summary
    reply_net: Summary | None
    one_way_error: NotNegative | None  # how far a single call_net or reply_net may be off at most, ms


class MatchedRow(GroupFigures):
    """Ops of one kind that are in both captures."""

    program: str  # RPC program: NFS, MOUNT, NLM ...
    op: str  # operation, upper case as nfsstat prints it; a COMPOUND has the name of its main operation
    version: str  # program version, with the NFSv4 minor version: 3, 4.1
    count: Count  # matched ops
    client_ms: Summary
    server_ms: Summary
    network_ms: Summary
    negative_network: Count  # ops whose server SRT exceeds their client SRT
    parts_ms: Parts


class Completeness(Record):
    """How many of the operations of the time that both captures cover are in both, with their figures."""

    share: Share  # of all that are known of
    ops: Count  # those that are in both, with figures
    of: Count  # of so many, those included that the captures only know of
    # why not the rest: how many are not in the client's capture, not in the server's, or in neither
    missing: dict[str, Count]


class MatchedOps(Record):
    """The comparison of the two captures."""

    processed: BothSides[Count]  # ops compared, by side: ops plus untimed plus all that are unmatched
    ops: Count  # matched ops, those that have figures
    untimed: Count  # ops that are matched too, but have no figures: a clock was set while they were under way
    # unmatched ops, by side and reason; a reason without ops may be left out
    unmatched: BothSides[Annotated[dict[str, Count], Must(propertyNames={"enum": MISSES})]]
    by_op: list[MatchedRow]  # one row an operation
    total: MatchedRow | None  # all matched ops together; None where there are none
    # the slowest 1 % by client SRT, at least one op; None where stamps tick too slowly to tell which those are
    slowest: MatchedRow | None
    parts: (
        PartSummaries | None
    )  # distribution of the parts; None where no op is matched, or stamps bear no more than means
    completeness: Completeness  # how much of this time's operations that is
    # the tick of time stamps that bear no more than means: percentiles and maxima are ticks; None: they bear all
    tick_ms: NotNegative | None = None


class ClockStep(Record):
    """A clock was set. Moments are of the client's clock; of one that was set, before it was."""

    at: str  # not before this moment
    within_ms: float  # and at most so much later, ms
    ms: float  # by how much theta jumped, ms
    bound_ms: tuple[float, float]  # between what that lies, ms
    clock: str | None  # the clock that was set, server or client; None where the packets do not tell
    set_by_ms: float | None  # by how much that one was set, ms


class Clock(Record):
    """theta, the server's clock minus the client's. Values are None where no theta explains the ops."""

    fits: bool  # is there a theta that explains the ops?
    theta_ms: float | None  # estimate at the moment `at`, in the middle of the longest time without a step
    bound_ms: tuple[float, float] | None  # lowest and highest theta that causality allows at that moment, ms
    at: str | None  # that moment, client's clock
    drift_ppm: float | None  # change of theta against the client's clock; 0 where none can be seen
    drift_bound_ppm: tuple[float, float] | None  # least and largest change that causality allows
    steps: list[ClockStep]  # when a clock was set, in order
    rate_changes: Count  # moments at which a clock changed its rate
    messages: Count  # calls and replies that theta rests on
    contradicting: Count  # of these, those that agree with no theta: wrong stamps, or wrong matches

    @property
    def drifts(self) -> bool:
        """Do the clocks run at different rates for sure? Bounds that hold 0 allow that they do not."""
        if not self.drift_ppm or self.drift_bound_ppm is None:
            return False
        least, most = self.drift_bound_ppm
        return least > 0 or most < 0


class TcpAmount(Record):
    """TCP data of one kind, as one capture shows it."""

    packets: Count  # as captured: offload shows many segments as one
    segments: Count | None  # on the wire; None where no SYN showed the MSS
    bytes: Count  # payload


class Transport(Record, kw_only=True):
    """One direction of a TCP connection between the two capture points."""

    client: str  # address and port of the client, as its capture shows them
    server: str  # address and port of the server, as the client's capture shows them
    way: Annotated[str, Must(enum=["call", "reply"])]  # call: to the server; reply: to the client
    bytes: Count  # payload that both captures know of, each byte once
    sent_again: TcpAmount  # at the sender
    arrived_again: TcpAmount  # at the receiver: sent again for nothing
    arrived_late: TcpAmount  # at the receiver: filled holes that later data had left
    lost_bytes: Count  # between the capture points
    lost_segments: Count | None  # the same, in segments
    # packets that the network doubled: in the receiver's capture twice, and in the sender's once
    doubled: Count = 0
    ops_hit: Count  # matched ops with a call, or a reply, of which bytes were sent again
    caveats: list[str]  # why these counts may be wrong: sender-drops, receiver-drops, partial, other-numbers ...


class Hang(Record):
    """What one end of a TCP connection asked for again and again, and did not get until the capture ended, or what
    `cut` names."""

    capture: Annotated[str, Must(enum=["server", "client", "capture"])]  # that shows it: the one of who waits
    awaits: Annotated[str, Must(enum=["window", "ack"])]  # that the other end opens its window; acknowledges data
    side: Annotated[str, Must(enum=["server", "client"])]  # who waits
    waiter: str  # its address and port
    other: str  # those of who it waits for
    since: Time  # when the window was shut, or the data first sent, as far as that is remembered
    ms: NotNegative  # from then until the end
    tries: Count  # probes of the window, or transmissions
    last_try_ms: NotNegative  # from `since` to the last of them
    frame: Positive  # of the last of them
    bytes: Count  # sent and not acknowledged
    heard: Time | None  # the last packet of the other end; None: there was none
    # what ended the connection: a RST of the waiter or of the other end, or the SYN of the next; "nothing": it stands
    cut: Annotated[str, Must(enum=["nothing", "own-reset", "reset", "next-connection"])]
    calls: Count  # on that connection, without a reply until then
    # with two captures: tries while the other one ran too, and those of them that it shows; None: not known
    compared: Count | None = None
    arrived: Count | None = None
    # the other capture shows that these data were acknowledged, so that the ACK was lost; None: not known
    acked: bool | None = None


class Unanswered(Record):
    """Calls of one operation on one connection that still waited for their replies when the capture ended; the oldest
    stands for all where there is one figure."""

    capture: Annotated[str, Must(enum=["server", "client", "capture"])]  # that shows it
    program: str
    version: str
    op: str
    client: str  # address and port
    server: str
    calls: Positive
    since: Time  # when the oldest was sent first
    longest_ms: NotNegative  # from then until the capture ended: its response time is more
    total_ms: NotNegative  # the same, over all of them
    sends: Positive  # of the oldest, by RPC
    last_sent: Time
    xid: Count
    frame: Positive  # of its first packet
    acked: bool  # the server's TCP acknowledged them all
    holed: bool  # later data of the server came, and what is in front of them never did: so replies are lost
    arrived: Count | None  # of the calls, those that the server's capture shows; None: there is none of that time
    replied: Count | None  # of the calls, those to which the server's capture shows a reply
    answered: Count  # other calls that the server answered meanwhile
    answered_others: Count  # of them, those of other clients


class Charge(Record):
    """What of one part of the matched ops' time one cause made. The charges of a part, with what is "unexplained" of
    it, sum to the part."""

    # one of the five; "before" the call's first byte and "after" the reply's last one are in no SRT
    part: Annotated[str, Must(enum=["before", *PARTS, "after"])]
    cause: Annotated[
        str, Must(enum=CAUSES)
    ]  # docs/method.md says what each is; "unexplained" is what is left of the part
    ops: Count  # matched ops that are charged with any of it
    total_ms: float  # over all matched ops
    mean_ms: float  # over all matched ops, charged or not
    share: float | None  # of the mean client SRT; None for what is not in it
    slowest_ms: float  # mean over the slowest 1 %
    slowest_share: float | None  # of the mean client SRT of the slowest 1 %


class MeanAndP99(Record):
    """Of one population of durations, ms."""

    mean: float  # mean, ms
    p99: float  # 99th percentile, ms


class Outcome(Record):
    """One replay of the load."""

    threads: Positive | None  # server threads; None: no limit
    slots: Positive | None  # slots of each connection or session; None: no limit
    ops: Count  # ops that the figures are over
    ops_per_s: float  # ops per second
    client_ms: MeanAndP99  # SRT at the client
    # client SRT and the wait for a slot; None where it is not known how many requests wait
    application_ms: MeanAndP99 | None
    slot_wait_ms: float  # mean wait for a slot, ms
    thread_wait_ms: float  # mean wait for a thread, ms
    threads_busy: Share | None  # share of the threads' time in which they work; None without a limit
    slots_busy: Share | None  # the same of the slots that are used most
    limit: Annotated[str, Must(enum=["threads", "slots", "load"])]  # where an op waits most; load: hardly anywhere


class WhatIf(Record):
    """The load replayed with other numbers of threads or slots."""

    asked: str  # what was asked: threads=64
    of: str  # operations that all figures but ops_per_s are of; "" is all
    client_ms: MeanAndP99  # captured: SRT at the client
    expected_client_ms: MeanAndP99  # the same with what was asked: captured, times `after` by `before`
    application_ms: float | None  # what the application sees of them on average, ms; None where that was not given
    expected_application_ms: float | None  # the same with what was asked, ms
    thread_wait_ms: float | None  # captured: mean wait for a thread, ms
    before: Outcome  # replayed with the numbers in effect
    after: Outcome
    error: float  # mean of before against the captured one, relative: how far the replay is off
    ops: Count  # matched ops that were played
    ops_given: Count  # matched ops that could have been
    others: Count  # ops of other clients, or in the server's capture only, that were played with them
    warning: str  # what is taken for granted


class StackRow(Record):
    """One row of the latency stack."""

    op: str  # all, or the operation that --app-ms or --storage-ms named
    layer: str  # name of the layer
    depth: Count  # indentation: a row is part of the nearest row above with a smaller depth
    ms: float  # mean, ms
    share: (
        float | None
    )  # of the application's, or else of the client's, time; parts can be negative, so it can lie outside 0 to 1
    source: str  # where the figure comes from


class Finding(Record):
    """A cause that was found."""

    code: str  # name of the finding
    layer: LayerOrCapture  # where it is
    severity: Severity  # warning: it explains latency, or it can change the answer
    share: float | None  # of the mean latency that it explains; parts can be negative, so it can lie outside 0 to 1
    confidence: HowProven  # certain: proven; likely: another cause would look alike
    text: str  # the finding in words
    evidence: dict[str, Any]  # the numbers that prove it; names carry their unit
    # what to change, how, and how to verify it; a key without anything to say may be left out
    advice: Annotated[dict[str, Any], Must(some_of=Advice)]
    # by how much the mean would be shorter were it mended: by a replay of the load, or at most; None: not known
    gain_ms: float | None = None
    gain_by: Annotated[str, Must(enum=["replay", "bound"])] | None = None


class NextStep(Record):
    """One measurement that would decide more."""

    command: str  # to be pasted into a shell
    where: str  # on which host, and when
    decides: str  # what it tells, and how nfslat is given it
    causes: list[str]  # codes of the findings that it can prove, or refute


class Objective(Record):
    """What the user calls slow: one --slo."""

    asked: str  # as it was given: READ.p99=20ms
    op: str  # the operation, or all
    figure: Annotated[str, Must(enum=["mean", "p50", "p95", "p99", "max"])]
    of: Annotated[str, Must(enum=["client", "application"])]  # the response time at the client, or the application's
    limit_ms: NotNegative
    measured_ms: float | None  # None: no such operation is in both captures
    met: bool | None  # None: not known


class Verdict(Record):
    """Is there a fault, where, and how sure that is."""

    # fault: a finding explains enough of the time, or shows a limit at work; no-fault: nothing that was looked for
    # explains the time; undecided: it cannot be told, and `next` says what would
    outcome: VerdictOutcome
    layer: Layer | None  # whose fault it is; None: nobody's, or not known
    cause: str | None  # code of the finding that leads; of an undecided verdict the one that leaves it open
    also: list[str]  # codes of the other findings that the text names
    share: float | None  # of the mean that the cause explains; None: not known
    share_slowest: float | None  # of the slowest 1 % on the wire; likewise
    confidence: HowSure  # how sure all of it is
    text: str  # a few sentences that can be pasted into a ticket
    next: NextStep | None  # the measurement that would decide more; None: none would
    largest_layer: Layer | None  # which adds most to the mean, whether or not that is a fault; None: it cannot be told
    largest_share: float | None  # its share of the mean; parts can be negative, so it can lie outside 0 to 1
    largest_share_slowest: (
        float | None
    )  # its share of the slowest 1 %; of no application: of that only the mean is known
    objectives: list[Objective]  # what the user calls slow, and whether it is
    proof: list[str]  # the figures that it rests on
    reasons: list[str]  # why the confidence is what it is


class Inferred(Record):
    """One capture was given, and the other host's times are inferred from its packets (docs/one_capture.md): every
    figure of that host, and of the network, rests on them."""

    side: Side  # the host that was not captured
    taken_at: Annotated[str, Must(enum=["client", "server", "loopback"])]  # where the capture was taken
    ops: Count  # with inferred times
    unstamped: Count  # of these, in whose packets is no clock of that host: by acknowledgements and replies alone
    mean_error_ms: NotNegative  # how far a mean over all of them may be off
    op_error_ms: NotNegative  # half of what the bounds of an op leave free, median
    tick_ms: NotNegative  # of the other host's clock, in its time stamps; 0 without
    round_trip_ms: NotNegative  # the shortest from host to host


class Phase(Record):
    """A stretch of time in which response times kept a level; what is said of it rests on it alone."""

    begin: str  # first call, on the client's clock
    end: str  # first call of the next phase; of the last phase its last call
    ops: Count  # matched ops whose calls were sent in it
    time_share: float  # of the sum of all client SRTs
    client_ms: float  # mean SRT at the client, but for a twentieth of the phase where it borders on another one
    server_ms: float  # the same at the server
    network_ms: float  # mean of the differences
    layer: Layer | None  # whose fault it is; None: nobody's, or not known
    cause: str | None  # code of the leading finding
    threads_estimate: Positive | None  # number of threads for which calls wait; None where none is seen
    text: str  # the verdict
    outcome: VerdictOutcome  # of it
    largest_layer: Layer | None  # the layer that adds most to the mean


class HostPair(Record):
    """What passes between a client and a server, where there are several of either in both captures; ops and times of
    all pairs sum to those of the matched ops."""

    client: str  # address, as the client's capture has it
    server: str  # the same
    ops: Count  # matched ops
    time_share: float  # of the sum of all client SRTs
    client_ms: float  # mean SRT at the client
    server_ms: float  # the same at the server
    network_ms: float  # mean of the differences
    theta_ms: float | None = None  # the server's clock minus the client's, by the ops of these two; None: not known
    theta_bound_ms: tuple[float, float] | None = None  # least and most that these ops allow
    threads_estimate: Positive | None = None  # of the server, for which calls wait; None where none is seen
    slots: Positive | None = None  # of the client's connections to the server, where these are likely to hold it
    outcome: VerdictOutcome | None = None  # of the verdict on them alone; None: too few ops, or little of the time
    layer: Layer | None = None  # whose fault it is; None: nobody's, or not known
    largest_layer: Layer | None = None  # the layer that adds most to the mean
    cause: str | None = None  # code of the leading finding
    text: str | None = None  # the verdict


class Selection(Record):
    """What the user asked for, and what that and the defaults left out."""

    filters: dict[str, str]  # filter name to value
    excluded: Sides[dict[str, Count]]  # ops left out, by side and reason


class Report(Document):
    """What nfslat --json writes. Durations are milliseconds (floats), counts integers, times ISO 8601 with zone, None
    is not known."""

    made_by: ClassVar[str] = "nfslat SERVER CLIENT --json"

    schema: Annotated[str, Must(const=SCHEMA)]  # name and version of this contract
    nfslat: Tool
    captures: BothSidesOrCapture[Capture]  # server and client; of one capture, where it was taken, or capture
    raw: BothSidesOrCapture[list[RawRow]]  # every op of each capture, matched or not
    selection: Selection
    notes: list[str]  # what limits the answer, in words
    matched: MatchedOps | None = None  # None where only one capture was given
    clock: Clock | None = None  # None where there is nothing to compare
    # what is remarkable about the two captures together; empty for one capture
    audit: list[AuditNote] = []
    # what TCP sent again and lost; None where an engine does not say, and for one capture
    transport: list[Transport] | None = None
    # what hung when the capture, or the connection, ended, the longest first; None where an engine does not say
    hangs: list[Hang] | None = None
    # calls without a reply that waited when the capture ended, the longest first; in no mean
    unanswered: list[Unanswered] | None = None
    # what TCP and the path did to the operations; None where that, or the clocks, are not known, and for one capture
    charges: list[Charge] | None = None
    inflight: InFlight | None = None  # threads, slots and sessions; None for one capture
    outcomes: Outcomes | None = None  # what the server answered: statuses, requests that were tried again, lost state
    # who calls whom with which procedure, those without an answer first; empty without --all-programs
    called: dict[str, list[Called]] = {}
    # the load replayed with other numbers of threads or slots, one row a --what-if
    what_if: list[WhatIf] = []
    evidence: list[str] = []  # what hosts, applications and tracers say besides, in words
    # the latency stack; empty where no outside figure was given and no call is seen to wait for a thread
    stack: list[StackRow] = []
    # causes, largest share first; then what makes the captures a poor witness (layer capture)
    findings: list[Finding] = []
    verdict: Verdict | None = None  # None where no op is matched
    # where response times changed for good, the stretches between; empty where they did not. The verdict and the
    # findings are of one of them where it makes most of the time and says something else than the whole
    phases: list[Phase] = []
    # client by server, where there are several, most time first; then the verdict and the findings say of whom they are
    pairs: list[HostPair] = []
    pivots: list[Pivot] = []  # matched ops in groups, one table for each --by
    intervals: Intervals | None = None  # matched ops by time; None unless --interval asked for it
    # what pictures are drawn from; None where nothing asked for them, or only one capture was given
    pictures: Pictures | None = None
    # of captures that were read in windows, which have no pictures: slowest first; 20, or `--slowest`
    slowest: list[SlowOp] = []
    inferred: Inferred | None = None  # one capture was given, and the other side inferred
    alone: Alone | None = None  # the same of one capture; None where nothing asked for them, or two were given

    @property
    def slow_ops(self) -> list[SlowOp]:
        """The ops with the longest client SRT, slowest first, as far as they are known."""
        return self.slowest if self.pictures is None else self.pictures.slowest
