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
        return self.all_ns(at)[PART_NAMES.index(name)]

    def all_ns(self, at: slice | I64 = slice(None)) -> tuple[I64, I64, I64, I64, I64]:
        """Each part of the matched ops in rows `at`, in the order of ``PART_NAMES``."""
        s, c = self.matched.rows(at)
        s1, s2, s3 = self.server.t1[s], self.server.t2[s], self.server.t3[s]
        c0, c1, c3 = self.client.t0[c], self.client.t1[c], self.client.t3[c]
        return c1 - c0, s1 - c1 - self.theta_ns, s2 - s1, s3 - s2, c3 - s3 + self.theta_ns


def srt_ns(ops: Ops, definition: str, side: str, rows: slice | I32 | I64 = slice(None)) -> I64:
    """SRT of the ops in `rows`, int ns. `definition` is a key of ``SRT_DEFINITIONS``, `side` "server" or "client"."""
    if definition == "tshark":
        flags = ops.flags[rows]
        shown_call_ns = np.where(flags & CALL_SHOWN_LAST, ops.t1[rows], ops.t0[rows])
        return np.where(flags & REPLY_SHOWN_LAST, ops.t3[rows], ops.t2[rows]) - shown_call_ns
    if definition == "first":
        return ops.t2[rows] - ops.t0[rows]
    return ops.t2[rows] - ops.t1[rows] if side == "server" else ops.t3[rows] - ops.t0[rows]
