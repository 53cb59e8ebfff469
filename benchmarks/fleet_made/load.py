"""Many clients that do the same in step -> captures for measuring throughput: numpy only, nothing is played.

Time goes in rounds, a round in four quarters: calls come, what is large is acknowledged, replies go, what is large is
acknowledged. Within a quarter every packet has its slot, so those of all captures are in one known order: packets of
eight rounds, a cycle, are laid out once; in its copies times, sequence numbers, XIDs and offsets go on. Replies go in
an order of their own, so that response times differ. Every client has `lanes` calls in flight. Clients share one clock,
so that their packets can stand in one file, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from fleet_made.packets import (
    ACK,
    BLOCK_BYTES,
    MSS,
    SNAPLEN,
    SYN,
    SYN_ACK,
    Rows,
    Shape,
    file_header,
    filled,
    handles,
    macs,
    shape_of,
    shapes,
    swapped,
)
from fleet_made.plan import EPOCH_NS, FOLDER, GETATTR, LOOKUP, MS, READ, US, WRITE, S

I64 = npt.NDArray[np.int64]

_PATTERN = (READ, READ, WRITE, READ, GETATTR, READ, WRITE, READ)
_SLOT_NS = 20 * US  # of a packet in its quarter
_DELAY_NS = 30 * US  # each way
_IDLE_NS = 100 * US  # at the end of a quarter, so that quarters stay apart in the clients' captures
_THETA_NS = 5 * MS  # the server's clock minus the clients'
_HEAD_NS = 10 * US  # between packets at the beginning
_CHUNK_BYTES = 8 << 20
_SERVER = 0x0A080001  # 10.8.0.1
_FIRST_CLIENT = 0x0A080100


@dataclass(frozen=True)
class Load:
    """What was written."""

    ops: int
    server: tuple[Path, ...]
    clients: tuple[tuple[Path, ...], ...]
    merged: Path  # all the clients' packets in one file

    @property
    def bytes(self) -> int:
        """Of the server's files and the clients', without the one that has them all again."""
        return sum(path.stat().st_size for point in (self.server, *self.clients) for path in point)


@dataclass(frozen=True)
class _Layout:
    """Packets in their order, and by how much a cycle moves each on; `at_ns` is at the server."""

    shape: I64
    way: I64
    client: I64
    op: I64  # of its client; -1: none
    at_ns: I64
    seq: I64
    ack: I64
    ident: I64
    number: I64  # of the packet
    step_ns: int = 0
    step_bytes: tuple[int, int] = (0, 0)  # of calls, of replies
    step_idents: tuple[int, int] = (0, 0)
    step_ops: int = 0

    def of_client(self, client: int) -> _Layout:
        """Its packets alone."""
        names = ("shape", "way", "client", "op", "at_ns", "seq", "ack", "ident", "number")
        mine = self.client == client
        return replace(self, **{name: getattr(self, name)[mine] for name in names})


class _Writer:
    """Puts packets down, in order, and keeps what each client's connection has sent."""

    def __init__(self, clients: int, kinds: list[Shape]) -> None:
        self.rows: list[tuple[int, int, int, int, int, int, int, int]] = []
        self.kinds = kinds
        self.sent = [[0, 0] for _ in range(clients)]
        self.idents = [[0, 0] for _ in range(clients)]
        self.ops = [0] * clients

    def put(self, client: int, way: int, shape: int, at_ns: int, op: int = -1, ack: int | None = None) -> None:
        mine, idents = self.sent[client], self.idents[client]
        payload = self.kinds[shape].payload_bytes
        ack = mine[1 - way] if ack is None else ack
        self.rows.append((shape, way, client, op, at_ns, mine[way], ack, idents[way]))
        mine[way] += payload + (shape in (SYN, SYN_ACK))
        idents[way] += max(-(-payload // MSS), 1)

    def message(self, client: int, way: int, kind: int, at_ns: int, op: int) -> int:
        """A call or a reply; where it ends in its stream."""
        self.put(client, way, int(shape_of(kind, way)), at_ns, op)
        return self.sent[client][way]

    def layout(self) -> _Layout:
        columns = np.array([(*row, number) for number, row in enumerate(self.rows)], dtype=np.int64).reshape(-1, 9).T
        out = _Layout(*columns)
        self.rows = []
        return out


def make_load(
    folder: Path,
    clients: int,
    ops: int,
    *,
    lanes: int = 4,
    files: int = 1,
    nano: bool = False,
    snaplen: int = SNAPLEN,
    stamped: bool = False,
) -> Load:
    """Write server/, clients/NAME/ and clients.pcap; `ops` of each client are rounded up to whole cycles. `stamped`:
    with TCP time stamps in ticks of 1 ms."""
    kinds = shapes(snaplen, stamped=stamped)
    head, cycle, ends_ns = _layouts(clients, lanes, kinds)
    cycles = -(-ops // cycle.step_ops)
    cuts = [cycles * part // files for part in range(files + 1)]

    def write(path: Path, side: str, client: int | None, parts: list[int]) -> tuple[Path, ...]:
        path.parent.mkdir(parents=True, exist_ok=True)
        of = [layout if client is None else layout.of_client(client) for layout in (head, cycle)]
        heads, body = (_Template(layout, kinds, side, nano) for layout in of)
        out = []
        for part, (first, last) in enumerate(pairwise(parts)):
            out.append(path.with_name(path.name + str(part or "")))
            with out[-1].open("wb") as file:
                file.write(file_header(nano=nano, snaplen=snaplen))
                if part == 0:
                    heads.write(file, 0, 1, 0)
                body.write(file, first, last, ends_ns)
        return tuple(out)

    server = write(folder / "server" / "server.pcap", "server", None, cuts)
    points = [
        write(folder / "clients" / name / "client.pcap", "client", n, cuts) for n, name in enumerate(_names(clients))
    ]
    merged = write(folder / "clients.pcap", "client", None, [0, cycles])[0]
    return Load(clients * (cycles * cycle.step_ops + 2), server, tuple(points), merged)


def _names(clients: int) -> list[str]:
    return [f"load-{number:07}" for number in range(clients)]


def _layouts(clients: int, lanes: int, kinds: list[Shape]) -> tuple[_Layout, _Layout, int]:
    """The beginning (handshakes, and LOOKUPs by which files have names), a cycle, and when the first one starts."""
    out = _Writer(clients, kinds)
    at_ns = S // 10
    for client in range(clients):
        for way, shape in ((0, SYN), (1, SYN_ACK), (0, ACK)):
            out.put(client, way, shape, at_ns)
            at_ns += 2 * _DELAY_NS + _HEAD_NS
        for op in (0, 1):
            out.message(client, 0, LOOKUP, at_ns, op)
            out.message(client, 1, LOOKUP, at_ns + _HEAD_NS, op)
            at_ns += 2 * _DELAY_NS + 2 * _HEAD_NS
    # Clients begin one after the other, so that this order holds in every capture.
    head = out.layout()
    sent, idents = [list(one) for one in out.sent], [list(one) for one in out.idents]
    rng = np.random.default_rng(clients)
    slots = [(lane, client) for lane in range(lanes) for client in range(clients)]
    quarter_ns = len(slots) * _SLOT_NS + 2 * _DELAY_NS + _IDLE_NS
    for turn in range(len(_PATTERN)):
        begin_ns = 4 * turn * quarter_ns
        what = [_PATTERN[(turn + lane + client) % len(_PATTERN)] for lane, client in slots]
        for way in (0, 1):
            large = READ if way else WRITE
            order = rng.permutation(len(slots)).tolist() if way else range(len(slots))
            ends = []
            for place, call in enumerate(order):
                lane, client = slots[call]
                op = 2 + turn * lanes + lane
                ends.append(out.message(client, way, what[call], begin_ns + place * _SLOT_NS, op))
            begin_ns += quarter_ns
            for place, call in enumerate(order):
                if what[call] == large:
                    out.put(slots[call][1], 1 - way, ACK, begin_ns + place * _SLOT_NS, ack=ends[place])
            begin_ns += quarter_ns
    cycle = replace(
        out.layout(),
        step_ns=4 * quarter_ns * len(_PATTERN),
        step_bytes=(out.sent[0][0] - sent[0][0], out.sent[0][1] - sent[0][1]),
        step_idents=(out.idents[0][0] - idents[0][0], out.idents[0][1] - idents[0][1]),
        step_ops=lanes * len(_PATTERN),
    )
    return head, cycle, at_ns + MS


class _Template:
    """The bytes of a layout as one side sees it, and where in them is what changes from cycle to cycle."""

    def __init__(self, layout: _Layout, kinds: list[Shape], side: str, nano: bool) -> None:
        self.layout, self.nano, self.side = layout, nano, side
        toward = np.where(layout.way == 0, -_DELAY_NS, _DELAY_NS)
        self.at_ns = layout.at_ns + (toward if side == "client" else _THETA_NS)
        sizes = np.array([kind.bytes for kind in kinds])[layout.shape]
        self.begins = np.cumsum(sizes) - sizes
        self.bytes = np.empty(int(sizes.sum()), dtype=np.uint8)
        self.fields: dict[str, tuple[I64, I64]] = {}  # packets that have it, and the first 16-bit word of it
        places: dict[str, list[tuple[I64, I64]]] = {}
        for number, kind in enumerate(kinds):
            rows = np.flatnonzero(layout.shape == number)
            if not len(rows):
                continue
            packets = _packets(kind, layout, rows, nano)
            self.bytes[self.begins[rows, None] + np.arange(kind.bytes)] = packets.view(np.uint8).reshape(len(rows), -1)
            for name in ("seconds", "fraction", "ident", "checksum", "seq", "ack", "xid", "at", "ts_val"):
                if name in (packets.dtype.names or ()):
                    offset = packets.dtype.fields[name][1]  # type: ignore[index]
                    places.setdefault(name, []).append((rows, (self.begins[rows] + offset) // 2))
        for name, parts in places.items():
            rows, words = (np.concatenate(part) for part in zip(*parts, strict=True))
            order = np.argsort(rows)
            self.fields[name] = rows[order], words[order]
        checksums = self.bytes.view("<u2")[self.fields["checksum"][1]].byteswap() if len(sizes) else np.zeros(0, "u2")
        self.sums = (~checksums).astype(np.uint32)  # without the identification

    def write(self, file: BinaryIO, first: int, last: int, begin_ns: int) -> None:
        """Cycles `first` to `last` (without it)."""
        step = max(_CHUNK_BYTES // max(len(self.bytes), 1), 1)
        room = np.tile(self.bytes, (min(step, last - first), 1))
        for begin in range(first, last, step):
            cycles = np.arange(begin, min(begin + step, last))[:, None]
            self._set(room[: len(cycles)], cycles, begin_ns)
            file.write(room[: len(cycles)].data)

    def _set(self, room: npt.NDArray[np.uint8], cycles: I64, begin_ns: int) -> None:
        """What is different in each cycle."""
        layout, back = self.layout, self.layout.way == 1
        words = room.view("<u2")

        def put(name: str, values: npt.NDArray[np.generic], dtype: str) -> None:
            rows, places = self.fields[name]
            wide = np.dtype(dtype).itemsize // 2
            columns = (places[:, None] + np.arange(wide)).ravel()
            part = values if len(rows) == values.shape[1] else values[:, rows]
            words[:, columns] = np.ascontiguousarray(part.astype(dtype)).view("<u2")

        # A little off, always by the same, so that all captures of one side that hold a packet agree.
        noise = (cycles * 2_654_435_761 + layout.number * 40_503) * (3 if self.side == "server" else 1) >> 7
        t_ns = EPOCH_NS + begin_ns + self.at_ns + cycles * layout.step_ns + noise % (_SLOT_NS // 2)
        seconds = t_ns // S
        put("seconds", seconds, "<u4")
        put("fraction", (t_ns - seconds * S) // (1 if self.nano else 1000), "<u4")
        ident = (layout.ident + cycles * np.where(back, *layout.step_idents[::-1])) & 0xFFFF
        put("ident", ident, ">u2")
        total = self.sums + ident.astype(np.uint32)
        put("checksum", ~((total & 0xFFFF) + (total >> 16)), ">u2")
        start = np.where(back, layout.client * 7 + 5_000, layout.client * 13 + 1_000)
        other = np.where(back, layout.client * 13 + 1_000, layout.client * 7 + 5_000)
        steps = np.where(back, *layout.step_bytes[::-1]), np.where(back, *layout.step_bytes)
        put("seq", (start + layout.seq + cycles * steps[0]) & 0xFFFFFFFF, ">u4")
        acks = np.where(layout.shape == SYN, 0, other + layout.ack + cycles * steps[1])
        put("ack", acks & 0xFFFFFFFF, ">u4")
        if "ts_val" in self.fields:
            left_ns = begin_ns + layout.at_ns - np.where(back, 0, _DELAY_NS) + cycles * layout.step_ns
            put("ts_val", left_ns // MS + 7919 * layout.client, ">u4")
        if "xid" in self.fields:
            put("xid", swapped(layout.client * 1_000_003 + layout.op + cycles * layout.step_ops), ">u4")
        if "at" in self.fields:
            put("at", (layout.op + cycles * layout.step_ops) * BLOCK_BYTES, ">u8")


def _packets(kind: Shape, layout: _Layout, rows: I64, nano: bool) -> Rows:
    """Packets of one shape, with what is the same in all cycles."""
    client, back, op = layout.client[rows], layout.way[rows] == 1, layout.op[rows]
    host, server = _FIRST_CLIENT + client, np.full(len(rows), _SERVER)
    port, nfs_port = 710 + client % 90, np.full(len(rows), 2049)
    mac, server_mac = macs(host), macs(server)
    number = 2 + client  # of the file; 1 is the folder, 0 what is mounted
    is_first = op == 0
    names = np.array([name.encode() for name in _names(int(layout.client.max()) + 1)], dtype="S12")
    asked = np.where(is_first, 0, 1) if "file_name" in (kind.row.dtype.names or ()) else number
    found = np.where(is_first, 1, number)
    columns = {
        "source": np.where(back, server, host),
        "destination": np.where(back, host, server),
        "source_port": np.where(back, nfs_port, port),
        "destination_port": np.where(back, port, nfs_port),
        "by": np.where(back, server_mac, mac),
        "to": np.where(back, mac, server_mac),
        "name": names[client],
        "uid": 1000 + client,
        "fh": handles(asked),
        "found": handles(found),
        "file_name": np.where(is_first, np.array(FOLDER.encode(), dtype="S12"), names[client]),
        "fileid": 128 + number,
    }
    return filled(kind, columns, len(rows), np.zeros(len(rows), dtype=np.int64), nano=nano)
