"""The packets of NFSv3 over TCP as numpy structures: a pcap record each, as tcpdump with a short snaplen writes it.

After RFC 791, 9293, 5531 and 1813. A shape is a dtype and a filled row of it; whoever writes many packets repeats the
row and sets the columns that differ. IP checksums are right, TCP's are zero, as offload leaves them.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleet_made.plan import GETATTR, LOOKUP, NAMES, READ, WRITE, S

Rows = npt.NDArray[np.void]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

BLOCK_BYTES = 8192
SNAPLEN = 512
MSS = 1460
SYN, SYN_ACK, ACK = range(3)  # shapes; calls and replies follow
RECORD_BYTES = 16
_TCP_END = RECORD_BYTES + 14 + 20 + 20
_PROCEDURES = {READ: 6, WRITE: 7, GETATTR: 1, LOOKUP: 3}

_FRAME = [
    ("seconds", "<u4"),
    ("fraction", "<u4"),
    ("kept", "<u4"),
    ("length", "<u4"),
    ("to", "V6"),
    ("by", "V6"),
    ("ethertype", ">u2"),
    ("version", "u1"),
    ("tos", "u1"),
    ("total", ">u2"),
    ("ident", ">u2"),
    ("fragment", ">u2"),
    ("ttl", "u1"),
    ("protocol", "u1"),
    ("checksum", ">u2"),
    ("source", ">u4"),
    ("destination", ">u4"),
    ("source_port", ">u2"),
    ("destination_port", ">u2"),
    ("seq", ">u4"),
    ("ack", ">u4"),
    ("offset", "u1"),
    ("flags", "u1"),
    ("window", ">u2"),
    ("tcp_checksum", ">u2"),
    ("urgent", ">u2"),
]
_OPTIONS = [("options", "V12")]
_STAMPS = [("nops", ">u2"), ("stamps", "u1"), ("stamps_length", "u1"), ("ts_val", ">u4"), ("ts_ecr", ">u4")]
_CALL = [
    *((name, ">u4") for name in ("mark", "xid", "is_reply", "rpc", "program", "nfs", "procedure", "flavor", "cred")),
    *((name, ">u4") for name in ("stamp", "name_length")),
    ("name", "S12"),
    *((name, ">u4") for name in ("uid", "gid", "gids", "gid_1", "verifier", "verifier_length", "fh_length")),
    ("fh", "V32"),
]
_REPLY = [
    *((name, ">u4") for name in ("mark", "xid", "is_reply", "denied", "verifier", "verifier_length", "accept")),
    ("status", ">u4"),
]
# fattr3: type, mode, links, uid, gid, size, used, device, file system, file, and three times.
_ATTRIBUTES = [
    *((name, ">u4") for name in ("type", "mode", "links", "owner", "group")),
    *((name, ">u8") for name in ("size", "used", "device", "fsid", "fileid", "atime", "mtime", "ctime")),
]
_BODIES: dict[tuple[int, int], list[tuple[str, str]]] = {
    (READ, 0): [("at", ">u8"), ("count", ">u4")],
    (READ, 1): [("attributes", ">u4"), *_ATTRIBUTES, ("count", ">u4"), ("eof", ">u4"), ("data_length", ">u4")],
    (WRITE, 0): [("at", ">u8"), ("count", ">u4"), ("stable", ">u4"), ("data_length", ">u4")],
    (WRITE, 1): [
        ("before", ">u4"),
        ("before_attributes", "V24"),
        ("attributes", ">u4"),
        *_ATTRIBUTES,
        ("count", ">u4"),
        ("stable", ">u4"),
        ("boot", ">u8"),
    ],
    (GETATTR, 0): [],
    (GETATTR, 1): _ATTRIBUTES,
    (LOOKUP, 0): [("file_name_length", ">u4"), ("file_name", "S12")],
    (LOOKUP, 1): [
        ("found_length", ">u4"),
        ("found", "V32"),
        ("attributes", ">u4"),
        *_ATTRIBUTES,
        ("folder_attributes", ">u4"),
        ("folder", "V84"),
    ],
}
_CONSTANTS = {
    "ethertype": 0x0800,
    "version": 0x45,
    "fragment": 0x4000,
    "ttl": 64,
    "protocol": 6,
    "flags": 0x18,
    "window": 24_576,
    "nops": 0x0101,
    "stamps": 8,
    "stamps_length": 10,
    "rpc": 2,
    "program": 100_003,
    "nfs": 3,
    "flavor": 1,
    "cred": 36,
    "name_length": 12,
    "gids": 1,
    "fh_length": 32,
    "stable": 2,
    "type": 1,
    "mode": 0o644,
    "links": 1,
    "size": 1 << 29,
    "used": 1 << 29,
    "fsid": 0x4E46,
    "attributes": 1,
    "before": 1,
    "folder_attributes": 1,
    "file_name_length": 12,
    "found_length": 32,
    "boot": 0x6553F100_00000001,
}


@dataclass(frozen=True)
class Shape:
    """A kind of packet."""

    row: Rows  # one
    payload_bytes: int  # of TCP, on the wire

    @property
    def bytes(self) -> int:
        """In the file."""
        return int(self.row.dtype.itemsize)


def shapes(snaplen: int = SNAPLEN, *, stamped: bool = False) -> list[Shape]:
    """SYN, SYN_ACK, ACK, then for each kind its call and its reply (`shape_of`). `stamped`: with TCP time stamps."""
    options = struct.pack(">BBHBBBBBBBB", 2, 4, MSS, 1, 3, 3, 7, 4, 2, 0, 0)
    head = _FRAME + _STAMPS if stamped else _FRAME
    made = [_shape(head + _OPTIONS, 0, snaplen, flags=flags, options=options) for flags in (0x02, 0x12)]
    made.append(_shape(head, 0, snaplen, flags=0x10))
    for kind in range(len(NAMES)):
        for way in (0, 1):
            data = BLOCK_BYTES if (kind, way) in ((READ, 1), (WRITE, 0)) else 0
            extra = {"procedure": _PROCEDURES[kind]} if way == 0 else {"is_reply": 1}
            if kind in (READ, WRITE):
                extra |= {"count": BLOCK_BYTES, "data_length": BLOCK_BYTES}
            made.append(_shape(head + (_REPLY if way else _CALL) + _BODIES[kind, way], data, snaplen, **extra))
    return made


def shape_of(kind: int | I64, way: int) -> int | I64:
    """Number in `shapes` of a call (0) or reply (1)."""
    return 3 + 2 * kind + way


def _shape(fields: list[tuple[str, str]], data_bytes: int, snaplen: int, **values: object) -> Shape:
    options_bytes = sum(np.dtype(some).itemsize for some in (_OPTIONS, _STAMPS) if some[0] in fields)
    message_bytes = np.dtype(fields).itemsize - _TCP_END - options_bytes
    payload_bytes = message_bytes + data_bytes
    length = np.dtype(fields).itemsize - RECORD_BYTES + data_bytes
    kept = min(length, snaplen)
    data = kept + RECORD_BYTES - np.dtype(fields).itemsize
    if data < 0:
        raise ValueError(f"snaplen: {snaplen} is less than what a packet holds beside its data")
    row = np.zeros(1, dtype=[*fields, *([("data", f"V{data}")] if data else [])])
    names = row.dtype.names or ()
    columns: dict[str, object] = {**_CONSTANTS, "mark": 0x80000000 | payload_bytes - 4, "kept": kept, "length": length}
    columns |= {"total": length - 14, "offset": (20 + options_bytes) // 4 << 4} | values
    for name in set(columns) & set(names):
        row[name] = np.array(columns[name]).astype(row.dtype[name])
    if data:
        row["data"] = np.array((b"nfs data" * (data // 8 + 1))[:data], dtype=f"V{data}")
    return Shape(row, payload_bytes)


def filled(shape: Shape, columns: Mapping[str, npt.ArrayLike], rows: int, t_ns: I64, *, nano: bool) -> Rows:
    """So many packets of a shape; of `columns` those that it has."""
    out = np.repeat(shape.row, rows)
    for name in set(columns) & set(out.dtype.names or ()):
        out[name] = columns[name]
    out["seconds"] = t_ns // S
    out["fraction"] = t_ns % S // (1 if nano else 1000)
    header = out.view(np.uint8).reshape(rows, -1)[:, RECORD_BYTES + 14 : RECORD_BYTES + 34]
    total = np.ascontiguousarray(header).view(">u2").sum(axis=1, dtype=np.uint32)
    total = (total & 0xFFFF) + (total >> 16)
    out["checksum"] = ~(total + (total >> 16)) & 0xFFFF
    return out


def file_header(*, nano: bool, snaplen: int = SNAPLEN) -> bytes:
    """Of a pcap file."""
    return struct.pack("<IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, 1)


def address(text: str) -> int:
    """As a number."""
    return int(ipaddress.IPv4Address(text))


def handles(files: npt.ArrayLike) -> npt.NDArray[np.void]:
    """File handles of files by number, as knfsd makes them: head, file system, inode, generation."""
    numbers = np.atleast_1d(np.asarray(files, dtype=np.int64))
    out = np.zeros(len(numbers), dtype=[("head", ">u4"), ("fsid", "S16"), ("inode", "<u8"), ("generation", "<u4")])
    out["head"], out["fsid"], out["inode"] = 0x01000781, b"made for nfslat!", 128 + numbers
    out["generation"] = 0x5EED0000 + numbers
    return out.view("V32")


def macs(addresses: I64) -> npt.NDArray[np.void]:
    """A locally administered MAC address for each IPv4 address."""
    out = np.empty((len(addresses), 6), dtype=np.uint8)
    out[:, :2] = 0x02, 0x00
    out[:, 2:] = np.asarray(addresses, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return out.view("V6")[:, 0]


def swapped(xid: I64) -> U32:
    """XIDs as Linux sends them from a little-endian machine: counted up, then put on the wire as they are in memory."""
    return (xid & 0xFFFFFFFF).astype(np.uint32).byteswap()
