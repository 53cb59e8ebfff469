"""The table of matched ops: its columns, their nulls, and what CSV, Arrow and pandas make of them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.errors import ToolError, UsageError
from nfslat.evidence.known import Traced
from nfslat.export.csv import write_csv
from nfslat.export.op_table import OpTable, op_table
from nfslat.figures.op_columns import COLUMNS, TEXT
from nfslat.model.tables import I32
from nfslat.pipeline import analyse, correlate
from nfslat.results import Analysis, Correlation
from nfslat.select import Filters

ROOT = Path(__file__).parents[1]
DOCS = (ROOT / "docs" / "outputs.md").read_text()


@dataclass(frozen=True)
class ManyPaths:
    """Paths that CSV has to quote, one partial, and ops without one."""

    of_op: I32
    texts: tuple[str, ...] = ('/db/a, "b".dbf', "…/line\nbreak%d", "/bytes \udcff")
    partial: tuple[bool, ...] = (False, True, False)


def no_tools() -> Tools:
    """Nothing here needs Wireshark."""
    raise ToolError("not needed")


@cache
def sample(name: str) -> Analysis:
    """A pair of captures of the samples."""
    engine = choose("native", no_tools, ROOT, rereads=False)
    server, client = (engine.open(str(ROOT / "samples" / name / f"{side}.pcap.gz")) for side in ("server", "client"))
    return analyse(
        correlate(server, client, engine, filters=Filters(), srt="nfslat", may_swap=True, progress=lambda _: None)
    )


def full(name: str) -> OpTable:
    """The table with everything that can be given to it."""
    c = sample(name)
    rows = np.arange(len(c.matched))
    paths = ManyPaths(np.where(rows % 4 == 3, -1, rows % 4).astype(np.int32))
    times = [np.where(rows % 2, -1, rows * factor) for factor in (1, 2, 3)]
    return op_table(c, paths=paths, traced=Traced(*times))


def rows_of_csv(table: OpTable) -> list[dict[str, str]]:
    """What a program reads from the CSV file."""
    out = io.StringIO()
    write_csv(table, out)
    return list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))


def cell(value: Any, name: str) -> str:
    """How CSV has a value of the table."""
    if value is np.ma.masked or value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if name in ("xid", "fh_crc32"):
        return f"0x{int(value):08x}"
    return str(value)


@pytest.mark.parametrize("name", ["session-slots", "packet-loss"])
def test_every_cell_of_the_csv_file_is_that_of_the_table(name: str) -> None:
    """Each column, each row: the value, or nothing where the table has null; texts with commas and quotes come back."""
    table = full(name)
    rows = rows_of_csv(table)
    assert len(rows) == len(table) > 0
    assert tuple(rows[0]) == table.column_names
    for column in table.columns:
        values = table[column.name]
        assert [row[column.name] for row in rows] == [cell(value, column.name) for value in values], column.name


def test_columns_have_the_dtypes_they_are_said_to_have() -> None:
    """Numbers come as numpy has them, texts as str, null is masked."""
    table = full("session-slots")
    for column in COLUMNS:
        values = table[column.name]
        assert len(values) == len(table)
        assert values.dtype == (object if column.dtype == TEXT else np.dtype(column.dtype)), column.name
        if column.dtype == TEXT:
            assert all(isinstance(value, str) for value in values.compressed())


def test_figures_of_an_op_add_up() -> None:
    """network is client minus server SRT; the five parts sum to the client's time on the wire, exactly."""
    table = op_table(sample("slow-network"))
    assert (table["network_ns"] == table["client_srt_ns"] - table["server_srt_ns"]).all()
    parts = sum(table[f"{name}_ns"] for name in ("call_send", "call_net", "server", "reply_send", "reply_net"))
    assert (parts == table["client_t3_ns"] - table["client_t0_ns"]).all()


def test_blocks_give_what_the_whole_gives() -> None:
    """However many rows a block has, and that one of them is cut short, no row is lost or made twice."""
    table = full("packet-loss")
    for rows in (7, 1000, 1 << 20):
        blocks = list(table.blocks(rows))
        for name in ("xid", "call_retrans_wait_ns", "path"):
            joined = np.concatenate([block[name].values for block in blocks])
            whole = next(iter(table.blocks(1 << 20)))[name].values
            assert (joined == whole).all()


def test_paths_are_those_of_the_ops() -> None:
    """A path stands at the ops that have it, with its mark; what is no text in UTF-8 is shown as bytes."""
    table = full("packet-loss")
    assert table["path"][:4].tolist() == ['/db/a, "b".dbf', "…/line\nbreak%d", "/bytes \\udcff", None]
    assert table["path_partial"][:4].tolist() == [False, True, False, None]
    bare = op_table(sample("packet-loss"))
    assert bare["path"].mask.all()
    assert bare["path_partial"].mask.all()


def test_session_and_slot_are_those_of_sequence() -> None:
    """NFSv4.1 ops name their session and slot; with two slots the slots are 0 and 1."""
    table = op_table(sample("session-slots"))
    known = table["slot"].compressed()
    assert len(known) > len(table) / 2
    assert (table["slot"].mask == table["session"].mask).all()
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in set(table["session"].compressed()))
    slots = sample("session-slots").client.decoded.details.slots
    rows = sample("session-slots").matched.client
    wanted = dict(zip(slots.op.tolist(), slots.slot.tolist(), strict=True))
    here = [wanted.get(row) for row in rows.tolist()]
    assert [None if value is None else int(value) for value in table["slot"].tolist()] == here


def test_an_empty_table_is_a_header() -> None:
    """No matched op: CSV has its first line, columns have no rows."""
    c = sample("session-slots")
    none = Correlation(c.server, c.client, c.matching, c.matched.take(slice(0)), c.clock, c.srt)
    table = op_table(analyse(none))
    assert rows_of_csv(table) == []
    assert len(table) == len(table["xid"]) == len(table["op"]) == 0


def test_a_column_that_is_not_there_is_a_key_error() -> None:
    """As with a dictionary."""
    with pytest.raises(KeyError):
        op_table(sample("session-slots"))["latency"]


def test_arrow_has_the_same_values() -> None:
    """Every column of ``to_arrow`` is that of the table, null for null, with its unit beside it."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = full("session-slots")
    arrow = table.to_arrow()
    assert tuple(arrow.column_names) == table.column_names
    for column in table.columns:
        assert arrow[column.name].to_pylist() == table[column.name].tolist(), column.name
        assert arrow.schema.field(column.name).metadata[b"unit"].decode() == column.unit


def test_pandas_has_the_same_values() -> None:
    """Every column of ``to_pandas`` is that of the table; integers stay integers beside null, texts are categories."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = full("session-slots")
    frame = table.to_pandas()
    for column in table.columns:
        values = frame[column.name]
        kind = "category" if column.dtype == TEXT else column.dtype.replace("bool", "boolean")
        assert str(values.dtype).lower() == kind
        assert [None if pd.isna(value) else value for value in values] == table[column.name].tolist(), column.name


def test_without_pyarrow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow, pandas and Parquet are extras; CSV needs neither."""
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    table = op_table(sample("session-slots"))
    with pytest.raises(UsageError, match=r"pip install 'nfslat\[parquet\]'"):
        table.to_pandas()
    assert len(rows_of_csv(table)) == len(table)


def rows_of_docs(heading: str) -> list[list[str]]:
    """Name, dtype, unit and meaning of each column in the table below a heading of docs/outputs.md."""
    table = DOCS.split(heading)[1].split("\n## ")[0]
    rows = ([cell.strip() for cell in line.split("|")[1:5]] for line in table.splitlines() if line.startswith("| `"))
    return [[name.strip("`"), *cells] for names, *cells in rows for name in names.split(", ")]


def test_the_docs_name_every_column_with_dtype_unit_and_meaning() -> None:
    """docs/outputs.md has each column in their order, and no other; instants and frames share a line."""
    together = re.compile(r"_t[0-3]_ns$|_frame$|_whole$")
    rows = [row[: 3 if together.search(row[0]) else 4] for row in rows_of_docs("## Matched ops")]
    columns = [[column.name, column.dtype, column.unit, column.says] for column in COLUMNS]
    assert rows == [column[: 3 if together.search(column[0]) else 4] for column in columns]
