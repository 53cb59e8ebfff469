"""Two traces -> which of their conversations are the same, and which of their packets.

A packet is the same at both ends if its numbers, size, flags and, where senders count them, its IP identification and
TCP timestamp are; those that are rewritten on the way are done without.
"""

from __future__ import annotations

from nfslat.kernels.compiled import native
from nfslat.model.tables import I64
from nfslat.tcp.packets import Conversation, Trace

Traces = tuple[Trace, Trace]
_NUMBERS = 1 << 32  # sequence numbers that there are


def same_conversations(traces: Traces) -> list[tuple[tuple[int, int], bool]]:
    """Rows of the same conversation in both, and whether its endpoints are named the other way round in the second.

    By the numbers and sizes of packets with payload, which addresses rewritten on the way do not touch;
    where these are rewritten, too, by the endpoints.
    """
    first, second = traces
    there, back = ([_firsts(one) for one in trace.conversations] for trace in traces)
    votes = native.shared_packets((first.packets, second.packets), (there, back))
    out: list[tuple[tuple[int, int], bool]] = []
    done: tuple[set[int], set[int]] = set(), set()
    for a, b, t, _ in sorted(votes, key=lambda vote: (-vote[3], vote)):
        if a not in done[0] and b not in done[1]:
            out.append(((a, b), t))
            done[0].add(a)
            done[1].add(b)
    by_ends = {_name(one): row for row, one in enumerate(second.conversations) if row not in done[1]}
    for row, one in enumerate(first.conversations):
        if row not in done[0] and (other := by_ends.get(_name(one))) is not None:
            out.append(((row, other), one.ends.source(0) != second.conversations[other].ends.source(0)))
    return sorted(out)


def _name(one: Conversation) -> tuple[object, int]:
    return one.ends.key, one.reconnect


def _firsts(one: Conversation) -> tuple[int, int]:
    return one.ways[0].first_seq, one.ways[1].first_seq


def same_packets(traces: Traces, pair: tuple[int, int], turned: bool, way: int) -> tuple[I64, I64]:
    """Rows of the conversations' packets in both traces, of those of one direction that are the same."""
    first, second = (trace.conversations[row] for trace, row in zip(traces, pair, strict=True))
    return native.same_packets(
        (traces[0].of(pair[0]), traces[1].of(pair[1])),
        (way, 1 - way if turned else way),
        (_firsts(first), _firsts(second)),
        counts_from_syn(traces, pair),
    )


def counts_from_syn(traces: Traces, pair: tuple[int, int]) -> bool:
    """Do both traces show both SYNs? Then positions are the same in both, even where a firewall rewrites numbers."""
    return all(way.saw_syn for trace, row in zip(traces, pair, strict=True) for way in trace.conversations[row].ways)


def shift_of(traces: Traces, pair: tuple[int, int], ways: tuple[int, int]) -> int:
    """What to add to positions of the second trace, direction ``ways[1]``, for those of the first's ``ways[0]``."""
    first = [trace.conversations[row].ways[way].first_seq for trace, row, way in zip(traces, pair, ways, strict=True)]
    return (first[1] - first[0] + _NUMBERS // 2) % _NUMBERS - _NUMBERS // 2
