"""The first bytes of a file in, what it is out: a capture, a tar of capture.sh, or nothing that can be read here."""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zlib

FIRST_BYTES = 1 << 16  # as much as `kind_of` wants to see
_UNPACKED_BYTES = FIRST_BYTES
_XZ_MEMORY_BYTES = 128 << 20
_PCAP = {bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1")}
_SNOOP = b"snoop\0\0\0"  # Solaris
_ERF_HEADER = 16
_ERF_TYPES = frozenset((*range(1, 30), 48))  # the last is padding
_ERF_RECORDS = 3  # to be right, or as many as there are
_PCAPNG = bytes.fromhex("0a0d0d0a")
_OPAQUE = (b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")  # zstd, lz4: Python 3.11 cannot look into them
_FOREIGN = {
    b"PAR1": "Parquet, not a capture; give the capture itself",
}


def kind_of(first: bytes) -> str:
    """``"capture"``, ``"tar"``, or ``""``: no file that can be read. Packed files are what is in them."""
    unpacked = _unpacked(first)
    if unpacked is None or unpacked[:4] in _PCAP or unpacked.startswith((_PCAPNG, _SNOOP)):
        return "capture"
    # As the decoder does: frames of zstd and lz4 that say nothing may stand in front.
    if unpacked[1:4] == b"\x2a\x4d\x18" and unpacked[0] >> 4 == 5:
        return "capture"
    if _is_erf(unpacked):
        return "capture"
    try:
        tarfile.TarInfo.frombuf(unpacked[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return ""
    return "tar"


def why_not(first: bytes) -> str:
    """What to say of a file of no kind."""
    unpacked = _unpacked(first) or b""
    named = next((text for magic, text in _FOREIGN.items() if unpacked.startswith(magic)), None)
    return (
        named
        or "neither pcap, pcapng, snoop, ERF nor a tar of capture.sh; write other formats as pcapng (editcap -F pcapng)"
    )


def _is_erf(first: bytes) -> bool:
    """Do records of ERF, which has no magic number, follow each other? The decoder looks more closely."""
    at = 0
    for _ in range(_ERF_RECORDS):
        head = first[at : at + _ERF_HEADER]
        if len(head) < _ERF_HEADER:
            return 0 < at == len(first)
        size = int.from_bytes(head[10:12], "big")
        if head[8] & 0x7F not in _ERF_TYPES or size < _ERF_HEADER:
            return False
        at += size
    return at <= len(first)


def _unpacked(first: bytes) -> bytes | None:
    """The first bytes, unpacked where they are packed; None where that shows nothing."""
    try:
        if first.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(first, _UNPACKED_BYTES) or None
        if first.startswith(b"BZh"):
            # A block has up to 900 kB, so that there may be nothing yet.
            return bz2.BZ2Decompressor().decompress(first, _UNPACKED_BYTES) or None
        if first.startswith(b"\xfd7zXZ\0"):
            return lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES).decompress(first, _UNPACKED_BYTES) or None
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return None  # damaged: the decoder says how
    return None if first.startswith(_OPAQUE) else first
