"""What the tool mountstats prints -> its mounts, with the means of the counters that /proc/self/mountstats has.

Source: nfs-utils tools/mountstats/mountstats.py (``display_rpc_op_stats``). The means have six decimals and stand
beside the count, so the sums are those of the kernel again. Without --since they go back to the mount.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nfslat.errors import InputError
from nfslat.evidence.interval import without_resent
from nfslat.evidence.mountstats import options_of, version_of
from nfslat.evidence.records import Evidence, Latency, Mount, OpStats

_MOUNT = re.compile(r"Stats for (\S.{0,4000}) mounted on (/.{0,4000}):\s*$")
_OPTIONS = re.compile(r"\s{1,8}NFS mount options: (\S{1,4000})")
_AGE = re.compile(r"\s{1,8}NFS mount age: (?:(\d{1,6}) days?, )?(\d{1,2}):(\d\d):(\d\d)\s*$")
_LONGEST_LINE = 9000  # characters of a line that are looked at
_MOST_OPERATIONS = 3  # of a mount that are named
_OPERATION = re.compile(r"([A-Z][A-Z0-9_]{1,40}):\s*$")
_OPS = re.compile(r"\s{1,8}(\d{1,15}) ops \(\d{1,5}%\)")
_AGAIN = re.compile(r"\s(\d{1,15}) retrans \(\d{1,5}%\)")
_BYTES = re.compile(r"\s{1,8}avg bytes sent per op: (\d{1,12})\s{1,8}avg bytes received per op: (\d{1,12})")
_MEAN = r"(\d{1,12}\.\d{1,9})"
_TIMES = re.compile(rf"\s{{1,8}}backlog wait: {_MEAN}\s{{1,8}}RTT: {_MEAN}\s{{1,8}}total execute time: {_MEAN}")


def belongs(line: str) -> bool:
    """Whether a mount begins with the line."""
    return line.startswith("Stats for ") and _MOUNT.match(line[:_LONGEST_LINE]) is not None


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """Latencies of each mount; raises ``InputError`` where no operation has times, or those of one cannot be read."""
    mounts = parse(lines)
    by_mount = [(mount, *without_resent(mount, _source(mount))) for mount in mounts]
    latencies = tuple(latency for mount, each, _ in by_mount for latency in _of_mount(mount, each))
    if not latencies:
        raise InputError("mountstats printed no times of operations: give all that it printed, without --nfs")
    notes = [note for mount, _, remarks in by_mount for note in (_costliest(mount), *remarks)]
    return Evidence(latencies, (*notes, "its means go back to the mount, unless mountstats had --since"), mounts)


def parse(lines: Iterable[str]) -> tuple[Mount, ...]:
    """The mounts in their order. Raises ``InputError`` with the line's number where an operation is cut short."""
    mounts: list[Mount] = []
    ops: dict[str, OpStats] = {}
    op, calls, again, sizes = "", 0, 0, (0, 0)
    number = 0
    for number, line in enumerate(lines, 1):
        text = line[:_LONGEST_LINE]
        if started := _MOUNT.match(text):
            ops, op = {}, ""
            mounts.append(Mount(started[1], started[2], version="", ops=ops))
        elif not mounts:
            continue
        elif options := _OPTIONS.match(text):
            in_effect = options_of(options[1])
            mounts[-1] = replace(mounts[-1], options=in_effect, version=version_of(in_effect))
        elif age := _AGE.match(text):
            days, hours, minutes, seconds = (int(text or 0) for text in age.groups())
            mounts[-1] = replace(mounts[-1], age_s=86400 * days + 3600 * hours + 60 * minutes + seconds)
        elif named := _OPERATION.match(text):
            _refuse_cut(op, number)
            op, calls, again, sizes = named[1], 0, 0, (0, 0)
        elif op and (counted := _OPS.match(text)):
            resent = _AGAIN.search(text)
            calls, again = int(counted[1]), int(resent[1]) if resent else 0
        elif op and (moved := _BYTES.match(text)):
            sizes = (int(moved[1]) * calls, int(moved[2]) * calls)
        elif op and calls and (times := _TIMES.match(text)):
            queue, rtt, execute = (round(float(mean) * calls) for mean in times.groups())
            ops[op] = OpStats(calls, calls + again, 0, *sizes, queue, rtt, execute)
            op = ""
    _refuse_cut(op, number)
    return tuple(mounts)


def _refuse_cut(op: str, number: int) -> None:
    """An operation whose times did not come before line `number`."""
    if op:
        raise InputError(f"line {number}: {op} has no times (backlog wait, RTT, total execute time): is it cut short?")


def _source(mount: Mount) -> str:
    if mount.age_s is None:
        return f"mountstats {mount.path}"
    hours, seconds = divmod(mount.age_s, 3600)
    return f"mountstats {mount.path} of {hours}:{seconds // 60:02}:{seconds % 60:02} h"


def _of_mount(mount: Mount, latencies: Sequence[Latency]) -> Iterator[Latency]:
    """Beside what they had on the wire; a host's name in place of its address does not tell whose mount it is."""
    server = mount.server if _is_address(mount.server) else ""
    wire_ms = {latency.op: latency.mean_ms for latency in latencies if latency.layer == "client wire"}
    for latency in latencies:
        yield replace(latency, server=server, wire_ms=wire_ms[latency.op] if latency.layer == "client" else None)


def _costliest(mount: Mount) -> str:
    """What most time goes into, by operation, and how much of that is before the calls are sent."""
    rows = sorted(mount.ops.items(), key=lambda row: -row[1].execute_ms)[:_MOST_OPERATIONS]
    shown = "; ".join(
        f"{op} {stats.execute_ms / stats.ops:.3g} ms, {stats.queue_ms / stats.ops:.3g} of it before it is sent and "
        f"{stats.rtt_ms / stats.ops:.3g} until its answer ({stats.ops:,} ops)"
        for op, stats in rows
    )
    return f"{mount.path}: the client's kernel counts {shown or 'no operation'}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
