"""Silences of a TCP sender (`details.Pauses`) -> what each of them waited for, one cause a row.

The timers and where they come from: RFC 6298 and Linux `TCP_RTO_MIN` (retransmission timeout), RFC 8985 section 7
(tail-loss probe), RFC 5681 section 3.2 and RFC 6675 (fast retransmit and recovery), RFC 9293 section 3.8.6 (windows),
RFC 1122 section 4.2.3.2 and RFC 5681 section 4.2 (delayed ACK), and the kernels' own figures for it.

A capture shows these things where it was taken, which is said by two round trips: `rtt_min_ns`, from the capture to
the receiver and back (data of the direction to the ACK that covers them), and `sender_rtt_ns`, from the capture to the
sender and back (the same of the other direction). One of them is about 0 where the capture was taken at an end. At
the receiver's an ACK passes first, and the data that it released come a round trip later.

What cannot be told there: whether it was the receiver's window or the congestion window that an ACK opened (the
sender had more under way than the receiver sees), unless the window is too small for a segment. Nor can it be told at
the sender's end where the window is not known, for want of the handshake that says its scale (`with_windows`).
Rules and timers are in native/src/tcp/stalls.rs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nfslat.kernels.compiled import native
from nfslat.model.details import Pauses
from nfslat.model.protocol import NULL
from nfslat.model.tables import I8, I64

RTO_MIN_NS, DELAYED_ACK_NS = native.RTO_MIN_NS, native.DELAYED_ACK_NS
timer_ms, timers_ms = native.timer_ms, native.timers_ms


def silence_ns(pauses: Pauses) -> I64:
    """How long each pause lasted; 0 where nothing was sent before it."""
    return np.where(pauses.begin_ns == NULL, 0, pauses.end_ns - pauses.begin_ns)


def classify(pauses: Pauses, *, rtt_min_ns: int | I64, mss: int | I64, sender_rtt_ns: int | I64 = NULL) -> I8:
    """The cause of each pause, as `causes.code`. Round trips as above, in ns, and the MSS in bytes: one for
    all rows or one a row, NULL where it is not known."""
    rtt, most, far = (np.broadcast_to(np.asarray(of, np.int64), len(pauses)) for of in (rtt_min_ns, mss, sender_rtt_ns))
    return native.classify(pauses, rtt, most, far)


def with_windows(pauses: Pauses) -> Pauses:
    """The same, with `window` where it is told after all; it stays NULL where nothing says whether there was room.

    A window is scaled by a shift that only the handshake says (RFC 7323 section 2.2). Without it two things tell of it:

    - Nobody sends beyond the window: the shift is at least the one with which what was in flight fits.
    - Who is held by the window stops where it ends, to the byte. Where the bytes in flight are the window, shifted by
      one and the same number, again and again, that is the shift. Who is held by anything else stops at no such place.

    Where only the least shift is told, a window that takes the next segment with that is given with that: "at least".
    """
    asked = (pauses.window == NULL) & (pauses.announced > 0)
    return replace(pauses, window=native.told_windows(pauses)) if asked.any() else pauses
