"""An `Analysis`, or kept rows -> what tallies sum of each op, made block by block: `OpColumns`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from nfslat.clock.clock import Clock
from nfslat.model.blocks import together
from nfslat.model.protocol import DATA_OPS, NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool, Ops
from nfslat.results import Analysis
from nfslat.select import op_labels
from nfslat.wire.resends import Waits

NOT_TOLD = NULL - 1  # as a wait for a thread: the load of the server does not tell how long its ops wait
At = slice | I32 | I64
Column = Callable[[At], I64]


class OpColumns(Record, eq=False):
    """Columns of `rows` ops; None: not known of any. `client_ns` and `server_ns` are response times."""

    rows: int
    server_ns: Column
    client_ns: Column | None = None
    wait_ns: Column | None = None  # for a thread: `NULL` of an op that has none that is known, or `NOT_TOLD`
    parts_ns: Callable[[At], Sequence[I64]] | None = None  # in the order of `nfslat.decompose.PART_NAMES`
    resent_ns: Callable[[At], Sequence[I64]] | None = None  # part of call_net and of reply_net, to be sent again
    # Bytes that READ asks for and WRITE sends, 0 of other operations; `NULL` where neither capture shows the size.
    sizes: Column | None = None
    again: Column | None = None  # how often RPC sent the call again
    clock: Clock | None = None  # that one-way times rest on, of
    client: Ops | None = None  # these ops, in
    client_rows: Callable[[At], I32 | I64] | None = None  # these rows

    @classmethod
    def of(cls, c: Analysis, only: I64 | None = None) -> Self:
        """The matched ops of `c`; `only`: those in these rows."""

        def asked(at: At) -> At:
            return at if only is None else only[at]

        is_data = np.array([label in DATA_OPS for label in op_labels(c.client.ops.kinds)], dtype=np.bool_)
        load, waits, client = c.inflight.load, c.retrans_waits_ns, c.client.ops
        fits = c.clock.fits
        return cls(
            rows=len(c.matched) if only is None else len(only),
            server_ns=lambda at: c.server_srt_ns[asked(at)],
            client_ns=lambda at: c.client_srt_ns[asked(at)],
            wait_ns=(lambda at: load.queue_ns[together(c.matched.server[asked(at)])]) if load.tells else None,
            parts_ns=lambda at: c.parts.all_ns(_wide(asked(at))),
            resent_ns=None
            if waits is None or not fits
            else lambda at: [_of_rows(one, asked(at), len(c.matched)) for one in waits],
            sizes=lambda at: _sizes(c, asked(at), is_data),
            again=lambda at: np.maximum(
                client.transmissions[together(c.matched.client[asked(at)])].astype(np.int64) - 1, 0
            ),
            clock=c.clock if fits else None,
            client=client,
            client_rows=lambda at: c.matched.client[asked(at)],
        )


def _wide(at: At) -> slice | I64:
    return at if isinstance(at, slice) else at.astype(np.int64)


def _sizes(c: Analysis, at: At, is_data: Bool) -> I64:
    sizes = c.client.ops.size[together(c.matched.client[at])].astype(np.int64)
    if len(holes := np.flatnonzero(sizes == NULL32)):
        at_server = c.server.ops.size[c.matched.server[at][holes]].astype(np.int64)
        sizes[holes] = np.where(at_server == NULL32, NULL, at_server)
    sizes[~is_data.take(c.kind[at])] = 0
    return sizes


def _of_rows(waits: Waits, at: At, count: int) -> I64:
    """The wait of each of the matched ops in `at`, 0 where there is none."""
    if isinstance(at, slice):
        begin, end, _ = at.indices(count)
        out = np.zeros(end - begin, dtype=np.int64)
        mine = slice(*np.searchsorted(waits.row, (begin, end)).tolist())
        out[waits.row[mine] - begin] = waits.ns[mine]
        return out
    if not len(waits.row):
        return np.zeros(len(at), dtype=np.int64)
    places = np.minimum(np.searchsorted(waits.row, at), len(waits.row) - 1)
    return np.where(waits.row[places] == at, waits.ns[places], 0)
