"""`Links` and handles at times -> nodes of a tree of directories, each name there once -> the texts of their paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.model.blocks import distinct, filled
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Bool
from nfslat.names.links import Links
from nfslat.names.news import TOP
from nfslat.names.text import UNKNOWN, no_formula, read_all

LONGEST = 4096  # characters, as PATH_MAX of Linux; of a longer path the end is shown
_NONE = np.zeros(0, dtype=np.int64)
_DEEPEST = 256  # directories that are looked for above what an op names


class Rows(Record):
    """Rows of texts: each is a name below another row, or below nothing, and there once."""

    servers: int
    names: tuple[bytes, ...]
    batches: list[I64] = []  # keys of the rows; rows are below rows of earlier batches
    server: list[I64] = []  # of the rows, likewise

    def add(self, above: I64, server: I32 | I64, name: I32 | I64) -> I64:
        """Rows for names below rows `above`, or at the top of a server (TOP), or where that is not known (NULL)."""
        if not len(above):
            return _NONE
        top = server.astype(np.int64) * 2 + (above == TOP)
        key = np.where(above < 0, top, above + 2 * self.servers) * len(self.names) + name
        used, first, number = np.unique(key, return_index=True, return_inverse=True)
        known = np.concatenate([_NONE, *self.batches])
        order = np.argsort(known)
        at = np.searchsorted(known, used, sorter=order)
        old = at < len(known)
        old[old] = known[order[at[old]]] == used[old]
        row = np.empty(len(used), dtype=np.int64)
        row[old] = order[at[old]]
        row[~old] = len(known) + np.arange(np.count_nonzero(~old))
        self.batches.append(used[~old])
        self.server.append(server[first[~old]].astype(np.int64))
        return np.asarray(row[number.reshape(-1)])

    def told(self, rows: Sequence[I32], encoding: str | None) -> tuple[list[I32], list[str], list[bool]]:
        """`rows` as rows of texts that are needed, those texts, and whether they are partial."""
        texts: list[str] = []
        partial: list[bool] = []
        tops = 2 * self.servers
        for batch in self.batches:
            above, name = np.divmod(batch, len(self.names))
            used, number = np.unique(name, return_inverse=True)
            said = read_all([self.names[one] for one in used.tolist()], encoding)
            for up, one in zip(above.tolist(), number.reshape(-1).tolist(), strict=True):
                if up < tops:
                    texts.append(no_formula(said[one]).rstrip("/") if up % 2 else f"{UNKNOWN}/{said[one]}")
                    partial.append(not up % 2)
                elif len(texts[up - tops]) < LONGEST:
                    texts.append(f"{texts[up - tops]}/{said[one]}")
                    partial.append(partial[up - tops])
                else:
                    texts.append(f"{UNKNOWN}/{said[one]}")
                    partial.append(True)
        return self._compact(rows, texts, partial)

    def _compact(
        self, rows: Sequence[I32], texts: list[str], partial: list[bool]
    ) -> tuple[list[I32], list[str], list[bool]]:
        needed = np.zeros(len(texts) + 1, dtype=np.bool_)
        for some in rows:
            needed[some] = True
        used = np.flatnonzero(needed[:-1])
        server = np.concatenate([_NONE, *self.server])[used].tolist()
        texts = [texts[row] or "/" for row in used.tolist()]
        partial = [partial[row] for row in used.tolist()]
        number = np.full(len(needed), NULL, dtype=np.int32)
        number[used] = np.arange(len(used))
        if len(set(texts)) == len(texts):
            return [number[some] for some in rows], texts, partial
        # Several ways lead to a path: as a whole to what was mounted, or name by name; or it is on several servers.
        known: dict[tuple[int, str, bool], int] = {}
        number[used] = [known.setdefault(one, len(known)) for one in zip(server, texts, partial, strict=True)]
        return [number[some] for some in rows], [text for _, text, _ in known], [one for _, _, one in known]


class Tree:
    """Handles at times -> nodes, each a way up from a handle to what is known last; nodes -> texts."""

    def __init__(self, links: Links, handles: int) -> None:
        self.links = links
        self.first, self.count = links.spans(handles)
        several = self.count > 1
        later = np.ones(len(links), dtype=np.bool_)
        later[self.first[self.count > 0]] = False
        # Times as numbers of stretches in which nothing changes.
        self.times = np.unique(links.from_ns[later])
        self.order = links.handle * (len(self.times) + 1) + np.searchsorted(self.times, links.from_ns, side="right")
        self.parent_changes = self._find_changing()
        above = links.directory[links.directory >= 0]
        moved = np.zeros(handles, dtype=np.bool_)
        moved[above] = several[above]
        self.epochs = np.unique(links.from_ns[later & moved[links.handle]])
        self.keys = np.zeros(0, dtype=np.int64)  # of the nodes: link, and stretch of `epochs` where that matters

    def _find_changing(self) -> Bool:
        """Links above which a directory was renamed, or is known by several names."""
        directory = self.links.directory
        up = directory >= 0
        up[up] = self.count[directory[up]] > 0
        link = np.zeros(len(directory), dtype=np.int64)
        link[up] = self.first[directory[up]]
        out = np.zeros(len(directory), dtype=np.bool_)
        out[up] = self.count[directory[up]] > 1
        if not out.any():
            return out
        for _ in range(_DEEPEST):
            more = out | (up & out[link])
            if (more == out).all():
                return out
            out = more
        return np.ones(len(out), dtype=np.bool_)

    def _links_at(self, handle: I32 | I64, t_ns: I64) -> I64:
        """The link of each handle at a time; NULL where it has none."""
        link = np.full(len(handle), NULL, dtype=np.int64)
        known = np.flatnonzero(handle >= 0)
        known = known[self.count[handle[known]] > 0]
        link[known] = self.first[handle[known]]
        several = known[self.count[handle[known]] > 1]
        if len(several):
            stretch = np.searchsorted(self.times, t_ns[several], side="right")
            order = handle[several].astype(np.int64) * (len(self.times) + 1) + stretch
            link[several] = np.searchsorted(self.order, order, side="right") - 1
        link[known[self.links.name[link[known]] == NULL]] = NULL
        return link

    def _keys_at(self, handle: I32 | I64, t_ns: I64) -> I64:
        link = self._links_at(handle, t_ns)
        changing = np.flatnonzero(link != NULL)
        changing = changing[self.parent_changes[link[changing]]]
        stretch = np.zeros(len(link), dtype=np.int64)
        if len(changing):
            stretch[changing] = np.searchsorted(self.epochs, t_ns[changing], side="right")
        return np.where(link == NULL, NULL, link * (len(self.epochs) + 1) + stretch)

    def _times_of(self, keys: I64) -> tuple[I64, I64]:
        """Link of each node, and a time in its stretch."""
        link, stretch = np.divmod(keys, len(self.epochs) + 1)
        begin = np.concatenate([self.epochs[:1] - 1, self.epochs]) if len(self.epochs) else np.zeros(1, dtype=np.int64)
        return link, begin[stretch]

    def nodes_at(self, wanted: Sequence[tuple[I32 | I64, I64]]) -> list[I32]:
        """Nodes of tables of handles and times; NULL or TOP where the handle is, NULL where nothing is known of it.

        All that is ever wanted is wanted at once: nodes are numbers among all of them.
        """
        of = [filled(len(t), np.int64, lambda at, h=h, t=t: self._keys_at(h[at], t[at])) for h, t in wanted]  # type: ignore[misc]
        most = len(self.links) * (len(self.epochs) + 1)
        new = distinct(np.concatenate([_NONE, *(distinct(one[one != NULL], most) for one in of)]), most)
        self.keys = new
        for _ in range(_DEEPEST):
            link, t_ns = self._times_of(new)
            above = self._keys_at(self.links.directory[link], t_ns)
            new = np.setdiff1d(distinct(above[above != NULL], most), self.keys, assume_unique=True)
            if not len(new):
                break
            self.keys = np.sort(np.concatenate([self.keys, new]))
        return [self._nodes(keys, handle) for keys, (handle, _) in zip(of, wanted, strict=True)]

    def _nodes(self, keys: I64, handle: I32 | I64) -> I32:
        def find(at: slice) -> I64:
            node = np.searchsorted(self.keys, keys[at])
            return np.where(keys[at] == NULL, np.where(handle[at] == TOP, TOP, NULL), node)

        return filled(len(keys), np.int32, find)

    def rows_of(self, rows: Rows, server: I64) -> tuple[I64, I64]:
        """The row of each node, and the node above it (NULL, TOP); `server` is that of each handle."""
        link, t_ns = self._times_of(self.keys)
        directory = self.links.directory[link]
        above = self._keys_at(directory, t_ns)
        at = np.searchsorted(self.keys, above)
        known = at < len(self.keys)
        known[known] = self.keys[at[known]] == above[known]
        parent = np.where(known, at, np.where(directory == TOP, TOP, NULL))
        children = np.argsort(parent, kind="stable")
        begins = np.searchsorted(parent[children], np.arange(len(parent) + 1))
        name, server = self.links.name[link], server[self.links.handle[link]]
        out = np.full(len(parent), NULL, dtype=np.int64)
        level = np.flatnonzero(parent < 0)
        while len(level):
            up = parent[level]
            out[level] = rows.add(np.where(up < 0, up, out[np.maximum(up, 0)]), server[level], name[level])
            sizes = begins[level + 1] - begins[level]
            ends = np.cumsum(sizes)
            level = children[np.repeat(begins[level] - (ends - sizes), sizes) + np.arange(ends[-1])]
        rest = np.flatnonzero(out == NULL)  # directories that are in each other, and what is below them
        out[rest] = rows.add(np.full(len(rest), NULL), server[rest], name[rest])
        parent[rest] = NULL
        return out, parent
