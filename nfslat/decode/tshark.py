"""A source -> its RPC messages, with Wireshark's tshark as the dissector; memory grows with messages, not packets.

tshark prints one line a packet, which is read as a stream. Two forms of output carry the same cells: columns
(``-T tabs``), for which tshark need not build a printable tree and which take about half the time, and ``-T fields``.
A column holds at most 2047 bytes; where a frame has more messages than fit, the capture is read again with fields.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nfslat.constants import NULL
from nfslat.decode import rpc
from nfslat.decode.capture import Source
from nfslat.decode.streams import Direction, Record, Segment
from nfslat.decode.tools import Tools
from nfslat.errors import InputError, ToolError
from nfslat.tables import Connection, Messages, empty_columns

_COLUMN_BYTES = 2047  # COL_MAX_LEN - 1 of Wireshark's epan/column-info.h
_FRAGMENT_TIMES = 4096
_PENDING_KEPT = 1024
AUTH_TLS = "7"  # RFC 9289 section 4.1

# One cell a line; the first field that the packet has fills it. "1" takes the first occurrence only.
_CELLS: tuple[tuple[str, tuple[str, ...], int], ...] = (
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
_AT = {name: at for at, (name, _, _) in enumerate(_CELLS)}
_RPC_CELLS = [_AT[f.name] for f in dataclasses.fields(rpc.Cells)]


@dataclass
class Decoded:
    """What one capture holds: its messages, and every packet under one kind."""

    messages: Messages
    packet_kinds: dict[str, int]
    hidden: int  # messages known to begin where their header was not captured
    malformed: int
    duplicate_packets: int
    backward_times: int
    tls_connections: int
    first_ns: int
    last_ns: int
    cut_short: bool
    form: str  # "columns" or "fields"


class _CellOverflow(Exception):
    """A column was filled to its end, or does not read as expected: fields must be used."""


def decode(source: Source, tools: Tools, progress: Callable[[int], None], *, form: str = "columns") -> Decoded:
    """Dissect `source`; `progress` is called with the number of packets read so far.

    Raises ``InputError`` where tshark cannot read the file, ``ToolError`` where tshark fails.
    """
    reader = _Reader(reassemble=source.snaplen is None)
    try:
        for line in _lines(source, tools, form):
            if reader.packet(line, columns=form == "columns") and reader.packets % 4096 == 0:
                progress(reader.packets)
    except _CellOverflow:
        return decode(source, tools, progress, form="fields")
    progress(reader.packets)
    return reader.result(cut_short=any(file.cut_short for file in source.files), form=form)


def preferences(*, reassemble: bool) -> list[str]:
    """Every tshark preference that changes what is found, set so that the user's own do not matter.

    On whole packets TCP reassembly finds headers anywhere in the stream. On packets cut by a snaplen it loses them, so
    each segment is dissected on its own and its records are followed in sequence space (`streams`).
    """
    values = {
        "tcp.desegment_tcp_streams": reassemble,
        "tcp.reassemble_out_of_order": reassemble,
        "tcp.analyze_sequence_numbers": True,
        "tcp.relative_sequence_numbers": False,
        "tcp.try_heuristic_first": True,  # else a dissector registered for a client port below 1024 takes the packets
        "tcp.check_checksum": False,  # offload leaves checksums unset
        "udp.check_checksum": False,
        "udp.try_heuristic_first": True,
        "ip.check_checksum": False,
        "ip.defragment": True,
        "ip.tso_support": True,
        "ipv6.defragment": True,
        "rpc.desegment_rpc_over_tcp": True,
        "rpc.defragment_rpc_over_tcp": True,
        "rpc.find_fragment_start": False,
        "rpc.dissect_unknown_programs": False,
        "nfs.file_name_snooping": False,
        "nfs.fhandle_find_both_reqrep": False,
    }
    return [part for name, value in values.items() for part in ("-o", f"{name}:{str(value).upper()}")]


def _command(tools: Tools, path: str, form: str, *, reassemble: bool) -> list[str]:
    command = [tools.tshark, "-n", "-r", path, *preferences(reassemble=reassemble)]
    if form == "columns":
        columns = ",".join(f'"{name}","%Cus:{" or ".join(fields)}:{which}:U"' for name, fields, which in _CELLS)
        return [*command, "-T", "tabs", "-o", f"gui.column.format:{columns}"]
    return [*command, "-T", "fields", *(part for _, fields, _ in _CELLS for name in fields for part in ("-e", name))]


def _lines(source: Source, tools: Tools, form: str) -> Iterator[list[str]]:
    """Start tshark (behind mergecap for a set of files) and yield the cells of each packet."""
    feeder = None
    reassemble = source.snaplen is None
    if len(source.files) == 1:
        command, feed = _command(tools, os.fspath(source.files[0].path.absolute()), form, reassemble=reassemble), None
    else:
        paths = [os.fspath(file.path.absolute()) for file in source.files]
        feeder = subprocess.Popen(
            [tools.mergecap, "-a", "-w", "-", *paths],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=tools.environment,
        )
        command, feed = _command(tools, "-", form, reassemble=reassemble), feeder.stdout
    errors = Path(tools.environment["WIRESHARK_CONFIG_DIR"]) / f"stderr-{abs(hash((source.name, form, id(source))))}"
    with errors.open("wb+") as stderr:
        process = subprocess.Popen(
            command, stdin=feed or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=tools.environment
        )
        if feed is not None:
            feed.close()
        try:
            for raw in process.stdout or ():
                cells = raw.decode("utf-8", "replace").rstrip("\n").split("\t")
                yield cells if form == "columns" else _first_of(cells)
            status = process.wait()
        finally:
            for child in (process, feeder):
                if child is not None:
                    child.kill()
                    child.wait()
            if process.stdout is not None:
                process.stdout.close()
        stderr.seek(0)
        said = [
            line for line in stderr.read().decode(errors="replace").splitlines() if not line.startswith("Running as")
        ]
    if status and not any("cut short" in line for line in said):
        message = said[-1].removeprefix("tshark: ") if said else f"exit status {status}"
        # What was read before a damaged packet is still good; capinfos has said so and the audit repeats it.
        if not any(file.cut_short for file in source.files):
            raise (InputError if "file" in message else ToolError)(f"{source.name}: tshark says: {message}")


def _first_of(cells: list[str]) -> list[str]:
    """Bring ``-T fields`` output to the shape of the columns: alternatives merged, first occurrence where asked for."""
    out, at = [], 0
    for _, fields, which in _CELLS:
        values = [value for value in cells[at : at + len(fields)] if value]
        at += len(fields)
        joined = ",".join(values)
        out.append(joined.split(",", 1)[0] if which else joined)
    return out


@dataclass
class _Flow:
    """One TCP connection or UDP pair as tshark tells them apart."""

    conn: int
    sides: tuple[Direction, Direction] = field(default_factory=lambda: (Direction(), Direction()))


class _Reader:
    """Packets in, columns out; holds the state of the whole capture."""

    def __init__(self, *, reassemble: bool) -> None:
        self.packets = 0
        self._reassemble = reassemble
        self._columns = empty_columns(Messages)
        self._kinds = dict.fromkeys(("rpc", "tcp data", "tcp control", "udp", "ip fragment", "other"), 0)
        self._connections: list[Connection] = []
        self._conn_rows: dict[tuple[str, tuple[str, int], tuple[str, int]], int] = {}
        self._flows: dict[tuple[str, ...], tuple[_Flow, int]] = {}
        self._fragments: OrderedDict[int, int] = OrderedDict()  # frame -> time, of IP fragments
        self._pending: list[tuple[Record, int]] = []  # records whose last byte is not seen yet, and their row
        self._tls: set[int] = set()
        self._hidden = self._malformed = self._copies = self._backward = 0
        self._first = self._last = self._previous = NULL

    def packet(self, cells: list[str], *, columns: bool) -> bool:
        """Take one packet's cells; True when it was one."""
        try:
            frame = int(cells[0])
            seconds, _, fraction = cells[1].partition(".")
            t_ns = int(seconds) * 1_000_000_000 + int((fraction + "000000000")[:9])
        except (ValueError, IndexError) as problem:
            if columns:
                raise _CellOverflow from problem
            raise ToolError(f"tshark printed a line that nfslat does not understand: {cells[:3]}") from problem
        self.packets += 1
        if self._first == NULL or t_ns < self._first:
            self._first = t_ns
        self._last = max(self._last, t_ns)
        if t_ns < self._previous:
            self._backward += 1
        self._previous = t_ns
        xid = cells[_AT["xid"]]
        if columns and xid and max(map(len, cells)) >= _COLUMN_BYTES:
            raise _CellOverflow
        sport = cells[_AT["sport"]]
        if not sport:
            if cells[_AT["fragment"]] and cells[_AT["src"]]:
                self._kinds["ip fragment"] += 1
                self._fragments[frame] = t_ns
                if len(self._fragments) > _FRAGMENT_TIMES:
                    self._fragments.popitem(last=False)
            else:
                self._kinds["other"] += 1
            return True
        tcp = cells[_AT["tcp_len"]] != ""
        flow, direction = self._flow(cells, tcp=tcp)
        cut = cells[_AT["captured"]] != cells[_AT["length"]]
        shown = rpc.messages(rpc.Cells(*(cells[at] for at in _RPC_CELLS)), cut=cut) if xid else []
        if xid:
            self._kinds["rpc"] += 1
            if AUTH_TLS in cells[_AT["flavor"]].split(","):
                self._tls.add(flow.conn)
            lost = xid.count(",") + 1 - len(shown)
            if cut:
                self._hidden += lost
            else:
                self._malformed += lost
        elif tcp:
            self._kinds["tcp data" if cells[_AT["tcp_len"]] != "0" else "tcp control"] += 1
        else:
            self._kinds["udp"] += 1
        text = cells[_AT["ip_id"]].rpartition(",")[2]
        ip_id = int(text, 16) if text else NULL
        if tcp:
            self._tcp(flow, direction, frame, t_ns, ip_id, cells, shown)
        else:
            if ip_id > 0 and flow.sides[direction].is_copy(ip_id, 0, 0, int(cells[_AT["length"]])):
                self._copies += 1
            first = int(cells[_AT["from_frame"]].partition(",")[0] or frame)
            first_ns = self._fragments.get(first, t_ns)
            first = first if first in self._fragments else frame
            for message in shown:
                record = Record(NULL, NULL, first, first_ns, frame, t_ns)
                self._append(flow.conn, direction, frame, t_ns, ip_id, message, record)
        return True

    def _flow(self, cells: list[str], *, tcp: bool) -> tuple[_Flow, int]:
        key = ("tcp" if tcp else "udp", cells[4], cells[5], cells[7], cells[6], cells[8])
        known = self._flows.get(key)
        if known is None:
            # Inside a tunnel the addresses occur once a layer; the innermost is the last.
            src, dst, sport, dport = (cells[at].rpartition(",")[2] for at in (5, 6, 7, 8))
            connection = Connection(key[0], src, int(sport), dst, int(dport))
            row = self._conn_rows.setdefault(connection.key, len(self._connections))
            if row == len(self._connections):
                self._connections.append(connection)
            flipped = int((src, int(sport)) != self._connections[row].source(0))
            flow = _Flow(row)
            known = self._flows[key] = (flow, flipped)
            self._flows[key[0], cells[4], cells[6], cells[8], cells[5], cells[7]] = (flow, 1 - flipped)
        return known

    def _tcp(
        self, flow: _Flow, direction: int, frame: int, t_ns: int, ip_id: int, cells: list[str], shown: list[rpc.Rpc]
    ) -> None:
        seq, ack, length, flags = (
            int(cells[at].rpartition(",")[2] or "0", 0) for at in (_AT["seq"], _AT["ack"], _AT["tcp_len"], _AT["flags"])
        )
        side = flow.sides[direction]
        if side.is_copy(ip_id, seq, ack, length):
            self._copies += 1
        if flags & 0x10:
            flow.sides[1 - direction].acknowledged(ack)
        before = side.high
        here = side.segment(frame, t_ns, seq, length, syn=bool(flags & 2))
        is_new = here.end > before
        if cells[_AT["fraglen"]]:
            records = self._records(side, here, cells, len(shown))
            for message, record in zip(shown, records, strict=True):
                self._append(flow.conn, direction, frame, t_ns, ip_id, message, record)
        if length and not self._reassemble:
            self._hidden += side.hidden(here, is_new=is_new)

    def _records(self, side: Direction, here: Segment, cells: list[str], count: int) -> list[Record]:
        """One record for each of the `count` messages shown; where the fragments do not add up, the frame itself."""
        lengths = rpc.numbers(cells[_AT["fraglen"]])
        last = [text in ("1", "True") for text in cells[_AT["lastfrag"]].split(",")]
        if len(last) != len(lengths):
            return [Record(NULL, NULL, here.frame, here.t_ns, here.frame, here.t_ns) for _ in range(count)]
        fragments = [(length + 4, is_last) for length, is_last in zip(lengths, last, strict=True)]
        from_frame = int(cells[_AT["from_frame"]].partition(",")[0] or 0)
        placed = side.records(here, fragments, reassembled=self._reassemble, from_frame=from_frame)
        self._hidden += max(len(placed) - count, 0)  # a record mark was seen, the header behind it was not
        untimed = Record(NULL, NULL, here.frame, here.t_ns, here.frame, here.t_ns)
        return placed[:count] + [untimed] * (count - len(placed))

    def _append(
        self, conn: int, direction: int, frame: int, t_ns: int, ip_id: int, message: rpc.Rpc, record: Record
    ) -> None:
        columns = self._columns
        if record.missing:
            self._pending.append((record, len(columns["frame"])))
        for name, value in (
            ("conn", conn),
            ("direction", direction),
            ("frame", frame),
            ("t_ns", t_ns),
            ("first_frame", record.first_frame),
            ("first_ns", record.first_ns),
            ("last_frame", record.last_frame),
            ("last_ns", record.last_ns),
            ("seq", record.start),
            ("ip_id", ip_id),
            ("xid", message.xid),
            ("is_reply", message.is_reply),
            ("program", message.program),
            ("version", message.version),
            ("minor", message.minor),
            ("op", message.op),
            ("offset", message.offset),
            ("size", message.size),
            ("fh", message.fh),
        ):
            columns[name].append(value)
        if len(self._pending) > _PENDING_KEPT:
            self._settle()

    def _settle(self) -> None:
        """Write the last-byte frames of finished records back to their rows."""
        for record, row in self._pending:
            self._columns["last_frame"][row] = record.last_frame
            self._columns["last_ns"][row] = record.last_ns
        self._pending = [(record, row) for record, row in self._pending if record.missing]

    def result(self, *, cut_short: bool, form: str) -> Decoded:
        """Everything read so far as a frozen table and counts."""
        self._settle()
        messages = Messages.from_columns(self._columns, connections=tuple(self._connections))
        return Decoded(
            messages=messages,
            packet_kinds=self._kinds,
            hidden=self._hidden,
            malformed=self._malformed,
            duplicate_packets=self._copies,
            backward_times=self._backward,
            tls_connections=len(self._tls),
            first_ns=self._first,
            last_ns=self._last,
            cut_short=cut_short,
            form=form,
        )
