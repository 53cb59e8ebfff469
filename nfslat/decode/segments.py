"""A source -> its TCP segments on some ports: what the decoder of messages does not keep of each packet."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.kernels.compiled import refuse_without
from nfslat.model.tables import I8, I32, I64, U8, U32, Table

# Bits of `Segments.flags` (RFC 9293 section 3.1).
SYN, RST = 0x02, 0x04
AGAIN = (3, 5, 6)  # `kind`: bytes that were sent before, keep-alives and probes of closed windows


@dataclass(frozen=True, eq=False)
class Segments(Table):
    """One row a segment, in capture order; one that was captured twice has one row. Columns as the decoder has them:
    positions are bytes from the first one of their direction, and do not wrap."""

    conversation: I32  # TCP connections, in the order of their first packets
    direction: I8
    frame: I32
    t_ns: I64
    seq: I64
    size: I32  # bytes of payload, as they were on the wire
    ack: I64  # position in the other direction; NULL without the flag
    flags: U8
    kind: I8
    is_dsack: I8  # 1: tells of bytes that came twice (RFC 2883)
    ts_val: U32  # TSval of the timestamps option (RFC 7323); NULL32 without


def read_segments(
    source: Source, tools: Callable[[], Tools], progress: Callable[[int], None], ports: Set[int]
) -> Segments:
    """Those from or to one of `ports`, in a pass of their own over the files.

    Raises ``InputError`` where they cannot be read again, ``UsageError`` without the compiled decoder.
    """
    refuse_without("packets of TCP connections are read by the native decoder")
    from nfslat import _native  # noqa: PLC0415  (absent where it was not compiled)
    from nfslat.decode import native  # noqa: PLC0415

    _, found = native.read(source, tools, progress, lambda paths, job: _native.packets(paths, sorted(ports), None, job))
    return Segments(**{name: found.packets[name] for name in Segments.columns()})
