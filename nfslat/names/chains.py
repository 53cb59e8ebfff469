"""`News` in; the handles that are named by a way of several names, and what becomes of those names, out.

NFSv4 goes down several directories in one COMPOUND, from the root or from a handle, and shows the handle at the end of
the way only. Where a name on it was renamed later, the rest of the way is the same if the RENAME was told from the same
beginning; else nobody knows.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from nfslat.model.details import FileEvent
from nfslat.model.protocol import NULL
from nfslat.names.news import News

_Way = tuple[int, tuple[bytes, ...]]  # a handle, or TOP; the names from there


class Change(NamedTuple):
    """A RENAME or REMOVE, by one of its names: the same place may have been told from another beginning."""

    row: int  # of `news`
    server: int
    directory: int  # where it begins: a handle, TOP, or NULL: not known
    name: bytes  # the last one
    is_way: bool  # from there it may be any place of this name
    is_new: bool  # what was there, if anything, is replaced; else it leaves


def renamed_ways(news: News, top: int) -> tuple[list[tuple[int, int, int, int]], deque[Change], tuple[bytes, ...]]:
    """Rows of `news` that move a handle, the handle, its directory and name from then on (NULL: nobody knows), in
    order; what may have changed a place that was told otherwise; and all names.

    `top` stands, as directory, for the root of the server. What names one by one tell is not in it.
    """
    several = np.array([b"/" in name.lstrip(b"/") for name in news.names] + [False], dtype=np.bool_)
    named = (news.event <= FileEvent.ROOT) & (news.handle != NULL) & (news.name != NULL) & ~news.mounts
    renamed = (news.event == FileEvent.RENAMED) & (news.name != NULL)
    by_way = (named & (news.event == FileEvent.ROOT)) | (renamed & (news.directory < 0))
    by_way |= (named | renamed) & (several[news.name] | (renamed & several[news.to_name]))
    removed = (news.event == FileEvent.REMOVED) & (news.name != NULL)
    if not renamed.any() or not (by_way | (removed & (news.directory == top))).any():
        return [], deque(), news.names
    ways = _Ways(list(news.names), {name: row for row, name in enumerate(news.names)})
    directory = np.where(news.event == FileEvent.ROOT, top, news.directory)
    at = np.flatnonzero(named | renamed | removed)
    columns = (news.server, directory, news.name, news.to_directory, news.to_name, news.handle, by_way)
    for row, server, *ends, handle, is_way in zip(
        at.tolist(), *(column[at].tolist() for column in columns), strict=True
    ):
        if removed[row]:
            ways.change(row, server, *ends[:2], is_new=False)
            if ends[0] < 0:
                ways.remove(row, server, *ends[:2])
        elif handle == NULL:
            ways.change(row, server, *ends[:2], is_new=False)
            ways.change(row, server, *ends[2:], is_new=True)
            ways.rename(row, server, *ends, is_way=is_way)
        else:
            ways.find(row, server, handle, *ends[:2], is_way=is_way)
    return ways.rows, ways.changes, tuple(ways.names)


class _Ways(Struct):
    """Which handle is at the end of which way now, and was that told by a way."""

    names: list[bytes]
    row_of: dict[bytes, int]
    now: dict[int, tuple[_Way, bool]] = {}
    since: dict[int, int] = {}  # row of `news` from which on it was there
    through: defaultdict[tuple[int, bytes], dict[int, None]] = field(default_factory=lambda: defaultdict(dict))
    found: dict[int, int] = {}  # row of `news` that said so last
    # Row of the last RENAME to a name; that may concern what is told by ways, and what is not.
    renamed_to: dict[tuple[int, bytes, bool], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    changes: deque[Change] = field(default_factory=deque)

    def find(self, row: int, server: int, handle: int, directory: int, name: int, *, is_way: bool) -> None:
        way = directory, self._parts(name)
        last = max((self.renamed_to.get((server, part, is_way), -1) for part in way[1]), default=-1)
        if last > self.found.get(handle, -1) and self.now.get(handle, ((NULL, ()), False))[0] != way:
            # In front of that RENAME it had another name: this one does not hold backwards.
            self.rows.append((row - 1, handle, NULL, NULL))
        self.found[handle] = row
        self._put(row, server, handle, way, is_way=is_way)

    def change(self, row: int, server: int, directory: int, name: int, *, is_new: bool) -> None:
        parts = self._parts(name) if name != NULL else ()
        if parts:
            is_way = directory < 0 or len(parts) > 1
            self.changes.append(Change(row, server, directory, parts[-1], is_way, is_new))

    def remove(self, row: int, server: int, directory: int, name: int) -> None:
        old = self._parts(name)
        for handle in list(self.through.get((server, old[-1]), ())) if old else ():
            (begin, parts), _ = self.now.get(handle, ((NULL, ()), False))
            if parts[-1:] == old[-1:] and (directory != begin or parts == old):
                del self.now[handle]
                self.rows.append((row, handle, NULL, NULL))

    def rename(
        self, row: int, server: int, directory: int, name: int, to_directory: int, to_name: int, *, is_way: bool
    ) -> None:
        old = self._parts(name)
        if not old:
            return
        # What has been elsewhere for long is forgotten here.
        for handle in list(self.through.pop((server, old[-1]), ())):
            way, was_way = self.now.get(handle, ((NULL, ()), False))
            begin, parts = way
            if old[-1] not in parts:
                continue
            is_other = parts[: len(old)] != old if directory == begin != NULL else not (is_way or was_way)
            if is_other:
                self.through[server, old[-1]][handle] = None
            elif directory != begin or NULL in (begin, to_directory, to_name) or self._is_doubted(server, handle, old):
                del self.now[handle]
                self.rows.append((row, handle, NULL, NULL))
            else:
                new = (to_directory, self._parts(to_name) + parts[len(old) :])
                self._put(row, server, handle, new, is_way=is_way or was_way)
                if is_way or was_way:
                    self.rows.append((row, handle, to_directory, self._name(new)))
        if to_name != NULL and (new_parts := self._parts(to_name)):
            self.renamed_to[server, new_parts[-1], True] = row
            if is_way or (server, old[-1], False) in self.renamed_to:
                self.renamed_to[server, new_parts[-1], False] = row

    def _is_doubted(self, server: int, handle: int, place: tuple[bytes, ...]) -> bool:
        """May it be another file, that was renamed to this name since, that is there?"""
        (_, parts), is_way = self.now[handle]
        last = self.renamed_to.get((server, parts[-1], True), -1)
        return is_way and parts == place and last > self.since[handle]

    def _put(self, row: int, server: int, handle: int, way: _Way, *, is_way: bool) -> None:
        self.now[handle] = way, is_way
        self.since[handle] = row
        for part in way[1]:
            self.through[server, part][handle] = None

    def _parts(self, name: int) -> tuple[bytes, ...]:
        return tuple(part for part in self.names[name].split(b"/") if part)

    def _name(self, way: _Way) -> int:
        begin, parts = way
        name = (b"/" if begin < NULL else b"") + b"/".join(parts)
        row = self.row_of.setdefault(name, len(self.names))
        if row == len(self.names):
            self.names.append(name)
        return row
