"""A file that scripts/snapshot.sh printed, or any of the texts that are in it -> what a host says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import reduce
from itertools import chain

from nfslat.errors import InputError
from nfslat.evidence.host_texts import HOST_TEXTS, Line, collect
from nfslat.evidence.records import Setting, Snapshot

LIMIT_BYTES = 64 << 20  # a snapshot has some 100 KiB; what is larger is something else
_FIRST = "# nfslat snapshot "
_VERSION = "1"
_SECTION = "#### nfslat: "
_UNREADABLE = re.compile(r"\(not readable: (.{1,200})\)")
_NUMBERED = re.compile(r"(.+?:[0-9]+):(.*)")
_ASKED = "what scripts/snapshot.sh prints, or the text of mountstats, /proc/net/rpc/nfsd, pool_stats or sysctl"
_TITLES = {row.title: row for row in HOST_TEXTS}


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
    row = next((row for row in HOST_TEXTS if row.mark is not None and row.mark.search(text)), None)
    if row is None:
        raise InputError(f"{path} is not a snapshot: give {_ASKED}")
    if row.refused:
        raise InputError(f"{path} {row.refused.format(asked=_ASKED)}")
    title = "sysctl.d" if row.title == "sysctl" and path.endswith(".conf") else row.title
    numbered = ((f"{path}:{number}", line) for number, line in enumerate(text.split("\n"), 1))
    found = _part(path, title, text, numbered)
    if title == "mountstats" and not (found and found.mounts):
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
    pieces = (part.partition("\n") for part in f"\n{text}".split(f"\n{_SECTION}")[1:])
    sections = [(title.strip(), body) for title, _, body in pieces if title.strip() != "end"]
    if not text.rstrip().endswith(f"{_SECTION}end"):
        warnings.append(f"{path} is cut short: what follows '{sections[-1][0] if sections else _FIRST}' is missing")
        if sections and not text.endswith("\n"):
            title, body = sections[-1]
            # Half a number looks like a whole number.
            sections[-1] = title, body.rpartition("\n")[0]
    for title, body in sections:
        readable = []
        for line in body.split("\n"):
            # As scripts/snapshot.sh says it in place of a section or of a value.
            if refused := _UNREADABLE.search(line):
                unreadable.setdefault(refused[1], []).append(line[: refused.start()].rstrip(": ") or title)
            else:
                readable.append(line)
        if not any(line.strip() for line in readable) or title in read_titles:
            continue
        read_titles.add(title)
        numbered = ((match[1], match[2]) for line in readable if (match := _NUMBERED.fullmatch(line)))
        try:
            if part := _part(title, title, "\n".join(readable), numbered):
                parts.append(part)
        except InputError as error:
            warnings.append(f"left out: {error}")
    warnings += [f"not readable, {reason}: {', '.join(places)}" for reason, places in unreadable.items()]
    merged = reduce(_merged, parts)
    return _with_threads(replace(merged, warnings=(*merged.warnings, *warnings)))


def _part(name: str, title: str, text: str, lines: Iterable[Line]) -> Snapshot | None:
    """What one text tells: a snapshot that holds nothing else. None for a text that is there for people to read."""
    row = _TITLES.get(title) or _TITLES.get(title.rpartition("/")[2])
    return None if row is None or row.read is None else Snapshot(name, **{"system": "", **row.read(text, name, lines)})


def _merged(one: Snapshot, two: Snapshot) -> Snapshot:
    """Both together. Of what both tell the first holds; of what files set the later, and a warning says so."""
    known = {(mount.device, mount.path) for mount in one.mounts}
    knobs, warnings = collect(chain(one.configured.items(), two.configured.items()))
    first = {field.name: value for field in fields(one) if (value := getattr(one, field.name)) not in (None, "", ())}
    return replace(
        two,
        **first
        | {
            "settings": {**two.settings, **one.settings},
            "configured": knobs,
            "mounts": one.mounts + tuple(mount for mount in two.mounts if (mount.device, mount.path) not in known),
            "kernel": {**two.kernel, **one.kernel},
            "warnings": one.warnings + two.warnings + tuple(warnings),
        },
    )


def _with_threads(snapshot: Snapshot) -> Snapshot:
    """The thread count from /proc/net/rpc/nfsd, which everybody may read, where nothing better tells it."""
    if snapshot.nfsd is None or "nfsd.threads" in snapshot.settings:
        return snapshot
    threads = Setting(str(snapshot.nfsd.threads), "/proc/net/rpc/nfsd, th")
    return replace(snapshot, settings={**snapshot.settings, "nfsd.threads": threads})
