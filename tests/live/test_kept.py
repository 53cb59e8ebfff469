"""What `nfslat live` holds of the last minutes: reports, packets, what is told of them; and how it goes on for days."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from captures import SHARED, needs_captures

from nfslat import api
from nfslat.answer import model
from nfslat.cli.main import main
from nfslat.decode.workspace import open_workspace
from nfslat.errors import InputError
from nfslat.live.commands import Command
from nfslat.live.watch import Watch
from nfslat.model.units import NS_PER_S, iso

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
SERVER, CLIENT = (str(SAMPLE / f"{side}.pcap.gz") for side in ("server", "client"))
_EVER_NS = 1 << 60


@contextmanager
def _watch(
    server: str, client: str, seconds: float, *, keep_ns: int = _EVER_NS, ring_bytes: int = 1 << 26
) -> Iterator[Watch]:
    with open_workspace([server, client], engine="native", quiet=True) as work:
        sources, width_ns = dict(zip(("server", "client"), work.sources, strict=True)), round(seconds * NS_PER_S)
        watch = Watch(sources, work.engine.tools, width_ns, keep_ns=keep_ns, ring_bytes=ring_bytes)
        yield watch
        watch.close()


def test_a_report_goes_back_so_far_at_most() -> None:
    """By what is to be kept, and what was called before; where nothing of a time is held there is none, and it is said
    what would hold more."""
    with _watch(SERVER, CLIENT, 1.0, keep_ns=4 * NS_PER_S) as watch:
        with pytest.raises(InputError, match="no stretch of time has ended"):
            watch.report()
        *_, last = (stretch.pair.end_ns for stretch in watch)
        assert watch.span_ns == (last - 4 * NS_PER_S, last)
        first = watch.report().captures["client"].first
        assert iso(last - 6 * NS_PER_S) <= str(first) < iso(last - 5 * NS_PER_S)
        with pytest.raises(InputError, match=r"no packet is held \(server, client\): a larger --ring holds more"):
            watch.on_packets((0, 1))


def test_a_run_goes_on_when_all_is_begun_anew(tmp_path: Path) -> None:
    """Decoders are replaced in mid-capture: nothing is counted twice, what is missing was in flight, and the cause is
    still found; what is kept begins anew."""
    with _watch(SERVER, CLIENT, 1.0) as watch:
        whole = sum(stretch.row.matched for stretch in watch)
    fifos = [tmp_path / side for side in ("server", "client")]
    goes_on = threading.Event()
    for fifo, name in zip(fifos, (SERVER, CLIENT), strict=True):
        os.mkfifo(fifo)
        threading.Thread(target=_write, args=(fifo, gzip.decompress(Path(name).read_bytes()), goes_on)).start()
    with _watch(*map(str, fifos), 1.0) as watch:
        rows = []
        for stretch in watch:
            rows.append(stretch.row)
            if len(rows) == 2:
                watch.renew()
                goes_on.set()
    assert len(rows) >= 8
    assert sum(row.matched for row in rows) <= whole
    assert sum(row.matched for row in rows) >= whole - 40  # 31 were in flight
    assert rows[-1].cause == "server-threads"
    assert all(one.begin < other.begin for one, other in pairwise(rows))


def _write(fifo: Path, data: bytes, goes_on: threading.Event) -> None:
    with fifo.open("wb") as out:
        out.write(data[: len(data) // 2])
        out.flush()
        goes_on.wait(60)
        out.write(data[len(data) // 2 :])


def test_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder for its owner alone with the report in three forms and the packets; the command has it as JSON; a
    moment that lasts is written once, and no more than are wanted."""
    out, told = tmp_path / "out", tmp_path / "told.json"
    arguments = ["live", SERVER, CLIENT, "--interval", "1", "--out", str(out), "--at-most", "1"]
    arguments += ["--when", "READ.p99>20ms for 2s", "--when", "fault=server-threads", "--exec", f"cat >{told}"]
    assert main(arguments) == 0
    said = " ".join(capsys.readouterr().out.split())
    (folder,) = out.iterdir()
    assert out.stat().st_mode & 0o77 == 0
    assert sorted(one.name for one in folder.iterdir()) == [
        "client.pcapng", "report.html", "report.json", "report.txt", "server.pcapng",
    ]  # fmt: skip
    found = json.loads(told.read_text())
    assert found["folder"] == str(folder)
    assert found["stretch"]["outcome"] in ("fault", "undecided")
    assert "--exec: exit status 0" in said
    assert "not written: there were 1 within a day (--at-most)" in said
    assert said.count("met since") == 2


@needs_captures
def test_a_ring_that_is_too_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report of a moment, and that at the end, are on the packets that are held, and say from when on."""
    out, at_end = tmp_path / "out", tmp_path / "report.json"
    pair = [str(SHARED / "lab" / "d4_v3_loss2_full" / f"{side}.pcap.gz") for side in ("server", "client")]
    arguments = ["live", *pair, "--interval", "1", "--out", str(out), "--ring", "10M"]
    assert main([*arguments, "--when", "ops/s>0 for 6s", "--json-report", str(at_end)]) == 0
    (folder,) = out.iterdir()
    plain = api.correlate(folder / "server.pcapng", folder / "client.pcapng").figures
    moment, last = (model.Report.from_json(path.read_text(), path.name) for path in (folder / "report.json", at_end))
    assert moment.verdict == plain.verdict
    for report in (moment, last):
        assert sum("packets are held from" in note for note in report.notes) == 1
    assert " UTC on: a larger --ring holds more" in " ".join(capsys.readouterr().out.split())


def test_a_command_that_hangs_is_ended() -> None:
    """It and what it started, and that is said; nobody waits for it meanwhile, and no more than a few run."""
    command = Command("sleep 600 & sleep 600", most_s=0.3)
    begun = time.monotonic()
    for _ in range(5):
        command.run("{}")
    assert time.monotonic() - begun < 0.3
    command.end()
    said = list(command.lines())
    assert said.count("--exec: ended after 0.3 s without an answer") == 4
    assert said.count("--exec: not run: 4 of it are running") == 1


def test_what_a_command_is_told_is_no_command(tmp_path: Path) -> None:
    """It is data, whatever is in it; the exit status is said."""
    got, made = tmp_path / "got", tmp_path / "made"
    command = Command(f"cat >{got}; exit 3")
    text = f'"; touch {made}; $(touch {made}) `touch {made}`'
    command.run(text)
    command.end()
    assert got.read_text() == text
    assert not made.exists()
    assert list(command.lines()) == ["--exec: exit status 3"]


def test_at_the_end_and_against_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report on what is kept is written as JSON and page. Held against itself nothing is new; against a report
    without causes each is."""
    one = tmp_path / "report.json"
    arguments = ["live", SERVER, CLIENT, "--interval", "3"]
    assert main([*arguments, "--json-report", str(one), "--html", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    whole = api.correlate(SERVER, CLIENT).summary
    report = model.Report.from_json(one.read_text(), "report.json")
    assert report.verdict is not None
    assert whole.verdict is not None
    assert report.verdict.cause == whole.verdict.cause == "server-threads"
    better = tmp_path / "better.json"
    with better.open("w") as out:
        dataclasses.replace(report, findings=[]).write_json(out)
    capsys.readouterr()
    for baseline, is_new in ((one, False), (better, True)):
        other = tmp_path / f"{is_new}.json"
        assert main([*arguments, "--baseline", str(baseline), "--json-report", str(other)]) == 0
        assert ("server-threads (new)" in capsys.readouterr().out) is is_new
        notes = model.Report.from_json(other.read_text(), "report.json").notes
        (note,) = [text for text in notes if text.startswith(f"since {baseline}: ")]
        assert ("New: server-threads" in note) is is_new


def test_a_signal_writes_what_is_kept(tmp_path: Path) -> None:
    """While nothing comes, too."""
    fifos = [tmp_path / side for side in ("server", "client")]
    for fifo in fifos:
        os.mkfifo(fifo)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "nfslat", "live", *map(str, fifos), "--interval", "2", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ends = [fifo.open("wb") for fifo in fifos]
        for end, name in zip(ends, (SERVER, CLIENT), strict=True):
            end.write(Path(name).read_bytes())
            end.flush()
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + 60
        while not (out.exists() and any(one.name.endswith("-asked") for one in out.iterdir())):
            assert time.monotonic() < until
            time.sleep(0.1)
        for end in ends:
            end.close()
        process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(("name", "inferred"), [(SERVER, "client"), (CLIENT, "server")])
def test_one_capture(name: str, inferred: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of either host: the cause is named, each row says which host is inferred and how well, and all ops are there."""
    out = tmp_path / "live.jsonl"
    moments = tmp_path / "moments"
    arguments = ["live", name, "--interval", "2", "--json", str(out), "--when", "fault", "--out", str(moments)]
    assert main(arguments) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["cause"] for row in rows[2:-1]} == {"server-threads"}
    assert {row["inferred"] for row in rows} == {inferred}
    assert all(row["inferred_error_ms"] >= 0 for row in rows)
    assert sum(row["ops"] for row in rows) == 671
    both = tmp_path / "both.jsonl"
    assert main(["live", SERVER, CLIENT, "--interval", "2", "--json", str(both)]) == 0
    for row, line in zip(rows[3:-1], both.read_text().splitlines()[3:-1], strict=True):
        assert row["client_ms"] == pytest.approx(json.loads(line)["client_ms"], rel=0.2)
    printed = capsys.readouterr().out
    assert f"One capture: times of the {inferred} and of the network (~) are inferred." in printed
    (folder,) = moments.iterdir()
    found = api.inspect(folder / "capture.pcapng")
    assert found.verdict is not None
    assert found.verdict.cause == "server-threads"


def test_what_cannot_be_written_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is a file, a disk that is full: it is said, and the stretches go on."""
    out = tmp_path / "out"
    out.mkdir()
    options = ["--interval", "2", "--when", "fault", "--out", str(out / "no" / "further")]
    (out / "no").symlink_to("/dev/full")
    assert main(["live", SERVER, CLIENT, *options]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not written: Not a directory" in said
    assert "7 stretches, 671 operations" in said
