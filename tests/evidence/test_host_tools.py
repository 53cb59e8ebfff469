"""What iostat, vmstat, mpstat, pidstat, ss, nfsslower and biolatency print, and OSWatcher archives of it.

Texts of sysstat 12 and procps are as these print them; those of older versions, of Solaris and of OSWatcher are made by
hand after their manuals and public samples.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from queue_captures import write_captures
from queues import MS, simulate

from nfslat.cli import main as cli
from nfslat.errors import InputError
from nfslat.evidence import bcc, host_statistics, sockets
from nfslat.evidence.host_samples import meanwhile
from nfslat.evidence.host_statistics import HostStatistics, Sample
from nfslat.evidence.read import read
from nfslat.model.tables import Connection

DATA = Path(__file__).parent / "data"
_LINUX = "Linux 6.1.0-18-amd64 (nfs1) \t2026-11-24 \t_x86_64_\t(4 CPU)\n\n"


def _parsed(text: str) -> HostStatistics:
    return host_statistics.parse(text.splitlines(keepends=True))


def _at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _iostat(headings: str, *rows: str) -> list[Sample]:
    """Samples of reports of a row each, the first of which is since the boot."""
    reports = "".join(
        f"2026-11-24T12:00:0{second}+0100\n{headings}\n{row}\n\n" for second, row in enumerate(("", *rows)) if row
    )
    boot = f"2026-11-24T12:00:00+0100\n{headings}\n{rows[0]}\n\n"
    return list(_parsed(_LINUX + boot + reports).samples)


# --- iostat -----------------------------------------------------------------------------------------------------------

_HEADINGS = {
    "12": "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz aqu-sz %util",
    "11": "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util",
    "9": "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util",
    "solaris": "r/s w/s kr/s kw/s wait actv wsvc_t asvc_t %w %b device",
}
_ROWS = {
    "12": "sdb 100.00 800.00 0.00 0.00 4.00 8.00 50.00 400.00 0.00 0.00 1.00 8.00 0.50 40.00",
    "11": "sdb 0.00 0.00 100.00 50.00 800.00 400.00 8.00 0.50 3.00 4.00 1.00 0.10 40.00",
    "9": "sdb 0.00 0.00 100.00 50.00 1600.00 800.00 16.00 0.50 3.00 0.10 40.00",
    "solaris": "100.0 50.0 800.0 400.0 0.0 0.5 1.0 2.0 0 40 sdb",
}


@pytest.mark.parametrize("version", _HEADINGS)
def test_each_version_of_iostat_is_read_in_its_units(version: str) -> None:
    """kB/s or sectors; r_await and w_await, or one await, or two parts of it; all of them ms."""
    (sample,) = _iostat(_HEADINGS[version], _ROWS[version])
    found = meanwhile(HostStatistics("nfs1", 4, (sample,), 0), _ns("2026-11-24 11:00:00", 1), None, None, "iostat")
    (disk,) = found.disks
    assert (disk.name, disk.reads, disk.writes, disk.read_kib, disk.written_kib) == ("sdb", 100, 50, 800, 400)
    apart = version in ("12", "11")
    assert (disk.read_ms, disk.write_ms) == ((4.0, 1.0) if apart else (None, None))
    assert disk.both_ms == (None if version == "12" else 3.0)


def _ns(text: str, seconds: float) -> tuple[int, int]:
    first = int(_at(text).replace(tzinfo=dt.UTC).timestamp() * 1e9)
    return first, first + int(seconds * 1e9)


def test_the_first_report_is_since_the_boot() -> None:
    """It is left out; a file that has no other is refused, and says what to run."""
    rows = [_ROWS["12"].replace("100.00", f"{count}.00") for count in (10, 20, 30)]
    assert [one.values["r/s"] for one in _iostat(_HEADINGS["12"], *rows)] == [10, 20, 30]
    with pytest.raises(InputError, match=r"S_TIME_FORMAT=ISO iostat -xt 1 30"):
        _parsed(f"{_LINUX}{_HEADINGS['12']}\n{_ROWS['12']}\n")


def test_means_are_weighted_by_requests() -> None:
    """A second with one slow request is not one with a thousand."""
    slow = _ROWS["12"].replace("100.00 800.00", "10.00 80.00").replace("4.00 8.00", "92.00 8.00")
    samples = _iostat(_HEADINGS["12"], _ROWS["12"], slow)
    found = meanwhile(HostStatistics("", 4, tuple(samples), 0), _ns("2026-11-24 11:00:00", 2), None, None, "iostat")
    assert found.disks[0].read_ms == pytest.approx((100 * 4 + 10 * 92) / 110)


def test_decimal_commas_are_read() -> None:
    """As a German host prints them."""
    (sample,) = _iostat(_HEADINGS["12"], _ROWS["12"].replace(".", ","))
    assert (sample.values["r/s"], sample.values["r_await"]) == (100.0, 4.0)


@pytest.mark.parametrize(
    ("stamp", "at", "zone"),
    [
        ("2026-11-24T12:00:01+0100", "2026-11-24 12:00:01", 60),
        ("11/24/2026 12:00:01 PM", "2026-11-24 12:00:01", None),
        ("11/24/26 12:00:01 AM", "2026-11-24 00:00:01", None),
        ("24.11.2026 12:00:01", "2026-11-24 12:00:01", None),
        ("24/11/26 12:00:01", "2026-11-24 12:00:01", None),
        ("11/11/26 12:00:01", "2026-11-11 12:00:01", None),
        ("10/11/26 12:00:01", None, None),  # October or November
        ("99/99/26 12:00:01", None, None),
    ],
)
def test_a_date_that_may_be_two_is_none(stamp: str, at: str | None, zone: int | None) -> None:
    """The order of day and month is that of the host's language."""
    text = f"{stamp}\n{_HEADINGS['12']}\n{_ROWS['12']}\n\n"
    (sample,) = _parsed(text * 2).samples
    assert (sample.at, sample.zone_min) == (None if at is None else _at(at), zone)


# --- vmstat, mpstat, pidstat, OSWatcher ------------------------------------------------------------------------------


def test_vmstat_is_read_with_its_stamps() -> None:
    """The zone stands over them where it is UTC; the first line is since the boot."""
    found = host_statistics.parse((DATA / "app_vmstat.txt").read_text().splitlines())
    assert [one.values["r"] for one in found.samples] == [9.0, 11.0, 10.0]
    assert (found.samples[0].at, found.samples[0].zone_min) == (_at("2026-11-24 12:00:02"), 0)
    assert (found.samples[0].values["si"], found.samples[0].values["so"], found.samples[0].step_s) == (120, 40, 1.0)


def test_mpstat_and_pidstat_get_the_day_from_their_heading() -> None:
    """Also beyond midnight; averages are no samples, and a command may have spaces."""
    text = (
        "Linux 6.1.0 (db1) \t2026-11-24 \t_x86_64_\t(2 CPU)\n\n"
        "23:59:58     CPU    %usr   %sys %soft %steal   %idle\n"
        "23:59:59     all   49.24  14.21  2.00   7.00    4.06\n\n"
        "23:59:59     CPU    %usr   %sys %soft %steal   %idle\n"
        "00:00:00     all   49.24  14.21  2.00   9.00    4.06\n\n"
        "Average:     all   49.24  14.21  2.00   8.00    4.06\n\n"
        "00:00:00      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n"
        "00:00:01     1000        77      1.00     12.00   48984   16864   0.07  ora pmon DB1\n"
    )
    found = _parsed(text)
    assert [(one.tool, one.name, one.at, one.step_s) for one in found.samples] == [
        ("mpstat", "all", _at("2026-11-24 23:59:59"), 1.0),
        ("mpstat", "all", _at("2026-11-25 00:00:00"), 1.0),
        ("pidstat", "ora pmon DB1", _at("2026-11-25 00:00:01"), 1.0),
    ]


def test_an_archive_of_oswatcher_gives_each_run_its_instant() -> None:
    """A run prints a report a second from its stamp on, and its first report is since the boot."""
    run = f"{_HEADINGS['11']}\n{_ROWS['11']}\n\n"
    text = "Linux OSWbb v8.3.2  nfs1\nSNAP_INTERVAL 30\nCPU_CORES 4\n" + "".join(
        f"zzz ***Tue Nov 24 12:00:{second} UTC 2026\n{_LINUX.replace('2026-11-24', '11/24/2026')}{run * 3}"
        for second in ("00", "30")
    )
    found = _parsed(text)
    assert found.host == "nfs1"
    assert [one.at.second for one in found.samples if one.at] == [1, 2, 31, 32]
    assert {(one.zone_min, one.step_s) for one in found.samples} == {(0, 1.0)}


def test_an_archive_of_vmstat_skips_the_first_line_of_each_run() -> None:
    """Whose figures are since the boot."""
    head, names, *rows = (DATA / "app_vmstat.txt").read_text().splitlines()
    rows = [row[: row.index(" 2026")] for row in rows]
    run = "\n".join([head, names.replace("UTC", ""), *rows[:3]])
    text = "".join(f"zzz ***Tue Nov 24 12:00:{second} CET 2026\n{run}\n" for second in ("00", "30"))
    found = _parsed(text)
    assert [one.values["r"] for one in found.samples] == [9, 11] * 2
    assert [one.at.second for one in found.samples if one.at] == [1, 2, 31, 32]
    assert found.samples[0].zone_min is None  # CET stands for several


# --- ss ---------------------------------------------------------------------------------------------------------------


def test_ss_gives_what_the_kernel_knows_of_a_connection() -> None:
    """With the state or without, on a line of its own or on the next, with IPv4 addresses in IPv6 ones."""
    found = sockets.parse((DATA / "app_ss.txt").read_text().splitlines(keepends=True))
    one, other = found.sockets
    assert (one.local, one.peer) == (("10.77.0.2", 700), ("10.77.0.1", 2049))
    assert other.local == ("10.77.0.3", 812)
    figures = [
        one.figure(name, at) for name, at in (("ato", 0), ("cwnd", 0), ("rtt", 0), ("wscale", 1), ("retrans", 1))
    ]
    assert figures == [40.0, 10.0, 0.391, 7.0, 2.0]
    assert one.figure("minrtt") == 0.1
    assert other.figure("retrans", 1) is None


def test_connections_of_ss_are_joined_by_their_addresses() -> None:
    """What is of no connection of the captures is not shown."""
    found = sockets.parse((DATA / "app_ss.txt").read_text().splitlines(keepends=True))
    ours = Connection("tcp", "10.77.0.1", 2049, "10.77.0.2", 700)
    (said,) = sockets.of_connections(found, [ours], {"10.77.0.2"})
    assert said.startswith("10.77.0.2:700 to 10.77.0.1:2049, as the client has it: rtt 0.391 ms, at least 0.1 ms, ACKs")
    assert said.endswith("window scale 7, the peer's 9, 2 segments retransmitted since it began")
    assert not sockets.of_connections(found, [Connection("tcp", "10.77.0.1", 2049, "10.77.0.2", 701)], set())


# --- bcc --------------------------------------------------------------------------------------------------------------


def test_nfsslower_prints_slow_calls_only() -> None:
    """Their mean is no mean of the application, and the note says so."""
    evidence = read(str(DATA / "app_nfsslower.txt"))
    assert evidence.latencies == ()
    assert evidence.notes[0] == "2 READs slower than 10 ms, 35 ms on average, at most 58 ms"
    assert any("no mean of the application is known" in note for note in evidence.notes)


def test_biolatency_bounds_the_mean_of_block_io() -> None:
    """Its buckets are powers of two; of which host and time it is, the reader has to say."""
    evidence = read(str(DATA / "app_biolatency.txt"))
    assert evidence.latencies == ()
    assert evidence.notes == (
        "30 block I/Os of sda took between 0.213 and 0.427 ms on average; if that is the server's storage while the "
        "captures ran, give it with --storage-ms",
    )
    assert isinstance(evidence.record, bcc.Traced)


# --- Beside captures --------------------------------------------------------------------------------------------------


class Scene:
    """Captures of 800 READs of 8 KiB a second, and texts of hosts at that time."""

    def __init__(self, folder: Path) -> None:
        traffic = simulate(threads=4, workers=4, slots=64, count=6000, law="constant", mean_ns={"READ": 5 * MS},
                           mix={"READ": 1.0}, jitter_ns=0, seed=5)  # fmt: skip
        self.captures = [str(path) for path in write_captures(traffic, folder)]
        self.folder = folder
        seconds = int.from_bytes(Path(self.captures[1]).read_bytes()[24:28], "little")  # of the first packet
        self.begin = dt.datetime.fromtimestamp(seconds, dt.UTC)
        self.seconds = int((traffic.received_ns.max() - traffic.sent_ns.min()) / 1e9)
        self.per_s = 6000 / self.seconds

    def iostat(self, *disks: str, host: str = "nfs1", late_s: int = 0, zone: str = "+0000") -> str:
        """A report a second, of rows for these disks."""
        text = _LINUX.replace("nfs1", host)
        for second in range(-1, self.seconds + 1):
            at = self.begin + dt.timedelta(seconds=second + late_s)
            text += f"{at:%Y-%m-%dT%H:%M:%S}{zone}\n{_HEADINGS['12']}\n" + "\n".join(disks) + "\n\n"
        return self.file("iostat.txt", text)

    def disk(self, name: str, reads: float = 1.0, size: float = 1.0, ms: float = 4.0) -> str:
        """A row of a disk that does so many times the READs of NFS, each with so much of its data."""
        per_s = self.per_s * reads
        did = f"{per_s:.2f} {per_s * size * _KIB:.2f}"
        return f"{name} {did} 0.00 0.00 {ms:.2f} 8.00 0.00 0.00 0.00 0.00 0.00 0.00 0.50 40.00"

    def snapshot(self, side: str, host: str) -> list[str]:
        """As an option."""
        text = (
            f"# nfslat snapshot 1\n#### nfslat: host\nsystem: Linux\nhostname: {host}\nzone: +0100\n#### nfslat: end\n"
        )
        return [f"--{side}-snapshot", self.file(f"{side}.txt", text)]

    def file(self, name: str, text: str) -> str:
        (path := self.folder / name).write_text(text)
        return str(path)


_KIB = 8.0


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("hosts"))


def _report(capsys: pytest.CaptureFixture[str], scene: Scene, *arguments: str) -> dict[str, Any]:
    assert cli.main([*scene.captures, *arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _storage(report: dict[str, Any]) -> dict[str, Any] | None:
    return next((row for row in report["stack"] if row["layer"] == "storage"), None)


def test_iostat_is_the_storage_of_that_time(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """In place of --storage-ms: of the device that did what NFS asked for, in the captures' interval."""
    disks = (scene.disk("sda", 0.01), scene.disk("sdb"))
    row = _storage(
        _report(capsys, scene, "--evidence", scene.iostat(*disks), *scene.snapshot("server", "nfs1.example.net"))
    )
    assert row is not None
    assert (row["ms"], row["source"]) == (pytest.approx(4.0), "iostat iostat.txt, sdb")


def test_the_option_says_whose_it_is(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording may stand where a snapshot does, beside two of them."""
    path = scene.iostat(scene.disk("sdb"))
    assert _storage(_report(capsys, scene, "--server-snapshot", path)) is not None
    assert _storage(_report(capsys, scene, "--client-snapshot", path)) is None


@pytest.mark.parametrize(
    ("disks", "why"),
    [
        ([("sdb", 0.3, 1.0)], "no device did what the"),  # memory answered the rest
        ([("sdb", 1.0, 0.1)], "no device did what the"),  # other data
        ([("sdb", 4.0, 1.0)], "no device did what the"),  # it works for others
        ([("sdb", 1.0, 1.0), ("sdc", 1.1, 1.0)], "several devices did what the"),
    ],
)
def test_a_disk_that_did_something_else_is_no_storage_of_ours(
    scene: Scene, disks: list[tuple[str, float, float]], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its figures are named, and how to give the right one."""
    path = scene.iostat(*(scene.disk(*one) for one in disks))
    found = _report(capsys, scene, "--server-snapshot", path)
    assert _storage(found) is None
    (note,) = [note for note in found["evidence"] if why in note]
    assert "sdb r_await 4 ms" in note
    assert "--storage-ms READ=MS" in note


def test_a_device_made_of_others_is_the_storage(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """A logical volume counts what its disk counts, and is what the file system waits for."""
    path = scene.iostat(scene.disk("sdb", ms=3.0), scene.disk("sdb1", ms=3.0), scene.disk("dm-0", ms=4.5))
    row = _storage(_report(capsys, scene, "--server-snapshot", path))
    assert row is not None
    assert (row["ms"], row["source"]) == (pytest.approx(4.5), "iostat iostat.txt, dm-0")


@pytest.mark.parametrize(
    ("text", "side", "why"),
    [
        ({"late_s": 3600}, "server", "its samples are not of the captures' time"),
        ({"late_s": 7}, "server", "or of less than half of it"),
        ({"zone": "+0100"}, "server", "its samples are not of the captures' time"),
        ({"host": "web7"}, "server", "is of another host than the server's snapshot"),
        ({"host": "web7"}, "", "whose it is is not known"),
    ],
)
def test_samples_of_another_time_or_host_are_not_judged(
    scene: Scene, text: dict[str, Any], side: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line says why, and no row of the stack has their figures."""
    path = scene.iostat(scene.disk("sdb"), **text)
    option = f"--{side}-snapshot" if side else "--evidence"
    found = _report(capsys, scene, *scene.snapshot("server", "nfs1"), option, path)
    assert _storage(found) is None
    assert any(why in note for note in found["evidence"])


def test_a_sample_that_is_longer_than_the_captures_is_not_of_their_time() -> None:
    """A mean over a minute says little of the second in it."""
    (one,) = _iostat(_HEADINGS["12"], _ROWS["12"])
    stats = HostStatistics("", 4, (dataclasses.replace(one, step_s=60.0),), 0)
    assert meanwhile(stats, _ns("2026-11-24 10:59:59", 2), None, None, "iostat").why
    assert not meanwhile(stats, _ns("2026-11-24 10:58:59", 90), None, None, "iostat").why


def test_samples_without_a_date_are_not_judged(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """iostat -x 1 prints none; the note says how to run it."""
    path = scene.file("plain.txt", _LINUX + f"{_HEADINGS['12']}\n{scene.disk('sdb')}\n\n" * 20)
    found = _report(capsys, scene, "--server-snapshot", path)
    assert _storage(found) is None
    assert any("run it with S_TIME_FORMAT=ISO" in note for note in found["evidence"])


def _vmstat(scene: Scene, runnable: int) -> str:
    head = (DATA / "app_vmstat.txt").read_text().splitlines()[:2]
    stamps = (scene.begin + dt.timedelta(seconds=second) for second in range(-1, scene.seconds + 1))
    rows = [f"{runnable}  0 0 900 90 900 0 0 0 0 9 9 30 60 5 0 5 {at:%Y-%m-%d %H:%M:%S}" for at in stamps]
    return scene.file("vmstat.txt", "\n".join([*head, *rows]) + "\n")


def test_a_busy_host_is_a_finding(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """With its signs and of little weight: what it costs an operation is not known."""
    snapshot = scene.snapshot("server", "nfs1")
    (path := Path(snapshot[1])).write_text(path.read_text().replace("zone:", "cpus: 4\nzone:"))
    found = _report(capsys, scene, *snapshot, "--server-snapshot", _vmstat(scene, 9))
    (busy,) = [one for one in found["findings"] if one["code"] == "host-busy"]
    assert (busy["layer"], busy["severity"], busy["share"]) == ("server", "info", None)
    assert busy["evidence"]["signs"] == [
        "9.0 runnable processes on 4 processors",
        "processors that were idle 5.0 % of the time",
        "5.0 % of its processors' time taken by the hypervisor",
    ]


def test_a_host_that_is_not_busy_is_none(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Few runnable processes, and figures of the client are not those of the server."""
    text = Path(_vmstat(scene, 2)).read_text().replace(" 30 60 5 0 5 ", " 30 0 70 0 0 ")
    found = _report(capsys, scene, "--client-snapshot", scene.file("idle.txt", text))
    assert not any(one["code"] == "host-busy" for one in found["findings"])


def test_ss_of_either_host_needs_no_name(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """A connection is the same where all four of its numbers are."""
    found = _report(capsys, scene, "--evidence", str(DATA / "app_ss.txt"))
    (note,) = [note for note in found["evidence"] if "as the client has it" in note]
    assert "window scale 7" in note


def test_an_anonymous_report_has_no_address_of_ss(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of its connections become the pseudonyms of the captures."""
    found = _report(capsys, scene, "--evidence", str(DATA / "app_ss.txt"), "--anonymize")
    (note,) = [note for note in found["evidence"] if "as the client has it" in note]
    assert "10.77.0" not in note


# --- JSON of sysstat --------------------------------------------------------------------------------------------------


def test_json_of_iostat_is_read_as_its_text() -> None:
    """What sysstat 12.6 wrote: host, processors, stamps with their zone; the first report is since the boot."""
    found = read(str(DATA / "app_iostat.json"))
    assert (found.kind, found.host) == ("host statistics", "nfs1")
    stats = found.record
    assert isinstance(stats, HostStatistics)
    assert (stats.cpus, stats.unreadable, len(stats.samples)) == (2, 0, 3)
    assert {one.tool for one in stats.samples} == {"iostat"}
    assert {one.name for one in stats.samples} == {"vda"}
    assert all(one.step_s == 1.0 and one.zone_min == 0 for one in stats.samples)
    assert {"r/s", "w/s", "rkB/s", "r_await", "w_await"} <= stats.samples[0].values.keys()


def test_json_that_was_cut_is_read_as_far_as_it_goes() -> None:
    """A signal ends iostat in the middle of its JSON."""
    text = (DATA / "app_iostat.json").read_text()
    whole = host_statistics.parse(text.splitlines(keepends=True))
    cut = host_statistics.parse(text[: text.index('"timestamp"', len(text) * 3 // 4)].splitlines(keepends=True))
    assert cut.samples == whole.samples[:-1]
    assert (cut.host, cut.cpus) == (whole.host, whole.cpus)


def test_json_without_breaks_of_lines_is_the_same() -> None:
    """As jq -c writes it."""
    text = (DATA / "app_iostat.json").read_text()
    one_line = json.dumps(json.loads(text))
    assert host_statistics.parse([one_line]) == host_statistics.parse(text.splitlines(keepends=True))
