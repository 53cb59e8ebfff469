"""What an output option may write to: nothing that nfslat did not write, and only whole files."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nfslat.cli import main as cli
from nfslat.errors import InputError, UsageError
from nfslat.export.output import Kind, binary_output, output, output_directory

SAMPLE = Path(__file__).parents[1] / "samples" / "session-slots"
PAIR = [str(SAMPLE / "server.pcap.gz"), str(SAMPLE / "client.pcap.gz")]

_OURS = [
    (Kind.JSON, b'{\n  "schema": "nfslat.report/2"'),
    (Kind.CSV, b"xid,program,version,op,client,client_port,server,server_port,offset_bytes"),
    (Kind.MISSED, b"side,reason,program,version,op,xid,client,client_port,server"),
    (Kind.FILES, b"time,seconds,client,server,uid,op,version,path,to_path,partial"),
    (Kind.HTML, b"<!doctype html>\n<!-- nfslat 0.1.0"),
    (Kind.PERFETTO, b'{"otherData":{"nfslat":{"format":"nfslat.perfetto/1"'),
    (Kind.PERFETTO, gzip.compress(b'{"otherData":{"nfslat":{"format":"nfslat.perfetto/1"', mtime=0)),
    (Kind.PACKETS, b"\x0a\x0d\x0d\x0a" + bytes(24) + b"nfslat 0.1.0"),
    (Kind.PICTURE, b"\x89PNG\r\n\x1a\n" + bytes(29) + b"tEXtSoftware\0nfslat"),
    (Kind.OPS, b"PAR1 data" + b"nfslat.ops/1" + (12).to_bytes(4, "little") + b"PAR1"),
    (Kind.SIDE, b"PAR1 data" + b"nfslat.side/4" + (13).to_bytes(4, "little") + b"PAR1"),
]
_FOREIGN = [
    b"#!/bin/sh\n",
    b"<!doctype html>\n<p>somebody's",
    b'{\n  "schema": "somebody\'s"',
    b"xid,program,somebody's",
    gzip.compress(b"somebody's", mtime=0),
    b"\x1f\x8bnot gzip",
    b"\x0a\x0d\x0d\x0a" + bytes(24) + b"dumpcap",
    b"\x89PNG\r\n\x1a\n" + bytes(29) + b"tEXtSoftware\0gimp",
    b"PAR1 nfslat.ops/1 in the data" + b"another writer" + (14).to_bytes(4, "little") + b"PAR1",
    b"PAR1",
    b"\xd4\xc3\xb2\xa1",
]


@pytest.mark.parametrize(("kind", "content"), [*_OURS, (Kind.JSON, b"")])
def test_a_file_of_ours_is_replaced(tmp_path: Path, kind: Kind, content: bytes) -> None:
    """What nfslat wrote before, whatever its format, it writes again; in place of another kind only when told to."""
    path = tmp_path / "out"
    path.write_bytes(content)
    for other in Kind:
        if content and other is not kind:
            with pytest.raises(UsageError, match="as the same kind of output; "):
                binary_output(str(path), other, []).__enter__()
    assert path.read_bytes() == content
    with binary_output(str(path), kind, []) as out:
        assert out is not None
        out.write(b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("content", _FOREIGN)
def test_a_file_of_somebody_else_stays(tmp_path: Path, content: bytes) -> None:
    """What nfslat did not write it does not touch, and says so; unless it is told to."""
    path = tmp_path / "out"
    path.write_bytes(content)
    for kind in Kind:
        with pytest.raises(UsageError, match="not written by nfslat"):
            output(str(path), kind, []).__enter__()
    assert path.read_bytes() == content
    with output(str(path), Kind.JSON, [], overwrite=True) as out:
        assert out is not None
        out.write("new")
    assert path.read_bytes() == b"new"


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    """A report that fails half-way leaves what was there, and nothing else in the directory."""
    path = tmp_path / "out.csv"
    path.write_bytes(_OURS[1][1])

    def fails() -> None:
        with output(str(path), Kind.CSV, []) as out:
            assert out is not None
            out.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_bytes() == _OURS[1][1]


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """A directory is refused in a line that says what to name."""
    with pytest.raises(InputError, match="name a file in it"), output(str(tmp_path), Kind.CSV, []):
        pass


def test_an_empty_name_is_none() -> None:
    """What a shell makes of a variable that is not set is neither a file nor this directory."""
    for opened in (output("", Kind.CSV, []), output_directory("", Kind.PICTURE, [])):
        with pytest.raises(UsageError, match="empty name"), opened:
            pass


@pytest.mark.parametrize("given", ["server.pcap", "no.pcap,server.pcap", "serv*.pcap", "no.pcap,s*[r].pcap"])
def test_a_capture_is_never_written_to(tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture of this run is refused, by whatever name it is called, in whatever list or pattern; even if told to."""
    monkeypatch.chdir(tmp_path)
    capture = tmp_path / "server.pcap"
    capture.write_bytes(_OURS[0][1])
    (tmp_path / "link").symlink_to(capture)
    with pytest.raises(UsageError, match="one of the captures"):
        binary_output(str(tmp_path / "link"), Kind.JSON, [given], overwrite=True).__enter__()


def test_only_its_owner_reads_a_new_file(tmp_path: Path) -> None:
    """Names of hosts, users and files are for whoever runs nfslat, whatever the umask; so are folders that it makes."""
    before = os.umask(0)
    try:
        with output(str(tmp_path / "out"), Kind.CSV, []) as out:
            assert out is not None
        with output_directory(str(tmp_path / "a" / "b"), Kind.PICTURE, []) as scratch:
            (scratch / "a.png").touch()
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"out": 0o600, "a": 0o700, "a/b": 0o700, "a/b/a.png": 0o600}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What is written through a link goes to the file that it leads to, there or not."""
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for text in (f"{_OURS[1][1].decode()} {number}" for number in (1, 2)):
        with output(str(tmp_path / "link"), Kind.CSV, []) as out:
            assert out is not None
            out.write(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "out").read_text() == text


def test_who_may_read_a_file_stays(tmp_path: Path) -> None:
    """A file that only its owner could read is so when it was written again."""
    path = tmp_path / "out"
    path.write_bytes(_OURS[1][1])
    path.chmod(0o600)
    with output(str(path), Kind.CSV, []) as out:
        assert out is not None
        out.write("new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_standard_output_by_another_name(tmp_path: Path) -> None:
    """/dev/stdout is standard output, and no file to replace, when it leads to one; then the text goes nowhere."""
    arguments = [sys.executable, "-m", "nfslat", *PAIR, "--json", "/dev/stdout"]
    with (tmp_path / "out.json").open("wb") as out:
        subprocess.run(arguments, stdout=out, check=True)
    text = (tmp_path / "out.json").read_text()
    assert text.startswith('{\n  "schema"')
    assert text.endswith("\n}\n")
    assert os.path.islink("/dev/stdout") or not os.path.exists("/dev/stdout")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "a", "--csv", "./a"),
        ("--json", "a", "--csv", "link"),
        ("--json", "-", "--csv", "/dev/stdout"),
        ("--json", "a", "--png", "a"),
    ],
)
def test_two_outputs_are_two_files(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file by two names is refused before anything is read, so that none is lost."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("a")
    assert cli.main(["no.pcap", "none.pcap", *arguments]) == 2
    assert "cannot both go to" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("option", [pytest.param("--html", marks=pytest.mark.long), "--json"])
def test_a_reader_that_goes_is_noticed(option: str) -> None:
    """Whoever pipes into head gets the status of a broken pipe, in containers that set PYTHONUNBUFFERED, too."""
    for module in ("vl_convert", "jinja2"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    command = [sys.executable, "-m", "nfslat", *PAIR, option, "-"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    read, write = os.pipe()
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, env=environment) as process:
        os.close(write)
        os.read(read, 10)
        os.close(read)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141


# --- Directories ------------------------------------------------------------------------------------------------------


def test_a_directory_is_made_and_filled_at_the_end(tmp_path: Path) -> None:
    """Until all is written nothing is there but what was; then all of it is."""
    (tmp_path / "old.txt").write_text("mine")
    for directory in (tmp_path, tmp_path / "new" / "er"):
        with output_directory(str(directory), Kind.PICTURE, []) as scratch:
            (scratch / "a.png").write_bytes(b"")
            assert not (directory / "a.png").exists()
        assert (directory / "a.png").exists()
        assert not list(directory.glob(".*"))
    assert (tmp_path / "old.txt").read_text() == "mine"


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_a_directory_is_as_it_was_after_an_error(tmp_path: Path, problem: type[BaseException]) -> None:
    """None of the files appears, and a directory that was made is gone."""

    def fails() -> None:
        with output_directory(str(tmp_path / "new" / "er"), Kind.PICTURE, []) as scratch:
            (scratch / "a.png").write_bytes(b"half")
            raise problem

    with pytest.raises(problem):
        fails()
    assert list(tmp_path.iterdir()) == []


def test_pictures_of_somebody_else_stay(tmp_path: Path) -> None:
    """Where one of the files is not nfslat's none is replaced."""
    (tmp_path / "b.png").write_bytes(b"mine")

    def writes() -> None:
        with output_directory(str(tmp_path), Kind.PICTURE, []) as scratch:
            for name in ("a.png", "b.png"):
                (scratch / name).write_bytes(b"new")

    with pytest.raises(UsageError, match="not written by nfslat"):
        writes()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("b.png", b"mine")]


@pytest.mark.long
def test_pictures_are_replaced_by_later_ones(tmp_path: Path) -> None:
    """A second run writes its pictures over those of the first: they carry the name of nfslat."""
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    for _ in range(2):
        assert cli.main([*PAIR, "--png", str(tmp_path / "png"), "--op", "OPEN"]) == 0
    assert {path.suffix for path in (tmp_path / "png").iterdir()} == {".png"}


def test_a_directory_that_cannot_be_written_is_found_out_first(tmp_path: Path) -> None:
    """A file in its place, or a place where nothing can be made, is refused in a line before captures are read."""
    (tmp_path / "file").write_text("")
    for name, status in (("file", UsageError), ("file/below", InputError)):
        with pytest.raises(status, match=name), output_directory(str(tmp_path / name), Kind.PICTURE, []):
            pass


# --- Before captures are read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "module", "extra"),
    [
        ("--html", "vl_convert", "html"),
        ("--html", "jinja2", "html"),
        ("--png", "vl_convert", "html"),
        ("--parquet", "pyarrow", "parquet"),
        ("--ops-parquet", "pyarrow", "parquet"),
    ],
)
def test_a_missing_package_is_found_out_first(
    option: str,
    module: str,
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What to install is said before captures are read (these are not even there), and no file is left."""
    monkeypatch.setitem(sys.modules, module, None)
    captures = ["no.pcap"] if option == "--ops-parquet" else ["no.pcap", "none.pcap"]
    assert cli.main([*captures, option, str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.endswith(f"pip install 'nfslat[{extra}]'\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("option", ["--json", "--csv", "--parquet", "--perfetto"])
def test_a_full_disk_is_named(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says which file could not be written."""
    if option == "--parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert cli.main([*PAIR, option, "/dev/full"]) == 3
    assert capsys.readouterr().err == "nfslat: /dev/full: cannot be written (No space left on device)\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_packets_on_a_full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    """The same of packets that are written."""
    if shutil.which("editcap") is None:
        pytest.skip("Wireshark's tools are not installed")
    assert cli.main(["extract", *PAIR, "--slowest", "3", "--out", "/dev/full"]) == 3
    assert capsys.readouterr().err == "nfslat: /dev/full: cannot be written (No space left on device)\n"
