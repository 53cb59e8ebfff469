"""The catalogue of findings: a row for each, with all that is said of it in every place; no input, no output.

To add a finding: write a function that makes it, with its evidence, in a module beside this one; add its row here; run
``scripts/generate``, which writes the manual (docs/findings.md). The verdict, the list of what was looked for, `nfslat
diff`, the fleet and the laboratory read it from here.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from nfslat.answer.model import NextStep
from nfslat.findings import steps as step
from nfslat.findings.steps import Step
from nfslat.findings.words import filled
from nfslat.model.causes import LOSSES, Cause, Charge
from nfslat.model.record import Record

MANUAL = "docs/findings.md"
# Of the mean: a finding that explains less is not the cause. Loss is never as it should be.
CAUSE, SYMPTOM, LOSS = 0.2, 0.5, 0.1
OPEN_SHARE, OPEN_MS = 0.3, 5.0  # of the mean, and ms, without a reason: nobody can be told whose fault they are


class Needs(StrEnum):
    """What it takes to look for a finding."""

    PACKETS = "packets"
    FIGURES = "figures"  # of the application: the time above the wire
    EITHER = "either"


class Counter(Record, kw_only=True):
    """What a host counts that speaks for a finding, or against it, whatever packets make likely.

    Both ranges are from least to most, bounds included; between them it says nothing.
    """

    figure: str  # the field or property of `Facts` that has it, a share; None there: nobody gave it
    words: str  # what it is
    speaks_for: tuple[float, float]
    speaks_against: tuple[float, float]
    seen: str  # where the bounds come from
    step: Step  # measures it
    proves: bool = True  # what speaks for it; else something harmless counts alike


class Row(Record, kw_only=True):
    """A finding. Braces in a text name fields and properties of its evidence, which are put in their place."""

    code: str
    layer: str  # server, network, client; "either" end
    title: str
    looked_for: str = ""  # in the list of what was looked for, where nothing stands out; "": not in it
    needs: Needs = Needs.PACKETS
    headline: str  # what a verdict says first where this is the cause, as a sentence without its full stop
    uncounted: str = ""  # the sentence behind it where its share is not known
    # Among the proofs: the first of these fields that the evidence has, and what its figure is called.
    proof: tuple[tuple[str, str], ...] = ()
    least: float = CAUSE  # of the mean; `SYMPTOM` where something else mostly lies behind it
    causes: frozenset[Charge] = frozenset()  # whose waits it is about
    explains: tuple[str, ...] = ()  # parts of the response time, and columns of causes, that may grow with it
    # It says whose the time is, or where it passes, and not why: alone it decides nothing. Of the mean, and ms, that
    # leave a verdict open where this has them.
    is_vague: bool = False
    open_from: tuple[float, float] = (OPEN_SHARE, OPEN_MS)
    is_hang: bool = False  # something waits until the capture ends
    is_put_off: bool = False  # the server put requests off, which the client tried again
    is_slots: bool = False  # of the client: of a connection, or of a session
    shows_itself: bool = False  # in the packets of either host: errors in replies, calls that come again
    decided_by: tuple[Step, ...] = ()  # measurements that prove it, or refute it; the first is the next to be made
    counter: Counter | None = None
    event: str = ""  # what a chart marks of it (`nfslat.answer.pictures.Event`, and hangs and recoveries); "": nothing
    knob: str = ""  # what its advice is about; "": there is none
    # Of little weight for any call, and yet what many look for: it has a line in the brief report.
    in_brief: bool = False
    # What hosts share where this is a queue, of which somebody else may have most; "": nothing.
    shared: str = ""
    # The manual. `told` is where it is found, `certain` where its confidence is more than likely.
    means: str
    told: str
    certain: str
    refuted: str
    do: str

    def said_of(self, evidence: object, layer: str) -> str:
        """Its headline with the figures of `evidence`; `layer` is whose it is."""
        return filled(self.headline, evidence, layer=layer)

    @property
    def next(self) -> NextStep | None:
        """What to measure next; None: nothing that can be measured would say more."""
        return next_step(self.decided_by[0]) if self.decided_by else None

    @property
    def answers(self) -> tuple[tuple[str, str], ...]:
        """What the manual says of it: question and answer."""
        return (
            ("What it means", self.means),
            ("How it is told", self.told),
            ("Certain, where else it is likely", self.certain),
            ("What would refute it", self.refuted),
            *((("What a host counts", _counted(self.counter)),) if self.counter is not None else ()),
            ("What to do", self.do),
        )


def _counted(counter: Counter) -> str:
    def bound(low: float, high: float) -> str:
        return (
            f"{low * 100:g} % or more" if high == _NO_BOUND else f"{high * 100:g} % or less" if high else "none of them"
        )

    speaks_for, against = bound(*counter.speaks_for), bound(*counter.speaks_against)
    proves, words = "proves" if counter.proves else "goes with", counter.words
    return (
        f"{words[:1].upper()}{words[1:]}: {speaks_for} {proves} it, {against} refutes it, whatever packets make "
        f"likely. {counter.seen}"
    )


def _waits(words: str) -> tuple[tuple[str, str], ...]:
    return (("wait_ms", words),)


_NO_BOUND = float("inf")
_WOKEN = Counter(
    figure="woken_share",
    words="threads that were woken for sockets that were queued (pool_stats)",
    speaks_for=(0.0, 0.2),
    speaks_against=(0.9, _NO_BOUND),
    seen="In the lab 2 to 19 % with too few threads, 97 % or more with enough, and 50 to 90 % where they were too few "
    "for a part of the time.",
    step=step.THREADS,
)
_QUEUED = Counter(
    figure="slot_wait_share",
    words="the wait before a call is sent (queue of mountstats), of its time on the wire",
    speaks_for=(0.5, _NO_BOUND),
    speaks_against=(0.0, 0.1),
    seen="In the lab 0.8 to 14 times that time with too few slots, and 0 to 0.34 times with enough, but for write-back "
    "without a limit (4 times), which waits for its socket and keeps no number in flight.",
    step=step.CLIENT,
)
_DEVICE = Counter(
    figure="storage_share",
    words="the device's own time (diskstats, iostat), of the server's",
    speaks_for=(0.7, _NO_BOUND),
    speaks_against=(0.0, 0.3),
    seen="Disks of the lab that were made slow have 0.8 to 1 of it.",
    step=step.DISK,
)
_RESENT = Counter(
    figure="resent_share",
    words="segments that the hosts sent again (RetransSegs), of those that they sent (OutSegs)",
    speaks_for=(0.005, _NO_BOUND),
    speaks_against=(0.0, 0.0),
    seen="In the lab 0.6 to 1.9 % with loss of 1 to 2 %, and up to 2.8 % without, where an answer was late; but what "
    "no host sent again, no path lost.",
    step=step.LOSS,
    proves=False,
)

_QUEUE_UNKNOWN = (("queue_ms", "wait in its queue"), ("in_thread_ms", "in the server's threads"))

ROWS = (
    Row(
        code="server-threads",
        layer="server",
        title="Calls wait for an NFS server thread",
        headline="Calls queue in the server{who}{room}",
        uncounted="How long they wait for one, no counter says.",
        looked_for="waiting for a server thread",
        needs=Needs.EITHER,
        proof=(("queue_ms", "wait for a thread"), ("in_thread_ms", "in the server's threads")),
        explains=("queue", "in_thread"),
        knob="the number of NFS server threads",
        decided_by=(step.THREADS,),
        counter=_WOKEN,
        shared="the time there",
        means="All NFS server threads are busy, and calls that have arrived queue until one is free. The server's "
        "response time is then mostly that wait, not work.",
        told="The wait for a thread is 5 % or more of the mean or of the slowest 1 %.",
        certain="50 ops or more of the operation that takes most are matched; and five witnesses (light ops that "
        "waited as long), or the server's own thread count is not below the range, or of its queued sockets 20 % or "
        "fewer found an idle thread (pool_stats), or the time in a thread was measured.",
        refuted="The server has more threads than the estimate, or its threads-woken in pool_stats keeps up with "
        "sockets-enqueued, or the storage's own latency contains the wait: then storage takes no more at once.",
        do="Give the server more threads than it ever had calls in flight, and capture again. If the storage is "
        "slow, the queue moves there.",
    ),
    Row(
        code="server-storage",
        layer="server",
        title="The server's storage is slow",
        headline="{slow_part}",
        looked_for="slow storage",
        needs=Needs.EITHER,
        proof=_QUEUE_UNKNOWN,
        explains=("queue", "in_thread"),
        knob="the storage behind the server, or the file system's locks",
        decided_by=(
            step.DISK,
            step.THREADS,
        ),
        counter=_DEVICE,
        shared="the time there",
        means="Ops that read or change the disk take long once a thread works on them, and those that need no data do "
        "not: the server waits for its storage, or for a lock of its file system.",
        told="What reads or changes the disk (READ, WRITE, COMMIT, and CREATE, MKDIR, REMOVE, RENAME and "
        "their like, which a server has to have on stable storage before it answers; no UNSTABLE WRITE) "
        "takes 5 ms or more in a thread, and 10 ms more for each MB of data, which is 5 % or more of the whole; not "
        "where the time in a thread is not known, where light ops (those that need neither data nor a name: GETATTR, "
        "ACCESS, ...) take more than a tenth of it, where half of the ops of the kind that takes most are quick "
        "(2.5 ms) and none waits, or where the storage's own figure is below 30 % of it. Or there is a "
        "queue, and the storage's own figure is 70 % or more of the server's time. Or it is slow now and "
        "then (server-slow-ops), and other ops are answered quickly beside half of the slow ones. Not where a host "
        "that waits for a processor may be it (server-queue-unknown).",
        certain="The storage's own figure is known (--storage-ms), and 50 ops or more of the operation that takes most "
        "are matched.",
        refuted="The device's own latency (await of iostat -x) is far below this figure at the same time: then look "
        "for locks, or for a processor that is busy.",
        do="Compare iostat -x on the server with the figure; give it to nfslat with --storage-ms.",
    ),
    Row(
        code="server-slow-ops",
        layer="server",
        title="Some operations take the server many times as long as others of the same kind",
        headline="Some operations are slow in the server: {which} take {slow}, the others {others} ms",
        looked_for="operations that are slow at times",
        proof=(("slow_ms", "median of the slow ones"), ("others_ms", "of the others")),
        least=SYMPTOM,
        explains=("in_thread",),
        knob="what the server does at these moments",
        decided_by=(
            step.DISK,
            step.THREADS,
        ),
        shared="the time there",
        means="A few operations, or those in one part of the time, account for the server's time, and the median "
        "does not show it. Their pattern says where to look: in one part of the time (a backup, a rebuild, other "
        "clients), together in stalls (a cache flush, a snapshot, a lock, a stalled host), at regular intervals (a "
        "timer), or one by one.",
        told="The times of an operation in a thread part into two classes with a valley between them: the slow ones "
        "are 5 or more, take 5 times as long (medians), 5 ms or more, and half of the operation's time, 5 % of "
        "the whole. Fewer, or one, are enough that take a second or more each and a quarter of the server's time, "
        "where all others take a twentieth of that at most, and 5 of their kind do. Not where 75 % or more are "
        "slow, a fourth of the messages is unseen, the time in a thread was measured, or calls that come "
        "meanwhile are late as those of a host that waits for a processor (server-queue-unknown; here 4.5 times "
        "of that, or twelve). It is server-storage instead where they are ops that read or change the disk, and "
        "others are answered quickly beside half of them. Or 5 operations or more that no capture shows took 5 "
        "times as long on average as those that are shown, at the least, and 10 % of the whole: not where losses "
        "or a full socket may have made half of that.",
        certain="Never.",
        refuted="The server's disk, run queue and log show nothing at these moments.",
        do="Look at the storage latency second by second (iostat -x 1), at dmesg, and at what runs at these moments.",
    ),
    Row(
        code="server-queue-unknown",
        layer="server",
        title="The server is slow, and the packets do not say why",
        headline="Calls take long in the server, and the packets do not reveal why",
        proof=_QUEUE_UNKNOWN,
        explains=("queue", "in_thread"),
        knob="evidence from the server",
        is_vague=True,
        decided_by=(
            step.THREADS,
            step.DISK,
        ),
        shared="the time there",
        means="Calls take long in the server; whether they wait for a thread, storage or a lock cannot be told from "
        "what is known.",
        told="5 ms or more in the server (and 10 ms for each MB of data), 5 % of the whole, and the packets cannot "
        "tell why: no answer about threads, over 25 % of the messages unseen, light ops as slow as data, calls that "
        "come 0.5 ms late or more to the server's capture while it shows nothing at all (a host that waits for a "
        "processor does so each time that it needs one: three times of that, or eight for an operation that changes "
        "the disk, are half of the time in a thread), 70 % of the operations COMPOUNDs that show no "
        "operation (encrypted, or cut off), storage that is quicker than that. Or there is a queue, and more threads "
        "than leave it.",
        certain="Where 50 ops or more of the operation that takes most are matched, but for a queue with more threads: "
        "that the packets do not tell is certain.",
        refuted="Evidence from the server (a snapshot, storage latency, tracepoints) that names the wait.",
        do="Take snapshots of the server before and after, and its storage latency, beside the captures.",
    ),
    Row(
        code="reconnect",
        layer="server",
        event="no-connection",
        title="A connection was lost, and requests waited for a new one",
        headline="{lost}",
        uncounted="What requests waited for a new connection, packets cannot show.",
        looked_for="a lost connection",
        proof=(("excess_ms", "waits for a new connection"),),
        knob="the server's log at that time",
        decided_by=(
            step.LOG,
            step.CLIENT,
        ),
        means="The NFS server was restarted or failed over, or something between the hosts ended the connection. "
        "Operations in flight were retransmitted on the new one; others could not be sent at all.",
        told="Ops that were retransmitted on a new connection add 1 % or more to the mean, or requests that waited "
        "for one above the wire 5 % (at most; its share is known with the application's time only).",
        certain="Never.",
        refuted="The old connection was closed by the client while nothing was in flight (idle timeout).",
        do="Read the server's log at that time (journalctl -u nfs-server), and look at the slowest ops (nfslat show).",
    ),
    Row(
        code="syn-unanswered",
        layer="either",
        event="no-connection",
        title="New connections are not answered at once",
        headline="{lost}",
        uncounted="What requests waited for it, packets cannot show.",
        looked_for="SYNs that are lost",
        proof=(("connecting_ms", "until connections were open"),),
        knob="the path of SYNs, or the server's queue of new connections",
        decided_by=(step.SYNS,),
        means="A client opens a connection, and its first SYN is not answered: it is sent again after 1 s, 3 s, 7 s, "
        "and what the client has to send waits for that long, before any call is on the wire.",
        told="Between the first SYN of a connection and the first packet of the server 0.9 s or more pass, which no "
        "path takes; or three SYNs to a port that carries calls between the same hosts have no SYN as an answer until "
        "the capture ends, or another connection is open; and what requests may have waited meanwhile is 5 % of the "
        "mean (at most; its share is known with the application's time only). With two captures SYNs that the server's "
        "does not show were lost in transit to it; else its answer was lost, or late, or there was none. It leads "
        "where that is 20 % of the mean.",
        certain="With two captures: which SYNs came, and when they were answered.",
        refuted="Nobody waited for that connection: it was opened ahead of need.",
        do="Firewalls that limit new connections, or whose table is full; the server's queue of new connections "
        "(ListenDrops).",
    ),
    Row(
        code="connection-cap",
        layer="server",
        title="The server limits the requests of one connection",
        headline="The server takes no more than {level} calls at once from one connection",
        uncounted="What that costs, packets cannot show.",
        looked_for="a per-connection limit",
        explains=("queue",),
        knob="nconnect, or the server's per-connection limit",
        means=(
            "One connection is held at a fixed number of calls in flight while other connections to the same "
            "server are fast."
        ),
        told="A connection is held back by its window, which the server closes at a level of calls in flight, and "
        "others are fast. Its share is not known.",
        certain="Never.",
        refuted="Other connections are just as slow: then it is the server as a whole.",
        do="More connections (nconnect) with no more slots each than the server takes, or the server's own limit.",
    ),
    Row(
        code="server-window",
        layer="server",
        title="The server's TCP window has no room for calls",
        headline="The server reads its socket late: its TCP window had no room for calls for {window_ms} ms in all",
        looked_for="its closed TCP window",
        knob="the server's threads, or its receive buffer",
        decided_by=(step.WINDOW,),
        means="The server does not read its socket as fast as the client writes. Calls queue in the client's "
        "socket, above the wire, where no capture shows them.",
        told="The server's TCP window may have kept requests above the wire for 5 % of the application's time, and "
        "calls are not seen to wait for a thread (else server-threads has it, which is then no more than likely where "
        "that is the larger part).",
        certain="Never.",
        refuted="Send-Q of ss -tn on the client stays at 0 while the application waits.",
        do="Look at the server's threads (pool_stats) first, then at its receive buffer (tcp_rmem).",
    ),
    Row(
        code="net-delay",
        layer="network",
        title="The hosts are far apart",
        headline="The hosts are far apart: the shortest round trip is {least_round_trip_ms} ms",
        looked_for="distance",
        proof=(("least_round_trip_ms", "shortest round trip"),),
        explains=("distance",),
        knob="the path",
        means="Every operation pays the shortest round trip between the hosts, however small the operation is: "
        "distance, or a device that adds delay.",
        told="The shortest round trip (what calls and replies leave free, at the best moment, and no more than the "
        "network's time of the fastest op) is 1 ms or more, and 10 % of the mean.",
        certain="Always, but where the path is full: then part of it may be its queue.",
        refuted="ping between the hosts is much shorter while the path is idle: then it is a queue.",
        do="Compare with ping, and find the hop that adds it (traceroute, mtr). More requests in flight hide a "
        "delay but do not shorten it.",
    ),
    Row(
        code="net-loss",
        layer="network",
        event="loss",
        title="Packets are lost",
        headline="Packets are lost between the hosts, and operations wait for retransmissions",
        looked_for="loss",
        proof=_waits("wait for lost data"),
        least=LOSS,
        causes=LOSSES,
        explains=("lost",),
        knob="the path",
        decided_by=(step.LOSS,),
        counter=_RESENT,
        means="Operations wait until lost segments are retransmitted, or queue behind others that do.",
        told=(
            "Waits for lost data (retransmitted, or queued behind data that were) are 1 % of the mean, or 10 % of "
            "the slowest 1 %."
        ),
        certain="Always, but where more of it is above the wire than on it.",
        refuted="What was retransmitted had arrived (spurious_segments): then it is a late ACK, not a loss.",
        do="Read the error, drop and pause counters of both hosts (ethtool -S) and of the switches between them.",
    ),
    Row(
        code="path-mtu",
        layer="network",
        event="loss",
        title="Large packets vanish, and small ones pass",
        headline="Packets of {vanished_from_bytes} bytes or more vanish between the hosts, and smaller ones pass (an "
        "MTU black hole)",
        looked_for="packets that are too large for the path",
        proof=_waits("wait for lost data"),
        least=LOSS,
        causes=LOSSES,
        explains=("lost",),
        knob="the path MTU",
        decided_by=(step.MTU,),
        counter=_RESENT,
        means="A link, tunnel or firewall between the hosts drops what is larger than its MTU, and the sender does not "
        "hear of it: large READ replies or WRITE calls stand still, while GETATTR and ping work.",
        told="In two captures, where it explains more than half of the bytes that were lost: within a stretch of one "
        "direction of a connection none of the segments above a size arrives (5 or more, the same bytes 3 times), and "
        "all smaller ones do (3 or more, between those; their ACKs count), in an order that loss which does not care "
        "for size makes once in 1,000 times at most. The sender's capture alone shows it, too: what it sends again was "
        "lost but for the last time, and an ACK came whose data are not sent again. It stands in place of net-loss.",
        certain="Never: dirt on a line hits large packets more often, too.",
        refuted="ping -M do with the full size is answered each time.",
        do="Find the path MTU with ping -M do -s, set the same MTU everywhere, or clamp the MSS; let ICMP type 3 "
        "code 4 pass.",
    ),
    Row(
        code="net-reordering",
        layer="network",
        title="Packets arrive out of order",
        headline="Packets arrive out of order",
        looked_for="reordering",
        proof=_waits("wait for out-of-order packets"),
        causes=frozenset({Cause.REORDERING}),
        knob="the path",
        decided_by=(step.LOSS,),
        means="Messages had arrived in part and waited for bytes that later packets had overtaken in transit.",
        told="Waits for packets that arrived out of order are 5 % of the mean, or 10 % of the slowest 1 %.",
        certain="Always.",
        refuted=(
            "The order is an artefact of the capture: a host that captures from several receive queues may "
            "reorder packets."
        ),
        do="Balance links per connection, not per packet; keep each connection in one receive queue.",
    ),
    Row(
        code="net-jitter",
        layer="network",
        title="The delay of the path varies",
        headline="The delay of the path varies: {ways} nine of ten messages take longer than the shortest way by more "
        "than {low_ms} ms, one of ten by more than {high_ms} ms",
        looked_for="jitter",
        proof=_waits("beyond the shortest round trip"),
        knob="the path",
        decided_by=(step.PING,),
        means="Nearly every message takes longer than the shortest way, now more and now less, without loss: a device "
        "that delays, or a queue of traffic that the captures do not show.",
        told="With two captures. Of a direction's messages that wait for nothing else (40 % of all or more) half take "
        "1 ms longer than the shortest way or more, and nine of ten three tenths of what half take; what no cause "
        "explains there is 1 ms and 10 % of the mean. A host that handles packets late handles some at once.",
        certain="Never.",
        refuted="ping between the hosts, under the same load, varies by much less: then it is a host that takes "
        "packets in steps.",
        do="Find the hop from which on times vary (mtr), and what else fills its link.",
    ),
    Row(
        code="net-asymmetry",
        layer="network",
        title="One direction of the path is slower",
        headline="One direction of the path is slower than the other",
        looked_for="one slow direction",
        is_vague=True,
        decided_by=(
            step.ONE_WAY,
            step.SCHED,
        ),
        means="Calls and replies take unequally long on the network: one direction is loaded, shaped, or waits in "
        "its sender's socket.",
        told="One way takes 1 ms longer than the other, what is charged to loss, bandwidth and pauses aside, by more "
        "than twice the clock's error, and what is beyond it is 10 % of the mean.",
        certain="Never.",
        refuted="A path that is asymmetric by nature: the clock offset is known only to within the round trip.",
        do="Look at the load of either direction, at shapers (tc qdisc show), and at the sender's socket (ss -tm).",
    ),
    Row(
        code="between-taps",
        open_from=(0.4, 1.0),
        layer="network",
        title="Time between the two capture points that nothing explains",
        headline="Nothing explains {unexplained_ms} ms between the two capture points: {where}",
        proof=(("unexplained_ms", "not explained"),),
        knob="which of the two it is: the path, or a host's kernel",
        is_vague=True,
        decided_by=(step.SCHED,),
        means="Calls and replies take long from one capture point to the other, and nothing shows that the path "
        "does it. A host with a busy processor, or a virtual machine on a busy host, receives packets late and "
        "captures them late, which looks the same.",
        told="Distance and what TCP waited for (loss, reordering, windows, bandwidth, queues) leave half of the "
        "network's time, and the network adds most. Packets that were held and released together are not counted as "
        "the path's. With one capture, of what was sent again and had arrived (D-SACK) it is said that it was taken "
        "late, and not lost.",
        certain="Never, and a verdict on the network is of low confidence then.",
        refuted="Other clients on the same path are as slow, and both hosts' run queues empty: then it is the path.",
        do="Ask perf sched latency of both hosts (--evidence), compare other clients on the same path, and each host's "
        "TCP timestamps (TSval) with its own capture's times.",
    ),
    Row(
        code="delayed-ack",
        layer="network",
        title="Senders wait for delayed ACKs",
        headline="Senders wait for delayed ACKs",
        looked_for="delayed ACKs",
        proof=_waits("wait for delayed ACKs"),
        causes=frozenset({Cause.DELAYED_ACK}),
        explains=("delayed_ack",),
        knob="delayed ACKs of the receiver",
        means="A sender could not send more until an ACK arrived, and the receiver delayed that ACK with a timer.",
        told="Waits for a delayed ACK are 5 % of the mean, or 10 % of the slowest 1 %.",
        certain="The ACKs were late by a known timer (40, 50, 100, 200, 500 ms).",
        refuted="The pauses vary in length: they come from a host that is slow to answer, not from a timer.",
        do="Quick ACKs on the receiver (quickack, TcpAckFrequency), larger messages in one piece, or a larger window.",
    ),
    Row(
        code="zero-window",
        layer="either",
        title="A receiver does not read its socket",
        headline="The {layer} does not read its socket, and its TCP window is closed",
        looked_for="closed windows",
        proof=_waits("wait for the receiver's window"),
        causes=frozenset({Cause.ZERO_WINDOW}),
        explains=("window",),
        knob="the receiver: processor, memory, socket buffers",
        decided_by=(step.WINDOW,),
        means="The receiver's TCP buffer is full, so its window is closed: its application reads more slowly than "
        "data arrive.",
        told="Waits for a window that was closed are 5 % of the mean, or 10 % of the slowest 1 %.",
        certain="Always.",
        refuted="No zero windows in the receiver's own capture: then a device in between made them.",
        do="Find what keeps the receiver from reading: processor, memory, locks. A larger buffer only hides it.",
    ),
    Row(
        code="receive-window",
        layer="network",
        title="A receiver's window is smaller than the path needs",
        headline="A receiver's TCP window is too small for the path",
        looked_for="small windows",
        proof=_waits("wait for room in the receiver's window"),
        causes=frozenset({Cause.RECEIVE_WINDOW}),
        explains=("window",),
        knob="net.ipv4.tcp_rmem of the receiver",
        decided_by=(
            step.WINDOW,
            step.BANDWIDTH,
        ),
        means="The receiver's window is open and has no room for the next segment: its buffer is smaller than the "
        "bandwidth-delay product, or it reads late.",
        told="Waits for such a window are 5 % of the mean, or 10 % of the slowest 1 %.",
        certain="Never.",
        refuted="ss -tmi shows a window (rcv_space) well above what is in flight.",
        do="Let the buffer grow to twice the bandwidth-delay product (third figure of tcp_rmem), then reconnect.",
    ),
    Row(
        code="congestion-window",
        layer="network",
        title="Senders wait for round trips of the path",
        headline="Senders wait for ACKs with a full congestion window",
        looked_for="waits for ACKs",
        proof=_waits("wait for ACKs"),
        least=SYMPTOM,
        causes=frozenset({Cause.CONGESTION_WINDOW}),
        knob="the path, and the sender's congestion window",
        decided_by=(step.WINDOW,),
        means="A sender may have no more data in flight although the receiver's window has room, and waits a round "
        "trip for each window of data. Usually loss, distance or idle periods are behind it.",
        told="Waits for ACKs, with room in the receiver's window, are 10 % of the mean.",
        certain="Never.",
        refuted="ss -ti on the sender shows a cwnd well above what is in flight.",
        do=(
            "Find what keeps the window small: losses, or slow start after idle periods. More connections mean more "
            "windows."
        ),
    ),
    Row(
        code="unknown-window",
        layer="network",
        title="A TCP window is full; whose is not known",
        headline="Senders wait for ACKs with a full TCP window, and whose it is cannot be told",
        looked_for="full windows",
        proof=_waits("wait for ACKs, as a window was full"),
        least=SYMPTOM,
        causes=frozenset({Cause.UNKNOWN_WINDOW}),
        knob="which window it is: the sender's cwnd, the receiver's receive buffer",
        decided_by=(step.WINDOW,),
        means="A sender waits for ACKs because a window is full: the receive window or the congestion window. The "
        "capture lacks the handshake, which holds the window scale.",
        told="Waits for ACKs, where it is not known whether the receiver's window had room, are 10 % of the mean.",
        certain="Never.",
        refuted="A capture with the handshake names the window.",
        do="Capture from before the mount, on both hosts; or run ss -tmi on both while it happens.",
    ),
    Row(
        code="head-of-line",
        layer="network",
        title="Replies queue behind others on their connection",
        headline="Replies wait behind others on their connection",
        looked_for="replies behind others",
        proof=_waits("wait behind other replies"),
        causes=frozenset({Cause.HEAD_OF_LINE}),
        explains=("head_of_line",),
        knob="nconnect",
        decided_by=(step.ONE_WAY,),
        means="Small replies wait in the server's socket behind large ones that take long to send. It looks like "
        "server response time.",
        told="Replies waited in the server's socket behind others that took 1 ms or more to be sent, for 5 % of the "
        "mean, or 10 % of the slowest 1 %.",
        certain="Never: the figure is an upper bound.",
        refuted="Small operations are just as slow on a connection that carries no large ones.",
        do="More connections (nconnect), or smaller replies (rsize).",
    ),
    Row(
        code="bandwidth",
        layer="network",
        title="The path is saturated",
        headline="The path is saturated",
        looked_for="bandwidth",
        proof=_waits("wait for the path's bandwidth"),
        causes=frozenset({Cause.BANDWIDTH}),
        explains=("bandwidth",),
        knob="the path",
        decided_by=(
            step.BANDWIDTH,
            step.ONE_WAY,
        ),
        shared="what it carries",
        means="One direction carries all it can; what is sent beyond that queues.",
        told="One direction runs at a steady maximum rate for much of its busy time, and waits for it are 5 % of "
        "the mean, or 10 % of the slowest 1 %.",
        certain="Never.",
        refuted="iperf3 between the hosts carries much more.",
        do=(
            "Look at negotiated speeds and shapers; measure the path without NFS. More slots only make the queue "
            "longer."
        ),
    ),
    Row(
        code="host-pause",
        layer="either",
        event="pause",
        title="A host did not run for a while",
        headline="The {layer} was stalled {how_long}",
        uncounted="What its application waited meanwhile, packets cannot show.",
        looked_for="a host pause",
        proof=_waits("while the host did not run"),
        causes=frozenset({Cause.HOST_PAUSE}),
        explains=("server_paused", "client_paused", "held"),
        knob="the host",
        decided_by=(
            step.STEAL,
            step.SCHED,
            step.CLIENT,
        ),
        means="A host neither received nor sent anything while data were in transit to it, and then received all of "
        "them at once: a virtual machine that was not scheduled, or a link that was down.",
        told="A host neither received nor sent anything for 50 ms or more while messages, or segments that were "
        "retransmitted, were in transit to it, two or more of which it then had at once; and that cost 5 % of the "
        "mean or 10 % of the slowest 1 %, or may have cost the application as much: then the share is known with "
        "its time only.",
        certain="Never.",
        refuted="The other host's link was down at that time, or packets were held in transit in one direction only.",
        do="Steal time, migration and snapshots of a virtual machine; else dmesg -T and perf sched around that moment.",
    ),
    Row(
        code="host-busy",
        layer="either",
        title="A host is short of processors or memory",
        headline="The {layer} had {first}",
        uncounted="What that costs an operation, its tools do not say.",
        knob="processors and memory of that host",
        decided_by=(
            step.SCHED,
            step.STEAL,
        ),
        means="While the captures ran, a host's own tools saw more runnable processes than processors, a hypervisor "
        "that took their time, or memory that was paged. Its threads then wait where no packet shows why: on a server "
        "as time in a thread, on a client above the wire.",
        told="Samples of vmstat, mpstat or pidstat (--evidence), or two snapshots, that cover half of the captures' "
        "time: 1.5 runnable processes for each processor, processors idle for 5 % of the time or less, 5 % steal, a "
        "processor that is busy for 95 % and in soft interrupts for 50 %, 100 KiB/s swapped, 100 major faults a "
        "second, or tasks that wait for a processor 20 % of the time, or for memory 5 % (/proc/pressure). It has no "
        "share and is always of little weight: what it costs an operation is not known.",
        certain="Never.",
        refuted="perf sched latency shows that threads of NFS, or of the application, run as soon as they are woken.",
        do="See who takes the processors (pidstat), whether memory is short, and what the hypervisor gives.",
    ),
    Row(
        code="window-stays-shut",
        is_hang=True,
        shows_itself=True,
        layer="either",
        event="hang",
        title="A window stays shut",
        headline="The {layer} does not read: its TCP window has been shut for {how_long}",
        uncounted="What waits there is in no response time.",
        looked_for="windows that stay closed",
        knob="why that host does not read",
        decided_by=(step.WINDOW,),
        means="A host has no room for more data and says so (a TCP window of 0), the other one probes it again and "
        "again, and it stays so until the capture ends, or the connection: its application does not read. Calls that "
        "were not sent are in no response time.",
        told="The last window that a host announced is 0, for 200 ms or more, and the other one probed it, or "
        "retransmitted what it had no room for, once at the least. A window that nobody probes holds nobody up.",
        certain="The host sent packets with that window behind the one that shut it.",
        refuted="Recv-Q of its socket (ss -tm) is 0; or the capture lost the packet that opened it.",
        do="See what the threads that should read wait for (nfsd: /proc/PID/stack), then memory.",
    ),
    Row(
        code="never-acknowledged",
        is_hang=True,
        shows_itself=True,
        layer="network",
        event="hang",
        title="Data are retransmitted and again, and never acknowledged",
        headline="Data are retransmitted for {how_long} and never acknowledged",
        uncounted="What waits there is in no response time.",
        looked_for="data that are never acknowledged",
        knob="the path, or the host that takes nothing",
        means="An end of a connection sends the same bytes again and again until the capture ends, or the connection. "
        "Calls behind them have no reply, and are in no response time.",
        told="The first byte that is not acknowledged went out three times or more in 200 ms, or twice in 1 s; and the "
        "end would not have asked again yet, or asked five times. Not where one direction alone was captured and goes "
        "on. With two captures those tries are counted that came to the other one: where none did it is the path; "
        "where some did and were acknowledged it is the way back; where they were not it is the host, and then the "
        "finding is that host's.",
        certain="With two captures: none of three tries or more arrived, or the ACK left the other host.",
        refuted="The capture lost the ACKs (capture-drops), or the host counts what came with a wrong checksum "
        "(TcpInCsumErrors): then it is the path.",
        do="Firewalls that forgot the connection, an MTU that large packets do not fit, a host that is gone: ss -tio, "
        "nstat, rpcinfo.",
    ),
    Row(
        code="calls-unanswered",
        is_hang=True,
        shows_itself=True,
        layer="either",
        event="hang",
        title="Calls are not answered",
        headline="{wait}",
        uncounted="They are in no response time, and in no mean.",
        looked_for="calls without an answer",
        knob="what the server does with these calls",
        decided_by=(step.NFSD,),
        means="Calls were sent and have no reply when the capture ends, though no call like them took nearly as long. "
        "What waits for them (a process in state D, a database session) hangs. Their age is the least that they take.",
        told="A call has no reply when the capture ends, and is 1 s old or more, three times as old as the longest of "
        "its operation took, and ten times the 99th percentile of all. Not where the capture may lack the reply: "
        "behind a hole, or a reply to no call that is seen, on a connection of which one direction alone was captured, "
        "by UDP where it was sent once; and not where the client gave it up. Where the server's capture shows the "
        "call, or its TCP acknowledged it, it is the server; where the server's capture does not show it, or shows the "
        "reply, or a part of what the server sent never comes while later data do, it is the path. It leads where the "
        "oldest call is 10 s old, or these calls have 20 % of all time.",
        certain="The oldest is 10 s old, and the server's capture shows the calls and no reply, or its TCP "
        "acknowledged them.",
        refuted="The client was stopped or unmounted by force; or the capture ended right before the replies.",
        do="See what the server's threads wait for (/proc/PID/stack of nfsd), its storage, and its log; then whether "
        "other clients and other files are served.",
    ),
    Row(
        code="server-grace",
        is_put_off=True,
        shows_itself=True,
        layer="server",
        title="The server is in its grace period",
        headline="The server is in its grace period: {tried}",
        uncounted="No response time shows that wait.",
        looked_for="its grace period",
        knob="the server's start and its grace period",
        decided_by=(step.LOG,),
        means="After a start the NFS server lets clients claim the locks and files that they had, and answers "
        "everything new with NFS4ERR_GRACE. Clients wait and ask again by themselves; their applications see one call "
        "that takes as long as all tries together. Each try is quick by itself, so response times show nothing.",
        told="Calls of one client for the same operation on the same file, name and offset are joined where the one "
        "before was answered NFS4ERR_GRACE and a client's back-off (50 ms to 20 s) lies between. What passes between "
        "tries is 5 % or more of the application's time, or of all response times and these waits together, and one "
        "request took 1 s or more, or three further tries were needed.",
        certain="70 % of the waits for the next try are those that Linux makes: 0.1 s, doubled up to 15 s.",
        refuted="The server's log shows no start; or the application itself asks again and again.",
        do="Find out who restarted the server, and why its grace period did not end early (nfsdcld). The last wait is "
        "the client's own and takes up to 15 s.",
    ),
    Row(
        code="server-delay",
        is_put_off=True,
        shows_itself=True,
        layer="server",
        title="The server has clients come again later",
        headline="The server tells clients to try again later: {tried}",
        uncounted="No response time shows that wait.",
        looked_for="requests it defers (DELAY, JUKEBOX)",
        knob="what the server waits for",
        decided_by=(step.LOCKS,),
        means="The server answers NFS4ERR_DELAY, or NFS3ERR_JUKEBOX, instead of keeping the call: it calls a "
        "delegation back from another client, or waits for a file from tape, for mountd, for memory. A Linux client "
        "waits 5 s with NFSv3, and 0.1 s that it doubles up to 15 s with NFSv4, and asks again.",
        told="Tries are joined and weighed as for server-grace. One that is put off once, for a tenth of a second, is "
        "no finding: so delegations work.",
        certain="70 % of the waits for the next try are those that Linux makes.",
        refuted="The application itself asks again; or the waits are of clients that have nothing to do meanwhile "
        "(read-ahead, write-back).",
        do="See which clients hold delegations on these files (/proc/fs/nfsd/clients/*/states), and what the server's "
        "log says.",
    ),
    Row(
        code="state-lost",
        is_put_off=True,
        shows_itself=True,
        layer="server",
        event="recovery",
        title="The server does not know the client's session, lease or state",
        headline="The server does not know the client's session, lease or state: {tried}",
        uncounted="No response time shows what that costs.",
        looked_for="lost state",
        knob="why state was lost",
        decided_by=(step.LOG,),
        means="Replies say that a session, client ID, lease or stateid is gone, old or of another start of the server. "
        "The client makes its state anew and asks again.",
        told="Tries are joined and weighed as for server-grace; or 10 % of all ops, and 20 or more, are answered so. "
        "Each recovery has a row of its own in the report: when, how long, and how many requests waited for it.",
        certain="Never: who lost it is not in the packets.",
        refuted="The statuses belong to a client that was fenced on purpose, or to a test.",
        do="Was the server started anew, or did a lease expire while the client was cut off? Do two clients have the "
        "same name, and with it the same client ID (nfs4_unique_id)?",
    ),
    Row(
        code="handles-lost",
        layer="server",
        title="Clients ask for files that the server does not have any more",
        headline="Clients ask for files that the server no longer has: {answered}",
        uncounted="No response time shows what that costs.",
        knob="the export behind these handles",
        decided_by=(step.LOG,),
        means="NFS3ERR_STALE, NFS4ERR_STALE and their like: the file behind a handle is gone, and no further try "
        "helps.",
        told="10 % of all ops, and 20 or more, are answered so.",
        certain="Never: the packets do not say where the file went.",
        refuted="Another client removes files as its work.",
        do="Compare exports (fsid) before and after a restart or a failover; mount again on the client.",
    ),
    Row(
        code="operations-fail",
        shows_itself=True,
        layer="server",
        title="The server answers operations with errors",
        headline="{fail}",
        uncounted="No response time shows what an error costs.",
        looked_for="operations that fail",
        knob="what the status says",
        means="Calls are answered quickly, and with an error that is no part of normal life: no space, a quota, an "
        "I/O error, a file system that is read-only, rights that are missing where a client had asked before. The "
        "application sees it.",
        told="Five ops or more, and a tenth of their operation, have a status NOSPC, DQUOT, IO, NXIO, NODEV, ROFS, "
        "SERVERFAULT, RESOURCE, FBIG, MOVED, BADOWNER or BADXDR, or are denied by RPC; or ACCES, PERM or "
        "NAMETOOLONG where the operation reads, writes or changes something. Of others 20 and a fifth of them "
        "are worth a line, of little weight. It leads where it is half of an operation and a hundredth of all ops.",
        certain="Always: the status is in the reply.",
        refuted="The application expects it, as a test does.",
        do="By status: df and df -i, quotas, the server's log and disks, exportfs -v and the user's numbers.",
    ),
    Row(
        code="lock-wait",
        is_put_off=True,
        shows_itself=True,
        layer="client",
        title="Requests wait for a lock that somebody else holds",
        headline="Requests wait for locks that others hold: {tried}",
        uncounted="No response time shows that wait.",
        looked_for="locks held by others",
        knob="who holds the lock",
        decided_by=(step.LOCKS,),
        means="The server answers NFS4ERR_DENIED, NFS4ERR_LOCKED or NLM4_DENIED: another owner has the lock, and the "
        "client, or its application, asks again: Linux after 1 s, doubled up to 30 s. The lock may have been free for "
        "that long.",
        told="Tries are joined as for server-grace, up to 35 s apart, and weighed like them. Without the application's "
        "time it has no share and is of little weight: a program that stands by asks for a lock for hours.",
        certain="Never: an application that only looks whether a lock is free looks alike.",
        refuted="The application asks without wanting to wait, and does something else meanwhile.",
        do="See who holds it: /proc/locks and /proc/fs/nfsd/clients/*/states on the server.",
    ),
    Row(
        code="rpc-timeout",
        shows_itself=True,
        layer="client",
        title="Calls are sent again while the server works on them",
        headline="{again}",
        uncounted="What the work that is done twice costs, packets do not show; response times are the server's.",
        looked_for="calls that RPC sends again too soon",
        knob="timeo of the mount",
        means="The mount's timeout (timeo, in tenths of a second) is shorter than what the server takes now and then: "
        "the client sends such calls again on the same connection, and the server does the work once more, or has to "
        "find the answer in its cache.",
        told="Five calls or more, 1 % of the ops, were sent again on the same connection by TCP, four of five of them "
        "within a tenth of the same time after the first transmission, which is below 10 s; by UDP only where half of "
        "them were answered twice, for there a call, or its reply, may have been lost. It leads where that is 20 % of "
        "the ops.",
        certain="Always: the same time again and again is a timer.",
        refuted="The mount has timeo=600 or more.",
        do="Mount with timeo=600 (the default of TCP), then look at why the server takes that long.",
    ),
    Row(
        code="client-slots",
        is_slots=True,
        layer="client",
        title="Requests wait for a slot of their connection",
        headline="{all_slots}",
        uncounted="How long they wait, packets cannot show.",
        looked_for="slot limits of connections",
        knob="the slots of a connection",
        decided_by=(step.CLIENT,),
        counter=_QUEUED,
        means="The client keeps no more calls in flight than it has slots, and other requests wait in it, where no "
        "capture shows them.",
        told="The mount is likely held by slots (as many callers that wait for each reply look alike, so that alone it "
        "is no fault; callers that take turns, a kernel that writes a file back, or the client's own number of slots, "
        "make it likely); or half of the application's time is above the wire, or the client counts a wait, and the "
        "connections are at their top for half of the busy time, and less than 25 % of the messages are unseen. Not "
        "where the client's own settings or counters show more slots, unless it counts a wait for one; nor where by "
        "Little's law the application has no more requests open than there are slots. Not where the application's "
        "time exceeds the wire's by less than 5 %.",
        certain="Time above the wire is 30 % of the application's, and ops that are not captured cannot be it, or the "
        "client says that it has so many slots, or it counts a wait for one. What it counts since its mount may be of "
        "another time, and makes it no more than likely.",
        refuted="The client has more slots than calls in flight, or its backlog (mountstats) is 0: then the "
        "application has no more to ask for.",
        do="More slots, or more connections (nconnect); give the application's mean (--app-ms) to see what it cost.",
    ),
    Row(
        code="session-slots",
        is_slots=True,
        layer="client",
        title="Requests wait for a slot of their NFSv4.1 session",
        headline="{of_session}",
        uncounted="How long they wait, packets cannot show.",
        looked_for="slot limits of sessions",
        knob="nfs.max_session_slots",
        decided_by=(step.CLIENT,),
        counter=_QUEUED,
        means="All slots of the NFSv4.1 session are in use, and other requests wait in the client, where no capture "
        "shows them.",
        told="All slots of the session are in use for a fifth of the busy time, and for longer than any smaller number "
        "of them, or the client keeps to fewer by itself; the same limit below as for slot limits of connections. Of "
        "little weight where they are all in use for less.",
        certain="The application's time is known, or the client counts a wait.",
        refuted="The highest slot that was granted is above the calls in flight.",
        do="Raise what the client asks for (nfs.max_session_slots), and what the server grants.",
    ),
    Row(
        code="serial-calls",
        layer="client",
        title="One caller asks about files one after the other",
        headline="One caller asks about files one after the other",
        knob="how often the client asks",
        in_brief=True,
        means="A program looks at many files, as ls -l, find and backups do, and sends each call as the answer before "
        "has come. It takes the number of calls times their response time, and no call is slow.",
        told="100 or more calls (GETATTR, ACCESS, LOOKUP, READLINK, READDIR, READDIRPLUS) in rows of 20 and more, each "
        "sent with nothing else in flight and within 1 ms of the answer before, have half of all response times. It is "
        "always of little weight, and has no share: what it would take otherwise is not known.",
        certain="Never: several callers who wait for each other look alike.",
        refuted="Nobody waits for that program.",
        do="Let the client keep attributes (actimeo, no noac), list with READDIRPLUS, or look in parallel; a shorter "
        "round trip helps as much.",
    ),
    Row(
        code="serial-pieces",
        layer="client",
        title="A call of the application is several operations, one after the other",
        headline="A {call} takes {call_ms} ms, {why} {sum}",
        uncounted="Nothing queues for a slot: at once, they would take little more than one of them.",
        knob="why the client sends the operations of a call one after the other",
        means="The application waits for one call, of several blocks, and its client's kernel makes several operations "
        "of it, each sent as the answer to the one before has come. The call takes the sum of their response times; "
        "the slots are free.",
        told="Calls or waits that are joined with their operations (a 10046 trace or strace as --evidence): 1.5 "
        "operations or more a call, hardly ever two of a call in flight at once, and half of the call's time on the "
        "wire. Of little weight below 3 operations a call. With --app-ms alone: half of the operations or more go on "
        "where one before ended, and are sent within half of their time after its answer, and 3 or more of them in a "
        "row, no more than are in one, take as long. Where the session has one slot, or the client says that it "
        "has one, they may be what it holds back, and there is no such finding.",
        certain="Where each call is joined with its own operations.",
        refuted="The client's mountstats count a wait for slots (avg queue) as long as the call.",
        do="A larger rsize or wsize, if it is what splits the calls; Direct NFS for Oracle; a newer kernel. If the "
        "response time of each is long, that of the server or of the network counts as many times.",
    ),
    Row(
        code="above-wire",
        open_from=(0.4, 1.0),
        layer="client",
        title="Time above the wire that no limit explains",
        headline="{above_wire_ms} ms of the application's time is above the wire, and no limit of the client explains "
        "it",
        looked_for="time above the wire",
        needs=Needs.FIGURES,
        knob="evidence from the client",
        is_vague=True,
        decided_by=(
            step.CLIENT,
            step.SCHED,
        ),
        means="The application waits longer than its requests are on the wire, and no slot limit is seen to be "
        "reached: run queue, paging, the page cache, or the application itself.",
        told="5 % or more of the application's time is above the wire, and neither slots explain it nor times in which "
        "nothing could leave the client.",
        certain="Ops that are not captured cannot be it.",
        refuted="The application's figure is over other requests than the captures, or ops are missing in them.",
        do="Snapshots of the client before and after; perf sched latency, vmstat and pidstat there.",
    ),
    Row(
        code="database-no-wait",
        layer="client",
        title="Database time in no wait and on no processor",
        headline="{how_much} of the database time is in no wait and on no CPU",
        uncounted="The database's host keeps its sessions from running; no operation of NFS shows that.",
        knob="run queue, paging and the kernel of the database's host",
        decided_by=(
            step.NO_CPU,
            step.SCHED,
        ),
        means="Sessions of a database are in calls for longer than they wait for anything and have a processor. They "
        "are ready to run and have none, wait for pages of memory, or a kernel works for them and does not charge "
        "them.",
        told="An AWR report (--evidence), text or HTML: DB time less DB CPU less the waits of foreground sessions is "
        "10 % of the DB time or more. It has no share of an operation's time, and is of little weight unless it is "
        "20 % or more, the report's host is the client and its interval that of the captures (--client-snapshot tells "
        "name and zone of the client).",
        certain="Never: what Oracle does not time as a wait looks alike.",
        refuted="The run queue is short, nothing is paged, and stacks of the sessions show them at work; or the report "
        "has waits that are not counted to its DB time.",
        do="vmstat, perf sched latency, and stacks of the sessions on the database's host under the same load.",
    ),
)
_BY_CODE = {one.code: one for one in ROWS}
CODES = frozenset(_BY_CODE)


def _having(column: str) -> frozenset[str]:
    return frozenset(one.code for one in ROWS if getattr(one, column))


VAGUE, HANGS, PUT_OFF, SLOTS = (_having(column) for column in ("is_vague", "is_hang", "is_put_off", "is_slots"))
SHOW_THEMSELVES = _having("shows_itself")


def row(code: str) -> Row:
    """Raises ``KeyError`` for a code that there is not."""
    return _BY_CODE[code]


def next_step(one: Step) -> NextStep:
    """As a verdict has it, with all that it decides about; a new capture may decide about everything."""
    by_capture = one in (step.WHOLE_PACKETS, step.ALL_FILES, step.LONGER, step.AGAIN, step.FROM_HOSTS)
    causes = [each.code for each in ROWS if one in each.decided_by or by_capture]
    return NextStep(one.command, one.where, one.decides, causes)


def looked_for(found: Collection[str]) -> str:
    """By whose they are, all that packets are searched for, but for the codes that were found."""
    said = []
    for layer in dict.fromkeys(("server", "network", "client", *(one.layer for one in ROWS))):
        of = [
            one.looked_for
            for one in ROWS
            if one.layer == layer and one.looked_for and one.needs is not Needs.FIGURES and one.code not in found
        ]
        said += [f"{', '.join(of)} ({layer})"] if of else []
    return "; ".join(said)


def looked_for_in_figures() -> str:
    """The same where there are no captures."""
    return ", ".join(one.looked_for for one in ROWS if one.needs is not Needs.PACKETS)


def explaining(part: str) -> tuple[str, ...]:
    """Codes of what may make this part of the response time, or this column of causes, grow."""
    return tuple(one.code for one in ROWS if part in one.explains)
