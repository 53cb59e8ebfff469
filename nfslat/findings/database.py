"""Facts -> the finding on the time of a database that neither its waits nor its processor time hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts
from nfslat.findings.words import percent

if TYPE_CHECKING:
    from nfslat.evidence.records import Database

_SOME = 0.1  # of the database time: worth a word
_LEAST_S = 60.0  # less database time is no load


class NoWait(Evidence, kw_only=True):
    """Of database-no-wait."""

    db_time_min: float
    no_wait_share: float  # of that, in no wait and on no processor
    at_most: bool  # there may be more waits than the report shows
    cpu_share: float
    wait_share: float
    elapsed_min: float | None
    on_cpu_samples_share: float | None  # of the samples of ASH, those in no wait
    load_per_cpu: float | None  # of its host
    of_these_captures: bool  # its host is the client, and its interval that of the captures

    @property
    def how_much(self) -> str:
        """``74.2 %``, ``Up to 74.2 %``."""
        return f"{'Up to ' if self.at_most else ''}{percent(self.no_wait_share)}"


def database_findings(f: Facts) -> list[Diagnosis]:
    """Of little weight unless the report is known to be of the captures' time and host."""
    base = f.database
    if base is None or base.time.db_s < _LEAST_S or base.time.nowhere_s < _SOME * base.time.db_s:
        return []
    share = base.time.share(base.time.nowhere_s)
    evidence = NoWait(
        db_time_min=base.time.db_s / 60,
        no_wait_share=share,
        at_most=not base.time.all_waits,
        cpu_share=base.time.share(base.time.cpu_s),
        wait_share=base.time.share(base.time.waits_s),
        elapsed_min=None if base.time.elapsed_s is None else base.time.elapsed_s / 60,
        on_cpu_samples_share=base.on_cpu_share,
        load_per_cpu=None if base.time.load is None or not base.time.cpus else base.time.load / base.time.cpus,
        of_these_captures=base.sure,
    )
    found = diagnosis(
        "database-no-wait",
        _text(base, evidence),
        share=None,
        confidence="likely",
        evidence=evidence,
        advice=LookAt(
            how=(
                "# run queue: vmstat 1 (r above the processors), perf sched latency; cgroup limits; steal time (st)",
                "# paging: vmstat 1 (si, so, free), pidstat -r 1 (majflt), huge pages in /proc/meminfo for the SGA",
                "# the kernel: /proc/PID/stack and perf record -a -g of sessions (--evidence stacks.txt): NUMA "
                "balancing, compaction, reclaim, locks of the page cache",
            ),
            verify="DB CPU and waits of a new AWR report add up to its DB time",
        ),
    )
    return [found if f.lacks_processors else replace(found, severity="info")]


def _text(base: Database, e: NoWait) -> str:
    waits = "the waits that the report shows" if e.at_most else "waits"
    text = (
        f"{e.how_much} of the {e.db_time_min:,.0f} minutes of database time are in no wait and on no CPU (DB CPU "
        f"{percent(e.cpu_share)}, {waits} {percent(e.wait_share)}; {base.source}): sessions that are ready and have no "
        "processor (run queue), paging, or a kernel that works for them"
    )
    if e.on_cpu_samples_share is not None:
        text += f"; ASH has {percent(e.on_cpu_samples_share)} of its samples in no wait"
    if e.load_per_cpu is not None:
        text += f"; the host's load is {e.load_per_cpu:.1f} per CPU"
    if not e.of_these_captures:
        text += (
            "; whether it is of the captures' time and client is not known: give a snapshot of the client "
            "(--client-snapshot), which has its name and zone"
        )
    return text
