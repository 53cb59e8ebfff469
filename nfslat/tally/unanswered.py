"""Calls that still waited for their replies when a capture ended, of one capture or of two that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from nfslat.answer import model
from nfslat.decode.waiting import LEAST_WAIT_NS, WaitingCalls, unread_until_ns, waiting_calls
from nfslat.model.protocol import MOUNT, NFS, NULL, PORTMAP, is_callback_program, op_name, program_name, version_name
from nfslat.model.record import Record
from nfslat.model.tables import I16, I64, Bool, State, endpoint
from nfslat.model.units import NS_PER_S, iso, to_ms
from nfslat.results import Analysis, Correlation, Side
from nfslat.select import Filters, op_labels
from nfslat.tally.sketch import Sketch
from nfslat.wire.transport import knows_tcp

MOST_ROWS = 10_000
_TO_MOUNT = (MOUNT, PORTMAP)  # without an answer of these nothing is mounted
# A call waits where none like it took nearly as long: so often the longest of its operation, and the 99th percentile
# of all.
_TIMES_LONGEST, _TIMES_QUANTILE, _PERCENT = 3, 10, 99
_LONGEST_NS = 3600 * NS_PER_S  # an hour: of a broken capture an operation may take decades, and no multiple of that


class Usual(Record, eq=False):
    """How long calls of NFS clients take: the longest by kind, and all of them; and `unread_until_ns`."""

    longest_ns: I64
    every: Sketch
    unread_ns: I64

    @classmethod
    def of(cls, side: Side) -> Self:
        """Selected ops of one capture, or of a block of it."""
        ops, rows = side.ops, np.flatnonzero(side.forward)
        srt_ns = np.clip(ops.t3[rows] - ops.t0[rows], 0, _LONGEST_NS)
        longest_ns = np.zeros(len(ops.kinds), dtype=np.int64)
        np.maximum.at(longest_ns, ops.kind[rows], srt_ns)
        return cls(longest_ns, Sketch.of(srt_ns), unread_until_ns(side.decoded))

    def __add__(self, later: Self) -> Self:
        """These, and those of a later block."""
        return type(self)(
            _latest(self.longest_ns, later.longest_ns, 0),
            Sketch.merge([self.every, later.every]),
            _latest(self.unread_ns, later.unread_ns, NULL),
        )

    def least_ns(self, kinds: I16) -> I64:
        """From when on a call of each of these kinds waits longer than is usual."""
        least_ns = np.full(len(kinds), LEAST_WAIT_NS, dtype=np.int64)
        if self.every.count:
            least_ns = np.maximum(least_ns, _TIMES_QUANTILE * self.every.quantile(_PERCENT))
            longest_ns = _latest(self.longest_ns, np.zeros(int(kinds.max(initial=0)) + 1, dtype=np.int64), 0)
            least_ns = np.maximum(least_ns, _TIMES_LONGEST * longest_ns[kinds])
        return least_ns


def _latest(one: I64, other: I64, nothing: int) -> I64:
    """The larger of both in each row, of which either may have more."""
    most = np.full(max(len(one), len(other)), nothing, dtype=np.int64)
    for some in (one, other):
        most[: len(some)] = np.maximum(most[: len(some)], some)
    return most


class UnansweredTally(Record, eq=False):
    """Groups of calls, the longest wait first; None where an engine does not say what TCP did. `usual` is of blocks:
    calls that wait come with the last one, and all tell how long a wait is long."""

    groups: Sequence[model.Unanswered] | None = ()
    usual: Usual | None = None

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, c: Side | Correlation, filters: Filters, before: Self | None = None) -> Self:
        """Calls of one capture, or of the client's of two; `before` are blocks before this one."""
        side, name = (c, "capture") if isinstance(c, Side) else (c.client, "client")
        if not knows_tcp(side.decoded):
            return cls(None)
        usual = before_ns = None
        if before is not None:
            usual = Usual.of(side)
            if before.usual is not None:
                usual, before_ns = before.usual + usual, before.usual.unread_ns
        calls = waiting_of(side, filters, usual, before_ns)
        there = None if isinstance(c, Side) else _There(c)
        loose = side.decoded.loose
        keys = loose.conn[calls.row].astype(np.int64) << 16 | loose.kind[calls.row].astype(np.int64)
        groups = [_group(side, name, calls.take(keys == key), there) for key in np.unique(keys)]
        return cls(_longest_first(groups), usual)

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        if self.groups is None or later.groups is None:
            return type(self)(None)
        return type(self)(_longest_first([*self.groups, *later.groups]), later.usual)

    def rows(self) -> list[model.Unanswered] | None:
        """A row for each group that is listed."""
        return None if self.groups is None else list(self.groups)


def waiting_of(
    side: Side, filters: Filters | None = None, usual: Usual | None = None, before_ns: I64 | None = None
) -> WaitingCalls:
    """Calls of NFS clients that `filters` leave, and that waited longer than is `usual`: that of the side itself, where
    no other is known. `before_ns`: as of `waiting_calls`."""
    d, filters = side.decoded, filters or Filters()
    files = () if d.directions is not None else side.source.files
    until_ns = max([d.last_ns, *(file.last_ns for file in files)])
    calls = waiting_calls(d, until_ns, before_ns=before_ns)
    if not len(calls.row):
        return calls
    least_ns = (usual or Usual.of(side)).least_ns(d.loose.kind[calls.row])
    return calls.take((calls.age_ns >= least_ns) & _are_asked_for(side, calls, filters))


def unfinished_share(c: Analysis) -> float:
    """Share of the time of all calls that those have which lack a reply when the capture ends, the client's if there
    is one. Where a part of the time is looked at, they have one later."""
    side = c.measured.get("client") or c.server
    if side.span_ns is not None or not knows_tcp(side.decoded):
        return 0.0
    calls = waiting_calls(side.decoded, side.decoded.last_ns, 0)
    waited_ns = int(calls.age_ns[_are_asked_for(side, calls, Filters())].sum())
    return waited_ns / max(waited_ns + int(c.client_srt_ns.sum()), 1)


def in_flight_at_end(side: Side) -> tuple[I64, I64] | None:
    """From when, and until when, calls without a reply are in flight; None where there are none, or where a part of the
    time is looked at."""
    if side.span_ns is not None:
        return None
    calls = waiting_of(side)
    loose = side.decoded.loose
    is_nfs = np.array([kind.program == NFS for kind in loose.kinds], dtype=np.bool_)
    calls = calls.take(is_nfs[loose.kind[calls.row]])
    return (calls.since_ns, np.full(len(calls.row), calls.until_ns)) if len(calls.row) else None


def _are_asked_for(side: Side, calls: WaitingCalls, filters: Filters) -> Bool:
    loose, first_ns = side.decoded.loose.take(calls.row), side.decoded.first_ns
    labels, servers = op_labels(loose.kinds), {server[0] for server in _servers(side)}
    asked = []
    for conn, way, kind in zip(loose.conn.tolist(), loose.direction.tolist(), loose.kind.tolist(), strict=True):
        program, ends = loose.kinds[kind].program, loose.connections[conn]
        client, server = ends.source(way), ends.destination(way)
        asked.append(
            (program == NFS or filters.all_programs or (program in _TO_MOUNT and server[0] in servers))
            and not is_callback_program(program)
            and (not filters.ops or labels[kind] in filters.ops)
            and (not filters.clients or client[0] in filters.clients)
            and (not filters.servers or server[0] in filters.servers)
            and (not filters.ports or server[1] in filters.ports)
        )
    mask = np.array(asked, dtype=np.bool_)
    if filters.start is not None:
        mask &= calls.since_ns >= filters.start.on_clock(first_ns)
    if filters.end is not None:
        mask &= calls.since_ns < filters.end.on_clock(first_ns)
    return mask


def _servers(side: Side) -> Iterable[tuple[str, int]]:
    """Who answers the side's ops."""
    ways = side.ops.ways(side.forward)
    return (side.ops.connections[way >> 1].destination(way & 1) for way in ways.tolist())


class _There:
    """The server's capture, where the client's shows calls without a reply."""

    def __init__(self, c: Correlation) -> None:
        self._links, self._side = c.matching.links, c.server.decoded
        self._last_ns = c.server.decoded.last_ns
        self._ahead_ns = c.clock.segments[-1].theta_ns if c.clock.fits else c.clock.rough_ns

    def shows(self, conn: int, xids: Iterable[int], since_ns: int) -> tuple[int, int] | None:
        """How many of the calls, and of replies to them; None where it has nothing of the connection, or had ended."""
        link = self._links.client[conn]
        if link == NULL or since_ns + self._ahead_ns > self._last_ns:
            return None
        wanted, ops, loose = np.array(list(xids)), self._side.ops, self._side.loose
        conns = np.flatnonzero(self._links.server == link)
        answered = np.isin(ops.xid, wanted) & np.isin(ops.conn, conns)
        calls = np.isin(loose.xid, wanted) & np.isin(loose.conn, conns) & (loose.state == State.NO_REPLY)
        replied = len(np.unique(ops.xid[answered]))
        return replied + len(np.unique(loose.xid[calls])), replied


def _group(side: Side, name: str, calls: WaitingCalls, there: _There | None) -> model.Unanswered:
    loose, ops = side.decoded.loose.take(calls.row), side.ops
    oldest = int(np.argmin(calls.since_ns))
    conn, way, kind = int(loose.conn[oldest]), int(loose.direction[oldest]), loose.kinds[loose.kind[oldest]]
    client, server = loose.connections[conn].source(way), loose.connections[conn].destination(way)
    since_ns = int(calls.since_ns[oldest])
    shown = None if there is None else there.shows(conn, loose.xid.tolist(), since_ns)
    if name == "capture" and side.source.bundle is not None and side.source.bundle.side == "server":
        shown = len(calls.row), 0
    later = np.flatnonzero(ops.t3 > since_ns)
    ways = [
        (ends.destination(way)[0] == server[0], ends.source(way)[0] != client[0])
        for ends in ops.connections
        for way in (0, 1)
    ]
    of_server, of_others = (np.array(column, dtype=np.bool_) for column in zip(*ways, strict=True))
    at = ops.conn[later].astype(np.int64) * 2 + ops.direction[later]
    return model.Unanswered(
        capture=name,
        program=program_name(kind.program),
        version=version_name(*kind[:3]),
        op=op_name(kind.program, kind.version, kind.op),
        client=endpoint(*client),
        server=endpoint(*server),
        calls=len(calls.row),
        since=iso(since_ns),
        longest_ms=to_ms(int(calls.age_ns[oldest])),
        total_ms=to_ms(int(calls.age_ns.sum())),
        sends=int(calls.sends[oldest]),
        last_sent=iso(int(calls.last_sent_ns[oldest])),
        xid=int(loose.xid[oldest]),
        frame=int(loose.first_frame[oldest]),
        acked=bool(calls.acked.all()),
        holed=bool(calls.holed.any()),
        arrived=None if shown is None else shown[0],
        replied=None if shown is None else shown[1],
        answered=int(np.count_nonzero(of_server[at])),
        answered_others=int(np.count_nonzero(of_server[at] & of_others[at])),
    )


def _longest_first(groups: Iterable[model.Unanswered]) -> tuple[model.Unanswered, ...]:
    return tuple(sorted(groups, key=lambda group: (-group.longest_ms, group.client, group.op))[:MOST_ROWS])
