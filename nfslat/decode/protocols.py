"""A capture without NFS -> an error that says what is in it instead."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable

from msgspec import structs

from nfslat.decode.capture import Source
from nfslat.decode.linktypes import link_name
from nfslat.decode.tools import Tools
from nfslat.decode.waiting import waiting_calls
from nfslat.errors import InputError, ToolError
from nfslat.kernels.compiled import native
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NFS, NULL, program_name
from nfslat.select import is_refused_mount

_NAMED = 3
_MANY = 0.1  # of the packets
_FEW_RECORDS = 3  # of TLS: bytes in the middle of a stream look like one now and then
_ENCRYPTED = (
    "the NFS traffic is encrypted ({}); XIDs cannot be seen. What can still be told: nfslat transport (turns, round "
    "trips, loss), and what the client counts (nfslat --evidence with mountstats). Else capture on a mount "
    "without xprtsec"
)
_LOOKED_AT = "100000"  # packets: enough to tell what a capture is about
_SHORTEST_SNAPLEN = 94  # Ethernet, IPv4, TCP with timestamps, record mark, and a call's header up to its procedure
_ANY_SNAPLEN = 128  # the same with SLL2 (-i any) or VLAN tags, and IPv6


def has_other_calls(decoded: Decoded) -> bool:
    """Are there calls of MOUNT, NLM, portmap or any other program than NFS, answered or not?"""
    calls = zip(decoded.ops.kinds, decoded.calls.tolist(), strict=True)
    return any(count and kind.program not in (NFS, NULL) for kind, count in calls)


def refuse_without_nfs(source: Source, decoded: Decoded, tools: Callable[[], Tools]) -> None:
    """Raise ``InputError`` where the capture holds no NFS op: encrypted, no RPC, calls only, or other programs."""
    answered, kinds = decoded.ops.classes, decoded.ops.kinds
    calls = list(zip(kinds, decoded.calls.tolist(), strict=True))
    if any(kinds[kind].program == NFS for kind in answered.kind):
        named = any(count and kind.program == NFS and kind.op != 0 for kind, count in calls)
        if not decoded.tls_connections or named:
            return
    if is_refused_mount(decoded.ops):
        return
    name = source.name
    if decoded.tls_connections:
        raise InputError(_ENCRYPTED.format("RPC-with-TLS, RFC 9289"), about=name)
    cut = InputError(
        f"the packets were cut at {source.snaplen} bytes, in front of the RPC headers or in them; "
        "capture with tcpdump -s 512 (96 is the least that can work, 128 with -i any, VLANs or IPv6)",
        about=name,
    )
    if source.snaplen is not None and source.snaplen < _SHORTEST_SNAPLEN:
        raise cut
    nfs_calls = sum(count for kind, count in calls if kind.program == NFS)
    replies = len(decoded.ops) + int((decoded.loose.is_reply == 1).sum())
    if nfs_calls and len(waiting_calls(decoded, decoded.last_ns).row):
        return  # that nothing is answered is what the capture tells
    if nfs_calls:
        raise InputError(
            f"{nfs_calls} NFS calls and {replies} RPC replies, but no call with its reply; "
            "capture both directions (no one-way filter or span port)",
            about=name,
        )
    no_calls = all(kind.program == NULL for kind, _ in calls)
    if source.snaplen is not None and source.snaplen < _ANY_SNAPLEN and no_calls:
        raise cut
    if replies or any(count for _, count in calls):
        programs: Counter[str] = Counter()
        for kind, count in calls:
            if kind.program != NULL:
                programs[program_name(kind.program)] += count
        most = (+programs).most_common(_NAMED)
        said = ", ".join(f"{count} {program} calls" for program, count in most) or "RPC replies"
        hint = "--all-programs shows them, or " if most else ""
        raise InputError(f"no NFS in it, only {said}; {hint}capture 'port 2049' on the NFS interface", about=name)
    strange = [file.strange_link for file in source.files if file.strange_link is not None]
    if strange and not any(count for kind, count in decoded.packet_kinds.items() if kind != "other"):
        raise InputError(
            f"its packets are of {link_name(strange[0])}, which nfslat does not know; write them to a file, which "
            "Wireshark may read",
            about=name,
        )
    refuse_unreadable(source)
    contents = _contents(source, decoded, tools)
    said = ", ".join(f"{protocol} ({count} packets)" for protocol, count in contents.most_common(_NAMED))
    if "nfs" in contents or "rpc" in contents:
        remedy = "strip it from the capture, or capture on the NFS interface itself"
        if not decoded.engine.startswith("tshark"):
            remedy = "try --engine tshark"
        raise InputError(
            f"Wireshark finds NFS or RPC in it ({said}), nfslat does not: an encapsulation that it does not "
            f"know; {remedy}",
            about=name,
        )
    raise InputError(f"no NFS in it; it holds {said or 'no known protocol'}; capture 'port 2049'", about=name)


def refuse_unreadable(source: Source) -> None:
    """Raise ``InputError`` where the packets are of RDMA, or TLS on NFS's port."""
    path = source.files[0].path
    if not path.is_file():
        return
    try:
        packets, rdma, rdma_nfs, tls = native.unreadable(os.fspath(path))
    except (OSError, ValueError):
        return
    if rdma > _MANY * packets:
        what = "NFS over RDMA" if rdma_nfs else "RDMA"
        raise InputError(
            f"{what} over Ethernet (RoCE, {rdma:,} of {packets:,} packets), whose messages no engine of nfslat takes "
            "apart: mount with proto=tcp while you capture, or see what the hosts count (nfslat --evidence with "
            "mountstats, nfsslower)",
            about=source.name,
        )
    if tls > _FEW_RECORDS:
        raise InputError(_ENCRYPTED.format(f"TLS records on port 2049, {tls:,} packets"), about=source.name)


def _contents(source: Source, decoded: Decoded, find_tools: Callable[[], Tools]) -> Counter[str]:
    """Packets by their innermost protocol, as Wireshark names it with all its dissectors; without it, by kind."""
    try:
        tools = find_tools()
    except ToolError:
        return +Counter(decoded.packet_kinds)
    empty = os.path.join(tools.environment["WIRESHARK_CONFIG_DIR"], "all-protocols")
    os.makedirs(empty, exist_ok=True)
    everything = structs.replace(tools, environment=tools.environment | {"WIRESHARK_CONFIG_DIR": empty})
    path = source.files[0].path
    command = [tools.tshark, "-n", "-r", os.fspath(path.absolute()), "-c", _LOOKED_AT, "-q", "-z", "io,phs"]
    try:
        done = everything.run(command, path)
    except ToolError:
        return +Counter(decoded.packet_kinds)
    leaves: Counter[str] = Counter()
    lines = re.findall(r"^( *)(\S+) +frames:(\d+)", done.stdout.decode(errors="replace"), re.MULTILINE)
    for at, (_, protocol, frames) in enumerate(lines):
        inner = sum(int(n) for _, _, n in _children(lines, at))
        leaves[protocol] += int(frames) - inner
    return +leaves


def _children(lines: list[tuple[str, str, str]], at: int) -> list[tuple[str, str, str]]:
    """Lines one level below line `at` of tshark's protocol hierarchy."""
    depth, out = len(lines[at][0]), []
    for line in lines[at + 1 :]:
        if len(line[0]) <= depth:
            break
        if len(line[0]) == depth + 2:
            out.append(line)
    return out
