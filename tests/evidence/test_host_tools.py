"""What iostat, vmstat, mpstat, pidstat, ss, nfsslower and biolatency print, and OSWatcher archives of it.

Texts of sysstat 12 and procps are as these print them; those of older versions, of Solaris and of OSWatcher are made by
hand after their manuals and public samples.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from queue_captures import write_captures
from queues import MS, simulate

from nfslat.cli import main as cli
from nfslat.evidence import sockets
from nfslat.evidence.host_samples import meanwhile
from nfslat.evidence.host_statistics import HostStatistics, Sample
from nfslat.model.tables import Connection

DATA = Path(__file__).parent / "data"
_LINUX = "Linux 6.1.0-18-amd64 (nfs1) \t2026-11-24 \t_x86_64_\t(4 CPU)\n\n"


def _at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


_HEADINGS = "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz aqu-sz %util"


def _sample(second: int, reads: float, ms: float, step_s: float = 1.0) -> Sample:
    values = {"r/s": reads, "rkB/s": 8 * reads, "r_await": ms}
    return Sample("iostat", "sdb", values, _at(f"2026-11-24 12:00:0{second}"), 60, step_s)


def _ns(text: str, seconds: float) -> tuple[int, int]:
    first = int(_at(text).replace(tzinfo=dt.UTC).timestamp() * 1e9)
    return first, first + int(seconds * 1e9)


def test_means_are_weighted_by_requests() -> None:
    """A second with one slow request is not one with a thousand."""
    samples = _sample(1, 100, 4.0), _sample(2, 10, 92.0)
    found = meanwhile(HostStatistics("", 4, samples), _ns("2026-11-24 11:00:00", 2), None, None, "iostat")
    assert found.disks[0].read_ms == pytest.approx((100 * 4 + 10 * 92) / 110)


# --- ss ---------------------------------------------------------------------------------------------------------------


def test_connections_of_ss_are_joined_by_their_addresses() -> None:
    """What is of no connection of the captures is not shown."""
    found = sockets.every((DATA / "app_ss.txt").read_text().splitlines(keepends=True))
    ours = Connection("tcp", "10.77.0.1", 2049, "10.77.0.2", 700)
    (said,) = sockets.of_connections(found, [ours], {"10.77.0.2"})
    assert said.startswith("10.77.0.2:700 to 10.77.0.1:2049, as the client has it: rtt 0.391 ms, at least 0.1 ms, ACKs")
    assert said.endswith("window scale 7, the peer's 9, 2 segments retransmitted since it began")
    assert not sockets.of_connections(found, [Connection("tcp", "10.77.0.1", 2049, "10.77.0.2", 701)], set())


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
            text += f"{at:%Y-%m-%dT%H:%M:%S}{zone}\n{_HEADINGS}\n" + "\n".join(disks) + "\n\n"
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
    stats = HostStatistics("", 4, (_sample(1, 100, 4.0, step_s=60.0),))
    assert meanwhile(stats, _ns("2026-11-24 10:59:59", 2), None, None, "iostat").why
    assert not meanwhile(stats, _ns("2026-11-24 10:58:59", 90), None, None, "iostat").why


def test_samples_without_a_date_are_not_judged(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """iostat -x 1 prints none; the note says how to run it."""
    path = scene.file("plain.txt", _LINUX + f"{_HEADINGS}\n{scene.disk('sdb')}\n\n" * 20)
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
