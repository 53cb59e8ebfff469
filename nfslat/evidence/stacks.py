"""Where tasks were: stacks of the kernel, folded or as /proc/PID/stack shows them, and `perf sched latency` -> notes.

Folded: one line a stack, frames from the root on, then its samples: ``nfsd;ret_from_fork;nfsd;svc_recv;schedule 421``
(Gregg, FlameGraph, stackcollapse-*.pl; bcc's offcputime -f prints microseconds in place of samples). /proc/PID/stack: a
frame a line from the leaf on, ``[<0>] io_schedule+0x42/0x70``, each stack one sample. Each sample counts once.

`perf sched latency` (Linux tools/perf/builtin-sched.c, output_lat_thread) has a line a task, "comm:pid", or "comm:(n)"
for n of one name; the last column is "max:" in the first versions, then "max at:", since 2020 "max start:", "max end:":

    nfsd:(8)              |    123.456 ms |      789 | avg:   0.524 ms | max:   1.069 ms | max at: 254752.314960 s
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from nfslat.errors import InputError
from nfslat.evidence.kinds import FRAME, PERF_SCHED
from nfslat.evidence.records import Evidence

# Functions of the Linux kernel, by what a task does in them; of a function that two groups have the first one takes it.
_GROUPS: Mapping[str, str] = {
    "NFS server, idle": r"svc_recv|svc_get_next_xprt|svc_wait_for_work|svc_thread_wait_for_work",
    "NFS server, serving": r"nfsd_dispatch|nfsd\d?_proc_|nfsd4_proc_compound|nfsd_vfs_",
    "NFS client, waiting for an RPC": r"rpc_wait_bit|rpc_wait_for_completion|nfs_wait_on_request|nfs_wait_bit",
    "NFS client, slots": r"xprt_(?:dynamic_alloc_slot|alloc_slot|reserve|add_backlog)|nfs4_(?:setup_seq|alloc_slot)",
    "RPC transport": r"xprt_|xs_|rpc_async_schedule|rpc_execute",
    "TCP": r"tcp_",
    # A task waits in io_schedule for a page as well, whoever fills or moves it: alone it is no block I/O.
    "block I/O": r"blk_|submit_bio|bio_",
    "locks": r"mutex_lock|rwsem_|down_(?:read|write)|osq_lock|raw_spin_lock|(?:native_)?queued_spin_lock|futex_",
    "memory reclaim": r"try_to_free_pages|shrink_node|shrink_lruvec|balance_pgdat|alloc_pages_direct_reclaim",
    "memory compaction": r"compact_zone|try_to_compact_pages|isolate_migratepages",
    # kernel/sched/fair.c, mm/migrate.c: pages are moved to the node of the task; whoever touches one meanwhile waits.
    "NUMA balancing": r"task_numa_|do_(?:huge_pmd_)?numa_page|migrate_misplaced|change_prot_numa|"
    r"numamigrate_|(?:pmd_)?migration_entry_wait",
    "page faults": r"handle_mm_fault|do_user_addr_fault|asm_exc_page_fault|do_page_fault",
}
_OTHER, _NUMA = "other", "NUMA balancing"
_NAMES = list(_GROUPS)
# A group is told by how its functions begin: "[k]" and "+0x1c" may follow, a module and "`" (DTrace) stand before. The
# frame next to the leaf says what a task does, those behind it what for.
_BEGINS = re.compile(rf"(?:^|[;`])_{{0,3}}(?:{'|'.join(f'({begins})' for begins in _GROUPS.values())})")
_COUNT = re.compile(r"\d{1,15}(?:\.\d{1,6})?$")
_FRAME = re.compile(FRAME)
# Where a task came into the kernel, which ends its stack; of these several may follow each other.
_ROOT = re.compile(
    r"(?:ret_from_fork|entry_SYSCALL|do_syscall_64|asm_|el\dt?_|ret_fast_syscall|system_call|x64_sys_call)"
)
_MUCH = 0.05  # of the samples

_MS = r"(\d{1,12}(?:\.\d{1,9})?) ms"
_ROW = re.compile(
    rf"\s*([^|]{{1,64}}?):(?:\(\d{{1,9}}\)|-?\d{{1,10}})\s*\|\s*{_MS} \|\s*(\d{{1,15}}) \|"
    rf"\s*avg:\s*{_MS} \|\s*max:\s*{_MS}(?=\s|$)"
)
_HAS_ROW = re.compile(PERF_SCHED)
_MOST_TASKS, _SHOWN_TASKS = 100_000, 3
_TASKS_OF_INTEREST = ("nfsd", "kworker", "ora", "rpciod", "xprtiod", "fio")


def folded(lines: Iterable[str], _: str) -> Evidence:
    """The groups as shares, the largest first, and what to do about one that no NFS setting mends.

    Raises ``InputError`` where there is no stack.
    """
    groups, unreadable = defaultdict[str, float](float), 0
    for frames, samples in _stacks(lines):
        if frames:
            known = [match.lastindex or 1 for match in _BEGINS.finditer(frames)]
            groups[_NAMES[known[-1] - 1] if known else _OTHER] += samples
        else:
            unreadable += 1
    total = sum(groups.values())
    if not total:
        raise InputError(
            "no stack with samples can be read: one line a stack, frames with ; between them, the count last; or what "
            "/proc/PID/stack shows"
        )
    stacks = dict(sorted(groups.items(), key=lambda item: (item[0] == _OTHER, -item[1])))
    notes = [f"{group}: {samples / total:.1%} of {total:,.0f}" for group, samples in stacks.items()]
    if (numa := stacks.get(_NUMA, 0.0) / total) >= _MUCH:
        notes.append(
            f"{numa:.0%} of the samples move pages between NUMA nodes, or wait for a page that is being "
            "moved: that looks like I/O, and is none. See whether kernel.numa_balancing is 1, and whether "
            "numa_pages_migrated in /proc/vmstat grows; kernel.numa_balancing=0 ends it, at the risk that memory stays "
            "on a distant node (bind the application with numactl where that matters)"
        )
    if unreadable:
        notes.append(f"lines that could not be read: {unreadable}")
    return Evidence((), tuple(notes), stacks)


def _stacks(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Each stack from the root on, and its samples; no frames for a line that cannot be read."""
    open_frames: list[str] = []

    def close() -> Iterator[tuple[str, float]]:
        if open_frames:
            yield ";".join(reversed(open_frames)), 1
            open_frames.clear()

    for line in lines:
        if frame := _FRAME.match(line):
            if open_frames and _ROOT.match(open_frames[-1]) and not _ROOT.match(frame[1]):
                yield from close()
            open_frames.append(frame[1])
            continue
        yield from close()
        text = line.strip()
        frames, _, count = line.rstrip("\r\n").rpartition(" ")
        if ";" in frames and _COUNT.match(count):
            yield frames, float(count)
        # Whose the next stack is, of `tail -n +1 /proc/*/stack` and of `grep . /proc/*/stack`, or a number alone.
        elif text and not text.startswith(("==", "#", "/proc/")) and not text.isdecimal():
            yield "", 0
    yield from close()


def perf_sched(lines: Iterable[str], _: str) -> Evidence:
    """The tasks of NFS and of Oracle that waited longest for a processor; raises ``InputError`` without any task."""
    rows = [_ROW.match(line[:400]) for line in lines if _HAS_ROW.match(line)]
    tasks = [row.groups() for row in rows[:_MOST_TASKS] if row]
    if not tasks:
        raise InputError("no task of `perf sched latency` can be read: give the whole table, as perf prints it")
    known = [task for task in tasks if task[0].startswith(_TASKS_OF_INTEREST)]
    known.sort(key=lambda task: -float(task[3]))
    notes = [
        f"{task} waited {float(mean):.3f} ms for a processor (mean of {int(switches)} switches, "
        f"at most {float(most):.3f} ms)"
        for task, __, switches, mean, most in known[:_SHOWN_TASKS]
    ]
    if unreadable := len(rows) - len(tasks):
        notes.append(f"rows that could not be read: {unreadable}")
    return Evidence((), tuple(notes))
