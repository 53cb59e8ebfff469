"""Captures -> their windows, and the pairs and rows that `nfslat live` makes of them."""

from __future__ import annotations

from pathlib import Path

from nfslat.decode.windows import Window, Windows
from nfslat.decode.workspace import open_workspace
from nfslat.flow.gaps import Gapped
from nfslat.flow.pairs import Pair, pairs
from nfslat.model.units import NS_PER_S


def windows_of(path: Path, seconds: float) -> list[Window]:
    """All windows of a capture."""
    with open_workspace([str(path)], engine="native", quiet=True) as work:
        return list(Windows(work.sources[0], work.engine.tools, round(seconds * NS_PER_S)))


def pairs_of(server: Path, client: Path, seconds: float) -> list[Pair]:
    """All windows of both."""
    with open_workspace([str(server), str(client)], engine="native", quiet=True) as work:
        sides = [Gapped(Windows(one, work.engine.tools, round(seconds * NS_PER_S))) for one in work.sources]
        return list(pairs(sides[0], sides[1], "nfslat"))
