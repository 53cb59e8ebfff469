"""What the readers of outside evidence give: mean latencies of a layer, and what a host says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import field

from nfslat.evidence.when import Span
from nfslat.model.record import Record

_THREADS = ("nfsd.threads", "nfs.servers", "vfs.nfsd.maxthreads")  # Linux, Solaris, FreeBSD


class Latency(Record):
    """The mean latency of one layer, as somebody else measured it.

    `layer` is "application" (request to answer, as the application waits), "client" (an RPC in the client's kernel,
    waits for slots included), "slot wait" (of that: before it is sent), "client wire" (sent to answered), "server
    thread" (picked up by a thread to answered) or "storage".
    """

    layer: str
    op: str  # "READ", "WRITE" ... as nfsstat names it; "" for reads and writes together
    mean_ms: float
    count: int | None  # requests that the mean is over; None: not told
    source: str  # what printed it, and where: "mountstats /mnt/nfs", "10046 trace ora_1.trc"
    p99_ms: float | None = None  # None: not told. From a histogram it is the upper bound of the bucket
    max_ms: float | None = None
    server: str = ""  # of the mount (`Mount.server`); "": not told, or not of a mount
    # Of `mean_ms`, on the wire at that time, where it is a mean over far more than the captures: what the layer adds to
    # it counts, and the captures have their own time on the wire.
    wire_ms: float | None = None
    blocks: float | None = None  # of a database, for each wait; None: not told
    ops: float | None = None  # of a wait of several ops in a row, of which this is the time of each
    since_mount: bool = False  # counted since the mount, which may be long before the captures


def together(figures: Sequence[tuple[float, int | None]]) -> tuple[float, int | None]:
    """The mean of several means (ms, requests), and all requests; where not all tell these, each counts as much."""
    counts = [count for _, count in figures if count is not None]
    total = sum(counts) if len(counts) == len(figures) else None
    weights = counts if total else [1] * len(figures)
    return sum(mean * weight for (mean, _), weight in zip(figures, weights, strict=True)) / sum(weights), total


class Evidence(Record):
    """What one file of an application or a tracer says."""

    latencies: tuple[Latency, ...] = ()
    notes: tuple[str, ...] = ()  # one sentence each, for the reader of the report
    record: Any = None  # what is joined with captures, or judged beside them, in the form of its kind
    kind: str = ""  # its name in `nfslat.evidence.kinds.KINDS`
    name: str = ""  # of the file, without its folders
    span: Span | None = None  # when it was measured
    host: str = ""  # where: its name; "": not told
    side: str = ""  # "server" or "client", where the user says whose it is


class DatabaseTime(Record):
    """Of one instance, between two snapshots of AWR."""

    db_s: float
    cpu_s: float
    waits_s: float  # of foreground sessions, without idle waits
    all_waits: bool = True  # False: only the top events are known, so there may be more
    elapsed_s: float | None = None
    span: Span | None = None
    host: str = ""
    cpus: int | None = None
    load: float | None = None  # of the host, mean of its beginning and end; None: not told

    @property
    def nowhere_s(self) -> float:
        """What is in no wait and on no processor; negative where more was captured than there is."""
        return self.db_s - self.cpu_s - self.waits_s

    def share(self, seconds: float) -> float:
        """Of the database time."""
        return seconds / self.db_s


class DatabaseReport(Record):
    """An AWR, Statspack or ASH report, or a histogram of waits."""

    source: str  # "AWR report", "wait histogram", "ASH report"
    time: DatabaseTime | None = None
    instances: tuple[DatabaseTime, ...] = ()  # of a global report, which says nothing of a single one else
    on_cpu_percent: float | None = None  # of the samples of ASH, those in no wait


class Database(Record):
    """The time of a database that works on the client, and what its sessions were sampled in."""

    time: DatabaseTime
    source: str
    sure: bool  # of the captures' time, on the captures' client
    on_cpu_share: float | None = None  # of the samples of ASH, those in no wait; None: there is no ASH of this time


class Disk(Record):
    """Requests of a device, and their mean time."""

    name: str
    reads: float
    writes: float
    read_kib: float
    written_kib: float
    read_ms: float | None
    write_ms: float | None
    both_ms: float | None  # where they are not told apart


class HostLoad(Record):
    """How busy a host was while the captures ran. Shares are 0 to 1; None: not told."""

    source: str
    cpus: int | None = None
    runnable: float | None = None  # processes that run or wait for a processor
    idle: float | None = None  # of all processors
    steal: float | None = None  # what a hypervisor took of them
    busiest_cpu: float | None = None  # of its time
    soft_there: float | None = None  # of the time of that one, in soft interrupts
    swapped_kib_s: float | None = None  # in and out
    major_faults_s: float | None = None
    cpu_pressure: float | None = None  # of the time, some task waited for a processor (PSI)
    memory_pressure: float | None = None  # or for memory


class Setting(Record):
    """The value of a knob, and who says so."""

    value: str
    source: str  # a file and line, a command: "/proc/sys/sunrpc/tcp_slot_table_entries", "/etc/nfs.conf:12"


class OpStats(Record):
    """One operation of a mount; sums since the mount (RFC names as nfsstat prints them; nfs-utils, mountstats 1.1)."""

    ops: int
    transmissions: int
    timeouts: int
    bytes_sent: int
    bytes_received: int
    queue_ms: int
    rtt_ms: int
    execute_ms: int


class Xprt(Record):
    """One connection of a mount (``xprt:`` line); `*_u` are sums of queue lengths, one sample a transmission."""

    transport: str  # "tcp", "udp", "rdma", "local"
    source_port: int
    sends: int
    receives: int
    bad_xids: int
    req_u: int  # sum of slots in use
    backlog_u: int  # sum of requests that wait for a slot
    max_slots: int | None = None  # most slots that were ever used at once: not the limit
    sending_u: int | None = None
    pending_u: int | None = None
    connects: int | None = None
    idle_s: int | None = None


class Mount(Record):
    """One NFS mount of a client."""

    device: str  # "10.0.0.1:/export"
    path: str
    version: str  # "3", "4.1"; "" where it is not told
    options: Mapping[str, str] = field(default_factory=dict)  # in effect; a flag has the value ""
    age_s: int | None = None
    ops: Mapping[str, OpStats] = field(default_factory=dict)
    xprts: tuple[Xprt, ...] = ()
    slots: int | None = None  # of the NFSv4.1 session, where the host tells

    @property
    def server_name(self) -> str:
        """The server in `device`: ``10.0.0.1`` of ``10.0.0.1:/export``, ``fd00::1`` of ``[fd00::1]:/export``."""
        return self.device.partition(":/")[0].strip("[]")

    @property
    def server(self) -> str:
        """The server's address as ``addr=`` has it; without that option `server_name`, which may be a host name."""
        return self.options.get("addr") or self.server_name


class NfsdStats(Record):
    """/proc/net/rpc/nfsd. The histogram of its ``th`` line has been zero since 2009 and is not read."""

    threads: int
    counters: Mapping[str, int] = field(default_factory=dict)  # since the start: "proc3.6", "net.3"


class Pool(Record):
    """One line of /proc/fs/nfsd/pool_stats; counts since the start."""

    pool: int
    packets_arrived: int
    sockets_enqueued: int
    threads_woken: int
    threads_timedout: int


class Socket(Record):
    """A connection, from the host that printed it."""

    local: tuple[str, int]
    peer: tuple[str, int]
    figures: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # "rtt": (mean, deviation), as ss prints it

    def figure(self, name: str, place: int = 0) -> float | None:
        """A figure, or the second one behind its name; None where it is not printed."""
        told = self.figures.get(name, ())
        return told[place] if place < len(told) else None


class Snapshot(Record):
    """One host at one moment. What was not in the text is empty or None; `warnings` says what could not be read."""

    name: str  # of the file
    system: str  # "Linux", "SunOS", "FreeBSD" ... as uname prints it; "" where it is not told
    release: str = ""  # "6.1.0-18-amd64"
    distribution: str = ""  # ID and VERSION_ID of os-release: "debian 12", "rhel 9.4"
    hostname: str = ""
    taken: str = ""  # ISO 8601 with zone
    zone_min: int | None = None  # minutes that its wall clock is ahead of UTC
    boot: str = ""  # what is the same in all snapshots of one boot, and in those of no other
    memory_bytes: int | None = None
    cpus: int | None = None
    # In effect, by the knob's full name: "sunrpc.tcp_slot_table_entries" (sysctl), "net.ipv4.tcp_rmem",
    # "nfs.max_session_slots", "sunrpc.svc_rpc_per_connection_limit" (module parameters),
    # "nfsd.threads" (/proc/fs/nfsd/threads), "nfsd.max_block_size", "nfs.servers" (Solaris
    # sharectl), "vfs.nfsd.minthreads" (FreeBSD).
    settings: Mapping[str, Setting] = field(default_factory=dict)
    # As configuration files have them, which is what will be in effect after the next start: same names, and
    # "nfs.conf:nfsd.threads" (section and key). A misspelt name is kept as it is written.
    configured: Mapping[str, Setting] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    nfsd: NfsdStats | None = None
    pools: tuple[Pool, ...] = ()
    addresses: tuple[str, ...] = ()  # of the host
    clients: tuple[str, ...] = ()  # addresses with a connection to port 2049 of this host
    served: int | None = None  # such connections
    sockets: tuple[Socket, ...] = ()  # connections of NFS as its kernel has them
    kernel: Mapping[str, int] = field(default_factory=dict)  # by name (`nfslat.evidence.counters`)
    warnings: tuple[str, ...] = ()

    def setting(self, name: str) -> int | None:
        """A setting in effect as a number; None where the host does not say or it is no number."""
        found = self.settings.get(name)
        digits = "" if found is None else found.value.strip()
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None

    @property
    def threads(self) -> int | None:
        """Threads of its NFS server, or the most it may make; None where none runs or it is not told."""
        told = [value for name in _THREADS if (value := self.setting(name))]
        if told:
            return told[0]
        return self.nfsd.threads or None if self.nfsd is not None else None


class Interval(Record):
    """What one host did between two snapshots."""

    seconds: float | None  # None: not told
    latencies: tuple[Latency, ...] = ()  # of every mount; `source` and `server` name it
    mounts: tuple[Mount, ...] = ()  # counters are the growth, `age_s` is the length of the interval
    pools: tuple[Pool, ...] = ()  # counters are the growth
    span: Span | None = None  # between the two; None: not told
    load: HostLoad | None = None
    resent_share: float | None = None  # of the segments that the host sent, those that it had sent before
    disks: tuple[Disk, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader of the figures has to know


class FileEvent(NamedTuple):
    """A wait event that is file I/O (Oracle Database Reference, appendix "Oracle Wait Events")."""

    op: str  # "READ" or "WRITE"
    # False: the session waits for I/Os that it gave out before, and not for all of each: the mean wait is not the mean
    # time of an I/O ("direct path read": "the data is asynchronously read"; "db file parallel write": DBWR waits until
    # some of the writes are complete).
    blocking: bool


FILE_EVENTS: Mapping[str, FileEvent] = {
    name: FileEvent(op, blocking)
    for op, blocking, names in (
        # "db file parallel read": several reads at once, waited for together.
        ("READ", True, "db file sequential read,db file scattered read,db file parallel read"),
        ("WRITE", True, "db file single write"),
        ("WRITE", False, "db file parallel write"),
        ("READ", False, "direct path read,direct path read temp"),
        ("WRITE", False, "direct path write,direct path write temp"),
        ("READ", True, "log file sequential read,control file sequential read"),
        # "log file parallel write": LGWR waits until all of them are written.
        ("WRITE", True, "log file single write,log file parallel write"),
        ("WRITE", True, "control file single write,control file parallel write"),
    )
    for name in names.split(",")
}
_CUT_NAME = 24  # characters: a report has columns of 26 and more, and cuts longer names


def file_event(name: str) -> FileEvent | None:
    """What the wait event `name` does, also where a report has cut the name; None where it moves no data of a file."""
    name = " ".join(name.split())
    if name in FILE_EVENTS or len(name) < _CUT_NAME:
        return FILE_EVENTS.get(name)
    longer = {event for full, event in FILE_EVENTS.items() if full.startswith(name)}
    return longer.pop() if len(longer) == 1 else None
