"""What draws pictures runs apart: it may fail, and takes nothing else with it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nfslat.cli import main as cli
from nfslat.errors import PictureError
from nfslat.report import png, vega
from nfslat.report.charts.all import charts
from nfslat.report.html import page

pytest.importorskip("vl_convert", reason="vl-convert-python (the extra html) is not installed")

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
PAIR = [str(SAMPLE / f"{side}.pcap.gz") for side in ("server", "client")]


@pytest.fixture
def _nothing_is_kept(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    page._library.cache_clear()
    yield
    page._library.cache_clear()


def _other_program(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(vega, "_PROGRAM", text)


@pytest.mark.usefixtures("_nothing_is_kept")
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; os.abort()", "died of SIGABRT"),
        ("while True: pass", "was still busy after 1 s of processor time"),
        ("raise ValueError('no such mark')", "ValueError: no such mark"),
    ],
)
def test_the_report_is_printed_all_the_same(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text and every other file are there, no part of a page or of pictures; a line says why, and the status is 3."""
    _other_program(monkeypatch, program)
    monkeypatch.setenv("NFSLAT_TOOL_SECONDS", "1")
    (tmp_path / "old.html").write_text("<!doctype html>\n<!-- nfslat \n")
    outputs = ["--html", f"{tmp_path}/old.html", "--json", f"{tmp_path}/r.json", "--csv", f"{tmp_path}/r.csv"]
    if "while" not in program:  # which takes its time for each
        outputs += ["--png", f"{tmp_path}/png"]
    status = cli.main([*PAIR, "-q", *outputs])
    out, err = capsys.readouterr()
    assert (status, err.count("\n")) == (3, 1)
    assert err.startswith(f"nfslat: {tmp_path}/old.html: V8, which draws the pictures, ")
    assert said in err
    assert "mean client SRT" in out
    assert {path.name for path in tmp_path.iterdir()} == {"old.html", "r.json", "r.csv"}
    assert (tmp_path / "old.html").read_text() == "<!doctype html>\n<!-- nfslat \n"


@pytest.mark.usefixtures("_nothing_is_kept")
def test_under_a_memory_limit_of_the_users(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """V8 itself, with less room than it wants: a line, and the report."""
    script = (
        f"ulimit -v 2000000; {sys.executable} -m nfslat -q {' '.join(PAIR)} --html {tmp_path}/x.html; echo status $?"
    )
    os.system(script)  # noqa: S605 - ulimit is the shell's
    out, err = capfd.readouterr()
    assert out.endswith("status 3\n")
    assert "mean client SRT" in out
    assert re.fullmatch(r"nfslat: .*/x\.html: V8, which draws the pictures, .*\n", err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_nothing_is_kept")
def test_the_script_is_kept_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made once; what is damaged, or somebody else's, is made anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/there/cache")
    _other_program(monkeypatch, "import struct,sys; sys.stdout.buffer.write(struct.pack('>Q', 5) + b'let i')")
    assert vega.library() == "let i"
    (kept,) = (tmp_path / "there" / "cache" / "nfslat").iterdir()
    assert [one.stat().st_mode & 0o777 for one in (kept, kept.parent)] == [0o600, 0o700]
    _other_program(monkeypatch, "raise SystemExit(1)")
    assert vega.library() == "let i"
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(PictureError):
        vega.library()
    if os.geteuid() == 0:
        _other_program(monkeypatch, "import struct,sys; sys.stdout.buffer.write(struct.pack('>Q', 5) + b'let u')")
        os.chown(kept, 65534, 65534)
        assert vega.library() == "let u"


@pytest.mark.usefixtures("_nothing_is_kept")
def test_where_nothing_can_be_kept_it_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A HOME that cannot be written, or is somebody else's, is left alone, without a word."""
    _other_program(monkeypatch, "import struct,sys; sys.stdout.buffer.write(struct.pack('>Q', 5) + b'let i')")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/file/cache")
    assert vega.library() == "let i"
    if os.geteuid() == 0:
        (tmp_path / "home").mkdir()
        os.chown(tmp_path / "home", 65534, 65534)
        monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/home/cache")
        assert vega.library() == "let i"
        assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("most", [2, pytest.param(None, marks=pytest.mark.long)])
def test_the_real_one_draws(
    most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page has the script, and the folder pictures, from a process that may write nothing and open no socket."""
    monkeypatch.setattr(png, "charts", lambda report: charts(report)[:most])
    assert cli.main([*PAIR, "-q", "--html", f"{tmp_path}/x.html", "--png", f"{tmp_path}/png"]) == 0
    assert capsys.readouterr().err == ""
    assert "vegaEmbed" in (tmp_path / "x.html").read_text()
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (tmp_path / "png").iterdir())
    assert len(list((tmp_path / "png").iterdir())) == 3 if most else 12
