"""The native decoder against the one that asks tshark, capture by capture: the same, or as docs/engines.md says.

The table there is part of this test: a capture that is not in it has no difference at all, the others have those that
are written down. Where a difference changes, the failure shows the line as it would have to be.
"""

from __future__ import annotations

import gzip
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from captures import SAMPLES, WITH_NFS, Decoder, id_of, name_of, needs_native

from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import Ops, State
from nfslat.results import Side

pytestmark = needs_native

CAPTURES = WITH_NFS + [path for path in SAMPLES if path not in WITH_NFS]
_TABLE = (Path(__file__).parents[1] / "docs" / "engines.md").read_text().split("## Capture by capture")[1]
_COMPOUND = 1  # all that is known of an op whose operations were not shown

# Everything that is known of an op but status and accept, which tshark is not asked for.
_COLUMNS = (
    *("offset", "size", "fh", "transmissions", "t0", "t1", "t2", "t3", "whole", "shown_call_ns", "shown_reply_ns"),
    *("call_first_frame", "call_last_frame", "reply_first_frame", "reply_last_frame"),
)
_STATES = [state for state in State if state is not State.PAIRED]


class _Key(NamedTuple):
    """What the ops of both engines are joined by; several with one key are compared in their order."""

    connection: tuple[str, tuple[str, int], tuple[str, int]]
    sender: tuple[str, int]
    xid: int


_Op = dict[str, object]


def _keys(ops: Ops) -> list[_Key]:
    rows = zip(ops.conn.tolist(), ops.direction.tolist(), ops.xid.tolist(), strict=True)
    return [_Key(ops.connections[c].key, ops.connections[c].source(way), xid) for c, way, xid in rows]


def _values(ops: Ops) -> list[_Op]:
    columns = {name: getattr(ops, name).tolist() for name in _COLUMNS}
    kinds = [ops.kinds[kind][:4] for kind in ops.kind.tolist()]
    return [{"kind": kind, **{name: columns[name][row] for name in _COLUMNS}} for row, kind in enumerate(kinds)]


def _is_unknown(name: str, value: object) -> bool:
    if name == "kind":
        return isinstance(value, tuple) and value[1:2] == (4,) and value[3] == _COMPOUND
    return name in ("offset", "size", "fh") and value in (NULL, NULL32)


def _compared(native: Ops, tshark: Ops) -> tuple[list[int], Counter[str], Counter[str]]:
    """Rows of ops that only `native` has; fields that only it knows; fields in which the two contradict each other."""
    keys, rows = _keys(native), _values(native)
    by_key: dict[_Key, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        by_key[key].append(row)
    unknown: Counter[str] = Counter()
    different: Counter[str] = Counter()
    common = []
    for key, theirs in zip(_keys(tshark), _values(tshark), strict=True):
        assert by_key[key], f"only tshark has {key}"
        common.append(by_key[key].pop(0))
        ours = rows[common[-1]]
        for name, value in theirs.items():
            if ours[name] != value:
                (unknown if _is_unknown(name, value) else different)[name] += 1
    assert common == sorted(common), "the ops are not in the same order"
    return sorted(set(range(len(keys))) - set(common)), unknown, different


def _line(path: Path, native: Side, tshark: Side) -> str:
    """The two engines on one capture as a line of the table; a number for both, or native's and tshark's."""
    _, unknown, different = _compared(native.ops, tshark.ops)
    states = [(side.decoded.states, len(side.ops)) for side in (native, tshark)]
    counts = [(states[0][1], states[1][1]), *((states[0][0][state], states[1][0][state]) for state in _STATES)]
    cells = [str(ours) if ours == theirs else f"{ours} / {theirs}" for ours, theirs in counts]
    for found in (unknown, different):
        cells.append(", ".join(f"{name} {count}" for name, count in sorted(found.items())) or "-")
    return f"| {' | '.join([_label(path), *cells])} |"


def _label(path: Path) -> str:
    side = path.name.split(".")[0]
    return f"{name_of(path)} {side}" if side in ("server", "client") else name_of(path)


def _written(path: Path) -> str | None:
    """The line of the table on this capture; one without "client" or "server" stands for both."""
    lines = {line.split("|")[1].strip(): line for line in _TABLE.splitlines() if line.startswith("| ")}
    both = lines.get(name_of(path))
    return lines.get(_label(path)) or (both and both.replace(f"| {name_of(path)} |", f"| {_label(path)} |"))


@pytest.mark.parametrize("path", CAPTURES, ids=id_of)
def test_both_engines_make_the_same_of_a_capture(path: Path, decoder: Decoder) -> None:
    """Every op that tshark shows is found by the native engine, in the same order, with the same arguments, instants,
    frames and transmissions, and every message ends in the same state; the exceptions stand in docs/engines.md."""
    native, tshark = decoder.side("native", path), decoder.side("tshark", path)
    line, written = _line(path, native, tshark), _written(path)
    if written is not None:
        assert line == written
    else:
        assert " / " not in line
        assert line.endswith("| - | - |")


@pytest.mark.parametrize("path", CAPTURES, ids=id_of)
def test_both_engines_see_the_same_file_and_the_same_gaps(path: Path, decoder: Decoder) -> None:
    """Packets, format, snaplen, times, what the capture lost, and clocks that go backwards: both say the same."""
    native, tshark = decoder.side("native", path), decoder.side("tshark", path)
    for ours, theirs in zip(native.source.files, tshark.source.files, strict=True):
        for name in ("packets", "format", "snaplen", "first_ns", "last_ns", "cut_short"):
            assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("lost_ranges", "lost_bytes", "backward_times", "tls_connections", "first_ns", "last_ns"):
        assert getattr(native.decoded, name) == getattr(tshark.decoded, name), name
    assert sum(native.decoded.packet_kinds.values()) == sum(tshark.decoded.packet_kinds.values())


def _has_more(path: Path) -> bool:
    """Does the native engine find more ops, by the table?"""
    return "/" in (_written(path) or "||").split("|")[2]


@pytest.mark.parametrize("path", [path for path in CAPTURES if _has_more(path)], ids=id_of)
def test_what_only_the_native_engine_finds_stands_in_the_packets(path: Path, decoder: Decoder) -> None:
    """In the frames that it names for a call or reply beyond tshark's are the bytes of that very header."""
    native = decoder.side("native", path).ops
    rows, _, _ = _compared(native, decoder.side("tshark", path).ops)
    frames = dict(enumerate(_frames(path), 1))
    for row in rows:
        xid = int(native.xid[row])
        program, version = native.kinds[native.kind[row]][:2]
        for first, last, header in (
            (native.call_first_frame, native.call_last_frame, struct.pack(">5I", xid, 0, 2, program, version)),
            (native.reply_first_frame, native.reply_last_frame, struct.pack(">5I", xid, 1, 0, 0, 0)),
        ):
            # In the last one where the record mark in front of it ends a segment.
            assert any(header in frames[int(frame[row])] for frame in (first, last)), hex(xid)


def _frames(path: Path) -> Iterator[bytes]:
    """The packets of a little-endian pcap file, read without nfslat and without tshark."""
    data, at = gzip.decompress(path.read_bytes()), 24
    assert data[:4] == struct.pack("<I", 0xA1B2C3D4)
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


@pytest.mark.skipif(WITH_NFS[0] in SAMPLES, reason="no captures at ../shared: the table is on more than there is")
def test_the_table_names_captures_that_are_there() -> None:
    """No line of the table is on a capture that was taken away or renamed."""
    known = {name for path in CAPTURES for name in (name_of(path), _label(path))}
    lines = {line.split("|")[1].strip() for line in _TABLE.splitlines() if line.startswith("| ")}
    assert lines - {"capture", "---"} <= known
