"""Counters of a kernel in two snapshots -> how busy the host was, and its disks, while captures ran."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_captures import write_captures
from queues import MS, simulate

from nfslat.cli import main as cli
from nfslat.evidence import counters, interval, snapshot
from nfslat.evidence.records import Disk, Interval, Snapshot

_OPS, _KIB = 6000, 8


def _disk(name: str, reads: int, ms: int, kib: int) -> str:
    return f"   8      16 {name} {reads} 0 {2 * kib} {ms} 5 0 80 10 0 {ms} {ms} 0 0 0 0 0 0"


class Host:
    """A server at two instants around captures of READs."""

    def __init__(self, folder: Path) -> None:
        traffic = simulate(threads=4, workers=4, slots=64, count=_OPS, law="constant", mean_ns={"READ": 5 * MS},
                           mix={"READ": 1.0}, jitter_ns=0, seed=5)  # fmt: skip
        self.folder = folder
        self.captures = [str(path) for path in write_captures(traffic, folder)]
        seconds = int.from_bytes(Path(self.captures[1]).read_bytes()[24:28], "little")  # of the first packet
        self.begin = dt.datetime.fromtimestamp(seconds, dt.UTC)
        self.seconds = int((traffic.received_ns.max() - traffic.sent_ns.min()) / 1e9)

    def taken(self, at_s: int, *disks: str, idle: int = 0, waited_us: int = 0, steal: int = 0) -> str:
        """A snapshot so many seconds after the first call."""
        at = self.begin + dt.timedelta(seconds=at_s)
        text = "\n".join([
            "# nfslat snapshot 1", "#### nfslat: host", "system: Linux", "hostname: nfs1", "boot: b", "cpus: 4",
            f"taken: {at:%Y-%m-%dT%H:%M:%SZ}", "zone: +0100",
            "#### nfslat: /proc/stat", f"cpu  {1000 - idle - steal} 0 0 {idle} 0 0 0 {steal} 0 0",
            "#### nfslat: /proc/vmstat", "pgmajfault 38612", "pswpin 0",
            "#### nfslat: /proc/diskstats", "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", *disks,
            "#### nfslat: /proc/pressure/cpu", f"some avg10=99.63 avg60=94.27 avg300=83.41 total={waited_us}",
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0", "#### nfslat: end", "",
        ])  # fmt: skip
        (path := self.folder / f"{at_s}.txt").write_text(text)
        return str(path)

    def around(self, before: int = -1, after: int = 1, ms: int = 4, waited_us: int = 0) -> list[str]:
        """Two snapshots as options, between which a disk did what NFS asked for."""
        end = self.seconds + after
        first = self.taken(before, _disk("sdb", 1000, 500, 9000))
        last = self.taken(end, _disk("sdb", 1000 + _OPS, 500 + ms * _OPS, 9000 + _OPS * _KIB), waited_us=waited_us)
        return [one for path in (first, last) for one in ("--server-snapshot", path)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return Host(tmp_path_factory.mktemp("counters"))


def _between(host: Host, *, waited_us: int = 0) -> Interval:
    first, last = host.around(waited_us=waited_us)[1::2]
    return interval.difference(snapshot.read(first), snapshot.read(last))


def test_two_snapshots_give_disks_and_load(host: Host) -> None:
    """Requests, sectors of 512 bytes and ms of /proc/diskstats; the share of time in which a task waited."""
    seconds = host.seconds + 2
    found = _between(host, waited_us=seconds * 500_000)
    assert found.disks == (Disk("sdb", _OPS, 0, _OPS * _KIB, 0, 4.0, None, None),)
    assert found.load is not None
    assert found.load.cpu_pressure == pytest.approx(0.5)
    assert found.load.cpus == 4
    assert found.span is not None
    assert found.span.zone_min == 0


def test_ticks_are_shares(host: Host) -> None:
    """Idle with the wait for disks, and what a hypervisor took."""
    first, last = host.taken(-1), host.taken(5, idle=100, steal=50)
    before = snapshot.read(first)
    before = replace(before, kernel={**before.kernel, "cpu.user": 0})
    load = interval.difference(before, snapshot.read(last)).load
    assert load is not None
    assert (load.idle, load.steal) == (pytest.approx(0.1), pytest.approx(0.05))


_SNMP = "Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 {sent} {again}\n"


@pytest.mark.parametrize(
    ("sent", "again", "share"), [(19_800, 200, 0.01), (20_000, 0, 0.0), (900, 100, None), (-5_000, 3, None)]
)
def test_what_a_host_sent_again_is_a_share_of_what_it_sent(sent: int, again: int, share: float | None) -> None:
    """OutSegs has none of what was sent again; of few segments, or counters that began anew, there is no share."""
    first = counters.segments(_SNMP.format(sent=7_000, again=3))
    last = counters.segments(_SNMP.format(sent=7_000 + sent, again=3 + again))
    assert first == {"tcp.RtoAlgorithm": 1, "tcp.OutSegs": 7_000, "tcp.RetransSegs": 3}
    before, after = (
        Snapshot("s", "", taken=f"2026-11-24T12:00:0{at}Z", kernel=one) for at, one in enumerate((first, last))
    )
    assert interval.difference(before, after).resent_share == share
    assert counters.segments("Tcp: OutSegs\n") == counters.segments("Udp: OutSegs\nUdp: 3\n") == {}


def test_counters_that_went_backwards_tell_nothing(host: Host) -> None:
    """Another disk has the name now."""
    first, last = host.taken(-1, _disk("sdb", 1000, 500, 9000)), host.taken(9, _disk("sdb", 10, 5, 90))
    assert interval.difference(snapshot.read(first), snapshot.read(last)).disks == ()


def _report(capsys: pytest.CaptureFixture[str], host: Host, *arguments: str) -> dict[str, Any]:
    assert cli.main([*host.captures, *arguments, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_disks_of_the_interval_are_the_storage(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Snapshots before and after the captures tell what iostat would, at no cost."""
    found = _report(capsys, host, *host.around(waited_us=10**9))
    (storage,) = [row for row in found["stack"] if row["layer"] == "storage"]
    assert (storage["ms"], storage["source"].startswith("diskstats of ")) == (pytest.approx(4.0), True)
    (busy,) = [one for one in found["findings"] if one["code"] == "host-busy"]
    assert busy["evidence"]["signs"][-1] == "tasks that waited for a processor 100.0 % of the time"


def test_a_recording_stands_beside_two_snapshots(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Three files of the server: the first two are before and after, whatever the third is."""
    (extra := host.folder / "vmstat.txt").write_text((Path(__file__).parent / "data" / "app_vmstat.txt").read_text())
    found = _report(capsys, host, *host.around(), "--server-snapshot", str(extra))
    assert any(row["layer"] == "storage" for row in found["stack"])
    assert any("vmstat.txt: its samples are not of the captures' time" in note for note in found["evidence"])


@pytest.mark.parametrize(("before", "after"), [(-3600, 1), (-1, 3600), (100, 200)])
def test_snapshots_of_another_time_do_not(
    host: Host, before: int, after: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an hour in which the captures are seconds, or of afterwards."""
    found = _report(capsys, host, *host.around(before, after))
    assert not any(row["layer"] == "storage" for row in found["stack"])
    assert any("were not taken just before and after the captures" in note for note in found["evidence"])


@given(st.text(max_size=200), st.sampled_from([counters.disks, counters.ticks, counters.pages]))
def test_other_text_has_no_counters(text: str, read: Any) -> None:
    """Whatever stands there: figures or nothing."""
    assert all(value >= 0 for value in read(text).values())
