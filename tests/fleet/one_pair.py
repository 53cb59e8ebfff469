"""One server and one client through the tasks of a fleet, without a cluster; and the pair as `nfslat S C` has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfslat import api
from nfslat.fleet.compare.windows import plan
from nfslat.fleet.run.inputs import expand
from nfslat.fleet.run.pair import Parts, Request, compare_client, correlate
from nfslat.fleet.run.points import find_points
from nfslat.fleet.run.shards import Decode, decode_point
from nfslat.fleet.run.store import Store


def through_fleet(files: Sequence[str], folder: Path) -> dict[str, Any]:
    """The report of its one client, as JSON, as ``--show`` makes it; what is kept is the same without pictures."""
    points = find_points(expand(files).files)
    (client,) = points.clients
    store = Store(str(folder))
    server, own = (decode_point(store, one.name, one.files) for one in (points.server, client))
    request = Request(client.name, client.addresses, _parts(server), _parts(own), kept="client.json")
    compare_client(store, request, plan(server.first_ns, server.last_ns, server.ops))
    kept = json.loads((folder / "client.json").read_text(encoding="utf-8"))
    shown = json.loads(json.dumps(api.Report(*correlate(store, request, None)).figures.to_dict()))
    assert kept == shown | {"pictures": None}
    return comparable(shown)


def plain(server: str, client: str) -> dict[str, Any]:
    """The report on the pair."""
    options = api.Options(may_swap=False, command="")
    return comparable(json.loads(json.dumps(api.run([server, client], options).figures.to_dict())))


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """Without what says where the files lie: names, how many there are, and the command."""
    report["nfslat"].pop("command")
    for capture in report["captures"].values():
        for name in ("path", "files"):
            capture.pop(name)
    return report


def without_places(report: dict[str, Any]) -> dict[str, Any]:
    """Nor what says in which file a packet is, and which it is there."""
    for op in report["pictures"]["slowest"]:
        op.pop("wireshark")
        for event in op["timeline"]:
            event.pop("file")
            event.pop("frame")
    return report


def _parts(decode: Decode) -> Parts:
    return Parts(tuple(one.name for one in decode.shards), decode.facts)
