"""Matched ops -> what is known of theta, the server's clock minus the client's.

Causality bounds it (docs/method.md): no call arrives before it was sent, no reply either, so for every op
``s3 - c3 <= theta <= s1 - c1``. The interval that all ops allow is as wide as the smallest round trip seen; half of it
is the error of any one-way figure (the bound of Paxson's "On calibrating measurements of packet transit times", 1998).
Where no constant fits, because the clocks drift or step, this module says so instead of naming a figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from nfslat.columns import each_block
from nfslat.tables import Matched, Ops


@dataclass(frozen=True)
class Theta:
    """Bounds of theta over all matched ops, int ns; `fits` where one constant satisfies every op (lo <= hi)."""

    lo_ns: int
    hi_ns: int

    @property
    def fits(self) -> bool:
        """Does one constant offset explain all ops?"""
        return self.lo_ns <= self.hi_ns

    @property
    def mid_ns(self) -> int:
        """Midpoint, rounded down: the estimate that is wrong by at most half the width."""
        return (self.lo_ns + self.hi_ns) // 2


def bound_theta(server: Ops, client: Ops, matched: Matched) -> Theta:
    """Constant bounds of theta; needs at least one matched op, else raises ``ValueError``.

    Ops that are not wholly in both captures, or were sent again by RPC, do not count where there are others: the last
    byte that was seen need not be the last, and the two sides may have seen different transmissions.
    """
    if not len(matched):
        raise ValueError("no matched op, no bound on the clocks")
    of_server, of_client = ((ops.transmissions == 1) & ops.whole for ops in (server, client))
    if not (of_server.all() and of_client.all()):
        sound = of_server[matched.server] & of_client[matched.client]
        matched = matched.take(sound) if sound.any() else matched

    def bounds(at: slice) -> tuple[int, int]:
        s, c = matched.rows(at)
        return int((server.t3[s] - client.t3[c]).max()), int((server.t1[s] - client.t1[c]).min())

    lower, upper = zip(*each_block(len(matched), bounds), strict=True)
    return Theta(lo_ns=max(lower), hi_ns=min(upper))
