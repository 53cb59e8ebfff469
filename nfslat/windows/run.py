"""Two captures of any length -> the report on both, window by window."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nfslat.answer import model
from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.decode.windows import Windows
from nfslat.errors import InputError
from nfslat.figures.audit.pair import exchanged
from nfslat.figures.objectives import Slo
from nfslat.kernels.memory import give_back
from nfslat.model.units import NS_PER_S
from nfslat.results import Analysis
from nfslat.select import Filters
from nfslat.windows.analysed import analysed
from nfslat.windows.counted import Counted
from nfslat.windows.pairs import Exchanged, pairs
from nfslat.windows.report import report_of
from nfslat.windows.slow_ops import SlowOps
from nfslat.windows.whole import SIDES, Whole

LEAST_OPS = 100_000  # slow ops that are rare, threads and slots need many to be told
MANY_OPS = 200_000  # of a window, where nothing was asked for: enough to judge by, and little memory
# Windows that are joined until they are long and hold enough. Each takes a pass over what is open, 2 s of ops; of those
# that are so long, or as is best, longer parts are exact enough.
_SHORT_NS, _LONG_NS, _SO_LONG_NS = NS_PER_S // 4, NS_PER_S, 60 * NS_PER_S


@dataclass(frozen=True)
class Size:
    """Of a window: so long at least, and until so many ops are in it."""

    width_ns: int
    least_ops: int


def size_of(window_s: float) -> Size:
    """`window_s` seconds at least; 0: as is best."""
    return Size(round(window_s * NS_PER_S), LEAST_OPS if window_s else MANY_OPS)


def short_of(width_ns: int) -> int:
    """How long those are of which a window of so many ns is made; 0: as is best."""
    return min(width_ns, _SHORT_NS) if 0 < width_ns < _SO_LONG_NS else _LONG_NS


def correlate(
    server: Source,
    client: Source,
    tools: Callable[[], Tools],
    tool: model.Tool,
    size: Size,
    *,
    may_swap: bool,
    slo: Sequence[Slo] = (),
    progress: Callable[[int], None] = lambda _: None,
    each: Callable[[Analysis], None] = lambda _: None,
    slowest: int = 20,
    filters: Filters | None = None,
) -> model.Report:
    """The report on two captures that were taken at the same time; `each` window is handed on as it is analysed, and
    so many of the `slowest` ops are told one by one.

    Raises ``InputError`` where a capture cannot be read, or the two have nothing in common.
    """
    read = partial(_read, tools=tools, tool=tool, size=size, slo=slo, each=each, slowest=slowest, filters=filters)
    try:
        return read(server, client, may_swap=may_swap, progress=progress)
    except Exchanged:
        if not all(file.path.is_file() for source in (server, client) for file in source.files):
            raise InputError(
                "by its packets it is the client's; give the server's capture first", about=server.name
            ) from None
    found = read(client, server, may_swap=False, progress=lambda _: None)
    return dataclasses.replace(found, notes=[*found.notes, exchanged(client.name, server.name)])


def _read(
    server: Source,
    client: Source,
    *,
    tools: Callable[[], Tools],
    tool: model.Tool,
    size: Size,
    may_swap: bool,
    slo: Sequence[Slo],
    progress: Callable[[int], None],
    each: Callable[[Analysis], None],
    slowest: int,
    filters: Filters | None,
) -> model.Report:
    # What a window tells of calls that the capture lacks is known one short window later.
    short_ns = short_of(size.width_ns)
    of_server, of_client = Windows(server, tools, short_ns), Windows(client, tools, short_ns)
    read, slow = 0, SlowOps(slowest, has_frames=len(server.files) == len(client.files) == 1)
    try:
        sides = (
            Counted(of_server, "server", tool.srt, filters=filters),
            Counted(of_client, "client", tool.srt, filters=filters, least_ops=size.least_ops, least_ns=size.width_ns),
        )
        gaps = {name: side.gaps for name, side in zip(SIDES, sides, strict=True)}
        whole = Whole({name: side.counts for name, side in zip(SIDES, sides, strict=True)})
        for pair in pairs(*sides, tool.srt, may_swap=may_swap, filters=filters):
            if pair.found is not None and pair.found.moved_ns:
                raise InputError(
                    "there are clocks of several hosts in a capture, which windows do not tell apart: give the "
                    "captures of two hosts, or no --window"
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
        whole.end(sides[0].drain())
    finally:
        of_server.close()
        of_client.close()
    return dataclasses.replace(report_of(whole, tool, slo), slowest=slow.ops)
