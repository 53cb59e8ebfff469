"""`Files` of one or two captures -> one table: what is said of which handle of which server is which file, and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from nfslat.clock.clock import ServerTimes
from nfslat.model.blocks import filled
from nfslat.model.details import FileEvent, Files, Names
from nfslat.model.protocol import MOUNT, NFS, NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import I8, I16, I32, I64, U32, Bool, Ops, Table
from nfslat.names.layouts import DataFiles, Layouts, key_of
from nfslat.names.servers import alone, joined, servers_of
from nfslat.results import Correlation, Side

TOP = -2  # the directory of what a MOUNT, or the root of a server, leads to: its name is a whole path
_NO_ENTRY = (b"", b".", b"..")


@dataclass(frozen=True, eq=False, repr=False)
class News(Table):
    """Rows as in `Files`; handles (of a server each) and names are numbered through all captures. Of names that are
    more than one ("a/./b") "." and ".." are taken out, but of ROOT.

    What is told from the root of a server (NFSv4) is in the directory TOP, its name is the whole path.

    `keys` are the handles by server and CRC-32, each once and in order; `handles` which handle that is, NULL where
    several have the same.
    """

    op: I32  # row of the ops that paths are asked for; NULL: of another
    event: I8
    t_ns: I64  # on the clock of those ops
    directory: I64
    name: I64
    handle: I64
    to_directory: I64
    to_name: I64
    server: I64
    mounts: Bool  # the program is MOUNT
    names: tuple[bytes, ...] = ()
    servers: tuple[int, ...] = ()  # of each handle
    keys: tuple[I64, I64] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    data: DataFiles | None = None  # of data servers (pNFS)

    def handles_of(self, server: I32, fh: U32, t_ns: I64) -> I32:
        """The handle with each of these CRC-32 at a server; NULL: not known, or several have it. At a data server, the
        handle of the file whose layout holds at that time."""
        known, handles = self.keys
        if not len(known):
            return np.full(len(fh), NULL, dtype=np.int32)

        def find(at: slice) -> I64:
            wanted = key_of(server[at], fh[at])
            row = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            return np.where((known[row] == wanted) & (fh[at] != NULL32), handles[row], NULL)

        found = filled(len(fh), np.int32, find)
        if self.data is not None:
            self.data.correct(found, known, server, fh, t_ns)
        return found


class Asked(Record, eq=False):
    """The ops that paths are asked for, one row each: what their arguments say."""

    t_ns: I64
    server: I32  # number of the server
    fh: U32
    name: I32  # row of `News.names`; NULL: no name
    kind: I16  # row of the `kinds` of `ops`
    ops: Ops


def of_side(side: Side) -> tuple[Asked, News]:
    """All ops of one capture."""
    numbers = _Numbers()
    ops, details = side.ops, side.decoded.details
    addresses = alone(ops)
    server = ops.spread(servers_of(ops, addresses))
    news = numbers.add(details.files, ops, server, addresses, details.files.op, details.files.t_ns)
    name = _names(numbers, details.names, len(ops))
    return Asked(ops.t0, server, ops.fh, name, ops.kind, ops), numbers.table([news])


def of_pair(c: Correlation, wanted: I64 | None = None) -> tuple[Asked, News]:
    """The matched ops, or those in rows `wanted`, on the client's clock.

    What only the server's capture shows counts too, on its clock's estimate. Behind NAT a server has another address in
    each capture: those are one server whose connections are one.
    """
    numbers = _Numbers()
    addresses = joined(c)
    servers = {name: servers_of(getattr(c, name).ops, addresses[name]) for name in ("server", "client")}
    parts = []
    pair = c.matching.matched
    client_row = np.full(len(c.server.ops), NULL, dtype=np.int32)
    client_row[pair.server] = pair.client
    server_rows, rows = c.matched.rows(slice(None) if wanted is None else wanted)
    shown = np.full(len(c.client.ops), NULL, dtype=np.int32)
    shown[rows] = np.arange(len(rows), dtype=np.int32)
    server_of = c.client.ops.spread(servers["client"])
    of_client, of_server = c.client.decoded.details.files, c.server.decoded.details.files
    # The same answer is in both captures: the side that shows more of it is heard.
    told = client_row[of_server.op].astype(np.int64)
    more = _cells(of_server, told, len(c.client.ops)) > _cells(of_client, of_client.op, len(c.client.ops))
    heard = of_client.take(~more[of_client.op])
    # A device may be said to be where only the other capture has been.
    everybody = addresses["server"] | addresses["client"]
    parts.append(numbers.add(heard, c.client.ops, server_of, everybody, shown[heard.op], heard.t_ns))
    only = (told == NULL) | more[told]
    heard, told = of_server.take(only), told[only]
    if len(heard):
        times = ServerTimes(c.clock, pair, len(c.server.ops), len(c.client.ops))
        t_ns = times.on_client_ns(heard.op.astype(np.int64), heard.t_ns)
        t_ns = np.where(told == NULL, t_ns, c.client.ops.t2[told])
        op = np.where(told == NULL, NULL, shown[told]).astype(np.int32)
        everybody = addresses["client"] | addresses["server"]
        parts.append(numbers.add(heard, c.server.ops, c.server.ops.spread(servers["server"]), everybody, op, t_ns))
    ops = c.client.ops
    fh, name = ops.fh[rows], _names(numbers, c.client.decoded.details.names, len(ops))[rows]
    np.copyto(fh, c.server.ops.fh[server_rows], where=fh == NULL32)
    other = _names(numbers, c.server.decoded.details.names, len(c.server.ops))[server_rows]
    np.copyto(name, other, where=name == NULL)
    return Asked(ops.t0[rows], server_of[rows], fh, name, ops.kind[rows], ops), numbers.table(parts)


class _Numbers:
    """Handles and names of several captures under one number each."""

    def __init__(self) -> None:
        self.names: dict[bytes, int] = {}
        self.handles: dict[bytes, int] = {}
        self.layouts = Layouts()

    def add(self, files: Files, ops: Ops, server_of_op: I32, addresses: Mapping[str, int], op: I32, t_ns: I64) -> News:
        """The rows of one capture; handles are not told apart by server yet. `addresses` are those of servers."""
        no_names = np.array([b"/" in name for name in files.names] + [False], dtype=np.bool_)
        if no_names.any():
            # A slash is in no name; only NFSv4 has several at once, and MOUNT whole paths.
            one = np.array([kind.program == NFS and kind.version < 4 for kind in ops.kinds], dtype=np.bool_)
            one = one[ops.kind[files.op]]
            name, to_name = (
                np.where(one & no_names[column], NULL, column).astype(np.int32)
                for column in (files.name, files.to_name)
            )
            files = dataclasses.replace(files, name=name, to_name=to_name)
        names, handles = (
            np.array([*(known.setdefault(one, len(known)) for one in of), NULL], dtype=np.int64)
            for known, of in ((self.names, files.names), (self.handles, files.handles))
        )
        laid = self.layouts.add(files, handles, server_of_op[files.op], t_ns, addresses)
        if laid.any():
            files, op, t_ns = files.take(~laid), op[~laid], t_ns[~laid]
        return News(
            op=op,
            event=files.event,
            t_ns=t_ns,
            directory=handles[files.directory],
            name=names[files.name],
            handle=handles[files.handle],
            to_directory=handles[files.to_directory],
            to_name=names[files.to_name],
            server=server_of_op[files.op].astype(np.int64),
            mounts=np.array([kind.program == MOUNT for kind in ops.kinds], dtype=np.bool_)[ops.kind[files.op]],
        )

    def table(self, parts: Sequence[News]) -> News:
        """All rows in order of time, with the handles of each server apart."""
        columns = {name: np.concatenate([getattr(news, name) for news in parts]) for name in News.columns()}
        order = np.argsort(columns["t_ns"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        server = columns["server"]
        whole = np.array([name[:1] == b"/" for name in self.names] + [False], dtype=np.bool_)
        entry = _as_entries(self.names)
        roots = columns["event"] == FileEvent.ROOT
        from_top = {
            to: whole[columns[f"{to}name"]] & (columns[f"{to}directory"] == NULL) & ~roots for to in ("", "to_")
        }
        for to, is_whole in from_top.items():
            name = columns[f"{to}name"]
            columns[f"{to}name"] = np.where(roots | is_whole, name, entry[name])
        ends = ("directory", "handle", "to_directory")
        pairs = np.concatenate(
            [np.where(columns[end] == NULL, NULL, server * len(self.handles) + columns[end]) for end in ends]
        )
        used, number = np.unique(pairs, return_inverse=True)
        unknown = int(len(used) > 0 and used[0] == NULL)
        for end, column in zip(ends, np.split(number.reshape(-1) - unknown, 3), strict=True):
            columns[end] = column
        for to, is_whole in from_top.items():
            columns[f"{to}directory"][is_whole] = TOP
        servers, handles = np.divmod(used[unknown:], max(len(self.handles), 1))
        hashes = np.fromiter(map(crc32, self.handles), dtype=np.int64, count=len(self.handles))
        keys = key_of(servers, hashes[handles])
        return News(
            **columns,
            names=tuple(self.names),
            servers=tuple(servers.tolist()),
            keys=_keys(keys),
            data=self.layouts.table(hashes, used[unknown:], keys),
        )


def _as_entries(known: dict[bytes, int]) -> I64:
    """The number of each name as that of an entry of a directory, made where there is none; NULL: it leads elsewhere.

    "." and ".." name no file, and in a chain of names ("a/./b") they are taken out of it.
    """
    number = np.array([*range(len(known)), NULL], dtype=np.int64)
    for name in [name for name in known if b"/" in name or name in _NO_ENTRY]:
        entry = _chain(name)
        number[known[name]] = NULL if entry is None else known.setdefault(entry, len(known))
    return number


def _chain(name: bytes) -> bytes | None:
    parts: list[bytes] = []
    for part in name.split(b"/"):
        if part == b"..":
            if not parts:
                return None
            parts.pop()
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/".join(parts) or None


def _keys(keys: I64) -> tuple[I64, I64]:
    """Keys of handles, each once and in order, and the row of the only one that has it, else NULL."""
    known, first, count = np.unique(keys, return_index=True, return_counts=True)
    return known, np.where(count == 1, first, NULL)


def _names(numbers: _Numbers, names: Names, ops: int) -> I32:
    """The name in the arguments of each op, NULL where there is none."""
    known = numbers.names
    row = np.array([*(known.setdefault(one, len(known)) for one in names.names), NULL], dtype=np.int32)
    out = np.full(ops, NULL, dtype=np.int32)
    out[names.op] = row[names.name]
    return out


def _cells(files: Files, op: I32 | I64, ops: int) -> I32:
    """How many handles and names rows show, by `op` (NULL: of none)."""
    columns = (files.directory, files.name, files.handle, files.to_directory, files.to_name)
    shown = sum((column != NULL).astype(np.int32) for column in columns) + 1
    out = np.zeros(ops, dtype=np.int32)
    np.add.at(out, op[op != NULL], shown[op != NULL])
    return out
