"""Two decoded sides -> one `Correlation`: which is which, what matches, the clocks, what was asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from msgspec import structs

from nfslat.clock.clock import Clock, ServerTimes
from nfslat.clock.more import narrowed
from nfslat.clock.theta import find_clock
from nfslat.clock.tick import FINE, Tick, at_the_latest, is_coarse, mean_error_ns
from nfslat.decode.capture import Source
from nfslat.decode.host_clocks import moved, ran
from nfslat.decode.segments import sampled
from nfslat.decode.sides import of_one_clock
from nfslat.errors import InputError
from nfslat.host_pairs import apart, host_pairs
from nfslat.kernels.memory import give_back
from nfslat.match import overlap
from nfslat.match.match import Matching, match
from nfslat.match.overlap import Longer
from nfslat.match.settle import settle
from nfslat.model.decoded import Decoded
from nfslat.model.segments import Segments
from nfslat.model.tables import Matched
from nfslat.peer.acks import acks_of_both
from nfslat.peer.own import OwnStamps, own_stamps
from nfslat.results import Correlation, Order, Side
from nfslat.select import Filters, forward, is_reverse, only, select_both
from nfslat.wire.size_limit import size_limits, size_limits_of_one

_MOST_CLOCKS = 256  # pairs of hosts whose clocks are sought
_FEW_OPS = 256  # what ACKs say beside more of them is hardly anything new


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
    ticks = ticks_of(server, client)
    talks = _segments_of(server), _segments_of(client)
    sides = ("server", server, talks[0]), ("client", client, talks[1])
    # What a coarse clock says of TCP's is nothing.
    own = {name: found for name, side, its in sides if name not in ticks and (found := _own(side, its, name))}
    clock = clock_of_matched(server, client, matching, own, talks, ticks)
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
        matching, clock = settled, clock_of_matched(server, client, settled, own, talks, ticks)
    server, client = _select(server, client, matching, filters)
    selected = forward(server.ops, client.ops, matching.matched)
    selected = only(selected, client.kept[selected.client])
    matched = only(selected, ~np.isin(selected.client, clock.under_way)) if len(clock.under_way) else selected
    return Correlation(
        server,
        client,
        matching,
        matched,
        clock,
        srt,
        order,
        len(selected) - len(matched),
        own=own,
        ticks=ticks,
        moved_ns=moved_ns or {},
        size_limits=size_limits(server.ops, client.ops, matched, talks),
    )


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
    limits = () if isinstance(found, str) else size_limits_of_one(d.ops, found.inferred.near, d.segments, again)
    d.segments[:] = sample
    if isinstance(found, str):
        give_back()
        return found
    source = structs.replace(side.source, bundle=None)  # what it holds is of the host of the capture
    other = structs.replace(side, source=source, decoded=decoded_of(d, found, twice, again))
    matching = matched_one_to_one(d.ops, found, (d.first_ns, d.last_ns))
    server, client = (other, side) if found.inferred.side == "server" else (side, other)
    matched = only(matching.matched, side.forward[matching.matched.client])
    if not len(matched):
        return "none of the ops that were asked for has inferred times"
    near = found.inferred.near
    own = None if found.inferred.taken_at == "loopback" or tick.ns else _own(side, sample, near)
    return Correlation(
        server,
        client,
        matching,
        matched,
        clock_of(found),
        srt,
        inferred=found.inferred,
        own={near: own} if own else {},
        ticks={near: tick} if tick.ns else {},
        size_limits=limits,
    )


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


def ticks_of(server: Side, client: Side, of_whole: Mapping[str, Tick] | None = None) -> dict[str, Tick]:
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
        clock = clock_of_matched(server, client, mine, own, ([], []), ticks_of(server, client))
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


def _match(server: Side, client: Side, *, may_swap: bool) -> tuple[Side, Side, Matching, Order]:
    """The sides in the right order, what matches, and how the order was found."""
    matching = _match_as_given(server, client)
    if not len(matching.matched):
        overlap.refuse_without_common_op(_given(server), _given(client))
    if not (server.tick.ns and client.tick.ns):  # in ticks all times may be the same at both hosts
        overlap.refuse_same_capture(_given(server), _given(client), matching.matched)
    called = forward(server.ops, client.ops, matching.matched)
    if may_swap and len(called) and (ticks := ticks_of(server, client)):
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


def clock_of_matched(
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
    return structs.replace(server, reasons=reasons[0]), structs.replace(client, reasons=reasons[1])
