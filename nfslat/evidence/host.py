"""What a host prints of itself (os-release, ip, ifconfig, ss, netstat, mount tables) -> plain values.

Sources: os-release(5), ip-address(8), ss(8), netstat(8), fstab(5); the formats of ifconfig and netstat vary by system.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from nfslat.evidence.mountstats import options_of, unescaped, version_of
from nfslat.evidence.records import Mount, Setting
from nfslat.evidence.when import zone_of

_NFS_PORT = 2049
_INTERFACE_ADDRESS = re.compile(r"\binet6? (?:addr: ?)?([0-9a-fA-F.:]+)")
# "10.0.0.1:2049", "[fd00::1]:2049", and the dot of netstat on BSD and Solaris: "10.0.0.1.2049".
_ENDPOINT = re.compile(r"(\S+)[.:]([0-9]{1,5})")


def distribution(text: str) -> str:
    """``"debian 12"``: ID and VERSION_ID of os-release; "" where there is none."""
    values = {}
    for line in text.split("\n"):
        key, _, value = line.strip().partition("=")
        values[key] = value.strip("\"'")
    return f"{values.get('ID', '')} {values.get('VERSION_ID', '')}".strip()


def addresses(text: str) -> tuple[str, ...]:
    """Addresses of the interfaces, without those that lead nowhere else (loopback, link-local)."""
    found = (_address(word) for word in _INTERFACE_ADDRESS.findall(text))
    return tuple(dict.fromkeys(each for each in found if each))


def clients(text: str) -> tuple[str, ...]:
    """Addresses with an established TCP connection to port 2049 of this host, of ``ss -tn`` or ``netstat -an``."""
    return tuple(dict.fromkeys(each for each in _peers(text) if each))


def served(text: str) -> int | None:
    """How many such connections there are; None where the text has none at all."""
    return len(_peers(text)) if text.strip() else None


def _peers(text: str) -> list[str]:
    found = []
    for line in text.split("\n"):
        if line[:1].isspace():
            continue  # figures of the connection above
        ends = [match for word in line.split() if (match := _ENDPOINT.fullmatch(word))]
        if len(ends) >= 2 and int(ends[0][2]) == _NFS_PORT:
            found.append(_address(ends[1][1].strip("[]")))
    return found


def _address(word: str) -> str:
    """The address in its usual form; "" for what is none, or is of no use to tell hosts apart."""
    try:
        address = ipaddress.ip_address(word.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return "" if address.is_loopback or address.is_link_local or address.is_unspecified else str(address)


def mounts(text: str) -> tuple[Mount, ...]:
    """NFS mounts of /proc/mounts: place and options, no counters."""
    rows = (line.split() for line in text.split("\n"))
    found = []
    for device, path, kind, options, *_ in (row for row in rows if len(row) >= 4):
        if kind in ("nfs", "nfs4"):
            told = options_of(options)
            found.append(Mount(unescaped(device), unescaped(path), version_of(told), told))
    return tuple(found)


def facts(text: str) -> dict[str, Any]:
    """Fields of `Snapshot` from lines of ``name: value``."""
    told = {key: value.strip() for key, _, value in (line.partition(": ") for line in text.split("\n") if ": " in line)}
    counts = {name: int(value) for name, value in told.items() if re.fullmatch(r"[0-9]{1,18}", value)}
    return {
        **{name: told.get(name, "") for name in ("system", "release", "hostname", "taken", "boot")},
        **{name: counts.get(name) for name in ("memory_bytes", "cpus")},
        "zone_min": zone_of(told.get("zone", "")),
    }


def values(text: str) -> dict[str, Setting]:
    """``/proc/sys/sunrpc/x: 2`` as ``sunrpc.x``, and so on for module parameters and /proc/fs/nfsd."""
    found = {}
    for line in text.split("\n"):
        path, _, value = line.partition(": ")
        words = path.split("/")[1:]
        if words[:2] == ["proc", "sys"] and len(words) > 3:
            name = ".".join(words[2:])
        elif words[:2] == ["sys", "module"] and len(words) == 5:
            name = f"{words[2]}.{words[4]}"
        elif words[:3] == ["proc", "fs", "nfsd"] and len(words) == 4:
            name = f"nfsd.{words[3]}"
        else:
            continue
        found[name] = Setting(" ".join(value.split()), path)
    return found
