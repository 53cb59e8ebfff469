"""A conversation's packets and runs -> who asks, and whether the two sides take turns at all."""

from __future__ import annotations

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.tcp.packets import ACK, PSH, SYN, Packets
from nfslat.tcp.progress import Progress, Runs
from nfslat.tcp.shared import Shared

# An RPC reply without results; the largest payload of NFS (1 MiB) with its headers and other operations.
_LEAST_RECORD, _LARGEST_RECORD = 24, 1 << 21
_WELL_KNOWN_PORTS = 32_768  # below what Linux takes for clients (net.ipv4.ip_local_port_range)


def who_asks(shared: Shared) -> tuple[int, str]:
    """Who opened the connection; else who has a client's port where the other has a server's; else who sent first."""
    talk = shared.talk
    opener = np.flatnonzero(talk.packets.flags & (SYN | ACK) == SYN)
    if len(opener):
        return int(talk.packets.direction[opener[0]]), "syn"
    answer = np.flatnonzero(talk.packets.flags & (SYN | ACK) == SYN | ACK)
    if len(answer):
        return 1 - int(talk.packets.direction[answer[0]]), "syn"
    ports = (talk.conversation.ends.port_a, talk.conversation.ends.port_b)
    low = [port < 1024 for port in ports]
    if low[0] == low[1]:
        low = [port < _WELL_KNOWN_PORTS for port in ports]
    if low[0] != low[1]:
        return int(low[0]), "port"
    stretches = shared.runs
    return (int(stretches.direction[0]) if len(stretches.begin) else 0), "first"


def crossings(packets: Packets, stretches: Runs, ways: tuple[Progress, Progress]) -> tuple[int, int]:
    """Changes of direction whose first packet does not acknowledge all that was seen of the other side; and all."""
    if len(stretches.begin) < 2:
        return 0, 0
    first = stretches.rows[stretches.begin[1:]]
    before = stretches.rows[stretches.begin[1:] - 1]
    high = np.empty(len(first), dtype=np.int64)
    for way in (0, 1):
        here = stretches.direction[:-1] == way
        high[here] = ways[way].high[np.searchsorted(ways[way].rows, before[here])]
    ack = packets.ack[first]
    return int(np.count_nonzero((ack != NULL) & (ack < high))), len(first)


def rpc_answers(packets: Packets, stretches: Runs, asker: int) -> tuple[int, int]:
    """Responses that begin with an RPC record, and those of them that do not answer the one call in front of them.

    The payload's first four bytes are the record mark, the next four the XID (RFC 5531 sections 9 and 11). Several
    calls in one run were under way at once. None where not most runs begin with a record: another protocol.
    """
    head = packets.head[stretches.rows]
    mark, xid = head >> np.uint64(32), head & np.uint64(0xFFFFFFFF)
    length = (mark & np.uint64(0x7FFFFFFF)).astype(np.int64)
    looks = (packets.head_size[stretches.rows] >= 8) & (mark >> np.uint64(31) == 1)
    looks &= (length >= _LEAST_RECORD) & (length <= _LARGEST_RECORD)
    begin = stretches.begin
    if np.count_nonzero(looks[begin]) * 2 <= len(begin):
        return 0, 0
    # Inside a run a record begins behind a push; payload may look like a record mark.
    starts = looks & np.concatenate([[True], packets.flags[stretches.rows[:-1]] & PSH != 0])
    starts[begin] = looks[begin]
    records = np.add.reduceat(starts, begin, dtype=np.int64)
    answer = np.flatnonzero((stretches.direction[1:] != asker) & looks[begin[1:]] & looks[begin[:-1]]) + 1
    other = (xid[begin[answer]] != xid[begin[answer - 1]]) | (records[answer - 1] > 1)
    return len(answer), int(np.count_nonzero(other))
