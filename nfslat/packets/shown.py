"""A `Correlation` and the ops asked for -> what `nfslat show` says of them as records, for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nfslat.answer.model import Tool
from nfslat.answer.pictures import Moment
from nfslat.decode.tools import Tools
from nfslat.decompose import PART_NAMES
from nfslat.figures.op_view import OpView, packets, place
from nfslat.figures.wireshark import of_side
from nfslat.model.protocol import NULL
from nfslat.model.tables import endpoint
from nfslat.model.units import iso, to_ms
from nfslat.names.paths import paths_of
from nfslat.packets.model import SCHEMA, Shown, ShownCall, ShownLine, ShownMessage, ShownOp
from nfslat.packets.show import Dissected
from nfslat.results import Correlation


def shown(
    found: Correlation,
    rows: Sequence[int],
    tools: Tools,
    tool: Tool,
    *,
    calls: Sequence[ShownCall] = (),
    name_encoding: str | None = None,
) -> Shown:
    """What is shown of each of `rows` (of ``found.matched``) and `calls`. Raises ``ToolError`` as `Dissected` does."""
    paths = paths_of(found, name_encoding, np.array(rows, dtype=np.int64))
    ops = [place(found, row) for row in rows]
    dissected = Dissected(found, ops, tools)
    named = [
        [None if of[row] == NULL else paths.texts[of[row]] for of in (paths.of_op, paths.to_of_op)] for row in rows
    ]
    return Shown(
        schema=SCHEMA,
        nfslat=tool,
        swapped=found.swapped,
        ops=[_op(op, path, to_path, dissected) for op, (path, to_path) in zip(ops, named, strict=True)],
        calls=list(calls),
    )


def _op(op: OpView, path: str | None, to_path: str | None, dissected: Dissected) -> ShownOp:
    client = op.sides["client"]
    return ShownOp(
        xid=f"0x{op.xid:08x}",
        op=op.name,
        client=endpoint(*client.client_end),
        server=endpoint(*client.server_end),
        transport=client.transport,
        path=path,
        to_path=to_path,
        offset=None if op.offset == NULL else op.offset,
        bytes=None if op.size == NULL else op.size,
        at=iso(client.call.first_ns),
        client_ms=to_ms(op.client_srt_ns),
        server_ms=to_ms(op.server_srt_ns),
        network_ms=to_ms(op.client_srt_ns - op.server_srt_ns),
        parts_ms={name: to_ms(ns) for name, ns in zip(PART_NAMES, op.parts, strict=True)},
        theta_ms=to_ms(op.theta_ns),
        theta_error_ms=to_ms(op.theta_error_ns),
        theta_of_all=op.theta_of_all,
        transmissions={name: side.transmissions for name, side in op.sides.items()},
        packets=list(_packets(op)),
        wireshark={key: text for name, side in op.sides.items() for key, text in of_side(side, name).items()},
        messages=list(_messages(op, dissected)),
    )


def _packets(op: OpView) -> Iterator[Moment]:
    for one in packets(op):
        file, number = op.sides[one.side].source.locate(one.frame)
        yield Moment(to_ms(one.ns), one.side, one.what, number, file.name)


def _messages(op: OpView, dissected: Dissected) -> Iterator[ShownMessage]:
    for is_reply in (False, True):
        for name, side in op.sides.items():
            found = dissected.get(op, name, is_reply=is_reply)
            frame = side.sent(is_reply=is_reply).shown_frame if found is None else found[0]
            file, number = side.source.locate(frame)
            message = None if found is None else found[1]
            captured, whole = (None, None) if message is None or message.cut is None else message.cut
            yield ShownMessage(
                side=name,
                message="reply" if is_reply else "call",
                frame=number,
                file=file.name,
                summary=[] if message is None else list(message.summary),
                lines=[] if message is None else [ShownLine(one.depth, one.name, one.text) for one in message.lines],
                captured_bytes=captured,
                frame_bytes=whole,
            )
