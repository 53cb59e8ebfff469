"""What an output option may write to: nothing that nfslat did not write, and only whole files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nfslat.errors import InputError, UsageError
from nfslat.output import binary_output, output

_OURS = [
    b'{\n  "schema": "nfslat.report/1"',
    b"xid,program,",
    b"side,reason,",
    b"<!doctype html>\n<!-- nfslat",
    b'{"otherData":{"nfslat":"0.1.0"',
    gzip.compress(b'{"otherData":{"nfslat":"0.1.0"'),
    b"\x0a\x0d\x0d\x0a" + bytes(24) + b"nfslat 0.1.0",
    b"PAR1 data" + b"nfslat.ops/1" + (12).to_bytes(4, "little") + b"PAR1",
    b"",
]
_FOREIGN = [
    b"#!/bin/sh\n",
    b"<!doctype html>\n<p>somebody's",
    gzip.compress(b"somebody's"),
    b"\x1f\x8bnot gzip",
    b"\x0a\x0d\x0d\x0a" + bytes(24) + b"dumpcap",
    b"PAR1 nfslat.ops/1 in the data" + b"another writer" + (14).to_bytes(4, "little") + b"PAR1",
    b"PAR1",
    b"\xd4\xc3\xb2\xa1",
]


@pytest.mark.parametrize("content", _OURS)
def test_a_file_of_ours_is_replaced(tmp_path: Path, content: bytes) -> None:
    """What nfslat wrote before, whatever its format, it writes again."""
    path = tmp_path / "out"
    path.write_bytes(content)
    with binary_output(str(path), []) as out:
        assert out is not None
        out.write(b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("content", _FOREIGN)
def test_a_file_of_somebody_else_stays(tmp_path: Path, content: bytes) -> None:
    """What nfslat did not write it does not touch, and says so."""
    path = tmp_path / "out"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="not written by nfslat"), output(str(path), []):
        pass
    assert path.read_bytes() == content


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    """A report that fails half-way leaves what was there, and nothing else in the directory."""
    path = tmp_path / "out.csv"
    path.write_text("xid,program\n")

    def fails() -> None:
        with output(str(path), []) as out:
            assert out is not None
            out.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_text() == "xid,program\n"


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """A directory is refused in a line that says what to name."""
    with pytest.raises(InputError, match="name a file in it"), output(str(tmp_path), []):
        pass


def test_a_capture_is_never_written_to(tmp_path: Path) -> None:
    """A capture of this run is refused, by whatever name it is called."""
    capture = tmp_path / "server.pcap"
    capture.write_bytes(b"")
    (tmp_path / "link").symlink_to(capture)
    with pytest.raises(UsageError, match="one of the captures"), binary_output(str(tmp_path / "link"), [str(capture)]):
        pass
