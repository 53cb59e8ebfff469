"""What was in flight in each block, joined: levels are added up, and limits are those of one block.

How many threads there are, and what holds the clients, is of the block that has most of the time among those of which
the same is said as of most of the time: blocks of which nothing can be told do not count beside others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from msgspec import field, structs

from nfslat.answer import model
from nfslat.inflight.levels import Levels
from nfslat.kernels.exact import longer
from nfslat.model.record import Record
from nfslat.results import Analysis
from nfslat.tally.leading import Leading, Rows, added_rows, rows_by

_SIDES = ("server", "client")
_MOST_LEVELS = 512  # that are listed one by one
_NO_LEVELS = Levels(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))


class InFlightTally(Record, eq=False):
    """Levels by side; blocks by what is said of the server's threads, which count by their time; and rows of sessions,
    of connections with a cap and of mounts, which count by their ops."""

    levels: Mapping[str, Levels] = field(default_factory=lambda: dict.fromkeys(_SIDES, _NO_LEVELS))
    blocks: Rows[model.InFlight] = {}
    # Sums over the ops, and how many: shares that are hidden by side, calls that wait, the range of the wait.
    means: Mapping[str, tuple[float, int]] = {}
    held: int = 0
    unseen_first: int = 0
    sessions: Rows[model.SessionInFlight] = {}
    caps: Rows[model.CapInFlight] = {}
    mounts: Rows[model.MountInFlight] = {}

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(cls, c: Analysis, found: model.InFlight) -> Self:
        """A block; `found` is what is in flight in it."""
        server, took_ns, ops = found.server, float(c.client_srt_ns.sum()), len(c.matched)
        least, most = server.queue_range_ms or (None, None)
        figures = {**found.hidden_share, "waiting": server.waiting_share, "least": least, "most": most}
        said = "limited" if server.limited else "free" if server.cannot is None else "cannot"
        return cls(
            levels={"server": c.inflight.server.levels, "client": c.inflight.client.levels},
            blocks={said: Leading(found, took_ns, took_ns)},
            means={name: (figure * ops, ops) for name, figure in figures.items() if figure is not None},
            held=server.held,
            unseen_first=server.unseen_first,
            sessions=rows_by(found.sessions, "ops", "session", "callbacks"),
            caps=rows_by(found.caps, "ops", "client"),
            mounts=rows_by(found.client.mounts, "ops", "client", "server"),
        )

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        means = dict(self.means)
        for name, (total, ops) in later.means.items():
            before_total, before_ops = means.get(name, (0.0, 0))
            means[name] = before_total + total, before_ops + ops
        return type(self)(
            {name: Levels(*map(longer, self.levels[name], later.levels[name])) for name in _SIDES},
            added_rows(self.blocks, later.blocks),
            means,
            self.held + later.held,
            self.unseen_first + later.unseen_first,
            added_rows(self.sessions, later.sessions),
            added_rows(self.caps, later.caps),
            added_rows(self.mounts, later.mounts),
        )

    def rows(self, queue_ms: float | None, server_ms: float) -> model.InFlight | None:
        """The section of the report; `server_ms` is the mean over all ops at the server,
        `queue_ms` their mean wait for a thread. None where there are none."""
        told = {said: block for said, block in self.blocks.items() if said != "cannot"} or self.blocks
        if not told:
            return None
        block = max(told.values(), key=lambda leading: leading.total).row
        at_server, at_client = (self.levels[name] for name in _SIDES)
        least, most = self._mean("least"), self._mean("most")
        return structs.replace(
            block,
            server=structs.replace(
                block.server,
                max=at_server.max,
                mean=at_server.mean or 0.0,
                levels=levels_rows(at_server),
                waiting_share=self._mean("waiting") or 0.0,
                queue_ms=queue_ms,
                queue_range_ms=None if queue_ms is None or least is None or most is None else (least, most),
                service_ms=None if queue_ms is None else server_ms - queue_ms,
                held=self.held,
                unseen_first=self.unseen_first,
            ),
            client=structs.replace(
                block.client,
                max=at_client.max,
                mean=at_client.mean or 0.0,
                levels=levels_rows(at_client),
                mounts=sorted(_with_ops(self.mounts), key=lambda mount: -mount.ops),
            ),
            sessions=_with_ops(self.sessions),
            caps=_with_ops(self.caps),
            hidden_share={name: self._mean(name) or 0.0 for name in _SIDES},
        )

    def _mean(self, name: str) -> float | None:
        total, ops = self.means.get(name, (0.0, 0))
        return total / ops if ops else None


def _with_ops(rows: Rows[Any]) -> list[Any]:
    return [structs.replace(leading.row, ops=int(leading.total)) for leading in rows.values()]


def levels_rows(levels: Levels) -> list[model.Level]:
    """As the report has them."""
    busy_ns = levels.busy_ns
    some = np.flatnonzero(levels.time_ns[1:_MOST_LEVELS]) + 1
    columns = some, levels.time_ns[some], levels.ended[some]
    return [
        model.Level(level, time_ns / busy_ns, ended * 1e9 / time_ns)
        for level, time_ns, ended in zip(*(column.tolist() for column in columns), strict=True)
    ]
