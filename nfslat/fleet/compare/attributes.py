"""One client's side of a comparison -> attributes that it may have in common with others: subnet, NFS version ..."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import numpy as np

from nfslat.answer import model
from nfslat.fleet.compare.tops import Top, top_of
from nfslat.model.protocol import NFS, version_name
from nfslat.model.tables import I16, Kind
from nfslat.results import Side

_SUBNET_BITS = {4: 24, 6: 64}
_OF_VERSION = 0.01  # of the ops, for a version to count as the client's


def attributes(
    addresses: Sequence[str], kinds: Sequence[Kind], kind: I16, servers: Sequence[str], tops: Sequence[Top],
    inflight: model.InFlight | None,
) -> dict[str, str]:  # fmt: skip
    """What may be common to clients, by its name."""
    found = {"subnet": subnet_of(addresses[0]) if addresses else "", "nfs": _versions(kinds, kind)}
    if inflight is not None:
        found["connections"] = str(sum(one.nconnect for one in inflight.client.mounts) or "")
    found |= {"path": top_of(tops) or "", "server address": ", ".join(servers)}
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


def servers_of(side: Side) -> list[str]:
    """Addresses of NFS servers that are called there."""
    c = side.ops.classes
    ways = zip(c.conn.tolist(), c.direction.tolist(), c.kind.tolist(), strict=True)
    called = {
        side.ops.connections[conn].destination(way)[0] for conn, way, of in ways if side.ops.kinds[of].program == NFS
    }
    return sorted(called)
