"""Whole runs on the samples: what is printed and written adds up, filters keep their meaning, forms agree."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import wire
from valid import validator

from nfslat.answer.model import Report
from nfslat.cli import main as cli

pytestmark = pytest.mark.usefixtures("engine")

SAMPLES = Path(__file__).parents[1] / "samples"
PAIRS = sorted(path.parent for path in SAMPLES.glob("*/server.pcap.gz"))


def _report(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert cli.main([*(str(argument) for argument in arguments), "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    report = json.loads(out)
    validator(Report).validate(report)
    return report  # type: ignore[no-any-return]


_OPTIONS: tuple[list[str], ...] = ([], ["--op", "READ"], ["--start", "0.05", "--end", "3.2"], ["--all-programs"])


@pytest.mark.parametrize(
    ("pair", "options"),
    [
        # By day each pair without options, and with those of its turn.
        pytest.param(
            pair,
            options,
            id=f"{options}-{pair.name}",
            marks=() if at in (0, 1 + number % 3) else pytest.mark.long,
        )
        for at, options in enumerate(_OPTIONS)
        for number, pair in enumerate(PAIRS)
    ],
)
def test_everything_is_accounted_for(capsys: pytest.CaptureFixture[str], pair: Path, options: list[str]) -> None:
    """Packets by kind, messages by state, ops by program, by reason of exclusion and by match add up on both sides."""
    report = _report(capsys, pair / "server.pcap.gz", pair / "client.pcap.gz", *options)
    for side, capture in report["captures"].items():
        assert sum(capture["packet_kinds"].values()) == capture["packets"]
        assert sum(file["packets"] for file in capture["files"]) == capture["packets"]
        assert capture["messages"]["PAIRED"] == 2 * capture["ops"]
        assert sum(capture["programs"].values()) == capture["ops"]
        shown = sum(row["count"] for row in report["raw"][side])
        assert shown + sum(report["selection"]["excluded"][side].values()) == capture["ops"]
        for row in report["raw"][side]:
            assert sum(bucket["count"] for bucket in row["histogram"]) == row["count"]
        matched = report["matched"]
        assert matched["processed"][side] == matched["ops"] + sum(matched["unmatched"][side].values())
    assert sum(row["count"] for row in matched["by_op"]) == matched["ops"]
    assert (matched["total"] is None) == (matched["ops"] == 0)
    for row in [*matched["by_op"], *filter(None, (matched["total"], matched["slowest"]))]:
        parts = row["parts_ms"]
        whole = parts["call_send"] + parts["server"] + parts["reply_send"] + parts["net_both"]
        assert whole == pytest.approx(row["client_ms"]["mean"], rel=1e-9)
        difference = row["client_ms"]["mean"] - row["server_ms"]["mean"]
        assert row["network_ms"]["mean"] == pytest.approx(difference, rel=1e-9, abs=1e-9)
        assert row["queue_ms"] is None or -1e-9 <= row["queue_ms"] <= row["server_ms"]["mean"] * (1 + 1e-9)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda path: path.name)
def test_what_is_in_flight_adds_up(capsys: pytest.CaptureFixture[str], pair: Path) -> None:
    """Levels share out the busy time, their mean and top are those given; queue and service make the server SRT."""
    report = _report(capsys, pair / "server.pcap.gz", pair / "client.pcap.gz")
    found, total = report["inflight"], report["matched"]["total"]
    for side in ("server", "client"):
        levels = found[side]["levels"]
        assert sum(level["share"] for level in levels) == pytest.approx(1.0)
        assert sum(level["share"] * level["in_flight"] for level in levels) == pytest.approx(found[side]["mean"])
        assert max(level["in_flight"] for level in levels) == found[side]["max"]
    server = found["server"]
    if server["queue_ms"] is not None:
        assert server["queue_ms"] + server["service_ms"] == pytest.approx(total["server_ms"]["mean"])
        assert server["queue_ms"] == pytest.approx(total["queue_ms"])
        waits = sum(row["queue_ms"] * row["count"] for row in report["matched"]["by_op"])
        assert waits == pytest.approx(total["queue_ms"] * total["count"], abs=1e-6)
        least, most = server["queue_range_ms"]
        assert least <= server["queue_ms"] * (1 + 1e-9) <= most * (1 + 2e-9)
    assert sum(mount["ops"] for mount in found["client"]["mounts"]) <= report["matched"]["processed"]["client"]


def test_csv_holds_what_the_report_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One row per matched op; its parts sum exactly to c3 - c0, and its mean network time is the report's."""
    out = tmp_path / "ops.csv"
    pair = SAMPLES / "session-slots"
    report = _report(capsys, pair / "server.pcap.gz", pair / "client.pcap.gz", "-q", "--csv", out)
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert len(rows) == report["matched"]["ops"]
    for row in rows:
        whole = int(row["client_t3_ns"]) - int(row["client_t0_ns"])
        assert (
            sum(int(row[f"{part}_ns"]) for part in ("call_send", "call_net", "server", "reply_send", "reply_net"))
            == whole
        )
        assert int(row["network_ns"]) == int(row["client_srt_ns"]) - int(row["server_srt_ns"])
    mean = sum(int(row["network_ns"]) for row in rows) / len(rows) / 1e6
    assert mean == pytest.approx(report["matched"]["total"]["network_ms"]["mean"], rel=1e-9)
    reads = [row for row in rows if row["op"] == "READ"]
    assert {row["version"] for row in reads} == {"4.1"}
    assert {row["size_bytes"] for row in reads} == {"8192"}
    assert all(row["fh_crc32"].startswith("0x") and row["offset_bytes"] for row in reads)


def test_filters_mean_the_same_in_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A time window on the client's clock takes the same ops on both sides, and two windows make the whole."""
    pair = SAMPLES / "slow-network"
    files = (pair / "server.pcap.gz", pair / "client.pcap.gz")
    whole = _report(capsys, *files)["matched"]["ops"]
    early = _report(capsys, *files, "--end", "1.5")["matched"]
    late = _report(capsys, *files, "--start", "1.5")["matched"]
    assert early["ops"] + late["ops"] == whole
    assert early["ops"] > 0
    assert early["processed"]["server"] == early["processed"]["client"] == early["ops"]


def test_filters_by_address_and_port(capsys: pytest.CaptureFixture[str]) -> None:
    """The client's and the server's address and port keep all; others leave nothing, which is said."""
    pair = SAMPLES / "server-threads"
    files = (pair / "server.pcap.gz", pair / "client.pcap.gz")
    whole = _report(capsys, *files)["matched"]["ops"]
    same = _report(capsys, *files, "--client-addr", "10.77.0.2", "--server-addr", "10.77.0.1", "--port", "2049")
    assert same["matched"]["ops"] == whole
    for command in ([*files], [files[0]]):
        assert cli.main([*map(str, command), "--client-addr", "192.0.2.1"]) == 3
        assert capsys.readouterr() == (
            "",
            "nfslat: no op is left by the filters (--client-addr 192.0.2.1); run without them to see what there is\n",
        )


def test_one_capture_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a single capture the other host's times are inferred, and the report says so; without time stamps it gives raw
    data, no comparison, and says what one side cannot tell."""
    report = _report(capsys, SAMPLES / "server-threads" / "server.pcap.gz")
    assert list(report["captures"]) == ["server"]
    assert report["inferred"]["side"] == "client"
    tcp = wire.Tcp()
    for at in range(30):
        tcp.send(10 * at, ">", wire.read(at, 512 * at, 512))
        tcp.send(10 * at + 2, "<", wire.reply(at, wire.read3(512)))
    alone = wire.write_pcap(tmp_path / "alone.pcap", tcp.seen_by("client"))
    report = _report(capsys, alone)
    assert list(report["captures"]) == ["capture"]
    assert (report["matched"], report["clock"], report["verdict"]) == (None, None, None)
    assert cli.main([str(alone)]) == 0
    assert "cannot" in capsys.readouterr().out


def test_identical_input_gives_identical_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs print the same bytes."""
    pair = SAMPLES / "packet-loss"
    texts = []
    for _ in range(2):
        assert cli.main([str(pair / "server.pcap.gz"), str(pair / "client.pcap.gz"), "--sections", "histograms"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert max(map(len, texts[0].splitlines())) <= 80


def test_every_way_to_hand_over_a_capture_gives_the_same_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, pytestconfig: pytest.Config
) -> None:
    """Plain, rotated files by glob and by list, and standard input; by night gzip, bzip2, xz, pcapng and snoop, too, of
    which test_native.py holds that their ops are the same."""
    pair = SAMPLES / "server-threads"
    plain = gzip.decompress((pair / "server.pcap.gz").read_bytes())
    (tmp_path / "s.pcap").write_bytes(plain)
    (tmp_path / "s.bz2").write_bytes(bz2.compress(plain))
    (tmp_path / "s.xz").write_bytes(lzma.compress(plain))
    for form in ("pcapng", "snoop"):
        subprocess.run(["editcap", "-F", form, tmp_path / "s.pcap", tmp_path / f"s.{form}"], check=True)
    for number, packets in enumerate(("1-1000", "1001-2000", "2001-4000")):
        # The names sort against the times: they must be read in time order.
        subprocess.run(["editcap", "-r", tmp_path / "s.pcap", tmp_path / f"part{9 - number}.pcap", packets], check=True)
    parts = [tmp_path / f"part{n}.pcap" for n in (7, 8, 9)]
    client = pair / "client.pcap.gz"
    want = _report(capsys, tmp_path / "s.pcap", client)["matched"]
    forms = ["s.bz2", "s.xz", "s.pcapng", "s.snoop"] if pytestconfig.option.long else []
    for server in (
        *(tmp_path / form for form in forms),
        *([pair / "server.pcap.gz"] if forms else []),
        f"{tmp_path}/part*.pcap",
        ",".join(map(str, parts)),
    ):
        assert _report(capsys, server, client)["matched"] == want, server
    done = subprocess.run(
        [sys.executable, "-m", "nfslat", "-", str(client), "--json", "-", "--engine", engine],
        input=(tmp_path / "s.bz2").read_bytes(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["matched"] == want


@pytest.mark.parametrize(
    ("sample", "layer", "known"),
    [
        ("client-slots", "client", ["--app-ms", "READ=431.3", "--app-ms", "WRITE=495.3", "--storage-ms", "15"]),
        ("server-threads", "server", ["--app-ms", "READ=303.8", "--app-ms", "WRITE=354.1", "--storage-ms", "15"]),
        ("server-threads", "server", []),
    ],
)
def test_latency_stack_adds_up(capsys: pytest.CaptureFixture[str], sample: str, layer: str, known: list[str]) -> None:
    """The rows one level below a row sum to it, for each operation, and the shares of the top level to one; where
    threads are the limit the server's time is that for one and that in one."""
    pair = SAMPLES / sample
    report = _report(capsys, pair / "server.pcap.gz", pair / "client.pcap.gz", *known)
    assert report["verdict"]["layer"] == layer
    assert ("waiting for a thread" in {row["layer"] for row in report["stack"]}) == (layer == "server")
    for op in ("READ", "WRITE") if known else ("all",):
        rows = [row for row in report["stack"] if row["op"] == op]
        assert rows
        for depth in (0, 1, 2):
            for at, row in enumerate(rows):
                if row["depth"] != depth:
                    continue
                below = []
                for other in rows[at + 1 :]:
                    if other["depth"] <= depth:
                        break
                    if other["depth"] == depth + 1:
                        below.append(other["ms"])
                if below:
                    assert sum(below) == pytest.approx(row["ms"], rel=1e-9)
        assert sum(row["share"] for row in rows if row["depth"] == 1) == pytest.approx(1.0)


def test_an_application_below_the_wire_adds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """An application figure below the client SRT is remarked on and never becomes negative time."""
    pair = SAMPLES / "server-threads"
    report = _report(capsys, pair / "server.pcap.gz", pair / "client.pcap.gz", "--app-ms", "READ=100")
    assert report["verdict"]["layer"] == "server"
    assert all(row["ms"] >= 0 for row in report["stack"])
    assert any("below the client SRT" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("given", "said"), [(["READ=500"], r"[\d,]+ READ$"), (["500"], r"[\d,]+ READ, WRITE$"), ([], r"544 ops$")]
)
def test_the_line_below_the_headline_names_its_ops(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the application's time the headline is about some operations, and so is the sum below it."""
    folder = SAMPLES / "client-slots"
    options = [one for value in given for one in ("--app-ms", value)]
    assert cli.main([str(folder / "server.pcap.gz"), str(folder / "client.pcap.gz"), *options]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("mean client SRT")]
    assert re.search(said, line)
