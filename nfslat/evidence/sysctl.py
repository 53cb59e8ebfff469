"""What sysctl prints -> settings in effect: ``a = b`` and ``a=b`` of Linux, ``a: b`` of FreeBSD."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nfslat.evidence.records import Setting

# Of `sysctl -a` only what bears on NFS; a host prints a thousand more.
RELEVANT = re.compile(r"sunrpc\.|fs\.nfs|net\.ipv4\.tcp|net\.core\.|net\.inet\.tcp|vfs\.nfs|kern\.ipc\.|vm\.dirty")
_LINE = re.compile(r"([a-z][\w.*%/:-]*?)(?: = |=|: )(.*)")


def pair(line: str) -> tuple[str, str] | None:
    """Key and value of a line, the key with dots; None where the line is something else."""
    match = _LINE.fullmatch(line.strip())
    if not match or not ("." in match[1] or "/" in match[1]):
        return None
    return dotted(match[1]), " ".join(match[2].split())


def dotted(key: str) -> str:
    """``net/ipv4/tcp_rmem`` as ``net.ipv4.tcp_rmem``; behind a slash a dot is part of a name (sysctl.d(5))."""
    dot, slash = key.find("."), key.find("/")
    return key.replace("/", ".") if slash >= 0 and (dot < 0 or slash < dot) else key


def read(lines: Iterable[tuple[str, str]]) -> dict[str, Setting]:
    """Settings that bear on NFS, of (source, line) pairs; other lines are passed over."""
    found = {}
    for source, line in lines:
        if (both := pair(line)) and RELEVANT.match(both[0]):
            found[both[0]] = Setting(both[1], source)
    return found
