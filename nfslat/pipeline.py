"""The map: sources in, a `Correlation` (two captures) or a `Side` (one) out; every stage named once, in order.

decode     capture file -> ops, one side        one thread a side; calls are paired with their replies there
directions ops of one side -> the same, where its file has two clocks for what was sent and what was received
match      ops + ops -> matched ops
clock      matched ops -> what is known of the two clocks
settle     matched ops + clock -> matched ops       what only time can tell
select     ops -> the ones that the user asked for
decompose  matched ops + clock -> parts

What is derived from these (response times, parts, what was in flight) is made when it is asked for (`results`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event

import numpy as np

from nfslat.clock.clock import Clock, ServerTimes
from nfslat.clock.theta import find_clock
from nfslat.decode.capture import Source
from nfslat.decode.directions import find_directions, on_one_clock
from nfslat.decode.engine import Engine
from nfslat.decode.protocols import refuse_without_nfs
from nfslat.decompose import Parts
from nfslat.errors import InputError
from nfslat.match import overlap
from nfslat.match.match import Matching, match
from nfslat.match.settle import settle
from nfslat.model.decoded import Decoded
from nfslat.model.tables import I64, Bool, Matched, Ops
from nfslat.results import Correlation, Side
from nfslat.select import Filters, is_reverse, select

Progress = Callable[[int], None]  # is told how much more was read, in the engine's unit


def correlate(
    server: Source, client: Source, engine: Engine, *, filters: Filters, srt: str, may_swap: bool, progress: Progress
) -> Correlation:
    """Two captures of the same traffic, compared.

    Raises ``InputError`` where a capture holds no NFS, or the two have no op in common.
    """
    return compare(*_read_both(server, client, engine, progress), filters=filters, srt=srt, may_swap=may_swap)


def compare(one: Side, two: Side, *, filters: Filters, srt: str, may_swap: bool) -> Correlation:
    """Two sides, with nothing selected away yet, compared: `one` is the server's. Raises as `correlate` does."""
    matching = _match(one, two)
    if not len(matching.matched):
        overlap.refuse_without_common_op(_given(one), _given(two))
    overlap.refuse_same_capture(_given(one), _given(two), matching.matched)
    forward = _forward(one.ops, two.ops, matching.matched)
    swapped = may_swap and overlap.is_swapped(one.ops, two.ops, forward)
    # Long ops by a fast clock look as if they took longer; but only in the right order are causes in front of effects.
    if swapped and len(forward) and find_clock(one.ops, two.ops, forward).fits:
        swapped = False
    if swapped:
        one, two = two, one
        matching = _match(one, two)
    clock = _find_clock(one, two, matching)
    settled = settle(one.ops, two.ops, matching, ServerTimes(clock, matching.matched, len(one.ops), len(two.ops)))
    if settled is not matching:
        matching, clock = settled, _find_clock(one, two, settled)
    one, two = _select(one, two, matching, filters)
    forward = _forward(one.ops, two.ops, matching.matched)
    selected = _only(forward, two.kept[forward.client])
    if filters.text and not (one.kept.any() or two.kept.any()):
        raise _nothing_left(filters)
    shown = _only(selected, ~np.isin(selected.client, clock.under_way)) if len(clock.under_way) else selected
    parts = Parts(one.ops, two.ops, shown, clock)
    return Correlation(one, two, matching, shown, clock, parts, srt, swapped, len(selected) - len(shown))


def _find_clock(server: Side, client: Side, matching: Matching) -> Clock:
    forward = _forward(server.ops, client.ops, matching.matched)
    if not len(forward):
        overlap.refuse_without_common_op(_given(server), _given(client))
    if len(matching.by_order):
        certain = ~np.isin(forward.client, matching.by_order)
        forward = forward.take(certain) if certain.any() else forward
    return find_clock(server.ops, client.ops, forward)


def _given(side: Side) -> overlap.Given:
    return overlap.Given(side.source.name, side.ops, side.decoded.first_ns, side.decoded.last_ns)


def read(source: Source, engine: Engine, progress: Progress) -> Side:
    """One capture, decoded, with nothing selected away yet. Raises ``InputError`` where it holds no NFS."""
    seen = 0

    def more(amount: int) -> None:
        nonlocal seen
        progress(amount - seen)
        seen = amount

    source, decoded = engine.decode(source, more)
    refuse_without_nfs(source, decoded, engine.tools)
    return side_of(source, decoded)


def side_of(source: Source, decoded: Decoded) -> Side:
    """What was decoded, on one clock, with nothing selected away yet."""
    if decoded.directions is None and (directions := find_directions(decoded.ops)) is not None:
        decoded = on_one_clock(decoded, directions)
    return Side(source, decoded, np.zeros(len(decoded.ops), dtype=np.int8))


class _Stopped(Exception):
    """The other side failed, or the user has had enough."""


def _read_both(server: Source, client: Source, engine: Engine, progress: Progress) -> tuple[Side, Side]:
    """Both at once; the first problem of one, or Ctrl-C, stops the other too."""
    stop = Event()

    def checked(amount: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress(amount)

    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            sides = [pool.submit(read, source, engine, checked) for source in (server, client)]
            done, _ = wait(sides, return_when=FIRST_EXCEPTION)
            if any(side.exception() for side in done):
                stop.set()
        except BaseException:
            stop.set()
            raise
    for side in sides:
        problem = side.exception()
        if problem is not None and not isinstance(problem, _Stopped):
            raise problem
    return sides[0].result(), sides[1].result()


def inspect(source: Source, engine: Engine, *, filters: Filters, progress: Progress) -> Side:
    """One capture by itself."""
    side = read(source, engine, progress)
    reasons = select(side.ops, filters, side.ops.t0, side.decoded.first_ns)
    side = dataclasses.replace(side, reasons=reasons)
    if filters.text and not side.kept.any():
        raise _nothing_left(filters)
    return side


def _nothing_left(filters: Filters) -> InputError:
    given = ", ".join(f"{option} {value}" for option, value in filters.text.items())
    return InputError(f"no op is left by the filters ({given}); run without them to see what there is")


def _match(server: Side, client: Side) -> Matching:
    ran = [[(file.first_ns, file.last_ns) for file in side.source.files] for side in (server, client)]
    tcp = server.decoded.details.tcp, client.decoded.details.tcp
    return match(server.ops, client.ops, ran[0], ran[1], tcp)


def _forward(server: Ops, client: Ops, matched: Matched) -> Matched:
    """Matched ops without the calls that go from the NFS server to the client: there the roles are exchanged."""
    of_server, of_client = is_reverse(server), is_reverse(client)
    if not (of_server.any() or of_client.any()):
        return matched
    reverse = server.spread(of_server)[matched.server] | client.spread(of_client)[matched.client]
    return _only(matched, ~reverse)


def _only(matched: Matched, mask: Bool) -> Matched:
    return matched if mask.all() else matched.take(mask)


def _select(server: Side, client: Side, matching: Matching, filters: Filters) -> tuple[Side, Side]:
    """Apply the filters to both sides so that the two rows of a matched op share one fate."""
    first_ns = client.decoded.first_ns
    m = matching.matched
    times = _on_client_clock(server.ops, client.ops, m) if filters.by_time else server.ops.t0
    of_client = select(client.ops, filters, client.ops.t0, first_ns)
    of_server = select(server.ops, filters, times, first_ns)
    if of_client.any() or of_server.any():
        # A name or address may be visible (or rewritten) on one side only: what one side selects, both show.
        agreed = np.where(of_server[m.server] == 0, 0, of_client[m.client]).astype(np.int8)
        of_client[m.client] = of_server[m.server] = agreed
    return dataclasses.replace(server, reasons=of_server), dataclasses.replace(client, reasons=of_client)


def _on_client_clock(server: Ops, client: Ops, matched: Matched) -> I64:
    """Time of each of the server's ops on the client's clock: its partner's, or by the nearest op that has one."""
    order = np.argsort(matched.server, kind="stable")
    near = overlap.nearest(server, np.arange(len(server)), matched.server[order])
    out = server.t0 - overlap.offsets(server, client, matched)[order[near]]
    out[matched.server] = client.t0[matched.client]
    return out
