"""Captures that were decoded -> what the report says of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.fleet import model
from nfslat.fleet.run.capture import CaptureFacts
from nfslat.model.units import iso


def captures_of(
    server: CaptureFacts | None, clients: Sequence[CaptureFacts], total: model.OpRow | None
) -> model.Captures:
    """`total`: the ops of which there are times of both sides."""
    every = [*([server] if server is not None else []), *clients]
    at = every if server is None else [server]  # whose clock it is
    return model.Captures(
        files=sum(one.files for one in every),
        bytes=sum(one.bytes for one in every),
        packets=sum(one.packets for one in every),
        server_ops=0 if server is None else server.ops,
        client_ops=sum(one.ops for one in clients),
        matched_ops=0 if total is None else total.count - total.inferred,
        inferred_ops=0 if total is None else total.inferred,
        begin=iso(min(one.first_ns for one in at)),
        end=iso(max(one.last_ns for one in at)),
    )
