"""Rows of single ops that are written as windows come: those of the whole, but for their order."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from captures import SHARED, needs_captures
from windowed import windowed

from nfslat import api
from nfslat.cli.main import main
from nfslat.errors import InputError
from nfslat.export.by_window import CsvSink, ParquetSink
from nfslat.flow import pairs, run
from nfslat.report import markdown
from nfslat.report.html import page

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
SERVER, CLIENT = (SAMPLE / f"{side}.pcap.gz" for side in ("server", "client"))
# What rests on a window's own clock, path and queue, or on names that other windows tell.
_JUDGED = {
    *("call_net_ns", "reply_net_ns", "one_way_error_ns", "distance_ns", "queue_ns", "path", "path_partial"),
    *("lost_ns", "overtaken_ns", "held_ns", "window_ns", "delayed_ack_ns", "bandwidth_ns", "congestion_window_ns"),
    *("sender_ns", "head_of_line_ns", "call_retrans_wait_ns", "reply_retrans_wait_ns"),
}
_BY_DRIFT = ["server_srt_ns", "network_ns", "server_ns", "reply_send_ns"]  # by what a window knows of it
_NEAR_NS = 5_000
_PARTS = ["call_send_ns", "call_net_ns", "server_ns", "reply_send_ns", "reply_net_ns"]


def _in_order(table: pa.Table) -> pd.DataFrame:
    plain = table.cast(
        pa.schema([one.with_type(pa.string()) if pa.types.is_dictionary(one.type) else one for one in table.schema])
    )
    frame = plain.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}.get)
    return frame.sort_values(["client_call_first_frame", "xid"]).reset_index(drop=True)


def _hold(server: Path, client: Path, seconds: float) -> int:
    """Columns, types and rows are those of the whole; the row groups that there are."""
    plain, rows = io.BytesIO(), io.BytesIO()
    whole = api.correlate(server, client)
    whole.write_parquet(plain)
    text = io.StringIO()
    sinks = (ParquetSink(rows, "nfslat"), CsvSink(text))
    windowed(server, client, seconds, sinks=sinks)
    for sink in sinks:
        sink.end()
    wanted, found = (pq.read_table(pa.BufferReader(one.getvalue())) for one in (plain, rows))
    assert found.schema.equals(wanted.schema)
    assert found.schema.field("queue_ns").metadata == wanted.schema.field("queue_ns").metadata
    one, other = _in_order(wanted), _in_order(found)
    same = [name for name in one.columns if name not in _JUDGED and name not in _BY_DRIFT]
    pd.testing.assert_frame_equal(other[same], one[same])
    for name in _BY_DRIFT:
        assert (other[name] - one[name]).abs().max() <= _NEAR_NS
    assert other["path"].isna().all()
    known = other["call_net_ns"].notna()
    srt = other["client_t3_ns"] - other["client_t0_ns"]
    assert (other.loc[known, _PARTS].sum(axis=1) == srt[known]).all()
    in_text = pd.read_csv(io.StringIO(text.getvalue()))
    assert list(in_text.columns) == list(one.columns)
    assert sorted(in_text["client_call_first_frame"]) == one["client_call_first_frame"].tolist()
    return int(pq.ParquetFile(pa.BufferReader(rows.getvalue())).num_row_groups)


@pytest.mark.parametrize(("seconds", "groups"), [(1e6, 1), (2.0, 6)])
def test_rows_are_those_of_the_whole(seconds: float, groups: int) -> None:
    """In one window and in many: a row group a window."""
    assert _hold(SERVER, CLIENT, seconds) >= groups


@needs_captures
@pytest.mark.parametrize("name", ["lab/f_v41_session_slots2", "lab/n_v3_nfsd_restart", "lab2/v4_grace_restart"])
def test_rows_of_the_lab(name: str) -> None:
    """Sessions, statuses, retransmissions and reconnects, too."""
    server, client = (next((SHARED / name).glob(f"{side}.pcap*")) for side in ("server", "client"))
    assert _hold(server, client, 1.5) > 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """--csv and --parquet write both beside the report on captures that are judged in stretches."""
    monkeypatch.setattr(api, "MOST_JOINED_OPS", 100)
    names = [tmp_path / one for one in ("ops.csv", "ops.parquet", "report.json")]
    asked = ["--csv", str(names[0]), "--parquet", str(names[1]), "--json", str(names[2])]
    assert main([str(SERVER), str(CLIENT), *asked]) == 0
    ops = json.loads(names[2].read_text())["matched"]["ops"]
    assert len(pd.read_csv(names[0])) == pq.read_table(names[1]).num_rows == ops > 0
    assert all(f"wrote {name}" in capsys.readouterr().err or name is not names[0] for name in names)


def test_a_run_that_fails_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written until then is not there, and one line says why."""
    windows = iter([pairs.analyse])

    def failing(*given: Any, **named: Any) -> Any:
        if (known := next(windows, None)) is not None:
            return known(*given, **named)
        raise InputError("it ends here")

    monkeypatch.setattr(pairs, "analyse", failing)
    monkeypatch.setattr(run, "STRETCH_OPS", 0)
    monkeypatch.setattr(api, "MOST_JOINED_OPS", 100)
    asked = ["--csv", str(tmp_path / "ops.csv"), "--parquet", str(tmp_path / "ops.parquet")]
    assert main([str(SERVER), str(CLIENT), *asked]) == 3
    assert capsys.readouterr().err.strip().endswith("it ends here")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seconds", [1e6, 2.0])
def test_the_slowest_are_those_of_the_whole(seconds: float) -> None:
    """One by one, with their packets; parts by each window's own clock, which sum to the client SRT."""
    whole = api.correlate(SERVER, CLIENT, slowest=7).figures
    found = windowed(SERVER, CLIENT, seconds, slowest=7)
    assert whole.pictures is not None
    assert whole.slowest == []
    assert found.pictures is None
    for one, other in zip(whole.pictures.slowest, found.slowest, strict=True):
        for name in ("xid", "op", "at", "at_s", "client_ms", "client", "server", "offset", "bytes", "wireshark"):
            assert getattr(other, name) == getattr(one, name), name
        assert [(moment.side, moment.frame) for moment in other.timeline] == [
            (moment.side, moment.frame) for moment in one.timeline
        ]
        assert sum(piece.ms for piece in other.pieces) == pytest.approx(other.client_ms)
    assert found.slowest[0].xid in page.render(found)
    assert found.slowest[0].xid in markdown.render(found)


def test_as_many_of_the_slowest_as_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--slowest goes with captures that are judged in stretches."""
    monkeypatch.setattr(api, "MOST_JOINED_OPS", 100)
    out = tmp_path / "report.json"
    for asked in (1, 3):
        given = ["--slowest", str(asked), "--json", str(out), "--overwrite"]
        assert main([str(SERVER), str(CLIENT), *given]) == 0
        assert len(json.loads(out.read_text())["slowest"]) == asked
