"""The fleet's report as dataclasses: what was found goes in, every renderer gets this and nothing else.

Field names are the JSON contract ``nfslat.fleet/1`` (docs/fleet.md, ``fleet/schema.json``). Durations are float
milliseconds unless the name has another unit, counts integers, times ISO 8601 with zone on the server's clock; None is
"not known". Percentiles of one client are exact; those over clients come from histograms that can be merged, with a
relative error of at most `Fleet.relative_error`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from nfslat.answer.contract import (
    Count,
    Document,
    HowProven,
    HowSure,
    Layer,
    LayerOrCapture,
    LayerOrUnknown,
    Must,
    NotNegative,
    Share,
    VerdictOutcome,
)
from nfslat.answer.figures import GroupFigures, Summary
from nfslat.answer.inflight import Held, ServerInFlight
from nfslat.answer.model import Clock, Inferred, NextStep, Tool, Verdict
from nfslat.model.record import Record

SCHEMA = "nfslat.fleet/1"
CANNOT_TELL: Held = "cannot tell"


class Worker(Record):
    """One process that did work."""

    address: str  # its address in the cluster
    host: str  # name of its host
    peak_rss_bytes: Count | None  # most memory that it had resident; None where it is gone
    memory_limit_bytes: Count | None  # memory that it was given; None: no limit
    tasks: Count  # tasks that it did


class Run(Record):
    """How the report was made."""

    scheduler: str  # address of the scheduler; local for a cluster of this run's own
    dashboard: str | None  # address of Dask's dashboard
    workers: list[Worker]  # those that did work
    wall_s: NotNegative  # how long it took, seconds
    # "done", "cached" (of an earlier run), "again" (a worker was lost), "failed"
    tasks: Annotated[dict[str, Count], Must(propertyNames={"enum": ["done", "cached", "again", "failed"]})]
    out: str | None  # folder or URL with the clients' reports, and what a run goes on from


class Problem(Record):
    """What could not be done, or was left out."""

    what: str  # file, client, or step
    why: str  # the reason
    cost: str  # what the report lacks for it
    fatal: bool = True  # False: left out on purpose, or harmless; the exit status does not change


class Captures(Record):
    """All files, together."""

    files: Count  # capture files
    bytes: Count  # their size
    packets: Count  # packets in them
    server_ops: Count  # as the server's capture shows them, of all clients, captured or not
    client_ops: Count  # ops in the clients' captures
    matched_ops: Count  # ops that are in both
    inferred_ops: Count  # ops of one capture, of which the other host's times are inferred
    begin: str | None  # first packet, ISO 8601, server's clock; without its capture each client's own
    end: str | None  # last packet, the same


class OpRow(GroupFigures):
    """Ops of one operation, or of all, over all clients: those that are in both captures, and those of one capture
    whose times at the other host are inferred. Means are exact, but for what is inferred."""

    program: str  # RPC program
    op: str  # operation; all for all of them
    version: str  # version of the program
    count: Count  # ops with times of both sides
    inferred: Count  # of these, so many with times of one side that are inferred
    client_ms: Summary  # SRT at the client
    server_ms: Summary  # SRT at the server
    network_ms: Summary  # client SRT minus server SRT, op by op


class ServerWindow(Record):
    """The server in a stretch of time, over all its clients."""

    begin: str  # ISO 8601, server's clock
    end: str  # ISO 8601, server's clock
    ops: Count  # calls that came in it
    ops_per_s: float  # these per second
    in_flight_mean: float  # mean ops in flight
    in_flight_max: Count  # most ops in flight at once
    server_ms: float | None  # mean server SRT
    threads_lower_bound: Count  # so many threads exist, whatever the server is like
    threads_estimate: Count | None  # number of threads of the phase that most of its calls are in, where they wait
    threads_range: tuple[int, int] | None  # fewest and most threads that the packets allow
    limited: bool  # calls wait for a thread
    queue_ms: float | None  # mean wait for a thread of all calls that came in it; None where the packets do not tell


class Phase(Record):
    """A stretch of time in which the server was in one state, and was limited by its threads, or was not."""

    begin: str  # ISO 8601, server's clock
    end: str  # ISO 8601, server's clock
    limited: bool  # calls wait for a thread
    threads: Count | None  # number of threads
    threads_range: tuple[int, int] | None  # fewest and most threads that the packets allow
    ops: Count  # calls that came in it
    queue_ms: float | None  # mean wait for a thread
    server_ms: float | None  # mean server SRT
    cannot: str | None = None  # why it cannot be told whether threads limit it; None where it can


class Server(Record):
    """The server, as its capture shows it: all clients, those that were not captured, too."""

    name: str  # its name, or first address
    addresses: list[str]  # its addresses
    clients: Count  # addresses that call it
    clients_not_captured: list[str]  # of these, those without a capture of their own
    ops: Count  # ops in its capture
    inflight: ServerInFlight  # threads, over the whole time and all clients
    windows: list[ServerWindow]  # the time in equal stretches, in order
    phases: list[Phase]  # the time by the state that the server is in, in order


class Excess(Record):
    """What the ops of a client took beyond what such ops take at the typical (median) client, summed; seconds.

    The parts sum to `total_s`; a part may be negative.
    """

    total_s: float  # seconds
    network_s: float  # of it on the network, seconds
    server_s: float  # of it in the server, beside the wait for a thread, seconds
    queue_s: float  # of it the wait for a thread, seconds; 0 where not known, it is then in server_s
    mean_ms: float  # total_s over the ops, milliseconds


class Brief(Record):
    """A finding of a client's own report."""

    code: str  # name of the finding
    layer: LayerOrCapture  # where it is
    share: float | None  # share of the mean latency; None where it cannot be told
    confidence: HowProven  # certain: proven; likely: another cause would look alike
    text: str  # the finding in words


class ClientWindow(Record):
    """A client in a stretch of time (the same stretches as `Server.windows`)."""

    ops: Count  # with times of both sides
    client_ms: float | None  # mean client SRT
    server_ms: float | None  # mean server SRT
    network_ms: float | None  # mean time on the network
    queue_ms: float | None  # mean wait for a server thread
    # mean against what such ops take at the typical client in calm times: the lower quartile over the time
    excess_ms: float | None
    network_excess_ms: float | None  # of it on the network
    server_excess_ms: float | None  # of it in the server, waits for a thread included


class SetApart(Record):
    """What a client has and the others do not; the worst of it, where that is several things."""

    layer: Layer  # server, network, client
    cause: str | None  # code of a finding
    confidence: HowSure


class Client(Record, kw_only=True):
    """One client; figures are of its matched ops, or of those with inferred times."""

    name: str  # name or address
    addresses: list[str]  # its addresses
    # "compared": both captures; "inferred": one capture, the other host's times from its packets (`inferred`);
    # "server only", "client only": one capture, of which nothing is inferred (`why_not_inferred`); "failed" (`why`)
    state: Annotated[str, Must(enum=["compared", "inferred", "server only", "client only", "failed"])]
    # the captures that its figures rest on; what the other host did is inferred where there is one
    source: Annotated[str, Must(enum=["both", "server", "client", "none"])]
    # "subnet", "nfs", "connections", "path", "server address", and the manifest's own
    groups: dict[str, str] = {}
    ops: Count = 0  # with times of both sides
    missed: Count = 0  # ops without a partner, those outside of the common time left out
    client_ms: Summary | None = None  # SRT at the client
    server_ms: Summary | None = None  # SRT at the server
    network_ms: Summary | None = None  # client SRT minus server SRT, op by op
    queue_ms: float | None = None  # mean wait for a server thread; None where the packets do not tell
    application_ms: float | None = None  # latency that its application sees, where it was given
    excess: Excess | None = None  # against the typical client
    verdict: Verdict | None = None  # of its own report
    findings: list[Brief] = []  # of its own report
    clock: Clock | None = None  # of its own report
    round_trip_ms: float | None = None  # shortest round trip
    lost_segments: Count | None = None  # TCP segments that were lost, both ways
    sent_again_share: float | None = None  # share of the TCP bytes that was sent again
    slots: Count | None = None  # slots, where slots hold it
    slots_held: Held = CANNOT_TELL  # what keeps more from being in flight
    in_flight_max: Count = 0  # most ops in flight at once
    audit: list[str] = []  # warnings on its captures
    outlier: bool = False  # something sets it apart from the other clients
    set_apart: SetApart | None = None  # the worst of it
    why: str = ""  # what sets it apart, one line; empty where nothing does
    # of its own report: which host's times, and how far they may be off; None: measured
    inferred: Inferred | None = None
    why_not_inferred: str = ""  # why nothing is inferred of the host without a capture; empty elsewhere
    windows: list[ClientWindow] = []  # the same stretches as the server's windows
    report: str | None = None  # its own report (JSON), where it was kept
    command: str = ""  # shows it again


class Pattern(Record, kw_only=True):
    """Something that adds time, and whom it hits: all clients, a group, or one."""

    scope: Annotated[str, Must(enum=["all", "group", "one"])]  # whom it hits
    layer: LayerOrUnknown  # where it arises
    cause: str | None  # code of a finding
    dimension: str | None = None  # attribute that the group shares; None where none tells it from the others
    value: str | None = None  # its value
    clients: list[str]  # those that are hit
    of: Count  # clients with that attribute; for all: those that were compared
    begin: str | None = None  # from then on, ISO 8601, server's clock; None: from the beginning
    end: str | None = None  # until then; None: to the end
    effect_ms: float | None = None  # by how much their ops take longer than those of the others, or wait
    excess_s: float | None = None  # summed, seconds
    share: float | None = None  # of the time of all ops of the fleet
    confidence: HowSure  # how sure
    # that chance makes such a group, corrected for the number of groups that were looked at
    p_value: Share | None = None
    text: str  # one sentence that can be pasted into a ticket
    evidence: dict[str, Any] = {}  # the figures that it rests on
    inferred: Count = 0  # of `clients`: those whose figures in this are inferred


class FleetVerdict(Record):
    """The answer, as a report of two captures has it."""

    # fault: something adds time for all, for a group or for single clients; no-fault: nothing that was looked for does,
    # and no client's own report has a fault; undecided: it cannot be told, and `next` says what would
    outcome: VerdictOutcome
    layer: Layer | None  # whose fault it is; None: nobody's, or not known
    cause: str | None  # code of the finding that leads; None: none explains it
    confidence: HowSure  # how sure
    text: str  # two or three sentences: all, groups, single ones
    next: NextStep | None  # the measurement that would decide more; None: none would
    largest_layer: Layer | None  # where most of the time arises, whether or not that is a fault; None: not known
    reasons: list[str]  # why the confidence is what it is


class Fleet(Document):
    """What nfslat fleet --json writes. Durations are milliseconds (floats) unless the name has another unit, counts
    integers, times ISO 8601 with zone on the server's clock, None is not known."""

    made_by: ClassVar[str] = "nfslat fleet --json"

    schema: Annotated[str, Must(const=SCHEMA)]  # name and version of this contract
    nfslat: Tool  # what made the report
    run: Run  # how the report was made
    captures: Captures  # all files, together
    relative_error: NotNegative  # at most, of percentiles over several clients
    window_s: NotNegative  # length of the windows, seconds
    server: Server | None  # None where there is no capture of it
    by_op: list[OpRow]  # one row an operation
    total: OpRow | None  # all of them; None without matched ops
    clients: list[Client]  # those that suffer most first
    patterns: list[Pattern]  # what adds most first
    problems: list[Problem]  # what could not be done, or was left out
    notes: list[str]  # what limits the answer, in words
    verdict: FleetVerdict  # the answer
