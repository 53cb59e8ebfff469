"""Facts -> whether a server that waits for a processor, and not for its storage, may be what takes the time.

It is late to take a call from the network, and as late again each time that something wakes it, as a disk does that is
done. Light ops that are quick show no more than that its threads have the processor when it has one: a hypervisor takes
it from all of them.
"""

from __future__ import annotations

from nfslat.findings.facts import CHANGES, WAKES, WAKES_OF_A_CHANGE, Facts, SlowOps

_LATE_MS = 0.5  # less is what any host takes now and then
_HALF = 0.5  # of the time
_UNLUCKY = 1.5  # times the mean: of ops that a host keeps waiting by chance the slow ones are those that met it most


def late_ms(f: Facts) -> float:
    """How late calls come, where that may explain the time in a thread, or of slow ops that are most of it; else 0."""
    s = f.slow_ops
    if s is not None and s.mean_ms >= _HALF * f.in_thread_ms and (late := late_beside_ms(f, s)):
        return late
    if f.late is None or (f.late.quickest_ms is not None and f.late.quickest_ms >= _HALF * f.late.op_ms):
        return 0.0  # none is quick, though the host must have been prompt with some
    ops = sum(row.count for row in f.by_op)
    changes = sum(row.count for row in f.by_op if row.op in CHANGES)
    wakes = WAKES + (WAKES_OF_A_CHANGE - WAKES) * changes / ops if ops else WAKES
    return _where_it_explains(f.late.mean_ms, wakes, f.in_thread_ms)


def late_beside_ms(f: Facts, s: SlowOps) -> float:
    """The same of the time of ops that are slow at times, by the calls that came meanwhile."""
    late = s.late_ms if s.late_ms is not None or f.late is None else f.late.mean_ms
    wakes = WAKES if CHANGES.isdisjoint(s.ops) else WAKES_OF_A_CHANGE
    return _where_it_explains(late, _UNLUCKY * wakes, s.slow_ms)


def _where_it_explains(late: float | None, wakes: float, of_ms: float) -> float:
    return late if late is not None and late >= _LATE_MS and wakes * late >= _HALF * of_ms else 0.0
