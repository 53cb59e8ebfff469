"""Ops, matched ops and theta -> durations in int64 ns: SRT as asked for, and the five parts (docs/method.md)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from nfslat.tables import I64, Matched, Ops, Table

# How the SRT of an op is measured.
SRT_DEFINITIONS = {
    "nfslat": "client: first byte of call to last byte of reply; server: last byte of call to first byte of reply",
    "tshark": "from the frame where tshark shows the call to the one where it shows the reply",
    "first": "from the first frame of the call to the first frame of the reply",
}


@dataclass(frozen=True, eq=False)
class Parts(Table):
    """One row a matched op. The five parts sum exactly to t3 - t0 on the client, whatever theta is.

    A negative part is kept: it tells of a drifting clock, a wrong match or capture reordering.
    """

    call_send: I64
    call_net: I64
    server: I64
    reply_send: I64
    reply_net: I64


PART_NAMES = tuple(part.name for part in dataclasses.fields(Parts))


def srt_ns(ops: Ops, definition: str, side: str) -> I64:
    """SRT of each op, int ns. `definition` is a key of ``SRT_DEFINITIONS``, `side` is "server" or "client"."""
    if definition == "tshark":
        return ops.shown_reply_ns - ops.shown_call_ns
    if definition == "first":
        return ops.t2 - ops.t0
    return ops.t2 - ops.t1 if side == "server" else ops.t3 - ops.t0


def decompose(server: Ops, client: Ops, matched: Matched, theta_ns: int) -> Parts:
    """The five parts of each matched op."""
    s, c = matched.server, matched.client
    return Parts(
        call_send=client.t1[c] - client.t0[c],
        call_net=server.t1[s] - client.t1[c] - theta_ns,
        server=server.t2[s] - server.t1[s],
        reply_send=server.t3[s] - server.t2[s],
        reply_net=client.t3[c] - server.t3[s] + theta_ns,
    )
