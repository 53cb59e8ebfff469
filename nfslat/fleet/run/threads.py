"""Stretches of a server's time -> its threads over all clients in each; of all of them what is said of the server, by
time, and of the waits of each client's calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from nfslat.answer.model import ServerInFlight
from nfslat.figures.inflight import server_in_flight
from nfslat.fleet.compare.windows import Flying, Windows, flying
from nfslat.fleet.model import Phase, ServerWindow
from nfslat.fleet.run.by_window import OfWindows, mean_ms, of_windows, one_behind_the_other, phase_rows, window_rows
from nfslat.fleet.run.changes import is_same
from nfslat.fleet.run.joined import of_server
from nfslat.fleet.run.phases import ByTime, find_by_time
from nfslat.fleet.run.stretches import Piece, begins_and_ends, cut_parts, hidden_of, stretches
from nfslat.inflight.all_clients import Seen, ServerWide, seen_of, taken
from nfslat.inflight.jobs import find_jobs
from nfslat.inflight.levels import Levels
from nfslat.inflight.server import ServerLoad, load_of, threads_of, told
from nfslat.inflight.threads import Bound, Threads
from nfslat.kernels.levels import in_order
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Bool
from nfslat.select import is_reverse


@dataclass(frozen=True, eq=False)
class Stretch:
    """What the server's threads did for all clients in a stretch of time; the columns of `load` have a row for each op
    that began in it, in the order of their calls' first frames, `rows` says which of them are a shard's."""

    windows: Windows
    end_ns: int
    seen: Seen
    load: ServerLoad
    by_time: ByTime  # without rows
    of_windows: OfWindows
    inflight: ServerInFlight
    waited_ns: float  # all calls together
    rows: tuple[I32, ...]

    def small(self) -> Stretch:
        """The same without the columns, which take memory."""
        nothing = np.zeros(0, dtype=np.int32)
        return replace(self, load=taken(self.load, nothing), rows=())

    def of_client(self, shards: Sequence[int]) -> Stretch:
        """The same with the rows of some shards, joined in the order of their calls' first frames."""
        rows = [self.rows[at] for at in shards]
        joined = rows[0] if len(rows) == 1 else np.sort(np.concatenate([*rows, np.zeros(0, dtype=np.int32)]))
        return replace(self, load=taken(self.load, joined), rows=())


def find_stretch(
    piece: Piece,
    hidden: tuple[float, float],
    windows: Windows,
    servers: Collection[str] = frozenset(),
    *,
    first: bool = True,
    last: bool = True,
) -> Stretch:
    """`hidden`: shares of the ops of the whole capture (`nfslat.inflight.server.server_load`). `first` and `last`: of
    the time.

    `servers` are addresses of the server, whose threads serve what comes to any of them; without them the one that
    answers most calls is looked at, as in a capture that nobody took apart.
    """
    whole = piece.calls
    reverses = []
    for one in (whole, piece.before):
        ops, reverse = one.ops, is_reverse(one.ops)
        reverses.append(of_server(ops, reverse, frozenset(servers)) if servers else (ops, reverse))
    (ops, reverse), (before, before_reverse) = reverses
    compared: Bool = ~ops.spread(reverse)
    rows_in = slice(None) if compared.all() else np.flatnonzero(compared)
    starts, ends, goes_on = begins_and_ends(
        piece, compared, ~before.spread(before_reverse), windows, first=first, last=last
    )
    # numpy and the compiled loops let go of Python's lock while they work.
    with ThreadPoolExecutor(1) as pool:
        flight = pool.submit(_flight, starts, ends, hidden[0], windows, goes_on)
        load, by_time = _load(replace(whole, ops=ops), reverse, hidden, windows)
        found, flown = flight.result()
    figures = of_windows(ops, rows_in, load, flown, windows)
    server_ms = mean_ms(float(figures.server_ns.sum()), int(figures.ops.sum())) or 0.0
    return Stretch(
        windows=windows,
        end_ns=max(whole.last_ns, int(windows.edges_ns[-2]) + 1) if last else int(windows.edges_ns[-1]),
        seen=found,
        load=load,
        by_time=replace(by_time, threads=load.threads),
        of_windows=figures,
        inflight=server_in_flight(found, load, np.flatnonzero(compared), server_ms),
        waited_ns=float(load.queue_ns[load.queue_ns != NULL].sum()),
        rows=piece.rows,
    )


def _flight(starts: I64, ends: I64, hidden: float, windows: Windows, goes_on: int) -> tuple[Seen, Flying]:
    """`goes_on`: ops that end later, and are cut off here."""
    begin_ns = int(starts.min(initial=np.iinfo(np.int64).max))
    events = in_order(starts, ends)
    shifted = replace(windows, begin_ns=windows.begin_ns - begin_ns)
    found = seen_of(events, hidden)
    if goes_on:
        ended = found.levels.ended.copy()
        ended[int((events.ends == events.ends[-1]).sum())] -= goes_on  # where all of them seem to end
        found = found._replace(levels=Levels(found.levels.time_ns, ended))
    return found, flying(*events, shifted)


def _load(whole: Decoded, reverse: Bool, hidden: tuple[float, float], windows: Windows) -> tuple[ServerLoad, ByTime]:
    ops = whole.ops
    jobs = find_jobs(ops, whole.loose, reverse, whole.details.blocked)
    threads = threads_of(jobs)
    judged = told(threads, jobs, hidden, whole.details)
    count = windows.count
    if judged is threads:
        by_time = find_by_time(jobs, threads, windows.bounds(jobs.work.arrival_ns))
    else:
        by_time = ByTime(judged, (judged.bound.threads,) * count, (None,) * count, (judged.without_rows,) * count)
    load = load_of(ops, jobs, by_time.threads)
    return load, replace(by_time, threads=load.threads)


@dataclass(frozen=True, eq=False)
class Wide:
    """What is said of the server."""

    inflight: ServerInFlight
    windows: list[ServerWindow]
    phases: list[Phase]


def wide_of(parts: Sequence[Stretch], windows: Windows) -> Wide:
    """Of all stretches, in their order; their rows are not looked at."""
    load = _one_after_another(parts)
    figures = one_behind_the_other([one.of_windows for one in parts])
    by_time = _joined([one.by_time for one in parts])
    told_of = by_time, load, windows, parts[-1].end_ns
    return Wide(_in_flight(parts, load, figures), window_rows(figures, *told_of), phase_rows(figures, *told_of))


def _in_flight(parts: Sequence[Stretch], load: ServerLoad, figures: OfWindows) -> ServerInFlight:
    if len(parts) == 1:
        return parts[0].inflight
    server_ms = mean_ms(float(figures.server_ns.sum()), int(figures.ops.sum())) or 0.0
    found = server_in_flight(_seen(parts), load, np.zeros(0, dtype=np.int64), server_ms)
    if load.threads.cannot or not load.is_whole:
        return found
    queue_ms = mean_ms(float(figures.queue_ns.sum()), int(figures.waiting.sum()))
    ranges = [(one.inflight.queue_range_ms, int(one.of_windows.waiting.sum())) for one in parts]
    calls = max(sum(count for ends, count in ranges if ends is not None), 1)
    low, high = (sum(ends[at] * count for ends, count in ranges if ends is not None) / calls for at in (0, 1))
    return replace(
        found,
        queue_ms=queue_ms,
        queue_range_ms=None if queue_ms is None else (low, high),
        service_ms=None if queue_ms is None else server_ms - queue_ms,
    )


def server_wide(parts: Sequence[Stretch]) -> ServerWide:
    """For one client: stretches with the rows of its shards, in their order."""
    return ServerWide(_seen(parts), _one_after_another(parts))


def _seen(parts: Sequence[Stretch]) -> Seen:
    if len(parts) == 1:
        return parts[0].seen
    size = max(len(one.seen.levels.time_ns) for one in parts)
    time_ns, ended = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for one in parts:
        time_ns[: len(one.seen.levels.time_ns)] += one.seen.levels.time_ns
        ended[: len(one.seen.levels.ended)] += one.seen.levels.ended
    main = max(parts, key=lambda one: one.seen.levels.ops)
    return main.seen._replace(levels=Levels(time_ns, ended))


def _one_after_another(parts: Sequence[Stretch]) -> ServerLoad:
    if len(parts) == 1:
        return parts[0].load
    loads = [one.load for one in parts]
    if any(not load.threads.cannot for load in loads):
        loads = [_not_known(load) if load.threads.cannot else load for load in loads]
    queue = np.concatenate([load.queue_ns for load in loads])
    least = most = queue
    if any(load.threads.limited for load in loads):
        least = np.concatenate([load.queue_with_least_ns for load in loads])
        most = np.concatenate([load.queue_with_most_ns for load in loads])
    jobs = loads[0].jobs._replace(
        servers=max(load.jobs.servers for load in loads),
        held=sum(load.jobs.held for load in loads),
        unseen=sum(load.jobs.unseen for load in loads),
        unseen_first=sum(load.jobs.unseen_first for load in loads),
    )
    threads = _threads(loads, [one.waited_ns for one in parts])
    return ServerLoad(jobs, threads, queue, least, most, sum(load.witnesses for load in loads))


def _not_known(load: ServerLoad) -> ServerLoad:
    """The same, with no wait known of a stretch of which nothing is known, where it is of others."""
    nothing = np.full(len(load.queue_ns), NULL)
    return load._replace(queue_ns=nothing, queue_with_least_ns=nothing, queue_with_most_ns=nothing)


def _threads(loads: Sequence[ServerLoad], waited_ns: Sequence[float]) -> Threads:
    """What stretches say of the whole time: the one in which calls waited most, all clients' together."""
    every = [load.threads for load in loads]
    calls = sum(one.calls for one in every)
    top = max(one.bound.threads for one in every)
    bound = Bound(top, sum(one.bound.times for one in every if one.bound.threads == top))
    most = max(one.most_in_flight for one in every)
    if not any(one.limited for one in every):
        said = [one.cannot for one in every]
        cannot = said[0] if all(said) else ""
        return every[0]._replace(calls=calls, bound=bound, most_in_flight=most).untold(cannot)
    at = max(range(len(loads)), key=lambda at: (loads[at].threads.limited, waited_ns[at]))
    main = every[at]
    return main._replace(
        calls=calls,
        bound=bound if bound.threads <= (main.low or 0) else main.bound,
        most_in_flight=most,
        waiting_share=sum(one.waiting_share * one.calls for one in every) / max(calls, 1),
    )


def _joined(parts: Sequence[ByTime]) -> ByTime:
    begins = np.cumsum([0, *(len(part.bounds) for part in parts)]).tolist()
    return ByTime(
        parts[0].threads,
        tuple(one for part in parts for one in part.bounds),
        tuple(one for part in parts for one in part.alone),
        tuple(one for part in alike([part.told_by for part in parts]) for one in part),
        tuple(at + base for part, base in zip(parts, begins, strict=False) for at in part.changing),
    )


def alike(told: Sequence[Sequence[Threads]]) -> list[list[Threads]]:
    """By what each window of stretches is told, with one number where stretches that follow each other have the same as
    far as can be told: 10 threads in one and 11 in the next are no change."""
    out: list[list[Threads]] = []
    for of_stretch in told:
        before = next((one for one in reversed(out[-1] if out else []) if one.limited), None)
        out.append(
            [
                before if before is not None and one.limited and is_same(one.estimate, before.estimate) else one
                for one in of_stretch
            ]
        )
    return out


@dataclass(frozen=True, eq=False)
class AllClients:
    """All stretches of a capture, in this process."""

    stretches: list[Stretch]
    wide: Wide

    def for_parts(self, shards: Sequence[int]) -> ServerWide:
        """What concerns the ops of some shards, joined in the order of their calls' first frames."""
        return server_wide([one.of_client(shards) for one in self.stretches])


def find_all(
    parts: Sequence[Decoded],
    facts: Decoded,
    windows: Windows,
    servers: Collection[str] = frozenset(),
    most_ops: int | None = None,
) -> AllClients:
    """`parts` are a server's capture by pairs of hosts, each on one clock, `facts` what is known of it beside them."""
    some = stretches(windows, sum(len(one.ops) for one in parts), most_ops)
    cut = cut_parts(parts, facts, some)
    hidden = hidden_of([cut], facts)
    found = [
        find_stretch(piece, hidden, of, servers, first=of is some[0], last=of is some[-1])
        for piece, of in zip(cut.pieces, some, strict=True)
    ]
    return AllClients(found, wide_of(found, windows))
