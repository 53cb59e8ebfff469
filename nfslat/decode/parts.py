"""A `Decoded` -> parts of it, each numbered as if nothing else had been captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from nfslat.decode import merge_tables
from nfslat.decode.merge_tables import LEADS, TableT, led
from nfslat.kernels.order import side_by_side
from nfslat.model.decoded import Decoded
from nfslat.model.details import Details, Turns
from nfslat.model.protocol import NULL
from nfslat.model.record import declared
from nfslat.model.tables import I32, I64, Table

_SHARED_OUT = ("hidden", "malformed", "duplicate_packets")


class Part(NamedTuple):
    """`rows` and `conns` are those of the whole capture's ops and connections, ascending."""

    decoded: Decoded
    rows: I64
    conns: I64


class _Grouped(NamedTuple):
    """Rows of a table side by side by their part, and where each part's are."""

    order: I32
    spans: list[slice]

    def rows(self, number: int) -> I64:
        return self.order[self.spans[number]].astype(np.int64)


class Parts:
    """Each table is put in the order of the parts once; a part is made when it is asked for."""

    def __init__(self, whole: Decoded, of_op: I64, of_conn: I64, count: int) -> None:
        """`of_op` and `of_conn` have the part, 0 to `count` - 1, of each op and connection; NULL: of none. What has an
        op goes with it, all else with its connection."""
        merge_tables.check()
        self.whole, self.of_op, self._of_conn, self._count = whole, of_op, of_conn, count
        ops = whole.ops
        self._ops = self._grouped(of_op)
        self.new_row = np.full(len(ops), NULL, dtype=np.int64)  # of each op, in its part
        for span in self._ops.spans:
            self.new_row[self._ops.order[span]] = np.arange(span.stop - span.start)
        self._tables = {
            name: table for name in declared(Details)
            if isinstance(table := getattr(whole.details, name), Table) and len(table) and _lead(table)
        }  # fmt: skip
        self._groups = {name: self._grouped(self._part_of(table)) for name, table in self._tables.items()}
        self._loose = self._grouped(self._part_of(whole.loose))
        self._ways: list[list[int]] = [[] for _ in range(count)]
        for conn, part in {*enumerate(of_conn.tolist()), *self._conns_of_ops()}:
            if part != NULL:
                self._ways[part].append(conn)

    def _conns_of_ops(self) -> list[tuple[int, int]]:
        """Connections of ops that do not go with their connection."""
        conn = self.whole.ops.conn
        apart = np.flatnonzero(self.of_op != self._of_conn[conn]) if len(conn) else conn
        return list(zip(conn[apart].tolist(), self.of_op[apart].tolist(), strict=True))

    def _grouped(self, numbers: npt.NDArray[np.int64]) -> _Grouped:
        count = self._count
        return _Grouped(
            *side_by_side(len(numbers), count + 1, lambda at: np.where(numbers[at] == NULL, count, numbers[at]))
        )

    def _part_of(self, table: Table) -> I64:
        columns = vars(table)
        if "conn" not in columns:
            return np.asarray(self.of_op[columns["op"]])
        of_conn: I64 = self._of_conn[columns["conn"]]
        return np.where(columns["op"] == NULL, of_conn, self.of_op[columns["op"]]) if "op" in columns else of_conn

    def rows(self, number: int) -> I64:
        """Rows of the whole capture's ops that are of the part."""
        return self._ops.rows(number)

    def part(self, number: int) -> Part:
        """What nobody knows whose it is (messages without a header) is shared out by the ops."""
        whole, rows = self.whole, self.rows(number)
        conns = np.array(sorted(self._ways[number]), dtype=np.int64)
        new_conn = np.full(len(whole.ops.connections), NULL, dtype=np.int64)
        new_conn[conns] = np.arange(len(conns))
        connections = tuple(whole.ops.connections[conn] for conn in conns.tolist())
        new = {"op": self.new_row, "conn": new_conn}
        ops = _renumbered(whole.ops.take(rows), new, connections=connections)
        loose = whole.loose.take(self._loose.rows(number))
        loose = loose.take(new_conn[loose.conn] != NULL) if len(loose) else loose
        details: dict[str, Any] = {"turns": Turns.empty()}
        for name, table in self._tables.items():
            details[name] = _renumbered(table.take(self._groups[name].rows(number)), new)
        callers = whole.details.callers
        details["callers"] = callers.take(rows) if len(callers) else callers
        share = len(rows) / max(len(whole.ops), 1)
        counts: dict[str, Any] = {name: round(getattr(whole, name) * share) for name in _SHARED_OUT}
        counts["repeats"] = {state: round(count * share) for state, count in whole.repeats.items()}
        part = structs.replace(
            whole,
            ops=ops,
            loose=_renumbered(loose, new, connections=connections),
            details=structs.replace(whole.details, **details),
            segments=[],
            **counts,
        )
        return Part(part, rows, conns)


def _lead(table: Table) -> bool:
    return bool({"op", "conn"} & LEADS.get(type(table), {}).keys())


def _renumbered(table: TableT, new: Mapping[str, I64], **others: Any) -> TableT:
    leads = LEADS[type(table)]
    columns = {name: led(getattr(table, name), new[of]) for name, of in leads.items() if of in new}
    return table.replaced(columns, **others)
