"""Two decoded sides, the parts of their matched ops, and what was sent again -> what each op's time is charged to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import structs

from nfslat.decompose import PART_NAMES, Parts
from nfslat.model.blocks import each_block
from nfslat.model.causes import CAUSES, FROM_OUTSIDE, Cause, code
from nfslat.model.decoded import Decoded
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Ops
from nfslat.wire.charges.claims import Charges, Claims, Pair, charged
from nfslat.wire.charges.hosts import Pause, held_claims
from nfslat.wire.charges.losses import blocked_claims, overtaken_claims, waits_claims
from nfslat.wire.charges.places import PLACES, place
from nfslat.wire.charges.rate import Plateau, bandwidth_claims
from nfslat.wire.charges.sending import before_claims, sending_claims, socket_claims
from nfslat.wire.charges.silences import held_acks_ns, silences
from nfslat.wire.resends import Waits

NET = ("call_net", "reply_net")
_EDGE = 0.2  # of a stretch of time, at each end
_OTHERS = 0.1  # of its ops, where the stretch begins or ends a little beside a change
_FEW = 20
_SAME, _SAME_NS = 0.1, 500_000  # from the quickest trips to the median
_PIECES, _FLAT = 8, 0.05  # of a stretch, in each of which the quickest trip is the same, within that part of it


class Sum(NamedTuple):
    """Of some matched ops: what they are charged with."""

    ns: int
    ops: int  # that are charged with any of it


class Charged(Record, dict=True):
    """Of all matched ops. What `rare` holds and the distance together never exceed a part, and a negative one is
    charged with nothing; what is left is not explained. All exactly, in ns."""

    rare: Charges
    parts: Parts
    net_ns: dict[str, I64]  # call_net and reply_net of each matched op
    half_trips_ns: I64  # of each: distance, of each direction, as far as the rest of the part has room for it
    pauses: tuple[Pause, ...]
    plateaus: tuple[Plateau, ...]
    delayed_acks: dict[str, I64]  # part ("call_send", "reply_send") of whose sender: how long each ACK was held, ns

    @property
    def half_trip_ns(self) -> int:
        """The shortest."""
        return int(self.half_trips_ns.min())

    def distance_ns(self, part: str, at: slice | I64 = slice(None)) -> I64:
        """Of call_net or reply_net of the matched ops in rows `at`, the shortest time on the way."""
        (distance_ns,) = self._distances_ns(part, [at])
        return distance_ns

    def _distances_ns(self, part: str, blocks: Iterable[slice | I64]) -> Iterator[I64]:
        of_part, taken = self.rare.place == place(part), None
        if of_part.any():
            taken = np.zeros(len(self.net_ns[part]), dtype=np.int64)
            np.add.at(taken, self.rare.row[of_part], self.rare.ns[of_part])
        for at in blocks:
            left = np.minimum(self.net_ns[part][at], self.half_trips_ns[at])
            np.maximum(left, 0, out=left)
            if taken is not None:
                np.minimum(left, np.maximum(self.net_ns[part][at] - taken[at], 0), out=left)
            yield left

    def sums(self, rows: I64 | None = None) -> dict[tuple[str, Cause | None], Sum]:
        """For each (place, cause) with any, of the matched ops in `rows`, or of all; cause None: what no cause explains
        of a part (ops: all), which may be negative."""
        return self._of_all if rows is None else self._sums(rows)

    @cached_property
    def _of_all(self) -> dict[tuple[str, Cause | None], Sum]:
        return self._sums(None)

    def _sums(self, rows: I64 | None) -> dict[tuple[str, Cause | None], Sum]:
        rare = self.rare
        if rows is not None:
            rare = rare.only(np.isin(rare.row, rows))
        out: dict[tuple[str, Cause | None], Sum] = {}
        key = rare.place.astype(np.int64) * len(CAUSES) + rare.cause
        for one in np.unique(key).tolist():
            of_key = key == one
            where, cause = divmod(one, len(CAUSES))
            out[PLACES[where], CAUSES[cause]] = Sum(int(rare.ns[of_key].sum()), int(np.count_nonzero(of_key)))
        count = len(self.parts.matched) if rows is None else len(rows)
        for part in NET:
            blocks = each_block(count, lambda at: at if rows is None else rows[at])
            found = [(int(ns.sum()), int(np.count_nonzero(ns))) for ns in self._distances_ns(part, blocks)]
            if some := sum(ops for _, ops in found):
                out[part, Cause.DISTANCE] = Sum(sum(ns for ns, _ in found), some)
        for part, whole in zip(PART_NAMES, self._totals(rows), strict=True):
            explained = sum(one.ns for (where, _), one in out.items() if where == part)
            out[part, None] = Sum(whole - explained, count)
        return out

    def _totals(self, rows: I64 | None) -> list[int]:
        """Of each part, ns."""
        count = len(self.parts.matched) if rows is None else len(rows)

        def of_block(at: slice) -> I64:
            here = at if rows is None else rows[at]
            return np.array([part.sum() for part in self.parts.all_ns(here)], dtype=np.int64)

        return [int(one) for one in np.sum(each_block(count, of_block), axis=0)] if count else [0] * len(PART_NAMES)

    def in_socket_ns(self) -> I64 | None:
        """Of each matched op, what of its server part its reply may have waited in the server's socket; None: none."""
        of_reply = FROM_OUTSIDE - {Cause.BEHIND_LOSS, Cause.REORDERING}  # those two keep the call back
        rare = self.rare.only((self.rare.place == place("server")) & np.isin(self.rare.cause, [*map(code, of_reply)]))
        if not len(rare.row):
            return None
        out = np.zeros(len(self.parts.matched), dtype=np.int64)
        np.add.at(out, rare.row, rare.ns)
        return out

    def ns_of(self, causes: frozenset[Cause], rows: slice) -> I64:
        """Of each matched op in `rows`, what of its client SRT these causes made."""
        begin, end, _ = rows.indices(len(self.parts.matched))
        out = np.zeros(end - begin, dtype=np.int64)
        here = slice(*np.searchsorted(self.rare.row, [begin, end]).tolist())
        wanted = np.isin(self.rare.cause[here], [code(one) for one in causes])
        wanted &= self.rare.place[here] < len(PART_NAMES)
        np.add.at(out, self.rare.row[here][wanted] - begin, self.rare.ns[here][wanted])
        if Cause.DISTANCE in causes:
            out += sum(self.distance_ns(part, rows) for part in NET)
        return out


def charge(
    server: Decoded,
    client: Decoded,
    parts: Parts,
    waits: tuple[Waits, Waits],
    half_trips_ns: I64,
    *,
    numbers: I64 | None = None,
    of_a_stretch: bool = False,
) -> Charged:
    """What each matched op is charged with. Both sides must say what TCP did, and the clocks must fit.

    `half_trips_ns` is, of each pair of hosts, what the clocks leave room for; no op was faster than the distance,
    either, which needs no clock. `numbers`: the pair of each op, where there are several.
    `of_a_stretch`: the ops are of a part of the time, in which the path may be longer than the clocks know.
    """
    pair = Pair(parts.server, parts.client, parts.matched, parts.clock)
    of_client, of_server = silences(client, server), silences(server, client)
    # At its sender: of calls at the client, of replies at the server.
    sides = {"server": server, "client": client}
    if of_a_stretch:
        at = {"server": (parts.server, parts.matched.server), "client": (parts.client, parts.matched.client)}
        sides = {name: _loaded_then(side, *at[name]) for name, side in sides.items()}
    ways = {name: (_ways(side.ops, is_reply=False), _ways(side.ops, is_reply=True)) for name, side in sides.items()}
    of_client = of_client.only(np.isin(of_client.way, ways["client"][False]))
    of_server = of_server.only(np.isin(of_server.way, ways["server"][True]))
    net_ns = {part: parts.whole_ns(part) for part in NET}
    half_ns = _of_each(np.minimum(half_trips_ns, _least_ns(net_ns, len(half_trips_ns), numbers) // 2), numbers, parts)
    sent_again = waits_claims(pair, waits, of_client, of_server)
    lost = {part: waits[at].row for at, part in enumerate(NET)}
    in_socket, socket, in_front = socket_claims(pair, of_server, server.details.tcp)
    at_rate, plateaus = bandwidth_claims(pair, net_ns, sides, half_ns, lost, socket)
    # A queue that never empties would be taken for a long path.
    if of_a_stretch and not plateaus:
        longer_ns = [_of_stretch_ns(parts, net_ns, mine) for mine in _each_pair(len(half_trips_ns), numbers)]
        longer = np.maximum(half_ns, _of_each(np.array(longer_ns, dtype=np.int64), numbers, parts))
        if (longer > half_ns).any():
            half_ns = longer
            at_rate, plateaus = bandwidth_claims(pair, net_ns, sides, half_ns, lost, socket)
    held, pauses = held_claims(pair, net_ns, sides, half_ns, lost, ways)
    claims = Claims.joined(
        [
            sent_again,
            blocked_claims(pair, server, client),
            overtaken_claims(pair, server, client, waits, half_ns),
            held,
            sending_claims(pair, of_client, of_server),
            in_socket,
            before_claims(pair, of_client),
            at_rate,
        ]
    )
    delayed_acks = {"call_send": held_acks_ns(of_client), "reply_send": held_acks_ns(of_server)}
    return Charged(charged(claims, pair, in_front), parts, net_ns, half_ns, pauses, plateaus, delayed_acks)


def _loaded_then(side: Decoded, ops: Ops, rows: I32) -> Decoded:
    """With what was carried while these ops ran: at another time the path may have carried more."""
    begin_ns, end_ns = int(ops.t0[rows].min()), int(ops.t3[rows].max())
    loads, others = side.details.loads, side.details.others
    loads = loads.take((loads.begin_ns >= begin_ns) & (loads.begin_ns < end_ns))
    others = others.take((others.begin_ns >= begin_ns) & (others.begin_ns < end_ns))
    return structs.replace(side, details=structs.replace(side.details, loads=loads, others=others))


def _of_each(of_pair: I64, numbers: I64 | None, parts: Parts) -> I64:
    """Of each op what its pair has; of one pair without memory for it."""
    return np.broadcast_to(of_pair[0], len(parts.matched)) if numbers is None else of_pair[numbers]


def _each_pair(count: int, numbers: I64 | None) -> Iterator[slice | I64]:
    """The ops of each."""
    if numbers is None:
        yield slice(None)
        return
    order, ends = np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers, minlength=count))
    yield from np.split(order, ends[:-1])


def _least_ns(net_ns: dict[str, I64], count: int, numbers: I64 | None) -> I64:
    """The shortest way there and back of an op of each of `count` pairs."""
    there, back = (net_ns[part] for part in NET)
    if numbers is None:
        return np.array([max(min(each_block(len(there), lambda at: int((there[at] + back[at]).min()))), 0)])
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, numbers, there + back)
    return least.clip(0)


def _of_stretch_ns(parts: Parts, net_ns: dict[str, I64], mine: slice | I64) -> int:
    """Half of the round trip that these ops of a stretch of time have in common; 0 where they have none.

    Its ends are not exact, so the middle counts, unless more than a few ops at the ends took another way: then the path
    changed within the stretch. A path's length is the same for all; a queue's comes and goes. Where most wait for
    something else as well, the quickest of each piece are as long.
    """
    begin_ns = parts.client.t0[parts.matched.client[mine]]
    first, last = int(begin_ns.min()), int(begin_ns.max())
    edge_ns = int(_EDGE * (last - first))
    middle = (begin_ns >= first + edge_ns) & (begin_ns <= last - edge_ns)
    if np.count_nonzero(middle) < _FEW:
        return 0
    every = net_ns[NET[0]][mine] + net_ns[NET[1]][mine]
    trips = every[middle]
    low, usual = np.percentile(trips, [5, 50])
    room = max(_SAME * low, _SAME_NS)
    quickest = np.array([int(piece.min()) for piece in np.array_split(trips, _PIECES)])
    is_flat = len(trips) >= _PIECES * _FEW and np.ptp(quickest) <= _FLAT * quickest.min()
    is_common = (usual - low <= room or is_flat) and np.mean(every < low - room) <= _OTHERS
    return max(int(trips.min()), 0) // 2 if is_common else 0


def _ways(ops: Ops, *, is_reply: bool) -> I64:
    """Connection times 2, plus direction, of all calls, or of all replies."""
    return np.unique(ops.classes.conn * 2 + (ops.classes.direction ^ is_reply))
