"""The fleet's report as dataclasses: what was found goes in, every renderer gets this and nothing else.

Field names are the JSON contract ``nfslat.fleet/1`` (docs/fleet.md, ``fleet/schema.json``). Durations are float
milliseconds unless the name has another unit, counts integers, times ISO 8601 with zone on the server's clock; None is
"not known". Percentiles of one client are exact; those over clients come from histograms that can be merged, with a
relative error of at most `Fleet.relative_error`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nfslat.answer.figures import Summary
from nfslat.answer.model import Clock, ServerInFlight, Tool, Verdict

SCHEMA = "nfslat.fleet/1"


@dataclass(frozen=True)
class Worker:
    """One process that did work."""

    address: str
    host: str
    peak_rss_bytes: int | None  # None: it is gone
    memory_limit_bytes: int | None
    tasks: int


@dataclass(frozen=True)
class Run:
    """How the report was made."""

    scheduler: str  # address; "local" for a cluster of this run's own
    dashboard: str | None  # address of Dask's dashboard
    workers: list[Worker]
    wall_s: float
    tasks: dict[str, int]  # "done", "cached" (of an earlier run), "again" (a worker was lost), "failed"
    out: str | None  # folder or URL with shards and the clients' reports, by which a run goes on


@dataclass(frozen=True)
class Problem:
    """What could not be done, or was left out."""

    what: str  # file, client, or step
    why: str
    cost: str  # what the report lacks for it
    fatal: bool = True  # False: left out on purpose or harmless; does not change the exit status


@dataclass(frozen=True)
class Captures:
    """All files, together."""

    files: int
    bytes: int
    packets: int
    server_ops: int  # as the server's capture shows them, of all clients, captured or not
    client_ops: int
    matched_ops: int
    begin: str | None
    end: str | None


@dataclass(frozen=True)
class OpRow:
    """Matched ops of one operation, or of all, over all clients. Means are exact."""

    program: str
    op: str  # "all" for all of them
    version: str
    count: int
    client_ms: Summary
    server_ms: Summary
    network_ms: Summary
    queue_ms: float | None  # mean wait for a thread; None where the packets do not tell


@dataclass(frozen=True)
class ServerWindow:
    """The server in a stretch of time, over all its clients."""

    begin: str
    end: str
    ops: int
    ops_per_s: float
    in_flight_mean: float
    in_flight_max: int
    server_ms: float | None  # mean server SRT
    threads_lower_bound: int
    threads_estimate: int | None  # where a thread limit shows in this stretch by itself
    threads_range: tuple[int, int] | None
    limited: bool
    queue_ms: float | None  # mean wait for a thread of all calls that came in it


@dataclass(frozen=True)
class Phase:
    """Windows side by side in which the server was limited by its threads, or was not."""

    begin: str
    end: str
    limited: bool
    threads: int | None
    threads_range: tuple[int, int] | None
    ops: int
    queue_ms: float | None  # mean over its calls
    server_ms: float | None


@dataclass(frozen=True)
class Server:
    """The server, as its capture shows it: all clients, those that were not captured, too."""

    name: str
    addresses: list[str]
    clients: int  # addresses that call it
    clients_not_captured: list[str]
    ops: int
    inflight: ServerInFlight  # over the whole time and all clients
    windows: list[ServerWindow]
    phases: list[Phase]


@dataclass(frozen=True)
class Excess:
    """What the ops of a client took beyond what such ops take at the typical (median) client, summed; seconds.

    The parts sum to `total_s`; a part may be negative.
    """

    total_s: float
    network_s: float
    server_s: float  # beside the wait for a thread
    queue_s: float  # the wait for a thread; 0 where not known, it is then in `server_s`
    mean_ms: float  # total over the ops


@dataclass(frozen=True)
class Brief:
    """A finding of a client's own report."""

    code: str
    layer: str
    share: float | None
    confidence: str
    text: str


@dataclass(frozen=True)
class ClientWindow:
    """A client in a stretch of time (the same stretches as `Server.windows`)."""

    ops: int
    client_ms: float | None  # mean; None without ops
    server_ms: float | None
    network_ms: float | None
    queue_ms: float | None
    excess_ms: (
        float | None
    )  # mean against what such ops take at the typical client in calm times: a quarter of the windows


@dataclass(frozen=True)
class SetApart:
    """What a client has and the others do not; the worst of it, where that is several things."""

    layer: str  # server, network, client
    cause: str | None  # code of a finding
    confidence: str


@dataclass(frozen=True)
class Client:
    """One client; figures are of its matched ops."""

    name: str
    addresses: list[str]
    state: (
        str  # "compared"; "server only": no capture of its own; "client only": the server's does not show it; "failed"
    )
    groups: dict[str, str]  # "subnet", "nfs", "connections", "path", "server address", and the manifest's own
    ops: int
    missed: int  # ops of both captures without a partner, those outside of the common time left out
    client_ms: Summary | None
    server_ms: Summary | None
    network_ms: Summary | None
    queue_ms: float | None
    application_ms: float | None  # where it was given
    excess: Excess | None
    verdict: Verdict | None  # of its own report
    findings: list[Brief]
    clock: Clock | None
    round_trip_ms: float | None  # shortest
    lost_segments: int | None
    sent_again_share: float | None  # of the TCP bytes
    slots: int | None  # where slots hold it
    slots_held: str  # by: nothing, likely slots, workers, slots or workers, cannot tell
    in_flight_max: int
    audit: list[str]  # warnings on its captures
    outlier: bool
    set_apart: SetApart | None  # where it is an outlier
    why: str  # what sets it apart, one line; empty where nothing does
    windows: list[ClientWindow]
    report: str | None  # its two-sided report (JSON), where it was kept
    command: str  # that shows it again, two-sided


@dataclass(frozen=True)
class Pattern:
    """Something that adds time, and whom it hits: all clients, a group, or one."""

    scope: str  # "all", "group", "one"
    layer: str  # server, network, client
    cause: str | None  # code of a finding
    dimension: str | None  # "subnet", "nfs", ...; None where no attribute tells the group from the others
    value: str | None
    clients: list[str]
    of: int  # clients with that attribute (scope "all": all that were compared)
    begin: str | None  # when, where it is not all the time
    end: str | None
    effect_ms: float | None  # by how much ops of these take longer than those of the others, or wait
    excess_s: float | None
    share: float | None  # of the time of all ops of the fleet
    confidence: str  # high, medium or low
    p_value: float | None  # that chance makes such a group, corrected for the number of groups that were looked at
    text: str  # one sentence that can be pasted into a ticket
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FleetVerdict:
    """The answer."""

    layer: str  # server, network, client or unknown: where most of what can be explained arises
    cause: str | None
    confidence: str
    text: str  # two or three sentences: all, groups, single ones
    reasons: list[str]


@dataclass(frozen=True)
class Fleet:
    schema: str
    nfslat: Tool
    run: Run
    captures: Captures
    relative_error: float  # of percentiles over several clients
    window_s: float
    server: Server | None
    by_op: list[OpRow]
    total: OpRow | None
    clients: list[Client]  # those that suffer most first
    patterns: list[Pattern]  # what adds most first
    problems: list[Problem]
    notes: list[str]
    verdict: FleetVerdict
