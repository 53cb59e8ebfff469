"""Two captures of more operations than are judged as a whole -> the report on both, stretch by stretch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from nfslat.answer import model
from nfslat.decode.blocks import Blocks
from nfslat.decode.capture import MOST_JOINED_OPS, Source
from nfslat.decode.windows import Windows
from nfslat.errors import InputError
from nfslat.figures.audit.pair import exchanged
from nfslat.figures.objectives import Slo
from nfslat.flow.analysed import analysed
from nfslat.flow.counted import Counted
from nfslat.flow.pairs import Exchanged, pairs
from nfslat.flow.slow_ops import SlowOps
from nfslat.flow.whole import Whole
from nfslat.kernels.memory import give_back
from nfslat.results import Analysis
from nfslat.select import Filters

Streamed = Blocks | Windows
STRETCH_OPS = 200_000  # at least, that are judged by themselves: enough to tell threads and slots by


def correlate(
    blocks: tuple[Streamed, Streamed],
    again: Callable[[Source], Streamed],
    tool: model.Tool,
    *,
    may_swap: bool,
    stretch_ops: int | None = None,
    slo: Sequence[Slo] = (),
    progress: Callable[[int], None] = lambda _: None,
    each: Callable[[Analysis], None] = lambda _: None,
    slowest: int = 20,
    filters: Filters | None = None,
    interval_s: float | None = None,
) -> model.Report:
    """The report on two captures that were taken at the same time, the server's `blocks` and the client's; each stretch
    is handed on as it is analysed, and so many of the `slowest` ops are told one by one. `again` reads a capture once
    more, where they were given client first.

    Raises ``InputError`` where a capture cannot be read, or the two have nothing in common.
    """
    server, client = (side.source for side in blocks)
    read = partial(
        _read,
        tool=tool,
        stretch_ops=STRETCH_OPS if stretch_ops is None else stretch_ops,
        slo=slo,
        each=each,
        slowest=slowest,
        filters=filters,
        interval_s=interval_s,
    )
    try:
        return read(*blocks, may_swap=may_swap, progress=progress)
    except Exchanged:
        if not all(file.path.is_file() for source in (server, client) for file in source.files):
            raise InputError(
                "by its packets it is the client's; give the server's capture first", about=server.name
            ) from None
    made = read(again(client), again(server), may_swap=False, progress=lambda _: None)
    return dataclasses.replace(made, notes=[*made.notes, exchanged(client.name, server.name)])


def _read(
    of_server: Streamed,
    of_client: Streamed,
    *,
    tool: model.Tool,
    may_swap: bool,
    stretch_ops: int,
    slo: Sequence[Slo],
    progress: Callable[[int], None],
    each: Callable[[Analysis], None],
    slowest: int,
    filters: Filters | None,
    interval_s: float | None,
) -> model.Report:
    read = of_server.bytes + of_client.bytes
    slow = SlowOps(slowest, has_frames=all(len(side.source.files) == 1 for side in (of_server, of_client)))
    try:
        server = Counted(of_server, "server", tool.srt, filters=filters)
        client = Counted(of_client, "client", tool.srt, filters=filters, least_ops=stretch_ops)
        gaps, whole = {"server": server.gaps, "client": client.gaps}, Whole(filters or Filters(), interval_s)
        for pair in pairs(server, client, tool.srt, may_swap=may_swap, filters=filters):
            if pair.found is not None and pair.found.moved_ns:
                raise InputError(
                    f"there are clocks of several hosts in a capture of more than {MOST_JOINED_OPS:,} operations, "
                    "which are not told apart: give the captures of two hosts, or a part of their time"
                )
            c = None if pair.found is None else analysed(pair.found, pair, gaps)
            whole.add(pair, c)
            if c is not None:
                slow.add(c)
                each(c)
            del pair, c  # before the next one is made
            give_back()
            now = of_server.bytes + of_client.bytes
            progress(now - read)
            read = now
        outside = server.drain()
    finally:
        of_server.close()
        of_client.close()
    captures = {name: side.tally for name, side in (("server", server), ("client", client)) if side.tally is not None}
    report = whole.report(captures, server.outcomes + client.outcomes, outside, tool, slo)
    return dataclasses.replace(report, slowest=slow.ops)
