"""A file that scripts/snapshot.sh printed, or one of the texts that are in it -> what a host says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import chain

from nfslat.errors import InputError
from nfslat.evidence import configured, host, mountstats, nfsd, pools, sysctl
from nfslat.evidence.records import Setting, Snapshot

LIMIT_BYTES = 64 << 20  # a snapshot has some 100 KiB; what is larger is something else
_FIRST = "# nfslat snapshot "
_VERSION = "1"
_SECTION = "#### nfslat: "
_UNREADABLE = re.compile(r"\(not readable: (.{1,200})\)")
_NUMBERED = re.compile(r"(.+?:[0-9]+):(.*)")
_ASKED = "what scripts/snapshot.sh prints, or the text of mountstats, /proc/net/rpc/nfsd, pool_stats or sysctl"
# Each tells one kind of text from all others by a line that only it has; the first that fits is it. No blank of theirs
# is a line feed: a text of blank lines would take for ever.
_KINDS = (
    ("mountstats", re.compile(r"^(?:device \S+ mounted on \S+ with fstype|no device mounted on )", re.M)),
    ("pool_stats", re.compile(r"^# pool packets-arrived", re.M)),
    ("nfsd", re.compile(r"^th [0-9]+ [0-9]", re.M)),
    ("client rpc", re.compile(r"\Anet [0-9]+ .*\nrpc [0-9]+ .*\nproc[234] ")),
    ("nfsiostat", re.compile(r"^[ \t]*ops?/s[ \t]+rpc bklog", re.M)),
    ("nfs.conf", re.compile(r"^\[(?:nfsd|nfsmount_[\w ]+|mountd|lockd|nfs|general|exportfs)\b.*\]", re.M | re.I)),
    ("modprobe.d", re.compile(r"^[ \t]*options[ \t]+\S+[ \t]+\w+=", re.M)),
    ("/etc/system", re.compile(r"^[ \t]*set[ \t]+\w+:\w+[ \t]*=", re.M)),
    ("sharectl get nfs", re.compile(r"^(?:servers|server_versm(?:in|ax))=", re.M)),
    ("sysctl", re.compile(r"^-?(?:sunrpc|net|fs|vfs|vm|kern|kernel)[./][\w./-]+ ?[=:]", re.M)),
)


def read(path: str) -> Snapshot:
    """The snapshot, or bare text of one kind, at `path`. A part that cannot be read becomes a warning.

    Raises ``InputError``, one line that says what to do, where the file cannot be read or is none of these.
    """
    return parse(path, _text(path))


def parse(path: str, text: str) -> Snapshot:
    """The same of a text that was read already; errors call it `path`."""
    if text.startswith(_FIRST):
        version = text[len(_FIRST) :].split("\n", 1)[0].strip()
        if version != _VERSION:
            raise InputError(
                f"{path} is a snapshot of version {version[:20]!r}, this nfslat reads {_VERSION}: update it"
            )
        if f"\n{_FIRST}" in text:
            raise InputError(f"{path} holds more than one snapshot: give each a file of its own")
        return _snapshot(path, text)
    kind = next((kind for kind, pattern in _KINDS if pattern.search(text)), "")
    if kind == "nfsiostat":
        raise InputError(f"{path} is output of nfsiostat, which is no snapshot: give {_ASKED}")
    if kind == "client rpc":
        raise InputError(f"{path} is /proc/net/rpc/nfs, which has no times: give /proc/self/mountstats of the client")
    if not kind:
        raise InputError(f"{path} is not a snapshot: give {_ASKED}")
    if kind == "sysctl" and path.endswith(".conf"):
        kind = "sysctl.d"
    numbered = ((f"{path}:{number}", line) for number, line in enumerate(text.split("\n"), 1))
    found = _of_kind(kind, path, text, numbered)
    if kind == "mountstats" and not (found and found.mounts):
        raise InputError(f"{path}: no NFS mount in this mountstats: take it where NFS is mounted")
    return _with_threads(replace(found or Snapshot(path, ""), name=path))


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise InputError(f"{path!r} cannot be the name of a file") from None
    if len(data) > LIMIT_BYTES:
        raise InputError(f"{path} is larger than {LIMIT_BYTES >> 20} MiB, which no snapshot is: give {_ASKED}")
    if b"\0" in data or data.startswith(b"\x1f\x8b"):
        raise InputError(f"{path} is not a text: give {_ASKED}, unpacked")
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise InputError(f"{path} is empty: give {_ASKED}")
    return text


def _snapshot(path: str, text: str) -> Snapshot:
    parts: list[Snapshot] = [Snapshot(path, "")]
    warnings: list[str] = []
    unreadable: dict[str, list[str]] = {}
    read_titles: set[str] = set()
    sections = _sections(text)
    if not text.rstrip().endswith(f"{_SECTION}end"):
        warnings.append(f"{path} is cut short: what follows '{sections[-1][0] if sections else _FIRST}' is missing")
        if sections and not text.endswith("\n"):
            title, body = sections[-1]
            # Half a number looks like a whole one.
            sections[-1] = title, body.rpartition("\n")[0]
    for title, body in sections:
        for place, reason in _refused(title, body):
            unreadable.setdefault(reason, []).append(place)
        readable = "\n".join(line for line in body.split("\n") if not _UNREADABLE.search(line))
        numbered = ((match[1], match[2]) for line in readable.split("\n") if (match := _NUMBERED.fullmatch(line)))
        if not readable.strip() or title in read_titles:
            continue
        read_titles.add(title)
        try:
            if part := _of_kind(title, title, readable, numbered):
                parts.append(part)
        except InputError as error:
            warnings.append(f"left out: {error}")
    for reason, places in unreadable.items():
        warnings.append(f"not readable, {reason}: {', '.join(places)}")
    merged = reduce(_merged, parts)
    return _with_threads(replace(merged, warnings=(*merged.warnings, *warnings)))


def _sections(text: str) -> list[tuple[str, str]]:
    """(title, text) of each section."""
    found = []
    for part in f"\n{text}".split(f"\n{_SECTION}")[1:]:
        title, _, body = part.partition("\n")
        if title.strip() != "end":
            found.append((title.strip(), body))
    return found


def _refused(title: str, body: str) -> Iterator[tuple[str, str]]:
    """(what could not be read, why), as scripts/snapshot.sh says it in place of a section or of a value."""
    for line in body.split("\n"):
        if match := _UNREADABLE.search(line):
            yield line[: match.start()].rstrip(": ") or title, match[1]


def _of_kind(kind: str, name: str, text: str, lines: Iterator[tuple[str, str]]) -> Snapshot | None:
    """What a text of one kind tells: a snapshot that holds nothing else. `lines` are its (source, line) pairs.

    None for a kind that is not known, or is there for people to read: a newer script may print more.
    """
    if kind in _CONFIGURED:
        knobs, warnings = configured.collect(_CONFIGURED[kind](lines))
        return Snapshot(name, "", configured=knobs, warnings=tuple(warnings))
    base = kind.rpartition("/")[2]
    if base == "mountstats":
        return Snapshot(name, "", mounts=mountstats.read(text, name))
    if kind == "/proc/mounts":
        return Snapshot(name, "", mounts=host.mounts(text))
    if base == "nfsd" and kind != "/proc/fs/nfsd":
        return Snapshot(name, "", nfsd=nfsd.read(text, name))
    if base == "pool_stats":
        return Snapshot(name, "", pools=pools.read(text, name))
    if kind == "sysctl":
        plain = ((f"{name}:{number}", line) for number, line in enumerate(text.split("\n"), 1))
        return Snapshot(name, "", settings=sysctl.read(plain))
    if kind == "values":
        return Snapshot(name, "", settings=dict(_values(text)))
    if kind == "sharectl get nfs":
        pairs = (line.strip().partition("=") for line in text.split("\n") if "=" in line)
        return Snapshot(name, "", settings={f"nfs.{key}": Setting(value, kind) for key, _, value in pairs})
    if kind == "host":
        return _host(name, text)
    if base == "os-release":
        return Snapshot(name, "", distribution=host.distribution(text))
    if kind == "/etc/release":
        return Snapshot(name, "", distribution=text.strip().split("\n")[0].strip())
    if kind == "addresses":
        return Snapshot(name, "", addresses=host.addresses(text))
    if kind == "connections":
        return Snapshot(name, "", clients=host.clients(text))
    return None


_CONFIGURED: dict[str, Callable[[Iterator[configured.Line]], Iterator[configured.Knob]]] = {
    "sysctl.d": configured.sysctl_conf,
    "modprobe.d": configured.modprobe,
    "nfs.conf": configured.nfs_conf,
    "nfsmount.conf": configured.nfs_conf,
    "shell variables": configured.shell_variables,
    "kernel command line": configured.boot_parameters,
    "/etc/system": configured.etc_system,
}


def _host(name: str, text: str) -> Snapshot:
    facts = dict(line.split(": ", 1) for line in text.split("\n") if ": " in line)

    def count(key: str) -> int | None:
        value = facts.get(key, "").strip()
        return int(value) if re.fullmatch(r"[0-9]{1,18}", value) else None

    return Snapshot(
        name,
        system=facts.get("system", "").strip(),
        release=facts.get("release", "").strip(),
        hostname=facts.get("hostname", "").strip(),
        taken=facts.get("taken", "").strip(),
        boot=facts.get("boot", "").strip(),
        memory_bytes=count("memory_bytes"),
        cpus=count("cpus"),
    )


def _values(text: str) -> Iterator[tuple[str, Setting]]:
    """``/proc/sys/sunrpc/x: 2`` as ``sunrpc.x``, and so on for module parameters and /proc/fs/nfsd."""
    for line in text.split("\n"):
        path, _, value = line.partition(": ")
        words = path.split("/")[1:]
        if words[:2] == ["proc", "sys"] and len(words) > 3:
            yield ".".join(words[2:]), Setting(" ".join(value.split()), path)
        elif words[:2] == ["sys", "module"] and len(words) == 5:
            yield f"{words[2]}.{words[4]}", Setting(" ".join(value.split()), path)
        elif words[:3] == ["proc", "fs", "nfsd"] and len(words) == 4:
            yield f"nfsd.{words[3]}", Setting(" ".join(value.split()), path)


def _merged(one: Snapshot, two: Snapshot) -> Snapshot:
    """Both in one. Of what both tell the first holds; of what files set the later, and a warning says so."""
    known = {(mount.device, mount.path) for mount in one.mounts}
    knobs, warnings = configured.collect(chain(one.configured.items(), two.configured.items()))
    return Snapshot(
        name=one.name,
        system=one.system or two.system,
        release=one.release or two.release,
        distribution=one.distribution or two.distribution,
        hostname=one.hostname or two.hostname,
        taken=one.taken or two.taken,
        boot=one.boot or two.boot,
        memory_bytes=two.memory_bytes if one.memory_bytes is None else one.memory_bytes,
        cpus=two.cpus if one.cpus is None else one.cpus,
        settings={**two.settings, **one.settings},
        configured=knobs,
        mounts=one.mounts + tuple(mount for mount in two.mounts if (mount.device, mount.path) not in known),
        nfsd=one.nfsd or two.nfsd,
        pools=one.pools or two.pools,
        addresses=one.addresses or two.addresses,
        clients=one.clients or two.clients,
        warnings=one.warnings + two.warnings + tuple(warnings),
    )


def _with_threads(snapshot: Snapshot) -> Snapshot:
    """The thread count from /proc/net/rpc/nfsd, which everybody may read, where nothing better tells it."""
    if snapshot.nfsd is None or "nfsd.threads" in snapshot.settings:
        return snapshot
    threads = Setting(str(snapshot.nfsd.threads), "/proc/net/rpc/nfsd, th")
    return replace(snapshot, settings={**snapshot.settings, "nfsd.threads": threads})
