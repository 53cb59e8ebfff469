"""What only the native engine does: streams, details, progress, and hostile captures in bounded memory."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import wire
from captures import CAPTURES, SHARED, WITH_NFS, Decoder, asked, most_by_night, needs_captures

from nfslat.cli import main as cli
from nfslat.decode.capture import Source
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.model.decoded import Decoded
from nfslat.model.details import Again, Blocked, Ended, Loads, Pauses, TcpEvent, Went, name_of
from nfslat.model.protocol import NULL, RANK_ACTION, op_ranks
from nfslat.model.tables import UNSTABLE_WRITE, Ops, State

SAMPLES = Path(__file__).parents[1] / "samples"
SERVER = SAMPLES / "server-threads" / "server.pcap.gz"
CLIENT = SAMPLES / "server-threads" / "client.pcap.gz"
MS = 1_000_000


def _no_tools() -> NoReturn:
    raise AssertionError("Wireshark's tools are not needed for this")


def _read(argument: object, scratch: Path, find: Callable[[], Tools] = _no_tools) -> tuple[Source, Decoded]:
    engine = choose("native", find, scratch, rereads=False)
    return engine.decode(engine.open(str(argument)), lambda _: None)


def _decoded(folder: Path, *flows: wire.Tcp | wire.Udp, snaplen: int = 262_144) -> Decoded:
    """What the native engine makes of flows, seen at the client without a delay."""
    seen = [flow.seen_by("client", back_ms=0) for flow in flows]
    return _read(wire.write_pcap(folder / "made.pcap", *seen, snaplen=snaplen), folder)[1]


def _assert_same(one: Ops, other: Ops) -> None:
    assert one.connections == other.connections
    for column in Ops.columns():
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), err_msg=column)


def _ops(count: int) -> wire.Tcp:
    tcp = wire.Tcp()
    for n in range(count):
        tcp.send(10 * n, ">", wire.read(0x1000 + n, 512 * n, 512))
        tcp.send(10 * n + 2, "<", wire.reply(0x1000 + n, wire.read3(512)))
    return tcp


# --- Every way in -----------------------------------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A sample as plain pcap."""
    path = tmp_path / "plain.pcap"
    path.write_bytes(gzip.decompress(SERVER.read_bytes()))
    return path


@pytest.mark.parametrize("form", ["gzip", "bzip2", "xz", "zstd", "lz4"])
def test_compressed_captures_give_the_same_ops(tmp_path: Path, plain: Path, form: str) -> None:
    """Each compression is read as it comes, without a scratch copy and without Wireshark."""
    packed = tmp_path / f"packed.{form}"
    within = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
    if form in within:
        packed.write_bytes(within[form](plain.read_bytes()))
    elif shutil.which(form) is None:
        pytest.skip(f"the program {form} is not installed")
    else:
        subprocess.run([form, "-q", plain, "-o", packed] if form == "zstd" else [form, "-q", plain, packed], check=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    source, decoded = _read(packed, scratch)
    _assert_same(decoded.ops, _read(plain, scratch)[1].ops)
    assert (source.files[0].format, decoded.cut_short) == ("pcap", False)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("form", ["pcapng", "nsecpcap", "modpcap", "snoop", "netmon2"])
def test_other_formats_give_the_same_ops(tmp_path: Path, plain: Path, tools: Tools, form: str) -> None:
    """pcapng, variants of pcap and snoop are read directly, what only Wireshark knows is streamed through editcap."""
    other = tmp_path / f"other.{form}"
    subprocess.run([tools.editcap, "-F", form, plain, other], check=True, env=tools.environment)
    source, decoded = _read(other, tmp_path, (lambda: tools) if form == "netmon2" else _no_tools)
    _assert_same(decoded.ops, _read(plain, tmp_path)[1].ops)
    assert source.files[0].format == form
    assert source.files[0].is_foreign == (form == "netmon2")


@contextlib.contextmanager
def _fed(pipe: Path, *parts: bytes, go_on: threading.Event | None = None) -> Iterator[None]:
    """A thread that writes `parts` into a named pipe; it waits for `go_on` in front of each but the first."""

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), pipe.open("wb") as out:
            for number, part in enumerate(parts):
                if number and go_on is not None:
                    out.flush()
                    go_on.wait()
                out.write(part)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        if go_on is not None:
            go_on.set()
        writer.join()


def test_a_named_pipe_is_read_as_it_comes(tmp_path: Path, plain: Path) -> None:
    """A pipe gives what the file gives, is named by its own name, and nothing of it is kept."""
    pipe, scratch = tmp_path / "pipe", tmp_path / "scratch"
    os.mkfifo(pipe)
    scratch.mkdir()
    with _fed(pipe, SERVER.read_bytes()):
        source, decoded = _read(pipe, scratch)
    _assert_same(decoded.ops, _read(plain, scratch)[1].ops)
    assert source.files[0].packets == 3439
    assert list(scratch.iterdir()) == []


def test_two_named_pipes_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both captures may be pipes, such as those of a shell's process substitution."""
    pipes = [tmp_path / "server", tmp_path / "client"]
    for pipe in pipes:
        os.mkfifo(pipe)
    with _fed(pipes[0], SERVER.read_bytes()), _fed(pipes[1], CLIENT.read_bytes()):
        assert cli.main([*map(str, pipes), "--engine", "native"]) == 0
    assert capsys.readouterr().out.startswith("Calls queue in the server for one of its 2 threads")


@pytest.mark.parametrize("content", [b"", b"GET / HTTP/1.1\r\n\r\n", SERVER.read_bytes()[:4]])
def test_a_pipe_that_brings_no_capture_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """Nothing, something else or a few bytes out of a pipe end with status 3 and its name."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with _fed(pipe, content):
        assert cli.main([str(pipe), str(CLIENT), "--engine", "native"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"nfslat: {pipe}: " in err


def test_standard_input_is_read_as_it_comes(tmp_path: Path) -> None:
    """``-`` reads standard input to its end and leaves nothing in the folder for temporary files meanwhile."""
    command = [sys.executable, "-m", "nfslat", "-", str(CLIENT), "--engine", "native"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as nfslat:
        assert nfslat.stdin is not None
        assert nfslat.stdout is not None
        data = SERVER.read_bytes()
        nfslat.stdin.write(data[:-1])
        nfslat.stdin.flush()  # more than a pipe holds: so it is reading
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
        nfslat.stdin.write(data[-1:])
        nfslat.stdin.close()
        assert nfslat.stdout.read().startswith(b"Calls queue in the server for one of its 2 threads")
    assert nfslat.returncode == 0


@pytest.mark.parametrize(
    "form",
    [pytest.param("pcap.bz2", marks=pytest.mark.long), pytest.param("netmon2.xz", marks=pytest.mark.long), "pipe"],
)
def test_show_reads_again_what_tshark_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plain: Path, tools: Tools, form: str
) -> None:
    """``show`` dissects ops of a pipe and of compressions that Wireshark does not open, as of any other file."""
    path, feed = tmp_path / f"server.{form}", contextlib.nullcontext()
    if form == "pcap.bz2":
        path.write_bytes(bz2.compress(plain.read_bytes()))
    elif form == "netmon2.xz":
        subprocess.run([tools.editcap, "-F", "netmon2", plain, tmp_path / "x"], check=True, env=tools.environment)
        path.write_bytes(lzma.compress((tmp_path / "x").read_bytes()))
    else:
        os.mkfifo(path)
        feed = _fed(path, bz2.compress(plain.read_bytes()))  # type: ignore[assignment]
    with feed:
        assert cli.main(["show", str(path), str(CLIENT), "--engine", "native", "--slowest", "1"]) == 0
    out = capsys.readouterr().out
    assert "Call at the server, frame 2712\n" in out
    assert "RPC and NFS: same at the server as at the client" in out


def test_files_of_a_set_are_ordered_by_their_first_packet(tmp_path: Path, plain: Path, tools: Tools) -> None:
    """Names do not matter, files without packets are left out, and frames count through the files in time order."""
    for name, packets in (("b", "1-1000"), ("d", "1001-2500"), ("a", "2501-3439")):
        command = [tools.editcap, "-r", plain, tmp_path / f"{name}.cap", packets]
        subprocess.run(command, check=True, env=tools.environment)
    (tmp_path / "c.cap").write_bytes(plain.read_bytes()[:24])
    source, decoded = _read(f"{tmp_path}/*.cap", tmp_path)
    assert [Path(file.name).stem for file in source.files] == ["b", "d", "a"]
    assert [file.packets for file in source.files] == [1000, 1500, 939]
    _assert_same(decoded.ops, _read(plain, tmp_path)[1].ops)
    assert source.locate(1001)[1] == 1


# --- Progress and stopping --------------------------------------------------------------------------------------------


def _pcap(records: bytes) -> bytes:
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1) + records


def _packets(count: int) -> bytes:
    """TCP packets without data; 4096 are what the decoder reads between two looks at its job."""
    tcp = wire.Tcp()
    tcp.ack(0, ">")
    frame = tcp.seen_by("client")[0].frame
    return _pcap((struct.pack("<IIII", 1_700_000_000, 0, len(frame), len(frame)) + frame) * count)


def test_progress_counts_the_bytes_of_the_files(tmp_path: Path) -> None:
    """Progress never goes back, is told while a pipe is still open, and ends at what came through it."""
    pipe, data = tmp_path / "pipe", _packets(10_000)
    os.mkfifo(pipe)
    seen: list[int] = []
    go_on = threading.Event()

    def progress(amount: int) -> None:
        seen.append(amount)
        if amount:
            go_on.set()

    engine = choose("native", _no_tools, tmp_path, rereads=False)
    with _fed(pipe, data[: len(data) * 3 // 4], data[len(data) * 3 // 4 :], go_on=go_on):
        engine.decode(engine.open(str(pipe)), progress)
    assert seen == sorted(seen)
    assert 0 < next(amount for amount in seen if amount) < len(data)
    assert seen[-1] == len(data)
    assert engine.total(engine.open(str(SERVER))) == SERVER.stat().st_size


def test_a_job_can_be_stopped(tmp_path: Path) -> None:
    """`Job.stop` ends a decode with InterruptedError, before or while it runs."""
    from nfslat import _native

    path = tmp_path / "many.pcap"
    path.write_bytes(_packets(5000))
    job = _native.Job()
    job.stop()
    with pytest.raises(InterruptedError):
        _native.decode([path], op_ranks(callback=False), op_ranks(callback=True), RANK_ACTION, job)


@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError("the other side failed")])
@pytest.mark.parametrize("parts", [[], [_packets(5000)]], ids=["silent", "open"])
def test_a_run_ends_where_progress_raises(
    tmp_path: Path, problem: type[BaseException] | BaseException, parts: list[bytes]
) -> None:
    """Ctrl-C, or a problem of the other capture, ends the reading of a pipe that brings nothing (more), too."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    go_on = threading.Event()

    def progress(_: int) -> None:
        raise problem

    engine = choose("native", _no_tools, tmp_path, rereads=False)
    with _fed(pipe, *(parts or [b""]), b"", go_on=go_on):
        with pytest.raises(problem if isinstance(problem, type) else type(problem)):
            engine.decode(engine.open(str(pipe)), progress)
        assert not go_on.is_set(), "the pipe is open still"


def test_ctrl_c_ends_a_wait_for_a_pipe(tmp_path: Path) -> None:
    """Nobody ever writes into the pipe: SIGINT ends nfslat with its exit status and one line."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Where the tests run in the background SIGINT is ignored, and would be here.
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    start += "from nfslat.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", start, str(pipe), str(CLIENT), "--engine", "native"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as nfslat:
        writer = os.open(pipe, os.O_WRONLY)  # returns when nfslat has opened the pipe
        nfslat.send_signal(signal.SIGINT)
        try:
            out, err = nfslat.communicate(timeout=60)
        finally:
            nfslat.kill()
            os.close(writer)
    assert (nfslat.returncode, out, err) == (130, "", "nfslat: interrupted\n")


# --- What a pcapng file says of itself --------------------------------------------------------------------------------


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def _pcapng(flow: wire.Tcp, *last: bytes, simple: bool = False) -> bytes:
    """Section, an Ethernet interface with nanoseconds, the packets (`simple`: without times), and what comes `last`."""
    out = [_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(_block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3x", 9, 1, 9) + bytes(4)))
    for packet in flow.seen_by("client"):
        size = len(packet.frame)
        head = struct.pack("<IIIII", 0, packet.t_ns >> 32, packet.t_ns & 0xFFFFFFFF, size, size)
        out.append(_block(3, struct.pack("<I", size) + packet.frame) if simple else _block(6, head + packet.frame))
    return b"".join([*out, *last])


def _statistics(*drops: tuple[int, int]) -> bytes:
    """An Interface Statistics Block with counters by their option codes (5 is isb_ifdrop, 7 isb_osdrop)."""
    options = b"".join(struct.pack("<HHQ", code, 8, count) for code, count in drops)
    return _block(5, struct.pack("<III", 0, 0, 0) + options + bytes(4))


def test_drops_that_the_capturing_host_counted_are_in_the_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interface and system drops of the last statistics in a pcapng file are a warning with their sum."""
    path = tmp_path / "drops.pcapng"
    path.write_bytes(_pcapng(_ops(5), _statistics((5, 3)), _statistics((5, 40), (7, 2))))
    assert cli.main([str(path), "--engine", "native"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "capture-interface-drops" in out
    assert "counted 42 packets that it did not capture" in out


def test_an_interface_whose_times_cannot_be_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its packet is dated in the year 5138: the other one's ops are found all the same, and a warning names it."""
    described = _block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3xHHq", 9, 1, 9, 14, 8, 10**11) + bytes(4))
    path = tmp_path / "clocks.pcapng"
    path.write_bytes(_pcapng(_ops(5), described, _block(6, struct.pack("<IIIII", 1, 0, 0, 60, 60) + bytes(60))))
    assert cli.main([str(path), "--engine", "native"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "capture-misdated" in out
    assert "1 packet is of an interface" in out


def test_packets_without_a_time_are_in_the_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pcapng file of Simple Packet Blocks has no times: its ops are found, and a warning says what they are worth."""
    path = tmp_path / "simple.pcapng"
    path.write_bytes(_pcapng(_ops(5), simple=True))
    assert cli.main([str(path), "--engine", "native"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "capture-untimed" in out
    assert "10 packets have no time" in out


# --- Details ----------------------------------------------------------------------------------------------------------

SESSION = bytes(range(100, 116))


def _sequence(slot: int, seqid: int, highest: int) -> bytes:
    return struct.pack(">I16sIIII", 53, SESSION, seqid, slot, highest, 0)


def _sequence_ok(slot: int, seqid: int, highest: int, target: int) -> bytes:
    return struct.pack(">II16sIIIII", 53, 0, SESSION, seqid, slot, highest, target, 0)


def test_slots_of_sequence_are_known(tmp_path: Path) -> None:
    """Session, slot, sequence number and the highest slots that client and server name, for each op that has them."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.null(1))
    tcp.send(1, "<", wire.reply(1))
    tcp.send(2, ">", wire.compound(2, _sequence(3, 77, 5), wire.v4_putfh(), wire.v4_read()))
    ok = _sequence_ok(3, 77, 63, 31), wire.V4_PUTFH_OK, wire.v4_read_ok(512)
    tcp.send(3, "<", wire.reply(2, wire.v4_results(*ok)))
    tcp.send(4, ">", wire.compound(3, _sequence(0, 9, 5), wire.V4_GETATTR))
    d = _decoded(tmp_path, tcp).details
    assert d.slots.sessions == (SESSION,)
    columns = ("op", "session", "slot", "seqid", "highest", "reply_highest", "target_highest")
    assert [getattr(d.slots, name).tolist() for name in columns] == [[1], [0], [3], [77], [5], [63], [31]]


def test_a_session_says_what_the_server_granted(tmp_path: Path) -> None:
    """The limits of both channels come from the reply to CREATE_SESSION, not from what the client asked for."""
    asked = struct.pack(">7I", 0, 1 << 20, 1 << 20, 8192, 16, 64, 0)
    granted = struct.pack(">7I", 0, 300_000, 200_000, 4096, 8, 18, 0)
    back = struct.pack(">7I", 0, 4096, 4096, 0, 2, 1, 0)
    create = struct.pack(">IQII", 43, 0x1122334455667788, 1, 0) + asked + asked
    create += struct.pack(">III", 0x40000000, 1, 0)  # callbacks with AUTH_NONE
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.compound(1, create))
    tcp.send(1, "<", wire.reply(1, wire.v4_results(struct.pack(">II16sII", 43, 0, SESSION, 1, 0) + granted + back)))
    (limits,) = _decoded(tmp_path, tcp).details.sessions
    assert limits.session == SESSION
    assert limits.t_ns == wire.EPOCH_NS + 1 * MS
    assert (limits.fore_requests, limits.fore_operations, limits.back_requests) == (18, 8, 1)
    assert (limits.fore_request_bytes, limits.fore_response_bytes) == (300_000, 200_000)


def test_the_failed_operation_is_the_last_with_a_result(tmp_path: Path) -> None:
    """A COMPOUND that fails in its second operation has its status, and two results."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.compound(1, _sequence(0, 1, 0), wire.v4_putfh(), wire.v4_read()))
    failed = struct.pack(">II", 22, 70)  # PUTFH: NFS4ERR_STALE
    body = struct.pack(">III", 70, 0, 2) + _sequence_ok(0, 1, 0, 0) + failed
    tcp.send(1, "<", wire.reply(1, body))
    decoded = _decoded(tmp_path, tcp)
    assert decoded.ops.status.tolist() == [70]
    assert (decoded.details.failures.op.tolist(), decoded.details.failures.results.tolist()) == ([0], [2])


def _lookup(xid: int, name: bytes) -> bytes:
    padded = struct.pack(">I", len(name)) + name + bytes(-len(name) % 4)
    return wire.call(xid, wire.NFS, 3, 3, struct.pack(">I", len(wire.FH)) + wire.FH + padded)


NAMES = [b"report.txt", b"\xff\x00\x1b[31mred'\"\n", b"x" * 255]


def _lookups(names: list[bytes]) -> wire.Tcp:
    tcp = wire.Tcp()
    for n, name in enumerate(names):
        tcp.send(10 * n, ">", _lookup(0x100 + n, name))
        tcp.send(10 * n + 1, "<", wire.reply(0x100 + n, struct.pack(">II", 2, 0)))  # NFS3ERR_NOENT
    tcp.send(500, ">", wire.getattr3(0x200))
    tcp.send(501, "<", wire.reply(0x200, wire.GETATTR3))
    return tcp


def test_names_are_known_as_they_are_on_the_wire(tmp_path: Path) -> None:
    """The file name in a call's arguments, of any bytes, is known for the op that has it and for no other."""
    decoded = _decoded(tmp_path, _lookups([*NAMES, NAMES[0]]))
    names = decoded.details.names
    assert [name_of(names, op) for op in range(5)] == [*NAMES, NAMES[0], None]
    assert names.names == tuple(NAMES), "each is kept once"
    assert decoded.ops.status.tolist() == [2, 2, 2, 2, 0]


@pytest.mark.parametrize(
    ("n", "shown"),
    [
        pytest.param(0, "report.txt", marks=pytest.mark.long),
        (1, r"""\xff\x00\x1b[31mred'"\n"""),
        pytest.param(2, "x" * 255, marks=pytest.mark.long),
    ],
)
def test_show_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], n: int, shown: str) -> None:
    """``nfslat show`` prints the path of the op in full, so that no byte of it reaches the terminal."""
    tcp = _lookups(NAMES)
    files = [wire.write_pcap(tmp_path / side, tcp.seen_by(side)) for side in ("server", "client")]
    assert cli.main(["show", *map(str, files), "--engine", "native", "--xid", hex(0x100 + n)]) == 0
    head = capsys.readouterr().out.split("\n\n")[0].splitlines()
    (at,) = [at for at, line in enumerate(head) if line.startswith("path ")]
    assert "".join(line.strip() for line in head[at:]) == f"path .../{shown}"
    assert max(map(len, head)) <= 80
    assert all(line.isprintable() for line in head)


def _events(decoded: Decoded, kind: TcpEvent) -> list[tuple[int, int, float, int]]:
    """Direction, frame, time in ms and value of the events of one kind."""
    e = decoded.details.events
    return [
        (int(e.direction[at]), int(e.frame[at]), (int(e.t_ns[at]) - wire.EPOCH_NS) / MS, int(e.value[at]))
        for at in np.flatnonzero(e.kind == kind)
    ]


def test_what_tcp_sends_again_is_an_event_and_a_count(tmp_path: Path) -> None:
    """A segment that was captured and came again is a retransmission of its direction, with its bytes and messages."""
    tcp = wire.Tcp()
    first = tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.send(1, "<", wire.reply(1, wire.read3(512)))
    tcp.again(2, *first)
    decoded = _decoded(tmp_path, tcp)
    size = len(first[0].data)
    assert _events(decoded, TcpEvent.RETRANSMISSION) == [(0, 3, 2.0, size)]
    assert decoded.details.tcp.retransmissions.tolist() == [1, 0]
    assert decoded.details.tcp.retransmitted_bytes.tolist() == [size, 0]
    assert decoded.states[State.RETRANSMITTED] == 1
    assert decoded.ops.transmissions.tolist() == [1], "RPC sent it once"


def test_segments_that_overtake_each_other_are_events(tmp_path: Path) -> None:
    """Data ahead of a hole are a gap of so many bytes, what fills it later came out of order."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.send(0, "<", wire.reply(1, wire.read3(512)), cut=[200, 100], at=[1, 3, 2])
    decoded = _decoded(tmp_path, tcp)
    assert _events(decoded, TcpEvent.GAP) == [(1, 3, 2.0, 100)]
    assert _events(decoded, TcpEvent.OUT_OF_ORDER) == [(1, 4, 3.0, 100)]
    assert decoded.details.tcp.out_of_order.tolist() == [0, 1]
    assert (decoded.ops.t3 - wire.EPOCH_NS).tolist() == [3 * MS]


def _window(tcp: wire.Tcp, t_ms: float, way: str, window: int) -> None:
    """An ACK with this window."""
    packet = tcp.ack(t_ms, way)
    packet.ip = packet.ip[:34] + struct.pack(">H", window) + packet.ip[36:]


def test_a_closed_window_is_an_event(tmp_path: Path) -> None:
    """Where the client closes its window, the server's direction stands still until it opens again."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.send(1, "<", wire.reply(1, wire.read3(512)))
    for t_ms, window in ((2, 0), (5, 0), (42, 100)):
        _window(tcp, t_ms, ">", window)
    decoded = _decoded(tmp_path, tcp)
    assert _events(decoded, TcpEvent.ZERO_WINDOW) == [(1, 5, 42.0, 40 * MS)]
    assert decoded.details.tcp.zero_windows.tolist() == [0, 1]
    assert decoded.details.tcp.zero_window_ns.tolist() == [0, 40 * MS]


def test_silence_with_data_under_way_is_a_stall(tmp_path: Path) -> None:
    """Nothing is seen for 200 ms, and the reply's data are not acknowledged: a stall of the server's direction."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.send(1, "<", wire.reply(1, wire.read3(512)))
    tcp.ack(201, ">")
    tcp.send(500, ">", wire.read(2, 0, 512))  # an idle connection does not stall
    decoded = _decoded(tmp_path, tcp)
    assert _events(decoded, TcpEvent.STALL) == [(1, 3, 201.0, 200 * MS)]
    assert decoded.details.tcp.stalls.tolist() == [0, 1]


def test_round_trips_and_options_of_a_direction(tmp_path: Path) -> None:
    """Data to the ACK that covers it, the handshake's options, packets and bytes are known by direction."""
    tcp = wire.Tcp()
    tcp.syn(-10)
    tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.ack(3, "<")
    tcp.send(5, "<", wire.reply(1, wire.read3(512)))
    tcp.ack(6, ">")
    tcp.send(10, ">", wire.read(2, 0, 512))
    tcp.send(11, "<", wire.reply(2, wire.read3(512)))  # carries the ACK
    t = _decoded(tmp_path, tcp).details.tcp
    assert (t.conn.tolist(), t.direction.tolist(), t.reconnect.tolist()) == ([0, 0], [0, 1], [0, 0])
    assert (t.rtt_count.tolist(), t.rtt_sum_ns.tolist()) == ([2, 1], [4 * MS, 1 * MS])
    assert (t.rtt_min_ns.tolist(), t.rtt_max_ns.tolist()) == ([1 * MS, 1 * MS], [3 * MS, 1 * MS])
    assert (t.saw_syn.tolist(), t.mss.tolist(), t.window_scale.tolist()) == ([1, 1], [NULL, NULL], [NULL, NULL])
    assert (t.packets.tolist(), t.data_packets.tolist()) == ([5, 4], [2, 2])


def _resent(decoded: Decoded) -> list[tuple[int, int, int, int, float, int]]:
    """Op, is it the reply, kind, frame, time in ms and bytes of every message in what was sent again or came late."""
    r = decoded.details.resent
    columns = (r.op, r.is_reply, r.kind, r.frame, (r.t_ns - wire.EPOCH_NS) / MS, r.bytes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_ops_are_known_whose_messages_tcp_sends_again(tmp_path: Path) -> None:
    """Each call and reply with bytes in a retransmitted segment is named with its op, and how many bytes they are."""
    tcp = wire.Tcp()
    unanswered = tcp.send(0, ">", wire.null(9))  # so it is in no op
    calls = tcp.send(1, ">", wire.read(1, 0, 512), wire.read(2, 512, 512))
    replies = tcp.send(2, "<", wire.reply(1, wire.read3(512)), wire.reply(2, wire.read3(512)), cut=[100])
    tcp.again(300, *calls)
    tcp.again(301, replies[0])
    tcp.again(302, *unanswered)
    decoded = _decoded(tmp_path, tcp)
    size = len(calls[0].data) // 2
    assert _resent(decoded) == [
        (0, 0, Again.REPEATED, 5, 300.0, size),
        (0, 1, Again.REPEATED, 6, 301.0, 100),
        (1, 0, Again.REPEATED, 5, 300.0, size),
    ]
    assert decoded.details.resent_dropped == 1


def test_ops_are_known_whose_messages_come_late(tmp_path: Path) -> None:
    """A segment that fills a hole names the messages in it, those that go on behind the hole by their bytes in it."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.read(1, 0, 512), wire.read(2, 512, 512))
    first = len(wire.record(wire.reply(1, wire.read3(512))))
    messages = wire.reply(1, wire.read3(512)), wire.reply(2, wire.read3(512))
    tcp.send(0, "<", *messages, cut=[200, first], at=[1, 9, 2])  # the second of three comes last
    assert _resent(_decoded(tmp_path, tcp)) == [
        (0, 1, Again.LATE, 4, 9.0, first - 200),
        (1, 1, Again.LATE, 4, 9.0, 200),
    ]


def _pauses(decoded: Decoded) -> list[tuple[int, int, float, float, Ended, Went, int]]:
    """Direction, frame, begin and end in ms, what ended it, with what it went on, and was it in a message?"""
    p = decoded.details.pauses
    begin_ms, end_ms = ((t_ns - wire.EPOCH_NS) / MS for t_ns in (p.begin_ns, p.end_ns))
    columns = (p.direction, p.frame, begin_ms, end_ms, p.ended, p.went, p.in_message)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_sender_that_waits_for_an_ack_pauses(tmp_path: Path) -> None:
    """The second half of a reply comes when a delayed ACK of the first has come: what was heard, and what was open."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.read(1, 0, 512))
    whole = len(wire.record(wire.reply(1, wire.read3(512))))
    tcp.send(1, "<", wire.reply(1, wire.read3(512)), cut=[200], at=[1, 41])
    tcp.raw(40, ">", tcp.next[">"], b"", ack=tcp.isn[1] + 200)
    decoded = _decoded(tmp_path, tcp)
    assert _pauses(decoded) == [(1, 4, 1.0, 41.0, Ended.ACK, Went.NEW, 1)]
    p = decoded.details.pauses
    assert (p.heard_ns - wire.EPOCH_NS).tolist() == [40 * MS]
    assert (p.size_before[0], p.size[0], p.offset[0]) == (200, whole - 200, 200)
    assert (p.under_way[0], p.under_way_end[0], p.duplicate_acks[0], p.is_tail[0]) == (200, 0, 0, 0)
    assert (p.window[0], p.window_least[0], p.sent_ns[0]) == (NULL, NULL, NULL), "no SYN: the scale is not known"


def test_a_retransmission_ends_a_pause(tmp_path: Path) -> None:
    """However short the silence was: with the time when the bytes were sent before, and whether they were the last."""
    tcp = wire.Tcp()
    first = tcp.send(0, ">", wire.read(1, 0, 512))
    second = tcp.send(0.1, ">", wire.read(2, 512, 512))
    tcp.again(0.2, *first)
    tcp.again(200, *second)
    tcp.send(201, "<", wire.reply(1, wire.read3(512)), wire.reply(2, wire.read3(512)))
    decoded = _decoded(tmp_path, tcp)
    assert _pauses(decoded) == [
        (0, 3, 0.1, 0.2, Ended.NOTHING, Went.REPEATED, 0),
        (0, 4, 0.2, 200.0, Ended.NOTHING, Went.REPEATED, 0),
    ]
    p = decoded.details.pauses
    assert ((p.sent_ns - wire.EPOCH_NS).tolist(), p.is_tail.tolist()) == ([0, MS // 10], [0, 1])
    assert decoded.details.pauses_dropped == 0


def test_a_call_behind_a_lost_one_is_blocked(tmp_path: Path) -> None:
    """It has arrived and TCP keeps it until the one in front of it comes again; that one itself is not blocked."""
    tcp = wire.Tcp()
    calls = [wire.read(xid, 512 * xid, 512) for xid in (1, 2, 3)]
    size = len(wire.record(calls[0]))
    tcp.send(0, ">", *calls, cut=[size, size], at=[0, 200, 1])
    tcp.send(201, "<", *(wire.reply(xid, wire.read3(512)) for xid in (1, 2, 3)))
    decoded = _decoded(tmp_path, tcp)
    assert decoded.ops.xid.tolist() == [1, 3, 2]
    blocked = decoded.details.blocked
    assert (blocked.op.tolist(), blocked.is_reply.tolist()) == ([1], [0])
    assert (blocked.until_ns - decoded.ops.t1[blocked.op]).tolist() == [199 * MS]


def test_loads_are_bytes_by_time(tmp_path: Path) -> None:
    """10 ms at a time, each direction for itself; a retransmission counts again, a packet captured twice does not."""
    tcp = wire.Tcp()
    call = tcp.send(1, ">", wire.read(1, 0, 512))
    tcp.send(9, "<", wire.reply(1, wire.read3(512)))
    tcp.send(12, ">", wire.read(2, 0, 512))
    tcp.again(19, *call)
    tcp.send(35, "<", wire.reply(2, wire.read3(512)))
    size, answer = len(call[0].data), len(wire.record(wire.reply(1, wire.read3(512))))
    loads = _decoded(tmp_path, tcp).details.loads
    assert ((loads.begin_ns - wire.EPOCH_NS) // MS).tolist() == [0, 0, 10, 30]
    assert (loads.direction.tolist(), loads.bytes.tolist()) == ([0, 1, 0, 1], [size, answer, 2 * size, answer])
    assert loads.stretch_ns == 10 * MS


@pytest.mark.parametrize("path", most_by_night(WITH_NFS))
def test_what_tcp_did_adds_up(path: Path, decoder: Decoder) -> None:
    """Each packet that is sent again or comes late ends a pause, loads sum to the payload, and no time runs back."""
    decoded = decoder.side("native", path).decoded
    details, ops = decoded.details, decoded.ops
    pauses, blocked, loads, tcp = details.pauses, details.blocked, details.loads, details.tcp
    for table in (pauses, blocked, loads):
        assert isinstance(table, Pauses | Blocked | Loads)
        for name in table.columns():
            column = getattr(table, name)
            assert (len(column), column.dtype.kind) == (len(table), "i"), name
    # A packet that does both counts twice in Tcp, and ends one pause.
    both = np.intersect1d(
        details.events.frame[details.events.kind == TcpEvent.RETRANSMISSION],
        details.events.frame[details.events.kind == TcpEvent.OUT_OF_ORDER],
    )
    again = int((tcp.retransmissions + tcp.out_of_order).sum()) - len(both)
    assert np.count_nonzero((pauses.went == Went.REPEATED) | (pauses.went == Went.LATE)) == again
    assert loads.bytes.sum() == tcp.bytes.sum()
    known = pauses.begin_ns != NULL
    assert (pauses.begin_ns <= pauses.end_ns)[known].all()
    assert ((pauses.heard_ns == NULL) == (pauses.ended == Ended.NOTHING)).all()
    least_known = (pauses.window != NULL) & (pauses.window_least != NULL)
    assert (pauses.window_least <= pauses.window)[least_known].all()
    new = pauses.went == Went.NEW
    assert (pauses.end_ns - pauses.begin_ns)[new].min(initial=MS) >= MS
    arrived_ns = np.where(blocked.is_reply == 1, ops.t3[blocked.op], ops.t1[blocked.op])
    assert (blocked.until_ns >= arrived_ns).all()


@needs_captures
def test_pauses_of_a_stalled_client(tmp_path: Path) -> None:
    """The client's host stood still for 1.2 s: the server's TCP probes for a lost tail, and repeats the first segment
    that is not acknowledged when its timer of some 230 ms runs out, and the doubled one."""
    decoded = _read(SHARED / "lab" / "j_v3_client_stall" / "server.pcap.gz", tmp_path)[1]
    p = decoded.details.pauses
    again = p.take(p.went == Went.REPEATED)
    assert again.ended.tolist() == [Ended.NOTHING] * 3
    assert again.is_tail.tolist() == [1, 0, 0]
    assert (again.end_ns - again.sent_ns) / MS == pytest.approx([12.3, 233.8, 429.7], abs=0.1)
    assert (again.offset[1], again.size[1]) == (again.offset[2], again.size[2])


@pytest.mark.parametrize("isn", [(1000, 5000), ((1 << 32) - 50, (1 << 32) - 1)])
def test_sequence_numbers_of_a_direction(tmp_path: Path, isn: tuple[int, int]) -> None:
    """The first byte's number is known, with a SYN or without, and how far the numbers went, also where they wrap."""
    for with_syn in (True, False):
        tcp = wire.Tcp(isn=isn)
        if with_syn:
            tcp.syn(-1)
        calls = tcp.send(0, ">", wire.read(1, 0, 512)), tcp.send(3, ">", wire.read(2, 0, 512))
        replies = tcp.send(1, "<", wire.reply(1, wire.read3(512)))
        t = _decoded(tmp_path, tcp).details.tcp
        assert t.first_seq.tolist() == list(isn)
        assert t.seq_span.tolist() == [sum(len(call[0].data) for call in calls), len(replies[0].data)]


def test_a_direction_without_data_has_no_sequence_numbers(tmp_path: Path) -> None:
    """Where only one side's data are captured nothing is known of the other's bytes."""
    tcp = wire.Tcp()
    tcp.send(0, ">", wire.read(1, 0, 512))
    tcp.ack(1, "<")
    t = _decoded(tmp_path, tcp).details.tcp
    assert (t.first_seq.tolist(), t.seq_span.tolist()) == ([1000, NULL], [len(wire.record(wire.read(1, 0, 512))), NULL])


@needs_captures
def test_segmentation_offload_shows_super_packets(tmp_path: Path) -> None:
    """The lab's 1 MB reads and writes were captured above the offload: most packets exceed the MSS."""
    decoded = _read(SHARED / "lab" / "i_v3_full_1M" / "client.pcap.gz", tmp_path)[1]
    t = decoded.details.tcp
    busiest = int(t.bytes.argmax())
    assert (t.mss[busiest], t.largest_payload[busiest]) == (1460, 65_160)
    assert 0.9 * t.data_packets[busiest] < t.super_packets[busiest] < t.data_packets[busiest]


@pytest.mark.parametrize("path", asked(CAPTURES))
def test_both_engines_count_bytes_and_seconds_alike(path: Path, decoder: Decoder) -> None:
    """Bytes on the wire and in the file, packets of the busiest second and the largest step back: both say the same."""
    try:
        native, tshark = decoder.side("native", path).decoded, decoder.side("tshark", path).decoded
    except InputError:
        pytest.skip("a capture without NFS")
    for name in ("wire_bytes", "captured_bytes", "busiest_second_packets", "largest_backward_ns"):
        assert getattr(native, name) == getattr(tshark, name), name
    assert native.wire_bytes is not None
    assert native.captured_bytes is not None
    assert 0 < native.captured_bytes <= native.wire_bytes


@pytest.mark.skipif(not (SHARED / "lab" / "f_v41_session_slots2").exists(), reason="no captures at ../shared/lab")
def test_a_session_of_two_slots(tmp_path: Path) -> None:
    """The lab's client with max_session_slots=2 asks with two slots and no third; each is used by one op at a time."""
    decoded = _read(SHARED / "lab" / "f_v41_session_slots2" / "client.pcap.gz", tmp_path)[1]
    slots = decoded.details.slots
    assert set(slots.slot.tolist()) == {0, 1}
    for slot in (0, 1):
        rows = slots.op[slots.slot == slot]
        assert (decoded.ops.t0[rows][1:] >= decoded.ops.t2[rows][:-1]).all()


# --- Copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", ["tcp", "udp"])
def test_everything_captured_twice_counts_once(tmp_path: Path, flow: str) -> None:
    """Each packet stands twice in the file, as of ``tcpdump -i any``, the first of the connection, too."""
    made: wire.Tcp | wire.Udp = wire.Tcp() if flow == "tcp" else wire.Udp()
    for n in range(5):
        made.send(10 * n, ">", wire.read(0x100 + n, 512 * n, 512))
        made.send(10 * n + 1, "<", wire.reply(0x100 + n, wire.read3(512)))
    seen = made.seen_by("client")
    decoded = _read(wire.write_pcap(tmp_path / "twice.pcap", seen, seen), tmp_path)[1]
    assert {state: count for state, count in decoded.states.items() if count} == {
        State.PAIRED: 10,
        State.DUPLICATE_FRAME: 10,
    }
    assert decoded.duplicate_packets == 10
    assert decoded.ops.transmissions.tolist() == [1] * 5


def test_datagrams_of_a_sender_that_does_not_count_them(tmp_path: Path) -> None:
    """RFC 6864 lets a sender give all its packets one IP identification: different messages are no copies then."""
    udp = wire.Udp()
    for n in range(5):
        udp.ip_ids = {">": 6, "<": 6}  # the next one is 7
        udp.send(10 * n, ">", wire.read(0x100 + n, 512 * n, 512))
        udp.ip_ids = {">": 6, "<": 6}
        udp.send(10 * n + 1, "<", wire.reply(0x100 + n, wire.read3(512)))
    decoded = _decoded(tmp_path, udp)
    assert (len(decoded.ops), decoded.duplicate_packets) == (5, 0)


# --- Hostile captures -------------------------------------------------------------------------------------------------

_MEASURED = """
import json, os, re, sys
from pathlib import Path
from nfslat.decode.engine import choose
import nfslat.decode.native
# Not ru_maxrss, which a process inherits from the one that started it.
peak = lambda: int(re.search("VmHWM: *\\t* *([0-9]+) kB", Path("/proc/self/status").read_text())[1])
while path := sys.stdin.readline().rstrip():
    if child := os.fork():
        os.waitpid(child, 0)
        print(flush=True)  # behind what the child said, if it came to that
        continue
    before = peak()
    engine = choose("native", None, Path("."), rereads=False)
    _, decoded = engine.decode(engine.open(path), lambda _: None)
    states = {state.name: count for state, count in decoded.states.items()}
    packets = sum(decoded.packet_kinds.values())
    print(json.dumps({**states, "packets": packets, **decoded.packet_kinds, "MiB": (peak() - before) / 1024}), end="")
    sys.exit()
"""


Measured = Callable[[Path], dict[str, float]]


@pytest.fixture(scope="module")
def measured() -> Iterator[Measured]:
    """Messages by state, packets by kind, and by how many MiB a process of its own grew to decode a capture.

    Each is the child of one that has imported all there is to import, and has decoded nothing.
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc: how much memory a process takes cannot be seen")
    command = [sys.executable, "-c", _MEASURED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        told, said = process.stdin, process.stdout
        assert told is not None
        assert said is not None

        def ask(path: Path) -> dict[str, float]:
            told.write(f"{path}\n")
            line = said.readline()
            assert line.strip(), "it did not come to its end"
            found: dict[str, float] = json.loads(line)
            return found

        yield ask


def _many(path: Path, template: wire.Tcp | wire.Udp, count: int, **fields: np.ndarray) -> Path:
    """A capture of one packet `count` times, a microsecond apart, with big-endian `fields` that differ in each.

    Names are of the places below; a payload that begins with a record mark is supposed, over TCP.
    """
    (packet,) = template.seen_by("client")
    frame = np.frombuffer(packet.frame, dtype=np.uint8)
    records = np.zeros((count, 16 + len(frame)), dtype=np.uint8)
    head = np.zeros((count, 4), dtype="<u4")
    head[:, 0], head[:, 1] = 1_700_000_000 + np.arange(count) // 10**6, np.arange(count) % 10**6
    head[:, 2:] = len(frame)
    records[:, :16] = head.view(np.uint8)
    records[:, 16:] = frame
    for name, values in fields.items():
        at, dtype = _PLACES[name]
        raw = np.asarray(values).astype(dtype).view(np.uint8).reshape(count, -1)
        records[:, 16 + at : 16 + at + raw.shape[1]] = raw
    path.write_bytes(_pcap(records.tobytes()))
    return path


# Ethernet, IPv4 and TCP without options, a record mark, and the message.
_PLACES = {
    "ip_id": (18, ">u2"),
    "fragment": (20, ">u2"),
    "source": (26, ">u4"),
    "sport": (34, ">u2"),
    "seq": (38, ">u4"),
    "mark": (54, ">u4"),
    "xid": (58, ">u4"),
    "program": (70, ">u4"),
}


def _one(way: str, message: bytes) -> wire.Tcp:
    tcp = wire.Tcp()
    tcp.send(0, way, message)
    return tcp


def _sequence_numbers(flow: wire.Tcp, count: int) -> np.ndarray:
    """Those of segments as long as the only one of `flow`, that follow each other."""
    return 1000 + np.arange(count) * len(flow.packets[0].data)  # type: ignore[attr-defined]


def _xids(count: int, kind: str) -> np.ndarray:
    n = np.arange(count, dtype=np.uint64)
    return {
        "random": n * 0x9E3779B1 + 12345,
        "apart": n << 16 | n >> 16,  # differ in their high half first
        "eighths": n * 8 * 1021,
        "same": n * 0 + 7,
    }[kind] & 0xFFFFFFFF


@pytest.mark.parametrize(
    "kind", ["random", "same", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("apart", "eighths"))]
)
def test_calls_without_a_reply(measured: Measured, tmp_path: Path, kind: str) -> None:
    """200,000 calls that nobody answers, whatever their XIDs: each is counted, with some 300 bytes each at most."""
    count, flow = 200_000, _one(">", wire.null(0))
    path = _many(tmp_path / "x.pcap", flow, count, seq=_sequence_numbers(flow, count), xid=_xids(count, kind))
    found = measured(path)
    assert found["NO_REPLY"] + found["RETRANSMITTED"] == count
    assert found["MiB"] < 64


def test_replies_without_a_call(measured: Measured, tmp_path: Path) -> None:
    """200,000 replies to calls that are not in the capture are each counted, in bounded memory."""
    count, flow = 200_000, _one("<", wire.reply(0))
    xids = _xids(count, "random")
    path = _many(tmp_path / "x.pcap", flow, count, seq=_sequence_numbers(flow, count), xid=xids)
    found = measured(path)
    assert found["NO_CALL"] == count
    assert found["MiB"] < 64


def test_connections_beyond_the_bound_are_forgotten(measured: Measured, tmp_path: Path) -> None:
    """300,000 SYNs, each of an endpoint of its own: what is kept of connections stays below its bound."""
    tcp = wire.Tcp()
    tcp.syn(0)
    tcp.packets = tcp.packets[:1]
    count = 300_000
    source = 0x0B000000 + np.arange(count) // 60_000
    found = measured(_many(tmp_path / "x.pcap", tcp, count, source=source, sport=np.arange(count) % 60_000))
    assert found["packets"] == count
    assert found["MiB"] < 192


def test_connections_that_begin_anew_all_the_time(measured: Measured, tmp_path: Path) -> None:
    """100,000 SYNs between the same two endpoints that have spoken RPC: some 400 bytes each at most."""
    tcp = wire.Tcp()
    tcp.syn(0)
    tcp.packets = tcp.packets[:1]
    path = _many(tmp_path / "x.pcap", tcp, 100_000, seq=np.arange(100_000) * 1000)
    rpc = wire.write_pcap(tmp_path / "rpc.pcap", _ops(1).seen_by("client")).read_bytes()
    path.write_bytes(rpc + path.read_bytes()[24:])
    found = measured(path)
    assert found["PAIRED"] == 2
    assert found["MiB"] < 64


@pytest.mark.parametrize(
    "mark",
    [0xFFFFFFFF, 0, *(pytest.param(mark, marks=pytest.mark.long) for mark in (0x7FFFFFFF, 0x80000000, 0x03FFFFFF))],
)
def test_record_marks_that_lie(measured: Measured, tmp_path: Path, mark: int) -> None:
    """Records of 2 GiB, of no bytes, and endless fragments: behind each the stream goes on."""
    count, flow = 50_000, _one(">", wire.null(0))
    marks = np.full(count, mark)
    marks[::2] = 0x80000000 | (len(wire.null(0)))
    path = _many(
        tmp_path / "x.pcap",
        flow,
        count,
        seq=_sequence_numbers(flow, count),
        mark=marks,
        xid=_xids(count, "random"),
    )
    found = measured(path)
    assert found["packets"] == count
    assert found["NO_REPLY"] >= 1
    assert found["MiB"] < 64


@pytest.mark.parametrize("step", [3, *(pytest.param(step, marks=pytest.mark.long) for step in (2, 100_003))])
def test_segments_behind_holes_that_are_never_filled(measured: Measured, tmp_path: Path, step: int) -> None:
    """100,000 segments with a hole in front of each are held for a while and let go, within their bound."""
    count, flow = 100_000, _one(">", wire.write(0, 0, 900))
    size = len(flow.packets[0].data)  # type: ignore[attr-defined]
    order = np.arange(count) * step % count if step > 3 else np.arange(count) * step
    path = _many(tmp_path / "x.pcap", flow, count, seq=1000 + order * size, xid=_xids(count, "random"))
    found = measured(path)
    assert found["packets"] == count
    assert found["MiB"] < 128


@pytest.mark.long
@pytest.mark.parametrize("overlapping", [False, True])
def test_fragments_that_never_make_a_packet(measured: Measured, tmp_path: Path, *, overlapping: bool) -> None:
    """100,000 IP fragments, each of a packet of its own, or many of one and the same: the oldest make room."""
    count, udp = 100_000, wire.Udp()
    udp.send(0, ">", wire.write(1, 0, 1000))
    number = np.arange(count)
    ids = number % 16 if overlapping else number
    where = 0x2000 | (1 + number * 7919 % 8000)
    found = measured(_many(tmp_path / "x.pcap", udp, count, ip_id=ids, fragment=where, source=number // 65536 + 1))
    assert found["ip fragment"] == count
    assert found["MiB"] < 128


def test_programs_beyond_number(measured: Measured, tmp_path: Path) -> None:
    """100,000 calls, each of another program: each is counted, and what is kept of programs is bounded."""
    count, flow = 100_000, _one(">", wire.null(0))
    programs = 200_000 + np.arange(count)
    path = _many(
        tmp_path / "x.pcap",
        flow,
        count,
        seq=_sequence_numbers(flow, count),
        xid=_xids(count, "random"),
        program=programs,
    )
    found = measured(path)
    assert found["NO_REPLY"] == count
    assert found["MiB"] < 64


def test_unstable_writes_are_marked(tmp_path: Path) -> None:
    """stable_how of NFSv3 and NFSv4: only UNSTABLE lets the server answer from memory; a READ never does, nor a WRITE
    whose stable_how lies behind the snaplen."""
    tcp = wire.Tcp()
    calls = [wire.write(1 + how, stable=how) for how in (0, 1, 2)]
    calls += [wire.compound(4 + how, wire.v4_putfh(), wire.v4_write(stable=how)) for how in (0, 1, 2)]
    calls.append(wire.read(7))
    for at, call in enumerate(calls):
        tcp.send(10 * at, ">", call)
        tcp.send(10 * at + 5, "<", wire.reply(at + 1, wire.WRITE3))
    ops = _decoded(tmp_path, tcp).ops
    assert ops.xid[(ops.flags & UNSTABLE_WRITE) != 0].tolist() == [1, 4]
    cut = _decoded(tmp_path, tcp, snaplen=54 + len(wire.write(1, count=0)) - 8).ops
    assert 1 in cut.xid
    assert not (cut.flags & UNSTABLE_WRITE).any()
