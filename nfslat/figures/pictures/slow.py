"""The slowest matched ops -> what is known of each: its parts, what its time is charged to, and its packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nfslat.answer.pictures import Moment, SlowOp
from nfslat.decompose import PART_NAMES
from nfslat.figures.op_view import OpView, Packet, packets
from nfslat.figures.op_view import place as gather
from nfslat.figures.pictures.bins import Bins
from nfslat.figures.pictures.pieces import pieces_of
from nfslat.figures.wireshark import of_side
from nfslat.model.causes import CAUSES, Cause
from nfslat.model.details import Again
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import I64, endpoint
from nfslat.model.units import iso, to_ms, to_s
from nfslat.results import Analysis, Side
from nfslat.tally.keys import names_of
from nfslat.tally.stats import longest
from nfslat.wire.charges.places import BEFORE, PLACES, place
from nfslat.wire.reconnects import without_connection

if TYPE_CHECKING:
    from nfslat.names.paths import Paths

Charged = dict[tuple[str, str], int]  # part and cause -> ns

_NEEDS_THETA = ("call_net", "reply_net")
_AGAIN = {Again.REPEATED: "bytes retransmitted", Again.LATE: "bytes that come late"}


def slow_ops(c: Analysis, bins: Bins, count: int, paths_of: Callable[[I64], Paths] | None) -> list[SlowOp]:
    """The `count` matched ops with the longest client SRT, slowest first; all where there are fewer."""
    rows = longest(c.client_srt_ns, count)
    charges = _charges_ns(c, rows)
    paths = None if paths_of is None else paths_of(rows)
    known = zip(rows.tolist(), charges, _unconnected_ns(c, rows), strict=True)
    return [_slow_op(c, row, charged, unconnected, bins, paths) for row, charged, unconnected in known]


def _unconnected_ns(c: Analysis, rows: I64) -> list[int]:
    """Of each of the matched ops in `rows`, for how long of it its client had no connection to send it on."""
    side, at = c.client, c.matched.client[rows]
    ops, tcp = side.ops, side.decoded.details.tcp
    conn, since, until = without_connection(ops, side.decoded.loose, tcp, side.forward)
    gone = list(zip(conn.tolist(), since.tolist(), until.tolist(), strict=True))
    known = zip(ops.conn[at].tolist(), ops.t0[at].tolist(), ops.t3[at].tolist(), strict=True)
    return [
        sum(max(min(end, last) - max(begin, first), 0) for of, begin, end in gone if of == own)
        for own, first, last in known
    ]


def _slow_op(
    c: Analysis, row: int, charges_ns: Charged, unconnected_ns: int, bins: Bins, paths: Paths | None
) -> SlowOp:
    op = gather(c, row)
    client_row, server_row = int(c.matched.client[row]), int(c.matched.server[row])
    client = op.sides["client"]
    program, name, version = names_of(c.client.ops.kinds[c.kind[row]][:4])
    sent_again = {"client": _sent_again(c.client, client_row), "server": _sent_again(c.server, server_row)}
    load = c.inflight.load
    queue_ns = NULL if load.threads.cannot else int(load.queue_ns[server_row])
    # A wait of 0 that nobody looked for is none: where no call waits, how many threads there are is not known.
    waited_ns = queue_ns if queue_ns > 0 or (queue_ns == 0 and load.queue_ns.any()) else None
    parts = dict(zip(PART_NAMES, op.parts, strict=True))
    return SlowOp(
        program=program,
        op=name,
        version=version,
        xid=f"0x{op.xid:08x}",
        client=endpoint(*client.client_end),
        server=endpoint(*client.server_end),
        uid=_uid(c, client_row, server_row),
        path=None if paths is None or paths.of_op[row] == NULL else paths.texts[paths.of_op[row]],
        offset=None if op.offset == NULL else op.offset,
        bytes=None if op.size == NULL else op.size,
        at=iso(client.call.first_ns),
        at_s=to_s(client.call.first_ns - bins.begin_ns),
        client_ms=to_ms(op.client_srt_ns),
        server_ms=to_ms(op.server_srt_ns),
        network_ms=to_ms(op.client_srt_ns - op.server_srt_ns),
        parts_ms={part: to_ms(ns) if c.clock.fits or part not in _NEEDS_THETA else None for part, ns in parts.items()},
        queue_ms=None if queue_ns == NULL else to_ms(queue_ns),
        charges_ms=_by_cause(charges_ns),
        pieces=pieces_of(op.parts, charges_ns, waited_ns, split=c.clock.fits, unconnected_ns=unconnected_ns),
        transmissions=client.transmissions,
        timeline=_timeline(op, sent_again),
        wireshark={
            key: text
            for side, again in sent_again.items()
            if side in c.measured  # what was inferred has no packets
            for key, text in of_side(op.sides[side], side, [frame for frame, *_ in again]).items()
        },
    )


_Again = tuple[int, int, bool, str]  # frame, ns on the side's clock, of the reply, what


def _sent_again(side: Side, row: int) -> list[_Again]:
    """Segments with bytes of the op in row `row` that TCP sent again, or that came late."""
    resent = side.decoded.details.resent
    here = slice(*np.searchsorted(resent.op, [row, row + 1]).tolist())
    columns = (getattr(resent, name)[here].tolist() for name in ("frame", "t_ns", "is_reply", "kind"))
    return [
        (frame, ns, bool(is_reply), _AGAIN[Again(kind)]) for frame, ns, is_reply, kind in zip(*columns, strict=True)
    ]


def _timeline(op: OpView, sent_again: dict[str, list[_Again]]) -> list[Moment]:
    """Its packets as `nfslat show` has them, and those of `_sent_again`, by time."""
    begin_ns = op.sides["client"].call.first_ns
    found = packets(op)
    for side, again in sent_again.items():
        for frame, ns, is_reply, what in again:
            since_ns = (op.on_client(ns) if side == "server" else ns) - begin_ns
            found.append(Packet(since_ns, side, frame, is_reply, f"{'reply' if is_reply else 'call'}, {what}"))
    out = []
    for packet in sorted(found, key=lambda one: one.ns):
        file, number = op.sides[packet.side].source.locate(packet.frame)
        out.append(Moment(to_ms(packet.ns), packet.side, packet.what, number, file.name))
    return out


def _uid(c: Analysis, client_row: int, server_row: int) -> int | None:
    """On whose behalf, as the client's capture shows it, else the server's."""
    for side, row in ((c.client, client_row), (c.server, server_row)):
        uids = side.decoded.details.callers.uid
        if len(uids) and uids[row] != NULL32:
            return int(uids[row])
    return None


def _charges_ns(c: Analysis, rows: I64) -> list[Charged]:
    """Of each of the matched ops in `rows`, what of each part of its client SRT each cause made; none that is 0."""
    charges = c.charges
    if charges is None:
        return [{} for _ in rows]
    rare, distances = charges.rare, {part: charges.distance_ns(part, rows).tolist() for part in _NEEDS_THETA}
    out = []
    for number, row in enumerate(rows.tolist()):
        here = slice(*np.searchsorted(rare.row, [row, row + 1]).tolist())
        columns = (getattr(rare, name)[here].tolist() for name in ("place", "cause", "ns"))
        found: Charged = Counter()
        for where, cause, ns in zip(*columns, strict=True):
            if where < place(BEFORE):
                found[PLACES[where], CAUSES[cause].value] += ns
        for part, of_rows in distances.items():
            found[part, Cause.DISTANCE.value] += of_rows[number]
        out.append({key: ns for key, ns in found.items() if ns})
    return out


def _by_cause(charges_ns: Charged) -> dict[str, float]:
    """Of all parts together, in the order of the causes."""
    sums: dict[str, int] = Counter()
    for (_, cause), ns in charges_ns.items():
        sums[cause] += ns
    return {cause.value: to_ms(sums[cause.value]) for cause in CAUSES if sums[cause.value]}
