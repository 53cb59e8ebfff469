"""One capture, decoded -> calls of each connection that it does not show, by the gaps in the client's XIDs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.kernels.order import side_by_side
from nfslat.model.blocks import tally
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NFS
from nfslat.model.tables import I32, I64, U32, Bool, Loose
from nfslat.select import client_ends

_COUNTS_UP, _LARGEST_GAP = 0.3, 1000  # XIDs of a connection that count up, with gaps
_OWN = 0.9  # numbers there are for each call; where there are fewer they come again


class Steps(NamedTuple):
    """From each XID of some, each taken once, to the next larger one."""

    is_wire: bool  # they are counted in the byte order of the wire, else in the other
    steps: int
    ones: int  # of 1
    total: int
    left_out: int  # numbers that those leave out that are not larger than `_LARGEST_GAP`

    @classmethod
    def of(cls, xids: U32) -> Steps:
        """The steps of `xids`, which are one at least and in any order."""
        return cls(*native.xid_steps(np.ascontiguousarray(xids), _LARGEST_GAP))


class Calls(NamedTuple):
    """Calls of all programs, answered or not: NFSACL shares NFS's connections and XIDs. Rows of columns as in `Ops`."""

    conn: I32
    xid: U32
    is_nfs: Bool
    clients: Sequence[str]  # address of the client of each connection

    def take(self, rows: Bool) -> Calls:
        """Some of them."""
        return self._replace(conn=self.conn[rows], xid=self.xid[rows], is_nfs=self.is_nfs[rows])


def calls_of(decoded: Decoded) -> Calls:
    """All of a capture: those with an answer first, then those of `unanswered`."""
    ops, loose = decoded.ops, unanswered(decoded)
    nfs = np.array([kind.program == NFS for kind in ops.kinds], dtype=np.bool_)
    conn, xid, kind = ops.conn, ops.xid, ops.kind
    if len(loose):
        conn, xid, kind = (
            np.concatenate([one, vars(loose)[name]]) for name, one in (("conn", conn), ("xid", xid), ("kind", kind))
        )
    clients = [address for address, _ in client_ends(ops)]
    is_nfs = nfs[kind] if len(nfs) else np.zeros(0, dtype=np.bool_)
    return Calls(conn, xid, is_nfs, clients)


def unanswered(decoded: Decoded) -> Loose:
    """Calls among the loose messages."""
    return decoded.loose.take(decoded.loose.is_reply == 0)


def missing_calls(decoded: Decoded) -> I64:
    """`missing_of` all calls of a capture."""
    return missing_of(calls_of(decoded))


def missing_of(calls: Calls) -> I64:
    """Calls of each connection that are not among these, counted by the gaps in the client's XIDs; 0 where they do not
    count up.

    Most clients count their XIDs up by one a call on each connection (Linux net/sunrpc/xprt.c: xprt_alloc_xid), in the
    byte order of the machine. A lower bound: what is missing at the beginning and at the end leaves no gap. Others
    number the calls of all their connections in one row: what one connection leaves out another one has.
    """
    conn, xids, clients = calls.conn, calls.xid, calls.clients
    missing = np.zeros(len(clients), dtype=np.int64)
    with_nfs = np.flatnonzero(tally(len(conn), len(clients), lambda at: conn[at][calls.is_nfs[at]])).tolist()
    if len(missing) == 1:
        missing[:] = _gaps(xids) if with_nfs else 0
        return missing
    order, places = side_by_side(len(conn), len(missing), lambda at: conn[at])
    for row in with_nfs:
        missing[row] = _gaps(xids[order[places[row]]])
    for client in {clients[row] for row in np.flatnonzero(missing).tolist()}:
        of_client = [row for row, address in enumerate(clients) if address == client and len(order[places[row]])]
        if len(of_client) > 1:
            missing[of_client] = _gaps_of_all([xids[order[places[row]]] for row in of_client], missing[of_client])
    return missing


def in_order(xids: U32, others: U32) -> tuple[I64, I64] | None:
    """XIDs of a connection's calls, and `others` of it, as the numbers that its client counts up; None if it does not.

    Such numbers are in the order in which the calls were made.
    """
    if len(xids) < 2:
        return None
    steps = Steps.of(xids)
    if steps.ones < _COUNTS_UP * steps.steps or not steps.steps:
        return None
    if steps.total + 1 < _OWN * len(xids):
        return None
    calls, rest = ((some if steps.is_wire else some.byteswap()).astype(np.int64) for some in (xids, others))
    return calls, rest


def left_out(calls: I64, known: I64, missing: int) -> I64:
    """Numbers that `calls` leave out and nothing else of the capture shows (`known`), `missing` of both together.

    Fewer are `missing` where other connections of the client have some; then those in the largest gaps are theirs.
    """
    ordered = np.unique(calls)
    steps = np.diff(ordered)
    gaps = np.flatnonzero((steps > 1) & (steps <= _LARGEST_GAP))
    gaps = gaps[np.argsort(steps[gaps], kind="stable")]
    sizes = steps[gaps] - 1
    firsts = np.repeat(ordered[gaps] + 1 - (np.cumsum(sizes) - sizes), sizes)
    out = firsts + np.arange(len(firsts))
    out = out[~np.isin(out, known)]
    return np.sort(out[: max(missing - len(known), 0)] if missing < int(sizes.sum()) else out)


def _gaps_of_all(xids: list[U32], gaps: I64) -> I64:
    """Of several connections of one client: gaps in all their XIDs together, of each connection those behind its own.

    `gaps` are those of each by itself; what does not count up by itself (none) only fills those of others.
    """
    ordered = Steps.of(xids[int(gaps.argmax())]).is_wire
    row = np.repeat(np.arange(len(xids)), [len(one) for one in xids])
    together = np.concatenate(xids) if ordered else np.concatenate(xids).byteswap()
    order = np.argsort(together, kind="stable")
    steps = np.diff(together[order].astype(np.int64))
    counts = (steps > 1) & (steps <= _LARGEST_GAP) & (gaps > 0)[row[order[:-1]]]
    return np.bincount(row[order[:-1][counts]], steps[counts] - 1, len(xids)).astype(np.int64)


def _gaps(xids: U32) -> int:
    steps = Steps.of(xids)
    return steps.left_out if steps.ones >= _COUNTS_UP * steps.steps else 0
