"""What a decoder may know of a capture beside its ops: SEQUENCE slots, names, failures, TCP directions and events.

Same conventions as `nfslat.tables`. Only the native engine fills these tables; tshark's are empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from nfslat.tables import I8, I16, I32, I64, U32, Table


class TcpEvent(IntEnum):
    """Kind of an event on a TCP connection; what its value counts stands behind it."""

    RETRANSMISSION = 0  # bytes that were seen before
    DUPLICATE = 1  # bytes of a packet that was captured twice
    OUT_OF_ORDER = 2  # bytes that fill a hole which later data had left
    GAP = 3  # bytes of a hole that opens
    ZERO_WINDOW = 4  # ns for which the receiver of this direction had closed its window
    STALL = 5  # ns without a packet on the connection while data of this direction were under way


@dataclass(frozen=True, eq=False)
class Slots(Table):
    """SEQUENCE (RFC 8881 section 18.46) of NFSv4.1 and later, and CB_SEQUENCE: one row an op that has it, by op."""

    op: I32  # row of Ops
    session: I16  # row of `sessions`
    slot: U32
    seqid: U32
    highest: U32  # highest slot in use by the client
    reply_highest: U32  # highest slot that the server would accept
    target_highest: U32  # highest slot that the server wants used
    sessions: tuple[bytes, ...] = ()  # 16 bytes each


@dataclass(frozen=True)
class SessionLimits:
    """What CREATE_SESSION granted (RFC 8881 section 18.36); channel limits as the server answered them."""

    t_ns: int  # of the reply's first byte
    session: bytes
    fore_requests: int  # ca_maxrequests: slots
    fore_operations: int
    fore_request_bytes: int
    fore_response_bytes: int
    back_requests: int


@dataclass(frozen=True, eq=False)
class Names(Table):
    """The file name in a call's arguments, one row an op that shows one, in row order."""

    op: I32
    name: I32  # row of `names`
    names: tuple[bytes, ...] = ()


@dataclass(frozen=True, eq=False)
class Failures(Table):
    """COMPOUNDs with a status that is not 0: results in the reply; the last is of the operation that failed."""

    op: I32
    results: U32


@dataclass(frozen=True, eq=False)
class Tcp(Table):
    """One row a direction of a TCP connection that carried RPC; a reconnect has rows of its own. Times in ns."""

    conn: I64
    reconnect: I64  # 0 for the first connection between these endpoints
    direction: I64
    packets: I64
    data_packets: I64
    bytes: I64  # payload, retransmissions included
    retransmissions: I64
    retransmitted_bytes: I64
    duplicates: I64  # packets captured twice
    out_of_order: I64
    keep_alives: I64
    lost_ranges: I64  # acknowledged, never captured
    lost_bytes: I64
    zero_windows: I64
    zero_window_ns: I64
    stalls: I64
    stalled_ns: I64
    saw_syn: I64
    window_scale: I64  # shift count; NULL where no SYN with the option was captured
    mss: I64
    rtt_count: I64  # samples: data to the ACK that covers it, as seen where the capture was taken
    rtt_sum_ns: I64
    rtt_min_ns: I64
    rtt_max_ns: I64


@dataclass(frozen=True, eq=False)
class TcpEvents(Table):
    """What happened on TCP connections that carried RPC, in capture order; no row for what went well."""

    kind: I8  # `TcpEvent`
    conn: I32
    direction: I8
    frame: I32
    t_ns: I64
    value: I64


@dataclass(frozen=True)
class Details:
    """All of them. `events_dropped` counts the events beyond those that are kept."""

    slots: Slots
    names: Names
    failures: Failures
    tcp: Tcp
    events: TcpEvents
    sessions: tuple[SessionLimits, ...] = ()
    events_dropped: int = 0


def no_details() -> Details:
    """Empty tables."""

    def empty(table: type[Table]) -> dict[str, list[int]]:
        return {name: [] for name in table.columns()}

    return Details(
        slots=Slots.from_columns(empty(Slots)),
        names=Names.from_columns(empty(Names)),
        failures=Failures.from_columns(empty(Failures)),
        tcp=Tcp.from_columns(empty(Tcp)),
        events=TcpEvents.from_columns(empty(TcpEvents)),
    )


def name_of(names: Names, op: int) -> bytes | None:
    """The file name that op row `op` shows; None where it shows none."""
    at = int(np.searchsorted(names.op, op))
    return names.names[names.name[at]] if at < len(names) and names.op[at] == op else None
