"""Where packets come from while they are captured: pieces of captures, files that grow, rotated sets, gaps."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from live_captures import pairs_of

from nfslat.cli.main import main
from nfslat.errors import InputError
from nfslat.field.hosts import Voice
from nfslat.field.link import Link
from nfslat.field.plan import Plan, Wanted
from nfslat.live.rows import row_of
from nfslat.live.sources.feed import Feed, Gap
from nfslat.live.sources.feeds import View
from nfslat.live.sources.follow import Follower
from nfslat.live.sources.hosts import Streams, _Stream
from nfslat.live.sources.splice import Splice
from nfslat.live.text import Lines
from nfslat.live.watch import Stretch
from nfslat.model.units import NS_PER_S

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "server-threads"
SERVER, CLIENT = (gzip.decompress((SAMPLE / f"{side}.pcap.gz").read_bytes()) for side in ("server", "client"))
_HEADER = 24


def _records(data: bytes) -> list[bytes]:
    found, at = [], _HEADER
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at:end])
        at = end
    return found


def _piece(data: bytes, begin: int, end: int) -> bytes:
    """A capture of some of its packets."""
    return data[:_HEADER] + b"".join(_records(data)[begin:end])


class _Pipe:
    """What comes out of a splice."""

    def __init__(self) -> None:
        read, out = os.pipe()
        self.splice = Splice([out], "a capture")
        self._came = bytearray()
        self._thread = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._thread.start()

    def _read(self, end: int) -> None:
        with open(end, "rb") as stream:
            self._came += stream.read()

    def came(self) -> bytes:
        self.splice.close()
        self._thread.join(10)
        return bytes(self._came)


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_pieces_of_any_size_are_one_capture(size: int) -> None:
    """What is cut off anywhere, and goes on in other files, comes out as one capture of whole packets."""
    records, pipe = _records(CLIENT), _Pipe()
    for begin, end in ((0, 100), (100, 101), (101, 400)):
        pipe.splice.begin()
        data = _piece(CLIENT, begin, end) + (records[end][:20] if end == 100 else b"")
        for at in range(0, len(data), size):
            pipe.splice.take(data[at : at + size])
    assert pipe.came() == _piece(CLIENT, 0, 400)
    assert pipe.splice.packets == 400


def test_it_ends_though_nobody_reads() -> None:
    """A decoder that has stopped keeps its end of the pipe: who writes when it is full does not wait for ever."""
    read, out = os.pipe()
    splice = Splice([out], "a capture")
    failed = []

    def write() -> None:
        try:
            for _ in range(10):
                splice.take(CLIENT)
                splice.begin()
        except OSError as problem:
            failed.append(problem)

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.1)
    splice.close()
    writer.join(5)
    os.close(read)
    assert [type(one) for one in failed] == [BrokenPipeError]


@pytest.mark.skipif(shutil.which("editcap") is None, reason="editcap is not installed")
def test_pcapng_comes_block_by_block(tmp_path: Path) -> None:
    """Sections follow one another, with the times of their packets, and nothing of a block that is cut off."""
    (tmp_path / "whole.pcap").write_bytes(_piece(CLIENT, 0, 50))
    command = ["editcap", "-F", "pcapng", str(tmp_path / "whole.pcap"), str(tmp_path / "one.pcapng")]
    subprocess.run(command, check=True, capture_output=True)
    data, pipe = (tmp_path / "one.pcapng").read_bytes(), _Pipe()
    pipe.splice.take(data[:-10])
    pipe.splice.begin()
    for at in range(0, len(data), 1000):
        pipe.splice.take(data[at : at + 1000])
    came = pipe.came()
    assert came.endswith(data)
    assert len(data) < len(came) < 2 * len(data)
    seconds, rest = struct.unpack_from("<II", _records(CLIENT)[49])
    assert pipe.splice.last_ns == seconds * 10**9 + rest * (1000 if CLIENT[:4] == b"\xd4\xc3\xb2\xa1" else 1)


def test_what_is_no_capture_is_refused() -> None:
    """And so is one of another link type than before, and a packet that is longer than any."""
    other = bytearray(_piece(CLIENT, 0, 5))
    other[20] = 113
    damaged = bytearray(_piece(CLIENT, 0, 5))
    damaged[_HEADER + 8 : _HEADER + 12] = b"\xff\xff\xff\x7f"
    for first, second, words in (
        (b"", b"<html>" * 10, "neither pcap nor pcapng"),
        (_piece(CLIENT, 0, 5), bytes(other), "a capture of another kind"),
        (b"", bytes(damaged), "is damaged: a packet has no end"),
    ):
        pipe = _Pipe()
        pipe.splice.take(first)
        pipe.splice.begin()
        with pytest.raises(InputError, match=words):
            pipe.splice.take(second)
        pipe.came()


# --- Files that grow -------------------------------------------------------------------------------------


class _Reader:
    """What a follower hands on."""

    def __init__(self, argument: Path | str) -> None:
        self.follower = Follower("client", str(argument))
        self._came = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with open(self.follower.feed.paths[0], "rb") as stream:
            while chunk := os.read(stream.fileno(), 1 << 16):
                self._came += chunk

    def wait_for(self, data: bytes) -> None:
        end = time.monotonic() + 10
        while bytes(self._came) != data and time.monotonic() < end:
            time.sleep(0.02)
        assert bytes(self._came) == data


@pytest.fixture
def read() -> Iterator[Callable[[Path | str], _Reader]]:
    """Follows what it is given until the end of the test."""
    readers: list[_Reader] = []

    def follow(argument: Path | str) -> _Reader:
        readers.append(_Reader(argument))
        return readers[-1]

    yield follow
    for reader in readers:
        reader.follower.close()


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as out:
        out.write(data)


def test_a_file_that_grows(tmp_path: Path, read: Callable[[Path], _Reader]) -> None:
    """Its packets come as they are whole; written anew it is another capture, and so is another file of its name."""
    path, records = tmp_path / "growing.pcap", _records(CLIENT)
    path.write_bytes(b"")
    reader = read(path)
    _append(path, _piece(CLIENT, 0, 3) + records[3][:11])
    reader.wait_for(_piece(CLIENT, 0, 3))
    _append(path, records[3][11:])
    reader.wait_for(_piece(CLIENT, 0, 4))
    path.write_bytes(_piece(CLIENT, 10, 12))
    reader.wait_for(_piece(CLIENT, 0, 4) + b"".join(records[10:12]))
    assert [gap.why for gap in reader.follower.feed.gaps] == [f"{path} was written anew before all of it was read"]
    (tmp_path / "next").write_bytes(_piece(CLIENT, 12, 14))
    (tmp_path / "next").rename(path)
    reader.wait_for(_piece(CLIENT, 0, 4) + b"".join(records[10:14]))
    assert len(reader.follower.feed.gaps) == 1


@pytest.mark.parametrize("as_pattern", [False, True])
def test_a_rotated_set(tmp_path: Path, read: Callable[[Path | str], _Reader], as_pattern: bool) -> None:
    """Files come in the order of their packets, whatever their names; a name that comes again, too. What was read and
    is deleted is not missed, and what lies beside them is none."""
    for name, begin in (("c.pcap9", 0), ("c.pcap1", 5), ("c.pcap2", 10)):
        (tmp_path / name).write_bytes(_piece(CLIENT, begin, begin + 5))
    (tmp_path / "c.pcap0.gz").write_bytes(gzip.compress(_piece(CLIENT, 0, 5)))
    (tmp_path / "c.txt").write_text("not a capture, but of the same folder")
    reader = read(str(tmp_path / "c.*") if as_pattern else tmp_path)
    reader.wait_for(_piece(CLIENT, 0, 15))
    (tmp_path / "c.pcap9").write_bytes(_piece(CLIENT, 15, 17))  # as tcpdump -W does
    reader.wait_for(_piece(CLIENT, 0, 17))
    (tmp_path / "c.pcap1").unlink()
    (tmp_path / "c.pcap5").write_bytes(CLIENT[:_HEADER])
    _append(tmp_path / "c.pcap9", _records(CLIENT)[17])
    reader.wait_for(_piece(CLIENT, 0, 18))
    _append(tmp_path / "c.pcap5", b"".join(_records(CLIENT)[18:20]))
    reader.wait_for(_piece(CLIENT, 0, 20))
    assert not reader.follower.feed.gaps


def test_a_file_that_was_deleted_unread_is_a_gap(tmp_path: Path) -> None:
    """It is named, with the time between what was read before and what is read next."""
    for number in range(3):
        (tmp_path / f"{number}.pcap").write_bytes(_piece(CLIENT, 5 * number, 5 * number + 5))
    follower = Follower.__new__(Follower)  # without its thread: what it sees is up to the test
    follower.feed = Feed("client", "x")
    follower._is_one, follower._pattern, follower._known = False, f"{tmp_path}/*", {}
    follower._now, follower._waiting, follower._is_over = None, frozenset(), threading.Event()
    follower._look()
    first = min(follower._waiting)
    follower._now, follower._waiting = first, follower._waiting - {first}
    follower.feed.take((tmp_path / "0.pcap").read_bytes())
    (tmp_path / "1.pcap").unlink()
    follower._look()
    (gap,) = follower.feed.gaps
    assert gap.why.endswith("1.pcap was deleted, or written anew, before it was read")
    assert (gap.begin_ns, gap.end_ns) == (follower.feed.splice.last_ns, None)
    follower.feed.begin()
    follower.feed.take((tmp_path / "2.pcap").read_bytes())
    assert gap.end_ns == follower.feed.splice.first_ns
    follower.feed.end()
    follower.feed.close()


def test_what_cannot_grow_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line, and nothing hangs."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("no capture, though there is enough of it to tell\n")
    for name, words in (("none", "no such file"), ("fifo", "is no file that could grow"), ("text", "neither pcap nor")):
        assert main(["live", "--follow", str(tmp_path / name), str(tmp_path / name)]) == 3
        assert words in capsys.readouterr().err
    for words in (["--follow"], ["--max-cpu", "5", "a", "b"], ["--server", "x", "a", "b"], ["--max-cpu", "x"]):
        assert main(["live", *words]) == 2


def test_live_follows_sets(tmp_path: Path) -> None:
    """The rows of sets that are written meanwhile are those of the whole captures, until Ctrl-C."""
    for side, data in (("server", SERVER), ("client", CLIENT)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "0.pcap").write_bytes(_piece(data, 0, 300))
    command = [sys.executable, "-m", "nfslat", "live", "--follow", "server", "client", "--interval=1", "--json=-"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, text=True, env=environment) as process:
        assert process.stdout is not None
        time.sleep(1)
        for side, data in (("server", SERVER), ("client", CLIENT)):
            (tmp_path / side / "1.pcap").write_bytes(_piece(data, 300, 10**6))
        rows = []
        for line in process.stdout:
            rows.append(json.loads(line))
            if len(rows) == 6:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130
    (tmp_path / "s.pcap").write_bytes(SERVER)
    (tmp_path / "c.pcap").write_bytes(CLIENT)
    whole = [*command[:4], "s.pcap", "c.pcap", *command[-2:]]
    out = subprocess.run(whole, cwd=tmp_path, check=True, stdout=subprocess.PIPE, env=environment).stdout
    of_whole = [json.loads(line) for line in out.splitlines()[:6]]
    assert [row | {"lag_s": 0} for row in rows] == [row | {"lag_s": 0} for row in of_whole]


def test_a_set_that_is_damaged_ends_both(tmp_path: Path) -> None:
    """Though nothing is wrong with the other one, which would go on for ever; the line says which."""
    (tmp_path / "s.pcap").write_bytes(_piece(SERVER, 0, 300) + b"\xff" * 64)
    (tmp_path / "c.pcap").write_bytes(_piece(CLIENT, 0, 300))
    command = [sys.executable, "-m", "nfslat", "live", "--follow", "s.pcap", "c.pcap", "--interval=1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 3
    assert ended.stderr == "nfslat: s.pcap: is damaged: a packet has no end\n"


# --- Times without packets --------------------------------------------------------------------------------


@pytest.fixture
def feed() -> Iterator[Feed]:
    """Of a server, with a gap of ten seconds."""
    made = Feed("server", "nfs1 (server)")
    made.gaps.append(Gap(100 * NS_PER_S, 110 * NS_PER_S, "the connection was lost"))
    yield made
    made.end()
    made.close()


def _fault(begin_s: float, later_s: float = 0.0) -> Stretch:
    """A stretch of a second, with the cause of the sample."""
    (first, *_) = pairs_of(SAMPLE / "server.pcap.gz", SAMPLE / "client.pcap.gz", 3600.0)
    row = dataclasses.replace(row_of(first, None), outcome="fault", cause="server-threads", layer="server")
    begin_ns = int(begin_s * NS_PER_S)
    pair = dataclasses.replace(first, begin_ns=begin_ns, end_ns=begin_ns + NS_PER_S, later_ns=int(later_s * NS_PER_S))
    return Stretch(pair, row, None)


def test_of_a_gap_no_cause_is_made(feed: Feed) -> None:
    """Stretches that a gap touches, on the clock of the capture that has it, and two seconds after it, are not judged;
    one that goes on touches all that follow."""
    view = View({"server": feed}, feed.paths)
    for begin_s, gap in ((90, None), (98.5, None), (99.5, "server"), (109, "server"), (111.5, "server"), (113, None)):
        for later_s in (0.0, 7000.0):
            row = view.judged(_fault(begin_s + later_s, later_s)).row
            assert (row.gap, row.outcome, row.cause) == (
                (None, "fault", "server-threads") if gap is None else (gap, "undecided", None)
            )
    feed.gaps[0].end_ns = None
    lines = list(Lines(80).of(view.judged(_fault(10**6))))
    assert lines[-3].endswith(" no packets")
    assert "nfs1 (server): the connection was lost. Nothing is judged." in " ".join(" ".join(lines).split())


def test_dropped_packets_are_those_since_the_row_before(feed: Feed) -> None:
    """They are a line below their row; where no host is asked nothing is known of them."""
    view = View({"server": feed}, feed.paths)
    dropped = []
    for so_far in (None, 0, 1234, 1234, 1240):
        feed.dropped = so_far
        dropped.append(view.judged(_fault(0)))
    assert [one.row.dropped for one in dropped] == [None, 0, 1234, 0, 6]
    said = [line for one in dropped for line in Lines(80).of(one) if "dropped" in line]
    assert said[0] == "    1,234 packets dropped by the kernel of a host that captures"
    assert len(said) == 2


@pytest.mark.parametrize(
    ("came", "dropped", "outcome", "expected"),
    [
        (1000, 40, "no-fault", "no-fault"),
        (1000, 60, "no-fault", "undecided"),
        (1000, 900, "fault", "fault"),
        (0, 900, "undecided", "undecided"),
    ],
)
def test_nothing_is_well_while_many_packets_are_dropped(
    feed: Feed, came: int, dropped: int, outcome: str, expected: str
) -> None:
    """More than a twentieth of a side's: what they would have shown may be a fault. One that others show is one."""
    view, stretch = View({"server": feed}, feed.paths), _fault(0)
    stretch = dataclasses.replace(stretch, row=dataclasses.replace(stretch.row, outcome=outcome))
    feed.dropped = 5
    view.judged(stretch)
    feed.splice.packets += came
    feed.dropped += dropped
    row = view.judged(stretch).row
    assert (row.outcome, row.dropped) == (expected, dropped)
    said = f"The kernel of nfs1 (server) dropped {dropped / (came + dropped):.0%} of the packets"
    assert row.text.startswith(said) == (outcome != expected)
    assert view.judged(stretch).row.outcome == outcome


def _streams(feed: Feed, said: list[str]) -> tuple[Streams, _Stream]:
    """Of a host that captures whole packets."""
    streams = Streams.__new__(Streams)
    streams._wanted = Wanted({})
    streams._voice = Voice(said.append, said.append, lambda: True, terminal=False)
    link = cast("Link", SimpleNamespace(name="nfs1", kill=lambda: None))
    stream = _Stream(link, cast("Plan", None), feed, 0, "streaming")
    stream.looked = time.monotonic(), 0
    return streams, stream


def _counted(feed: Feed, *counts: tuple[int, int]) -> list[str]:
    """What is said of a host that captures whole packets, after seconds in which so many MB came, and so many packets
    had been dropped so far."""
    said: list[str] = []
    streams, stream = _streams(feed, said)
    for mb, dropped in counts:
        feed.splice.bytes += mb << 20
        stream.looked = stream.looked[0] - 1, stream.looked[1]
        streams._counted(stream, f"{mb} {dropped} 3")
    return said


@pytest.mark.parametrize(
    ("counts", "is_shorter"),
    [
        ([(15, 0), (15, 0), (15, 0)], False),
        ([(30, 0), (5, 0), (30, 0)], False),
        ([(30, 0), (30, 0)], True),
        ([(15, 10), (15, 20)], True),
        ([(5, 10), (5, 20)], False),
    ],
)
def test_too_many_bytes_are_fewer_bytes_of_a_packet(
    feed: Feed, counts: list[tuple[int, int]], is_shorter: bool
) -> None:
    """Twice in a row more than 20 MB/s, or than 10 with packets dropped, and a host is asked for less; a burst is
    borne."""
    said = _counted(feed, *counts)
    assert said[:1] == ["nfs1: 512 bytes of a packet from now on instead of whole packets"] * is_shorter
    assert feed.cpu_percent == 3


def test_more_bytes_of_a_packet_when_there_is_less_traffic(feed: Feed) -> None:
    """Those that were too many before, after a minute in which they would have been few; after two the next time. What
    is long on the wire counts as long."""
    said: list[str] = []
    streams, stream = _streams(feed, said)

    def counted(packets: int, wire: int, mb: int, times: int) -> int:
        for number in range(times):
            stream.state = "streaming"
            feed.splice.bytes += mb << 20
            feed.splice.packets += packets
            feed.splice.wire_bytes += packets * wire
            stream.looked = stream.looked[0] - 5, stream.looked[1]
            streams._counted(stream, "1 0 3")
            if stream.state == "waiting":
                return number + 1
        return 0

    assert counted(100_000, 1500, 150, 9) == 2
    assert stream.snaplen == 512
    assert counted(100_000, 1500, 50, 40) == 0  # 30 MB/s of whole packets
    assert counted(10_000, 1500, 5, 40) == 12
    assert stream.snaplen == 0
    assert said[-1] == "nfs1: no packets (whole packets once more: its traffic is less); asked again in 0 s"
    assert counted(100_000, 1500, 150, 9) == 2
    assert counted(10_000, 1500, 5, 40) == 24
    assert counted(10_000, 1500, 5, 40) == 0


def test_the_clock_goes_on_without_packets(feed: Feed) -> None:
    """Quiet for some seconds, a feed sends packets of no bytes with the time of its capture, three seconds late, so
    that stretches end; never before a packet that it has sent."""
    came = bytearray()

    def read() -> None:
        with open(feed.paths[0], "rb") as stream:
            came.extend(stream.read())

    reader = threading.Thread(target=read)
    reader.start()
    data = _piece(CLIENT, 0, 3)
    feed.take(data)
    feed.tick()
    feed._came -= 2
    feed.tick()
    feed._came -= 3.5
    feed.tick()
    feed.tick()
    feed.end()
    reader.join(10)
    ticks = came[len(data) :]
    assert came[: len(data)] == data
    assert len(ticks) % 16 == 0
    assert 1 <= len(ticks) // 16 <= 2
    assert feed.splice.last_ns is not None
    seconds, rest, kept, whole = struct.unpack_from("<4I", ticks)
    late_s = seconds + rest / (10**9 if CLIENT[0] == 0x4D else 10**6) - feed.splice.last_ns / 10**9
    assert (kept, whole) == (0, 0)
    assert 2.5 <= late_s < 3.5
