"""Captures as a clock that ticks slowly would have stamped them."""

from __future__ import annotations

import bz2
import gzip
import struct
import sys
from pathlib import Path

_ORDERS = {b"\xd4\xc3\xb2\xa1": ("<", 1_000), b"\xa1\xb2\xc3\xd4": (">", 1_000)}
_ORDERS |= {b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}
_NS = 1_000_000_000


def ticking(capture: bytes, tick_ns: int, phase_ns: int = 0, only: bytes = b"") -> bytes:
    """The pcap with each stamp moved back to the begin of its tick, ns kept; of packets that hold `only`."""
    order, unit_ns = _ORDERS[capture[:4]]
    magic = struct.pack(order + "I", 0xA1B23C4D)
    out, at = [magic, capture[4:24]], 24
    while at + 16 <= len(capture):
        seconds, part, kept, whole = struct.unpack_from(order + "4I", capture, at)
        packet = capture[at + 16 : at + 16 + kept]
        t_ns = seconds * _NS + part * unit_ns
        if only in packet:
            t_ns = (t_ns - phase_ns) // tick_ns * tick_ns + phase_ns
            t_ns = t_ns // unit_ns * unit_ns
        out += [struct.pack(order + "4I", t_ns // _NS, t_ns % _NS, kept, whole), packet]
        at += 16 + kept
    return b"".join(out)


def read(path: Path) -> bytes:
    """A pcap, packed or not."""
    opened = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opened(path, "rb") as file:
        content: bytes = file.read()
    return content


if __name__ == "__main__":  # SOURCE TARGET TICK_MS [PHASE_MS]
    tick_ns, phase_ns = (round(float(one) * 1e6) for one in (*sys.argv[3:5], "0")[:2])
    Path(sys.argv[2]).write_bytes(ticking(read(Path(sys.argv[1])), tick_ns, phase_ns))
