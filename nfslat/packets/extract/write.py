"""A `Correlation` and some of its ops -> one pcapng file with their packets of both captures, on the client's clock."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nfslat import __version__
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.export.anonymous import Pseudonyms, pair_by_role
from nfslat.figures.op_view import OpView, place
from nfslat.model.record import Record
from nfslat.packets.extract.choose import SIDES, Carried, choose, comments, messages_of, segments_again
from nfslat.packets.extract.packets import Packet, packets
from nfslat.packets.extract.pcapng import Writer
from nfslat.packets.extract.scrub import scrub
from nfslat.packets.timeline import exact_ms
from nfslat.results import Correlation, Side
from nfslat.select import op_labels

Rewrite = Callable[[bytes, int], bytes]  # a packet and its link type -> what is written of it


def anonymous(found: Correlation) -> tuple[Correlation, Rewrite]:
    """`found` and `rewrite` for `write_extract`, so that the file tells neither who nor what (docs/outputs.md).

    Addresses have the pseudonyms that they have in a report on the same captures.
    """
    names = Pseudonyms.of(found)
    return pair_by_role(found), lambda packet, link_type: scrub(packet, link_type, names.address)


class Written(Record):
    """What went into the file for one op: packets of each side that carry it."""

    row: int  # of the matched ops
    xid: int
    op: str
    client_srt_ns: int
    server_srt_ns: int
    packets: dict[str, int]


class _Out(Record):
    """A packet as it is written."""

    t_ns: int
    side: str
    packet: Packet
    comment: str


def write_extract(
    found: Correlation,
    rows: Sequence[int],
    tools: Tools,
    out: BinaryIO,
    *,
    context: bool = False,
    rewrite: Rewrite | None = None,
) -> list[Written]:
    """The packets of the matched ops in `rows`, in time order; what was written of each op, in the order of `rows`.

    Two interfaces, client and server; the server's times are on the client's clock as in the report, to the ns. A
    packet that carries several of the ops is there once. `context`: with what else went by on an op's connection while
    it was under way. The captures are read again, so they must be files still (`open_workspace(rereads=True)`).
    Raises ``ToolError`` where Wireshark's tools do not give the packets.
    """
    rows = list(dict.fromkeys(rows))
    views = {row: place(found, row) for row in rows}
    ops, labels = found.client.ops, op_labels(found.client.ops.kinds)
    label_of = {row: labels[ops.kind[found.matched.client[row]]] for row in rows}
    names = {row: f"{label_of[row]} 0x{view.xid:08x}" for row, view in views.items()}
    with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch, ThreadPoolExecutor(2) as pool:
        of_sides = pool.map(lambda side: _side(found, side, views, names, tools, Path(scratch), context=context), SIDES)
        carried, made = zip(*of_sides, strict=True)
    outs = sorted((one for of_side in made for one in of_side), key=lambda one: (one.t_ns, one.side, one.packet.frame))
    _write(found, outs, out, rewrite)
    counts = dict.fromkeys(((row, side) for row in rows for side in SIDES), 0)
    for side, of_side in zip(SIDES, carried, strict=True):
        frames: dict[int, set[int]] = {row: set() for row in rows}
        for one in of_side:
            frames[one.message.row].update(packet.frame for packet in one.packets)
        counts |= {(row, side): len(numbers) for row, numbers in frames.items()}
    return [
        Written(
            row,
            views[row].xid,
            label_of[row],
            views[row].client_srt_ns,
            views[row].server_srt_ns,
            {side: counts[row, side] for side in SIDES},
        )
        for row in rows
    ]


def _side(
    found: Correlation,
    side: str,
    views: dict[int, OpView],
    names: dict[int, str],
    tools: Tools,
    scratch: Path,
    *,
    context: bool,
) -> tuple[list[Carried], list[_Out]]:
    """What carries the ops at one side, and its packets as they are written."""
    rows = list(views)
    one: Side = getattr(found, side)
    messages, again = messages_of(found, rows, side), segments_again(found, rows, side)
    spans = [message.frames for message in messages] + [(frame, frame) for frame in again]
    under_way: dict[int, tuple[int, int]] = {}
    if context:
        for message in messages:
            first, last = under_way.get(message.row, message.frames)
            under_way[message.row] = min(first, message.first), max(last, message.frames[1])
        spans += under_way.values()
    (scratch / side).mkdir()
    read = packets(one.source, spans, tools, scratch / side)
    around = list(read) if context else []
    carried = choose(messages, again, around if context else read)
    told: dict[int, list[str]] = {}
    whose: dict[int, tuple[Packet, int, bool]] = {}
    for packet, message, comment in comments(carried, names):
        view = views[message.row]
        if side == "client" and message.first == packet.frame and not (message.is_reply or message.is_again):
            comment += (  # noqa: PLW2901 - one more thing to tell
                f"; client SRT {exact_ms(view.client_srt_ns)} ms = server SRT {exact_ms(view.server_srt_ns)} ms"
                f" + network {exact_ms(view.client_srt_ns - view.server_srt_ns)} ms"
            )
        told.setdefault(packet.frame, []).append(comment)
        whose.setdefault(packet.frame, (packet, message.row, message.is_reply))
    for row, (first, last) in under_way.items():
        ends = {packet.ends for c in carried if c.message.row == row for packet in c.packets}
        ends |= {(end[2], end[3], end[0], end[1]) for end in ends}
        replies = {packet.ends for c in carried if c.message.row == row and c.message.is_reply for packet in c.packets}
        for packet in around:
            if first <= packet.frame <= last and packet.ends in ends and packet.frame not in told:
                told[packet.frame] = [f"{side}, while {names[row]} was in flight"]
                whose[packet.frame] = packet, row, packet.ends in replies
    outs = [
        _Out(
            _on_client(one, side, views[row], packet, is_reply=is_reply),
            side,
            packet,
            "; ".join([*told[frame], f"frame {views[row].sides[side].frame_text(frame)}"]),
        )
        for frame, (packet, row, is_reply) in whose.items()
    ]
    return carried, outs


def _on_client(one: Side, side: str, view: OpView, packet: Packet, *, is_reply: bool) -> int:
    """When the packet went by, on the client's clock; as the ops' instants were placed."""
    t_ns = packet.t_ns
    if one.directions is not None and is_reply:
        t_ns -= int(one.directions.at(np.array([t_ns]))[0])
    return view.on_client(t_ns) if side == "server" else t_ns


def _write(found: Correlation, outs: Sequence[_Out], out: BinaryIO, rewrite: Rewrite | None) -> None:
    writer = Writer(out, f"nfslat {__version__}")
    sides = {"client": found.client, "server": found.server}
    # An interface has one link type, of which the files of a set may have several.
    interfaces = {
        (side, link_type): writer.interface(side, _said(sides[side]), link_type)
        for side in SIDES
        for link_type in sorted({one.packet.link_type for one in outs if one.side == side})
    }
    for one in outs:
        if one.t_ns < 0:
            raise InputError("a packet is dated before 1970, which pcapng cannot hold; correct it with editcap -t")
        packet = one.packet
        data = packet.data if rewrite is None else rewrite(packet.data, packet.link_type)
        writer.packet(interfaces[one.side, packet.link_type], one.t_ns, data, packet.length, one.comment)


def _said(side: Side) -> str:
    names = [Path(file.name).name for file in side.source.files]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
