"""Two sides -> do they show the same traffic? Clock offsets of matched ops, swapped or equal files, nothing shared."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple, NoReturn

import numpy as np

from nfslat.errors import InputError
from nfslat.model.tables import I32, I64, Matched, Ops

_NAMED_ENDS = 3
_COARSE_NS = 1_000_000
_ENOUGH_OPS = 10
_FEW, _PLENTY = 1000, 50_000
_CLEAR = 2 / 3  # of the ops


class Longer(Enum):
    """Where ops take longer: in the capture that is called the client's, as they do, or in the other one."""

    AT_CLIENT = "client"
    AT_SERVER = "server"
    UNCLEAR = "unclear"


class Given(NamedTuple):
    """A capture as the user gave it: the name of its file or set, what is in it, and from when to when (UTC ns)."""

    name: str
    ops: Ops
    first_ns: int
    last_ns: int


def offsets(server: Ops, client: Ops, matched: Matched) -> I64:
    """Server clock minus client clock as each matched op shows it, int ns; wrong by at most half its round trip."""
    s, c = matched.server, matched.client
    return ((server.t0[s] - client.t0[c]) + (server.t3[s] - client.t3[c])) // 2


def nearest(ops: Ops, rows: I64, known: I32) -> I64:
    """For each of `rows` the position in `known` (rows too, ascending, not empty) of the op that is nearest in time.

    Tables are in call order, so it is the one before or the one behind.
    """
    behind = np.clip(np.searchsorted(known, rows), 0, len(known) - 1)
    before = np.clip(behind - 1, 0, None)
    t = ops.t0
    nearer_before = np.abs(t[rows] - t[known[before]]) < np.abs(t[known[behind]] - t[rows])
    return np.where(nearer_before, before, behind)


def where_longer(server: Ops, client: Ops, matched: Matched) -> Longer:
    """Which of the two captures is the server's, as durations tell.

    An op takes longer at the client than at the server, first byte to last byte, on any network: the call leaves the
    client before it arrives, the reply arrives after it left. Of very many ops some, evenly spread, tell.
    """
    step = max(len(matched) // _PLENTY, 1)
    s, c = matched.server[::step], matched.client[::step]
    at_server, at_client = server.t3[s] - server.t0[s], client.t3[c] - client.t0[c]
    more, less = np.count_nonzero(at_server > at_client), np.count_nonzero(at_server < at_client)
    if max(more, less) < _CLEAR * max(len(s), 1):
        return Longer.UNCLEAR
    return Longer.AT_SERVER if more > less else Longer.AT_CLIENT


def refuse_same_capture(server: Given, client: Given, matched: Matched) -> None:
    """Raise ``InputError`` where both files were taken at one point: all times equal, or all apart by one amount.

    On a network no two packets travel equally long to the microsecond; clocks of 10 ms cannot tell.
    """
    first = _apart(server.ops, client.ops, matched, slice(0, 1))[0]
    # The first few tell, nearly always.
    for at in (slice(0, _FEW), slice(_FEW, None)):
        if (_apart(server.ops, client.ops, matched, at) != first).any():
            return
    fine = (client.ops.t0[matched.client] % _COARSE_NS != 0).any()
    if first == 0 or (len(matched) >= _ENOUGH_OPS and fine):
        raise InputError(
            f"{server.name} and {client.name} hold the same packets with the same times: "
            "one capture given twice; give the one taken on the server and the one taken on the client"
        )


def _apart(server: Ops, client: Ops, matched: Matched, at: slice) -> I64:
    s, c = matched.server[at], matched.client[at]
    return np.concatenate([server.t0[s] - client.t0[c], server.t3[s] - client.t3[c]])


class NothingAnsweredError(InputError):
    """Neither of two captures shows a reply, so that there is no operation to compare."""


def refuse_without_common_op(server: Given, client: Given) -> NoReturn:
    """Raise ``InputError`` that says what each capture holds, so that the wrong file can be found."""
    if not len(server.ops) and not len(client.ops):
        raise NothingAnsweredError(
            "no call has its reply in either capture; --all-programs shows who waits in each by itself"
        )
    keys_s = {connection.key for connection in server.ops.connections}
    common = any(connection.key in keys_s for connection in client.ops.connections)
    what = "the same connections but no call in common" if common else "no connection or XID in common"
    raise InputError(f"the captures have {what}: {_range(server)}; {_range(client)}; were they taken at the same time?")


def _range(given: Given) -> str:
    ops = given.ops
    ways = set(zip(ops.classes.conn.tolist(), ops.classes.direction.tolist(), strict=True))
    ends = sorted({ops.connections[conn].destination(way)[0] for conn, way in ways})
    callers = sorted({ops.connections[conn].source(way)[0] for conn, way in ways})
    first, last = (
        datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for ns in (given.first_ns, given.last_ns)
    )
    return f"{given.name} has {_few(callers)} calling {_few(ends)} from {first} to {last} UTC"


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED_ENDS]) or "nobody"
    return f"{shown} and {len(names) - _NAMED_ENDS} more" if len(names) > _NAMED_ENDS else shown
