"""Facts -> findings on the path: distance, a direction that is slower than the other, and what nothing explains."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import MATTERS, Facts
from nfslat.findings.words import ms, times
from nfslat.model.causes import FROM_OUTSIDE, LOSSES, Cause

DELAY = "net-delay"
BETWEEN, ASYMMETRY, JITTER = "between-taps", "net-asymmetry", "net-jitter"
_DELAY_MS = 1.0  # a round trip; a machine room has less
_DELAY_SHARE = 0.10
_ASYMMETRY_SHARE = 0.10
_VARIES = 0.2  # of the shortest round trip, and ...
_MOSTLY = 0.5  # of the network's time: where so much of it has no cause, it may not be the path's


class Delay(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding net-delay."""

    is_recorded: ClassVar[bool] = True
    least_round_trip_ms: float  # between the hosts
    network_ms: float  # mean
    varying_ms: float | None = None  # of that what comes and goes
    held_ms: float | None = None  # of that what was held in transit
    share_slowest: float | None = None  # of the slowest 1 %


class Asymmetry(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding net-asymmetry."""

    call_net_ms: float  # mean, of the call on the network
    reply_net_ms: float
    error_ms: float  # of either, as the clocks are known


class Between(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding between-taps."""

    network_ms: float  # mean
    explained_ms: float  # of that, by distance and by what TCP waited for
    unexplained_ms: float
    captured_within_ms: float | None = None  # what a host sends, of being sent
    arrived_again_ops: int | None = None  # something of them was sent again, and had arrived

    @property
    def where(self) -> str:
        """Who may have the time that nothing explains."""
        if self.arrived_again_ops is None:
            return "the path, or a host that handles packets late"
        return "a host that did not take packets in time, or a path that held them; what was sent again had arrived"


class Varies(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding net-jitter."""

    wait_ms: float  # mean, beyond the shortest round trip
    low_ms: float  # nine of ten messages take longer by more than this, one way
    high_ms: float  # one of ten by more than this
    ways: str  # "both ways", "from client to server", "from server to client"


def network_findings(facts: Facts) -> list[Diagnosis]:
    """In no order."""
    return [known for known in (_delay(facts), _jitter(facts), _asymmetry(facts), _between(facts)) if known is not None]


def _delay(f: Facts) -> Diagnosis | None:
    """Every op pays the round trip, however small it is."""
    trip = f.least_round_trip_ms
    if trip is None or trip < _DELAY_MS or f.share(trip, of_all=True) < _DELAY_SHARE:
        return None
    text = (
        f"the shortest round trip between the hosts is {ms(trip)} ms, and every operation pays it: distance, or a "
        "device that adds delay"
    )
    held = varies = None
    if f.stalls is not None:
        held = f.stalls.ms({Cause.HELD})
        varies = held + f.stalls.ms({"unexplained"}, ("call_net", "reply_net"))
        if varies >= max(_VARIES * trip, _DELAY_MS):
            text += f"; {ms(varies)} ms more on average come and go (jitter, or queues on a path that is not full)"
    # Where something is always in front, nothing shows how far it is.
    full = f.stalls is not None and f.share(f.stalls.ms({Cause.BANDWIDTH})) >= _DELAY_SHARE
    if full:
        text += "; part of it may be the queue of the path, which is full"
    return diagnosis(
        DELAY,
        "network",
        text,
        # Of a stretch of time the first ops may not have paid all of it.
        share=f.share(min(trip, f.mean.network_ms), of_all=True),
        slowest=f.slowest_share(trip),
        confidence="likely" if full else "certain",
        evidence=Delay(least_round_trip_ms=trip, network_ms=f.mean.network_ms, varying_ms=varies, held_ms=held),
        advice=LookAt(
            knob="the path",
            how=("ping -c 20 SERVER from the client: compare", "traceroute or mtr: find the hop that adds it"),
            verify="the bounds of theta in a new pair of captures are as wide as the shortest round trip",
            risk="more requests in flight (slots, nconnect) hide a delay but do not shorten it",
        ),
    )


def _jitter(f: Facts) -> Diagnosis | None:
    """Nearly each message is late by itself: the path does that, or a queue in it that the captures do not show."""
    wait_ms = _jitter_ms(f)
    if wait_ms < _DELAY_MS or f.share(wait_ms) < _DELAY_SHARE:
        return None
    low, high = min(way.low_ms for way in f.jitter.values()), max(way.high_ms for way in f.jitter.values())
    call = "call_net" in f.jitter
    ways = "both ways" if len(f.jitter) > 1 else "from client to server" if call else "from server to client"
    return diagnosis(
        JITTER,
        "network",
        f"{ways} nearly every message takes longer than the shortest way, nine of ten by more than {ms(low)} ms, one "
        f"of ten by more than {ms(high)} ms, {ms(wait_ms)} ms an operation on average: a path whose delay varies, or a "
        "queue in it that these captures do not show; a host that handles packets late lets some pass at once",
        share=f.share_within("network", wait_ms),
        confidence="likely",
        evidence=Varies(wait_ms=wait_ms, low_ms=low, high_ms=high, ways=ways),
        advice=LookAt(
            knob="the path",
            how=(
                "ping -c 100 -i 0.2 SERVER from the client, under the same load: mdev and max beside min",
                "mtr -c 100 SERVER: the hop from which on times vary",
                "tc -s qdisc show; ip -s link # on both hosts: queues, and what else fills the links",
            ),
            verify="ping's mdev is small beside its min, and this wait is gone from a new pair of captures",
            risk="more requests in flight hide a delay but do not shorten it",
        ),
    )


def _jitter_ms(f: Facts, ways: Collection[str] = ("call_net", "reply_net")) -> float:
    return 0.0 if f.stalls is None else f.stalls.ms({"unexplained"}, {*f.jitter} & {*ways})


def _asymmetry(f: Facts) -> Diagnosis | None:
    p = f.parts
    if f.late_stamps or p is None or p.call_net is None or p.reply_net is None or p.one_way_error is None:
        return None
    more = (p.call_net - _explained(f, "call_net")) - (p.reply_net - _explained(f, "reply_net"))
    beyond = abs(more) - 2 * p.one_way_error
    if beyond <= 0 or f.share(beyond) < _ASYMMETRY_SHARE or abs(more) < _DELAY_MS:
        return None
    longer, shorter = ("call", "reply") if more > 0 else ("reply", "call")
    return diagnosis(
        ASYMMETRY,
        "network",
        f"on the network the {longer} takes {ms(abs(more))} ms longer than the {shorter} (+/- "
        f"{ms(2 * p.one_way_error)} ms), waits for lost data aside: that direction is loaded, shaped, or waits in "
        "its sender's socket",
        share=f.share(abs(more)),
        confidence="likely",
        evidence=Asymmetry(call_net_ms=p.call_net, reply_net_ms=p.reply_net, error_ms=p.one_way_error),
    )


def _between(f: Facts) -> Diagnosis | None:
    """Time on the way of which nothing shows that it is the path's.

    A packet is stamped below TCP. Before its stamp at the receiver it needs that host's processor (and, in a virtual
    machine, the host's of that), so a starved one looks like a slow path.
    """
    if f.least_round_trip_ms is None or f.mean.largest != "network":
        return None  # where another layer leads, nobody has to be sent to the network
    network_ms = f.mean.ms("network") - f.unseen_network_ms
    if f.stalls is not None:
        # Each op's share of the distance, which is no more than its own time on the way. Packets that were held and
        # released together are not among the causes: a processor that is late does that, too.
        explained_ms = f.stalls.ms({*FROM_OUTSIDE, Cause.DISTANCE}) + max(f.mean.moved_ms.get("network", 0.0), 0.0)
        explained_ms += _jitter_ms(f)
    else:
        explained_ms = min(f.least_round_trip_ms, network_ms)
        explained_ms += sum(getattr(f.parts, f"{way}_retrans_wait", None) or 0.0 for way in ("call", "reply"))
    left_ms = network_ms - explained_ms
    if left_ms < _MOSTLY * network_ms or f.share(left_ms) < MATTERS:
        return None
    text = (
        f"no distance, loss, reordering, bandwidth or queue explains {f.mean.said(left_ms)} of the "
        f"{f.mean.said(network_ms)} ms between the two capture points: the path, or the hosts' own kernels: a host "
        "with a busy processor (or a virtual machine on a busy host) handles packets late, before they are captured"
    )
    stamps: tuple[str, ...] = (
        "TCP timestamps in each host's own capture: TSval says when its TCP made a segment; one captured later than "
        "others by TSval waited in that host",
    )
    if f.arrived_again:
        text += (
            f". Something of {times(f.arrived_again, 'op')} was sent again and had arrived, as its receiver says "
            "(D-SACK): it was taken late, and not lost"
        )
    if f.captured_within_ms is not None:
        stamps = ()
        text += (
            f". What either host sends is captured there within {ms(f.captured_within_ms)} ms of its TCP's time "
            "stamp, so it is not held before that"
        )
    return diagnosis(
        BETWEEN,
        "network",
        text,
        share=f.share(left_ms),
        confidence="likely",
        evidence=Between(
            network_ms=network_ms,
            explained_ms=explained_ms,
            unexplained_ms=left_ms,
            captured_within_ms=f.captured_within_ms,
            arrived_again_ops=f.arrived_again or None,
        ),
        advice=LookAt(
            knob="which of the two it is",
            how=(
                "another client on the same path at the same time: as slow, and it is the path or the server's kernel",
                "perf sched record -- sleep 10; perf sched latency >sched.txt # on both hosts, then nfslat ... "
                "--evidence sched.txt: tasks that wait for a processor as long as that",
                "vmstat 1 on both: r above the number of processors, st (steal) above 0",
                *stamps,
            ),
            verify="the same captures while the hosts are idle: a path stays as slow",
        ),
    )


def _explained(f: Facts, part: str) -> float:
    """What other findings say of a way."""
    if f.stalls is not None:
        known = {*LOSSES, Cause.REORDERING, Cause.HOST_PAUSE, Cause.HELD, Cause.BANDWIDTH}
        return f.stalls.ms(known, (part,)) + _jitter_ms(f, (part,))
    return getattr(f.parts, part.replace("_net", "_retrans_wait"), None) or 0.0
