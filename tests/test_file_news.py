"""Calls and replies, written by hand and real ones, in; who called, and which file handle is which name, out."""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import wire
from captures import SHARED, WITH_NFS, Decoder, id_of, needs_captures

from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.model.decoded import Decoded
from nfslat.model.details import FileEvent
from nfslat.model.protocol import NULL32
from nfslat.model.tables import Ops

DIR, FILE, OTHER = b"a directory", b"a file that is there", b"another directory"
READS_AND_WRITES = {(2, 6), (2, 8), (3, 6), (3, 7), (4, 25), (4, 38)}
Known = bytes | None


def _opaque(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def _ints(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _caller(uid: int) -> bytes:
    return _ints(1) + _opaque(_ints(77) + _opaque(b"client") + _ints(uid, 100, 2, 4, 20))


def _decoded(folder: Path, *flows: wire.Tcp | wire.Udp, snaplen: int = 262_144) -> Decoded:
    def no_tools() -> NoReturn:
        raise AssertionError("Wireshark's tools are not needed for this")

    path = wire.write_pcap(folder / "made.pcap", *(flow.seen_by("client") for flow in flows), snaplen=snaplen)
    engine = choose("native", no_tools, folder, rereads=False)
    return engine.decode(engine.open(str(path)), lambda _: None)[1]


def _rows(decoded: Decoded) -> list[tuple[int, FileEvent, Known, Known, Known]]:
    """Op, event, directory, name and handle."""
    files = decoded.details.files
    return [
        (
            int(files.op[row]),
            FileEvent(files.event[row]),
            _known(files.handles, files.directory[row]),
            _known(files.names, files.name[row]),
            _known(files.handles, files.handle[row]),
        )
        for row in range(len(files))
    ]


def _known(strings: tuple[bytes, ...], row: int) -> Known:
    return None if row < 0 else strings[row]


def _lookup(xid: int, name: bytes, cred: bytes = wire.AUTH_SYS) -> bytes:
    return wire.call(xid, wire.NFS, 3, 3, _opaque(DIR) + _opaque(name), cred=cred)


def _found(xid: int, handle: bytes) -> bytes:
    return wire.reply(xid, _ints(0) + _opaque(handle) + _ints(0, 0))


def _listing(xid: int, count: int) -> bytes:
    """Results of READDIRPLUS: files "0", "1" ..., each with its handle."""
    entries = b"".join(
        _ints(1, 0, 7) + _opaque(b"%d" % number) + _ints(0, 9, 0, 1) + _opaque(b"handle %d" % number)
        for number in range(count)
    )
    return wire.reply(xid, _ints(0, 0, 0, 0) + entries + _ints(0, 1))


def test_callers(tmp_path: Path) -> None:
    """Each op has the uid of its call's AUTH_SYS credential, in the order of the ops; without one it has none."""
    tcp = wire.Tcp()
    for number, cred in enumerate([_caller(1001), wire.AUTH_NONE, _caller(0)]):
        tcp.send(number, ">", _lookup(number, b"x", cred))
    for number in (2, 0, 1):
        tcp.send(5, "<", _found(number, FILE))
    assert _decoded(tmp_path, tcp).details.callers.uid.tolist() == [1001, NULL32, 0]


def test_news_are_in_the_order_of_the_replies(tmp_path: Path) -> None:
    """What LOOKUP, RENAME and REMOVE say comes in the order in which it was said; a failure says nothing."""
    tcp = wire.Tcp()
    tcp.send(0, ">", _lookup(1, b"slow"))
    tcp.send(1, ">", _lookup(2, b"missing"))
    tcp.send(2, ">", wire.rename(3, DIR, OTHER))
    tcp.send(3, ">", wire.call(4, wire.NFS, 3, 12, _opaque(DIR) + _opaque(b"gone")))
    tcp.send(4, "<", wire.reply(4, _ints(0, 0, 0)))
    tcp.send(5, "<", wire.reply(2, _ints(2, 0)))
    tcp.send(6, "<", wire.reply(3, wire.RENAME3))
    tcp.send(7, "<", _found(1, FILE))
    decoded = _decoded(tmp_path, tcp)
    assert _rows(decoded) == [
        (3, FileEvent.REMOVED, DIR, b"gone", None),
        (2, FileEvent.RENAMED, DIR, b"old", None),
        (0, FileEvent.FOUND, DIR, b"slow", FILE),
    ]
    files = decoded.details.files
    assert (files.handles[files.to_directory[1]], files.names[files.to_name[1]]) == (OTHER, b"new")
    assert files.t_ns.tolist() == decoded.ops.t2[files.op].tolist()


@pytest.mark.parametrize("size", [1448, 77], ids=["segments", "small segments"])
def test_long_listing(tmp_path: Path, size: int) -> None:
    """All of a READDIRPLUS reply is read, over however many segments it comes."""
    tcp, listing = wire.Tcp(), _listing(1, 900)
    tcp.send(0, ">", wire.call(1, wire.NFS, 3, 17, _opaque(DIR) + _ints(0, 0, 0, 0, 8192, 65536)))
    tcp.send(1, "<", listing, cut=[size] * (len(listing) // size))
    expected = [(0, FileEvent.FOUND, DIR, b"%d" % number, b"handle %d" % number) for number in range(900)]
    assert _rows(_decoded(tmp_path, tcp)) == expected


def test_mount_and_version_2_over_udp(tmp_path: Path) -> None:
    """MNT says the handle of an export; NFSv2 says names in handles of 32 bytes."""
    mount, nfs = wire.Udp(server=("10.0.0.2", 635)), wire.Udp()
    mount.send(0, ">", wire.call(1, wire.MOUNT, 1, 1, _opaque(b"/export")))
    mount.send(1, "<", wire.reply(1, _ints(0) + wire.FH))
    nfs.send(2, ">", wire.call(2, wire.NFS, 2, 4, wire.FH + _opaque(b"name")))
    nfs.send(3, "<", wire.reply(2, _ints(0) + wire.OTHER_FH + bytes(68)))
    assert _rows(_decoded(tmp_path, mount, nfs)) == [
        (0, FileEvent.ROOT, None, b"/export", wire.FH),
        (1, FileEvent.FOUND, wire.FH, b"name", wire.OTHER_FH),
    ]


def test_version_4_from_the_root(tmp_path: Path) -> None:
    """A COMPOUND is walked beside its reply: names without a handle in between are one path, from the root or not."""
    tcp, getfh = wire.Tcp(), _ints(10)
    lookups = [_ints(15) + _opaque(name) for name in (b"srv", b"export", b"a", b"b")]
    results = [_ints(15, 0)] * 2
    tcp.send(0, ">", wire.compound(1, wire.v4_sequence(), _ints(24), *lookups[:2], getfh, *lookups[2:], getfh))
    got = [_ints(10, 0) + _opaque(handle) for handle in (DIR, FILE)]
    ok = wire.v4_results(wire.V4_SEQUENCE_OK, _ints(24, 0), *results, got[0], *results, got[1])
    tcp.send(1, "<", wire.reply(1, ok))
    assert _rows(_decoded(tmp_path, tcp)) == [
        (0, FileEvent.ROOT, None, b"/srv/export", DIR),
        (0, FileEvent.FOUND, DIR, b"a/b", FILE),
    ]


def test_short_snaplen(tmp_path: Path) -> None:
    """Where packets are cut, what was captured is told, and nothing is where the status was not."""
    tcp = wire.Tcp()
    tcp.send(0, ">", _lookup(1, b"name"))
    tcp.send(1, "<", _found(1, FILE))
    headers = 14 + 20 + 20 + 4
    assert _rows(_decoded(tmp_path, tcp, snaplen=headers + 24)) == []
    # Handle and name are cut off the call.
    assert _rows(_decoded(tmp_path, tcp, snaplen=headers + 24 + 4 + 32)) == []
    decoded = _decoded(tmp_path, tcp, snaplen=headers + len(_lookup(1, b"name")))
    assert _rows(decoded) == [(0, FileEvent.FOUND, DIR, b"name", FILE)]


@needs_captures
@pytest.mark.parametrize("path", WITH_NFS, ids=id_of)
def test_real_captures(path: Path, decoder: Decoder) -> None:
    """Every op has a caller, news are in the order of the replies of ops that succeeded, and all handles are hashed."""
    decoded = decoder.side("native", path).decoded
    files, ops = decoded.details.files, decoded.ops
    assert len(decoded.details.callers) == len(ops)
    assert (np.diff(files.t_ns) >= 0).all()
    assert (files.t_ns == ops.t2[files.op]).all()
    assert decoded.details.files_dropped == 0
    versions = np.array([kind.version for kind in ops.kinds] or [0])[ops.kind[files.op]]
    # A COMPOUND may have failed behind what it says; MOUNT's status is not in the table.
    assert np.isin(ops.status[files.op][versions == 3], [0, -1]).all()


@needs_captures
@pytest.mark.parametrize("scenario", ["h_v3_metadata", "h_v42_metadata", "a_v3_baseline", "f_v41_baseline"])
def test_every_read_and_write_of_the_lab_has_a_name(scenario: str, decoder: Decoder) -> None:
    """CRC-32 of the handles that were named are the `fh` of all READs and WRITEs, so that each has a name."""
    decoded = decoder.side("native", SHARED / "lab" / scenario / "client.pcap.gz").decoded
    files = decoded.details.files
    named = {zlib.crc32(files.handles[row]) for row in files.handle if row >= 0}
    rows = _reads_and_writes(decoded.ops)
    assert len(rows) > 200
    assert set(decoded.ops.fh[rows].tolist()) <= named


def _reads_and_writes(ops: Ops) -> np.ndarray:
    wanted = np.array([(kind.version, kind.op) in READS_AND_WRITES for kind in ops.kinds])
    return np.flatnonzero(wanted[ops.kind])


@needs_captures
@pytest.mark.parametrize("scenario", [pytest.param("h_v3_metadata", marks=pytest.mark.long), "h_v42_metadata"])
def test_against_tshark(scenario: str, decoder: Decoder, tools: Tools) -> None:
    """tshark sees the same handles in the whole capture, the same handle in each reply that is about one, and uids."""
    path = SHARED / "lab" / scenario / "client.pcap.gz"
    decoded = decoder.side("native", path).decoded
    files, ops = decoded.details.files, decoded.ops
    fields = ["rpc.xid", "rpc.msgtyp", "rpc.auth.uid", "nfs.fh.hash", "nfs.name", "nfs.pathname.component"]
    command = [tools.tshark, "-r", str(path), "-Y", "nfs", "-T", "fields", "-E", "separator=/t"]
    command += [word for field in fields for word in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=tools.environment)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    uid_of = {int(xid, 16): int(uid) for xid, kind, uid, *_ in lines if kind == "0" and uid}
    for xid, uid in zip(ops.xid.tolist(), decoded.details.callers.uid.tolist(), strict=True):
        assert uid == uid_of.get(xid, uid)
    assert len(uid_of) > 1600

    seen = {int(one, 16) for _, _, _, hashes, *_ in lines for one in hashes.split(",") if one}
    assert {zlib.crc32(handle) for handle in files.handles} == seen

    replies = {int(xid, 16): hashes for xid, kind, _, hashes, *_ in lines if kind == "1"}
    names = {int(xid, 16): older or newer for xid, kind, _, _, older, newer in lines if kind == "0"}
    ours = {
        int(ops.xid[op]): (files.names[name].decode(), zlib.crc32(files.handles[handle]))
        for op, event, name, handle in zip(files.op, files.event, files.name, files.handle, strict=True)
        if event == FileEvent.FOUND and handle >= 0 and names.get(int(ops.xid[op]))
    }
    theirs = {xid: (names[xid].split(",")[-1], int(replies[xid].split(",")[-1], 16)) for xid in ours}
    assert ours == theirs
    assert len(ours) > 200
