"""An `Analysis` -> its matched ops grouped by what the user asks for (``--by``): a `Pivot`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nfslat.answer.figures import figures_of
from nfslat.answer.pivots import Pivot, PivotRow
from nfslat.errors import UsageError
from nfslat.figures.matched import begins_ns
from nfslat.figures.op_columns import COLUMNS, Block, Labels, Paths
from nfslat.model.blocks import filled
from nfslat.model.protocol import DATA_OPS, NFS, NULL
from nfslat.model.tables import I32, I64, Kind, endpoint
from nfslat.model.units import NS_PER_S, iso, to_s
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.tally.columns import OpColumns
from nfslat.tally.durations import CLIENT, NETWORK, SERVER, SIDES
from nfslat.tally.keys import Grouping
from nfslat.tally.ops import MOVED, TIMES, WAITS, OpSums

MOST_ROWS = 1000  # beyond them groups are put together
NOT_KNOWN = "not known"
_MB = 1e6
_KIB = 1024
_SIZES = tuple(_KIB << power for power in range(2, 11))  # 4K to 1M, as rsize, wsize and block sizes are given
_SIZE_NAMES = (*(f"{size // _KIB}K" for size in _SIZES[:-1]), "1M", "more", NOT_KNOWN)
# NFSv4.1 operations that need no SEQUENCE (RFC 8881 section 2.10.6.1, and 18.37, 18.50): NULL, BIND_CONN_TO_SESSION,
# EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID.
_WITHOUT_SESSION = frozenset((0, 41, 42, 43, 44, 57))
_MAKERS = {column.name: column.make for column in COLUMNS}


@dataclass(frozen=True)
class _Groups:
    """Which group each matched op is in; a group may be empty."""

    of_op: I32
    count: int
    label: Callable[[int], str]
    in_order: bool = False  # of their numbers; else those with most time of the client first
    each_s: float | None = None  # how long each group lasts; None: as long as all matched ops


def pivot_of(c: Analysis, by: str, paths: Paths | None = None) -> Pivot:
    """The matched ops grouped by `by`, one of ``BY``; `paths` names the files, else they go by their handles.

    Up to ``MOST_ROWS`` groups have a row, those with most time of the client; rows and `others` sum to the matched
    ops. Raises ``UsageError`` where there is no such grouping.
    """
    if by not in _GROUPINGS:
        raise UsageError(f"--by {by}: there is no such grouping; take one of {', '.join(BY)}")
    if not len(c.matched):
        return Pivot(by, 0, [], None)
    groups = _GROUPINGS[by](c, paths)
    kept = _kept(groups, c.client_srt_ns)
    rows = _rows(c, groups, kept)
    return Pivot(by, groups.count, rows[:-1], rows[-1] if groups.count > len(kept) else None)


def sizes_of(c: Analysis) -> I64:
    """Bytes that each matched op moves, as `OpColumns.sizes`."""
    sizes = OpColumns.of(c).sizes
    return np.zeros(0, dtype=np.int64) if sizes is None else filled(len(c.matched), np.int64, sizes)


def _kept(groups: _Groups, client_ns: I64) -> I64:
    """The groups that have a row of their own, in the order of the rows."""
    if groups.in_order and groups.count <= MOST_ROWS:
        return np.arange(groups.count)
    time_ns = np.bincount(groups.of_op, weights=client_ns, minlength=groups.count)
    kept = np.argsort(-time_ns, kind="stable")[:MOST_ROWS]
    return np.sort(kept) if groups.in_order else kept


def _rows(c: Analysis, groups: _Groups, kept: I64) -> list[PivotRow]:
    """A row for each group of `kept`, and one for all others together."""
    others = groups.count - len(kept)
    labels = [*map(groups.label, kept.tolist()), f"{others:,} others"]
    place = np.full(groups.count, len(kept), dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    key = Grouping(filled(len(c.matched), np.int32, lambda at: place[groups.of_op[at]]), range(len(labels)))
    seconds = [groups.each_s or _seconds(c)] * len(labels)
    if groups.each_s is not None:
        seconds[-1] = groups.each_s * others
    return [
        PivotRow(
            key=label,
            ops=row.count,
            bytes=row.bytes,
            without_size=row.sum("without_size"),
            mb_per_s=None if row.bytes is None or not lasts_s else row.bytes / _MB / lasts_s,
            client_ms=row.summary(CLIENT),
            server_ms=row.summary(SERVER),
            network_ms=row.summary(NETWORK),
            **figures_of(row),
        )
        for label, lasts_s, row in zip(
            labels, seconds, OpSums.of(OpColumns.of(c), key, (TIMES, WAITS, MOVED), SIDES).rows(), strict=True
        )
    ]


def _seconds(c: Analysis) -> float:
    """From the first call to the last reply of all matched ops."""
    last_ns = filled(len(c.matched), np.int64, lambda at: c.client.ops.t3[c.matched.client[at]]).max()
    return to_s(int(last_ns - begins_ns(c).min()))


def _column(c: Analysis, labels: Labels, paths: Paths | None, name: str) -> I64:
    """A column of the table of matched ops as numbers, of a text its row; ``NULL`` is null."""

    def make(at: slice) -> I64:
        cells = _MAKERS[name](Block(c, labels, paths, None, at))
        values = cells.values.astype(np.int64)
        return values if cells.null is None else np.where(cells.null, NULL, values)

    return filled(len(c.matched), np.int64, make)


def _by_value(values: I64, label: Callable[[int], str]) -> _Groups:
    """A group for each different one of `values`."""
    found, of_op = np.unique(values, return_inverse=True)
    return _Groups(of_op.astype(np.int32), len(found), lambda at: label(int(found[at])))


def _by_text(numbers: I64, texts: list[str]) -> _Groups:
    """A group for each different text; several of the `numbers`, which are rows of `texts`, may have the same."""
    groups = {text: at for at, text in enumerate(dict.fromkeys(texts[at] for at in np.unique(numbers).tolist()))}
    of_number = np.array([groups.get(text, 0) for text in texts], dtype=np.int32)
    labels = list(groups)
    return _Groups(filled(len(numbers), np.int32, lambda at: of_number[numbers[at]]), len(labels), labels.__getitem__)


def _by_size(c: Analysis, _: Paths | None) -> _Groups:
    """READs, then WRITEs, by class: a mean over both would be that of neither."""
    sizes = sizes_of(c)
    classes = np.searchsorted(np.array(_SIZES), sizes, side="left")
    classes[sizes == NULL] = _SIZE_NAMES.index(NOT_KNOWN)
    labels = op_labels(c.client.ops.kinds)
    others = len(DATA_OPS) * len(_SIZE_NAMES)
    begins = [DATA_OPS.index(one) * len(_SIZE_NAMES) if one in DATA_OPS else others for one in labels]
    values = np.minimum(np.array(begins, dtype=np.int64)[c.kind] + classes, others)

    def label(value: int) -> str:
        operation, size = divmod(value, len(_SIZE_NAMES))
        return "other ops" if value == others else f"{DATA_OPS[operation]} {_SIZE_NAMES[size]}"

    groups = _by_value(values, label)
    return _Groups(groups.of_op, groups.count, groups.label, in_order=True)


def _ways(c: Analysis) -> I64:
    """Row of `Labels.of_client`."""
    ops = c.client.ops

    def make(at: slice) -> I64:
        rows = c.matched.client[at]
        return ops.conn[rows].astype(np.int64) * 2 + ops.direction[rows]

    return filled(len(c.matched), np.int64, make)


def _by_client(c: Analysis, _: Paths | None) -> _Groups:
    return _by_text(_ways(c), [str(address) for address in Labels(c, None).of_client.client])


def _by_server(c: Analysis, _: Paths | None) -> _Groups:
    return _by_text(_ways(c), [str(address) for address in Labels(c, None).of_client.server])


def _by_connection(c: Analysis, _: Paths | None) -> _Groups:
    ends, ways = Labels(c, None).of_client, _ways(c)
    clients = [endpoint(*end) for end in zip(ends.client, ends.client_port, strict=True)]
    servers = [endpoint(*end) for end in zip(ends.server, ends.server_port, strict=True)]
    if len({servers[way] for way in np.unique(ways).tolist()}) > 1:
        clients = [f"{client} to {server}" for client, server in zip(clients, servers, strict=True)]
    return _by_text(ways, clients)


def _by_file(c: Analysis, paths: Paths | None) -> _Groups:
    labels = Labels(c, paths)
    path, handle = (_column(c, labels, paths, name) for name in ("path", "fh_crc32"))
    names = len(labels.paths)
    # Paths, then handles without one; NULL, where there is neither, stays.
    return _by_value(
        np.where(path != NULL, path, np.where(handle != NULL, handle + names, NULL)),
        lambda at: NOT_KNOWN if at == NULL else labels.paths[at] if at < names else f"fh 0x{at - names:08x}",
    )


def _by_uid(c: Analysis, _: Paths | None) -> _Groups:
    return _by_value(_column(c, Labels(c, None), None, "uid"), lambda uid: NOT_KNOWN if uid == NULL else str(uid))


def _by_second(c: Analysis, _: Paths | None) -> _Groups:
    begins = begins_ns(c)
    first_ns = int(begins.min())
    seconds = (begins - first_ns) // NS_PER_S
    last = int(seconds.max())
    if last < MOST_ROWS:
        groups = _Groups(seconds.astype(np.int32), last + 1, lambda second: iso(first_ns + second * NS_PER_S))
    else:
        groups = _by_value(seconds, lambda second: iso(first_ns + second * NS_PER_S))
    return _Groups(groups.of_op, groups.count, groups.label, in_order=True, each_s=1.0)


def _by_slot(c: Analysis, _: Paths | None) -> _Groups:
    labels = Labels(c, None)
    session, slot = (_column(c, labels, None, name) for name in ("session", "slot"))
    several = len(np.unique(session[slot != NULL])) > 1
    has_none = np.array([_is_without_session(kind) for kind in c.client.ops.kinds], dtype=np.bool_)
    # NULL is not known, one less is none at all; sessions count from 0, an unknown one is -1.
    values = np.where(slot != NULL, (session + 1) << 32 | slot, np.where(has_none[c.kind], NULL - 1, NULL))

    def label(value: int) -> str:
        if value < 0:
            return NOT_KNOWN if value == NULL else "no slot"
        of, number = (value >> 32) - 1, value & 0xFFFFFFFF
        name = labels.sessions[of] if of >= 0 else NOT_KNOWN
        return f"{number} of session {name}" if several else str(number)

    return _by_value(values, label)


def _is_without_session(kind: Kind) -> bool:
    if kind.program != NFS or 0 <= kind.version < 4 or kind.minor == 0:
        return True
    return kind.op in _WITHOUT_SESSION


_GROUPINGS: dict[str, Callable[[Analysis, Paths | None], _Groups]] = {
    "size": _by_size,
    "client": _by_client,
    "server": _by_server,
    "connection": _by_connection,
    "file": _by_file,
    "uid": _by_uid,
    "second": _by_second,
    "slot": _by_slot,
}
BY = tuple(_GROUPINGS)
