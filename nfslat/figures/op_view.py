"""One matched op -> all that is known of it: its instants on either side, their frames, and its five parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from nfslat.clock.one_way import mean_error_ns
from nfslat.decode.capture import Source
from nfslat.decompose import PART_NAMES, ClientClock, ConstantOffset, Parts, client_srt_ns, server_srt_ns
from nfslat.model.protocol import NULL, NULL32, op_name, program_name, version_name
from nfslat.model.record import Record
from nfslat.model.tables import CALL_SHOWN_LAST, REPLY_SHOWN_LAST, State, last_sent_ns
from nfslat.results import Correlation, Side


class Sent(Record):
    """A call or a reply as one side saw it: frames (counted through a set of files) and int ns on that side's clock."""

    first_frame: int
    last_frame: int
    shown_frame: int  # where the dissector showed it when the capture was decoded
    first_ns: int
    last_ns: int


class SideView(Record):
    """What one side saw of the op. `again` are the later transmissions of its call (RPC retransmissions)."""

    source: Source
    call: Sent
    reply: Sent
    again: tuple[Sent, ...]
    transmissions: int
    last_call_ns: int
    client_end: tuple[str, int]
    server_end: tuple[str, int]
    transport: str

    def sent(self, *, is_reply: bool) -> Sent:
        """The reply, or the call."""
        return self.reply if is_reply else self.call

    def frame_text(self, frame: int) -> str:
        """Frame number in its file, and which file where the capture is a set of them."""
        file, number = self.source.locate(frame)
        return f"{number} of {Path(file.name).name}" if len(self.source.files) > 1 else str(number)


class OpView(Record):
    """One matched op, with everything that is shown of it. Durations are int ns."""

    xid: int
    name: str
    program: int
    offset: int
    size: int
    fh: int
    sides: dict[str, SideView]
    client_srt_ns: int
    server_srt_ns: int
    theta_ns: int  # the server's clock minus the client's when the call began
    theta_error_ns: int
    theta_of_all: bool  # else it rests on this op alone
    on_client: Callable[[int], int]  # an instant of the server's clock on the client's
    parts: tuple[int, ...]


def place(found: Correlation, row: int) -> OpView:
    """Gather what is known of the op in row `row` of ``found.matched``."""
    matched = found.matched.take(np.array([row]))
    rows = {"client": int(matched.client[0]), "server": int(matched.server[0])}
    client, server = found.client.ops, found.server.ops

    def known(column: str) -> int:
        """The value that the client's capture shows, else the server's: a snaplen can hide it on one side."""
        for ops, at in ((client, rows["client"]), (server, rows["server"])):
            values = getattr(ops, column)
            if values[at] != (NULL32 if values.dtype == np.uint32 else NULL):
                return int(values[at])
        return NULL

    kinds = [ops.kinds[ops.kind[at]] for ops, at in ((client, rows["client"]), (server, rows["server"]))]
    program, version, minor, operation = (
        of_client if of_client != NULL else of_server
        for of_client, of_server in zip(kinds[0][:4], kinds[1][:4], strict=True)
    )
    clock, theta_ns, error_ns = _clock_of(found, rows["server"], rows["client"])
    parts = Parts(server, client, matched, clock)
    client_row = matched.client.astype(np.int64)
    sides = {"client": found.client, "server": found.server}
    return OpView(
        xid=known("xid"),
        name=f"{program_name(program)}v{version_name(program, version, minor)} {op_name(program, version, operation)}",
        program=program,
        offset=known("offset"),
        size=known("size"),
        fh=known("fh"),
        sides={name: side_view(side, rows[name]) for name, side in sides.items()},
        client_srt_ns=int(client_srt_ns(client, matched, found.srt)[0]),
        server_srt_ns=int(server_srt_ns(server, matched, found.clock, found.srt)[0]),
        theta_ns=theta_ns,
        theta_error_ns=error_ns,
        theta_of_all=found.clock.fits,
        on_client=lambda ns: int(clock.on_client(client_row, np.array([ns]))[0][0]),
        parts=tuple(int(parts.ns(name)[0]) for name in PART_NAMES),
    )


def _clock_of(found: Correlation, server_row: int, client_row: int) -> tuple[ClientClock, int, int]:
    """What puts the server's times of an op on the client's clock, theta when it began, and how far that may be off."""
    server, client = found.server.ops, found.client.ops
    if found.clock.fits:
        begin_ns = client.t0[[client_row]]
        segment = found.clock.pieces(np.array([client_row]))[0][0]
        error_ns = mean_error_ns(found.clock, client, np.array([client_row]))
        return found.clock, segment.theta_at(int(begin_ns[0])), error_ns
    # What causality says for this op alone is the best to be had: theta cannot move far in it.
    low_ns = int(server.t3[server_row] - client.t3[client_row])
    high_ns = int(server.t1[server_row] - client.t1[client_row])
    theta_ns = (low_ns + high_ns) // 2
    return ConstantOffset(theta_ns), theta_ns, max(high_ns - low_ns + 1, 0) // 2


def side_view(side: Side, row: int) -> SideView:
    """What `side` saw of the op in its row `row`."""
    ops, loose = side.ops, side.decoded.loose
    ends, direction = ops.connections[ops.conn[row]], int(ops.direction[row])
    last_call_ns = last_sent_ns(ops, loose, row)
    again = (loose.op == row) & (loose.is_reply == 0) & (loose.state == State.RETRANSMITTED)
    again &= (loose.first_ns > ops.t0[row]) & (loose.first_ns <= last_call_ns)

    def sent(kind: str, first: str, last: str, shown_last: int) -> Sent:
        first_frame, last_frame = (int(getattr(ops, f"{kind}_{end}_frame")[row]) for end in ("first", "last"))
        shown = last_frame if ops.flags[row] & shown_last else first_frame
        return Sent(first_frame, last_frame, shown, int(getattr(ops, first)[row]), int(getattr(ops, last)[row]))

    frames = ("first_frame", "last_frame", "first_frame", "first_ns", "last_ns")
    return SideView(
        source=side.source,
        call=sent("call", "t0", "t1", CALL_SHOWN_LAST),
        reply=sent("reply", "t2", "t3", REPLY_SHOWN_LAST),
        again=tuple(Sent(*(int(getattr(loose, name)[r]) for name in frames)) for r in np.flatnonzero(again)),
        transmissions=int(ops.transmissions[row]),
        last_call_ns=last_call_ns,
        client_end=ends.source(direction),
        server_end=ends.destination(direction),
        transport=ends.transport,
    )


class Packet(Record):
    """A moment of an op, and the packet that shows it."""

    ns: int  # after the call's first byte, on the client's clock
    side: str
    frame: int
    is_reply: bool
    what: str


def packets(op: OpView) -> list[Packet]:
    """In order of time on the client's clock; where that says nothing, in the order of cause and effect."""
    t0 = op.sides["client"].call.first_ns

    def since(side: str, ns: int) -> int:
        return (op.on_client(ns) if side == "server" else ns) - t0

    events: list[Packet] = []
    for is_reply, sides in ((False, ("client", "server")), (True, ("server", "client"))):
        name = "reply" if is_reply else "call"
        for side in sides:
            sent = op.sides[side].sent(is_reply=is_reply)
            if sent.first_frame == sent.last_frame:
                events.append(Packet(since(side, sent.first_ns), side, sent.first_frame, is_reply, f"{name}, whole"))
                continue
            for frame, ns, end in (
                (sent.first_frame, sent.first_ns, "first"),
                (sent.last_frame, sent.last_ns, "last"),
            ):
                events.append(Packet(since(side, ns), side, frame, is_reply, f"{name}, {end} byte"))
    for side, view in op.sides.items():
        events += [
            Packet(since(side, again.first_ns), side, again.first_frame, False, "call retransmitted")
            for again in view.again
        ]
    return sorted(events, key=lambda event: event.ns)
