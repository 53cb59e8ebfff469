"""Formats and links that only Wireshark knows -> files that the native decoder reads, or that editcap passes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from nfslat.decode.capture import File
from nfslat.decode.linktypes import link_name
from nfslat.decode.texts import refuse_text
from nfslat.decode.tools import Tools
from nfslat.decode.tshark.capinfos import inspect
from nfslat.decode.tshark.exported import first_packets, ip_packets
from nfslat.errors import InputError, ToolError
from nfslat.kernels.compiled import native as _native

_LOOKED_AT = 32  # packets, as `_native.peek` does


def file_of(name: str, path: Path, tools: Callable[[], Tools], scratch: Path, *, is_whole: bool) -> File | None:
    """A file of a foreign format; None without packets. ``InputError`` where it is none, or Wireshark is missing."""
    try:
        found = tools()
    except ToolError as problem:
        refuse_text(name, path)
        raise InputError(
            "neither pcap, pcapng, snoop nor ERF; give the file that tcpdump -w wrote "
            f"(other formats need Wireshark: {problem})",
            about=name,
        ) from problem
    file = inspect(name, path, found, scratch)
    file = structs.replace(file, is_foreign=True, cut_short=file.cut_short or not is_whole)
    if not file.packets:
        return None
    first = first_packets(path, found, scratch, _LOOKED_AT)
    if first is None:
        return as_ip(file, "links that cannot be written as pcapng", tools, scratch)
    link = _native.peek(first)[2]
    return file if link is None else as_ip(file, link_name(link), tools, scratch)


def as_ip(file: File, said: str, tools: Callable[[], Tools], scratch: Path) -> File:
    """The IP packets of a file whose links, `said` in words, the decoder does not know. ``InputError`` without any."""
    try:
        path, is_whole = ip_packets(file.path, tools(), scratch)
    except ToolError as problem:
        refuse_text(file.name, file.path)
        raise InputError(
            f"its packets are of {said}, which only Wireshark may know ({problem})", about=file.name
        ) from problem
    _, first_ns, _ = _native.peek(path) if path else ("", None, None)
    if path is None or first_ns is None:
        refuse_text(file.name, file.path)  # which Wireshark takes for packets of some link now and then
        raise InputError(
            f"its packets are of {said}, in which neither nfslat nor Wireshark finds IP; capture on another interface",
            about=file.name,
        )
    cut_short = file.cut_short or not is_whole
    return structs.replace(file, path=path, first_ns=first_ns, cut_short=cut_short, is_foreign=False, is_export=True)
