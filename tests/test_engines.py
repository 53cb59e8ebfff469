"""The native decoder against the one that asks tshark, capture by capture: the same, or as engine_differences.md says.

The table there is part of this test: a capture that is not in it has no difference at all, the others have those that
are written down. Where a difference changes, the failure shows the line as it would have to be.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path

import kept_answers
import pytest
from captures import SAMPLES, WITH_NFS, Decoder, asked, name_of

from nfslat.results import Side

CAPTURES = WITH_NFS + [path for path in SAMPLES if path not in WITH_NFS]
_EACH = asked(CAPTURES)
_TABLE = (Path(__file__).parent / "engine_differences.md").read_text()


def _line(path: Path, native: Side, tshark: Side) -> str:
    """The two engines on one capture as a line of the table; a number for both, or native's and tshark's."""
    cells = kept_answers.cells(native.decoded, tshark.decoded)
    return f"| {' | '.join([_label(path), *cells])} |"


def _label(path: Path) -> str:
    side = path.name.split(".")[0]
    return f"{name_of(path)} {side}" if side in ("server", "client") else name_of(path)


def _written(path: Path) -> str | None:
    """The line of the table on this capture; one without "client" or "server" stands for both."""
    lines = {line.split("|")[1].strip(): line for line in _TABLE.splitlines() if line.startswith("| ")}
    both = lines.get(name_of(path))
    return lines.get(_label(path)) or (both and both.replace(f"| {name_of(path)} |", f"| {_label(path)} |"))


@pytest.mark.parametrize("path", _EACH)
def test_both_engines_make_the_same_of_a_capture(path: Path, decoder: Decoder) -> None:
    """Every op that tshark shows is found by the native engine, in the same order, with the same arguments, instants,
    frames and transmissions, and every message ends in the same state; the exceptions stand in the table."""
    native, tshark = decoder.side("native", path), decoder.side("tshark", path)
    line, written = _line(path, native, tshark), _written(path)
    if written is not None:
        assert line == written
    else:
        assert " / " not in line
        assert line.endswith("| - | - |")


@pytest.mark.parametrize("path", _EACH)
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


@pytest.mark.parametrize("path", [each for each in _EACH if _has_more(each.values[0])])
def test_what_only_the_native_engine_finds_stands_in_the_packets(path: Path, decoder: Decoder) -> None:
    """In the frames that it names for a call or reply beyond tshark's are the bytes of that very header."""
    native = decoder.side("native", path).ops
    rows = kept_answers.compared(native, decoder.side("tshark", path).ops).only_native
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
