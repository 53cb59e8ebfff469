"""Facts -> findings on the server: too few threads, slow storage, a queue of unknown make, a cap on connections."""

from __future__ import annotations

from typing import ClassVar

from msgspec import structs

from nfslat.answer.model import MatchedRow, ServerInFlight
from nfslat.findings.catalogue import CAUSE
from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import AT_SERVER, LONG_MS, MATTERS, STORAGE_OPS, UNSTABLE_WRITE, Facts
from nfslat.findings.layers import Layers
from nfslat.findings.slow_ops import (
    IN_THREAD,
    OR_PROCESSOR,
    RETRANSMISSION_MS,
    STORAGE,
    STORAGE_PROVEN,
    Late,
    slow_finding,
    unseen_finding,
)
from nfslat.findings.starved import late_ms
from nfslat.findings.tune import advice
from nfslat.findings.words import ms, percent, span, times
from nfslat.model.causes import FROM_OUTSIDE, Cause
from nfslat.model.protocol import IN_MEMORY_OPS
from nfslat.wire.above import Why

THREADS, UNKNOWN = "server-threads", "server-queue-unknown"
_SOME = 0.05  # of the whole; less is not worth a finding
_FAST = 0.1  # of the time of data ops: light ops that take no more show that the server itself is quick
_FEW_LIGHT = 5
_HALF = 0.5  # of that time
_NAMED = 0.1  # of the time of all ops that wait for storage: kinds that take less are not named
_MOSTLY = 0.7
_WITNESSES = 5
# Those that go by a name meet the disk where nobody has read that directory lately: one of them would speak for all.
_LIGHT = IN_MEMORY_OPS - {"LOOKUP", "OPEN"}
_UNNAMED = frozenset(("COMPOUND",))  # NFSv4 that shows no operation
_BLIND = 0.25  # of the messages unseen: in flight is not what it seems


class Workers(Evidence, kw_only=True):
    """How many calls the server works on at once, as the packets show it."""

    threads_estimate: int | None
    threads_range: tuple[int, int] | None
    threads_lower_bound: int  # so many were seen at work at once
    most_in_flight: int
    witnesses: int  # light ops that waited as long as the others


class Window(Evidence, kw_only=True):
    """What the server's TCP window kept above the wire."""

    above_wire_ms: float  # mean, at most
    counted_above_ms: float  # of that what is counted
    window_ms: float  # how long it had no room, in all


class Queue(Evidence, kw_only=True):
    """Of server-threads; and of server-storage and server-queue-unknown where there is a queue that is not threads'."""

    queue_ms: float | None  # mean wait; null where counters alone tell of it
    in_thread_ms: float  # mean
    server_ms: float  # both
    workers: Workers | None = None
    storage_ms: float | None = None  # the storage's own mean
    threads: int | None = None  # as the server says
    share_slowest: float | None = None  # of the slowest 1 %
    proven: bool = False  # that it is threads that calls wait for
    window: Window | None = None

    @property
    def who(self) -> str:
        """What for: `` for its only thread``; what is only likely stands behind a comma."""
        estimate, span = (self.workers.threads_estimate, self.workers.threads_range) if self.workers else (None, None)
        threads = self.threads or estimate
        low, high = span or (threads, threads)
        if threads is None:
            return " for a thread"
        number = threads if self.threads is not None or low == high else f"{low} to {high}"
        if self.threads is None and not self.proven:
            return f", which works on {number} at a time: a limit of its threads, or of storage or processors"
        return " for its only thread" if number == 1 else f" for one of its {number} threads"

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """Counters alone tell of it."""
        return share is None

    @property
    def slow_part(self) -> str:
        """What a verdict says where the queue is the storage's, which has its own figure."""
        return STORAGE_PROVEN

    @property
    def room(self) -> str:
        """That calls wait for room in the window, too."""
        return (
            ""
            if self.window is None
            else f", and up to {ms(self.window.counted_above_ms)} ms for room in its TCP window"
        )


class Storage(Evidence, kw_only=True):
    """Evidence of the finding server-storage."""

    in_thread_ms: float  # mean
    data_ops: int  # that read or change the disk
    data_ms: float  # their mean time in a thread
    storage_ms: float | None = None  # the storage's own mean
    light_ops: int | None = None  # that need neither data nor a name
    light_ms: float | None = None  # their mean time in a thread
    share_slowest: float | None = None  # of the slowest 1 %

    def losses(self, ops: int) -> float:
        """What it is on average costs as many retransmissions."""
        return ops * self.in_thread_ms / RETRANSMISSION_MS

    @property
    def slow_part(self) -> str:
        """What a verdict says: the storage only where its own figure proves it, and no processor where light ops beside
        it had theirs in time."""
        if self.storage_ms is not None:
            return STORAGE_PROVEN
        return f"Operations take long {IN_THREAD if self.light_ops is not None else OR_PROCESSOR}"


class Unknown(Evidence, kw_only=True):
    """Evidence of the finding server-queue-unknown."""

    server_ms: float  # mean
    in_thread_ms: float  # mean, as far as a wait for a thread is known
    late_ms: float | None = None  # calls, where its processor may be what is missing
    share_slowest: float | None = None  # of the slowest 1 %


class Reconnect(Evidence, kw_only=True):
    """Of reconnect."""

    is_recorded: ClassVar[bool] = True
    ops: int  # that were sent again on a new connection
    mean_ms: float | None  # their client SRT
    excess_ms: float  # what they add to the mean of all
    above_wire_ms: float  # mean, at most: what requests waited in the client for a connection
    counted_above_ms: float  # of that what is counted, where the application's time is known
    interruptions: int | None  # times without a connection
    no_connection_ms: float | None  # in all
    longest_ms: float | None
    at: str | None  # when the longest began

    @property
    def lost(self) -> str:
        """What a verdict says of it."""
        if self.no_connection_ms:
            return f"The client lost its connection, and had none for {span(self.no_connection_ms)}"
        return f"The client lost its connection: {times(self.ops, 'operation')} waited for a new one"

    @property
    def may_be_more(self) -> bool:
        """Requests may have waited for a connection."""
        return bool(self.above_wire_ms)

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """Requests waited for a connection, and for how long no application says."""
        return mean.client_ms is None and self.above_wire_ms >= CAUSE * mean.total_ms


class ConnectionCap(Evidence, kw_only=True):
    """Evidence of the finding connection-cap."""

    level: int  # calls in flight at which the server closes its window
    zero_windows: int
    zero_window_ms: float


class ServerWindow(Window, kw_only=True):
    """Evidence of the finding server-window."""

    longest_ms: float
    at: str  # when the longest began
    times: int


def server_findings(facts: Facts) -> list[Diagnosis]:
    """In no order."""
    facts = _as_counted(facts)
    slow = slow_finding(facts)
    of_time: list[Diagnosis | None] = [slow]  # of ops that are slow at times, or all that is slow: it is the same time
    if slow is None or _is_of_few(facts, slow):
        every = _in_thread(facts)
        # The kinds that are not slow at times may be slow always, and are most of it.
        of_time = every if slow is None or any(one is not None and one.code == STORAGE for one in every) else of_time
    hidden = unseen_finding(facts)
    if slow is not None and slow.severity == "warning":
        hidden = None  # they are of one kind, and how they come is known of those that are seen
    elif hidden is not None:
        of_time = [cause for cause in of_time if cause is not slow]
    found = [_queue(facts), *of_time, hidden, _reconnect(facts)]
    by_code: dict[str, Diagnosis] = {}
    for one in found:
        if one is not None:
            by_code.setdefault(one.code, one)  # the queue itself says more than what is left of the server's time
    return [_no_surer(facts, one) for one in (*by_code.values(), *_caps(facts))]


def _as_counted(f: Facts) -> Facts:
    """With the wait for a thread that the server's own counters prove, where packets show none, or one for another
    number of threads than there are. Where that number is not known, how long calls wait is not."""
    s = f.server
    if not f.counted(THREADS) or f.queue_is_measured or s is None:
        return f
    low, high = s.threads_range or (f.threads, f.threads)
    if s.limited and (f.threads is None or low is None or high is None or low <= f.threads <= high):
        return f
    if f.least_queue_ms is not None:
        return structs.replace(f, queue_ms=f.least_queue_ms, slowest_queue_ms=None, queue_is_measured=True)
    return structs.replace(f, queue_ms=None) if s.instead or s.cannot else f


def _is_of_few(f: Facts, slow: Diagnosis) -> bool:
    """Do the operations of which some are slow make less than half of what data take in the server?"""
    kinds = slow.evidence.ops if isinstance(slow.evidence, Late) else ()
    times_ms = {row.op: row.count * row.server_ms.mean for row in f.by_op if row.op in STORAGE_OPS}
    return sum(times_ms.get(one, 0.0) for one in kinds) < _HALF * sum(times_ms.values())


def _no_surer(f: Facts, found: Diagnosis) -> Diagnosis:
    """A handful of ops makes nothing certain."""
    return structs.replace(found, confidence="likely") if f.few_ops else found


def _in_thread(f: Facts) -> list[Diagnosis | None]:
    storage, unknown = _storage(f), _unknown(f)
    if storage is None or unknown is None:
        return [storage, unknown]
    # Both are about the time in a thread. What is not told from packets may be known from the storage itself.
    return [storage if storage.confidence == "certain" else unknown]


def _queue(f: Facts) -> Diagnosis | None:
    """Calls that wait for a thread, or as if for one."""
    counted, queue_ms = f.counted(THREADS), f.queue_ms
    if queue_ms is None and (not counted or (f.server is not None and f.server.max < 2)):
        return None  # a thread that is not asleep yet is not woken either, and the only caller waits for nobody
    # What TCP made of the server's response time is no wait for a thread, and none of it is a queue's.
    share, slowest = None if queue_ms is None else f.share_within("server", queue_ms), _slowest_queue(f)
    if share is not None and share < _SOME and (slowest or 0.0) < _SOME:
        return None
    s = f.server
    estimate = s.threads_estimate if s is not None else None
    low, high = s.threads_range if s is not None and s.threads_range else (None, None)
    known = f.threads
    workers = (
        None
        if s is None
        else Workers(
            threads_estimate=estimate,
            threads_range=s.threads_range or None,
            threads_lower_bound=s.threads_lower_bound,
            most_in_flight=s.max,
            witnesses=s.witnesses,
        )
    )
    evidence = Queue(queue_ms=queue_ms, in_thread_ms=f.in_thread_ms, server_ms=f.mean.server_ms, workers=workers)
    of_server = f"of the server's {f.mean.said(f.mean.server_ms)} ms"
    split = f"a part {of_server}" if queue_ms is None else f"{f.mean.said(queue_ms, 'server')} {of_server}"
    storage_ms = f.storage_ms
    leaving = "" if estimate is None else f" that {_number(s)} at a time leave{'s' if estimate == 1 else ''}"
    witnesses = s.witnesses if s is not None else 0
    if storage_ms is not None and f.counted("server-storage") and not counted and witnesses < _WITNESSES:
        return diagnosis(
            "server-storage",
            "server",
            f"calls wait {split} in a queue{leaving}, and the storage's own figure "
            f"({ms(storage_ms)} ms) contains that wait: the queue is the storage's, not one for threads",
            share=share,
            slowest=slowest,
            confidence="certain",
            evidence=structs.replace(evidence, storage_ms=storage_ms),
        )
    if known is not None and high is not None and known > high and not f.queue_is_measured and not counted:
        return diagnosis(
            "server-queue-unknown",
            "server",
            f"calls wait {split} in a queue{leaving}, but the server has "
            f"{times(known, 'thread')}: look for a lock, or storage that takes no more at once",
            share=share,
            slowest=slowest,
            confidence="likely",
            evidence=structs.replace(evidence, threads=known),
        )
    if f.woken_share is not None and counted is False and witnesses < _WITNESSES:
        return diagnosis(
            "server-queue-unknown",
            "server",
            f"calls wait {split} in a queue{leaving}, but {percent(f.woken_share)} of them found an idle thread "
            "(pool_stats): look for a lock, or storage that takes no more at once",
            share=share,
            slowest=slowest,
            confidence="certain",
            evidence=structs.replace(evidence, threads=known),
        )
    count = known if known is not None else estimate
    sure = (
        f.queue_is_measured
        or (known is not None and estimate is not None and (low or 0) <= known)
        or bool(counted)
        or witnesses >= _WITNESSES
    ) and not f.few_ops
    text = f"calls wait {split} for {_whom(known, s, sure=sure)}"
    if queue_ms is not None:
        text += f", and are processed for {f.mean.said(f.in_thread_ms)} ms"
    if counted and f.woken_share is not None:
        text += f"; {percent(f.woken_share)} of its queued sockets found an idle thread (pool_stats)"
    if not sure:
        text += "; storage or processors that take no more at once would look alike: the number of threads decides"
    return diagnosis(
        THREADS,
        "server",
        text,
        share=share,
        slowest=slowest,
        confidence="certain" if sure else "likely",
        evidence=structs.replace(evidence, threads=known, proven=sure),
        advice=advice.threads(f.server_host, count, s.max if s is not None else None) if sure else _ASK,
    )


_ASK = LookAt(
    knob="how many threads the NFS server has",
    how=("cat /proc/fs/nfsd/threads", "nfslat ... --server-snapshot BEFORE AFTER (scripts/snapshot.sh)"),
    verify=(
        "if it has as many as are seen at work here, they are the limit: give the server more; if it has more, "
        "look at the storage"
    ),
)


def _whom(known: int | None, s: ServerInFlight | None, *, sure: bool) -> str:
    """What calls wait for."""
    count = known if known is not None or s is None else s.threads_estimate
    if count is None:
        return "a server thread"
    low, high = s.threads_range or (count, count) if s is not None else (count, count)
    spread = f" ({low} to {high})" if known is None and low != high else ""
    if not sure and known is None:
        return f"a limit of {count:,} at once{spread}"
    return f"the server's only thread{spread}" if count == 1 else f"one of the server's {count:,} threads{spread}"


def _slowest_queue(f: Facts) -> float | None:
    if f.slowest is None or f.slowest_queue_ms is None:
        return None
    return f.slowest_share(min(f.slowest_queue_ms, max(f.slowest.ms("server"), 0.0)))


def _number(s: ServerInFlight | None) -> str:
    if s is None or s.threads_estimate is None:
        return "a few calls"
    low, high = s.threads_range or (s.threads_estimate,) * 2
    return times(s.threads_estimate, "call") if low == high else f"{low} to {high} calls"


def _storage(f: Facts) -> Diagnosis | None:
    """Data that takes long in the server although nothing waits for a thread, nor for a processor as it seems."""
    found = _slow_data(f)
    is_sure = found is None or found.confidence == "certain" or f.queue_is_measured
    return found if is_sure or not late_ms(f) else None


def _slow_data(f: Facts) -> Diagnosis | None:
    """Data that takes long in a thread, whatever for."""
    if (f.queue_ms is None and f.storage_ms is None) or (f.server is not None and f.server.cannot):
        return None
    # What was measured on the server counts for all of them; by operation only the packets tell.
    data, light = (None, None) if f.queue_is_measured else (f.op(STORAGE_OPS), f.op(_LIGHT))
    count, _, work_ms = data or (0, 0.0, f.in_thread_ms)
    own_ms = f.in_thread_ms * (1 - _unstable_share(f))
    slow_ms = f.long_ms if f.storage_ms is None else LONG_MS
    if (f.by_op and data is None and not f.queue_is_measured) or work_ms < slow_ms or f.share(own_ms) < _SOME:
        return None
    rows = sorted((row for row in f.by_op if row.op in STORAGE_OPS), key=lambda row: -row.count * row.server_ms.mean)
    if data is not None and not f.queue_ms and rows[0].server_ms.p50 < LONG_MS / 2:
        return None  # a few ops make the mean: an event, not a slow back end
    evidence = Storage(in_thread_ms=own_ms, data_ops=count, data_ms=work_ms, storage_ms=f.storage_ms)
    proof = ""
    confidence = "likely"
    if f.storage_ms is not None:
        if f.storage_ms < (1 - _MOSTLY) * work_ms:
            return None  # the storage is quick: `_unknown` says so
        confidence, proof = "certain", f"; the storage's own figure is {ms(f.storage_ms)} ms"
    if light is not None and light[0] >= _FEW_LIGHT:
        light_ms = _usual_light_ms(f)
        evidence = structs.replace(evidence, light_ops=light[0], light_ms=light_ms)
        if light_ms > _FAST * work_ms and confidence != "certain":
            return None
        proof += f", while {times(light[0], 'op')} that need no data take {ms(light_ms)} ms"
    thread = " once a thread has them" if f.queue_ms else ", and none waits for a thread"
    if f.queue_ms is None or (f.server is not None and f.server.instead):
        thread = ""
    return diagnosis(
        "server-storage",
        "server",
        f"{_named(rows)} {ms(work_ms)} ms in the server{thread}{proof}",
        share=f.share(own_ms),
        slowest=_slowest_in_thread(f) if own_ms == f.in_thread_ms else None,
        confidence=confidence,
        evidence=evidence,
        advice=LookAt(
            how=(
                "iostat -x 1 on the server: await and aqu-sz of the exported device",
                "nfslat ... --storage-ms",
            ),
            verify="the device's await against this figure",
        ),
    )


def _unstable_share(f: Facts) -> float:
    """Of the server's work on data that of WRITEs which it may answer from memory; 0 where only their sum is known."""
    unstable = None if f.queue_is_measured else f.op(frozenset((UNSTABLE_WRITE,)))
    if unstable is None:
        return 0.0
    data = f.op(STORAGE_OPS) or (0, 0.0, 0.0)
    theirs, others = (max(count * work_ms, 0.0) for count, _, work_ms in (unstable, data))
    return theirs / (theirs + others) if theirs else 0.0


def _usual_light_ms(f: Facts) -> float:
    """What ops that need no data take in a thread, on average, but for the slowest: a single one proves nothing, and
    the first of a mount waits for the server's look at its exports, or for the disk."""
    rows = [row for row in f.by_op if row.op in _LIGHT and row.count]
    count, queue_ms, work_ms = f.op(_LIGHT) or (0, 0.0, 0.0)
    if count < 2 or queue_ms:  # of the slowest nobody knows how long it waited for a thread
        return work_ms
    return (count * work_ms - max(row.server_ms.max for row in rows)) / (count - 1)


def _named(rows: list[MatchedRow]) -> str:
    """``READ and WRITE take``: the ops that make the most of the time, three at most; of figures alone not known."""
    times_ms = [row.count * row.server_ms.mean for row in rows]
    names = dict.fromkeys(row.op for row, one in zip(rows, times_ms, strict=True) if one >= _NAMED * sum(times_ms))
    *some, last = list(names)[:3] or ["calls"]
    if not some:
        return f"{last} {'take' if last == 'calls' else 'takes'}"
    return f"{', '.join(some)} and {last} take"


def _slowest_in_thread(f: Facts) -> float | None:
    if f.slowest is None or f.queue_is_measured:  # which is known as a mean only
        return None
    paused = 0.0 if f.stalls is None else f.stalls.slow_ms({Cause.HOST_PAUSE}, AT_SERVER)
    return f.slowest_share(max(f.slowest.ms("server") - (f.slowest_queue_ms or 0.0) - paused, 0.0))


def _unknown(f: Facts) -> Diagnosis | None:
    """The server is slow, and the packets do not say why."""
    slow_ms = f.in_thread_ms
    if slow_ms < f.long_ms or f.share(slow_ms) < _SOME:
        return None
    if f.stalls is not None and f.stalls.ms(FROM_OUTSIDE, ("server",)) >= _MOSTLY * f.mean.server_ms:
        return None  # what is left of a time that is nearly all TCP's is no more than how far off that may be
    why = f.server.cannot if f.server is not None else None
    if f.unseen_share > _BLIND:
        why = f"{percent(f.unseen_share)} of the operations are not in the captures"
    unstable = _unstable_share(f)
    if why is None and f.storage_ms is None and unstable >= _MOSTLY:
        why = f"{percent(unstable)} of that time is of UNSTABLE WRITEs, which a server may answer from memory"
    if why is None and _storage(f) is not None:
        return None
    if why is None and f.storage_ms is not None:
        why = f"the storage takes {ms(f.storage_ms)} ms of it"
    unnamed = f.op(_UNNAMED)
    if why is None and unnamed is not None and unnamed[0] >= _MOSTLY * sum(row.count for row in f.by_op):
        why = (
            f"{times(unnamed[0], 'COMPOUND')} cannot be read, being encrypted (sec=krb5p) or cut off, so that data and "
            "other operations look alike"
        )
    late = None
    if why is None and late_ms(f) and (_slow_data(f) is not None or f.slow_ops is not None):
        late = late_ms(f)
        why = (
            f"they come {ms(late)} ms late to its capture, which shows nothing meanwhile, so a processor may be what "
            "they wait for"
        )
    if why is None:
        data, light = f.op(STORAGE_OPS), f.op(_LIGHT)
        if (
            data is None
            or light is None
            or light[0] < _FEW_LIGHT
            or (light_ms := _usual_light_ms(f)) <= _FAST * data[2]
        ):
            return None
        why = f"ops that need no data take {ms(light_ms)} ms, too, and those that do {ms(data[2])} ms"
    source = "these figures" if f.server is None else "the packets"
    takes = f"calls take {ms(slow_ms)} ms in the server, and whether they wait for a thread,"
    if f.queue_ms and not (f.server is not None and f.server.cannot):
        takes = f"calls take {ms(slow_ms)} ms once a thread has them, and whether they wait"
    return diagnosis(
        "server-queue-unknown",
        "server",
        f"{takes} for storage or for a lock cannot be told from {source}: {why}",
        share=f.share(slow_ms),
        slowest=_slowest_in_thread(f),
        confidence="certain",
        evidence=Unknown(server_ms=f.mean.server_ms, in_thread_ms=slow_ms, late_ms=late),
        advice=LookAt(
            how=(
                "nfslat ... --server-snapshot BEFORE AFTER (scripts/snapshot.sh)",
                "nfslat ... --storage-ms MS",
            ),
        ),
    )


def _reconnect(f: Facts) -> Diagnosis | None:
    """Ops that had to wait until a connection was made anew, and requests that could not even be sent.

    What those on the wire lose by it is known, and of the others the most that it can be, with the application's time.
    """
    r, none = f.reconnects, f.kept_above.get(Why.NO_CONNECTION)
    excess, kept = r.excess_ms if r is not None else 0.0, f.kept_ms(Why.NO_CONNECTION)
    above = 0.0 if none is None else none.above_wire_ms
    is_known = f.mean.client_ms is not None
    on_wire = r is not None and f.share(excess) >= _SOME / 5
    if not (on_wire or kept or (not is_known and f.share(above) >= _SOME)):
        return None
    said = []
    if none is not None:
        how = "for" if none.count == 1 else f"{times(none.count, 'time')}, for up to"
        said.append(f"the client had no connection {how} {ms(none.longest_ms)} ms (from {none.at})")
    if r is not None:
        took = (
            f"{times(r.ops, 'op')} {'was' if r.ops == 1 else 'were'} retransmitted on a new connection after the old "
            "one"
        )
        said.append(f"{took} had ended, and took {ms(r.mean_ms)} ms")
    if kept:
        said.append(f"up to {ms(kept)} ms on average of what lies above the wire are requests that waited for one")
    elif not is_known and f.share(above) >= _SOME:
        said.append(
            f"requests that waited for one are not on the wire, up to {ms(above)} ms for each op: give the "
            "application's mean (--app-ms)"
        )
    return diagnosis(
        "reconnect",
        "server",
        f"{'; '.join(said)}: the NFS server was restarted or failed over, or something between the hosts ended it",
        share=min(f.share(excess + kept), 1.0) if on_wire or kept else None,
        confidence="likely",
        evidence=Reconnect(
            ops=r.ops if r is not None else 0,
            mean_ms=r.mean_ms if r is not None else None,
            excess_ms=excess,
            above_wire_ms=above,
            counted_above_ms=kept,
            interruptions=none.count if none is not None else None,
            no_connection_ms=none.total_ms if none is not None else None,
            longest_ms=none.longest_ms if none is not None else None,
            at=none.at if none is not None else None,
        ),
        advice=LookAt(
            how=(
                "journalctl -u nfs-server",
                "nfslat show ... --slowest 3",
            ),
        ),
    )


def with_window(f: Facts, found: list[Diagnosis]) -> list[Diagnosis]:
    """`found`, and what the server's TCP window kept above the wire: its threads' doing where calls wait for those."""
    kept, shut = f.kept_ms(Why.WINDOW), f.kept_above.get(Why.WINDOW)
    if not kept or shut is None:
        return found
    window = Window(above_wire_ms=shut.above_wire_ms, counted_above_ms=kept, window_ms=shut.total_ms)
    closed = f"the server's TCP window had no room for calls for {ms(shut.total_ms)} ms in all"
    stood = f"up to {ms(kept)} ms on average of what lies above the wire"
    threads = next((one for one in found if one.code == THREADS and one.share is not None), None)
    if threads is not None and threads.share is not None and isinstance(threads.evidence, Queue):
        more = structs.replace(
            threads,
            severity="warning" if threads.share + f.share(kept) >= MATTERS else threads.severity,
            share=min(threads.share + f.share(kept), 1.0),
            # The larger part is known at most.
            confidence="likely" if f.share(kept) > threads.share else threads.confidence,
            text=f"{threads.text}; {closed}, which its threads empty late, and {stood} are calls that waited in the "
            "client's socket meanwhile",
            evidence=structs.replace(threads.evidence, window=window),
        )
        return [more if one is threads else one for one in found]
    return [
        *found,
        diagnosis(
            "server-window",
            "server",
            f"{closed}: {stood} are calls that waited in the client's socket until the server read, because it had "
            "too few threads or too small a receive buffer",
            share=f.share(kept),
            confidence="likely",
            evidence=ServerWindow(**structs.asdict(window), longest_ms=shut.longest_ms, at=shut.at, times=shut.count),
            advice=LookAt(
                how=(
                    "ss -tn dport = :2049 # on the client: Send-Q, what waits in the socket for the server's window",
                    "grep ^th /proc/net/rpc/nfsd; cat /proc/fs/nfsd/pool_stats # on the server: threads, and who waits",
                    "sysctl net.ipv4.tcp_rmem # on the server: its third figure is what the buffer grows to",
                ),
                verify="no times without room in the window in a new capture",
                risk="a larger buffer hides a server that reads late but does not make it faster",
            ),
        ),
    ]


def _caps(f: Facts) -> list[Diagnosis]:
    return [
        diagnosis(
            "connection-cap",
            "server",
            f"connection {cap.client} keeps {cap.level} calls in flight, the server closed its window "
            f"{times(cap.zero_windows, 'time')} for {ms(cap.zero_window_ms)} ms, and calls take {ms(cap.median_ms)} "
            f"ms where {times(cap.others, 'other connection')} take {ms(cap.others_median_ms or 0.0)} ms: a "
            "per-connection limit",
            share=None,
            confidence="likely",
            evidence=ConnectionCap(level=cap.level, zero_windows=cap.zero_windows, zero_window_ms=cap.zero_window_ms),
            advice=advice.connection_cap(f.server_host, cap.level, cap.level),
        )
        for cap in f.caps
        if cap.likely
    ]
