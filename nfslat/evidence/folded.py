"""Folded stacks -> samples, and the share of them in which frames of known groups occur.

One line a stack, frames from the root on, then its samples: ``nfsd;ret_from_fork;nfsd;svc_recv;schedule 421`` (Gregg,
FlameGraph, stackcollapse-*.pl; bcc's offcputime -f prints microseconds in place of samples).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nfslat.errors import InputError
from nfslat.evidence.records import Evidence

# Functions of the Linux kernel, by what a task does in them.
_GROUPS: Mapping[str, str] = {
    "NFS server, serving": r"nfsd_dispatch|nfsd\d?_proc_|nfsd4_proc_compound|nfsd_vfs_",
    "NFS server, idle": r"svc_recv|svc_get_next_xprt|svc_wait_for_work|svc_thread_wait_for_work",
    "NFS client, waiting for an RPC": r"rpc_wait_bit|rpc_wait_for_completion|nfs_wait_on_request|nfs_wait_bit",
    "NFS client, slots": r"xprt_(?:dynamic_alloc_slot|alloc_slot|reserve|add_backlog)|nfs4_(?:setup_seq|alloc_slot)",
    "RPC transport": r"xprt_|xs_|rpc_async_schedule|__rpc_execute",
    "TCP": r"tcp_",
    "block I/O": r"io_schedule|blk_|submit_bio|bio_",
    "locks": r"mutex_lock|rwsem_|down_(?:read|write)|osq_lock|raw_spin_lock|(?:native_)?queued_spin_lock|futex_",
    "page faults": r"handle_mm_fault|do_user_addr_fault|asm_exc_page_fault|__do_page_fault|do_page_fault",
    "memory reclaim": r"try_to_free_pages|shrink_node|shrink_lruvec|balance_pgdat|__alloc_pages_direct_reclaim",
    "NUMA migration": r"task_numa_|do_numa_page|migrate_misplaced|change_prot_numa|migrate_pages",
}
# A group is told by how its functions begin: "[k]" and "+0x1c" may follow, a module and "`" (DTrace) stand before.
_FRAMES = {group: re.compile(rf"(?:^|[;`])_{{0,3}}(?:{begins})") for group, begins in _GROUPS.items()}
_COUNT = re.compile(r"\d{1,15}(?:\.\d{1,6})?$")


@dataclass(frozen=True)
class Stacks:
    """Samples, or microseconds, of all stacks, and of those in which a frame of a group occurs.

    A stack may be in several groups, so that the shares do not add up.
    """

    total: float
    groups: Mapping[str, float]  # groups that occur, the largest first
    unreadable: int  # lines that are no stack

    def share(self, group: str) -> float:
        """Part of all samples, 0 to 1."""
        return self.groups.get(group, 0.0) / self.total


def belongs(line: str) -> bool:
    """Whether the line looks like a stack; other text may, too."""
    frames, _, count = line.rstrip("\r\n").rpartition(" ")
    return ";" in frames and "\t" not in frames and _COUNT.match(count) is not None


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """Notes, and no latencies; raises ``InputError`` where the file holds nothing."""
    stacks = parse(lines)
    return Evidence((), notes(stacks), stacks)


def parse(lines: Iterable[str]) -> Stacks:
    """Read stacks; raises ``InputError`` where there are none."""
    total, groups, unreadable = 0.0, dict.fromkeys(_GROUPS, 0.0), 0
    for line in lines:
        frames, _, count = line.rstrip("\r\n").rpartition(" ")
        if not frames or not _COUNT.match(count):
            unreadable += bool(line.strip())
            continue
        samples = float(count)
        total += samples
        for group, frame in _FRAMES.items():
            if frame.search(frames):
                groups[group] += samples
    if not total:
        raise InputError(
            "no stack with samples can be read: one line a stack, frames with ; between them, the count last"
        )
    found = {group: samples for group, samples in groups.items() if samples}
    return Stacks(total, dict(sorted(found.items(), key=lambda item: -item[1])), unreadable)


def notes(stacks: Stacks) -> tuple[str, ...]:
    """The groups as shares, the largest first, and what could not be read."""
    said = [f"{group}: {stacks.share(group):.1%} of {stacks.total:,.0f}" for group in stacks.groups]
    if stacks.unreadable:
        said.append(f"lines that could not be read: {stacks.unreadable}")
    return tuple(said)
