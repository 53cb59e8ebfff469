"""pNFS: what is read and written at data servers has the path of the file whose layout gave the handle."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from captures import SHARED, Decoder, needs_captures
from told import Story, shown
from wire import (
    V4_PUTFH_OK,
    V4_SEQUENCE_OK,
    Tcp,
    _ints,
    _long,
    _opaque,
    compound,
    read,
    read3,
    reply,
    v4_putfh,
    v4_read,
    v4_read_ok,
    v4_results,
    v4_sequence,
    write_pcap,
)

from nfslat.decode.engine import choose
from nfslat.model.details import FileEvent
from nfslat.model.tables import Connection
from nfslat.names.paths import paths_of, paths_of_side
from nfslat.pipeline import correlate
from nfslat.select import Filters

FOUND, ROOT, RENAMED, REMOVED, LAID_OUT, DEVICE = FileEvent
ENDS = tuple(Connection("tcp", "10.0.0.1", 700 + at, f"10.0.0.{2 + at}", 2049) for at in range(4))
MDS, DS1, DS2, OTHER = range(4)


def _file(name: bytes = b"a", handle: bytes = b"A") -> Story:
    return Story(ENDS).ask(0, "LOOKUP", b"D", name, conn=MDS).tell(FOUND, b"D", name, handle)


def _paths(story: Story) -> list[str | None]:
    return shown(paths_of_side(story.side()))


@pytest.mark.parametrize("version", [3, 4])
def test_a_data_server_s_handle_is_the_file_of_the_layout(version: int) -> None:
    """Also in front of the LAYOUTGET, as any name that comes late; another handle of that server stays unknown."""
    story = _file().ask(2, "READ", b"X", conn=DS1, version=version)
    story.ask(4, "LAYOUTGET", b"A", version=4, conn=MDS).tell(LAID_OUT, b"device", None, b"A", b"X")
    story.ask(6, "WRITE", b"X", conn=DS1, version=version).ask(8, "WRITE", b"Y", conn=DS1, version=version)
    assert _paths(story) == [".../a"] * 4 + [None]


def test_without_a_layout_nothing_is_known() -> None:
    """Nor where the device is all that is known, or the layout of a file that nothing names."""
    story = _file().ask(2, "GETDEVICEINFO", version=4).tell(DEVICE, None, b"10.0.0.3.8.1", b"device")
    story.ask(4, "LAYOUTGET", b"B", version=4).tell(LAID_OUT, b"device", None, b"B", b"X")
    assert _paths(story.ask(6, "READ", b"X", conn=DS1).ask(8, "READ", b"A", conn=DS1))[2:] == [None] * 3


def test_a_rename_is_followed_at_the_data_server() -> None:
    """The path is the one that the file has when the call is sent."""
    story = _file().ask(2, "LAYOUTGET", b"A", version=4).tell(LAID_OUT, b"device", None, b"A", b"X")
    story.ask(4, "READ", b"X", conn=DS1).ask(6, "RENAME", b"D", b"a").tell(RENAMED, b"D", b"a", None, b"D", b"b")
    assert _paths(story.ask(8, "READ", b"X", conn=DS1))[2:] == [".../a", ".../a", ".../b"]


def test_a_handle_counts_where_its_device_is() -> None:
    """Two data servers may use one handle for different files: GETDEVICEINFO tells which is which."""
    story = _file().ask(1, "LOOKUP", b"D", b"b").tell(FOUND, b"D", b"b", b"B")
    story.ask(2, "GETDEVICEINFO", version=4).tell(DEVICE, None, b"10.0.0.3.8.1", b"one")
    story.ask(3, "GETDEVICEINFO", version=4).tell(DEVICE, None, b"10.0.0.4.8.1", b"two")
    story.tell(DEVICE, None, b"no address", b"two").tell(DEVICE, None, b"fe80::1.8.1", b"two")
    story.ask(4, "LAYOUTGET", b"A", version=4).tell(LAID_OUT, b"one", None, b"A", b"X")
    story.ask(5, "LAYOUTGET", b"B", version=4).tell(LAID_OUT, b"two", None, b"B", b"X")
    for at, conn in enumerate((DS1, DS2, OTHER)):
        story.ask(6 + at, "READ", b"X", conn=conn)
    assert _paths(story)[-3:] == [".../a", ".../b", None]


def test_what_may_be_several_files_is_none() -> None:
    """Where the devices' addresses are not known a handle that two of them have is nobody's."""
    story = _file().ask(1, "LOOKUP", b"D", b"b").tell(FOUND, b"D", b"b", b"B")
    story.ask(4, "LAYOUTGET", b"A", version=4).tell(LAID_OUT, b"one", None, b"A", b"X")
    story.tell(LAID_OUT, b"one", None, b"A", b"Y").ask(5, "LAYOUTGET", b"B", version=4)
    story.tell(LAID_OUT, b"two", None, b"B", b"X").ask(6, "READ", b"X", conn=DS1).ask(7, "READ", b"Y", conn=DS2)
    assert _paths(story)[-2:] == [None, ".../a"]


def test_a_handle_that_a_device_uses_again_is_another_file_from_then_on() -> None:
    """From the reply of the next LAYOUTGET on, however often the first one was told."""
    story = _file().ask(1, "LOOKUP", b"D", b"b").tell(FOUND, b"D", b"b", b"B")
    for at in (2, 3):
        story.ask(at, "LAYOUTGET", b"A", version=4).tell(LAID_OUT, b"one", None, b"A", b"X")
    story.ask(4, "READ", b"X", conn=DS1).ask(6, "LAYOUTGET", b"B", version=4).tell(LAID_OUT, b"one", None, b"B", b"X")
    assert _paths(story.ask(8, "READ", b"X", conn=DS1))[-3:] == [".../a", ".../b", ".../b"]


def test_what_a_server_says_itself_goes_first_where_the_device_is_not_known() -> None:
    """Another server's file of that handle keeps its name; at the device's own address the layout's name counts."""
    story = _file().ask(1, "LOOKUP", b"D", b"o", conn=OTHER).tell(FOUND, b"D", b"o", b"X")
    story.ask(2, "LAYOUTGET", b"A", version=4).tell(LAID_OUT, b"one", None, b"A", b"X")
    story.ask(3, "READ", b"X", conn=OTHER).ask(4, "READ", b"X", conn=DS1)
    assert _paths(story)[-2:] == [".../o", ".../a"]
    story.ask(5, "GETDEVICEINFO", version=4).tell(DEVICE, None, b"10.0.0.5.8.1", b"one")
    assert _paths(story)[3:5] == [".../a", None]


def test_the_file_s_own_handle_counts_at_the_device_alone() -> None:
    """A layout without handles says that they are the same; at a server that may be another one it need not be."""
    story = _file().ask(2, "LAYOUTGET", b"A", version=4).tell(LAID_OUT, b"one", None, b"A", b"A")
    story.ask(3, "READ", b"A", conn=DS1).ask(4, "READ", b"A", conn=DS2)
    assert _paths(story)[2:] == [None, None]
    story.ask(5, "GETDEVICEINFO", version=4).tell(DEVICE, None, b"10.0.0.3.8.1", b"one")
    assert _paths(story)[2:4] == [".../a", None]


def test_handles_with_one_hash_are_nobody_s() -> None:
    """Two handles of a data server with the same CRC-32: neither has a path, whoever named them."""
    one, other = b"\0" * 4 + b"plumless", b"\0" * 4 + b"buckeroo"  # a known pair
    story = _file().ask(1, "LOOKUP", b"D", b"b").tell(FOUND, b"D", b"b", b"B")
    story.ask(2, "LAYOUTGET", b"A", version=4).tell(LAID_OUT, b"one", None, b"A", one)
    story.ask(3, "LAYOUTGET", b"B", version=4).tell(LAID_OUT, b"one", None, b"B", other)
    assert _paths(story.ask(4, "READ", one, conn=DS1))[-1] is None


# --- Captures ---------------------------------------------------------------------------------------------------------

DIR, FILE = b"a directory", b"a file at the metadata server"
DEVICES = b"device number 1.", b"device number 2."
HANDLES = b"handle at data server 1", b"handle at data server 2"
LOCATION = Sequence[str]


@dataclass
class _Talk:
    """Calls and their replies, one after the other, on connections to a metadata server and data servers."""

    flows: dict[str, Tcp] = field(default_factory=dict)
    xid: int = 0

    def ask(self, server: str, message: bytes, results: bytes) -> None:
        """`message` is made for XID 0."""
        flow = self.flows.setdefault(server, Tcp(client=("10.0.0.1", 700 + len(self.flows)), server=(server, 2049)))
        self.xid += 1
        flow.send(self.xid * 2, ">", _ints(self.xid) + message[4:])
        flow.send(self.xid * 2 + 1, "<", reply(self.xid, results))

    def v4(self, server: str, ops: Sequence[bytes], results: Sequence[bytes]) -> None:
        self.ask(server, compound(0, v4_sequence(), *ops), v4_results(V4_SEQUENCE_OK, *results))

    def open(self, name: bytes, handle: bytes = FILE) -> None:
        """LOOKUP stands for OPEN."""
        ops = [v4_putfh(DIR), _ints(15) + _opaque(name), _ints(10)]
        self.v4("10.0.0.2", ops, [V4_PUTFH_OK, _ints(15, 0), _ints(10, 0) + _opaque(handle)])

    def layout(self, kind: int, body: bytes, file: bytes = FILE) -> None:
        get = _ints(50, 0, kind, 2) + _long(0) + _long(2**64 - 1) + _long(4096) + bytes(16) + _ints(65536)
        granted = _ints(50, 0, 1) + bytes(16) + _ints(1) + _long(0) + _long(2**64 - 1) + _ints(2, kind) + _opaque(body)
        self.v4("10.0.0.2", [v4_putfh(file), get], [V4_PUTFH_OK, granted])

    def device(self, kind: int, device: bytes, address: str) -> None:
        addresses = _ints(1) + _opaque(b"tcp") + _opaque(f"{address}.8.1".encode())
        body = _ints(1, 0, 1) + addresses if kind == 1 else addresses + _ints(1, 3, 0, 65536, 65536, 1)
        get = _ints(47) + device + _ints(kind, 4096, 0)
        self.v4("10.0.0.2", [get], [_ints(47, 0, kind) + _opaque(body) + _ints(0)])

    def read(self, server: str, handle: bytes, *, version: int) -> None:
        if version == 3:
            self.ask(server, read(0, 0, 64, handle), read3(64))
        else:
            self.v4(server, [v4_putfh(handle), v4_read(0, 64)], [V4_PUTFH_OK, v4_read_ok(64)])


def _of_files() -> bytes:
    return DEVICES[0] + _ints(65536, 0) + _long(0) + _ints(2) + _opaque(HANDLES[0]) + _opaque(HANDLES[1])


def _flexible() -> bytes:
    """Two mirrors of one data server each."""
    servers = [
        _ints(1) + device + _ints(1) + bytes(16) + _ints(1) + _opaque(handle) + _opaque(b"1000") + _opaque(b"1000")
        for device, handle in zip(DEVICES, HANDLES, strict=True)
    ]
    return _long(65536) + _ints(2) + b"".join(servers) + _ints(0, 0)


def _pnfs(kind: int) -> _Talk:
    """Striped over two data servers, or mirrored on them, which speak NFSv3 then."""
    talk = _Talk()
    talk.open(b"striped.dat")
    talk.layout(kind, _of_files() if kind == 1 else _flexible())
    if kind == 4:
        for device, address in zip(DEVICES, ("10.0.0.3", "10.0.0.4"), strict=True):
            talk.device(kind, device, address)
    for address, handle in zip(("10.0.0.3", "10.0.0.4"), HANDLES, strict=True):
        talk.read(address, handle, version=3 if kind == 4 else 4)
    talk.read("10.0.0.5", HANDLES[0] + b"?", version=3)
    return talk


@pytest.mark.parametrize("kind", [1, 4], ids=["files", "flexible"])
def test_captures_of_both_layouts(kind: int, decoder: Decoder, tmp_path: Path) -> None:
    """From the bytes to the path, alone and of two captures; tshark sees the same handles in the LAYOUTGET."""
    flows = _pnfs(kind).flows.values()
    paths = [
        write_pcap(tmp_path / f"{side}.pcap", *(flow.seen_by(side) for flow in flows)) for side in ("server", "client")
    ]
    engine = choose("native", lambda: decoder.tools, decoder.scratch, rereads=False)
    sources = [engine.open(str(path)) for path in paths]
    c = correlate(*sources, engine, filters=Filters(), srt="nfslat", may_swap=True, progress=lambda _: None)
    for got in (shown(paths_of(c)), shown(paths_of_side(c.client))):
        assert got[:2] == [".../striped.dat"] * 2
        assert got[-3:] == [".../striped.dat", ".../striped.dat", None]
    command = [decoder.tools.tshark, "-n", "-r", str(paths[1]), "-Y", "nfs.opcode == 50 && rpc.msgtyp == 1"]
    command += ["-T", "fields", "-e", "nfs.fhandle"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=decoder.tools.environment)
    assert done.stdout.strip().replace(":", "").split(",") == [handle.hex() for handle in HANDLES]


def test_a_cut_layout_names_what_was_captured(decoder: Decoder, tmp_path: Path) -> None:
    """With a short snaplen the handles in front of the end are known, the others are not."""
    talk = _pnfs(1)
    flows = [flow.seen_by("client") for flow in talk.flows.values()]
    engine = choose("native", lambda: decoder.tools, decoder.scratch, rereads=False)
    granted = v4_results(
        V4_SEQUENCE_OK, V4_PUTFH_OK, _ints(50, 0, 1) + bytes(16) + _ints(1) + bytes(24) + _opaque(_of_files())
    )
    path = write_pcap(tmp_path / "cut.pcap", *flows, snaplen=54 + 4 + len(reply(0, granted)) - len(HANDLES[1]))
    c = engine.decode(engine.open(str(path)), lambda _: None)[1]
    files = c.details.files
    rows = [row for row in range(len(files)) if files.event[row] == LAID_OUT]
    assert [files.handles[files.to_directory[row]] for row in rows] == [HANDLES[0]]


@needs_captures
def test_a_real_data_server(decoder: Decoder) -> None:
    """The one WRITE of a public capture goes to a data server by a handle that only its LAYOUTGET shows."""
    side = decoder.side("native", next((SHARED / "corpus").glob("linux-nfs__96399c74__*")))
    row = side.ops.call_first_frame.tolist().index(1142)
    path = shown(paths_of_side(side))[row]
    assert path is not None
    assert path.endswith("/test_disable_pnfs_triggers_layout_recall_dd78a451-d8b6-4d5f-b8cf-54bef0fb12b1")
