"""Layouts and devices of pNFS, as replies tell them, in; which file each handle of a data server is, out.

A layout says by which handles the data servers at a device know a file (RFC 8881 section 13.3, RFC 8435 section 5.1),
and GETDEVICEINFO at which addresses they are. A file is its handle at the server that gave the layout.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import field

from nfslat.model.details import FileEvent, Files
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, U32, Bool

HASH_BITS = 32
_ANYWHERE = -1  # in place of a server: no reply tells where the device is
_BEGIN_NS = int(np.iinfo(np.int64).min)


class _Told(NamedTuple):
    """Data of a file are at a device, under this handle. Handles and devices are numbers of byte strings."""

    t_ns: int
    server: int  # that gave the layout
    file: int
    device: int
    handle: int


class DataFiles(Record):
    """The files behind the handles of data servers: by server and CRC-32 of the handle, each from a time on."""

    keys: I64  # servers with CRC-32, in order
    times: I64  # in order
    order: I64  # of the rows, in order: place in `keys`, and in `times`
    file: I64  # of the rows: number of the file's own handle; NULL: it may be one of several

    def correct(self, handle: I32, known: I64, server: I32, fh: U32, t_ns: I64) -> None:
        """Set `handle` of ops at data servers. `known`, in order, are the keys of what has a name at the server itself:
        that keeps it where no device is said to be there."""
        at = np.flatnonzero(np.isin(fh, self.keys & NULL32) & (fh != NULL32))
        key = key_of(server[at], fh[at])
        is_told, file = self._find(key, t_ns[at])
        handle[at[is_told]] = file[is_told]
        at = at[~is_told & ~np.isin(key, known)]
        is_told, file = self._find(key_of(np.full(len(at), _ANYWHERE), fh[at]), t_ns[at])
        handle[at[is_told]] = file[is_told]

    def _find(self, key: I64, t_ns: I64) -> tuple[Bool, I64]:
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        order = place * (len(self.times) + 1) + np.searchsorted(self.times, t_ns, side="right")
        return self.keys[place] == key, self.file[np.searchsorted(self.order, order, side="right") - 1]


def key_of(server: I32 | I64, fh: U32 | I64) -> I64:
    """A server and the CRC-32 of a handle as one number."""
    return np.asarray((server.astype(np.int64) << HASH_BITS) | fh)


class Layouts(Record):
    """What the replies of all captures say of layouts and devices."""

    told: list[_Told] = []
    servers: defaultdict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))  # of each device

    def add(self, files: Files, handles: I64, server: I32, t_ns: I64, addresses: Mapping[str, int]) -> Bool:
        """Take what rows of one capture say; which rows these are. `handles` are the numbers of its byte strings,
        `addresses` those of the servers."""
        laid = files.event == FileEvent.LAID_OUT
        at = np.flatnonzero(laid & (files.handle != NULL) & (files.to_directory != NULL))
        said = np.stack([column[at] for column in (t_ns, server)], axis=1)
        said = np.hstack(
            [said, handles[np.stack((files.handle[at], files.directory[at], files.to_directory[at]), axis=1)]]
        )
        said = said[np.lexsort((said[:, 0], said[:, 4]))]
        # What is said once more of a handle is no news.
        is_new = np.any(said[1:, 1:] != said[:-1, 1:], axis=1)
        self.told.extend(map(_Told._make, said[np.append(True, is_new)[: len(said)]].tolist()))
        devices = files.event == FileEvent.DEVICE
        hosts = {_address(text): number for text, number in addresses.items()} if devices.any() else {}
        for by, device, name in zip(
            server[devices].tolist(), handles[files.handle[devices]].tolist(), files.name[devices].tolist(), strict=True
        ):
            # A universal address ends with the two bytes of the port (RFC 5665 section 5.2.3).
            if host := _address(files.names[name].decode("latin-1").rsplit(".", 2)[0]):
                # Where nobody is seen there: the device is nowhere else all the same.
                self.servers[by, device].update({hosts.get(host, NULL)} - {NULL})
        return np.asarray(files.event >= FileEvent.LAID_OUT)

    def table(self, hashes: I64, used: I64, keys: I64) -> DataFiles | None:
        """`hashes` are the CRC-32 of the byte strings, `used` the handles of News as servers and byte strings in one
        number, in order, and `keys` as servers and CRC-32."""
        found: defaultdict[int, list[_Told]] = defaultdict(list)
        for one in sorted(self.told):
            for server in self.servers.get((one.server, one.device), (_ANYWHERE,)):
                # The file's own handle may be another file's elsewhere.
                if server != _ANYWHERE or one.handle != one.file:
                    found[(server << HASH_BITS) | int(hashes[one.handle])].append(one)
        if not found or not len(used):
            return None
        others = defaultdict(set)
        for handle in np.flatnonzero(np.isin(keys, list(found))).tolist():
            others[int(keys[handle])].add(int(used[handle]) % len(hashes))
        rows = [row for key in sorted(found) for row in _rows(key, found[key], others[key])]
        keys_of_rows, from_ns, servers, file = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        named = servers * len(hashes) + file
        number = np.minimum(np.searchsorted(used, named), len(used) - 1)
        known = (file != NULL) & (used[number] == named)
        names, times = np.unique(keys_of_rows), np.unique(from_ns)
        order = np.searchsorted(names, keys_of_rows) * (len(times) + 1) + np.searchsorted(times, from_ns, side="right")
        return DataFiles(names, times, order, np.where(known, number, NULL))


def _rows(key: int, told: Sequence[_Told], others: set[int]) -> Iterable[tuple[int, int, int, int]]:
    """Key, time, and server and handle of the file (NULL: it may be several); `others` are what else has the CRC-32."""
    handles = {one.handle for one in told}
    may_be_several = key < 0 and len({(one.server, one.device) for one in told}) > 1
    if len(handles | others) > 1 or (may_be_several and len({(one.server, one.file) for one in told}) > 1):
        yield key, _BEGIN_NS, NULL, NULL
        return
    was = None
    for one in told:
        if (one.server, one.file) != was:
            yield key, _BEGIN_NS if was is None else one.t_ns, one.server, one.file
        was = one.server, one.file


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
