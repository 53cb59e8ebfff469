"""An `Analysis` -> what is said of its phases and of its pairs of hosts, each analysed and judged by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import structs

from nfslat.analyse import analyse, with_threads, within
from nfslat.answer import model
from nfslat.compare import clock_of_matched, ticks_of
from nfslat.evidence.known import Known
from nfslat.figures.findings import judge
from nfslat.figures.host_pairs import looked_at, numbers_of, plain_rows, told_row, ways_by_hosts
from nfslat.figures.inflight import inflight_of
from nfslat.figures.matched import matched_ops
from nfslat.figures.pair_sides import PairSides, SplitServers, SplitSides
from nfslat.figures.phases import Span, phase_row, spans_of
from nfslat.findings.parts import lead_by_parts
from nfslat.findings.stretches import Stretch
from nfslat.host_pairs import HostPair, host_pairs
from nfslat.inflight.server import ServerLoad, in_phase, led_by_whole
from nfslat.results import Analysis, Correlation
from nfslat.select import only


def phases_of(c: Analysis, known: Known, borders: Sequence[int] | None = None) -> list[Stretch[model.Phase]]:
    """What is said of each stretch of time in which the hosts are in one state; nothing where there is only one.

    Means that somebody gave are of the whole, and are left out.
    """
    if c.coarse_ns:
        return []
    whole, spans = c.inflight.load, spans_of(c, borders)
    phases: list[Stretch[model.Phase] | None] = []
    threads = []
    for span in spans:
        part = with_threads(_inside(c, span), known.threads)
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
    if load is not part.inflight.load:
        part = structs.replace(part, inflight=part.inflight._replace(load=load))
    inflight = inflight_of(part, brief=True)
    # A server may have had others for a part of the time: what is said of their number speaks against another one only
    # where the whole has that, too.
    hosts = known.of_hosts
    if load.threads.estimate in (known.threads, c.inflight.load.threads.estimate):
        hosts = hosts.with_limit("threads", known.threads, known.source("threads", "--threads"))
    judged = judge(part, hosts, matched_ops(part, brief=True), inflight, None)
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
    ticks = ticks_of(server, client, c.ticks)
    if c.inferred is None:
        own = clock_of_matched(server, client, sides.matching._replace(matched=matched), c.own, ([], []), ticks)
        clock = own if own.fits else clock
        matched = only(matched, ~np.isin(matched.client, clock.under_way)) if len(clock.under_way) else matched
    part = Correlation(
        server,
        client,
        sides.matching,
        matched,
        clock,
        c.srt,
        c.order,
        inferred=sides.inferred,
        own=c.own,
        ticks=ticks,
        moved_ns=c.moved_ns,
        share=servers.share(pair.there, sides.rows, sides.conns),
    )
    return analyse(part, missing=sides.missing)
