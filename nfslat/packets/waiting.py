"""A `Correlation` and an XID -> the packets of a call that has no reply, in each capture that has the call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nfslat.answer.pictures import Moment
from nfslat.decode.tools import Tools
from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Loose, Ops, State, endpoint
from nfslat.model.units import to_ms, utc
from nfslat.packets.dissect import Message, Part, Wanted, dissect
from nfslat.packets.model import ShownCall, ShownLine
from nfslat.report.text_layout import wrap
from nfslat.report.text_writer import table
from nfslat.results import Correlation, Side
from nfslat.select import op_labels


class _Packet(NamedTuple):
    """A message of the call, or a reply that only one capture has; on the client's clock."""

    ns: int
    side: str
    what: str
    frame: int  # through the set


def waiting_calls_of(both: Correlation, xid: int, tools: Tools) -> list[ShownCall]:
    """A call for each operation and client that has no reply in a capture; empty where each with `xid` has one."""
    calls: dict[tuple[str, str, str, str], list[_Packet]] = defaultdict(list)
    is_open = False
    for name in ("client", "server"):
        side: Side = getattr(both, name)
        ahead_ns = 0 if name == "client" else both.clock.ahead_at_end_ns
        loose, ops = side.decoded.loose, side.ops
        rows = np.flatnonzero((loose.xid == xid) & (loose.is_reply == 0) & (loose.op == NULL))
        is_open = is_open or State.NO_REPLY in loose.state[rows]
        tables: list[tuple[Loose | Ops, int, I64, I32, str]]
        tables = [(loose, row, loose.first_ns, loose.first_frame, "call") for row in rows.tolist()]
        for row in np.flatnonzero(ops.xid == xid).tolist():
            tables += [
                (ops, row, ops.t0, ops.call_first_frame, "call"),
                (ops, row, ops.t2, ops.reply_first_frame, "reply"),
            ]
        for of, row, ns, frame, what in tables:
            ends, way = of.connections[of.conn[row]], int(of.direction[row])
            call = op_labels(of.kinds)[of.kind[row]] if of.kind[row] != NULL else "call"
            key = call, endpoint(*ends.source(way)), endpoint(*ends.destination(way)), ends.transport
            calls[key].append(_Packet(int(ns[row]) - ahead_ns, name, what, int(frame[row])))
    return [_shown(both, xid, key, sorted(packets), tools) for key, packets in calls.items()] if is_open else []


def _shown(
    both: Correlation, xid: int, key: tuple[str, str, str, str], packets: list[_Packet], tools: Tools
) -> ShownCall:
    op, client, server, transport = key
    moments, first = [], packets[0].ns
    seen: set[tuple[str, str]] = set()
    message: tuple[_Packet, Message] | None = None
    for packet in packets:
        side: Side = getattr(both, packet.side)
        file, number = side.source.locate(packet.frame)
        again = "" if (packet.side, packet.what) not in seen else " again"
        seen.add((packet.side, packet.what))
        moments.append(Moment(to_ms(packet.ns - first), packet.side, f"{packet.what}{again}", number, file.name))
        if message is None and packet.what == "call":
            wanted: Wanted = (xid, False)
            shown = dissect([Part(side, file, [(wanted, [number])])], tools).get((file, number, wanted))
            message = None if shown is None else (packet, shown)
    ends_ns = max(both.client.decoded.last_ns, both.server.decoded.last_ns - both.clock.ahead_at_end_ns)
    return ShownCall(
        xid=f"0x{xid:08x}",
        op=op,
        client=client,
        server=server,
        transport=transport,
        at=utc(first),
        waits_ms=to_ms(ends_ns - first),
        packets=moments,
        lines=[] if message is None else [ShownLine(line.depth, line.name, line.text) for line in message[1].lines],
    )


def lines_of(calls: Sequence[ShownCall], width: int) -> Iterator[list[str]]:
    """Lines about each of `calls`."""
    for call in calls:
        wait = f"no reply until the captures end, {call.waits_ms:,.1f} ms later"
        lines = wrap(f"{call.op}, XID {call.xid}: {wait}", width, 0, 2)
        lines += wrap(f"{call.client} -> {call.server}, {call.transport.upper()}; sent {call.at}", width, 0, 2)
        rows = [
            [f"{packet.at_ms:,.3f}", packet.side, str(packet.frame), packet.what, packet.file]
            for packet in call.packets
        ]
        lines += ["", *table("rlrll", ["t ms", "side", "frame", "what", "file"], rows, width), ""]
        lines += [f"rpc.xid == {call.xid}", ""]
        for item in call.lines:
            lines += wrap(item.text, width, min(2 + 2 * item.depth, width // 2), 4)
        yield [*lines, ""]
