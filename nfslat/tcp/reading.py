"""A source -> the packets of its TCP conversations, by the native decoder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Set
from pathlib import Path

import numpy as np

from nfslat.decode import native
from nfslat.decode.capture import Source
from nfslat.decode.linktypes import link_name
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.kernels.compiled import native as _native
from nfslat.model.tables import Connection
from nfslat.tcp.mptcp import Signals, Subflow
from nfslat.tcp.packets import Conversation, Kind, Packets, Trace, Way


def read_trace(
    source: Source,
    tools: Callable[[], Tools],
    progress: Callable[[int], None],
    *,
    ports: Set[int] = frozenset(),
    stream: int | None = None,
) -> Trace:
    """The TCP packets of `source`: those from or to one of `ports` (none: all), of conversation `stream` (None: all).

    Conversations are numbered from 0 in the order of their first packets, among those of `ports`; `stream` leaves them
    all in the trace, and takes the packets of the others out. `tools` finds Wireshark's programs, which read formats
    that the decoder does not. `progress` is told how many more bytes were read, and may raise to end it.
    Raises ``InputError`` where the capture cannot be read, or no packet is left.
    """
    seen = 0

    def more(amount: int) -> None:
        nonlocal seen
        progress(amount - seen)
        seen = amount

    wanted = sorted(ports)
    source, found = native.read(source, tools, more, lambda paths, job: _native.packets(paths, wanted, stream, job))
    trace = _trace(source, found)
    _refuse_without_packets(trace, wanted, stream)
    return trace


def read_apart(
    trace: Trace, tools: Callable[[], Tools], *, ports: Set[int] = frozenset(), stream: int | None = None
) -> list[Trace]:
    """The captures of two hosts that `trace` was made of, or that without copies; only `trace`, where it was not."""
    from nfslat.decode.twice import is_much, parted, refuse_unparted  # noqa: PLC0415  (absent, as above)

    kinds = trace.packets.kind
    if not is_much(int(np.count_nonzero(kinds == Kind.RETRANSMISSION)), int(np.count_nonzero(kinds))):
        return [trace]
    with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
        made_of = parted(trace.source, tools, Path(scratch))
        if made_of is None:
            return [trace]
        refuse_unparted(made_of)
        streams = (stream, None)
        return [
            read_trace(source, tools, lambda _: None, ports=ports, stream=of_source)
            for source, of_source in zip(made_of.sources, streams, strict=False)
        ]


def _trace(source: Source, found: _native.Trace) -> Trace:
    return Trace(
        source=source,
        packets=Packets(**found.packets | {"frame": source.numbered(found.packets["frame"])}),
        places=found.places,
        conversations=tuple(
            Conversation(
                Connection(*ends), reconnect, (Way(**forth), Way(**back)), None if mptcp is None else Subflow(*mptcp)
            )
            for ends, reconnect, forth, back, mptcp in found.conversations
        ),
        total_packets=found.total_packets,
        other_packets=found.other_packets,
        skipped_packets=found.skipped_packets,
        copies=found.copies,
        damaged=found.damaged,
        misdated=sum(file.misdated for file in found.files),
        interface_drops=max(sum(file.dropped for file in found.files), source.dropped),
        first_ns=min(file.first_ns for file in source.files),
        last_ns=max(file.last_ns for file in source.files),
        snaplen=source.snaplen,
        damage=next((file.damage for file in source.files if file.damage), ""),
        signals=Signals(**found.signals),
    )


def _refuse_without_packets(trace: Trace, ports: list[int], stream: int | None) -> None:
    if len(trace.packets):
        return
    name, tcp = trace.source.name, trace.total_packets - trace.other_packets
    if not tcp:
        strange = [file.strange_link for file in trace.source.files if file.strange_link is not None]
        links = (
            f"; they are of {link_name(strange[0])}: write them to a file, which Wireshark may read" if strange else ""
        )
        raise InputError(f"{name}: none of its {trace.total_packets} packets is TCP{links}")
    at = f" on port {' or '.join(map(str, ports))}" if ports else ""
    count = len(trace.conversations)
    if not count:
        raise InputError(f"{name}: none of its {tcp} TCP packets is{at}")
    raise InputError(f"{name}: there is no conversation {stream}{at}: {count} were found, and the first is number 0")
