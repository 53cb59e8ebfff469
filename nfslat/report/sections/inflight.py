"""Report -> how many ops were in flight, and what held them: threads, slots, sessions; a section as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from nfslat.answer.model import (
    CapInFlight,
    ClientInFlight,
    ConnectionInFlight,
    InFlight,
    Level,
    MatchedOps,
    MatchedRow,
    ServerInFlight,
    SessionInFlight,
)
from nfslat.answer.words import complete, ms, percent
from nfslat.report.blocks import Block, Cell, Gap, Item, Prose, Table, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.sections.tables import named_rows
from nfslat.report.text_layout import count, count_of, large, shorten

_MOST_LEVELS, _MOST_ROWS = 8, 8  # rows of a table
_HIDDEN = 0.02  # of the ops; less hardly changes a level


def inflight_section(inflight: InFlight, matched: MatchedOps | None) -> Iterator[Block]:
    """Ops in flight at both sides, and whether threads or slots hold more of them back."""
    yield Title("In flight: operations whose call has been seen and whose reply has not")
    if matched is not None and matched.tick_ms is not None:
        yield Prose(f"Time stamps tick every {matched.tick_ms:g} ms: what is in flight at once cannot be told.")
        return
    yield from _server(inflight.server)
    if inflight.server.limited and matched is not None:
        yield from _queues(matched)
    yield from _client(inflight.client)
    yield from _levels({"server": inflight.server.levels, "client": inflight.client.levels})
    yield from _knees({"server": inflight.server.knee, "client": inflight.client.knee})
    yield from _sessions(inflight.sessions)
    for cap in inflight.caps:
        yield Item(_cap(cap))
    if matched is not None and matched.completeness.share < 1 - _HIDDEN:
        yield Item(f"{complete(matched.completeness.share)}, so levels are too low.")
    elif matched is None and max(inflight.hidden_share.values(), default=0.0) > _HIDDEN:
        yield Item(f"{percent(max(inflight.hidden_share.values()))} of the ops are not captured: levels are too low.")


def brief_inflight_section(inflight: InFlight) -> Iterator[Block]:
    """The same without its tables."""
    yield Title("In flight: operations whose call has been seen and whose reply has not")
    yield from _server(inflight.server)
    yield from _client(inflight.client)
    yield Prose("By connection, level and session: --sections inflight", style="dim")


def _server(s: ServerInFlight) -> Iterator[Block]:
    if not s.max or not s.server:
        yield Prose("server: no NFS operation takes time in its capture")
        return
    yield Prose(
        f"server {s.server}: at most {count(s.max)} at once, {_level(s.mean)} on average while there are any", hanging=2
    )
    if s.servers > 1:
        yield Prose(f"it has most ops of the {count_of(s.servers, 'server')} in the capture", indent=2, hanging=2)
    yield Prose(f"threads: {_threads(s)}", indent=2, hanging=2)
    if s.queue_ms is not None and s.service_ms is not None and s.limited:
        yield Prose(
            f"mean wait for a thread {ms(s.queue_ms)} ms{_between(s.queue_range_ms)}, in a thread {ms(s.service_ms)} "
            f"ms; {percent(s.waiting_share)} of the calls wait",
            indent=2,
            hanging=2,
        )
        yield Prose(
            "threads that served clients outside the server's capture are not counted",
            indent=2,
            hanging=2,
        )
    if s.witnesses and s.limited:
        yield Prose(
            f"{count_of(s.witnesses, 'call')} of little work waited as long as the others, so the wait is not for "
            "storage",
            indent=2,
            hanging=2,
        )
    if s.held:
        yield Prose(
            f"{count_of(s.held, 'op')} left out, because a server may hold them without a thread", indent=2, hanging=2
        )
    if s.unseen_first:
        yield Prose(
            f"{count_of(s.unseen_first, 'op')} arrived earlier than the capture shows; their XIDs say when",
            indent=2,
            hanging=2,
        )


def _threads(s: ServerInFlight) -> str:
    bound = f"at least {count(s.threads_lower_bound)} exist (seen {count_of(s.lower_bound_seen, 'time')})"
    if s.cannot:
        return f"{bound}; no more can be told: {s.cannot}"
    if s.instead:
        return f"{bound}; no number of threads fits: {s.instead}"
    if s.threads_estimate is None:
        return f"{bound}; no call is seen waiting for one, so their number is not known"
    low, high = s.threads_range or (s.threads_estimate, s.threads_estimate)
    allowed = "" if low == high else f" (between {count(low)} and {count(high)})"
    waits = "calls wait for one" if s.limited else "hardly any call waits for one"
    return f"{bound}, estimate {count(s.threads_estimate)}{allowed}; {waits}"


def _between(bounds: tuple[float, float] | None) -> str:
    if bounds is None or ms(bounds[0]) == ms(bounds[1]):
        return ""
    return f" (between {ms(bounds[0])} and {ms(bounds[1])})"


def _queues(matched: MatchedOps) -> Iterator[Block]:
    """Server SRT of each operation as the wait for a thread and the time in one."""
    rows = [line for line in named_rows(matched, slowest="slowest 1 %") if line[2].queue_ms is not None]
    if rows:
        yield Gap()
        yield table(rows, _QUEUES)
        yield Gap()


def _queue_share(line: tuple[str, str, MatchedRow]) -> float | None:
    queue, server = line[2].queue_ms, line[2].server_ms.mean
    return queue / server if queue is not None and server > 0 else None


_QUEUES = (
    *(*columns("text", "0 mean ms"), *columns("right", "1 vers"), *columns("count", "2.count count")),
    *columns("ms", "2.server_ms.mean server\nSRT", "2.queue_ms queue"),
    Column("in a\nthread", lambda line: line[2].server_ms.mean - line[2].queue_ms, "ms"),
    Column("queue's\nshare", _queue_share, "share"),
)


def _client(c: ClientInFlight) -> Iterator[Block]:
    yield Prose(f"client: at most {count(c.max)} at once, {_level(c.mean)} on average while there are any", hanging=2)
    for mount in c.mounts[:_MOST_ROWS]:
        slots = "" if mount.slots is None else f" ({count(mount.slots)} in all)"
        hint = f"; {mount.hint}" if mount.hint else ""
        yield Prose(
            f"{mount.client} to {mount.server}: {count_of(mount.ops, 'op')}, {count_of(mount.nconnect, 'connection')} "
            f"at a time, held by: {mount.held}{slots}{hint}",
            indent=2,
            hanging=2,
        )
    yield from _left_out(len(c.mounts), "mount")
    ends = [one for mount in c.mounts for one in mount.connections]
    if not ends:
        return
    yield Gap()
    yield table(ends[:_MOST_ROWS], _CONNECTIONS)
    yield from _left_out(len(ends), "connection")


def _after(one: ConnectionInFlight) -> str | None:
    return None if one.turnaround_us is None else ", ".join(ms(us / 1e3) for us in one.turnaround_us)


_CONNECTIONS = (
    *(*columns("text", "client connection"), *columns("count", "ops", "max most", "level")),
    *columns("share", "at_limit_share time\nat it", "reply_clocked_share behind\na reply"),
    Column("ms after it\np50, p75", _after, "right"),
)


def _left_out(there_are: int, noun: str) -> Iterator[Block]:
    if there_are > _MOST_ROWS:
        yield Prose(f"And {count_of(there_are - _MOST_ROWS, noun)} more; the JSON report has them all.")


def _levels(sides: Mapping[str, Sequence[Level]]) -> Iterator[Block]:
    """Time and throughput by level, both sides next to each other; several levels in a row where there are many."""
    top = max((level.in_flight for levels in sides.values() for level in levels), default=0)
    if not top:
        return
    rows: list[list[Cell]] = []
    for low, high in _ranges(top):
        cells: list[Cell] = []
        for levels in sides.values():
            inside = [level for level in levels if low <= level.in_flight <= high]
            share = sum(level.share for level in inside)
            done = sum(level.share * level.ops_per_s for level in inside)
            cells += [percent(share) if inside else "-", _level(done / share) if share > 0 else "-"]
        if set(cells) != {"-"}:
            rows.append([str(low) if low == high else f"{low} to {high}", *cells])
    yield Gap()
    headers = ["in flight", *(f"{what} at\nthe {side}" for side in sides for what in ("time", "ops/s"))]
    yield Table("l" + "rr" * len(sides), headers, rows)


def _knees(knees: Mapping[str, int | None]) -> Iterator[Block]:
    known = [f"from {count(knee)} in flight on at the {side}" for side, knee in knees.items() if knee is not None]
    if known:
        yield Prose(
            f"Throughput hardly grows {', '.join(known)}. That alone is no limit: a load that arrives at a fixed "
            "rate looks the same."
        )


def _ranges(top: int) -> list[tuple[int, int]]:
    """1 to `top` in at most eight ranges; the top stands alone, for a limit shows there."""
    parts = min(top, _MOST_LEVELS) - 1
    bounds = [1 + (top - 1) * part // parts for part in range(parts + 1)] if parts else [1]
    return [(low, high - 1) for low, high in pairwise(bounds)] + [(top, top)]


def _sessions(sessions: Sequence[SessionInFlight]) -> Iterator[Block]:
    """What SEQUENCE and CREATE_SESSION say, which is exact."""
    if not sessions:
        return
    yield Gap()
    yield table(sessions[:_MOST_ROWS], _SESSIONS)
    for one in sessions[:_MOST_ROWS]:
        if one.limited:
            yield Prose(f"Calls wait for a slot of session {shorten(one.session, 14)}.")
        if one.own_limit is not None:
            yield Prose(f"The client keeps to {large(one.own_limit)} slots of session {shorten(one.session, 14)}.")
    yield from _left_out(len(sessions), "session")


_SESSIONS = (
    Column("NFSv4.1 session", lambda one: shorten(one.session, 14) + (", callbacks" if one.callbacks else "")),
    *columns("count", "ops"),
    *columns("large", "slots_negotiated slots\ngranted", "target_slots slots\nwanted", "limit slots in\neffect"),
    *(*columns("large", "slots_used slots\nused"), *columns("share", "at_limit_share time with\nall in use")),
)


def _cap(cap: CapInFlight) -> str:
    others = "" if cap.others_median_ms is None else f", {ms(cap.others_median_ms)} ms on {_others(cap.others)}"
    word = "A per-connection limit is likely." if cap.likely else "That alone does not indicate a limit."
    return (
        f"Connection {cap.client}: {count(cap.level)} in flight for {percent(cap.level_share)} of its busy time, the "
        f"server closed its window {count_of(cap.zero_windows, 'time')} for {ms(cap.zero_window_ms)} ms; median server "
        f"SRT {ms(cap.median_ms)} ms{others}. {word}"
    )


def _others(number: int) -> str:
    return count_of(number, "other connection")


def _level(value: float) -> str:
    """Means of levels, and ops per second: one decimal where it tells something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
