"""`News` -> which name in which directory each handle was, and from when on."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import numpy as np
from msgspec import Struct, field

from nfslat.model.details import FileEvent
from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool, Table
from nfslat.names.chains import Change, renamed_ways
from nfslat.names.news import TOP, News

_ELSEWHERE = -1  # stands beside `FileEvent`: what was told by another way moves a file
_BEGIN_NS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, eq=False, repr=False)
class Links(Table):
    """By handle and time; the first row of a handle holds from the beginning on, each until the next one."""

    handle: I64
    from_ns: I64
    directory: I64  # a handle, TOP, or NULL: not known
    name: I64  # row of `names`; NULL: not known

    names: tuple[bytes, ...] = ()

    def spans(self, handles: int) -> tuple[I64, I64]:
        """First row of each of so many handles, and how many rows it has."""
        count = np.bincount(self.handle, minlength=handles)
        return np.cumsum(count) - count, count


def follow(news: News) -> Links:
    """What is known later holds backwards, to where something else was known; after a REMOVE, back to the REMOVE.

    Of a file with several names (hard links) it is the one by which it was found last. What a handle that a MOUNT led
    to is called elsewhere does not count.
    """
    event, t_ns, name, to_name = news.event, news.t_ns, news.name, news.to_name
    directory = np.where(event == FileEvent.ROOT, TOP, news.directory)
    # No directory is in itself: where the name is, is not known then.
    directory = np.where((event == FileEvent.FOUND) & (directory == news.handle), NULL, directory)
    roots = np.zeros(len(news.servers) + 1, dtype=np.bool_)
    # In NFSv4 other ways than this one may lead to what is below the root.
    tops = np.array([not one.strip(b"/") for one in news.names] + [False], dtype=np.bool_)
    roots[news.handle[(event == FileEvent.ROOT) & (name != NULL) & (news.mounts | tops[name])]] = True
    roots[NULL] = False
    found = (news.handle != NULL) & (name != NULL)
    found &= (event == FileEvent.ROOT) | ((event == FileEvent.FOUND) & ~roots[news.handle])
    moved, changes, names = renamed_ways(news, TOP)
    width = len(names) + 1
    found &= ~_says_less(news.handle, directory, name, (event == FileEvent.FOUND) & found)
    link, to_link = _codes(directory, name, width), _codes(news.to_directory, to_name, width)
    # What MOUNT leads to is in no directory that anybody renames in.
    place, to_place = (np.where(one >= 2 * width, one, NULL) for one in (link, to_link))
    renamed = (event == FileEvent.RENAMED) & (place != NULL) & (place != to_place)
    removed = (event == FileEvent.REMOVED) & (place != NULL)
    told = _Told(t_ns, place, news.handle, found, renamed, removed, to_place)
    in_turn = told.in_turn()
    if moved:
        of_moved = np.zeros(len(news.servers) + 1, dtype=np.bool_)
        of_moved[[row[1] for row in moved]] = True
        in_turn |= found & of_moved[news.handle]
    plain = found & ~in_turn
    rows = [(news.handle[plain], t_ns[plain], link[plain])]
    if in_turn.any():
        walk = _Walk(len(news.servers), 2 * width, _Spelt(names, news.servers) if changes else None)
        at = np.flatnonzero(in_turn)
        at = at if changes else told.first_of_each(at)
        columns = (at, event[at], t_ns[at], news.handle[at], link[at], to_link[at])
        said = zip(*(column.tolist() for column in columns), strict=True)
        ways = ((row, _ELSEWHERE, int(t_ns[row]), of, _code(end, width), NULL) for row, of, *end in moved)
        for row, *one in heapq.merge(said, ways, key=itemgetter(0)):
            while changes and changes[0].row <= row:
                change = changes.popleft()
                walk.doubt(change, int(t_ns[change.row]))
            walk.hear(*one)
        for change in changes:
            walk.doubt(change, int(t_ns[change.row]))
        rows.append(walk.rows())
    handle, from_ns, link = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.lexsort((np.arange(len(handle)), from_ns, handle))
    handle, from_ns, link = handle[order], from_ns[order], link[order]
    new = np.ones(len(handle), dtype=np.bool_)
    new[1:] = (handle[1:] != handle[:-1]) | (link[1:] != link[:-1])
    handle, from_ns, link = handle[new], from_ns[new], link[new]
    from_ns[np.flatnonzero(np.diff(handle, prepend=NULL))] = _BEGIN_NS
    directory, name = np.divmod(link, width)
    unknown = link == NULL
    return Links(handle, from_ns, np.where(unknown, NULL, directory + TOP), np.where(unknown, NULL, name), names)


def _says_less(handle: I64, directory: I64, name: I64, found: Bool) -> Bool:
    """Rows that give a handle a name whose directory is not known, where another row tells it."""
    out = found & (directory == NULL)
    if out.any():
        key = handle * (int(name.max()) + 1) + name
        out &= np.isin(key, key[found & ~out])
    return np.asarray(out)


def _codes(directory: I64, name: I64, width: int) -> I64:
    """A number for each name and its directory, or TOP; below 2 * `width` where none is known; NULL: no name."""
    return np.asarray(np.where(name == NULL, NULL, (directory - TOP) * width + name))


def _code(end: Sequence[int], width: int) -> int:
    directory, name = end
    return NULL if name == NULL else (directory - TOP) * width + name


class _Told(Record):
    """One row a row of `News`: what it says of which place."""

    t_ns: I64
    place: I64
    handle: I64
    found: Bool
    renamed: Bool
    removed: Bool
    to_place: I64

    def in_turn(self) -> Bool:
        """Which rows say something only together with others.

        The rest, all of it in most captures, is of handles in whose places nothing else ever was.
        """
        rows = np.flatnonzero(self.found & (self.place != NULL))
        if not (self.renamed.any() or self.removed.any()) and not len(rows):
            return np.zeros(len(self.place), dtype=np.bool_)
        places = np.concatenate([self.place, np.where(self.renamed, self.to_place, NULL)])
        used, number = np.unique(places, return_inverse=True)
        here, there = np.split(number.reshape(-1), 2)
        handle = self.handle[rows]
        shared = _differ(here[rows], handle, len(used))
        handles = int(handle.max(initial=NULL)) + 2
        # A REMOVE says nothing of anybody's name where nothing is said behind it of the place, nor of what was there,
        # and where that has no other place.
        last_of_handle = np.full(handles, _BEGIN_NS)
        np.maximum.at(last_of_handle, handle, self.t_ns[rows])
        last_of_handle[_differ(handle, here[rows], handles)] = np.iinfo(np.int64).max
        last = np.full(len(used), _BEGIN_NS)
        np.maximum.at(last, here[rows], last_of_handle[handle])
        moved = np.flatnonzero(self.renamed)
        for places in (here, there):
            np.maximum.at(last, places[moved], self.t_ns[moved])
            shared[places[moved]] = True
        gone = np.flatnonzero(self.removed)
        telling = gone[(last[here[gone]] >= self.t_ns[gone]) | shared[here[gone]]]
        shared[here[telling]] = True
        shared[used == NULL] = False
        in_shared = np.zeros(max(handles, int(self.handle.max(initial=NULL)) + 2), dtype=np.bool_)
        in_shared[handle[shared[here[rows]]]] = True
        out = self.renamed | (self.found & in_shared[self.handle])
        out[telling] = True
        return out

    def first_of_each(self, at: I64) -> I64:
        """Rows `at` without those that say once more of a handle and a place what was the last word on both."""
        again = self.found[at] & (self.place[at] != NULL)
        # A RENAME may be news for any place: what is said again behind one is heard again.
        epoch = np.cumsum(self.renamed[at])
        for key, other in ((self.handle, self.place), (self.place, self.handle)):
            order = np.lexsort((at, key[at]))
            before, here = at[order[:-1]], at[order[1:]]
            same = (key[here] == key[before]) & (other[here] == other[before]) & self.found[before]
            same &= epoch[order[1:]] == epoch[order[:-1]]
            again[order[1:]] &= same
            again[order[:1]] = False
        return np.asarray(at[~again])


def _differ(group: I64, value: I64, groups: int) -> Bool:
    """Does a group hold values that differ?"""
    least, most = np.full(groups, np.iinfo(np.int64).max), np.full(groups, NULL, dtype=np.int64)
    np.minimum.at(least, group, value)
    np.maximum.at(most, group, value)
    return least < most


class _Spelt(Struct):
    """Places by the names in them: one place may be told as "b" of a directory, and by a way from elsewhere."""

    names: tuple[bytes, ...]
    servers: tuple[int, ...]  # of each handle
    # Server and name -> places; those of one name, and those of several.
    places: defaultdict[tuple[int, bytes, bool], dict[int, None]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, place: int) -> None:
        directory, parts = self._read(place)
        for part in parts:
            self.places[self.servers[directory], part, len(parts) > 1][place] = None

    def take(self, change: Change) -> list[int]:
        """Places that may be the one of `change`, or below it, and are told from another beginning; no longer kept."""
        out = []
        for several in (True, False) if change.is_way else (True,):
            here = self.places.pop((change.server, change.name, several), {})
            for place in here:
                if self._read(place)[0] == change.directory:
                    self.places[change.server, change.name, several][place] = None
                else:
                    out.append(place)
        return out

    def _read(self, place: int) -> tuple[int, list[bytes]]:
        directory, name = divmod(place, len(self.names) + 1)
        return directory + TOP, self.names[name].split(b"/")


class _Walk(Struct):
    """Where each handle is now, row by row. Handles from `handles` on are of files that a RENAME moved, and that
    nothing has named by their handle so far.

    Links are numbers of names in directories as `_codes` makes them, places those with a directory that is known.
    """

    handles: int
    least: int  # of the numbers that are places
    spelt: _Spelt | None  # only where ways are told, too
    at: dict[int, int] = {}  # place -> handle
    places: dict[int, list[int]] = {}  # handle -> its places, the last found last
    gone: dict[int, int] = {}  # handle -> since when it has no place
    doubted: dict[int, int] = {}  # place -> handle that may have been replaced there
    changed: dict[int, int] = {}  # place -> when what was there may have become another file
    links: dict[int, list[int]] = {}  # handle -> time and link, time and link ...
    unnamed: int = 0

    def hear(self, event: int, t_ns: int, handle: int, link: int, to_link: int) -> None:
        if event == FileEvent.REMOVED:
            self._leave(link, t_ns)
        elif event == _ELSEWHERE:
            self._take(t_ns, handle, link)
        elif event != FileEvent.RENAMED:
            self._found(t_ns, handle, link)
        else:
            moved = self.at.get(link)
            if moved is None:
                self._lose(link, t_ns)
                self.unnamed += 1
                moved = self.handles + self.unnamed
                self._enter(moved, link, _BEGIN_NS)
            elif moved == self.at.get(to_link):
                return  # two names of one file: nothing happens (RFC 1813 section 3.3.14)
            self._leave(to_link, t_ns)
            del self.at[link]
            self.places[moved].remove(link)
            self._enter(moved, to_link, t_ns)

    def _found(self, t_ns: int, handle: int, link: int) -> None:
        was = self.at.get(link)
        if was is not None and was >= self.handles:
            history = self.links.pop(was)
            self.places[handle] = [*self.places.get(handle, []), *self.places.pop(was)]
            for one in self.places[handle]:
                self.at[one] = handle
            links = self.links.setdefault(handle, history)
            # Known by another name before: of the time in front of the RENAME that is what is known.
            links += history[-2:] if links is not history and links[-2] < history[-2] else []
            self.gone.pop(handle, None)
        elif was is not None and was != handle:
            self._leave(link, t_ns)
        self._enter(handle, link, t_ns)

    def doubt(self, change: Change, t_ns: int) -> None:
        """What is in a place that may be the one that was changed by another name is not known to be there."""
        if self.spelt is None:
            return
        for place in self.spelt.take(change):
            handle = self.at.pop(place, None)
            if handle is not None:
                self.changed[place] = t_ns
                places = self.places[handle]
                places.remove(place)
                if handle >= self.handles:
                    del self.links[handle], self.places[handle]
                    continue
                if places and self.links[handle][-1] == place:
                    self._enter(handle, places[-1], t_ns)
                self.doubted[place] = handle
            # A file that is replaced keeps its last name; one that was renamed has another.
            if not change.is_new:
                self._lose(place, t_ns)
            elif place in self.doubted:
                self.spelt.add(place)

    def _lose(self, place: int, t_ns: int) -> None:
        handle = self.doubted.pop(place, None)
        if handle is not None and self.links[handle][-1] == place:
            self.links[handle] += t_ns, NULL

    def _take(self, t_ns: int, handle: int, link: int) -> None:
        """It is by another way from now on, or (NULL) nobody knows where."""
        for one in self.places.pop(handle, []):
            if self.at.get(one) == handle:
                del self.at[one]
        self.gone.pop(handle, None)
        self.links.setdefault(handle, []).extend((t_ns, NULL))
        if link != NULL:
            self._enter(handle, link, t_ns)

    def _enter(self, handle: int, link: int, t_ns: int) -> None:
        links = self.links.setdefault(handle, [])
        since = self.gone.pop(handle, t_ns)
        if since < t_ns and links[-1] < self.least:
            # Only one of its names is gone for certain: the other one was told otherwise.
            links += since, NULL
            since = t_ns
        if not links and link in self.changed:
            # It need not be what was there in front of that.
            links += _BEGIN_NS, NULL
            since = self.changed[link]
        if not links or links[-1] != link:
            links += since, link
        places = self.places.setdefault(handle, [])
        if link >= self.least:
            if link in places:
                places.remove(link)
            places.append(link)
            self.at[link] = handle
            self.doubted.pop(link, None)
            if self.spelt is not None:
                self.spelt.add(link)

    def _leave(self, link: int, t_ns: int) -> None:
        handle = self.at.pop(link, None)
        if handle is None:
            return
        places = self.places[handle]
        places.remove(link)
        if places:
            self._enter(handle, places[-1], t_ns)
        else:
            self.gone[handle] = t_ns

    def rows(self) -> tuple[I64, I64, I64]:
        """Handle, time and link."""
        named = {handle: links for handle, links in self.links.items() if handle < self.handles}
        counts = np.fromiter(map(len, named.values()), dtype=np.int64, count=len(named))
        flat = np.fromiter(chain.from_iterable(named.values()), dtype=np.int64, count=int(counts.sum()))
        return np.repeat(np.fromiter(named, dtype=np.int64, count=len(named)), counts // 2), flat[::2], flat[1::2]
