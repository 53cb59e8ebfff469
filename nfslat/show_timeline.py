"""One matched op -> its instants on the client's clock as a table with frame numbers, and the five parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nfslat.constants import NULL, NULL32, op_name, program_name, version_name
from nfslat.decode.capture import Source
from nfslat.decompose import ClientClock, ConstantOffset, Parts
from nfslat.instants import utc
from nfslat.report.text_layout import count_of, shares_adding_up, shorten, table, wrap
from nfslat.results import Correlation, Side
from nfslat.tables import CALL_SHOWN_LAST, REPLY_SHOWN_LAST, State, endpoint, last_sent_ns

_PARTS = (
    ("call_send", "client: the call's first byte to its last"),
    ("call_net", "the call on its way to the server"),
    ("server", "server: call's last byte to reply's first"),
    ("reply_send", "server: the reply's first byte to its last"),
    ("reply_net", "the reply on its way to the client"),
)


@dataclass(frozen=True)
class Sent:
    """A call or a reply as one side saw it: frames (counted through a set of files) and int ns on that side's clock."""

    first_frame: int
    last_frame: int
    shown_frame: int  # where the dissector showed it when the capture was decoded
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class SideView:
    """What one side saw of the op. `again` are the later transmissions of its call (RPC retransmissions)."""

    source: Source
    call: Sent
    reply: Sent
    again: tuple[Sent, ...]
    transmissions: int
    last_call_ns: int
    client_end: tuple[str, int]
    server_end: tuple[str, int]

    def sent(self, *, is_reply: bool) -> Sent:
        """The reply, or the call."""
        return self.reply if is_reply else self.call

    def frame_text(self, frame: int) -> str:
        """Frame number in its file, and which file where the capture is a set of them."""
        file, number = self.source.locate(frame)
        return f"{number} of {Path(file.name).name}" if len(self.source.files) > 1 else str(number)


@dataclass(frozen=True)
class OpView:
    """One matched op, with everything that is shown of it. Durations are int ns."""

    xid: int
    transport: str
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
        transport=client.connections[client.conn[rows["client"]]].transport,
        name=f"{program_name(program)}v{version_name(program, version, minor)} {op_name(program, version, operation)}",
        program=program,
        offset=known("offset"),
        size=known("size"),
        fh=known("fh"),
        sides={name: _side(side, rows[name]) for name, side in sides.items()},
        client_srt_ns=int(found.client_srt_ns[row]),
        server_srt_ns=int(found.server_srt_ns[row]),
        theta_ns=theta_ns,
        theta_error_ns=error_ns,
        theta_of_all=found.clock.fits,
        on_client=lambda ns: int(clock.on_client(client_row, np.array([ns]))[0][0]),
        parts=tuple(int(parts.ns(name)[0]) for name, _ in _PARTS),
    )


def _clock_of(found: Correlation, server_row: int, client_row: int) -> tuple[ClientClock, int, int]:
    """What puts the server's times of an op on the client's clock, theta when it began, and how far that may be off."""
    server, client = found.server.ops, found.client.ops
    if found.clock.fits:
        begin_ns = client.t0[[client_row]]
        segment = found.clock.pieces(np.array([client_row]))[0][0]
        error_ns = found.clock.error_ns(client, np.array([client_row]))
        return found.clock, segment.theta_at(int(begin_ns[0])), error_ns
    # What causality says for this op alone is the best to be had: theta cannot move far in it.
    low_ns = int(server.t3[server_row] - client.t3[client_row])
    high_ns = int(server.t1[server_row] - client.t1[client_row])
    theta_ns = (low_ns + high_ns) // 2
    return ConstantOffset(theta_ns), theta_ns, max(high_ns - low_ns + 1, 0) // 2


def _side(side: Side, row: int) -> SideView:
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
    )


def title(op: OpView, width: int) -> list[str]:
    """What the op is, between whom, and how long it took."""
    what = [op.name, f"XID 0x{op.xid:08x}"]
    if op.size != NULL:
        what.append(count_of(op.size, "byte"))
    if op.offset != NULL:
        what.append(f"offset {op.offset}")
    if op.fh != NULL:
        what.append(f"file handle hash 0x{op.fh:08x}")
    client, server = op.sides["client"], op.sides["server"]
    ends = f"{endpoint(*client.client_end)} -> {endpoint(*client.server_end)}, {op.transport.upper()}"
    # Through NAT or a load balancer the server knows the two by other names, and so do its administrators.
    if (client.client_end, client.server_end) != (server.client_end, server.server_end):
        ends += f" (at the server: {endpoint(*server.client_end)} -> {endpoint(*server.server_end)})"
    digits = _digits([op.client_srt_ns, op.server_srt_ns])
    took = (
        f"client SRT {_ms(op.client_srt_ns, digits)} ms = server SRT {_ms(op.server_srt_ns, digits)} ms"
        f" + network {_ms(op.client_srt_ns - op.server_srt_ns, digits)} ms"
    )
    sent = f"call sent {utc(client.call.first_ns)} by the client's clock"
    return [line for text in (", ".join(what), ends, took, sent) for line in wrap(text, width, 0, 2)]


@dataclass(frozen=True)
class Packet:
    """A moment of an op, and the packet that shows it."""

    ns: int  # after the call's first byte, on the client's clock
    side: str
    frame: int
    is_reply: bool
    what: str


def timeline(op: OpView, width: int) -> list[str]:
    """The packets on both sides on one clock, and the five parts that sum to the client SRT."""
    events = packets(op)
    digits = _digits([*(event.ns for event in events), *op.parts])
    several = any(len(side.source.files) > 1 for side in op.sides.values())
    rows = []
    for at, event in enumerate(events):
        file, number = op.sides[event.side].source.locate(event.frame)
        rows.append(
            [
                _ms(event.ns, digits),
                event.side,
                str(number),
                "<--" if event.is_reply else "-->",
                event.what,
                _ms(event.ns - events[at - 1].ns, digits) if at else "",
                *([shorten(Path(file.name).name, 20)] * several),
            ]
        )
    headers = ["t ms", "side", "frame", "way", "what", "gap ms", *(["file"] * several)]
    lines = table("rlrllr" + "l" * several, headers, rows, width)
    lines += ["", *_how_placed(op, width), *_sent_again(op, digits, width), ""]
    shares = shares_adding_up([float(ns) for ns in op.parts])
    parts = [
        [name, _ms(ns, digits), share, meaning]
        for (name, meaning), ns, share in zip(_PARTS, op.parts, shares, strict=True)
    ]
    total = ["sum", _ms(sum(op.parts), digits), "", "client SRT: call's first byte to reply's last"]
    lines += table("lrrl", ["part", "ms", "share", "is"], [*parts, total], width)
    if min(op.parts) < 0:
        note = (
            "A part below zero: a clock that drifts or was set, packets captured out of order, "
            "or times that are placed less exactly than the part is long."
        )
        lines += wrap(note, width)
    return lines


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
            Packet(since(side, again.first_ns), side, again.first_frame, False, "call sent again")
            for again in view.again
        ]
    return sorted(events, key=lambda event: event.ns)


def _how_placed(op: OpView, width: int) -> list[str]:
    error = _ms(op.theta_error_ns, _digits([op.theta_error_ns]))
    offset = f"{_ms(op.theta_ns, _digits([op.theta_ns]))} ms"
    if op.theta_of_all:
        text = (
            f"The server's times are placed on the client's clock by an offset of {offset}, which all ops allow, "
            f"+/- {error} ms. So call_net and reply_net are +/- {error} ms; their sum, like all other parts, is exact."
        )
    else:
        text = (
            "No offset of the two clocks explains the ops. The server's times are placed by what "
            f"this op alone allows: {offset}, +/- {error} ms, which splits call_net and reply_net evenly; their sum, "
            "like all other parts, is exact."
        )
    return wrap(text, width)


def _sent_again(op: OpView, digits: int, width: int) -> list[str]:
    seen = []
    for name, side in op.sides.items():
        if side.transmissions > 1:
            after = _ms(side.last_call_ns - side.call.first_ns, digits)
            seen.append(f"{side.transmissions} times at the {name}, the last one {after} ms after the first")
    if not seen:
        return []
    return wrap(f"RPC retransmission: the call was seen {'; '.join(seen)}. SRT counts from the first.", width)


def _digits(durations_ns: Sequence[int]) -> int:
    """The fewest decimals of a millisecond, three or more, that show all of the durations exactly."""
    return next((d for d in (3, 4, 5) if all(ns % 10 ** (6 - d) == 0 for ns in durations_ns)), 6)


def _ms(ns: int, digits: int) -> str:
    """Exact: no float in between."""
    whole, rest = divmod(abs(ns), 10**6)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:06d}"[: len(f"{whole}") + (ns < 0) + 1 + digits]
