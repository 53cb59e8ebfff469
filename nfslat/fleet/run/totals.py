"""Decoded capture points -> what the report says of all captures, and what a client's comparison is given of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nfslat.fleet import model
from nfslat.fleet.run.pair import Parts
from nfslat.fleet.run.points import Point
from nfslat.fleet.run.shards import Decode
from nfslat.model.units import iso


def captures_of(server: Decode | None, clients: Sequence[Decode], total: model.OpRow | None) -> model.Captures:
    """`total`: the ops of which there are times of both sides."""
    decodes = [*([server] if server is not None else []), *clients]
    at = decodes if server is None else [server]  # whose clock it is
    return model.Captures(
        files=sum(one.files for one in decodes),
        bytes=sum(one.bytes for one in decodes),
        packets=sum(one.packets for one in decodes),
        server_ops=0 if server is None else server.ops,
        client_ops=sum(one.ops for one in clients),
        matched_ops=0 if total is None else total.count - total.inferred,
        inferred_ops=0 if total is None else total.inferred,
        begin=iso(min(one.first_ns for one in at)),
        end=iso(max(one.last_ns for one in at)),
    )


def parts_of(decode: Decode, rows: Iterable[int], point: Point | None) -> Parts:
    """Some of its shards."""
    shards = [decode.shards[at] for at in rows]
    files = () if point is None else tuple(file.name for file in point.files)
    segments = tuple(one.segments for one in shards if one.segments)
    return Parts(tuple(one.name for one in shards), decode.facts, files, segments)
