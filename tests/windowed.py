"""Captures -> the report on them, judged in stretches of any size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nfslat import __version__
from nfslat.answer import model
from nfslat.decode.capture import Source
from nfslat.decode.native import NAME
from nfslat.decode.windows import Windows
from nfslat.decode.workspace import open_workspace
from nfslat.export.by_window import Sink
from nfslat.figures.objectives import parse_slo
from nfslat.flow.beside import Asked
from nfslat.flow.run import correlate
from nfslat.model.units import NS_PER_S
from nfslat.results import Analysis
from nfslat.select import Filters


def windowed(
    server: Path,
    client: Path,
    seconds: float,
    *,
    least_ops: int = 0,
    may_swap: bool = True,
    slo: tuple[str, ...] = (),
    sinks: Sequence[Sink] = (),
    slowest: int = 20,
    filters: Filters | None = None,
    interval_s: float | None = None,
) -> model.Report:
    """Stretches of so many seconds, joined until they hold `least_ops`."""

    def each(c: Analysis) -> None:
        for sink in sinks:
            sink.add(c)

    with open_workspace([str(server), str(client)], engine="native", quiet=True) as work:

        def blocks_of(source: Source) -> Windows:
            return Windows(source, work.engine.tools, round(seconds * NS_PER_S))

        asked = Asked(
            tool=model.Tool(__version__, NAME, "nfslat", "nfslat"),
            may_swap=may_swap,
            stretch_ops=least_ops,
            slo=tuple(map(parse_slo, slo)),
            each=each,
            slowest=slowest,
            filters=filters or Filters(),
            interval_s=interval_s,
        )
        return correlate((blocks_of(work.sources[0]), blocks_of(work.sources[1])), blocks_of, asked)
