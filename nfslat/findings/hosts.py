"""Facts -> findings on hosts that did not run for a while, whichever end they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from nfslat.findings.diagnosis import OPTIONAL, Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import AT_CLIENT, AT_SERVER, Facts, worth
from nfslat.findings.words import ms, span, times
from nfslat.model.causes import Cause
from nfslat.wire.above import Why

_PARTS = {"server": AT_SERVER, "client": AT_CLIENT}


@dataclass(frozen=True, kw_only=True)
class HostPause(Evidence):
    """Of host-pause."""

    wait_ms: float  # mean, of the ops on the wire
    slowest_wait_ms: float  # of the slowest 1 %
    above_wire_ms: float  # mean, at most: what requests waited in the client meanwhile
    counted_above_ms: float  # of that what is counted, where the application's time is known
    pauses: int
    total_ms: float
    longest_ms: float
    at: str  # when the longest began, by the client's clock
    frame: int | None  # of that host's capture: the first that it then took
    ops: int  # that waited, at least
    share_slowest: float | None = field(default=None, metadata=OPTIONAL)  # of the slowest 1 %

    @property
    def how_long(self) -> str:
        """``for 1.2 s``, ``5 times, for up to 1.2 s``."""
        often = "" if self.pauses == 1 else f"{times(self.pauses, 'time')}, "
        return f"{often}for {'up to ' if often else ''}{span(self.longest_ms)}"


def host_findings(facts: Facts) -> list[Diagnosis]:
    """In no order."""
    return [one for one in (_host_pause(facts, side) for side in _PARTS) if one is not None]


def _host_pause(f: Facts, side: str) -> Diagnosis | None:
    """A host that takes nothing and sends nothing for a while.

    What ops on the wire lose by it is known. A client stops its application, too: that is above the wire, and known
    at most, as long as the application's time is; else it has no share.
    """
    pauses = f.stalls.host_pauses.get(side) if f.stalls is not None else None
    if f.stalls is None or pauses is None:
        return None
    waits, slowest = (of({Cause.HOST_PAUSE}, _PARTS[side]) for of in (f.stalls.ms, f.stalls.slow_ms))
    kept = f.kept_above.get(Why.HOST_PAUSE) if side == "client" else None
    above = kept.above_wire_ms if kept is not None else 0.0
    on_wire = worth(f, waits, slowest)
    if not (on_wire or worth(f, waits + above, slowest)):
        return None
    known = side != "client" or f.mean.client_ms is not None
    counted = f.kept_ms(Why.HOST_PAUSE) if side == "client" else 0.0
    once = pauses.count == 1
    often = "for" if once else f"{times(pauses.count, 'time')}, for up to"
    text = (
        f"the {side} neither received nor sent anything {often} {ms(pauses.longest_ms)} "
        f"ms{_when(pauses.at, pauses.frame)}, while data were in transit to it, and then received all of them at "
        "once: the host was not running, or its link was down"
    )
    if waits:
        text += f"; ops on the wire wait {ms(waits)} ms for it on average"
    if counted:
        text += f"; up to {ms(counted)} ms on average of what lies above the wire are that"
    elif above and not known:
        text += (
            f"; its application was stalled as well, up to {ms(above)} ms for each op, which is above the wire: give "
            "the application's mean (--app-ms)"
        )
    return diagnosis(
        "host-pause",
        side,
        text,
        share=f.share_within(side, waits + counted) if on_wire or known else None,
        slowest=f.slowest_share(slowest) if on_wire else None,
        confidence="likely",
        evidence=HostPause(
            wait_ms=waits,
            slowest_wait_ms=slowest,
            above_wire_ms=above,
            counted_above_ms=counted,
            pauses=pauses.count,
            total_ms=pauses.total_ms,
            longest_ms=pauses.longest_ms,
            at=pauses.at,
            frame=pauses.frame,
            ops=f.stalls.hits({Cause.HOST_PAUSE}, _PARTS[side]),
        ),
        advice=LookAt(
            knob=f"the {side}'s host",
            how=(
                "# a virtual machine: steal time (vmstat 1), live migration, snapshots, in the hypervisor's log",
                "# else: dmesg -T (soft lockups, link down), and perf sched timehist around that moment",
            ),
            verify="no silence of that host in a new capture while others send to it",
        ),
    )


def _when(at: str, frame: int | None) -> str:
    """When it began, and the first frame of that host's capture behind it."""
    until = "" if frame is None else f", until its frame {frame:,}"
    return f" (from {at}{until})" if at else ""
