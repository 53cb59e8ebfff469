"""What a host prints of itself, a row each: how its text is told from others, and what it fills of `Snapshot`.

A misspelt knob stays as it is written: nothing tells better why a setting has no effect. Sources: sysctl(8) (``a = b``
and ``a=b`` of Linux, ``a: b`` of FreeBSD), sysctl.d(5), modprobe.d(5), nfs.conf(5), nfsmount.conf(5), system(4) of
Solaris, rc.conf(5) of FreeBSD, os-release(5), ip-address(8), ss(8), netstat(8), fstab(5); the formats of ifconfig and
netstat vary by system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from nfslat.evidence import counters, sockets
from nfslat.evidence.printed import address_of
from nfslat.evidence.records import Mount, Setting
from nfslat.evidence.when import zone_of

_NFS_PORT = 2049
_INTERFACE_ADDRESS = re.compile(r"\binet6? (?:addr: ?)?([0-9a-fA-F.:]+)")
# "10.0.0.1:2049", "[fd00::1]:2049", and the dot of netstat on BSD and Solaris: "10.0.0.1.2049".
_ENDPOINT = re.compile(r"(\S+)[.:]([0-9]{1,5})")
# Of `sysctl -a` only what bears on NFS; a host prints a thousand more.
_RELEVANT = re.compile(r"sunrpc\.|fs\.nfs|net\.ipv4\.tcp|net\.core\.|net\.inet\.tcp|vfs\.nfs|kern\.ipc\.|vm\.dirty")
_SYSCTL = re.compile(r"([a-z][\w.*%/:-]*?)(?: = |=|: )(.*)")
_SECTION = re.compile(r"\[\s*([\w-]+)\s*(\"[^\"]*\")?\s*\]")  # [ MountPoint "/mnt/db" ]
# ``set nfs:nfs3_max_threads = 64`` of Solaris.
_SYSTEM = r"^set\s+(?P<name>\w+:\w+)\s*=\s*(?P<value>\S+)"
# ``RPCNFSDCOUNT=8`` (/etc/default, /etc/sysconfig), ``nfs_server_flags="-t -n 16"`` (rc.conf).
_SHELL = r"^(?:export\s+)?(?P<name>\w+)=([\"']?)(?P<value>[^#]*?)\2\s*(?:#.*)?$"
# ``sunrpc.tcp_slot_table_entries=128`` on the kernel's command line.
_BOOT = r"(?<!\S)(?P<name>[^\s=]*\.[^\s=]*)(?:=(?P<value>\S*))?(?!\S)"

Line = tuple[str, str]  # "FILE:LINE", and its text
Knob = tuple[str, Setting]


def _code(line: str) -> str:
    """The line without a comment that takes all of it."""
    stripped = line.strip()
    return "" if stripped.startswith(("#", ";", "*")) else stripped


def sysctl(lines: Iterable[Line]) -> Iterator[Knob]:
    """``net/ipv4/tcp_rmem = 1 2 3`` as ``net.ipv4.tcp_rmem``; a leading ``-`` only says that errors do not matter."""
    for source, line in lines:
        match = _SYSCTL.fullmatch(_code(line).removeprefix("-").strip())
        if match and ("." in match[1] or "/" in match[1]):
            dot, slash = match[1].find("."), match[1].find("/")
            # Behind a slash a dot is part of a name (sysctl.d(5)).
            key = match[1].replace("/", ".") if slash >= 0 and (dot < 0 or slash < dot) else match[1]
            yield key, Setting(" ".join(match[2].split()), source)


def modprobe(lines: Iterable[Line]) -> Iterator[Knob]:
    """``options sunrpc tcp_slot_table_entries=128`` as ``sunrpc.tcp_slot_table_entries``."""
    for source, line in lines:
        verb, *words = _code(line).split() or [""]
        module = words[0].replace("-", "_") if words and verb == "options" else ""  # the same to modprobe
        for name, _, value in (word.partition("=") for word in words[1:] if module):
            yield f"{module}.{name}", Setting(value, source)


def nfs_conf(lines: Iterable[Line]) -> Iterator[Knob]:
    """``threads = 64`` below ``[nfsd]`` as ``nfs.conf:nfsd.threads``; of nfsmount.conf with that name in front."""
    section = file = ""
    for source, line in lines:
        this = source.rpartition(":")[0]
        if this != file:
            section, file = "", this
        code = _code(line)
        if heading := _SECTION.match(code):
            section = " ".join((heading[1].lower(), heading[2] or "")).rstrip()
        elif section and "=" in code:
            key, _, value = code.partition("=")
            kind = "nfsmount.conf" if "nfsmount.conf" in file else "nfs.conf"
            yield f"{kind}:{section}.{key.strip().lower()}", Setting(value.split("#")[0].strip(), source)


def _found_by(pattern: str) -> Callable[[Iterable[Line]], Iterator[Knob]]:
    """Knobs by an expression that has their `name` and `value`."""
    return lambda lines: (
        (match["name"], Setting(match["value"] or "", source))
        for source, line in lines
        for match in re.finditer(pattern, _code(line))
    )


def collect(knobs: Iterable[Knob]) -> tuple[dict[str, Setting], list[str]]:
    """Knob -> its last setting, and a warning for each that is set to different values."""
    kept: dict[str, Setting] = {}
    warnings = []
    for name, setting in knobs:
        first = kept.get(name, setting)
        if first.value != setting.value:
            warnings.append(
                f"{name} is set more than once: {first.value} in {first.source}, {setting.value} in {setting.source}"
            )
        kept[name] = setting
    return kept, warnings


def _configured(parse: Callable[[Iterable[Line]], Iterator[Knob]]) -> Callable[[str, str, Iterable[Line]], Fields]:
    def read(_: str, __: str, lines: Iterable[Line]) -> Fields:
        knobs, warnings = collect(parse(lines))
        return {"configured": knobs, "warnings": tuple(warnings)}

    return read


def in_effect(text: str, name: str, _: object) -> Fields:
    """Settings that ``sysctl -a`` prints, as far as they bear on NFS."""
    plain = ((f"{name}:{number}", line) for number, line in enumerate(text.split("\n"), 1) if _code(line)[:1] != "-")
    return {"settings": {key: setting for key, setting in sysctl(plain) if _RELEVANT.match(key)}}


def values(text: str, *_: object) -> Fields:
    """``/proc/sys/sunrpc/x: 2`` as ``sunrpc.x``, and so on for module parameters and /proc/fs/nfsd."""
    settings = {}
    for path, __, value in (line.partition(": ") for line in text.split("\n")):
        words = path.split("/")[1:]
        if words[:2] == ["proc", "sys"] and len(words) > 3:
            name = ".".join(words[2:])
        elif words[:2] == ["sys", "module"] and len(words) == 5:
            name = f"{words[2]}.{words[4]}"
        elif words[:3] == ["proc", "fs", "nfsd"] and len(words) == 4:
            name = f"nfsd.{words[3]}"
        else:
            continue
        settings[name] = Setting(" ".join(value.split()), path)
    return {"settings": settings}


def sharectl(text: str, *_: object) -> Fields:
    """Solaris' ``servers=1024`` as ``nfs.servers``."""
    pairs = (line.strip().partition("=") for line in text.split("\n") if "=" in line)
    return {"settings": {f"nfs.{key}": Setting(value, "sharectl get nfs") for key, _, value in pairs}}


def facts(text: str, *_: object) -> Fields:
    """Lines of ``name: value`` on the host itself."""
    lines = (line.partition(": ") for line in text.split("\n") if ": " in line)
    named = {key: value.strip() for key, _, value in lines}
    counts = {name: int(value) for name, value in named.items() if re.fullmatch(r"[0-9]{1,18}", value)}
    return {
        **{name: named.get(name, "") for name in ("system", "release", "hostname", "taken", "boot")},
        **{name: counts.get(name) for name in ("memory_bytes", "cpus")},
        "zone_min": zone_of(named.get("zone", "")),
    }


def distribution(text: str, *_: object) -> Fields:
    """``"debian 12"``: ID and VERSION_ID of os-release."""
    named = {key: value.strip("\"'") for key, _, value in (line.strip().partition("=") for line in text.split("\n"))}
    return {"distribution": f"{named.get('ID', '')} {named.get('VERSION_ID', '')}".strip()}


def addresses(text: str, *_: object) -> Fields:
    """Addresses of the interfaces, without those that lead nowhere else (loopback, link-local)."""
    every = (address_of(word) for word in _INTERFACE_ADDRESS.findall(text))
    return {"addresses": tuple(dict.fromkeys(each for each in every if each))}


def connections(text: str, *_: object) -> Fields:
    """Clients with an established TCP connection to port 2049 of this host (``ss -tn``, ``netstat -an``)."""
    peers = []
    for line in text.split("\n"):
        if line[:1].isspace():
            continue  # figures of the connection above
        ends = [match for word in line.split() if (match := _ENDPOINT.fullmatch(word))]
        if len(ends) >= 2 and int(ends[0][2]) == _NFS_PORT:
            peers.append(address_of(ends[1][1].strip("[]")))
    return {
        "clients": tuple(dict.fromkeys(each for each in peers if each)),
        "served": len(peers) if text.strip() else None,
        "sockets": sockets.every(text.split("\n")),
    }


def mounts(text: str, *_: object) -> Fields:
    """NFS mounts of /proc/mounts: place and options, no counters."""
    rows = (line.split() for line in text.split("\n"))
    nfs = (row for row in rows if len(row) >= 4 and row[2] in ("nfs", "nfs4"))
    kept: list[Mount] = [
        counters.mount_of(counters.unescaped(device), counters.unescaped(path), options)
        for device, path, _, options, *_ in nfs
    ]
    return {"mounts": tuple(kept)}


Fields = dict[str, Any]  # of `Snapshot`


class HostText(NamedTuple):
    """What a host prints of itself: a section of scripts/snapshot.sh, or a file by itself."""

    title: str  # of the section, or the last part of it where that is a path
    mark: re.Pattern[str] | None = None  # tells a file that is this text alone from all others
    # Text, what errors call it, and its numbered lines -> fields of `Snapshot`.
    read: Callable[[str, str, Iterable[Line]], Fields] | None = None
    refused: str = ""  # why a file of it is of no use


def _kernel(read: Callable[[str], dict[str, int]]) -> Callable[[str, str, Iterable[Line]], Fields]:
    return lambda text, *_: {"kernel": read(text)}


# The first whose mark a file has is what it is. No blank of the marks is a line feed: a text of blank lines would take
# for ever. A section that has no row is for people to read, or of a newer script.
HOST_TEXTS = (
    HostText(
        "mountstats",
        re.compile(r"^(?:device \S+ mounted on \S+ with fstype|no device mounted on )", re.M),
        lambda text, name, _: {"mounts": counters.mounts(text, name)},
    ),
    HostText(
        "pool_stats",
        re.compile(r"^# pool packets-arrived", re.M),
        lambda text, name, _: {"pools": counters.pools(text, name)},
    ),
    HostText("nfsd", re.compile(r"^th [0-9]+ [0-9]", re.M), lambda text, name, _: {"nfsd": counters.nfsd(text, name)}),
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
        _configured(nfs_conf),
    ),
    HostText("nfsmount.conf", None, _configured(nfs_conf)),
    HostText("modprobe.d", re.compile(r"^[ \t]*options[ \t]+\S+[ \t]+\w+=", re.M), _configured(modprobe)),
    HostText("/etc/system", re.compile(r"^[ \t]*set[ \t]+\w+:\w+[ \t]*=", re.M), _configured(_found_by(_SYSTEM))),
    HostText("sharectl get nfs", re.compile(r"^(?:servers|server_versm(?:in|ax))=", re.M), sharectl),
    HostText("sysctl", re.compile(r"^-?(?:sunrpc|net|fs|vfs|vm|kern|kernel)[./][\w./-]+ ?[=:]", re.M), in_effect),
    HostText("sysctl.d", None, _configured(sysctl)),
    HostText("shell variables", None, _configured(_found_by(_SHELL))),
    HostText("kernel command line", None, _configured(_found_by(_BOOT))),
    HostText("values", None, values),
    HostText("host", None, facts),
    HostText("/proc/mounts", None, mounts),
    HostText("os-release", None, distribution),
    HostText("/etc/release", None, lambda text, *_: {"distribution": text.strip().split("\n")[0].strip()}),
    HostText("addresses", None, addresses),
    HostText("connections", None, connections),
    HostText("diskstats", None, _kernel(counters.disks)),
    HostText("/proc/net/snmp", None, _kernel(counters.segments)),
    HostText("/proc/stat", None, _kernel(counters.ticks)),
    HostText("vmstat", None, _kernel(counters.pages)),
    HostText("/proc/pressure/cpu", None, _kernel(lambda text: counters.pressure("cpu", text))),
    HostText("/proc/pressure/memory", None, _kernel(lambda text: counters.pressure("memory", text))),
)
