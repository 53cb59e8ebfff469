"""Lines of configuration files -> what they set: sysctl.d, modprobe.d, nfs.conf, /etc/system, rc.conf and the like.

Each function takes (source, line) pairs, the source being "FILE:LINE", and gives (knob, `Setting`) pairs in the order
of the lines. A misspelt knob stays as it is written: nothing tells better why a setting has no effect.
Sources: sysctl.d(5), modprobe.d(5), nfs.conf(5), nfsmount.conf(5), system(4) of Solaris, rc.conf(5) of FreeBSD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nfslat.evidence import sysctl
from nfslat.evidence.records import Setting

Line = tuple[str, str]
Knob = tuple[str, Setting]

_SECTION = re.compile(r"\[\s*([\w-]+)\s*(\"[^\"]*\")?\s*\]")  # [ MountPoint "/mnt/db" ]
_SYSTEM = re.compile(r"set\s+(\w+:\w+)\s*=\s*(\S+)")
_SHELL = re.compile(r"(?:export\s+)?(\w+)=([\"']?)(.*)\2")


def _code(line: str) -> str:
    """The line without a comment that takes all of it."""
    stripped = line.strip()
    return "" if stripped.startswith(("#", ";", "*")) else stripped


def sysctl_conf(lines: Iterable[Line]) -> Iterator[Knob]:
    """``sunrpc.tcp_slot_table_entries = 128``; a leading ``-`` only says that errors do not matter."""
    for source, line in lines:
        if both := sysctl.pair(_code(line).removeprefix("-")):
            yield both[0], Setting(both[1], source)


def modprobe(lines: Iterable[Line]) -> Iterator[Knob]:
    """``options sunrpc tcp_slot_table_entries=128`` as ``sunrpc.tcp_slot_table_entries``."""
    for source, line in lines:
        verb, *words = _code(line).split() or [""]
        if verb != "options" or not words:
            continue
        module = words[0].replace("-", "_")  # the same to modprobe
        for word in words[1:]:
            name, _, value = word.partition("=")
            yield f"{module}.{name}", Setting(value, source)


def boot_parameters(lines: Iterable[Line]) -> Iterator[Knob]:
    """``sunrpc.tcp_slot_table_entries=128`` on the kernel's command line."""
    for source, line in lines:
        for word in line.split():
            name, _, value = word.partition("=")
            if "." in name:
                yield name, Setting(value, source)


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


def etc_system(lines: Iterable[Line]) -> Iterator[Knob]:
    """``set nfs:nfs3_max_threads = 64`` of Solaris as ``nfs:nfs3_max_threads``."""
    for source, line in lines:
        if match := _SYSTEM.match(_code(line)):
            yield match[1], Setting(match[2], source)


def shell_variables(lines: Iterable[Line]) -> Iterator[Knob]:
    """``RPCNFSDCOUNT=8`` (/etc/default, /etc/sysconfig), ``nfs_server_flags="-t -n 16"`` (rc.conf)."""
    for source, line in lines:
        if match := _SHELL.fullmatch(_code(line).split("#")[0].strip()):
            yield match[1], Setting(match[3], source)


def collect(knobs: Iterable[Knob]) -> tuple[dict[str, Setting], list[str]]:
    """Knob -> its last setting, and a warning for each that is set to different values."""
    found: dict[str, Setting] = {}
    warnings = []
    for name, setting in knobs:
        first = found.get(name, setting)
        if first.value != setting.value:
            warnings.append(
                f"{name} is set more than once: {first.value} in {first.source}, {setting.value} in {setting.source}"
            )
        found[name] = setting
    return found, warnings
