"""Windows of one capture -> one table of several, and of one table those of some ops and of the others."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from nfslat.decode import merge, merge_tables
from nfslat.decode.merge_tables import LEADS, Listed, Merger, TableT, dropped, items_of, led
from nfslat.model.decoded import Decoded
from nfslat.model.details import Details, Loads, Met, Others, Pauses, Tcp, TcpEvents, Unread
from nfslat.model.protocol import NULL
from nfslat.model.record import declared
from nfslat.model.tables import I64, Bool, Table

# When it was, of what TCP did.
_TIMES: dict[type[Table], str] = {
    TcpEvents: "t_ns",
    Pauses: "end_ns",
    Loads: "begin_ns",
    Others: "begin_ns",
    Unread: "begin_ns",
}
# What a window has of all packets so far.
_SO_FAR = ("lost_ranges", "lost_bytes", "tls_connections", "busiest_second_packets", "largest_backward_ns")


def in_line(parts: Sequence[Decoded]) -> Decoded:
    """Windows (`nfslat.decode.windows`) in their order as one. Raises ``ValueError`` where there is none."""
    merge.check()
    merge_tables.check()
    if not parts:
        raise ValueError("nothing to join")
    if len(parts) == 1:
        return parts[0]
    last, counts = parts[-1], counts_of(parts)
    found = Merger(parts, _known(parts)).tables(parts)
    details = found["details"]
    found["details"] = structs.replace(details, tcp=last.details.tcp, loads=_summed(details.loads))
    return structs.replace(last, **counts, **found)


def _summed(loads: Loads) -> Loads:
    """What was sent in one stretch of time has one row, though it came in two windows."""
    is_first = np.ones(len(loads), dtype=np.bool_)
    for key in (loads.begin_ns, loads.conn, loads.direction):
        is_first[1:] &= key[1:] == key[:-1]
    is_first[1:] = ~is_first[1:]
    rows = np.flatnonzero(is_first)
    if len(rows) == len(loads):
        return loads
    return dataclasses.replace(loads.take(rows), bytes=np.add.reduceat(loads.bytes, rows))


def counts_of(parts: Sequence[Decoded]) -> dict[str, Any]:
    """What is counted in all of them, in their order: fields of `Decoded`."""
    counts: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in merge.OF_MESSAGES}
    counts |= {**merge.packets(parts), "repeats": merge.repeats_of(parts)}
    return counts | {name: getattr(parts[-1], name) for name in _SO_FAR}


def _known(parts: Sequence[Decoded]) -> dict[Met, Listed]:
    """The numbers of a window are those of the next, which knows more: none is changed (`led`). What was created is
    each one's own."""
    none = np.zeros(0, dtype=np.int64)
    items = items_of(parts)
    found = {of: Listed(tuple(lists[-1]), [none] * len(lists), none, none) for of, lists in items.items()}
    created = tuple(itertools.chain.from_iterable(items[Met.CREATED]))
    return found | {Met.CREATED: Listed(created, [], none, none)}


def parted(whole: Decoded, goes: Bool, until_ns: int | None = None) -> tuple[Decoded, Decoded]:
    """The ops for which `goes` is set, and the others. What TCP did goes, too, as far as it did so before `until_ns`,
    and so does all else that is known of the capture and of no op."""
    merge_tables.check()
    nothing: dict[str, Any] = dict.fromkeys((*merge.OF_MESSAGES, "wire_bytes", "captured_bytes", "backward_times"), 0)
    nothing |= {"packet_kinds": dict.fromkeys(whole.packet_kinds, 0), "repeats": {}}
    nothing |= {name: getattr(whole, name) for name in _SO_FAR}
    first = _tables_of(whole, goes, until_ns, of_none=True)
    rest = _tables_of(whole, ~goes, until_ns)
    return structs.replace(whole, **first), structs.replace(whole, **rest, **nothing)


def _tables_of(whole: Decoded, mask: Bool, until_ns: int | None, *, of_none: bool = False) -> dict[str, Any]:
    kept = np.flatnonzero(mask)  # found once: each column would look through the mask again
    new_row = np.full(len(mask), NULL)
    new_row[kept] = np.arange(len(kept))
    details: dict[str, Any] = {} if of_none else {"sessions": (), **dict.fromkeys(dropped(), 0)}
    for name in declared(Details):
        table = getattr(whole.details, name)
        if isinstance(table, Table):
            when = None if until_ns is None else _TIMES.get(type(table))
            if when is None:
                details[name] = _of_ops(table, mask, new_row, of_none=of_none)
            else:
                details[name] = table.take((vars(table)[when] < until_ns) == of_none)
    callers = whole.details.callers
    details["callers"] = callers.take(kept) if len(callers) else callers
    return {
        "ops": whole.ops if len(kept) == len(mask) else whole.ops.take(kept),
        "loose": _of_ops(whole.loose, mask, new_row, of_none=of_none),
        "details": structs.replace(whole.details, **details),
    }


def _of_ops(table: TableT, mask: Bool, new_row: I64, *, of_none: bool) -> TableT:
    """Rows of the ops in `mask`, and, if `of_none`, those of none."""
    if "op" not in LEADS.get(type(table), {}):
        return table if of_none or isinstance(table, Tcp) else table.take(slice(0))
    op: npt.NDArray[Any] = vars(table)["op"]
    rows = np.full(len(op), of_none)
    is_of_op = op != NULL
    rows[is_of_op] = mask[op[is_of_op]]
    columns: dict[str, Any] = {"op": led(op[rows], new_row)}
    return dataclasses.replace(table.take(rows), **columns)
