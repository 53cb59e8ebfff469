"""A source -> its TCP segments, where the engine that decoded it did not give them: in a pass of the native decoder."""

from __future__ import annotations

from collections.abc import Callable

from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.kernels.compiled import refuse_without
from nfslat.model.segments import Segments, Wanted


def read_segments(source: Source, tools: Callable[[], Tools], progress: Callable[[int], None]) -> list[Segments]:
    """Those of each connection with RPC.

    Raises ``InputError`` where they cannot be read again, ``UsageError`` without the compiled decoder.
    """
    refuse_without("tshark does not give the TCP time stamps of all packets; the native decoder does")
    from nfslat.decode import blocks  # noqa: PLC0415  (absent where it was not compiled)

    return blocks.decode(source, tools, progress, segments=Wanted.ALL)[1].segments
