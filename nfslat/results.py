"""What the stages found, as fields that `nfslat.pipeline` fills: one side; two sides compared; the same, analysed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import cached_property
from itertools import pairwise

import numpy as np
from msgspec import field

from nfslat.clock.clock import Clock
from nfslat.clock.tick import Tick, tick_of
from nfslat.decode.capture import Source
from nfslat.decompose import Parts
from nfslat.inflight.all_clients import ServerWide
from nfslat.inflight.analysis import InFlight, OneSide
from nfslat.inflight.serial import Serial
from nfslat.inflight.shared import ServerShare, SharedServer
from nfslat.match.match import Matching
from nfslat.model.blocks import each_block
from nfslat.model.decoded import Decoded, Directions
from nfslat.model.protocol import MOUNT, NLM
from nfslat.model.record import Record
from nfslat.model.tables import I8, I16, I64, Bool, Matched, Ops
from nfslat.model.units import NS_PER_S
from nfslat.outcomes.recovery import Recovery
from nfslat.outcomes.tries import Request
from nfslat.peer.inferred import Inferred
from nfslat.peer.own import OwnStamps
from nfslat.select import OF_TIME, REASONS, is_reverse, is_without_filters, op_labels
from nfslat.wire.charges.analysis import Charged
from nfslat.wire.resends import Waits
from nfslat.wire.size_limit import SizeLimit
from nfslat.wire.unseen import Unseen

# A minute: clocks that are set, and queues that stamp packets by themselves, are off by less, broken stamps by years.
IMPOSSIBLE_NS = 60 * NS_PER_S


class Side(Record, dict=True):
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

    @cached_property
    def tick(self) -> Tick:
        """Of its stamps."""
        return tick_of(self.ops)

    @cached_property
    def impossible_ops(self) -> int:
        """Ops with a time stamp that lies more than `IMPOSSIBLE_NS` before that of what was sent earlier."""
        ops = self.ops

        def count(at: slice) -> int:
            stamps = (ops.t0[at], ops.t1[at], ops.t2[at], ops.t3[at])
            later = [earlier - then > IMPOSSIBLE_NS for earlier, then in pairwise(stamps)]
            return int(np.count_nonzero(np.any(later, axis=0)))

        return sum(each_block(len(ops), count))

    @property
    def kept(self) -> Bool:
        """Mask of the selected ops."""
        return np.asarray(self.reasons == REASONS.index("selected"))

    @cached_property
    def forward(self) -> Bool:
        """Mask of the selected ops that an NFS client called."""
        return np.asarray(self.kept & ~self.ops.spread(is_reverse(self.ops)))

    @property
    def beside(self) -> Bool:
        """Mask of a client's calls of MOUNT and NLM, which its users see as NFS; none where filters leave out more."""
        ops = self.ops
        if not is_without_filters(self.reasons):
            return np.zeros(len(ops), dtype=np.bool_)
        is_it = np.array([kind.program in (MOUNT, NLM) for kind in ops.kinds], dtype=np.bool_)
        return np.asarray(~self.kept & is_it[ops.kind] & ~ops.spread(is_reverse(ops)))

    @property
    def flying(self) -> Bool:
        """Mask of the ops that count as in flight: `forward`, and other operations, which take the same threads and
        slots."""
        counts = self.kept | (self.reasons == REASONS.index("not --op"))
        return np.asarray(counts & ~self.ops.spread(is_reverse(self.ops)))

    @cached_property
    def span_ns(self) -> tuple[int, int] | None:
        """From the arrival of the first op that is in the time which was asked for to that of the last; None: no time
        was."""
        outside = np.isin(self.reasons, [REASONS.index(one) for one in OF_TIME])
        if not outside.any() or outside.all():
            return None
        arrived = self.ops.t1[~outside]
        return int(arrived.min()), int(arrived.max())


def one_side(side: Side, missing: I64) -> OneSide:
    """What `in_flight` goes by; `missing` are the `missing_calls` of the side."""
    d = side.decoded
    reverse = is_reverse(d.ops)
    return OneSide(d.ops, d.loose, d.details, d.states, int(missing.sum()), side.flying, reverse, span_ns=side.span_ns)


class Order(Enum):
    """How it was found which of two captures is the server's."""

    AS_GIVEN = "as given"
    EXCHANGED = "exchanged"  # the client's was given first
    UNCLEAR = "unclear"  # as given, for the packets do not tell


class Correlation(Record, dict=True):
    """Two sides, matched. `matched` holds only selected ops that the client called (no callbacks), and that were not
    under way when a clock was set: `untimed` counts those."""

    server: Side
    client: Side
    matching: Matching
    matched: Matched
    clock: Clock
    srt: str
    order: Order = Order.AS_GIVEN
    untimed: int = 0
    inferred: Inferred | None = None  # one of the sides was not captured
    # Of each side whose time stamps tell: what its capture says of them.
    own: Mapping[str, OwnStamps] = field(default_factory=dict)
    # Of each side that was captured: the tick of its stamps.
    ticks: Mapping[str, Tick] = field(default_factory=dict)
    # By side and address: by how much the stamps of a host were later than they are here, where a capture is made of
    # those of several hosts.
    moved_ns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Ways of connections in which large segments vanish.
    size_limits: tuple[SizeLimit, ...] = ()
    # Where the server's side holds the ops of one of its clients: the server, which works for others, too.
    share: ServerShare | None = None

    @cached_property
    def parts(self) -> Parts:
        """The five parts of each of `matched`, made when they are asked for."""
        return Parts(self.server.ops, self.client.ops, self.matched, self.clock)

    @property
    def measured(self) -> dict[str, Side]:
        """The sides that were captured, by name."""
        sides = {"server": self.server, "client": self.client}
        return {name: side for name, side in sides.items() if self.inferred is None or name != self.inferred.side}

    @property
    def sender(self) -> Side:
        """The side whose packets say what the client's host sent again, and on which connection: its own, if it was
        captured."""
        return self.server if self.inferred is not None and self.inferred.side == "client" else self.client

    @property
    def swapped(self) -> bool:
        """Were the captures given client first?"""
        return self.order is Order.EXCHANGED

    @property
    def engine(self) -> str:
        """What decoded the captures."""
        return " and ".join(dict.fromkeys((self.server.decoded.engine, self.client.decoded.engine)))

    def missed(self, side: str) -> I8:
        """`Miss` value of each op of `side` ("server" or "client")."""
        return self.matching.unmatched.server if side == "server" else self.matching.unmatched.client

    def compared(self, side: str) -> Bool:
        """Mask of the ops of `side` ("server" or "client") that the comparison is about: selected, not reverse."""
        return (self.server if side == "server" else self.client).forward


class Analysis(Correlation, dict=True, kw_only=True):
    """Two sides, matched, with their response times, and what TCP and the hosts did to their ops."""

    missing_calls: Mapping[str, I64]  # of each side: calls of each connection that its capture does not show
    unseen: Mapping[str, Unseen | None]  # of each side: ops that its capture knows of and does not show
    retrans_waits_ns: tuple[Waits, Waits] | None  # parts of call_net and reply_net, to be sent again; None: not known
    charges: Charged | None  # what the time of each matched op is charged to; None: the clocks, or TCP, are not known
    inflight: InFlight  # what was in flight, and what limits it
    serial: Serial | None  # calls that ask one after the other, where they are most of the time
    tried_again: Sequence[Request]  # requests that the server put off with errors, as the client's capture shows them
    recoveries: Sequence[Recovery]  # when the client made state anew that the server had lost
    client_srt_ns: I64  # of each matched op
    server_srt_ns: I64  # the same; on the client's clock where the two run at different rates
    kind: I16  # of each matched op: row of the ``kinds`` of the client's ops
    ops_of: Mapping[str, int]  # matched ops of each operation, by its name
    coarse_ns: int = 0  # the tick of stamps that bear no more than means; 0: they bear all

    @cached_property
    def whole_server(self) -> SharedServer:
        """The server, where there is one, with all that its capture shows."""
        known = self.inflight
        side = one_side(self.server, self.missing_calls["server"])._replace(servers=(known.load.jobs.addresses,))
        return SharedServer(side, ServerWide(known.server, known.load, known.caps))

    def rows_of(self, names: Collection[str]) -> I64:
        """Rows of the matched ops whose operation has one of `names`."""
        wanted = np.array([label in names for label in op_labels(self.client.ops.kinds)], dtype=np.bool_)
        return np.flatnonzero(wanted[self.kind])
