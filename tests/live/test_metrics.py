"""Metrics of `nfslat live`: what a client library of Prometheus reads is what the rows and the whole capture say."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import urllib.request
from pathlib import Path

import pytest
from live_captures import pairs_of
from prometheus_client.parser import text_string_to_metric_families

from nfslat import api
from nfslat.cli.main import main
from nfslat.live.metrics import Metrics
from nfslat.live.rows import row_of

ROOT = Path(__file__).parents[2]
SERVER, CLIENT = (ROOT / "samples" / "server-threads" / f"{side}.pcap.gz" for side in ("server", "client"))


def _read(text: str) -> dict[str, float]:
    """Samples by name and labels; those of all operations added up."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = {name: value for name, value in one.labels.items() if not name.startswith("onc_rpc")}
            key = one.name + "".join(f" {name}={value}" for name, value in sorted(labels.items()))
            found[key] = found.get(key, 0.0) + one.value
    return found


def test_what_is_kept_is_what_the_whole_says(tmp_path: Path) -> None:
    """Counts, sums and buckets of all stretches are those of the captures at once; gauges are of the last stretch."""
    file = tmp_path / "nfslat.prom"
    assert main(["live", str(SERVER), str(CLIENT), "--interval", "3", "--metrics", str(file)]) == 0
    found, whole = _read(file.read_text()), api.correlate(SERVER, CLIENT).correlation
    assert found["nfslat_matched_operations_total"] == len(whole.matched)
    assert found["nfs_client_rpc_count_total"] == int(whole.compared("client").sum())
    assert found["nfslat_client_srt_seconds_count"] == len(whole.matched)
    assert found["nfslat_client_srt_seconds_sum"] == pytest.approx(whole.client_srt_ns.sum() / 1e9)
    quick = int((whole.client_srt_ns <= 250_000_000).sum())
    assert found["nfslat_client_srt_seconds_bucket le=0.25"] == quick
    assert found["nfslat_client_srt_seconds_bucket le=+Inf"] == len(whole.matched)
    waits, threads = found["nfslat_thread_wait_seconds_count"], found["nfslat_in_thread_seconds_count"]
    assert 0 < waits == threads <= len(whole.matched)
    assert found["nfslat_outcome outcome=fault"] == 1
    assert found["nfslat_outcome outcome=no-fault"] == 0
    assert found["nfslat_fault cause=server-threads confidence=high layer=server"] == 1
    assert found["nfslat_server_threads"] == 2
    assert found["nfslat_stretch_end_timestamp_seconds"] == pytest.approx(whole.client.decoded.last_ns / 1e9, abs=1)


def test_the_endpoint_is_on_localhost_alone() -> None:
    """It is scraped there, before anything was judged, and from no other address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    metrics = Metrics()
    server, thread = metrics.serve(port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert "nfslat_stretches_total 0.0" in answer.read().decode()
        assert server.server_address[0] == "127.0.0.1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_dropped_packets_add_up(tmp_path: Path) -> None:
    """Of the rows that know of them."""
    (pair, *_) = pairs_of(SERVER, CLIENT, 3600.0)
    metrics = Metrics()
    for dropped in (None, 3, 0, 4):
        metrics.add(dataclasses.replace(row_of(pair, None), dropped=dropped), None)
    metrics.write(str(tmp_path / "nfslat.prom"))
    assert _read((tmp_path / "nfslat.prom").read_text())["nfslat_dropped_packets_total"] == 7


@pytest.mark.parametrize("what", ["capture", "folder", "port"])
def test_what_is_there_is_not_overwritten(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of something else, a folder, or a port that is taken: one line, and nothing is changed."""
    other = tmp_path / "other"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        if what == "capture":
            other.write_bytes(CLIENT.read_bytes())
        else:
            other.mkdir()
        port = str(taken.getsockname()[1])
        options = ["--metrics-port", port] if what == "port" else ["--metrics", str(other)]
        assert main(["live", str(SERVER), str(CLIENT), *options]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert what != "capture" or other.read_bytes() == CLIENT.read_bytes()


def test_a_file_of_metrics_is_replaced(tmp_path: Path) -> None:
    """As a second run does."""
    file = tmp_path / "nfslat.prom"
    for _ in range(2):
        assert main(["live", str(SERVER), str(CLIENT), "--interval", "60", "--metrics", str(file)]) == 0
    assert _read(file.read_text())["nfslat_matched_operations_total"] == 671
    assert [one.name for one in tmp_path.iterdir()] == ["nfslat.prom"]


def _names() -> set[str]:
    return {one.name + ("_total" if one.type == "counter" else "") for one in Metrics().collect()} | {
        "nfslat_operations_in_flight",
        "nfslat_server_threads",
        "nfslat_client_slots",
        "nfslat_stretch_end_timestamp_seconds",
        "nfslat_lag_seconds",
        "nfslat_outcome",
        "nfslat_fault",
    }


@pytest.mark.parametrize("name", ["dashboard.json", "alerts.yml"])
def test_what_is_shown_and_alerted_is_there(name: str) -> None:
    """Dashboard and rules use metrics that exist."""
    text = (ROOT / "docs" / "monitoring" / name).read_text()
    used = {re.sub(r"_(bucket|sum|count)$", "", one) for one in re.findall(r"\bnfs(?:lat)?_\w+", text)}
    used = {one if one in _names() else f"{one}_count" for one in used}
    assert used <= _names() | {"nfs_client_rpc_count_total"}
    if name.endswith(".json"):
        assert len({one["id"] for one in json.loads(text)["panels"]}) == 7


def test_the_manual_names_every_metric() -> None:
    """docs/live.md has a row for each."""
    text = (ROOT / "docs" / "live.md").read_text()
    assert {name for name in _names() if f"`{name}`" not in text} == set()
