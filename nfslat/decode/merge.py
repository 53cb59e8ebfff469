"""What is known of parts of one capture in, what is known of all of it out: as `nfslat.decode.blocks.decode` makes it.

A field that is not known here is refused, so that none is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import structs

from nfslat.decode.merge_tables import dropped, merged, others_of
from nfslat.model.decoded import Decoded
from nfslat.model.details import no_details
from nfslat.model.record import kept_fields
from nfslat.model.tables import Loose, Ops, State

T = TypeVar("T")

OF_MESSAGES = ("hidden", "malformed", "duplicate_packets", "lost_ranges", "lost_bytes", "tls_connections")
_OF_PACKETS = (
    "packet_kinds", "wire_bytes", "captured_bytes", "busiest_second_packets", "backward_times", "largest_backward_ns",
    "first_ns", "last_ns", "cut_short", "interface_drops", "untimed_packets", "misdated_packets",
)  # fmt: skip
_STORED = " (stored)"


def merge(parts: Sequence[Decoded], facts: Decoded | None = None) -> Decoded:
    """One capture of its `parts` by addresses (`nfslat.decode.apart`); `facts` say what is known of all its packets.

    Without `facts` the packets are those of the parts, and how many came in the busiest second is not known.
    All fields are those of a plain decode of the capture, with these exceptions: `Details.turns`, which a plain decode
    does not have, stays, so that what was merged can be merged again; and where a plain decode keeps no more rows than
    so many (events and pauses 2^20 and more, loads 2^20, texts some 10^8 bytes), each part kept as many: so there is
    more, and loads have the longest stretch of any part.

    Raises ``ValueError`` where the parts cannot be of one capture, ``TypeError`` where a field is not known here.
    """
    check()
    if facts is not None and len(facts.ops) + len(facts.loose):
        raise ValueError("facts of a capture have no messages")
    every = [*parts, *([] if facts is None else [facts])]
    if not every:
        raise ValueError("nothing to merge")
    counts: dict[str, Any] = {name: sum(getattr(part, name) for part in every) for name in OF_MESSAGES}
    counts["repeats"] = repeats_of(every)
    counts |= packets(parts) if facts is None else {name: getattr(facts, name) for name in _OF_PACKETS}
    for name in ("reassembly", "directions"):
        counts[name] = _same(name, (getattr(part, name) for part in every))
    engine = _same("engine", (part.engine.removesuffix(_STORED) for part in every))
    counts["engine"] = engine + _STORED * any(part.engine.endswith(_STORED) for part in every)
    if len(parts) < 2:
        details: dict[str, Any] = {name: sum(getattr(part.details, name) for part in every) for name in dropped()}
        details["others"] = others_of(part.details.others for part in every)
        (one,) = parts or every
        return structs.replace(one, **counts, details=structs.replace(one.details, **details))
    return structs.replace(every[0], **counts, **merged(parts, every))


# --- Counts -----------------------------------------------------------------------------------------------------------


def _same(name: str, values: Iterable[T]) -> T:
    first, *others = values
    if any(other != first for other in others):
        raise ValueError(f"parts of one capture have one {name}, not {first!r} and {others!r}")
    return first


def repeats_of(parts: Iterable[Decoded]) -> Mapping[State, int]:
    """Messages without a row, by state, of all parts."""
    found: dict[State, int] = {}
    for part in parts:
        for state, count in part.repeats.items():
            found[state] = found.get(state, 0) + count
    return found


def packets(parts: Sequence[Decoded]) -> dict[str, Any]:
    """What is known of the packets of all parts: the fields of `Decoded`."""
    kinds: dict[str, int] = {}
    for part in parts:
        for kind, count in part.packet_kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count
    return {
        "packet_kinds": kinds,
        "wire_bytes": _sum(part.wire_bytes for part in parts),
        "captured_bytes": _sum(part.captured_bytes for part in parts),
        "busiest_second_packets": None,
        "backward_times": sum(part.backward_times for part in parts),
        "largest_backward_ns": max((part.largest_backward_ns or 0 for part in parts), default=None),
        "first_ns": min(part.first_ns for part in parts),
        "last_ns": max(part.last_ns for part in parts),
        "cut_short": any(part.cut_short for part in parts),
        "interface_drops": sum(part.interface_drops for part in parts),
        "untimed_packets": sum(part.untimed_packets for part in parts),
        "misdated_packets": sum(part.misdated_packets for part in parts),
    }


def without_messages(decoded: Decoded) -> Decoded:
    """Only what is known of its packets, and of streams without RPC."""
    zero: dict[str, Any] = dict.fromkeys(OF_MESSAGES, 0)
    return structs.replace(
        decoded,
        ops=Ops.empty(),
        loose=Loose.empty(),
        details=structs.replace(no_details(), others=decoded.details.others),
        repeats=dict.fromkeys(decoded.repeats, 0),
        **zero,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


@functools.cache
def check() -> None:
    """Raise ``TypeError`` where there is a field that is not brought over."""
    fields = set(kept_fields(Decoded))
    known = {*OF_MESSAGES, *_OF_PACKETS, "repeats", "reassembly", "directions", "engine", "ops", "loose", "details"}
    if fields != known:
        raise TypeError(f"Decoded: no way to merge {sorted(fields ^ known)}")
