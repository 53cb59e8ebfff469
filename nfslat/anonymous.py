"""A `Correlation` or `Side` -> pseudonyms for addresses, names and handles, and tables and a report that show only these.

What tells who and what is replaced, the same by the same wherever it stands; figures, times, ports, XIDs and frame
numbers stay. Pseudonyms are given in the order of the client's capture, so that one run always gives the same ones.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from nfslat.constants import NULL32
from nfslat.decode.capture import Source
from nfslat.evidence.records import Snapshot
from nfslat.names.paths import Paths
from nfslat.report import model
from nfslat.results import Correlation, Side
from nfslat.tables import U32, Connection

# Networks that are nobody's: RFC 2544 (benchmarks, 131,072 addresses) and RFC 3849 (documentation).
_IPV4, _IPV6 = ipaddress.IPv4Address("198.18.0.0"), ipaddress.IPv6Address("2001:db8::")
_MOST_IPV4 = 1 << 17
_ADDRESS = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"  # a port may follow
    r"|(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
)
_NO_NAMES = {"", ".", "..", "..."}
_FIXED = {"schema", "code", "layer", "severity", "confidence", "cause", "part", "way", "held", "limit", "format", "op"}


@dataclass
class Pseudonyms:
    """What stands for what; it grows as new things are met."""

    addresses: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # components of paths
    words: dict[str, str] = field(
        default_factory=dict
    )  # files, hosts, sessions: replaced wherever they stand in a text
    _handles: U32 = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))

    def address(self, text: str) -> str:
        """Of an IP address; anything else is a host name."""
        if text not in self.addresses:
            try:
                known = ipaddress.ip_address(text)
            except ValueError:
                return self.word(text, "host")
            first = _IPV4 if known.version == 4 else _IPV6
            number = 1 + sum(ipaddress.ip_address(one).version == known.version for one in self.addresses)
            self.addresses[text] = str(first + number % _MOST_IPV4)
        return self.addresses[text]

    def name(self, text: str) -> str:
        """Of one component of a path."""
        return text if text in _NO_NAMES else self.names.setdefault(text, f"name-{len(self.names) + 1}")

    def path(self, text: str) -> str:
        """Of a path, component by component."""
        return "/".join(map(self.name, text.split("/")))

    def word(self, text: str, kind: str) -> str:
        """Of a word of this kind, which is from now on replaced in texts, too."""
        if text and text not in self.words:
            number = 1 + sum(one.startswith(f"{kind}-") for one in set(self.words.values()))
            self.words[text] = f"{kind}-{number}"
        return self.words.get(text, text)

    def paths(self, paths: Paths) -> Paths:
        """The same with other names."""
        return dataclasses.replace(paths, texts=tuple(map(self.path, paths.texts)))

    def handles(self, column: U32) -> U32:
        """CRC-32 of file handles -> numbers from 1 on."""
        known, rows = np.unique(column, return_inverse=True)
        fresh = known[~np.isin(known, self._handles) & (known != NULL32)]
        self._handles = np.concatenate([self._handles, fresh])
        order = np.argsort(self._handles, kind="stable")
        where = np.searchsorted(self._handles[order], known[known != NULL32])
        numbers = np.full(len(known), NULL32, dtype=np.uint32)
        numbers[known != NULL32] = order[where] + 1
        return np.asarray(numbers[rows], dtype=np.uint32)

    def side(self, side: Side, role: str) -> Side:
        """The tables of one capture, which is called by its `role` from now on."""
        d = side.decoded
        connections = tuple(map(self._connection, d.ops.connections))
        names = d.details.names
        details = dataclasses.replace(
            d.details,
            names=dataclasses.replace(names, names=tuple(self._bytes(name) for name in names.names)),
            files=dataclasses.replace(
                d.details.files,
                names=tuple(self._bytes(name) for name in d.details.files.names),
                handles=tuple(b"" for _ in d.details.files.handles),
            ),
        )
        ops = dataclasses.replace(d.ops, connections=connections, fh=self.handles(d.ops.fh))
        loose = dataclasses.replace(d.loose, connections=connections)
        files = tuple(
            dataclasses.replace(file, name=f"{role}-{number}" if len(side.source.files) > 1 else role)
            for number, file in enumerate(side.source.files, 1)
        )
        return dataclasses.replace(
            side,
            source=dataclasses.replace(side.source, name=role, files=files),
            decoded=dataclasses.replace(d, ops=ops, loose=loose, details=details),
        )

    def tables(self, found: Correlation) -> Correlation:
        """The same tables; what was worked out of them already is kept, as nothing in it names anybody."""
        client, server = self.side(found.client, "client"), self.side(found.server, "server")
        parts = dataclasses.replace(found.parts, client=client.ops, server=server.ops)
        out = dataclasses.replace(found, client=client, server=server, parts=parts)
        kept = found.__dict__.keys() - out.__dict__.keys()
        out.__dict__.update({name: found.__dict__[name] for name in kept})
        return out

    def report(self, report: model.Report) -> model.Report:
        """With pseudonyms in every text."""
        words = sorted(self.words, key=lambda word: (-len(word), word))
        pattern = re.compile("|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words)) if words else None

        def replaced(text: str) -> str:
            if pattern is not None:
                text = pattern.sub(lambda found: self.words[found[0]], text)
            return _ADDRESS.sub(lambda found: self._if_address(found[0]), text)

        return cast(model.Report, _with_texts(report, replaced))

    def know_capture(self, source: Source, role: str) -> None:
        """A capture is called by its role, the files of a set by numbers besides."""
        several = len(source.files) > 1
        names = {file.name: f"{role}-{number}" if several else role for number, file in enumerate(source.files, 1)}
        for name, known in {source.name: role, **names}.items():
            for other in (name, os.path.basename(name), os.path.abspath(name)):
                self.words.setdefault(other, known)

    def know_files(self, roles: Iterable[tuple[str, str]]) -> None:
        """Names of files and what they are ("server", "evidence" ...): paths and base names are replaced in texts."""
        for name, role in roles:
            if name in ("", "-"):
                continue
            known = self.word(name, role)
            for other in (os.path.basename(name), os.path.abspath(name)):
                self.words.setdefault(other, known)

    def know_host(self, host: Snapshot | None) -> None:
        """Names of a host and of what it mounts."""
        if host is None:
            return
        self.word(host.hostname, "host")
        for mount in host.mounts:
            for text in (mount.device, mount.path):
                self.word(text, "mount")
            self.word(mount.server, "host")

    def _connection(self, ends: Connection) -> Connection:
        return dataclasses.replace(ends, addr_a=self.address(ends.addr_a), addr_b=self.address(ends.addr_b))

    def _bytes(self, name: bytes) -> bytes:
        return self.path(name.decode("utf-8", "backslashreplace")).encode()

    def _if_address(self, text: str) -> str:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            return text
        return text if text in self.addresses.values() else self.address(text)


def _with_texts(value: Any, replaced: Callable[[str], str]) -> Any:
    """`value` with another text for each, in dataclasses, lists and dictionaries."""
    if isinstance(value, str):
        return replaced(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            f.name: _with_texts(getattr(value, f.name), replaced)
            for f in dataclasses.fields(value)
            if f.name not in _FIXED
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, dict):
        return {_with_texts(key, replaced): _with_texts(item, replaced) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_texts(item, replaced) for item in value)
    return value
