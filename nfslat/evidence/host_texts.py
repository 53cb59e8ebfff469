"""What a host prints of itself, a row each: how its text is told from others, and what it fills of `Snapshot`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from nfslat.evidence import configured, host, kernel_counters, mountstats, nfsd, pools, sockets, sysctl
from nfslat.evidence.records import Setting

Numbered = Iterator[tuple[str, str]]  # (file:line, text) of each line


class HostText(NamedTuple):
    """What a host prints of itself: a section of scripts/snapshot.sh, or a file by itself."""

    title: str  # of the section, or the last part of it where that is a path
    mark: re.Pattern[str] | None = None  # tells a file that is this text alone from all others
    # Text, what errors call it, and its numbered lines -> fields of `Snapshot`.
    read: Callable[[str, str, Numbered], dict[str, Any]] | None = None
    refused: str = ""  # why a file of it is of no use


def _knobs(parse: Callable[[Numbered], Iterator[configured.Knob]]) -> Callable[[str, str, Numbered], dict[str, Any]]:
    def read(_: str, __: str, lines: Numbered) -> dict[str, Any]:
        knobs, warnings = configured.collect(parse(lines))
        return {"configured": knobs, "warnings": tuple(warnings)}

    return read


def _sysctl(text: str, name: str, _: Numbered) -> dict[str, Any]:
    plain = ((f"{name}:{number}", line) for number, line in enumerate(text.split("\n"), 1))
    return {"settings": sysctl.read(plain)}


def _sharectl(text: str, *_: object) -> dict[str, Any]:
    pairs = (line.strip().partition("=") for line in text.split("\n") if "=" in line)
    return {"settings": {f"nfs.{key}": Setting(value, "sharectl get nfs") for key, _, value in pairs}}


def _connections(text: str, *_: object) -> dict[str, Any]:
    found = {"clients": host.clients(text), "served": host.served(text)}
    return found | {"sockets": sockets.every(text.split("\n"))}


# The first whose mark a file has is what it is. No blank of the marks is a line feed: a text of blank lines would take
# for ever. A section that has no row is for people to read, or of a newer script.
HOST_TEXTS = (
    HostText(
        "mountstats",
        re.compile(r"^(?:device \S+ mounted on \S+ with fstype|no device mounted on )", re.M),
        lambda text, name, _: {"mounts": mountstats.read(text, name)},
    ),
    HostText(
        "pool_stats",
        re.compile(r"^# pool packets-arrived", re.M),
        lambda text, name, _: {"pools": pools.read(text, name)},
    ),
    HostText("nfsd", re.compile(r"^th [0-9]+ [0-9]", re.M), lambda text, name, _: {"nfsd": nfsd.read(text, name)}),
    HostText("/proc/fs/nfsd"),  # names of files
    HostText(
        "client rpc",
        re.compile(r"\Anet [0-9]+ .*\nrpc [0-9]+ .*\nproc[234] "),
        refused="is /proc/net/rpc/nfs, which has no times: give /proc/self/mountstats of the client",
    ),
    HostText(
        "nfsiostat",
        re.compile(r"^[ \t]*ops?/s[ \t]+rpc bklog", re.M),
        refused="is output of nfsiostat, which is no snapshot: give {asked}",
    ),
    HostText(
        "nfs.conf",
        re.compile(r"^\[(?:nfsd|nfsmount_[\w ]+|mountd|lockd|nfs|general|exportfs)\b.*\]", re.M | re.I),
        _knobs(configured.nfs_conf),
    ),
    HostText("nfsmount.conf", None, _knobs(configured.nfs_conf)),
    HostText("modprobe.d", re.compile(r"^[ \t]*options[ \t]+\S+[ \t]+\w+=", re.M), _knobs(configured.modprobe)),
    HostText("/etc/system", re.compile(r"^[ \t]*set[ \t]+\w+:\w+[ \t]*=", re.M), _knobs(configured.etc_system)),
    HostText("sharectl get nfs", re.compile(r"^(?:servers|server_versm(?:in|ax))=", re.M), _sharectl),
    HostText("sysctl", re.compile(r"^-?(?:sunrpc|net|fs|vfs|vm|kern|kernel)[./][\w./-]+ ?[=:]", re.M), _sysctl),
    HostText("sysctl.d", None, _knobs(configured.sysctl_conf)),
    HostText("shell variables", None, _knobs(configured.shell_variables)),
    HostText("kernel command line", None, _knobs(configured.boot_parameters)),
    HostText("values", None, lambda text, *_: {"settings": host.values(text)}),
    HostText("host", None, lambda text, *_: host.facts(text)),
    HostText("/proc/mounts", None, lambda text, *_: {"mounts": host.mounts(text)}),
    HostText("os-release", None, lambda text, *_: {"distribution": host.distribution(text)}),
    HostText("/etc/release", None, lambda text, *_: {"distribution": text.strip().split("\n")[0].strip()}),
    HostText("addresses", None, lambda text, *_: {"addresses": host.addresses(text)}),
    HostText("connections", None, _connections),
    HostText("diskstats", None, lambda text, *_: {"kernel": kernel_counters.disks(text)}),
    HostText("/proc/net/snmp", None, lambda text, *_: {"kernel": kernel_counters.segments(text)}),
    HostText("/proc/stat", None, lambda text, *_: {"kernel": kernel_counters.ticks(text)}),
    HostText("vmstat", None, lambda text, *_: {"kernel": kernel_counters.pages(text)}),
    HostText("/proc/pressure/cpu", None, lambda text, *_: {"kernel": kernel_counters.pressure("cpu", text)}),
    HostText("/proc/pressure/memory", None, lambda text, *_: {"kernel": kernel_counters.pressure("memory", text)}),
)
