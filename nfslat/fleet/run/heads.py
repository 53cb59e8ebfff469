"""The first MiB of one capture in, what it shows of who calls NFS where out: small, and fit for another process."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import zlib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nfslat.decode import native
from nfslat.decode.blocks import decode
from nfslat.decode.tools import find_tools
from nfslat.errors import InputError, NfslatError, NoPacketsError
from nfslat.fleet.run import fetch, tails
from nfslat.fleet.run.capture import CaptureFacts, facts_of
from nfslat.fleet.run.inputs import Input
from nfslat.kernels.compiled import native as _native
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NFS
from nfslat.model.tables import I64, Ops
from nfslat.select import is_reverse, nfs_ways

_DEEPER = 8  # times as much is read where little was found
_FEW_OPS = 64
_MOST_SAMPLES = 256
_NO_PACKETS_BYTES = 4096  # as much may be in front of the first one
_ENOUGH_ROUND_TRIPS = 3
_CLEARLY = 2  # times as long
_AT_ONCE_NS = 100_000  # a kernel acknowledges in less; what takes longer may be a reply that somebody had to work for

_MIX = np.uint64(0x9E3779B97F4A7C15)

Ends = tuple[str, int, str, int]  # client's address and port, server's address and port


@dataclass(frozen=True)
class Pair:
    """A client and a server address between which NFS is called."""

    client: str
    server: str
    near: str = ""  # "client" or "server": the end from which the capture was taken; "" where that does not show


class Sample(NamedTuple):
    """One op, to be found again in the capture of the other side: there the same ones are chosen."""

    ends: Ends
    xid: int
    asks: int  # of what is asked: operation, file, offset, size
    srt_ns: int  # first byte to last byte, as this file shows it


@dataclass(frozen=True)
class Head:
    """What the beginning of a file shows. `first_ns` is None where there is no packet in it."""

    file: Input
    pairs: tuple[Pair, ...] = ()
    first_ns: int | None = None
    last_ns: int | None = None  # of the file where that is known, else of the head
    is_whole: bool = False  # the head is the whole file
    samples: tuple[Sample, ...] = ()
    problem: str = ""  # why it cannot be read
    facts: CaptureFacts | None = None  # of the whole file, where the head is that

    @property
    def clients(self) -> frozenset[str]:
        """Addresses that call NFS."""
        return frozenset(pair.client for pair in self.pairs)


def look(one: Input) -> Head:
    """Decode the first 2 MiB, or 16 where these show little. What cannot be read has a `problem`; nothing is raised."""
    with tempfile.TemporaryDirectory(prefix="nfslat-head-") as folder:
        try:
            found = _look(one, Path(folder), fetch.HEAD_BYTES)
            few = len(found.samples) < _FEW_OPS and len(found.clients) < 2
            if few and not found.is_whole and not found.problem:
                found = _look(one, Path(folder), _DEEPER * fetch.HEAD_BYTES)
        except NfslatError as problem:
            return Head(one, problem=problem.beside(one.name))
    return found


def _look(one: Input, folder: Path, size_bytes: int) -> Head:
    path = fetch.head(one, folder, size_bytes)
    # Of a tar there may be more captures.
    is_whole = one.size_bytes <= size_bytes and not one.is_tar
    tools = cache(lambda: find_tools(folder))
    try:
        source = native.open_source(str(path), tools, folder, rereads=False)
        source, decoded = decode(source, tools, lambda _: None)
    except NoPacketsError:
        if one.size_bytes > _NO_PACKETS_BYTES:
            raise InputError(
                f"no packet in its {one.size_bytes:,} bytes can be read; is it damaged?", about=one.name
            ) from None
        return Head(one, is_whole=is_whole)  # a rotated file that was just begun
    except NfslatError as problem:
        raise InputError(problem.beside(str(path)), about=one.name) from problem
    last_ns = decoded.last_ns if is_whole else _end_of(one, path, decoded, folder)
    head = Head(one, _pairs(decoded), decoded.first_ns, last_ns, is_whole, _samples(decoded.ops))
    if not is_whole or decoded.cut_short:
        return head
    return dataclasses.replace(head, facts=facts_of(source, decoded, len(decoded.ops), [one]))


def _end_of(one: Input, path: Path, decoded: Decoded, folder: Path) -> int:
    with path.open("rb") as stream:
        first = stream.read(tails.TAIL_BYTES)
    with contextlib.suppress(InputError, OSError, ValueError, _native.NotACapture):
        for size in (tails.SHORT_BYTES, tails.TAIL_BYTES) if tails.can_tell(first) else ():
            if (last := tails.last_packet(first, fetch.tail(one, size))) is not None:
                (folder / "last").write_bytes(last)
                return max(decoded.last_ns, _native.peek(folder / "last")[1] or 0)
    return decoded.last_ns


def _pairs(decoded: Decoded) -> tuple[Pair, ...]:
    """Who calls NFS where; callbacks are not calls of NFS."""
    ops, loose = decoded.ops, decoded.loose
    ways = nfs_ways(ops)
    # Calls that wait for their replies: of long ones there may be nothing else in a head.
    rows = np.flatnonzero((loose.is_reply == 0) & (loose.kind >= 0))
    for conn, way, kind in {(int(loose.conn[r]), int(loose.direction[r]), int(loose.kind[r])) for r in rows}:
        if loose.kinds[kind].program == NFS:
            ways[conn, way] = loose.connections[conn].source(way)[0], loose.connections[conn].destination(way)[0]
    shortest: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    samples: dict[tuple[str, str], int] = defaultdict(int)
    tcp = decoded.details.tcp
    for row in range(len(tcp)):
        conn, way, rtt_ns = int(tcp.conn[row]), int(tcp.direction[row]), int(tcp.rtt_min_ns[row])
        if not tcp.rtt_count[row] or rtt_ns < 0:
            continue
        for calls_way in (0, 1):
            pair = ways.get((conn, calls_way))
            if pair is not None:
                # Data that the client sends come back acknowledged by the server: the way to the server and back.
                end = "server" if way == calls_way else "client"
                shortest[pair][end] = min(rtt_ns, shortest[pair].get(end, rtt_ns))
                samples[pair] += int(tcp.rtt_count[row])
    return tuple(Pair(*pair, _near(shortest[pair], samples[pair])) for pair in sorted({*ways.values()}))


def _near(round_trips: dict[str, int], samples: int) -> str:
    """The end that is clearly nearer to where the capture was taken."""
    if len(round_trips) < 2 or samples < _ENOUGH_ROUND_TRIPS:
        return ""
    near, far = sorted(round_trips, key=lambda end: round_trips[end])
    is_near = round_trips[near] <= _AT_ONCE_NS and round_trips[far] > _CLEARLY * max(round_trips[near], 1000)
    return near if is_near else ""


def _samples(ops: Ops) -> tuple[Sample, ...]:
    forward = ~ops.spread(is_reverse(ops)) if len(ops) else np.zeros(0, dtype=np.bool_)
    nfs = np.array([kind.program == NFS for kind in ops.kinds], dtype=np.bool_)
    rows: I64 = (
        np.flatnonzero(forward & nfs[ops.kind] & (ops.t0 >= 0) & (ops.t3 >= 0)) if len(ops) else np.zeros(0, int)
    )
    # By a hash of the XID: so both sides choose the same ones, whatever else their heads hold.
    keys = (ops.xid[rows].astype(np.uint64) * _MIX) >> np.uint64(20)
    rows = rows[np.argsort(keys, kind="stable")[:_MOST_SAMPLES]]
    asks = np.array([zlib.crc32(repr(kind[:4]).encode()) for kind in ops.kinds], dtype=np.uint64)[ops.kind[rows]]
    for column in (ops.fh, ops.offset, ops.size):
        asks = (asks ^ column[rows].astype(np.uint64)) * _MIX
    ways = [[(*one.source(way), *one.destination(way)) for way in (0, 1)] for one in ops.connections]
    columns = ops.conn[rows], ops.direction[rows], ops.xid[rows], asks, ops.t3[rows] - ops.t0[rows]
    return tuple(
        Sample(ways[conn][way], *told) for conn, way, *told in zip(*(one.tolist() for one in columns), strict=True)
    )
