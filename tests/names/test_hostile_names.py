"""Captures of servers and clients that are hostile, or just unusual: what they say gives right names or none."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from captures import Decoder
from told import shown
from wire import (
    MOUNT,
    NFS,
    Tcp,
    _ints,
    _long,
    _opaque,
    call,
    compound,
    read,
    read3,
    record,
    reply,
    v4_putfh,
    v4_results,
)
from wire import write_pcap as written

from nfslat.decode.engine import choose
from nfslat.names.paths import Paths, paths_of_side
from nfslat.pipeline import inspect
from nfslat.select import Filters

NO_ATTRIBUTES = _ints(0)
PUTROOTFH, PUTROOTFH_OK, GETFH = _ints(24), _ints(24, 0), _ints(10)
PUTFH_OK, LOOKUP_OK = _ints(22, 0), _ints(15, 0)


def _handle(name: str) -> bytes:
    return bytes(28 - len(name)) + b"fh-:" + name.encode()


@dataclass
class Traffic:
    """Calls one after the other, each answered 1 ms later; handles are given by name."""

    tcp: Tcp = field(default_factory=Tcp)
    xid: int = 0x1000
    t_ms: float = 0.0

    def ask(self, program: int, version: int, procedure: int, arguments: bytes, results: bytes) -> Traffic:
        return self.exchange(call(self.xid, program, version, procedure, arguments), results)

    def exchange(self, message: bytes, results: bytes) -> Traffic:
        self.tcp.send(self.t_ms, ">", message)
        answer = record(reply(self.xid, results))
        self.tcp.send(self.t_ms + 1, "<", answer, cut=(60_000,) * (len(answer) // 60_000))
        self.xid, self.t_ms = self.xid + 1, self.t_ms + 100
        return self

    def mount(self, path: bytes, handle: str) -> Traffic:
        return self.ask(MOUNT, 3, 1, _opaque(path), _ints(0) + _opaque(_handle(handle)) + _ints(1, 1))

    def lookup(self, directory: str, name: bytes, handle: str) -> Traffic:
        found = _ints(0) + _opaque(_handle(handle)) + NO_ATTRIBUTES * 2
        return self.ask(NFS, 3, 3, _opaque(_handle(directory)) + _opaque(name), found)

    def rename(self, directory: str, name: bytes, to_directory: str, to_name: bytes, status: int = 0) -> Traffic:
        arguments = _opaque(_handle(directory)) + _opaque(name) + _opaque(_handle(to_directory)) + _opaque(to_name)
        return self.ask(NFS, 3, 14, arguments, _ints(status, 0, 0, 0, 0))

    def remove(self, directory: str, name: bytes) -> Traffic:
        return self.ask(NFS, 3, 12, _opaque(_handle(directory)) + _opaque(name), _ints(0, 0, 0))

    def link(self, handle: str, directory: str, name: bytes) -> Traffic:
        arguments = _opaque(_handle(handle)) + _opaque(_handle(directory)) + _opaque(name)
        return self.ask(NFS, 3, 15, arguments, _ints(0, 0, 0, 0))

    def read(self, handle: str) -> Traffic:
        return self.exchange(read(self.xid, 0, 64, _handle(handle)), read3(64))

    def compound(self, *both: tuple[bytes, bytes]) -> Traffic:
        message = compound(self.xid, *(one for one, _ in both))
        return self.exchange(message, v4_results(*(result for _, result in both)))


def _paths(traffic: Traffic, decoder: Decoder, folder: Path) -> Paths:
    path = written(folder / "made.pcap", traffic.tcp.seen_by("client"))
    engine = choose("native", lambda: decoder.tools, decoder.scratch, rereads=False)
    side = inspect(engine.open(str(path)), engine, filters=Filters(all_programs=True), progress=lambda _: None)
    return paths_of_side(side)


def _of(traffic: Traffic, decoder: Decoder, folder: Path) -> list[str | None]:
    return shown(_paths(traffic, decoder, folder))


def test_names_of_any_bytes(decoder: Decoder, tmp_path: Path) -> None:
    """255 bytes that are no text, zeros, line ends: all are shown, and each file by its own name."""
    names = [b"\xff" * 255, b"\x00", b"\n\r\n", b" ", b"\\x00", b"...", b"\xc2\xad", "é".encode(), "e\u0301".encode()]
    traffic = Traffic().mount(b"/e", "root")
    for number, name in enumerate(names):
        traffic.lookup("root", name, f"{number}").read(f"{number}")
    got = _of(traffic, decoder, tmp_path)
    assert got[1::2] == got[2::2]
    assert got[1] == "/e/" + r"\xff" * 255
    assert got[3:15:2] == [r"/e/\x00", r"/e/\n\r\n", "/e/ ", r"/e/\\x00", "/e/...", r"/e/\u00ad"]
    assert len(set(got[1::2])) == len(names)


def test_a_slash_in_a_name(decoder: Decoder, tmp_path: Path) -> None:
    """No server has such a name: it leads nowhere, and to no other file's path."""
    traffic = Traffic().mount(b"/e", "root").lookup("root", b"d/secret", "X").read("X")
    traffic.lookup("root", b"../../etc/passwd", "Y").read("Y").lookup("root", b"", "Z").read("Z")
    traffic.lookup("root", b"/", "V").read("V")
    assert _of(traffic, decoder, tmp_path) == ["/e"] + 8 * [None]


def test_a_symlink_of_4096_bytes(decoder: Decoder, tmp_path: Path) -> None:
    """SYMLINK's long target is no name of anything; the link has its own."""
    traffic = Traffic().mount(b"/e", "root")
    arguments = _opaque(_handle("root")) + _opaque(b"l") + bytes(24) + _opaque(b"../" * 1365 + b"x")
    traffic.ask(NFS, 3, 10, arguments, _ints(0, 1) + _opaque(_handle("link")) + NO_ATTRIBUTES * 3)
    traffic.ask(NFS, 3, 5, _opaque(_handle("link")), _ints(0, 0) + _opaque(b"../" * 1365 + b"x"))
    assert _of(traffic, decoder, tmp_path) == ["/e", "/e/l", "/e/l"]


def test_directories_change_places(decoder: Decoder, tmp_path: Path) -> None:
    """A cycle of renames across directories, through a third name, and back: each file is where it is."""
    traffic = Traffic().mount(b"/e", "root")
    for name in "ab":
        traffic.lookup("root", name.encode(), name).lookup(name, b"f", f"{name}f")
    for _ in range(3):
        traffic.rename("root", b"a", "b", b"t").read("af").rename("root", b"b", "root", b"a").read("af").read("bf")
        traffic.rename("b", b"t", "root", b"b").read("af").read("bf")
        traffic.rename("root", b"a", "root", b"t").rename("root", b"b", "root", b"a").rename("root", b"t", "root", b"b")
    reads = [one for one in _of(traffic, decoder, tmp_path)[5:] if one is not None and one.endswith("/f")]
    assert reads == 3 * ["/e/b/t/f", "/e/a/t/f", "/e/a/f", "/e/b/f", "/e/a/f"]


def test_a_directory_moved_into_its_own_child(decoder: Decoder, tmp_path: Path) -> None:
    """No file system does that: what is in the circle is known in part, and the work ends."""
    traffic = Traffic().mount(b"/e", "root").lookup("root", b"a", "A").lookup("A", b"b", "B").lookup("B", b"f", "F")
    traffic.read("F").rename("root", b"a", "B", b"a").read("F").read("A").rename("B", b"a", "A", b"a").read("A")
    got = _of(traffic, decoder, tmp_path)
    assert got[4] == "/e/a/b/f"
    assert got[6:8] == [".../f", ".../a"]
    assert got[9] == ".../a"


def test_a_rename_that_failed_or_repeats(decoder: Decoder, tmp_path: Path) -> None:
    """Only what succeeded counts; a second RENAME of the same name finds nothing, and takes nothing."""
    traffic = Traffic().mount(b"/e", "root").lookup("root", b"a", "A").lookup("root", b"b", "B")
    traffic.rename("root", b"a", "root", b"b", status=17).read("A").read("B")
    traffic.rename("root", b"a", "root", b"c").rename("root", b"a", "root", b"d", status=2).read("A")
    got = _of(traffic, decoder, tmp_path)
    assert (got[4], got[5], got[8]) == ("/e/a", "/e/b", "/e/c")


def test_a_handle_that_is_used_again(decoder: Decoder, tmp_path: Path) -> None:
    """With and without a REMOVE in between, and of a file that had two names."""
    traffic = Traffic().mount(b"/e", "root").lookup("root", b"a", "A").link("A", "root", b"b").read("A")
    traffic.remove("root", b"b").read("A").remove("root", b"a").lookup("root", b"new", "A").read("A")
    traffic.lookup("root", b"newer", "A").read("A")
    got = _of(traffic, decoder, tmp_path)
    assert [got[at] for at in (2, 3, 5, 8, 10)] == ["/e/a", "/e/b", "/e/a", "/e/new", "/e/newer"]


def test_mounts_of_one_directory_and_below_each_other(decoder: Decoder, tmp_path: Path) -> None:
    """What is mounted by two paths has the last one; below a mounted directory another one may be mounted."""
    traffic = Traffic().mount(b"/e", "root").mount(b"/e/sub/", "sub").lookup("root", b"sub", "sub").read("sub")
    traffic.lookup("sub", b"f", "F").read("F").mount(b"/alias", "root").lookup("root", b"g", "G").read("G").read("F")
    got = _of(traffic, decoder, tmp_path)
    assert [got[at] for at in (3, 5, 8, 9)] == ["/e/sub", "/e/sub/f", "/alias/g", "/e/sub/f"]


def test_two_servers_with_equal_handles(decoder: Decoder, tmp_path: Path) -> None:
    """The same bytes are another file at another server, in one capture."""
    one, other = Traffic(), Traffic(Tcp(server=("10.0.0.3", 2049)), xid=0x9000, t_ms=50)
    one.mount(b"/e", "root").lookup("root", b"a", "F").read("F").rename("root", b"a", "root", b"c").read("F")
    other.mount(b"/e", "root").lookup("root", b"b", "F").read("F").read("F").read("F")
    one.tcp.packets += other.tcp.packets
    got = _of(one, decoder, tmp_path)
    assert got[::2] == ["/e", "/e/a", "/e/a", "/e/a", "/e/c"]
    assert got[1::2] == ["/e", "/e/b", "/e/b", "/e/b", "/e/b"]


def test_a_listing_of_10_000_entries(decoder: Decoder, tmp_path: Path) -> None:
    """READDIRPLUS of over 1 MB: every file in it has a name, `.` and `..` have none from it."""
    names = [".", "..", *(f"file with the number {number:010}" for number in range(10_000))]
    entries = b"".join(
        _ints(1)
        + _long(at)
        + _opaque(name.encode())
        + _long(at)
        + NO_ATTRIBUTES
        + _ints(1)
        + _opaque(_handle(f"n{at}"))
        for at, name in enumerate(names)
    )
    listing = _ints(0, 0) + bytes(8) + entries + _ints(0, 1)
    assert len(listing) > 1_000_000
    traffic = Traffic().mount(b"/e", "root")
    arguments = _opaque(_handle("root")) + bytes(16) + _ints(1 << 20, 1 << 20)
    traffic.read("n9999").ask(NFS, 3, 17, arguments, listing)
    for at in (0, 1, 2, 5000, 10_001):
        traffic.read(f"n{at}")
    assert _of(traffic, decoder, tmp_path) == [
        "/e",
        "/e/file with the number 0000009997",
        "/e",
        None,
        None,
        "/e/file with the number 0000000000",
        "/e/file with the number 0000004998",
        "/e/file with the number 0000009999",
    ]


def _v4_lookup(name: bytes) -> tuple[bytes, bytes]:
    return _ints(15) + _opaque(name), LOOKUP_OK


def _v4_getfh(handle: str) -> tuple[bytes, bytes]:
    return GETFH, _ints(10, 0) + _opaque(_handle(handle))


def _v4_putfh(handle: str) -> tuple[bytes, bytes]:
    return v4_putfh(_handle(handle)), PUTFH_OK


_V4_ROOT = (PUTROOTFH, PUTROOTFH_OK)
_V4_SAVEFH = (_ints(32), _ints(32, 0))


def _v4_rename(name: bytes, to_name: bytes) -> tuple[bytes, bytes]:
    return _ints(29) + _opaque(name) + _opaque(to_name), _ints(29, 0) + bytes(40)


def _v4_read(handle: str) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    return _v4_putfh(handle), (_ints(25) + bytes(24) + _ints(64), _ints(25, 0, 0) + _opaque(bytes(64)))


def test_a_referral(decoder: Decoder, tmp_path: Path) -> None:
    """What is on another server (NFS4ERR_MOVED at its GETFH) has no handle, and what is below it no wrong name."""
    traffic = Traffic().compound(_V4_ROOT, _v4_getfh("root"))
    message = compound(traffic.xid, _v4_putfh("root")[0], _v4_lookup(b"moved")[0], GETFH)
    traffic.exchange(message, _ints(10019) + _opaque(b"") + _ints(3) + PUTFH_OK + LOOKUP_OK + _ints(10, 10019))
    traffic.compound(_v4_putfh("root"), _v4_lookup(b"here"), _v4_getfh("here")).compound(*_v4_read("here"))
    traffic.compound(*_v4_read("elsewhere"))
    assert _of(traffic, decoder, tmp_path) == ["/", "/moved", "/here", "/here", None]


def test_renames_below_the_root_of_version_4(decoder: Decoder, tmp_path: Path) -> None:
    """Clients that go down from the root in each COMPOUND move files and directories, as others do by handle."""
    traffic = Traffic()
    traffic.compound(_V4_ROOT, _v4_lookup(b"d"), _v4_getfh("D"))
    traffic.compound(_V4_ROOT, _v4_lookup(b"d"), _v4_lookup(b"f"), _v4_getfh("F")).compound(*_v4_read("F"))
    inside = (_V4_ROOT, _v4_lookup(b"d"), _V4_SAVEFH, _V4_ROOT, _v4_lookup(b"d"))
    traffic.compound(*inside, _v4_rename(b"f", b"g")).compound(*_v4_read("F"))
    traffic.compound(_V4_ROOT, _V4_SAVEFH, _V4_ROOT, _v4_rename(b"d", b"e")).compound(*_v4_read("F"))
    traffic.compound(_v4_putfh("D"), _V4_SAVEFH, _v4_putfh("D"), _v4_rename(b"g", b"h")).compound(*_v4_read("F"))
    got = _of(traffic, decoder, tmp_path)
    assert [got[at] for at in (2, 4, 6)] == ["/d/f", "/d/g", "/e/g"]
    assert got[8] in ("/e/h", None)


@pytest.mark.parametrize("version", [3, 4])
def test_many_renames_take_little_time(version: int, decoder: Decoder, tmp_path: Path) -> None:
    """A file that is renamed 3,000 times, read each time."""
    traffic = Traffic()
    if version == 3:
        traffic.mount(b"/e", "root").lookup("root", b"0", "F")
    else:
        traffic.compound(_V4_ROOT, _v4_lookup(b"e"), _v4_getfh("root"))
        traffic.compound(_v4_putfh("root"), _v4_lookup(b"0"), _v4_getfh("F"))
    for number in range(3000):
        old, new = str(number).encode(), str(number + 1).encode()
        if version == 3:
            traffic.rename("root", old, "root", new).read("F")
        else:
            traffic.compound(_v4_putfh("root"), _V4_SAVEFH, _v4_rename(old, new)).compound(*_v4_read("F"))
    begin = time.process_time()
    got = _of(traffic, decoder, tmp_path)
    assert time.process_time() - begin < 2
    assert got[3::2] == [f"/e/{number + 1}" for number in range(3000)]
