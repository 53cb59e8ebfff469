"""The map: capture files in, a report out; every stage once, in order, with what goes into it and what comes out.

`correlate`: two capture files -> `Correlation`
    decode      capture file -> its ops: calls are paired with their replies there; a thread a side
    directions  ops of one side -> the same, where its file has two clocks for what was sent and what was received
    match       ops + ops -> matched ops; the sides are exchanged where the files were given in the wrong order
    own stamps  segments of one side -> how late its capture stamps what its host sends, and receives
    clock       matched ops -> what is known of the two clocks, without ops whose stamps are late; of few ops, with ACKs
    settle      matched ops + clock -> matched ops: what only time can tell
    select      ops + filters -> the ones that the user asked for
    decompose   matched ops + clock -> the parts of each

`analyse`: `Correlation` -> `Analysis`
    missing     ops of one side -> calls that its capture does not show
    resends     matched ops + what each side sent again -> how long they waited for it
    charges     matched ops + parts + waits + round trip -> what the time of each is charged to
    in flight   ops of both sides + waits in the server's socket -> levels, threads, slots, sessions, calls in series
    outcomes    the client's ops -> requests that the server put off with errors, and state that was made anew
    times       matched ops + clock -> response times at the client and at the server

`report`: `Analysis` + what is known from outside (`nfslat.evidence.outside`, which needs it, too) -> the report
    figures     of threads and slots, captures, matched ops, clocks, what TCP did, and the stack of latencies
    findings    those figures + what is known -> causes, ranked, and the verdict
    what if     the same + other limits -> replays
    tables      `Analysis` -> pivots and intervals, where they are asked for
    pictures    `Analysis` + the report -> what a page draws; `Side` + the report where there is one capture

`infer_other`: one capture with its segments -> `Correlation`, whose other side is inferred (`nfslat.peer`); then
`analyse` and `report` as of two

Where that cannot be, one capture by itself goes through `inspect` (decode, directions, select) and `report_one_side`
(missing, in flight, figures). A stage takes what it needs as arguments and keeps nothing; each command calls the entry
points that it needs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nfslat.answer import model
from nfslat.clock.clock import Clock, ServerTimes
from nfslat.clock.more import narrowed
from nfslat.clock.theta import find_clock
from nfslat.clock.tick import FINE, Tick, at_the_latest, is_coarse, mean_error_ns
from nfslat.decode.capture import UNBOUNDED, Source
from nfslat.decode.engine import Engine
from nfslat.decode.host_clocks import moved, ran
from nfslat.decode.segments import sampled
from nfslat.decode.sides import Progress, decode, decode_up_to, of_one_clock
from nfslat.decode.xid_gaps import missing_calls
from nfslat.decompose import Parts, client_srt_ns, server_srt_ns
from nfslat.errors import InputError
from nfslat.host_pairs import HostPair, HostPairs, apart, host_pairs, is_at
from nfslat.inflight.all_clients import ServerWide, seen
from nfslat.inflight.analysis import OneSide, in_flight, one_of_several
from nfslat.inflight.jobs import Host
from nfslat.inflight.pools import pools_of
from nfslat.inflight.serial import serial_calls
from nfslat.inflight.server import ServerLoad, in_phase, led_by_whole
from nfslat.kernels.at_once import at_once
from nfslat.kernels.memory import give_back
from nfslat.match import overlap
from nfslat.match.match import Matching, match
from nfslat.match.overlap import Longer
from nfslat.match.settle import settle
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NULL
from nfslat.model.segments import Segments
from nfslat.model.tables import I64, Bool, Matched
from nfslat.model.units import to_ms
from nfslat.outcomes.recovery import Recovery, recoveries
from nfslat.outcomes.tries import Request, requests
from nfslat.peer.acks import acks_of_both
from nfslat.peer.own import OwnStamps, own_stamps
from nfslat.results import Analysis, Correlation, Order, Side, one_side
from nfslat.select import (
    Filters,
    count_ops,
    forward,
    in_time,
    is_reverse,
    is_without_filters,
    only,
    refuse_nothing_left,
    select,
    select_both,
)
from nfslat.tally.unanswered import in_flight_at_end
from nfslat.wire.charges.analysis import Charged, charge
from nfslat.wire.resends import Waits, retrans_waits_ns
from nfslat.wire.round_trip import half_trips_ns
from nfslat.wire.size_limit import size_limits
from nfslat.wire.unseen import Unseen, unseen

if TYPE_CHECKING:
    from nfslat.answer.callers import Called
    from nfslat.answer.pictures import Alone, Pictures
    from nfslat.answer.pivots import Intervals, Pivot
    from nfslat.evidence.known import Known
    from nfslat.figures.pair_sides import PairSides, SplitServers
    from nfslat.figures.phases import Span
    from nfslat.figures.whatif import Asked
    from nfslat.findings.stretches import Stretch
    from nfslat.model.thresholds import Threshold
    from nfslat.names.paths import Paths

_MOST_CLOCKS = 256  # pairs of hosts whose clocks are sought
_FEW_OPS = 256  # what ACKs say beside more of them is hardly anything new
_MANY = 1 << 18  # ops, from which on memory is given back to the system between two stages

# --- Captures to matched ops ------------------------------------------------------------------------------------------


def correlate(
    server: Source,
    client: Source,
    engine: Engine,
    *,
    filters: Filters,
    srt: str,
    may_swap: bool,
    progress: Progress,
    most_ops: int = UNBOUNDED,
) -> Correlation:
    """Two captures of the same traffic, compared.

    Raises ``InputError`` where a capture holds no NFS, or the two have no op in common, and `TooManyOpsError` where one
    has more than `most_ops` operations.
    """
    of_server, of_client = decode_up_to(most_ops, server, client, engine, progress, all_programs=filters.all_programs)
    found = compare(side_of(*of_server), side_of(*of_client), filters=filters, srt=srt, may_swap=may_swap)
    refuse_nothing_left(filters, found.server.reasons, found.client.reasons)
    return found


def inspect(source: Source, engine: Engine, *, filters: Filters, progress: Progress) -> Side:
    """One capture by itself. Raises ``InputError`` where it holds no NFS, or the filters leave nothing of it."""
    side = side_of(*decode(source, engine, progress, all_programs=filters.all_programs))
    reasons = select(side.ops, filters, side.ops.t0, side.decoded.first_ns)
    refuse_nothing_left(filters, reasons)
    return dataclasses.replace(side, reasons=reasons)


def infer_other(side: Side, *, filters: Filters, srt: str) -> Correlation | str:
    """One capture that `inspect` gave, compared with what its packets tell of the other host; or why they do not.
    Of its segments the sample is left in it that one of two captures has."""
    from nfslat.peer.datagrams import as_answered, incomplete_replies
    from nfslat.peer.decoded import came_twice, dated_frames, decoded_of, matched_one_to_one
    from nfslat.peer.infer import clock_of, infer
    from nfslat.peer.means import infer_means

    d = side.decoded
    taken_at = side.source.bundle.side if side.source.bundle else None  # else the packets tell
    sample, again = sampled(d.segments), came_twice(d.segments)
    twice, answered_ns = incomplete_replies(d.ops, d.details.events)
    asked, tick = ~d.ops.spread(is_reverse(d.ops)), side.tick
    if is_coarse(tick, float((d.ops.t3 - d.ops.t0)[asked].mean()) if asked.any() else 0.0, alone=True):
        found = infer_means(d.ops, asked, d.segments, taken_at, dated_frames(d), tick)
    else:
        answered = as_answered(d.ops, twice, answered_ns) if len(twice) else d.ops
        found = infer(answered, asked, d.segments, taken_at, dated_frames(d))
    d.segments[:] = sample
    if isinstance(found, str):
        give_back()
        return found
    source = dataclasses.replace(side.source, bundle=None)  # what it holds is of the host of the capture
    other = dataclasses.replace(side, source=source, decoded=decoded_of(d, found, twice, again))
    matching = matched_one_to_one(d.ops, found, (d.first_ns, d.last_ns))
    server, client = (other, side) if found.inferred.side == "server" else (side, other)
    matched = only(matching.matched, side.forward[matching.matched.client])
    if not len(matched):
        return "none of the ops that were asked for has inferred times"
    compared = decompose(server, client, matching, matched, clock_of(found), srt=srt)
    near = found.inferred.near
    own = None if found.inferred.taken_at == "loopback" or tick.ns else _own(side, sample, near)
    ticks = {near: tick} if tick.ns else {}
    return dataclasses.replace(compared, inferred=found.inferred, own={near: own} if own else {}, ticks=ticks)


def side_of(source: Source, decoded: Decoded) -> Side:
    """What was decoded, on one clock, with nothing selected away yet. Raises ``InputError`` where most of its times are
    impossible."""
    decoded = of_one_clock(decoded)
    side = Side(source, decoded, np.zeros(len(decoded.ops), dtype=np.int8))
    if 2 * side.impossible_ops > len(side.ops):
        raise InputError(
            f"{source.name}: replies are dated long before their calls ({side.impossible_ops:,} of {len(side.ops):,}), "
            "so its time stamps are wrong; capture again"
        )
    return side


def compare(
    server: Side,
    client: Side,
    *,
    filters: Filters,
    srt: str,
    may_swap: bool,
    order: Order | None = None,
    moved_ns: Mapping[str, Mapping[str, int]] | None = None,
) -> Correlation:
    """Two sides, with nothing selected away yet, compared. `order` is how it was found which is which, `moved_ns` by
    how much clocks were moved, where that is known. Raises as `correlate` does."""
    server, client, matching, found_order = _match(server, client, may_swap=may_swap)
    order = order or found_order
    ticks = _ticks_of(server, client)
    talks = _segments_of(server), _segments_of(client)
    sides = ("server", server, talks[0]), ("client", client, talks[1])
    # What a coarse clock says of TCP's is nothing.
    own = {name: found for name, side, its in sides if name not in ticks and (found := _own(side, its, name))}
    clock = _find_clock(server, client, matching, own, talks, ticks)
    # Captures one after the other, as clocks far apart make them, look like one clock that was set in between.
    is_odd = not clock.fits or bool(clock.steps)
    if is_odd and not moved_ns and (on_one := _on_one_clock(server, client, matching, own)):
        # Not `own`, which is of the clocks as they were.
        again = compare(*on_one[:2], filters=filters, srt=srt, may_swap=False, order=order, moved_ns=on_one[2])
        if again.clock.fits and (not clock.fits or len(again.clock.steps) < len(clock.steps)):
            return again
    ticks_ns = sum(tick.ns for tick in ticks.values())
    times = ServerTimes(clock, matching.matched, len(server.ops), len(client.ops), ticks_ns)
    settled = settle(server.ops, client.ops, matching, times)
    if settled is not matching:
        matching, clock = settled, _find_clock(server, client, settled, own, talks, ticks)
    server, client = _select(server, client, matching, filters)
    selected = forward(server.ops, client.ops, matching.matched)
    selected = only(selected, client.kept[selected.client])
    matched = only(selected, ~np.isin(selected.client, clock.under_way)) if len(clock.under_way) else selected
    untimed = len(selected) - len(matched)
    compared = decompose(server, client, matching, matched, clock, srt=srt, order=order, untimed=untimed)
    limits = size_limits(server.ops, client.ops, matched, talks)
    return dataclasses.replace(compared, own=own, ticks=ticks, moved_ns=moved_ns or {}, size_limits=limits)


def _ticks_of(server: Side, client: Side, of_whole: Mapping[str, Tick] | None = None) -> dict[str, Tick]:
    """Of the sides whose stamps tick slowly. A part has the tick `of_whole` where all stamps of that have it."""
    ticks = {}
    for name, side in (("server", server), ("client", client)):
        if of_whole is not None and name not in of_whole:
            continue
        is_known = of_whole is not None and of_whole[name].share == 1
        tick = of_whole[name] if of_whole is not None and is_known else side.tick
        if tick.ns:
            ticks[name] = tick
    return ticks


def _on_one_clock(
    server: Side, client: Side, matching: Matching, own: Mapping[str, OwnStamps]
) -> tuple[Side, Side, Mapping[str, Mapping[str, int]]] | None:
    """Both sides, where one is made of captures of several hosts, whose clocks are put on that of one of them; and by
    how much each was. None where no pair of hosts has a clock that fits, or there is only one."""
    called = forward(server.ops, client.ops, matching.matched)
    pairs = host_pairs(server.ops, client.ops, called)
    if len(pairs.pairs) < 2:
        return None
    numbers = client.ops.spread(pairs.of_client)[called.client]
    theta: dict[tuple[str, str], int] = {}
    for at, one in enumerate(pairs.pairs[:_MOST_CLOCKS]):
        mine = matching._replace(matched=called.take(numbers == at))
        clock = _find_clock(server, client, mine, own, ([], []), _ticks_of(server, client))
        if clock.fits:
            theta[one.there, one.client] = clock.main.theta_ns
    by_ns = apart(theta)
    if not any(any(of_side.values()) for of_side in by_ns):
        return None
    return _moved(server, by_ns[0]), _moved(client, by_ns[1]), {"server": by_ns[0], "client": by_ns[1]}


def _moved(side: Side, by_ns: Mapping[str, int]) -> Side:
    if not any(by_ns.values()):
        return side
    decoded = moved(side.decoded, by_ns)
    return side_of(ran(side.source, decoded), decoded)


def _segments_of(side: Side) -> list[Segments]:
    """They are taken out of it; none where the capture has two clocks, which is said then."""
    talks = side.decoded.segments.copy()
    side.decoded.segments.clear()
    return talks if side.directions is None else []


def _own(side: Side, talks: list[Segments], name: str) -> OwnStamps | None:
    """What the capture says of its own stamps."""
    ops = side.decoded.ops
    return own_stamps(ops, ~ops.spread(is_reverse(ops)), talks, name) if talks else None


def decompose(
    server: Side,
    client: Side,
    matching: Matching,
    matched: Matched,
    clock: Clock,
    *,
    srt: str,
    order: Order = Order.AS_GIVEN,
    untimed: int = 0,
) -> Correlation:
    """`matched` are those of the matched ops that the comparison is about; each of their parts is made when it is asked
    for."""
    parts = Parts(server.ops, client.ops, matched, clock)
    return Correlation(server, client, matching, matched, clock, parts, srt, order, untimed)


# --- What TCP and the hosts did to them -------------------------------------------------------------------------------


def analyse(
    found: Correlation,
    others: ServerWide | None = None,
    *,
    cannot_tell: str = "",
    missing: Mapping[str, I64] | None = None,
    flying_there: Bool | None = None,
    of_a_stretch: bool = False,
) -> Analysis:
    """`of_a_stretch`: it is of a part of the time, as a window is, in which the path may be longer than it was before;
    `flying_there` masks the ops that are in flight at the server, where these are more than what is compared;
    `others`: what the server did for all its clients, where its side is that of one of several; `cannot_tell`: why
    that is not known; `missing`: the `missing_calls` of each side, where more than the side tells them."""
    server, client = found.server, found.client
    is_large = len(client.ops) >= _MANY
    if is_large:
        give_back()  # what it took to compare them
    if missing is None:
        missing = {name: missing_calls(side.decoded) for name, side in (("server", server), ("client", client))}
    waits = retrans_waits_ns(server.decoded, client.decoded, found.matched, found.clock)
    client_ns = client_srt_ns(client.ops, found.matched, found.srt)
    server_ns = server_srt_ns(server.ops, found.matched, found.clock, found.srt)
    coarse_ns = _coarse_ns(found, client_ns, server_ns)
    if coarse_ns:
        cannot_tell = f"its stamps tick every {to_ms(coarse_ns):g} ms"
    charges = None
    at_server, at_client = (one_side(side, missing[name]) for name, side in (("server", server), ("client", client)))
    if not of_a_stretch:
        at_server, at_client = (
            end._replace(waiting=in_flight_at_end(side)) for end, side in ((at_server, server), (at_client, client))
        )
    if len(found.matched):
        pairs = host_pairs(server.ops, client.ops, found.matched)
        of_a_stretch = of_a_stretch or found.client.span_ns is not None
        charges = None if coarse_ns else _charge(found, waits, pairs, of_a_stretch=of_a_stretch)
        hosts: list[Host] = [(address,) for address in pairs.servers]
        if others is None and not cannot_tell and _may_be_one_host(found):
            hosts = pools_of(at_server, pairs.servers)
        at_server, at_client = _of_pairs(pairs, hosts, at_server, at_client, flying_there)
    if cannot_tell and (others is None or coarse_ns):
        others = one_of_several(at_server, cannot_tell)
    if others is None and found.share is not None:
        others = found.share.wide
        if server.span_ns is not None:
            others = others._replace(seen=seen(server.ops.t1, server.ops.t2, at_server.compared, others.seen.hidden))
    at_server = at_server._replace(in_socket_ns=_in_socket_ns(found, charges))
    if found.inferred is not None:
        at_client = at_client._replace(stamps=found.inferred.stamps)
    flying = in_flight(at_server, at_client, others)
    called = client.forward & at_client.compared
    tried, recovered = _put_off(client, called)
    if is_large:
        give_back()  # that takes most memory
    kind = client.ops.kind[found.matched.client]
    not_shown = {name: _unseen(found, name, missing[name]) for name in found.measured}
    if found.inferred is not None:
        near, there = found.inferred.near, found.inferred.side
        more_ns = server_ns - client_ns if there == "server" else client_ns - server_ns
        not_shown[there] = _unseen_there(not_shown[near], more_ns)
    return Analysis(
        **{field.name: getattr(found, field.name) for field in dataclasses.fields(Correlation)},
        missing_calls=missing,
        unseen=not_shown,
        retrans_waits_ns=waits,
        charges=charges,
        inflight=flying,
        serial=serial_calls(client.ops, client.decoded.details.names, client.decoded.details.callers, called),
        tried_again=tried,
        recoveries=recovered,
        client_srt_ns=client_ns,
        server_srt_ns=server_ns,
        kind=kind,
        ops_of=count_ops(client.ops.kinds, kind),
        coarse_ns=coarse_ns,
    )


def _coarse_ns(found: Correlation, client_ns: I64, server_ns: I64) -> int:
    """The tick of stamps that bear no more than means, as where the server takes longer by them; 0: they bear all."""
    if not found.ticks or not len(client_ns):
        return 0
    mean_ns, alone = float(client_ns.mean()), found.inferred is not None
    ticks = [tick.ns for tick in found.ticks.values() if is_coarse(tick, mean_ns, alone=alone)]
    return max(ticks, default=max(found.ticks.values()).ns if mean_ns < server_ns.mean() else 0)


# --- Findings and figures ---------------------------------------------------------------------------------------------


def report(
    c: Analysis,
    tool: model.Tool,
    filters: Filters,
    known: Known,
    *,
    evidence: Sequence[str] = (),
    asked: Sequence[Asked] = (),
    slo: Sequence[Threshold] = (),
    sessions: int | None = None,
    borders: Sequence[int] | None = None,
    brief: bool = False,
) -> model.Report:
    """The report on two captures; `evidence` is what there is to say of evidence from outside, `borders` are where
    phases begin, if that is known already; `brief`: without rows that nothing is judged by.

    Raises what `nfslat.figures.whatif.what_if` does.
    """
    from nfslat.figures.audit.late import late_notes
    from nfslat.figures.audit.pair import pair_notes, remarks
    from nfslat.figures.findings import contradictions, findings_of_hangs, judge
    from nfslat.figures.inferred import inferred_of
    from nfslat.figures.inflight import inflight_of
    from nfslat.figures.matched import matched_ops, sums_by_operation
    from nfslat.figures.objectives import objectives_of
    from nfslat.figures.report import Said, Sums, report_of
    from nfslat.figures.stack import stack
    from nfslat.figures.ticks import objective_error_ms
    from nfslat.figures.whatif import in_effect, what_if
    from nfslat.findings.parts import lead_by_parts
    from nfslat.findings.verdict import unasked
    from nfslat.tally.captures import CaptureTally

    sides = c.measured
    inflight = inflight_of(c, brief=brief)
    with at_once(len(sides), len(c.client.ops)) as pool:
        definition = None if brief else tool.srt
        counted = {
            name: pool.submit(CaptureTally.of, side, c.missing_calls[name], name, definition)
            for name, side in sides.items()
        }
        by_op = pool.submit(sums_by_operation, c)
        remarked = () if brief else remarks(c, application_known=bool(known.app_ms))
        sums, layers = Sums.of(c, filters, brief=brief), stack(known, c)
        matched = matched_ops(c, brief=brief, sums=by_op.result())
        captures = {name: tally.result() for name, tally in counted.items()}
    transport = None if sums.transport is None else sums.transport.rows()
    waits, hidden = sums.unanswered.rows(), max(tally.share for tally in sums.unseen.values())
    answered_ms = float(to_ms(c.client_srt_ns.mean())) if len(c.matched) else 0.0
    hanging = findings_of_hangs(sums.hangs.rows(), waits, len(c.matched), answered_ms)
    off_ms = partial(objective_error_ms, c)
    objectives = objectives_of(by_op.result(), known, slo, hidden_share=hidden, unanswered=waits or (), off_ms=off_ms)
    judged = judge(c, known, matched, inflight, transport, hanging, objectives)
    causes, verdict, facts = (judged.causes, judged.verdict, judged.facts) if judged else ([], None, None)
    of_hosts, pairs = pairs_of(c, known, transport)
    phases = phases_of(c, known, borders)
    if judged is not None:
        whole = judged.whole(inflight)
        of_parts = lead_by_parts(pairs, whole, of_hosts=True)
        if of_parts is not None:
            phases = []  # of all pairs together: another mix of hosts is no other state of any
        causes, verdict = of_parts or lead_by_parts(phases, whole) or (causes, judged.verdict)
        verdict = unasked(verdict, judged.facts.measured)
    now = None if facts is None else in_effect(c, known, facts, causes, sessions=sessions)
    replays, unanswered = what_if(c, asked, now)
    said = Said(
        causes=causes,
        hanging=hanging,
        verdict=verdict,
        audit=pair_notes(c) if c.inferred is None else late_notes(c),
        notes=(unanswered, remarked, layers.notes, contradictions(known, inflight.server)),
        stack=layers.rows,
        phases=[phase.row for phase in phases],
        pairs=of_hosts,
    )
    return dataclasses.replace(
        report_of(tool, filters, captures, sums, matched, inflight, said),
        called={} if brief else _called(sides, filters),
        what_if=replays,
        evidence=list(evidence),
        inferred=inferred_of(c),
    )


def phases_of(c: Analysis, known: Known, borders: Sequence[int] | None = None) -> list[Stretch[model.Phase]]:
    """What is said of each stretch of time in which the hosts are in one state; nothing where there is only one.

    Means that somebody gave are of the whole, and are left out.
    """
    if c.coarse_ns:
        return []
    from nfslat.figures.phases import spans_of

    whole, spans = c.inflight.load, spans_of(c, borders)
    phases: list[Stretch[model.Phase] | None] = []
    threads = []
    for span in spans:
        part = _inside(c, span)
        threads.append(part.inflight.load.threads.without_rows)
        phases.append(_phase(c, part, span, in_phase(whole, part.inflight.load), known))
    for at in led_by_whole(whole.threads, threads):
        phases[at] = _phase(c, _inside(c, spans[at]), spans[at], whole, known)
    return [phase for phase in phases if phase is not None]


def _inside(c: Analysis, span: Span) -> Analysis:
    """What was called in a phase; without what borders on others, where that leaves any."""
    part = within(c, *span.inside_ns)
    return part if len(part.matched) else within(c, span.begin_ns, span.end_ns)


def _phase(c: Analysis, part: Analysis, span: Span, load: ServerLoad, known: Known) -> Stretch[model.Phase] | None:
    """What is said of `part`, a phase of `c`; `load` is what its server's threads had to do."""
    from nfslat.figures.findings import judge
    from nfslat.figures.inflight import inflight_of
    from nfslat.figures.matched import matched_ops
    from nfslat.figures.phases import phase_row

    if load is not part.inflight.load:
        part = dataclasses.replace(part, inflight=part.inflight._replace(load=load))
    inflight = inflight_of(part, brief=True)
    judged = judge(part, known.of_hosts, matched_ops(part, brief=True), inflight, None)
    if judged is None:
        return None
    row = phase_row(c, part, span, judged.verdict, inflight)
    return judged.part(row, span.words, ns=(span.begin_ns, span.end_ns))


def pairs_of(
    c: Analysis, known: Known, transport: list[model.Transport] | None
) -> tuple[list[model.HostPair], list[Stretch[model.HostPair]]]:
    """A row for each pair of hosts, and what is said of those that have enough ops; nothing where there is only one."""
    pairs = host_pairs(c.server.ops, c.client.ops, c.matched)
    if len(pairs.pairs) < 2:
        return [], []
    from nfslat.evidence.known import Known
    from nfslat.figures.findings import judge
    from nfslat.figures.host_pairs import looked_at, numbers_of, plain_rows, told_row, ways_by_hosts
    from nfslat.figures.inflight import inflight_of
    from nfslat.figures.matched import matched_ops
    from nfslat.figures.pair_sides import SplitServers, SplitSides
    from nfslat.findings.parts import lead_by_parts

    numbers = numbers_of(c, pairs)
    rows = plain_rows(c, pairs.pairs, numbers)
    hosts = Known(
        server_host=known.server_host if len(pairs.servers) == 1 else None,
        client_host=known.client_host if len({one.client for one in pairs.pairs}) == 1 else None,
    )
    told: list[Stretch[model.HostPair]] = []
    if not (order := looked_at(rows)):
        return sorted(rows, key=lambda row: -row.time_share), told
    sides, servers, ways = SplitSides(c, pairs), SplitServers(c), ways_by_hosts(transport or ())
    for at in order:
        pair = pairs.pairs[at]
        one = between(c, sides.pair(at), servers, pair)
        inflight = inflight_of(one, brief=True)
        own = None if transport is None else ways.get((pair.client, pair.server), [])
        judged = judge(one, hosts, matched_ops(one, brief=True), inflight, own)
        if judged is None:
            continue
        whole = judged.whole(inflight)
        causes, verdict = lead_by_parts(phases_of(one, hosts), whole) or (judged.causes, judged.verdict)
        rows[at] = told_row(rows[at], pair, one, inflight, verdict)
        told.append(judged.part(rows[at], pair.words, (causes, verdict)))
    return sorted(rows, key=lambda row: -row.time_share), told


def between(c: Analysis, sides: PairSides, servers: SplitServers, pair: HostPair) -> Analysis:
    """What of `c` passes between one of the pairs of hosts, analysed by itself, with a clock of its own. Other clients
    of the server take its threads, too: `servers` knows what they all did there."""
    server, client, matched, clock = sides.server, sides.client, sides.matched, sides.clock
    ticks = _ticks_of(server, client, c.ticks)
    if c.inferred is None:
        own = _find_clock(server, client, sides.matching._replace(matched=matched), c.own, ([], []), ticks)
        clock = own if own.fits else clock
        matched = only(matched, ~np.isin(matched.client, clock.under_way)) if len(clock.under_way) else matched
    part = decompose(server, client, sides.matching, matched, clock, srt=c.srt, order=c.order)
    share = servers.share(pair.there, sides.rows, sides.conns)
    part = dataclasses.replace(part, inferred=sides.inferred, own=c.own, ticks=ticks, moved_ns=c.moved_ns, share=share)
    return analyse(part, missing=sides.missing)


def within(c: Correlation, begin_ns: int | None, end_ns: int | None) -> Analysis:
    """What of `c` was called in a stretch of time, ns on the client's clock, analysed by itself."""
    times = in_time(c.server.ops, c.client.ops, c.matching.matched, begin_ns, end_ns)
    server, client = (
        dataclasses.replace(side, reasons=np.where(side.reasons == 0, by_time, side.reasons))
        for side, by_time in zip((c.server, c.client), times, strict=True)
    )
    matched = only(c.matched, client.kept[c.matched.client])
    part = decompose(server, client, c.matching, matched, c.clock, srt=c.srt, order=c.order)
    return analyse(dataclasses.replace(part, inferred=c.inferred, own=c.own, ticks=c.ticks, share=c.share))


def tables(
    c: Analysis, by: Sequence[str], interval_s: float | None, paths: Paths | None
) -> tuple[list[Pivot], Intervals | None]:
    """The matched ops in groups, and by time. Raises ``UsageError`` where there is no such group, or interval."""
    from nfslat.figures.intervals import intervals_of
    from nfslat.figures.pivots import pivot_of

    pivots = [pivot_of(c, one, paths if one == "file" else None) for one in by]
    return pivots, None if interval_s is None else intervals_of(c, interval_s)


def pictures(
    c: Analysis, inflight: model.InFlight, *, slowest: int, paths: Callable[[I64], Paths] | None
) -> Pictures | None:
    """What a page draws; None without a matched op. `inflight` is the report's, `paths` names files of matched ops."""
    from nfslat.figures.pictures.all import pictures_of

    return pictures_of(c, inflight, slowest=slowest, paths=paths)


def pictures_of_one(side: Side, inflight: model.InFlight, srt: str) -> Alone | None:
    """The same of one capture; None without an op."""
    from nfslat.figures.pictures.alone import alone_of

    return alone_of(side, inflight, srt)


def report_one_side(side: Side, tool: model.Tool, filters: Filters, why_alone: str = "") -> model.Report:
    """The report on one capture: figures of the side where it was taken, and no comparison. `why_alone`: why nothing is
    inferred of the other side.

    Where it was taken cannot be known, so the SRT is the span that both kinds of side can give (definition "client").
    """
    from nfslat.figures.captures import capture_of, raw_rows, selection_of
    from nfslat.figures.findings import findings_of_hangs, findings_of_one
    from nfslat.figures.inflight import inflight_of_one
    from nfslat.findings.verdict import verdict_of_hang
    from nfslat.tally.captures import CaptureTally
    from nfslat.tally.hangs import HangTally
    from nfslat.tally.outcomes import OutcomeTally
    from nfslat.tally.unanswered import UnansweredTally
    from nfslat.tally.unseen import UnseenTally

    missing, hangs = missing_calls(side.decoded), HangTally.of(side, filters).rows()
    unanswered = UnansweredTally.of(side, filters).rows()
    forward = side.forward
    srt_ns = (side.ops.t3 - side.ops.t0)[forward]
    answered_ms = float(to_ms(srt_ns.mean())) if len(srt_ns) else 0.0
    hanging = findings_of_hangs(hangs, unanswered, len(srt_ns), answered_ms)
    at_server = at_client = one_side(side, missing)._replace(waiting=in_flight_at_end(side))
    if len(rows := np.flatnonzero(side.forward).astype(np.int32)):
        servers = host_pairs(side.ops, side.ops, Matched(rows, rows)).servers
        at_server = _at_first(at_server, [(one,) for one in servers], at_server.compared)
    tried, recovered = _put_off(side, side.forward)
    tally = CaptureTally.of(side, missing, "client", tool.srt)
    return model.Report(
        schema=model.SCHEMA,
        nfslat=tool,
        captures={"capture": capture_of(tally, UnseenTally(_unseen_of_one(side, missing)).rows())},
        raw={"capture": raw_rows(tally)},
        selection=selection_of({"capture": tally}, filters),
        notes=[
            *([side.source.made_from] if side.source.made_from else []),
            *([f"nothing is inferred of the other host: {why_alone}"] if why_alone else []),
        ],
        hangs=hangs,
        unanswered=unanswered,
        inflight=inflight_of_one(side, in_flight(at_server, at_client)),
        called=_called({"capture": side}, filters),
        outcomes=OutcomeTally.of({"capture": side}, side, tried, recovered).rows(),
        findings=[one.as_finding() for one in (*hanging, *findings_of_one(side, tried, recovered))],
        verdict=verdict_of_hang(hanging),
    )


def _unseen_of_one(side: Side, missing: I64) -> Unseen | None:
    if not len(side.decoded.details.unread) or not is_without_filters(side.reasons):
        return None
    return unseen(side.decoded, side.forward, missing, at_server=False)


def _called(sides: Mapping[str, Side], filters: Filters) -> dict[str, list[Called]]:
    """Nothing where only NFS was asked for, of which other figures say more."""
    if not filters.all_programs:
        return {}
    from nfslat.figures.called import called_of

    return called_of(sides, filters)


# --- Tables that stages take, out of sides ----------------------------------------------------------------------------


def _match(server: Side, client: Side, *, may_swap: bool) -> tuple[Side, Side, Matching, Order]:
    """The sides in the right order, what matches, and how the order was found."""
    matching = _match_as_given(server, client)
    if not len(matching.matched):
        overlap.refuse_without_common_op(_given(server), _given(client))
    if not (server.tick.ns and client.tick.ns):  # in ticks all times may be the same at both hosts
        overlap.refuse_same_capture(_given(server), _given(client), matching.matched)
    called = forward(server.ops, client.ops, matching.matched)
    if may_swap and len(called) and (ticks := _ticks_of(server, client)):
        return _match_by_means(server, client, matching, called, ticks)
    longer = overlap.where_longer(server.ops, client.ops, called) if may_swap and len(called) else Longer.AT_CLIENT
    # Long ops by a fast clock look as if they took longer; but only in the right order are causes in front of effects.
    if longer is Longer.AT_CLIENT or (longer is Longer.AT_SERVER and find_clock(server.ops, client.ops, called).fits):
        return server, client, matching, Order.AS_GIVEN
    other = _match_as_given(client, server)
    if longer is Longer.UNCLEAR:
        ways = ((server, client, matching), (client, server, other))
        fits = [find_clock(s.ops, c.ops, forward(s.ops, c.ops, found.matched)).fits for s, c, found in ways]
        if fits[0] or not fits[1]:
            return server, client, matching, Order.UNCLEAR if fits[0] == fits[1] else Order.AS_GIVEN
    return client, server, other, Order.EXCHANGED


def _match_by_means(
    server: Side, client: Side, matching: Matching, called: Matched, ticks: Mapping[str, Tick]
) -> tuple[Side, Side, Matching, Order]:
    """The same where stamps tick too slowly for single ops to tell."""
    of_server, of_client = server.ops, client.ops
    at_server = of_server.t3[called.server] - of_server.t0[called.server]
    at_client = of_client.t3[called.client] - of_client.t0[called.client]
    more_ns = float(at_client.mean() - at_server.mean())
    error_ns = math.hypot(
        mean_error_ns(ticks.get("server", FINE), at_server, of_server.t0[called.server]),
        mean_error_ns(ticks.get("client", FINE), at_client, of_client.t0[called.client]),
    )
    if more_ns >= -error_ns:
        return server, client, matching, Order.AS_GIVEN if more_ns > error_ns else Order.UNCLEAR
    return client, server, _match_as_given(client, server), Order.EXCHANGED


def _match_as_given(server: Side, client: Side) -> Matching:
    ran = [[(file.first_ns, file.last_ns) for file in side.source.files] for side in (server, client)]
    tcp = server.decoded.details.tcp, client.decoded.details.tcp
    return match(server.ops, client.ops, ran[0], ran[1], tcp, slack_ns=server.tick.ns + client.tick.ns)


def _given(side: Side) -> overlap.Given:
    return overlap.Given(side.source.name, side.ops, side.decoded.first_ns, side.decoded.last_ns)


def _find_clock(
    server: Side,
    client: Side,
    matching: Matching,
    own: Mapping[str, OwnStamps],
    talks: tuple[list[Segments], list[Segments]],
    ticks: Mapping[str, Tick],
) -> Clock:
    called = forward(server.ops, client.ops, matching.matched)
    if not len(called):
        overlap.refuse_without_common_op(_given(server), _given(client))
    if ticks:
        # What arrives may have arrived later, by as much as a tick.
        there = at_the_latest(server.ops, ticks.get("server", FINE), calls=True)
        return find_clock(there, at_the_latest(client.ops, ticks.get("client", FINE), calls=False), called)
    if len(matching.by_order):
        certain = ~np.isin(called.client, matching.by_order)
        called = called.take(certain) if certain.any() else called
    sides = ("server", server.ops, called.server), ("client", client.ops, called.client)
    late = [own[name].in_doubt(ops, rows) for name, ops, rows in sides if name in own]
    if late and 0 < np.count_nonzero(in_doubt := np.logical_or.reduce(late)) < len(called):
        called = called.take(~in_doubt)
        return find_clock(server.ops, client.ops, called)
    clock = find_clock(server.ops, client.ops, called)
    if len(called) > _FEW_OPS or not all(talks):
        return clock
    return narrowed(clock, *acks_of_both(server.ops, client.ops, called, talks))


def _select(server: Side, client: Side, matching: Matching, filters: Filters) -> tuple[Side, Side]:
    reasons = select_both(server.ops, client.ops, matching.matched, filters, client.decoded.first_ns)
    return dataclasses.replace(server, reasons=reasons[0]), dataclasses.replace(client, reasons=reasons[1])


def _put_off(side: Side, calls: Bool) -> tuple[list[Request], list[Recovery]]:
    d = side.decoded
    tried = requests(d.ops, d.details, calls, d.last_ns)
    return tried, recoveries(d.ops, calls, tried)


def _of_pairs(
    pairs: HostPairs, hosts: Sequence[Host], at_server: OneSide, at_client: OneSide, flying_there: Bool | None
) -> tuple[OneSide, OneSide]:
    """What hosts have in flight that only one of the captures knows is nothing that these compare; and the levels of a
    server are of one, though there may be several."""
    ours = at_client.compared & at_client.ops.spread(pairs.of_client != NULL)
    there = at_server.compared if flying_there is None else flying_there
    return _at_first(at_server, hosts, there), at_client._replace(compared=ours)


def _may_be_one_host(found: Correlation) -> bool:
    """Could addresses of servers be of one host? Its capture shows both, by one clock, and is no join of several."""
    files = sorted(found.server.source.files, key=lambda file: file.first_ns)
    is_joined = any(after.first_ns < before.last_ns for before, after in itertools.pairwise(files))
    return "server" in found.measured and found.clock.fits and not found.moved_ns and not is_joined


def _at_first(side: OneSide, servers: Sequence[Host], flying: Bool) -> OneSide:
    """With the levels of the first of `servers`."""
    return side._replace(servers=servers, compared=flying & side.ops.spread(is_at(side.ops, servers[0])))


def _charge(
    found: Correlation, waits: tuple[Waits, Waits] | None, pairs: HostPairs, *, of_a_stretch: bool
) -> Charged | None:
    """None where the clocks, or what TCP did, are not known."""
    if waits is None or not found.clock.fits:
        return None
    server, client = found.server.decoded, found.client.decoded
    return charge(
        server,
        client,
        found.parts,
        waits,
        half_trips_ns(server, client, found.matched, found.clock, pairs, is_alone=found.share is None),
        numbers=client.ops.spread(pairs.of_client)[found.matched.client] if len(pairs.pairs) > 1 else None,
        of_a_stretch=of_a_stretch,
    )


def _in_socket_ns(found: Correlation, charges: Charged | None) -> I64 | None:
    """Of each of the server's ops; None: its socket kept no reply."""
    if charges is None or (of_matched := charges.in_socket_ns()) is None:
        return None
    of_op = np.zeros(len(found.server.ops), dtype=np.int64)
    of_op[found.matched.server] = of_matched
    return of_op


def _unseen(found: Correlation, name: str, missing: I64) -> Unseen | None:
    """What the capture of a side does not show of the connections that both have. None where filters leave out some of
    what it shows, for nobody knows what they leave out of the rest; where a clock was set; and of one of several pairs
    of hosts."""
    side = found.server if name == "server" else found.client
    is_known = is_without_filters(side.reasons) and not found.clock.steps and found.share is None
    if not len(side.decoded.details.unread) or not is_known:
        return None
    of_both = np.zeros(len(side.ops.connections), dtype=np.bool_)
    of_both[side.ops.conn[found.matched.server if name == "server" else found.matched.client]] = True
    return unseen(side.decoded, found.compared(name) & of_both[side.ops.conn], missing, at_server=name == "server")


def _unseen_there(near: Unseen | None, more_ns: I64) -> Unseen | None:
    """At a host without a capture: what the capture of the other one does not show was on the network for as long as
    what it shows; `more_ns`: by so much its SRTs are longer there."""
    if near is None or not len(more_ns):
        return None
    each_ns = float(more_ns.mean())
    seen_ns, low_ns, high_ns = (
        max(ns + count * each_ns, 0.0)
        for ns, count in ((near.seen_ns, near.seen), (near.low_ns, near.ops), (near.high_ns, near.ops))
    )
    return dataclasses.replace(near, seen_ns=seen_ns, low_ns=low_ns, high_ns=high_ns)
