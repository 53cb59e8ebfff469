"""Tars of scripts/capture.sh as captures: taken wherever a capture is, and harmless whoever made them."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
import wire
from hypothesis import given
from hypothesis import strategies as st

import nfslat
from nfslat.cli import main as cli
from nfslat.decode import bundle
from nfslat.decode.workspace import open_workspace
from nfslat.errors import InputError

_FACTS = "format: nfslat-capture 1\nside: {}\npackets_dropped_kernel: 7\n"
_MOUNTSTATS = """\
device 10.0.0.2:/export mounted on /mnt with fstype nfs statvers=1.1
\topts:\trw,vers=3,rsize=8192,wsize=8192,proto=tcp,addr=10.0.0.2
\tage:\t{age}
\tper-op statistics
\t        READ: {ops} {ops} 0 {sent} {got} {queued} {rtt} {execute} 0
"""


def _snapshot(ops: int) -> str:
    counted = _MOUNTSTATS.format(
        age=100 + ops, ops=ops, sent=ops * 150, got=ops * 8300, queued=ops * 4, rtt=ops * 5, execute=ops * 9
    )
    head = "# nfslat snapshot 1\n#### nfslat: host\nhostname: db1\nsystem: Linux\n"
    return f"{head}#### nfslat: /proc/self/mountstats\n{counted}#### nfslat: end\n"


def _captures(folder: Path) -> dict[str, list[Path]]:
    """40 READs at both sides, each side's capture in two files."""
    tcp = wire.Tcp()
    for number in range(40):
        tcp.send(number * 10, ">", wire.read(0x100 + number, offset=8192 * number))
        tcp.send(number * 10 + 5, "<", wire.reply(0x100 + number, wire.read3()))
    made = {}
    for side in ("server", "client"):
        seen = tcp.seen_by(side)
        made[side] = [folder / f"{side}-0", folder / f"{side}-1"]
        wire.write_pcap(made[side][0], seen[: len(seen) // 2])
        wire.write_pcap(made[side][1], seen[len(seen) // 2 :])
    return made


def _add(tar: tarfile.TarFile, name: str, data: bytes, **more: object) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


@pytest.fixture
def tars(tmp_path: Path) -> dict[str, Path]:
    """The tar of each side: a ring of two files, snapshots, and seven packets that the kernel dropped."""
    found = {}
    for side, files in _captures(tmp_path).items():
        found[side] = tmp_path / f"{side}.tar"
        with tarfile.open(found[side], "w") as tar:
            _add(tar, "facts.txt", _FACTS.format(side).encode())
            if side == "client":
                _add(tar, "before.txt", _snapshot(1).encode())
                _add(tar, "after.txt", _snapshot(41).encode())
            for number, file in enumerate(files):
                _add(tar, f"./capture.pcap{number}", file.read_bytes())
    return found


def test_a_pair_of_tars_is_a_pair_of_captures(tars: dict[str, Path], engine: str) -> None:
    """The ring is one capture, the snapshots are the host's, and what the kernel dropped is in the audit."""
    report = nfslat.correlate(tars["server"], tars["client"])
    assert len(report.ops["xid"]) == 40
    for side in ("server", "client"):
        codes = {note.code: note.count for note in report.figures.captures[side].audit}
        assert codes["capture-interface-drops"] == 7
    assert engine


def test_snapshots_in_tars_are_evidence(
    tars: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mountstats of before and after give the application's time, as with --client-snapshot, whatever the order of the
    tars; a snapshot that is given counts instead; and one that is of no use is a note, and no more."""
    monkeypatch.chdir(tmp_path)
    server, client = str(tars["server"]), str(tars["client"])
    for pair in ((server, client), (client, server)):
        assert cli.main([*pair]) == 0
        assert "A mean READ takes 9.00 ms" in " ".join(capsys.readouterr().out.split())
    given = [tmp_path / "before.txt", tmp_path / "after.txt"]
    for path, ops in zip(given, (1, 2), strict=True):
        path.write_text(_snapshot(ops).replace("4 5 9 0", "4 5 12 0").replace("8 10 18 0", "8 10 29 0"))
    assert cli.main([server, client, "--client-snapshot", ",".join(map(str, given))]) == 0
    assert "of 17.00 ms of the application's READ time" in capsys.readouterr().out.replace("\n", " ")
    client = os.path.relpath(client)  # short: the text is wrapped
    with tarfile.open(client, "a") as tar:
        _add(tar, "after.txt", b"tcpdump: it went wrong")
    assert cli.main([server, client, "--full"]) == 0
    assert "client.tar: after.txt is not a snapshot" in " ".join(capsys.readouterr().out.split()).replace("- ", "")


def test_names_of_tars_are_not_in_an_anonymous_report(
    tars: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of hosts as often as not, and stand in front of what is said of their snapshots."""
    folder = tmp_path / "nfslat-nfs1-db1"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    for path in tars.values():
        path.rename(folder / path.name)
    with tarfile.open(folder / "server.tar", "a") as tar:
        _add(tar, "before.txt", b"no snapshot")
        _add(tar, "after.txt", b"none either")
    names = [f"{folder.name}/server.tar", f"{folder.name}/client.tar"]
    assert cli.main([*names, "--full"]) == 0
    assert folder.name in capsys.readouterr().out
    assert cli.main([*names, "--anonymize", "--full"]) == 0
    text = capsys.readouterr().out
    assert "is not a snapshot" in " ".join(text.split())
    assert folder.name not in text
    assert "db1" not in text


def test_other_commands_take_tars(
    tars: dict[str, Path], tmp_path: Path, tools: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """show and extract read the packets again, diff takes a folder with both, transport each by itself."""
    assert tools
    pair = [str(tars["server"]), str(tars["client"])]
    assert cli.main(["show", *pair, "--xid", "0x110"]) == 0
    assert "XID 0x00000110" in capsys.readouterr().out
    assert cli.main(["extract", *pair, "--slowest", "1", "--out", str(tmp_path / "worst.pcapng")]) == 0
    folder = tmp_path / "before"
    folder.mkdir()
    for path in tars.values():
        (folder / path.name).write_bytes(path.read_bytes())
    assert cli.main(["diff", str(folder), str(folder)]) == 0
    assert cli.main(["transport", pair[0]]) == 0
    text = capsys.readouterr().out
    assert "7 packets" in text
    assert "/tar-" not in text


def test_the_library_reads_packets_of_a_tar_again(tars: dict[str, Path], tmp_path: Path, tools: object) -> None:
    """What was unpacked is gone when the report is made; extracting unpacks it once more."""
    assert tools
    report = nfslat.correlate(tars["server"], tars["client"])
    with (tmp_path / "one.pcapng").open("wb") as out:
        assert len(report.write_extract(out, xid=[0x105])) == 1


def test_packed_tars_are_the_same(tars: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """server.tar.gz gives the report of server.tar, but for the name."""
    packed = tmp_path / "server.tar.gz"
    packed.write_bytes(gzip.compress(tars["server"].read_bytes()))
    texts = []
    for name in (tars["server"], packed):
        assert cli.main([str(name), str(tars["client"]), "--csv", "-"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_a_tar_is_no_part_of_a_set(tars: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """It is a set already."""
    assert cli.main([f"{tars['server']},{tars['client']}"]) == 3
    assert "an archive is read by itself" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("packed", [False, True])
def test_a_tar_that_is_cut_short_is_refused(
    tars: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float, packed: bool
) -> None:
    """In one line, packed or not: half a capture from a lost connection must not look like a whole one."""
    data = tars["server"].read_bytes()
    end = len(data.rstrip(b"\0"))
    data = gzip.compress(data)[: int(share * len(gzip.compress(data)))] if packed else data[: int(share * end)]
    short = tmp_path / "short.tar"
    short.write_bytes(data)
    assert cli.main([str(short), str(tars["client"])]) == 3
    err = capsys.readouterr().err
    assert f"{short}: the archive ends in the middle" in err
    assert err.count("\n") == 1


def _hostile(path: Path, capture: bytes) -> None:
    with tarfile.open(path, "w") as tar:
        _add(tar, "../escaped.pcap", capture)
        _add(tar, "/tmp/nfslat-escaped.pcap", capture)  # noqa: S108 - it must not come to be
        _add(tar, "../../capture.pcap", capture)
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            _add(tar, "capture.pcap", b"", type=kind, linkname="/etc/passwd")
        _add(tar, "before.txt", b"", type=tarfile.SYMTYPE, linkname="/etc/shadow")
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            _add(tar, "capture.pcap1", b"", type=kind, devmajor=1, devminor=5)
        _add(tar, "facts.txt", b"packets_dropped_kernel: 99999999999999999999\n\xff\xfe\0: \0\n")
        _add(tar, "capture.pcap0", capture)


def test_nothing_but_plain_files_with_known_names_is_taken(tmp_path: Path, tars: dict[str, Path]) -> None:
    """Paths that lead out, links, devices and pipes have no effect; the one honest member is read."""
    (capture,) = _captures(tmp_path)["client"][:1]
    _hostile(tmp_path / "hostile.tar", capture.read_bytes())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    paths, told = bundle.unpack("hostile.tar", tmp_path / "hostile.tar", scratch)
    assert [path.name for path in paths] == ["capture.pcap0"]
    assert sorted(path.name for path in scratch.rglob("*") if not path.is_dir()) == ["capture.pcap0"]
    assert (told.dropped, told.snapshots) == (0, {})
    assert not os.path.lexists(tmp_path / "escaped.pcap")
    assert not os.path.lexists("/tmp/nfslat-escaped.pcap")  # noqa: S108 - see above


def _header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([_header("capture.pcap", 1 << 60)], "set TMPDIR to a folder with more"),
        ([_header("x", 1 << 60, tarfile.XHDTYPE)], "ends in the middle"),
        ([_header("x", 1 << 60, tarfile.GNUTYPE_LONGNAME)], "ends in the middle"),
        ([_header("x", 1 << 40, tarfile.GNUTYPE_SPARSE)], "ends in the middle"),
        ([_header("capture.pcap", 0)] * 2, "holds capture.pcap twice"),
        ([_header(f"junk{number}", 0) for number in range(3)] + [bytes(1024)], "a tar without a capture"),
        ([_header("capture.pcap", 0), bytes(1024)], "its captures are empty"),
        ([_header("capture.pcap", 0), b"\1" * 512], "is damaged"),
        ([_header("facts.txt", 0)] * 10_001, "holds more than 10,000 members"),
    ],
)
def test_what_an_archive_claims_is_not_believed(tmp_path: Path, members: list[bytes], words: str) -> None:
    """Sizes that no disk has, headers of any size, and members without end: one line, at once, and little memory."""
    path = tmp_path / "claims.tar"
    path.write_bytes(b"".join(members))
    assert bundle.is_bundle(path)
    with pytest.raises(InputError, match=words):
        bundle.unpack("claims.tar", path, tmp_path)


def test_a_capture_that_has_a_tars_checksum_by_chance_is_no_tar(tmp_path: Path) -> None:
    """Bytes of a capture whose signed sum is the number at the checksum's place are still a capture's."""
    block = bytearray(b"\x4d\x3c\xb2\xa1" + bytes(508))
    # Blanks stand for the checksum in the sum of it, which is 0 here.
    missing = -(8 * 0x20 + sum(one - 256 if one > 127 else one for one in block))
    for at in range(200, 512):
        step = max(-128, min(127, missing))
        block[at], missing = step & 0xFF, missing - step
    path = tmp_path / "x.pcap"
    path.write_bytes(bytes(block))
    tarfile.TarInfo.frombuf(bytes(block), "utf-8", "surrogateescape")  # what takes it for a header
    assert not bundle.is_bundle(path)


@given(st.binary(max_size=3000), st.integers(0, 4000), st.booleans())
def test_damage_is_an_input_error(noise: bytes, at: int, packed: bool) -> None:
    """Whatever stands anywhere in a tar, packed or not: it is read, or refused in one line."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        _add(tar, "facts.txt", b"side: server\n")
        _add(tar, "capture.pcap", b"\xd4\xc3\xb2\xa1" + bytes(1500))
    data = bytearray(gzip.compress(out.getvalue()) if packed else out.getvalue())
    data[at : at + len(noise)] = noise
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "x.tar")
        path.write_bytes(data)
        if bundle.is_bundle(path):
            said = ""
            try:
                paths, _ = bundle.unpack("x.tar", path, Path(name))
            except InputError as problem:
                said = str(problem)
            else:
                assert all(one.parent.parent == Path(name) for one in paths)
            assert "\n" not in said


def test_sizes_from_extended_headers_count(tmp_path: Path) -> None:
    """Members of 8 GiB and more have their size in a header of POSIX's extended form."""
    capture = b"\xd4\xc3\xb2\xa1" + bytes(700)
    record = f"12 size={len(capture)}\n".encode()
    assert len(record) == 12
    extended = _header("x", len(record), tarfile.XHDTYPE) + record + bytes(-len(record) % 512)
    path = tmp_path / "extended.tar"
    path.write_bytes(extended + _header("capture.pcap", 0) + capture + bytes(-len(capture) % 512) + bytes(1024))
    (found,), _ = bundle.unpack("extended.tar", path, tmp_path)
    assert found.read_bytes() == capture


def test_scratch_files_go(tars: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was unpacked lives as long as the workspace."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with open_workspace([str(path) for path in tars.values()], engine=None, quiet=True) as work:
        assert [file.name for file in work.sources[0].files] == [
            f"{tars['server']}: capture.pcap0",
            f"{tars['server']}: capture.pcap1",
        ]
        assert list(scratch.iterdir()) != []
    assert list(scratch.iterdir()) == []
