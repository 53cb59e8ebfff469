"""Summaries of all clients, and what is known of the server -> which clients suffer, and what they have in common.

`excess` says what a client's ops take beyond what such ops take at the typical client, `outliers` who stands out,
`odd` why, `groups` and `patterns` what those have in common, `common` what adds time for all, `verdict` the answer.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from nfslat.answer.figures import figures_of
from nfslat.fleet import model
from nfslat.fleet.compare.common import common, of_own_reports, spent_ns
from nfslat.fleet.compare.distinct import Odd, odd_clients
from nfslat.fleet.compare.excess import Beyond, grid_of, window_excess
from nfslat.fleet.compare.outliers import standings
from nfslat.fleet.compare.patterns import Fleetwide, peculiar
from nfslat.fleet.compare.slow_paths import slow_paths
from nfslat.fleet.compare.summary import INFERRED, ClientSummary
from nfslat.fleet.compare.verdict import verdict
from nfslat.fleet.compare.windows import Windows
from nfslat.model.units import to_ms
from nfslat.tally.durations import CLIENT, NETWORK, SERVER
from nfslat.tally.ops import OpFigures, OpSums

_SCOPES = ("all", "group", "one")


@dataclass(frozen=True)
class Compared:
    """What the report needs."""

    clients: list[model.Client]  # those that stand out first, of those and of the others the one with most excess
    patterns: list[model.Pattern]  # what adds most first
    by_op: list[model.OpRow]
    total: model.OpRow | None
    verdict: model.FleetVerdict


def compare(
    summaries: Sequence[ClientSummary],
    server: model.Server | None,
    windows: Windows,
    *,
    untold: int = 0,
) -> Compared:
    """All of it, but for commands that show a client again. Names of clients differ; their order does not matter.
    `untold`: further clients, of which nothing is known."""
    clients = sorted(summaries, key=lambda one: one.name)
    by_op, total = _merged(clients)
    able = [one for one in clients if one.ops]
    grid = grid_of(able)
    excess = grid.excess()
    odd = odd_clients(able, standings(grid))
    fleet = Fleetwide(able, excess, sum(map(spent_ns, able)), windows)
    untold += len(clients) - len(able)
    patterns = common(able, server, windows, untold) + slow_paths(able, fleet.total_ns) + peculiar(odd, fleet)
    patterns += of_own_reports(able, patterns)
    patterns.sort(key=_weight)
    ways: dict[str, list[Odd]] = {}
    for one in odd:
        ways.setdefault(one.name, []).append(one)
    rows = {
        one.name: (beyond, window_excess(grid, at)) for at, (one, beyond) in enumerate(zip(able, excess, strict=True))
    }
    nothing: tuple[model.Excess | None, list[Beyond | None]] = (None, [None] * windows.count)
    made = [_client(one, ways.get(one.name, []), *rows.get(one.name, nothing)) for one in clients]
    made.sort(key=lambda one: (not one.outlier, -(one.excess.total_s if one.excess else float("-inf")), one.name))
    return Compared(
        made,
        patterns,
        by_op,
        total,
        verdict(patterns, able, total, excess, is_server_known=server is not None, untold=untold),
    )


def _weight(one: model.Pattern) -> tuple[float, int, str, str, list[str]]:
    """What adds most first; what packets do not show behind that which they do."""
    return (-(one.excess_s or 0.0), _SCOPES.index(one.scope), one.layer, one.value or "", one.clients)


def _merged(clients: Sequence[ClientSummary]) -> tuple[list[model.OpRow], model.OpRow | None]:
    """Matched ops by operation, the most frequent first; and all of them."""
    able = [client for client in clients if client.has_both]
    by_op = reduce(add, [client.by_op for client in able], OpSums.empty())
    inferred: Counter[tuple[str, str, str]] = Counter()
    for client in able:
        if client.state == INFERRED:
            inferred.update({row.label: row.count for row in client.by_op.rows()})
    rows = [made for row in by_op.rows() if (made := _row(row, row.label, inferred[row.label]))]
    rows.sort(key=lambda row: (-row.count, row.program, row.op, row.version))
    total = [_row(row, ("", "all", ""), inferred.total()) for row in by_op.total().rows()]
    return rows, total[0] if total else None


def _row(row: OpFigures, names: tuple[str, str, str], inferred: int) -> model.OpRow | None:
    client, server, network = (row.summary(side) for side in (CLIENT, SERVER, NETWORK))
    if client is None or server is None or network is None:
        return None
    return model.OpRow(*names, row.count, inferred, client, server, network, **figures_of(row))


def _client(
    one: ClientSummary, ways: Sequence[Odd], excess: model.Excess | None, beyond: Sequence[Beyond | None]
) -> model.Client:
    known: dict[str, Any] = {field.name: getattr(one, field.name) for field in dataclasses.fields(model.Client)}
    known |= {"excess": excess, "outlier": bool(ways), "windows": _windows(one, beyond)}
    if ways:
        known["set_apart"] = model.SetApart(ways[0].layer, ways[0].cause, ways[0].confidence)
        known["why"] = "; ".join(way.why for way in ways)
    return model.Client(**known)


def _windows(one: ClientSummary, beyond: Sequence[Beyond | None]) -> list[model.ClientWindow]:
    cells = one.cells
    names = ("ops", "client", "server", "queue", "queues")
    rows = zip(*(cells.by_window(name).tolist() for name in names), beyond, strict=True)
    both = one.has_both
    return [
        model.ClientWindow(
            ops=ops,
            client_ms=to_ms(client / ops) if ops and both else None,
            server_ms=to_ms(server / ops) if ops else None,
            network_ms=to_ms((client - server) / ops) if ops and both else None,
            queue_ms=to_ms(queue / queues) if queues else None,
            excess_ms=sum(excess) if excess else None,
            network_excess_ms=excess.network_ms if excess else None,
            server_excess_ms=excess.server_ms if excess else None,
        )
        for ops, client, server, queue, queues, excess in rows
    ]
