"""A source -> what is known of each pair of IP addresses that shows RPC, and of the capture as a whole, in one pass.

`nfslat.decode.merge` makes of it again what `nfslat.decode.blocks.decode` makes of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import structs

from nfslat.decode.capture import Source
from nfslat.decode.merge import packets, without_messages
from nfslat.decode.native import decoded, read
from nfslat.decode.tools import Tools
from nfslat.kernels.compiled import native as _native
from nfslat.model.decoded import Decoded
from nfslat.model.details import Others
from nfslat.model.protocol import RANK_ACTION, op_ranks
from nfslat.model.record import Record
from nfslat.model.tables import hosts as addresses


class Apart(Record):
    """A capture by pairs of addresses. Frame numbers are those of the whole capture.

    `facts` has no messages; its packets are all those of the capture, and what is known of them. The packets of
    `hosts` are their own; `interface_drops`, `untimed_packets` and `misdated_packets`, which nobody knows of one of
    them, are 0.
    """

    source: Source
    facts: Decoded
    # Each pair, in the order in which they show RPC. The last entry may be of more than two addresses: of the pairs
    # that came when there were 4096 already.
    hosts: tuple[tuple[frozenset[str], Decoded], ...]


def decode_apart(
    source: Source,
    tools: Callable[[], Tools],
    progress: Callable[[int], None],
    *,
    without: Collection[str] | None = None,
) -> Apart:
    """As `nfslat.decode.blocks.decode`, apart by addresses. `without`: TCP segments are kept of all pairs in which none
    of these addresses is; None: of no pair."""
    ranks = op_ranks(callback=False), op_ranks(callback=True)
    but = None if without is None else sorted(without)
    source, found = read(
        source, tools, progress, lambda paths, job: _native.decode_apart(paths, *ranks, RANK_ACTION, job, but)
    )
    return apart(source, found, cut_short=any(file.cut_short for file in source.files))


def apart(source: Source, found: _native.Parts, *, cut_short: bool) -> Apart:
    """What the decoder found in `source`."""
    of_part = {"cut_short": cut_short, "interface_drops": 0, "untimed_packets": 0, "misdated_packets": 0}
    parts = [(frozenset((one, other)), _part(part, of_part)) for one, other, part in found.hosts]
    rest = _part(found.rest, of_part)
    of_all = packets([*(part for _, part in parts), rest]) | {
        "busiest_second_packets": found.busiest_second_packets,
        "backward_times": found.backward_times,
        "largest_backward_ns": found.largest_backward_ns,
        "first_ns": min((file.first_ns for file in source.files), default=0),
        "last_ns": max((file.last_ns for file in source.files), default=0),
        "interface_drops": sum(file.dropped for file in found.files),
        "untimed_packets": sum(file.untimed for file in found.files),
        "misdated_packets": sum(file.misdated for file in found.files),
    }
    if rest.ops.connections:  # other streams of what is left are in the facts
        own = structs.replace(rest, details=structs.replace(rest.details, others=Others.empty()))
        parts.append((frozenset(addresses(rest.ops.connections)), own))
    return Apart(source, structs.replace(without_messages(rest), **of_all), tuple(parts))


def _part(found: _native.Found, facts: Mapping[str, Any]) -> Decoded:
    return decoded(found, **facts, first_ns=found.first_ns, last_ns=found.last_ns)
