"""A `Correlation` and the ops asked for -> text: each op's packets on both sides, the time between them, their content.

The times come from the tables (`Ops`), the content from pyshark (`nfslat.packets.dissect`).
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from unicodedata import combining, east_asian_width

import numpy as np

from nfslat.decode.capture import File
from nfslat.decode.tools import Tools
from nfslat.decompose import client_srt_ns
from nfslat.errors import InputError
from nfslat.figures.op_view import OpView, Sent, SideView, place
from nfslat.figures.wireshark import between, in_filter, named_frames
from nfslat.model.protocol import NULL
from nfslat.model.tables import Miss, State
from nfslat.names.paths import paths_of
from nfslat.names.text import in_charset
from nfslat.packets.dissect import Line, Message, Part, Wanted, dissect
from nfslat.packets.model import ShownCall
from nfslat.packets.timeline import timeline, title
from nfslat.packets.waiting import lines_of, waiting_calls_of
from nfslat.report.text_layout import shorten, wrap
from nfslat.results import Correlation, Side
from nfslat.select import REASONS, is_reverse, op_labels
from nfslat.tally.stats import longest

_WHY_MISSED = {
    Miss.OUTSIDE_OVERLAP: "the other capture was not running then",
    Miss.NOT_CAPTURED_AT_SERVER: "not captured at the server",
    Miss.NOT_CAPTURED_AT_CLIENT: "not captured at the client",
    Miss.CONNECTION_UNMATCHED: "nothing of its connection is in the other capture",
    Miss.AMBIGUOUS: "several candidates in the other capture, nothing to tell them apart",
}
_FRAMES_NAMED = 6
_BIT_FIELD = re.compile(r"^[01. ]{9,} = ")


def chosen(found: Correlation, xids: Sequence[int] | None, slowest: int) -> list[int]:
    """Rows of ``found.matched``: those with `xids`, else the slowest. Raises as `by_xid` does."""
    return [row for xid in xids for row in by_xid(found, xid)] if xids else slowest_ops(found, slowest)


def asked(
    found: Correlation, xids: Sequence[int] | None, slowest: int, tools: Tools
) -> tuple[list[int], list[ShownCall]]:
    """As `chosen`, and those of the calls with `xids` that have no reply."""
    if not xids:
        return chosen(found, xids, slowest), []
    matched = found.client.ops.xid[found.matched.client]
    calls = {xid: waiting_calls_of(found, xid, tools) for xid in xids if xid not in matched}
    rows = [row for xid in xids if not calls.get(xid) for row in by_xid(found, xid)]
    return rows, [call for some in calls.values() for call in some]


def by_xid(found: Correlation, xid: int) -> list[int]:
    """Rows of ``found.matched`` with `xid`, in call order; XIDs are reused, so there can be several.

    Raises ``InputError`` where there is none, with what is known of that XID at each side.
    """
    rows = np.flatnonzero(found.client.ops.xid[found.matched.client] == xid)
    if len(rows):
        return [int(row) for row in rows]
    client = _what_was_seen(found, "client", xid)
    server = _what_was_seen(found, "server", xid)
    if client is None and server is None:
        raise InputError(f"XID 0x{xid:08x} is in neither capture; XIDs stand in the file that --csv writes")
    raise InputError(
        f"XID 0x{xid:08x} cannot be shown: "
        f"client: {client or 'not in this capture'}; server: {server or 'not in this capture'}"
    )


def slowest_ops(found: Correlation, count: int) -> list[int]:
    """Rows of the `count` matched ops with the longest client SRT, slowest first."""
    return [int(row) for row in longest(client_srt_ns(found.client.ops, found.matched, found.srt), count)]


def render(
    found: Correlation,
    rows: Sequence[int],
    tools: Tools,
    *,
    calls: Sequence[ShownCall] = (),
    width: int = 80,
    name_encoding: str | None = None,
    charset: str = "ascii",
) -> Iterator[str]:
    """Text about each of `rows` (of ``found.matched``), and of `calls`, in pieces that end with a newline; no line
    exceeds `width`.

    `name_encoding` is the code page of file names that are not UTF-8 (`nfslat.names.text`), `charset` that in which
    they are shown; all else is ASCII. Raises ``ToolError`` where tshark cannot read a frame again.
    """
    paths = paths_of(found, name_encoding, np.array(rows, dtype=np.int64))
    if found.swapped:
        note = "The captures were given client first: by the packets the second is the server's."
        yield _text([*wrap(note, width), ""])
    dissected: Dissected | None = None
    for number, row in enumerate(rows):
        op = place(found, row)
        head = ["=" * width, f"op {number + 1} of {len(rows)}", ""] if len(rows) > 1 else []
        yield _text([*head, *title(op, width)])
        newer = "new link" if op.name == "LINK" else "renamed to"
        for label, of_op in (("path", paths.of_op), (newer, paths.to_of_op)):
            if of_op[row] != NULL:
                yield _named_file(label, in_charset(paths.texts[of_op[row]], charset), width)
        yield _text(["", *timeline(op, width), "", *_wireshark_filters(op, width), ""])
        # Only now, so that what is known already stands there while tshark reads the captures again.
        dissected = dissected or Dissected(found, [place(found, row) for row in rows], tools)
        for is_reply in (False, True):
            yield _text(_content(op, is_reply, dissected, width))
    yield from map(_text, lines_of(calls, width))


def _text(lines: Sequence[str]) -> str:
    """Lines as ASCII, so that they survive every mail, ticket and terminal."""
    text = "".join(line + "\n" for line in lines)
    return text.replace("\u2026", "...").replace("\u2192", "->").encode("ascii", "backslashreplace").decode()


def _named_file(label: str, path: str, width: int) -> str:
    """`path` behind `label`, in full, on as many lines as it takes."""
    lines, left = [f"{label} "], width - len(label) - 1
    for char in path:
        columns = 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
        if columns > left:
            lines.append("  ")
            left = width - 2
        lines[-1] += char
        left -= columns
    return "".join(line + "\n" for line in lines)


def _what_was_seen(found: Correlation, side_name: str, xid: int) -> str | None:
    """Why the messages with `xid` in one capture make no matched op, in a few words; None where there are none."""
    side: Side = getattr(found, side_name)
    rows = np.flatnonzero(side.ops.xid == xid)
    if len(rows):
        fates = getattr(found.matching.unmatched, side_name)
        reverse = side.ops.spread(is_reverse(side.ops))
        labels = op_labels(side.ops.kinds)
        seen = []
        for row in rows.tolist():
            frames = [int(side.ops.call_first_frame[row]), int(side.ops.reply_first_frame[row])]
            if side.reasons[row]:
                why = f"left out: {REASONS[side.reasons[row]]}"
            elif reverse[row]:
                why = "called by the server, and only the client's calls are compared"
            else:
                why = _WHY_MISSED.get(Miss(int(fates[row])), "matched, but in flight when a clock was set")
            seen.append(f"{labels[side.ops.kind[row]]} in {_named(side, frames)}, {why}")
        return ", and ".join(seen[:3]) + (f", and {len(seen) - 3} more" if len(seen) > 3 else "")
    loose = side.decoded.loose
    rows = np.flatnonzero(loose.xid == xid)
    if not len(rows):
        return None
    why = "a call without a reply" if State.NO_REPLY in loose.state[rows] else "a reply without a call"
    return f"{why} in {_named(side, loose.first_frame[rows].tolist())}"


def _named(side: Side, frames: Sequence[int]) -> str:
    """Frame numbers as the user finds them in Wireshark."""
    unique = sorted(set(frames))
    several = len(side.source.files) > 1
    names = []
    for frame in unique[:_FRAMES_NAMED]:
        file, number = side.source.locate(frame)
        names.append(f"{number} of {file.name}" if several else str(number))
    more = " ..." if len(unique) > _FRAMES_NAMED else ""
    return f"frame{'s' if len(unique) > 1 else ''} {', '.join(names)}{more}"


def _wireshark_filters(op: OpView, width: int) -> list[str]:
    """Display filters to paste into Wireshark, for each file that holds a packet of the op."""
    out = ["Wireshark display filters"]
    for name, side in op.sides.items():
        for file_name, frames in named_frames(side).items():
            out += [f"  {name}: {shorten(file_name, width - len(name) - 4)}"]
            # Never wrapped: half a filter is none. Few numbers stand in it, for each message has three at most.
            out += _fitting(sorted(frames), width)
            out.append(f"    rpc.xid == 0x{op.xid:08x}")
            out += [f"    {one}" for one in between(side, file_name)]
    return out


def _fitting(frames: Sequence[int], width: int) -> list[str]:
    """``frame.number in {..}`` for `frames`, as several filters where one would be too long for a line."""
    take = len(frames)
    while take > 1 and len(line := f"    frame.number in {{{in_filter(frames[:take])}}}") > width:
        take -= 1
    line = f"    frame.number in {{{in_filter(frames[:take])}}}"
    return [line, *(_fitting(frames[take:], width) if take < len(frames) else [])]


class Dissected:
    """The content of all ops asked for; each file is read once, the first time that any content is wanted."""

    def __init__(self, found: Correlation, ops: Sequence[OpView], tools: Tools) -> None:
        self._sides = {"client": found.client, "server": found.server}
        self._ops = ops
        self._tools = tools

    @cached_property
    def _messages(self) -> dict[tuple[File, int, Wanted], Message]:
        wanted: dict[tuple[str, File], list[tuple[Wanted, list[int]]]] = defaultdict(list)
        for op, (name, side), is_reply in itertools.product(self._ops, self._sides.items(), (False, True)):
            frames: dict[File, list[int]] = defaultdict(list)
            for frame in _candidates(op, name, is_reply=is_reply):
                file, number = side.source.locate(frame)
                frames[file].append(number)
            for file, numbers in frames.items():
                wanted[name, file].append(((op.xid, is_reply), numbers))
        parts = [Part(self._sides[name], file, messages) for (name, file), messages in wanted.items()]
        return dissect(parts, self._tools)

    def get(self, op: OpView, side: str, *, is_reply: bool) -> tuple[int, Message] | None:
        """The call or reply of `op` at one side and its frame (as in `Ops`), from the first frame that shows it."""
        for frame in _candidates(op, side, is_reply=is_reply):
            message = self._messages.get((*self._sides[side].source.locate(frame), (op.xid, is_reply)))
            if message is not None:
                return frame, message
        return None


def _candidates(op: OpView, side: str, *, is_reply: bool) -> list[int]:
    """Frames where the dissector may show the message, likeliest first: the one where it did, the last, the first.

    A set of files was decoded as one and is read file by file here, which makes a difference where one ends.
    """
    sent = op.sides[side].sent(is_reply=is_reply)
    return list(dict.fromkeys((sent.shown_frame, sent.last_frame, sent.first_frame)))


def _content(op: OpView, is_reply: bool, dissected: Dissected, width: int) -> list[str]:
    """The dissection of the call or of the reply: in full at the client, and at the server where it differs."""
    out: list[str] = []
    at_client: Message | None = None
    for side in ("client", "server"):
        name = f"{'Reply' if is_reply else 'Call'} at the {side}"
        found = dissected.get(op, side, is_reply=is_reply)
        sent = op.sides[side].sent(is_reply=is_reply)
        where = op.sides[side].frame_text(sent.shown_frame if found is None else found[0])
        out.append(shorten(f"{name}, frame {where}", width))
        if found is None:
            out += wrap(f"{_why_not_shown(op.sides[side], sent)}.", width, 2)
            out.append("")
            continue
        message = found[1]
        for line in message.summary:
            out += wrap(line, width, 2, 4)
        if at_client is not None and at_client.content == message.content:
            out.append("  RPC and NFS: same at the server as at the client")
        else:
            for item in message.lines:
                out += _item(item, width)
        if message.cut:
            kept, length = message.cut
            out += wrap(f"(the capture kept {kept} of the frame's {length} bytes: the dissection ends early)", width, 2)
        out.append("")
        at_client = message if side == "client" else at_client
    return out


def _item(item: Line, width: int) -> list[str]:
    indent = min(2 + 2 * item.depth, width // 2)
    # The dots of a bit field are as wide as half a line; where its name needs the place, the name says more.
    too_long = len(item.text) + indent > width
    return wrap(_BIT_FIELD.sub("", item.text) if too_long else item.text, width, indent, 4)


def _why_not_shown(side: SideView, sent: Sent) -> str:
    files = {side.source.locate(frame)[0].name for frame in (sent.first_frame, sent.last_frame)}
    if len(files) > 1:
        return "The message begins in one file and ends in another; join them with 'mergecap -a' to see it in Wireshark"
    if len(side.source.files) > 1:
        return "Wireshark does not show the message in this file by itself; join it with the one before ('mergecap -a')"
    return "Wireshark does not show the message in its frames"
