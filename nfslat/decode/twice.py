"""A capture in which packets are twice, far apart -> the captures of two hosts that it was made of, or one.

Where somebody merged the captures of both hosts into one file, and their clocks differ, each packet is in it twice,
and the second one looks like a retransmission. But a sender numbers its packets (the IP identification), and TCP
dates them (RFC 7323): what is sent again has other numbers. So packets that are alike in these, in sequence number,
ACK and flags are one packet, however far apart they are.

Which of the two hosts saw which is told by the interfaces, where the file has them (mergecap of pcapng). Else there
are two ways: one clock is ahead of the other by more than packets are under way, and all first copies are one host's;
or the clocks agree, and who sends has the first one. In one of them only no host acknowledges what it has yet to see.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import structs

from nfslat.decode.capture import Source
from nfslat.decode.native import open_source
from nfslat.decode.tools import Tools, find_tools
from nfslat.errors import InputError
from nfslat.kernels.compiled import native as _native
from nfslat.model.decoded import Decoded
from nfslat.model.record import Record
from nfslat.model.tables import I8, I64, U8, U32, U64, Bool, State, Table

_LEAST_SHARE = (
    0.5  # of the packets, which are twice: no path loses half of them, and no sender gives old numbers to so many
)
_LEAST_COPIES = 20
_SUSPECTED = 0.25  # of the data, which seem to be sent again
_LEAST_APART_NS = 2_000_000  # copies that are nearer are told by the decoder (native/src/copies.rs), and ...
_REMEMBERED = 64  # with no more packets in between
_LOOKED_AT = 1 << 16  # packets, of the first ones
_JITTER_NS = 20_000_000  # by which two packets behind each other may be on their way for longer
_STEADY = 0.8  # of the copies, which come as long after the first ones as those before
_BY_INTERFACE = 0.95
_CONTRADICTED = 0.01  # of the ACKs
_FIRST, _SECOND, _NEITHER = 0, 1, 2
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Prints(Table):
    """A row for each packet of a capture, in the order of time."""

    print: U64  # the same for packets that are alike; 0: nothing tells it from others
    t_ns: I64
    of: U64  # its connection
    direction: I8
    point: U32  # the interface
    end: U32  # of TCP, the number behind its last byte, and what it acknowledges, where it does
    ack: U32
    has_ack: U8


class Parted(Record):
    """What a capture was made of: two captures, or one without copies; and that, in words."""

    sources: tuple[Source, ...]
    says: str


def is_suspected(decoded: Decoded) -> bool:
    """Is so much sent again, as it seems, that it may be there twice?"""
    tcp, states = decoded.details.tcp, decoded.states
    return (
        is_much(int(tcp.retransmissions.sum()), int(tcp.data_packets.sum()))
        or is_much(states[State.RETRANSMITTED], decoded.messages)
        or is_much(decoded.duplicate_packets, sum(decoded.packet_kinds.values()))
    )


def is_much(again: int, sent: int) -> bool:
    """Of packets with data, or messages: do so many seem to be sent again?"""
    return again >= _LEAST_COPIES and again >= _SUSPECTED * sent


def parted(source: Source, tools: Callable[[], Tools], scratch: Path) -> Parted | None:
    """What `source` was made of, as files in `scratch`; None where it is one capture as good as any, or cannot be read
    once more."""
    if source.stored or any(file.is_foreign or not file.path.is_file() for file in source.files):
        return None
    paths = [str(file.path) for file in source.files]
    # Most captures that have packets twice are of several interfaces of one host, and soon tell that.
    rows = Prints(**_native.prints(paths, _native.Job(), _LOOKED_AT))
    first, second = _copies(rows)
    if len(first) >= _LEAST_COPIES and _is_near(rows, first, second):
        return None
    if len(rows) >= _LOOKED_AT:
        rows = Prints(**_native.prints(paths, _native.Job()))
        first, second = _copies(rows)
    known = int(np.count_nonzero(rows.print))
    if len(first) < _LEAST_COPIES or 2 * len(first) < _LEAST_SHARE * known:
        return None
    apart_ns = rows.t_ns[second] - rows.t_ns[first]
    if not apart_ns.any() and np.median(second - first) <= _REMEMBERED:
        return None
    if not apart_ns.any():
        shares = np.full(len(rows), _FIRST, dtype=np.uint8)
        shares[second] = _NEITHER
        says = f"{source.name} holds {len(first):,} packets twice, with the same times: each counts once"
        return Parted(_written(paths, shares, (source.name,), says, tools, scratch), says)
    medians = [int(np.median(of_way)) for way in (0, 1) if len(of_way := apart_ns[rows.direction[first] == way])]
    if max(map(abs, medians)) < _LEAST_APART_NS or not _is_steady(rows, first, apart_ns):
        return None
    found = _shares(rows, first, second)
    what = (
        f"{source.name} holds the captures of two hosts: {len(first):,} of {len(rows) - len(second):,} packets are in "
        f"it twice, {_span(int(np.median(apart_ns)))} apart"
    )
    if found is None:
        return Parted((), f"{what}. What is whose cannot be told: give each host's capture by itself")
    shares, how = found
    names = f"{source.name} [1]", f"{source.name} [2]"
    says = f"{what}. They were told apart by {how}, and are compared; frame numbers count in each of the two"
    return Parted(_written(paths, shares, names, says, tools, scratch), says)


def _is_near(rows: Prints, first: I64, second: I64) -> bool:
    """Does the decoder tell copies that are so near to each other?"""
    apart_ns = np.abs(rows.t_ns[second] - rows.t_ns[first])
    return bool(np.median(apart_ns) < _LEAST_APART_NS and np.median(second - first) <= _REMEMBERED)


def refuse_two_hosts(found: Parted) -> None:
    """Raise ``InputError`` where a capture that is given beside another one holds those of two hosts."""
    if len(found.sources) != 1:
        raise InputError(f"{found.says.split('. ')[0]}: give this file alone, or each host's capture by itself")


def refuse_merged(source: Source, decoded: Iterable[Decoded]) -> None:
    """Raise ``InputError`` where a capture, of which these parts are decoded, holds those of two hosts, and what reads
    it does not take it apart."""
    if not any(map(is_suspected, decoded)):
        return
    with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
        found = parted(source, partial(find_tools, Path(scratch)), Path(scratch))
    if found is not None and len(found.sources) != 1:
        raise InputError(f"{found.says.split('. ')[0]}: `nfslat` takes it apart; here give each host's by itself")


def refuse_unparted(found: Parted) -> None:
    """Raise ``InputError`` where it holds those of two hosts, and cannot be taken apart."""
    if not found.sources:
        raise InputError(found.says)


def _written(
    paths: list[str], shares: U8, names: tuple[str, ...], says: str, tools: Callable[[], Tools], scratch: Path
) -> tuple[Source, ...]:
    outs = [scratch / f"host-{number}.pcapng" for number in range(1, len(names) + 1)]
    _native.share_out(paths, [str(out) for out in outs], shares, _native.Job())
    return tuple(
        _named(open_source(str(out), tools, scratch, rereads=False), name, says)
        for out, name in zip(outs, names, strict=True)
    )


def _named(source: Source, name: str, says: str) -> Source:
    files = tuple(structs.replace(file, name=name) for file in source.files)
    return structs.replace(source, name=name, files=files, made_from=says)


def _copies(rows: Prints) -> tuple[I64, I64]:
    """Rows of packets that are there twice: the first one, and the second one."""
    at = np.flatnonzero(rows.print)
    order = at[np.argsort(rows.print[at], kind="stable")]
    prints = rows.print[order]
    is_next = np.zeros(len(order), dtype=np.bool_)
    is_next[1:] = prints[1:] == prints[:-1]
    is_second = is_next.copy()
    is_second[1:] &= ~is_next[:-1]
    second = np.flatnonzero(is_second)
    found = np.argsort(order[second - 1], kind="stable")
    return order[second - 1][found].astype(np.int64), order[second][found].astype(np.int64)


def _is_steady(rows: Prints, first: I64, apart_ns: I64) -> bool:
    """Are two copies as far apart as the two before, in each direction?"""
    steps = [np.diff(apart_ns[rows.direction[first] == way]) for way in (0, 1)]
    all_steps = np.concatenate(steps)
    return bool(np.count_nonzero(np.abs(all_steps) <= _JITTER_NS) >= _STEADY * max(len(all_steps), 1))


def _shares(rows: Prints, first: I64, second: I64) -> tuple[U8, str] | None:
    """Whose each packet is, and what tells that; None: it cannot be told."""
    points = rows.point[first], rows.point[second]
    both = np.unique(np.concatenate(points))
    if len(both) == 2 and np.count_nonzero(points[0] != points[1]) >= _BY_INTERFACE * len(first):
        shares = np.where(rows.point == both[0], _FIRST, np.where(rows.point == both[1], _SECOND, _NEITHER))
        return shares.astype(np.uint8), "the interfaces of the file"
    by_sender = _by_order(rows, first, second, rows.direction[first] == 1)
    by_clock = _by_order(rows, first, second, np.zeros(len(first), dtype=np.bool_))
    for shares in (by_sender, by_clock):
        if _contradicted(rows, shares) <= _CONTRADICTED:
            return shares, "the order of the copies"
    return None


def _by_order(rows: Prints, first: I64, second: I64, is_turned: Bool) -> U8:
    """Of two copies the first one is the first host's, where that is not turned. A packet that is there once is that
    host's whose packets beside it, in its direction, have the nearest numbers."""
    shares = np.full(len(rows), _NEITHER, dtype=np.uint8)
    shares[first] = np.where(is_turned, _SECOND, _FIRST)
    shares[second] = np.where(is_turned, _FIRST, _SECOND)
    alone = np.flatnonzero((shares == _NEITHER) & (rows.print != 0))
    away = np.stack([_away(rows, np.flatnonzero(shares == share), alone) for share in (_FIRST, _SECOND)])
    shares[alone] = np.where(away[1] < away[0], _SECOND, _FIRST)
    return shares


def _away(rows: Prints, of_host: I64, alone: I64) -> I64:
    """By how much the numbers of packets differ from those of the next one of a host, in their direction."""
    ways = rows.of + rows.direction.astype(np.uint64)
    out = np.full(len(alone), np.iinfo(np.int64).max)
    for way in np.unique(ways[alone]):
        own, wanted = of_host[ways[of_host] == way], np.flatnonzero(ways[alone] == way)
        if not len(own):
            continue
        at = np.searchsorted(own, alone[wanted])
        for beside in (np.maximum(at - 1, 0), np.minimum(at, len(own) - 1)):
            step = (rows.end[own[beside]] - rows.end[alone[wanted]]).astype(np.int32)
            out[wanted] = np.minimum(out[wanted], np.abs(step.astype(np.int64)))
    return out


def _contradicted(rows: Prints, shares: U8) -> float:
    """Share of the ACKs that came before what they acknowledge, by the times of their host."""
    early = known = 0
    for share in (_FIRST, _SECOND):
        of_host = shares == share
        data, acks = np.flatnonzero(of_host), np.flatnonzero(of_host & (rows.has_ack != 0))
        sent = _keys(rows.of[data], rows.direction[data], rows.end[data])
        heard = _keys(rows.of[acks], 1 - rows.direction[acks], rows.ack[acks])
        _, at_sent = np.unique(sent, return_index=True)
        _, at_heard = np.unique(heard, return_index=True)
        _, one, other = np.intersect1d(sent[at_sent], heard[at_heard], assume_unique=True, return_indices=True)
        before = rows.t_ns[acks[at_heard[other]]] < rows.t_ns[data[at_sent[one]]]
        early, known = early + int(np.count_nonzero(before)), known + len(before)
    return early / max(known, 1)


def _keys(of: U64, direction: I8, number: U32) -> U64:
    keys: U64 = (of ^ (direction.astype(np.uint64) << np.uint64(63))) + number.astype(np.uint64) * _ODD
    return keys


def _span(ns: int) -> str:
    return f"{abs(ns) / 1e9:.3g} s" if abs(ns) >= 10**9 else f"{abs(ns) / 1e6:.3g} ms"
