"""Counters that kernels print -> plain values: mountstats, /proc/net/rpc/nfsd, pool_stats, diskstats and more.

Sources, Linux 6.1 and 6.12: fs/nfs/super.c (``nfs_show_stats``), net/sunrpc/stats.c (a line an operation), xprtsock.c,
xprtrdma/transport.c (``*_print_stats``), fs/nfsd/stats.c, svc_xprt.c, Documentation/filesystems/nfs/knfsd-stats.rst,
Documentation/admin-guide/iostats.rst (requests, sectors of 512 bytes, ms), proc_stat(5) (ticks of all processors),
Documentation/accounting/psi.rst (µs in which some task waited), mm/vmstat.c, RFC 4022 (segments of TCP). They count
from the boot or the mount on. docs/evidence.md says what the figures mean, and what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from nfslat.errors import InputError
from nfslat.evidence.records import Mount, NfsdStats, OpStats, Pool, Xprt

# 64 bits have 20 digits. An idle time can be printed as a negative number.
_COUNTER = re.compile(r"-?[0-9]{1,20}")
_DIGITS = re.compile(r"\d{1,18}$", re.ASCII)
_DEVICE = re.compile(r"device (\S+) mounted on (\S+) with fstype nfs4?(?!\S)")
_OPERATION = re.compile(r"\s+([A-Z][A-Z0-9_]*):(.*)")
_ESCAPE = re.compile(r"\\([0-7]{3})")
# What stands between the name of a transport and its queue lengths.
_TCP = "source_port bind connects connect_time idle_s sends receives bad_xids req_u backlog_u".split()
_XPRT_FIELDS = {
    "tcp": _TCP,
    "rdma": _TCP,  # its further counters are of chunks, not of slots
    "udp": [name for name in _TCP if name not in ("connects", "connect_time", "idle_s")],
    "local": _TCP[1:],
}
_SLOT_FIELDS = ["max_slots", "sending_u", "pending_u"]  # old kernels end with backlog_u
_NFSD_PLACES = {"io": (2, (0, 1)), "net": (4, (3,)), "rpc": (2, (0, 1))}  # numbers of a line, and those that are read
_POOL_COLUMNS = ("pool", "packets-arrived", "sockets-enqueued", "threads-woken", "threads-timedout")
DISK_FIELDS = 11  # of /proc/diskstats behind the name, in each kernel since 2.6
TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def counters(words: Sequence[str], at_least: int, where: str) -> list[int]:
    """`words` as integers, `at_least` so many; `where` is the place that an ``InputError`` names."""
    if len(words) < at_least:
        raise InputError(f"{where}: {len(words)} numbers where {at_least} are printed: is the text cut short?")
    for word in words:
        if not _COUNTER.fullmatch(word):
            raise InputError(f"{where}: {word[:40]!r} is not a counter")
    return [int(word) for word in words]


def mounts(text: str, name: str) -> tuple[Mount, ...]:
    """The NFS mounts of mountstats, in its order; other file systems are passed over.

    Raises ``InputError`` with `name` and the line where a line of a mount is not as a kernel prints it.
    """
    parts: list[tuple[re.Match[str], dict[str, str], dict[str, OpStats], list[Xprt]]] = []
    is_nfs = False
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{name}, line {number}"
        if line.startswith(("device ", "no device mounted on ")):
            if device := _DEVICE.match(line):
                parts.append((device, {}, {}, []))
            is_nfs = device is not None
        elif not is_nfs:
            continue
        elif operation := _OPERATION.fullmatch(line):
            parts[-1][2][operation[1]] = OpStats(*counters(operation[2].split(), 8, where)[:8])
        elif line.lstrip().startswith("xprt:"):
            if xprt := _xprt(line.split()[1:], where):
                parts[-1][3].append(xprt)
        else:
            key, _, value = line.strip().partition(":")
            parts[-1][1].setdefault(key, value.strip())
    return tuple(_mount(device, facts, ops, xprts, name) for device, facts, ops, xprts in parts)


def _mount(
    device: re.Match[str], facts: Mapping[str, str], ops: Mapping[str, OpStats], xprts: Sequence[Xprt], name: str
) -> Mount:
    age = counters([facts["age"]], 1, f"{name}, age of {device[2]}")[0] if "age" in facts else None
    return mount_of(unescaped(device[1]), unescaped(device[2]), facts.get("opts", ""), age, ops, tuple(xprts))


def mount_of(
    device: str,
    path: str,
    text: str,
    age_s: int | None = None,
    ops: Mapping[str, OpStats] | None = None,
    xprts: tuple[Xprt, ...] = (),
) -> Mount:
    """A mount with the options of `text`, ``rw,vers=3``; old kernels print the minor version on its own."""
    options = {key: value for key, _, value in (option.partition("=") for option in text.split(",") if option)}
    version, minor = options.get("vers", ""), options.get("minorversion")
    version = f"{version}.{minor}" if version == "4" and minor else version
    return Mount(device, path, version, options, age_s, {} if ops is None else ops, xprts)


def unescaped(word: str) -> str:
    r"""A path as it is: /proc writes blanks and backslashes as ``\040`` and ``\134``; a line feed stays ``\012``."""
    return _ESCAPE.sub(lambda octal: code if (code := chr(int(octal[1], 8))).isprintable() else octal[0], word)


def _xprt(words: list[str], where: str) -> Xprt | None:
    """None for a transport that is not known: its fields are not either."""
    transport = words[0] if words else ""
    names = _XPRT_FIELDS.get(transport)
    if names is None:
        return None
    values = counters(words[1:], len(names), where)
    if transport != "rdma" and len(values) >= len(names) + len(_SLOT_FIELDS):
        names = names + _SLOT_FIELDS
    known = {key: value for key, value in zip(names, values, strict=False) if key in Xprt.__dataclass_fields__}
    return Xprt(**{"transport": transport, "source_port": 0, **known})  # type: ignore[arg-type]  # strings and counts


def nfsd(text: str, name: str) -> NfsdStats:
    """/proc/net/rpc/nfsd since nfsd was loaded. Raises ``InputError`` where a line is not as a kernel prints it."""
    threads: int | None = None
    values: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        key, *words = line.split() or [""]
        where = f"{name}, line {number}"
        if key in ("proc2", "proc3", "proc4", "proc4ops"):
            declared, *counts = counters(words, 1, where)
            if len(counts) < declared:
                raise InputError(f"{where}: {len(counts)} of {declared} counters of {key}: is the text cut short?")
            values |= {f"{key}.{op}": count for op, count in enumerate(counts[:declared])}
        elif key in _NFSD_PLACES:
            at_least, places = _NFSD_PLACES[key]
            read = counters(words, at_least, where)
            values |= {f"{key}.{place}": read[place] for place in places}
        elif key == "th":
            threads = counters(words[:1], 1, where)[0]
    if threads is None or not {"net.3", "rpc.0"} <= values.keys():
        raise InputError(f"{name}: the lines th, net and rpc of /proc/net/rpc/nfsd are missing: is the text cut short?")
    return NfsdStats(threads, values)


def pools(text: str, name: str) -> tuple[Pool, ...]:
    """/proc/fs/nfsd/pool_stats, a row a pool. Raises ``InputError`` where heading or row is not as a kernel prints it.

    Columns go by their heading: old kernels have another column.
    """
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    heading = lines[0][1][1:] if lines and lines[0][1][0] == "#" else []
    if not set(_POOL_COLUMNS) <= set(heading):
        raise InputError(f"{name}: no heading '# {' '.join(_POOL_COLUMNS)}': is this pool_stats?")
    places = [heading.index(column) for column in _POOL_COLUMNS]
    rows = [counters(words, len(heading), f"{name}, line {number}") for number, words in lines[1:]]
    return tuple(Pool(*(values[place] for place in places)) for values in rows)


def disks(text: str) -> dict[str, int]:
    """``disk.sda.0`` and so on of /proc/diskstats: eleven figures of each device that ever had a request."""
    read: dict[str, int] = {}
    for words in (line.split() for line in text.split("\n")):
        figures = words[3 : 3 + DISK_FIELDS]
        if len(figures) == DISK_FIELDS and all(map(_DIGITS.match, figures)) and figures[0] + figures[4] != "00":
            read |= {f"disk.{words[2]}.{at}": int(figure) for at, figure in enumerate(figures)}
    return read


def ticks(text: str) -> dict[str, int]:
    """``cpu.idle`` and so on of /proc/stat, all processors together."""
    words = next((line.split() for line in text.split("\n") if line.startswith("cpu ")), [])
    return _named("cpu", zip(TICKS, words[1:], strict=False))


def pages(text: str) -> dict[str, int]:
    """``vm.pgmajfault`` and so on of /proc/vmstat."""
    return _named("vm", ((words[0], words[1]) for line in text.split("\n") if len(words := line.split()) == 2))


def pressure(what: str, text: str) -> dict[str, int]:
    """``psi.cpu`` of /proc/pressure/cpu: µs."""
    return _named("psi", ((what, total) for total in re.findall(r"^some .{0,80}\btotal=(\d{1,18})$", text, re.M)[:1]))


def segments(text: str) -> dict[str, int]:
    """``tcp.OutSegs``, ``tcp.RetransSegs`` and so on of /proc/net/snmp: a line of names, and one of figures."""
    rows = [line.split()[1:] for line in text.split("\n") if line.startswith("Tcp:")]
    return _named("tcp", zip(*rows[:2], strict=False) if len(rows) > 1 else ())


def _named(group: str, pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    return {f"{group}.{name}": int(figure) for name, figure in pairs if _DIGITS.match(figure)}
