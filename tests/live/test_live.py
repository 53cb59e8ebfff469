"""`nfslat live`: two captures, stretch by stretch."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from captures import SHARED, needs_captures
from live_captures import pairs_of

from nfslat import api
from nfslat.cli.main import main
from nfslat.errors import InputError
from nfslat.flow.analysed import analysed
from nfslat.flow.gaps import Gaps
from nfslat.flow.pairs import Pair
from nfslat.live.course import followed
from nfslat.live.rows import SCHEMA, Row, row_of
from nfslat.live.text import Lines
from nfslat.live.watch import Stretch, report_of
from nfslat.select import Filters, select

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
SERVER, CLIENT = (SAMPLE / f"{side}.pcap.gz" for side in ("server", "client"))


def _of(pair: Pair) -> Row:
    gaps = {"server": Gaps(), "client": Gaps()}
    return row_of(pair, None if pair.found is None else report_of(analysed(pair.found, pair, gaps)))


def _sums(server: Path, client: Path, seconds: float) -> tuple[int, int, int]:
    found = pairs_of(server, client, seconds)
    matched = [one.found.matching.matched for one in found if one.found is not None]
    return (
        sum(len(one.client.ops) for one in found),
        sum(map(len, matched)),
        sum(int(one.lone.by_conn.sum()) for one in found),
    )


@pytest.mark.parametrize("seconds", [0.3, 2.0, 60.0])
def test_every_op_is_in_one_stretch(seconds: float) -> None:
    """However long the stretches are: the client's ops, and those that are in both captures, are those of the whole."""
    whole = api.correlate(SERVER, CLIENT).correlation
    assert _sums(SERVER, CLIENT, seconds) == (len(whole.client.ops), len(whole.matching.matched), 0)


@needs_captures
@pytest.mark.parametrize("name", ["g_clock_offset7s", "j_v3_capture_drops", "n_v3_nfsd_restart", "d4_v3_loss2_full"])
def test_every_op_of_the_lab_is_in_one_stretch(name: str) -> None:
    """The same with clocks that are seconds apart, ops that one capture lacks, a reconnect, and losses."""
    server, client = (SHARED / "lab" / name / f"{side}.pcap.gz" for side in ("server", "client"))
    whole = api.correlate(server, client).correlation
    assert _sums(server, client, 2.0)[:2] == (len(whole.client.ops), len(whole.matching.matched))


def _dated(to: Path, moved_s: Callable[[int, float], float]) -> Path:
    """The client's sample with its packets dated otherwise: by number, and seconds since the first."""
    data = bytearray(gzip.decompress(CLIENT.read_bytes()))
    at, number, first = 24, 0, struct.unpack_from("<I", data, 24)[0]
    while at < len(data):
        seconds, _, length = struct.unpack_from("<III", data, at)
        struct.pack_into("<I", data, at, int(seconds + moved_s(number, seconds - first)))
        at, number = at + 16 + length, number + 1
    to.write_bytes(data)
    return to


@pytest.mark.parametrize(
    ("moved_s", "least"),
    [
        (lambda number, s: -6 if s >= 7 else 0, 0.6),
        (lambda number, s: 30 if s >= 7 else 0, 0.9),
        (lambda number, s: 200_000 if number == 3000 else 0, 0.6),
        (lambda number, s: 0 if number < 6 else 1800, 0.9),
    ],
    ids=["set back", "set on", "one packet of another day", "set on at the beginning"],
)
def test_clocks_that_are_set(moved_s: Callable[[int, float], float], least: float, tmp_path: Path) -> None:
    """A clock that is set, and a packet that is dated wrong, cost some stretches, and not the rest."""
    client = _dated(tmp_path / "client.pcap", moved_s)
    found = pairs_of(SERVER, client, 0.5)
    matched = sum(len(one.found.matching.matched) for one in found if one.found is not None)
    assert matched >= least * sum(len(one.client.ops) for one in found)
    assert [one for one in found if len(one.client.ops)][-1].found is not None


def test_a_quiet_capture_does_not_stop_the_other(tmp_path: Path) -> None:
    """While the client's capture brings nothing, all of the server's is read: else its tcpdump would drop packets."""
    fifos = [tmp_path / name for name in ("server", "client")]
    for fifo in fifos:
        os.mkfifo(fifo)
    whole = gzip.decompress(SERVER.read_bytes())
    written = threading.Event()

    def write_server() -> None:
        fifos[0].write_bytes(whole)
        written.set()

    threading.Thread(target=write_server, daemon=True).start()
    command = [sys.executable, "-m", "nfslat", "live", *map(str, fifos), "--interval", "0.5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, fifos[1].open("wb") as client:
        client.write(gzip.decompress(CLIENT.read_bytes())[:2000])
        client.flush()
        assert written.wait(30)
        client.close()
        out, _ = process.communicate(timeout=30)
    assert "stretch" in out or "no operation" in out


def test_each_stretch_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """The cause is named when it begins, its figures stand in the rows, and the end says for how long it held."""
    assert main(["live", str(SERVER), str(CLIENT), "--interval", "2"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert out.count("Calls queue in the server for one of its 2 threads") == 1
    rows = [line for line in lines if line.endswith("server-threads")]
    assert len(rows) >= 4
    assert lines[-2].startswith(f"server-threads: {len(rows)} stretches, 02:07:44 to ")


def test_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a stretch, with the figures of the whole report where there is but one stretch."""
    assert main(["live", str(SERVER), str(CLIENT), "--interval", "3600", "--json", "-"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    row, report = json.loads(line), api.correlate(SERVER, CLIENT).figures
    assert row["schema"] == SCHEMA
    assert report.matched is not None
    assert report.matched.total is not None
    assert report.verdict is not None
    total = report.matched.total
    assert (row["matched"], row["client_ms"], row["network_ms"]) == (
        total.count,
        total.client_ms.mean,
        total.network_ms.mean,
    )
    assert (row["cause"], row["outcome"], row["text"]) == ("server-threads", "fault", report.verdict.text)


def test_lines_are_there_however_a_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the middle leaves the lines of what was read; the next run adds its own, and --overwrite begins anew;
    what nfslat did not write stays as it was."""
    out = tmp_path / "lines"
    arguments = ["live", str(SERVER), str(CLIENT), "--interval", "2", "--json", str(out)]
    with monkeypatch.context() as patched:
        patched.setattr(Lines, "of", _interrupted)
        assert main(arguments) == 130
    (first,) = _told(out)
    assert out.stat().st_mode & 0o77 == 0
    assert main(arguments) == 0
    both = _told(out)
    assert both[:2] == [first, first]
    assert main([*arguments, "--overwrite"]) == 0
    assert _told(out) == both[1:]
    out.write_text("mine\n")
    capsys.readouterr()
    assert main(arguments) == 2
    assert "was not written by nfslat" in capsys.readouterr().err
    assert out.read_text() == "mine\n"


def _told(lines: Path) -> list[dict[str, Any]]:
    """Without how late each line came, which is not the same in two runs."""
    rows = map(json.loads, lines.read_text().splitlines())
    return [{key: value for key, value in row.items() if key != "lag_s"} for row in rows]


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_captures_that_are_still_being_made(tmp_path: Path) -> None:
    """From FIFOs a stretch is printed while the writers go on; Ctrl-C ends it with 130, and nothing is left."""
    whole = {side: gzip.decompress((SAMPLE / f"{side}.pcap.gz").read_bytes()) for side in ("server", "client")}
    fifos = {side: tmp_path / side for side in whole}
    for fifo in fifos.values():
        os.mkfifo(fifo)
    more = threading.Event()

    def write(side: str) -> None:
        with fifos[side].open("wb") as out:
            out.write(whole[side][: len(whole[side]) * 4 // 5])
            out.flush()
            more.wait(60)

    writers = [threading.Thread(target=write, args=(side,), daemon=True) for side in whole]
    for writer in writers:
        writer.start()
    command = [sys.executable, "-m", "nfslat", "live", str(fifos["server"]), str(fifos["client"]), "--interval", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        while not any("server-threads" in line for line in lines):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        assert process.poll() is None
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (130, "nfslat: interrupted\n")
    more.set()
    for writer in writers:
        writer.join(10)


@needs_captures
def test_captures_of_different_traffic() -> None:
    """Two captures with nothing in common end with one line, after so many windows or at their end."""
    other = SHARED / "lab" / "f_v41_baseline" / "client.pcap.gz"
    with pytest.raises(InputError, match="in the server's capture; were both taken at the same time"):
        pairs_of(SERVER, other, 1.0)


def test_a_stretch_of_no_length() -> None:
    """Where a clock was set back a stretch may end when it begins: its rates are no reason to fail."""
    (pair,) = pairs_of(SERVER, CLIENT, 3600.0)
    pair = dataclasses.replace(pair, begin_ns=pair.end_ns)
    row = _of(pair)
    assert json.loads(Stretch(pair, row, None, None).as_json())["ops"] == row.ops > 0


def test_what_the_client_alone_shows() -> None:
    """Without an op in both captures the row has the client's SRT: from the call's first byte to the reply's last."""
    (pair,) = pairs_of(SERVER, CLIENT, 3600.0)
    alone, both = _of(dataclasses.replace(pair, found=None)), _of(pair)
    ops = pair.client.ops
    ops = ops.take(select(ops, Filters(), ops.t0, 0) == 0)  # without MOUNT and its like
    assert alone.client_ms == pytest.approx(float((ops.t3 - ops.t0).mean()) / 1e6)
    assert alone.client_ms == pytest.approx(both.client_ms, rel=0.05)
    assert alone.client_p99_ms == both.client_p99_ms
    assert (alone.outcome, alone.server_ms) == ("undecided", None)


def test_a_disk_that_is_full_ends_nothing(tmp_path: Path) -> None:
    """What cannot be written is said once, rows go on, and the end says that the file is not whole."""
    rows, metrics = tmp_path / "rows.jsonl", tmp_path / "nfslat.prom"
    command = [sys.executable, "-m", "nfslat", "live", str(SERVER), str(CLIENT), "--interval=1"]
    limit = 4000  # bytes of a file
    ended = subprocess.run(
        [*command, "--json", str(rows), "--metrics", str(metrics)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    said = "".join(ended.stdout.split())  # a long path is wrapped anywhere
    for name in (f"--json {rows}", f"--metrics {metrics}"):
        assert said.count(f"{name}: not written: File too large; nfslat goes on".replace(" ", "")) == 1
    assert ended.stdout.count("server-threads\n") > 4
    assert ended.returncode == 3
    assert ended.stderr.count("\n") == 1
    assert rows.stat().st_size == limit
    assert b"nfslat_stretches_total 0.0" in metrics.read_bytes()  # the last that was whole
    assert sorted(one.name for one in tmp_path.iterdir()) == ["nfslat.prom", "rows.jsonl"]


def _stretch(**changes: object) -> Stretch:
    first = pairs_of(SERVER, CLIENT, 3600.0)[0]
    return Stretch(first, Row(**{**dataclasses.asdict(_of(first)), **changes}), None, None)


def test_what_is_not_known_is_a_dash() -> None:
    """Without an op in both captures there is no layer; without any op the stretch is idle."""
    nothing = dict.fromkeys("network_ms server_ms queue_ms in_flight lost_segments".split())
    unknown = _stretch(outcome="undecided", cause=None, **nothing)
    *_, line = Lines(80).of(unknown)
    assert line.split()[5:] == ["-", "-", "-", "-", "cannot", "tell"]
    nothing |= dict.fromkeys(["client_ms", "client_p99_ms"])
    idle = _stretch(ops=0, ops_per_s=0.0, outcome="undecided", cause=None, **nothing)
    *_, line = Lines(80).of(idle)
    assert line.split()[3:] == ["-"] * 6 + ["idle"]
    assert list(Lines(80).end()) == ["no operation ended while nfslat looked"]


def test_what_packets_leave_open_is_said_behind_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is the storage, and the sentence goes on with the two calls in flight that may be two slots."""
    sample = SERVER.parents[1] / "client-slots"
    assert main(["live", "--interval", "5", *(str(sample / f"{side}.pcap.gz") for side in ("server", "client"))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Operations take long in a thread of the server" in said
    assert "never more than 2 calls are in flight: 2 slots, or 2 callers" in said


def test_headings_come_again() -> None:
    """As in vmstat. A cause that goes on is said once, with one stretch without it, too; its end is said, and when it
    comes again, that."""
    lines = Lines(80)
    fault, healthy = _stretch(), _stretch(outcome="no-fault", cause=None)
    shown = [fault] * 22 + [healthy, fault, healthy, healthy, fault]
    printed = [line for stretch in followed(shown) for line in lines.of(stretch)]
    assert sum(line.startswith("time ") for line in printed) == 2
    assert sum("Calls queue in the server" in line for line in printed) == 2
    assert sum("server-threads has ended: " in line for line in printed) == 1
    assert [line for line in lines.end() if line.startswith("server-threads: 24 stretches")]
