"""Ops, matched ops and theta -> durations in int64 ns: SRT as asked for, and the five parts (docs/method.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nfslat.tables import CALL_SHOWN_LAST, I32, I64, REPLY_SHOWN_LAST, Matched, Ops

# How the SRT of an op is measured.
SRT_DEFINITIONS = {
    "nfslat": "client: first byte of call to last byte of reply; server: last byte of call to first byte of reply",
    "tshark": "from the frame where tshark shows the call to the one where it shows the reply",
    "first": "from the first frame of the call to the first frame of the reply",
}


PART_NAMES = ("call_send", "call_net", "server", "reply_send", "reply_net")


@dataclass(frozen=True)
class Parts:
    """The five parts of each matched op, int ns, made when asked for. They sum exactly to t3 - t0 on the client,
    whatever theta is.

    A negative part is kept: it tells of a drifting clock, a wrong match or capture reordering.
    """

    server: Ops
    client: Ops
    matched: Matched
    theta_ns: int

    def ns(self, name: str, at: slice | I64 = slice(None)) -> I64:
        """The part `name` (one of ``PART_NAMES``) of the matched ops in rows `at`."""
        s, c = self.matched.server[at], self.matched.client[at]
        server, client = self.server, self.client
        match name:
            case "call_send":
                return client.t1[c] - client.t0[c]
            case "call_net":
                return server.t1[s] - client.t1[c] - self.theta_ns
            case "server":
                return server.t2[s] - server.t1[s]
            case "reply_send":
                return server.t3[s] - server.t2[s]
            case "reply_net":
                return client.t3[c] - server.t3[s] + self.theta_ns
        raise ValueError(f"{name}: no such part")


def srt_ns(ops: Ops, definition: str, side: str, rows: slice | I32 | I64 = slice(None)) -> I64:
    """SRT of the ops in `rows`, int ns. `definition` is a key of ``SRT_DEFINITIONS``, `side` "server" or "client"."""
    if definition == "tshark":
        flags = ops.flags[rows]
        shown_call_ns = np.where(flags & CALL_SHOWN_LAST, ops.t1[rows], ops.t0[rows])
        return np.where(flags & REPLY_SHOWN_LAST, ops.t3[rows], ops.t2[rows]) - shown_call_ns
    if definition == "first":
        return ops.t2[rows] - ops.t0[rows]
    return ops.t2[rows] - ops.t1[rows] if side == "server" else ops.t3[rows] - ops.t0[rows]
