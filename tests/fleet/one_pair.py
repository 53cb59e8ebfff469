"""One server and one client through the tasks of a fleet, without a cluster; and the pair as `nfslat S C` has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nfslat import api
from nfslat.fleet.run.client import Request, compare_client
from nfslat.fleet.run.inputs import expand
from nfslat.fleet.run.points import find_points
from nfslat.fleet.run.server import ServerCapture


def through_fleet(files: Sequence[str]) -> dict[str, Any]:
    """The report of its one client, as JSON, as it is kept."""
    points = find_points(expand(files).files)
    (client,) = points.clients
    assert points.server is not None
    server = ServerCapture(points.server)
    half = server.half(client.addresses)
    assert half is not None
    request = Request(client.name, client.addresses, client.files, half[0], server.windows, half[1], report_name="x")
    done = compare_client(request)
    assert done.report is not None, done.why
    return comparable(json.loads(done.report))


def plain(server: str, client: str) -> dict[str, Any]:
    """The report on the pair."""
    options = api.Options(may_swap=False, command="")
    return comparable(json.loads(json.dumps(api.run([server, client], options).summary.to_dict())))


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """Without what says where the files lie: names, how many there are, and the command."""
    report["nfslat"].pop("command")
    for capture in report["captures"].values():
        for name in ("path", "files"):
            capture.pop(name)
    return report
