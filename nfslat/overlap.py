"""Two sides -> do they show the same traffic? Clock offsets of matched ops, swapped or equal files, nothing shared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from nfslat.errors import InputError
from nfslat.tables import I64, Matched, Ops

if TYPE_CHECKING:
    from nfslat.results import Side

_NAMED_ENDS = 3
_COARSE_NS = 1_000_000
_ENOUGH_OPS = 10


def offsets(server: Ops, client: Ops, matched: Matched) -> I64:
    """Server clock minus client clock as each matched op shows it, int ns; wrong by at most half its round trip."""
    s, c = matched.server, matched.client
    return ((server.t0[s] - client.t0[c]) + (server.t3[s] - client.t3[c])) // 2


def offset_at(t_ns: I64, known_ns: I64, offset_ns: I64) -> I64:
    """The offset at times `t_ns`, taken from the nearest of the `known_ns` times; needs no clock model."""
    order = np.argsort(known_ns, kind="stable")
    known, offset = known_ns[order], offset_ns[order]
    right = np.clip(np.searchsorted(known, t_ns), 0, len(known) - 1)
    left = np.clip(right - 1, 0, None)
    nearer_left = np.abs(t_ns - known[left]) < np.abs(known[right] - t_ns)
    return np.asarray(np.where(nearer_left, offset[left], offset[right]), dtype=np.int64)


def is_swapped(server: Ops, client: Ops, matched: Matched) -> bool:
    """Are the two files the wrong way round?

    An op takes longer at the client than at the server, first byte to last byte, on any network: the call leaves the
    client before it arrives, the reply arrives after it left.
    """
    if not len(matched):
        return False
    at_server = (server.t3 - server.t0)[matched.server]
    at_client = (client.t3 - client.t0)[matched.client]
    return bool(np.median(at_client - at_server) < 0)


def refuse_same_capture(server: Side, client: Side, matched: Matched) -> None:
    """Raise ``InputError`` where both files were taken at one point: all times equal, or all apart by one amount.

    On a network no two packets travel equally long to the microsecond; clocks of 10 ms cannot tell.
    """
    s, c = matched.server, matched.client
    apart = np.concatenate([server.ops.t0[s] - client.ops.t0[c], server.ops.t3[s] - client.ops.t3[c]])
    fine = (client.ops.t0[c] % _COARSE_NS != 0).any()
    if (apart == 0).all() or (len(s) >= _ENOUGH_OPS and fine and (apart == apart[0]).all()):
        raise InputError(
            f"{server.source.name} and {client.source.name} hold the same packets with the same times: "
            "one capture given twice; give the one taken on the server and the one taken on the client"
        )


def refuse_without_common_op(server: Side, client: Side) -> NoReturn:
    """Raise ``InputError`` that says what each capture holds, so that the wrong file can be found."""
    keys_s = {connection.key for connection in server.ops.connections}
    common = any(connection.key in keys_s for connection in client.ops.connections)
    what = "the same connections but no call in common" if common else "no connection or XID in common"
    raise InputError(f"the captures have {what}: {_range(server)}; {_range(client)}; were they taken at the same time?")


def _range(side: Side) -> str:
    ends = sorted({side.ops.connections[c].destination(d)[0] for c, d in _ways(side.ops)})
    callers = sorted({side.ops.connections[c].source(d)[0] for c, d in _ways(side.ops)})
    first, last = (
        datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for ns in (side.decoded.first_ns, side.decoded.last_ns)
    )
    return f"{side.source.name} has {_few(callers)} calling {_few(ends)} from {first} to {last} UTC"


def _ways(ops: Ops) -> set[tuple[int, int]]:
    return set(zip(ops.conn.tolist(), ops.direction.tolist(), strict=True))


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED_ENDS]) or "nobody"
    return f"{shown} and {len(names) - _NAMED_ENDS} more" if len(names) > _NAMED_ENDS else shown
