"""One matched op -> its instants on the client's clock as a table with frame numbers, and the five parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nfslat.answer.words import shares_adding_up
from nfslat.figures.op_view import OpView, packets
from nfslat.model.protocol import NULL
from nfslat.model.tables import endpoint
from nfslat.model.units import utc
from nfslat.report.text_layout import count_of, shorten, wrap
from nfslat.report.text_writer import table

_PARTS = (
    ("call_send", "client: the call's first byte to its last"),
    ("call_net", "the call on its way to the server"),
    ("server", "server: call's last byte to reply's first"),
    ("reply_send", "server: the reply's first byte to its last"),
    ("reply_net", "the reply on its way to the client"),
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
    ends = f"{endpoint(*client.client_end)} -> {endpoint(*client.server_end)}, {client.transport.upper()}"
    # Through NAT or a load balancer the server knows the two by other names, and so do its administrators.
    if (client.client_end, client.server_end) != (server.client_end, server.server_end):
        ends += f" (at the server: {endpoint(*server.client_end)} -> {endpoint(*server.server_end)})"
    digits = _digits([op.client_srt_ns, op.server_srt_ns])
    took = (
        f"client SRT {exact_ms(op.client_srt_ns, digits)} ms = server SRT {exact_ms(op.server_srt_ns, digits)} ms"
        f" + network {exact_ms(op.client_srt_ns - op.server_srt_ns, digits)} ms"
    )
    sent = f"call sent {utc(client.call.first_ns)} by the client's clock"
    return [line for text in (", ".join(what), ends, took, sent) for line in wrap(text, width, 0, 2)]


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
                exact_ms(event.ns, digits),
                event.side,
                str(number),
                "<--" if event.is_reply else "-->",
                event.what,
                exact_ms(event.ns - events[at - 1].ns, digits) if at else "",
                *([shorten(Path(file.name).name, 20)] * several),
            ]
        )
    headers = ["t ms", "side", "frame", "way", "what", "gap ms", *(["file"] * several)]
    lines = table("rlrllr" + "l" * several, headers, rows, width)
    lines += ["", *_how_placed(op, width), *_sent_again(op, digits, width), ""]
    shares = shares_adding_up([float(ns) for ns in op.parts])
    parts = [
        [name, exact_ms(ns, digits), share, meaning]
        for (name, meaning), ns, share in zip(_PARTS, op.parts, shares, strict=True)
    ]
    total = ["sum", exact_ms(sum(op.parts), digits), "", "client SRT: call's first byte to reply's last"]
    lines += table("lrrl", ["part", "ms", "share", "is"], [*parts, total], width)
    if min(op.parts) < 0:
        note = (
            "A part below zero: a clock that drifts or was set, packets captured out of order, "
            "or times that are placed less exactly than the part is long."
        )
        lines += wrap(note, width)
    return lines


def _how_placed(op: OpView, width: int) -> list[str]:
    error = exact_ms(op.theta_error_ns, _digits([op.theta_error_ns]))
    offset = f"{exact_ms(op.theta_ns, _digits([op.theta_ns]))} ms"
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
            after = exact_ms(side.last_call_ns - side.call.first_ns, digits)
            seen.append(f"{side.transmissions} times at the {name}, the last one {after} ms after the first")
    if not seen:
        return []
    return wrap(f"RPC retransmission: the call was seen {'; '.join(seen)}. SRT counts from the first.", width)


def _digits(durations_ns: Sequence[int]) -> int:
    """The fewest decimals of a millisecond, three or more, that show all of the durations exactly."""
    return next((d for d in (3, 4, 5) if all(ns % 10 ** (6 - d) == 0 for ns in durations_ns)), 6)


def exact_ms(ns: int, digits: int = 6) -> str:
    """No float in between."""
    whole, rest = divmod(abs(ns), 10**6)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:06d}"[: len(f"{whole}") + (ns < 0) + 1 + digits]
