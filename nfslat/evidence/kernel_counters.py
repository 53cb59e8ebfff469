"""Counters of a Linux kernel in a snapshot -> how busy a host was, and its disks, between two snapshots.

Sources: Documentation/admin-guide/iostats.rst (/proc/diskstats: requests, sectors of 512 bytes, ms), proc_stat(5)
(/proc/stat: ticks of all processors), Documentation/accounting/psi.rst (/proc/pressure: µs in which some task waited),
mm/vmstat.c (/proc/vmstat: pgmajfault), RFC 4022 (/proc/net/snmp: segments of TCP). All count since the boot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nfslat.evidence.records import Disk, HostLoad

_FIELDS = 11  # of /proc/diskstats behind the name, in each kernel since 2.6
_FEW = 10  # requests that no mean stands on
_FEW_SEGMENTS = 1000  # of which not one is lost of a path that loses two in a thousand, one time of seven
_TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_DIGITS = re.compile(r"\d{1,18}$", re.ASCII)


def disks(text: str) -> dict[str, int]:
    """``disk.sda.0`` and so on: the first eleven figures of each device that ever had a request."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        words = line.split()
        figures = words[3 : 3 + _FIELDS]
        if len(figures) == _FIELDS and all(map(_DIGITS.match, figures)) and figures[0] + figures[4] != "00":
            found |= {f"disk.{words[2]}.{at}": int(figure) for at, figure in enumerate(figures)}
    return found


def ticks(text: str) -> dict[str, int]:
    """``cpu.idle`` and so on, of all processors."""
    words = next((line.split() for line in text.split("\n") if line.startswith("cpu ")), [])
    return {f"cpu.{name}": int(word) for name, word in zip(_TICKS, words[1:], strict=False) if _DIGITS.match(word)}


def pages(text: str) -> dict[str, int]:
    """``pgmajfault`` and so on."""
    pairs = (line.split() for line in text.split("\n"))
    return {f"vm.{pair[0]}": int(pair[1]) for pair in pairs if len(pair) == 2 and _DIGITS.match(pair[1])}


def pressure(what: str, text: str) -> dict[str, int]:
    """``psi.cpu``: µs."""
    found = re.search(r"^some .{0,80}\btotal=(\d{1,18})$", text, re.MULTILINE)
    return {f"psi.{what}": int(found[1])} if found else {}


def segments(text: str) -> dict[str, int]:
    """``tcp.OutSegs``, ``tcp.RetransSegs`` and so on: a line of names, and one of figures."""
    rows = [line.split()[1:] for line in text.split("\n") if line.startswith("Tcp:")]
    told = zip(*rows[:2], strict=False) if len(rows) > 1 else ()
    return {f"tcp.{name}": int(figure) for name, figure in told if _DIGITS.match(figure)}


def resent_share(grown: Mapping[str, int]) -> float | None:
    """Of the segments that a host sent, those that it had sent before (OutSegs has none of these); None of few."""
    sent, again = grown.get("tcp.OutSegs", 0), grown.get("tcp.RetransSegs")
    return None if again is None or sent < _FEW_SEGMENTS else again / (sent + again)


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Of the counters that both have and that did not go backwards."""
    return {name: after[name] - old for name, old in before.items() if name in after and after[name] >= old}


def load_of(grown: Mapping[str, int], seconds: float, cpus: int | None, source: str) -> HostLoad | None:
    """The load over so many seconds; None where nothing tells of it."""
    total = sum(grown.get(f"cpu.{name}", 0) for name in _TICKS)
    has_cpu = total > 0 and all(f"cpu.{name}" in grown for name in _TICKS)

    def per_s(name: str, scale: float = 1.0) -> float | None:
        return grown[name] * scale / seconds if name in grown else None

    found = HostLoad(
        source=source,
        cpus=cpus,
        idle=(grown["cpu.idle"] + grown["cpu.iowait"]) / total if has_cpu else None,
        steal=grown["cpu.steal"] / total if has_cpu else None,
        major_faults_s=per_s("vm.pgmajfault"),
        cpu_pressure=_share(per_s("psi.cpu", 1e-6)),
        memory_pressure=_share(per_s("psi.memory", 1e-6)),
    )
    told = (found.idle, found.major_faults_s, found.cpu_pressure, found.memory_pressure)
    return found if any(one is not None for one in told) else None


def _share(value: float | None) -> float | None:
    return None if value is None else min(value, 1.0)


def disks_of(grown: Mapping[str, int]) -> tuple[Disk, ...]:
    """Those that had requests meanwhile, with most of them first."""
    names = dict.fromkeys(name.split(".", 1)[1].rpartition(".")[0] for name in grown if name.startswith("disk."))
    found = []
    for name in names:
        own = [grown.get(f"disk.{name}.{at}", -1) for at in range(_FIELDS)]
        if any(own[at] < 0 for at in (0, 2, 3, 4, 6, 7)):
            continue  # one went backwards: another device has the name
        reads, writes = own[0], own[4]
        if reads + writes:
            read_ms = own[3] / reads if reads >= _FEW else None
            write_ms = own[7] / writes if writes >= _FEW else None
            found.append(Disk(name, reads, writes, own[2] / 2, own[6] / 2, read_ms, write_ms, None))
    return tuple(sorted(found, key=lambda disk: -(disk.reads + disk.writes)))
