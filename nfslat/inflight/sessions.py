"""SEQUENCE arguments and results, CREATE_SESSION -> for each NFSv4.1 session: its slots, and how long all were in use.

All of it is on the wire (RFC 8881 sections 2.10.6.1 and 18.46): no estimate, except where messages were not captured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nfslat.inflight.levels import unseen
from nfslat.inflight.slots import Slots, held_at, is_flushed
from nfslat.kernels.order import side_by_side
from nfslat.model.details import Details, SessionLimits
from nfslat.model.protocol import NULL, NULL32, is_callback_program
from nfslat.model.tables import I64, Bool, Ops
from nfslat.model.tables import U32 as U32Column
from nfslat.peer.inferred import Stamps

_AT_ONCE_NS = 150_000  # as in `slots`
_LEAST = 0.2  # of the busy time: so long all slots must have been in use to be a limit
_FEW_SLOTS = 1 << 16
_HIDDEN = 0.25  # as in `slots`


class Session(NamedTuple):
    """One channel of one NFSv4.1 (or later) session, over all its connections."""

    session: bytes  # 16 bytes
    callbacks: bool  # the backchannel: calls from the server
    connections: tuple[int, ...]  # rows of ``Ops.connections``
    ops: int  # that have a SEQUENCE of this session
    negotiated: int | None  # slots that CREATE_SESSION granted; None: it is not in the capture
    # Slots that the server wants used (sr_target_highest_slotid + 1): least, most, and last; None: no reply shows it.
    target: tuple[int, int, int] | None
    highest_slot: int  # highest slot id in a call, from 0
    slots_used: int  # different ones
    limit: int | None  # in effect at the end: the last target, else what was negotiated
    at_limit_share: float | None  # of the busy time, with all slots of `limit` in use; None: limit or levels not known
    reuse_share: float | None  # of the uses of a slot, those within 150 us of the reply to its last one; None: no reuse
    reuse_us: tuple[float, float] | None  # median and third quartile of that time
    slots: Slots  # what the levels of the session look like, whatever the limit

    @property
    def limited(self) -> bool:
        """Were all slots in use for longer than any smaller number of them? What would ask for more piles up at a limit
        that it knows, however late a busy client fills slots that are free. Whether calls waited is not on the wire."""
        if self.limit is None or self.at_limit_share is None or self.at_limit_share < _LEAST:
            return False
        return all(self.at_limit_share > (self.slots.levels.share(level) or 0.0) for level in range(1, self.limit))

    @property
    def own_limit(self) -> int | None:
        """Slots to which the client likely keeps by itself, below what the server gives; None: no sign of that."""
        level = self.slots.level
        below = level is not None and self.limit is not None and level < self.limit
        return level if below and self.slots.limited else None


def sessions(
    ops: Ops, details: Details, kept: Bool, hidden: float, stamps: Stamps | None = None
) -> tuple[Session, ...]:
    """Sessions of one capture by their ops, most first; the backchannel is a row of its own.

    `kept` masks the ops that count (of callbacks too, to see the backchannel); `hidden` is the share of the ops that
    were not captured (`levels.hidden_share`), `stamps`: see `slots.held_at`, of all ops. Empty where the
    engine shows no SEQUENCE: tshark's tables do not.
    """
    shown = details.slots
    at = np.flatnonzero(kept[shown.op] & (shown.slot != NULL32))
    if not len(at):
        return ()
    back = np.array([is_callback_program(kind.program) for kind in ops.kinds], dtype=np.int64)
    channels = 2 * len(shown.sessions)
    order, spans = side_by_side(
        len(at),
        channels,
        lambda block: 2 * shown.session[at[block]].astype(np.int64) + back[ops.kind[shown.op[at[block]]]],
    )
    granted = {one.session: one for one in details.sessions}  # the last one of each
    found = [
        _channel(ops, details, granted, channel, at[order[span]], hidden, stamps)
        for channel, span in enumerate(spans)
        if span.stop > span.start
    ]
    return tuple(sorted(found, key=lambda one: -one.ops))


def _channel(
    ops: Ops,
    details: Details,
    granted: Mapping[bytes, SessionLimits],
    channel: int,
    at: I64,
    hidden: float,
    stamps: Stamps | None,
) -> Session:
    """`at` are rows of ``details.slots``."""
    shown, callbacks = details.slots, bool(channel & 1)
    session, rows, slot = shown.sessions[channel >> 1], shown.op[at], shown.slot[at]
    starts, ends = ops.t0[rows], ops.t3[rows]
    own = None if stamps is None else stamps.take(rows)
    slots = held_at(starts, ends, hidden, NULL, ops.fh[rows], own, is_flushed=is_flushed(ops, rows))
    limits = granted.get(session)
    negotiated = None if limits is None else limits.back_requests if callbacks else limits.fore_requests
    target = _target(shown.target_highest[at], ends)
    limit = negotiated if target is None else target[2]
    at_limit_share = None
    if limit is not None and hidden < _HIDDEN and unseen(limit, hidden) <= limit / 2:
        at_limit_share = slots.levels.share(max(limit - unseen(limit, hidden), 1), max(limit, slots.levels.max))
    reuses_ns, used = _reuses_ns(slot, shown.seqid[at], starts, ends)
    reuse_share = reuse_us = None
    if len(reuses_ns):
        reuse_share = float(np.count_nonzero(reuses_ns <= _AT_ONCE_NS)) / len(reuses_ns)
        middle, high = np.percentile(reuses_ns, (50, 75)).tolist()
        reuse_us = middle / 1e3, high / 1e3
    return Session(
        session=session,
        callbacks=callbacks,
        connections=tuple(np.unique(ops.conn[rows]).tolist()),
        ops=len(at),
        negotiated=negotiated,
        target=target,
        highest_slot=int(slot.max()),
        slots_used=used,
        limit=limit,
        at_limit_share=at_limit_share,
        reuse_share=reuse_share,
        reuse_us=reuse_us,
        slots=slots,
    )


def _target(highest: U32Column, ends: I64) -> tuple[int, int, int] | None:
    """Least, most and last number of slots that replies name; they came at `ends`."""
    known = np.flatnonzero(highest != NULL32)
    if not len(known):
        return None
    last = known[np.argmax(ends[known])]
    return int(highest[known].min()) + 1, int(highest[known].max()) + 1, int(highest[last]) + 1


def _reuses_ns(slot: U32Column, seqid: U32Column, starts: I64, ends: I64) -> tuple[I64, int]:
    """From each reply to the next call in its slot, where no call in between is missing; how many slots there are."""
    few = bool(slot.max() < _FEW_SLOTS)
    order = np.argsort(slot.astype(np.uint16) if few else slot, kind="stable")  # rows are in the order of the calls
    before, after = order[:-1], order[1:]
    same = slot[before] == slot[after]
    next_in_turn = same & (seqid[after] == seqid[before] + np.uint32(1))
    return starts[after[next_in_turn]] - ends[before[next_in_turn]], 1 + int(np.count_nonzero(~same))
