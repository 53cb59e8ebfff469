"""One client's side of a comparison -> attributes that it may have in common with others: subnet, NFS version, place of
its data ..."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nfslat.answer import model
from nfslat.model.protocol import DATA_OPS, NFS, NULL, version_name
from nfslat.model.tables import I16, Kind, Ops
from nfslat.names.paths import paths_of
from nfslat.results import Analysis
from nfslat.select import nfs_ways
from nfslat.tally.columns import OpColumns
from nfslat.tally.keys import Grouping
from nfslat.tally.ops import TIMES, OpSums

_SUBNET_BITS = {4: 24, 6: 64}
_OF_VERSION = 0.01  # of the ops, for a version to count as the client's
_MOST_OPS = 20_000  # that are looked at; beyond them every second, third ... one is
_MOST = 40  # places that are kept
_DEPTH = 2
_UNKNOWN = "..."  # the beginning of a path that is not known
_MAIN = 0.6  # of a client's data ops, for a place to be called the client's


@dataclass(frozen=True)
class Top:
    """Data ops on one place: files below a directory, as far as their names are known. Of many, a sample."""

    place: str
    op: str
    ops: int
    server_ns: int


def tops_of(c: Analysis) -> tuple[Top, ...]:
    """READs and WRITEs of `c` by place (two levels of the path), those with most ops first."""
    rows = {op: c.rows_of([op]) for op in DATA_OPS}
    rows = {op: of_op[:: max(-(-len(of_op) // _MOST_OPS), 1)] for op, of_op in rows.items() if len(of_op)}
    if not rows:
        return ()
    every = np.concatenate(list(rows.values()))
    paths = paths_of(c, rows=every)
    places = [top_path(text) for text in paths.texts]
    labels = list(dict.fromkeys((place, op) for op in rows for place in places))
    number_of = {label: number for number, label in enumerate(labels)}
    number = np.array([[number_of[place, op] for place in places] for op in rows], dtype=np.int64)
    of_row = np.repeat(np.arange(len(rows)), [len(of_op) for of_op in rows.values()])
    named = paths.of_op[every] != NULL
    key = Grouping(number[of_row[named], paths.of_op[every[named]]], labels)
    sums = OpSums.of(OpColumns.of(c, every[named]), key, (TIMES,)).rows()
    tops = [
        Top(place, op, of.count, of.sum("server_ns"))
        for (place, op), of in zip(labels, sums, strict=True)
        if of.count and place
    ]
    return tuple(sorted(tops, key=lambda one: (-one.ops, one.place, one.op))[:_MOST])


def top_path(path: str) -> str:
    """The first two levels of `path`: ``/srv/db/redo/log1`` -> ``/srv/db``, ``.../log1`` as it is.

    What was mounted stays ``...`` where its name is not known, and counts for one. Empty where there is nothing else.
    """
    parts = [part for part in path.split("/") if part]
    begin = "/" if path.startswith("/") else ""
    return begin + "/".join(parts[:_DEPTH]) if parts and parts != [_UNKNOWN] else ""


def top_of(tops: Sequence[Top]) -> str | None:
    """The place that most of the ops are on, where there is one."""
    counts: dict[str, int] = {}
    for one in tops:
        counts[one.place] = counts.get(one.place, 0) + one.ops
    place = max(counts, key=lambda name: (counts[name], name), default=None)
    return place if place is not None and counts[place] >= _MAIN * sum(counts.values()) else None


def attributes(
    addresses: Sequence[str], ops: Ops, kind: I16, tops: Sequence[Top], inflight: model.InFlight | None
) -> dict[str, str]:
    """What may be common to clients, by its name; `kind` is of each op that is compared."""
    connections = 0 if inflight is None else sum(one.nconnect for one in inflight.client.mounts)
    found = {
        "subnet": subnet_of(addresses[0]) if addresses else "",
        "nfs": _versions(ops.kinds, kind),
        "connections": str(connections or ""),
        "path": top_of(tops) or "",
        "server address": ", ".join(sorted({server for _, server in nfs_ways(ops).values()})),
    }
    return {name: value for name, value in found.items() if value}


def subnet_of(address: str) -> str:
    """The /24, or of IPv6 the /64, that `address` is in; empty where it is none."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    return str(ipaddress.ip_network((parsed, _SUBNET_BITS[parsed.version]), strict=False))


def _versions(kinds: Sequence[Kind], kind: I16) -> str:
    counts: dict[str, int] = {}
    for one, count in zip(kinds, np.bincount(kind, minlength=len(kinds)).tolist(), strict=True):
        if one.program == NFS:
            version = version_name(one.program, one.version, one.minor)
            counts[version] = counts.get(version, 0) + count
    return ", ".join(sorted(v for v, n in counts.items() if n and n >= _OF_VERSION * len(kind)))
