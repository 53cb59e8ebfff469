"""Facts -> findings on hosts that did not run for a while, or are busy, whichever end they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from nfslat.findings.catalogue import CAUSE
from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import AT_CLIENT, AT_SERVER, Facts, worth
from nfslat.findings.layers import Layers
from nfslat.findings.words import ms, percent, span, times
from nfslat.model.causes import Cause
from nfslat.wire.above import Why

if TYPE_CHECKING:
    from nfslat.evidence.records import HostLoad

_PARTS = {"server": AT_SERVER, "client": AT_CLIENT}
_NOTICED_MS = 500.0  # of a host: a stall that users notice, however small its share is
_QUEUED = 1.5  # times its processors
_IDLE, _STEAL = 0.05, 0.05  # of all of them
_ONE_CPU, _SOFT = 0.95, 0.5  # of one of them
_PRESSURE, _MEMORY = 0.2, 0.05  # of the time
_SWAP_KIB_S, _FAULTS_S = 100.0, 100.0


class HostPause(Evidence, kw_only=True):
    """Evidence of the finding host-pause."""

    is_recorded: ClassVar[bool] = True
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
    share_slowest: float | None = None  # of the slowest 1 %

    @property
    def how_long(self) -> str:
        """``for 1.2 s``, ``5 times, for up to 1.2 s``."""
        often = "" if self.pauses == 1 else f"{times(self.pauses, 'time')}, "
        return f"{often}for {'up to ' if often else ''}{span(self.longest_ms)}"

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """Users notice it, or what may have waited above the wire is much."""
        much = self.longest_ms >= _NOTICED_MS or self.above_wire_ms >= CAUSE * mean.total_ms
        return share is None and much


class Busy(Evidence, kw_only=True):
    """Evidence of the finding host-busy."""

    signs: tuple[str, ...]  # what its own tools say of it, in words
    runnable_per_cpu: float | None  # processes that run or wait for a processor
    idle_share: float | None  # of its processors
    steal_share: float | None  # taken by a hypervisor
    swapped_kib_s: float | None
    major_faults_s: float | None
    cpu_pressure_share: float | None  # of the time, a task waited for a processor
    memory_pressure_share: float | None  # or for memory

    @property
    def first(self) -> str:
        """The first of the signs."""
        return self.signs[0]


def host_findings(facts: Facts) -> list[Diagnosis]:
    """In no order."""
    found = [one(facts, side) for side in _PARTS for one in (_host_pause, _host_busy)]
    return [one for one in found if one is not None]


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


def _host_busy(f: Facts, side: str) -> Diagnosis | None:
    """What a host's tools say of processors and memory while the captures ran. What that costs an operation they do not
    say, so that it is of little weight by itself."""
    load = f.loads.get(side)
    if load is None:
        return None
    signs = _signs(load)
    if not signs:
        return None
    found = diagnosis(
        "host-busy",
        side,
        f"while the captures ran, the {side} had {', '.join(signs)} ({load.source}): its threads wait for processors "
        "or memory, which the packets show as time in that host",
        share=None,
        confidence="likely",
        evidence=Busy(
            signs=tuple(signs),
            runnable_per_cpu=None if load.runnable is None or not load.cpus else load.runnable / load.cpus,
            idle_share=load.idle,
            steal_share=load.steal,
            swapped_kib_s=load.swapped_kib_s,
            major_faults_s=load.major_faults_s,
            cpu_pressure_share=load.cpu_pressure,
            memory_pressure_share=load.memory_pressure,
        ),
        advice=LookAt(
            knob=f"processors and memory of the {side}",
            how=(
                "# processors: perf sched latency; pidstat -u 1 (who); steal: the hypervisor; one processor in soft "
                "interrupts: RSS, RPS and irqbalance",
                "# memory: vmstat 1 (si, so, free), pidstat -r 1 (majflt/s), huge pages for a database's SGA",
            ),
            verify="fewer runnable processes than processors, no steal, nothing swapped in",
        ),
    )
    return replace(found, severity="info")


def _signs(load: HostLoad) -> list[str]:
    said = []
    if load.runnable is not None and load.cpus and load.runnable >= _QUEUED * load.cpus:
        said.append(f"{load.runnable:.1f} runnable processes on {times(load.cpus, 'processor')}")
    if load.idle is not None and load.idle <= _IDLE:
        said.append(f"processors that were idle {percent(load.idle)} of the time")
    if load.steal is not None and load.steal >= _STEAL:
        said.append(f"{percent(load.steal)} of its processors' time taken by the hypervisor")
    if load.soft_there is not None and (load.busiest_cpu or 0.0) >= _ONE_CPU and load.soft_there >= _SOFT:
        said.append(f"one processor in soft interrupts for {percent(load.soft_there)} of the time")
    if load.cpu_pressure is not None and load.cpu_pressure >= _PRESSURE:
        said.append(f"tasks that waited for a processor {percent(load.cpu_pressure)} of the time")
    if load.memory_pressure is not None and load.memory_pressure >= _MEMORY:
        said.append(f"tasks that waited for memory {percent(load.memory_pressure)} of the time")
    if load.swapped_kib_s is not None and load.swapped_kib_s >= _SWAP_KIB_S:
        said.append(f"{load.swapped_kib_s:,.0f} KiB/s swapped")
    if load.major_faults_s is not None and load.major_faults_s >= _FAULTS_S:
        said.append(f"{load.major_faults_s:,.0f} major page faults a second")
    return said


def _when(at: str, frame: int | None) -> str:
    """When it began, and the first frame of that host's capture behind it."""
    until = "" if frame is None else f", until its frame {frame:,}"
    return f" (from {at}{until})" if at else ""
