"""What is known from outside the captures, and pseudonyms -> the same, saying by pseudonyms who says so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from msgspec import structs

from nfslat.evidence.known import Known
from nfslat.evidence.records import Snapshot
from nfslat.export.anonymous import Pseudonyms

# A process of somebody's (`nfslat.evidence.stacks`), what a host mounts, and paths that not all hosts have.
_PLACES = (
    r"(?P<process>(?<=: )(?!nfsd |lockd |rpciod |k\w+/)\S.*?(?= waited [\d.]+ ms for a processor))"
    r"|(?P<device>(?<![^\s(])(?:[^\s(,:/]+|\[[^\]\s]+\]|[0-9a-fA-F:]+):/[^\s,;:()]*)"
    r"|(?P<path>(?<![\w./:])/(?!(?:proc|sys|etc|usr/lib)/)[^\s,;:()]+)"
)


def outside(
    names: Pseudonyms, known: Known, notes: Iterable[str], evidence: Sequence[str]
) -> tuple[Known, tuple[str, ...]]:
    """What is known from outside, with pseudonyms where it says who says so; `evidence` are names of its files."""
    words: dict[str, str] = {}
    for number, name in enumerate(evidence, 1):
        for one in (name, os.path.basename(name)):
            words.setdefault(one, f"evidence-{number}" if len(evidence) > 1 else "evidence")
    for role, host in (("server-snapshot", known.server_host), ("client-snapshot", known.client_host)):
        if host is not None:
            words.setdefault(host.name, role)
    mounts = [text for host in (known.server_host, known.client_host) for text in _mounts(host)]
    found_by = (
        # The name of a file stands behind that of its kind and in front of what it says.
        _any_of(words, r"(?P<file>(?<![^\s(])%s(?=[:,)]|$))"),
        _any_of(mounts, r"(?P<mount>(?<![^\s(])%s(?=[\s:,)]|$))"),
        _PLACES,
    )
    pattern = re.compile("|".join(filter(None, found_by)))

    def replaced(text: str) -> str:
        return pattern.sub(lambda found: _of_evidence(names, found, words), text)

    sources = {name: replaced(text) for name, text in known.sources.items()}
    base = known.database
    if base is not None:
        time = structs.replace(base.time, host="")
        base = structs.replace(base, source=replaced(base.source), time=time)
    loads = {side: structs.replace(load, source=replaced(load.source)) for side, load in known.loads.items()}
    calls = tuple(structs.replace(one, source=replaced(one.source)) for one in known.calls)
    changed = structs.replace(known, sources=sources, database=base, loads=loads, calls=calls)
    return changed, tuple(map(replaced, notes))


def _of_evidence(names: Pseudonyms, found: re.Match[str], files: dict[str, str]) -> str:
    if found.lastgroup == "file":
        return files[found[0]]
    return names.word(found[0], "process") if found.lastgroup == "process" else _mount(names, found[0])


def _mount(names: Pseudonyms, text: str) -> str:
    """Of ``10.0.0.1:/export``, ``[fd00::1]:/export``, ``server:/export``, and of a path."""
    if text.startswith("/"):
        return names.path(text)
    host, colon, path = text.partition(":/")
    if host.startswith("["):
        return f"[{names.address(host.strip('[]'))}]{colon}{names.path(path)}"
    return f"{names.address(host)}{colon}{names.path(path)}"


def _mounts(host: Snapshot | None) -> list[str]:
    return [] if host is None else [text for mount in host.mounts for text in (mount.device, mount.path) if text != "/"]


def _any_of(words: Iterable[str], around: str) -> str:
    """An expression for the longest of `words`, where `around` (with %s) has it; "" without any."""
    longest = sorted({word for word in words if word}, key=lambda word: (-len(word), word))
    return around % f"(?:{'|'.join(map(re.escape, longest))})" if longest else ""
