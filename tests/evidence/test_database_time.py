"""AWR and ASH reports, text and HTML -> database time, and what of it is in no wait and on no processor.

The reports are made by hand after public samples of 11.2, 12.1 (of a server that prints in German) and 19c, that of
Statspack after the script that prints it (sprepins.sql), the global one (RAC) after tools that read such reports; with
the figures of one case: 1,053 minutes of DB time, 18.8 % on processors, waits of 4.6 %.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path
from typing import Any

import pytest
from queue_captures import write_captures
from queues import MS, simulate

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.evidence import oracle_reports
from nfslat.evidence.read import read
from nfslat.evidence.records import DatabaseReport
from nfslat.evidence.when import Fit, Span, zone_of

DATA = Path(__file__).parent / "data"
_LAYOUTS = ("app_awr_11g.html", "app_awr_12c_de.html", "app_awr_19c.html", "app_statspack.txt", "app_ash.html")
_NO_WAIT = 63180 - 11877.84 - 2891.32


def _at(text: str) -> dt.datetime:
    """By a clock on the wall."""
    return dt.datetime.fromisoformat(text)


# --- Hostile HTML -----------------------------------------------------------------------------------------------------


_HOSTILE = [
    "<html>" + "<table>" * 100_000,
    "<html><table>" + "<tr><td>" * 50_000,
    "<html>" + "<!--" * 200_000,
    "<html><table><tr>" + "<td colspan=999>x" * 50_000 + "</table>",
    "<html><table><tr><th colspan=99999999999>Event</th></tr></table>",
    "<html><a " + "b=" * 400_000,
    "<html>" + "&" * 1_000_000,
    "<html><table><tr><td>" + "x" * 1_000_000 + "</table>",
    "<html>" + "</table></tr></td>" * 25_000,
    "<html><script>" + "<" * 1_000_000,
    "<html><![CDATA[" * 60_000,
    "<html>" + "<?" * 400_000,
]


@pytest.mark.parametrize("page", _HOSTILE, ids=range(len(_HOSTILE)))
def test_hostile_html_is_refused_in_one_line_and_in_time(page: str, tmp_path: Path) -> None:
    """A megabyte of what no report has: neither a traceback nor minutes."""
    (tmp_path / "x.html").write_text(f"<html><title>AWR Report for DB\nWORKLOAD REPOSITORY\n{page}\n" * 2)
    began = time.process_time()
    with pytest.raises(InputError) as refused:
        read(str(tmp_path / "x.html"))
    assert "\n" not in str(refused.value)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("file", _LAYOUTS)
def test_html_may_end_anywhere(file: str) -> None:
    """A report that is cut has what stands in front of the cut, or is refused in a line; no figure is another."""
    text = (DATA / file).read_text()
    parse = oracle_reports.ash if "ash" in file else oracle_reports.waits
    for cut in range(0, len(text), 97):
        try:
            found = parse(text[:cut].splitlines(keepends=True), "x").record
        except InputError:
            continue
        assert isinstance(found, DatabaseReport)
        assert found.time is None or found.time.db_s == pytest.approx(63_180, abs=0.03)


# --- Beside captures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("+0100", 60), ("-03:30", -210), ("Z", 0), ("UTC", 0), ("CET", None), ("%z", None), ("+1", None), ("", None)],
)
def test_zones_are_minutes_or_not_known(text: str, minutes: int | None) -> None:
    """Most names of zones stand for several."""
    assert zone_of(text) == minutes


def test_an_interval_fits_captures_by_its_zone() -> None:
    """Without a zone it may fit, or cannot: no clock on the wall is days off."""
    span = Span(_at("2026-11-24 12:00:00"), _at("2026-11-24 13:00:00"))

    def at(hour: int, minute: int, day: int = 24) -> tuple[int, int]:
        begin = dt.datetime(2026, 11, day, hour, minute, tzinfo=dt.UTC).timestamp()
        return int(begin * 1e9), int((begin + 60) * 1e9)

    assert span.fits(*at(12, 30), 0) is Fit.SURE
    assert span.fits(*at(12, 30), 60) is Fit.NOT
    assert span.fits(*at(11, 30), 60) is Fit.SURE
    assert span.fits(*at(11, 30)) is Fit.OPEN
    assert span.fits(*at(12, 30, 22)) is Fit.NOT


class Case:
    """Captures of quick operations, and files of the database's host at that time."""

    def __init__(self, folder: Path) -> None:
        traffic = simulate(threads=64, workers=4, slots=64, count=400, law="constant", mean_ns={"READ": MS // 2},
                           mix={"READ": 1.0}, jitter_ns=0, seed=5)  # fmt: skip
        self.captures = [str(path) for path in write_captures(traffic, folder)]
        self.folder = folder
        seconds = int.from_bytes(Path(self.captures[1]).read_bytes()[24:28], "little")  # of the first packet
        self.begin = dt.datetime.fromtimestamp(seconds, dt.UTC)

    def awr(self, name: str = "app_awr_case.txt", hours: float = 1.0) -> str:
        """The report, of an hour in which the captures lie, by a clock so much ahead of UTC."""
        first = self.begin + dt.timedelta(hours=hours, minutes=-20)
        said = [f"{one:%d-}{one:%b}{one:-%y %H:%M:%S}" for one in (first, first + dt.timedelta(hours=1))]
        text = (DATA / name).read_text()
        text = text.replace("24-Nov-26 12:00:01", said[0]).replace("24-Nov-26 13:00:05", said[1])
        text = text.replace("24-Nov-26 12:00<", f"{said[0][:-3]}<").replace("24-Nov-26 13:00<", f"{said[1][:-3]}<")
        text = text.replace("24-Nov-26 12:10:00", said[0]).replace("24-Nov-26 12:25:00", said[1])
        (path := self.folder / f"{hours}-{name}").write_text(text)
        return str(path)

    def snapshot(self, host: str = "db1", zone: str = "+0100") -> str:
        """Of the client."""
        text = (
            f"# nfslat snapshot 1\n#### nfslat: host\nsystem: Linux\nhostname: {host}\nzone: {zone}\n#### nfslat: end\n"
        )
        (path := self.folder / f"{host}.txt").write_text(text)
        return str(path)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("database"))


def _report(capsys: pytest.CaptureFixture[str], case: Case, *arguments: str) -> dict[str, Any]:
    assert cli.main([*case.captures, *arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _no_wait(report: dict[str, Any]) -> dict[str, Any] | None:
    return next((one for one in report["findings"] if one["code"] == "database-no-wait"), None)


@pytest.mark.parametrize("host", ["db1", "db2", "web7"])
def test_a_global_report_is_that_of_the_clients_instance(
    case: Case, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The finding is of the instance on the client; on another host there is none, and a line says so."""
    awr = case.awr("app_awr_rac.html")
    found = _report(capsys, case, "--evidence", awr, "--client-snapshot", case.snapshot(host))
    assert (_no_wait(found) is not None) == (host == "db1")
    assert any("is of several instances" in note for note in found["evidence"]) == (host == "web7")


@pytest.mark.parametrize("file", ["app_awr_case.txt", "app_awr_11g.html", "app_awr_19c.html"])
def test_the_case_of_1053_minutes(case: Case, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The wire is quick; 76.6 % of the database time are in no wait and on no CPU: the finding says where to look."""
    found = _report(capsys, case, "--evidence", case.awr(file), "--client-snapshot", case.snapshot())
    finding = _no_wait(found)
    assert finding is not None
    assert finding["severity"] == "warning"
    assert finding["text"].startswith(
        "76.6 % of the 1,053 minutes of database time are in no wait and on no CPU (DB CPU 18.8 %"
    )
    assert "the host's load is 2.7 per CPU" in finding["text"]
    assert finding["evidence"]["no_wait_share"] == pytest.approx(_NO_WAIT / 63180, abs=0.0005)
    assert any("NUMA balancing" in line for line in finding["advice"]["how"])


def test_waits_that_hold_time_without_a_processor_prove_no_slots(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    """The waits of the report are longer than the wire's times: slots are certain by them, and likely where the
    sessions have no processor for most of the time."""
    (case.folder / "busy.txt").write_text(Path(case.awr()).read_text().replace("11,877.8", "51,877.8"))
    for path, confidence in ((case.folder / "busy.txt", "certain"), (case.awr(), "likely")):
        found = _report(capsys, case, "--evidence", str(path), "--client-snapshot", case.snapshot())
        assert [one["confidence"] for one in found["findings"] if one["code"] == "client-slots"] == [confidence]


def test_it_leads_where_nothing_on_the_wire_is_slow(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """With the application's time unknown: beside the events of the report time lies above the wire, too."""
    text = (
        Path(case.awr())
        .read_text()
        .replace("db file sequential read", "gc cr block 2-way")
        .replace("direct path", "gc path")
    )
    (path := case.folder / "no-io.txt").write_text(text)
    found = _report(capsys, case, "--evidence", str(path), "--client-snapshot", case.snapshot())
    verdict = found["verdict"]
    assert (verdict["outcome"], verdict["layer"], verdict["cause"]) == ("fault", "client", "database-no-wait")
    assert verdict["text"].startswith("76.6 % of the database time is in no wait and on no CPU.")
    assert "perf sched" in verdict["next"]["command"]


def test_ash_of_the_same_interval_stands_beside_it(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """Its samples in no wait are far more than DB CPU."""
    files = [one for name in ("app_ash.html", "app_awr_case.txt") for one in ("--evidence", case.awr(name))]
    finding = _no_wait(_report(capsys, case, *files, "--client-snapshot", case.snapshot()))
    assert finding is not None
    assert "ASH has 94.1 % of its samples in no wait" in finding["text"]


def test_a_report_of_a_time_that_is_not_known_is_of_little_weight(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the client's name and zone the finding is there, says so, and decides nothing."""
    found = _report(capsys, case, "--evidence", case.awr())
    finding = _no_wait(found)
    assert finding is not None
    assert finding["severity"] == "info"
    assert "give a snapshot of the client" in finding["text"]
    assert found["verdict"]["cause"] != "database-no-wait"


@pytest.mark.parametrize(
    ("hours", "host", "why"),
    [
        (1.0, "web7", "is of another host than the client's snapshot"),
        (3.0, "db1", "which is not when the captures ran"),
        (72.0, "", "which is not when the captures ran"),
    ],
)
def test_a_report_of_another_host_or_time_is_left_out(
    case: Case, hours: float, host: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither its database time nor its waits are judged, and a line says why."""
    snapshot = ["--client-snapshot", case.snapshot(host)] if host else []
    found = _report(capsys, case, "--evidence", case.awr(hours=hours), *snapshot)
    assert _no_wait(found) is None
    assert not any(row["layer"] == "application" for row in found["stack"])
    assert any(why in note for note in found["evidence"])


def test_an_anonymous_report_has_no_name_of_files_or_hosts(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """The finding names its source by a pseudonym."""
    path = case.awr()
    assert (
        cli.main(
            [*case.captures, "--evidence", path, "--client-snapshot", case.snapshot(), "--anonymize", "--json", "-"]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "AWR report evidence)" in text
    assert Path(path).name not in text
    assert "db1" not in text
