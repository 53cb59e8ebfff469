"""Rows of several clients -> what is said of each stretch of time in all, and of which client it is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from nfslat.live.rows import Row

SCHEMA = "nfslat.live.all/1"


@dataclass(frozen=True)
class Whole:
    """What is said of the clients' rows that came together."""

    begin: str  # of the first of them, ISO 8601, on the clock of its client
    end: str
    clients: tuple[str, ...]
    ops: int
    ops_per_s: float
    mb_per_s: float
    client_ms: float | None  # mean of operations in both captures
    outcome: str  # fault, where one has any; no-fault, where those have none that have half of the time; or undecided
    cause: str | None
    layer: str | None
    of: tuple[str, ...]  # those with this cause; that which has most of the time is the first
    time_share: float | None  # theirs, of all response times

    def as_json(self) -> str:
        """It as a line of JSON."""
        return json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, allow_nan=False)


class Together:
    """The rows of one run that are together."""

    def __init__(self, clients: Sequence[str]) -> None:
        self._clients = clients
        self._rows: dict[str | None, Row] = {}

    def add(self, row: Row) -> list[Whole]:
        """One more row: those that are together now. A client that is late is not waited for."""
        wholes = self.end() if row.client in self._rows else []
        self._rows[row.client] = row
        return wholes + (self.end() if len(self._rows) == len(self._clients) else [])

    def end(self) -> list[Whole]:
        """No more comes: what there is."""
        rows, self._rows = list(self._rows.values()), {}
        return [whole_of(rows)] if rows else []


def whole_of(rows: Sequence[Row]) -> Whole:
    """What is said of one stretch of time."""
    rows = sorted(rows, key=_time_ms, reverse=True)
    all_ms, matched = sum(map(_time_ms, rows)), sum(row.matched for row in rows)
    faults = [row for row in rows if row.named is not None]
    with_it = [row for row in faults if row.cause == faults[0].cause]
    clear = [row for row in rows if row.outcome == "no-fault"]
    is_clear = bool(clear) and sum(map(_time_ms, clear)) >= all_ms / 2
    return Whole(
        begin=min(row.begin for row in rows),
        end=max(row.end for row in rows),
        clients=tuple(sorted(row.client or "" for row in rows)),
        ops=sum(row.ops for row in rows),
        ops_per_s=sum(row.ops_per_s for row in rows),
        mb_per_s=sum(row.mb_per_s for row in rows),
        client_ms=all_ms / matched if matched else None,
        outcome="fault" if faults else "no-fault" if is_clear else "undecided",
        cause=faults[0].cause if faults else None,
        layer=faults[0].layer if faults else None,
        of=tuple(row.client or "" for row in with_it),
        time_share=sum(map(_time_ms, with_it)) / all_ms if faults and all_ms else None,
    )


def _time_ms(row: Row) -> float:
    """What its operations in both captures took."""
    return row.matched * (row.client_ms or 0.0)
