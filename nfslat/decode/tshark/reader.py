"""Packets as tshark prints them, one line each -> the table of messages, and every packet counted under one kind."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from nfslat.decode.tshark import cells, rpc
from nfslat.decode.tshark.messages import Messages, empty_columns
from nfslat.decode.tshark.streams import Direction, Record, Segment
from nfslat.errors import InputError
from nfslat.model.decoded import Facts, Reassembly
from nfslat.model.protocol import NULL
from nfslat.model.tables import Connection
from nfslat.model.units import NS_PER_S

_FRAGMENT_TIMES = 4096  # IP fragments whose time is remembered until their datagram is complete
_LATEST_NS = 7_258_118_400_000_000_000  # year 2200: int64 holds what sums of such times come to
_PENDING_KEPT = 1024  # records whose last byte is awaited, before the finished ones are written back
_AUTH_TLS = "7"  # RFC 9289 section 4.1
_ACK, _RST, _SYN, _FIN = 0x10, 0x04, 0x02, 0x01
_NO_ID = ("", "0x0000")


class Dissected(Facts, kw_only=True):
    """One reading of a capture by tshark."""

    messages: Messages
    form: str  # "columns" or "fields"
    reassembly: Reassembly


@dataclass(slots=True)
class _Flow:
    """One TCP connection or UDP pair as tshark tells them apart."""

    conn: int
    stream: int  # counts the flows
    is_rpc: bool = False
    sides: tuple[Direction, Direction] = field(default_factory=lambda: (Direction(), Direction()))


class Reader:
    """Takes packets in capture order; holds the state of the whole capture.

    `reassembly` is what tshark was asked to do with TCP (`tshark.preferences`).
    """

    def __init__(self, reassembly: Reassembly) -> None:
        self.packets = 0
        self._reassembly = reassembly
        self._reassemble = reassembly is not Reassembly.OFF
        self._columns = empty_columns()
        self._kinds = dict.fromkeys(("rpc", "tcp data", "tcp control", "udp", "ip fragment", "other"), 0)
        self._connections: list[Connection] = []
        self._conn_rows: dict[tuple[str, tuple[str, int], tuple[str, int]], int] = {}
        self._flows: dict[tuple[str, ...], tuple[_Flow, int]] = {}
        self._fragments: OrderedDict[int, int] = OrderedDict()  # frame -> time
        self._pending: list[tuple[Record, int]] = []  # records whose last byte is not seen yet, and their row
        self._pending_limit = _PENDING_KEPT
        self._tls: set[int] = set()
        self._hidden = self._malformed = self._copies = self._backward = 0
        self._first = self._last = self._previous = NULL
        self._began = NULL  # the first packet's time, which need not be the earliest
        self._seconds: Counter[int] = Counter()  # packets of each second from then on
        self._largest_backward = self._wire_bytes = self._captured_bytes = 0

    def packet(self, line: list[str]) -> None:
        """Take one packet, as `cells.split_columns` or `split_fields` gives it.

        Raises ``UnreadableLine`` where a cell makes no sense.
        """
        try:
            number, time, length, captured, stream, src, dst, sport, dport, *_, offset, more, rest = line
            frame = int(number)
            t_ns = nanoseconds(time)
        except ValueError as problem:
            raise cells.UnreadableLine(line[:2]) from problem
        if not 0 <= t_ns < _LATEST_NS:
            raise InputError(f"packet {frame} is dated {time} seconds after 1970; correct the times with editcap -t")
        self.packets += 1
        self._count_time(t_ns)
        self._captured_bytes += int(captured)
        # A length on the wire may leave out the header that Linux puts in front of packets of "any".
        self._wire_bytes += max(int(length), int(captured))
        if not sport:
            self._without_ports(frame, t_ns, is_fragment=offset not in ("", "0") or more in ("1", "True"))
            return
        tcp_len = line[12]
        protocol = "tcp" if tcp_len else "udp"
        if tcp_len and "," in sport:
            # In a tunnel over UDP the ports of that stand behind those of TCP.
            at = tcp_len.count(",")
            stream, sport, dport = (text.split(",")[at] for text in (stream, sport, dport))
        known = self._flows.get((protocol, stream, src, sport, dst, dport))
        flow, direction = known or self._new_flow(protocol, stream, src, sport, dst, dport)
        of_rpc: cells.RpcCells | None = None
        shown: list[rpc.Rpc] = []
        if rest.strip("\t"):
            of_rpc, shown = self._messages(flow, rest, cut=captured != length)
        if shown:
            flow.is_rpc = True
            self._kinds["rpc"] += 1
        elif tcp_len:
            self._kinds["tcp control" if tcp_len == "0" else "tcp data"] += 1
        else:
            self._kinds["udp"] += 1
        if tcp_len:
            self._tcp(flow, direction, frame, t_ns, line, of_rpc, shown)
        else:
            self._udp(flow, direction, frame, t_ns, line, shown)

    def lost(self) -> tuple[int, int]:
        """Ranges of TCP data that were acknowledged and never captured, and the bytes in them; RPC connections only."""
        flows = {id(flow): flow for flow, _ in self._flows.values() if flow.is_rpc}
        holes = [side.coverage.lost() for flow in flows.values() for side in flow.sides]
        return sum(count for count, _ in holes), sum(size for _, size in holes)

    def result(self, *, cut_short: bool, form: str) -> Dissected:
        """Everything read so far as a frozen table and counts."""
        self._settle()
        lost_ranges, lost_bytes = self.lost()
        return Dissected(
            messages=Messages.from_columns(self._columns, connections=tuple(self._connections)),
            packet_kinds=self._kinds,
            hidden=self._hidden,
            malformed=self._malformed,
            duplicate_packets=self._copies,
            lost_ranges=lost_ranges,
            lost_bytes=lost_bytes,
            backward_times=self._backward,
            tls_connections=len(self._tls),
            first_ns=self._first,
            last_ns=self._last,
            cut_short=cut_short,
            wire_bytes=self._wire_bytes,
            captured_bytes=self._captured_bytes,
            busiest_second_packets=max(self._seconds.values(), default=0),
            largest_backward_ns=self._largest_backward,
            form=form,
            reassembly=self._reassembly,
        )

    def _count_time(self, t_ns: int) -> None:
        if t_ns < self._previous:
            self._backward += 1
            self._largest_backward = max(self._largest_backward, self._previous - t_ns)
        if self._began == NULL:
            self._began = t_ns
        self._seconds[(t_ns - self._began) // NS_PER_S] += 1
        if self._first == NULL or t_ns < self._first:
            self._first = t_ns
        self._last = max(self._last, t_ns)
        self._previous = t_ns

    def _without_ports(self, frame: int, t_ns: int, *, is_fragment: bool) -> None:
        if not is_fragment:
            self._kinds["other"] += 1
            return
        self._kinds["ip fragment"] += 1
        self._fragments[frame] = t_ns
        if len(self._fragments) > _FRAGMENT_TIMES:
            self._fragments.popitem(last=False)

    def _new_flow(self, protocol: str, stream: str, src: str, sport: str, dst: str, dport: str) -> tuple[_Flow, int]:
        # Inside a tunnel the addresses occur once a layer; the innermost is the last.
        source, target = (_last(src), int(_last(sport))), (_last(dst), int(_last(dport)))
        connection = Connection(protocol, *source, *target)
        row = self._conn_rows.setdefault(connection.key, len(self._connections))
        if row == len(self._connections):
            self._connections.append(connection)
        direction = int(source != self._connections[row].source(0))
        flow = _Flow(row, len(self._flows))
        self._flows[protocol, stream, src, sport, dst, dport] = flow, direction
        self._flows[protocol, stream, dst, dport, src, sport] = flow, 1 - direction
        return flow, direction

    def _messages(self, flow: _Flow, rest: str, *, cut: bool) -> tuple[cells.RpcCells, list[rpc.Rpc]]:
        of_rpc = cells.split_rpc(rest)
        xids = of_rpc.message.xid
        if not xids:
            return of_rpc, []
        shown = rpc.messages(of_rpc.message, cut=cut)
        lost = xids.count(",") + 1 - len(shown)
        if cut:
            self._hidden += lost
        else:
            self._malformed += lost
        if _AUTH_TLS in of_rpc.flavor.split(","):
            self._tls.add(flow.conn)
        return of_rpc, shown

    def _tcp(
        self,
        flow: _Flow,
        direction: int,
        frame: int,
        t_ns: int,
        line: list[str],
        of_rpc: cells.RpcCells | None,
        shown: list[rpc.Rpc],
    ) -> None:
        ip_id = line[9]
        try:
            seq, ack, length, flags = int(line[10]), int(line[11] or 0), int(line[12]), int(line[13], 16)
        except ValueError:  # joined values: a tunnel
            seq, ack, length = (int(_last(text) or 0) for text in line[10:13])
            flags = int(_last(line[13]) or "0", 16)
        side = flow.sides[direction]
        # IPv6 has no identification, and some senders leave it 0: then copies cannot be told from retransmissions.
        if ip_id not in _NO_ID and side.is_copy((ip_id, seq, ack, length)):
            self._copies += 1
        if flags & _ACK and not flags & (_RST | _SYN):
            flow.sides[1 - direction].acknowledged(ack)
        before = side.high
        here = side.segment(
            frame,
            t_ns,
            seq,
            length,
            syn=bool(flags & _SYN),
            fin=bool(flags & _FIN),
            acks=flow.sides[1 - direction].acked,
        )
        if of_rpc is not None and of_rpc.fraglen:
            records = self._records(side, here, of_rpc, line, len(shown))
            if records is None:
                self._hidden += len(shown)
            else:
                for message, record in zip(shown, records, strict=True):
                    self._append(flow, direction, frame, t_ns, ip_id, message, record)
        if length and not self._reassemble:
            self._hidden += side.hidden(here, is_new=here.end > before)

    def _records(
        self, side: Direction, here: Segment, of_rpc: cells.RpcCells, line: list[str], count: int
    ) -> list[Record] | None:
        """One record for each of the `count` messages shown; where the fragments do not add up, the frame itself.

        None where their place in the stream is lost, and with it their times.
        """
        lengths = rpc.numbers(of_rpc.fraglen)
        last = [text in ("1", "True") for text in of_rpc.lastfrag.split(",")]
        placed: list[Record] = []
        if len(last) == len(lengths):
            fragments = [(length + 4, is_last) for length, is_last in zip(lengths, last, strict=True)]
            from_frame = int(line[14].partition(",")[0] or 0)
            found = side.records(here, fragments, reassembled=self._reassemble, from_frame=from_frame)
            if found is None:
                return None
            placed = found
            self._hidden += max(len(placed) - count, 0)  # a record mark was seen, the header behind it was not
        untimed = Record(NULL, NULL, here.frame, here.t_ns, here.frame, here.t_ns)
        return placed[:count] + [untimed] * (count - len(placed))

    def _udp(self, flow: _Flow, direction: int, frame: int, t_ns: int, line: list[str], shown: list[rpc.Rpc]) -> None:
        ip_id = line[9]
        if ip_id not in _NO_ID and flow.sides[direction].is_copy((ip_id, 0, 0, int(line[2]))):
            self._copies += 1
        first = int(line[14].partition(",")[0] or frame)
        if first not in self._fragments:
            first = frame
        first_ns = self._fragments.get(first, t_ns)
        for message in shown:
            record = Record(NULL, NULL, first, first_ns, frame, t_ns)
            self._append(flow, direction, frame, t_ns, ip_id, message, record)

    def _append(
        self, flow: _Flow, direction: int, frame: int, t_ns: int, ip_id: str, message: rpc.Rpc, record: Record
    ) -> None:
        columns = self._columns
        if record.missing:
            self._pending.append((record, len(columns["frame"])))
        for name, value in (
            ("conn", flow.conn),
            ("stream", flow.stream),
            ("direction", direction),
            ("frame", frame),
            ("t_ns", t_ns),
            ("first_frame", record.first_frame),
            ("first_ns", record.first_ns),
            ("last_frame", record.last_frame),
            ("last_ns", record.last_ns),
            ("whole", record.whole),
            ("seq", record.start),
            ("end", record.end),
            ("acked", record.acked),
            ("at_once", record.at_once),
            ("ip_id", int(_last(ip_id), 16) if ip_id else NULL),
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
        if len(self._pending) > self._pending_limit:
            self._settle()
            self._pending_limit = _PENDING_KEPT + 2 * len(self._pending)

    def _settle(self) -> None:
        """Write the last-byte frames back to their rows, and forget the records that are finished."""
        for record, row in self._pending:
            self._columns["last_frame"][row] = record.last_frame
            self._columns["last_ns"][row] = record.last_ns
            self._columns["whole"][row] = record.whole
        self._pending = [(record, row) for record, row in self._pending if record.missing]


def nanoseconds(seconds: str) -> int:
    """Decimal seconds as text -> integer nanoseconds, exactly. Raises ``ValueError`` for what is no number."""
    whole, _, fraction = seconds.partition(".")
    ns = int(whole) * NS_PER_S
    below = int((fraction + "000000000")[:9])
    return ns - below if whole.startswith("-") else ns + below


def _last(text: str) -> str:
    """The last of joined values: the innermost layer's."""
    return text.rpartition(",")[2] if "," in text else text
