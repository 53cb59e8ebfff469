"""An `Analysis` -> the part of the report that pictures are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from nfslat.answer import model
from nfslat.answer.pictures import Flying, OverTime, Pictures
from nfslat.figures.pictures.bins import Bins
from nfslat.figures.pictures.bounds import envelope
from nfslat.figures.pictures.clocks import on_client, ops_on_client
from nfslat.figures.pictures.events import events_of
from nfslat.figures.pictures.flying import flying, limit_of_client, limit_of_server, with_waiting
from nfslat.figures.pictures.path import ways
from nfslat.figures.pictures.slow import slow_ops
from nfslat.figures.pictures.tallies import Tallies
from nfslat.model.blocks import each_block
from nfslat.model.tables import I64
from nfslat.model.units import iso, to_ms
from nfslat.results import Analysis
from nfslat.tally.keys import keys_of, names_of
from nfslat.tally.unanswered import in_flight_at_end

if TYPE_CHECKING:
    from nfslat.names.paths import Paths


def pictures_of(
    c: Analysis, inflight: model.InFlight, *, slowest: int = 20, paths: Callable[[I64], Paths] | None = None
) -> Pictures | None:
    """All of it, on the client's clock; None without a matched op.

    `inflight` is what the report says of threads and slots, `slowest` how many of the slowest ops are shown, `paths`
    finds the names of their files: those of matched ops in some rows. Time is cut into at most 120 bins, from the first
    call of a matched op to the last reply of one, or to the end of the client's capture where calls still wait then.
    There are 10 classes of latency a decade, from 1 us to 100 s; those beyond the ones that hold an op
    are left out.
    """
    if not len(c.matched):
        return None
    bins = _bins(c)
    # numpy lets go of Python's lock while it works.
    with ThreadPoolExecutor(1) as pool:
        flown = pool.submit(_in_flight, c, inflight, bins)
        return _pictures(c, bins, flown, slowest, paths)


def _pictures(
    c: Analysis,
    bins: Bins,
    flown: Future[tuple[Flying, Flying]],
    slowest: int,
    paths: Callable[[I64], Paths] | None,
) -> Pictures:
    keys, of_kind = keys_of(c.client.ops.kinds, c.kind)
    tallies = Tallies.of(c, bins, of_kind, len(keys))
    call, reply = ways(c, bins)
    points, shown = envelope(c, bins), slow_ops(c, bins, slowest, paths)
    server, client = flown.result()
    return Pictures(
        classes=tallies.classes,
        distributions=tallies.distributions([names_of(key) for key in keys]),
        over_time=OverTime(
            begin=iso(bins.begin_ns),
            bin_ms=to_ms(bins.width_ns),
            bins=bins.count,
            ops=tallies.ops.tolist(),
            client_ms=tallies.means_ms("client"),
            server_ms=tallies.means_ms("server"),
            network_ms=tallies.means_ms("network"),
            client_p99_ms=tallies.p99_ms,
            heat=tallies.heat_cells,
            server=server,
            client=client,
            call=call,
            reply=reply,
            events=events_of(c, bins, {"client": call, "server": reply}),
        ),
        envelope=points,
        slowest=shown,
    )


def _in_flight(c: Analysis, inflight: model.InFlight, bins: Bins) -> tuple[Flying, Flying]:
    """At the server and at the client."""
    ops, kept = c.client.ops, c.client.flying
    starts, ends = (ops.t0, ops.t3) if kept.all() else (ops.t0[kept], ops.t3[kept])
    there = in_flight_at_end(c.server)
    waiting = None if there is None else (on_client(c, there[0]), on_client(c, there[1]))
    return (
        flying(*with_waiting(*ops_on_client(c, c.server.flying), waiting), bins, limit_of_server(inflight.server)),
        flying(*with_waiting(starts, ends, in_flight_at_end(c.client)), bins, limit_of_client(inflight)),
    )


def _bins(c: Analysis) -> Bins:
    ops, rows = c.client.ops, c.matched.client
    begin = min(each_block(len(rows), lambda at: int(ops.t0[rows[at]].min())))
    last = max(each_block(len(rows), lambda at: int(max(ops.t0[rows[at]].max(), ops.t3[rows[at]].max()))))
    waiting = in_flight_at_end(c.client)
    return Bins.over(begin, last if waiting is None else max(last, int(waiting[1].max())))
