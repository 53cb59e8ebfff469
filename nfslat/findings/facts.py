"""What every finding goes by: means over some ops and over the slowest 1 %, limits, and evidence from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nfslat.answer.model import (
    CapInFlight,
    ClientInFlight,
    Hang,
    MatchedRow,
    Parts,
    ServerInFlight,
    SessionInFlight,
    Unanswered,
)
from nfslat.decompose import PART_NAMES
from nfslat.findings.catalogue import ROWS, row
from nfslat.findings.layers import Layers
from nfslat.findings.unseen import WithUnseen
from nfslat.model.causes import FROM_OUTSIDE, Cause
from nfslat.model.protocol import DATA_OPS
from nfslat.model.record import Record
from nfslat.wire.above import Why
from nfslat.wire.connecting import Fate
from nfslat.wire.size_limit import SizeLimit

if TYPE_CHECKING:
    from nfslat.evidence.records import Database, HostLoad, Snapshot

AT_SERVER, AT_CLIENT = ("call_net", "server"), ("reply_net",)  # parts in which ops wait for a host that does not run
# What waits for a disk: a server has to have on stable storage what it says it changed (RFC 1813, 1.5 and 3.3.2 on).
UNSTABLE_WRITE = "WRITE UNSTABLE"  # of which it may be only in memory: no op of `STORAGE_OPS`
CHANGES = frozenset("WRITE COMMIT CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK SETATTR".split())
STORAGE_OPS = CHANGES.union(DATA_OPS, ("READDIR", "READDIRPLUS"))

# How often a server's processor is needed, one time after the other: by a change for each of several writes, the file
# system's journal included. In the lab READs take 1 to 3 times what calls are late, and changes 3 to 9 times.
WAKES, WAKES_OF_A_CHANGE = 3, 8

LONG_MS = 5.0  # in a thread; a healthy disk or cache answers sooner
_MS_PER_BYTE = 1e-5  # on top: 100 MB/s, which a disk or a processor that copies the data may take

_FEW_OPS = 50


class Reconnects(NamedTuple):
    """Ops that were sent again on a new connection."""

    ops: int
    mean_ms: float  # client SRT
    excess_ms: float  # of the mean over all ops: what these took beyond what the others take


class Failing(NamedTuple):
    """Ops of one operation that the server answered with one status."""

    op: str
    status: str
    ops: int
    of: int  # ops of this operation
    clients: Sequence[str]  # that with most of them first
    files: int
    names: Sequence[str]  # some that their calls show
    since: str
    until: str


class Resent(NamedTuple):
    """Ops whose call RPC sent again on the same connection, all about as long after the first time."""

    ops: int
    after_ms: float  # median
    answered_twice: int  # of them
    by: str  # tcp or udp


class Connects(NamedTuple):
    """Connections whose first SYN was not answered."""

    connections: int
    total_ms: float
    fate: Fate  # of most of them
    time_share: float | None  # of the time of the client's capture
    still: int  # that were not open when that ended


class SlowOps(NamedTuple):
    """Ops of some operations that take far longer in the server than the others of the same, waits for a thread aside.

    Instants are the client's, as text; "" where it is the beginning or the end of what was captured.
    """

    ops: tuple[str, ...]  # names
    slow: int  # of
    of: int
    slow_ms: float  # median
    others_ms: float  # median
    mean_ms: float  # of the mean over all ops: what the slow ones make
    slowest_ms: float  # the same of the slowest 1 %
    part: tuple[str, str] | None = None  # in which part of the time they come; None: not in one
    stalls: int = 0  # in which they come together; 0: they do not
    stall_ms: float = 0.0  # median
    every_s: float = 0.0  # they come regularly; 0: they do not
    alone: bool = False  # as if drawn
    overtaken: float = 0.0  # share of them beside which other ops were answered quickly
    light_quick: int = 0  # ops that need neither data nor a name, and came meanwhile
    light_slow: int = 0  # of those
    unstable: float = 0.0  # of the slow ones: WRITEs that need not be on stable storage
    late_ms: float | None = None  # as `LateCalls.mean_ms`, of the calls that came meanwhile; None: too few of them


class LateCalls(Record):
    """How late calls came to the server's capture while that showed nothing at all, and nothing else explains it."""

    mean_ms: float
    op_ms: float  # mean time in a thread of the operation that has most, of those that read or change the disk
    # What the quickest of it take: half as many as the host must have been prompt with, each time that they needed it;
    # None: too few of them.
    quickest_ms: float | None


class DelayedAcks(Record):
    """Pauses of a sender that an ACK ended which its receiver had kept back."""

    count: int
    timer_ms: int | None  # the timer that goes with most of them; None: none that is known
    median_ms: float  # from the last data to that ACK


class Hog(NamedTuple):
    """Who else has most of what hosts share."""

    name: str  # the address of a client, or a stream without RPC
    share: float


class Jitter(NamedTuple):
    """By how much messages of a direction that waited for nothing else took longer than the shortest way."""

    low_ms: float  # nine of ten by more
    median_ms: float
    high_ms: float  # one of ten by more


HOG = 0.5  # of what is shared: who has that much, beside others, makes their queue


class Rate(NamedTuple):
    """A direction of the path that carried all it can."""

    way: str  # "call" or "reply"
    client: str
    server: str
    mbit_per_s: float  # payload
    share: float  # of the time in which it carried any
    hog: Hog | None = None


class HostPauses(Record):
    """Times in which a host took nothing and sent nothing, and others sent to it."""

    count: int
    total_ms: float
    longest_ms: float
    at: str = ""  # of the longest one: when it began, by the client's clock
    frame: int | None = None  # of that host's own capture: the first that it then took


class KeptAbove(Record):
    """Times in which no request could leave the client (`nfslat.wire.above`)."""

    count: int
    total_ms: float
    longest_ms: float
    at: str  # of the longest one: when it began, by the client's clock
    above_wire_ms: float  # mean over the ops, at most, which no op's SRT holds: what requests waited there for it


class PutOff(Record, kw_only=True):
    """Requests that the server answered with errors of one kind, and that were tried again as new calls."""

    requests: int = 0  # that were tried again
    tries: int = 0  # of these
    answers: int  # with such errors, those included that no further try came behind
    statuses: Mapping[str, int]  # of the answers, by name, the most frequent first
    ops: Sequence[str]  # operations of the answers, the most frequent first
    succeeded: int = 0  # of the requests
    open: int = 0  # put off to the end of the capture: their times are at least those
    mean_ms: float = 0.0  # of the requests, from the first try to the last answer
    longest_ms: float = 0.0
    total_between_ms: float = 0.0  # of all of them what passed between tries
    between_ms: float = 0.0  # the same as a mean over the ops that the facts' `mean` is over: in no response time
    since: str  # the first of these answers' calls
    until: str  # the last answer
    back_off_fits: int = 0  # waits for the next try that a client's known back-off makes
    back_off_of: int = 0  # of so many of which one is known
    holders: Sequence[tuple[str, int]] = ()  # clients that had locks on these files, or were asked for delegations


class InSeries(NamedTuple):
    """Calls that ask what files are, each as the answer before has come."""

    calls: int
    share: float  # of all response times
    elapsed_ms: float
    files: int
    again: int  # of the calls, those that ask what was answered less than 3 s before
    listings: int  # READDIRs whose replies hold no attributes


class InPieces(NamedTuple):
    """Calls of the application, or its waits, that are several operations in a row; means."""

    call: str  # "db file scattered read", "pread"
    calls: int
    op: str
    ops: float  # of a call
    size: float  # bytes of each of them
    total_ms: float
    network_ms: float  # of all its ops
    server_ms: float
    gap_ms: float  # from an answer to the next of its calls
    is_joined: bool = True  # each with its own operations; else they are as long as these, which go on in a file


class Stalls(Record):
    """What TCP and the path made of the time, by (part, cause): mean ms over the same ops as the facts' `mean`."""

    mean_ms: Mapping[tuple[str, str], float]
    slowest_ms: Mapping[tuple[str, str], float]  # of the slowest 1 %
    ops: Mapping[tuple[str, str], int]
    delayed_acks: Mapping[str, DelayedAcks] = {}  # "call_send", "reply_send": of whose sender
    rates: Sequence[Rate] = ()
    host_pauses: Mapping[str, HostPauses] = {}  # "server", "client"

    def ms(self, causes: Collection[str], parts: Collection[str] = PART_NAMES) -> float:
        """What these causes made of these parts."""
        return sum(one for (part, cause), one in self.mean_ms.items() if part in parts and cause in causes)

    def slow_ms(self, causes: Collection[str], parts: Collection[str] = PART_NAMES) -> float:
        """The same of the slowest 1 %."""
        return sum(one for (part, cause), one in self.slowest_ms.items() if part in parts and cause in causes)

    def hits(self, causes: Collection[str], parts: Collection[str] = PART_NAMES) -> int:
        """Ops that any of it hit: at least so many."""
        return max((n for (part, cause), n in self.ops.items() if part in parts and cause in causes), default=0)


_WAITED_FOR = ("grace", "delay", "state")  # of `Says`
_MOVES = 0.01  # of the layer that it is taken from; less is not worth figures that differ from those of the SRTs


def moved_ms(of: Mapping[tuple[str, str], float], server_ms: float, network_ms: float) -> dict[str, float]:
    """What each layer has beside what its name says, ms; the sum is 0, and nothing where nothing is worth it.

    The network's are waits within the server's response time that TCP made; a host's is what lay on the way to it
    while it did not run. `server_ms` and `network_ms` are what both add by their SRTs.
    """

    def worth_it(ms: float, whole_ms: float) -> float:
        return ms if whole_ms > 0 and ms >= _MOVES * whole_ms else 0.0

    waits_of_tcp = sum(one for (part, cause), one in of.items() if part == "server" and cause in FROM_OUTSIDE)
    from_server = worth_it(waits_of_tcp, server_ms)
    at_server, at_client = (
        worth_it(of.get((part, Cause.HOST_PAUSE), 0.0), network_ms) for part in ("call_net", "reply_net")
    )
    moved = {"server": at_server - from_server, "network": from_server - at_server - at_client, "client": at_client}
    return moved if any(moved.values()) else {}


class Facts(Record):
    """Durations are ms. None is "not known" everywhere, and what is not known makes no finding.

    `mean` is over the ops that the verdict is about; where the application's time is known that is those it speaks of.
    """

    mean: Layers
    slowest: Layers | None = None
    parts: Parts | None = None  # of the same ops as `mean`
    slowest_parts: Parts | None = None
    by_op: Sequence[MatchedRow] = ()
    queue_ms: float | None = None  # part of the server's: the wait for a thread
    slowest_queue_ms: float | None = None
    queue_is_measured: bool = False  # on the server (DTrace, tracepoints), not inferred from packets
    storage_ms: float | None = None
    least_round_trip_ms: float | None = None
    late: LateCalls | None = None  # None: data are quick, or not known
    throughput_per_s: float | None = None
    lost_segments: int | None = None
    size_limit: SizeLimit | None = None  # that makes most of the bytes that were lost
    incomplete: int = 0  # UDP datagrams that came without one of their fragments, and had to be sent again
    lost_share: float = 0.0  # of the bytes between the captures, where both show all of them
    spurious_segments: int | None = None  # sent again although they had arrived
    arrived_again: int = 0  # ops of one capture of which something was sent again and had arrived, as D-SACKs say
    stalls: Stalls | None = None
    jitter: Mapping[str, Jitter] = {}  # by part, of directions that hold nearly all messages
    hogs: Mapping[str, Hog] = {}  # by the layer whose queue it is
    server: ServerInFlight | None = None
    client: ClientInFlight | None = None
    sessions: Sequence[SessionInFlight] = ()
    caps: Sequence[CapInFlight] = ()
    reconnects: Reconnects | None = None
    connects: Connects | None = None
    failing: Sequence[Failing] = ()
    sent_again: Resent | None = None
    slow_ops: SlowOps | None = None
    sessions_open: float | None = None  # requests that the application has open on average, by Little's law
    kept_above: Mapping[str, KeptAbove] = {}  # by `Why`
    put_off: Mapping[str, PutOff] = {}  # by `Says`
    recoveries: Sequence[tuple[str, float]] = ()  # when the client made its session or leases anew, and for how long
    unanswered: Sequence[Unanswered] = ()  # the longest wait first
    hangs: Sequence[Hang] = ()  # those that hang still first, and the longest of each
    in_series: InSeries | None = None  # where they are half of all response times
    tick_ms: float | None = None  # of stamps that bear no more than means; None: they bear all
    in_pieces: InPieces | None = None  # of the kind of call that is most of the time in such
    is_in_turn: bool = False  # most ops are sent right behind the answer to another of their caller
    late_stamps: bool = False  # one-way figures are off by them
    captured_within_ms: float | None = None  # what either host sends, by its TCP's clock; None: later, or not known
    ops: int = 0  # that `mean` is over
    data_bytes: float = 0.0  # mean payload of their READs and WRITEs
    longest_ms: float | None = None  # client SRT of the slowest op of those that `mean` is over
    unseen_share: float = 0.0  # of the RPC messages that the captures should show
    unseen: WithUnseen | None = None  # means with the ops that are not shown; None: not known, or there are none
    version: str = ""  # of NFS: "3", "4.1"
    threads: int | None = None  # as the server says
    woken_share: float | None = None  # of its queued sockets, those that found an idle thread
    least_queue_ms: float | None = None  # of the server's, what calls wait at least where it has so many `threads`
    slots: int | None = None  # as the client says
    slot_wait_ms: float | None = None  # as the client says: mean wait of an RPC before it is sent
    since_mount: frozenset[str] = frozenset()  # of `Known`, fields that tell of more than the time of the captures
    resent_share: float | None = None  # of the segments that both hosts sent, those that they count as sent again
    database: Database | None = None
    loads: Mapping[str, HostLoad] = {}  # by side
    server_host: Snapshot | None = None
    client_host: Snapshot | None = None

    def share(self, ms: float, *, of_all: bool = False) -> float:
        """Share of the whole: of the application's time where it is known, else the client's SRT. Where ops that are
        not shown matter, the least: `ms` is a mean of those that are, or `of_all`."""
        if self.unseen is not None and self.is_reckoned and not of_all:
            ms *= 1 - self.unseen.share
        return ms / self.mean.total_ms if self.mean.total_ms > 0 else 0.0

    def counted(self, code: str) -> bool | None:
        """Does what a host counts speak for a finding, or against it (False)? None: it does not, or is not known."""
        counter = row(code).counter
        value = None if counter is None else getattr(self, counter.figure)
        if counter is None or value is None:
            return None
        ranges = ((True, counter.speaks_for), (False, counter.speaks_against))
        return next((speaks for speaks, (low, high) in ranges if low <= value <= high), None)

    @property
    def measured(self) -> frozenset[str]:
        """Commands of the measurements whose counters are known: nobody is to be asked for them again."""
        counters = [finding.counter for finding in ROWS if finding.counter is not None]
        return frozenset(each.step.command for each in counters if getattr(self, each.figure) is not None)

    @property
    def slot_wait_share(self) -> float | None:
        """What a call waits before it is sent, as the client counts it, in times of what it takes on the wire."""
        wire_ms = self.mean.server_ms + self.mean.network_ms
        return None if self.slot_wait_ms is None or wire_ms <= 0 else self.slot_wait_ms / wire_ms

    @property
    def storage_share(self) -> float | None:
        """The storage's own time, of the server's."""
        server_ms = self.mean.server_ms
        return None if self.storage_ms is None or server_ms <= 0 else self.storage_ms / server_ms

    def share_within(self, layer: str, ms: float) -> float:
        """The same of what `layer` adds, and no more than all of that: small waits stay where they lie (`moved_ms`)."""
        return min(self.share(ms), max(self.mean.share(layer), 0.0))

    def slowest_share(self, ms: float | None) -> float | None:
        """Of the slowest 1 % on the client's wire: of the application no more than a mean is known."""
        if ms is None or self.slowest is None:
            return None
        if self.slowest.total_ms <= 0 or self.slowest.network_ms < 0:
            return None  # parts of a whole that holds a negative one are no shares
        return ms / self.slowest.total_ms

    def kept_ms(self, why: Why) -> float:
        """Of the application's time above the wire what these times may have made; 0 where it is not known.

        What all of them may have made may be more than there is; then each has its part of that.
        """
        bounds = {one: kept.above_wire_ms for one, kept in self.kept_above.items() if self._is_worth_it(one, kept)}
        there_is = self.mean.client_ms or 0.0
        bound = bounds.get(why, 0.0)
        return bound if sum(bounds.values()) <= there_is else there_is * bound / sum(bounds.values())

    def _is_worth_it(self, why: str, kept: KeptAbove) -> bool:
        """Less is the rest's. What a pause costs ops on the wire makes a finding of less, which then says both."""
        return why == Why.HOST_PAUSE or self.share(kept.above_wire_ms) >= _SOME

    @property
    def lacks_processors(self) -> bool:
        """Does the client's database spend much of its time without a wait and without a processor? Then the waits that
        it times hold time without one, too."""
        base = self.database
        return base is not None and base.sure and base.time.nowhere_s >= NO_WAIT * base.time.db_s

    @property
    def kept_by(self) -> dict[str, float]:
        """The same by the layer that kept requests from leaving, where that is another than the client."""
        by = {
            "server": self.kept_ms(Why.NO_CONNECTION) + self.kept_ms(Why.WINDOW),
            "network": self.kept_ms(Why.LOSS) + self.kept_ms(Why.CONNECTING),
        }
        return {layer: kept for layer, kept in by.items() if kept}

    @property
    def above_ms(self) -> float | None:
        """Of the application's time above the wire what its client made while requests could leave it."""
        if self.mean.client_ms is None:
            return None
        kept = sum(self.kept_ms(why) for why in Why) + sum(self.put_off_ms(one) for one in self.put_off)
        return max(self.mean.client_ms - kept, 0.0)

    def put_off_ms(self, reason: str) -> float:
        """What passes between tries of requests that the server put off: a mean over the ops of `mean`, above the wire.

        Of an application's time no more than what is there.
        """
        ms = self.put_off[reason].between_ms if reason in self.put_off else 0.0
        if self.mean.client_ms is None or not ms:
            return ms
        there_is = max(self.mean.client_ms - sum(self.kept_ms(why) for why in Why), 0.0)
        return ms * min(there_is / sum(one.between_ms for one in self.put_off.values()), 1.0)

    def put_off_share(self, reason: str) -> float:
        """Of the application's time; else of all response times and what passes between tries, but those for a lock."""
        counted = [one.between_ms for name, one in self.put_off.items() if name in (reason, *_WAITED_FOR)]
        whole = self.mean.total_ms + (0.0 if self.mean.client_ms is not None else sum(counted))
        return self.put_off_ms(reason) / whole if whole > 0 else 0.0

    @property
    def unseen_ms(self) -> float | None:
        """What ops that are not in the captures would have to take, each, for nothing to be left above the wire.

        None where none of those that are there took as long: they would be of another kind; and where it is known what
        they took.
        """
        if self.unseen is not None:
            return None
        left = self.above_ms
        if not left or not self.unseen_share or self.longest_ms is None:
            return None
        each_ms = self.mean.server_ms + self.mean.network_ms + left / self.unseen_share
        return each_ms if each_ms <= self.longest_ms else None

    @property
    def is_reckoned(self) -> bool:
        """Are the means the most that may be, since ops that are not shown have much of the time?"""
        return self.unseen is not None and self.unseen.matters

    @property
    def in_thread_ms(self) -> float:
        """The server's own time without the wait for a thread, as far as that is known, and while it did run."""
        paused = 0.0 if self.stalls is None else self.stalls.ms({Cause.HOST_PAUSE}, AT_SERVER)
        return max(self.mean.ms("server") - self._unseen_server_ms - (self.queue_ms or 0.0) - paused, 0.0)

    @property
    def unseen_network_ms(self) -> float:
        """What the ops that are not shown add to the network's time; nothing tells what they wait for there."""
        if self.unseen is None or not self.is_reckoned:
            return 0.0
        return max(self.mean.network_ms - self.unseen.seen.network_ms, 0.0)

    @property
    def _unseen_server_ms(self) -> float:
        """Of the server's in `mean` what ops that are not shown bring: nobody knows what it did with them."""
        if self.unseen is None or not self.is_reckoned:
            return 0.0
        return max(self.mean.server_ms - self.unseen.seen.server_ms, 0.0)

    def op(self, names: frozenset[str]) -> tuple[int, float, float] | None:
        """Of the matched ops with one of `names`: how many, and means of queue and of time in a thread."""
        rows = [row for row in self.by_op if row.op in names]
        ops = sum(row.count for row in rows)
        if not ops:
            return None
        queue = sum((row.queue_ms or 0.0) * row.count for row in rows) / ops
        return ops, queue, sum(row.server_ms.mean * row.count for row in rows) / ops - queue

    @property
    def long_ms(self) -> float:
        """What takes so long in a thread is slow, for ops with so much data."""
        return LONG_MS + _MS_PER_BYTE * self.data_bytes

    @property
    def few_ops(self) -> bool:
        """Of the operation that makes most of the server's time too few for any certainty of what the server does."""
        most = max(self.by_op, key=lambda row: row.count * row.server_ms.mean, default=None)
        return most is not None and most.count < _FEW_OPS

    @property
    def sessions_needed(self) -> int | None:
        """Little's law: requests that the application has open at once; None where its time is not known."""
        if self.mean.client_ms is None or self.throughput_per_s is None:
            return None
        return max(round(self.throughput_per_s * self.mean.total_ms / 1e3), 1)


MATTERS = 0.10
TICKS_ALIKE = 2  # of a clock that ticks slowly: what takes less than one tick looks like none or one
NO_WAIT = 0.2  # of a database's time
_SOME, _SOME_SLOWEST = 0.05, 0.10  # of the mean, or of the slowest 1 %: what all connections may have now and then


def worth(f: Facts, mean_ms: float, slow_ms: float, least: float = _SOME) -> bool:
    """Do waits explain enough for a finding, of the mean or of the slowest ops?"""
    return f.share(mean_ms) >= least or (f.slowest_share(slow_ms) or 0.0) >= _SOME_SLOWEST
