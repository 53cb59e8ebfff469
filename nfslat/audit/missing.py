"""One side -> how much of its traffic the capture does not show, and what that does to the answer."""

from __future__ import annotations

import numpy as np

from nfslat.audit.words import LEAN, MANY, be, have, note, share, size, some
from nfslat.columns import side_by_side
from nfslat.constants import NFS
from nfslat.decode.decoded import Decoded
from nfslat.report.model import AuditNote
from nfslat.results import Side
from nfslat.select import client_ends
from nfslat.tables import I64, U32, State, hosts

_COUNTS_UP, _LARGEST_GAP = 0.3, 1000  # XIDs of a connection that count up, with gaps
_SPARSE = 8  # where XIDs are less dense than one in so many numbers, they are sorted
# Messages without a partner are no surprise where others are known to be missing: three for one, as those are "at
# least" and "about" so many, and one for as many lost bytes as the smallest call has.
_EXPLAINED, _SMALLEST = 3, 100


def missing_notes(side: Side, gaps: I64) -> list[AuditNote]:
    """Drops, headers and calls that are not shown, messages without a partner. `gaps` are its `missing_calls`.

    Where one of them brings the others about, that one is the warning and says what it cost; the others are counted.
    """
    d = side.decoded
    hidden, missing = d.hidden, int(gaps.sum())
    unanswered, orphans = d.states[State.NO_REPLY], d.states[State.NO_CALL]
    messages, calls = max(d.messages, 1), max(len(d.ops) + unanswered + missing, 1)
    is_explained = unanswered + orphans <= _EXPLAINED * (hidden + missing) + d.lost_bytes / _SMALLEST
    is_much = max(hidden / messages, missing / calls) > MANY
    is_much |= is_explained and max(unanswered, orphans) > MANY * messages
    leading = "drops" if d.lost_ranges else ""
    if is_much and not leading:
        leading = "calls" if missing / calls > hidden / messages else "headers"

    not_shown = f"about {some(missing, 'call')} ({share(missing, calls)}) {be(missing)} not shown"
    no_reply, no_call = (
        f"{some(unanswered, 'call')} {have(unanswered)} no reply",
        f"{some(orphans, 'reply', 'replies')} {have(orphans)} no call",
    )
    costs = [not_shown] * bool(missing and leading != "calls")
    if is_explained:
        costs += [no_reply] * bool(unanswered) + [no_call] * bool(orphans)
    cost = f"; {', '.join(costs)}" if costs else ""

    dropped = (
        f"the capture host dropped packets: {some(d.lost_ranges, 'range')} of TCP data ({size(d.lost_bytes)}) "
        f"acknowledged but never captured{cost}. {LEAN}. A larger buffer (tcpdump -B) or a smaller -s helps"
    )
    counted = (
        f"the capturing host itself counted {some(d.interface_drops, 'packet')} that it did not capture; ops may be "
        "missing. A larger buffer (tcpdump -B) or a smaller -s helps"
    )
    snaplen = side.source.snaplen
    where = "lost packets" if snaplen is None else f"lost packets or behind the snaplen of {snaplen:,}"
    more = "" if snaplen is None else ". tcpdump -s 0 shows what lies behind the snaplen"
    headers = f"at least {some(hidden, 'RPC header')} ({share(hidden, messages)}) {be(hidden)} not captured, in {where}"
    headers += f"{cost}. {LEAN}{more}" if leading == "headers" else "; their ops are left out"
    not_shown += ", by the gaps in the client's XIDs"
    if leading == "calls":
        not_shown += f"{cost}. {LEAN}{more}"
    return [
        note("capture-drops", d.lost_ranges, dropped, warn=True),
        note("capture-interface-drops", d.interface_drops, counted, warn=not d.lost_ranges),
        note("capture-truncated", hidden, headers, warn=leading == "headers"),
        note("capture-missing-calls", missing, not_shown, warn=leading == "calls"),
        note(
            "capture-unanswered",
            unanswered,
            f"{some(unanswered, 'call')} without a reply {be(unanswered)} left out",
            warn=not is_explained and unanswered > MANY * messages,
        ),
        note(
            "capture-orphans",
            orphans,
            f"{some(orphans, 'reply', 'replies')} without a call {be(orphans)} left out",
            warn=not is_explained and orphans > MANY * messages,
        ),
    ]


def missing_calls(decoded: Decoded) -> I64:
    """Calls of each connection that the capture does not show, counted by the gaps in the client's XIDs; 0 where they
    do not count up.

    Most clients count their XIDs up by one a call on each connection (Linux net/sunrpc/xprt.c: xprt_alloc_xid), in the
    byte order of the machine. A lower bound: what is missing at the beginning and at the end leaves no gap. Others
    number the calls of all their connections in one row: what one connection leaves out another one has.
    """
    ops, loose = decoded.ops, decoded.loose
    calls = loose.take(loose.is_reply == 0)  # of all programs: NFSACL shares NFS's connections and XIDs
    nfs = np.array([kind.program == NFS for kind in ops.kinds], dtype=np.bool_)
    with_nfs = {*ops.classes.conn[nfs[ops.classes.kind]].tolist(), *calls.conn[nfs[calls.kind]].tolist()}
    missing = np.zeros(len(ops.connections), dtype=np.int64)
    conn, xids = ops.conn, ops.xid
    if len(calls):
        conn, xids = np.concatenate([conn, calls.conn]), np.concatenate([xids, calls.xid])
    if len(missing) == 1:
        missing[:] = _gaps(xids) if with_nfs else 0
        return missing
    order, places = side_by_side(len(conn), len(missing), lambda at: conn[at])
    for row in with_nfs:
        missing[row] = _gaps(xids[order[places[row]]])
    clients = [address for address, _ in client_ends(ops)]
    for client in {clients[row] for row in np.flatnonzero(missing).tolist()}:
        of_client = [row for row, address in enumerate(clients) if address == client and len(order[places[row]])]
        if len(of_client) > 1:
            missing[of_client] = _gaps_of_all([xids[order[places[row]]] for row in of_client], missing[of_client])
    return missing


def _gaps_of_all(xids: list[U32], gaps: I64) -> I64:
    """Of several connections of one client: gaps in all their XIDs together, of each connection those behind its own.

    `gaps` are those of each by itself; what does not count up by itself (none) only fills those of others.
    """
    ordered = _as_counted(xids[int(gaps.argmax())])[0]
    row = np.repeat(np.arange(len(xids)), [len(one) for one in xids])
    together = np.concatenate(xids) if ordered else np.concatenate(xids).byteswap()
    order = np.argsort(together, kind="stable")
    steps = np.diff(together[order].astype(np.int64))
    counts = (steps > 1) & (steps <= _LARGEST_GAP) & (gaps > 0)[row[order[:-1]]]
    return np.bincount(row[order[:-1][counts]], steps[counts] - 1, len(xids)).astype(np.int64)


def _gaps(xids: U32) -> int:
    _, counted = _as_counted(xids)
    if np.count_nonzero(counted == 1) < _COUNTS_UP * len(counted):
        return 0
    return int((counted[counted <= _LARGEST_GAP] - 1).sum())


def _as_counted(xids: U32) -> tuple[bool, I64]:
    """Are they counted in the byte order of the wire? And the steps from each to the next, in the order in which they
    are counted."""
    # In that order they are near each other.
    swapped = xids.byteswap()
    is_wire = int(xids.max() - xids.min()) <= int(swapped.max() - swapped.min())
    counted = _steps(xids if is_wire else swapped)
    if np.count_nonzero(counted == 1) * 2 < len(counted):
        other = _steps(swapped if is_wire else xids)
        if np.count_nonzero(other == 1) > np.count_nonzero(counted == 1):
            return not is_wire, other
    return is_wire, counted


def _steps(xids: U32) -> I64:
    """From each of the XIDs, each taken once, to the next larger one."""
    lowest = xids.min()
    span = int(xids.max() - lowest) + 1
    if span > _SPARSE * len(xids):
        steps = np.asarray(np.diff(np.sort(xids).astype(np.int64)), dtype=np.int64)
        return steps[steps > 0]
    present = np.zeros(span, dtype=np.bool_)
    present[xids - lowest] = True
    return np.asarray(np.diff(np.flatnonzero(present)), dtype=np.int64)


def unseen_share(side: Side, other: Side, gaps: I64) -> float:
    """Share of the RPC messages, or of the calls, that a capture should show and does not: without a partner, or not
    captured. What is missing is rarely like the rest (it was sent when much was going on), so figures lean.

    Traffic of hosts that the `other` capture does not know is left out, unless nothing is left (NAT). `gaps` are the
    `missing_calls` of the side.
    """
    d, answered = side.decoded, side.ops.classes
    known = hosts(other.ops.connections)
    shared = np.array([hosts([ends]) <= known for ends in side.ops.connections], dtype=np.bool_)
    if not shared.any():
        shared = ~shared
    loose = d.loose.take(shared[d.loose.conn])
    ops = int(answered.count[shared[answered.conn]].sum())
    alone = int(np.isin(loose.state, (State.NO_REPLY, State.NO_CALL)).sum()) + d.hidden
    messages = 2 * ops + len(loose) + sum(d.repeats.values()) + d.hidden + d.malformed
    missing = int(gaps[shared].sum())
    calls = ops + int((loose.state == State.NO_REPLY).sum()) + missing
    return max(alone / max(messages, 1), missing / max(calls, 1))
