"""Frames of capture files -> the RPC messages in them as Wireshark dissects them, through pyshark, one run a file.

pyshark runs tshark and reads its packets. Three things in it stand in the way, so `_Capture` takes them over: it hands
on the user's environment (and with it the user's own Wireshark profile), it looks for tshark in a config.ini of the
working directory, and its layers know their fields by name but not how they nest.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lxml.objectify  # type: ignore[import-untyped]
import numpy as np
import pyshark
from pyshark.tshark.output_parser import tshark_xml

from nfslat.confined import refuse_ended
from nfslat.decode.capture import File
from nfslat.decode.tools import Tools, checked
from nfslat.decode.tshark.engine import preferences
from nfslat.errors import ToolError
from nfslat.figures.wireshark import in_filter
from nfslat.model.decoded import Reassembly
from nfslat.model.record import Record
from nfslat.model.tables import U32
from nfslat.packets.cut import cut
from nfslat.results import Side

# A filter with more frames than this comes near the longest argument that a process can be given (128 KiB on Linux).
_FRAMES_A_RUN = 4000
_TEXT_KEPT = 1000  # of one field; Wireshark itself cuts at 240 what it shows, except in fields without a label
# They say when and where else in this file something was seen, so they differ between two captures of one message.
_OF_THIS_FILE = re.compile(r"rpc\.(time|reqframe|repframe|call\.dup|reply\.dup|fragment.*)|nfs\..*frame.*")
_FRAME_REFERENCE = re.compile(r"(?i)\b(frame[ :#]*)(\d+)")
_LONG_HEX = re.compile(rb'="([0-9a-f:]{256})[0-9a-f:]{256,}"')
_PACKET_END = b"</packet>"
_READ_BYTES = 1 << 20
_SEGMENTS_NAMED = 16
_POLL_S = 0.01
_REASSEMBLED_FROM = ("tcp.segment", "ip.fragment", "ipv6.fragment")
_REQUEST = ("rpc.repframe", "rpc.reqframe")  # of a reply; versions differ in its name
_OF_CONTEXT = "rpc.authgss.context."
_NEXT_PDU = ("rpc", "tcp", "udp", "fake-field-wrapper", "data")


class Line(Record):
    """One line of a dissection: how deep it stands, Wireshark's name of the field, and the text that it shows."""

    depth: int
    name: str
    text: str


class Message(Record):
    """One RPC message as Wireshark shows it in one frame: a summary of what carried it, then RPC and NFS in full."""

    frame: int
    summary: tuple[str, ...]
    lines: tuple[Line, ...]
    cut: tuple[int, int] | None  # (bytes captured, bytes on the wire), where the dissection ended early for it

    @property
    def content(self) -> list[tuple[int, str]]:
        """What must be equal in two captures of the same message."""
        return [
            (line.depth, _FRAME_REFERENCE.sub(r"\1N", line.text))
            for line in self.lines
            if not _OF_THIS_FILE.fullmatch(line.name)
        ]


Wanted = tuple[int, bool]  # XID, is it a reply


class Part(Record, eq=False):
    """The messages that are wanted of a file of a side, each with the frames in which it may be shown."""

    side: Side
    file: File
    messages: Sequence[tuple[Wanted, Sequence[int]]]


def dissect(parts: Sequence[Part], tools: Tools) -> dict[tuple[File, int, Wanted], Message]:
    """The messages that are wanted; those that Wireshark does not show in their frames are left out.

    It is given what `cut` makes of each file, and the files themselves where that does not show all of them. Raises
    ``ToolError`` where tshark does not start or does not give the frames.
    """
    with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch, ThreadPoolExecutor(2) as pool:  # both sides at once
        places = [Path(scratch) / f"{number}.pcapng" for number in range(len(parts))]
        shown = list(pool.map(lambda part, place: _shown_by_cut(part, tools, place), parts, places))
        left = [part for part in map(_without, parts, shown) if part.messages]
        if left:
            tools = checked(tools)
            shown += pool.map(lambda part: _shown(part, _Read.of(part), tools), left)
    return {key: message for some in shown for key, message in some.items()}


_Shown = dict[tuple[File, int, Wanted], Message]


class _Read(Record, eq=False):
    """What tshark reads: a file, how it puts messages together there, and the number of each packet in the file that it
    was cut out of; None: it is that file."""

    path: Path
    reassembly: Reassembly
    numbers: U32 | None = None

    @classmethod
    def of(cls, part: Part) -> _Read:
        """The whole file. What was read with reassembly must be read with it again; the native engine sees what tshark
        sees at its best."""
        side = part.side
        otherwise = Reassembly.OFF if side.source.snaplen else Reassembly.ANY_ORDER
        return cls(part.file.path, side.decoded.reassembly or otherwise)

    def number(self, frame: int) -> int:
        """The number of a packet in the file; 0 or less, as Wireshark has it, where there is none."""
        return frame if self.numbers is None or not 0 < frame <= len(self.numbers) else int(self.numbers[frame - 1])


def _shown_by_cut(part: Part, tools: Tools, place: Path) -> _Shown:
    """What can be seen in the packets of the messages; it may be nothing."""
    frames = {frame for _, frames in part.messages for frame in frames}
    numbers = cut(part.side, part.file, {xid for (xid, _), _ in part.messages}, frames, place)
    if numbers is None:
        return {}
    whole = _Read.of(part).reassembly
    # What is missing between two messages must not be waited for.
    reassembly = Reassembly.IN_ORDER if whole is Reassembly.ANY_ORDER else whole
    try:
        return _shown(part, _Read(place, reassembly, numbers), tools)
    except ToolError:
        return {}


def _without(part: Part, shown: _Shown) -> Part:
    """What is left: messages that are shown in none of their frames. There are none where each segment is dissected for
    itself, unless nothing is shown at all."""
    if shown and _Read.of(part).reassembly is Reassembly.OFF:
        return Part(part.side, part.file, ())
    left = [
        (which, frames)
        for which, frames in part.messages
        if not any((part.file, frame, which) in shown for frame in frames)
    ]
    return Part(part.side, part.file, left)


def _shown(part: Part, read: _Read, tools: Tools) -> _Shown:
    out: _Shown = {}
    wanted: dict[int, set[tuple[int, Wanted]]] = defaultdict(set)
    for which, frames in part.messages:
        for frame in frames:
            at = frame if read.numbers is None else int(np.searchsorted(read.numbers, frame)) + 1
            wanted[at].add((frame, which))
    numbers = sorted(wanted)
    for start in range(0, len(numbers), _FRAMES_A_RUN):
        some = numbers[start : start + _FRAMES_A_RUN]
        with contextlib.closing(_packets(part.file.name, read, some, tools)) as packets:
            for packet in packets:
                for frame, which in wanted[int(packet.number)]:
                    message = _message(packet, frame, which, read)
                    if message is not None:
                        out[part.file, frame, which] = message
    return out


def _packets(name: str, read: _Read, frames: list[int], tools: Tools) -> Generator[Any, None, None]:
    """pyshark's packets for `frames`, in file order."""
    # A loop of our own: pyshark would else ask for the thread's and install a child watcher, which is deprecated in
    # Python 3.12, gone in 3.14, and impossible outside the main thread.
    loop = asyncio.new_event_loop()
    try:
        capture = _Capture(read, frames, tools, loop)
        missing = set(frames)
        try:
            with contextlib.closing(iter(capture)) as packets:
                for packet in packets:
                    missing.discard(int(packet.number))
                    yield packet
        except OSError as problem:
            raise ToolError(f"{tools.tshark} does not start ({problem.strerror or problem})") from problem
        finally:
            capture.close()
        if missing:
            capture.refuse_ended(name)
            said = (capture.last_error or "it gave no reason").removeprefix("tshark: ")
            raise ToolError(f"{name}: tshark did not show frame {read.number(min(missing))} again: {said}")
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class _Capture(pyshark.FileCapture):  # type: ignore[misc]  # pyshark has no annotations
    def __init__(self, read: _Read, frames: list[int], tools: Tools, loop: asyncio.AbstractEventLoop) -> None:
        self._tools, self._may = tools, tools.may([read.path])
        self.process: _Process | None = None
        super().__init__(
            read.path.absolute(),
            keep_packets=False,
            eventloop=loop,
            tshark_path=tools.tshark,
            custom_parameters=[
                *preferences(read.reassembly),
                # Not by pyshark's `display_filter`: for that it runs tshark once more to learn its version.
                "-Y",
                f"frame.number in {{{in_filter(frames)}}}",
                "-c",
                str(frames[-1]),  # nothing behind the last frame matters
            ],
        )

    @property
    def last_error(self) -> str | None:
        """The last line that tshark wrote to standard error, but for its warning to root."""
        line: str | None = self._last_error_line
        return None if line is None or line.startswith("Running as") else line

    def refuse_ended(self, about: str) -> None:
        """Raise ``ToolError`` where tshark did not end by itself."""
        if self.process is not None:
            refuse_ended("tshark", self.process.returncode or 0, self._may, about)

    async def _get_tshark_process(self, packet_count: int | None = None, stdin: int | None = None) -> Any:
        command = [self._tools.tshark, "-l", "-n", "-T", "pdml", *self.get_parameters(packet_count)]
        pipe = subprocess.PIPE
        child = self._tools.start(command, self._may, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        process = _Process(child)
        await process.open()
        self._create_stderr_handling_task(process.stderr)
        self._running_processes.add(process)
        self.process = process
        return process

    async def _cleanup_subprocess(self, process: Any) -> None:
        # pyshark kills tshark as soon as its output ends, and takes it amiss that it fails on a file that ends in the
        # middle of a packet, after it has shown the others. What counts is which frames have come.
        if not self._eof_reached:
            process.kill()
        await process.wait()

    def _setup_tshark_output_parser(self) -> Any:
        return _TreeParser()


class _Process:
    """What pyshark asks of a process of asyncio's, which could not be started within limits (`confined.start`)."""

    def __init__(self, child: subprocess.Popen[Any]) -> None:
        self._child, self.pid, self.kill = child, child.pid, child.kill

    async def open(self) -> None:
        self._unread, self.stdout = await _stream(self._child.stdout)
        _, self.stderr = await _stream(self._child.stderr)

    @property
    def returncode(self) -> int | None:
        return self._child.poll()

    async def wait(self) -> int:
        """Its exit status, once it has ended; meanwhile others read what it has to say."""
        while (status := self._child.poll()) is None:
            await asyncio.sleep(_POLL_S)
        self._unread.close()
        return status


async def _stream(pipe: Any) -> tuple[asyncio.ReadTransport, asyncio.StreamReader]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    return (await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe))[0], reader


class _TreeParser(tshark_xml.TsharkXmlParser):  # type: ignore[misc]  # pyshark has no annotations
    """pyshark's parser, whose packets keep the tree that they were made from, and that takes messages of megabytes.

    After each 64 KiB pyshark's own searches all that it has from the start, and it keeps each byte as two hexadecimal
    digits, several times over: seconds for one READ of 1 MiB.
    """

    async def get_packets_from_stream(
        self, stream: asyncio.StreamReader, existing_data: bytes, got_first_packet: bool = True
    ) -> tuple[Any, bytes]:
        data, searched = bytearray(existing_data), 0
        while (at := data.find(_PACKET_END, searched)) < 0:
            searched = max(len(data) - len(_PACKET_END), 0)
            more = await stream.read(_READ_BYTES)
            if not more:
                raise EOFError  # as pyshark wants to be told
            data += more
        end = at + len(_PACKET_END)
        return self._parse_single_packet(bytes(data[data.find(b"<packet>") : end])), bytes(data[end:])

    def _parse_single_packet(self, packet: bytes) -> Any:
        shown = _LONG_HEX.sub(rb'="\1..."', packet)
        text = shown.decode(errors="replace").translate(tshark_xml.DEL_BAD_XML_CHARS)
        parser = lxml.objectify.makeparser(huge_tree=True, recover=True, encoding="utf-8")
        tree = lxml.objectify.fromstring(text.encode(), parser)
        made = tshark_xml.packet_from_xml_packet(tree)
        made.tree = tree
        return made


def _message(packet: Any, frame: int, which: Wanted, read: _Read) -> Message | None:
    """The message with `xid` among those of the frame, which can hold several."""
    protos = list(packet.tree.iterchildren("proto"))
    xid, is_reply = which
    rpcs = (at for at, proto in enumerate(protos) if proto.get("name") == "rpc")
    at = next((at for at in rpcs if _is(protos[at], xid, is_reply=is_reply)), None)
    if at is None:
        return None
    ours = [protos[at], *itertools.takewhile(lambda later: later.get("name") not in _NEXT_PDU, protos[at + 1 :])]
    lines = tuple(line for layer in ours for line in _lines(layer, 0, read))
    # A reply whose call is not seen in what was cut out is dissected as that of no program.
    may_have_call = read.numbers is not None and read.reassembly is not Reassembly.OFF
    if is_reply and may_have_call and all(line.name not in _REQUEST for line in lines):
        return None
    captured, length = int(packet.captured_length), int(packet.length)
    cut = (captured, length) if captured < length and _end(protos[at]) > captured else None
    return Message(frame, tuple(_summary(packet, captured, length, read)), lines, cut)


def _is(rpc: Any, xid: int, *, is_reply: bool) -> bool:
    shown = {field.get("name"): field.get("show") for field in rpc.iter("field")}
    # The type is missing where a snaplen ends behind the XID; then the XID must do.
    return int(shown.get("rpc.xid") or "-1", 0) == xid and shown.get("rpc.msgtyp") in (None, "", str(int(is_reply)))


def _end(rpc: Any) -> float:
    """Where in the frame the message ends; UDP has no record mark, and there a message ends with its frame."""
    lengths = [int(field.get("show")) for field in rpc.iter("field") if field.get("name") == "rpc.fraglen"]
    return int(rpc.get("pos")) + sum(4 + length for length in lengths) if lengths else float("inf")


def _lines(element: Any, depth: int, read: _Read) -> Iterator[Line]:
    """An element and what is below it, without what Wireshark hides."""
    if element.get("hide") == "yes":
        return
    name = element.get("name") or ""
    text = (element.get("showname") or element.get("show") or name)[:_TEXT_KEPT].strip()
    if read.numbers is not None and (_OF_THIS_FILE.fullmatch(name) or name.startswith(_OF_CONTEXT)):
        text = _FRAME_REFERENCE.sub(lambda found: f"{found[1]}{read.number(int(found[2]))}", text)
    yield Line(depth, name, text)
    for child in element.iterchildren("field", "proto"):
        yield from _lines(child, depth + 1, read)


def _summary(packet: Any, captured: int, length: int, read: _Read) -> Iterator[str]:
    """What carried the message: time and length of the frame, addresses, and the transport."""
    seconds, _, fraction = str(packet.sniff_timestamp).partition(".")
    when = datetime.fromtimestamp(int(seconds), UTC)
    kept = "" if captured == length else f", {captured} captured"
    yield f"{when:%Y-%m-%d %H:%M:%S}.{fraction or '0'} UTC, {length} bytes{kept}"
    last = {layer.layer_name: layer for layer in packet.layers}  # inside a tunnel the innermost is the last
    ip = last.get("ipv6") or last.get("ip")
    network = f"{'IPv6' if 'ipv6' in last else 'IPv4'} {ip.src} -> {ip.dst}" if ip is not None else "no IP"
    tcp, udp = last.get("tcp"), last.get("udp")
    if tcp is not None:
        yield f"{network}, TCP {tcp.srcport} -> {tcp.dstport}, seq {tcp.seq}, {tcp.len} bytes"
    elif udp is not None:
        yield f"{network}, UDP {udp.srcport} -> {udp.dstport}, {udp.length} bytes"
    else:
        yield network
    fields = (field for field in packet.tree.iter("field") if field.get("name") in _REASSEMBLED_FROM)
    parts = [read.number(int(field.get("show"))) for field in fields]
    if len(parts) > 1:
        which = f": {in_filter(parts)}" if len(parts) <= _SEGMENTS_NAMED else f", {min(parts)} to {max(parts)}"
        yield f"Wireshark put it together from {len(parts)} frames{which}"
