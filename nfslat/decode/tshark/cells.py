"""What tshark is asked for: the fields of one packet, in both forms of output, and how its line is cut into cells."""

from __future__ import annotations

import dataclasses

from nfslat.decode.tshark.rpc import Cells

# One cell a line; the first field that the packet has fills it. "1" takes the first occurrence only.
_PACKET: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("frame", ("frame.number",), 0),
    ("time", ("frame.time_epoch",), 0),
    ("length", ("frame.len",), 0),
    ("captured", ("frame.cap_len",), 0),
    ("stream", ("tcp.stream", "udp.stream"), 0),
    ("src", ("ip.src", "ipv6.src"), 0),
    ("dst", ("ip.dst", "ipv6.dst"), 0),
    ("sport", ("tcp.srcport", "udp.srcport"), 0),
    ("dport", ("tcp.dstport", "udp.dstport"), 0),
    ("ip_id", ("ip.id",), 0),
    ("seq", ("tcp.seq_raw",), 0),
    ("ack", ("tcp.ack_raw",), 0),
    ("tcp_len", ("tcp.len",), 0),
    ("flags", ("tcp.flags",), 0),
    ("from_frame", ("tcp.segment", "ip.fragment", "ipv6.fragment"), 1),
    ("fragment", ("ip.frag_offset", "ipv6.fraghdr.offset"), 0),
    ("more", ("ip.flags.mf", "ipv6.fraghdr.more"), 0),
)
_RPC: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("lastfrag", ("rpc.lastfrag",), 0),
    ("fraglen", ("rpc.fraglen",), 0),
    ("flavor", ("rpc.auth.flavor",), 0),
    ("xid", ("rpc.xid",), 0),
    ("msgtyp", ("rpc.msgtyp",), 0),
    ("program", ("rpc.program",), 0),
    ("version", ("rpc.programversion",), 0),
    ("procedure", ("rpc.procedure",), 0),
    ("fh", ("nfs.fh.hash",), 0),
    ("offset", ("nfs.offset3", "nfs.offset4", "nfs.read.offset", "nfs.write.offset"), 0),
    ("count", ("nfs.count3", "nfs.count4", "nfs.read.count"), 0),
    ("written", ("nfs.write.data_length", "nfs.write.totalcount"), 0),
    ("opcode", ("nfs.opcode", "nfs.cb.operation"), 0),
    ("ops_count", ("nfs.ops.count",), 0),
    ("minor", ("nfs.minorversion",), 0),
)
_ALL = (*_PACKET, *_RPC)
_MESSAGE = [field.name for field in dataclasses.fields(Cells)]
_MESSAGE_AT = [[name for name, _, _ in _RPC].index(name) for name in _MESSAGE]

# Most packets are without RPC and have nothing behind their packet cells: the rest is cut up only where it is needed.
PACKET_CELLS = len(_PACKET)
_COLUMN_BYTES = 2047  # COL_MAX_LEN - 1 of Wireshark's epan/column-info.h: a longer cell is cut there
_CUT = "[\N{HORIZONTAL ELLIPSIS}] "  # since 4.4 such a cell begins so


class UnreadableLine(Exception):
    """A cell is full, so that it may have been cut, or the line does not read as expected."""


def column_arguments() -> list[str]:
    """tshark's arguments for the fast form: custom columns, for which it builds no printable tree."""
    columns = ",".join(f'"{name}","%Cus:{" or ".join(fields)}:{which}:U"' for name, fields, which in _ALL)
    return ["-T", "tabs", "-o", f"gui.column.format:{columns}"]


def field_arguments() -> list[str]:
    """tshark's arguments for the form without limits: every field by itself."""
    return ["-T", "fields", *(part for _, fields, _ in _ALL for name in fields for part in ("-e", name))]


def split_columns(line: str) -> list[str]:
    """A line of the fast form -> its packet cells, and behind them the RPC cells as one text.

    Raises ``UnreadableLine`` where one of these is as long as a column can be, and so may be cut.
    """
    out = line.split("\t", PACKET_CELLS)
    if len(rest := out[-1]) < _COLUMN_BYTES - len(_CUT.encode()):
        return out
    if any(len(cell) == _COLUMN_BYTES or cell.startswith(_CUT) for cell in rest.split("\t")):
        raise UnreadableLine("full column")
    return out


def split_fields(line: str) -> list[str]:
    """A line of the other form, brought to the same shape: alternatives merged, first occurrence where asked for."""
    values, out, at = line.split("\t"), [], 0
    for _, fields, which in _ALL:
        joined = ",".join(value for value in values[at : at + len(fields)] if value)
        at += len(fields)
        out.append(joined.split(",", 1)[0] if which else joined)
    return [*out[:PACKET_CELLS], "\t".join(out[PACKET_CELLS:])]


@dataclasses.dataclass(slots=True)
class RpcCells:
    """The RPC cells of a packet that has any."""

    lastfrag: str
    fraglen: str
    flavor: str
    message: Cells


def split_rpc(text: str) -> RpcCells:
    """The RPC cells as one text, apart again."""
    cells = text.split("\t")
    return RpcCells(cells[0], cells[1], cells[2], Cells(*(cells[at] for at in _MESSAGE_AT)))
