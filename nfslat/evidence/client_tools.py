"""What the tools of NFS print of a client's counters, and of a server's: mountstats, nfsiostat, nfsstat.

mountstats (nfs-utils tools/mountstats/mountstats.py, ``display_rpc_op_stats``): its means have six decimals and stand
beside the count, so the sums are those of the kernel again. Without --since they go back to the mount.

nfsiostat (nfs-utils tools/nfs-iostat/nfs-iostat.py): old versions print no queue column and no errors; some print each
number on a line of its own. The first report of a mount goes back to when it was mounted, the length of the others is
not printed.

nfsstat: a table is a line of names and a line of as many numbers, with shares behind them or not, under a title. Linux:
nfs-utils utils/nfsstat/nfsstat.c (``print_numbers``, ``print_callstats``, and ``print_callstats_list`` of ``nfsstat
-l``); Solaris: its manual, nfsstat(1M). The counters go back to when the host started, or were set to 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from msgspec import field

from nfslat.errors import InputError
from nfslat.evidence.counters import mount_of
from nfslat.evidence.interval import without_resent
from nfslat.evidence.kinds import MOUNTSTATS
from nfslat.evidence.printed import address_of
from nfslat.evidence.records import Evidence, Latency, Mount, OpStats
from nfslat.model.record import Record

_MOUNT = re.compile(MOUNTSTATS)
_OPTIONS = re.compile(r"\s{1,8}NFS mount options: (\S{1,4000})")
_AGE = re.compile(r"\s{1,8}NFS mount age: (?:(\d{1,6}) days?, )?(\d{1,2}):(\d\d):(\d\d)\s*$")
_LONGEST = 9000  # characters of a line of mountstats that are looked at
_SHOWN_OPERATIONS = 3  # of a mount, of a role of a host
_OPERATION = re.compile(r"([A-Z][A-Z0-9_]{1,40}):\s*$")
_OPS = re.compile(r"\s{1,8}(\d{1,15}) ops \(\d{1,5}%\)(?:.*?\s(\d{1,15}) retrans \(\d{1,5}%\))?")
_BYTES = re.compile(r"\s{1,8}avg bytes sent per op: (\d{1,12})\s{1,8}avg bytes received per op: (\d{1,12})")
_MEAN = r"(\d{1,12}\.\d{1,9})"
_TIMES = re.compile(rf"\s{{1,8}}backlog wait: {_MEAN}\s{{1,8}}RTT: {_MEAN}\s{{1,8}}total execute time: {_MEAN}")


def mountstats(lines: Iterable[str], _: str) -> Evidence:
    """Latencies of each mount, beside what they had on the wire; raises ``InputError`` where no operation has times."""
    latencies: list[Latency] = []
    notes: list[str] = []
    for mount in _mounts(lines):
        source = f"mountstats {mount.path}"
        if mount.age_s is not None:
            hours, seconds = divmod(mount.age_s, 3600)
            source += f" of {hours}:{seconds // 60:02}:{seconds % 60:02} h"
        own, remarks = without_resent(mount, source)
        # A host's name in place of its address does not tell whose mount it is.
        server = mount.server if address_of(mount.server, local=True) else ""
        wire_ms = {each.op: each.mean_ms for each in own if each.layer == "client wire"}
        for each in own:
            on_wire_ms = wire_ms[each.op] if each.layer == "client" else None
            latencies.append(replace(each, server=server, wire_ms=on_wire_ms, since_mount=True))
        rows = sorted(mount.ops.items(), key=lambda row: -row[1].execute_ms)[:_SHOWN_OPERATIONS]
        shown = "; ".join(
            f"{op} {stats.execute_ms / stats.ops:.3g} ms, {stats.queue_ms / stats.ops:.3g} of it before it is sent and "
            f"{stats.rtt_ms / stats.ops:.3g} until its answer ({stats.ops:,} ops)"
            for op, stats in rows
        )
        notes += [f"{mount.path}: the client's kernel counts {shown or 'no operation'}", *remarks]
    if not latencies:
        raise InputError("mountstats printed no times of operations: give all that it printed, without --nfs")
    return Evidence(tuple(latencies), (*notes, "its means go back to the mount, unless mountstats had --since"))


def _mounts(lines: Iterable[str]) -> list[Mount]:
    """The mounts in their order. Raises ``InputError`` with the line's number where an operation is cut short."""
    mounts: list[Mount] = []
    ops: dict[str, OpStats] = {}
    op, calls, again, sizes = "", 0, 0, (0, 0)
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007  (the last is named, too)
        text = line[:_LONGEST]
        if mount := _MOUNT.match(text):
            ops, op = {}, ""
            mounts.append(mount_of(mount[1], mount[2], "", ops=ops))
        elif not mounts:
            continue
        elif options := _OPTIONS.match(text):
            mounts[-1] = mount_of(mounts[-1].device, mounts[-1].path, options[1], mounts[-1].age_s, ops)
        elif age := _AGE.match(text):
            days, hours, minutes, seconds = (int(text or 0) for text in age.groups())
            mounts[-1] = replace(mounts[-1], age_s=86400 * days + 3600 * hours + 60 * minutes + seconds)
        elif named := _OPERATION.match(text):
            if op:
                break
            op, calls, again, sizes = named[1], 0, 0, (0, 0)
        elif op and (counted := _OPS.match(text)):
            calls, again = int(counted[1]), int(counted[2] or 0)
        elif op and (moved := _BYTES.match(text)):
            sizes = int(moved[1]) * calls, int(moved[2]) * calls
        elif op and calls and (times := _TIMES.match(text)):
            queue, rtt, execute = (round(float(mean) * calls) for mean in times.groups())
            ops[op] = OpStats(calls, calls + again, 0, *sizes, queue, rtt, execute)
            op = ""
    if op:
        raise InputError(f"line {number}: {op} has no times (backlog wait, RTT, total execute time): is it cut short?")
    return mounts


_COLUMN = re.compile(r"ops?/s|kB/s|kB/op|retrans|avg RTT \(ms\)|avg exe \(ms\)|avg queue \(ms\)|errors|rpc bklog")
_TABLE = re.compile(r"\s*([a-z][a-z_]*):(.*)")
_FIGURE = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_LAYERS = {"client": "avg exe (ms)", "slot wait": "avg queue (ms)", "client wire": "avg RTT (ms)"}


def nfsiostat(lines_of_text: Iterable[str], _: str) -> Evidence:
    """Means of each operation of each mount, then (op "") of its reads and writes together; `source` names the mount.

    The report since the mount is left out where there are later ones; where there are none, `source` says so. Reports
    are weighted by their operations per second, as all have the same length; how many operations it were is not told.
    Raises ``InputError`` where there is no report, or a report is cut short.
    """
    reports: dict[tuple[str, str], list[dict[str, dict[str, float]]]] = {}
    place: tuple[str, str] | None = None
    lines: list[str] = []
    for line in chain(lines_of_text, [" mounted on :"]):
        device, mounted, path = line.rstrip().partition(" mounted on ")
        if not (mounted and path.endswith(":")):
            lines.append(line)
            continue
        if place and (tables := _tables(lines, f"a report of {place[1]}")):
            reports.setdefault(place, []).append(tables)
        place, lines = (device, path[:-1]), []
    if not reports:
        raise InputError("no report of nfsiostat ('DEVICE mounted on PATH:') in it")
    latencies = []
    for (_, path), mine in reports.items():
        source = f"nfsiostat {path}" if len(mine) > 1 else f"nfsiostat {path}, since it was mounted"
        rows: dict[str, list[Mapping[str, float]]] = {}
        for report in mine[1:] or mine:
            for op, columns in report.items():
                if op:
                    rows.setdefault(op, []).append(columns)
        rows[""] = [columns for op in ("READ", "WRITE") for columns in rows.get(op, [])]
        for op, each in rows.items():
            for layer, column in _LAYERS.items():
                means = [(columns["ops/s"], columns[column]) for columns in each if {"ops/s", column} <= columns.keys()]
                weight = sum(rate for rate, _ in means)
                if weight > 0:
                    mean_ms = sum(rate * mean for rate, mean in means) / weight
                    latencies.append(Latency(layer, op, mean_ms, None, source, since_mount=len(mine) == 1))
    return Evidence(tuple(latencies))


def _tables(lines: Iterable[str], what: str) -> dict[str, dict[str, float]]:
    """Operation -> column -> number; "" is the operation of what stands in front of the first."""
    tables: dict[str, dict[str, float]] = {}
    current, columns, numbers = "", list[str](), list[float]()

    def close() -> None:
        if columns and len(numbers) < len(columns):
            raise InputError(f"{what} is cut short")
        if columns:
            tables[current] = dict(zip(columns, numbers, strict=False))
        columns.clear()
        numbers.clear()

    for line in lines:
        rest = line
        if operation := _TABLE.match(line):
            close()
            current, rest = operation[1].upper(), operation[2]  # the heading may follow, or have a line of its own
        if names := _COLUMN.findall(rest):
            close()
            columns += names
        elif columns:
            # Shares stand in brackets and are no columns.
            numbers += [float(word) for word in rest.split() if _FIGURE.fullmatch(word)]
    close()
    return tables


_TITLE = re.compile(
    r"(?:(Client|Server) (?:rpc|nfs|NFSv\d|packet|reply|io|read|file)\b.{0,40}|Version (\d): \(\d{1,19} calls\)"
    r"|NFSv(\d): \(\d{1,19} operations\)|Connection(?: oriented|less))\s*:?\s*$"
)
_LISTED_ROW = re.compile(r"\s{0,8}nfs v(\d) (client|server|servop)\s{1,16}([a-z][\w-]{1,24}):\s{1,16}(\d{1,19})\s*$")
_NAME = re.compile(r"[a-z][a-z0-9_/-]{1,24}")
_NUMBER = re.compile(r"(\d{1,19})(?:\s{1,12}\d{1,3}%)?(?=\s|$)")
_LONGEST_TABLE_LINE = 400  # characters of a line that are looked at
_LEAST_SHARE = 0.05  # of the operations
_MANY_AGAIN = 0.001  # of the calls
# Names of the kernel's client -> operations on the wire.
_ON_WIRE = {"open_noat": "OPEN", "open_noattr": "OPEN", "open_conf": "OPEN_CONFIRM", "open_dgrd": "OPEN_DOWNGRADE",
            "rel_lkowner": "RELEASE_LOCKOWNER", "statfs": "FSSTAT"}  # fmt: skip
_NAMES = {"open_noat": "OPEN_NOATTR"}
_NO_OPERATION = ("null", "compound")  # procedures that hold others, or nothing
# Of NFSv4 the server counts what stands around the main operation, too.
_AROUND = ("putfh", "putrootfh", "getfh", "savefh", "restorefh", "sequence", "getattr")


class Host(Record):
    """The tables of one role of a host."""

    calls: int | None = None  # RPCs; None: not told
    again: int | None = None  # of these, sent again (client), or known from before (server)
    bad: int = 0  # refused by the RPC layer
    operations: Mapping[str, int] = field(default_factory=dict)  # by the host's name of it


def nfsstat(lines: Iterable[str], _: str) -> Evidence:
    """What a host counted, of several readings the last; raises ``InputError`` where there is no table."""
    rpc: dict[str, dict[str, int]] = {"client": {}, "server": {}}
    operations: dict[str, dict[str, int]] = {"client": {}, "server": {}}
    role, version, in_rpc, names = "", "", False, list[str]()
    for line in lines:
        text = line[:_LONGEST_TABLE_LINE].rstrip()
        if listed := _LISTED_ROW.match(text):
            role = "client" if listed[2] == "client" else "server"
            if listed[3] != "total":
                operations[role][f"{listed[1]} {listed[3]}"] = int(listed[4])
        elif title := _TITLE.match(text):
            role = title[1].lower() if title[1] else role
            number = re.search(r"v(\d)", text)
            version = title[2] or title[3] or (number[1] if number else version)
            in_rpc = " rpc" in text or text.startswith("Connection")
            names = []
        elif role and text.strip() and all(_NAME.fullmatch(word) for word in text.split()):
            names = text.split()
        else:
            numbers = [int(number) for number in _NUMBER.findall(text)]
            if names and len(numbers) == len(names):
                table = dict(zip(names, numbers, strict=True))
                if "%" in text:
                    operations[role] |= {f"{version} {name}": count for name, count in table.items()}
                # Solaris prints a table of connections and one without: the one in use is the larger.
                elif in_rpc and table.get("calls", 0) >= rpc[role].get("calls", 0):
                    rpc[role] |= table
            names = []
    hosts = {role: _host(role, rpc[role], operations[role]) for role in ("client", "server")}
    kept = {role: host for role, host in hosts.items() if host.calls or host.operations}
    if not kept:
        raise InputError("no table of nfsstat can be read: give all that nfsstat -c or -s printed")
    return Evidence(record=kept)


def _host(role: str, rpc: Mapping[str, int], operations: Mapping[str, int]) -> Host:
    sums: dict[str, int] = {}
    for key, count in operations.items():
        version, _, name = key.partition(" ")
        around = role == "server" and version == "4" and name in _AROUND
        if count and name not in _NO_OPERATION and not around:
            sums[name] = sums.get(name, 0) + count
    again = next((rpc[name] for name in ("retrans", "dupreqs", "timeouts") if name in rpc), None)
    return Host(rpc.get("calls"), again, rpc.get("badcalls", 0), sums)


def beside(
    counted: Mapping[str, Host], share_of: Mapping[str, float], resent: int | None
) -> tuple[list[str], list[str]]:
    """What a host counts, beside the captures; and why that is of no use for them.

    `share_of` is the share of each operation among those of the captures, `resent` how many of their calls were sent
    again (None: not known).
    """
    notes: list[str] = []
    unused: list[str] = []
    for role, host in counted.items():
        if host.calls:
            notes.append(_calls(role, host, host.calls, resent))
        total = sum(host.operations.values())
        rows = sorted(host.operations.items(), key=lambda row: -row[1])
        most = [(name, count / total) for name, count in rows if count >= _LEAST_SHARE * total][:_SHOWN_OPERATIONS]
        if not most:
            continue
        shown = ", ".join(f"{share:.1%} {_NAMES.get(name, name.upper())}" for name, share in most)
        shares = [share_of.get(_ON_WIRE.get(name, name.upper()), 0.0) for name, _ in most]
        here = ", ".join(f"{share:.1%}" for share in shares)
        notes.append(f"the {role} counts {shown} since its counters began; in the captures that is {here}")
        if not any(shares):
            unused.append(
                f"the operations that the {role} counts most ({shown}) are not in the captures, which are of another "
                "load than most of what it counts"
            )
    return notes, unused


def _calls(role: str, host: Host, calls: int, resent: int | None) -> str:
    text = f"the {role} counts {calls:,} calls since its counters began"
    if host.again is not None:
        share = host.again / calls
        what = "sent again" if role == "client" else "known from before (sent again by a client)"
        text += f", {host.again:,} of them {what} ({share:.{2 if share < _MANY_AGAIN else 1}%})"
        if host.again and resent is not None:
            text += f"; in the captures {f'{resent:,}' if resent else 'none'} {'was' if resent < 2 else 'were'}"
    if host.bad:
        text += f"; {host.bad:,} were refused or failed in the RPC layer (badcalls)"
    return text
