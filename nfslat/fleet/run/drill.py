"""What a run keeps of itself; and its folder and the name of a client in, both of its sides compared out: nothing is
decoded again."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nfslat.api import Options
from nfslat.errors import InputError
from nfslat.fleet.compare.windows import Windows
from nfslat.fleet.run.pair import Parts, Request, correlate
from nfslat.fleet.run.server_threads import for_client
from nfslat.fleet.run.shards import Decode
from nfslat.fleet.run.store import Store
from nfslat.results import Analysis

RUN = "run.json"
_NAMED = 5


def correlation(out: str, name: str) -> tuple[Analysis, Options]:
    """As the run compared it, with the options of its report. Raises ``InputError`` where there is no such client."""
    store = Store(out)
    kept = store.read_json(RUN)
    if not isinstance(kept, dict):
        raise InputError(
            "no run of 'nfslat fleet --out' is kept there, or it was not finished; run it again", about=out
        )
    try:
        request = _request(kept["requests"], name)
        names = kept["shards"]
        wide = None
        if not kept["alone"] and request.server is not None:
            rows = [names.index(shard) for shard in request.server.shards]
            wide = for_client(store, names, kept["facts"], Windows(**kept["windows"]), kept["servers"], rows)
    except (KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{out}/{RUN}: is damaged, or of another version; run nfslat fleet --out again") from problem
    command = shlex.join(["nfslat", *sys.argv[1:]])
    return correlate(store, dataclasses.replace(request, command=command, kept=None), wide)


def to_keep(
    requests: Mapping[str, Request],
    server: Decode | None,
    windows: Windows,
    addresses: Sequence[str],
    *,
    alone: bool,
) -> dict[str, Any]:
    """What `correlation` needs of a run; `addresses` are the server's, `alone`: one client calls it."""
    return {
        "requests": {name: dataclasses.asdict(one) for name, one in sorted(requests.items())},
        "shards": [] if server is None else [one.name for one in server.shards],
        "alone": alone,
        "facts": None if server is None else server.facts,
        "windows": dataclasses.asdict(windows),
        "servers": addresses,
    }


def _request(requests: dict[str, Any], name: str) -> Request:
    if name not in requests:
        known = ", ".join(list(requests)[:_NAMED])
        more = f" and {len(requests) - _NAMED} more" if len(requests) > _NAMED else ""
        raise InputError(f"no client of that run, which has {known}{more}", about=name)
    one = requests[name]
    parts = {
        side: None
        if one[side] is None
        else Parts(
            tuple(one[side]["shards"]),
            one[side]["facts"],
            tuple(one[side]["files"]),
            tuple(one[side]["segments"]),
        )
        for side in ("server", "client")
    }
    return Request(**one | parts | {"addresses": tuple(one["addresses"])})
