"""Two traces -> which of their conversations are the same, and which of their packets.

A packet is the same at both ends if its numbers, size, flags and, where senders count them, its IP identification and
TCP timestamp are; those that are rewritten on the way are done without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nfslat.kernels.order import side_by_side
from nfslat.model.tables import I32, I64
from nfslat.tcp.packets import ACK, Conversation, Trace

U64 = npt.NDArray[np.uint64]
_NUMBERS = 1 << 32  # sequence numbers that there are
_MOST = 0.5  # of the packets: if fewer have the same IP identification, it is rewritten on the way
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, which spreads bits (Knuth, TAOCP 6.4)
_SOME = 4096  # packets of a conversation that it is known by


class Indexed:
    """A trace whose packets are at hand by conversation and direction."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.packets, self.conversations = trace, trace.packets, trace.conversations

    @cached_property
    def _places(self) -> tuple[I32, list[slice]]:
        p = self.packets
        return side_by_side(
            len(p), 2 * len(self.conversations), lambda at: p.conversation[at].astype(np.int64) * 2 + p.direction[at]
        )

    @cached_property
    def first(self) -> I64:
        """Sequence numbers of position 0, by conversation and direction."""
        return np.array([[way.first_seq for way in one.ways] for one in self.conversations], dtype=np.int64)

    def rows(self, conversation: int, direction: int) -> I64:
        """Of the packets of one direction, in capture order."""
        order, spans = self._places
        return order[spans[2 * conversation + direction]].astype(np.int64)

    def count(self, conversation: int) -> int:
        """Packets of a conversation."""
        spans = self._places[1][2 * conversation : 2 * conversation + 2]
        return sum(span.stop - span.start for span in spans)


def same_conversations(first: Indexed, second: Indexed) -> list[tuple[tuple[int, int], bool]]:
    """Rows of the same conversation in both, and whether its endpoints are named the other way round in the second.

    By the numbers and sizes of packets with payload, which addresses rewritten on the way do not touch;
    where these are rewritten, too, by the endpoints.
    """
    prints = [_prints(one) for one in (first, second)]
    _, at, other_at = np.intersect1d(prints[0][0], prints[1][0], return_indices=True)
    votes: Counter[tuple[int, int, bool]] = Counter()
    mine, theirs = prints[0][1][at], prints[1][1][other_at]
    turned = prints[0][2][at] != prints[1][2][other_at]
    for a, b, t in zip(mine.tolist(), theirs.tolist(), turned.tolist(), strict=True):
        votes[a, b, t] += 1
    out: list[tuple[tuple[int, int], bool]] = []
    done: tuple[set[int], set[int]] = set(), set()
    for (a, b, t), _ in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
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


def _prints(trace: Indexed) -> tuple[U64, I64, I64]:
    """Of some packets with payload of each conversation: a hash of their numbers, the conversation, the direction.

    Of many those whose hash is small, which are the same ones in both captures, whenever these begin.
    """
    p = trace.packets
    rows = np.flatnonzero(p.size > 0)
    hashes = _hash(_numbers(trace, rows, p.seq, own=True), p.size[rows].astype(np.int64))
    packets = np.bincount(p.conversation[rows], minlength=len(trace.conversations))
    share = np.minimum(_SOME / np.maximum(packets, 1), 1.0)[p.conversation[rows]]
    few = hashes.astype(np.float64) <= share * float(1 << 64)
    hashes, at = np.unique(hashes[few], return_index=True)
    rows = rows[few][at]
    return hashes, p.conversation[rows].astype(np.int64), p.direction[rows].astype(np.int64)


def _numbers(trace: Indexed, rows: I64, positions: I64, *, own: bool, from_syn: bool = False) -> I64:
    """Sequence numbers of positions in the packets' own direction, or in the other one; `from_syn`: from the SYN on."""
    if from_syn:
        return positions[rows]
    p = trace.packets
    way = p.direction[rows] if own else 1 - p.direction[rows]
    return np.asarray((trace.first[p.conversation[rows], way] + positions[rows]) % _NUMBERS, dtype=np.int64)


def _hash(*columns: I64) -> U64:
    out = np.zeros(len(columns[0]), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            out = (out ^ column.astype(np.uint64)) * _MIX
            out ^= out >> np.uint64(29)
    return out


def same_packets(traces: Sequence[Indexed], pair: tuple[int, int], turned: bool, way: int) -> tuple[I64, I64]:
    """Rows in both traces of the packets of one direction that are the same."""
    rows = traces[0].rows(pair[0], way), traces[1].rows(pair[1], 1 - way if turned else way)
    # By what tells copies of the same bytes apart, as long as most packets keep it.
    kept: tuple[I64, I64] = rows[0][:0], rows[1][:0]
    from_syn = counts_from_syn(traces, pair)
    for with_id in (True, False):
        keys = [_keys(trace, own, with_id=with_id, from_syn=from_syn) for trace, own in zip(traces, rows, strict=True)]
        _, a, b = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
        if len(a) > len(kept[0]):
            kept = rows[0][a], rows[1][b]
        if len(kept[0]) >= _MOST * min(map(len, rows)):
            break
    order = np.argsort(kept[0])
    return kept[0][order], kept[1][order]


def counts_from_syn(traces: Sequence[Trace | Indexed], pair: tuple[int, int]) -> bool:
    """Do both traces show both SYNs? Then positions are the same in both, even where a firewall rewrites numbers."""
    return all(way.saw_syn for trace, row in zip(traces, pair, strict=True) for way in trace.conversations[row].ways)


def shift_of(traces: Sequence[Trace | Indexed], pair: tuple[int, int], ways: tuple[int, int]) -> int:
    """What to add to positions of the second trace, direction ``ways[1]``, for those of the first's ``ways[0]``."""
    first = [trace.conversations[row].ways[way].first_seq for trace, row, way in zip(traces, pair, ways, strict=True)]
    return (first[1] - first[0] + _NUMBERS // 2) % _NUMBERS - _NUMBERS // 2


def _keys(trace: Indexed, rows: I64, *, with_id: bool, from_syn: bool) -> U64:
    """What a packet is known by; of several that are the same, the last ones of both traces are taken for each other:
    what was lost came before."""
    p = trace.packets
    ids = (p.ip_id[rows].astype(np.int64), p.ts_val[rows].astype(np.int64)) if with_id else ()
    keys = _hash(
        _numbers(trace, rows, p.seq, own=True, from_syn=from_syn),
        np.where(p.flags[rows] & ACK, _numbers(trace, rows, p.ack, own=False, from_syn=from_syn), -1),
        p.size[rows].astype(np.int64),
        p.flags[rows].astype(np.int64),
        *ids,
    )
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True) if len(ordered) else np.zeros(0, dtype=np.bool_)
    ends = np.flatnonzero(is_last)
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = ends[np.searchsorted(ends, np.arange(len(rows)))] - np.arange(len(rows))
    return _hash(keys.view(np.int64), rank)
