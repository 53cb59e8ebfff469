"""Ops, matched ops and theta -> durations in int64 ns: SRT as asked for, and the five parts (docs/method.md)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from nfslat.clock.clock import Clock
from nfslat.model.blocks import filled, together
from nfslat.model.tables import CALL_SHOWN_LAST, I32, I64, REPLY_SHOWN_LAST, Matched, Ops

# How the SRT of an op is measured.
SRT_DEFINITIONS = {
    "nfslat": "client: first byte of call to last byte of reply; server: last byte of call to first byte of reply",
    "tshark": "from the frame where tshark shows the call to the one where it shows the reply",
}


PART_NAMES = ("call_send", "call_net", "server", "reply_send", "reply_net")
_INSTANTS = ("c0", "c1", "s1", "s2", "s3", "c3")  # each part lies between two neighbours


class ClientClock(Protocol):
    """What puts instants of the server's clock on the client's (`nfslat.clock.clock.Clock`)."""

    def on_client(self, client_rows: I32 | I64, *server_ns: I64) -> list[I64]:
        """For the ops matched to `client_rows`, int64 ns."""
        ...


class ConstantOffset(NamedTuple):
    """A `ClientClock` for a server's clock that is `theta_ns` ahead of the client's all the time."""

    theta_ns: int

    def on_client(self, _: I32 | I64, *server_ns: I64) -> list[I64]:
        """For any ops, int64 ns."""
        return [ns - self.theta_ns for ns in server_ns]


class Parts(NamedTuple):
    """The five parts of each matched op, int ns, made when asked for. They sum exactly to t3 - t0 on the client,
    whatever theta is: the server's instants are put on the client's clock, and the parts lie between them.

    A negative part is kept: it tells of a wrong stamp, a wrong match or capture reordering.
    """

    server: Ops
    client: Ops
    matched: Matched
    clock: ClientClock

    def ns(self, name: str, at: slice | I64 = slice(None)) -> I64:
        """The part `name` (one of ``PART_NAMES``) of the matched ops in rows `at`."""
        place = PART_NAMES.index(name)
        begin, end = self._instants(at, _INSTANTS[place : place + 2])
        return end - begin

    def whole_ns(self, name: str) -> I64:
        """The part `name` of all matched ops."""
        return filled(len(self.matched), np.int64, lambda at: self.ns(name, at))

    def all_ns(self, at: slice | I64 = slice(None)) -> tuple[I64, I64, I64, I64, I64]:
        """Each part of the matched ops in rows `at`, in the order of ``PART_NAMES``."""
        c0, c1, s1, s2, s3, c3 = self._instants(at, _INSTANTS)
        return c1 - c0, s1 - c1, s2 - s1, s3 - s2, c3 - s3

    def _instants(self, at: slice | I64, asked: tuple[str, ...]) -> list[I64]:
        """Instants on the client's clock."""
        known = self.matched.client[at]
        s, c = together(self.matched.server[at]), together(known)
        of_server = [getattr(self.server, f"t{name[1]}")[s] for name in asked if name[0] == "s"]
        placed = iter(self.clock.on_client(known, *of_server) if of_server else [])
        return [next(placed) if name[0] == "s" else getattr(self.client, f"t{name[1]}")[c] for name in asked]


def srt_ns(ops: Ops, definition: str, side: str, rows: slice | I32 | I64 = slice(None)) -> I64:
    """SRT of the ops in `rows`, int ns. `definition` is a key of ``SRT_DEFINITIONS``, `side` "server" or "client"."""
    begin, end = srt_instants(ops, definition, side, rows)
    return end - begin


def srt_instants(ops: Ops, definition: str, side: str, rows: slice | I32 | I64 = slice(None)) -> tuple[I64, I64]:
    """Between which instants the SRT of `srt_ns` lies."""
    if definition == "tshark":
        flags = ops.flags[rows]
        return (
            np.where(flags & CALL_SHOWN_LAST, ops.t1[rows], ops.t0[rows]),
            np.where(flags & REPLY_SHOWN_LAST, ops.t3[rows], ops.t2[rows]),
        )
    return (ops.t1[rows], ops.t2[rows]) if side == "server" else (ops.t0[rows], ops.t3[rows])


def client_srt_ns(client: Ops, matched: Matched, definition: str) -> I64:
    """Client SRT of each matched op."""
    rows = matched.client
    return filled(len(rows), np.int64, lambda at: srt_ns(client, definition, "client", together(rows[at])))


def server_srt_ns(server: Ops, matched: Matched, clock: Clock, definition: str) -> I64:
    """Server SRT of each matched op; on the client's clock where the two run at different rates."""

    def measure(at: slice) -> I64:
        of_server = together(matched.server[at])
        if not clock.drifts:
            return srt_ns(server, definition, "server", of_server)
        begin, end = clock.on_client(matched.client[at], *srt_instants(server, definition, "server", of_server))
        return end - begin

    return filled(len(matched), np.int64, measure)
