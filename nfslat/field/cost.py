"""What a host measured of its own NFS traffic -> what a capture there will cost, and whether it is worth it.

The limits are those of scripts/capture.sh, which holds itself to them once more when it starts; they are read from it,
so that they cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

_LIMIT = re.compile(
    r"^(max_packets|cost_ns|max_cpu_percent|max_write_mb|max_stream_mb|usual_snaplen|floor_v4|floor_v3)=([0-9]{1,12})\b",
    re.M,
)
_HEADERS_BYTES = 66  # Ethernet, IP and TCP with a time stamp: the hosts count payload
_RECORD_BYTES = 16  # in front of each packet in the file
_MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """When the observer becomes the problem; capture.sh says where each comes from."""

    max_packets: int  # a second: tcpdump is one process on one processor
    cost_ns: int  # of all processors, for a packet
    max_cpu_percent: int  # of all processors
    max_write_mb: int  # MB/s
    max_stream_mb: int  # MB/s over the network
    usual_snaplen: int  # bytes of a packet, where whole ones are too much
    floor_v4: int  # bytes of a packet, below which headers of NFSv4 are cut off
    floor_v3: int


@dataclass(frozen=True)
class Cost:
    """Of one host. Packets are segments on the wire: tcpdump sees fewer where card or kernel put them together, so that
    every figure is an upper bound. None where the host could not measure."""

    packets_per_s: int | None
    bytes_per_s: int | None
    snaplen: int  # with which it is bearable; 0: whole packets
    file_mb: int | None
    core_percent: float | None  # of one processor
    cpus: int
    free_mb: int | None
    refusal: str = ""  # why not to do it
    doubt: str = ""  # what capture.sh will look into before it starts


@cache
def limits() -> Limits:
    """As scripts/capture.sh has them."""
    text = resources.files("nfslat.field").joinpath("capture.sh").read_text(encoding="utf-8")
    return Limits(**{name: int(value) for name, value in _LIMIT.findall(text)})


def estimate(
    measured: Mapping[str, str], seconds: int, snaplen: int, *, keep_free_mb: int, max_mb: int | None = None
) -> Cost:
    """Of what ``capture.sh --measure`` printed. 0 seconds: a stream, which takes no disk."""
    bound = limits()
    most_mb = bound.max_write_mb if seconds else bound.max_stream_mb
    packets, payload, free = (_number(measured, key) for key in ("packets_per_s", "bytes_per_s", "disk_free_mb"))
    cpus = _number(measured, "cpus") or 1
    if packets is None or payload is None:
        return Cost(None, None, snaplen, None, None, cpus, free, doubt="it cannot measure its NFS traffic")
    floor = bound.floor_v3 if measured.get("nfsv4") == "no" else bound.floor_v4
    while _per_s(packets, payload, snaplen) > most_mb * _MB and (snaplen == 0 or snaplen > floor):
        snaplen = shorter(snaplen, floor)

    def mb() -> int:
        needed = -(-_per_s(packets, payload, snaplen) * (seconds + 1) // _MB)  # of a stream, a second
        return needed if max_mb is None else min(needed, max_mb)

    if seconds and snaplen == 0 and free is not None and free < keep_free_mb + mb():
        snaplen = shorter(snaplen, floor)
    per_s, file_mb = _per_s(packets, payload, snaplen), mb()
    core = packets * bound.cost_ns / 1e7
    refusal = doubt = ""
    if packets > bound.max_packets or core > bound.max_cpu_percent * cpus:
        doubt = f"{packets:,} packets/s would take {core:.0f} % of a processor (it has {cpus})"
    elif per_s > most_mb * _MB:
        doubt = f"it would {'write' if seconds else 'send'} {per_s // _MB:,} MB/s"
    if seconds and free is not None and free < keep_free_mb + file_mb:
        refusal = (
            f"it would need {file_mb:,} MB of the {free:,} MB that are free in {measured.get('dir', 'its folder')}, "
            f"and {keep_free_mb:,} are to be left: give --dir, --max-mb, --keep-free-mb or fewer --seconds"
        )
    return Cost(packets, payload, snaplen, file_mb, core, cpus, free, refusal, doubt)


def shorter(snaplen: int, floor: int) -> int:
    """The next fewer bytes of a packet."""
    usual = limits().usual_snaplen
    return usual if snaplen == 0 or snaplen > 2 * usual else max(snaplen // 2, floor)


def in_words(snaplen: int) -> str:
    """``whole packets``, ``512 bytes of a packet``."""
    return f"{snaplen} bytes of a packet" if snaplen else "whole packets"


def _per_s(packets: int, payload: int, snaplen: int) -> int:
    """Bytes a second in the file. Short packets beside long ones make it less, never more."""
    each = payload // packets + _HEADERS_BYTES if packets else 0
    return packets * (min(each, snaplen or each) + _RECORD_BYTES)


def _number(measured: Mapping[str, str], key: str) -> int | None:
    text = measured.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
