"""Ops + what was said of file handles -> the path of the file that each op works on, as it was called at that time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nfslat.model.blocks import distinct, filled
from nfslat.model.details import FileEvent
from nfslat.model.protocol import MOUNT, NFS, NULL, op_name
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, Kind
from nfslat.names.links import Links, follow
from nfslat.names.news import TOP, Asked, News, of_pair, of_side
from nfslat.names.text import checked_encoding
from nfslat.names.tree import Rows, Tree
from nfslat.results import Correlation, Side

# They change which file the operations behind them work on (RFC 8881 section 16.2.3.1).
_MOVING = frozenset("CREATE LOOKUP LOOKUPP OPEN OPENATTR PUTPUBFH PUTROOTFH RESTOREFH".split())
_OF_HANDLE = frozenset("ACCESS CLOSE COMMIT GETATTR LOCK LOCKU READ READ_PLUS SETATTR WRITE".split())
_LISTING = frozenset("READDIR READDIRPLUS".split())


class Paths(Record):
    """Paths of ops. Each text is there once for each server that has such a path."""

    of_op: I32  # row of `texts`, one an op; NULL: not known
    texts: tuple[str, ...]
    partial: tuple[bool, ...]  # not known up to what was mounted: the text begins with ".../"
    to_of_op: I32  # of a RENAME or LINK the new name; NULL for all others


def paths_of(c: Correlation, encoding: str | None = None, rows: I64 | None = None) -> Paths:
    """Of the matched ops, by what both captures say; of those in `rows` alone where some are named.

    READ, WRITE, GETATTR and the like have the path of their file when the call was sent; what has a name in its
    arguments (LOOKUP, CREATE, OPEN, REMOVE, RENAME ...) that of its directory, and the name; LINK that of the file that
    is there. `encoding` is the code
    page of names that are not UTF-8 (`nfslat.names.text`). Raises ``UsageError`` where there is no such code page.
    """
    if rows is None:
        return _paths(*of_pair(c), encoding)
    rows = distinct(rows, len(c.matched))
    paths = _paths(*of_pair(c, rows), encoding)
    of_op, to_of_op = (np.full(len(c.matched), NULL, dtype=np.int32) for _ in range(2))
    of_op[rows], to_of_op[rows] = paths.of_op, paths.to_of_op
    return Paths(of_op, paths.texts, paths.partial, to_of_op)


def paths_of_side(side: Side, encoding: str | None = None) -> Paths:
    """Of all ops of one capture, selected or not; otherwise as `paths_of`."""
    return _paths(*of_side(side), encoding)


class _Wanted(Record):
    """What is to be shown: a handle, or a name in the directory that it is of."""

    handle: I32 | I64  # NULL: not known; TOP: the name is a path
    name: I32 | I64  # NULL: the handle's own path
    t_ns: I64
    server: I32


def _paths(asked: Asked, news: News, encoding: str | None) -> Paths:
    checked_encoding(encoding)
    handle, name = news.handles_of(asked.server, asked.fh, asked.t_ns), asked.name.copy()
    file = handle.copy()
    _by_their_news(asked, news, handle, name)
    links, linked = _links(asked, news, file, handle, name)
    at, to = _renames(news)
    wanted = (
        _Wanted(handle, name, asked.t_ns, asked.server),
        _Wanted(news.to_directory[to], news.to_name[to], asked.t_ns[at], asked.server[at]),
        _Wanted(linked, np.full_like(linked, NULL), asked.t_ns[links], asked.server[links]),
    )
    # Most captures have no RENAME and no LINK.
    shown, texts, partial = _show([some for some in wanted if len(some.t_ns)], news, follow(news), encoding)
    rows = iter(shown)
    of_op, of_renamed, of_linked = (next(rows) if len(some.t_ns) else np.zeros(0, np.int32) for some in wanted)
    to_of_op = np.full(len(asked.t_ns), NULL, dtype=np.int32)
    to_of_op[at] = of_renamed
    to_of_op[links] = np.where(name[links] == NULL, NULL, of_op[links])
    # A file whose only known name is the new one was called otherwise.
    of_op[links] = np.where(of_linked == to_of_op[links], NULL, of_linked)
    return Paths(of_op, tuple(texts), tuple(partial), to_of_op)


def _by_their_news(asked: Asked, news: News, handle: I32, name: I32) -> None:
    """Correct handle and name of ops whose handle is not that of the file, or of its directory.

    What was said in their own reply tells; where nothing was, the directory is not known.
    """
    kinds = asked.ops.kinds
    mounts = np.array([kind.program == MOUNT for kind in kinds], dtype=np.bool_)[asked.kind]
    handle[mounts] = TOP
    # What is no name would look like others.
    no_names = np.array([name == b"" or b"/" in name for name in news.names] + [False], dtype=np.bool_)
    wrong = np.flatnonzero(no_names[name] & ~mounts)
    handle[wrong] = name[wrong] = NULL
    unlike = np.array([_is_unlike(kind) for kind in kinds], dtype=np.bool_)[asked.kind] & ~mounts
    if not unlike.any():
        return
    handle[unlike] = NULL
    listing = np.array([_label(kind) in _LISTING for kind in kinds], dtype=np.bool_)
    rows = np.flatnonzero(news.op != NULL)
    rows = rows[unlike[news.op[rows]] & ~listing[asked.kind[news.op[rows]]]]
    op = news.op[rows]
    roots = news.event[rows] == FileEvent.ROOT
    said = news.name[rows]
    # The last row of an op is the one that stays.
    handle[op] = np.where(roots, np.where(said == NULL, news.handle[rows], TOP), news.directory[rows])
    name[op] = np.where(roots | (said != NULL), said, name[op])
    # A directory without the name in it is not what the op works on.
    bare = op[~roots & (name[op] == NULL)]
    handle[bare] = NULL


def _links(asked: Asked, news: News, file: I32, handle: I32, name: I32) -> tuple[I64, I64]:
    """The ops that are LINKs, and the handle of the file that is linked to. `file` are the handles of the arguments;
    `handle` and `name`, where the new one is, are corrected by what a COMPOUND's reply says of the link."""
    kinds = asked.ops.kinds
    is_link = np.array([kind.program == NFS and _label(kind) == "LINK" for kind in kinds], dtype=np.bool_)[asked.kind]
    newer = np.array([kind.version > 3 for kind in kinds], dtype=np.bool_)[asked.kind]
    links = np.flatnonzero(is_link)
    if not len(links):
        return links, links
    linked = np.where(newer, NULL, file).astype(np.int64)  # of a COMPOUND it is the directory's
    rows = np.flatnonzero((news.op != NULL) & (news.event <= FileEvent.ROOT) & (news.name != NULL))
    rows = rows[(is_link & newer & (asked.name != NULL))[news.op[rows]]]
    for row, op in zip(rows.tolist(), news.op[rows].tolist(), strict=True):
        if news.names[news.name[row]].rpartition(b"/")[2] == news.names[asked.name[op]]:
            linked[op], name[op] = news.handle[row], news.name[row]
            handle[op] = TOP if news.event[row] == FileEvent.ROOT else news.directory[row]
    return links, linked[links]


def _is_unlike(kind: Kind) -> bool:
    """Is the handle of such ops another one than the arguments' name is in, or than the operation works on?"""
    label = _label(kind)
    if kind.program != NFS:
        return False
    if kind.version < 4:
        return label == "LINK"  # the file's
    before = kind.ops[: kind.ops.index(kind.op)] if kind.op in kind.ops else kind.ops
    names = [op_name(NFS, 4, op) for op in before]
    behind = max((at for at, one in enumerate(names) if one == "PUTFH"), default=0)
    several = [op_name(NFS, 4, op) for op in kind.ops].count("LOOKUP") > 1
    return label in ("RENAME", "PUTROOTFH") or several or any(one in _MOVING for one in names[behind:])


def is_named_by_handle(kind: Kind) -> bool:
    """Do such ops work on the file that their handle is of, and on no other name?"""
    return _label(kind) in _OF_HANDLE and not _is_unlike(kind)


def _label(kind: Kind) -> str:
    return op_name(kind.program, kind.version, kind.op)


def _renames(news: News) -> tuple[I64, I64]:
    """Ops that gave a file a new name, and the row of `news` that says so."""
    rows = np.flatnonzero((news.op != NULL) & (news.event == FileEvent.RENAMED) & (news.to_name != NULL))
    op, first = np.unique(news.op[rows], return_index=True)
    return op.astype(np.int64), rows[first]


def _show(
    wanted: Sequence[_Wanted], news: News, links: Links, encoding: str | None
) -> tuple[list[I32], list[str], list[bool]]:
    """For each table the rows of the texts that are wanted, the texts, and whether they are partial."""
    tree = Tree(links, len(news.servers))
    servers = 1 + max((int(one.server.max()) for one in wanted), default=0)
    rows = Rows(max(servers, 1 + max(news.servers, default=0)), links.names)
    nodes = tree.nodes_at([(one.handle, one.t_ns) for one in wanted])
    of_node, parent = tree.rows_of(rows, np.array(news.servers, dtype=np.int64))
    of_node = np.concatenate([of_node, [TOP, NULL]])  # what stands at NULL and TOP is they themselves
    itself, above = (news.names.index(name) if name in news.names else len(news.names) for name in (b".", b".."))
    out = []
    for one, node in zip(wanted, nodes, strict=True):
        named = np.flatnonzero((one.name != NULL) & ((one.name != itself) | (node < 0)))
        up = named[(one.name[named] == above) & (node[named] >= 0)]
        up = up[parent[node[up]] >= 0]
        node[up] = parent[node[up]]
        row = filled(len(node), np.int32, lambda at, node=node: of_node[node[at]])  # type: ignore[misc]
        named = np.setdiff1d(named, up, assume_unique=True)
        row[named] = rows.add(row[named].astype(np.int64), one.server[named], one.name[named])
        row[row == TOP] = NULL
        out.append(row)
    return rows.told(out, encoding)
