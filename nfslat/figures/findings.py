"""An `Analysis`, its figures and what is known from outside -> facts -> findings, ranked, and the verdict."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import structs

from nfslat.answer import model
from nfslat.answer.words import missing_ops
from nfslat.decode.file_gaps import file_gaps
from nfslat.evidence.known import Known, counts_of, data_bytes, rate_per_s
from nfslat.figures.above import connecting_of, sent_anew, sessions_open, times_kept_above
from nfslat.figures.charges import stalls_of
from nfslat.figures.gains import with_gains
from nfslat.figures.late_calls import late_calls, late_ns
from nfslat.figures.matched import in_thread_ns, row_of, unstable_writes
from nfslat.figures.outcomes import failing_of, put_off_of
from nfslat.figures.slow_ops import slow_ops_of
from nfslat.figures.ticks import ticks_of
from nfslat.figures.unseen import with_unseen
from nfslat.figures.whatif import in_effect
from nfslat.findings.client import client_findings
from nfslat.findings.coarse import bearable
from nfslat.findings.connecting import connecting_findings
from nfslat.findings.database import database_findings
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.facts import (
    HOG,
    UNSTABLE_WRITE,
    Connects,
    Facts,
    Hog,
    InPieces,
    InSeries,
    Jitter,
    Reconnects,
    Resent,
    Stalls,
    moved_ms,
)
from nfslat.findings.failing import failing_findings
from nfslat.findings.hanging import hang_findings, with_path
from nfslat.findings.hosts import host_findings
from nfslat.findings.inferred import no_surer
from nfslat.findings.layers import Layers
from nfslat.findings.network import network_findings
from nfslat.findings.parts import Whole
from nfslat.findings.put_off import error_findings, put_off_by_layer
from nfslat.findings.rank import ranked
from nfslat.findings.resent import resent_findings
from nfslat.findings.server import server_findings, with_window
from nfslat.findings.stretches import RowT, Stretch
from nfslat.findings.tcp import tcp_findings
from nfslat.findings.verdict import Ground, verdict
from nfslat.host_pairs import ends_of
from nfslat.inflight.serial import Serial
from nfslat.model.blocks import each_block
from nfslat.model.details import TcpEvent
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool, State
from nfslat.model.units import NS_PER_MS, to_ms, utc
from nfslat.outcomes.recovery import Recovery
from nfslat.outcomes.tries import Request
from nfslat.results import Analysis, Side
from nfslat.tally.unanswered import unfinished_share
from nfslat.wire.charges.places import place
from nfslat.wire.connecting import Connecting, Fate, unheard_ns
from nfslat.wire.reconnects import sent_on_a_new_connection
from nfslat.wire.size_limit import SizeLimit
from nfslat.wire.timeouts import timeouts

_SAME = 1.1
_MOST_LOST = 0.5  # of the bytes that were lost: what explains so much of them is their cause
_NEARLY_ALL = 0.99


_FEW_FREE, _MOSTLY_FREE = 100, 0.4  # messages of a direction that wait for nothing else: so many, and of all
_JITTER_MS = 1.0  # in the middle: below, a host's own work looks alike
_NEARLY_EACH = 0.3  # of the middle: of starved hosts (laboratory, 6 runs) it is below 0.1, of jitter 0.4 and more


class Judged(NamedTuple):
    """What explains the time of some ops, the verdict, and what both rest on."""

    causes: list[Diagnosis]  # by what mending each would give
    verdict: model.Verdict
    facts: Facts
    mean: Layers  # as the verdict has it
    ground: Ground
    verdict_of: Callable[[Sequence[Diagnosis]], model.Verdict]  # that other causes would make

    def part(
        self,
        row: RowT,
        words: str,
        of_parts: tuple[list[Diagnosis], model.Verdict] | None = None,
        ns: tuple[int | None, int | None] = (None, None),
    ) -> Stretch[RowT]:
        """The same as a part of all ops: which these are, in words, and from when to when. `of_parts`: what is said of
        it where parts of its own lead."""
        causes, said = of_parts or (self.causes, self.verdict)
        slowest = self.facts.slowest or self.mean
        return Stretch(words, row, causes, said, self.mean, slowest, self.ground, ns[0] or 0, ns[1] or 0)

    def whole(self, inflight: model.InFlight) -> Whole:
        """The same beside what is said of parts of those ops."""
        unseen, threads = self.facts.unseen, inflight.server.threads_estimate
        shown = 1.0 - unseen.share_of_time[1] if unseen is not None and unseen.matters else 1.0
        return Whole(self.causes, self.verdict, self.facts.mean, threads, shown, self.verdict_of)


def judge(
    c: Analysis,
    known: Known,
    matched: model.MatchedOps,
    inflight: model.InFlight,
    transport: list[model.Transport] | None,
    hangs: Sequence[Diagnosis] = (),
    objectives: Sequence[model.Objective] = (),
) -> Judged | None:
    """`hangs` explain none of the time, and are faults all the same. None where no op is matched."""
    if matched.total is None:
        return None
    facts = _facts(c, known, (matched.total, matched.slowest), matched.by_op, inflight)
    worst = None
    if matched.slowest is not None:
        worst = _layers(matched.slowest, None if facts.stalls is None else facts.stalls.slowest_ms)
    facts = structs.replace(
        facts,
        slowest=worst,
        lost_segments=_sum(one.lost_segments for one in transport or ()),
        size_limit=_size_limit(c, sum(one.lost_bytes for one in transport or ())),
        incomplete=_incomplete(c),
        lost_share=_lost_of([one for one in transport or () if not one.caveats]),
        spurious_segments=_sum(one.arrived_again.segments for one in transport or ()),
        arrived_again=_arrived_again(c),
        unseen_share=max(1 - matched.completeness.share, *inflight.hidden_share.values()),
    )
    # Where a layer is negative, stamps or matches are wrong, and nothing explains anything.
    is_sound = facts.mean.network_ms >= 0 and facts.mean.server_ms >= 0
    questions = (
        server_findings,
        network_findings,
        tcp_findings,
        connecting_findings,
        resent_findings,
        host_findings,
        client_findings,
        database_findings,
        error_findings,
        failing_findings,
    )
    by_layer = questions if is_sound else ()
    explained = with_window(facts, [one for findings in by_layer for one in findings(facts)]) if is_sound else []
    if c.coarse_ns:
        explained = bearable(explained, to_ms(c.coarse_ns))
    elif c.ticks:
        explained = [cause for cause in explained if getattr(cause.evidence, "is_told", True)]
    gains = with_gains(c, facts, in_effect(c, known, facts, explained), explained)
    found = with_path(ranked(gains, facts.mean.total_ms), hangs)
    error_ms, ticks = 0.0, ticks_of(c)
    if c.inferred is not None:
        found = no_surer(found, c.inferred.near)
        error_ms = to_ms(c.inferred.mean_error_ns(c.matched.client)) if ticks is None else ticks.of(c.inferred.side)
    ground = Ground(
        ops=matched.ops,
        complete=matched.completeness.share,
        incomplete=missing_ops(matched.completeness.missing),
        negative=0 if c.coarse_ns else matched.total.negative_network,
        long_ms=facts.long_ms,
        idle=0.0 if c.coarse_ns else c.inflight.client.levels.idle_share,
        unheard=_unheard(c),
        pool=0.0 if c.inflight.load.threads.limited else c.inflight.load.threads.probability,
        hogs=facts.hogs,
        ticks=ticks,
        unseen_explain=facts.unseen_ms is not None,
        unseen=facts.unseen if facts.unseen is not None and facts.unseen.matters else None,
        clock_fits=c.clock.fits,
        impossible=0 if c.clock.steps else max(side.impossible_ops for side in c.measured.values()),
        unfinished=unfinished_share(c),
        hidden=0.0 if facts.unseen is None else facts.unseen.share_of_time[1],
        is_bounded=facts.unseen is not None and not facts.unseen.matters,
        late=[name for name, own in c.own.items() if own.is_late],
        all_late=any(own.apart_ns for own in c.own.values()),
        inferred=None if c.inferred is None else c.inferred.side,
        error_ms=error_ms,
        is_clocked=c.inferred is None or c.inferred.is_clocked(c.matched.client),
        lacks_files=any(file_gaps(side.source, side.decoded) for side in c.measured.values()),
        lost_share=0.0 if c.inferred is None else _lost_share(next(iter(c.measured.values()))),
    )
    mean = structs.replace(facts.mean, kept_ms=facts.kept_by, put_off_ms=put_off_by_layer(facts))

    def verdict_of(causes: Sequence[Diagnosis]) -> model.Verdict:
        return verdict(mean, worst, ground, [*causes, *hangs], objectives)

    return Judged(found, verdict_of(found), facts, mean, ground, verdict_of)


def _size_limit(c: Analysis, lost_bytes: int) -> SizeLimit | None:
    """What makes most of these bytes that were lost: of several connections the one that lost most. Where it lost far
    more than that, these were lost at another time. One capture counts no more than is in the limits."""
    by_size = sum(limit.lost_bytes for limit in c.size_limits)
    if c.inferred is None and not _MOST_LOST * lost_bytes < by_size <= lost_bytes / _MOST_LOST:
        return None
    return max(c.size_limits, key=lambda limit: limit.lost, default=None)


def _unheard(c: Analysis) -> float:
    """Share of the time in which the server's capture alone does not tell what its clients waited for."""
    if c.inferred is None or c.inferred.near != "server":
        return 0.0
    d = c.server.decoded
    ways = d.ops.ways(c.server.forward)
    return unheard_ns(d.ops, d.details.tcp, ways, d.first_ns) / max(d.last_ns - d.first_ns, 1)


def _incomplete(c: Analysis) -> int:
    """Datagrams of ops that were called again, which lack a fragment where they came."""
    count = 0
    for name, side in c.measured.items():
        ops, events = side.ops, side.decoded.details.events
        events = events.take(events.kind == TcpEvent.INCOMPLETE)
        if not len(events):
            continue
        again = ops.take(np.flatnonzero(ops.transmissions > 1))
        came = again.direction if name == "server" else again.direction ^ 1
        known = {*zip(again.conn.tolist(), came.tolist(), again.xid.tolist(), strict=True)}
        seen = zip(events.conn.tolist(), events.direction.tolist(), events.offset.tolist(), strict=True)
        count += sum(one in known for one in seen)
    return count


def _arrived_again(c: Analysis) -> int:
    """Ops of which something went to the host that was not captured once more, and it says that it came twice."""
    if c.inferred is None:
        return 0
    far, calls = (c.server, c.matched.server) if c.inferred.side == "server" else (c.client, c.matched.client)
    resent = far.decoded.details.resent
    is_matched = np.zeros(len(far.ops), dtype=np.bool_)
    is_matched[calls] = True
    again = np.unique(resent.op[resent.is_reply == int(far is c.client)])
    return int(np.count_nonzero(is_matched[again]))


def _lost_share(side: Side) -> float:
    """Of the ops of a capture, those that it shows with a loss: a hole that was filled, what its host sent again, or a
    call that comes again behind its reply, which did not arrive."""
    ops, loose = side.ops, side.decoded.loose
    again = np.flatnonzero((loose.state == State.RETRANSMITTED) & (loose.is_reply == 0) & (loose.op != NULL))
    answered = loose.op[again][loose.first_ns[again] > ops.t3[loose.op[again]]]
    return len(np.union1d(side.decoded.details.resent.op, answered)) / max(len(ops), 1)


def _lost_of(ways: Sequence[model.Transport]) -> float:
    """Of their bytes."""
    return sum(one.lost_bytes for one in ways) / max(sum(one.bytes for one in ways), 1)


def _sum(figures: Iterable[int | None]) -> int | None:
    """None where there are none, or one of them is not known."""
    every = list(figures)
    known = [one for one in every if one is not None]
    return sum(known) if known and len(known) == len(every) else None


def _facts(
    c: Analysis,
    known: Known,
    rows_of_all: tuple[model.MatchedRow, model.MatchedRow | None],
    by_op: list[model.MatchedRow],
    inflight: model.InFlight,
) -> Facts:
    total, slowest = rows_of_all
    above = known.above_wire_ms(c)
    stalls = stalls_of(c, None)
    mean, focus = _layers(total, None if stalls is None else stalls.mean_ms), total
    rows = np.arange(len(c.matched))
    if above is not None:
        # Known only as a mean over the ops that it was given for, so those are the population here.
        rows = known.population(c)
        focus = row_of(c, ("", known.title(c), ""), rows)
        stalls = stalls_of(c, rows)
        on_wire = _layers(focus, None if stalls is None else stalls.mean_ms)
        mean = structs.replace(on_wire, client_ms=above, ops=known.title(c))
    unseen = with_unseen(c, mean, rows)
    if unseen is not None and unseen.matters:
        mean = unseen.layers()
    thread_ms = _believed(known.mean_ms("thread_ms", c, rows), mean.server_ms)
    if thread_ms is not None and _all_in_threads(inflight.server):
        thread_ms = None
    queue = focus.queue_ms if thread_ms is None else max(mean.ms("server") - thread_ms, 0.0)
    mean = structs.replace(mean, queue_ms=queue)
    names = {label for label, count in counts_of(c, rows).items() if count}
    per_s = rate_per_s(c, names) or None
    sessions = None if above is None or per_s is None else sessions_open(c, rows, per_s * mean.total_ms / 1e3)
    opened = connecting_of(c)
    answered = np.concatenate([c.matched.client[rows], np.flatnonzero(c.client.beside)])
    own_ns = in_thread_ns(c)
    how_late = functools.cache(lambda: late_ns(c))  # it sorts all of the server's instants
    return Facts(
        mean=mean,
        unseen=unseen,
        stalls=stalls,
        hogs=_hogs(c, stalls),
        jitter=_jitter(c),
        parts=focus.parts_ms,
        slowest_parts=None if slowest is None else slowest.parts_ms,
        by_op=_of_server(c, by_op),
        reconnects=_reconnects(c),
        connects=_connects(c, opened),
        failing=failing_of(c.client, answered),
        sent_again=_sent_again(c),
        slow_ops=None if thread_ms is not None else slow_ops_of(c, rows, own_ns, how_late),
        kept_above=times_kept_above(c, rows, sessions, opened),
        put_off=put_off_of(c.client, c.tried_again, answered, c.server.ops, as_asked=above is not None),
        recoveries=_times_of(c.recoveries),
        in_series=_in_series(c.serial),
        in_pieces=_in_pieces(known),
        is_in_turn=known.is_in_turn,
        late_stamps=any(own.is_late for own in c.own.values()),
        captured_within_ms=_captured_within_ms(c),
        ops=len(rows),
        data_bytes=data_bytes(c, rows),
        sessions_open=sessions,
        longest_ms=float(to_ms(c.client_srt_ns[rows].max())) if len(rows) else None,
        queue_ms=queue,
        slowest_queue_ms=slowest.queue_ms if thread_ms is None and slowest is not None else None,
        tick_ms=to_ms(c.coarse_ns) if c.coarse_ns else None,
        queue_is_measured=thread_ms is not None,
        storage_ms=_believed(known.mean_ms("storage_ms", c, rows), mean.server_ms),
        least_round_trip_ms=_least_round_trip_ms(c),
        late=late_calls(c, rows, by_op, own_ns, how_late),
        throughput_per_s=per_s,
        server=inflight.server,
        client=inflight.client,
        sessions=inflight.sessions,
        caps=inflight.caps,
        version=max(by_op, key=lambda row: row.count).version,
        threads=None if _is_refuted(known.threads, inflight.server) else known.threads,
        woken_share=known.woken_share,
        least_queue_ms=_least_queue_ms(c, known, inflight.server),
        resent_share=known.resent_share,
        slots=known.slots,
        slot_wait_ms=known.mean_ms("slot_wait_ms", c, rows),
        since_mount=known.since_mount,
        database=known.database,
        loads=known.loads,
        server_host=known.server_host,
        client_host=known.client_host,
    )


def _jitter(c: Analysis) -> dict[str, Jitter]:
    """By part, of directions in which nearly every message that waits for nothing else takes long by itself.

    A host that handles packets late does not do so with each of them: its quickest tenth comes as quickly as the path.
    """
    if c.charges is None or c.inferred is not None or c.coarse_ns or any(own.is_late for own in c.own.values()):
        return {}
    out = {}
    for part, net_ns in c.charges.net_ns.items():
        free = np.ones(len(net_ns), dtype=np.bool_)
        free[c.charges.rare.row[c.charges.rare.place == place(part)]] = False
        if np.count_nonzero(free) < max(_FEW_FREE, _MOSTLY_FREE * len(free)):
            continue
        beyond = functools.partial(_far_beyond, net_ns, c.charges.half_trips_ns, free)
        if sum(each_block(len(free), beyond)) * 2 < np.count_nonzero(free):
            continue  # sooner than the median, which most captures need not have
        beyond_ms = to_ms((net_ns - c.charges.half_trips_ns)[free])
        low, median, high = np.quantile(beyond_ms, [0.1, 0.5, 0.9]).tolist()
        if median >= _JITTER_MS and low >= _NEARLY_EACH * median:
            out[part] = Jitter(low, median, high)
    return out


def _far_beyond(net_ns: I64, half_trips_ns: I64, free: Bool, at: slice) -> int:
    return int(np.count_nonzero((net_ns[at] - half_trips_ns[at] >= _JITTER_MS * NS_PER_MS) & free[at]))


def _hogs(c: Analysis, stalls: Stalls | None) -> dict[str, Hog]:
    """By layer: of the time in the server another client's calls, of a full path another stream's bytes."""
    hogs = {"server": _hog_at_server(c)}
    if stalls is not None and stalls.rates:
        hogs["network"] = max(stalls.rates, key=lambda one: one.share).hog
    return {layer: hog for layer, hog in hogs.items() if hog is not None}


def _hog_at_server(c: Analysis) -> Hog | None:
    """The client whose calls have most of the time in the server while the matched ops are there, beside others; of
    one matched client another one."""
    if c.inferred is not None and c.inferred.side == "server":
        return None
    ops, matched = c.server.ops, c.matched.server
    names, of_class = np.unique([client for client, _ in ends_of(ops)], return_inverse=True)
    if len(names) < 2:
        return None
    caller = ops.spread(of_class)
    begin_ns, end_ns = int(ops.t1[matched].min()), int(ops.t2[matched].max())
    rows = np.flatnonzero(c.server.forward & (ops.t1 < end_ns) & (ops.t2 > begin_ns))
    spent_ns = np.minimum(ops.t2[rows], end_ns) - np.maximum(ops.t1[rows], begin_ns)
    shares = np.bincount(caller[rows], weights=spent_ns) / max(int(spent_ns.sum()), 1)
    most = int(shares.argmax())
    is_own = bool((caller[matched] == most).all())
    return None if is_own or shares[most] < HOG else Hog(str(names[most]), float(shares[most]))


def _captured_within_ms(c: Analysis) -> float | None:
    """About a tick, where both hosts' captures have nearly all that their TCPs sent by then."""
    if c.own.keys() != {"server", "client"}:
        return None
    both = c.own.values()
    within_ns = max(own.tick_ns + float(np.quantile(own.waited_ns, _NEARLY_ALL)) for own in both)
    is_prompt = all(own.held_ns < own.tick_ns / 2 and not own.is_late for own in both)
    return to_ms(within_ns) if is_prompt and within_ns < 2 * max(own.tick_ns for own in both) else None


def _in_pieces(known: Known) -> InPieces | None:
    in_a_row = [(call, call.pieces) for call in known.calls if call.pieces is not None and call.pieces.is_in_a_row]
    is_joined = bool(in_a_row)
    if not is_joined and known.row is not None and known.row.pieces is not None:
        in_a_row = [(known.row, known.row.pieces)]
    if not in_a_row:
        return None
    call, pieces = max(in_a_row, key=lambda row: row[0].calls * row[0].total_ms)
    return InPieces(
        call.call, call.calls, pieces.op, pieces.ops, pieces.size,
        call.total_ms, call.network_ms, call.server_ms, pieces.gap_ms, is_joined,
    )  # fmt: skip


def _in_series(found: Serial | None) -> InSeries | None:
    if found is None:
        return None
    share = found.spent_ns / found.all_ns
    return InSeries(found.calls, share, to_ms(found.elapsed_ns), found.files, found.again, found.listings)


def _times_of(recoveries: Sequence[Recovery]) -> list[tuple[str, float]]:
    return [(utc(one.begin_ns, digits=3), to_ms(one.end_ns - one.begin_ns)) for one in recoveries]


def findings_of_hangs(
    hangs: Sequence[model.Hang] | None, unanswered: Sequence[model.Unanswered] | None, ops: int, mean_ms: float
) -> list[Diagnosis]:
    """Connections that hang, and calls without a reply: what waits there is in no mean, so that they are no cause of
    one. `ops` were answered, after `mean_ms` on average.
    """
    waiters = {row.waiter for row in hangs or () if row.side == "client"}
    others = [row for row in unanswered or () if row.client not in waiters]  # what TCP tells of a call says why
    return ranked(hang_findings(Facts(Layers(0.0, mean_ms), ops=ops, hangs=hangs or (), unanswered=others)))


def findings_of_one(side: Side, tried: Sequence[Request], recoveries: Sequence[Recovery]) -> list[Diagnosis]:
    """What one capture by itself tells: errors that the server answered. Shares are of the response times there."""
    ops, rows = side.ops, np.flatnonzero(side.forward)
    srt_ms = float(to_ms((ops.t3[rows] - ops.t0[rows]).mean())) if len(rows) else 0.0
    answered = np.concatenate([rows, np.flatnonzero(side.beside)])
    facts = Facts(
        mean=Layers(0.0, srt_ms),
        put_off=put_off_of(side, tried, answered, ops, as_asked=False),
        failing=failing_of(side, answered),
        recoveries=_times_of(recoveries),
        ops=len(rows),
    )
    return ranked([*error_findings(facts), *failing_findings(facts)])


def _of_server(c: Analysis, by_op: list[model.MatchedRow]) -> list[model.MatchedRow]:
    """Rows by operation as the server is judged by them: WRITEs that need not be on stable storage by themselves, for
    what they take is no figure of a disk; the mean without what replies waited in its socket."""
    waits_ns = None if c.charges is None else c.charges.in_socket_ns()
    unstable = unstable_writes(c)
    out = []
    for row in by_op:
        if waits_ns is None and not (row.op == "WRITE" and unstable.any()):
            out.append(row)
            continue
        rows = c.rows_of({row.op})
        kinds = [(row, rows)]
        if row.op == "WRITE" and unstable[rows].any():
            apart = (("WRITE", rows[~unstable[rows]]), (UNSTABLE_WRITE, rows[unstable[rows]]))
            kinds = [(row_of(c, (row.program, name, row.version), some), some) for name, some in apart if len(some)]
        for one, some in kinds:
            wait_ms = 0.0 if waits_ns is None else to_ms(float(waits_ns[some].mean()))
            server_ms = structs.replace(one.server_ms, mean=one.server_ms.mean - wait_ms)
            out.append(structs.replace(one, server_ms=server_ms))
    return out


def _layers(row: model.MatchedRow, stalls_ms: Mapping[tuple[str, str], float] | None) -> Layers:
    """What a row's ops spent where, with what stalls move from one layer to another."""
    server_ms, network_ms = row.server_ms.mean, row.network_ms.mean
    moved = {} if stalls_ms is None else moved_ms(stalls_ms, server_ms, network_ms)
    return Layers(server_ms, network_ms, moved_ms=moved)


def _least_round_trip_ms(c: Analysis) -> float | None:
    """What calls and replies leave free at the best moment; no more than the network's time of the fastest op."""
    if not c.clock.fits or (c.coarse_ns and c.inferred is not None):  # of one capture in ticks only a mean is known
        return None
    # Bounds are a tick of each capture further apart than that, or none: half of it on average.
    wider_ns = sum(tick.ns for tick in c.ticks.values()) / 2
    if c.charges is not None:
        return to_ms(max(2 * c.charges.half_trip_ns - wider_ns, 0.0))
    low_ns, high_ns = c.clock.main.bounds_at(c.clock.main.t_ns)
    return to_ms(max(high_ns - low_ns - wider_ns, 0.0))


def _believed(part_ms: float | None, whole_ms: float) -> float | None:
    """A part that is clearly more than the whole is of other requests (the stack says so)."""
    return None if part_ms is None or part_ms > _SAME * whole_ms else part_ms


def _all_in_threads(server: model.ServerInFlight) -> bool:
    """As many threads are seen as calls were ever in flight, so that none can have waited for one."""
    return not server.limited and server.threads_lower_bound >= server.max


def _least_queue_ms(c: Analysis, known: Known, server: model.ServerInFlight) -> float | None:
    """The mean of what calls wait for a thread at least: as many work at once as there are threads, and the others
    wait, whoever they are, or their replies stand in a socket. None where the number is not known, or cannot be."""
    levels = c.inflight.server.levels
    if known.threads is None or _is_refuted(known.threads, server) or not levels.ops:
        return None
    above = np.maximum(np.arange(len(levels.time_ns)) - known.threads, 0)
    in_socket_ns = None if c.charges is None else c.charges.in_socket_ns()
    waits_ns = float(np.dot(levels.time_ns, above)) / levels.ops
    return to_ms(max(waits_ns - (0.0 if in_socket_ns is None else float(in_socket_ns.mean())), 0.0))


def _is_refuted(threads: int | None, server: model.ServerInFlight) -> bool:
    return threads is not None and threads < server.threads_lower_bound


def contradictions(known: Known, server: model.ServerInFlight) -> list[str]:
    """What was said of the server and cannot be, by its packets; it is not used."""
    bound = server.threads_lower_bound
    said = []
    if _is_refuted(known.threads, server):
        source = known.source("threads", "--threads")
        said.append(
            f"{source}: {known.threads} threads are said, and {bound} are seen at work at once; the packets are "
            "believed"
        )
    if known.thread_ms and _all_in_threads(server):
        source = known.source("thread_ms", "--thread-ms")
        said.append(
            f"{source}: no call can have waited for a thread, for {bound} are seen at work at once and no more were in "
            "flight; the time in a thread is of other requests, or does not begin when a thread takes the call"
        )
    return said


def _sent_again(c: Analysis) -> Resent | None:
    side = c.sender
    d, every = side.decoded, np.zeros(len(side.ops), dtype=np.bool_)
    every[c.matched.client if side is c.client else c.matched.server] = True
    anew = sent_on_a_new_connection(d.ops, d.loose, d.details)
    resent = timeouts(d.ops, d.loose, every, anew)
    if resent is None:
        return None
    transports = [d.ops.connections[conn].transport for conn in np.unique(d.ops.conn[resent.row]).tolist()]
    twice = int(np.count_nonzero(resent.answered_twice))
    if "udp" in transports and 2 * twice < len(resent.row):
        return None  # a datagram was lost
    return Resent(len(resent.row), to_ms(float(np.median(resent.after_ns))), twice, transports[0])


def _connects(c: Analysis, opened: Connecting) -> Connects | None:
    if not len(opened.conn):
        return None
    total_ns = int((opened.until_ns - opened.since_ns).sum())
    span_ns = c.client.decoded.last_ns - c.client.decoded.first_ns
    share = total_ns / span_ns if 0 < total_ns <= span_ns else None
    return Connects(
        len(opened.conn),
        to_ms(total_ns),
        Fate(int(np.bincount(opened.fate).argmax())),
        share,
        int(opened.is_open.sum()),
    )


def _reconnects(c: Analysis) -> Reconnects | None:
    late = sent_anew(c)
    if not late.any() or late.all():
        return None
    srt = c.client_srt_ns
    excess = float(to_ms((srt[late] - srt[~late].mean()).sum() / len(srt)))
    return Reconnects(int(np.count_nonzero(late)), float(to_ms(srt[late].mean())), max(excess, 0.0))
