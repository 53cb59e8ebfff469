"""One capture is read once: what comes by a pipe, or packed, says what the file says."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import nfslat
from nfslat.cli import main as cli

CAPTURE = Path(__file__).parents[2] / "samples" / "client-slots" / "client.pcap.gz"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "client.pcap"
    path.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    return path


@pytest.fixture(scope="module")
def expected(plain: Path) -> dict[str, object]:
    return said(plain)


def said(path: Path) -> dict[str, object]:
    """All figures, whatever the capture is called."""
    out = path.with_suffix(".json") if path.is_file() else path.parent / "out.json"
    assert cli.main([str(path), "-q", "--json", str(out)]) == 0
    return unnamed(out.read_text(), str(path))


def unnamed(text: str, name: str) -> dict[str, object]:
    found = json.loads(text.replace(json.dumps(name)[1:-1], "CAPTURE"))
    assert found["inferred"] is not None
    found["nfslat"]["command"] = ""
    return dict(found)


def test_standard_input_says_what_the_file_says(plain: Path, expected: dict[str, object]) -> None:
    """`cat client.pcap | nfslat -` infers the server, too."""
    command = [sys.executable, "-m", "nfslat", "-", "-q", "--json", "-"]
    environment = {**os.environ, "PYTHONPATH": str(Path(nfslat.__file__).parents[1])}
    done = subprocess.run(command, input=plain.read_bytes(), capture_output=True, check=True, env=environment)
    assert unnamed(done.stdout.decode(), "standard input") == expected


def test_a_named_pipe_says_what_the_file_says(plain: Path, expected: dict[str, object], tmp_path: Path) -> None:
    """It can be read once only."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeder = threading.Thread(target=lambda: pipe.write_bytes(plain.read_bytes()))
    feeder.start()
    found = said(pipe)
    feeder.join()
    assert found == expected


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_a_packed_capture_says_what_the_file_says(
    suffix: str, pack: type, plain: Path, expected: dict[str, object], tmp_path: Path
) -> None:
    """Packed in whatever way."""
    packed = tmp_path / f"client.pcap.{suffix}"
    packed.write_bytes(pack(plain.read_bytes()))
    assert said(packed) == expected
