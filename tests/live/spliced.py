"""Pairs of captures, one after the other, as one pair: causes that begin and end while somebody watches."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from nfslat import api

_GAP_NS = 200_000_000
_NFS = 2049


def _packets(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Time in ns, bytes, length on the wire, of a pcap of Ethernet."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    magic = struct.unpack("<I", raw[:4])[0]
    unit = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}[magic]
    assert struct.unpack("<I", raw[20:24])[0] == 1
    at = 24
    while at < len(raw):
        seconds, fraction, captured, length = struct.unpack_from("<IIII", raw, at)
        yield seconds * 10**9 + fraction * unit, raw[at + 16 : at + 16 + captured], length
        at += 16 + captured


def _on_other_port(data: bytes, number: int) -> bytes:
    """A packet of TCP over IPv4, on a connection that no other part has."""
    if data[12:15] != b"\x08\x00\x45" or data[23] != 6:
        return data
    ports = [port if port == _NFS else (port + 1009 * number) % 65536 for port in struct.unpack_from(">HH", data, 34)]
    return data[:34] + struct.pack(">HH", *ports) + data[38:]


def spliced(pairs: Sequence[tuple[Path, Path]], folder: Path) -> tuple[Path, Path, list[tuple[int, int]]]:
    """The server's and the client's capture, and when each pair is in them, on the client's clock. All clocks agree."""
    now_ns, spans = 1_700_000_000 * 10**9, []
    out: tuple[list[bytes], list[bytes]] = ([], [])
    for number, (server, client) in enumerate(pairs):
        clock = api.correlate(server, client).summary.clock
        assert clock is not None
        assert clock.theta_ms is not None
        both = list(_packets(server)), list(_packets(client))
        begin_ns = min(one[0] for one in both[1])
        end_ns = max(one[0] for one in both[1])
        for theta_ns, packets, made in zip((round(clock.theta_ms * 1e6), 0), both, out, strict=True):
            for t_ns, whole, length in packets:
                data, at_ns = _on_other_port(whole, number), t_ns - theta_ns - begin_ns + now_ns
                made.append(struct.pack("<IIII", at_ns // 10**9, at_ns % 10**9, len(data), length) + data)
        spans.append((now_ns, now_ns + end_ns - begin_ns))
        now_ns += end_ns - begin_ns + _GAP_NS
    paths = folder / "server.pcap", folder / "client.pcap"
    for path, made in zip(paths, out, strict=True):
        path.write_bytes(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1) + b"".join(made))
    return *paths, spans
