"""What calls asked for, how long replies are, and the packets that cannot be read -> sizes of the replies in these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NULL32, op_name
from nfslat.model.tables import I64, U32, Kind, Loose, Ops, State
from nfslat.wire.unseen_fit import Rows, Waiting

_SHORTEST = 28  # bytes of a reply: mark, XID, direction, status, verifier, accept_stat (RFC 5531 section 9)
_READ_AROUND = 48  # bytes of a READ's reply beside its data, without attributes (RFC 1813 section 3.3.6)
_LONGEST = 1 << 20
_ENOUGH = 5  # replies of a kind that tell how long they are
_ALIKE = 0.99  # of the READs of a connection that have one size
_FITS = 0.02  # of a READ's reply: so far the bytes may be off from a number of replies
_MOST_SIZES = 32  # that are told apart


class Sizes(NamedTuple):
    """Of each kind of call, how many bytes its reply has, at least and at most; of a READ beside the data."""

    of_kind: Mapping[int, tuple[int, int]]
    rare: Mapping[int, tuple[int, int]]  # the same of those that too few replies tell
    reads: frozenset[int]  # kinds
    cut: Mapping[int, int]  # of READs some replies to which have less data than was asked for: bytes of the shortest
    named: Mapping[int, tuple[int, int]]  # of READs of which only some show it: what they ask for, least and most
    asked: U32  # of each call without a reply, in the order of `Loose`; as `Ops.size`

    @classmethod
    def of_replies(cls, decoded: Decoded) -> Sizes:
        """As the replies that can be read say."""
        table = decoded.details.replies
        rows = zip(table.kind.tolist(), table.count.tolist(), table.least.tolist(), table.most.tolist(), strict=True)
        kinds = decoded.ops.kinds
        reads = frozenset(at for at, kind in enumerate(kinds) if _is_read(kind))
        found = {kind: (count, (least, most)) for kind, count, least, most in rows}
        named = {}
        for kind in reads & found.keys():
            asked = decoded.ops.size[decoded.ops.kind == kind]
            if len(shown := np.unique(asked[asked != NULL32]).tolist()) and (asked == NULL32).any():
                count, size = found[kind]
                found[kind], named[kind] = (count, _around(*size, shown)), (shown[0], shown[-1])
        often, rare = (
            {kind: size for kind, (count, size) in found.items() if (count >= _ENOUGH) == enough}
            for enough in (True, False)
        )
        at_end = zip(table.kind.tolist(), table.short.tolist(), table.least.tolist(), strict=True)
        cut = {kind: least for kind, short, least in at_end if kind in reads and short}
        return cls(often, rare, reads, cut, named, _asked(decoded))

    def reply(self, kind: int, size: int) -> tuple[int, int]:
        """Bytes of a reply to a call of `kind` that names `size` bytes (NULL32: none), at least and at most."""
        is_read = kind in self.reads and size != NULL32
        return self._with(kind, size, self.of_kind.get(kind, (_READ_AROUND if is_read else _SHORTEST, _LONGEST)))

    def _with(self, kind: int, size: int, around: tuple[int, int]) -> tuple[int, int]:
        least, most = around
        if kind in self.reads and size != NULL32:
            return least + size, most + size
        if kind in self.named and kind in self.of_kind:
            return least + self.named[kind][0], most + self.named[kind][1]
        return least, most

    def of_kinds(self, seen: Ops) -> set[tuple[int, int]]:
        """Those of the replies to the kinds of call that `seen` has."""
        out = set()
        for kind in np.unique(seen.kind).tolist():
            if (around := self.of_kind.get(kind) or self.rare.get(kind)) is not None:
                asked = np.unique(seen.size[seen.kind == kind]).tolist() if kind in self.reads else [NULL32]
                least = self.cut.get(kind, _LONGEST)
                out |= {(min(size[0], least), size[1]) for size in (self._with(kind, one, around) for one in asked)}
        return out


def _around(least: int, most: int, asked: Sequence[int]) -> tuple[int, int]:
    """What READs' replies have beside the data, where some calls do not show what they `asked` for: the replies to
    those count with their data, so that the most bytes are of one of them."""
    data = max((size for size in asked if size <= most - least), default=0)
    return least, most - data


def _is_read(kind: Kind) -> bool:
    return op_name(kind.program, kind.version, kind.op) == "READ"


def _asked(decoded: Decoded) -> U32:
    loose, calls = decoded.loose, decoded.details.unanswered
    out = np.full(len(loose), NULL32, dtype=np.uint32)
    rows = np.flatnonzero(loose.state == State.NO_REPLY)
    if len(rows) == len(calls):
        rows = rows[np.lexsort((loose.xid[rows], loose.first_frame[rows], loose.conn[rows]))]
        out[rows] = calls.size[np.lexsort((calls.xid, calls.frame, calls.conn))]
    return out


def waiting_of(
    sizes: Sizes, seen: Ops, loose: Loose, calls: I64, called_ns: I64, gaps_ns: I64, packets: Rows
) -> list[Waiting]:
    """Calls whose replies are not seen, by the size of these. `seen` are the ops of the same connection.

    `calls` are rows of `loose`, sent at `called_ns`; of those that were sent at `gaps_ns` nothing else is known. What
    they asked for may show in the bytes that the others leave.
    """
    each = [
        sizes.reply(kind, size)
        for kind, size in zip(loose.kind[calls].tolist(), sizes.asked[calls].tolist(), strict=True)
    ]
    of_size: dict[tuple[int, int], list[int]] = {}
    for size, at in zip(each, called_ns.tolist(), strict=True):
        of_size.setdefault(size, []).append(at)
    if len(gaps_ns):
        gaps = np.sort(gaps_ns).tolist()
        split = _split(sizes, seen, len(gaps), int(packets.bytes.sum()) - sum(least for least, _ in each))
        for size, count in split:
            of_size.setdefault(size, []).extend(gaps[:count])
    while len(of_size) > _MOST_SIZES:
        of_size = _coarser(of_size)
    return [Waiting(np.array(at, dtype=np.int64), *size) for size, at in of_size.items()]


def lengths_of(sizes: Sizes, seen: Ops, waiting: Sequence[Waiting], *, any_of: bool) -> list[tuple[int, int]]:
    """Bytes that replies can have, at least and at most: those of the calls that are known, and, with `any_of`, those
    of all kinds of call that the connection shows, for nobody knows what the others asked for."""
    known = {(one.least, one.most) for one in waiting if (one.least, one.most) != (_SHORTEST, _LONGEST)}
    return sorted(known | sizes.of_kinds(seen) if any_of or sizes.cut else known)


def _split(sizes: Sizes, seen: Ops, count: int, bytes_left: int) -> list[tuple[tuple[int, int], int]]:
    """Sizes of `count` replies with `bytes_left` bytes to calls of which nothing is known, and how many have each.

    READs of one size, and the most frequent other operation; where these do not make just so many bytes, any size.
    """
    read = np.isin(seen.kind, list(sizes.reads))
    asked = seen.size[read]
    other = np.bincount(seen.kind[~read], minlength=1)
    large = small = None
    if len(asked) and np.count_nonzero(asked == (size := int(np.median(asked)))) >= _ALIKE * len(asked):
        large = sizes.reply(int(seen.kind[read][0]), size)
    if other.any():
        small = sizes.reply(int(other.argmax()), NULL32)
    if large is not None:
        around = _FITS * large[0]
        if abs(bytes_left - count * large[0]) <= around:
            return [(large, count)]
        if small is not None and small[0] < large[0]:
            many = round((bytes_left - count * small[0]) / (large[0] - small[0]))
            if 0 <= many <= count and abs(bytes_left - many * large[0] - (count - many) * small[0]) <= around:
                return [(large, many), (small, count - many)]
    elif small is not None and abs(bytes_left - count * small[0]) <= _FITS * small[0]:
        return [(small, count)]
    return [((_SHORTEST, _LONGEST), count)]


def _coarser(of_size: dict[tuple[int, int], list[int]]) -> dict[tuple[int, int], list[int]]:
    """Sizes that are near each other as one: with the least bytes of any, and the most."""
    sizes = sorted(of_size)
    out: dict[tuple[int, int], list[int]] = {}
    for one, other in zip(sizes[::2], [*sizes[1::2], None], strict=False):
        both = [one] if other is None else [one, other]
        size = min(least for least, _ in both), max(most for _, most in both)
        out.setdefault(size, []).extend(at for key in both for at in of_size[key])
    return out
