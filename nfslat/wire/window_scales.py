"""Silences of senders whose handshake is not in the capture -> the windows that they had, as far as they tell.

A window is scaled by a shift that only the handshake says (RFC 7323 section 2.2). Without it two things tell of it:

- Nobody sends beyond the window: the shift is at least the one with which what was in flight fits.
- Who is held by the window stops where it ends, to the byte. Where the bytes in flight are the window, shifted by one
  and the same number, again and again, that is the shift. Who is held by anything else stops at no such place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nfslat.model.details import Pauses, Went
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool

_MOST_SHIFT = 14  # RFC 7323 section 2.3
_AGAIN = 8  # stops to the byte; by chance one in some hundred is, for full segments and windows have no common measure
_ODD = 0.01  # of the stops may lie beyond: a window that was taken back, or what was sent again
_SEGMENT = 8948  # no segment is larger (jumbo frames); what is, will be cut up by offload


def with_windows(pauses: Pauses) -> Pauses:
    """The same, with `window` where it is told after all; it stays NULL where nothing says whether there was room.

    Where only the least shift is told, a window that takes the next segment with that is given with that: "at least".
    """
    asked = (pauses.window == NULL) & (pauses.announced > 0)
    if not asked.any():
        return pauses
    window = pauses.window.copy()
    way = pauses.conn.astype(np.int64) << 33 | pauses.reconnect.astype(np.int64) << 1 | pauses.direction
    rows = np.flatnonzero(asked)
    _, group = np.unique(way[rows], return_inverse=True)
    for of_way in np.split(rows[np.argsort(group, kind="stable")], np.cumsum(np.bincount(group))[:-1]):
        under_way, announced = pauses.under_way[of_way], pauses.announced[of_way]
        least, is_exact = shift_of(under_way, announced, pauses.went[of_way] == Went.NEW)
        least_window = announced << least
        room = under_way + np.minimum(pauses.size[of_way], _SEGMENT) <= least_window
        window[of_way] = np.where(room | is_exact, least_window, NULL)
    return replace(pauses, window=window)


def shift_of(under_way: I64, announced: I64, is_new: Bool) -> tuple[int, bool]:
    """By how many bits the windows of one receiver are shifted, at least; and whether by just so many.

    Of the stops of its sender: bytes in flight, the window as it stands in the header, and whether the sender went on
    with new bytes.
    """
    for shift in range(_MOST_SHIFT + 1):
        room = (announced << shift) - under_way
        # A byte beyond it is a probe's.
        if np.count_nonzero(room < -1) <= _ODD * len(room):
            return shift, int(np.count_nonzero((room == 0) & is_new)) >= _AGAIN
    return _MOST_SHIFT, False
