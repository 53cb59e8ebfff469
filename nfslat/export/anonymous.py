"""What was found -> pseudonyms for addresses, names and handles, and tables, paths and a report that show only these.

What tells who and what is replaced, the same by the same wherever it stands; figures, times, ports, XIDs, frame numbers
and uids stay (docs/outputs.md). Pseudonyms are numbered as things are met, the client's capture first: they depend on
the captures and nothing else. The report is made of the real tables and renamed when it is done: no figure of it moves.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct, field, structs

from nfslat.answer import model
from nfslat.answer.pictures import SlowOp
from nfslat.model.details import Details
from nfslat.model.protocol import NULL32
from nfslat.model.record import Record
from nfslat.model.tables import U32, Connection
from nfslat.names.paths import Paths
from nfslat.names.text import no_formula, read_all
from nfslat.results import Analysis, Correlation, Side

T = TypeVar("T")
Pair = TypeVar("Pair", bound=Correlation)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Networks that are nobody's: RFC 2544 (benchmarks), behind it RFC 1112 section 4 (reserved); RFC 3849 (documentation).
_IPV4, _MORE_IPV4 = ipaddress.IPv4Address("198.18.0.0"), ipaddress.IPv4Address("240.0.0.0")
_FEW_IPV4 = 1 << 17
_IPV6 = ipaddress.IPv6Address("2001:db8::")
NOTE = "anonymized: addresses, names, file handles and sessions are pseudonyms, the same in all that one run writes"
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_GROUP, _OWN = 0x01, 0x02  # of a MAC address's first byte: many hosts; not given by a manufacturer
_ADDRESS = re.compile(
    r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,8}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4})(?:%\w+)?(?![\w:])"
    r"|(?<!\d)(?<!\d\.)\d{1,3}(?:\.\d{1,3}){3}(?!\d)"
)
_HANDLE = re.compile(r"fh 0x([0-9a-f]{8})")  # as pivots name files without a path
_NO_NAMES = {"", ".", "..", "..."}
# No names of anybody, and what looks like an address here is a version.
_FIXED = {"schema", "version", "engine", "code", "severity", "format"}


def by_role(found: Correlation | Side) -> Correlation | Side:
    """The same, with captures that are called "server" and "client" (one alone: "capture"), and not as their files."""
    if isinstance(found, Side):
        return _side_by_role(found, "capture")
    return pair_by_role(found)


def pair_by_role(found: Pair) -> Pair:
    """As `by_role`."""
    return structs.replace(
        found, client=_side_by_role(found.client, "client"), server=_side_by_role(found.server, "server")
    )


def _side_by_role(side: Side, role: str) -> Side:
    several = len(side.source.files) > 1
    files = tuple(
        structs.replace(file, name=f"{role}-{number}" if several else role)
        for number, file in enumerate(side.source.files, 1)
    )
    return structs.replace(side, source=structs.replace(side.source, name=role, files=files))


class Pseudonyms(Struct, eq=False):
    """What stands for what; it grows as new things are met."""

    real: frozenset[_Address] = frozenset()  # no pseudonym is one of these
    addresses: dict[_Address, str] = {}
    names: dict[str, str] = {}  # components of paths, as they are shown
    words: dict[tuple[str, str], str] = {}  # (kind, word): hosts, MAC addresses, processes
    sessions: dict[bytes, bytes] = {}
    handles: U32 = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))  # CRC-32, sorted
    numbers: U32 = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))  # of each of them
    encoding: str | None = None  # of names (`nfslat.names.text`)
    _counts: dict[str, int] = {}

    @classmethod
    def of(cls, found: Correlation | Side, encoding: str | None = None) -> Pseudonyms:
        """For all that the captures hold."""
        sides = [found] if isinstance(found, Side) else [found.client, found.server]
        ends = [end for side in sides for ends in side.ops.connections for end in (ends.addr_a, ends.addr_b)]
        made = cls(real=frozenset(filter(None, map(_parsed, ends))), encoding=encoding)
        for end in ends:
            made.address(end)
        for side in sides:
            details = side.decoded.details
            for text in read_all((*details.names.names, *details.files.names), encoding):
                made.path(text)
            for session in (*details.slots.sessions, *(limits.session for limits in details.sessions)):
                made.session(session)
        made._know_handles(np.concatenate([side.ops.fh for side in sides]))
        return made

    # --- Each kind of thing -------------------------------------------------------------------------------------------

    def address(self, text: str) -> str:
        """Of an IP or a MAC address; anything else is the name of a host. This host, and all or none, stay."""
        known = _parsed(text)
        if known is None:
            return self._mac(text) if _MAC.fullmatch(text) else self.word(text, "host")
        if known.is_loopback or known.is_unspecified or known == ipaddress.IPv4Address("255.255.255.255"):
            return text
        if known.version == 6 and known.ipv4_mapped is not None:
            return f"::ffff:{self.address(str(known.ipv4_mapped))}"
        if known not in self.addresses:
            while (pseudonym := self._next_address(known.version)) in self.real:
                pass
            self.addresses[known] = str(pseudonym)
        return self.addresses[known]

    def name(self, text: str) -> str:
        """Of one component of a path, as it is shown."""
        if text in _NO_NAMES:
            return text
        if text not in self.names:
            self.names[text] = f"name-{self._count('name')}"
            # In front of a path it is shown like this.
            self.names.setdefault(no_formula(text), self.names[text])
        return self.names[text]

    def path(self, text: str) -> str:
        """Of a path, component by component."""
        return "/".join(map(self.name, text.split("/")))

    def session(self, session: bytes) -> bytes:
        """Of the identifier of an NFSv4.1 session."""
        if session not in self.sessions:
            self.sessions[session] = (len(self.sessions) + 1).to_bytes(16, "big")
        return self.sessions[session]

    def handle(self, column: U32) -> U32:
        """Of CRC-32 of file handles: numbers from 1 on; NULL32 stays."""
        out = np.full(len(column), NULL32, dtype=np.uint32)
        known = column != NULL32
        out[known] = self.numbers[np.searchsorted(self.handles, column[known])]
        return out

    # --- Tables -------------------------------------------------------------------------------------------------------

    def paths(self, paths: Paths) -> Paths:
        """The same with other names."""
        return structs.replace(paths, texts=tuple(map(self.path, paths.texts)))

    def side(self, side: Side) -> Side:
        """The tables of one capture (`by_role`)."""
        d = side.decoded
        connections = tuple(map(self._connection, d.ops.connections))
        ops = dataclasses.replace(d.ops, connections=connections, fh=self.handle(d.ops.fh))
        loose = dataclasses.replace(d.loose, connections=connections)
        files = tuple(structs.replace(file, path=Path(file.name)) for file in side.source.files)
        return structs.replace(
            side,
            source=structs.replace(side.source, files=files),
            decoded=structs.replace(d, ops=ops, loose=loose, details=self._details(d.details)),
        )

    def tables(self, found: Analysis) -> Analysis:
        """The tables of two captures (`by_role`), and what was worked out of them."""
        client, server = self.side(found.client), self.side(found.server)
        parts = found.parts._replace(client=client.ops, server=server.ops)
        flying, charges = found.inflight, found.charges
        mounts = tuple(
            one._replace(client=self.address(one.client), server=(self.address(one.server[0]), one.server[1]))
            for one in flying.mounts
        )
        sessions = tuple(one._replace(session=self.session(one.session)) for one in flying.sessions)
        jobs = flying.load.jobs
        jobs = jobs._replace(addresses=tuple(map(self.address, jobs.addresses)))
        load = flying.load._replace(jobs=jobs)
        flying = flying._replace(load=load, mounts=mounts, sessions=sessions)
        if charges is not None:
            plateaus = tuple(
                one._replace(
                    client=self.address(one.client),
                    server=self.address(one.server),
                    sharers=tuple(each._replace(name=self.texts(each.name)) for each in one.sharers),
                )
                for one in charges.plateaus
            )
            charges = structs.replace(charges, parts=parts, plateaus=plateaus)
        return structs.replace(found, client=client, server=server, inflight=flying, charges=charges)

    # --- Texts --------------------------------------------------------------------------------------------------------

    def report(self, report: model.Report) -> model.Report:
        """With pseudonyms in every text; the captures are called by their roles already (`by_role`)."""
        pivots = [structs.replace(one, rows=[]) if one.by == "file" else one for one in report.pivots]
        made = self.texts(structs.replace(report, pivots=pivots))
        by_file = [
            structs.replace(one, rows=[structs.replace(row, key=self._file(row.key)) for row in one.rows])
            if one.by == "file"
            else shown
            for one, shown in zip(report.pivots, made.pivots, strict=True)
        ]
        return structs.replace(made, pivots=by_file, notes=[*made.notes, NOTE])

    def texts(self, part: T) -> T:
        """A part of the report with pseudonyms in every text, and in what is a path."""
        shown = "|".join(one.hex() for one in self.sessions)
        sessions = re.compile(rf"(?<!\w)(?:{shown})(?!\w)") if shown else None

        def replaced(text: str) -> str:
            if sessions is not None:
                text = sessions.sub(lambda found: self.sessions[bytes.fromhex(found[0])].hex(), text)
            return _ADDRESS.sub(lambda found: self._in_text(found[0]), text)

        changed: T = self._with_texts(part, replaced)
        return changed

    def _with_texts(self, value: Any, replaced: Callable[[str], str]) -> Any:
        """`value` with another text for each, in dataclasses, lists and dictionaries."""
        if isinstance(value, str):
            return replaced(value)
        if isinstance(value, Record):
            changed = {
                name: self._with_texts(getattr(value, name), replaced)
                for name in value.__struct_fields__
                if name not in _FIXED
            }
            if isinstance(value, SlowOp):
                changed["path"] = None if value.path is None else self.path(value.path)
            return structs.replace(value, **changed)
        if isinstance(value, dict):
            return {replaced(key): self._with_texts(item, replaced) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._with_texts(item, replaced) for item in value)
        return value

    def _file(self, key: str) -> str:
        """Of a file as a pivot names it; "not known" is there, too."""
        if handle := _HANDLE.fullmatch(key):
            (number,) = self.handle(np.array([int(handle[1], 16)], dtype=np.uint32)).tolist()
            return f"fh 0x{number:08x}"
        return self.path(key) if "/" in key else key

    def _in_text(self, text: str) -> str:
        """Of what looks like an address; a colon behind it may belong to the text."""
        if _parsed(text) is None and (shorter := text.removesuffix(":")) != text and _parsed(shorter) is not None:
            return f"{self.address(shorter)}:"
        return text if _parsed(text) is None else self.address(text)

    # --- What they are made of ----------------------------------------------------------------------------------------

    def _count(self, kind: str) -> int:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind]

    def _next_address(self, version: int) -> _Address:
        number = self._count(f"IPv{version}")
        if version == 6:
            return _IPV6 + number
        return _IPV4 + number if number < _FEW_IPV4 else _MORE_IPV4 + number

    def _mac(self, text: str) -> str:
        first = int(text[:2], 16)
        if text in {"ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"}:
            return text
        key = ("MAC", text)
        if key not in self.words:
            number = self._count("MAC").to_bytes(5, "big")
            self.words[key] = bytes((_OWN | first & _GROUP, *number)).hex(":")
        return self.words[key]

    def word(self, text: str, kind: str) -> str:
        """Of what has no form of its own: a host, a process."""
        key = (kind, text)
        if text and key not in self.words:
            self.words[key] = f"{kind}-{self._count(kind)}"
        return self.words.get(key, text)

    def _know_handles(self, column: U32) -> None:
        self.handles, first = np.unique(column[column != NULL32], return_index=True)
        self.numbers = np.empty(len(first), dtype=np.uint32)
        self.numbers[np.argsort(first)] = np.arange(1, len(first) + 1, dtype=np.uint32)

    def _connection(self, ends: Connection) -> Connection:
        return structs.replace(ends, addr_a=self.address(ends.addr_a), addr_b=self.address(ends.addr_b))

    def _details(self, details: Details) -> Details:
        """With other names and sessions; what is said of files is left out, as handles are in it: there are `paths`."""
        names = tuple(self.path(text).encode() for text in read_all(details.names.names, self.encoding))
        none = details.files.take(slice(0, 0))
        return structs.replace(
            details,
            names=dataclasses.replace(details.names, names=names),
            files=dataclasses.replace(none, names=(), handles=()),
            others=dataclasses.replace(
                details.others,
                streams=tuple(
                    one._replace(sender=self.address(one.sender), receiver=self.address(one.receiver))
                    for one in details.others.streams
                ),
            ),
            slots=dataclasses.replace(details.slots, sessions=tuple(map(self.session, details.slots.sessions))),
            sessions=tuple(structs.replace(one, session=self.session(one.session)) for one in details.sessions),
        )


def _parsed(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
