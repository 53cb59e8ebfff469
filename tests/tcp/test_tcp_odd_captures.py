"""Captures in which something is odd: spoilt numbers, clocks that are wrong, FINs and copies that come in front."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from odd_talks import bulk, lost, with_fin
from timeline import Timeline
from wire import Seen, moved, summed, write_pcap

from nfslat.cli import main as cli

_OFF = 0x1F0000
_SUM = 50  # in a frame of Ethernet, IPv4 and TCP


def _transport(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, Any]:
    assert cli.main(["transport", str(path), "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _with_spoilt(line: Timeline, at: int, by: int) -> list[Seen]:
    """Frame `at` has a number that is `by` off, and the checksum that was right before."""
    frames = [Seen(one.t_ns, summed(one.frame)) for one in line.seen()]
    frames[at] = Seen(frames[at].t_ns, moved(frames[at].frame, by))
    return frames


@pytest.mark.parametrize("by", [_OFF, -_OFF, 1 << 30])
def test_a_spoilt_number_is_no_hole(tmp_path: Path, capsys: pytest.CaptureFixture[str], by: int) -> None:
    """Its checksum is wrong, so its receiver takes nothing of it; the packet is counted, and a note says so. The next
    one repeats its bytes in the right place."""
    line = bulk()
    spoilt = line.send(15.1, ">", 1000, seq=6000)
    frames = _with_spoilt(line, line.in_order().index(spoilt), by)
    found = _transport(capsys, write_pcap(tmp_path / "damaged.pcap", frames, nano=True))
    assert len(found["conversations"]) == 1
    there = found["details"][0]["counts"][0]
    assert (there["ahead"], there["out_of_order"], there["uncaptured_bytes"], there["new_bytes"]) == (0, 0, 0, 30_000)
    (capture,) = found["captures"]
    assert (capture["damaged_packets"], capture["tcp_packets"]) == (1, len(frames) - 1)
    assert any("bad checksums" in note for note in found["notes"])


@pytest.mark.parametrize("form", ["right", "left out", "cut"])
def test_a_hole_that_the_capture_has_stays_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    """2 MB that the capture dropped: checksums are right, left to the adapter, or behind the snaplen."""
    line = bulk(5)
    for number in range(5):
        line.send(30 + number, ">", 1000, seq=5000 + _OFF + 1000 * number, ack=0)
        line.ack(30.2 + number, "<", ack=6000 + _OFF + 1000 * number)
    frames = line.seen() if form == "left out" else [Seen(one.t_ns, summed(one.frame)) for one in line.seen()]
    if form == "cut":
        frames = [Seen(one.t_ns, one.frame[:_SUM] + b"\1\1" + one.frame[_SUM + 2 :]) for one in frames]
    snaplen = 128 if form == "cut" else 262_144
    path = write_pcap(tmp_path / "hole.pcap", frames, nano=True, snaplen=snaplen)
    found = _transport(capsys, path)
    there = found["details"][0]["counts"][0]
    assert (there["ahead"], there["uncaptured_bytes"]) == (1, _OFF)
    assert found["captures"][0]["damaged_packets"] == 0


def test_sums_that_are_always_wrong_hide_one_packet_at_most(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An adapter that joins segments leaves wrong sums: behind a hole the second packet is believed."""
    line = bulk(5)
    for number in range(5):
        line.send(30 + number, ">", 1000, seq=5000 + _OFF + 1000 * number, ack=0)
    frames = [Seen(one.t_ns, one.frame[:_SUM] + b"\1\1" + one.frame[_SUM + 2 :]) for one in line.seen()]
    found = _transport(capsys, write_pcap(tmp_path / "joined.pcap", frames, nano=True))
    assert found["captures"][0]["damaged_packets"] == 1
    assert found["details"][0]["counts"][0]["new"] == 5 + 3


def test_what_three_duplicate_acks_asked_for_was_sent_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though its bytes were never seen; behind two it may as well have been overtaken."""
    for duplicates, kind in ((3, "retransmissions"), (2, "out_of_order")):
        found = _transport(capsys, lost(duplicates).write(tmp_path / f"{duplicates}.pcap"))
        there = found["details"][0]["counts"][0]
        assert there["ahead"] == 1
        found_kinds = {name for name in ("retransmissions", "out_of_order") if there[name] == 1}
        assert (found_kinds, there["retransmissions"] + there["out_of_order"]) == ({kind}, 1)


def test_what_was_sent_again_and_never_seen_is_some_of_what_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes of segments and writes are the same, whether its bytes were lost or overtaken."""
    sizes = [_transport(capsys, lost(n).write(tmp_path / f"{n}.pcap"))["details"][0]["sizes"] for n in (2, 3)]
    assert sizes[0] == sizes[1]


def test_a_fin_that_overtakes_data_is_reordering(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last packet comes behind the FIN that ends the stream behind it; in order it is new."""
    for late, kind in ((True, "out_of_order"), (False, "new")):
        line = with_fin(data_ms=21 if late else 19)
        there = _transport(capsys, line.write(tmp_path / f"{kind}.pcap"))["details"][0]["counts"][0]
        assert (there["new"], there["out_of_order"]) == ((5, 1) if late else (6, 0))
        assert (there["retransmissions"], there["uncaptured_bytes"], there["new_bytes"]) == (0, 0, 6000)


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def _pcapng(packets: Iterable[tuple[int, Seen]], offsets: dict[int, int]) -> bytes:
    """Two interfaces with nanoseconds; `offsets` in seconds are added to the times of one (if_tsoffset)."""
    out = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    for interface in (0, 1):
        options = struct.pack("<HHB3x", 9, 1, 9)
        if interface in offsets:
            options += struct.pack("<HHq", 14, 8, offsets[interface])
        out += _block(1, struct.pack("<HHI", 1, 0, 0) + options + bytes(4))
    for interface, one in packets:
        size = len(one.frame)
        head = struct.pack("<IIIII", interface, one.t_ns >> 32, one.t_ns & 0xFFFFFFFF, size, size)
        out += _block(6, head + one.frame)
    return out


@pytest.mark.parametrize("offset_s", [-(10**10), 10**12])
@pytest.mark.parametrize("is_first", [False, True])
def test_one_interfaces_wrong_clock_does_not_refuse_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], offset_s: int, is_first: bool
) -> None:
    """Its packets are counted and left out, and a note says so; frame numbers are those of the file."""
    other = Timeline(client=("10.0.0.9", 50_000))
    other.handshake(0)
    wrong, right = [(1, one) for one in other.seen()], [(0, one) for one in bulk().seen()]
    packets = [*wrong, *right] if is_first else [*right[:3], *wrong, *right[3:]]
    path = tmp_path / "clocks.pcapng"
    path.write_bytes(_pcapng(packets, {1: offset_s}))
    found = _transport(capsys, path)
    (capture,) = found["captures"]
    told = (capture["packets"], capture["tcp_packets"], capture["other_packets"])
    assert told == (len(packets), len(right), 3)
    assert capture["duration_s"] == pytest.approx(0.0392)
    assert found["details"][0]["counts"][0]["new"] == 30
    assert any("3 packets of an interface with impossible times" in note for note in found["notes"])


def test_a_capture_whose_only_clock_is_wrong_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As ever: with all packets on one interface, or both wrong, there is nothing to go by."""
    path = tmp_path / "clock.pcapng"
    for offsets in ({0: -(10**10)}, {0: -(10**10), 1: -(10**10)}):
        path.write_bytes(_pcapng([(number % len(offsets), one) for number, one in enumerate(bulk().seen())], offsets))
        assert cli.main(["transport", str(path)]) == 3
        assert "times with editcap -t" in capsys.readouterr().err
