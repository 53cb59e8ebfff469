"""What TCP did in windows, one after the other -> the rows on all of them.

A window knows of what was sent again in it. Its copies may arrive in the next one, so that what was lost is told by the
sums, and not added up. Which bytes both captures have, and what the network doubled, is of all packets so far: the
latest window knows it best.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from nfslat.answer.model import Transport
from nfslat.windows.fold import fold
from nfslat.wire.transport import Caveat


def joined(before: Sequence[Transport], now: Sequence[Transport]) -> list[Transport]:
    """The rows so far, and those of one more window."""
    again = {_key(one) for one in now}
    rows = [_of_its_window(one) if _key(one) in again else one for one in before]
    return [_with_lost(one) for one in fold([*rows, *now])]


def _key(one: Transport) -> tuple[str, str, str]:
    return one.client, one.server, one.way


def _of_its_window(one: Transport) -> Transport:
    caveats = [caveat for caveat in one.caveats if caveat != Caveat.PARTIAL]
    return dataclasses.replace(one, caveats=caveats, doubled=0)


def _with_lost(one: Transport) -> Transport:
    sent, arrived = one.sent_again, one.arrived_again
    missing = sent.bytes - arrived.bytes
    segments: int | None = 0
    if missing:
        known = sent.segments is not None and arrived.segments is not None
        segments = max((sent.segments or 0) - (arrived.segments or 0), int(missing > 0)) if known else None
    return dataclasses.replace(one, lost_bytes=max(missing, 0), lost_segments=segments)
