"""A capture and frame numbers -> those packets as Wireshark's tools give them: bytes, time, and their place in TCP.

editcap copies them out of a file of whatever format, tshark says what is in them through whatever tunnel: neither
engine of nfslat keeps packets.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import structs

from nfslat.decode.capture import File, Source, refuse_stored
from nfslat.decode.tools import Tools
from nfslat.decode.tshark.reader import nanoseconds
from nfslat.errors import ToolError
from nfslat.model.record import Record
from nfslat.packets.extract import pcapng

_RANGES_A_RUN = 500  # editcap takes 512
_NONE = np.zeros(0, dtype=np.int32)
_FIELDS = (
    *("frame.time_epoch", "frame.len", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"),
    *(
        "tcp.srcport",
        "tcp.dstport",
        "tcp.seq_raw",
        "tcp.len",
        "udp.srcport",
        "udp.dstport",
        "ip.id",
        "ipv6.fraghdr.ident",
    ),
)


class Packet(Record):
    """`ends` are (source address, port, destination address, port), the ports 0 in IP fragments behind the first.

    `length` is that on the wire, of which `data` may be the beginning only. `seq` and `size` are of TCP's payload,
    `seq` None elsewhere. `ip_id` is "" where the IP header has none.
    """

    frame: int
    t_ns: int
    length: int
    link_type: int  # of pcap (LINKTYPE_...)
    data: bytes
    ends: tuple[str, int, str, int]
    seq: int | None
    size: int
    ip_id: str

    @property
    def payload_at(self) -> int:
        """Where TCP's payload begins in `data`: nothing follows it but an Ethernet check sequence, now and then."""
        return self.length - self.size


def packets(source: Source, spans: Iterable[tuple[int, int]], tools: Tools, scratch: Path) -> Iterator[Packet]:
    """The packets of all frames in `spans` (first and last, counted through the set), each once, in order.

    Raises ``ToolError`` where Wireshark's tools do not give them, and what `refuse_stored` does.
    """
    refuse_stored(source)
    merged = join(spans)
    frames = np.concatenate([np.arange(first, last + 1, dtype=np.int32) for first, last in merged] or [_NONE])
    numbers = source.numbered(frames)
    if (numbers == frames).all():
        yield from _numbered(source, merged, tools, scratch)
        return
    lying = {
        packet.frame: packet for packet in _numbered(source, join((n, n) for n in numbers.tolist()), tools, scratch)
    }
    for frame, number in zip(frames.tolist(), numbers.tolist(), strict=True):
        yield structs.replace(lying[number], frame=frame)


def _numbered(source: Source, merged: list[tuple[int, int]], tools: Tools, scratch: Path) -> Iterator[Packet]:
    """The packets with these numbers, which count through the files as they are, in that order."""
    before = 0
    for file in source.files:
        here = [
            (max(first - before, 1), min(last - before, file.packets))
            for first, last in merged
            if first - before <= file.packets and last > before
        ]
        for at in range(0, len(here), _RANGES_A_RUN):
            yield from _read(file, here[at : at + _RANGES_A_RUN], before, tools, scratch)
        before += file.packets


def join(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers as the fewest ranges, in order."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def _read(file: File, spans: Sequence[tuple[int, int]], before: int, tools: Tools, scratch: Path) -> Iterator[Packet]:
    copy = scratch / "copy.pcapng"
    wanted = [f"{first}-{last}" if last > first else str(first) for first, last in spans]
    command = [tools.editcap, "-F", "pcapng", "-r", os.fspath(file.path.absolute()), os.fspath(copy), *wanted]
    said = _said(tools.run(command, file.path, scratch, about=file.name))
    try:
        # editcap may have reached a damaged end and still have copied all that was asked for.
        if not copy.exists():
            raise ToolError(f"{file.name}: editcap did not copy frame {spans[0][0]}: {said or 'it gave no reason'}")
        done = tools.run(
            [
                *(tools.tshark, "-n", "-r", os.fspath(copy), "-T", "fields", "-E", "occurrence=l"),
                *("--disable-protocol", "rpc", "--disable-protocol", "data"),
                *("-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.analyze_sequence_numbers:FALSE"),
                *("-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"),
                *(part for field in _FIELDS for part in ("-e", field)),
            ],
            copy,
            about=file.name,
        )
        lines, said = done.stdout.decode(errors="replace"), _said(done)
        numbers = itertools.chain.from_iterable(range(first, last + 1) for first, last in spans)
        with copy.open("rb") as stream:
            count = 0
            for number, copied, line in zip(numbers, pcapng.packets(stream), lines.splitlines(), strict=False):
                count += 1
                yield _packet(before + number, *copied, line.split("\t"))
        asked = sum(last - first + 1 for first, last in spans)
        if count != asked:
            raise ToolError(f"{file.name}: {asked - count} of {asked} packets could not be read again: {said}")
    finally:
        copy.unlink(missing_ok=True)


def _packet(frame: int, link_type: int, data: bytes, cells: list[str]) -> Packet:
    time, length, ip_from, ip_to, ip6_from, ip6_to, tcp_from, tcp_to, seq, size, udp_from, udp_to, ip_id, ip6_id = cells
    ports = (int(tcp_from), int(tcp_to)) if tcp_from else (int(udp_from or 0), int(udp_to or 0))
    return Packet(
        frame=frame,
        t_ns=nanoseconds(time),
        length=max(int(length), len(data)),
        link_type=link_type,
        data=data,
        ends=(ip6_from or ip_from, ports[0], ip6_to or ip_to, ports[1]),
        seq=int(seq) if seq and tcp_from else None,
        size=int(size) if size and tcp_from else 0,
        ip_id="" if tcp_from and ip_id == "0x0000" else ip_id or ip6_id,
    )


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last line that a tool says of what it did."""
    said = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith("Running as")]
    return re.sub(r"^\w+: ", "", said[-1].strip()) if said else ""
