"""Windows of one capture, one after the other -> calls that it does not show, as a whole capture has them.

A window holds what ended in it, so that XIDs of calls which are still open leave gaps. Calls are looked at one window
later, by when they were sent: by then nearly all of them have ended.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nfslat.decode.xid_gaps import Calls, calls_of, missing_of, unanswered
from nfslat.model.decoded import Decoded
from nfslat.model.tables import I64


class Gaps:
    """Of one capture."""

    def __init__(self) -> None:
        """Nothing was sent."""
        self._held: tuple[Calls, I64] | None = None
        self._until_ns: int | None = None  # what was sent before has been looked at

    def add(self, decoded: Decoded, begin_ns: int) -> I64:
        """One more window, which began then: calls of each connection that are missing among those sent before it.

        Those that took longer, or never had an answer, were missing before; they are taken off, so that a number may be
        below 0.
        """
        calls, sent_ns = calls_of(decoded), np.concatenate([decoded.ops.t0, unanswered(decoded).first_ns])
        late = np.zeros(len(calls.clients), dtype=np.int64)
        if self._until_ns is not None:
            is_late = sent_ns < self._until_ns
            late = np.bincount(calls.conn[is_late], minlength=len(late))
            calls, sent_ns = calls.take(~is_late), sent_ns[~is_late]
        if self._held is not None:
            before, before_ns = self._held
            calls, sent_ns = _joined(before, calls), np.concatenate([before_ns, sent_ns])
        is_due = sent_ns < begin_ns
        self._held = calls.take(~is_due), sent_ns[~is_due]
        self._until_ns = begin_ns if self._until_ns is None else max(begin_ns, self._until_ns)
        return missing_of(calls.take(is_due)) - late

    def rest(self) -> I64:
        """There are no more windows: calls that are missing among those sent in the last one."""
        held, self._held = self._held, None
        return np.zeros(0, dtype=np.int64) if held is None else missing_of(held[0])


def _joined(before: Calls, now: Calls) -> Calls:
    """A connection's number is the same in later windows, which know of more."""
    return dataclasses.replace(
        now,
        conn=np.concatenate([before.conn, now.conn]),
        xid=np.concatenate([before.xid, now.xid]),
        is_nfs=np.concatenate([before.is_nfs, now.is_nfs]),
    )
