"""Kernel stacks, folded or as /proc/PID/stack shows them -> samples, and what the tasks did in them, each counted once.

Folded: one line a stack, frames from the root on, then its samples:
``nfsd;ret_from_fork;nfsd;svc_recv;schedule 421`` (Gregg, FlameGraph, stackcollapse-*.pl; bcc's offcputime -f prints
microseconds in place of samples). /proc/PID/stack: a frame a line from the leaf on, ``[<0>] io_schedule+0x42/0x70``,
each stack one sample.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nfslat.errors import InputError
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
OTHER = "other"
NUMA = "NUMA balancing"
_NAMES = list(_GROUPS)
# A group is told by how its functions begin: "[k]" and "+0x1c" may follow, a module and "`" (DTrace) stand before. The
# frame next to the leaf says what a task does, those behind it what for.
_FRAME = re.compile(rf"(?:^|[;`])_{{0,3}}(?:{'|'.join(f'({begins})' for begins in _GROUPS.values())})")
_COUNT = re.compile(r"\d{1,15}(?:\.\d{1,6})?$")
_OF_PROC = re.compile(r"\s*\[<[0-9a-fA-Fx]{1,18}>\] ([A-Za-z_.][\w.$]{0,200})(?:\+0x|\s|$)")
# Where a task came into the kernel, which ends its stack; of these several may follow each other.
_ROOT = re.compile(
    r"(?:ret_from_fork|entry_SYSCALL|do_syscall_64|asm_|el\dt?_|ret_fast_syscall|system_call|x64_sys_call)"
)
_MUCH = 0.05  # of the samples


@dataclass(frozen=True)
class Stacks:
    """Samples, or microseconds, of all stacks, and by what the task did: each stack is in one group."""

    total: float
    groups: Mapping[str, float]  # groups that occur, the largest first; they sum to `total`
    unreadable: int  # lines that are no stack

    def share(self, group: str) -> float:
        """Part of all samples, 0 to 1."""
        return self.groups.get(group, 0.0) / self.total


def belongs(line: str) -> bool:
    """Whether the line looks like a stack, or a frame of one; other text may, too."""
    frames, _, count = line.rstrip("\r\n").rpartition(" ")
    is_folded = ";" in frames and "\t" not in frames and _COUNT.match(count) is not None
    return is_folded or _OF_PROC.match(line) is not None


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """Notes, and no latencies; raises ``InputError`` where the file holds nothing."""
    stacks = parse(lines)
    return Evidence((), notes(stacks), stacks)


def parse(lines: Iterable[str]) -> Stacks:
    """Read stacks; raises ``InputError`` where there are none."""
    groups, unreadable = defaultdict[str, float](float), 0
    for frames, samples in _stacks(lines):
        if frames:
            groups[group_of(frames)] += samples
        else:
            unreadable += 1
    total = sum(groups.values())
    if not total:
        raise InputError(
            "no stack with samples can be read: one line a stack, frames with ; between them, the count last; or what "
            "/proc/PID/stack shows"
        )
    return Stacks(total, dict(sorted(groups.items(), key=lambda item: (item[0] == OTHER, -item[1]))), unreadable)


def group_of(frames: str) -> str:
    """What a task does, by its frames from the root on with ``;`` between them: the known one next to the leaf says."""
    known = [found.lastindex or 1 for found in _FRAME.finditer(frames)]
    return _NAMES[known[-1] - 1] if known else OTHER


def _stacks(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Each stack from the root on, and its samples; no frames for a line that cannot be read."""
    open_frames: list[str] = []
    for line in lines:
        if found := _OF_PROC.match(line):
            if open_frames and _ROOT.match(open_frames[-1]) and not _ROOT.match(found[1]):
                yield ";".join(reversed(open_frames)), 1
                open_frames = []
            open_frames.append(found[1])
            continue
        if open_frames:
            yield ";".join(reversed(open_frames)), 1
            open_frames = []
        frames, _, count = line.rstrip("\r\n").rpartition(" ")
        if ";" in frames and _COUNT.match(count):
            yield frames, float(count)
        elif line.strip() and not _is_heading(line):
            yield "", 0
    if open_frames:
        yield ";".join(reversed(open_frames)), 1


def _is_heading(line: str) -> bool:
    """Of `tail -n +1 /proc/*/stack` and of `grep . /proc/*/stack`, or a number alone: whose the next stack is."""
    text = line.strip()
    return text.startswith(("==", "#", "/proc/")) or text.isdecimal()


def notes(stacks: Stacks) -> tuple[str, ...]:
    """The groups as shares, the largest first, what to do about one that no NFS setting mends, and what could not be
    read."""
    said = [f"{group}: {stacks.share(group):.1%} of {stacks.total:,.0f}" for group in stacks.groups]
    if stacks.share(NUMA) >= _MUCH:
        said.append(
            f"{stacks.share(NUMA):.0%} of the samples move pages between NUMA nodes, or wait for a page that is being "
            "moved: that looks like I/O, and is none. See whether kernel.numa_balancing is 1, and whether "
            "numa_pages_migrated in /proc/vmstat grows; kernel.numa_balancing=0 ends it, at the risk that memory stays "
            "on a distant node (bind the application with numactl where that matters)"
        )
    if stacks.unreadable:
        said.append(f"lines that could not be read: {stacks.unreadable}")
    return tuple(said)
