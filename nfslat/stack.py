"""A `Correlation` + latencies that the user knows (application, storage) -> the latency stack (docs/method.md)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from nfslat.errors import UsageError
from nfslat.report.model import StackRow
from nfslat.results import Correlation
from nfslat.select import parse_ops
from nfslat.tables import I64

# What a bare --app-ms or --storage-ms speaks of: an application and its disk know reads and writes, not GETATTRs.
_DATA_OPS = ("READ", "WRITE")
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Stack:
    """Rows to print, and what must be said with them."""

    rows: list[StackRow]
    notes: list[str]


@dataclass(frozen=True)
class Known:
    """Mean latencies in ms that the user gave: by operation, or under "" for the data ops together."""

    app_ms: dict[str, float] = field(default_factory=dict)
    storage_ms: dict[str, float] = field(default_factory=dict)

    def population(self, c: Correlation) -> I64:
        """Rows of the matched ops that the application's figures speak of.

        An operation whose figure is below its own client SRT adds nothing above the wire and takes nothing away.
        """
        return _data_rows(c) if "" in self.app_ms else c.rows_of(self._above(c))

    def title(self, c: Correlation) -> str:
        """Names of the operations in `population`: ``"READ and WRITE"``."""
        return _title(_data_ops(c) if "" in self.app_ms else self._above(c))

    def above_wire_ms(self, c: Correlation) -> float | None:
        """Mean time between application and wire; None where no application latency is known, or it is no longer."""
        rows = self.population(c) if self.app_ms else np.zeros(0, dtype=np.int64)
        if not len(rows):
            return None
        app = self.app_ms.get("")
        if app is None:
            app = sum(self.app_ms[name] * c.ops_of[name] for name in self._above(c)) / len(rows)
        above = app - float(c.client_srt_ns[rows].mean() / _NS_PER_MS)
        return above if above > 0 else None

    def _above(self, c: Correlation) -> list[str]:
        """Operations that take longer at the application than on the client's wire."""
        return [
            name
            for name, app_ms in self.app_ms.items()
            if name in c.ops_of and app_ms > c.client_srt_ns[c.rows_of([name])].mean() / _NS_PER_MS
        ]


def parse_known(values: list[str], option: str) -> dict[str, float]:
    """``["58"]`` or ``["READ=58", "WRITE=70"]`` -> ms by operation ("" for a bare figure).

    Raises ``UsageError`` for anything else, and for a bare figure beside named ones.
    """
    out: dict[str, float] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        try:
            ms = float(number)
        except ValueError:
            ms = -1.0
        if not 0 <= ms < float("inf") or bool(equals) != bool(name):
            raise UsageError(f"{option} {value}: give milliseconds (58) or an operation and milliseconds (READ=58)")
        for known in parse_ops([name], option) or {""}:
            out[known] = ms
    if "" in out and len(out) > 1:
        raise UsageError(f"{option}: give one figure for all, or one for each operation, not both")
    return out


def stack(known: Known, c: Correlation) -> Stack:
    """One block of rows for each operation that the user gave a figure for."""
    rows: list[StackRow] = []
    notes: list[str] = []
    names = _blocks(known)
    if "" in names and any(_data_ops(c) <= {name} for name in names if name):
        names.remove("")  # there is one data operation only, and it has a block of its own
    for name in names:
        at = _data_rows(c) if name == "" else c.rows_of([name])
        if not len(at):
            notes.append(f"--app-ms/--storage-ms {name}: no matched {name} op to compare it with")
            continue
        title = name or _title(_data_ops(c))
        app_ms = known.app_ms.get(name, known.app_ms.get(""))
        # A bare storage figure is one of reads and writes: a disk does not know a GETATTR.
        bare = known.storage_ms.get("") if name in ("", *_DATA_OPS) else None
        storage_ms = known.storage_ms.get(name, bare)
        block, remarks = _block(title, app_ms, storage_ms, c, at)
        rows += block
        notes += remarks
    return Stack(rows, notes)


def _blocks(known: Known) -> list[str]:
    """The operations that figures were given for; a bare figure counts for each of them, or stands alone."""
    named = sorted(({*known.app_ms} | {*known.storage_ms}) - {""})
    return ["", *named] if "" in known.app_ms or ("" in known.storage_ms and not named) else named


def _block(
    title: str, app_ms: float | None, storage_ms: float | None, c: Correlation, at: I64
) -> tuple[list[StackRow], list[str]]:
    client = float(c.client_srt_ns[at].mean() / _NS_PER_MS)
    server = float(c.server_srt_ns[at].mean() / _NS_PER_MS)
    rows: list[StackRow] = []
    notes: list[str] = []
    whole = client

    def add(layer: str, depth: int, ms: float, source: str) -> None:
        rows.append(StackRow(title, layer, depth, ms, ms / whole if whole > 0 else None, source))

    if app_ms is not None and app_ms >= client:
        whole = app_ms
        add("application", 0, app_ms, "--app-ms")
        add("above the wire", 1, app_ms - client, "application - client SRT")
    else:
        if app_ms is not None:
            notes.append(
                f"{title}: the application's {app_ms:g} ms is below the client SRT of {client:.3g} ms: "
                "clocks and populations differ; nothing can be said to lie above the wire"
            )
        add("client SRT", 0, client, "client capture")
    add("network", 1, client - server, "client SRT - server SRT")
    add("server", 1, server, "server capture")
    if storage_ms is not None:
        if storage_ms > server:
            notes.append(
                f"{title}: the storage's {storage_ms:g} ms is above the server SRT of {server:.3g} ms: "
                "it speaks of other requests (write-back, cache misses only)"
            )
        else:
            add("server, outside storage", 2, server - storage_ms, "server SRT - storage")
            add("storage", 2, storage_ms, "--storage-ms")
    return rows, notes


def _title(operations: Collection[str]) -> str:
    """The names, or "all" where they are not few."""
    return " and ".join(sorted(operations)) if len(operations) <= len(_DATA_OPS) else "all"


def _data_ops(c: Correlation) -> set[str]:
    """READ and WRITE as far as there are matched ones, or all operations where there are none."""
    return c.ops_of.keys() & _DATA_OPS or set(c.ops_of)


def _data_rows(c: Correlation) -> I64:
    return c.rows_of(_data_ops(c))
