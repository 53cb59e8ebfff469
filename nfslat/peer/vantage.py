"""The segments of a connection -> where they were captured: at the client, at the server, or between the two.

A host answers its own capture at once, and the other end after a round trip; and what a host sends is captured within
the tick in which it was stamped, while the segments of the other end come in later than that whenever something holds
them.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

import numpy as np

from nfslat.model.segments import Segments
from nfslat.peer.clock import clocks
from nfslat.peer.heard import exchange
from nfslat.peer.path import least_round_trip

_NEARER = 3.0  # times as far is the other end, where the capture is at one of them
_ON_TIME, _LATE_NS = 0.03, 100_000  # share of a host's own segments that may be captured later than that
_ONE_HOST_NS = 30_000  # no wire is that short
_MOST = 1 << 18  # segments that are looked at


class Vantage(NamedTuple):
    """`place` is "client", "server", "between" (somewhere on the way, or not known), or "loopback": both ends are here,
    so that what looks like the server may be a proxy."""

    place: str
    client_ns: float  # least round trip from the capture to each end
    server_ns: float
    client_late: float  # share of the segments of each end that came late
    server_late: float


def vantage(segments: Segments, call_direction: int, addresses: tuple[str, str]) -> Vantage:
    """Of one connection, in whose direction `call_direction` calls are sent."""
    part = segments.take(slice(_MOST)) if len(segments) > _MOST else segments
    found = {}
    for end, direction in (("server", call_direction), ("client", 1 - call_direction)):
        # To this end goes what is sent in that direction; it is the far one then.
        one = exchange(part, direction)
        (clock,) = clocks([one])
        left = None if clock is None else clock.departures()
        late = np.nan
        if left is not None and len(one.heard):
            waited = one.heard.t_ns - left.earliest
            late = float(np.mean(waited > left.tick_ns + _LATE_NS))
        found[end] = least_round_trip(one).ns, late
    (server_ns, server_late), (client_ns, client_late) = found["server"], found["client"]
    return Vantage(_place(found, addresses), client_ns, server_ns, client_late, server_late)


def _place(found: dict[str, tuple[float, float]], addresses: tuple[str, str]) -> str:
    if all(_is_loopback(one) for one in addresses) or addresses[0] == addresses[1]:
        return "loopback"
    for near, far in (("client", "server"), ("server", "client")):
        (near_ns, near_late), (far_ns, _) = found[near], found[far]
        # Without time stamps nothing says what is on time.
        if near_ns * _NEARER <= far_ns and (near_late <= _ON_TIME or near_ns <= _ONE_HOST_NS):
            return near
    return "between"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
