"""Causes that begin and end while somebody watches: each is named soon, and so is its end; the moment is written, and
plain `nfslat` finds the same cause in it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from captures import SHARED, needs_captures
from simulated import Simulated
from spliced import spliced
from windowed import windowed

from nfslat import api
from nfslat.answer.model import Report
from nfslat.cli.main import main
from nfslat.flow.pairs import Pair
from nfslat.live.course import Course, Lasting, followed
from nfslat.live.held import Captures
from nfslat.live.rows import Row
from nfslat.live.watch import OnPackets, Stretch, Watched
from nfslat.model.units import NS_PER_S

_HEALTHY = "lab/a_v3_baseline"
_CAUSES = [
    ("lab/b_v3_nfsd_threads2", "server-threads"),
    ("lab/d_v3_netdelay5", "net-delay"),
    ("lab/n_v3_nfsd_restart", "reconnect"),
    pytest.param("lab/e_v3_slow_storage", "server-storage", marks=pytest.mark.long),
    pytest.param("lab/d4_v3_loss2_full", "net-loss", marks=pytest.mark.long),
    pytest.param("lab2/disk_stalls", "server-slow-ops", marks=pytest.mark.long),
]
_INTERVAL_S = 2


def _pair(name: str) -> tuple[Path, Path]:
    server, client = (next((SHARED / name).glob(f"{side}.pcap*")) for side in ("server", "client"))
    return server, client


def _ns(moment: str) -> int:
    return round(datetime.fromisoformat(moment[:26] + "+00:00").timestamp() * 1e9)


def _live(tmp_path: Path, names: list[str], *options: str) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    server, client, spans = spliced([_pair(name) for name in names], tmp_path)
    return _rows(server, client, tmp_path, "--interval", str(_INTERVAL_S), *options), spans


def _rows(server: Path, client: Path, tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    out = tmp_path / "live.jsonl"
    assert main(["live", str(server), str(client), "--json", str(out), *options]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


@needs_captures
@pytest.mark.parametrize(("name", "cause"), _CAUSES)
def test_it_is_named_when_it_begins_and_when_it_ends(name: str, cause: str, tmp_path: Path) -> None:
    """Each within two stretches of time with operations; before and after it nothing is at fault. What live names, what
    the moment's own report says, and what plain `nfslat` says of the moment's packets are the same."""
    out = tmp_path / "out"
    rows, spans = _live(tmp_path, [_HEALTHY, name, _HEALTHY], "--when", "fault", "--out", str(out))
    _assert_all_say_the_same(rows, out)
    begin_ns, end_ns = spans[1]
    began = [(row, one) for row in rows for one in row["began"]]
    ((row, _),) = [(row, one) for row, one in began if one["what"] == cause]
    if cause == "reconnect":  # which is no state: the stretches behind it have none
        assert [one for one in rows if one["cause"] == cause] == [row]
    assert all(begin_ns <= _ns(one["end"]) and _ns(one["begin"]) <= end_ns for _, one in began)
    busy = [one for one in rows if one["ops"] >= 20 and _ns(one["end"]) > _injected_ns(name, begin_ns)]
    assert row in busy[:3]  # the first one holds the border
    ((last, over),) = [(row, one) for row in rows for one in row["ended"] if one["what"] == cause]
    after = [one for one in rows if one["ops"] and _ns(one["begin"]) >= _ns(over["end"])]
    assert after.index(last) < 2
    folders = sorted(out.iterdir())
    assert len(began) == 1
    assert len(folders) == 1
    files = {"client.pcapng", "report.html", "report.json", "report.txt", "server.pcapng"}
    assert {one.name for one in folders[0].iterdir()} == files
    found = api.correlate(folders[0] / "server.pcapng", folders[0] / "client.pcapng")
    clock = found.summary.clock
    assert clock is not None
    assert clock.theta_ms == pytest.approx(0.0, abs=1.0)


@needs_captures
@pytest.mark.long
@pytest.mark.parametrize("seconds", ["3", "5", "10"])
@pytest.mark.parametrize(("name", "cause"), _CAUSES)
def test_stretches_of_other_lengths(seconds: str, name: str, cause: str, tmp_path: Path) -> None:
    """Wherever stretches begin, the cause and no other one is named, and all that is said of a moment is the same."""
    out = tmp_path / "out"
    names = [_HEALTHY, name, _HEALTHY]
    rows, _ = _live(tmp_path, names, "--interval", seconds, "--when", "fault", "--out", str(out))
    assert [event["what"] for row in rows for event in row["began"]] == [cause]
    _assert_all_say_the_same(rows, out)


def _assert_all_say_the_same(rows: list[dict[str, Any]], out: Path) -> None:
    """The stretch in which a cause began, the report of its moment, and plain `nfslat` on its packets; and
    nothing begins in a stretch that holds the end of a cause."""
    named = [row for row in rows if row["began"]]
    for row, folder in zip(named, sorted(out.iterdir()), strict=True):
        written = json.loads((folder / "report.json").read_text())
        plain = api.correlate(folder / "server.pcapng", folder / "client.pcapng").figures
        assert written["verdict"] == (None if plain.verdict is None else dataclasses.asdict(plain.verdict))
        assert written["matched"]["ops"] == (plain.matched and plain.matched.ops)
        assert (written["verdict"]["cause"], written["verdict"]["text"]) == (row["cause"], row["text"])
        assert [event["what"] for event in row["began"]] == [row["cause"]]
    last = {event["end"] for row in rows for event in row["ended"]}
    assert not any(row["began"] for before, row in itertools.pairwise(rows) if before["end"] in last)


@pytest.mark.parametrize(
    ("cause", "path"),
    [
        ("net-delay", {"far": (4000.0, 8000.0, 16.0)}),
        ("net-delay", {"far": (4000.0, 8000.0, 16.0), "jitter_ms": 1.0}),
        ("bandwidth", {"narrow": (4000.0, 8000.0, 10.0)}),
        ("bandwidth", {"narrow": (4000.0, 8000.0, 10.0), "segment": 1448}),
    ],
)
def test_a_path_that_changes(cause: str, path: dict[str, Any], tmp_path: Path) -> None:
    """On one connection, with clocks that nobody set, it becomes longer, or narrow: that is said while it is so. One is
    not taken for the other, though both last, and nothing is at fault before and after."""
    server, client = Simulated(workers=18, think_ms=60, ops=3200, **path).run().write(tmp_path / "captures")
    rows = _rows(server, client, tmp_path, "--interval", "1")
    first_ns = _ns(rows[0]["begin"])
    said = {(_ns(row["begin"]) - first_ns) // NS_PER_S: row for row in rows if row["ops"]}
    assert [said[second]["cause"] for second in range(5, 8)] == [cause] * 3
    assert all(said[second]["outcome"] != "fault" for second in (*range(4), 9))
    found = [api.correlate(server, client).verdict]
    if cause == "net-delay":
        found.append(windowed(server, client, 1.0).verdict)
    assert {one and one.cause for one in found} == {cause}


def _injected_ns(name: str, begin_ns: int) -> int:
    """Two captures begin before their cause does."""
    return begin_ns + {"lab2/disk_stalls": 6, "lab/n_v3_nfsd_restart": 5}.get(name, 0) * NS_PER_S


def _stretch(second: int) -> Pair:
    return Pair(second * NS_PER_S, (second + 1) * NS_PER_S, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "for_s", "begins", "ends"),
    [
        ("01110000", 0, [1], [5]),
        ("0110110100", 0, [1], [9]),
        ("0110110100", 2, [2], [9]),
        ("0101010", 2, [], []),
        ("1100110011", 0, [0, 4, 8], [3, 7]),
    ],
)
def test_what_lasts(shown: str, for_s: int, begins: list[int], ends: list[int]) -> None:
    """It begins when it was there for so long without a break, and ends with the second stretch without it."""
    lasting, began, ended = Lasting("it", for_s * NS_PER_S), [], []
    for second, one in enumerate(shown):
        if lasting.began(_stretch(second), holds=one == "1"):
            began.append(second)
        if lasting.ended(holds=one == "1") is not None:
            ended.append(second)
    assert (began, ended) == (begins, ends)


def _row(cause: str | None = None, **changes: Any) -> Row:
    """Of a stretch in which `cause` leads; None: it cannot be told."""
    outcome, confidence = ("undecided", "low") if cause is None else ("fault", "high")
    layer = {None: None, "net-delay": "network"}.get(cause, "server")
    row = Row(
        begin="", end="", ops=100, retransmitted=0, ops_per_s=10.0, payload_bytes=0, mb_per_s=0.0, matched=100,
        given_up=0, client_ms=36.0, client_p99_ms=None, network_ms=35.0, server_ms=1.0, queue_ms=None, in_flight=None,
        threads=None, slots=None, lost_segments=None, outcome=outcome, layer=layer, cause=cause, confidence=confidence,
        text="",
    )  # fmt: skip
    return dataclasses.replace(row, **changes)


@pytest.mark.parametrize(
    ("cause", "after", "is_over"),
    [
        ("net-delay", {"network_ms": 34.0}, False),
        ("net-delay", {"network_ms": 1.2}, True),
        ("net-delay", {"network_ms": 34.0, "outcome": "no-fault"}, True),
        ("host-pause", {"server_ms": 1.0}, True),
    ],
)
def test_a_stretch_that_cannot_be_told_ends_no_cause_whose_layer_is_as_slow(
    cause: str, after: dict[str, Any], is_over: bool
) -> None:
    """Two such stretches follow one in which it led with most of the time. A pause is over when it is not seen."""
    verdict = SimpleNamespace(share=0.9)
    course, report = Course(), cast(Report, SimpleNamespace(verdict=verdict, findings=[], phases=[]))
    course.add(_stretch(0), _row(cause), report)
    ended = [over.what for at in (1, 2) for over in course.add(_stretch(at), _row(**after), report)[1]]
    assert ended == ([cause] if is_over else [])


def test_a_stretch_in_which_a_cause_may_end_begins_none() -> None:
    """While one lasts, another begins with the second stretch in a row that names it; a pause at once."""
    course = Course()
    assert [began.what for began in course.add(_stretch(0), _row("net-delay"))[0]] == ["net-delay"]
    assert course.is_mixed(_row("server-slow-ops"))
    assert course.add(_stretch(1), _row("server-slow-ops")) == ([], [])
    assert [began.what for began in course.add(_stretch(2), _row("server-slow-ops"))[0]] == ["server-slow-ops"]
    assert not course.is_mixed(_row("host-pause"))
    assert [began.what for began in course.add(_stretch(3), _row("host-pause"))[0]] == ["host-pause"]


def test_a_stretch_whose_later_part_is_healthy_is_the_first_one_without_the_cause() -> None:
    """It still names the cause, which was there in its earlier part: one more without it, and the cause has ended."""
    phases = [SimpleNamespace(cause="net-delay", outcome="fault"), SimpleNamespace(cause=None, outcome="no-fault")]
    verdict = SimpleNamespace(share=0.9)
    whole, parts = (cast(Report, SimpleNamespace(verdict=verdict, findings=[], phases=some)) for some in ([], phases))
    course = Course()
    assert course.add(_stretch(0), _row("net-delay"), whole)[1] == []
    assert course.add(_stretch(1), _row("net-delay"), parts)[1] == []
    (over,) = course.add(_stretch(2), _row(outcome="no-fault"), whole)[1]
    assert (over.what, over.end_ns) == ("net-delay", 2 * NS_PER_S)


class _Held:
    """What holds the packets of one pair of captures, from some second on; or none of them."""

    def __init__(self, paths: tuple[Path, ...], from_s: int | None) -> None:
        self._paths, self._from_s = paths, from_s

    def moment_spans_ns(self, begin_ns: int, end_ns: int, report: Report | None) -> list[tuple[int, int]]:
        del report
        return [(begin_ns, end_ns)]

    def on_packets(self, span_ns: tuple[int, int]) -> OnPackets:
        packets = dict.fromkeys(self._paths, 0 if self._from_s is None else 1)
        return OnPackets(Captures(packets).report(), span_ns, self._from_s and self._from_s * NS_PER_S)


@needs_captures
@pytest.mark.parametrize(
    ("name", "from_s", "cause"),
    [
        (_HEALTHY, 0, None),
        ("lab/d_v3_netdelay5", 0, "net-delay"),
        (_HEALTHY, None, "server-storage"),
        (_HEALTHY, 1, "server-storage"),
        ("lab/d_v3_netdelay5", 1, "net-delay"),
    ],
)
def test_no_cause_begins_that_packets_deny(name: str, from_s: int | None, cause: str | None) -> None:
    """A stretch says storage: on packets without a fault nothing is named, and on those of another cause that one. A
    stretch whose packets are gone is all that there is to go by; and those of its end alone deny nothing."""
    stretch = Stretch(_stretch(0), _row("server-storage"), None)
    watch = cast(Watched, _Held(_pair(name), from_s))
    (stretch,) = followed([stretch], watch=watch)
    assert [event.what for event in stretch.began] == ([] if cause is None else [cause])
    assert stretch.row.cause == cause
    assert stretch.row.outcome == ("undecided" if cause is None else "fault")


def test_a_stretch_that_cannot_be_told_and_shows_the_cause_does_not_end_it() -> None:
    """Lost packets are seen in it, and how much of the time they make is not known."""
    seen = SimpleNamespace(code="net-loss", severity="warning")
    course, report = Course(), cast(Report, SimpleNamespace(verdict=None, findings=[seen], phases=[]))
    course.add(_stretch(0), _row("net-loss"), report)
    assert all(course.add(_stretch(at), _row(), report) == ([], []) for at in (1, 2, 3))
    seen.severity = "info"
    _, (over,) = course.add(_stretch(4), _row(), report)
    assert over.what == "net-loss"
