"""`nfslat diff --transport`: what changed between two TCP conversations, how sure, and healthy controls."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from captures import SHARED, needs_captures
from drawn import capture, report_of, wan
from timeline import Timeline
from valid import validator

from nfslat.cli import main as cli
from nfslat.diff.tcp.compare import compare
from nfslat.diff.tcp.model import Figure, TransportDiff
from nfslat.diff.tcp.read import Run, from_captures, halves, is_report
from nfslat.diff.tcp.sections import render
from nfslat.tcp.packets import Trace

_SCHEMA = validator(TransportDiff)


def _run(line: Timeline | Trace, name: str = "a") -> Run:
    trace = line.trace() if isinstance(line, Timeline) else line
    return Run(name, "capture", report_of(trace, drawn=0).details[0], 0, 1)


def _diff(a: Timeline, b: Timeline) -> TransportDiff:
    return compare(_run(a), _run(b, "b"))


def _figure(found: TransportDiff, name: str, at: int = 0) -> Figure:
    return [one for one in found.figures if one.name == name][at]


def _turns(seed: int, *, wait_ms: float = 5, late: float = 0.0, count: int = 400, swapped: bool = False) -> Timeline:
    """Requests with answers after some `wait_ms`; before a share `late` of the answers a delayed ACK is waited for."""
    random = np.random.default_rng(seed)
    line = Timeline(server=("10.0.0.2", 1521))
    if swapped:
        line.send(0, "<", 10)
    else:
        line.handshake(0)
    at = 10.0
    for _ in range(count):
        line.send(at, ">", 120)
        at += float(random.gamma(8, wait_ms / 8)) + 0.1
        if random.random() < late:
            line.send(at, "<", 1460)
            line.ack(at + 40, ">")
            at += 40.1
        line.send(at, "<", 300)
        at += float(random.gamma(4, 0.5)) + 0.1
    return line


@pytest.mark.parametrize("turned", [False, True])
def test_delayed_acks_make_b_slower_and_a_the_better_baseline(turned: bool) -> None:
    """Against a run without them; the other way round B is the better one. The timer is named."""
    runs = [wan(200, every=0), wan(200, every=5)]
    found = _diff(*runs[:: -1 if turned else 1])
    assert (found.verdict.change, found.verdict.better) == (("faster", "B") if turned else ("slower", "A"))
    assert f"{'B' if turned else 'A'} is the better baseline." in found.verdict.text
    assert "wait for delayed ACKs from 10.0.0.1:40000" in found.verdict.text
    waits = _figure(found, "wait for delayed ACKs").change
    assert waits.certain
    assert waits.relevant
    assert abs(waits.difference) == pytest.approx(324, rel=0.05)
    timers = next(one for one in found.settings if one.name == "delayed-ACK timer of 10.0.0.2:1521")
    assert sorted((timers.a, timers.b)) == ["40 ms (40)", "none seen"]


def test_two_halves_of_a_healthy_capture_do_not_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is fast, one that has delayed ACKs all the time, and one in turns, as files."""
    for number, line in enumerate((wan(200, every=0), wan(200, every=5), _turns(1))):
        path = capture(tmp_path, line, f"{number}.pcap")
        a, b = halves(str(path), None, ports=frozenset(), quiet=True)
        assert compare(a, b).verdict.change == "none"
        assert cli.main(["diff", "--transport", str(path), "--split", "half", "-q"]) == 0
        assert capsys.readouterr().out.startswith("No difference beyond chance: ")


def test_equal_runs_do_not_differ_and_longer_turns_do() -> None:
    """Of 66 pairs with other random waits none is slower or faster; half as long again is found in each of ten."""
    runs = [_run(_turns(seed)) for seed in range(12)]
    said = [compare(a, b).verdict.change for at, a in enumerate(runs) for b in runs[at + 1 :]]
    assert len(said) == 66
    assert set(said) <= {"none", "unknown", "not relevant"}
    for seed in range(10):
        found = compare(runs[seed], _run(_turns(100 + seed, wait_ms=7.5)))
        assert (found.verdict.change, found.verdict.better) == ("slower", "A")
        assert found.verdict.text.startswith("B is slower: turns ")


def test_what_makes_turns_longer_is_told() -> None:
    """A delayed ACK in a third of the turns: the turns lead, the wait explains."""
    found = _diff(_turns(1), _turns(2, late=1 / 3))
    assert found.verdict.text.startswith("B is slower: turns ")
    assert "wait for delayed ACKs from 10.0.0.2:1521" in found.verdict.text


def test_loss_is_told() -> None:
    """One packet in twenty comes again 300 ms later."""
    found = _diff(wan(200, every=0), wan(200, every=0, again=200))
    assert found.verdict.change == "slower"
    again = _figure(found, "retransmitted").change
    assert again.certain
    assert again.b == pytest.approx(100 / 6)
    assert _figure(found, "wait to retransmit").change.certain


def test_one_spell_is_no_change() -> None:
    """A pause of one half second in a run is one event: B is not called slower for it."""
    b = _turns(2)
    late = b.lines[len(b.lines) // 2].t_ns
    b.lines = [dataclasses.replace(one, t_ns=one.t_ns + 500_000_000 * (one.t_ns >= late)) for one in b.lines]
    assert _diff(_turns(1), b).verdict.change in ("none", "unknown")


def test_endpoints_are_compared_by_who_they_are() -> None:
    """A capture that begins with a packet of the server names that one first: it is still the server."""
    found = _diff(_turns(1), _turns(2, swapped=True))
    assert (found.b.a, found.b.b) == (found.a.a, found.a.b) == ("10.0.0.1:40000", "10.0.0.2:1521")
    assert _figure(found, "payload of a packet").change.b == 120


def test_sizes_that_only_one_run_has_are_shown() -> None:
    """The shares of the packets, with what explains a size."""
    b = wan(100, every=0)
    b.lines = [dataclasses.replace(one, size=2000) if one.size == 3844 else one for one in b.lines]
    shown = {one.bytes: (one.share_a, one.share_b, one.what) for one in _diff(wan(100, every=0), b).sizes}
    assert shown[1448] == (0.75, 0.75, "a full segment")
    assert shown[3844][:2] == (0.25, 0.0)
    assert shown[2000][:2] == (0.0, 0.25)


def test_reports_say_what_captures_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON of `nfslat transport` in place of the captures, or of one of them; the schema holds."""
    paths = [capture(tmp_path, wan(100, every=every), f"{every}.pcap") for every in (0, 5)]
    reports = [tmp_path / f"{path.stem}.json" for path in paths]
    for path, told in zip(paths, reports, strict=True):
        assert cli.main(["transport", str(path), "--json", str(told), "-q"]) == 0
    capsys.readouterr()
    verdicts = set()
    for words in (["--transport", *paths], reports, [paths[0], reports[1]], [reports[0], paths[1]]):
        assert cli.main(["diff", *map(str, words), "--json", "-", "-q"]) == 0
        text = capsys.readouterr().out
        _SCHEMA.validate(json.loads(text))
        found = TransportDiff.from_json(text)
        out = io.StringIO()
        found.write_json(out)
        assert out.getvalue() == text
        verdicts.add(found.verdict)
    assert len(verdicts) == 1


def test_an_earlier_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has nothing that tells change from chance."""
    path, told = capture(tmp_path, wan(30)), tmp_path / "t.json"
    assert cli.main(["transport", str(path), "--json", str(told), "-q"]) == 0
    found = json.loads(told.read_text(encoding="utf-8"))
    found["details"][0]["stretches"] = None
    told.write_text(json.dumps(found), encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["diff", str(told), str(path)]) == 3
    assert "made by an earlier nfslat" in capsys.readouterr().err


@pytest.mark.parametrize("broken", ["parts", "limits"])
def test_a_report_that_is_not_whole_is_refused(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made by hand: with fewer parts than ten, or without a limit."""
    path, told = capture(tmp_path, wan(30)), tmp_path / "t.json"
    assert cli.main(["transport", str(path), "--json", str(told), "-q"]) == 0
    found = json.loads(told.read_text(encoding="utf-8"))
    way = found["details"][0]["stretches"]["ways"][1]
    if broken == "parts":
        way["bits"]["per"].pop()
    else:
        way["waited_ms"].popitem()
    told.write_text(json.dumps(found), encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["diff", str(told), str(path)]) == 3
    assert "not a whole report of nfslat.transport/1: stretches" in capsys.readouterr().err


def test_lines_fit_the_terminal() -> None:
    """80 columns, whatever changed."""
    text = render(_diff(wan(200, every=0, again=50), _turns(2, late=0.3)), width=80, color=False)
    assert max(map(len, text.splitlines())) <= 80


def test_a_pipe_is_a_capture_and_stays_whole(tmp_path: Path) -> None:
    """What looks for a report takes nothing out of it: it cannot be read twice."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    sent = b"\xd4\xc3\xb2\xa1" * 200
    try:
        os.write(end, sent)
        assert not is_report(str(pipe))
        assert os.read(end, 2 * len(sent)) == sent
    finally:
        os.close(end)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transport", "a.pcap"], "diff compares two runs, 1 given"),
        (["--transport", "a.pcap", "b.pcap", "--op", "READ"], "--op: of NFS operations"),
        (["--transport", "a.pcap", "b.pcap", "--check", "mean=10%"], "--check: of NFS operations"),
        (
            ["--transport", "a.pcap", "b.pcap", "--check", "mean=10%", "--engine", "native"],
            "nfslat: --check: of NFS operations",
        ),
        (["--transport", "a.pcap", "b.pcap", "--engine", "tshark"], "--engine tshark: TCP conversations are read by"),
        (["--transport", "a.pcap", "b.pcap", "--split", "half"], "--split with --transport takes one capture"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, nothing on standard output."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.pcap", "b.pcap"):
        capture(tmp_path, wan(3), name)
    assert cli.main(["diff", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


@needs_captures
@pytest.mark.parametrize("name", ["a_v3_baseline", "d3_v3_loss1", "d_v3_netdelay5", "g_clock_drift5000ppm", "k_v3_dup"])
def test_halves_of_real_captures_do_not_differ(name: str) -> None:
    """Whatever is wrong with them is so in both halves."""
    (path,) = (SHARED / "lab" / name).glob("client.*")
    assert compare(*halves(str(path), None, ports=frozenset(), quiet=True)).verdict.change == "none"


@needs_captures
def test_loss_between_two_real_captures_is_told() -> None:
    """The lab's baseline has none, and a path with 1 % of loss has."""
    paths = [next((SHARED / "lab" / name).glob("client.*")) for name in ("a_v3_baseline", "d3_v3_loss1")]
    runs = [from_captures([str(path)], ports=frozenset(), quiet=True) for path in paths]
    found = compare(*runs)
    assert (found.verdict.change, found.verdict.better) == ("slower", "A")
    assert any(one.name == "retransmitted" and one.change.certain for one in found.figures)
