"""Facts -> findings on the network: distance, loss, and one direction that is slower than the other."""

from __future__ import annotations

from nfslat.findings.facts import Facts, finding, ms, times
from nfslat.report.model import Finding

_DELAY_MS = 1.0  # a round trip; a machine room has less
_DELAY_SHARE = 0.10
_LOSS_SHARE, _LOSS_SLOWEST = 0.01, 0.10
_ASYMMETRY_SHARE = 0.10


def network_findings(facts: Facts) -> list[Finding]:
    """In no order."""
    return [one for one in (_delay(facts), _loss(facts), _asymmetry(facts)) if one is not None]


def _delay(f: Facts) -> Finding | None:
    """Every op pays the round trip, however small it is."""
    trip = f.least_round_trip_ms
    if trip is None or trip < _DELAY_MS or f.share(trip) < _DELAY_SHARE:
        return None
    return finding(
        "net-delay",
        "network",
        f"the shortest round trip between the hosts is {ms(trip)} ms, and every op pays it: distance, or a device that "
        "delays",
        share=f.share(trip),
        slowest=f.slowest_share(trip),
        confidence="certain",
        evidence={"least_round_trip_ms": trip, "network_ms": f.mean.network_ms},
        advice={
            "knob": "the path",
            "how": ["ping -c 20 SERVER from the client: compare", "traceroute or mtr: find the hop that adds it"],
            "verify": "the bounds of theta in a new pair of captures are as wide as the shortest round trip",
            "risk": "more requests in flight (slots, nconnect) hide a delay, they do not shorten it",
        },
    )


def _loss(f: Facts) -> Finding | None:
    """Waits until lost segments were sent again; loss that costs nothing is no finding."""
    waits = _waits_ms(f.parts)
    slowest = _waits_ms(f.slowest_parts)
    if waits is None:
        return None
    shares = f.share(waits), f.slowest_share(slowest)
    if shares[0] < _LOSS_SHARE and (shares[1] or 0.0) < _LOSS_SLOWEST:
        return None
    lost = "" if f.lost_segments is None else f" ({times(f.lost_segments, 'segment')} lost between the captures)"
    return finding(
        "net-loss",
        "network",
        f"ops wait {ms(waits)} ms on average until TCP sent lost data again{lost}"
        + ("" if slowest is None else f", the slowest 1 % {ms(slowest)} ms"),
        share=shares[0],
        slowest=shares[1],
        confidence="certain",
        evidence={"wait_ms": waits, "slowest_wait_ms": slowest, "lost_segments": f.lost_segments},
        advice={
            "knob": "the path",
            "how": ["ethtool -S on both hosts and the switch ports between them: errors, drops, pause frames"],
            "verify": "nstat -az TcpRetransSegs on both hosts stands still",
        },
    )


def _waits_ms(parts: object) -> float | None:
    waits = [getattr(parts, name, None) for name in ("call_retrans_wait", "reply_retrans_wait")]
    known = [wait for wait in waits if wait is not None]
    return sum(known) if known else None


def _asymmetry(f: Facts) -> Finding | None:
    p = f.parts
    if p is None or p.call_net is None or p.reply_net is None or p.one_way_error is None:
        return None
    waits = (p.call_retrans_wait or 0.0), (p.reply_retrans_wait or 0.0)
    more = (p.call_net - waits[0]) - (p.reply_net - waits[1])
    beyond = abs(more) - 2 * p.one_way_error
    if beyond <= 0 or f.share(beyond) < _ASYMMETRY_SHARE or abs(more) < _DELAY_MS:
        return None
    longer, shorter = ("call", "reply") if more > 0 else ("reply", "call")
    return finding(
        "net-asymmetry",
        "network",
        f"on the network the {longer} takes {ms(abs(more))} ms longer than the {shorter} (+/- {ms(2 * p.one_way_error)}"
        " ms), waits for lost data aside: that direction is loaded, shaped, or waits in a socket of its sender",
        share=f.share(abs(more)),
        confidence="likely",
        evidence={"call_net_ms": p.call_net, "reply_net_ms": p.reply_net, "error_ms": p.one_way_error},
    )
