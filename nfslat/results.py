"""What the stages found, side by side: the tables of one side, and of two sides together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nfslat.clock.clock import Clock
from nfslat.decode.capture import Source
from nfslat.decode.xid_gaps import missing_calls
from nfslat.decompose import Parts, srt_instants, srt_ns
from nfslat.inflight.all_clients import ServerWide
from nfslat.inflight.analysis import InFlight, OneSide, in_flight
from nfslat.match.match import Matching
from nfslat.model.blocks import filled, tally
from nfslat.model.decoded import Decoded, Directions
from nfslat.model.tables import I8, I16, I64, Bool, Matched, Miss, Ops, hosts
from nfslat.select import REASONS, is_reverse, op_labels
from nfslat.wire.charges.analysis import Charged, charge
from nfslat.wire.resends import Waits, retrans_waits_ns


@dataclass(frozen=True)
class Side:
    """One capture, from its file to its ops; `reasons` says which of them are selected (`select`)."""

    source: Source
    decoded: Decoded
    reasons: I8

    @property
    def directions(self) -> Directions | None:
        """Two clocks in the file; then `decoded` has been put on one."""
        return self.decoded.directions

    @property
    def ops(self) -> Ops:
        """All ops of the capture."""
        return self.decoded.ops

    @property
    def kept(self) -> Bool:
        """Mask of the selected ops."""
        return np.asarray(self.reasons == REASONS.index("selected"))

    @property
    def forward(self) -> Bool:
        """Mask of the selected ops that an NFS client called."""
        return np.asarray(self.kept & ~self.ops.spread(is_reverse(self.ops)))

    @cached_property
    def missing_calls(self) -> I64:
        """Calls of each connection that the capture does not show (`xid_gaps`)."""
        return missing_calls(self.decoded)

    @property
    def flying(self) -> OneSide:
        """What `in_flight` goes by."""
        d, reverse = self.decoded, is_reverse(self.ops)
        # Other operations take the same threads and slots.
        flying = (self.kept | (self.reasons == REASONS.index("not --op"))) & ~self.ops.spread(reverse)
        missing = int(self.missing_calls.sum())
        return OneSide(self.ops, d.loose, d.details, d.states, missing, flying, reverse)


@dataclass(frozen=True)
class Correlation:
    """Two sides, matched. `matched` and `parts` hold only selected ops that the client called (no callbacks), and that
    were not under way when a clock was set: `untimed` counts those."""

    server: Side
    client: Side
    matching: Matching
    matched: Matched
    clock: Clock
    parts: Parts
    srt: str
    swapped: bool
    untimed: int
    server_wide: ServerWide | None = None  # of all clients, where `server` holds the ops of one of several

    @property
    def engine(self) -> str:
        """What decoded the captures."""
        return " and ".join(dict.fromkeys((self.server.decoded.engine, self.client.decoded.engine)))

    @cached_property
    def client_srt_ns(self) -> I64:
        """Client SRT of each matched op."""
        ops, rows = self.client.ops, self.matched.client
        return filled(len(rows), np.int64, lambda at: srt_ns(ops, self.srt, "client", rows[at].astype(np.int64)))

    @cached_property
    def server_srt_ns(self) -> I64:
        """Server SRT of each matched op; on the client's clock where the two run at different rates."""

        def measure(at: slice) -> I64:
            server, client = self.matched.rows(at)
            if not self.clock.drifts:
                return srt_ns(self.server.ops, self.srt, "server", server)
            begin, end = self.clock.on_client(client, *srt_instants(self.server.ops, self.srt, "server", server))
            return end - begin

        return filled(len(self.matched), np.int64, measure)

    @cached_property
    def retrans_waits_ns(self) -> tuple[Waits, Waits] | None:
        """Of each matched op: parts of call_net and reply_net in which it waited to be sent again; None: not known."""
        return retrans_waits_ns(self.server.decoded, self.client.decoded, self.matched, self.clock)

    @cached_property
    def charges(self) -> Charged | None:
        """What the time of each matched op is charged to; None where the clocks, or what TCP did, are not known."""
        waits = self.retrans_waits_ns
        if waits is None or not self.clock.fits or not len(self.matched):
            return None
        low_ns, high_ns = self.clock.main.bounds_at(self.clock.main.t_ns)
        half_trip_ns = min(max(high_ns - low_ns, 0), self._least_rtt_ns()) // 2
        return charge(self.server.decoded, self.client.decoded, self.parts, waits, half_trip_ns)

    def _least_rtt_ns(self) -> int:
        """The shortest time from data to their ACK, as each end's capture shows it of what it sends.

        No clocks are needed for that, and it holds the way there and back, so that the distance is no longer. The
        handshake need not have been captured; and on a full path small messages meet the shortest queue.
        """
        least = []
        for side, rows, is_reply in (
            (self.client, self.matched.client, 0),
            (self.server, self.matched.server, 1),
        ):
            tcp, ops, d = side.decoded.details.tcp, side.ops, side.decoded
            if d.lost_ranges or d.interface_drops:
                continue  # what is seen of some data may be their second transmission, and the ACK that of the first
            ways = np.unique(ops.conn[rows].astype(np.int64) * 2 + (ops.direction[rows] ^ is_reply))
            timed = (tcp.rtt_count > 0) & np.isin(tcp.conn * 2 + tcp.direction, ways)
            least += tcp.rtt_min_ns[timed].tolist()
        return min(least, default=np.iinfo(np.int64).max)

    @cached_property
    def inflight(self) -> InFlight:
        """What was in flight, and what limits it."""
        server = self.server.flying
        if self.charges is not None and (in_socket_ns := self.charges.in_socket_ns()) is not None:
            of_op = np.zeros(len(server.ops), dtype=np.int64)
            of_op[self.matched.server] = in_socket_ns
            server = replace(server, in_socket_ns=of_op)
        return in_flight(server, self.client.flying, self.server_wide)

    @cached_property
    def kind(self) -> I16:
        """Kind of each matched op: row of the ``kinds`` of the client's ops."""
        return self.client.ops.kind[self.matched.client]

    @cached_property
    def ops_of(self) -> dict[str, int]:
        """Matched ops of each operation, by its name."""
        counts: Counter[str] = Counter()
        labels = op_labels(self.client.ops.kinds)
        for label, count in zip(
            labels, tally(len(self.kind), len(labels), lambda at: self.kind[at]).tolist(), strict=True
        ):
            counts[label] += count
        return dict(+counts)

    def rate_per_s(self, names: Collection[str]) -> float:
        """Ops of the client whose operation has one of `names`, per second in which any op was in flight, else 0.

        All that the report is about, matched or not: what another capture missed was done all the same.
        """
        busy_ns = self.inflight.client.levels.busy_ns
        wanted = np.array([label in names for label in op_labels(self.client.ops.kinds)], dtype=np.bool_)
        ops = int(np.count_nonzero(wanted[self.client.ops.kind] & self.compared("client"))) if len(wanted) else 0
        return ops * 1e9 / busy_ns if busy_ns else 0.0

    def rows_of(self, names: Collection[str]) -> I64:
        """Rows of the matched ops whose operation has one of `names`."""
        wanted = np.array([label in names for label in op_labels(self.client.ops.kinds)], dtype=np.bool_)
        return np.flatnonzero(wanted[self.kind])

    def missed(self, side: str) -> I8:
        """`Miss` value of each op of `side` ("server" or "client")."""
        return self.matching.unmatched.server if side == "server" else self.matching.unmatched.client

    def strangers(self, side: str) -> int:
        """Compared ops of `side` without a partner whose hosts do not both occur in the other capture: other clients,
        other servers. Behind NAT a host has another address in each, so this says nothing there."""
        one, other = (self.server, self.client) if side == "server" else (self.client, self.server)
        known = hosts(other.ops.connections)
        foreign = np.array([not hosts([ends]) <= known for ends in one.ops.connections], dtype=np.bool_)
        unmatched = np.flatnonzero(self.compared(side) & (self.missed(side) == Miss.CONNECTION_UNMATCHED))
        return int(np.count_nonzero(foreign[one.ops.conn[unmatched]])) if len(unmatched) else 0

    def compared(self, side: str) -> Bool:
        """Mask of the ops of `side` ("server" or "client") that the comparison is about: selected, not reverse."""
        return (self.server if side == "server" else self.client).forward
