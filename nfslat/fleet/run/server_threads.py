"""Names of the server's shards in, its threads over all clients out; and of these what concerns one client."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from nfslat.answer.model import ServerInFlight
from nfslat.fleet import model
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run.joined import slim
from nfslat.fleet.run.shards import read_shard
from nfslat.fleet.run.store import Store
from nfslat.fleet.run.threads import Wide, find_wide
from nfslat.inflight.all_clients import ServerWide
from nfslat.pipeline import side_of


def wide_of(store: Store, names: Sequence[str], facts: str, windows: Windows, servers: Sequence[str]) -> Wide:
    """Of all clients together. The parts are in the order of `names`; `servers` are addresses of the server."""
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
        scratch = Path(folder)
        source, of_all = read_shard(store, facts, scratch)
        parts = [slim(side_of(source, read_shard(store, name, scratch)[1]).decoded) for name in names]
    return find_wide(parts, of_all, windows, frozenset(servers))


def figures_of(wide: Wide) -> tuple[ServerInFlight, list[model.ServerWindow], list[model.Phase]]:
    """What the report says of the server."""
    return wide.inflight, wide.windows, wide.phases


def server_wide(wide: Wide, rows: Sequence[int]) -> ServerWide:
    """What concerns the client whose shards are `rows` of the names."""
    return wide.for_parts(rows)
