"""What the stages found, side by side: the tables of one side, and of two sides together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nfslat.clock import Theta
from nfslat.decode.capture import Source
from nfslat.decode.reader import Decoded
from nfslat.decompose import Parts, srt_ns
from nfslat.match import Matching
from nfslat.pair import Paired
from nfslat.select import REASONS, is_reverse, op_labels
from nfslat.tables import I8, I64, Bool, Matched, Miss, Ops, hosts


@dataclass(frozen=True)
class Side:
    """One capture, from its file to its ops; `reasons` says which of them are selected (`select`)."""

    source: Source
    decoded: Decoded
    paired: Paired
    reasons: I8

    @property
    def ops(self) -> Ops:
        """All ops of the capture."""
        return self.paired.ops

    @property
    def kept(self) -> Bool:
        """Mask of the selected ops."""
        return np.asarray(self.reasons == REASONS.index("selected"))


@dataclass(frozen=True)
class Correlation:
    """Two sides, matched. `matched` and `parts` hold only selected ops that the client called (no callbacks)."""

    server: Side
    client: Side
    matching: Matching
    matched: Matched
    theta: Theta
    parts: Parts
    srt: str
    swapped: bool

    @cached_property
    def client_srt_ns(self) -> I64:
        """Client SRT of each matched op."""
        return srt_ns(self.client.ops, self.srt, "client")[self.matched.client]

    @cached_property
    def server_srt_ns(self) -> I64:
        """Server SRT of each matched op."""
        return srt_ns(self.server.ops, self.srt, "server")[self.matched.server]

    @cached_property
    def labels(self) -> npt.NDArray[np.str_]:
        """Name of the operation of each matched op."""
        return np.array(op_labels(self.client.ops.take(self.matched.client)), dtype=np.str_)

    def missed(self, side: str) -> I8:
        """`Miss` value of each op of `side` ("server" or "client")."""
        return self.matching.unmatched.server if side == "server" else self.matching.unmatched.client

    def strangers(self, side: str) -> int:
        """Compared ops of `side` without a partner whose hosts do not both occur in the other capture: other clients,
        other servers. Behind NAT a host has another address in each, so this says nothing there."""
        one, other = (self.server, self.client) if side == "server" else (self.client, self.server)
        known = hosts(other.ops.connections)
        foreign = np.array([not hosts([ends]) <= known for ends in one.ops.connections], dtype=np.bool_)
        unmatched = self.compared(side) & (self.missed(side) == Miss.CONNECTION_UNMATCHED)
        return int(foreign[one.ops.conn[unmatched]].sum()) if len(foreign) else 0

    def compared(self, side: str) -> Bool:
        """Mask of the ops of `side` ("server" or "client") that the comparison is about: selected, not reverse."""
        one = self.server if side == "server" else self.client
        return np.asarray(one.kept & ~is_reverse(one.ops))
