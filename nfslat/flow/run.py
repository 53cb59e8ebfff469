"""Two captures of more operations than are judged as a whole -> the report on both, stretch by stretch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from msgspec import structs

from nfslat.answer import model
from nfslat.decode.blocks import Blocks
from nfslat.decode.capture import MOST_JOINED_OPS, Source
from nfslat.decode.windows import Windows
from nfslat.errors import InputError
from nfslat.figures.audit.pair import exchanged
from nfslat.flow.beside import Asked
from nfslat.flow.counted import Counted
from nfslat.flow.pairs import Exchanged, Pair, pairs
from nfslat.flow.slow_ops import SlowOps
from nfslat.flow.whole import Whole
from nfslat.kernels.memory import give_back

Streamed = Blocks | Windows
STRETCH_OPS = 500_000  # at least, that are judged by themselves: enough to tell threads and slots by


def correlate(blocks: tuple[Streamed, Streamed], again: Callable[[Source], Streamed], asked: Asked) -> model.Report:
    """The report on two captures that were taken at the same time, the server's `blocks` and the client's. `again`
    reads a capture once more, where they were given client first.

    Raises ``InputError`` where a capture cannot be read, or the two have nothing in common.
    """
    server, client = (side.source for side in blocks)
    try:
        return _read(*blocks, asked)
    except Exchanged:
        if not all(file.path.is_file() for source in (server, client) for file in source.files):
            raise InputError(
                "by its packets it is the client's; give the server's capture first", about=server.name
            ) from None
    made = _read(again(client), again(server), dataclasses.replace(asked, may_swap=False, progress=lambda _: None))
    return structs.replace(made, notes=[*made.notes, exchanged(client.name, server.name)])


def _read(of_server: Streamed, of_client: Streamed, asked: Asked) -> model.Report:
    read, srt, filters = of_server.bytes + of_client.bytes, asked.tool.srt, asked.filters
    slow = SlowOps(asked.slowest, has_frames=all(len(side.source.files) == 1 for side in (of_server, of_client)))
    try:
        server = Counted(of_server, "server", srt, filters)
        least_ops = STRETCH_OPS if asked.stretch_ops is None else asked.stretch_ops
        client = Counted(of_client, "client", srt, filters, least_ops)
        whole, later_ns = Whole(asked), 0
        for pair in pairs(server, client, srt, may_swap=asked.may_swap, filters=filters):
            if pair.found is not None and pair.found.moved_ns:
                raise InputError(
                    f"there are clocks of several hosts in a capture of more than {MOST_JOINED_OPS:,} operations, "
                    "which are not told apart: give the captures of two hosts, or a part of their time"
                )
            if filters.by_time:
                _select(pair, server, client)
            filters, later_ns = pair.filters, pair.later_ns or later_ns
            whole.add(pair)
            if pair.analysis is not None:
                slow.add(pair.analysis)
                asked.each(pair.analysis)
            del pair  # before the next one is made
            give_back()
            now = of_server.bytes + of_client.bytes
            asked.progress(now - read)
            read = now
        outside = server.drain(filters, later_ns)
    finally:
        of_server.close()
        of_client.close()
    captures = {name: side.tally for name, side in (("server", server), ("client", client)) if side.tally is not None}
    report = whole.report(captures, server.outcomes + client.outcomes, outside)
    sides = {"server": server, "client": client} if filters.all_programs else {}
    called = {name: sides[name].called.rows(filters, captures[name].facts.last_ns) for name in sides}
    return structs.replace(report, slowest=slow.ops, called=called)


def _select(pair: Pair, server: Counted, client: Counted) -> None:
    """Count the ops of the time that was asked for: of one that both captures have, the client's call tells."""
    if pair.found is None:
        client.select(pair.client.ops, pair.client, pair.filters, 0)
    else:
        client.count(pair.found.client)
        server.count(pair.found.server)
    for ops in pair.given_up:
        server.select(ops, pair.client, pair.filters, pair.later_ns)
