"""--files: one CSV row an op that works on a file."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from told import Story

from nfslat.export.files import COLUMNS, write_files
from nfslat.model.details import Callers, FileEvent
from nfslat.model.protocol import NULL32
from nfslat.names.paths import Paths, paths_of_side
from nfslat.results import Side

DOC = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text()


def _story() -> Story:
    story = Story().ask(0, "LOOKUP", b"D", b'a "b", c').tell(FileEvent.FOUND, b"D", b'a "b", c', b"A")
    story.ask(2.5, "READ", b"A", offset=8192).ask(4, "RENAME", b"D", b"\nx")
    story.tell(FileEvent.RENAMED, b"D", b"\nx", None, b"D", b"y,")
    return story.ask(6, "NULL").ask(8, "READ", b"nobody")


def _rows(side: Side, paths: Paths | None = None) -> list[dict[str, str]]:
    out = io.StringIO()
    write_files(side, out, paths or paths_of_side(side))
    return list(csv.DictReader(io.StringIO(out.getvalue()), strict=True))


def test_a_row_says_who_did_what_to_which_file_when() -> None:
    """Every column, with null as an empty cell; a NULL call is on no file and has no row."""
    rows = _rows(_story().side())
    assert [row["op"] for row in rows] == ["LOOKUP", "READ", "RENAME", "READ"]
    assert rows[1] == {
        "time": "1970-01-01T00:00:00.002500000Z",
        "seconds": "0.002500",
        "client": "10.0.0.1",
        "server": "10.0.0.2",
        "uid": "1000",
        "op": "READ",
        "version": "3",
        "path": '.../a "b", c',
        "to_path": "",
        "partial": "yes",
        "offset_bytes": "8192",
        "size_bytes": "8192",
        "status": "0",
        "xid": "0x00000001",
        "frame": "3",
    }
    assert [(row["path"], row["to_path"], row["partial"]) for row in rows[2:]] == [
        (r".../\nx", ".../y,", "yes"),
        ("", "", ""),
    ]


def test_cells_with_commas_and_quotes_are_quoted_and_lines_are_rows() -> None:
    """RFC 4180: a name with a comma, quotes or a line end stays one cell of one line."""
    out = io.StringIO()
    side = _story().side()
    write_files(side, out, paths_of_side(side))
    assert ',".../a ""b"", c",' in out.getvalue()
    assert out.getvalue().count("\n") == 5


def test_no_cell_is_a_formula() -> None:
    """Whatever a client calls what it mounts, no cell begins as a formula does."""
    story = Story().ask(0, "MNT", None, b"=cmd|' /C calc'!A0", program=100005)
    story.ask(2, "LOOKUP", None, b"@SUM(1)").ask(4, "MNT", None, b"-2+3", program=100005)
    rows = _rows(story.side())
    assert [row["path"] for row in rows] == [r"\x3dcmd|' /C calc'!A0", ".../@SUM(1)", r"\x2d2+3"]
    assert not [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "-", "@")]


def test_filtered_ops_have_no_row_and_unknown_callers_no_uid() -> None:
    """What --op leaves out is left out here; an engine that does not tell callers leaves the column empty."""
    side = _story().side()
    reasons = np.array([0, 2, 2, 0, 0], dtype=np.int8)
    uid = np.array([5, 0, 0, 0, NULL32], dtype=np.uint32)
    details = replace(side.decoded.details, callers=Callers(uid))
    side = replace(side, reasons=reasons, decoded=replace(side.decoded, details=details))
    assert [(row["op"], row["uid"]) for row in _rows(side)] == [("LOOKUP", "5"), ("READ", "")]
    nobody = replace(details, callers=Callers(uid[:0]))
    side = replace(side, decoded=replace(side.decoded, details=nobody))
    assert [row["uid"] for row in _rows(side)] == ["", ""]


def test_long_tables_are_written_in_blocks(monkeypatch: object) -> None:
    """Where the blocks end makes no difference."""
    side = _story().side()
    whole = _rows(side)
    monkeypatch.setattr("nfslat.export.files.BLOCK", 3)  # type: ignore[attr-defined]
    assert _rows(side) == whole


def test_the_document_names_the_columns() -> None:
    """docs/outputs.md explains every column of the file, in its order, and no other."""
    table = DOC.split("## The file that `--files` writes")[1].split("\n### ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == COLUMNS
