"""Ops and loose messages of the server's side -> its threads, and how long each op waited for one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.inflight.fit import CERTAIN
from nfslat.inflight.jobs import Host, Jobs, find_jobs
from nfslat.inflight.threads import FEWEST, Bound, Threads, find_threads, lower_bound
from nfslat.model.details import Details
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, Loose, Ops

_WITNESS = 0.1  # a call whose work is so much less than that of the main operation has no business with its storage
_SOME_HIDDEN, _SOME_RESENT = 0.10, 0.02  # together they make late answers, and a wrong bound
_IN_SOCKET = 0.25  # of the time from call to reply; what was done in the rest of it is not known
_HIDDEN = 0.25  # of the ops; what those did in threads is not known
_NEARLY_ALL = 0.8  # of the calls: what they and those beside them say together is not said by more of them
_PATIENT = 0.5  # and waits at least so much of the time that those of the main operation wait, which have to
# Of the main operation. Work that is shorter may be that of a few processors, one call after another: all calls wait
# for those. Longer work is interrupted, and short calls go first (base_slice_ns of Linux's scheduler: 3 ms at most).
_PREEMPTED_NS = 3_000_000


class ServerLoad(NamedTuple):
    """`jobs` and `threads` are without their rows.

    `queue_ns` has one row an op of the server: its wait for a thread, 0 where nothing shows one, NULL for those that
    `find_jobs` leaves out; the other two are the same with the fewest and with the most threads that the packets allow.
    """

    jobs: Jobs
    threads: Threads
    queue_ns: I64
    queue_with_least_ns: I64
    queue_with_most_ns: I64
    # Calls of little work that waited for a thread as long as the others: what all wait for is in front of the threads,
    # and not a disk or a lock behind them.
    witnesses: int
    servers: int = 1  # whose ops have their waits here, each by its own threads; `threads` are those of the first
    is_whole: bool = True  # else there are more, of which the packets do not tell how long ops wait

    @property
    def tells(self) -> bool:
        """Is a mean of the waits here one of all ops?"""
        return self.is_whole and not self.threads.cannot


def server_load(
    ops: Ops,
    loose: Loose,
    reverse: Bool,
    hidden: tuple[float, float] = (0.0, 0.0),
    details: Details | None = None,
    in_socket_ns: I64 | None = None,
    span_ns: tuple[int, int] | None = None,
    server: Host = (),
    there: int | None = None,
) -> ServerLoad:
    """Of `server`, a host, else of the address that answered most. `reverse` is `nfslat.select.is_reverse` of `ops`;
    `hidden` the share of the ops that were not captured, and of it those by the halves of ops that were.

    `details`, of the same capture, say when the server could read calls that TCP had kept back.
    `in_socket_ns` has one row an op: for how long before its first byte its reply may have stood in the server's
    socket, which is no time in a thread, and no wait for one. Only what was at the server in `span_ns` counts. `there`:
    so many threads, as somebody says.
    """
    blocked = None if details is None else details.blocked
    jobs = find_jobs(ops, loose, reverse, blocked, server).within(span_ns)
    threads = threads_of(jobs, there)
    if span_ns is not None:
        threads = _without_edges(threads, jobs)
    if in_socket_ns is not None:
        threads = _beside_socket(threads, jobs, in_socket_ns)
    return load_of(ops, jobs, told(threads, jobs, hidden, details), in_socket_ns)


def threads_of(jobs: Jobs, there: int | None = None) -> Threads:
    """What their times tell of the threads, of which there are so many, as somebody says."""
    return find_threads(jobs.work, jobs.kind, jobs.plain, jobs.uncalled_ns, jobs.light, there)


def _without_edges(threads: Threads, jobs: Jobs) -> Threads:
    """The same; or what the calls inside of a stretch tell, where only those at its edges, which threads of another
    state may have, show more threads at work than that."""
    most, calls = threads.most_in_flight, len(jobs.op)
    # What was in flight at an edge is answered within as many calls, and what the disk was late with within twice that.
    cuts = [slice(first, calls - last) for first, last in itertools.product((most, 2 * most), repeat=2)]
    cuts = [cut for cut in cuts if cut.stop - cut.start >= max(FEWEST, calls / 2)]
    if threads.limited or threads.cannot or not cuts:
        return threads
    inside = min(cuts, key=lambda cut: (lower_bound(jobs.work.part(cut)).threads, cut.start - cut.stop))
    own_jobs = jobs.part(inside)
    if lower_bound(own_jobs.work).threads >= threads.bound.threads:
        return threads
    own = threads_of(own_jobs)
    if not own.limited or own.high is None or own.high >= threads.bound.threads:
        return threads
    arrival = jobs.work.arrival_ns

    def of_all(start_ns: I64) -> I64:
        return np.concatenate((arrival[: inside.start], start_ns, arrival[inside.stop :]))

    return own._replace(
        calls=threads.calls,
        most_in_flight=most,
        start_ns=of_all(own.start_ns),
        low_start_ns=of_all(own.low_start_ns),
        high_start_ns=of_all(own.high_start_ns),
    )


def told(threads: Threads, jobs: Jobs, hidden: tuple[float, float], details: Details | None) -> Threads:
    """The same, without what the capture is too full of holes to tell."""
    of_op = jobs.op != NULL
    resent = float(np.mean(~jobs.plain[of_op])) if of_op.any() else 0.0
    if hidden[0] >= _HIDDEN:
        return threads.untold(f"{hidden[0] * 100:.0f} % of the ops are not in the server's capture")
    if hidden[1] >= _SOME_HIDDEN and resent >= _SOME_RESENT:
        # A reply that was not captured makes its call look unanswered until the answer to its second sending.
        threads = threads.untold(
            "calls were retransmitted by RPC, and not all that was sent is in the server's capture"
        )
        return _without_bound(threads)
    if details is not None and details.blocked_dropped:
        threads = threads.untold("too many calls to remember when TCP delivered each")
        return _without_bound(threads)
    return threads


def load_of(ops: Ops, jobs: Jobs, threads: Threads, in_socket_ns: I64 | None = None) -> ServerLoad:
    """Of each op its wait by what was found of the threads."""
    starts = (threads.start_ns, threads.low_start_ns, threads.high_start_ns)
    if threads.limited:
        queue, least, most = (_queue_ns(ops, jobs, start, in_socket_ns) for start in starts)
    else:
        left_out = np.ones(len(ops), dtype=np.bool_)
        left_out[jobs.op[jobs.op != NULL]] = False
        queue = np.zeros(len(ops), dtype=np.int64)  # takes no memory as long as nothing is written
        queue[left_out] = NULL
        least = most = queue
    return ServerLoad(jobs.counts, threads.without_rows, queue, least, most, _witnesses(jobs, threads))


def of_one_client(
    load: ServerLoad, ops: Ops, loose: Loose, reverse: Bool, details: Details, in_socket_ns: I64
) -> ServerLoad:
    """`load` over all clients, with columns for `ops`, those of one: where replies to it stood in the server's socket.

    The other arguments are those of `server_load`, of that client.
    """
    jobs = find_jobs(ops, loose, reverse, details.blocked, load.jobs.addresses)
    threads = _beside_socket(load.threads, jobs, in_socket_ns)
    if threads is load.threads:
        of_op = jobs.op != NULL
        rows = jobs.op[of_op]
        most = np.full(len(ops), np.iinfo(np.int64).max)
        most[rows] = np.maximum(ops.t2[rows] - _since_ns(ops, jobs, of_op) - in_socket_ns[rows], 0)
        return load._replace(
            queue_ns=np.minimum(load.queue_ns, most),
            queue_with_least_ns=np.minimum(load.queue_with_least_ns, most),
            queue_with_most_ns=np.minimum(load.queue_with_most_ns, most),
        )
    if load.threads.cannot:
        threads = threads._replace(cannot=load.threads.cannot)
    queue = np.where(load.queue_ns == NULL, NULL, 0)
    return ServerLoad(load.jobs, threads, queue, queue, queue, 0)


def beside(load: ServerLoad, other: ServerLoad) -> ServerLoad:
    """`load` with what ops of another server waited there, by the threads of that one."""
    load = load._replace(servers=load.servers + 1)
    if other.threads.cannot:
        return load._replace(is_whole=False)
    named = ("queue_ns", "queue_with_least_ns", "queue_with_most_ns")
    columns = {}
    for name in named:
        own, more = getattr(load, name), getattr(other, name)
        columns[name] = np.where(own == NULL, more, own)
    return load._replace(**columns)


def refuted(load: ServerLoad, instead: str) -> ServerLoad:
    """The same where more calls than these speak against any number of threads, and what that is."""
    threads = load.threads.untold("")._replace(instead=instead)
    queue = np.where(load.queue_ns == NULL, NULL, 0)
    return ServerLoad(load.jobs, threads, queue, queue, queue, 0)


def in_phase(whole: ServerLoad, own: ServerLoad) -> ServerLoad:
    """`own`, of the calls of a phase, without a limit that `whole`, of all calls, refutes.

    A limit of fewer threads than all calls show at work stands: of those the whole says nothing. So does one of as many
    as fit all calls best: what changes between phases blurs every mark of the whole. Else what refutes any limit in the
    whole refutes it, too, for more calls tell than are in the phase. (Of 18 simulated servers without a limit that got
    slower, 8 had a phase with one where it stood, and 2 have one so.)
    """
    threads, of_all = own.threads, whole.threads
    stands = threads.limited and threads.high is not None and threads.high < of_all.bound.threads
    stands |= threads.limited and threads.estimate == of_all.fits_best
    is_part = threads.calls < _NEARLY_ALL * of_all.calls
    return refuted(own, of_all.instead) if of_all.instead and is_part and not stands else own


def led_by_whole(whole: Threads, phases: Sequence[Threads]) -> list[int]:
    """Those of `phases` whose limit is the whole's: a pool of threads belongs to a server, and their own calls cannot
    tell, and show no more threads at work. None where a phase has another limit: then the whole's is a mixture."""
    if not whole.limited or any(own.limited and not _may_be_one(own, whole) for own in phases):
        return []
    most = whole.bound.threads if whole.high is None else whole.high
    return [at for at, own in enumerate(phases) if own.cannot and own.bound.threads <= most]


def _may_be_one(own: Threads, other: Threads) -> bool:
    """May both be the same number?"""
    if own.low is None or own.high is None or other.low is None or other.high is None:
        return False
    return max(own.low, other.low) <= min(own.high, other.high)


def _without_bound(threads: Threads) -> Threads:
    one = min(threads.bound.threads, 1)
    return threads._replace(bound=Bound(one, threads.calls), low=one)


def _beside_socket(threads: Threads, jobs: Jobs, in_socket_ns: I64) -> Threads:
    """The same, unless much of the time is that of replies that were ready: when is not in the packets."""
    of_op = jobs.op != NULL
    whole_ns = int(jobs.work.server_ns.sum())
    share = int(in_socket_ns[jobs.op[of_op]].sum()) / max(whole_ns, 1)
    if share < _IN_SOCKET:
        return threads
    threads = threads.untold(
        f"for {share * 100:.0f} % of the time until their first byte replies may have stood in the server's socket"
    )
    # Replies leave a socket in the order in which they came there, but each socket is late by a time of its own.
    work = jobs.work.part(np.flatnonzero(jobs.plain))
    bounds = [lower_bound(work.part(np.flatnonzero(work.stream == one))) for one in np.unique(work.stream)]
    bound = max(bounds, default=Bound(0, 0))
    return threads._replace(bound=bound, low=bound.threads)


def _queue_ns(ops: Ops, jobs: Jobs, start_ns: I64, in_socket_ns: I64 | None) -> I64:
    """From when the server could read the call, and no more than what its reply leaves of that time."""
    queue = np.full(len(ops), NULL)
    of_op = jobs.op != NULL
    rows = jobs.op[of_op]
    since = _since_ns(ops, jobs, of_op)
    most = ops.t2[rows] - since
    if in_socket_ns is not None:
        most -= in_socket_ns[rows]
    queue[rows] = np.clip(start_ns[of_op] - since, 0, np.maximum(most, 0))
    return queue


def _since_ns(ops: Ops, jobs: Jobs, of_op: Bool) -> I64:
    """From when the server could read each call that belongs to an op."""
    return np.maximum(jobs.work.arrival_ns[of_op], ops.t1[jobs.op[of_op]])


def _witnesses(jobs: Jobs, threads: Threads) -> int:
    if threads.probability < CERTAIN:
        return 0
    queue = threads.start_ns - jobs.work.arrival_ns
    service = jobs.work.reply_ns - threads.start_ns
    kinds = int(jobs.kind.max()) + 1
    main = jobs.kind == np.argmax(np.bincount(jobs.kind, np.where(jobs.op == NULL, 0, service), kinds))
    if np.median(service[main]) < _PREEMPTED_NS or not (main & (queue > 0)).any():
        return 0
    light = ~main & jobs.light
    light &= service <= _WITNESS * np.median(service[main])
    return int(np.count_nonzero(light & (queue >= _PATIENT * np.median(queue[main & (queue > 0)]))))
