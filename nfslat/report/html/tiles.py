"""Report -> the numbers under the verdict of the page, with the digits that the rest of the report has for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nfslat.answer.model import MatchedRow, Report, StackRow, Summary
from nfslat.answer.words import adding_up, stacked
from nfslat.model.record import Record

_SHOWN = 0.0005  # shares are printed to 0.1 %
_LAYERS = ("application", "above the wire", "network", "server")
_OF_APPLICATION = (
    ("application", "whole", "Application"),
    ("above", "client", "Above the wire"),
    ("network", "network", "Network"),
    ("server", "server", "Server"),
)


class Tile(Record):
    """One of the numbers under the verdict."""

    key: str
    layer: str  # whose it is; "whole" is the sum of the others
    title: str
    ms: float
    text: str
    share: float | None  # of the whole
    slowest_ms: float | None
    slowest_text: str
    slowest_share: float | None
    means: str


def tiles(report: Report) -> list[Tile]:
    """The numbers of the verdict: a whole and what it is the sum of.

    That is the mean client SRT of the matched ops; where the verdict is about the application's time, that time.
    """
    matched = report.matched
    if matched is None or matched.total is None:
        return []
    if of_application := _application(report):
        return [
            Tile(
                f"stack_{key}",
                layer,
                f"{title}: {row.op}" if layer == "whole" else title,
                row.ms,
                text,
                row.share,
                None,
                "",
                None,
                row.source,
            )
            for (key, layer, title), row, text in zip(
                _OF_APPLICATION, of_application, stacked(of_application), strict=True
            )
        ]
    total, slowest = matched.total, matched.slowest
    texts, tails = printed(total), {} if slowest is None else printed(slowest)

    def tile(key: str, title: str, means: str) -> Tile:
        mean, tail = _mean(total, key), None if slowest is None else _mean(slowest, key)
        tail_share = None if slowest is None or tail is None else _share(tail, slowest)
        layer = "whole" if key == "client" else key
        return Tile(
            key, layer, title, mean, texts[key], _share(mean, total), tail, tails.get(key, ""), tail_share, means
        )

    return [
        tile("client", "Client SRT", "from the call's first byte to the reply's last byte, at the client's wire"),
        tile("network", "Network", "client SRT minus server SRT, op by op; needs no clock"),
        tile("server", "Server SRT", "from the call's last byte to the reply's first byte, at the server's wire"),
    ]


def _application(report: Report) -> list[StackRow]:
    """The application's time and its layers, from the block of the stack that the verdict is about, or from all."""
    verdict = report.verdict
    if verdict is None or verdict.largest_share is None:
        return []
    by_op = [[row for row in report.stack if row.op == op] for op in dict.fromkeys(row.op for row in report.stack)]
    for block in [*by_op, _together(report, by_op)]:
        rows = {row.layer: row for row in block}
        found = [rows[name] for name in _LAYERS if name in rows]
        leading = rows.get("above the wire" if verdict.largest_layer == "client" else verdict.largest_layer or "")
        share = None if leading is None else leading.share
        if len(found) == len(_OF_APPLICATION) and share is not None and abs(share - verdict.largest_share) < _SHOWN:
            return found
    return []


def _together(report: Report, by_op: Sequence[Sequence[StackRow]]) -> list[StackRow]:
    """Blocks with an application's time as one, of the mean op of all of them."""
    counts = Counter[str]()
    for row in [] if report.matched is None else report.matched.by_op:
        counts[row.op] += row.count
    given = [{row.layer: row for row in block} for block in by_op]
    given = [rows for rows in given if all(name in rows for name in _LAYERS)]
    ops = [(rows, counts[rows["application"].op]) for rows in given]
    whole = sum(rows["application"].ms * count for rows, count in ops)
    if len(ops) < 2 or whole <= 0:
        return []
    of = " and ".join(rows["application"].op for rows, _ in ops)
    sums = {name: sum(rows[name].ms * count for rows, count in ops) for name in _LAYERS}
    every = sum(count for _, count in ops)
    first = ops[0][0]
    return [
        StackRow(of, name, first[name].depth, ms / every, ms / whole, first[name].source) for name, ms in sums.items()
    ]


def _mean(row: MatchedRow, key: str) -> float:
    summary: Summary = getattr(row, f"{key}_ms")
    return summary.mean


def means(report: Report) -> dict[str, str]:
    """Those of all matched ops, as they are printed."""
    total = None if report.matched is None else report.matched.total
    return {} if total is None else printed(total)


def printed(row: MatchedRow) -> dict[str, str]:
    """The means of client, network and server."""
    (network, server), client = adding_up([row.network_ms.mean, row.server_ms.mean])
    return {"client": client, "server": server, "network": network}


def _share(value: float, row: MatchedRow) -> float | None:
    return value / row.client_ms.mean if row.client_ms.mean > 0 else None
