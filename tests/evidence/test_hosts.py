"""What hosts print: mountstats, nfsiostat, /proc/net/rpc/nfsd, pool_stats; and hostile text for every reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from captures import SHARED, needs_captures
from hypothesis import given, settings
from hypothesis import strategies as st

from nfslat.errors import InputError
from nfslat.evidence import configured, host, mountstats, nfsd, nfsiostat, pools, sysctl
from nfslat.evidence.records import Mount, OpStats, Pool, Xprt

DATA = Path(__file__).parent / "data"
TRUTHS = sorted(SHARED.glob("lab/*/truth.json"))


def _data(name: str) -> str:
    return (DATA / name).read_text()


def _mount(xprt: str = "", ops: str = "READ: 10 10 0 1 2 30 40 80", opts: str = "rw,vers=3", age: int = 5) -> Mount:
    text = f"device s:/e mounted on /m with fstype nfs statvers=1.1\n\topts:\t{opts}\n\tage:\t{age}\n"
    (mount,) = mountstats.read(f"{text}{xprt}\n\tper-op statistics\n\t  {ops}\n\n", "m")
    return mount


# mountstats


@needs_captures
@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.parent.name)
def test_mountstats_of_the_lab_give_its_figures(path: Path) -> None:
    """Counts and means of every operation between two readings are those that the lab computed itself."""
    truth: dict[str, Any] = json.loads(path.read_text())
    before, after = (mountstats.read(truth[when]["mountstats"], when) for when in ("before", "after"))
    (mount,), notes = mountstats.difference(before, after)
    assert notes == []
    done = {op: stats for op, stats in mount.ops.items() if stats.ops}
    assert done.keys() == truth["mountstats_ops_delta"].keys()
    means = {(each.op, each.layer): each.mean_ms for each in mountstats.latencies(mount, "m")}
    for op, want in truth["mountstats_ops_delta"].items():
        assert (done[op].ops, done[op].transmissions, done[op].timeouts) == (
            want["ops"],
            want["trans"],
            want["timeouts"],
        )
        assert means[op, "slot wait"] == pytest.approx(want["avg_queue_ms"], abs=0.0006)
        assert means[op, "client wire"] == pytest.approx(want["avg_rtt_ms"], abs=0.0006)
        assert means[op, "client"] == pytest.approx(want["avg_exe_ms"], abs=0.0006)


@needs_captures
@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.parent.name)
def test_pools_of_the_lab_tell_who_waits_for_a_thread(path: Path) -> None:
    """Hardly a wake-up for a queued request where threads were the limit, nearly always one where they were not."""
    truth = json.loads(path.read_text())
    before, after = (pools.read(truth[when]["pool_stats"], when) for when in ("before", "after"))
    delta, notes = pools.difference(before, after)
    share = pools.woken_share(delta)
    if truth["cause"]["where"] == "server-restart":
        assert delta == ()
        assert "began anew" in notes[0]
    elif truth["cause"]["where"] == "server-threads":
        assert share is not None
        assert share < 0.05
    else:
        assert share is not None
        assert share > 0.85


@needs_captures
@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.parent.name)
def test_nfsd_of_the_lab(path: Path) -> None:
    """The thread count is the one that the lab configured, and the calls are at least those that the client sent."""
    truth = json.loads(path.read_text())
    before, after = (nfsd.read(truth[when]["server_rpc_nfsd"], when) for when in ("before", "after"))
    delta, notes = nfsd.difference(before, after)
    assert notes == []
    assert delta is not None
    assert delta.threads == truth["environment"]["nfsd_threads"]
    wanted = truth["mountstats_ops_delta"]
    assert delta.calls.get("WRITE", 0) >= wanted.get("WRITE", {"ops": 0})["ops"]
    assert delta.rpc_calls >= sum(each["ops"] for each in wanted.values())


def test_each_connection_of_nconnect_is_told() -> None:
    """Four xprt lines are four connections, with the growth of their counters and their greatest use of slots."""
    before, after = (mountstats.read(_data(f"nconnect4-{when}.mountstats"), "m") for when in ("before", "after"))
    (mount,), notes = mountstats.difference(before, after)
    assert notes == []
    assert [xprt.source_port for xprt in mount.xprts] == [778, 994, 818, 771]
    assert [xprt.sends for xprt in mount.xprts] == [486, 485, 486, 479]
    assert [xprt.max_slots for xprt in mount.xprts] == [2, 2, 2, 2]
    assert mount.options["nconnect"] == "4"
    assert mount.age_s == 10
    assert mountstats.mean_backlog(mount.xprts[0]) == 0


def test_session_slots_do_not_show_in_the_backlog() -> None:
    """An NFSv4.1 session with too few slots has a long slot wait, and a backlog of 0."""
    (mount,) = mountstats.read(_data("session.mountstats"), "m")
    assert mount.version == "4.1"
    wait = next(each for each in mountstats.latencies(mount, "m") if (each.layer, each.op) == ("slot wait", "READ"))
    assert wait.mean_ms == pytest.approx(618.1, abs=0.1)
    assert wait.count == 271
    assert mountstats.mean_backlog(mount.xprts[0]) == 0


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("tcp 778 1 2 0 7 490 489 1 543 3 2 5 53", Xprt("tcp", 778, 490, 489, 1, 543, 3, 2, 5, 53, 2, 7)),
        ("tcp 778 1 2 0 -1 490 489 1 543 3", Xprt("tcp", 778, 490, 489, 1, 543, 3, connects=2, idle_s=-1)),
        ("udp 665 1 490 489 1 543 3 16 5 53", Xprt("udp", 665, 490, 489, 1, 543, 3, 16, 5, 53)),
        ("udp 665 1 490 489 1 543 3", Xprt("udp", 665, 490, 489, 1, 543, 3)),
        (
            "rdma 0 0 1 0 7 490 489 1 543 3 11 12 13 14 15 16 17 18 19 20",
            Xprt("rdma", 0, 490, 489, 1, 543, 3, connects=1, idle_s=7),
        ),
        ("local 1 2 0 7 490 489 1 543 3 2 5 53", Xprt("local", 0, 490, 489, 1, 543, 3, 2, 5, 53, 2, 7)),
    ],
)
def test_transports(line: str, want: Xprt) -> None:
    """The fields of each transport are where its kernel code prints them, with and without the newer ones."""
    assert _mount(f"\txprt:\t{line}").xprts == (want,)


def test_what_is_no_nfs_is_passed_over() -> None:
    """Other file systems, transports from the future and a kernel without error counts do no harm."""
    text = (
        "device proc mounted on /proc with fstype proc\n"
        "device nfsd mounted on /proc/fs/nfsd with fstype nfsd\n"
        "no device mounted on / with fstype overlay\n"
        "device s:/a\\040b mounted on /m\\134n\\012 with fstype nfs4 statvers=1.0\n"
        "\topts:\trw,vers=4,minorversion=1\n\txprt:\tquic 1 2 3\n\tper-op statistics\n\t READ: 1 1 0 1 2 3 4 5\n\n"
        "device tmpfs mounted on /tmp with fstype tmpfs\n"
    )
    (mount,) = mountstats.read(text, "m")
    assert (mount.device, mount.path, mount.version, mount.xprts) == ("s:/a b", "/m\\n\\012", "4.1", ())
    assert mount.ops["READ"] == OpStats(1, 1, 0, 1, 2, 3, 4, 5, None)


@pytest.mark.parametrize("ops", ["READ: 1 2 3", "READ: 1 1 0 1 2 3 4 x", "READ: 1 1 0 1 2 3 4 ²", "READ:"])
def test_a_line_that_no_kernel_prints_is_named(ops: str) -> None:
    """A line that is cut short, or has something else than counters, is an error that names text and line."""
    with pytest.raises(InputError, match="m, line 6: "):
        _mount(ops=ops)


def test_reads_and_writes_together_are_weighted_by_their_number() -> None:
    """The mean over reads and writes is the sum of the times over the sum of the operations, of these alone."""
    mount = _mount(ops="READ: 10 10 0 0 0 100 50 150\n\t WRITE: 30 31 0 0 0 0 90 90\n\t GETATTR: 9 9 0 0 0 9 9 9")
    both = {each.layer: (each.mean_ms, each.count) for each in mountstats.latencies(mount, "m") if each.op == ""}
    assert both == {"client": (6.0, 40), "slot wait": (2.5, 40), "client wire": (3.5, 40)}


def test_mounts_that_come_go_or_begin_anew_are_told() -> None:
    """A remount, a mount that is gone and one that is new each get a note; what began anew has no figures."""
    old, new = _mount(age=900), _mount(age=4)
    assert mountstats.difference([old], [new])[0] == ()
    assert "was mounted again" in mountstats.difference([old], [new])[1][0]
    reset = _mount(ops="READ: 9 9 0 1 2 30 40 80", age=901)
    assert "was mounted again" in mountstats.difference([old], [reset])[1][0]
    assert "no longer mounted" in mountstats.difference([old], [])[1][0]
    (came,), notes = mountstats.difference([], [new])
    assert came.ops["READ"].ops == 10
    assert "mounted in between" in notes[0]
    _, notes = mountstats.difference([old], [_mount(age=901, opts="rw,vers=3,timeo=10")])
    assert "other options" in notes[0]
    (fewer,), notes = mountstats.difference([_mount("\txprt:\ttcp 1 1 1 0 0 5 5 0 5 0")], [_mount()])
    assert fewer.xprts == ()
    assert "other connections" in notes[0]


_COUNTS = st.lists(st.integers(0, 2**63), min_size=8, max_size=9)


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,12}", fullmatch=True), _COUNTS, max_size=5), st.data())
def test_a_difference_and_what_was_before_add_up(counts: dict[str, list[int]], data: st.DataObject) -> None:
    """Whatever is counted: the earlier reading plus the difference is the later reading."""
    more = {op: [each + data.draw(st.integers(0, 9)) for each in values] for op, values in counts.items()}
    first, last = (
        _mount(ops="\n\t".join(f"{op}: {' '.join(map(str, values))}" for op, values in each.items()))
        for each in (counts, more)
    )
    (delta,), _ = mountstats.difference([first], [last])
    for op, stats in delta.ops.items():
        assert [a + b for a, b in zip(counts[op], astuple(stats), strict=False)] == more[op]


# nfsiostat


def test_nfsiostat_leaves_out_what_was_before() -> None:
    """Several reports: the one since the mount is left out, the others are weighted by their operations."""
    reports = nfsiostat.parse(_data("nfsiostat-new.txt").splitlines())
    assert [(each.path, each.since_mount, each.backlog) for each in reports] == [
        ("/mnt/my db", True, 0.25),
        ("/mnt/my db", False, 12.5),
        ("/mnt/my db", False, 0.0),
    ]
    means = {(each.op, each.layer): each.mean_ms for each in nfsiostat.latencies(reports)}
    assert means["READ", "client wire"] == pytest.approx((300 * 1 + 100 * 3) / 400)
    assert means["WRITE", "slot wait"] == 40
    assert means["", "client"] == pytest.approx((300 * 41 + 100 * 42 + 100 * 5) / 500)
    assert {(each.count, each.source) for each in nfsiostat.latencies(reports)} == {(None, "nfsiostat /mnt/my db")}


@pytest.mark.parametrize("name", ["nfsiostat-old.txt", "nfsiostat-lines.txt"])
def test_nfsiostat_of_old_versions(name: str) -> None:
    """Without the queue column there is no slot wait; numbers may stand on lines of their own."""
    reports = nfsiostat.parse(_data(name).splitlines())
    assert reports[0].backlog == 0
    means = {(each.op, each.layer): each.mean_ms for each in nfsiostat.latencies(reports)}
    assert means["READ", "client wire"] == 5.167
    assert means["WRITE", "client"] == 331.458
    assert {each.source for each in nfsiostat.latencies(reports)} == {"nfsiostat /mnt/nfs, since it was mounted"}
    assert not any(layer == "slot wait" for _, layer in means)


# nfsd and pools


def test_calls_of_all_versions_are_added_up() -> None:
    """READ is the procedure of NFSv3 and the operation of NFSv4; longer lists of newer kernels are read too."""
    text = (
        "rc 0 1 2\nio 10 20\nth 16 0 0.000\nnet 9 0 9 3\nrpc 9 1 1 0 0\n"
        "proc3 22 0 4 0 0 0 0 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\nproc4 2 1 5\n"
        f"proc4ops 80 {' '.join('5' if op == 25 else '0' for op in range(79))} 8\nwdeleg_getattr 0\n"
    )
    stats = nfsd.read(text, "n")
    assert stats.calls == {"GETATTR": 4, "READ": 12, "NULL": 1, "COMPOUND": 5, "OP79": 8}
    assert (stats.threads, stats.read_bytes, stats.written_bytes, stats.tcp_connections) == (16, 10, 20, 3)
    assert (stats.rpc_calls, stats.bad_calls) == (9, 1)


def test_counters_of_the_server_that_went_back_are_left_out() -> None:
    """After a restart of nfsd there is no difference, and a note says why."""
    text = "th 16 0\nnet 9 0 9 3\nrpc {} 0 0 0 0\n"
    late, early = nfsd.read(text.format(9), "n"), nfsd.read(text.format(8), "n")
    delta, notes = nfsd.difference(late, early)
    assert delta is None
    assert "went back" in notes[0]


def test_pools_of_old_kernels_have_one_more_column() -> None:
    """Columns go by their heading."""
    heading = "# pool packets-arrived sockets-enqueued threads-woken overloads-avoided threads-timedout"
    assert pools.read(f"{heading}\n0 5 4 3 2 1\n1 6 5 4 3 2\n", "p") == (Pool(0, 5, 4, 3, 1), Pool(1, 6, 5, 4, 2))
    assert pools.woken_share(()) is None


# hostile text

_READERS: list[Callable[[str], object]] = [
    lambda text: mountstats.read(text, "t"),
    lambda text: nfsiostat.parse(text.split("\n")),
    lambda text: nfsd.read(text, "t"),
    lambda text: pools.read(text, "t"),
    lambda text: sysctl.read(("t:1", line) for line in text.split("\n")),
    lambda text: configured.collect(configured.nfs_conf(("t:1", line) for line in text.split("\n"))),
    lambda text: configured.collect(configured.modprobe(("t:1", line) for line in text.split("\n"))),
    host.addresses,
    host.clients,
    host.mounts,
]
_TEXTS = [path.read_text() for path in sorted(DATA.glob("*")) if path.suffix in (".txt", ".mountstats")]
_TEXTS = [text for text in _TEXTS if text.startswith(("# nfslat", "device", "\nserver:"))]


def _problem(reader: Callable[[str], object], text: str) -> str:
    """What is wrong with `text`, as its reader says it; "" where it was read."""
    try:
        reader(text)
    except InputError as error:
        return str(error)
    return ""


@settings(max_examples=400)
@given(st.sampled_from(_READERS), st.sampled_from(_TEXTS), st.data())
def test_damaged_text_is_read_or_refused(reader: Callable[[str], object], text: str, data: st.DataObject) -> None:
    """Text that is cut off or overwritten anywhere is read, or refused in one line: never a traceback."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    noise = data.draw(st.one_of(st.just(""), st.text(max_size=20), st.sampled_from(["9" * 5000, " -1 ", "nan", "\n"])))
    assert "\n" not in _problem(reader, text[:start] + noise + text[data.draw(st.sampled_from([start, end])) :])


@given(st.sampled_from(_READERS), st.text(max_size=200))
def test_foreign_text_is_read_or_refused(reader: Callable[[str], object], text: str) -> None:
    """Any text at all is read, or refused in one line."""
    assert "\n" not in _problem(reader, text)
