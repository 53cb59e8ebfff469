"""`Correlation` -> `Analysis`: what TCP and the hosts did to its ops, of the whole or of a part of the time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import structs

from nfslat.clock.tick import is_coarse
from nfslat.decode.xid_gaps import missing_calls
from nfslat.decompose import client_srt_ns, server_srt_ns
from nfslat.host_pairs import HostPairs, host_pairs, is_at
from nfslat.inflight.all_clients import ServerWide, seen
from nfslat.inflight.analysis import OneSide, in_flight, one_of_several, with_so_many
from nfslat.inflight.jobs import Host
from nfslat.inflight.pools import pools_of
from nfslat.inflight.serial import serial_calls
from nfslat.kernels.memory import give_back
from nfslat.model.protocol import NULL
from nfslat.model.record import declared
from nfslat.model.tables import I64, Bool
from nfslat.model.units import to_ms
from nfslat.outcomes.recovery import Recovery, recoveries
from nfslat.outcomes.tries import Request, requests
from nfslat.results import Analysis, Correlation, Side, one_side
from nfslat.select import count_ops, in_time, is_without_filters, only
from nfslat.tally.unanswered import in_flight_at_end
from nfslat.wire.charges.analysis import Charged, charge
from nfslat.wire.resends import Waits, retrans_waits_ns
from nfslat.wire.round_trip import half_trips_ns
from nfslat.wire.unseen import Unseen, unseen

_LARGE_CAPTURE = 1 << 18  # operations, from which on memory is given back to the system between two stages


def analyse(
    found: Correlation,
    others: ServerWide | None = None,
    *,
    cannot_tell: str = "",
    missing: Mapping[str, I64] | None = None,
    of_a_stretch: bool = False,
) -> Analysis:
    """`of_a_stretch`: it is of a part of the time, as a window is, in which the path may be longer than it was before;
    `others`: what the server did for all its clients, where its side is that of one of several; `cannot_tell`: why
    that is not known; `missing`: the `missing_calls` of each side, where more than the side tells them."""
    server, client = found.server, found.client
    is_large = len(client.ops) >= _LARGE_CAPTURE
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
        # What hosts have in flight that only one of the captures knows is nothing that these compare; and the levels of
        # a server are of one, though there may be several.
        ours = at_client.compared & client.ops.spread(pairs.of_client != NULL)
        at_server, at_client = at_first(at_server, hosts), at_client._replace(compared=ours)
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
    tried, recovered = put_off(client, called)
    if is_large:
        give_back()  # that takes most memory
    kind = client.ops.kind[found.matched.client]
    not_shown = {name: _unseen(found, name, missing[name]) for name in found.measured}
    if found.inferred is not None:
        near, there = found.inferred.near, found.inferred.side
        more_ns = server_ns - client_ns if there == "server" else client_ns - server_ns
        not_shown[there] = _unseen_there(not_shown[near], more_ns)
    return Analysis(
        **{name: getattr(found, name) for name in declared(Correlation)},
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


def with_threads(c: Analysis, there: int | None) -> Analysis:
    """The same where somebody says how many threads the server has, and its calls may wait for one of so many."""
    load = c.inflight.load
    threads = load.threads
    if there is None or threads.cannot or load.servers > 1 or c.share is not None:
        return c
    is_found = there == threads.low == threads.high
    if is_found or not threads.bound.threads <= there < threads.most_in_flight:
        return c
    side = one_side(c.server, c.missing_calls["server"])._replace(in_socket_ns=_in_socket_ns(c, c.charges))
    tried = with_so_many(load, side, there)
    return structs.replace(c, inflight=c.inflight._replace(load=tried))


def within(c: Correlation, begin_ns: int | None, end_ns: int | None) -> Analysis:
    """What of `c` was called in a stretch of time, ns on the client's clock, analysed by itself."""
    times = in_time(c.server.ops, c.client.ops, c.matching.matched, begin_ns, end_ns)
    server, client = (
        structs.replace(side, reasons=np.where(by_time != 0, by_time, side.reasons))
        for side, by_time in zip((c.server, c.client), times, strict=True)
    )
    matched = only(c.matched, client.kept[c.matched.client])
    part = Correlation(server, client, c.matching, matched, c.clock, c.srt, c.order)
    return analyse(structs.replace(part, inferred=c.inferred, own=c.own, ticks=c.ticks, share=c.share))


def _coarse_ns(found: Correlation, client_ns: I64, server_ns: I64) -> int:
    """The tick of stamps that bear no more than means, as where the server takes longer by them; 0: they bear all."""
    if not found.ticks or not len(client_ns):
        return 0
    mean_ns, alone = float(client_ns.mean()), found.inferred is not None
    ticks = [tick.ns for tick in found.ticks.values() if is_coarse(tick, mean_ns, alone=alone)]
    return max(ticks, default=max(found.ticks.values()).ns if mean_ns < server_ns.mean() else 0)


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


def _may_be_one_host(found: Correlation) -> bool:
    """Could addresses of servers be of one host? Its capture shows both, by one clock, and is no join of several."""
    files = sorted(found.server.source.files, key=lambda file: file.first_ns)
    is_joined = any(after.first_ns < before.last_ns for before, after in itertools.pairwise(files))
    return "server" in found.measured and found.clock.fits and not found.moved_ns and not is_joined


def at_first(side: OneSide, servers: Sequence[Host]) -> OneSide:
    """`side` with the levels of the first of `servers`."""
    at_its = side.ops.spread(is_at(side.ops, servers[0]))
    return side._replace(servers=servers, compared=side.compared & at_its)


def _in_socket_ns(found: Correlation, charges: Charged | None) -> I64 | None:
    """Time of each of the server's replies in its socket; None: it kept none."""
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
    return structs.replace(near, seen_ns=seen_ns, low_ns=low_ns, high_ns=high_ns)


def put_off(side: Side, calls: Bool) -> tuple[list[Request], list[Recovery]]:
    """Requests that were put off and tried again, and recoveries, of the ops in `calls`; and of MOUNT and NLM."""
    d, calls = side.decoded, calls | side.beside
    tried = requests(d.ops, d.details, calls, d.last_ns)
    return tried, recoveries(d.ops, calls, tried)
