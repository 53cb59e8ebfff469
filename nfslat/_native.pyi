"""The native decoder (native/): capture files -> columns. Absent where it was not compiled; then tshark decodes."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Protocol, TypeAlias, TypedDict, final

import numpy as np
import numpy.typing as npt

VERSION: str

class NotACapture(ValueError):
    """(text, index of the file): its bytes are of no format that the decoder reads."""

@final
class Job:
    """A running `decode` or `packets`, seen from another thread."""

    def __init__(self) -> None: ...
    @property
    def bytes(self) -> int:
        """Bytes of the files read so far, compressed as they are."""
    @property
    def packets(self) -> int:
        """Packets read so far."""
    def stop(self) -> None:
        """Make it end with ``InterruptedError``, soon."""

def confine(writable: Sequence[str]) -> list[str]:
    """Restrict the calling thread, and all that it starts, for good: it writes below the folders `writable` alone,
    opens no socket, signals no other process. Returns what holds of "files" and "sockets". Of Linux only."""

def peek(path: str | PathLike[str]) -> tuple[str, int | None, int | None]:
    """Format of a capture, time of its first packet (int ns since 1970; None: no packet), and a strange link type.

    The link type (LINKTYPE_ number) is that of the first packet; None where the decoder knows it, or one that follows.

    Raises ``NotACapture``, ``OSError``, or ``ValueError`` where the file is damaged before its first packet.
    """

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""The columns of a table by their names, with the dtypes of the table."""
Ends: TypeAlias = tuple[str, str, int, str, int]
"""What makes a `nfslat.model.tables.Connection`."""

@final
class File:
    """What one file of a capture was; times are 0 without packets."""

    format: str
    snaplen: int | None
    packets: int
    first_ns: int
    last_ns: int
    damage: str | None
    dropped: int
    untimed: int
    link: int | None  # link type of its first packet, where the decoder does not know it
    misdated: int
    late: int  # packets that were put in front of later ones
    latest_ns: int
    run_begins: npt.NDArray[np.uint32]  # `nfslat.decode.capture.Runs`; none where packets were read in the file's order
    run_numbers: npt.NDArray[np.uint32]

def prints(paths: list[str], job: Job, wanted: int | None = None) -> Columns:
    """A row for each packet of captures, one after the other, as one (`nfslat.decode.twice.Prints`); of the first
    `wanted` at least."""

def share_out(paths: list[str], outs: list[str], shares: npt.NDArray[np.uint8], job: Job) -> None:
    """Write each packet to that of `outs` whose number `shares` has; one with another number goes nowhere."""

def cut(
    path: str | PathLike[str],
    out: str | PathLike[str],
    spans: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int32]],
    ways: Sequence[tuple[str, int, str, int]],
) -> npt.NDArray[np.uint32]:
    """Write packets of a file, in its order, to `out` as pcapng; returns their numbers.

    They are those between the first and the last numbers of `spans`, which are in the order of the first ones, that go
    from one end to the other of a row of `ways` (below 0: all), and those with which such a connection begins.
    """

@final
class Lines:
    """The columns of a table of numbers, as text."""

    def __init__(self, columns: Sequence[tuple[str, str, str, Sequence[str] | None]]) -> None:
        """For each what stands in front of it always, and where it is not null; its form; and its texts, where its
        numbers are rows of these.

        Forms are "decimal", "hex", "hex8" (eight digits), "micros", "seconds" and "moment" of ns, "text", "cell" (a
        text as CSV quotes it) and "nothing". Raises ``ValueError`` for any other.
        """

    def of(self, cells: Sequence[tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.bool_] | None]], rows: int) -> str:
        """All that stands in some rows: the numbers of each column (None: its form is "nothing"), and where it is null.

        Raises ``ValueError`` where these are not as many, not as long, or rows of no text.
        """

def unreadable(path: str) -> tuple[int, int, int, int]:
    """Of the first 65,536 packets: how many, those of RDMA, those of them with NFS, TLS records on NFS's port."""

@final
class Tables:
    """Columns of the tables of `nfslat.model.tables` and `nfslat.model.details`."""

    ops: Columns
    callers: Columns
    loose: Columns
    slots: Columns
    names: Columns
    failures: Columns
    files: Columns
    resent: Columns
    blocked: Columns
    tcp: Columns
    events: Columns  # TcpEvents
    pauses: Columns
    hangs: Columns
    loads: Columns
    others: Columns
    unread: Columns
    replies: Columns
    unanswered: Columns
    turns: Columns  # of a part of a capture; else empty

@final
class Dropped:
    """Rows of tables beyond those that are kept (`nfslat.model.details.Details`)."""

    files: int
    resent: int
    blocked: int
    events: int
    pauses: int
    hangs: int
    loads: int
    unread: int

@final
class Counts:
    """What is counted, as in `nfslat.model.decoded.Decoded`; its `repeats` are `repeated` and `duplicated`."""

    packet_kinds: dict[str, int]
    hidden: int
    malformed: int
    duplicate_packets: int
    repeated: int
    duplicated: int
    lost_ranges: int
    lost_bytes: int
    wire_bytes: int
    captured_bytes: int
    tls_connections: int
    busiest_second_packets: int
    backward_times: int
    largest_backward_ns: int

@final
class Found:
    """What was found in the packets of a capture, or of a part of it."""

    tables: Tables
    connections: list[Ends]
    segments: list[Columns]  # each of `nfslat.model.segments.Segments`; none where they were not asked for
    kinds: list[tuple[int, int, int, int, list[int], int]]  # as `nfslat.model.tables.Kind`, and the RPCSEC_GSS service
    sessions: list[bytes]  # of Slots
    created_sessions: list[tuple[int, bytes, tuple[int, int, int, int, int]]]  # as `nfslat.model.details.SessionLimits`
    names: list[bytes]  # of Names and Files
    file_handles: list[bytes]  # of Files
    load_stretch_ns: int  # of Loads
    streams: list[tuple[str, int, str, int]]  # of Others
    other_stretch_ns: int
    dropped: Dropped
    counts: Counts
    first_ns: int  # of its packets, 0 without any
    last_ns: int
    files: list[File]  # of a part: none

def decode(
    paths: Sequence[str | PathLike[str]],
    nfs_ranks: bytes,
    callback_ranks: bytes,
    action_rank: int,
    job: Job,
    segments: int = 0,
    files: bool = True,
) -> Found:
    """Decode capture files, one after the other, as one capture; runs without the GIL. "-" is standard input.

    `segments`: which of those of its TCP connections are wanted (`nfslat.model.segments.Wanted`); `files`: whether the
    table of this name is. The ranks of the operations of a COMPOUND (`nfslat.model.protocol.op_ranks`) find the one
    that names it. Raises ``NotACapture``,
    ``OSError`` (errno, text, index of the file), ``ValueError`` (text, index of the file) for what cannot be read at
    all, ``InterruptedError`` after `Job.stop`.
    """

@final
class Windows:
    """A capture, decoded in windows of its clock by a thread of its own, which is never more than two ahead.

    Numbers of connections, kinds, names, handles and sessions are those of the whole capture (up to `renew`), and each
    window has all that were given so far. What is counted is counted since the window before; but `tables.tcp`, lost
    ranges and bytes, TLS connections, the busiest second and the largest step back are of all packets so far.
    """

    def __init__(
        self,
        paths: Sequence[str | PathLike[str]],
        width_ns: int,
        nfs_ranks: bytes,
        callback_ranks: bytes,
        action_rank: int,
        job: Job,
        ring_bytes: int | None = None,
        first_ops: int = 0,
        least_ops: int = 0,
        segments: int = 0,
        files: bool = True,
    ) -> None: ...
    def ready(self) -> bool:
        """Would `take` give something at once? Waits for 50 ms."""

    def take(self) -> tuple[int, int, tuple[bool, bool], Found] | None:
        """When the next window begins and ends (int ns), whether it is the last one before `renew` takes effect, or of
        all, and what ended in it; None when there is no more. Raises what `decode` raises."""

    # With `ring_bytes`, which may be 0.
    @property
    def newest_ns(self) -> int | None:
        """Time of the newest packet that was read."""

    @property
    def is_worn(self) -> bool:
        """Has the decoder seen so much that its tables will be full one day?"""

    def renew(self, t_ns: int) -> None:
        """From the first packet of this time on everything is new, and all numbers are."""

    def write_packets(
        self, path: str | PathLike[str], begin_ns: int, end_ns: int, later_ns: int, name: str
    ) -> tuple[int, int, int]:
        """Write the packets of a time that the ring still has as pcapng, `later_ns` later, on interfaces of this name;
        returns their number, and when the first and the last of them were captured."""

    @property
    def files(self) -> list[File]:
        """Each of the files, when all windows were taken."""

@final
class Parts:
    """A capture by pairs of addresses."""

    hosts: list[tuple[str, str, Found]]  # those with RPC, in the order in which they show it
    rest: Found  # of all other packets
    # Of all packets.
    busiest_second_packets: int
    backward_times: int
    largest_backward_ns: int
    files: list[File]

def decode_apart(
    paths: Sequence[str | PathLike[str]],
    nfs_ranks: bytes,
    callback_ranks: bytes,
    action_rank: int,
    job: Job,
    without: Sequence[str] | None = None,
) -> Parts:
    """As `decode`, apart by the IP addresses of the packets; frames are those of the whole set.

    `without`: segments are kept of all pairs in which none of these addresses is; None: of no pair.
    """

@final
class Slices:
    """What `split` saw of the packets."""

    seconds: _I64  # each second with packets, from `since_ns` on
    counts: _I64  # packets in it
    ends_ns: tuple[int, int] | None  # times of the first and of the last packet
    backward_times: int
    largest_backward_ns: int
    files: list[File]

def split(paths: Sequence[str | PathLike[str]], outs: Sequence[str | PathLike[str]], since_ns: int, job: Job) -> Slices:
    """Write the packets of capture files, one after the other, into `outs`, each pair of addresses into one of them.

    Raises what `decode` raises, ``OSError`` without a file where a slice cannot be written, and ``ValueError`` where
    there is no slice.
    """

def decode_slices(
    paths: Sequence[str | PathLike[str]],
    offsets: Sequence[int],
    is_cut: bool,
    nfs_ranks: bytes,
    callback_ranks: bytes,
    action_rank: int,
    job: Job,
    without: Sequence[str] | None = None,
) -> Parts:
    """As `decode_apart`, of slices that `split` made of one capture.

    `offsets`: of each, how many packets of the capture are in front of those that were split there. `is_cut`: some
    packet of the capture is cut by a snaplen.
    """

class Way(TypedDict):
    """`nfslat.tcp.packets.Way`."""

    first_seq: int
    saw_syn: bool
    mss: int | None
    window_scale: int | None
    timestamps: bool
    head: bytes
    copies: int
    lost_bytes: int

Mptcp: TypeAlias = tuple[int | None, tuple[int | None, int | None], tuple[int, int] | None]

@final
class Trace:
    """The TCP of a capture."""

    packets: Columns  # `nfslat.tcp.packets.Packets`, those of each conversation side by side
    places: npt.NDArray[np.int32]  # of each of these in the capture
    signals: Columns  # `nfslat.tcp.mptcp.Signals`, in the order of their packets
    # Ends, reconnect, both ways; of MPTCP what makes a `nfslat.tcp.mptcp.Subflow`
    conversations: list[tuple[Ends, int, Way, Way, Mptcp | None]]
    total_packets: int
    other_packets: int
    skipped_packets: int
    copies: int
    damaged: int
    files: list[File]

def packets(paths: Sequence[str | PathLike[str]], ports: Sequence[int], stream: int | None, job: Job) -> Trace:
    """The TCP packets of capture files, one after the other, as one; runs without the GIL. "-" is standard input.

    Only those from or to one of `ports` (none: all), and only those of conversation `stream` (numbered from 0 in the
    order of their first packets, among those of `ports`). Raises what `decode` raises.
    """

_I32: TypeAlias = npt.NDArray[np.int32]
_I8: TypeAlias = npt.NDArray[np.int8]
_U8: TypeAlias = npt.NDArray[np.uint8]
_JoinSide: TypeAlias = tuple[_I32, npt.NDArray[np.int16], npt.NDArray[np.uint32], _I32, _I32]

def join(server: _JoinSide, client: _JoinSide, places: int) -> tuple[_I32, _I32, _I32]:
    """`nfslat.kernels.join`: the partner of each of the client's rows (NULL: none alone has its key), the rows of the
    keys that several rows share, and how many of these are the server's and the client's, for each such key in turn.
    """

_Calls: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], _I32, _I32]

def starts(calls: _Calls, threads: int, by_answer: bool, leaving: bool) -> npt.NDArray[np.int64]:
    """`nfslat.kernels.dispatch.starts`: when each call got a thread, NULL where the model has none for it."""

def bound(calls: _Calls) -> tuple[int, int]:
    """`nfslat.kernels.dispatch.most_at_once`: so many threads must exist, and how often so many were at work."""

def by_reply(reply_ns: npt.NDArray[np.int64]) -> _I32:
    """Rows in the order of `nfslat.kernels.dispatch.Work.by_reply`."""

def in_flight(calls: _Calls) -> _I32:
    """`nfslat.kernels.dispatch.in_flight`: calls without an answer when each one arrives."""

_I64: TypeAlias = npt.NDArray[np.int64]
_F64: TypeAlias = npt.NDArray[np.float64]

def in_order(starts: _I64, ends: _I64) -> tuple[_I64, _I64]:
    """`nfslat.kernels.levels.in_order`; both columns of one length, in any order."""

def levels(starts: _I64, ends: _I64) -> tuple[_I64, _I64]:
    """`nfslat.kernels.levels.time_and_ends`: time and ends by the number in flight; both columns ascend."""

def windows(starts: _I64, ends: _I64, width_ns: int, count: int) -> list[_F64]:
    """Of each window of time: ends, time, and time multiplied with the ops in flight."""

def turnarounds(starts: _I64, ends: _I64, low: int, top: int) -> _I64:
    """From an end to the start right behind it, where that makes more than `low` and at most `top` in flight."""

_Rows: TypeAlias = tuple[_I64, _I64, _I32, _I64, npt.NDArray[np.uint32], _U8]

def heard(rows: _Rows, near: int) -> tuple[tuple[_I64, _I64, _I64, _I64, _I32, _U8], tuple[_I64, _I64, _U8], _I32]:
    """`nfslat.kernels.heard.heard`: columns of far's segments, of near's, and which of them each segment is."""

def places(ascending: _I32 | _I64, wanted: _I32 | _I64) -> _I64:
    """`nfslat.kernels.heard.places`: where each value would stand; both of one type."""

def order(values: _I64) -> _I64:
    """`nfslat.kernels.order.argsort`: rows in ascending order."""

def grouped(groups: _I32, count: int) -> tuple[_I32, _I64]:
    """`nfslat.kernels.order.side_by_side`: rows by group, and how many each group has.

    Raises ``ValueError`` for a group that is not from 0 to `count` - 1.
    """

def ranks(values: npt.NDArray[Any], places: Sequence[int]) -> list[int]:
    """`nfslat.kernels.order.ranks`: what stands at some places of int64 or int32. Raises ``ValueError`` where there are
    not so many."""

def regularity(
    pieces: Sequence[_Calls],
    groups: Sequence[_I64],
    unqueued: Sequence[float],
    resolution_ns: float,
    blocks: int,
    threads: int,
    by_answer: bool,
    leaving: bool,
) -> tuple[_F64, _F64] | None:
    """`nfslat.inflight.entropy.Scores`: nats by block of time, and what of them is for calls that are answered without
    a thread; None where these are too many. `groups` are the rows of each operation, `unqueued` is what one of its
    calls costs that has no density."""

def log_spacings(times: _I64, resolution_ns: float) -> _F64:
    """Minus the log density at each of `times`, from how far its neighbours are; 0 where there are too few."""

def sums(groups: _I64 | None, values: npt.NDArray[Any], count: int) -> _I64 | list[int]:
    """`nfslat.kernels.exact.exact_sums`, of int64, int32 or booleans. Raises ``ValueError`` for a group that is not
    from 0 to `count` - 1."""

def histogram(durations_ns: _I64, buckets: int) -> list[int]:
    """`nfslat.tally.stats.histogram`: how many are in each of its buckets."""

def xid_steps(xids: npt.NDArray[np.uint32], largest: int) -> tuple[bool, int, int, int, int]:
    """`nfslat.decode.xid_gaps.Steps`, of at least one XID."""

class _Packets(Protocol):
    """`nfslat.tcp.packets.Packets`: of all its columns."""

    @property
    def t_ns(self) -> _I64: ...

class _Stream(Protocol):
    """`nfslat.tcp.stream.Stream`: of its packets, direction, and columns that `stream` gives."""

    @property
    def direction(self) -> int: ...

class _Level(Protocol):
    """`nfslat.tcp.mptcp.Level`."""

    @property
    def edge(self) -> tuple[_I64, _I64]: ...

class _Pauses(Protocol):
    """`nfslat.model.details.Pauses`: of all its columns."""

    @property
    def begin_ns(self) -> _I64: ...

RTO_MIN_NS: int
"""Of Linux and FreeBSD, the shortest retransmission timeout; RFC 6298 has a second."""
DELAYED_ACK_NS: tuple[int, int]
"""How long an ACK is delayed by a timer, from and to."""

def shared_packets(
    captures: tuple[_Packets, _Packets], firsts: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]
) -> list[tuple[int, int, bool, int]]:
    """`nfslat.tcp.same`: a conversation of either capture, whether its directions are the other way round in the second
    one, and how many packets that both have say so."""

def same_packets(
    captures: tuple[_Packets, _Packets],
    ways: tuple[int, int],
    firsts: tuple[tuple[int, int], tuple[int, int]],
    from_syn: bool,
) -> tuple[_I64, _I64]:
    """`nfslat.tcp.same`: rows in either capture of a conversation of the packets of a direction that both have."""

def passage(
    captures: tuple[_Packets, _Packets],
    ways: tuple[int, int],
    same: tuple[_I64, _I64],
    ran: tuple[tuple[int, int], tuple[int, int]],
    shift: int,
    sender: int,
    half_trip_ns: int,
) -> tuple[tuple[list[int], list[int]], list[int], _I64]:
    """`nfslat.tcp.passage`: packets of either capture by what became of them; bytes, bytes sent, lost, missed, surplus,
    and packets that came late; rows of the sender's that were sent again for nothing."""

def classify(pauses: _Pauses, rtt_min_ns: _I64, mss: _I64, sender_rtt_ns: _I64) -> _I8:
    """`nfslat.wire.stalls.classify`."""

def told_windows(pauses: _Pauses) -> _I64:
    """`nfslat.wire.stalls.with_windows`: the windows, where they are told after all."""

def timer_ms(held_ns: int) -> int | None:
    """The delayed-ACK timer that goes with an ACK held so long: 40 (Linux), 50 or 100 (Solaris), 200 (Windows, BSD),
    500 (the most that RFC 1122 allows); None: no such timer."""

def timers_ms(held_ns: _I64) -> tuple[_I64, _I64]:
    """For each ACK the name of the timer that held it for so long (NULL: none known), and how many it held."""

def stream(packets: _Packets, direction: int) -> list[_I64]:
    """`nfslat.tcp.stream.Stream`: rows, high, acked, heard, said, covered."""

def progress(one: _Stream) -> list[_I64]:
    """`nfslat.tcp.progress.Progress`: its columns."""

def never_seen(packets: _Packets, rows: _I64) -> _I64:
    """Places in `rows`, which have payload of one direction, of what was sent again though it was never seen: duplicate
    ACKs asked for it (`nfslat.tcp.packets.Kind`)."""

def samples(one: _Stream) -> tuple[_I64, _I64, _I64, int, int]:
    """`nfslat.tcp.floors.Samples`: its fields."""

def needless(one: _Stream, near_ns: int, far_ns: int) -> _I64:
    """Rows of what was sent again although it had arrived, as far as one capture proves it: from there to the receiver
    and back takes `near_ns`, to the sender `far_ns` (NULL: not known).

    The bytes had been acknowledged when the packet passed, and its sender cannot have heard of that yet (else the ACK
    was lost); or their ACK passes sooner than the way to the receiver and back takes (RFC 3522, the Eifel detection, by
    times); or the receiver says that bytes came twice (D-SACK, RFC 2883, used as RFC 3708 does). At the receiver's own
    end each packet of bytes that were seen there is one, unless an ACK was lost.
    """

def silences(
    one: _Stream,
    needless: _I64,
    level: _Level | None,
    shift: int | None,
    mss: int | None,
    ways_ns: tuple[int, int, int, int],
) -> tuple[Columns, _I64, _I8, _I64, _I64, _I64]:
    """`nfslat.tcp.silences.Silences`: its columns. `shift`: of the receiver's windows; `ways_ns`: from the capture to
    the receiver and to the sender, and back, how much later the sender hears what passes, and from end to end."""

class _Samples(Protocol):
    """`nfslat.tcp.floors.Samples`: of its columns."""

    @property
    def covered(self) -> _I64: ...

class _Silences(Protocol):
    """`nfslat.tcp.silences.Silences`: of its columns."""

    @property
    def causes(self) -> _I8: ...

def late_acks(one: _Stream, samples: _Samples, silences: _Silences, near_ns: int) -> list[_I64]:
    """`nfslat.tcp.rounds.LateAcks`: its columns. From the capture to the receiver and back takes `near_ns`."""
