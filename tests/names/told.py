"""Ops and what their replies say of files, without a capture: lines in, the side that a decoder would make out.

Times are ms; a reply comes 1 ms behind its call. `tell` is about the op that was asked last:

    story = Story()
    story.ask(0, "LOOKUP", b"dir", b"a").tell(FileEvent.FOUND, b"dir", b"a", b"handle")
    story.ask(5, "READ", b"handle")
    paths_of_side(story.side())
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
from wire_tables import CONNECTIONS, Op, decoded, ops

from nfslat.decode.capture import Source
from nfslat.model.details import Callers, FileEvent, Files, Names, no_details
from nfslat.model.protocol import _NAMES, NFS, NULL, NULL32
from nfslat.model.tables import Connection, Kind
from nfslat.names.paths import Paths
from nfslat.results import Side


@dataclass
class Story:
    connections: tuple[Connection, ...] = CONNECTIONS
    rows: list[Op] = field(default_factory=list)
    names: list[bytes | None] = field(default_factory=list)
    lists: list[tuple[int, ...]] = field(default_factory=list)
    news: list[tuple[int, int, float, tuple[bytes | None, ...]]] = field(default_factory=list)

    def ask(
        self,
        t_ms: float,
        op: str,
        fh: bytes | None = None,
        name: bytes | None = None,
        *,
        version: int = 3,
        program: int = NFS,
        before: str = "",
        **others: Any,
    ) -> Story:
        """An op; `before` are the operations in front of it in its COMPOUND. Call it in the order of time."""
        number = _NAMES[program, version].index(op)
        hashed = NULL32 if fh is None else crc32(fh)
        at_ms = (t_ms, t_ms, t_ms + 1, t_ms + 1)
        self.rows.append(Op(at_ms, len(self.rows), program=program, version=version, op=number, fh=hashed, **others))
        self.names.append(name)
        self.lists.append(tuple(_NAMES[program, version].index(one) for one in [*before.split(), op]))
        return self

    def tell(
        self,
        event: FileEvent,
        directory: bytes | None = None,
        name: bytes | None = None,
        handle: bytes | None = None,
        to_directory: bytes | None = None,
        to_name: bytes | None = None,
    ) -> Story:
        """What the reply to the last op says."""
        told = directory, name, handle, to_directory, to_name
        self.news.append((len(self.rows) - 1, int(event), self.rows[-1].at_ms[2], told))
        return self

    def side(self) -> Side:
        """The capture."""
        made = ops(*self.rows, connections=self.connections)
        kinds: dict[Kind, int] = {}
        kind = []
        for row, listed in enumerate(self.lists):
            one = made.kinds[made.kind[row]]
            if one.version == 4:
                one = one._replace(ops=listed)
            kind.append(kinds.setdefault(one, len(kinds)))
        made = replace(made, kind=np.array(kind, dtype=np.int16), kinds=tuple(kinds))
        names: dict[bytes, int] = {}
        handles: dict[bytes, int] = {}

        def number(known: dict[bytes, int], one: bytes | None) -> int:
            return NULL if one is None else known.setdefault(one, len(known))

        news = sorted(self.news, key=lambda row: row[2])
        files = {
            "op": [row[0] for row in news],
            "event": [row[1] for row in news],
            "t_ns": [round(row[2] * 1_000_000) for row in news],
            "directory": [number(handles, row[3][0]) for row in news],
            "name": [number(names, row[3][1]) for row in news],
            "handle": [number(handles, row[3][2]) for row in news],
            "to_directory": [number(handles, row[3][3]) for row in news],
            "to_name": [number(names, row[3][4]) for row in news],
        }
        named = [row for row, name in enumerate(self.names) if name is not None]
        kept: dict[bytes, int] = {}
        name_rows = [number(kept, self.names[row]) for row in named]
        details = replace(
            no_details(),
            files=Files.from_columns(files, names=tuple(names), handles=tuple(handles)),
            names=Names.from_columns({"op": named, "name": name_rows}, names=tuple(kept)),
            callers=Callers(np.full(len(made), 1000, dtype=np.uint32)),
        )
        return Side(Source("made", ()), decoded(made, details=details), np.zeros(len(made), dtype=np.int8))


def shown(paths: Paths) -> list[str | None]:
    """The path of each op; partial ones begin with ``.../`` and are said to be so."""
    for text, partial in zip(paths.texts, paths.partial, strict=True):
        assert partial == text.startswith(".../")
    return [None if row == NULL else paths.texts[row] for row in paths.of_op.tolist()]


def renamed_to(paths: Paths) -> list[str | None]:
    """The new name of each op that is a RENAME."""
    return [None if row == NULL else paths.texts[row] for row in paths.to_of_op.tolist()]
