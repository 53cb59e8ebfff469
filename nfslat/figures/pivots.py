"""An `Analysis` -> its matched ops grouped by what the user asks for (``--by``): `PivotSums`, and a `Pivot` of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from nfslat.answer.figures import figures_of
from nfslat.answer.pivots import Pivot, PivotRow
from nfslat.errors import UsageError
from nfslat.figures.matched import begins_ns
from nfslat.figures.op_columns import Labels, Paths, numbers_of
from nfslat.model.blocks import filled
from nfslat.model.protocol import DATA_OPS, NFS, NULL
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Kind, endpoint
from nfslat.model.units import NS_PER_S, iso, to_s
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.tally.columns import OpColumns
from nfslat.tally.durations import CLIENT, NETWORK, SERVER, SIDES
from nfslat.tally.keys import Grouping
from nfslat.tally.ops import MOVED, TIMES, WAITS, OpFigures, OpSums

MOST_ROWS = 1000  # beyond them groups are put together
NOT_KNOWN = "not known"
_MB = 1e6
_KIB = 1024
_SIZES = tuple(_KIB << power for power in range(2, 11))  # 4K to 1M, as rsize, wsize and block sizes are given
_SIZE_NAMES = (*(f"{size // _KIB}K" for size in _SIZES[:-1]), "1M", "more", NOT_KNOWN)
# NFSv4.1 operations that need no SEQUENCE (RFC 8881 section 2.10.6.1, and 18.37, 18.50): NULL, BIND_CONN_TO_SESSION,
# EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID.
_WITHOUT_SESSION = frozenset((0, 41, 42, 43, 44, 57))
_NO_SIZE = len(DATA_OPS) * len(_SIZE_NAMES)  # behind the classes: the group of other operations
_MOST_GROUPS = 8 * MOST_ROWS  # groups of several blocks, of which some 4 KB each
_OTHERS_KEY = ("",)  # is no key of a group
Groups = tuple[I32, Sequence[Any]]  # which group each matched op is in, and the key of each


class PivotSums(Record, eq=False):
    """Matched ops in groups, which `sums` has by their keys; of two that are joined, `begin_ns` is that of the first.

    `others` are keys of groups that were put together, in one whose key is `_OTHERS_KEY`: those with least time where
    parts that are joined have more than `_MOST_GROUPS` groups.
    """

    by: str
    begin_ns: int  # first call and last reply of all, client's clock
    end_ns: int
    sums: OpSums
    others: frozenset[Hashable] = frozenset()

    @classmethod
    def of(cls, c: Analysis, by: str, paths: Paths | None = None, begin_ns: int | None = None) -> Self:
        """A block that has matched ops, behind the first, which began at `begin_ns`; `paths` as of `pivot_of`."""
        begin_ns = int(begins_ns(c).min()) if begin_ns is None else begin_ns
        end_ns = filled(len(c.matched), np.int64, lambda at: c.client.ops.t3[c.matched.client[at]]).max()
        of_op, keys = _GROUPINGS[by].group(c, paths, begin_ns)
        what = (TIMES, WAITS, MOVED)
        return cls(by, begin_ns, int(end_ns), OpSums.of(OpColumns.of(c), Grouping(of_op, keys), what, SIDES))

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        sums, others = (self.sums + later.sums).bounded(), self.others | later.others
        if len(sums.labels) > _MOST_GROUPS:
            kept = set(_most_time(sums, _MOST_GROUPS // 2))
            others |= {key for key in sums.labels if key not in kept and key != _OTHERS_KEY}
            sums = sums.by(lambda key: key if key in kept else _OTHERS_KEY)
        return type(self)(self.by, self.begin_ns, max(self.end_ns, later.end_ns), sums, others)

    def pivot(self) -> Pivot:
        """A row for each of up to `MOST_ROWS` groups, and one for all others together."""
        in_order = _GROUPINGS[self.by].in_order
        keys: list[Any] = [key for key in self.sums.labels if key != _OTHERS_KEY]
        there = len(keys) + len(self.others.difference(keys))
        if self.by == "second" and not self.others and max(keys) < MOST_ROWS:
            keys = list(range(max(keys) + 1))
            there = len(keys)
        if there > MOST_ROWS:
            keys = _most_time(self.sums, MOST_ROWS)
        elif not in_order:
            keys = _most_time(self.sums, len(keys))
        keys = sorted(keys) if in_order else keys
        names, count = _GROUPINGS[self.by].names(keys, self.sums.labels, self.begin_ns), there - len(keys)
        places = {key: at for at, key in enumerate([*keys, *([_OTHERS_KEY] if count else [])])}
        rows = self.sums.placed(places, lambda key: key if key in places else _OTHERS_KEY).rows()
        each_s = 1.0 if self.by == "second" else None
        lasts_s = to_s(self.end_ns - self.begin_ns)
        made = [_row(row, name, each_s or lasts_s) for row, name in zip(rows, names, strict=False)]
        others = _row(rows[-1], f"{count:,} others", each_s * count if each_s else lasts_s) if count else None
        return Pivot(self.by, there, made, others)


def pivot_of(c: Analysis, by: str, paths: Paths | None = None) -> Pivot:
    """The matched ops grouped by `by`, one of ``BY``; `paths` names the files, else they go by their handles.

    Up to ``MOST_ROWS`` groups have a row, those with most time of the client; rows and `others` sum to the matched
    ops. Raises ``UsageError`` where there is no such grouping.
    """
    refuse_unknown(by)
    return PivotSums.of(c, by, paths).pivot() if len(c.matched) else Pivot(by, 0, [], None)


def refuse_unknown(by: str) -> None:
    """Raise ``UsageError`` where there is no such grouping."""
    if by not in _GROUPINGS:
        raise UsageError(f"--by {by}: there is no such grouping; take one of {', '.join(BY)}")


def sizes_of(c: Analysis) -> I64:
    """Bytes that each matched op moves, as `OpColumns.sizes`."""
    sizes = OpColumns.of(c).sizes
    return np.zeros(0, dtype=np.int64) if sizes is None else filled(len(c.matched), np.int64, sizes)


def _most_time(sums: OpSums, most: int) -> list[Hashable]:
    """The keys of so many groups, those with most time of the client first."""
    order = np.argsort(-sums.sums["client_ns"], kind="stable").tolist()
    return [key for key in (sums.labels[at] for at in order) if key != _OTHERS_KEY][:most]


def _row(row: OpFigures, name: str, lasts_s: float) -> PivotRow:
    return PivotRow(
        key=name,
        ops=row.count,
        bytes=row.bytes,
        without_size=row.sum("without_size"),
        mb_per_s=None if row.bytes is None or not lasts_s else row.bytes / _MB / lasts_s,
        client_ms=row.summary(CLIENT),
        server_ms=row.summary(SERVER),
        network_ms=row.summary(NETWORK),
        **figures_of(row),
    )


def _by_value(values: I64) -> tuple[I32, list[int]]:
    """A group for each different one of `values`."""
    keys, of_op = np.unique(values, return_inverse=True)
    return of_op.astype(np.int32), keys.tolist()


def _by_key(numbers: I64, keys: Sequence[Hashable]) -> Groups:
    """A group for each different key; several of the `numbers`, which are rows of `keys`, may have the same."""
    groups = {key: at for at, key in enumerate(dict.fromkeys(keys[at] for at in np.unique(numbers).tolist()))}
    of_number = np.array([groups.get(key, 0) for key in keys], dtype=np.int32)
    return filled(len(numbers), np.int32, lambda at: of_number[numbers[at]]), list(groups)


def _by_size(c: Analysis, _: Paths | None, __: int) -> Groups:
    """READs, then WRITEs, by class: a mean over both would be that of neither."""
    sizes = sizes_of(c)
    classes = np.searchsorted(np.array(_SIZES), sizes, side="left")
    classes[sizes == NULL] = _SIZE_NAMES.index(NOT_KNOWN)
    labels = op_labels(c.client.ops.kinds)
    begins = [DATA_OPS.index(one) * len(_SIZE_NAMES) if one in DATA_OPS else _NO_SIZE for one in labels]
    return _by_value(np.minimum(np.array(begins, dtype=np.int64)[c.kind] + classes, _NO_SIZE))


def _size_names(keys: Sequence[int], _: Sequence[Any], __: int) -> list[str]:
    return [
        "other ops" if key == _NO_SIZE else f"{DATA_OPS[key // len(_SIZE_NAMES)]} {_SIZE_NAMES[key % len(_SIZE_NAMES)]}"
        for key in keys
    ]


def _ways(c: Analysis) -> I64:
    """Row of `Labels.of_client`."""
    ops = c.client.ops

    def make(at: slice) -> I64:
        rows = c.matched.client[at]
        return ops.conn[rows].astype(np.int64) * 2 + ops.direction[rows]

    return filled(len(c.matched), np.int64, make)


def _by_client(c: Analysis, _: Paths | None, __: int) -> Groups:
    return _by_key(_ways(c), [str(address) for address in Labels(c, None).of_client.client])


def _by_server(c: Analysis, _: Paths | None, __: int) -> Groups:
    return _by_key(_ways(c), [str(address) for address in Labels(c, None).of_client.server])


def _by_connection(c: Analysis, _: Paths | None, __: int) -> Groups:
    ends = Labels(c, None).of_client
    clients = [endpoint(*end) for end in zip(ends.client, ends.client_port, strict=True)]
    servers = [endpoint(*end) for end in zip(ends.server, ends.server_port, strict=True)]
    return _by_key(_ways(c), list(zip(clients, servers, strict=True)))


def _connection_names(keys: Sequence[tuple[str, str]], every: Sequence[Any], _: int) -> list[str]:
    several = len({key[1] for key in every if key != _OTHERS_KEY}) > 1
    return [f"{client} to {server}" if several else client for client, server in keys]


def _by_file(c: Analysis, paths: Paths | None, _: int) -> Groups:
    """By path and how many others are called so; by handle, where there is no path."""
    labels = Labels(c, paths)
    path, handle = (numbers_of(c, labels, paths, name) for name in ("path", "fh_crc32"))
    names = len(labels.paths)
    # Paths, then handles without one; NULL, where there is neither, stays.
    of_op, values = _by_value(np.where(path != NULL, path, np.where(handle != NULL, handle + names, NULL)))
    alike: Counter[str] = Counter()
    keys: list[Hashable] = []
    for value in values:
        text = (
            labels.paths[value] if 0 <= value < names else NOT_KNOWN if value == NULL else f"fh 0x{value - names:08x}"
        )
        keys.append((text, alike[text]))
        alike[text] += 1
    return of_op, keys


def _by_uid(c: Analysis, _: Paths | None, __: int) -> Groups:
    return _by_value(numbers_of(c, Labels(c, None), None, "uid"))


def _uid_names(keys: Sequence[int], _: Sequence[Any], __: int) -> list[str]:
    return [NOT_KNOWN if key == NULL else str(key) for key in keys]


def _by_second(c: Analysis, _: Paths | None, begin_ns: int) -> Groups:
    return _by_value(np.maximum(begins_ns(c) - begin_ns, 0) // NS_PER_S)


def _second_names(keys: Sequence[int], _: Sequence[Any], begin_ns: int) -> list[str]:
    return [iso(begin_ns + key * NS_PER_S) for key in keys]


def _by_slot(c: Analysis, _: Paths | None, __: int) -> Groups:
    """By session (NULL: not known) and slot; NULL as a slot is not known, one less none at all."""
    labels = Labels(c, None)
    session, slot = (numbers_of(c, labels, None, name) for name in ("session", "slot"))
    has_none = np.array([_is_without_session(kind) for kind in c.client.ops.kinds], dtype=np.bool_)
    # Sessions count from 0, an unknown one is -1.
    values = np.where(slot != NULL, (session + 1) << 32 | slot, np.where(has_none[c.kind], NULL - 1, NULL))
    of_op, numbers = _by_value(values)
    names = (NOT_KNOWN, *labels.sessions)
    return of_op, [(None, value) if value < 0 else (names[value >> 32], value & 0xFFFFFFFF) for value in numbers]


def _slot_names(keys: Sequence[tuple[str | None, int]], every: Sequence[Any], _: int) -> list[str]:
    several = len({key[0] for key in every if key != _OTHERS_KEY and key[0] is not None}) > 1
    return [
        (NOT_KNOWN if slot == NULL else "no slot")
        if session is None
        else (f"{slot} of session {session}" if several else str(slot))
        for session, slot in keys
    ]


def _is_without_session(kind: Kind) -> bool:
    if kind.program != NFS or 0 <= kind.version < 4 or kind.minor == 0:
        return True
    return kind.op in _WITHOUT_SESSION


class _By(NamedTuple):
    """A block's group of each matched op and the keys of the groups, and how groups are called: `names` gets the keys
    that have a row, those of all groups, and when the first began."""

    group: Callable[[Analysis, Paths | None, int], Groups]
    names: Callable[[Sequence[Any], Sequence[Any], int], list[str]]
    in_order: bool = False  # of their keys; else those with most time of the client first


def _as_they_are(keys: Sequence[str], _: Sequence[Any], __: int) -> list[str]:
    return list(keys)


_GROUPINGS = {
    "size": _By(_by_size, _size_names, in_order=True),
    "client": _By(_by_client, _as_they_are),
    "server": _By(_by_server, _as_they_are),
    "connection": _By(_by_connection, _connection_names),
    "file": _By(_by_file, lambda keys, _, __: [text for text, _alike in keys]),
    "uid": _By(_by_uid, _uid_names),
    "second": _By(_by_second, _second_names, in_order=True),
    "slot": _By(_by_slot, _slot_names),
}
BY = tuple(_GROUPINGS)
